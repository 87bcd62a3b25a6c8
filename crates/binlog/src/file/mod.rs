//! Files of the binary log, and the list of them.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `fe 62 69 6e` |
//! | 4 | 122 | FORMAT_DESCRIPTION; its flag IN_USE, at 21, is set until the file is closed |
//! | 126 | | PREVIOUS_GTIDS |
//! | | | transactions, each from its GTID event to its last event |
//! | | | ROTATE or STOP, if the file was closed |
//!
//! Files are named `base.000001` and so on; numbers above 999999 have more digits.
mod index;
mod reader;

use crate::event::header::FLAGS_AT;
use crate::{Event, EventTooLong, FormatDescription, GtidSet, Stamp, append};
use redolith_disk::File;
use std::io;

pub use index::Index;
pub use reader::{Damage, Piece, RawEvent, ReadError, Reader};

/// The first bytes of a file.
pub const MAGIC: [u8; 4] = *b"\xfebin";
/// Where the first event of a file begins.
pub const FIRST_EVENT_AT: u64 = MAGIC.len() as u64;

/// The bytes that a new file begins with: magic, FORMAT_DESCRIPTION and PREVIOUS_GTIDS.
/// `previous`: the transactions of all files before.
pub fn new_file(
    format: &FormatDescription,
    previous: &GtidSet,
    stamp: Stamp,
) -> Result<Vec<u8>, EventTooLong> {
    let mut out = MAGIC.to_vec();
    let events = [Event::FormatDescription(format.clone()), Event::PreviousGtids(previous.clone())];
    for event in events {
        let position = out.len() as u64;
        append(&mut out, &event, stamp, position, format.checksum)?;
    }
    Ok(out)
}

/// Clears the flag IN_USE of a file. The checksum does not change. Not durable before a sync.
pub fn mark_closed(file: &dyn File) -> io::Result<()> {
    file.write_at(&[0; 2], FIRST_EVENT_AT + FLAGS_AT as u64)
}

/// The name of a file: `file_name("binlog", 42)` is "binlog.000042".
pub fn file_name(base: &str, number: u32) -> String {
    format!("{base}.{number:06}")
}

/// The number in a file's name or path. `None` if the name is not one of [`file_name`].
pub fn file_number(name: &str) -> Option<u32> {
    let digits = name.rsplit_once('.')?.1;
    let is_number = digits.len() >= 6 && digits.bytes().all(|b| b.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers() {
        for number in [1, 42, 999_999, 1_000_000, u32::MAX] {
            let name = file_name("./log.d/binlog", number);
            assert_eq!(file_number(&name), Some(number), "{name}");
        }
        assert_eq!(file_name("binlog", 42), "binlog.000042");
        for wrong in
            ["binlog", "binlog.", "binlog.index", "binlog.42", "binlog.-00042", "b.4294967296"]
        {
            assert_eq!(file_number(wrong), None, "{wrong}");
        }
    }
}
