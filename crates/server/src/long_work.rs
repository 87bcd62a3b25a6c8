//! Long work beside the workers.
//!
//! Evaluation of expressions is synchronous, and one call of it may take for ever. A session whose
//! statement has worked for a millisecond at a stretch leaves its worker: another thread takes the
//! worker's tasks over, and the session goes on, on the thread that it is on, until it waits for
//! something. Then it is a task like the others again. A statement that is short never comes here.
//!
//! BESIDE-1: whoever has left calculates only in a seat, of which there are half as many as CPUs:
//! the workers find CPUs whatever is calculated beside them. Seats are held for a turn, and given
//! to those who have waited longest. Who sleeps or waits for a lock holds none.
//! BESIDE-2: answers that the thread holds back leave before the worker does (OUT-3).
//! BESIDE-4: who has left has no worker: that another thread has it is looked at, not believed. A
//! worker of somebody who sits here would run nothing for ever.
//! BESIDE-3: the number of those who have left is limited, and below the number of threads that the
//! runtime may have for what blocks: a worker that is left always finds a thread.
use crate::send_batch;
use crate::worker_affinity::Workers;
use parking_lot::{Condvar, Mutex};
use redolith_engine::runtime::{BoxFuture, block_on};
use redolith_sql::status::{Status, StatusValue};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// BESIDE-3
const MOST_BESIDE: usize = 4096;
/// How many threads the runtime may have beside its workers: one for each of those, and for each
/// worker that is left.
pub const MOST_THREADS: usize = 2 * MOST_BESIDE;
/// A thread for a worker that is left comes in microseconds where CPUs are free. Where none comes
/// at all the session stays on its worker.
const HAND_OVER: Duration = Duration::from_millis(100);
const HAND_OVERS: usize = 50;

thread_local! {
    /// The stretch of work of the task that this thread polls.
    static STRETCH: Cell<u64> = const { Cell::new(0) };
    /// The worker was left in this stretch; and where to say that it is over.
    static LEFT: Cell<bool> = const { Cell::new(false) };
    static WITH: RefCell<Option<Arc<Beside>>> = const { RefCell::new(None) };
    static SEATED: Cell<bool> = const { Cell::new(false) };
}
/// Threads number their stretches apart.
static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);
const PER_THREAD: u64 = 1 << 40;

/// The number of the stretch under way.
pub fn stretch() -> u64 {
    let n = STRETCH.get();
    if n != 0 {
        return n;
    }
    STRETCH.set(NEXT_THREAD.fetch_add(1, Relaxed) * PER_THREAD);
    STRETCH.get()
}
pub fn has_left() -> bool {
    LEFT.get()
}

/// Runs a session's task, whose stretches are told apart and may be worked off beside the workers.
pub async fn run<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    poll_fn(|cx| {
        STRETCH.set(stretch() + 1);
        let polled = task.as_mut().poll(cx);
        if LEFT.get() {
            end();
        }
        polled
    })
    .await
}
#[cold]
fn end() {
    LEFT.set(false);
    if let Some(beside) = WITH.take() {
        beside.stand_up();
        beside.count.fetch_sub(1, Relaxed);
    }
}

/// Those who have left their workers.
pub struct Beside {
    count: AtomicUsize,
    seats: Seats,
    workers: Arc<Workers>,
    pub left: AtomicU64,
}

impl Beside {
    pub fn new(workers: Arc<Workers>) -> Arc<Beside> {
        let seats = Seats::new((workers.count() / 2).max(1));
        Arc::new(Beside { count: AtomicUsize::new(0), seats, workers, left: AtomicU64::new(0) })
    }
    /// How many there are now.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    pub fn register(self: &Arc<Self>, status: &Status) {
        let beside = self.clone();
        status.register(Box::new(move |put| {
            put("Redolith_sessions_beside", StatusValue::Int(beside.count() as u64));
            put("Redolith_workers_left", StatusValue::Int(beside.left.load(Relaxed)));
        }));
    }

    /// False: there are too many. Called within [`run`], or where no worker is held up.
    pub fn leave(self: &Arc<Self>) -> bool {
        if LEFT.get() {
            return true;
        }
        let Ok(runtime) = Handle::try_current() else { return true };
        if tokio::task::try_id().is_none() || runtime.runtime_flavor() != RuntimeFlavor::MultiThread
        {
            return true;
        }
        if self.count.fetch_add(1, Relaxed) >= MOST_BESIDE {
            self.count.fetch_sub(1, Relaxed);
            return false;
        }
        self.left.fetch_add(1, Relaxed);
        send_batch::send_held_back();
        self.workers.leave();
        if !(0..HAND_OVERS).any(|_| hand_over(&runtime)) {
            self.count.fetch_sub(1, Relaxed);
            return false;
        }
        LEFT.set(true);
        WITH.set(Some(self.clone()));
        self.sit_down();
        true
    }

    /// The end of a turn (BESIDE-1).
    pub fn breathe(&self) {
        if !SEATED.get() {
            return;
        }
        if self.seats.is_wanted() {
            self.stand_up();
            self.sit_down();
        } else {
            // A worker that is ready on this CPU need not wait for the end of a time slice.
            thread::yield_now();
        }
    }
    /// Blocks outside a seat.
    pub fn block(&self, wait: BoxFuture<()>) {
        let seated = SEATED.get();
        self.stand_up();
        // The budget of a poll is for tasks that could give way.
        block_on(tokio::task::unconstrained(wait));
        if seated {
            self.sit_down();
        }
    }
    /// Works on this thread while another takes over its worker's tasks. It needs no seat: such
    /// work is as long as the text of a statement, and ends.
    pub fn work_long(&self, work: &mut dyn FnMut()) {
        self.workers.leave();
        tokio::task::block_in_place(work);
    }
    fn sit_down(&self) {
        self.seats.take();
        SEATED.set(true);
    }
    fn stand_up(&self) {
        if SEATED.replace(false) {
            self.seats.give();
        }
    }
}

/// Gives the calling thread's worker to another; false if it still is this one's (BESIDE-4).
fn hand_over(runtime: &Handle) -> bool {
    tokio::task::block_in_place(|| {
        // The call's end takes the worker back unless another thread has it by then. The runtime
        // begins blocking work in order: when this has begun, so has that, or nearly.
        let taken = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = taken.clone();
        runtime.spawn_blocking(move || {
            *theirs.0.lock() = true;
            theirs.1.notify_one();
        });
        let mut begun = taken.0.lock();
        if !*begun {
            taken.1.wait_for(&mut begun, HAND_OVER);
        }
    });
    is_no_worker()
}

/// Whether the calling thread, in a task's poll, has no worker: then the runtime wakes who steps
/// back at once.
fn is_no_worker() -> bool {
    struct Told(AtomicBool);
    impl Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }
    let told = Arc::new(Told(AtomicBool::new(false)));
    let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&told.clone().into()));
    told.0.load(Relaxed)
}

/// Places that are given to those who wait in the order they came.
struct Seats {
    state: Mutex<Waiting>,
}
struct Waiting {
    free: usize,
    queue: VecDeque<Arc<Place>>,
}
#[derive(Default)]
struct Place {
    given: Mutex<bool>,
    told: Condvar,
}

impl Seats {
    fn new(count: usize) -> Seats {
        Seats { state: Mutex::new(Waiting { free: count, queue: VecDeque::new() }) }
    }
    fn take(&self) {
        let place = {
            let mut s = self.state.lock();
            if s.free > 0 {
                s.free -= 1;
                return;
            }
            let place = Arc::new(Place::default());
            s.queue.push_back(place.clone());
            place
        };
        let mut given = place.given.lock();
        while !*given {
            place.told.wait(&mut given);
        }
    }
    fn give(&self) {
        let mut s = self.state.lock();
        match s.queue.pop_front() {
            Some(next) => {
                *next.given.lock() = true;
                next.told.notify_one();
            }
            None => s.free += 1,
        }
    }
    fn is_wanted(&self) -> bool {
        !self.state.lock().queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_engine::runtime::Runtime;

    fn runtime(workers: usize) -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .max_blocking_threads(64)
            .enable_all()
            .build()
            .unwrap()
    }
    fn engine_runtime(
        runtime: &tokio::runtime::Runtime,
        workers: usize,
    ) -> Arc<crate::runtime::EngineRuntime> {
        let threads = Workers::new(workers);
        Arc::new(crate::runtime::EngineRuntime(Arc::new(crate::runtime::TokioRuntime::new(
            runtime.handle().clone(),
            threads,
        ))))
    }

    /// Tasks that hold both workers until another task, which needs a worker, tells them to end.
    #[test]
    fn workers_that_are_left_take_other_tasks() {
        let runtime = runtime(2);
        let engine_runtime = engine_runtime(&runtime, 2);
        let (told, hold) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let (engine_runtime, told, hold) = (engine_runtime.clone(), told.clone(), hold.clone());
            tasks.push(runtime.spawn(run(async move {
                assert!(
                    !engine_runtime.has_left_worker()
                        && engine_runtime.leave_worker()
                        && engine_runtime.has_left_worker()
                );
                hold.fetch_add(1, Relaxed);
                while told.load(Relaxed) == 0 {
                    engine_runtime.breathe();
                }
                let before = engine_runtime.stretch();
                tokio::task::yield_now().await;
                assert!(!engine_runtime.has_left_worker() && engine_runtime.stretch() != before);
            })));
        }
        let (seen, tell) = (hold.clone(), told.clone());
        tasks.push(runtime.spawn(async move {
            while seen.load(Relaxed) < 4 {
                tokio::task::yield_now().await;
            }
            tell.store(1, Relaxed);
        }));
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap()
            }
        });
        assert_eq!(
            (engine_runtime.0.beside().count(), engine_runtime.0.beside().left.load(Relaxed)),
            (0, 4)
        );
    }

    /// Again and again, from all workers at once, with more threads than CPUs.
    #[test]
    fn no_worker_is_taken_along() {
        let runtime = runtime(2);
        let engine_runtime = engine_runtime(&runtime, 2);
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let engine_runtime = engine_runtime.clone();
                runtime.spawn(run(async move {
                    for _ in 0..50 {
                        assert!(engine_runtime.leave_worker() && is_no_worker());
                        tokio::task::yield_now().await;
                    }
                }))
            })
            .collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap()
            }
        });
        assert_eq!(engine_runtime.0.beside().count(), 0);
    }

    #[test]
    fn seats_go_round_and_sleepers_hold_none() {
        let runtime = runtime(2);
        let engine_runtime = engine_runtime(&runtime, 2);
        let calculating = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..3)
            .map(|n| {
                let (engine_runtime, calculating) = (engine_runtime.clone(), calculating.clone());
                runtime.spawn(run(async move {
                    engine_runtime.leave_worker();
                    for _ in 0..100 {
                        assert_eq!(calculating.fetch_add(1, Relaxed), 0, "two CPUs have one seat");
                        calculating.fetch_sub(1, Relaxed);
                        if n == 0 {
                            engine_runtime
                                .block_beside(engine_runtime.sleep(Duration::from_micros(10)))
                        } else {
                            engine_runtime.breathe()
                        }
                    }
                }))
            })
            .collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap()
            }
        });
    }
}
