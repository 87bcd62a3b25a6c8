//! The rows that several indexes find, each of them once (PATH-8).
use super::env::Env;
use super::eval::Scope;
use super::key_bounds::{KeyRanges, ROWS_PER_SEARCH, encode_union_part};
use crate::error::Result;
use crate::memory::CREDIT;
use crate::plan::{TableAccess, UnionPart};
use std::collections::HashSet;

/// The rows of any table that are searched for, however few rows it has.
const FEW_ROWS: usize = 1024;

/// How far the scan of a union has come.
#[derive(Default)]
pub struct IndexUnion {
    /// The ranges of the parts that have not begun, the next one at the end, with the indexes'
    /// positions in the table's definition.
    waiting: Vec<(usize, KeyRanges)>,
    /// Ranges of parts that are over, whose memory the next ones use.
    over: Vec<KeyRanges>,
    /// The index of the part that is read.
    pub index: usize,
    /// The cursor reads this index.
    pub is_aimed: bool,
    /// The clustered keys of the rows that have come.
    seen: HashSet<Box<[u8]>>,
    bytes: usize,
    /// The rows that the parts have found, with those that the statement did not want.
    found: usize,
    /// What the statement's account knows of the keys.
    counted: usize,
    most: usize,
    stage: Stage,
}
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Parts,
    /// The rows are too many.
    Full,
    /// The whole table is read for the rest of them.
    Table,
}

/// About what a key takes in the set.
fn key_bytes(key: &[u8]) -> usize {
    key.len() + 2 * size_of::<Box<[u8]>>() + 16
}

impl IndexUnion {
    /// Begins the union anew, and puts the ranges of its first part into `first`.
    pub fn begin(
        &mut self,
        access: &TableAccess,
        parts: &[UnionPart],
        at: Scope<'_>,
        env: &mut Env<'_>,
        first: &mut KeyRanges,
    ) -> Result<()> {
        self.give_back(env);
        self.seen.clear();
        (self.bytes, self.found) = (0, 0);
        (self.stage, self.is_aimed) = (Stage::Parts, false);
        let worth = usize::try_from(access.table.rows() / ROWS_PER_SEARCH).unwrap_or(usize::MAX);
        self.most = worth.max(FEW_ROWS);
        for part in parts.iter().rev() {
            self.waiting.push((part.index, self.over.pop().unwrap_or_default()));
            let Some((_, ranges)) = self.waiting.last_mut() else { continue };
            encode_union_part(access, part, at, env, ranges)?;
            if ranges.scans_table() {
                // What a part has of the table, the union has.
                self.scan_table(first, env);
                return Ok(());
            }
        }
        self.next(first, env);
        Ok(())
    }
    /// Puts the ranges of the next part into `ranges`. Returns false if there is none.
    pub fn next(&mut self, ranges: &mut KeyRanges, env: &mut Env<'_>) -> bool {
        let Some((index, next)) = self.waiting.pop() else { return false };
        let mut over = std::mem::replace(ranges, next);
        over.give_back(env);
        self.over.push(over);
        (self.index, self.is_aimed) = (index, false);
        true
    }
    /// A part has found a row.
    pub fn count(&mut self) {
        self.found += 1;
        if self.found >= self.most && self.stage == Stage::Parts {
            self.stage = Stage::Full;
        }
    }
    /// Whether the current row has not come yet. It has come then, until [`IndexUnion::forget`].
    pub fn is_new(&mut self, key: &[u8], env: &mut Env<'_>) -> bool {
        if self.seen.contains(key) {
            return false;
        }
        if self.stage == Stage::Table {
            return true;
        }
        self.bytes += key_bytes(key);
        self.seen.insert(key.into());
        let is_charged = self.bytes < self.counted.max(CREDIT)
            || (!env.is_beyond(3, self.bytes) && {
                let now = self.bytes * 2;
                env.keep(&mut self.counted, now).is_ok()
            });
        if !is_charged {
            self.stage = Stage::Full;
        }
        true
    }
    /// The statement does not want the row.
    pub fn forget(&mut self, key: &[u8]) {
        if self.seen.remove(key) {
            self.bytes -= key_bytes(key);
        }
    }
    /// Replaces the parts by the whole table if the rows are too many. Returns true if they were.
    pub fn gives_up(&mut self, ranges: &mut KeyRanges, env: &mut Env<'_>) -> bool {
        let is_full = self.stage == Stage::Full;
        if is_full {
            self.scan_table(ranges, env);
        }
        is_full
    }
    fn scan_table(&mut self, ranges: &mut KeyRanges, env: &mut Env<'_>) {
        self.wait_no_more(env);
        ranges.scan_table();
        self.stage = Stage::Table;
    }
    /// The parts that have not begun are not read.
    fn wait_no_more(&mut self, env: &mut Env<'_>) {
        for (_, mut ranges) in self.waiting.drain(..) {
            ranges.give_back(env);
            self.over.push(ranges);
        }
    }
    /// The account is told that the union keeps nothing.
    pub fn give_back(&mut self, env: &mut Env<'_>) {
        self.wait_no_more(env);
        env.keeps_no_more(std::mem::take(&mut self.counted));
    }
}
