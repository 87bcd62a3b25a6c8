//! `binlog_expire_logs_seconds`: files go when they are old.
use super::Binlog;
use redolith_binlog::ReadError;
use std::sync::atomic::Ordering::Relaxed;

impl Binlog {
    /// Files go when they were complete this many seconds ago; 0: never.
    pub fn set_expiry(&self, seconds: u64) {
        self.expire_seconds.store(seconds, Relaxed);
    }
    /// Whether files go by themselves.
    pub fn expires(&self) -> bool {
        self.expire_seconds.load(Relaxed) > 0
    }
    /// The oldest file that was not complete at `time`, in seconds since 1970. A file is complete
    /// when the next one begins.
    pub fn first_after(&self, time: u64) -> Result<u32, ReadError> {
        let mut first = 0;
        for number in self.numbers() {
            if u64::from(self.begun_at(number)?) > time {
                break;
            }
            first = number;
        }
        Ok(first)
    }
    /// Removes the files that are too old, if they may go ([`Binlog::purge_before`]).
    pub fn expire(&self) {
        let seconds = self.expire_seconds.load(Relaxed);
        if seconds == 0 {
            return;
        }
        let time = (self.now_us() / 1_000_000).saturating_sub(seconds);
        let expired = self.first_after(time).map_err(|e| e.to_string());
        match expired.and_then(|first| self.purge_before(first).map_err(|e| e.to_string())) {
            Ok(purged) if purged.files > 0 => {
                tracing::info!("{} expired files of the binary log were removed", purged.files);
            }
            Ok(_) => {}
            Err(e) => tracing::warn!("expired files of the binary log could not be removed: {e}"),
        }
    }
    /// Removes the files that are too old when a start has begun, and when the task has gone on to
    /// another file. `store` stores the state of the last barrier.
    pub(super) fn expire_behind(&self, store: impl FnOnce()) {
        let kept = self.safe.lock().file;
        if self.expired_at.swap(kept, Relaxed) != kept && self.expires() {
            self.store_state(store);
            self.expire();
        }
    }
}
