//! Endless statements give way and can be killed. SLEEP() and similar functions wait at their place
//! in the statement.
//!
//! No test measures time. The runtime counts how often the session's thread gives way, and then
//! ends the statement. A sleep is recorded and ends at once.
use super::{World, execute, lines};
use crate::exec::fixture::Server;
use crate::processes::{Kill, Process};
use crate::session::Session;
use crate::status::Counter;
use parking_lot::Mutex;
use redolith_disk::RealDisk;
use redolith_engine::runtime::{BoxFuture, Runtime, Threads, block_on};
use redolith_types::Value;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

thread_local! {
    /// True in the thread of a session under test. Other threads belong to the engine.
    static IS_SESSION: Cell<bool> = const { Cell::new(false) };
    static HAS_LEFT: Cell<bool> = const { Cell::new(false) };
}

/// The action to take when a statement has given way often enough.
type Then = Box<dyn Fn() + Send>;

struct Watcher {
    threads: Arc<Threads>,
    gave_way: AtomicU64,
    then: Mutex<Option<(u64, Then)>>,
    /// The lengths of the session's sleeps, in milliseconds.
    sleeps: Mutex<Vec<u64>>,
    stretch: AtomicU64,
    /// How often the session has left its worker.
    left: AtomicU64,
    /// How often the session has had long work done.
    long_work: AtomicU64,
}

impl Watcher {
    fn note(&self) {
        if !IS_SESSION.get() {
            return;
        }
        let times = self.gave_way.fetch_add(1, Relaxed) + 1;
        if let Some((after, then)) = &*self.then.lock()
            && times >= *after
        {
            then();
        }
    }
}
impl Runtime for Watcher {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        self.threads.spawn(name, task);
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        if !IS_SESSION.get() {
            return self.threads.sleep(time);
        }
        self.sleeps.lock().push(time.as_millis() as u64);
        // Long times are the timers of limits. They never end.
        if time >= Duration::from_secs(1000) {
            Box::pin(std::future::pending())
        } else {
            Box::pin(std::future::ready(()))
        }
    }
    fn yield_now(&self) -> BoxFuture<()> {
        self.note();
        HAS_LEFT.set(false);
        self.stretch.fetch_add(1, Relaxed);
        self.threads.yield_now()
    }
    fn leave_worker(&self) -> bool {
        if !HAS_LEFT.replace(true) {
            self.left.fetch_add(u64::from(IS_SESSION.get()), Relaxed);
            self.note();
        }
        true
    }
    fn has_left_worker(&self) -> bool {
        HAS_LEFT.get()
    }
    fn work_long(&self, work: &mut dyn FnMut()) {
        self.long_work.fetch_add(u64::from(IS_SESSION.get()), Relaxed);
        work();
    }
    fn stretch(&self) -> u64 {
        self.stretch.load(Relaxed)
    }
    fn breathe(&self) {
        self.note();
    }
}

/// After so many pauses a statement is killed.
const MANY: u64 = 30;

struct Watched {
    world: World,
    runtime: Arc<Watcher>,
}
impl Watched {
    fn new() -> Watched {
        let disk = Arc::new(RealDisk::new());
        let runtime = Arc::new(Watcher {
            threads: Threads::new(disk.clone()),
            gave_way: AtomicU64::new(0),
            then: Mutex::default(),
            sleeps: Mutex::default(),
            stretch: AtomicU64::new(1),
            left: AtomicU64::new(0),
            long_work: AtomicU64::new(0),
        });
        let world = World::over(Server::hosted(disk, runtime.clone(), |config| {
            config.pool_bytes = 32 << 20
        }));
        Watched { world, runtime }
    }
    /// Runs `f` while the session's thread is watched.
    fn watch<T>(&self, f: impl FnOnce() -> T) -> T {
        IS_SESSION.set(true);
        HAS_LEFT.set(false);
        let done = f();
        IS_SESSION.set(false);
        done
    }
    /// Runs a statement and kills it when it has given way many times, so that a statement that
    /// calculates has left its worker, even on a busy machine. Returns the last line of its answer.
    fn killed(&self, session: &mut Session, text: &str) -> String {
        self.killed_after(MANY, session, text)
    }
    fn killed_after(&self, times: u64, session: &mut Session, text: &str) -> String {
        let process: Arc<Process> = session.state.process.clone();
        self.runtime.gave_way.store(0, Relaxed);
        let victim = process.clone();
        *self.runtime.then.lock() = Some((times, Box::new(move || victim.kill(Kill::Query))));
        let lines = self.watch(|| lines(session, text));
        *self.runtime.then.lock() = None;
        process.forget_kill_query();
        lines.last().cloned().unwrap_or_default()
    }
    /// Runs a statement. Returns the lengths of its sleeps in order, and its answer.
    fn sleeps(&self, session: &mut Session, text: &str) -> (Vec<u64>, Vec<String>) {
        self.runtime.sleeps.lock().clear();
        let lines = self.watch(|| lines(session, text));
        (std::mem::take(&mut *self.runtime.sleeps.lock()), lines)
    }
}

/// Between two columns a statement looks at KILL, and nothing has changed.
#[test]
fn a_statement_that_makes_histograms_is_killed() {
    const MADE: &str = "SELECT COUNT(*) FROM information_schema.column_statistics";
    const MAKE: &str = "ANALYZE TABLE big UPDATE HISTOGRAM ON k, c";
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    assert_eq!(watched.killed_after(1, s, MAKE), "error 1317");
    assert_eq!(lines(s, MADE), ["0"]);
    lines(s, MAKE);
    assert_eq!(lines(s, MADE), ["2"]);
}

/// An expression that takes hours.
const LONG: &str = "BENCHMARK(100000000000, 1+1)";

fn tables(s: &mut Session) {
    for text in [
        "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v BIGINT, c VARCHAR(100))",
        "INSERT INTO t VALUES (1,1,0,'a'),(2,2,0,'b'),(3,3,0,'c')",
        "CREATE TABLE big (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, c VARCHAR(100))",
        "INSERT INTO big (k, c) VALUES \
            (1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e'),(6,'f'),(7,'g'),(8,'h')",
    ] {
        assert!(lines(s, text)[0].starts_with("ok"), "{text}");
    }
    for _ in 0..8 {
        lines(s, "INSERT INTO big (k, c) SELECT k + 1, CONCAT(c, 'x') FROM big");
    }
}

/// Tests PACE-1 and PACE-2.
#[test]
fn evaluations_leave_their_worker_and_are_killed() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    for text in [
        format!("DO {LONG}"),
        format!("DO 1, {LONG}"),
        format!("SELECT {LONG}"),
        format!("SELECT 1 + {LONG}, 2"),
        "SELECT BENCHMARK(1000000000, (SELECT 1))".to_string(),
        format!("SELECT BENCHMARK(1000000000, {LONG})"),
        "SELECT BENCHMARK(1000000000, BENCHMARK(3, 1))".to_string(),
        format!("SELECT 1 FROM t WHERE {LONG}"),
        format!("SELECT 1 FROM t WHERE id = 1 AND {LONG}"),
        format!("SELECT id FROM t ORDER BY {LONG}"),
        format!("SELECT COUNT(*) FROM t GROUP BY {LONG}"),
        format!("SELECT SUM({LONG}) FROM t"),
        format!("SELECT k, COUNT(*) c FROM t GROUP BY k HAVING c + {LONG}"),
        format!("SELECT a.id FROM t a LEFT JOIN t b ON a.id = b.id + {LONG}"),
        format!("SELECT * FROM (SELECT {LONG}) d"),
        format!("SELECT (SELECT {LONG})"),
        format!("SELECT {LONG} INTO @a"),
        format!("INSERT INTO t VALUES (10, 1, {LONG}, '')"),
        format!("INSERT INTO t VALUES (10, 1, 1, ''), (11, 1, {LONG}, '')"),
        format!("INSERT INTO t VALUES (1, 1, 1, '') ON DUPLICATE KEY UPDATE v = {LONG}"),
        format!("INSERT INTO t SELECT 10, 1, {LONG}, ''"),
        format!("REPLACE INTO t VALUES (1, 1, {LONG}, '')"),
        format!("UPDATE t SET v = {LONG}"),
        format!("UPDATE t SET v = 1 WHERE {LONG}"),
        format!("UPDATE t SET v = 1 ORDER BY {LONG} LIMIT 1"),
        format!("DELETE FROM t WHERE {LONG}"),
        format!("SET @a = {LONG}"),
        format!("SET max_execution_time = {LONG}"),
        format!("SHOW TABLES WHERE {LONG}"),
        format!("KILL {LONG}"),
        format!("PREPARE p FROM 'SELECT {LONG}'; EXECUTE p"),
        "PREPARE p FROM 'SELECT BENCHMARK(?, 1)'; SET @n = 100000000000; EXECUTE p USING @n"
            .to_string(),
        // These statements spend their time in long calls, not in rounds.
        "SELECT BENCHMARK(1000000, MD5(REPEAT('a', 1000000)))".to_string(),
        "SELECT BENCHMARK(1000000, REPEAT('a', 1000000) LIKE '%b%')".to_string(),
        "SELECT BENCHMARK(1000000, REPEAT('a', 1000000) REGEXP 'b')".to_string(),
        "SELECT BENCHMARK(1000000, REGEXP_INSTR(REPEAT('a', 1000000), 'b'))".to_string(),
        "SELECT BENCHMARK(1000000, REGEXP_SUBSTR(REPEAT('a', 1000000), 'a', 1, 1000000))"
            .to_string(),
        "SELECT BENCHMARK(1000000, REGEXP_REPLACE(REPEAT('a', 1000000), '(a)', '$1'))".to_string(),
        // Each search goes to the end of the text.
        "SELECT REGEXP_REPLACE(REPEAT('a', 10000000), 'a.*z|a', 'b')".to_string(),
        "SELECT BENCHMARK(1000000, REPLACE(REPEAT('a', 1000000), 'a', 'b'))".to_string(),
        "SELECT BENCHMARK(1000000, LOCATE('b', REPEAT('a', 1000000)))".to_string(),
        "SELECT BENCHMARK(1000000, CONVERT(REPEAT('a', 1000000) USING latin1))".to_string(),
    ] {
        assert_eq!(watched.killed(s, &text), "error 1317", "{text}");
    }
    // The killed statements have changed nothing.
    assert_eq!(lines(s, "SELECT COUNT(*), SUM(v), SUM(k) FROM t"), ["3|0|6"]);
    let id = block_on(s.prepare(format!("SELECT {LONG} + ?").as_bytes())).unwrap().id;
    let victim = s.state.process.clone();
    *watched.runtime.then.lock() = Some((MANY, Box::new(move || victim.kill(Kill::Query))));
    assert_eq!(watched.watch(|| execute(s, id, &[Value::Int(1)])), ["error 1317"]);
}

/// Tests PACE-3: 2,500 comparisons are few steps, and each is of 50,000 bytes.
#[test]
fn comparisons_of_long_texts_are_killed() {
    const PAUSES: u64 = 100;
    let watched = Watched::new();
    let s = &mut watched.world.session();
    for text in [
        "CREATE TABLE l (id INT PRIMARY KEY AUTO_INCREMENT, c MEDIUMTEXT, d MEDIUMTEXT)",
        "INSERT INTO l (c, d) VALUES (CONCAT(REPEAT('a', 50000), 'y'), \
            CONCAT(REPEAT('A', 50000), 'z'))",
    ] {
        assert!(lines(s, text)[0].starts_with("ok"), "{text}");
    }
    for _ in 0..6 {
        lines(s, "INSERT INTO l (c, d) SELECT c, d FROM l WHERE id <= 25");
    }
    let text = "SELECT COUNT(*) FROM l WHERE d > ALL (SELECT c FROM l)";
    assert_eq!(watched.killed_after(PAUSES, s, text), "error 1317");
}

#[test]
fn an_expression_that_a_column_has_by_default_leaves_its_worker() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    lines(s, &format!("CREATE TABLE d (id INT PRIMARY KEY, v BIGINT DEFAULT ({LONG}))"));
    assert_eq!(watched.killed(s, "INSERT INTO d (id) VALUES (1)"), "error 1317");
    assert_eq!(watched.killed(s, "INSERT INTO d VALUES (1, DEFAULT)"), "error 1317");
}

/// These statements take long because of the number of their rows.
#[test]
fn rows_that_nobody_gets_give_way_and_are_killed() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    for text in [
        "SELECT COUNT(*) FROM big a, big b, big c, big d WHERE a.k + b.k + c.k + d.k = -1",
        "SELECT COUNT(*) FROM big a, big b, big c, big d",
        "SELECT 1 FROM (SELECT k FROM big) a, (SELECT k FROM big) b, (SELECT k FROM big) c WHERE \
            a.k + b.k + c.k = -1",
        "SELECT a.k FROM big a, big b, big c ORDER BY a.k + b.k + c.k",
        "SELECT COUNT(*) FROM big a, big b, big c GROUP BY a.k + b.k + c.k",
        "SELECT DISTINCT a.k + b.k + c.k FROM big a, big b, big c",
        "SELECT COUNT(*) FROM big a, big b, big c GROUP BY a.k, b.k + c.k WITH ROLLUP",
        "SELECT SQL_CALC_FOUND_ROWS 1 FROM big a, big b, big c, big d LIMIT 1",
        "SELECT COUNT(*) FROM big a LEFT JOIN (big b JOIN big c) ON a.k = -1 - b.k - c.k",
        "SELECT COUNT(*) FROM big a RIGHT JOIN (big b JOIN big c) ON a.k = -1 - b.k - c.k",
        "UPDATE t, big a, big b, big c SET t.k = a.k WHERE a.k + b.k + c.k = -1",
        "UPDATE t, big a, big b, big c SET a.k = a.k + 1",
        "DELETE t FROM big a, big b, big c, t WHERE a.k + b.k + c.k + t.k < 0",
        "SELECT COUNT(*) FROM information_schema.columns a, information_schema.columns b, \
            information_schema.columns c, information_schema.columns d",
        "UPDATE t SET k = k + 1 WHERE id IN (SELECT a.id FROM big a, big b, big c)",
        "INSERT INTO big (k) SELECT a.k FROM big a, big b, big c",
        // Correlated subqueries: by an index, by scans, from a hash table, as values (CORR-4).
        "SELECT COUNT(*) FROM big a, big b WHERE EXISTS (SELECT 1 FROM big c WHERE c.id = a.id + \
            b.id AND c.k = -1)",
        "SELECT COUNT(*) FROM big a, big b WHERE EXISTS (SELECT 1 FROM big c WHERE c.k > a.k + b.k \
            + 1000000)",
        "SELECT COUNT(*) FROM big a, big b, big d WHERE EXISTS (SELECT 1 FROM big c WHERE c.k = \
            a.k + b.k + d.k + 1000)",
        "SELECT SUM((SELECT COUNT(*) FROM big c WHERE c.id < a.id + b.id)) FROM big a, big b",
        "SELECT a.id FROM big a, big b ORDER BY (SELECT COUNT(*) FROM big c WHERE c.id < a.id + \
            b.id)",
        "UPDATE t SET k = (SELECT COUNT(*) FROM big a, big b, big c WHERE a.k + b.k + c.k > t.k)",
        "DELETE FROM t WHERE k > ALL (SELECT a.k FROM big a, big b, big c WHERE a.k + b.k + c.k < \
            t.k)",
        "SELECT STRAIGHT_JOIN 1 FROM big a, big b, big c WHERE a.c NOT LIKE '%q%' AND b.c NOT \
            REGEXP 'q' AND c.c = 'q'",
    ] {
        watched.runtime.left.store(0, Relaxed);
        assert_eq!(watched.killed(s, text), "error 1317", "{text}");
        assert!(watched.runtime.left.load(Relaxed) > 0, "{text}: stays on its worker");
    }
}

/// The statement is not killed. It runs beside the workers from its first page on.
#[test]
fn a_check_of_a_table_leaves_its_worker() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    assert_eq!(watched.watch(|| lines(s, "CHECK TABLE big")), ["test.big|check|status|OK"]);
    assert_eq!(watched.runtime.left.load(Relaxed), 1);
}

/// A transaction that has read many rows with locks has as many locks to release as one that has
/// changed the rows.
#[test]
fn the_release_of_many_locks_leaves_its_worker() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    for _ in 0..4 {
        lines(s, "INSERT INTO big (k, c) SELECT k + 1, c FROM big");
    }
    let count = "SELECT COUNT(*) FROM big WHERE k > 0 FOR UPDATE";
    for end in ["COMMIT", "ROLLBACK"] {
        assert_eq!(lines(s, &format!("BEGIN; {count}")).last().unwrap(), "32768");
        watched.runtime.left.store(0, Relaxed);
        assert_eq!(watched.watch(|| lines(s, end)), ["ok 0 0"]);
        assert!(watched.runtime.left.load(Relaxed) > 0, "{end}");
    }
    // A few locks are released at once.
    lines(s, "BEGIN; SELECT COUNT(*) FROM t FOR UPDATE");
    watched.runtime.left.store(0, Relaxed);
    assert_eq!(watched.watch(|| lines(s, "COMMIT")), ["ok 0 0"]);
    assert_eq!(watched.runtime.left.load(Relaxed), 0);
}

/// A pattern for each row: each takes long to compile, and few rows are looked at in a millisecond.
#[test]
fn patterns_that_take_long_leave_their_worker_and_are_killed() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    for text in [
        "SELECT COUNT(*) FROM big WHERE 'a' REGEXP CONCAT('([ab]{100}|b{100}){5}', id)",
        // A short text and a large pattern.
        "SELECT COUNT(*) FROM big WHERE CONCAT(REPEAT('09af', 100), id) REGEXP \
            '[0-7][0-9a-f]{4000}[g-z]'",
    ] {
        watched.runtime.left.store(0, Relaxed);
        assert_eq!(watched.killed(s, text), "error 1317", "{text}");
        assert!(watched.runtime.left.load(Relaxed) > 0, "{text}: stays on its worker");
    }
    let large = "SELECT 'a' REGEXP REPEAT('[a]', 5000000)";
    assert_eq!(watched.watch(|| lines(s, large)), ["error 3700"]);
}

#[test]
fn a_wide_expression_leaves_its_worker() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    // The text has more than a megabyte, and one evaluation has many nodes.
    let list: Vec<String> = (0..200_000).map(|n| format!("k+{n}")).collect();
    assert_eq!(
        watched.killed(s, &format!("SELECT COUNT(*) FROM big WHERE -1 IN ({})", list.join(","))),
        "error 1317"
    );
}

/// Tests PACE-3.
#[test]
fn short_statements_do_not_look() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    watched.runtime.gave_way.store(0, Relaxed);
    watched.watch(|| {
        for n in 0..100 {
            assert_eq!(lines(s, &format!("SELECT c FROM big WHERE id = {}", n % 8 + 1)).len(), 1);
        }
    });
    assert_eq!(watched.runtime.gave_way.load(Relaxed), 0);
}

/// Tests SLEEP-1.
#[test]
fn sleeps_are_where_they_stand_once_for_each_row() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    lines(s, "CREATE TABLE d (id INT PRIMARY KEY, v BIGINT DEFAULT (SLEEP(7)))");
    let rows = |n: usize, row: &str| vec![row.to_string(); n];
    for (text, sleeps, answer) in [
        ("DO SLEEP(1), SLEEP(2) + 1", vec![1000, 2000], rows(1, "ok 0 0")),
        ("SELECT SLEEP(1)", vec![1000], rows(1, "0")),
        ("SELECT SLEEP(1), 1 + SLEEP(2)", vec![1000, 2000], rows(1, "0|1")),
        ("SELECT SLEEP(id) FROM t", vec![1000, 2000, 3000], rows(3, "0")),
        ("SELECT SLEEP(id), 5 FROM t LIMIT 2", vec![1000, 2000], rows(2, "0|5")),
        ("SELECT SLEEP(id) FROM t LIMIT 1, 1", vec![2000], rows(1, "0")),
        (
            "SELECT COUNT(*) FROM t WHERE SLEEP(id) = 0 AND k < 3",
            vec![1000, 2000, 3000],
            rows(1, "2"),
        ),
        ("SELECT COUNT(*) FROM t WHERE SLEEP(1)", vec![1000, 1000, 1000], rows(1, "0")),
        (
            "SELECT id FROM t ORDER BY SLEEP(id), id",
            vec![1000, 2000, 3000],
            vec!["1".into(), "2".into(), "3".into()],
        ),
        ("SELECT COUNT(*) FROM t GROUP BY SLEEP(id)", vec![1000, 2000, 3000], rows(1, "3")),
        ("SELECT SUM(SLEEP(id)) FROM t", vec![1000, 2000, 3000], rows(1, "0")),
        ("SELECT k FROM t GROUP BY k HAVING SLEEP(k) = 1", vec![1000, 2000, 3000], vec![]),
        ("SELECT BENCHMARK(3, SLEEP(2))", vec![2000, 2000, 2000], rows(1, "0")),
        ("SET @a = SLEEP(4)", vec![4000], rows(1, "ok 0 0")),
        (
            "INSERT INTO t VALUES (10, 1, SLEEP(1), ''), (11, SLEEP(2), SLEEP(3), '')",
            vec![1000, 2000, 3000],
            rows(1, "ok 2 0"),
        ),
        (
            "INSERT INTO t VALUES (10, 1, 1, '') ON DUPLICATE KEY UPDATE v = SLEEP(5) + 1",
            vec![5000],
            rows(1, "ok 2 0"),
        ),
        ("INSERT INTO d (id) VALUES (1), (2)", vec![7000, 7000], rows(1, "ok 2 0")),
        (
            "INSERT INTO d SELECT id + 10, SLEEP(id) FROM t WHERE id < 3",
            vec![1000, 2000],
            rows(1, "ok 2 0"),
        ),
        ("UPDATE t SET v = SLEEP(id) + 9 WHERE id < 10", vec![1000, 2000, 3000], rows(1, "ok 3 0")),
        (
            "UPDATE t SET k = 7 WHERE SLEEP(1) = 0 AND id < 3 ORDER BY id LIMIT 1",
            vec![1000],
            rows(1, "ok 1 0"),
        ),
        ("DELETE FROM t WHERE id > 5 AND SLEEP(id) = 0", vec![10_000, 11_000], rows(1, "ok 2 0")),
    ] {
        assert_eq!(watched.sleeps(s, text), (sleeps, answer), "{text}");
    }
    let id = block_on(s.prepare(b"INSERT INTO d VALUES (?, SLEEP(?))")).unwrap().id;
    watched.runtime.sleeps.lock().clear();
    assert_eq!(watched.watch(|| execute(s, id, &[Value::Int(50), Value::Double(0.5)])), ["ok 1 0"]);
    assert_eq!(*watched.runtime.sleeps.lock(), [500]);
}

/// @v := .. and RAND() are evaluated once for each row, in the order of the rows, in every clause.
/// Tests FN-1.
#[test]
fn effects_are_once_for_each_row() {
    let world = World::new();
    let s = &mut world.session();
    tables(s);
    let mut after = |text: &str| {
        lines(s, "SET @n = 0");
        lines(s, text);
        lines(s, "SELECT @n").remove(0)
    };
    for (text, times) in [
        ("SELECT @n := @n + 1", "1"),
        ("SELECT @n := @n + 1 FROM t", "3"),
        ("SELECT @n := @n + 1, id FROM t LIMIT 2", "2"),
        ("SELECT id FROM t WHERE (@n := @n + 1) > 0", "3"),
        ("SELECT id FROM t ORDER BY @n := @n + 1", "3"),
        ("SELECT COUNT(*) FROM t GROUP BY @n := @n + 1", "3"),
        ("SELECT SUM(@n := @n + 1) FROM t", "3"),
        ("SELECT k FROM t GROUP BY k HAVING (@n := @n + 1) > 0", "3"),
        ("INSERT INTO t VALUES (20, 1, @n := @n + 1, ''), (21, 1, @n := @n + 1, '')", "2"),
        (
            "INSERT INTO t VALUES (20, 1, 0, ''), (21, 1, 0, '') ON DUPLICATE KEY UPDATE v = (@n \
                := @n + 1)",
            "2",
        ),
        ("UPDATE t SET v = (@n := @n + 1) WHERE id < 10", "3"),
        ("UPDATE t SET v = 1 WHERE (@n := @n + 1) > 0 ORDER BY id LIMIT 5", "5"),
        ("DELETE FROM t WHERE id > 10 AND (@n := @n + 1) > 0", "2"),
    ] {
        assert_eq!(after(text), times, "{text}");
    }
    lines(s, "SET @n = 0");
    assert_eq!(lines(s, "UPDATE t SET v = (@n := @n + 1) * 10 ORDER BY id"), ["ok 3 0"]);
    assert_eq!(lines(s, "SELECT v FROM t ORDER BY id"), ["10", "20", "30"]);
    assert_eq!(lines(s, "SELECT COUNT(DISTINCT r) FROM (SELECT RAND() r FROM t) d"), ["3"]);
}

/// Tests SLEEP-2.
#[test]
fn a_sleep_that_is_killed_answers_where_it_is_all_there_is() {
    let watched = Watched::new();
    let s = &mut watched.world.session();
    tables(s);
    for (text, answer) in [
        ("SELECT SLEEP(5000)", "1"),
        ("SELECT SLEEP(5000) + 1", "2"),
        ("SELECT 1 FROM t WHERE SLEEP(5000)", "error 1317"),
        ("SELECT SLEEP(5000) FROM t", "error 1317"),
        ("INSERT INTO t VALUES (10, 1, SLEEP(5000), '')", "error 1317"),
        ("UPDATE t SET v = SLEEP(5000)", "error 1317"),
    ] {
        // Another thread kills the statement while it sleeps.
        let (victim, runtime) = (s.state.process.clone(), watched.runtime.clone());
        runtime.sleeps.lock().clear();
        let killer = std::thread::spawn(move || {
            while runtime.sleeps.lock().is_empty() {
                std::thread::yield_now();
            }
            victim.kill(Kill::Query);
        });
        assert_eq!(watched.watch(|| lines(s, text)).last().unwrap(), answer, "{text}");
        killer.join().unwrap();
        s.state.process.forget_kill_query();
    }
    assert_eq!(lines(s, "SELECT COUNT(*), SUM(v) FROM t"), ["3|0"]);
}

#[test]
fn a_lock_that_another_session_has_is_waited_for() {
    let watched = Watched::new();
    let (s, other) = (&mut watched.world.session(), &mut watched.world.session());
    assert_eq!(lines(other, "SELECT GET_LOCK('x', 0)"), ["1"]);
    assert_eq!(lines(s, "SELECT GET_LOCK('x', 0), GET_LOCK('y', 0)"), ["0|1"]);
    for text in
        ["SELECT GET_LOCK('x', 100)", "SELECT 1 + GET_LOCK('x', 100)", "DO 1 + GET_LOCK('x', 100)"]
    {
        let (victim, runtime) = (s.state.process.clone(), watched.runtime.clone());
        runtime.sleeps.lock().clear();
        let killer = std::thread::spawn(move || {
            while runtime.sleeps.lock().is_empty() {
                std::thread::yield_now();
            }
            victim.kill(Kill::Query);
        });
        assert_eq!(watched.watch(|| lines(s, text)).last().unwrap(), "error 1317", "{text}");
        killer.join().unwrap();
        s.state.process.forget_kill_query();
    }
    assert_eq!(lines(other, "DO RELEASE_LOCK('x')"), ["ok 0 0"]);
    assert_eq!(lines(s, "SELECT GET_LOCK('x', 1)"), ["1"]);
}

#[test]
fn a_select_has_its_time() {
    let world = World::new();
    let s = &mut world.session();
    tables(s);
    let long = [
        format!("SELECT {LONG}"),
        format!("SELECT 1 FROM t WHERE {LONG}"),
        "SELECT COUNT(*) FROM big a, big b, big c, big d".to_string(),
        "SELECT 1 FROM t WHERE SLEEP(1000)".to_string(),
        "SELECT SLEEP(1000) FROM t".to_string(),
        "SELECT 1 + GET_LOCK('held', 1000)".to_string(),
    ];
    let other = &mut world.session();
    lines(other, "DO GET_LOCK('held', 0)");
    lines(s, "SET max_execution_time = 20");
    for text in &long {
        assert_eq!(lines(s, text).last().unwrap(), "error 3024", "{text}");
    }
    let count = |counter| world.db.status.counters.get(counter);
    assert_eq!(count(Counter::MaxExecutionTimeExceeded), long.len() as u64);
    assert_eq!(count(Counter::MaxExecutionTimeSet), long.len() as u64);
    // A SELECT that only sleeps answers, as if SLEEP() were interrupted by KILL.
    assert_eq!(lines(s, "SELECT SLEEP(1000)"), ["1"]);
    assert_eq!(lines(s, "SELECT SLEEP(1000) + 0"), ["1"]);
    // Each statement of a text has its own time limit.
    assert_eq!(lines(s, "SELECT SLEEP(1000); SELECT 5"), ["1", "5"]);
    // Statements that change data have no limit. Quick statements do not reach theirs.
    assert_eq!(lines(s, "INSERT INTO t SELECT 10, SLEEP(0.1), 0, ''"), ["ok 1 0"]);
    assert_eq!(lines(s, "DO SLEEP(0.1)"), ["ok 0 0"]);
    assert_eq!(lines(s, "SELECT id FROM t WHERE id = 1"), ["1"]);
    lines(s, "SET max_execution_time = DEFAULT");
    assert_eq!(lines(s, "SELECT 1 + SLEEP(0.1)"), ["1"]);
    // The limit also ends a wait for a row lock.
    lines(other, "BEGIN");
    lines(other, "SELECT * FROM t WHERE id = 1 FOR UPDATE");
    assert_eq!(
        lines(s, "SELECT /*+ MAX_EXECUTION_TIME(20) */ * FROM t WHERE id = 1 FOR UPDATE"),
        ["error 3024"]
    );
    lines(other, "ROLLBACK");
}

#[test]
fn a_hint_says_how_long() {
    let world = World::new();
    let s = &mut world.session();
    tables(s);
    let hinted = format!("SELECT /*+ MAX_EXECUTION_TIME(10) */ {LONG}");
    assert_eq!(lines(s, &hinted), ["error 3024"]);
    // A hint may be longer than the session's limit. A hint of 0 keeps the session's limit.
    lines(s, "SET max_execution_time = 20");
    assert_eq!(lines(s, "SELECT /*+ MAX_EXECUTION_TIME(100000) */ 1 + SLEEP(0.1)"), ["1"]);
    assert_eq!(lines(s, &format!("SELECT /*+ MAX_EXECUTION_TIME(0) */ {LONG}")), ["error 3024"]);
    lines(s, "SET max_execution_time = 0");
    // Texts that differ only in the hint have different plans.
    assert_eq!(
        lines(s, "SELECT /*+ MAX_EXECUTION_TIME(1) */ id FROM t WHERE id = 1 + SLEEP(0.2)")
            .last()
            .unwrap(),
        "error 3024"
    );
    assert_eq!(
        lines(s, "SELECT /*+ MAX_EXECUTION_TIME(9999) */ id FROM t WHERE id = 1 + SLEEP(0.2)"),
        ["1"]
    );
    assert_eq!(lines(s, "SELECT id FROM t WHERE id = 1 + SLEEP(0.01)"), ["1"]);
    // The hint also works in a prepared statement.
    let id = block_on(s.prepare(hinted.as_bytes())).unwrap().id;
    assert_eq!(execute(s, id, &[]), ["error 3024"]);
    assert_eq!(execute(s, id, &[]), ["error 3024"]);
    // A hint in another place gives a warning at each run.
    for _ in 0..2 {
        assert_eq!(
            lines(s, "SELECT * FROM (SELECT /*+ MAX_EXECUTION_TIME(1) */ 1 + SLEEP(0.05)) d"),
            ["1"]
        );
        let warnings = lines(s, "SHOW WARNINGS");
        assert_eq!(
            warnings,
            ["Warning|3125|MAX_EXECUTION_TIME hint is supported by top-level standalone SELECT \
                    statements only"]
        );
    }
    lines(s, "SELECT /*+ BKA(t) */ 1");
    assert!(lines(s, "SHOW WARNINGS")[0].starts_with("Warning|1235|"));
    lines(s, "SELECT /*+ WHATEVER */ 1");
    assert_eq!(
        lines(s, "SHOW WARNINGS"),
        ["Warning|1064|Optimizer hint syntax error near 'WHATEVER */ 1' at line 1"]
    );
}

/// A short text may stand for a large tree. The tree is bound as long work, and the session is
/// charged for the tree, also if the text is prepared.
#[test]
fn definitions_that_double_are_bound_as_long_work() {
    let w = Watched::new();
    let mut s = w.world.session();
    let doubling = |levels: usize| {
        let more = (1..levels)
            .map(|n| format!(", c{n} AS (SELECT 1 FROM c{0} x, c{0} y)", n - 1))
            .collect::<String>();
        format!("WITH c0 AS (SELECT 1){more} SELECT COUNT(*) FROM c{}", levels - 1)
    };
    let mut times = |text: &str| {
        w.runtime.long_work.store(0, Relaxed);
        let answer = w.watch(|| lines(&mut s, text));
        (answer, w.runtime.long_work.load(Relaxed))
    };
    assert_eq!(times(&doubling(3)), (vec!["1".to_string()], 0));
    let (answer, long) = times(&doubling(12));
    assert!(answer == ["1"] && long > 0, "{answer:?} {long}");
    let (answer, long) = times(&format!("PREPARE p FROM '{}'", doubling(12)));
    assert!(answer == ["ok 0 0"] && long > 0, "{answer:?} {long}");
    let charged = format!("SET redolith_statement_memory = {}", 2 << 20);
    assert_eq!(times(&charged).0, ["ok 0 0"]);
    let answer = times(&doubling(20)).0;
    assert!(answer.last().is_some_and(|l| l.starts_with("error")), "{answer:?}");
    assert_eq!(times("SELECT 1").0, ["1"]);
}

/// Long strings are converted into the connection's character set as long work.
#[test]
fn long_parameters_are_converted_as_long_work() {
    let w = Watched::new();
    let s = &mut w.world.session();
    lines(s, "SET character_set_client = latin1, character_set_connection = utf8mb4");
    let prepared = block_on(s.prepare(b"SELECT LENGTH(?)")).unwrap().id;
    lines(s, "PREPARE p FROM 'SELECT LENGTH(?)'");
    for (length, is_long) in [(100, false), (100_000, true)] {
        lines(s, &format!("SET @a = REPEAT(_latin1 X'E4', {length})"));
        w.runtime.long_work.store(0, Relaxed);
        let text = vec![0xe4; length];
        let sent = w.watch(|| execute(s, prepared, &[Value::bytes(&text)]));
        assert_eq!(sent, [(2 * length).to_string()]);
        assert_eq!(w.runtime.long_work.swap(0, Relaxed) > 0, is_long);
        let named = w.watch(|| lines(s, "EXECUTE p USING @a"));
        assert_eq!(named, [(2 * length).to_string()]);
        assert_eq!(w.runtime.long_work.load(Relaxed) > 0, is_long);
    }
}

/// The columns of all tables of FROM are described before the statement is bound.
#[test]
fn wide_tables_are_described_as_long_work() {
    let w = Watched::new();
    let mut s = w.world.session();
    let columns = (0..1000).map(|n| format!("c{n} INT")).collect::<Vec<_>>().join(", ");
    assert_eq!(
        lines(&mut s, &format!("CREATE TABLE wide (id INT PRIMARY KEY, {columns})")),
        ["ok 0 0"]
    );
    let mut long = |tables: usize| {
        let from = (0..tables).map(|n| format!("wide w{n}")).collect::<Vec<_>>().join(", ");
        w.runtime.long_work.store(0, Relaxed);
        let text = format!("SELECT COUNT(*) FROM {from}");
        assert_eq!(w.watch(|| lines(&mut s, &text)), ["0"]);
        w.runtime.long_work.load(Relaxed)
    };
    assert_eq!(long(2), 0);
    assert!(long(40) > 0);
}

/// The ranges of many indexes are derived as long work, and where they are too many, the rows are
/// found without them. The ranges of one index are kept.
#[test]
fn ranges_of_many_indexes_are_long_work() {
    let w = Watched::new();
    let mut s = w.world.session();
    let keys = (0..60).map(|n| format!("KEY k{n} (a, b, c, d)")).collect::<Vec<_>>().join(", ");
    let table = format!("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT, d INT, {keys})");
    assert_eq!(lines(&mut s, &table), ["ok 0 0"]);
    assert_eq!(lines(&mut s, "INSERT INTO t VALUES (1, 3, 3, 3, 3), (2, 3, 4, 99, 3)"), ["ok 2 0"]);
    let list = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let mut found = |text: &str| {
        w.runtime.long_work.store(0, Relaxed);
        let answer = w.watch(|| lines(&mut s, text));
        (answer, w.runtime.long_work.load(Relaxed))
    };
    assert_eq!(found("SELECT id FROM t WHERE a IN (1, 3) AND b IN (2, 3)"), (vec!["1".into()], 0));
    let (a, b) = (list(100), list(9));
    let many = format!("SELECT id FROM t WHERE a IN ({a}) AND b IN ({b}) AND c < 9 AND d = 3");
    let (answer, long) = found(&many);
    assert!(answer == ["1"] && long > 0, "{answer:?} {long}");
    // Each of many ORs makes ranges that are of no use, because its last branch has none.
    let or = format!("(a IN ({a}) AND b IN ({b}) OR d = 3)");
    let many = format!("SELECT id FROM t WHERE {} AND c < 9", vec![or; 200].join(" AND "));
    let (answer, long) = found(&many);
    assert!(answer == ["1"] && long > 0, "{answer:?} {long}");
    let branch = |n: usize| format!("a IN ({a}) AND b IN ({b}) AND c = {n}");
    let branches = (0..10).map(branch).collect::<Vec<_>>().join(" OR ");
    let (explained, long) = found(&format!("EXPLAIN SELECT id FROM t WHERE {branches}"));
    assert!(long > 0 && explained[0].contains("|range|k0,k1,k2,"), "{explained:?} {long}");
    assert!(!explained[0].contains("k59"), "{explained:?}");
    assert_eq!(found(&format!("SELECT id FROM t WHERE {branches}")).0, ["1"]);
}

/// Each range of a product has copies of its values, so a long value is tested row by row.
#[test]
fn products_of_long_values_are_no_ranges() {
    let w = World::new();
    let mut s = w.session();
    lines(&mut s, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(10), KEY (a, b))");
    lines(&mut s, "INSERT INTO t VALUES (1, 3, 'x'), (2, 7, 'z')");
    let list = (0..5000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let (short, long) = ("w".to_string(), format!("w{}", "y".repeat(100_000)));
    for (test, bound, key_bytes) in
        [(">", &short, "48"), ("=", &short, "48"), (">", &long, "5"), ("=", &long, "5")]
    {
        let list = if test == "=" { &list[..999] } else { &list };
        let list = list.trim_end_matches(',');
        let rows = |list: &str| {
            let rows = "SELECT id FROM t FORCE INDEX (a) WHERE a IN";
            format!("{rows} ({list}) AND b {test} '{bound}' ORDER BY id")
        };
        let explained = lines(&mut s, &format!("EXPLAIN {}", rows(list))).remove(0);
        assert!(explained.contains(&format!("|range|a|a|{key_bytes}|")), "{test} {explained}");
        let found: &[&str] = if test == "=" { &[] } else { &["1", "2"] };
        assert_eq!(lines(&mut s, &rows(list[..99].trim_end_matches(','))), found);
    }
}

/// Expressions that differ only far inside are told apart by comparisons, which count.
#[test]
fn expressions_that_begin_alike_are_compared_as_long_work() {
    let w = Watched::new();
    let mut s = w.world.session();
    let from = "FROM (SELECT 1 AS x UNION SELECT 2) t";
    let alike = |n: usize| format!("x{} + {n}", " + 1".repeat(24));
    let list = |n: usize| (0..n).map(alike).collect::<Vec<_>>().join(", ");
    let mut long = |text: String| {
        w.runtime.long_work.store(0, Relaxed);
        let answer = w.watch(|| lines(&mut s, &text));
        assert!(!answer.is_empty() && !answer[0].starts_with("error"), "{answer:?}");
        w.runtime.long_work.load(Relaxed)
    };
    let texts = [
        |list: &str, from: &str| format!("SELECT COUNT(*) OVER (PARTITION BY {list}) {from}"),
        |list: &str, from: &str| format!("SELECT COUNT(*) OVER (ORDER BY {list}) {from}"),
        |list: &str, from: &str| format!("SELECT COUNT(*) {from} GROUP BY {list}"),
        |list: &str, from: &str| format!("SELECT x {from} ORDER BY {list}"),
        |list: &str, from: &str| format!("SELECT {list} {from} ORDER BY x * 2"),
        |list: &str, from: &str| format!("SELECT MAX({}) {from}", list.replace(", ", "), MAX(")),
    ];
    for text in texts {
        assert_eq!(long(text(&list(3), from)), 0, "{}", text("..", from));
        assert!(long(text(&list(70), from)) > 0, "{}", text("..", from));
    }
}

/// A function under thousands of operators, and many functions over one long window, take steps in
/// proportion to their number.
#[test]
fn windows_are_bound_once() {
    let w = World::new();
    let mut s = w.session();
    let deep = format!("SELECT {}ROW_NUMBER() OVER (){}", "(1 + ".repeat(30), ")".repeat(30));
    assert_eq!(lines(&mut s, &deep), ["31"]);
    let keys = (0..100).map(|n| format!("x + {n}")).collect::<Vec<_>>().join(", ");
    let calls = (0..200)
        .map(|n| format!("COUNT(*) OVER (w ORDER BY x * {} DESC, x)", n % 3))
        .collect::<Vec<_>>()
        .join(", ");
    let many = format!(
        "SELECT {calls} FROM (SELECT 1 AS x UNION SELECT 2) t WINDOW w AS (PARTITION BY {keys})"
    );
    assert_eq!(lines(&mut s, &many), vec![vec!["1"; 200].join("|"); 2]);
    assert_eq!(
        lines(&mut s, &many.replacen("SELECT", "EXPLAIN SELECT", 1))
            .iter()
            .filter(|l| l.contains("filesort"))
            .count(),
        1
    );
}

/// Texts of many short statements take time in proportion to their length, and a KILL between two
/// statements ends them.
#[test]
fn many_short_statements_are_read_once_and_can_be_killed() {
    let world = World::new();
    let mut s = world.session();
    let answers = lines(&mut s, &"/**/;".repeat(200_000));
    assert!(answers.len() == 200_000 && answers.iter().all(|line| line == "ok 0 0"));
    // A statement at the end makes the first without words an error.
    assert_eq!(lines(&mut s, "/**/;/**/;DO 1"), ["error 1064"]);
    assert_eq!(lines(&mut s, "DO 1;/**/;/**/ ; "), ["ok 0 0", "ok 0 0", "ok 0 0"]);
    let process = s.state.process.clone();
    std::thread::scope(|scope| {
        let text = "/**/;".repeat(2_000_000);
        let run = scope.spawn(move || lines(&mut s, &text).pop());
        while !run.is_finished() {
            process.kill(Kill::Query);
            std::thread::yield_now();
        }
        assert_eq!(run.join().unwrap().as_deref(), Some("error 1317"));
    });
}
