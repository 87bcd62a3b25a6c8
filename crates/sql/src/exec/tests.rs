//! Runs statements from text to rows on a real engine.
use super::fixture::{Server, Session};
use super::{ExecContext, Flush, NoVariables, Scratch, StatementSettings, commit};
use crate::error::{Result, SqlError};
use crate::plan::Plan;
use crate::session_state::{Done, Outcome};
use crate::sink::{ColumnMeta, OkInfo, ResultSink};
use crate::sql_mode::SqlMode;
use redolith_engine::runtime::block_on;
use redolith_engine::{Isolation, Trx};
use redolith_types::Value;

/// A session that runs statements, each in its own transaction until `begin`.
pub struct Client<'s> {
    pub session: Session<'s>,
    trx: Trx,
    scratch: Scratch,
    pub settings: StatementSettings,
}

#[derive(Default)]
struct Text {
    rows: Vec<Vec<String>>,
}
impl ResultSink for Text {
    type Aside = ();
    async fn columns(&mut self, _: &[ColumnMeta]) -> Result<()> {
        Ok(())
    }
    fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }
    fn value(&mut self, value: &Value<'_>) {
        self.rows.last_mut().unwrap().push(value.to_string());
    }
    fn end_row(&mut self) {}
    fn finish_rows(&mut self, _: &OkInfo) {}
    fn ok(&mut self, _: &OkInfo) {}
    fn error(&mut self, _: &SqlError) {}
    fn wants_drain(&self) -> bool {
        false
    }
    async fn drain(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<'s> Client<'s> {
    pub fn new(server: &'s Server) -> Client<'s> {
        let session = server.session();
        let trx = server.engine.begin(session.kill.clone());
        Client { session, trx, scratch: Scratch::default(), settings: StatementSettings::default() }
    }
    fn run_plan(&mut self, plan: &Plan, params: &[Value<'_>], sink: &mut Text) -> Result<Outcome> {
        self.session.state.warnings.clear();
        let disk = self.session.server.engine.disk.clone();
        assert!(block_on(self.session.server.catalog.ready(plan, 0))?);
        let mut env = super::Env::new(&mut self.session.state, &NoVariables, &*disk, self.settings);
        env.runtime = Some(&*self.session.server.engine.runtime);
        let mut cx = ExecContext {
            trx: &mut self.trx,
            scratch: &mut self.scratch,
            env,
            more_rows: None,
            log: None,
        };
        let outcome = block_on(super::run(&mut cx, plan, params, sink));
        if !self.settings.in_transaction {
            match &outcome {
                Ok(_) => drop(block_on(commit(&mut self.trx, None, Flush::No, None))?),
                Err(_) => block_on(self.trx.rollback())?,
            }
        }
        outcome
    }
    fn try_run(&mut self, text: &str, params: &[Value<'_>]) -> Result<(Outcome, Text)> {
        let plan = self.session.plan(text)?;
        let mut sink = Text::default();
        let outcome = self.run_plan(&plan, params, &mut sink)?;
        Ok((outcome, sink))
    }
    /// The rows as text: commas separate columns, bars separate rows.
    pub fn rows(&mut self, text: &str, params: &[Value<'_>]) -> String {
        let (_, sink) = self.try_run(text, params).unwrap_or_else(|e| panic!("{text}: {e}"));
        sink.rows.iter().map(|r| r.join(",")).collect::<Vec<_>>().join("|")
    }
    pub fn done(&mut self, text: &str, params: &[Value<'_>]) -> Done {
        match self.try_run(text, params).unwrap_or_else(|e| panic!("{text}: {e}")).0 {
            Outcome::Done(done) => done,
            other => panic!("{text}: {other:?}"),
        }
    }
    fn affected(&mut self, text: &str) -> u64 {
        self.done(text, &[]).affected
    }
    pub fn error(&mut self, text: &str) -> (u16, String) {
        match self.try_run(text, &[]) {
            Err(e) => (e.code, e.message.into()),
            Ok((outcome, sink)) => panic!("{text}: {outcome:?} {:?}", sink.rows),
        }
    }
    /// The code of the error, if there is one.
    pub fn outcome(&mut self, text: &str) -> Option<u16> {
        self.try_run(text, &[]).err().map(|e| e.code)
    }
    pub fn ddl(&mut self, text: &str) {
        self.session.ddl(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

const SBTEST: &str = "CREATE TABLE sbtest1(id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT \
    '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
                      pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))";

#[test]
fn what_sysbench_sends() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl(SBTEST);
    for n in 0..100 {
        let (id, k) = (Value::Int(n + 1), Value::Int(n * 37 % 100));
        let text = format!("c{:03}", n * 7 % 50);
        let d = c.done(
            "INSERT INTO sbtest1(id, k, c, pad) VALUES(?,?,?,?)",
            &[id, k, Value::text(&text), Value::text("p")],
        );
        assert_eq!((d.affected, d.last_insert_id), (1, n as u64 + 1));
    }
    c.ddl("CREATE INDEX k_1 ON sbtest1(k)");
    let id = [Value::Int(50)];
    assert_eq!(c.rows("SELECT c FROM sbtest1 WHERE id=?", &id), "c043");
    let range = [Value::Int(10), Value::Int(14)];
    assert_eq!(
        c.rows("SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?", &range),
        "c013|c020|c027|c034|c041"
    );
    assert_eq!(
        c.rows("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?", &range),
        (9..14).map(|n| n * 37 % 100).sum::<i64>().to_string()
    );
    assert_eq!(
        c.rows("SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c", &range),
        "c013|c020|c027|c034|c041"
    );
    assert_eq!(
        c.rows(
            "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
            &[Value::Int(1), Value::Int(100)]
        )
        .split('|')
        .count(),
        50
    );
    let k = c.rows("SELECT k FROM sbtest1 WHERE id=?", &id).parse::<i64>().unwrap();
    let d = c.done("UPDATE sbtest1 SET k=k+1 WHERE id=?", &id);
    assert_eq!((d.affected, &*d.info), (1, "Rows matched: 1  Changed: 1  Warnings: 0"));
    assert_eq!(c.rows("SELECT k FROM sbtest1 WHERE id=?", &id), (k + 1).to_string());
    assert_eq!(
        c.rows("SELECT id FROM sbtest1 WHERE k=? ORDER BY id", &[Value::Int(k + 1)])
            .split('|')
            .filter(|i| *i == "50")
            .count(),
        1
    );
    assert_eq!(
        c.done("UPDATE sbtest1 SET c=? WHERE id=?", &[Value::text("new"), Value::Int(50)]).affected,
        1
    );
    assert_eq!(
        c.done("UPDATE sbtest1 SET c=? WHERE id=?", &[Value::text("new"), Value::Int(50)]).affected,
        0
    );
    assert_eq!(
        c.done("UPDATE sbtest1 SET c=? WHERE id=?", &[Value::text("new"), Value::Int(5000)]).info,
        "Rows matched: 0  Changed: 0  Warnings: 0"
    );
    assert_eq!(c.rows("SELECT c FROM sbtest1 WHERE id=?", &id), "new");
    assert_eq!(c.done("DELETE FROM sbtest1 WHERE id=?", &id).affected, 1);
    assert_eq!(c.rows("SELECT c FROM sbtest1 WHERE id=?", &id), "");
    assert_eq!(c.affected("INSERT INTO sbtest1 (id, k, c, pad) VALUES (50, 1, 'again', '')"), 1);
    // oltp_insert: an explicit 0 takes the next number.
    let d = c.done("INSERT INTO sbtest1 (id, k, c, pad) VALUES (0, 1, 'x', 'y')", &[]);
    assert_eq!((d.last_insert_id, c.session.state.last_insert_id), (101, 101));
    assert_eq!(
        c.rows("SELECT count(k) FROM sbtest1 WHERE k BETWEEN 0 AND 9 OR k BETWEEN 5 AND 19", &[]),
        "21"
    );
    assert_eq!(
        c.rows("SELECT id FROM sbtest1 WHERE k IN (37, 74, 37, 11) ORDER BY id", &[]),
        "2|3|4"
    );
    assert_eq!(c.rows("SELECT COUNT(*) FROM sbtest1", &[]), "101");
}

/// Tests SES-3 and PREP-1.
#[test]
fn prepared_plans_serve_many_executions() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl("CREATE TABLE t(a INT, b VARCHAR(20), c INT, PRIMARY KEY (a, b), UNIQUE KEY uc (c))");
    for a in 0..5 {
        for b in ["x", "y", "z"] {
            let n = Value::Int(a * 10 + b.as_bytes()[0] as i64 - 120);
            c.done("INSERT INTO t VALUES (?, ?, ?)", &[Value::Int(a), Value::text(b), n]);
        }
    }
    let plan = c.session.plan("SELECT c FROM t WHERE a = ? AND b >= ? ORDER BY b DESC").unwrap();
    for (a, b, wanted) in [(1, "y", "12,11"), (1, "Y ", "12,11"), (4, "", "42,41,40"), (9, "", "")]
    {
        let mut sink = Text::default();
        c.run_plan(&plan, &[Value::Int(a), Value::text(b)], &mut sink).unwrap();
        assert_eq!(sink.rows.concat().join(","), wanted);
    }
    for (text, wanted) in [
        ("SELECT a, b FROM t WHERE c = 21", "2,y"),
        ("SELECT a, b FROM t WHERE c = '21'", "2,y"),
        ("SELECT a, b FROM t WHERE c = 21.5", ""),
        ("SELECT c FROM t WHERE c > 40.5", "41|42"),
        ("SELECT c FROM t WHERE c < 1.5", "0|1"),
        ("SELECT c FROM t WHERE c > 99999999999", ""),
        ("SELECT COUNT(*) FROM t WHERE c < 99999999999", "15"),
        (
            "SELECT c FROM t WHERE c BETWEEN 10 AND 11 OR c = 42 OR c BETWEEN 11 AND 12",
            "10|11|12|42",
        ),
        ("SELECT c FROM t WHERE (a = 1 OR a = 3) AND b = 'z'", "12|32"),
        ("SELECT c FROM t WHERE a IN (3, 1, 3) AND b IN ('z', 'x')", "10|12|30|32"),
        ("SELECT c FROM t ORDER BY a DESC, b LIMIT 4", "40|41|42|30"),
        ("SELECT c FROM t ORDER BY c DESC LIMIT 2, 3", "40|32|31"),
        ("SELECT c FROM t ORDER BY b, c LIMIT 3", "0|10|20"),
        ("SELECT c FROM t WHERE b LIKE '_' AND b LIKE 'X%' AND a > 2", "30|40"),
        ("SELECT c FROM t WHERE c IS NULL", ""),
        ("SELECT c FROM t LIMIT 0", ""),
    ] {
        assert_eq!(c.rows(text, &[]), wanted, "{text}");
    }
}

/// Tests SEL-4.
#[test]
fn grouping_and_aggregates() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl(
        "CREATE TABLE g(id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(10), n INT, d DECIMAL(8,2), \
        x DOUBLE)",
    );
    assert_eq!(
        c.done(
            "INSERT INTO g(a, n, d, x) VALUES ('a',1,1.50,0.5),('B',2,2.25,1.5),('A \
                ',3,NULL,2.5),(NULL,4,4.00,NULL),('b',NULL,1.00,1)",
            &[]
        )
        .info,
        "Records: 5  Duplicates: 0  Warnings: 0"
    );
    for (text, wanted) in [
        ("SELECT COUNT(*), COUNT(n), SUM(n), AVG(n), MIN(n), MAX(n) FROM g", "5,4,10,2.5000,1,4"),
        ("SELECT SUM(d), AVG(d), SUM(x), MIN(a), MAX(a) FROM g", "8.75,2.187500,5.5,a,B"),
        ("SELECT a, COUNT(*), SUM(n) FROM g GROUP BY a ORDER BY a", "NULL,1,4|a,2,4|B,2,2"),
        ("SELECT COUNT(DISTINCT a), COUNT(DISTINCT n) FROM g", "2,4"),
        (
            "SELECT a, SUM(n) FROM g GROUP BY a HAVING SUM(n) > 2 ORDER BY SUM(n) DESC, a",
            "NULL,4|a,4",
        ),
        ("SELECT DISTINCT a FROM g ORDER BY a DESC", "B|a|NULL"),
        ("SELECT COUNT(*), SUM(n), MAX(a) FROM g WHERE id > 100", "0,NULL,NULL"),
        ("SELECT n % 2, COUNT(*) FROM g GROUP BY n % 2 ORDER BY 1", "NULL,1|0,2|1,2"),
        ("SELECT GROUP_CONCAT(n ORDER BY n DESC SEPARATOR '-') FROM g", "4-3-2-1"),
        ("SELECT MAX(id) FROM g", "5"),
        ("SELECT MIN(id) FROM g WHERE id > 2", "3"),
        ("SELECT BIT_OR(n), BIT_AND(n), BIT_XOR(n) FROM g", "7,0,4"),
        ("SELECT COUNT(*) FROM (SELECT a FROM g GROUP BY a) t", "3"),
        ("SELECT n FROM g WHERE n = (SELECT MAX(n) FROM g)", "4"),
        ("SELECT id FROM g WHERE n IN (SELECT n - 1 FROM g WHERE n IS NOT NULL)", "1|2|3"),
        ("SELECT id FROM g WHERE EXISTS (SELECT 1 FROM g WHERE n > 100)", ""),
        ("SELECT 1 + 1, 'x', NULL", "2,x,NULL"),
        (
            "SELECT UNIX_TIMESTAMP('2020-01-01 00:00:00.123'), UNIX_TIMESTAMP('2020-01-01 \
                00:00:00.000')",
            "1577836800.123,1577836800.000",
        ),
        (
            "SELECT UNIX_TIMESTAMP(20200101), UNIX_TIMESTAMP(20200101000000.5), \
                UNIX_TIMESTAMP('1960-01-01')",
            "1577836800,1577836800.5,0",
        ),
        (
            "SELECT g1.id, g2.id FROM g g1 JOIN g g2 ON g2.n = g1.n + 1 ORDER BY g1.id",
            "1,2|2,3|3,4",
        ),
        (
            "SELECT g1.id, g2.id FROM g g1 LEFT JOIN g g2 ON g2.n = g1.n + 1 WHERE g1.id > 2 ORDER \
                BY g1.id",
            "3,4|4,NULL|5,NULL",
        ),
        (
            "SELECT g1.id FROM g g1 LEFT JOIN g g2 ON g2.n = g1.n + 1 WHERE g2.id IS NULL ORDER BY \
                g1.id",
            "4|5",
        ),
    ] {
        assert_eq!(c.rows(text, &[]), wanted, "{text}");
    }
    assert_eq!(c.error("SELECT (SELECT n FROM g)").0, 1242);
}

#[test]
fn aggregates_keep_no_more_than_they_may() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl("CREATE TABLE t(id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(100))");
    c.affected("INSERT INTO t(s) VALUES (REPEAT('a', 100)), (REPEAT('b', 100))");
    for _ in 0..7 {
        c.affected("INSERT INTO t(s) SELECT s FROM t");
    }
    c.session.state.memory.set_limit(4000);
    for text in [
        "SELECT COUNT(DISTINCT id) FROM t",
        "SELECT COUNT(DISTINCT s, id) FROM t",
        "SELECT GROUP_CONCAT(s ORDER BY id) FROM t",
        "SELECT GROUP_CONCAT(DISTINCT id ORDER BY s) FROM t GROUP BY s",
        "SELECT id % 100, MAX(s) FROM t GROUP BY id % 100",
    ] {
        assert_eq!(c.error(text).0, 3170, "{text}");
        c.session.state.memory.statement.release_to(0);
    }
    assert_eq!(
        c.rows("SELECT COUNT(DISTINCT s), MIN(s) = MAX(s), COUNT(*) FROM t", &[]),
        "2,0,256"
    );
    // Items beyond the limit are not even collected.
    assert_eq!(
        c.rows("SELECT LENGTH(GROUP_CONCAT(s)), LENGTH(GROUP_CONCAT(DISTINCT s)) FROM t", &[]),
        "1024,201"
    );
    // Of a text that is sorted nothing is kept that would be cut off.
    c.session.state.memory.set_limit(1 << 20);
    assert_eq!(
        c.rows("SELECT LENGTH(GROUP_CONCAT(REPEAT(s, 100) ORDER BY id)) FROM t", &[]),
        "1024"
    );
    c.settings.group_concat_max_len = 5;
    assert_eq!(
        c.rows("SELECT GROUP_CONCAT(DISTINCT id SEPARATOR '--'), GROUP_CONCAT(NULL) FROM t", &[]),
        "1--2-,NULL"
    );
}

/// Tests DML-1.
#[test]
fn inserts_and_duplicates() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl(
        "CREATE TABLE t(id INT PRIMARY KEY AUTO_INCREMENT, u INT UNIQUE, s VARCHAR(3) NOT NULL \
        DEFAULT 'd', n TINYINT)",
    );
    let d = c.done("INSERT INTO t(u) VALUES (10),(20),(30)", &[]);
    assert_eq!((d.affected, d.last_insert_id), (3, 1));
    assert_eq!(c.rows("SELECT * FROM t", &[]), "1,10,d,NULL|2,20,d,NULL|3,30,d,NULL");
    assert_eq!(
        c.error("INSERT INTO t(u) VALUES (40),(20)"),
        (1062, "Duplicate entry '20' for key 't.u'".into())
    );
    assert_eq!(c.rows("SELECT COUNT(*) FROM t", &[]), "3");
    assert_eq!(
        c.error("INSERT INTO t(id) VALUES (2)"),
        (1062, "Duplicate entry '2' for key 't.PRIMARY'".into())
    );
    let d = c.done("INSERT IGNORE INTO t(u) VALUES (20),(50)", &[]);
    assert_eq!((d.affected, &*d.info), (1, "Records: 2  Duplicates: 1  Warnings: 1"));
    assert_eq!(c.session.warnings(), [(1062, "Duplicate entry '20' for key 't.u'")]);
    assert_eq!(
        c.affected(
            "INSERT INTO t(u, s) VALUES (20, 'x') ON DUPLICATE KEY UPDATE s = \
        VALUES(s), n = COALESCE(n, 0) + 1"
        ),
        2
    );
    assert_eq!(
        c.affected("INSERT INTO t(u, s) VALUES (20, 'x') ON DUPLICATE KEY UPDATE s = VALUES(s)"),
        0
    );
    assert_eq!(c.rows("SELECT id, s, n FROM t WHERE u = 20", &[]), "2,x,1");
    assert_eq!(c.affected("REPLACE INTO t(id, u, s) VALUES (2, 30, 'r')"), 3);
    assert_eq!(c.rows("SELECT id, u, s FROM t WHERE id < 5", &[]), "1,10,d|2,30,r");
    // An explicit value raises the counter.
    c.affected("INSERT INTO t(id) VALUES (100)");
    assert_eq!(c.done("INSERT INTO t() VALUES ()", &[]).last_insert_id, 101);
    assert_eq!(
        c.error("INSERT INTO t(s) VALUES (NULL)"),
        (1048, "Column 's' cannot be null".into())
    );
    assert_eq!(
        c.error("INSERT INTO t(s) VALUES ('a'),('long')"),
        (1406, "Data too long for column 's' at row 2".into())
    );
    assert_eq!(
        c.error("INSERT INTO t(n) VALUES (300)"),
        (1264, "Out of range value for column 'n' at row 1".into())
    );
    assert_eq!(c.error("INSERT INTO t(n) VALUES ('x')").0, 1366);
    assert_eq!(c.affected("INSERT IGNORE INTO t(id, n, s) VALUES (200, 300, 'long')"), 1);
    assert_eq!(c.rows("SELECT n, s FROM t WHERE id = 200", &[]), "127,lon");
    c.settings.sql_mode = SqlMode(0);
    assert_eq!(
        c.affected("INSERT INTO t(id, n, s) VALUES (201, -300, NULL), (202, '5x', 'ab')"),
        2
    );
    assert_eq!(c.rows("SELECT n, s FROM t WHERE id > 200", &[]), "-128,|5,ab");
    c.settings.sql_mode = SqlMode::default();
    assert_eq!(
        c.affected("INSERT INTO t(u, s) SELECT u + 1000, 'sel' FROM t WHERE u IS NOT NULL"),
        3
    );
    assert_eq!(c.rows("SELECT u FROM t WHERE s = 'sel' ORDER BY u", &[]), "1010|1030|1050");
    c.ddl("CREATE TABLE by_ten(id INT PRIMARY KEY AUTO_INCREMENT)");
    (c.settings.auto_increment_increment, c.settings.auto_increment_offset) = (10, 5);
    assert_eq!(
        c.done("INSERT INTO by_ten VALUES (NULL),(17),(NULL),(NULL)", &[]).last_insert_id,
        5
    );
    assert_eq!(c.rows("SELECT id FROM by_ten", &[]), "5|17|25|35");
    (c.settings.auto_increment_increment, c.settings.auto_increment_offset) = (1, 1);
    c.ddl("CREATE TABLE m(a INT NOT NULL)");
    assert_eq!(
        c.error("INSERT INTO m() VALUES ()"),
        (1364, "Field 'a' doesn't have a default value".into())
    );
    c.ddl("CREATE TABLE h(a INT)");
    assert_eq!(c.affected("INSERT INTO h VALUES (3),(1),(3)"), 3);
    assert_eq!(c.rows("SELECT a FROM h", &[]), "3|1|3");
    assert_eq!(c.affected("DELETE FROM h WHERE a = 3 LIMIT 1"), 1);
    assert_eq!(c.rows("SELECT a FROM h", &[]), "1|3");
}

#[test]
fn updates_and_deletes() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl("CREATE TABLE t(id INT PRIMARY KEY, a INT, b INT, s TEXT, KEY ka (a))");
    for n in 1..=20 {
        c.done(
            "INSERT INTO t VALUES (?, ?, ?, ?)",
            &[Value::Int(n), Value::Int(n % 5), Value::Int(n), Value::text("s")],
        );
    }
    // The update changes the scanned index and moves each key forward.
    assert_eq!(c.affected("UPDATE t SET a = a + 1 WHERE a >= 3"), 8);
    assert_eq!(
        c.rows("SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY a", &[]),
        "0,4|1,4|2,4|4,4|5,4"
    );
    assert_eq!(c.affected("UPDATE t SET id = id + 100 WHERE id <= 10"), 10);
    assert_eq!(c.rows("SELECT COUNT(*), MIN(id), MAX(id) FROM t", &[]), "20,11,110");
    assert_eq!(c.error("UPDATE t SET id = 11 WHERE id = 12").0, 1062);
    assert_eq!(
        c.error("UPDATE t SET id = id + 1"),
        (1062, "Duplicate entry '12' for key 't.PRIMARY'".into())
    );
    assert_eq!(c.rows("SELECT COUNT(*), MIN(id), MAX(id) FROM t", &[]), "20,11,110");
    assert_eq!(c.affected("UPDATE t SET id = id + 1 ORDER BY id DESC"), 20);
    // Later assignments see earlier ones.
    assert_eq!(c.affected("UPDATE t SET a = b * 10, b = a + 1 WHERE id = 12"), 1);
    assert_eq!(c.rows("SELECT a, b FROM t WHERE id = 12", &[]), "110,111");
    assert_eq!(c.affected("UPDATE t SET b = 0 ORDER BY id LIMIT 3"), 3);
    assert_eq!(c.rows("SELECT id FROM t WHERE b = 0", &[]), "12|13|14");
    c.session.state.found_rows_flag = true;
    assert_eq!(c.affected("UPDATE t SET b = 0 WHERE b = 0"), 3);
    c.session.state.found_rows_flag = false;
    assert_eq!(c.error("UPDATE t SET a = 9223372036854775807 + a WHERE id = 12").0, 1690);
    assert_eq!(c.error("UPDATE t SET a = 1 / 0 WHERE id = 12").0, 1365);
    assert_eq!(c.affected("DELETE FROM t WHERE id > 100 ORDER BY id DESC LIMIT 4"), 4);
    assert_eq!(c.rows("SELECT MAX(id) FROM t", &[]), "107");
    assert_eq!(
        c.affected("DELETE FROM t WHERE a = 5"),
        c.affected("DELETE FROM t WHERE a = 77") + 4 - 1
    );
    // A long column is stored outside the row.
    let long = "x".repeat(40_000);
    assert_eq!(c.done("UPDATE t SET s = ? WHERE id = 12", &[Value::text(&long)]).affected, 1);
    assert_eq!(c.affected("UPDATE t SET b = b + 5 WHERE id = 12"), 1);
    assert_eq!(c.rows("SELECT LENGTH(s), b FROM t WHERE id = 12", &[]), "40000,5");
    assert_eq!(
        c.affected("DELETE FROM t"),
        c.rows("SELECT COUNT(*) FROM t", &[]).parse::<u64>().unwrap() + 13
    );
}

/// Tests EXEC-1.
#[test]
fn failed_statements_leave_the_transaction() {
    let server = Server::new();
    let (mut a, mut b) = (Client::new(&server), Client::new(&server));
    a.ddl("CREATE TABLE t(id INT PRIMARY KEY, n INT)");
    a.affected("INSERT INTO t VALUES (1, 1), (2, 2)");
    a.settings.in_transaction = true;
    b.settings.in_transaction = true;
    a.affected("INSERT INTO t VALUES (3, 3)");
    assert_eq!(a.error("INSERT INTO t VALUES (4, 4), (1, 1)").0, 1062);
    assert_eq!(a.rows("SELECT id FROM t", &[]), "1|2|3");
    // A lock wait timeout ends only the statement.
    b.trx.lock_wait_timeout = std::time::Duration::from_millis(20);
    b.affected("UPDATE t SET n = 10 WHERE id = 2");
    assert_eq!(b.error("UPDATE t SET n = 10 WHERE id = 3").0, 1205);
    assert_eq!(b.error("SELECT * FROM t WHERE id = 3 FOR UPDATE NOWAIT").0, 3572);
    assert_eq!(b.rows("SELECT id FROM t FOR UPDATE SKIP LOCKED", &[]), "2");
    assert_eq!(b.rows("SELECT id, n FROM t", &[]), "1,1|2,10");
    block_on(commit(&mut b.trx, None, Flush::Durable, None)).unwrap();
    block_on(commit(&mut a.trx, None, Flush::Written, None)).unwrap();
    assert_eq!(a.rows("SELECT id, n FROM t", &[]), "1,1|2,10|3,3");
    block_on(a.trx.rollback()).unwrap();
    // Reads at SERIALIZABLE lock rows.
    a.trx.isolation = Isolation::Serializable;
    assert_eq!(a.rows("SELECT n FROM t WHERE id = 1", &[]), "1");
    assert_eq!(b.error("UPDATE t SET n = 2 WHERE id = 1").0, 1205);
    block_on(a.trx.rollback()).unwrap();
    block_on(b.trx.rollback()).unwrap();
}

/// Makes two sessions in transactions that wait at most 20 ms for a row, and a table of five rows.
fn two_in_transactions(server: &Server, isolation: Isolation) -> (Client<'_>, Client<'_>) {
    let (mut a, mut b) = (Client::new(server), Client::new(server));
    a.ddl("CREATE TABLE t(id INT PRIMARY KEY, n INT, k INT, KEY kk (k))");
    a.affected("INSERT INTO t VALUES (10, 1, 0), (20, 2, 0), (30, 3, 0), (40, 2, 1), (50, 5, 1)");
    for c in [&mut a, &mut b] {
        c.settings.in_transaction = true;
        c.trx.isolation = isolation;
        c.trx.lock_wait_timeout = std::time::Duration::from_millis(20);
    }
    (a, b)
}

/// Tests CURSOR-2.
#[test]
fn read_committed_keeps_no_locks_on_refused_rows() {
    for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
        let server = Server::new();
        let (mut a, mut b) = two_in_transactions(&server, isolation);
        let held = |c: &Client<'_>| c.trx.locks().locks_held();
        for (text, kept) in [
            ("UPDATE t SET n = 9 WHERE n = 3", 1),
            ("DELETE FROM t WHERE n = 2", 2),
            ("UPDATE t SET n = 9 WHERE n = 2 ORDER BY id DESC LIMIT 1", 1),
            ("UPDATE t SET n = 9 WHERE n = 2 ORDER BY id + n DESC LIMIT 1", 2),
            ("UPDATE t SET id = id + 1 WHERE n = 5", 1),
            // The scan of the index locks rows 10 to 30 and refuses two of them.
            ("DELETE FROM t WHERE k = 0 AND n > 2", 1),
        ] {
            assert!(a.affected(text) > 0);
            assert_eq!(held(&a), kept, "{text}");
            block_on(a.trx.rollback()).unwrap();
        }
        assert_eq!(a.rows("SELECT id FROM t WHERE n = 3 FOR UPDATE", &[]), "30");
        assert_eq!(held(&a), 1);
        assert_eq!(b.affected("UPDATE t SET n = 7 WHERE id <> 30 AND id < 20"), 1);
        assert_eq!(b.error("UPDATE t SET n = 7 WHERE id = 30").0, 1205);
        // No range is locked.
        assert_eq!(b.affected("INSERT INTO t VALUES (31, 3, 0)"), 1);
        // A lock from before the statement stays.
        assert_eq!(
            a.rows("SELECT id FROM t WHERE id > 25 AND n = 77 FOR SHARE SKIP LOCKED", &[]),
            ""
        );
        assert_eq!(b.error("UPDATE t SET n = 7 WHERE id = 30").0, 1205);
        block_on(a.trx.rollback()).unwrap();
        block_on(b.trx.rollback()).unwrap();
        // A join keeps no locks on rows of either side that are in no row of the result.
        assert_eq!(
            a.rows(
                "SELECT x.id, y.id FROM t x JOIN t y ON y.n = x.n AND y.id > x.id WHERE \
            x.k = 0 FOR UPDATE",
                &[]
            ),
            "20,40"
        );
        assert!(held(&a) < 5, "{}", held(&a));
        assert_eq!(b.error("UPDATE t SET n = 7 WHERE id = 40").0, 1205);
        assert_eq!(b.affected("UPDATE t SET n = 7 WHERE id = 50"), 1);
        block_on(a.trx.rollback()).unwrap();
        block_on(b.trx.rollback()).unwrap();
    }
}

#[test]
fn read_committed_gives_back_a_lock_that_it_waited_for() {
    let server = Server::new();
    let (mut a, mut b) = two_in_transactions(&server, Isolation::ReadCommitted);
    a.trx.lock_wait_timeout = std::time::Duration::from_secs(50);
    b.affected("UPDATE t SET n = 8 WHERE id = 30");
    std::thread::scope(|s| {
        let waits = server.engine.locks.clone();
        let mut trx = b.trx;
        s.spawn(move || {
            while waits.stats().current_waits == 0 {
                std::thread::yield_now();
            }
            block_on(commit(&mut trx, None, Flush::No, None)).unwrap();
        });
        assert_eq!(a.affected("UPDATE t SET n = 9 WHERE n = 3"), 0);
        assert_eq!(a.trx.locks().locks_held(), 0);
    });
    block_on(a.trx.rollback()).unwrap();
}

/// Tests CURSOR-1.
#[test]
fn repeatable_read_keeps_rows_and_ranges_it_came_through() {
    let server = Server::new();
    let (mut a, mut b) = two_in_transactions(&server, Isolation::RepeatableRead);
    assert_eq!(a.affected("UPDATE t SET n = 9 WHERE n = 3"), 1);
    assert_eq!(a.trx.locks().locks_held(), 5);
    assert_eq!(b.error("INSERT INTO t VALUES (99, 1, 5)").0, 1205);
    block_on(a.trx.rollback()).unwrap();
    block_on(b.trx.rollback()).unwrap();
    // Each entry has a statement, ids whose insertion waits, and ids whose insertion does not.
    for (text, closed, open) in [
        ("DELETE FROM t WHERE id > 5 LIMIT 2", [6, 15], [21, 99]),
        ("UPDATE t SET n = 9 WHERE id >= 10 AND n = 2 LIMIT 1", [11, 15], [21, 99]),
        ("UPDATE t SET n = n + 1 ORDER BY id LIMIT 2", [1, 15], [21, 99]),
        ("DELETE FROM t WHERE id < 100 ORDER BY id DESC LIMIT 2", [45, 99], [39, 1]),
        ("SELECT id FROM t WHERE id > 10 LIMIT 1 FOR UPDATE", [11, 15], [21, 99]),
        ("SELECT id FROM t ORDER BY id DESC LIMIT 2 FOR SHARE", [45, 99], [39, 1]),
        ("SELECT id FROM t WHERE id BETWEEN 20 AND 30 FOR UPDATE", [21, 29], [19, 31]),
        (
            "SELECT id FROM t WHERE id IN (15, 25) OR id BETWEEN 35 AND 45 LIMIT 1 FOR UPDATE",
            [15, 36],
            [41, 50 + 1],
        ),
    ] {
        a.try_run(text, &[]).unwrap_or_else(|e| panic!("{text}: {e}"));
        for id in closed {
            assert_eq!(
                b.error(&format!("INSERT INTO t VALUES ({id}, 1, 5)")).0,
                1205,
                "{text}: {id}"
            );
        }
        for id in open {
            assert_eq!(
                b.affected(&format!("INSERT INTO t VALUES ({id}, 1, 5)")),
                1,
                "{text}: {id}"
            );
        }
        block_on(a.trx.rollback()).unwrap();
        block_on(b.trx.rollback()).unwrap();
    }
}

#[test]
fn a_parameter_is_not_compared_without_the_characters_that_a_column_lacks() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl(
        "CREATE TABLE t(id INT PRIMARY KEY, c VARCHAR(9) CHARACTER SET latin1, k VARCHAR(9) \
        CHARACTER SET latin1, KEY (k))",
    );
    c.affected("INSERT INTO t VALUES (1, '?', '?'), (2, 'é', 'é')");
    for (condition, error) in [
        ("c = ?", 1267),
        ("k = ?", 1267),
        ("c LIKE ?", 1267),
        ("k LIKE ?", 1267),
        ("k BETWEEN '' AND ?", 1270),
        ("c IN ('x', ?)", 1270),
        ("k IN ('x', ?)", 1270),
    ] {
        let ran = c.try_run(&format!("DELETE FROM t WHERE {condition}"), &[Value::text("漢")]);
        assert_eq!(ran.err().map(|e| e.code), Some(error), "{condition}");
    }
    assert_eq!(
        c.rows(
            "SELECT id FROM t WHERE c = ? AND k = ? AND c LIKE ?",
            &["é", "É", "É%"].map(Value::text)
        ),
        "2"
    );
    assert_eq!(
        c.rows("SELECT COUNT(*) FROM t WHERE c = ? OR k = ?", &[Value::Int(5), Value::Int(6)]),
        "0"
    );
    // The character set of a variable counts like the character set of a column.
    c.rows("SELECT @x := '漢', @y := 'é'", &[]);
    for (condition, found) in
        [("c = @x", ""), ("k = @x", ""), ("c LIKE @x", ""), ("c = @y", "2"), ("k = @y", "2")]
    {
        assert_eq!(
            c.rows(&format!("SELECT id FROM t WHERE {condition}"), &[]),
            found,
            "{condition}"
        );
    }
    assert_eq!(c.rows("SELECT id, NULLIF(c, '漢') IS NULL FROM t ORDER BY id", &[]), "1,0|2,0");
}

#[test]
fn a_view_older_than_the_definition_is_told_so() {
    let server = Server::new();
    let (mut a, mut b) = two_in_transactions(&server, Isolation::RepeatableRead);
    b.settings.in_transaction = false;
    let changed = (1412, "Table definition has changed, please retry transaction".to_string());
    a.ddl("CREATE TABLE other(a INT)");
    assert_eq!(a.rows("SELECT COUNT(*) FROM other", &[]), "0");
    b.ddl("CREATE INDEX kn ON t(n)");
    b.ddl("CREATE TABLE late(a INT PRIMARY KEY)");
    b.affected("INSERT INTO late VALUES (1)");
    // The transaction still sees the old rows; the new index does not have them.
    assert_eq!(a.rows("SELECT COUNT(*) FROM t IGNORE INDEX (kn)", &[]), "5");
    assert_eq!(a.error("SELECT id FROM t FORCE INDEX (kn) WHERE n = 3"), changed);
    assert_eq!(a.error("SELECT * FROM late"), changed);
    // A locking read sees the present rows.
    assert_eq!(a.rows("SELECT * FROM late FOR UPDATE", &[]), "1");
    assert_eq!(a.rows("SELECT id FROM t FORCE INDEX (kn) WHERE n = 3 FOR SHARE", &[]), "30");
    block_on(commit(&mut a.trx, None, Flush::No, None)).unwrap();
    assert_eq!(a.rows("SELECT id FROM t FORCE INDEX (kn) WHERE n = 3", &[]), "30");
    b.ddl("TRUNCATE TABLE t");
    assert_eq!(a.error("SELECT * FROM t"), changed);
    // Each statement of READ COMMITTED has its own view.
    block_on(commit(&mut a.trx, None, Flush::No, None)).unwrap();
    a.trx.isolation = Isolation::ReadCommitted;
    assert_eq!(a.rows("SELECT COUNT(*) FROM late", &[]), "1");
    b.ddl("TRUNCATE TABLE late");
    assert_eq!(a.rows("SELECT COUNT(*) FROM late", &[]), "0");
    // A change of names or comments does not disturb a view.
    block_on(commit(&mut a.trx, None, Flush::No, None)).unwrap();
    a.trx.isolation = Isolation::RepeatableRead;
    assert_eq!(a.rows("SELECT COUNT(*) FROM other", &[]), "0");
    b.ddl("RENAME TABLE late TO later");
    assert_eq!(a.rows("SELECT COUNT(*) FROM later", &[]), "0");
    block_on(a.trx.rollback()).unwrap();
}

/// A message has the beginning of a long expression. Neither its levels nor its literals are
/// written behind that.
#[test]
fn a_message_has_the_beginning_of_a_long_expression() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl("CREATE TABLE t (a BIGINT)");
    c.affected("INSERT INTO t VALUES (9223372036854775807)");
    let (levels, text) = (60, "x".repeat(100_000));
    for (inner, shown) in [("a", "`a`"), (&*format!("CHAR_LENGTH('{text}')"), "xxx")] {
        let nested = format!("{}{inner}{}", "(0 * a + ".repeat(levels), ")".repeat(levels));
        for (sum, in_message) in [(format!("{inner} + a"), true), (format!("{nested} + a"), false)]
        {
            let (code, message) = c.error(&format!("SELECT {sum} FROM t"));
            assert!(code == 1690 && message.starts_with("BIGINT value is out of range in '("));
            assert!(message.len() < 1100, "{}", message.len());
            assert!(!in_message || message.contains(shown), "{message}");
        }
    }
}

/// What is no date wins among dates: then texts decide. The arguments are not evaluated anew for
/// that, or each of the nested calls would double the work.
#[test]
fn the_least_of_dates_and_texts_evaluates_its_arguments_once() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl("CREATE TABLE days (d DATE)");
    c.affected("INSERT INTO days VALUES ('2024-01-10')");
    let nested = format!("{}'0000-00-00'{}", "LEAST(".repeat(60), ", d)".repeat(60));
    assert_eq!(c.rows(&format!("SELECT {nested} FROM days"), &[]), "0000-00-00");
    let counted = "SELECT LEAST(d, @n := IFNULL(@n, 0) + 1), @n FROM days";
    assert!(c.rows(counted, &[]).ends_with(",1"));
}

/// The type of STR_TO_DATE with a format that is a parameter is DATETIME, and so is its value.
#[test]
fn a_parameter_is_the_format_of_a_moment() {
    let server = Server::new();
    let mut c = Client::new(&server);
    let made = |c: &mut Client<'_>, text: &str, format: &str| {
        c.rows("SELECT STR_TO_DATE(?, ?)", &[Value::text(text), Value::text(format)])
    };
    assert_eq!(made(&mut c, "2024-01-02", "%Y-%m-%d"), "2024-01-02 00:00:00");
    assert_eq!(made(&mut c, "10:11", "%H:%i"), "NULL");
}
