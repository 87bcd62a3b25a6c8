//! How the file of a space grows, and what a crash leaves of that.
use super::{Fresh, READS, Space, bitmap, finish};
use crate::page::header;
use crate::{Error, PAGE_SIZE, PageId, PageNo, Result, SpaceId, poison};
use redolith_disk::{AlignedBuf, File};
use std::sync::atomic::Ordering::*;

/// The bytes of the range of pages that a bitmap page covers.
const RANGE: u64 = bitmap::PAGES as u64 * PAGE_SIZE as u64;

/// The number of pages of a file that is opened: the whole ones, without the ranges of bitmap pages
/// of which it has holes alone (SPACE-4).
pub(crate) fn counted_pages(file: &dyn File) -> std::io::Result<u32> {
    let len = file.len()?;
    // A crash during growth can leave a part of a page at the end.
    let pages = u32::try_from(len / PAGE_SIZE as u64).unwrap_or(u32::MAX);
    let is_hole_from = |range: u32| -> std::io::Result<bool> {
        Ok(file.next_data(u64::from(range) * RANGE)?.is_none_or(|at| at >= len))
    };
    let (mut data, mut hole) = (0, pages.div_ceil(bitmap::PAGES).saturating_sub(1));
    if hole == 0 || !is_hole_from(hole)? {
        return Ok(pages);
    }
    while hole - data > 1 {
        let middle = data + (hole - data) / 2;
        if is_hole_from(middle)? { hole = middle } else { data = middle }
    }
    // A file system that is wrong about its holes must not cost a range that is used: its bitmap
    // page is in the file.
    let (first, mut map) = (hole * bitmap::PAGES, AlignedBuf::new(PAGE_SIZE));
    if first + 1 < pages {
        file.read_at(&mut map, u64::from(first + 1) * PAGE_SIZE as u64)?;
    }
    Ok(if map.iter().all(|b| *b == 0) { first } else { pages })
}

impl Space {
    pub(super) fn init_bitmaps(&self) -> Result<()> {
        let fail = |e: std::io::Error| {
            Error::io(format_args!("making bitmap pages of {}", self.path.display()), &e)
        };
        let wrote = init_bitmaps(&*self.file, self.id, 0, self.pages()).map_err(fail)?;
        if wrote && let Err(e) = self.syncs.sync_blocking(&*self.file) {
            // Who tried again would find the pages in the file, and take them for durable.
            poison(&format!("fsync of {} failed: {e}", self.path.display()));
        }
        Ok(())
    }
    /// Whether bitmap page `no`, found to be all zeros, may be missing because a crash came before
    /// its write. The first bitmap page is created with the file.
    pub fn may_lack_bitmap(&self, no: PageNo) -> std::io::Result<bool> {
        Ok(bitmap::is_bitmap(no) && no > 1 && is_range_empty(&*self.file, no, self.pages())?)
    }
    /// The bitmap page `no` as growth of the file makes it.
    pub fn fresh_bitmap(&self, no: PageNo) -> Box<header::Page> {
        fresh_bitmap(self.id, no)
    }
    /// Makes the file longer: by an eighth, by an extent at least, and by 4096 pages at most,
    /// unless `at_least` needs more.
    pub(super) fn grow(&self, at_least: u32) -> Result<()> {
        let _one = self.growing.lock();
        let old = self.pages();
        if old > at_least {
            return Ok(());
        }
        let longer = u64::from(old) + u64::from((old / 8).clamp(bitmap::EXTENT, 4096));
        let new = longer.max(u64::from(at_least) + 1).next_multiple_of(bitmap::EXTENT.into());
        let new = u32::try_from(new).map_err(|_| {
            Error::Incompatible(format!(
                "table space {} ({}) cannot grow to {new} pages: a file has no more than {} pages",
                self.path.display(),
                self.label(),
                u32::MAX
            ))
        })?;
        // What was not counted goes, so that the new part is allocated (SPACE-4).
        let end = u64::from(old) * PAGE_SIZE as u64;
        let cut = || if self.file.len()? > end { self.file.set_len(end) } else { Ok(()) };
        let grown = cut()
            .and_then(|()| self.file.set_len(u64::from(new) * PAGE_SIZE as u64))
            .and_then(|()| init_bitmaps(&*self.file, self.id, old, new));
        let wrote = grown.map_err(|e| {
            Error::io(
                format_args!(
                    "table space {} ({}) cannot grow to {new} pages",
                    self.path.display(),
                    self.label()
                ),
                &e,
            )
        })?;
        // FLUSH-7
        if wrote && let Err(e) = self.syncs.sync_blocking(&*self.file) {
            // The failed sync may have reported, and used up, the error of a page's write.
            poison(&format!("fsync of {} failed: {e}", self.path.display()));
        }
        self.pages.store(new, Release);
        Ok(())
    }
}

/// Writes the missing bitmap pages of later ranges among the pages `from..to`: a crash may have
/// come between growth and this write. Returns whether it wrote any; then the caller syncs the
/// file.
fn init_bitmaps(file: &dyn File, id: SpaceId, from: u32, to: u32) -> std::io::Result<bool> {
    let mut wrote = false;
    for first in (1..to.div_ceil(bitmap::PAGES))
        .map(|k| k * bitmap::PAGES)
        .filter(|f| (from..to).contains(&(f + 1)))
    {
        let no = first + 1;
        let mut buf = AlignedBuf::new(PAGE_SIZE);
        let at = no as u64 * PAGE_SIZE as u64;
        let found = match found_at(file, PageId { space: id, no }, &mut buf) {
            // JUDGE-10: recovery can do without the page, or the first user of the bitmap reports
            // that the disk cannot read it.
            Err(e) if from == 0 && e.kind() != std::io::ErrorKind::UnexpectedEof => continue,
            found => found?,
        };
        match found {
            // Zeros among written pages are damage, which the first user of the bitmap reports.
            Found::Nothing if from == 0 && !is_range_empty(file, no, to)? => {}
            Found::Nothing => {
                buf.copy_from_slice(&fresh_bitmap(id, no)[..]);
                file.write_at(&buf, at)?;
                wrote = true;
            }
            Found::Bitmap => {}
            // The page may be torn: recovery repairs it or reports that it cannot.
            Found::Other if from == 0 => {}
            Found::Other => {
                return Err(std::io::Error::other(format!(
                    "page {no}, which is new, is not empty"
                )));
            }
        }
    }
    Ok(wrote)
}
/// Whether nothing was written in the range of bitmap page `no` yet. Growth makes a bitmap durable
/// before the first page of its range is used, and a mini-transaction that changes a bitmap changes
/// a page of its range too. So a checkpoint that has passed one change has passed the other.
///
/// Holes are passed over (SPACE-4), except for the first extent of each: a file system that is
/// wrong about its holes must not cost a range that is used. A file that ends before its pages do
/// has lost a part, and says nothing about it.
///
/// # Errors
/// `UnexpectedEof` if the file ends within the range.
pub(crate) fn is_range_empty(file: &dyn File, no: PageNo, pages: u32) -> std::io::Result<bool> {
    let mut buf = AlignedBuf::new(bitmap::EXTENT as usize * PAGE_SIZE);
    let (mut from, end) = (no - 1, pages.min(no - 1 + bitmap::PAGES));
    if file.len()? < u64::from(end) * PAGE_SIZE as u64 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    while from < end {
        let len = (end - from).min(bitmap::EXTENT) as usize * PAGE_SIZE;
        file.read_at(&mut buf[..len], u64::from(from) * PAGE_SIZE as u64)?;
        let mut read = (from..).zip(buf[..len].chunks_exact(PAGE_SIZE));
        if read.any(|(page, bytes)| page != no && bytes.iter().any(|b| *b != 0)) {
            return Ok(false);
        }
        from += bitmap::EXTENT;
        let Some(data) = file.next_data(u64::from(from) * PAGE_SIZE as u64)? else { break };
        let extent = data / PAGE_SIZE as u64 / u64::from(bitmap::EXTENT);
        from = u32::try_from(extent * u64::from(bitmap::EXTENT)).unwrap_or(end).max(from);
    }
    Ok(true)
}
/// The content at the place of a bitmap page.
enum Found {
    Nothing,
    Bitmap,
    Other,
}
/// Reads the page several times before it counts as something else, because it may be spoiled on
/// its way.
fn found_at(file: &dyn File, id: PageId, buf: &mut AlignedBuf) -> std::io::Result<Found> {
    for _ in 0..READS {
        file.read_at(buf, id.no as u64 * PAGE_SIZE as u64)?;
        if buf.iter().all(|b| *b == 0) {
            return Ok(Found::Nothing);
        }
        if header::verify(buf.first_chunk().expect("a page"), id).is_ok() {
            return Ok(Found::Bitmap);
        }
    }
    Ok(Found::Other)
}
pub(super) fn fresh_bitmap(space: SpaceId, no: PageNo) -> Box<header::Page> {
    let mut map = Fresh(Box::new([0; PAGE_SIZE]));
    bitmap::init(&mut map, no - 1);
    finish(&mut map.0, PageId { space, no });
    map.0
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::space::Spaces;
    use redolith_disk::SimDisk;
    use redolith_disk::sim::{Damage, Fault, OpKind};
    use redolith_disk::{Disk, OpenHow};
    use std::path::Path;
    use std::sync::Arc;

    const SPACE: SpaceId = SpaceId(16);
    const NEW: u32 = bitmap::PAGES + 64;

    fn file() -> (SimDisk, Arc<dyn File>) {
        let disk = SimDisk::new(1);
        let file = disk.open(Path::new("/f"), OpenHow::create_new(true)).unwrap();
        file.set_len(NEW as u64 * PAGE_SIZE as u64).unwrap();
        (disk, file)
    }
    fn is_there(file: &dyn File) -> bool {
        let mut buf = AlignedBuf::new(PAGE_SIZE);
        file.read_at(&mut buf, (bitmap::PAGES + 1) as u64 * PAGE_SIZE as u64).unwrap();
        header::verify(buf.first_chunk().unwrap(), PageId { space: SPACE, no: bitmap::PAGES + 1 })
            .is_ok()
    }

    /// Tests SPACE-1, also on a disk that is full, and where a crash left a part of a page.
    #[test]
    fn every_page_that_is_counted_can_be_read_and_written() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/d/tables")).unwrap();
        let spaces = || Spaces::new(Arc::new(disk.clone()), Path::new("/d"), false);
        let open = spaces();
        let s = open.create(SPACE, "", &[]).unwrap();
        open.extend(SPACE).unwrap();
        disk.set_capacity(Some(disk.used_bytes()));
        let pages = s.pages();
        assert!(open.extend(SPACE).is_err() && s.pages() == pages, "a page that is not there");
        let mut page = AlignedBuf::new(PAGE_SIZE);
        for at in (2..pages).map(|no| u64::from(no) * PAGE_SIZE as u64) {
            s.file.write_at(&page, at).unwrap();
            s.file.read_at(&mut page, at).unwrap();
        }
        disk.set_capacity(None);
        s.file.set_len((u64::from(pages) + 1) * PAGE_SIZE as u64 - 4096).unwrap();
        assert_eq!(spaces().open(SPACE, "").unwrap().pages(), pages);
    }

    /// A page number that lies does not make the file shorter.
    #[test]
    fn a_file_grows_to_no_page_that_it_cannot_have() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/d/tables")).unwrap();
        let spaces = Spaces::new(Arc::new(disk), Path::new("/d"), false);
        let s = spaces.create(SPACE, "a table", &[]).unwrap();
        let pages = s.pages();
        for no in [u32::MAX, u32::MAX - 1, u32::MAX - 62] {
            let why = spaces.ensure(SPACE, no).unwrap_err().to_string();
            assert!(why.contains("16.rdl (a table) cannot grow to 4294967296 pages"), "{why}");
        }
        assert_eq!((s.pages(), s.file.len().unwrap()), (pages, u64::from(pages) * 16384));
    }

    /// A bit that flips on the way does not turn an empty page into a bitmap.
    #[test]
    fn a_bitmap_page_that_is_read_wrong_is_made_all_the_same() {
        for from in [0, 64] {
            let (disk, file) = file();
            disk.fail(Fault::new(OpKind::Read, Damage::Flip).times(3));
            assert!(init_bitmaps(&*file, SPACE, from, NEW).unwrap());
            assert!(is_there(&*file));
            disk.fail(Fault::new(OpKind::Read, Damage::Flip).times(3));
            assert!(!init_bitmaps(&*file, SPACE, from, NEW).unwrap(), "it is there");
        }
    }
    #[test]
    fn what_is_no_bitmap_is_left_to_recovery_and_is_an_error_in_a_new_part() {
        let (disk, file) = file();
        disk.overwrite(Path::new("/f"), (bitmap::PAGES + 1) as u64 * PAGE_SIZE as u64 + 100, &[1])
            .unwrap();
        assert!(!init_bitmaps(&*file, SPACE, 0, NEW).unwrap());
        assert!(!is_there(&*file));
        assert!(
            init_bitmaps(&*file, SPACE, 64, NEW).unwrap_err().to_string().contains("not empty")
        );
    }

    /// A file that says it has nothing but holes.
    struct Holes {
        file: Arc<dyn File>,
    }
    impl File for Holes {
        redolith_disk::forward_file!(
            file: read_at write_at write_durable_at set_len submit sync len
        );
        fn next_data(&self, _: u64) -> std::io::Result<Option<u64>> {
            Ok(None)
        }
    }
    /// A bitmap page of zeros is made anew only where nothing of its range was used: holes are no
    /// proof of it, and neither is a file that has become shorter.
    #[test]
    fn a_range_that_may_be_used_gets_no_new_bitmap() {
        let (_, file) = file();
        let (first, pages) = (bitmap::PAGES, bitmap::PAGES + 64);
        let holes = Holes { file: file.clone() };
        assert!(is_range_empty(&*file, first + 1, pages).unwrap());
        assert!(is_range_empty(&holes, first + 1, pages).unwrap());
        let mut page = AlignedBuf::new(PAGE_SIZE);
        page[100] = 1;
        file.write_at(&page, u64::from(first + 7) * PAGE_SIZE as u64).unwrap();
        assert!(!is_range_empty(&*file, first + 1, pages).unwrap());
        assert!(!is_range_empty(&holes, first + 1, pages).unwrap());
        assert!(!init_bitmaps(&holes, SPACE, 0, pages).unwrap());
        assert!(!is_there(&*file), "it is damaged, and stays so");
        let cut = is_range_empty(&*file, first + 1, pages + 1).map_err(|e| e.kind());
        assert_eq!(cut.unwrap_err(), std::io::ErrorKind::UnexpectedEof);
    }

    /// A file that somebody has made longer with holes: neither the holes nor bitmap pages of them
    /// are read or written, and growth takes their place. Tests SPACE-4.
    #[test]
    fn holes_at_the_end_of_a_file_are_not_counted() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/d/tables")).unwrap();
        let spaces = || {
            let spaces = Spaces::new(Arc::new(disk.clone()), Path::new("/d"), false);
            spaces.begin_writing().unwrap();
            spaces
        };
        let file = spaces().create(SPACE, "", &[]).unwrap().file.clone();
        let pages = file.len().unwrap() / PAGE_SIZE as u64;
        for longer in [RANGE + 1, 3 * RANGE, 5000 * RANGE, 1 << 62] {
            file.set_len(longer).unwrap();
            let used = disk.used_bytes();
            let s = spaces().open(SPACE, "").unwrap();
            assert_eq!(s.pages(), bitmap::PAGES, "the range that has data");
            assert_eq!(disk.used_bytes(), used);
            s.grow(bitmap::PAGES).unwrap();
            assert!(is_there(&*s.file) && s.pages() > bitmap::PAGES);
            assert_eq!(s.file.len().unwrap(), u64::from(s.pages()) * PAGE_SIZE as u64);
            assert_eq!(spaces().open(SPACE, "").unwrap().pages(), s.pages(), "it has a bitmap");
            s.file.set_len(pages * PAGE_SIZE as u64).unwrap();
        }
        // Data behind holes is counted, and so is a range of which a bitmap page alone is there.
        file.set_len(5 * RANGE).unwrap();
        file.write_at(&AlignedBuf::new(PAGE_SIZE), 3 * RANGE).unwrap();
        disk.overwrite(&spaces().path(SPACE), 3 * RANGE, &[1]).unwrap();
        assert_eq!(spaces().open(SPACE, "").unwrap().pages(), 4 * bitmap::PAGES);
    }
}
