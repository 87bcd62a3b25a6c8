//! The task that writes the records below the durable LSN to the files.
use super::{Binlog, MOST_BYTES};
use crate::record::Record;
use crate::spill;
use redolith_engine::{Engine, Lsn};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::task::Poll;
use std::time::Duration;

/// How often the task looks at the durable LSN while records wait for it: with readers, at first
/// and under a load that goes on, and without a reader. (Each look wakes every reader. A commit
/// that waits for replicas has the task look at once.)
const LOOK_FOR_READERS: Duration = Duration::from_millis(1);
const LOOK_UNDER_LOAD: Duration = Duration::from_millis(4);
const LOOK: Duration = Duration::from_millis(10);
/// How often the task looks whether a barrier is wanted.
const LOOK_AT_REST: Duration = Duration::from_millis(100);
/// The pause after an error of the disk.
const PAUSE: Duration = Duration::from_secs(1);

impl Binlog {
    /// The task: follows the durable LSN until the binary log is closed.
    pub(super) async fn follow(&self, engine: &Arc<Engine>) {
        let (mut look, mut asked) = (LOOK_FOR_READERS, 0);
        loop {
            let seen = self.wanted.seen();
            let closing = self.closing.load(Acquire);
            let asked = std::mem::replace(&mut asked, seen) != seen || closing;
            // Read before the durable LSN: all records below it are taken now if the task closes.
            let frames = engine.store.log.durable_frames();
            // With the classic commit, the leaders of its flush stage write the records.
            let advanced = match self.stages.flushes() && !asked {
                true => Ok(()),
                false => self.advance(engine.store.log.durable()),
            };
            match advanced {
                Ok(()) => *self.failed.lock() = None,
                Err(e) => {
                    let told = self.failed.lock().replace(e.to_string()).is_some();
                    self.moved.wake();
                    if !told {
                        tracing::error!(
                            "the binary log cannot be written: {e}. Commits wait when {} MiB of \
                             events are in memory. Free disk space, or restore the file that the \
                             error names; the server tries again and again",
                            MOST_BYTES >> 20
                        );
                    }
                    if closing {
                        // The next start makes the files from the redo log.
                        return;
                    }
                    engine.runtime.sleep(PAUSE).await;
                    continue;
                }
            }
            if closing {
                return self.close(frames);
            }
            self.remove_spills(engine.store.log.checkpoint_lsn());
            self.expire_behind(|| engine.store_stream_state());
            if let Some(end) = self.want_barrier(engine) {
                engine.store.log.flush_to(end).await;
                continue;
            }
            // The flag is set before the queue is looked at, and a record is queued before the flag
            // is looked at, so that one of the two sees the other.
            self.at_rest.store(true, SeqCst);
            let pause = if self.bytes.load(SeqCst) == 0 {
                look = LOOK_FOR_READERS;
                LOOK_AT_REST
            } else {
                self.at_rest.store(false, SeqCst);
                let now = look;
                look = (2 * look).min(LOOK_UNDER_LOAD);
                if self.tail.is_wanted() { now } else { LOOK }
            };
            either(engine.runtime.sleep(pause), self.wanted.after(seen)).await;
            self.at_rest.store(false, SeqCst);
        }
    }

    /// Everything is in the files, and only a rotation may follow: no record is needed any more.
    /// `end` is the end of a frame, below which all records are taken. A start after a crash that
    /// comes before the engine has closed holds the checkpoint at this place at first (FOLLOW-2).
    pub(super) fn close(&self, end: Lsn) {
        let mut work = self.work.lock();
        work.files.sync();
        work.maker.pass(end);
        *self.safe.lock() = work.maker.state().clone();
        self.limit.store(Lsn::MAX.0, Release);
    }

    /// Appends a barrier if the checkpoint is to move on (FOLLOW-2). Returns its end.
    pub(super) fn want_barrier(&self, engine: &Engine) -> Option<Lsn> {
        let log = &engine.store.log;
        let behind = log.durable().0.saturating_sub(self.limit.load(Acquire));
        let mut work = self.work.lock();
        if behind < log.usable_bytes() / 8 || work.barrier {
            return None;
        }
        // Without room the barrier is tried again at the next turn.
        let end = engine.append_barrier(&Record::Barrier.encode());
        work.barrier = end.is_some();
        end
    }

    /// Removes the spill files of which no start needs the events any more (SPILL-1).
    pub(super) fn remove_spills(&self, checkpoint: Lsn) {
        let work = &mut *self.work.lock();
        work.forget_reset(checkpoint);
        let place = work.files.place();
        work.copied.retain(|(at, number)| {
            let needed = *at >= checkpoint;
            if !needed {
                spill::remove(&*self.disk, place, *number);
            }
            needed
        });
    }
}

/// Waits for the first of two futures.
pub(super) async fn either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| {
        if a.as_mut().poll(cx).is_ready() || b.as_mut().poll(cx).is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
