//! EXPLAIN in all its forms.
use super::{World, execute, lines};
use crate::session::Session;
use crate::status::Counter;
use redolith_engine::runtime::block_on;
use redolith_types::{Value, json};

fn world() -> (World, Session) {
    let w = World::new();
    let mut s = w.session();
    for text in [
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(10), KEY a (a), \
            KEY bc (b, c))",
        "CREATE TABLE u (id INT PRIMARY KEY, a INT, x INT, KEY a (a))",
        "CREATE TABLE v (id INT PRIMARY KEY, y INT, j JSON)",
        "INSERT INTO t VALUES (1,1,1,'a'),(2,2,2,'b'),(3,3,3,'c'),(4,4,4,'d')",
        "INSERT INTO u VALUES (1,1,1),(2,2,2),(3,3,3),(5,5,5)",
        "INSERT INTO v VALUES (1,1,'[1,2]'),(2,2,'[3]'),(3,3,NULL)",
        "ANALYZE TABLE t, u, v",
    ] {
        lines(&mut s, text);
    }
    (w, s)
}

fn one(s: &mut Session, text: &str) -> String {
    let mut answer = lines(s, text);
    assert_eq!(answer.len(), 1, "{text} {answer:?}");
    answer.remove(0)
}

/// A tree without estimates and times.
fn shape(tree: &str) -> Vec<String> {
    let cut = |line: &str, from: &str, to: &str| match line.find(from) {
        Some(start) => {
            let rest = &line[start + from.len()..];
            format!("{}{}", &line[..start], &rest[rest.find(to).unwrap() + to.len()..])
        }
        None => line.to_string(),
    };
    assert!(tree.ends_with('\n'), "{tree}");
    let numbers = |line: &str| {
        let line = cut(&cut(line, "  (cost=", ")"), "actual ", " ");
        line.replace("  (", " (")
    };
    tree.lines().map(numbers).collect()
}

/// What is wrong with a tree.
fn wrong(s: &mut Session, text: &str, expected: &[&str]) -> Option<String> {
    let tree = one(s, text);
    (shape(&tree) != expected).then(|| format!("{text}\n{tree}"))
}
#[track_caller]
fn check_all(s: &mut Session, explain: &str, list: &[(&str, &[&str])]) {
    let wrong =
        |(text, expected): &(&str, &[&str])| wrong(s, &format!("{explain} {text}"), expected);
    let wrong: Vec<String> = list.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Debug builds have larger frames than those for which the stack of a session is.
fn on_a_large_stack(test: fn()) {
    let thread = std::thread::Builder::new().stack_size(4 * crate::LEAST_STACK_BYTES);
    thread.spawn(test).unwrap().join().unwrap();
}

/// Whether a text is a JSON document of any depth.
fn is_document(text: &str) -> bool {
    fn value(text: &[u8], at: &mut usize) -> Option<()> {
        let is_space = |at: &usize| text.get(*at).is_some_and(u8::is_ascii_whitespace);
        let skip = |at: &mut usize| {
            while is_space(at) {
                *at += 1
            }
        };
        skip(at);
        match *text.get(*at)? {
            open @ (b'{' | b'[') => {
                *at += 1;
                loop {
                    if open == b'{' {
                        value(text, at).filter(|()| text[*at - 1] == b'"')?;
                        *at += 1;
                        text.get(*at - 1).filter(|b| **b == b':')?;
                    }
                    value(text, at)?;
                    skip(at);
                    *at += 1;
                    match text.get(*at - 1)? {
                        b',' => {}
                        close => return (*close == open + 2).then_some(()),
                    }
                }
            }
            _ => {
                let mut stream = text[*at..].iter();
                let len = match text[*at] {
                    b'"' => {
                        let mut escaped = true;
                        1 + stream.position(|b| {
                            let ends = *b == b'"' && !escaped;
                            escaped = *b == b'\\' && !escaped;
                            ends
                        })?
                    }
                    _ => stream.take_while(|b| b.is_ascii_alphanumeric() || **b == b'-').count(),
                };
                let token = &text[*at..*at + len];
                *at += len;
                json::parse(token).ok().map(|_| ())
            }
        }
    }
    let mut at = 0;
    value(text.as_bytes(), &mut at).is_some() && at == text.len()
}

/// EXPLAIN-1: asserts that the document is one, and returns it.
#[track_caller]
fn document(s: &mut Session, text: &str) -> String {
    let document = one(s, &format!("EXPLAIN FORMAT=JSON {text}"));
    assert!(document.starts_with("{\n  \"query_block\": {"), "{text}\n{document}");
    assert!(is_document(&document), "{text}\n{document}");
    document
}

#[test]
fn trees_have_the_operators() {
    let (_w, mut s) = world();
    let list: &[(&str, &[&str])] = &[
        ("SELECT 1", &["-> Rows fetched before execution"]),
        ("TABLE t", &["-> Table scan on t"]),
        ("SELECT * FROM t WHERE id = 1", &["-> Single-row index lookup on t using PRIMARY (id=1)"]),
        (
            "SELECT a FROM t WHERE a IN (1, 2, 3, 4) AND c LIKE 'x''%'",
            &[
                "-> Filter: (t.c like 'x''%')",
                "    -> Index range scan on t using a over (a = 1) OR (a = 2) OR (2 more)",
            ],
        ),
        (
            "SELECT b, c FROM t WHERE b = 2 AND c > 'a' AND c <= 'q'",
            &["-> Covering index range scan on t using bc over (b = 2 AND 'a' < c <= 'q')"],
        ),
        ("SELECT a FROM t ORDER BY a DESC", &["-> Covering index scan on t using a (reverse)"]),
        (
            "SELECT u.id, u.x FROM u JOIN v ON u.x = v.y AND v.id <> u.a + 1 WHERE u.id > 0 \
                ORDER BY u.x DESC LIMIT 2, 3",
            &[
                "-> Limit/Offset: 3/2 row(s)",
                "    -> Sort: u.x DESC, limit input to 3+2 row(s) per chunk",
                "        -> Inner hash join (v.y = u.x), extra conditions: (v.id <> (u.a + 1))",
                "            -> Index range scan on u using PRIMARY over (0 < id)",
                "            -> Hash",
                "                -> Table scan on v",
            ],
        ),
        (
            "SELECT t.id FROM t LEFT JOIN u ON u.a = t.a AND u.x > 1 WHERE u.id IS NULL",
            &[
                "-> Filter: (u.id is null)",
                "    -> Nested loop left join",
                "        -> Table scan on t",
                "        -> Filter: (u.x > 1)",
                "            -> Index lookup on u using a (a=t.a)",
            ],
        ),
        (
            "SELECT t.id FROM t LEFT JOIN u ON u.x = t.b AND u.a + 0 > 0",
            &[
                "-> Left hash join (u.x = t.b)",
                "    -> Table scan on t",
                "    -> Hash",
                "        -> Filter: ((u.a + 0) > 0)",
                "            -> Table scan on u",
            ],
        ),
        (
            "SELECT a, COUNT(*), SUM(b + 1) FROM t GROUP BY a HAVING COUNT(*) > 1 ORDER BY 2",
            &[
                "-> Sort: count(0)",
                "    -> Filter: (count(0) > 1)",
                "        -> Table scan on <temporary>",
                "            -> Aggregate using temporary table",
                "                -> Table scan on t",
            ],
        ),
        (
            "SELECT a, COUNT(DISTINCT id), GROUP_CONCAT(id ORDER BY id DESC) FROM t GROUP BY a",
            &[
                "-> Group aggregate: count(distinct t.id), \
                    group_concat(t.id order by t.id DESC separator ',')",
                "    -> Covering index scan on t using a",
            ],
        ),
        (
            "SELECT b FROM t GROUP BY b WITH ROLLUP HAVING GROUPING(b) = 0",
            &[
                "-> Sort: grouping(t.b), t.b",
                "    -> Filter: (grouping(t.b) = 0)",
                "        -> Table scan on <temporary>",
                "            -> Aggregate using temporary table with rollup",
                "                -> Table scan on t",
            ],
        ),
        (
            "SELECT DISTINCT x FROM u",
            &[
                "-> Table scan on <temporary>",
                "    -> Temporary table with deduplication",
                "        -> Table scan on u",
            ],
        ),
        (
            "SELECT id, (SELECT MAX(x) FROM u WHERE u.a = t.a) FROM t \
                WHERE EXISTS (SELECT 1 FROM v WHERE v.y = t.b) AND t.b + 1 IN (SELECT y FROM v)",
            &[
                "-> Filter: (((t.b + 1) in (select #3)) and exists(select #4))",
                "    -> Table scan on t",
                "    -> Select #3 (subquery in condition; run only once)",
                "        -> Table scan on v",
                "    -> Select #4 (subquery in condition; dependent)",
                "        -> Filter: (v.y = t.b)",
                "            -> Table scan on v",
                "-> Select #2 (subquery in projection; dependent)",
                "    -> Aggregate: max(u.x)",
                "        -> Index lookup on u using a (a=t.a)",
            ],
        ),
        (
            "SELECT d.n FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS d WHERE d.n > 1",
            &[
                "-> Filter: (d.n > 1)",
                "    -> Table scan on d",
                "        -> Materialize",
                "            -> Group aggregate: count(0)",
                "                -> Covering index scan on t using a",
            ],
        ),
        (
            "SELECT 1 UNION ALL SELECT a FROM t",
            &[
                "-> Append",
                "    -> Stream results",
                "        -> Rows fetched before execution",
                "    -> Stream results",
                "        -> Table scan on t",
            ],
        ),
        (
            "SELECT x FROM u EXCEPT SELECT y FROM v",
            &[
                "-> Table scan on <except temporary>",
                "    -> Except materialize with deduplication",
                "        -> Table scan on u",
                "        -> Table scan on v",
            ],
        ),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r WHERE n < 3) \
                SELECT n FROM r",
            &[
                "-> Table scan on r",
                "    -> Materialize recursive CTE r with deduplication",
                "        -> Append",
                "            -> Stream results",
                "                -> Rows fetched before execution",
                "        -> Repeat until convergence",
                "            -> Filter: (r.n < 3)",
                "                -> Scan new records on r",
            ],
        ),
        (
            "SELECT id, LAG(b, 2) OVER (PARTITION BY a ORDER BY b DESC), SUM(x) OVER (ORDER BY id \
                ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (SELECT *, id AS x FROM t) AS d",
            &[
                "-> Window aggregate with buffering: sum(d.x) OVER (ORDER BY d.id ROWS BETWEEN \
                    1 PRECEDING AND CURRENT ROW)",
                "    -> Sort: d.id",
                "        -> Window aggregate with buffering: lag(d.b,2) OVER (PARTITION BY d.a \
                    ORDER BY d.b DESC)",
                "            -> Sort: d.a, d.b DESC",
                "                -> Table scan on d",
                "                    -> Materialize",
                "                        -> Table scan on t",
            ],
        ),
        (
            "SELECT t.id, l.m FROM t, LATERAL (SELECT MAX(x) AS m FROM u WHERE u.a = t.b) AS l",
            &[
                "-> Nested loop inner join",
                "    -> Table scan on t",
                "    -> Table scan on l",
                "        -> Materialize (invalidate on row from t)",
                "            -> Aggregate: max(u.x)",
                "                -> Index lookup on u using a (a=t.b)",
            ],
        ),
        (
            "SELECT v.id, q.k FROM v, JSON_TABLE(v.j, '$[*]' COLUMNS (k INT PATH '$')) AS q",
            &[
                "-> Nested loop inner join",
                "    -> Table scan on v",
                "    -> Table scan on q",
                "        -> Materialize table function (invalidate on row from v)",
            ],
        ),
        (
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'x'",
            &[
                "-> Filter: (TABLES.TABLE_SCHEMA = 'x')",
                "    -> Table scan on TABLES",
                "        -> Fill information schema table TABLES",
            ],
        ),
        ("INSERT INTO t VALUES (9, 9, 9, '')", &["-> Insert into t"]),
        ("REPLACE INTO u SELECT * FROM u", &["-> Replace into u", "    -> Table scan on u"]),
        (
            "UPDATE u SET x = 1 WHERE x > 2 ORDER BY a LIMIT 1",
            &[
                "-> Update u (immediate)",
                "    -> Filter: (u.x > 2)",
                "        -> Index scan on u using a",
            ],
        ),
        (
            "DELETE FROM v WHERE id = 3",
            &[
                "-> Delete from v (immediate)",
                "    -> Single-row index lookup on v using PRIMARY (id=3)",
            ],
        ),
        (
            "UPDATE v JOIN u ON v.y = u.id SET v.y = 1, u.a = 2",
            &[
                "-> Update v (buffered), u (buffered)",
                "    -> Nested loop inner join",
                "        -> Table scan on v",
                "        -> Single-row index lookup on u using PRIMARY (id=v.y)",
            ],
        ),
    ];
    check_all(&mut s, "EXPLAIN FORMAT=TREE", list);
    for (text, _) in list {
        document(&mut s, text);
        assert!(lines(&mut s, &format!("EXPLAIN {text}"))[0].contains('|'), "{text}");
    }
}

#[test]
fn analyze_tells_rows_and_loops() {
    let (_w, mut s) = world();
    let list: &[(&str, &[&str])] = &[
        ("SELECT 1", &["-> Rows fetched before execution (rows=1 loops=1)"]),
        (
            "SELECT * FROM u WHERE x > 2 LIMIT 1",
            &[
                "-> Limit: 1 row(s) (rows=1 loops=1)",
                "    -> Filter: (u.x > 2) (rows=1 loops=1)",
                "        -> Table scan on u (rows=3 loops=1)",
            ],
        ),
        (
            "SELECT * FROM t WHERE 1 = 0",
            &["-> Filter: (1 = 0) (rows=0 loops=1)", "    -> Table scan on t (never executed)"],
        ),
        (
            "SELECT v.id FROM v STRAIGHT_JOIN u ON v.y = u.x AND u.a + 1 > 2 ORDER BY v.id",
            &[
                "-> Inner hash join (u.x = v.y) (rows=2 loops=1)",
                "    -> Table scan on v (rows=3 loops=1)",
                "    -> Hash",
                "        -> Filter: ((u.a + 1) > 2) (rows=3 loops=1)",
                "            -> Table scan on u (rows=4 loops=1)",
            ],
        ),
        (
            "SELECT t.id FROM t LEFT JOIN u ON u.a = t.a AND u.x > 1 WHERE u.id IS NULL",
            &[
                "-> Filter: (u.id is null) (rows=2 loops=1)",
                "    -> Nested loop left join (rows=4 loops=1)",
                "        -> Table scan on t (rows=4 loops=1)",
                "        -> Filter: (u.x > 1) (rows=0.50 loops=4)",
                "            -> Index lookup on u using a (a=t.a) (rows=0.75 loops=4)",
            ],
        ),
        (
            "SELECT t.id FROM t LEFT JOIN (u JOIN v ON u.x = v.y) ON u.x = t.b",
            &[
                "-> Nested loop left join (rows=4 loops=1)",
                "    -> Table scan on t (rows=4 loops=1)",
                "    -> Inner hash join (v.y = u.x) (rows=0.75 loops=4)",
                "        -> Hash lookup on u (u.x = t.b) (rows=0.75 loops=4)",
                "            -> Hash",
                "                -> Table scan on u (rows=4 loops=1)",
                "        -> Hash",
                "            -> Table scan on v (rows=3 loops=1)",
            ],
        ),
        (
            "SELECT x % 2, COUNT(*) AS n FROM u GROUP BY x % 2 HAVING n > 1",
            &[
                "-> Filter: (count(0) > 1) (rows=1 loops=1)",
                "    -> Table scan on <temporary>",
                "        -> Aggregate using temporary table (rows=2 loops=1)",
                "            -> Table scan on u (rows=4 loops=1)",
            ],
        ),
        (
            "SELECT DISTINCT x % 2 FROM u",
            &[
                "-> Table scan on <temporary> (rows=2 loops=1)",
                "    -> Temporary table with deduplication (rows=2 loops=1)",
                "        -> Table scan on u (rows=4 loops=1)",
            ],
        ),
        (
            "SELECT x FROM u UNION SELECT y FROM v",
            &[
                "-> Table scan on <union temporary> (rows=4 loops=1)",
                "    -> Union materialize with deduplication (rows=4 loops=1)",
                "        -> Table scan on u (rows=4 loops=1)",
                "        -> Table scan on v (rows=3 loops=1)",
            ],
        ),
        (
            "SELECT x FROM u INTERSECT SELECT y FROM v",
            &[
                "-> Table scan on <intersect temporary> (rows=3 loops=1)",
                "    -> Intersect materialize with deduplication (rows=3 loops=1)",
                "        -> Table scan on u (rows=4 loops=1)",
                "        -> Table scan on v (rows=3 loops=1)",
            ],
        ),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.x = t.b)",
            &[
                "-> Filter: exists(select #2) (rows=3 loops=1)",
                "    -> Table scan on t (rows=4 loops=1)",
                "    -> Select #2 (subquery in condition; dependent)",
                "        -> Filter: (u.x = t.b) (rows=1 loops=2)",
                "            -> Table scan on u (rows=1.50 loops=2)",
                "        -> Hash for all rows of the outer query",
                "            -> Table scan on u (rows=4 loops=1)",
            ],
        ),
        (
            "SELECT t.id, l.m FROM t, LATERAL (SELECT MAX(x) AS m FROM u WHERE u.a = t.b) AS l",
            &[
                "-> Nested loop inner join (rows=4 loops=1)",
                "    -> Table scan on t (rows=4 loops=1)",
                "    -> Table scan on l (rows=1 loops=4)",
                "        -> Materialize (invalidate on row from t)",
                "            -> Aggregate: max(u.x) (rows=1 loops=4)",
                "                -> Index lookup on u using a (a=t.b) (rows=0.75 loops=4)",
            ],
        ),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) \
                SELECT n FROM r",
            &[
                "-> Table scan on r (rows=3 loops=1)",
                "    -> Materialize recursive CTE r (rows=3 loops=1)",
                "        -> Append (rows=1 loops=1)",
                "            -> Stream results",
                "                -> Rows fetched before execution (rows=1 loops=1)",
                "        -> Repeat until convergence",
                "            -> Filter: (r.n < 3) (rows=0.67 loops=3)",
                "                -> Scan new records on r (rows=1 loops=3)",
            ],
        ),
        (
            "SELECT id, ROW_NUMBER() OVER (ORDER BY x) FROM u",
            &[
                "-> Window aggregate with buffering: row_number() OVER (ORDER BY u.x) \
                    (rows=4 loops=1)",
                "    -> Sort: u.x",
                "        -> Table scan on u (rows=4 loops=1)",
            ],
        ),
    ];
    check_all(&mut s, "EXPLAIN ANALYZE", list);
    check_all(&mut s, "EXPLAIN ANALYZE FORMAT=TREE", list);
}

#[test]
fn analyze_runs_the_statement() {
    let (w, mut s) = world();
    let counter = |counter| w.db.status.counters.get(counter);
    let (explained, selected) = (counter(Counter::ComExplain), counter(Counter::ComSelect));
    lines(&mut s, "EXPLAIN ANALYZE SELECT @n := MAX(x) FROM u");
    assert_eq!(counter(Counter::ComExplain), explained + 1);
    assert_eq!(counter(Counter::ComSelect), selected);
    assert_eq!(lines(&mut s, "SELECT @n"), ["5"]);
    assert_eq!(lines(&mut s, "EXPLAIN ANALYZE SELECT (SELECT x FROM u)"), ["error 1242"]);
    // ANALYZE-1: the rows are locked until the transaction ends.
    lines(&mut s, "BEGIN");
    let locking = "EXPLAIN ANALYZE SELECT * FROM u WHERE id = 2 FOR UPDATE";
    let expected = "-> Single-row index lookup on u using PRIMARY (id=2) (rows=1 loops=1)";
    assert_eq!(wrong(&mut s, locking, &[expected]), None);
    let mut other = w.session();
    let nowait = "SELECT id FROM u WHERE id = 2 FOR UPDATE NOWAIT";
    assert_eq!(lines(&mut other, nowait), ["error 3572"]);
    lines(&mut s, "COMMIT");
    assert_eq!(lines(&mut other, nowait), ["2"]);
    lines(&mut s, "SET max_execution_time = 1");
    assert_eq!(lines(&mut s, "EXPLAIN ANALYZE SELECT SLEEP(1000) FROM u"), ["error 3024"]);
}

#[test]
fn formats_are_chosen() {
    let (_w, mut s) = world();
    let answer = |s: &mut Session, text: &str| lines(s, text).remove(0);
    let (table, tree) = ("1|SIMPLE|t|", "-> Table scan on t");
    for (setting, expected) in [("TREE", tree), ("json", "{"), ("TRADITIONAL", table)] {
        lines(&mut s, &format!("SET explain_format = {setting}"));
        assert!(answer(&mut s, "EXPLAIN TABLE t").starts_with(expected), "{setting}");
        assert!(answer(&mut s, "EXPLAIN FORMAT=TREE TABLE t").starts_with(tree), "{setting}");
        let traditional = answer(&mut s, "DESC FORMAT='Traditional' TABLE t");
        assert!(traditional.starts_with(table), "{setting}");
        let analyzed = answer(&mut s, "EXPLAIN ANALYZE TABLE t");
        assert_eq!(analyzed.starts_with(tree), setting != "json", "{analyzed}");
        assert_eq!(analyzed == "error 1235", setting == "json", "{analyzed}");
    }
    for (text, error) in [
        ("EXPLAIN FORMAT=XML SELECT 1", 1791),
        ("EXPLAIN FORMAT='' SELECT 1", 1791),
        ("SET explain_format = 'XML'", 1231),
        ("EXPLAIN ANALYZE FORMAT=JSON SELECT 1", 1235),
        ("EXPLAIN ANALYZE FORMAT=TRADITIONAL SELECT 1", 1235),
        ("EXPLAIN ANALYZE UPDATE t SET a = 1", 1235),
        ("EXPLAIN ANALYZE INSERT INTO t VALUES (9, 9, 9, '')", 1235),
        ("EXPLAIN ANALYZE DELETE t FROM t JOIN u ON t.id = u.id", 1235),
        ("EXPLAIN ANALYZE SELECT id FROM t LIMIT 1 INTO @x", 1235),
        ("EXPLAIN ANALYZE t", 1064),
        ("EXPLAIN FORMAT=JSON t", 1064),
        ("EXPLAIN FORMAT=TREE FOR CONNECTION 1", 1235),
    ] {
        assert_eq!(lines(&mut s, text), [format!("error {error}")], "{text}");
    }
    assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM t"), ["4"]);
}

#[test]
fn prepared_explains() {
    let (_w, mut s) = world();
    let prepare = |s: &mut Session, text: &str| block_on(s.prepare(text.as_bytes())).unwrap();
    let tree = prepare(&mut s, "EXPLAIN FORMAT=TREE SELECT * FROM t WHERE a = ?");
    let answer = execute(&mut s, tree.id, &[Value::Int(3)]).remove(0);
    assert_eq!(shape(&answer), ["-> Index lookup on t using a (a=?)"]);
    let analyzed = prepare(&mut s, "EXPLAIN ANALYZE SELECT * FROM t WHERE a > ?");
    for (value, rows) in [(3, 1), (1, 3), (9, 0)] {
        let answer = execute(&mut s, analyzed.id, &[Value::Int(value)]).remove(0);
        let expected =
            format!("-> Index range scan on t using a over (? < a) (rows={rows} loops=1)");
        assert_eq!(shape(&answer), [expected]);
    }
    let by_setting = prepare(&mut s, "EXPLAIN TABLE t");
    lines(&mut s, "SET explain_format = TREE");
    let answer = execute(&mut s, by_setting.id, &[]).remove(0);
    assert!(answer.starts_with("-> Table scan on t"), "{answer}");
}

/// EXPLAIN-1, EXPLAIN-2.
#[test]
fn names_and_values_stay_inside() {
    let (_w, mut s) = world();
    let name = "`a\"b\\`` \n-> c'{`";
    let long = "x".repeat(64);
    for text in [
        format!(
            "CREATE TABLE {name} ({name} INT PRIMARY KEY, `{long}` TEXT, KEY {long} (`{long}`(9)))"
        ),
        format!("INSERT INTO {name} VALUES (1, 'q')"),
    ] {
        assert!(lines(&mut s, &text)[0].starts_with("ok"), "{text}");
    }
    for condition in [
        format!("{name}.{name} > 1"),
        format!("{long} = '\\0\\n\"}}]{{[\\\\\\'\u{2028}'"),
        format!("{long} LIKE 'a\n-> b%' ESCAPE '\n'"),
        format!("HEX({long}) <> _binary x'00ff22' AND {long} <> x'0a'"),
        format!("{long} = '{}'", "\"\\\\".repeat(10_000)),
        format!("{name} IN (SELECT {name} FROM {name} AS {name})"),
        format!("{name} = @`x\n\"` OR {name} = CAST('{{\"k\": \"\\\\n\"}}' AS JSON)"),
    ] {
        let text = format!("SELECT COUNT(*) FROM {name} WHERE {condition}");
        document(&mut s, &text);
        for explain in ["EXPLAIN FORMAT=TREE", "EXPLAIN ANALYZE"] {
            let tree = one(&mut s, &format!("{explain} {text}"));
            let is_operator = |line: &str| line.trim_start().starts_with("-> ");
            assert!(tree.lines().all(is_operator), "{text}\n{tree}");
            assert!(!tree.lines().any(|line| line.contains("-> -> ")), "{tree}");
        }
    }
    let alias = format!("SELECT * FROM (SELECT 1 AS {name}) AS {name} WHERE {name} + RAND() > 1");
    document(&mut s, &alias);
    assert_eq!(one(&mut s, &format!("EXPLAIN FORMAT=TREE {alias}")).lines().count(), 4);
}

#[test]
fn large_statements_are_explained() {
    on_a_large_stack(|| {
        let (_w, mut s) = world();
        let derived = (0..128).fold("SELECT * FROM u".to_string(), |inner, n| {
            format!("SELECT * FROM ({inner}) AS d{n} WHERE x > {n}")
        });
        let subqueries = (0..60).fold("1".to_string(), |inner, n| {
            format!("EXISTS (SELECT 1 FROM u AS u{n} WHERE u{n}.x > t.a AND {inner})")
        });
        let tables = (0..61).map(|n| format!("u AS u{n}")).collect::<Vec<_>>();
        let join = tables.join(" JOIN ");
        let conditions = (1..61).map(|n| format!("u{n}.x = u{}.x", n - 1)).collect::<Vec<_>>();
        let unions = vec!["SELECT x FROM u"; 61].join(" UNION ALL ");
        for (text, operators) in [
            (derived, 128),
            (format!("SELECT * FROM t WHERE {subqueries}"), 60),
            (format!("SELECT COUNT(*) FROM {join} ON {}", conditions.join(" AND ")), 61),
            (unions, 61),
        ] {
            document(&mut s, &text);
            for explain in ["EXPLAIN FORMAT=TREE", "EXPLAIN ANALYZE"] {
                let tree = one(&mut s, &format!("{explain} {text}"));
                assert!(tree.lines().count() > operators, "{tree}");
            }
            assert!(lines(&mut s, &format!("EXPLAIN {text}")).len() >= operators);
        }
    });
}

/// EXPLAIN-3: each name in HAVING stands for a long expression.
#[test]
fn texts_that_outgrow_the_statement_are_refused() {
    let (_w, mut s) = world();
    lines(&mut s, "SET parser_max_mem_size = 10000000");
    let long = "x".repeat(1 << 20);
    let having = (0..20).map(|n| format!("y <> '{n}'")).collect::<Vec<_>>().join(" AND ");
    let text = format!("SELECT CONCAT(c, '{long}') AS y FROM t GROUP BY y HAVING {having}");
    assert_eq!(lines(&mut s, &format!("EXPLAIN {text}")).len(), 1);
    for format in ["TREE", "JSON"] {
        let answer = lines(&mut s, &format!("EXPLAIN FORMAT={format} {text}")).remove(0);
        assert!(answer.starts_with("error "), "{}", answer.len());
    }
}

#[test]
fn all_queries_of_tpch_are_explained() {
    let w = World::new();
    let mut s = w.session();
    let source = include_str!("../../../../../bench/tpch_rows.py");
    let tables = source.split("TABLES = {\n").nth(1).unwrap().split("\n}\n").next().unwrap();
    let mut count = 0;
    for table in tables.split("\n    '") {
        let (name, columns) = table.trim_start_matches([' ', '\'']).split_once("':").unwrap();
        let columns = columns.trim_matches([' ', '"', '\'', ',', '\n']);
        assert_eq!(lines(&mut s, &format!("CREATE TABLE {name} ({columns})")), ["ok 0 0"]);
        count += 1;
    }
    let queries = include_str!("../../../../../bench/tpch.sql");
    let queries: Vec<&str> =
        queries.split("-- ").skip(1).map(|q| q.split_once('\n').unwrap().1).collect();
    assert_eq!((count, queries.len()), (8, 22));
    for query in queries {
        let query = query.trim().trim_end_matches(';');
        assert!(lines(&mut s, &format!("EXPLAIN {query}"))[0].contains("|"), "{query}");
        document(&mut s, query);
        for explain in ["EXPLAIN FORMAT=TREE", "EXPLAIN ANALYZE"] {
            let tree = one(&mut s, &format!("{explain} {query}"));
            assert!(tree.starts_with("-> ") && !tree.contains('?'), "{tree}");
        }
    }
}
