//! Transactions beside each other: locks, deadlocks, snapshots, savepoints, and how they end.

use crate::common::Dir;
use redolith::{Database, Error, Result, Table, TableDefinition, Transaction, asynchronous};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;

const NUMBERS: TableDefinition<u64, i64> = TableDefinition::new("numbers");

fn opened(name: &str) -> (Dir, Database, Table<u64, i64>) {
    let dir = Dir::new(name);
    let db = dir.open();
    let table = db.table(NUMBERS).unwrap();
    (dir, db, table)
}
fn all(db: &Database, table: &Table<u64, i64>) -> Vec<(u64, i64)> {
    db.snapshot().range(table, ..).unwrap().collect::<Result<_>>().unwrap()
}

#[test]
fn each_call_does_what_its_name_says() {
    let (_dir, db, table) = opened("calls");
    let t = db.begin();
    t.insert(&table, 1, 10).unwrap();
    let twice = t.insert(&table, 1, 11);
    assert!(matches!(twice, Err(Error::DuplicateKey { .. })));
    assert!(twice.unwrap_err().to_string().contains("'numbers'"));
    assert_eq!(t.get(&table, 1).unwrap(), Some(10));
    t.put(&table, 1, 12).unwrap();
    t.put(&table, 2, 20).unwrap();
    assert!(t.update(&table, 2, 21).unwrap());
    assert!(!t.update(&table, 3, 30).unwrap());
    t.put(&table, 4, 40).unwrap();
    assert!(t.remove(&table, 4).unwrap());
    assert!(!t.remove(&table, 4).unwrap());
    t.insert(&table, 4, 41).unwrap();
    assert_eq!(t.get_for_update(&table, 2).unwrap(), Some(21));
    assert_eq!(t.get_for_update(&table, 3).unwrap(), None);
    t.commit().unwrap();
    assert_eq!(all(&db, &table), [(1, 12), (2, 21), (4, 41)]);
}

#[test]
fn two_transactions_write_at_the_same_time() {
    let (_dir, db, table) = opened("two-writers");
    // Both are open, and have written, when the first commits.
    let both_have_written = Barrier::new(2);
    thread::scope(|s| {
        for n in 0..2 {
            let (db, table, both_have_written) = (&db, &table, &both_have_written);
            s.spawn(move || {
                for round in 0..20 {
                    let t = db.begin();
                    t.insert(table, 2 * round + n, n as i64).unwrap();
                    both_have_written.wait();
                    t.commit().unwrap();
                }
            });
        }
    });
    let expected: Vec<_> = (0..40).map(|key| (key, (key % 2) as i64)).collect();
    assert_eq!(all(&db, &table), expected);
}

#[test]
fn a_row_that_is_read_for_update_is_locked() {
    let (_dir, db, table) = opened("for-update");
    db.transact(|t| t.insert(&table, 1, 0)).unwrap();
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..25 {
                    db.transact(|t| {
                        let n = t.get_for_update(&table, 1)?.unwrap_or_default();
                        t.put(&table, 1, n + 1)
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(all(&db, &table), [(1, 100)]);
}

#[test]
fn a_lock_is_waited_for_as_long_as_was_asked_for() {
    let dir = Dir::new("lock-timeout");
    let timeout = std::time::Duration::from_millis(20);
    let db = Database::builder().lock_wait_timeout(timeout).open(&dir.0).unwrap();
    let table = db.table(NUMBERS).unwrap();
    let (a, b) = (db.begin(), db.begin());
    a.put(&table, 1, 1).unwrap();
    b.put(&table, 2, 2).unwrap();
    let late = b.put(&table, 1, 3).unwrap_err();
    let is_told = |e: &Error| match e {
        Error::LockTimeout { table, waited } => table == "numbers" && *waited == timeout,
        _ => false,
    };
    assert!(is_told(&late), "{late}");
    // The call has changed nothing, and the transaction goes on.
    a.commit().unwrap();
    b.put(&table, 3, 3).unwrap();
    b.commit().unwrap();
    assert_eq!(all(&db, &table), [(1, 1), (2, 2), (3, 3)]);
}

/// Locks the two rows in this order; both threads have one before either asks for the other.
fn lock_both(
    t: &Transaction,
    table: &Table<u64, i64>,
    keys: [u64; 2],
    meet: impl FnOnce(),
) -> Result<()> {
    t.put(table, keys[0], keys[0] as i64)?;
    meet();
    t.put(table, keys[1], keys[0] as i64)
}

#[test]
fn a_deadlock_is_an_error_for_one_and_the_other_goes_on() {
    let (_dir, db, table) = opened("deadlock");
    let meeting = Barrier::new(2);
    let run = |keys| {
        let t = db.begin();
        let locked = lock_both(&t, &table, keys, || {
            meeting.wait();
        });
        let Err(e) = locked else { return t.commit() };
        // The victim is rolled back: it can do nothing more, and cannot commit.
        assert!(matches!(e, Error::Deadlock), "{e}");
        assert!(matches!(t.put(&table, 9, 9), Err(Error::Deadlock)));
        assert!(matches!(t.get(&table, 9), Err(Error::Deadlock)));
        t.commit()
    };
    let ended = thread::scope(|s| {
        let other = s.spawn(|| run([2, 1]));
        [run([1, 2]), other.join().unwrap()]
    });
    assert_eq!(ended.iter().filter(|e| matches!(e, Err(Error::Deadlock))).count(), 1);
    let winner = if ended[0].is_ok() { 1 } else { 2 };
    assert_eq!(all(&db, &table), [(1, winner), (2, winner)]);
    let message = Error::Deadlock.to_string();
    assert!(message.contains("rolled back") && message.contains("transact"), "{message}");
}

#[test]
fn transact_runs_a_deadlocks_victim_again() {
    let (_dir, db, table) = opened("transact");
    let meeting = Barrier::new(2);
    let runs = |keys| {
        let mut runs = 0;
        db.transact(|t| {
            runs += 1;
            lock_both(t, &table, keys, || {
                if runs == 1 {
                    meeting.wait();
                }
            })
        })
        .unwrap();
        runs
    };
    let runs = thread::scope(|s| {
        let other = s.spawn(|| runs([2, 1]));
        [runs([1, 2]), other.join().unwrap()]
    });
    // The second run of the victim may meet the other one once more.
    assert!(runs.iter().sum::<u32>() >= 3, "{runs:?}");
    // The program's own error rolls back.
    let refused = db.transact(|t| {
        t.put(&table, 5, 5)?;
        Err::<(), _>(Error::other("not today"))
    });
    assert_eq!(refused.unwrap_err().to_string(), "not today");
    assert_eq!(all(&db, &table).len(), 2);
}

#[test]
fn a_snapshot_sees_what_was_committed_before_it() {
    let (_dir, db, table) = opened("snapshot");
    db.transact(|t| (0..100).try_for_each(|n| t.insert(&table, n, 0))).unwrap();
    let unfinished = db.begin();
    unfinished.put(&table, 1, 1).unwrap();
    let snapshot = db.snapshot();
    unfinished.commit().unwrap();
    db.transact(|t| {
        t.put(&table, 2, 2)?;
        t.put(&table, 1000, 1)?;
        t.remove(&table, 3).map(drop)
    })
    .unwrap();
    let then: Vec<(u64, i64)> = (0..100).map(|n| (n, 0)).collect();
    let rows = || snapshot.range(&table, ..).unwrap();
    assert_eq!(rows().collect::<Result<Vec<_>>>().unwrap(), then);
    let backwards: Vec<_> = then.iter().rev().copied().collect();
    assert_eq!(rows().rev().collect::<Result<Vec<_>>>().unwrap(), backwards);
    assert_eq!(snapshot.get(&table, 3).unwrap(), Some(0));
    assert_eq!(snapshot.get(&table, 1000).unwrap(), None);
    drop(snapshot);
    assert_eq!(all(&db, &table).len(), 100);
    assert_eq!(all(&db, &table)[1..4], [(1, 1), (2, 2), (4, 0)]);
}

#[test]
fn a_transaction_sees_its_own_changes_and_none_after_its_first_read() {
    let (_dir, db, table) = opened("own-changes");
    let (a, b) = (db.begin(), db.begin());
    assert_eq!(a.get(&table, 1).unwrap(), None);
    b.put(&table, 1, 1).unwrap();
    assert_eq!(b.get(&table, 1).unwrap(), Some(1));
    b.commit().unwrap();
    assert_eq!(a.get(&table, 1).unwrap(), None);
    // What is read for update is the newest.
    assert_eq!(a.get_for_update(&table, 1).unwrap(), Some(1));
    a.commit().unwrap();
}

#[test]
fn a_range_can_be_read_from_both_ends_and_with_other_calls_in_between() {
    let (_dir, db, table) = opened("both-ends");
    db.transact(|t| (0..1000).try_for_each(|n| t.insert(&table, n, n as i64))).unwrap();
    let t = db.begin();
    let mut rows = t.range(&table, 10..=600).unwrap();
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for n in 0.. {
        let row = if n % 3 == 0 { rows.next_back() } else { rows.next() };
        let Some(row) = row else { break };
        let (key, value) = row.unwrap();
        assert_eq!(t.get(&table, key).unwrap(), Some(value));
        if n % 3 == 0 { back.push(key) } else { front.push(key) }
    }
    assert!(rows.next().is_none() && rows.next_back().is_none());
    front.extend(back.iter().rev());
    assert_eq!(front, (10..=600).collect::<Vec<_>>());
    // The end of the range may be where there is no row, or before its beginning.
    let count = |range: std::ops::Range<u64>| t.range(&table, range).unwrap().count();
    #[allow(clippy::reversed_empty_ranges)]
    let counts = (count(995..2000), count(2000..3000), count(7..7), count(9..3));
    assert_eq!(counts, (5, 0, 0, 0));
    t.range(&table, 5..8).unwrap().for_each(|row| t.put(&table, row.unwrap().0, -1).unwrap());
    t.commit().unwrap();
    assert_eq!(all(&db, &table)[4..9].iter().map(|row| row.1).sum::<i64>(), 4 - 3 + 8);
}

#[test]
fn savepoints_are_rolled_back_to_one_within_the_other() {
    let (_dir, db, table) = opened("savepoints");
    let t = db.begin();
    let at_start = t.savepoint();
    t.put(&table, 1, 1).unwrap();
    let first = t.savepoint();
    t.put(&table, 1, 2).unwrap();
    t.put(&table, 2, 2).unwrap();
    let second = t.savepoint();
    t.remove(&table, 1).unwrap();
    t.rollback_to(second).unwrap();
    assert_eq!(t.get(&table, 1).unwrap(), Some(2));
    t.put(&table, 3, 3).unwrap();
    t.rollback_to(first).unwrap();
    assert_eq!(t.range(&table, ..).unwrap().count(), 1);
    // The later one is gone, the earlier ones can be used again, and are of this transaction.
    assert!(matches!(t.rollback_to(second), Err(Error::NoSuchSavepoint)));
    t.put(&table, 4, 4).unwrap();
    t.rollback_to(first).unwrap();
    assert!(matches!(db.begin().rollback_to(first), Err(Error::NoSuchSavepoint)));
    t.put(&table, 5, 5).unwrap();
    t.commit().unwrap();
    assert_eq!(all(&db, &table), [(1, 1), (5, 5)]);
    let t = db.begin();
    let at_its_start = t.savepoint();
    assert_ne!(at_its_start, at_start);
    t.remove(&table, 1).unwrap();
    t.rollback_to(at_its_start).unwrap();
    t.commit().unwrap();
    assert_eq!(all(&db, &table), [(1, 1), (5, 5)]);
}

#[test]
fn a_transaction_that_is_dropped_or_rolled_back_has_done_nothing() {
    let (_dir, db, table) = opened("dropped");
    db.transact(|t| t.put(&table, 1, 1)).unwrap();
    for drops in [true, false] {
        let t = db.begin();
        t.put(&table, 1, 2).unwrap();
        (100..400).for_each(|n| t.put(&table, n, 2).unwrap());
        if drops {
            drop(t)
        } else {
            t.rollback().unwrap()
        }
        // Who wants its rows waits until they are as they were.
        let t = db.begin();
        assert_eq!(t.get_for_update(&table, 1).unwrap(), Some(1));
        (100..400).for_each(|n| assert_eq!(t.get_for_update(&table, n).unwrap(), None));
        t.commit().unwrap();
    }
    assert_eq!(all(&db, &table), [(1, 1)]);
}

/// Polls a future once, which must not be the last time, and drops it.
fn give_up<T>(future: impl Future<Output = T>) {
    let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending));
}

#[tokio::test]
async fn a_change_that_is_dropped_half_way_cannot_be_committed() {
    let dir = Dir::new("half-way");
    let db = asynchronous::Database::from(dir.open());
    let table = db.table(NUMBERS).await.unwrap();
    let mut other = db.begin();
    other.put(&table, 1, 1).await.unwrap();

    let mut t = db.begin();
    t.put(&table, 2, 2).await.unwrap();
    let before = t.savepoint();
    give_up(t.put(&table, 1, 2));
    assert!(matches!(t.put(&table, 3, 3).await, Err(Error::Interrupted)));
    assert!(matches!(t.commit().await, Err(Error::Interrupted)));

    let mut t = db.begin();
    t.put(&table, 2, 3).await.unwrap();
    assert!(matches!(t.rollback_to(before).await, Err(Error::NoSuchSavepoint)));
    let before = t.savepoint();
    give_up(t.put(&table, 1, 2));
    t.rollback_to(before).await.unwrap();
    t.commit().await.unwrap();
    other.commit().await.unwrap();
    assert_eq!(all(&db.into(), &table), [(1, 1), (2, 3)]);
}

/// A savepoint taken behind a change that is half done does not make it whole.
#[tokio::test]
async fn a_savepoint_behind_half_a_change_mends_nothing() {
    let dir = Dir::new("behind-half");
    let db = asynchronous::Database::from(dir.open());
    let table = db.table(NUMBERS).await.unwrap();
    let mut other = db.begin();
    other.put(&table, 1, 1).await.unwrap();

    let mut t = db.begin();
    let before = t.savepoint();
    t.put(&table, 2, 2).await.unwrap();
    give_up(t.put(&table, 1, 2));
    let behind = t.savepoint();
    assert!(matches!(t.put(&table, 3, 3).await, Err(Error::Interrupted)));
    assert!(matches!(t.rollback_to(behind).await, Err(Error::Interrupted)));
    assert!(matches!(t.put(&table, 3, 3).await, Err(Error::Interrupted)));
    t.rollback_to(before).await.unwrap();
    t.put(&table, 4, 4).await.unwrap();
    t.commit().await.unwrap();
    other.commit().await.unwrap();
    assert_eq!(all(&db.into(), &table), [(1, 1), (4, 4)]);
}

/// A rollback to a savepoint that was dropped half way can be called again, and then the
/// transaction goes on.
#[tokio::test]
async fn a_rollback_that_is_dropped_half_way_can_be_finished() {
    let dir = Dir::new("half-rollback");
    let db = asynchronous::Database::from(dir.open());
    let table = db.table(NUMBERS).await.unwrap();
    let mut t = db.begin();
    t.put(&table, 1, 1).await.unwrap();
    let (first, mut dropped) = (t.savepoint(), 0);
    for n in 0..20_000 {
        t.insert(&table, 10 + n, 0).await.unwrap();
    }
    for _ in 0..3 {
        let polled = pin!(t.rollback_to(first)).poll(&mut Context::from_waker(Waker::noop()));
        dropped += usize::from(polled.is_pending());
    }
    assert!(dropped > 0, "the rollback was done at once");
    t.rollback_to(first).await.unwrap();
    t.put(&table, 2, 2).await.unwrap();
    t.commit().await.unwrap();
    assert_eq!(all(&db.into(), &table), [(1, 1), (2, 2)]);
}

/// A range whose calls are dropped gives each row once, in order.
#[test]
fn a_dropped_call_of_a_range_has_read_nothing() {
    const TEXTS: TableDefinition<u64, Vec<u8>> = TableDefinition::new("texts");
    const ROWS: u64 = 60;
    let dir = Dir::new("dropped-reads");
    let db = dir.open();
    let table = db.table(TEXTS).unwrap();
    db.transact(|t| {
        (0..ROWS).try_for_each(|n| t.put(&table, n, &vec![n as u8; 100_000 + n as usize]))
    })
    .unwrap();
    db.close().unwrap();
    // Nothing is in memory now.
    let db = asynchronous::Database::from(dir.open());
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let table = db.table(TEXTS).await.unwrap();
        let mut t = db.begin();
        let mut rows = t.range(&table, ..).unwrap();
        let (mut low, mut high, mut dropped) = (0, ROWS, 0);
        while low < high {
            let backward = (low + high) % 3 == 0;
            let mut cx = Context::from_waker(Waker::noop());
            let polled = match backward {
                true => pin!(rows.next_back(&mut t)).poll(&mut cx),
                false => pin!(rows.next(&mut t)).poll(&mut cx),
            };
            let Poll::Ready(row) = polled else {
                dropped += 1;
                continue;
            };
            let (key, value) = row.unwrap().expect("a row");
            high -= u64::from(backward);
            assert_eq!(key, if backward { high } else { low });
            low += u64::from(!backward);
            assert_eq!(value, vec![key as u8; 100_000 + key as usize]);
        }
        assert!(dropped > 0, "all was in memory");
        assert_eq!(rows.next(&mut t).await.unwrap(), None);
    });
}

/// A transaction that finds all it needs in memory gives the executor's other tasks their turn.
#[tokio::test]
async fn long_work_lets_other_tasks_run() {
    let dir = Dir::new("long-work");
    let db = asynchronous::Database::from(dir.open());
    let table = db.table(NUMBERS).await.unwrap();
    let turns = Arc::new(AtomicU64::new(0));
    let counting = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            counting.fetch_add(1, Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let mut t = db.begin();
    for n in 0..20_000 {
        t.insert(&table, n, 0).await.unwrap();
    }
    let while_inserting = turns.swap(0, Relaxed);
    let mut rows = t.range(&table, ..).unwrap();
    for _ in 0..5 {
        while rows.next(&mut t).await.unwrap().is_some() {}
        rows = t.range(&table, ..).unwrap();
    }
    let while_reading = turns.load(Relaxed);
    other.abort();
    assert!(while_inserting > 0 && while_reading > 0, "{while_inserting} {while_reading}");
}

/// Also who finds no row for update has it to itself: nobody inserts it in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_an_executor_write_at_the_same_time() {
    let dir = Dir::new("tasks");
    let db = asynchronous::Database::from(dir.open());
    let table = db.table(NUMBERS).await.unwrap();
    let tasks: Vec<_> = (0..32u64)
        .map(|n| {
            let (db, table) = (db.clone(), table.clone());
            tokio::spawn(async move {
                for round in 0..5 {
                    let mut t = db.begin();
                    t.insert(&table, 100 * n + round, 1).await?;
                    let sum = t.get_for_update(&table, 99_999).await?.unwrap_or_default();
                    tokio::task::yield_now().await;
                    t.put(&table, 99_999, sum + 1).await?;
                    t.commit().await?;
                }
                let (mut snapshot, mut own) = (db.snapshot(), 0);
                let mut rows = snapshot.range(&table, 100 * n..100 * n + 100)?;
                while rows.next(&mut snapshot).await?.is_some() {
                    own += 1;
                }
                assert_eq!(own, 5);
                Ok::<_, Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let rows = all(&db.into(), &table);
    assert_eq!(rows.len(), 161);
    assert_eq!(rows[160], (99_999, 160));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_run_again_after_deadlocks() {
    let dir = Dir::new("tasks-retry");
    let db = asynchronous::Database::from(dir.open());
    let table = db.table(NUMBERS).await.unwrap();
    let meeting = Arc::new(tokio::sync::Barrier::new(8));
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (db, table, meeting) = (db.clone(), table.clone(), meeting.clone());
            tokio::spawn(async move {
                let (mut runs, table, meeting) = (0, &table, &meeting);
                // Each has a row that the next one wants.
                let work = |mut t: asynchronous::Transaction| {
                    runs += 1;
                    let first = runs == 1;
                    async move {
                        t.put(table, n, 1).await?;
                        if first {
                            meeting.wait().await;
                        }
                        t.put(table, (n + 1) % 8, 1).await?;
                        t.commit().await
                    }
                };
                db.retry_deadlocks(work).await.map(|()| runs)
            })
        })
        .collect();
    let mut runs = 0;
    for task in tasks {
        runs += task.await.unwrap().unwrap();
    }
    assert!(runs > 8, "{runs}");
    assert_eq!(all(&db.into(), &table).len(), 8);
}

#[test]
fn threads_share_a_transaction() {
    let (_dir, db, table) = opened("shared");
    let t = db.begin();
    let (send, receive) = channel();
    thread::scope(|s| {
        for n in 0..4 {
            let (t, table, send) = (&t, &table, send.clone());
            s.spawn(move || {
                (0..50).for_each(|m| t.insert(table, 50 * n + m, 0).unwrap());
                send.send(n).unwrap();
            });
        }
    });
    assert_eq!(receive.try_iter().count(), 4);
    t.commit().unwrap();
    assert_eq!(all(&db, &table).len(), 200);
}
