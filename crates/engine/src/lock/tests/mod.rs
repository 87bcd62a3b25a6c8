//! Tests of the lock rules, and their shared tools: a small random generator, a runtime whose
//! sleeps end only on demand, and threads that block on futures.
#[cfg(shuttle)]
mod model;
mod rules;
mod stress;

use super::*;
use crate::runtime::{BoxFuture, Runtime, block_on};
use crate::sync::lock::Mutex;
use crate::sync::lock::atomic::{AtomicU64, Ordering};
use crate::{Error, Result, Try, WouldBlock};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Xorshift64*. A seed determines a run.
pub(crate) struct Random(pub(crate) u64);
impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }
    /// Short keys over three letters, so that keys often coincide.
    pub(super) fn key(&mut self) -> owner::KeyBuf {
        (0..self.below(4)).map(|_| [0, 7, 0xff][self.below(3) as usize]).collect()
    }
}

/// A runtime whose sleeps end when `expire` or `pass` is called.
#[derive(Default)]
pub(crate) struct StillRuntime {
    /// Sleeps of up to so many milliseconds are over.
    passed_ms: AtomicU64,
    sleepers: Mutex<Vec<Waker>>,
}
impl StillRuntime {
    pub(crate) fn expire(&self) {
        self.pass(Duration::from_millis(u64::MAX));
    }
    /// Ends the sleeps that are no longer than `time`.
    pub(crate) fn pass(&self, time: Duration) {
        self.passed_ms.store(time.as_millis() as u64, Ordering::SeqCst);
        for waker in self.sleepers.lock().drain(..) {
            waker.wake();
        }
    }
    pub(crate) fn restart(&self) {
        self.passed_ms.store(0, Ordering::SeqCst);
    }
}
pub(crate) struct RuntimeOf(pub(crate) Arc<StillRuntime>);
impl Runtime for RuntimeOf {
    fn spawn(&self, _: &'static str, _: BoxFuture<()>) {
        unreachable!("locks spawn nothing")
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        let clock = self.0.clone();
        // Even a sleep of no time waits for `pass`.
        let ms = (time.as_millis() as u64).max(1);
        Box::pin(poll_fn(move |cx| {
            let mut sleepers = clock.sleepers.lock();
            if ms <= clock.passed_ms.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            sleepers.push(cx.waker().clone());
            Poll::Pending
        }))
    }
    fn yield_now(&self) -> BoxFuture<()> {
        Box::pin(async {})
    }
}
pub(crate) fn still_runtime() -> (Arc<StillRuntime>, Arc<dyn Runtime>) {
    let clock = Arc::new(StillRuntime::default());
    (clock.clone(), Arc::new(RuntimeOf(clock)))
}

pub(crate) fn poll_once<T>(
    future: &mut std::pin::Pin<Box<dyn Future<Output = T> + Send>>,
) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A lock table whose waits the test polls by hand.
struct Bench {
    locks: Arc<LockTable>,
    clock: Arc<StillRuntime>,
    runtime: Arc<dyn Runtime>,
}
/// A wait that has been polled once, so that it counts in the graph.
struct Waiting(std::pin::Pin<Box<dyn Future<Output = Result<()>> + Send>>);
impl Waiting {
    fn poll(&mut self) -> Option<Result<()>> {
        poll_once(&mut self.0)
    }
    fn is_pending(&mut self) -> bool {
        self.poll().is_none()
    }
    fn is_granted(&mut self) -> bool {
        matches!(self.poll(), Some(Ok(())))
    }
    fn is_victim(&mut self) -> bool {
        matches!(self.poll(), Some(Err(Error::Deadlock)))
    }
}
impl Bench {
    fn new() -> Bench {
        let (clock, runtime) = still_runtime();
        Bench { locks: LockTable::new(|| Duration::ZERO), clock, runtime }
    }
    fn trx(&self) -> Arc<TrxLocks> {
        self.locks.new_trx(KillFlag::new())
    }
    /// Locks a key without waiting. Returns whether the lock is new.
    fn lock(&self, trx: &Arc<TrxLocks>, key: u64, mode: Mode) -> bool {
        self.locks.lock_row(trx, row(key), mode).expect("granted at once")
    }
    fn queue(&self, trx: &Arc<TrxLocks>, key: u64, mode: Mode) -> Waiting {
        self.waiting(self.locks.lock_row(trx, row(key), mode))
    }
    fn insert(&self, trx: &Arc<TrxLocks>, ranges: &Arc<RangeLocks>, key: &[u8]) -> Option<Waiting> {
        match self.locks.check_insert(trx, ranges, key) {
            Ok(()) => None,
            blocked => Some(self.waiting(blocked)),
        }
    }
    /// Polls the wait once. A wait that has ended is replaced by a future of its result.
    fn waiting<T: std::fmt::Debug>(&self, blocked: Try<T>) -> Waiting {
        let Err(WouldBlock::Lock(wait)) = blocked else {
            panic!("expected a wait, got {blocked:?}")
        };
        let runtime = self.runtime.clone();
        let mut future: std::pin::Pin<Box<dyn Future<Output = Result<()>> + Send>> =
            Box::pin(async move { wait.wait(&runtime, Duration::from_secs(50)).await });
        match poll_once(&mut future) {
            None => Waiting(future),
            Some(end) => Waiting(Box::pin(async move { end })),
        }
    }
    fn end(&self, trx: &Arc<TrxLocks>) {
        self.locks.release_all(trx);
    }
}
fn row(key: u64) -> LockKey {
    LockKey::new(1, &key.to_be_bytes())
}
