//! Rows through the public interface: write, read, roll back, crash, recover.

use crate::common::Dir;
use crate::common::table::{LOCK, def, key, row};
use crate::common::tables::within;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::alter::Alteration;
use redolith_engine::dict::index_build::Building;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, DEFAULT_COLLATION, Engine, Error, Isolation, Report, Trx};
use redolith_types::{IndexDef, TableDef, Value};
use std::sync::Arc;

fn open(dir: &Dir) -> (Arc<Engine>, Report) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut c = Config::new(&dir.0);
    c.pool_bytes = 8 << 20;
    c.log_segment_bytes = 1 << 20;
    c.log_capacity_bytes = 16 << 20;
    block_on(Engine::open(c, disk.clone(), Threads::new(disk))).unwrap()
}
async fn update_k(trx: &mut Trx, t: &Arc<Table>, id: i64, add: i64) -> Result<bool, Error> {
    let mut c = Cursor::point(t.clone(), key(t, id), LOCK);
    if !c.next(trx).await? {
        return Ok(false);
    }
    let Value::Int(k) = t.layout.get(c.row().stored, 1) else { panic!() };
    let mut new = Vec::new();
    t.layout.update(c.row().stored, &[(1, Value::Int(k + add))], &mut new);
    trx.update(t, c.row(), &new).await?;
    Ok(true)
}
async fn delete(trx: &mut Trx, t: &Arc<Table>, id: i64) -> Result<bool, Error> {
    let mut c = Cursor::point(t.clone(), key(t, id), LOCK);
    Ok(c.next(trx).await? && trx.delete(t, c.row()).await.map(|()| true)?)
}
async fn all(trx: &mut Trx, t: &Arc<Table>, index: usize, reverse: bool) -> Vec<(i64, i64)> {
    let mut c = Cursor::new(t.clone(), index, Vec::new(), None, reverse, Read::Consistent);
    let mut out = Vec::new();
    while c.next(trx).await.unwrap() {
        let (Value::Int(id), Value::Int(k)) =
            (t.layout.get(c.row().stored, 0), t.layout.get(c.row().stored, 1))
        else {
            panic!()
        };
        out.push((id, k));
    }
    out
}

#[test]
fn only_a_transaction_without_changes_commits_at_once() {
    let dir = Dir::new("unchanged");
    let (e, _) = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(def("t"), 1, None).await.unwrap();
        let mut trx = e.begin(KillFlag::new());
        trx.insert(&t, &row(&t, 1, 0, "x")).await.unwrap();
        assert!(!trx.commit_unchanged());
        trx.commit().await.unwrap().durable().await;
        assert!(!update_k(&mut trx, &t, 2, 1).await.unwrap());
        let mut reader = Cursor::point(t.clone(), key(&t, 1), LOCK);
        assert!(reader.next(&mut trx).await.unwrap() && trx.commit_unchanged());
        // The lock is free, and the transaction's next read sees what others commit meanwhile.
        let mut other = e.begin(KillFlag::new());
        assert!(update_k(&mut other, &t, 1, 5).await.unwrap());
        other.commit().await.unwrap().durable().await;
        assert_eq!(all(&mut trx, &t, 0, false).await, [(1, 5)]);
        assert!(trx.commit_unchanged());
        e.close().await.unwrap();
    });
}

/// Two transactions insert ascending rows in turns, in runs of any length, into the same leaves.
/// The place of one's last row is used only while nobody has changed its leaf: by a row behind it
/// or before it, a deletion, a rollback or a split.
#[test]
fn ascending_rows_of_two_transactions_meet_in_order() {
    let dir = Dir::new("ascending");
    let (e, _) = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(def("a"), 1, None).await.unwrap();
        let mut both = [e.begin(KillFlag::new()), e.begin(KillFlag::new())];
        let (mut expected, mut next, mut seed) = (Vec::new(), [0i64, 0], 4711u64);
        for round in 0..1500 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (who, run) = ((seed >> 33) as usize % 2, (seed >> 40) % 9);
            let trx = &mut both[who];
            let mark = trx.savepoint();
            for _ in 0..run {
                // The second transaction's rows lie between and behind those of the first.
                let id = next[who] * 2 + who as i64;
                next[who] += 1;
                let text = "x".repeat((seed >> 50) as usize % 200);
                trx.insert(&t, &row(&t, id, round, &text)).await.unwrap();
                expected.push((id, round));
            }
            if run == 8 {
                trx.rollback_to(mark).await.unwrap();
                expected.truncate(expected.len() - run as usize);
            } else if run == 7 {
                let (last, _) = expected.pop().unwrap();
                assert!(delete(trx, &t, last).await.unwrap());
            }
            if let Some((last, _)) = expected.last()
                && (*last & 1) as usize == who
            {
                let again = trx.insert(&t, &row(&t, *last, 0, "")).await;
                assert!(matches!(again, Err(Error::DuplicateKey { .. })));
            }
        }
        for trx in &mut both {
            trx.commit().await.unwrap().durable().await;
        }
        expected.sort_unstable();
        let mut trx = e.begin(KillFlag::new());
        assert_eq!(all(&mut trx, &t, 0, false).await, expected);
    });
}

#[test]
fn write_read_roll_back_and_start_again() {
    let dir = Dir::new("rows");
    let (e, report) = open(&dir);
    assert!(report.created);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(def("a"), 1, None).await.unwrap();
        let mut trx = e.begin(KillFlag::new());
        for id in 0..3000 {
            trx.insert(&t, &row(&t, id * 7 % 3000, id % 50, &"x".repeat(100 + id as usize % 50)))
                .await
                .unwrap();
        }
        assert!(matches!(
            trx.insert(&t, &row(&t, 5, 1, "")).await,
            Err(Error::DuplicateKey { .. })
        ));
        trx.commit().await.unwrap().durable().await;
        let rows = all(&mut trx, &t, 0, false).await;
        assert_eq!(rows.iter().map(|r| r.0).collect::<Vec<_>>(), (0..3000).collect::<Vec<_>>());
        let mut back = all(&mut trx, &t, 0, true).await;
        back.reverse();
        assert_eq!(back, rows);
        let by_k = all(&mut trx, &t, 1, false).await;
        assert!(by_k.is_sorted_by_key(|r| (r.1, r.0)) && by_k.len() == 3000);
        let mut down = all(&mut trx, &t, 1, true).await;
        down.reverse();
        assert_eq!(down, by_k);
        trx.commit().await.unwrap().durable().await;

        // A reader keeps its view while another transaction changes everything and takes half of it
        // back.
        let mut reader = e.begin(KillFlag::new());
        assert_eq!(all(&mut reader, &t, 1, false).await, by_k);
        let mut w = e.begin(KillFlag::new());
        for id in 0..1000 {
            assert!(update_k(&mut w, &t, id, 1000).await.unwrap());
        }
        let half = w.savepoint();
        for id in 1000..2000 {
            assert!(delete(&mut w, &t, id).await.unwrap());
            if id % 2 == 0 {
                w.insert(&t, &row(&t, id, -1, "again")).await.unwrap();
            }
        }
        assert_eq!(all(&mut w, &t, 0, false).await.len(), 2500);
        w.rollback_to(half).await.unwrap();
        assert_eq!(all(&mut reader, &t, 1, false).await, by_k);
        w.commit().await.unwrap().durable().await;
        assert_eq!(all(&mut reader, &t, 0, false).await, rows);
        reader.commit().await.unwrap().wait();
        let now = all(&mut reader, &t, 0, false).await;
        assert!(
            now.iter()
                .all(|(id, k)| *k == rows[*id as usize].1 + if *id < 1000 { 1000 } else { 0 })
                && now.len() == 3000
        );
        reader.commit().await.unwrap().wait();
        e.close().await.unwrap();
    });
    drop(e);
    let (e, report) = open(&dir);
    assert_eq!((report.frames, report.rolled_back), (0, 0), "{report}");
    block_on(async {
        let t = e.table("test", "a").await.unwrap().unwrap();
        let mut trx = e.begin(KillFlag::new());
        assert_eq!(all(&mut trx, &t, 0, false).await.len(), 3000);
        trx.rollback().await.unwrap();
        e.close().await.unwrap();
    });
}

/// Opens a table whose rows have ids that its counter was never told of, as after a crash, and
/// gives the counter's value.
async fn counter_of(e: &Engine, name: &str) -> u64 {
    let t = e.table("test", name).await.unwrap().unwrap();
    t.auto_increment.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn the_counter_is_above_every_id_whichever_index_its_column_leads() {
    let dir = Dir::new("counter");
    let down = |mut index: IndexDef| {
        index.columns[0].desc = true;
        index
    };
    let by_c = || IndexDef::primary([2]);
    let tables = [
        ("key_after_another_primary", vec![by_c(), IndexDef::secondary("id", false, [0])]),
        ("unique_after_another_primary", vec![by_c(), IndexDef::secondary("id", true, [0, 1])]),
        ("descending_key", vec![by_c(), down(IndexDef::secondary("id", false, [0]))]),
        ("descending_primary", vec![down(IndexDef::primary([0]))]),
        ("unique_alone", vec![IndexDef::secondary("id", true, [0])]),
        ("ascending_primary", vec![IndexDef::primary([0, 1])]),
    ];
    let (e, _) = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        for (name, indexes) in &tables {
            let mut def = TableDef { indexes: indexes.clone(), ..def(name) };
            def.columns[0].auto_increment = true;
            let t = e.create_table(def, 1, None).await.unwrap();
            let mut trx = e.begin(KillFlag::new());
            for id in 1..=2000 {
                trx.insert(&t, &row(&t, id, 0, &format!("{:0150}", 3000 - id))).await.unwrap();
            }
            trx.commit().await.unwrap().durable().await;
        }
        e.close().await.unwrap();
    });
    drop(e);
    let (e, _) = open(&dir);
    block_on(async {
        for (name, _) in &tables {
            assert_eq!(counter_of(&e, name).await, 2001, "{name}");
        }
        e.close().await.unwrap();
    });
}

/// Entries that are marked or purged, and the leaves that this leaves empty, are no reason to stop
/// looking.
#[test]
fn the_counter_is_found_behind_rows_that_were_deleted() {
    let dir = Dir::new("counter-behind");
    for descending in [false, true] {
        let (e, _) = open(&dir);
        let name = if descending { "down" } else { "up" };
        block_on(async {
            if !descending {
                e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
            }
            let mut def = TableDef {
                indexes: vec![IndexDef::primary([1]), IndexDef::secondary("id", true, [0])],
                ..def(name)
            };
            def.columns[0].auto_increment = true;
            def.indexes[1].columns[0].desc = descending;
            let t = e.create_table(def, 1, None).await.unwrap();
            let mut trx = e.begin(KillFlag::new());
            for id in 1..=4000 {
                trx.insert(&t, &row(&t, id, id, "")).await.unwrap();
            }
            trx.commit().await.unwrap().durable().await;
            for k in 1001..=4000 {
                assert!(delete(&mut trx, &t, k).await.unwrap());
            }
            trx.commit().await.unwrap().durable().await;
            e.close().await.unwrap();
        });
        drop(e);
        let (e, _) = open(&dir);
        block_on(async {
            assert!((1001..=4001).contains(&counter_of(&e, name).await), "{name}");
            let t = e.table("test", name).await.unwrap().unwrap();
            let mut waited = 0;
            while !e.history.is_empty() && waited < 24_000 {
                e.runtime.sleep(std::time::Duration::from_millis(5)).await;
                waited += 1;
            }
            // Asked again, as ALTER TABLE .. AUTO_INCREMENT = 1 asks.
            let to = Alteration {
                def: t.def.clone(),
                added: 0,
                dropped: vec![],
                auto_increment: Some(1),
                record: None,
            };
            e.alter_table(&t, to, &Building::in_memory(KillFlag::new())).await.unwrap();
            assert_eq!(counter_of(&e, name).await, 1001, "{name}");
            e.close().await.unwrap();
        });
    }
}

#[test]
fn concurrent_writers_wait_for_each_other() {
    let dir = Dir::new("writers");
    let (e, _) = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(def("a"), 1, None).await.unwrap();
        let mut trx = e.begin(KillFlag::new());
        for id in 0..40 {
            trx.insert(&t, &row(&t, id, 0, "")).await.unwrap();
        }
        trx.commit().await.unwrap().wait();
    });
    let threads: Vec<_> = (0..6u64)
        .map(|n| {
            let e = e.clone();
            std::thread::spawn(move || {
                block_on(async {
                    let t = e.table("test", "a").await.unwrap().unwrap();
                    let (mut done, mut x) = (0, n);
                    let mut trx = e.begin(KillFlag::new());
                    while done < 300 {
                        let mut ok = true;
                        for _ in 0..3 {
                            x = x
                                .wrapping_mul(6364136223846793005)
                                .wrapping_add(1442695040888963407);
                            match update_k(&mut trx, &t, (x >> 33) as i64 % 40, 1).await {
                                Ok(true) => {}
                                Err(Error::Deadlock) => {
                                    ok = false;
                                    break;
                                }
                                other => panic!("{other:?}"),
                            }
                        }
                        if ok {
                            trx.commit().await.unwrap().durable().await;
                            done += 1;
                        } else {
                            trx.rollback().await.unwrap();
                        }
                    }
                })
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    block_on(async {
        let t = e.table("test", "a").await.unwrap().unwrap();
        let mut trx = e.begin(KillFlag::new());
        let rows = all(&mut trx, &t, 1, false).await;
        assert_eq!(rows.len(), 40);
        assert_eq!(rows.iter().map(|r| r.1).sum::<i64>(), 6 * 300 * 3);
        trx.commit().await.unwrap().wait();
        e.close().await.unwrap();
    });
}

#[test]
fn isolation_of_a_repeatable_reader_and_a_dirty_one() {
    let dir = Dir::new("isolation");
    let (e, _) = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(def("a"), 1, None).await.unwrap();
        let mut w = e.begin(KillFlag::new());
        w.insert(&t, &row(&t, 1, 10, "")).await.unwrap();
        let (mut dirty, mut clean) = (e.begin(KillFlag::new()), e.begin(KillFlag::new()));
        dirty.isolation = Isolation::ReadUncommitted;
        assert_eq!(all(&mut dirty, &t, 0, false).await, [(1, 10)]);
        assert_eq!(all(&mut clean, &t, 0, false).await, []);
        w.rollback().await.unwrap();
        assert_eq!(all(&mut dirty, &t, 0, false).await, []);
        e.close().await.unwrap();
    });
}

/// Tests TREE-3 and PURGE-2.
#[test]
fn check_finds_nothing_wrong_after_a_random_load_and_purge() {
    let dir = Dir::new("check");
    let (e, _) = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(def("a"), 1, None).await.unwrap();
        let (mut x, mut trx) = (7u64, e.begin(KillFlag::new()));
        let mut rnd = |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        let mut model = std::collections::BTreeMap::new();
        for round in 0..300 {
            let before = model.clone();
            for _ in 0..rnd(60) {
                let id = rnd(2500) as i64;
                match rnd(3) {
                    0 => {
                        let k = rnd(30) as i64;
                        let done =
                            trx.insert(&t, &row(&t, id, k, &"y".repeat(rnd(199) as usize))).await;
                        assert_eq!(done.is_ok(), !model.contains_key(&id), "{done:?}");
                        model.entry(id).or_insert(k);
                    }
                    1 => {
                        assert_eq!(
                            update_k(&mut trx, &t, id, 3).await.unwrap(),
                            model.contains_key(&id)
                        );
                        model.entry(id).and_modify(|k| *k += 3);
                    }
                    _ => assert_eq!(
                        delete(&mut trx, &t, id).await.unwrap(),
                        model.remove(&id).is_some()
                    ),
                }
            }
            if rnd(4) == 0 {
                trx.rollback().await.unwrap();
                model = before;
            } else {
                trx.commit().await.unwrap().durable().await;
            }
            if round % 50 == 49 {
                let want: Vec<_> = model.iter().map(|(a, b)| (*a, *b)).collect();
                assert_eq!(all(&mut trx, &t, 0, false).await, want);
                trx.commit().await.unwrap().wait();
                let c = e.check_table(&t).await.unwrap();
                assert!(c.errors.is_empty(), "{:?}", c.errors);
                assert_eq!(c.rows, model.len() as u64);
            }
        }
        let mut waited = 0;
        while !e.history.is_empty() && waited < 24_000 {
            e.runtime.sleep(std::time::Duration::from_millis(5)).await;
            waited += 1;
        }
        assert_eq!(e.history.len(), 0);
        let c = e.check_table(&t).await.unwrap();
        assert!(c.errors.is_empty() && c.notes.is_empty(), "{c:?}");
        e.close().await.unwrap();
    });
}

const CRASH_IN: &str = "REDOLITH_TEST_COUNTER_CRASH";
/// COUNTER-2: values of rows that were deleted and purged, or rolled back, are not given again
/// after a crash.
#[test]
fn values_of_rows_that_are_gone_are_not_given_again_after_a_crash() {
    if let Ok(dir) = std::env::var(CRASH_IN) {
        return make_rows_go_and_crash(&Dir(dir.into()));
    }
    let dir = Dir::new("counter-crash");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let child = child
        .args([
            "--exact",
            "rows::values_of_rows_that_are_gone_are_not_given_again_after_a_crash",
            "--nocapture",
        ])
        .env(CRASH_IN, &dir.0);
    let ended = child.output().unwrap();
    assert!(
        !ended.status.success() && String::from_utf8_lossy(&ended.stdout).contains("as it should"),
        "{ended:?}"
    );
    let (e, _) = open(&dir);
    block_on(async {
        // What MySQL 8 goes on with.
        for (name, next) in
            [("deleted", 4), ("rolled_back", 3), ("named", 701), ("moved", 801), ("changed", 901)]
        {
            assert_eq!(counter_of(&e, name).await, next, "{name}");
        }
        e.close().await.unwrap();
    });
}
fn make_rows_go_and_crash(dir: &Dir) {
    let (e, _) = open(dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let mut trx = e.begin(KillFlag::new());
        for name in ["deleted", "rolled_back", "named", "moved", "changed"] {
            let primary = IndexDef::primary([if name == "changed" { 1 } else { 0 }]);
            let mut def = TableDef {
                indexes: vec![primary, IndexDef::secondary("id", false, [0])],
                ..def(name)
            };
            def.columns[0].auto_increment = true;
            let t = e.create_table(def, 1, None).await.unwrap();
            for id in 1..=2 {
                assert_eq!(t.take_auto_increment(1), id);
                trx.insert(&t, &row(&t, id as i64, id as i64, "")).await.unwrap();
                if (name, id) == ("rolled_back", 2) {
                    trx.rollback().await.unwrap();
                } else {
                    trx.commit().await.unwrap().durable().await;
                }
            }
            match name {
                // A value that came with its row.
                "deleted" => trx.insert(&t, &row(&t, 3, 3, "")).await.unwrap(),
                "named" => trx.insert(&t, &row(&t, 700, 700, "")).await.unwrap(),
                "rolled_back" => {}
                // One that a row is given later: where the column is the primary key, and where it
                // is not.
                _ => {
                    let mut rows = Cursor::new(t.clone(), 0, Vec::new(), None, false, LOCK);
                    assert!(rows.next(&mut trx).await.unwrap());
                    let (id, mut new) = (if name == "moved" { 800 } else { 900 }, Vec::new());
                    t.layout.update(rows.row().stored, &[(0, Value::Int(id))], &mut new);
                    trx.update(&t, rows.row(), &new).await.unwrap();
                }
            }
            trx.commit().await.unwrap().durable().await;
            let mut rows = Cursor::new(t.clone(), 0, Vec::new(), None, false, LOCK);
            while rows.next(&mut trx).await.unwrap() {
                trx.delete(&t, rows.row()).await.unwrap();
            }
            drop(rows);
            trx.commit().await.unwrap().durable().await;
        }
        // No entry is left that tells of them.
        within(&e, "all is purged", || e.history.is_empty()).await;
        e.create_schema("behind", DEFAULT_COLLATION, None).await.unwrap();
        println!("ends as it should");
        use std::io::Write;
        std::io::stdout().flush().unwrap();
        std::process::abort();
    });
}
