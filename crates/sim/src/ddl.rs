//! DDL under load and power cuts: the effect of each statement is there whole or not at all, with
//! the rows, and no statement leaves a file behind.
use crate::executor::Rng;
use crate::load::{LOCK, Shared, encode, int, key, number, table};
use redolith_disk::{Disk, SimDisk};
use redolith_engine::dict::alter::Alteration;
use redolith_engine::dict::index_build::Building;
use redolith_engine::dict::new_table::NewTable;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::progress::Progress;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::temporary::{FileCall, TemporarySpace};
use redolith_engine::{Engine, Error, Result, Trx};
use redolith_types::{Collation, Column, IndexDef, LobSize, SqlType, TableDef, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NAMES: [&str; 4] = ["t0", "t1", "t2", "t3"];

/// A table's expected state: k and the text's length by id, and the index on k if there is one
/// (`true` if unique).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Def {
    rows: BTreeMap<i64, (i64, usize)>,
    index: Option<bool>,
}
type Defs = BTreeMap<String, Def>;
#[derive(Clone, Default)]
pub struct KnownDefs {
    acked: Defs,
    /// The tables if the unanswered statement has taken effect.
    pending: Option<Defs>,
}
pub type Definitions = Arc<Mutex<KnownDefs>>;

fn index_on_k(unique: bool) -> IndexDef {
    IndexDef::secondary("k", unique, [1])
}
fn has_duplicates(d: &Def) -> bool {
    d.rows.values().map(|r| r.0).collect::<BTreeSet<_>>().len() < d.rows.len()
}

/// One statement.
enum Statement {
    Create(String, Option<bool>),
    /// A table that is made with its rows (NEWTABLE-1), or given up when it has them all.
    Fill {
        name: String,
        index: Option<bool>,
        rows: Vec<(i64, (i64, usize))>,
        /// Rows whose key is taken are left out (NEWTABLE-2).
        ignores: bool,
        gives_up: bool,
    },
    Drop(Vec<String>),
    Truncate(String),
    Rename(Vec<(String, String)>),
    AddIndex(String, bool),
    DropIndex(String),
    /// ALTER TABLE that drops the index, adds a similar index and renames the table, in one
    /// statement.
    Alter(String, bool, String),
    /// ALTER TABLE that copies the rows into a new table, which takes the old table's place with an
    /// index more and perhaps another name (NEWTABLE-3), or is given up when it has the rows.
    Rebuild {
        name: String,
        unique: bool,
        to: String,
        gives_up: bool,
    },
    /// Writes rows, and deletes rows.
    Write(String, Vec<(i64, (i64, usize))>, Vec<i64>),
}
use Statement::*;

fn draw(rng: &mut Rng, defs: &Defs) -> Statement {
    let name = NAMES[rng.below(4) as usize].to_string();
    let Some(d) = defs.get(&name) else {
        let index = [None, Some(false), Some(true)][rng.below(3) as usize];
        return if defs.len().is_multiple_of(2) {
            Create(name, index)
        } else {
            filled(name, index, defs)
        };
    };
    let other = NAMES[rng.below(4) as usize].to_string();
    match rng.below(12) {
        0 if other != name && defs.contains_key(&other) => Drop(vec![name, other]),
        0 => Drop(vec![name]),
        1 => Truncate(name),
        2 | 3 if other != name && defs.contains_key(&other) => {
            Rename(vec![(name.clone(), other.clone()), (other, name)])
        }
        2 | 3 if other != name => Rename(vec![(name, other)]),
        4 if d.index.is_some() && (other == name || !defs.contains_key(&other)) => {
            Alter(name, rng.chance(2), other)
        }
        4..7 if d.index.is_some() => DropIndex(name),
        // As in `filled`, this takes nothing from the random numbers that `AddIndex` does not take.
        4..7 if d.rows.len() % 4 > 1 => {
            let free = other != name && !defs.contains_key(&other);
            Rebuild {
                unique: rng.chance(2),
                to: if free { other } else { name.clone() },
                name,
                gives_up: d.rows.len().is_multiple_of(5),
            }
        }
        4..7 => AddIndex(name, rng.chance(2)),
        _ => {
            let count = if rng.chance(6) { 150 } else { 1 + rng.below(20) };
            let put = (0..count)
                .map(|_| {
                    (rng.below(600) as i64, (rng.below(100_000) as i64, rng.below(300) as usize))
                })
                .collect();
            let gone = (0..rng.below(12)).map(|_| rng.below(600) as i64).collect();
            Write(name, put, gone)
        }
    }
}
/// A table with rows. They follow from the tables that are there, and take nothing from the random
/// numbers, so that seeds that were kept go on as they did.
fn filled(name: String, index: Option<bool>, defs: &Defs) -> Statement {
    let seed: usize = defs.values().map(|d| d.rows.len()).sum();
    let count = if seed.is_multiple_of(3) { 200 } else { seed % 20 };
    let row = |i: usize| {
        // A unique index meets a value twice if there are many rows.
        let k = if seed.is_multiple_of(2) { i } else { i % 97 };
        (i as i64, ((seed + k) as i64, (i * 37 + seed) % 300))
    };
    let rows = (0..count).map(row).collect();
    Fill { name, index, rows, ignores: seed % 4 == 1, gives_up: seed % 5 == 4 }
}
impl Statement {
    /// The tables after the statement. `None` if it must fail with a duplicate key.
    fn expected(&self, before: &Defs) -> Option<Defs> {
        let mut d = before.clone();
        match self {
            Create(name, index) => {
                drop(d.insert(name.clone(), Def { rows: BTreeMap::new(), index: *index }))
            }
            Fill { name, index, rows, ignores, gives_up } => {
                let mut def = Def { rows: BTreeMap::new(), index: *index };
                for (id, row) in rows {
                    let taken = *index == Some(true) && def.rows.values().any(|r| r.0 == row.0);
                    if taken && !ignores {
                        return None;
                    }
                    if !taken {
                        def.rows.insert(*id, *row);
                    }
                }
                if !gives_up {
                    d.insert(name.clone(), def);
                }
            }
            Drop(names) => names.iter().for_each(|n| drop(d.remove(n))),
            Truncate(name) => d.get_mut(name)?.rows.clear(),
            Rename(list) => {
                list.iter().for_each(|(from, _)| drop(d.remove(from)));
                list.iter().for_each(|(from, to)| drop(d.insert(to.clone(), before[from].clone())));
            }
            AddIndex(name, unique) => {
                if *unique && has_duplicates(&d[name]) {
                    return None;
                }
                d.get_mut(name)?.index = Some(*unique);
            }
            DropIndex(name) => d.get_mut(name)?.index = None,
            Alter(name, unique, to) => {
                let mut t = d.remove(name)?;
                if *unique && has_duplicates(&t) {
                    return None;
                }
                t.index = Some(*unique);
                d.insert(to.clone(), t);
            }
            Rebuild { name, unique, to, gives_up } => {
                if *unique && has_duplicates(&d[name]) {
                    return None;
                }
                if !gives_up {
                    let t = d.remove(name)?;
                    d.insert(to.clone(), Def { index: Some(*unique), ..t });
                }
            }
            Write(name, put, gone) => {
                let t = d.get_mut(name)?;
                for (id, row) in put {
                    let taken = t.index == Some(true) && t.rows.values().any(|r| r.0 == row.0);
                    if !taken && !t.rows.contains_key(id) {
                        t.rows.insert(*id, *row);
                    }
                }
                t.rows.retain(|id, _| !gone.contains(id));
            }
        }
        Some(d)
    }
    async fn run(&self, e: &Arc<Engine>) -> Result<()> {
        match self {
            Create(name, index) => {
                e.create_table(definition(name, *index), 1, None).await.map(drop)
            }
            Fill { name, index, rows, ignores, gives_up } => {
                fill(e, definition(name, *index), rows, *ignores, *gives_up).await
            }
            Drop(names) => {
                let mut tables = Vec::new();
                for n in names {
                    tables.push(find(e, n).await?);
                }
                e.drop_tables(&tables, None).await
            }
            Truncate(name) => e.truncate_table(&find(e, name).await?, None).await.map(drop),
            Rename(list) => {
                let mut renames = Vec::new();
                for (from, to) in list {
                    renames.push((find(e, from).await?, "sim".to_string(), to.clone()));
                }
                e.rename_tables(&renames, &[], None).await
            }
            AddIndex(name, unique) => e
                .create_indexes(&find(e, name).await?, vec![index_on_k(*unique)], &building(e)?)
                .await
                .map(drop),
            DropIndex(name) => e.drop_indexes(&find(e, name).await?, &[1]).await.map(drop),
            Alter(name, unique, to) => {
                let t = find(e, name).await?;
                let mut def = t.def.clone();
                def.name = to.clone();
                def.indexes[1] = index_on_k(*unique);
                e.alter_table(
                    &t,
                    Alteration {
                        def,
                        added: 1,
                        dropped: vec![1],
                        auto_increment: None,
                        record: None,
                    },
                    &building(e)?,
                )
                .await
                .map(drop)
            }
            Rebuild { name, unique, to, gives_up } => {
                rebuild(e, &find(e, name).await?, definition(to, Some(*unique)), *gives_up).await
            }
            Write(name, put, gone) => write(e, &find(e, name).await?, put, gone).await,
        }
    }
}
/// How an index is built: a handful of entries in memory, and a handful in a leaf, so that a table
/// of few rows has parts in a file and a tree of several levels.
fn building(e: &Engine) -> Result<Building> {
    let dir = Path::new("/tmp");
    e.disk.create_dir_all(dir).map_err(|err| {
        let why = err.to_string();
        Error::TemporaryFile { call: FileCall::Create, file: dir.display().to_string(), why }
    })?;
    let space = TemporarySpace::new(dir, u64::MAX);
    let building = Building::in_files(KillFlag::new(), 700, space, Progress::new());
    Ok(Building { fill: 150, ..building })
}
fn definition(name: &str, index: Option<bool>) -> TableDef {
    let text = SqlType::Text { size: LobSize::Long, collation: Collation::Latin1SwedishCi };
    let columns =
        vec![Column::new("id", int()).not_null(), Column::new("k", int()), Column::new("v", text)];
    let indexes =
        [Some(IndexDef::primary([0])), index.map(index_on_k)].into_iter().flatten().collect();
    table(name, columns, indexes)
}
/// Makes a table with its rows in one transaction.
async fn fill(
    e: &Arc<Engine>,
    def: TableDef,
    rows: &[(i64, (i64, usize))],
    ignores: bool,
    gives_up: bool,
) -> Result<()> {
    let mut trx = e.begin(KillFlag::new());
    let begun = e.begin_table(&mut trx, def, 1).await;
    let later = !ignores && rows.len() % 3 < 2;
    finish(e, trx, begun, (gives_up, later), async |trx, t| {
        for (id, row) in rows {
            match trx.insert(t, &encoded(t, *id, *row)).await {
                Err(Error::DuplicateKey { .. }) if ignores => {}
                done => done?,
            }
        }
        Ok(())
    })
    .await
}
/// Copies the rows of a table into a table that takes its place.
async fn rebuild(e: &Arc<Engine>, old: &Arc<Table>, def: TableDef, gives_up: bool) -> Result<()> {
    let mut trx = e.begin(KillFlag::new());
    let begun = e.begin_replacement(&mut trx, old, def, 1, &[]).await;
    let later = old.clustered().id % 3 < 2;
    finish(e, trx, begun, (gives_up, later), async |trx, t| {
        let mut c = Cursor::new(old.clone(), 0, Vec::new(), None, false, Read::Consistent);
        while c.next(trx).await? {
            let p = c.payload(trx).await?;
            let Value::Bytes(v) = old.layout.get(p, 2) else { panic!("the text of a row") };
            let row = encoded(t, number(old, p, 0), (number(old, p, 1), v.len()));
            trx.insert(t, &row).await?;
        }
        Ok(())
    })
    .await
}
/// Fills a new table and commits, or gives the table up. `later`: its indexes are built when it has
/// its rows (NEWTABLE-4).
async fn finish(
    e: &Arc<Engine>,
    mut trx: Trx,
    begun: Result<NewTable>,
    (gives_up, later): (bool, bool),
    rows: impl AsyncFnOnce(&mut Trx, &Arc<Table>) -> Result<()>,
) -> Result<()> {
    let mut new = match begun {
        Ok(new) => new,
        Err(err) => {
            trx.rollback().await?;
            return Err(err);
        }
    };
    if later {
        new.build_later();
    }
    let mut filled = rows(&mut trx, new.table()).await.map(|()| !gives_up);
    if later && filled.is_ok() {
        let built = async { new.build_indexes(&building(e)?).await };
        filled = built.await.map(|()| !gives_up);
    }
    if let Ok(true) = filled {
        filled = async {
            new.commit(&mut trx, None).await?.durable().await;
            Ok(true)
        }
        .await;
    }
    if let Ok(true) = filled {
        return new.enter().await;
    }
    trx.rollback().await?;
    new.discard().await?;
    filled.map(drop)
}
fn encoded(t: &Table, id: i64, (k, len): (i64, usize)) -> Vec<u8> {
    encode(t, &[Value::Int(id), Value::Int(k), Value::Bytes(Cow::Owned(vec![b'x'; len]))])
}
async fn find(e: &Arc<Engine>, name: &str) -> Result<Arc<Table>> {
    Ok(e.table("sim", name).await?.unwrap_or_else(|| panic!("table {name} is not there")))
}
async fn write(
    e: &Arc<Engine>,
    t: &Arc<Table>,
    put: &[(i64, (i64, usize))],
    gone: &[i64],
) -> Result<()> {
    let mut trx = e.begin(KillFlag::new());
    let done = async {
        for (id, row) in put {
            match trx.insert(t, &encoded(t, *id, *row)).await {
                Ok(()) | Err(Error::DuplicateKey { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        for id in gone {
            let mut c = Cursor::point(t.clone(), key(t, *id), LOCK);
            if c.next(&mut trx).await? {
                trx.delete(t, c.row()).await?;
            }
        }
        trx.commit().await?.durable().await;
        Ok(())
    };
    let done = done.await;
    trx.rollback().await?;
    done
}

/// The client that runs DDL.
pub async fn client(
    e: Arc<Engine>,
    mut rng: Rng,
    count: u64,
    shared: Shared,
    known: Definitions,
) -> Result<()> {
    for _ in 0..count {
        let before = known.lock().expect("one thread").acked.clone();
        let s = draw(&mut rng, &before);
        let after = s.expected(&before);
        known.lock().expect("one thread").pending = after.clone();
        let done = s.run(&e).await;
        let now = match (done, after) {
            (Ok(()), Some(after)) => after,
            (Ok(()), None) => panic!("a unique index over duplicates"),
            (Err(Error::DuplicateKey { .. }), None) => before,
            (Err(err), after) if shared.forgives(&err) => {
                // The statement may have failed after its commit.
                e.runtime.sleep(Duration::from_millis(20)).await;
                let found = loop {
                    match contents(&e).await {
                        Ok(found) => break found,
                        Err(err) if shared.forgives(&err) => {
                            e.runtime.sleep(Duration::from_millis(20)).await
                        }
                        Err(err) => return Err(err),
                    }
                };
                assert!(
                    found == before || after.is_some_and(|a| a == found),
                    "a statement that failed ({err}) is there in part"
                );
                found
            }
            (Err(err), _) => return Err(err),
        };
        let k = &mut known.lock().expect("one thread");
        (k.acked, k.pending) = (now, None);
        shared.seen.lock().expect("one thread").statements += 1;
    }
    Ok(())
}

/// Reads the tables from the engine.
async fn contents(e: &Arc<Engine>) -> Result<Defs> {
    let mut all = Defs::new();
    for name in NAMES {
        let Some(t) = e.table("sim", name).await? else { continue };
        let mut d = Def { rows: BTreeMap::new(), index: t.def.indexes.get(1).map(|i| i.unique) };
        let mut trx = e.begin(KillFlag::new());
        let mut c = Cursor::new(t.clone(), 0, Vec::new(), None, false, Read::Consistent);
        while c.next(&mut trx).await? {
            let p = c.payload(&trx).await?;
            let Value::Bytes(v) = t.layout.get(p, 2) else { panic!("the text of a row of {name}") };
            assert!(v.iter().all(|b| *b == b'x'), "a wrong text in {name}");
            d.rows.insert(number(&t, p, 0), (number(&t, p, 1), v.len()));
        }
        if d.index.is_some() {
            let mut by_k = BTreeMap::new();
            let mut c = Cursor::new(t.clone(), 1, Vec::new(), None, true, Read::Consistent);
            while c.next(&mut trx).await? {
                let p = c.payload(&trx).await?;
                by_k.insert(number(&t, p, 0), number(&t, p, 1));
            }
            let rows: BTreeMap<i64, i64> = d.rows.iter().map(|(id, r)| (*id, r.0)).collect();
            assert_eq!(by_k, rows, "index k of {name} tells another story than the rows");
        }
        all.insert(name.to_string(), d);
    }
    Ok(all)
}

/// Checks that every answered statement has its effect, and that an unanswered one has its whole
/// effect or none.
pub async fn compare(e: &Arc<Engine>, known: &Definitions) -> Result<()> {
    let found = contents(e).await?;
    let k = &mut known.lock().expect("one thread");
    let pending = k.pending.take();
    assert!(
        found == k.acked || pending.as_ref() == Some(&found),
        "definitions: found {found:?}\nanswered {:?}\nnot answered {pending:?}",
        k.acked
    );
    k.acked = found;
    Ok(())
}
/// As [`compare`], and checks that structure and files are sound.
pub async fn verify(e: &Arc<Engine>, disk: &SimDisk, known: &Definitions) -> Result<()> {
    compare(e, known).await?;
    for name in NAMES {
        let Some(t) = e.table("sim", name).await? else { continue };
        let c = e.check_table(&t).await?;
        assert!(c.errors.is_empty(), "{}: {:?}", t.full_name(), c.errors);
    }
    let dir = Path::new("/sim/tables");
    let files: BTreeSet<String> =
        disk.list(dir).map_err(|e| Error::io(dir.display(), &e))?.into_iter().collect();
    let spaces: BTreeSet<String> =
        e.dict.tables("sim").iter().map(|t| format!("{}.rdl", t.space.0)).collect();
    assert_eq!(files, spaces, "the files in tables/ and the tables");
    Ok(())
}
