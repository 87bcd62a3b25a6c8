//! Work that goes on when its caller gives it up.
//!
//! **OPENING-1** While a directory is opened or closed, the engine's tasks write its files. So both
//! run to their ends on a thread of the database, and an opened database that nobody waits for any
//! more is closed: the directory is locked until nobody writes.
use parking_lot::Mutex;
use redolith_engine::runtime::Runtime;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

struct State<T> {
    done: Option<T>,
    waker: Option<Waker>,
    given_up: bool,
}

/// Waits for the result of [`run_on`].
pub(super) struct Running<T>(Arc<Mutex<State<T>>>);

/// Runs `work` as a task of `runtime`, and `unwanted` with a result that nobody waits for any more.
pub(super) fn run_on<T: Send + 'static, F: Future<Output = ()> + Send>(
    runtime: &dyn Runtime,
    name: &'static str,
    work: impl Future<Output = T> + Send + 'static,
    unwanted: impl FnOnce(T) -> F + Send + 'static,
) -> Running<T> {
    let state = Arc::new(Mutex::new(State { done: None, waker: None, given_up: false }));
    let there = state.clone();
    let task = async move {
        let done = work.await;
        let given_up = {
            let mut state = there.lock();
            match state.given_up {
                true => Some(done),
                false => {
                    state.done = Some(done);
                    let waker = state.waker.take();
                    drop(state);
                    waker.into_iter().for_each(Waker::wake);
                    None
                }
            }
        };
        if let Some(done) = given_up {
            unwanted(done).await;
        }
    };
    runtime.spawn(name, Box::pin(task));
    Running(state)
}
impl<T> Future for Running<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.lock();
        match state.done.take() {
            Some(done) => Poll::Ready(done),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        let done = {
            let mut state = self.0.lock();
            state.given_up = true;
            state.done.take()
        };
        // A database that is here already is closed, as any other that is dropped.
        drop(done);
    }
}
