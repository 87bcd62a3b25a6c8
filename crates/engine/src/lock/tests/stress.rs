//! Threads use one lock table at the same time. The tests check mutual exclusion, that deadlocks
//! are broken, and that no wake-up is lost: a lost wake-up hangs the test, because no wait times
//! out here.
#![cfg(not(shuttle))]
use super::Mode::{S, X};
use super::*;
use crate::sync::lock::atomic::{AtomicI64, AtomicU64};

/// The data that the locks protect: readers count up from 0, and a writer sets -1.
struct Cell(AtomicI64);
impl Cell {
    fn enter(&self, mode: Mode, upgrade: bool) {
        match mode {
            S => assert!(self.0.fetch_add(1, Ordering::SeqCst) >= 0, "a reader beside a writer"),
            X => assert_eq!(
                self.0.swap(-1, Ordering::SeqCst),
                i64::from(upgrade),
                "a writer beside others"
            ),
        }
    }
    fn leave(&self, mode: Mode) {
        match mode {
            S => assert!(self.0.fetch_sub(1, Ordering::SeqCst) > 0),
            X => assert_eq!(self.0.swap(0, Ordering::SeqCst), -1),
        }
    }
}

#[test]
fn locks_exclude_and_deadlocks_end() {
    const KEYS: usize = 6;
    const THREADS: u64 = 8;
    let (_, runtime) = still_runtime();
    let locks = LockTable::new(|| Duration::ZERO);
    let cells: Vec<Cell> = (0..KEYS).map(|_| Cell(AtomicI64::new(0))).collect();
    let (victims, done) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (locks, cells, runtime, victims, done) =
                (&locks, &cells, &runtime, &victims, &done);
            scope.spawn(move || {
                let mut random = Random(thread + 1);
                let trx = locks.new_trx(KillFlag::new());
                for _ in 0..1500 {
                    let mut held: [Option<Mode>; KEYS] = [None; KEYS];
                    for _ in 0..1 + random.below(4) {
                        let key = random.below(KEYS as u64) as usize;
                        let mode = if random.below(3) == 0 { X } else { S };
                        let end = match random.below(8) {
                            0 => locks
                                .try_lock_row(&trx, row(key as u64), mode)
                                .map(|_| true)
                                .ok_or(None),
                            _ => {
                                lock_and_wait(locks, &trx, runtime, key as u64, mode).map_err(Some)
                            }
                        };
                        match end {
                            Ok(_) => {
                                let was = held[key];
                                if was.is_none_or(|was| was < mode) {
                                    // A reader that upgrades turns its own 1 into -1.
                                    cells[key].enter(mode, was.is_some());
                                    held[key] = Some(mode);
                                }
                            }
                            Err(None) => {} // The key is locked.
                            Err(Some(Error::Deadlock)) => {
                                victims.fetch_add(1, Ordering::Relaxed);
                                break;
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                        if random.below(4) == 0 {
                            std::thread::yield_now();
                        }
                    }
                    for (key, mode) in held.iter().enumerate() {
                        mode.iter().for_each(|mode| cells[key].leave(*mode));
                    }
                    locks.release_all(&trx);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), THREADS * 1500);
    assert_eq!(locks.stats().deadlocks, victims.load(Ordering::Relaxed));
    assert!(victims.load(Ordering::Relaxed) > 0, "the run met no deadlock");
    assert_eq!(locks.locked_keys(), 0);
    assert_eq!(locks.stats().current_waits, 0);
}

/// Takes a lock, and waits for it if necessary. `Ok` means that the lock is held.
fn lock_and_wait(
    locks: &Arc<LockTable>,
    trx: &Arc<TrxLocks>,
    runtime: &Arc<dyn Runtime>,
    key: u64,
    mode: Mode,
) -> Result<bool> {
    loop {
        match locks.lock_row(trx, row(key), mode) {
            Ok(newly) => return Ok(newly),
            Err(WouldBlock::Lock(wait)) => {
                block_on(wait.wait(runtime, Duration::from_secs(50)))?;
                assert!(locks.holds(trx, row(key), mode), "a granted lock is held");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Scanners lock ranges, and inserters enter keys. Between two looks of a scanner no other owner's
/// key may appear in its range.
/// Tests RANGE-1 and RANGE-3.
#[test]
fn ranges_keep_inserts_out_under_threads() {
    let (_, runtime) = still_runtime();
    let locks = LockTable::new(|| Duration::ZERO);
    let ranges = RangeLocks::new(9);
    // The "leaf": the inserted keys with their owners. Its mutex stands for the leaf's latch.
    let leaf: Mutex<Vec<(u64, u64)>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let (locks, ranges, leaf, runtime) = (&locks, &ranges, &leaf, &runtime);
            scope.spawn(move || {
                let mut random = Random(thread + 77);
                let trx = locks.new_trx(KillFlag::new());
                'trx: for _ in 0..800 {
                    let mut looks: Vec<(u64, u64, Vec<u64>)> = Vec::new();
                    for _ in 0..1 + random.below(3) {
                        let key = random.below(40);
                        if random.below(2) == 0 {
                            let high = key + random.below(6);
                            let bounds = (key.to_be_bytes(), high.to_be_bytes());
                            ranges.lock_range(
                                &trx,
                                KeyRange::new(
                                    std::ops::Bound::Included(&bounds.0),
                                    std::ops::Bound::Included(&bounds.1),
                                ),
                            );
                            looks.push((key, high, others(&leaf.lock(), trx.owner(), key, high)));
                            continue;
                        }
                        loop {
                            let mut latched = leaf.lock();
                            match locks.check_insert(&trx, ranges, &key.to_be_bytes()) {
                                Ok(()) => {
                                    latched.push((key, trx.owner()));
                                    break;
                                }
                                Err(WouldBlock::Lock(wait)) => {
                                    drop(latched);
                                    if let Err(Error::Deadlock) =
                                        block_on(wait.wait(runtime, Duration::from_secs(50)))
                                    {
                                        locks.release_all(&trx);
                                        continue 'trx;
                                    }
                                }
                                Err(other) => panic!("{other:?}"),
                            }
                        }
                    }
                    for (low, high, seen) in looks {
                        assert_eq!(others(&leaf.lock(), trx.owner(), low, high), seen, "a phantom");
                    }
                    locks.release_all(&trx);
                }
            });
        }
    });
    assert!(format!("{ranges:?}").contains("0 intervals"));
    assert_eq!(locks.stats().current_waits, 0);
}
fn others(leaf: &[(u64, u64)], owner: u64, low: u64, high: u64) -> Vec<u64> {
    leaf.iter()
        .filter(|(key, by)| *by != owner && (low..=high).contains(key))
        .map(|(key, _)| *key)
        .collect()
}

/// Owners commit while other transactions turn the implicit locks into explicit ones. No lock may
/// be left behind, and no transaction may wait for ever.
#[test]
fn implicit_locks_race_with_commit() {
    let (_, runtime) = still_runtime();
    let locks = LockTable::new(|| Duration::ZERO);
    // The record's latest writer, under the "latch".
    let record: Mutex<Option<(Arc<TrxLocks>, crate::TrxId)>> = Mutex::new(None);
    let ids = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (locks, record, ids, runtime) = (&locks, &record, &ids, &runtime);
            scope.spawn(move || {
                let trx = locks.new_trx(KillFlag::new());
                for _ in 0..4000 {
                    let id = crate::TrxId(ids.fetch_add(1, Ordering::Relaxed));
                    trx.set_trx_id(id);
                    loop {
                        let mut latched = record.lock();
                        let conflict = latched
                            .as_ref()
                            .is_some_and(|(owner, by)| locks.grant_implicit(owner, *by, row(1)));
                        match if conflict {
                            locks.lock_row(&trx, row(1), X).map(drop)
                        } else {
                            Ok(())
                        } {
                            Ok(()) => {
                                *latched = Some((trx.clone(), id));
                                break;
                            }
                            Err(WouldBlock::Lock(wait)) => {
                                drop(latched);
                                block_on(wait.wait(runtime, Duration::from_secs(50)))
                                    .expect("no deadlock on one key");
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    assert_eq!(record.lock().as_ref().unwrap().1, id, "overwritten before commit");
                    locks.release_all(&trx);
                }
            });
        }
    });
    assert_eq!(locks.locked_keys(), 0);
}
