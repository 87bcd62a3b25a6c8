//! Tests of the pool through its public methods.
use super::testing::{MemDisk, pid, pool};
use super::*;
use crate::page::header;
use crate::runtime::block_on;
use crate::{Error, Lsn, PageId, WouldBlock};

fn fix(pool: &Arc<BufferPool>, id: PageId, latch: Latch) -> PageGuard {
    loop {
        match pool.fix(id, latch) {
            Ok(guard) => return guard,
            Err(WouldBlock::Page(id)) => block_on(pool.load(id)).unwrap(),
            Err(other) => panic!("{other:?}"),
        }
    }
}
fn dirty(guard: &mut PageGuard, lsn: u64) {
    guard.mark_dirty(Lsn(lsn), Lsn(lsn + 100));
}
fn disk(pages: u32) -> Arc<MemDisk> {
    let disk = Arc::new(MemDisk::default());
    disk.fill(16, pages);
    disk
}

#[test]
fn a_page_is_read_once_and_then_hit() {
    let disk = disk(10);
    let pool = pool(&disk, 64);
    assert!(
        matches!(pool.fix(pid(16, 3), Latch::S), Err(WouldBlock::Page(id)) if id == pid(16, 3))
    );
    let a = fix(&pool, pid(16, 3), Latch::S);
    let b = fix(&pool, pid(16, 3), Latch::S);
    assert_eq!((a[header::BODY], a.id(), a.frame(), a.lsn()), (3, pid(16, 3), b.frame(), Lsn(1)));
    assert!(pool.try_fix(pid(16, 3), Latch::X).unwrap().is_none());
    assert!(pool.fix_at(a.frame(), pid(16, 4), Latch::S).is_none());
    assert!(pool.fix_at(a.frame(), pid(16, 3), Latch::S).is_some());
    drop((a, b));
    assert_eq!(
        (disk.space(16).reads.load(Relaxed), pool.counters.reads.get(), pool.pages().data),
        (1, 1, 1)
    );
    assert!(!pool.any_held());
}

#[test]
fn waiters_for_one_page_share_one_read() {
    let disk = disk(10);
    let pool = pool(&disk, 64);
    disk.space(16).hold();
    assert!(pool.prefetch(pid(16, 5)).is_some());
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            std::thread::spawn(move || block_on(pool.load(pid(16, 5))).is_ok())
        })
        .collect();
    assert!(matches!(pool.fix(pid(16, 5), Latch::S), Err(WouldBlock::Page(_))));
    disk.space(16).release();
    assert!(waiters.into_iter().all(|w| w.join().unwrap()));
    assert_eq!(disk.space(16).reads.load(Relaxed), 1);
    assert_eq!(fix(&pool, pid(16, 5), Latch::X)[100], 5);
}

#[test]
fn latches_upgrade_and_downgrade_and_versions_move_with_changes() {
    let disk = disk(2);
    let pool = pool(&disk, 64);
    let mut sx = fix(&pool, pid(16, 1), Latch::SX);
    let s = fix(&pool, pid(16, 1), Latch::S);
    assert!(pool.try_fix(pid(16, 1), Latch::SX).unwrap().is_none() && !sx.try_upgrade());
    drop(s);
    sx.upgrade();
    assert!(pool.try_fix(pid(16, 1), Latch::S).unwrap().is_none());
    let version = sx.version();
    sx.bytes_mut()[500] = 77;
    dirty(&mut sx, 1000);
    assert!(sx.version() > version && sx.is_dirty());
    assert_eq!((sx.lsn(), pool.oldest_dirty()), (Lsn(1100), Lsn(1000)));
    sx.downgrade(Latch::S);
    assert_eq!(pool.try_fix(pid(16, 1), Latch::S).unwrap().unwrap()[500], 77);
    sx.downgrade(Latch::S);
    drop(sx);
    assert!(pool.try_fix(pid(16, 1), Latch::X).unwrap().is_some());
}

#[test]
fn corrupt_pages_are_named_and_leave_nothing_behind() {
    let disk = disk(10);
    disk.fill(17, 10);
    disk.space(16).write_at(&[9], 4 * PAGE_SIZE as u64 + 999).unwrap();
    disk.space(16).write_at(&[0; PAGE_SIZE], 5 * PAGE_SIZE as u64).unwrap();
    let moved = disk.space(16).bytes()[..PAGE_SIZE].to_vec();
    disk.space(16).write_at(&moved, 6 * PAGE_SIZE as u64).unwrap();
    let pool = pool(&disk, 64);
    for (no, wanted) in [(4, "checksum"), (5, "all zeros"), (6, "16:0"), (10, "past the end")] {
        match block_on(pool.load(pid(16, no))) {
            Err(Error::Corrupt { page, file, table, why }) => {
                assert_eq!((page, file.as_str(), table.as_str()), (pid(16, no), "space_16", "t16"));
                assert!(why.contains(wanted), "{why}");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(pool.fix(pid(16, no), Latch::S), Err(WouldBlock::Page(_))));
    }
    assert_eq!((pool.pages().data, pool.pages().free), (0, 64));
    assert!(matches!(block_on(pool.load(pid(99, 1))), Err(Error::Io { .. })));
    assert_eq!(fix(&pool, pid(16, 3), Latch::S)[100], 3);
    assert_eq!(fix(&pool, pid(17, 4), Latch::S)[100], 4);
}

#[test]
fn create_gives_zeros_whatever_was_there_and_overtakes_a_read() {
    let disk = disk(10);
    let pool = pool(&disk, 64);
    drop(fix(&pool, pid(16, 1), Latch::S));
    let page = pool.create(pid(16, 1)).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(page.latch() == Latch::X && page.id() == pid(16, 1) && header::id(&page) == pid(16, 1));
    assert!(page[header::BODY..].iter().all(|&b| b == 0));
    drop(page);
    disk.space(16).hold();
    assert!(pool.prefetch(pid(16, 2)).is_some());
    let mut page = pool.create(pid(16, 2)).unwrap();
    page.bytes_mut()[300] = 42;
    dirty(&mut page, 500);
    drop(page);
    disk.space(16).release();
    assert_eq!(fix(&pool, pid(16, 2), Latch::S)[300], 42);
    assert_eq!((pool.pages().data, pool.pages().free), (2, 62));
}

#[test]
fn dirty_and_pinned_pages_are_not_evicted() {
    let disk = disk(500);
    let pool = pool(&disk, 64);
    let pinned = fix(&pool, pid(16, 0), Latch::S);
    for no in 1..6 {
        dirty(&mut fix(&pool, pid(16, no), Latch::X), 1000 + u64::from(no));
    }
    for no in 6..400 {
        assert_eq!(fix(&pool, pid(16, no), Latch::S)[100], no as u8);
    }
    assert_eq!(pool.pages().free, 0);
    for no in 0..6 {
        assert!(pool.contains(pid(16, no)), "page {no}");
    }
    assert!(!pool.contains(pid(16, 6)) && pool.contains(pid(16, 399)));
    drop(pinned);
    // With dirty pages alone a caller has to wait for a frame, and gets one when a page becomes
    // clean.
    let pool = super::testing::pool(&disk, 64);
    for no in 0..64 {
        dirty(&mut pool.create(pid(16, no)).unwrap(), 1000);
    }
    assert!(matches!(pool.create(pid(16, 64)), Err(WouldBlock::Frame)));
    let waiter = {
        let pool = pool.clone();
        std::thread::spawn(move || block_on(pool.load(pid(16, 70))).unwrap())
    };
    while !pool.frame_freed.has_waiters() {
        std::thread::yield_now();
    }
    let guard = fix(&pool, pid(16, 9), Latch::X);
    pool.dirty.take_out(&pool.frames, guard.frame().0, false);
    drop(guard);
    assert_eq!(pool.refill_free(1, 1000).len(), 9, "those before the clean one stand in the way");
    waiter.join().unwrap();
    assert!(!pool.contains(pid(16, 9)) && pool.contains(pid(16, 70)));
}

#[test]
fn dropped_spaces_leave_clean_frames() {
    let disk = disk(20);
    disk.fill(17, 20);
    let pool = pool(&disk, 64);
    for no in 0..10 {
        let mut page = fix(&pool, pid(16, no), Latch::X);
        drop(fix(&pool, pid(17, no), Latch::S));
        if no % 2 == 0 {
            dirty(&mut page, 100);
        }
    }
    assert_eq!(
        pool.drop_space(SpaceId(16), Lsn(199)),
        Some(Lsn(200)),
        "what is not durable in the log stays"
    );
    assert_eq!((pool.pages().dirty, pool.oldest_dirty()), (5, Lsn(100)));
    assert_eq!(pool.drop_space(SpaceId(16), Lsn(200)), None);
    assert_eq!((pool.pages().data, pool.pages().dirty, pool.pages().free), (10, 0, 54));
    assert_eq!(pool.oldest_dirty(), Lsn::MAX);
    assert!(!pool.contains(pid(16, 4)) && pool.contains(pid(17, 4)));
}

/// Tests BUF-1.
#[test]
fn a_pool_dropped_under_a_guard_is_leaked_not_freed() {
    let pool = pool(&disk(3), 64);
    let page = fix(&pool, pid(16, 2), Latch::S);
    drop(pool);
    assert_eq!(page[100], 2);
}

/// 8 threads use a pool much smaller than the data, and each frame always has the page asked for.
/// The test has no files and no checksums, so Miri runs it too.
#[test]
fn frames_change_hands_beside_readers() {
    let pool = pool(&Arc::default(), 64);
    let (first, last) = (60, if cfg!(miri) { 72 } else { 2000 });
    let create = |no| {
        if let Ok(mut page) = pool.create(pid(16, no)) {
            page.bytes_mut()[header::BODY..][..4].copy_from_slice(&no.to_le_bytes());
            page.downgrade(Latch::S);
            assert_eq!(page[header::BODY..][..4], no.to_le_bytes());
        }
    };
    (0..first).for_each(create);
    std::thread::scope(|s| {
        s.spawn(|| (first..last).step_by(2).for_each(create));
        s.spawn(|| (first + 1..last).step_by(2).for_each(create));
        for latch in [Latch::S, Latch::SX, Latch::X] {
            let pool = &pool;
            s.spawn(move || {
                for no in (0..last).rev() {
                    let Ok(mut page) = pool.fix(pid(16, no), latch) else { continue };
                    assert_eq!(page[header::BODY..][..4], no.to_le_bytes());
                    if latch == Latch::X || latch == Latch::SX && page.try_upgrade() {
                        page.bytes_mut()[header::BODY + 4] += 1;
                    }
                }
            });
        }
    });
    assert!(!pool.any_held());
}

#[test]
fn threads_and_evictions() {
    let disk = disk(1000);
    let pool = pool(&disk, 96);
    let threads: Vec<_> = (0..8u32)
        .map(|t| {
            let pool = pool.clone();
            std::thread::spawn(move || {
                let mut x = t.wrapping_mul(0x9E37_79B9) | 1;
                for _ in 0..3000 {
                    x ^= x << 13;
                    x ^= x >> 17;
                    x ^= x << 5;
                    let no = if x & 1 == 0 { x % 20 } else { x % 1000 };
                    let latch = [Latch::S, Latch::SX, Latch::X][(x >> 8) as usize % 3];
                    let page = fix(&pool, pid(16, no), latch);
                    assert_eq!((header::id(&page), page[9000]), (pid(16, no), no as u8));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let pages = pool.pages();
    assert_eq!(pages.data + pages.free, 96);
    assert!(pool.counters.pages_evicted.get() > 900 && !pool.any_held());
}
