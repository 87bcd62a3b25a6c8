use super::*;
use crate::test_dir::Dir;
use crate::{AlignedBuf, Loss, RealDisk, SimDisk};
use std::sync::mpsc;

const SEEDS: std::ops::Range<u64> = 0..40;

fn recording() -> (SimDisk, RecordingDisk<SimDisk>) {
    let sim = SimDisk::new(1);
    sim.create_dir_all(Path::new("d")).unwrap();
    (sim.clone(), RecordingDisk::new(sim, Path::new("d")).unwrap())
}
fn image(disk: &RecordingDisk<SimDisk>, position: usize, loss: Loss, seed: u64) -> SimDisk {
    let mut replay = disk.replay();
    replay.advance_to(position);
    assert_eq!(replay.position(), position);
    replay.image_with(loss, seed)
}
fn file(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    disk.contents(Path::new(path))
}

/// Tests TAPE-3.
#[test]
fn every_position_keeps_what_was_synced_and_may_lose_the_rest() {
    let (_, disk) = recording();
    let f = disk.open(Path::new("d/f"), OpenHow::create(false)).unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    let named = disk.position();
    f.write_at(&[1; 4096], 0).unwrap();
    let written = disk.position();
    f.sync().unwrap();
    let synced = disk.position();
    f.write_durable_at(&[2; 512], 512).unwrap();
    let durable = disk.position();
    f.set_len(600).unwrap();
    let cut = disk.position();
    disk.rename(Path::new("d/f"), Path::new("d/g")).unwrap();
    let renamed = disk.position();
    disk.sync_dir(Path::new("d")).unwrap();
    let end = disk.position();

    let (mut lost_name, mut torn, mut short, mut old_name) = (false, false, false, false);
    for position in 0..=end {
        for (seed, loss) in SEEDS.flat_map(|s| Loss::ALL.map(|l| (s, l))) {
            let image = image(&disk, position, loss, seed);
            let (f, g) = (file(&image, "d/f"), file(&image, "d/g"));
            assert!(f.is_none() || g.is_none());
            assert!(g.is_none() || position > cut);
            assert!(f.is_none() || position < end);
            old_name |= f.is_some() && position >= renamed;
            let Some(c) = f.or(g) else {
                assert!(position < named);
                lost_name |= position > 1;
                continue;
            };
            if position >= synced {
                assert_eq!(c[..512], [1; 512]);
                assert!(c.len() == 4096 || c.len() == 600 && position > durable);
                short |= c.len() == 600;
            }
            if position >= durable {
                assert!(c[512..600] == [2; 88]);
            } else if position >= synced {
                assert!(c[1024..] == [1; 3072]);
                torn |= c[512] == 2;
            } else if position >= written {
                assert!(c.is_empty() || c.len() == 4096);
            }
        }
    }
    assert!(lost_name && torn && short && old_name);
}

/// Tests TAPE-2.
#[test]
fn a_sync_covers_what_had_ended_when_it_started() {
    // Two writes and a sync are in flight at once. They run in the order in which the simulated
    // disk picks them, and the tape must agree.
    for seed in 0..30 {
        let sim = SimDisk::new(seed);
        let disk = RecordingDisk::new(sim.clone(), Path::new("d")).unwrap();
        disk.create_dir_all(Path::new("d")).unwrap();
        let f = disk.open(Path::new("d/f"), OpenHow::create(true)).unwrap();
        f.set_len(8192).unwrap();
        f.sync().unwrap();
        disk.sync_dir(Path::new("d")).unwrap();
        let write = |offset: u64| {
            let mut buf = AlignedBuf::new(4096);
            buf.fill(7);
            Io { op: Op::Write(buf), offset, done: Box::new(|r, _| r.unwrap()) }
        };
        f.submit_many(vec![write(0), write(4096)]);
        sim.step();
        let ended_first = if file(&sim, "d/f").unwrap()[0] == 7 { 0 } else { 4096 };
        f.submit(Io { op: Op::Sync, offset: 0, done: Box::new(|r, _| r.unwrap()) });
        sim.run_all();
        let image = image(&disk, disk.position(), Loss::Nothing, seed);
        let c = file(&image, "d/f").unwrap();
        assert_eq!(c[ended_first], 7);
        // The other write may have run before the sync did, but it had not ended when the sync was
        // submitted.
        assert_eq!(c[4096 - ended_first], 0);
        f.sync().unwrap();
        let c = file(&self::image(&disk, disk.position(), Loss::Nothing, seed), "d/f").unwrap();
        assert_eq!(c, [7; 8192]);
    }
}

#[test]
fn failed_operations_promise_nothing() {
    use crate::sim::{Damage, Fault, OpKind};
    let (sim, disk) = recording();
    let f = disk.open(Path::new("d/f"), OpenHow::create(false)).unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    sim.fail(Fault::new(OpKind::Sync, Damage::Eio));
    sim.fail(Fault::new(OpKind::DurableWrite, Damage::Eio));
    f.write_at(&[1; 512], 0).unwrap();
    assert!(f.sync().is_err() && f.write_durable_at(&[2; 512], 512).is_err());
    let at = disk.position();
    assert_eq!(file(&image(&disk, at, Loss::Nothing, 0), "d/f").unwrap(), []);
    let all = file(&image(&disk, at, Loss::Everything, 0), "d/f").unwrap();
    assert_eq!((all[0], all[512]), (1, 2));
}

#[test]
fn what_was_there_before_is_durable() {
    let sim = SimDisk::new(1);
    sim.create_dir_all(Path::new("d/e")).unwrap();
    sim.create_dir_all(Path::new("else")).unwrap();
    for path in ["d/e/f", "d/g", "else/h"] {
        sim.open(Path::new(path), OpenHow::create(false))
            .unwrap()
            .write_at(path.as_bytes(), 3_000_000)
            .unwrap();
    }
    let disk = RecordingDisk::new(sim, Path::new("d")).unwrap();
    disk.rename(Path::new("d/e/f"), Path::new("d/e/i")).unwrap();
    let h = disk.open(Path::new("else/h"), OpenHow::create(false)).unwrap();
    h.write_at(b"new", 0).unwrap();
    assert_eq!(
        disk.open(Path::new("else/h"), OpenHow::create_new(false)).err().unwrap().kind(),
        io::ErrorKind::AlreadyExists
    );
    assert!(disk.recorded_bytes() < 4_000_000, "zeros take no memory: {}", disk.recorded_bytes());
    let at = disk.position();
    let (none, all) = (image(&disk, at, Loss::Nothing, 0), image(&disk, at, Loss::Everything, 0));
    assert_eq!(file(&none, "d/e/f").unwrap()[3_000_000..], *b"d/e/f");
    assert_eq!(file(&none, "d/g").unwrap()[3_000_000..], *b"d/g");
    assert_eq!(file(&none, "else/h").unwrap()[..3], [0; 3]);
    assert_eq!(file(&all, "else/h").unwrap()[..3], *b"new");
    assert!(file(&all, "d/e/f").is_none() && file(&none, "d/e/i").is_none());
    assert_eq!(file(&all, "d/e/i").unwrap()[3_000_000..], *b"d/e/f");
}

/// Threads append durably on a real disk, by blocking calls and by submitted operations. An image
/// of any moment has all appends acknowledged by then.
/// Tests TAPE-1.
#[test]
fn a_real_run_with_threads() {
    const EACH: u8 = 25;
    let dir = Dir::new();
    let disk = RecordingDisk::new(RealDisk::new(), &dir.0).unwrap();
    let mut acknowledged: Vec<(usize, u8, u8)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u8)
            .map(|t| {
                let (disk, path) = (disk.clone(), dir.path(&t.to_string()));
                let dir = &dir.0;
                scope.spawn(move || {
                    let file = disk.open(&path, OpenHow::create_new(true)).unwrap();
                    disk.sync_dir(dir).unwrap();
                    let token = |i: u8| {
                        let mut buf = AlignedBuf::new(4096);
                        buf.fill(i + 1);
                        buf
                    };
                    let submit = |op, i: u8| {
                        let (tx, rx) = mpsc::channel();
                        let done = move |result, _| tx.send(result).unwrap();
                        file.submit(Io { op, offset: i as u64 * 4096, done: Box::new(done) });
                        let result: io::Result<()> = rx.recv().unwrap();
                        result.unwrap();
                    };
                    let append = |i: u8| {
                        if t % 2 == 0 {
                            file.write_durable_at(&token(i), i as u64 * 4096).unwrap();
                        } else {
                            submit(Op::Write(token(i)), i);
                            submit(Op::Sync, 0);
                        }
                        (disk.position(), t, i)
                    };
                    (0..EACH).map(append).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    acknowledged.sort_unstable();
    let mut replay = disk.replay();
    for (seed, (position, ..)) in acknowledged.iter().enumerate() {
        replay.advance_to(*position);
        let image = replay.image(seed as u64);
        for (_, t, i) in acknowledged.iter().filter(|(p, ..)| p <= position) {
            let c = image.contents(&dir.path(&t.to_string())).unwrap();
            assert_eq!(c[*i as usize * 4096..][..4096], [i + 1; 4096]);
        }
    }

    // The last image is copied to a folder.
    let copy = Dir::new();
    let real = RealDisk::new();
    replay.advance_to(disk.position());
    replay.image(0).copy_to(&dir.0, &real, &copy.path("image")).unwrap();
    assert_eq!(real.list(&copy.path("image")).unwrap(), ["0", "1", "2", "3"]);
    let f = real.open(&copy.path("image/3"), OpenHow::existing(true)).unwrap();
    let mut buf = AlignedBuf::new(4096);
    f.read_at(&mut buf, (EACH - 1) as u64 * 4096).unwrap();
    assert_eq!(buf[..], [EACH; 4096]);
}
