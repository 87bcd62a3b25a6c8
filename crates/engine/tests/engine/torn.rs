//! Torn pages of every kind, in every way to protect pages.
#![allow(clippy::disallowed_methods)] // the test tears pages behind the engine's back

use crate::common::Dir;
use crate::common::tables::*;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::testing::buf::Latch;
use redolith_engine::testing::log::{Log, LogConfig};
use redolith_engine::testing::mtr::record::{Change, Record, Records};
use redolith_engine::testing::page::header;
use redolith_engine::{
    Config, DoublewriteMode, Engine, Error, PAGE_SIZE, PageId, Report, SpaceId, StoppedDirectory,
    Trx,
};
use redolith_types::{IndexDef, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SECTOR: usize = 512;
const ROWS: i64 = 400;
/// Sixteen times more than [`crashed`] writes behind its checkpoint. A checkpoint comes early,
/// whatever its interval, when it can free a sixteenth of the redo log.
pub const CAPACITY: u64 = 128 << 20;

/// An image of a directory as a crash left it.
pub struct Image {
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// The pages that are in their files and that the redo log changes.
    pub pages: BTreeMap<PageId, Written>,
}
/// What the redo log writes to a page behind the checkpoint.
#[derive(Default)]
pub struct Written {
    /// For each byte, whether it is written.
    bytes: Vec<bool>,
    /// The low half of the LSN before the first change.
    before: u32,
    first_end: u64,
    ends: BTreeSet<u64>,
    /// The first change makes the whole page.
    pub fresh: bool,
}
fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() { walk(&entry, found) } else { found.push(entry) }
    }
}
/// The files of a directory that an engine has open, with their paths in it, as they all were at
/// one moment. The engine's own threads write, make, rename and remove files meanwhile, and a page
/// that is read after the redo log may be newer than the log: no crash leaves that. The directory
/// is therefore read again until two readings in a row are the same.
fn files_of(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let read = || -> std::io::Result<Vec<_>> {
        let mut paths = Vec::new();
        walk(dir, &mut paths);
        paths.sort();
        let file = |p: PathBuf| Ok((p.strip_prefix(dir).unwrap().into(), std::fs::read(p)?));
        paths.into_iter().map(file).collect()
    };
    let mut last = Vec::new();
    loop {
        match read() {
            Ok(files) if files == last => return files,
            Ok(files) => last = files,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => last.clear(),
            Err(e) => panic!("{}: {e}", dir.display()),
        }
    }
}
pub fn file_of(id: PageId) -> PathBuf {
    match id.space.0 {
        0 => "system.rdl".into(),
        n if SpaceId(n) == SpaceId::UNDO[0] => "undo.rdl".into(),
        n if SpaceId(n) == SpaceId::UNDO[1] => "undo2.rdl".into(),
        n => format!("tables/{n}.rdl").into(),
    }
}
fn log_config(dir: &Path) -> LogConfig {
    LogConfig {
        dir: dir.join("redo"),
        segment_bytes: 1 << 20,
        capacity_bytes: CAPACITY,
        buffer_bytes: 1 << 20,
    }
}
fn text_of(id: i64, round: u8) -> Vec<u8> {
    // Each seventh row is so long that it has pages of its own.
    vec![b'a' + round; if id % 7 == 0 { 9000 } else { 700 }]
}
fn row(t: &Table, id: i64, round: u8) -> Vec<u8> {
    let text = text_of(id, round);
    encoded(t, &[Value::Int(id), Value::Int(id % 40 + i64::from(round)), Value::Bytes(text.into())])
}
async fn table(e: &Arc<Engine>) -> Arc<Table> {
    let columns = vec![("k", int()), ("c", text(10_000))];
    create(e, "t", columns, vec![IndexDef::secondary("k", false, [1])]).await
}
fn open_in(dir: &Path, mode: DoublewriteMode) -> Result<(Arc<Engine>, Report), Error> {
    open_with(dir, mode, 8 << 20)
}
fn open_with(
    dir: &Path,
    mode: DoublewriteMode,
    pool_bytes: usize,
) -> Result<(Arc<Engine>, Report), Error> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut c = Config::new(dir);
    c.pool_bytes = pool_bytes as _;
    c.log_segment_bytes = 1 << 20;
    c.log_capacity_bytes = CAPACITY;
    c.log_buffer_bytes = 1 << 20;
    c.doublewrite.mode = mode;
    block_on(Engine::open(c, disk.clone(), Threads::new(disk)))
}

/// Fills a table, and changes all of it so many times more behind the last checkpoint.
pub fn crashed(name: &str, mode: DoublewriteMode, rounds: u8) -> Image {
    let dir = Dir::new(name);
    let (e, _) = open_in(&dir.0, mode).unwrap();
    block_on(async {
        let t = table(&e).await;
        let mut trx: Trx = e.begin(KillFlag::new());
        for id in 0..ROWS {
            trx.insert(&t, &row(&t, id * 13 % ROWS, 0)).await.unwrap();
        }
        commit(&mut trx).await;
        drop(trx);
        e.close().await.unwrap();
    });
    drop(e);
    let (e, _) = open_in(&dir.0, mode).unwrap();
    e.flush_settings.checkpoint_interval_ms.set(u32::MAX);
    let begun = e.store.log.tail();
    block_on(async {
        let t = e.table("test", "t").await.unwrap().unwrap();
        let mut trx: Trx = e.begin(KillFlag::new());
        for (round, id) in (1..=rounds).flat_map(|round| (0..ROWS).map(move |id| (round, id))) {
            let at = locked(&mut trx, &t, id).await.unwrap();
            trx.update(&t, at.row(), &row(&t, id, round)).await.unwrap();
            if id % 10 == 9 {
                commit(&mut trx).await;
            }
        }
        // The dictionary changes too, and files get their stamps once pages are written.
        create(&e, "other", vec![], vec![]).await;
        for space in [SpaceId::SYSTEM, t.space] {
            let header = PageId { space, no: 0 };
            e.store.pool.load(header).await.unwrap();
            within(&e, "a stamp", || {
                e.store.pool.fix(header, Latch::S).is_ok_and(|page| page.lsn() > begun)
            })
            .await;
        }
        e.store.log.flush_to(e.store.log.tail()).await;
    });
    let mut image = Image { files: files_of(&dir.0), pages: BTreeMap::new() };
    let copy = image.copy(&format!("{name}-log"));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let (_, mut scanner) = Log::recover(disk, log_config(&copy.0)).unwrap();
    while let Some(frame) = scanner.next().unwrap() {
        let mut seen = BTreeSet::new();
        for record in Records::new(frame.payload) {
            let Ok(Record::Page { id, before, change }) = record else { continue };
            let is_new = !image.pages.contains_key(&id);
            let page = image.pages.entry(id).or_default();
            if is_new {
                page.bytes = vec![false; PAGE_SIZE];
                page.before = before.unwrap();
                page.first_end = frame.end.0;
                page.fresh = change == Change::Init;
            }
            if seen.insert(id) {
                page.ends.insert(frame.end.0);
            }
            let range = match change {
                Change::Write { at, bytes } => at..at + bytes.len(),
                Change::Fill { at, len, .. } => at..at + len,
                Change::Init => 0..PAGE_SIZE,
            };
            page.bytes[range].fill(true);
        }
    }
    let in_file = |id: &PageId| {
        let whole = &image.files.iter().find(|(path, _)| *path == file_of(*id)).unwrap().1;
        let page = whole.get(id.no as usize * PAGE_SIZE..(id.no as usize + 1) * PAGE_SIZE);
        page.is_some_and(|page| header::verify(page.try_into().unwrap(), *id).is_ok())
    };
    let found: Vec<PageId> = image.pages.keys().copied().filter(|id| !in_file(id)).collect();
    found.iter().for_each(|id| _ = image.pages.remove(id));
    image
}
impl Image {
    pub fn copy(&self, name: &str) -> Dir {
        let dir = Dir::new(name);
        for (path, bytes) in &self.files {
            let path = dir.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        dir
    }
    /// Changes pages of a copy.
    fn with(&self, name: &str, mut change: impl FnMut(PageId, &Written, &mut [u8])) -> Dir {
        let dir = self.copy(name);
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for (id, written) in &self.pages {
            let path = dir.0.join(file_of(*id));
            let file = files.entry(path.clone()).or_insert_with(|| std::fs::read(path).unwrap());
            change(*id, written, &mut file[id.no as usize * PAGE_SIZE..][..PAGE_SIZE]);
        }
        files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        dir
    }
}
/// Puts the sectors of a page from `cut` on, or those before it, into another state that they may
/// have had since the checkpoint: bytes that the redo log writes may then have been anything.
fn tear(written: &Written, page: &mut [u8], cut: usize, first: bool) -> bool {
    let old = page.to_vec();
    let sectors = if first { 0..cut } else { cut..PAGE_SIZE };
    for at in sectors.filter(|at| *at >= header::BODY && written.bytes[*at]) {
        page[at] ^= 0x5a;
    }
    if first && !written.fresh {
        // The first sector has the LSN of the page before the changes.
        let high = written.first_end & !0xffff_ffff;
        let lsn = high | u64::from(written.before);
        page[header::LSN..][..8].copy_from_slice(&lsn.to_le_bytes());
    }
    page != old
}

pub async fn all_is_there(e: &Arc<Engine>, round: u8) {
    let t = e.table("test", "t").await.unwrap().unwrap();
    let mut trx = e.begin(KillFlag::new());
    let mut c = Cursor::new(t.clone(), 0, Vec::new(), None, false, Read::Consistent);
    let mut id = 0;
    while c.next(&mut trx).await.unwrap() {
        assert_eq!(c.payload(&trx).await.unwrap(), row(&t, id, round), "row {id}");
        id += 1;
    }
    assert_eq!(id, ROWS);
    sound(e, &t, ROWS as u64).await;
}

/// Tests TORN-2 and TORN-4.
#[test]
fn redo_rebuilds_pages_torn_at_every_sector() {
    let image = crashed("torn-redo", DoublewriteMode::Redo, 1);
    let mut kinds = BTreeSet::new();
    for cut in (SECTOR..PAGE_SIZE).step_by(SECTOR) {
        for first in [false, true] {
            let mut torn = BTreeSet::new();
            let dir = image.with("torn-redo-cut", |id, written, page| {
                if tear(written, page, cut, first) {
                    torn.insert(id);
                    kinds.insert(header::page_type((&*page).try_into().unwrap()));
                }
            });
            // The next start may use another mode, and its crash may come at once.
            let mode = if cut % 1024 == 0 { DoublewriteMode::Redo } else { DoublewriteMode::On };
            let (e, report) = open_in(&dir.0, mode).unwrap();
            let rebuilt: BTreeSet<PageId> =
                report.repaired.iter().filter(|r| r.copy.is_none()).map(|r| r.page).collect();
            let fresh = |id: &PageId| image.pages[id].fresh;
            assert!(torn.iter().all(|id| rebuilt.contains(id) || fresh(id)), "{cut} {first}");
            assert!(report.bad_pages.is_empty() && torn.len() > 4, "{report}");
            block_on(all_is_there(&e, 1));
            block_on(e.close()).unwrap();
            drop(e);
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
            let config = Config::new(&dir.0);
            let stopped = StoppedDirectory::lock(disk, &config).unwrap();
            assert_eq!(stopped.check(None, &mut |_| ()).unwrap().damaged, 0);
        }
    }
    // Headers of spaces and bitmaps, pages of trees, undo, overflow and the counters.
    assert!(kinds.is_superset(&BTreeSet::from([1, 2, 3, 4, 5, 6])), "{kinds:?}");
}

/// Redo works on one window of the redo log after the other, and the pool may write a page and read
/// it again in between. Tests TORN-2.
#[test]
fn redo_rebuilds_torn_pages_whose_changes_are_in_many_windows() {
    const ROUNDS: u8 = 5;
    let image = crashed("torn-windows", DoublewriteMode::Redo, ROUNDS);
    for cut in [1, 2, 9, 17, 31].map(|n| n * SECTOR) {
        for first in [false, true] {
            let dir = image.with("torn-windows-cut", |_, written, page| {
                tear(written, page, cut, first);
            });
            // Fewer frames than pages.
            let (e, report) = open_with(&dir.0, DoublewriteMode::Redo, 2 << 20).unwrap();
            let mib = (report.end.0 - report.checkpoint.0) >> 20;
            assert!(report.bad_pages.is_empty() && mib > 4, "{mib} MiB; {report}");
            assert!(report.pages > 128, "{report}");
            block_on(all_is_there(&e, ROUNDS));
            block_on(e.close()).unwrap();
        }
    }
}

fn torn_leaf(image: &Image) -> PageId {
    let leaf = |(id, written): &(&PageId, &Written)| {
        let file = &image.files.iter().find(|(path, _)| *path == file_of(**id)).unwrap().1;
        let page: &[u8; PAGE_SIZE] =
            file[id.no as usize * PAGE_SIZE..][..PAGE_SIZE].try_into().unwrap();
        id.space >= SpaceId::FIRST_TABLE && header::page_type(page) == 3 && !written.fresh
    };
    *image.pages.iter().find(leaf).unwrap().0
}
/// The pages that a start names as bad. Reading the table fails for them, and only for them.
fn bad_pages(dir: &Dir, mode: DoublewriteMode) -> Vec<PageId> {
    let (e, report) = open_in(&dir.0, mode).unwrap();
    block_on(async {
        let t = e.table("test", "t").await.unwrap().unwrap();
        let mut failed = false;
        for index in [0, 1] {
            let mut trx = e.begin(KillFlag::new());
            let mut c = Cursor::new(t.clone(), index, Vec::new(), None, false, Read::Consistent);
            loop {
                match c.next(&mut trx).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(e) => {
                        assert!(matches!(e, Error::Corrupt { .. }), "{e}");
                        failed = true;
                        break;
                    }
                }
            }
        }
        assert_eq!(failed, !report.bad_pages.is_empty());
        e.close().await.unwrap();
    });
    report.bad_pages.iter().map(|(id, _)| *id).collect()
}

/// Tests TORN-3: what no crash can have done to a page is damage.
#[test]
fn redo_rebuilds_no_page_that_is_not_torn() {
    let image = crashed("torn-not", DoublewriteMode::Redo, 1);
    let leaf = torn_leaf(&image);
    type Harm = fn(&Written, &mut [u8]);
    let harms: [(&str, Harm); 4] = [
        ("another page's number", |_, page| page[header::PAGE_NO] ^= 1),
        ("another space's number", |_, page| page[header::SPACE] ^= 1),
        ("an LSN of no change", |written, page| {
            let lsn = written.ends.first().unwrap() + 1;
            page[header::LSN..][..8].copy_from_slice(&lsn.to_le_bytes());
        }),
        ("zeros", |_, page| page.fill(0)),
    ];
    for (what, harm) in harms {
        let dir = image.with("torn-not-cut", |id, written, page| {
            if id == leaf {
                harm(written, page);
            }
        });
        assert_eq!(bad_pages(&dir, DoublewriteMode::Redo), [leaf], "{what}");
    }
    // The header of the dictionary's file has the number 0 in the space 0, as zeros have.
    let header = PageId { space: SpaceId::SYSTEM, no: 0 };
    assert!(image.pages.contains_key(&header), "{:?}", image.pages.keys());
    for zeros in [SECTOR, PAGE_SIZE] {
        let dir = image.with("torn-not-zeros", |id, _, page| {
            if id == header {
                page[..zeros].fill(0);
            }
        });
        // JUDGE-5
        let Err(e) = open_in(&dir.0, DoublewriteMode::Redo) else { panic!("it starts") };
        assert!(e.to_string().contains("page 0:0 of ") && e.to_string().contains("cannot be read"));
    }
}

/// Without the register nothing says that the redo log protects pages, and a start that finds torn
/// pages says so: beside the page that it needs, or in a note. Tests TORN-4.
#[test]
fn a_start_says_that_the_register_is_lost() {
    let image = crashed("torn-lost", DoublewriteMode::Redo, 1);
    let leaf = torn_leaf(&image);
    let of_dictionary = |(id, written): &(&PageId, &Written)| {
        id.space == SpaceId::SYSTEM && id.no > 1 && !written.fresh
    };
    let needed = *image.pages.iter().find(of_dictionary).unwrap().0;
    let torn = |page: PageId| {
        image.with("torn-lost-cut", |id, written, bytes| {
            if id == page {
                let mut cuts = (SECTOR..PAGE_SIZE).step_by(SECTOR);
                let first =
                    |cut| tear(written, bytes, cut, false) || tear(written, bytes, cut, true);
                assert!(cuts.any(first));
            }
        })
    };
    for (lost, said) in [(true, "files.rdl is missing"), (false, "files.rdl is damaged")] {
        let lose = |dir: &Dir| {
            let register = dir.0.join("files.rdl");
            if lost {
                return std::fs::remove_file(register).unwrap();
            }
            let mut bytes = std::fs::read(&register).unwrap();
            bytes[16] ^= 1;
            std::fs::write(register, bytes).unwrap();
        };
        let says = |text: &str| text.contains(said) && text.contains("innodb_doublewrite=REDO");
        let dir = torn(leaf);
        lose(&dir);
        let (e, report) = open_in(&dir.0, DoublewriteMode::Redo).unwrap();
        assert!(report.bad_pages.iter().map(|(id, _)| *id).eq([leaf]), "{report}");
        assert!(says(&report.to_string()), "{report}");
        block_on(e.close()).unwrap();
        drop(e);
        let dir = torn(needed);
        lose(&dir);
        let why = open_in(&dir.0, DoublewriteMode::Redo).map(drop).unwrap_err().to_string();
        assert!(why.contains(&format!("page {needed} of ")) && says(&why), "{why}");
        // The directory's own register rebuilds the page: nothing was changed.
        let register = |(path, _): &&(PathBuf, Vec<u8>)| path.ends_with("files.rdl");
        let (path, bytes) = image.files.iter().find(register).unwrap();
        std::fs::write(dir.0.join(path), bytes).unwrap();
        let (e, report) = open_in(&dir.0, DoublewriteMode::Redo).unwrap();
        assert!(report.repaired.iter().any(|r| r.page == needed), "{report}");
        block_on(all_is_there(&e, 1));
        block_on(e.close()).unwrap();
    }
}

/// A page that is torn where nothing protects it is named, and the rest is served.
#[test]
fn torn_pages_that_nothing_protects_are_named() {
    for mode in [DoublewriteMode::Off, DoublewriteMode::DetectOnly] {
        let image = crashed("torn-off", mode, 1);
        let leaf = torn_leaf(&image);
        // Without the register's word, the redo log does not rebuild the page.
        for next in [mode, DoublewriteMode::Redo] {
            for cut in [SECTOR, 8 * SECTOR, PAGE_SIZE - SECTOR] {
                let dir = image.with("torn-off-cut", |id, written, page| {
                    if id == leaf {
                        assert!(tear(written, page, cut, true) || tear(written, page, cut, false));
                    }
                });
                assert_eq!(bad_pages(&dir, next), [leaf], "{mode:?}, then {next:?}, at {cut}");
            }
        }
    }
}

/// Copies lie where the setting says, in as many files as it says, and belong to one directory.
#[test]
fn doublewrite_files_have_a_folder_of_their_own() {
    let (dir, copies) = (Dir::new("dblwr-dir"), Dir::new("dblwr-copies"));
    let open = |dir: &Dir, folder: &Path, files: usize| {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let mut c = Config::new(&dir.0);
        c.pool_bytes = 8 << 20;
        c.log_capacity_bytes = CAPACITY;
        c.doublewrite.dir = Some(folder.to_path_buf());
        c.doublewrite.files = files;
        c.doublewrite.pages = 5;
        block_on(Engine::open(c, disk.clone(), Threads::new(disk)))
    };
    let refused = |r: Result<(Arc<Engine>, Report), Error>| r.err().unwrap().to_string();
    let why = refused(open(&dir, &copies.0, 3));
    assert!(why.contains("dblwr-copies") && why.contains("does not exist"), "{why}");
    std::fs::create_dir_all(&copies.0).unwrap();
    let named = |n: usize| match n {
        1 => copies.0.join("doublewrite.rdl"),
        n => copies.0.join(format!("doublewrite-{n}.rdl")),
    };
    let (e, _) = open(&dir, &copies.0, 3).unwrap();
    block_on(async {
        let t = table(&e).await;
        let mut trx: Trx = e.begin(KillFlag::new());
        for id in 0..ROWS {
            trx.insert(&t, &row(&t, id, 1)).await.unwrap();
        }
        commit(&mut trx).await;
    });
    // Another data directory cannot use the folder at the same time.
    let other = Dir::new("dblwr-other");
    assert!(matches!(open(&other, &copies.0, 1), Err(Error::InUse(_))));
    block_on(e.close()).unwrap();
    drop(e);
    assert!((1..4).all(|n| named(n).exists()) && !named(4).exists());
    let written = |n| std::fs::read(named(n)).unwrap().iter().any(|b| *b != 0);
    assert!((1..4).all(written));
    assert!(!dir.0.join("doublewrite.rdl").exists());
    // .. nor later, because it would take the copies for its own.
    let _ = std::fs::remove_dir_all(&other.0);
    let why = refused(open(&other, &copies.0, 1));
    assert!(why.contains("belongs to another data directory"), "{why}");

    let (e, _) = open(&dir, &copies.0, 1).unwrap();
    assert!(named(1).exists() && !named(2).exists() && !named(3).exists());
    block_on(all_is_there(&e, 1));
    block_on(e.close()).unwrap();
}

/// The modes of MySQL that copy or do not copy change while the engine runs, and no others.
#[test]
fn some_modes_change_at_run_time() {
    use DoublewriteMode::*;
    let dir = Dir::new("dblwr-modes");
    let (e, _) = open_in(&dir.0, On).unwrap();
    for (mode, changes) in [
        (DetectOnly, true),
        (Redo, false),
        (Off, false),
        (Atomic, false),
        (Legacy, false),
        (DetectAndRecover, true),
        (DetectAndRecover, true),
        (On, true),
    ] {
        let before = e.doublewrite_mode();
        assert_eq!(e.set_doublewrite_mode(mode), changes, "{mode:?}");
        assert_eq!(e.doublewrite_mode(), if changes { mode } else { before });
    }
    block_on(e.close()).unwrap();
    drop(e);
    let (e, _) = open_in(&dir.0, Redo).unwrap();
    assert!(!e.set_doublewrite_mode(On) && e.set_doublewrite_mode(Redo));
}
