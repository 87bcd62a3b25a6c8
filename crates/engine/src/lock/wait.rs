//! The future behind `WouldBlock::Lock`: a queued request. Dropping the future takes the request
//! back and lets the others go on.
use super::owner::{Outcome, TrxLocks};
use super::row::Wakers;
use super::table::{LockTable, wake};
use crate::runtime::Runtime;
use crate::{Error, Result};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

#[must_use = "dropping it withdraws the request"]
pub struct LockWait {
    locks: Arc<LockTable>,
    trx: Arc<TrxLocks>,
    ticket: u64,
    converts: bool,
    began: Duration,
}

impl LockWait {
    pub(super) fn new(
        locks: Arc<LockTable>,
        trx: Arc<TrxLocks>,
        ticket: u64,
        converts: bool,
    ) -> LockWait {
        locks.counters.wait_began();
        let began = locks.now();
        trx.wait.lock().began = began;
        LockWait { locks, trx, ticket, converts, began }
    }
    /// Whether the transaction had a lock on the row when it asked for this one. Whether it has one
    /// now says nothing: the request may have been granted since.
    pub fn converts(&self) -> bool {
        self.converts
    }

    /// Waits for the lock. After `Ok` the caller repeats its blocked call: a row lock is then
    /// held, and an insert has to check once more. After `Error::Deadlock` the transaction was
    /// chosen as the victim and must be rolled back. After `Error::LockWaitTimeout` the statement
    /// must be rolled back. `Error::Interrupted` means that the session's kill flag is set.
    pub async fn wait(self, runtime: &Arc<dyn Runtime>, timeout: Duration) -> Result<()> {
        if self.locks.detects() {
            self.locks.announce(&self.trx, self.ticket);
        }
        if let Some(end) = self.ended() {
            return end;
        }
        let kill = self.trx.kill();
        let _waiting = kill.wait();
        let mut timer = runtime.sleep(timeout);
        poll_fn(|cx| {
            {
                let mut wait = self.trx.wait.lock();
                if wait.outcome == Outcome::Pending
                    && !wait.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()))
                {
                    wait.waker = Some(cx.waker().clone());
                }
            }
            if let Some(end) = self.ended() {
                return Poll::Ready(end);
            }
            if kill.poll(cx.waker()) {
                self.withdraw();
                // The request may have been granted at the last moment.
                return Poll::Ready(self.ended().unwrap_or(Err(Error::Interrupted)));
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.withdraw();
            // The request may have been granted at the last moment.
            Poll::Ready(self.ended().unwrap_or_else(|| {
                self.locks.counters.timed_out();
                Err(Error::LockWaitTimeout)
            }))
        })
        .await
    }

    /// The result of the wait, if another transaction has ended it.
    fn ended(&self) -> Option<Result<()>> {
        let wait = self.trx.wait.lock();
        assert_eq!(wait.ticket, self.ticket, "LOCK-3: no request is made while another waits");
        match wait.outcome {
            Outcome::Pending | Outcome::Withdrawn => None,
            Outcome::Granted => Some(Ok(())),
            Outcome::Victim => Some(Err(Error::Deadlock)),
        }
    }

    fn withdraw(&self) {
        let mut wakers = Wakers::new();
        self.locks.withdraw(&self.trx, self.ticket, Outcome::Withdrawn, &mut wakers);
        wake(wakers);
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        self.withdraw();
        self.locks.counters.wait_ended(self.locks.now().saturating_sub(self.began));
    }
}

impl fmt::Debug for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockWait({:?}, {:?})", self.trx, self.trx.waits_for())
    }
}
