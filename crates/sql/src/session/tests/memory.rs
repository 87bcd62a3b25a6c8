//! All memory that a statement makes grow has a limit and is given back (MEM-1, MEM-2).
use super::{World, execute, lines};
use crate::parse::parameterize::Parameterized;
use crate::session::Session;
use redolith_engine::runtime::block_on;
use redolith_types::Value;
use std::sync::atomic::Ordering::Relaxed;

/// A table of two megabytes in rows of half a kilobyte, and empty tables for copies.
const SETUP: &[&str] = &[
    "CREATE TABLE big (id INT PRIMARY KEY AUTO_INCREMENT, c VARCHAR(600) NOT NULL)",
    "CREATE TABLE copy (id INT PRIMARY KEY, c VARCHAR(600) NOT NULL)",
    "CREATE TABLE gone (id INT PRIMARY KEY, c VARCHAR(600) NOT NULL)",
    "INSERT INTO big (c) VALUES (REPEAT('a', 500)), (REPEAT('b', 500)), (REPEAT('c', 500)), \
        (REPEAT('d', 500))",
];
/// Statements that need more than one and less than 64 MiB, each for another reason.
const GROWING: &[&str] = &[
    // The late groups and the result are merged at the same time.
    "SELECT id, c, COUNT(*) FROM big GROUP BY id, c WITH ROLLUP",
    "SELECT LENGTH(GROUP_CONCAT(c)) FROM big",
    "SELECT LENGTH(GROUP_CONCAT(c ORDER BY id DESC)) FROM big",
    "SELECT 'x' IN (SELECT c FROM big)",
    "SELECT LENGTH(CONCAT(REPEAT('a', 400000), REPEAT('b', 400000), REPEAT('c', 400000)))",
    "SELECT LOCATE('b', REPEAT('é', 150000))",
    "SELECT INSTR(CONVERT(REPEAT('a', 300000) USING latin1), 'b')",
    "SELECT REPEAT('a', 400000) = 'x' OR CONCAT(REPEAT('b', 600000), REPEAT('a', 600000)) = 'y'",
    // The row exists twice while it is sent.
    "SELECT REPEAT('a', 400000), REPEAT('b', 400000)",
    "DO CONCAT(REPEAT('a', 600000), REPEAT('a', 600000))",
    "SET @x = CONCAT(REPEAT('a', 600000), REPEAT('a', 600000))",
    "SET @x = REPEAT('a', 400000), @y = REPEAT('a', 400000), @z = REPEAT('a', 400000)",
    "SELECT REPEAT('a', 600000), REPEAT('a', 600000) INTO @x, @y",
    "SELECT COUNT(*) FROM information_schema.COLUMNS",
    "SHOW FULL COLUMNS FROM told",
    "SHOW FULL COLUMNS FROM told WHERE Field = 'c7'",
    "SHOW CREATE TABLE told",
    // The value exists while the condition is evaluated.
    "SHOW TABLES WHERE LENGTH(CONCAT(REPEAT('a', 600000), REPEAT('a', 600000))) = 7",
    "EXECUTE three USING @kept, @kept, @kept",
    // WIN-2
    "SELECT id, COUNT(*) OVER (), c FROM big",
    "SELECT LAG(c) OVER (ORDER BY id) FROM big",
    // REC-3
    "WITH RECURSIVE r AS (SELECT c, 1 AS n FROM big UNION SELECT CONCAT(id, c), 2 FROM big UNION \
        SELECT c, n + 1 FROM r WHERE n = 1) SELECT COUNT(*) FROM r",
];
/// Statements that need as much, and whose rows may go to temporary files.
const SPILLING: &[&str] = &[
    "UPDATE big SET id = id + 100000 ORDER BY c DESC, id DESC",
    "UPDATE big SET id = id - 100000 ORDER BY c, id",
    "DELETE FROM gone ORDER BY c, id",
    "SELECT c FROM big ORDER BY c",
    "SELECT id FROM big ORDER BY CONCAT(c, id) DESC",
    "SELECT c FROM big ORDER BY c LIMIT 3000",
    "SELECT COUNT(*) FROM (SELECT c FROM big LIMIT 4000) AS d",
    "SELECT COUNT(*), MIN(c) FROM (SELECT c FROM big ORDER BY c, id DESC LIMIT 4000) AS d",
    // GROUP-1, GROUP-3, LATEROW-1 and SETOP-2.
    "SELECT DISTINCT CONCAT(id, c) FROM big",
    "SELECT id, MAX(c) FROM big GROUP BY id",
    "SELECT CONCAT(id, c), COUNT(*) FROM big GROUP BY CONCAT(id, c)",
    "SELECT COUNT(DISTINCT CONCAT(id, c)) FROM big",
    "SELECT id, c FROM big INTERSECT SELECT id, c FROM big",
    "SELECT COUNT(*) FROM (SELECT CONCAT(id, c) FROM big EXCEPT ALL SELECT c FROM big) AS d",
    // HASH-4: the hash tables of joins.
    "SELECT COUNT(*), MAX(b.c) FROM big AS a STRAIGHT_JOIN big AS b ON a.id + 0 = b.id + 0",
    "SELECT COUNT(*), MAX(d.c) FROM big AS a STRAIGHT_JOIN (SELECT id, c FROM big) AS d \
        ON a.id = d.id",
    // Each of the two derived tables has room, but not both together.
    "SELECT COUNT(*) FROM (SELECT c FROM big LIMIT 1200) AS d, (SELECT c FROM big LIMIT 1200) AS e \
        WHERE d.c = 'x'",
    "SELECT COUNT(*), SUM(n) FROM (SELECT c, ROW_NUMBER() OVER (PARTITION BY id % 97 ORDER BY c) \
        AS n FROM big) AS d",
    "WITH RECURSIVE r AS (SELECT c, 1 AS n FROM big UNION ALL SELECT c, n + 1 FROM r WHERE n < 3) \
        SELECT COUNT(*), MIN(c) FROM r",
    "INSERT IGNORE INTO big SELECT * FROM big",
    "UPDATE big JOIN (SELECT 1 AS n) AS d SET c = LEFT(CONCAT(n, c), 500)",
    "REPLACE INTO big SELECT id, c FROM big ORDER BY c",
];
/// Statements that need less: they make long values one after the other, together far more than
/// the limit.
const STEADY: &[&str] = &[
    "REPLACE INTO copy SELECT * FROM big",
    "SELECT COUNT(*) FROM big WHERE id % 3 = 0 AND CONCAT(REPEAT('a', 70000), c) = 'x'",
    "SELECT COUNT(*) FROM (SELECT 1 FROM big WHERE id % 3 = 0 AND LENGTH(REPEAT(c, 200)) < 70000) \
        AS d",
    "SELECT MAX(LENGTH(REPEAT(c, 200))) FROM big WHERE id % 3 = 0",
    "SELECT LENGTH(REPEAT(c, 200)) AS n FROM big WHERE id % 3 = 0 GROUP BY n",
    "SELECT REPEAT(c, 200) FROM big WHERE id % 3 = 0",
    "SELECT BENCHMARK(100, REPEAT('a', 100000))",
    "DO REPEAT('a', 400000), REPEAT('a', 400000), REPEAT('a', 400000), REPEAT('a', 400000)",
    "UPDATE big SET c = LEFT(REPEAT(c, 200), 500) WHERE id % 3 = 0",
    "INSERT INTO big (id, c) SELECT id, 'x' FROM big WHERE id % 9 = 0 ON DUPLICATE KEY UPDATE c = \
        LEFT(REPEAT(big.c, 200), 500)",
    "SELECT COUNT(*) FROM big a JOIN big b ON b.id = LENGTH(REPEAT(a.c, 200)) WHERE a.id < 100",
    // An index serves where a hash table might not fit.
    "SELECT COUNT(*), MAX(b.c) FROM big AS a JOIN big AS b ON a.id = b.id",
    "SELECT c FROM big ORDER BY c LIMIT 10",
    "SELECT DISTINCT c FROM big",
    "SHOW COLUMNS FROM wide0 WHERE LENGTH(REPEAT('a', 100000)) = 7",
];

fn world() -> (World, Session) {
    let world = World::new();
    let mut s = world.session();
    let columns = (0..1000).map(|n| format!("c{n} TINYINT")).collect::<Vec<_>>().join(", ");
    let wide = (0..4).map(|n| format!("CREATE TABLE wide{n} ({columns})"));
    let double = (0..10).map(|_| "INSERT INTO big (c) SELECT c FROM big".to_string());
    let gone = "INSERT INTO gone SELECT * FROM big".to_string();
    for text in SETUP.iter().map(|t| t.to_string()).chain(wide).chain(double).chain([gone]) {
        assert!(lines(&mut s, &text)[0].starts_with("ok"), "{text}");
    }
    for text in [
        "PREPARE three FROM 'SELECT LENGTH(?) + LENGTH(?) + LENGTH(?)'",
        "SET group_concat_max_len = 10000000",
    ] {
        assert_eq!(lines(&mut s, text), ["ok 0 0"]);
    }
    (world, s)
}
/// Makes a table whose description needs a mebibyte.
fn told(s: &mut Session) {
    let columns = (0..1000)
        .map(|n| format!("c{n} TINYINT COMMENT '{}'", "x".repeat(1000)))
        .collect::<Vec<_>>()
        .join(", ");
    assert_eq!(lines(s, &format!("CREATE TABLE told ({columns})")), ["ok 0 0"]);
}
pub(super) fn failed(answer: &[String]) -> bool {
    answer.iter().any(|line| line.starts_with("error"))
}

/// The key ranges of a long list are charged as they grow.
#[test]
fn the_key_ranges_of_a_long_list_are_charged_and_given_back() {
    let (world, mut s) = world();
    let list = (0..9_000).map(|n| (2 * n).to_string()).collect::<Vec<_>>().join(", ");
    let text = format!("SELECT COUNT(*) FROM big WHERE id IN ({list})");
    let start = world.db.memory.used();
    for _ in 0..2 {
        world.db.memory.reset_counts();
        assert!(!failed(&lines(&mut s, &text)));
        let peak = world.db.memory.peak() - start;
        assert!((9_000 * 40..4 << 20).contains(&peak), "{peak}");
        assert_eq!((s.state.memory.statement.used(), world.db.memory.used()), (0, start), "MEM-2");
    }
    world.db.memory.set_limit(start + (64 << 10));
    assert_eq!(lines(&mut s, &text), ["error 3170"]);
    world.db.memory.set_limit(usize::MAX);
    assert!(!failed(&lines(&mut s, &text)));
}

/// The key ranges of a statement's scans are there together, and those of a scan that has ended are
/// given back while the statement goes on.
#[test]
fn the_key_ranges_of_all_scans_are_charged_together() {
    let (world, mut s) = world();
    for text in ["CREATE TABLE few (v VARCHAR(700), KEY (v))", "INSERT INTO few VALUES ('x')"] {
        assert!(!failed(&lines(&mut s, text)), "{text}");
    }
    let start = world.db.memory.used();
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    // The keys of a range have some kilobytes, as long as those of the column's values may be.
    let joined = |tables: usize, characters: usize| {
        let key = |n| format!("CONCAT({n}, REPEAT('a', {characters}))");
        let keys = (10..50).map(key).collect::<Vec<_>>().join(", ");
        let join = |n| format!(" LEFT JOIN few AS f{n} ON f{n}.v IN ({keys})");
        format!("SELECT COUNT(*) FROM few AS f{}", (0..tables).map(join).collect::<String>())
    };
    for _ in 0..2 {
        assert_eq!(lines(&mut s, &joined(2, 700)), ["1"]);
        assert_eq!(lines(&mut s, &joined(30, 1)), ["1"]);
        assert_eq!(lines(&mut s, &joined(30, 700)), ["error 3170"]);
        let runs = "SELECT COUNT(*) FROM big WHERE id <= 1000 AND (SELECT COUNT(*) FROM few WHERE \
            v = CONCAT(REPEAT('a', 690), big.id)) = 0";
        assert_eq!(lines(&mut s, runs), ["1000"]);
        assert_eq!((s.state.memory.statement.used(), world.db.memory.used()), (0, start), "MEM-2");
    }
}

/// Tests EVAL-4.
#[test]
fn every_consumer_is_bounded_and_gives_back() {
    let (world, mut s) = world();
    told(&mut s);
    assert_eq!(lines(&mut s, "SET @kept = REPEAT('a', 400000)"), ["ok 0 0"]);
    // The first execution makes a plan that the statement keeps.
    assert_eq!(lines(&mut s, "SET @x = 'a'; EXECUTE three USING @x, @x, @x"), ["ok 0 0", "3"]);
    assert_eq!(lines(&mut s, "SET @x = NULL, @y = NULL, @z = NULL"), ["ok 0 0"]);
    let (start, kept) = (world.db.memory.used(), s.state.memory.kept.used());
    for (bound, space) in [(1 << 20, 0), (1 << 20, 1 << 30), (64 << 20, 1 << 30)] {
        lines(&mut s, &format!("SET redolith_statement_memory = {bound}"));
        lines(&mut s, &format!("SET GLOBAL redolith_temporary_space = {space}"));
        // A statement that needs little shows that under the small limit.
        let steady = if bound == 1 << 20 { STEADY } else { &[] };
        for text in GROWING.iter().chain(SPILLING).chain(steady) {
            let refusals = world.db.memory.refusals();
            let answer = lines(&mut s, text);
            let spills = space > 0 && SPILLING.contains(text);
            if bound > 1 << 20 || spills || STEADY.contains(text) {
                assert!(!failed(&answer), "{bound}: {text}: {:?}", answer.last());
            } else {
                assert_eq!(answer.last().map(|l| &**l), Some("error 3170"), "{text}");
                assert_eq!(world.db.memory.refusals(), refusals + 1);
                let told = lines(&mut s, "SHOW WARNINGS");
                assert!(
                    told.iter()
                        .any(|w| w.contains("of 1048576 bytes for 'redolith_statement_memory'")),
                    "{told:?}"
                );
            }
            for name in ["x", "y", "z"] {
                lines(&mut s, &format!("SET @{name} = NULL"));
            }
            let small = s.state.memory.kept.used() - kept;
            assert!(small < 1000, "{text}: {small}");
            assert_eq!(
                (s.state.memory.statement.used(), world.db.memory.used()),
                (0, start),
                "MEM-2: {text}"
            );
            assert_eq!(world.db.temporary.used(), 0, "{text}");
        }
    }
    assert!(world.db.memory.peak() > 1 << 20);
    let files = lines(&mut s, "SHOW STATUS LIKE 'Created_tmp_files'")[0].clone();
    let made: usize = files.strip_prefix("Created_tmp_files|").unwrap().parse().unwrap();
    assert!(made >= SPILLING.len(), "{files}");
    // The memory that a session keeps has the same limit, for every statement that adds to it.
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    assert_eq!(
        lines(&mut s, "SET @a = REPEAT('a', 400000); SET @b = REPEAT('b', 400000)"),
        ["ok 0 0", "error 3170"]
    );
    assert_eq!(lines(&mut s, "SELECT @b := REPEAT('b', 400000)"), ["error 3170"]);
    assert_eq!(lines(&mut s, "SELECT LENGTH(@a), @b"), ["400000|NULL"]);
    assert_eq!(
        lines(&mut s, "SET @a = NULL; SELECT LENGTH(REPEAT('b', 400000)) INTO @b"),
        ["ok 0 0", "ok 1 0"]
    );
    block_on(s.reset());
    // The texts and plans of prepared statements stay in the cache.
    assert!(world.db.memory.used() < 10_000);
}

/// The rows come in the same order, and are the same, whether they go to a file or not. A space
/// that is too small is an error of that statement, whose file goes.
#[test]
fn rows_in_files_are_the_same_rows() {
    let (world, mut s) = world();
    let texts = [
        "SELECT id, c FROM big ORDER BY c DESC, id % 7, id",
        "SELECT id, c FROM big ORDER BY RIGHT(c, 1) LIMIT 3000, 100",
        "SELECT c, id FROM (SELECT * FROM big ORDER BY id DESC LIMIT 4096) AS d WHERE id % 3 = 0",
        "SELECT a.n, COUNT(*), MIN(d.id) FROM (SELECT 1 AS n UNION_OF_TWO) AS a JOIN (SELECT id, c \
            FROM big) AS d ON d.id % 2 = a.n GROUP BY a.n",
        "SELECT id % 2000 AS g, MAX(c), MAX(id) FROM big GROUP BY g ORDER BY MAX(id) DESC",
    ];
    let texts: Vec<String> =
        texts.iter().map(|t| t.replace(" UNION_OF_TWO", " FROM big LIMIT 2")).collect();
    for text in &texts {
        lines(&mut s, "SET redolith_statement_memory = 67108864");
        let wanted = lines(&mut s, text);
        lines(&mut s, "SET redolith_statement_memory = 4194304");
        assert!(!failed(&wanted) && wanted == lines(&mut s, text), "{text}");
    }
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    lines(&mut s, "SET GLOBAL redolith_temporary_space = 1000000");
    for text in [&texts[0], &texts[2], "INSERT IGNORE INTO big SELECT * FROM big"] {
        assert_eq!(lines(&mut s, text).last().map(|l| &**l), Some("error 1114"), "{text}");
        assert_eq!((world.db.temporary.used(), s.state.memory.statement.used()), (0, 0), "{text}");
    }
    assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM big"), ["4096"]);
}

/// Each reader of a merge has a whole row. If the account has no room for all of them, they are not
/// made.
#[test]
fn merges_of_long_rows_are_charged_before() {
    let (world, mut s) = world();
    let text = "SELECT LENGTH(x) FROM (SELECT id, REPEAT('x', 400000) AS x FROM big ORDER BY id \
        DESC, c LIMIT 40) AS d ORDER BY x, id LIMIT 30, 1";
    let start = world.db.memory.used();
    for (bound, fits) in [(1 << 20, false), (4 << 20, false), (64 << 20, true)] {
        lines(&mut s, &format!("SET redolith_statement_memory = {bound}"));
        world.db.memory.reset_counts();
        let answer = lines(&mut s, text);
        let wanted = if fits { "400000" } else { "error 3170" };
        assert_eq!(answer.last().map(|l| &**l), Some(wanted), "{bound}");
        assert!(world.db.memory.peak() - start <= bound + (64 << 10));
        assert_eq!((s.state.memory.statement.used(), world.db.temporary.used()), (0, 0));
    }
}

/// LIMIT and EXISTS end the part of a UNION that they are satisfied with.
#[test]
fn a_union_makes_no_more_rows_than_are_wanted() {
    let (_world, mut s) = world();
    for text in [
        "SELECT id FROM big UNION ALL SELECT id FROM big LIMIT 2, 3",
        "SELECT EXISTS (SELECT id FROM big UNION ALL SELECT id FROM big)",
    ] {
        lines(&mut s, "FLUSH STATUS");
        assert!(!failed(&lines(&mut s, text)));
        let read = lines(&mut s, "SHOW STATUS LIKE 'Handler_read_rnd_next'")[0].clone();
        let next = lines(&mut s, "SHOW STATUS LIKE 'Handler_read_next'")[0].clone();
        let count = |line: &str| line.rsplit('|').next().unwrap().parse::<u64>().unwrap();
        assert!(count(&read) + count(&next) < 20, "{text}: {read} {next}");
    }
}

/// Rows about the server are charged one by one: when a statement is refused, it holds most of the
/// limit.
#[test]
fn rows_that_the_server_makes_are_charged_one_by_one() {
    let (world, mut s) = world();
    told(&mut s);
    let start = world.db.memory.used();
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    for text in [
        "SELECT COUNT(*) FROM information_schema.COLUMNS",
        "SELECT COUNT(*) FROM information_schema.COLUMNS AS a, information_schema.COLUMNS AS b",
        "SHOW FULL COLUMNS FROM told",
        "SHOW CREATE TABLE told",
    ] {
        world.db.memory.reset_counts();
        assert_eq!(lines(&mut s, text), ["error 3170"], "{text}");
        assert!(world.db.memory.peak() > start + (512 << 10), "{text}: {}", world.db.memory.peak());
        assert_eq!((s.state.memory.statement.used(), world.db.memory.used()), (0, start), "{text}");
    }
    // A prepared SHOW also charges for its parameters.
    let id = block_on(s.prepare(b"SHOW COLUMNS FROM wide0 WHERE Field = ?")).unwrap().id;
    assert_eq!(execute(&mut s, id, &[Value::text("c7")]).len(), 1);
    assert_eq!(s.state.memory.statement.used(), 0);
}

/// Parameters converted to the connection's character set, and copies of variables, are charged
/// while the statement runs. The charge ends if the statement fails.
#[test]
fn copies_of_parameters_are_in_the_account() {
    let (world, mut s) = world();
    lines(
        &mut s,
        "SET @latin = CONVERT(REPEAT('é', 300000) USING latin1), @text = CONCAT('SELECT 1', \
            REPEAT(' ', 1200000))",
    );
    lines(&mut s, "PREPARE two FROM 'SELECT LENGTH(?) + LENGTH(?)'");
    let two = block_on(s.prepare(b"SELECT LENGTH(?) + LENGTH(?)")).unwrap().id;
    // The first execution makes a plan that the statement keeps.
    assert_eq!(lines(&mut s, "SET @a = 'a'; EXECUTE two USING @a, @a"), ["ok 0 0", "2"]);
    for all in [[Value::text("a"), Value::text("b")], [Value::Null, Value::text("b")]] {
        execute(&mut s, two, &all);
    }
    lines(&mut s, "SET character_set_client = latin1");
    let start = world.db.memory.used();
    let latin = |len: usize| Value::owned(vec![0xe9; len]);
    for (bound, fits) in [(1 << 20, false), (64 << 20, true)] {
        lines(&mut s, &format!("SET redolith_statement_memory = {bound}"));
        let (one, other) = (latin(300_000), latin(300_000));
        let all = [
            execute(&mut s, two, &[latin(900_000), Value::Null]),
            execute(&mut s, two, &[one.borrow(), other.borrow()]),
            lines(&mut s, "EXECUTE two USING @latin, @latin"),
            lines(&mut s, "PREPARE p FROM @text"),
        ];
        let expected =
            if fits { ["NULL", "1200000", "1200000", "ok 0 0"] } else { ["error 3170"; 4] };
        assert_eq!(all.concat(), expected);
        assert_eq!(s.state.memory.statement.used(), 0);
        // Parameters that need few or no new bytes have room under either limit.
        assert_eq!(
            execute(&mut s, two, &[Value::owned(vec![b'a'; 900_000]), latin(1000)]),
            ["902000"]
        );
        assert_eq!((s.state.memory.statement.used(), s.binary_params.len()), (0, 0));
        assert_eq!(lines(&mut s, "DEALLOCATE PREPARE p")[0].starts_with("ok"), fits);
        assert_eq!(world.db.memory.used(), start);
    }
    // A failed statement leaves nothing that the next statement could use by mistake.
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    lines(&mut s, "SET @bytes = x'e9'");
    assert_eq!(lines(&mut s, "EXECUTE two USING @bytes, @text"), ["error 3170"]);
    assert_eq!((s.state.memory.statement.used(), s.binary_params.len()), (0, 0));
    // The strings of the rows of a text become values a few at a time.
    let rows = |n: usize| {
        (0..n)
            .map(|n| format!("({}, '\\\"{}')", 100_000 + n, "x".repeat(550)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert_eq!(lines(&mut s, &format!("INSERT INTO copy VALUES {}", rows(3000))), ["error 3170"]);
    assert_eq!(lines(&mut s, &format!("INSERT INTO copy VALUES {}", rows(1000))), ["ok 1000 0"]);
    assert_eq!(s.state.memory.statement.used(), 0);
}

#[test]
fn sessions_together_are_bounded() {
    let (world, mut a) = world();
    let mut b = world.session();
    let start = world.db.memory.used();
    assert_eq!(lines(&mut a, "SET @a = REPEAT('a', 7500000)"), ["ok 0 0"]);
    world.db.memory.set_limit(world.db.memory.used() + (1 << 20));
    let sort = "SELECT c FROM big WHERE id <= 2000 ORDER BY c";
    assert_eq!(lines(&mut b, sort), ["error 3170"]);
    // SHOW can explain the reason even if no memory is left.
    let limit = world.db.memory.limit();
    world.db.memory.set_limit(0);
    for text in ["SHOW GLOBAL STATUS", "SHOW STATUS", "SHOW VARIABLES", "SHOW GLOBAL VARIABLES"] {
        assert!(lines(&mut b, text).len() > 30, "{text}");
    }
    world.db.memory.set_limit(limit);
    assert_eq!(lines(&mut b, sort), ["error 3170"]);
    assert!(lines(&mut b, "SHOW WARNINGS")[0].contains("'redolith_server_memory'"));
    block_on(a.end());
    drop(a);
    assert!(!failed(&lines(&mut b, sort)));
    assert_eq!(world.db.memory.used(), start);
}

/// What is read of a text may take many times its length.
#[test]
fn texts_that_are_read_into_lists_are_charged() {
    let (_world, mut s) = world();
    lines(&mut s, "SET redolith_statement_memory = 16777216");
    for (text, few) in [
        ("SELECT LENGTH(REGEXP_REPLACE('a', '(a)', REPEAT('$1', {})))", "1000"),
        (
            "SELECT GTID_SUBSET(CONCAT('3e11fa47-71ca-11e1-9e33-c80aa9429562', \
                REPEAT(':1', {})), '')",
            "0",
        ),
    ] {
        assert_eq!(lines(&mut s, &text.replace("{}", "1000")), [few]);
        assert_eq!(lines(&mut s, &text.replace("{}", "400000")), ["error 3170"], "{text}");
    }
    assert_eq!(s.state.memory.statement.used(), 0);
}

/// Tests XA-5.
#[test]
fn locks_of_prepared_transactions_stay_charged() {
    let (world, mut s) = world();
    let start = world.db.memory.used();
    let prepares = "SELECT COUNT(*) FROM big FOR UPDATE; XA END 'x'; XA PREPARE 'x'";
    assert!(!failed(&lines(&mut s, &format!("XA START 'x'; {prepares}"))));
    let prepared = world.db.memory.used();
    assert!(prepared - start > 4096 * 64, "{prepared} {start}");
    lines(&mut s, "SELECT 1");
    let mut other = world.session();
    assert!(world.db.memory.used() - start > 4096 * 64);
    assert!(!failed(&lines(&mut other, "XA COMMIT 'x'")));
    assert_eq!(world.db.memory.used(), start);
}

/// As in MySQL, too many locks end the transaction, which releases them.
#[test]
fn locks_are_bounded_and_given_back() {
    let (world, mut s) = world();
    let mut other = world.session();
    let start = world.db.memory.used();
    world.db.memory.set_limit(start + (256 << 10));
    for statements in
        ["SELECT COUNT(*) FROM big FOR UPDATE", "DELETE FROM big", "UPDATE big SET c = 'x'"]
    {
        assert_eq!(
            lines(&mut s, &format!("BEGIN; INSERT INTO copy VALUES (1, 'x'); {statements}"))
                .last()
                .unwrap(),
            "error 1206"
        );
        assert!(!s.status().has(crate::sink::StatusFlags::IN_TRANSACTION));
        assert_eq!(
            (world.server.engine.locks.locked_keys(), s.trx.locks().locks_held()),
            (0, 0),
            "{statements}"
        );
        assert_eq!(lines(&mut other, "SELECT COUNT(*) FROM copy FOR UPDATE"), ["0"]);
        assert_eq!(lines(&mut s, "SELECT COUNT(*), SUM(LENGTH(c)) FROM big"), ["4096|2048000"]);
        assert_eq!(world.db.memory.used(), start);
    }
    // Many statements take few locks each.
    lines(&mut s, "BEGIN");
    let refused = (0..41).find_map(|n| {
        let answer = lines(
            &mut s,
            &format!(
                "SELECT COUNT(*) FROM big WHERE id BETWEEN {} AND {} FOR UPDATE",
                n * 100 + 1,
                n * 100 + 100
            ),
        );
        failed(&answer).then_some((n, answer))
    });
    let (after, answer) = refused.expect("4,096 locks");
    assert!(after > 10 && answer == ["error 1206"], "{after} {answer:?}");
    assert_eq!(lines(&mut other, "SELECT COUNT(*) FROM big FOR UPDATE NOWAIT").len(), 1);
    // Each id takes an empty range of its own. The statement meets no row, so its ranges are
    // counted before the next statement.
    let list = (0..2000).map(|n| (1_000_000 + 2 * n).to_string()).collect::<Vec<_>>().join(", ");
    let ranges = format!("SELECT COUNT(*) FROM big WHERE id IN ({list}) FOR UPDATE");
    // Its plan needs memory as well.
    let limit = world.db.memory.limit();
    assert_eq!(lines(&mut s, &ranges), ["error 3170"]);
    world.db.memory.set_limit(start + (1 << 20));
    assert_eq!(lines(&mut s, &format!("BEGIN; {ranges}")), ["ok 0 0", "0"]);
    world.db.memory.set_limit(limit);
    assert_eq!((s.trx.locks().locks_held(), s.trx.locks().ranges_held()), (0, 2000));
    assert_eq!(lines(&mut s, "SELECT 1"), ["error 1206"]);
    assert_eq!(s.trx.locks().ranges_held(), 0);
    // The locks of a transaction that ends normally are given back, too.
    lines(&mut s, "BEGIN; SELECT COUNT(*) FROM big WHERE id <= 1500 FOR UPDATE; SELECT 1");
    assert!(world.db.memory.used() >= 1500 * 100);
    lines(&mut s, "COMMIT");
    assert_eq!(world.db.memory.used(), start);
}

#[test]
fn savepoints_and_user_locks_are_in_the_account() {
    let (world, mut s) = world();
    let start = world.db.memory.used();
    world.db.memory.set_limit(start + (128 << 10));
    lines(&mut s, "BEGIN");
    let texts = (0..2000).map(|n| format!("SAVEPOINT s{n}")).collect::<Vec<_>>().join("; ");
    let answer = lines(&mut s, &texts);
    assert!(
        answer.len() > 100 && answer.len() < 500 && answer.last().unwrap() == "error 3170",
        "{}",
        answer.len()
    );
    assert_eq!(lines(&mut s, "ROLLBACK TO s50; SAVEPOINT t; COMMIT").len(), 3);
    assert_eq!(world.db.memory.used(), start);
    assert_eq!(
        lines(&mut s, "SELECT COUNT(*) FROM big WHERE GET_LOCK(CONCAT('l', id), 0)"),
        ["error 3170"]
    );
    assert!(world.db.memory.used() > start);
    block_on(s.end());
    assert_eq!(world.db.memory.used(), start);
}

#[test]
fn names_of_prepared_statements_are_in_the_account() {
    let (world, mut s) = world();
    let kept = |s: &Session| s.state.memory.kept.used();
    let prepare = |n: usize| format!("PREPARE s{n} FROM 'SELECT 1'");
    let start = kept(&s);
    for n in 0..100 {
        assert_eq!(lines(&mut s, &prepare(n)), ["ok 0 0"]);
    }
    let full = kept(&s);
    assert!(full >= start + 100 * 64);
    assert_eq!(lines(&mut s, &prepare(99)), ["ok 0 0"]);
    assert_eq!(kept(&s), full);
    assert_eq!(lines(&mut s, "DEALLOCATE PREPARE s99; PREPARE s98 FROM 'SELEC'")[0], "ok 0 0");
    assert!(kept(&s) < full);
    assert_eq!(lines(&mut s, "DEALLOCATE PREPARE s99; SELECT 1"), ["error 1243"]);
    // A statement for whose name there is no memory is closed.
    let count = |world: &World| world.db.prepared_statements.load(Relaxed);
    let before = count(&world);
    s.state.memory.kept.set_limit(kept(&s));
    assert_eq!(lines(&mut s, &prepare(100)), ["error 3170"]);
    assert_eq!(count(&world), before);
    block_on(s.end());
    assert_eq!(kept(&s), 0);
}

#[test]
fn kept_warnings_are_short() {
    let (_world, mut s) = world();
    lines(&mut s, "SELECT COUNT(*) FROM big WHERE CAST(CONCAT('x', REPEAT(c, 200)) AS SIGNED) = 1");
    let kept: Vec<usize> = s.state.warnings.list().iter().map(|w| w.message.len()).collect();
    assert!(kept.len() > 1000 && kept.iter().all(|len| *len < 512), "{:?}", kept.iter().max());
}

/// Warnings stay, and are charged, until the next statement. If there is no memory for them, their
/// number is still known.
#[test]
fn kept_warnings_are_in_the_account() {
    let (world, mut s) = world();
    let start = world.db.memory.used();
    let warns = "SELECT COUNT(*) FROM big WHERE CAST(CONCAT('x', c, c) AS SIGNED) = 1";
    lines(&mut s, warns);
    let kept = s.state.warnings.bytes();
    assert!(kept > 100_000 && world.db.memory.used() >= start + kept, "{kept}");
    assert_eq!(lines(&mut s, "SHOW WARNINGS").len(), 1024);
    assert_eq!(lines(&mut s, "SELECT 1"), ["1"]);
    assert_eq!(world.db.memory.used(), start);
    world.db.memory.set_limit(start + (64 << 10));
    assert_eq!(lines(&mut s, warns), ["0"]);
    assert_eq!(world.db.memory.used(), start);
    assert_eq!(lines(&mut s, "SHOW COUNT(*) WARNINGS"), ["4096"]);
}

/// Tests CACHE-4.
#[test]
fn prepared_statements_are_in_the_account() {
    let (world, mut s) = world();
    let start = world.db.memory.used();
    // The plans are too large for the cache, so only the handle holds each.
    let text = |n: usize| format!("SELECT ? + {n} IN ({})", vec!["1"; 20_000].join(", "));
    let one = block_on(s.prepare(text(0).as_bytes())).unwrap().id;
    let each = world.db.memory.used() - start;
    assert!(each > text(0).len() + 20_000 * 32, "{each}");
    // While a tree is made, the charge for it depends on the length of its text.
    world.db.memory.set_limit(start + 2 * each + each / 2 + 64 * text(0).len());
    let more: Vec<_> =
        (1..5).map(|n| block_on(s.prepare(text(n).as_bytes())).map(|p| p.id)).collect();
    assert_eq!(
        more.iter().map(|p| p.as_ref().map_or_else(|e| e.code, |_| 0)).collect::<Vec<_>>(),
        [0, 0, 3170, 3170]
    );
    // The first execution makes another tree, for the type of its parameter.
    world.db.memory.set_limit(start + 3 * each + each / 2 + 64 * text(0).len());
    assert_eq!(execute(&mut s, one, &[Value::Int(1)]), ["1"]);
    s.close_statement(one);
    let again = block_on(s.prepare(text(3).as_bytes())).unwrap().id;
    assert_eq!(execute(&mut s, again, &[Value::Int(-2)]), ["1"]);
    block_on(s.end());
    assert_eq!(world.db.memory.used(), start);
}

/// The first execution makes a plan for the types of the parameters. Statements that share a text
/// do not share these plans.
#[test]
fn plans_for_types_of_parameters_are_in_the_account() {
    let (world, mut s) = world();
    let text = format!("SELECT ? + 1 IN ({})", vec!["1"; 100].join(", "));
    let prepare = |s: &mut Session| block_on(s.prepare(text.as_bytes())).unwrap().id;
    prepare(&mut s);
    let start = world.db.memory.used();
    let all: Vec<u32> = (0..200).map(|_| prepare(&mut s)).collect();
    assert!(world.db.memory.used() - start < 200 << 10, "one plan for all");
    for id in &all {
        assert_eq!(execute(&mut s, *id, &[Value::Int(0)]), ["1"]);
    }
    let used = world.db.memory.used() - start;
    assert!(used > 200 * 100 * 64, "{used}");
    all.iter().for_each(|id| s.close_statement(*id));
    assert_eq!(world.db.memory.used(), start);
}

/// The plan of a text is in the account while it runs, if the cache did not have it.
#[test]
fn a_plan_that_runs_is_in_the_account() {
    let (_world, mut s) = world();
    for (text, again) in [("SELECT 1 + id FROM big", false), ("EXPLAIN SELECT 1", true)] {
        for made in [true, again] {
            let mut parameterized = Parameterized::default();
            s.parameterize(&mut parameterized, text.as_bytes(), 0).unwrap();
            let before = s.state.memory.text.used();
            let plan = block_on(s.text_plan(text.as_bytes(), 0, &parameterized)).unwrap();
            let charged = s.state.memory.text.used() - before;
            assert_eq!(charged, if made { plan.bytes() } else { 0 }, "{text}");
        }
    }
}

/// Copies of an expression share its subquery, which is in memory once, and is looked at and run
/// once: else this text of a kilobyte would take more time than there is.
#[test]
fn a_subquery_with_many_names_is_one_subquery() {
    let (_world, mut s) = world();
    let condition = ["x"; 10].join(" AND ");
    let text = (0..14).fold("SELECT 1".to_string(), |inner, _| {
        format!("SELECT ({inner}) AS x FROM few HAVING {condition}")
    });
    assert_eq!(lines(&mut s, "CREATE TABLE few (a INT); INSERT INTO few VALUES (1)").len(), 2);
    let mut parameterized = Parameterized::default();
    s.parameterize(&mut parameterized, text.as_bytes(), 0).unwrap();
    let plan = block_on(s.text_plan(text.as_bytes(), 0, &parameterized)).unwrap();
    assert!(plan.bytes() < 1 << 20, "{}", plan.bytes());
    assert_eq!(lines(&mut s, &text), ["1"]);
    assert_eq!(lines(&mut s, &format!("EXPLAIN {text}")).len(), 15);
    assert_eq!(lines(&mut s, &format!("INSERT INTO few {text}")), ["ok 1 0"]);
}
