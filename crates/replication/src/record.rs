//! The records that travel in the redo log: what happened to the binary log, in order.
//!
//! | kind | fields after it | meaning |
//! |---|---|---|
//! | 1 TRANSACTION | commit time u64 (µs since 1970), keys u32, keys x u64, events | a transaction, not placed yet. 0xffffffff keys: it conflicts with every other transaction |
//! | 2 ROTATE | why u8, time u64 (µs), after u32, options | another file begins, with a number above `after` |
//! | 3 BARRIER | | the state behind this record may become the checkpoint's |
//! | 5 SPILLED | commit time u64, keys as above, number u64, length u64 and CRC-32C u32 of the spill file, length u32 of the GTID event and of those behind it that stand here, these, events | a transaction of which events are in a spill file; the last events here follow them |
//! | 4 STOP | time u64 (µs) | the server stops, the file is closed |
//! | 8 RESET | time u64 (µs), number u32 | all files and the names of all transactions go, and the log begins anew with this file |
//! | 9 LARGEST | bytes u64 | `max_binlog_size` from here on |
//! | 10 DEFINED | length u32 of the first record, TRANSACTION record, TRANSACTION or SPILLED record | two transactions that have committed as one: a definition, and the rows of the new table (CREATE TABLE .. SELECT) |
//!
//! Options: server id u32, checksum u8, largest file u64, whether GTIDs are on u8, UUID of the
//! server 16 bytes, length of the server's version u8, version.
use crate::spill::Spilled;
use redolith_binlog::{Checksum, Uuid};

const TRANSACTION: u8 = 1;
const ROTATE: u8 = 2;
const BARRIER: u8 = 3;
const STOP: u8 = 4;
const SPILLED: u8 = 5;
const RESET: u8 = 8;
const LARGEST: u8 = 9;
const DEFINED: u8 = 10;
/// The number of keys that stands for all keys.
const ALL: u32 = u32::MAX;

/// The most bytes of a server's version, and of options.
const MOST_VERSION_BYTES: usize = 49;
pub(crate) const MOST_OPTIONS_BYTES: usize = 4 + 1 + 8 + 1 + 16 + 1 + MOST_VERSION_BYTES;

/// The bytes of a transaction's record without its keys and events.
pub const TRANSACTION_HEAD: usize = 13;

/// Why another file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The server has started. The file before has no ROTATE event: a crash may have ended it.
    Start,
    /// A user asked for it: FLUSH LOGS.
    Flush,
}

/// How files are made: what a server is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `server_id`, for the events that belong to no transaction.
    pub server_id: u32,
    /// `binlog_checksum`.
    pub checksum: Checksum,
    /// `max_binlog_size`: a file that has reached it is followed by another.
    pub max_file_bytes: u64,
    /// Whether transactions get names (`gtid_mode`).
    pub gtids: bool,
    /// `server_uuid`.
    pub uuid: Uuid,
    /// The version in FORMAT_DESCRIPTION events.
    pub server_version: String,
}

/// The rows that a transaction has changed, as hashes of their unique keys: transactions without a
/// common key may be applied in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys<'a> {
    /// The transaction conflicts with every other: DDL, and tables without a key.
    All,
    /// The hashes, 8 bytes each.
    Some(&'a [u8]),
}

impl<'a> Keys<'a> {
    fn decode(input: &mut Input<'a>) -> Result<Keys<'a>, String> {
        Ok(match input.u32()? {
            ALL => Keys::All,
            count => Keys::Some(input.take(8 * count as usize)?),
        })
    }
    fn list(&self) -> Option<Vec<u64>> {
        match self {
            Keys::All => None,
            Keys::Some(bytes) => Some(hashes(bytes).collect()),
        }
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A transaction has committed.
    Transaction {
        /// When, in microseconds since 1970 UTC.
        commit_us: u64,
        /// What it has changed.
        keys: Keys<'a>,
        /// Its events ([`redolith_binlog::TransactionEvents`]), not placed.
        events: &'a [u8],
    },
    /// A large transaction has committed.
    Spilled {
        /// As of a [`Record::Transaction`].
        commit_us: u64,
        /// As of a [`Record::Transaction`].
        keys: Keys<'a>,
        /// The file with the events behind the GTID event.
        spilled: Spilled,
        /// The GTID event, and the one behind it if that was not drained.
        gtid: &'a [u8],
        /// The events behind those in the file.
        rest: &'a [u8],
    },
    /// Another file begins.
    Rotate {
        /// The reason.
        why: Why,
        /// When, in microseconds since 1970 UTC.
        us: u64,
        /// The file's number is above this one.
        after: u32,
        /// For this file and those after it.
        options: Options,
    },
    /// The state behind this record may become the checkpoint's.
    Barrier,
    /// The server stops.
    Stop {
        /// When, in microseconds since 1970 UTC.
        us: u64,
    },
    /// RESET BINARY LOGS AND GTIDS: the log begins anew.
    Reset {
        /// When, in microseconds since 1970 UTC.
        us: u64,
        /// The number of the first file.
        first: u32,
    },
    /// A file that has this many bytes is followed by another.
    Largest(u64),
    /// A table was made with its rows: two transactions in the files, one commit here. So the files
    /// have both or neither.
    Defined {
        /// The record of the definition, a [`Record::Transaction`].
        definition: &'a [u8],
        /// The record of the rows, a [`Record::Transaction`] or a [`Record::Spilled`].
        rows: &'a [u8],
    },
}

/// The record of a transaction. `keys`: `None` if it conflicts with every other.
pub fn transaction(commit_us: u64, keys: Option<&[u64]>, events: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_transaction(&mut out, commit_us, keys, events);
    out
}
/// As [`transaction`], in the memory of `out`, whose bytes are replaced.
pub fn put_transaction(out: &mut Vec<u8>, commit_us: u64, keys: Option<&[u64]>, events: &[u8]) {
    out.clear();
    begin(out, TRANSACTION, commit_us, keys, events.len());
    out.extend_from_slice(events);
}
/// The record of a transaction whose events are, in this order, `gtid`, those in the spill file,
/// and `rest`.
pub fn spilled(
    commit_us: u64,
    keys: Option<&[u64]>,
    spilled: Spilled,
    gtid: &[u8],
    rest: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    begin(&mut out, SPILLED, commit_us, keys, 24 + gtid.len() + rest.len());
    out.extend_from_slice(&spilled.number.to_le_bytes());
    out.extend_from_slice(&spilled.len.to_le_bytes());
    out.extend_from_slice(&spilled.crc.to_le_bytes());
    out.extend_from_slice(&(gtid.len() as u32).to_le_bytes());
    out.extend_from_slice(gtid);
    out.extend_from_slice(rest);
    out
}
fn begin(out: &mut Vec<u8>, kind: u8, commit_us: u64, keys: Option<&[u64]>, more: usize) {
    let count = keys.map_or(0, <[u64]>::len);
    out.reserve(TRANSACTION_HEAD + 8 * count + more);
    out.push(kind);
    out.extend_from_slice(&commit_us.to_le_bytes());
    out.extend_from_slice(&keys.map_or(ALL, |keys| keys.len() as u32).to_le_bytes());
    for key in keys.unwrap_or_default() {
        out.extend_from_slice(&key.to_le_bytes());
    }
}

/// The record of a definition and of the rows that were inserted with it, from the records of both.
pub fn defined(definition: &[u8], rows: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(5 + definition.len() + rows.len());
    out.push(DEFINED);
    out.extend_from_slice(&(definition.len() as u32).to_le_bytes());
    out.extend_from_slice(definition);
    out.extend_from_slice(rows);
    out
}

impl<'a> Record<'a> {
    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Record::Transaction { commit_us, keys, events } => {
                transaction(*commit_us, keys.list().as_deref(), events)
            }
            Record::Spilled { commit_us, keys, spilled: file, gtid, rest } => {
                spilled(*commit_us, keys.list().as_deref(), *file, gtid, rest)
            }
            Record::Rotate { why, us, after, options } => {
                let mut out = vec![ROTATE, *why as u8];
                out.extend_from_slice(&us.to_le_bytes());
                out.extend_from_slice(&after.to_le_bytes());
                options.encode(&mut out);
                out
            }
            Record::Barrier => vec![BARRIER],
            Record::Stop { us } => {
                let mut out = vec![STOP];
                out.extend_from_slice(&us.to_le_bytes());
                out
            }
            Record::Reset { us, first } => {
                let mut out = vec![RESET];
                out.extend_from_slice(&us.to_le_bytes());
                out.extend_from_slice(&first.to_le_bytes());
                out
            }
            Record::Largest(bytes) => [&[LARGEST][..], &bytes.to_le_bytes()].concat(),
            Record::Defined { definition, rows } => defined(definition, rows),
        }
    }

    /// Reads a record. The error says what is wrong with the bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Record<'a>, String> {
        let mut input = Input(bytes);
        let record = match input.u8()? {
            TRANSACTION => {
                let (commit_us, keys) = (input.u64()?, Keys::decode(&mut input)?);
                let events = std::mem::take(&mut input.0);
                Record::Transaction { commit_us, keys, events }
            }
            SPILLED => {
                let (commit_us, keys) = (input.u64()?, Keys::decode(&mut input)?);
                let (number, len, crc) = (input.u64()?, input.u64()?, input.u32()?);
                let gtid_len = input.u32()?;
                let gtid = input.take(gtid_len as usize)?;
                let rest = std::mem::take(&mut input.0);
                let spilled = Spilled { number, len, crc };
                Record::Spilled { commit_us, keys, spilled, gtid, rest }
            }
            ROTATE => {
                let why = match input.u8()? {
                    0 => Why::Start,
                    1 => Why::Flush,
                    n => return Err(format!("a rotation of unknown kind {n}")),
                };
                let (us, after) = (input.u64()?, input.u32()?);
                Record::Rotate { why, us, after, options: Options::decode(&mut input)? }
            }
            BARRIER => Record::Barrier,
            STOP => Record::Stop { us: input.u64()? },
            RESET => Record::Reset { us: input.u64()?, first: input.u32()? },
            LARGEST => Record::Largest(input.u64()?),
            DEFINED => {
                let len = input.u32()?;
                let definition = input.take(len as usize)?;
                let rows = std::mem::take(&mut input.0);
                let inner = |record: &[u8], kinds: &[u8]| {
                    record.first().is_some_and(|kind| kinds.contains(kind))
                };
                if !inner(definition, &[TRANSACTION]) || !inner(rows, &[TRANSACTION, SPILLED]) {
                    return Err("a definition with a record of another kind".into());
                }
                Record::Defined { definition, rows }
            }
            kind => return Err(format!("a record of unknown kind {kind}")),
        };
        match input.0 {
            [] => Ok(record),
            _ => Err("a record is longer than its fields".into()),
        }
    }
}

impl Options {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let version = self.server_version.as_bytes();
        let version = &version[..version.len().min(MOST_VERSION_BYTES)];
        out.extend_from_slice(&self.server_id.to_le_bytes());
        out.push(self.checksum.code());
        out.extend_from_slice(&self.max_file_bytes.to_le_bytes());
        out.push(u8::from(self.gtids));
        out.extend_from_slice(&self.uuid.0);
        out.push(version.len() as u8);
        out.extend_from_slice(version);
    }
    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Options, String> {
        let server_id = input.u32()?;
        let checksum =
            Checksum::from_code(input.u8()?).ok_or("an unknown algorithm of checksums")?;
        let (max_file_bytes, gtids) = (input.u64()?, input.u8()? != 0);
        let uuid = Uuid(input.take(16)?.try_into().expect("16 bytes"));
        let len = input.u8()?;
        let version = std::str::from_utf8(input.take(len.into())?)
            .map_err(|_| "a server's version that is no text")?;
        Ok(Options {
            server_id,
            checksum,
            max_file_bytes,
            gtids,
            uuid,
            server_version: version.to_string(),
        })
    }
}

/// Whether the bytes are a record of a transaction with a spill file.
pub(crate) fn is_spilled(record: &[u8]) -> bool {
    match record.first() {
        Some(&DEFINED) => {
            let record = Record::decode(record);
            matches!(record, Ok(Record::Defined { rows, .. }) if rows.first() == Some(&SPILLED))
        }
        first => first == Some(&SPILLED),
    }
}

/// The hashes of [`Keys::Some`].
pub(crate) fn hashes(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes")))
}

/// Reads little-endian fields.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);
impl<'a> Input<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or("a record is cut off")?;
        self.0 = rest;
        Ok(taken)
    }
    pub(crate) fn u8(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }
    pub(crate) fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }
    pub(crate) fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn options() -> Options {
        Options {
            server_id: 7,
            checksum: Checksum::Crc32,
            max_file_bytes: 1 << 20,
            gtids: true,
            uuid: Uuid([9; 16]),
            server_version: "8.0.36-redolith".into(),
        }
    }

    #[test]
    fn records_come_back() {
        let keys = [1u64, u64::MAX].map(u64::to_le_bytes).concat();
        let records = [
            Record::Transaction { commit_us: 5, keys: Keys::Some(&keys), events: b"events" },
            Record::Transaction { commit_us: 5, keys: Keys::All, events: b"" },
            Record::Rotate { why: Why::Flush, us: 1 << 50, after: 7, options: options() },
            Record::Spilled {
                commit_us: 5,
                keys: Keys::Some(&keys),
                spilled: Spilled { number: 3, len: 1 << 40, crc: 9 },
                gtid: b"gtid",
                rest: b"events",
            },
            Record::Barrier,
            Record::Stop { us: 3 },
            Record::Reset { us: 1 << 50, first: 42 },
            Record::Largest(1 << 30),
            Record::Defined {
                definition: &transaction(5, None, b"CREATE"),
                rows: &transaction(5, None, b"rows"),
            },
        ];
        for record in records {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Ok(record.clone()));
            let open_ended = matches!(
                record,
                Record::Transaction { .. } | Record::Spilled { .. } | Record::Defined { .. }
            );
            for cut in 0..bytes.len() - if open_ended { 6.min(bytes.len()) } else { 0 } {
                let _ = Record::decode(&bytes[..cut]);
            }
            if !open_ended {
                assert!(Record::decode(&[&bytes[..], b"x"].concat()).is_err());
                assert!(Record::decode(&bytes[..bytes.len() - 1]).is_err());
            }
        }
        assert!(Record::decode(&[]).is_err() && Record::decode(&[77]).is_err());
    }
}
