//! The threads on which the engine's background work runs.
use redolith_disk::Disk;
use redolith_engine::host::{BoxFuture, Host, Threads};
use std::sync::Arc;
use std::time::Duration;

/// [`Threads`] that end the process when a background task panics: the engine has met a broken
/// invariant then, and a program that unwinds would wait for ever for commits that nobody writes.
pub(crate) struct Tasks(Arc<Threads>);
impl Tasks {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Arc<Tasks> {
        Arc::new(Tasks(Threads::new(disk)))
    }
}
impl Host for Tasks {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        self.0.spawn(
            name,
            Box::pin(async move {
                let guard = AbortOnPanic;
                task.await;
                std::mem::forget(guard);
            }),
        );
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        self.0.sleep(time)
    }
    fn pause(&self, time: Duration) -> BoxFuture<()> {
        self.0.pause(time)
    }
    fn yield_now(&self) -> BoxFuture<()> {
        self.0.yield_now()
    }
}

struct AbortOnPanic;
impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("redolith: fatal: a background task has panicked; the process ends now");
            std::process::abort();
        }
    }
}
