//! Walks the events of a file and checks all of them.
//!
//! READ-1: an event is given away only if its length, its position and its checksum are right, and
//! all events before it were. So an event that the reader gives begins where an event begins, also
//! after [`Reader::seek`] to any position, unless somebody has put the bytes of an event into a row
//! there.
//! READ-2: the memory of a reader is the longest event of the file, whatever lengths the file
//! claims: a long event behind a position that the reader was sent to is read into memory only if
//! its checksum is right, or, in a file without checksums, if an event begins there.
use super::{FIRST_EVENT_AT, MAGIC};
use crate::checksum::{self, CRC_LEN};
use crate::event::{Event, checksum_of};
use crate::{Checksum, DecodeError, EventType, FormatDescription, Header};
use redolith_disk::{Disk, File, OpenHow};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are read at once, if no event is longer.
const CHUNK: usize = 64 << 10;
/// The most bytes of an event with the name of a file, and more.
const SHORT: u64 = 4 << 10;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The file could not be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file does not begin with the magic bytes.
    #[error("it is not a file of the binary log: it does not begin with fe 62 69 6e")]
    NotBinlog,
    /// The file does not begin with FORMAT_DESCRIPTION.
    #[error("the first event is of type {0:?}, not a FORMAT_DESCRIPTION")]
    NoFormat(EventType),
    /// The file ends inside an event. That is what a crash leaves of a file that was open.
    #[error("the file ends inside an event: {have} of {need} bytes are there")]
    Cut {
        /// Bytes of the event.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// The length in a header is less than an event has.
    #[error("an event has a length of {0} bytes")]
    Length(u32),
    /// The position in a header is not the one behind the event.
    #[error(
        "an event of {len} bytes says that it ends at {end_pos}: no event begins here, or it is \
         damaged"
    )]
    Position {
        /// The length in the header.
        len: u32,
        /// The position in the header.
        end_pos: u32,
    },
    /// The checksum is not that of the bytes.
    #[error(
        "an event of type {event_type:?}, {len} bytes, has another checksum than its bytes: it is \
         damaged"
    )]
    Checksum {
        /// The type in the header.
        event_type: EventType,
        /// The length of the event.
        len: u32,
    },
    /// The type is above those of the FORMAT_DESCRIPTION event.
    #[error("an event has the type {0:?}, which the FORMAT_DESCRIPTION does not know")]
    UnknownType(EventType),
    /// The body is not one of its type.
    #[error(transparent)]
    Body(#[from] DecodeError),
}

/// What is wrong with a file, and where.
#[derive(Debug, thiserror::Error)]
#[error("binary log {}, position {position}: {damage}", file.display())]
pub struct ReadError {
    /// The file.
    pub file: PathBuf,
    /// Where the event begins.
    pub position: u64,
    /// What is wrong.
    pub damage: Damage,
}

impl ReadError {
    /// Where the event ends, as far as the damage tells.
    pub fn end(&self) -> u64 {
        self.position
            + match self.damage {
                Damage::Checksum { len, .. } | Damage::Position { len, .. } => u64::from(len),
                _ => 0,
            }
    }
}

/// An event whose frame was checked, but not its body.
#[derive(Clone, Copy, Debug)]
pub struct RawEvent<'r> {
    /// Where the event begins.
    pub position: u64,
    /// The header.
    pub header: Header,
    /// The whole event.
    pub bytes: &'r [u8],
    /// The checksum at its end.
    pub checksum: Checksum,
    file: &'r Path,
}

impl<'r> RawEvent<'r> {
    /// The position behind the event.
    pub fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }

    /// What stands between the header and the checksum.
    pub fn body(&self) -> &'r [u8] {
        &self.bytes[Header::LEN..self.bytes.len() - self.checksum.len()]
    }

    /// The event. Fails if the body is not one of its type.
    pub fn decode(&self) -> Result<Event<'r>, ReadError> {
        Event::decode(&self.header, self.body()).map_err(|error| ReadError {
            file: self.file.to_path_buf(),
            position: self.position,
            damage: Damage::Body(error),
        })
    }
}

/// What [`Reader::next_in_pieces`] gives.
#[derive(Debug)]
pub enum Piece<'r> {
    /// An event.
    Event(RawEvent<'r>),
    /// A long event, which begins at the position.
    Long {
        /// Where the event begins.
        position: u64,
        /// Its header.
        header: Header,
    },
}

/// Reads a file event by event.
pub struct Reader {
    path: PathBuf,
    file: Arc<dyn File>,
    /// What lies behind is not read.
    end: u64,
    /// Where the next event begins.
    position: u64,
    /// Whether an event begins there for certain: the reader was not sent there.
    walked: bool,
    format: FormatDescription,
    /// Bytes of the file from `buffer_at` on.
    buffer: Vec<u8>,
    buffer_at: u64,
    /// Where in the buffer the event is that was given last, and its length.
    given: (usize, usize),
}

impl Reader {
    /// Opens a file and reads its FORMAT_DESCRIPTION. The first event that the reader gives is this
    /// one, again.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Reader, ReadError> {
        let opened = disk
            .open(path, OpenHow::existing(false))
            .and_then(|file| file.len().map(|len| (file, len)));
        let (file, end) = opened.map_err(|error| ReadError {
            file: path.to_path_buf(),
            position: 0,
            damage: Damage::Io(error),
        })?;
        Reader::of_file(file, path, end)
    }

    /// Reads an open file, called `path` in errors, up to `end`.
    pub fn of_file(file: Arc<dyn File>, path: &Path, end: u64) -> Result<Reader, ReadError> {
        let mut reader = Reader {
            path: path.to_path_buf(),
            file,
            end,
            position: 0,
            walked: true,
            // Until the file's own is read, no event is.
            format: FormatDescription::new("", 0, Checksum::Crc32),
            buffer: Vec::new(),
            buffer_at: 0,
            given: (0, 0),
        };
        if reader.buffered(0, MAGIC.len() as u64)? != MAGIC {
            return Err(reader.error(Damage::NotBinlog));
        }
        reader.position = FIRST_EVENT_AT;
        reader.format = reader.read_format()?;
        reader.position = FIRST_EVENT_AT;
        Ok(reader)
    }

    fn read_format(&mut self) -> Result<FormatDescription, ReadError> {
        let header = self.header()?;
        if header.event_type != EventType::FORMAT_DESCRIPTION {
            return Err(self.error(Damage::NoFormat(header.event_type)));
        }
        let event = self.next_event()?.map(|event| event.decode()).transpose()?;
        match event {
            Some(Event::FormatDescription(format)) => Ok(format),
            _ => Err(self.error(Damage::NoFormat(header.event_type))),
        }
    }

    /// The FORMAT_DESCRIPTION of the file.
    pub fn format(&self) -> &FormatDescription {
        &self.format
    }

    /// Where the next event begins: behind the last one that was whole.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Where the file ends for this reader.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Reads up to `end`, where a file that grows was durable.
    pub fn set_end(&mut self, end: u64) {
        self.end = end;
        // The buffer may end inside what was not written when it was read.
        self.buffer.clear();
        self.given = (0, 0);
    }

    /// The bytes of the event that [`Reader::next_event`] gave last, until the reader is changed.
    pub fn current(&self) -> &[u8] {
        let (at, len) = self.given;
        self.buffer.get(at..at + len).unwrap_or_default()
    }

    /// Whether the next event can be given without a read of the file.
    pub fn next_is_buffered(&self) -> bool {
        let at = self.position.checked_sub(self.buffer_at);
        let bytes = at.and_then(|at| self.buffer.get(usize::try_from(at).ok()?..));
        bytes.is_some_and(|bytes| match Header::decode(bytes) {
            Ok(header) => bytes.len() >= header.len as usize,
            Err(_) => false,
        })
    }

    /// Frees the buffer: what is read next is read from the file.
    pub fn free_buffer(&mut self) {
        self.buffer = Vec::new();
        self.given = (0, 0);
    }

    /// The memory of the buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Goes to a position. If no event begins there, the next call of [`Reader::next_event`] fails.
    pub fn seek(&mut self, position: u64) {
        let position = position.max(FIRST_EVENT_AT);
        self.walked = position == FIRST_EVENT_AT || self.walked && position == self.position;
        self.position = position;
    }

    /// Goes on behind the next event, of `len` bytes, which the caller has from elsewhere.
    pub fn pass(&mut self, len: u64) {
        self.position += len;
    }

    /// Goes to a position at which the reader has met an event before.
    pub fn return_to(&mut self, position: u64) {
        (self.position, self.walked) = (position, true);
    }

    /// The next event. `None`: the file ends. After an error of a checksum alone, the reader stands
    /// behind the damaged event; after any other error it stands where it was.
    pub fn next_event(&mut self) -> Result<Option<RawEvent<'_>>, ReadError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let header = self.header()?;
        let checksum = checksum_of(header.event_type, self.format.checksum);
        self.check_frame(&header, checksum)?;
        let (position, len) = (self.position, header.len);
        // A row may have the bytes of a header that claims much.
        let may_be_no_event = !self.walked && len as usize > CHUNK;
        let verifies = match checksum {
            Checksum::None if may_be_no_event => {
                self.walk_here(&header)?;
                true
            }
            Checksum::None => true,
            Checksum::Crc32 if may_be_no_event => self.verifies_in_chunks(len.into())?,
            Checksum::Crc32 => checksum::verifies(self.buffered(position, u64::from(len))?),
        };
        if !verifies {
            let event_type = header.event_type;
            let error = self.error(Damage::Checksum { event_type, len });
            self.position += u64::from(len);
            return Err(error);
        }
        self.position += u64::from(len);
        self.walked = true;
        self.read(position, u64::from(len))?;
        self.given = ((position - self.buffer_at) as usize, len as usize);
        let bytes = &self.buffer[self.given.0..][..self.given.1];
        Ok(Some(RawEvent { position, header, bytes, checksum, file: &self.path }))
    }

    /// As [`Reader::next_event`], but does not take a long event into memory: of such a one only
    /// the header comes, and the checksum is right.
    pub fn next_in_pieces(&mut self) -> Result<Option<Piece<'_>>, ReadError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let header = self.header()?;
        let checksum = checksum_of(header.event_type, self.format.checksum);
        self.check_frame(&header, checksum)?;
        let (len, have) = (u64::from(header.len), self.end - self.position);
        if len <= CHUNK as u64 {
            return Ok(self.next_event()?.map(Piece::Event));
        }
        if have < len {
            return Err(self.error(Damage::Cut { need: len, have }));
        }
        if checksum == Checksum::Crc32 && !self.verifies_in_chunks(len)? {
            let damage = Damage::Checksum { event_type: header.event_type, len: header.len };
            let error = self.error(damage);
            self.position += len;
            return Err(error);
        }
        let position = self.position;
        self.position += len;
        Ok(Some(Piece::Long { position, header }))
    }

    fn header(&mut self) -> Result<Header, ReadError> {
        let header = Header::decode(self.buffered(self.position, Header::LEN as u64)?);
        header.map_err(|error| self.error(Damage::Body(error)))
    }

    /// Checks what a header says without the rest of the event.
    fn check_frame(&self, header: &Header, checksum: Checksum) -> Result<(), ReadError> {
        let Header { len, end_pos, event_type, .. } = *header;
        if (len as usize) < Header::LEN + checksum.len() {
            return Err(self.error(Damage::Length(len)));
        }
        let end = self.position + u64::from(len);
        if end as u32 != end_pos {
            return Err(self.error(Damage::Position { len, end_pos }));
        }
        if event_type.0 == 0 || event_type.0 > self.format.event_types {
            return Err(self.error(Damage::UnknownType(event_type)));
        }
        Ok(())
    }

    /// Sets the end of the file for this reader, and fails unless an event ends there. Looks for
    /// the event among the last bytes; if it is longer than these, goes over the headers from the
    /// first event on. Then the next event is the first one.
    pub fn judge_end(&mut self, end: u64) -> Result<(), ReadError> {
        self.set_end(end);
        let judged = match self.has_event_at_end() {
            Ok(false) => self.walk_to_end(),
            found => found.map(drop),
        };
        self.return_to(FIRST_EVENT_AT);
        judged
    }
    fn walk_to_end(&mut self) -> Result<(), ReadError> {
        self.return_to(FIRST_EVENT_AT);
        while self.position < self.end {
            let header = self.header()?;
            self.check_frame(&header, checksum_of(header.event_type, self.format.checksum))?;
            let Header { len, end_pos, .. } = header;
            if self.end - self.position < u64::from(len) {
                return Err(self.error(Damage::Position { len, end_pos }));
            }
            self.position += u64::from(len);
        }
        Ok(())
    }
    /// The last event, if it is of this type, and short. Then the next event is the first one.
    pub fn last_event(&mut self, wanted: EventType) -> Result<Option<RawEvent<'_>>, ReadError> {
        let (end, format) = (self.end, self.format.checksum);
        let found = self.event_at_end(SHORT, |header| header.event_type == wanted)?;
        self.return_to(FIRST_EVENT_AT);
        let Some(position) = found else { return Ok(None) };
        let bytes = self.buffered(position, end - position)?;
        let header = Header::decode(bytes).expect("it was decoded");
        let checksum = checksum_of(header.event_type, format);
        let (at, len) = ((position - self.buffer_at) as usize, (end - position) as usize);
        let bytes = &self.buffer[at..at + len];
        Ok(Some(RawEvent { position, header, bytes, checksum, file: &self.path }))
    }
    /// Whether the last bytes are an event that says that it ends there.
    fn has_event_at_end(&mut self) -> Result<bool, ReadError> {
        Ok(self.event_at_end(CHUNK as u64, |_| true)?.is_some())
    }
    /// Where the event begins that the last `most` bytes end with, and that says so, if it is one
    /// that is wanted.
    fn event_at_end(
        &mut self,
        most: u64,
        wanted: impl Fn(&Header) -> bool,
    ) -> Result<Option<u64>, ReadError> {
        let (end, format) = (self.end, self.format.checksum);
        let len = end.saturating_sub(FIRST_EVENT_AT).min(most);
        let bytes = self.buffered(end - len, len)?;
        let ends = |from: &usize| {
            let event = &bytes[*from..];
            Header::decode(event).is_ok_and(|header| {
                header.len as usize == event.len()
                    && wanted(&header)
                    && header.end_pos == end as u32
                    && match checksum_of(header.event_type, format) {
                        Checksum::None => true,
                        Checksum::Crc32 => checksum::verifies(event),
                    }
            })
        };
        let found = (0..bytes.len()).rev().find(ends);
        Ok(found.map(|from| end - len + from as u64))
    }

    /// Whether the checksum of the event of `len` bytes at the position is right. Takes the memory
    /// of a chunk.
    fn verifies_in_chunks(&mut self, len: u64) -> Result<bool, ReadError> {
        let (at, have) = (self.position, self.end.saturating_sub(self.position));
        if have < len {
            return Err(self.error(Damage::Cut { need: len, have }));
        }
        let (mut crc, sum_at) = (crc32fast::Hasher::new(), len - CRC_LEN as u64);
        for part in (0..sum_at).step_by(CHUNK) {
            crc.update(self.buffered(at + part, (sum_at - part).min(CHUNK as u64))?);
        }
        let sum = self.buffered(at + sum_at, CRC_LEN as u64)?;
        Ok(sum == crc.finalize().to_le_bytes())
    }

    /// Goes to the position over the headers from the first event on. Fails if no event begins
    /// there. `claimed`: the header there.
    fn walk_here(&mut self, claimed: &Header) -> Result<(), ReadError> {
        let mut at = FIRST_EVENT_AT;
        while at < self.position {
            let header = Header::decode(self.buffered(at, Header::LEN as u64)?);
            let header = header.map_err(|error| self.error(Damage::Body(error)))?;
            at += u64::from(header.len).max(Header::LEN as u64);
        }
        if at > self.position {
            let Header { len, end_pos, .. } = *claimed;
            return Err(self.error(Damage::Position { len, end_pos }));
        }
        Ok(())
    }

    /// `len` bytes of the file at `at`.
    fn buffered(&mut self, at: u64, len: u64) -> Result<&[u8], ReadError> {
        self.read(at, len)?;
        let from = (at - self.buffer_at) as usize;
        Ok(&self.buffer[from..from + len as usize])
    }

    /// Brings `len` bytes at `at` into the buffer.
    fn read(&mut self, at: u64, len: u64) -> Result<(), ReadError> {
        let buffer_end = self.buffer_at + self.buffer.len() as u64;
        if at >= self.buffer_at && at + len <= buffer_end {
            return Ok(());
        }
        let have = self.end.saturating_sub(at);
        if have < len {
            return Err(self.error(Damage::Cut { need: len, have }));
        }
        // What is there is never less than `len`, so no claim of a header makes a long buffer.
        self.buffer.clear();
        if self.buffer.capacity() > CHUNK && len <= CHUNK as u64 {
            // The memory of a long event is not kept for short ones.
            self.buffer = Vec::new();
        }
        self.buffer.resize(have.min(len.max(CHUNK as u64)) as usize, 0);
        debug_assert!(self.buffer.len() as u64 <= have, "READ-2");
        self.buffer_at = at;
        if let Err(error) = self.file.read_at(&mut self.buffer, at) {
            self.buffer.clear();
            return Err(self.error(Damage::Io(error)));
        }
        Ok(())
    }

    fn error(&self, damage: Damage) -> ReadError {
        ReadError { file: self.path.clone(), position: self.position, damage }
    }
}
