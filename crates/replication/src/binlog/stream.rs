//! The binary log as the engine's stream: what a start reads, and what commits hand over.
use super::Binlog;
use super::judging::{Judging, Outcome};
use super::work::{Unfinished, Work};
use crate::maker::Maker;
use crate::state::State;
use crate::{record, spill};
use redolith_binlog::BinlogPosition;
use redolith_engine::commit_stream::CommitStream;
use redolith_engine::{Error, Lsn, Result, TrxId};
use std::io;
use std::sync::atomic::Ordering::*;

impl CommitStream for Binlog {
    fn judge(&self, state: &[u8]) -> Result<()> {
        let mut work = self.work.lock();
        let place = work.files.place().clone();
        if state.is_empty() {
            work.reset_ahead = work.files.reset_mark();
            work.judging = Some(Judging::new(work.maker.clone(), work.reset_ahead, None));
            return Ok(());
        }
        let state = State::decode(state).map_err(|why| {
            Error::Incompatible(format!("the state of the binary log in redo/control: {why}"))
        })?;
        work.reset_ahead = work.files.reset_mark().filter(|at| *at >= state.lsn);
        let goes_on = state.file > 0 && work.reset_ahead.is_none();
        let anew = goes_on && work.files.begins_anew(state.file)?;
        if goes_on && !anew {
            work.files.judge_place(state.file, state.offset)?;
        }
        *self.safe.lock() = state.clone();
        *self.stored.lock() = (0, state.file);
        work.maker = Maker::new(&place.base, state);
        if anew {
            work.maker.begin_anew(self.now_us()).map_err(|why| {
                Error::Incompatible(format!("{}: {why}", place.index().display()))
            })?;
            let file = work.maker.state().file;
            work.begins_anew = Some(format!(
                "{} does not name the file in which the binary log went on: a new binary log \
                 begins with {}. Replicas have to be set up again",
                place.index().display(),
                place.path(file).display()
            ));
        }
        let goes_on = (goes_on && !anew).then(|| {
            let safe = self.safe.lock();
            BinlogPosition { file: safe.file, offset: safe.offset }
        });
        work.judging = Some(Judging::new(work.maker.clone(), work.reset_ahead, goes_on));
        Ok(())
    }
    fn judge_record(&self, at: Lsn, record: &[u8]) -> Result<()> {
        match &mut *self.work.lock() {
            Work { judging: Some(judging), files, .. } => {
                judging.take(&*self.disk, files, at, record)
            }
            _ => unreachable!("the state is judged before the records"),
        }
    }
    fn judge_end(&self) -> Result<()> {
        let work = &mut *self.work.lock();
        match work.judging.take() {
            Some(judging) => {
                let judged = judging.end(&work.files)?;
                work.surplus = judged.surplus;
                work.outcome = Some(judged.outcome);
                if matches!(judged.outcome, Outcome::GoesOn(_)) {
                    work.files.judge_order(&self.safe.lock())?;
                }
            }
            None => unreachable!("the state is judged before the end"),
        }
        Ok(())
    }
    fn replay(&self, at: Lsn, record: &[u8]) -> Result<()> {
        let mut work = self.work.lock();
        if at.0 + 1 == self.safe.lock().lsn.0 {
            // A server that was killed while it stopped may have left a state that begins inside
            // the last record's frame. A checkpoint has to begin at a frame (I-19).
            self.limit.store(at.0, Release);
        }
        work.take(at, at, record).map_err(|why| {
            Error::Damaged(format!("the binary log's record at LSN {at} of the redo log: {why}"))
        })?;
        if matches!(work.unfinished, Unfinished::Barrier(_)) {
            work.unfinished = Unfinished::Nothing;
        }
        if matches!(work.unfinished, Unfinished::Reset(_)) {
            // The files before this record are gone, and have nothing to do with those behind it.
            *self.stored.lock() = (0, 0);
        }
        work.replay_reset().map_err(|e| io_error(&work, &e))?;
        work.finish_copy(&*self.disk).map_err(|e| io_error(&work, &e))
    }
    fn begin(&self, end: Lsn) -> Result<()> {
        let mut work = self.work.lock();
        // Not while the start may still be refused for another reason (JUDGE-8).
        work.begins_anew.take().into_iter().for_each(|what| tracing::warn!("{what}"));
        work.write().map_err(|e| io_error(&work, &e))?;
        work.forget_mark().map_err(|e| io_error(&work, &e))?;
        let state = work.maker.state();
        let position = BinlogPosition { file: state.file, offset: state.offset };
        work.files.forget_gone(position.file).map_err(|e| io_error(&work, &e))?;
        work.files.cut(position).map_err(|e| io_error(&work, &e))?;
        let kept: Vec<u64> = work.copied.iter().map(|(_, number)| *number).collect();
        spill::remove_others(&*self.disk, work.files.place(), &kept)
            .map_err(|e| io_error(&work, &e))?;
        // `cut` has synced the files, so this is as good as a barrier. Until a record comes, the
        // checkpoint is free: what the start rolls back needs room in the redo log.
        work.maker.rest(end);
        self.show_options(&work);
        *self.safe.lock() = work.maker.state().clone();
        self.limit.store(end.0, Release);
        self.no_records.store(true, SeqCst);
        self.publish(&self.reached(&work, end));
        Ok(())
    }
    fn appended(&self, at: Lsn, end: Lsn, record: &[u8], hidden: Option<TrxId>) {
        // Before the frame is complete, and so before a checkpoint could pass it.
        if self.no_records.load(Relaxed) {
            self.no_records.store(false, SeqCst);
        }
        hidden.into_iter().for_each(|id| self.stages.placed(end, id));
        self.bytes.fetch_add(record.len() as u64, SeqCst);
        self.queue.lock().push(at, end, record);
        if record::is_spilled(record) {
            self.long.fetch_add(1, AcqRel);
        }
        // A hidden commit has a leader that takes its record.
        if hidden.is_none() && self.at_rest.load(SeqCst) && self.at_rest.swap(false, SeqCst) {
            self.wanted.wake();
        }
    }
    fn limit(&self) -> Lsn {
        if self.no_records.load(SeqCst) { Lsn::MAX } else { Lsn(self.limit.load(Acquire)) }
    }
    fn state(&self) -> Vec<u8> {
        self.safe.lock().encode()
    }
}

pub(super) fn io_error(work: &Work, e: &io::Error) -> Error {
    Error::io(format_args!("writing the binary log {}", work.files.place().index().display()), e)
}
