//! The file `control`: which log this is, and where recovery begins. A state is written twice, as
//! two blocks of 4096 bytes, each with one durable write: a state with an even sequence number at 0
//! and 131072, with an odd number at 65536 and 196608. The newest state with an undamaged block
//! counts. Little-endian:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `REDOLOG` and a zero |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC-32C of the whole block with this field zero |
//! | 16 | 8 | log id, random |
//! | 24 | 8 | sequence number: the state with the higher one is newer |
//! | 32 | 8 | checkpoint LSN: recovery begins there |
//! | 40 | 8 | epoch of the frames at the checkpoint |
//! | 48 | 8 | epoch in force: the highest ever begun |
//! | 56 | 4 | page size |
//! | 60 | 4 | bytes of fields |
//! | 64 | 8 | bytes of stream in a segment |
//! | 72 | | fields: tag u16, length u16, bytes; then zeros |
//!
//! | field | bytes | what |
//! |---|---|---|
//! | 1 | | the checkpoint's payload, opaque here |
//! | 2 | 8 | everything below this LSN was durable when the block was written |
//! | 3 | 8 | every segment of the stream from the checkpoint to this LSN had its name durably |
//! | 4 | 0 | the log ends at the checkpoint: the instance was stopped cleanly |
//! | 5 | 8 | the epoch in force begins at this LSN |
//!
//! A program refuses a block with an unknown field whose tag is 0x8000 or above, and ignores other
//! unknown fields. Formats 1 and 2 have the payload at 72, without fields, and one block for each
//! state.
//!
//! Between the states lies a witness of how far the log was durable
//! ([`crate::log::recovery::witness`]).
//!
//! The first 16 bytes stay the same in every format, so that a newer format is recognised and not
//! taken for damage.
//!
//! - CTL-1: a write never touches the newest valid state, so that after a torn write the state
//!   before counts.
//! - CTL-2: the checkpoint and the epoch never go back.
//! - CTL-3: one damaged block loses nothing, because each state has a second block. If the newest
//!   state is lost all the same, the contents of the log reveal it
//!   ([`crate::log::recovery::tail`]); the older state cannot.
use crate::base::{Error, PAGE_SIZE, Result, poison};
use crate::bytes::{u16_at, u32_at, u64_at};
use redolith_disk::{AlignedBuf, Create, Disk, File, OpenHow};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"REDOLOG\0";
/// The format of the data directory. docs/disk-format.md lists the formats. A directory of an older
/// format takes this format with the first write of its control file.
pub(in crate::log) const FORMAT: u32 = 6;
/// The first format whose blocks have fields.
const WITH_FIELDS: u32 = 3;
const BLOCK: usize = 4096;
/// The places of the two blocks of a state with an even sequence number, and with an odd number.
pub(in crate::log) const BLOCKS_AT: [[u64; 2]; 2] = [[0, 131072], [65536, 196608]];
const FILE_BYTES: u64 = 196608 + BLOCK as u64;
const HEAD: usize = 72;
/// The most bytes of a checkpoint payload.
pub(crate) const CHECKPOINT_PAYLOAD_MAX: usize = 2048;
const _: () = assert!(HEAD + 5 * 4 + CHECKPOINT_PAYLOAD_MAX + 24 <= BLOCK);

mod field {
    pub(super) const PAYLOAD: u16 = 1;
    pub(super) const DURABLE: u16 = 2;
    pub(super) const SEGMENTS_END: u16 = 3;
    pub(super) const CLEAN: u16 = 4;
    pub(super) const BEGINS: u16 = 5;
    /// A program must know the fields from this tag on.
    pub(super) const CRITICAL: u16 = 0x8000;
}

/// The state that a block describes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::log) struct State {
    /// The format in which the block was written.
    pub format: u32,
    pub log_id: u64,
    pub sequence: u64,
    pub checkpoint: u64,
    pub checkpoint_epoch: u64,
    pub epoch: u64,
    pub segment_bytes: u64,
    pub payload: Vec<u8>,
    /// Everything below this LSN was durable.
    pub durable: u64,
    /// The segments from the checkpoint to this LSN had their names durably.
    pub segments_end: u64,
    /// Whether the log ends at the checkpoint.
    pub clean: bool,
    /// The LSN at which the epoch in force begins. The start that began the epoch found the log's
    /// end there. 0 if this is not known.
    pub begins: u64,
}

fn crc(b: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&b[..12]), &[0; 4]), &b[16..])
}

impl State {
    fn fields(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |tag: u16, bytes: &[u8]| {
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        put(field::PAYLOAD, &self.payload);
        put(field::DURABLE, &self.durable.to_le_bytes());
        put(field::SEGMENTS_END, &self.segments_end.to_le_bytes());
        if self.clean {
            put(field::CLEAN, &[]);
        }
        put(field::BEGINS, &self.begins.to_le_bytes());
        out
    }
    fn encode(&self) -> AlignedBuf {
        assert!(self.payload.len() <= CHECKPOINT_PAYLOAD_MAX);
        let fields = self.fields();
        let mut b = AlignedBuf::new(BLOCK);
        b[..8].copy_from_slice(MAGIC);
        b[8..12].copy_from_slice(&self.format.to_le_bytes());
        let numbers =
            [self.log_id, self.sequence, self.checkpoint, self.checkpoint_epoch, self.epoch];
        for (i, n) in numbers.iter().enumerate() {
            b[16 + i * 8..24 + i * 8].copy_from_slice(&n.to_le_bytes());
        }
        b[56..60].copy_from_slice(&(PAGE_SIZE as u32).to_le_bytes());
        b[60..64].copy_from_slice(&(fields.len() as u32).to_le_bytes());
        b[64..72].copy_from_slice(&self.segment_bytes.to_le_bytes());
        b[HEAD..HEAD + fields.len()].copy_from_slice(&fields);
        let crc = crc(&b);
        b[12..16].copy_from_slice(&crc.to_le_bytes());
        b
    }
    /// Decodes a block. `None` if the block is damaged or was never written.
    pub(crate) fn decode(b: &[u8]) -> Result<Option<State>> {
        if &b[..8] != MAGIC || u32_at(b, 12) != crc(b) {
            return Ok(None);
        }
        let (format, page_size) = (u32_at(b, 8), u32_at(b, 56));
        if !(1..=FORMAT).contains(&format) {
            return Err(Error::Incompatible(format!(
                "the data directory has format {format}, this program reads formats 1 to {FORMAT}: \
                    open the data directory with the version that wrote it"
            )));
        }
        if page_size as usize != PAGE_SIZE {
            return Err(Error::Incompatible(format!(
                "the data directory has pages of {page_size} bytes, this program needs {PAGE_SIZE}"
            )));
        }
        let Some(rest) = b[HEAD..].get(..u32_at(b, 60) as usize) else { return Ok(None) };
        let mut state = State {
            format,
            log_id: u64_at(b, 16),
            sequence: u64_at(b, 24),
            checkpoint: u64_at(b, 32),
            checkpoint_epoch: u64_at(b, 40),
            epoch: u64_at(b, 48),
            segment_bytes: u64_at(b, 64),
            durable: u64_at(b, 32),
            ..State::default()
        };
        let is_whole = if format < WITH_FIELDS {
            state.payload = rest.to_vec();
            true
        } else {
            state.take_fields(rest)?
        };
        // No server has written a state that is against CTL-2, or that no other can follow.
        let is_possible = state.checkpoint_epoch <= state.epoch
            && state.checkpoint <= state.durable
            && state.epoch.max(state.sequence) < u64::MAX;
        Ok((is_whole && is_possible).then_some(state))
    }
    /// Takes in the fields. Returns false if the bytes are not fields.
    fn take_fields(&mut self, mut rest: &[u8]) -> Result<bool> {
        while !rest.is_empty() {
            let Some((head, more)) = rest.split_at_checked(4) else { return Ok(false) };
            let (tag, len) = (u16_at(head, 0), u16_at(head, 2) as usize);
            let Some((bytes, more)) = more.split_at_checked(len) else { return Ok(false) };
            rest = more;
            match (tag, len) {
                (field::PAYLOAD, 0..=CHECKPOINT_PAYLOAD_MAX) => self.payload = bytes.to_vec(),
                (field::DURABLE, 8) => self.durable = u64_at(bytes, 0),
                (field::SEGMENTS_END, 8) => self.segments_end = u64_at(bytes, 0),
                (field::CLEAN, 0) => self.clean = true,
                (field::BEGINS, 8) => self.begins = u64_at(bytes, 0),
                (field::PAYLOAD..=field::BEGINS, _) => return Ok(false),
                (field::CRITICAL.., _) => {
                    return Err(Error::Incompatible(format!(
                        "redo/control has field {tag}, which this program does not know: open the \
                            data directory with the version that wrote it"
                    )));
                }
                _ => {}
            }
        }
        Ok(true)
    }
}

pub(in crate::log) struct Control {
    file: Arc<dyn File>,
    path: PathBuf,
    state: State,
    /// Whether a block holds neither zeros nor a state: a crash has torn it, or it is damaged.
    damaged: bool,
    /// Whether the file has room for the second block of each state.
    long: bool,
}

impl Control {
    pub(crate) fn path(dir: &Path) -> PathBuf {
        dir.join("control")
    }
    /// Creates the file with its first state. The file gets its name only when it is durable, and
    /// this function returns when the name is durable too.
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, state: State) -> Result<Control> {
        let (path, making) = (Control::path(dir), dir.join("control.new"));
        let make = || -> io::Result<Arc<dyn File>> {
            let file = disk.open(&making, OpenHow { create: Create::Create, direct: true })?;
            file.set_len(FILE_BYTES)?;
            let zeros = AlignedBuf::new(BLOCK);
            for at in BLOCKS_AT.into_iter().flatten() {
                file.write_at(&zeros, at)?;
            }
            for at in BLOCKS_AT[state.sequence as usize & 1] {
                file.write_at(&state.encode(), at)?;
            }
            file.sync()?;
            disk.rename(&making, &path)?;
            disk.sync_dir(dir)?;
            Ok(file)
        };
        let file = make().map_err(|e| Error::io(path.display(), &e))?;
        Ok(Control { file, path, state, damaged: false, long: true })
    }
    /// Reads the newest state. Writes nothing.
    pub(crate) fn open(disk: &dyn Disk, dir: &Path) -> Result<Control> {
        let path = Control::path(dir);
        let advice = "Restore the file or a backup, or start with innodb_force_recovery=6 to \
                      read the tables";
        let fail = |e: io::Error| Error::io_advised(path.display(), &e, advice);
        let file =
            disk.open(&path, OpenHow { create: Create::Existing, direct: true }).map_err(fail)?;
        let (mut newest, mut damaged): (Option<State>, bool) = (None, false);
        let mut unreadable = None;
        for at in BLOCKS_AT.into_iter().flatten() {
            let mut b = AlignedBuf::new(BLOCK);
            match file.read_at(&mut b, at) {
                Ok(()) => {}
                // A file of format 2 is shorter. A file that was cut off has lost its last blocks.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => continue,
                // The other blocks may have a state.
                Err(e) => {
                    (damaged, unreadable) = (true, Some(e));
                    continue;
                }
            }
            match State::decode(&b)? {
                Some(state) if newest.as_ref().is_none_or(|n| n.sequence < state.sequence) => {
                    newest = Some(state)
                }
                Some(_) => {}
                None => damaged |= b.iter().any(|b| *b != 0),
            }
        }
        let long = file.len().map_err(fail)? >= FILE_BYTES;
        match (newest, unreadable) {
            (Some(state), _) => Ok(Control { file, path, state, damaged, long }),
            (None, Some(e)) => Err(fail(e)),
            (None, None) => Err(Error::Io {
                what: path.display().to_string(),
                why: "no checkpoint block is whole, so the redo log cannot be read: restore this \
                    file or a backup, or start with innodb_force_recovery=6 to read what lies in \
                    the other files"
                    .into(),
                full: false,
            }),
        }
    }
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }
    pub(crate) fn state(&self) -> &State {
        &self.state
    }
    /// The explanation for a log that does not fit this state.
    pub(crate) fn suspicion(&self) -> &'static str {
        if self.damaged {
            "a block of redo/control is damaged, and the state that is left is older than the log"
        } else {
            "redo/control is older than the log, or the log was damaged"
        }
    }
    /// Makes `change` of the state durable. A failure ends the process, because the disk can then
    /// not say which state it holds.
    fn write(&mut self, change: impl FnOnce(&mut State)) {
        let mut next = self.state.clone();
        next.clean = false;
        change(&mut next);
        next.sequence += 1;
        next.format = FORMAT;
        // CTL-2
        assert!(
            next.checkpoint >= self.state.checkpoint
                && next.epoch >= self.state.epoch
                && next.checkpoint_epoch <= next.epoch
        );
        assert!(next.durable >= next.checkpoint);
        if !self.long {
            // Without room for the second blocks the first blocks must do: a full disk must not
            // keep a server from starting.
            self.long = self.file.set_len(FILE_BYTES).and_then(|()| self.file.sync()).is_ok();
        }
        let block = next.encode();
        for at in &BLOCKS_AT[next.sequence as usize & 1][..1 + self.long as usize] {
            if let Err(e) = self.file.write_durable_at(&block, *at) {
                poison(&format!("writing {}: {e}", self.path.display()));
            }
        }
        self.state = next;
    }
    /// Begins a new epoch behind a log that ends at `end`, and returns the epoch. The durable part
    /// of a frame behind `end` no longer belongs to the log.
    pub(crate) fn raise_epoch(&mut self, end: u64) -> u64 {
        self.write(|s| {
            s.epoch += 1;
            (s.begins, s.durable) = (end, end);
        });
        self.state.epoch
    }
    /// Records that the epoch's frame is durable, up to `end`. The log will be appended to from
    /// there on.
    pub(crate) fn epoch_begun(&mut self, end: u64) {
        self.write(|s| s.durable = s.durable.max(end));
    }
    /// Whether an earlier start judged that the log ends where this epoch begins, and was
    /// interrupted before the epoch's frame was known to be durable (SCAN-8).
    pub(crate) fn is_epoch_unbegun(&self) -> bool {
        self.state.begins != 0 && self.state.durable == self.state.begins
    }
    /// Records a checkpoint at `lsn`. Everything below `durable` is durable, and the segments up to
    /// `segments_end` have their names.
    pub(crate) fn checkpoint(
        &mut self,
        lsn: u64,
        epoch: u64,
        payload: &[u8],
        durable: u64,
        segments_end: u64,
    ) {
        self.write(|s| {
            (s.checkpoint, s.checkpoint_epoch) = (lsn, epoch);
            (s.durable, s.segments_end) = (s.durable.max(durable), segments_end);
            s.payload.clear();
            s.payload.extend_from_slice(payload);
        });
    }
    /// Lowers the end of the segments to `end`, before the segments behind it are removed.
    pub(crate) fn segments_end_at(&mut self, end: u64) {
        if self.state.segments_end > end {
            self.write(|s| s.segments_end = end);
        }
    }
    /// Raises the end of the segments to `end`: the segments below have their names.
    pub(crate) fn segments_reach(&mut self, end: u64) {
        if self.state.segments_end < end {
            self.write(|s| s.segments_end = end);
        }
    }
    /// Records that the log ends at the checkpoint. Nothing may be appended afterwards.
    pub(crate) fn close(&mut self) {
        self.write(|s| s.clean = true);
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::log::tests::fixture::MemDisk;

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
            durable: 4096,
            segments_end: 1 << 20,
            clean: false,
            begins: 0,
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
        c.checkpoint(5000, 1, b"first", 5500, 2 << 20);
        assert_eq!(c.raise_epoch(5600), 2);
        c.checkpoint(6000, 2, &[9; CHECKPOINT_PAYLOAD_MAX], 6000, 3 << 20);
        let s = reopened(&disk).unwrap();
        assert_eq!((s.checkpoint, s.checkpoint_epoch, s.epoch, s.sequence), (6000, 2, 2, 3));
        assert_eq!(s.payload, [9; CHECKPOINT_PAYLOAD_MAX]);
        assert_eq!((s.durable, s.segments_end, s.clean), (6000, 3 << 20, false));
        c.close();
        assert!(reopened(&disk).unwrap().clean);
        c.raise_epoch(6000);
        assert!(!reopened(&disk).unwrap().clean);
    }

    #[test]
    fn a_state_that_no_server_has_written_is_damage() {
        let changes: [fn(&mut State); 4] = [
            |s| s.checkpoint_epoch = s.epoch + 1,
            |s| s.durable = s.checkpoint - 1,
            |s| s.epoch = u64::MAX,
            |s| s.sequence = u64::MAX,
        ];
        assert_eq!(State::decode(&first().encode()).unwrap(), Some(first()));
        for change in changes {
            let mut s = first();
            change(&mut s);
            assert_eq!(State::decode(&s.encode()).unwrap(), None);
        }
    }

    /// CTL-3
    #[test]
    fn no_damaged_block_alone_loses_the_newest_state() {
        let (disk, mut c) = made();
        let path = Path::new("/redo/control");
        for n in 1..=2u64 {
            c.checkpoint(4096 + n, 1, b"", 4096 + n, 1 << 20);
            for at in BLOCKS_AT.into_iter().flatten() {
                for byte in [0, 8, 12, 33, 100, 4095] {
                    let mut b = disk.content(path);
                    b[at as usize + byte] ^= 1;
                    let image = MemDisk::default();
                    image.put(path, b);
                    assert_eq!(reopened(&image).unwrap().checkpoint, 4096 + n, "{n} {at} {byte}");
                }
            }
        }
        for len in [4096, 65536 + 4096, 131072] {
            let image = MemDisk::default();
            image.put(path, disk.content(path)[..len].to_vec());
            // The first block of the newest state is at the beginning, because the state has an
            // even number.
            assert_eq!(reopened(&image).unwrap().checkpoint, 4098, "cut to {len}");
        }
    }

    #[test]
    fn a_file_of_format_2_is_read_and_grows() {
        let (disk, _) = made();
        let path = Path::new("/redo/control");
        let mut b = vec![0; 65536 + 4096];
        b[..BLOCK].copy_from_slice(&first().encode());
        b[8..12].copy_from_slice(&2u32.to_le_bytes());
        b[60..64].copy_from_slice(&3u32.to_le_bytes());
        b[HEAD..].fill(0);
        b[HEAD..HEAD + 3].copy_from_slice(b"old");
        let sum = crc(&b[..BLOCK]);
        b[12..16].copy_from_slice(&sum.to_le_bytes());
        disk.put(path, b);
        let s = reopened(&disk).unwrap();
        assert_eq!(
            (s.format, &s.payload[..], s.durable, s.segments_end),
            (2, &b"old"[..], 4096, 0)
        );
        let mut c = Control::open(&disk, Path::new("/redo")).unwrap();
        c.raise_epoch(4100);
        let s = reopened(&disk).unwrap();
        assert_eq!(
            (s.format, s.epoch, s.durable, disk.content(path).len() as u64),
            (FORMAT, 2, 4100, FILE_BYTES)
        );
    }

    #[test]
    fn fields_that_are_not_known_are_passed_over_or_refused() {
        let with = |tag: u16| {
            let (disk, _) = made();
            let path = Path::new("/redo/control");
            let (mut b, len) = (disk.content(path), first().fields().len());
            b[HEAD + len..][..2].copy_from_slice(&tag.to_le_bytes());
            b[60..64].copy_from_slice(&(len as u32 + 4).to_le_bytes());
            let sum = crc(&b[..BLOCK]);
            b[12..16].copy_from_slice(&sum.to_le_bytes());
            let image = MemDisk::default();
            image.put(path, b);
            reopened(&image)
        };
        assert_eq!(with(99).unwrap(), first());
        let Err(Error::Incompatible(why)) = with(0x8007) else { panic!("taken") };
        assert!(why.contains("field 32775"), "{why}");
    }

    /// CTL-1: whatever part of the newest block is lost, the state before is read.
    #[test]
    fn a_torn_write_falls_back() {
        let (disk, mut c) = made();
        for n in 1..=4u64 {
            let before = disk.content(Path::new("/redo/control"));
            c.checkpoint(4096 + n, 1, &n.to_le_bytes(), 4096 + n, 1 << 20);
            let after = disk.content(Path::new("/redo/control"));
            for sectors in 0..8usize {
                let at = BLOCKS_AT[n as usize & 1][0] as usize;
                let mut torn = before.clone();
                torn[at..at + sectors * 512].copy_from_slice(&after[at..at + sectors * 512]);
                let image = MemDisk::default();
                image.put(Path::new("/redo/control"), torn.clone());
                // The block may be whole all the same, if the lost sectors did not change.
                let whole = torn[at..at + BLOCK] == after[at..at + BLOCK];
                let want = if whole { n } else { n - 1 };
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
        let Err(Error::Incompatible(why)) = patched(8, FORMAT + 1) else { panic!("taken") };
        assert!(why.contains(&format!("format {}", FORMAT + 1)), "{why}");
        let Err(Error::Incompatible(why)) = patched(56, 4096) else { panic!("taken") };
        assert!(why.contains("4096"), "{why}");
    }

    #[test]
    fn damage_of_all_blocks_is_an_error() {
        let (disk, mut c) = made();
        c.checkpoint(5000, 1, b"", 5000, 1 << 20);
        let path = Path::new("/redo/control");
        let mut b = disk.content(path);
        BLOCKS_AT.into_iter().flatten().for_each(|at| b[at as usize + 50] ^= 1);
        disk.put(path, b);
        assert!(matches!(reopened(&disk), Err(Error::Io { .. })));
    }
}
