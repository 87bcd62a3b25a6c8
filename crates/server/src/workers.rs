//! Worker threads on a CPU each, where that is faster.
//!
//! The system wakes a thread near the one that wakes it. Where clients share the machine, that puts the worker threads and most clients on one CPU again and again,
//! while another has nothing to do: with 32 sessions of one-statement transactions on two CPUs a quarter of the machine was idle, and each worker thread waited 0.3 of
//! the time for a CPU. Bound to a CPU each they leave the clients to go where there is room. With few sessions it is the other way round: there a client and the
//! thread that answers it are best beside each other, and nobody waits for long. So how long the worker threads wait decides (docs/performance.md).
//!
//! WORKER-1: bound or free is a matter of speed only. Threads are bound where each has a CPU of its own: not with a quota of fewer CPUs, nor where log threads have
//! been given CPUs.
use crate::host::TokioHost;
use parking_lot::Mutex;
use redolith_disk::{Disk, Thread, bind_thread, this_thread, unbind_this_thread};
use redolith_sql::status::{Status, StatusValue};
use std::sync::Arc;
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(250);
/// Part of the time that a worker thread waits for a CPU, on average, from which on they are bound; and below which they are free again. Measured: bound, they wait a
/// third less.
const BIND: f64 = 0.20;
const FREE: f64 = 0.13;
/// Weight of the newest look.
const NEWEST: f64 = 0.5;

/// `redolith_worker_affinity`
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Affinity {
    #[default]
    Auto,
    Off,
    On,
}
impl From<u64> for Affinity {
    /// By its place among the setting's values.
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
    threads: Vec<Thread>,
    affinity: Affinity,
    /// Others have been given CPUs.
    crowded: bool,
    bound: bool,
    refused: bool,
    /// Part of the time that a thread waits for a CPU, smoothed.
    waiting: f64,
    changes: u64,
    /// The last look: when, and how long all had waited by then.
    before: Option<(Duration, Duration)>,
}

impl Workers {
    pub fn new(count: usize) -> Arc<Workers> {
        Arc::new(Workers { count, state: Mutex::default() })
    }
    pub fn count(&self) -> usize {
        self.count
    }
    /// The calling thread is one of the runtime's. Its workers come first; what comes later is one for a task that blocks.
    pub fn join(&self) {
        let mut s = self.state.lock();
        if s.threads.len() < self.count {
            s.threads.push(this_thread());
        } else {
            drop(s);
            unbind_this_thread();
        }
    }
    pub fn set(&self, affinity: Affinity) {
        let mut s = self.state.lock();
        s.affinity = affinity;
        s.settle(self.count);
    }
    /// Looks again and again, for ever.
    pub async fn watch(self: Arc<Self>, disk: Arc<dyn Disk>, host: Arc<TokioHost>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let mut s = self.state.lock();
            s.crowded = host.gives_cpus();
            let waited = s.threads.iter().map(Thread::waited).sum::<Option<Duration>>();
            s.look(disk.now(), waited);
            s.settle(self.count);
        }
    }
    pub fn register(self: &Arc<Self>, status: &Status) {
        let workers = self.clone();
        status.register(Box::new(move |put| {
            let s = workers.state.lock();
            put("Redolith_workers", StatusValue::Int(workers.count as u64));
            put("Redolith_workers_bound", StatusValue::Int(if s.bound { workers.count as u64 } else { 0 }));
            put("Redolith_workers_waiting_milli", StatusValue::Int((s.waiting * 1000.0) as u64));
            put("Redolith_workers_changes", StatusValue::Int(s.changes));
        }));
    }
}

impl State {
    /// `waited`: of all threads together, since they began; None where the system does not say.
    fn look(&mut self, now: Duration, waited: Option<Duration>) {
        let Some(waited) = waited else { return };
        if let Some((at, before)) = self.before.replace((now, waited)) {
            let time = now.saturating_sub(at).as_secs_f64() * self.threads.len().max(1) as f64;
            let part = (waited.saturating_sub(before).as_secs_f64() / time.max(1e-6)).min(1.0);
            self.waiting += NEWEST * (part - self.waiting);
        }
    }
    fn wants(&self) -> bool {
        match self.affinity {
            Affinity::Off => false,
            Affinity::On => true,
            Affinity::Auto => self.waiting >= if self.bound { FREE } else { BIND },
        }
    }
    /// WORKER-1
    fn can(&self, count: usize) -> bool {
        count > 1 && self.threads.len() == count && self.threads[0].cpus().len() == count && !self.crowded && !self.refused
    }
    fn settle(&mut self, count: usize) {
        let bound = self.can(count) && self.wants();
        if bound == self.bound {
            return;
        }
        (self.bound, self.changes) = (bound, self.changes + 1);
        for (thread, cpu) in self.threads.iter().zip(self.threads[0].cpus()) {
            if let Err(e) = bind_thread(thread, bound.then_some(cpu)) {
                eprintln!("redolith: worker threads are not bound to CPUs: CPU {cpu}: {e}");
                self.refused = true;
            }
        }
        if self.refused && bound {
            // Some may be bound.
            self.settle(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Looks, in each of which so much of the time was waited.
    fn looks(s: &mut State, times: u32, part: f64) {
        for _ in 0..times {
            let (at, waited) = s.before.unwrap();
            s.look(at + LOOK, Some(waited + LOOK.mul_f64(part * s.threads.len() as f64)));
            s.bound = s.wants();
        }
    }

    #[test]
    fn those_who_wait_are_bound_until_they_wait_no_more() {
        let mut s = State { threads: vec![this_thread(), this_thread()], before: Some((MS, MS)), ..State::default() };
        looks(&mut s, 20, 0.19);
        assert!(!s.bound);
        looks(&mut s, 1, 0.21);
        assert!(!s.bound, "one look is not enough");
        looks(&mut s, 5, 0.3);
        assert!(s.bound);
        looks(&mut s, 20, 0.15);
        assert!(s.bound, "bound, they wait less");
        looks(&mut s, 20, 0.11);
        assert!(!s.bound);
        // What is set, and what the system does not say.
        s.affinity = Affinity::On;
        assert!(s.wants());
        s.affinity = Affinity::Off;
        looks(&mut s, 20, 0.9);
        assert!(!s.bound);
        let waiting = s.waiting;
        s.look(Duration::from_secs(99), None);
        assert_eq!(s.waiting, waiting);
    }

    #[test]
    fn threads_are_bound_where_each_has_a_cpu() {
        let ready = || State { threads: vec![this_thread(); 2], ..State::default() };
        let cpus = this_thread().cpus().len();
        assert_eq!(ready().can(2), cpus == 2);
        assert!(!State { crowded: true, ..ready() }.can(2) && !State { refused: true, ..ready() }.can(2));
        assert!(!ready().can(3), "one has not begun");
        assert!(!State { threads: vec![this_thread()], ..State::default() }.can(1), "there is nothing to choose");
    }
}
