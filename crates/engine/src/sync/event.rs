//! An event for which tasks wait. The pattern `let seen = event.seen(); if !condition {
//! event.after(seen).await }` loses no notification.
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::task::{Context, Poll, Waker};

#[derive(Default)]
pub(crate) struct Event {
    count: AtomicU64,
    wakers: Mutex<VecDeque<(u64, Waker)>>,
    tickets: AtomicU64,
}

impl Event {
    pub(crate) fn seen(&self) -> u64 {
        self.count.load(SeqCst)
    }
    /// Wakes all waiting tasks.
    pub(crate) fn notify(&self) {
        self.notify_some(usize::MAX);
    }
    /// Wakes the `most` tasks that have waited longest. The other tasks are not woken, but such a
    /// task goes on too if something else polls it, because `count` has moved.
    pub(crate) fn notify_some(&self, most: usize) {
        let mut list = self.wakers.lock();
        self.count.fetch_add(1, SeqCst);
        let many = list.len().min(most);
        if many <= 1 {
            let one = if many == 1 { list.pop_front() } else { None };
            drop(list);
            one.into_iter().for_each(|(_, waker)| waker.wake());
        } else {
            let wake: Vec<_> = list.drain(..many).collect();
            drop(list);
            wake.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }
    pub(crate) fn has_waiters(&self) -> bool {
        !self.wakers.lock().is_empty()
    }
    /// Resolves when woken, or at once if there was a notification after `seen`.
    pub(crate) fn after(&self, seen: u64) -> After<'_> {
        After { event: self, seen, ticket: None }
    }
}

pub(crate) struct After<'a> {
    event: &'a Event,
    seen: u64,
    /// Set from the moment when the waker enters the list, also after it has been woken.
    ticket: Option<u64>,
}
impl Future for After<'_> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let event = self.event;
        let mut list = event.wakers.lock();
        if event.seen() != self.seen {
            // If the waker is still in the list, it is removed, and a notification wakes another
            // task instead.
            if let Some(ticket) = self.ticket.take() {
                list.retain(|(t, _)| *t != ticket);
            }
            return Poll::Ready(());
        }
        match self.ticket {
            Some(ticket) => {
                if let Some((_, waker)) = list.iter_mut().find(|(t, _)| *t == ticket) {
                    waker.clone_from(cx.waker());
                }
            }
            None => {
                let ticket = event.tickets.fetch_add(1, Relaxed);
                list.push_back((ticket, cx.waker().clone()));
                self.ticket = Some(ticket);
            }
        }
        Poll::Pending
    }
}
impl Drop for After<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut list = self.event.wakers.lock();
        let before = list.len();
        list.retain(|(t, _)| *t != ticket);
        let woken = list.len() == before;
        drop(list);
        if woken {
            // The task was woken but dropped its wait, so the next task in line is woken.
            self.event.notify_some(1);
        }
    }
}

/// Resolves when the first of the two futures does.
pub(crate) async fn either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        if a.as_mut().poll(cx).is_ready() || b.as_mut().poll(cx).is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

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

    #[test]
    fn turns_are_given_in_order_and_passed_on_by_those_that_go() {
        let event = Event::default();
        let (woken, noop) =
            (std::array::from_fn::<_, 3, _>(|_| Arc::new(Flag::default())), Waker::noop());
        let mut waits: Vec<_> = (0..3).map(|_| Some(Box::pin(event.after(event.seen())))).collect();
        for (wait, flag) in waits.iter_mut().zip(&woken) {
            let waker = Waker::from(flag.clone());
            assert!(
                wait.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
            );
        }
        let state = || woken.each_ref().map(|f| f.0.load(SeqCst));
        event.notify_some(1);
        assert_eq!(state(), [true, false, false]);
        waits[0] = None;
        assert_eq!(state(), [true, true, false], "the first went without looking");
        assert!(
            waits[1].as_mut().unwrap().as_mut().poll(&mut Context::from_waker(noop)).is_ready()
        );
        waits[1] = None;
        assert_eq!(state(), [true, true, false], "the second used its turn");
        event.notify();
        assert_eq!(state(), [true, true, true]);
    }
    #[derive(Default)]
    struct Flag(AtomicBool);
    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }
}
