//! A file whose syncs take turns, and that never forgets a failed one.
//!
//! The kernel reports a failed write-back of the page cache to one fdatasync of an open file, and
//! counts the pages as clean from then on. Another sync of the file that runs beside it, or comes
//! later, returns Ok, although what it was to make durable is lost. See "PostgreSQL vs. fsync"
//! (Vondra, FOSDEM 2019).
//!
//! TURN-1: one sync of the file runs at a time. One that is asked for meanwhile begins after its
//! end, because that one may not cover the newest writes; all that wait then share the next one.
//! TURN-2: when a sync has failed, all that wait fail with it, and every later one fails.
use crate::{AlignedBuf, Done, File, Io, Op};
use parking_lot::Mutex;
use std::io;
use std::sync::{Arc, mpsc};

/// The file itself where it reports errors apart ([`File::reports_apart`]); otherwise the file with
/// syncs that take turns.
pub fn in_turn(file: Arc<dyn File>) -> Arc<dyn File> {
    if file.reports_apart() {
        return file;
    }
    Arc::new(InTurn(Arc::new(Inner { file, turns: Mutex::default() })))
}

struct InTurn(Arc<Inner>);
struct Inner {
    file: Arc<dyn File>,
    turns: Mutex<Turns>,
}
#[derive(Default)]
struct Turns {
    /// A sync runs.
    busy: bool,
    /// The callers that the next sync serves.
    waiting: Vec<Done>,
    /// How a sync has failed.
    failed: Option<(io::ErrorKind, String)>,
}
impl Turns {
    fn outcome(&self) -> io::Result<()> {
        match &self.failed {
            Some((kind, why)) => {
                Err(io::Error::new(*kind, format!("another fsync of the file has failed: {why}")))
            }
            None => Ok(()),
        }
    }
}
impl Inner {
    fn sync(self: &Arc<Inner>, done: Done) {
        if self.enter(done) {
            self.run();
        }
    }
    /// Adds a caller, or tells it that a sync has failed. Returns whether no sync runs: then the
    /// caller has to run one.
    fn enter(&self, done: Done) -> bool {
        let mut turns = self.turns.lock();
        if let Err(e) = turns.outcome() {
            drop(turns);
            done(Err(e), None);
            return false;
        }
        turns.waiting.push(done);
        !std::mem::replace(&mut turns.busy, true)
    }
    fn take_waiting(&self) -> Vec<Done> {
        std::mem::take(&mut self.turns.lock().waiting)
    }
    /// Runs one sync for all that wait. `busy` is set.
    fn run(self: &Arc<Inner>) {
        let callers = self.take_waiting();
        let inner = self.clone();
        let done: Done = Box::new(move |result, _| inner.ended(result, callers));
        self.file.submit(Io { op: Op::Sync, offset: 0, done });
    }
    /// Notes the outcome before any caller learns of it.
    fn ended(self: &Arc<Inner>, result: io::Result<()>, callers: Vec<Done>) {
        let mut turns = self.turns.lock();
        if let Err(e) = &result {
            turns.failed = Some((e.kind(), e.to_string()));
        }
        // TURN-2
        let failing = if result.is_err() { std::mem::take(&mut turns.waiting) } else { Vec::new() };
        turns.busy = !turns.waiting.is_empty();
        let goes_on = turns.busy;
        let mut first = Some(result);
        let calls: Vec<(Done, io::Result<()>)> = (callers.into_iter().chain(failing))
            .map(|done| (done, first.take().unwrap_or_else(|| turns.outcome())))
            .collect();
        drop(turns);
        if goes_on {
            self.run();
        }
        calls.into_iter().for_each(|(done, result)| done(result, None));
    }
}

impl File for InTurn {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.file.write_at(buf, offset)
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(buf, offset)?;
        self.sync()
    }
    fn writes_atomically(&self, bytes: usize) -> bool {
        self.0.file.writes_atomically(bytes)
    }
    /// Blocks for the sync before it, too. Where none runs, this thread does it: a handover to
    /// another one takes longer than a fast sync.
    fn sync(&self) -> io::Result<()> {
        let (tell, told) = mpsc::channel();
        let mine: Done = Box::new(move |result, _| {
            let _ = tell.send(result);
        });
        if self.0.enter(mine) {
            let callers = self.0.take_waiting();
            self.0.ended(self.0.file.sync(), callers);
        }
        told.recv().unwrap_or_else(|_| Err(io::Error::other("the fsync was given up")))
    }
    fn len(&self) -> io::Result<u64> {
        self.0.file.len()
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.0.file.next_data(offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.file.set_len(len)
    }
    fn submit(&self, io: Io) {
        let Io { op, offset, done } = io;
        match op {
            Op::Sync => self.0.sync(done),
            Op::WriteDurable(buf) => {
                let inner = self.0.clone();
                let written: Done =
                    Box::new(move |result: io::Result<()>, buf: Option<AlignedBuf>| match result {
                        Ok(()) => inner.sync(Box::new(move |result, _| done(result, buf))),
                        Err(e) => done(Err(e), buf),
                    });
                self.0.file.submit(Io { op: Op::Write(buf), offset, done: written });
            }
            op => self.0.file.submit(Io { op, offset, done }),
        }
    }
    fn submit_many(&self, ios: Vec<Io>) {
        let passed_on = |io: &Io| !matches!(io.op, Op::Sync | Op::WriteDurable(_));
        let (rest, syncs): (Vec<Io>, Vec<Io>) = ios.into_iter().partition(passed_on);
        if !rest.is_empty() {
            self.0.file.submit_many(rest);
        }
        syncs.into_iter().for_each(|io| self.submit(io));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_dir::Dir;
    use crate::{Disk, OpenHow, RealDisk};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// A file of the page cache whose submitted operations wait until the test ends them.
    #[derive(Default)]
    struct Slow {
        held: Mutex<Vec<Io>>,
        apart: AtomicBool,
        /// Runs within the next sync of a thread, and says how that ends.
        within: Mutex<Option<Within>>,
    }
    type Within = Box<dyn FnOnce() -> io::Result<()> + Send>;
    impl Slow {
        /// Ends the oldest operation, and says whether it was a sync.
        fn end(&self, result: io::Result<()>) -> bool {
            let Io { op, done, .. } = self.held.lock().remove(0);
            let syncs = matches!(op, Op::Sync);
            done(result, op.into_buf());
            syncs
        }
        fn held(&self) -> usize {
            self.held.lock().len()
        }
    }
    impl File for Slow {
        fn reports_apart(&self) -> bool {
            self.apart.load(Relaxed)
        }
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            Ok(())
        }
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            Ok(())
        }
        fn write_durable_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            unreachable!("it would sync out of turn")
        }
        fn sync(&self) -> io::Result<()> {
            let within = self.within.lock().take();
            within.map_or(Ok(()), |within| within())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn submit(&self, io: Io) {
            self.held.lock().push(io);
        }
    }
    type Told = mpsc::Receiver<Result<(), String>>;
    fn submit(file: &Arc<dyn File>, op: Op) -> Told {
        let (tell, told) = mpsc::channel();
        let done: Done = Box::new(move |result, _| {
            tell.send(result.map_err(|e| e.to_string())).unwrap();
        });
        file.submit(Io { op, offset: 0, done });
        told
    }
    fn slow() -> (Arc<Slow>, Arc<dyn File>) {
        let slow = Arc::new(Slow::default());
        (slow.clone(), in_turn(slow))
    }

    /// Tests TURN-1: the second and the third sync begin after the end of the first, as one.
    #[test]
    fn a_sync_waits_for_the_one_before() {
        let (slow, file) = slow();
        let told = [0; 3].map(|_| submit(&file, Op::Sync));
        assert_eq!(slow.held(), 1);
        slow.end(Ok(()));
        assert_eq!(told.each_ref().map(|told| told.try_recv().is_ok()), [true, false, false]);
        assert_eq!(slow.held(), 1);
        slow.end(Ok(()));
        assert!(told[1..].iter().all(|told| told.try_recv() == Ok(Ok(()))));
        assert_eq!(slow.held(), 0);
    }

    /// Tests TURN-2.
    #[test]
    fn a_failed_sync_is_not_forgotten() {
        let (slow, file) = slow();
        let told = [0; 2].map(|_| submit(&file, Op::Sync));
        slow.end(Err(io::Error::from_raw_os_error(5)));
        let [first, second] = told.map(|told| told.try_recv().unwrap().unwrap_err());
        assert!(first.contains("os error 5") && !first.contains("another"), "{first}");
        assert!(second.contains("another fsync") && second.contains("os error 5"), "{second}");
        let later = file.sync().unwrap_err();
        assert!(later.to_string().contains("another fsync of the file has failed"), "{later}");
        assert!(submit(&file, Op::Sync).try_recv().unwrap().is_err());
        assert_eq!(slow.held(), 0);
    }

    /// Tests TURN-1 and TURN-2: a sync that is asked for while a thread syncs waits for it.
    #[test]
    fn a_thread_syncs_where_no_sync_runs() {
        let (slow, file) = slow();
        let beside: Arc<Mutex<Vec<Told>>> = Arc::default();
        let within = |result: fn() -> io::Result<()>| -> Within {
            let (slow, file, beside) = (slow.clone(), file.clone(), beside.clone());
            Box::new(move || {
                beside.lock().push(submit(&file, Op::Sync));
                assert_eq!(slow.held(), 0, "it waits");
                result()
            })
        };
        let told = || beside.lock().pop().unwrap().try_recv();
        *slow.within.lock() = Some(within(|| Ok(())));
        file.sync().unwrap();
        assert_eq!(slow.held(), 1);
        slow.end(Ok(()));
        assert_eq!(told(), Ok(Ok(())));
        *slow.within.lock() = Some(within(|| Err(io::Error::from_raw_os_error(5))));
        assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
        assert!(told().unwrap().unwrap_err().contains("os error 5") && slow.held() == 0);
    }

    #[test]
    fn durable_writes_and_blocking_syncs_take_turns_too() {
        let (slow, file) = slow();
        let durable = submit(&file, Op::WriteDurable(AlignedBuf::new(4096)));
        let sync = submit(&file, Op::Sync);
        assert!(!slow.end(Ok(())), "the write comes first");
        assert_eq!(slow.held(), 1);
        let blocked = {
            let file = file.clone();
            std::thread::spawn(move || file.sync())
        };
        assert!(slow.end(Ok(())));
        assert!(sync.try_recv().is_ok() && durable.try_recv().is_err());
        // The thread has its sync in this turn or asks for the next.
        while !blocked.is_finished() {
            if slow.held() > 0 {
                assert!(slow.end(Ok(())));
            }
            std::thread::yield_now();
        }
        blocked.join().unwrap().unwrap();
        assert_eq!(durable.try_recv(), Ok(Ok(())));
    }

    #[test]
    fn a_file_that_reports_apart_stays_as_it_is() {
        let slow = Arc::new(Slow::default());
        slow.apart.store(true, Relaxed);
        let file: Arc<dyn File> = slow.clone();
        assert!(Arc::ptr_eq(&in_turn(file.clone()), &file));
    }

    #[test]
    fn many_threads_sync_a_real_file() {
        let (dir, disk) = (Dir::new(), RealDisk::new());
        let file = in_turn(disk.open(&dir.path("f"), OpenHow::create_new(false)).unwrap());
        assert!(file.reports_apart());
        std::thread::scope(|s| {
            for n in 0..8u8 {
                let file = &file;
                s.spawn(move || {
                    for round in 0..20 {
                        let at = u64::from(n) * 100 + round;
                        file.write_at(&[n], at).unwrap();
                        match round % 2 {
                            0 => file.sync().unwrap(),
                            _ => submit(file, Op::Sync).recv().unwrap().unwrap(),
                        }
                    }
                });
            }
        });
        assert_eq!(file.len().unwrap(), 720);
    }
}
