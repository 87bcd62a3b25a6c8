//! The engine in a program: what can go wrong with its directory and its disk is told clearly. (The
//! crate `redolith` is what programs embed; its tests are about transactions.)
#![allow(clippy::disallowed_methods)] // the tests damage files behind the engine's back

use crate::common::filling::Filling;
use crate::common::{Dir, at_one_moment};
use redolith_disk::{Disk, RealDisk};
use redolith_engine::Forced;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::testing::mtr::Mtr;
use redolith_engine::{
    Config, DEFAULT_COLLATION, Engine, Error, PAGE_SIZE, PageId, Result, SpaceId,
};
use redolith_types::sql_type::{IntSize, Sign};
use redolith_types::{Collation, Column, IndexDef, LobSize, SqlType, TableDef, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

fn open_on(disk: Arc<dyn Disk>, dir: &Path) -> Result<Arc<Engine>> {
    let mut c = Config::new(dir);
    (c.pool_bytes, c.log_segment_bytes, c.log_capacity_bytes) = (8 << 20, 1 << 20, 8 << 20);
    block_on(Engine::open(c, disk.clone(), Threads::new(disk))).map(|(engine, _)| engine)
}
fn open(dir: &Path) -> Result<Arc<Engine>> {
    open_on(Arc::new(RealDisk::new()), dir)
}
fn error(opened: Result<Arc<Engine>>) -> Error {
    opened.map(|_| ()).expect_err("must not open")
}

/// Not a test: the other process of the next one.
#[test]
#[ignore = "run by a_directory_has_one_engine"]
fn another_process_opens() {
    let Some(dir) = std::env::var_os("REDOLITH_LIBRARY_TEST_DIR") else { return };
    println!("{}", error(open(Path::new(&dir))));
}

#[test]
fn a_directory_has_one_engine() {
    let dir = Dir::new("in-use");
    let engine = open(&dir.0).unwrap();
    let second = error(open(&dir.0));
    assert!(matches!(second, Error::InUse(_)));
    let shown = second.to_string();
    assert!(
        shown.contains(dir.0.to_str().unwrap()) && shown.contains("in use by another process"),
        "{shown}"
    );
    let other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "library::another_process_opens", "--ignored", "--nocapture"])
        .env("REDOLITH_LIBRARY_TEST_DIR", &dir.0)
        .output()
        .unwrap();
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stderr));
    assert!(String::from_utf8_lossy(&other.stdout).contains(&shown));
    // The refused ones have done nothing to the one that runs, and it gives the directory back.
    block_on(engine.create_schema("s", DEFAULT_COLLATION, None)).unwrap();
    block_on(engine.close()).unwrap();
    let engine = open(&dir.0).unwrap();
    assert!(engine.dict.schema("s").is_some());
    block_on(engine.close()).unwrap();
}

const PANICS_IN: &str = "REDOLITH_TEST_PANIC";
/// A panic between the changes of a mini-transaction ends a program that asked for it, although its
/// panics unwind: others would find a page with half a change, which no redo has.
#[test]
fn a_panic_within_a_mini_transaction_ends_the_program() {
    let Ok(dir) = std::env::var(PANICS_IN) else {
        let dir = Dir::new("panic-in-mtr");
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "library::a_panic_within_a_mini_transaction_ends_the_program"])
            .arg("--nocapture")
            .env(PANICS_IN, &dir.0)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(said.contains("it panics") && !said.contains("goes on"), "{child:?}");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.status), Some(6));
        return block_on(open(&dir.0).unwrap().close()).unwrap();
    };
    redolith_engine::abort_when_poisoned();
    let e = open(Path::new(&dir)).unwrap();
    let root = PageId { space: SpaceId(0), no: 2 };
    block_on(e.store.pool.load(root)).unwrap();
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut m = Mtr::begin(&e.store).ok().unwrap();
        let page = m.x(root).ok().unwrap();
        m.init(page);
        println!("it panics");
        panic!("as a failed check does");
    }));
    println!("it goes on: {panics:?}");
}

/// Changes a number in both blocks of the control file, checksums included.
fn patch_control(dir: &Path, at: usize, value: u32) {
    let path = dir.join("redo/control");
    let mut bytes = std::fs::read(&path).unwrap();
    for block in [0, 65536, 131072, 196608] {
        let b = &mut bytes[block..block + 4096];
        b[at..at + 4].copy_from_slice(&value.to_le_bytes());
        b[12..16].fill(0);
        let sum = crc32c::crc32c(b);
        b[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
}

/// Tests JUDGE-1.
#[test]
fn a_directory_of_another_version_or_page_size_is_refused_and_left_alone() {
    let dir = Dir::new("format");
    let engine = open(&dir.0).unwrap();
    block_on(engine.create_schema("s", DEFAULT_COLLATION, None)).unwrap();
    block_on(engine.close()).unwrap();
    drop(engine);
    let control = dir.0.join("redo/control");
    let right = std::fs::read(&control).unwrap();
    for (at, value, words) in
        [(8, 7, ["format 7", "formats 1 to 6"]), (56, 4096, ["4096", &PAGE_SIZE.to_string()])]
    {
        patch_control(&dir.0, at, value);
        let wrong = std::fs::read(&control).unwrap();
        let e = error(open(&dir.0));
        assert!(
            matches!(e, Error::Incompatible(_)) && words.iter().all(|w| e.to_string().contains(w)),
            "{e}"
        );
        assert_eq!(std::fs::read(&control).unwrap(), wrong);
        std::fs::write(&control, &right).unwrap();
    }
    let engine = open(&dir.0).unwrap();
    assert!(engine.dict.schema("s").is_some());
    block_on(engine.close()).unwrap();
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let of = |dir: PathBuf| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let all = of(dir.into()).chain(of(dir.join("redo"))).chain(of(dir.join("tables")));
    all.filter(|path| path.is_file() && !path.ends_with("redolith.lock"))
        // A file of a running engine may be gone by now.
        .filter_map(|path| Some((path.clone(), std::fs::read(path).ok()?)))
        .collect()
}

/// JUDGE-4: pages that are in use and lie behind the end of a file that is cut off are missed
/// before anything is written.
#[test]
fn an_engine_file_that_is_cut_off_anywhere_is_refused_or_not_needed() {
    let dir = Dir::new("cut");
    let engine = open(&dir.0).unwrap();
    block_on(engine.create_schema("s", DEFAULT_COLLATION, None)).unwrap();
    block_on(engine.close()).unwrap();
    drop(engine);
    let right = files(&dir.0);
    let mut refused = 0;
    for name in ["system.rdl", "undo.rdl", "undo2.rdl"] {
        let path = dir.0.join(name);
        let bytes = &right[&path];
        for pages in 0..bytes.len() / PAGE_SIZE {
            for more in [0, 1, PAGE_SIZE - 1] {
                std::fs::write(&path, &bytes[..pages * PAGE_SIZE + more]).unwrap();
                let cut = files(&dir.0);
                match open(&dir.0) {
                    Err(e) => {
                        refused += 1;
                        assert!(e.to_string().contains(name), "{e}");
                        assert!(
                            files(&dir.0) == cut,
                            "{name} of {pages} pages and {more} bytes: refused, and the directory \
                                has changed: {e}"
                        );
                    }
                    Ok(engine) => {
                        assert!(
                            engine.dict.schema("s").is_some(),
                            "{name} of {pages} pages and {more} bytes"
                        );
                        block_on(engine.close()).unwrap();
                    }
                }
                for (path, bytes) in &right {
                    std::fs::write(path, bytes).unwrap();
                }
            }
        }
    }
    assert!(refused >= 12, "{refused}");
}

/// Fills the directory with exactly these files of `from`.
fn put(dir: &Path, from: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    let _ = std::fs::remove_dir_all(dir);
    for (path, bytes) in files {
        let to = dir.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, bytes).unwrap();
    }
    std::fs::create_dir_all(dir.join("tables")).unwrap();
}
/// A directory with a schema and a table, as it is when its server is killed.
fn killed(name: &str) -> (Dir, BTreeMap<PathBuf, Vec<u8>>) {
    let made = Dir::new(&format!("{name}-made"));
    let engine = open(&made.0).unwrap();
    block_on(engine.create_schema("s", DEFAULT_COLLATION, None)).unwrap();
    let def = TableDef {
        schema: "s".into(),
        name: "t".into(),
        columns: vec![Column::new("id", SqlType::BIGINT).not_null()],
        indexes: vec![IndexDef::primary([0])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    block_on(engine.create_table(def, 1, None)).unwrap();
    let image = block_on(at_one_moment(&engine, &made.0, || files(&made.0)));
    block_on(engine.close()).unwrap();
    (made, image)
}
/// A segment of the doublewrite file with the pages of space 0 from `first` on.
fn doublewrite(first: u32, pages: &[u8]) -> Vec<u8> {
    let mut b = vec![0; 4096];
    let pages = pages.chunks_exact(PAGE_SIZE);
    b[4..8].copy_from_slice(&(pages.len() as u32).to_le_bytes());
    b[8..16].copy_from_slice(b"RDLDBLW1");
    for ((no, page), entry) in (first..).zip(pages.clone()).zip(b[32..].chunks_exact_mut(16)) {
        entry[..4].copy_from_slice(&no.to_le_bytes());
        entry[8..12].copy_from_slice(&page[..4]);
    }
    let sum = crc32c::crc32c(&b[4..]);
    b[..4].copy_from_slice(&sum.to_le_bytes());
    pages.for_each(|page| b.extend_from_slice(page));
    b.resize(4096 + 128 * PAGE_SIZE, 0);
    b
}

/// JUDGE-4: repair does not make a file longer, so the copy of a page behind the file's end does
/// not pass for the page.
#[test]
fn a_copy_of_a_page_behind_the_end_of_an_engine_file_does_not_start_it() {
    // The counters, and the only page of the dictionary.
    const USED: std::ops::Range<usize> = 2..4;
    let (made, image) = killed("copy-behind");
    let pages = std::fs::read(made.0.join("system.rdl")).unwrap();
    let pages = &pages[USED.start * PAGE_SIZE..USED.end * PAGE_SIZE];
    let dir = Dir::new("copy-behind");
    put(&dir.0, &made.0, &image);
    std::fs::write(dir.0.join("doublewrite.rdl"), doublewrite(USED.start as u32, pages)).unwrap();
    let system = dir.0.join("system.rdl");
    let whole = std::fs::read(&system).unwrap();
    std::fs::write(&system, &whole[..USED.start * PAGE_SIZE]).unwrap();
    let before = files(&dir.0);
    let e = error(open(&dir.0)).to_string();
    assert!(e.contains("system.rdl") && e.contains("Nothing has been changed"), "{e}");
    assert!(files(&dir.0) == before, "refused, and the directory has changed: {e}");
    std::fs::write(&system, &whole).unwrap();
    let engine = open(&dir.0).unwrap();
    assert!(engine.dict.schema("s").is_some());
    block_on(engine.close()).unwrap();
}

/// FILES-3: a folder that has a name of the redo log's own is met before anything is written, and
/// names that only resemble such names are left alone.
#[test]
fn strange_names_beside_the_redo_log_are_refused_at_once_or_left_alone() {
    let (made, image) = killed("strange-log");
    let dir = Dir::new("strange-log");
    put(&dir.0, &made.0, &image);
    for name in ["log_99.new", "log_5000"] {
        let folder = dir.0.join("redo").join(name);
        std::fs::create_dir_all(folder.join("folder")).unwrap();
        let before = files(&dir.0);
        let e = error(open(&dir.0)).to_string();
        assert!(e.contains(name) && e.contains("move away what bears it"), "{e}");
        assert!(files(&dir.0) == before, "refused, and the directory has changed: {e}");
        std::fs::remove_dir_all(folder).unwrap();
    }
    let strange = ["log_0", "log_00", "log_+1", "log_007", "log_1.bak"].map(|name| {
        let path = dir.0.join("redo").join(name);
        let was = path.exists();
        if !was {
            std::fs::write(&path, b"strange").unwrap();
        }
        (path, was)
    });
    for _ in 0..2 {
        let engine = open(&dir.0).unwrap();
        assert!(engine.dict.schema("s").is_some());
        block_on(engine.close()).unwrap();
        assert!(strange.iter().all(|(path, was)| *was || path.exists()));
    }
}

/// An orphan that cannot be set aside keeps no table from being served.
#[test]
fn an_orphan_that_cannot_be_moved_stays() {
    let (made, image) = killed("orphan-stays");
    let dir = Dir::new("orphan-stays");
    put(&dir.0, &made.0, &image);
    std::fs::write(dir.0.join("orphans"), b"a file").unwrap();
    let orphan = dir.0.join("tables/9999.rdl");
    std::fs::write(&orphan, b"an orphan").unwrap();
    let engine = open(&dir.0).unwrap();
    assert!(engine.dict.schema("s").is_some() && orphan.exists());
    block_on(engine.close()).unwrap();
}

/// A directory whose redo log, tables and register are gone is not taken for an empty one as long
/// as the file of the dictionary shows that it was used.
#[test]
fn a_used_dictionary_is_never_made_anew() {
    let (made, _) = killed("used");
    for gone in ["redo", "tables"] {
        std::fs::remove_dir_all(made.0.join(gone)).unwrap();
    }
    std::fs::remove_file(made.0.join("files.rdl")).unwrap();
    let system = std::fs::read(made.0.join("system.rdl")).unwrap();
    let e = error(open(&made.0)).to_string();
    assert!(e.contains("has been used"), "{e}");
    assert!(std::fs::read(made.0.join("system.rdl")).unwrap() == system);
}

/// A forced start does without the files that its level does not read.
#[test]
fn a_forced_start_does_without_files_that_cannot_be_opened() {
    let (made, image) = killed("forced-without");
    let dir = Dir::new("forced-without");
    let cases = [
        ("undo.rdl", 5),
        ("undo2.rdl", 6),
        ("doublewrite.rdl", 1),
        ("doublewrite.rdl", 6),
        ("files.rdl", 1),
    ];
    let table = image.keys().find(|path| path.parent().is_some_and(|p| p.ends_with("tables")));
    let table = table.unwrap().strip_prefix(&made.0).unwrap().to_str().unwrap();
    for (name, level) in cases.into_iter().chain([(table, 1), (table, 6)]) {
        for how in ["a folder", "cut off", "missing"] {
            put(&dir.0, &made.0, &image);
            let path = dir.0.join(name);
            match how {
                "a folder" => {
                    std::fs::remove_file(&path).unwrap();
                    std::fs::create_dir_all(&path).unwrap();
                }
                "cut off" => std::fs::write(&path, []).unwrap(),
                _ => std::fs::remove_file(&path).unwrap(),
            }
            let before = files(&dir.0);
            let disk = Arc::new(RealDisk::new());
            let mut c = Config::new(&dir.0);
            (c.pool_bytes, c.forced) = (8 << 20, Forced::new(level));
            let opened = block_on(Engine::open(c, disk.clone(), Threads::new(disk)));
            let (engine, _) = opened.unwrap_or_else(|e| panic!("{name}, {how}: {e}"));
            // Level 6 reads the pages as they lie in the files.
            assert!(level == 6 || engine.dict.schema("s").is_some(), "{name}, {how}");
            block_on(engine.close()).unwrap();
            assert!(files(&dir.0) == before, "{name}, {how}");
        }
    }
}

/// Format 1 had one undo file. The second one comes with the first start; later it is missed.
#[test]
fn a_directory_of_format_1_becomes_one_of_today() {
    let dir = Dir::new("format-1");
    let engine = open(&dir.0).unwrap();
    block_on(engine.create_schema("s", DEFAULT_COLLATION, None)).unwrap();
    block_on(engine.close()).unwrap();
    drop(engine);
    let undo = dir.0.join("undo2.rdl");
    std::fs::remove_file(&undo).unwrap();
    let e = error(open(&dir.0));
    assert!(e.to_string().contains("undo2.rdl") && !undo.exists(), "{e}");
    patch_control(&dir.0, 8, 1);
    let engine = open(&dir.0).unwrap();
    assert!(engine.dict.schema("s").is_some() && undo.exists());
    block_on(engine.close()).unwrap();
    drop(engine);
    std::fs::remove_file(&undo).unwrap();
    assert!(error(open(&dir.0)).to_string().contains("undo2.rdl"));
}

#[test]
fn a_full_disk_fails_the_statement_and_nothing_else() {
    let dir = Dir::new("full");
    let full = Arc::new(AtomicBool::new(false));
    let disk = || Filling::new(&full);
    let engine = open_on(disk(), &dir.0).unwrap();
    let def = TableDef {
        schema: "s".into(),
        name: "t".into(),
        columns: vec![
            Column::new(
                "id",
                SqlType::Int { size: IntSize::Int, sign: Sign::SIGNED, display: None },
            )
            .not_null(),
            Column::new(
                "c",
                SqlType::VarChar { chars: 4000, collation: Collation::Latin1SwedishCi },
            )
            .not_null(),
        ],
        indexes: vec![IndexDef::primary([0])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    let text = "x".repeat(3000);
    block_on(async {
        engine.create_schema("s", DEFAULT_COLLATION, None).await?;
        let t = engine.create_table(def.clone(), 1, None).await?;
        let mut trx = engine.begin(KillFlag::new());
        let mut row = Vec::new();
        let mut encode = |id: i64| {
            row.clear();
            t.layout.encode(&[Value::Int(id), Value::text(&text)], &mut row);
            row.clone()
        };
        trx.insert(&t, &encode(1)).await?;
        trx.commit().await?.durable().await;
        full.store(true, SeqCst);
        // What is there has room for some rows more; then the file would have to grow.
        let mut id = 1;
        let error = loop {
            id += 1;
            assert!(id < 20_000, "the table has grown on a full disk");
            match trx.insert(&t, &encode(id)).await {
                Ok(()) => {}
                Err(e) => break e,
            }
        };
        assert!(matches!(&error, Error::DiskFull(what) if what.contains("s.t")), "{error}");
        assert!(error.to_string().starts_with("the disk is full"), "{error}");
        // The transaction is as it was before the insert; it can still be committed, or rolled
        // back.
        trx.rollback().await?;
        trx.insert(&t, &encode(2)).await?;
        trx.commit().await?.durable().await;
        let another = TableDef { name: "u".into(), ..def.clone() };
        assert!(matches!(engine.create_table(another, 1, None).await, Err(Error::DiskFull(_))));
        // With room again everything goes on.
        full.store(false, SeqCst);
        for id in 3..1000 {
            trx.insert(&t, &encode(id)).await?;
        }
        trx.commit().await?.durable().await;
        let mut rows = Cursor::new(t.clone(), 0, Vec::new(), None, false, Read::Consistent);
        let mut n = 0;
        while rows.next(&mut trx).await? {
            n += 1;
        }
        assert_eq!(n, 999);
        trx.commit().await?.wait();
        let check = engine.check_table(&t).await?;
        assert!(check.errors.is_empty(), "{:?}", check.errors);
        engine.close().await
    })
    .unwrap();
    // A directory cannot be made on a full disk: that is an error too.
    full.store(true, SeqCst);
    let other = Dir::new("full-new");
    let e = error(open_on(disk(), &other.0));
    assert!(matches!(e, Error::DiskFull(_)), "{e}");
}

/// The bytes of a long column are written before the row, which may then wait for a lock in vain.
#[test]
fn an_insert_that_fails_leaves_nothing_in_its_transaction() {
    let dir = Dir::new("failed-insert");
    let engine = open(&dir.0).unwrap();
    let def = TableDef {
        schema: "s".into(),
        name: "t".into(),
        columns: vec![
            Column::new("id", SqlType::BIGINT).not_null(),
            Column::new("c", SqlType::Blob { size: LobSize::Long }).not_null(),
        ],
        indexes: vec![IndexDef::primary([0])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    block_on(async {
        engine.create_schema("s", DEFAULT_COLLATION, None).await?;
        let t = engine.create_table(def, 1, None).await?;
        let (mut row, long) = (Vec::new(), vec![1; 100_000]);
        t.layout.encode(&[Value::Int(1), Value::bytes(&long)], &mut row);
        let (mut owner, mut late) = (engine.begin(KillFlag::new()), engine.begin(KillFlag::new()));
        owner.insert(&t, &row).await?;
        late.lock_wait_timeout = Duration::from_millis(10);
        let before = late.savepoint();
        assert!(matches!(late.insert(&t, &row).await, Err(Error::LockWaitTimeout)));
        assert_eq!(late.savepoint(), before);
        owner.commit().await?.durable().await;
        assert!(matches!(late.insert(&t, &row).await, Err(Error::DuplicateKey { .. })));
        assert_eq!(late.savepoint(), before);
        late.commit().await?.durable().await;
        engine.close().await
    })
    .unwrap();
}
