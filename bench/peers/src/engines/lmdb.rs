//! LMDB, through heed: one write transaction at a time. A commit writes the changed pages, flushes,
//! and then writes the page that makes the changes valid.
use super::{Engine, Error, Kind, Result, SPACE_BYTES, Shape};
use crate::load::{Load, Tally};
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{Env, EnvOpenOptions};
use std::path::Path;
use std::sync::Arc;

pub const KIND: Kind = Kind {
    name: "lmdb",
    package: "lmdb-master-sys",
    single_writer: true,
    settings: "defaults (synchronous); it caches in the operating system's page cache",
    open,
};

struct Lmdb {
    env: Env,
    rows: heed::Database<U64<BigEndian>, Bytes>,
}

fn open(dir: &Path, _: Shape) -> Result<Box<dyn Engine>> {
    // SAFETY: nobody else changes the files while they are mapped.
    let env = unsafe { EnvOpenOptions::new().map_size(SPACE_BYTES).open(dir)? };
    let mut trx = env.write_txn()?;
    let rows = env.create_database(&mut trx, None)?;
    trx.commit()?;
    Ok(Box::new(Lmdb { env, rows }))
}

impl Engine for Lmdb {
    fn drive(&self, load: &Arc<Load>) -> Result<Tally> {
        load.threads(|| {
            Ok(|key: u64, value: &[u8]| {
                let mut trx = self.env.write_txn()?;
                self.rows.put(&mut trx, &key, value)?;
                trx.commit().map_err(Error::from)
            })
        })
    }
    fn rows(&self) -> Result<Option<u64>> {
        let trx = self.env.read_txn()?;
        Ok(Some(self.rows.len(&trx)?))
    }
    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
