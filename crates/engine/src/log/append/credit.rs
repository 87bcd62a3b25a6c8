//! Room in the redo log. A mini-transaction takes credit before it latches, for the most bytes that
//! it may write, and gives back the unused rest.
//!
//! - CREDIT-1: `tail <= promised <= limit`. `promised` is the tail plus all outstanding credit; an
//!   append moves the tail and gives back the rest.
//! - CREDIT-2: `limit` is the least of three bounds: the whole blocks written plus the buffer's
//!   size (LOGBUF-4); the checkpoint plus the capacity; and the end of the existing segments.
//!   Ordinary work leaves a reserve of the latter two to rollback, undo and the page cleaners,
//!   without which the checkpoint could not move, and these leave the last bytes to the commit
//!   stream's barriers, for which the checkpoint may wait (STREAM-3). A limit that is lowered
//!   (fewer segments, another buffer) holds for every credit from then on: a thread that takes
//!   credit looks at the limit again after its promise, and a thread that lowers the limit looks at
//!   `promised` afterwards (all SeqCst), so that one of the two sees the other.
//! - CREDIT-3: a waiting session is woken when there may be room. A thread that makes room stores
//!   the new bound, then looks whether sessions wait; a session that waits registers, then looks at
//!   the room (all SeqCst). The same holds for an append that gives a session something to flush
//!   ([`LogRoom::await_append`]).
//! - CREDIT-4: a session that waits goes on when there is room for the largest request of its class
//!   that waits then, and so for its own. A wait that is given up no longer counts.
//!
//! **The capacity** in force is `in_force_bytes`. It equals the setting (`capacity_bytes`) or is on
//! its way down to the setting: after each checkpoint it is at most a quarter more than the bytes
//! that the redo log holds, and a 64th less than before, but, however many small checkpoints come,
//! at least an eighth more than these bytes. A redo log that shrinks thus slows its writers and
//! does not stop them.
//!
//! **Slowing down.** From 7/8 of the room for ordinary work, each change of a row is held up for a
//! time that doubles with each tenth of the rest (`delay_us`). The writers thus settle where they
//! write as fast as the checkpoint moves, instead of running into the end and standing still. Below
//! 7/8 this costs one load.
use super::credit_waiters::Waiters;
use crate::base::{Error, Try, WouldBlock};
use crate::sync::log::Padded;
use parking_lot::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::Waker;
use std::time::Duration;

/// The kind of work that asks for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) enum Class {
    Ordinary,
    /// Work that may use the reserve.
    Reserved,
    /// Small frames for which the checkpoint waits. Their writers do not wait for room: they try
    /// again later.
    Last,
}
/// The most bytes that are left to [`Class::Last`].
const LAST_BYTES: u64 = 4096;

/// The bounds of the room, as LSNs and sizes.
#[derive(Debug, Clone)]
pub(in crate::log) struct Bounds {
    pub written: u64,
    pub buffer_bytes: u64,
    /// The LSN from which the buffer's present memory is used. The bytes below are in its previous
    /// memory (LOGBUF-6).
    pub buffer_from: u64,
    pub checkpoint: u64,
    /// The capacity in force.
    pub in_force_bytes: u64,
    /// The capacity that is set.
    pub capacity_bytes: u64,
    pub files_end: u64,
    pub segment_bytes: u64,
}
/// The bound that is in short supply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) enum Scarce {
    /// The buffer: redo must be written.
    Buffer,
    /// The capacity: the checkpoint must move.
    Capacity,
    /// The segments: another segment must be made.
    Files,
}
impl Bounds {
    fn buffer_end(&self) -> u64 {
        (self.written / 4096 * 4096).max(self.buffer_from) + self.buffer_bytes
    }
    fn reserve(&self) -> u64 {
        self.in_force_bytes / 16
    }
    /// The LSNs from which ordinary work is slowed, and at which it stops.
    fn soft(&self) -> (u64, u64) {
        let most = self.in_force_bytes - self.reserve();
        (self.checkpoint + most / 8 * 7, self.checkpoint + most)
    }
    /// Sets the capacity in force after a checkpoint or a new setting. `end` is the end of the
    /// promised room.
    fn follow(&mut self, end: u64) {
        let age = end.saturating_sub(self.checkpoint);
        let less = self.in_force_bytes - self.in_force_bytes / 64;
        let on_its_way = less.max(age + age / 8).min(age + age / 4).min(self.in_force_bytes);
        self.in_force_bytes = self.capacity_bytes.max(on_its_way);
    }
    fn capacity_end(&self, class: Class) -> u64 {
        self.checkpoint + self.in_force_bytes - self.kept(class, self.reserve())
    }
    fn files_end(&self, class: Class) -> u64 {
        self.files_end - self.kept(class, self.reserve().min(self.segment_bytes / 4))
    }
    /// The bytes at the end that a class leaves to others.
    fn kept(&self, class: Class, reserve: u64) -> u64 {
        match class {
            Class::Ordinary => reserve,
            Class::Reserved => LAST_BYTES.min(reserve / 4),
            Class::Last => 0,
        }
    }
    fn limit(&self, class: Class) -> u64 {
        self.buffer_end().min(self.capacity_end(class)).min(self.files_end(class))
    }
    fn scarce(&self, class: Class) -> Scarce {
        match self.limit(class) {
            l if l == self.buffer_end() => Scarce::Buffer,
            l if l == self.capacity_end(class) => Scarce::Capacity,
            _ => Scarce::Files,
        }
    }
}

/// The limits with which every request for credit is compared.
#[derive(Default)]
struct Limits {
    room: [AtomicU64; 3],
    /// The LSN from which ordinary work is slowed, and whether it is being slowed.
    soft: AtomicU64,
    slow: AtomicBool,
}
/// The classes whose sessions wait.
const WAITING: [Class; 2] = [Class::Ordinary, Class::Reserved];
/// The least capacity, which has room for several mini-transactions at a time.
pub(in crate::log) const CAPACITY_MIN: u64 = 512 << 10;
/// The longest time for which one change of a row is held up.
const DELAY_MAX_US: u64 = 100_000;
/// Shorter delays are added up, because timers know only milliseconds.
const DELAY_UNIT_US: u64 = 1000;

pub(in crate::log) struct LogRoom {
    promised: Padded<AtomicU64>,
    limits: Padded<Limits>,
    /// The sum of the delays that were too short for a timer.
    owed_us: AtomicU64,
    bounds: Mutex<Bounds>,
    /// By class. No session waits for [`Class::Last`].
    waiters: [Waiters; 2],
    /// Whether a session waits that has nothing to flush yet.
    awaits_append: AtomicBool,
    /// How often no segment could be made, and why the last time.
    failure: Mutex<(u64, Option<Error>)>,
}

/// Room for `bytes`. Dropping the credit gives the room back.
pub struct Credit<'l> {
    room: &'l LogRoom,
    bytes: u64,
}
impl Credit<'_> {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// The tail has moved by `used` bytes, which no longer count as credit.
    pub(in crate::log) fn spend(mut self, used: u64) {
        self.bytes =
            self.bytes.checked_sub(used).expect("CREDIT-1: a frame is no longer than its credit");
        let room = self.room;
        // Also a frame without a rest changes `promised`, for the sake of `await_append`.
        drop(self);
        if room.awaits_append.load(SeqCst) {
            room.appended();
        }
    }
}
impl Drop for Credit<'_> {
    fn drop(&mut self) {
        self.room.promised.fetch_sub(self.bytes, SeqCst);
        if self.bytes > 0 {
            self.room.wake_if_room();
        }
    }
}

impl LogRoom {
    pub(crate) fn new(tail: u64, bounds: Bounds) -> LogRoom {
        let s = LogRoom {
            promised: Padded(AtomicU64::new(tail)),
            limits: Padded(Default::default()),
            owed_us: AtomicU64::new(0),
            bounds: Mutex::new(bounds),
            waiters: Default::default(),
            awaits_append: AtomicBool::new(false),
            failure: Mutex::default(),
        };
        // A redo log that is longer than the setting is no error: it shrinks with the checkpoints.
        s.update(|b| {
            b.in_force_bytes = u64::MAX / 4;
            b.follow(tail);
        });
        s
    }
    /// The largest possible credit: a request of this size succeeds once everything before it is
    /// written and checkpointed.
    pub(crate) fn credit_max(&self) -> u64 {
        let b = self.bounds.lock();
        (b.buffer_bytes - 4096).min(b.in_force_bytes / 2)
    }
    pub(crate) fn credit(&self, bytes: u64, class: Class) -> Try<Credit<'_>> {
        self.credit_now(bytes, class).ok_or_else(|| self.short(bytes))
    }
    fn credit_now(&self, bytes: u64, class: Class) -> Option<Credit<'_>> {
        let limit = &self.limits.room[class as usize];
        let mut promised = self.promised.load(Relaxed);
        loop {
            // The load of the limit pairs with the store that follows the reading of the bytes out
            // of the ring (LOGBUF-4).
            if promised + bytes > limit.load(Acquire) {
                return None;
            }
            match self.promised.compare_exchange_weak(promised, promised + bytes, SeqCst, Relaxed) {
                Ok(_) => break,
                Err(p) => promised = p,
            }
        }
        let credit = Credit { room: self, bytes };
        // CREDIT-2: the limit may have been lowered since the first look.
        if promised + bytes > limit.load(SeqCst) {
            drop(credit);
            return None;
        }
        if promised + bytes > self.limits.soft.load(Relaxed) && !self.limits.slow.load(Relaxed) {
            self.limits.slow.store(true, Relaxed);
        }
        Some(credit)
    }
    /// Credit for optional work, given only if there is plenty of room. A refused caller does not
    /// wait, and its request does not count as waiting.
    pub(crate) fn spare_credit(&self, bytes: u64) -> Option<Credit<'_>> {
        let room = self.limits.room[Class::Ordinary as usize].load(Acquire);
        // There must be twice the room, so that other sessions are not left without.
        let plenty = self.promised.load(Relaxed) + 2 * bytes <= room;
        plenty.then(|| self.credit_now(bytes, Class::Ordinary)).flatten()
    }
    #[cold]
    fn short(&self, bytes: u64) -> WouldBlock {
        if bytes > self.credit_max() {
            let max = self.credit_max();
            return WouldBlock::Failed(Error::Unsupported(format!(
                "a change of {bytes} bytes is larger than the redo log takes at once ({max} bytes)"
            )));
        }
        WouldBlock::LogSpace(bytes)
    }
    /// Changes the bounds. Apart from refunds this is the only way in which room becomes free.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Bounds)) {
        let limits = |b: &Bounds| WAITING.map(|class| (b.scarce(class), b.limit(class)));
        let (before, after) = {
            let mut b = self.bounds.lock();
            let before = limits(&b);
            change(&mut b);
            self.publish(&b);
            (before, limits(&b))
        };
        for ((class, before), after) in WAITING.into_iter().zip(before).zip(after) {
            if !self.is_waited_for(class) {
                continue;
            }
            if self.has_room(0, class) {
                self.let_go(class);
            } else if after != before && (after.0 != before.0 || after.0 != Scarce::Buffer) {
                // Who can make more room is to be asked again (`SpaceWait::ask`).
                self.wake(class);
            }
        }
    }
    fn publish(&self, b: &Bounds) {
        for class in [Class::Ordinary, Class::Reserved, Class::Last] {
            self.limits.room[class as usize].store(b.limit(class), SeqCst);
        }
        let soft = b.soft().0;
        self.limits.soft.store(soft, Relaxed);
        if self.limits.slow.load(Relaxed) && self.promised.load(Relaxed) <= soft {
            self.limits.slow.store(false, Relaxed);
        }
    }
    pub(crate) fn set_checkpoint(&self, lsn: u64) {
        let end = self.promised.load(SeqCst);
        self.update(|b| {
            b.checkpoint = lsn;
            b.follow(end);
        });
    }
    /// Sets the capacity, to [`CAPACITY_MIN`] at least.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        let end = self.promised.load(SeqCst);
        self.update(|b| {
            b.capacity_bytes = bytes.max(CAPACITY_MIN);
            b.follow(end);
        });
    }
    /// Takes the segments from `end` on out of use, except those in which room is already promised.
    /// Returns the end of the remaining segments.
    pub(crate) fn lower_files_end(&self, end: u64) -> u64 {
        let mut b = self.bounds.lock();
        let old = b.files_end;
        b.files_end = end.min(old);
        self.publish(&b);
        let promised = self.promised.load(SeqCst);
        if promised > b.files_end {
            b.files_end = promised.next_multiple_of(b.segment_bytes).min(old);
            self.publish(&b);
        }
        b.files_end
    }
    /// Gives the buffer another size. `change` gets the end of all promised room, and returns the
    /// LSN from which the buffer's memory has the new size, or None if the size stays. No thread
    /// gets credit until `change` returns.
    pub(crate) fn set_buffer(&self, bytes: u64, change: impl FnOnce(u64) -> Option<u64>) {
        {
            let mut b = self.bounds.lock();
            self.limits.room.iter().for_each(|l| l.store(0, SeqCst));
            if let Some(from) = change(self.promised.load(SeqCst)) {
                (b.buffer_from, b.buffer_bytes) = (from, bytes);
            }
            self.publish(&b);
        }
        self.wake_all();
    }
    /// Whether writers are to be slowed. This costs one load.
    #[inline]
    pub(crate) fn is_slow(&self) -> bool {
        self.limits.slow.load(Relaxed)
    }
    /// The time for which a change of a row is to be held up now.
    #[cold]
    pub(crate) fn delay(&self) -> Option<Duration> {
        let (from, to) = self.bounds.lock().soft();
        let us = delay_us(self.promised.load(Relaxed), from, to);
        let owed = self.owed_us.fetch_add(us, Relaxed) % DELAY_UNIT_US + us;
        (owed >= DELAY_UNIT_US).then(|| Duration::from_micros(owed / DELAY_UNIT_US * DELAY_UNIT_US))
    }
    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds.lock().clone()
    }
    pub(crate) fn scarce(&self, class: Class) -> Scarce {
        self.bounds.lock().scarce(class)
    }
    /// Whether a request of `bytes` bytes, and the largest waiting one of the class, would fit now.
    pub(crate) fn has_room(&self, bytes: u64, class: Class) -> bool {
        let needed = self.waiters[class as usize].largest().max(bytes);
        self.promised.load(SeqCst) + needed <= self.limits.room[class as usize].load(SeqCst)
    }
    /// The LSN up to which room is promised or was asked for.
    pub(crate) fn demand(&self) -> u64 {
        let wanted = self.waiters.iter().map(Waiters::largest).max();
        self.promised.load(SeqCst) + wanted.unwrap_or(0)
    }
    #[inline]
    fn is_waited_for(&self, class: Class) -> bool {
        self.waiters[class as usize].any()
    }
    fn wake_if_room(&self) {
        for class in WAITING {
            if self.is_waited_for(class) && self.has_room(0, class) {
                self.let_go(class);
            }
        }
    }
    /// Wakes all sessions of a class, whose largest request has room. They wait no longer, so
    /// nobody else wakes them for it. Those for which the others leave no room wait again.
    #[cold]
    fn let_go(&self, class: Class) {
        self.waiters[class as usize].let_go();
    }
    /// Wakes all sessions of a class for another look.
    fn wake(&self, class: Class) {
        self.waiters[class as usize].wake();
    }
    #[cold]
    fn wake_all(&self) {
        WAITING.into_iter().for_each(|class| self.wake(class));
    }
    /// Registers a session that waits ([`Waiters::register`]).
    pub(crate) fn register(&self, id: &mut Option<u64>, bytes: u64, class: Class, waker: &Waker) {
        self.waiters[class as usize].register(id, bytes, waker);
    }
    /// Removes a session that waits no longer. Its request may have been the largest one, so that
    /// there may be room for the largest of the others.
    pub(crate) fn leave(&self, id: Option<u64>, class: Class) {
        let Some(n) = id else { return };
        self.waiters[class as usize].remove(n);
        if self.is_waited_for(class) && self.has_room(0, class) {
            self.let_go(class);
        }
    }
    /// Announces that a registered session has nothing to flush, and is to be woken by the next
    /// append. The session then looks at the tail once more. Either it sees the append's tail, or
    /// the append sees the announcement: the append changes `promised` in between.
    pub(crate) fn await_append(&self) {
        self.awaits_append.store(true, SeqCst);
        self.promised.load(SeqCst);
    }
    #[cold]
    fn appended(&self) {
        if self.awaits_append.swap(false, SeqCst) {
            self.wake_all();
        }
    }
    /// Tells all waiting sessions that no segment could be made. Returns whether this is the first
    /// failure since a segment was made.
    pub(crate) fn failed(&self, e: Error) -> bool {
        let news = {
            let mut t = self.failure.lock();
            t.0 += 1;
            t.1.replace(e).is_none()
        };
        self.wake_all();
        news
    }
    pub(crate) fn recovered(&self) {
        self.failure.lock().1 = None;
    }
    /// Whether no segment could be made the last time.
    pub(in crate::log) fn is_failing(&self) -> bool {
        self.failure.lock().1.is_some()
    }
    /// How often making a segment has failed, and the reason of the last failure if no segment was
    /// made since.
    pub(crate) fn failure(&self) -> (u64, Option<Error>) {
        self.failure.lock().clone()
    }
}

/// A delay of 0.1 ms, which doubles with each tenth of the way from `from` to `to`.
fn delay_us(at: u64, from: u64, to: u64) -> u64 {
    if at <= from || to <= from {
        return 0;
    }
    let way = ((at - from) as f64 / (to - from) as f64).min(1.0);
    ((100.0 * ((10.0 * way).exp2() - 1.0)) as u64).min(DELAY_MAX_US)
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::testing::AtEnd;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    fn bounds() -> Bounds {
        Bounds {
            written: 5000,
            buffer_bytes: 1 << 16,
            buffer_from: 0,
            checkpoint: 4096,
            in_force_bytes: 1 << 20,
            capacity_bytes: 1 << 20,
            files_end: 1 << 18,
            segment_bytes: 1 << 18,
        }
    }

    #[test]
    fn the_least_bound_counts() {
        let s = LogRoom::new(5000, bounds());
        assert_eq!(s.scarce(Class::Ordinary), Scarce::Buffer);
        // LOGBUF-4: the block that is not yet whole in the file stays in the ring.
        let room = 4096 + (1 << 16) - 5000;
        assert!(matches!(
            s.credit(1 << 20, Class::Ordinary),
            Err(WouldBlock::Failed(Error::Unsupported(_)))
        ));
        let (a, b) = (
            s.credit(room / 2, Class::Ordinary).unwrap(),
            s.credit(room - room / 2, Class::Ordinary).unwrap(),
        );
        assert!(matches!(s.credit(1, Class::Ordinary), Err(WouldBlock::LogSpace(_))));
        a.spend(10);
        drop(b);
        assert_eq!(s.promised.load(Relaxed), 5010);
        s.update(|b| b.written = 1 << 20);
        assert_eq!(s.scarce(Class::Ordinary), Scarce::Files);
        s.update(|b| b.files_end = 1 << 22);
        assert_eq!(s.scarce(Class::Ordinary), Scarce::Capacity);
    }

    #[test]
    fn the_reserve_is_for_those_who_make_room() {
        let s = LogRoom::new(4096, Bounds { buffer_bytes: 1 << 22, ..bounds() });
        s.update(|b| b.files_end = 1 << 22);
        let end = 4096 + (1 << 20);
        let _a = s.credit(1 << 19, Class::Ordinary).unwrap();
        let _b = s.credit(end - (1 << 16) - 4096 - (1 << 19), Class::Ordinary).unwrap();
        assert!(matches!(s.credit(1, Class::Ordinary), Err(WouldBlock::LogSpace(_))));
        let _c = s.credit((1 << 16) - LAST_BYTES, Class::Reserved).unwrap();
        assert!(matches!(s.credit(1, Class::Reserved), Err(WouldBlock::LogSpace(_))));
        assert!(!s.has_room(1, Class::Reserved));
        let _d = s.credit(LAST_BYTES, Class::Last).unwrap();
        assert!(matches!(s.credit(1, Class::Last), Err(WouldBlock::LogSpace(_))));
        drop(_d);
        s.update(|b| b.checkpoint += 1);
        assert!(s.has_room(1, Class::Reserved) && !s.has_room(1, Class::Ordinary));
    }

    /// Counts how often it wakes.
    #[derive(Default)]
    struct Wakes(AtomicUsize);
    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    fn waiter(s: &LogRoom, bytes: u64) -> (Option<u64>, Arc<Wakes>) {
        let (mut id, wakes) = (None, Arc::new(Wakes::default()));
        assert!(
            matches!(s.credit(bytes, Class::Ordinary), Err(WouldBlock::LogSpace(n)) if n == bytes)
        );
        s.register(&mut id, bytes, Class::Ordinary, &wakes.clone().into());
        (id, wakes)
    }
    /// Takes all room for ordinary work but `rest` bytes.
    fn all_but(s: &LogRoom, rest: u64) -> Vec<Credit<'_>> {
        let of = |room: u64| room.min(1 << 14);
        let room = || s.limits.room[0].load(SeqCst) - s.promised.load(SeqCst) - rest;
        let credit = || Some(room()).filter(|n| *n > 0).map(|n| s.credit(of(n), Class::Ordinary));
        std::iter::from_fn(credit).map(|c| c.expect("there is room")).collect()
    }
    fn woken(wakes: &[&Wakes]) -> Vec<usize> {
        wakes.iter().map(|w| w.0.swap(0, Relaxed)).collect()
    }

    /// Tests CREDIT-4.
    #[test]
    fn a_wait_that_has_ended_holds_up_no_other() {
        let s = LogRoom::new(5000, bounds());
        let mut held = all_but(&s, 1000);
        let ((large, l), (small, m), (least, n)) =
            (waiter(&s, 30_000), waiter(&s, 20_000), waiter(&s, 2000));
        let all = [&*l, &*m, &*n];
        assert_eq!(s.demand(), s.promised.load(SeqCst) + 30_000);
        drop(held.pop());
        assert!(woken(&all) == [0, 0, 0] && !s.has_room(2000, Class::Ordinary), "the same chance");
        // There is no room for the next one, so that nobody is woken for nothing.
        s.leave(large, Class::Ordinary);
        assert!(woken(&all) == [0, 0, 0] && !s.has_room(2000, Class::Ordinary));
        s.leave(small, Class::Ordinary);
        assert_eq!(woken(&all), [0, 0, 1]);
        assert!(s.has_room(2000, Class::Ordinary));
        s.leave(least, Class::Ordinary);
        assert_eq!(s.demand(), s.promised.load(SeqCst));
    }

    /// A refund wakes the sessions of the classes for whose largest request there is room then.
    #[test]
    fn a_refund_wakes_those_it_has_room_for() {
        let s = LogRoom::new(5000, bounds());
        let mut held = all_but(&s, 1000);
        let (_, ordinary) = waiter(&s, 30_000);
        drop(s.credit(100, Class::Ordinary));
        drop(held.pop());
        assert_eq!(woken(&[&ordinary]), [0]);
        drop(held.pop());
        assert_eq!(woken(&[&ordinary]), [1]);
    }

    /// Optional work that is refused does not wait, and holds up nobody.
    #[test]
    fn refused_optional_work_is_forgotten() {
        let s = LogRoom::new(5000, bounds());
        let _held = all_but(&s, 1000);
        assert!(s.spare_credit(4096).is_none());
        assert_eq!(s.demand(), s.promised.load(SeqCst));
    }

    fn roomy() -> LogRoom {
        let s = LogRoom::new(
            4096,
            Bounds { written: 4096, buffer_bytes: 1 << 30, files_end: 1 << 30, ..bounds() },
        );
        assert_eq!(s.bounds().in_force_bytes, 1 << 20);
        s
    }
    fn grow(s: &LogRoom, bytes: u64) {
        s.credit(bytes, Class::Ordinary).unwrap().spend(bytes);
    }

    #[test]
    fn the_last_eighth_is_ever_slower() {
        let s = roomy();
        let most = (1 << 20) - (1 << 16);
        grow(&s, most / 8 * 7);
        assert!(!s.is_slow());
        grow(&s, most / 100);
        assert!(s.is_slow());
        let mut last = 0;
        for _ in 0..10 {
            let (from, to) = s.bounds().soft();
            let us = delay_us(s.promised.load(Relaxed), from, to);
            assert!(us > last && us <= DELAY_MAX_US, "{us} after {last}");
            last = us;
            grow(&s, most / 100);
        }
        assert!(last > 20_000, "{last}");
        // Delays below a timer's unit are added up, not forgotten.
        s.set_checkpoint(4096 + most / 100 * 9);
        assert!(s.is_slow());
        let (from, to) = s.bounds().soft();
        let us = delay_us(s.promised.load(Relaxed), from, to);
        assert!(us > 0 && us < 1000, "{us}");
        s.owed_us.store(0, Relaxed);
        let slept: u64 = (0..1000).filter_map(|_| s.delay()).map(|d| d.as_micros() as u64).sum();
        assert!(slept <= 1000 * us && slept + 1000 >= 1000 * us, "{slept} for 1000 times {us}");
        s.set_checkpoint(1 << 19);
        assert!(!s.is_slow());
    }

    #[test]
    fn a_smaller_capacity_comes_with_the_checkpoint() {
        let s = roomy();
        s.set_capacity(1 << 24);
        assert_eq!(s.bounds().in_force_bytes, 1 << 24, "at once");
        grow(&s, 1 << 23);
        s.set_capacity(1 << 20);
        let b = s.bounds();
        assert_eq!((b.in_force_bytes, b.capacity_bytes), ((1 << 23) + (1 << 21), 1 << 20));
        grow(&s, 1 << 17); // No writer is stopped.
        let mut before = b.in_force_bytes;
        let mut checkpoints = 0;
        while s.bounds().in_force_bytes > 1 << 20 {
            s.set_checkpoint(s.bounds().checkpoint + (1 << 17));
            let b = s.bounds();
            assert!(b.in_force_bytes < before);
            before = b.in_force_bytes;
            checkpoints += 1;
            if s.credit(1 << 15, Class::Ordinary).is_ok() {
                grow(&s, 1 << 15);
            }
        }
        assert!(checkpoints > 40);
        // The redo log is too long already when it is opened.
        let b = Bounds {
            written: 1 << 24,
            checkpoint: 1 << 22,
            capacity_bytes: 1 << 20,
            files_end: 1 << 25,
            ..bounds()
        };
        let s = LogRoom::new(1 << 24, b);
        assert!(s.bounds().in_force_bytes > (1 << 24) - (1 << 22));
        s.set_checkpoint((1 << 24) - 4096);
        assert_eq!(s.bounds().in_force_bytes, 1 << 20);
    }

    /// CREDIT-2: room that is taken back is promised to no session, even if sessions ask meanwhile.
    #[test]
    fn lowered_limits_hold_for_all() {
        let big = 1 << 40;
        let s = LogRoom::new(
            4096,
            Bounds { buffer_bytes: big, in_force_bytes: big, capacity_bytes: big, ..bounds() },
        );
        let (tail, stop) = (AtomicU64::new(4096), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let _ends = AtEnd(|| stop.store(true, Relaxed));
            for _ in 0..3 {
                scope.spawn(|| {
                    // One that fails ends all.
                    let _ends = AtEnd(|| stop.store(true, Relaxed));
                    while !stop.load(Relaxed) {
                        if let Ok(c) = s.credit(1000, Class::Reserved) {
                            let end = tail.fetch_add(700, SeqCst) + 700;
                            assert!(end <= s.bounds().files_end, "CREDIT-2: no segment for {end}");
                            c.spend(700);
                        }
                    }
                });
            }
            for _ in 0..300 {
                let before = s.promised.load(SeqCst);
                s.update(|b| b.files_end += 1 << 18);
                while s.promised.load(SeqCst) < before + 5000 && !stop.load(Relaxed) {
                    std::thread::yield_now();
                }
                s.lower_files_end(1 << 18);
            }
        });
        assert!(
            s.promised.load(SeqCst) <= s.bounds().files_end && s.promised.load(SeqCst) > 1 << 18
        );
    }
}
