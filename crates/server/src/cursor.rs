//! Cursors of prepared statements: COM_STMT_EXECUTE with CURSOR_TYPE_READ_ONLY, and COM_STMT_FETCH.
//!
//! The statement runs to its end when its cursor is opened. The cursor keeps the rows as they go to
//! the client, so what is fetched later depends on no transaction, lock or setting.
//!
//! FETCH-1: the client gets the definitions, with CURSOR_EXISTS, when all rows are there. If the
//! statement fails, the client gets nothing but the error.
//! FETCH-2: a cursor has about `IN_MEMORY` bytes of rows in memory, in an account of its own. The
//! rows before them are in a temporary file. If there may be no temporary file, all rows are in
//! memory: the accounts of the statement, and then of the cursor, bound them.
//! FETCH-3: at most `MOST_FILES` cursors of a connection have files, because the process may open
//! only so many.
use crate::protocol::output::Output;
use crate::protocol::packet::HEADER;
use redolith_disk::Disk;
use redolith_engine::runtime::{Runtime, give_way};
use redolith_engine::temporary::{TemporaryFile, TemporarySpace, end_record, take_record};
use redolith_sql::SqlError;
use redolith_sql::memory::Account;
use redolith_sql::processes::{Kill, Process};
use std::ops::Range;
use std::sync::Arc;

/// Rows with more bytes than this go to a file.
const IN_MEMORY: usize = 256 << 10;
/// The bytes that are written to a file at a time.
const WRITTEN: usize = 1 << 20;
/// The bytes that are read from a file at a time.
const READ: usize = 64 << 10;
/// A record begins with its length, which takes the place of a packet's header.
const _: () = assert!(size_of::<u32>() == HEADER);
/// The cursors of a connection that may have files.
pub const MOST_FILES: usize = 16;

/// Where cursors keep their rows.
#[derive(Clone)]
pub struct CursorSpace {
    pub temporary: Arc<TemporarySpace>,
    pub disk: Arc<dyn Disk>,
    pub runtime: Arc<dyn Runtime>,
}

/// A temporary file with rows. The system frees a file of any length, which may take long.
struct RowsFile {
    file: TemporaryFile,
    runtime: Arc<dyn Runtime>,
}
impl Drop for RowsFile {
    fn drop(&mut self) {
        self.runtime.leave_worker();
    }
}

/// The cursor of a statement that runs. Its rows collect in the connection's output.
pub struct Opening {
    space: CursorSpace,
    may_have_file: bool,
    file: Option<RowsFile>,
    memory: Account,
    /// The packets of the definitions, and the number of the first.
    definitions: Option<Vec<u8>>,
    sequence: u8,
    /// The length of the rows in the output at the last look.
    seen: usize,
    failed: Option<SqlError>,
    /// The rows behind those in the file, if the statement has ended well.
    last: Option<Vec<u8>>,
}

impl Opening {
    /// `memory` is the account of the cursor. `sequence` is the number of the answer's first
    /// packet.
    pub fn new(space: CursorSpace, may_have_file: bool, memory: Account, sequence: u8) -> Opening {
        Opening {
            space,
            may_have_file,
            file: None,
            memory,
            definitions: None,
            sequence,
            seen: 0,
            failed: None,
            last: None,
        }
    }
    /// Takes the definitions out of the output. From now on rows collect there.
    pub fn take_definitions(&mut self, output: &mut Output) {
        self.definitions = Some(std::mem::take(&mut output.buf));
    }
    /// The memory of the definitions. That of the rows is the output's.
    pub fn held(&self) -> usize {
        self.definitions.as_ref().map_or(0, Vec::capacity)
    }
    /// The length of the rows in the output at the last look.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Ends the row in the packet that begins at `packet_at`, which becomes a record.
    pub fn end_row(&mut self, output: &mut Output, packet_at: usize) {
        if !end_record(&mut output.buf, packet_at + HEADER) {
            let what = "Out of memory: a row is longer than 4294967295 bytes";
            self.failed.get_or_insert_with(|| SqlError::new(1038, what));
        }
    }

    /// Looks at the rows in the output, and writes them to the file if they are many.
    pub async fn drain(&mut self, output: &mut Output, process: &Process) -> Result<(), SqlError> {
        self.failed.take().map_or(Ok(()), Err)?;
        let (rows, CursorSpace { temporary, disk, runtime }) = (&mut output.buf, &self.space);
        if rows.len() >= IN_MEMORY && self.may_have_file && temporary.is_on() {
            runtime.leave_worker();
            let file = match &mut self.file {
                Some(file) => file,
                None => {
                    let file = temporary.create(&**disk)?;
                    self.file.insert(RowsFile { file, runtime: runtime.clone() })
                }
            };
            for piece in rows.chunks(WRITTEN) {
                file.file.append(piece)?;
                give_way(&**runtime).await;
                go_on(process)?;
            }
            rows.clear();
            rows.shrink_to(2 * IN_MEMORY);
        }
        self.seen = rows.len();
        go_on(process)
    }

    /// Ends the rows. The output has the definitions again.
    pub fn finish(&mut self, output: &mut Output) -> Result<(), SqlError> {
        self.failed.take().map_or(Ok(()), Err)?;
        output.buf.shrink_to_fit();
        self.memory.set(output.buf.capacity())?;
        let definitions = self.definitions.take().unwrap_or_default();
        self.last = Some(std::mem::replace(&mut output.buf, definitions));
        Ok(())
    }
    /// Takes everything back that the output has of the answer (FETCH-1).
    pub fn give_up(&mut self, output: &mut Output) {
        if self.definitions.take().is_some() {
            output.buf.clear();
            output.sequence = self.sequence;
        }
    }
    /// The cursor, if the statement has ended well and has rows.
    pub fn into_cursor(self) -> Option<Box<Cursor>> {
        Some(Box::new(Cursor {
            last: self.last?,
            file: self.file,
            read: 0,
            bytes: Vec::new(),
            next: 0,
            memory: self.memory,
            runtime: self.space.runtime,
        }))
    }
}

fn go_on(process: &Process) -> Result<(), SqlError> {
    match process.killed() {
        Kill::None => Ok(()),
        kill => Err(kill.error()),
    }
}

/// The rows of a statement that has ended.
pub struct Cursor {
    /// The file, and how much of it has been read.
    file: Option<RowsFile>,
    read: u64,
    /// Records, of which those before `next` were fetched.
    bytes: Vec<u8>,
    next: usize,
    /// The records behind those in the file.
    last: Vec<u8>,
    memory: Account,
    runtime: Arc<dyn Runtime>,
}

impl Cursor {
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }
    /// The body of the next row's packet; `None` after the last row.
    pub fn next_row(&mut self) -> Result<Option<&[u8]>, SqlError> {
        loop {
            if let Some(row) = self.next_in_memory() {
                return Ok(Some(&self.bytes[row]));
            }
            if !self.read_more()? {
                return Ok(None);
            }
        }
    }
    fn next_in_memory(&mut self) -> Option<Range<usize>> {
        let mut rest = &self.bytes[self.next..];
        let len = take_record(&mut rest)?.len();
        self.next = self.bytes.len() - rest.len();
        Some(self.next - len..self.next)
    }
    /// Brings more of the rows to `bytes`. Returns false if there are none.
    fn read_more(&mut self) -> Result<bool, SqlError> {
        let file = self.file.as_ref().map(|rows| &rows.file);
        let left = file.map_or(0, |file| (file.size() - self.read) as usize);
        let Some(file) = file.filter(|_| left > 0) else {
            self.file = None;
            (self.bytes, self.next) = (std::mem::take(&mut self.last), 0);
            self.memory.set(self.bytes.capacity())?;
            return Ok(!self.bytes.is_empty());
        };
        self.bytes.drain(..self.next);
        self.next = 0;
        self.bytes.shrink_to(2 * READ);
        // A row that is longer than what is read at a time is read whole.
        let before = self.bytes.len();
        let row =
            self.bytes.first_chunk().map_or(0, |len| HEADER + u32::from_le_bytes(*len) as usize);
        let more = READ.max(row.saturating_sub(before)).min(left);
        self.memory.set(self.bytes.capacity().max(before + more) + self.last.capacity())?;
        self.bytes.reserve_exact(more);
        self.bytes.resize(before + more, 0);
        self.runtime.leave_worker();
        file.read(self.read, &mut self.bytes[before..])?;
        self.read += more as u64;
        Ok(true)
    }
}
