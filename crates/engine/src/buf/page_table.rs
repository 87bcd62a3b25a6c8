//! The page table, which tells the frame that holds a page.
//!
//! The table is an array of heads with chains through the frames. Readers walk the chains without a
//! lock: frames are never unmapped, the latch confirms the page, and a walk that a concurrent
//! change led astray finds nothing and is repeated under the shard's mutex.
//!
//! The array has two heads for each frame and grows with the pool. A level has 2^k heads, which the
//! highest k bits of a page's hash select, and level k + 1 divides each chain of level k in two.
//! Level k lies at words 2^k to 2^(k+1), so that one number, the level's shift, tells readers where
//! to look. The chains are divided a few at a time; until all are, readers miss those that have
//! been, and repeat their walk. The array never shrinks.
//!
//! TABLE-1: chains and loads of a shard change only under its mutex. TABLE-2: under that mutex no
//! chained frame is reserved.
//! TABLE-3: a page has at most one frame in a chain, and at most one load that is not cancelled.
//! TABLE-4: a shard is a range of hashes at every level. Its state tells which of its chains are
//! divided, and under its mutex a page is looked for in the one chain that may have it.
use super::frame::{Frame, Frames, pack};
use super::load::Load;
use crate::sync::buf::{AtomicU32, Mutex, MutexGuard, Words};
use crate::{PageId, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Flag, Ordering::*};

/// Shards of a table for fewer frames than [`LARGE`], and of one for more.
const SHARDS: u32 = if cfg!(loom) { 2 } else { 128 };
const SHARDS_OF_LARGE: u32 = if cfg!(loom) { 2 } else { 512 };
/// The frames of a pool of 16 GiB.
const LARGE: u32 = 1 << 20;
/// A longer walk has gone astray, or is better done under the mutex.
const MAX_WALK: usize = 64;
/// The most chains that are divided while a shard's mutex is held.
const SPLIT_PART: u32 = 64;

pub(crate) struct Table {
    heads: Words,
    /// 63 less the level at which readers look.
    shift: AtomicU32,
    /// A growth has begun and not ended: readers miss the chains that are divided.
    growing: Flag,
    /// The number of shards is 2 to the power of this.
    shard_bits: u32,
    shards: Box<[Shard]>,
}
#[repr(align(64))]
struct Shard {
    state: Mutex<State>,
}
pub(crate) struct State {
    /// The shard's reads under way.
    loads: Vec<Arc<Load>>,
    level: u32,
    /// So many of the shard's chains, the first ones, are divided and at the next level.
    split: u32,
}

/// Fibonacci hashing, whose high bits are the well-mixed ones.
#[inline]
pub(crate) fn hash(id: u64) -> u64 {
    (id ^ (id >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
/// The word of a hash's head: a one and then the highest bits of the hash, as many as the level.
#[inline]
fn word(hash: u64, shift: u32) -> usize {
    ((hash >> 1 | 1 << 63) >> shift) as usize
}
/// The level of a table for so many frames.
fn level_for(frames: u32, shards: u32) -> u32 {
    (u64::from(frames) * 2).next_power_of_two().max(u64::from(shards)).trailing_zeros()
}

impl Table {
    /// A table for `frames` frames, which can grow until it is one for `frames_max`.
    pub(super) fn new(frames: u32, frames_max: u32) -> Result<Table> {
        let shards = if frames_max < LARGE { SHARDS } else { SHARDS_OF_LARGE };
        let level = level_for(frames, shards);
        let heads = Words::reserve(2 << level_for(frames_max, shards))?;
        heads.allow(1 << level..2 << level)?;
        let state = |_| Mutex::new(State { loads: Vec::new(), level, split: 0 });
        Ok(Table {
            heads,
            shift: AtomicU32::new(63 - level),
            growing: Flag::new(false),
            shard_bits: shards.trailing_zeros(),
            shards: (0..shards).map(|i| Shard { state: state(i) }).collect(),
        })
    }
    /// The number of the chain that holds a page in a table for `frames` frames.
    #[cfg(all(test, loom))]
    pub fn chain(frames: u32, id: PageId) -> usize {
        word(hash(pack(id)), 63 - level_for(frames, SHARDS))
    }
    #[inline]
    fn head(&self, word: usize) -> &AtomicU32 {
        // SAFETY: the word is of a level that was allowed before any thread learnt its shift.
        unsafe { self.heads.get(word) }
    }
    /// The frame that page `id` was in a moment ago; the caller confirms the page under the latch
    /// or a pin. The walk may miss the page while the chain is being changed.
    #[inline]
    pub(super) fn find<'f>(&self, frames: &'f Frames, id: u64) -> Option<(u32, &'f Frame)> {
        let mut link = self.head(word(hash(id), self.shift.load(Acquire))).load(Acquire);
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
        let shard = word(hash, 63 - self.shard_bits) - self.shards.len();
        let state = self.shards[shard].state.lock();
        // TABLE-4
        let undivided = word(hash, 63 - state.level);
        let divided = undivided < self.first_word(shard, state.level) + state.split as usize;
        let at = if divided { word(hash, 62 - state.level) } else { undivided };
        ShardGuard { id, head: self.head(at), state }
    }
    /// The head of a shard's first chain at a level.
    fn first_word(&self, shard: usize, level: u32) -> usize {
        (self.shards.len() + shard) << (level - self.shard_bits)
    }
    /// Calls `f` on every load under way, shard by shard.
    pub(super) fn for_each_load(&self, mut f: impl FnMut(&Load)) {
        self.shards.iter().for_each(|s| s.state.lock().loads.iter().for_each(|l| f(l)));
    }
    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }
    /// Begins to grow by a level if the table is too small for `frames` frames, or goes on with a
    /// growth that was not ended. Returns whether it does: then the caller divides the chains of
    /// each shard ([`Table::split_part`]) and ends the growth. One task at a time grows the table.
    pub(super) fn begin_growth(&self, frames: u32) -> Result<bool> {
        let level = 63 - self.shift.load(Relaxed);
        let is_large = level >= level_for(frames, self.shards.len() as u32);
        if is_large && !self.growing.load(Relaxed) {
            return Ok(false);
        }
        self.heads.allow(2 << level..4 << level)?;
        self.growing.store(true, Relaxed);
        Ok(true)
    }
    /// Divides some chains of a shard. Returns true if there are more.
    pub(super) fn split_part(&self, frames: &Frames, shard: usize) -> bool {
        let level = 63 - self.shift.load(Relaxed);
        let mut state = self.shards[shard].state.lock();
        if state.level > level {
            return false;
        }
        let chains = 1 << (level - self.shard_bits);
        let end = chains.min(state.split + SPLIT_PART);
        for chain in state.split..end {
            self.split(frames, self.first_word(shard, level) + chain as usize);
        }
        state.split = end;
        if end < chains {
            return true;
        }
        (state.level, state.split) = (level + 1, 0);
        false
    }
    /// Divides a chain. The caller has the shard's mutex. Readers that walk the chain meanwhile may
    /// miss pages, and no page leaves the frames that they can reach.
    fn split(&self, frames: &Frames, from: usize) {
        let heads = [self.head(2 * from), self.head(2 * from + 1)];
        let mut ends = heads;
        let mut link = self.head(from).load(Relaxed);
        while let Some(index) = link.checked_sub(1) {
            let frame = frames.get(index);
            // The last bit of the word at the next level decides.
            let level = usize::BITS - 1 - from.leading_zeros();
            let half = word(hash(frame.id.load(Relaxed)), 62 - level) & 1;
            ends[half].store(link, Release);
            ends[half] = &frame.next;
            link = frame.next.load(Relaxed);
        }
        ends.iter().for_each(|end| end.store(0, Release));
        self.head(from).store(0, Release);
    }
    /// Readers look at the next level from now on: all chains are divided.
    pub(super) fn end_growth(&self) {
        let shift = self.shift.load(Relaxed) - 1;
        debug_assert!(self.shards.iter().all(|s| s.state.lock().level == 63 - shift));
        self.shift.store(shift, Release);
        self.growing.store(false, Relaxed);
    }
}

pub(crate) struct ShardGuard<'a> {
    id: u64,
    head: &'a AtomicU32,
    state: MutexGuard<'a, State>,
}
impl ShardGuard<'_> {
    /// The shard's reads under way.
    pub(super) fn loads(&mut self) -> &mut Vec<Arc<Load>> {
        &mut self.state.loads
    }
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
        self.state.loads.iter().find(|l| pack(l.id) == self.id && !l.is_cancelled())
    }
    pub(super) fn insert(&mut self, frames: &Frames, index: u32) {
        debug_assert!(self.find(frames).is_none(), "TABLE-3");
        let frame = frames.get(index);
        frame.next.store(self.head.load(Relaxed), Release);
        self.head.store(index + 1, Release);
    }
    /// The link that leads to a frame of the page's chain.
    fn link_to<'f>(&'f self, frames: &'f Frames, index: u32) -> &'f AtomicU32 {
        let mut at = self.head;
        loop {
            let link =
                at.load(Relaxed).checked_sub(1).expect("a frame with a page is in its chain");
            if link == index {
                return at;
            }
            at = &frames.get(link).next;
        }
    }
    /// Takes the page's frame out of its chain. The frame keeps its `next`, so that readers that
    /// stand on the frame walk on.
    pub(super) fn remove(&mut self, frames: &Frames, index: u32) {
        let next = frames.get(index).next.load(Relaxed);
        self.link_to(frames, index).store(next, Release);
    }
    /// Puts frame `to` in the place of frame `from`, which keeps its `next`.
    pub(super) fn replace(&mut self, frames: &Frames, from: u32, to: u32) {
        let next = frames.get(from).next.load(Relaxed);
        frames.get(to).next.store(next, Release);
        self.link_to(frames, from).store(to + 1, Release);
    }
}
