//! A host for programs without an executor: each background task has a thread of its own, one more keeps the time.
use super::{BoxFuture, Host, block_on};
use parking_lot::{Condvar, Mutex};
use redolith_disk::Disk;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::task::{Poll, Waker};
use std::time::Duration;

#[derive(Default)]
struct Timers {
    /// By time and a number that tells those of one time apart.
    due: Mutex<(BTreeMap<(Duration, u64), Waker>, u64)>,
    changed: Condvar,
    closed: AtomicBool,
}
pub struct Threads {
    disk: Arc<dyn Disk>,
    timers: Arc<Timers>,
}
impl Threads {
    pub fn new(disk: Arc<dyn Disk>) -> Arc<Threads> {
        let timers = Arc::new(Timers::default());
        let (t, d) = (timers.clone(), disk.clone());
        std::thread::Builder::new().name("redolith-timer".into()).spawn(move || keep_time(&t, &*d)).expect("a thread for the timers");
        Arc::new(Threads { disk, timers })
    }
}
fn keep_time(timers: &Timers, disk: &dyn Disk) {
    let mut s = timers.due.lock();
    while !timers.closed.load(Acquire) {
        let now = disk.now();
        while let Some(first) = s.0.first_entry().filter(|e| e.key().0 <= now) {
            first.remove().wake();
        }
        match s.0.first_key_value().map(|(k, _)| k.0.saturating_sub(now)) {
            Some(left) => drop(timers.changed.wait_for(&mut s, left)),
            None => timers.changed.wait(&mut s),
        }
    }
}
impl Host for Threads {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        std::thread::Builder::new().name(format!("redolith-{name}")).spawn(move || block_on(task)).expect("a thread for a background task");
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        let (timers, disk, end) = (self.timers.clone(), self.disk.clone(), self.disk.now() + time);
        Box::pin(poll_fn(move |cx| {
            if disk.now() >= end {
                return Poll::Ready(());
            }
            let mut s = timers.due.lock();
            s.1 += 1;
            let n = s.1;
            s.0.insert((end, n), cx.waker().clone());
            timers.changed.notify_one();
            Poll::Pending
        }))
    }
    #[allow(clippy::disallowed_methods)] // this is the host
    fn pause(&self, time: Duration) -> BoxFuture<()> {
        Box::pin(async move { std::thread::sleep(time) })
    }
    fn yield_now(&self) -> BoxFuture<()> {
        Box::pin(async { std::thread::yield_now() })
    }
}
impl Drop for Threads {
    fn drop(&mut self) {
        // Under the mutex: not between the thread's look at `closed` and its sleep.
        let _due = self.timers.due.lock();
        self.timers.closed.store(true, Release);
        self.timers.changed.notify_one();
    }
}
