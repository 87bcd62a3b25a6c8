//! Judges a directory before a start changes anything in it: did the crash leave a consistent
//! state, or is some part damaged or older than the rest?
//!
//! JUDGE-1: judging writes nothing, whatever it finds.
//! JUDGE-2: the redo log is read to its end, and the end is judged (`log/recovery/tail.rs`)
//! together with all that is read here.
//! JUDGE-3: every page that the redo log changes, of any table, is in the state in which it was
//! changed (RECORD-1), and is not newer than the log. A torn page without a copy is left to redo,
//! which reports it, or rebuilds it where the redo log protects pages ([`super::torn`]).
//! JUDGE-4: every page in use of the dictionary and of the undo spaces, as redo is going to make
//! it, can be read and understood. Otherwise the start would fail half-way, or take unfinished
//! transactions for committed ones.
//! JUDGE-5: no file that the redo log changes, and no file of the engine itself, is older than the
//! register of files says (`space/register.rs`), and none is another space's file. Files of other
//! tables are checked when they are opened. A table's file whose header cannot be read gets no
//! stamp any more, and the checkpoint passes what redo did to the file. So the file is refused from
//! then on ([`Judged::headless`]): nobody puts older bytes back unnoticed.
//! JUDGE-6: judging never waits for a frame of the pool. No cleaner runs yet that would free one,
//! and the redo log may change more pages than the pool has frames. A page for which no frame is at
//! hand is read past the pool.
//! JUDGE-7: the file of a table that the redo log changes is there. Redo passes over the changes of
//! a file that is not, and a checkpoint makes that final: so the file may only be missing where the
//! administrator has given the table up (`tables/<number>.rdl.lost`), and it is refused if it ever
//! comes back. For a table that an unfinished transaction changes, the record before counts: that
//! file goes only after the transaction's end is durable. The transaction's own record proves
//! nothing, as a start may have begun to take it back: its file may be gone.
//!
//!
//! The pages of JUDGE-4 are built here, in memory of their own, from the files, the doublewrite
//! copies and the redo log. Of other pages only the LSN is tracked.
//!
//! JUDGE-9: not more undo pages are in memory at a time than [`Bounds`] allows. Those that come
//! later in the redo log are left. Where there are such, all are built in groups: the redo log is
//! read once more for each group ([`left`]).
mod dictionary;
mod left;
mod read;

use super::forced::Forced;
use super::records::RecordJudge;
use super::torn::TornPages;
use super::undo_scan::Image;
use super::window::{Group, PageChanges, Window};
use crate::buf::{BufferPool, Prefetch};
use crate::bytes::{u16_at, u64_at};
use crate::dict;
use crate::dict::record::Named;
use crate::flush::Copies;
use crate::log::FrameScanner;
use crate::mtr::record::init_page;
use crate::page::header::{self, Page};
use crate::page::kind;
use crate::space::{Space, Spaces, bitmap, register};
use crate::{Error, Lsn, PAGE_SIZE, PageId, PageNo, Result, SpaceId};
use hashbrown::{HashMap, HashSet};
pub(in crate::recovery) use left::Bounds;
pub(super) use read::read_page;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The findings in a directory that may be started.
#[derive(Default)]
pub(crate) struct Judged {
    pub undo: Image,
    /// Table spaces whose files were being made or dropped, according to the redo log.
    pub files: HashSet<SpaceId>,
    /// Pages of tables that the redo log changes, and that can be read neither from their file nor
    /// from the doublewrite file.
    pub unreadable: HashSet<PageId>,
    /// Torn pages, as redo has rebuilt them here (TORN-2).
    pub torn: HashMap<PageId, Box<Page>>,
    /// Spaces of tables that were given up (JUDGE-7).
    pub lost: Vec<(SpaceId, String)>,
    /// Spaces of tables that redo changes, and whose headers cannot be read.
    pub headless: Vec<(SpaceId, String)>,
    /// The LSNs that pages of tables have after the redo log; `None` for a page that cannot be
    /// read then.
    others: HashMap<PageId, Option<Lsn>>,
    /// Pages of the engine, and headers of tables' spaces, that are whole after the redo log.
    built: HashSet<PageId>,
    /// The dictionary's records that can be read.
    pub definitions: Vec<Named>,
    /// Damage that a forced start ignores.
    pub passed_over: Vec<String>,
}

impl Judged {
    /// Whether the redo log changes the page, and leaves it whole.
    pub(super) fn makes(&self, id: PageId) -> bool {
        self.others.get(&id).is_some_and(Option::is_some) || self.built.contains(&id)
    }
}

struct Judge<'a> {
    bounds: Bounds,
    /// How many undo pages the first reading of the redo log has built.
    built_undo: usize,
    /// The undo pages that it has left (JUDGE-9).
    left: HashSet<PageId>,
    /// Those of them that were whole after the redo log.
    remade: HashSet<PageId>,
    pool: &'a Arc<BufferPool>,
    spaces: &'a Spaces,
    copies: &'a Copies,
    /// Pages of the dictionary and of undo, as far as the redo log has been read, or the reason why
    /// a page cannot be read.
    system: HashMap<PageId, std::result::Result<Box<Page>, String>>,
    /// LSNs of other pages, as far as the redo log has been read; `None` for a page that cannot be
    /// read.
    others: HashMap<PageId, Option<Lsn>>,
    /// Reads of other pages that have begun.
    ahead: HashMap<PageId, Prefetch>,
    unreadable: HashSet<PageId>,
    torn: TornPages,
    /// Stamps of headers as they lie in the files.
    stamps: HashMap<SpaceId, u64>,
    /// Spaces in whose files the header of another space lies.
    exchanged: HashMap<SpaceId, SpaceId>,
    /// Spaces whose files are missing or cut off.
    gone: HashSet<SpaceId>,
    files: HashSet<SpaceId>,
    newest: Option<(Lsn, String)>,
    forced: Forced,
    passed_over: Vec<String>,
}

/// Reads and judges everything. `durable` is the LSN up to which, according to the register of
/// files, the redo log was durable. `records` gets the records for the commit stream.
pub(super) async fn judge(
    scanner: &mut FrameScanner,
    pool: &Arc<BufferPool>,
    spaces: &Spaces,
    copies: &Copies,
    durable: Option<Lsn>,
    records: Option<&mut RecordJudge<'_>>,
    bounds: Bounds,
    forced: Forced,
) -> Result<Judged> {
    let mut j = Judge::new(pool, spaces, copies, bounds, forced);
    j.newest = copies
        .newest()
        .map(|(lsn, id)| (lsn, format!("a copy of page {id} in the doublewrite file")));
    if let Some(durable) = durable {
        Judge::note(&mut j.newest, durable, || format!("the log, as {} says,", register::FILE));
    }
    let read = j.log(scanner, records).await;
    // Damage of the redo log explains damage of pages, so it is reported first. For that the log is
    // read to its end.
    while scanner.next()?.is_some() {}
    if read.is_err() {
        // The start is refused already.
        j.left.clear();
    }
    let read = read.and_then(|()| j.ages());
    let definitions = read.and_then(|()| j.dictionary());
    let undo = if forced.reads_undo() { j.undo(scanner) } else { Ok(Image::default()) };
    let lost = match (&definitions, &undo) {
        (Ok(definitions), Ok(undo)) => j.lost(definitions, undo),
        _ => Ok(Vec::new()),
    };
    match scanner.judge_end(j.newest.take()) {
        Err(Error::Damaged(why)) if forced.ends_log_at_damage() => j.passed_over.push(why),
        judged => judged?,
    }
    let definitions = definitions?.into_iter().map(|(_, named)| named).collect();
    let headless = j.headless();
    let mut built = j.remade;
    built.extend(j.system.iter().filter(|(_, page)| page.is_ok()).map(|(id, _)| *id));
    let torn = j.torn.into_pages().into_iter();
    let torn = torn.filter_map(|id| Some((id, j.system.remove(&id)?.ok()?))).collect();
    Ok(Judged {
        definitions,
        undo: undo?,
        lost: lost?,
        headless,
        torn,
        files: j.files,
        unreadable: j.unreadable,
        others: j.others,
        built,
        passed_over: j.passed_over,
    })
}

/// Judges the pages as they lie in the files, without the redo log, for a start that ignores all
/// damage.
pub(crate) fn judge_pages(
    pool: &Arc<BufferPool>,
    spaces: &Spaces,
    copies: &Copies,
    forced: Forced,
) -> Result<Judged> {
    let mut j = Judge::new(pool, spaces, copies, Bounds::of(pool), forced);
    let definitions = j.dictionary()?.into_iter().map(|(_, named)| named).collect();
    Ok(Judged { definitions, passed_over: j.passed_over, ..Judged::default() })
}

/// The level of `innodb_force_recovery` that does without pages of the space.
fn level_without(space: SpaceId) -> u8 {
    if SpaceId::UNDO.contains(&space) { 5 } else { 1 }
}
/// Whether the engine cannot start without the space's pages.
fn is_engines(space: SpaceId) -> bool {
    space < SpaceId::FIRST_TABLE
}

impl<'a> Judge<'a> {
    fn new(
        pool: &'a Arc<BufferPool>,
        spaces: &'a Spaces,
        copies: &'a Copies,
        bounds: Bounds,
        forced: Forced,
    ) -> Judge<'a> {
        Judge {
            bounds,
            built_undo: 0,
            left: HashSet::new(),
            remade: HashSet::new(),
            pool,
            spaces,
            copies,
            system: HashMap::new(),
            others: HashMap::new(),
            ahead: HashMap::new(),
            unreadable: HashSet::new(),
            torn: TornPages::new(spaces.redo_protects()),
            stamps: HashMap::new(),
            exchanged: HashMap::new(),
            // Where undo is not read, its pages are not built either.
            gone: SpaceId::UNDO.into_iter().filter(|_| !forced.reads_undo()).collect(),
            files: HashSet::new(),
            newest: None,
            forced,
            passed_over: Vec::new(),
        }
    }
    /// Goes through the redo log, and reads the pages of one window while it works on the window
    /// before.
    async fn log(
        &mut self,
        scanner: &mut FrameScanner,
        mut records: Option<&mut RecordJudge<'_>>,
    ) -> Result<()> {
        let (mut window, mut next) = (Window::default(), Window::default());
        window.fill(scanner)?;
        self.read_ahead(&window)?;
        while !window.is_empty() {
            next.fill(scanner)?;
            self.read_ahead(&next)?;
            self.window(&window).await?;
            records.iter_mut().for_each(|records| records.take(&window));
            std::mem::swap(&mut window, &mut next);
        }
        self.rebuilt();
        Ok(())
    }
    async fn window(&mut self, window: &Window) -> Result<()> {
        self.files.extend(window.files());
        for page in window.pages() {
            self.can_be(page.id())?;
            if self.is_left(page.id()) {
                continue;
            }
            if self.is_built(page.id()) {
                page.groups().try_for_each(|group| self.make(&group))?;
            } else {
                self.follow(page).await?;
            }
        }
        Ok(())
    }
    /// Fails for a page number that no file's page has.
    fn can_be(&self, id: PageId) -> Result<()> {
        if id.no < PageNo::MAX {
            return Ok(());
        }
        Err(Error::Damaged(format!(
            "the redo log has changes of page {id} of {}, and no file has such a page. Nothing has \
             been changed: restore a backup, or start with innodb_force_recovery=6 to read the \
             tables as their files have them",
            self.spaces.path(id.space).display()
        )))
    }
    /// Whether the page is built here. Of a table's space only the header is, for its stamp, and
    /// the torn pages.
    fn is_built(&self, id: PageId) -> bool {
        is_engines(id.space) || id.no == 0 || self.torn.has(id)
    }
    /// Starts to read the pages of a window that are not known yet.
    fn read_ahead(&mut self, window: &Window) -> Result<()> {
        for id in window.pages().map(|page| page.id()) {
            if !self.is_built(id)
                && !self.others.contains_key(&id)
                && !self.ahead.contains_key(&id)
                && !self.gone.contains(&id.space)
                && let Some(space) = self.space(id.space)?
                && id.no < space.pages()
                && let Some(read) = self.pool.prefetch(id)
            {
                self.ahead.insert(id, read);
            }
        }
        Ok(())
    }
    /// Handles damage: refuses the start, or notes the damage in a forced start.
    fn pass_over(&mut self, e: Error) -> Result<()> {
        match e {
            Error::Damaged(why) | Error::Incompatible(why) if self.forced.is_on() => {
                self.passed_over.push(why);
                Ok(())
            }
            e => Err(e),
        }
    }
    fn note(newest: &mut Option<(Lsn, String)>, lsn: Lsn, what: impl FnOnce() -> String) {
        if newest.as_ref().is_none_or(|n| n.0 < lsn) {
            *newest = Some((lsn, what()));
        }
    }
    /// The error for a page that violates RECORD-1.
    fn stale(&self, group: &Group<'_>, lsn: Lsn) -> Error {
        let end = group.end;
        let (file, table) = crate::buf::PageIo::describe(self.spaces, group.id.space);
        Error::Damaged(format!(
            "page {} of {file}{} has LSN {lsn}, but the next change of the page in the redo log, \
             which ends at LSN {end}, was made to another state of the page: the file is an older \
             copy, or the disk has lost a write. Nothing has been changed: restore the file or a \
             backup, or start with innodb_force_recovery=1 to read the tables{}",
            group.id,
            of_table(&table),
            give_up(group.id.space)
        ))
    }

    /// Makes a change in a page of the engine's own spaces, or in a table space's header.
    fn make(&mut self, group: &Group<'_>) -> Result<()> {
        if self.gone.contains(&group.id.space) {
            return Ok(());
        }
        let known = match self.system.remove(&group.id) {
            Some(known) => known,
            None => self.read(group.id, group.is_fresh())?,
        };
        let mut page = match known {
            Ok(page) => page,
            Err(_) if group.is_fresh() => {
                let mut page = Box::new([0; PAGE_SIZE]);
                init_page(&mut page, group.id);
                page
            }
            Err(why) => match self.torn_page(group)? {
                Some(page) => page,
                None => {
                    self.system.insert(group.id, Err(why));
                    return Ok(());
                }
            },
        };
        self.torn.passes(group);
        let lsn = header::lsn(&page);
        if lsn < group.end {
            if !group.follows(lsn) {
                let stale = self.stale(group, lsn);
                self.system.insert(group.id, Ok(page));
                return self.pass_over(stale);
            }
            group.apply(&mut page);
            header::set_lsn(&mut page, group.end);
        }
        self.system.insert(group.id, Ok(page));
        Ok(())
    }
    /// Checks TORN-3 for the torn pages, which redo has rebuilt here.
    fn rebuilt(&mut self) {
        for (id, why) in self.torn.judge(&self.system) {
            self.system.insert(id, Err(why));
            if !is_engines(id.space) && id.no != 0 {
                self.others.insert(id, None);
                self.unreadable.insert(id);
            }
        }
    }
    /// Opens the space. `None`, also for later changes, if its file is missing or cut off.
    fn space(&mut self, id: SpaceId) -> Result<Option<Arc<Space>>> {
        let space = self.spaces.find_whole(id)?;
        if space.is_none() {
            self.gone.insert(id);
        }
        Ok(space)
    }

    /// Tracks the LSN of a table's page through its changes.
    async fn follow(&mut self, page: PageChanges<'_>) -> Result<()> {
        let id = page.id();
        if self.gone.contains(&id.space) {
            return Ok(());
        }
        let mut known = match self.others.get(&id) {
            Some(known) => *known,
            None => {
                let Some(space) = self.space(id.space)? else { return Ok(()) };
                let is_remade = page.groups().next().is_some_and(|first| first.is_fresh());
                let lsn = match bitmap::is_bitmap(id.no) {
                    _ if id.no < space.pages() => self.lsn_of(id, is_remade).await?,
                    // Growth of the file makes bitmap pages without redo.
                    true => Some(Lsn(0)),
                    false => None,
                };
                if lsn.is_none()
                    && let Some(first) = page.groups().next()
                    && let Some(torn) = self.torn_page(&first)?
                {
                    self.system.insert(id, Ok(torn));
                    return page.groups().try_for_each(|group| self.make(&group));
                }
                match lsn {
                    Some(lsn) => Self::note(&mut self.newest, lsn, || {
                        format!("page {id} of {}{}", space.path.display(), of_table(&space.label()))
                    }),
                    None => _ = self.unreadable.insert(id),
                }
                lsn
            }
        };
        for group in page.groups() {
            known = match known {
                Some(lsn) if lsn >= group.end => known,
                Some(lsn) if !group.follows(lsn) => {
                    let stale = self.stale(&group, lsn);
                    self.pass_over(stale)?;
                    known
                }
                None if !group.is_fresh() => None,
                _ => Some(group.end),
            };
        }
        self.others.insert(id, known);
        Ok(())
    }
    /// Checks JUDGE-5.
    fn ages(&mut self) -> Result<()> {
        for space in self.spaces.all() {
            let id = PageId { space: space.id, no: 0 };
            if !self.system.contains_key(&id) {
                let read = self.read(id, false)?;
                self.system.insert(id, read);
            }
            if let Some(found) = self.exchanged.get(&space.id) {
                self.pass_over(Error::Damaged(format!(
                    "{}{} is the file of table space {}: files were exchanged or copied. Nothing \
                     has been changed: put the right file there or restore a backup, or start with \
                     innodb_force_recovery={} to read the tables{}",
                    space.path.display(),
                    of_table(&space.label()),
                    found.0,
                    level_without(space.id),
                    give_up(space.id)
                )))?;
                continue;
            }
            let page = match &self.system[&id] {
                Ok(page) => page,
                Err(why) if is_engines(space.id) && !self.gone.contains(&space.id) => {
                    let needed = self.needed(id, why);
                    self.pass_over(needed)?;
                    continue;
                }
                // The header says nothing about the age of a table's file. Its first use reports
                // it.
                Err(_) => continue,
            };
            // REGISTER-1. A header that redo has made from nothing is in no file yet.
            let stamp = if self.spaces.stamps_are_in_redo() {
                Some(Spaces::stamp_of(page))
            } else {
                self.stamps.get(&space.id).copied()
            };
            if let Some(Err(why)) = stamp.map(|stamp| self.spaces.check_stamp(space.id, stamp)) {
                self.pass_over(Error::Damaged(format!(
                    "{}{}: {why}. Nothing has been changed: restore the file or a backup, or start \
                     with innodb_force_recovery=1 to read the tables{}",
                    space.path.display(),
                    of_table(&space.label()),
                    give_up(space.id)
                )))?;
            }
        }
        Ok(())
    }
    /// The spaces of [`Judged::headless`], with the names of their files and tables.
    fn headless(&self) -> Vec<(SpaceId, String)> {
        let unreadable = |space: &Arc<Space>| {
            let header = self.system.get(&PageId { space: space.id, no: 0 });
            !is_engines(space.id) && header.is_some_and(|page| page.is_err())
        };
        let name =
            |space: &Arc<Space>| format!("{}{}", space.path.display(), of_table(&space.label()));
        self.spaces.all().iter().filter(|s| unreadable(s)).map(|s| (s.id, name(s))).collect()
    }
    /// Checks JUDGE-4 for the undo spaces, and reads them.
    fn undo(&mut self, scanner: &mut FrameScanner) -> Result<Image> {
        let mut undo = self.scan_undo(scanner)?;
        // Transaction numbers are given only below the mark.
        let mark =
            self.whole(dict::COUNTERS).map_or(u64::MAX, |page| u64_at(page, dict::HIGH_WATER));
        if undo.newest.0 >= mark {
            self.pass_over(Error::Damaged(format!(
                "the undo files have a log of transaction {}, but {} says that only transaction \
                 numbers below {mark} were given: that file is an older copy. Nothing has been \
                 changed: restore the file or a backup, or start with innodb_force_recovery=1 to \
                 read the tables",
                undo.newest.0,
                self.spaces.path(SpaceId::SYSTEM).display()
            )))?;
            // Short logs stay counted. Only purge would read them, and it does not run then.
            undo.logs.retain(|l| l.trx.0 < mark);
        }
        Ok(undo)
    }
    /// A page that the start needs. An unreadable page is an error.
    fn whole(&mut self, id: PageId) -> Result<&Page> {
        if !self.system.contains_key(&id) {
            let read = self.read(id, false)?;
            self.system.insert(id, read);
        }
        match &self.system[&id] {
            Ok(page) => Ok(page),
            Err(why) => Err(self.needed(id, why)),
        }
    }
    /// The same, for one look: undo files may have more pages than there is memory, and only those
    /// that the redo log changes are kept.
    fn passing(&mut self, id: PageId) -> Result<Page> {
        if self.system.contains_key(&id) {
            return self.whole(id).copied();
        }
        self.read(id, false)?.map(|page| *page).map_err(|why| self.needed(id, &why))
    }
    fn needed(&self, id: PageId, why: &str) -> Error {
        // TORN-4
        let torn = self.spaces.lost_register().map_or(String::new(), |lost| {
            format!(
                ". {0} {lost}: if the server ran with innodb_doublewrite=REDO, the page may be \
                 torn, and a start with the directory's own {0} rebuilds it from the redo log",
                register::FILE
            )
        });
        Error::Damaged(format!(
            "page {id} of {} cannot be read ({why}), and the server cannot start without that \
             page. Nothing has been changed: restore the file or a backup, or start with \
             innodb_force_recovery={} to read the tables{torn}",
            self.spaces.path(id.space).display(),
            level_without(id.space)
        ))
    }
    /// The pages of a space that are in use, except its bitmap pages.
    fn in_use(&mut self, space: SpaceId) -> Result<Vec<PageNo>> {
        let Some(s) = self.space(space)? else { return Ok(Vec::new()) };
        // The numbers that the redo log names may lie: only their own ranges are looked at.
        let changed = self.system.keys().chain(&self.left).filter(|id| id.space == space);
        let mut ranges: BTreeSet<PageNo> = changed.map(|id| id.no / bitmap::PAGES).collect();
        ranges.extend(0..s.pages().div_ceil(bitmap::PAGES));
        let mut used = Vec::new();
        for range in ranges {
            let first = range * bitmap::PAGES;
            let map = first + 1;
            let page = *self.whole(PageId { space, no: map })?;
            if u16_at(&page, 12) != kind::BITMAP {
                return Err(Error::Damaged(format!(
                    "page {space}:{map} is no bitmap page",
                    space = space.0
                )));
            }
            // Pages behind the file's end count too: a page in use was in the file when the
            // checkpoint passed it, or the redo log makes it.
            used.extend(
                (first..first.saturating_add(bitmap::PAGES))
                    .filter(|no| *no > 0 && !bitmap::is_bitmap(*no) && bitmap::is_used(&page, *no)),
            );
        }
        Ok(used)
    }
}

/// For messages: a further way out for a table's file.
pub(crate) fn give_up(space: SpaceId) -> String {
    match is_engines(space) {
        true => String::new(),
        false => {
            format!(", or rename the file to {}.rdl.lost to give up this table alone", space.0)
        }
    }
}
/// For messages: the table's name, if it is known.
fn of_table(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!(" ({label})") }
}

#[cfg(all(test, not(model)))]
mod tests;
