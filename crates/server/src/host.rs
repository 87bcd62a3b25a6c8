//! What the engine needs of its host, on tokio.
use redolith_engine::host::{BoxFuture, Host, block_on};
use std::time::Duration;
use tokio::runtime::Handle;

pub struct TokioHost(pub Handle);

impl Host for TokioHost {
    fn spawn(&self, _name: &'static str, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
    fn spawn_thread(&self, name: &'static str, task: BoxFuture<()>) {
        let runtime = self.0.clone();
        let body = move || {
            let _inside = runtime.enter();
            block_on(task)
        };
        std::thread::Builder::new().name(format!("redolith-{name}")).spawn(body).expect("a thread for a background task");
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep(time))
    }
    fn yield_now(&self) -> BoxFuture<()> {
        Box::pin(tokio::task::yield_now())
    }
    fn before_blocking(&self) {
        crate::outbox::send_held_back();
    }
}
