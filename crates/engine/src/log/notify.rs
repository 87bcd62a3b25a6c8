//! A bell for one background task: rung while nobody listens, it is heard at the next wait.
use crate::log::sync::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

#[derive(Default, Debug)]
struct State {
    rung: bool,
    closed: bool,
    waker: Option<Waker>,
}
#[derive(Debug)]
pub(super) struct Kick(Mutex<State>);
impl Default for Kick {
    fn default() -> Kick {
        Kick(Mutex::new(State::default()))
    }
}

impl Kick {
    pub fn kick(&self) {
        self.change(|s| s.rung = true);
    }
    /// Every wait, now and later, ends with `false`.
    pub fn close(&self) {
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
    /// Waits until kicked; `false` when closed.
    pub fn wait(&self) -> KickWait<'_> {
        KickWait(self)
    }
}

pub(super) struct KickWait<'a>(&'a Kick);
impl Future for KickWait<'_> {
    type Output = bool;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let mut s = self.0.0.lock();
        if s.closed {
            return Poll::Ready(false);
        }
        if std::mem::take(&mut s.rung) {
            return Poll::Ready(true);
        }
        s.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
