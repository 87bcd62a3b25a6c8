//! Metadata locks keep a table's definition unchanged while statements use it, and let DDL wait for
//! the statements.
//!
//! Each table and each schema has a [`MetadataLock`], which a statement takes with one
//! compare-and-swap. A statement locks its table and, as intention, the table's schema in `Read`;
//! DROP DATABASE locks the schema in `Exclusive`. A session's locks are in a [`MetadataLockSet`],
//! in which it finds a lock that it holds without touching shared memory. After a wait a session
//! looks the table up again, since the table may have been dropped or renamed.
//!
//! | asked \ held | Read | Write | NoWrite | Exclusive | for |
//! |---|---|---|---|---|---|
//! | Read | + | + | + | - | SELECT; intention on a schema |
//! | Write | + | + | - | - | INSERT, UPDATE, DELETE, SELECT FOR UPDATE |
//! | NoWrite | + | - | + | - | LOCK TABLES READ, the copying phase of ALTER |
//! | Exclusive | - | - | - | - | DDL, LOCK TABLES WRITE |
//!
//! There is no search for deadlocks. These rules leave no deadlock that lasts:
//! - MDL-1: first come, first served: a request queues behind queued requests, so a queued DDL does
//!   not starve.
//! - MDL-2: DDL begins by ending the session's transaction, and asks for all its `Exclusive` locks
//!   at once (`lock_all`). While it holds one it waits for another at most a second, then gives all
//!   of them back and begins again. The `Read`s that it has taken first, on a schema and on tables
//!   that it reads, are none of them.
//! - MDL-3: a session that holds other metadata locks waits for *queued* requests at most a second,
//!   and after that only for holders (its request is hurried).
//! - MDL-4: of two holders of a lock that wait to convert it, neither excludes the other. A
//!   conversion that would exclude a queued conversion's holder, or be excluded by it, fails with
//!   "deadlock" at once.
//! - MDL-5: `QUEUED` is set in the word if and only if the queue is not empty. Both change under
//!   the queue's mutex.
use crate::lock::KillFlag;
use crate::runtime::{Runtime, let_others_run};
use crate::sync::lock::Mutex;
use crate::sync::lock::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::{Error, Result};
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The modes, ordered by strength, except that `Write` and `NoWrite` do not cover each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetadataLockMode {
    /// The table's definition is used to read.
    Read,
    /// The definition is used to write rows.
    Write,
    /// Nobody may write rows; reading goes on.
    NoWrite,
    /// Nobody else uses the definition: DDL.
    Exclusive,
}

/// Three counts of 20 bits, then the exclusive bit and the queue's.
const READ: u64 = 1;
const WRITE: u64 = 1 << 20;
const NO_WRITE: u64 = 1 << 40;
const EXCLUSIVE: u64 = 1 << 60;
const QUEUED: u64 = 1 << 61;
const READS: u64 = WRITE - 1;
const WRITES: u64 = NO_WRITE - WRITE;
const NO_WRITES: u64 = EXCLUSIVE - NO_WRITE;

impl MetadataLockMode {
    fn unit(self) -> u64 {
        match self {
            MetadataLockMode::Read => READ,
            MetadataLockMode::Write => WRITE,
            MetadataLockMode::NoWrite => NO_WRITE,
            MetadataLockMode::Exclusive => EXCLUSIVE,
        }
    }
    /// The part of the word that counts the holders of this mode.
    fn count(self) -> u64 {
        match self {
            MetadataLockMode::Read => READS,
            MetadataLockMode::Write => WRITES,
            MetadataLockMode::NoWrite => NO_WRITES,
            MetadataLockMode::Exclusive => EXCLUSIVE,
        }
    }
    /// The parts of the word that keep this mode out.
    fn excluded_by(self) -> u64 {
        match self {
            MetadataLockMode::Read => EXCLUSIVE,
            MetadataLockMode::Write => EXCLUSIVE | NO_WRITES,
            MetadataLockMode::NoWrite => EXCLUSIVE | WRITES,
            MetadataLockMode::Exclusive => EXCLUSIVE | READS | WRITES | NO_WRITES,
        }
    }
    fn covers(self, other: MetadataLockMode) -> bool {
        self == other || self == MetadataLockMode::Exclusive || other == MetadataLockMode::Read
    }
    /// The weakest mode that covers both.
    fn with(self, other: MetadataLockMode) -> MetadataLockMode {
        if self.covers(other) {
            self
        } else if other.covers(self) {
            other
        } else {
            MetadataLockMode::Exclusive
        }
    }
}

/// The metadata lock of one table or schema.
#[derive(Default)]
pub struct MetadataLock {
    word: AtomicU64,
    queue: Mutex<VecDeque<Arc<Waiter>>>,
}

struct Waiter {
    mode: MetadataLockMode,
    /// The mode that the request's owner holds already, and gives up for `mode`.
    converts: Option<MetadataLockMode>,
    /// Whether the request is hurried (MDL-3). Changes under the queue's mutex. Hurried requests
    /// are at the front of the queue.
    hurried: AtomicBool,
    state: Mutex<WaitState>,
}
#[derive(Default)]
struct WaitState {
    granted: bool,
    waker: Option<Waker>,
}

type Wakers = SmallVec<[Waker; 4]>;

impl MetadataLock {
    /// A lock that nobody holds.
    pub fn new() -> Arc<MetadataLock> {
        Arc::default()
    }

    /// Takes the lock, or exchanges the mode `held` for `mode`, unless another holder excludes it.
    fn acquire(
        &self,
        mode: MetadataLockMode,
        held: Option<MetadataLockMode>,
        past_queue: bool,
    ) -> bool {
        let own = held.map_or(0, MetadataLockMode::unit);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let others = word - own;
            if others & mode.excluded_by() != 0 || (word & QUEUED != 0 && !past_queue) {
                return false;
            }
            match self.word.compare_exchange_weak(
                word,
                others + mode.unit(),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    fn release(&self, mode: MetadataLockMode) {
        let before = self.word.fetch_sub(mode.unit(), Ordering::Release);
        assert!(before & mode.count() != 0, "releases what is held");
        if before & QUEUED != 0 {
            self.grant();
        }
    }

    fn grant(&self) {
        let mut wakers = Wakers::new();
        self.grant_queued(&mut self.queue.lock(), &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
    }
    /// Grants requests from the front of the queue as long as possible. A hurried request that
    /// cannot be granted yet does not hold up the other hurried requests.
    fn grant_queued(&self, queue: &mut VecDeque<Arc<Waiter>>, wakers: &mut Wakers) {
        let mut at = 0;
        while let Some(waiter) = queue.get(at) {
            let hurried = waiter.hurried.load(Ordering::Relaxed);
            if at > 0 && !hurried {
                return;
            }
            if self.acquire(waiter.mode, waiter.converts, true) {
                wakers.extend(waiter.grant());
                queue.remove(at);
            } else if hurried {
                at += 1;
            } else {
                return;
            }
        }
        if queue.is_empty() {
            self.word.fetch_and(!QUEUED, Ordering::Relaxed);
        }
    }

    /// Queues a request, or grants it right away if its obstacle is gone.
    fn enqueue(
        &self,
        mode: MetadataLockMode,
        converts: Option<MetadataLockMode>,
    ) -> Result<Arc<Waiter>> {
        let waiter = Arc::new(Waiter {
            mode,
            converts,
            hurried: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let mut queue = self.queue.lock();
        let excludes = |wanted: MetadataLockMode, held: MetadataLockMode| {
            wanted.excluded_by() & held.unit() != 0
        };
        if let Some(held) = converts
            && queue.iter().any(|other| {
                other.converts.is_some_and(|its| excludes(mode, its) || excludes(other.mode, held))
            })
        {
            return Err(Error::Deadlock); // MDL-4
        }
        // A conversion goes before requests that have to wait for its owner anyway.
        let hurried =
            queue.iter().take_while(|other| other.hurried.load(Ordering::Relaxed)).count();
        let place = if converts.is_some() { hurried } else { queue.len() };
        queue.insert(place, waiter.clone());
        // A release either sees this bit, or came earlier, and then the attempt below sees the
        // release.
        self.word.fetch_or(QUEUED, Ordering::SeqCst);
        let mut wakers = Wakers::new();
        self.grant_queued(&mut queue, &mut wakers);
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
        Ok(waiter)
    }

    /// Makes the request wait for holders only (MDL-3).
    fn hurry(&self, waiter: &Arc<Waiter>) {
        let mut wakers = Wakers::new();
        let mut queue = self.queue.lock();
        if let Some(place) = queue.iter().position(|other| Arc::ptr_eq(other, waiter)) {
            queue.remove(place);
            waiter.hurried.store(true, Ordering::Relaxed);
            queue.push_front(waiter.clone());
            self.grant_queued(&mut queue, &mut wakers);
        }
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes a request back. Returns false if the request has been granted meanwhile.
    fn withdraw(&self, waiter: &Arc<Waiter>) -> bool {
        let mut wakers = Wakers::new();
        let mut queue = self.queue.lock();
        let place = queue.iter().position(|other| Arc::ptr_eq(other, waiter));
        if let Some(place) = place {
            queue.remove(place);
            self.grant_queued(&mut queue, &mut wakers);
        }
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
        place.is_some()
    }

    /// Whether a request waits for the lock.
    #[cfg(any(test, feature = "testing"))]
    pub fn has_waiters(&self) -> bool {
        self.word.load(Ordering::Relaxed) & QUEUED != 0
    }
    /// Whether nobody holds the lock or queues for it.
    pub fn is_free(&self) -> bool {
        self.word.load(Ordering::Relaxed) == 0
    }
}

impl Waiter {
    fn grant(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        state.granted = true;
        state.waker.take()
    }
    fn granted_or_wake(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if !state.granted {
            state.waker = Some(waker.clone());
        }
        state.granted
    }
}

/// Takes a request back when its future is dropped. A grant that the future has not taken over is
/// undone.
struct Queued<'a> {
    lock: &'a MetadataLock,
    waiter: Arc<Waiter>,
    taken: bool,
}
impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if self.taken || self.lock.withdraw(&self.waiter) {
            return;
        }
        let Waiter { mode, converts, .. } = *self.waiter;
        if let Some(held) = converts {
            // The lock goes back to the mode in the owner's set. The weaker mode is added before
            // the stronger mode is released, so that other requests stay excluded meanwhile.
            self.lock.word.fetch_add(held.unit(), Ordering::Relaxed);
        }
        self.lock.release(mode);
    }
}

/// How a session waits for metadata locks.
#[derive(Clone, Copy)]
pub struct MetadataLockWait<'a> {
    /// Where the session sleeps.
    pub runtime: &'a Arc<dyn Runtime>,
    /// The session's `lock_wait_timeout`.
    pub timeout: Duration,
    /// What ends the wait early.
    pub kill: &'a KillFlag,
}

/// How long a request follows MDL-1 before MDL-2 or MDL-3 applies.
const PATIENCE: Duration = Duration::from_secs(1);

/// The metadata locks of a transaction, or of LOCK TABLES. Dropping the set releases them.
#[derive(Default)]
pub struct MetadataLockSet {
    held: SmallVec<[(Arc<MetadataLock>, MetadataLockMode); 8]>,
    /// Places in `held` by the lock's address, kept only for a set with many locks.
    places: Option<HashMap<usize, usize>>,
}
/// Up to this many locks are searched one by one.
const FEW: usize = 64;

impl MetadataLockSet {
    #[inline]
    fn place(&self, lock: &Arc<MetadataLock>) -> Option<usize> {
        match &self.places {
            None => self.held.iter().position(|(held, _)| Arc::ptr_eq(held, lock)),
            Some(places) => places.get(&address(lock)).copied(),
        }
    }
    #[inline]
    fn push(&mut self, lock: &Arc<MetadataLock>, mode: MetadataLockMode) {
        self.held.push((lock.clone(), mode));
        if self.held.len() > FEW || self.places.is_some() {
            self.note_last();
        }
    }
    #[cold]
    fn note_last(&mut self) {
        let known = self.places.as_ref().map_or(0, |places| places.len());
        let new = (known..self.held.len()).map(|n| (address(&self.held[n].0), n));
        self.places.get_or_insert_default().extend(new);
    }
}
fn address(lock: &Arc<MetadataLock>) -> usize {
    Arc::as_ptr(lock).addr()
}

impl MetadataLockSet {
    /// A set without locks.
    pub fn new() -> MetadataLockSet {
        MetadataLockSet::default()
    }

    /// The mode in which this set holds `lock`.
    #[inline]
    pub fn holds(&self, lock: &Arc<MetadataLock>) -> Option<MetadataLockMode> {
        self.place(lock).map(|n| self.held[n].1)
    }

    /// Takes `lock` if this needs no wait. A lock held in a mode that covers `mode` is taken
    /// already.
    #[inline]
    pub fn try_lock(&mut self, lock: &Arc<MetadataLock>, mode: MetadataLockMode) -> bool {
        let Some(place) = self.place(lock) else {
            if !lock.acquire(mode, None, false) {
                return false;
            }
            self.push(lock, mode);
            return true;
        };
        let held = &mut self.held[place].1;
        let wanted = held.with(mode);
        // A holder goes past the queue: the queued requests wait for the holder anyway.
        if wanted == *held {
            return true;
        }
        if !lock.acquire(wanted, Some(*held), true) {
            return false;
        }
        *held = wanted;
        true
    }

    /// Takes `lock` and waits if need be. After `LockWaitTimeout`, `Interrupted` or `Deadlock`
    /// (MDL-4) the set is unchanged.
    pub async fn lock(
        &mut self,
        lock: &Arc<MetadataLock>,
        mode: MetadataLockMode,
        wait: MetadataLockWait<'_>,
    ) -> Result<()> {
        if self.try_lock(lock, mode) {
            return Ok(());
        }
        let held = self.holds(lock);
        let wanted = held.map_or(mode, |held| held.with(mode));
        let mut queued = Queued { lock, waiter: lock.enqueue(wanted, held)?, taken: false };
        // Requests for `Exclusive` do not hurry, since they follow MDL-2.
        let hurries = !self.held.is_empty() && wanted != MetadataLockMode::Exclusive;
        queued.wait(wait, hurries).await?;
        queued.taken = true;
        match self.place(lock) {
            Some(place) => self.held[place].1 = wanted,
            None => self.push(lock, wanted),
        }
        Ok(())
    }

    /// Takes all of `locks` or none, for DDL on several objects and for LOCK TABLES. The set's
    /// earlier locks stay. All callers name locks in one order (schemas, then tables, each by
    /// name). After a second's wait with one of `locks` that keeps others out, all of `locks` are
    /// released and the call begins again (MDL-2).
    pub async fn lock_all(
        &mut self,
        locks: &[(Arc<MetadataLock>, MetadataLockMode)],
        wait: MetadataLockWait<'_>,
    ) -> Result<()> {
        let mark = self.mark();
        let mut left = wait.timeout;
        'again: loop {
            let mut patient = true;
            for (n, (lock, mode)) in locks.iter().enumerate() {
                if n % FEW == FEW - 1 {
                    let_others_run(&**wait.runtime).await;
                }
                let timeout = if patient { left } else { PATIENCE.min(left) };
                let Err(error) = self.lock(lock, *mode, MetadataLockWait { timeout, ..wait }).await
                else {
                    patient &= *mode == MetadataLockMode::Read;
                    continue;
                };
                self.release_to(mark);
                left = left.saturating_sub(timeout);
                if matches!(error, Error::LockWaitTimeout) && !left.is_zero() {
                    continue 'again;
                }
                return Err(error);
            }
            return Ok(());
        }
    }

    /// The present size of the set, for [`MetadataLockSet::release_to`].
    pub fn mark(&self) -> usize {
        self.held.len()
    }
    /// Releases the locks taken after `mark`. Modes of earlier locks that were strengthened stay.
    pub fn release_to(&mut self, mark: usize) {
        while self.held.len() > mark {
            let (lock, mode) = self.held.pop().expect("not empty");
            if let Some(places) = &mut self.places {
                places.remove(&address(&lock));
            }
            lock.release(mode);
        }
    }
    /// Gives all locks of the set back.
    pub fn release_all(&mut self) {
        self.release_to(0);
        self.places = None;
    }
    /// Weakens a lock, for example from `Exclusive` to `NoWrite` when ALTER lets readers in again.
    pub fn downgrade(&mut self, lock: &Arc<MetadataLock>, mode: MetadataLockMode) {
        let place = self.place(lock).expect("downgrades what it holds");
        let held = &mut self.held[place].1;
        assert!(held.covers(mode), "a downgrade weakens");
        let stronger = std::mem::replace(held, mode);
        if stronger != mode {
            lock.word.fetch_add(mode.unit(), Ordering::Relaxed);
            lock.release(stronger);
        }
    }
}

impl Drop for MetadataLockSet {
    fn drop(&mut self) {
        self.release_all();
    }
}

impl Queued<'_> {
    async fn wait(&mut self, wait: MetadataLockWait<'_>, hurries: bool) -> Result<()> {
        let patience = if hurries { PATIENCE.min(wait.timeout) } else { wait.timeout };
        if self.wait_for(patience, wait).await? {
            return Ok(());
        }
        if hurries {
            self.lock.hurry(&self.waiter);
            if self.wait_for(wait.timeout.saturating_sub(patience), wait).await? {
                return Ok(());
            }
        }
        // A grant at the last moment is undone when `self` is dropped.
        Err(Error::LockWaitTimeout)
    }

    /// Returns true if the request was granted, and false if the time is over.
    async fn wait_for(&mut self, time: Duration, wait: MetadataLockWait<'_>) -> Result<bool> {
        let mut timer = wait.runtime.sleep(time);
        let _waiting = wait.kill.wait();
        poll_fn(|cx| {
            if self.waiter.granted_or_wake(cx.waker()) {
                return Poll::Ready(Ok(true));
            }
            if wait.kill.poll(cx.waker()) {
                return Poll::Ready(Err(Error::Interrupted));
            }
            timer.as_mut().poll(cx).map(|()| Ok(false))
        })
        .await
    }
}

impl fmt::Debug for MetadataLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        let (reads, writes, no_writes) =
            (word & READS, (word & WRITES) / WRITE, (word & NO_WRITES) / NO_WRITE);
        write!(f, "MetadataLock({reads} read, {writes} write, {no_writes} no-write")?;
        write!(
            f,
            "{}{})",
            if word & EXCLUSIVE != 0 { ", exclusive" } else { "" },
            if word & QUEUED != 0 { ", queued" } else { "" }
        )
    }
}

#[cfg(all(test, not(model)))]
mod tests;
