//! Purge takes everything that is obsolete, once, also when something stops it; and what rollbacks
//! and definitions leave to it.

use crate::common::Dir;
use crate::common::filling::Filling;
use crate::common::tables::*;
use redolith_engine::dict::index_build::Building;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::testing::btree::Seek;
use redolith_engine::testing::mtr::MAX_FRAME;
use redolith_engine::testing::page::index;
use redolith_engine::testing::undo;
use redolith_engine::{Config, Engine, Error, Isolation, PAGE_SIZE};
use redolith_types::{IndexDef, LobSize, SqlType, Value};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// A table with a column that is longer than a page.
async fn long_table(e: &Arc<Engine>) -> Arc<Table> {
    create(e, "long", vec![("c", SqlType::Blob { size: LobSize::Long })], vec![]).await
}
fn long_row(t: &Table, id: i64, c: u8) -> Vec<u8> {
    encoded(t, &[Value::Int(id), Value::Bytes(Cow::Owned(vec![c; 36_000]))])
}

/// A transaction that comes back to an undo page has several parts of its log in it; each is
/// purged, once.
#[test]
fn purge_finds_every_part_of_a_log() {
    const ROWS: i64 = 40;
    let dir = Dir::new("purge-parts");
    let (e, _) = open(&dir);
    block_on(async {
        let t = create(&e, "wide", vec![("c", text(7000))], vec![]).await;
        // What differs from the row before it is what its undo record has.
        let row = |id: i64, c: u8, differs: usize| {
            let mut text = vec![b'.'; 7000];
            text[..differs].fill(c);
            encoded(&t, &[Value::Int(id), Value::Bytes(Cow::Owned(text))])
        };
        let mut trx = e.begin(KillFlag::new());
        for id in 0..ROWS {
            trx.insert(&t, &row(id, b'.', 0)).await.unwrap();
        }
        commit(&mut trx).await;
        purged(&e).await;
        e.history.stop();
        let counted = || e.history.counts.changes.load(SeqCst);
        let (before, mut expected) = (counted(), 0);
        // What is too long for the rest of a page goes to the next one; what is short comes back to
        // the one before. Then all rows go.
        let sizes = [6900, 6900, 6900, 6900, 6900, 6900, 1500, 1500];
        for last in [false, true] {
            for (id, differs) in (0..ROWS).zip(sizes.into_iter().cycle()) {
                let at = locked(&mut trx, &t, id).await.unwrap();
                if last {
                    trx.delete(&t, at.row()).await.unwrap();
                } else {
                    trx.update(&t, at.row(), &row(id, b'x', differs)).await.unwrap();
                }
                expected += 1;
            }
        }
        commit(&mut trx).await;
        let removed = e.history.counts.removed.load(SeqCst);
        e.history.resume();
        purged(&e).await;
        assert_eq!(
            (counted() - before, e.history.counts.removed.load(SeqCst) - removed),
            (expected, ROWS as u64)
        );
        let c = e.check_table(&t).await.unwrap();
        assert_eq!((c.errors, c.notes, c.rows), (vec![], vec![], 0));
        drop(trx);
        e.close().await.unwrap();
    });
}

/// A queue or a log loses its rows from left to right, and each of its leaves stands beside a full
/// right neighbour when it becomes empty.
#[test]
fn leaves_that_are_emptied_from_left_to_right_go() {
    const ROWS: i64 = 4000;
    let dir = Dir::new("purge-ascending");
    let (e, _) = open(&dir);
    block_on(async {
        let t = create(&e, "queue", vec![("c", text(400))], vec![]).await;
        let leaves = || {
            let tree = &t.indexes[0].tree;
            let Ok(mut leaf) = tree.leaf(&e.store, Seek::Key(b"")) else {
                panic!("it is in memory")
            };
            let mut count = 1;
            loop {
                match tree.right_of(&e.store, &leaf) {
                    Ok(Some(next)) => (leaf, count) = (next, count + 1),
                    Ok(None) => return count,
                    Err(_) => panic!("it is in memory"),
                }
            }
        };
        let mut trx = e.begin(KillFlag::new());
        let long: Cow<'_, [u8]> = Cow::Owned(vec![b'.'; 400]);
        for id in 0..ROWS {
            let row = encoded(&t, &[Value::Int(id), Value::Bytes(long.clone())]);
            trx.insert(&t, &row).await.unwrap();
        }
        commit(&mut trx).await;
        assert!(leaves() > 100);
        for id in 0..ROWS - 1 {
            let at = locked(&mut trx, &t, id).await.unwrap();
            trx.delete(&t, at.row()).await.unwrap();
            if id % 50 == 0 {
                commit(&mut trx).await;
            }
        }
        commit(&mut trx).await;
        clean(&e, &t, 1).await;
        assert!(leaves() < 10, "{} leaves for one row", leaves());
        drop(trx);
        e.close().await.unwrap();
    });
}

/// Transactions get their ids when they first write, and commit in another order: the one that
/// makes a long column obsolete may have the lower id.
/// Tests PURGE-4.
#[test]
fn long_columns_of_later_transactions_are_purged_too() {
    let dir = Dir::new("purge-later");
    let (e, _) = open(&dir);
    block_on(async {
        let t = long_table(&e).await;
        let (mut first, mut second) = (e.begin(KillFlag::new()), e.begin(KillFlag::new()));
        first.insert(&t, &long_row(&t, 1, b'a')).await.unwrap();
        second.insert(&t, &long_row(&t, 2, b'b')).await.unwrap();
        commit(&mut second).await;
        for id in [1, 2] {
            let at = locked(&mut first, &t, id).await.unwrap();
            first.delete(&t, at.row()).await.unwrap();
        }
        commit(&mut first).await;
        clean(&e, &t, 0).await;
        drop((first, second));
        e.close().await.unwrap();
    });
}

/// What READ UNCOMMITTED finds of a row with long columns is committed, and their pages stay until
/// it has read them.
#[test]
fn long_columns_are_kept_for_dirty_readers_too() {
    let dir = Dir::new("dirty-long");
    let (e, _) = open(&dir);
    block_on(async {
        let t = long_table(&e).await;
        let (mut writer, mut reader) = (e.begin(KillFlag::new()), e.begin(KillFlag::new()));
        reader.isolation = Isolation::ReadUncommitted;
        for id in 0..3 {
            writer.insert(&t, &long_row(&t, id, b'a')).await.unwrap();
        }
        commit(&mut writer).await;
        purged(&e).await;
        let at = locked(&mut writer, &t, 2).await.unwrap();
        writer.update(&t, at.row(), &long_row(&t, 2, b'c')).await.unwrap();
        let mut other = e.begin(KillFlag::new());
        let mut c = Cursor::new(t.clone(), 0, Vec::new(), None, false, Read::Consistent);
        for id in 0..3 {
            assert!(c.next(&mut reader).await.unwrap());
            let row = locked(&mut other, &t, 1).await.unwrap();
            other.update(&t, row.row(), &long_row(&t, 1, b'b')).await.unwrap();
            commit(&mut other).await;
            for _ in 0..20 {
                e.runtime.sleep(Duration::from_millis(5)).await;
            }
            assert!(c.payload(&reader).await.unwrap() == long_row(&t, id, b'a'), "row {id}");
        }
        commit(&mut reader).await;
        commit(&mut writer).await;
        clean(&e, &t, 3).await;
        drop((at, writer, reader, other));
        e.close().await.unwrap();
    });
}

/// The undo record of a deletion names each long column: a row with more of them than it has room
/// for could never go.
#[test]
fn a_row_that_could_not_be_deleted_does_not_come_in() {
    let dir = Dir::new("undeletable");
    let (e, _) = open(&dir);
    block_on(async {
        let names: Vec<String> = (0..400).map(|n| format!("c{n}")).collect();
        let t = create(&e, "many", names.iter().map(|n| (n.as_str(), text(200))).collect(), vec![])
            .await;
        let row = |id: i64, len: usize| {
            let c = vec![b'x'; len];
            let values: Vec<Value> = [Value::Int(id)]
                .into_iter()
                .chain(names.iter().map(|_| Value::Bytes(Cow::Borrowed(&c[..]))))
                .collect();
            encoded(&t, &values)
        };
        let mut trx = e.begin(KillFlag::new());
        assert!(matches!(trx.insert(&t, &row(1, 100)).await, Err(Error::RowTooLarge { .. })));
        trx.insert(&t, &row(2, 15)).await.unwrap();
        let at = locked(&mut trx, &t, 2).await.unwrap();
        assert!(matches!(
            trx.update(&t, at.row(), &row(2, 100)).await,
            Err(Error::RowTooLarge { .. })
        ));
        let at = locked(&mut trx, &t, 2).await.unwrap();
        trx.delete(&t, at.row()).await.unwrap();
        commit(&mut trx).await;
        clean(&e, &t, 0).await;
        drop((at, trx));
        e.close().await.unwrap();
    });
}

/// Undo names indexes by their numbers; those change when one is dropped, and purge finds what it
/// made obsolete all the same.
#[test]
fn entries_are_purged_from_indexes_that_have_other_numbers_now() {
    for restart in [false, true] {
        let dir = Dir::new("purge-numbers");
        let (mut e, _) = open(&dir);
        let indexes =
            vec![IndexDef::secondary("a", false, [1]), IndexDef::secondary("b", false, [2])];
        block_on(async {
            let t = create(&e, "two", vec![("a", int()), ("b", int())], indexes).await;
            let row =
                |id: i64, n: i64| encoded(&t, &[Value::Int(id), Value::Int(n), Value::Int(n)]);
            let mut trx = e.begin(KillFlag::new());
            for id in 0..10 {
                trx.insert(&t, &row(id, id)).await.unwrap();
            }
            commit(&mut trx).await;
            purged(&e).await;
            e.history.stop();
            for id in 0..10 {
                let at = locked(&mut trx, &t, id).await.unwrap();
                if id < 5 {
                    trx.delete(&t, at.row()).await.unwrap()
                } else {
                    trx.update(&t, at.row(), &row(id, id + 100)).await.unwrap()
                }
            }
            commit(&mut trx).await;
            drop(trx);
            let t = e.drop_indexes(&t, &[1]).await.unwrap();
            assert_eq!(
                (entries(&e, &t), e.history.len()),
                (15, 3),
                "with the marked ones; the definition's own two changes"
            );
            if restart {
                e.close().await.unwrap();
            }
        });
        if restart {
            drop(e);
            e = open(&dir).0;
        }
        block_on(async {
            e.history.resume();
            purged(&e).await;
            let t = e.table("test", "two").await.unwrap().unwrap();
            let c = e.check_table(&t).await.unwrap();
            assert_eq!((c.errors, c.rows, entries(&e, &t)), (vec![], 5, 5));
            e.close().await.unwrap();
        });
    }
}
/// Entries of the first secondary index, which has one page.
fn entries(e: &Arc<Engine>, t: &Arc<Table>) -> usize {
    let Ok(leaf) = t.indexes[1].tree.leaf(&e.store, Seek::Key(b"")) else {
        panic!("it is in memory")
    };
    index::n_recs(&leaf).into()
}

/// PURGE-6: the log's reserve is for rollbacks.
#[test]
fn purge_leaves_the_reserve_of_the_log_alone() {
    let dir = Dir::new("purge-reserve");
    // What is scarce is the files' capacity, not the buffer.
    let (e, _) =
        open_with(&dir, |c| (c.log_capacity_bytes, c.log_buffer_bytes) = (4 << 20, 16 << 20));
    block_on(async {
        let t =
            create(&e, "t", vec![("k", int())], vec![IndexDef::secondary("k", false, [1])]).await;
        let row = |id: i64, k: i64| encoded(&t, &[Value::Int(id), Value::Int(k)]);
        let mut trx = e.begin(KillFlag::new());
        for id in 0..20 {
            trx.insert(&t, &row(id, 0)).await.unwrap();
        }
        commit(&mut trx).await;
        purged(&e).await;
        e.history.stop();
        // The first ten are committed.
        for id in 0..20 {
            let at = locked(&mut trx, &t, id).await.unwrap();
            trx.update(&t, at.row(), &row(id, 1)).await.unwrap();
            if id == 9 {
                commit(&mut trx).await;
            }
        }
        let held = hold_all_room(&e, false).await;
        // Others write a little meanwhile, such as the stamps of files.
        let purged = || e.history.purged.load(std::sync::atomic::Ordering::Acquire);
        let before = purged();
        e.history.resume();
        for _ in 0..40 {
            e.runtime.sleep(Duration::from_millis(5)).await;
        }
        assert_eq!((e.history.len(), purged()), (1, before), "purge waits");
        let tail = e.store.log.tail();
        trx.rollback().await.unwrap();
        assert!(e.store.log.tail() > tail && e.history.len() == 1, "a rollback does not");
        drop(held);
        clean(&e, &t, 20).await;
        drop(trx);
        e.close().await.unwrap();
    });
}

/// Changes a byte of a page in a table's file.
#[allow(clippy::disallowed_methods)] // behind the engine's back
fn damage(dir: &Dir, space: u32, page: u32) {
    let file = dir.0.join(format!("tables/{space}.rdl"));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[page as usize * PAGE_SIZE + 5000] ^= 0x55;
    std::fs::write(&file, bytes).unwrap();
}

/// The marked entries of one unique key, which an old read view keeps, fill many leaves: a row with
/// the key goes in, after turns of others, and a second one does not.
#[test]
fn a_unique_key_has_many_marked_entries() {
    const ROWS: i64 = 6000;
    let dir = Dir::new("unique-marked");
    let (e, _) = open(&dir);
    let row = |t: &Table, id: i64| {
        let c = Cow::Owned(vec![b'c'; 700]);
        encoded(t, &[Value::Int(id), Value::Bytes(c)])
    };
    block_on(async {
        let t = create(&e, "u", vec![("c", text(1000))], vec![IndexDef::secondary("c", true, [1])])
            .await;
        let mut old = e.begin(KillFlag::new());
        old.open_view();
        let mut trx = e.begin(KillFlag::new());
        for id in 0..ROWS {
            trx.insert(&t, &row(&t, id)).await.unwrap();
            let at = locked(&mut trx, &t, id).await.unwrap();
            trx.delete(&t, at.row()).await.unwrap();
            drop(at);
        }
        trx.insert(&t, &row(&t, ROWS)).await.unwrap();
        commit(&mut trx).await;
        let taken = trx.insert(&t, &row(&t, ROWS + 1)).await;
        assert!(matches!(taken, Err(Error::DuplicateKey { index_no: 1, .. })), "{taken:?}");
        old.rollback().await.unwrap();
        drop((old, trx));
        e.close().await.unwrap();
    });
}

/// TRX-C at start: a rollback that a damaged page stops goes on in the background, and nobody takes
/// a unique key that it may bring back.
#[test]
fn a_unique_key_is_not_free_before_the_rollback_of_a_start_is_done() {
    const ROWS: i64 = 100;
    let dir = Dir::new("unique-recovered");
    let (e, _) = open(&dir);
    let row = |t: &Table, id: i64, k: i64| {
        encoded(t, &[Value::Int(id), Value::Int(k), Value::Bytes(Cow::Owned(vec![b'c'; 900]))])
    };
    let (space, page) = block_on(async {
        let t = create(
            &e,
            "u",
            vec![("k", int()), ("c", text(1000))],
            vec![IndexDef::secondary("k", true, [1])],
        )
        .await;
        let mut trx = e.begin(KillFlag::new());
        for id in 0..ROWS {
            trx.insert(&t, &row(&t, id, id)).await.unwrap();
        }
        commit(&mut trx).await;
        let at = locked(&mut trx, &t, 1).await.unwrap();
        trx.update(&t, at.row(), &row(&t, 1, 1000)).await.unwrap();
        let at = locked(&mut trx, &t, ROWS / 2).await.unwrap();
        trx.update(&t, at.row(), &row(&t, ROWS / 2, 1001)).await.unwrap();
        let page = at.row().leaf.0;
        drop(at);
        std::mem::forget(trx); // unfinished when the process ends
        e.close().await.unwrap();
        (t.space.0, page)
    });
    drop(e);
    damage(&dir, space, page);
    let (e, _) = open(&dir);
    block_on(async {
        let t = e.table("test", "u").await.unwrap().unwrap();
        assert_eq!(undo::background_rollbacks(&e), 1);
        let mut trx = e.begin(KillFlag::new());
        trx.lock_wait_timeout = Duration::from_millis(50);
        let taken = trx.insert(&t, &row(&t, 5000, 1)).await;
        assert!(matches!(taken, Err(Error::LockWaitTimeout)), "{taken:?}");
        // Nor is a key taken that it has.
        let new = trx.insert(&t, &row(&t, 5000, 1000)).await;
        assert!(matches!(new, Err(Error::LockWaitTimeout)), "{new:?}");
        trx.insert(&t, &row(&t, 5000, 5000)).await.unwrap();
        trx.rollback().await.unwrap();
    });
}

/// An index with a damaged page can be dropped, and the engine starts afterwards.
#[test]
fn an_index_with_a_damaged_page_can_be_dropped() {
    let dir = Dir::new("drop-damaged");
    let (e, _) = open(&dir);
    let (space, page) = block_on(async {
        let t =
            create(&e, "t", vec![("c", text(1000))], vec![IndexDef::secondary("c", false, [1])])
                .await;
        let mut trx = e.begin(KillFlag::new());
        for id in 0..100 {
            let c = vec![b'a' + (id % 26) as u8; 900];
            trx.insert(&t, &encoded(&t, &[Value::Int(id), Value::Bytes(Cow::Owned(c))]))
                .await
                .unwrap();
        }
        commit(&mut trx).await;
        drop(trx);
        let Ok(leaf) = t.indexes[1].tree.leaf(&e.store, Seek::Key(b"m")) else {
            panic!("it is in memory")
        };
        let page = leaf.id().no;
        drop(leaf);
        assert_ne!(page, t.indexes[1].tree.root);
        e.close().await.unwrap();
        (t.space.0, page)
    });
    drop(e);
    damage(&dir, space, page);
    for dropped in [false, true] {
        let (e, _) = open(&dir);
        block_on(async {
            let t = e.table("test", "t").await.unwrap().unwrap();
            if !dropped {
                assert_eq!(e.check_table(&t).await.unwrap().errors.len(), 1);
                assert_eq!(e.drop_indexes(&t, &[1]).await.unwrap().indexes.len(), 1);
            } else {
                let c = e.check_table(&t).await.unwrap();
                assert_eq!(
                    (c.errors, c.notes.len(), c.rows),
                    (vec![], 1, 100),
                    "pages of the index are in use"
                );
            }
            e.close().await.unwrap();
        });
    }
}

/// PURGE-5: on a full disk the log cannot grow, and purge stops where it is: at its first change,
/// between two of them, or while it frees long columns.
#[test]
fn a_purge_that_the_full_disk_stopped_goes_on_when_there_is_room() {
    [0, 100, 300, 600, 1000, 2000].into_iter().for_each(purge_is_stopped_after);
}
/// `spare`: how many bytes purge may write before.
fn purge_is_stopped_after(spare: usize) {
    const ROWS: i64 = 6;
    const SEGMENT: u64 = 4 << 20;
    let dir = Dir::new(&format!("purge-full-{spare}"));
    let full = Arc::new(AtomicBool::new(false));
    let disk = Filling::new(&full);
    let mut c = Config::new(&dir.0);
    // The buffer takes more than the files that there are, so that those are what is scarce.
    (c.pool_bytes, c.log_segment_bytes, c.log_capacity_bytes, c.log_buffer_bytes) =
        (8 << 20, SEGMENT, 16 * SEGMENT, 32 << 20);
    let (e, _) = block_on(Engine::open(c, disk.clone(), Threads::new(disk))).unwrap();
    block_on(async {
        let t = long_table(&e).await;
        let log = &e.store.log;
        let mut trx = e.begin(KillFlag::new());
        for id in 0..ROWS {
            trx.insert(&t, &long_row(&t, id, b'a')).await.unwrap();
        }
        commit(&mut trx).await;
        purged(&e).await;
        e.history.stop();
        for (n, c) in [(0, Some(b'b')), (1, None)] {
            for id in 0..ROWS {
                let row = locked(&mut trx, &t, id).await.unwrap();
                match c {
                    Some(c) => trx.update(&t, row.row(), &long_row(&t, id, c)).await.unwrap(),
                    None => trx.delete(&t, row.row()).await.unwrap(),
                }
            }
            commit(&mut trx).await;
            assert_eq!(e.history.len(), n + 1);
        }
        let retries = || e.history.counts.retries.load(SeqCst);
        let before = (retries(), e.history.purged.load(SeqCst));
        assert!(log.tail().0 < SEGMENT, "no segment is below the checkpoint, to be used again");
        full.store(true, SeqCst);
        // What was being made of the log's files is made, and no more can be.
        let mut held = Vec::new();
        while held.is_empty() || log.wait_space(64 << 10).await.is_ok() {
            held.extend(hold_room(log, false, 0));
        }
        drop(held);
        let held = hold_room(log, false, MAX_FRAME + spare);
        e.history.resume();
        while retries() < before.0 + 3 {
            assert!(!e.history.is_empty(), "the log has found room on a full disk");
            e.runtime.sleep(Duration::from_millis(5)).await;
        }
        assert!(
            !e.history.is_empty()
                && e.history.len() + e.history.purged.load(SeqCst) - before.1 == 2,
            "none is passed over"
        );
        full.store(false, SeqCst);
        purged(&e).await;
        drop(held);
        let c = e.check_table(&t).await.unwrap();
        assert_eq!((c.errors, c.notes, c.rows), (vec![], vec![], 0), "nothing is left");
        drop(trx);
        e.close().await.unwrap();
    });
}

/// A deleted row may be older than an index, with a column that no key can be made of: one that
/// takes its place can be taken back.
/// Tests PURGE-3.
#[test]
fn a_row_is_taken_back_over_a_deleted_one_that_is_older_than_the_index() {
    let dir = Dir::new("purge-older");
    let (e, _) = open(&dir);
    block_on(async {
        let t = long_table(&e).await;
        let mut trx = e.begin(KillFlag::new());
        trx.insert(&t, &long_row(&t, 1, b'a')).await.unwrap();
        commit(&mut trx).await;
        purged(&e).await;
        e.history.stop();
        let at = locked(&mut trx, &t, 1).await.unwrap();
        trx.delete(&t, at.row()).await.unwrap();
        commit(&mut trx).await;
        drop(at);
        let mut by_prefix = IndexDef::secondary("c", false, [1]);
        by_prefix.columns[0].prefix = Some(10);
        let t = e
            .create_indexes(&t, vec![by_prefix], &Building::in_memory(KillFlag::new()))
            .await
            .unwrap();
        let short = encoded(&t, &[Value::Int(1), Value::Bytes(Cow::Borrowed(b"short"))]);
        trx.insert(&t, &short).await.unwrap();
        trx.rollback().await.unwrap();
        sound(&e, &t, 0).await;
        let mut trx = e.begin(KillFlag::new());
        trx.insert(&t, &short).await.unwrap();
        commit(&mut trx).await;
        e.history.resume();
        clean(&e, &t, 1).await;
        drop(trx);
        e.close().await.unwrap();
    });
}

/// PURGE-7: a definition does not wait for the end of a long log, and the rest of that is purged
/// afterwards.
#[test]
fn purge_leaves_a_long_log_to_a_definition_and_goes_on_with_it() {
    const ROWS: i64 = 50_000;
    let dir = Dir::new("purge-leaves");
    let (e, _) = open(&dir);
    block_on(async {
        let t =
            create(&e, "t", vec![("k", int())], vec![IndexDef::secondary("k", false, [1])]).await;
        let other =
            create(&e, "other", vec![("k", int())], vec![IndexDef::secondary("k", false, [1])])
                .await;
        let mut trx = e.begin(KillFlag::new());
        for id in 0..ROWS {
            trx.insert(&t, &encoded(&t, &[Value::Int(id), Value::Int(id % 100)])).await.unwrap();
        }
        commit(&mut trx).await;
        purged(&e).await;
        e.history.stop();
        let mut rows = Cursor::new(
            t.clone(),
            0,
            Vec::new(),
            None,
            false,
            Read::Locking { mode: Mode::X, conflict: OnConflict::Wait },
        );
        while rows.next(&mut trx).await.unwrap() {
            trx.delete(&t, rows.row()).await.unwrap();
        }
        commit(&mut trx).await;
        drop(rows);
        let before = e.history.counts.removed.load(SeqCst);
        let removed = || e.history.counts.removed.load(SeqCst) - before;
        e.history.resume();
        while removed() == 0 {
            e.runtime.sleep(Duration::from_millis(1)).await;
        }
        e.drop_indexes(&other, &[1]).await.unwrap();
        let then = removed();
        assert!(then < ROWS as u64, "it waited for the whole log");
        clean(&e, &t, 0).await;
        assert_eq!(removed(), ROWS as u64);
        drop(trx);
        e.close().await.unwrap();
    });
}

/// VERS-1: a row's older versions may be on more undo pages than the pool holds.
#[test]
fn versions_on_more_pages_than_the_pool_has() {
    const VERSIONS: i64 = 700;
    let dir = Dir::new("purge-versions");
    let (e, _) = open_with(&dir, |c| c.pool_bytes = 5 << 20);
    block_on(async {
        let t = create(
            &e,
            "t",
            vec![("k", int()), ("c", text(7000))],
            vec![IndexDef::secondary("k", false, [1])],
        )
        .await;
        let row = |n: i64| {
            encoded(
                &t,
                &[
                    Value::Int(1),
                    Value::Int(n),
                    Value::Bytes(Cow::Owned(vec![b'a' + (n % 26) as u8; 7000])),
                ],
            )
        };
        let (mut reader, mut writer) = (e.begin(KillFlag::new()), e.begin(KillFlag::new()));
        writer.insert(&t, &row(0)).await.unwrap();
        commit(&mut writer).await;
        let whole = || Cursor::new(t.clone(), 0, Vec::new(), None, false, Read::Consistent);
        let mut first = whole();
        assert!(first.next(&mut reader).await.unwrap());
        for n in 1..VERSIONS {
            let at = locked(&mut writer, &t, 1).await.unwrap();
            writer.update(&t, at.row(), &row(n)).await.unwrap();
            if n % 100 == 0 {
                commit(&mut writer).await;
            }
        }
        commit(&mut writer).await;
        assert!(
            e.store.pool.pages().data + e.store.pool.pages().free < VERSIONS as usize / 2,
            "or the pool has room for all"
        );
        let mut again = whole();
        assert!(again.next(&mut reader).await.unwrap());
        assert!(again.payload(&reader).await.unwrap() == row(0));
        // An entry that goes may be an older version's: all of them are looked at.
        let at = locked(&mut writer, &t, 1).await.unwrap();
        writer.update(&t, at.row(), &row(VERSIONS)).await.unwrap();
        drop(at);
        writer.rollback().await.unwrap();
        commit(&mut reader).await;
        clean(&e, &t, 1).await;
        drop((first, again, reader, writer));
        e.close().await.unwrap();
    });
}
