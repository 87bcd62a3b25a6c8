//! The files of the binary log on the disk, and their index.
//!
//! BINLOG-FILES-1: every step may be done again: a start that makes the files again writes the same
//! bytes at the same places, and cuts what lies behind.
//! BINLOG-FILES-2: before a reset removes the first file, a mark with the LSN of its record is
//! durable ([`reset`]). It stays until a checkpoint has passed the record. A start that begins
//! before the record finds the mark, does not look for the files of then, and begins anew at the
//! record.
//! BINLOG-FILES-3: the index names every file: from before the file is made until it is gone. What
//! a crash leaves is a name without a file. Behind the last transaction, a start makes that file;
//! before it, [`Files::forget_gone`] takes the name out.
//! BINLOG-FILES-4: a failed sync of a file of the log, or of the folder, ends the process: the
//! system tells only once, and another try would succeed without what is lost. So the syncs of the
//! open file, by the task and by sessions, take turns ([`in_turn`]): a failed one is told to all
//! whose bytes it may have lost. (An index and a mark are written anew before the next try.)
//! BINLOG-FILES-5: a purge takes a file only if the state that a checkpoint has is of a later file.
//! The start after a crash begins with this state, and makes the files from there on again.
//! BINLOG-FILES-6: bytes that the redo log does not have are never written over and never cut: a
//! file in the way gets another name, and a file that is to be cut is copied first.
mod judge;
pub(crate) mod order;
mod reset;

use crate::binlog::counters::{Counts, add};
use crate::maker::Part;
use crate::tail::Tail;
use parking_lot::Mutex;
use redolith_binlog::file::{file_name, file_number, mark_closed};
use redolith_binlog::{BinlogPosition, Index};
use redolith_disk::{Disk, File, OpenHow, in_turn};
use redolith_engine::Lsn;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Where the binary log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder.
    pub dir: PathBuf,
    /// The first part of the files' names: `binlog` of `binlog.000042`.
    pub base: String,
}
impl Place {
    /// The path of a file.
    pub fn path(&self, number: u32) -> PathBuf {
        self.dir.join(file_name(&self.base, number))
    }
    /// The path of the index.
    pub fn index(&self) -> PathBuf {
        self.dir.join(format!("{}.index", self.base))
    }
    /// How the index names a file.
    fn line(&self, number: u32) -> String {
        format!("./{}", file_name(&self.base, number))
    }
}

/// The files, open for writing.
pub struct Files {
    disk: Arc<dyn Disk>,
    place: Place,
    index: Index,
    /// The file that is written, and its number.
    open: Option<(u32, Arc<dyn File>)>,
    /// How many bytes were written to all files.
    written: u64,
    syncs: Arc<Syncs>,
    /// What is to be written.
    parts: VecDeque<Part>,
    /// What was written last, for those who read the end of the log.
    tail: Arc<Tail>,
    closed: Arc<ClosedFiles>,
    /// The record of the last reset, until a checkpoint has passed it (BINLOG-FILES-2).
    reset_mark: Option<Lsn>,
    counts: Arc<Counts>,
    /// Whether the folder is there for certain after a power loss.
    folder_is_durable: bool,
    /// The file of which a copy was kept (BINLOG-FILES-6).
    kept: Option<u32>,
}

/// A file with bytes that no sync had made durable when this was made.
#[derive(Clone)]
pub(crate) struct Unsynced {
    path: PathBuf,
    file: Arc<dyn File>,
    /// How many bytes were written to all files so far.
    written: u64,
    syncs: Arc<Syncs>,
}
/// The syncs of the open file: by the task, and by sessions of the classic commit.
struct Syncs {
    /// How many of the written bytes are synced.
    bytes: AtomicU64,
    /// Held during a sync that waits for the disk on its thread, so that one serves all who wait.
    busy: Mutex<()>,
    counts: Arc<Counts>,
}
impl Unsynced {
    pub(crate) fn file(&self) -> &dyn File {
        &*self.file
    }
    /// Whether somebody has synced the file since.
    pub(crate) fn is_synced(&self) -> bool {
        self.syncs.bytes.load(Acquire) >= self.written
    }
    /// Takes what a sync said. An error ends the process: the system may have lost the bytes, and
    /// tells only once. The redo log still has them, so the next start writes them again.
    pub(crate) fn synced(&self, said: io::Result<()>) {
        must_be_synced(&self.path, said);
        self.syncs.counts.syncs.fetch_add(1, Relaxed);
        self.syncs.bytes.fetch_max(self.written, AcqRel);
    }
    /// Syncs the file, on this thread, if nobody else has done it since.
    pub(crate) fn sync(&self) {
        let _busy = self.syncs.busy.lock();
        if !self.is_synced() {
            self.synced(self.file.sync());
        }
    }
}

/// Makes durable which files a folder has, and under which names (BINLOG-FILES-4).
pub(crate) fn sync_dir(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    match disk.sync_dir(dir) {
        Err(e) if redolith_disk::was_not_begun(&e) => return Err(e),
        said => must_be_synced(dir, said),
    }
    Ok(())
}
/// Ends the process if a sync has failed (BINLOG-FILES-4).
fn must_be_synced(path: &Path, said: io::Result<()>) {
    if let Err(e) = said {
        redolith_engine::poison(&format!("syncing {}: {e}", path.display()));
    }
}

/// Refuses an index that this server has not written: a line that is no name of a file of the
/// binary log would be passed over, and its file with it.
fn judge_lines(index: &Index, place: &Place) -> io::Result<()> {
    let mut before = 0;
    for (i, line) in index.files().iter().enumerate() {
        let number = file_number(line).filter(|n| *n > before && *line == place.line(*n));
        before = number.ok_or_else(|| {
            let (path, n) = (place.index(), i + 1);
            let why = format!(
                "{}: line {n}, {line:?}, is not the name of the next file. Restore the index, \
                 or mend it: it has a line for each file, such as {:?}, the oldest first",
                path.display(),
                place.line(before + 1)
            );
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
    }
    Ok(())
}

/// The lengths of the files that are not written any more, by their numbers.
pub(crate) type ClosedFiles = Mutex<BTreeMap<u32, u64>>;

impl Files {
    /// Reads the index, and the mark of a reset. Changes nothing.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        place: Place,
        counts: Arc<Counts>,
    ) -> io::Result<Files> {
        let index = Index::open(&*disk, &place.index()).map_err(|e| {
            let why = format!(
                "{e}. Restore the index, or mend it: it has a line for each file, such as {:?}, \
                 the oldest first",
                place.line(1)
            );
            io::Error::new(e.kind(), why)
        })?;
        judge_lines(&index, &place)?;
        let files = Files {
            reset_mark: reset::read(&*disk, &place)?,
            disk,
            place,
            index,
            open: None,
            written: 0,
            syncs: Arc::new(Syncs {
                bytes: AtomicU64::new(0),
                busy: Mutex::new(()),
                counts: counts.clone(),
            }),
            parts: VecDeque::new(),
            tail: Arc::default(),
            closed: Arc::default(),
            counts,
            folder_is_durable: false,
            kept: None,
        };
        for number in files.numbers() {
            // A file that is missing is told when it is read.
            files.len(number).into_iter().for_each(|len| {
                files.closed.lock().insert(number, len);
            });
        }
        Ok(files)
    }
    /// The lengths of the closed files.
    pub(crate) fn closed(&self) -> &Arc<ClosedFiles> {
        &self.closed
    }
    /// What was written last.
    pub(crate) fn tail(&self) -> &Arc<Tail> {
        &self.tail
    }

    /// The files' place.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The numbers of the files in the index, the oldest first.
    pub fn numbers(&self) -> Vec<u32> {
        let files = self.index.files().iter();
        files.filter_map(|f| file_number(f)).collect()
    }

    /// The length of a file.
    pub fn len(&self, number: u32) -> io::Result<u64> {
        self.disk.open(&self.place.path(number), OpenHow::existing(false))?.len()
    }

    /// The bytes that a failed write has left to be written.
    pub fn waiting_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }

    /// Adds parts to be written.
    pub fn add(&mut self, parts: Vec<Part>) {
        self.parts.extend(parts);
    }

    /// Writes all parts. After an error the rest is written by the next call.
    pub fn write(&mut self) -> io::Result<()> {
        while let Some(part) = self.parts.front() {
            let (number, ends) = (part.file, part.ends);
            let file = match &self.open {
                Some((n, file)) if *n == number => file.clone(),
                _ => self.begin(number, part.at == 0)?,
            };
            let part = self.parts.front().expect("it was there");
            file.write_at(&part.bytes, part.at)?;
            add(&self.counts.writes, 1);
            add(&self.counts.bytes, part.bytes.len() as u64);
            self.written += part.bytes.len() as u64;
            if self.tail.is_wanted() {
                self.tail.add(number, part.at, &part.bytes);
            }
            if ends {
                mark_closed(&*file)?;
                // The mark is to be synced, also where the part has no bytes.
                self.written += 1;
                self.closed.lock().insert(number, part.at + part.bytes.len() as u64);
                self.sync();
                self.open = None;
            }
            self.parts.pop_front();
        }
        Ok(())
    }

    /// Opens a file to go on with, or begins it.
    fn begin(&mut self, number: u32, new: bool) -> io::Result<Arc<dyn File>> {
        self.sync();
        let path = self.place.path(number);
        let file = if new {
            if !self.folder_is_durable {
                self.disk.create_dir_all(&self.place.dir)?;
                // Another try may have made it, and not have synced it.
                if let Some(parent) = self.place.dir.parent().filter(|p| !p.as_os_str().is_empty())
                {
                    sync_dir(&*self.disk, parent)?;
                }
                self.folder_is_durable = true;
            }
            if !self.numbers().contains(&number) {
                self.give_way(&path)?;
                // The first name of a log without its file would pass for another name, damaged
                // ([`Files::begins_anew`]).
                if self.numbers().is_empty() {
                    self.disk.open(&path, OpenHow::create(false))?;
                    self.sync_dir()?;
                }
                self.index.push(&*self.disk, &self.place.line(number))?;
            }
            self.sync_dir()?;
            let file = self.disk.open(&path, OpenHow::create(false))?;
            file.set_len(0)?;
            self.sync_dir()?;
            file
        } else {
            self.disk.open(&path, OpenHow::existing(false))?
        };
        let file = in_turn(file);
        self.open = Some((number, file.clone()));
        Ok(file)
    }

    /// Gives a file whose name the log takes another name: the index does not name it, so it is not
    /// the log's (BINLOG-FILES-3). A crash leaves an empty file, which can be gone on with.
    fn give_way(&self, path: &Path) -> io::Result<()> {
        let len = || self.disk.open(path, OpenHow::existing(false)).and_then(|file| file.len());
        if self.disk.exists(path) && !len().is_ok_and(|len| len == 0) {
            let aside = self.aside(path);
            self.disk.rename(path, &aside)?;
            // Before the index has the name, or a start would take the file for the log's own.
            self.sync_dir()?;
            tracing::warn!(
                "{} was not in the index of the binary log: it is now {}",
                path.display(),
                aside.display()
            );
        }
        Ok(())
    }

    /// Makes what was written durable. An error ends the process ([`Unsynced::synced`]).
    pub fn sync(&mut self) {
        if let Some(unsynced) = self.unsynced() {
            unsynced.sync();
        }
    }
    /// The open file, if it has bytes that were written since the last sync. (Those before it were
    /// synced when they were left.)
    pub(crate) fn unsynced(&self) -> Option<Unsynced> {
        let (number, file) = self.open.as_ref()?;
        let unsynced = Unsynced {
            path: self.place.path(*number),
            file: file.clone(),
            written: self.written,
            syncs: self.syncs.clone(),
        };
        (!unsynced.is_synced()).then_some(unsynced)
    }
    /// Counts a spill file that was copied.
    pub(crate) fn count_spilled(&self, bytes: u64) {
        add(&self.counts.spilled_transactions, 1);
        add(&self.counts.spilled_bytes, bytes);
    }

    /// Puts away all that lies behind `end`, where a start's work ends (BINLOG-FILES-6). A crash
    /// leaves nothing there, because only durable records get into the files (FOLLOW-1): the redo
    /// log is an older copy, or the disk has lost a part of it.
    pub fn cut(&mut self, end: BinlogPosition) -> io::Result<()> {
        self.sync();
        if end.file == 0 {
            // No file is of this data directory.
            return Ok(());
        }
        let later: Vec<u32> = self.numbers().into_iter().filter(|n| *n > end.file).collect();
        if !later.is_empty() {
            for number in later {
                let path = self.place.path(number);
                let aside = self.aside(&path);
                match self.disk.rename(&path, &aside) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    renamed => renamed?,
                }
                tracing::warn!(
                    "{} has transactions that the redo log does not know: it is now {}",
                    path.display(),
                    aside.display()
                );
            }
            self.sync_dir()?;
            let kept = self.numbers().into_iter().filter(|n| *n <= end.file);
            let lines = kept.map(|n| self.place.line(n)).collect();
            self.index.replace(&*self.disk, lines)?;
            self.sync_dir()?;
        }
        let file = self.disk.open(&self.place.path(end.file), OpenHow::existing(false))?;
        let len = file.len()?;
        if len > end.offset {
            if self.kept != Some(end.file) {
                self.keep_copy(end.file)?;
            }
            file.set_len(end.offset)?;
        }
        must_be_synced(&self.place.path(end.file), file.sync());
        Ok(())
    }

    /// Removes the files before `number`, oldest first. Returns how many.
    pub fn purge_before(&mut self, number: u32) -> io::Result<usize> {
        let old: Vec<u32> = self.numbers().into_iter().take_while(|n| *n < number).collect();
        let mut gone = BTreeSet::new();
        let removed = old.iter().try_for_each(|number| {
            self.remove(&self.place.path(*number))?;
            self.closed.lock().remove(number);
            gone.insert(*number);
            Ok(())
        });
        self.forget(&gone)?;
        removed.map(|()| gone.len())
    }

    /// Takes the oldest files out of the index as far as they are gone and lie before `number`. A
    /// crash while files were removed leaves such names, and so does an administrator who removes
    /// files.
    pub(crate) fn forget_gone(&mut self, number: u32) -> io::Result<()> {
        let is_gone = |n: &u32| {
            let opened = self.disk.open(&self.place.path(*n), OpenHow::existing(false));
            matches!(opened, Err(e) if e.kind() == io::ErrorKind::NotFound)
        };
        let old = self.numbers().into_iter().take_while(|n| *n < number);
        let gone: BTreeSet<u32> = old.take_while(is_gone).collect();
        for number in &gone {
            tracing::warn!(
                "{} is gone, so {} does not name it any more",
                self.place.path(*number).display(),
                self.place.index().display()
            );
        }
        self.forget(&gone)
    }

    /// Takes files that are gone out of the index, once that they are gone is durable.
    fn forget(&mut self, gone: &BTreeSet<u32>) -> io::Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        self.sync_dir()?;
        let is_gone = |file: &str| file_number(file).is_some_and(|n| gone.contains(&n));
        self.index.forget(&*self.disk, is_gone)?;
        self.sync_dir()
    }
    fn sync_dir(&self) -> io::Result<()> {
        sync_dir(&*self.disk, &self.place.dir)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.disk.remove(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}
