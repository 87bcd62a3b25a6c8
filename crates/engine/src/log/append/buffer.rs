//! The log buffer: a ring of memory into which threads copy their frames side by side, without a
//! lock.
//!
//! - LOGBUF-1: `reserve` hands out consecutive ranges: the stream has no gap and no overlap.
//! - LOGBUF-2: every byte below `ready()` has been copied, and the copy happens before the read of
//!   `ready()`.
//! - LOGBUF-3: every frame that ends at or below `dirty_low()` has been entered: its pages are
//!   stamped and in the dirty index.
//! - LOGBUF-4: a byte is copied into the ring only when the byte that it replaces is in a file,
//!   with its whole block. Credit ensures this.
//!
//! **Another size.** The ring has two memories, and one word has the LSN (a multiple of the block
//! size) from which the newer memory is used. For a change of the size, credit is refused for a
//! moment, the LSN is set at or above everything promised, and credit is given again within the new
//! size (`LogRoom::set_buffer`). No session waits for this.
//! - LOGBUF-5: threads that fill or read a byte choose the same memory for it. A thread that got
//!   its credit before the change stays below the LSN; a thread that got it later comes after
//!   others who saw the word.
//! - LOGBUF-6: the older memory is replaced only when everything below the LSN is in files, with
//!   its whole block.
//!
//! Each thread has a slot of its own, with `copy_low` and `dirty_low`. Both are at most the start
//! of the range that the thread is working on, and `IDLE` when it works on none.
//!
//! ```text
//! reserve: t = tail; slot = (t, t); start = tail.fetch_add(len)
//! reader:  T = tail (acquire); low = min(T, every slot)
//! ```
//!
//! LOGBUF-2 holds for this reason: a reservation below T did its fetch_add before the fetch_add
//! whose result T is. Its slot store came before its own fetch_add, so the store is visible to the
//! reader. The reader sees t <= start or a newer value. The newer value is `IDLE`, stored after the
//! copy, or the t of the same thread's next frame, which is not below the end of this frame. All
//! slot stores are releases, so a reader that sees the newer value also sees the copy.
use crate::log::append::slots;
use crate::sync::log::{AtomicU64, Padded};
use parking_lot::{Mutex, MutexGuard};
use redolith_disk::AlignedBuf;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64 as Word};

const IDLE: u64 = u64::MAX;
/// Threads beyond this number share the last slot, one at a time.
pub(in crate::log) const SLOTS: usize = 256;

#[derive(Debug)]
pub(in crate::log) struct Slot {
    copy_low: AtomicU64,
    dirty_low: AtomicU64,
    /// The frames and bytes of this thread. They are counted here because the cache line is this
    /// thread's own.
    frames: Count,
    bytes: Count,
}
/// Counters are not part of the models that loom explores.
type Count = std::sync::atomic::AtomicU64;

/// The order of the frames: which ranges are reserved, and how far each thread is with its range.
#[derive(Debug)]
pub(crate) struct Reservations {
    tail: Padded<AtomicU64>,
    slots: Box<[Padded<Slot>]>,
    shared: Mutex<()>,
}

/// A thread's slot for the length of one append.
pub(crate) struct Seat<'a> {
    slot: &'a Slot,
    _shared: Option<MutexGuard<'a, ()>>,
}

impl Reservations {
    pub(crate) fn new(tail: u64, slots: usize) -> Reservations {
        let slot = || {
            Padded(Slot {
                copy_low: AtomicU64::new(IDLE),
                dirty_low: AtomicU64::new(IDLE),
                frames: Count::new(0),
                bytes: Count::new(0),
            })
        };
        Reservations {
            tail: Padded(AtomicU64::new(tail)),
            slots: (0..slots).map(|_| slot()).collect(),
            shared: Mutex::new(()),
        }
    }
    /// The slot of the calling thread.
    pub(crate) fn seat(&self) -> Seat<'_> {
        self.seat_no(slots::number())
    }
    pub(crate) fn seat_no(&self, thread: usize) -> Seat<'_> {
        let last = self.slots.len() - 1;
        let shared = (thread >= last).then(|| self.shared.lock());
        Seat { slot: &self.slots[thread.min(last)].0, _shared: shared }
    }
    pub(crate) fn tail(&self) -> u64 {
        self.tail.load(Acquire)
    }
    /// Everything below this LSN is copied (LOGBUF-2).
    pub(crate) fn ready(&self) -> u64 {
        self.low(|s| &s.copy_low)
    }
    /// Every frame below this LSN is entered (LOGBUF-3). A checkpoint reads this before the dirty
    /// index.
    pub(crate) fn dirty_low(&self) -> u64 {
        self.low(|s| &s.dirty_low)
    }
    fn low(&self, of: impl Fn(&Slot) -> &AtomicU64) -> u64 {
        let tail = self.tail.load(Acquire);
        // The number of slots is read after the tail: a thread that reserved below this tail took
        // its number before it reserved.
        let last = self.slots.len() - 1;
        let used = self.slots[..last].iter().take(slots::high()).chain([&self.slots[last]]);
        used.fold(tail, |low, s| low.min(of(s).load(Acquire)))
    }
    /// The numbers of frames and bytes appended so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.slots
            .iter()
            .fold((0, 0), |(f, b), s| (f + s.frames.load(Relaxed), b + s.bytes.load(Relaxed)))
    }
}

impl Seat<'_> {
    /// Reserves a range of `len` bytes, which this thread is to fill. Returns its first LSN.
    pub(crate) fn reserve(&self, all: &Reservations, len: u64) -> u64 {
        let t = all.tail.load(Relaxed);
        self.slot.copy_low.store(t, Release);
        self.slot.dirty_low.store(t, Release);
        all.tail.fetch_add(len, AcqRel)
    }
    /// Reserves the range from the tail to the next multiple of `block`, which this thread is to
    /// fill. Returns its start and length, or None if the range has fewer than `least` bytes.
    pub(crate) fn reserve_to(
        &self,
        all: &Reservations,
        block: u64,
        least: u64,
    ) -> Option<(u64, u64)> {
        let mut t = all.tail.load(Relaxed);
        self.slot.copy_low.store(t, Release);
        self.slot.dirty_low.store(t, Release);
        loop {
            let len = t.next_multiple_of(block) - t;
            if len < least {
                self.copied();
                self.filled();
                return None;
            }
            // The slot keeps the older tail, which is not above the start either.
            match all.tail.compare_exchange_weak(t, t + len, AcqRel, Relaxed) {
                Ok(start) => return Some((start, len)),
                Err(now) => t = now,
            }
        }
    }
    pub(crate) fn copied(&self) {
        self.slot.copy_low.store(IDLE, Release);
    }
    /// As `entered`, for a range that fills a block and is not counted as a frame.
    pub(crate) fn filled(&self) {
        self.slot.dirty_low.store(IDLE, Release);
    }
    pub(crate) fn entered(&self, bytes: u64) {
        // Only this thread stores to the counters: no read-modify-write is needed.
        self.slot.frames.store(self.slot.frames.load(Relaxed) + 1, Relaxed);
        self.slot.bytes.store(self.slot.bytes.load(Relaxed) + bytes, Relaxed);
        self.slot.dirty_low.store(IDLE, Release);
    }
}

/// One memory of the ring: the byte of an LSN is at `lsn & mask`.
struct Memory {
    base: AtomicPtr<u8>,
    mask: Word,
}
/// The ring: its memories, and the LSN that divides them.
pub(in crate::log) struct Ring {
    /// The LSN from which the newer memory is used, a multiple of 4096. The lowest bit says which
    /// of the two memories is the newer one.
    split: Word,
    memories: [Memory; 2],
    /// The owners of the two memories.
    owned: Mutex<[Option<AlignedBuf>; 2]>,
}
// SAFETY: bytes are accessed only through `fill` and `read`, whose callers hold disjoint ranges or
// have a happens-before between them.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// `bytes` is a power of two.
    pub(crate) fn new(bytes: usize) -> Ring {
        let none = || Memory { base: AtomicPtr::new(std::ptr::null_mut()), mask: Word::new(0) };
        let ring =
            Ring { split: Word::new(0), memories: [none(), none()], owned: Mutex::default() };
        ring.put(0, AlignedBuf::new(bytes));
        ring
    }
    fn put(&self, which: u64, mut memory: AlignedBuf) {
        assert!(memory.len().is_power_of_two());
        let m = &self.memories[which as usize];
        m.base.store(memory.as_mut_ptr(), Relaxed);
        m.mask.store(memory.len() as u64 - 1, Relaxed);
        self.owned.lock()[which as usize] = Some(memory);
    }
    /// The size of the newer memory.
    pub(crate) fn size(&self) -> u64 {
        self.memories[(self.split.load(Acquire) & 1) as usize].mask.load(Relaxed) + 1
    }
    /// The LSN from which the newer memory is used. When everything below is in files, the older
    /// memory is of no use any more.
    pub(crate) fn split_at(&self) -> u64 {
        self.split.load(Acquire) & !1
    }
    /// Goes over to another memory while credit is refused. `promised` is the end of all promised
    /// ranges, and everything below `written` is in files. Returns the LSN from which the new
    /// memory is used, or None if the older memory is still needed (LOGBUF-6). Only one caller may
    /// be in here at a time.
    pub(crate) fn change(&self, memory: AlignedBuf, promised: u64, written: u64) -> Option<u64> {
        let word = self.split.load(Acquire);
        let (split, newer) = (word & !1, word & 1);
        if promised <= split {
            // The newer memory has no bytes yet, and no promised range reaches it.
            self.put(newer, memory);
            return Some(split);
        }
        if written < split {
            return None;
        }
        self.put(1 - newer, memory);
        let at = promised.next_multiple_of(4096);
        self.split.store(at | (1 - newer), Release);
        Some(at)
    }
    /// Frees the older memory. Everything below `split_at()` must be in files (LOGBUF-6).
    pub(crate) fn forget_older(&self) {
        let older = 1 - (self.split.load(Acquire) & 1) as usize;
        self.owned.lock()[older] = None;
    }
    /// Calls `part` with the place and the length of each part of a range, in order.
    #[inline]
    fn parts(&self, lsn: u64, len: usize, mut part: impl FnMut(*mut u8, usize)) {
        let word = self.split.load(Acquire);
        let (split, newer) = (word & !1, (word & 1) as usize);
        let (mut at, end) = (lsn, lsn + len as u64);
        while at < end {
            let (m, stop) = if at < split {
                (&self.memories[1 - newer], end.min(split))
            } else {
                (&self.memories[newer], end)
            };
            let mask = m.mask.load(Relaxed);
            assert!(stop - at <= mask + 1);
            let n = (stop - at).min(mask + 1 - (at & mask));
            // SAFETY: the offset is inside the memory, which has mask + 1 bytes.
            part(unsafe { m.base.load(Relaxed).add((at & mask) as usize) }, n as usize);
            at += n;
        }
    }
    /// # Safety
    /// The caller has reserved `[lsn, lsn + bytes.len())`, has not published it yet, and LOGBUF-4
    /// holds for it.
    pub(crate) unsafe fn fill(&self, lsn: u64, bytes: &[u8]) {
        let mut done = 0;
        self.parts(lsn, bytes.len(), |to, n| {
            // SAFETY: the part lies in the memory, and the range is the caller's alone.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().add(done), to, n) };
            done += n;
        });
    }
    /// # Safety
    /// The range is below a `ready()` that the caller has read, and not below the first block that
    /// is not whole in a file.
    pub(crate) unsafe fn read(&self, lsn: u64, out: &mut [u8]) {
        let (mut done, to) = (0, out.as_mut_ptr());
        self.parts(lsn, out.len(), |from, n| {
            // SAFETY: the part lies in the memory and is initialised, and no thread overwrites it
            // before the caller says that it is in a file (LOGBUF-4).
            unsafe { std::ptr::copy_nonoverlapping(from, to.add(done), n) };
            done += n;
        });
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    /// Tests LOGBUF-1.
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

    /// Tests LOGBUF-5.
    #[test]
    fn another_memory_takes_over_at_an_lsn() {
        let ring = Ring::new(65536);
        let mut at = 10 * 65536 - 5000;
        for (turn, size) in [16384, 1 << 20, 65536, 65536].into_iter().enumerate() {
            let split = (at + 3000u64).next_multiple_of(4096);
            assert_eq!(ring.change(AlignedBuf::new(8192), at + 3000, at), Some(split));
            // The new memory is replaced before it is used. A third memory would come too soon.
            assert_eq!(ring.change(AlignedBuf::new(size), at + 3000, at), Some(split));
            assert_eq!(ring.change(AlignedBuf::new(8192), split + 1, at), None);
            let bytes: Vec<u8> = (0..10_000).map(|i| (i * 7 + turn) as u8).collect();
            // SAFETY: one thread.
            unsafe { ring.fill(at, &bytes) };
            let mut out = vec![0; 10_000];
            // SAFETY: one thread.
            unsafe { ring.read(at, &mut out) };
            assert_eq!(out, bytes);
            assert_eq!((ring.size(), ring.split_at()), (size as u64, split));
            at += 10_000;
            ring.forget_older();
            // SAFETY: one thread.
            unsafe { ring.read(split, &mut out[..(at - split) as usize]) };
            assert_eq!(out[..(at - split) as usize], bytes[10_000 - (at - split) as usize..]);
        }
    }

    #[test]
    fn an_unfinished_copy_holds_ready_back() {
        slots::at_least(2);
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
        slots::at_least(1);
        let r = Reservations::new(0, 2);
        let rounds = if cfg!(miri) { 20 } else { 1000 };
        std::thread::scope(|s| {
            for thread in [1, 2, usize::MAX] {
                let r = &r;
                s.spawn(move || {
                    for _ in 0..rounds {
                        let seat = r.seat_no(thread);
                        let start = seat.reserve(r, 8);
                        assert!(r.ready() <= start);
                        seat.copied();
                        seat.entered(8);
                    }
                });
            }
        });
        assert_eq!(
            (r.ready(), r.dirty_low(), r.counts()),
            (rounds * 24, rounds * 24, (rounds * 3, rounds * 24))
        );
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::loom_model::explore;
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
            // SAFETY: the reserved byte is this thread's alone, as loom checks.
            self.bytes[at].with_mut(|b| unsafe { *b = 1 });
            seat.copied();
            // SAFETY: as above.
            self.entered[at].with_mut(|b| unsafe { *b = 1 });
            seat.entered(1);
        }
        fn check(&self) {
            for at in 0..self.r.ready() as usize {
                // SAFETY: LOGBUF-2. Loom fails if a copy is not ordered before this read.
                assert_eq!(self.bytes[at].with(|b| unsafe { *b }), 1, "LOGBUF-2 at {at}");
            }
            for at in 0..self.r.dirty_low() as usize {
                // SAFETY: LOGBUF-3.
                assert_eq!(self.entered[at].with(|b| unsafe { *b }), 1, "LOGBUF-3 at {at}");
            }
        }
    }
    /// `reserve_to` fills a block in one thread while another thread appends. A reader finds no
    /// hole.
    #[test]
    fn loom_a_block_is_filled_while_another_appends() {
        explore(3, || {
            let m = Arc::new(Model {
                r: Reservations::new(0, 3),
                bytes: Default::default(),
                entered: Default::default(),
            });
            let other = m.clone();
            let appends = loom::thread::spawn(move || (0..2).for_each(|_| other.append(0)));
            let seat = m.r.seat_no(1);
            if let Some((start, len)) = seat.reserve_to(&m.r, 2, 1) {
                assert_eq!((start + len) % 2, 0);
                for at in start..start + len {
                    // SAFETY: the reserved bytes are this thread's alone, as loom checks.
                    m.bytes[at as usize].with_mut(|b| unsafe { *b = 1 });
                    m.entered[at as usize].with_mut(|b| unsafe { *b = 1 });
                }
                seat.copied();
                seat.filled();
            }
            m.check();
            appends.join().unwrap();
            m.check();
        });
    }
    /// Each of two threads appends its number of frames, while a third thread looks.
    fn model(preemptions: usize, frames: [usize; 2]) {
        explore(preemptions, move || {
            let m = Arc::new(Model {
                r: Reservations::new(0, 3),
                bytes: Default::default(),
                entered: Default::default(),
            });
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
    /// A thread uses its slot twice.
    #[test]
    fn loom_reserve_publish_ready_again() {
        model(3, [2, 0]);
    }
    #[test]
    fn loom_reserve_publish_ready_three() {
        model(2, [2, 1]);
    }
}
