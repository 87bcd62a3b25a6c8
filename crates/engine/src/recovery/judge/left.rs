//! The undo pages, of which the redo log may change more than there is memory for (JUDGE-9).
use super::super::apply::read_again;
use super::super::undo_scan::{Image, MOST_COMMITTED, Scan};
use super::super::window::Window;
use super::Judge;
use crate::buf::BufferPool;
use crate::log::FrameScanner;
use crate::space::bitmap;
use crate::undo;
use crate::undo::record;
use crate::{PAGE_SIZE, PageId, Result, SpaceId};

/// The memory that judging may take for the undo spaces.
#[derive(Clone, Copy)]
pub(in crate::recovery) struct Bounds {
    /// The undo pages that are built at a time (JUDGE-9).
    pub undo_pages: usize,
    /// The committed logs that are kept in memory (UNDOSCAN-2).
    pub committed_logs: usize,
}
impl Bounds {
    /// As many pages as half of the pool has, and 128 MiB of pages at least.
    pub(in crate::recovery) fn of(pool: &BufferPool) -> Bounds {
        Bounds {
            undo_pages: (pool.pages().total / 2).max((128 << 20) / PAGE_SIZE),
            committed_logs: MOST_COMMITTED,
        }
    }
}

/// Whether a page is an undo page that may be built later. Headers and bitmap pages are not: they
/// tell which pages are in use.
fn can_be_left(id: PageId) -> bool {
    SpaceId::UNDO.contains(&id.space) && id.no != 0 && !bitmap::is_bitmap(id.no)
}

impl Judge<'_> {
    /// Whether an undo page that the redo log changes is left for later.
    pub(super) fn is_left(&mut self, id: PageId) -> bool {
        if !can_be_left(id) || self.system.contains_key(&id) || self.gone.contains(&id.space) {
            return false;
        }
        if self.built_undo < self.bounds.undo_pages {
            self.built_undo += 1;
            return false;
        }
        self.left.insert(id);
        true
    }
    /// Reads the undo pages in use, as redo is going to make them.
    pub(super) fn scan_undo(&mut self, scanner: &mut FrameScanner) -> Result<Image> {
        let mut used = Vec::new();
        for space in SpaceId::UNDO {
            used.extend(self.in_use(space)?.into_iter().map(|no| PageId { space, no }));
        }
        self.leave_all();
        let mut left: Vec<PageId> = self.left.iter().copied().collect();
        left.sort_unstable();
        let kept: Vec<PageId> =
            used.iter().filter(|id| !self.left.contains(*id)).copied().collect();
        let mut scan = Scan::new(self.bounds.committed_logs);
        loop {
            for id in &kept {
                scan.page(*id, &self.passing(*id)?)?;
            }
            for group in left.chunks(self.bounds.undo_pages.max(1)) {
                self.remake(scanner, group)?;
                debug_assert!(self.built_pages().count() <= group.len(), "JUDGE-9");
                for id in group.iter().filter(|id| used.binary_search(*id).is_ok()) {
                    scan.page(*id, self.whole(*id)?)?;
                }
                self.forget(group);
            }
            if !scan.reads_again() {
                break;
            }
        }
        let image = scan.end();
        self.keep_definitions(scanner, &image)?;
        Ok(image)
    }
    /// Leaves the pages that the first reading has built, too, if it has left any: they would be in
    /// memory beside each group. They cost one more reading at most, for each pass of the scan.
    fn leave_all(&mut self) {
        if self.left.is_empty() {
            return;
        }
        let built: Vec<PageId> = self.built_pages().collect();
        for id in built {
            self.system.remove(&id);
            self.left.insert(id);
        }
    }
    /// The undo pages in memory that can be built again. Torn ones redo takes as they are here
    /// (TORN-2).
    fn built_pages(&self) -> impl Iterator<Item = PageId> {
        let pages = self.system.iter().filter(|(id, page)| can_be_left(**id) && page.is_ok());
        pages.map(|(id, _)| *id).filter(|id| !self.torn.has(*id))
    }
    /// Builds a group of pages that were left, by another reading of the redo log.
    fn remake(&mut self, scanner: &mut FrameScanner, group: &[PageId]) -> Result<()> {
        let end = scanner.position();
        scanner.rewind();
        let made = self.remake_all(scanner, group);
        // The end of the log is judged later, whatever was found.
        while scanner.next()?.is_some() {}
        made?;
        self.rebuilt();
        read_again(end, scanner.position())
    }
    fn remake_all(&mut self, scanner: &mut FrameScanner, group: &[PageId]) -> Result<()> {
        let mut window = Window::default();
        window.fill(scanner)?;
        while !window.is_empty() {
            for page in window.pages().filter(|page| group.binary_search(&page.id()).is_ok()) {
                page.groups().try_for_each(|changes| self.make(&changes))?;
            }
            window.fill(scanner)?;
        }
        Ok(())
    }
    /// Forgets pages that were built, except torn ones, which redo takes as they are here (TORN-2).
    fn forget(&mut self, group: &[PageId]) {
        for id in group.iter().filter(|id| !self.torn.has(**id)) {
            if let Some(Ok(_)) = self.system.remove(id) {
                self.remade.insert(*id);
            }
        }
    }
    /// Builds the pages with logs of unfinished definitions once more: JUDGE-7 looks into them
    /// where a table's file is missing. There are few such transactions, and their logs are short.
    fn keep_definitions(&mut self, scanner: &mut FrameScanner, image: &Image) -> Result<()> {
        let of_definitions =
            image.logs.iter().filter(|l| l.dictionary && l.state == record::ACTIVE);
        let mut pages: Vec<PageId> = of_definitions
            .flat_map(|l| l.pages.iter().map(|no| undo::page_id(*no)))
            .filter(|id| self.left.contains(id))
            .collect();
        if pages.is_empty() || self.gone.is_empty() {
            return Ok(());
        }
        pages.sort_unstable();
        pages.dedup();
        self.remake(scanner, &pages)
    }
}
