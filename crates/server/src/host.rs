//! What the engine needs of its host, on tokio.
use redolith_engine::host::{BoxFuture, Host};
use std::time::Duration;
use tokio::runtime::Handle;

pub struct TokioHost(pub Handle);

impl Host for TokioHost {
    fn spawn(&self, _name: &'static str, task: BoxFuture<()>) {
        self.0.spawn(task);
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
