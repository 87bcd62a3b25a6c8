//! Tests of the simulated disk. Their numbers are those of the fault model.
use super::*;
use crate::{AlignedBuf, Io, Op};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

const FILE: &str = "d/f";

/// A disk with a folder `d` and a durable file `d/f` of `len` bytes of 1.
fn disk(seed: u64, len: usize) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new(seed);
    disk.create_dir_all(Path::new("d")).unwrap();
    let file = disk.open(Path::new(FILE), OpenHow::create_new(false)).unwrap();
    file.write_at(&vec![1; len], 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    (disk, file)
}
fn contents(disk: &SimDisk) -> Vec<u8> {
    disk.contents(Path::new(FILE)).unwrap()
}
/// The contents of the file after `change` and a power loss, for many seeds and every kind of loss.
fn outcomes(len: usize, change: impl Fn(&SimDisk, &dyn File)) -> Vec<(Loss, Vec<u8>)> {
    let mut all = Vec::new();
    for seed in 0..60 {
        for loss in Loss::ALL {
            let (disk, file) = disk(seed, len);
            change(&disk, &*file);
            disk.crash_with(loss);
            all.push((loss, contents(&disk)));
        }
    }
    all
}
fn some(outcomes: &[(Loss, Vec<u8>)], which: impl Fn(&[u8]) -> bool) -> bool {
    outcomes.iter().any(|(_, c)| which(c))
}
fn count(bytes: &[u8], b: u8) -> usize {
    bytes.iter().filter(|x| **x == b).count()
}
fn is_eio(r: io::Result<()>) -> bool {
    r.unwrap_err().raw_os_error() == Some(5)
}

/// Tests MEDIUM-1 and MEDIA-1.
#[test]
fn fault_1_unsynced_writes_survive_in_any_subset_and_synced_ones_always() {
    let out = outcomes(16_384, |_, f| {
        f.write_at(&[2; 4096], 0).unwrap();
        f.sync().unwrap();
        f.write_durable_at(&[3; 4096], 4096).unwrap();
        f.write_at(&[4; 4096], 8192).unwrap();
        f.write_at(&[5; 4096], 12_288).unwrap();
    });
    let mut seen = BTreeSet::new();
    for (loss, c) in &out {
        assert_eq!(c[..4096], [2; 4096]);
        assert_eq!(c[4096..8192], [3; 4096]);
        assert!(
            c[8192..12_288].iter().all(|b| [1, 4].contains(b))
                && c[12_288..].iter().all(|b| [1, 5].contains(b))
        );
        assert_eq!(c.len(), 16_384);
        seen.insert((c[8192], c[12_288]));
        match loss {
            Loss::Nothing => assert_eq!(c[8192..], [1; 8192]),
            Loss::Everything => assert_eq!(count(c, 4) + count(c, 5), 8192),
            _ => {}
        }
    }
    assert_eq!(seen.len(), 4, "the later write without the earlier, too: {seen:?}");
}

/// Tests MEDIUM-2.
#[test]
fn fault_1_a_durable_write_is_not_undone_by_an_older_one() {
    let out = outcomes(8192, |_, f| {
        f.write_at(&[2; 8192], 0).unwrap();
        f.write_durable_at(&[3; 1000], 700).unwrap();
    });
    for (_, c) in &out {
        assert_eq!(c[700..1700], [3; 1000]);
        assert_eq!(count(c, 3), 1000);
    }
    assert!(some(&out, |c| c[0] == 2 && c[8191] == 1) && some(&out, |c| c[0] == 1 && c[8191] == 2));
}

/// Tests LOSS-1 and MEDIA-2.
/// Tests MEDIA-3.
#[test]
fn fault_2_torn_at_sectors_and_pages_never_inside() {
    let out = outcomes(16_384, |_, f| f.write_at(&[2; 16_384], 0).unwrap());
    for (loss, c) in &out {
        let unit = if *loss == Loss::Pages { 4096 } else { 512 };
        assert!(c.chunks(unit).all(|s| s.iter().all(|b| b == &s[0])));
    }
    let mixed =
        |unit: usize| some(&out, |c| c.chunks(unit).any(|p| count(p, 1) > 0 && count(p, 2) > 0));
    assert!(mixed(4096) && mixed(16_384));
    assert!(out.iter().any(|(l, c)| *l == Loss::Pages
        && count(c, 2).is_multiple_of(4096)
        && (1..16_384).contains(&count(c, 2))));
}

#[test]
fn fault_2_a_sector_is_of_one_moment() {
    // Appends of 100 bytes stand for a buffered file: bytes of a later append never survive without
    // the earlier appends to the same sector.
    for (_, c) in
        outcomes(0, |_, f| (0..30).for_each(|i| f.write_at(&[i + 1; 100], i as u64 * 100).unwrap()))
    {
        for sector in c.chunks(512) {
            let end = sector.iter().rposition(|b| *b != 0).map_or(0, |l| l + 1);
            let garbage = sector.iter().any(|b| *b > 30);
            assert!(
                garbage || !sector[..end].contains(&0),
                "a hole before later bytes: {sector:?}"
            );
        }
    }
}

/// Tests LOSS-2, LOSS-3 and LOSS-4.
#[test]
fn fault_3_lengths() {
    let out = outcomes(1000, |_, f| f.write_at(&[2; 8000], 1000).unwrap());
    assert!(out.iter().all(|(_, c)| c[..1000] == [1; 1000] && [1000, 9000].contains(&c.len())));
    assert!(
        some(&out, |c| c.len() == 1000) && some(&out, |c| c.len() == 9000 && count(c, 2) == 8000)
    );
    assert!(some(&out, |c| c.len() == 9000 && count(c, 0) == 8000), "zeros");
    assert!(some(&out, |c| c.iter().any(|b| ![0, 1, 2].contains(b))), "garbage");

    let out = outcomes(1000, |_, f| {
        f.set_len(9000).unwrap();
        f.write_at(&[2; 5000], 1000).unwrap();
    });
    assert!(some(&out, |c| c.len() == 1000) && some(&out, |c| c.len() == 9000));
    assert!(
        out.iter().all(|(_, c)| c.iter().all(|b| [0, 1, 2].contains(b))),
        "no garbage in what set_len allocated"
    );

    let out = outcomes(8192, |_, f| {
        f.set_len(600).unwrap();
        f.write_at(&[2; 1000], 600).unwrap();
    });
    assert!(
        some(&out, |c| c.len() == 600) && some(&out, |c| c.len() == 1600 && count(c, 2) == 1000)
    );
    assert!(
        out.iter().filter(|(_, c)| c.len() == 8192).all(|(_, c)| c[600..] == [1; 7592]),
        "the cut is lost, so is what came after"
    );
    assert!(out.iter().all(|(_, c)| [600, 1600, 8192].contains(&c.len())));
}

/// Tests MEDIA-5.
#[test]
fn fault_3_a_durable_write_brings_its_length() {
    let out = outcomes(1000, |_, f| {
        f.set_len(20_000).unwrap();
        f.write_at(&[3; 512], 1024).unwrap();
        f.write_durable_at(&[2; 512], 8192).unwrap();
    });
    assert!(out.iter().all(|(_, c)| c.len() == 20_000 && c[8192..8704] == [2; 512]));
    assert!(some(&out, |c| c[1024] == 3) && some(&out, |c| c[1024] == 0));
    let out = outcomes(9000, |_, f| {
        f.set_len(0).unwrap();
        f.write_durable_at(&[2; 512], 0).unwrap();
    });
    assert!(
        out.iter().all(|(_, c)| c[..] == [2; 512]),
        "a durable write after a cut needs the cut"
    );
}

/// Tests MEDIUM-3 and MEDIA-4.
#[test]
fn fault_4_names() {
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let (disk, _file) = disk(seed, 10);
        let path = Path::new;
        disk.open(path("d/new"), OpenHow::create_new(false))
            .unwrap()
            .write_durable_at(b"n", 0)
            .unwrap();
        disk.rename(path(FILE), path("d/g")).unwrap();
        disk.open(path("d/old"), OpenHow::create_new(false)).unwrap();
        disk.sync_dir(path("d")).unwrap();
        disk.remove(path("d/old")).unwrap();
        disk.rename(path("d/g"), path("d/h")).unwrap();
        disk.open(path("d/late"), OpenHow::create_new(false)).unwrap();
        assert_eq!(disk.list(path("d")).unwrap(), ["h", "late", "new"]);
        disk.crash();
        let names = disk.list(path("d")).unwrap();
        assert!(names.contains(&"new".to_owned()) && !names.contains(&"f".to_owned()));
        assert!(
            names.contains(&"g".to_owned()) != names.contains(&"h".to_owned()),
            "a rename is whole"
        );
        let moved = if names.contains(&"h".to_owned()) { "d/h" } else { "d/g" };
        assert_eq!(disk.contents(path(moved)).unwrap(), [1; 10]);
        seen.insert(names);
    }
    assert_eq!(seen.len(), 8, "three changes, each lost or kept: {seen:?}");
}

#[test]
fn fault_4_a_synced_file_without_a_synced_name_can_be_lost() {
    let lost = (0..50).filter(|seed| {
        let disk = SimDisk::new(*seed);
        disk.create_dir_all(Path::new("a/b")).unwrap();
        let f = disk.open(Path::new("a/b/c"), OpenHow::create(false)).unwrap();
        f.write_durable_at(b"x", 0).unwrap();
        disk.crash();
        assert!(disk.exists(Path::new("a/b")));
        assert!(PowerLost::is(&f.sync().unwrap_err()), "files opened before are dead");
        !disk.exists(Path::new("a/b/c"))
    });
    assert!((1..50).contains(&lost.count()));
}

fn submit_writes(disk: &SimDisk, file: &dyn File, n: u8) -> Arc<Mutex<Vec<u8>>> {
    let order = Arc::new(Mutex::new(Vec::new()));
    for i in 0..n {
        let (order, disk) = (order.clone(), disk.clone());
        let mut buf = AlignedBuf::new(4096);
        buf.fill(i + 10);
        let done = move |result: io::Result<()>, buf: Option<AlignedBuf>| {
            result.unwrap();
            assert_eq!(buf.unwrap()[0], i + 10);
            assert!(disk.ops() > 0); // the lock is free
            order.lock().push(i);
        };
        file.submit(Io { op: Op::Write(buf), offset: i as u64 * 4096, done: Box::new(done) });
    }
    order
}

#[test]
fn fault_5_submitted_operations_run_in_any_order_when_asked() {
    let mut orders = BTreeSet::new();
    for seed in 0..20 {
        let (disk, file) = disk(seed, 8 * 4096);
        let order = submit_writes(&disk, &*file, 8);
        assert_eq!(disk.pending(), 8);
        assert_eq!(contents(&disk), [1; 8 * 4096]);
        disk.run_all();
        assert_eq!(disk.pending(), 0);
        assert!(!disk.step());
        assert_eq!(contents(&disk)[7 * 4096], 17);
        orders.insert(order.lock().clone());
    }
    assert!(orders.len() > 15);
    let begun = (0..100).map(|seed| {
        let (disk, file) = disk(seed, 8 * 4096);
        let order = submit_writes(&disk, &*file, 8);
        disk.step();
        disk.crash_with(Loss::Everything);
        assert_eq!((disk.pending(), order.lock().len()), (0, 1));
        contents(&disk).chunks(4096).filter(|b| b[0] != 1).count()
    });
    let begun: BTreeSet<usize> = begun.collect();
    assert!(
        begun.len() > 4 && begun.iter().all(|n| (1..=8).contains(n)),
        "of the others some had begun: {begun:?}"
    );
}

#[test]
fn fault_6_errors_at_the_kth_operation() {
    let (disk, f) = disk(1, 4096);
    disk.fail(Fault::new(OpKind::Write, Damage::Eio).nth(3));
    disk.fail(Fault::new(OpKind::Read, Damage::Eio).on("d/g").for_ever());
    let g = disk.open(Path::new("d/g"), OpenHow::create(false)).unwrap();
    f.write_at(&[2; 10], 0).unwrap();
    g.write_at(&[2; 10], 0).unwrap();
    assert!(is_eio(f.write_at(&[3; 10], 0)));
    f.write_at(&[4; 10], 20).unwrap();
    assert_eq!(contents(&disk)[..10], [2; 10]);
    f.read_at(&mut [0], 0).unwrap();
    assert!(is_eio(g.read_at(&mut [0], 0)) && is_eio(g.read_at(&mut [0], 0)));
    disk.rename(Path::new("d/g"), Path::new("d/x")).unwrap();
    g.read_at(&mut [0], 0).unwrap(); // the file has another path now
    disk.fail(Fault::new(OpKind::SyncDir, Damage::Eio).times(2));
    assert!(is_eio(disk.sync_dir(Path::new("d"))) && is_eio(disk.sync_dir(Path::new("d"))));
    disk.sync_dir(Path::new("d")).unwrap();
    assert_eq!(disk.faults_fired(), 5);
}

#[test]
fn fault_7_after_a_failed_sync_a_good_one_means_nothing() {
    let mut lost = 0;
    for seed in 0..50 {
        let (disk, f) = disk(seed, 4096);
        disk.fail(Fault::new(OpKind::Sync, Damage::Eio));
        f.write_at(&[2; 4096], 0).unwrap();
        assert!(is_eio(f.sync()));
        assert_eq!(contents(&disk), [2; 4096]);
        f.sync().unwrap();
        disk.crash();
        lost += (count(&contents(&disk), 1) > 0) as u32;
    }
    assert!((1..50).contains(&lost), "{lost}");
}

#[test]
fn fault_8_a_full_disk_can_be_made_larger() {
    let (disk, f) = disk(1, 4096);
    disk.set_capacity(Some(12_288));
    let full = |r: io::Result<()>| r.unwrap_err().kind() == io::ErrorKind::StorageFull;
    assert!(full(f.set_len(12_289)));
    assert_eq!(f.len().unwrap(), 4096);
    assert!(full(f.write_at(&[2; 10_000], 4096)));
    assert_eq!(f.len().unwrap(), 12_288, "a part of it is left");
    assert!(full(disk.open(Path::new("d/g"), OpenHow::create(false)).map(drop)));
    f.write_at(&[3; 4096], 0).unwrap(); // in place
    disk.set_capacity(Some(20_480));
    f.set_len(16_384).unwrap();
    f.write_at(&[2; 4096], 16_384).unwrap();
    assert_eq!(disk.used_bytes(), 20_480);
    disk.remove(Path::new(FILE)).unwrap();
    assert_eq!(disk.used_bytes(), 20_480, "still open");
    drop(f);
    assert_eq!(disk.used_bytes(), 0);
}

#[test]
fn fault_9_short_and_torn_writes() {
    let (mut short, mut torn) = (BTreeSet::new(), 0);
    for seed in 0..50 {
        let (disk, f) = disk(seed, 4096);
        disk.fail(Fault::new(OpKind::Write, Damage::Short));
        disk.fail(Fault::new(OpKind::DurableWrite, Damage::Torn));
        assert!(is_eio(f.write_at(&[2; 4096], 0)));
        let c = contents(&disk);
        let n = count(&c, 2);
        assert!(c[..n].iter().all(|b| *b == 2) && n < 4096);
        short.insert(n);
        assert!(is_eio(f.write_durable_at(&[3; 4096], 0)));
        torn += (1..4096).contains(&count(&contents(&disk), 3)) as u32;
    }
    assert!(short.len() > 3 && torn > 40, "{short:?} {torn}");
}

#[test]
fn fault_10_lost_and_misdirected() {
    let (disk, f) = disk(3, 65_536);
    disk.fail(Fault::new(OpKind::Write, Damage::Lost));
    f.write_at(&[2; 4096], 0).unwrap();
    assert_eq!(contents(&disk), [1; 65_536]);
    disk.fail(Fault::new(OpKind::Write, Damage::Misdirected));
    f.write_at(&[2; 4096], 4096).unwrap();
    let c = contents(&disk);
    assert_eq!((count(&c, 2), c[4096]), (4096, 1));
    disk.fail(Fault::new(OpKind::Sync, Damage::Lost));
    f.sync().unwrap();
    disk.crash_with(Loss::Nothing);
    assert_eq!(contents(&disk), [1; 65_536]);
}

#[test]
fn fault_11_bit_flips() {
    let (disk, f) = disk(3, 8192);
    disk.flip_bit(Path::new(FILE), 100, 7).unwrap();
    assert_eq!(contents(&disk)[100], 0x81);
    let at = disk.flip_some_bit(Path::new(FILE)).unwrap() as usize;
    disk.crash();
    let changed: Vec<usize> =
        contents(&disk).iter().enumerate().filter(|(_, b)| **b != 1).map(|(i, _)| i).collect();
    assert!(changed == [100, at] || changed == [at, 100] || at == 100, "{changed:?} {at}");
    assert_eq!(
        disk.flip_bit(Path::new(FILE), 8192, 0).unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
    drop(f);
    let f = disk.open(Path::new(FILE), OpenHow::existing(false)).unwrap();
    let mut buf = [0; 512];
    disk.fail(Fault::new(OpKind::Read, Damage::Flip));
    f.read_at(&mut buf, 4096).unwrap();
    let (first, mut again) = (buf, [0; 512]);
    f.read_at(&mut again, 4096).unwrap();
    assert_eq!(first.iter().zip(&again).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>(), 1);
}

/// The power goes at every operation of a small program in turn.
#[test]
fn fault_12_power_loss_at_every_operation() {
    let program = |disk: &SimDisk| -> io::Result<()> {
        disk.create_dir_all(Path::new("d"))?;
        let f = disk.open(Path::new("d/tmp"), OpenHow::create(false))?;
        f.write_at(&[7; 5000], 0)?;
        f.sync()?;
        disk.rename(Path::new("d/tmp"), Path::new(FILE))?;
        disk.sync_dir(Path::new("d"))?;
        f.write_durable_at(&[8; 1024], 0)
    };
    let (mut torn, mut early_name) = (false, false);
    for seed in 0..40 {
        for n in 1..=8 {
            let disk = SimDisk::new(seed);
            disk.crash_at_op(n);
            let result = program(&disk);
            assert_eq!(disk.is_stopped(), n <= 7, "seven operations");
            assert_eq!(result.is_err(), n <= 7);
            if let Err(e) = result {
                assert!(PowerLost::is(&e));
                assert!(PowerLost::is(&disk.list(Path::new("d")).unwrap_err()));
                disk.restart();
            } else {
                disk.crash();
            }
            match disk.contents(Path::new(FILE)) {
                Some(c) => {
                    assert_eq!(c.len(), 5000);
                    assert_eq!(c[1024..], [7; 3976]);
                    assert!(n < 8 || c[0] == 8);
                    torn |= c[0] != c[512];
                    early_name |= n < 7;
                }
                None => assert!(n < 7),
            }
        }
    }
    assert!(torn && early_name);
}

#[test]
fn fault_13_a_killed_process_leaves_its_writes_to_the_system() {
    let (disk, f) = disk(1, 4096);
    let _lock = disk.lock_dir(Path::new("d")).unwrap();
    assert_eq!(disk.lock_dir(Path::new("d")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    f.write_at(&[2; 4096], 0).unwrap();
    disk.kill();
    assert_eq!(contents(&disk), [2; 4096]);
    assert!(disk.lock_dir(Path::new("d")).is_ok());
    assert!(PowerLost::is(&f.len().unwrap_err()));
    let fork = disk.fork(9);
    disk.crash_with(Loss::Nothing);
    assert_eq!(contents(&disk), [1; 4096]);
    fork.crash_with(Loss::Everything);
    assert_eq!(contents(&fork), [2; 4096]);
}

/// Tests SIM-1.
#[test]
fn same_seed_same_trace() {
    let run = |seed| {
        let (disk, file) = disk(seed, 8 * 4096);
        submit_writes(&disk, &*file, 8);
        disk.run_all();
        file.write_at(&disk.random().to_le_bytes(), 0).unwrap();
        disk.advance(Duration::from_secs(3));
        assert_eq!(
            (disk.now(), disk.wall_us() % 1_000_000_000),
            (Duration::from_secs(3), 3_000_000)
        );
        disk.crash();
        let c = contents(&disk);
        assert_eq!(disk.ops_of(OpKind::Write), 10);
        (disk.trace(), c)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

/// Tests SIM-2.
#[test]
fn a_done_that_owns_the_file_may_be_dropped_by_a_crash() {
    let (disk, file) = disk(1, 4096);
    let dropped = Arc::new(AtomicUsize::new(0));
    let (keep, counter) = (file.clone(), dropped.clone());
    file.submit(Io { op: Op::Sync, offset: 0, done: Box::new(move |_, _| drop((keep, counter))) });
    drop(file);
    disk.crash();
    assert_eq!((Arc::strong_count(&dropped), dropped.load(Ordering::Relaxed)), (1, 0));
}
