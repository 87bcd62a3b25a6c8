//! ADD INDEX on a disk whose power goes at each of its operations.
use crate::small_life::life;
use redolith_disk::{Loss, SimDisk};
use redolith_engine::dict::index_build::Building;
use redolith_engine::lock::KillFlag;
use redolith_engine::{DEFAULT_COLLATION, Engine};
use redolith_sim::executor::End;
use redolith_types::sql_type::Sign;
use redolith_types::{Column, IndexDef, IntSize, SqlType, TableDef, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const ROWS: i64 = 20;
const ADDED: usize = 3;

async fn filled(e: Arc<Engine>) {
    let int = SqlType::Int { size: IntSize::Int, sign: Sign::SIGNED, display: None };
    let def = TableDef {
        schema: "sim".into(),
        name: "t".into(),
        columns: ["id", "k"].map(|name| Column::new(name, int.clone()).not_null()).into(),
        indexes: vec![IndexDef::primary([0])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    e.create_schema("sim", DEFAULT_COLLATION, None).await.unwrap();
    let t = e.create_table(def, 1, None).await.unwrap();
    let mut trx = e.begin(KillFlag::new());
    for id in 0..ROWS {
        let mut row = Vec::new();
        t.layout.encode(&[Value::Int(id), Value::Int(-id)], &mut row);
        trx.insert(&t, &row).await.unwrap();
    }
    trx.commit().await.unwrap().durable().await;
    e.close().await.unwrap();
}

/// Tests ALTER-6: no page is lost, wherever the power goes, and whatever a power cut leaves of what
/// was not synced.
#[test]
fn every_io_of_add_index_may_be_the_last() {
    use Loss::*;
    let begun = SimDisk::new(3);
    assert_eq!(life(&begun, 0, filled), End::Done);
    let (mut cuts, with_index) = (0, Arc::new(AtomicUsize::new(0)));
    // A seed says when the disk completes its operations, and what a loss leaves.
    for seed in 0..20 {
        for n in 1.. {
            let mut is_over = true;
            for loss in [Nothing, Everything, Prefix, Writes, Sectors] {
                is_over &= !cut(&begun.fork(seed), seed, n, loss, &with_index);
                cuts += 1;
            }
            if is_over {
                break;
            }
        }
    }
    let with_index = with_index.load(SeqCst);
    assert!(cuts > 200 && with_index > 20 && with_index < cuts - 20, "{with_index} of {cuts}");
}
/// Cuts the power at the `n`-th operation of ADD INDEX, and checks what the next start finds.
/// Returns false if there are fewer operations.
fn cut(disk: &SimDisk, seed: u64, n: u64, loss: Loss, with_index: &Arc<AtomicUsize>) -> bool {
    let power = disk.clone();
    life(disk, seed, move |e| async move {
        let t = e.table("sim", "t").await.unwrap().unwrap();
        power.crash_at_op(n);
        let defs = (0..ADDED).map(|i| IndexDef::secondary(format!("k{i}"), false, [1])).collect();
        let how = Building::in_memory(KillFlag::new());
        // The power cut may be the error of an operation.
        let _ = e.create_indexes(&t, defs, &how).await;
    });
    let was_cut = disk.is_stopped();
    disk.crash_with(loss);
    let counted = with_index.clone();
    let checked = life(disk, seed, move |e| async move {
        let t = e.table("sim", "t").await.unwrap().unwrap();
        let c = e.check_table(&t).await.unwrap();
        assert_eq!(
            (c.errors, c.notes, c.rows),
            (vec![], vec![], ROWS as u64),
            "{seed} {n} {loss:?}"
        );
        assert!([1, 1 + ADDED].contains(&t.indexes.len()));
        counted.fetch_add((t.indexes.len() > 1) as usize, SeqCst);
        e.close().await.unwrap();
    });
    assert_eq!(checked, End::Done, "{seed} {n} {loss:?}");
    was_cut
}
