//! Files in their present state, and in the state that a power loss would leave. The simulated disk
//! runs on a medium, and a recording is played back into a medium.
//!
//! MEDIUM-1: `now` is the content that a reader sees, `durable` the content that a power loss
//! cannot take away, and `changes` the changes between the two, in order.
//! MEDIUM-2: a sync moves changes to `durable`. A durable write makes its own bytes durable, and
//! the file's length if the bytes may lie past the durable length. It takes its bytes out of
//! earlier changes, so that older content cannot come back over them.
//! MEDIUM-3: names follow the same rule, folder by folder: `names`, `durable_names`,
//! `name_changes`. Folders themselves are durable at once.
use crate::image::Image;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod loss;
pub(crate) use loss::ATOMIC_PAGE;
pub use loss::Loss;

/// Identifies a file under any name. An id is never used twice.
pub(crate) type FileId = u64;
/// The position of a change in the order of all changes.
pub(crate) type Seq = u64;

#[derive(Clone, Default)]
pub(crate) struct Medium {
    files: BTreeMap<FileId, Content>,
    names: BTreeMap<PathBuf, FileId>,
    durable_names: BTreeMap<PathBuf, FileId>,
    name_changes: Vec<NameChange>,
    dirs: BTreeSet<PathBuf>,
    next_file: FileId,
    next_seq: Seq,
    /// Whether the medium never tears aligned pages of 16 KiB.
    pub atomic_pages: bool,
}

#[derive(Clone, Default)]
struct Content {
    now: Image,
    durable: Image,
    changes: Vec<Change>,
    /// The file's present path; `None` once the file is removed.
    path: Option<PathBuf>,
    open: u32,
}

#[derive(Clone)]
struct Change {
    seq: Seq,
    what: What,
    /// Lengths of the file before and after the change. They are equal when the change leaves the
    /// length alone or the length is durable already.
    was: u64,
    len: u64,
}
#[derive(Clone)]
enum What {
    Write(Piece),
    /// The bytes past the new length are gone.
    Cut,
    Grow,
}
/// A part of the bytes of a write.
#[derive(Clone)]
pub(crate) struct Piece {
    pub offset: u64,
    pub data: Arc<[u8]>,
    pub from: usize,
    pub to: usize,
}
impl Piece {
    pub fn new(offset: u64, data: &[u8]) -> Piece {
        Piece { offset, from: 0, to: data.len(), data: data.into() }
    }
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.from..self.to]
    }
    pub fn end(&self) -> u64 {
        self.offset + (self.to - self.from) as u64
    }
    /// The part inside `from..to`, if there is any.
    fn slice(&self, from: u64, to: u64) -> Option<Piece> {
        let (from, to) = (from.max(self.offset), to.min(self.end()));
        let index = |at: u64| self.from + (at - self.offset) as usize;
        (from < to).then(|| Piece {
            offset: from,
            data: self.data.clone(),
            from: index(from),
            to: index(to),
        })
    }
}

#[derive(Clone)]
struct NameChange {
    seq: Seq,
    /// The folder whose sync makes the change durable.
    dir: PathBuf,
    what: NameOp,
}
#[derive(Clone)]
enum NameOp {
    Create(PathBuf, FileId),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, FileId),
}
impl NameOp {
    fn apply(&self, names: &mut BTreeMap<PathBuf, FileId>) {
        match self {
            NameOp::Create(path, id) => drop(names.insert(path.clone(), *id)),
            NameOp::Remove(path) => drop(names.remove(path)),
            NameOp::Rename(from, to, id) => {
                if names.get(from) == Some(id) {
                    names.remove(from);
                }
                names.insert(to.clone(), *id);
            }
        }
    }
}

impl Content {
    /// Takes the bytes `from..to` out of the unsynced writes.
    fn punch(&mut self, from: u64, to: u64) {
        let mut left = Vec::with_capacity(self.changes.len() + 1);
        for c in self.changes.drain(..) {
            match &c.what {
                What::Write(p) if p.offset < to && p.end() > from => {
                    let parts = [p.slice(0, from), p.slice(to, u64::MAX)];
                    let mut was = c.was;
                    for p in parts.into_iter().flatten() {
                        left.push(Change { seq: c.seq, what: What::Write(p), was, len: c.len });
                        was = c.len;
                    }
                    if was != c.len {
                        left.push(Change { what: What::Grow, was, ..c });
                    }
                }
                _ => left.push(c),
            }
        }
        self.changes = left;
    }
    fn write_through(&mut self, piece: &Piece) {
        self.now.write(piece.bytes(), piece.offset);
        let shortest = self.changes.iter().filter(|c| c.was != c.len).map(|c| c.len).min();
        if piece.end() > shortest.unwrap_or(u64::MAX).min(self.durable.len()) {
            self.length_is_durable();
        }
        self.punch(piece.offset, piece.end());
        self.durable.write(piece.bytes(), piece.offset);
    }
    /// Makes all length changes durable: a file system that commits a length has committed all
    /// earlier length changes.
    fn length_is_durable(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        for c in changes.drain(..) {
            if c.was != c.len {
                self.durable.set_len(c.len);
            }
            match c.what {
                What::Write(_) => self.changes.push(Change { was: c.len, ..c }),
                What::Cut => self.punch(c.len, u64::MAX),
                What::Grow => {}
            }
        }
    }
    fn make_durable(&mut self, which: impl Fn(Seq) -> bool) {
        let mut changes = std::mem::take(&mut self.changes);
        for c in changes.drain(..) {
            if !which(c.seq) {
                self.changes.push(c);
                continue;
            }
            match &c.what {
                What::Write(p) => self.durable.write(p.bytes(), p.offset),
                What::Cut => {
                    self.durable.set_len(c.len);
                    self.punch(c.len, u64::MAX);
                }
                What::Grow => self.durable.set_len(self.durable.len().max(c.len)),
            }
        }
    }
}

pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}
fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{}: no such file or folder", path.display()))
}

/// Names.
impl Medium {
    fn change_name(&mut self, dir: &Path, what: NameOp) -> Seq {
        what.apply(&mut self.names);
        self.next_seq += 1;
        self.name_changes.push(NameChange { seq: self.next_seq, dir: dir.into(), what });
        self.next_seq
    }
    pub fn is_dir(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || path.parent().is_none() || self.dirs.contains(path)
    }
    pub fn find(&self, path: &Path) -> Option<FileId> {
        self.names.get(path).copied()
    }
    pub fn create_dir_all(&mut self, dir: &Path) {
        self.dirs
            .extend(dir.ancestors().filter(|d| !d.as_os_str().is_empty()).map(Path::to_path_buf));
    }
    pub fn create(&mut self, path: &Path) -> io::Result<(FileId, Seq)> {
        if !self.is_dir(parent(path)) {
            return Err(not_found(path));
        }
        if self.is_dir(path) {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, path.display().to_string()));
        }
        self.next_file += 1;
        let id = self.next_file;
        self.files.insert(id, Content { path: Some(path.into()), ..Content::default() });
        Ok((id, self.change_name(parent(path), NameOp::Create(path.into(), id))))
    }
    pub fn remove(&mut self, path: &Path) -> io::Result<Seq> {
        if self.dirs.contains(path) {
            if !self.list(path)?.is_empty() {
                return Err(io::Error::new(
                    io::ErrorKind::DirectoryNotEmpty,
                    path.display().to_string(),
                ));
            }
            self.dirs.remove(path);
            return Ok(self.next_seq);
        }
        let id = self.find(path).ok_or_else(|| not_found(path))?;
        self.file(id).path = None;
        let seq = self.change_name(parent(path), NameOp::Remove(path.into()));
        self.forget_unreachable();
        Ok(seq)
    }
    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<Seq> {
        let id =
            self.find(from).filter(|_| self.is_dir(parent(to))).ok_or_else(|| not_found(from))?;
        if from == to {
            return Ok(self.next_seq);
        }
        if let Some(replaced) = self.find(to) {
            self.file(replaced).path = None;
        }
        self.file(id).path = Some(to.into());
        let seq = self.change_name(parent(to), NameOp::Rename(from.into(), to.into(), id));
        self.forget_unreachable();
        Ok(seq)
    }
    pub fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if !self.is_dir(dir) {
            return Err(not_found(dir));
        }
        let inside = self.names.keys().chain(&self.dirs).filter(|p| p.parent() == Some(dir));
        let mut names: Vec<String> =
            inside.filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned())).collect();
        names.sort_unstable();
        Ok(names)
    }
    /// Makes those name changes of a folder durable that `which` selects.
    pub fn sync_dir(&mut self, dir: &Path, which: impl Fn(Seq) -> bool) -> io::Result<()> {
        if !self.is_dir(dir) {
            return Err(not_found(dir));
        }
        let (durable, left) =
            self.name_changes.drain(..).partition(|c| c.dir == dir && which(c.seq));
        self.name_changes = left;
        let durable: Vec<NameChange> = durable;
        durable.iter().for_each(|c| c.what.apply(&mut self.durable_names));
        self.forget_unreachable();
        Ok(())
    }
    /// The file existed before the recording began: its name is durable.
    pub fn name_is_durable(&mut self, path: &Path, id: FileId) {
        self.name_changes.retain(|c| !matches!(&c.what, NameOp::Create(_, i) if *i == id));
        self.durable_names.insert(path.into(), id);
    }
    pub fn last_seq(&self) -> Seq {
        self.next_seq
    }
    /// The present files, with their lengths.
    pub fn files(&self) -> impl Iterator<Item = (&Path, FileId, u64)> {
        self.names.iter().map(|(path, id)| (path.as_path(), *id, self.files[id].now.len()))
    }
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(PathBuf::as_path)
    }
    fn forget_unreachable(&mut self) {
        let reachable: BTreeSet<FileId> =
            self.durable_names.values().chain(self.names.values()).copied().collect();
        let unsure = |id: &FileId| {
            self.name_changes.iter().any(
                |c| matches!(c.what, NameOp::Create(_, i) | NameOp::Rename(_, _, i) if i == *id),
            )
        };
        let gone: Vec<FileId> = self
            .files
            .iter()
            .filter(|(id, f)| f.open == 0 && !reachable.contains(id) && !unsure(id))
            .map(|(id, _)| *id)
            .collect();
        gone.iter().for_each(|id| drop(self.files.remove(id)));
    }
}

/// Content.
impl Medium {
    fn file(&mut self, id: FileId) -> &mut Content {
        self.files.get_mut(&id).expect("an open file")
    }
    /// The file's present path; a removed file has none.
    pub fn path(&self, id: FileId) -> Option<&Path> {
        self.files.get(&id)?.path.as_deref()
    }
    pub fn now(&self, id: FileId) -> &Image {
        &self.files[&id].now
    }
    /// Counts an open handle, since an open file outlives its name.
    pub fn opened(&mut self, id: FileId) {
        self.file(id).open += 1;
    }
    pub fn closed(&mut self, id: FileId) {
        // After a power loss the file may be gone already.
        if let Some(f) = self.files.get_mut(&id) {
            f.open = f.open.saturating_sub(1);
            if f.open == 0 && f.path.is_none() {
                self.forget_unreachable();
            }
        }
    }
    /// Closes all files: the program that had them open has ended.
    pub fn close_all(&mut self) {
        self.files.values_mut().for_each(|f| f.open = 0);
        self.forget_unreachable();
    }
    /// Space in use by files, in whole blocks.
    pub fn used_bytes(&self) -> u64 {
        self.files
            .values()
            .filter(|f| f.path.is_some() || f.open > 0)
            .map(|f| f.now.len().next_multiple_of(4096))
            .sum()
    }
    fn change(&mut self, id: FileId, make: impl FnOnce(&mut Content) -> What) -> Seq {
        self.next_seq += 1;
        let seq = self.next_seq;
        let file = self.file(id);
        let was = file.now.len();
        let what = make(file);
        let len = file.now.len();
        file.changes.push(Change { seq, what, was, len });
        seq
    }
    pub fn write(&mut self, id: FileId, piece: Piece) -> Seq {
        self.change(id, |f| {
            f.now.write(piece.bytes(), piece.offset);
            What::Write(piece)
        })
    }
    pub fn write_durable(&mut self, id: FileId, piece: &Piece) {
        self.file(id).write_through(piece);
    }
    pub fn set_len(&mut self, id: FileId, len: u64) -> Seq {
        self.change(id, |f| {
            let cut = len < f.now.len();
            f.now.set_len(len);
            if cut { What::Cut } else { What::Grow }
        })
    }
    /// Makes those changes of a file durable that `which` selects.
    pub fn sync(&mut self, id: FileId, which: impl Fn(Seq) -> bool) {
        self.file(id).make_durable(which);
    }
    /// Changes the durable content although no program wrote it: bit rot, or a test's preparation.
    pub fn overwrite(&mut self, id: FileId, data: &[u8], offset: u64) {
        self.file(id).write_through(&Piece::new(offset, data));
    }
}
