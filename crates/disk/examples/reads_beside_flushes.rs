//! How long page reads take while the threads that submit them flush a log, too, as the worker
//! threads of a server do: `reads_beside_flushes DIR SESSIONS READS WORK_US SECONDS [THREADS]`.
//!
//! A session reads pages of a file of 1 GiB, one after the other, and a thread works for a while
//! with each page. Then the session commits: a thread that leads lets the sessions run that can,
//! and writes one block durably for all that have asked for it. The time of a read is the time
//! until a thread goes on with its session.
use parking_lot::{Condvar, Mutex};
use redolith_disk::{AlignedBuf, Disk, File, Io, Op, OpenHow, RealDisk};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const PAGE: usize = 16384;
const PAGES: u64 = (1 << 30) / PAGE as u64;
const BLOCK: usize = 4096;
const LOG_BYTES: u64 = 64 << 20;

struct Session {
    reads_left: u64,
    /// When its read began.
    reading_since: Option<Duration>,
    random: u64,
    /// The buffer of its reads, which a read in flight has.
    page: Option<AlignedBuf>,
}
#[derive(Default)]
struct State {
    runnable: VecDeque<Session>,
    committing: Vec<Session>,
    is_led: bool,
    log_at: u64,
    flushes: u64,
    transactions: u64,
}
struct Bench {
    disk: RealDisk,
    data: Arc<dyn File>,
    log: Arc<dyn File>,
    reads: u64,
    work: Duration,
    end: Duration,
    state: Mutex<State>,
    more: Condvar,
}

/// A file of this many bytes, all written.
fn written(disk: &RealDisk, path: &Path, bytes: u64) -> Arc<dyn File> {
    let file = disk.open(path, OpenHow::create(true)).expect("a file");
    if file.len().expect("a length") < bytes {
        let zeros = AlignedBuf::new(1 << 20);
        file.set_len(bytes).expect("room on the disk");
        for at in (0..bytes).step_by(zeros.len()) {
            file.write_at(&zeros, at).expect("a write");
        }
        file.sync().expect("a sync");
    }
    file
}

impl Bench {
    /// Runs a thread. Returns how long its sessions' reads took.
    fn run(self: &Arc<Bench>) -> Vec<Duration> {
        let mut times = Vec::new();
        // How many sessions run before this thread writes for those that commit, if it leads.
        let mut lead: Option<usize> = None;
        let mut state = self.state.lock();
        while self.disk.now() < self.end {
            if lead.is_some_and(|first| first == 0 || state.runnable.is_empty()) {
                drop(state);
                self.flush();
                state = self.state.lock();
                state.is_led = !state.committing.is_empty();
                lead = state.is_led.then_some(state.runnable.len());
                continue;
            }
            let Some(mut session) = state.runnable.pop_front() else {
                self.more.wait_for(&mut state, Duration::from_millis(10));
                continue;
            };
            lead = lead.map(|first| first - 1);
            times.extend(session.reading_since.take().map(|began| self.disk.now() - began));
            if session.reads_left == 0 {
                state.committing.push(session);
                if !std::mem::replace(&mut state.is_led, true) {
                    lead = Some(state.runnable.len());
                }
                continue;
            }
            drop(state);
            self.read(session);
            state = self.state.lock();
        }
        times
    }
    /// Works for the session, and begins its next read.
    fn read(self: &Arc<Bench>, mut session: Session) {
        let until = self.disk.now() + self.work;
        while self.disk.now() < until {
            std::hint::spin_loop();
        }
        session.reads_left -= 1;
        session.random ^= session.random << 13;
        session.random ^= session.random >> 7;
        session.random ^= session.random << 17;
        session.reading_since = Some(self.disk.now());
        let offset = session.random % PAGES * PAGE as u64;
        let page = session.page.take().expect("no read is in flight");
        let bench = self.clone();
        let done = Box::new(move |result: std::io::Result<()>, page: Option<AlignedBuf>| {
            result.expect("a read");
            session.page = page;
            bench.state.lock().runnable.push_back(session);
            bench.more.notify_one();
        });
        self.data.submit(Io { op: Op::Read(page), offset, done });
    }
    /// Writes for all sessions that commit.
    fn flush(&self) {
        let (group, at) = {
            let mut state = self.state.lock();
            state.log_at = (state.log_at + BLOCK as u64) % LOG_BYTES;
            (std::mem::take(&mut state.committing), state.log_at)
        };
        self.log.write_durable_at(&AlignedBuf::new(BLOCK), at).expect("a durable write");
        let mut state = self.state.lock();
        state.flushes += 1;
        state.transactions += group.len() as u64;
        state.runnable.extend(group.into_iter().map(|s| Session { reads_left: self.reads, ..s }));
        self.more.notify_all();
    }
}

fn main() {
    const USE: &str = "reads_beside_flushes DIR SESSIONS READS WORK_US SECONDS [THREADS]";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| -> Option<u64> { args.get(i).map(|a| a.parse().expect(USE)) };
    let (sessions, reads) = (number(1).expect(USE), number(2).expect(USE));
    let (work_us, seconds) = (number(3).expect(USE), number(4).expect(USE));
    let (dir, disk) = (Path::new(&args[0]), RealDisk::new());
    disk.create_dir_all(dir).expect("a folder");
    let data = written(&disk, &dir.join("data"), PAGES * PAGE as u64);
    let log = written(&disk, &dir.join("log"), LOG_BYTES);
    let session = |n| Session {
        reads_left: reads,
        reading_since: None,
        random: 88_172_645_463_325_252 + n * 7919,
        page: Some(AlignedBuf::new(PAGE)),
    };
    let state = State { runnable: (0..sessions).map(session).collect(), ..State::default() };
    let end = disk.now() + Duration::from_secs(seconds);
    let bench = Arc::new(Bench {
        disk,
        data,
        log,
        reads,
        work: Duration::from_micros(work_us),
        end,
        state: Mutex::new(state),
        more: Condvar::new(),
    });
    let cpu = || {
        let t = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    };
    let before = cpu();
    let threads: Vec<_> = (0..number(5).unwrap_or(2))
        .map(|_| {
            let bench = bench.clone();
            std::thread::spawn(move || bench.run())
        })
        .collect();
    let mut times: Vec<Duration> =
        threads.into_iter().flat_map(|t| t.join().expect("a thread")).collect();
    let used = cpu() - before;
    times.sort_unstable();
    let state = bench.state.lock();
    let rate = |n: u64| n / seconds;
    let percentile = |p: usize| times.get(times.len() * p / 100).map_or(0, Duration::as_micros);
    println!(
        "{} transactions/s, {} reads/s, {} flushes/s; a read takes {} us (p90 {}, p99 {}); {} us \
         of CPU for a transaction",
        rate(state.transactions),
        rate(times.len() as u64),
        rate(state.flushes),
        percentile(50),
        percentile(90),
        percentile(99),
        used.as_micros() / u128::from(state.transactions.max(1)),
    );
}
