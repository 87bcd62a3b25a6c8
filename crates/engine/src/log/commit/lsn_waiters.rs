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
//!   since the last look ([`LeadershipWord::take_idle`]). A future that is polled again only leads
//!   if the leadership still lies idle. Whoever does work is never deprived of it.
//!
//! The nodes are on a stack (Treiber 1986) that is only ever taken as a whole, so there is no ABA
//! problem. Each node is shared by its future and the stack.
use super::leadership::LeadershipWord;
use crate::sync::log::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Mutex, Padded, fence};
use crate::sync::notify::Notify;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
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
    leadership: Padded<LeadershipWord>,
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
            leadership: Padded(LeadershipWord::new()),
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
        self.leadership.try_take()
    }
    /// The leadership, for its holder and for the watch (WAIT-6).
    pub(crate) fn leadership(&self) -> &LeadershipWord {
        &self.leadership
    }
    /// The owner of the node needs no more waking. Returns whether it now holds the leadership.
    pub(crate) fn leave(&self, node: &Node) -> bool {
        node.leave() && self.leadership.take_handed()
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
            let handed = self.leadership.begin_handing();
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
            if !self.leadership.give_up(handed) {
                return None;
            }
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
mod loom_tests;
