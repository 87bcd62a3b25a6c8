//! The file `control`: which log this is, and where recovery begins. Two blocks, at offsets 0 and 65536, written in turn, each as one durable write
//! of 4096 bytes; the newest one that verifies counts. Little-endian:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `REDOLOG` and a zero |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC-32C of the whole block with this field zero |
//! | 16 | 8 | log id, random |
//! | 24 | 8 | sequence number: the block with the higher one is newer |
//! | 32 | 8 | checkpoint LSN: recovery begins there |
//! | 40 | 8 | epoch of the frames at the checkpoint |
//! | 48 | 8 | epoch in force: the highest ever begun |
//! | 56 | 4 | page size |
//! | 60 | 4 | length of the payload |
//! | 64 | 8 | bytes of stream in a segment |
//! | 72 | | payload, opaque here; zeros |
//!
//! The first 16 bytes stay the same in every format, so that a newer one is recognised and not taken for damage.
//! CTL-1: a write never touches the newest valid block, so a torn one falls back to the state before.
//! CTL-2: the checkpoint and the epoch never go back.
use crate::base::{Error, PAGE_SIZE, Result, poison};
use redolith_disk::{AlignedBuf, Create, Disk, File, OpenHow};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"REDOLOG\0";
/// Of the data directory. 1 had one undo file, and no frames of kind PAD; it becomes 2 with the first write of a program that knows 2, which makes the second file before.
pub(super) const FORMAT: u32 = 2;
const BLOCK: usize = 4096;
const BLOCK_AT: [u64; 2] = [0, 65536];
const FILE_BYTES: u64 = 65536 + 4096;
const HEAD: usize = 72;
/// The longest checkpoint payload.
pub const CHECKPOINT_PAYLOAD_MAX: usize = 2048;
const _: () = assert!(HEAD + CHECKPOINT_PAYLOAD_MAX <= BLOCK);

/// What a block says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// What wrote it.
    pub format: u32,
    pub log_id: u64,
    pub sequence: u64,
    pub checkpoint: u64,
    pub checkpoint_epoch: u64,
    pub epoch: u64,
    pub segment_bytes: u64,
    pub payload: Vec<u8>,
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"))
}
fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("8 bytes"))
}
fn crc(b: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&b[..12]), &[0; 4]), &b[16..])
}

impl State {
    fn encode(&self) -> AlignedBuf {
        assert!(self.payload.len() <= CHECKPOINT_PAYLOAD_MAX);
        let mut b = AlignedBuf::new(BLOCK);
        b[..8].copy_from_slice(MAGIC);
        b[8..12].copy_from_slice(&self.format.to_le_bytes());
        let numbers = [self.log_id, self.sequence, self.checkpoint, self.checkpoint_epoch, self.epoch];
        for (i, n) in numbers.iter().enumerate() {
            b[16 + i * 8..24 + i * 8].copy_from_slice(&n.to_le_bytes());
        }
        b[56..60].copy_from_slice(&(PAGE_SIZE as u32).to_le_bytes());
        b[60..64].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        b[64..72].copy_from_slice(&self.segment_bytes.to_le_bytes());
        b[HEAD..HEAD + self.payload.len()].copy_from_slice(&self.payload);
        let crc = crc(&b);
        b[12..16].copy_from_slice(&crc.to_le_bytes());
        b
    }
    /// `None` if the block is damaged or was never written.
    fn decode(b: &[u8]) -> Result<Option<State>> {
        if &b[..8] != MAGIC || u32_at(b, 12) != crc(b) {
            return Ok(None);
        }
        let (format, page_size) = (u32_at(b, 8), u32_at(b, 56));
        if !(1..=FORMAT).contains(&format) {
            return Err(Error::Incompatible(format!(
                "the data directory has format {format}, this program reads formats 1 to {FORMAT}: open the data directory with the version that wrote it"
            )));
        }
        if page_size as usize != PAGE_SIZE {
            return Err(Error::Incompatible(format!("the data directory has pages of {page_size} bytes, this program's have {PAGE_SIZE}")));
        }
        let len = u32_at(b, 60) as usize;
        if len > CHECKPOINT_PAYLOAD_MAX {
            return Ok(None);
        }
        Ok(Some(State {
            format,
            log_id: u64_at(b, 16),
            sequence: u64_at(b, 24),
            checkpoint: u64_at(b, 32),
            checkpoint_epoch: u64_at(b, 40),
            epoch: u64_at(b, 48),
            segment_bytes: u64_at(b, 64),
            payload: b[HEAD..HEAD + len].to_vec(),
        }))
    }
}

pub(super) struct Control {
    file: Arc<dyn File>,
    path: PathBuf,
    state: State,
}

impl Control {
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("control")
    }
    /// Creates the file with its first block; it appears under its name only when it is durable, and the folder's entry with it.
    pub fn create(disk: &dyn Disk, dir: &Path, state: State) -> Result<Control> {
        let (path, making) = (Control::path(dir), dir.join("control.new"));
        let make = || -> std::io::Result<Arc<dyn File>> {
            let file = disk.open(&making, OpenHow { create: Create::Create, direct: true })?;
            file.set_len(FILE_BYTES)?;
            let zeros = AlignedBuf::new(BLOCK);
            for at in BLOCK_AT {
                file.write_at(&zeros, at)?;
            }
            file.write_at(&state.encode(), BLOCK_AT[state.sequence as usize & 1])?;
            file.sync()?;
            disk.rename(&making, &path)?;
            disk.sync_dir(dir)?;
            Ok(file)
        };
        let file = make().map_err(|e| Error::io(path.display(), &e))?;
        Ok(Control { file, path, state })
    }
    pub fn open(disk: &dyn Disk, dir: &Path) -> Result<Control> {
        let path = Control::path(dir);
        let fail = |e: std::io::Error| Error::io(path.display(), &e);
        let file = disk.open(&path, OpenHow { create: Create::Existing, direct: true }).map_err(fail)?;
        let mut newest: Option<State> = None;
        for at in BLOCK_AT {
            let mut b = AlignedBuf::new(BLOCK);
            file.read_at(&mut b, at).map_err(fail)?;
            if let Some(state) = State::decode(&b)?
                && newest.as_ref().is_none_or(|n| n.sequence < state.sequence)
            {
                newest = Some(state);
            }
        }
        match newest {
            Some(state) => Ok(Control { file, path, state }),
            None => Err(Error::Io {
                what: path.display().to_string(),
                why: "both checkpoint blocks are damaged: the log cannot be read; restore a backup".into(),
                full: false,
            }),
        }
    }
    pub fn state(&self) -> &State {
        &self.state
    }
    /// Makes `change` of the state durable. A disk that fails here cannot say which state it holds: the process ends.
    fn write(&mut self, change: impl FnOnce(&mut State)) {
        let mut next = self.state.clone();
        change(&mut next);
        next.sequence += 1;
        next.format = FORMAT;
        // CTL-2
        assert!(next.checkpoint >= self.state.checkpoint && next.epoch >= self.state.epoch && next.checkpoint_epoch <= next.epoch);
        if let Err(e) = self.file.write_durable_at(&next.encode(), BLOCK_AT[next.sequence as usize & 1]) {
            poison(&format!("writing {}: {e}", self.path.display()));
        }
        self.state = next;
    }
    /// Begins a new epoch and returns it.
    pub fn raise_epoch(&mut self) -> u64 {
        self.write(|s| s.epoch += 1);
        self.state.epoch
    }
    pub fn checkpoint(&mut self, lsn: u64, epoch: u64, payload: &[u8]) {
        self.write(|s| {
            (s.checkpoint, s.checkpoint_epoch) = (lsn, epoch);
            s.payload.clear();
            s.payload.extend_from_slice(payload);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::testing::MemDisk;
    use super::*;

    fn first() -> State {
        State {
            format: FORMAT,
            log_id: 7,
            sequence: 0,
            checkpoint: 4096,
            checkpoint_epoch: 1,
            epoch: 1,
            segment_bytes: 1 << 20,
            payload: b"start".to_vec(),
        }
    }
    fn made() -> (MemDisk, Control) {
        let disk = MemDisk::default();
        disk.create_dir_all(Path::new("/redo")).unwrap();
        let c = Control::create(&disk, Path::new("/redo"), first()).unwrap();
        (disk, c)
    }
    fn reopened(disk: &MemDisk) -> Result<State> {
        Control::open(disk, Path::new("/redo")).map(|c| c.state.clone())
    }

    #[test]
    fn round_trip() {
        let (disk, mut c) = made();
        assert_eq!(reopened(&disk).unwrap(), first());
        c.checkpoint(5000, 1, b"first");
        assert_eq!(c.raise_epoch(), 2);
        c.checkpoint(6000, 2, &[9; CHECKPOINT_PAYLOAD_MAX]);
        let s = reopened(&disk).unwrap();
        assert_eq!((s.checkpoint, s.checkpoint_epoch, s.epoch, s.sequence), (6000, 2, 2, 3));
        assert_eq!(s.payload, [9; CHECKPOINT_PAYLOAD_MAX]);
    }

    /// CTL-1: whatever part of the newest block is lost, the state before is read.
    #[test]
    fn a_torn_write_falls_back() {
        let (disk, mut c) = made();
        for n in 1..=4u64 {
            let before = disk.content(Path::new("/redo/control"));
            c.checkpoint(4096 + n, 1, &n.to_le_bytes());
            let after = disk.content(Path::new("/redo/control"));
            for sectors in 0..8usize {
                let at = BLOCK_AT[n as usize & 1] as usize;
                let mut torn = before.clone();
                torn[at..at + sectors * 512].copy_from_slice(&after[at..at + sectors * 512]);
                let image = MemDisk::default();
                image.put(Path::new("/redo/control"), torn.clone());
                // The block may be whole if the lost sectors are as they were.
                let want = if torn == after { n } else { n - 1 };
                assert_eq!(reopened(&image).unwrap().checkpoint, 4096 + want, "{n} {sectors}");
            }
        }
    }

    #[test]
    fn other_formats_are_refused_with_a_reason() {
        let (disk, _) = made();
        let path = Path::new("/redo/control");
        let patched = |at: usize, v: u32| {
            let mut b = disk.content(path);
            b[at..at + 4].copy_from_slice(&v.to_le_bytes());
            let c = crc(&b[..BLOCK]);
            b[12..16].copy_from_slice(&c.to_le_bytes());
            let image = MemDisk::default();
            image.put(path, b);
            reopened(&image)
        };
        let Err(Error::Incompatible(why)) = patched(8, 3) else { panic!("taken") };
        assert!(why.contains("format 3"), "{why}");
        // An older one is read, and becomes this one.
        let mut old = patched(8, 1).unwrap();
        assert_eq!(old.format, 1);
        old.format = FORMAT;
        assert_eq!(old, first());
        let Err(Error::Incompatible(why)) = patched(56, 4096) else { panic!("taken") };
        assert!(why.contains("4096"), "{why}");
    }

    #[test]
    fn two_damaged_blocks_are_an_error() {
        let (disk, mut c) = made();
        c.checkpoint(5000, 1, b"");
        let path = Path::new("/redo/control");
        let mut b = disk.content(path);
        b[100] ^= 1;
        b[65536 + 100] ^= 1;
        disk.put(path, b);
        assert!(matches!(reopened(&disk), Err(Error::Io { .. })));
    }
}
