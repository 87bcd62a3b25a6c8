//! The threads on which the engine's background work runs.
use redolith_disk::Disk;
use redolith_engine::runtime::{BoxFuture, Runtime, Threads};
use std::io;
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
impl Runtime for Tasks {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        self.0.spawn(name, guarded(task));
    }
    fn spawn_thread(&self, name: &'static str, task: BoxFuture<()>) -> io::Result<()> {
        self.0.spawn_thread(name, guarded(task))
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

fn guarded(task: BoxFuture<()>) -> BoxFuture<()> {
    Box::pin(async move {
        let guard = AbortOnPanic;
        task.await;
        std::mem::forget(guard);
    })
}
/// Ends the process if a panic drops it, whose message has been printed then.
struct AbortOnPanic;
impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_disk::RealDisk;
    use std::process::Command;
    use std::time::Duration;

    /// Not a test: the process of the next one.
    #[test]
    #[ignore = "run by a_background_task_that_panics_ends_the_process"]
    fn a_task_panics() {
        if std::env::var_os("REDOLITH_TEST_PANIC").is_none() {
            return;
        }
        let tasks = Tasks::new(Arc::new(RealDisk::new()));
        tasks.spawn("ends", Box::pin(async {}));
        tasks.spawn("panics", Box::pin(async { panic!("as it is meant to") }));
        redolith_engine::runtime::block_on(tasks.sleep(Duration::from_secs(60)));
        println!("the process is still there");
    }

    #[test]
    fn a_background_task_that_panics_ends_the_process() {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tasks::tests::a_task_panics", "--ignored", "--nocapture"])
            .env("REDOLITH_TEST_PANIC", "1")
            .output()
            .unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(!ended.status.success() && !out.contains("still there"), "{out}");
        assert!(err.contains("as it is meant to"), "{err}");
    }
}
