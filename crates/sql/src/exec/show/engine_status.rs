//! Writes SHOW ENGINE INNODB STATUS. The report has the sections that people and tools look for,
//! with this engine's values, in MySQL's words where they fit.
//!
//! As in MySQL, averages per second begin at the previous report of any session.
use crate::status::{Reading, Status, log_writer_mode};
use redolith_engine::lock::WaitInfo;
use redolith_engine::metrics::split;
use redolith_engine::{DoublewriteMode, Engine, TrxId};
use redolith_types::DateTime;
use std::collections::HashMap;
use std::fmt::{Result, Write};

/// The greatest number of transactions that are listed.
const MAX_TRANSACTIONS: usize = 100;

/// The greatest number of files that are listed.
const MAX_FILES: usize = 20;

pub(super) fn report(engine: &Engine, status: &Status) -> String {
    let values: HashMap<&'static str, u64> =
        engine.metrics().into_iter().map(|(m, n)| (m.name, n)).collect();
    let now = Reading { at: engine.disk.now(), values };
    let before = status.last_report.lock().replace(now.clone()).unwrap_or_default();
    let mut report = Report {
        engine,
        seconds: (now.at.saturating_sub(before.at)).as_secs_f64().max(0.001),
        now,
        before,
        out: String::with_capacity(4096),
    };
    // Writing to a String cannot fail.
    let _ = report.write();
    report.out
}

struct Report<'a> {
    engine: &'a Engine,
    now: Reading,
    before: Reading,
    seconds: f64,
    out: String,
}

impl Report<'_> {
    fn write(&mut self) -> Result {
        writeln!(
            self.out,
            "\n{0}\n{1} INNODB MONITOR OUTPUT\n{0}",
            "=".repeat(37),
            time(self.engine.disk.wall_us())
        )?;
        writeln!(
            self.out,
            "Per second averages calculated from the last {} seconds",
            self.seconds.ceil()
        )?;
        self.background()?;
        self.semaphores()?;
        self.deadlock()?;
        self.transactions()?;
        self.file_io()?;
        self.log()?;
        self.pool()?;
        self.row_operations()?;
        writeln!(
            self.out,
            "----------------------------\nEND OF INNODB MONITOR \
                OUTPUT\n============================"
        )
    }

    fn of(&self, name: &str) -> u64 {
        self.now.values.get(name).copied().unwrap_or(0)
    }
    fn grown(&self, name: &str) -> u64 {
        self.of(name).saturating_sub(self.before.values.get(name).copied().unwrap_or(0))
    }
    fn per_second(&self, name: &str) -> f64 {
        self.grown(name) as f64 / self.seconds
    }
    fn section(&mut self, name: &str) -> Result {
        let line = "-".repeat(name.len());
        writeln!(self.out, "{line}\n{name}\n{line}")
    }
    /// Writes a line of text.
    fn line(&mut self, args: std::fmt::Arguments<'_>) -> Result {
        writeln!(self.out, "{args}")
    }

    fn background(&mut self) -> Result {
        self.section("BACKGROUND THREAD")?;
        let (written, lru) =
            (self.of("buffer_pages_written"), self.of("buffer_LRU_batch_flush_total_pages"));
        let (purged, to_go) = (self.of("purge_undo_logs"), self.of("trx_rseg_history_len"));
        self.line(format_args!(
            "page cleaners: {written} pages written, {lru} of them to free their frames"
        ))?;
        self.line(format_args!("purge: {purged} undo logs purged, {to_go} to go"))
    }

    /// The engine does not count rounds of spinning, so the section shows the waits of sessions.
    fn semaphores(&mut self) -> Result {
        self.section("SEMAPHORES")?;
        let (waits, no_waits) = (self.of("log_on_flush_waits"), self.of("log_on_flush_no_waits"));
        let (buffer, files, frames) = (
            self.of("log_on_buffer_space_waits"),
            self.of("log_on_file_space_waits"),
            self.of("buffer_pool_wait_free"),
        );
        self.line(format_args!("waits for a durable log: {waits}, without wait: {no_waits}"))?;
        self.line(format_args!(
            "waits for room in the log buffer: {buffer}, in the log files: \
            {files}; for a free frame: {frames}"
        ))?;
        self.line(format_args!(
            "waits for row locks: {}, now: {}",
            self.of("lock_row_lock_waits"),
            self.of("lock_row_lock_current_waits")
        ))
    }

    fn deadlock(&mut self) -> Result {
        let engine = self.engine;
        let Some(report) = engine.locks.latest_deadlock() else { return Ok(()) };
        self.section("LATEST DETECTED DEADLOCK")?;
        let age_us = engine.disk.now().saturating_sub(report.at).as_micros() as i64;
        self.line(format_args!("{}", time(engine.disk.wall_us() - age_us)))?;
        let mut shown: Vec<u64> = Vec::new();
        for wait in report.trxs.iter().filter_map(|t| t.waits_for.as_ref()) {
            let index = index_of(wait);
            if !shown.contains(&index) {
                shown.push(index);
                self.line(format_args!("index {index} is {}", index_name(engine, index)))?;
            }
        }
        write!(self.out, "{report}")
    }

    fn transactions(&mut self) -> Result {
        let engine = self.engine;
        self.section("TRANSACTIONS")?;
        let (pages, in_use) = engine.undo.counts();
        self.line(format_args!("Trx id counter {}", engine.sys.next_id().0))?;
        let purged = engine.history.done_below(engine.sys.oldest_view_no());
        self.line(format_args!(
            "Purge done for trx's n:o < {} undo n:o < 0 state: {}",
            purged.0,
            engine.history.state().name()
        ))?;
        self.line(format_args!("History list length {}", engine.history.len()))?;
        self.line(format_args!(
            "Undo pages {pages}, {in_use} of them with undo logs that are needed; {} read views \
                open",
            engine.sys.open_views()
        ))?;
        let active = engine.sys.active_ids();
        self.line(format_args!(
            "LIST OF TRANSACTIONS FOR EACH SESSION: ({} active)",
            active.len()
        ))?;
        active.iter().take(MAX_TRANSACTIONS).try_for_each(|id| self.transaction(*id))
    }

    fn transaction(&mut self, id: TrxId) -> Result {
        // The transaction may have ended since the list was made.
        let Some(trx) = self.engine.sys.find(id) else { return Ok(()) };
        self.line(format_args!("---TRANSACTION {}, ACTIVE", id.0))?;
        if let Some(wait) = trx.waits_for() {
            let name = index_name(self.engine, index_of(&wait));
            self.line(format_args!("LOCK WAIT for {wait}: {name}"))?;
        }
        self.line(format_args!("{} row lock(s)", trx.locks_held()))
    }

    fn file_io(&mut self) -> Result {
        self.section("FILE I/O")?;
        let (reads, writes, fsyncs) = (
            self.of("os_pending_reads"),
            self.of("os_pending_writes"),
            self.of("os_pending_fsyncs"),
        );
        self.line(format_args!(
            "Pending normal page reads: {reads}, writes: {writes}, fsyncs: {fsyncs}"
        ))?;
        let writes = self.of("os_data_writes") + self.of("log_writes");
        let fsyncs = self.of("os_data_fsyncs") + self.of("os_log_fsyncs");
        self.line(format_args!(
            "{} OS file reads, {writes} OS file writes, {fsyncs} OS fsyncs",
            self.of("os_data_reads")
        ))?;
        let average =
            self.grown("buffer_data_reads").checked_div(self.grown("os_data_reads")).unwrap_or(0);
        let writes = self.per_second("os_data_writes") + self.per_second("log_writes");
        let fsyncs = self.per_second("os_data_fsyncs") + self.per_second("os_log_fsyncs");
        let reads = self.per_second("os_data_reads");
        self.line(format_args!(
            "{reads:.2} reads/s, {average} avg bytes/read, {writes:.2} \
            writes/s, {fsyncs:.2} fsyncs/s"
        ))?;
        self.torn_pages()
    }
    /// What protects the pages of the files against tearing.
    fn torn_pages(&mut self) -> Result {
        let mode = self.engine.doublewrite_mode();
        let protection = match mode {
            DoublewriteMode::On | DoublewriteMode::DetectAndRecover | DoublewriteMode::Legacy => {
                "copies in the doublewrite file"
            }
            DoublewriteMode::Redo => "the redo log",
            DoublewriteMode::Off | DoublewriteMode::DetectOnly => "nothing",
            DoublewriteMode::Atomic => "atomic writes",
        };
        self.line(format_args!(
            "Torn pages: innodb_doublewrite={}, all files are protected by {protection}",
            mode.name()
        ))?;
        if mode == DoublewriteMode::Atomic {
            let copied: Vec<_> =
                self.engine.atomic_files().into_iter().filter(|(_, atomic)| !atomic).collect();
            let (files, more) = copied.split_at(copied.len().min(MAX_FILES));
            for (path, _) in files {
                self.line(format_args!("  but copies protect {}", path.display()))?;
            }
            if !more.is_empty() {
                self.line(format_args!("  and {} more files", more.len()))?;
            }
        }
        Ok(())
    }

    fn log(&mut self) -> Result {
        self.section("LOG")?;
        let (tail, dirty, written) = (
            self.of("log_lsn_current"),
            self.of("log_lsn_buf_dirty_pages_added"),
            self.engine.store.log.written().0,
        );
        // A log frame is complete before its pages become dirty and before it is written.
        let completed = self.of("log_lsn_buf_completed").max(dirty).max(written);
        for (name, lsn) in [
            ("Log sequence number", tail),
            ("Log buffer assigned up to", tail),
            ("Log buffer completed up to", completed),
            ("Log written up to", written),
            ("Log flushed up to", self.of("log_lsn_last_flush")),
            ("Added dirty pages up to", dirty),
            ("Pages flushed up to", self.of("log_lsn_buf_pool_oldest_approx")),
            ("Last checkpoint at", self.of("log_lsn_last_checkpoint")),
        ] {
            self.line(format_args!("{name:<28} {lsn}"))?;
        }
        let (age, most, files) = (
            self.of("log_lsn_checkpoint_age"),
            self.of("log_max_modified_age_sync"),
            self.of("log_segments"),
        );
        self.line(format_args!("Checkpoint age {age} of {most} bytes; {files} segment files"))?;
        self.line(format_args!(
            "{} log i/o's done, {:.2} log i/o's/second",
            self.of("log_writes"),
            self.per_second("log_writes")
        ))?;
        let (flushes, each) = (self.of("log_flushes"), self.of("log_flush_avg_time_us"));
        self.line(format_args!(
            "{flushes} flushes, {:.2} flushes/second, {each} us each",
            self.per_second("log_flushes")
        ))?;
        let (mode, depth, per_flush) = (
            log_writer_mode(self.of("log_writer_mode")),
            self.of("log_flush_depth"),
            self.of("log_waiters_per_flush"),
        );
        self.line(format_args!(
            "writer mode {mode}, depth {depth}; {}.{:02} commits made durable by a flush",
            per_flush / 100,
            per_flush % 100
        ))?;
        self.histogram("flush time", "log_flush_time_us")?;
        self.histogram("commit wait", "commit_wait_us")
    }

    /// Writes a line such as `commit wait: 12 in 1004 us; <= 100 us: 10, <= 200 us: 12`.
    fn histogram(&mut self, what: &str, name: &str) -> Result {
        let (count, sum) = (self.of(&format!("{name}_count")), self.of(&format!("{name}_sum")));
        if count == 0 {
            return Ok(());
        }
        let bound =
            |n: &&'static str| split(n).filter(|(h, _)| *h == name).and_then(|(_, bound)| bound);
        let mut buckets: Vec<(u64, u64)> =
            self.now.values.iter().filter_map(|(n, v)| Some((bound(n)?, *v))).collect();
        buckets.sort_unstable();
        write!(self.out, "{what}: {count} in {sum} us")?;
        let (mut before, mut separator) = (0, ';');
        for (bound, upto) in buckets {
            if upto > before {
                write!(self.out, "{separator} <= {bound} us: {upto}")?;
                separator = ',';
            }
            before = upto;
        }
        writeln!(self.out)
    }

    fn pool(&mut self) -> Result {
        self.section("BUFFER POOL AND MEMORY")?;
        self.line(format_args!("Total large memory allocated {}", self.of("buffer_pool_size")))?;
        for (name, n) in [
            ("Buffer pool size", self.of("buffer_pool_pages_total")),
            ("Free buffers", self.of("buffer_pool_pages_free")),
            ("Database pages", self.of("buffer_pool_pages_data")),
            ("Old database pages", self.of("buffer_pages_old")),
            ("Modified db pages", self.of("buffer_pool_pages_dirty")),
            ("Pending reads", self.of("os_pending_reads")),
        ] {
            self.line(format_args!("{name:<18} {n}"))?;
        }
        self.line(format_args!(
            "Pages made young {}, evicted {}",
            self.of("buffer_pages_made_young"),
            self.of("buffer_pages_evicted")
        ))?;
        let (read, created, written) =
            ("buffer_pages_read", "buffer_pages_created", "buffer_pages_written");
        self.line(format_args!(
            "Pages read {}, created {}, written {}",
            self.of(read),
            self.of(created),
            self.of(written)
        ))?;
        let per_second = [read, created, written].map(|name| self.per_second(name));
        self.line(format_args!(
            "{:.2} reads/s, {:.2} creates/s, {:.2} writes/s",
            per_second[0], per_second[1], per_second[2]
        ))?;
        let (requests, reads) =
            (self.grown("buffer_pool_read_requests"), self.grown("buffer_pool_reads"));
        match (reads * 1000).checked_div(requests) {
            None => self.line(format_args!("No buffer pool page gets since the last printout")),
            Some(missed) => {
                self.line(format_args!("Buffer pool hit rate {} / 1000", 1000 - missed.min(1000)))
            }
        }
    }

    fn row_operations(&mut self) -> Result {
        self.section("ROW OPERATIONS")?;
        let names = ["dml_inserts", "dml_updates", "dml_deletes", "dml_reads"];
        let (n, s) = (names.map(|name| self.of(name)), names.map(|name| self.per_second(name)));
        self.line(format_args!("{} read views open inside InnoDB", self.of("trx_read_views")))?;
        self.line(format_args!(
            "Number of rows inserted {}, updated {}, deleted {}, read {}",
            n[0], n[1], n[2], n[3]
        ))?;
        self.line(format_args!(
            "{:.2} inserts/s, {:.2} updates/s, {:.2} deletes/s, {:.2} reads/s",
            s[0], s[1], s[2], s[3]
        ))
    }
}

fn time(wall_us: i64) -> String {
    let mut text = Vec::new();
    DateTime::from_unix_us(wall_us, 0).unwrap_or_default().write_text(0, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn index_of(wait: &WaitInfo) -> u64 {
    match wait {
        WaitInfo::Row { key, .. } => key.index,
        WaitInfo::Insert { index, .. } => *index,
    }
}
fn index_name(engine: &Engine, id: u64) -> String {
    for table in engine.dict.all_tables() {
        if let Some(index) = table.indexes.iter().find(|i| i.id == id) {
            let name = if index.def.name.is_empty() { "GEN_CLUST_INDEX" } else { &index.def.name };
            return format!("{name} of table `{}`.`{}`", table.def.schema, table.def.name);
        }
    }
    "of a table that has been dropped".into()
}
