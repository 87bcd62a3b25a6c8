//! Torn pages that redo rebuilds, where the redo log protects pages against tearing
//! ([`crate::flush::protection`], TORN-2 to TORN-4).
//!
//! A torn page is taken as it lies in its file, and gets the LSN that it had before its first
//! change behind the checkpoint: it lacks all changes in the redo log, and judging makes them in
//! memory. In between the page is no whole page, since some of its sectors are newer than its
//! changes so far. So redo takes it as judging has left it, and no such state comes into the pool,
//! which may write its pages, and reads them again, at any time.
use super::judge::read_page;
use super::window::Group;
use crate::canary::{Canary, planted};
use crate::page::header::{self, Page};
use crate::page::{index, kind};
use crate::space::Space;
use crate::{Error, Lsn, PAGE_SIZE, PageId, Result};
use hashbrown::{HashMap, HashSet};
use redolith_disk::AlignedBuf;

/// The most pages that one crash can tear are those written since the last sync, some thousands.
/// More bad pages are damage of another kind.
const MOST: usize = 16_384;

/// What a crash leaves whole (MEDIA-2).
const SECTOR: usize = 512;

/// The torn pages that a start has found.
pub(super) struct TornPages {
    redo_protects: bool,
    /// The LSN in the page's header, which is not known to be the LSN of any of its changes yet.
    doubtful: HashMap<PageId, Lsn>,
    /// Torn pages whose headers fit the redo log.
    fitting: HashSet<PageId>,
}

impl TornPages {
    pub(super) fn new(redo_protects: bool) -> TornPages {
        let redo_protects = redo_protects && !planted(Canary::NoRepair);
        TornPages { redo_protects, doubtful: HashMap::new(), fitting: HashSet::new() }
    }
    pub(super) fn has(&self, id: PageId) -> bool {
        self.fitting.contains(&id) || self.doubtful.contains_key(&id)
    }
    /// Reads the page that the changes `first` are made to, if it may be torn. Returns it with the
    /// LSN before these changes, and the LSN that its header has.
    pub(super) fn read(
        &mut self,
        space: &Space,
        first: &Group<'_>,
    ) -> Result<Option<(Box<Page>, Lsn)>> {
        let full = self.doubtful.len() + self.fitting.len() >= MOST;
        // Redo makes a page whose first change is INIT from nothing.
        if !self.redo_protects || full || first.id.no >= space.pages() || first.is_fresh() {
            return Ok(None);
        }
        let mut page = raw(space, first.id)?;
        // TORN-3. Page 0 of space 0 has its own number also where the sector was zeroed.
        if header::id(&page) != first.id || page[..SECTOR].iter().all(|b| *b == 0) {
            return Ok(None);
        }
        let lsn = header::lsn(&page);
        if lsn < first.end && first.follows(lsn) {
            self.fitting.insert(first.id);
        } else {
            self.doubtful.insert(first.id, lsn);
        }
        if !planted(Canary::TornKeepsLsn) {
            header::set_lsn(&mut page, first.lsn_before());
        }
        Ok(Some((page, lsn)))
    }
    /// Takes note of changes to a page.
    pub(super) fn passes(&mut self, group: &Group<'_>) {
        if !self.doubtful.is_empty()
            && self.doubtful.get(&group.id).is_some_and(|lsn| *lsn == group.end || group.is_fresh())
        {
            self.doubtful.remove(&group.id);
            self.fitting.insert(group.id);
        }
    }
    /// Judges the torn pages as redo has made them (TORN-3). Returns those that are not torn but
    /// damaged, with the reason, and forgets them.
    pub(super) fn judge(
        &mut self,
        made: &HashMap<PageId, std::result::Result<Box<Page>, String>>,
    ) -> Vec<(PageId, String)> {
        let unknown = |(id, lsn)| (id, format!("its LSN {lsn} is that of none of its changes"));
        let mut damaged: Vec<(PageId, String)> = self.doubtful.drain().map(unknown).collect();
        for id in &self.fitting {
            if let Some(Ok(page)) = made.get(id)
                && header::page_type(page) == kind::INDEX
                && let Err(why) = index::well_formed(page)
            {
                damaged.push((*id, format!("after redo, {why}")));
            }
        }
        damaged.iter().for_each(|(id, _)| _ = self.fitting.remove(id));
        damaged
    }
    /// The pages that redo rebuilds.
    pub(super) fn into_pages(self) -> HashSet<PageId> {
        self.fitting
    }
}

/// Reads a bad page as it lies in its file. Bytes that were spoiled on their way from the disk are
/// not what the file has: the page has to be bad, and the same, when it is read again.
pub(super) fn raw(space: &Space, id: PageId) -> Result<Box<Page>> {
    let fail = |e| Error::io(format_args!("reading page {id} of {}", space.path.display()), &e);
    let (mut first, mut again) = (AlignedBuf::new(PAGE_SIZE), AlignedBuf::new(PAGE_SIZE));
    let read = read_page(space, id, &mut first).map_err(fail)?;
    space.file.read_at(&mut again, u64::from(id.no) * PAGE_SIZE as u64).map_err(fail)?;
    if read.is_ok() || first[..] != again[..] {
        return Err(Error::Io {
            what: format!("reading page {id} of {}", space.path.display()),
            why: "two reads of the page differ: the disk misreads; start again".into(),
            full: false,
        });
    }
    Ok(Box::new(*first.first_chunk().expect("a page")))
}
