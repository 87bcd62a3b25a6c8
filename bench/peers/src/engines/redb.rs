//! redb: one write transaction at a time; a commit writes the changed pages and the header, then
//! flushes.
use super::{CACHE_BYTES, Engine, Kind, Result, Shape};
use crate::load::{Load, Tally};
use redb::{Database, Durability, ReadableDatabase, ReadableTableMetadata, TableDefinition};
use std::path::Path;
use std::sync::Arc;

pub const KIND: Kind = Kind {
    name: "redb",
    package: "redb",
    single_writer: true,
    settings: "Durability::Immediate (one flush per commit, the default); cache 256 MiB",
    open,
};
const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("t");

struct Redb(Database);

fn open(dir: &Path, _: Shape) -> Result<Box<dyn Engine>> {
    let database = Database::builder().set_cache_size(CACHE_BYTES).create(dir.join("redb"))?;
    let trx = database.begin_write()?;
    trx.open_table(ROWS)?;
    trx.commit()?;
    Ok(Box::new(Redb(database)))
}

impl Engine for Redb {
    fn drive(&self, load: &Arc<Load>) -> Result<Tally> {
        load.threads(|| {
            Ok(|key: u64, value: &[u8]| {
                let mut trx = self.0.begin_write()?;
                trx.set_durability(Durability::Immediate)?;
                trx.open_table(ROWS)?.insert(key, value)?;
                Ok(trx.commit()?)
            })
        })
    }
    fn rows(&self) -> Result<Option<u64>> {
        Ok(Some(self.0.begin_read()?.open_table(ROWS)?.len()?))
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}
