//! Pages that the disk cannot read, and that the redo log names.
use crate::common::Dir;
use crate::common::bad_sectors::{BadDisk, BadSectors};
use crate::torn::{CAPACITY, Image, all_is_there, crashed, file_of};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{
    Config, DoublewriteMode, Engine, Error, Forced, PAGE_SIZE, PageId, Report, SpaceId,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A start on a disk that cannot read a page, and whether it can read the page afterwards.
fn open(
    dir: &Path,
    page: PageId,
    stays: bool,
    forced: u8,
) -> (Result<(Arc<Engine>, Report), Error>, bool) {
    let at = u64::from(page.no) * PAGE_SIZE as u64;
    let disk = BadDisk::new(vec![BadSectors {
        file: dir.join(file_of(page)),
        at: at + 4096..at + 4608,
        stays,
        reads: u64::MAX,
    }]);
    let mut c = Config::new(dir);
    c.pool_bytes = 8 << 20;
    c.log_segment_bytes = 1 << 20;
    c.log_capacity_bytes = CAPACITY;
    c.log_buffer_bytes = 1 << 20;
    c.forced = Forced::new(forced);
    let opened = block_on(Engine::open(c, disk.clone(), Threads::new(disk.clone())));
    (opened, disk.left() == 0)
}
#[allow(clippy::disallowed_methods)] // behind the engine's back
fn is_as(image: &Image, dir: &Dir) -> bool {
    image
        .files
        .iter()
        .filter(|(path, _)| !is_copies(path))
        .all(|(path, bytes)| std::fs::read(dir.0.join(path)).is_ok_and(|now| now == *bytes))
}
fn is_copies(path: &Path) -> bool {
    path.ends_with("doublewrite.rdl")
}
#[allow(clippy::disallowed_methods)] // behind the engine's back
fn without_copies(dir: &Dir) {
    std::fs::remove_file(dir.0.join("doublewrite.rdl")).unwrap();
}

/// Tests JUDGE-10: a copy, or a redo log that makes the page from nothing, takes the place of a
/// page that cannot be read. Without these the start is refused, unless it is forced.
#[test]
fn a_page_that_cannot_be_read_is_repaired_or_refuses_the_start() {
    let image = crashed("unreadable", DoublewriteMode::On, 1);
    let (mut repaired, mut remade, mut refused) = (BTreeSet::new(), 0, BTreeSet::new());
    for ((page, written), copies) in image.pages.iter().flat_map(|of| [(of, true), (of, false)]) {
        // Some of all kinds.
        let is_sample = match written.fresh && !copies {
            true => page.no.is_multiple_of(10),
            false => page.no < 3 || page.no.is_multiple_of(40),
        };
        if !is_sample {
            continue;
        }
        let dir = image.copy("unreadable-page");
        if !copies {
            without_copies(&dir);
        }
        match open(&dir.0, *page, false, 0) {
            (Ok((e, report)), _) => {
                assert!(report.bad_pages.is_empty(), "{report}");
                match report.repaired.iter().find(|r| r.page == *page) {
                    Some(r) => {
                        let said = r.to_string();
                        assert!(said.contains("could not be read from the disk"), "{said}");
                        assert!(copies && r.copy.is_some() && !r.was_read);
                        repaired.insert(*page);
                    }
                    None => {
                        assert!(written.fresh, "{page} has neither a copy nor a first INIT");
                        remade += 1;
                    }
                }
                block_on(all_is_there(&e, 1));
                block_on(e.close()).unwrap();
            }
            (Err(e), _) => {
                let why = e.to_string();
                assert!(!written.fresh, "{why}");
                let level = if SpaceId::UNDO.contains(&page.space) { 5 } else { 1 };
                assert!(why.contains(&format!("page {page} of ")), "{why}");
                assert!(why.contains(&format!("innodb_force_recovery={level}")), "{why}");
                assert!(is_as(&image, &dir), "a refused start has changed something");
                if !copies {
                    refused.insert((page.space.min(SpaceId::FIRST_TABLE), *page));
                }
            }
        }
    }
    assert!(repaired.len() > 5 && remade > 0 && refused.len() > 5, "{remade} {refused:?}");

    // The disk takes no copy: the start is refused, and a forced start has the copy in memory.
    let page = *repaired.iter().next_back().unwrap();
    let dir = image.copy("unreadable-stays");
    let (opened, _) = open(&dir.0, page, true, 0);
    let why = opened.map(drop).unwrap_err().to_string();
    assert!(why.contains(&format!("repairing page {page}")), "{why}");
    let (opened, is_read) = open(&dir.0, page, true, 1);
    let (e, report) = opened.unwrap();
    assert!(!is_read && report.repaired.iter().any(|r| r.page == page), "{report}");
    block_on(all_is_there(&e, 1));
    block_on(e.close()).unwrap();
    drop(e);

    // A forced start counts a page without a copy as bad, at the level of its space.
    let (mut spaces, mut needed) = (BTreeSet::new(), 0);
    for (space, page) in refused.iter().rev() {
        let level = if SpaceId::UNDO.contains(space) { 5 } else { 1 };
        let dir = image.copy("unreadable-forced");
        without_copies(&dir);
        if level > 1 {
            // Purge may have freed the page: then nothing is to be rolled back from it.
            match open(&dir.0, *page, true, level - 1).0 {
                Ok((e, _)) => block_on(e.close()).unwrap(),
                Err(e) => {
                    let why = e.to_string();
                    assert!(why.contains("innodb_force_recovery=5"), "{why}");
                    needed += 1;
                }
            }
        }
        if !spaces.insert(*space) {
            continue;
        }
        let (e, report) = open(&dir.0, *page, true, level).0.unwrap();
        let bad = report.bad_pages.iter().any(|(id, why)| id == page && why.contains("os error 5"));
        assert!(bad, "{page}: {report}");
        assert!(is_as(&image, &dir));
        block_on(e.close()).unwrap();
    }
    assert_eq!((spaces.len(), needed > 0), (3, true), "{spaces:?}, {needed}");
}
