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
use crate::undo::record as undo_record;
use crate::{Error, PageId, PageNo, Result, SpaceId, TrxId};

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
    fn chain(&mut self, first: PageNo, len: u64) -> Result<Vec<u8>> {
        if len > overflow::MAX_ROW {
            return Err(Error::Damaged(format!(
                "a record of the dictionary has a column of {len} bytes"
            )));
        }
        let (mut out, mut no) = (Vec::new(), first);
        while no != 0 && (out.len() as u64) < len {
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
        for (trx, named) in definitions {
            let Named::Table(r) = named else { continue };
            let space = SpaceId(r.space);
            // An unfinished transaction, or the start that took it back, may have removed a file
            // that it made.
            let is_unfinished =
                || undo.logs.iter().any(|l| l.trx == *trx && l.state == undo_record::ACTIVE);
            if !self.gone.contains(&space) || r.def.schema == TEMPORARY_SCHEMA || is_unfinished() {
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
}
