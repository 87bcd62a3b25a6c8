//! A single-threaded executor. A seed determines its every choice: which ready task runs next, and
//! when the disk completes an operation.
use redolith_disk::{Disk, SimDisk};
use redolith_engine::runtime::{BoxFuture, Runtime};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[derive(Clone)]
pub struct Rng(pub u64);
impl Rng {
    /// SplitMix64 (Steele et al., 2014).
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n.max(1)
    }
    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

struct Ready(AtomicBool);
impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}
struct Task {
    name: &'static str,
    future: BoxFuture<()>,
    ready: Arc<Ready>,
}
/// The wakers of sleeping tasks, by time and number.
type Timers = BTreeMap<(Duration, u64), Waker>;

/// The longest run, in simulated time. A longer run is taken to hang.
const ENDLESS: Duration = Duration::from_secs(900);

/// The engine's runtime in a simulation.
pub struct SimRuntime {
    disk: SimDisk,
    spawned: Mutex<Vec<(&'static str, BoxFuture<()>)>>,
    timers: Mutex<(Timers, u64)>,
    /// The machine is off: a task that is spawned now never runs.
    off: AtomicBool,
}
impl SimRuntime {
    fn new(disk: SimDisk) -> Arc<SimRuntime> {
        Arc::new(SimRuntime {
            disk,
            spawned: Mutex::default(),
            timers: Mutex::default(),
            off: AtomicBool::new(false),
        })
    }
}
impl Runtime for SimRuntime {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        if self.off.load(SeqCst) {
            return;
        }
        self.spawned.lock().expect("one thread").push((name, task));
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        // The run keeps the runtime alive. A sleeping task needs only the clock and an entry among
        // the timers.
        let end = self.disk.now() + time;
        let mut t = self.timers.lock().expect("one thread");
        t.1 += 1;
        let number = t.1;
        let slot = Arc::new(Mutex::new((false, None::<Waker>)));
        t.0.insert((end, number), Arc::new(Alarm(slot.clone())).into());
        Box::pin(std::future::poll_fn(move |cx| {
            let mut s = slot.lock().expect("one thread");
            if s.0 {
                return Poll::Ready(());
            }
            s.1 = Some(cx.waker().clone());
            Poll::Pending
        }))
    }
    fn yield_now(&self) -> BoxFuture<()> {
        let mut yielded = false;
        Box::pin(std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }
}
struct Alarm(Arc<Mutex<(bool, Option<Waker>)>>);
impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let mut s = self.0.lock().expect("one thread");
        s.0 = true;
        if let Some(w) = s.1.take() {
            w.wake();
        }
    }
}

/// How a run of the executor ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The main task has finished.
    Done,
    /// The power went off, or the engine gave up because of it.
    PowerOff,
    /// The engine ended its process (`poison`), for this reason.
    Died(String),
}

pub struct Executor {
    pub disk: SimDisk,
    pub runtime: Arc<SimRuntime>,
    pub rng: Rng,
    tasks: Vec<Option<Task>>,
}
impl Executor {
    pub fn new(disk: SimDisk, seed: u64) -> Executor {
        let runtime = SimRuntime::new(disk.clone());
        Executor { disk, runtime, rng: Rng(seed), tasks: Vec::new() }
    }
    fn add(&mut self, name: &'static str, future: BoxFuture<()>) {
        self.tasks.push(Some(Task { name, future, ready: Arc::new(Ready(AtomicBool::new(true))) }));
    }
    /// Runs `main` and all tasks that `main` and the engine spawn, until `main` is done or the
    /// power goes. Then every task is dropped, as in a crash.
    pub fn run(&mut self, main: BoxFuture<()>) -> End {
        self.add("main", main);
        let begun = self.disk.now();
        let end = loop {
            let new: Vec<_> = self.runtime.spawned.lock().expect("one thread").drain(..).collect();
            new.into_iter().for_each(|(name, task)| self.add(name, task));
            if self.disk.is_stopped() {
                break End::PowerOff;
            }
            let ready: Vec<usize> = (0..self.tasks.len())
                .filter(|i| self.tasks[*i].as_ref().is_some_and(|t| t.ready.0.load(SeqCst)))
                .collect();
            let pending = self.disk.pending();
            if ready.is_empty() && pending == 0 {
                assert!(self.pass_time(begun), "every task waits for nothing: a lost wake-up");
                continue;
            }
            // Completions of the disk come between the steps of tasks, at random.
            if pending > 0 && (ready.is_empty() || self.rng.chance(4)) {
                match catch_unwind(AssertUnwindSafe(|| self.disk.step())) {
                    Ok(_) => continue,
                    Err(panic) => break self.death(panic),
                }
            }
            let i = ready[self.rng.below(ready.len() as u64) as usize];
            let task = self.tasks[i].as_mut().expect("ready");
            task.ready.0.store(false, SeqCst);
            let waker = Waker::from(task.ready.clone());
            let polled = catch_unwind(AssertUnwindSafe(|| {
                task.future.as_mut().poll(&mut Context::from_waker(&waker))
            }));
            match polled {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(())) => {
                    self.tasks[i] = None;
                    if i == 0 {
                        break End::Done;
                    }
                }
                Err(panic) => break self.death(panic),
            }
            if self.rng.chance(50) {
                self.disk.advance(Duration::from_micros(100));
                self.fire();
            }
        };
        self.end_tasks();
        self.runtime = SimRuntime::new(self.disk.clone());
        end
    }
    /// Drops every task, as a crash does. A dropped task may panic in a half-done state. The panic
    /// is ignored, because the machine has crashed.
    fn end_tasks(&mut self) {
        self.runtime.off.store(true, SeqCst);
        let begun = std::mem::take(&mut self.tasks).into_iter().flatten().map(|t| t.future);
        // A task that has never run holds the engine, and the engine holds the runtime.
        let new = std::mem::take(&mut *self.runtime.spawned.lock().expect("one thread"));
        for future in begun.chain(new.into_iter().map(|(_, future)| future)) {
            let _ = catch_unwind(AssertUnwindSafe(move || drop(future)));
        }
    }
    /// A panic ends the life, because the power is gone or because the engine gave up.
    fn death(&self, panic: Box<dyn Any + Send>) -> End {
        if self.disk.is_stopped() {
            return End::PowerOff;
        }
        match panic.downcast_ref::<String>().and_then(|s| s.strip_prefix("poisoned: ")) {
            Some(why) => End::Died(why.to_string()),
            None => resume_unwind(panic),
        }
    }
    /// Moves the clock to the next timer when no task can run.
    fn pass_time(&mut self, begun: Duration) -> bool {
        let next =
            self.runtime.timers.lock().expect("one thread").0.first_key_value().map(|(k, _)| k.0);
        let Some(next) = next else { return false };
        let now = self.disk.now();
        let waiting = || self.tasks.iter().flatten().map(|t| t.name).collect::<Vec<_>>();
        assert!(now - begun < ENDLESS, "no end in sight after {ENDLESS:?} for {:?}", waiting());
        if next > now {
            self.disk.advance(next - now);
        }
        self.fire();
        true
    }
    fn fire(&mut self) {
        let now = self.disk.now();
        loop {
            let due = {
                let mut t = self.runtime.timers.lock().expect("one thread");
                match t.0.first_entry() {
                    Some(e) if e.key().0 <= now => e.remove(),
                    _ => return,
                }
            };
            due.wake();
        }
    }
}
impl Drop for Executor {
    fn drop(&mut self) {
        self.end_tasks();
    }
}
