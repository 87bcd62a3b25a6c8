//! Records that travel with commits: the way of the binary log through the redo log.
//!
//! A commit can carry a record ([`crate::Trx::commit_with`]), which stands in the redo frame of the
//! commit. So one durable write keeps both, and a crash takes both or neither. The stream, which
//! the opener of the engine provides, learns of each record, and makes of them what it likes:
//! files of a binary log.
//!
//! - STREAM-1: a record is in the frame of its commit.
//! - STREAM-2: the order of the records is the order of their frames in the redo log. A record is
//!   handed over before its frame counts as complete, so a stream that has read the durable LSN has
//!   every record below it.
//! - STREAM-3: no checkpoint passes [`CommitStream::limit`]. A start replays each record between
//!   the checkpoint and the end of the redo log, in order.
//! - STREAM-4: the stream learns whose commit a record travels with if the transaction is going to
//!   wait, hidden, for the stream ([`crate::Trx::place_commit`]).
use crate::Lsn;
use crate::canary::{Canary, planted};
use crate::checkpoint::CheckpointSource;
use crate::engine::Engine;
use crate::{Error, Result, TrxId};
use std::sync::Arc;

/// The most bytes of a stream's state.
pub const STATE_MAX: usize = crate::log::CHECKPOINT_PAYLOAD_MAX;

/// A record on its way into the redo log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamRecord<'r> {
    pub bytes: &'r [u8],
    /// The transaction that the record commits, if it is to stay hidden (STREAM-4).
    pub hidden: Option<TrxId>,
}
impl<'r> StreamRecord<'r> {
    pub(crate) fn new(bytes: &'r [u8]) -> StreamRecord<'r> {
        StreamRecord { bytes, hidden: None }
    }
}

/// The receiver of the records.
pub trait CommitStream: Send + Sync + 'static {
    /// Takes the state that the checkpoint holds (empty if no stream has been there before) and
    /// judges whether a start can go on from it. Writes nothing: the start may still be refused.
    fn judge(&self, state: &[u8]) -> Result<()>;
    /// Judges whether a start can take a record whose frame begins at `at`. Called after
    /// [`CommitStream::judge`] with each record that [`CommitStream::replay`] is going to get, in
    /// order. The start may be refused meanwhile, and no further record come then (JUDGE-8). Writes
    /// nothing.
    fn judge_record(&self, at: Lsn, record: &[u8]) -> Result<()> {
        let _ = (at, record);
        Ok(())
    }
    /// Judges what a start is going to do when it has taken all records. Called behind the last
    /// call of [`CommitStream::judge_record`]. Writes nothing.
    fn judge_end(&self) -> Result<()> {
        Ok(())
    }
    /// Takes a record from the redo log, whose frame begins at `at`. Called by a start, in order,
    /// after [`CommitStream::judge`]. The record may have been taken before the crash.
    fn replay(&self, at: Lsn, record: &[u8]) -> Result<()>;
    /// The start has replayed all records below `end`, and the engine is about to work.
    fn begin(&self, end: Lsn) -> Result<()>;
    /// A record has its place: its frame is the redo from `at` to `end`. Called by any thread, in
    /// any order, before the frame counts as complete (STREAM-2). Must not block. `hidden` is the
    /// transaction that the record commits, if it waits for the stream (STREAM-4).
    fn appended(&self, at: Lsn, end: Lsn, record: &[u8], hidden: Option<TrxId>);
    /// The position from which the redo log is still needed.
    fn limit(&self) -> Lsn;
    /// What [`CommitStream::judge`] is to get when the start begins at a checkpoint that is not
    /// above [`CommitStream::limit`]; at most [`STATE_MAX`] bytes.
    fn state(&self) -> Vec<u8>;
}

/// The stream of an engine that has none.
pub fn no_stream() -> Arc<dyn CommitStream> {
    Arc::new(NoStream::default())
}

/// The stream of an engine that was opened without one. It keeps the state that it finds, and
/// refuses records, which only a stream that knows them may pass over.
#[derive(Default)]
struct NoStream(parking_lot::Mutex<Vec<u8>>);
impl CommitStream for NoStream {
    fn judge(&self, state: &[u8]) -> Result<()> {
        *self.0.lock() = state.to_vec();
        Ok(())
    }
    fn judge_record(&self, at: Lsn, _: &[u8]) -> Result<()> {
        Err(Error::Incompatible(format!(
            "the redo log has events of the binary log at LSN {at} that are not in the binary \
             log's files yet: start with --log-bin once more, so that the files get them"
        )))
    }
    fn replay(&self, at: Lsn, record: &[u8]) -> Result<()> {
        self.judge_record(at, record)
    }
    fn begin(&self, _: Lsn) -> Result<()> {
        Ok(())
    }
    fn appended(&self, _: Lsn, _: Lsn, _: &[u8], _: Option<TrxId>) {
        unreachable!("a commit with a record, in an engine without a stream");
    }
    fn limit(&self) -> Lsn {
        Lsn::MAX
    }
    fn state(&self) -> Vec<u8> {
        self.0.lock().clone()
    }
}

/// Holds checkpoints back for the stream (STREAM-3), and for what else holds them back.
pub(crate) struct StreamGate<S> {
    pub stream: Arc<dyn CommitStream>,
    pub other: S,
}
impl<S: CheckpointSource> CheckpointSource for StreamGate<S> {
    fn limit(&self) -> Lsn {
        let stream = if planted(Canary::StreamLeftBehind) { Lsn::MAX } else { self.stream.limit() };
        stream.min(self.other.limit())
    }
    fn payload(&self, _: Lsn) -> Vec<u8> {
        self.stream.state()
    }
}

impl Engine {
    /// Appends a record that belongs to no transaction. Returns the LSN behind it.
    pub async fn append_record(&self, record: &[u8]) -> Result<Lsn> {
        loop {
            match crate::mtr::Mtr::append_record(&self.store, record) {
                Ok(lsn) => return Ok(lsn),
                Err(blocked) => self.unblocked(blocked).await?,
            }
        }
    }
    /// Appends a short record that lets [`CommitStream::limit`] rise, from room that is kept for
    /// such records. `None` if there is no room now: the caller tries again later.
    pub fn append_barrier(&self, record: &[u8]) -> Option<Lsn> {
        crate::mtr::Mtr::append_last(&self.store, record).ok()
    }
    /// Makes what [`CommitStream::state`] gives now durable: the next start begins with this state
    /// or a later one. Waits for the disk on this thread.
    pub fn store_stream_state(&self) {
        self.flusher.store_payload();
    }
    /// The most bytes of a record: a commit with a longer record cannot get room in the redo log.
    pub fn record_max(&self) -> usize {
        self.store.log.credit_max().saturating_sub(crate::mtr::COMMIT_FRAME)
    }
}
