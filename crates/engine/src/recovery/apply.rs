//! Redo: repeats the changes in the redo log in the pages that lack them.
//!
//! REDO-1: redo skips the changes of a page that cannot be read. If such a page turns out to be
//! readable later, the start fails, so a page without its changes is never used.
//! REDO-2: a page that has its changes already may have been read from a cache: an ended process
//! wrote the page and never synced it. So the file of every page that the redo log names is synced
//! before the checkpoint can pass.
//! REDO-3: redo applies exactly the frames that were judged: if the redo log ends at another LSN
//! when it is read again, the start fails.
//! REDO-4: a page is changed by one task at a time. The tasks of a window end before those of the
//! next window begin.
use super::Report;
use super::forced::Forced;
use super::torn;
use super::window::{Group, PageChanges, Window};
use crate::buf::{BufferPool, Latch, PageGuard};
use crate::canary::{Canary, planted};
use crate::commit_stream::CommitStream;
use crate::flush::{LogView, Repaired};
use crate::log::FrameScanner;
use crate::page::header::{self, Page};
use crate::runtime::{BoxFuture, Runtime};
use crate::space::{READS, Space, Spaces};
use crate::sync::event::Event;
use crate::{Error, Lsn, PageId, Result, SpaceId, WouldBlock};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// The number of tasks that share the pages of a window. The task that reads the redo log works
/// beside them.
const TASKS: usize = 4;

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
    fn usable_bytes(&self) -> u64 {
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

struct Applier {
    pool: Arc<BufferPool>,
    spaces: Arc<Spaces>,
    /// Pages that could not be read when the start was judged.
    unreadable: HashSet<PageId>,
    /// Torn pages as the redo log has rebuilt them (TORN-2).
    torn: Mutex<HashMap<PageId, Box<Page>>>,
    forced: Forced,
    found: Mutex<Found>,
}
#[derive(Default)]
struct Found {
    touched: HashSet<PageId>,
    rebuilt: Vec<Repaired>,
    bad: HashMap<PageId, String>,
    /// Spaces whose files are missing: they were dropped after these changes.
    gone: HashSet<SpaceId>,
}

/// Applies the redo log to the pages. `end` is the LSN at which the log ended when it was judged,
/// `unreadable` are the pages that could not be read then, and `torn` those that redo has rebuilt.
pub(crate) async fn apply(
    scanner: &mut FrameScanner,
    end: Lsn,
    unreadable: HashSet<PageId>,
    torn: HashMap<PageId, Box<Page>>,
    pool: &Arc<BufferPool>,
    spaces: &Arc<Spaces>,
    reading: &Reading,
    runtime: &Arc<dyn Runtime>,
    report: &mut Report,
    forced: Forced,
    stream: &dyn CommitStream,
) -> Result<()> {
    let (pool, spaces) = (pool.clone(), spaces.clone());
    let (torn, found) = (Mutex::new(torn), Mutex::default());
    let a = Arc::new(Applier { pool, spaces, unreadable, torn, forced, found });
    let (mut next, mut spare) = (Window::default(), Window::default());
    next.fill(scanner)?;
    a.read_ahead(&next);
    while !next.is_empty() {
        let window = Arc::new(std::mem::replace(&mut next, spare));
        reading.at.store(window.end().0, Release);
        let tasks = a.begin(&window, &**runtime);
        // The log is read while the tasks work.
        let read = next.fill(scanner);
        a.read_ahead(&next);
        tasks.wait().await?;
        for (start, record) in window.commits() {
            if !forced.is_on() && !planted(Canary::NoReplay) {
                stream.replay(start, record)?;
            }
        }
        report.frames += window.len() as u64;
        read?;
        spare = Arc::into_inner(window).expect("REDO-4: the tasks of the window have ended");
    }
    report.end = scanner.position();
    read_again(end, report.end)?;
    let Found { touched, bad, mut rebuilt, .. } = std::mem::take(&mut *a.found.lock());
    report.pages = touched.len() as u64;
    rebuilt.sort_unstable_by_key(|r| r.page);
    report.repaired.append(&mut rebuilt);
    // REDO-2
    let changed: BTreeSet<SpaceId> = touched.iter().map(|id| id.space).collect();
    for space in changed {
        let Some(s) = a.spaces.find_whole(space)? else { continue };
        s.file.sync().map_err(|e| Error::io(format_args!("syncing {}", s.path.display()), &e))?;
    }
    let mut bad: Vec<(PageId, String)> = bad.into_iter().collect();
    bad.sort_unstable_by_key(|(id, _)| *id);
    // REDO-1: a bad page that is readable now was spoiled on its way from the disk, and lacks the
    // changes that were skipped.
    for (id, why) in bad.iter().filter(|_| !forced.is_on()) {
        for _ in 0..READS {
            if a.pool.load(*id).await.is_ok() {
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

/// Fails if the redo log, which ended at `end` when it was read first, ends elsewhere now (REDO-3).
pub(super) fn read_again(end: Lsn, now: Lsn) -> Result<()> {
    if now == end {
        return Ok(());
    }
    Err(Error::Io {
        what: "reading the redo log".into(),
        why: format!(
            "it ended at LSN {end} when it was read first, and at LSN {now} when it was read \
             again: the disk misreads; start again"
        ),
        full: false,
    })
}

/// The tasks that work on a window.
struct Tasks {
    running: AtomicUsize,
    /// The first error, or the news that a task ended before its work was done.
    failed: Mutex<Option<Error>>,
    ended: Event,
}
impl Tasks {
    async fn wait(&self) -> Result<()> {
        loop {
            let seen = self.ended.seen();
            if self.running.load(Acquire) == 0 {
                return self.failed.lock().take().map_or(Ok(()), Err);
            }
            self.ended.after(seen).await;
        }
    }
}
/// Tells, however a task ends, that the task has ended.
struct End {
    tasks: Arc<Tasks>,
    result: Result<()>,
}
impl Drop for End {
    fn drop(&mut self) {
        if let Err(e) = std::mem::replace(&mut self.result, Ok(())) {
            self.tasks.failed.lock().get_or_insert(e);
        }
        self.tasks.running.fetch_sub(1, AcqRel);
        self.tasks.ended.notify();
    }
}

impl Applier {
    /// Starts to read the pages of a window.
    fn read_ahead(&self, window: &Window) {
        let gone = self.found.lock().gone.clone();
        for id in window.pages().map(|page| page.id()) {
            // The task that changes the page meets an error again.
            if !gone.contains(&id.space)
                && !self.unreadable.contains(&id)
                && !self.torn.lock().contains_key(&id)
                && let Ok(Some(space)) = self.spaces.find_whole(id.space)
                && id.no < space.pages()
            {
                self.pool.prefetch(id);
            }
        }
    }
    /// Begins to apply a window (REDO-4).
    fn begin(self: &Arc<Self>, window: &Arc<Window>, runtime: &dyn Runtime) -> Arc<Tasks> {
        let tasks = Arc::new(Tasks {
            running: AtomicUsize::new(TASKS),
            failed: Mutex::default(),
            ended: Event::default(),
        });
        for n in 0..TASKS {
            let early = Err(Error::Damaged("a task of recovery ended early".into()));
            let end = End { tasks: tasks.clone(), result: early };
            let (applier, window) = (self.clone(), window.clone());
            let task = async move {
                let mut end = end;
                end.result = applier.part(&window, n).await;
                // The window is used again when all tasks have ended.
                drop(window);
                drop(end);
            };
            runtime.spawn("redo", Box::pin(task));
        }
        tasks
    }
    async fn part(&self, window: &Window, n: usize) -> Result<()> {
        for page in window.part(n, TASKS) {
            self.page(page).await?;
        }
        Ok(())
    }
    async fn page(&self, page: PageChanges<'_>) -> Result<()> {
        let mut groups = page.groups().peekable();
        loop {
            let Err(blocked) = self.try_page(page.id(), &mut groups) else { return Ok(()) };
            match blocked {
                WouldBlock::Page(id) => match self.pool.load(id).await {
                    // JUDGE-10
                    Err(e) if matches!(e, Error::Corrupt { .. }) || self.forced.is_on() => {
                        self.found.lock().bad.insert(id, e.to_string());
                        groups.next();
                    }
                    done => done?,
                },
                WouldBlock::Frame => self.pool.wait_frame().await,
                WouldBlock::Failed(e) => return Err(e),
                other => unreachable!("redo would block on {other:?}"),
            }
        }
    }
    /// Applies the groups of a page, from the first one that is left.
    fn try_page<'a>(
        &self,
        id: PageId,
        groups: &mut Peekable<impl Iterator<Item = Group<'a>>>,
    ) -> std::result::Result<(), WouldBlock> {
        let mut open: Option<PageGuard> = None;
        while let Some(group) = groups.peek() {
            let page = match &mut open {
                Some(page) => page,
                None => {
                    let fresh = group.is_fresh();
                    if !fresh && self.found.lock().bad.contains_key(&id) {
                        groups.next();
                        continue;
                    }
                    let Some(page) = self.open(group, fresh)? else { return Ok(()) };
                    self.found.lock().touched.insert(id);
                    open.insert(page)
                }
            };
            if page.lsn() < group.end {
                if group.follows(page.lsn()) {
                    group.apply(page.bytes_mut());
                    page.mark_dirty(group.start, group.end);
                } else if !self.forced.is_on() {
                    // The page fitted when the start was judged, so the file has changed since.
                    return Err(WouldBlock::Failed(Error::Damaged(format!(
                        "page {id} has LSN {}, and had another LSN when it was read first",
                        page.lsn()
                    ))));
                }
            }
            groups.next();
        }
        Ok(())
    }
    /// The page, or `None` if its file is missing.
    fn open(
        &self,
        group: &Group<'_>,
        fresh: bool,
    ) -> std::result::Result<Option<PageGuard>, WouldBlock> {
        let id = group.id;
        if self.found.lock().gone.contains(&id.space) {
            return Ok(None);
        }
        let Some(space) = self.spaces.find_whole(id.space)? else {
            self.found.lock().gone.insert(id.space);
            return Ok(None);
        };
        if id.no >= space.pages() {
            self.spaces.ensure(id.space, id.no)?;
        }
        if !fresh && self.torn.lock().contains_key(&id) {
            return self.rebuild(&space, group).map(Some);
        }
        if !fresh {
            return self.pool.fix(id, Latch::X).map(Some);
        }
        // The frame makes the page anew, unless the page is in memory with this and later changes
        // already.
        let touched = {
            let mut found = self.found.lock();
            found.bad.remove(&id);
            found.touched.contains(&id)
        };
        match self.pool.fix(id, Latch::X) {
            Err(WouldBlock::Page(_)) if !touched => self.read_or_create(id).map(Some),
            fixed => fixed.map(Some),
        }
    }
    /// Takes a torn page as judging has rebuilt it (TORN-2).
    fn rebuild(
        &self,
        space: &Space,
        first: &Group<'_>,
    ) -> std::result::Result<PageGuard, WouldBlock> {
        let id = first.id;
        let torn = torn::raw(space, id)?;
        let mut page = self.pool.create(id)?;
        let made = self.torn.lock().remove(&id).expect("REDO-4: no other task has it");
        page.bytes_mut().copy_from_slice(&made[..]);
        page.mark_dirty(first.start, header::lsn(&made));
        let (file, table) = crate::buf::PageIo::describe(&*self.spaces, id.space);
        let why = header::verify(&torn, id).err().map_or(String::new(), |bad| bad.to_string());
        let was_read = true;
        let repaired = Repaired { page: id, file, table, copy: None, was_read, why };
        self.found.lock().rebuilt.push(repaired);
        Ok(page)
    }
    /// Handles a page whose first change is INIT. The page on disk may have any content, also a
    /// later state, which redo must not undo; so the page is read if it is whole.
    fn read_or_create(&self, id: PageId) -> std::result::Result<PageGuard, WouldBlock> {
        let whole = || {
            let space = self.spaces.find_whole(id.space).ok()??;
            let mut buf = redolith_disk::AlignedBuf::new(crate::PAGE_SIZE);
            space.file.read_at(&mut buf, id.no as u64 * crate::PAGE_SIZE as u64).ok()?;
            let page: &[u8; crate::PAGE_SIZE] = (&buf[..]).try_into().expect("a page");
            crate::page::header::verify(page, id).ok()
        };
        if !self.unreadable.contains(&id) && whole().is_some() {
            return Err(WouldBlock::Page(id));
        }
        self.pool.create(id)
    }
}
