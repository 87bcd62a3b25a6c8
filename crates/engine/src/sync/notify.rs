//! A notification for one background task. If the task is not waiting when it is notified, its next
//! wait ends at once.
use crate::sync::log::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

#[derive(Default, Debug)]
struct State {
    notified: bool,
    closed: bool,
    waker: Option<Waker>,
}
#[derive(Debug)]
pub(crate) struct Notify(Mutex<State>);
impl Default for Notify {
    fn default() -> Notify {
        Notify(Mutex::new(State::default()))
    }
}

impl Notify {
    pub(crate) fn notify(&self) {
        self.change(|s| s.notified = true);
    }
    /// Ends every wait, now and later, with `false`.
    pub(crate) fn close(&self) {
        self.change(|s| s.closed = true);
    }
    fn change(&self, to: impl FnOnce(&mut State)) {
        let waker = {
            let mut s = self.0.lock();
            to(&mut s);
            s.waker.take()
        };
        if let Some(w) = waker {
            w.wake();
        }
    }
    /// Waits until notified. Returns `false` if the notification is closed.
    pub(crate) fn wait(&self) -> Notified<'_> {
        Notified(self)
    }
}

pub(crate) struct Notified<'a>(&'a Notify);
impl Future for Notified<'_> {
    type Output = bool;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let mut s = self.0.0.lock();
        if s.closed {
            return Poll::Ready(false);
        }
        if std::mem::take(&mut s.notified) {
            return Poll::Ready(true);
        }
        s.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
