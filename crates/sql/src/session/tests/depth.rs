//! Runs statements whose trees have the greatest permitted height, and higher ones, on half the
//! stack of a session's thread.
use super::{TABLE, World, lines};
use crate::STACK_BYTES;
use crate::session::Session;
use redolith_engine::runtime::block_on;

/// Runs `f` with a session over a table of three rows.
fn on_half_a_stack(f: impl FnOnce(&mut Session) + Send) {
    let world = World::new();
    let body = || {
        let mut s = world.session();
        lines(&mut s, TABLE);
        lines(&mut s, "INSERT INTO t (k, c) VALUES (5, 'a'), (6, 'it''s'), (7, NULL)");
        lines(&mut s, "SET sql_mode = 'PIPES_AS_CONCAT,STRICT_ALL_TABLES'");
        f(&mut s);
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK_BYTES / 2)
            .spawn_scoped(scope, body)
            .unwrap()
            .join()
            .unwrap();
    });
}

/// Statements with a row of `n` links: the text before the row, its first term, each further link,
/// and the text after the row.
const ROWS: &[(&str, &str, &str, &str)] = &[
    ("SELECT ", "1", "+1", ""),
    ("SELECT ", "1", " XOR 1", ""),
    ("SELECT ", "1", "=1", ""),
    ("SELECT ", "1", " IS NULL", ""),
    ("SELECT ", "1", " IS TRUE", ""),
    ("SELECT ", "'a'", " COLLATE utf8mb4_bin", ""),
    ("SELECT ", "'2020-01-01'", " + INTERVAL 1 DAY", ""),
    ("SELECT ", "'a'", "||'b' COLLATE utf8mb4_bin", ""),
    ("SELECT ", "1", "+1", " + 9223372036854775807"),
    ("SELECT id FROM t WHERE ", "id", "+1", " > 3 ORDER BY k"),
    ("SELECT id FROM t ORDER BY ", "id", "+1", ""),
    ("SELECT ", "id", "+1", " AS x, SUM(k) FROM t GROUP BY x HAVING x + 1 > 3 ORDER BY x + 1"),
    ("SELECT SUM(", "k", "+1", ") AS x FROM t HAVING x > 3"),
    ("INSERT INTO t (k) VALUES (", "1", "+1", ")"),
    ("INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE k = ", "k", "*1", ""),
    ("UPDATE t SET k = ", "k", "*1", ""),
    ("DELETE FROM t WHERE ", "k", "+1", " < 0"),
];
/// Statements of `n` levels: the beginning, the text that opens a level, the innermost text, and
/// the text that closes a level.
const LEVELS: &[(&str, &str, &str, &str)] = &[
    ("SELECT ", "(", "1", ")"),
    ("SELECT ", "- ", "1", ""),
    ("SELECT ", "1+(", "1", ")"),
    ("SELECT ", "(1+1+1+1+1+1+1+1+1+1+1+1+1+", "1", ")+1+1+1+1+1+1+1+1+1+1+1+1+1"),
    ("SELECT ", "UPPER(", "'a'", ")"),
    ("SELECT ", "EXTRACT(DAY_MICROSECOND FROM ", "'2020-01-01 00:00:00'", ")"),
    ("SELECT ", "COALESCE(NULL,", "'a'", ")"),
    ("SELECT ", "IF(1,", "'a'", ",2)"),
    ("SELECT ", "CASE WHEN 1 THEN ", "'a'", " END"),
    ("SELECT ", "CAST(", "'a'", " AS CHAR)"),
    ("SELECT ", "(SELECT ", "1", ")"),
    ("SELECT * FROM ", "(SELECT * FROM ", "t", ") d"),
    ("SELECT 1 FROM t WHERE ", "EXISTS (SELECT 1 FROM t WHERE ", "1", ")"),
    ("SELECT 1 FROM t WHERE ", "1 IN (SELECT id FROM t WHERE ", "1", ")"),
    ("SELECT 1 FROM t WHERE ", "EXISTS (SELECT 1 FROM t d WHERE d.id = t.id AND ", "1", ")"),
    ("SELECT 1 FROM t WHERE ", "t.k IN (SELECT d.k FROM t d WHERE d.id >= t.id AND ", "1", ")"),
    ("SELECT 1 FROM t WHERE ", "t.k = (SELECT MAX(t.id + d.k) FROM t d WHERE ", "1", ")"),
    ("SELECT 1 FROM t WHERE ", "id IN (1,2,", "1", ")"),
    ("SELECT 1 FROM t WHERE ", "1 BETWEEN 0 AND ", "1", ""),
    ("SELECT 1 FROM t WHERE ", "NOT ", "1", ""),
    ("", "(", "SELECT 1", ")"),
];

/// Runs the greatest of these statements that is accepted, as text and prepared, and checks that
/// the next greater one is refused. Returns the size of the greatest.
fn greatest(s: &mut Session, statement: impl Fn(usize) -> String) -> usize {
    let accepted = |s: &mut Session, n| match block_on(s.prepare(statement(n).as_bytes())) {
        Ok(prepared) => {
            s.close_statement(prepared.id);
            true
        }
        Err(e) => {
            assert_eq!(e.code, 1436, "{e}");
            false
        }
    };
    let (mut good, mut bad) = (1, 8192);
    assert!(accepted(s, good) && !accepted(s, bad), "{}", statement(good));
    while bad - good > 1 {
        let middle = (good + bad) / 2;
        *(if accepted(s, middle) { &mut good } else { &mut bad }) = middle;
    }
    let text = statement(good);
    let prepared = block_on(s.prepare(text.as_bytes())).unwrap();
    for ran in [lines(s, &text), super::execute(s, prepared.id, &[])] {
        // The statement is evaluated: the sum with an overflow fails at its last term.
        let wanted = text.contains("+ 9223372036854775807");
        assert_eq!(ran.iter().any(|line| line == "error 1690"), wanted, "{}", statement(1));
        assert_eq!(ran.iter().any(|line| line.starts_with("error")), wanted, "{}", statement(1));
    }
    assert_eq!(lines(s, &statement(bad)), ["error 1436"], "{}", statement(1));
    good
}

#[test]
fn the_highest_trees_fit() {
    on_half_a_stack(|s| {
        for (before, first, link, after) in ROWS {
            let n = greatest(s, |n| format!("{before}{first}{}{after}", link.repeat(n)));
            assert!(n >= 450, "{before}{first}{link}: {n}");
        }
        for (before, open, inner, close) in LEVELS {
            let n =
                greatest(s, |n| format!("{before}{}{inner}{}", open.repeat(n), close.repeat(n)));
            assert!(n >= 35, "{before}{open}: {n}");
        }
    });
}

#[test]
fn heights_of_rows_within_each_other_add_up() {
    on_half_a_stack(|s| {
        let mut nested = "1".to_string();
        for _ in 0..100 {
            nested = format!("({nested}{})", "+1".repeat(900));
        }
        assert_eq!(lines(s, &format!("SELECT {nested}")), ["error 1436"]);
        assert_eq!(
            lines(s, &format!("SELECT 'a'{}", " COLLATE binary".repeat(50_000))),
            ["error 1436"]
        );
        // A value that names a column does not include the tree of that column's value.
        lines(s, "CREATE TABLE w (a INT, b INT, c INT, d INT)");
        let row = "+1".repeat(1600);
        assert_eq!(lines(s, &format!("INSERT INTO w VALUES (1{row}, a{row}, 1, 1)")), ["ok 1 0"]);
        assert_eq!(
            lines(s, &format!("INSERT INTO w VALUES (1{row}, a{row}, b{row}, c{row})")),
            ["ok 1 0"]
        );
        // The statement is refused because of its grammar, not because of its length.
        assert_eq!(
            lines(s, &format!("SELECT 1 FROM t {} JOIN t u", "NATURAL ".repeat(100_000))),
            ["error 1064"]
        );
    });
}

#[test]
fn rows_of_terms_are_flat() {
    on_half_a_stack(|s| {
        let terms = |n: usize, word: &str, term: &str| vec![term; n].join(word);
        assert_eq!(
            lines(s, &format!("SELECT id FROM t WHERE {}", terms(4000, " OR ", "id = 2"))),
            ["2"]
        );
        assert_eq!(
            lines(s, &format!("SELECT id FROM t WHERE {}", terms(4000, " AND ", "id = 2"))),
            ["2"]
        );
        assert_eq!(
            lines(s, &format!("SELECT id FROM t WHERE id IN ({})", terms(9000, ",", "2"))),
            ["2"]
        );
        assert_eq!(lines(s, &format!("SELECT LENGTH({})", terms(20_000, "||", "'ab'"))), ["40000"]);
        assert_eq!(
            lines(s, &format!("SELECT LENGTH(CONCAT({}))", terms(255, ",", "'ab'"))),
            ["510"]
        );
        assert_eq!(
            lines(s, &format!("SELECT 1 WHERE {}", terms(20_000, " OR ", "1"))),
            ["error 1436"]
        );
    });
}

/// Names of other parts of the statement must not turn a short text into a large tree.
#[test]
fn copies_of_copies_are_bounded() {
    on_half_a_stack(|s| {
        let columns: Vec<String> = (0..60).map(|n| format!("c{n} DOUBLE")).collect();
        lines(s, &format!("CREATE TABLE doubled ({})", columns.join(", ")));
        let insert = |columns: usize| {
            let names: Vec<String> = (0..columns).map(|n| format!("c{n}")).collect();
            let values: String = names[1..]
                .iter()
                .zip(&names)
                .map(|(_, before)| format!(", {before} + {before}"))
                .collect();
            format!("INSERT INTO doubled ({}) VALUES (1{values})", names.join(", "))
        };
        assert_eq!(lines(s, &insert(8)), ["ok 1 0"]);
        assert_eq!(lines(s, "SELECT c6, c7, c8 FROM doubled"), ["64|128|NULL"]);
        assert_eq!(lines(s, &insert(60)), ["ok 1 0"]);
        assert_eq!(lines(s, "SELECT c59 = POW(2, 59) FROM doubled WHERE c59 > 0"), ["1"]);

        let having = |names: usize| {
            format!(
                "SELECT id{} AS x FROM t HAVING x IN ({}) LIMIT 1",
                "+k".repeat(300),
                vec!["x"; names].join(", ")
            )
        };
        assert_eq!(lines(s, &having(20)).len(), 1);
        assert_eq!(lines(s, &having(2000)), ["error 1436"]);
    });
}

#[test]
fn numbers_of_parts_do_not_wrap() {
    on_half_a_stack(|s| {
        let list = |part: &str| vec![part; 1 << 16].join(",");
        assert_eq!(lines(s, &format!("SELECT 1 IN ({})", list("(SELECT 2)"))), ["error 1436"]);
        assert_eq!(lines(s, &format!("SELECT {}", list("1"))), ["error 1117"]);
        let conditions = |n: usize| {
            let exists = "EXISTS (SELECT 1 FROM t d WHERE d.k = t.k)";
            format!("SELECT id FROM t WHERE {}", vec![exists; n].join(" AND "))
        };
        assert_eq!(lines(s, &conditions(1000)), ["1", "2", "3"]);
        assert_eq!(lines(s, &conditions(1001)), ["error 1235"]);
        assert_eq!(lines(s, &conditions(10_000)), ["error 1235"]);
    });
}
