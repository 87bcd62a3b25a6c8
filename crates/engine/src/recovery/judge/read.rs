//! Reading the pages that are judged: from their files, or else from their doublewrite copies.
//!
//! JUDGE-10: a page that the disk cannot read (EIO) counts as damaged where the start can do
//! without its bytes: its copy takes its place, or redo makes it from nothing, or the start is
//! forced. Otherwise the start is refused, since a later read may succeed, and the page would then
//! lack its changes.
use super::super::window::Group;
use super::{Judge, give_up, level_without};
use crate::buf::{Latch, Prefetch};
use crate::page::header::{self, Bad, Page};
use crate::space::{READS, Space, Spaces, bitmap};
use crate::{Error, Lsn, PAGE_SIZE, PageId, Result, WouldBlock};
use redolith_disk::AlignedBuf;

impl Judge<'_> {
    /// Reads a page from its file, or else its doublewrite copy. The inner error says why neither
    /// can be read. `is_remade` says that redo makes the page from nothing (JUDGE-10).
    pub(super) fn read(
        &mut self,
        id: PageId,
        is_remade: bool,
    ) -> Result<std::result::Result<Box<Page>, String>> {
        let Some(space) = self.space(id.space)? else {
            return Ok(Err("its file is missing".into()));
        };
        let (mut buf, mut was_read) = (AlignedBuf::new(PAGE_SIZE), true);
        let why = match read_page(&space, id, &mut buf) {
            Ok(verified) => {
                if let Err(Bad::Misplaced(found)) = verified
                    && (id.no, found.no) == (0, 0)
                {
                    self.exchanged.insert(id.space, found.space);
                }
                verified.err().map(|bad| bad.to_string())
            }
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof && bitmap::is_bitmap(id.no) => {
                // The file's growth was lost. Growing again makes the bitmap that the page had.
                return Ok(Ok(space.fresh_bitmap(id.no)));
            }
            // A copy is no help: repair leaves such a page to redo, which has to make it.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Ok(Err("it is past the end of the file".into()));
            }
            // JUDGE-10
            Err(e) if is_remade || self.forced.is_on() || self.copies.has(id) => {
                was_read = false;
                Some(format!("the disk cannot read it: {e}"))
            }
            Err(e) => {
                let advice = format!(
                    "Nothing has been changed: restore the file or a backup, or start with \
                     innodb_force_recovery={} to read the tables{}",
                    level_without(id.space),
                    give_up(id.space)
                );
                let what = format_args!("reading page {id} of {}", space.path.display());
                return Err(Error::io_advised(what, &e, &advice));
            }
        };
        let in_file = why.is_none();
        if let Some(why) = why
            && !self.copies.get(id, &mut buf)?
        {
            let lacks = |e| Error::io(format_args!("reading {}", space.path.display()), &e);
            let is_zeros = was_read && buf.iter().all(|b| *b == 0);
            return Ok(match is_zeros && space.may_lack_bitmap(id.no).map_err(lacks)? {
                true => Ok(space.fresh_bitmap(id.no)),
                false => Err(why),
            });
        }
        let page: Box<Page> = Box::new(*buf.first_chunk().expect("a page"));
        // REGISTER-1. A copy may be older than the header that it replaces.
        if id.no == 0 && in_file {
            self.stamps.insert(id.space, Spaces::stamp_of(&page));
        }
        Self::note(&mut self.newest, header::lsn(&page), || {
            format!("page {id} of {}", space.path.display())
        });
        Ok(Ok(page))
    }
    /// The page as its file has it, if a crash has torn it and redo can rebuild it from its first
    /// changes in the redo log on, which are `first`.
    pub(super) fn torn_page(&mut self, first: &Group<'_>) -> Result<Option<Box<Page>>> {
        let Some(space) = self.space(first.id.space)? else { return Ok(None) };
        let (page, lsn) = match self.torn.read(&space, first) {
            Ok(Some(torn)) => torn,
            Ok(None) => return Ok(None),
            // JUDGE-10
            Err(Error::Io { .. }) if self.forced.is_on() => return Ok(None),
            Err(e) => return Err(e),
        };
        Self::note(&mut self.newest, lsn, || {
            format!("torn page {} of {}", first.id, space.path.display())
        });
        Ok(Some(page))
    }
    /// The LSN of a table's page or of its copy; `None` if neither can be read. A readable page
    /// stays in the pool for redo if there is room (JUDGE-6). `is_remade` is as for `read`.
    pub(super) async fn lsn_of(&mut self, id: PageId, is_remade: bool) -> Result<Option<Lsn>> {
        if let Some(read) = self.ahead.remove(&id)
            && let Some(lsn) = self.lsn_in_pool(id, read).await?
        {
            return Ok(Some(lsn));
        }
        // The page may have lost its frame to another one meanwhile.
        match self.pool.fix(id, Latch::S) {
            Ok(page) => return Ok(Some(page.lsn())),
            Err(WouldBlock::Failed(e)) => return Err(e),
            Err(_) => {}
        }
        if let Some(read) = self.pool.prefetch(id)
            && let Some(lsn) = self.lsn_in_pool(id, read).await?
        {
            return Ok(Some(lsn));
        }
        Ok(self.read(id, is_remade)?.ok().map(|page| header::lsn(&page)))
    }
    /// The LSN of a page when its read into the pool has ended; `None` if the pool does not have
    /// the page then, because it cannot be read or has lost its frame.
    async fn lsn_in_pool(&mut self, id: PageId, read: Prefetch) -> Result<Option<Lsn>> {
        match read.await {
            // The read past the pool says what to do (JUDGE-10).
            Err(Error::Corrupt { .. } | Error::Io { .. }) => return Ok(None),
            read => read?,
        }
        match self.pool.fix(id, Latch::S) {
            Ok(page) => Ok(Some(page.lsn())),
            Err(WouldBlock::Failed(e)) => Err(e),
            Err(_) => Ok(None),
        }
    }
}

/// Reads a page, several times before it counts as damaged, because it may be spoiled on its way.
/// Zeros, which a page has that was never written, count when they are read twice: a bit that flips
/// on its way makes no zeros.
pub(in crate::recovery) fn read_page(
    space: &Space,
    id: PageId,
    buf: &mut AlignedBuf,
) -> std::io::Result<std::result::Result<(), Bad>> {
    let mut verified = Ok(());
    for _ in 0..READS {
        space.file.read_at(buf, id.no as u64 * PAGE_SIZE as u64)?;
        let before = std::mem::replace(
            &mut verified,
            header::verify(buf.first_chunk().expect("a page"), id),
        );
        if matches!((&before, &verified), (_, Ok(())) | (Err(Bad::Zero), Err(Bad::Zero))) {
            break;
        }
    }
    Ok(verified)
}
