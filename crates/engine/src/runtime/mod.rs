//! The services that the engine needs from its host: a place to run background tasks, a timer, and
//! a way to step back in the run queue. The server provides tokio's, the simulator its seeded
//! scheduler, and an embedding program [`Threads`].
mod threads;
pub use threads::Threads;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// A future in a box.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the engine asks of its executor.
pub trait Runtime: Send + Sync + 'static {
    /// Runs a background task until it ends. `name` is the name of the thread or task, for people.
    fn spawn(&self, name: &'static str, task: BoxFuture<()>);
    /// Runs a background task that blocks, in a thread of its own if the runtime has threads.
    ///
    /// # Errors
    /// The system refuses another thread. The task is dropped.
    fn spawn_thread(&self, name: &'static str, task: BoxFuture<()>) -> io::Result<()> {
        self.spawn(name, task);
        Ok(())
    }
    /// Resolves after that time.
    fn sleep(&self, time: Duration) -> BoxFuture<()>;
    /// A sleep that may be shorter than the timer's ticks. It is precise, but may block the calling
    /// thread.
    fn pause(&self, time: Duration) -> BoxFuture<()> {
        self.sleep(time)
    }
    /// Resolves after every task that is ready now, and every socket that has input now, has had
    /// its turn.
    fn yield_now(&self) -> BoxFuture<()>;
    /// Called before the calling thread blocks in a system call, and now and then in long work. The
    /// runtime then does the work that it holds back for a batch.
    fn before_blocking(&self) {}
    /// Does work that takes long and waits for nothing. If tasks share threads, the other tasks go
    /// on meanwhile in another thread.
    fn work_long(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// Until its next wait the calling task runs beside the runtime's workers, and another thread
    /// takes its place as a worker: the task may calculate for long, or block. Returns false if
    /// there are too many such tasks already, and the caller is still on a worker. A caller that is
    /// not a task on a worker blocks no other task, and gets true.
    fn leave_worker(&self) -> bool {
        true
    }
    /// Whether the calling task has left its worker since it last waited.
    fn has_left_worker(&self) -> bool {
        false
    }
    /// A number that changes with each wait of the calling task. While the number is the same, the
    /// task has worked without a wait.
    fn stretch(&self) -> u64 {
        0
    }
    /// Called now and then in long work beside the workers, where tasks take turns to calculate:
    /// the caller's turn may end here.
    fn breathe(&self) {}
    /// Blocks the calling thread, which has left its worker, until the future is done.
    fn block_beside(&self, wait: BoxFuture<()>) {
        block_on(wait);
    }
}

/// Called between two parts of long work: work that is held back for a batch is done, and the other
/// tasks have their turn.
pub(crate) async fn let_others_run(runtime: &dyn Runtime) {
    runtime.before_blocking();
    runtime.yield_now().await;
}

/// Lets others run like [`let_others_run`], if the task is on a worker. A task that has left its
/// worker blocks no other task, and only ends its turn to calculate.
pub async fn give_way(runtime: &dyn Runtime) {
    if runtime.has_left_worker() {
        runtime.breathe();
    } else {
        let_others_run(runtime).await;
    }
}

/// Runs a future on the calling thread, which sleeps while the future waits.
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
