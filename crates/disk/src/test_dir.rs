//! Folders for tests on the real disk.
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder of a test's own. It goes away when the value is dropped.
pub(crate) struct Dir(pub PathBuf);
impl Dir {
    #[allow(clippy::disallowed_methods)] // the tests of the door to files
    pub fn new() -> Dir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "redolith-disk-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let dir = std::env::temp_dir().join(name);
        // A killed process with the same number may have left the folder.
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        Dir(dir)
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
