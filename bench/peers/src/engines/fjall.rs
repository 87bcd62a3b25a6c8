//! fjall: one journal behind a lock. A writer holds the lock while it persists the journal.
use super::{CACHE_BYTES, Engine, Kind, Result, Shape};
use crate::load::{Load, Tally};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::Arc;

pub const KIND: Kind = Kind {
    name: "fjall",
    package: "fjall",
    single_writer: false,
    settings: "insert, then persist(SyncAll); manual_journal_persist, so that insert does not \
        flush as well; cache 256 MiB; no compression",
    open,
};

struct Fjall {
    database: Database,
    rows: Keyspace,
}

fn open(dir: &Path, _: Shape) -> Result<Box<dyn Engine>> {
    let database = Database::builder(dir)
        .cache_size(CACHE_BYTES as u64)
        .manual_journal_persist(true)
        .open()?;
    let rows = database.keyspace("t", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { database, rows }))
}

impl Engine for Fjall {
    fn drive(&self, load: &Arc<Load>) -> Result<Tally> {
        load.threads(|| {
            Ok(|key: u64, value: &[u8]| {
                self.rows.insert(key.to_be_bytes(), value)?;
                Ok(self.database.persist(PersistMode::SyncAll)?)
            })
        })
    }
    fn rows(&self) -> Result<Option<u64>> {
        Ok(Some(self.rows.len()? as u64))
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
