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
    BinlogPosition, Checksum, Event, FormatDescription, Gtid, GtidSet, Placement, Placer, Rotate,
    Stamp, append, count_events, encoded_checksum, recode, recode_events, recode_first,
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
#[derive(Clone)]
pub struct Maker {
    state: State,
    clock: Clock,
    /// The first part of the files' names, for ROTATE events.
    base: String,
    parts: Vec<Part>,
    /// The transaction whose events are being copied from a spill file.
    copying: Option<Copying>,
    /// The transactions and the files that were made.
    made: (u64, u64),
}

/// A large transaction of which a part is placed.
#[derive(Clone)]
struct Copying {
    spilled: Spilled,
    placer: Placer,
    commit_us: u64,
    gtid: Option<Gtid>,
    rest: Vec<u8>,
    /// The checksums that the events were encoded for, if the file has others.
    from: Option<Checksum>,
    /// The GTID event, until [`Maker::counted`] tells its length of the transaction.
    head: Option<Vec<u8>>,
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
    /// To remove all files, then to write the parts. The state may become the checkpoint's, once
    /// the parts are durable.
    Reset,
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
            made: (0, 0),
        }
    }

    /// The state behind the last record.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How many transactions and files were made.
    pub fn made(&self) -> (u64, u64) {
        self.made
    }

    /// Notes that all records whose frames begin below `lsn` have been taken.
    pub fn pass(&mut self, lsn: Lsn) {
        self.state.lsn = self.state.lsn.max(lsn);
    }

    /// Goes on from `lsn` as from a barrier that ends there.
    pub fn rest(&mut self, lsn: Lsn) {
        self.clock.forget();
        self.pass(lsn);
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
        let taken = self.take_decoded(Record::decode(record)?)?;
        self.state.sequence = self.clock.last();
        self.state.lsn = Lsn(at.0 + 1);
        Ok(taken)
    }
    fn take_decoded(&mut self, record: Record<'_>) -> Result<Taken, String> {
        let mut taken = Taken::Whole;
        match record {
            Record::Transaction { commit_us, keys, events } => {
                self.transaction(commit_us, keys, events)?;
            }
            Record::Rotate { why, us, after, options } => self.rotate(why, us, after, options)?,
            Record::Spilled { commit_us, keys, spilled, gtid, rest } => {
                let from = self.other_checksum(gtid)?;
                let (mut placer, name) = self.begin(commit_us, keys)?;
                let head = match from {
                    Some(_) => Some(gtid.to_vec()),
                    None => {
                        self.place(&mut placer, gtid)?;
                        None
                    }
                };
                let rest = rest.to_vec();
                let gtid = name;
                self.copying = Some(Copying { spilled, placer, commit_us, gtid, rest, from, head });
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
            Record::Reset { us, first } => {
                self.reset(us, first)?;
                taken = Taken::Reset;
            }
            Record::Largest(bytes) => self.state.options.max_file_bytes = bytes,
            Record::Defined { definition, rows } => {
                // A record within is of one transaction, so this goes no deeper.
                self.take_decoded(Record::decode(definition)?)?;
                taken = self.take_decoded(Record::decode(rows)?)?;
            }
        }
        Ok(taken)
    }

    /// The spill file that is being copied.
    pub fn copying(&self) -> Option<Spilled> {
        self.copying.as_ref().map(|copying| copying.spilled)
    }
    /// Whether [`Maker::counted`] is to be called before the spill file is copied.
    pub fn wants_count(&self) -> bool {
        self.copying.as_ref().is_some_and(|copying| copying.head.is_some())
    }
    /// The spill file has `count` events. They get other checksums, so the transaction gets another
    /// length.
    pub fn counted(&mut self, count: u64) -> Result<(), String> {
        let mut copying = self.copying.take().ok_or("no spill file is being copied")?;
        let placed = match copying.head.take() {
            Some(head) => self.place_recoded(&mut copying, &head, count),
            None => Ok(()),
        };
        self.copying = Some(copying);
        placed
    }
    fn place_recoded(
        &mut self,
        copying: &mut Copying,
        head: &[u8],
        count: u64,
    ) -> Result<(), String> {
        let to = self.state.options.checksum;
        let in_rest = count_events(&copying.rest).map_err(|e| e.to_string())?;
        let bytes = copying.spilled.len + copying.rest.len() as u64;
        let head = recode_first(head, bytes, count + in_rest, to).map_err(|e| e.to_string())?;
        self.place(&mut copying.placer, &head)
    }
    /// Places events of the spill file. If that fails, nothing was placed.
    pub fn copy(&mut self, events: &[u8]) -> Result<(), String> {
        if self.wants_count() {
            return Err("the events of the spill file are not counted".into());
        }
        let mut copying = self.copying.take().ok_or("no spill file is being copied")?;
        let placed = self.place_behind(&mut copying.placer, events, copying.from);
        self.copying = Some(copying);
        placed
    }
    /// Places events that stand behind the GTID event.
    fn place_behind(
        &mut self,
        placer: &mut Placer,
        events: &[u8],
        from: Option<Checksum>,
    ) -> Result<(), String> {
        match from {
            None => self.place(placer, events),
            Some(from) => {
                let recoded = recode_events(events, from, self.state.options.checksum);
                self.place(placer, &recoded.map_err(|e| e.to_string())?)
            }
        }
    }
    /// The checksums that a transaction was encoded for, if the file has others.
    fn other_checksum(&self, events: &[u8]) -> Result<Option<Checksum>, String> {
        let from = encoded_checksum(events).map_err(|e| e.to_string())?;
        Ok((from != self.state.options.checksum).then_some(from))
    }
    /// The spill file has been copied.
    pub fn copied(&mut self) -> Result<(), String> {
        if self.wants_count() {
            return Err("the events of the spill file are not counted".into());
        }
        let Some(Copying { mut placer, commit_us, gtid, rest, from, .. }) = self.copying.take()
        else {
            return Err("no spill file is being copied".into());
        };
        self.place_behind(&mut placer, &rest, from)?;
        self.end_transaction(commit_us, gtid)
    }

    fn transaction(&mut self, commit_us: u64, keys: Keys<'_>, events: &[u8]) -> Result<(), String> {
        let from = self.other_checksum(events)?;
        let (mut placer, gtid) = self.begin(commit_us, keys)?;
        match from {
            None => self.place(&mut placer, events)?,
            Some(_) => {
                let recoded = recode(events, self.state.options.checksum);
                self.place(&mut placer, &recoded.map_err(|e| e.to_string())?)?;
            }
        }
        self.end_transaction(commit_us, gtid)
    }
    /// Draws a transaction's place.
    fn begin(&mut self, commit_us: u64, keys: Keys<'_>) -> Result<(Placer, Option<Gtid>), String> {
        if self.state.closed {
            return Err("a transaction where no file is open".into());
        }
        let options = &self.state.options;
        if options.gtids && !self.state.has_room_for(options.uuid) {
            return Err(format!("its name would be that of one server more, {}", options.uuid));
        }
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
        self.made.0 += 1;
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
        // 0 tells of a rotation (REPL-8), whatever the clock says.
        let created = if why == Why::Start { stamp.timestamp.max(1) } else { 0 };
        let options = &self.state.options;
        let format = FormatDescription::new(&options.server_version, created, options.checksum);
        let bytes = new_file(&format, &self.state.executed, stamp)
            .expect("the state has room for the set, so an event has");
        (self.state.file, self.state.offset) = (next, bytes.len() as u64);
        self.state.closed = false;
        self.clock = Clock::default();
        self.made.1 += 1;
        self.parts.push(Part { file: next, at: 0, bytes, ends: false });
        Ok(())
    }

    /// Begins the log anew. Of the files before nothing is needed any more.
    fn reset(&mut self, us: u64, first: u32) -> Result<(), String> {
        let before = first.checked_sub(1).ok_or("no file has the number 0")?;
        self.parts.clear();
        self.state.closed = true;
        self.state.file = before;
        self.state.executed = GtidSet::new();
        let options = self.state.options.clone();
        self.rotate(Why::Start, us, 0, options)
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
