//! What the engine asks of whoever runs it: somewhere to run its background tasks, a timer, and a
//! way to step back in the run queue. The server gives tokio's, the simulator its seeded scheduler,
//! an embedding program [`Threads`].
mod threads;
pub use threads::Threads;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A future in a box.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the engine asks of its executor.
pub trait Runtime: Send + Sync + 'static {
    /// Runs a background task until it ends. `name` is for people (thread and task names).
    fn spawn(&self, name: &'static str, task: BoxFuture<()>);
    /// The same for a task that blocks, in a thread of its own where there are threads.
    fn spawn_thread(&self, name: &'static str, task: BoxFuture<()>) {
        self.spawn(name, task);
    }
    /// Resolves after that time.
    fn sleep(&self, time: Duration) -> BoxFuture<()>;
    /// A sleep that may be shorter than the timer's ticks: precise, at the price that it may block
    /// the calling thread.
    fn pause(&self, time: Duration) -> BoxFuture<()> {
        self.sleep(time)
    }
    /// Resolves after every task that is ready now, and every socket that has input now, has had
    /// its turn.
    fn yield_now(&self) -> BoxFuture<()>;
    /// Called before the calling thread blocks in a system call, and now and then in long work:
    /// what the runtime holds back to do it in batches is due.
    fn before_blocking(&self) {}
    /// Does work that takes long and waits for nothing. Where tasks share threads the others go on
    /// meanwhile, on another one.
    fn work_long(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// From here to its next wait the calling task runs beside the runtime's workers, of which
    /// another thread takes its place: it may calculate for long, or block. False if there are too
    /// many such tasks already: the caller still is on a worker. What is no task on a worker holds
    /// nobody up.
    fn leave_worker(&self) -> bool {
        true
    }
    /// Whether [`Runtime::leave_worker`] was called since the calling task last waited.
    fn has_left_worker(&self) -> bool {
        false
    }
    /// Another number whenever the calling task has waited in between: what it has done since then,
    /// it has done at a stretch.
    fn stretch(&self) -> u64 {
        0
    }
    /// Now and then in long work beside the workers, whose turn to calculate this ends.
    fn breathe(&self) {}
    /// Blocks the calling thread, which has left its worker, until the future is done.
    fn block_beside(&self, wait: BoxFuture<()>) {
        block_on(wait);
    }
}

/// Between two parts of long work: what is held back leaves, and the other tasks have their turn.
pub async fn let_others_run(runtime: &dyn Runtime) {
    runtime.before_blocking();
    runtime.yield_now().await;
}

/// The same for work that may have left its worker, where nobody waits for it.
pub async fn give_way(runtime: &dyn Runtime) {
    if runtime.has_left_worker() {
        runtime.breathe();
    } else {
        let_others_run(runtime).await;
    }
}

/// Runs a future on the calling thread, which sleeps while it waits.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut cx = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(x) => return x,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
