//! Statistics that are stored on a disk whose power goes at each of its operations.
use crate::small_life::life;
use redolith_disk::{Loss, SimDisk};
use redolith_engine::dict::Dictionary;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::testing::dict::record;
use redolith_engine::{DEFAULT_COLLATION, Engine, Result};
use redolith_sim::executor::End;
use redolith_types::{Column, IndexDef, SqlType, TableDef, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const ROWS: i64 = 200;
/// What the dictionary has after each statement: whether the table is there, its rows, and the rows
/// that its stored statistics tell of.
const STATES: [(bool, u64, Option<u64>); 6] = [
    (true, 200, None),
    (true, 200, Some(200)),
    (true, 0, None),
    (true, 0, Some(0)),
    (true, 200, Some(200)),
    (false, 0, None),
];

async fn fill(e: &Arc<Engine>) -> Result<()> {
    let t = e.table("sim", "t").await?.unwrap();
    let mut trx = e.begin(KillFlag::new());
    for id in 0..ROWS {
        let mut row = Vec::new();
        t.layout.encode(&[Value::Int(id), Value::Int(id / 7)], &mut row);
        trx.insert(&t, &row).await?;
    }
    trx.commit().await?.durable().await;
    Ok(())
}
async fn made(e: Arc<Engine>) {
    let def = TableDef {
        schema: "sim".into(),
        name: "t".into(),
        columns: ["id", "k"].map(|name| Column::new(name, SqlType::INT).not_null()).into(),
        indexes: vec![IndexDef::primary([0]), IndexDef::secondary("k", false, [1])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    e.create_schema("sim", DEFAULT_COLLATION, None).await.unwrap();
    e.create_table(def, 1, None).await.unwrap();
    fill(&e).await.unwrap();
    e.close().await.unwrap();
}
/// Runs the statements, and counts those that have been acknowledged.
async fn statements(e: &Arc<Engine>, done: &AtomicUsize) -> Result<()> {
    let t = e.table("sim", "t").await?.unwrap();
    e.analyze_table(&t).await?;
    done.store(1, SeqCst);
    let t = e.truncate_table(&t, None).await?;
    done.store(2, SeqCst);
    e.analyze_table(&t).await?;
    done.store(3, SeqCst);
    // The rows are more than statistics allow for, and the task makes newer ones by itself.
    fill(e).await?;
    e.runtime.sleep(Duration::from_secs(12)).await;
    // Nobody has waited for it, but the redo log is written regularly.
    e.runtime.sleep(Duration::from_secs(3)).await;
    done.store(4, SeqCst);
    e.drop_tables(&[t], None).await?;
    done.store(5, SeqCst);
    Ok(())
}
/// The state of the table, and whether rows about it are left in the dictionary though they belong
/// to no table.
async fn found(e: &Arc<Engine>) -> (bool, u64, Option<u64>) {
    let table = e.table("sim", "t").await.unwrap();
    let of = record::dictionary_table(&Dictionary::default());
    let mut trx = e.begin(KillFlag::new());
    let mut c = Cursor::new(of.clone(), 0, Vec::new(), None, false, Read::Consistent);
    let mut kept = Vec::new();
    while c.next(&mut trx).await.unwrap() {
        let payload = c.payload(&trx).await.unwrap();
        if let Value::Bytes(name) = of.layout.get(payload, 0)
            && let Some(id) = name.strip_prefix(b"h")
        {
            kept.push(id.to_vec());
        }
    }
    trx.rollback().await.unwrap();
    let stored = table.as_ref().and_then(|t| e.dict.stored_statistics(t.id));
    let own = table.as_ref().filter(|_| stored.is_some()).map(|t| t.id.to_be_bytes().to_vec());
    assert_eq!(kept, own.into_iter().collect::<Vec<_>>());
    let Some(t) = table else { return (false, 0, None) };
    let checked = e.check_table(&t).await.unwrap();
    assert_eq!((checked.errors, checked.notes), (vec![], vec![]));
    e.ready_statistics(&t).await;
    (true, checked.rows, stored.map(|stored| stored.rows))
}

/// Tests STATS-2 and STATS-3: a power cut leaves the statistics that have been stored durably or
/// those that follow, and none of a table that is gone.
#[test]
fn every_io_of_stored_statistics_may_be_the_last() {
    use Loss::*;
    let begun = SimDisk::new(3);
    assert_eq!(life(&begun, 0, made), End::Done);
    let mut seen = [0; STATES.len()];
    // The losses take turns.
    let losses = [Nothing, Everything, Prefix, Writes, Sectors];
    for seed in 0..2 {
        for n in 1u64.. {
            let loss = losses[((n + seed) % 5) as usize];
            if !cut(&begun.fork(seed), seed, n, loss, &mut seen) {
                break;
            }
        }
    }
    assert!(seen.iter().all(|n| *n > 0), "{seen:?}");
}
/// Cuts the power at the `n`-th operation of the statements, and checks what the next start finds.
/// Returns false if there are fewer operations.
fn cut(disk: &SimDisk, seed: u64, n: u64, loss: Loss, seen: &mut [usize]) -> bool {
    let done = Arc::new(AtomicUsize::new(0));
    let (power, counted) = (disk.clone(), done.clone());
    life(disk, seed, move |e| async move {
        power.crash_at_op(n);
        // The power cut may be the error of an operation.
        let _ = statements(&e, &counted).await;
    });
    let was_cut = disk.is_stopped();
    disk.crash_with(loss);
    let (done, after) = (done.load(SeqCst), Arc::new(AtomicUsize::new(0)));
    let result = after.clone();
    let checked = life(disk, seed, move |e| async move {
        let found = found(&e).await;
        // While the table is filled again, it may have its rows and the statistics of before.
        let state = match STATES.iter().position(|state| *state == found) {
            Some(1) if done >= 3 => 4,
            Some(state) => state,
            None => {
                assert_eq!((found, done), ((true, ROWS as u64, Some(0)), 3), "{seed} {n} {loss:?}");
                3
            }
        };
        let said = format!("{seed} {n} {loss:?}: {found:?} after {done} statements");
        assert!(state == done || state == done + 1, "{said}");
        result.store(state, SeqCst);
        e.close().await.unwrap();
    });
    assert_eq!(checked, End::Done, "{seed} {n} {loss:?}");
    seen[after.load(SeqCst)] += 1;
    was_cut
}
