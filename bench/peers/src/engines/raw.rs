//! The time that the device needs for one durable write: 4 KiB into a file that is written already,
//! direct, with RWF_DSYNC, one at a time. No engine that flushes each commit by itself can be
//! faster.
use super::{Engine, Kind, RAW, Result, Shape};
use crate::load::{Load, Tally};
use redolith_disk::{ALIGN, AlignedBuf, Disk, File, OpenHow, RealDisk};
use std::path::Path;
use std::sync::Arc;

pub const KIND: Kind = Kind {
    name: RAW,
    package: "redolith-disk",
    single_writer: false,
    settings: "pwritev2 of 4 KiB, O_DIRECT and RWF_DSYNC, in order through a file of 16 MiB \
        written before",
    open,
};
/// As long as a segment of Redolith's log.
const FILE_BYTES: u64 = 16 << 20;
const CHUNK_BYTES: u64 = 1 << 20;

struct Raw(Arc<dyn File>);

fn open(dir: &Path, _: Shape) -> Result<Box<dyn Engine>> {
    Ok(Box::new(Raw(written(dir)?)))
}
fn written(dir: &Path) -> Result<Arc<dyn File>> {
    let file = RealDisk::new().open(&dir.join("raw"), OpenHow::create(true))?;
    let zeros = AlignedBuf::new(CHUNK_BYTES as usize);
    for at in (0..FILE_BYTES).step_by(CHUNK_BYTES as usize) {
        file.write_at(&zeros, at)?;
    }
    file.sync()?;
    Ok(file)
}

/// A writer that writes block after block.
pub struct Writer {
    file: Arc<dyn File>,
    block: AlignedBuf,
    at: u64,
}
impl Writer {
    pub fn create(dir: &Path) -> Result<Writer> {
        Ok(Writer::of(written(dir)?))
    }
    fn of(file: Arc<dyn File>) -> Writer {
        Writer { file, block: AlignedBuf::new(ALIGN), at: 0 }
    }
    /// Writes a block, and returns when it is durable.
    pub fn put(&mut self, key: u64) -> Result<()> {
        self.block[..8].copy_from_slice(&key.to_le_bytes());
        self.file.write_durable_at(&self.block, self.at)?;
        self.at = (self.at + ALIGN as u64) % FILE_BYTES;
        Ok(())
    }
}

impl Engine for Raw {
    fn drive(&self, load: &Arc<Load>) -> Result<Tally> {
        load.threads(|| {
            let mut writer = Writer::of(self.0.clone());
            Ok(move |key: u64, _: &[u8]| writer.put(key))
        })
    }
    fn rows(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
