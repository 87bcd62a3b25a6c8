//! Errors carry MySQL's numbers in both protocols, and leave the connection usable.
use mysql_async::prelude::*;
use mysql_async::{Conn, Opts};
use redolith_e2e::{code, fresh, opts};

#[tokio::test]
async fn numbers_in_both_protocols() {
    let mut c = fresh("e2e_errors", false).await;
    c.query_drop("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)").await.expect("creates");
    c.query_drop("INSERT INTO t VALUES (1, 1)").await.expect("inserts");
    for (sql, expected) in [
        ("INSERT INTO t VALUES (1, 2)", 1062),
        ("SELECT * FROM nope", 1146),
        ("SELECT nope FROM t", 1054),
        ("SELEC 1", 1064),
        ("INSERT INTO t VALUES (2, NULL)", 1048),
        ("INSERT INTO t (id) VALUES (2)", 1364),
        ("INSERT INTO t VALUES (2, 99999999999)", 1264),
    ] {
        assert_eq!(code(c.query_drop(sql).await), expected, "text: {sql}");
        assert_eq!(code(c.exec_drop(sql, ()).await), expected, "prepared: {sql}");
    }
    let one: Option<i32> = c.query_first("SELECT COUNT(*) FROM t").await.expect("still answers");
    assert_eq!(one, Some(1));
}

#[tokio::test]
async fn logins_that_are_refused() {
    for tcp in [false, true] {
        assert_eq!(code(Conn::new(Opts::from(opts(tcp).pass(Some("wrong")))).await), 1045);
        assert_eq!(
            code(Conn::new(Opts::from(opts(tcp).user(Some("nobody_of_this_name")))).await),
            1045
        );
    }
    assert_eq!(
        code(Conn::new(Opts::from(opts(false).db_name(Some("no_such_schema")))).await),
        1049
    );
}

#[tokio::test]
async fn a_transaction_and_its_rollback() {
    let mut c = fresh("e2e_transactions", false).await;
    c.query_drop("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(10))")
        .await
        .expect("creates");
    let mut t = c.start_transaction(Default::default()).await.expect("begins");
    t.exec_drop("INSERT INTO t (v) VALUES (?)", ("a",)).await.expect("inserts");
    assert_eq!((t.affected_rows(), t.last_insert_id()), (1, Some(1)));
    t.rollback().await.expect("rolls back");
    let mut t = c.start_transaction(Default::default()).await.expect("begins");
    t.exec_batch("INSERT INTO t (v) VALUES (?)", ["b", "c", "d"].map(|v| (v,)))
        .await
        .expect("inserts");
    t.exec_drop("UPDATE t SET v = CONCAT(v, ?) WHERE v >= ?", ("!", "c")).await.expect("updates");
    assert_eq!(t.affected_rows(), 2);
    t.commit().await.expect("commits");
    let left: Vec<String> = c.query("SELECT v FROM t ORDER BY id").await.expect("selects");
    assert_eq!(left, ["b", "c!", "d!"]);
}

#[tokio::test]
async fn several_results_and_warnings() {
    let mut c = fresh("e2e_results", false).await;
    let mut results = c.query_iter("SELECT 1; SELECT 2, 3; SELECT 1 / 0").await.expect("runs");
    assert_eq!(results.collect::<i32>().await.expect("first"), [1]);
    assert_eq!(results.collect::<(i32, i32)>().await.expect("second"), [(2, 3)]);
    assert_eq!(results.collect::<Option<f64>>().await.expect("third"), [None]);
    drop(results);
    assert_eq!(c.get_warnings(), 1);
    c.ping().await.expect("pings");
    c.reset().await.expect("resets");
}
