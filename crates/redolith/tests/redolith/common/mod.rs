//! What the tests of this folder share.
#![allow(dead_code)] // each test program uses a part
use redolith::Database;
use std::path::PathBuf;

/// A directory of the test's own, gone when the test is over.
pub struct Dir(pub PathBuf);
impl Dir {
    #[allow(clippy::disallowed_methods)] // clears what a test that was ended left
    pub fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("redolith-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Dir(path)
    }
    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
    /// A small database in it.
    pub fn open(&self) -> Database {
        Database::builder().cache_bytes(8 << 20).log_capacity_bytes(16 << 20).open(&self.0).unwrap()
    }
}
impl Drop for Dir {
    #[allow(clippy::disallowed_methods)]
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Numbers that follow from a seed (SplitMix64: Steele, Lea and Flood, 2014).
pub struct Random(pub u64);
impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.0;
        n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ n >> 31
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
