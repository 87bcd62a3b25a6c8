//! `redolith dump`: each kind of file of an engine that wrote, as it is and damaged in many places.
#![allow(clippy::disallowed_methods)] // the test damages files behind the engine's back

use crate::common::Dir;
use crate::common::tables::*;
use redolith_disk::RealDisk;
use redolith_engine::dump::{Kind, Request, dump};
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::block_on;
use redolith_engine::{PAGE_SIZE, Trx};
use redolith_types::{IndexDef, Value};
use std::path::{Path, PathBuf};

fn dumped(kind: Kind, path: &Path, from: u64, limit: u64, hex: bool) -> String {
    let mut out = Vec::new();
    dump(&RealDisk::new(), &Request { kind, path: path.into(), from, limit, hex }, &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}
fn whole(kind: Kind, path: &Path) -> String {
    dumped(kind, path, 0, u64::MAX, false)
}
fn damage(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with('!')).count()
}
fn table_files(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir.join("tables"))
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|f| f.is_file())
        .collect()
}
/// A directory with 300 rows, an index, long values and undo that purge has left.
pub fn written(name: &str) -> Dir {
    let dir = Dir::new(name);
    let (e, _) = open(&dir);
    block_on(async {
        let t = create(
            &e,
            "t",
            vec![("k", int()), ("c", text(1000))],
            vec![IndexDef::secondary("k", false, [1])],
        )
        .await;
        e.history.stop();
        let row = |id: i64, k: i64| {
            encoded(&t, &[Value::Int(id), Value::Int(k), Value::Bytes(vec![b'x'; 500].into())])
        };
        let mut trx: Trx = e.begin(KillFlag::new());
        for id in 0..300 {
            trx.insert(&t, &row(id, id)).await.unwrap();
        }
        commit(&mut trx).await;
        for id in 0..20 {
            let at = locked(&mut trx, &t, id).await.unwrap();
            trx.update(&t, at.row(), &row(id, 7)).await.unwrap();
        }
        commit(&mut trx).await;
        drop(trx);
        e.close().await.unwrap();
    });
    dir
}

#[test]
fn whole_files_are_told_without_damage() {
    let dir = written("dump-whole");
    let control = whole(Kind::Control, &dir.0.join("redo/control"));
    assert!(
        control.contains("stopped cleanly: the log ends") && control.contains("witness at 32768: "),
        "{control}"
    );
    assert_eq!(damage(&control), 0, "{control}");

    let path = dir.0.join("redo/log_0");
    let log = whole(Kind::Log, &path);
    assert!(
        log.contains("segment 0 of log")
            && log.contains("changes, durable then")
            && log.contains("zeros: nothing was written"),
        "{log}"
    );
    assert!(log.contains("made anew") && log.contains(", epoch 1\n"), "{log}");
    assert_eq!(damage(&log), 0, "{log}");
    // Frames follow each other without gaps, from the log's first LSN on.
    let frame = |line: &str| {
        let rest = line.strip_prefix("  LSN ")?;
        let (lsn, rest) = rest.split_once(", ")?;
        Some((lsn.parse::<u64>().ok()?, rest.split_once(" bytes")?.0.parse::<u64>().ok()?))
    };
    let frames: Vec<(u64, u64)> = log.lines().filter_map(frame).collect();
    assert!(frames.len() > 300 && frames[0].0 == 4096, "{}", frames.len());
    assert!(frames.windows(2).all(|f| f[0].0 + f[0].1 == f[1].0));
    let some = dumped(Kind::Log, &path, frames[5].0, 3, true);
    assert_eq!(some.lines().filter_map(frame).collect::<Vec<_>>(), frames[5..8], "{some}");

    let undo: String =
        ["undo.rdl", "undo2.rdl"].map(|name| whole(Kind::Undo, &dir.0.join(name))).concat();
    assert_eq!(undo.matches(": change, key ").count(), 20, "{undo}");
    assert!(undo.contains("committed as number") && damage(&undo) == 0, "{undo}");

    let tables: Vec<String> =
        table_files(&dir.0).iter().map(|path| whole(Kind::Page, path)).collect();
    assert!(tables.iter().any(|t| t.contains("level 1") && t.contains("level 0, ")), "{tables:?}");
    assert!(
        tables.iter().all(|t| t.contains("page 0: header")
            && t.contains("page 1: bitmap")
            && damage(t) == 0),
        "{tables:?}"
    );
    let page = dumped(Kind::Page, &dir.0.join("system.rdl"), 1, 1, true);
    assert!(
        page.contains("page 1: bitmap") && !page.contains("page 2:") && page.contains("      "),
        "{page}"
    );

    let copies = whole(Kind::Doublewrite, &dir.0.join("doublewrite.rdl"));
    assert!(copies.contains(": whole"), "{copies}");
}

/// A byte is changed in each of many places, and each file is cut at many: the dump ends, and tells
/// of what it sees.
/// Tests DUMP-1.
#[test]
fn damaged_files_are_printed_as_far_as_they_go() {
    let dir = written("dump-damaged");
    let table = table_files(&dir.0)
        .into_iter()
        .max_by_key(|path| std::fs::metadata(path).unwrap().len())
        .unwrap();
    let files = [
        (Kind::Control, dir.0.join("redo/control")),
        (Kind::Log, dir.0.join("redo/log_0")),
        (Kind::Page, table),
        (Kind::Undo, dir.0.join("undo.rdl")),
        (Kind::Undo, dir.0.join("undo2.rdl")),
        (Kind::Doublewrite, dir.0.join("doublewrite.rdl")),
    ];
    let mut told = 0;
    for (kind, path) in files {
        let right = std::fs::read(&path).unwrap();
        let used = right.iter().rposition(|b| *b != 0).unwrap_or(0) + 1;
        for n in 0..40 {
            let mut wrong = right.clone();
            wrong[used * n / 40] ^= 0x55;
            std::fs::write(&path, &wrong).unwrap();
            told += usize::from(damage(&whole(kind, &path)) > 0);
            std::fs::write(&path, &right[..used * n / 40]).unwrap();
            whole(kind, &path);
        }
        std::fs::write(&path, &right).unwrap();
    }
    // Elsewhere the byte was one of zeros, or behind the bytes that a checksum covers.
    assert!(told > 100, "{told}");

    // Headers that lie about lengths and numbers.
    let path = dir.0.join("redo/log_0");
    let right = std::fs::read(&path).unwrap();
    let mut wrong = right.clone();
    wrong[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&wrong[..12]), &wrong[16..32]);
    wrong[12..16].copy_from_slice(&crc.to_le_bytes());
    for (at, lsn) in (4096..1 << 20).step_by(64).zip((0u64..).step_by(64)) {
        wrong[at..at + 8].copy_from_slice(&[0, 0, 0, 0, 255, 255, 0, 4]);
        wrong[at + 8..at + 16].copy_from_slice(&lsn.to_le_bytes());
    }
    std::fs::write(&path, &wrong).unwrap();
    assert!(damage(&dumped(Kind::Log, &path, 0, 50, false)) > 40);
    let renamed = dir.0.join(format!("redo/log_{}", u64::MAX));
    std::fs::write(&renamed, &wrong).unwrap();
    whole(Kind::Log, &renamed);
    let stranger = dir.0.join("redo/segment");
    std::fs::write(&stranger, &right).unwrap();
    let request = Request { kind: Kind::Log, path: stranger, from: 0, limit: 1, hex: false };
    assert!(
        dump(&RealDisk::new(), &request, &mut Vec::new())
            .unwrap_err()
            .to_string()
            .contains("log_<number>")
    );
}

/// The id that a damaged page 0 claims is not held against the other pages, and what stands behind
/// the last whole page or copy is told.
#[test]
fn a_damaged_page_0_and_a_cut_end_are_told_once() {
    let dir = written("dump-page-0");
    for (kind, path) in [
        (Kind::Page, dir.0.join("system.rdl")),
        (Kind::Page, table_files(&dir.0)[0].clone()),
        (Kind::Undo, dir.0.join("undo.rdl")),
    ] {
        let right = std::fs::read(&path).unwrap();
        let lines = whole(kind, &path).lines().count();
        let mut wrong = right.clone();
        // The space id.
        wrong[8..12].fill(0x66);
        std::fs::write(&path, &wrong).unwrap();
        let text = whole(kind, &path);
        let told: Vec<&str> = text.lines().filter(|line| line.starts_with('!')).collect();
        assert!(!told.iter().any(|line| !line.contains("page 0")), "{told:#?}");
        assert!(kind == Kind::Undo || told.len() == 1, "{told:#?}");
        std::fs::write(&path, &right[..right.len() - 1000]).unwrap();
        let text = whole(kind, &path);
        assert_eq!(text.matches("! the file ends within a page, 15384 bytes").count(), 1);
        assert!(text.lines().count() <= lines + 1, "{text}");
        std::fs::write(&path, &right).unwrap();
    }
    // A batch of copies that is cut off is told, too.
    let path = dir.0.join("doublewrite.rdl");
    let right = std::fs::read(&path).unwrap();
    assert!(right.len() > 3 * PAGE_SIZE && whole(Kind::Doublewrite, &path).contains(": whole"));
    std::fs::write(&path, &right[..3 * PAGE_SIZE]).unwrap();
    let cut = whole(Kind::Doublewrite, &path);
    assert_eq!(cut, "1 batches\n! batch at 0: its header is torn or damaged\n");
}
