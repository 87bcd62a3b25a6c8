//! Background tasks of the redo log. The segment allocator keeps segments ready ahead of the tail
//! and reuses the segments below the checkpoint. The timed flush makes the redo log durable each
//! second, or as often as `innodb_flush_log_at_timeout` says, for commits that did not wait. The
//! others are [`idle_leader`] and [`witness`]. All tasks end when the log is gone.
use crate::base::Error;
use crate::log::commit::idle_leader;
use crate::log::recovery::witness;
use crate::log::write::segments::AT_ONCE;
use crate::log::{DurableWait, Log};
use crate::runtime::Runtime;
use crate::sync::notify::Notify;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The number of whole segments that are kept ready ahead of demand, as far as the capacity allows.
const AHEAD: u64 = 3;
const SECOND: Duration = Duration::from_secs(1);

pub(in crate::log) fn spawn(log: &Arc<Log>) {
    let over = Over(log.allocator_over.clone());
    log.runtime.spawn(
        "log-files",
        Box::pin(keep_segments(Arc::downgrade(log), log.allocator.clone(), over)),
    );
    log.runtime
        .spawn("log-flush", Box::pin(flush_regularly(Arc::downgrade(log), log.runtime.clone())));
    log.runtime.spawn(
        "log-idle-leader",
        Box::pin(idle_leader::watch(Arc::downgrade(log), log.runtime.clone())),
    );
    // The file is fetched once, and not at each use: a thread that writes the control file holds
    // its lock meanwhile.
    let (control, epoch) = {
        let checkpoints = log.control.lock();
        (checkpoints.control.file().clone(), checkpoints.control.state().epoch)
    };
    log.runtime.spawn(
        "log-witness",
        Box::pin(witness::keep_current(Arc::downgrade(log), control, log.log_id(), epoch)),
    );
}

/// Announces that the task has ended, in whatever way it ended.
struct Over(Arc<Notify>);
impl Drop for Over {
    fn drop(&mut self) {
        self.0.close();
    }
}

async fn keep_segments(log: Weak<Log>, notify: Arc<Notify>, _over: Over) {
    while notify.wait().await {
        let Some(log) = log.upgrade() else { return };
        log.keep_buffer().await;
        if let Err(e) = log.keep_segments().await {
            let text = e.to_string();
            if log.room.failed(e) {
                tracing::error!(
                    "a segment of the redo log could not be made: {text}. Commits go on \
                     until the existing segments are full, and then wait. Free disk space"
                );
            }
        } else {
            log.room.recovered();
        }
    }
}

async fn flush_regularly(log: Weak<Log>, runtime: Arc<dyn Runtime>) {
    let mut seconds = 0;
    loop {
        runtime.sleep(SECOND).await;
        seconds += 1;
        let Some(log) = log.upgrade() else { return };
        if log.is_closed() {
            return;
        }
        // The setting is read each second, so that a change takes effect at once.
        if seconds < log.flush_seconds.load(Relaxed) {
            continue;
        }
        seconds = 0;
        let tail = log.tail();
        DurableWait::uncounted(&log, tail).await;
    }
}

impl Log {
    async fn keep_segments(&self) -> Result<(), Error> {
        loop {
            // Files are renamed, made and removed here, with syncs of their folder.
            self.runtime.before_blocking();
            let bounds = self.room.bounds();
            let last = bounds.checkpoint + bounds.in_force_bytes - 1;
            let (renamed, recycled) = self.segments.recycle(bounds.checkpoint, last)?;
            self.counters.writer.log_segments_recycled.fetch_add(renamed as u64, Relaxed);
            let removed = self.cut_segments(last)?;
            if recycled.max(removed) == AT_ONCE {
                // There may be more. No writer may go to the segments that are still to be cut.
                self.runtime.yield_now().await;
                continue;
            }
            let end = self.segments.end();
            self.room.update(|b| b.files_end = end);
            let want = (self.room.demand() + AHEAD * bounds.segment_bytes).min(last);
            if want < end || self.is_closed() {
                if !self.is_closed() {
                    // With this end the next start can tell that segments are missing (TAIL-1).
                    self.control.lock().control.segments_reach(end);
                }
                return Ok(());
            }
            self.segments.add().await?;
            self.counters.writer.log_segments_created.fetch_add(1, Relaxed);
        }
    }
    /// Called after each write. Notifies the allocator if the write reached another segment.
    pub(in crate::log) fn check_segments(&self, written: u64) {
        let segment = self.segments.bytes;
        let asked = self.segments_asked.load(Relaxed);
        if written / segment != asked {
            self.segments_asked.store(written / segment, Relaxed);
            self.allocator.notify();
        }
    }
}
