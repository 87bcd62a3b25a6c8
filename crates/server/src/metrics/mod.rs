//! Counters for Prometheus: `GET /metrics` at `--metrics-address`, in its text format 0.0.4.
//!
//! A minimal HTTP server: one request per connection, a head of at most `HEAD_BYTES`, an answer
//! with its length, and the connection is closed. The page shows only numbers, but it asks for no
//! password, so bind it to an address that only authorized hosts can reach.
//!
//! MET-HTTP-1: the connection is closed if the client has not sent its request within
//! `HEAD_PATIENCE`, or has not read the answer within `PATIENCE`. At most `AT_ONCE` clients are
//! served at the same time.
mod replicas;
mod text;

use redolith_engine::Engine;
use redolith_replication::Binlog;
use redolith_sql::status::Status;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const HEAD_BYTES: usize = 8 << 10;
const HEAD_PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 16;

/// The sources of the numbers on the page.
pub struct Source {
    pub engine: Arc<Engine>,
    pub status: Arc<Status>,
    pub binlog: Option<Arc<Binlog>>,
}

/// Listens on `ip:port`. With port 0 the system chooses a free port.
pub async fn bind(address: &str) -> Result<TcpListener, String> {
    let parsed: SocketAddr = address
        .parse()
        .map_err(|_| format!("--metrics-address: '{address}' is not of the form ip:port"))?;
    TcpListener::bind(parsed)
        .await
        .map_err(|e| format!("cannot listen on {parsed} for metrics: {e}"))
}

/// Serves clients without end.
pub async fn serve(listener: TcpListener, source: Source) {
    let (source, places) = (Arc::new(source), Arc::new(Semaphore::new(AT_ONCE)));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let source = source.clone();
                tokio::spawn(async move {
                    // A client that went away needs no error.
                    let _ = tokio::time::timeout(PATIENCE, answer(client, &source)).await;
                    drop(place);
                });
            }
            Err(e) => {
                tracing::warn!("cannot accept a connection for metrics: {e}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(mut client: TcpStream, source: &Source) -> io::Result<()> {
    let Ok(head) = tokio::time::timeout(HEAD_PATIENCE, head_of(&mut client)).await else {
        return Ok(());
    };
    let head = match head? {
        head if head.is_empty() => return Ok(()),
        head if head.len() >= HEAD_BYTES => {
            return respond(&mut client, "431 Request Header Fields Too Large", "", true).await;
        }
        head => head,
    };
    match request(&head) {
        Some(("GET", "/metrics")) => respond(&mut client, "200 OK", &page(source), true).await,
        Some(("HEAD", "/metrics")) => respond(&mut client, "200 OK", &page(source), false).await,
        Some(("GET", "/")) => {
            respond(&mut client, "200 OK", "redolith: see /metrics\n", true).await
        }
        Some(("GET" | "HEAD", _)) => {
            respond(&mut client, "404 Not Found", "there is only /metrics\n", true).await
        }
        Some(_) => respond(&mut client, "405 Method Not Allowed", "", true).await,
        None => respond(&mut client, "400 Bad Request", "", true).await,
    }
}

fn page(source: &Source) -> String {
    let mut page = text::page(&source.engine.metrics(), &source.status);
    if let Some(binlog) = &source.binlog {
        page.push_str(&replicas::page(binlog));
    }
    page
}

/// Reads the head of a request, up to the empty line or `HEAD_BYTES`. Empty if the client leaves
/// before.
async fn head_of(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(1024);
    while head.len() < HEAD_BYTES && !head.windows(4).any(|w| w == b"\r\n\r\n") {
        if client.read_buf(&mut head).await? == 0 {
            head.clear();
            break;
        }
    }
    Ok(head)
}

/// Parses the method and the path, without the query, from a request's first line.
fn request(head: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(head.split(|b| *b == b'\r').next()?).ok()?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let path = target.split('?').next()?;
    (version.starts_with("HTTP/1.") && words.next().is_none()).then_some((method, path))
}

async fn respond(
    client: &mut TcpStream,
    status: &str,
    body: &str,
    with_body: bool,
) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; \
            charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await?;
    if with_body {
        client.write_all(body.as_bytes()).await?;
    }
    client.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        assert_eq!(request(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Some(("GET", "/metrics")));
        assert_eq!(request(b"GET /metrics?name=x HTTP/1.0\r\n\r\n"), Some(("GET", "/metrics")));
        assert_eq!(request(b"POST / HTTP/1.1\r\n\r\n"), Some(("POST", "/")));
        for wrong in [
            &b"GET /metrics\r\n\r\n"[..],
            b"\r\n\r\n",
            b"GET  /metrics HTTP/1.1\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\n\r\n",
            b"GET / HTTP/2\r\n\r\n",
        ] {
            assert_eq!(request(wrong), None);
        }
    }
}
