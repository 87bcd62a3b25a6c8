//! The dictionary, as it is going to be after redo: every record of it can be understood (JUDGE-4),
//! and the files of its tables are there (JUDGE-7).
use super::super::undo_scan::Image;
use super::Judge;
use crate::bytes::u16_at;
use crate::dict::record::{self, Named};
use crate::dict::temporary::TEMPORARY_SCHEMA;
use crate::dict::{self, Dictionary, table::Table};
use crate::page::{index, kind};
use crate::row::{overflow, value};
use crate::undo::record::{Entry, RollPtr};
use crate::undo::{self, record as undo_record};
use crate::{Error, PageId, PageNo, Result, SpaceId, TrxId};
use hashbrown::HashSet;

impl Judge<'_> {
    /// Checks JUDGE-4 for the dictionary: every record can be understood, also the records of
    /// unfinished transactions.
    pub(super) fn dictionary(&mut self) -> Result<Vec<(TrxId, Named)>> {
        let table = record::dictionary_table(&Dictionary::default());
        let counters = self.whole(dict::COUNTERS).map(|page| u16_at(page, 12) == kind::SYSTEM);
        match counters {
            Ok(true) => {}
            Ok(false) => self.pass_over(Error::Damaged(format!(
                "page {} does not hold the counters",
                dict::COUNTERS
            )))?,
            Err(e) => self.pass_over(e)?,
        }
        let used = match self.in_use(SpaceId::SYSTEM) {
            Ok(used) => used,
            Err(e) => {
                self.pass_over(e)?;
                (2..self.spaces.get(SpaceId::SYSTEM).map_or(0, |s| s.pages())).collect()
            }
        };
        let mut found = Vec::new();
        for no in used {
            if let Err(e) = self.dictionary_page(no, &table, &mut found) {
                self.pass_over(e)?;
            }
        }
        Ok(found)
    }
    fn dictionary_page(
        &mut self,
        no: PageNo,
        table: &Table,
        found: &mut Vec<(TrxId, Named)>,
    ) -> Result<()> {
        let page = *self.whole(PageId { space: SpaceId::SYSTEM, no })?;
        if !index::is_index(&page) || index::index_id(&page) != dict::DICT_INDEX {
            return Ok(());
        }
        index::well_formed(&page)
            .map_err(|why| Error::Damaged(format!("page 0:{no}, of the dictionary: {why}")))?;
        if index::level(&page) > 0 {
            return Ok(());
        }
        for rec in index::records(&page).filter(|r| !index::is_marked(&page, *r)) {
            match self.dictionary_record(table, index::value(&page, rec)) {
                Ok(named) => found.push(named),
                Err(e) => self.pass_over(e)?,
            }
        }
        Ok(())
    }
    /// A record, with the transaction that wrote it.
    fn dictionary_record(&mut self, table: &Table, v: &[u8]) -> Result<(TrxId, Named)> {
        let checked = |row: &[u8]| match table.layout.is_well_formed(row) {
            true => Ok(()),
            false => Err(Error::Damaged("a record of the dictionary is malformed".into())),
        };
        let mut row = v.get(value::HEAD..).unwrap_or_default().to_vec();
        checked(&row)?;
        while let Some((column, first, len)) = { table.layout.externals(&row).next() } {
            let bytes = self.chain(first, len)?;
            let mut whole = Vec::new();
            table.layout.internalize(&row, column, &bytes, &mut whole);
            row = whole;
            checked(&row)?;
        }
        Ok((value::trx(v), record::parse(table, &row)?))
    }
    pub(super) fn chain(&mut self, first: PageNo, len: u64) -> Result<Vec<u8>> {
        if len > overflow::MAX_ROW {
            return Err(Error::Damaged(format!(
                "a record of the dictionary has a column of {len} bytes"
            )));
        }
        let (mut out, mut no) = (Vec::new(), first);
        let mut passed = HashSet::new();
        while no != 0 && (out.len() as u64) < len {
            if !passed.insert(no) {
                return Err(Error::Damaged(format!(
                    "a record of the dictionary, of {len} bytes, has pages from 0:{first} of {} on \
                     that come back to page 0:{no}",
                    self.spaces.path(SpaceId::SYSTEM).display()
                )));
            }
            let page = *self.whole(PageId { space: SpaceId::SYSTEM, no })?;
            match overflow::part(&page) {
                Some((bytes, next)) => {
                    out.extend_from_slice(bytes);
                    no = next;
                }
                None => break,
            }
        }
        if out.len() as u64 == len {
            return Ok(out);
        }
        Err(Error::Damaged(format!(
            "a record of the dictionary, of {len} bytes, has only {} in its pages from 0:{first} \
                on",
            out.len()
        )))
    }

    /// Checks JUDGE-7. Returns the spaces of tables that were given up, with their tables' names.
    pub(super) fn lost(
        &mut self,
        definitions: &[(TrxId, Named)],
        undo: &Image,
    ) -> Result<Vec<(SpaceId, String)>> {
        let mut lost = Vec::new();
        let active = undo.logs.iter().filter(|l| l.state == undo_record::ACTIVE).map(|l| l.trx);
        let unfinished: HashSet<TrxId> = active.collect();
        // An unfinished transaction, or the start that took it back, may have removed a file that
        // it made. A file of before can only go when the transaction has ended (TABLEFILE-1).
        let before = if self.gone.is_empty() { Vec::new() } else { self.taken_back(&unfinished) };
        let whole = definitions.iter().filter(|(trx, _)| !unfinished.contains(trx));
        for named in whole.map(|(_, named)| named).chain(&before) {
            let Named::Table(r) = named else { continue };
            let space = SpaceId(r.space);
            if !self.gone.contains(&space) || r.def.schema == TEMPORARY_SCHEMA {
                continue;
            }
            let (file, name) =
                (self.spaces.path(space), format!("{}.{}", r.def.schema, r.def.name));
            if self.spaces.was_given_up(space) {
                lost.push((space, name));
                continue;
            }
            self.pass_over(Error::Damaged(format!(
                "{} of table {name} is missing or cut short, and the redo log has changes that \
                 belong there. Nothing has been changed: restore the file or a backup, start with \
                 innodb_force_recovery=1 to read the other tables, or make an empty \
                 file {0}.lost to give up this table alone",
                file.display()
            )))?;
        }
        Ok(lost)
    }

    /// The records that the rollbacks of these transactions will bring back. A record of which this
    /// cannot be told is left out.
    fn taken_back(&mut self, unfinished: &HashSet<TrxId>) -> Vec<Named> {
        let table = record::dictionary_table(&Dictionary::default());
        let mut found = Vec::new();
        for no in self.in_use(SpaceId::SYSTEM).unwrap_or_default() {
            let Ok(page) = self.whole(PageId { space: SpaceId::SYSTEM, no }).copied() else {
                continue;
            };
            if !index::is_index(&page)
                || index::index_id(&page) != dict::DICT_INDEX
                || index::well_formed(&page).is_err()
                || index::level(&page) > 0
            {
                continue;
            }
            for rec in index::records(&page) {
                let newest = index::value(&page, rec);
                // A marked record may be damaged: only the others have been judged.
                if newest.len() >= value::HEAD
                    && unfinished.contains(&value::trx(newest))
                    && let Some(v) = self.before(index::key(&page, rec), newest)
                {
                    found.extend(self.dictionary_record(&table, &v));
                }
            }
        }
        found.into_iter().map(|(_, named)| named).collect()
    }
    /// The value of a row before the transaction that wrote `newest`. `None` if there was no such
    /// row then, or if the undo log does not tell.
    fn before(&mut self, row: &[u8], newest: &[u8]) -> Option<Vec<u8>> {
        let (writer, mut roll) = (value::trx(newest), value::roll(newest));
        let mut payload = newest.get(value::HEAD..)?.to_vec();
        let mut later = u32::MAX;
        loop {
            if roll.is_insert() || roll == RollPtr::NONE {
                return None;
            }
            let page = self.passing(undo::page_id(roll.page())).ok()?;
            let Some(Entry::Change { head, old, key, rest }) =
                undo_record::parse(&page[..], roll.at())
            else {
                return None;
            };
            // A chain that does not go back in time would have no end.
            if head.undo_no >= later || key != row || !rest.is_whole() {
                return None;
            }
            if !rest.restore(&mut payload) {
                return None;
            }
            if old.trx != writer {
                let deleted = old.flags & index::DELETE_MARK != 0;
                return (!deleted)
                    .then(|| [&value::head(old.trx, old.roll)[..], &payload].concat());
            }
            (later, roll) = (head.undo_no, old.roll);
        }
    }
}
