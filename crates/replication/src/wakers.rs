//! Tasks that wait for something to move.
use parking_lot::Mutex;
use std::future::poll_fn;
use std::task::{Poll, Waker};

#[derive(Default)]
struct State {
    /// How often the tasks were woken.
    count: u64,
    wakers: Vec<Waker>,
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
        wakers.into_iter().for_each(Waker::wake);
    }
    /// To be read before the condition; then [`Wakers::after`] misses no wake.
    pub(crate) fn seen(&self) -> u64 {
        self.0.lock().count
    }
    /// Resolves when the tasks are woken, or at once if they were after `seen`.
    pub(crate) async fn after(&self, seen: u64) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.count != seen {
                return Poll::Ready(());
            }
            if !state.wakers.iter().any(|w| w.will_wake(cx.waker())) {
                state.wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
