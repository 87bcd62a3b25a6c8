//! Batches of rows (`row/batch.rs`) through the public interface.
use crate::common::Dir;
use crate::common::table::{LOCK, def, key, row};
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::batch::RowBatch;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, DEFAULT_COLLATION, Engine, Error, Isolation, Trx};
use redolith_types::{IndexDef, TableDef, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn open(dir: &Dir) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut c = Config::new(&dir.0);
    c.pool_bytes = 8 << 20;
    c.log_segment_bytes = 1 << 20;
    c.log_capacity_bytes = 16 << 20;
    block_on(Engine::open(c, disk.clone(), Threads::new(disk))).unwrap().0
}
/// The rows as (id, k), in the order of an index.
async fn all(trx: &mut Trx, t: &Arc<Table>, index: usize) -> Vec<(i64, i64)> {
    let mut c = Cursor::new(t.clone(), index, Vec::new(), None, false, Read::Consistent);
    let mut out = Vec::new();
    while c.next(trx).await.unwrap() {
        let number = |column| match t.layout.get(c.row().stored, column) {
            Value::Int(n) => n,
            other => panic!("{other:?}"),
        };
        out.push((number(0), number(1)));
    }
    out
}
struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// Tests BATCH-1, with a unique secondary index: a batch has the effect of its rows up to the first
/// that fails, and can be taken back.
#[test]
fn random_batches_are_their_rows_one_after_the_other() {
    let dir = Dir::new("batches");
    let e = open(&dir);
    let by_k = vec![IndexDef::primary([0]), IndexDef::secondary("k", true, [1])];
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(TableDef { indexes: by_k, ..def("a") }, 1, None).await.unwrap();
        let (mut rng, mut model, mut taken) = (Rng(7), BTreeMap::new(), [0, 0]);
        let (mut rows, mut whole) = (RowBatch::default(), 0);
        let mut trx = e.begin(KillFlag::new());
        for round in 0..600 {
            rows.clear();
            let before = model.clone();
            let mark = trx.savepoint();
            let mut id = rng.below(6000) as i64;
            let step = rng.below(3) as i64;
            let mut wanted = Vec::new();
            for _ in 0..rng.below(70) {
                let k = rng.below(200_000) as i64;
                let text = "x".repeat(rng.below(if round % 3 == 0 { 200 } else { 8 }) as usize);
                rows.push(&row(&t, id, k, &text));
                wanted.push((id, k));
                // Some batches are in no order, and some meet themselves.
                id = if rng.below(50) == 0 { rng.below(6000) as i64 } else { id + step + 1 };
            }
            let done = match trx.insert_batch(&t, &mut rows).await {
                Ok(()) => wanted.len(),
                Err((n, Error::DuplicateKey { index_no, .. })) => {
                    let so_far: BTreeMap<i64, i64> =
                        model.iter().map(|(a, b)| (*a, *b)).chain(wanted[..n].to_vec()).collect();
                    let (id, k) = wanted[n];
                    let is_taken = match index_no {
                        0 => so_far.contains_key(&id),
                        _ => so_far.values().any(|other| *other == k),
                    };
                    assert!(is_taken, "row {n}, {id}, {k}: index {index_no}");
                    taken[index_no] += 1;
                    n
                }
                Err(other) => panic!("{other:?}"),
            };
            whole += (done == wanted.len()) as u32;
            for (id, k) in &wanted[..done] {
                assert_eq!(model.insert(*id, *k), None, "row {id} is inserted over another");
            }
            match rng.below(6) {
                0 => {
                    trx.rollback_to(mark).await.unwrap();
                    model = before;
                }
                1 => trx.commit().await.unwrap().durable().await,
                _ => {}
            }
        }
        assert!(taken[0] > 50 && taken[1] > 10 && whole > 50, "{taken:?} {whole}");
        trx.commit().await.unwrap().durable().await;
        let expected: Vec<(i64, i64)> = model.into_iter().collect();
        assert_eq!(all(&mut trx, &t, 0).await, expected);
        let mut by_k = all(&mut trx, &t, 1).await;
        by_k.sort_unstable();
        assert_eq!(by_k, expected);
        trx.commit().await.unwrap().durable().await;
        let found = e.check_table(&t).await.unwrap();
        assert!(found.errors.is_empty(), "{found:?}");
    });
}

/// A batch that nobody else disturbs writes much less redo than its rows one by one, and no less
/// than the rows themselves.
#[test]
fn a_batch_in_order_is_logged_by_leaves() {
    let dir = Dir::new("batch-redo");
    let e = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let no_keys = TableDef { indexes: vec![], ..def("a") };
        let t = e.create_table(no_keys, 1, None).await.unwrap();
        let mut trx = e.begin(KillFlag::new());
        let lsn = || e.store.log.tail().0;
        let start = lsn();
        for id in 0..2000 {
            trx.insert(&t, &row(&t, id, id, "one")).await.unwrap();
        }
        let one_by_one = lsn() - start;
        let mut rows = RowBatch::default();
        (2000..4000).for_each(|id| rows.push(&row(&t, id, id, "one")));
        let (start, bytes) = (lsn(), rows.bytes() as u64);
        trx.insert_batch(&t, &mut rows).await.unwrap();
        let batch = lsn() - start;
        assert!(bytes < batch && batch * 2 < one_by_one, "{bytes} {batch} {one_by_one}");
        // Row ids are taken in the order of the rows.
        let expected: Vec<(i64, i64)> = (0..4000).map(|id| (id, id)).collect();
        assert_eq!(all(&mut trx, &t, 0).await, expected);
        // BATCH-2: each row has its undo record.
        trx.rollback().await.unwrap();
        assert_eq!(all(&mut trx, &t, 0).await, []);
    });
}

/// Tests BATCH-3: a row of a batch waits for another transaction's range lock, and the rows before
/// it are there.
#[test]
fn a_range_lock_stops_a_batch_at_its_row() {
    let dir = Dir::new("batch-range");
    let e = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(def("a"), 1, None).await.unwrap();
        let mut reader = e.begin(KillFlag::new());
        reader.isolation = Isolation::RepeatableRead;
        let mut c = Cursor::new(t.clone(), 0, key(&t, 50), Some(key(&t, 60)), false, LOCK);
        assert!(!c.next(&mut reader).await.unwrap());
        let mut writer = e.begin(KillFlag::new());
        writer.lock_wait_timeout = Duration::from_millis(50);
        let mut rows = RowBatch::default();
        (40..70).for_each(|id| rows.push(&row(&t, id, id, "")));
        let done = writer.insert_batch(&t, &mut rows).await;
        assert!(matches!(done, Err((10, Error::LockWaitTimeout))), "{done:?}");
        let found: Vec<i64> = all(&mut writer, &t, 0).await.iter().map(|r| r.0).collect();
        assert_eq!(found, (40..50).collect::<Vec<_>>());
        reader.rollback().await.unwrap();
        rows.clear();
        (50..70).for_each(|id| rows.push(&row(&t, id, id, "")));
        writer.insert_batch(&t, &mut rows).await.unwrap();
        assert_eq!(all(&mut writer, &t, 1).await.len(), 30);
    });
}

/// Two transactions that append in turns, each to a range of its own, fill their leaves, whether
/// their rows come in batches or one by one.
#[test]
fn ranges_of_their_own_have_full_leaves() {
    let dir = Dir::new("batch-ranges");
    let e = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let mut pages = Vec::new();
        for (name, both, batches) in
            [("one", false, true), ("two", true, true), ("single", true, false)]
        {
            let only_key = TableDef { indexes: vec![IndexDef::primary([0])], ..def(name) };
            let t = e.create_table(only_key, 1, None).await.unwrap();
            let mut sessions = [e.begin(KillFlag::new()), e.begin(KillFlag::new())];
            let text = "x".repeat(100);
            for from in (0..6000).step_by(30) {
                for (session, base) in sessions.iter_mut().zip([0, 100_000]) {
                    let from = if both { base + from } else { 2 * from + base / 100_000 * 30 };
                    let mut rows = RowBatch::default();
                    (from..from + 30).for_each(|id| rows.push(&row(&t, id, id, &text)));
                    if batches {
                        session.insert_batch(&t, &mut rows).await.unwrap();
                    } else {
                        for n in 0..rows.len() {
                            session.insert(&t, rows.payload(n)).await.unwrap();
                        }
                    }
                }
            }
            for session in &mut sessions {
                session.commit().await.unwrap().durable().await;
            }
            let found = e.check_table(&t).await.unwrap();
            assert!(found.errors.is_empty() && found.rows == 12_000, "{found:?}");
            pages.push(found.pages);
        }
        // A split in the middle of a leaf would leave half of it empty.
        let most = pages[0] + pages[0] / 10;
        assert!(pages[1] <= most && pages[2] <= most, "{pages:?}");
    });
}
