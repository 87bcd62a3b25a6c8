//! Waiting for room after `WouldBlock::LogSpace`. A session that waits sets the making of room in
//! motion: it leads a flush if the buffer is full, notifies the segment allocator if segments are
//! short, and notifies the checkpointer if the checkpoint is behind.
use crate::base::Result;
use crate::log::Log;
use crate::log::append::credit::{Class, Scarce};
use crate::log::commit::leader::{Counted, Waiter};
use crate::log::commit::lsn_waiters::Goal;
use crate::log::counters::Session;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`Log::wait_space`].
pub struct SpaceWait<'l> {
    log: &'l Log,
    /// The bytes that were asked for.
    bytes: u64,
    class: Class,
    /// The bound that was in short supply when the wait began.
    short: Scarce,
    id: Option<u64>,
    /// How often making a segment had failed when the wait began.
    failures: u64,
    flush: Option<Waiter>,
}

impl<'l> SpaceWait<'l> {
    pub(in crate::log) fn new(log: &'l Log, bytes: u64, class: Class) -> SpaceWait<'l> {
        SpaceWait {
            log,
            bytes,
            class,
            short: log.room.scarce(class),
            id: None,
            failures: log.room.failure().0,
            flush: None,
        }
    }
    /// A flush of all frames that are not written yet, if there are any.
    fn to_flush(&self) -> Option<Waiter> {
        let tail = self.log.order.tail();
        let goal = Goal { lsn: tail, durable: true };
        (tail > self.log.waits.written()).then(|| Waiter::new(goal))
    }
    fn ask(&self, scarce: Scarce) {
        match scarce {
            Scarce::Buffer => {}
            Scarce::Files => self.log.allocator.notify(),
            Scarce::Capacity => self.log.pressure.notify(),
        }
    }
    fn count_first(&self, scarce: Scarce) {
        self.log.counters.session(Session::log_waits);
        self.count(scarce, Session::log_on_buffer_space_waits, Session::log_on_file_space_waits);
        self.ask(scarce);
    }
    fn count(&self, scarce: Scarce, buffer: Session, file: Session) {
        self.log.counters.session(if scarce == Scarce::Buffer { buffer } else { file });
    }
}

impl Future for SpaceWait<'_> {
    type Output = Result<()>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        let space = &this.log.room;
        loop {
            let first = this.id.is_none();
            space.register(&mut this.id, this.bytes, this.class, cx.waker());
            // A request for which there can never be room any more, because the buffer or the
            // capacity has become smaller, goes back to its session, which gets an error for it.
            if space.has_room(this.bytes, this.class) || this.bytes > space.credit_max() {
                if first {
                    this.count(
                        this.short,
                        Session::log_on_buffer_space_no_waits,
                        Session::log_on_file_space_no_waits,
                    );
                }
                return Poll::Ready(Ok(()));
            }
            let scarce = space.scarce(this.class);
            if let (n, Some(e)) = space.failure()
                && n > this.failures
                && scarce == Scarce::Files
            {
                return Poll::Ready(Err(e));
            }
            if first {
                this.count_first(scarce);
            }
            this.count(
                scarce,
                Session::log_on_buffer_space_wait_loops,
                Session::log_on_file_space_wait_loops,
            );
            if scarce != Scarce::Buffer {
                // If this session has the leadership, it passes it on to a session that can use it:
                // the checkpoint may need a flush to move.
                if let Some(mut flush) = this.flush.take() {
                    flush.leave(this.log);
                }
                // The scarce bound may have changed since the last notification.
                if !first {
                    this.ask(scarce);
                }
                return Poll::Pending;
            }
            if this.flush.is_none() {
                this.flush = this.to_flush().or_else(|| {
                    space.await_append();
                    this.to_flush()
                });
            }
            // The room is promised to others, and the next frame of these is flushed.
            let Some(flush) = &mut this.flush else { return Poll::Pending };
            if flush.poll(&Counted { log: this.log, counted: false }, cx).is_pending() {
                return Poll::Pending;
            }
            this.flush = None;
        }
    }
}
impl Drop for SpaceWait<'_> {
    fn drop(&mut self) {
        self.log.room.leave(self.id, self.class);
        if let Some(f) = &mut self.flush {
            f.leave(self.log);
        }
    }
}
