//! The whole server, with its threads, runs on a disk that records every operation. Then the test
//! makes images that a power cut at some moment of the run could have left, and starts and reads
//! each of them.
//!
//! - POWER-1: a start on an image is not refused, and every page of it can be read.
//! - POWER-2: every transaction whose COMMIT was answered is there, whole.
//! - POWER-3: a transaction whose COMMIT was sent and not answered is there whole or not at all. A
//!   transaction whose COMMIT was not sent is not there.
//! - POWER-5: with a binary log, the start makes its files so that they have the transactions that
//!   are there, each once and whole, and no other. Half of the commits are in the classic form.
//! - POWER-4: the indexes agree with the rows, and CHECK TABLE finds nothing.
//!
//! `POWER_LOSS_IMAGES=n` and `POWER_LOSS_TRANSACTIONS=n` (of each client) make longer runs,
//! `SEED=n` makes other runs. A seed does not repeat the order of the threads, so a failure leaves
//! its image in a directory that it names.
#![allow(clippy::disallowed_methods)] // threads and files of the test's own
use redolith_binlog::{Checksum, Event, RowsKind, Uuid};
use redolith_client::{Client, Place, error_code};
use redolith_disk::{Disk, RealDisk, RecordingDisk, SimDisk};
use redolith_engine::commit_stream::{CommitStream, no_stream};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, Engine, Trx};
use redolith_replication::Binlog;
use redolith_replication::record::Options;
use redolith_server::options::{self, Request};
use redolith_server::start;
use redolith_types::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CLIENTS: i64 = 12;
/// The error codes of a deadlock and of a lock wait timeout: the client gives the transaction up.
const GIVEN_UP: [u16; 2] = [1213, 1205];
/// How long the server may take to be ready, and to answer a statement.
const PATIENCE: Duration = Duration::from_secs(120);

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}
/// SplitMix64.
struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// A commit: its rows, and the moments of the recording before the COMMIT was sent and after it was
/// answered.
struct Commit {
    worker: i64,
    rows: i64,
    sent: usize,
    answered: Option<usize>,
}
type Commits = BTreeMap<i64, Commit>;
type Recorder = RecordingDisk<RealDisk>;

/// One client's work. A transaction writes some rows with its token, and the client's count of its
/// transactions.
fn client(place: &Place, worker: i64, transactions: u64, seed: u64, disk: &Recorder) -> Commits {
    let (mut c, mut rng, mut commits) =
        (Client::connect_for(place, "root", PATIENCE).unwrap(), Rng(seed), Commits::new());
    for n in 0..transactions as i64 {
        let (token, rows) = (worker * 1_000_000 + n, 1 + rng.below(4) as i64);
        let kept = rng.below(10) > 0;
        let mut steps = vec![format!(
            "UPDATE d.worker SET n = n + {}, last = {token} WHERE id = {worker}",
            kept as u8
        )];
        for row in 0..rows {
            let (k, pad) = (rng.below(500), "x".repeat(rng.below(1500) as usize));
            steps.push(format!("INSERT INTO d.token VALUES ({token}, {row}, {k}, '{pad}')"));
        }
        // A row that all clients change.
        steps.push(format!(
            "UPDATE d.shared SET n = n + {} WHERE id = {}",
            kept as u8,
            rng.below(8)
        ));
        let done =
            c.query("BEGIN").and_then(|_| steps.iter().try_for_each(|s| c.query(s).map(drop)));
        match done {
            Ok(()) if kept => {}
            Ok(()) => {
                c.query("ROLLBACK").unwrap();
                continue;
            }
            Err(e) if error_code(&e).is_some_and(|code| GIVEN_UP.contains(&code)) => {
                c.query("ROLLBACK").unwrap();
                continue;
            }
            Err(e) => panic!("client {worker}: {e}"),
        }
        let mut commit = Commit { worker, rows, sent: disk.position(), answered: None };
        c.query("COMMIT").unwrap();
        commit.answered = Some(disk.position());
        commits.insert(token, commit);
        // More pages to write, and long texts to purge.
        if rng.below(8) == 0 {
            c.query(&format!(
                "UPDATE d.filler SET pad = REPEAT('y', {}) WHERE id = {}",
                rng.below(3000),
                rng.below(300)
            ))
            .unwrap();
        }
    }
    commits
}
/// Runs DDL statements until the clients are done.
fn definitions(place: &Place, done: &AtomicBool, binlog: bool) -> u64 {
    let (mut c, mut n) = (Client::connect_for(place, "root", PATIENCE).unwrap(), 0);
    while !done.load(SeqCst) {
        n += 1;
        if binlog {
            let form = if n % 2 == 0 { "unified" } else { "classic" };
            c.query(&format!("SET GLOBAL redolith_binlog_commit = {form}")).unwrap();
            c.query(&format!("SET GLOBAL sync_binlog = {}", n / 2 % 3)).unwrap();
        }
        for s in [
            "CREATE TABLE d.passing (id INT PRIMARY KEY, k INT)",
            "INSERT INTO d.passing VALUES (1, 1), (2, 2), (3, 3)",
            "ALTER TABLE d.passing ADD INDEX k (k)",
            "TRUNCATE TABLE d.passing",
            "DROP TABLE d.passing",
        ] {
            c.query(s).unwrap();
        }
    }
    n
}

/// Records a run of the server under load, from its first start to a clean end.
fn record(dir: &Path, transactions: u64, seed: u64, binlog: bool) -> (Recorder, Commits) {
    let data = dir.join("data");
    let disk = RecordingDisk::new(RealDisk::new(), &data).unwrap();
    let mut args: Vec<String> = [
        "--no-defaults".to_string(),
        "--skip-networking".into(),
        format!("--datadir={}", data.display()),
        format!("--socket={}", dir.join("s").display()),
        // The sizes are small, so that pages are written all the time and the log wraps.
        "--innodb-buffer-pool-size=8M".into(),
        "--innodb-redo-log-capacity=8M".into(),
    ]
    .to_vec();
    if binlog {
        args.extend(["--log-bin", "--server-id=1", "--max-binlog-size=256K"].map(String::from));
    }
    let recorder: Arc<dyn Disk> = Arc::new(disk.clone());
    let Request::Run { settings, .. } = options::read(&args, &*recorder).unwrap() else {
        panic!("settings that only print")
    };
    let server = std::thread::spawn(move || start::run(settings, &[], recorder));
    let place = Place::Socket(dir.join("s"));
    let begun = Instant::now();
    let mut c = loop {
        match Client::connect_for(&place, "root", PATIENCE) {
            Ok(c) => break c,
            Err(e) => assert!(
                begun.elapsed() < PATIENCE && !server.is_finished(),
                "the server is not ready: {e}"
            ),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    for s in [
        "CREATE DATABASE d",
        "CREATE TABLE d.token (token INT, no INT, k INT, pad VARCHAR(2000), PRIMARY KEY (token, \
            no), KEY k (k))",
        "CREATE TABLE d.worker (id INT PRIMARY KEY, n INT, last INT)",
        "CREATE TABLE d.shared (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE d.filler (id INT PRIMARY KEY, pad TEXT)",
    ] {
        c.query(s).unwrap();
    }
    let values =
        |n: i64, v: &str| (0..n).map(|id| format!("({id}, {v})")).collect::<Vec<_>>().join(", ");
    c.query(&format!("INSERT INTO d.worker VALUES {}", values(CLIENTS, "0, 0"))).unwrap();
    c.query(&format!("INSERT INTO d.shared VALUES {}", values(8, "0"))).unwrap();
    c.query(&format!("INSERT INTO d.filler VALUES {}", values(300, "REPEAT('z', 2000)"))).unwrap();
    let done = AtomicBool::new(false);
    let commits = std::thread::scope(|s| {
        let passing = s.spawn(|| definitions(&place, &done, binlog));
        let (place, disk) = (&place, &disk);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                s.spawn(move || client(place, n, transactions, seed ^ (n as u64 + 1) << 32, disk))
            })
            .collect();
        let commits: Commits = clients.into_iter().flat_map(|c| c.join().unwrap()).collect();
        done.store(true, SeqCst);
        println!("{} commits, {} rounds of definitions", commits.len(), passing.join().unwrap());
        commits
    });
    drop(c);
    let pid = std::process::id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    server.join().unwrap().unwrap();
    (disk, commits)
}

fn number(t: &Table, stored: &[u8], column: usize) -> i64 {
    match t.layout.get(stored, column) {
        Value::Int(n) => n,
        other => panic!("column {column} of {} is {other:?}", t.full_name()),
    }
}
/// The numbers in some columns of all rows, read through an index.
async fn read(
    trx: &mut Trx,
    t: &Arc<Table>,
    index: usize,
    columns: &[usize],
) -> BTreeSet<Vec<i64>> {
    let mut found = BTreeSet::new();
    let mut c = Cursor::new(t.clone(), index, Vec::new(), None, false, Read::Consistent);
    while c.next(trx).await.unwrap() {
        let row = c.row().stored;
        assert!(
            found.insert(columns.iter().map(|i| number(t, row, *i)).collect()),
            "a row twice in {}",
            t.full_name()
        );
    }
    found
}

/// Compares the contents with what the image must have at that moment of the recording.
async fn check(e: &Arc<Engine>, at: usize, commits: &Commits, binlog: Option<&Binlog>) {
    for t in e.dict.tables("d") {
        let t = e.table("d", &t.def.name).await.unwrap().expect("it is in the dictionary");
        let c = e.check_table(&t).await.unwrap();
        assert!(c.errors.is_empty(), "CHECK TABLE {}: {:?}", t.full_name(), c.errors);
    }
    let must = commits.values().any(|c| c.answered.is_some_and(|a| a <= at));
    let (token, worker) =
        (e.table("d", "token").await.unwrap(), e.table("d", "worker").await.unwrap());
    let shared = e.table("d", "shared").await.unwrap();
    let (Some(token), Some(worker), Some(shared)) = (token, worker, shared) else {
        assert!(!must, "a table of answered transactions is not there");
        return;
    };
    let logged = binlog.map(logged_rows);
    let mut trx = e.begin(KillFlag::new());
    let rows = read(&mut trx, &token, 0, &[0, 1, 2]).await;
    assert_eq!(
        read(&mut trx, &token, 1, &[0, 1, 2]).await,
        rows,
        "index k tells another story than the rows"
    );
    let mut there = BTreeMap::<i64, i64>::new();
    rows.iter().for_each(|r| *there.entry(r[0]).or_default() += 1);
    if let Some(logged) = logged {
        assert_eq!(logged, there, "POWER-5: rows by token, in the binary log and in the table");
    }
    for (token, n) in &there {
        let c = commits
            .get(token)
            .unwrap_or_else(|| panic!("rows of {token}, which was not committed"));
        assert!(c.sent <= at, "rows of {token}, whose commit was sent later");
        assert_eq!(*n, c.rows, "half of transaction {token}");
    }
    for (token, c) in commits {
        assert!(
            c.answered.is_none_or(|a| a > at) || there.contains_key(token),
            "commit {token} was answered, and is not there"
        );
    }
    let workers = read(&mut trx, &worker, 0, &[0, 1]).await;
    for w in &workers {
        let n = there.keys().filter(|t| commits[t].worker == w[0]).count() as i64;
        assert_eq!(
            w[1], n,
            "client {} counts another number of its transactions than there are",
            w[0]
        );
    }
    let all: i64 = read(&mut trx, &shared, 0, &[0, 1]).await.iter().map(|r| r[1]).sum();
    assert_eq!(all, there.len() as i64, "the shared counters");
}
/// How the files go on behind what the image has.
fn options() -> Options {
    Options {
        server_id: 1,
        checksum: Checksum::Crc32,
        max_file_bytes: 1 << 20,
        gtids: false,
        uuid: Uuid([1; 16]),
        server_version: "8.0.36".into(),
    }
}
/// How many rows of each token the binary log's files have. The rows of transactions that are not
/// whole do not count.
fn logged_rows(binlog: &Binlog) -> BTreeMap<i64, i64> {
    let mut all = BTreeMap::new();
    for number in binlog.numbers() {
        let (mut reader, _) = binlog.open_file(number).unwrap();
        let (mut tables, mut open) = (HashMap::new(), Vec::new());
        while let Some(event) = reader.next_event().unwrap_or_else(|e| panic!("POWER-5: {e}")) {
            match event.decode().unwrap_or_else(|e| panic!("POWER-5: {e}")) {
                Event::TableMap(table) => drop(tables.insert(table.id, table.clone())),
                Event::Rows(rows) if rows.kind == RowsKind::Write => {
                    let table = &tables[&rows.table_id];
                    if table.name == b"token" {
                        for change in rows.rows(table).unwrap() {
                            let after = change.unwrap().after.expect("an inserted row");
                            let Some(Value::Int(token)) = &after[0] else { panic!("{after:?}") };
                            open.push(*token);
                        }
                    }
                }
                Event::Xid(_) => {
                    open.drain(..).for_each(|token| *all.entry(token).or_default() += 1);
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "POWER-5: half a transaction in file {number}");
    }
    all
}
/// Completes the image's submitted operations while it is in use.
struct Pump(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);
impl Pump {
    fn start(disk: &SimDisk) -> Pump {
        let (disk, stop) = (disk.clone(), Arc::new(AtomicBool::new(false)));
        let its = stop.clone();
        let thread = std::thread::spawn(move || {
            while !its.load(SeqCst) {
                if !disk.step() {
                    disk.advance(Duration::from_micros(100));
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        Pump(stop, Some(thread))
    }
}
impl Drop for Pump {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
        let _ = self.1.take().map(|t| t.join());
    }
}
fn try_image(disk: &SimDisk, data: &Path, at: usize, commits: &Commits, binlog: bool) {
    let _pump = Pump::start(disk);
    let config = Config { pool_bytes: 16 << 20, ..Config::new(data) };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let place = redolith_replication::Place { dir: data.to_path_buf(), base: "binlog".into() };
    let binlog = binlog.then(|| Binlog::new(disk.clone(), place).unwrap());
    let stream = binlog.clone().map_or_else(no_stream, |binlog| binlog as Arc<dyn CommitStream>);
    let opened = block_on(Engine::open_with(config, disk.clone(), Threads::new(disk), stream));
    let (e, report) = opened.unwrap_or_else(|e| panic!("refused: {e}"));
    assert!(report.bad_pages.is_empty(), "pages that cannot be read: {:?}", report.bad_pages);
    block_on(async {
        check(&e, at, commits, binlog.as_deref()).await;
        if let Some(binlog) = binlog {
            // The engine's end waits for the files.
            binlog.start(&e, options()).await.unwrap();
            binlog.stop(&e).await.unwrap();
        }
        e.close().await.unwrap();
    });
}

/// One recording at a time: its server ends by a signal to the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Tests POWER-1, POWER-2, POWER-3, POWER-4, SES-1 and ALTER-1.
#[test]
fn what_a_power_cut_leaves_is_recovered() {
    cut_the_power(false);
}
/// Tests POWER-5.
#[test]
fn what_a_power_cut_leaves_of_the_binary_log_is_recovered() {
    cut_the_power(true);
}
fn cut_the_power(binlog: bool) {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let (images, seed) = (env("POWER_LOSS_IMAGES", 20), env("SEED", 1));
    let dir = std::env::temp_dir().join(format!("redolith-power-loss-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let data = dir.join("data");
    let (disk, commits) = record(&dir, env("POWER_LOSS_TRANSACTIONS", 60), seed, binlog);
    let (end, mut rng) = (disk.position(), Rng(seed));
    let mut moments: Vec<(usize, u64)> =
        (0..images).map(|n| (rng.below(end as u64 + 1) as usize, seed << 32 | n)).collect();
    moments.sort_unstable();
    println!("{end} entries, {} MiB; {images} images", disk.recorded_bytes() >> 20);
    let (tape, failed) =
        (Mutex::new((disk.replay(), moments.iter().enumerate())), Mutex::new(Vec::new()));
    let next_image = || {
        let (replay, moments) = &mut *tape.lock().unwrap();
        let (n, (at, seed)) = moments.next()?;
        replay.advance_to(*at);
        Some((n, *at, replay.image(*seed)))
    };
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |n| n.get()) {
            s.spawn(|| {
                while let Some((n, at, image)) = next_image() {
                    let kept = image.fork(n as u64);
                    let done = catch_unwind(AssertUnwindSafe(|| {
                        try_image(&image, &data, at, &commits, binlog);
                    }));
                    if let Err(e) = done {
                        let why = e
                            .downcast_ref::<String>()
                            .cloned()
                            .or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()));
                        let copy: PathBuf = std::env::temp_dir()
                            .join(format!("redolith-power-loss-failed-{}-{n}", std::process::id()));
                        kept.copy_to(&data, &RealDisk::new(), &copy).unwrap();
                        failed.lock().unwrap().push((at, copy, why.unwrap_or_default()));
                    }
                }
            });
        }
    });
    // The checks must fail here: the contents of half the run are not the contents at its end.
    let mut half = disk.replay();
    half.advance_to(end / 2);
    let late = catch_unwind(AssertUnwindSafe(|| {
        try_image(&half.image(seed), &data, end, &commits, binlog);
    }));
    let why = late.expect_err("acknowledged commits are missing, and nobody complains");
    let why = why.downcast_ref::<String>().expect("a complaint");
    assert!(
        why.contains("was answered, and is not there")
            || why.contains("a table of answered transactions"),
        "{why}"
    );
    let _ = std::fs::remove_dir_all(&dir);
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} of {images} images (moment, copy, complaint): {failed:#?}",
        failed.len()
    );
}
