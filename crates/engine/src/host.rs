//! What the engine asks of whoever runs it: somewhere to run its background tasks, a timer, and a way to step back in the run queue.
//! The server gives tokio's, the simulator its seeded scheduler, an embedding program [`Threads`].
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub trait Host: Send + Sync + 'static {
    /// Runs a background task until it ends. `name` is for people (thread and task names).
    fn spawn(&self, name: &'static str, task: BoxFuture<()>);
    fn sleep(&self, time: Duration) -> BoxFuture<()>;
    /// Resolves after every task that is ready now, and every socket that has input now, has had its turn.
    fn yield_now(&self) -> BoxFuture<()>;
    /// Whether calls may block the calling thread for the length of a device flush (false in the simulator's trace).
    fn may_block(&self) -> bool {
        true
    }
}
