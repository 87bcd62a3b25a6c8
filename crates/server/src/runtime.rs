//! The engine's [`Runtime`] on tokio, and the placement of its threads on CPUs.
use crate::long_work::{self, Beside};
use crate::worker_affinity::Workers;
use parking_lot::Mutex;
use redolith_disk::{
    Placement, Thread, calculate_in_foreground, place_thread, this_thread, unbind_this_thread,
};
use redolith_engine::runtime::{BoxFuture, Runtime, block_on};
use std::collections::HashMap;
use std::io;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// tokio's timer is precise enough for waits of this length or longer.
const TICK: Duration = Duration::from_millis(1);

pub struct TokioRuntime {
    runtime: Handle,
    placed: Mutex<Placed>,
    beside: std::sync::Arc<Beside>,
}
/// Where the threads of each name are to run, and the threads that run now.
#[derive(Default)]
struct Placed {
    places: HashMap<&'static str, Placement>,
    threads: Vec<(&'static str, Thread)>,
}

impl TokioRuntime {
    pub fn new(runtime: Handle, workers: std::sync::Arc<Workers>) -> TokioRuntime {
        TokioRuntime { runtime, placed: Mutex::default(), beside: Beside::new(workers) }
    }
    /// The sessions that calculate beside the workers.
    pub fn beside(&self) -> &std::sync::Arc<Beside> {
        &self.beside
    }
    /// Changes where threads of this name run, now and later. Returns what the system refused. If
    /// no thread of this name runs yet, a temporary thread tries the placement, so that a refusal
    /// is found at once.
    pub fn place(&self, name: &'static str, change: impl FnOnce(&mut Placement)) -> Vec<String> {
        let mut placed = self.placed.lock();
        let place = placed.places.entry(name).or_default();
        change(place);
        let place = place.clone();
        let mut threads = placed.threads.iter().filter(|(n, _)| *n == name).peekable();
        if threads.peek().is_some() || place == Placement::default() {
            return threads.flat_map(|(_, thread)| place_thread(thread, &place)).collect();
        }
        let tried = std::thread::Builder::new().spawn(move || place_thread(&this_thread(), &place));
        match tried {
            Ok(tried) => tried.join().unwrap_or_default(),
            Err(e) => vec![format!("not tried, because no thread can be started: {e}")],
        }
    }
    /// Whether threads have been given CPUs of their own.
    pub fn gives_cpus(&self) -> bool {
        self.placed.lock().places.values().any(|p| !p.cpus.is_empty())
    }
    /// Registers the calling thread under this name, and places it.
    fn join(&self, name: &'static str) {
        let mut placed = self.placed.lock();
        let thread = this_thread();
        if let Some(place) = placed.places.get(name).filter(|p| **p != Placement::default()) {
            // A refusal was reported when the placement was set.
            place_thread(&thread, place);
        }
        placed.threads.push((name, thread));
    }
    fn leave(&self, name: &'static str) {
        let me = this_thread();
        self.placed.lock().threads.retain(|(n, t)| *n != name || t.id() != me.id());
    }
}

/// The engine's handle to [`TokioRuntime`].
pub struct EngineRuntime(pub std::sync::Arc<TokioRuntime>);

impl Runtime for EngineRuntime {
    fn spawn(&self, _name: &'static str, task: BoxFuture<()>) {
        self.0.runtime.spawn(long_work::run(task));
    }
    fn spawn_thread(&self, name: &'static str, task: BoxFuture<()>) -> io::Result<()> {
        let engine_runtime = self.0.clone();
        let body = move || {
            let _inside = engine_runtime.runtime.enter();
            unbind_this_thread();
            calculate_in_foreground();
            engine_runtime.join(name);
            block_on(task);
            engine_runtime.leave(name);
        };
        std::thread::Builder::new().name(format!("redolith-{name}")).spawn(body).map(drop)
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep(time))
    }
    fn pause(&self, time: Duration) -> BoxFuture<()> {
        if time >= TICK && tokio::task::try_id().is_some() {
            return self.sleep(time);
        }
        Box::pin(async move {
            crate::send_batch::send_held_back();
            #[allow(clippy::disallowed_methods)] // this is the runtime
            std::thread::sleep(time);
        })
    }
    fn yield_now(&self) -> BoxFuture<()> {
        Box::pin(tokio::task::yield_now())
    }
    fn before_blocking(&self) {
        crate::send_batch::send_held_back();
    }
    fn work_long(&self, work: &mut dyn FnMut()) {
        crate::send_batch::send_held_back();
        // Another thread takes over this thread's place among the workers.
        if self.0.runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
            self.0.beside.work_long(work);
        } else {
            work();
        }
    }
    fn leave_worker(&self) -> bool {
        self.0.beside.leave()
    }
    fn has_left_worker(&self) -> bool {
        long_work::has_left()
    }
    fn stretch(&self) -> u64 {
        long_work::stretch()
    }
    fn breathe(&self) {
        crate::earlier_results::send_here();
        self.0.beside.breathe();
    }
    fn block_beside(&self, wait: BoxFuture<()>) {
        crate::send_batch::send_held_back();
        self.0.beside.block(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_would_be_refused_is_told_before_there_is_a_thread() {
        let engine_runtime = TokioRuntime::new(tokio::runtime::Handle::current(), Workers::new(1));
        let refused = engine_runtime.place("log-writer", |p| p.cpus = vec![1023]);
        assert!(
            refused.len() == 1 && refused[0].starts_with("CPUs [1023]: refused by the system"),
            "{refused:?}"
        );
        assert!(engine_runtime.place("log-writer", |p| p.cpus.clear()).is_empty());
    }
}
