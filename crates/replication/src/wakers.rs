//! Tasks that wait for something to move.
//!
//! WAKERS-1: a wait that is dropped leaves nothing, and a wait costs the same however many others
//! there are.
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::task::{Poll, Waker};

#[derive(Default)]
struct State {
    /// How often the tasks were woken.
    count: u64,
    /// By the number of the wait.
    wakers: HashMap<u64, Waker>,
    next: u64,
}

/// Tasks that wait.
#[derive(Default)]
pub(crate) struct Wakers(Mutex<State>);
impl Wakers {
    /// Wakes all waiting tasks.
    pub(crate) fn wake(&self) {
        let wakers = {
            let mut state = self.0.lock();
            state.count += 1;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }
    /// To be read before the condition; then [`Wakers::after`] misses no wake.
    pub(crate) fn seen(&self) -> u64 {
        self.0.lock().count
    }
    /// Resolves when the tasks are woken, or at once if they were after `seen`.
    pub(crate) async fn after(&self, seen: u64) {
        let mut wait = Wait { wakers: self, number: None };
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.count != seen {
                return Poll::Ready(());
            }
            let number = *wait.number.get_or_insert_with(|| {
                state.next += 1;
                state.next
            });
            if !state.wakers.get(&number).is_some_and(|w| w.will_wake(cx.waker())) {
                let before = state.wakers.insert(number, cx.waker().clone());
                // Outside the mutex: it may be the last to hold its task.
                drop(state);
                drop(before);
            }
            Poll::Pending
        })
        .await;
    }
}

/// A wait that may have a waker.
struct Wait<'a> {
    wakers: &'a Wakers,
    number: Option<u64>,
}
impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            // Outside the mutex as well.
            let waker = self.wakers.0.lock().wakers.remove(&number);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Tests WAKERS-1.
    #[test]
    fn a_wait_that_is_dropped_leaves_nothing() {
        let (wakers, woken) = (Wakers::default(), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        let cx = &mut Context::from_waker(&waker);
        let mut waits = pin!(wakers.after(wakers.seen()));
        assert!(waits.as_mut().poll(cx).is_pending() && waits.as_mut().poll(cx).is_pending());
        for _ in 0..100 {
            assert!(pin!(wakers.after(wakers.seen())).poll(cx).is_pending());
        }
        assert_eq!(wakers.0.lock().wakers.len(), 1);
        wakers.wake();
        assert_eq!((woken.0.load(Relaxed), wakers.0.lock().wakers.len()), (1, 0));
        assert!(waits.as_mut().poll(cx).is_ready());
        assert!(pin!(wakers.after(wakers.seen() - 1)).poll(cx).is_ready());
    }
}
