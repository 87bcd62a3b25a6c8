//! What a start judges of the files that it finds, and what it keeps of them.
use super::{Files, Place, sync_dir};
use redolith_binlog::file::{FIRST_EVENT_AT, file_name, file_number};
use redolith_binlog::{Header, ReadError, Reader};
use redolith_disk::OpenHow;
use redolith_engine::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};

/// The bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

impl Place {
    /// The error for damage of the binary log, which its administrator can give up.
    pub(super) fn damaged(&self, what: &str) -> Error {
        Error::Damaged(format!(
            "{what}. Nothing has been changed: restore it, or remove {} to begin a new binary log; \
             then replicas have to be set up again",
            self.index().display()
        ))
    }
}

/// What tells a file from the others: when and by which server it was begun, and its second event,
/// PREVIOUS_GTIDS.
type Head = (u32, u32, Vec<u8>);

/// The head of a file.
fn read_head(reader: &mut Reader) -> std::result::Result<Head, ReadError> {
    let format = reader.next_event()?.map(|event| event.header);
    let second = reader.next_event()?.map(|event| event.bytes.to_vec());
    let (timestamp, server_id) = format.map_or((0, 0), |h| (h.timestamp, h.server_id));
    Ok((timestamp, server_id, second.unwrap_or_default()))
}
/// The head in the first bytes of a file.
fn made_head(bytes: &[u8]) -> Option<Head> {
    let events = bytes.get(FIRST_EVENT_AT as usize..)?;
    let format = Header::decode(events).ok()?;
    let second = events.get(format.len as usize..)?;
    let len = Header::decode(second).ok()?.len;
    Some((format.timestamp, format.server_id, second.get(..len as usize)?.to_vec()))
}

impl Files {
    fn exists(&self, number: u32) -> bool {
        self.disk.exists(&self.place.path(number))
    }

    /// Whether a new binary log begins behind file `number`, in which the last one went on: the
    /// user has removed the index, and perhaps a crash has ended the start after that.
    pub(crate) fn begins_anew(&self, number: u32) -> Result<bool> {
        if self.index.exists() && self.index.files().is_empty() {
            return Err(Error::Damaged(format!(
                "{} is empty, and the binary log went on in {}. Restore the index, or remove it to \
                 begin a new binary log; then replicas have to be set up again",
                self.place.index().display(),
                self.place.path(number).display()
            )));
        }
        // A start makes the file that it names. A name alone, beside the file of before, may be
        // this file's own name, damaged.
        Ok(self.numbers().first().is_none_or(|first| {
            first - 1 == number && (self.exists(*first) || !self.exists(number))
        }))
    }

    /// Judges whether the binary log can go on at `offset` of file `number`.
    pub(crate) fn judge_place(&self, number: u32, offset: u64) -> Result<()> {
        let path = self.place.path(number);
        if !self.numbers().contains(&number) {
            return Err(self.place.damaged(&format!(
                "{} does not name {}, in which the binary log goes on: it is an older copy, or was \
                 cut or damaged",
                self.place.index().display(),
                path.display()
            )));
        }
        let goes_on = |e: &dyn std::fmt::Display| {
            self.place
                .damaged(&format!("{e}: the binary log goes on at position {offset} of this file"))
        };
        let len = self.len(number).map_err(|e| goes_on(&format!("{}: {e}", path.display())))?;
        if len < offset {
            return Err(self.place.damaged(&format!(
                "{} has {len} bytes, and had {offset} durable: it is an older copy, or was cut",
                path.display()
            )));
        }
        let judged = Reader::open(&*self.disk, &path).and_then(|mut r| r.judge_end(offset));
        judged.map_err(|e| goes_on(&e))
    }

    /// Judges the length of a file that the index names, if it is there, and returns it. A file
    /// that the index does not name is not the log's ([`Files::begin`]).
    pub(crate) fn judge_len(&self, number: u32, least: u64, most: u64) -> Result<u64> {
        let path = self.place.path(number);
        if !self.numbers().contains(&number) || !self.exists(number) {
            return Ok(0);
        }
        let len = self.len(number).map_err(|e| {
            self.place.damaged(&format!("{}: {e}: the binary log goes on there", path.display()))
        })?;
        if len < least || len > most {
            return Err(self.place.damaged(&format!(
                "{} has {len} bytes, and the binary log of this data directory has {most} bytes of \
                 it: it is another file, or the redo log is an older copy",
                path.display()
            )));
        }
        Ok(len)
    }

    /// Judges the begin of a file that is going to be made again with these first bytes. A power
    /// loss may have left anything; but where the file begins as another one, it is another one.
    pub(crate) fn judge_head(&self, number: u32, head: &[u8]) -> Result<()> {
        let path = self.place.path(number);
        if !self.numbers().contains(&number) || !self.exists(number) {
            return Ok(());
        }
        let Ok(found) = Reader::open(&*self.disk, &path).and_then(|mut r| read_head(&mut r)) else {
            return Ok(());
        };
        if made_head(head).is_none_or(|made| made == found) {
            return Ok(());
        }
        Err(self.place.damaged(&format!(
            "{} begins as another file than the redo log makes of it: files were confused, or the \
             redo log is an older copy",
            path.display()
        )))
    }

    /// Judges the names in the index that have no file. A removed file leaves its name, and so does
    /// one that a crash did not let begin; but where a file has no name between the neighbours of
    /// such a name, the name was damaged, and without it the file would be lost. The log goes to
    /// the file `last`: files behind it are those of another one.
    pub(crate) fn judge_missing(&self, last: u32) -> Result<()> {
        let named = self.numbers();
        let missing = |n: &u32| !self.exists(*n);
        if !named.iter().any(missing) {
            return Ok(());
        }
        let dir = &self.place.dir;
        let listed = self.disk.list(dir);
        let listed =
            listed.map_err(|e| Error::io(format_args!("reading {}", dir.display()), &e))?;
        let is_ours = |name: &String| {
            let number = file_number(name)?;
            let own = *name == file_name(&self.place.base, number);
            (own && !named.contains(&number)).then_some(number)
        };
        let nameless: Vec<u32> =
            listed.iter().filter_map(is_ours).filter(|number| *number <= last).collect();
        for (i, n) in named.iter().enumerate().filter(|(_, n)| missing(n)) {
            // Files before the first name are those of an earlier log.
            let after = if i == 0 { *n } else { named[i - 1] };
            let before = named.get(i + 1).copied().unwrap_or(u32::MAX);
            if let Some(file) = nameless.iter().find(|file| (after..before).contains(file)) {
                return Err(self.place.damaged(&format!(
                    "{}: line {}, {:?}, names a file that is not there, and no line names {}, \
                     which is: the line is damaged",
                    self.place.index().display(),
                    i + 1,
                    self.place.line(*n),
                    self.place.path(*file).display()
                )));
            }
        }
        Ok(())
    }

    /// A free name for a file that has to give way.
    pub(super) fn aside(&self, path: &Path) -> PathBuf {
        let name = |n: u32| {
            let mut aside = path.to_path_buf();
            aside.as_mut_os_string().push(".set-aside");
            if n > 1 {
                aside.as_mut_os_string().push(format!(".{n}"));
            }
            aside
        };
        let mut names = (1..).map(name);
        names.find(|aside| !self.disk.exists(aside)).expect("there are more names than files")
    }

    /// Copies a file before a start writes to it and cuts it.
    pub(crate) fn keep_copy(&mut self, number: u32) -> io::Result<()> {
        let path = self.place.path(number);
        let aside = self.aside(&path);
        if let Err(e) = self.copy(&path, &aside) {
            // Half a copy is of no use, and the file is whole.
            let _ = self.disk.remove(&aside);
            return Err(e);
        }
        tracing::warn!(
            "{} has events that the redo log does not know. They are cut, and {} is the file as \
             it was",
            path.display(),
            aside.display()
        );
        self.kept = Some(number);
        Ok(())
    }
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let from = self.disk.open(from, OpenHow::existing(false))?;
        let to = self.disk.open(to, OpenHow::create_new(false))?;
        let (len, mut at, mut bytes) = (from.len()?, 0, Vec::new());
        while at < len {
            bytes.resize((len - at).min(COPY_BYTES as u64) as usize, 0);
            from.read_at(&mut bytes, at)?;
            to.write_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
        to.sync()?;
        sync_dir(&*self.disk, &self.place.dir)
    }
}
