//! Listening sockets: TCP and unix. Each accepted client becomes a task.
use crate::backend::Backend;
use crate::connection::serve;
use crate::long_work;
use crate::own_file::OwnFile;
use crate::protocol::auth::Peer;
use crate::server::Server;
use crate::socket::{Socket, Stream};
use redolith_disk::Disk;
use redolith_sql::status::Counter;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as BlockingUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Whether a client waits to be accepted.
    fn has_client(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut listener = [match self {
            Listener::Tcp(l) => PollFd::new(l, PollFlags::IN),
            Listener::Unix(l) => PollFd::new(l, PollFlags::IN),
        }];
        poll(&mut listener, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

pub fn bind_tcp(address: SocketAddr, backlog: u32) -> io::Result<Listener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(Listener::Tcp(socket.listen(backlog)?))
}

/// Binds a unix socket. A file that an ended server has left is replaced. It is an error if another
/// server answers on the socket.
pub fn bind_unix(disk: &dyn Disk, path: &Path, backlog: u32) -> io::Result<Listener> {
    if disk.exists(path) {
        match BlockingUnixStream::connect(path) {
            Ok(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "another server answers on it",
                ));
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => disk.remove(path)?,
            Err(e) => return Err(e),
        }
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    Ok(Listener::Unix(socket.listen(backlog)?))
}

/// Removes the socket's file when dropped, unless another server has made it anew (OWNFILE-1).
pub struct SocketFile(OwnFile);
impl SocketFile {
    /// Takes over the file that [`bind_unix`] has just made.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf) -> SocketFile {
        SocketFile(OwnFile::made(disk, path))
    }
}
impl Drop for SocketFile {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// Accepts clients without end, and each at once. If there are too many, a client that has been
/// accepted before gives way.
pub async fn accept<B: Backend>(server: Arc<Server<B>>, listener: Listener) {
    let mut log = RateLimitedLog::default();
    loop {
        let (stream, peer, from) = match accept_one(&listener).await {
            Ok(client) => client,
            Err(e) => {
                server.status.counters.add(Counter::ConnectionErrorsAccept, 1);
                accept_failed(&server, &listener, &mut log, e).await;
                continue;
            }
        };
        server.status.counters.add(Counter::Connections, 1);
        let process = server.processes.add(&from, server.backend.limits().connect_timeout_s);
        let seat = server.login_seat(&peer, process.clone());
        let socket = Socket::new(stream, process.clone());
        tokio::spawn(long_work::run(serve(server.clone(), socket, peer, process, seat)));
    }
}

/// Handles an error of accept(2) before the next call.
async fn accept_failed<B: Backend>(
    server: &Server<B>,
    listener: &Listener,
    log: &mut RateLimitedLog,
    e: io::Error,
) {
    use rustix::io::Errno;
    match Errno::from_io_error(&e) {
        // One client has gone before it was accepted, or its network has failed. Other clients may
        // wait.
        Some(Errno::CONNABORTED | Errno::INTR | Errno::PROTO | Errno::NOPROTOOPT | Errno::PERM) => {
        }
        Some(
            Errno::NETDOWN
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH,
        ) => {}
        // The kernel returns these errors even if no client waits, because it allocates a
        // descriptor first.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
            let waits = listener.has_client();
            if waits {
                let what =
                    "cannot accept a connection, another one that has not logged in gives way";
                log.tell(server.now(), &format!("{what}: {e}"));
            }
            server.make_room(waits).await;
        }
        _ => {
            log.tell(server.now(), &format!("cannot accept a connection: {e}"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Logs a message at most once a minute, with the number of messages that were left out.
#[derive(Default)]
struct RateLimitedLog {
    last: Option<Duration>,
    unsaid: u64,
}
impl RateLimitedLog {
    const EVERY: Duration = Duration::from_secs(60);

    fn tell(&mut self, now: Duration, what: &str) {
        if let Some(line) = self.line(now, what) {
            tracing::warn!("{line}");
        }
    }
    fn line(&mut self, now: Duration, what: &str) -> Option<String> {
        if self.last.is_some_and(|last| now < last + Self::EVERY) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(match std::mem::take(&mut self.unsaid) {
            0 => what.to_string(),
            n => format!("{what} ({n} more such failures since this was last told)"),
        })
    }
}

async fn accept_one(listener: &Listener) -> io::Result<(Stream, Peer, String)> {
    match listener {
        Listener::Tcp(l) => {
            let (s, from) = l.accept().await?;
            // Errors of these two calls are ignored: if the client is gone, its first read fails
            // too. Answers are written whole, so waiting to fill a segment would only delay them.
            let _ = s.set_nodelay(true);
            // If a client's machine is gone, the client never closes the connection. With
            // keep-alive the kernel finds out, and the client's seat becomes free.
            let _ = rustix::net::sockopt::set_socket_keepalive(&s, true);
            Ok((Stream::Tcp(s), Peer::Tcp(from.ip()), from.to_string()))
        }
        Listener::Unix(l) => {
            Ok((Stream::Unix(l.accept().await?.0), Peer::Socket, "localhost".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_refused_connections_are_rate_limited() {
        let (mut c, at) = (RateLimitedLog::default(), Duration::from_secs);
        assert_eq!(c.line(at(5), "x").as_deref(), Some("x"));
        assert_eq!((c.line(at(5), "x"), c.line(at(64), "x")), (None, None));
        assert_eq!(
            c.line(at(65), "y").as_deref(),
            Some("y (2 more such failures since this was last told)")
        );
        assert_eq!(c.line(at(125), "x").as_deref(), Some("x"));
    }
}
