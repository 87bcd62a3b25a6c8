//! A runtime for programs without an executor: each background task has a thread of its own, and
//! one more thread keeps the time.
//!
//! A process may have no more threads to give when many transactions are dropped at once, each of
//! which is rolled back by a task. Such tasks share one thread, which is there from the start.
use super::{BoxFuture, Runtime, block_on};
use parking_lot::{Condvar, Mutex, MutexGuard};
use redolith_disk::Disk;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[derive(Default)]
struct Timers {
    /// The wakers by time, and by a number that distinguishes wakers of the same time.
    due: Mutex<(BTreeMap<(Duration, u64), Waker>, u64)>,
    changed: Condvar,
    closed: AtomicBool,
}
/// The tasks of the shared thread.
#[derive(Default)]
struct Shared {
    /// The tasks that can go on.
    ready: Mutex<VecDeque<Arc<SharedTask>>>,
    changed: Condvar,
    closed: AtomicBool,
}
struct SharedTask {
    /// None when the task has ended.
    task: Mutex<Option<BoxFuture<()>>>,
    shared: Arc<Shared>,
}
impl Wake for SharedTask {
    fn wake(self: Arc<Self>) {
        let shared = self.shared.clone();
        shared.ready.lock().push_back(self);
        shared.changed.notify_one();
    }
}
impl Shared {
    fn run(&self) {
        loop {
            let mut ready = self.ready.lock();
            let next = loop {
                if let Some(next) = ready.pop_front() {
                    break next;
                }
                if self.closed.load(Acquire) {
                    return;
                }
                self.changed.wait(&mut ready);
            };
            drop(ready);
            let waker = Waker::from(next.clone());
            let mut task = next.task.lock();
            if let Some(future) = &mut *task
                && future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
            {
                *task = None;
            }
        }
    }
}
/// A runtime with a thread for each background task, for programs without an executor.
pub struct Threads {
    disk: Arc<dyn Disk>,
    timers: Arc<Timers>,
    shared: Arc<Shared>,
    /// What a task's thread has on its stack; None for the system's default.
    stack_bytes: Option<usize>,
}
impl Threads {
    /// A runtime whose clock is that of the disk.
    pub fn new(disk: Arc<dyn Disk>) -> Arc<Threads> {
        Arc::new(Threads::with(disk))
    }
    fn with(disk: Arc<dyn Disk>) -> Threads {
        let timers = Arc::new(Timers::default());
        let (t, d) = (timers.clone(), disk.clone());
        std::thread::Builder::new()
            .name("redolith-timer".into())
            .spawn(move || keep_time(&t, &*d))
            .expect("a thread for the timers");
        let shared = Arc::new(Shared::default());
        let s = shared.clone();
        std::thread::Builder::new()
            .name("redolith-shared".into())
            .spawn(move || s.run())
            .expect("a thread for tasks that get none of their own");
        Threads { disk, timers, shared, stack_bytes: None }
    }
    /// Runs the task in a thread of its own.
    fn start(&self, name: &str, task: Arc<Mutex<Option<BoxFuture<()>>>>) -> io::Result<()> {
        let mut thread = std::thread::Builder::new().name(format!("redolith-{name}"));
        if let Some(bytes) = self.stack_bytes {
            thread = thread.stack_size(bytes);
        }
        let run = move || {
            let task = task.lock().take();
            task.map(block_on);
        };
        thread.spawn(run).map(drop)
    }
}
fn keep_time(timers: &Timers, disk: &dyn Disk) {
    let mut s = timers.due.lock();
    while !timers.closed.load(Acquire) {
        let now = disk.now();
        while let Some(first) = s.0.first_entry().filter(|e| e.key().0 <= now) {
            let waker = first.remove();
            MutexGuard::unlocked(&mut s, || waker.wake());
        }
        match s.0.first_key_value().map(|(k, _)| k.0.saturating_sub(now)) {
            Some(left) => drop(timers.changed.wait_for(&mut s, left)),
            None => timers.changed.wait(&mut s),
        }
    }
}
impl Runtime for Threads {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        // A thread that cannot be started drops what it was to run, but not the task.
        let task = Arc::new(Mutex::new(Some(task)));
        if let Err(e) = self.start(name, task.clone()) {
            tracing::warn!(
                "no thread can be started for the background task \"{name}\": {e}. It shares a \
                 thread with others and may take longer. Allow the process more threads"
            );
            let (task, shared) = (Mutex::new(task.lock().take()), self.shared.clone());
            Arc::new(SharedTask { task, shared }).wake();
        }
    }
    fn spawn_thread(&self, name: &'static str, task: BoxFuture<()>) -> io::Result<()> {
        self.start(name, Arc::new(Mutex::new(Some(task))))
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        Box::pin(Sleep {
            timers: self.timers.clone(),
            disk: self.disk.clone(),
            end: self.disk.now().saturating_add(time),
            number: None,
        })
    }
    #[allow(clippy::disallowed_methods)] // This is the runtime.
    fn pause(&self, time: Duration) -> BoxFuture<()> {
        Box::pin(async move { std::thread::sleep(time) })
    }
    fn yield_now(&self) -> BoxFuture<()> {
        // The future returns once, so that a caller that waits for several futures polls the
        // others.
        let mut looked = false;
        Box::pin(std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut looked, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::thread::yield_now();
            Poll::Pending
        }))
    }
}
/// A sleep. It has one entry among the timers from its first poll until it is over or dropped.
struct Sleep {
    timers: Arc<Timers>,
    disk: Arc<dyn Disk>,
    end: Duration,
    number: Option<u64>,
}
impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.disk.now() >= this.end {
            return Poll::Ready(());
        }
        let mut s = this.timers.due.lock();
        let number = *this.number.get_or_insert_with(|| {
            s.1 += 1;
            s.1
        });
        // Replacing a waker may drop the last handle of a task, and with it another sleep, whose
        // drop locks the mutex. So the older waker is dropped after the mutex is released.
        let older = s.0.insert((this.end, number), cx.waker().clone());
        if s.0.first_key_value().is_some_and(|(first, _)| *first == (this.end, number)) {
            this.timers.changed.notify_one();
        }
        drop(s);
        drop(older);
        Poll::Pending
    }
}
impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let _waker = self.timers.due.lock().0.remove(&(self.end, number));
        }
    }
}
impl Drop for Threads {
    fn drop(&mut self) {
        // The store happens under the mutex, so that it cannot come between the thread's look at
        // `closed` and its sleep.
        let _due = self.timers.due.lock();
        self.timers.closed.store(true, Release);
        self.timers.changed.notify_one();
        let _ready = self.shared.ready.lock();
        self.shared.closed.store(true, Release);
        self.shared.changed.notify_one();
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use redolith_disk::RealDisk;

    #[test]
    fn a_sleep_has_one_entry_and_takes_it_along() {
        let runtime = Threads::new(Arc::new(RealDisk::new()));
        let entries = || runtime.timers.due.lock().0.len();
        let mut long = runtime.sleep(Duration::from_secs(3600));
        let mut cx = Context::from_waker(Waker::noop());
        (0..10).for_each(|_| assert!(long.as_mut().poll(&mut cx).is_pending()));
        assert_eq!(entries(), 1);
        // The timer's thread sleeps for an hour now; an earlier sleep wakes it.
        block_on(runtime.sleep(Duration::from_millis(1)));
        assert_eq!(entries(), 1);
        drop(long);
        assert_eq!(entries(), 0);
    }

    /// A stack of this size cannot be had, and so no thread.
    const TOO_LARGE: usize = 1 << 60;

    #[test]
    fn tasks_that_get_no_thread_share_one() {
        let mut threads = Threads::with(Arc::new(RealDisk::new()));
        threads.stack_bytes = Some(TOO_LARGE);
        let threads = Arc::new(threads);
        let (tell, told) = std::sync::mpsc::channel();
        for n in 0..100 {
            let (tell, runtime) = (tell.clone(), threads.clone());
            threads.spawn(
                "test",
                Box::pin(async move {
                    runtime.sleep(Duration::from_millis(n % 3)).await;
                    runtime.yield_now().await;
                    tell.send(n).unwrap();
                }),
            );
        }
        drop(tell);
        let mut all: Vec<u64> = told.iter().collect();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<u64>>());
        // A task that blocks would hold the others up.
        assert!(threads.spawn_thread("test", Box::pin(async { unreachable!() })).is_err());
    }
    #[test]
    fn a_sleep_may_be_without_end() {
        let runtime = Threads::new(Arc::new(RealDisk::new()));
        let mut long = runtime.sleep(Duration::MAX);
        assert!(long.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The timer's thread sleeps without end now; an earlier sleep wakes it.
        block_on(runtime.sleep(Duration::from_millis(1)));
    }
}
