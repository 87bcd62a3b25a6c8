//! The ledger: what the test knows of rows that many clients change.
//!
//! A client that changes a row holds its lock to the end of the transaction. So all changes of one
//! row have one order, in which the clients enter them here. After a crash, some set of the
//! unanswered commits has survived. The ledger tries each such set.
use std::collections::{BTreeMap, HashMap};

/// A table's number and the row's id.
pub type Key = (usize, i64);
/// The number of a transaction that writes, counted through a run. [`BASE`] stands for the rows
/// that a start has found.
pub type Writer = u64;
const BASE: Writer = 0;

/// A row. No two written rows have the same token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    pub u: i64,
    pub k: i64,
    pub token: i64,
}
#[derive(Clone, Copy, Debug)]
struct Write {
    by: Writer,
    row: Option<Row>,
}
/// The state of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The transaction may still be rolled back. The engine may have done so already.
    Active,
    /// Its commit was called and has not returned.
    Committing,
    /// The commit returned, so other transactions see it, but it is not known to be durable.
    Committed,
    Answered,
    RolledBack,
}
#[derive(Clone, Copy)]
struct Written {
    key: Key,
    row: Row,
    by: Writer,
}

#[derive(Clone, Default)]
pub struct Ledger {
    writes: BTreeMap<Key, Vec<Write>>,
    writers: HashMap<Writer, State>,
    written: HashMap<i64, Written>,
    /// `greatest`: the greatest id that each writer wrote, by table. `answered_ids`: the greatest
    /// id of each table that an answered commit wrote.
    greatest: HashMap<(Writer, usize), i64>,
    answered_ids: BTreeMap<usize, i64>,
    last_writer: Writer,
    last_token: i64,
    last_id: i64,
}
pub type Rows = BTreeMap<Key, Row>;

impl Ledger {
    pub fn begin(&mut self) -> Writer {
        self.last_writer += 1;
        self.writers.insert(self.last_writer, State::Active);
        self.last_writer
    }
    pub fn new_token(&mut self) -> i64 {
        self.last_token += 1;
        self.last_token
    }
    /// An id that no row has had.
    pub fn new_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }
    fn state(&self, by: Writer) -> State {
        if by == BASE { State::Answered } else { self.writers[&by] }
    }
    /// Notes that a row is about to be written. A READ UNCOMMITTED reader may see it at once.
    pub fn announce(&mut self, by: Writer, key: Key, row: Row) {
        self.written.insert(row.token, Written { key, row, by });
    }
    /// Notes that `by`, which has the row's lock, has written this row, or has deleted it.
    pub fn wrote(&mut self, by: Writer, key: Key, row: Option<Row>) {
        self.writes.entry(key).or_default().push(Write { by, row });
        let greatest = self.greatest.entry((by, key.0)).or_insert(key.1);
        *greatest = key.1.max(*greatest);
    }
    /// Notes a rollback to a savepoint: of each row, only the first writes of `by` stay, as many as
    /// were `kept` when the savepoint was set.
    pub fn back_to(&mut self, by: Writer, kept: &BTreeMap<Key, usize>) {
        for (key, list) in &mut self.writes {
            let (mut seen, most) = (0, kept.get(key).copied().unwrap_or(0));
            list.retain(|w| {
                seen += (w.by == by) as usize;
                w.by != by || seen <= most
            });
        }
    }
    /// The number of writes of each row by this writer.
    pub fn counts(&self, by: Writer) -> BTreeMap<Key, usize> {
        let count = |list: &Vec<Write>| list.iter().filter(|w| w.by == by).count();
        self.writes.iter().map(|(key, list)| (*key, count(list))).filter(|(_, n)| *n > 0).collect()
    }
    pub fn rolled_back(&mut self, by: Writer) {
        self.back_to(by, &BTreeMap::new());
        self.writers.insert(by, State::RolledBack);
    }
    pub fn commits(&mut self, by: Writer) {
        self.writers.insert(by, State::Committing);
    }
    pub fn committed(&mut self, by: Writer) {
        self.writers.insert(by, State::Committed);
    }
    pub fn answered(&mut self, by: Writer) {
        self.writers.insert(by, State::Answered);
        for ((_, table), id) in self.greatest.iter().filter(|((w, _), _)| *w == by) {
            let most = self.answered_ids.entry(*table).or_insert(*id);
            *most = (*most).max(*id);
        }
    }
    /// The greatest id of a table's acknowledged rows, also of deleted ones.
    pub fn greatest_id(&self, table: usize) -> i64 {
        self.answered_ids.get(&table).copied().unwrap_or(0)
    }

    /// The states in which the holder of the row's lock may find the row. There are several if a
    /// commit on its way may have been taken back.
    pub fn possible(&self, me: Writer, key: Key) -> Vec<Option<Row>> {
        let mut found = Vec::new();
        for w in self.writes.get(&key).into_iter().flatten().rev() {
            match self.state(w.by) {
                // Two writers cannot both hold the lock: the engine has rolled this one back, and
                // its client does not know yet.
                State::Active if w.by != me => {}
                State::Committing if w.by != me => found.push(w.row),
                _ => {
                    found.push(w.row);
                    return found;
                }
            }
        }
        found.push(None);
        found
    }
    /// Checks whether another row of the table may have this value in the unique column. An error
    /// lists what is known of the rows that had it.
    pub fn may_have(&self, me: Writer, key: Key, u: i64) -> Result<(), String> {
        let mut had = Vec::new();
        for (k, list) in
            self.writes.range((key.0, i64::MIN)..=(key.0, i64::MAX)).filter(|(k, _)| **k != key)
        {
            if self.possible(me, *k).iter().flatten().any(|r| r.u == u) {
                return Ok(());
            }
            if list.iter().any(|w| w.row.is_some_and(|r| r.u == u)) {
                had.push(format!(
                    "{k:?}: {:?}",
                    list.iter().map(|w| (w.by, self.state(w.by), w.row)).collect::<Vec<_>>()
                ));
            }
        }
        Err(format!("writer {me}, row {key:?}; had it: {had:#?}"))
    }
    /// Whether no answered commit has left a row.
    pub fn is_empty(&self) -> bool {
        !self
            .writes
            .values()
            .flatten()
            .any(|w| w.row.is_some() && self.state(w.by) == State::Answered)
    }
    /// The ids of all rows of a table that the ledger has.
    pub fn ids(&self, table: usize) -> Vec<i64> {
        self.writes.range((table, i64::MIN)..=(table, i64::MAX)).map(|(key, _)| key.1).collect()
    }
    /// Checks a row that was read without a lock: some writer whose writes `me` may see has written
    /// it so.
    pub fn check_seen(&self, me: Writer, key: Key, row: Row, uncommitted: bool) {
        let Some(w) = self.written.get(&row.token) else {
            panic!("row {key:?} is {row:?}, which nobody wrote")
        };
        assert!(
            w.key == key && w.row == row,
            "row {key:?} is {row:?}, and was written as {:?} {:?}",
            w.key,
            w.row
        );
        let state = self.state(w.by);
        let committed = matches!(state, State::Committing | State::Committed | State::Answered);
        assert!(
            uncommitted || committed || w.by == me,
            "a dirty read: row {key:?} is {row:?}, by a transaction that is {state:?}"
        );
    }

    /// Checks the contents after a start: some set of the unanswered commits, together with all
    /// answered commits, must explain them. The contents become the new base.
    pub fn verify(&mut self, found: &Rows) -> Result<(), String> {
        let unsure: Vec<Writer> = self
            .writers
            .iter()
            .filter(|(_, s)| matches!(s, State::Committing | State::Committed))
            .map(|(w, _)| *w)
            .collect();
        assert!(unsure.len() <= 12, "each client has one commit on its way");
        let survivors = (0..1_u32 << unsure.len()).rev().map(|set| {
            let has = |by: Writer| {
                unsure.iter().position(|w| *w == by).is_some_and(|i| set >> i & 1 == 1)
            };
            self.left_by(has)
        });
        let mut nearest: Option<(usize, String)> = None;
        for left in survivors.flatten() {
            let differ = difference(&left, found);
            if differ.is_empty() {
                self.rebase(found);
                return Ok(());
            }
            if nearest.as_ref().is_none_or(|(n, _)| differ.len() < *n) {
                nearest = Some((differ.len(), differ.join("\n")));
            }
        }
        let (n, told) = nearest.unwrap_or_default();
        Err(format!(
            "shared rows: no set of the {} commits on their way explains what is there; the \
                nearest differs in {n}:\n{told}",
            unsure.len()
        ))
    }
    /// The rows that are left if the unanswered commits for which `has` is true survived. `None` if
    /// a survivor has built on a commit that did not survive.
    fn left_by(&self, has: impl Fn(Writer) -> bool) -> Option<Rows> {
        let mut left = Rows::new();
        for (key, list) in &self.writes {
            let mut missing = false;
            let mut last = None;
            for w in list {
                let there = match self.state(w.by) {
                    State::Answered => true,
                    State::Committing | State::Committed => has(w.by),
                    State::Active | State::RolledBack => continue,
                };
                match there {
                    true if missing => return None,
                    true => last = w.row,
                    // A commit that did not return may have been undone while the engine ran. A
                    // commit that returned is visible, so others build on it.
                    false => missing |= self.state(w.by) == State::Committed,
                }
            }
            if let Some(row) = last {
                left.insert(*key, row);
            }
        }
        Some(left)
    }
    fn rebase(&mut self, found: &Rows) {
        self.writers.clear();
        self.greatest.clear();
        self.writes = found
            .iter()
            .map(|(key, row)| (*key, vec![Write { by: BASE, row: Some(*row) }]))
            .collect();
        self.written = found
            .iter()
            .map(|(key, row)| (row.token, Written { key: *key, row: *row, by: BASE }))
            .collect();
    }
}

fn difference(expected: &Rows, found: &Rows) -> Vec<String> {
    let keys: std::collections::BTreeSet<&Key> = expected.keys().chain(found.keys()).collect();
    let differ = keys.into_iter().filter(|k| expected.get(k) != found.get(k));
    differ
        .map(|k| format!("{k:?}: expected {:?}, found {:?}", expected.get(k), found.get(k)))
        .collect()
}
