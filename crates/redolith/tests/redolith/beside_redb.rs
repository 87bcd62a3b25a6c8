//! The same program on Redolith and on redb: the same answers, the same order of keys, and after
//! `kill -9` the same guarantees. What was acknowledged is there; of the one transaction that may
//! have been committed without its acknowledgement, everything or nothing.

use crate::common::{Dir, Random};
use redb::{ReadableDatabase, ReadableTable};
use redolith::{Error, Result, TableDefinition};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::Bound;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

type Rows = BTreeMap<u64, Vec<u8>>;
const KEYS: u64 = 60;

/// One step of a transaction.
enum Step {
    Insert(u64, Vec<u8>),
    Put(u64, Vec<u8>),
    Remove(u64),
    Savepoint,
    /// To the savepoint before, if there is one.
    RollBackTo,
    /// All rows from this key on.
    Read(u64),
}
struct Program {
    steps: Vec<Step>,
    commits: bool,
}
/// The transaction with this number, which follows from the seed.
fn program(seed: u64, number: u64) -> Program {
    let mut random = Random(seed ^ number.wrapping_mul(0x0123_4567_89ab_cdef));
    let steps = (0..1 + random.below(12))
        .map(|_| {
            let key = random.below(KEYS);
            // Most values fit in a page, some lie in a chain of pages of their own.
            let len = if random.below(10) == 0 { random.below(40_000) } else { random.below(300) };
            let value = vec![random.next() as u8; len as usize];
            match random.below(12) {
                0..3 => Step::Insert(key, value),
                3..6 => Step::Put(key, value),
                6..9 => Step::Remove(key),
                9 => Step::Savepoint,
                10 => Step::RollBackTo,
                _ => Step::Read(key),
            }
        })
        .collect();
    Program { steps, commits: random.below(5) > 0 }
}

/// What both databases can do, in one transaction at a time.
trait Transaction {
    /// False if there is such a row already.
    fn insert(&mut self, key: u64, value: &[u8]) -> bool;
    fn put(&mut self, key: u64, value: &[u8]);
    /// False if there is no such row.
    fn remove(&mut self, key: u64) -> bool;
    fn savepoint(&mut self);
    fn roll_back_to_savepoint(&mut self);
    fn read_from(&mut self, key: u64) -> Vec<(u64, Vec<u8>)>;
    fn end(self: Box<Self>, commits: bool);
}
trait Database {
    fn begin(&self) -> Box<dyn Transaction + '_>;
    fn rows(&self) -> Rows;
}

impl Step {
    /// Changes the model.
    fn apply(&self, rows: &mut Rows, saved: &mut Rows) {
        match self {
            Step::Insert(key, value) => {
                rows.entry(*key).or_insert(value.clone());
            }
            Step::Put(key, value) => {
                rows.insert(*key, value.clone());
            }
            Step::Remove(key) => {
                rows.remove(key);
            }
            Step::Savepoint => *saved = rows.clone(),
            Step::RollBackTo => *rows = saved.clone(),
            Step::Read(_) => {}
        }
    }
    /// Changes the database, which must answer as the model, `rows`, says.
    fn run(&self, t: &mut dyn Transaction, rows: &Rows) {
        match self {
            Step::Insert(key, value) => {
                assert_eq!(t.insert(*key, value), !rows.contains_key(key), "insert of {key}");
            }
            Step::Put(key, value) => t.put(*key, value),
            Step::Remove(key) => {
                assert_eq!(t.remove(*key), rows.contains_key(key), "removal of {key}");
            }
            Step::Savepoint => t.savepoint(),
            Step::RollBackTo => t.roll_back_to_savepoint(),
            Step::Read(key) => {
                let expected: Vec<_> = rows.range(key..).map(|(k, v)| (*k, v.clone())).collect();
                assert!(t.read_from(*key) == expected, "rows from {key} on");
            }
        }
    }
}
/// What the model is after the transaction.
fn apply(program: &Program, model: &mut Rows) {
    let (mut rows, mut saved) = (model.clone(), model.clone());
    program.steps.iter().for_each(|step| step.apply(&mut rows, &mut saved));
    if program.commits {
        *model = rows;
    }
}
/// Runs the transaction on a database, which must give the model's answers, and on the model.
fn run(program: &Program, database: &dyn Database, model: &mut Rows) {
    let (mut rows, mut saved) = (model.clone(), model.clone());
    let mut t = database.begin();
    t.savepoint();
    for step in &program.steps {
        step.run(&mut *t, &rows);
        step.apply(&mut rows, &mut saved);
    }
    t.end(program.commits);
    apply(program, model);
}

const TABLE: TableDefinition<u64, Vec<u8>> = TableDefinition::new("t");
struct OnRedolith(redolith::Database, redolith::Table<u64, Vec<u8>>);
impl OnRedolith {
    fn open(dir: &Path) -> OnRedolith {
        let options = redolith::Database::builder().cache_bytes(8 << 20);
        let db = options.log_capacity_bytes(8 << 20).open(dir).unwrap();
        let table = db.table(TABLE).unwrap();
        OnRedolith(db, table)
    }
}
impl Database for OnRedolith {
    fn begin(&self) -> Box<dyn Transaction + '_> {
        Box::new(RedolithTransaction { t: self.0.begin(), table: &self.1, savepoint: None })
    }
    fn rows(&self) -> Rows {
        self.0.snapshot().range(&self.1, ..).unwrap().collect::<Result<_>>().unwrap()
    }
}
struct RedolithTransaction<'d> {
    t: redolith::Transaction,
    table: &'d redolith::Table<u64, Vec<u8>>,
    savepoint: Option<redolith::Savepoint>,
}
impl Transaction for RedolithTransaction<'_> {
    fn insert(&mut self, key: u64, value: &[u8]) -> bool {
        match self.t.insert(self.table, key, value) {
            Ok(()) => true,
            Err(Error::DuplicateKey { .. }) => false,
            Err(e) => panic!("{e}"),
        }
    }
    fn put(&mut self, key: u64, value: &[u8]) {
        self.t.put(self.table, key, value).unwrap();
    }
    fn remove(&mut self, key: u64) -> bool {
        self.t.remove(self.table, key).unwrap()
    }
    fn savepoint(&mut self) {
        self.savepoint = Some(self.t.savepoint());
    }
    fn roll_back_to_savepoint(&mut self) {
        self.t.rollback_to(self.savepoint.unwrap()).unwrap();
    }
    fn read_from(&mut self, key: u64) -> Vec<(u64, Vec<u8>)> {
        self.t.range(self.table, key..).unwrap().collect::<Result<_>>().unwrap()
    }
    fn end(self: Box<Self>, commits: bool) {
        if commits { self.t.commit().unwrap() } else { self.t.rollback().unwrap() }
    }
}

const REDB_TABLE: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("t");
struct OnRedb(redb::Database);
impl OnRedb {
    #[allow(clippy::disallowed_methods)] // redb's file needs a directory
    fn open(dir: &Path) -> OnRedb {
        std::fs::create_dir_all(dir).unwrap();
        let db = redb::Database::create(dir.join("redb")).unwrap();
        let t = db.begin_write().unwrap();
        t.open_table(REDB_TABLE).unwrap();
        t.commit().unwrap();
        OnRedb(db)
    }
}
impl Database for OnRedb {
    fn begin(&self) -> Box<dyn Transaction + '_> {
        Box::new(RedbTransaction { t: self.0.begin_write().unwrap(), before: Vec::new() })
    }
    fn rows(&self) -> Rows {
        let table = self.0.begin_read().unwrap().open_table(REDB_TABLE).unwrap();
        let rows = table.range::<u64>(..).unwrap().map(|row| row.unwrap());
        rows.map(|(key, value)| (key.value(), value.value().to_vec())).collect()
    }
}
/// redb takes savepoints only before the first change, so the changes since are taken back by hand.
struct RedbTransaction {
    t: redb::WriteTransaction,
    before: Vec<(u64, Option<Vec<u8>>)>,
}
impl RedbTransaction {
    fn set(&mut self, key: u64, value: Option<&[u8]>) -> Option<Vec<u8>> {
        let mut table = self.t.open_table(REDB_TABLE).unwrap();
        let old = match value {
            Some(value) => table.insert(key, value).unwrap(),
            None => table.remove(key).unwrap(),
        };
        old.map(|old| old.value().to_vec())
    }
    fn change(&mut self, key: u64, value: Option<&[u8]>) -> bool {
        let old = self.set(key, value);
        let was_there = old.is_some();
        self.before.push((key, old));
        was_there
    }
}
impl Transaction for RedbTransaction {
    fn insert(&mut self, key: u64, value: &[u8]) -> bool {
        let is_free = self.t.open_table(REDB_TABLE).unwrap().get(key).unwrap().is_none();
        if is_free {
            self.change(key, Some(value));
        }
        is_free
    }
    fn put(&mut self, key: u64, value: &[u8]) {
        self.change(key, Some(value));
    }
    fn remove(&mut self, key: u64) -> bool {
        self.change(key, None)
    }
    fn savepoint(&mut self) {
        self.before.clear();
    }
    fn roll_back_to_savepoint(&mut self) {
        while let Some((key, value)) = self.before.pop() {
            self.set(key, value.as_deref());
        }
    }
    fn read_from(&mut self, key: u64) -> Vec<(u64, Vec<u8>)> {
        let table = self.t.open_table(REDB_TABLE).unwrap();
        let rows = table.range(key..).unwrap().map(|row| row.unwrap());
        rows.map(|(key, value)| (key.value(), value.value().to_vec())).collect()
    }
    fn end(self: Box<Self>, commits: bool) {
        if commits { self.t.commit().unwrap() } else { self.t.abort().unwrap() }
    }
}

fn open(engine: &str, dir: &Path) -> Box<dyn Database> {
    match engine {
        "redolith" => Box::new(OnRedolith::open(dir)),
        "redb" => Box::new(OnRedb::open(dir)),
        other => panic!("no engine is called {other}"),
    }
}

/// Puts keys into both, and asks for the same ranges in both directions.
macro_rules! same_order {
    ($key:ty, $redb_key:ty, $given:expr, $seen:expr, $keys:expr, $ranges:expr) => {{
        let dirs = [Dir::new("order-redolith"), Dir::new("order-redb")];
        let (ours, theirs) = (dirs[0].open(), OnRedb::open(&dirs[1].0).0);
        let table = ours.table(TableDefinition::<$key, ()>::new("t")).unwrap();
        let definition = redb::TableDefinition::<$redb_key, ()>::new("keys");
        let (t, u) = (ours.begin(), theirs.begin_write().unwrap());
        for key in &$keys {
            t.put(&table, $given(key), ()).unwrap();
            u.open_table(definition).unwrap().insert($given(key), ()).unwrap();
        }
        t.commit().unwrap();
        u.commit().unwrap();
        let theirs = theirs.begin_read().unwrap().open_table(definition).unwrap();
        let ours = ours.snapshot();
        for (low, high) in &$ranges {
            let range = || ($given(low), $given(high));
            let bounds = || (Bound::Included(range().0), Bound::Excluded(range().1));
            let rows = |backwards| -> Vec<$key> {
                let rows = ours.range(&table, bounds()).unwrap().map(|row| row.unwrap().0);
                if backwards { rows.rev().collect() } else { rows.collect() }
            };
            let expected: Vec<$key> = theirs
                .range::<$redb_key>(bounds())
                .unwrap()
                .map(|row| $seen(row.unwrap().0.value()))
                .collect();
            assert_eq!(rows(false), expected);
            assert_eq!(rows(true), expected.into_iter().rev().collect::<Vec<_>>());
        }
        let all: Vec<$key> =
            theirs.iter().unwrap().map(|row| $seen(row.unwrap().0.value())).collect();
        assert!(all.len() > 100, "{}", all.len());
        let rows = ours.range(&table, ..).unwrap().map(|row| row.unwrap().0);
        assert_eq!(rows.collect::<Vec<_>>(), all);
    }};
}
/// Some keys, and ranges from the lesser to the greater of two of them.
fn keys<K: Clone + Ord>(mut key: impl FnMut(&mut Random) -> K) -> (Vec<K>, Vec<(K, K)>) {
    let mut random = Random(3);
    let keys: Vec<K> = (0..300).map(|_| key(&mut random)).collect();
    let pair =
        |pair: &[K]| (pair[0].clone().min(pair[1].clone()), pair[0].clone().max(pair[1].clone()));
    let ranges = keys[..60].chunks(2).map(pair).collect();
    (keys, ranges)
}
/// Bytes with what is special in encodings: zeros, 0xff, spaces, lengths around eight.
fn bytes(random: &mut Random) -> Vec<u8> {
    let len = random.below(20);
    (0..len).map(|_| [0, 1, b' ', b'a', 0x7f, 0xc3, 0xfe, 0xff][random.below(8) as usize]).collect()
}
fn text(random: &mut Random) -> String {
    let len = random.below(12);
    let chars = ['\0', ' ', 'a', 'A', 'ä', 'z', '\u{7f}', '\u{ffff}', '\u{1f600}'];
    (0..len).map(|_| chars[random.below(9) as usize]).collect()
}
fn number(random: &mut Random) -> i64 {
    (random.next() as i64) >> random.below(64)
}

#[test]
fn keys_are_in_the_same_order() {
    let (signed, ranges) = keys(number);
    same_order!(i64, i64, |key: &i64| *key, |key: i64| key, signed, ranges);
    let (unsigned, ranges) = keys(|random| number(random) as u64);
    same_order!(u64, u64, |key: &u64| *key, |key: u64| key, unsigned, ranges);
    let (texts, ranges) = keys(text);
    same_order!(String, &str, String::as_str, |key: &str| key.to_string(), texts, ranges);
    let (blobs, ranges) = keys(bytes);
    same_order!(Vec<u8>, &[u8], Vec::as_slice, |key: &[u8]| key.to_vec(), blobs, ranges);
    let (tuples, ranges) = keys(|random| (text(random), random.below(3) as i16 - 1, bytes(random)));
    same_order!(
        (String, i16, Vec<u8>),
        (&str, i16, &[u8]),
        tuple_given,
        |key: (&str, i16, &[u8])| (key.0.to_string(), key.1, key.2.to_vec()),
        tuples,
        ranges
    );
}
fn tuple_given(key: &(String, i16, Vec<u8>)) -> (&str, i16, &[u8]) {
    (&key.0, key.1, &key.2)
}

#[test]
fn both_give_the_same_answers() {
    let dirs = [Dir::new("answers-redolith"), Dir::new("answers-redb")];
    let databases = [open("redolith", &dirs[0].0), open("redb", &dirs[1].0)];
    let mut models = [Rows::new(), Rows::new()];
    for number in 0..150 {
        for (database, model) in databases.iter().zip(&mut models) {
            run(&program(1, number), &**database, model);
        }
    }
    assert!(!models[0].is_empty() && models[0] == models[1]);
    for (database, model) in databases.iter().zip(&models) {
        assert!(database.rows() == *model);
    }
}

/// Not a test: the process that is killed. It says which transactions have ended.
#[test]
#[ignore = "run by kill_9_loses_nothing_that_was_acknowledged"]
fn runs_until_it_is_killed() {
    let Some(dir) = std::env::var_os("REDOLITH_TEST_DIR") else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (seed, first) = (number("REDOLITH_TEST_SEED"), number("REDOLITH_TEST_FIRST"));
    let database = open(&std::env::var("REDOLITH_TEST_ENGINE").unwrap(), Path::new(&dir));
    let mut model = database.rows();
    for number in first.. {
        run(&program(seed, number), &*database, &mut model);
        println!("ended {number}");
        std::io::stdout().flush().unwrap();
    }
}

/// Starts the other process, kills it some time after so many transactions, and returns how many
/// have ended since the first.
fn run_and_kill(engine: &str, dir: &Path, seed: u64, first: u64, random: &mut Random) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "beside_redb::runs_until_it_is_killed", "--ignored", "--nocapture"])
        .env("REDOLITH_TEST_ENGINE", engine)
        .env("REDOLITH_TEST_DIR", dir)
        .env("REDOLITH_TEST_SEED", seed.to_string())
        .env("REDOLITH_TEST_FIRST", first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ended = lines.filter_map(|line| line.ok()?.strip_prefix("ended ")?.parse::<u64>().ok());
    let (mut count, kill_after) = (0, 1 + random.below(60));
    for number in ended {
        assert_eq!(number, first + count);
        count += 1;
        if count == kill_after {
            #[allow(clippy::disallowed_methods)] // somewhere in the middle of what follows
            std::thread::sleep(Duration::from_micros(random.below(5_000)));
            child.kill().unwrap();
        }
    }
    assert!(count >= kill_after, "{engine} ended by itself: {:?}", child.wait());
    child.wait().unwrap();
    count
}

fn survives_kills(engine: &str) {
    let dir = Dir::new(&format!("killed-{engine}"));
    let seed: u64 = std::env::var("SEED").map_or(7, |seed| seed.parse().unwrap());
    let mut random = Random(seed);
    let (mut model, mut first) = (Rows::new(), 0);
    for round in 0..8 {
        let ended = run_and_kill(engine, &dir.0, seed, first, &mut random);
        let recovered = open(engine, &dir.0);
        let at = format!("{engine}, round {round}, {ended} transactions from {first} on");
        for number in first..first + ended {
            apply(&program(seed, number), &mut model);
        }
        first += ended;
        let mut with_the_next = model.clone();
        apply(&program(seed, first), &mut with_the_next);
        let rows = recovered.rows();
        assert!(rows == model || rows == with_the_next, "SEED={seed}: {at}: other rows");
        if rows == with_the_next {
            model = with_the_next;
            first += 1;
        }
    }
    assert!(first >= 8 && !model.is_empty());
}
#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    survives_kills("redolith");
}
#[test]
fn kill_9_loses_nothing_that_redb_has_acknowledged() {
    survives_kills("redb");
}

/// Tables are listed, dropped once, and gone after the next start, in both.
#[test]
fn tables_are_listed_and_dropped_alike() {
    let dir = Dir::new("drop-beside-redb");
    let ours = redolith::Database::open(dir.0.join("redolith")).unwrap();
    let redbs = redb::Database::create(dir.0.join("redb")).unwrap();
    let names = ["a", "b", "c"];
    for name in names {
        ours.table(TableDefinition::<u64, Vec<u8>>::new(name)).unwrap();
    }
    let t = redbs.begin_write().unwrap();
    for name in names {
        t.open_table(redb::TableDefinition::<u64, &[u8]>::new(name)).unwrap();
    }
    t.commit().unwrap();
    let listed = |db: &redb::Database| {
        let t = db.begin_read().unwrap();
        let tables = t.list_tables().unwrap();
        let mut names: Vec<String> =
            tables.map(|t| redb::TableHandle::name(&t).to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(ours.tables(), listed(&redbs));
    for name in ["b", "b", "none"] {
        let t = redbs.begin_write().unwrap();
        let was_there = t.delete_table(redb::TableDefinition::<u64, &[u8]>::new(name)).unwrap();
        t.commit().unwrap();
        assert_eq!(ours.drop_table(name).unwrap(), was_there, "{name}");
    }
    ours.close().unwrap();
    drop(redbs);
    let ours = redolith::Database::open(dir.0.join("redolith")).unwrap();
    let redbs = redb::Database::open(dir.0.join("redb")).unwrap();
    assert_eq!(ours.tables(), listed(&redbs));
    assert_eq!(ours.tables(), ["a", "c"]);
}
