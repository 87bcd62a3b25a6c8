//! The sessions of one class that wait for room in the redo log (CREDIT-3, CREDIT-4).
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::task::Waker;

#[derive(Default)]
pub(super) struct Waiters {
    list: Mutex<List>,
    /// The number of the sessions, and their largest request. They change under the mutex.
    count: AtomicUsize,
    largest: AtomicU64,
}
#[derive(Default)]
struct List {
    /// By number, so that the sessions are woken in the order in which they came.
    sessions: BTreeMap<u64, Waiting>,
    /// How many sessions ask for each number of bytes.
    sizes: BTreeMap<u64, u32>,
    next: u64,
}
/// A session that waits, and the bytes it asks for.
struct Waiting {
    bytes: u64,
    waker: Waker,
}

impl Waiters {
    /// Whether a session waits.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }
    /// The bytes of the largest request; 0 if no session waits.
    pub(super) fn largest(&self) -> u64 {
        self.largest.load(SeqCst)
    }
    fn publish(&self, list: &List) {
        let largest = list.sizes.last_key_value().map_or(0, |(bytes, _)| *bytes);
        self.largest.store(largest, SeqCst);
        self.count.store(list.sessions.len(), SeqCst);
    }
    /// Registers a session that waits for `bytes` bytes, or renews its waker. `id` is the session's
    /// number, if it has one already.
    pub(super) fn register(&self, id: &mut Option<u64>, bytes: u64, waker: &Waker) {
        let mut list = self.list.lock();
        let n = *id.get_or_insert_with(|| {
            list.next += 1;
            list.next
        });
        if let Some(session) = list.sessions.get_mut(&n) {
            return session.waker.clone_from(waker);
        }
        list.sessions.insert(n, Waiting { bytes, waker: waker.clone() });
        *list.sizes.entry(bytes).or_default() += 1;
        self.publish(&list);
    }
    /// Removes a session, unless it was let go.
    pub(super) fn remove(&self, number: u64) {
        let mut list = self.list.lock();
        let Some(Waiting { bytes, .. }) = list.sessions.remove(&number) else { return };
        let count = list.sizes.get_mut(&bytes).expect("the sizes of all that wait are listed");
        *count -= 1;
        if *count == 0 {
            list.sizes.remove(&bytes);
        }
        self.publish(&list);
    }
    /// Wakes all sessions and removes them.
    pub(super) fn let_go(&self) {
        let sessions = {
            let mut list = self.list.lock();
            list.sizes.clear();
            let sessions = std::mem::take(&mut list.sessions);
            self.publish(&list);
            sessions
        };
        sessions.into_values().for_each(|session| session.waker.wake());
    }
    /// Wakes all sessions. They still wait: the largest request is not forgotten.
    pub(super) fn wake(&self) {
        let wakers: Vec<Waker> = {
            let list = self.list.lock();
            list.sessions.values().map(|session| session.waker.clone()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
