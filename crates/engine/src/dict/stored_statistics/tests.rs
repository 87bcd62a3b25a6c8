use super::*;
use crate::dict::alter::Alteration;
use crate::dict::index_build::Building;
use crate::lock::Mode;
use crate::row::cursor::{Cursor, OnConflict, Read};
use crate::small_engine::*;
use crate::trx::Trx;
use redolith_disk::{Disk, RealDisk};
use redolith_types::{IndexDef, TableDef, Value};

const ROWS: i64 = 2000;

/// An engine whose task of counters and statistics begins when the engine is closed.
struct Quiet {
    small: SmallEngine,
    runtime: Arc<Holding>,
}
impl Quiet {
    fn open(name: &str) -> Quiet {
        let (disk, runtime) = quiet();
        Quiet { small: SmallEngine::open(name, disk, runtime.clone()), runtime }
    }
    fn run(&self, test: impl AsyncFnOnce(Arc<Engine>)) {
        self.small.run(test);
    }
    fn again(self) -> Quiet {
        let (disk, runtime) = quiet();
        self.runtime.release();
        Quiet { small: self.small.reopen(disk, runtime.clone()), runtime }
    }
    fn close(self) {
        self.runtime.release();
        self.small.close();
    }
}
fn quiet() -> (Arc<dyn Disk>, Arc<Holding>) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let runtime = Holding::sleeping("counters", &disk, Duration::from_secs(3600));
    (disk, runtime)
}
fn with_quiet_engine(name: &str, test: impl AsyncFnOnce(Arc<Engine>)) {
    let quiet = Quiet::open(name);
    quiet.run(test);
    quiet.close();
}
async fn found(e: &Arc<Engine>, name: &str) -> Arc<Table> {
    e.table("s", name).await.unwrap().unwrap()
}
/// Gives the table rows with these ids, of which ten have one k.
async fn fill(e: &Arc<Engine>, t: &Arc<Table>, ids: std::ops::Range<i64>) {
    let mut trx = begin(e);
    fill_in(&mut trx, t, ids).await;
    commit(&mut trx).await;
}
async fn fill_in(trx: &mut Trx, t: &Arc<Table>, ids: std::ops::Range<i64>) {
    for id in ids {
        trx.insert(t, &row(t, id, id / 10)).await.unwrap();
    }
}
async fn filled(e: &Arc<Engine>) -> Arc<Table> {
    let t = table(e).await;
    fill(e, &t, 0..ROWS).await;
    t
}
async fn altered(
    e: &Arc<Engine>,
    t: &Arc<Table>,
    added: usize,
    dropped: Vec<usize>,
    change: impl FnOnce(&mut TableDef),
) -> Arc<Table> {
    let mut def = t.def.clone();
    change(&mut def);
    let to = Alteration { def, added, dropped, auto_increment: None, record: None };
    e.alter_table(t, to, &Building::in_memory(KillFlag::new())).await.unwrap()
}
/// The ids of the tables whose statistics have a row in the dictionary.
async fn rows_kept(e: &Arc<Engine>) -> Vec<u64> {
    let mut trx = begin(e);
    let read = Read::Locking { mode: Mode::S, conflict: OnConflict::Wait };
    let mut c = Cursor::new(e.dict_table.clone(), 0, Vec::new(), None, false, read);
    let mut found = Vec::new();
    while c.next(&mut trx).await.unwrap() {
        let Value::Bytes(name) = e.dict_table.layout.get(c.row().stored, 0) else { continue };
        if let Some(id) = name.strip_prefix(b"h") {
            assert_eq!(id.len(), 8);
            found.push(u64::from_be_bytes(id.try_into().unwrap()));
        }
    }
    trx.rollback().await.unwrap();
    found
}
/// Asserts that the dictionary keeps statistics of these tables, on disk and in memory.
async fn keeps(e: &Arc<Engine>, tables: &[&Table]) {
    let mut ids: Vec<u64> = tables.iter().map(|t| t.id).collect();
    ids.sort_unstable();
    assert_eq!(rows_kept(e).await, ids);
    let mut known: Vec<u64> = e.dict.state.read().known_values.statistics.keys().copied().collect();
    known.sort_unstable();
    assert_eq!(known, ids);
}
fn of(made: &Statistics) -> (u64, Vec<Vec<u64>>) {
    (made.rows, (0..2).map(|no| made.distinct(no).unwrap().to_vec()).collect())
}

/// Tests STATS-3: after a restart a table has the statistics of before, which its leaves would not
/// tell any more.
#[test]
fn statistics_are_the_same_after_a_restart() {
    let small = Quiet::open("statistics-restart");
    let mut before = None;
    small.run(async |e| {
        let t = filled(&e).await;
        let made = e.ready_statistics(&t).await;
        before = Some(of(&made));
        assert_eq!(made.rows, ROWS as u64);
        assert!(rows_kept(&e).await.is_empty(), "the statement does not wait for it");
        e.keep_statistics(false).await;
        keeps(&e, &[&t]).await;
        // What has no other values is not written again.
        let kept = e.dict.stored_statistics(t.id).unwrap();
        e.keep_statistics(false).await;
        assert!(Arc::ptr_eq(&kept, &e.dict.stored_statistics(t.id).unwrap()));
        // A tenth more does not count yet.
        fill(&e, &t, ROWS..ROWS + 150).await;
        assert!(made.are_current(&t));
    });
    let small = small.again();
    small.run(async |e| {
        let t = found(&e, "t").await;
        assert_eq!(t.rows.load(Relaxed), ROWS + 150, "the shutdown has stored it");
        assert!(t.statistics().is_none(), "nobody has wanted any");
        assert_eq!(e.distinct_values(&t, 1).await.unwrap(), before.clone().unwrap().1[1]);
        let made = e.ready_statistics(&t).await;
        assert_eq!(of(&made), before.clone().unwrap());
        // This many do, and the task looks at them by itself.
        fill(&e, &t, ROWS + 150..2 * ROWS).await;
        assert!(!made.are_current(&t));
        e.keep_statistics(false).await;
        let made = t.statistics().unwrap();
        assert_eq!(made.rows, 2 * ROWS as u64);
        assert!(made.are_current(&t) && made.stored.load(Acquire));
        // At the end of the engine all is stored that is not yet, without another look.
        e.sample_statistics(&t).await;
        fill(&e, &t, 2 * ROWS..6 * ROWS).await;
    });
    let small = small.again();
    small.run(async |e| {
        let t = found(&e, "t").await;
        let kept = e.dict.stored_statistics(t.id).unwrap();
        assert_eq!(kept.rows, 2 * ROWS as u64);
        // The table has three times as many rows, and the statistics are made anew.
        assert_eq!(t.rows.load(Relaxed), 6 * ROWS);
        assert!(e.kept_statistics(&t).is_none());
        assert_eq!(e.ready_statistics(&t).await.rows, 6 * ROWS as u64);
    });
    small.close();
}
/// Tests STATS-5.
#[test]
fn changed_rows_make_statistics_old() {
    let small = Quiet::open("statistics-changes");
    let few = ROWS / 20 + FEW_ROWS as i64 / 2;
    small.run(async |e| {
        let t = filled(&e).await;
        let made = e.ready_statistics(&t).await;
        e.keep_statistics(false).await;
        let mut trx = begin(&e);
        // The values of no index change, and what is taken back is not there.
        for id in 0..ROWS {
            update(&mut trx, &t, id, id / 10).await;
        }
        let start = trx.savepoint();
        fill_in(&mut trx, &t, ROWS..2 * ROWS).await;
        trx.rollback_to(start).await.unwrap();
        assert!(!made.are_old(&t));
        // Half of what makes them old: one row goes, another comes.
        for id in 0..few / 2 {
            let at = locked(&mut trx, &t, id).await;
            trx.delete(&t, at.row()).await.unwrap();
        }
        fill_in(&mut trx, &t, ROWS..ROWS + few / 2).await;
        commit(&mut trx).await;
        assert!(!made.are_old(&t));
        e.keep_statistics(false).await;
        assert!(Arc::ptr_eq(&made, &t.statistics().unwrap()));
    });
    let small = small.again();
    small.run(async |e| {
        // The other half, after a restart: values of an index change.
        let t = found(&e, "t").await;
        let made = e.ready_statistics(&t).await;
        let kept = e.dict.stored_statistics(t.id).unwrap();
        assert_eq!((made.rows, made.changes), (ROWS as u64, 0));
        assert_eq!(kept.counted, Counted { rows: ROWS as u64, changes: few as u64 });
        let mut trx = begin(&e);
        for id in 0..few {
            update(&mut trx, &t, ROWS / 2 + id, ROWS + id).await;
        }
        commit(&mut trx).await;
        assert!(!made.are_old(&t), "no more than a tenth");
        let mut trx = begin(&e);
        update(&mut trx, &t, ROWS / 2, 2 * ROWS).await;
        commit(&mut trx).await;
        assert!(made.are_current(&t), "statements use them until there are newer ones");
        assert!(made.are_old(&t));
        e.dict.statistics_settings.auto_recalc.store(false, Relaxed);
        e.keep_statistics(false).await;
        assert!(made.are_current(&t), "only ANALYZE TABLE makes newer ones");
        e.dict.statistics_settings.auto_recalc.store(true, Relaxed);
        e.keep_statistics(false).await;
        assert!(!made.are_current(&t));
        let newer = t.statistics().unwrap();
        assert!(newer.are_current(&t) && !newer.are_old(&t) && newer.stored.load(Acquire));
        assert!(newer.distinct(1).unwrap()[0] > made.distinct(1).unwrap()[0]);
        // The task stores counts that are far from those that it has stored, and only these.
        fill(&e, &t, 2 * ROWS..2 * ROWS + 20).await;
        e.keep_statistics(false).await;
        assert_eq!(e.dict.stored_statistics(t.id).unwrap().counted.rows, ROWS as u64);
        fill(&e, &t, 2 * ROWS + 20..2 * ROWS + 150).await;
        e.keep_statistics(false).await;
        assert_eq!(e.dict.stored_statistics(t.id).unwrap().counted.rows, ROWS as u64 + 150);
        assert_eq!(e.dict.stored_statistics(t.id).unwrap().rows, ROWS as u64);
    });
    small.close();
}
/// Tests STATS-2.
#[test]
fn definitions_keep_what_stays_true() {
    let small = Quiet::open("statistics-ddl");
    let mut before = None;
    small.run(async |e| {
        let t = filled(&e).await;
        e.analyze_table(&t).await.unwrap();
        before = t.statistics().map(|made| of(&made));
        keeps(&e, &[&t]).await;
        let renames = [(t.clone(), "s".to_string(), "other".to_string())];
        e.rename_tables(&renames, &[], None).await.unwrap();
        let t = found(&e, "other").await;
        keeps(&e, &[&t]).await;
        assert_eq!(of(&*e.ready_statistics(&t).await), before.clone().unwrap());
        // These rows would change what leaves tell of k.
        let mut trx = begin(&e);
        for id in ROWS..ROWS + 100 {
            trx.insert(&t, &row(&t, id, id)).await.unwrap();
        }
        commit(&mut trx).await;
        // A new index comes first: what is kept follows the indexes, and not their numbers.
        let t = altered(&e, &t, 1, vec![], |def| {
            def.indexes.push(IndexDef::secondary("u", true, [1, 0]));
        })
        .await;
        assert_eq!(t.def.indexes[1].name, "u");
        let made = e.ready_statistics(&t).await;
        assert_eq!(made.distinct(2).unwrap(), before.clone().unwrap().1[1]);
        assert_eq!(made.distinct(1).unwrap().len(), 2);
        assert!(!made.stored.load(Acquire), "the new index has no statistics there");
    });
    let small = small.again();
    small.run(async |e| {
        let t = found(&e, "other").await;
        assert_eq!(e.dict.stored_statistics(t.id).unwrap().indexes.len(), 3);
        let t = altered(&e, &t, 0, vec![2], |def| drop(def.indexes.remove(2))).await;
        keeps(&e, &[&t]).await;
        assert!(e.ready_statistics(&t).await.stored.load(Acquire));
        let t = altered(&e, &t, 0, vec![], |def| def.statistics.persistent = Some(false)).await;
        keeps(&e, &[]).await;
        e.analyze_table(&t).await.unwrap();
        e.keep_statistics(false).await;
        keeps(&e, &[]).await;
    });
    let small = small.again();
    small.run(async |e| {
        let t = found(&e, "other").await;
        keeps(&e, &[]).await;
        let t = altered(&e, &t, 0, vec![], |def| def.statistics.persistent = None).await;
        e.analyze_table(&t).await.unwrap();
        keeps(&e, &[&t]).await;
        let mut trx = begin(&e);
        let mut new = e.begin_replacement(&mut trx, &t, t.def.clone(), 1, &[]).await.unwrap();
        new.commit(&mut trx, None).await.unwrap().durable().await;
        new.enter().await.unwrap();
        keeps(&e, &[]).await;
        let t = found(&e, "other").await;
        e.analyze_table(&t).await.unwrap();
        keeps(&e, &[&t]).await;
        let t = e.truncate_table(&t, None).await.unwrap();
        keeps(&e, &[]).await;
        e.analyze_table(&t).await.unwrap();
        keeps(&e, &[&t]).await;
        e.drop_tables(&[t], None).await.unwrap();
        keeps(&e, &[]).await;
    });
    let small = small.again();
    small.run(async |e| {
        keeps(&e, &[]).await;
        let t = table_in(&e).await;
        e.analyze_table(&t).await.unwrap();
        keeps(&e, &[&t]).await;
        e.drop_schema("s", None).await.unwrap();
        keeps(&e, &[]).await;
    });
    small.close();
}
/// A table in the schema that is there.
async fn table_in(e: &Arc<Engine>) -> Arc<Table> {
    let columns = vec![redolith_types::Column::new("id", redolith_types::SqlType::INT).not_null()];
    let def = TableDef {
        schema: "s".into(),
        name: "last".into(),
        columns,
        indexes: vec![IndexDef::primary([0])],
        collation: crate::DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    e.create_table(def, 1, None).await.unwrap()
}
/// Tests STATS-4: what DDL may remove is not stored beside it.
#[test]
fn nothing_is_stored_beside_a_definition() {
    with_quiet_engine("statistics-locks", async |e| {
        let t = filled(&e).await;
        e.sample_statistics(&t).await;
        let schema = e.dict.metadata_lock("d/s");
        for lock in [&schema, &t.metadata_lock] {
            let mut ddl = MetadataLockSet::new();
            assert!(ddl.try_lock(lock, MetadataLockMode::Exclusive));
            e.keep_statistics(false).await;
            keeps(&e, &[]).await;
        }
        let busy = Storing::begin(&t).unwrap();
        assert!(!e.analyze_table(&t).await.unwrap());
        keeps(&e, &[]).await;
        drop(busy);
        // Another transaction has the row.
        let name = record::statistics_name(t.id);
        let kept = StoredStatistics::of(&t, &t.statistics().unwrap());
        let row = record::statistics_row(&e.dict_table, &name, &kept);
        let mut other = begin(&e);
        e.change_row(&mut other, &Change::Put(name, row)).await.unwrap();
        assert!(!e.analyze_table(&t).await.unwrap());
        other.rollback().await.unwrap();
        keeps(&e, &[]).await;
        e.keep_statistics(false).await;
        keeps(&e, &[&t]).await;
        e.drop_tables(std::slice::from_ref(&t), None).await.unwrap();
        e.sample_statistics(&t).await;
        e.analyze_table(&t).await.unwrap();
        keeps(&e, &[]).await;
    });
}
/// Tests STATS-1 and VALUES-1.
#[test]
fn records_that_lie_are_passed_over() {
    let small = Quiet::open("statistics-damaged");
    let others = ["a", "b", "c", "d"];
    small.run(async |e| {
        let t = filled(&e).await;
        for name in others {
            let def = TableDef { name: name.into(), ..t.def.clone() };
            let t = e.create_table(def, 1, None).await.unwrap();
            fill(&e, &t, 0..ROWS).await;
            e.analyze_table(&t).await.unwrap();
        }
        let put = async |id: u64, change: &dyn Fn(&mut StoredStatistics, &mut Vec<u8>)| {
            let name = record::statistics_name(id);
            let mut kept = StoredStatistics::of(&t, &*e.ready_statistics(&t).await);
            let mut none = Vec::new();
            change(&mut kept, &mut none);
            let row = record::statistics_row(&e.dict_table, &name, &kept);
            let Value::Bytes(mut body) = e.dict_table.layout.get(&row, 1).into_owned() else {
                unreachable!("the record is bytes")
            };
            change(&mut kept, body.to_mut());
            let mut row = Vec::new();
            let values = [Value::bytes(&name), Value::bytes(&body)];
            e.dict_table.layout.encode(&values, &mut row);
            e.change_dictionary(&[Change::Put(name, row)], None, |_| ()).await.unwrap();
        };
        e.ready_statistics(&t).await.stored.store(true, Release);
        let mut ids = Vec::new();
        for name in others {
            ids.push(found(&e, name).await.id);
        }
        // A bit has flipped; the counts are none; it is of another table; it is empty; it has an
        // index of more columns; its tables are gone.
        put(ids[0], &|_, body| body.iter_mut().skip(30).take(1).for_each(|b| *b ^= 4)).await;
        let id = ids[1];
        put(id, &|s, _| (s.table, s.rows) = (id, u64::MAX)).await;
        put(ids[2], &|_, _| ()).await;
        put(ids[3], &|_, body| body.clear()).await;
        put(t.id, &|s, _| s.indexes[1].distinct = vec![1, 2]).await;
        put(1 << 40, &|s, _| s.table = 1 << 40).await;
        put(1 << 41, &|_, body| body.truncate(20)).await;
        put(u64::MAX, &|s, _| s.table = u64::MAX).await;
        assert_eq!(rows_kept(&e).await.len(), 8);
    });
    let small = small.again();
    small.run(async |e| {
        for name in others {
            let t = found(&e, name).await;
            assert!(e.dict.stored_statistics(t.id).is_none(), "{name}");
            let made = e.ready_statistics(&t).await;
            assert!((1800..2200).contains(&made.rows), "{name} {}", made.rows);
            assert!(!made.stored.load(Acquire));
        }
        let t = found(&e, "t").await;
        let made = e.ready_statistics(&t).await;
        assert!(made.distinct(1).unwrap()[0] > 100);
        assert!(!made.stored.load(Acquire));
        e.keep_statistics(false).await;
        let mut tables = vec![t];
        for name in others {
            tables.push(found(&e, name).await);
        }
        keeps(&e, &tables.iter().map(|t| &**t).collect::<Vec<_>>()).await;
    });
    let small = small.again();
    small.run(async |e| {
        let t = found(&e, "a").await;
        assert!(e.ready_statistics(&t).await.stored.load(Acquire));
    });
    small.close();
}
#[test]
fn options_and_settings_say_what_holds() {
    with_quiet_engine("statistics-options", async |e| {
        let mut t = filled(&e).await;
        let settings = e.dict.statistics_settings.clone();
        assert_eq!((t.leaves_to_sample(), t.has_persistent_statistics()), (20, true));
        settings.persistent.store(false, Relaxed);
        settings.auto_recalc.store(false, Relaxed);
        assert_eq!((t.leaves_to_sample(), t.has_persistent_statistics()), (8, false));
        assert!(!t.keeps_statistics(), "only persistent statistics do not change by themselves");
        t = altered(&e, &t, 0, vec![], |def| {
            def.statistics.persistent = Some(true);
            def.statistics.sample_pages = NonZeroU16::new(3);
        })
        .await;
        assert_eq!(t.leaves_to_sample(), 3);
        assert!(t.has_persistent_statistics() && t.keeps_statistics());
        let made = e.ready_statistics(&t).await;
        fill(&e, &t, ROWS..2 * ROWS).await;
        assert!(made.are_current(&t));
        e.keep_statistics(false).await;
        assert_eq!(t.statistics().unwrap().rows, ROWS as u64);
        e.analyze_table(&t).await.unwrap();
        assert!(!made.are_current(&t), "ANALYZE TABLE makes newer ones");
        t = altered(&e, &t, 0, vec![], |def| def.statistics.auto_recalc = Some(true)).await;
        let made = e.ready_statistics(&t).await;
        assert_eq!(made.rows, 2 * ROWS as u64);
        fill(&e, &t, 2 * ROWS..3 * ROWS).await;
        assert!(!made.are_current(&t));
        settings.persistent_sample_pages.store(u64::MAX, Relaxed);
        t = altered(&e, &t, 0, vec![], |def| def.statistics.sample_pages = None).await;
        let distinct = e.ready_statistics(&t).await.distinct(1).unwrap()[0];
        assert!(distinct.abs_diff(3 * ROWS as u64 / 10) < 10, "all leaves are read: {distinct}");
    });
}
