//! The size of the buffer pool, changed while the engine runs. [`crate::buf::resize`] has the
//! steps.
//!
//! One task gives the pool the size that was asked for last. It takes its time, and no session
//! waits for it: a session may at most find fewer free frames.
//!
//! RESIZE-3: a newer size replaces the one under way at the next step, in either direction, and the
//! shutdown ends the task at the next step. The pool is whole between any two steps.
//! RESIZE-4: a size is reached as long as pages can be written and read, whatever sessions do.
//! RESIZE-5: a statement gets no larger pool than the system has memory for when it asks.
use crate::PAGE_SIZE;
use crate::buf::LEAST_FRAMES;
use crate::buf::resize::{Left, Step, Withdrawal};
use crate::engine::Engine;
use crate::runtime::give_way;
use crate::sync::event::either;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// The least memory of an instance of the buffer pool.
pub const LEAST_POOL_INSTANCE_BYTES: u64 = LEAST_FRAMES as u64 * PAGE_SIZE as u64;
/// How long the task waits for frames that are in use before it looks again.
const RETRY: Duration = Duration::from_millis(5);

/// How far the change of the pool's size is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PoolResizeState {
    /// The pool has had its present size since the start.
    #[default]
    NotBegun,
    /// It is under way.
    Running {
        /// The stage.
        stage: PoolResizeStage,
        /// The bytes that the pool had, and will have.
        from: u64,
        /// The bytes that the pool will have.
        to: u64,
        /// How much of the stage is done.
        percent: u8,
    },
    /// The pool has the size that was asked for.
    Done {
        /// The bytes of the pool.
        bytes: u64,
        /// Microseconds since 1970.
        at_us: i64,
    },
    /// The pool has another size than was asked for, for this reason.
    Failed(String),
}
/// The stages of a change of the pool's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolResizeStage {
    /// The page table gets more heads.
    PageTable,
    /// The pool gets more frames.
    Grow,
    /// Frames are taken out of use.
    Withdraw,
}

/// Is called with the bytes that the pool may use from now on.
type Follower = Box<dyn Fn(u64) + Send + Sync>;

/// The size that is asked for, and how far it is.
#[derive(Default)]
pub(crate) struct PoolResize {
    state: Mutex<State>,
    followers: Mutex<Vec<Follower>>,
}
#[derive(Default)]
struct State {
    /// The frames that are asked for; 0 if there is no task.
    target: u32,
    shown: PoolResizeState,
}
enum Ended {
    Reached,
    /// Another size is asked for, or the engine closes.
    Replaced,
    Failed(String),
}
fn bytes(frames: u32) -> u64 {
    u64::from(frames) * PAGE_SIZE as u64
}

impl Engine {
    /// Changes the size of the buffer pool, in the background, to so many bytes or the nearest size
    /// that is possible: up to [`crate::Config::pool_max_bytes`], and down to 64 pages for each
    /// instance. Replaces a change that is under way. [`Engine::pool_resize_state`] tells how far
    /// it is.
    pub fn resize_pool(self: &Arc<Self>, wanted: u64) {
        let sizes = self.store.pool.sizes();
        let frames = u32::try_from(wanted / PAGE_SIZE as u64).unwrap_or(u32::MAX);
        let frames = frames.clamp(*sizes.start(), *sizes.end());
        self.tell_pool_size(bytes(frames).max(self.pool_bytes()));
        let mut state = self.pool_resize.state.lock();
        let running = state.target > 0;
        if self.is_closing() {
            return;
        }
        let from = self.store.pool.size();
        if running || frames as usize != from {
            state.target = frames;
            // Who asks from now on learns nothing of an earlier change.
            state.shown = PoolResizeState::Running {
                stage: PoolResizeStage::PageTable,
                from: bytes(from as u32),
                to: bytes(frames),
                percent: 0,
            };
            drop(state);
            if !running {
                self.spawn("pool resize", |engine| async move { engine.resize().await });
            }
        } else if matches!(state.shown, PoolResizeState::Failed(_)) {
            let at_us = self.disk.wall_us();
            state.shown = PoolResizeState::Done { bytes: bytes(frames), at_us };
        }
    }
    /// How far the last change of the pool's size is.
    pub fn pool_resize_state(&self) -> PoolResizeState {
        self.pool_resize.state.lock().shown.clone()
    }
    /// The number of the buffer pool's instances.
    pub fn pool_instances(&self) -> usize {
        self.store.pool.instances()
    }
    /// The bytes of the pages that the pool uses now.
    pub fn pool_bytes(&self) -> u64 {
        self.store.pool.size() as u64 * PAGE_SIZE as u64
    }
    /// The bytes of the frames that hold a page or have held one, and so have memory.
    pub fn pool_used_bytes(&self) -> u64 {
        let pool = &self.store.pool;
        pool.size().saturating_sub(pool.untouched_frames()) as u64 * PAGE_SIZE as u64
    }
    /// Calls `f` now and whenever the pool may use more memory or uses less, with the bytes.
    pub fn follow_pool_size(&self, f: impl Fn(u64) + Send + Sync + 'static) {
        f(self.pool_bytes());
        self.pool_resize.followers.lock().push(Box::new(f));
    }
    fn tell_pool_size(&self, bytes: u64) {
        self.pool_resize.followers.lock().iter().for_each(|f| f(bytes));
    }

    async fn resize(self: Arc<Self>) {
        let mut left = Left::default();
        loop {
            let target = self.pool_resize.state.lock().target;
            let ended = self.resize_to(target, &mut left).await;
            while self.store.pool.give_left(&mut left) && !self.is_closing() {
                self.nap(RETRY).await;
            }
            self.tell_pool_size(self.pool_bytes().max(bytes(target)));
            let mut state = self.pool_resize.state.lock();
            if state.target != target && !self.is_closing() {
                continue;
            }
            state.target = 0;
            match ended {
                Ended::Reached => {
                    let at_us = self.disk.wall_us();
                    state.shown = PoolResizeState::Done { bytes: bytes(target), at_us };
                }
                Ended::Failed(why) => {
                    tracing::warn!("the buffer pool keeps {} bytes: {why}", self.pool_bytes());
                    state.shown = PoolResizeState::Failed(why);
                }
                Ended::Replaced => {
                    state.shown = PoolResizeState::Failed("the server is shutting down".into());
                }
            }
            drop(state);
            self.tell_pool_size(self.pool_bytes());
            return;
        }
    }
    fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }
    /// RESIZE-3
    fn is_replaced(&self, target: u32) -> bool {
        self.is_closing() || self.pool_resize.state.lock().target != target
    }
    async fn resize_to(&self, target: u32, left: &mut Left) -> Ended {
        let (pool, from) = (&self.store.pool, self.store.pool.size() as u32);
        let show = |stage, percent: u64| {
            self.pool_resize.state.lock().shown = PoolResizeState::Running {
                stage,
                from: bytes(from),
                to: bytes(target),
                percent: percent.min(100) as u8,
            };
        };
        loop {
            show(PoolResizeStage::PageTable, 0);
            self.runtime.leave_worker();
            let shards = match pool.begin_table_growth(target) {
                Ok(Some(shards)) => shards,
                Ok(None) => break,
                Err(e) => return Ended::Failed(e.to_string()),
            };
            for shard in 0..shards {
                while pool.grow_table(shard) {
                    give_way(&*self.runtime).await;
                }
                if self.is_replaced(target) {
                    return Ended::Replaced;
                }
                show(PoolResizeStage::PageTable, (shard as u64 + 1) * 100 / shards as u64);
                give_way(&*self.runtime).await;
            }
            pool.end_table_growth();
        }
        show(PoolResizeStage::Grow, 0);
        if let Err(e) = pool.grow(target) {
            return Ended::Failed(e.to_string());
        }
        let mut parts: Vec<Option<Withdrawal>> = (0..pool.instances()).map(|_| None).collect();
        let ended = loop {
            if self.is_replaced(target) {
                break Ended::Replaced;
            }
            let (total, now) = (from.saturating_sub(target), pool.size() as u32);
            if total > 0 {
                let done = u64::from(from.saturating_sub(now));
                show(PoolResizeStage::Withdraw, done * 100 / u64::from(total));
            }
            let freed = pool.frame_freed.seen();
            self.runtime.leave_worker();
            let (mut open, mut done, mut no_frame) = (false, false, false);
            for (i, part) in parts.iter_mut().enumerate() {
                let Some(begun) = part.take().or_else(|| pool.begin_withdrawal(i, target)) else {
                    continue;
                };
                open = true;
                match pool.withdraw(&begun, left) {
                    Step::Done => done = true,
                    step => {
                        no_frame |= step == Step::NoFrame;
                        *part = Some(begun);
                    }
                }
                give_way(&*self.runtime).await;
            }
            if !open {
                break Ended::Reached;
            }
            if done {
                continue;
            }
            if no_frame {
                // The cleaners look deeper into the lists if a task waits.
                pool.frame_wanted.notify();
                either(self.nap(RETRY), pool.frame_freed.after(freed)).await;
            } else {
                self.nap(RETRY).await;
            }
        };
        parts.iter().flatten().for_each(|part| pool.give_up(part));
        ended
    }
}
