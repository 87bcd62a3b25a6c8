//! A disk over another disk that it only reads: files that are written, made, renamed and removed
//! change in memory alone, and the changes are gone with the value. It serves to examine a damaged
//! directory with everything that a start does, without changing the directory.
//!
//! OVERLAY-1: the overlay opens only files that exist on the disk below, and only reads them. (It
//! takes the lock of the directory, so no server runs there meanwhile.)
//!
//! All operations, submitted ones too, run in the calling thread: this disk need not be fast. Its
//! memory grows with the writes, in blocks of [`ALIGN`] bytes.
use crate::{ALIGN, Create, Disk, File, Io, Op, OpenHow};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct OverlayDisk {
    below: Arc<dyn Disk>,
    names: Mutex<Names>,
}
#[derive(Default)]
struct Names {
    /// Files that have been opened or made here, under their present names.
    files: BTreeMap<PathBuf, Arc<Layer>>,
    /// Names on the disk below that have been removed or renamed here.
    removed: BTreeSet<PathBuf>,
}
/// One file: its file below, and the blocks written over that file.
struct Layer {
    below: Option<Arc<dyn File>>,
    over: Mutex<Over>,
}
struct Over {
    len: u64,
    /// Length of the part of the file below that still shows.
    below_len: u64,
    blocks: HashMap<u64, Box<[u8; ALIGN]>>,
}

impl OverlayDisk {
    pub fn new(below: Arc<dyn Disk>) -> OverlayDisk {
        OverlayDisk { below, names: Mutex::default() }
    }
    /// Finds the file of a name and keeps it in `names`.
    fn find(&self, names: &mut Names, path: &Path) -> io::Result<Option<Arc<Layer>>> {
        if let Some(layer) = names.files.get(path) {
            return Ok(Some(layer.clone()));
        }
        if names.removed.contains(path) || !self.below.exists(path) {
            return Ok(None);
        }
        // OVERLAY-1. The file is opened through the page cache because direct I/O would need
        // aligned reads, and reads here have any length.
        let below = self.below.open(path, OpenHow { create: Create::Existing, direct: false })?;
        let len = below.len()?;
        let layer = Arc::new(Layer {
            below: Some(below),
            over: Mutex::new(Over { len, below_len: len, blocks: HashMap::new() }),
        });
        names.files.insert(path.to_path_buf(), layer.clone());
        Ok(Some(layer))
    }
}

impl Disk for OverlayDisk {
    // Files of users are no part of the data, and INTO OUTFILE saves rows from damaged data.
    crate::forward_disk!(below: resolve open_resolved);
    crate::forward_disk!(below: lock_dir now wall_us random thread_cpu processors);

    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let mut names = self.names.lock();
        if let Some(layer) = self.find(&mut names, path)? {
            return match how.create {
                Create::CreateNew => Err(io::ErrorKind::AlreadyExists.into()),
                Create::Create | Create::Existing => Ok(layer),
            };
        }
        if how.create == Create::Existing {
            return Err(io::ErrorKind::NotFound.into());
        }
        let layer = Arc::new(Layer {
            below: None,
            over: Mutex::new(Over { len: 0, below_len: 0, blocks: HashMap::new() }),
        });
        names.files.insert(path.to_path_buf(), layer.clone());
        Ok(layer)
    }
    fn exists(&self, path: &Path) -> bool {
        let names = self.names.lock();
        names.files.contains_key(path) || !names.removed.contains(path) && self.below.exists(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = self.names.lock();
        let mut found: BTreeSet<String> = match self.below.list(dir) {
            Ok(below) => {
                below.into_iter().filter(|n| !names.removed.contains(&dir.join(n))).collect()
            }
            // The folder was made here.
            Err(e) if e.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(e) => return Err(e),
        };
        let here = names.files.keys().filter(|p| p.parent() == Some(dir));
        found.extend(here.filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned())));
        Ok(found.into_iter().collect())
    }
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        let here = names.files.remove(path).is_some();
        let below = self.below.exists(path) && names.removed.insert(path.to_path_buf());
        if here || below { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        let Some(layer) = self.find(&mut names, from)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        names.files.remove(from);
        names.removed.insert(from.to_path_buf());
        names.removed.insert(to.to_path_buf());
        names.files.insert(to.to_path_buf(), layer);
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

/// Splits `offset .. offset + len` by block: (block, place in the block, place in the buffer,
/// length).
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let inside = (at % ALIGN as u64) as usize;
        let n = (ALIGN - inside).min(len - done);
        let part = (at / ALIGN as u64, inside, done, n);
        done += n;
        Some(part)
    })
}

impl Layer {
    /// Reads the part of the file below that shows in `block`, and zeros behind it.
    fn read_below(&self, over: &Over, block: u64, into: &mut [u8; ALIGN]) -> io::Result<()> {
        into.fill(0);
        let at = block * ALIGN as u64;
        let n = over.below_len.saturating_sub(at).min(ALIGN as u64) as usize;
        match &self.below {
            Some(below) if n > 0 => below.read_at(&mut into[..n], at),
            _ => Ok(()),
        }
    }
}

impl File for Layer {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let over = self.over.lock();
        if offset + buf.len() as u64 > over.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut whole = [0; ALIGN];
        for (block, inside, at, n) in parts(offset, buf.len()) {
            let from = match over.blocks.get(&block) {
                Some(written) => written,
                None => {
                    self.read_below(&over, block, &mut whole)?;
                    &whole
                }
            };
            buf[at..at + n].copy_from_slice(&from[inside..inside + n]);
        }
        Ok(())
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut over = self.over.lock();
        for (block, inside, at, n) in parts(offset, buf.len()) {
            if !over.blocks.contains_key(&block) {
                let mut whole = Box::new([0; ALIGN]);
                // A block that is written whole need not be readable on the disk below.
                if n < ALIGN {
                    self.read_below(&over, block, &mut whole)?;
                }
                over.blocks.insert(block, whole);
            }
            let to = over.blocks.get_mut(&block).expect("made above");
            to[inside..inside + n].copy_from_slice(&buf[at..at + n]);
        }
        over.len = over.len.max(offset + buf.len() as u64);
        Ok(())
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.over.lock().len)
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        let over = self.over.lock();
        let above = over.blocks.keys().map(|block| block * ALIGN as u64);
        let above = above.filter(|at| at + ALIGN as u64 > offset).min();
        let below = match &self.below {
            Some(below) => below.next_data(offset)?.filter(|at| *at < over.below_len),
            None => None,
        };
        let first = above.into_iter().chain(below).min().map(|at| at.max(offset));
        Ok(first.filter(|at| *at < over.len))
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut over = self.over.lock();
        if len < over.len {
            over.below_len = over.below_len.min(len);
            over.blocks.retain(|block, _| block * (ALIGN as u64) < len);
            let inside = (len % ALIGN as u64) as usize;
            if let Some(last) = over.blocks.get_mut(&(len / ALIGN as u64)) {
                last[inside..].fill(0);
            }
        }
        over.len = len;
        Ok(())
    }
    fn submit(&self, Io { op, offset, done }: Io) {
        match op {
            Op::Read(mut buf) => {
                let result = self.read_at(&mut buf, offset);
                done(result, Some(buf));
            }
            Op::Write(buf) | Op::WriteDurable(buf) | Op::WriteAtomic(buf) => {
                let result = self.write_at(&buf, offset);
                done(result, Some(buf));
            }
            Op::Sync => done(Ok(()), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    const CREATE: OpenHow = OpenHow { create: Create::Create, direct: false };
    const EXISTING: OpenHow = OpenHow { create: Create::Existing, direct: false };

    fn bytes(f: &dyn File) -> Vec<u8> {
        let mut b = vec![0; f.len().unwrap() as usize];
        f.read_at(&mut b, 0).unwrap();
        b
    }
    fn below() -> (SimDisk, PathBuf) {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/d")).unwrap();
        let path = PathBuf::from("/d/a");
        disk.open(&path, CREATE).unwrap().write_at(&[7; 10_000], 0).unwrap();
        (disk, path)
    }

    /// OVERLAY-1: no operation above changes the disk below.
    #[test]
    fn nothing_comes_through() {
        let (sim, path) = below();
        let disk = OverlayDisk::new(Arc::new(sim.clone()));
        let f = disk.open(&path, EXISTING).unwrap();
        f.write_at(&[1; 5], 4094).unwrap();
        f.write_durable_at(&[2; 3], 20_000).unwrap();
        assert_eq!(f.len().unwrap(), 20_003);
        let b = bytes(&*f);
        assert_eq!(
            (&b[4090..4100], b[9_999], b[10_000], &b[20_000..]),
            (&[7, 7, 7, 7, 1, 1, 1, 1, 1, 7][..], 7, 0, &[2, 2, 2][..])
        );
        f.set_len(4096).unwrap();
        f.set_len(9000).unwrap();
        let b = bytes(&*f);
        assert_eq!(
            (b[4093], b[4095], b[4096], b[8999]),
            (7, 1, 0, 0),
            "what was cut off does not come back"
        );
        assert!(f.read_at(&mut [0; 2], 8999).is_err());
        disk.open(Path::new("/d/b"), CREATE).unwrap().write_at(&[9; 3], 0).unwrap();
        disk.rename(&path, Path::new("/d/c")).unwrap();
        assert_eq!(disk.list(Path::new("/d")).unwrap(), ["b", "c"]);
        assert!(!disk.exists(&path) && disk.open(&path, EXISTING).is_err());
        disk.rename(Path::new("/d/b"), &path).unwrap();
        assert_eq!(bytes(&*disk.open(&path, EXISTING).unwrap()), [9; 3]);
        disk.remove(&path).unwrap();
        assert!(!disk.exists(&path) && disk.remove(&path).is_err());
        disk.create_dir_all(Path::new("/d/new")).unwrap();
        assert_eq!(disk.list(Path::new("/d/new")).unwrap(), [""; 0]);
        assert_eq!(sim.list(Path::new("/d")).unwrap(), ["a"]);
        assert_eq!(bytes(&*sim.open(&path, EXISTING).unwrap()), vec![7; 10_000]);
    }

    #[test]
    fn submitted_operations_give_their_buffers_back() {
        let (sim, path) = below();
        let f = OverlayDisk::new(Arc::new(sim)).open(&path, EXISTING).unwrap();
        let mut buf = crate::AlignedBuf::new(ALIGN);
        buf.fill(5);
        f.submit(Io {
            op: Op::WriteDurable(buf),
            offset: 4096,
            done: Box::new(|r, b| assert!(r.is_ok() && b.is_some())),
        });
        f.submit(Io {
            op: Op::Read(crate::AlignedBuf::new(ALIGN)),
            offset: 4096,
            done: Box::new(|r, b| assert!(r.is_ok() && b.unwrap().iter().all(|b| *b == 5))),
        });
        f.submit(Io { op: Op::Sync, offset: 0, done: Box::new(|r, _| assert!(r.is_ok())) });
    }
}
