//! Transactions that are prepared, and committed, rolled back or left in doubt.
//!
//! - A transaction whose preparation was acknowledged is found by every start until it ends, with
//!   the locks that it held (PREPARE-1). One that was not acknowledged is found or is gone.
//! - What a start finds has all its changes, so that it may still commit (PREPARE-2).
use crate::binlog;
use crate::executor::Rng;
use crate::load::{CLIENTS, KEYS, Knowledge, LOCK, Rows, Shared, Tables, encode, key, values};
use crate::run::Seen;
use crate::scan::is_conflict;
use crate::stages;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::{Engine, Error, Isolation, Prepared, Result, Trx, UsedTable};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A transaction that a client has begun to prepare.
#[derive(Clone, Debug)]
pub struct Doubt {
    token: u64,
    /// The client's rows if it commits.
    model: Rows,
    /// Whether its preparation was acknowledged, and its end has not begun: it must be there.
    certain: bool,
    /// A row that it has locked and not changed, and the id of a missing row in a locked range.
    locked: Option<i64>,
    gap: Option<i64>,
}

/// Prepares the client's transaction, and ends it in one way or another. Returns true if the
/// transaction stays in doubt.
pub async fn run(
    trx: &mut Trx,
    t: &Tables,
    n: usize,
    model: Rows,
    rng: &mut Rng,
    shared: &Shared,
) -> Result<bool> {
    let known = &shared.known;
    let mut doubt = {
        let k = &mut known.lock().expect("one thread")[n];
        k.drawn += 1;
        let token = k.drawn * CLIENTS as u64 + n as u64;
        Doubt { token, model, certain: false, locked: None, gap: None }
    };
    lock_more(trx, t, n, rng, &mut doubt, shared).await?;
    let set = |doubt| known.lock().expect("one thread")[n].prepared = doubt;
    set(Some(doubt.clone()));
    let used = [&t.rows, &t.sums].map(|t| UsedTable { id: t.id, written: true });
    match trx.prepare(&doubt.token.to_le_bytes(), &used, None).await {
        Ok(ticket) => ticket.durable().await,
        Err(e) => {
            set(None);
            return Err(e);
        }
    }
    shared.seen.lock().expect("one thread").prepared += 1;
    doubt.certain = true;
    set(Some(doubt.clone()));
    if rng.chance(2) {
        trx.engine().runtime.sleep(Duration::from_millis(rng.below(5))).await;
    }
    if rng.chance(3) {
        drop(trx.detach());
        return Ok(true);
    }
    end(trx, n, doubt, rng, shared).await.map(|()| false)
}

/// Locks a row that stays as it is, and a range without a row.
async fn lock_more(
    trx: &mut Trx,
    t: &Tables,
    n: usize,
    rng: &mut Rng,
    doubt: &mut Doubt,
    shared: &Shared,
) -> Result<()> {
    let acked = shared.known.lock().expect("one thread")[n].acked.rows.clone();
    let rows = &doubt.model.rows;
    doubt.locked = acked.iter().find(|(id, row)| rows.get(id) == Some(row)).map(|(id, _)| *id);
    if let Some(id) = doubt.locked {
        let mut c = Cursor::point(t.rows.clone(), key(&t.rows, id), LOCK);
        assert!(c.next(trx).await?, "row {id}");
    }
    let id = (rng.below(KEYS) * CLIENTS as u64) as i64 + n as i64;
    if trx.isolation >= Isolation::RepeatableRead && !rows.contains_key(&id) {
        let mut c = Cursor::point(t.rows.clone(), key(&t.rows, id), LOCK);
        assert!(!c.next(trx).await?, "row {id}");
        doubt.gap = Some(id).filter(|id| !acked.contains_key(id));
    }
    Ok(())
}

/// Commits or rolls back a prepared transaction.
async fn end(
    trx: &mut Trx,
    n: usize,
    mut doubt: Doubt,
    rng: &mut Rng,
    shared: &Shared,
) -> Result<()> {
    let known = &shared.known;
    let certain = doubt.clone();
    doubt.certain = false;
    {
        let k = &mut known.lock().expect("one thread")[n];
        k.prepared = Some(doubt.clone());
        (k.pending, k.pending_token) = (None, doubt.token);
    }
    if rng.chance(2) {
        let ended = match trx.take_promise_back(None).await {
            Ok(ticket) => {
                let ended = if rng.chance(2) { trx.rollback().await } else { Ok(()) };
                ticket.durable().await;
                known.lock().expect("one thread")[n].prepared = None;
                ended.and(trx.rollback().await)
            }
            Err(e) => Err(e),
        };
        if ended.is_err() && trx.is_prepared() {
            known.lock().expect("one thread")[n].prepared = Some(certain);
        }
        return ended;
    }
    let (mut record, mut spill) = (None, None);
    if let Some(binlog) = &shared.binlog {
        binlog.admit().await;
        let (made, spilled) = binlog::record(binlog, doubt.token, rng);
        (record, spill) = (Some(made), spilled);
    }
    known.lock().expect("one thread")[n].pending = Some(doubt.model.clone());
    match stages::commit(trx, doubt.token, record, spill, rng, shared).await {
        Ok(ticket) => {
            ticket.durable().await;
            let k = &mut known.lock().expect("one thread")[n];
            (k.acked, k.pending, k.prepared) = (doubt.model, None, None);
            k.tokens.push(doubt.token);
            Ok(())
        }
        Err(e) => {
            assert!(trx.is_prepared(), "a commit that fails leaves the transaction prepared");
            let k = &mut known.lock().expect("one thread")[n];
            (k.pending, k.prepared) = (None, Some(certain));
            Err(e)
        }
    }
}

/// The prepared transactions that a start has found, each with its client.
pub async fn found(
    e: &Arc<Engine>,
    t: &Tables,
    known: &Knowledge,
    seen: &Mutex<Seen>,
) -> Result<Vec<(usize, Prepared)>> {
    let mut all = Vec::new();
    for prepared in e.take_prepared() {
        let name = prepared.name[..].try_into().expect("a token of 8 bytes");
        let token = u64::from_le_bytes(name);
        let n = token as usize % CLIENTS;
        let doubt = {
            let k = &mut known.lock().expect("one thread")[n];
            k.pending = None;
            k.prepared.as_mut().map(|doubt| {
                doubt.certain = true;
                doubt.clone()
            })
        };
        let doubt = doubt.filter(|doubt| doubt.token == token);
        let doubt = doubt.unwrap_or_else(|| panic!("nobody has prepared transaction {token}"));
        let ids: Vec<u64> = prepared.tables.iter().map(|table| table.id).collect();
        assert_eq!(ids, [t.rows.id, t.sums.id], "the tables of a prepared transaction");
        check_locks(e, t, n, &doubt).await?;
        seen.lock().expect("one thread").prepared_found += 1;
        all.push((n, prepared));
    }
    for (n, k) in known.lock().expect("one thread").iter_mut().enumerate() {
        if !all.iter().any(|(of, _)| *of == n) {
            let gone = k.prepared.take().filter(|doubt| doubt.certain);
            assert!(gone.is_none(), "client {n}: a prepared transaction is lost: {gone:?}");
        }
    }
    Ok(all)
}
/// PREPARE-1: others meet the locks of a prepared transaction.
async fn check_locks(e: &Arc<Engine>, t: &Tables, n: usize, doubt: &Doubt) -> Result<()> {
    let mut other = e.begin(KillFlag::new());
    other.lock_wait_timeout = Duration::from_millis(1);
    let no_wait = |table, id| {
        Cursor::point(table, id, Read::Locking { mode: Mode::X, conflict: OnConflict::NoWait })
    };
    let rows = [(&t.sums, Some(n as i64)), (&t.rows, doubt.locked)];
    for (table, id) in rows {
        let Some(id) = id else { continue };
        let locked = no_wait(table.clone(), key(table, id)).next(&mut other).await;
        let met = matches!(locked, Err(Error::LockNoWait));
        assert!(met, "row {id} of {} is free: {locked:?}", table.full_name());
    }
    if let Some(id) = doubt.gap {
        let row = encode(&t.rows, &values(id, &(1, -1 - n as i64, 0, b'x')));
        let inserted = other.insert(&t.rows, &row).await;
        let met = inserted.as_ref().is_err_and(is_conflict);
        assert!(met, "the range with the missing row {id} is free: {inserted:?}");
    }
    other.rollback().await
}

/// Ends what a start has found, or leaves it in doubt once more.
pub async fn decide(all: Vec<(usize, Prepared)>, rng: &mut Rng, shared: &Shared) -> Result<()> {
    for (n, mut prepared) in all {
        let doubt = shared.known.lock().expect("one thread")[n].prepared.clone();
        if !rng.chance(4) {
            end(&mut prepared.trx, n, doubt.expect("it was found"), rng, shared).await?;
        }
    }
    Ok(())
}
