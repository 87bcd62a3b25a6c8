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
use crate::maker::LAST_FILE;
use crate::record::{Input, Options};
use redolith_binlog::{Checksum, GtidSet, Uuid};
use redolith_engine::Lsn;
use redolith_engine::commit_stream::STATE_MAX;

const VERSION: u8 = 1;

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
        out.extend_from_slice(&(set.len() as u16).to_le_bytes());
        out.extend_from_slice(&set);
        assert!(out.len() <= STATE_MAX, "a server draws its GTIDs in order");
        out
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
        let executed = GtidSet::decode(input.take(len.into())?).map_err(|e| e.to_string())?;
        match input.0 {
            [] => Ok(State { lsn, file, offset, sequence, closed, options, executed }),
            _ => Err("it is longer than its fields".into()),
        }
    }
}
