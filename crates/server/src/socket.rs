//! A client's socket. A command costs one system call to read it, and one, or a share of one
//! ([`crate::send_batch`]), to write its answer.
use crate::earlier_results::{EarlierResults, SetAside};
use crate::hang_up;
use crate::send_batch::{self, Post, Posted, SharedBatch};
pub use crate::stream::Stream;
use crate::stream::{Reader, Writer};
use redolith_sql::processes::{Kill, Process, State};
use std::future::poll_fn;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::Poll;

/// The buffer for reading away the input of a client that is told to leave. It is small because
/// many clients may be told so at once, and their input is dropped.
const READ_AWAY_BYTES: usize = 4 << 10;

pub struct Socket {
    reader: Reader,
    writer: Arc<Writer>,
    process: Arc<Process>,
    /// The state of this socket's answer in a batch.
    post: Arc<Post>,
    /// The batch into which the last answer was put.
    batch: Option<SharedBatch>,
    /// A write has failed, perhaps in the middle of a packet (OUT-5).
    broken: bool,
    /// Made by the first packet with several statements.
    earlier: Option<Arc<EarlierResults>>,
    /// How many of the next bytes that leave were counted already (EARLIER-4).
    counted: usize,
}
impl Drop for Socket {
    /// Sends the queued answer (OUT-2) and withdraws the look at the client (HANGUP-1) before the
    /// descriptor is closed.
    fn drop(&mut self) {
        self.hurry();
        hang_up::look_no_more(&self.process);
    }
}

/// The reason for the end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The client has closed it, or the network failed.
    Gone,
    /// KILL, a time-out or the server's shutdown.
    Killed,
}

/// The result of a wait for input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    Bytes(usize),
    /// Nothing has come for a while. The caller may free its buffers.
    TrimBuffers,
    /// A part of the last answer has not been sent. [`Socket::flush`] sends it.
    AnswerLeft,
}

impl Socket {
    pub fn new(stream: Stream, process: Arc<Process>) -> Socket {
        let post = Post::new(process.clone());
        let (reader, writer) = stream.split();
        hang_up::look_from(&process, reader.as_fd());
        let writer = Arc::new(writer);
        let (batch, broken, earlier, counted) = (None, false, None, 0);
        Socket { reader, writer, process, post, batch, broken, earlier, counted }
    }

    /// Appends what the client has sent to `buf`, waiting for at least one byte. A kill of the
    /// connection ends the wait.
    pub async fn read(&mut self, buf: &mut Vec<u8>) -> Result<Input, Ended> {
        poll_fn(|cx| {
            if self.process.killed() >= Kill::Connection {
                return Poll::Ready(Err(Ended::Killed));
            }
            if self.post.has_rest() {
                return Poll::Ready(Ok(Input::AnswerLeft));
            }
            match self.reader.poll_read(cx, buf) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(Ended::Gone)),
                Poll::Ready(Ok(n)) => Poll::Ready(Ok(Input::Bytes(n))),
                Poll::Ready(Err(_)) => Poll::Ready(Err(Ended::Gone)),
                Poll::Pending if self.process.take_trim_request() => {
                    Poll::Ready(Ok(Input::TrimBuffers))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Like [`Socket::read`], for a statement that waits for bytes of its client: every kill ends
    /// the wait.
    pub async fn read_in_statement(&mut self, buf: &mut Vec<u8>) -> Result<Input, Ended> {
        poll_fn(|cx| {
            if self.process.killed() != Kill::None {
                return Poll::Ready(Err(Ended::Killed));
            }
            match self.reader.poll_read(cx, buf) {
                Poll::Ready(Ok(n)) if n > 0 => Poll::Ready(Ok(Input::Bytes(n))),
                Poll::Ready(_) => Poll::Ready(Err(Ended::Gone)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Sends a whole answer, together with answers of other connections if batches are worth while.
    /// `answer` is empty afterwards.
    pub async fn send(&mut self, answer: &mut Vec<u8>, write_timeout_s: u32) -> Result<(), Ended> {
        self.flush(write_timeout_s).await?;
        if answer.len() <= send_batch::ANSWER_MAX {
            match send_batch::post(self.reader.as_fd(), std::mem::take(answer), &self.post) {
                Posted::Queued { spare, batch, first } => {
                    *answer = spare;
                    let turn = first.then(|| Turn(batch.clone()));
                    self.batch = Some(batch);
                    if let Some(turn) = turn {
                        tokio::task::yield_now().await;
                        drop(turn);
                    }
                    return Ok(());
                }
                Posted::Back(same) => *answer = same,
            }
        }
        self.write(answer, write_timeout_s, Kill::Connection).await?;
        answer.clear();
        Ok(())
    }
    /// Sends a part of an answer, after any answer in a batch.
    pub async fn write_all(&mut self, bytes: &[u8], write_timeout_s: u32) -> Result<(), Ended> {
        self.flush(write_timeout_s).await?;
        self.write(bytes, write_timeout_s, Kill::Connection).await?;
        Ok(())
    }
    /// Like [`Socket::write_all`], for a statement that has more to send: every kill ends the wait.
    /// Returns how many of the bytes the client has taken. If they are not all, the statement is
    /// killed, and the connection sends the others before anything else (OUT-5).
    pub async fn write_in_statement(
        &mut self,
        bytes: &[u8],
        write_timeout_s: u32,
    ) -> Result<usize, Ended> {
        if !self.send_rest(write_timeout_s, Kill::Timeout).await? {
            return Ok(0);
        }
        self.write(bytes, write_timeout_s, Kill::Timeout).await
    }
    /// OUT-1: sends the answer that is in a batch, and its rest. The whole answer has left when
    /// this returns.
    pub async fn flush(&mut self, write_timeout_s: u32) -> Result<(), Ended> {
        self.send_rest(write_timeout_s, Kill::Connection).await?;
        Ok(())
    }
    /// Returns false if a kill has ended the wait before the whole answer has left.
    async fn send_rest(&mut self, write_timeout_s: u32, ended_by: Kill) -> Result<bool, Ended> {
        self.hurry();
        if self.broken {
            return Err(Ended::Gone);
        }
        while self.post.has_rest() {
            let mut rest = self.post.take_rest();
            let sent = self.write(&rest, write_timeout_s, ended_by).await?;
            if sent < rest.len() {
                rest.drain(..sent);
                self.post.leave(rest);
                return Ok(false);
            }
        }
        Ok(true)
    }
    fn hurry(&self) {
        if self.post.is_queued()
            && let Some(batch) = &self.batch
        {
            batch.lock().send();
        }
    }

    /// Writes `bytes`, and returns how many the client has taken: all, unless a kill of the
    /// statement ends the wait, from `ended_by` on. `write_timeout_s` limits each time in which the
    /// client takes none of them. Afterwards the time limit that was in force before starts again
    /// in full.
    async fn write(
        &mut self,
        bytes: &[u8],
        write_timeout_s: u32,
        ended_by: Kill,
    ) -> Result<usize, Ended> {
        let (mut sent, mut before, mut stands) = (0, None, false);
        let done = poll_fn(|cx| {
            while sent < bytes.len() {
                match self.writer.poll_write(cx, &bytes[sent..]) {
                    Poll::Ready(Ok(n)) if n > 0 => (sent, stands) = (sent + n, false),
                    Poll::Ready(_) => return Poll::Ready(Err(Ended::Gone)),
                    Poll::Pending if self.process.killed() >= Kill::Connection => {
                        return Poll::Ready(Err(Ended::Killed));
                    }
                    Poll::Pending if self.process.killed() >= ended_by => break,
                    Poll::Pending => {
                        before.get_or_insert_with(|| self.process.waits());
                        // The timer starts once: waking the task for another reason gives the
                        // client no more time.
                        if !std::mem::replace(&mut stands, true) {
                            self.process.wait_in_command(State::SendingToClient, write_timeout_s);
                        }
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(Ok(sent))
        })
        .await;
        if let Some((state, limit_s)) = before {
            self.process.wait_in_command(state, limit_s);
        }
        self.broken |= done.is_err();
        done
    }

    /// Sets the results of a packet's earlier statements aside ([`crate::earlier_results`]), and
    /// returns how many bytes they have. `output` is empty afterwards.
    pub fn set_aside(&mut self, output: &mut Vec<u8>) -> (usize, SetAside) {
        let writer = &self.writer;
        let earlier = self.earlier.get_or_insert_with(|| EarlierResults::new(writer.clone()));
        let earlier = earlier.clone();
        // OUT-1: an answer to an earlier packet leaves first. The client has sent this packet
        // before it got the answer.
        self.hurry();
        if self.post.has_rest() {
            let mut rest = self.post.take_rest();
            self.counted += rest.len();
            earlier.add(&mut rest);
        }
        (earlier.add(output), SetAside(Some(earlier)))
    }
    /// Puts what was set aside, and has not left, before the bytes of `output` (EARLIER-2). Returns
    /// how many bytes have left.
    pub fn take_back(&mut self, output: &mut Vec<u8>) -> usize {
        let Some(earlier) = &self.earlier else { return 0 };
        let taken = earlier.take_back(output);
        self.broken |= taken.is_broken;
        taken.sent
    }
    /// How many of the next `bytes` that leave are to be counted (EARLIER-4).
    pub fn newly_sent(&mut self, bytes: usize) -> u64 {
        let known = self.counted.min(bytes);
        self.counted -= known;
        (bytes - known) as u64
    }
    /// The capacity of the buffer for results that are set aside.
    pub fn aside_capacity(&self) -> usize {
        self.earlier.as_ref().map_or(0, |earlier| earlier.capacity())
    }
    /// Frees that buffer, between commands.
    pub fn trim(&self) {
        if let Some(earlier) = &self.earlier {
            earlier.trim();
        }
    }

    /// Shuts the sending side down and reads away what the client still sends, up to `at_most`
    /// bytes, so that a reset does not destroy the last answer.
    pub async fn linger(&mut self, at_most: usize) {
        if self.flush(1).await.is_err() {
            return;
        }
        let _ = rustix::net::shutdown(self.reader.as_fd(), rustix::net::Shutdown::Write);
        let (mut buf, mut seen) = (Vec::with_capacity(READ_AWAY_BYTES), 0);
        while seen < at_most {
            buf.clear();
            match self.read(&mut buf).await {
                Ok(Input::Bytes(n)) => seen += n,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
impl Socket {
    /// Simulates that the kernel has not taken `rest` of the last answer.
    pub fn leave(&self, rest: Vec<u8>) {
        self.post.leave(rest);
    }
}

/// Held by the task that put the first answer into a batch. Dropping it sends the batch, even if
/// the task ends early (OUT-3).
struct Turn(SharedBatch);
impl Drop for Turn {
    fn drop(&mut self) {
        self.0.lock().send();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_sql::processes::{Command, Processes};
    use std::io::Read;

    /// A connection and its client.
    fn pair() -> (Arc<Processes>, Arc<Process>, Socket, std::os::unix::net::UnixStream) {
        let processes = Processes::new();
        let process = processes.add("h", 10);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stream = Stream::Unix(tokio::net::UnixStream::from_std(ours).unwrap());
        (processes, process.clone(), Socket::new(stream, process), theirs)
    }

    #[tokio::test]
    async fn a_wait_for_room_leaves_other_limits_as_they_were() {
        let (processes, process, mut socket, mut theirs) = pair();
        process.idle(7, false);
        let answer = vec![1; 4 << 20];
        let all = processes.clone();
        let reader = std::thread::spawn(move || {
            while all.rows()[0].state != "Sending to client" {
                std::thread::yield_now();
            }
            let mut got = vec![0; 4 << 20];
            theirs.read_exact(&mut got).unwrap();
            (got, theirs)
        });
        socket.write_all(&answer, 3).await.unwrap();
        assert!(reader.join().unwrap().0 == answer);
        assert_eq!((process.waits(), processes.rows()[0].command), ((State::None, 7), "Sleep"));
        processes.tick(7);
        assert_eq!(process.killed(), Kill::None);
        processes.tick(8);
        assert_eq!(process.killed(), Kill::Idle);
    }

    /// Tests OUT-1 and OUT-5: a killed statement no longer waits, and the client misses no byte.
    #[tokio::test]
    async fn a_killed_statement_leaves_its_bytes_to_the_connection() {
        const ANSWERS: [u8; 3] = [1, 2, 3];
        const LONG: usize = 4 << 20;
        for (kill, has_rest) in [(Kill::Query, false), (Kill::Timeout, true)] {
            let (processes, process, mut socket, mut theirs) = pair();
            crate::connection::be_woken_by(&process).await;
            let [before, part, rest] = ANSWERS.map(|n| vec![n; LONG]);
            if has_rest {
                socket.leave(before);
            }
            let kill = async {
                while processes.rows()[0].state != "Sending to client" {
                    tokio::task::yield_now().await;
                }
                process.kill(kill);
            };
            let (sent, ()) = tokio::join!(socket.write_in_statement(&part, 100), kill);
            let sent = sent.unwrap();
            assert_eq!(sent == 0, has_rest);
            assert!(sent < LONG && socket.post.has_rest() == has_rest);
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                theirs.read_to_end(&mut got).unwrap();
                got
            });
            socket.write_all(&part[sent..], 100).await.unwrap();
            socket.send(&mut rest.clone(), 100).await.unwrap();
            drop(socket);
            let sent = &ANSWERS[usize::from(!has_rest)..];
            let all: Vec<u8> = sent.iter().flat_map(|n| vec![*n; LONG]).collect();
            assert!(reader.join().unwrap() == all);
        }
    }

    /// Tests EARLIER-4: the rest of an answer was counted with the answer, whether it leaves while
    /// it is set aside or with what follows.
    #[tokio::test]
    async fn a_rest_that_is_set_aside_counts_once() {
        const LONG: usize = 4 << 20;
        let (_processes, _process, mut socket, mut theirs) = pair();
        // The runtime has to see that there is room.
        let room = poll_fn(|cx| match &*socket.writer {
            Writer::Unix(s) => s.as_ref().poll_write_ready(cx),
            Writer::Tcp(_) => unreachable!("a Unix socket"),
        });
        room.await.unwrap();
        socket.leave(vec![1; LONG]);
        let mut output = vec![2; 100];
        let (bytes, mut aside) = socket.set_aside(&mut output);
        assert_eq!(bytes, LONG + 100);
        let mut wait = true;
        poll_fn(|cx| {
            let waits = std::mem::take(&mut wait);
            let polled = redolith_sql::Aside::poll(&mut aside, cx, |_| match waits {
                true => Poll::Pending,
                false => Poll::Ready(()),
            });
            cx.waker().wake_by_ref();
            polled
        })
        .await;
        output.extend_from_slice(&[3; 10]);
        let sent = socket.take_back(&mut output);
        assert!(sent > 0 && sent < LONG);
        assert_eq!(socket.newly_sent(sent), 0);
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; LONG + 110];
            theirs.read_exact(&mut got).unwrap();
            got
        });
        assert_eq!(socket.newly_sent(output.len()), 110);
        socket.write_all(&output, 100).await.unwrap();
        assert!(reader.join().unwrap() == [vec![1; LONG], vec![2; 100], vec![3; 10]].concat());
        assert_eq!(socket.newly_sent(7), 7);
    }

    /// Tests OUT-5: what a client gets is a part of the answer, and nothing behind it.
    #[tokio::test]
    async fn nothing_follows_an_answer_that_was_cut() {
        let (processes, process, mut socket, mut theirs) = pair();
        crate::connection::be_woken_by(&process).await;
        let answer = vec![1; 4 << 20];
        let kill = async {
            while processes.rows()[0].state != "Sending to client" {
                tokio::task::yield_now().await;
            }
            process.kill(Kill::Shutdown);
        };
        let (ended, ()) = tokio::join!(socket.write_all(&answer, 100), kill);
        assert_eq!(ended, Err(Ended::Killed));
        // The client makes room.
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).unwrap();
            got
        });
        for _ in 0..100 {
            assert!(socket.flush(1).await.is_err() && socket.write_all(&[2], 1).await.is_err());
            assert!(socket.send(&mut vec![2], 1).await.is_err());
            std::thread::yield_now();
        }
        drop(socket);
        let got = reader.join().unwrap();
        assert!(got.len() < answer.len() && got.iter().all(|b| *b == 1));
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_ended_whatever_else_wakes_the_task() {
        let (processes, process, mut socket, _theirs) = pair();
        crate::connection::be_woken_by(&process).await;
        // The connection holds buffers, so the sweeper wakes it repeatedly.
        process.begin(Command::Ping, b"");
        process.idle(1000, true);
        let clock = async {
            for second in 1..=20 {
                processes.tick(second);
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            }
            // Without this kill, a write that does not end would make the test hang instead of
            // fail.
            assert_eq!(process.killed(), Kill::Connection);
            process.kill(Kill::Shutdown);
        };
        let answer = vec![1; 4 << 20];
        let (ended, ()) = tokio::join!(socket.write_all(&answer, 5), clock);
        assert_eq!(ended, Err(Ended::Killed));
    }
}
