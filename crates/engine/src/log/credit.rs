//! Room in the log: credit is taken before latches, for as many bytes as the mini-transaction may write at most, and what it did not use goes back.
//!
//! CREDIT-1: `tail <= promised <= limit`. `promised` is the tail plus all outstanding credit; an append moves the tail and gives back the rest.
//! CREDIT-2: `limit` is the least of: whole blocks written + the buffer's size (BUF-4); checkpoint + capacity; the end of the segments that exist.
//! Ordinary work leaves a reserve of the latter two to rollback, undo and the cleaners, without which the checkpoint could not move.
//! CREDIT-3: a stalled session is woken when there may be room: whoever makes room stores it, then looks at `waiting`; a session that waits
//! registers, then looks at the room (all SeqCst).
use super::sync::Padded;
use crate::base::{Error, Stall, Try};
use parking_lot::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::task::Waker;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Ordinary,
    /// May use the reserve.
    Reserved,
}

/// What the room is made of. LSNs.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub written: u64,
    pub buffer_bytes: u64,
    pub checkpoint: u64,
    pub capacity_bytes: u64,
    pub files_end: u64,
    pub segment_bytes: u64,
}
/// What is in short supply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scarce {
    /// The log must be written.
    Buffer,
    /// The checkpoint must move.
    Capacity,
    /// A segment must be made.
    Files,
}
impl Bounds {
    fn buffer_end(&self) -> u64 {
        self.written / 4096 * 4096 + self.buffer_bytes
    }
    fn capacity_end(&self, class: Class) -> u64 {
        self.checkpoint + self.capacity_bytes - if class == Class::Ordinary { self.capacity_bytes / 16 } else { 0 }
    }
    fn files_end(&self, class: Class) -> u64 {
        self.files_end - if class == Class::Ordinary { (self.capacity_bytes / 16).min(self.segment_bytes / 4) } else { 0 }
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

#[derive(Default)]
struct Waiters {
    list: Vec<(u64, Waker)>,
    next: u64,
}

pub(super) struct Space {
    promised: Padded<AtomicU64>,
    limits: Padded<[AtomicU64; 2]>,
    /// The largest request that stalled, by class; forgotten when nobody waits.
    wanted: [AtomicU64; 2],
    bounds: Mutex<Bounds>,
    waiters: Mutex<Waiters>,
    waiting: AtomicUsize,
    /// Why no segment could be made, and how often that happened.
    trouble: Mutex<(u64, Option<Error>)>,
}

/// Room for `bytes`; goes back when dropped.
pub struct Credit<'l> {
    space: &'l Space,
    bytes: u64,
}
impl Credit<'_> {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// The tail has moved by `used`.
    pub(super) fn spend(mut self, used: u64) {
        self.bytes = self.bytes.checked_sub(used).expect("CREDIT-1: a frame is no longer than its credit");
    }
}
impl Drop for Credit<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.space.promised.fetch_sub(self.bytes, SeqCst);
            self.space.wake_if_room();
        }
    }
}

impl Space {
    pub fn new(tail: u64, bounds: Bounds) -> Space {
        let s = Space {
            promised: Padded(AtomicU64::new(tail)),
            limits: Padded(Default::default()),
            wanted: Default::default(),
            bounds: Mutex::new(bounds),
            waiters: Mutex::default(),
            waiting: AtomicUsize::new(0),
            trouble: Mutex::default(),
        };
        s.update(|_| ());
        s
    }
    /// The largest credit there can be: what one is sure to get once everything before it is written and checkpointed.
    pub fn credit_max(&self) -> u64 {
        let b = self.bounds.lock();
        (b.buffer_bytes - 4096).min(b.capacity_bytes / 2)
    }
    pub fn credit(&self, bytes: u64, class: Class) -> Try<Credit<'_>> {
        let limit = &self.limits[class as usize];
        let mut promised = self.promised.load(Relaxed);
        loop {
            // The limit's load pairs with the store after the bytes were read out of the ring (BUF-4).
            if promised + bytes > limit.load(Acquire) {
                return Err(self.short(bytes, class));
            }
            match self.promised.compare_exchange_weak(promised, promised + bytes, Acquire, Relaxed) {
                Ok(_) => return Ok(Credit { space: self, bytes }),
                Err(p) => promised = p,
            }
        }
    }
    #[cold]
    fn short(&self, bytes: u64, class: Class) -> Stall {
        if bytes > self.credit_max() {
            let max = self.credit_max();
            return Stall::Failed(Error::Unsupported(format!(
                "a change of {bytes} bytes is larger than the log takes at once ({max} bytes)"
            )));
        }
        self.wanted[class as usize].fetch_max(bytes, SeqCst);
        Stall::LogSpace
    }
    /// Changes the bounds: the only way in which there comes to be room, but for refunds.
    pub fn update(&self, change: impl FnOnce(&mut Bounds)) {
        {
            let mut b = self.bounds.lock();
            change(&mut b);
            for class in [Class::Ordinary, Class::Reserved] {
                self.limits[class as usize].store(b.limit(class), SeqCst);
            }
        }
        self.wake_if_room();
    }
    pub fn bounds(&self) -> Bounds {
        self.bounds.lock().clone()
    }
    pub fn scarce(&self, class: Class) -> Scarce {
        self.bounds.lock().scarce(class)
    }
    /// Whether the largest stalled request of the class would fit now.
    pub fn has_room(&self, class: Class) -> bool {
        let wanted = self.wanted[class as usize].load(SeqCst);
        self.promised.load(SeqCst) + wanted <= self.limits[class as usize].load(SeqCst)
    }
    /// The LSN up to which room is promised or was asked for.
    pub fn demand(&self) -> u64 {
        let wanted = self.wanted.iter().map(|w| w.load(SeqCst)).max();
        self.promised.load(SeqCst) + wanted.unwrap_or(0)
    }
    fn wake_if_room(&self) {
        if self.waiting.load(SeqCst) > 0 && (self.has_room(Class::Ordinary) || self.has_room(Class::Reserved)) {
            self.wake_all();
        }
    }
    #[cold]
    fn wake_all(&self) {
        let list = {
            let mut w = self.waiters.lock();
            self.waiting.store(0, SeqCst);
            std::mem::take(&mut w.list)
        };
        list.into_iter().for_each(|w| w.1.wake());
    }
    /// Registers or renews a waker; `id` is the number it has, if it has one.
    pub fn register(&self, id: &mut Option<u64>, waker: &Waker) {
        let mut w = self.waiters.lock();
        let n = *id.get_or_insert_with(|| {
            w.next += 1;
            w.next
        });
        match w.list.iter_mut().find(|x| x.0 == n) {
            Some(x) => x.1.clone_from(waker),
            None => w.list.push((n, waker.clone())),
        }
        self.waiting.store(w.list.len(), SeqCst);
    }
    pub fn unregister(&self, id: Option<u64>) {
        let Some(n) = id else { return };
        let mut w = self.waiters.lock();
        w.list.retain(|x| x.0 != n);
        self.waiting.store(w.list.len(), SeqCst);
        if w.list.is_empty() {
            self.wanted.iter().for_each(|w| w.store(0, SeqCst));
        }
    }
    /// No segment could be made: whoever waits is told. Returns whether that is news.
    pub fn failed(&self, e: Error) -> bool {
        let news = {
            let mut t = self.trouble.lock();
            t.0 += 1;
            t.1.replace(e).is_none()
        };
        self.wake_all();
        news
    }
    pub fn recovered(&self) {
        self.trouble.lock().1 = None;
    }
    /// How often making a segment has failed, and why the last time if it has not worked since.
    pub fn trouble(&self) -> (u64, Option<Error>) {
        self.trouble.lock().clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            written: 5000,
            buffer_bytes: 1 << 16,
            checkpoint: 4096,
            capacity_bytes: 1 << 20,
            files_end: 1 << 18,
            segment_bytes: 1 << 18,
        }
    }

    #[test]
    fn the_least_bound_counts() {
        let s = Space::new(5000, bounds());
        assert_eq!(s.scarce(Class::Ordinary), Scarce::Buffer);
        // BUF-4: the block that is not whole in the file stays in the ring.
        let room = 4096 + (1 << 16) - 5000;
        assert!(matches!(s.credit(1 << 20, Class::Ordinary), Err(Stall::Failed(Error::Unsupported(_)))));
        let (a, b) = (s.credit(room / 2, Class::Ordinary).unwrap(), s.credit(room - room / 2, Class::Ordinary).unwrap());
        assert!(matches!(s.credit(1, Class::Ordinary), Err(Stall::LogSpace)));
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
        let s = Space::new(4096, Bounds { buffer_bytes: 1 << 22, ..bounds() });
        s.update(|b| b.files_end = 1 << 22);
        let end = 4096 + (1 << 20);
        let _a = s.credit(1 << 19, Class::Ordinary).unwrap();
        let _b = s.credit(end - (1 << 16) - 4096 - (1 << 19), Class::Ordinary).unwrap();
        assert!(matches!(s.credit(1, Class::Ordinary), Err(Stall::LogSpace)));
        let _c = s.credit(1 << 16, Class::Reserved).unwrap();
        assert!(matches!(s.credit(1, Class::Reserved), Err(Stall::LogSpace)));
        assert!(!s.has_room(Class::Reserved));
        s.update(|b| b.checkpoint += 1);
        assert!(s.has_room(Class::Reserved) && !s.has_room(Class::Ordinary));
    }
}
