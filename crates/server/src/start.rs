//! `redolith server` from the settings to the end: sockets, engine, the ready message, signals,
//! shutdown.
use crate::backend::Backend;
use crate::engine_status;
use crate::error_log::{self, ErrorLog};
use crate::listener::{self, Listener, SocketFile};
use crate::long_work;
use crate::metrics;
use crate::own_file::OwnFile;
use crate::pool_size;
use crate::runtime::{EngineRuntime, TokioRuntime};
use crate::server::Server;
use crate::sql_backend::SqlBackend;
use crate::worker_affinity::{Affinity, Workers};
use redolith_binlog::Checksum;
use redolith_disk::{
    Create, Disk, OpenHow, Placement, calculate_in_foreground, unbind_this_thread,
};
use redolith_engine::Forced;
use redolith_engine::WriterMode;
use redolith_engine::commit_stream::no_stream;
use redolith_engine::{Config, DoublewriteConfig, DoublewriteMode, Engine};
use redolith_replication::record::Options as BinlogOptions;
use redolith_replication::{Binlog, Place};
use redolith_sql::processes::Processes;
use redolith_sql::settings::{SERVER_VERSION, Settings, Var, parse_cpus};
use redolith_sql::status::{MonitorAction, Status};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Logs a message whatever log_error_verbosity is.
macro_rules! say {
    ($($text:tt)*) => { tracing::info!(target: error_log::SYSTEM, $($text)*) };
}

/// How long threads may take to end after the engine is closed.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// What a backend is built from.
pub struct Parts {
    pub engine: Arc<Engine>,
    pub binlog: Option<Arc<Binlog>>,
    pub settings: Arc<Settings>,
    pub processes: Arc<Processes>,
    pub status: Arc<Status>,
}

/// Runs the server until a signal ends it. `notes` are warnings from reading the options. An error
/// is a message for the person who started the server.
pub fn run(settings: Arc<Settings>, notes: &[String], disk: Arc<dyn Disk>) -> Result<(), String> {
    open_error_log(&settings, &disk)?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    raise_file_limit(settings.bits(Var::OpenFilesLimit));
    // `available_parallelism` takes the CPU affinity and the cgroup's quota into account.
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = Workers::new(workers);
    let rests = threads.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        // A new thread inherits the CPU binding and the policy of the thread that started it.
        .on_thread_start(|| {
            unbind_this_thread();
            calculate_in_foreground();
        })
        .on_thread_park(move || rests.rests())
        .max_blocking_threads(long_work::MOST_THREADS)
        .thread_name("redolith")
        .thread_stack_size(settings.bits(Var::ThreadStack) as usize)
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start {workers} worker threads: {e}"))?;
    let ended = runtime.block_on(run_inside(settings, disk, threads));
    // Threads that are still running do not delay the exit: the engine is closed, so nothing waits
    // for their work.
    runtime.shutdown_timeout(LAST_WAIT);
    ended
}

fn data_directory(settings: &Settings) -> PathBuf {
    PathBuf::from(&*settings.text(Var::Datadir).unwrap_or_default())
}

fn open_error_log(settings: &Arc<Settings>, disk: &Arc<dyn Disk>) -> Result<(), String> {
    let named = settings.text(Var::LogError).unwrap_or_default();
    let log = Arc::new(ErrorLog::open(disk.clone(), &named, &data_directory(settings))?);
    error_log::install(&log);
    let by = log.clone();
    settings.on_change(Var::LogErrorVerbosity, move |verbosity| by.set_verbosity(verbosity));
    settings
        .on_change_of_place(Var::LogError, move |_, _| log.reopen().err().into_iter().collect());
    Ok(())
}

async fn run_inside(
    settings: Arc<Settings>,
    disk: Arc<dyn Disk>,
    workers: Arc<Workers>,
) -> Result<(), String> {
    let begun = disk.now();
    let mut signals = Signals::new()?;
    let datadir = data_directory(&settings);
    let sockets = bind(&settings, &disk, &datadir)?;
    let metrics_listener = match settings.text(Var::MetricsAddress).filter(|a| !a.is_empty()) {
        Some(address) => Some(metrics::bind(&address).await?),
        None => None,
    };
    let tokio_runtime =
        Arc::new(TokioRuntime::new(tokio::runtime::Handle::current(), workers.clone()));
    let uuid_path = datadir.join("server_uuid");
    let uuid = read_uuid(&*disk, &uuid_path)?;
    let binlog = open_binlog(&settings, &disk, &datadir)?;
    pool_size::tell_greatest(&settings);
    pool_size::warn_of_shortage(&settings);
    let opening = Engine::open_with(
        engine_config(&settings, &datadir),
        disk.clone(),
        Arc::new(EngineRuntime(tokio_runtime.clone())),
        match &binlog {
            Some(binlog) => binlog.clone(),
            None => no_stream(),
        },
    );
    let (engine, report) = tokio::select! {
        opened = opening => opened
            .map_err(|e| format!("cannot open the data directory {}: {e}", datadir.display()))?,
        _ = signals.stop(&settings) => return Err("stopped by a signal while starting".into()),
    };
    place_log_threads(&settings, &tokio_runtime);
    pool_size::tell_instances(&settings, &engine);
    apply_to_engine(&settings, &engine);
    let uuid_told = tell_identity(&settings, &*disk, &uuid_path, uuid, report.created)?;
    if let Some(binlog) = &binlog {
        let options = binlog_options(&settings)?;
        // A full disk holds this up until there is room. The next start goes on from the redo log.
        tokio::select! {
            begun = binlog.start(&engine, options) => begun
                .map_err(|e| format!("cannot begin a file of the binary log: {e}"))?,
            _ = signals.stop(&settings) => return Err("stopped by a signal while starting".into()),
        }
    }
    let parts = Parts {
        engine: engine.clone(),
        binlog: binlog.clone(),
        settings: settings.clone(),
        processes: Processes::new(),
        status: Arc::new(Status::new()),
    };
    engine_status::register(&parts.status, &engine);
    apply_monitors(&parts)?;
    let server = Server::new(
        SqlBackend::new(&parts),
        disk.clone(),
        parts.processes.clone(),
        parts.status.clone(),
    );
    let pid_file = write_pid_file(&settings, &disk, &datadir)?;
    let w = workers.clone();
    settings.on_change(Var::RedolithWorkerAffinity, move |bits| w.set(Affinity::from(bits)));
    pool_size::bound_memory(&settings, server.backend.memory(), &engine);
    workers.register(&parts.status);
    tokio_runtime.beside().register(&parts.status);
    let mut tasks = vec![
        tokio::spawn(server.clone().watch_clock()),
        tokio::spawn(workers.clone().watch(disk.clone(), tokio_runtime.clone())),
    ];
    tasks.extend(
        sockets.listeners.into_iter().map(|l| tokio::spawn(listener::accept(server.clone(), l))),
    );

    let mut metrics_at = None;
    if let Some(listener) = metrics_listener {
        metrics_at = listener.local_addr().ok();
        let source = metrics::Source {
            engine: engine.clone(),
            status: parts.status.clone(),
            binlog: binlog.clone(),
        };
        tasks.push(tokio::spawn(metrics::serve(listener, source)));
    }

    let ms = (disk.now() - begun).as_millis();
    say!(
        "redolith {SERVER_VERSION} is ready after {ms} ms ({} worker threads, data in {})",
        workers.count(),
        datadir.display()
    );
    say!("{report}");
    uuid_told.iter().for_each(|told| tracing::warn!("{told}"));
    if settings.bits(Var::InnodbForceRecovery) > 0 {
        say!(
            "innodb_force_recovery is on: the server is read-only, and leaves the data directory \
             as it is"
        );
    }
    if let Some(address) = metrics_at {
        say!("counters at http://{address}/metrics");
    }
    sockets.connect.iter().for_each(|command| say!("connect with: {command}"));
    if settings.is_on(Var::InnodbBufferPoolLoadAtStartup) {
        engine.load_pool();
    }
    let why = signals.stop(&settings).await;
    say!("{why}: shutting down");

    tasks.iter().for_each(|t| t.abort());
    if !server.end_connections().await {
        // The engine is not closed while connections use it. The next start rolls back their
        // uncommitted transactions.
        let left = server.processes.len();
        engine.store.log.flush_to(engine.store.log.tail()).await;
        return Err(format!(
            "{left} connections have not ended in time: the shutdown was not clean, and the next \
             start recovers"
        ));
    }
    drop(server);
    if let Some(binlog) = &binlog
        && let Err(e) = binlog.stop(&engine).await
    {
        // No checkpoint passes what the files lack, so the engine cannot be closed.
        engine.store.log.flush_to(engine.store.log.tail()).await;
        return Err(format!(
            "the binary log could not be closed: {e}. The next start makes its files from the \
             redo log"
        ));
    }
    if settings.is_on(Var::InnodbBufferPoolDumpAtShutdown) {
        engine.dump_pool().await;
    }
    engine
        .close()
        .await
        .map_err(|e| format!("the shutdown failed: {e}; the next start recovers"))?;
    drop((sockets.file, pid_file));
    say!("shutdown complete");
    Ok(())
}

fn engine_config(s: &Settings, datadir: &Path) -> Config {
    Config {
        pool_bytes: s.bits(Var::InnodbBufferPoolSize),
        pool_max_bytes: s.bits(Var::InnodbBufferPoolSizeMax),
        pool_instances: s.bits(Var::InnodbBufferPoolInstances) as usize,
        log_capacity_bytes: s.bits(Var::InnodbRedoLogCapacity),
        log_buffer_bytes: s.bits(Var::InnodbLogBufferSize) as usize,
        doublewrite: doublewrite_config(s, datadir),
        io_capacity: s.bits(Var::InnodbIoCapacity) as u32,
        io_capacity_max: s.bits(Var::InnodbIoCapacityMax) as u32,
        page_cleaners: s.bits(Var::InnodbPageCleaners) as usize,
        purge_threads: s.bits(Var::InnodbPurgeThreads) as usize,
        forced: Forced::new(s.bits(Var::InnodbForceRecovery) as u8),
        ..Config::new(datadir)
    }
}

fn doublewrite_config(s: &Settings, datadir: &Path) -> DoublewriteConfig {
    let pages = s.bits(Var::InnodbDoublewritePages);
    let batch = match s.bits(Var::InnodbDoublewriteBatchSize) {
        0 => pages,
        size => size.min(pages),
    };
    DoublewriteConfig {
        mode: DoublewriteMode::from_number(s.bits(Var::InnodbDoublewrite) as u8),
        dir: s
            .text(Var::InnodbDoublewriteDir)
            .filter(|dir| !dir.is_empty())
            .map(|dir| datadir.join(&*dir)),
        files: s.bits(Var::InnodbDoublewriteFiles) as usize,
        pages: batch as usize,
    }
}

/// The binary log, if it is on. A start of a damaged directory does not go on with it.
fn open_binlog(
    s: &Settings,
    disk: &Arc<dyn Disk>,
    datadir: &Path,
) -> Result<Option<Arc<Binlog>>, String> {
    if !s.is_on(Var::LogBin) || s.bits(Var::InnodbForceRecovery) > 0 {
        return Ok(None);
    }
    let named = s.text(Var::LogBinBasename).filter(|name| !name.is_empty());
    let place = binlog_place(datadir, named.as_deref())?;
    let path = place.dir.join(&place.base);
    s.tell(Var::LogBinBasename, &path.display().to_string());
    s.tell(Var::LogBinIndex, &place.index().display().to_string());
    let index = place.index();
    let binlog = Binlog::new(disk.clone(), place)
        .map_err(|e| format!("cannot read the index of the binary log {}: {e}", index.display()))?;
    // The first look for expired files comes before there is a database.
    if s.is_on(Var::BinlogExpireLogsAutoPurge) {
        binlog.set_expiry(s.bits(Var::BinlogExpireLogsSeconds));
    }
    Ok(Some(binlog))
}
/// Where the binary log of a data directory is, as `--log-bin` names it.
pub(crate) fn binlog_place(datadir: &Path, named: Option<&str>) -> Result<Place, String> {
    let path = datadir.join(named.unwrap_or("binlog"));
    match (path.parent(), path.file_name().and_then(|name| name.to_str())) {
        (Some(dir), Some(base)) => Ok(Place { dir: dir.to_path_buf(), base: base.to_string() }),
        _ => Err(format!("--log-bin: {} is no name of a file", path.display())),
    }
}
fn binlog_options(s: &Settings) -> Result<BinlogOptions, String> {
    let uuid = s.text(Var::ServerUuid).unwrap_or_default();
    Ok(BinlogOptions {
        server_id: s.bits(Var::ServerId) as u32,
        checksum: match s.bits(Var::BinlogChecksum) {
            0 => Checksum::None,
            _ => Checksum::Crc32,
        },
        max_file_bytes: s.bits(Var::MaxBinlogSize),
        gtids: match s.bits(Var::GtidMode) {
            0 => false,
            3 => true,
            _ => return Err("--gtid-mode: only OFF and ON are possible".into()),
        },
        uuid: uuid.parse().map_err(|_| format!("server_uuid is no UUID: {uuid}"))?,
        server_version: SERVER_VERSION.to_string(),
    })
}

/// Applies the settings that may change while the engine runs.
fn apply_to_engine(s: &Settings, engine: &Arc<Engine>) {
    let locks = engine.locks.clone();
    s.on_change(Var::InnodbDeadlockDetect, move |on| locks.set_deadlock_detect(on != 0));
    let log = engine.store.log.clone();
    s.on_change(Var::RedolithLogWriter, move |bits| {
        let mode = match bits {
            0 => None,
            1 => Some(WriterMode::Session),
            2 => Some(WriterMode::Leader),
            _ => Some(WriterMode::Dedicated),
        };
        log.set_policy(|policy| policy.mode = mode);
    });
    let log = engine.store.log.clone();
    s.on_change(Var::RedolithLogFlushDepth, move |depth| {
        log.set_policy(|policy| policy.depth = (depth > 0).then_some(depth as usize));
    });
    let log = engine.store.log.clone();
    s.on_change(Var::RedolithLogFlushPaceUs, move |us| {
        // -1 means that the engine decides by measurement.
        log.set_policy(|policy| {
            policy.hold = u64::try_from(us as i64).ok().map(Duration::from_micros)
        });
    });
    let log = engine.store.log.clone();
    s.on_change(Var::InnodbFlushLogAtTimeout, move |seconds| log.set_flush_seconds(seconds));
    let log = engine.store.log.clone();
    s.on_change(Var::InnodbRedoLogCapacity, move |bytes| log.set_capacity(bytes));
    let log = engine.store.log.clone();
    s.on_change(Var::InnodbLogBufferSize, move |bytes| log.set_buffer(bytes));
    let undo = engine.clone();
    s.on_change(Var::InnodbUndoLogTruncate, move |on| undo.undo.truncation.enable(on != 0));
    let undo = engine.clone();
    s.on_change(Var::InnodbMaxUndoLogSize, move |bytes| undo.undo.truncation.set_max_bytes(bytes));
    let purge = engine.clone();
    s.on_change(Var::InnodbMaxPurgeLag, move |logs| purge.history.lag.set_max(logs));
    let purge = engine.clone();
    s.on_change(Var::InnodbMaxPurgeLagDelay, move |us| purge.history.lag.set_max_delay_us(us));
    macro_rules! flush {
        ($var:ident, $field:ident, $bits:ident => $value:expr) => {
            let flush = engine.flush_settings.clone();
            s.on_change(Var::$var, move |$bits| flush.$field.set($value));
        };
    }
    let pages = engine.clone();
    s.on_change(Var::InnodbDoublewrite, move |mode| {
        // SET refuses what the engine would refuse, and a forced start writes no pages.
        pages.set_doublewrite_mode(DoublewriteMode::from_number(mode as u8));
    });
    flush!(InnodbIoCapacity, io_capacity, n => n as u32);
    flush!(InnodbIoCapacityMax, io_capacity_max, n => n as u32);
    flush!(InnodbIdleFlushPct, idle_flush_pct, n => n as u32);
    flush!(InnodbLruScanDepth, lru_scan_depth, n => n as u32);
    let pages = engine.clone();
    s.on_change(Var::InnodbBufferPoolSize, move |bytes| pages.resize_pool(bytes));
    let pages = engine.clone();
    s.on_change(Var::InnodbBufferPoolDumpPct, move |pct| pages.set_pool_dump_percent(pct as u32));
    let order = |var: Var, run: fn(&Arc<Engine>)| {
        let engine = engine.clone();
        s.on_change(var, move |on| {
            if on != 0 {
                run(&engine);
            }
        });
    };
    order(Var::InnodbBufferPoolDumpNow, Engine::begin_pool_dump);
    order(Var::InnodbBufferPoolLoadNow, Engine::load_pool);
    order(Var::InnodbBufferPoolLoadAbort, |engine| engine.stop_pool_load());
    order(Var::InnodbPurgeStopNow, |engine| engine.history.stop());
    order(Var::InnodbPurgeRunNow, |engine| engine.history.resume());
    let set = engine.dict.statistics_settings.clone();
    s.on_change(Var::InnodbStatsPersistent, move |on| set.persistent.store(on != 0, Relaxed));
    let set = engine.dict.statistics_settings.clone();
    s.on_change(Var::InnodbStatsAutoRecalc, move |on| set.auto_recalc.store(on != 0, Relaxed));
    let set = engine.dict.statistics_settings.clone();
    s.on_change(Var::InnodbStatsPersistentSamplePages, move |pages| {
        set.persistent_sample_pages.store(pages, Relaxed);
    });
    let set = engine.dict.statistics_settings.clone();
    s.on_change(Var::InnodbStatsTransientSamplePages, move |pages| {
        set.transient_sample_pages.store(pages, Relaxed);
    });
    let pages = engine.clone();
    s.on_change(Var::InnodbOldBlocksPct, move |pct| {
        pages.store.pool.set_old_blocks_pct(pct as u32);
    });
    let pages = engine.clone();
    s.on_change(Var::InnodbOldBlocksTime, move |ms| {
        pages.store.pool.old_blocks_time_ms.set(ms as u32);
    });
    let hundredths = |percent: u64| (f64::from_bits(percent) * 100.0).round() as u32;
    flush!(InnodbMaxDirtyPagesPct, max_dirty, x => hundredths(x));
    flush!(InnodbMaxDirtyPagesPctLwm, max_dirty_lwm, x => hundredths(x));
    flush!(InnodbAdaptiveFlushingLwm, adaptive_lwm, x => hundredths(x));
}

/// Applies the CPUs and the priority of the threads of the `dedicated` writer mode. A refusal by
/// the system is logged at the start, and later returned to the session that changes the setting.
fn place_log_threads(s: &Settings, tokio_runtime: &Arc<TokioRuntime>) {
    let tell = |var: Var, refused: Vec<String>| {
        refused.iter().for_each(|why| tracing::warn!("{}: {why}", var.get().name))
    };
    const THREADS: [(&str, Var); 2] =
        [("log-writer", Var::RedolithLogWriterCpus), ("log-flusher", Var::RedolithLogFlusherCpus)];
    for (name, cpus) in THREADS {
        let h = tokio_runtime.clone();
        let place =
            move |text: &str| h.place(name, |p| p.cpus = parse_cpus(text).unwrap_or_default());
        tell(cpus, place(&s.text(cpus).unwrap_or_default()));
        s.on_change_of_place(cpus, move |_, text| place(text));
    }
    let everywhere = |var: Var, change: fn(&mut Placement, i64)| {
        let h = tokio_runtime.clone();
        let place = move |n: u64| {
            let mut refused: Vec<String> = THREADS
                .iter()
                .flat_map(|(name, _)| h.place(name, |p| change(p, n as i64)))
                .collect();
            // The threads are usually refused for the same reason.
            refused.dedup();
            refused
        };
        tell(var, place(s.bits(var)));
        s.on_change_of_place(var, move |n, _| place(n));
    };
    everywhere(Var::RedolithLogThreadsNice, |p, n| p.nice = n as i32);
    everywhere(Var::RedolithLogThreadsRealtime, |p, n| p.realtime = n as u8);
}

/// Applies `--innodb-monitor-disable` and the three options like it.
fn apply_monitors(parts: &Parts) -> Result<(), String> {
    parts.status.monitors.start(parts.engine.disk.wall_us());
    for var in [
        Var::InnodbMonitorDisable,
        Var::InnodbMonitorEnable,
        Var::InnodbMonitorReset,
        Var::InnodbMonitorResetAll,
    ] {
        let Some(pattern) = parts.settings.text(var).filter(|p| !p.is_empty()) else { continue };
        let Some(action) = MonitorAction::of(var) else { continue };
        // As in MySQL, an option at the start may name several patterns; SET may name only one.
        for pattern in pattern.split([' ', ',', ';']).filter(|p| !p.is_empty()) {
            if !parts.status.monitors.act(
                action,
                pattern,
                &parts.engine.metrics(),
                parts.engine.disk.wall_us(),
            ) {
                return Err(format!(
                    "--{}: there is no counter or group '{pattern}'",
                    var.get().name.replace('_', "-")
                ));
            }
        }
    }
    Ok(())
}

/// The listeners, the unix socket's file, and the commands with which a client connects.
struct Sockets {
    listeners: Vec<Listener>,
    file: Option<SocketFile>,
    connect: Vec<String>,
}

fn bind(s: &Settings, disk: &Arc<dyn Disk>, datadir: &Path) -> Result<Sockets, String> {
    let backlog = s.bits(Var::BackLog) as u32;
    let mut sockets = Sockets { listeners: Vec::new(), file: None, connect: Vec::new() };
    if let Some(named) = s.text(Var::Socket).filter(|p| !p.is_empty()) {
        // As in mysqld, the path is relative to the data directory.
        let path = datadir.join(&*named);
        if let Some(folder) = path.parent() {
            disk.create_dir_all(folder)
                .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        }
        let listener = listener::bind_unix(&**disk, &path, backlog)
            .map_err(|e| format!("cannot listen on {}: {e}", path.display()))?;
        sockets.listeners.push(listener);
        sockets.connect.push(format!("mariadb --no-defaults -uroot -S {}", path.display()));
        sockets.file = Some(SocketFile::new(disk.clone(), path));
    }
    let port = s.bits(Var::Port) as u16;
    if s.is_on(Var::SkipNetworking) {
        return Ok(sockets);
    }
    for address in s
        .text(Var::BindAddress)
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|a| !a.is_empty())
    {
        let ip: IpAddr = match address {
            "*" => IpAddr::from([0; 16]),
            "localhost" => IpAddr::from([127, 0, 0, 1]),
            _ => address
                .parse()
                .map_err(|_| format!("--bind-address: '{address}' is no IP address"))?,
        };
        let listener = listener::bind_tcp(SocketAddr::new(ip, port), backlog)
            .map_err(|e| format!("cannot listen on {ip}, port {port}: {e}"))?;
        if let Listener::Tcp(l) = &listener
            && let Ok(local) = l.local_addr()
        {
            let to = if ip.is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { ip };
            sockets
                .connect
                .push(format!("mariadb --no-defaults -uroot -h {to} -P {}", local.port()));
            s.tell(Var::Port, &local.port().to_string());
        }
        sockets.listeners.push(listener);
    }
    Ok(sockets)
}

/// Removes the file of the process id when dropped, unless another server has made it anew
/// (OWNFILE-1), or has written its own id into it, as servers do with a file that is there.
struct PidFile {
    file: OwnFile,
    text: String,
}
impl Drop for PidFile {
    fn drop(&mut self) {
        let how = OpenHow { create: Create::Existing, direct: false };
        let written = || -> std::io::Result<Vec<u8>> {
            let file = self.file.disk().open(self.file.path(), how)?;
            // A longer file is another's too.
            let mut bytes = vec![0; file.len()?.min(self.text.len() as u64 + 1) as usize];
            file.read_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        if written().is_ok_and(|bytes| bytes == self.text.as_bytes()) {
            self.file.remove();
        }
    }
}

fn write_pid_file(
    s: &Settings,
    disk: &Arc<dyn Disk>,
    datadir: &Path,
) -> Result<Option<PidFile>, String> {
    let Some(named) = s.text(Var::PidFile).filter(|p| !p.is_empty()) else { return Ok(None) };
    let path = datadir.join(&*named);
    let text = format!("{}\n", std::process::id());
    write_text(&**disk, &path, &text)
        .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    Ok(Some(PidFile { file: OwnFile::made(disk.clone(), path), text }))
}

fn write_text(disk: &dyn Disk, path: &Path, text: &str) -> std::io::Result<()> {
    let file = disk.open(path, OpenHow { create: Create::Create, direct: false })?;
    file.set_len(0)?;
    file.set_len(text.len() as u64)?;
    file.write_at(text.as_bytes(), 0)?;
    file.sync()
}

/// Reads the file `server_uuid`: a UUID, and in a second line the CRC-32C of its 36 characters.
/// Files of older versions have the first line alone. Returns `None` if there is no such file. A
/// damaged file is an error, because with another UUID replicas would take the server for another
/// server.
fn read_uuid(disk: &dyn Disk, path: &Path) -> Result<Option<String>, String> {
    if !disk.exists(path) {
        return Ok(None);
    }
    let read = || -> std::io::Result<Vec<u8>> {
        let file = disk.open(path, OpenHow { create: Create::Existing, direct: false })?;
        let mut bytes = vec![0; file.len()?.min(128) as usize];
        file.read_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let uuid = lines.next().unwrap_or_default();
    let sum = lines.next().map(|sum| sum == uuid_sum(uuid));
    if !is_uuid(uuid) || sum == Some(false) {
        return Err(format!(
            "{} is damaged: restore it, or remove it to have a new server_uuid made",
            path.display()
        ));
    }
    Ok(Some(uuid.to_string()))
}
fn uuid_sum(uuid: &str) -> String {
    format!("{:08x}", crc32c::crc32c(uuid.as_bytes()))
}
fn is_uuid(text: &str) -> bool {
    let right = |(i, b): (usize, u8)| {
        if [8, 13, 18, 23].contains(&i) { b == b'-' } else { b.is_ascii_hexdigit() }
    };
    text.len() == 36 && text.bytes().enumerate().all(right)
}
/// Sets `hostname` and `server_uuid`. A UUID is made once and kept in the data directory. Returns a
/// warning if the UUID of a directory that is not new was missing.
fn tell_identity(
    s: &Settings,
    disk: &dyn Disk,
    path: &Path,
    known: Option<String>,
    is_new: bool,
) -> Result<Option<String>, String> {
    s.tell(Var::Hostname, &rustix::system::uname().nodename().to_string_lossy());
    if let Some(uuid) = known {
        s.tell(Var::ServerUuid, &uuid);
        return Ok(None);
    }
    let uuid = random_uuid(disk.random(), disk.random());
    s.tell(Var::ServerUuid, &uuid);
    if s.bits(Var::InnodbForceRecovery) > 0 {
        return Ok(None);
    }
    let made = path.with_extension("new");
    let write = || {
        write_text(disk, &made, &format!("{uuid}\n{}\n", uuid_sum(&uuid)))?;
        disk.rename(&made, path)?;
        disk.sync_dir(path.parent().unwrap_or(Path::new(".")))
    };
    write().map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    Ok((!is_new).then(|| {
        format!("{} was missing: the server has a new server_uuid, {uuid}", path.display())
    }))
}

/// A UUID of version 4 (RFC 9562) from 128 random bits.
fn random_uuid(a: u64, b: u64) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        0x8000 | (b >> 48 & 0x3fff),
        b & 0xffff_ffff_ffff
    )
}

/// Raises the soft limit of open files to `wanted`, or to the hard limit if `wanted` is 0. Each
/// connection is an open file.
fn raise_file_limit(wanted: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20);
    limit.current = Some(if wanted == 0 { most } else { wanted.min(most) });
    if setrlimit(Resource::Nofile, limit).is_err() || wanted > most {
        tracing::warn!(
            "the system lets the server open {most} files, and --open-files-limit asks \
             for {wanted}: raise the hard limit (ulimit -Hn, LimitNOFILE)"
        );
    }
}

/// SIGTERM and SIGINT end the server; SIGHUP opens the error log again.
struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}
impl Signals {
    fn new() -> Result<Signals, String> {
        let take = |kind| signal(kind).map_err(|e| format!("cannot wait for signals: {e}"));
        Ok(Signals {
            term: take(SignalKind::terminate())?,
            int: take(SignalKind::interrupt())?,
            hup: take(SignalKind::hangup())?,
        })
    }
    async fn stop(&mut self, settings: &Settings) -> &'static str {
        loop {
            tokio::select! {
                _ = self.term.recv() => return "SIGTERM",
                _ = self.int.recv() => return "SIGINT",
                _ = self.hup.recv() => {
                    let refused = settings.tell_again(Var::LogError);
                    refused.iter().for_each(|why| tracing::error!("{why}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_the_form() {
        let u = random_uuid(u64::MAX, u64::MAX);
        assert_eq!(u, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(random_uuid(0, 0), "00000000-0000-4000-8000-000000000000");
    }
}
