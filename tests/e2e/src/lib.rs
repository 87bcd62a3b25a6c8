//! Connects the tests to the server that `tests/drivers/run` has started. `REDOLITH_SOCKET` and
//! `REDOLITH_PORT` name the server.
use mysql_async::prelude::*;
use mysql_async::{Conn, Opts, OptsBuilder};

/// Reads a variable of the environment about the server.
fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run these tests by \
        tests/drivers/run"
        )
    })
}

/// Options of a connection as root: over the socket, or over TCP from loopback.
pub fn opts(tcp: bool) -> OptsBuilder {
    let o = OptsBuilder::default().user(Some("root")).prefer_socket(false);
    if tcp {
        o.ip_or_hostname("127.0.0.1").tcp_port(env("REDOLITH_PORT").parse().expect("a port"))
    } else {
        o.socket(Some(env("REDOLITH_SOCKET")))
    }
}

/// A connection to a fresh, empty schema of this name.
pub async fn fresh(schema: &str, tcp: bool) -> Conn {
    let mut c = Conn::new(Opts::from(opts(tcp))).await.expect("connects");
    c.query_drop(format!("DROP DATABASE IF EXISTS {schema}")).await.expect("drops the schema");
    c.query_drop(format!(
        "CREATE DATABASE {schema} CHARACTER SET utf8mb4 COLLATE \
        utf8mb4_general_ci"
    ))
    .await
    .expect("creates the schema");
    c.query_drop(format!("USE {schema}")).await.expect("uses the schema");
    c
}

/// The number of the error that the server answered with.
pub fn code<T: std::fmt::Debug>(result: mysql_async::Result<T>) -> u16 {
    match result {
        Err(mysql_async::Error::Server(e)) => e.code,
        other => panic!("expected an error of the server, got {other:?}"),
    }
}
