//! One locked key: its holders, its queue, and the rules by which it is granted. This module takes
//! no mutex: the caller holds the shard's mutex.
//!
//! A usual entry, with one holder and no queue, needs no memory of its own.
use super::owner::{Outcome, TrxLocks};
use super::{LockKey, Mode};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

pub(super) type Wakers = SmallVec<[Waker; 4]>;

pub(super) struct Holder {
    pub(super) trx: Arc<TrxLocks>,
    pub(super) mode: Mode,
}
struct Waiter {
    trx: Arc<TrxLocks>,
    mode: Mode,
    converts: bool,
}

pub(super) struct Row {
    pub(super) key: LockKey,
    pub(super) holders: SmallVec<[Holder; 1]>,
    #[expect(
        clippy::box_collection,
        reason = "most rows have no queue: 8 bytes for it instead of 32"
    )]
    queue: Option<Box<VecDeque<Waiter>>>,
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

impl Row {
    pub(super) fn new(key: LockKey, trx: &Arc<TrxLocks>, mode: Mode) -> Row {
        let mut holders = SmallVec::new();
        holders.push(Holder { trx: trx.clone(), mode });
        Row { key, holders, queue: None }
    }

    /// Answers a request by LOCK-2. A holder is never put behind the queue, because the waiters in
    /// the queue wait for the holder anyway.
    pub(super) fn request(&mut self, trx: &Arc<TrxLocks>, mode: Mode) -> Answer {
        let own = self.holders.iter().position(|h| Arc::ptr_eq(&h.trx, trx));
        if self.conflicts(trx, mode) || (own.is_none() && self.queue.is_some()) {
            return Answer::Busy { converts: own.is_some() };
        }
        match own {
            Some(i) => {
                let held = &mut self.holders[i].mode;
                *held = mode.max(*held);
                Answer::Had
            }
            None => {
                self.holders.push(Holder { trx: trx.clone(), mode });
                Answer::New
            }
        }
    }
    fn conflicts(&self, trx: &Arc<TrxLocks>, mode: Mode) -> bool {
        self.holders.iter().any(|h| h.mode.conflicts(mode) && !Arc::ptr_eq(&h.trx, trx))
    }

    /// Makes `trx` an exclusive holder, whatever other holders there are (LOCK-1). Returns whether
    /// `trx` was no holder before.
    pub(super) fn force(&mut self, trx: &Arc<TrxLocks>) -> bool {
        match self.holders.iter_mut().find(|h| Arc::ptr_eq(&h.trx, trx)) {
            Some(own) => {
                own.mode = Mode::X;
                false
            }
            None => {
                self.holders.push(Holder { trx: trx.clone(), mode: Mode::X });
                true
            }
        }
    }

    /// Makes `trx` a holder, whatever other holders there are. Returns whether `trx` was no holder
    /// before.
    pub(super) fn restore(&mut self, trx: &Arc<TrxLocks>, mode: Mode) -> bool {
        let newly = self.mode_of(trx).is_none();
        if newly {
            self.holders.push(Holder { trx: trx.clone(), mode });
        }
        newly
    }
    /// The mode in which `trx` is a holder.
    pub(super) fn mode_of(&self, trx: &Arc<TrxLocks>) -> Option<Mode> {
        self.holders.iter().find(|h| Arc::ptr_eq(&h.trx, trx)).map(|h| h.mode)
    }

    /// Adds a request to the queue. Conversions come before other requests, which wait for the
    /// converting holder's lock already. Both kinds are in order of arrival.
    pub(super) fn enqueue(&mut self, trx: &Arc<TrxLocks>, mode: Mode, converts: bool) {
        let queue = self.queue.get_or_insert_default();
        let waiter = Waiter { trx: trx.clone(), mode, converts };
        let place =
            if converts { queue.iter().take_while(|w| w.converts).count() } else { queue.len() };
        queue.insert(place, waiter);
    }

    /// Takes a request out of the queue. The caller then calls [`Row::grant`].
    pub(super) fn dequeue(&mut self, trx: &Arc<TrxLocks>) {
        let queue = self.queue.as_mut().expect("LOCK-4");
        let place = queue.iter().position(|w| Arc::ptr_eq(&w.trx, trx)).expect("LOCK-4");
        queue.remove(place);
        if queue.is_empty() {
            self.queue = None;
        }
    }

    /// Removes a holder. The caller then calls [`Row::grant`].
    pub(super) fn remove_holder(&mut self, trx: &Arc<TrxLocks>) {
        let place = self
            .holders
            .iter()
            .position(|h| Arc::ptr_eq(&h.trx, trx))
            .expect("a held key has its holder");
        self.holders.swap_remove(place);
    }

    /// Grants requests from the front of the queue as long as possible. Returns whether the entry
    /// has become unused.
    pub(super) fn grant(&mut self, wakers: &mut Wakers) -> bool {
        while let Some(queue) = &mut self.queue {
            let front = queue.front().expect("a queue is never empty");
            if self
                .holders
                .iter()
                .any(|h| h.mode.conflicts(front.mode) && !Arc::ptr_eq(&h.trx, &front.trx))
            {
                break;
            }
            let Waiter { trx, mode, .. } = queue.pop_front().expect("a queue is never empty");
            if queue.is_empty() {
                self.queue = None;
            }
            match self.holders.iter_mut().find(|h| Arc::ptr_eq(&h.trx, &trx)) {
                Some(own) => own.mode = mode.max(own.mode),
                None => {
                    trx.held.lock().keys.push(self.key);
                    self.holders.push(Holder { trx: trx.clone(), mode });
                }
            }
            // The wait ends last: from here on the owner may run, and may end.
            wakers.extend(trx.end_wait(Outcome::Granted));
        }
        self.holders.is_empty() && self.queue.is_none()
    }
    pub(super) fn has_queue(&self) -> bool {
        self.queue.is_some()
    }
}
