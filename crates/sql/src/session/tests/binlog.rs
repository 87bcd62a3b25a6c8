//! What sessions write to the binary log: the files are read and compared with the statements.
use super::{Session, World, execute, lines, query};
use crate::exec::fixture::Server;
use crate::settings::Var;
use redolith_binlog::rows::Row;
use redolith_binlog::{Event, GtidEvent, Query, Reader, RowsKind, Table, TableId};
use redolith_disk::{Disk, File, OpenHow, RealDisk};
use redolith_engine::runtime::block_on;
use redolith_types::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Tables by the number that rows have.
type Tables = HashMap<TableId, Table>;

/// A server that logs, with a session, and how much of its log was read.
pub(super) struct Log {
    session: Session,
    pub world: World,
    seen: usize,
}
impl Log {
    pub fn new() -> Log {
        let world = World::over(Server::logging());
        Log { session: world.session(), world, seen: 0 }
    }
    fn run(&mut self, texts: &[&str]) {
        for text in texts {
            let out = lines(&mut self.session, text);
            assert!(!out.iter().any(|line| line.starts_with("error")), "{text}: {out:?}");
        }
    }
    /// The events of the file after those that were read before.
    fn all<T>(&mut self, mut show: impl FnMut(&Event<'_>, &Tables) -> T) -> Vec<T> {
        let (engine, binlog) = (&self.world.server.engine, self.world.server.binlog.as_ref());
        let binlog = binlog.unwrap();
        block_on(binlog.catch_up(engine.store.log.durable()));
        let end = binlog.status().position.unwrap();
        let path = binlog.place().path(end.file);
        let mut reader = Reader::open(&*engine.disk, &path).unwrap();
        let (mut tables, mut shown) = (Tables::new(), Vec::new());
        while let Some(raw) = reader.next_event().unwrap() {
            let event = raw.decode().unwrap();
            if let Event::TableMap(table) = &event {
                tables.insert(table.id, table.clone());
            }
            shown.push(show(&event, &tables));
        }
        shown.split_off(std::mem::replace(&mut self.seen, shown.len()).min(shown.len()))
    }
    /// The new events as lines, without those that only frame transactions.
    pub fn new_lines(&mut self) -> Vec<String> {
        self.all(line).into_iter().flatten().collect()
    }
    pub fn skip(&mut self) {
        self.new_lines();
    }
    fn spill_files(&self) -> BTreeSet<String> {
        let server = &self.world.server;
        let dir = &server.binlog.as_ref().unwrap().place().dir;
        let names = server.engine.disk.list(dir).unwrap();
        names.into_iter().filter(|name| name.contains(".spill.")).collect()
    }
    /// The new transactions' clocks: (last committed, sequence number).
    fn clocks(&mut self) -> Vec<(u64, u64)> {
        let clock = |event: &Event<'_>, _: &Tables| match event {
            Event::Gtid(GtidEvent { clock, .. }) => {
                Some((clock.last_committed, clock.sequence_number))
            }
            _ => None,
        };
        self.all(clock).into_iter().flatten().collect()
    }
}

fn row(row: &Row<'_>) -> String {
    let value = |value: &Option<Value<'_>>| match value {
        None => "-".to_string(),
        Some(Value::Null) => "NULL".to_string(),
        Some(Value::Bytes(bytes)) if bytes.len() > 40 => {
            format!("{}*{}", char::from(bytes[0]), bytes.len())
        }
        Some(value) => value.to_string(),
    };
    format!("({})", row.iter().map(value).collect::<Vec<_>>().join(","))
}

/// Several lines for rows: one per row, and `;` behind the last row of the statement.
fn line(event: &Event<'_>, tables: &Tables) -> Option<String> {
    Some(match event {
        Event::Query(Query { text: b"BEGIN", database, .. }) => {
            assert_eq!(*database, b"test");
            "BEGIN".into()
        }
        Event::Query(Query { text, database, .. }) => {
            let text = [database, text].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            text.join(": ")
        }
        Event::TableMap(table) => format!("map {}", String::from_utf8_lossy(&table.name)),
        Event::Rows(rows) => {
            let mut shown = Vec::new();
            for change in rows.rows(&tables[&rows.table_id]).unwrap() {
                let change = change.unwrap();
                let images = [&change.before, &change.after].map(|r| r.as_ref().map(row));
                shown.push(match (rows.kind, images) {
                    (RowsKind::Write, [_, Some(after)]) => format!("+{after}"),
                    (RowsKind::Delete, [Some(before), _]) => format!("-{before}"),
                    (RowsKind::Update, [Some(before), Some(after)]) => format!("{before}>{after}"),
                    other => panic!("{other:?}"),
                });
            }
            shown.join(" ") + if rows.is_end_of_statement() { ";" } else { "" }
        }
        Event::RowsQuery(text) => format!("# {}", String::from_utf8_lossy(text)),
        Event::Xid(xid) => {
            assert!(*xid > 0);
            "COMMIT".into()
        }
        Event::FormatDescription(_) | Event::PreviousGtids(_) | Event::Gtid(_) => return None,
        other => panic!("{other:?}"),
    })
}

/// Tests BINLOG-1.
#[test]
fn the_log_has_what_transactions_have_changed() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(20), UNIQUE KEY (n))"]);
    log.skip();
    log.run(&["INSERT INTO t VALUES (1, 10, 'a'), (2, NULL, NULL)"]);
    assert_eq!(log.new_lines(), ["BEGIN", "map t", "+(1,10,a) +(2,NULL,NULL);", "COMMIT"]);
    log.run(&["UPDATE t SET v = 'b' WHERE id < 3"]);
    assert_eq!(
        log.new_lines(),
        ["BEGIN", "map t", "(1,10,a)>(1,10,b) (2,NULL,NULL)>(2,NULL,b);", "COMMIT"]
    );
    // Nothing has changed: nothing is logged.
    log.run(&["UPDATE t SET v = 'b'", "DELETE FROM t WHERE id = 77", "SELECT * FROM t FOR UPDATE"]);
    log.run(&["BEGIN", "UPDATE t SET v = 'b'", "COMMIT", "BEGIN", "COMMIT"]);
    assert_eq!(log.new_lines(), [""; 0]);
    // A statement that fails in the middle, a savepoint, and a rollback.
    log.run(&["BEGIN", "INSERT INTO t VALUES (3, 30, 'c')"]);
    assert_eq!(
        lines(&mut log.session, "INSERT INTO t VALUES (4, 40, 'd'), (3, 0, '')"),
        ["error 1062"]
    );
    log.run(&["SAVEPOINT s", "DELETE FROM t WHERE id = 1", "ROLLBACK TO s"]);
    log.run(&["INSERT INTO t VALUES (5, 50, 'e')", "COMMIT"]);
    assert_eq!(log.new_lines(), ["BEGIN", "map t", "+(3,30,c);", "map t", "+(5,50,e);", "COMMIT"]);
    log.run(&["BEGIN", "SAVEPOINT s", "DELETE FROM t", "ROLLBACK TO s", "COMMIT"]);
    log.run(&["BEGIN", "DELETE FROM t", "ROLLBACK"]);
    assert_eq!(lines(&mut log.session, "INSERT INTO t VALUES (6, 60, 'f'), (6, 0, '')").len(), 1);
    assert_eq!(log.new_lines(), [""; 0]);
    // Duplicates.
    log.run(&["REPLACE INTO t VALUES (1, 30, 'r')", "INSERT IGNORE INTO t VALUES (1, 7, 'x')"]);
    assert_eq!(log.new_lines(), ["BEGIN", "map t", "-(1,10,b) -(3,30,c)", "+(1,30,r);", "COMMIT"]);
    log.run(&["INSERT INTO t VALUES (1, 1, 'x'), (9, 9, 'y') ON DUPLICATE KEY UPDATE v = 'dup'"]);
    assert_eq!(log.new_lines(), ["BEGIN", "map t", "(1,30,r)>(1,30,dup)", "+(9,9,y);", "COMMIT"]);
    // The order of changes, and a key that changes.
    log.run(&["UPDATE t SET id = id + 100 WHERE id > 4 ORDER BY id DESC"]);
    log.run(&["DELETE FROM t WHERE id > 100 ORDER BY id LIMIT 1", "DELETE FROM t WHERE id = 109"]);
    assert_eq!(
        log.new_lines(),
        [
            "BEGIN",
            "map t",
            "(9,9,y)>(109,9,y) (5,50,e)>(105,50,e);",
            "COMMIT",
            "BEGIN",
            "map t",
            "-(105,50,e);",
            "COMMIT",
            "BEGIN",
            "map t",
            "-(109,9,y);",
            "COMMIT"
        ]
    );
    // Prepared statements, and INSERT .. SELECT into a table without a key.
    log.run(&["CREATE TABLE plain (a INT)"]);
    log.skip();
    let id = block_on(log.session.prepare(b"INSERT INTO plain SELECT id FROM t WHERE id < ?"));
    assert_eq!(execute(&mut log.session, id.unwrap().id, &[Value::Int(3)]), ["ok 2 0"]);
    assert_eq!(log.new_lines(), ["BEGIN", "map plain", "+(1) +(2);", "COMMIT"]);
    // AUTOCOMMIT is off, several statements, and a DDL statement commits.
    log.run(&["SET autocommit = 0", "DELETE FROM plain", "INSERT INTO plain VALUES (7)"]);
    log.run(&["CREATE TABLE u (a INT)", "SET autocommit = 1"]);
    assert_eq!(
        log.new_lines(),
        [
            "BEGIN",
            "map plain",
            "-(1) -(2);",
            "map plain",
            "+(7);",
            "COMMIT",
            "test: CREATE TABLE u (a INT)"
        ]
    );
}

/// `binlog_rows_query_log_events`: the text stands before the rows of its statement, if there are
/// rows.
#[test]
fn the_text_of_a_statement_is_logged_before_its_rows() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))"]);
    log.skip();
    log.run(&["SET binlog_rows_query_log_events = ON"]);
    log.run(&["INSERT  INTO t VALUES (1, 'ü'), (2, 'b') ; UPDATE t SET v = 'c' WHERE id = 7"]);
    assert_eq!(
        log.new_lines(),
        [
            "BEGIN",
            "# INSERT  INTO t VALUES (1, 'ü'), (2, 'b')",
            "map t",
            "+(1,ü) +(2,b);",
            "COMMIT"
        ]
    );
    log.run(&["BEGIN", "DELETE FROM t WHERE id = 2", "SAVEPOINT s", "DELETE FROM t"]);
    assert_eq!(lines(&mut log.session, "INSERT INTO t VALUES (3, ''), (3, '')"), ["error 1062"]);
    log.run(&["ROLLBACK TO s"]);
    let id = block_on(log.session.prepare(b"UPDATE t SET v = ?")).unwrap().id;
    for _ in 0..2 {
        execute(&mut log.session, id, &[Value::text("z")]);
    }
    log.run(&["COMMIT"]);
    assert_eq!(
        log.new_lines(),
        [
            "BEGIN",
            "# DELETE FROM t WHERE id = 2",
            "map t",
            "-(2,b);",
            "# UPDATE t SET v = ?",
            "map t",
            "(1,ü)>(1,z);",
            "COMMIT"
        ]
    );
    log.run(&["SET binlog_rows_query_log_events = OFF", "DELETE FROM t"]);
    assert_eq!(log.new_lines(), ["BEGIN", "map t", "-(1,z);", "COMMIT"]);
    // The text of a statement that has not begun is not that of the next one.
    log.run(&["CREATE TABLE u (id INT PRIMARY KEY)"]);
    log.skip();
    log.run(&["LOCK TABLES t WRITE", "SET autocommit = 0, binlog_rows_query_log_events = ON"]);
    log.run(&["INSERT INTO t VALUES (4, '')"]);
    assert_eq!(lines(&mut log.session, "INSERT INTO u VALUES (1)"), ["error 1100"]);
    log.run(&["SET binlog_rows_query_log_events = OFF", "DELETE FROM t", "COMMIT"]);
    assert_eq!(
        log.new_lines(),
        ["BEGIN", "# INSERT INTO t VALUES (4, '')", "map t", "+(4,);", "map t", "-(4,);", "COMMIT"]
    );
}

#[test]
fn gtid_next_is_automatic() {
    let world = World::new();
    let mut s = world.session();
    let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    for (value, outcome) in [
        ("'automatic'".to_string(), "ok 0 0"),
        ("'ANONYMOUS'".into(), "ok 0 0"),
        ("AUTOMATIC".into(), "ok 0 0"),
        ("DEFAULT".into(), "ok 0 0"),
        ("7".into(), "error 1232"),
        ("'x:7'".into(), "error 1774"),
        (format!("'{uuid}:0'"), "error 1774"),
        (format!("'{uuid}:7'"), "error 1781"),
    ] {
        assert_eq!(lines(&mut s, &format!("SET gtid_next = {value}")), [outcome], "{value}");
    }
    world.db.settings.set_option(Var::GtidMode, Some("ON")).unwrap();
    for (value, outcome) in [
        ("'AUTOMATIC'".to_string(), "ok 0 0"),
        ("'ANONYMOUS'".into(), "error 1782"),
        (format!("'{uuid}:7'"), "error 1235"),
    ] {
        assert_eq!(lines(&mut s, &format!("SET gtid_next = {value}")), [outcome], "{value}");
    }
    assert_eq!(lines(&mut s, "SET GLOBAL gtid_next = 'AUTOMATIC'"), ["error 1228"]);
    lines(&mut s, "BEGIN");
    assert_eq!(lines(&mut s, "SET gtid_next = 'AUTOMATIC'"), ["error 1766"]);
}

#[test]
fn the_log_begins_anew_and_its_options_change() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "FLUSH LOGS"]);
    log.run(&["BEGIN", "INSERT INTO t VALUES (2)"]);
    let mut other = log.world.session();
    for (text, code) in [
        ("RESET MASTER TO 0", "error 3567"),
        ("RESET BINARY LOGS AND GTIDS TO 2000000001", "error 3567"),
        ("RESET MASTER TO x", "error 1064"),
    ] {
        assert_eq!(lines(&mut other, text), [code], "{text}");
    }
    assert_eq!(lines(&mut other, "RESET BINARY LOGS AND GTIDS TO 7"), ["ok 0 0"]);
    let binlog = log.world.server.binlog.clone().unwrap();
    assert_eq!((binlog.numbers(), binlog.status().executed.is_empty()), (vec![7], true));
    // The transaction that runs gets into the new log, where events have no checksums.
    assert_eq!(lines(&mut other, "SET GLOBAL binlog_checksum = NONE"), ["ok 0 0"]);
    log.run(&["COMMIT"]);
    log.seen = 0;
    assert_eq!(log.new_lines(), ["BEGIN", "map t", "+(2);", "COMMIT"]);
    assert_eq!(binlog.numbers(), [7, 8]);
    assert_eq!(binlog.options().checksum, redolith_binlog::Checksum::None);
    // From now on the present file is too long.
    assert_eq!(lines(&mut other, "SET GLOBAL max_binlog_size = 4096"), ["ok 0 0"]);
    assert_eq!(binlog.numbers(), [7, 8]);
    log.run(&["CREATE TABLE u (a TEXT)", "INSERT INTO u VALUES (REPEAT('x', 5000))"]);
    block_on(binlog.catch_up(log.world.server.engine.store.log.durable()));
    assert_eq!(binlog.numbers(), [7, 8, 9]);
    let shown = lines(&mut log.world.session(), "SHOW STATUS LIKE 'Binlog_cache_use'").join(" ");
    assert!(shown.contains('3'), "{shown}");
    assert_eq!(lines(&mut World::new().session(), "RESET MASTER TO 3"), ["error 1186"]);
}

#[test]
fn every_type_is_logged() {
    let mut log = Log::new();
    log.run(&[
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, t TINYINT UNSIGNED, s SMALLINT, m \
            MEDIUMINT, b BIGINT UNSIGNED, d DECIMAL(20,5), f FLOAT, g DOUBLE, c CHAR(5) CHARACTER \
            SET latin1, bi BINARY(3), v VARCHAR(50), vb VARBINARY(9), x TEXT, y LONGBLOB, da DATE, \
            ti TIME(3), dt DATETIME(6), ts TIMESTAMP NULL, ye YEAR, bt BIT(12), e \
            ENUM('a','b'), se SET('p','q','r'), js JSON)",
        "SET time_zone = '+02:00'",
    ]);
    log.skip();
    log.run(&[
        "INSERT INTO t VALUES (DEFAULT, 255, -3, -4, 18446744073709551615, -1.5, 0.25, 1e10, \
        'é', 'ab', 'ü', X'00FF', 'text', 'blob', '2024-02-29', '-10:11:12.125', '2024-01-02 \
        03:04:05.000006', '2024-01-02 03:04:05', 2024, 4095, 'b', 'p,r', '{\"k\":1}')",
    ]);
    log.run(&["INSERT INTO t (id) VALUES (5)"]);
    let all = log.new_lines();
    assert_eq!(
        all[2].as_bytes().iter().filter(|b| **b == b',').count(),
        22,
        "the values of all columns: {}",
        all[2]
    );
    for part in [
        "+(1,255,-3,-4,18446744073709551615,-1.50000,0.25,10000000000,",
        ",ü,",
        ",text,blob,2024-02-29,-10:11:12.125",
        "2024-01-02 03:04:05.000006",
        ",2024-01-02 01:04:05",
        ",2024,4095,2,5,{\"k\": 1})",
    ] {
        assert!(all[2].contains(part), "{part}: {}", all[2]);
    }
    assert_eq!(all[6], format!("+(5{});", ",NULL".repeat(22)));
}

const LONG: &str = "CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT 4, a LONGBLOB, b \
    VARCHAR(10000), ts TIMESTAMP(6) NULL ON UPDATE CURRENT_TIMESTAMP(6))";
const LONG_ROW: &str = "INSERT INTO t VALUES (1, 1, REPEAT('a', 40000), REPEAT('b', 9000), NULL)";

#[test]
fn columns_outside_the_row_are_logged() {
    let mut log = Log::new();
    log.run(&[LONG, LONG_ROW]);
    log.skip();
    for (statement, rows) in [
        (
            "UPDATE t SET ts = '2024-01-01', n = 2 WHERE id = 1",
            "(1,1,a*40000,b*9000,NULL)>(1,2,a*40000,b*9000,2024-01-01 00:00:00);",
        ),
        (
            "UPDATE t SET ts = NULL, a = REPEAT('c', 50000) ORDER BY n",
            "(1,2,a*40000,b*9000,2024-01-01 00:00:00)>(1,2,c*50000,b*9000,NULL);",
        ),
        (
            "INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE n = n + 1, ts = NULL",
            "(1,2,c*50000,b*9000,NULL)>(1,3,c*50000,b*9000,NULL);",
        ),
        (
            "REPLACE INTO t VALUES (1, 1, REPEAT('d', 30000), 'b', NULL)",
            "-(1,3,c*50000,b*9000,NULL) +(1,1,d*30000,b,NULL);",
        ),
        ("UPDATE t SET id = 2, ts = NULL", "(1,1,d*30000,b,NULL)>(2,1,d*30000,b,NULL);"),
        ("DELETE FROM t WHERE id = 2", "-(2,1,d*30000,b,NULL);"),
        (LONG_ROW, "+(1,1,a*40000,b*9000,NULL);"),
        ("DELETE FROM t ORDER BY n LIMIT 1", "-(1,1,a*40000,b*9000,NULL);"),
    ] {
        log.run(&[statement]);
        let all = log.new_lines();
        assert_eq!(all[2..all.len() - 1].join(" "), rows, "{statement}");
    }
}

#[test]
fn each_table_that_a_statement_changes_is_logged() {
    let mut log = Log::new();
    for table in ["a", "b"] {
        log.run(&[&format!("CREATE TABLE {table} (id INT PRIMARY KEY, n INT)")]);
        log.run(&[&format!("INSERT INTO {table} VALUES (1, 1), (2, 2)")]);
    }
    log.skip();
    log.run(&["UPDATE a JOIN b USING (id) SET a.n = a.id + b.n, b.n = 1"]);
    let rows = ["map a", "map b", "(1,1)>(1,2) (2,2)>(2,4)", "(2,2)>(2,1);"];
    assert_eq!(log.new_lines(), [&["BEGIN"][..], &rows, &["COMMIT"]].concat());
    log.run(&[
        "SET binlog_row_image = MINIMAL",
        "UPDATE a, b SET a.n = 7, b.n = 8 WHERE a.id = b.id",
    ]);
    let rows = ["map a", "map b", "(1,-)>(-,7) (2,-)>(-,7)", "(1,-)>(-,8) (2,-)>(-,8);"];
    assert_eq!(log.new_lines(), [&["BEGIN"][..], &rows, &["COMMIT"]].concat());
    log.run(&["DELETE a, b FROM a JOIN b ON b.id = a.id AND a.id = 2"]);
    let rows = ["map a", "map b", "-(2,-)", "-(2,-);"];
    assert_eq!(log.new_lines(), [&["BEGIN"][..], &rows, &["COMMIT"]].concat());
    log.run(&["UPDATE a, b SET a.n = 7, b.n = 8", "DELETE a, b FROM a, b WHERE a.id = 9"]);
    assert_eq!(log.new_lines(), [] as [&str; 0]);
}

#[test]
fn images_have_the_columns_that_the_setting_says() {
    let mut log = Log::new();
    log.run(&[LONG, LONG_ROW, "SET binlog_row_image = MINIMAL"]);
    log.skip();
    log.run(&["UPDATE t SET n = 2, ts = NULL", "INSERT INTO t (id) VALUES (2)"]);
    log.run(&["DELETE FROM t WHERE id = 1"]);
    let all = log.new_lines();
    assert_eq!(
        [&all[2], &all[6], &all[10]],
        ["(1,-,-,-,-)>(-,2,-,-,NULL);", "+(2,-,-,-,-);", "-(1,-,-,-,-);"]
    );
    log.run(&[LONG_ROW, "SET binlog_row_image = NOBLOB"]);
    log.skip();
    log.run(&["UPDATE t SET n = 3, ts = NULL WHERE id = 1"]);
    log.run(&["UPDATE t SET a = 'x', ts = NULL WHERE id = 1", "INSERT INTO t (id) VALUES (3)"]);
    log.run(&["DELETE FROM t WHERE id = 1"]);
    let all = log.new_lines();
    assert_eq!(
        [&all[2], &all[6], &all[10], &all[14]],
        [
            "(1,1,-,b*9000,NULL)>(1,3,-,b*9000,NULL);",
            "(1,3,-,b*9000,NULL)>(1,3,x,b*9000,NULL);",
            "+(3,4,-,NULL,NULL);",
            "-(1,3,-,b*9000,NULL);"
        ]
    );
}

/// Tests DDL-3.
#[test]
fn definitions_are_logged_as_they_were_sent() {
    let mut log = Log::new();
    let kept = |text: &str| format!("test: {text}");
    for text in [
        "create table  a (x INT, `y` text) /* as it is */ COMMENT 'ü'",
        "CREATE TABLE IF NOT EXISTS a (x INT)",
        "CREATE TABLE b LIKE a",
        "CREATE INDEX i ON a (x)",
        "ALTER TABLE a ADD INDEX j (x), COMMENT 'new'",
        "DROP INDEX i ON a",
        "TRUNCATE TABLE a",
        "TRUNCATE a",
        "RENAME TABLE a TO c, b TO a, c TO b",
        "RENAME TABLE a TO c, c TO a",
        "ALTER TABLE b RENAME TO d",
        "DROP TABLE IF EXISTS a, d, nothing",
        "DROP TABLE IF EXISTS nothing",
    ] {
        log.run(&[text]);
        assert_eq!(log.new_lines(), [kept(text)]);
    }
    // Each of several statements alone.
    log.run(&["CREATE TABLE a (x INT); INSERT INTO a VALUES (1) ; DROP TABLE a ;"]);
    assert_eq!(
        log.new_lines(),
        ["test: CREATE TABLE a (x INT)", "BEGIN", "map a", "+(1);", "COMMIT", "test: DROP TABLE a"]
    );
    for (text, database) in [
        ("CREATE DATABASE other", "other"),
        ("CREATE DATABASE IF NOT EXISTS other", "other"),
        ("ALTER DATABASE other COLLATE latin1_bin", "other"),
        ("ALTER DATABASE other COLLATE latin1_bin", "other"),
        ("CREATE TABLE other.t (x INT)", "test"),
        ("DROP DATABASE other", "other"),
        ("DROP DATABASE IF EXISTS other", "other"),
    ] {
        log.run(&[text]);
        assert_eq!(log.new_lines(), [format!("{database}: {text}")]);
    }
    // What is refused is not logged.
    for text in ["CREATE DATABASE test", "DROP TABLE nothing", "CREATE TABLE t (x NOTYPE)"] {
        assert!(lines(&mut log.session, text)[0].starts_with("error"), "{text}");
    }
    assert_eq!(log.new_lines(), [""; 0]);
    // Prepared definitions have their own text, database and character set.
    log.run(&["PREPARE p FROM 'CREATE TABLE p (x INT)'", "CREATE DATABASE two", "USE two"]);
    log.run(&["EXECUTE p", "USE test", "DROP TABLE p, two.nothing"].map(|text| match text {
        "DROP TABLE p, two.nothing" => "DROP TABLE p",
        text => text,
    }));
    assert_eq!(
        log.new_lines(),
        ["two: CREATE DATABASE two", "test: CREATE TABLE p (x INT)", "test: DROP TABLE p"]
    );
}

/// Tests GIPK-2.
#[test]
fn a_generated_key_is_in_the_logged_definition() {
    let mut log = Log::new();
    log.run(&["SET sql_generate_invisible_primary_key = 1, sql_mode = 'NO_BACKSLASH_ESCAPES'"]);
    log.run(&["SET show_gipk_in_create_table_and_information_schema = 0"]);
    log.run(&["CREATE TABLE t (a INT) COMMENT '\\'", "INSERT INTO t VALUES (7)"]);
    let t = "`t` (\n  `my_row_id` bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE \
        */,\n  `a` int DEFAULT NULL,\n  PRIMARY KEY (`my_row_id`)\n) ENGINE=InnoDB DEFAULT \
        CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci";
    assert_eq!(
        log.new_lines(),
        [&*format!("test: CREATE TABLE {t} COMMENT='\\\\'"), "BEGIN", "map t", "+(1,7);", "COMMIT"]
    );
    log.run(&["CREATE DATABASE two", "CREATE TABLE IF NOT EXISTS two.t (a INT)", "DROP TABLE t"]);
    log.run(&["CREATE TABLE t LIKE two.t", "CREATE TABLE p (a INT PRIMARY KEY)"]);
    assert_eq!(
        log.new_lines(),
        [
            "two: CREATE DATABASE two",
            &*format!("test: CREATE TABLE IF NOT EXISTS `two`.{t}"),
            "test: DROP TABLE t",
            "test: CREATE TABLE t LIKE two.t",
            "test: CREATE TABLE p (a INT PRIMARY KEY)"
        ]
    );
}

/// Tests CTAS-2 and CTAS-3.
#[test]
fn a_table_made_from_rows_is_logged_as_a_definition_and_rows() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE s (id INT PRIMARY KEY, v VARCHAR(3000))"]);
    log.run(&["INSERT INTO s VALUES (1, 'a'), (2, 'b')"]);
    log.skip();
    log.run(&["CREATE TABLE t (PRIMARY KEY (id)) SELECT id, v, 7 AS n FROM s"]);
    let columns = "(\n  `id` int NOT NULL,\n  `v` varchar(3000) DEFAULT NULL,\n  `n` int NOT NULL \
        DEFAULT '0',\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 \
        COLLATE=utf8mb4_general_ci";
    let definition = format!("test: CREATE TABLE `t` {columns}");
    assert_eq!(log.new_lines(), [&*definition, "BEGIN", "map t", "+(1,a,7) +(2,b,7);", "COMMIT"]);
    // Without rows there is the definition alone. What fails, and what finds the table, is not
    // there.
    log.run(&["CREATE TABLE none SELECT 1 AS a FROM s WHERE id > 9"]);
    log.run(&["CREATE TABLE IF NOT EXISTS none SELECT 5 AS a"]);
    lines(&mut log.session, "CREATE TABLE u (UNIQUE (n)) SELECT id, 1 AS n FROM s");
    lines(&mut log.session, "CREATE TABLE t SELECT 1 AS a");
    assert_eq!(log.new_lines().len(), 1);
    // Rows that outgrow memory go through a spill file, and the definition still comes first.
    for _ in 0..10 {
        let double = "INSERT INTO s SELECT id + (SELECT MAX(id) FROM s), REPEAT('x', 3000) FROM s";
        log.run(&[double]);
    }
    log.skip();
    log.clocks();
    log.run(&["CREATE TABLE big SELECT id, v FROM s"]);
    let events = log.new_lines();
    assert!(events[0].starts_with("test: CREATE TABLE `big` ("), "{}", events[0]);
    assert_eq!((&*events[1], events.last().unwrap().as_str()), ("BEGIN", "COMMIT"));
    let rows: usize = events.iter().map(|line| line.matches("+(").count()).sum();
    assert_eq!(rows, 2048);
    // sql_log_bin.
    log.run(&["SET sql_log_bin = 0", "CREATE TABLE quiet SELECT 1 AS a", "SET sql_log_bin = 1"]);
    assert_eq!(log.new_lines(), [""; 0]);
}

#[test]
fn definitions_say_what_their_text_depends_on() {
    let mut log = Log::new();
    let mode = "SET sql_mode = 'ANSI_QUOTES,NO_ENGINE_SUBSTITUTION'";
    log.run(&["SET NAMES latin1", "SET time_zone = '-03:30'", mode]);
    let mut out = super::Lines::default();
    block_on(log.session.query(b"CREATE TABLE \"t\" (a INT) COMMENT '\xfc'", &mut out));
    let checked = log.all(|event, _| match event {
        Event::Query(query) => {
            assert_eq!(query.text, b"CREATE TABLE \"t\" (a INT) COMMENT '\xfc'");
            let status = &query.status;
            assert_eq!(status.charset, Some([8, 8, 45]));
            // Without NO_ENGINE_SUBSTITUTION.
            assert_eq!(status.sql_mode, Some(4));
            assert_eq!(status.time_zone, Some(&b"-03:30"[..]));
            assert_eq!(status.updated_databases, Some(vec![&b"test"[..]]));
            assert!(status.ddl_xid > Some(0) && status.has_catalog);
            true
        }
        Event::Gtid(gtid) => {
            assert!(gtid.may_have_statements && gtid.gtid.is_some());
            assert_eq!(gtid.server_version, 80036);
            false
        }
        _ => false,
    });
    assert!(checked.contains(&true));
    // The flag stays with the session.
    log.run(&["SET foreign_key_checks = 0, autocommit = 0", "DROP TABLE t"]);
    let flags = log.all(|event, _| match event {
        Event::Query(query) => query.status.flags2,
        _ => None,
    });
    assert!(flags.contains(&Some(1 << 26 | 1 << 19)));
}

#[test]
fn a_session_can_leave_the_log() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (id INT PRIMARY KEY)"]);
    log.skip();
    log.run(&["SET sql_log_bin = 0", "INSERT INTO t VALUES (1)", "CREATE TABLE u (a INT)"]);
    log.run(&["DROP TABLE IF EXISTS nothing"]);
    assert_eq!(log.new_lines(), [""; 0]);
    log.run(&["BEGIN"]);
    assert_eq!(lines(&mut log.session, "SET sql_log_bin = 1"), ["error 1694"]);
    log.run(&["COMMIT", "SET sql_log_bin = 1", "INSERT INTO t VALUES (2)"]);
    assert_eq!(log.new_lines(), ["BEGIN", "map t", "+(2);", "COMMIT"]);
    assert_eq!(lines(&mut log.session, "SET GLOBAL sql_log_bin = 0"), ["error 1228"]);
}

/// Tests BINLOG-2.
#[test]
fn a_transaction_too_long_for_the_log_is_rolled_back() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3000))"]);
    log.run(&["SET GLOBAL max_binlog_cache_size = 8192", "INSERT INTO t VALUES (1, 'kept')"]);
    log.skip();
    log.run(&["BEGIN", "INSERT INTO t VALUES (2, REPEAT('a', 3000))", "SAVEPOINT s"]);
    log.run(&["INSERT INTO t VALUES (3, REPEAT('a', 3000))", "ROLLBACK TO s"]);
    log.run(&["INSERT INTO t VALUES (3, REPEAT('a', 3000))"]);
    let long = "INSERT INTO t VALUES (4, REPEAT('a', 3000))";
    assert_eq!(lines(&mut log.session, long), ["error 1197"]);
    log.run(&["COMMIT"]);
    assert_eq!(lines(&mut log.session, "SELECT id FROM t"), ["1"]);
    let long = "INSERT INTO t VALUES (5, REPEAT('a', 3000)), (6, REPEAT('a', 3000)), (7, \
        REPEAT('a', 3000))";
    assert_eq!(lines(&mut log.session, long), ["error 1197"]);
    assert_eq!(lines(&mut log.session, "SELECT id FROM t"), ["1"]);
    assert_eq!(log.new_lines(), [""; 0]);
    assert_eq!(log.session.state.memory.binlog.used(), 0);
}

/// Events that outgrow memory are in the log all the same, and what is taken back is not. Tests
/// SPILL-1.
#[test]
fn a_long_transaction_spills_its_events() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3000))"]);
    log.run(&["INSERT INTO t VALUES (1, REPEAT('a', 3000))"]);
    log.skip();
    let double = "INSERT INTO t SELECT id + (SELECT MAX(id) FROM t), v FROM t ORDER BY id";
    log.run(&["BEGIN"]);
    (0..10).for_each(|_| log.run(&[double]));
    assert_eq!(log.spill_files().len(), 1);
    log.run(&["SAVEPOINT s", double, double, "ROLLBACK TO s"]);
    log.run(&["INSERT INTO t VALUES (5000, 'last')", "COMMIT"]);
    let lines = log.new_lines();
    let inserted = lines.iter().filter(|line| line.starts_with('+'));
    let inserted: usize = inserted.map(|line| line.matches("(").count()).sum();
    assert_eq!(inserted, 1024);
    assert_eq!(lines.last().map(String::as_str), Some("COMMIT"));
    log.run(&["DELETE FROM t WHERE id > 1", "BEGIN"]);
    // The files of earlier transactions go when a checkpoint passes their commits.
    let earlier = log.spill_files();
    (0..10).for_each(|_| log.run(&[double]));
    let mut own = log.spill_files();
    own.retain(|name| !earlier.contains(name));
    assert_eq!(own.len(), 1);
    log.run(&["ROLLBACK"]);
    assert!(log.spill_files().is_disjoint(&own));
    log.skip();
    log.run(&["INSERT INTO t VALUES (2, '')"]);
    assert_eq!(log.new_lines(), ["BEGIN", "map t", "+(2,);", "COMMIT"]);
    assert_eq!(log.session.state.memory.binlog.used(), 0);
}

/// A disk on which spill files have no room at times.
struct Narrow {
    disk: RealDisk,
    full: Arc<AtomicBool>,
}
struct NarrowFile {
    file: Arc<dyn File>,
    full: Arc<AtomicBool>,
}
impl File for NarrowFile {
    redolith_disk::forward_file!(file: read_at write_durable_at sync len set_len submit);
    fn write_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        match self.full.load(Relaxed) {
            true => Err(std::io::ErrorKind::StorageFull.into()),
            false => self.file.write_at(bytes, offset),
        }
    }
}
impl Disk for Narrow {
    fn open(&self, path: &Path, how: OpenHow) -> std::io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        let full = self.full.clone();
        let spills = path.to_string_lossy().contains(".spill.");
        Ok(if spills { Arc::new(NarrowFile { file, full }) } else { file })
    }
    redolith_disk::forward_disk! {
        disk: exists list
        create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
}

/// A statement whose events have no room is rolled back, and the log has what the others did.
#[test]
fn a_spill_without_room_loses_no_events() {
    let full = Arc::new(AtomicBool::new(false));
    let disk = Arc::new(Narrow { disk: RealDisk::new(), full: full.clone() });
    let world = World::over(Server::logging_on(disk));
    let mut log = Log { session: world.session(), world, seen: 0 };
    log.run(&["CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3000))"]);
    log.skip();
    let double = "INSERT INTO t SELECT id + (SELECT MAX(id) FROM t), v FROM t ORDER BY id";
    // The first time nothing was spilled before; then a part was.
    for (round, doublings) in [(0, 8), (1, 10)] {
        log.run(&["DELETE FROM t", "BEGIN", "INSERT INTO t VALUES (1, REPEAT('a', 3000))"]);
        log.skip();
        (0..doublings).for_each(|_| log.run(&[double]));
        assert_eq!(log.spill_files().is_empty(), round == 0, "{round}");
        full.store(true, Relaxed);
        let failed = (0..3).any(|_| lines(&mut log.session, double) == ["error 1026"]);
        assert!(failed);
        // Without a spill file the rest needs no room.
        full.store(round == 0, Relaxed);
        let rows: usize = lines(&mut log.session, "SELECT COUNT(*) FROM t")[0].parse().unwrap();
        assert!(rows >= 1 << doublings);
        log.run(&["COMMIT"]);
        let all = log.new_lines();
        assert_eq!((&*all[0], &*all[all.len() - 1]), ("BEGIN", "COMMIT"));
        let inserted = all.iter().filter(|line| line.starts_with('+'));
        let inserted: usize = inserted.map(|line| line.matches("(").count()).sum();
        assert_eq!(inserted, rows, "{round}");
        full.store(false, Relaxed);
    }
}

#[test]
fn transactions_that_conflict_keep_their_order() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (id INT PRIMARY KEY, n INT, UNIQUE KEY (n))"]);
    log.run(&["CREATE TABLE plain (a INT)"]);
    log.clocks();
    log.run(&["INSERT INTO t VALUES (1, 10)", "INSERT INTO t VALUES (2, NULL)"]);
    log.run(&["INSERT INTO t VALUES (3, NULL)", "UPDATE t SET n = 11 WHERE id = 1"]);
    log.run(&["INSERT INTO t VALUES (4, 10)", "DELETE FROM t WHERE id = 3"]);
    log.run(&["INSERT INTO plain VALUES (1)", "INSERT INTO t VALUES (5, 5)"]);
    let clocks = log.clocks();
    let first = clocks[0].1;
    let of = |n: usize| (clocks[n].0 + 1 - first, clocks[n].1 - first);
    // (transactions before the one that it depends on, its number), from the first INSERT on
    assert_eq!(
        (0..8).map(of).collect::<Vec<_>>(),
        [
            (0, 0),
            (0, 1),
            (0, 2),
            (1, 3), // row 1
            (4, 4), // the 10 that row 1 gave up
            (3, 5), // row 3
            (6, 6), // a table without a key
            (7, 7),
        ]
    );
}

#[test]
fn a_table_has_another_number_when_its_definition_has_changed() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"]);
    log.run(&["ALTER TABLE t COMMENT 'x'", "INSERT INTO t VALUES (3)"]);
    log.run(&["SET GLOBAL binlog_row_metadata = FULL", "INSERT INTO t VALUES (4)"]);
    let maps = log.all(|event, _| match event {
        Event::TableMap(table) => Some((table.id, table.columns[0].name.clone())),
        _ => None,
    });
    let maps: Vec<_> = maps.into_iter().flatten().collect();
    assert_eq!(maps.len(), 4);
    assert!(maps[0].0 == maps[1].0 && maps[1].0 != maps[2].0 && maps[2].0 != maps[3].0);
    assert_eq!([&maps[2].1[..], &maps[3].1[..]], [&b""[..], b"a"]);
    query(&mut log.session, "DROP TABLE t");
}

/// Tests ALTER-4: the rows that ALTER TABLE copies are no events.
/// A write that a READ ONLY transaction refuses leaves nothing that a savepoint could name.
/// Tests BINLOG-1.
#[test]
fn a_refused_write_leaves_no_events() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (a INT)", "CREATE TEMPORARY TABLE own (a INT)"]);
    log.skip();
    let refused = |log: &mut Log| {
        assert_eq!(lines(&mut log.session, "INSERT INTO t VALUES (1)"), ["error 1792"]);
    };
    log.run(&["SET auto_increment_increment = 2", "START TRANSACTION READ ONLY"]);
    refused(&mut log);
    log.run(&["SAVEPOINT s", "DO 1", "SET auto_increment_increment = 1"]);
    refused(&mut log);
    log.run(&["ROLLBACK TO s", "INSERT INTO own VALUES (1)"]);
    refused(&mut log);
    log.run(&["COMMIT"]);
    assert!(log.new_lines().is_empty());
}

/// A replica that runs the text gets the values that the rows have here.
#[test]
fn rows_that_a_rebuild_fills_have_the_time_of_the_record() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)"]);
    log.skip();
    log.run(&["ALTER TABLE t ADD c DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)"]);
    let times = log.all(|event, _| match event {
        Event::Query(query) => query.status.microseconds,
        _ => None,
    });
    let shown = lines(&mut log.session, "SELECT DISTINCT MICROSECOND(c) FROM t");
    let told = times.into_iter().flatten().next().unwrap_or(0);
    assert_eq!(shown, [told.to_string()]);
    for differs in ["USER()", "VERSION()", "FOUND_ROWS()"] {
        let text = format!("ALTER TABLE t ADD d VARCHAR(90) DEFAULT ({differs})");
        assert_eq!(lines(&mut log.session, &text), ["error 1674"], "{differs}");
    }
}

#[test]
fn a_table_that_is_rebuilt_is_logged_by_its_text() {
    let mut log = Log::new();
    log.run(&["CREATE TABLE s (id INT PRIMARY KEY, v VARCHAR(30))"]);
    log.run(&["INSERT INTO s VALUES (1, 'a'), (2, 'b')"]);
    log.skip();
    let texts = [
        "ALTER TABLE s ADD n INT DEFAULT 7",
        "ALTER TABLE s RENAME COLUMN n TO m",
        "ALTER TABLE s DROP v, RENAME TO t",
    ];
    log.run(&texts);
    let said = texts.map(|text| format!("test: {text}"));
    assert_eq!(log.new_lines(), said);
    for failing in [
        "ALTER TABLE t ADD n INT DEFAULT 7, ADD UNIQUE (n)",
        "ALTER TABLE t ADD r VARCHAR(40) DEFAULT (UUID())",
    ] {
        assert!(lines(&mut log.session, failing)[0].starts_with("error"), "{failing}");
    }
    log.run(&["SET sql_log_bin = 0", "ALTER TABLE t ADD r VARCHAR(40) DEFAULT (UUID())"]);
    log.run(&["SET sql_log_bin = 1", "INSERT INTO t (id, m, r) VALUES (3, 4, 'r')"]);
    assert_eq!(log.new_lines(), ["BEGIN", "map t", "+(3,4,r);", "COMMIT"]);
}
