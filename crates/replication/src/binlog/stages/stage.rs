//! A stage of the commit: its queue, and who works for whom.
//!
//! - STAGE-1: one session at a time works in a stage: it has the stage's baton.
//! - STAGE-2: who enters a stage that nobody leads, leads it, and takes along all who enter until
//!   the leader closes the queue. So each who has entered is taken along by exactly one leader.
//! - STAGE-3: a follower is woken alone, when its own commit is done. No wake-up goes to a session
//!   that has to go on waiting.
use super::counters::StageCounts;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The place of a session that waits for a leader.
#[derive(Default)]
pub(super) struct Seat(Mutex<(bool, Option<Waker>)>);
impl Seat {
    /// The session's commit is done.
    pub(super) fn release(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
    /// Resolves when a leader has released the seat.
    pub(super) async fn released(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Sessions that go through the stages together, in the order in which they came.
pub(super) type Group = Vec<Arc<Seat>>;

#[derive(Default)]
struct Queue {
    waiting: Group,
    /// Whether a session leads, and has not closed the queue yet.
    led: bool,
}

/// Who works at the stage.
#[derive(Default)]
struct Baton {
    held: bool,
    /// The leader of the next group. There is one at most: a stage has another leader only after
    /// the one before has closed the queue, for which it has to have the baton (STAGE-2).
    next: Option<Waker>,
}

/// What a session that enters a stage does there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Leads,
    Follows,
}

/// A stage.
#[derive(Default)]
pub(super) struct Stage {
    queue: Mutex<Queue>,
    baton: Mutex<Baton>,
    pub(super) counts: StageCounts,
}
impl Stage {
    /// Enters the queue with a group. A leader calls [`Stage::work`] next.
    pub(super) fn enter(&self, group: Group) -> Role {
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() {
            queue.waiting = group;
        } else {
            queue.waiting.extend(group);
        }
        if std::mem::replace(&mut queue.led, true) { Role::Follows } else { Role::Leads }
    }
    /// Resolves when the leader is alone at the stage (STAGE-1).
    pub(super) async fn work(&self) -> Working<'_> {
        poll_fn(|cx| {
            let mut baton = self.baton.lock();
            if !std::mem::replace(&mut baton.held, true) {
                return Poll::Ready(());
            }
            baton.next = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Working(self)
    }
    /// How many wait in the queue.
    pub(super) fn len(&self) -> usize {
        self.queue.lock().waiting.len()
    }
}

/// The baton of a stage, until it is dropped.
pub(super) struct Working<'s>(&'s Stage);
impl Working<'_> {
    /// Moves those who wait into `group`, and closes the queue: who enters from now on leads.
    pub(super) fn close(&self, group: &mut Group) {
        let mut queue = self.0.queue.lock();
        append(group, &mut queue.waiting);
        queue.led = false;
    }
    /// Moves those who wait into `group`. If nobody waits, closes the queue and returns false.
    pub(super) fn take_more(&self, group: &mut Group) -> bool {
        let mut queue = self.0.queue.lock();
        let more = !queue.waiting.is_empty();
        append(group, &mut queue.waiting);
        queue.led = more;
        more
    }
}
impl Drop for Working<'_> {
    fn drop(&mut self) {
        let next = {
            let mut baton = self.0.baton.lock();
            baton.held = false;
            baton.next.take()
        };
        next.into_iter().for_each(Waker::wake);
    }
}

fn append(group: &mut Group, from: &mut Group) {
    if group.is_empty() { std::mem::swap(group, from) } else { group.append(from) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_engine::runtime::block_on;

    fn seats(n: usize) -> Group {
        (0..n).map(|_| Arc::default()).collect()
    }

    /// Tests STAGE-2.
    #[test]
    fn the_first_leads_until_it_closes_the_queue() {
        let stage = Stage::default();
        assert_eq!([stage.enter(seats(1)), stage.enter(seats(2))], [Role::Leads, Role::Follows]);
        let working = block_on(stage.work());
        let mut group = Group::new();
        assert!(working.take_more(&mut group) && group.len() == 3);
        // The queue is empty, and still this leader's.
        assert_eq!(stage.enter(seats(1)), Role::Follows);
        assert!(working.take_more(&mut group) && !working.take_more(&mut group));
        assert_eq!((group.len(), stage.enter(seats(1))), (4, Role::Leads));
        working.close(&mut group);
        assert_eq!((group.len(), stage.len(), stage.enter(seats(1))), (5, 0, Role::Leads));
    }

    /// Tests STAGE-1 and STAGE-3: threads that enter at once are each taken along once, and only
    /// one of them works at a time.
    #[test]
    fn each_is_taken_along_once() {
        let (stage, at_work) = (Stage::default(), Mutex::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let mine: Arc<Seat> = Arc::default();
                        if stage.enter(vec![mine.clone()]) == Role::Follows {
                            block_on(mine.released());
                            continue;
                        }
                        let working = block_on(stage.work());
                        let _alone = at_work.try_lock().expect("STAGE-1");
                        let mut group = Group::new();
                        while working.take_more(&mut group) {}
                        assert!(group.iter().any(|seat| Arc::ptr_eq(seat, &mine)));
                        group.iter().for_each(|seat| seat.release());
                        block_on(mine.released());
                        drop(_alone);
                        drop(working);
                    }
                });
            }
        });
        assert_eq!(stage.len(), 0);
    }
}
