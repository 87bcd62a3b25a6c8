//! The modes `leader` and `session`, in the shape of a future: a session that waits for its commit
//! either leads, which means that it writes and flushes for all, or another session leads for it.
//!
//! A session that finds the leadership free takes it. A session that commits alone writes at once,
//! and so does every session in the mode `session`. A leader in company steps back in the run
//! queue, so that every session that can run has its turn and may join, for as long as the group
//! grows. If the policy holds flushes back, the leader waits for that too
//! ([`crate::log::write_policy`]). Then the leader writes and flushes in its own thread, wakes the
//! group, and passes the leadership to one of the sessions that came too late, or gives the
//! leadership up. (These are RocksDB's write groups, with the run queue in the place of its
//! spinning.)
//!
//! A lone leader still waits for company in one commit of eight. With one worker thread no other
//! session can join while the leader writes, so a leader that never waited would never see company.
//!
//! In the mode `dedicated` ([`crate::log::commit::dedicated`]) no session leads for long: the
//! leadership goes to the writer thread at the next hand-over.
//!
//! With several writes in flight ([`crate::log::write::overlapped_writes`]) the leader submits its
//! write and passes the leadership on before the write is over.
//!
//! - LEAD-1: only the leader flushes.
//! - LEAD-2: a leader flushes until its own goal is reached or covered, and then passes the
//!   leadership on. A leader that is dropped before passes the leadership on too.
use crate::base::Lsn;
use crate::log::Log;
use crate::log::commit::lsn_waiters::{Goal, Node, Waits, recycle};
use crate::runtime::BoxFuture;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The most rounds in which a leader lets others go first.
const ROUNDS_MAX: u32 = 8;
/// How often a leader looks again at an unfinished copy of another thread, before it lets other
/// tasks run.
pub(in crate::log) const COPY_SPINS: u32 = 64;

/// The parts of the log that a waiter needs. The model tests have implementations of their own.
pub(in crate::log) trait CommitQueue {
    fn waits(&self) -> &Waits;
    /// The LSN up to which the stream is copied into the buffer.
    fn ready(&self) -> u64;
    /// Writes all ready bytes, and makes them durable if `durable`. Advances `waits` and wakes the
    /// waiters whose goal is reached, or submits a write whose end does so.
    fn flush(&self, durable: bool) -> Flushed;
    fn yield_now(&self) -> BoxFuture<()>;
    /// The time for which the flush is to be held back, if any
    /// (`policy/flush_pacing.rs`).
    fn hold(&self) -> Option<BoxFuture<()>>;
    /// Whether a leader lets others join before it writes (mode `leader`) or writes at once
    /// (`session`).
    fn gathers(&self) -> bool;
    fn count(&self, goal: &Goal, event: Event);
}
/// An event that is counted for a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Event {
    NoWait,
    Wait,
    /// The waiter looked again and still had to wait.
    Loop,
    /// The leader found its own frame behind another thread's unfinished copy.
    CopyLoop,
}

/// The outcome of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Flushed {
    /// The flush is over.
    Here,
    /// The write is in flight, or waits for a write in flight. The caller no longer has the
    /// leadership (FLIGHT-1).
    Away,
    /// There was nothing that could be written.
    Nothing,
}

#[derive(Default)]
struct Lead {
    resting: Option<BoxFuture<()>>,
    rounds: u32,
    joined: u64,
    /// Whether the flush has been held back already, or need not be.
    held: bool,
    /// The leadership, as it was left when the leader let others go first (WAIT-6).
    rested: Option<u64>,
}
enum State {
    New,
    Queued(Arc<Node>),
    Leading(Lead),
    Done,
}

/// A wait for one goal. The owner calls `leave` when it is dropped.
pub(in crate::log) struct Waiter {
    goal: Goal,
    state: State,
}

impl Waiter {
    pub(crate) fn new(goal: Goal) -> Waiter {
        Waiter { goal, state: State::New }
    }
    pub(crate) fn poll(&mut self, queue: &impl CommitQueue, cx: &mut Context<'_>) -> Poll<()> {
        let waits = queue.waits();
        loop {
            match &mut self.state {
                State::New if waits.reached(&self.goal) => {
                    queue.count(&self.goal, Event::NoWait);
                    return self.done();
                }
                State::New => {
                    queue.count(&self.goal, Event::Wait);
                    self.state = if !waits.covered(&self.goal) && waits.try_lead() {
                        State::Leading(Lead::begin(queue))
                    } else {
                        State::Queued(waits.enlist(self.goal, cx.waker()))
                    };
                }
                State::Queued(node) => {
                    node.set_waker(cx.waker());
                    if waits.reached(&self.goal) {
                        if waits.leave(node) {
                            pass_on(waits);
                        }
                        return self.done();
                    }
                    let handed = node.leads();
                    if !handed && (waits.covered(&self.goal) || !waits.try_lead()) {
                        queue.count(&self.goal, Event::Loop);
                        return Poll::Pending;
                    }
                    let leads = waits.leave(node) || !handed;
                    self.state = if leads {
                        State::Leading(Lead::begin(queue))
                    } else {
                        State::Queued(waits.enlist(self.goal, cx.waker()))
                    };
                }
                State::Leading(lead) => {
                    if let Some(rested) = lead.rested.take()
                        && !waits.leadership().resume(rested)
                    {
                        self.state = State::Queued(waits.enlist(self.goal, cx.waker()));
                        continue;
                    }
                    if lead.gather_group(queue, cx).is_pending() {
                        lead.rested = Some(waits.leadership().rest());
                        return Poll::Pending;
                    }
                    for _ in 0..COPY_SPINS {
                        if queue.ready() >= self.goal.lsn {
                            break;
                        }
                        std::hint::spin_loop();
                    }
                    let flushed = queue.flush(self.goal.durable);
                    // The goal was covered before this session led, so the session only has to
                    // wait.
                    let idle = flushed == Flushed::Nothing && waits.covered(&self.goal);
                    if idle {
                        pass_on(waits);
                    }
                    if idle || flushed == Flushed::Away {
                        self.state = State::Queued(waits.enlist(self.goal, cx.waker()));
                        continue;
                    }
                    if waits.reached(&self.goal) {
                        pass_on(waits);
                        return self.done();
                    }
                    queue.count(&self.goal, Event::CopyLoop);
                    lead.resting = Some(queue.yield_now());
                }
                State::Done => return Poll::Ready(()),
            }
        }
    }
    fn done(&mut self) -> Poll<()> {
        if let State::Queued(node) = std::mem::replace(&mut self.state, State::Done) {
            recycle(node);
        }
        Poll::Ready(())
    }
    /// Ends the wait because the future is dropped. No thread wakes it any more, and its leadership
    /// is passed on (WAIT-4).
    pub(crate) fn leave(&mut self, queue: &impl CommitQueue) {
        let waits = queue.waits();
        let led = match &self.state {
            State::Queued(node) => waits.leave(node),
            State::Leading(lead) => {
                lead.rested.is_none_or(|rested| waits.leadership().resume(rested))
            }
            State::New | State::Done => false,
        };
        self.state = State::Done;
        if led {
            pass_on(waits);
        }
    }
}

impl Lead {
    fn begin(queue: &impl CommitQueue) -> Lead {
        let alone = !queue.gathers() || queue.waits().alone() && !queue.waits().probes();
        Lead {
            rounds: if alone { ROUNDS_MAX } else { 0 },
            joined: u64::MAX,
            held: alone,
            resting: None,
            rested: None,
        }
    }
    /// Becomes ready when the group no longer grows.
    fn gather_group(&mut self, queue: &impl CommitQueue, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(rest) = &mut self.resting {
                ready!(rest.as_mut().poll(cx));
                self.resting = None;
            }
            let joined = queue.waits().joined();
            if self.rounds >= ROUNDS_MAX || joined == self.joined {
                self.rounds = ROUNDS_MAX;
                self.resting =
                    if std::mem::replace(&mut self.held, true) { None } else { queue.hold() };
                if self.resting.is_none() {
                    return Poll::Ready(());
                }
                continue;
            }
            self.rounds += 1;
            self.joined = joined;
            self.resting = Some(queue.yield_now());
        }
    }
}

pub(in crate::log) fn pass_on(waits: &Waits) {
    if let Some(w) = waits.hand_over() {
        w.wake();
    }
}

/// The future of [`Log::wait_durable`] and similar functions.
pub struct DurableWait<'l> {
    queue: Counted<'l>,
    waiter: Waiter,
}
/// The log, with or without counting of waits.
pub(in crate::log) struct Counted<'l> {
    pub log: &'l Log,
    pub counted: bool,
}
impl CommitQueue for Counted<'_> {
    fn waits(&self) -> &Waits {
        self.log.waits()
    }
    fn ready(&self) -> u64 {
        self.log.ready()
    }
    fn flush(&self, durable: bool) -> Flushed {
        self.log.flush(durable)
    }
    fn yield_now(&self) -> BoxFuture<()> {
        self.log.yield_now()
    }
    fn hold(&self) -> Option<BoxFuture<()>> {
        self.log.hold()
    }
    fn gathers(&self) -> bool {
        self.log.gathers()
    }
    fn count(&self, goal: &Goal, event: Event) {
        if self.counted {
            self.log.count(goal, event);
        }
    }
}
impl<'l> DurableWait<'l> {
    pub(in crate::log) fn new(log: &'l Log, lsn: Lsn, durable: bool) -> DurableWait<'l> {
        debug_assert!(
            lsn <= log.tail(),
            "a wait for LSN {lsn}, which is above the tail {}",
            log.tail()
        );
        DurableWait {
            queue: Counted { log, counted: true },
            waiter: Waiter::new(Goal { lsn: lsn.0, durable }),
        }
    }
    pub(in crate::log) fn uncounted(log: &'l Log, lsn: Lsn) -> DurableWait<'l> {
        let mut w = DurableWait::new(log, lsn, true);
        w.queue.counted = false;
        w
    }
}
impl Future for DurableWait<'_> {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.waiter.poll(&this.queue, cx)
    }
}
impl Drop for DurableWait<'_> {
    fn drop(&mut self) {
        self.waiter.leave(&self.queue);
    }
}

/// A [`DurableWait`] that owns a reference to the log, for tests that hold several waits.
#[cfg(all(test, not(model)))]
pub(in crate::log) struct OwnedWait {
    log: Arc<Log>,
    waiter: Waiter,
}
#[cfg(all(test, not(model)))]
impl OwnedWait {
    pub(in crate::log) fn new(log: Arc<Log>, lsn: Lsn) -> OwnedWait {
        OwnedWait { log, waiter: Waiter::new(Goal { lsn: lsn.0, durable: true }) }
    }
}
#[cfg(all(test, not(model)))]
impl Future for OwnedWait {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.waiter.poll(&*this.log, cx)
    }
}
#[cfg(all(test, not(model)))]
impl Drop for OwnedWait {
    fn drop(&mut self) {
        self.waiter.leave(&*self.log);
    }
}
