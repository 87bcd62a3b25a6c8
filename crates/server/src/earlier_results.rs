//! The results of a packet's earlier statements, while a later statement of the packet runs.
//!
//! Statements that do not wait are answered together, with one write. If a statement waits, also
//! for its commit to become durable, the results before it leave meanwhile: their client may wait
//! for them for a limited time, or need them to end the wait. The statement has the connection's
//! output buffer, so these results are set aside.
//!
//! EARLIER-1: what is set aside leaves when the statement's task waits, when its thread blocks, and
//! when it works for long. Only the part that the client does not take stays.
//! EARLIER-2: the client gets all bytes in their order: whoever sends the output buffer first takes
//! back, to its front, what has not left.
//! EARLIER-3: nobody waits for a client that does not take earlier results: the statement goes on,
//! and a kill ends it. What is set aside counts like the output buffer for the limit above which
//! the connection waits for the client (CONN-2), and in the account of memory (CONN-4).
//! EARLIER-4: a byte counts once in `Bytes_sent`. The rest of an answer to an earlier packet was
//! counted when the answer was given to the socket, and so counts no more when it is set aside.
use crate::stream::Writer;
use parking_lot::Mutex;
use redolith_sql::Aside;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

thread_local! {
    /// The results before the statement that this thread runs.
    static HERE: RefCell<Option<Arc<EarlierResults>>> = const { RefCell::new(None) };
}

/// Sends the results before the statement that the calling thread runs, as far as the client takes
/// them. To be called before the thread blocks, and now and then in long work (EARLIER-1).
pub fn send_here() {
    let _ = HERE.try_with(|here| {
        if let Some(results) = &*here.borrow() {
            results.send();
        }
    });
}

/// A connection's results that are set aside. The value is kept for the buffer's memory.
pub struct EarlierResults {
    writer: Arc<Writer>,
    kept: Mutex<Kept>,
}
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// How many of `bytes` have left.
    sent: usize,
    /// A write has failed. Nothing more can be sent (OUT-5).
    broken: bool,
}
impl Kept {
    /// Writes until `write` takes no more.
    fn send(&mut self, mut write: impl FnMut(&[u8]) -> Poll<io::Result<usize>>) {
        while self.sent < self.bytes.len() && !self.broken {
            match write(&self.bytes[self.sent..]) {
                Poll::Ready(Ok(n)) if n > 0 => self.sent += n,
                Poll::Ready(_) => self.broken = true,
                Poll::Pending => return,
            }
        }
    }
}

/// What [`EarlierResults::take_back`] has found.
pub struct TakenBack {
    /// How many bytes have left.
    pub sent: usize,
    pub is_broken: bool,
}

impl EarlierResults {
    pub fn new(writer: Arc<Writer>) -> Arc<EarlierResults> {
        Arc::new(EarlierResults { writer, kept: Mutex::default() })
    }
    /// Sets `output` aside, behind what is here. `output` is empty afterwards. Returns how many
    /// bytes there are.
    pub fn add(&self, output: &mut Vec<u8>) -> usize {
        let mut kept = self.kept.lock();
        if kept.bytes.is_empty() {
            std::mem::swap(&mut kept.bytes, output);
        } else {
            kept.bytes.append(output);
        }
        kept.bytes.len()
    }
    /// EARLIER-2: puts what has not left before the bytes of `output`.
    pub fn take_back(&self, output: &mut Vec<u8>) -> TakenBack {
        let mut kept = self.kept.lock();
        let sent = std::mem::take(&mut kept.sent);
        if sent < kept.bytes.len() {
            kept.bytes.drain(..sent);
            kept.bytes.append(output);
            std::mem::swap(&mut kept.bytes, output);
        }
        kept.bytes.clear();
        TakenBack { sent, is_broken: kept.broken }
    }
    pub fn capacity(&self) -> usize {
        self.kept.lock().bytes.capacity()
    }
    /// Frees the buffer, which is empty between commands.
    pub fn trim(&self) {
        let mut kept = self.kept.lock();
        debug_assert!(kept.bytes.is_empty(), "EARLIER-2");
        kept.bytes = Vec::new();
    }

    fn send(&self) {
        self.kept.lock().send(|bytes| match self.writer.try_write(bytes) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            done => Poll::Ready(done),
        });
    }
    /// Like [`EarlierResults::send`]. The task is woken when the client takes more.
    fn poll_send(&self, cx: &mut Context<'_>) {
        self.kept.lock().send(|bytes| self.writer.poll_write(cx, bytes));
    }
}

/// Sends the results that are set aside while the next statement runs.
pub struct SetAside(pub Option<Arc<EarlierResults>>);

impl Aside for SetAside {
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        statement: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        HERE.set(self.0.take());
        let polled = statement(cx);
        self.0 = HERE.take();
        if polled.is_pending()
            && let Some(results) = &self.0
        {
            results.poll_send(cx);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::task::Waker;

    /// More than a socket holds.
    const LONG: usize = 4 << 20;

    fn results() -> (Arc<EarlierResults>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (_, writer) = Stream::Unix(tokio::net::UnixStream::from_std(ours).unwrap()).split();
        (EarlierResults::new(Arc::new(writer)), theirs)
    }
    fn read(theirs: &mut UnixStream, bytes: usize) -> Vec<u8> {
        let mut got = vec![0; bytes];
        theirs.read_exact(&mut got).unwrap();
        got
    }

    /// Tests EARLIER-1 and SINK-4: results leave when their statement waits, and as the client
    /// takes them. Results before a statement that does not wait stay.
    #[tokio::test]
    async fn results_leave_while_a_statement_waits_and_not_before() {
        let (results, mut theirs) = results();
        let mut set_aside = SetAside(Some(results.clone()));
        let mut cx = Context::from_waker(Waker::noop());
        results.add(&mut b"quick".to_vec());
        assert!(set_aside.poll(&mut cx, |_| Poll::Ready(())).is_ready());
        assert_eq!(results.kept.lock().sent, 0);
        results.add(&mut vec![b'x'; LONG]);
        let reader = std::thread::spawn(move || read(&mut theirs, 5 + LONG));
        std::future::poll_fn(|cx| {
            let polled = set_aside.poll(cx, |_| Poll::Pending);
            if results.kept.lock().sent == 5 + LONG { Poll::Ready(()) } else { polled }
        })
        .await;
        let got = reader.join().unwrap();
        assert!(got.starts_with(b"quickx") && got.ends_with(b"x"));
        let mut output = b"next".to_vec();
        let taken = results.take_back(&mut output);
        assert_eq!((taken.sent, taken.is_broken, &output[..]), (5 + LONG, false, &b"next"[..]));
    }

    /// Tests EARLIER-1: a thread sends the results of the statement that it runs, and no others.
    #[tokio::test]
    async fn results_leave_before_a_thread_blocks() {
        let (results, mut theirs) = results();
        // The runtime has to see that there is room.
        std::future::poll_fn(|cx| match &*results.writer {
            Writer::Unix(s) => s.as_ref().poll_write_ready(cx),
            Writer::Tcp(_) => unreachable!(),
        })
        .await
        .unwrap();
        results.add(&mut b"earlier".to_vec());
        send_here();
        assert_eq!(results.kept.lock().sent, 0);
        let mut cx = Context::from_waker(Waker::noop());
        let polled = SetAside(Some(results.clone())).poll(&mut cx, |_| {
            crate::send_batch::send_held_back();
            Poll::Ready(read(&mut theirs, 7))
        });
        assert_eq!(polled, Poll::Ready(b"earlier".to_vec()));
        assert!(HERE.take().is_none());
    }

    /// Tests EARLIER-2 and EARLIER-3: a client that does not read stops no statement, and gets all
    /// bytes in their order.
    #[tokio::test]
    async fn what_the_client_has_not_taken_stays_in_order() {
        let (results, mut theirs) = results();
        let mut set_aside = SetAside(Some(results.clone()));
        results.add(&mut vec![1; LONG]);
        let mut polls = 0;
        std::future::poll_fn(|cx| {
            set_aside.poll(cx, |cx| {
                polls += 1;
                if polls == 100 {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
        })
        .await;
        assert_eq!(results.add(&mut vec![2; 10]), LONG + 10);
        let mut output = vec![3; 10];
        let taken = results.take_back(&mut output);
        assert!(taken.sent < LONG && !taken.is_broken, "{}", taken.sent);
        let mut all = read(&mut theirs, taken.sent);
        all.append(&mut output);
        assert!(all == [vec![1; LONG], vec![2; 10], vec![3; 10]].concat());
        assert!(output.is_empty() && results.capacity() > 0);
        results.trim();
        assert_eq!(results.capacity(), 0);
    }

    /// Tests OUT-5: nothing follows results that could not be sent.
    #[tokio::test]
    async fn a_client_that_is_gone_breaks_the_socket() {
        let (results, theirs) = results();
        drop(theirs);
        results.add(&mut b"lost".to_vec());
        let mut cx = Context::from_waker(Waker::noop());
        let mut set_aside = SetAside(Some(results.clone()));
        while !results.kept.lock().broken {
            assert!(set_aside.poll(&mut cx, |_| Poll::<()>::Pending).is_pending());
            tokio::task::yield_now().await;
        }
        assert!(results.take_back(&mut Vec::new()).is_broken);
    }
}
