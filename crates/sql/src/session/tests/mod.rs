//! Tests sessions on a real engine: the answers to statements.
mod auto_increment;
mod binlog;
mod checks;
mod classic_commit;
mod correlated;
mod counters;
mod create_select;
mod definitions;
mod effects;
mod explain;
mod generated_columns;
mod handler_counters;
mod histograms;
mod json;
mod limits;
mod long_rows;
mod long_statements;
mod long_texts;
mod memory;
mod preparing;
mod rebuild;
mod set_operations;
mod spilling;
mod statistics;
mod temporary;
mod views;
mod windows;

use super::{Client, Database, Session};
use crate::error::SqlError;
use crate::exec::fixture::Server;
use crate::settings::Settings;
use crate::sink::{ColumnMeta, OkInfo, ResultSink, StatusFlags};
use crate::status::Status;
use redolith_engine::runtime::block_on;
use redolith_types::Value;
use std::sync::Arc;

/// Collects results as lines: "ok affected last_insert_id", "1|NULL|x", "error 1064".
#[derive(Default)]
pub(super) struct Lines {
    lines: Vec<String>,
    row: Vec<String>,
    last: OkInfo,
}
impl ResultSink for Lines {
    type Aside = ();
    async fn columns(&mut self, _: &[ColumnMeta]) -> Result<(), SqlError> {
        Ok(())
    }
    fn begin_row(&mut self) {
        self.row.clear();
    }
    fn value(&mut self, value: &Value<'_>) {
        self.row.push(value.to_string());
    }
    fn end_row(&mut self) {
        self.lines.push(self.row.join("|"));
    }
    fn finish_rows(&mut self, end: &OkInfo) {
        self.last = end.clone();
    }
    fn ok(&mut self, ok: &OkInfo) {
        self.lines.push(format!("ok {} {}", ok.affected, ok.last_insert_id));
        self.last = ok.clone();
    }
    fn error(&mut self, error: &SqlError) {
        eprintln!("{error}");
        self.lines.push(format!("error {}", error.code));
    }
    fn wants_drain(&self) -> bool {
        false
    }
    async fn drain(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
}

/// A sink that holds one unit for each column, row and end. It asks for a drain above ten units.
#[derive(Default)]
struct Narrow {
    held: usize,
    most: usize,
    results: usize,
    /// The client is gone, so a drain fails.
    gone: bool,
    errors: Vec<u16>,
}
impl Narrow {
    fn hold(&mut self, n: usize) {
        self.held += n;
        self.most = self.most.max(self.held);
    }
}
impl ResultSink for Narrow {
    type Aside = ();
    async fn columns(&mut self, columns: &[ColumnMeta]) -> Result<(), SqlError> {
        self.hold(columns.len());
        Ok(())
    }
    fn begin_row(&mut self) {}
    fn value(&mut self, _: &Value<'_>) {}
    fn end_row(&mut self) {
        self.hold(1);
    }
    fn finish_rows(&mut self, _: &OkInfo) {
        self.hold(1);
        self.results += 1;
    }
    fn ok(&mut self, _: &OkInfo) {
        self.hold(1);
        self.results += 1;
    }
    fn error(&mut self, error: &SqlError) {
        self.errors.push(error.code);
    }
    fn wants_drain(&self) -> bool {
        self.held > 10
    }
    async fn drain(&mut self) -> Result<(), SqlError> {
        self.held = 0;
        if self.gone { Err(SqlError::interrupted()) } else { Ok(()) }
    }
}

pub(super) struct World {
    // The database must be dropped before the server, whose drop closes the engine.
    pub db: Arc<Database>,
    pub server: Server,
}
impl World {
    pub fn new() -> World {
        World::over(Server::new())
    }
    pub fn over(server: Server) -> World {
        let db = Database::new(
            server.engine.clone(),
            server.binlog.clone(),
            Arc::new(Settings::default()),
            Arc::new(Status::new()),
            server.processes.clone(),
        );
        World { db, server }
    }
    pub fn session(&self) -> Session {
        let mut session = self.session_without_database();
        block_on(session.init_db(b"test")).unwrap();
        session
    }
    pub fn session_without_database(&self) -> Session {
        let client = Client {
            process: self.server.processes.add("localhost", 0),
            user: "root".into(),
            host: "localhost".into(),
            collation_id: 45,
            found_rows: false,
            multi_statements: true,
            interactive: false,
        };
        Session::new(self.db.clone(), client)
    }
}

pub(super) fn query(session: &mut Session, text: &str) -> Lines {
    let mut out = Lines::default();
    block_on(session.query(text.as_bytes(), &mut out));
    out
}
pub(super) fn lines(session: &mut Session, text: &str) -> Vec<String> {
    query(session, text).lines
}
pub(super) fn execute(session: &mut Session, id: u32, params: &[Value<'_>]) -> Vec<String> {
    let mut out = Lines::default();
    block_on(session.execute(id, params, &[], &mut out));
    out.lines
}

pub(super) const TABLE: &str = "CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT \
    NOT NULL DEFAULT 0, c VARCHAR(20), KEY (k))";

#[test]
fn statements_run_from_text() {
    let world = World::new();
    let mut s = world.session();
    assert_eq!(lines(&mut s, TABLE), ["ok 0 0"]);
    assert_eq!(
        lines(&mut s, "INSERT INTO t (k, c) VALUES (5, 'a'), (6, 'it''s'), (7, NULL)"),
        ["ok 3 1"]
    );
    assert_eq!(lines(&mut s, "SELECT * FROM t WHERE id = 2"), ["2|6|it's"]);
    assert_eq!(lines(&mut s, "SELECT * FROM t WHERE id = 3"), ["3|7|NULL"]);
    assert_eq!(lines(&mut s, "UPDATE t SET k = k + 10 WHERE id BETWEEN 1 AND 2"), ["ok 2 0"]);
    assert_eq!(lines(&mut s, "SELECT SUM(k), COUNT(*) FROM t"), ["38|3"]);
    assert_eq!(lines(&mut s, "DELETE FROM t WHERE k = 7"), ["ok 1 0"]);
    assert_eq!(lines(&mut s, "SELECT id FROM t ORDER BY id DESC"), ["2", "1"]);
    assert_eq!(lines(&mut s, "SELECT 1; SELECT 2; SELEKT; SELECT 3"), ["1", "2", "error 1064"]);
    assert_eq!(lines(&mut s, "SELECT ?"), ["error 1064"]);
    // mysqlslap sends the NUL that ends its C strings.
    assert_eq!(lines(&mut s, "SELECT 1\0"), ["1"]);
    assert_eq!(lines(&mut s, "SELECT 1\0\0"), ["error 1064"]);
    assert_eq!(lines(&mut s, ""), ["error 1065"]);
    assert_eq!(lines(&mut s, "SELECT 7\0"), ["7"], "mysqlslap's NUL");
    assert_eq!(lines(&mut s, "SELECT 7\0\0"), ["error 1064"]);
    assert!(block_on(s.prepare(b"SELECT 7\0")).is_ok());
}

/// Tests BIND-1 and CACHE-1.
#[test]
fn a_repeated_shape_is_bound_once() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, TABLE);
    let before = world.db.plans.len();
    for n in 1..20 {
        // One to nineteen rows have two shapes in all.
        let rows: Vec<String> = (0..n).map(|i| format!("({}, 'c{i}')", n * 100 + i)).collect();
        query(&mut s, &format!("INSERT INTO t (k, c) VALUES {}", rows.join(", ")));
        assert_eq!(
            lines(
                &mut s,
                &format!("SELECT COUNT(*) FROM t WHERE k >= {} AND k < {}", n * 100, n * 100 + 100)
            ),
            [n.to_string()]
        );
    }
    assert_eq!(world.db.plans.len() - before, 3);
    // A plan that depends on a literal is not used for another literal.
    assert_eq!(lines(&mut s, "SELECT 1+1"), ["2"]);
    assert_eq!(lines(&mut s, "SELECT 1+2"), ["3"]);
    assert_eq!(
        lines(&mut s, "SELECT k, id FROM t WHERE id < 3 ORDER BY 1 DESC LIMIT 1"),
        ["200|2"]
    );
    assert_eq!(lines(&mut s, "SELECT k, id FROM t WHERE id < 3 ORDER BY 2 ASC LIMIT 1"), ["100|1"]);
    // Repeated rows and the expressions after them keep their values.
    assert_eq!(
        query(
            &mut s,
            "INSERT INTO t (id, k) VALUES (1, 1), (2, 2) ON DUPLICATE KEY UPDATE k = k + 7"
        )
        .last
        .affected,
        4
    );
    assert_eq!(lines(&mut s, "SELECT k FROM t WHERE id IN (1, 2)"), ["107", "207"]);
    assert_eq!(
        query(&mut s, "INSERT INTO t (id, k) VALUES (900, 1), (901, 2), (902, 1 + 2)")
            .last
            .affected,
        3
    );
    assert_eq!(lines(&mut s, "SELECT k FROM t WHERE id >= 900 AND id < 950"), ["1", "2", "3"]);
    assert_eq!(
        query(&mut s, "INSERT INTO t (id, k) VALUES (910, ROUND(2.5, 0)), (911, ROUND(7.25, 1))")
            .last
            .affected,
        2
    );
    assert_eq!(lines(&mut s, "SELECT k FROM t WHERE id IN (910, 911)"), ["3", "7"]);
}

#[test]
fn results_of_many_statements_are_drained_between_them() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, TABLE);
    for (text, kept) in [("SELECT * FROM t LIMIT 0;", 13), ("DO 1;", 11)] {
        let mut out = Narrow::default();
        block_on(s.query(text.repeat(100).as_bytes(), &mut out));
        assert_eq!((out.results, &out.errors[..]), (100, &[][..]));
        assert!(out.most <= kept, "{} held at once", out.most);
    }
    let mut gone = Narrow { gone: true, ..Narrow::default() };
    block_on(s.query("DO 1;".repeat(100).as_bytes(), &mut gone));
    assert_eq!((gone.results, &gone.errors[..]), (11, &[1317][..]));
}

#[test]
fn dropped_tables_are_let_go() {
    let world = World::new();
    let mut s = world.session();
    let before = world.db.catalog.kept();
    query(&mut s, "CREATE DATABASE d");
    for i in 0..3 {
        query(&mut s, &format!("CREATE TABLE t{i} (x INT); CREATE TABLE d.t{i} (x INT)"));
        assert_eq!(
            lines(&mut s, &format!("SELECT * FROM t{i}; SELECT * FROM d.t{i}")),
            [] as [&str; 0]
        );
    }
    assert_eq!(world.db.catalog.kept(), before + 6);
    for ddl in ["DROP TABLE t0", "RENAME TABLE t1 TO u1", "TRUNCATE TABLE t2", "DROP DATABASE d"] {
        assert!(lines(&mut s, ddl)[0].starts_with("ok"), "{ddl}");
    }
    assert_eq!(world.db.catalog.kept(), before);
    assert_eq!(
        lines(&mut s, "SELECT * FROM u1; SELECT * FROM t2; SELECT * FROM t0"),
        ["error 1146"]
    );
}

/// Tests TXN-1.
#[test]
fn transactions_and_savepoints() {
    let world = World::new();
    let (mut a, mut b) = (world.session(), world.session());
    query(&mut a, TABLE);
    query(
        &mut a,
        "BEGIN; INSERT INTO t (k) VALUES (1); SAVEPOINT one; INSERT INTO t (k) VALUES (2); \
            ROLLBACK TO one",
    );
    assert_eq!(lines(&mut a, "SELECT k FROM t"), ["1"]);
    assert_eq!(lines(&mut a, "RELEASE SAVEPOINT one"), ["ok 0 0"]);
    assert_eq!(lines(&mut a, "ROLLBACK TO one"), ["error 1305"]);
    query(&mut a, "ROLLBACK");
    assert_eq!(lines(&mut a, "SELECT COUNT(*) FROM t"), ["0"]);
    // Without autocommit, a statement that uses a table opens a transaction.
    query(&mut a, "SET autocommit = 0");
    assert!(!a.status().has(StatusFlags::IN_TRANSACTION));
    query(&mut a, "INSERT INTO t (k) VALUES (5)");
    assert!(a.status().has(StatusFlags::IN_TRANSACTION));
    assert_eq!(lines(&mut b, "SELECT COUNT(*) FROM t"), ["0"]);
    // Switching autocommit on commits.
    query(&mut a, "SET autocommit = 1");
    assert_eq!(lines(&mut b, "SELECT COUNT(*) FROM t"), ["1"]);
    // DDL commits, too.
    query(&mut a, "BEGIN; INSERT INTO t (k) VALUES (6)");
    query(&mut a, "CREATE TABLE u (x INT)");
    assert_eq!(lines(&mut b, "SELECT COUNT(*) FROM t"), ["2"]);
    // A read-only transaction refuses changes.
    query(&mut a, "START TRANSACTION READ ONLY");
    assert_eq!(lines(&mut a, "INSERT INTO t (k) VALUES (7)"), ["error 1792"]);
    query(&mut a, "COMMIT");
    // A failed statement leaves no change, and its transaction goes on.
    query(&mut a, "BEGIN; INSERT INTO t (id) VALUES (100)");
    assert_eq!(lines(&mut a, "INSERT INTO t (id) VALUES (101), (100)"), ["error 1062"]);
    query(&mut a, "COMMIT");
    assert_eq!(lines(&mut b, "SELECT id FROM t WHERE id >= 100"), ["100"]);
}

#[test]
fn isolation_is_taken_per_session_and_for_the_next_transaction() {
    let world = World::new();
    let (mut a, mut b) = (world.session(), world.session());
    query(&mut a, TABLE);
    let count = |s: &mut Session| lines(s, "SELECT COUNT(*) FROM t").remove(0);
    query(&mut a, "BEGIN");
    assert_eq!(count(&mut a), "0");
    query(&mut b, "INSERT INTO t (k) VALUES (1)");
    assert_eq!(count(&mut a), "0", "REPEATABLE READ keeps its view");
    assert_eq!(lines(&mut a, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"), ["error 1568"]);
    query(&mut a, "COMMIT; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN");
    assert_eq!(count(&mut a), "1");
    query(&mut b, "INSERT INTO t (k) VALUES (2)");
    assert_eq!(count(&mut a), "2");
    query(&mut a, "COMMIT; BEGIN");
    assert_eq!(count(&mut a), "2");
    query(&mut b, "INSERT INTO t (k) VALUES (3)");
    assert_eq!(count(&mut a), "2", "only the one transaction was READ COMMITTED");
    query(&mut a, "ROLLBACK");
}

#[test]
fn variables_warnings_and_the_rest_of_a_session() {
    let world = World::new();
    let mut s = world.session();
    assert_eq!(
        lines(&mut s, "SET @a = 5, @b = @a + 1; SELECT @a, @b, @c"),
        ["ok 0 0", "5|NULL|NULL"]
    );
    assert_eq!(lines(&mut s, "SELECT @@sql_mode = '', @@autocommit, DATABASE()"), ["0|1|test"]);
    assert_eq!(lines(&mut s, "SET nonsense = 1"), ["error 1193"]);
    assert_eq!(lines(&mut s, "SHOW WARNINGS"), ["Error|1193|Unknown system variable 'nonsense'"]);
    query(&mut s, TABLE);
    assert_eq!(
        lines(&mut s, "INSERT INTO t (k) VALUES (1); SELECT LAST_INSERT_ID(), ROW_COUNT()"),
        ["ok 1 1", "1|1"]
    );
    assert_eq!(query(&mut s, "SELECT 1/0").last.warnings, 1);
    // A client that reads warnings wherever some are announced would read them without end.
    for about_it in ["SHOW WARNINGS", "SHOW COUNT(*) WARNINGS", "SHOW ERRORS"] {
        assert_eq!(query(&mut s, about_it).last.warnings, 0);
    }
    assert_eq!(lines(&mut s, "SHOW WARNINGS").len(), 1);
    assert_eq!(
        lines(
            &mut s,
            "PREPARE p FROM 'SELECT ? + 1'; SET @x = 41; EXECUTE p USING @x; DEALLOCATE PREPARE p"
        ),
        ["ok 0 0", "ok 0 0", "42", "ok 0 0"]
    );
    assert_eq!(lines(&mut s, "EXECUTE p"), ["error 1243"]);
    assert_eq!(lines(&mut s, "KILL 999999"), ["error 1094"]);
    assert_eq!(lines(&mut s, "USE nowhere"), ["error 1049"]);
    // The text has another meaning under another sql_mode, so it has another plan.
    assert_eq!(lines(&mut s, "SELECT 'a' || 'b'"), ["0"]);
    assert_eq!(
        lines(&mut s, "SET sql_mode = 'PIPES_AS_CONCAT'; SELECT 'a' || 'b'"),
        ["ok 0 0", "ab"]
    );
    query(&mut s, "CREATE DATABASE other; USE other; DROP DATABASE other");
    assert_eq!(lines(&mut s, "SELECT DATABASE()"), ["NULL"]);
    assert_eq!(lines(&mut s, "SELECT * FROM t"), ["error 1046"]);
    block_on(s.reset());
    assert_eq!(lines(&mut s, "SELECT @a, 'a' || 'b'"), ["NULL|0"]);
}

#[test]
fn one_statement_only_unless_asked_for() {
    let world = World::new();
    let mut s = world.session();
    s.set_multi_statements(false);
    assert_eq!(lines(&mut s, "SELECT 1; SELECT 2"), ["error 1064"]);
    assert_eq!(lines(&mut s, "SELECT 1;"), ["1"]);
}

/// Pages are read only for the statistics of the tables that the query asks for.
#[test]
fn information_schema_looks_at_the_tables_that_are_asked_for() {
    let world = World::new();
    let mut s = world.session();
    for n in 0..20 {
        query(&mut s, &format!("CREATE TABLE t{n} (a INT PRIMARY KEY, b INT, KEY (b))"));
        query(&mut s, &format!("INSERT INTO t{n} VALUES (1, 1), (2, 2)"));
    }
    let pool = world.server.engine.store.pool.clone();
    let mut looks = |q: &str| {
        lines(&mut s, q);
        let before = pool.counters.read_requests.get();
        let found = lines(&mut s, q);
        (pool.counters.read_requests.get() - before, found)
    };
    let (all, rows) = looks(
        "SELECT table_name, index_name FROM information_schema.statistics WHERE column_name IN \
            ('a', 'b')",
    );
    assert_eq!(rows.len(), 40);
    for one in [
        "table_name = 't7' AND table_schema = 'test'",
        "TABLE_SCHEMA = DATABASE() AND (table_name = 't7' OR table_name LIKE 'x%')",
        "table_name IN ('t7', 'nothing') AND cardinality > 0",
    ] {
        let (few, rows) = looks(&format!(
            "SELECT table_name, index_name FROM information_schema.statistics WHERE {one} ORDER BY \
                2"
        ));
        assert_eq!(rows, ["t7|b", "t7|PRIMARY"], "{one}");
        assert!(few * 5 < all, "{few} looks at pages, {all} for all tables: {one}");
    }
    let left = "SELECT s.schema_name, t.table_name FROM information_schema.schemata s LEFT JOIN \
        information_schema.statistics t \
                ON t.table_schema = s.schema_name AND t.table_name = 't3' AND t.index_name = 'b' \
                ORDER BY 1";
    let (few, rows) = looks(left);
    assert_eq!(rows, ["information_schema|NULL", "test|t3"]);
    assert!(few * 5 < all, "{few} of {all}");
    // A subquery reads the same rows for each row around it.
    let (few, rows) = looks(
        "SELECT DISTINCT (SELECT COUNT(*) FROM information_schema.statistics s WHERE s.index_name \
            <> c.collation_name) FROM information_schema.collations c",
    );
    assert_eq!(rows, ["40"]);
    assert!(few < 2 * all, "{few}, and {all} for all tables once");
    // A condition that also depends on other columns is decided for the rows.
    let (_, rows) = looks(
        "SELECT table_name FROM information_schema.tables WHERE table_name = 't1' OR engine = \
            'nothing'",
    );
    assert_eq!(rows, ["t1"]);
}

/// Tests ISCH-1.
#[test]
fn information_schema_is_read_like_any_table() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, TABLE);
    query(&mut s, "CREATE TABLE u (a INT, b VARCHAR(9) NOT NULL, UNIQUE KEY ab (a, b))");
    let q = "SELECT table_name, column_name FROM INFORMATION_SCHEMA.Columns WHERE table_schema = \
        DATABASE() AND column_key <> '' ORDER BY 1, 2 DESC";
    assert_eq!(lines(&mut s, q), ["t|k", "t|id", "u|a"]);
    assert_eq!(
        lines(&mut s, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'test'"),
        ["2"]
    );
    let join = "SELECT t.table_name, COUNT(*) FROM information_schema.tables t JOIN \
        information_schema.statistics s \
                ON s.table_schema = t.table_schema AND s.table_name = t.table_name WHERE \
                t.table_type = 'BASE TABLE' GROUP BY t.table_name ORDER BY 1";
    assert_eq!(lines(&mut s, join), ["t|2", "u|2"]);
    let left = "SELECT s.schema_name, t.table_name FROM information_schema.schemata s LEFT JOIN \
        information_schema.tables t \
                ON t.table_schema = s.schema_name AND t.table_name = 'u' ORDER BY 1";
    assert_eq!(lines(&mut s, left), ["information_schema|NULL", "test|u"]);
    assert_eq!(
        lines(
            &mut s,
            "SELECT COLUMNS.ordinal_position FROM information_schema.COLUMNS WHERE column_name = \
                'B'"
        ),
        ["2"]
    );
    assert_eq!(
        lines(&mut s, "SELECT (SELECT COUNT(*) FROM information_schema.engines) + 1"),
        ["2"]
    );
    let constraints = "SELECT constraint_name, constraint_type FROM \
        information_schema.table_constraints ORDER BY table_name, constraint_name";
    assert_eq!(lines(&mut s, constraints), ["PRIMARY|PRIMARY KEY", "ab|UNIQUE"]);
    let usage = "SELECT column_name FROM information_schema.key_column_usage WHERE table_name = \
        'u' ORDER BY ordinal_position LIMIT 1, 1";
    assert_eq!(lines(&mut s, usage), ["b"]);
    assert_eq!(
        lines(&mut s, "SELECT user, db, command FROM information_schema.processlist"),
        ["root|test|Connect"]
    );
    query(&mut s, "CREATE TABLE copied (n INT PRIMARY KEY, name VARCHAR(64))");
    assert_eq!(
        lines(
            &mut s,
            "INSERT INTO copied SELECT ordinal_position, column_name FROM \
                information_schema.columns WHERE table_name = 'u'"
        ),
        ["ok 2 0"]
    );
    // A prepared statement sees tables that have changed since.
    let id = block_on(
        s.prepare(b"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = ?"),
    )
    .unwrap()
    .id;
    assert_eq!(execute(&mut s, id, &[Value::text("test")]), ["3"]);
    query(&mut s, "DROP TABLE u");
    assert_eq!(execute(&mut s, id, &[Value::text("test")]), ["2"]);
}

/// Tests ISCH-2.
#[test]
fn information_schema_is_a_database_that_nothing_changes() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, TABLE);
    assert_eq!(lines(&mut s, "USE INFORMATION_SCHEMA"), ["ok 0 0"]);
    assert_eq!(lines(&mut s, "SELECT DATABASE(), COUNT(*) FROM engines"), ["information_schema|1"]);
    assert_eq!(
        lines(&mut s, "SHOW TABLES LIKE 'INNODB%'"),
        [
            "INNODB_BUFFER_PAGE",
            "INNODB_BUFFER_PAGE_LRU",
            "INNODB_BUFFER_POOL_STATS",
            "INNODB_METRICS",
            "INNODB_TRX"
        ]
    );
    assert_eq!(lines(&mut s, "SHOW COLUMNS FROM engines LIKE 'XA'"), ["XA|varchar(3)|YES||NULL|"]);
    assert_eq!(lines(&mut s, "SHOW DATABASES"), ["information_schema", "test"]);
    for refused in [
        "INSERT INTO engines (engine) VALUES ('x')",
        "UPDATE information_schema.tables SET table_name = 'x'",
        "DELETE FROM Information_Schema.processlist",
        "CREATE TABLE mine (a INT)",
        "DROP TABLE engines",
        "ALTER TABLE engines ADD x INT",
        "TRUNCATE engines",
        "LOCK TABLES engines READ",
        "CREATE DATABASE Information_Schema",
        "DROP DATABASE information_schema",
    ] {
        assert_eq!(lines(&mut s, refused), ["error 1044"], "{refused}");
    }
    assert_eq!(lines(&mut s, "SELECT * FROM nothing"), ["error 1109"]);
    assert_eq!(lines(&mut s, "SELECT nothing FROM engines"), ["error 1054"]);
    assert_eq!(lines(&mut s, "SELECT id FROM test.t"), [] as [&str; 0]);
}

/// The name, count and status of the counters that a condition selects.
fn metrics(s: &mut Session, condition: &str) -> Vec<String> {
    lines(
        s,
        &format!(
            "SELECT name, count, status FROM information_schema.innodb_metrics WHERE {condition}"
        ),
    )
}

#[test]
fn monitors_are_switched_and_reset() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, TABLE);
    query(&mut s, "INSERT INTO t (k) VALUES (1), (2), (3)");
    assert_eq!(metrics(&mut s, "name = 'dml_inserts'"), ["dml_inserts|3|enabled"]);
    assert_eq!(lines(&mut s, "SET GLOBAL innodb_monitor_disable = module_dml"), ["ok 0 0"]);
    query(&mut s, "INSERT INTO t (k) VALUES (4)");
    assert_eq!(metrics(&mut s, "name = 'dml_inserts'"), ["dml_inserts|3|disabled"]);
    assert_eq!(lines(&mut s, "SET GLOBAL innodb_monitor_reset_all = 'dml_in%'"), ["ok 0 0"]);
    assert_eq!(lines(&mut s, "SET GLOBAL innodb_monitor_enable = dml_inserts"), ["ok 0 0"]);
    query(&mut s, "INSERT INTO t (k) VALUES (5), (6)");
    assert_eq!(
        metrics(&mut s, "name IN ('dml_inserts', 'dml_reads')"),
        ["dml_reads|0|disabled", "dml_inserts|2|enabled"]
    );
    assert_eq!(lines(&mut s, "SET GLOBAL innodb_monitor_enable = all"), ["ok 0 0"]);
    assert_eq!(
        lines(
            &mut s,
            "SELECT COUNT(*) FROM information_schema.innodb_metrics WHERE status = 'disabled'"
        ),
        ["0"]
    );
    for wrong in ["'dml'", "''", "module_nothing", "NULL", "'x%'"] {
        for action in ["enable", "disable", "reset", "reset_all"] {
            assert_eq!(
                lines(&mut s, &format!("SET GLOBAL innodb_monitor_{action} = {wrong}")),
                ["error 1231"],
                "{wrong}"
            );
        }
    }
    assert_eq!(lines(&mut s, "SET GLOBAL innodb_monitor_enable = 5"), ["error 1232"]);
    assert_eq!(lines(&mut s, "SET innodb_monitor_enable = 'all'"), ["error 1229"]);
    assert_eq!(
        lines(&mut s, "SELECT @@GLOBAL.innodb_monitor_enable, @@innodb_monitor_disable"),
        ["all|module_dml"]
    );
}

/// Tests GRL-2.
#[test]
fn flush_tables_with_read_lock_stops_writes_and_commits() {
    let world = World::new();
    let (mut a, mut b, mut c) = (world.session(), world.session(), world.session());
    query(&mut a, TABLE);
    for s in [&mut a, &mut b, &mut c] {
        query(s, "SET lock_wait_timeout = 1");
    }
    query(&mut b, "BEGIN; INSERT INTO t (k) VALUES (1)");
    // An idle transaction that has written does not block the lock.
    assert_eq!(lines(&mut a, "FLUSH TABLES WITH READ LOCK"), ["ok 0 0"]);
    assert_eq!(lines(&mut a, "SELECT COUNT(*) FROM t"), ["0"]);
    for text in [
        "INSERT INTO t (k) VALUES (2)",
        "SELECT * FROM t FOR UPDATE",
        "CREATE TABLE u (a INT)",
        "LOCK TABLES t WRITE",
    ] {
        assert_eq!(lines(&mut a, text), ["error 1223"], "{text}");
    }
    assert_eq!(lines(&mut b, "COMMIT"), ["error 1205"]);
    assert!(b.status().has(StatusFlags::IN_TRANSACTION));
    assert_eq!(lines(&mut c, "INSERT INTO t (k) VALUES (3)"), ["error 1205"]);
    assert_eq!(lines(&mut c, "SELECT COUNT(*) FROM t"), ["0"]);
    assert_eq!(lines(&mut c, "BEGIN; SELECT COUNT(*) FROM t; COMMIT"), ["ok 0 0", "0", "ok 0 0"]);
    // Two sessions may hold the lock.
    assert_eq!(lines(&mut c, "FLUSH TABLES WITH READ LOCK; UNLOCK TABLES"), ["ok 0 0", "ok 0 0"]);
    // A dump makes its view under the lock. The view outlives the lock.
    assert_eq!(lines(&mut a, "START TRANSACTION WITH CONSISTENT SNAPSHOT"), ["ok 0 0"]);
    assert_eq!(
        lines(&mut a, "INSERT INTO t (k) VALUES (2)"),
        ["error 1223"],
        "BEGIN does not give the lock back"
    );
    assert_eq!(lines(&mut a, "UNLOCK TABLES"), ["ok 0 0"]);
    assert!(
        a.status().has(StatusFlags::IN_TRANSACTION),
        "nor does UNLOCK TABLES end the transaction"
    );
    assert_eq!(lines(&mut b, "COMMIT"), ["ok 0 0"]);
    assert_eq!(
        lines(&mut c, "INSERT INTO t (k) VALUES (3); SELECT COUNT(*) FROM t"),
        ["ok 1 2", "2"]
    );
    assert_eq!(lines(&mut a, "SELECT COUNT(*) FROM t"), ["0"]);
    assert_eq!(lines(&mut a, "COMMIT; SELECT COUNT(*) FROM t"), ["ok 0 0", "2"]);
    // The end of the connection releases the lock, too.
    assert_eq!(lines(&mut a, "FLUSH TABLES WITH READ LOCK"), ["ok 0 0"]);
    drop(a);
    assert_eq!(lines(&mut c, "DELETE FROM t"), ["ok 2 0"]);
    assert_eq!(lines(&mut b, "FLUSH TABLES WITH READ LOCK"), ["ok 0 0"]);
    block_on(b.reset());
    assert_eq!(lines(&mut c, "INSERT INTO t (k) VALUES (3)"), ["ok 1 3"]);
}

/// Writers change a pair of rows while another session stops them again and again. Its reads must
/// not change under the lock.
/// Tests GRL-1.
#[test]
fn nothing_is_committed_under_the_global_read_lock() {
    let world = World::new();
    let (mut reader, stop) = (world.session(), &std::sync::atomic::AtomicBool::new(false));
    query(&mut reader, TABLE);
    query(&mut reader, "INSERT INTO t (id, k) VALUES (1, 0), (2, 0)");
    std::thread::scope(|s| {
        for n in 0..3 {
            let mut writer = world.session();
            s.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let text = match n {
                        0 => "UPDATE t SET k = k + 1 WHERE id = 1",
                        1 => "BEGIN; UPDATE t SET k = k + 1 WHERE id = 2; COMMIT",
                        _ => "LOCK TABLES t WRITE; UPDATE t SET k = k + 1; UNLOCK TABLES",
                    };
                    let errors = query(&mut writer, text)
                        .lines
                        .into_iter()
                        .filter(|l| l.starts_with("error"))
                        .collect::<Vec<_>>();
                    assert_eq!(errors, [] as [&str; 0]);
                }
            });
        }
        for _ in 0..40 {
            assert_eq!(lines(&mut reader, "FLUSH TABLES WITH READ LOCK"), ["ok 0 0"]);
            let first = lines(&mut reader, "SELECT k FROM t");
            std::thread::yield_now();
            assert_eq!(lines(&mut reader, "SELECT k FROM t"), first);
            query(&mut reader, "UNLOCK TABLES");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Tests SLOCK-1.
#[test]
fn lock_tables_by_the_session() {
    let world = World::new();
    let (mut a, mut b) = (world.session(), world.session());
    query(&mut a, TABLE);
    query(&mut a, "CREATE TABLE u (a INT)");
    query(&mut b, "SET lock_wait_timeout = 1");
    // LOCK TABLES commits the open transaction.
    query(&mut a, "BEGIN; INSERT INTO t (k) VALUES (1)");
    assert_eq!(lines(&mut a, "LOCK TABLES t READ"), ["ok 0 0"]);
    assert_eq!(lines(&mut b, "SELECT COUNT(*) FROM t"), ["1"]);
    assert_eq!(lines(&mut a, "INSERT INTO t (k) VALUES (2)"), ["error 1099"]);
    assert_eq!(lines(&mut a, "SELECT * FROM u"), ["error 1100"]);
    assert_eq!(lines(&mut b, "INSERT INTO t (k) VALUES (2)"), ["error 1205"]);
    assert_eq!(lines(&mut a, "SELECT * FROM t FOR UPDATE"), ["error 1099"]);
    assert_eq!(lines(&mut b, "SELECT COUNT(*) FROM t FOR SHARE"), ["1"]);
    assert_eq!(lines(&mut a, "FLUSH TABLES WITH READ LOCK"), ["error 1192"]);
    // A second LOCK TABLES releases the locks of the first. A write lock keeps out readers and the
    // global read lock.
    assert_eq!(lines(&mut a, "LOCK TABLES u WRITE"), ["ok 0 0"]);
    assert_eq!(lines(&mut b, "INSERT INTO t (k) VALUES (2)"), ["ok 1 2"]);
    assert_eq!(lines(&mut b, "SELECT * FROM u"), ["error 1205"]);
    assert_eq!(lines(&mut b, "FLUSH TABLES WITH READ LOCK"), ["error 1205"]);
    assert_eq!(lines(&mut a, "INSERT INTO u VALUES (5)"), ["ok 1 0"]);
    // BEGIN releases the locks.
    assert_eq!(lines(&mut a, "BEGIN"), ["ok 0 0"]);
    assert_eq!(lines(&mut b, "SELECT * FROM u"), ["5"]);
    assert_eq!(lines(&mut b, "FLUSH TABLES WITH READ LOCK; UNLOCK TABLES"), ["ok 0 0", "ok 0 0"]);
    assert_eq!(lines(&mut a, "SELECT COUNT(*) FROM t; COMMIT"), ["2", "ok 0 0"]);
    // UNLOCK TABLES commits the open transaction.
    query(
        &mut a,
        "SET autocommit = 0; LOCK TABLES t WRITE; INSERT INTO t (k) VALUES (3); UNLOCK TABLES",
    );
    assert!(!a.status().has(StatusFlags::IN_TRANSACTION));
    assert_eq!(lines(&mut b, "SELECT COUNT(*) FROM t"), ["3"]);
}

#[test]
fn a_reset_keeps_what_the_handshake_said() {
    let world = World::new();
    let mut s = world.session();
    s.interactive = true;
    world
        .db
        .settings
        .set_global(crate::settings::Var::InteractiveTimeout, Some(&Value::UInt(77)))
        .unwrap();
    block_on(s.reset());
    assert_eq!(s.wait_timeout_s(), 77);
    query(&mut s, "SET wait_timeout = 5");
    block_on(s.reset());
    assert_eq!(
        (s.wait_timeout_s(), lines(&mut s, "SELECT @@interactive_timeout").remove(0)),
        (77, "77".into())
    );
}

/// A pool resets connections that have set nothing: they take the GLOBAL values of now.
#[test]
fn a_reset_takes_the_global_values_of_now() {
    let world = World::new();
    let (mut s, mut admin) = (world.session(), world.session());
    assert_eq!(lines(&mut s, "SELECT 'a' || 'b'"), ["0"]);
    query(&mut admin, "SET GLOBAL sql_mode = 'PIPES_AS_CONCAT', GLOBAL autocommit = 0");
    assert_eq!(lines(&mut s, "SELECT 'a' || 'b'"), ["0"]);
    for (mode, answer) in [("PIPES_AS_CONCAT", "ab"), ("", "0"), ("PIPES_AS_CONCAT", "ab")] {
        query(&mut admin, &format!("SET GLOBAL sql_mode = '{mode}'"));
        block_on(s.reset());
        assert_eq!(lines(&mut s, "SELECT 'a' || 'b'"), [answer]);
        assert!(!s.status().has(StatusFlags::AUTOCOMMIT));
    }
}

/// A text may not contain the bytes that stand for literals in the keys of the cache.
#[test]
fn control_bytes_are_no_literals() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, TABLE);
    for (text, forged) in [
        ("SELECT 5", "SELECT \x01"),
        ("SELECT * FROM t WHERE id = 5", "SELECT * FROM t WHERE id = \x01"),
        ("SELECT 'a'", "SELECT \x05"),
    ] {
        assert!(!lines(&mut s, text).iter().any(|l| l.starts_with("error")));
        assert_eq!(lines(&mut s, forged), ["error 1064"]);
    }
}
