//! Listening sockets: TCP and unix. Each accepted client becomes a task.
use crate::backend::Backend;
use crate::connection::serve;
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

pub fn bind_tcp(address: SocketAddr, backlog: u32) -> io::Result<Listener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(Listener::Tcp(socket.listen(backlog)?))
}

/// Binds a unix socket. A file left by a server that is gone is replaced; one that answers is an error.
pub fn bind_unix(disk: &dyn Disk, path: &Path, backlog: u32) -> io::Result<Listener> {
    if disk.exists(path) {
        match BlockingUnixStream::connect(path) {
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server answers on it")),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => disk.remove(path)?,
            Err(e) => return Err(e),
        }
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    Ok(Listener::Unix(socket.listen(backlog)?))
}

/// Removes the socket's file when dropped.
pub struct SocketFile {
    pub disk: Arc<dyn Disk>,
    pub path: PathBuf,
}
impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = self.disk.remove(&self.path);
    }
}

/// Accepts clients for ever.
pub async fn accept<B: Backend>(server: Arc<Server<B>>, listener: Listener) {
    loop {
        let slot = server.login_slot().await;
        let (stream, peer, from) = match accept_one(&listener).await {
            Ok(client) => client,
            Err(e) => {
                // Out of file descriptors, most likely: others must end before more can come.
                if !matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) {
                    eprintln!("redolith: cannot accept a connection: {e}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                continue;
            }
        };
        server.status.counters.add(Counter::Connections, 1);
        let process = server.processes.add(&from, server.backend.limits().connect_timeout_s);
        let socket = Socket::new(stream, process.clone());
        tokio::spawn(serve(server.clone(), socket, peer, process, slot));
    }
}

async fn accept_one(listener: &Listener) -> io::Result<(Stream, Peer, String)> {
    match listener {
        Listener::Tcp(l) => {
            let (s, from) = l.accept().await?;
            // Answers are written whole: waiting to fill a segment only delays them.
            s.set_nodelay(true)?;
            // A client whose machine is gone says nothing more: the kernel finds out, and its seat is free again.
            rustix::net::sockopt::set_socket_keepalive(&s, true)?;
            Ok((Stream::Tcp(s), Peer::Tcp(from.ip()), from.to_string()))
        }
        Listener::Unix(l) => Ok((Stream::Unix(l.accept().await?.0), Peer::Socket, "localhost".into())),
    }
}
