//! A disk that records the operations of a real run, so that a power loss can be tried at any
//! moment of that run.
//!
//! A `kill -9` leaves the page cache in place and proves nothing about syncs. A recording does: it
//! knows which changes were synced at each moment, and [`Replay::image`] leaves as much of the
//! unsynced changes as the simulated disk would leave (see `sim`, faults 1 to 4).
//!
//! TAPE-1: an operation starts on the tape before it starts on the disk. It ends on the tape after
//! it has ended on the disk and before its caller knows.
//! TAPE-2: a sync covers the writes that had ended when the sync started. Writes that failed or
//! have not ended may or may not be there.
//! TAPE-3: changes of names are recorded one at a time, in the order in which the disk made them.
//!
//! The tape is in memory: it holds the data of every write, except zeros. Lock order: the tape's
//! lock is held across opening, renaming and removing on the inner disk, and is a leaf otherwise.
use crate::medium::Piece;
use crate::{Create, Disk, Done, File, Io, Op, OpenHow};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

mod replay;
#[cfg(test)]
mod tests;
pub use replay::Replay;

/// Identifies a file on the tape under any name.
type TapeFile = usize;

enum Entry {
    Start(Action),
    /// The operation that started at this entry has ended; the flag says whether it succeeded.
    End(usize, bool),
}
enum Action {
    CreateDir(PathBuf),
    /// A file that existed before the recording, with its content, which counts as durable.
    Found(PathBuf, TapeFile, Vec<Piece>, u64),
    Create(PathBuf, TapeFile),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    SyncDir(PathBuf),
    Write(TapeFile, Piece),
    DurableWrite(TapeFile, Piece),
    SetLen(TapeFile, u64),
    Sync(TapeFile),
}

/// The data of a write, copied before the tape's lock is taken.
enum Taken {
    Data(Piece),
    Zeros { offset: u64, len: usize },
}
impl Taken {
    fn new(offset: u64, data: &[u8]) -> Taken {
        if crate::image::is_zero(data) {
            Taken::Zeros { offset, len: data.len() }
        } else {
            Taken::Data(Piece::new(offset, data))
        }
    }
}

struct Tape {
    entries: Vec<Entry>,
    names: BTreeMap<PathBuf, TapeFile>,
    files: TapeFile,
    bytes: u64,
    zeros: Arc<[u8]>,
}

impl Tape {
    fn start(&mut self, action: Action) -> usize {
        self.entries.push(Entry::Start(action));
        self.entries.len() - 1
    }
    fn end(&mut self, start: usize, ok: bool) {
        self.entries.push(Entry::End(start, ok));
    }
    /// Records an operation that is over already.
    fn add(&mut self, action: Action) {
        let start = self.start(action);
        self.end(start, true);
    }
    fn piece(&mut self, taken: Taken) -> Piece {
        match taken {
            Taken::Data(piece) => {
                self.bytes += piece.bytes().len() as u64;
                piece
            }
            Taken::Zeros { offset, len } => {
                if self.zeros.len() < len {
                    self.zeros = vec![0; len].into();
                }
                Piece { offset, data: self.zeros.clone(), from: 0, to: len }
            }
        }
    }
    fn new_file(&mut self, path: &Path) -> TapeFile {
        self.files += 1;
        self.names.insert(path.into(), self.files);
        self.files
    }
    /// Records a file that exists on the disk and is not on the tape yet.
    fn find(&mut self, inner: &dyn Disk, path: &Path) -> io::Result<TapeFile> {
        const CHUNK: u64 = 1 << 20;
        let file = inner.open(path, OpenHow::existing(false))?;
        let len = file.len()?;
        let mut pieces = Vec::new();
        let mut buf = vec![0; CHUNK.min(len) as usize];
        for offset in (0..len).step_by(CHUNK as usize) {
            let part = &mut buf[..CHUNK.min(len - offset) as usize];
            file.read_at(part, offset)?;
            pieces.push(self.piece(Taken::new(offset, part)));
        }
        let id = self.new_file(path);
        self.add(Action::Found(path.into(), id, pieces, len));
        Ok(id)
    }
}

/// Any disk, with a running tape. Clones share the disk and the tape.
pub struct RecordingDisk<D> {
    inner: Arc<D>,
    tape: Arc<Mutex<Tape>>,
}
impl<D> Clone for RecordingDisk<D> {
    fn clone(&self) -> Self {
        RecordingDisk { inner: self.inner.clone(), tape: self.tape.clone() }
    }
}

impl<D: Disk> RecordingDisk<D> {
    /// Records the files in `root`, whose content counts as durable. Files elsewhere are recorded
    /// when they are opened.
    pub fn new(inner: D, root: &Path) -> io::Result<RecordingDisk<D>> {
        let mut tape = Tape {
            entries: Vec::new(),
            names: BTreeMap::new(),
            files: 0,
            bytes: 0,
            zeros: Arc::from([]),
        };
        let mut folders = if inner.exists(root) { vec![root.to_path_buf()] } else { Vec::new() };
        while let Some(folder) = folders.pop() {
            tape.add(Action::CreateDir(folder.clone()));
            for path in inner.list(&folder)?.iter().map(|name| folder.join(name)) {
                if inner.list(&path).is_ok() {
                    folders.push(path);
                } else {
                    tape.find(&inner, &path)?;
                }
            }
        }
        Ok(RecordingDisk { inner: Arc::new(inner), tape: Arc::new(Mutex::new(tape)) })
    }
    pub fn inner(&self) -> &D {
        &self.inner
    }
    /// The present moment of the run, counted from 0: every operation reported done before this
    /// call is on the tape before this moment.
    pub fn position(&self) -> usize {
        self.tape.lock().entries.len()
    }
    /// Bytes of data that the tape keeps in memory.
    pub fn recorded_bytes(&self) -> u64 {
        self.tape.lock().bytes
    }
    pub fn replay(&self) -> Replay {
        Replay::new(self.tape.clone())
    }
}

impl<D: Disk> Disk for RecordingDisk<D> {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let mut tape = self.tape.lock();
        let is_new = how.create != Create::Existing && !self.inner.exists(path);
        let known = tape.names.get(path).copied();
        let file = match known {
            Some(file) if !is_new => file,
            None if !is_new && self.inner.exists(path) => tape.find(&*self.inner, path)?,
            _ => 0,
        };
        let inner = self.inner.open(path, how)?;
        let file = if is_new {
            let file = tape.new_file(path);
            tape.add(Action::Create(path.into(), file));
            file
        } else {
            file
        };
        Ok(Arc::new(RecordedFile { inner, file, tape: self.tape.clone() }))
    }
    fn exists(&self, path: &Path) -> bool {
        self.inner.exists(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut tape = self.tape.lock();
        self.inner.create_dir_all(dir)?;
        tape.add(Action::CreateDir(dir.into()));
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut tape = self.tape.lock();
        self.inner.remove(path)?;
        tape.names.remove(path);
        tape.add(Action::Remove(path.into()));
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut tape = self.tape.lock();
        let file = match tape.names.get(from) {
            Some(file) => *file,
            None if self.inner.exists(from) => tape.find(&*self.inner, from)?,
            None => return self.inner.rename(from, to),
        };
        self.inner.rename(from, to)?;
        tape.names.remove(from);
        tape.names.insert(to.into(), file);
        tape.add(Action::Rename(from.into(), to.into()));
        Ok(())
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let start = self.tape.lock().start(Action::SyncDir(dir.into()));
        let result = self.inner.sync_dir(dir);
        self.tape.lock().end(start, result.is_ok());
        result
    }
    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.inner.lock_dir(dir)
    }
    fn now(&self) -> Duration {
        self.inner.now()
    }
    fn wall_us(&self) -> i64 {
        self.inner.wall_us()
    }
    fn random(&self) -> u64 {
        self.inner.random()
    }
    fn thread_cpu(&self) -> Duration {
        self.inner.thread_cpu()
    }
    fn processors(&self) -> Option<crate::Processors> {
        self.inner.processors()
    }
}

struct RecordedFile {
    inner: Arc<dyn File>,
    file: TapeFile,
    tape: Arc<Mutex<Tape>>,
}

impl RecordedFile {
    fn recorded(
        &self,
        make: impl FnOnce(&mut Tape) -> Action,
        run: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let start = {
            let mut tape = self.tape.lock();
            let action = make(&mut tape);
            tape.start(action)
        };
        let result = run();
        self.tape.lock().end(start, result.is_ok());
        result
    }
    /// Starts the operation on the tape and lets its `done` end it there.
    fn watched(&self, Io { op, offset, done }: Io) -> Io {
        let action = match &op {
            Op::Read(_) => return Io { op, offset, done },
            Op::Write(buf) | Op::WriteAtomic(buf) => {
                let taken = Taken::new(offset, buf);
                Action::Write(self.file, self.tape.lock().piece(taken))
            }
            Op::WriteDurable(buf) => {
                let taken = Taken::new(offset, buf);
                Action::DurableWrite(self.file, self.tape.lock().piece(taken))
            }
            Op::Sync => Action::Sync(self.file),
        };
        let (tape, start) = (self.tape.clone(), self.tape.lock().start(action));
        let done: Done = Box::new(move |result, buf| {
            tape.lock().end(start, result.is_ok());
            done(result, buf);
        });
        Io { op, offset, done }
    }
}

impl File for RecordedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let taken = Taken::new(offset, buf);
        self.recorded(
            |tape| Action::Write(self.file, tape.piece(taken)),
            || self.inner.write_at(buf, offset),
        )
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let taken = Taken::new(offset, buf);
        self.recorded(
            |tape| Action::DurableWrite(self.file, tape.piece(taken)),
            || self.inner.write_durable_at(buf, offset),
        )
    }
    fn reports_apart(&self) -> bool {
        self.inner.reports_apart()
    }
    fn sync(&self) -> io::Result<()> {
        self.recorded(|_| Action::Sync(self.file), || self.inner.sync())
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.inner.next_data(offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)?;
        self.tape.lock().add(Action::SetLen(self.file, len));
        Ok(())
    }
    fn submit(&self, io: Io) {
        self.inner.submit(self.watched(io));
    }
    fn submit_many(&self, ios: Vec<Io>) {
        self.inner.submit_many(ios.into_iter().map(|io| self.watched(io)).collect());
    }
}
