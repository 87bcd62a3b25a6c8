//! An open that goes on when its caller gives it up.
//!
//! **OPENING-1** While a directory is opened, the engine's tasks write its files. So an open runs
//! to its end on a thread of the database, and a database that nobody waits for any more is closed:
//! the directory is locked until nobody writes.
use super::Database;
use crate::error::Result;
use parking_lot::Mutex;
use redolith_engine::runtime::Runtime;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct State {
    opened: Option<Result<Database>>,
    waker: Option<Waker>,
    given_up: bool,
}

/// Waits for the result of [`open_on`].
pub(super) struct Opening(Arc<Mutex<State>>);

/// Runs `open` on a thread of `runtime`.
pub(super) fn open_on(
    runtime: &dyn Runtime,
    open: impl Future<Output = Result<Database>> + Send + 'static,
) -> Opening {
    let state = Arc::new(Mutex::new(State::default()));
    let there = state.clone();
    let task = async move {
        let opened = open.await;
        let unwanted = {
            let mut state = there.lock();
            match state.given_up {
                true => opened.ok(),
                false => {
                    state.opened = Some(opened);
                    let waker = state.waker.take();
                    drop(state);
                    waker.into_iter().for_each(Waker::wake);
                    None
                }
            }
        };
        if let Some(database) = unwanted {
            // Nobody is left to be told of an error; the next open recovers then.
            let _ = database.close().await;
        }
    };
    runtime.spawn("open", Box::pin(task));
    Opening(state)
}
impl Future for Opening {
    type Output = Result<Database>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match state.opened.take() {
            Some(opened) => Poll::Ready(opened),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
impl Drop for Opening {
    fn drop(&mut self) {
        let opened = {
            let mut state = self.0.lock();
            state.given_up = true;
            state.opened.take()
        };
        // A database that is here already is closed, as any other that is dropped.
        drop(opened);
    }
}
