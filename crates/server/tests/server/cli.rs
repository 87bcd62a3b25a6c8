//! The stock `mariadb` client against the server, if it is installed.
use crate::common::*;
use std::process::Command;

fn mariadb(server: &TestServer, statement: &str) -> Option<(bool, String)> {
    let mut c = Command::new("mariadb");
    c.args(["--no-defaults", "-uroot", "-N", "-B", "-S"]).arg(&server.path).args(["-e", statement]);
    let out = c.output().ok()?;
    Some((
        out.status.success(),
        String::from_utf8_lossy(&if out.status.success() { out.stdout } else { out.stderr })
            .into_owned(),
    ))
}

#[test]
fn the_mariadb_client_logs_in_and_reads_rows() {
    let server = start(LIMITS);
    let Some(one) = mariadb(&server, "SELECT 1") else {
        return eprintln!("no mariadb client: skipped");
    };
    assert_eq!(one, (true, "1\n".into()));
    let (ok, rows) = mariadb(&server, "ROWS 5000").unwrap();
    assert!(
        ok && rows.lines().count() == 5000
            && rows.ends_with(&format!("4999\t{}\n", "x".repeat(100)))
    );
    let (ok, error) = mariadb(&server, "FAIL").unwrap();
    assert!(!ok && error.contains("ERROR 1064 (42000)"), "{error}");
    let (ok, error) = mariadb(&server, "use nowhere; SELECT 1").unwrap();
    assert!(!ok && error.contains("ERROR 1049 (42000)"), "{error}");
}
