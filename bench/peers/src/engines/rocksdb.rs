//! RocksDB: writers form write groups. One writer of a group writes and syncs the log for all.
use super::{CACHE_BYTES, Engine, Kind, ROCKSDB, Result, Shape};
use crate::load::{Load, Tally};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, IteratorMode, Options, WriteOptions,
};
use std::path::Path;
use std::sync::Arc;

pub const KIND: Kind = Kind {
    name: ROCKSDB,
    package: "librocksdb-sys",
    single_writer: false,
    settings: "WriteOptions::sync; defaults (no pipelined write, adaptive yield, memtable 64 MiB, \
        log in the same directory, not recycled); block cache 256 MiB; no compression",
    open,
};

/// Older libraries lack this function. The wrapper refers to it for an option that is not set here.
#[cfg(feature = "rocksdb-system")]
#[unsafe(no_mangle)]
extern "C" fn rocksdb_write_buffer_manager_destroy(_: *mut std::ffi::c_void) {
    std::process::abort();
}

struct Rocks(DB);

fn open(dir: &Path, _: Shape) -> Result<Box<dyn Engine>> {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_block_based_table_factory(&blocks);
    Ok(Box::new(Rocks(DB::open(&options, dir)?)))
}

impl Engine for Rocks {
    fn drive(&self, load: &Arc<Load>) -> Result<Tally> {
        load.threads(|| {
            let mut synced = WriteOptions::default();
            synced.set_sync(true);
            Ok(move |key: u64, value: &[u8]| {
                Ok(self.0.put_opt(key.to_be_bytes(), value, &synced)?)
            })
        })
    }
    fn rows(&self) -> Result<Option<u64>> {
        let mut n = 0;
        for row in self.0.iterator(IteratorMode::Start) {
            row?;
            n += 1;
        }
        Ok(Some(n))
    }
    fn close(self: Box<Self>) -> Result<()> {
        self.0.cancel_all_background_work(true);
        Ok(())
    }
}
