use super::*;
use crate::log::commit::leader::{CommitQueue, Event, Flushed, Waiter, pass_on};
use crate::log::write::write_cursor::{BLOCK, Leadership, LogWriter};
use crate::runtime::BoxFuture;
use crate::sync::loom_model::explore;
use std::future::{Future, poll_fn};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Release;
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
            if self.waits.leadership().take_idle(&mut seen) {
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
