//! The engine as a library: a table of accounts, transactions on it, and what is there after a
//! restart.
//!
//! `cargo run -p redolith-engine --example library -- [directory]`
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, DEFAULT_COLLATION, Engine, Error, Result, Trx};
use redolith_types::sql_type::{IntSize, Sign};
use redolith_types::{Column, IndexDef, SqlType, TableDef, Value};
use std::path::Path;
use std::sync::Arc;

const ID: usize = 0;
const BALANCE: usize = 2;
/// How a row is read that is to be changed: the newest version, locked until the end of the
/// transaction.
const FOR_CHANGE: Read = Read::Locking { mode: Mode::X, conflict: OnConflict::Wait };

/// accounts (id BIGINT PRIMARY KEY, owner VARCHAR(40) NOT NULL, balance BIGINT NOT NULL, KEY
/// by_balance (balance))
fn accounts() -> TableDef {
    let bigint = || SqlType::Int { size: IntSize::Big, sign: Sign::SIGNED, display: None };
    TableDef {
        schema: "bank".into(),
        name: "accounts".into(),
        columns: vec![
            Column::new("id", bigint()).not_null(),
            Column::new("owner", SqlType::VarChar { chars: 40, collation: DEFAULT_COLLATION })
                .not_null(),
            Column::new("balance", bigint()).not_null(),
        ],
        indexes: vec![IndexDef::primary([ID]), IndexDef::secondary("by_balance", false, [BALANCE])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
    }
}
fn integer(t: &Table, row: &[u8], column: usize) -> i64 {
    match t.layout.get(row, column) {
        Value::Int(n) => n,
        other => unreachable!("a BIGINT NOT NULL is no {other:?}"),
    }
}
/// The clustered key of an account: bytes that sort as the ids do.
fn key(t: &Table, id: i64) -> Vec<u8> {
    let mut key = Vec::new();
    t.clustered().key.encode_values(&[Value::Int(id)], &mut key);
    key
}

async fn insert(trx: &mut Trx, t: &Arc<Table>, id: i64, owner: &str, balance: i64) -> Result<()> {
    let mut row = Vec::new();
    t.layout.encode(&[Value::Int(id), Value::text(owner), Value::Int(balance)], &mut row);
    trx.insert(t, &row).await
}
/// The balance that this transaction sees.
async fn balance(trx: &mut Trx, t: &Arc<Table>, id: i64) -> Result<Option<i64>> {
    let mut row = Cursor::point(t.clone(), key(t, id), Read::Consistent);
    Ok(row.next(trx).await?.then(|| integer(t, row.row().stored, BALANCE)))
}
/// False if there is no such account.
async fn add(trx: &mut Trx, t: &Arc<Table>, id: i64, amount: i64) -> Result<bool> {
    let mut row = Cursor::point(t.clone(), key(t, id), FOR_CHANGE);
    if !row.next(trx).await? {
        return Ok(false);
    }
    let old = row.row();
    let mut new = Vec::new();
    t.layout.update(
        old.stored,
        &[(BALANCE, Value::Int(integer(t, old.stored, BALANCE) + amount))],
        &mut new,
    );
    trx.update(t, old, &new).await?;
    Ok(true)
}
/// Ids by balance, the greatest first: down the secondary index.
async fn richest_first(trx: &mut Trx, t: &Arc<Table>) -> Result<Vec<i64>> {
    let mut rows = Cursor::new(t.clone(), 1, Vec::new(), None, true, Read::Consistent);
    let mut ids = Vec::new();
    while rows.next(trx).await? {
        ids.push(integer(t, rows.row().stored, ID));
    }
    Ok(ids)
}

pub fn run(dir: &Path) -> Result<Vec<i64>> {
    // The disk is the engine's door to files, clock and random numbers; the runtime runs its
    // background tasks and timers: here threads, else your executor.
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut config = Config::new(dir);
    config.pool_bytes = 16 << 20;
    config.log_segment_bytes = 1 << 20;
    config.log_capacity_bytes = 16 << 20;
    let (engine, _) =
        block_on(Engine::open(config.clone(), disk.clone(), Threads::new(disk.clone())))?;

    // Every call that may wait is a future, for any executor; without one, `block_on` runs it on
    // this thread.
    let t = block_on(async {
        engine.create_schema("bank", DEFAULT_COLLATION).await?;
        engine.create_table(accounts(), 1).await
    })?;
    // A session has one `Trx`, which is one transaction after the other; the flag ends its waits
    // from elsewhere (KILL).
    let mut trx = engine.begin(KillFlag::new());
    block_on(async {
        for (id, owner) in [(1, "Ada"), (2, "Grace"), (3, "Edsger")] {
            insert(&mut trx, &t, id, owner, id * 100).await?;
        }
        assert!(matches!(
            insert(&mut trx, &t, 2, "Tony", 0).await,
            Err(Error::DuplicateKey { .. })
        ));
        // Visible to others when `commit` returns, on the disk when its ticket resolves.
        trx.commit().await?.durable().await;
        Ok::<_, Error>(())
    })?;

    // A transfer; another session sees what was before, until it is committed.
    let mut other = engine.begin(KillFlag::new());
    block_on(async {
        assert!(add(&mut trx, &t, 3, -250).await? && add(&mut trx, &t, 1, 250).await?);
        assert_eq!(
            (balance(&mut trx, &t, 1).await?, balance(&mut other, &t, 1).await?),
            (Some(350), Some(100))
        );
        other.rollback().await
    })?;
    // The same without an async block: the ticket can be waited for by this thread, now or later.
    let ticket = block_on(trx.commit())?;
    ticket.wait();

    // Half done, and thought better of.
    block_on(async {
        add(&mut trx, &t, 2, -1000).await?;
        trx.rollback().await
    })?;
    block_on(engine.close())?;
    drop((trx, other, t, engine));

    // After a clean close or a crash alike: what was committed is there.
    let (engine, report) = block_on(Engine::open(config, disk.clone(), Threads::new(disk)))?;
    println!("opened again: {report}");
    let ids = block_on(async {
        let t = engine
            .table("bank", "accounts")
            .await?
            .ok_or_else(|| Error::NoSuchTable("bank.accounts".into()))?;
        let mut trx = engine.begin(KillFlag::new());
        let ids = richest_first(&mut trx, &t).await?;
        for id in &ids {
            println!("account {id}: {}", balance(&mut trx, &t, *id).await?.unwrap_or_default());
        }
        trx.commit().await?.durable().await;
        Ok::<_, Error>(ids)
    })?;
    block_on(engine.close())?;
    Ok(ids)
}

#[allow(dead_code)] // in the test that runs it
fn main() {
    let dir = std::env::args_os().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("redolith-library-{}", std::process::id())),
        Into::into,
    );
    match run(&dir) {
        Ok(ids) => println!("richest first: {ids:?}; the data is in {}", dir.display()),
        Err(e) => {
            eprintln!("{}: {e}", dir.display());
            std::process::exit(1);
        }
    }
}
