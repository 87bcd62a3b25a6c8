//! The Handler_* counts of statements. They are the counts of MySQL 9.7 for the same statements on
//! the same rows, except where a comment names a difference.
use super::{World, execute, lines, query};
use crate::session::Session;
use redolith_engine::runtime::block_on;

/// The result of `SHOW SESSION STATUS LIKE 'Handler%'` without zeros: "commit=1 read_key=1".
fn handlers(s: &mut Session, scope: &str) -> String {
    let shown = lines(s, &format!("SHOW {scope} STATUS LIKE 'Handler%'"));
    let counted = shown
        .iter()
        .filter_map(|l| l.strip_prefix("Handler_")?.split_once('|'))
        .filter(|(_, n)| *n != "0");
    counted.map(|(name, n)| format!("{name}={n}")).collect::<Vec<_>>().join(" ")
}
fn world() -> (World, Session) {
    let world = World::new();
    let mut s = world.session();
    query(
        &mut s,
        "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, u INT NOT NULL, c VARCHAR(20), UNIQUE \
            KEY u (u), KEY k (k))",
    );
    query(&mut s, "CREATE TABLE e (id INT PRIMARY KEY)");
    let rows: Vec<_> = (1..=60).map(|i| format!("({i}, {}, {i}, 'c{i}')", i / 10 * 10)).collect();
    query(&mut s, &format!("INSERT INTO t VALUES {}", rows.join(", ")));
    (world, s)
}

#[test]
fn statements_count_what_they_ask_of_the_engine() {
    let (_world, mut s) = world();
    for (text, expected) in [
        ("SELECT COUNT(c) FROM t", "commit=1 read_first=1 read_key=1 read_rnd_next=61"),
        ("SELECT * FROM e", "commit=1 read_first=1 read_key=1 read_rnd_next=1"),
        ("SELECT * FROM t LIMIT 2", "commit=1 read_first=1 read_key=1 read_rnd_next=2"),
        (
            "SELECT id FROM t ORDER BY id DESC LIMIT 3",
            "commit=1 read_key=1 read_last=1 read_prev=2",
        ),
        // MySQL differs (read_next=2). Here, the table is stored in the order of its key, so this
        // is a scan of the table.
        ("SELECT * FROM t ORDER BY id LIMIT 3", "commit=1 read_first=1 read_key=1 read_rnd_next=3"),
        ("SELECT * FROM t WHERE id = 3", "commit=1 read_key=1"),
        ("SELECT * FROM t WHERE id = 1000", "commit=1 read_key=1"),
        ("SELECT * FROM t WHERE id IN (1, 3, 5)", "commit=1 read_key=3"),
        ("SELECT * FROM t WHERE u = 4", "commit=1 read_key=1"),
        ("SELECT * FROM t WHERE k = 20", "commit=1 read_key=1 read_next=10"),
        ("SELECT * FROM t WHERE k = 25", "commit=1 read_key=1"),
        ("SELECT * FROM t WHERE id BETWEEN 2 AND 4", "commit=1 read_key=1 read_next=3"),
        ("SELECT * FROM t WHERE id < 3", "commit=1 read_first=1 read_key=1 read_next=2"),
        ("SELECT * FROM t WHERE id > 58", "commit=1 read_key=1 read_next=2"),
        (
            "SELECT * FROM t WHERE id BETWEEN 2 AND 4 ORDER BY id DESC",
            "commit=1 read_key=1 read_prev=3",
        ),
        (
            "SELECT * FROM t WHERE id > 57 ORDER BY id DESC",
            "commit=1 read_key=1 read_last=1 read_prev=3",
        ),
        ("SELECT * FROM t WHERE id BETWEEN 1 AND 30 LIMIT 2", "commit=1 read_key=1 read_next=1"),
        (
            "SELECT * FROM t WHERE c = 'nothing'",
            "commit=1 read_first=1 read_key=1 read_rnd_next=61",
        ),
        ("SELECT c FROM t ORDER BY c LIMIT 3", "commit=1 read_first=1 read_key=1 read_rnd_next=61"),
        (
            "SELECT a.id FROM t a JOIN t b ON b.id = a.id + 1 WHERE a.id BETWEEN 1 AND 3",
            "commit=1 read_key=4 read_next=3",
        ),
        ("SELECT 1", ""),
        ("SELECT name FROM information_schema.innodb_metrics LIMIT 1", ""),
        ("INSERT INTO t VALUES (100, 1, 100, 'x')", "commit=1 write=1"),
        ("INSERT INTO t VALUES (101, 1, 101, 'x'), (102, 1, 102, 'x')", "commit=1 write=2"),
        ("INSERT INTO t VALUES (100, 1, 100, 'x')", "rollback=1 write=1"),
        ("INSERT IGNORE INTO t VALUES (100, 1, 100, 'x')", "commit=1 write=1"),
        (
            "INSERT INTO t VALUES (100, 1, 100, 'x') ON DUPLICATE KEY UPDATE c = 'y'",
            "commit=1 read_key=1 update=1 write=1",
        ),
        ("REPLACE INTO t VALUES (100, 2, 100, 'z')", "commit=1 delete=1 read_key=1 write=2"),
        ("UPDATE t SET c = 'q' WHERE id = 1", "commit=1 read_key=1 update=1"),
        // MySQL differs: it gives an unchanged row to the engine unless it has read the column
        // anyway. Here, an unchanged row is not given to the engine.
        ("UPDATE t SET c = 'q' WHERE id = 1", "commit=1 read_key=1"),
        (
            "UPDATE t SET c = 'w' WHERE id BETWEEN 1 AND 3",
            "commit=1 read_key=1 read_next=3 update=3",
        ),
        // The scan reads 63 rows and the end.
        (
            "UPDATE t SET c = 'v' ORDER BY c DESC LIMIT 2",
            "commit=1 read_first=1 read_key=3 read_rnd=2 read_rnd_next=64 update=2",
        ),
        (
            "UPDATE t SET id = id + 1000 WHERE id > 101",
            "commit=1 read_key=2 read_next=1 read_rnd=1 update=1",
        ),
        ("DELETE FROM t WHERE id = 100", "commit=1 delete=1 read_key=1"),
        ("DELETE FROM t WHERE id BETWEEN 7 AND 8", "commit=1 delete=2 read_key=1 read_next=2"),
        ("DELETE FROM t WHERE k = 30 LIMIT 1", "commit=1 delete=1 read_key=1"),
        (
            "BEGIN; UPDATE t SET c = 'aa' WHERE id = 1; SELECT * FROM t WHERE id = 1; COMMIT",
            "commit=3 read_key=2 update=1",
        ),
        (
            "BEGIN; UPDATE t SET c = 'ab' WHERE id = 1; ROLLBACK",
            "commit=1 read_key=1 rollback=1 update=1",
        ),
        (
            "BEGIN; SAVEPOINT a; UPDATE t SET c = 'ac' WHERE id = 1; SAVEPOINT b; DELETE FROM t \
                WHERE id = 2; ROLLBACK TO b; COMMIT",
            "commit=3 delete=1 read_key=2 savepoint=1 savepoint_rollback=1 update=1",
        ),
        ("BEGIN; SELECT * FROM t WHERE id = 1; COMMIT", "commit=2 read_key=1"),
        ("BEGIN; SELECT * FROM t WHERE id = 1; ROLLBACK", "commit=1 read_key=1 rollback=1"),
        ("BEGIN; SELECT 1; COMMIT", ""),
        (
            "SET autocommit = 0; SELECT * FROM t WHERE id = 1; COMMIT; SET autocommit = 1",
            "commit=2 read_key=1",
        ),
    ] {
        query(&mut s, "FLUSH STATUS");
        query(&mut s, text);
        assert_eq!(handlers(&mut s, "SESSION"), expected, "{text}");
    }
    // The COMMIT of a transaction counts even if one of its statements has failed.
    query(&mut s, "FLUSH STATUS");
    query(&mut s, "BEGIN; UPDATE t SET c = 'ad' WHERE id = 1; INSERT INTO t VALUES (1, 1, 1, 'x')");
    query(&mut s, "COMMIT");
    assert_eq!(handlers(&mut s, "SESSION"), "commit=2 read_key=1 rollback=1 update=1 write=1");
}

#[test]
fn sessions_count_for_themselves_and_together() {
    let (world, mut a) = world();
    let mut b = world.session();
    query(&mut a, "FLUSH STATUS");
    query(&mut a, "SELECT * FROM t WHERE id = 1");
    query(&mut b, "SELECT * FROM t WHERE k = 20");
    assert_eq!(handlers(&mut a, "SESSION"), "commit=1 read_key=1");
    assert_eq!(
        handlers(&mut b, ""),
        "commit=1 read_key=1 read_next=10",
        "SHOW STATUS is the session's"
    );
    assert_eq!(handlers(&mut a, "GLOBAL"), "commit=2 read_key=2 read_next=10");
    // The counts of an ended session stay, including the rollback at its end.
    query(&mut b, "BEGIN; UPDATE t SET c = 'x' WHERE id = 1");
    block_on(b.end());
    drop(b);
    assert_eq!(handlers(&mut a, "GLOBAL"), "commit=3 read_key=3 read_next=10 rollback=1 update=1");
    let prepared = block_on(a.prepare(b"SELECT * FROM t WHERE id = 5")).unwrap().id;
    let before = handlers(&mut a, "SESSION");
    execute(&mut a, prepared, &[]);
    assert_eq!(
        (&*before, &*handlers(&mut a, "SESSION")),
        ("commit=1 read_key=1", "commit=2 read_key=2")
    );
    assert_eq!(
        lines(&mut a, "SHOW SESSION STATUS LIKE 'Handler_read_key'"),
        ["Handler_read_key|2"]
    );
}

/// Lists on two columns of an index multiply up to a bound. Beyond it the second is a condition.
#[test]
fn lists_multiply_up_to_a_bound() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, "CREATE TABLE m (a INT NOT NULL, b INT NOT NULL, KEY ab (a, b))");
    query(&mut s, "INSERT INTO m VALUES (4, 4), (4, 1000), (300, 300), (1000, 2)");
    // Ranges that touch each other would be one.
    let list = |n| (0..n).map(|n: u32| (2 * n).to_string()).collect::<Vec<_>>().join(", ");
    let or = |n| (0..n).map(|n: u32| format!("b < {n} - 1000")).collect::<Vec<_>>().join(" OR ");
    for (n, found, keys) in [(20, 1, 400), (90, 1, 8100), (200, 2, 200), (10_000, 4, 10_000)] {
        let in_lists = format!("a IN ({}) AND b IN ({})", list(n), list(n));
        query(&mut s, "FLUSH STATUS");
        let text = format!("SELECT COUNT(*) FROM m FORCE INDEX (ab) WHERE {in_lists}");
        assert_eq!(lines(&mut s, &text), [found.to_string()], "{n}");
        assert_eq!(
            lines(&mut s, "SHOW SESSION STATUS LIKE 'Handler_read_key'"),
            [format!("Handler_read_key|{keys}")],
            "{n}"
        );
    }
    let text = format!("SELECT COUNT(*) FROM m WHERE a IN ({}) AND ({})", list(5000), or(1000));
    assert_eq!(lines(&mut s, &text), ["0"]);
}

/// A scan that wants few rows of each group reads few: for each group a batch of eight, or two, and
/// a search or two for what comes next. Tests LOOSE-1.
#[test]
fn loose_scans_read_few_rows() {
    let world = World::new();
    let mut s = world.session();
    query(
        &mut s,
        "CREATE TABLE g (id INT PRIMARY KEY, a INT, b INT NOT NULL, c INT, KEY ab (a, b), KEY (c))",
    );
    for n in 0..10 {
        let rows =
            (n * 500..n * 500 + 500).map(|id| format!("({id}, {n}, {}, {})", id % 100, id / 3));
        query(&mut s, &format!("INSERT INTO g VALUES {}", rows.collect::<Vec<_>>().join(", ")));
    }
    let mut read = |text: &str| {
        query(&mut s, "FLUSH STATUS");
        let answer = lines(&mut s, text);
        let number = |name: &str| {
            let shown = lines(&mut s, &format!("SHOW SESSION STATUS LIKE '{name}'"));
            shown[0].rsplit('|').next().unwrap().parse::<u64>().unwrap()
        };
        let counted =
            ["Handler_read_key", "Handler_read_next", "Handler_read_rnd_next"].map(number);
        (answer, counted)
    };
    for (text, rows, keys, most) in [
        ("SELECT DISTINCT a FROM g", 10, 11, 100),
        ("SELECT a, MIN(b) FROM g GROUP BY a", 10, 11, 100),
        ("SELECT a, MAX(b), MIN(b) FROM g GROUP BY a", 10, 11, 180),
        ("SELECT COUNT(DISTINCT a) FROM g", 1, 11, 100),
        ("SELECT MIN(a), MAX(a) FROM g", 1, 2, 20),
        ("SELECT a, MAX(b) FROM g WHERE a >= 5 GROUP BY a", 5, 6, 90),
        ("SELECT a, MIN(b) FROM g WHERE b % 3 = 0 GROUP BY a", 10, 11, 100),
        ("SELECT a, MIN(b) FROM g WHERE a >= 5 GROUP BY a", 5, 6, 60),
        ("SELECT DISTINCT a FROM g WHERE a >= 5", 5, 6, 60),
        // The rows that a search finds are fewer.
        ("SELECT DISTINCT a FROM g WHERE c = 700", 1, 1, 3),
        ("SELECT a, MIN(b) FROM g WHERE c = 700 GROUP BY a", 1, 1, 3),
    ] {
        let (answer, [key, next, rnd_next]) = read(text);
        assert_eq!((answer.len(), key), (rows, keys), "{text}: {answer:?}");
        assert!(next + rnd_next <= most, "{text}: {next} {rnd_next}");
    }
    // They want more of the rows than their first and last.
    for text in [
        "SELECT a, MAX(b) FROM g WHERE b % 3 = 0 GROUP BY a",
        "SELECT a, SUM(b) FROM g GROUP BY a",
        "SELECT a, MIN(c) FROM g GROUP BY a",
        "SELECT a, MIN(b + 1) FROM g GROUP BY a",
        "SELECT DISTINCT a FROM g WHERE RAND() < 2",
        "SELECT DISTINCT a FROM g FOR SHARE",
    ] {
        let (answer, [_, next, rnd_next]) = read(text);
        assert_eq!(answer.len(), 10, "{text}");
        assert!(next + rnd_next >= 5000, "{text}: {next} {rnd_next}");
    }
}
