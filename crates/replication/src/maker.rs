//! Makes the bytes of the files from the records.
//!
//! MAKER-1: the bytes are a function of the state at a barrier (or of no state) and the records
//! behind it. So a start that begins at the checkpoint's state makes the files again, byte for
//! byte. To that end a barrier forgets the history of the logical clock, which the state does not
//! have.
//!
//! A file that has reached its largest size ends behind the transaction that reached it, so a
//! transaction is in one file.
use crate::clock::Clock;
use crate::record::{Keys, Options, Record, Why};
use crate::state::State;
use redolith_binlog::file::{file_name, new_file};
use redolith_binlog::{
    BinlogPosition, Event, FormatDescription, Gtid, Placement, Placer, Rotate, Stamp, append,
};
use redolith_engine::Lsn;

/// Bytes of one file, in the order in which they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the file.
    pub file: u32,
    /// Where in the file the bytes begin.
    pub at: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the file ends with these bytes, and is closed.
    pub ends: bool,
}

/// Makes parts from records.
pub struct Maker {
    state: State,
    clock: Clock,
    /// The first part of the files' names, for ROTATE events.
    base: String,
    parts: Vec<Part>,
}

impl Maker {
    /// Goes on from a state.
    pub fn new(base: &str, state: State) -> Maker {
        Maker {
            clock: Clock::begin(state.sequence),
            state,
            base: base.to_string(),
            parts: Vec::new(),
        }
    }

    /// The state behind the last record.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Notes that all records whose frames begin below `lsn` have been taken.
    pub fn pass(&mut self, lsn: Lsn) {
        self.state.lsn = self.state.lsn.max(lsn);
    }

    /// The parts made since the last call.
    pub fn take_parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }

    /// Takes the record whose frame begins at `at`. A record that has been taken before is passed
    /// over. Returns whether the record was a barrier.
    pub fn take(&mut self, at: Lsn, record: &[u8]) -> Result<bool, String> {
        if at < self.state.lsn {
            return Ok(false);
        }
        let record = Record::decode(record)?;
        let is_barrier = record == Record::Barrier;
        match record {
            Record::Transaction { commit_us, keys, events } => {
                self.transaction(commit_us, keys, events)?;
            }
            Record::Rotate { why, us, options } => self.rotate(why, us, options),
            Record::Barrier => self.clock.forget(),
            Record::Stop { us } => {
                if !self.state.closed {
                    let stamp = self.stamp(us);
                    self.end(&Event::Stop, stamp);
                }
            }
        }
        self.state.sequence = self.clock.last();
        self.state.lsn = Lsn(at.0 + 1);
        Ok(is_barrier)
    }

    fn transaction(&mut self, commit_us: u64, keys: Keys<'_>, events: &[u8]) -> Result<(), String> {
        if self.state.closed {
            return Err("a transaction where no file is open".into());
        }
        let options = &self.state.options;
        let gtid = options.gtids.then(|| Gtid {
            uuid: options.uuid,
            number: self.state.executed.last_number(options.uuid) + 1,
        });
        let placement = Placement {
            start: BinlogPosition { file: self.state.file, offset: self.state.offset },
            gtid,
            clock: self.clock.next(keys),
            immediate_commit_us: commit_us,
        };
        let to = self.open_part();
        let from = to.len();
        to.extend_from_slice(events);
        Placer::new(placement).place(&mut to[from..]).map_err(|e| e.to_string())?;
        self.state.offset += events.len() as u64;
        if let Some(gtid) = gtid {
            self.state.executed.add(gtid);
        }
        if self.state.offset >= self.state.options.max_file_bytes {
            let options = self.state.options.clone();
            self.rotate(Why::Flush, commit_us, options);
        }
        Ok(())
    }

    fn rotate(&mut self, why: Why, us: u64, options: Options) {
        let next = self.state.file + 1;
        if !self.state.closed {
            let stamp = self.stamp(us);
            match why {
                Why::Start => self.close(),
                Why::Flush => {
                    let name = file_name(&self.base, next);
                    let rotate = Rotate {
                        position: redolith_binlog::file::FIRST_EVENT_AT,
                        file: name.as_bytes(),
                    };
                    self.end(&Event::Rotate(rotate), stamp);
                }
            }
        }
        self.state.options = options;
        let stamp = self.stamp(us);
        let created = if why == Why::Start { stamp.timestamp } else { 0 };
        let options = &self.state.options;
        let format = FormatDescription::new(&options.server_version, created, options.checksum);
        let bytes = new_file(&format, &self.state.executed, stamp)
            .expect("the state has room for the set, so an event has");
        (self.state.file, self.state.offset) = (next, bytes.len() as u64);
        self.state.closed = false;
        self.clock = Clock::default();
        self.parts.push(Part { file: next, at: 0, bytes, ends: false });
    }

    /// Ends the file with an event.
    fn end(&mut self, event: &Event<'_>, stamp: Stamp) {
        let (at, checksum) = (self.state.offset, self.state.options.checksum);
        let to = self.open_part();
        let before = to.len();
        append(to, event, stamp, at, checksum).expect("an event of a few bytes");
        self.state.offset += (to.len() - before) as u64;
        self.close();
    }
    fn close(&mut self) {
        self.open_part();
        self.parts.last_mut().expect("it is open").ends = true;
        self.state.closed = true;
    }

    /// The bytes of the part that is being made: behind all parts, at the end of the file.
    fn open_part(&mut self) -> &mut Vec<u8> {
        let fits = |p: &Part| {
            !p.ends && p.file == self.state.file && p.at + p.bytes.len() as u64 == self.state.offset
        };
        if !self.parts.last().is_some_and(fits) {
            let (file, at) = (self.state.file, self.state.offset);
            self.parts.push(Part { file, at, bytes: Vec::new(), ends: false });
        }
        &mut self.parts.last_mut().expect("it was pushed").bytes
    }

    fn stamp(&self, us: u64) -> Stamp {
        Stamp { timestamp: (us / 1_000_000) as u32, server_id: self.state.options.server_id }
    }
}
