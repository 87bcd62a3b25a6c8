//! The `dedicated` host of the writer: a thread of its own that writes and flushes whenever somebody waits, and sleeps else.
//!
//! It gets the lease like any other, by hand-over, and keeps it until the scheme is changed. A write and its flush are one command
//! (`write_durable_at`), so one thread is both log_writer and log_flusher. While a flush is under way, waiters gather for the next by themselves.
use super::kick::Kick;
use super::leader::Desk;
use super::{Log, Scheme};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

pub(super) fn spawn(log: &Arc<Log>) {
    let task = reside(Arc::downgrade(log), log.waits().bell().clone());
    log.host.spawn_thread("log-writer", Box::pin(task));
}

async fn reside(log: Weak<Log>, bell: Arc<Kick>) {
    // It holds the log only while it works, so that the log can go.
    let mut woken = 0;
    while let Some(log) = log.upgrade() {
        log.counters.writer.log_writer_wait_loops.fetch_add(woken, Relaxed);
        if !log.work().await {
            return;
        }
        drop(log);
        // Closed: what waits is led by sessions from now on.
        bell.wait().await;
        woken = 1;
    }
}

impl Log {
    /// Flushes until there is nothing to do. False when the log is closed.
    async fn work(&self) -> bool {
        let (waits, count) = (&self.waits, &self.counters.writer);
        loop {
            if self.is_closed() || self.scheme() != Scheme::Dedicated {
                if let Some(next) = waits.resident_leaves() {
                    next.wake();
                }
                return !self.is_closed();
            }
            if !waits.resident_leads() || waits.resident_may_sleep() {
                count.log_writer_waits.fetch_add(1, Relaxed);
                return true;
            }
            count.log_writer_no_waits.fetch_add(1, Relaxed);
            let before = (waits.durable(), waits.written());
            self.flush_for(false, false);
            if before == (waits.durable(), waits.written()) {
                // Somebody waits for what another is still copying.
                self.yield_now().await;
            }
        }
    }
}
