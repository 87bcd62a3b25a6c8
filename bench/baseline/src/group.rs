//! Durable group commit without anything else: every flush overwrites one 4 KiB block of a
//! zero-filled file with O_DIRECT and O_DSYNC.
//!
//! - A commit returns only after a flush that began after the commit's request.
//! - There is one flush at a time. A session that finds no leader becomes the leader; the other
//!   sessions wait until they are woken.
//! - Before it writes, the leader yields to every runnable task, as long as this makes the group
//!   larger.
use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::time::Duration;

const BLOCK_BYTES: usize = 4096;
const LOG_BLOCKS: u64 = 16 * 1024;
/// The maximum number of times that a leader yields to let its group grow.
const GATHER_ROUNDS: usize = 8;

#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

pub struct Group {
    log: File,
    pace: Duration,
    asked: AtomicU64,
    durable: AtomicU64,
    led: AtomicBool,
    waiting: Mutex<Vec<(u64, Waker)>>,
}

impl Group {
    pub fn create(dir: &str, pace: Duration) -> io::Result<Group> {
        let path = format!("{dir}/baseline.log");
        std::fs::write(&path, vec![0; LOG_BLOCKS as usize * BLOCK_BYTES])?;
        let flags = rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::DSYNC;
        let log = OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(path)?;
        log.sync_all()?;
        let (asked, durable, led, waiting) = Default::default();
        Ok(Group { log, pace, asked, durable, led, waiting })
    }

    /// Resolves when a flush has covered this commit.
    pub async fn commit(&self) {
        let ticket = self.asked.fetch_add(1, SeqCst) + 1;
        while self.durable.load(SeqCst) < ticket {
            if self.led.swap(true, SeqCst) {
                self.wait(ticket).await;
            } else if self.durable.load(SeqCst) < ticket {
                self.gather().await;
                self.flush();
            } else {
                self.hand_over(); // the last leader's flush covered this commit meanwhile
            }
        }
    }

    /// Waits until this ticket is durable, or until there is no leader.
    async fn wait(&self, ticket: u64) {
        let mut queued = false;
        poll_fn(|cx| {
            let mut waiting = self.waiting.lock().unwrap();
            if queued || self.durable.load(SeqCst) >= ticket || !self.led.load(SeqCst) {
                return Poll::Ready(());
            }
            queued = true;
            waiting.push((ticket, cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    async fn gather(&self) {
        let mut before = self.asked.load(SeqCst);
        for _ in 0..GATHER_ROUNDS {
            tokio::task::yield_now().await;
            let now = self.asked.load(SeqCst);
            if now == before {
                break;
            }
            before = now;
        }
        if !self.pace.is_zero() {
            tokio::time::sleep(self.pace).await;
        }
    }

    fn flush(&self) {
        let upto = self.asked.load(SeqCst);
        let written = self
            .log
            .write_all_at(&Block([1; BLOCK_BYTES]).0, upto % LOG_BLOCKS * BLOCK_BYTES as u64);
        written.expect("a flush that failed has an unknown outcome");
        self.durable.store(upto, SeqCst);
        self.hand_over();
    }

    /// Ends this leadership. Wakes all sessions whose tickets are durable, and the first other
    /// session, so that it becomes the leader.
    fn hand_over(&self) {
        self.led.store(false, SeqCst);
        let mut waiting = self.waiting.lock().unwrap();
        let durable = self.durable.load(SeqCst);
        let woken: Vec<_> = waiting.extract_if(.., |w| w.0 <= durable).collect();
        let next = (!waiting.is_empty()).then(|| waiting.swap_remove(0));
        drop(waiting);
        woken.into_iter().chain(next).for_each(|w| w.1.wake());
    }
}
