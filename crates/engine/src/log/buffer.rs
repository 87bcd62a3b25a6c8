//! The log buffer: a ring of memory into which threads copy their frames side by side, without a lock.
//!
//! BUF-1: `reserve` hands out consecutive ranges: the stream has no gap and no overlap.
//! BUF-2: every byte below `ready()` has been copied, and the copy happens before whoever reads `ready()`.
//! BUF-3: every frame that ends at or below `dirty_low()` has been entered (pages stamped, in the dirty index).
//! BUF-4: a byte is copied into the ring only when the byte it replaces is in a file, with its whole block (credit sees to it).
//!
//! Each thread has a slot of its own: `copy_low` and `dirty_low`, at most the start of the range it is working on, `IDLE` when it works on none.
//!
//!     reserve: t = tail; slot = (t, t); start = tail.fetch_add(len)
//!     reader:  T = tail (acquire); low = min(T, every slot)
//!
//! Why BUF-2 holds: a reservation below T did its fetch_add before the one that T was read from, so its slot store (before that fetch_add) is
//! visible to the reader: the reader sees t <= start, or something newer: `IDLE` after the copy, or the t of the same thread's next frame, which is
//! not below the end of this one. All slot stores are releases, so the copy comes with the newer value.
use super::sync::{AtomicU64, Padded};
use super::threads;
use parking_lot::{Mutex, MutexGuard};
use redolith_disk::AlignedBuf;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const IDLE: u64 = u64::MAX;
/// Threads beyond this many share the last slot, one at a time.
pub(super) const SLOTS: usize = 256;

#[derive(Debug)]
pub(super) struct Slot {
    copy_low: AtomicU64,
    dirty_low: AtomicU64,
    /// Frames and bytes of this thread: counted here because the line is this thread's own.
    frames: Count,
    bytes: Count,
}
/// Not part of what models explore.
type Count = std::sync::atomic::AtomicU64;

/// The order of the frames: who has reserved what and is how far with it.
#[derive(Debug)]
pub(super) struct Reservations {
    tail: Padded<AtomicU64>,
    slots: Box<[Padded<Slot>]>,
    shared: Mutex<()>,
}

/// A slot for the length of one append.
pub(super) struct Seat<'a> {
    slot: &'a Slot,
    _shared: Option<MutexGuard<'a, ()>>,
}

impl Reservations {
    pub fn new(tail: u64, slots: usize) -> Reservations {
        let slot = || {
            Padded(Slot { copy_low: AtomicU64::new(IDLE), dirty_low: AtomicU64::new(IDLE), frames: Count::new(0), bytes: Count::new(0) })
        };
        Reservations { tail: Padded(AtomicU64::new(tail)), slots: (0..slots).map(|_| slot()).collect(), shared: Mutex::new(()) }
    }
    /// The calling thread's slot.
    pub fn seat(&self) -> Seat<'_> {
        self.seat_no(threads::number())
    }
    pub fn seat_no(&self, thread: usize) -> Seat<'_> {
        let last = self.slots.len() - 1;
        let shared = (thread >= last).then(|| self.shared.lock());
        Seat { slot: &self.slots[thread.min(last)].0, _shared: shared }
    }
    pub fn tail(&self) -> u64 {
        self.tail.load(Acquire)
    }
    /// Everything below is copied (BUF-2).
    pub fn ready(&self) -> u64 {
        self.low(|s| &s.copy_low)
    }
    /// Every frame below is entered (BUF-3). Read before the dirty index.
    pub fn dirty_low(&self) -> u64 {
        self.low(|s| &s.dirty_low)
    }
    fn low(&self, of: impl Fn(&Slot) -> &AtomicU64) -> u64 {
        let tail = self.tail.load(Acquire);
        // After the tail: a thread that has reserved below it took its number before.
        let last = self.slots.len() - 1;
        let used = self.slots[..last].iter().take(threads::high()).chain([&self.slots[last]]);
        used.fold(tail, |low, s| low.min(of(s).load(Acquire)))
    }
    /// Frames and bytes appended.
    pub fn counts(&self) -> (u64, u64) {
        self.slots.iter().fold((0, 0), |(f, b), s| (f + s.frames.load(Relaxed), b + s.bytes.load(Relaxed)))
    }
}

impl Seat<'_> {
    /// The first LSN of a range of `len` bytes that is now this thread's to fill.
    pub fn reserve(&self, all: &Reservations, len: u64) -> u64 {
        let t = all.tail.load(Relaxed);
        self.slot.copy_low.store(t, Release);
        self.slot.dirty_low.store(t, Release);
        all.tail.fetch_add(len, AcqRel)
    }
    pub fn copied(&self) {
        self.slot.copy_low.store(IDLE, Release);
    }
    pub fn entered(&self, bytes: u64) {
        // The line is this thread's alone: no read-modify-write is needed.
        self.slot.frames.store(self.slot.frames.load(Relaxed) + 1, Relaxed);
        self.slot.bytes.store(self.slot.bytes.load(Relaxed) + bytes, Relaxed);
        self.slot.dirty_low.store(IDLE, Release);
    }
}

/// The memory of the ring; an LSN's byte is at `lsn & (size - 1)`.
pub(super) struct Ring {
    _mem: AlignedBuf,
    base: *mut u8,
    mask: u64,
}
// SAFETY: bytes are accessed only through `fill` and `read`, whose callers hold disjoint ranges or have a happens-before between them.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// `bytes` is a power of two.
    pub fn new(bytes: usize) -> Ring {
        assert!(bytes.is_power_of_two());
        let mut mem = AlignedBuf::new(bytes);
        Ring { base: mem.as_mut_ptr(), mask: bytes as u64 - 1, _mem: mem }
    }
    pub fn size(&self) -> u64 {
        self.mask + 1
    }
    /// Splits a range at the end of the memory: offset and length of the first part; the second begins at 0.
    fn split(&self, lsn: u64, len: usize) -> (usize, usize) {
        assert!(len as u64 <= self.size());
        let at = (lsn & self.mask) as usize;
        (at, len.min(self.size() as usize - at))
    }
    /// # Safety
    /// The caller has reserved `[lsn, lsn + bytes.len())`, has not published it yet, and BUF-4 holds for it.
    pub unsafe fn fill(&self, lsn: u64, bytes: &[u8]) {
        let (at, first) = self.split(lsn, bytes.len());
        // SAFETY: both parts lie in the memory (split), and the range is the caller's alone.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), first);
            std::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), self.base, bytes.len() - first);
        }
    }
    /// # Safety
    /// The range is below a `ready()` that the caller has read, and not below the first block that is not whole in a file.
    pub unsafe fn read(&self, lsn: u64, out: &mut [u8]) {
        let (at, first) = self.split(lsn, out.len());
        // SAFETY: both parts lie in the memory, are initialised, and nobody writes them before the caller says they are in a file (BUF-4).
        unsafe {
            std::ptr::copy_nonoverlapping(self.base.add(at), out.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(self.base, out.as_mut_ptr().add(first), out.len() - first);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_ring_wraps() {
        let ring = Ring::new(4096);
        let bytes: Vec<u8> = (0..100).collect();
        // SAFETY: one thread.
        unsafe { ring.fill(3 * 4096 - 30, &bytes) };
        let mut out = [0; 100];
        // SAFETY: one thread.
        unsafe { ring.read(3 * 4096 - 30, &mut out) };
        assert_eq!(out[..], bytes);
        // SAFETY: one thread.
        unsafe { ring.read(0, &mut out[..70]) };
        assert_eq!(out[..70], bytes[30..]);
    }

    #[test]
    fn an_unfinished_copy_holds_ready_back() {
        threads::at_least(2);
        let r = Reservations::new(1000, 4);
        let (a, b) = (r.seat_no(0), r.seat_no(1));
        assert_eq!(a.reserve(&r, 10), 1000);
        assert_eq!(b.reserve(&r, 20), 1010);
        b.copied();
        assert_eq!((r.ready(), r.tail()), (1000, 1030));
        a.copied();
        assert_eq!((r.ready(), r.dirty_low()), (1030, 1000));
        a.entered(10);
        assert_eq!(r.dirty_low(), 1010);
        b.entered(20);
        assert_eq!((r.dirty_low(), r.counts()), (1030, (2, 30)));
    }

    #[test]
    fn threads_beyond_the_slots_take_turns() {
        threads::at_least(1);
        let r = Reservations::new(0, 2);
        std::thread::scope(|s| {
            for thread in [1, 2, usize::MAX] {
                let r = &r;
                s.spawn(move || {
                    for _ in 0..1000 {
                        let seat = r.seat_no(thread);
                        let start = seat.reserve(r, 8);
                        assert!(r.ready() <= start);
                        seat.copied();
                        seat.entered(8);
                    }
                });
            }
        });
        assert_eq!((r.ready(), r.dirty_low(), r.counts()), (24000, 24000, (3000, 24000)));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use std::sync::Arc;

    struct Model {
        r: Reservations,
        bytes: [UnsafeCell<u64>; 4],
        entered: [UnsafeCell<u64>; 4],
    }
    impl Model {
        fn append(&self, thread: usize) {
            let seat = self.r.seat_no(thread);
            let at = seat.reserve(&self.r, 1) as usize;
            // SAFETY: the reserved byte is this thread's alone; loom checks just that.
            self.bytes[at].with_mut(|b| unsafe { *b = 1 });
            seat.copied();
            // SAFETY: as above.
            self.entered[at].with_mut(|b| unsafe { *b = 1 });
            seat.entered(1);
        }
        fn check(&self) {
            for at in 0..self.r.ready() as usize {
                // SAFETY: BUF-2; loom fails if a copy is not ordered before.
                assert_eq!(self.bytes[at].with(|b| unsafe { *b }), 1, "BUF-2 at {at}");
            }
            for at in 0..self.r.dirty_low() as usize {
                // SAFETY: BUF-3.
                assert_eq!(self.entered[at].with(|b| unsafe { *b }), 1, "BUF-3 at {at}");
            }
        }
    }
    /// Two threads append so many frames; a third looks while they do.
    fn model(preemptions: usize, frames: [usize; 2]) {
        let mut b = loom::model::Builder::new();
        b.preemption_bound = Some(preemptions);
        b.check(move || {
            let m = Arc::new(Model { r: Reservations::new(0, 3), bytes: Default::default(), entered: Default::default() });
            let threads: Vec<_> = (0..2)
                .map(|t| {
                    let m = m.clone();
                    loom::thread::spawn(move || (0..frames[t]).for_each(|_| m.append(t)))
                })
                .collect();
            m.check();
            threads.into_iter().for_each(|t| t.join().unwrap());
            let all = (frames[0] + frames[1]) as u64;
            assert_eq!((m.r.ready(), m.r.dirty_low()), (all, all));
        });
    }
    #[test]
    fn loom_reserve_publish_ready() {
        model(3, [1, 1]);
    }
    /// A slot that is used again.
    #[test]
    fn loom_reserve_publish_ready_again() {
        model(3, [2, 0]);
    }
    #[test]
    fn loom_reserve_publish_ready_three() {
        model(2, [2, 1]);
    }
}
