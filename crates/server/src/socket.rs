//! A client's socket: one system call to read a command, one to write its answer, or a share of one ([`crate::outbox`]).
use crate::outbox::{self, Post, Posted, SharedOutbox};
use redolith_sql::processes::{Kill, Process, State};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}
impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

pub struct Socket {
    stream: Stream,
    process: Arc<Process>,
    /// Of the answer in an outbox.
    post: Arc<Post>,
    /// Where the last one was put.
    outbox: Option<SharedOutbox>,
}
impl Drop for Socket {
    /// OUT-2
    fn drop(&mut self) {
        self.hurry();
    }
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
    /// The last answer has not left whole: [`Socket::settle`] sends the rest.
    AnswerLeft,
}

impl Socket {
    pub fn new(stream: Stream, process: Arc<Process>) -> Socket {
        let post = Post::new(process.clone());
        Socket { stream, process, post, outbox: None }
    }

    /// Appends what the client has sent to `buf`, waiting for at least one byte. A kill of the connection ends the wait.
    pub async fn read(&mut self, buf: &mut Vec<u8>) -> Result<Input, Ended> {
        poll_fn(|cx| {
            if self.process.killed() >= Kill::Connection {
                return Poll::Ready(Err(Ended::Killed));
            }
            if self.post.has_rest() {
                return Poll::Ready(Ok(Input::AnswerLeft));
            }
            match self.poll_read(cx, buf) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(Ended::Gone)),
                Poll::Ready(Ok(n)) => Poll::Ready(Ok(Input::Bytes(n))),
                Poll::Ready(Err(_)) => Poll::Ready(Err(Ended::Gone)),
                Poll::Pending if self.process.take_trim_request() => Poll::Ready(Ok(Input::TrimBuffers)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(s) => pin!(s.read_buf(buf)).poll(cx),
            Stream::Unix(s) => pin!(s.read_buf(buf)).poll(cx),
        }
    }

    /// Sends a whole answer, together with those of other connections where that pays. `answer` is empty afterwards.
    pub async fn send(&mut self, answer: &mut Vec<u8>, write_timeout_s: u32) -> Result<(), Ended> {
        self.settle(write_timeout_s).await?;
        if answer.len() <= outbox::ANSWER_MAX {
            match outbox::post(self.stream.as_fd(), std::mem::take(answer), &self.post) {
                Posted::Queued { spare, outbox, first } => {
                    *answer = spare;
                    let turn = first.then(|| Turn(outbox.clone()));
                    self.outbox = Some(outbox);
                    if let Some(turn) = turn {
                        tokio::task::yield_now().await;
                        drop(turn);
                    }
                    return Ok(());
                }
                Posted::Back(same) => *answer = same,
            }
        }
        self.write(answer, write_timeout_s).await?;
        answer.clear();
        Ok(())
    }
    /// A part of an answer: in its place behind what is in an outbox.
    pub async fn write_all(&mut self, bytes: &[u8], write_timeout_s: u32) -> Result<(), Ended> {
        self.settle(write_timeout_s).await?;
        self.write(bytes, write_timeout_s).await
    }
    /// OUT-1: what was put in an outbox has left when this returns.
    pub async fn settle(&mut self, write_timeout_s: u32) -> Result<(), Ended> {
        self.hurry();
        while self.post.has_rest() {
            let rest = self.post.take_rest();
            self.write(&rest, write_timeout_s).await?;
        }
        Ok(())
    }
    fn hurry(&self) {
        if self.post.is_queued()
            && let Some(outbox) = &self.outbox
        {
            outbox.lock().send();
        }
    }

    /// Writes all of `bytes`. While the client does not take them, `write_timeout_s` runs.
    async fn write(&mut self, mut bytes: &[u8], write_timeout_s: u32) -> Result<(), Ended> {
        let mut waited = false;
        let done = poll_fn(|cx| {
            while !bytes.is_empty() {
                let polled = match &mut self.stream {
                    Stream::Tcp(s) => Pin::new(s).poll_write(cx, bytes),
                    Stream::Unix(s) => Pin::new(s).poll_write(cx, bytes),
                };
                match polled {
                    Poll::Ready(Ok(n)) if n > 0 => bytes = &bytes[n..],
                    Poll::Ready(_) => return Poll::Ready(Err(Ended::Gone)),
                    Poll::Pending if self.process.killed() >= Kill::Connection => return Poll::Ready(Err(Ended::Killed)),
                    Poll::Pending => {
                        self.process.wait_in_command(State::SendingToClient, write_timeout_s);
                        waited = true;
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await;
        if waited {
            self.process.wait_in_command(State::Executing, 0);
        }
        done
    }

    /// Tells the client that no more comes, and reads away what it still sends, so that the last answer is not lost in a reset.
    pub async fn linger(&mut self, at_most: usize) {
        if self.settle(1).await.is_err() {
            return;
        }
        let _ = rustix::net::shutdown(self.stream.as_fd(), rustix::net::Shutdown::Write);
        let (mut buf, mut seen) = (Vec::with_capacity(64 << 10), 0);
        while seen < at_most {
            buf.clear();
            match self.read(&mut buf).await {
                Ok(Input::Bytes(n)) => seen += n,
                _ => return,
            }
        }
    }
}

/// The duty of whoever put the first answer into an outbox; done also when its task ends early (OUT-3).
struct Turn(SharedOutbox);
impl Drop for Turn {
    fn drop(&mut self) {
        self.0.lock().send();
    }
}
