//! Lets a session do long work beside the worker threads.
//!
//! Evaluation of expressions is synchronous, and one call may take arbitrarily long. A session
//! whose statement has calculated for some milliseconds without a pause leaves its worker: another
//! thread takes over the worker's tasks, and the session continues on its old thread until it waits
//! for something. Then it is a task like the others again. Short statements never come here.
//!
//! BESIDE-1: a session that has left its worker calculates only in a seat. While clients send
//! commands, there are half as many seats as workers, so the workers find CPUs whatever is
//! calculated beside them; otherwise there are as many seats as workers. A session holds its seat
//! for a turn; then the seat goes to the session that has waited longest. A session that sleeps or
//! waits for a lock holds no seat.
//! BESIDE-5: a session beside the workers runs behind the threads that answer clients: it has the
//! policy of background work (`calculate_in_background`). Where it has to share its CPU while
//! clients send commands, it rests after each turn for `REST` times as long as it has run, without
//! giving its seat away.
//! BESIDE-7: where no commands come, the work beside the workers does not rest, whatever else runs
//! on the machine. A command that comes is noticed at the end of a turn.
//! BESIDE-6: only a task within [`run`] can leave its worker, because the seat goes back when `run`
//! sees the task wait or end. Every task that the engine spawns is within it: a rollback in the
//! background is as long as its transaction was.
//! BESIDE-2: the answers that the thread holds back are sent before the session leaves the worker
//! (OUT-3).
//! BESIDE-4: a session that has left has no worker. The code checks that another thread has taken
//! the worker, because the runtime does not promise it. A worker that stayed with a session beside
//! the workers would run no other task.
//! BESIDE-3: the number of sessions that have left is limited. The limit is below the number of
//! threads that the runtime may have for blocking work, so a worker that is left always finds a
//! thread.
use crate::send_batch;
use crate::worker_affinity::Workers;
use parking_lot::{Condvar, Mutex};
use redolith_disk::{Contention, calculate_in_background, calculate_in_foreground};
use redolith_engine::runtime::{BoxFuture, block_on};
use redolith_sql::status::{Counter, Status, StatusValue};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The greatest number of sessions beside the workers (BESIDE-3).
const MOST_BESIDE: usize = 4096;
/// How many threads the runtime may have beside its workers: one for each session beside the
/// workers, and one for each worker that is left.
pub const MOST_THREADS: usize = 2 * MOST_BESIDE;
/// How long one hand-over may take. A thread for the worker comes in microseconds where CPUs are
/// free. If no thread comes in `HAND_OVERS` attempts, the session stays on its worker.
const HAND_OVER: Duration = Duration::from_millis(100);
const HAND_OVERS: usize = 50;
/// After these attempts, each further attempt waits a moment, because the thread that is to take
/// the worker over has got no CPU.
const QUICK_HAND_OVERS: usize = 8;
const HAND_OVER_PAUSE: Duration = Duration::from_micros(100);

thread_local! {
    /// The number of the stretch: the time slice in which this thread polls its present task.
    static STRETCH: Cell<u64> = const { Cell::new(0) };
    /// Whether this thread polls a task within `run`.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// `LEFT`: the worker was left in this stretch. `WITH`: the `Beside` that counts the session.
    static LEFT: Cell<bool> = const { Cell::new(false) };
    static WITH: RefCell<Option<Arc<Beside>>> = const { RefCell::new(None) };
    static SEATED: Cell<bool> = const { Cell::new(false) };
    /// The time, and the number of commands received, when this thread sat down or rested last.
    static RESTED: Cell<Option<(Contention, u64)>> = const { Cell::new(None) };
}
/// Each thread numbers its stretches in a range of its own, of `PER_THREAD` numbers.
static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);
const PER_THREAD: u64 = 1 << 40;

/// The number of the present stretch. It differs from the number of every other stretch, on any
/// thread.
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

/// Runs a session's task. Each poll is a stretch with a number of its own. Within a poll the
/// session may leave its worker.
pub async fn run<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    poll_fn(|cx| {
        STRETCH.set(stretch() + 1);
        INSIDE.set(true);
        let _poll = Poll;
        task.as_mut().poll(cx)
    })
    .await
}
/// A poll of a task. Its end gives the seat back, even if the task panics.
struct Poll;
impl Drop for Poll {
    fn drop(&mut self) {
        INSIDE.set(false);
        if LEFT.get() {
            end();
        }
    }
}
#[cold]
fn end() {
    LEFT.set(false);
    calculate_in_foreground();
    if let Some(beside) = WITH.take() {
        beside.stand_up();
        beside.count.fetch_sub(1, Relaxed);
    }
}

/// The sessions that have left their workers.
pub struct Beside {
    count: AtomicUsize,
    seats: Seats,
    workers: Arc<Workers>,
    pub left: AtomicU64,
    /// Where the commands of clients are counted.
    status: OnceLock<Weak<Status>>,
    /// The number of commands at the last look, and the time, in ns, at which the number was first
    /// seen.
    commands: AtomicU64,
    commanded: AtomicU64,
}

impl Beside {
    pub fn new(workers: Arc<Workers>) -> Arc<Beside> {
        Arc::new(Beside {
            count: AtomicUsize::new(0),
            seats: Seats::default(),
            workers,
            left: AtomicU64::new(0),
            status: OnceLock::new(),
            commands: AtomicU64::new(0),
            commanded: AtomicU64::new(0),
        })
    }
    /// How many sessions are beside the workers now.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    pub fn register(self: &Arc<Self>, status: &Arc<Status>) {
        let _ = self.status.set(Arc::downgrade(status));
        let beside = self.clone();
        status.register(Box::new(move |put| {
            put("Redolith_sessions_beside", StatusValue::Int(beside.count() as u64));
            put("Redolith_workers_left", StatusValue::Int(beside.left.load(Relaxed)));
        }));
    }

    /// Leaves the worker. Returns false if the session must stay: too many sessions have left, no
    /// thread took the worker over, or the task is not within [`run`] (BESIDE-6). Returns true
    /// without an effect outside a task of a multi-threaded runtime, because no worker is occupied
    /// there.
    pub fn leave(self: &Arc<Self>) -> bool {
        if LEFT.get() {
            return true;
        }
        let Ok(runtime) = Handle::try_current() else { return true };
        if tokio::task::try_id().is_none() || runtime.runtime_flavor() != RuntimeFlavor::MultiThread
        {
            return true;
        }
        if !INSIDE.get() {
            return false;
        }
        if self.count.fetch_add(1, Relaxed) >= MOST_BESIDE {
            self.count.fetch_sub(1, Relaxed);
            return false;
        }
        self.left.fetch_add(1, Relaxed);
        send_batch::send_held_back();
        self.workers.leave();
        let attempt = |n| {
            if n >= QUICK_HAND_OVERS {
                // The other thread waits for a CPU.
                #[allow(clippy::disallowed_methods)] // this is the runtime
                thread::sleep(HAND_OVER_PAUSE);
            }
            hand_over(&runtime)
        };
        if !(0..HAND_OVERS).any(attempt) {
            self.count.fetch_sub(1, Relaxed);
            return false;
        }
        LEFT.set(true);
        WITH.set(Some(self.clone()));
        calculate_in_background();
        self.sit_down();
        true
    }

    /// Ends the session's turn: rests (BESIDE-5), and passes the seat on if another session waits
    /// for a seat (BESIDE-1).
    pub fn breathe(&self) {
        if !SEATED.get() {
            return;
        }
        let rest = self.rest();
        let quiet = self.is_quiet();
        if rest.is_zero() && !self.seats.is_wanted(self.seats_while(quiet)) {
            // A worker that is ready to run on this CPU need not wait for the end of this thread's
            // time slice. Linux takes a yield for the whole slice, which is long, so that where no
            // commands come other programs would get nearly all of the CPU (BESIDE-7).
            if !quiet {
                thread::yield_now();
            }
            return;
        }
        if !rest.is_zero() {
            #[allow(clippy::disallowed_methods)] // this is the runtime
            thread::sleep(rest);
        }
        self.stand_up();
        self.sit_down();
    }
    /// How long the calling session rests now.
    fn rest(&self) -> Duration {
        let Some((rested, commands)) = RESTED.get() else { return Duration::ZERO };
        let (ran, waited) = rested.end();
        if ran < TURN {
            return Duration::ZERO;
        }
        let now = self.commands();
        RESTED.set(Some((Contention::begin(), now)));
        if now == commands { Duration::ZERO } else { rest_after(ran, waited) }
    }
    /// The number of commands that the server has received.
    fn commands(&self) -> u64 {
        let status = self.status.get().and_then(Weak::upgrade);
        status.map_or(0, |status| status.counters.get(Counter::Questions))
    }
    /// How many sessions may calculate beside the workers now (BESIDE-1).
    fn seat_count(&self) -> usize {
        self.seats_while(self.is_quiet())
    }
    fn seats_while(&self, quiet: bool) -> usize {
        if quiet { self.workers.count() } else { (self.workers.count() / 2).max(1) }
    }
    /// Whether no command has come for a while.
    fn is_quiet(&self) -> bool {
        let (commands, now) = (self.commands(), Contention::begin().clock());
        if self.commands.swap(commands, Relaxed) != commands {
            self.commanded.store(now.as_nanos() as u64, Relaxed);
        }
        now.saturating_sub(Duration::from_nanos(self.commanded.load(Relaxed))) > QUIET
    }
    /// Blocks the thread until `wait` is ready. The session holds no seat meanwhile.
    pub fn block(&self, wait: BoxFuture<()>) {
        let seated = SEATED.get();
        self.stand_up();
        // tokio's budget for one poll makes a task yield; this thread blocks, and cannot yield.
        block_on(tokio::task::unconstrained(wait));
        if seated {
            self.sit_down();
        }
    }
    /// Does `work` on this thread, while another thread takes over the worker's tasks. The work
    /// needs no seat, because it is bounded by the length of a statement's text.
    pub fn work_long(&self, work: &mut dyn FnMut()) {
        self.workers.leave();
        tokio::task::block_in_place(work);
    }
    fn sit_down(&self) {
        self.seats.take(self.seat_count());
        SEATED.set(true);
        RESTED.set(Some((Contention::begin(), self.commands())));
    }
    fn stand_up(&self) {
        if SEATED.replace(false) {
            self.seats.give(self.seat_count());
        }
    }
}

/// Without a command for this long, the work beside the workers may use all CPUs.
const QUIET: Duration = Duration::from_millis(20);
/// How long a session calculates before it may have to rest (BESIDE-5), how many times that long it
/// rests, and the longest rest.
const TURN: Duration = Duration::from_micros(200);
const REST: u32 = 24;
const LONGEST_REST: Duration = Duration::from_millis(100);

/// BESIDE-5. `waited`: how long the thread was ready to run and had no CPU.
fn rest_after(ran: Duration, waited: Duration) -> Duration {
    if waited < ran / 4 { Duration::ZERO } else { (REST * ran).min(LONGEST_REST) }
}

/// Gives the calling thread's worker to another thread. Returns false if this thread still has the
/// worker (BESIDE-4).
fn hand_over(runtime: &Handle) -> bool {
    tokio::task::block_in_place(|| {
        // At its end, `block_in_place` takes the worker back unless another thread has it by then.
        // The runtime starts blocking work in order: once this closure runs, the worker's new
        // thread has started too, or is about to.
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

/// Whether the calling thread, in a task's poll, has no worker. Without a worker, `yield_now` wakes
/// the task at once; with a worker, the worker wakes it later.
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

/// A fair semaphore whose size changes: seats go to the waiting threads in the order in which they
/// came.
#[derive(Default)]
struct Seats {
    state: Mutex<Seated>,
}
#[derive(Default)]
struct Seated {
    seated: usize,
    queue: VecDeque<Arc<Place>>,
}
#[derive(Default)]
struct Place {
    given: Mutex<bool>,
    told: Condvar,
}

impl Seated {
    /// Gives the free ones of `seats` seats to the threads that have waited longest.
    fn admit(&mut self, seats: usize) {
        while self.seated < seats
            && let Some(next) = self.queue.pop_front()
        {
            self.seated += 1;
            *next.given.lock() = true;
            next.told.notify_one();
        }
    }
}
impl Seats {
    /// Waits for one of `seats` seats. The threads that end their turns say how many there are
    /// later.
    fn take(&self, seats: usize) {
        let place = Arc::new(Place::default());
        {
            let mut s = self.state.lock();
            s.queue.push_back(place.clone());
            s.admit(seats);
        }
        let mut given = place.given.lock();
        while !*given {
            place.told.wait(&mut given);
        }
    }
    fn give(&self, seats: usize) {
        let mut s = self.state.lock();
        s.seated -= 1;
        s.admit(seats);
    }
    /// Whether a thread waits for a seat, or more threads than `seats` have one.
    fn is_wanted(&self, seats: usize) -> bool {
        let s = self.state.lock();
        s.seated > seats || !s.queue.is_empty()
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

    /// Tests BESIDE-2 and OUT-3: the answers that a thread holds back are sent before a session
    /// leaves the worker, and before the engine blocks the thread.
    #[test]
    fn answers_are_sent_before_a_thread_works_long_or_blocks() {
        use redolith_sql::processes::Processes;
        if send_batch::here().is_none() {
            return; // no io_uring here: answers are sent by their connections
        }
        let runtime = runtime(2);
        let engine_runtime = engine_runtime(&runtime, 2);
        for leaves in [true, false] {
            let engine_runtime = engine_runtime.clone();
            let task = runtime.spawn(run(async move {
                let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
                let post = send_batch::Post::new(Processes::new().add("h", 1));
                drop(send_batch::tests::queue(&a, b"answer", &post));
                assert!(post.is_queued());
                if leaves {
                    // The answers are sent first. On a busy machine no thread may then be there to
                    // take the worker over.
                    let left = engine_runtime.leave_worker();
                    assert_eq!(left, engine_runtime.has_left_worker());
                } else {
                    engine_runtime.before_blocking();
                }
                assert!(!post.is_queued());
            }));
            runtime.block_on(task).unwrap();
        }
    }

    /// Four tasks leave their workers and spin, until another task, which needs a worker, tells
    /// them to end.
    /// Tests BESIDE-3.
    #[test]
    fn workers_that_are_left_take_other_tasks() {
        let runtime = runtime(2);
        let engine_runtime = engine_runtime(&runtime, 2);
        let (told, hold) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (mut tasks, in_vain) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..4 {
            let (engine_runtime, told, hold) = (engine_runtime.clone(), told.clone(), hold.clone());
            let in_vain = in_vain.clone();
            tasks.push(runtime.spawn(run(async move {
                // On a busy machine no thread may be there to take the worker over.
                while !engine_runtime.leave_worker() {
                    assert!(!engine_runtime.has_left_worker());
                    in_vain.fetch_add(1, Relaxed);
                    engine_runtime.yield_now().await;
                }
                assert!(engine_runtime.has_left_worker());
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
            (0, 4 + in_vain.load(Relaxed) as u64)
        );
    }

    /// Tasks leave again and again, on all workers at once, with more threads than CPUs.
    /// Tests BESIDE-4.
    #[test]
    fn no_worker_is_taken_along() {
        let runtime = runtime(2);
        let engine_runtime = engine_runtime(&runtime, 2);
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let engine_runtime = engine_runtime.clone();
                runtime.spawn(run(async move {
                    for _ in 0..50 {
                        // On a busy machine no thread may be there to take the worker over.
                        while !engine_runtime.leave_worker() {
                            engine_runtime.yield_now().await;
                        }
                        assert!(is_no_worker());
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

    /// Tests BESIDE-6: a task of the engine gives its seat back when it waits and when it ends, and
    /// a task that could not do so stays on its worker.
    #[test]
    fn tasks_of_the_engine_give_their_seats_back() {
        let runtime = runtime(2);
        let engine_runtime = engine_runtime(&runtime, 2);
        let (tell, told) = std::sync::mpsc::channel();
        for _ in 0..4 {
            let (inside, tell) = (engine_runtime.clone(), tell.clone());
            let task = async move {
                for _ in 0..2 {
                    assert!(!inside.has_left_worker());
                    // On a busy machine no thread may be there to take the worker over.
                    while !inside.leave_worker() {
                        inside.yield_now().await;
                    }
                    assert!(inside.has_left_worker());
                    inside.sleep(Duration::from_millis(1)).await;
                }
                tell.send(()).unwrap();
            };
            engine_runtime.spawn("test", Box::pin(task));
        }
        (0..4).for_each(|_| told.recv_timeout(Duration::from_secs(60)).unwrap());
        let bare = engine_runtime.clone();
        let stays = runtime.spawn(async move { !bare.leave_worker() && !bare.has_left_worker() });
        assert!(runtime.block_on(stays).unwrap());
    }

    #[test]
    fn a_task_that_panics_gives_its_seat_back() {
        let runtime = runtime(2);
        let engine_runtime = engine_runtime(&runtime, 2);
        for _ in 0..3 {
            let inside = engine_runtime.clone();
            let panics = runtime.spawn(run(async move {
                while !inside.leave_worker() {
                    inside.yield_now().await;
                }
                panic!("a task's own end");
            }));
            assert!(runtime.block_on(panics).unwrap_err().is_panic());
        }
    }

    /// BESIDE-5
    /// Tests BESIDE-1.
    #[test]
    fn a_session_rests_where_it_shares_its_cpu() {
        let rest = |ran, waited| {
            rest_after(Duration::from_micros(ran), Duration::from_micros(waited)).as_micros()
        };
        assert_eq!((rest(200, 49), rest(200, 50)), (0, 4800));
        assert_eq!(rest(50_000, 50_000), 100_000);
    }
    /// The greatest number of four sessions that calculated at once beside two workers. If
    /// `commands`, the last command is never long ago.
    fn calculate(commands: bool) -> usize {
        let runtime = runtime(2);
        let engine_runtime = engine_runtime(&runtime, 2);
        if commands {
            engine_runtime.0.beside().commanded.store(u64::MAX, Relaxed);
        }
        let (calculating, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let session = |n| {
            let engine_runtime = engine_runtime.clone();
            let (calculating, most) = (calculating.clone(), most.clone());
            async move {
                // On a busy machine no thread may be there to take the worker over.
                while !engine_runtime.leave_worker() {
                    engine_runtime.yield_now().await;
                }
                for _ in 0..100 {
                    most.fetch_max(calculating.fetch_add(1, Relaxed) + 1, Relaxed);
                    thread::park_timeout(Duration::from_micros(100));
                    calculating.fetch_sub(1, Relaxed);
                    if n == 0 {
                        let sleep = engine_runtime.sleep(Duration::from_micros(10));
                        engine_runtime.block_beside(sleep)
                    } else {
                        engine_runtime.breathe()
                    }
                }
            }
        };
        let tasks: Vec<_> = (0..4).map(|n| runtime.spawn(run(session(n)))).collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap()
            }
        });
        most.load(Relaxed)
    }
    /// Tests BESIDE-1 and BESIDE-7.
    #[test]
    fn seats_go_round_and_sleepers_hold_none() {
        assert_eq!(calculate(true), 1);
        // On a busy machine two threads may not meet in their seats.
        assert!((0..100).map(|_| calculate(false)).inspect(|n| assert!(*n <= 2)).any(|n| n == 2));
    }
    /// Tests BESIDE-1 and BESIDE-7: how many seats there are before and after a command.
    #[test]
    fn seats_are_halved_while_commands_come() {
        let beside = Beside::new(Workers::new(4));
        let status = Arc::new(Status::default());
        beside.register(&status);
        thread::park_timeout(2 * QUIET);
        assert_eq!(beside.seat_count(), 4);
        status.counters.add(Counter::Questions, 1);
        assert_eq!(beside.seat_count(), 2);
        let began = Contention::begin().clock();
        while Contention::begin().clock() - began <= QUIET {
            thread::park_timeout(QUIET);
        }
        assert_eq!(beside.seat_count(), 4);
    }
    /// Tests BESIDE-5 and BESIDE-7: a session that shares its CPU rests only if commands come.
    #[test]
    fn a_session_rests_for_commands_only() {
        let beside = Beside::new(Workers::new(2));
        let status = Arc::new(Status::default());
        beside.register(&status);
        let turn = || {
            beside.sit_down();
            let began = Contention::begin();
            while began.end().0 < 2 * TURN {
                thread::yield_now();
            }
            thread::park_timeout(2 * TURN); // as if another thread had the CPU
        };
        turn();
        assert_eq!(beside.rest(), Duration::ZERO);
        beside.stand_up();
        turn();
        status.counters.add(Counter::Questions, 1);
        assert!(beside.rest() >= REST * 2 * TURN);
        assert_eq!(beside.rest(), Duration::ZERO, "the next turn has just begun");
        beside.stand_up();
    }
}
