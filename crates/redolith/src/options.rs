//! How a database is opened.
use crate::asynchronous;
use crate::blocking::Database;
use crate::error::Result;
use redolith_engine::Config;
use redolith_engine::runtime::block_on;
use std::path::Path;
use std::time::Duration;

const MIN_CACHE_BYTES: u64 = 8 << 20;
const MIN_LOG_BYTES: u64 = 4 << 20;

/// How a database is opened, where the defaults do not fit: see `Database::builder`.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) cache_bytes: u64,
    pub(crate) log_capacity_bytes: u64,
    pub(crate) lock_wait_timeout: Duration,
}
impl Default for Builder {
    fn default() -> Builder {
        Builder {
            cache_bytes: 128 << 20,
            log_capacity_bytes: 256 << 20,
            lock_wait_timeout: Duration::from_secs(50),
        }
    }
}
impl Builder {
    /// Memory for pages of tables: 128 MiB unless told otherwise, 8 MiB at least.
    pub fn cache_bytes(mut self, bytes: u64) -> Builder {
        self.cache_bytes = bytes.max(MIN_CACHE_BYTES);
        self
    }
    /// Most bytes that the redo log takes on the disk: 256 MiB unless told otherwise, 4 MiB at
    /// least. A larger log lets pages stay in memory for longer before they are written to the
    /// tables' files, and makes recovery after a crash longer.
    pub fn log_capacity_bytes(mut self, bytes: u64) -> Builder {
        self.log_capacity_bytes = bytes.max(MIN_LOG_BYTES);
        self
    }
    /// How long a call waits for a row that another transaction has locked, before it fails with
    /// [`Error::LockTimeout`](crate::Error::LockTimeout): 50 seconds unless told otherwise.
    pub fn lock_wait_timeout(mut self, timeout: Duration) -> Builder {
        self.lock_wait_timeout = timeout;
        self
    }
    /// Opens the database in this directory, or makes a new one in an empty directory.
    pub fn open(&self, directory: impl AsRef<Path>) -> Result<Database> {
        block_on(self.open_async(directory)).map(Database::from)
    }
    /// The same, for the async form of the calls.
    pub async fn open_async(&self, directory: impl AsRef<Path>) -> Result<asynchronous::Database> {
        asynchronous::Database::open_with(self, directory.as_ref()).await
    }

    pub(crate) fn config(&self, directory: &Path) -> Config {
        let mut config = Config::new(directory);
        config.pool_bytes = self.cache_bytes;
        config.log_capacity_bytes = self.log_capacity_bytes;
        // Some segments are there before they are needed: a small log should not take much.
        config.log_segment_bytes = (self.log_capacity_bytes / 64).clamp(1 << 20, 16 << 20);
        config
    }
}
