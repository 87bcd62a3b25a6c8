//! Waiting for an LSN of the redo log. This module knows the waiters and their goals, and the
//! holder of the leadership, which is the right and the duty to write and flush.
//!
//! - WAIT-1: no wake-up is lost. A waiter pushes its node, fences, and looks at `durable` again. A
//!   thread that has flushed stores `durable`, fences, and takes the nodes. One of the two sees the
//!   other.
//! - WAIT-2: while a waiter waits, the leadership has a holder. A waiter that finds the leadership
//!   free takes it. A holder that gives the leadership up fences, and looks for nodes that came in
//!   between, on the stack and among the kept nodes. The leadership passes directly from one holder
//!   to the next: a node's role becomes `LEAD`, and the owner of this node must lead or pass the
//!   leadership on. A waiter whose goal is covered, because a write in flight reaches it, needs no
//!   leader: the end of the write wakes it (WAIT-1).
//! - WAIT-3: `durable <= written`, and neither goes back.
//! - WAIT-4: a future that is dropped takes its waker away and passes the leadership on. The next
//!   holder that finds the node drops it.
//! - WAIT-5: the holder of the leadership has the duty to look for waiters. The dedicated writer
//!   ([`crate::log::commit::dedicated`]) may keep the leadership while no session waits. It sleeps
//!   only after it has announced its sleep, fenced, and looked once more. A waiter that finds it
//!   asleep notifies it.
//! - WAIT-6: a holder that nobody runs holds nobody up for long. A program may keep a future that
//!   it neither polls nor drops, and such a future may have been handed the leadership, or lead and
//!   let others go first. The leadership then lies idle, and a watch takes it when it has lain idle
//!   since the last look ([`Waits::take_idle`]). A future that is polled again only leads if the
//!   leadership still lies idle. Whoever does work is never deprived of it.
//!
//! The nodes are on a stack (Treiber 1986) that is only ever taken as a whole, so there is no ABA
//! problem. Each node is shared by its future and the stack.
use crate::sync::log::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Mutex, Padded, fence};
use crate::sync::notify::Notify;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::task::Waker;

/// The LSN that a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) struct Goal {
    pub lsn: u64,
    /// Whether the bytes must be on stable storage, or only be handed to the operating system.
    pub durable: bool,
}

const WAITING: u8 = 0;
const LEAD: u8 = 1;
const GONE: u8 = 2;

/// The leadership is a number that changes each time, with what it is in its low bits: free, in use
/// by its holder, or idle, either because its holder lets others go first, or because a node has
/// the role `LEAD` and its owner has not come yet. Who changes the leadership from idle to in use
/// is its holder from then on (WAIT-6).
const FREE: u64 = 0;
const IN_USE: u64 = 1;
const RESTS: u64 = 2;
const HANDED: u64 = 3;
const STATE: u64 = 3;

fn followed_by(leadership: u64, state: u64) -> u64 {
    (leadership | STATE).wrapping_add(1) | state
}

#[derive(Debug)]
pub(in crate::log) struct Node {
    goal: Goal,
    next: AtomicPtr<Node>,
    role: AtomicU8,
    waker: Mutex<Option<Waker>>,
}
impl Node {
    fn new(goal: Goal, waker: &Waker) -> Node {
        Node {
            goal,
            next: AtomicPtr::new(null_mut()),
            role: AtomicU8::new(WAITING),
            waker: Mutex::new(Some(waker.clone())),
        }
    }
    /// Sets the waker. The owner calls this before the checks that decide whether it sleeps.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut w = self.waker.lock();
        if !w.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *w = Some(waker.clone());
        }
    }
    /// Whether the leadership was passed to this node.
    pub(crate) fn leads(&self) -> bool {
        self.role.load(Acquire) == LEAD
    }
    /// The future needs no more waking. Returns whether the node was handed the leadership.
    fn leave(&self) -> bool {
        let led = self.role.swap(GONE, AcqRel) == LEAD;
        *self.waker.lock() = None;
        led
    }
}

/// The dedicated writer, as other threads see it.
#[derive(Debug)]
struct Dedicated {
    leadership: AtomicU8,
    sleeps: AtomicBool,
    notify: Arc<Notify>,
}
/// The dedicated writer does not want the leadership (`AWAY`), waits for it, or holds it.
const AWAY: u8 = 0;
const WANTS: u8 = 1;
const HOLDS: u8 = 2;

#[derive(Debug)]
pub(in crate::log) struct Waits {
    written: Padded<AtomicU64>,
    durable: Padded<AtomicU64>,
    /// Everything below is durable, or a durable write of it is in flight. Only the leader raises
    /// this.
    covered: AtomicU64,
    head: Padded<AtomicPtr<Node>>,
    leadership: Padded<AtomicU64>,
    dedicated: Dedicated,
    /// The nodes that have left the stack and whose goal no flush has reached yet. The leader and
    /// the flusher look at them.
    kept: Mutex<Vec<Arc<Node>>>,
    /// How often a lone leader has begun to lead.
    alone: Count,
    /// The number of nodes ever pushed, by which a leader sees its group grow.
    joined: Count,
    /// Sixteen times the moving average of the group size.
    group: std::sync::atomic::AtomicU32,
}
/// Counters are not part of the models that loom explores.
type Count = std::sync::atomic::AtomicU64;
const PROBE_EVERY: u64 = 8;

impl Waits {
    pub(crate) fn new(at: u64) -> Waits {
        Waits {
            written: Padded(AtomicU64::new(at)),
            durable: Padded(AtomicU64::new(at)),
            covered: AtomicU64::new(0),
            head: Padded(AtomicPtr::new(null_mut())),
            leadership: Padded(AtomicU64::new(FREE)),
            dedicated: Dedicated {
                leadership: AtomicU8::new(AWAY),
                sleeps: AtomicBool::new(false),
                notify: Arc::default(),
            },
            kept: Mutex::new(Vec::new()),
            alone: Count::new(0),
            joined: Count::new(0),
            group: std::sync::atomic::AtomicU32::new(16),
        }
    }
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Acquire)
    }
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Acquire)
    }
    pub(crate) fn reached(&self, goal: &Goal) -> bool {
        goal.lsn <= if goal.durable { self.durable() } else { self.written() }
    }
    /// Whether a write in flight reaches the goal.
    pub(crate) fn covered(&self, goal: &Goal) -> bool {
        goal.lsn <= self.covered.load(Acquire)
    }
    /// Records that a durable write up to `lsn` is in flight. The leader calls this before it
    /// passes the leadership on.
    pub(crate) fn cover(&self, lsn: u64) {
        self.covered.fetch_max(lsn, AcqRel);
    }
    pub(crate) fn joined(&self) -> u64 {
        self.joined.load(Relaxed)
    }
    /// Whether no other session waits now, and the latest groups had one member. For the leader.
    pub(crate) fn alone(&self) -> bool {
        self.head.load(Relaxed).is_null()
            && !self.in_company()
            && self.kept.lock().iter().all(|n| n.role.load(Relaxed) == GONE)
    }

    /// Whether a lone leader waits for company this time, to see if others would join.
    pub(crate) fn probes(&self) -> bool {
        let n = self.alone.load(Relaxed);
        self.alone.store(n + 1, Relaxed);
        n % PROBE_EVERY == PROBE_EVERY - 1
    }

    pub(crate) fn try_lead(&self) -> bool {
        let found = self.leadership.load(Relaxed);
        found & STATE == FREE && self.change(found, IN_USE).is_some()
    }
    /// Changes the leadership, unless another thread has changed it. Returns what it is then.
    fn change(&self, found: u64, state: u64) -> Option<u64> {
        let next = followed_by(found, state);
        self.leadership.compare_exchange(found, next, AcqRel, Relaxed).is_ok().then_some(next)
    }
    /// The holder lets others go first. Returns what [`Waits::resume`] needs (WAIT-6).
    pub(crate) fn rest(&self) -> u64 {
        let rests = followed_by(self.leadership.load(Relaxed), RESTS);
        self.leadership.store(rests, Release);
        rests
    }
    /// Whether the holder that rested has the leadership again, and not another thread.
    pub(crate) fn resume(&self, rested: u64) -> bool {
        self.change(rested, IN_USE).is_some()
    }
    /// Whether the leadership that a node has been handed comes to the caller. If not, the watch
    /// has taken it.
    pub(crate) fn take_handed(&self) -> bool {
        let found = self.leadership.load(Acquire);
        found & STATE == HANDED && self.change(found, IN_USE).is_some()
    }
    /// Takes a leadership that has lain idle since the last look, which `seen` remembers (WAIT-6).
    /// The caller then leads. A durable wait that lies idle itself takes it when it is polled.
    pub(crate) fn take_idle(&self, seen: &mut u64) -> bool {
        let found = self.leadership.load(Acquire);
        let idle = matches!(found & STATE, RESTS | HANDED);
        idle && std::mem::replace(seen, found) == found && self.change(found, IN_USE).is_some()
    }
    /// The owner of the node needs no more waking. Returns whether it now holds the leadership.
    pub(crate) fn leave(&self, node: &Node) -> bool {
        node.leave() && self.take_handed()
    }
    /// Puts a node on the stack. The caller then checks its goal and the leadership again (WAIT-1,
    /// WAIT-2).
    pub(crate) fn enlist(&self, goal: Goal, waker: &Waker) -> Arc<Node> {
        let node = new_node(goal, waker);
        let raw = Arc::into_raw(node.clone()).cast_mut();
        let mut head = self.head.load(Relaxed);
        loop {
            node.next.store(head, Relaxed);
            match self.head.compare_exchange_weak(head, raw, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(h) => head = h,
            }
        }
        self.joined.fetch_add(1, Relaxed);
        fence(SeqCst);
        let dedicated = &self.dedicated;
        if dedicated.sleeps.load(Relaxed) && dedicated.sleeps.swap(false, AcqRel) {
            dedicated.notify.notify();
        }
        node
    }

    // The dedicated writer calls the following functions.

    /// The notification that wakes the dedicated writer.
    pub(crate) fn dedicated_notify(&self) -> &Arc<Notify> {
        &self.dedicated.notify
    }
    /// Takes the leadership, or asks for it; a notification says when it comes. Returns whether the
    /// dedicated writer has the leadership.
    pub(crate) fn dedicated_leads(&self) -> bool {
        let leadership = &self.dedicated.leadership;
        if leadership.load(Acquire) == HOLDS {
            return true;
        }
        // HOLDS must not be overwritten: the leadership may have been handed over since the load.
        // Only the dedicated writer itself leaves AWAY.
        let _ = leadership.compare_exchange(AWAY, WANTS, AcqRel, Relaxed);
        fence(SeqCst);
        if self.try_lead() {
            leadership.store(HOLDS, Relaxed);
            return true;
        }
        leadership.load(Acquire) == HOLDS
    }
    /// The dedicated writer does not lead any more, and passes on the leadership if it has it.
    pub(crate) fn dedicated_leaves(&self) -> Option<Waker> {
        if self.dedicated.leadership.swap(AWAY, AcqRel) == HOLDS { self.hand_over() } else { None }
    }
    /// Announces sleep, and returns whether there is no waiter to write for (WAIT-5) and no
    /// newcomer to look at. The caller must have the leadership.
    pub(crate) fn dedicated_may_sleep(&self) -> bool {
        let sleeps = &self.dedicated.sleeps;
        sleeps.store(true, Relaxed);
        fence(SeqCst);
        let written = self.written().max(self.covered.load(Acquire));
        let unwritten = |n: &Arc<Node>| n.goal.lsn > written && n.role.load(Relaxed) != GONE;
        let wanted = !self.head.load(Relaxed).is_null() || self.kept.lock().iter().any(unwritten);
        if wanted {
            sleeps.store(false, Relaxed);
        }
        !wanted
    }
    /// Whether a session waits for the sync of bytes that are written.
    pub(crate) fn wants_sync(&self) -> bool {
        let mut kept = self.kept.lock();
        self.gather(&mut kept);
        let (written, durable) = (self.written(), self.durable());
        kept.iter().any(|n| n.goal.durable && (durable + 1..=written).contains(&n.goal.lsn))
    }

    // The leader, and the flusher beside it, call the following functions.

    /// Moves the pushed nodes to the kept nodes, with the oldest last, and drops nodes whose
    /// futures are gone.
    fn gather(&self, kept: &mut Vec<Arc<Node>>) {
        let mut p = self.head.swap(null_mut(), AcqRel);
        while !p.is_null() {
            // SAFETY: the pointer came from `Arc::into_raw` in `enlist`, and the swap passed its
            // reference to this thread.
            let node = unsafe { Arc::from_raw(p) };
            p = node.next.load(Relaxed);
            kept.push(node);
        }
        kept.retain(|n| n.role.load(Relaxed) != GONE);
    }
    /// Whether any waiter waits for more than a write.
    pub(crate) fn wants_durable(&self) -> bool {
        let mut kept = self.kept.lock();
        self.gather(&mut kept);
        kept.iter().any(|n| n.goal.durable)
    }
    /// Publishes how far the log is written and durable. `wake_reached` must follow. If two threads
    /// publish at the same time, the higher values count.
    pub(crate) fn advance(&self, written: u64, durable: u64) {
        assert!(durable <= written, "WAIT-3");
        self.written.fetch_max(written, AcqRel);
        self.durable.fetch_max(durable, AcqRel);
        fence(SeqCst);
    }
    /// Takes out the wakers of all waiters whose goal is reached. Returns the number of these
    /// waiters.
    pub(crate) fn wake_reached(&self, wake: &mut Vec<Waker>) -> usize {
        let mut kept = self.kept.lock();
        self.gather(&mut kept);
        let mut reached = 0;
        kept.retain(|n| {
            if !self.reached(&n.goal) {
                return true;
            }
            reached += 1;
            wake.extend(n.waker.lock().take());
            false
        });
        reached
    }
    /// Records that a flush served a group of this size.
    pub(crate) fn flushed_for(&self, group: usize) {
        let average = self.group.load(Relaxed);
        self.group.store(average - average / 4 + group as u32 * 4, Relaxed);
    }
    /// Whether the latest groups had more than one member.
    pub(crate) fn in_company(&self) -> bool {
        self.group.load(Relaxed) >= 20
    }
    /// Passes the leadership to a waiter, whose waker is returned, or gives it up if there is none.
    pub(crate) fn hand_over(&self) -> Option<Waker> {
        let dedicated = &self.dedicated;
        loop {
            if dedicated.leadership.compare_exchange(WANTS, HOLDS, AcqRel, Relaxed).is_ok() {
                dedicated.notify.notify();
                return None;
            }
            // It lies idle before a node has the role: then its owner may take it.
            let handed = followed_by(self.leadership.load(Relaxed), HANDED);
            self.leadership.store(handed, Release);
            {
                let mut kept = self.kept.lock();
                self.gather(&mut kept);
                // The longest waiter is near the end of the list, because a batch of nodes is added
                // with its oldest last.
                for n in kept.iter().rev() {
                    if !self.covered(&n.goal)
                        && n.role.compare_exchange(WAITING, LEAD, AcqRel, Relaxed).is_ok()
                    {
                        return n.waker.lock().take();
                    }
                }
            }
            self.change(handed, FREE)?;
            fence(SeqCst);
            // The kept nodes must be looked at too: a thread that publishes without the leadership
            // may have taken a newcomer off the stack meanwhile.
            let waits = |n: &Arc<Node>| n.role.load(Relaxed) == WAITING && !self.covered(&n.goal);
            let wanted = dedicated.leadership.load(Relaxed) == WANTS || {
                let mut kept = self.kept.lock();
                self.gather(&mut kept);
                kept.iter().any(waits)
            };
            if !wanted || !self.try_lead() {
                return None;
            }
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.gather(&mut Vec::new());
    }
}

// A wait costs no allocation: a thread keeps the node of a future that ended in it, if no other
// thread shares the node any more.
#[cfg(not(loom))]
thread_local! {
    static SPARE: std::cell::RefCell<Vec<Arc<Node>>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(not(loom))]
fn new_node(goal: Goal, waker: &Waker) -> Arc<Node> {
    let spare = SPARE.try_with(|s| s.borrow_mut().pop()).ok().flatten();
    match spare {
        Some(mut node) => {
            *Arc::get_mut(&mut node).expect("only unshared nodes are spare") =
                Node::new(goal, waker);
            node
        }
        None => Arc::new(Node::new(goal, waker)),
    }
}
#[cfg(not(loom))]
pub(in crate::log) fn recycle(mut node: Arc<Node>) {
    if Arc::get_mut(&mut node).is_some() {
        let _ = SPARE.try_with(|s| {
            let mut s = s.borrow_mut();
            if s.len() < 64 {
                s.push(node);
            }
        });
    }
}
#[cfg(loom)]
fn new_node(goal: Goal, waker: &Waker) -> Arc<Node> {
    Arc::new(Node::new(goal, waker))
}
#[cfg(loom)]
pub(in crate::log) fn recycle(_: Arc<Node>) {}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    /// WAIT-4: nodes pass from their futures to the stack and to the thread that wakes their
    /// futures. Some futures end before that, and some nodes are left at the end.
    #[test]
    fn a_node_lives_as_long_as_its_future_and_the_stack() {
        let (waits, rounds) = (Waits::new(0), if cfg!(miri) { 8 } else { 500 });
        std::thread::scope(|s| {
            for leaves in [false, true] {
                let waits = &waits;
                s.spawn(move || {
                    for lsn in 1..=rounds {
                        let node = waits.enlist(Goal { lsn, durable: true }, Waker::noop());
                        if leaves {
                            node.leave();
                        }
                        recycle(node);
                    }
                });
            }
            for lsn in 1..=rounds {
                waits.advance(lsn, lsn);
                waits.wake_reached(&mut Vec::new());
            }
        });
        waits.wake_reached(&mut Vec::new());
        assert!(waits.head.load(Relaxed).is_null() && waits.kept.lock().is_empty());
        waits.enlist(Goal { lsn: u64::MAX, durable: true }, Waker::noop());
        assert!(waits.wants_durable());
        waits.enlist(Goal { lsn: u64::MAX, durable: true }, Waker::noop());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::log::commit::leader::{CommitQueue, Event, Flushed, Waiter, pass_on};
    use crate::log::write::write_cursor::{BLOCK, Leadership, LogWriter};
    use crate::runtime::BoxFuture;
    use crate::sync::loom_model::explore;
    use std::future::{Future, poll_fn};
    use std::sync::atomic::AtomicUsize;
    use std::task::Poll;

    /// A log whose flush takes everything that has been appended.
    struct Model {
        waits: Waits,
        tail: AtomicU64,
        flushing: AtomicBool,
        flusher: Notify,
        /// Whether a leader lets others go first.
        rests: bool,
    }
    impl Model {
        fn new() -> Model {
            Model {
                waits: Waits::new(0),
                tail: AtomicU64::new(0),
                flushing: AtomicBool::new(false),
                flusher: Notify::default(),
                rests: false,
            }
        }
        fn publish(&self, written: u64, durable: u64) {
            self.waits.advance(written, durable);
            let mut wake = Vec::new();
            let woken = self.waits.wake_reached(&mut wake);
            self.waits.flushed_for(woken + 1);
            wake.into_iter().for_each(Waker::wake);
        }
        fn append(&self) -> Goal {
            Goal { lsn: self.tail.fetch_add(1, AcqRel) + 1, durable: true }
        }
        fn commit(&self) {
            let goal = self.append();
            let mut w = Waiter::new(goal);
            loom::future::block_on(poll_fn(|cx| w.poll(self, cx)));
            assert!(self.waits.durable() >= goal.lsn);
        }
        /// Polls a wait once and drops it.
        fn give_up(&self) {
            let mut w = Waiter::new(self.append());
            loom::future::block_on(poll_fn(|cx| {
                let _ = w.poll(self, cx);
                Poll::Ready(())
            }));
            w.leave(self);
        }
    }
    impl Model {
        /// In company, and beside the watch.
        fn resting() -> Model {
            let m = Model { rests: true, ..Model::new() };
            m.waits.flushed_for(16);
            m
        }
        fn watch(&self) {
            let mut seen = 0;
            for _ in 0..3 {
                if self.waits.take_idle(&mut seen) {
                    self.flush(true);
                    pass_on(&self.waits);
                }
            }
        }
    }
    impl CommitQueue for Model {
        fn waits(&self) -> &Waits {
            &self.waits
        }
        fn ready(&self) -> u64 {
            u64::MAX
        }
        fn flush(&self, _: bool) -> Flushed {
            assert!(!self.flushing.swap(true, AcqRel), "LEAD-1");
            let ready = self.tail.load(Acquire);
            self.publish(ready, ready);
            self.flushing.store(false, Release);
            Flushed::Here
        }
        fn yield_now(&self) -> BoxFuture<()> {
            let mut goes_on = !self.rests;
            Box::pin(poll_fn(move |cx| {
                if std::mem::replace(&mut goes_on, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }))
        }
        fn hold(&self) -> Option<BoxFuture<()>> {
            None
        }
        fn gathers(&self) -> bool {
            true
        }
        fn count(&self, _: &Goal, _: Event) {}
    }
    fn model(preemptions: usize, threads: &'static [fn(&Model)]) {
        model_of(preemptions, Model::new, threads);
    }
    fn model_of(preemptions: usize, made: fn() -> Model, threads: &'static [fn(&Model)]) {
        explore(preemptions, move || {
            let m = Arc::new(made());
            let others: Vec<_> = threads[1..]
                .iter()
                .map(|f| {
                    let m = m.clone();
                    loom::thread::spawn(move || f(&m))
                })
                .collect();
            threads[0](&m);
            others.into_iter().for_each(|t| t.join().unwrap());
            assert!(m.waits.try_lead(), "WAIT-2: nobody waits, nobody leads");
        });
    }

    /// WAIT-1, WAIT-2: loom reports a waiter that is never woken as a deadlock.
    #[test]
    fn loom_two_commit() {
        model(3, &[Model::commit, Model::commit]);
    }
    #[test]
    fn loom_three_commit() {
        model(1, &[Model::commit, Model::commit, Model::commit]);
    }
    /// A log with several writes in flight, of one block each, on a device that ends the newest
    /// write first.
    struct Deep {
        waits: Waits,
        tail: AtomicU64,
        writer: Mutex<(LogWriter, Vec<u64>)>,
        device: Notify,
    }
    const DEPTH: usize = 2;
    impl Deep {
        fn new() -> Deep {
            Deep {
                waits: Waits::new(0),
                tail: AtomicU64::new(0),
                writer: Mutex::new((LogWriter::new(0, 1 << 24), Vec::new())),
                device: Notify::default(),
            }
        }
        /// Puts one more write in flight, whose leader is gone.
        fn begin_one(&self) {
            self.tail.fetch_add(BLOCK, AcqRel);
            assert_eq!(self.flush(true), Flushed::Away);
        }
        fn commit(&self) {
            let goal = Goal { lsn: self.tail.fetch_add(BLOCK, AcqRel) + BLOCK, durable: true };
            let mut w = Waiter::new(goal);
            loom::future::block_on(poll_fn(|cx| w.poll(self, cx)));
            assert!(self.waits.durable() >= goal.lsn);
        }
        fn run_device(&self) {
            while loom::future::block_on(self.device.wait()) {
                while self.end_one() {}
            }
            assert!(!self.end_one(), "what somebody waits for has ended");
        }
        fn end_one(&self) -> bool {
            let (at, passes) = {
                let mut w = self.writer.lock();
                let Some(number) = w.1.pop() else { return false };
                let passes = w.0.land(number, DEPTH);
                (w.0.durable(), passes)
            };
            self.waits.advance(at, at);
            let mut wake = Vec::new();
            self.waits.wake_reached(&mut wake);
            wake.into_iter().for_each(Waker::wake);
            if passes {
                pass_on(&self.waits);
            }
            true
        }
    }
    impl CommitQueue for Deep {
        fn waits(&self) -> &Waits {
            &self.waits
        }
        fn ready(&self) -> u64 {
            u64::MAX
        }
        /// Does the same as `write/overlapped_writes.rs`.
        fn flush(&self, _: bool) -> Flushed {
            let ready = self.tail.load(Acquire);
            let leadership = {
                let mut w = self.writer.lock();
                let mut begun = 0;
                while let Some(write) = w.0.begin(ready, DEPTH) {
                    self.waits.cover(write.end);
                    w.1.push(write.number);
                    begun += 1;
                }
                w.0.leave(begun, DEPTH)
            };
            self.device.notify();
            match leadership {
                Leadership::Stays => return Flushed::Nothing,
                Leadership::Passes => pass_on(&self.waits),
                Leadership::Kept => {}
            }
            Flushed::Away
        }
        fn yield_now(&self) -> BoxFuture<()> {
            Box::pin(std::future::ready(()))
        }
        fn hold(&self) -> Option<BoxFuture<()>> {
            None
        }
        fn gathers(&self) -> bool {
            false
        }
        fn count(&self, _: &Goal, _: Event) {}
    }
    /// FLIGHT-2: a completion takes newcomers off the stack while a leader gives up the leadership.
    /// The newcomer and the device take turns in one thread: with three threads, a second
    /// preemption has too many interleavings to explore. The relevant interleavings are those of
    /// two threads, where one gives up the leadership and the other takes nodes off the stack.
    fn model_of_newcomer(preemptions: usize, begun: usize) {
        explore(preemptions, move || {
            let m = Arc::new(Deep::new());
            for _ in 0..begun {
                assert!(m.waits.try_lead());
                m.begin_one();
            }
            // The last committer closes the device. The counter is std's, so that loom does not
            // explore it.
            let left = Arc::new(AtomicUsize::new(2));
            let committed = |m: &Deep, left: &AtomicUsize| {
                if left.fetch_sub(1, Relaxed) == 1 {
                    m.device.close();
                }
            };
            let committer = {
                let (m, left) = (m.clone(), left.clone());
                loom::thread::spawn(move || {
                    m.commit();
                    committed(&m, &left);
                })
            };
            let goal = Goal { lsn: m.tail.fetch_add(BLOCK, AcqRel) + BLOCK, durable: true };
            let (mut newcomer, mut waits) = (Waiter::new(goal), true);
            loom::future::block_on(poll_fn(|cx| {
                loop {
                    if waits && newcomer.poll(&*m, cx).is_ready() {
                        assert!(m.waits.durable() >= goal.lsn);
                        waits = false;
                        committed(&m, &left);
                    }
                    if m.end_one() {
                        continue;
                    }
                    match std::pin::pin!(m.device.wait()).poll(cx) {
                        Poll::Ready(true) => {}
                        Poll::Ready(false) => return Poll::Ready(()),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            }));
            assert!(!m.end_one(), "what somebody waits for has ended");
            committer.join().unwrap();
            assert!(m.waits.try_lead(), "WAIT-2: nobody waits, nobody leads");
        });
    }
    #[test]
    fn loom_two_in_flight() {
        model_of_newcomer(2, 0);
    }
    /// FLIGHT-1, FLIGHT-2: the newcomer finds a write in flight.
    #[test]
    fn loom_two_beside_one_in_flight() {
        model_of_newcomer(1, 1);
    }
    /// FLIGHT-1: at full depth the writes in flight hold the leadership, and a completion passes it
    /// on.
    #[test]
    fn loom_one_at_full_depth() {
        explore(2, || {
            let m = Arc::new(Deep::new());
            for _ in 0..DEPTH {
                assert!(m.waits.try_lead());
                m.begin_one();
            }
            let other = m.clone();
            let committer = loom::thread::spawn(move || {
                other.commit();
                other.device.close();
            });
            m.run_device();
            committer.join().unwrap();
            assert!(m.waits.try_lead(), "WAIT-2: nobody waits, nobody leads");
        });
    }

    /// The dedicated writer: writes for others, at most `turns` times, until the notification is
    /// closed (as `commit/dedicated.rs` does).
    fn write_for_all(m: &Model, turns: usize) {
        let mut done = 0;
        while done < turns {
            let leads = m.waits.dedicated_leads();
            if leads && m.waits.wants_sync() {
                m.flusher.notify();
            }
            if leads && !m.waits.dedicated_may_sleep() {
                let (tail, durable) = (m.tail.load(Acquire), m.waits.durable());
                m.publish(tail, durable);
                done += 1;
            } else if !loom::future::block_on(m.waits.dedicated_notify().wait()) {
                break;
            }
        }
        if let Some(w) = m.waits.dedicated_leaves() {
            w.wake();
        }
    }
    /// The dedicated flusher.
    fn sync_for_all(m: &Model) {
        while loom::future::block_on(m.flusher.wait()) {
            while m.waits.wants_sync() {
                let written = m.waits.written();
                m.publish(written, written);
            }
        }
    }
    fn model_with_dedicated(preemptions: usize, turns: usize, committers: usize) {
        explore(preemptions, move || {
            let m = Arc::new(Model::new());
            let start = |f: fn(&Model, usize), n: usize| {
                let m = m.clone();
                loom::thread::spawn(move || f(&m, n))
            };
            let (writer, flusher) = (start(write_for_all, turns), start(|m, _| sync_for_all(m), 0));
            let others: Vec<_> = (1..committers).map(|_| start(|m, _| m.commit(), 0)).collect();
            m.commit();
            others.into_iter().for_each(|t| t.join().unwrap());
            m.waits.dedicated_notify().close();
            m.flusher.close();
            writer.join().unwrap();
            flusher.join().unwrap();
            assert!(m.waits.try_lead(), "WAIT-2: nobody waits, nobody leads");
        });
    }
    /// WAIT-5, and MODE-1: the dedicated writer comes, flushes and goes while others commit.
    /// Tests DEDICATED-1.
    #[test]
    fn loom_dedicated_serves_one() {
        model_with_dedicated(2, 9, 1);
    }
    #[test]
    fn loom_dedicated_comes_and_goes() {
        model_with_dedicated(1, 1, 2);
    }

    /// WAIT-6, LEAD-1
    #[test]
    fn loom_one_rests_beside_the_watch() {
        model_of(2, Model::resting, &[Model::commit, Model::watch]);
    }
    #[test]
    fn loom_two_rest_beside_the_watch() {
        model_of(1, Model::resting, &[Model::commit, Model::commit, Model::watch]);
    }
    #[test]
    fn loom_one_that_rests_gives_up_beside_the_watch() {
        model_of(1, Model::resting, &[Model::commit, Model::give_up, Model::watch]);
    }

    /// WAIT-4
    #[test]
    fn loom_one_gives_up() {
        model(3, &[Model::commit, Model::give_up]);
    }
    #[test]
    fn loom_one_of_three_gives_up() {
        model(1, &[Model::commit, Model::give_up, Model::commit]);
    }
}
