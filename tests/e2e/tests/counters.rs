//! Counters and INFORMATION_SCHEMA through a driver, over both protocols.
use mysql_async::prelude::*;
use redolith_e2e::{code, fresh};

/// The value of a counter since the server's start.
async fn count(c: &mut mysql_async::Conn, name: &str) -> i64 {
    let found: Option<i64> = c
        .exec_first(
            "SELECT `COUNT` FROM information_schema.INNODB_METRICS \
        WHERE NAME = ?",
            (name,),
        )
        .await
        .unwrap();
    found.unwrap_or_else(|| panic!("there is no counter {name}"))
}

#[tokio::test]
async fn a_load_is_seen_in_the_counters() {
    let mut c = fresh("e2e_counters", false).await;
    c.query_drop("CREATE TABLE t (id INT PRIMARY KEY, v INT)").await.unwrap();
    let names = [
        "trx_rw_commits",
        "dml_inserts",
        "log_write_requests",
        "log_flushes",
        "commit_wait_us_count",
    ];
    let mut before = Vec::new();
    for name in names {
        before.push(count(&mut c, name).await);
    }
    for n in 0..20 {
        c.exec_drop("INSERT INTO t VALUES (?, ?)", (n, n)).await.unwrap();
    }
    // Other tests may be running, so the counters grow by at least this many.
    for (name, before) in names.iter().zip(before) {
        assert!(count(&mut c, name).await - before >= 20 || *name == "log_flushes", "{name}");
    }
}

#[tokio::test]
async fn types_of_the_columns() {
    let mut c = fresh("e2e_counters_types", true).await;
    type Row =
        (String, i64, Option<i64>, Option<f64>, Option<mysql_async::Value>, Option<i64>, String);
    let rows: Vec<Row> = c
        .exec(
            "SELECT NAME, `COUNT`, MAX_COUNT, AVG_COUNT, TIME_ENABLED, TIME_ELAPSED, STATUS FROM \
            information_schema.INNODB_METRICS",
            (),
        )
        .await
        .unwrap();
    assert!(rows.len() > 150);
    let row = rows.iter().find(|r| r.0 == "log_writes").unwrap();
    assert!(matches!(row.4, Some(mysql_async::Value::Date(2020.., ..))), "{row:?}");
    let names: Vec<(String, u64, Option<u64>)> = c
        .exec(
            "SELECT COLUMN_NAME, ORDINAL_POSITION, NUMERIC_PRECISION FROM \
                information_schema.COLUMNS WHERE TABLE_SCHEMA = ?",
            ("nothing",),
        )
        .await
        .unwrap();
    assert!(names.is_empty());
}

#[tokio::test]
async fn wrong_settings_change_nothing() {
    let mut c = fresh("e2e_counters_wrong", false).await;
    assert_eq!(code(c.query_drop("SET GLOBAL innodb_monitor_disable = 'nonsense'").await), 1231);
    assert_eq!(
        code(c.query_drop("INSERT INTO information_schema.engines (ENGINE) VALUES ('x')").await),
        1044
    );
    assert_eq!(code(c.query_drop("SELECT * FROM information_schema.nothing").await), 1109);
}
