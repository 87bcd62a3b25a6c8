//! How durable records become bytes in the files, and how readers hear of them.
use super::Binlog;
use super::counters::add;
use super::judging::{Judging, Outcome};
use super::reset::Reset;
use crate::files::{Files, Unsynced};
use crate::maker::{Maker, Taken};
use crate::queue::Queue;
use crate::record;
use crate::spill::{self, SpillReader};
use redolith_binlog::{BinlogPosition, GtidSet};
use redolith_disk::Disk;
use redolith_engine::Lsn;
use std::io;
use std::sync::atomic::Ordering::*;

/// Parts of this size are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// The state that only the task changes, and the start before the task runs.
pub(super) struct Work {
    pub(super) maker: Maker,
    pub(super) files: Files,
    /// Records that are not in the files, and an empty queue to exchange for the full one.
    pub(super) waiting: Queue,
    pub(super) spare: Queue,
    /// Whether a barrier was appended that has not come back.
    pub(super) barrier: bool,
    /// What the last record asked for and is not done. No record is taken before it is.
    pub(super) unfinished: Unfinished,
    /// Spill files that were copied, and where the commits' records begin (SPILL-1).
    pub(super) copied: Vec<(Lsn, u64)>,
    /// The record of the reset that a start has not come to yet: until then nothing is written
    /// (BINLOG-FILES-2).
    pub(super) reset_ahead: Option<Lsn>,
    /// What a start is going to say of a new binary log.
    pub(super) begins_anew: Option<String>,
    /// What a start has judged so far.
    pub(super) judging: Option<Judging>,
    /// The file of which a start keeps a copy before it writes.
    pub(super) surplus: Option<u32>,
    /// What a start that has been judged to its end is going to do to the files.
    pub(super) outcome: Option<Outcome>,
}
pub(super) enum Unfinished {
    Nothing,
    /// A barrier whose frame ends here.
    Barrier(Lsn),
    /// The spill file of the record that begins here.
    Copy(Lsn, Option<SpillReader>),
    /// A reset.
    Reset(Reset),
}

/// How far the files have come.
pub(super) struct Reached {
    /// The number of resets so far.
    pub(super) resets: u64,
    /// Everything whose redo ends here or before is in the files.
    pub(super) lsn: Lsn,
    pub(super) position: Option<BinlogPosition>,
    pub(super) executed: GtidSet,
    /// The file that has bytes that are not synced. Those before it are.
    pub(super) file: Option<Unsynced>,
}

impl Binlog {
    /// Takes all records below `durable` to the files.
    pub(crate) fn advance(&self, durable: Lsn) -> io::Result<()> {
        let mut work = self.work.lock();
        let reached = self.write_durable(&mut work, durable)?;
        if self.stages.syncs_first() {
            work.files.sync();
        }
        let moved = self.publish(&reached);
        drop(work);
        if moved {
            self.moved.wake();
        }
        Ok(())
    }
    /// As `advance`, but publishes nothing.
    pub(super) fn write_durable(&self, work: &mut Work, durable: Lsn) -> io::Result<Reached> {
        let began_us = self.disk.now().as_micros() as u64;
        self.finish(work)?;
        // STREAM-2: the queue is read after the durable LSN.
        std::mem::swap(&mut work.spare, &mut *self.queue.lock());
        let mut fresh = std::mem::take(&mut work.spare);
        work.waiting.add(&mut fresh);
        work.spare = fresh;
        let mut waiting = std::mem::take(&mut work.waiting);
        let taken = self.take_all(work, &mut waiting, durable);
        work.waiting = waiting;
        taken?;
        work.write()?;
        self.count(work, began_us);
        Ok(self.reached(work, durable))
    }
    pub(super) fn reached(&self, work: &Work, lsn: Lsn) -> Reached {
        let state = work.maker.state();
        let position =
            (state.file > 0).then_some(BinlogPosition { file: state.file, offset: state.offset });
        Reached {
            resets: self.status.lock().resets,
            lsn,
            position,
            executed: state.executed.clone(),
            file: work.files.unsynced(),
        }
    }
    pub(super) fn take_all(
        &self,
        work: &mut Work,
        waiting: &mut Queue,
        durable: Lsn,
    ) -> io::Result<()> {
        while let Some((at, end, record)) = waiting.first().filter(|(_, end, _)| *end <= durable) {
            self.bytes.fetch_sub(record.len() as u64, AcqRel);
            if record::is_spilled(record) {
                self.long.fetch_sub(1, AcqRel);
            }
            let taken = self.take(work, at, end, record);
            waiting.pass();
            taken?;
        }
        Ok(())
    }
    pub(super) fn take(&self, work: &mut Work, at: Lsn, end: Lsn, record: &[u8]) -> io::Result<()> {
        work.take(at, end, record).unwrap_or_else(|why| {
            // The record is ours, and the redo log has it: the next start would meet it again.
            redolith_engine::poison(&format!("a record of the binary log at LSN {at}: {why}"))
        });
        self.show_options(work);
        self.finish(work)
    }
    /// Lets [`Binlog::options`] say how files are made from here on.
    pub(super) fn show_options(&self, work: &Work) {
        let (options, mut shown) = (&work.maker.state().options, self.options.lock());
        if *shown != *options {
            shown.clone_from(options);
        }
    }
    /// Does what the last record asked for and is still to do.
    pub(super) fn finish(&self, work: &mut Work) -> io::Result<()> {
        self.finish_reset(work)?;
        work.finish_copy(&*self.disk)?;
        if let Unfinished::Barrier(end) = work.unfinished {
            work.write()?;
            work.files.sync();
            (work.barrier, work.unfinished) = (false, Unfinished::Nothing);
            add(&self.counts.barriers, 1);
            work.maker.pass(end);
            *self.safe.lock() = work.maker.state().clone();
            self.limit.store(end.0, Release);
        }
        Ok(())
    }
    /// Publishes how far the files have come. Returns false if another thread has published as much
    /// already.
    pub(super) fn publish(&self, reached: &Reached) -> bool {
        let Reached { position, executed, lsn, .. } = reached;
        let mut status = self.status.lock();
        if status.lsn > *lsn || status.resets != reached.resets {
            return false;
        }
        let moved = status.lsn < *lsn || status.position != *position;
        if status.position != *position {
            status.position = *position;
            status.executed.clone_from(executed);
        }
        status.lsn = *lsn;
        // Under the lock, so that no mark of the log before a reset comes behind the reset.
        let changed = moved.then_some(*position).flatten();
        changed.into_iter().for_each(|position| self.semi_sync.published(*lsn, position));
        moved
    }
}

impl Work {
    pub(super) fn take(
        &mut self,
        at: Lsn,
        end: Lsn,
        record: &[u8],
    ) -> std::result::Result<(), String> {
        self.unfinished = match self.maker.take(at, record)? {
            Taken::Whole => Unfinished::Nothing,
            Taken::Reset => Unfinished::Reset(Reset { at, end, removed: false }),
            Taken::Barrier => Unfinished::Barrier(end),
            Taken::Spilled(_) => Unfinished::Copy(at, None),
        };
        Ok(())
    }
    /// Copies the spill file that the last record names, and writes if there is enough to write.
    pub(super) fn finish_copy(&mut self, disk: &dyn Disk) -> io::Result<()> {
        while let (Unfinished::Copy(at, reader), Some(spilled)) =
            (&mut self.unfinished, self.maker.copying())
        {
            let reader = match reader {
                Some(reader) => reader,
                None => reader.insert(SpillReader::open(disk, self.files.place(), spilled)?),
            };
            let at = *at;
            let wrong = |why| io::Error::new(io::ErrorKind::InvalidData, why);
            if self.maker.wants_count() {
                let count = spill::count(disk, self.files.place(), spilled)?;
                self.maker.counted(count).map_err(wrong)?;
            }
            match reader.next()? {
                Some(events) => {
                    self.maker.copy(&events).map_err(wrong)?;
                    reader.taken(&events);
                }
                None => {
                    self.maker.copied().map_err(wrong)?;
                    self.copied.push((at, spilled.number));
                    self.files.count_spilled(spilled.len);
                    self.unfinished = Unfinished::Nothing;
                }
            }
            self.write_much()?;
        }
        self.write_much()
    }
    pub(super) fn write_much(&mut self) -> io::Result<()> {
        let waiting = self.maker.waiting_bytes() + self.files.waiting_bytes();
        if waiting >= WRITE_BYTES { self.write() } else { Ok(()) }
    }
    /// Writes all that was made.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let parts = self.maker.take_parts();
        if self.reset_ahead.is_some() {
            return Ok(());
        }
        if let Some(number) = self.surplus {
            self.files.keep_copy(number)?;
            self.surplus = None;
        }
        self.files.add(parts);
        self.files.write()
    }
}
