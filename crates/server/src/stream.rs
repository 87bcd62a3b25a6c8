//! The two halves of a client's connection. They are apart because results leave also while the
//! statement that runs has the socket to itself ([`crate::earlier_results`]).
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream, tcp, unix};

pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}
impl Stream {
    pub fn split(self) -> (Reader, Writer) {
        match self {
            Stream::Tcp(s) => {
                let (reader, writer) = s.into_split();
                (Reader::Tcp(reader), Writer::Tcp(writer))
            }
            Stream::Unix(s) => {
                let (reader, writer) = s.into_split();
                (Reader::Unix(reader), Writer::Unix(writer))
            }
        }
    }
}

pub enum Reader {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
}
impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Reader::Tcp(s) => s.as_ref().as_fd(),
            Reader::Unix(s) => s.as_ref().as_fd(),
        }
    }
}
impl Reader {
    /// Appends what has come to `buf`.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Reader::Tcp(s) => pin!(s.read_buf(buf)).poll(cx),
            Reader::Unix(s) => pin!(s.read_buf(buf)).poll(cx),
        }
    }
}

/// Writes through a shared reference. Only one task of the connection waits for room.
pub enum Writer {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
}
impl Writer {
    /// Writes what the kernel takes at once.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Writer::Tcp(s) => s.try_write(bytes),
            Writer::Unix(s) => s.try_write(bytes),
        }
    }
    /// Like [`Writer::try_write`]. The task is woken when there is room.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            // Also where there is room, this takes a share of the task's turn, at whose end the
            // task waits although the client takes all that it gets.
            ready!(match self {
                Writer::Tcp(s) => s.as_ref().poll_write_ready(cx),
                Writer::Unix(s) => s.as_ref().poll_write_ready(cx),
            })?;
            match self.try_write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}
