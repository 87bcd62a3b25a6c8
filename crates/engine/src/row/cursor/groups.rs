//! Scans that want few rows of each group (CURSOR-4): MIN and MAX of groups, DISTINCT.
//!
//! Where all rows of a batch were of one group, and the caller has wanted one of them, the scan
//! goes to the next group with a search. So a search is paid for only where a group has more rows
//! than the least batch; small groups are read one after the other, by batches that grow. Where
//! searches lead from leaf to leaf, the least batch is [`LARGE`].
use super::{Cursor, Place, Read};
use crate::PageNo;
use crate::row::read_ahead::ReadAhead;
use redolith_types::KeyLayout;

pub(super) struct Groups {
    /// The number of key columns that are equal in a group.
    columns: usize,
    /// Whether the last row of each group is wanted, too.
    ends: bool,
    /// The group of the first key that the batch has met.
    first: Vec<u8>,
    /// The caller has wanted a row of the batch.
    wanted: bool,
    end: Option<End>,
    /// The rows of the first batch of a group.
    batch: usize,
    /// The leaf from which the last search has led away.
    left: Option<PageNo>,
    leaps: u64,
}
/// A group has at least so many rows if searches lead to other leaves.
const LARGE: usize = 2;
/// The end of a group is read, downwards. The scan then goes on behind the group.
struct End {
    /// The least key behind the group; None if there is none.
    behind: Option<Vec<u8>>,
    /// The low end of the scan's range.
    low: Vec<u8>,
}

impl Groups {
    pub(super) fn reset(&mut self) {
        self.first.clear();
        (self.wanted, self.end, self.left) = (false, None, None);
    }
}

impl Cursor {
    /// Rows with equal first `columns` of the key may be left out when one of them was wanted
    /// ([`Self::wanted`]); with `ends`, not the last of them. Called after `aim`. Reads that lock
    /// leave nothing out. `ends` is for scans upwards.
    pub fn leave_out_rows(&mut self, columns: usize, ends: bool) {
        debug_assert!(!(ends && self.reverse));
        let groups = || Groups {
            columns,
            ends,
            first: Vec::new(),
            wanted: false,
            end: None,
            batch: usize::MAX,
            left: None,
            leaps: 0,
        };
        self.groups = (self.read == Read::Consistent).then(groups);
    }
    /// The caller wants the row to which `next` went, and the group's other rows may be left out.
    #[inline]
    pub fn wanted(&mut self) {
        if let Some(groups) = &mut self.groups {
            groups.wanted = true;
        }
    }
    /// The number of searches for another group since the last call.
    pub fn take_leaps(&mut self) -> u64 {
        self.groups.as_mut().map_or(0, |groups| std::mem::take(&mut groups.leaps))
    }
    /// Whether the end of a group is read at present.
    pub(super) fn reads_end(&self) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.end.is_some())
    }
    /// Whether rows are read downwards at present.
    pub(super) fn goes_down(&self) -> bool {
        self.reverse || self.reads_end()
    }
    /// Notes the group of a key that the batch meets, if it is the batch's first.
    pub(super) fn see_group(&mut self, key: &[u8]) {
        let is_first = self.batch.rows.is_empty() && self.batch.entries.is_empty();
        if let Some(groups) = self.groups.as_mut().filter(|_| is_first) {
            let len = self.table.indexes[self.no].key.skip_columns(key, groups.columns);
            groups.first.clear();
            groups.first.extend_from_slice(&key[..len]);
        }
    }
    /// Goes behind the group of the batch, which is to be filled anew, or to the group's end.
    pub(super) fn leave_out(&mut self) {
        let Some(groups) = &mut self.groups else { return };
        let wanted = std::mem::take(&mut groups.wanted);
        // The end is read until a row was found, or all are seen.
        let is_read = self.batch.next > 0 || self.place == Place::Done;
        if let Some(End { behind, low }) = groups.end.take_if(|_| is_read) {
            self.low = low;
            return self.go_behind(behind);
        }
        if groups.end.is_some() {
            return;
        }
        let leaf = self.hint.map(|(leaf, ..)| leaf);
        if let Some(left) = groups.left.take() {
            // Where the group before was in the same leaf, groups may be too small for searches.
            groups.batch = if leaf == Some(left) { usize::MAX } else { LARGE };
        }
        if !wanted || self.place != Place::Beyond || !self.last.starts_with(&groups.first) {
            return;
        }
        groups.leaps += 1;
        groups.left = leaf;
        if self.reverse {
            // Before all keys of the group.
            self.last.clone_from(&groups.first);
            return self.leap(Place::Beyond);
        }
        let mut behind = groups.first.clone();
        let behind = KeyLayout::successor(&mut behind).then_some(behind);
        if !groups.ends {
            return self.go_behind(behind);
        }
        // The range may begin inside the group.
        let from = std::cmp::max(&groups.first, &self.low).clone();
        let low = std::mem::replace(&mut self.low, from);
        match behind.as_ref().filter(|behind| self.high.as_ref().is_none_or(|h| *behind < h)) {
            Some(behind) => {
                self.last.clone_from(behind);
                groups.end = Some(End { behind: Some(behind.clone()), low });
                self.leap(Place::Beyond);
            }
            // From the end of the range.
            None => {
                groups.end = Some(End { behind: None, low });
                self.leap(Place::Start);
            }
        }
    }
    fn go_behind(&mut self, behind: Option<Vec<u8>>) {
        match behind {
            Some(behind) => {
                self.last = behind;
                self.leap(Place::At);
            }
            None => self.leap(Place::Done),
        }
    }
    fn leap(&mut self, place: Place) {
        (self.place, self.hint) = (place, None);
        let batch = self.groups.as_ref().map_or(usize::MAX, |groups| match groups.end {
            Some(_) => 1,
            None => groups.batch,
        });
        self.batch_rows = self.first_batch.min(batch);
        self.ahead = ReadAhead::default();
    }
}
