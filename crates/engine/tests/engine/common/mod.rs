//! What the tests of this folder share.
pub mod filling;
pub mod table;
pub mod tables;

use std::path::PathBuf;

/// A directory of the test's own, gone when the test is over.
pub struct Dir(pub PathBuf);
impl Dir {
    #[allow(clippy::disallowed_methods)] // clears what a test that was ended left
    pub fn new(name: &str) -> Dir {
        let p = std::env::temp_dir().join(format!("redolith-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&p);
        Dir(p)
    }
}
impl Drop for Dir {
    #[allow(clippy::disallowed_methods)]
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
