//! A client's socket: one system call to read a command, one to write its answer.
use redolith_sql::processes::{Kill, Process, State};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Why a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The client has closed it, or the network failed.
    Gone,
    /// KILL, a time-out or the server's shutdown.
    Killed,
}

/// What a wait for input gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    Bytes(usize),
    /// Nothing has come for a while: buffers may be given back.
    TrimBuffers,
}

impl Socket {
    /// Appends what the client has sent to `buf`, waiting for at least one byte. A kill of the connection ends the wait.
    pub async fn read(&mut self, buf: &mut Vec<u8>, process: &Process) -> Result<Input, Ended> {
        poll_fn(|cx| {
            if process.killed() >= Kill::Connection {
                return Poll::Ready(Err(Ended::Killed));
            }
            match self.poll_read(cx, buf) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(Ended::Gone)),
                Poll::Ready(Ok(n)) => Poll::Ready(Ok(Input::Bytes(n))),
                Poll::Ready(Err(_)) => Poll::Ready(Err(Ended::Gone)),
                Poll::Pending if process.take_trim_request() => Poll::Ready(Ok(Input::TrimBuffers)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match self {
            Socket::Tcp(s) => pin!(s.read_buf(buf)).poll(cx),
            Socket::Unix(s) => pin!(s.read_buf(buf)).poll(cx),
        }
    }

    /// Writes all of `bytes`. While the client does not take them, `write_timeout_s` runs.
    pub async fn write_all(&mut self, mut bytes: &[u8], process: &Process, write_timeout_s: u32) -> Result<(), Ended> {
        let mut waited = false;
        let done = poll_fn(|cx| {
            while !bytes.is_empty() {
                let polled = match self {
                    Socket::Tcp(s) => Pin::new(s).poll_write(cx, bytes),
                    Socket::Unix(s) => Pin::new(s).poll_write(cx, bytes),
                };
                match polled {
                    Poll::Ready(Ok(n)) if n > 0 => bytes = &bytes[n..],
                    Poll::Ready(_) => return Poll::Ready(Err(Ended::Gone)),
                    Poll::Pending if process.killed() >= Kill::Connection => return Poll::Ready(Err(Ended::Killed)),
                    Poll::Pending => {
                        process.wait_in_command(State::SendingToClient, write_timeout_s);
                        waited = true;
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await;
        if waited {
            process.wait_in_command(State::Executing, 0);
        }
        done
    }

    /// Tells the client that no more comes, and reads away what it still sends, so that the last answer is not lost in a reset.
    pub async fn linger(&mut self, process: &Process, at_most: usize) {
        let _ = match self {
            Socket::Tcp(s) => s.shutdown().await,
            Socket::Unix(s) => s.shutdown().await,
        };
        let (mut buf, mut seen) = (Vec::with_capacity(64 << 10), 0);
        while seen < at_most {
            buf.clear();
            match self.read(&mut buf, process).await {
                Ok(Input::Bytes(n)) => seen += n,
                _ => return,
            }
        }
    }
}
