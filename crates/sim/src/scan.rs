//! Reads a range twice in a transaction. The rows of a locking read do not change and no row is
//! added (no phantoms); a read view does not change.
use crate::executor::Rng;
use crate::load::{CLIENTS, LOCK, Rows, Tables, number};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::Mode;
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::{Error, Isolation, Result, Trx};
use redolith_types::Value;
use std::sync::Arc;
use std::time::Duration;

/// The (id, k, u) of rows, in the order of a scan.
type Found = Vec<(i64, i64, i64)>;

fn bound(t: &Table, index: usize, n: i64) -> Vec<u8> {
    let mut key = Vec::new();
    t.indexes[index].key.encode_values(&[Value::Int(n)], &mut key);
    key
}
async fn collect(
    trx: &mut Trx,
    t: &Arc<Table>,
    index: usize,
    (low, high): (i64, i64),
    reverse: bool,
    read: Read,
) -> Result<Found> {
    let mut c = Cursor::new(
        t.clone(),
        index,
        bound(t, index, low),
        Some(bound(t, index, high)),
        reverse,
        read,
    );
    let mut found = Found::new();
    while c.next(trx).await? {
        let p = c.row().stored;
        found.push((number(t, p, 0), number(t, p, 1), number(t, p, 2)));
    }
    let by = |r: &(i64, i64, i64)| [r.0, r.1, r.2][index];
    let sorted = found
        .windows(2)
        .all(|w| if reverse { by(&w[0]) >= by(&w[1]) } else { by(&w[0]) <= by(&w[1]) });
    assert!(sorted, "index {index} is read out of order: {found:?}");
    Ok(found)
}

/// Reads a range, lets other clients work, and reads the range again.
pub async fn twice(trx: &mut Trx, t: &Tables, n: usize, rng: &mut Rng, model: &Rows) -> Result<()> {
    let table = &t.rows;
    let index = rng.below(3) as usize;
    let (low, most) = match index {
        0 => (rng.below(240) as i64, 40),
        1 => (rng.below(8) as i64, 3),
        _ => (rng.below(800) as i64, 150),
    };
    let range = (low, low + 1 + rng.below(most) as i64);
    let mode = if rng.chance(2) { Mode::S } else { Mode::X };
    let locking = !rng.chance(4);
    let read =
        if locking { Read::Locking { mode, conflict: OnConflict::Wait } } else { Read::Consistent };
    let first = collect(trx, table, index, range, rng.chance(2), read).await?;
    let own: Vec<i64> =
        first.iter().map(|r| r.0).filter(|id| *id as usize % CLIENTS == n).collect();
    let of = |id: &i64, r: &crate::load::Row| [*id, r.0, r.1][index];
    let expected =
        model.rows.iter().filter(|(id, r)| (range.0..range.1).contains(&of(id, r))).count();
    // READ UNCOMMITTED also sees rows of the previous life whose rollback is delayed by the disk.
    if locking || trx.isolation > Isolation::ReadUncommitted {
        assert_eq!(
            own.len(),
            expected,
            "client {n}: own rows of index {index} in {range:?}: {own:?}"
        );
    }
    if trx.isolation < Isolation::RepeatableRead {
        return Ok(());
    }
    for _ in 0..rng.below(4) {
        let runtime = trx.engine().runtime.clone();
        if rng.chance(2) {
            runtime.yield_now().await
        } else {
            runtime.sleep(Duration::from_millis(rng.below(3))).await
        }
    }
    let mut second = collect(trx, table, index, range, rng.chance(2), read).await?;
    let mut first = first;
    first.sort_unstable();
    second.sort_unstable();
    assert_eq!(
        first, second,
        "client {n}: a phantom in {range:?} of index {index}, read with {read:?}"
    );
    Ok(())
}

/// Reads all markers and all counters with locks, at SERIALIZABLE.
pub async fn locked_sum(trx: &mut Trx, t: &Tables) -> Result<(i64, i64)> {
    let mut c = Cursor::new(t.sums.clone(), 0, Vec::new(), None, false, LOCK);
    let (mut markers, mut counters) = (0, 0);
    while c.next(trx).await? {
        let (id, n) = (number(&t.sums, c.row().stored, 0), number(&t.sums, c.row().stored, 1));
        if id < 100 { markers += n } else { counters += n }
    }
    Ok((markers, counters))
}
/// Whether an error ends only the transaction.
pub fn is_conflict(e: &Error) -> bool {
    matches!(e, Error::Deadlock | Error::LockWaitTimeout | Error::LogFull)
}
