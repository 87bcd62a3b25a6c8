//! Prints the frames of one segment of the redo log, `redo/log_<n>`.
//!
//! Frames may cross the border between segments: the first bytes of a segment may be the rest of a
//! frame, and the last frame may go on in the next segment, which is read from the same folder if
//! it exists. A frame is recognised by its own LSN, which its header holds.
use super::{Request, hex, open, read};
use crate::PageId;
use crate::log::inspect::{
    Epochs, FRAME_HEADER, Frame, SEGMENT_HEADER, frame_at, frame_len, segment_header,
};
use crate::mtr::record::{Change, Record, Records};
use redolith_disk::{Disk, File};
use std::io::{self, Write};
use std::sync::Arc;

pub(super) fn dump(
    disk: &dyn Disk,
    file: &dyn File,
    request: &Request,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = request.path.file_name().unwrap_or_default().to_string_lossy();
    let Some(number) = name.strip_prefix("log_").and_then(|n| n.parse::<u64>().ok()) else {
        let why = format!(
            "{name}: a segment is named log_<number>, and its place in the log is in that name \
                alone"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    };
    let head = read(file, 0, SEGMENT_HEADER as usize)?;
    let Some((log_id, segment_bytes)) = segment_header(&head) else {
        writeln!(
            out,
            "! segment {number}: its header is damaged, so the log id is not known and no frame \
                can be verified"
        )?;
        return Ok(());
    };
    let Some((first, end)) = number
        .checked_mul(segment_bytes)
        .and_then(|first| Some((first, first.checked_add(segment_bytes)?)))
    else {
        writeln!(
            out,
            "! segment {number} of log {log_id:016x}: no log has so many of {segment_bytes} bytes"
        )?;
        return Ok(());
    };
    writeln!(out, "segment {number} of log {log_id:016x}: LSN {first} to {end}")?;
    let mut stream = Stream::new(file, segment_bytes)?;
    let own = stream.end;
    if own < segment_bytes {
        writeln!(out, "! the file is cut off: {own} of {segment_bytes} bytes are there")?;
    }
    let next = request.path.with_file_name(format!("log_{}", number + 1));
    if disk.exists(&next) {
        stream.goes_on(open(disk, &next)?)?;
    }
    let (mut at, mut printed, mut epochs) = (0, 0, Epochs::new());
    while at < own && printed < request.limit {
        let lsn = first + at;
        let len = frame_len(stream.bytes(at, FRAME_HEADER)?, lsn);
        // A frame that claims to be longer than it is gets what is there.
        let bytes = stream.bytes(at, len.unwrap_or(0))?;
        let Some(frame) = frame_at(bytes, lsn, log_id, &mut epochs) else {
            let (gap, is_zeros) = stream.next_frame(at, own, first)?;
            let what = if is_zeros {
                "zeros: nothing was written here yet"
            } else if at == 0 && gap < own {
                "the rest of a frame that begins in the segment before, or what the segment held \
                    before it was reused"
            } else {
                "no frame of this place: what the segment held before it was reused, or damage"
            };
            writeln!(out, "  LSN {lsn} to {}: {what}", first + gap)?;
            at = gap;
            continue;
        };
        if lsn >= request.from {
            print(&frame, lsn, request.hex, out)?;
            printed += 1;
        }
        // The length in a frame that fails verification is not trusted.
        at = match frame.epoch {
            Some(_) => at + frame.len as u64,
            None => stream.next_frame(at, own, first)?.0,
        };
    }
    Ok(())
}

/// Bytes that are read at once, unless a frame is longer.
const CHUNK: usize = 1 << 20;
/// The most bytes of a frame, and more.
const LONGEST: u64 = 17 << 20;

/// The bytes of the segment, and behind them those of the next one, as far as a frame may go on
/// there (DUMP-1).
struct Stream<'f> {
    file: &'f dyn File,
    next: Option<Arc<dyn File>>,
    /// Where the bytes of the segment end, and those of both.
    end: u64,
    both: u64,
    /// What was read last, and where it lies.
    buffer: Vec<u8>,
    at: u64,
}
impl<'f> Stream<'f> {
    fn new(file: &'f dyn File, segment_bytes: u64) -> io::Result<Stream<'f>> {
        let end = file.len()?.saturating_sub(SEGMENT_HEADER).min(segment_bytes);
        Ok(Stream { file, next: None, end, both: end, buffer: Vec::new(), at: 0 })
    }
    fn goes_on(&mut self, next: Arc<dyn File>) -> io::Result<()> {
        self.both = self.end + next.len()?.saturating_sub(SEGMENT_HEADER).min(LONGEST);
        self.next = Some(next);
        Ok(())
    }
    /// `len` bytes at `at`, or fewer at the end.
    fn bytes(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let to = (at + len as u64).min(self.both).max(at);
        if at < self.at || to > self.at + self.buffer.len() as u64 {
            let end = (at + len.max(CHUNK) as u64).min(self.both);
            self.buffer.clear();
            self.buffer.resize(end.saturating_sub(at) as usize, 0);
            self.at = at;
            let own = self.end.saturating_sub(at).min(self.buffer.len() as u64) as usize;
            let (own, rest) = self.buffer.split_at_mut(own);
            if !own.is_empty() {
                self.file.read_at(own, SEGMENT_HEADER + at)?;
            }
            if let (Some(next), false) = (&self.next, rest.is_empty()) {
                next.read_at(rest, SEGMENT_HEADER + at.saturating_sub(self.end))?;
            }
        }
        let from = (at - self.at) as usize;
        Ok(&self.buffer[from..from + (to - at) as usize])
    }
    /// The next place behind `at` where, eight bytes on, the bytes hold the place's own LSN, like
    /// the header of a frame. Also returns whether all is zeros before it.
    fn next_frame(&mut self, at: u64, end: u64, first: u64) -> io::Result<(u64, bool)> {
        const LSN: usize = 8;
        let (mut from, mut is_zeros) = (at, true);
        while from < end {
            // No header is in a hole.
            let data = self.file.next_data(SEGMENT_HEADER + from)?.unwrap_or(u64::MAX);
            from = from.max(data.saturating_sub(SEGMENT_HEADER + 2 * LSN as u64)).min(end);
            let bytes = self.bytes(from, CHUNK)?;
            let places = bytes.len().saturating_sub(2 * LSN).min((end - from) as usize);
            let is_header = |n: &usize| {
                let lsn = first + from + *n as u64;
                from + *n as u64 > at && bytes[n + LSN..n + 2 * LSN] == lsn.to_le_bytes()
            };
            let found = (0..places).find(is_header);
            let passed = found.unwrap_or(if places == 0 { bytes.len() } else { places });
            is_zeros &= bytes[..passed].iter().all(|b| *b == 0);
            if found.is_some() {
                return Ok((from + passed as u64, is_zeros));
            }
            if passed == 0 {
                break;
            }
            from += passed as u64;
        }
        Ok((end, is_zeros))
    }
}

fn print(frame: &Frame<'_>, lsn: u64, with_bytes: bool, out: &mut dyn Write) -> io::Result<()> {
    let Frame { kind, len, durable, epoch, payload } = frame;
    let mark = if epoch.is_some() { ' ' } else { '!' };
    let durable = if *durable == 0 { "unknown".to_string() } else { durable.to_string() };
    write!(out, "{mark} LSN {lsn}, {len} bytes, {kind}, durable then: {durable}")?;
    match (epoch, payload) {
        (Some(epoch), _) => writeln!(out, ", epoch {epoch}")?,
        (None, Some(_)) => {
            writeln!(out, ": the checksum is of no epoch of this log: torn or damaged")?
        }
        (None, None) => writeln!(out, ": goes on behind what is there")?,
    }
    let (Some(_), Some(payload), true) = (epoch, payload, *kind == "changes") else {
        return Ok(());
    };
    let mut page: Option<(PageId, Option<u32>, String)> = None;
    let end =
        |page: &mut Option<(PageId, Option<u32>, String)>, out: &mut dyn Write| match page.take() {
            Some((id, Some(before), what)) => {
                writeln!(out, "    page {id}, whose LSN ended in {before:08x}:{what}")
            }
            Some((id, None, what)) => writeln!(out, "    page {id}:{what}"),
            None => Ok(()),
        };
    for record in Records::new(payload) {
        match record {
            Ok(Record::File(space)) => {
                end(&mut page, out)?;
                writeln!(out, "    space {}: its file is being made or dropped", space.0)?;
            }
            Ok(Record::Commit(record)) => {
                end(&mut page, out)?;
                writeln!(out, "    {} bytes for the binary log", record.len())?;
            }
            Ok(Record::Page { id, before, change }) => {
                if page.as_ref().is_none_or(|(current, ..)| *current != id) {
                    end(&mut page, out)?;
                    page = Some((id, before, String::new()));
                }
                let what = match change {
                    Change::Write { at, bytes } => format!(" {} bytes at {at}", bytes.len()),
                    Change::Fill { at, len, byte } => format!(" {len} times {byte:02x} at {at}"),
                    Change::Init => " made anew".to_string(),
                };
                if let Some((.., text)) = &mut page {
                    text.push_str(if text.is_empty() { "" } else { "," });
                    text.push_str(&what);
                }
            }
            Err(why) => {
                end(&mut page, out)?;
                writeln!(out, "!   {why}")?;
            }
        }
    }
    end(&mut page, out)?;
    if with_bytes { hex(payload, out) } else { Ok(()) }
}
