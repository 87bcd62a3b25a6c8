use super::*;
use crate::dict::alter::Alteration;
use crate::dict::index_build::Building;
use crate::lock::KillFlag;
use crate::runtime::Threads;
use crate::small_engine::*;
use redolith_disk::{Disk, RealDisk};

/// A histogram of a column of table `t` with one value.
fn of(t: &Table, column: usize) -> Histogram {
    let value = Value::Int(7);
    Histogram {
        ty: t.def.columns[column].ty.clone(),
        kind: Kind::Singleton,
        nulls: 0.0,
        sampling_rate: 1.0,
        updated_us: 5,
        specified: 100,
        buckets: vec![Bucket { low: value.clone(), high: value, cumulative: 1.0, distinct: 1 }],
    }
}
async fn put(e: &Arc<Engine>, t: &Table, column: usize) {
    let name = t.def.columns[column].name.clone();
    e.change_histograms(t, vec![(name, Some(of(t, column)))]).await.unwrap();
}
fn columns(e: &Engine, t: &Table) -> Vec<String> {
    e.dict.histograms(t.id).map(|all| all.keys().cloned().collect()).unwrap_or_default()
}
async fn found(e: &Arc<Engine>, name: &str) -> Arc<Table> {
    e.table("s", name).await.unwrap().unwrap()
}
async fn altered(
    e: &Arc<Engine>,
    t: &Arc<Table>,
    change: impl FnOnce(&mut TableDef),
) -> Arc<Table> {
    let mut def = t.def.clone();
    change(&mut def);
    let to = Alteration { def, added: 0, dropped: Vec::new(), auto_increment: None, record: None };
    e.alter_table(t, to, &Building::in_memory(KillFlag::new())).await.unwrap()
}
fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk::new())
}
fn again(small: SmallEngine) -> SmallEngine {
    small.reopen(disk(), Threads::new(disk()))
}

/// Tests HISTOGRAM-2, and that a start finds what each change has left.
#[test]
fn histograms_stay_with_their_table() {
    let small = SmallEngine::open("histograms", disk(), Threads::new(disk()));
    small.run(async |e| {
        let t = table(&e).await;
        put(&e, &t, 0).await;
        put(&e, &t, 1).await;
        assert_eq!(columns(&e, &t), ["id", "k"]);
        let renames = [(t.clone(), "s".to_string(), "other".to_string())];
        e.rename_tables(&renames, &[], None).await.unwrap();
    });
    let small = again(small);
    small.run(async |e| {
        let t = found(&e, "other").await;
        assert_eq!(columns(&e, &t), ["id", "k"]);
        let renamed = altered(&e, &t, |def| def.columns[1].name = "v".into()).await;
        assert_eq!(columns(&e, &renamed), ["id", "v"]);
    });
    let small = again(small);
    small.run(async |e| {
        let t = found(&e, "other").await;
        assert_eq!(columns(&e, &t), ["id", "v"]);
        let emptied = e.truncate_table(&t, None).await.unwrap();
        assert_eq!(
            (columns(&e, &emptied), columns(&e, &t)),
            (vec!["id".into(), "v".into()], vec![])
        );
    });
    let small = again(small);
    small.run(async |e| {
        let t = found(&e, "other").await;
        assert_eq!(columns(&e, &t), ["id", "v"]);
        // The names of the two columns change places.
        let mut def = t.def.clone();
        def.columns[0].name = "v".into();
        def.columns[1].name = "id".into();
        def.columns[1].ty = SqlType::Year;
        let mut trx = begin(&e);
        let names = [("id".into(), "v".into()), ("v".into(), "id".into())];
        let mut new = e.begin_replacement(&mut trx, &t, def, 1, &names).await.unwrap();
        assert_eq!(columns(&e, &t), ["id", "v"], "nothing has changed yet");
        new.commit(&mut trx, None).await.unwrap().durable().await;
        new.enter().await.unwrap();
        let t = found(&e, "other").await;
        assert_eq!(columns(&e, &t), ["v"], "the other column has a new type");
    });
    let small = again(small);
    small.run(async |e| {
        let t = found(&e, "other").await;
        assert_eq!(columns(&e, &t), ["v"]);
        e.change_histograms(&t, vec![("v".into(), None)]).await.unwrap();
        assert_eq!(columns(&e, &t), [] as [&str; 0]);
        put(&e, &t, 0).await;
        e.drop_tables(&[t], None).await.unwrap();
        assert!(e.dict.state.read().known_values.histograms.is_empty());
    });
    let small = again(small);
    small.run(async |e| assert!(e.dict.state.read().known_values.histograms.is_empty()));
    small.close();
}
/// A statement that gives a replacement up leaves the histograms as they were.
#[test]
fn a_replacement_that_is_rolled_back_changes_none() {
    let small = SmallEngine::open("histograms-back", disk(), Threads::new(disk()));
    small.run(async |e| {
        let t = table(&e).await;
        put(&e, &t, 1).await;
        let mut trx = begin(&e);
        let new = e.begin_replacement(&mut trx, &t, t.def.clone(), 1, &[]).await.unwrap();
        trx.give_up_table();
        trx.rollback().await.unwrap();
        new.discard().await.unwrap();
        assert_eq!(columns(&e, &t), ["k"]);
    });
    let small = again(small);
    small.run(async |e| assert_eq!(columns(&e, &*found(&e, "t").await), ["k"]));
    small.close();
}
/// Tests HISTOGRAM-1 and HISTOGRAM-3.
#[test]
fn a_damaged_record_is_as_none() {
    let small = SmallEngine::open("histograms-damaged", disk(), Threads::new(disk()));
    small.run(async |e| {
        let t = table(&e).await;
        put(&e, &t, 1).await;
        let mut rows = Vec::new();
        for (name, keep) in [("id", 30), ("k", 0), ("gone", 1000)] {
            let name = record::histogram_name(t.id, name);
            let mut body = record::histogram_row(&e.dict_table, &name, &of(&t, 0));
            body.truncate(body.len().min(1000));
            let Value::Bytes(bytes) = e.dict_table.layout.get(&body, 1).into_owned() else {
                unreachable!("the record is bytes")
            };
            let mut row = Vec::new();
            let cut = Value::bytes(&bytes[..keep.min(bytes.len())]);
            e.dict_table.layout.encode(&[Value::bytes(&name), cut], &mut row);
            rows.push(Change::Put(name, row));
        }
        // One is cut, one is empty, one is of a column that the table does not have, and one
        // belongs to no table.
        let stray = record::histogram_name(1 << 40, "k");
        let row = record::histogram_row(&e.dict_table, &stray, &of(&t, 0));
        rows.push(Change::Put(stray, row));
        e.change_dictionary(&rows, None, |_| ()).await.unwrap();
    });
    let small = again(small);
    small.run(async |e| {
        let t = found(&e, "t").await;
        assert_eq!(columns(&e, &t), ["gone"]);
        assert!(e.dict.histograms(1 << 40).is_none());
        // What cannot be read is replaced by what can.
        put(&e, &t, 1).await;
        let known = t.statistics().unwrap();
        assert!(known.histogram(&t.def, 1).is_some() && known.histogram(&t.def, 0).is_none());
        let mut other = t.def.clone();
        other.columns[1].ty = SqlType::Year;
        assert!(known.histogram(&other, 1).is_none());
        assert!(known.are_current(&t));
        put(&e, &t, 1).await;
        assert!(!known.are_current(&t), "plans are made anew");
    });
    let small = again(small);
    small.run(async |e| assert_eq!(columns(&e, &*found(&e, "t").await), ["gone", "k"]));
    small.close();
}
