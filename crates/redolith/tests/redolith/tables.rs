//! Directories and tables: opening, closing, definitions, limits, durability.

use crate::common::Dir;
use redolith::{
    Database, Durability, Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, Result, TableDefinition,
    asynchronous,
};
use std::process::Command;

const TEXTS: TableDefinition<String, String> = TableDefinition::new("texts");
const BLOBS: TableDefinition<Vec<u8>, Vec<u8>> = TableDefinition::new("blobs");

#[test]
fn a_directory_is_open_once() {
    let dir = Dir::new("open-once");
    let db = dir.open();
    let texts = db.table(TEXTS).unwrap();
    let second = Database::open(&dir.0).unwrap_err();
    assert!(matches!(&second, Error::InUse { directory } if directory == dir.text()));
    assert!(second.to_string().contains("in use by another process"), "{second}");
    // The refused one has done nothing to the one that is open, which gives the directory back.
    db.transact(|t| t.put(&texts, "a", "b")).unwrap();
    db.close().unwrap();
    let db = dir.open();
    let texts = db.table(TEXTS).unwrap();
    assert_eq!(db.snapshot().get(&texts, "a").unwrap().as_deref(), Some("b"));
}

#[test]
fn a_database_closes_when_its_last_handle_is_dropped() {
    let dir = Dir::new("dropped-database");
    let db = dir.open();
    let texts = db.table(TEXTS).unwrap();
    let (t, other) = (db.begin(), db.clone());
    t.put(&texts, "kept", "").unwrap();
    assert!(matches!(db.close(), Err(Error::StillInUse { handles: 2 })));
    drop(other);
    // A transaction keeps it open, and it is that one's end that closes it.
    assert!(matches!(Database::open(&dir.0), Err(Error::InUse { .. })));
    t.commit().unwrap();
    let db = dir.open();
    let texts = db.table(TEXTS).unwrap();
    let unfinished = db.begin();
    unfinished.put(&texts, "rolled back", "").unwrap();
    drop((db, unfinished));
    let db = dir.open();
    let texts = db.table(TEXTS).unwrap();
    let rows: Vec<_> = db.snapshot().range(&texts, ..).unwrap().collect::<Result<_>>().unwrap();
    assert_eq!(rows, [("kept".to_string(), String::new())]);
}

#[test]
fn a_table_of_other_types_is_refused() {
    let dir = Dir::new("mismatch");
    let db = dir.open();
    db.table(TableDefinition::<u32, String>::new("t")).unwrap();
    db.close().unwrap();
    let db = dir.open();
    db.table(TableDefinition::<u32, String>::new("t")).unwrap();
    let refused = |e: Error, wanted: &str| {
        let stored = "k int unsigned NOT NULL, v longtext NOT NULL, PRIMARY KEY (k)";
        assert!(
            matches!(&e, Error::TableMismatch { table, stored: s, wanted: w }
                if table == "t" && s == stored && w.starts_with(wanted)),
            "{e}"
        );
        assert!(e.to_string().contains(stored), "{e}");
    };
    let error = db.table(TableDefinition::<u64, String>::new("t")).unwrap_err();
    refused(error, "k bigint unsigned NOT NULL,");
    let error = db.table(TableDefinition::<i32, String>::new("t")).unwrap_err();
    refused(error, "k int NOT NULL,");
    let error = db.table(TableDefinition::<u32, Option<String>>::new("t")).unwrap_err();
    refused(error, "k int unsigned NOT NULL, v longtext, ");
    let error = db.table(TableDefinition::<u32, ()>::new("t")).unwrap_err();
    refused(error, "k int unsigned NOT NULL, PRIMARY KEY (k)");
    let error = db.table(TableDefinition::<(u32, u32), String>::new("t")).unwrap_err();
    refused(error, "k1 int unsigned NOT NULL, k2 int unsigned NOT NULL,");
    // Text and bytes in a key have the same SQL type, and are still told apart.
    db.table(TEXTS).unwrap();
    let error = db.table(TableDefinition::<Vec<u8>, String>::new("texts")).unwrap_err();
    assert!(matches!(&error, Error::TableMismatch { stored, .. } if stored.contains("'text'")));
}

#[test]
fn a_name_that_no_table_can_have_is_refused() {
    let dir = Dir::new("names");
    let db = dir.open();
    const LONG: &str = "a123456789b123456789c123456789d123456789e123456789f123456789g1234";
    for name in ["", "ends with a space ", "nul\0", "line\n", LONG] {
        let e = db.table(TableDefinition::<u8, u8>::new(name)).unwrap_err();
        assert!(matches!(&e, Error::TableName { name: told, .. } if told == name), "{e}");
    }
    for name in [&LONG[1..], "tables", "../up", "ä b.c/d", "`"] {
        let table = db.table(TableDefinition::<u8, u8>::new(name)).unwrap();
        assert_eq!(table.name(), name);
        db.transact(|t| t.put(&table, 1, 2)).unwrap();
    }
    db.close().unwrap();
    let db = dir.open();
    for name in [&LONG[1..], "tables", "../up", "ä b.c/d", "`"] {
        let table = db.table(TableDefinition::<u8, u8>::new(name)).unwrap();
        assert_eq!(db.snapshot().get(&table, 1).unwrap(), Some(2));
    }
}

#[test]
fn what_is_too_long_is_refused_and_what_is_not_comes_back_whole() {
    let dir = Dir::new("limits");
    let db = Database::builder().cache_bytes(64 << 20).open(&dir.0).unwrap();
    let blobs = db.table(BLOBS).unwrap();
    let pairs = db.table(TableDefinition::<(String, u8, Vec<u8>), ()>::new("pairs")).unwrap();
    let t = db.begin();
    // Bytes that need the most room in a key and, behind it, long values of all kinds.
    let longest = vec![0xff; MAX_KEY_BYTES];
    let values = [0, 1, 100, 2_900, 3_000, 8_000, 9_000, 16_384, 70_000, 5_000_000];
    for len in values {
        let value: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        for call in [|| "put", || "update"] {
            match call() {
                "put" => t.put(&blobs, &longest, &value).unwrap(),
                _ => assert!(t.update(&blobs, &longest, &value).unwrap()),
            }
            assert!(t.get(&blobs, &longest).unwrap() == Some(value.clone()), "{len}");
        }
        t.insert(&blobs, &[len as u8, (len >> 8) as u8, (len >> 16) as u8], &value).unwrap();
    }
    let long_key = vec![1; MAX_KEY_BYTES + 1];
    let too_long = |e: Error, bytes, max| {
        let expected =
            matches!(&e, Error::KeyTooLong { bytes: b, max: m, .. } if (*b, *m) == (bytes, max));
        assert!(expected && e.to_string().contains(&max.to_string()), "{e}");
    };
    too_long(t.put(&blobs, &long_key, b"").unwrap_err(), MAX_KEY_BYTES + 1, MAX_KEY_BYTES);
    too_long(t.get(&blobs, &long_key).unwrap_err(), MAX_KEY_BYTES + 1, MAX_KEY_BYTES);
    assert_eq!(t.range(&blobs, &long_key[..]..).unwrap().count(), 8);
    let half = MAX_KEY_BYTES / 2;
    let text = "x".repeat(half + 1);
    too_long(t.insert(&pairs, (&text, 0, b""), ()).unwrap_err(), half + 1, half);
    too_long(t.insert(&pairs, ("", 0, text.as_bytes()), ()).unwrap_err(), half + 1, half);
    let most = (&text[1..], 255, &longest[..half]);
    t.insert(&pairs, most, ()).unwrap();
    assert_eq!(t.get(&pairs, most).unwrap(), Some(()));
    let long_value = vec![0; MAX_VALUE_BYTES + 1];
    let e = t.put(&blobs, b"k", &long_value).unwrap_err();
    assert!(matches!(&e, Error::ValueTooLong { bytes, .. } if *bytes == long_value.len()), "{e}");
    assert!(e.to_string().contains("maximum is 268435456"), "{e}");
    let numbers = db.table(TableDefinition::<u8, (f64, Option<f64>)>::new("numbers")).unwrap();
    for wrong in [(f64::NAN, None), (0.0, Some(f64::INFINITY))] {
        let e = t.insert(&numbers, 1, wrong).unwrap_err();
        assert!(matches!(&e, Error::NotFinite { table } if table == "numbers"), "{e}");
    }
    t.commit().unwrap();
    db.close().unwrap();
    let db = dir.open();
    let blobs = db.table(BLOBS).unwrap();
    let snapshot = db.snapshot();
    let lens = snapshot.range(&blobs, ..).unwrap().map(|row| row.unwrap().1.len());
    assert_eq!(lens.sum::<usize>(), values.iter().sum::<usize>() + 5_000_000);
}

/// What each type holds at its ends comes back.
#[test]
fn values_come_back_as_they_were_given() {
    let dir = Dir::new("types");
    let db = dir.open();
    type Numbers = (u8, u16, u32, u64, bool, f64);
    type Others = (i8, i16, i32, i64, Option<String>, Option<i8>);
    let numbers = db.table(TableDefinition::<u8, Numbers>::new("numbers")).unwrap();
    let others = db.table(TableDefinition::<bool, Others>::new("others")).unwrap();
    let low: Numbers = (0, 0, 0, 0, false, f64::MIN);
    let high: Numbers = (u8::MAX, u16::MAX, u32::MAX, u64::MAX, true, f64::MIN_POSITIVE);
    db.transact(|t| {
        t.put(&numbers, 0, low)?;
        t.put(&numbers, 255, high)?;
        t.put(&others, false, (i8::MIN, i16::MIN, i32::MIN, i64::MIN, None, Some(-1)))?;
        t.put(&others, true, (i8::MAX, i16::MAX, i32::MAX, i64::MAX, Some("ö"), None))
    })
    .unwrap();
    let snapshot = db.snapshot();
    assert_eq!(snapshot.get(&numbers, 0).unwrap(), Some(low));
    assert_eq!(snapshot.get(&numbers, 255).unwrap(), Some(high));
    let min: Others = (i8::MIN, i16::MIN, i32::MIN, i64::MIN, None, Some(-1));
    let max: Others = (i8::MAX, i16::MAX, i32::MAX, i64::MAX, Some("ö".into()), None);
    let rows: Vec<_> = snapshot.range(&others, ..).unwrap().collect::<Result<_>>().unwrap();
    assert_eq!(rows, [(false, min), (true, max)]);
}

#[test]
fn handles_are_used_with_the_database_and_transaction_they_are_of() {
    let (one, two) = (Dir::new("handles-1"), Dir::new("handles-2"));
    let (a, b) = (dir_async(&one), dir_async(&two));
    let texts = redolith::Database::from(a.clone()).table(TEXTS).unwrap();
    let e = redolith::Database::from(b).begin().put(&texts, "a", "b").unwrap_err();
    assert!(matches!(&e, Error::OtherDatabase { table } if table == "texts"), "{e}");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut first, mut second) = (a.begin(), a.snapshot());
        let mut rows = first.range(&texts, ..).unwrap();
        assert!(matches!(rows.next(&mut second).await, Err(Error::OtherTransaction)));
        assert!(matches!(rows.next_back(&mut first).await, Ok(None)));
    });
}
fn dir_async(dir: &Dir) -> asynchronous::Database {
    dir.open().into()
}

#[test]
fn a_table_that_is_younger_than_a_snapshot_is_not_seen_by_it() {
    let dir = Dir::new("younger");
    let db = dir.open();
    let snapshot = db.snapshot();
    let texts = db.table(TEXTS).unwrap();
    let e = snapshot.get(&texts, "a").unwrap_err();
    assert!(matches!(&e, Error::TableTooNew { table } if table == "texts"), "{e}");
    assert_eq!(db.snapshot().get(&texts, "a").unwrap(), None);
}

#[test]
fn threads_create_the_same_table_at_once() {
    let dir = Dir::new("create-at-once");
    let db = dir.open();
    let meeting = std::sync::Barrier::new(4);
    std::thread::scope(|s| {
        for n in 0..4 {
            let (db, meeting) = (&db, &meeting);
            s.spawn(move || {
                meeting.wait();
                let table = db.table(TableDefinition::<u8, ()>::new("t")).unwrap();
                db.transact(|t| t.insert(&table, n, ())).unwrap();
            });
        }
    });
    let table = db.table(TableDefinition::<u8, ()>::new("t")).unwrap();
    assert_eq!(db.snapshot().range(&table, ..).unwrap().count(), 4);
}

const LEVELS: [(&str, Durability); 3] = [
    ("durable", Durability::Durable),
    ("written", Durability::Written),
    ("eventual", Durability::Eventual),
];

/// Not a test: the process of the next one that dies.
#[test]
#[ignore = "run by a_commit_is_as_durable_as_its_level"]
fn commits_and_dies() {
    let Some(dir) = std::env::var_os("REDOLITH_TEST_DIR") else { return };
    let levels = std::env::var("REDOLITH_TEST_LEVELS").unwrap();
    let db = Database::open(dir).unwrap();
    let texts = db.table(TEXTS).unwrap();
    for wanted in levels.split(',') {
        let (name, level) = LEVELS.iter().find(|(name, _)| *name == wanted).unwrap();
        let t = db.begin();
        t.put(&texts, name, "").unwrap();
        t.commit_with(*level).unwrap();
        // Whatever the level, it is visible at once.
        assert_eq!(db.snapshot().get(&texts, name).unwrap().as_deref(), Some(""));
    }
    let unfinished = db.begin();
    unfinished.put(&texts, "unfinished", "").unwrap();
    std::process::abort();
}

/// Not a test: the process of the next one.
#[test]
#[ignore = "run by a_disk_that_breaks_its_promise_ends_the_process"]
fn is_poisoned() {
    let Some(dir) = std::env::var_os("REDOLITH_TEST_DIR") else { return };
    let _db = Database::open(dir).unwrap();
    // In a program that unwinds only the thread would end, and others would wait for ever.
    let ended = std::thread::spawn(|| redolith_engine::poison("an fsync failed")).join();
    println!("the process is still there: {}", ended.is_err());
}

#[test]
fn a_disk_that_breaks_its_promise_ends_the_process() {
    let dir = Dir::new("poisoned");
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tables::is_poisoned", "--ignored", "--nocapture"])
        .env("REDOLITH_TEST_DIR", &dir.0)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&ended.stderr).contains("an fsync failed"));
    assert!(!String::from_utf8_lossy(&ended.stdout).contains("still there"));
}

#[test]
fn a_commit_is_as_durable_as_its_level() {
    for levels in ["durable", "written", "eventual,durable", "eventual,written"] {
        let dir = Dir::new("levels");
        let died = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tables::commits_and_dies", "--ignored", "--nocapture"])
            .env("REDOLITH_TEST_DIR", &dir.0)
            .env("REDOLITH_TEST_LEVELS", levels)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&died.stderr);
        assert!(!died.status.success() && !errors.contains("panicked"), "{errors}");
        let db = dir.open();
        let texts = db.table(TEXTS).unwrap();
        let snapshot = db.snapshot();
        let rows = snapshot.range(&texts, ..).unwrap().map(|row| row.unwrap().0);
        let mut expected: Vec<&str> = levels.split(',').collect();
        expected.sort_unstable();
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
    // A clean end loses nothing.
    let dir = Dir::new("levels");
    let db = dir.open();
    let texts = db.table(TEXTS).unwrap();
    let t = db.begin();
    t.put(&texts, "eventual", "").unwrap();
    t.commit_with(Durability::Eventual).unwrap();
    db.close().unwrap();
    let db = dir.open();
    let texts = db.table(TEXTS).unwrap();
    assert!(db.snapshot().get(&texts, "eventual").unwrap().is_some());
}

#[test]
fn tables_are_listed_and_dropped() {
    let dir = Dir::new("drop-table");
    let db = Database::builder()
        .lock_wait_timeout(std::time::Duration::from_millis(50))
        .open(&dir.0)
        .unwrap();
    assert!(db.tables().is_empty() && !db.drop_table("texts").unwrap());
    let (texts, blobs) = (db.table(TEXTS).unwrap(), db.table(BLOBS).unwrap());
    assert_eq!(db.tables(), ["blobs", "texts"]);
    db.transact(|t| t.put(&texts, "a", "old")).unwrap();

    // Who has used the table keeps it, whether it writes or only reads.
    let (t, unused, snapshot) = (db.begin(), db.begin(), db.snapshot());
    t.put(&texts, "a", "new").unwrap();
    t.put(&blobs, b"b", b"kept").unwrap();
    assert_eq!(snapshot.get(&texts, "a").unwrap().as_deref(), Some("old"));
    let in_use =
        |e: Result<bool>| matches!(&e, Err(Error::TableInUse { table, .. }) if table == "texts");
    assert!(in_use(db.drop_table("texts")));
    t.commit().unwrap();
    assert!(in_use(db.drop_table("texts")));
    drop(snapshot);
    assert!(db.drop_table("texts").unwrap() && !db.drop_table("texts").unwrap());

    // Handles say so, and a table of the same name and other types is another table.
    let dropped = |e: Error| matches!(&e, Error::TableDropped { table } if table == "texts");
    assert!(dropped(unused.get(&texts, "a").unwrap_err()));
    assert!(dropped(unused.put(&texts, "a", "x").unwrap_err()));
    assert!(dropped(unused.range(&texts, ..).unwrap().next().unwrap().unwrap_err()));
    unused.put(&blobs, b"c", b"the transaction goes on").unwrap();
    unused.commit().unwrap();
    let again = db.table(TableDefinition::<String, u64>::new("texts")).unwrap();
    db.transact(|t| t.insert(&again, "a", 1)).unwrap();
    db.close().unwrap();

    let db = dir.open();
    assert_eq!(db.tables(), ["blobs", "texts"]);
    assert_eq!(db.snapshot().get(&again_of(&db), "a").unwrap(), Some(1));
    assert_eq!(db.snapshot().range(&db.table(BLOBS).unwrap(), ..).unwrap().count(), 2);
}
fn again_of(db: &Database) -> redolith::Table<String, u64> {
    db.table(TableDefinition::new("texts")).unwrap()
}

/// The rollback of a transaction that was dropped goes on beside the drop of its table.
#[test]
fn a_table_is_dropped_beside_a_rollback() {
    let dir = Dir::new("drop-beside-rollback");
    let db = dir.open();
    for round in 0..10u32 {
        let texts = db.table(TEXTS).unwrap();
        let t = db.begin();
        for n in 0..500 {
            t.put(&texts, &format!("{round}-{n}"), "x").unwrap();
        }
        drop(t);
        assert!(db.drop_table("texts").unwrap());
    }
    db.close().unwrap();
    assert!(dir.open().tables().is_empty());
}

/// A close goes on whose caller gives it up. Tests OPENING-1.
#[test]
fn a_close_that_is_given_up_goes_on() {
    use std::future::Future;
    use std::task::{Context, Waker};
    let dir = Dir::new("close-given-up");
    for round in 0..20u8 {
        let db = asynchronous::Database::from(loop {
            match Database::open(&dir.0) {
                Err(Error::InUse { .. }) => std::thread::yield_now(),
                opened => break opened.unwrap(),
            }
        });
        let blobs = db.table(BLOBS);
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            let blobs = blobs.await.unwrap();
            let mut t = db.begin();
            for n in 0..100 {
                t.put(&blobs, &[round, n], &vec![n; 10_000]).await.unwrap();
            }
            t.commit().await.unwrap();
        });
        let mut closing = Box::pin(db.close());
        let _ = closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    let db = loop {
        match Database::open(&dir.0) {
            Err(Error::InUse { .. }) => std::thread::yield_now(),
            opened => break opened.unwrap(),
        }
    };
    let blobs = db.table(BLOBS).unwrap();
    assert_eq!(db.snapshot().range(&blobs, ..).unwrap().count(), 2000);
}

/// A caller who gives up an open does not leave the engine's tasks behind in an unlocked directory.
/// Tests OPENING-1.
#[test]
fn an_open_that_is_given_up_closes_the_database() {
    use std::future::Future;
    use std::task::{Context, Waker};
    let dir = Dir::new("given-up");
    dir.open().table(TEXTS).unwrap();
    for round in 0..20 {
        let mut opening = Box::pin(asynchronous::Database::open(&dir.0));
        let _ = opening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(opening);
        let db = loop {
            match Database::open(&dir.0) {
                Err(Error::InUse { .. }) => std::thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        let texts = db.table(TEXTS).unwrap();
        db.transact(|t| t.put(&texts, &format!("{round}"), "")).unwrap();
        db.close().unwrap();
    }
    let db = dir.open();
    let texts = db.table(TEXTS).unwrap();
    assert_eq!(db.snapshot().range(&texts, ..).unwrap().count(), 20);
}
