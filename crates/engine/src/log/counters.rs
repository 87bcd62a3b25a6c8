//! The counters of the log, under the names of the field study (`log_*` as in INNODB_METRICS). The
//! counters of sessions are spread over cache lines by thread.
use crate::histogram_names;
use crate::log::append::slots;
use crate::metrics::{Histogram, HistogramNames};
use crate::sync::log::Padded;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const SHARDS: usize = 16;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of sessions.
        #[derive(Debug, Clone, Copy)]
        // Names of the study that have no meaning here are reported as 0.
        #[allow(non_camel_case_types, dead_code)]
        pub(super) enum Session { $($name,)* }
        const SESSION_NAMES: &[&str] = &[$(stringify!($name),)*];
    };
}
counters! {
    log_waits,
    log_on_write_no_waits, log_on_write_waits, log_on_write_wait_loops,
    log_on_flush_no_waits, log_on_flush_waits, log_on_flush_wait_loops,
    log_on_buffer_space_no_waits, log_on_buffer_space_waits, log_on_buffer_space_wait_loops,
    log_on_file_space_no_waits, log_on_file_space_waits, log_on_file_space_wait_loops,
    log_on_recent_written_wait_loops, log_on_recent_closed_wait_loops,
}

macro_rules! writer_counters {
    ($($name:ident,)*) => {
        /// The counters of the threads that write.
        #[derive(Debug, Default)]
        pub(super) struct Writer { $(pub $name: AtomicU64,)* }
        impl Writer {
            fn each(&self, f: &mut impl FnMut(&'static str, u64)) {
                $(f(stringify!($name), self.$name.load(Relaxed));)*
            }
        }
    };
}
writer_counters! {
    log_writes, log_full_block_writes, log_partial_block_writes, log_padded,
    os_log_written, os_log_fsyncs, log_checkpoints,
    log_writer_no_waits, log_writer_waits, log_writer_wait_loops, log_writer_on_file_space_waits,
    log_write_notifier_no_waits, log_write_notifier_waits, log_write_notifier_wait_loops,
    log_flusher_no_waits, log_flusher_waits, log_flusher_wait_loops,
    log_flush_notifier_no_waits, log_flush_notifier_waits, log_flush_notifier_wait_loops,
    log_flushes, log_flush_total_time_us, log_flush_max_time_us, log_flush_total_bytes,
    log_flush_waiters, log_groups, log_flush_group_max, log_flush_holds, log_flush_hold_time_us,
    log_idle_leaders,
    log_segments_created, log_segments_recycled,
    log_writes_submitted, log_writes_overlapped, log_throttle_waits, log_throttle_time_us,
}

static FLUSH_TIME: HistogramNames = histogram_names!("log_flush_time_us");

pub(super) struct Counters {
    session: Box<[Padded<[AtomicU64; SESSION_NAMES.len()]>]>,
    pub writer: Padded<Writer>,
    flush_time: Histogram,
}
impl Counters {
    pub(super) fn new() -> Counters {
        Counters {
            session: (0..SHARDS).map(|_| Padded::default()).collect(),
            writer: Padded::default(),
            flush_time: Histogram::default(),
        }
    }
    pub(super) fn session(&self, what: Session) {
        self.session[slots::number() % SHARDS][what as usize].fetch_add(1, Relaxed);
    }
    /// Counts one durable flush: its length in bytes and its time, the number of woken waiters, and
    /// whether the flushing session waited for it too.
    pub(super) fn flushed(&self, bytes: u64, time: Duration, woken: usize, led: bool) {
        let (w, us) = (&self.writer, time.as_micros() as u64);
        self.flush_time.record(time);
        w.log_flushes.fetch_add(1, Relaxed);
        w.log_flush_total_time_us.fetch_add(us, Relaxed);
        w.log_flush_max_time_us.fetch_max(us, Relaxed);
        w.log_flush_total_bytes.fetch_add(bytes, Relaxed);
        w.log_flush_waiters.fetch_add(woken as u64, Relaxed);
        w.log_groups.fetch_add(led as u64, Relaxed);
        w.log_flush_group_max.fetch_max(woken as u64 + led as u64, Relaxed);
    }
    pub(super) fn each(&self, mut f: impl FnMut(&'static str, u64)) {
        for (i, name) in SESSION_NAMES.iter().enumerate() {
            f(name, self.session.iter().map(|s| s[i].load(Relaxed)).sum());
        }
        self.writer.each(&mut f);
        self.flush_time.each(&FLUSH_TIME, &mut f);
        let load = |c: &AtomicU64| c.load(Relaxed);
        let w = &self.writer;
        f("log_flush_avg_time_us", load(&w.log_flush_total_time_us) / load(&w.log_flushes).max(1));
        f("log_flush_lsn_avg_rate", load(&w.log_flush_total_bytes) / load(&w.log_flushes).max(1));
        f(
            "log_waiters_per_flush",
            100 * (load(&w.log_flush_waiters) + load(&w.log_groups)) / load(&w.log_flushes).max(1),
        );
    }
}
