//! Which columns of a table a row image has.
//!
//! In an event: bit `c % 8` of byte `c / 8` is set if column `c` is there. Bits behind the last
//! column are clear.
use crate::table::Table;
use smallvec::{SmallVec, smallvec};

/// A set of a table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSet {
    /// Most tables have at most 128 columns: a statement allocates nothing for its sets.
    bits: SmallVec<[u8; 16]>,
    columns: usize,
}

impl ColumnSet {
    /// No column of a table with `columns` columns.
    pub fn none(columns: usize) -> ColumnSet {
        ColumnSet { bits: smallvec![0; columns.div_ceil(8)], columns }
    }

    /// All columns.
    pub fn all(columns: usize) -> ColumnSet {
        let mut set = ColumnSet { bits: smallvec![0xff; columns.div_ceil(8)], columns };
        set.clear_behind();
        set
    }

    /// The columns of an event's bytes, which are `columns.div_ceil(8)`.
    pub(crate) fn from_bytes(bytes: &[u8], columns: usize) -> ColumnSet {
        let mut set = ColumnSet { bits: SmallVec::from_slice(bytes), columns };
        set.clear_behind();
        set
    }

    fn clear_behind(&mut self) {
        if let (Some(last), odd @ 1..) = (self.bits.last_mut(), self.columns % 8) {
            *last &= (1 << odd) - 1;
        }
    }

    /// Adds a column of the table.
    pub fn insert(&mut self, column: usize) {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        self.bits[column / 8] |= 1 << (column % 8);
    }

    /// Whether the column is in the set.
    pub fn contains(&self, column: usize) -> bool {
        self.bits.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 == 1)
    }

    /// The columns in the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.columns).filter(|column| self.contains(*column))
    }

    /// The number of columns in the set.
    pub fn len(&self) -> usize {
        self.bits.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Whether no column is in the set.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|byte| *byte == 0)
    }

    /// The number of columns of the table.
    pub fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bits
    }
}

/// `binlog_row_image`: how much of a changed row is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RowImage {
    /// All columns.
    #[default]
    Full,
    /// Of the row before, the columns that find it; of the row after, what has changed.
    Minimal,
    /// All columns but BLOB and TEXT columns that neither find the row nor have changed.
    Noblob,
}

impl RowImage {
    /// The columns of the image before a change, by which a replica finds the row.
    pub fn before(self, table: &Table) -> ColumnSet {
        match (self, &table.key) {
            // Without a key, only the whole row finds the row.
            (RowImage::Full, _) | (_, None) => ColumnSet::all(table.columns.len()),
            (RowImage::Minimal, Some(key)) => {
                let mut set = ColumnSet::none(table.columns.len());
                key.iter().for_each(|part| set.insert(part.column));
                set
            }
            (RowImage::Noblob, Some(_)) => table.without_blobs(),
        }
    }

    /// The columns of the image after a change. `changed`: the columns that an UPDATE has assigned,
    /// or that an INSERT has given.
    pub fn after(self, table: &Table, changed: &ColumnSet) -> ColumnSet {
        match self {
            RowImage::Full => ColumnSet::all(table.columns.len()),
            RowImage::Minimal => changed.clone(),
            RowImage::Noblob => {
                let mut set = table.without_blobs();
                changed.iter().for_each(|column| set.insert(column));
                set
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_know_their_columns() {
        for columns in [0, 1, 7, 8, 9, 64] {
            let all = ColumnSet::all(columns);
            assert_eq!((all.len(), all.iter().count()), (columns, columns));
            assert_eq!(ColumnSet::from_bytes(&vec![0xff; columns.div_ceil(8)], columns), all);
            assert!(ColumnSet::none(columns).is_empty() && !all.contains(columns));
        }
        let mut set = ColumnSet::none(10);
        set.insert(9);
        assert_eq!((set.as_bytes(), set.iter().collect::<Vec<_>>()), (&[0, 2][..], vec![9]));
    }
}
