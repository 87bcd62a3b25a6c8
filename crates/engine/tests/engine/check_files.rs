//! `redolith check`: whole directories have no damage, and each damaged page and file is named.
#![allow(clippy::disallowed_methods)] // the test damages files behind the engine's back

use crate::common::Dir;
use crate::common::tables::*;
use crate::dump::written;
use redolith_disk::{Disk, File, Io, Op, OpenHow, RealDisk};
use redolith_engine::runtime::block_on;
use redolith_engine::{Checked, Config, Error, PAGE_SIZE, StoppedDirectory, Told};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn check(dir: &Path) -> (Checked, Vec<String>, Vec<String>) {
    check_on(Arc::new(RealDisk::new()), dir)
}
fn check_on(disk: Arc<dyn Disk>, dir: &Path) -> (Checked, Vec<String>, Vec<String>) {
    let (mut damage, mut notes, mut read) = (Vec::new(), Vec::new(), 0);
    let config = Config::new(dir);
    let mut tell = |told| match told {
        Told::Damage(why) => damage.push(why),
        Told::Note(what) => notes.push(what),
        Told::Progress(done, of) => {
            assert!(read < done && done <= of);
            read = done;
        }
    };
    let checked = StoppedDirectory::lock(disk, &config).unwrap().check(None, &mut tell).unwrap();
    assert_eq!(checked.damaged, damage.len() as u64);
    (checked, damage, notes)
}
fn table_file(dir: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(dir.join("tables")).unwrap().map(|f| f.unwrap().path());
    files.next().unwrap()
}

#[test]
fn every_damaged_page_is_named() {
    let dir = written("check-files");
    let (whole, damage, notes) = check(&dir.0);
    assert_eq!((damage, notes), (vec![], vec![]));
    assert!(whole.files == 4 && whole.in_use > 20 && whole.pages > whole.in_use, "{whole:?}");

    let path = table_file(&dir.0);
    let good = std::fs::read(&path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_written = |page: &[u8]| page.iter().any(|b| *b != 0);
    let harms: [(&str, fn(&mut [u8])); 2] =
        [("checksum", |page| page[5000] ^= 4), ("all zeros", |page| page.fill(0))];
    for (says, harm) in harms {
        for no in 0..good.len() / PAGE_SIZE {
            let mut bad = good.clone();
            let page = &mut bad[no * PAGE_SIZE..][..PAGE_SIZE];
            if !is_written(page) {
                continue;
            }
            harm(page);
            std::fs::write(&path, &bad).unwrap();
            let (_, damage, _) = check(&dir.0);
            let page = format!("page 1025:{no} of ");
            let named = |why: &String| why.contains(&page) && why.contains(says);
            assert!(damage.iter().any(named), "{says}, page {no}: {damage:#?}");
            let of_table = |why: &String| why.contains(name) && why.contains("(test.t)");
            assert!(damage.iter().all(of_table), "{damage:#?}");
        }
    }
    let mut bad = good.clone();
    let (two, three) = bad[2 * PAGE_SIZE..4 * PAGE_SIZE].split_at_mut(PAGE_SIZE);
    assert!(is_written(two) && is_written(three));
    two.swap_with_slice(three);
    std::fs::write(&path, &bad).unwrap();
    let (_, damage, _) = check(&dir.0);
    assert!(damage.len() == 2 && damage[0].contains("page 1025:3 was found"), "{damage:#?}");

    let last = good.chunks_exact(PAGE_SIZE).rposition(is_written).unwrap();
    for len in [0, 1, PAGE_SIZE, PAGE_SIZE + 3847, 2 * PAGE_SIZE, last * PAGE_SIZE] {
        std::fs::write(&path, &good[..len]).unwrap();
        let (_, damage, _) = check(&dir.0);
        assert!(damage.iter().any(|why| why.contains("is cut off")), "{len}: {damage:#?}");
    }
    std::fs::remove_file(&path).unwrap();
    let (_, damage, _) = check(&dir.0);
    assert!(damage.len() == 1 && damage[0].contains("is missing"), "{damage:#?}");
}

#[test]
fn a_directory_in_use_or_without_a_redo_log_is_refused() {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let dir = Dir::new("check-files-in-use");
    let refused =
        |dir: &Path| StoppedDirectory::lock(disk.clone(), &Config::new(dir)).err().unwrap();
    std::fs::create_dir_all(&dir.0).unwrap();
    assert!(matches!(refused(&dir.0), Error::Incompatible(_)));
    let (e, _) = open(&dir);
    assert!(matches!(refused(&dir.0), Error::InUse(_)));
    block_on(e.close()).unwrap();
    drop(e);
    assert_eq!(check(&dir.0).1, Vec::<String>::new());
    // Tests STOPPED-1.
    let config = Config::new(&dir.0);
    let stopped = StoppedDirectory::lock(disk.clone(), &config).unwrap();
    stopped.check(None, &mut |_| ()).unwrap();
    assert!(matches!(refused(&dir.0), Error::InUse(_)));
    drop(stopped);
    assert!(StoppedDirectory::lock(disk, &config).is_ok());
}

/// A real disk that cannot read some bytes of the files in the folder of tables.
struct Worn {
    disk: RealDisk,
    unreadable: Range<u64>,
}
struct WornFile {
    file: Arc<dyn File>,
    unreadable: Range<u64>,
}
impl WornFile {
    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let end = offset + len as u64;
        if offset < self.unreadable.end && end > self.unreadable.start {
            return Err(io::Error::other("the sector is worn out"));
        }
        Ok(())
    }
}
impl File for WornFile {
    redolith_disk::forward_file!(file: write_at write_durable_at sync len next_data set_len);
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(offset, buf.len())?;
        self.file.read_at(buf, offset)
    }
    fn submit(&self, io: Io) {
        match io.op {
            Op::Read(buf) if self.check(io.offset, buf.len()).is_err() => {
                (io.done)(self.check(io.offset, buf.len()), Some(buf))
            }
            op => self.file.submit(Io { op, ..io }),
        }
    }
}
impl Disk for Worn {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        let of_table = path.parent().is_some_and(|folder| folder.ends_with("tables"));
        Ok(match of_table {
            true => Arc::new(WornFile { file, unreadable: self.unreadable.clone() }),
            false => file,
        })
    }
    redolith_disk::forward_disk! {
        disk: exists list create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
}

/// A page that the disk cannot read is named, also if it is the bitmap, and the check goes on
/// behind it.
#[test]
fn every_unreadable_page_is_named() {
    let dir = written("check-worn");
    let pages = check(&dir.0).0.pages;
    let size = PAGE_SIZE as u64;
    for no in 0..4 {
        let disk = Worn { disk: RealDisk::new(), unreadable: no * size + 100..no * size + 101 };
        let (checked, damage, _) = check_on(Arc::new(disk), &dir.0);
        let page = format!("page 1025:{no} of ");
        let named = |why: &String| why.contains(&page) && why.contains("worn out");
        assert!(damage.len() == 1 && named(&damage[0]), "page {no}: {damage:#?}");
        assert_eq!(checked.pages, pages - 1, "page {no}");
    }
}

/// A file that was made longer with holes: they are not read, and are no damage.
#[test]
fn holes_are_passed_over() {
    let dir = written("check-holes");
    let path = dir.0.join("tables/1025.rdl");
    let (pages, len) = (check(&dir.0).0.pages, std::fs::metadata(&path).unwrap().len());
    // Where the end of a range of bitmap pages is not reached, the pages count. One read goes on a
    // little behind the last page.
    for longer in [len + (1 << 30), 1 << 40] {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(longer).unwrap();
        let disk = Worn { disk: RealDisk::new(), unreadable: len + (1 << 20)..2_000_000_000 };
        let (checked, damage, _) = check_on(Arc::new(disk), &dir.0);
        assert_eq!(damage, [""; 0]);
        assert!(checked.pages >= pages && checked.pages < pages + (2 << 30) / PAGE_SIZE as u64);
    }
    // A bitmap page of zeros is damage where its range has a page that was written.
    const RANGE: u64 = 130_816;
    let size = PAGE_SIZE as u64;
    for zeros in [false, true] {
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
        file.set_len((RANGE + 512) * size).unwrap();
        let write = |page: &[u8], no| {
            std::os::unix::fs::FileExt::write_all_at(&file, page, no * size).unwrap();
        };
        write(&[1; PAGE_SIZE], RANGE + 9);
        if zeros {
            write(&[0; PAGE_SIZE], RANGE + 1);
        }
        let (_, damage, _) = check_on(Arc::new(RealDisk::new()), &dir.0);
        for no in [RANGE + 1, RANGE + 9] {
            let named = format!("page 1025:{no} of ");
            assert!(damage.iter().any(|why| why.contains(&named)), "{zeros}: {damage:#?}");
        }
        assert_eq!(damage.len(), 2, "{damage:#?}");
    }
    // A page in use whose place is a hole is damage.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
    let good = std::fs::read(&path).unwrap();
    let file = std::fs::File::create(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &good[..2 * PAGE_SIZE], 0).unwrap();
    file.set_len(len).unwrap();
    let (_, damage, _) = check_on(Arc::new(RealDisk::new()), &dir.0);
    assert!(damage.iter().any(|why| why.contains("page 1025:2 of ")), "{damage:#?}");
}
