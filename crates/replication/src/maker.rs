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
use crate::spill::Spilled;
use crate::state::State;
use redolith_binlog::file::{file_name, new_file};
use redolith_binlog::{
    BinlogPosition, Event, FormatDescription, Gtid, Placement, Placer, Rotate, Stamp, append,
};
use redolith_engine::Lsn;

/// The last number of a file. (MySQL, `MAX_LOG_UNIQUE_FN_EXT`)
pub const LAST_FILE: u32 = i32::MAX as u32;

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
    /// The transaction whose events are being copied from a spill file.
    copying: Option<Copying>,
}

/// A large transaction of which a part is placed.
struct Copying {
    spilled: Spilled,
    placer: Placer,
    commit_us: u64,
    gtid: Option<Gtid>,
    rest: Vec<u8>,
}

/// What a record asks of the caller of [`Maker::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing.
    Whole,
    /// The state may become the checkpoint's, once the parts are durable.
    Barrier,
    /// To give the events of this spill file to [`Maker::copy`], and then to call
    /// [`Maker::copied`].
    Spilled(Spilled),
}

impl Maker {
    /// Goes on from a state.
    pub fn new(base: &str, state: State) -> Maker {
        Maker {
            clock: Clock::begin(state.sequence),
            state,
            base: base.to_string(),
            parts: Vec::new(),
            copying: None,
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

    /// Begins a file without a word in the file before, which is gone.
    pub fn begin_anew(&mut self, us: u64) -> Result<(), String> {
        self.state.closed = true;
        let options = self.state.options.clone();
        self.rotate(Why::Start, us, 0, options)?;
        self.state.sequence = self.clock.last();
        Ok(())
    }

    /// The bytes of the parts made since the last call of [`Maker::take_parts`].
    pub fn waiting_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }

    /// The parts made since the last call.
    pub fn take_parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }

    /// Takes the record whose frame begins at `at`. A record that has been taken before is passed
    /// over.
    pub fn take(&mut self, at: Lsn, record: &[u8]) -> Result<Taken, String> {
        assert!(self.copying.is_none(), "a transaction is whole before the next record");
        if at < self.state.lsn {
            return Ok(Taken::Whole);
        }
        let mut taken = Taken::Whole;
        match Record::decode(record)? {
            Record::Transaction { commit_us, keys, events } => {
                self.transaction(commit_us, keys, events)?;
            }
            Record::Rotate { why, us, after, options } => self.rotate(why, us, after, options)?,
            Record::Spilled { commit_us, keys, spilled, gtid, rest } => {
                let (mut placer, name) = self.begin(commit_us, keys)?;
                self.place(&mut placer, gtid)?;
                let rest = rest.to_vec();
                self.copying = Some(Copying { spilled, placer, commit_us, gtid: name, rest });
                taken = Taken::Spilled(spilled);
            }
            Record::Barrier => {
                self.clock.forget();
                taken = Taken::Barrier;
            }
            Record::Stop { us } => {
                if !self.state.closed {
                    let stamp = self.stamp(us);
                    self.end(&Event::Stop, stamp);
                }
            }
        }
        self.state.sequence = self.clock.last();
        self.state.lsn = Lsn(at.0 + 1);
        Ok(taken)
    }

    /// The spill file that is being copied.
    pub fn copying(&self) -> Option<Spilled> {
        self.copying.as_ref().map(|copying| copying.spilled)
    }
    /// Places events of the spill file. If that fails, nothing was placed.
    pub fn copy(&mut self, events: &[u8]) -> Result<(), String> {
        let mut copying = self.copying.take().ok_or("no spill file is being copied")?;
        let placed = self.place(&mut copying.placer, events);
        self.copying = Some(copying);
        placed
    }
    /// The spill file has been copied.
    pub fn copied(&mut self) -> Result<(), String> {
        let Some(Copying { mut placer, commit_us, gtid, rest, .. }) = self.copying.take() else {
            return Err("no spill file is being copied".into());
        };
        self.place(&mut placer, &rest)?;
        self.end_transaction(commit_us, gtid)
    }

    fn transaction(&mut self, commit_us: u64, keys: Keys<'_>, events: &[u8]) -> Result<(), String> {
        let (mut placer, gtid) = self.begin(commit_us, keys)?;
        self.place(&mut placer, events)?;
        self.end_transaction(commit_us, gtid)
    }
    /// Draws a transaction's place.
    fn begin(&mut self, commit_us: u64, keys: Keys<'_>) -> Result<(Placer, Option<Gtid>), String> {
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
        Ok((Placer::new(placement), gtid))
    }
    fn place(&mut self, placer: &mut Placer, events: &[u8]) -> Result<(), String> {
        let to = self.open_part();
        let from = to.len();
        to.extend_from_slice(events);
        let mut placed = placer.clone();
        if let Err(e) = placed.place(&mut to[from..]) {
            // Nothing of it is in the part, so the caller may try again.
            to.truncate(from);
            return Err(e.to_string());
        }
        *placer = placed;
        self.state.offset += events.len() as u64;
        Ok(())
    }
    fn end_transaction(&mut self, commit_us: u64, gtid: Option<Gtid>) -> Result<(), String> {
        if let Some(gtid) = gtid {
            self.state.executed.add(gtid);
        }
        if self.state.offset >= self.state.options.max_file_bytes {
            let options = self.state.options.clone();
            self.rotate(Why::Flush, commit_us, 0, options)?;
        }
        Ok(())
    }

    fn rotate(&mut self, why: Why, us: u64, after: u32, options: Options) -> Result<(), String> {
        let last = self.state.file.max(after);
        if last >= LAST_FILE {
            return Err(format!("no file follows number {last}"));
        }
        let next = last + 1;
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
        Ok(())
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
