//! Which entries of secondary indexes the older versions of a row still need: the question that a
//! rollback asks for each entry of a version that it takes back.
//!
//! A transaction may have changed an indexed column of one row any number of times. If each of its
//! versions were compared with all versions before it, the rollback would take as many steps as the
//! square of their number. So one walk through the versions answers for many of them.
//!
//! - OLDER-1: an answer has what it depends on: how many older versions of the transaction itself
//!   have the entry, a number that falls with each version that is put back; and which transaction
//!   has replaced the newest version of others that has it. That version is needed until every view
//!   sees this transaction. So the answer holds while the horizon moves.
//! - OLDER-2: a walk reads so many versions and then lets others run. The transaction that rolls
//!   back wrote the newest version, so nobody changes the chain meanwhile; each version is read
//!   under the horizon, before purge may take its undo record.
//! - OLDER-3: the answers of a transaction are bounded in number. A walk answers for the versions
//!   that are taken back next: for twice as many as the walk before, up to the bound.
use super::version::Version;
use crate::dict::table::Table;
use crate::mtr::Store;
use crate::trx::view::ReadView;
use crate::undo::record::RollPtr;
use crate::{TrxId, Try};
use hashbrown::HashMap;
use parking_lot::RwLock;
use std::hash::{BuildHasher, RandomState};

/// The versions for which the first walk through a row answers.
const FIRST: usize = 128;
/// The most answers for a row, and for all other rows together (OLDER-3): about 3 MiB each.
const MOST: usize = 64 << 10;
/// So many entries of versions are made before others run (OLDER-2).
const ENTRIES_AT_ONCE: usize = 512;

/// What an older version of the row needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// No older version has the entry.
    None,
    /// A version of the same transaction has it.
    Own,
    /// A version that this transaction has replaced has it. Purge removes the entry when every view
    /// sees the transaction.
    Until(TrxId),
}

#[derive(Clone, Copy, Default)]
struct Answer {
    /// How many older versions of the transaction have the entry.
    own: u32,
    /// What has replaced the newest version of other transactions that has it (OLDER-1).
    replaced_by: Option<TrxId>,
}

/// The answers for one row.
#[derive(Default)]
struct Row {
    /// The newest version, for which and for `left` versions behind it there are answers.
    newest: RollPtr,
    left: usize,
    /// The versions for which the walk was to answer.
    asked: usize,
    /// The version at which the walk is.
    walk: Version,
    /// Whether the walk has come to its end.
    walked: bool,
    /// The answers, by a hash of the index and the entry. Entries of one hash share an answer: one
    /// of them may then stay, marked, although nobody needs it, once in 2^64.
    answers: HashMap<u64, Answer>,
    /// The answers in which no version of other transactions counts yet.
    open: usize,
}

impl Row {
    /// The memory of the row, in answers.
    fn weight(&self, key: &[u8]) -> usize {
        self.answers.len() + 8 + key.len() / 32
    }
}

/// The answers for the rows of a rollback.
#[derive(Default)]
pub(crate) struct Older {
    /// The row that is taken back at present, by its table and its clustered key.
    table: u64,
    key: Vec<u8>,
    now: Row,
    /// The other rows with answers, for changes that go through several rows again and again.
    others: HashMap<(u64, Vec<u8>), Row>,
    /// The weight of the other rows.
    kept: usize,
    hasher: RandomState,
    entry: Vec<u8>,
    /// The versions that walks have read.
    pub(crate) read: u64,
}

impl Older {
    /// Finds answers for the row's newest version, which transaction `trx` wrote. Returns false if
    /// others are to run before the next call goes on (OLDER-2).
    pub(crate) fn find(
        &mut self,
        store: &Store,
        horizon: &RwLock<ReadView>,
        table: &Table,
        trx: TrxId,
        key: &[u8],
        newest: &Version,
    ) -> Try<bool> {
        self.turn_to(table.id, key);
        if self.now.newest != newest.roll {
            self.begin(table, newest);
        }
        if self.now.walked {
            return Ok(true);
        }
        // The chain ends, for views, where the horizon is now.
        let horizon = horizon.read();
        let mut made = 0;
        while made < ENTRIES_AT_ONCE {
            let newer = self.now.walk.trx;
            if newer != trx && (horizon.sees(newer) || self.now.open == 0)
                || !self.now.walk.step(store)?
            {
                self.now.walked = true;
                self.now.walk = Version::default();
                return Ok(true);
            }
            self.read += 1;
            made += table.indexes.len();
            self.count(table, trx, newer);
        }
        Ok(false)
    }
    /// Whether an older version than the newest one needs this entry of it. `find` has found the
    /// answer.
    pub(crate) fn need(&self, no: usize, entry: &[u8], horizon: &ReadView) -> Need {
        let answer = self.now.answers.get(&self.hash(no, entry)).copied().unwrap_or_default();
        match answer.replaced_by {
            _ if answer.own > 0 => Need::Own,
            Some(by) if !horizon.sees(by) => Need::Until(by),
            _ => Need::None,
        }
    }
    /// The newest version, which undo record `gone` undoes, has gone, and `old` is the newest one.
    pub(crate) fn went_back(
        &mut self,
        table: &Table,
        trx: TrxId,
        key: &[u8],
        gone: RollPtr,
        old: &Version,
    ) {
        self.turn_to(table.id, key);
        if self.now.newest != gone || !self.now.walked {
            return;
        }
        if old.trx != trx || self.now.left == 0 {
            let asked = self.now.asked;
            self.now = Row { asked, ..Row::default() };
            return;
        }
        self.now.left -= 1;
        self.now.newest = old.roll;
        self.each_entry(table, old.marked, &old.payload, |row, hash| {
            if let Some(answer) = row.answers.get_mut(&hash) {
                answer.own = answer.own.saturating_sub(1);
            }
        });
    }

    fn hash(&self, no: usize, entry: &[u8]) -> u64 {
        self.hasher.hash_one((no, entry))
    }
    /// Calls `each` with the hashes of a version's entries. A version that is deleted has none.
    fn each_entry(
        &mut self,
        table: &Table,
        marked: bool,
        payload: &[u8],
        mut each: impl FnMut(&mut Row, u64),
    ) {
        if marked {
            return;
        }
        for (no, ix) in table.secondary() {
            // If a column of the key lies outside of the row, the version is older than the index.
            if ix.key.external_column(&table.layout, payload).is_none() {
                table.entry_key(no, payload, &self.key, &mut self.entry);
                let hash = self.hasher.hash_one((no, &self.entry[..]));
                each(&mut self.now, hash);
            }
        }
    }
    /// Turns to a row, and keeps the answers for the row before it.
    fn turn_to(&mut self, table: u64, key: &[u8]) {
        if self.table == table && self.key == key {
            return;
        }
        let before = std::mem::take(&mut self.now);
        if before.walked && before.left > 0 {
            self.kept += before.weight(&self.key);
            self.others.insert((self.table, std::mem::take(&mut self.key)), before);
        }
        self.table = table;
        self.key.clear();
        self.key.extend_from_slice(key);
        if self.others.is_empty() {
            return;
        }
        if let Some(row) = self.others.remove(&(table, key.to_vec())) {
            self.kept -= row.weight(key);
            self.now = row;
        }
        if self.kept > MOST {
            (self.others, self.kept) = (HashMap::new(), 0);
        }
    }
    /// Begins a walk at the row's newest version.
    fn begin(&mut self, table: &Table, newest: &Version) {
        let most = MOST / table.indexes.len();
        let asked = (2 * self.now.asked).clamp(FIRST.min(most), most);
        let mut answers = std::mem::take(&mut self.now.answers);
        answers.clear();
        self.now = Row { newest: newest.roll, asked, answers, ..Row::default() };
        self.now.walk.copy(newest);
        self.each_entry(table, newest.marked, &newest.payload, |row, hash| {
            row.answers.insert(hash, Answer::default());
            row.open += 1;
        });
    }
    /// Counts the version at which the walk is. `newer` has replaced it.
    fn count(&mut self, table: &Table, trx: TrxId, newer: TrxId) {
        let walk = std::mem::take(&mut self.now.walk);
        let own = walk.trx == trx;
        let asks = own && self.now.left < self.now.asked;
        self.now.left += usize::from(asks);
        self.each_entry(table, walk.marked, &walk.payload, |row, hash| {
            let answer = if asks {
                row.answers.entry(hash).or_insert_with(|| {
                    row.open += 1;
                    Answer::default()
                })
            } else {
                match row.answers.get_mut(&hash) {
                    Some(answer) => answer,
                    None => return,
                }
            };
            if own {
                answer.own += 1;
            } else if answer.replaced_by.is_none() {
                answer.replaced_by = Some(newer);
                row.open -= 1;
            }
        });
        self.now.walk = walk;
    }
}
