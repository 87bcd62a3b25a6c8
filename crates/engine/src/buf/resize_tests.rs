//! Tests of the pool's steps to another size, without the task that takes them.
use super::resize::{Left, Moved, Step};
use super::testing::{MemDisk, pid};
use super::*;
use crate::page::header;
use crate::testing::AtEnd;
use crate::{Lsn, WouldBlock};

fn pool_of(disk: &Arc<MemDisk>, frames: usize, most: usize, instances: usize) -> Arc<BufferPool> {
    let config = BufConfig { frames, frames_max: most, instances, ..BufConfig::new(0, 256 << 20) };
    BufferPool::new(&config, disk.clone(), disk.clone()).unwrap()
}
fn grow_table(pool: &Pool, frames: u32) {
    while let Some(shards) = pool.begin_table_growth(frames).unwrap() {
        (0..shards).for_each(|shard| while pool.grow_table(shard) {});
        pool.end_table_growth();
    }
}
/// A growth of the page table that another size has replaced is ended, although that size needs no
/// larger table: who looks for a page without a lock would miss it for ever.
#[test]
fn a_growth_that_was_not_ended_is_ended_with_the_next_size() {
    let disk = Arc::new(MemDisk::default());
    let pool = pool_of(&disk, 64, 4096, 1);
    (0..32).for_each(|no| create(&pool, no));
    let found = || {
        let at = |no| pool.table.find(&pool.frames, super::frame::pack(pid(16, no)));
        (0..32).filter(|no| at(*no).is_some()).count()
    };
    assert_eq!(found(), 32);
    let shards = pool.begin_table_growth(4096).unwrap().expect("it is too small");
    (0..shards - 1).for_each(|shard| while pool.grow_table(shard) {});
    assert!(found() < 32, "these chains are divided");
    grow_table(&pool, 64);
    assert_eq!(found(), 32);
    grow_table(&pool, 4096);
    assert_eq!(found(), 32);
}
/// Takes the steps of the task until the pool has its size, or some steps got no further.
fn resize(pool: &Pool, frames: u32) -> Step {
    let mut left = Left::default();
    grow_table(pool, frames);
    pool.grow(frames).unwrap();
    for i in 0..pool.instances() {
        while let Some(part) = pool.begin_withdrawal(i, frames) {
            let mut steps = (0..10).map(|_| pool.withdraw(&part, &mut left));
            let mut last = Step::Busy;
            if !steps.any(|step| {
                last = step;
                step == Step::Done
            }) {
                pool.give_up(&part);
                return last;
            }
        }
    }
    while pool.give_left(&mut left) {
        std::thread::yield_now();
    }
    assert_eq!(pool.size(), frames as usize);
    Step::Done
}
fn create(pool: &Pool, no: u32) {
    let mut page = pool.create(pid(16, no)).unwrap();
    page.bytes_mut()[header::BODY..][..4].copy_from_slice(&no.to_le_bytes());
}
fn make_dirty(pool: &Pool, no: u32) {
    let start = 1000 + u64::from(no);
    pool.fix(pid(16, no), Latch::X).unwrap().mark_dirty(Lsn(start), Lsn(start + 100));
}
/// Whether the page is there, with its content.
fn there(pool: &Pool, no: u32) -> bool {
    match pool.fix(pid(16, no), Latch::S) {
        Ok(page) => {
            assert_eq!((page.id(), header::id(&page)), (pid(16, no), pid(16, no)));
            assert_eq!(page[header::BODY..][..4], no.to_le_bytes());
            true
        }
        Err(WouldBlock::Page(_)) => false,
        Err(_) => panic!("a look-up waits for nothing else"),
    }
}
/// Each frame is free or has a page, and each page is found once.
fn whole(pool: &Pool, pages: u32) -> u32 {
    let found = (0..pages).filter(|no| there(pool, *no)).count();
    let sums = pool.pages();
    assert_eq!((sums.data, sums.free), (found, pool.size() - found));
    assert!(!pool.any_held());
    found as u32
}

/// Tests RESIZE-1.
#[test]
fn pages_stay_in_a_pool_that_grows_and_shrinks() {
    for instances in [1, 2, 3, 7] {
        let (least, most) = (64 * instances as u32, 2000);
        let pool = pool_of(&Arc::default(), least as usize, most as usize, instances);
        assert_eq!(pool.sizes(), least..=most);
        (0..least).for_each(|no| create(&pool, no));
        // Frames come into use, go out of it, and come again.
        for (more, less) in [(least + 1, least), (1500, 700), (2000, least + 5), (1300, 1299)] {
            assert_eq!(resize(&pool, more), Step::Done);
            let end = more - 100.min(more - least);
            (least..end).for_each(|no| drop(pool.create(pid(17, no)).unwrap()));
            (0..50).for_each(|no| {
                if !there(&pool, no) {
                    create(&pool, no)
                }
            });
            (0..20).for_each(|no| make_dirty(&pool, no));
            let oldest = pool.oldest_dirty();
            assert_eq!(resize(&pool, less), Step::Done);
            assert!((0..20).all(|no| there(&pool, no)), "dirty pages stay");
            assert_eq!((pool.pages().dirty, pool.oldest_dirty()), (20, oldest));
            for no in 0..20 {
                let page = pool.fix(pid(16, no), Latch::X).unwrap();
                assert!(page.is_dirty());
                pool.dirty.take_out(&pool.frames, page.frame().0, false);
            }
            // All pages of the other space went or moved.
            assert_eq!(pool.drop_space(SpaceId(17), Lsn::MAX), None);
            whole(&pool, least);
        }
        assert!(pool.counters.pages_moved.get() > 500, "{}", pool.counters.pages_moved.get());
        assert!(pool.counters.pages_evicted.get() > 500);
    }
}

/// The pages that were used last stay.
#[test]
fn the_coldest_pages_go() {
    let pool = pool_of(&Arc::default(), 512, 512, 1);
    (0..512).for_each(|no| create(&pool, no));
    assert_eq!(resize(&pool, 384), Step::Done);
    assert_eq!(whole(&pool, 512), 384);
    assert!((128..512).all(|no| there(&pool, no)));
}

/// Tests PIN-4 for pages that are to move, and what becomes of a size that is not reached.
#[test]
fn pages_that_are_written_or_read_hold_their_frames() {
    let disk = Arc::new(MemDisk::default());
    disk.fill(18, 4);
    let pool = pool_of(&disk, 192, 256, 1);
    (0..191).for_each(|no| create(&pool, no));
    // The last frame is the one of a read.
    disk.space(18).hold();
    assert!(pool.prefetch(pid(18, 2)).is_some());
    assert_eq!(resize(&pool, 100), Step::Busy);
    assert_eq!(pool.size(), 192, "what was withdrawn came back");
    disk.space(18).release();
    assert!(pool.contains(pid(18, 2)));
    // One page is being written, from its claim until the write has ended.
    create(&pool, 500);
    make_dirty(&pool, 500);
    let index = pool.fix(pid(16, 500), Latch::S).unwrap().frame().0;
    let frame = pool.frames.get(index);
    assert!(index >= 100 && pool.dirty.claim(frame));
    assert_eq!(resize(&pool, 100), Step::Busy);
    pool.dirty.take_out(&pool.frames, index, true);
    assert_eq!(resize(&pool, 100), Step::Busy, "it is clean, and still being written");
    pool.dirty.written(vec![Lsn(1500)]);
    frame.writing.store(false, Release);
    assert_eq!(resize(&pool, 100), Step::Done);
    assert!(there(&pool, 500) && pool.contains(pid(18, 2)));
    assert_eq!(pool.drop_space(SpaceId(18), Lsn::MAX), None);
    whole(&pool, 501);
}

#[test]
fn a_pool_of_dirty_pages_shrinks_when_they_are_written() {
    let pool = pool_of(&Arc::default(), 200, 300, 1);
    (0..200).for_each(|no| create(&pool, no));
    (0..200).for_each(|no| make_dirty(&pool, no));
    assert_eq!(resize(&pool, 150), Step::NoFrame);
    assert_eq!((pool.size(), whole(&pool, 200)), (200, 200));
    // A size that was given up may be followed by a larger one.
    assert_eq!(resize(&pool, 250), Step::Done);
    assert_eq!((pool.free_frames(), whole(&pool, 200)), (50, 200));
    for no in 0..120 {
        let page = pool.fix(pid(16, no), Latch::X).unwrap();
        pool.dirty.take_out(&pool.frames, page.frame().0, false);
    }
    assert_eq!(resize(&pool, 150), Step::Done);
    assert_eq!((whole(&pool, 200), pool.pages().dirty), (150, 80));
}

/// Tests FORGET-1.
#[test]
fn pages_of_a_space_that_is_being_forgotten_do_not_move() {
    let pool = pool_of(&Arc::default(), 128, 128, 1);
    (0..100).for_each(|no| create(&pool, no));
    make_dirty(&pool, 99);
    let (index, mut left) = (pool.fix(pid(16, 99), Latch::S).unwrap().frame().0, Left::default());
    let mut forgetting = pool.begin_forgetting(SpaceId(16), Lsn::MAX);
    assert_eq!(pool.move_page(index, &mut left), Moved::Not);
    assert!(there(&pool, 99));
    while forgetting.part() {}
    assert_eq!(forgetting.end(), None);
    assert_eq!((whole(&pool, 100), pool.pages().dirty), (0, 0));
    create(&pool, 1);
    let index = pool.fix(pid(16, 1), Latch::S).unwrap().frame().0;
    assert!(matches!(pool.move_page(index, &mut left), Moved::To(_)));
    assert!(!pool.give_left(&mut left));
    assert_eq!(whole(&pool, 100), 1);
}

/// A latch holds a move up, and a thread that waits for the latch of a page that moves finds the
/// page in its new frame.
/// Tests PIN-5.
#[test]
fn who_waits_for_a_latch_finds_the_page_that_moved() {
    let pool = pool_of(&Arc::default(), 128, 128, 1);
    for round in 0..if cfg!(miri) { 5 } else { 300 } {
        create(&pool, round);
        make_dirty(&pool, round);
        let held = pool.fix(pid(16, round), Latch::X).unwrap();
        let index = held.frame().0;
        std::thread::scope(|s| {
            let moves = s.spawn(|| {
                let mut left = Left::default();
                let moved = pool.move_page(index, &mut left);
                while pool.give_left(&mut left) {
                    std::thread::yield_now();
                }
                moved
            });
            let waits: Vec<_> = [Latch::S, Latch::SX, Latch::X]
                .map(|latch| {
                    let pool = &pool;
                    s.spawn(move || {
                        let page = pool.fix(pid(16, round), latch).unwrap();
                        assert_eq!(page[header::BODY..][..4], round.to_le_bytes());
                        assert_eq!(page.id(), pid(16, round));
                    })
                })
                .into();
            drop(held);
            waits.into_iter().for_each(|w| w.join().unwrap());
            assert!(matches!(moves.join().unwrap(), Moved::To(to) if to != index));
        });
        assert!(there(&pool, round));
        assert_eq!(pool.drop_space(SpaceId(16), Lsn::MAX), None);
        assert_eq!(pool.free_frames(), 128);
    }
}

/// Tests TABLE-4 and RESIZE-1: pages that stay are found at any time, whatever the pool does.
#[test]
fn pages_are_found_while_the_pool_is_resized() {
    let most = if cfg!(miri) { 512 } else { 8192 };
    let pool = pool_of(&Arc::default(), 128, most, 2);
    let (keep, last) = (40, if cfg!(miri) { 60 } else { 4000 });
    (0..keep).for_each(|no| create(&pool, no));
    (0..keep).for_each(|no| make_dirty(&pool, no));
    let ended = AtomicU32::new(0);
    std::thread::scope(|s| {
        for latch in [Latch::S, Latch::SX, Latch::X] {
            let (pool, ended) = (&pool, &ended);
            s.spawn(move || {
                while ended.load(Relaxed) < 2 {
                    for no in 0..keep {
                        let page = pool.fix(pid(16, no), latch).unwrap();
                        assert_eq!(page[header::BODY..][..4], no.to_le_bytes());
                    }
                }
            });
        }
        s.spawn(|| {
            let _ends = AtEnd(|| _ = ended.fetch_add(1, Relaxed));
            for no in keep..last {
                if let Ok(page) = pool.create(pid(16, no)) {
                    assert_eq!(page.id(), pid(16, no));
                }
            }
        });
        let _ends = AtEnd(|| _ = ended.fetch_add(1, Relaxed));
        for round in 0..if cfg!(miri) { 2 } else { 12 } {
            let frames = [most as u32 / 2, 130, most as u32, 128 + round][round as usize % 4];
            while resize(&pool, frames) != Step::Done {
                std::thread::yield_now();
            }
        }
    });
    assert!((0..keep).all(|no| there(&pool, no)));
    let sums = pool.pages();
    assert_eq!((sums.data + sums.free, sums.dirty), (pool.size(), keep as usize));
}

/// A pool of 64 GiB, of which little is used: no step goes through all its frames.
#[test]
#[cfg_attr(miri, ignore = "Miri has no memory that is only reserved")]
fn a_huge_pool_costs_what_is_used_of_it() {
    let most = 4 << 20;
    let pool = pool_of(&Arc::default(), 2000, most, 8);
    (0..1000).for_each(|no| create(&pool, no));
    assert_eq!(resize(&pool, most as u32), Step::Done);
    assert_eq!(pool.pages().free, most - 1000);
    assert!(pool.instances.iter().map(|i| i.used().len()).sum::<usize>() <= 1000);
    let mut parts = 1;
    let mut forgetting = pool.begin_forgetting(SpaceId(17), Lsn::MAX);
    while forgetting.part() {
        parts += 1;
    }
    assert_eq!((parts, forgetting.end()), (8, None));
    assert_eq!(pool.last_used(100).len(), 1000);
    assert_eq!(resize(&pool, 600), Step::Done);
    assert_eq!(whole(&pool, 1000), 600);
}
