//! FORMAT_DESCRIPTION (15), the first event of a file.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 2 | version of the format: 4 |
//! | 2 | 50 | version of the server, filled up with zeros |
//! | 52 | 4 | time of creation if a start of the server made the file, else 0 |
//! | 56 | 1 | bytes of a header: 19 |
//! | 57 | 41 | bytes of the fixed part of each type's body, from type 1 |
//! | 98 | 1 | algorithm of the checksums in the file |
//!
//! The lengths are those of MySQL 8.0. The event is 122 bytes long, with header and CRC-32, and has
//! the CRC-32 even if the algorithm is none. For a replica of MariaDB, the lengths of its own types
//! follow ([`FormatDescription::for_mariadb`]).
use super::Header;
use crate::bytes::{Input, put_u16, put_u32};
use crate::{Checksum, DecodeError};

const VERSION: u16 = 4;
const SERVER_VERSION_LEN: usize = 50;

/// The lengths that MySQL 8.0 writes.
pub(crate) const POST_HEADER_LENGTHS: [u8; 41] = [
    0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 98, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10,
    10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0,
];

/// MariaDB's own types begin here: ANNOTATE_ROWS, BINLOG_CHECKPOINT, GTID and GTID_LIST.
const MARIADB_TYPES_AT: usize = 160;
const MARIADB_LENGTHS: [u8; 4] = [0, 4, super::mariadb_gtid::FIXED_LEN as u8, 4];

/// The length of the fixed part of a type's body, by the type's number less 1.
fn post_header_length(i: usize) -> u8 {
    let of_mariadb = || (i + 1).checked_sub(MARIADB_TYPES_AT).and_then(|i| MARIADB_LENGTHS.get(i));
    POST_HEADER_LENGTHS.get(i).or_else(of_mariadb).copied().unwrap_or(0)
}

/// The body of a FORMAT_DESCRIPTION event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatDescription {
    /// For example "8.0.36-redolith-0.1.0"; at most 49 bytes count.
    pub server_version: String,
    /// Seconds since 1970 if a start of the server made the file; a replica then drops its
    /// temporary tables. Else 0.
    pub created: u32,
    /// How the events of the file end.
    pub checksum: Checksum,
    /// The flag IN_USE of the header: the file is open, or was not closed cleanly.
    pub in_use: bool,
    /// The number of event types that the writer knew.
    pub event_types: u8,
}

impl FormatDescription {
    /// The description of a file that this crate writes.
    pub fn new(server_version: &str, created: u32, checksum: Checksum) -> FormatDescription {
        FormatDescription {
            server_version: server_version.to_string(),
            created,
            checksum,
            in_use: true,
            event_types: POST_HEADER_LENGTHS.len() as u8,
        }
    }

    /// Adds MariaDB's own event types: a MariaDB replica refuses events whose type is not
    /// described.
    pub fn for_mariadb(mut self) -> FormatDescription {
        self.event_types = (MARIADB_TYPES_AT + MARIADB_LENGTHS.len() - 1) as u8;
        self
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_u16(out, VERSION);
        let mut version = [0; SERVER_VERSION_LEN];
        let text = self.server_version.as_bytes();
        let text = &text[..text.len().min(SERVER_VERSION_LEN - 1)];
        version[..text.len()].copy_from_slice(text);
        out.extend_from_slice(&version);
        put_u32(out, self.created);
        out.push(Header::LEN as u8);
        out.extend((0..usize::from(self.event_types)).map(post_header_length));
        out.push(self.checksum.code());
    }

    pub(super) fn decode(body: &[u8], in_use: bool) -> Result<FormatDescription, DecodeError> {
        let mut input = Input::new(body, "a FORMAT_DESCRIPTION event");
        if input.u16()? != VERSION {
            return Err(input.wrong("the format is not version 4"));
        }
        let version = input.bytes(SERVER_VERSION_LEN)?;
        let text = version.split(|b| *b == 0).next().unwrap_or(version);
        let server_version = String::from_utf8_lossy(text).into_owned();
        let created = input.u32()?;
        if input.u8()? != Header::LEN as u8 {
            return Err(input.wrong("headers do not have 19 bytes"));
        }
        let (algorithm, lengths) = match input.rest().split_last() {
            Some((algorithm, lengths)) if lengths.len() <= 0xff => (*algorithm, lengths),
            _ => return Err(input.wrong("the lengths of types are missing or too many")),
        };
        // Another length of a body that this crate reads would be another format.
        let known = POST_HEADER_LENGTHS.iter().zip(lengths).enumerate();
        let is_read = |i: usize| super::EventType(i as u8 + 1).name() != "Unknown";
        if known.clone().any(|(i, (ours, theirs))| is_read(i) && i != 14 && ours != theirs) {
            return Err(input.wrong("a type's fixed part has another length than in MySQL 8.0"));
        }
        let checksum =
            Checksum::from_code(algorithm).ok_or(input.wrong("an unknown checksum algorithm"))?;
        let event_types = lengths.len() as u8;
        Ok(FormatDescription { server_version, created, checksum, in_use, event_types })
    }
}
