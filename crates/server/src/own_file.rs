//! A file that the server makes for its own time (the unix socket, the pid file), and removes at
//! its end.
//!
//! OWNFILE-1: only the file that was made is removed. Another server may have put its own in the
//! same place meanwhile. The file is held open, so the number of its inode is not given to another
//! file even if it is removed.
use redolith_disk::Disk;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct OwnFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    made: Option<OwnedFd>,
}

impl OwnFile {
    /// Takes over the file that this server has just made at `path`.
    pub fn made(disk: Arc<dyn Disk>, path: PathBuf) -> OwnFile {
        let made = open(&path);
        OwnFile { disk, path, made }
    }
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Removes the file, unless another file has taken its place.
    pub fn remove(&mut self) {
        let identity =
            |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        let made = self.made.as_ref().and_then(identity);
        let now = open(&self.path).as_ref().and_then(identity);
        if made.is_some() && made == now {
            // Nobody is left who could do anything about an error.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Opens what is at `path` itself: of a socket there is nothing to read.
fn open(path: &Path) -> Option<OwnedFd> {
    let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, how, Mode::empty()).ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // files of the test's own
mod tests {
    use super::*;
    use redolith_disk::RealDisk;

    /// Tests OWNFILE-1.
    #[test]
    fn a_file_that_took_the_place_of_the_servers_own_stays() {
        let dir = std::env::temp_dir().join(format!("redolith-own-file-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("file");
        let own = || {
            std::fs::write(&path, "own").unwrap();
            OwnFile::made(Arc::new(RealDisk::new()), path.clone())
        };
        own().remove();
        assert!(!path.exists());
        // Without the descriptor that is held, many file systems would give the number of the
        // inode again at once.
        let mut file = own();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another's").unwrap();
        file.remove();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "another's");
        std::fs::remove_file(&path).unwrap();
        file.remove();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
