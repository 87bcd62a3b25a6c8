//! The life of a small engine on a simulated disk.
use redolith_disk::SimDisk;
use redolith_engine::{Config, Engine};
use redolith_sim::executor::{End, Executor};
use std::sync::Arc;

fn config() -> Config {
    let mut c = Config::new("/sim");
    c.log_segment_bytes = 64 << 10;
    c.log_capacity_bytes = 1 << 20;
    c.log_buffer_bytes = 256 << 10;
    c.pool_bytes = 64 * 16384;
    c
}
/// Opens an engine, runs a task with it, and says how that ended.
pub fn life<F: Future<Output = ()> + Send + 'static>(
    disk: &SimDisk,
    seed: u64,
    task: impl FnOnce(Arc<Engine>) -> F + Send + 'static,
) -> End {
    let mut ex = Executor::new(disk.clone(), seed);
    let (on, runtime) = (Arc::new(disk.clone()), ex.runtime.clone());
    ex.run(Box::pin(async move {
        let (e, _) = Engine::open(config(), on, runtime).await.unwrap();
        task(e).await;
    }))
}
