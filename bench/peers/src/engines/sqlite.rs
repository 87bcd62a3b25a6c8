//! SQLite with a write-ahead log: one writer at a time; the other writers try again after a while.
use super::{CACHE_BYTES, Engine, Kind, Result, Shape};
use crate::load::{Load, Tally};
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub const KIND: Kind = Kind {
    name: "sqlite",
    package: "libsqlite3-sys",
    single_writer: true,
    settings: "journal_mode=WAL, synchronous=FULL; a connection per writer, prepared INSERT, \
        busy_timeout 60 s; cache 256 MiB divided among the connections",
    open,
};
const BUSY: Duration = Duration::from_secs(60);

struct Sqlite {
    path: PathBuf,
    writers: usize,
    /// This connection counts the rows, and keeps the log from being removed when a writer ends.
    main: std::sync::Mutex<Connection>,
}
fn connect(path: &Path, writers: usize) -> Result<Connection> {
    let c = Connection::open(path)?;
    c.busy_timeout(BUSY)?;
    let mode: String = c.query_row("PRAGMA journal_mode = WAL", [], |r| r.get(0))?;
    assert_eq!(mode, "wal");
    c.pragma_update(None, "synchronous", "FULL")?;
    c.pragma_update(None, "cache_size", -((CACHE_BYTES >> 10) as i64 / writers as i64))?;
    Ok(c)
}

fn open(dir: &Path, shape: Shape) -> Result<Box<dyn Engine>> {
    let path = dir.join("sqlite");
    let main = connect(&path, shape.writers)?;
    main.execute_batch("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v BLOB NOT NULL)")?;
    Ok(Box::new(Sqlite { path, writers: shape.writers, main: main.into() }))
}

impl Engine for Sqlite {
    fn drive(&self, load: &Arc<Load>) -> Result<Tally> {
        load.threads(|| {
            let c = connect(&self.path, self.writers)?;
            Ok(move |key: u64, value: &[u8]| {
                c.prepare_cached("INSERT INTO t VALUES (?, ?)")?
                    .execute(params![key as i64, value])?;
                Ok(())
            })
        })
    }
    fn rows(&self) -> Result<Option<u64>> {
        let n: i64 = self.main.lock().map_err(|_| "a writer panicked")?.query_row(
            "SELECT count(*) FROM t",
            [],
            |r| r.get(0),
        )?;
        Ok(Some(n as u64))
    }
    fn close(self: Box<Self>) -> Result<()> {
        self.main.into_inner().map_err(|_| "a writer panicked")?.close().map_err(|(_, e)| e.into())
    }
}
