//! The state of the binary log behind a record: what the checkpoint holds of it.
//!
//! | bytes | what (little-endian) |
//! |---|---|
//! | 1 | version: 1 |
//! | 8 | LSN: all records whose frames begin below are in the files |
//! | 4 | number of the file; 0: there is none yet |
//! | 8 | length of the file |
//! | 8 | number of the file's last transaction |
//! | 1 | whether the file is closed |
//! | | options ([`crate::record`]) |
//! | 2, n | GTIDs of all transactions in the files, as PREVIOUS_GTIDS has them |
//!
//! STATE-1: the GTIDs have [`MOST_GTIDS_BYTES`] at most, which is 48 values of `server_uuid`: a
//! server draws the numbers of each in order. A start with another one is refused.
use crate::maker::LAST_FILE;
use crate::record::{Input, MOST_OPTIONS_BYTES, Options};
use redolith_binlog::{Checksum, GtidSet, Uuid};
use redolith_engine::Lsn;
use redolith_engine::commit_stream::STATE_MAX;

const VERSION: u8 = 1;
/// The most bytes of the GTIDs (STATE-1): what the other fields leave, with the longest version of
/// a server.
const MOST_GTIDS_BYTES: usize = STATE_MAX - (1 + 8 + 4 + 8 + 8 + 1) - MOST_OPTIONS_BYTES - 2;
/// The bytes of a set without a server, of a server in it, and of an interval of a server.
const SET_BYTES: usize = 8;
const SERVER_BYTES: usize = 16 + 8;
const INTERVAL_BYTES: usize = 16;

/// The state of the binary log. The head of the module has the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// All records whose frames begin below are in the files.
    pub lsn: Lsn,
    /// The number of the file; 0: there is none yet.
    pub file: u32,
    /// The length of the file.
    pub offset: u64,
    /// The number of the file's last transaction.
    pub sequence: u64,
    /// Whether the file is closed: only a rotation may follow.
    pub closed: bool,
    /// How the file is made.
    pub options: Options,
    /// The names of all transactions so far.
    pub executed: GtidSet,
}

impl Default for State {
    fn default() -> State {
        State {
            lsn: Lsn(0),
            file: 0,
            offset: 0,
            sequence: 0,
            closed: true,
            options: Options {
                server_id: 0,
                checksum: Checksum::None,
                max_file_bytes: u64::MAX,
                gtids: false,
                uuid: Uuid([0; 16]),
                server_version: String::new(),
            },
            executed: GtidSet::new(),
        }
    }
}

impl State {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.lsn.0.to_le_bytes());
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.push(u8::from(self.closed));
        self.options.encode(&mut out);
        let mut set = Vec::new();
        self.executed.encode(&mut set);
        assert!(set.len() <= MOST_GTIDS_BYTES, "STATE-1");
        out.extend_from_slice(&(set.len() as u16).to_le_bytes());
        out.extend_from_slice(&set);
        out
    }
    /// Whether a transaction of this server may get a name (STATE-1).
    pub(crate) fn has_room_for(&self, server: Uuid) -> bool {
        let bytes = |parts: &[(u64, u64)]| SERVER_BYTES + INTERVAL_BYTES * parts.len();
        let known = || self.executed.servers().map(|(_, parts)| bytes(parts)).sum::<usize>();
        self.executed.last_number(server) > 0
            || SET_BYTES + known() + SERVER_BYTES + INTERVAL_BYTES <= MOST_GTIDS_BYTES
    }
    pub(crate) fn decode(bytes: &[u8]) -> Result<State, String> {
        let mut input = Input(bytes);
        let version = input.u8()?;
        if version != VERSION {
            return Err(format!("its version is {version}, this program knows {VERSION}"));
        }
        let (lsn, file) = (Lsn(input.u64()?), input.u32()?);
        let (offset, sequence) = (input.u64()?, input.u64()?);
        if file > LAST_FILE || offset.max(sequence) > i64::MAX as u64 {
            return Err("it has a number that no file has".into());
        }
        let closed = input.u8()? != 0;
        let options = Options::decode(&mut input)?;
        let len = u16::from_le_bytes(input.take(2)?.try_into().expect("2 bytes"));
        if usize::from(len) > MOST_GTIDS_BYTES {
            return Err("it has more GTIDs than a server writes".into());
        }
        let executed = GtidSet::decode(input.take(len.into())?).map_err(|e| e.to_string())?;
        match input.0 {
            [] => Ok(State { lsn, file, offset, sequence, closed, options, executed }),
            _ => Err("it is longer than its fields".into()),
        }
    }
}
