use super::*;
use crate::test_dir::Dir;
use crate::{ALIGN, AlignedBuf, Io, Op};
use rustix::fs::FlockOperation;
use std::sync::mpsc;

fn filled(len: usize, seed: u8) -> AlignedBuf {
    let mut buf = AlignedBuf::new(len);
    buf.iter_mut().enumerate().for_each(|(i, b)| *b = (i / 7) as u8 ^ seed);
    buf
}
fn read(file: &dyn File, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = AlignedBuf::new(len);
    file.read_at(&mut buf, offset).unwrap();
    buf.to_vec()
}

#[test]
fn what_is_written_is_read() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    for direct in [false, true] {
        let path = dir.path(if direct { "direct" } else { "buffered" });
        let file = disk.open(&path, OpenHow::create_new(direct)).unwrap();
        let (a, b) = (filled(3 * ALIGN, 1), filled(ALIGN, 2));
        file.write_at(&a, 0).unwrap();
        file.write_durable_at(&b, ALIGN as u64).unwrap();
        file.sync().unwrap();
        drop(file);
        let file = disk.open(&path, OpenHow::existing(direct)).unwrap();
        assert!(direct || !file.reports_apart(), "the page cache has one report for all");
        assert_eq!(file.len().unwrap(), 3 * ALIGN as u64);
        let got = read(&*file, 0, 3 * ALIGN);
        assert_eq!(got[..ALIGN], a[..ALIGN]);
        assert_eq!(got[ALIGN..2 * ALIGN], b[..]);
        assert_eq!(got[2 * ALIGN..], a[2 * ALIGN..]);
    }
}

#[test]
fn buffered_files_take_any_offset_and_length() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    let file = disk.open(&dir.path("f"), OpenHow::create(false)).unwrap();
    file.write_durable_at(b"hello", 3).unwrap();
    let mut got = [9; 8];
    file.read_at(&mut got, 0).unwrap();
    assert_eq!(&got, b"\0\0\0hello");
    assert_eq!(file.read_at(&mut got, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn direct_file_of_an_odd_length() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    let path = dir.path("f");
    disk.open(&path, OpenHow::create(false))
        .unwrap()
        .write_at(&filled(10_000, 5)[..10_000], 0)
        .unwrap();
    let file = disk.open(&path, OpenHow::existing(true)).unwrap();
    assert_eq!(file.len().unwrap(), 10_000);
    assert_eq!(read(&*file, 4096, 4096), filled(10_000, 5)[4096..8192]);
    // The last block is not whole, whether a read asks for it alone or behind whole blocks,
    // blocking or not.
    for (offset, len) in [(8192, 4096), (0, 12_288), (12_288, 4096)] {
        let mut buf = AlignedBuf::new(len);
        assert_eq!(
            file.read_at(&mut buf, offset).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        for kind in [QueueKind::Ring, QueueKind::Threads] {
            let disk = RealDisk::with_queue(kind);
            let file = disk.open(&path, OpenHow::existing(true)).unwrap();
            let (result, _) = wait(&*file, Op::Read(AlignedBuf::new(len)), offset);
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
    // A write over the last block makes it whole.
    file.write_durable_at(&filled(4096, 6), 8192).unwrap();
    assert_eq!(file.len().unwrap(), 12_288);
    assert_eq!(read(&*file, 8192, 4096), filled(4096, 6)[..]);
}

#[test]
#[should_panic(expected = "not aligned")]
fn unaligned_use_of_a_direct_file_panics() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    let file = disk.open(&dir.path("f"), OpenHow::create(true)).unwrap();
    let _ = file.write_at(&filled(ALIGN, 0), 512);
}

#[test]
fn set_len_grows_with_zeros_and_cuts() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    for direct in [false, true] {
        let file = disk.open(&dir.path(&format!("f{direct}")), OpenHow::create(direct)).unwrap();
        file.set_len(0).unwrap();
        file.write_at(&filled(2 * ALIGN, 3), 0).unwrap();
        file.set_len(1_000).unwrap();
        assert_eq!(file.len().unwrap(), 1_000);
        file.set_len(1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 1 << 20);
        let got = read(&*file, 0, 1 << 20);
        assert_eq!(got[..1_000], filled(2 * ALIGN, 3)[..1_000]);
        assert!(got[1_000..].iter().all(|b| *b == 0));
    }
}

#[test]
fn zero_fill_does_what_fallocate_does() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    for bypass in [false, true] {
        let path = dir.path(&format!("f{bypass}"));
        disk.open(&path, OpenHow::create(false)).unwrap().write_at(&[7; 5_000], 0).unwrap();
        let flags = if bypass { OFlags::RDWR | OFlags::DIRECT } else { OFlags::RDWR };
        let Ok(fd) = open(&path, flags) else { continue };
        let inner = Inner {
            fd,
            path: path.clone(),
            direct: bypass,
            bypass,
            size: Mutex::new(()),
            atomic_bytes: Default::default(),
            dir_lock: disk.shared.locks.of(&path),
            shared: disk.shared.clone(),
        };
        inner.zero_fill(5_000, (2 << 20) + 100).unwrap();
        let file = disk.open(&path, OpenHow::existing(false)).unwrap();
        assert_eq!(file.len().unwrap(), (2 << 20) + 100);
        let mut got = vec![1; (2 << 20) + 100];
        file.read_at(&mut got, 0).unwrap();
        assert!(got[..5_000].iter().all(|b| *b == 7) && got[5_000..].iter().all(|b| *b == 0));
    }
}

#[test]
fn a_full_disk_is_reported_by_set_len_and_leaves_the_length() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    let file = disk.open(&dir.path("f"), OpenHow::create(true)).unwrap();
    file.set_len(8192).unwrap();
    // 8 EiB - 4 KiB are too large for the disk, or for a file of this file system.
    let error = file.set_len((i64::MAX as u64) / ALIGN as u64 * ALIGN as u64).unwrap_err();
    assert!(
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge),
        "{error:?}"
    );
    assert!(error.to_string().contains(dir.path("f").to_str().unwrap()), "{error}");
    assert_eq!(file.len().unwrap(), 8192);
    let full = at(Path::new("f"), Errno::NOSPC);
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert_eq!(at(Path::new("f"), Errno::DQUOT).kind(), io::ErrorKind::StorageFull);
}

#[test]
fn names() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    let sub = dir.path("a/b/c");
    disk.create_dir_all(&sub).unwrap();
    disk.create_dir_all(&sub).unwrap();
    assert_eq!(
        disk.open(&sub.join("x"), OpenHow::existing(false)).err().unwrap().kind(),
        io::ErrorKind::NotFound
    );
    let x = disk.open(&sub.join("x"), OpenHow::create_new(true)).unwrap();
    assert_eq!(
        disk.open(&sub.join("x"), OpenHow::create_new(true)).err().unwrap().kind(),
        io::ErrorKind::AlreadyExists
    );
    x.write_at(&filled(ALIGN, 1), 0).unwrap();
    disk.open(&sub.join("w"), OpenHow::create(false)).unwrap();
    disk.rename(&sub.join("x"), &sub.join("z")).unwrap();
    assert_eq!(disk.list(&sub).unwrap(), ["w", "z"]);
    disk.rename(&sub.join("z"), &sub.join("w")).unwrap();
    assert_eq!(disk.list(&sub).unwrap(), ["w"]);
    disk.sync_dir(&sub).unwrap();
    assert_eq!(
        disk.open(&sub.join("w"), OpenHow::existing(true)).unwrap().len().unwrap(),
        ALIGN as u64
    );
    assert!(disk.exists(&sub.join("w")) && !disk.exists(&sub.join("x")));
    disk.remove(&sub.join("w")).unwrap();
    assert_eq!(read(&*x, 0, ALIGN), filled(ALIGN, 1)[..]); // an open handle stays usable
    assert_eq!(disk.remove(&sub.join("w")).unwrap_err().kind(), io::ErrorKind::NotFound);
    disk.remove(&sub).unwrap();
    assert!(!disk.exists(&sub));
    assert_eq!(disk.list(&sub).unwrap_err().kind(), io::ErrorKind::NotFound);
}

/// Tests MEDIA-6.
#[test]
fn a_data_directory_is_locked_once() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    let held = disk.lock_dir(&dir.0).unwrap();
    let error = RealDisk::new().lock_dir(&dir.0).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    drop(held);
    assert!(RealDisk::new().lock_dir(&dir.0).is_ok());
}

/// As a kernel before 5.19 refuses to register sparse files.
fn refused(_: &io_uring::Submitter<'_>) -> io::Result<()> {
    Err(Errno::INVAL.into())
}
/// As [`RealDisk::with_queue`], with places for registered files that are got in these ways.
fn with_places(kind: QueueKind, ways: &[ring::Registration]) -> RealDisk {
    let disk = RealDisk::with_queue(kind);
    let queue = Queue::of(kind, ring::Ring::start_with(ways));
    assert!(disk.shared.queue.set(queue).is_ok());
    disk
}

/// REAL-4: when a process closes all its descriptors, as it does when it ends, the lock lasts as
/// long as the ring and not longer, on older kernels, too.
#[test]
fn a_lock_lasts_as_long_as_the_ring() {
    let [_, old] = ring::WAYS_TO_PLACES;
    for ways in [&ring::WAYS_TO_PLACES, &[refused, old]] {
        let (dir, disk) = (Dir::new(), with_places(QueueKind::Ring, ways));
        let file = open(&dir.path(LOCK_FILE), OFlags::RDWR | OFlags::CREATE).unwrap();
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        locked.unwrap();
        disk.shared.queue().keep_open(&file).unwrap();
        drop(file);
        let error = RealDisk::new().lock_dir(&dir.0).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(disk);
        assert!(RealDisk::new().lock_dir(&dir.0).is_ok());
    }
}
/// REAL-4: a ring that cannot keep locks is not used.
#[test]
fn threads_replace_a_ring_without_places() {
    let (dir, disk) = (Dir::new(), with_places(QueueKind::Auto, &[refused, refused]));
    assert_eq!(disk.queue_kind(), QueueKind::Threads);
    let _held = disk.lock_dir(&dir.0).unwrap();
    let file = disk.open(&dir.path("f"), OpenHow::create(true)).unwrap();
    wait(&*file, Op::Write(filled(ALIGN, 1)), 0).0.unwrap();
    assert_eq!(read(&*file, 0, ALIGN), filled(ALIGN, 1)[..]);
}
/// REAL-4: a lock that the ring cannot keep is not given.
#[test]
fn directories_are_locked_while_there_are_places() {
    let disk = RealDisk::with_queue(QueueKind::Ring);
    let dirs: Vec<Dir> = (0..=ring::PLACES).map(|_| Dir::new()).collect();
    let (last, first) = dirs.split_last().unwrap();
    let mut locks: Vec<_> = first.iter().map(|dir| disk.lock_dir(&dir.0).unwrap()).collect();
    let error = disk.lock_dir(&last.0).err().unwrap().to_string();
    assert!(error.contains("64 directories"), "{error}");
    locks.pop();
    disk.lock_dir(&last.0).unwrap();
}

/// Whether a process would get the lock of the directory at once.
fn is_free(dir: &Dir) -> bool {
    let file = open(&dir.path(LOCK_FILE), OFlags::RDWR).unwrap();
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}
/// REAL-5: a lock that is dropped while a write is in flight is given back when the write has
/// ended, and a file that is still open does not keep it.
#[test]
fn a_lock_is_given_back_behind_the_last_write() {
    for (kind, threads) in [(QueueKind::Ring, 1), (QueueKind::Threads, pool::THREADS)] {
        let (dir, elsewhere, disk) = (Dir::new(), Dir::new(), RealDisk::with_queue(kind));
        let held = disk.lock_dir(&dir.0).unwrap();
        let file = disk.open(&dir.path("f"), OpenHow::create(true)).unwrap();
        let other = disk.open(&elsewhere.path("f"), OpenHow::create(true)).unwrap();
        other.set_len(ALIGN as u64).unwrap();
        // Reads elsewhere hold up all threads that tell of what has ended.
        let (hold_up, (told, wait_until_held)) = (Arc::new(Mutex::new(())), mpsc::channel());
        let holding = hold_up.lock();
        for _ in 0..threads {
            let (hold_up, told) = (hold_up.clone(), told.clone());
            let done = move |_: io::Result<()>, _| {
                let _ = told.send(());
                drop(hold_up.lock());
            };
            let op = Op::Read(AlignedBuf::new(ALIGN));
            other.submit(Io { op, offset: 0, done: Box::new(done) });
        }
        (0..threads).for_each(|_| wait_until_held.recv().unwrap());
        let (tx, rx) = mpsc::channel();
        let done = {
            let path = dir.path(LOCK_FILE);
            move |result: io::Result<()>, _| {
                let again = open(&path, OFlags::RDWR).unwrap();
                let locked = rustix::fs::flock(&again, FlockOperation::NonBlockingLockExclusive);
                let _ = tx.send((result, locked));
            }
        };
        file.submit(Io { op: Op::Write(filled(ALIGN, 1)), offset: 0, done: Box::new(done) });
        drop(held);
        assert!(!is_free(&dir), "{kind:?}");
        drop(holding);
        let (written, locked) = rx.recv().unwrap();
        written.unwrap();
        locked.unwrap();
    }
}
/// REAL-5, for a write on the thread of its caller.
#[test]
fn a_lock_is_given_back_behind_a_blocking_change() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    let held = disk.lock_dir(&dir.0).unwrap();
    let path = dir.path("f");
    let file = Arc::new(Inner {
        fd: open(&path, OFlags::RDWR | OFlags::CREATE).unwrap(),
        path: path.clone(),
        direct: false,
        bypass: false,
        size: Mutex::new(()),
        atomic_bytes: Default::default(),
        dir_lock: disk.shared.locks.of(&path),
        shared: disk.shared.clone(),
    });
    let holding = file.size.lock();
    let changing = {
        let file = RealFile(file.clone());
        std::thread::spawn(move || file.set_len(100))
    };
    while file.dir_lock.strong_count() < 2 {
        std::thread::yield_now();
    }
    drop(held);
    assert!(!is_free(&dir));
    drop(holding);
    changing.join().unwrap().unwrap();
    assert!(is_free(&dir));
}

#[test]
fn random_numbers_differ_and_clocks_run() {
    let disk = Arc::new(RealDisk::new());
    let draw = |disk: Arc<RealDisk>| move || (0..1000).map(|_| disk.random()).collect::<Vec<_>>();
    let mut all: Vec<u64> = [draw(disk.clone()), draw(disk.clone())]
        .map(std::thread::spawn)
        .into_iter()
        .flat_map(|t| t.join().unwrap())
        .collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2000);
    let (now, wall) = (disk.now(), disk.wall_us());
    assert!(disk.now() >= now);
    assert!(wall > 1_600_000_000_000_000, "{wall}");
}

fn wait(file: &dyn File, op: Op, offset: u64) -> (io::Result<()>, Option<AlignedBuf>) {
    let (tx, rx) = mpsc::channel();
    file.submit(Io {
        op,
        offset,
        done: Box::new(move |result, buf| tx.send((result, buf)).unwrap()),
    });
    rx.recv().unwrap()
}

/// Many threads submit many operations each at once: every buffer comes back once, with the right
/// content.
fn submits(kind: QueueKind, direct: bool) {
    submits_to(&RealDisk::with_queue(kind), kind, direct);
}
fn submits_to(disk: &RealDisk, kind: QueueKind, direct: bool) {
    const THREADS: usize = 4;
    const EACH: usize = 700; // more than the ring holds
    let dir = Dir::new();
    let file = disk.open(&dir.path("f"), OpenHow::create(direct)).unwrap();
    assert_eq!(disk.queue_kind(), kind);
    let run = |write: bool| {
        let (tx, rx) = mpsc::channel();
        std::thread::scope(|scope| {
            for t in 0..THREADS {
                let (tx, file) = (tx.clone(), &file);
                let ios = (0..EACH).map(move |i| {
                    let block = t * EACH + i;
                    let tx = tx.clone();
                    let op = if write {
                        Op::Write(filled(ALIGN, block as u8))
                    } else {
                        Op::Read(AlignedBuf::new(ALIGN))
                    };
                    let done = move |result: io::Result<()>, buf: Option<AlignedBuf>| {
                        tx.send((block, result, buf.unwrap())).unwrap()
                    };
                    Io { op, offset: (block * ALIGN) as u64, done: Box::new(done) }
                });
                // The threads submit one by one or in batches, and end while their operations run.
                scope.spawn(move || {
                    if t % 2 == 0 {
                        file.submit_many(ios.collect())
                    } else {
                        ios.for_each(|io| file.submit(io))
                    }
                });
            }
        });
        drop(tx);
        let mut seen = vec![false; THREADS * EACH];
        for (block, result, buf) in rx {
            result.unwrap();
            assert!(!std::mem::replace(&mut seen[block], true));
            assert_eq!(buf[..], filled(ALIGN, block as u8)[..], "block {block}");
        }
        assert!(seen.iter().all(|s| *s));
    };
    run(true);
    let (result, buf) = wait(&*file, Op::Sync, 0);
    result.unwrap();
    assert!(buf.is_none());
    run(false);
    assert_eq!(read(&*file, (5 * ALIGN) as u64, ALIGN), filled(ALIGN, 5)[..]);
}
#[test]
fn submitted_through_the_ring() {
    submits(QueueKind::Ring, true);
    submits(QueueKind::Ring, false);
}
/// A kernel without memory for a while loses no operation and does none twice.
#[test]
fn submitted_while_the_kernel_has_no_memory() {
    let disk = RealDisk::with_queue(QueueKind::Ring);
    let Queue::Ring(ring) = disk.shared.queue() else { panic!("a ring was asked for") };
    ring.refuse_next(100);
    submits_to(&disk, QueueKind::Ring, true);
}
#[test]
fn submitted_through_threads() {
    submits(QueueKind::Threads, true);
    submits(QueueKind::Threads, false);
}

/// Tests RING-1 and RING-2.
#[test]
fn syncs_outlive_the_thread_that_asked_for_them() {
    let (dir, disk) = (Dir::new(), RealDisk::with_queue(QueueKind::Ring));
    let file = disk.open(&dir.path("f"), OpenHow::create(false)).unwrap();
    let (tx, rx) = mpsc::channel();
    for i in 0..50 {
        let (file, tx) = (file.clone(), tx.clone());
        let thread = std::thread::spawn(move || {
            file.write_at(&filled(1 << 16, i), i as u64 * (1 << 16)).unwrap();
            for _ in 0..4 {
                let tx = tx.clone();
                file.submit(Io {
                    op: Op::Sync,
                    offset: 0,
                    done: Box::new(move |result, _| tx.send(result).unwrap()),
                });
            }
        });
        thread.join().unwrap();
    }
    drop(tx);
    let results: Vec<_> = rx.into_iter().collect();
    assert_eq!(results.len(), 200);
    results.into_iter().for_each(|r| r.unwrap());
}

/// Tests REAL-3, RING-3 and RING-4.
#[test]
fn the_last_use_of_a_disk_may_be_a_completion() {
    for kind in [QueueKind::Ring, QueueKind::Threads] {
        let dir = Dir::new();
        let disk = RealDisk::with_queue(kind);
        let file = disk.open(&dir.path("f"), OpenHow::create(true)).unwrap();
        drop(disk);
        let (tx, rx) = mpsc::channel();
        let keep = file.clone();
        let done = move |result: io::Result<()>, _| {
            drop(keep);
            tx.send(result).unwrap();
        };
        file.submit(Io { op: Op::Write(filled(ALIGN, 1)), offset: 0, done: Box::new(done) });
        drop(file);
        rx.recv().unwrap().unwrap();
        let disk = RealDisk::with_queue(kind);
        let file = disk.open(&dir.path("f"), OpenHow::create(true)).unwrap();
        drop(disk);
        let (result, buf) = wait(&*file, Op::Read(AlignedBuf::new(ALIGN)), 0);
        result.unwrap();
        assert_eq!(buf.unwrap()[..], filled(ALIGN, 1)[..]);
    }
}

#[test]
fn progress_of_short_rounds() {
    use super::file::progress;
    assert_eq!(progress(0, 8192, 8192, true), Some(8192));
    assert_eq!(progress(0, 5000, 8192, true), Some(4096));
    assert_eq!(progress(4096, 904, 8192, true), None);
    assert_eq!(progress(0, 5000, 8192, false), Some(5000));
    assert_eq!(progress(5000, 0, 8192, false), None);
}

/// Durable writes can be submitted. They take one step, or two where the file system has no durable
/// writes.
#[test]
fn durable_writes_can_be_submitted() {
    let dir = Dir::new();
    for (kind, two_steps) in [
        (QueueKind::Ring, false),
        (QueueKind::Ring, true),
        (QueueKind::Threads, false),
        (QueueKind::Threads, true),
    ] {
        let disk = RealDisk::with_queue(kind);
        disk.shared.no_dsync.store(two_steps, std::sync::atomic::Ordering::Relaxed);
        let path = dir.path(&format!("{kind:?}{two_steps}"));
        let file = disk.open(&path, OpenHow::create_new(true)).unwrap();
        assert!(!two_steps || !file.reports_apart());
        file.set_len(64 * ALIGN as u64).unwrap();
        let (tx, rx) = mpsc::channel();
        for n in (0..64u64).rev() {
            let (tx, buf) = (tx.clone(), filled(ALIGN, n as u8));
            let done: crate::Done = Box::new(move |r, buf| tx.send((n, r, buf)).unwrap());
            file.submit(Io { op: Op::WriteDurable(buf), offset: n * ALIGN as u64, done });
        }
        for _ in 0..64 {
            let (n, result, buf) = rx.recv().unwrap();
            result.unwrap();
            assert_eq!(buf.unwrap()[..], filled(ALIGN, n as u8)[..]);
        }
        for n in 0..64u64 {
            assert_eq!(read(&*file, n * ALIGN as u64, ALIGN), filled(ALIGN, n as u8)[..]);
        }
    }
}

#[test]
fn a_shorter_buffer_is_the_same_memory() {
    let mut buf = filled(3 * ALIGN, 1);
    buf.set_len(ALIGN);
    assert_eq!(buf[..], filled(3 * ALIGN, 1)[..ALIGN]);
    buf.set_len(3 * ALIGN);
    assert_eq!(buf[..], filled(3 * ALIGN, 1)[..]);
}

#[test]
fn files_of_users_are_opened_by_no_link() {
    let (dir, disk) = (Dir::new(), RealDisk::new());
    let outside = dir.path("outside");
    disk.create_dir_all(&outside).unwrap();
    let file = disk.open_resolved(&outside.join("f"), true).unwrap();
    file.write_at(b"text", 0).unwrap();
    let again = disk.open_resolved(&outside.join("f"), true);
    assert_eq!(again.err().unwrap().kind(), io::ErrorKind::AlreadyExists);
    std::os::unix::fs::symlink(&outside, dir.path("folder")).unwrap();
    std::os::unix::fs::symlink(outside.join("f"), dir.path("link")).unwrap();
    let real = disk.resolve(&outside.join("f")).unwrap();
    for path in ["link", "folder/f", "outside/../outside/f"] {
        assert_eq!(disk.resolve(&dir.path(path)).unwrap(), real, "{path}");
    }
    let mut text = [0; 4];
    disk.open_resolved(&real, false).unwrap().read_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"text");
    let kind = |path: &str| disk.open_resolved(&dir.path(path), false).err().unwrap().kind();
    for path in ["link", "outside"] {
        assert_eq!(kind(path), io::ErrorKind::InvalidInput, "{path}");
    }
    assert_eq!(kind("nothing"), io::ErrorKind::NotFound);
    assert!(disk.open_resolved(&dir.path("folder/g"), true).is_err());
    assert_eq!(disk.list(&outside).unwrap(), ["f"]);
}

/// A file whose file system refuses an atomic write says so, has written nothing, and asks for no
/// further one. Where the file system has such writes, the page is there afterwards.
#[test]
fn atomic_writes_are_done_or_refused() {
    const PAGE: usize = 16384;
    let dir = Dir::new();
    for kind in [QueueKind::Auto, QueueKind::Threads] {
        let disk = RealDisk::with_queue(kind);
        let path = dir.path(&format!("{kind:?}"));
        let file = disk.open(&path, OpenHow::create(true)).unwrap();
        file.set_len(4 * PAGE as u64).unwrap();
        let (tell, told) = mpsc::channel();
        file.submit(Io {
            op: Op::WriteAtomic(filled(PAGE, 7)),
            offset: PAGE as u64,
            done: Box::new(move |result, buf| tell.send((result, buf.is_some())).unwrap()),
        });
        let (result, gave_back) = told.recv().unwrap();
        assert!(gave_back);
        let mut read = AlignedBuf::new(PAGE);
        file.read_at(&mut read, PAGE as u64).unwrap();
        match result {
            Ok(()) => assert_eq!(read[..], filled(PAGE, 7)[..]),
            Err(e) => {
                assert_eq!(e.kind(), io::ErrorKind::Unsupported, "{e}");
                assert!(!file.writes_atomically(PAGE) && read.iter().all(|b| *b == 0));
            }
        }
    }
}

/// A system that cannot tell says that there is data everywhere.
#[test]
fn holes_are_passed_over() {
    const FAR: u64 = 64 << 20;
    let (dir, disk) = (Dir::new(), RealDisk::new());
    for direct in [false, true] {
        let path = dir.path(if direct { "direct" } else { "buffered" });
        let file = disk.open(&path, OpenHow::create_new(direct)).unwrap();
        assert_eq!(file.next_data(0).unwrap(), None);
        file.write_at(&filled(ALIGN, 1), 0).unwrap();
        file.write_at(&filled(ALIGN, 2), FAR).unwrap();
        assert_eq!(file.next_data(0).unwrap(), Some(0));
        let next = file.next_data(ALIGN as u64).unwrap().unwrap();
        assert!((ALIGN as u64..=FAR).contains(&next), "{next}");
        assert_eq!(file.next_data(FAR + 1).unwrap(), Some(FAR + 1));
        assert_eq!(file.next_data(FAR + ALIGN as u64).unwrap(), None);
        // The calls before have left the place of reads and writes as it was.
        assert_eq!(read(&*file, FAR, ALIGN), filled(ALIGN, 2).to_vec());
    }
}
