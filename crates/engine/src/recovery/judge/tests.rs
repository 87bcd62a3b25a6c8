use super::*;
use crate::log::Log;
use crate::runtime::{Threads, block_on};
use crate::undo::UndoPages;
use crate::{Config, Engine, WouldBlock};
use redolith_disk::{Disk, RealDisk};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// An engine in a new directory.
fn opened(dir: &Path, pool_bytes: u64) -> (Arc<dyn Disk>, Config, Arc<Engine>) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut config = Config::new(dir);
    config.pool_bytes = pool_bytes as _;
    let opened = Engine::open(config.clone(), disk.clone(), Threads::new(disk.clone()));
    (disk, config, block_on(opened).unwrap().0)
}

/// Tests JUDGE-6: a page's LSN is found while no frame of the pool is free, and without a cleaner
/// that would free one.
#[test]
fn a_page_without_a_frame_is_read_past_the_pool() {
    let dir = std::env::temp_dir().join(format!("redolith-judge-{}", std::process::id()));
    let (tell, told) = mpsc::channel();
    let judging = dir.clone();
    std::thread::spawn(move || {
        let (disk, config, e) = opened(&dir, 5 << 20);
        block_on(e.close()).unwrap();
        let pool = BufferPool::new(&config.buf(), e.store.spaces.clone(), disk.clone()).unwrap();
        let copies = Copies::default();
        let mut judge =
            Judge::new(&pool, &e.store.spaces, &copies, Bounds::of(&pool), Forced::default());
        let id = PageId { space: SpaceId::SYSTEM, no: 2 };
        let with_room = block_on(judge.lsn_of(id, false)).unwrap();
        let mut held = Vec::new();
        let full = loop {
            match pool.create(PageId { space: SpaceId::SYSTEM, no: 1000 + held.len() as u32 }) {
                Ok(page) => held.push(page),
                Err(full) => break full,
            }
        };
        assert!(matches!(full, WouldBlock::Frame) && !pool.contains(id));
        let without = block_on(judge.lsn_of(id, false)).unwrap();
        held.clear();
        tell.send((with_room, without)).unwrap();
    });
    let (with_room, without) = told.recv_timeout(Duration::from_secs(60)).expect("no wait");
    assert!(with_room.is_some());
    assert_eq!(with_room, without);
    std::fs::remove_dir_all(judging).unwrap();
}

/// Numbers of pages that lie, and pages of a column that go round in a circle, are errors that name
/// the file, and cost neither time nor memory.
#[test]
fn numbers_that_lie_are_told() {
    let dir = std::env::temp_dir().join(format!("redolith-judge-lies-{}", std::process::id()));
    let (disk, config, e) = opened(&dir, 5 << 20);
    block_on(e.close()).unwrap();
    let pool = BufferPool::new(&config.buf(), e.store.spaces.clone(), disk.clone()).unwrap();
    let copies = Copies::default();
    let mut judge =
        Judge::new(&pool, &e.store.spaces, &copies, Bounds::of(&pool), Forced::default());
    let last = PageId { space: SpaceId::SYSTEM, no: PageNo::MAX };
    let why = judge.can_be(last).unwrap_err().to_string();
    assert!(why.contains("page 0:4294967295 of ") && why.contains("system.rdl"), "{why}");
    let used = judge.in_use(SpaceId::SYSTEM).unwrap();
    judge.system.insert(last, Err("it lies".into()));
    assert_eq!(judge.in_use(SpaceId::SYSTEM).unwrap(), used);
    assert!(judge.system.len() < 10, "{} pages are in memory", judge.system.len());

    // A page of 100 bytes, whose next page is the page before it.
    for (no, next) in [(7u32, 8u32), (8, 7)] {
        let mut page = Box::new([0; PAGE_SIZE]);
        page[12..14].copy_from_slice(&kind::OVERFLOW.to_le_bytes());
        page[24..28].copy_from_slice(&next.to_le_bytes());
        page[28..30].copy_from_slice(&100u16.to_le_bytes());
        judge.system.insert(PageId { space: SpaceId::SYSTEM, no }, Ok(page));
    }
    assert_eq!(judge.chain(7, 200).unwrap().len(), 200);
    let why = judge.chain(7, 1 << 31).unwrap_err().to_string();
    assert!(why.contains("system.rdl") && why.contains("come back to page 0:7"), "{why}");
    drop(e);
    std::fs::remove_dir_all(dir).unwrap();
}

/// Tests JUDGE-9 and UNDOSCAN-2: however few undo pages are built at a time, and however few logs
/// are kept, the undo spaces are the same.
#[test]
fn undo_pages_are_built_in_groups() {
    let dir = std::env::temp_dir().join(format!("redolith-judge-undo-{}", std::process::id()));
    let (disk, config, e) = opened(&dir, 8 << 20);
    e.flush_settings.checkpoint_interval_ms.set(u32::MAX);
    e.history.stop();
    block_on(async {
        for n in 0..100 {
            let name = format!("s{n}");
            e.create_schema(&name, crate::DEFAULT_COLLATION, None).await.unwrap();
        }
        e.store.log.flush_to(e.store.log.tail()).await;
        e.flusher.stop().await;
    });
    let judged = |undo_pages, committed_logs| {
        let spaces = Arc::new(Spaces::new(disk.clone(), &dir, false));
        for id in [SpaceId::SYSTEM, SpaceId::UNDO[0], SpaceId::UNDO[1]] {
            spaces.open(id, "").unwrap();
        }
        let pool = BufferPool::new(&config.buf(), spaces.clone(), disk.clone()).unwrap();
        let (_, mut scanner) = Log::recover(disk.clone(), config.log()).unwrap();
        let (copies, forced) = (Copies::default(), Forced::default());
        let bounds = Bounds { undo_pages, committed_logs };
        let judged =
            block_on(judge(&mut scanner, &pool, &spaces, &copies, None, None, bounds, forced))
                .unwrap();
        let pages = UndoPages::default();
        judged.undo.enter(&pages);
        let mut built: Vec<PageId> = judged.built.into_iter().collect();
        built.sort_unstable();
        let undo = judged.undo;
        let logs: Vec<_> =
            undo.logs.iter().map(|l| (l.trx, l.first, l.state, l.pages.to_vec())).collect();
        (built, logs, undo.short, undo.newest, pages.counts())
    };
    let whole = judged(usize::MAX, usize::MAX);
    let undo_pages = whole.0.iter().filter(|id| SpaceId::UNDO.contains(&id.space)).count();
    assert!(undo_pages > 3 && whole.2 >= 100, "{undo_pages} pages, {} logs", whole.2);
    for (undo_pages, committed_logs) in [(0, usize::MAX), (1, 50), (2, 0)] {
        assert!(judged(undo_pages, committed_logs) == whole, "{undo_pages}, {committed_logs}");
    }
    block_on(e.store.log.close());
    drop(e);
    std::fs::remove_dir_all(dir).unwrap();
}
