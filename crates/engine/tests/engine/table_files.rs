//! The files of tables come and go with their tables, whatever becomes of the statement.
#![allow(clippy::disallowed_methods)] // the tests look at the directory behind the engine's back

use crate::common::hanging::Hanging;
use crate::common::tables::*;
use crate::common::{Dir, at_one_moment, copy};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, Engine, Error};
use redolith_types::Value;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::Duration;

async fn put(e: &Arc<Engine>, t: &Arc<Table>, id: i64) {
    let mut trx = e.begin(KillFlag::new());
    trx.insert(t, &encoded(t, &[Value::Int(id), Value::Int(id)])).await.unwrap();
    commit(&mut trx).await;
}
async fn make(e: &Arc<Engine>, name: &str) -> Arc<Table> {
    create(e, name, vec![("k", int())], Vec::new()).await
}
/// The numbers of the spaces with a file, and those of the tables.
fn spaces(e: &Arc<Engine>, dir: &Dir) -> (Vec<u32>, Vec<u32>) {
    let files = std::fs::read_dir(dir.0.join("tables")).unwrap();
    let number = |f: std::io::Result<std::fs::DirEntry>| {
        f.unwrap().file_name().to_str().unwrap().strip_suffix(".rdl").unwrap().parse().unwrap()
    };
    let mut files: Vec<u32> = files.map(number).collect();
    let mut tables: Vec<u32> = e.dict.tables("test").iter().map(|t| t.space.0).collect();
    files.sort_unstable();
    tables.sort_unstable();
    (files, tables)
}

/// A program may drop a future in any of its waits. Tests TABLEFILE-3.
#[test]
fn a_definition_that_is_given_up_is_made_or_not_and_leaves_no_file() {
    let dir = Dir::new("given-up");
    let (e, _) = open(&dir);
    let (mut expected, mut gone) = (Vec::new(), 0);
    block_on(async {
        for polls in 0..12 {
            let names = ["create", "drop", "truncate", "schema"].map(|n| format!("{n}{polls}"));
            let [_, dropped, truncated, schema] = &names;
            let dropped = make(&e, dropped).await;
            let truncated = make(&e, truncated).await;
            put(&e, &dropped, 1).await;
            put(&e, &truncated, 1).await;
            let mut def = dropped.def.clone();
            def.name = names[0].clone();
            let (old, old_space) = ([dropped], truncated.space);
            {
                let mut all = (
                    pin!(e.create_table(def, 1, None)),
                    pin!(e.drop_tables(&old, None)),
                    pin!(e.truncate_table(&truncated, None)),
                    pin!(e.create_schema(schema, redolith_engine::DEFAULT_COLLATION, None)),
                );
                let mut done = [false; 4];
                let cx = &mut Context::from_waker(Waker::noop());
                for _ in 0..polls {
                    done[0] = done[0] || all.0.as_mut().poll(cx).is_ready();
                    done[1] = done[1] || all.1.as_mut().poll(cx).is_ready();
                    done[2] = done[2] || all.2.as_mut().poll(cx).is_ready();
                    done[3] = done[3] || all.3.as_mut().poll(cx).is_ready();
                    e.runtime.sleep(Duration::from_millis(3)).await;
                }
            }
            for name in &names[..3] {
                match e.table("test", name).await.unwrap() {
                    // A rollback in the background may still have the row of the dictionary.
                    Some(t) => {
                        put(&e, &t, 7).await;
                        let rows =
                            match name == &names[0] || t.space != old_space && name == &names[2] {
                                true => 1,
                                false => 2,
                            };
                        expected.push((name.clone(), rows));
                    }
                    None => gone += 1,
                }
            }
            let made = e.create_schema(schema, redolith_engine::DEFAULT_COLLATION, None).await;
            assert!(matches!(made, Ok(()) | Err(Error::DatabaseExists(_))), "{made:?}");
        }
        within(&e, "each file has a table", || {
            let (files, tables) = spaces(&e, &dir);
            files == tables
        })
        .await;
        e.close().await.unwrap();
    });
    drop(e);
    assert!(gone > 2, "no statement got to its end, or none was given up");
    let (e, report) = open(&dir);
    block_on(async {
        assert!(report.removed_files.is_empty() && report.set_aside.is_empty(), "{report:?}");
        let mut names: Vec<_> = e.dict.tables("test").iter().map(|t| t.def.name.clone()).collect();
        names.sort();
        expected.sort();
        assert_eq!(names, expected.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
        for (name, rows) in expected {
            sound(&e, &e.table("test", &name).await.unwrap().unwrap(), rows).await;
        }
        e.close().await.unwrap();
    });
}

/// Tests JUDGE-7: a file that is away, because its folder is not mounted or somebody has moved it,
/// costs no commits, and none are missing in silence when the file is back.
#[test]
fn a_start_without_a_file_that_the_log_changes_is_refused() {
    let dir = Dir::new("away");
    let (e, _) = open(&dir);
    let (crashed, space) = block_on(async {
        e.flush_settings.checkpoint_interval_ms.set(u32::MAX);
        let (t, other) = (make(&e, "t").await, make(&e, "other").await);
        for id in 0..20 {
            put(&e, &t, id).await;
            put(&e, &other, id).await;
        }
        let crashed = at_one_moment(&e, &dir.0, || {
            let crashed = Dir::new("away-crashed");
            copy(&dir.0, &crashed.0);
            crashed
        })
        .await;
        e.close().await.unwrap();
        (crashed, t.space.0)
    });
    let file = crashed.0.join(format!("tables/{space}.rdl"));
    let (away, lost) = (crashed.0.join("away"), file.with_extension("rdl.lost"));
    std::fs::rename(&file, &away).unwrap();
    for cut in [false, true] {
        if cut {
            std::fs::write(&file, [0; 100]).unwrap();
        }
        let refused = try_open(&crashed).map(drop).unwrap_err();
        let Error::Damaged(why) = refused else { panic!("{refused:?}") };
        assert!(why.contains("test.t is missing") && why.contains(".lost"), "{why}");
    }
    // With the file, nothing is missing.
    std::fs::rename(&away, &file).unwrap();
    let copied = Dir::new("away-back");
    copy(&crashed.0, &copied.0);
    let (e, _) = open(&copied);
    block_on(async {
        sound(&e, &e.table("test", "t").await.unwrap().unwrap(), 20).await;
        e.close().await.unwrap();
    });
    // The table is given up, and the file is put back later.
    std::fs::rename(&file, &lost).unwrap();
    for back in [false, true, true] {
        if back && lost.exists() {
            std::fs::rename(&lost, &file).unwrap();
        }
        let (e, report) = open(&crashed);
        assert_eq!(report.to_string().contains("test.t was given up"), !back, "{report}");
        block_on(async {
            let refused = e.table("test", "t").await.map(drop).unwrap_err().to_string();
            let expected = if back { "older copy" } else { "cannot open" };
            assert!(refused.contains(expected), "{refused}");
            sound(&e, &e.table("test", "other").await.unwrap().unwrap(), 20).await;
            e.close().await.unwrap();
        });
    }
}

/// Tests JUDGE-7 for tables that unfinished statements change: the file that the table had before
/// is needed, and a file that the statement has made is not.
#[test]
fn a_start_needs_the_files_of_before_an_unfinished_statement() {
    let dir = Dir::new("away-unfinished");
    let (e, _) = open(&dir);
    let (crashed, old, new) = block_on(async {
        e.flush_settings.checkpoint_interval_ms.set(u32::MAX);
        let (rebuilt, renamed) = (make(&e, "rebuilt").await, make(&e, "renamed").await);
        let again = make(&e, "again").await;
        for id in 0..20 {
            put(&e, &rebuilt, id).await;
            put(&e, &renamed, id).await;
            put(&e, &again, id).await;
        }
        // The file of a table that is dropped for good is missing in every start here.
        e.drop_tables(std::slice::from_ref(&again), None).await.unwrap();
        let mut trx = e.begin(KillFlag::new());
        let mut other_name = renamed.def.clone();
        other_name.name = "other_name".into();
        let mut news = Vec::new();
        for number in 0..3 {
            let new = match number {
                0 => e.begin_replacement(&mut trx, &rebuilt, rebuilt.def.clone(), 1, &[]).await,
                1 => e.begin_replacement(&mut trx, &renamed, other_name.clone(), 1, &[]).await,
                _ => e.begin_table(&mut trx, again.def.clone(), 1).await,
            };
            let new = new.unwrap();
            let row = encoded(new.table(), &[Value::Int(1), Value::Int(1)]);
            trx.insert(new.table(), &row).await.unwrap();
            news.push(new);
        }
        // This commit makes all that was done before it durable.
        put(&e, &make(&e, "last").await, 1).await;
        let crashed = at_one_moment(&e, &dir.0, || {
            let crashed = Dir::new("away-unfinished-crashed");
            copy(&dir.0, &crashed.0);
            crashed
        })
        .await;
        let new: Vec<u32> = news.iter().map(|new| new.table().space.0).collect();
        trx.give_up_table();
        trx.rollback().await.unwrap();
        for new in news {
            new.discard().await.unwrap();
        }
        e.close().await.unwrap();
        (crashed, [("rebuilt", rebuilt.space.0), ("renamed", renamed.space.0)], new)
    });
    let file = |dir: &Dir, space: u32| dir.0.join(format!("tables/{space}.rdl"));
    for (name, space) in old {
        let copied = Dir::new("away-unfinished-old");
        copy(&crashed.0, &copied.0);
        std::fs::remove_file(file(&copied, space)).unwrap();
        let refused = try_open(&copied).map(drop).unwrap_err();
        let Error::Damaged(why) = refused else { panic!("{refused:?}") };
        assert!(why.contains(&format!("test.{name} is missing")), "{why}");
        // The table can be given up.
        std::fs::write(file(&copied, space).with_extension("rdl.lost"), []).unwrap();
        let (e, report) = open(&copied);
        assert!(report.to_string().contains(&format!("test.{name} was given up")), "{report}");
        block_on(e.close()).unwrap();
    }
    // A start that ended early has taken the new files away, and nothing else.
    new.iter().for_each(|space| std::fs::remove_file(file(&crashed, *space)).unwrap());
    let (e, _) = open(&crashed);
    block_on(async {
        for (name, _) in old {
            sound(&e, &e.table("test", name).await.unwrap().unwrap(), 20).await;
        }
        for name in ["again", "other_name"] {
            assert!(e.table("test", name).await.unwrap().is_none());
        }
        e.close().await.unwrap();
    });
}

/// Tests TABLEFILE-1 and TABLEFILE-2.
#[test]
fn pages_of_a_file_that_cannot_be_removed_stay_dirty() {
    let dir = Dir::new("stubborn-file");
    let disk = Hanging::new();
    let open = || {
        let mut c = Config::new(&dir.0);
        (c.pool_bytes, c.log_capacity_bytes, c.log_buffer_bytes) = (8 << 20, 4 << 20, 1 << 20);
        block_on(Engine::open(c, disk.clone(), Threads::new(disk.clone()))).unwrap()
    };
    let (e, _) = open();
    block_on(async {
        let (t, other) = (make(&e, "dropped").await, make(&e, "other").await);
        put(&e, &t, 1).await;
        put(&e, &other, 1).await;
        e.close().await.unwrap();
    });
    drop(e);
    let (e, _) = open();
    let crashed = block_on(async {
        let t = e.table("test", "dropped").await.unwrap().unwrap();
        let other = e.table("test", "other").await.unwrap().unwrap();
        disk.hang();
        disk.keeps_files.store(true, SeqCst);
        let mut trx = e.begin(KillFlag::new());
        for id in 2..10_000 {
            trx.insert(&t, &encoded(&t, &[Value::Int(id), Value::Int(id)])).await.unwrap();
        }
        commit(&mut trx).await;
        put(&e, &other, 2).await;
        let before = e.store.pool.pages().dirty;
        let dropped = e.drop_tables(&[t], None).await;
        assert!(matches!(dropped, Err(Error::Io { .. })), "{dropped:?}");
        assert!(e.table("test", "dropped").await.unwrap().is_none());
        let dirty = e.store.pool.pages().dirty;
        assert!(dirty >= before, "the checkpoint would pass changes: {dirty} < {before}");
        let crashed = at_one_moment(&e, &dir.0, || {
            let crashed = Dir::new("stubborn-file-crashed");
            copy(&dir.0, &crashed.0);
            crashed
        })
        .await;
        disk.go_on();
        disk.keeps_files.store(false, SeqCst);
        e.close().await.unwrap();
        crashed
    });
    drop(e);
    for (dir, removed) in [(crashed, 1), (dir, 0)] {
        let (e, report) = crate::common::tables::open(&dir);
        // After a clean end the redo log has forgotten why the file is there.
        let found = (report.removed_files.len(), report.set_aside.len());
        assert_eq!(found, (removed, 1 - removed), "{report:?}");
        block_on(async {
            sound(&e, &e.table("test", "other").await.unwrap().unwrap(), 2).await;
            assert_eq!(spaces(&e, &dir).0.len(), 1);
            e.close().await.unwrap();
        });
    }
}
