//! Send batches: one system call sends all the answers that a worker has ready.
//!
//! A send wakes its client, which then often takes the core from the worker that has more answers
//! to make: with many connections that is a context switch per statement, on both sides. So each
//! worker thread has a batch. The session that puts the first answer into the batch steps back in
//! the run queue, so that the tasks that can run add their answers. Then it sends all of them with
//! one `io_uring_enter`. Where batches would have only one answer, each answer is sent at once.
//!
//! OUT-1: the answers of a connection leave in order: at most one answer of a connection is in a
//! batch, and the connection sends nothing before that answer has left.
//! OUT-2: the descriptor of a queued answer is open: a socket sends its queued answer before the
//! socket is closed.
//! OUT-3: no answer waits for a thread that sleeps, blocks or works for long: the engine calls the
//! runtime beforehand ([`send_held_back`]).
//! OUT-4: an answer that the kernel does not take whole goes back to its connection, which waits
//! until the client has room.
//! OUT-5: nothing follows an answer of which a part could not be written: the client would take it
//! for the rest of a packet.
mod ring;

use crate::earlier_results;
use parking_lot::Mutex;
use redolith_sql::processes::Process;
use ring::Ring;
use std::cell::OnceCell;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU8, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// A batch is sent when it has this many answers.
const BATCH_MAX: usize = 64;
/// A connection sends an answer longer than this by itself.
pub const ANSWER_MAX: usize = 16 << 10;
/// A worker keeps at most this many spare buffers, of at most `SPARE_BYTES` each.
const SPARE_MAX: usize = 64;
const SPARE_BYTES: usize = 4 << 10;
/// While answers are sent singly, one send in so many is batched, to see whether others join it.
const TRY_EVERY: u32 = 32;

/// The state of a connection's queued answer.
#[derive(Debug)]
pub struct Post {
    state: AtomicU8,
    /// The part of the answer that the kernel did not take.
    rest: Mutex<Vec<u8>>,
    process: Arc<Process>,
}
const GONE: u8 = 0;
const QUEUED: u8 = 1;
const LEFT: u8 = 2;

impl Post {
    pub fn new(process: Arc<Process>) -> Arc<Post> {
        Arc::new(Post { state: AtomicU8::new(GONE), rest: Mutex::default(), process })
    }
    pub fn is_queued(&self) -> bool {
        self.state.load(Acquire) == QUEUED
    }
    /// Whether [`Post::take_rest`] has a rest to take.
    pub fn has_rest(&self) -> bool {
        self.state.load(Acquire) == LEFT
    }
    /// Hands the unsent rest of an answer back to its connection (OUT-4).
    pub fn leave(&self, rest: Vec<u8>) {
        *self.rest.lock() = rest;
        self.state.store(LEFT, Release);
        self.process.wake();
    }
    pub fn take_rest(&self) -> Vec<u8> {
        let rest = std::mem::take(&mut *self.rest.lock());
        let _ = self.state.compare_exchange(LEFT, GONE, AcqRel, Relaxed);
        rest
    }
}

struct Entry {
    socket: RawFd,
    answer: Vec<u8>,
    post: Arc<Post>,
}

/// The send batch of one worker.
pub struct SendBatch {
    ring: Ring,
    queue: Vec<Entry>,
    spare: Vec<Vec<u8>>,
    sent: Vec<i32>,
    /// Sixteen times the moving average of the batch size.
    recent: u32,
    sends: u32,
}
pub type SharedBatch = Arc<Mutex<SendBatch>>;

thread_local!(static HERE: OnceCell<Option<SharedBatch>> = const { OnceCell::new() });
/// Set when the system has refused a ring. Then no thread tries again.
static REFUSED: AtomicBool = AtomicBool::new(false);

pub(crate) fn here() -> Option<SharedBatch> {
    HERE.try_with(|batch| batch.get_or_init(SendBatch::new).clone()).ok().flatten()
}

/// Sends the answers that this thread holds back. The engine calls it before it blocks, and now and
/// then in long work.
pub fn send_held_back() {
    let _ = HERE.try_with(|batch| {
        if let Some(Some(batch)) = batch.get() {
            batch.lock().send();
        }
    });
    earlier_results::send_here();
}

/// The result of [`post`].
pub enum Posted {
    /// The answer will leave soon. `spare` is another buffer for the caller.
    Queued { spare: Vec<u8>, batch: SharedBatch, first: bool },
    /// The caller sends the answer itself.
    Back(Vec<u8>),
}

/// Queues an answer, if batching is worth while. If the answer is the first in the batch, the
/// caller lets other tasks run and then calls [`SendBatch::send`].
pub fn post(socket: BorrowedFd<'_>, answer: Vec<u8>, post: &Arc<Post>) -> Posted {
    debug_assert!(!post.is_queued(), "OUT-1");
    let Some(shared) = here() else { return Posted::Back(answer) };
    let mut batch = shared.lock();
    batch.sends = batch.sends.wrapping_add(1);
    if batch.recent < 40 && !batch.sends.is_multiple_of(TRY_EVERY) && batch.queue.is_empty() {
        return Posted::Back(answer);
    }
    post.state.store(QUEUED, Release);
    batch.queue.push(Entry { socket: socket.as_raw_fd(), answer, post: post.clone() });
    let first = batch.queue.len() == 1;
    if batch.queue.len() == BATCH_MAX {
        batch.send();
    }
    let spare = batch.spare.pop().unwrap_or_default();
    drop(batch);
    Posted::Queued { spare, batch: shared, first }
}

impl SendBatch {
    fn new() -> Option<SharedBatch> {
        if REFUSED.load(Relaxed) {
            return None;
        }
        match Ring::new(BATCH_MAX as u32) {
            Ok(ring) => {
                let (queue, sent) = (Vec::with_capacity(BATCH_MAX), Vec::with_capacity(BATCH_MAX));
                Some(Arc::new(Mutex::new(SendBatch {
                    ring,
                    queue,
                    spare: Vec::new(),
                    sent,
                    recent: 16,
                    sends: 0,
                })))
            }
            Err(_) => {
                REFUSED.store(true, Relaxed);
                None
            }
        }
    }

    /// Sends all queued answers.
    pub fn send(&mut self) {
        let count = self.queue.len();
        if count == 0 {
            return;
        }
        self.recent = self.recent - self.recent / 8 + 2 * count as u32;
        self.sent.clear();
        self.ring.send(self.queue.iter().map(|e| (e.socket, &e.answer[..])), &mut self.sent);
        for (Entry { mut answer, post, .. }, sent) in self.queue.drain(..).zip(&self.sent) {
            // After an error the whole answer goes back to the connection, which meets the error
            // again when it sends.
            let sent = usize::try_from(*sent).unwrap_or(0);
            if sent < answer.len() {
                answer.drain(..sent);
                post.leave(answer);
                continue;
            }
            post.state.store(GONE, Release);
            if self.spare.len() < SPARE_MAX && answer.capacity() <= SPARE_BYTES {
                answer.clear();
                self.spare.push(answer);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use redolith_sql::processes::Processes;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    pub(crate) fn queue(socket: &UnixStream, answer: &[u8], p: &Arc<Post>) -> SharedBatch {
        let shared = here().expect("io_uring");
        shared.lock().recent = 100;
        match post(socket.as_fd(), answer.to_vec(), p) {
            Posted::Queued { batch, .. } => batch,
            Posted::Back(_) => panic!("batches pay"),
        }
    }

    /// Tests SENDRING-1.
    #[test]
    fn a_batch_reaches_everyone() {
        if here().is_none() {
            return; // no io_uring here: answers are sent by their connections
        }
        let processes = Processes::new();
        let pairs: Vec<_> = (0..10).map(|_| UnixStream::pair().unwrap()).collect();
        let posts: Vec<_> = (0..10).map(|_| Post::new(processes.add("h", 1))).collect();
        for (i, (pair, p)) in pairs.iter().zip(&posts).enumerate() {
            let batch = queue(&pair.0, format!("answer {i}").as_bytes(), p);
            assert_eq!(batch.lock().queue.len(), i + 1);
            assert!(p.is_queued());
        }
        send_held_back();
        for (i, (mut pair, p)) in pairs.into_iter().zip(&posts).enumerate() {
            assert!(!p.is_queued() && !p.has_rest());
            drop(pair.0);
            let mut got = String::new();
            pair.1.read_to_string(&mut got).unwrap();
            assert_eq!(got, format!("answer {i}"));
        }
    }

    /// Tests OUT-4.
    #[test]
    fn a_full_socket_gives_the_rest_back() {
        if here().is_none() {
            return;
        }
        let (a, mut b) = UnixStream::pair().unwrap();
        let p = Post::new(Processes::new().add("h", 1));
        a.set_nonblocking(true).unwrap();
        let answer = vec![7; ANSWER_MAX];
        let mut queued = 0;
        while !p.has_rest() {
            queue(&a, &answer, &p).lock().send();
            queued += answer.len();
            assert!(queued < 64 << 20);
        }
        let rest = p.take_rest();
        assert!(!p.has_rest() && !rest.is_empty());
        drop(a);
        let mut got = Vec::new();
        b.read_to_end(&mut got).unwrap();
        assert_eq!(got.len() + rest.len(), queued);
    }

    #[test]
    fn single_answers_are_sent_at_once() {
        let Some(batch) = here() else { return };
        batch.lock().recent = 16;
        let (a, _b) = UnixStream::pair().unwrap();
        let p = Post::new(Processes::new().add("h", 1));
        let mut tried = 0;
        for _ in 0..TRY_EVERY {
            if let Posted::Queued { batch, first, .. } = post(a.as_fd(), b"x".to_vec(), &p) {
                assert!(first);
                batch.lock().send();
                tried += 1;
            }
        }
        assert_eq!(tried, 1);
    }
}
