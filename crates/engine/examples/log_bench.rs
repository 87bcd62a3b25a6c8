//! Durable commits per second of the log alone: `log_bench DIR TASKS SECONDS [FRAME_BYTES]
//! [FRAMES_PER_COMMIT]`. Also what an append costs without waiting.
#[cfg(not(loom))]
mod bench {
    use redolith_disk::{Disk, RealDisk};
    use redolith_engine::runtime::{BoxFuture, Runtime};
    use redolith_engine::testing::log::{FRAME_HEADER, Log, LogConfig};
    use redolith_engine::{Lsn, WouldBlock};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    struct Tokio(tokio::runtime::Handle);
    impl Runtime for Tokio {
        fn spawn(&self, _: &'static str, task: BoxFuture<()>) {
            self.0.spawn(task);
        }
        fn sleep(&self, time: Duration) -> BoxFuture<()> {
            Box::pin(tokio::time::sleep(time))
        }
        fn yield_now(&self) -> BoxFuture<()> {
            Box::pin(tokio::task::yield_now())
        }
    }

    async fn append(log: &Log, frame: &mut [u8]) -> Lsn {
        let credit = loop {
            match log.credit(frame.len()) {
                Ok(c) => break c,
                Err(WouldBlock::LogSpace(n)) => log.wait_space(n).await.expect("room on the disk"),
                Err(e) => panic!("{e:?}"),
            }
        };
        log.append(frame, credit, |_, _| (), |_, _| ())
    }

    pub fn main() {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let number = |i: usize, default: usize| {
            args.get(i).map_or(default, |a| a.parse().expect("a number"))
        };
        let dir =
            args.first().expect("log_bench DIR TASKS SECONDS [FRAME_BYTES] [FRAMES_PER_COMMIT]");
        let (tasks, seconds, bytes, frames) =
            (number(1, 32), number(2, 5), number(3, 300), number(4, 1));
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let tokio =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let runtime = Arc::new(Tokio(tokio.handle().clone()));
        let config =
            LogConfig { capacity_bytes: 256 << 20, ..LogConfig::new(format!("{dir}/redo")) };
        let log = Log::create(disk.clone(), runtime.clone(), config)
            .expect("a new log in an empty folder");
        append_alone(&log, &*disk, bytes);

        let (stop, commits, worst_us) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicU64::new(0)),
        );
        let begun = disk.now();
        tokio.block_on(async {
            let mut all = Vec::new();
            for _ in 0..tasks {
                let (log, disk, stop, commits, worst_us) =
                    (log.clone(), disk.clone(), stop.clone(), commits.clone(), worst_us.clone());
                all.push(tokio::spawn(async move {
                    let mut frame = vec![1; FRAME_HEADER + bytes];
                    while !stop.load(Relaxed) {
                        let at = disk.now();
                        let mut end = Lsn(0);
                        for _ in 0..frames {
                            end = append(&log, &mut frame).await;
                        }
                        log.wait_durable(end).await;
                        commits.fetch_add(1, Relaxed);
                        worst_us.fetch_max((disk.now() - at).as_micros() as u64, Relaxed);
                    }
                }));
            }
            for _ in 0..seconds * 20 {
                runtime.sleep(Duration::from_millis(50)).await;
                let durable = log.durable();
                if durable.0 - log.checkpoint_lsn().0 > 64 << 20 {
                    log.write_checkpoint(durable, b"");
                }
            }
            stop.store(true, Relaxed);
            for t in all {
                t.await.expect("no panic");
            }
            log.close().await;
        });
        let time = (disk.now() - begun).as_secs_f64();
        let commits = commits.load(Relaxed);
        println!(
            "{tasks} tasks: {:.0} commits/s, worst {} us",
            commits as f64 / time,
            worst_us.load(Relaxed)
        );
        log.counters(|name, value| {
            if value > 0 {
                println!("  {name} {value}");
            }
        });
    }

    /// One thread, nobody waits for anything.
    fn append_alone(log: &Log, disk: &dyn Disk, bytes: usize) {
        let mut frame = vec![1; FRAME_HEADER + bytes];
        let (mut n, begun) = (0u32, disk.now());
        while n < 10_000 {
            let Ok(credit) = log.credit(frame.len()) else { break };
            log.append(&mut frame, credit, |_, _| (), |_, _| ());
            n += 1;
        }
        println!(
            "{n} appends of {bytes} bytes: {:.0} ns each",
            (disk.now() - begun).as_nanos() as f64 / n.max(1) as f64
        );
    }
}
#[cfg(not(loom))]
fn main() {
    bench::main()
}
#[cfg(loom)]
fn main() {}
