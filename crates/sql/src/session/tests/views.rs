//! Views: what a text becomes, which views are merged, and views that use views without end.
use super::{World, lines};
use crate::plan::{SourceKind, Statement};
use crate::session::Session;

fn all(s: &mut Session, texts: &[&str]) {
    for text in texts {
        let got = lines(s, text);
        assert!(!got.iter().any(|line| line.starts_with("error")), "{text}: {got:?}");
    }
}
/// The text of a view's SELECT.
fn kept(w: &World, name: &str) -> String {
    w.server.engine.dict.view("test", name).unwrap().def.select.clone()
}

/// Tests VTEXT-1.
#[test]
fn the_text_names_what_it_means() {
    let w = World::new();
    let mut s = w.session();
    all(
        &mut s,
        &[
            "CREATE TABLE t (a INT, b VARCHAR(9))",
            "CREATE TABLE u (c INT)",
            "CREATE DATABASE other",
            "CREATE TABLE other.t (a INT)",
        ],
    );
    for (select, text) in [
        ("SELECT * FROM t", "select `t`.`a` AS `a`,`t`.`b` AS `b` from `test`.`t`"),
        (
            "select a+1, (b)from t where(a)>1 -- no more",
            "select `t`.`a`+1 AS `a+1`, `t`.`b` AS `b` from `test`.`t` where `t`.`a`>1",
        ),
        (
            "SELECT x.*, 'it''s' FROM t x /* all */ , u",
            "select `x`.`a` AS `a`,`x`.`b` AS `b`, 'it''s' AS `it's` from `test`.`t` x , \
             `test`.`u`",
        ),
        (
            "SELECT t.a, (SELECT MAX(c) FROM u WHERE c < a) AS m FROM t ORDER BY m, t.b",
            "select `t`.`a` AS `a`, (select MAX(`u`.`c`) AS `MAX(c)` from `test`.`u` where `u`.`c` \
             < `t`.`a`) AS m from `test`.`t` order by m, `t`.`b`",
        ),
        (
            "SELECT t.a AS p, ot.a AS q FROM t JOIN other.t ot",
            "select `t`.`a` AS p, `ot`.`a` AS q from `test`.`t` join `other`.`t` ot",
        ),
        (
            "SELECT `a` x FROM t GROUP BY x HAVING x > 1 UNION TABLE u",
            "select `t`.`a` x from `test`.`t` group by x having x > 1 union select `u`.`c` AS `c` \
             from `test`.`u`",
        ),
        (
            "WITH w AS (SELECT a FROM t) SELECT * FROM w",
            "with w AS (select `t`.`a` AS `a` from `test`.`t`) select `w`.`a` AS `a` from w",
        ),
    ] {
        all(&mut s, &[&format!("CREATE OR REPLACE VIEW v AS {select}")]);
        assert_eq!(kept(&w, "v"), text, "{select}");
        // The text is a definition of the same.
        all(&mut s, &["SELECT * FROM v", &format!("CREATE OR REPLACE VIEW v2 AS {text}")]);
        assert_eq!(kept(&w, "v2").to_lowercase(), text.to_lowercase(), "{select}");
    }
    all(&mut s, &["SET NAMES latin1"]);
    let mut out = super::Lines::default();
    let text = b"CREATE OR REPLACE VIEW v AS SELECT '\xe9' AS e, _latin1'\xe9' AS f";
    redolith_engine::runtime::block_on(s.query(text, &mut out));
    assert_eq!(kept(&w, "v"), "select 'é' AS e, _latin1 x'E9' AS f");
    let mut utf8 = w.session();
    assert_eq!(lines(&mut utf8, "SELECT HEX(e), HEX(f) FROM v")[..1], ["E9|E9"]);
}

/// Tests VTEXT-1: a text means the same in each mode, and is kept as the same text.
#[test]
fn the_text_does_not_depend_on_the_mode() {
    let w = World::new();
    let mut s = w.session();
    all(&mut s, &["CREATE TABLE t (a INT, b INT)", "INSERT INTO t VALUES (0, 1), (1, 0), (1, 2)"]);
    let modes = ["", "PIPES_AS_CONCAT", "HIGH_NOT_PRECEDENCE", "ANSI,HIGH_NOT_PRECEDENCE"];
    for (select, mode, text) in [
        ("SELECT a || b x FROM t", "", "select `t`.`a` or `t`.`b` x from `test`.`t`"),
        (
            "SELECT a||b x FROM t",
            "PIPES_AS_CONCAT",
            "select concat(`t`.`a`,`t`.`b`) x from `test`.`t`",
        ),
        (
            "SELECT(a)||-b||1 + 2 x FROM t",
            "PIPES_AS_CONCAT",
            "select concat(`t`.`a`,-`t`.`b`,1) + 2 x from `test`.`t`",
        ),
        (
            "SELECT a || 'x' COLLATE utf8mb4_bin || b x FROM t",
            "PIPES_AS_CONCAT",
            "select concat(`t`.`a`, 'x' collate utf8mb4_bin, `t`.`b`) x from `test`.`t`",
        ),
        (
            "SELECT NOT a BETWEEN 0 AND 0 x FROM t",
            "",
            "select (not (`t`.`a` between 0 and 0)) x from `test`.`t`",
        ),
        (
            "SELECT NOT a BETWEEN 0 AND 0 x FROM t",
            "HIGH_NOT_PRECEDENCE",
            "select (not (`t`.`a`)) between 0 and 0 x from `test`.`t`",
        ),
        (
            "SELECT NOT NOT a = 2 AND NOT(b)OR a IS NOT NULL x FROM t WHERE NOT EXISTS (TABLE t)",
            "",
            "select (not ((not (`t`.`a` = 2)))) and (not(`t`.`b`))or `t`.`a` is not null x from \
             `test`.`t` where (not (exists (select `t`.`a` AS `a`,`t`.`b` AS `b` from \
             `test`.`t`)))",
        ),
        (
            "SELECT NOT a || b x, \"a\" = -b y FROM t",
            "ANSI,HIGH_NOT_PRECEDENCE",
            "select concat((not (`t`.`a`)), `t`.`b`) x, `t`.`a` = -`t`.`b` y from `test`.`t`",
        ),
        (
            "SELECT cast(a AS REAL) x FROM t",
            "REAL_AS_FLOAT",
            "select cast(`t`.`a` AS float) x from `test`.`t`",
        ),
        ("SELECT cast(a AS REAL) x FROM t", "", "select cast(`t`.`a` AS double) x from `test`.`t`"),
    ] {
        all(&mut s, &[&format!("SET sql_mode = '{mode}'")]);
        let rows = lines(&mut s, select);
        all(&mut s, &[&format!("CREATE OR REPLACE VIEW v AS {select}")]);
        assert_eq!(kept(&w, "v"), text, "{select} in {mode:?}");
        for mode in modes {
            all(&mut s, &[&format!("SET sql_mode = '{mode}'")]);
            all(&mut s, &[&format!("CREATE OR REPLACE VIEW again AS {text}")]);
            for view in ["v", "again"] {
                assert_eq!(lines(&mut s, &format!("TABLE {view}")), rows, "{select} in {mode:?}");
            }
            // What is in parentheses already gets no more of them that matter.
            assert_eq!(kept(&w, "again").replace(['(', ')'], ""), text.replace(['(', ')'], ""));
        }
    }
}

/// Tests VBIND-1 and VBIND-2: the sources of a query over views.
#[test]
fn plain_views_are_merged() {
    let w = World::new();
    let mut s = w.session();
    all(
        &mut s,
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
            "CREATE VIEW p AS SELECT id, a + 1 AS more FROM t WHERE a > 0",
            "CREATE VIEW pp AS SELECT p.id AS i, q.more FROM p JOIN p AS q USING (id)",
            "CREATE VIEW c AS SELECT id, a FROM t WHERE a > 0",
            "CREATE VIEW g AS SELECT COUNT(*) AS n FROM t",
            "CREATE ALGORITHM = TEMPTABLE VIEW m AS SELECT id FROM t",
        ],
    );
    let mut kinds = |text: &str| -> String {
        let mut parameterized = crate::parse::parameterize::Parameterized::default();
        s.parameterize(&mut parameterized, text.as_bytes(), 0).unwrap();
        let plan =
            redolith_engine::runtime::block_on(s.text_plan(text.as_bytes(), 0, &parameterized));
        let plan = plan.unwrap();
        let Statement::Select(select) = &plan.body else { panic!("{text}") };
        let kind = |source: &crate::plan::Source| match source.kind {
            SourceKind::Table(_) => 't',
            SourceKind::Derived(_) => 'd',
            _ => '?',
        };
        select.sources.iter().map(kind).collect()
    };
    for (from, expected) in [
        ("p", "t"),
        ("pp", "tt"),
        ("pp, t", "ttt"),
        ("pp JOIN pp AS other", "tttt"),
        ("g", "d"),
        ("m", "d"),
        ("t LEFT JOIN p ON t.id = p.id", "td"),
        ("t LEFT JOIN c ON t.id = c.id", "tt"),
        ("c RIGHT JOIN t ON t.id = c.id", "tt"),
    ] {
        assert_eq!(kinds(&format!("SELECT COUNT(*) FROM {from}")), expected, "{from}");
    }
}

/// Each view uses the one before twice: the thirtieth would be a thousand million tables.
#[test]
fn views_that_double_end_at_the_memory_limit() {
    let w = World::new();
    let mut s = w.session();
    all(
        &mut s,
        &[
            "SET parser_max_mem_size = 10000000",
            "CREATE TABLE t (a INT)",
            "CREATE VIEW v0 AS SELECT a FROM t",
        ],
    );
    for (name, select) in [
        ("join", "SELECT x.a FROM {v} x JOIN {v} y ON x.a = y.a"),
        ("expression", "SELECT a + a AS a FROM {v}"),
        ("union", "SELECT a FROM {v} UNION ALL SELECT a FROM {v}"),
        ("subquery", "SELECT a FROM {v} WHERE a IN (SELECT a FROM {v})"),
    ] {
        let refused = (1..40).find_map(|n| {
            let select = select.replace("{v}", &format!("v{}", n - 1));
            let made = lines(&mut s, &format!("CREATE OR REPLACE VIEW v{n} AS {select}"));
            (!made[0].starts_with("ok")).then_some((n, made))
        });
        if name == "expression" {
            // From a height on, the expression is that of a derived table, which does not double.
            assert_eq!(refused, None, "{name}");
            continue;
        }
        let (n, error) = refused.expect(name);
        assert!(n > 4 && error == ["error 3170"], "{name} {n}: {error:?}");
    }
}

/// Tests VBIND-3: RENAME can make a view that names itself; no statement runs for ever.
#[test]
fn a_view_that_names_itself_is_an_error() {
    let w = World::new();
    let mut s = w.session();
    all(
        &mut s,
        &[
            "CREATE TABLE a (x INT)",
            "CREATE VIEW b AS SELECT x FROM a",
            "CREATE VIEW c AS SELECT x FROM b",
            "DROP TABLE a",
            "RENAME TABLE c TO a",
        ],
    );
    for text in ["SELECT * FROM a", "SELECT * FROM b", "DELETE FROM a", "SHOW COLUMNS FROM a"] {
        assert_eq!(lines(&mut s, text), ["error 1462"], "{text}");
    }
    all(&mut s, &["DROP VIEW a, b"]);
}

/// Tests VIEWDEF-2: a transaction that reads a view keeps its definition, and a plan of the old
/// definition is made again.
#[test]
fn plans_follow_the_definition() {
    let w = World::new();
    let (mut a, mut b) = (w.session(), w.session());
    all(
        &mut a,
        &[
            "CREATE TABLE t (x INT, y INT)",
            "INSERT INTO t VALUES (1, 2)",
            "CREATE VIEW v AS SELECT x AS n FROM t",
        ],
    );
    assert_eq!(lines(&mut b, "SELECT n FROM v")[0], "1");
    all(&mut a, &["CREATE OR REPLACE VIEW v AS SELECT y AS n FROM t"]);
    assert_eq!(lines(&mut b, "SELECT n FROM v")[0], "2");
    all(&mut b, &["BEGIN", "SELECT n FROM v"]);
    all(&mut a, &["SET lock_wait_timeout = 1"]);
    assert_eq!(lines(&mut a, "DROP VIEW v"), ["error 1205"]);
    all(&mut b, &["COMMIT"]);
    all(&mut a, &["DROP VIEW v", "CREATE TABLE v (n INT)"]);
    assert_eq!(lines(&mut b, "SELECT COUNT(*), MAX(n) FROM v")[0], "0|NULL");
}

/// Tests VDML-1 and VDML-2: what is found, what can be set, and what is checked.
#[test]
fn rows_are_changed_through_views() {
    let w = World::new();
    let mut s = w.session();
    all(
        &mut s,
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, big TEXT)",
            "INSERT INTO t VALUES (1, 1, ''), (2, 20, ''), (3, 3, '')",
            "CREATE VIEW v AS SELECT id, a, a * 2 AS twice FROM t WHERE a < 10",
            "CREATE VIEW c AS SELECT id, a FROM t WHERE a < 10 WITH CHECK OPTION",
            "CREATE VIEW b AS SELECT id, big FROM t WHERE big = '' WITH CHECK OPTION",
            "UPDATE v SET a = a + 1 WHERE twice < 5",
            "DELETE FROM v WHERE id IN (2, 3)",
        ],
    );
    assert_eq!(lines(&mut s, "SELECT id, a FROM t ORDER BY id")[..2], ["1|2", "2|20"]);
    for (text, error) in [
        ("UPDATE v SET twice = 1", "error 1348"),
        ("INSERT INTO v (id) VALUES (9)", "error 1471"),
        ("UPDATE c SET a = a + 8", "error 1369"),
        ("INSERT INTO c VALUES (4, 9), (5, 10)", "error 1369"),
        ("INSERT INTO c VALUES (1, 1) ON DUPLICATE KEY UPDATE a = 3", "error 1235"),
        ("UPDATE b SET big = 'x'", "error 1235"),
    ] {
        assert_eq!(lines(&mut s, text), [error], "{text}");
    }
    assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM t")[0], "2");
}
