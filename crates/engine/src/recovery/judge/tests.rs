use super::*;
use crate::runtime::{Threads, block_on};
use crate::{Config, Engine};
use redolith_disk::{Disk, RealDisk};
use std::sync::mpsc;
use std::time::Duration;

/// Tests JUDGE-6: a page's LSN is found while no frame of the pool is free, and without a cleaner
/// that would free one.
#[test]
fn a_page_without_a_frame_is_read_past_the_pool() {
    let dir = std::env::temp_dir().join(format!("redolith-judge-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut config = Config::new(&dir);
    config.pool_bytes = 5 << 20;
    let (tell, told) = mpsc::channel();
    let judging = dir.clone();
    std::thread::spawn(move || {
        let opened = Engine::open(config.clone(), disk.clone(), Threads::new(disk.clone()));
        let (e, _) = block_on(opened).unwrap();
        block_on(e.close()).unwrap();
        let pool = BufferPool::new(&config.buf(), e.store.spaces.clone(), disk.clone()).unwrap();
        let copies = Copies::default();
        let mut judge = Judge::new(&pool, &e.store.spaces, &copies, Forced::default());
        let id = PageId { space: SpaceId::SYSTEM, no: 2 };
        let with_room = block_on(judge.lsn_of(id)).unwrap();
        let mut held = Vec::new();
        let full = loop {
            match pool.create(PageId { space: SpaceId::SYSTEM, no: 1000 + held.len() as u32 }) {
                Ok(page) => held.push(page),
                Err(full) => break full,
            }
        };
        assert!(matches!(full, WouldBlock::Frame) && !pool.contains(id));
        let without = block_on(judge.lsn_of(id)).unwrap();
        held.clear();
        tell.send((with_room, without)).unwrap();
    });
    let (with_room, without) = told.recv_timeout(Duration::from_secs(60)).expect("no wait");
    assert!(with_room.is_some());
    assert_eq!(with_room, without);
    std::fs::remove_dir_all(judging).unwrap();
}
