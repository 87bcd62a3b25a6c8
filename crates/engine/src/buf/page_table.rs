//! The page table, which tells the frame that holds a page.
//!
//! The table is an array of heads with chains through the frames. Readers walk the chains without a
//! lock: frames are never unmapped, the latch confirms the page, and a walk that a concurrent
//! change led astray finds nothing and is repeated under the shard's mutex.
//!
//! TABLE-1: chains and loads of a shard change only under its mutex. TABLE-2: under that mutex no
//! chained frame is reserved.
//! TABLE-3: a page has at most one frame in a chain, and at most one load that is not cancelled.
use super::frame::{Frame, Frames, pack};
use super::load::Load;
use crate::sync::buf::{AtomicU32, Mutex, MutexGuard, Words};
use crate::{PageId, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

const SHARDS: usize = if cfg!(loom) { 2 } else { 128 };
/// A longer walk has gone astray, or is better done under the mutex.
const MAX_WALK: usize = 64;

pub(crate) struct Table {
    heads: Words,
    shift: u32,
    shards: Box<[Shard]>,
}
#[repr(align(64))]
#[derive(Default)]
struct Shard {
    loads: Mutex<Vec<Arc<Load>>>,
}

/// Fibonacci hashing, whose high bits are the well-mixed ones.
#[inline]
pub(crate) fn hash(id: u64) -> u64 {
    (id ^ (id >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Table {
    pub(super) fn new(frames: u32) -> Result<Table> {
        let heads = (frames as usize * 2).next_power_of_two().max(SHARDS);
        Ok(Table {
            heads: Words::new(heads)?,
            shift: 64 - heads.trailing_zeros(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        })
    }
    /// The number of the chain that holds a page in a table for `frames` frames.
    #[cfg(all(test, loom))]
    pub fn chain(frames: u32, id: PageId) -> u64 {
        hash(pack(id)) >> Table::new(frames).expect("a small one").shift
    }
    #[inline]
    fn head(&self, hash: u64) -> &AtomicU32 {
        // SAFETY: hash >> shift is below the number of heads.
        unsafe { self.heads.get((hash >> self.shift) as usize) }
    }
    /// The frame that page `id` was in a moment ago; the caller confirms the page under the latch
    /// or a pin. The walk may miss the page while the chain is being changed.
    #[inline]
    pub(super) fn find<'f>(&self, frames: &'f Frames, id: u64) -> Option<(u32, &'f Frame)> {
        let mut link = self.head(hash(id)).load(Acquire);
        for _ in 0..MAX_WALK {
            let index = link.checked_sub(1)?;
            let frame = frames.get(index);
            if frame.id.load(Relaxed) == id {
                return Some((index, frame));
            }
            link = frame.next.load(Acquire);
        }
        None
    }
    /// Locks the shard of a page, in which look-ups and changes are exact.
    pub(super) fn lock(&self, id: PageId) -> ShardGuard<'_> {
        let id = pack(id);
        let hash = hash(id);
        let head = self.head(hash);
        // The shard is a function of the chain, so the shard's mutex guards whole chains.
        let shard = (hash >> self.shift) as usize % SHARDS;
        ShardGuard { id, head, loads: self.shards[shard].loads.lock() }
    }
    /// Calls `f` on every load under way, shard by shard.
    pub(super) fn for_each_load(&self, mut f: impl FnMut(&Load)) {
        self.shards.iter().for_each(|s| s.loads.lock().iter().for_each(|l| f(l)));
    }
}

pub(crate) struct ShardGuard<'a> {
    id: u64,
    head: &'a AtomicU32,
    /// The shard's reads under way.
    pub loads: MutexGuard<'a, Vec<Arc<Load>>>,
}
impl ShardGuard<'_> {
    pub(super) fn find(&self, frames: &Frames) -> Option<u32> {
        let mut link = self.head.load(Relaxed);
        while let Some(index) = link.checked_sub(1) {
            let frame = frames.get(index);
            if frame.id.load(Relaxed) == self.id {
                return Some(index);
            }
            link = frame.next.load(Relaxed);
        }
        None
    }
    pub(super) fn load(&self) -> Option<&Arc<Load>> {
        self.loads.iter().find(|l| pack(l.id) == self.id && !l.is_cancelled())
    }
    pub(super) fn insert(&mut self, frames: &Frames, index: u32) {
        debug_assert!(self.find(frames).is_none(), "TABLE-3");
        let frame = frames.get(index);
        frame.next.store(self.head.load(Relaxed), Release);
        self.head.store(index + 1, Release);
    }
    /// Takes the page's frame out of its chain. The frame keeps its `next`, so that readers that
    /// stand on the frame walk on.
    pub(super) fn remove(&mut self, frames: &Frames, index: u32) {
        let mut at = self.head;
        loop {
            let link =
                at.load(Relaxed).checked_sub(1).expect("a frame with a page is in its chain");
            let frame = frames.get(link);
            if link == index {
                at.store(frame.next.load(Relaxed), Release);
                return;
            }
            at = &frame.next;
        }
    }
}
