//! One locked key: its holders, its queue, and the rules by which it is granted. This module takes
//! no mutex: the caller holds the shard's mutex.
//!
//! A usual entry, with one holder and no queue, needs no memory of its own. Of an entry with many
//! holders an index tells the place of each, so that a thousand sessions that share a key do not
//! take a million steps.
//!
//! - LOCK-8: an entry with more than [`MANY`] holders has an index. An index has the place of each
//!   holder, and the number of holders in mode X.
use super::owner::{Outcome, TrxLocks};
use super::{LockKey, Mode};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

pub(super) type Wakers = SmallVec<[Waker; 4]>;

struct Holder {
    trx: Arc<TrxLocks>,
    mode: Mode,
}
/// The place of a request in a queue. Conversions come before other requests, which wait for the
/// converting holder's lock already. Both kinds are in order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    follows: bool,
    number: u64,
}
/// The requests that wait for a key.
#[derive(Default)]
struct Queue {
    shared: BTreeMap<Place, Arc<TrxLocks>>,
    exclusive: BTreeMap<Place, Arc<TrxLocks>>,
    /// The number of the last request.
    last: u64,
}
impl Queue {
    fn of(&mut self, mode: Mode) -> &mut BTreeMap<Place, Arc<TrxLocks>> {
        match mode {
            Mode::S => &mut self.shared,
            Mode::X => &mut self.exclusive,
        }
    }
    fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.exclusive.is_empty()
    }
    fn front(&self) -> Option<(&Arc<TrxLocks>, Mode)> {
        match (self.shared.first_key_value(), self.exclusive.first_key_value()) {
            (Some((place, trx)), x) if x.is_none_or(|(first, _)| place < first) => {
                Some((trx, Mode::S))
            }
            (_, x) => x.map(|(_, trx)| (trx, Mode::X)),
        }
    }
}

/// The number of holders that are looked through without an index.
const MANY: usize = if cfg!(test) { 3 } else { 16 };

pub(super) struct Row {
    pub(super) key: LockKey,
    holders: SmallVec<[Holder; 1]>,
    /// Most rows have neither a queue nor an index.
    more: Option<Box<More>>,
}
const _: () = assert!(size_of::<Row>() == 56, "a locked row takes little memory");
#[derive(Default)]
struct More {
    queue: Queue,
    index: Option<Index>,
}
/// An index of the holders (LOCK-8).
#[derive(Default)]
struct Index {
    places: HashMap<usize, u32>,
    exclusive: usize,
}

#[derive(PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The owner has become a holder.
    New,
    /// The owner was a holder already. Its mode may have become stronger.
    Had,
    /// The owner has to wait. `converts` says whether it is a holder already.
    Busy { converts: bool },
}

fn identity(trx: &Arc<TrxLocks>) -> usize {
    Arc::as_ptr(trx).addr()
}
impl Index {
    fn add(&mut self, trx: &Arc<TrxLocks>, mode: Mode, place: usize) {
        self.places.insert(identity(trx), place as u32);
        self.exclusive += (mode == Mode::X) as usize;
    }
}

impl Row {
    pub(super) fn new(key: LockKey, trx: &Arc<TrxLocks>, mode: Mode) -> Row {
        let mut holders = SmallVec::new();
        holders.push(Holder { trx: trx.clone(), mode });
        Row { key, holders, more: None }
    }

    /// Answers a request by LOCK-2. A holder is never put behind the queue, because the waiters in
    /// the queue wait for the holder anyway.
    pub(super) fn request(&mut self, trx: &Arc<TrxLocks>, mode: Mode) -> Answer {
        let own = self.find(trx);
        if self.conflicts(own, mode) || (own.is_none() && self.has_queue()) {
            return Answer::Busy { converts: own.is_some() };
        }
        self.hold(own, trx, mode);
        if own.is_some() { Answer::Had } else { Answer::New }
    }
    /// Whether a holder besides the one at `own` conflicts with `mode`.
    fn conflicts(&self, own: Option<usize>, mode: Mode) -> bool {
        match (mode, self.index()) {
            (Mode::X, _) => self.holders.len() > own.is_some() as usize,
            (Mode::S, Some(index)) => {
                let own = own.is_some_and(|i| self.holders[i].mode == Mode::X);
                index.exclusive > own as usize
            }
            (Mode::S, None) => {
                let mut others = self.holders.iter().enumerate().filter(|(i, _)| Some(*i) != own);
                others.any(|(_, h)| h.mode == Mode::X)
            }
        }
    }
    fn index(&self) -> Option<&Index> {
        self.more.as_ref()?.index.as_ref()
    }
    fn index_mut(&mut self) -> Option<&mut Index> {
        self.more.as_mut()?.index.as_mut()
    }
    fn queue(&self) -> Option<&Queue> {
        self.more.as_ref().map(|more| &more.queue).filter(|queue| !queue.is_empty())
    }
    /// Frees the memory that is not needed any more.
    fn trim(&mut self) {
        if self.more.as_ref().is_some_and(|more| more.queue.is_empty() && more.index.is_none()) {
            self.more = None;
        }
    }
    /// The place of `trx` among the holders.
    fn find(&self, trx: &Arc<TrxLocks>) -> Option<usize> {
        match self.index() {
            Some(index) => index.places.get(&identity(trx)).map(|i| *i as usize),
            None => self.holders.iter().position(|h| Arc::ptr_eq(&h.trx, trx)),
        }
    }
    /// Makes `trx`, which is the holder at `own` or none yet, a holder that has `mode` at least.
    fn hold(&mut self, own: Option<usize>, trx: &Arc<TrxLocks>, mode: Mode) {
        let Some(i) = own else { return self.push(trx, mode) };
        let held = &mut self.holders[i].mode;
        if mode > *held {
            *held = mode;
            self.index_mut().into_iter().for_each(|index| index.exclusive += 1);
        }
    }
    fn push(&mut self, trx: &Arc<TrxLocks>, mode: Mode) {
        self.holders.push(Holder { trx: trx.clone(), mode });
        let last = self.holders.len() - 1;
        if let Some(index) = self.index_mut() {
            index.add(trx, mode, last);
        } else if last >= MANY {
            let mut index = Index::default();
            let holders = self.holders.iter().enumerate();
            holders.for_each(|(i, h)| index.add(&h.trx, h.mode, i));
            self.more.get_or_insert_default().index = Some(index);
        }
    }

    /// Makes `trx` an exclusive holder, whatever other holders there are (LOCK-1). Returns the mode
    /// in which `trx` was a holder before.
    pub(super) fn force(&mut self, trx: &Arc<TrxLocks>) -> Option<Mode> {
        let own = self.find(trx);
        let before = own.map(|i| self.holders[i].mode);
        self.hold(own, trx, Mode::X);
        before
    }

    /// Makes `trx` a holder, whatever other holders there are. Returns whether `trx` was no holder
    /// before.
    pub(super) fn restore(&mut self, trx: &Arc<TrxLocks>, mode: Mode) -> bool {
        let newly = self.find(trx).is_none();
        if newly {
            self.push(trx, mode);
        }
        newly
    }
    /// The mode in which `trx` is a holder.
    pub(super) fn mode_of(&self, trx: &Arc<TrxLocks>) -> Option<Mode> {
        self.find(trx).map(|i| self.holders[i].mode)
    }

    /// Adds a request to the queue. Returns its place there.
    pub(super) fn enqueue(&mut self, trx: &Arc<TrxLocks>, mode: Mode, converts: bool) -> Place {
        let queue = &mut self.more.get_or_insert_default().queue;
        queue.last += 1;
        let place = Place { follows: !converts, number: queue.last };
        queue.of(mode).insert(place, trx.clone());
        place
    }

    /// Takes a request out of the queue. The caller then calls [`Row::grant`].
    pub(super) fn dequeue(&mut self, trx: &Arc<TrxLocks>, mode: Mode, place: Place) {
        let gone = self.more.as_mut().and_then(|more| more.queue.of(mode).remove(&place));
        assert!(gone.is_some_and(|gone| Arc::ptr_eq(&gone, trx)), "LOCK-4");
        self.trim();
    }

    /// Removes a holder. The caller then calls [`Row::grant`].
    pub(super) fn remove_holder(&mut self, trx: &Arc<TrxLocks>) {
        let place = self.find(trx).expect("a held key has its holder");
        let gone = self.holders.swap_remove(place);
        let (left, moved) = (self.holders.len(), self.holders.get(place).map(|h| identity(&h.trx)));
        let Some(more) = &mut self.more else { return };
        let Some(index) = &mut more.index else { return };
        if left <= MANY / 2 {
            more.index = None;
            return self.trim();
        }
        index.places.remove(&identity(trx));
        index.places.extend(moved.map(|moved| (moved, place as u32)));
        index.exclusive -= (gone.mode == Mode::X) as usize;
    }

    /// Grants requests from the front of the queue as long as possible. Returns whether the entry
    /// has become unused.
    pub(super) fn grant(&mut self, wakers: &mut Wakers) -> bool {
        while let Some(queue) = self.queue() {
            let (front, mode) = queue.front().expect("it is not empty");
            let own = self.find(front);
            if self.conflicts(own, mode) {
                break;
            }
            let queue = self.more.as_mut().map(|more| more.queue.of(mode));
            let (_, trx) = queue.and_then(|queue| queue.pop_first()).expect("it has a front");
            self.trim();
            self.hold(own, &trx, mode);
            if own.is_none() {
                trx.held.lock().keys.push(self.key);
            }
            // The wait ends last: from here on the owner may run, and may end.
            wakers.extend(trx.end_wait(Outcome::Granted));
        }
        self.holders.is_empty() && !self.has_queue()
    }
    pub(super) fn has_queue(&self) -> bool {
        self.queue().is_some()
    }

    /// Whether a queued request waits for every other holder: it is exclusive, or stands behind an
    /// exclusive request. Other requests only wait for the exclusive holders.
    pub(super) fn waits_for_all(&self, mode: Mode, place: Place) -> bool {
        let first = self.queue().and_then(|queue| queue.exclusive.keys().next());
        mode == Mode::X || first.is_some_and(|first| *first < place)
    }
    /// The holders for which requests wait, see [`Row::waits_for_all`].
    pub(super) fn blockers(&self, all: bool) -> impl Iterator<Item = &Arc<TrxLocks>> {
        self.holders.iter().filter(move |h| all || h.mode == Mode::X).map(|h| &h.trx)
    }
    /// Fails if LOCK-8 does not hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let Some(index) = self.index() else {
            return assert!(self.holders.len() <= MANY, "LOCK-8");
        };
        let exclusive = self.holders.iter().filter(|h| h.mode == Mode::X).count();
        assert_eq!(
            (index.exclusive, index.places.len()),
            (exclusive, self.holders.len()),
            "LOCK-8"
        );
        for (i, h) in self.holders.iter().enumerate() {
            assert_eq!(index.places.get(&identity(&h.trx)), Some(&(i as u32)), "LOCK-8");
        }
    }
}
