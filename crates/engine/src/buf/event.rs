//! A broadcast for tasks: `let seen = event.seen(); if !condition { event.after(seen).await }` loses no notification.
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::task::{Context, Poll, Waker};

#[derive(Default)]
pub(crate) struct Event {
    count: AtomicU64,
    wakers: Mutex<Vec<(u64, Waker)>>,
    tickets: AtomicU64,
}

impl Event {
    pub fn seen(&self) -> u64 {
        self.count.load(SeqCst)
    }
    /// Wakes everybody who waits; true if somebody did.
    pub fn notify(&self) -> bool {
        let wakers = {
            let mut list = self.wakers.lock();
            self.count.fetch_add(1, SeqCst);
            std::mem::take(&mut *list)
        };
        let any = !wakers.is_empty();
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        any
    }
    pub fn has_waiters(&self) -> bool {
        !self.wakers.lock().is_empty()
    }
    /// Resolves once `notify` has been called after `seen`.
    pub fn after(&self, seen: u64) -> After<'_> {
        After { event: self, seen, ticket: self.tickets.fetch_add(1, Relaxed) }
    }
}

pub(crate) struct After<'a> {
    event: &'a Event,
    seen: u64,
    ticket: u64,
}
impl Future for After<'_> {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.event.seen() != self.seen {
            return Poll::Ready(());
        }
        let mut list = self.event.wakers.lock();
        if self.event.seen() != self.seen {
            return Poll::Ready(());
        }
        match list.iter_mut().find(|(t, _)| *t == self.ticket) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => list.push((self.ticket, cx.waker().clone())),
        }
        Poll::Pending
    }
}
impl Drop for After<'_> {
    fn drop(&mut self) {
        self.event.wakers.lock().retain(|(t, _)| *t != self.ticket);
    }
}

/// Resolves when the first of two does.
pub(crate) async fn either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(
        |cx| if a.as_mut().poll(cx).is_ready() || b.as_mut().poll(cx).is_ready() { Poll::Ready(()) } else { Poll::Pending },
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_between_seen_and_await_is_not_lost() {
        let event = Event::default();
        let mut cx = Context::from_waker(Waker::noop());
        let seen = event.seen();
        let mut early = std::pin::pin!(event.after(seen));
        assert!(early.as_mut().poll(&mut cx).is_pending() && event.has_waiters());
        event.notify();
        assert!(early.as_mut().poll(&mut cx).is_ready());
        assert!(std::pin::pin!(event.after(seen)).poll(&mut cx).is_ready());
        {
            let mut dropped = std::pin::pin!(event.after(event.seen()));
            assert!(dropped.as_mut().poll(&mut cx).is_pending());
        }
        let mut b = Box::pin(event.after(event.seen()));
        assert!(b.as_mut().poll(&mut cx).is_pending());
        drop(b);
        assert!(!event.has_waiters());
    }
}
