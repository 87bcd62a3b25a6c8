//! Long texts are refused early or run in little more memory than their length, and KILL ends the
//! work on them.
use super::{TABLE, World, lines};
use crate::processes::Kill;

/// The error is 3170, whichever part of the work finds it.
#[test]
fn what_takes_too_much_memory_names_the_setting() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, TABLE);
    lines(&mut s, "SET parser_max_mem_size = 10000000");
    for (before, item, after) in [
        ("SELECT 1 IN (", "1, ", "1)"),
        ("SELECT 1 IN (", "k, ", "1) FROM t"),
        ("SELECT 'a' ", "'b' ", ""),
        ("INSERT INTO t (k) VALUES (NULL)", ", (1 + 1)", ""),
        ("INSERT INTO t (k) VALUES (NULL)", ", (1)", ""),
        ("SET @a = 1", ", @a = 2", ""),
        ("DROP TABLE x", ", x", ""),
        ("SELECT 1 FROM t WHERE id = 1", " UNION SELECT 1", ""),
        ("SELECT * FROM t ", "USE INDEX (k) ", ""),
    ] {
        let text = format!("{before}{}{after}", item.repeat(1_000_000));
        let answered = lines(&mut s, &text);
        assert_eq!(answered, ["error 3170"], "{before}{item}{after}");
    }
    // Rows of the same form are not in the syntax tree.
    let rows = "(7, 'x'), ".repeat(300_000);
    assert_eq!(
        lines(&mut s, &format!("INSERT INTO t (k, c) VALUES {rows}(8, 'y')")),
        ["ok 300001 1"]
    );
    assert_eq!(lines(&mut s, "SELECT COUNT(*), SUM(k), MAX(c) FROM t"), ["300001|2100008|y"]);
    let rows = "(7, 'x'), ".repeat(1_000_000);
    assert_eq!(
        lines(&mut s, &format!("INSERT INTO t (k, c) VALUES {rows}(8, 'y')")),
        ["error 3170"]
    );
    assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM t"), ["300001"]);
    lines(&mut s, "SET parser_max_mem_size = DEFAULT");
    assert_eq!(lines(&mut s, "SELECT @@parser_max_mem_size"), ["536870912"]);
}

/// The values of rows of the same form are made a few rows at a time. No value may be lost or mixed
/// up at the borders, and expressions after the rows must see their own literals.
/// Tests DML-2.
#[test]
fn rows_that_are_alike_keep_their_values() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "CREATE TABLE w (a INT PRIMARY KEY, b INT, c VARCHAR(20), d INT)");
    for rows in [1, 2, 1023, 1024, 1025, 5000] {
        lines(&mut s, "DELETE FROM w");
        let list: Vec<String> =
            (0..rows).map(|n| format!("({n}, {} + 1, 'it''s {n}', 7)", 2 * n)).collect();
        let text = format!(
            "INSERT INTO w VALUES {} ON DUPLICATE KEY UPDATE d = 100 + 11",
            list.join(", ")
        );
        assert_eq!(lines(&mut s, &text), [format!("ok {rows} 0")]);
        let wrong =
            "SELECT COUNT(*) FROM w WHERE b <> 2 * a + 1 OR c <> CONCAT('it''s ', a) OR d <> 7";
        assert_eq!(lines(&mut s, wrong), ["0"]);
        assert_eq!(lines(&mut s, &text), [format!("ok {} 0", 2 * rows)]);
        assert_eq!(
            lines(&mut s, "SELECT COUNT(*), MIN(d), MAX(d) FROM w"),
            [format!("{rows}|111|111")]
        );
    }
    // One literal far behind the first rows is invalid. The statement leaves no row.
    lines(&mut s, "DELETE FROM w");
    let list: Vec<String> = (0..5000)
        .map(|n| format!("({n}, {}, 'x', 7)", if n == 4000 { "1e999" } else { "1e3" }))
        .collect();
    assert_eq!(lines(&mut s, &format!("INSERT INTO w VALUES {}", list.join(", "))), ["error 1367"]);
    assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM w"), ["0"]);
}

/// Tests PARSE-3.
#[test]
fn work_on_a_text_is_given_up_when_it_is_killed() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, TABLE);
    let many =
        |before: &str, item: &str, after: &str| format!("{before}{}{after}", item.repeat(20_000));
    for text in [
        many("SELECT 1 IN (", "1, ", "1)"),
        many("SELECT 'a' ", "'b' ", ""),
        many("INSERT INTO t (k) VALUES (1)", ", (2)", ""),
        many("SELECT COUNT(*) FROM t GROUP BY k", ", k", ""),
        many("CREATE TABLE x (a ENUM ('x'", ", 'y'", "))"),
        many("DROP TABLE IF EXISTS x", ", x", ""),
        many("SET @a = 1", ", @a = 2", ""),
        many("ALTER TABLE t COMMENT ''", ", COMMENT ''", ""),
    ] {
        s.state.process.kill(Kill::Query);
        assert_eq!(lines(&mut s, &text), ["error 1317"], "{}", &text[..40]);
        s.state.process.forget_kill_query();
    }
    assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM t"), ["0"]);
}
