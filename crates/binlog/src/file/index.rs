//! The index: a text file with the path of each file of the binary log, the oldest first, a line
//! each.
//!
//! LOG-INDEX-1: the index is never changed in place. A new index is written to a file beside it and
//! made durable, and takes the index's name. So after a crash the index is the old one or the new
//! one. It is the new one for certain when the caller has made the folder durable.
use redolith_disk::{Disk, OpenHow};
use std::io;
use std::path::{Path, PathBuf};

/// The longest index that is read: a million files of long names.
const MAX_BYTES: u64 = 256 << 20;

/// The files of the binary log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    path: PathBuf,
    files: Vec<String>,
    exists: bool,
}

impl Index {
    /// Reads an index. An index that does not exist is empty. Fails if the file is not whole lines
    /// of text, each with a path.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<Index> {
        let (files, exists) = match disk.open(path, OpenHow::existing(false)) {
            Ok(file) => {
                let len = file.len()?;
                if len > MAX_BYTES {
                    return Err(wrong(path, "it is too long"));
                }
                let mut bytes = vec![0; len as usize];
                file.read_at(&mut bytes, 0)?;
                (parse(path, &bytes)?, true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => (Vec::new(), false),
            Err(e) => return Err(e),
        };
        Ok(Index { path: path.to_path_buf(), files, exists })
    }

    /// Whether there is a file, which may be empty.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// The paths as the index has them, the oldest first. A relative path is relative to the folder
    /// that the server runs in.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Replaces the list. If that fails, the list in memory stays as it was, and the list on the
    /// disk is the old or the new one. The caller syncs the folder.
    pub fn replace(&mut self, disk: &dyn Disk, files: Vec<String>) -> io::Result<()> {
        let mut text = String::new();
        for file in &files {
            if file.is_empty() || file.contains(['\n', '\0']) {
                return Err(wrong(&self.path, "a path is empty or has a line feed"));
            }
            text.push_str(file);
            text.push('\n');
        }
        let mut temporary = self.path.clone().into_os_string();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        let file = disk.open(&temporary, OpenHow::create(false))?;
        // A crash may have left a longer one.
        file.set_len(0)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync()?;
        disk.rename(&temporary, &self.path)?;
        (self.files, self.exists) = (files, true);
        Ok(())
    }

    /// Adds a file at the end, as [`Index::replace`] does.
    pub fn push(&mut self, disk: &dyn Disk, file: &str) -> io::Result<()> {
        let mut files = self.files.clone();
        files.push(file.to_string());
        self.replace(disk, files)
    }

    /// Takes the names of files that are gone out of the list, as [`Index::replace`] does. If that
    /// fails, the list on the disk still has them until the next change.
    pub fn forget(&mut self, disk: &dyn Disk, is_gone: impl Fn(&str) -> bool) -> io::Result<()> {
        let before = self.files.len();
        self.files.retain(|file| !is_gone(file));
        if self.files.len() == before {
            return Ok(());
        }
        self.replace(disk, self.files.clone())
    }
}

fn wrong(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("binlog index {}: {why}", path.display()))
}

fn parse(path: &Path, bytes: &[u8]) -> io::Result<Vec<String>> {
    let text = std::str::from_utf8(bytes).map_err(|_| wrong(path, "it is not text"))?;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(wrong(path, "its last line has no end: the file was cut, or edited"));
    }
    let mut files = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.is_empty() || line.contains('\0') {
            return Err(wrong(path, &format!("line {} is not a path", i + 1)));
        }
        files.push(line.to_string());
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_disk::SimDisk;

    fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
        let file = disk.open(path, OpenHow::create(false)).unwrap();
        file.set_len(0).unwrap();
        file.write_at(bytes, 0).unwrap();
        file.sync().unwrap();
    }

    /// Tests LOG-INDEX-1.
    #[test]
    fn an_index_is_replaced_as_a_whole() {
        let disk = SimDisk::new(7);
        let dir = Path::new("/data");
        disk.create_dir_all(dir).unwrap();
        let path = dir.join("binlog.index");
        write(&disk, &dir.join("binlog.index.new"), &[b'x'; 500]);
        let mut index = Index::open(&disk, &path).unwrap();
        assert!(index.files().is_empty());
        index.push(&disk, "./binlog.000001").unwrap();
        index.push(&disk, "/elsewhere/binlog.000002").unwrap();
        assert_eq!(Index::open(&disk, &path).unwrap(), index);
        assert!(index.push(&disk, "two\nlines").is_err() && index.push(&disk, "").is_err());
        let oldest = index.files()[0].clone();
        index.forget(&disk, |file| file == oldest).unwrap();
        assert_eq!(Index::open(&disk, &path).unwrap().files(), ["/elsewhere/binlog.000002"]);
        assert_eq!(disk.list(dir).unwrap(), ["binlog.index"]);
    }

    #[test]
    fn what_is_no_index_is_refused() {
        let disk = SimDisk::new(7);
        disk.create_dir_all(Path::new("/data")).unwrap();
        let path = Path::new("/data/binlog.index");
        for (bytes, why) in [
            (&b"a\n\nb\n"[..], "line 2 is not a path"),
            (b"a\nb\0\n", "line 2 is not a path"),
            (b"\xff\n", "it is not text"),
            (b"a\nb", "its last line has no end: the file was cut, or edited"),
        ] {
            write(&disk, path, bytes);
            let error = Index::open(&disk, path).unwrap_err().to_string();
            assert_eq!(error, format!("binlog index /data/binlog.index: {why}"));
        }
        write(&disk, path, b"./a\n./b\n");
        assert_eq!(Index::open(&disk, path).unwrap().files(), ["./a", "./b"]);
    }
}
