//! Redo: repeats the changes in the redo log in the pages that lack them.
//!
//! REDO-1: redo skips the changes of a page that cannot be read. If such a page turns out to be
//! readable later, the start fails, so a page without its changes is never used.
//! REDO-2: a page that has its changes already may have been read from a cache: an ended process
//! wrote the page and never synced it. So the file of every page that the redo log names is synced
//! before the checkpoint can pass.
//! REDO-3: redo applies exactly the frames that were judged: if the redo log ends at another LSN
//! when it is read again, the start fails.
use super::Report;
use super::forced::Forced;
use crate::buf::{BufferPool, Latch, PageGuard};
use crate::canary::{Canary, planted};
use crate::commit_stream::CommitStream;
use crate::flush::LogView;
use crate::log::FrameScanner;
use crate::mtr::record::{Change, Record, Records, link};
use crate::runtime::BoxFuture;
use crate::space::{READS, Spaces};
use crate::{Error, Lsn, PAGE_SIZE, PageId, Result, SpaceId, WouldBlock};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// The redo log as the cleaners see it while it is read: all of it is durable, and the checkpoint
/// stays.
pub(crate) struct Reading {
    pub at: AtomicU64,
    pub checkpoint: Lsn,
    pub capacity_bytes: u64,
}
impl LogView for Reading {
    fn tail(&self) -> Lsn {
        Lsn(self.at.load(Acquire))
    }
    fn dirty_low(&self) -> Lsn {
        self.tail()
    }
    fn durable(&self) -> Lsn {
        Lsn::MAX
    }
    fn checkpoint(&self) -> Lsn {
        self.checkpoint
    }
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }
    fn flush_to(&self, _: Lsn) -> BoxFuture<()> {
        Box::pin(async {})
    }
    fn write_checkpoint(&self, _: Lsn, _: &[u8]) {}
    fn pressure(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// The changes of one frame to one page.
pub(crate) struct Group<'a> {
    pub id: PageId,
    /// Part of the page's LSN before the frame (RECORD-1).
    pub before: Option<u32>,
    pub changes: SmallVec<[Change<'a>; 16]>,
}
impl Group<'_> {
    /// Whether the frame makes the whole page, whatever the page held before.
    pub(crate) fn is_fresh(&self) -> bool {
        self.changes.first() == Some(&Change::Init)
    }
    /// Whether a page with this LSN, which lacks these changes, is the page to which the changes
    /// were made (RECORD-1).
    pub(crate) fn follows(&self, lsn: Lsn) -> bool {
        self.is_fresh() || self.before.is_none_or(|b| b == link(lsn))
    }
    pub(crate) fn apply(&self, page: &mut [u8; PAGE_SIZE]) {
        self.changes.iter().for_each(|c| c.apply(self.id, page));
    }
}
/// Groups the changes of a frame by page. A mini-transaction may change page A, then B, then A
/// again. A page's changes are applied together, because afterwards the page's LSN says that the
/// page has them all. `file` is called for each file that the frame names, `commit` for the record
/// that travels with a commit.
pub(crate) fn groups<'a>(
    start: Lsn,
    payload: &'a [u8],
    mut file: impl FnMut(SpaceId),
    mut commit: impl FnMut(&'a [u8]),
) -> Result<SmallVec<[Group<'a>; 8]>> {
    let mut groups = SmallVec::<[Group<'a>; 8]>::new();
    for record in Records::new(payload) {
        match record.map_err(|why| {
            Error::Incompatible(format!("the redo log's frame at LSN {start}: {why}"))
        })? {
            Record::File(space) => file(space),
            Record::Commit(record) => commit(record),
            Record::Page { id, before, change } => match groups.iter_mut().find(|g| g.id == id) {
                Some(g) => g.changes.push(change),
                None => groups.push(Group { id, before, changes: smallvec::smallvec![change] }),
            },
        }
    }
    Ok(groups)
}

struct Applier<'a> {
    pool: &'a Arc<BufferPool>,
    spaces: &'a Spaces,
    touched: HashSet<PageId>,
    bad: HashMap<PageId, String>,
    /// Spaces whose files are missing: they were dropped after these changes.
    gone: HashSet<SpaceId>,
    forced: Forced,
    stream: &'a dyn CommitStream,
}

/// Applies the redo log to the pages. `end` is the LSN at which the log ended when it was judged.
pub(crate) async fn apply(
    scanner: &mut FrameScanner,
    end: Lsn,
    pool: &Arc<BufferPool>,
    spaces: &Spaces,
    reading: &Reading,
    report: &mut Report,
    forced: Forced,
    stream: &dyn CommitStream,
) -> Result<()> {
    let mut a = Applier {
        pool,
        spaces,
        touched: HashSet::new(),
        bad: HashMap::new(),
        gone: HashSet::new(),
        forced,
        stream,
    };
    while let Some(frame) = scanner.next()? {
        reading.at.store(frame.end.0, Release);
        a.frame(frame.start, frame.end, frame.payload).await?;
        report.frames += 1;
    }
    report.end = scanner.position();
    if report.end != end {
        // REDO-3
        return Err(Error::Io {
            what: "reading the redo log".into(),
            why: format!(
                "it ended at LSN {end} when it was read first, and at LSN {} the second time: the \
                    disk misreads; start again",
                report.end
            ),
            full: false,
        });
    }
    reading.at.store(report.end.0, Release);
    report.pages = a.touched.len() as u64;
    // REDO-2
    let touched: BTreeSet<SpaceId> = a.touched.iter().map(|id| id.space).collect();
    for space in touched {
        let Some(s) = spaces.find_whole(space)? else { continue };
        s.file.sync().map_err(|e| Error::io(format_args!("syncing {}", s.path.display()), &e))?;
    }
    let mut bad: Vec<(PageId, String)> = a.bad.into_iter().collect();
    bad.sort_unstable_by_key(|(id, _)| *id);
    // REDO-1: a bad page that is readable now was spoiled on its way from the disk, and lacks the
    // changes that were skipped.
    for (id, why) in bad.iter().filter(|_| !forced.is_on()) {
        for _ in 0..READS {
            if pool.load(*id).await.is_ok() {
                return Err(Error::Io {
                    what: format!("reading page {id}"),
                    why: format!("{why}, but a later read found the page whole"),
                    full: false,
                });
            }
        }
    }
    report.bad_pages = bad;
    Ok(())
}

impl Applier<'_> {
    async fn frame(&mut self, start: Lsn, end: Lsn, payload: &[u8]) -> Result<()> {
        let mut record = None;
        for group in groups(start, payload, |_| {}, |r| record = Some(r))? {
            self.page(&group, start, end).await?;
        }
        match record.filter(|_| !self.forced.is_on() && !planted(Canary::NoReplay)) {
            Some(record) => self.stream.replay(start, record),
            None => Ok(()),
        }
    }
    async fn page(&mut self, group: &Group<'_>, start: Lsn, end: Lsn) -> Result<()> {
        let (id, fresh) = (group.id, group.is_fresh());
        if self.gone.contains(&id.space) || (!fresh && self.bad.contains_key(&id)) {
            return Ok(());
        }
        loop {
            let blocked = match self.open(id, fresh) {
                Ok(Some(mut g)) => {
                    self.touched.insert(id);
                    if g.lsn() < end {
                        if !group.follows(g.lsn()) {
                            if self.forced.is_on() {
                                return Ok(());
                            }
                            // The page fitted when the start was judged, so the file has changed
                            // since.
                            return Err(Error::Damaged(format!(
                                "page {id} has LSN {}, and had another LSN when it was read first",
                                g.lsn()
                            )));
                        }
                        group.apply(g.bytes_mut());
                        g.mark_dirty(start, end);
                    }
                    return Ok(());
                }
                Ok(None) => {
                    self.gone.insert(id.space);
                    return Ok(());
                }
                Err(s) => s,
            };
            match blocked {
                WouldBlock::Page(id) => match self.pool.load(id).await {
                    Err(e @ Error::Corrupt { .. }) => {
                        self.bad.insert(id, e.to_string());
                        return Ok(());
                    }
                    done => done?,
                },
                WouldBlock::Frame => self.pool.wait_frame().await,
                WouldBlock::Failed(e) => return Err(e),
                other => unreachable!("redo would block on {other:?}"),
            }
        }
    }
    fn open(
        &mut self,
        id: PageId,
        fresh: bool,
    ) -> std::result::Result<Option<PageGuard>, WouldBlock> {
        let Some(space) = self.spaces.find_whole(id.space)? else { return Ok(None) };
        if id.no >= space.pages() {
            self.spaces.ensure(id.space, id.no)?;
        }
        if !fresh {
            return self.pool.fix(id, Latch::X).map(Some);
        }
        // The frame makes the page anew, unless the page is in memory with this and later changes
        // already.
        self.bad.remove(&id);
        if self.touched.contains(&id) {
            return self.pool.fix(id, Latch::X).map(Some);
        }
        match self.pool.fix(id, Latch::X) {
            Ok(g) => Ok(Some(g)),
            Err(WouldBlock::Page(_)) => self.read_or_create(id),
            Err(s) => Err(s),
        }
    }
    /// Handles a page whose first change is INIT. The page on disk may have any content, also a
    /// later state, which redo must not undo; so the page is read if it is whole.
    fn read_or_create(&mut self, id: PageId) -> std::result::Result<Option<PageGuard>, WouldBlock> {
        let Some(space) = self.spaces.find_whole(id.space)? else { return Ok(None) };
        let mut buf = redolith_disk::AlignedBuf::new(crate::PAGE_SIZE);
        let whole = space.file.read_at(&mut buf, id.no as u64 * crate::PAGE_SIZE as u64).is_ok()
            && {
                let page: &[u8; crate::PAGE_SIZE] = (&buf[..]).try_into().expect("a page");
                crate::page::header::verify(page, id).is_ok()
            };
        if whole { Err(WouldBlock::Page(id)) } else { self.pool.create(id).map(Some) }
    }
}
