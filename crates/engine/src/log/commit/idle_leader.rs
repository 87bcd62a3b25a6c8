//! The watch over a leadership that lies idle (WAIT-6): the future that has it is neither polled
//! nor dropped, as when a program that uses the library holds one commit and waits for another.
use crate::log::Log;
use crate::log::commit::leader::{CommitQueue, Flushed, pass_on};
use crate::runtime::Runtime;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The leadership lies idle for so long at least, and for twice as long at most, beside the time
/// for which flushes are held back. A leader that lets others go first comes back after
/// microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(in crate::log) async fn watch(log: Weak<Log>, runtime: Arc<dyn Runtime>) {
    let (mut seen, mut hold) = (0, Duration::ZERO);
    loop {
        runtime.sleep(LOOK_EVERY + hold).await;
        let Some(log) = log.upgrade() else { return };
        if log.is_closed() {
            return;
        }
        // A leader that holds its flush back rests for as long. Where that gets longer, the watch
        // begins anew.
        let before = std::mem::replace(&mut hold, log.policy_in_use.hold());
        if hold > before {
            seen = 0;
        }
        if log.waits.leadership().take_idle(&mut seen) {
            log.counters.writer.log_idle_leaders.fetch_add(1, Relaxed);
            if log.flush(true) != Flushed::Away {
                pass_on(&log.waits);
            }
        }
    }
}
