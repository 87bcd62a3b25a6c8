//! Waits for the binary log that KILL ends.
use crate::error::Result;
use crate::processes::{Kill, Process};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Waits for `f`. If the session is killed before, the wait ends with an error, and `f` is dropped:
/// a full disk must not hold sessions that nobody can end.
pub async fn killable<T>(process: &Process, f: impl Future<Output = T>) -> Result<T> {
    let mut f = pin!(f);
    poll_fn(|cx| {
        if let Poll::Ready(done) = f.as_mut().poll(cx) {
            return Poll::Ready(Ok(done));
        }
        match process.interrupt.poll(cx.waker()) {
            true => Poll::Ready(Err(match process.killed() {
                Kill::None => Kill::Query.error(),
                why => why.error(),
            })),
            false => Poll::Pending,
        }
    })
    .await
}
