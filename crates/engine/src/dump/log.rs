//! Prints the frames of one segment of the redo log, `redo/log_<n>`.
//!
//! Frames may cross the border between segments: the first bytes of a segment may be the rest of a
//! frame, and the last frame may go on in the next segment, which is read from the same folder if
//! it exists. A frame is recognised by its own LSN, which its header holds.
use super::{Request, hex, open, read};
use crate::PageId;
use crate::log::inspect::{Epochs, Frame, SEGMENT_HEADER, frame_at, segment_header};
use crate::mtr::record::{Change, Record, Records};
use redolith_disk::{Disk, File};
use std::io::{self, Write};

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
    let mut bytes = read(file, SEGMENT_HEADER, segment_bytes.min(1 << 32) as usize)?;
    let own = bytes.len();
    if (own as u64) < segment_bytes {
        writeln!(out, "! the file is cut off: {own} of {segment_bytes} bytes are there")?;
    }
    let next = request.path.with_file_name(format!("log_{}", number + 1));
    if disk.exists(&next) {
        bytes.extend(read(&*open(disk, &next)?, SEGMENT_HEADER, 17 << 20)?);
    }
    let (mut at, mut printed, mut epochs) = (0, 0, Epochs::new());
    while at < own && printed < request.limit {
        let lsn = first + at as u64;
        let Some(frame) = frame_at(&bytes[at..], lsn, log_id, &mut epochs) else {
            let gap = next_frame(&bytes, at + 1, own, first);
            let what = if bytes[at..gap].iter().all(|b| *b == 0) {
                "zeros: nothing was written here yet"
            } else if at == 0 && gap < own {
                "the rest of a frame that begins in the segment before, or what the segment held \
                    before it was reused"
            } else {
                "no frame of this place: what the segment held before it was reused, or damage"
            };
            writeln!(out, "  LSN {lsn} to {}: {what}", first + gap as u64)?;
            at = gap;
            continue;
        };
        if lsn >= request.from {
            print(&frame, lsn, request.hex, out)?;
            printed += 1;
        }
        // The length in a frame that fails verification is not trusted.
        at = if frame.epoch.is_some() {
            at + frame.len
        } else {
            next_frame(&bytes, at + 1, own, first)
        };
    }
    Ok(())
}
/// The next place where, eight bytes on, the bytes hold the place's own LSN, like the header of a
/// frame.
fn next_frame(bytes: &[u8], from: usize, end: usize, first: u64) -> usize {
    (from..end)
        .find(|at| {
            bytes.get(at + 8..at + 16).is_some_and(|b| *b == (first + *at as u64).to_le_bytes())
        })
        .unwrap_or(end)
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
