//! What grows and shrinks again: the history and the undo file while purge is stopped and after,
//! the redo log when its capacity changes.

use crate::common::Dir;
use crate::common::hanging::Hanging;
use crate::common::tables::*;
use redolith_engine::dict::index_build::Building;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::{BoxFuture, Runtime, Threads, block_on};
use redolith_engine::testing::mtr::MAX_FRAME;
use redolith_engine::testing::purge::State;
use redolith_engine::testing::undo;
use redolith_engine::{Config, Engine, Error, Trx};
use redolith_types::{IndexDef, Value};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

async fn table(e: &Arc<Engine>) -> Arc<Table> {
    if let Some(t) = e.table("test", "t").await.unwrap() {
        return t;
    }
    create(
        e,
        "t",
        vec![("k", int()), ("c", text(1000))],
        vec![IndexDef::secondary("k", false, [1])],
    )
    .await
}
fn row(t: &Table, id: i64, k: i64) -> Vec<u8> {
    let c = vec![b'a' + (k % 26) as u8; 800];
    encoded(t, &[Value::Int(id), Value::Int(k), Value::Bytes(Cow::Owned(c))])
}
async fn fill(e: &Arc<Engine>, t: &Arc<Table>, rows: i64) {
    let mut trx = e.begin(KillFlag::new());
    for id in 0..rows {
        trx.insert(t, &row(t, id, 0)).await.unwrap();
    }
    commit(&mut trx).await;
}
async fn update(trx: &mut Trx, t: &Arc<Table>, id: i64, k: i64) {
    try_update(trx, t, id, k).await.unwrap();
}
async fn try_update(trx: &mut Trx, t: &Arc<Table>, id: i64, k: i64) -> Result<(), Error> {
    let c = locked(trx, t, id).await?;
    trx.update(t, c.row(), &row(t, id, k)).await
}
#[test]
fn a_stopped_purge_holds_up_nothing_and_goes_on_after_a_restart() {
    let dir = Dir::new("purge-stop");
    let (e, _) = open(&dir);
    block_on(async {
        let t = table(&e).await;
        fill(&e, &t, 200).await;
        purged(&e).await;
        e.history.stop();
        e.history.stop();
        within(&e, "purge stops", || e.history.state() == State::Stopped).await;
        let mut trx = e.begin(KillFlag::new());
        for round in 1..=20 {
            for id in 0..200 {
                update(&mut trx, &t, id, round).await;
            }
            commit(&mut trx).await;
        }
        e.runtime.sleep(Duration::from_millis(100)).await;
        assert_eq!(e.history.len(), 20);
        assert!(e.history.done_below(e.sys.next_id()) < e.sys.next_id());
        sound(&e, &t, 200).await;
        drop(trx);
        e.close().await.unwrap();
    });
    drop(e);
    let (e, report) = open(&dir);
    assert_eq!((report.history, report.rolled_back), (20, 0));
    block_on(async {
        let t = table(&e).await;
        purged(&e).await;
        within(&e, "purge is idle", || e.history.state() == State::Idle).await;
        assert!(e.history.counts.changes.load(std::sync::atomic::Ordering::Relaxed) >= 4000);
        sound(&e, &t, 200).await;
        e.history.stop();
        let mut trx = e.begin(KillFlag::new());
        update(&mut trx, &t, 7, 99).await;
        commit(&mut trx).await;
        e.runtime.sleep(Duration::from_millis(60)).await;
        assert_eq!(e.history.len(), 1);
        e.history.resume();
        purged(&e).await;
        drop(trx);
        e.close().await.unwrap();
    });
}

/// One transaction that leaves some MiB of undo.
async fn churn(e: &Arc<Engine>, t: &Arc<Table>, from: i64) {
    let mut trx = e.begin(KillFlag::new());
    for round in 0..30 {
        for id in 0..200 {
            update(&mut trx, t, id, from + round).await;
        }
    }
    commit(&mut trx).await;
}
/// `k` of every row as a transaction sees it.
async fn seen(trx: &mut Trx, t: &Arc<Table>) -> Vec<i64> {
    let mut c = Cursor::new(t.clone(), 0, Vec::new(), None, false, Read::Consistent);
    let mut out = Vec::new();
    while c.next(trx).await.unwrap() {
        let Value::Int(k) = t.layout.get(c.payload(trx).await.unwrap(), 1) else {
            panic!("k is an int")
        };
        out.push(k);
    }
    out
}
fn undo_bytes(dir: &Dir) -> u64 {
    ["undo.rdl", "undo2.rdl"].iter().map(|f| std::fs::metadata(dir.0.join(f)).unwrap().len()).sum()
}
fn truncations(e: &Arc<Engine>) -> u64 {
    e.undo.truncation.count.load(std::sync::atomic::Ordering::Relaxed)
}
/// Both files are short, and the truncation has ended: it is counted after the new file has its
/// name.
async fn shrunk(e: &Arc<Engine>, dir: &Dir) {
    within(e, "short undo files", || undo_bytes(dir) < 3 << 20 && undo::open_files(e) == 2).await;
}

#[test]
fn undo_files_grow_and_shrink_again() {
    let dir = Dir::new("undo-truncate");
    let (e, _) = open(&dir);
    block_on(async {
        let t = table(&e).await;
        fill(&e, &t, 200).await;
        e.undo.truncation.set_max_bytes(2 << 20);
        let mut reader = e.begin(KillFlag::new());
        reader.open_view();
        churn(&e, &t, 1).await;
        assert!(undo_bytes(&dir) > 4 << 20, "{}", undo_bytes(&dir));
        // The view needs it all: the file is closed, and stays as it is.
        e.runtime.sleep(Duration::from_millis(300)).await;
        assert_eq!(undo::open_files(&e), 1, "one space is being emptied");
        assert_eq!(truncations(&e), 0);
        assert_eq!(seen(&mut reader, &t).await, [0; 200]);
        commit(&mut reader).await;
        shrunk(&e, &dir).await;
        assert!(truncations(&e) > 0);
        assert_eq!(seen(&mut reader, &t).await, [30; 200]);
        commit(&mut reader).await;

        // Off: it keeps what it has. On again: it is made short, whichever of the two it is.
        e.undo.truncation.enable(false);
        churn(&e, &t, 100).await;
        purged(&e).await;
        e.runtime.sleep(Duration::from_millis(1500)).await;
        assert!(undo_bytes(&dir) > 4 << 20, "{}", undo_bytes(&dir));
        e.undo.truncation.enable(true);
        shrunk(&e, &dir).await;
        // A transaction that is rolled back leaves undo too.
        let mut trx = e.begin(KillFlag::new());
        for round in 0..30 {
            for id in 0..200 {
                update(&mut trx, &t, id, 200 + round).await;
            }
        }
        trx.rollback().await.unwrap();
        shrunk(&e, &dir).await;
        assert!(truncations(&e) >= 3);
        assert_eq!(seen(&mut trx, &t).await, [129; 200]);
        drop((trx, reader));
        sound(&e, &t, 200).await;
        e.undo.truncation.enable(false);
        churn(&e, &t, 300).await;
        e.close().await.unwrap();
    });
    drop(e);
    // Found too long at a start.
    assert!(undo_bytes(&dir) > 4 << 20);
    let (e, _) = open(&dir);
    block_on(async {
        let t = table(&e).await;
        e.undo.truncation.set_max_bytes(2 << 20);
        shrunk(&e, &dir).await;
        assert_eq!(seen(&mut e.begin(KillFlag::new()), &t).await, [329; 200]);
        sound(&e, &t, 200).await;
        e.close().await.unwrap();
    });
}

#[test]
fn a_log_that_cannot_be_emptied_fails_statements_in_time() {
    let dir = Dir::new("log-full");
    let disk = Hanging::new();
    let open = || {
        let mut c = Config::new(&dir.0);
        (c.pool_bytes, c.log_capacity_bytes, c.log_buffer_bytes) = (8 << 20, 2 << 20, 256 << 10);
        block_on(Engine::open(c, disk.clone(), Threads::new(disk.clone()))).unwrap()
    };
    let (e, _) = open();
    let committed = block_on(async {
        let t = table(&e).await;
        fill(&e, &t, 200).await;
        disk.hang();
        let mut trx = e.begin(KillFlag::new());
        trx.lock_wait_timeout = Duration::from_millis(200);
        let mut committed = 0;
        let failed = 'full: loop {
            for id in 0..200 {
                if let Err(err) = try_update(&mut trx, &t, id, committed + 1).await {
                    break 'full err;
                }
            }
            match trx.commit().await {
                Ok(ticket) => ticket.durable().await,
                Err(err) => break err,
            }
            committed += 1;
            assert!(committed < 50, "the log takes more than it holds");
        };
        assert!(matches!(failed, Error::LogFull), "{failed}");
        trx.lock_wait_timeout = Duration::from_secs(50);
        assert!(!e.store.log.tell_full(), "the reason has been told");
        assert!(e.store.log.tail().0 - e.store.log.checkpoint_lsn().0 <= 2 << 20);
        let mut throttled = 0;
        e.store
            .log
            .counters(|name, n| throttled += if name == "log_throttle_waits" { n } else { 0 });
        assert!(throttled > 0);
        // Reads go on.
        assert!(seen(&mut e.begin(KillFlag::new()), &t).await.iter().all(|k| *k == committed));
        // A wait that a client gives up.
        let kill = KillFlag::new();
        let mut other = e.begin(kill.clone());
        let killer = std::thread::spawn({
            let (kill, runtime) = (kill.clone(), e.runtime.clone());
            move || {
                block_on(runtime.sleep(Duration::from_millis(100)));
                kill.kill();
            }
        });
        let end = loop {
            // Rows of its own: the other transaction holds locks.
            if let Err(err) =
                other.insert(&t, &row(&t, 1000 + other.undo_records() as i64, 1)).await
            {
                break err;
            }
        };
        killer.join().unwrap();
        assert!(matches!(end, Error::Interrupted), "{end}");
        kill.clear();
        disk.go_on();
        other.rollback().await.unwrap();
        trx.rollback().await.unwrap();
        for id in 0..200 {
            try_update(&mut trx, &t, id, committed + 1).await.unwrap();
        }
        commit(&mut trx).await;
        sound(&e, &t, 200).await;
        drop((trx, other));
        e.close().await.unwrap();
        committed + 1
    });
    drop(e);
    let (e, _) = open();
    block_on(async {
        let t = table(&e).await;
        assert_eq!(seen(&mut e.begin(KillFlag::new()), &t).await, vec![committed; 200]);
        e.close().await.unwrap();
    });
}

/// Ten seconds pass in ten milliseconds.
struct Hasty(Arc<Threads>);
impl Runtime for Hasty {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        self.0.spawn(name, task);
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        self.0.sleep(if time < Duration::from_secs(10) { time } else { time / 1000 })
    }
    fn yield_now(&self) -> BoxFuture<()> {
        self.0.yield_now()
    }
}

#[test]
fn a_full_log_fails_definitions_in_time_and_what_cannot_fail_waits_and_says_why() {
    let dir = Dir::new("log-full-ddl");
    let disk = Hanging::new();
    let mut c = Config::new(&dir.0);
    (c.pool_bytes, c.log_capacity_bytes, c.log_buffer_bytes) = (8 << 20, 4 << 20, 16 << 20);
    let (e, _) =
        block_on(Engine::open(c, disk.clone(), Arc::new(Hasty(Threads::new(disk.clone())))))
            .unwrap();
    #[allow(clippy::disallowed_methods)] // looks at the engine's files behind its back
    let files = || std::fs::read_dir(&dir.0).unwrap().count();
    block_on(async {
        let (t, log) = (table(&e).await, &e.store.log);
        fill(&e, &t, 200).await;
        purged(&e).await;
        e.history.stop();
        // No write is under way that would hang with what the checkpoint waits for: neither of a
        // page, which counts as dirty only until it is copied, nor of a stamp.
        let is_written = || {
            let (pool, spaces) = (&e.store.pool, &e.store.spaces);
            pool.oldest_dirty() == redolith_engine::Lsn::MAX && spaces.unstamped() == 0
        };
        within(&e, "all is written and stamped", is_written).await;
        disk.hang();
        let mut trx = e.begin(KillFlag::new());
        for id in 0..20 {
            update(&mut trx, &t, id, 1).await;
        }
        commit(&mut trx).await;
        for id in 0..20 {
            update(&mut trx, &t, id, 2).await;
        }
        log.flush_to(log.tail()).await;
        within(&e, "a checkpoint", || log.checkpoint_lsn() >= e.store.pool.oldest_dirty()).await;
        let mut another = t.def.clone();
        another.name = "another".into();
        let files_before = files();

        // No room, not even in the reserve. A rollback and purge wait; it is said once why.
        let held = hold_all_room(&e, true).await;
        let count = |of: &str| {
            let mut found = 0;
            log.counters(|name, n| found += if name == of { n } else { 0 });
            found
        };
        let (waits, loops) = ("log_on_file_space_waits", "log_on_file_space_wait_loops");
        let before = (count(waits), count(loops));
        let rollback = std::thread::spawn(move || {
            block_on(trx.rollback()).unwrap();
            trx
        });
        // It looks when it begins, when its timer has ended, and when it has said why.
        within(&e, "a wait that looks again", || count(loops) >= before.1 + 3).await;
        assert!(!log.tell_full(), "the reason has been told");
        e.history.resume();
        within(&e, "purge waits", || count(waits) >= before.0 + 2).await;
        assert!(
            !rollback.is_finished() && undo::background_rollbacks(&e) == 0 && e.history.len() == 1,
            "both wait"
        );
        let failed = e.create_table(another.clone(), 1, None).await.map(|_| ());
        assert!(matches!(failed, Err(Error::LogFull)), "{failed:?}");
        assert!(!rollback.is_finished() && e.history.len() == 1);
        drop(held);
        let mut trx = rollback.join().unwrap();
        purged(&e).await;

        // Room in the reserve only: what a DDL statement has begun is cleared away.
        let held = hold_room(log, false, 0);
        let failed = e.create_table(another.clone(), 1, None).await.map(|_| ());
        assert!(matches!(failed, Err(Error::LogFull)), "{failed:?}");
        let index = || vec![IndexDef::secondary("c", false, [2])];
        let failed = e.drop_tables(std::slice::from_ref(&t), None).await;
        assert!(matches!(failed, Err(Error::LogFull)), "{failed:?}");
        assert_eq!((files(), undo::background_rollbacks(&e)), (files_before, 0));
        drop(held);
        // An index's root has room or has not, then the record that names it.
        for spare in (0..6).map(|n| MAX_FRAME + (40 << n)).chain([0]) {
            let held = hold_room(log, false, spare);
            let failed = e
                .create_indexes(&t, index(), &Building::in_memory(KillFlag::new()))
                .await
                .map(|_| ());
            assert!(matches!(failed, Err(Error::LogFull)), "{spare}: {failed:?}");
            drop(held);
        }

        disk.go_on();
        let t = e.table("test", "t").await.unwrap().unwrap();
        assert!(
            seen(&mut trx, &t).await.iter().enumerate().all(|(id, k)| *k == i64::from(id < 20)),
            "the rollback has taken back"
        );
        commit(&mut trx).await;
        let t = e.create_indexes(&t, index(), &Building::in_memory(KillFlag::new())).await.unwrap();
        clean(&e, &t, 200).await;
        e.create_table(another, 1, None).await.unwrap();
        drop(trx);
        e.close().await.unwrap();
    });
}

/// DROP INDEX frees also the pages of which a crash has kept the level above from knowing.
#[test]
fn a_dropped_index_takes_halves_of_splits_along() {
    use redolith_engine::testing::btree::Seek;
    use redolith_engine::testing::buf::Latch;
    use redolith_engine::testing::mtr::Mtr;
    use redolith_engine::{PageId, testing::page::index};
    let dir = Dir::new("half-splits");
    let (e, _) = open(&dir);
    block_on(async {
        let t = create(&e, "t", vec![("c", text(600))], vec![IndexDef::secondary("c", false, [1])])
            .await;
        let mut trx = e.begin(KillFlag::new());
        for id in 0..2000i64 {
            // Keys that differ only at their ends: as long in nodes.
            let c = format!("{}{:04}", "c".repeat(590), id * 7 % 2000).into_bytes();
            trx.insert(&t, &encoded(&t, &[Value::Int(id), Value::Bytes(Cow::Owned(c))]))
                .await
                .unwrap();
        }
        commit(&mut trx).await;
        drop(trx);
        purged(&e).await;
        let tree = &t.indexes[1].tree;
        let mut cut = [0; 2];
        for level in [1, 2] {
            let mut next =
                tree.descend(&e.store, Seek::Key(b""), level, Latch::S, None).ok().unwrap().id().no;
            while next != 0 {
                let id = PageId { space: t.space, no: next };
                let (children, right) = {
                    let node = e.store.pool.fix(id, Latch::S).ok().unwrap();
                    let children = index::records(&node)
                        .map(|r| (index::key(&node, r).to_vec(), index::child(&node, r)));
                    (children.collect::<Vec<_>>(), index::next_page(&node))
                };
                // As if nobody had told this node of every other child.
                for pair in children.chunks_exact(2).take(3) {
                    let mut m = Mtr::begin(&e.store).ok().unwrap();
                    let node = m.x(id).ok().unwrap();
                    let left = m.x(PageId { space: t.space, no: pair[0].1 }).ok().unwrap();
                    let unknown = index::search(m.page(node), &pair[1].0);
                    index::remove(&mut m.patch(node), unknown);
                    index::set_incomplete(&mut m.patch(left), true);
                    m.commit();
                    cut[level as usize - 1] += 1;
                }
                next = right;
            }
        }
        assert!(cut[0] > 10 && cut[1] > 0, "{cut:?}");
        sound(&e, &t, 2000).await;
        let t = e.drop_indexes(&t, &[1]).await.unwrap();
        clean(&e, &t, 2000).await;
        e.close().await.unwrap();
    });
}

/// SPACE-3: who looks for a page in one full part of a file after the other holds none of their
/// maps; two who begin in different parts would wait for each other.
#[test]
fn full_parts_of_a_file_are_not_held() {
    use redolith_engine::testing::mtr::Mtr;
    use redolith_engine::testing::page::Patch;
    use redolith_engine::testing::space::{bitmap, reserve};
    use redolith_engine::{PageId, WouldBlock};
    let dir = Dir::new("two-maps");
    let (e, _) = open(&dir);
    block_on(async {
        let t = table(&e).await;
        let map = |k: u32| PageId { space: t.space, no: k * bitmap::PAGES + 1 };
        e.store.spaces.ensure(t.space, bitmap::PAGES + 100).unwrap();
        for k in [0, 1] {
            e.store.pool.load(map(k)).await.unwrap();
        }
        // All that the file has, but for one page in the second part.
        let mut last = bitmap::PAGES;
        for k in [0, 1] {
            let mut m = Mtr::begin(&e.store).ok().unwrap();
            let at = m.x(map(k)).ok().unwrap();
            let bits = redolith_engine::PAGE_SIZE - bitmap::PAGES as usize / 8;
            m.patch(at).write(bits, &[0xff; bitmap::PAGES as usize / 8]);
            if k == 1 {
                last = e.store.spaces.get(t.space).unwrap().pages() - 1;
                bitmap::set(&mut m.patch(at), last, false);
            }
            m.commit();
        }
        let mut m = Mtr::begin(&e.store).ok().unwrap();
        let Ok(found) = reserve(&mut m, t.space, 1, 5000) else { panic!("there is one") };
        assert_eq!(
            (&found.pages[..], m.holds(map(0)), m.holds(map(1))),
            (&[last][..], false, true)
        );
        found.take(&mut m);
        m.commit();
        for hint in [5000, bitmap::PAGES + 50] {
            let mut m = Mtr::begin(&e.store).ok().unwrap();
            assert!(matches!(reserve(&mut m, t.space, 1, hint), Err(WouldBlock::Extend(_))));
            assert!(!m.holds(map(0)) && !m.holds(map(1)));
        }
        e.close().await.unwrap();
    });
}

/// The first page that is used in a later part of a file need not be near the part's map. A map of
/// zeros is one that a crash kept from being written only where the whole part is empty; taken for
/// one where undo is, a rollback would miss what that undo has.
#[test]
fn a_map_of_zeros_before_undo_is_damage() {
    for which in [0, 1] {
        zeroed_map_of_undo(which);
    }
}
/// An open engine that puts undo into this space, and never truncates a space.
fn growing(dir: &Dir, which: usize) -> Arc<Engine> {
    let open_alone = || {
        let (e, _) = open(dir);
        e.undo.truncation.enable(false);
        e
    };
    let e = open_alone();
    if which == 0 {
        return e;
    }
    // A start chooses the shorter file.
    e.store.spaces.ensure(redolith_engine::SpaceId::UNDO[0], 1000).unwrap();
    block_on(e.close()).unwrap();
    drop(e);
    open_alone()
}
#[allow(clippy::disallowed_methods)] // damages a file behind the engine's back
fn zeroed_map_of_undo(which: usize) {
    use redolith_engine::testing::mtr::Mtr;
    use redolith_engine::testing::page::Patch;
    use redolith_engine::testing::space::bitmap;
    use redolith_engine::{PAGE_SIZE, PageId, SpaceId};
    use std::os::unix::fs::FileExt;
    const MAP: usize = bitmap::PAGES as usize / 8;
    let dir = Dir::new(["undo-map", "undo2-map"][which]);
    let e = growing(&dir, which);
    let map = |k: u32| PageId { space: SpaceId::UNDO[which], no: k * bitmap::PAGES + 1 };
    block_on(async {
        let t = table(&e).await;
        fill(&e, &t, 200).await;
        purged(&e).await;
        e.history.stop();
        let set = |bytes: &[u8]| {
            let mut m = Mtr::begin(&e.store).ok().unwrap();
            let at = m.x(map(0)).ok().unwrap();
            let before = m.page(at)[PAGE_SIZE - MAP..].to_vec();
            m.patch(at).write_changed(PAGE_SIZE - MAP, bytes);
            m.commit();
            before
        };
        // The first part of the file is full, so undo goes to its second part.
        e.store.spaces.ensure(SpaceId::UNDO[which], bitmap::PAGES + 500).unwrap();
        e.store.pool.load(map(0)).await.unwrap();
        let before = set(&[0xff; MAP]);
        churn(&e, &t, 1).await;
        e.store.pool.load(map(1)).await.unwrap();
        let mut m = Mtr::begin(&e.store).ok().unwrap();
        let at = m.x(map(1)).ok().unwrap();
        let extent = &m.page(at)[PAGE_SIZE - MAP..][8..16];
        assert!(extent.iter().any(|byte| *byte != 0), "undo space {which} has no second part");
        drop(m);
        set(&before);
        e.close().await.unwrap();
    });
    drop(e);

    let name = ["undo.rdl", "undo2.rdl"][which];
    let path = dir.0.join(name);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let at = u64::from(map(1).no) * PAGE_SIZE as u64;
    let (mut right, mut then) = (vec![0; PAGE_SIZE], vec![0; PAGE_SIZE]);
    file.read_exact_at(&mut right, at).unwrap();
    file.write_all_at(&then, at).unwrap();
    let why = try_open(&dir).map(|_| ()).expect_err("refused").to_string();
    assert!(why.contains(name) && why.contains(&map(1).to_string()), "{why}");
    file.read_exact_at(&mut then, at).unwrap();
    assert!(then.iter().all(|b| *b == 0), "a refused start changes nothing");
    file.write_all_at(&right, at).unwrap();

    let (e, report) = open(&dir);
    assert_eq!(report.history, 1);
    block_on(async {
        let t = table(&e).await;
        clean(&e, &t, 200).await;
        e.close().await.unwrap();
    });
}

#[allow(clippy::disallowed_methods)] // the files come from behind the engine's back
/// Only files that the engine names so are what a crash has left: others may have a living one's
/// number.
#[test]
fn strange_files_cost_no_table() {
    let dir = Dir::new("space-strange");
    let (e, _) = open(&dir);
    let space = block_on(async {
        let t = table(&e).await;
        fill(&e, &t, 10).await;
        e.close().await.unwrap();
        t.space.0
    });
    drop(e);
    let file = |name: &str| dir.0.join("tables").join(name);
    let strange = [
        "0.rdl".to_string(),
        "1.rdl".into(),
        "2.rdl".into(),
        format!("0{space}.rdl"),
        "copy.rdl".into(),
    ];
    for name in strange.iter().chain([&"9999.rdl".to_string()]) {
        std::fs::write(file(name), b"strange").unwrap();
    }
    let (e, _) = open(&dir);
    assert!(strange.iter().all(|name| file(name).exists()) && !file("9999.rdl").exists());
    block_on(async {
        let t = e.table("test", "t").await.unwrap().unwrap();
        sound(&e, &t, 10).await;
        e.close().await.unwrap();
    });
}

/// Tests TEMPTABLE-2 and TEMPTABLE-3.
#[test]
fn a_start_drops_temporary_tables() {
    let dir = Dir::new("space-temporary");
    let (e, _) = open(&dir);
    block_on(async {
        let t = table(&e).await;
        fill(&e, &t, 10).await;
        let mut trx = e.begin(KillFlag::new());
        trx.open_view();
        for n in 0..3 {
            let own = e.create_temporary_table(t.def.clone(), 1).await.unwrap();
            trx.insert(&own, &row(&own, n, 0)).await.unwrap();
            let mut rows = Cursor::new(own, 0, Vec::new(), None, false, Read::Consistent);
            assert!(rows.next(&mut trx).await.unwrap(), "TEMPTABLE-2");
        }
        commit(&mut trx).await;
        e.close().await.unwrap();
    });
    drop(e);
    for dropped in [3, 0] {
        let (e, report) = open(&dir);
        assert_eq!(report.temporary_tables, dropped, "TEMPTABLE-3");
        assert!(e.dict.tables(redolith_engine::dict::temporary::TEMPORARY_SCHEMA).is_empty());
        assert_eq!(e.disk.list(&dir.0.join("tables")).unwrap().len(), 1);
        block_on(async {
            let t = table(&e).await;
            sound(&e, &t, 10).await;
            e.close().await.unwrap();
        });
    }
}
