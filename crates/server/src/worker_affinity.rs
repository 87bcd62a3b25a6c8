//! Binds each worker thread to a CPU of its own, where that is faster.
//!
//! The kernel wakes a thread near the thread that woke it. Where clients share the machine, this
//! puts the worker threads and most clients on one CPU again and again, while another CPU is idle.
//! With 32 sessions of one-statement transactions on two CPUs, a quarter of the CPU time was idle,
//! and each worker thread waited 0.3 of the time for a CPU. Bound worker threads leave the clients
//! free to move to the idle CPUs. With few sessions binding costs speed: a client and the thread
//! that answers it are best on the same CPU, and no thread waits for long. With all CPUs busy,
//! binding gains nothing. So worker threads are bound if they wait for a CPU while CPUs are idle
//! (docs/decisions/011-worker-threads-bound-to-cpus.md).
//!
//! WORKER-1: binding affects speed only. Threads are bound where each has a CPU of its own. They
//! stay free under a quota of fewer CPUs, and where log threads have been given CPUs
//! (`redolith_log_writer_cpus`).
//!
//! WORKER-2: a thread takes a worker's place when it first parks. Only workers park in the runtime,
//! but any of the runtime's threads may become a worker when a worker is left
//! ([`crate::long_work`]), even a thread that was started for blocking work and ends after it. A
//! place that is empty for a while keeps its CPU for the next worker.
use crate::runtime::TokioRuntime;
use parking_lot::Mutex;
use redolith_disk::{Disk, Thread, bind_thread, process_cpus, this_thread};
use redolith_sql::status::{Status, StatusValue};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

thread_local!(static IS_WORKER: Cell<bool> = const { Cell::new(false) });

const LOOK: Duration = Duration::from_millis(250);
/// The interval between samples while no worker thread waits for a CPU.
const LOOK_AT_REST: Duration = Duration::from_secs(1);
const REST_BELOW: f64 = 0.02;
/// The share of time that a worker thread waits for a CPU, on average. The threads are bound from
/// `BIND` on, and free again below `FREE`. The gap is needed because bound threads wait a third
/// less (measured).
const BIND: f64 = 0.20;
const FREE: f64 = 0.12;
/// The same limits for the share of CPU time that is idle, which is lower while threads are bound.
const IDLE_BIND: f64 = 0.04;
const IDLE_FREE: f64 = 0.005;
/// Weight of the newest sample in the moving averages.
const NEWEST: f64 = 0.25;
/// The least number of samples between two changes.
const REST: u32 = 12;

/// `redolith_worker_affinity`
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Affinity {
    #[default]
    Auto,
    Off,
    On,
}
impl From<u64> for Affinity {
    /// Converts from the index of the value in the setting's list of values.
    fn from(bits: u64) -> Affinity {
        [Affinity::Auto, Affinity::Off, Affinity::On][bits as usize]
    }
}

/// The worker threads of the runtime.
pub struct Workers {
    count: usize,
    state: Mutex<State>,
}
#[derive(Default)]
struct State {
    /// The places of the workers. When bound, the thread in place n has the CPU `cpus[n]`.
    threads: Vec<Option<Thread>>,
    affinity: Affinity,
    /// The CPUs that the process may use, as last seen. Empty if the workers cannot have them all:
    /// log threads have been given CPUs, or a quota allows fewer.
    cpus: Vec<usize>,
    bound: bool,
    /// The system has refused to bind a thread to one of these CPUs.
    refused: bool,
    /// The share of time that a thread waits for a CPU, and that a CPU is idle. Both are moving
    /// averages.
    waiting: f64,
    idle: f64,
    changes: u64,
    /// Samples until `bound` may change again.
    rest: u32,
    before: Option<Look>,
}
#[derive(Clone, Copy)]
struct Look {
    at: Duration,
    /// Sums since the start: the time that all threads have waited for a CPU, and the idle time of
    /// all CPUs.
    waited: Duration,
    idle: Duration,
}

impl Workers {
    pub fn new(count: usize) -> Arc<Workers> {
        let threads = vec![None; count];
        Arc::new(Workers { count, state: Mutex::new(State { threads, ..State::default() }) })
    }
    pub fn count(&self) -> usize {
        self.count
    }
    /// Called by a thread that parks: it takes a worker's place if it has none (WORKER-2).
    pub fn rests(&self) {
        if !IS_WORKER.get() {
            IS_WORKER.set(self.state.lock().take_place(this_thread()));
        }
    }
    /// Gives the calling thread's place back, because the thread may no longer be a worker. If it
    /// still is a worker, it takes a place again when it parks.
    pub fn leave(&self) {
        if IS_WORKER.replace(false) {
            self.state.lock().give_place(&this_thread());
        }
    }
    pub fn set(&self, affinity: Affinity) {
        let mut s = self.state.lock();
        (s.affinity, s.refused) = (affinity, false);
        (s.waiting, s.idle, s.before) = (0.0, 0.0, None);
        s.apply();
    }
    /// Takes samples and binds or frees the threads, without end. Returns at once with one worker.
    pub async fn watch(self: Arc<Self>, disk: Arc<dyn Disk>, engine_runtime: Arc<TokioRuntime>) {
        if self.count < 2 {
            return;
        }
        loop {
            let (affinity, threads, pause) = {
                let s = self.state.lock();
                (
                    s.affinity,
                    s.all_threads(),
                    if s.waiting < REST_BELOW { LOOK_AT_REST } else { LOOK },
                )
            };
            if affinity != Affinity::Off {
                // These calls read files, so the mutex is not held.
                let waited = threads
                    .and_then(|all| all.iter().map(Thread::waited).sum::<Option<Duration>>());
                let cpus = disk.processors();
                let enough = cpus.and_then(|c| c.quota).is_none_or(|q| q.cpus >= self.count as f64);
                let own = if enough && !engine_runtime.gives_cpus() {
                    process_cpus()
                } else {
                    Vec::new()
                };
                let mut s = self.state.lock();
                match (waited, cpus) {
                    (Some(waited), Some(cpus)) => {
                        s.look(Look { at: disk.now(), waited, idle: cpus.idle })
                    }
                    _ => s.before = None,
                }
                s.may_use(own);
                s.apply();
            }
            tokio::time::sleep(pause).await;
        }
    }
    pub fn register(self: &Arc<Self>, status: &Status) {
        let workers = self.clone();
        status.register(Box::new(move |put| {
            let s = workers.state.lock();
            put("Redolith_workers", StatusValue::Int(workers.count as u64));
            put(
                "Redolith_workers_bound",
                StatusValue::Int(if s.bound { workers.count as u64 } else { 0 }),
            );
            put("Redolith_workers_waiting_milli", StatusValue::Int((s.waiting * 1000.0) as u64));
            put("Redolith_workers_idle_cpu_milli", StatusValue::Int((s.idle * 1000.0) as u64));
            put("Redolith_workers_changes", StatusValue::Int(s.changes));
        }));
    }
}

impl State {
    /// Returns `None` while a place is empty.
    fn all_threads(&self) -> Option<Vec<Thread>> {
        self.threads.iter().cloned().collect()
    }
    /// Returns false if no place is free.
    fn take_place(&mut self, worker: Thread) -> bool {
        let Some(n) = self.threads.iter().position(Option::is_none) else { return false };
        self.threads[n] = Some(worker);
        self.before = None;
        self.bind(n);
        true
    }
    fn give_place(&mut self, worker: &Thread) {
        if let Some(place) =
            self.threads.iter_mut().find(|t| t.as_ref().is_some_and(|t| t.id() == worker.id()))
        {
            *place = None;
            self.before = None;
            if self.bound {
                // If the system refuses, the thread stays bound. A refusal to bind was logged
                // before.
                let _ = bind_thread(worker, &[]);
            }
        }
    }
    fn look(&mut self, now: Look) {
        self.rest = self.rest.saturating_sub(1);
        let Some(before) = self.before.replace(now) else { return };
        // Binding needs as many CPUs as threads, so the number of threads serves for both shares.
        let all = now.at.saturating_sub(before.at).as_secs_f64() * self.threads.len().max(1) as f64;
        let part = |now: Duration, before| {
            (now.saturating_sub(before).as_secs_f64() / all.max(1e-6)).min(1.0)
        };
        self.waiting += NEWEST * (part(now.waited, before.waited) - self.waiting);
        self.idle += NEWEST * (part(now.idle, before.idle) - self.idle);
    }
    /// Notes a change of the CPUs. Threads that are bound to the old CPUs are freed first.
    fn may_use(&mut self, cpus: Vec<usize>) {
        if cpus != self.cpus {
            self.free();
            (self.cpus, self.refused) = (cpus, false);
        }
    }
    fn wants(&self) -> bool {
        match self.affinity {
            Affinity::Off => false,
            Affinity::On => true,
            Affinity::Auto if self.rest > 0 => self.bound,
            Affinity::Auto if self.bound => self.waiting >= FREE && self.idle >= IDLE_FREE,
            Affinity::Auto => self.waiting >= BIND && self.idle >= IDLE_BIND,
        }
    }
    /// Whether the threads can be bound (WORKER-1).
    fn can(&self) -> bool {
        self.threads.len() > 1 && self.cpus.len() == self.threads.len() && !self.refused
    }
    fn apply(&mut self) {
        let bound = self.can() && self.wants();
        if !bound {
            self.free();
        } else if !self.bound {
            self.changed(true);
            (0..self.threads.len()).for_each(|n| self.bind(n));
        }
    }
    /// Binds the thread in place `n` to that place's CPU, if the threads are bound.
    fn bind(&mut self, n: usize) {
        if let (true, Some(thread)) = (self.bound, &self.threads[n])
            && let Err(e) = bind_thread(thread, &[self.cpus[n]])
        {
            tracing::warn!(
                "worker threads cannot be bound to CPUs, and run on all of them: \
                 CPU {}: {e}",
                self.cpus[n]
            );
            self.refused = true;
            self.free();
        }
    }
    fn free(&mut self) {
        if self.bound {
            self.changed(false);
            if let Some(e) = self.threads.iter().flatten().find_map(|t| bind_thread(t, &[]).err()) {
                tracing::warn!("worker threads could not be freed from their CPUs: {e}");
            }
        }
    }
    fn changed(&mut self, bound: bool) {
        (self.bound, self.changes, self.rest) = (bound, self.changes + 1, REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_disk::unbind_this_thread;

    /// Takes samples with these shares of waiting time and idle time.
    fn looks(s: &mut State, times: u32, waiting: f64, idle: f64) {
        for _ in 0..times {
            let Look { at, waited, idle: was } = s.before.unwrap();
            let part = |x| LOOK.mul_f64(x * s.threads.len() as f64);
            s.look(Look { at: at + LOOK, waited: waited + part(waiting), idle: was + part(idle) });
            if s.wants() != s.bound {
                s.changed(!s.bound);
            }
        }
    }
    fn state() -> State {
        let first = Look { at: LOOK, waited: LOOK, idle: LOOK };
        State {
            threads: vec![Some(this_thread()); 2],
            cpus: vec![0, 1],
            before: Some(first),
            ..State::default()
        }
    }

    #[test]
    fn those_who_wait_beside_idle_cpus_are_bound_until_they_wait_no_more() {
        let mut s = state();
        looks(&mut s, 30, 0.19, 0.3);
        assert!(!s.bound);
        looks(&mut s, 1, 0.21, 0.3);
        assert!(!s.bound, "one look is not enough");
        looks(&mut s, 10, 0.3, 0.3);
        assert!(s.bound);
        looks(&mut s, 30, 0.15, 0.03);
        assert!(s.bound, "bound, they wait less, and less is idle");
        looks(&mut s, 30, 0.10, 0.03);
        assert!(!s.bound);
        // Without idle CPUs, binding gains nothing.
        looks(&mut s, 30, 0.4, 0.03);
        assert!(!s.bound);
        looks(&mut s, 30, 0.4, 0.1);
        assert!(s.bound);
        looks(&mut s, 30, 0.4, 0.0);
        assert!(!s.bound);
        s.affinity = Affinity::On;
        assert!(s.wants());
        s.affinity = Affinity::Off;
        looks(&mut s, 30, 0.4, 0.1);
        assert!(!s.bound);
    }

    #[test]
    fn a_load_between_the_bounds_changes_seldom() {
        let mut s = state();
        for turn in 0..400 {
            // The kernel counts idle time in ticks of 10 ms, so it comes in lumps.
            let idle = if turn % 3 == 0 { 0.04 } else { 0.0 };
            let (waiting, idle) = if s.bound { (0.133, idle) } else { (0.205, 0.05) };
            looks(&mut s, 1, waiting, idle);
        }
        assert!((1..=2).contains(&s.changes), "{}", s.changes);
        // The worst case: the samples argue against the present state, whichever it is.
        let before = s.changes;
        (0..400).for_each(|_| {
            if s.bound { looks(&mut s, 1, 0.0, 0.0) } else { looks(&mut s, 1, 0.5, 0.5) }
        });
        assert!(s.changes - before <= 400 / u64::from(REST) + 1, "{}", s.changes);
    }

    /// WORKER-2: threads for blocking work begin and end beside the workers. The places stay with
    /// the workers, and keep their CPUs.
    #[test]
    fn places_belong_to_the_threads_that_work() {
        let workers = Workers::new(2);
        let rests = workers.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(unbind_this_thread)
            .on_thread_park(move || rests.rests())
            .thread_keep_alive(Duration::from_millis(1))
            .enable_all()
            .build()
            .unwrap();
        let engine_runtime = Arc::new(TokioRuntime::new(runtime.handle().clone(), workers.clone()));
        // Two tasks that meet at a barrier occupy both workers, so their threads are all the
        // workers.
        let at_work = || {
            let both = Arc::new(std::sync::Barrier::new(2));
            let tasks: Vec<_> = (0..2)
                .map(|_| {
                    let both = both.clone();
                    runtime.spawn(async move {
                        both.wait();
                        this_thread().id()
                    })
                })
                .collect();
            let mut ids: Vec<u32> =
                tasks.into_iter().map(|t| runtime.block_on(t).unwrap()).collect();
            ids.sort();
            ids
        };
        let placed = || {
            let mut ids: Vec<u32> =
                workers.state.lock().threads.iter().flatten().map(Thread::id).collect();
            ids.sort();
            ids
        };
        let settled = || {
            for _ in 0..2000 {
                if placed().len() == 2 && placed() == at_work() {
                    return true;
                }
                runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
            }
            false
        };
        assert!(settled());
        for _ in 0..20 {
            let beside = engine_runtime.beside().clone();
            let left = runtime.spawn(crate::long_work::run(async move {
                // On a busy machine no thread may be there to take the worker over.
                while !beside.leave() {
                    tokio::task::yield_now().await;
                }
                tokio::task::yield_now().await;
            }));
            runtime.block_on(left).unwrap();
            assert!(settled(), "{:?} are placed, {:?} work", placed(), at_work());
        }
    }

    /// Tests WORKER-1.
    #[test]
    fn threads_are_bound_where_each_has_a_cpu() {
        assert!(state().can());
        assert!(
            !State { cpus: vec![0], ..state() }.can()
                && !State { cpus: vec![0, 1, 2], ..state() }.can()
        );
        assert!(
            !State { cpus: Vec::new(), ..state() }.can()
                && !State { refused: true, ..state() }.can()
        );
        assert!(
            !State { threads: vec![Some(this_thread())], cpus: vec![0], ..State::default() }.can(),
            "there is nothing to choose"
        );
        // After a change of the CPUs, binding is tried again.
        let mut s = State { refused: true, ..state() };
        s.may_use(vec![0, 1]);
        assert!(s.refused);
        s.may_use(vec![2, 3]);
        assert!(s.can());
    }
}
