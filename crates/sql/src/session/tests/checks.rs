//! CHECK constraints: their text, the limits of their conditions, and names that sessions want at
//! the same time.
use super::{World, execute, lines};
use redolith_engine::runtime::block_on;
use redolith_types::Value;
use std::sync::Barrier;

/// The conditions of the table's constraints.
fn kept(w: &World, table: &str) -> Vec<String> {
    let table = w.server.engine.dict.table("test", table).unwrap();
    table.def.checks.iter().map(|check| check.condition.clone()).collect()
}

/// Tests CHECKTEXT-1 and CONSTRAINT-1: a table that is made from its own SHOW CREATE TABLE has the
/// same conditions, whatever the modes of both sessions are.
#[test]
fn the_text_of_a_condition_makes_the_same_condition() {
    let w = World::new();
    let mut s = w.session();
    let conditions = [
        "a > 0",
        "NOT a > 0",
        "a - (b - 1) > -b * (a + 2)",
        "(a = 1) = (b = 2)",
        "(-a) COLLATE utf8mb4_bin <> 'x'",
        "-(a) > - -b",
        "a BETWEEN b AND b + 1 AND (a OR b) XOR a",
        "a IN (1, 2) OR b NOT IN (a, NULL) IS NOT FALSE",
        "c LIKE '\\\\%' OR c NOT LIKE 'a|%' ESCAPE '|'",
        "c = '\\'\"\\n\\0' OR c = _binary'\\Z' OR c = x'00FF' OR c = N'n'",
        "(3 MEMBER OF (j)) + 1 > j->>'$[1]'",
        "d - INTERVAL '1 2' DAY_HOUR < TIMESTAMP'2020-02-02 02:02:02'",
        "CAST(a AS DECIMAL(5, 2)) <=> CONVERT(c, UNSIGNED) AND BINARY c > CAST(c AS CHAR(3))",
        "IF(a, b, CASE WHEN a THEN 1 WHEN b IS NULL THEN 2 END) IS TRUE",
        "TRIM(c) = TRIM(BOTH 'x' FROM c) AND SUBSTRING(c FROM 2 FOR 1) <> LEFT(c, 1)",
        "POSITION('x' IN c) > 1 OR CHAR(97 USING latin1) = c OR 'a' 'b' = c",
        "(a, b) = (1, 2) OR ROW(a, b) > (3, 4)",
        "`t`.`a` > test.t.b",
    ];
    for condition in conditions {
        for mode in ["''", "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE'"]
        {
            lines(&mut s, "SET sql_mode = ''");
            let columns = "a INT, b INT, c VARCHAR(9), d DATETIME, j JSON";
            let made = lines(&mut s, &format!("CREATE TABLE t ({columns}, CHECK ({condition}))"));
            if made == ["error 1235"] {
                // The server has no such comparison of rows.
                continue;
            }
            assert_eq!(made, ["ok 0 0"], "{condition}");
            let before = kept(&w, "t");
            let shown = lines(&mut s, "SHOW CREATE TABLE t").remove(0);
            let text = shown.split_once('|').unwrap().1.to_string();
            assert_eq!(lines(&mut s, "DROP TABLE t"), ["ok 0 0"]);
            // SHOW has the text for a session whose mode has backslashes as escapes.
            assert_eq!(lines(&mut s, &text), ["ok 0 0"], "{text}");
            assert_eq!(kept(&w, "t"), before);
            lines(&mut s, &format!("SET sql_mode = {mode}"));
            let written = lines(&mut s, "INSERT INTO t VALUES (1, 2, '3', NULL, '[3]')");
            lines(&mut s, "SET sql_mode = ''");
            assert_eq!(lines(&mut s, "DELETE FROM t").len(), 1);
            let again = lines(&mut s, "INSERT INTO t VALUES (1, 2, '3', NULL, '[3]')");
            assert_eq!(written, again, "{condition} in {mode}");
            lines(&mut s, "DROP TABLE t");
        }
    }
}

/// Tests CONSTRAINT-2.
#[test]
fn a_condition_needs_nothing_but_the_row() {
    let w = World::new();
    let mut s = w.session();
    for (condition, code) in [
        ("a > NOW()", 3814),
        ("a > UNIX_TIMESTAMP()", 3814),
        ("a > UNIX_TIMESTAMP('2020-02-02')", 0),
        ("a = CONNECTION_ID() OR USER() = ''", 3814),
        ("a = LAST_INSERT_ID() OR UUID() = ''", 3814),
        ("a > @x", 3816),
        ("a = (@x := 1)", 3816),
        ("a > @@sql_mode", 3816),
        ("a > ALL (SELECT 1)", 3815),
        ("EXISTS (SELECT 1)", 3815),
        ("COUNT(*) > 1", 3814),
        ("ROW_NUMBER() OVER () > 1", 3814),
        ("VALUES(a) > 1", 3814),
        ("a > DEFAULT", 3814),
        ("SLEEP(1) = a", 3814),
        ("a + 1", 3812),
        ("COALESCE(a, 1)", 3812),
        ("c > 1", 3820),
        ("u.a > 1", 3820),
        ("ABS(a, a) > 1", 1582),
        ("a COLLATE nonsense = 'x'", 1273),
        ("JSON_VALUE(a, '$') = 1", 1235),
    ] {
        let made = lines(&mut s, &format!("CREATE TABLE t (a INT, CHECK ({condition}))"));
        let expected = if code == 0 { "ok 0 0".into() } else { format!("error {code}") };
        assert_eq!(made, [expected], "{condition}");
        lines(&mut s, "DROP TABLE IF EXISTS t");
    }
    // A parameter is as little a part of the row.
    let refused = block_on(s.prepare(b"CREATE TABLE t (a INT, CHECK (a > ?))"));
    let code = match refused {
        Err(e) => e.code,
        Ok(prepared) => {
            let got = execute(&mut s, prepared.id, &[Value::Int(1)]);
            got[0].strip_prefix("error ").map_or(0, |code| code.parse().unwrap())
        }
    };
    assert_eq!(code, 3815);
}

/// Tests CONSTRAINT-3: of sessions that want one name at the same time, one gets it.
#[test]
fn one_session_gets_a_name() {
    const SESSIONS: usize = 4;
    let w = World::new();
    let together = Barrier::new(SESSIONS);
    let run = |n: usize| {
        let mut s = w.session();
        let mut made = Vec::new();
        for round in 0..20 {
            lines(&mut s, &format!("CREATE TABLE own{n} (a INT)"));
            together.wait();
            let text = match (n + round) % SESSIONS {
                0 => format!("CREATE TABLE t{n} (a INT, CONSTRAINT same CHECK (a > 0))"),
                1 => format!("CREATE TABLE t{n} (CONSTRAINT Same CHECK (a > 0)) SELECT 1 AS a"),
                2 => format!("ALTER TABLE own{n} ADD CONSTRAINT SAME CHECK (a > 0)"),
                _ => format!("ALTER TABLE own{n} ADD b INT CONSTRAINT same CHECK (b > 0)"),
            };
            let got = lines(&mut s, &text);
            let is_made = got[0].starts_with("ok");
            assert!(is_made || got == ["error 3822"], "{text}: {got:?}");
            together.wait();
            made.push(is_made as usize);
            lines(&mut s, &format!("DROP TABLE IF EXISTS t{n}, own{n}"));
        }
        made
    };
    let run = &run;
    let made: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SESSIONS).map(|n| scope.spawn(move || run(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for round in 0..20 {
        assert_eq!(made.iter().map(|m| m[round]).sum::<usize>(), 1, "round {round}");
    }
}

/// A plan that was made before a constraint came is not used after.
#[test]
fn a_prepared_statement_meets_new_constraints() {
    let w = World::new();
    let (mut s, mut other) = (w.session(), w.session());
    lines(&mut s, "CREATE TABLE t (id INT PRIMARY KEY, a INT)");
    let insert = block_on(s.prepare(b"INSERT INTO t VALUES (?, ?)")).unwrap().id;
    let row = |id, a| [Value::Int(id), Value::Int(a)];
    assert_eq!(execute(&mut s, insert, &row(1, 1)), ["ok 1 0"]);
    assert_eq!(lines(&mut other, "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)"), ["ok 1 0"]);
    assert_eq!(execute(&mut s, insert, &row(2, 0)), ["error 3819"]);
    assert_eq!(lines(&mut other, "ALTER TABLE t ALTER CHECK c NOT ENFORCED"), ["ok 0 0"]);
    assert_eq!(execute(&mut s, insert, &row(2, 0)), ["ok 1 0"]);
}

/// A dictionary whose text of a condition is damaged gives errors.
#[test]
fn a_damaged_condition_is_an_error() {
    let w = World::new();
    let mut s = w.session();
    lines(&mut s, "CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 0))");
    for condition in
        ["", "(", "1), (2", "SLEEP(9)", "(SELECT 1)", "@x", "`gone` > 1", "1; DROP TABLE t"]
    {
        let old = w.server.engine.dict.table("test", "t").unwrap();
        let mut def = old.def.clone();
        def.checks[0].condition = condition.into();
        let to = redolith_engine::dict::alter::Alteration {
            def,
            added: 0,
            dropped: Vec::new(),
            auto_increment: None,
            record: None,
        };
        let kill = redolith_engine::lock::KillFlag::new();
        let how = redolith_engine::dict::index_build::Building::in_memory(kill);
        block_on(w.server.engine.alter_table(&old, to, &how)).unwrap();
        for text in ["INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "REPLACE t SELECT 1"] {
            assert!(lines(&mut s, text)[0].starts_with("error"), "{condition}: {text}");
        }
        assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM t"), ["0"]);
    }
    assert_eq!(lines(&mut s, "ALTER TABLE t DROP CHECK c"), ["ok 0 0"]);
    assert_eq!(lines(&mut s, "DROP TABLE t"), ["ok 0 0"]);
}
