//! What the tests of this folder share.
pub mod bad_sectors;
pub mod filling;
pub mod hanging;
pub mod table;
pub mod tables;

use redolith_engine::Engine;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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

/// The files below a folder, with their lengths and the times of their last changes.
#[allow(clippy::disallowed_methods)] // behind the back of the engine
fn state(dir: &Path, files: &mut Vec<(PathBuf, u64, SystemTime)>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.metadata() {
            Ok(at) if at.is_dir() => state(&entry.path(), files),
            Ok(at) => files.push((entry.path(), at.len(), at.modified().unwrap())),
            Err(_) => {} // it is gone
        }
    }
    files.sort();
}
/// What `copy` makes of a directory while none of its files changes. A crash leaves all files as
/// they are at one moment; a write may be on its way for a while after its file has the time of the
/// change.
pub async fn at_one_moment<T>(running: &Engine, dir: &Path, copy: impl Fn() -> T) -> T {
    loop {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        state(dir, &mut before);
        running.runtime.sleep(Duration::from_millis(500)).await;
        let copied = copy();
        state(dir, &mut after);
        if before == after {
            return copied;
        }
    }
}
/// Copies a directory.
#[allow(clippy::disallowed_methods)]
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let mut entries: Vec<_> = std::fs::read_dir(from).unwrap().map(Result::unwrap).collect();
    // An engine may write meanwhile: what the files copied first say of the redo log is true of the
    // log that is copied last.
    entries.sort_by_key(|entry| (entry.file_name() == "redo", entry.file_name() != "control"));
    for entry in entries {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            // A file that has gone meanwhile makes another copy necessary.
            false => drop(std::fs::copy(entry.path(), to)),
        }
    }
}
