//! Models of the pool: threads fix, evict, create and load pages at the same time. The code is the
//! pool's own, over two frames. Loom replaces its atomics, mutexes and latches (`sync/buf.rs`) and
//! watches all accesses to a page's bytes (`Frame::page`).
use super::frame::FrameRef;
use super::pool::Pool;
use super::resize::{Left, Moved};
use super::testing::{MemDisk, pid};
use super::*;
use crate::page::header;
use crate::sync::loom_model::explore;
use crate::{Lsn, Try, WouldBlock};
use loom::thread;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const FRAMES: usize = 2;

fn pool(disk: &Arc<MemDisk>) -> Arc<BufferPool> {
    let config = BufConfig { frames: FRAMES, frames_max: 2 * FRAMES, ..BufConfig::new(0, 4096) };
    BufferPool::new(&config, disk.clone(), disk.clone()).unwrap()
}
/// A pool with these pages, of which the first is the coldest.
fn pool_with(pages: &[PageId]) -> Arc<BufferPool> {
    let pool = pool(&Arc::default());
    pages.iter().for_each(|&id| drop(pool.create(id).unwrap()));
    pool
}
/// Makes a page dirty, so that no eviction takes it.
fn dirty(pool: &Pool, id: PageId) {
    pool.fix(id, Latch::X).unwrap().mark_dirty(Lsn(1), Lsn(2));
}
/// Checks that a latched page is the page asked for. Returns whether the page was in the pool.
fn look(page: Try<PageGuard>, id: PageId) -> bool {
    match page {
        Ok(page) => {
            assert_eq!((page.id(), header::id(&page)), (id, id), "PIN-2");
            true
        }
        Err(WouldBlock::Page(missing)) => {
            assert_eq!(missing, id);
            false
        }
        Err(_) => panic!("a look-up waits for nothing else"),
    }
}
fn create(pool: &Pool, id: PageId) -> bool {
    match pool.create(id) {
        Ok(page) => {
            assert_eq!((page.id(), header::id(&page)), (id, id), "PIN-2");
            true
        }
        Err(WouldBlock::Frame) => false,
        Err(_) => panic!("what is made needs a frame at most"),
    }
}
/// Checks TABLE-3, and that no frame is lost: each frame is free or has a page that is found, and
/// nobody holds a frame.
fn settled(pool: &Pool, pages: &[PageId]) {
    let there = pages.iter().filter(|&&id| look(pool.fix(id, Latch::X), id)).count();
    assert_eq!((pool.free_frames(), pool.any_held()), (FRAMES - there, false));
}
/// The first pages of a space that are in one chain of the table, and one page in another chain.
fn chained(many: usize) -> (Vec<PageId>, PageId) {
    let of = |id: &PageId| page_table::Table::chain(FRAMES as u32, *id);
    let first = pid(1, 1);
    let same = (1..).map(|no| pid(1, no)).filter(|id| of(id) == of(&first)).take(many).collect();
    (same, (1..).map(|no| pid(1, no)).find(|id| of(id) != of(&first)).unwrap())
}
const P: PageId = PageId { space: SpaceId(1), no: 1 };
const Q: PageId = PageId { space: SpaceId(1), no: 2 };
const R: PageId = PageId { space: SpaceId(1), no: 3 };

/// PIN-2, BUF-2: a page is fixed while another page is made, which needs the frame of the first.
#[test]
fn loom_a_page_is_fixed_while_it_is_evicted() {
    explore(3, || {
        let pool = pool_with(&[P, Q]);
        let other = pool.clone();
        let evicts = thread::spawn(move || create(&other, R));
        look(pool.fix(P, Latch::S), P);
        evicts.join().unwrap();
        settled(&pool, &[P, Q, R]);
    });
}
/// A thread fixes a page in the frame where it saw the page before, without a look-up, to change
/// the page.
/// Tests PIN-1.
#[test]
fn loom_a_page_is_fixed_where_it_was_while_its_frame_gets_another() {
    explore(3, || {
        let pool = pool_with(&[P, Q]);
        let at = pool.fix(P, Latch::S).unwrap().frame();
        let other = pool.clone();
        let evicts = thread::spawn(move || create(&other, R));
        if let Some(mut page) = pool.fix_at(at, P, Latch::X) {
            page.bytes_mut()[header::BODY] = 1;
            look(Ok(page), P);
        }
        evicts.join().unwrap();
        settled(&pool, &[P, Q, R]);
    });
}
/// A pin keeps the page while a thread waits for its latch.
#[test]
fn loom_a_latch_is_waited_for_while_its_holder_goes_and_the_page_is_evicted() {
    explore(2, || {
        let pool = pool_with(&[P, Q]);
        let held = pool.fix(P, Latch::X).unwrap();
        let (waiter, evicter) = (pool.clone(), pool.clone());
        let waits = thread::spawn(move || look(waiter.fix(P, Latch::S), P));
        let evicts = thread::spawn(move || create(&evicter, R));
        drop(held);
        waits.join().unwrap();
        evicts.join().unwrap();
        settled(&pool, &[P, Q, R]);
    });
}
/// An SX latch becomes an X latch when the readers have gone.
#[test]
fn loom_a_page_is_read_while_a_latch_is_raised() {
    explore(3, || {
        let pool = pool_with(&[P]);
        let other = pool.clone();
        let reads = thread::spawn(move || look(other.fix(P, Latch::S), P));
        let mut page = pool.fix(P, Latch::SX).unwrap();
        if page.try_upgrade() {
            page.bytes_mut()[header::BODY] = 1;
            page.downgrade(Latch::SX);
        }
        page.upgrade();
        page.bytes_mut()[header::BODY] = 2;
        drop(page);
        assert!(reads.join().unwrap());
        settled(&pool, &[P]);
    });
}
/// TABLE-1, TABLE-2: a page that stays in the pool is found, while a page in front of it leaves the
/// chain and comes back elsewhere or in the same chain.
fn found_beside_changes(same_chain: bool) {
    explore(3, move || {
        let (chain, elsewhere) = chained(3);
        let (stays, goes, comes) =
            (chain[0], chain[1], if same_chain { chain[2] } else { elsewhere });
        let pool = pool_with(&[stays, goes]);
        dirty(&pool, stays);
        let other = pool.clone();
        let changes = thread::spawn(move || create(&other, comes));
        assert!(look(pool.fix(stays, Latch::S), stays), "TABLE-2: a page that is there is found");
        changes.join().unwrap();
        settled(&pool, &[stays, goes, comes]);
    });
}
#[test]
fn loom_a_page_is_found_while_its_chain_loses_one_to_another_chain() {
    found_beside_changes(false);
}
#[test]
fn loom_a_page_is_found_while_one_of_its_chain_becomes_another() {
    found_beside_changes(true);
}
/// TABLE-3: two threads make the same page.
#[test]
fn loom_two_make_the_same_page() {
    explore(3, || {
        let pool = pool_with(&[Q]);
        let other = pool.clone();
        let makes = thread::spawn(move || create(&other, P));
        create(&pool, P);
        makes.join().unwrap();
        assert!(look(pool.fix(P, Latch::S), P));
        settled(&pool, &[P, Q]);
    });
}
/// LOAD-1, LOAD-2: a read ends while other threads want the page. `beside` gets the page's frame,
/// and returns whether it has made the page anew.
fn load_ends_beside(beside: fn(&Pool, FrameRef) -> bool) {
    explore(3, move || {
        let disk = Arc::new(MemDisk::default());
        disk.fill(P.space.0, P.no + 1);
        let (pool, file) = (pool(&disk), disk.space(P.space.0));
        file.hold();
        let mut load = Box::pin({
            let pool = pool.clone();
            async move { pool.load(P).await.unwrap() }
        });
        let mut poll = || load.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        let ends = thread::spawn(move || file.release());
        // An empty pool gives out its first frame first.
        let made = beside(&pool, FrameRef(0));
        ends.join().unwrap();
        assert_eq!(poll(), Poll::Ready(()));
        assert_eq!(
            pool.fix(P, Latch::S).unwrap()[header::BODY],
            if made { 0 } else { P.no as u8 },
            "LOAD-2"
        );
        settled(&pool, &[P]);
    });
}
fn look_at_read(page: PageGuard) {
    assert_eq!(page[header::BODY], P.no as u8, "BUF-4");
    look(Ok(page), P);
}
/// Tests LOAD-3.
#[test]
fn loom_a_load_ends_while_its_page_is_looked_for() {
    load_ends_beside(|pool, _| {
        pool.fix(P, Latch::S).ok().into_iter().for_each(look_at_read);
        false
    });
}
/// The page was in that frame before, was evicted, and comes again: only its id tells the
/// difference.
#[test]
fn loom_a_load_ends_while_its_page_is_fixed_where_it_was() {
    load_ends_beside(|pool, at| {
        pool.fix_at(at, P, Latch::S).into_iter().for_each(look_at_read);
        false
    });
}
/// The bytes that were read are thrown away, or `create` replaces them.
#[test]
fn loom_a_load_ends_while_its_page_is_made() {
    load_ends_beside(|pool, _| create(pool, P));
}

/// Moves the page of the first frame to the other frame.
fn moves(pool: &Pool) -> (Moved, Left) {
    let mut left = Left::default();
    (pool.move_page(0, &mut left), left)
}
/// RESIZE-1: a page is looked for, or fixed in the frame where it was, while it moves. The thread
/// changes the page if it has the latch for that. It may wait for a latch that the move holds
/// (PIN-5).
fn found_while_it_moves(fix: fn(&Pool) -> Option<PageGuard>) {
    explore(3, move || {
        let pool = pool_with(&[P]);
        let other = pool.clone();
        let mover = thread::spawn(move || moves(&other));
        if let Some(mut page) = fix(&pool) {
            if page.latch() == Latch::X {
                page.bytes_mut()[header::BODY] = 1;
            }
            look(Ok(page), P);
        }
        let (moved, mut left) = mover.join().unwrap();
        assert_eq!(moved, Moved::To(1));
        assert!(!pool.give_left(&mut left), "PIN-5: nobody waits any more");
        assert_eq!(pool.fix(P, Latch::S).unwrap().frame(), FrameRef(1));
        settled(&pool, &[P]);
    });
}
#[test]
fn loom_a_page_is_found_while_it_moves() {
    found_while_it_moves(|pool| {
        let page = pool.fix(P, Latch::X);
        assert!(page.is_ok(), "RESIZE-1");
        page.ok()
    });
}
#[test]
fn loom_a_page_is_fixed_where_it_was_while_it_moves() {
    found_while_it_moves(|pool| pool.fix_at(FrameRef(0), P, Latch::S));
}
/// A page moves while another page is made, for which it may be evicted, and which may take the
/// frame that it leaves.
#[test]
fn loom_a_page_moves_while_another_is_made() {
    explore(3, || {
        let pool = pool_with(&[P]);
        let other = pool.clone();
        let makes = thread::spawn(move || create(&other, Q));
        let (_, mut left) = moves(&pool);
        assert!(!pool.give_left(&mut left));
        makes.join().unwrap();
        assert!(!pool.give_left(&mut left));
        settled(&pool, &[P, Q]);
    });
}
/// TABLE-4: a page that stays is found while its chain is divided, and another page of the chain
/// goes.
#[test]
fn loom_a_page_is_found_while_its_chain_is_divided() {
    explore(3, || {
        let (chain, _) = chained(3);
        let pool = pool_with(&chain[..2]);
        dirty(&pool, chain[0]);
        let other = pool.clone();
        let grows = thread::spawn(move || {
            let shards = other.begin_table_growth(2 * FRAMES as u32).unwrap().expect("too small");
            (0..shards).for_each(|shard| assert!(!other.grow_table(shard)));
            other.end_table_growth();
        });
        assert!(look(pool.fix(chain[0], Latch::S), chain[0]), "TABLE-4");
        create(&pool, chain[2]);
        grows.join().unwrap();
        assert!(look(pool.fix(chain[0], Latch::S), chain[0]), "TABLE-4");
        settled(&pool, &chain);
    });
}
