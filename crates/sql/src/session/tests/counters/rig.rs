//! Runs the engine on a disk that counts the requests to the log's files and can hold back a write.
//! Reads the engine's counters as a user reads them.
use super::super::Session;
use super::super::{World, lines};
use crate::exec::fixture::Server;
use parking_lot::{Condvar, Mutex};
use redolith_disk::{Disk, File, OpenHow, RealDisk};
use redolith_engine::WriterMode;
use redolith_engine::runtime::block_on;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::ThreadId;
use std::time::Duration;

/// The requests to the device in the folder of the log.
#[derive(Default)]
pub(super) struct Asked {
    writes: AtomicU64,
    /// The number of durable writes and of syncs.
    flushes: AtomicU64,
    bytes: AtomicU64,
    pub gate: Gate,
    /// Checkpoints stop here while this gate is closed.
    pub checkpoints: Gate,
    pub clock: Mutex<Option<OnClock>>,
}
/// A thread, and an action that runs when this thread looks at the clock, until the action returns
/// true.
type OnClock = (ThreadId, Box<dyn FnMut() -> bool + Send>);
/// Writes stop here while the gate is closed.
#[derive(Default)]
pub(super) struct Gate {
    /// True if the gate is closed, and the number of waiting writes.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}
impl Gate {
    pub fn close(&self) {
        self.state.lock().0 = true;
    }
    pub fn open(&self) {
        self.state.lock().0 = false;
        self.changed.notify_all();
    }
    fn pass(&self) {
        let mut state = self.state.lock();
        state.1 += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |s| s.0);
        state.1 -= 1;
    }
    /// Waits until a write stands before the gate.
    pub fn wait_for_one(&self) {
        self.changed.wait_while(&mut self.state.lock(), |s| s.1 == 0);
    }
}
/// The real disk with counters and gates.
struct Counting {
    disk: RealDisk,
    log: Arc<Asked>,
}
struct CountingFile {
    file: Arc<dyn File>,
    log: Arc<Asked>,
}
impl File for CountingFile {
    redolith_disk::forward_file!(file: read_at len set_len submit submit_many);
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.log.gate.pass();
        self.log.writes.fetch_add(1, Relaxed);
        self.log.bytes.fetch_add(buf.len() as u64, Relaxed);
        self.file.write_at(buf, offset)
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.log.gate.pass();
        self.log.writes.fetch_add(1, Relaxed);
        self.log.flushes.fetch_add(1, Relaxed);
        self.log.bytes.fetch_add(buf.len() as u64, Relaxed);
        // Other threads may run while a flush is under way.
        (0..20).for_each(|_| std::thread::yield_now());
        self.file.write_durable_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.log.flushes.fetch_add(1, Relaxed);
        self.file.sync()
    }
}
/// The file `control` of the log.
struct ControlFile {
    file: Arc<dyn File>,
    log: Arc<Asked>,
}
impl File for ControlFile {
    redolith_disk::forward_file!(file: read_at write_at sync len set_len submit submit_many);
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.log.checkpoints.pass();
        self.file.write_durable_at(buf, offset)
    }
}
impl Disk for Counting {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let (file, log) = (self.disk.open(path, how)?, self.log.clone());
        Ok(match path.file_name().and_then(|n| n.to_str()) {
            Some(name) if name.starts_with("log_") => Arc::new(CountingFile { file, log }),
            Some(name) if name.starts_with("control") => Arc::new(ControlFile { file, log }),
            _ => file,
        })
    }
    redolith_disk::forward_disk! {
        disk: exists list
        create_dir_all remove rename sync_dir lock_dir wall_us random
    }
    fn now(&self) -> Duration {
        let mine = self.log.clock.lock().take_if(|c| c.0 == std::thread::current().id());
        if let Some((thread, mut act)) = mine
            && !act()
        {
            *self.log.clock.lock() = Some((thread, act));
        }
        self.disk.now()
    }
}

pub(super) struct Rig {
    pub world: World,
    pub asked: Arc<Asked>,
}
/// The COUNT of every counter.
pub(super) type Counts = HashMap<String, u64>;

impl Rig {
    pub fn new(buffer_bytes: usize, segment_bytes: u64) -> Rig {
        let asked = Arc::new(Asked::default());
        let disk = Counting { disk: RealDisk::new(), log: asked.clone() };
        let server = Server::on(Arc::new(disk), |c| {
            (c.log_buffer_bytes, c.log_segment_bytes, c.log_capacity_bytes) =
                (buffer_bytes, segment_bytes, 16 * segment_bytes);
        });
        Rig { world: World::over(server), asked }
    }
    /// Stops all writers but the sessions: purge, periodic flushing and checkpoints, and the making
    /// of log segments.
    pub fn quiet(&self) {
        let engine = &self.world.server.engine;
        let (log, f) = (&engine.store.log, &engine.flush_settings);
        engine.history.stop();
        // First all pending writes are done. Work that has begun may go on for long on a busy disk.
        f.checkpoint_interval_ms.set(1);
        f.idle_flush_pct.set(100);
        self.until("a checkpoint at the end", || {
            block_on(log.flush_to(log.tail()));
            log.checkpoint_lsn() >= log.tail()
        });
        f.checkpoint_interval_ms.set(3_600_000);
        f.idle_flush_pct.set(0);
        f.max_dirty_lwm.set(0);
        f.adaptive_lwm.set(10_000);
        log.set_flush_seconds(3600);
        let (mut last, mut same) = (u64::MAX, 0);
        while same < 5 {
            block_on(engine.runtime.sleep(Duration::from_millis(50)));
            let now = self.asked.writes.load(Relaxed);
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
    }
    /// Waits until `holds` is true. On a busy machine other threads may need long.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let runtime = &self.world.server.engine.runtime;
        let done = (0..12_000).any(|_| {
            let done = holds();
            if !done {
                block_on(runtime.sleep(Duration::from_millis(5)));
            }
            done
        });
        assert!(done, "not within a minute: {what}");
    }
    /// Like [`counts`], but without a statement that changes the counters.
    pub fn metrics(&self) -> Counts {
        self.world
            .server
            .engine
            .metrics()
            .into_iter()
            .map(|(m, n)| (m.name.to_string(), n))
            .collect()
    }
    pub fn write_with(&self, mode: Option<WriterMode>) {
        self.world.server.engine.store.log.set_policy(|policy| policy.mode = mode);
    }
    /// The numbers of writes, flushes and bytes that the device saw in the log's files.
    pub fn device(&self) -> [u64; 3] {
        [&self.asked.writes, &self.asked.flushes, &self.asked.bytes].map(|n| n.load(Relaxed))
    }
}

pub(super) fn counts(s: &mut Session) -> Counts {
    let rows = lines(s, "SELECT name, count FROM information_schema.innodb_metrics");
    rows.iter()
        .filter_map(|row| row.split_once('|'))
        .map(|(name, n)| (name.to_string(), n.parse().unwrap()))
        .collect()
}
pub(super) fn more(before: &Counts, after: &Counts, name: &str) -> u64 {
    after[name] - before[name]
}
/// The increases of the named counters.
pub(super) fn moves<const N: usize>(before: &Counts, after: &Counts, names: [&str; N]) -> [u64; N] {
    names.map(|name| more(before, after, name))
}
