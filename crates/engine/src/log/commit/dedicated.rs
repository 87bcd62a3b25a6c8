//! The mode `dedicated`: two threads of their own, a writer and a flusher.
//!
//! The writer gets the leadership by hand-over, as a session does, and keeps it until the mode is
//! changed. Whenever a session waits for bytes that are not written yet, the writer writes them and
//! notifies the flusher; the flusher syncs while the writer may write again. Both threads sleep
//! when there is nothing to do.
//!
//! DEDICATED-1: while a session waits for the flush of written bytes, the flusher runs or is
//! notified: the writer checks this after each write, and before it sleeps.
use crate::log::commit::leader::{COPY_SPINS, CommitQueue};
use crate::log::{Log, WriterMode};
use crate::sync::notify::Notify;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the writer sleeps where a thread does not finish its copy.
const COPY_PAUSE: Duration = Duration::from_micros(50);

/// Which of the two threads run.
#[derive(Default)]
pub(in crate::log) struct Threads {
    writer: bool,
    flusher: bool,
}

impl Threads {
    /// Starts those that do not run. A writer without a flusher sleeps: the mode needs both.
    pub(in crate::log) fn start(&mut self, log: &Arc<Log>) -> io::Result<()> {
        let (weak, runtime) = (Arc::downgrade(log), &log.runtime);
        if !self.writer {
            let writer = run_writer(weak.clone(), log.waits().dedicated_notify().clone());
            runtime.spawn_thread("log-writer", Box::pin(writer))?;
            self.writer = true;
        }
        if !self.flusher {
            let flusher = run_flusher(weak, log.flusher.clone());
            runtime.spawn_thread("log-flusher", Box::pin(flusher))?;
            self.flusher = true;
        }
        Ok(())
    }
}

async fn run_writer(log: Weak<Log>, notify: Arc<Notify>) {
    // The task holds the log only while it works, so that the log can be dropped.
    let mut woken = 0;
    while let Some(log) = log.upgrade() {
        log.counters.writer.log_writer_wait_loops.fetch_add(woken, Relaxed);
        if !log.write_for_all().await {
            return;
        }
        drop(log);
        // If the notification is closed, the loop ends when the log is gone, and sessions lead for
        // the waiters from now on.
        notify.wait().await;
        woken = 1;
    }
}

async fn run_flusher(log: Weak<Log>, notify: Arc<Notify>) {
    while notify.wait().await {
        let Some(log) = log.upgrade() else { return };
        log.counters.writer.log_flusher_wait_loops.fetch_add(1, Relaxed);
        log.sync_for_all().await;
    }
}

impl Log {
    /// Writes until there is nothing to do. Returns false when the log is closed.
    async fn write_for_all(&self) -> bool {
        let (waits, count) = (&self.waits, &self.counters.writer);
        let mut fruitless = 0;
        loop {
            if self.is_closed() || self.mode() != WriterMode::Dedicated {
                if let Some(next) = waits.dedicated_leaves() {
                    next.wake();
                }
                return !self.is_closed();
            }
            let leads = waits.dedicated_leads();
            if leads && waits.wants_sync() {
                self.flusher.notify();
            }
            if !leads || waits.dedicated_may_sleep() {
                if leads && waits.wants_sync() {
                    // Since the first look another thread may have taken a newcomer off the stack
                    // whose bytes were written before.
                    self.flusher.notify();
                }
                count.log_writer_waits.fetch_add(1, Relaxed);
                return true;
            }
            count.log_writer_no_waits.fetch_add(1, Relaxed);
            let before = waits.written();
            self.write_only();
            // A session waits for bytes that another thread is still copying.
            fruitless = if before == waits.written() { fruitless + 1 } else { 0 };
            match fruitless {
                0 => {}
                // A writer with a real-time priority may have taken the CPU from that thread.
                n if n >= COPY_SPINS => self.runtime.pause(COPY_PAUSE).await,
                _ => self.yield_now().await,
            }
        }
    }
    /// Syncs until no session waits for written bytes.
    async fn sync_for_all(&self) {
        let count = &self.counters.writer;
        while self.waits.wants_sync() {
            count.log_flusher_no_waits.fetch_add(1, Relaxed);
            if self.waits.in_company()
                && let Some(hold) = self.hold()
            {
                hold.await;
            }
            self.sync_only();
        }
        count.log_flusher_waits.fetch_add(1, Relaxed);
    }
}
