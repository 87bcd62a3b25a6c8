//! Runs every production of the grammar, 200,000 levels deep and up to 200,000 items wide: as text
//! and prepared. `tests/depth.py` runs the highest statements that are accepted.
//!
//! A statement with too many levels or items is refused by their number, before any code recurses
//! over them or searches them again and again. Other statements run.
use super::{TABLE, World, execute, lines};
use crate::session::Session;
use redolith_engine::runtime::block_on;

const MANY: usize = 200_000;
/// The default stack of the server's threads.
const STACK_BYTES: usize = 2 * crate::LEAST_STACK_BYTES;

/// Runs `f` on a session's stack, with a session over a table of three rows.
fn on_a_stack(f: impl FnOnce(&mut Session) + Send) {
    let world = World::new();
    let body = || {
        let mut s = world.session();
        lines(&mut s, TABLE);
        lines(&mut s, "INSERT INTO t (k, c) VALUES (5, 'a'), (6, 'it''s'), (7, NULL)");
        f(&mut s);
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, body)
            .unwrap()
            .join()
            .unwrap();
    });
}

/// The number of a statement's error, or 0.
fn outcome(answered: &[String]) -> u16 {
    answered
        .iter()
        .find_map(|line| line.strip_prefix("error "))
        .map_or(0, |code| code.parse().unwrap())
}
/// Runs a statement as text, then prepares and executes it unless it cannot be prepared. Returns
/// both outcomes.
fn both(s: &mut Session, text: &str) -> [u16; 2] {
    lines(s, "BEGIN");
    let as_text = outcome(&lines(s, text));
    lines(s, "ROLLBACK; UNLOCK TABLES; BEGIN");
    let prepared = match block_on(s.prepare(text.as_bytes())) {
        Err(e) if e.code == 1295 => as_text,
        Err(e) => e.code,
        Ok(prepared) => {
            let answered = execute(s, prepared.id, &[]);
            s.close_statement(prepared.id);
            outcome(&answered)
        }
    };
    lines(s, "ROLLBACK; UNLOCK TABLES");
    [as_text, prepared]
}

/// The text before the levels, the text that opens a level, the innermost text, the text that
/// closes a level, the text after the levels, and the error.
type Deep = (&'static str, &'static str, &'static str, &'static str, &'static str, u16);
const DEEP: &[Deep] = &[
    // Operators.
    ("SELECT ", "(", "1", ")", "", 1436),
    ("SELECT ", "- ", "1", "", "", 1436),
    ("SELECT ", "+ ", "1", "", "", 1436),
    ("SELECT ", "~ ", "1", "", "", 1436),
    ("SELECT ", "! ", "1", "", "", 1436),
    ("SELECT ", "NOT ", "1", "", "", 1436),
    ("SELECT ", "BINARY ", "1", "", "", 1436),
    ("SELECT ", "1+(", "1", ")", "", 1436),
    ("SELECT ", "(1*", "1", ")", "", 1436),
    ("SELECT ", "1 | 1 & 1 << 1 + 1 * 1 ^ (", "1", ")", "", 1436),
    ("SELECT ", "1 OR (", "1", ")", "", 1436),
    ("SELECT ", "1 XOR (", "1", ")", "", 1436),
    ("SELECT ", "1 AND (", "1", ")", "", 1436),
    ("SELECT ", "1 = (", "1", ")", "", 1436),
    ("SELECT ", "(", "1", ") IS NULL", "", 1436),
    ("SELECT ", "(", "1", ") IS NOT TRUE", "", 1436),
    ("SELECT ", "1 BETWEEN 0 AND ", "1", "", "", 1436),
    ("SELECT ", "1 BETWEEN (", "1", ") AND 1", "", 1436),
    ("SELECT ", "(", "1", ") NOT BETWEEN 1 AND 1", "", 1436),
    ("SELECT ", "1 IN (", "1", ")", "", 1436),
    ("SELECT ", "1 IN (1, 2, ", "1", ")", "", 1436),
    ("SELECT ", "(", "1", ") IN (1)", "", 1436),
    ("SELECT ", "'a' LIKE (", "1", ")", "", 1436),
    ("SELECT ", "'a' LIKE 'b' ESCAPE (", "1", ")", "", 1436),
    ("SELECT ", "(", "1", ") LIKE 'a'", "", 1436),
    ("SELECT ", "'a' REGEXP (", "1", ")", "", 1436),
    ("SELECT ", "'a' SOUNDS LIKE (", "1", ")", "", 1436),
    ("SELECT ", "1 MEMBER OF(", "1", ")", "", 1436),
    ("SELECT ", "(", "'a'", ") COLLATE utf8mb4_bin", "", 1436),
    ("SELECT ", "'a' COLLATE utf8mb4_bin = (", "1", ")", "", 1436),
    ("SELECT ", "@a := ", "1", "", "", 1436),
    ("SELECT ", "(1, ", "1", ")", "", 1436),
    ("SELECT ", "ROW(1, ", "1", ")", "", 1436),
    ("SELECT ", "'2020-01-01' + INTERVAL (", "1", ") DAY", "", 1436),
    ("SELECT ", "INTERVAL (", "1", ") DAY + '2020-01-01'", "", 1436),
    ("SELECT ", "INTERVAL 1 DAY + ", "'2020-01-01'", "", "", 1436),
    // Functions and similar forms.
    ("SELECT ", "UPPER(", "1", ")", "", 1436),
    ("SELECT ", "CONCAT('a', ", "1", ")", "", 1436),
    ("SELECT ", "COALESCE(NULL, ", "1", ")", "", 1436),
    ("SELECT ", "IF(1, ", "1", ", 2)", "", 1436),
    ("SELECT ", "INTERVAL(1, ", "1", ")", "", 1436),
    ("SELECT ", "EXTRACT(DAY FROM ", "1", ")", "", 1436),
    ("SELECT ", "DATE_ADD(", "1", ", INTERVAL 1 DAY)", "", 1436),
    ("SELECT ", "DATE_SUB(1, INTERVAL ", "1", " DAY)", "", 1436),
    ("SELECT ", "ADDDATE(1, ", "1", ")", "", 1436),
    ("SELECT ", "TIMESTAMPADD(DAY, 1, ", "1", ")", "", 1436),
    ("SELECT ", "TIMESTAMPADD(DAY, ", "1", ", 1)", "", 1436),
    ("SELECT ", "TIMESTAMPDIFF(DAY, 1, ", "1", ")", "", 1436),
    ("SELECT ", "TRIM(", "1", ")", "", 1436),
    ("SELECT 1 FROM JSON_TABLE(", "(", "1", ")", ", '$' COLUMNS (a INT PATH '$')) t", 1436),
    (
        "SELECT 1 FROM JSON_TABLE('1', '$' COLUMNS (",
        "NESTED PATH '$' COLUMNS (",
        "a INT PATH '$'",
        ")",
        ")) t",
        1436,
    ),
    (
        "SELECT 1 FROM JSON_TABLE('1', '$' COLUMNS (a INT PATH '$' DEFAULT ",
        "(",
        "1",
        ")",
        " ON EMPTY)) t",
        1436,
    ),
    ("SELECT ", "TRIM(BOTH 'a' FROM ", "1", ")", "", 1436),
    ("SELECT ", "TRIM(LEADING ", "1", " FROM 'a')", "", 1436),
    ("SELECT ", "SUBSTRING(", "1", ", 1)", "", 1436),
    ("SELECT ", "SUBSTRING('a' FROM ", "1", " FOR 1)", "", 1436),
    ("SELECT ", "POSITION('a' IN ", "1", ")", "", 1436),
    ("SELECT ", "POSITION((", "1", ") IN 'a')", "", 1436),
    ("SELECT ", "CHAR(", "1", ")", "", 1436),
    ("SELECT ", "CHAR(", "1", " USING utf8mb4)", "", 1436),
    ("SELECT ", "GROUP_CONCAT(", "1", ")", "", 1436),
    ("SELECT ", "GROUP_CONCAT(1 ORDER BY ", "1", ")", "", 1436),
    ("SELECT ", "COUNT(DISTINCT ", "1", ")", "", 1436),
    ("SELECT ", "CASE ", "1", " WHEN 1 THEN 1 END", "", 1436),
    ("SELECT ", "CASE WHEN ", "1", " THEN 1 END", "", 1436),
    ("SELECT ", "CASE WHEN 1 THEN ", "1", " END", "", 1436),
    ("SELECT ", "CASE WHEN 1 THEN 1 ELSE ", "1", " END", "", 1436),
    ("SELECT ", "CAST(", "1", " AS CHAR)", "", 1436),
    ("SELECT ", "CONVERT(", "1", ", CHAR)", "", 1436),
    ("SELECT ", "CONVERT(", "1", " USING utf8mb4)", "", 1436),
    ("SELECT ", "MATCH (", "k", ") AGAINST ('a')", " FROM t", 1436),
    ("SELECT ", "MATCH (k) AGAINST (", "'a'", ")", " FROM t", 1436),
    ("SELECT ", "DEFAULT(", "k", ")", " FROM t", 1064),
    ("SELECT ", "VALUES(", "k", ")", " FROM t", 1064),
    ("SELECT ROW_NUMBER() OVER ", "(", "", ")", "", 1064),
    ("SELECT SUM(1) OVER (ORDER BY ", "SUM(1) OVER (ORDER BY ", "1", ")", ")", 1436),
    ("SELECT SUM(1) OVER (PARTITION BY ", "(", "k", ")", ") FROM t", 1436),
    ("SELECT ", "SUM(", "1", ") OVER ()", "", 1436),
    ("SELECT ", "LAG(", "1", ", 1) OVER ()", "", 1436),
    (
        "SELECT SUM(1) OVER (ORDER BY k RANGE INTERVAL ",
        "(",
        "1",
        ")",
        " DAY PRECEDING) FROM t",
        1436,
    ),
    // Selects within selects.
    ("", "(", "SELECT 1", ")", "", 1436),
    ("SELECT ", "(SELECT ", "1", ")", "", 1436),
    ("SELECT ", "EXISTS (SELECT ", "1", ")", "", 1436),
    ("SELECT ", "1 IN (SELECT ", "1", ")", "", 1436),
    ("SELECT ", "1 = ANY (SELECT ", "1", ")", "", 1436),
    ("SELECT 1", " UNION (SELECT 1", "", ")", "", 1436),
    ("SELECT 1 UNION ", "(", "SELECT 1", ")", "", 1436),
    ("", "(SELECT 1) UNION (", "SELECT 1", ")", "", 1436),
    ("", "(", "SELECT 1", " LIMIT 1)", "", 1436),
    ("SELECT 1", " INTERSECT (SELECT 1", "", ")", "", 1436),
    ("SELECT 1", " EXCEPT ALL (SELECT 1", "", ")", "", 1436),
    ("", "(", "SELECT 1", " INTERSECT SELECT 1)", "", 1436),
    ("", "(", "SELECT 1", " EXCEPT SELECT 1 UNION SELECT 2)", "", 1436),
    ("SELECT 1 WHERE ", "1 IN (SELECT 1 INTERSECT SELECT ", "1", ")", "", 1436),
    ("", "WITH RECURSIVE a AS (", "SELECT 1", ") SELECT 1", "", 1436),
    (
        "",
        "(WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL ",
        "SELECT n + 1 FROM a WHERE n < 3",
        ") SELECT n FROM a)",
        "",
        1436,
    ),
    ("", "WITH a AS (", "SELECT 1", ") SELECT 1", "", 1436),
    ("SELECT 1 FROM t WHERE ", "id IN (SELECT id FROM t WHERE ", "1", ")", "", 1436),
    ("SELECT 1 FROM t GROUP BY ", "(", "k", ")", "", 1436),
    ("SELECT 1 FROM t HAVING ", "(", "k", ")", "", 1436),
    ("SELECT 1 FROM t ORDER BY ", "(", "k", ")", "", 1436),
    ("SELECT 1 LIMIT ", "(", "1", ")", "", 1064),
    // FROM.
    ("SELECT * FROM ", "(SELECT * FROM ", "t", ") d", "", 1436),
    ("SELECT * FROM ", "LATERAL (SELECT * FROM ", "t", ") d", "", 1436),
    ("SELECT 1 FROM ", "(", "t", ")", "", 1436),
    ("SELECT 1 FROM ", "(", "(SELECT 1) d", ")", "", 1436),
    ("SELECT 1 IN ", "(", "VALUES ROW(1)", ")", "", 1436),
    ("VALUES ROW(", "(", "1", ")", ")", 1436),
    ("SELECT 1 FROM t WHERE (1, ", "(", "1", ")", ") < (1, 2)", 1436),
    ("SELECT 1 FROM ", "(t, ", "t", ")", "", 1116),
    ("SELECT 1 FROM ", "t JOIN (", "t", ")", "", 1116),
    ("SELECT 1 FROM ", "(t a JOIN ", "t", ")", "", 1116),
    ("SELECT 1 FROM ", "t a LEFT JOIN (", "t", ") ON 1", "", 1116),
    ("SELECT 1 FROM ", "t a RIGHT JOIN (", "t", ") USING (id)", "", 1116),
    ("SELECT 1 FROM ", "t a NATURAL JOIN (", "t", ")", "", 1116),
    ("SELECT 1 FROM ", "t a STRAIGHT_JOIN (", "t", ")", "", 1116),
    ("SELECT 1 FROM t JOIN t u ON ", "(", "1", ")", "", 1436),
    ("SELECT 1 FROM t JOIN t u USING ", "(", "id", ")", "", 1064),
    // Changes.
    ("INSERT INTO t (k) VALUES ", "(", "1", ")", "", 1436),
    ("INSERT INTO t (k) VALUES (1", ", (1", "", ")", ")", 1436),
    ("INSERT INTO t SET k = ", "(", "1", ")", "", 1436),
    ("INSERT INTO t (k) ", "(", "SELECT 1", ")", "", 1436),
    ("INSERT INTO t ", "(", "k", ")", " VALUES (1)", 1436),
    ("INSERT INTO t (k) VALUES (1) ON DUPLICATE KEY UPDATE k = ", "(", "1", ")", "", 1436),
    ("REPLACE INTO t (k) VALUES (", "(", "1", ")", ")", 1436),
    ("UPDATE t SET k = ", "(", "1", ")", "", 1436),
    ("UPDATE ", "(t, ", "t", ")", " SET k = 1", 1116),
    ("UPDATE t SET k = 1 WHERE ", "(", "1", ")", "", 1436),
    ("UPDATE t SET k = 1 ORDER BY ", "(", "1", ")", "", 1436),
    ("DELETE FROM t WHERE ", "(", "1", ")", "", 1436),
    ("DELETE t FROM ", "(t a JOIN ", "t", ")", "", 1116),
    ("DELETE FROM ", "(t, ", "t", ")", "", 1064),
    // Definitions.
    ("CREATE TABLE x (a INT DEFAULT ", "(", "1", ")", ")", 1436),
    ("CREATE TABLE x (a INT DEFAULT ", "- ", "1", "", ")", 1436),
    ("CREATE TABLE x (a TIMESTAMP ON UPDATE ", "(", "NOW()", ")", ")", 1436),
    ("CREATE TABLE x (a INT, b INT AS ", "(", "1", ")", ")", 1235),
    ("CREATE TABLE x (a INT CHECK ", "(", "1", ")", ")", 1436),
    ("CREATE TABLE x (a INT, CHECK ", "(", "1", ")", ")", 1436),
    ("CREATE TABLE x (a INT, CHECK (", "NOT ", "a", "", "))", 1436),
    ("CREATE TABLE x (a INT, CHECK (a > ", "1 + (", "a", ")", "))", 1436),
    ("CREATE TABLE x (a INT, KEY (", "(", "1", ")", "))", 1235),
    ("CREATE TABLE x ", "(", "a INT", ")", "", 1064),
    ("CREATE TABLE x AS ", "(", "SELECT 1", ")", "", 1436),
    ("CREATE TABLE x (a DECIMAL ", "(", "1", ")", ")", 1064),
    ("CREATE TABLE x (a ENUM ", "(", "'a'", ")", ")", 1064),
    ("CREATE INDEX x ON t ", "(", "k", ")", "", 1235),
    ("ALTER TABLE t ADD COLUMN x INT DEFAULT ", "(", "1", ")", "", 1436),
    ("ALTER TABLE t ALTER k SET DEFAULT ", "(", "1", ")", "", 1436),
    ("ALTER TABLE t MODIFY k INT DEFAULT ", "(", "1", ")", "", 1436),
    ("ALTER TABLE t ADD ", "(", "x INT", ")", "", 1064),
    // The rest.
    ("SET @a = ", "(", "1", ")", "", 1436),
    ("SET sql_mode = ", "(", "''", ")", "", 1436),
    ("DO ", "(", "1", ")", "", 1436),
    ("KILL ", "(", "1", ")", "", 1436),
    ("SHOW TABLES WHERE ", "(", "1", ")", "", 1436),
    ("EXPLAIN ", "(", "SELECT 1", ")", "", 1436),
    ("EXPLAIN SELECT ", "(", "1", ")", "", 1436),
    ("EXPLAIN ", "EXPLAIN ", "SELECT 1", "", "", 1064),
    ("PREPARE s FROM 'SELECT ", "(", "1", ")", "'", 1436),
    ("LOCK TABLES ", "(", "t", ")", " READ", 1064),
    ("SELECT ", "/*! ", "1", " */", "", 1064),
    ("SELECT ", "{d ", "'2020-01-01'", "}", "", 1064),
];

#[test]
fn every_production_is_refused_when_it_is_too_deep() {
    on_a_stack(|s| {
        let mut wrong = Vec::new();
        for (before, open, inner, close, after, code) in DEEP {
            for levels in [129, MANY] {
                let text = format!(
                    "{before}{}{inner}{}{after}",
                    open.repeat(levels),
                    close.repeat(levels)
                );
                let got = both(s, &text);
                if got != [*code; 2] {
                    wrong.push(format!(
                        "{before}{open}{inner}{close}{after} {levels}: {got:?}, not {code}"
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

/// The text before the list, an item (`#` is its number), the text between two items, the text
/// after the list, and the error or 0.
type Wide = (&'static str, &'static str, &'static str, &'static str, u16);
const WIDE: &[Wide] = &[
    // Chains to the left.
    ("SELECT ", "1", "+", "", 1436),
    ("SELECT ", "1", " - ", "", 1436),
    ("SELECT ", "1", "|", "", 1436),
    ("SELECT ", "1", "^", "", 1436),
    ("SELECT ", "1", " XOR ", "", 1436),
    ("SELECT ", "1", " = ", "", 1436),
    ("SELECT 1", "", " IS NULL", "", 1436),
    ("SELECT 1", "", " IS NOT FALSE", "", 1436),
    ("SELECT 'a'", "", " COLLATE utf8mb4_bin", "", 1436),
    ("SELECT '2020-01-01'", "", " + INTERVAL 1 DAY", "", 1436),
    ("SELECT ", "1", " OR ", "", 1436),
    ("SELECT ", "1", " || ", "", 1436),
    ("SELECT ", "1", " AND ", "", 1436),
    ("SELECT 1 FROM t WHERE ", "k = #", " OR ", "", 1436),
    ("SELECT 1 FROM t WHERE ", "k < #", " AND ", "", 1436),
    ("", "SELECT #", " UNION ", "", 0),
    ("", "(SELECT 1)", " UNION ALL ", "", 0),
    ("", "SELECT #", " EXCEPT ", "", 0),
    ("", "SELECT 1", " INTERSECT ALL ", "", 0),
    ("", "SELECT # INTERSECT SELECT #", " UNION ALL ", "", 0),
    ("SELECT 1 FROM JSON_TABLE('1', '$' COLUMNS (", "c# INT PATH '$'", ", ", ")) t", 1117),
    ("WITH ", "a# AS (SELECT 1)", ", ", " SELECT 1", 0),
    ("WITH RECURSIVE ", "a# AS (SELECT 1 UNION ALL SELECT 1 FROM a#)", ", ", " SELECT 1", 0),
    (
        "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL ",
        "SELECT n + 1 FROM a WHERE n < 1",
        " UNION ALL ",
        ") SELECT COUNT(*) FROM a",
        0,
    ),
    ("WITH a AS (SELECT 1) ", "SELECT 1 FROM a", " UNION ALL ", "", 0),
    ("WITH a (", "c#", ", ", ") AS (SELECT 1) SELECT 1 FROM a", 1117),
    ("WITH a AS (SELECT 1) SELECT 1 FROM ", "a a#", ", ", "", 1116),
    ("WITH a AS (SELECT 1) ", "SELECT * FROM a", " UNION ALL ", "", 0),
    // Lists.
    ("SELECT ", "1", ", ", "", 1117),
    ("SELECT ", "*", ", ", " FROM t", 1117),
    ("SELECT ", "t.*", ", ", " FROM t", 1117),
    ("SELECT ", "'a'", " ", "", 1582),
    ("SELECT LENGTH(CONCAT(", "'a'", ", ", "))", 1582),
    ("SELECT COALESCE(", "NULL", ", ", ")", 1582),
    ("SELECT GREATEST(", "#", ", ", ")", 1582),
    ("SELECT 7 IN (", "#", ", ", ")", 0),
    ("SELECT id FROM t WHERE k IN (", "#", ", ", ")", 0),
    ("SELECT id FROM t WHERE k + 1 NOT IN (", "'#'", ", ", ")", 0),
    ("SELECT id FROM t WHERE (id, k) IN (", "(#, 1)", ", ", ")", 0),
    ("SELECT CASE k ", "WHEN # THEN 1", " ", " END FROM t", 0),
    ("SELECT CASE ", "WHEN k = # THEN 1", " ", " END FROM t", 0),
    ("SELECT ROW(", "1", ", ", ")", 1241),
    ("SELECT CHAR(", "64", ", ", ")", 1582),
    ("SELECT COUNT(DISTINCT ", "k", ", ", ") FROM t", 1436),
    ("SELECT GROUP_CONCAT(k ORDER BY ", "id", ", ", ") FROM t", 0),
    ("SELECT COUNT(*) FROM t GROUP BY ", "k", ", ", "", 0),
    ("SELECT COUNT(*) FROM t GROUP BY ", "1", ", ", "", 1056),
    ("SELECT COUNT(*) FROM t GROUP BY ", "k + #", ", ", "", 0),
    ("SELECT id FROM t ORDER BY ", "k", ", ", "", 0),
    ("SELECT SUM(k) OVER (PARTITION BY ", "k", ", ", ") FROM t", 0),
    ("SELECT SUM(k) OVER (ORDER BY ", "k", ", ", ") FROM t", 0),
    ("SELECT SUM(k) OVER (PARTITION BY ", "k + #", ", ", ") FROM t", 1436),
    ("SELECT SUM(k) OVER (ORDER BY ", "k + #", ", ", ") FROM t", 1436),
    ("SELECT ", "SUM(k) OVER ()", ", ", " FROM t", 1117),
    ("SELECT ", "SUM(k) OVER w", " + ", " FROM t WINDOW w AS ()", 1436),
    ("SELECT 1 FROM t WINDOW ", "w# AS ()", ", ", "", 1235),
    ("SELECT id FROM t ORDER BY ", "k + #", ", ", "", 1436),
    ("SELECT id FROM t HAVING id IN (", "id", ", ", ")", 0),
    ("SELECT 1 FROM ", "t", ", ", "", 1116),
    ("SELECT 1 FROM ", "t t#", ", ", "", 1116),
    ("SELECT 1 FROM ", "t t#", " JOIN ", "", 1116),
    ("VALUES ", "ROW(1)", ", ", "", 0),
    ("VALUES ROW(", "1", ", ", ")", 1117),
    ("DELETE ", "t", ", ", " FROM t", 1066),
    ("SELECT 1 FROM ", "t t#", " NATURAL JOIN ", "", 1116),
    ("SELECT 1 FROM t", "", " LEFT JOIN t u ON 1", "", 1116),
    ("SELECT 1 FROM t", "", " JOIN (SELECT 1) u", "", 1116),
    ("SELECT 1 FROM (", "t", ", ", ")", 1116),
    ("SELECT 1 FROM t ", "USE INDEX (k)", " ", "", 0),
    ("SELECT 1 FROM t USE INDEX (", "PRIMARY", ", ", ")", 0),
    ("SELECT 1 FROM t JOIN t u USING (", "id", ", ", ")", 1117),
    ("SELECT id FROM t FOR UPDATE OF ", "t", ", ", "", 0),
    ("SELECT 1 INTO ", "@a", ", ", "", 1222),
    ("SELECT ", "DISTINCT", " ", " 1", 0),
    ("SELECT ", "(SELECT 1)", " + ", "", 1436),
    ("SELECT 1 IN (", "(SELECT 1)", ", ", ")", 1436),
    // Changes.
    ("INSERT INTO t (k) VALUES ", "(#)", ", ", "", 0),
    ("INSERT INTO t (k) VALUES ", "(DEFAULT)", ", ", "", 0),
    ("INSERT INTO t VALUES (1, 1, 1), ", "()", ", ", "", 1136),
    ("INSERT INTO t VALUES ", "()", ", ", "", 0),
    ("INSERT INTO t (k) VALUES ", "ROW(1 + #)", ", ", "", 0),
    ("INSERT INTO t (k) VALUES (", "1", ", ", ")", 1136),
    ("INSERT INTO t (", "k", ", ", ") VALUES (1)", 1136),
    ("INSERT INTO t SET ", "k = 1", ", ", "", 1110),
    ("INSERT INTO t (k) VALUES (1) AS n (", "k", ", ", ") ON DUPLICATE KEY UPDATE k = 1", 1136),
    ("INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE ", "k = k + 1", ", ", "", 0),
    ("UPDATE t SET ", "k = id", ", ", "", 0),
    ("UPDATE t SET k = 1 ORDER BY ", "id", ", ", "", 0),
    ("UPDATE ", "t", ", ", " SET k = 1", 1116),
    ("DELETE FROM ", "t", ", ", "", 1064),
    ("DELETE FROM t WHERE k IN (", "#", ", ", ")", 0),
    // Definitions.
    ("CREATE TABLE x (", "c# INT", ", ", ")", 1117),
    ("CREATE TABLE x (", "c INT", ", ", ")", 1117),
    ("CREATE TABLE x (a ENUM (", "'m#'", ", ", "))", 1097),
    ("CREATE TABLE x (a SET (", "'m#'", ", ", "))", 1097),
    ("CREATE TABLE x (a INT, ", "KEY (a)", ", ", ")", 1069),
    ("CREATE TABLE x (a INT, ", "UNIQUE u# (a)", ", ", ")", 1069),
    ("CREATE TABLE x (a INT, ", "CHECK (a > #)", ", ", ")", 1235),
    ("CREATE TABLE x (a INT ", "CHECK (a > #)", " ", ")", 1235),
    ("ALTER TABLE t ", "ADD CHECK (k > 1)", ", ", "", 1235),
    ("ALTER TABLE t ", "DROP CHECK c#", ", ", "", 3821),
    ("ALTER TABLE t ADD CHECK (k IN (", "#", ", ", ")) NOT ENFORCED", 0),
    ("CREATE TABLE x (a INT, KEY (", "a", ", ", "))", 1070),
    ("CREATE TABLE x (a DECIMAL(", "1", ", ", "))", 1064),
    ("CREATE TABLE x (a INT ", "NOT NULL", " ", ", a INT)", 1060),
    ("CREATE TABLE x (a INT, a INT) ", "COMMENT = 'x'", " ", "", 1060),
    ("CREATE DATABASE c_nothing ", "COLLATE nonsense", " ", "", 1273),
    ("CREATE UNIQUE INDEX x ON t (", "k", ", ", ")", 1070),
    ("ALTER TABLE t ", "ADD INDEX (k)", ", ", "", 1069),
    ("ALTER TABLE t ", "ADD INDEX i (k)", ", ", "", 1061),
    ("ALTER TABLE t ", "DROP INDEX i#", ", ", "", 1091),
    ("ALTER TABLE t ", "ADD COLUMN c# INT", ", ", "", 1117),
    ("ALTER TABLE t ", "ADD COLUMN c# INT FIRST", ", ", "", 1117),
    ("ALTER TABLE t ", "DROP COLUMN c#", ", ", "", 1091),
    ("ALTER TABLE t ", "MODIFY k INT FIRST", ", ", "", 1054),
    ("ALTER TABLE t ", "RENAME COLUMN k TO c#", ", ", "", 1054),
    ("ALTER TABLE t ", "ALTER k SET DEFAULT 1", ", ", "", 0),
    ("ALTER TABLE t ADD x INT, ", "ADD INDEX (x)", ", ", "", 1069),
    ("ALTER TABLE t ADD (", "c# INT", ", ", ")", 1117),
    ("ALTER TABLE t ", "COMMENT 'x'", ", ", "", 0),
    ("ALTER TABLE t ", "RENAME TO t", ", ", "", 0),
    ("DROP TABLE ", "t", ", ", "", 1066),
    ("DROP TABLE IF EXISTS ", "x#", ", ", "", 0),
    ("RENAME TABLE ", "x# TO y#", ", ", "", 1146),
    // The rest.
    ("SET ", "@a = #", ", ", "", 0),
    ("SET ", "@a# = @a#", ", ", "", 0),
    ("SET ", "sort_buffer_size = 65536", ", ", "", 0),
    ("DO ", "#", ", ", "", 0),
    ("EXECUTE nothing USING ", "@a", ", ", "", 1243),
    ("START TRANSACTION ", "WITH CONSISTENT SNAPSHOT", ", ", "", 0),
    ("LOCK TABLES ", "t READ", ", ", "", 0),
    ("LOCK TABLES ", "x# READ", ", ", "", 1146),
    ("FLUSH TABLES ", "x#", ", ", "", 0),
    ("FLUSH ", "STATUS", ", ", "", 0),
    ("SHOW TABLES WHERE ", "1", " OR ", "", 1436),
    ("SELECT ", "/* x */", " ", " 1", 0),
    ("SELECT 1 ", "", "-- x\n", "", 0),
    ("SELECT 1", "", ";", "", 0),
    ("", "/* x */", " ", "", 0),
    ("", "", ";", "", 1065),
];

#[test]
fn every_list_is_read_once() {
    on_a_stack(|s| {
        let mut wrong = Vec::new();
        for (before, item, between, after, code) in WIDE {
            // A statement that runs, or looks each table up, works on each item, so it gets fewer.
            let many = if [0, 1146].contains(code) { MANY / 10 } else { MANY };
            let mut text = before.to_string();
            for n in 0..many {
                text += if n > 0 { between } else { "" };
                text += &item.replace('#', &n.to_string());
            }
            text.push_str(after);
            let got = both(s, &text);
            if got != [*code; 2] {
                wrong.push(format!("{before}{item}{between}{after}: {got:?}, not {code}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

#[test]
fn savepoints_are_found_by_name() {
    on_a_stack(|s| {
        lines(s, "BEGIN");
        for n in 0..25_000 {
            assert_eq!(lines(s, &format!("SAVEPOINT s{n}")), ["ok 0 0"]);
        }
        // A savepoint with a known name moves to the end.
        lines(s, "SAVEPOINT S7");
        for (text, code) in [
            ("ROLLBACK TO s7", 0),
            ("ROLLBACK TO s24999", 0),
            ("ROLLBACK TO s7", 1305),
            ("RELEASE SAVEPOINT s8", 0),
            ("ROLLBACK TO s8", 1305),
            ("ROLLBACK TO s9", 1305),
            ("ROLLBACK TO s6", 0),
        ] {
            assert_eq!(outcome(&lines(s, text)), code, "{text}");
        }
        lines(s, "COMMIT");
        assert_eq!(lines(s, "ROLLBACK TO s6"), ["error 1305"]);
    });
}

/// Common table expressions of which each uses the one before twice: the statement is refused by
/// its size, before its tree is made.
#[test]
fn definitions_that_double_are_refused() {
    on_a_stack(|s| {
        for (levels, code) in [(8, 0), (30, 3170), (60, 3170)] {
            let more = (1..levels)
                .map(|n| format!(", c{n} AS (SELECT 1 FROM c{0} x, c{0} y)", n - 1))
                .collect::<String>();
            let text = format!("WITH c0 AS (SELECT 1){more} SELECT COUNT(*) FROM c{}", levels - 1);
            assert_eq!(both(s, &text), [code; 2], "{levels}");
        }
        for (levels, code) in [(120, 0), (200, 1436), (20_000, 1436)] {
            let more = (1..levels)
                .map(|n| format!(", c{n} AS (SELECT x + 1 AS x FROM c{})", n - 1))
                .collect::<String>();
            let text = format!("WITH c0 AS (SELECT 1 AS x){more} SELECT x FROM c{}", levels - 1);
            assert_eq!(both(s, &text), [code; 2], "{levels}");
        }
    });
}
