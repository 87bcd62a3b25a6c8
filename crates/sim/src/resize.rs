//! Changes of the buffer pool's size under the load of the other clients.
use crate::executor::Rng;
use redolith_engine::{Engine, PAGE_SIZE, PoolResizeState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The simulated time within which the pool has its last size, with no other work to do.
const LONGEST: Duration = Duration::from_secs(60);

/// Asks for one size after another while other clients run. Most of the time the pool has not
/// reached a size when the next one is asked for.
pub async fn client(e: Arc<Engine>, mut rng: Rng, running: Arc<Mutex<usize>>) {
    while *running.lock().expect("one thread") > 0 {
        let least = e.pool_instances() as u64 * 64;
        let frames = if rng.chance(2) { least } else { least + rng.below(4 * least) };
        e.resize_pool(frames * PAGE_SIZE as u64);
        e.runtime.sleep(Duration::from_millis(rng.below(30))).await;
    }
}
/// Waits until the last size is reached. The disk works, so it must be.
pub async fn reached(e: &Arc<Engine>) {
    let end = e.disk.now() + LONGEST;
    while let PoolResizeState::Running { .. } = e.pool_resize_state() {
        assert!(e.disk.now() < end, "RESIZE-4: the pool stays at {:?}", e.pool_resize_state());
        e.runtime.sleep(Duration::from_millis(5)).await;
    }
}
