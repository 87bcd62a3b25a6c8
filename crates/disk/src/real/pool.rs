//! A few threads that run submitted operations with pread and pwrite, where the kernel refuses
//! io_uring (containers, hardened kernels).
use super::queue::{AbortOnPanic, Pending};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Enough threads to keep a device busy, few enough to be idle most of the time.
pub(super) const THREADS: usize = 8;

pub(super) struct Pool {
    work: Arc<Work>,
    threads: Vec<JoinHandle<()>>,
}
struct Work {
    queue: Mutex<State>,
    more: Condvar,
}
#[derive(Default)]
struct State {
    waiting: VecDeque<Box<Pending>>,
    stop: bool,
}

impl Pool {
    pub fn start() -> Pool {
        let work = Arc::new(Work { queue: Mutex::default(), more: Condvar::new() });
        let spawn = |i| {
            let work = work.clone();
            let run = move || work.run();
            std::thread::Builder::new()
                .name(format!("disk-{i}"))
                .spawn(run)
                .expect("a thread for page I/O")
        };
        let threads = (0..THREADS).map(spawn).collect();
        Pool { work, threads }
    }
    pub fn submit(&self, ops: &mut dyn Iterator<Item = Box<Pending>>) {
        // The operations are collected first because the iterator is the caller's code, which must
        // not run under our lock.
        let ops: Vec<_> = ops.collect();
        let n = ops.len();
        self.work.queue.lock().waiting.extend(ops);
        (0..n.min(THREADS)).for_each(|_| {
            self.work.more.notify_one();
        });
    }
}

impl Work {
    fn run(&self) {
        let _abort = AbortOnPanic;
        loop {
            let op = {
                let mut state = self.queue.lock();
                loop {
                    match state.waiting.pop_front() {
                        Some(op) => break op,
                        None if state.stop => return,
                        None => self.more.wait(&mut state),
                    }
                }
            };
            op.run();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.work.queue.lock().stop = true;
        self.work.more.notify_all();
        let me = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last file may be dropped by a `done` that runs on one of these threads.
            if thread.thread().id() != me {
                let _ = thread.join();
            }
        }
    }
}
