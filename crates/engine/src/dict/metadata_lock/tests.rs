use super::MetadataLockMode::{Exclusive, NoWrite, Read, Write};
use super::*;
use crate::lock::tests::{Random, StillRuntime, poll_once, still_runtime};
use crate::runtime::block_on;
use std::pin::Pin;
use std::sync::atomic::AtomicI64;

type Answer = Pin<Box<dyn Future<Output = (MetadataLockSet, Result<()>)> + Send>>;

struct Bench {
    clock: Arc<StillRuntime>,
    runtime: Arc<dyn Runtime>,
    kill: Arc<KillFlag>,
}
impl Bench {
    fn new() -> Bench {
        let (clock, runtime) = still_runtime();
        Bench { clock, runtime, kill: KillFlag::new() }
    }
    fn lock(
        &self,
        mut set: MetadataLockSet,
        lock: &Arc<MetadataLock>,
        mode: MetadataLockMode,
    ) -> Answer {
        let (runtime, kill, lock) = (self.runtime.clone(), self.kill.clone(), lock.clone());
        let mut answer: Answer = Box::pin(async move {
            let end = set
                .lock(
                    &lock,
                    mode,
                    MetadataLockWait {
                        runtime: &runtime,
                        timeout: Duration::from_secs(50),
                        kill: &kill,
                    },
                )
                .await;
            (set, end)
        });
        match poll_once(&mut answer) {
            None => answer,
            Some(end) => Box::pin(async move { end }),
        }
    }
    fn lock_all(&self, locks: &[&Arc<MetadataLock>]) -> Answer {
        self.lock_all_in(&locks.iter().map(|lock| (*lock, Exclusive)).collect::<Vec<_>>())
    }
    fn lock_all_in(&self, locks: &[(&Arc<MetadataLock>, MetadataLockMode)]) -> Answer {
        let (runtime, kill) = (self.runtime.clone(), self.kill.clone());
        let locks: Vec<_> = locks.iter().map(|(lock, mode)| (Arc::clone(lock), *mode)).collect();
        let mut answer: Answer = Box::pin(async move {
            let mut set = MetadataLockSet::new();
            let end = set
                .lock_all(
                    &locks,
                    MetadataLockWait {
                        runtime: &runtime,
                        timeout: Duration::from_secs(50),
                        kill: &kill,
                    },
                )
                .await;
            (set, end)
        });
        match poll_once(&mut answer) {
            None => answer,
            Some(end) => Box::pin(async move { end }),
        }
    }
}
fn held(lock: &Arc<MetadataLock>, mode: MetadataLockMode) -> MetadataLockSet {
    let mut set = MetadataLockSet::new();
    assert!(set.try_lock(lock, mode));
    set
}
fn granted(answer: &mut Answer) -> MetadataLockSet {
    let (set, end) = poll_once(answer).expect("it waits");
    end.expect("granted");
    set
}

#[test]
fn the_table_of_modes() {
    let modes = [Read, Write, NoWrite, Exclusive];
    let together = [
        [true, true, true, false],
        [true, true, false, false],
        [true, false, true, false],
        [false; 4],
    ];
    for (asked, row) in modes.iter().zip(together) {
        for (held_mode, goes) in modes.iter().zip(row) {
            let lock = MetadataLock::new();
            let first = held(&lock, *held_mode);
            let mut second = MetadataLockSet::new();
            assert_eq!(second.try_lock(&lock, *asked), goes, "{asked:?} beside {held_mode:?}");
            drop((first, second));
            assert!(lock.is_free());
        }
    }
}

#[test]
fn a_set_strengthens_what_it_holds() {
    let lock = MetadataLock::new();
    let mut set = held(&lock, Read);
    assert!(set.try_lock(&lock, Write) && set.holds(&lock) == Some(Write));
    assert!(set.try_lock(&lock, Read) && set.holds(&lock) == Some(Write));
    assert!(
        set.try_lock(&lock, NoWrite) && set.holds(&lock) == Some(Exclusive),
        "nothing less covers both"
    );
    assert_eq!(set.mark(), 1);
    set.downgrade(&lock, NoWrite);
    let reader = held(&lock, Read);
    assert!(!MetadataLockSet::new().try_lock(&lock, Write));
    drop((set, reader));
    assert!(lock.is_free());
}

/// Tests MDL-1.
#[test]
fn who_comes_later_queues_but_holders_pass() {
    let (b, lock) = (Bench::new(), MetadataLock::new());
    let mut dml = held(&lock, Read);
    let mut ddl = b.lock(MetadataLockSet::new(), &lock, Exclusive);
    let mut late = b.lock(MetadataLockSet::new(), &lock, Read);
    assert!(poll_once(&mut ddl).is_none() && poll_once(&mut late).is_none());
    assert!(dml.try_lock(&lock, Write), "a holder passes the queue");
    drop(dml);
    let ddl = granted(&mut ddl);
    assert!(poll_once(&mut late).is_none());
    drop(ddl);
    drop(granted(&mut late));
    assert!(lock.is_free());
}

/// Tests MDL-5, and that a wait shows from its beginning to its end.
#[test]
fn timeouts_and_kills_leave_the_queue() {
    let (b, lock) = (Bench::new(), MetadataLock::new());
    let dml = held(&lock, Write);
    let mut ddl = b.lock(MetadataLockSet::new(), &lock, Exclusive);
    b.clock.expire();
    assert!(matches!(poll_once(&mut ddl), Some((_, Err(Error::LockWaitTimeout)))));
    b.clock.restart();
    assert!(!lock.has_waiters());
    assert!(!b.kill.is_waiting());
    let mut ddl = b.lock(MetadataLockSet::new(), &lock, Exclusive);
    assert!(b.kill.is_waiting());
    b.kill.kill();
    assert!(matches!(poll_once(&mut ddl), Some((_, Err(Error::Interrupted)))));
    assert!(!b.kill.is_waiting());
    b.kill.clear();
    let ddl = b.lock(MetadataLockSet::new(), &lock, Exclusive);
    let mut late = b.lock(MetadataLockSet::new(), &lock, Read);
    drop(ddl);
    drop(granted(&mut late));
    drop(dml);
    assert!(lock.is_free());
}

#[test]
fn a_grant_that_nobody_takes_is_undone() {
    let (b, lock) = (Bench::new(), MetadataLock::new());
    let dml = held(&lock, Write);
    let ddl = b.lock(MetadataLockSet::new(), &lock, Exclusive);
    drop(dml); // this grants the lock to ddl, which is not polled again
    drop(ddl);
    assert!(lock.is_free());
    let other = held(&lock, Read);
    let upgrade = b.lock(held(&lock, Read), &lock, Exclusive);
    drop(other);
    drop(upgrade); // this ends both the conversion and the set itself
    assert!(lock.is_free());
}

/// Tests MDL-4.
#[test]
fn a_second_conversion_is_a_deadlock() {
    let (b, lock) = (Bench::new(), MetadataLock::new());
    let mut alter = b.lock(held(&lock, NoWrite), &lock, Exclusive);
    drop(granted(&mut alter));
    let reader = held(&lock, Read);
    let mut alter = b.lock(held(&lock, NoWrite), &lock, Exclusive);
    let mut writer = b.lock(reader, &lock, Write);
    let (reader, end) = poll_once(&mut writer).unwrap();
    assert!(matches!(end, Err(Error::Deadlock)));
    assert_eq!(reader.holds(&lock), Some(Read), "nothing has changed");
    assert!(poll_once(&mut alter).is_none());
    drop(reader);
    assert_eq!(granted(&mut alter).holds(&lock), Some(Exclusive));
}

/// Two transactions and two DDLs wait for each other in a ring of queues: after a second the
/// transactions pass the queued DDLs.
/// Tests MDL-3.
#[test]
fn who_holds_locks_hurries_past_the_queue_after_a_second() {
    let (b, x, y) = (Bench::new(), MetadataLock::new(), MetadataLock::new());
    let (t1, t2) = (held(&x, Write), held(&y, Write));
    let mut ddl_x = b.lock(MetadataLockSet::new(), &x, Exclusive);
    let mut ddl_y = b.lock(MetadataLockSet::new(), &y, Exclusive);
    let mut t1 = b.lock(t1, &y, Read);
    let mut t2 = b.lock(t2, &x, Read);
    assert!(poll_once(&mut t1).is_none() && poll_once(&mut t2).is_none());
    b.clock.expire();
    let (t1, t2) = (granted(&mut t1), granted(&mut t2));
    b.clock.restart();
    drop((t1, t2));
    drop((granted(&mut ddl_x), granted(&mut ddl_y)));
    assert!(x.is_free() && y.is_free());
}

/// Tests MDL-2.
#[test]
fn ddl_on_several_tables_does_not_hold_and_wait_for_ever() {
    let (b, x, y) = (Bench::new(), MetadataLock::new(), MetadataLock::new());
    let trx = held(&y, Write);
    let mut ddl = b.lock_all(&[&x, &y]); // it holds x and waits for y
    let mut trx = b.lock(trx, &x, Write); // it holds y and waits for x
    assert!(poll_once(&mut ddl).is_none() && poll_once(&mut trx).is_none());
    b.clock.expire();
    // The clock goes on.
    let _ = poll_once(&mut ddl).map(|(_, end)| assert!(matches!(end, Err(Error::LockWaitTimeout))));
    let trx = granted(&mut trx);
    b.clock.restart();
    drop((trx, ddl));
    assert!(x.is_free() && y.is_free());
    let mut both = b.lock_all(&[&x, &y]);
    let both = granted(&mut both);
    assert_eq!((both.holds(&x), both.holds(&y)), (Some(Exclusive), Some(Exclusive)));
}

/// Tests MDL-1 and MDL-2: a DDL statement on a table, which takes `Read` on the schema first, keeps
/// its place in the table's queue.
#[test]
fn ddl_on_a_busy_table_keeps_its_place() {
    let (b, schema, table) = (Bench::new(), MetadataLock::new(), MetadataLock::new());
    let reader = held(&table, Read);
    let mut ddl = b.lock_all_in(&[(&schema, Read), (&table, Exclusive)]);
    let mut next_reader = b.lock(MetadataLockSet::new(), &table, Read);
    b.clock.pass(10 * PATIENCE);
    assert!(poll_once(&mut ddl).is_none() && poll_once(&mut next_reader).is_none());
    b.clock.restart();
    drop(reader);
    let ddl = granted(&mut ddl);
    assert_eq!((ddl.holds(&schema), ddl.holds(&table)), (Some(Read), Some(Exclusive)));
    assert!(poll_once(&mut next_reader).is_none());
    drop(ddl);
    granted(&mut next_reader);
}

/// Under threads no reader is beside an exclusive holder, and no wake-up is lost (nothing times out
/// here).
#[test]
fn locks_exclude_under_threads() {
    let (_, runtime) = still_runtime();
    let locks: Vec<Arc<MetadataLock>> = (0..3).map(|_| MetadataLock::new()).collect();
    // The number of users per lock, or -1 for an exclusive user.
    let users: Vec<AtomicI64> = (0..3).map(|_| AtomicI64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let (runtime, locks, users) = (&runtime, &locks, &users);
            scope.spawn(move || {
                let mut random = Random(thread + 1);
                let kill = KillFlag::new();
                let wait =
                    MetadataLockWait { runtime, timeout: Duration::from_secs(50), kill: &kill };
                let mut set = MetadataLockSet::new();
                for _ in 0..3000 {
                    if random.below(10) == 0 {
                        let i = random.below(3) as usize;
                        block_on(set.lock(&locks[i], Exclusive, wait)).unwrap();
                        assert_eq!(users[i].swap(-1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        assert_eq!(users[i].swap(0, Ordering::SeqCst), -1);
                    } else {
                        // All locks are taken in one order, so that there is no deadlock: the clock
                        // stands still.
                        let first = random.below(3) as usize;
                        for i in first..3 {
                            block_on(set.lock(
                                &locks[i],
                                if random.below(2) == 0 { Read } else { Write },
                                wait,
                            ))
                            .unwrap();
                            assert!(users[i].fetch_add(1, Ordering::SeqCst) >= 0);
                        }
                        users[first..]
                            .iter()
                            .for_each(|user| assert!(user.fetch_sub(1, Ordering::SeqCst) > 0));
                    }
                    set.release_all();
                }
            });
        }
    });
    assert!(locks.iter().all(|lock| lock.is_free()));
}

#[test]
fn many_locks_are_found_as_few_are() {
    let locks: Vec<_> = (0..5 * FEW).map(|_| MetadataLock::new()).collect();
    let mut set = MetadataLockSet::new();
    for most in [5 * FEW, FEW, 2 * FEW, FEW - 1, 3 * FEW] {
        set.release_to(FEW / 2);
        for lock in &locks[..most] {
            assert!(set.try_lock(lock, Read) && set.try_lock(lock, Write));
        }
        assert_eq!(set.mark(), most, "each is held once");
        for (n, lock) in locks.iter().enumerate() {
            assert_eq!(set.holds(lock), (n < most).then_some(Write), "{n} of {most}");
        }
    }
    set.downgrade(&locks[2 * FEW], Read);
    assert_eq!(set.holds(&locks[2 * FEW]), Some(Read));
    set.release_all();
    assert!(locks.iter().all(|lock| lock.is_free()));
}
