//! Values as bytes that are equal where the values are ([`EqualBy`]), and sets of such bytes, which
//! answer IN and EXISTS without a comparison with each row.
use super::ExecContext;
use super::env::Env;
use super::row_buffer::KeySet;
use super::select::RowTarget;
use crate::error::Result;
use crate::memory::Account;
use crate::plan::{EqualBy, HashProbe};
use hashbrown::HashSet;
use redolith_types::Value;
use redolith_types::convert::to_f64;
use redolith_types::key::encode_string;

/// What a value has become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    Key,
    Null,
    /// A value of another kind than the types promise: bytes cannot decide.
    Other,
}

/// Appends the key of a value.
pub fn push_key(value: &Value<'_>, by: EqualBy, out: &mut Vec<u8>) -> Pushed {
    let fixed = |n: u64, tag: u8, out: &mut Vec<u8>| {
        out.push(tag);
        out.extend_from_slice(&n.to_be_bytes());
        Pushed::Key
    };
    match (by, value) {
        (_, Value::Null) => Pushed::Null,
        // A NaN equals nothing.
        (EqualBy::Double, value) if value.is_nan() => Pushed::Null,
        (EqualBy::Int, Value::Int(n)) => fixed(*n as u64, (*n >= 0) as u8, out),
        (EqualBy::Int, Value::UInt(n)) => fixed(*n, 1, out),
        (EqualBy::Decimal, Value::Int(_) | Value::UInt(_) | Value::Decimal(_)) => {
            push_decimal(value, out);
            Pushed::Key
        }
        // An integer that is no double equals none (NUM-1).
        (EqualBy::Double, Value::Int(n)) if *n as f64 as i128 != i128::from(*n) => {
            fixed(*n as u64, if *n < 0 { 1 } else { 2 }, out)
        }
        (EqualBy::Double, Value::UInt(n)) if *n as f64 as i128 != i128::from(*n) => {
            fixed(*n, 2, out)
        }
        (
            EqualBy::Double,
            Value::Int(_) | Value::UInt(_) | Value::Decimal(_) | Value::Float(_) | Value::Double(_),
        ) => {
            // The addition turns -0 into 0.
            fixed((to_f64(value).value + 0.0).to_bits(), 0, out)
        }
        (EqualBy::String(collation), Value::Bytes(text)) => {
            encode_string(collation, text, out);
            Pushed::Key
        }
        (EqualBy::Date, Value::Date(d)) => fixed(d.packed().into(), 0, out),
        (EqualBy::DateTime, Value::DateTime(at)) => fixed(at.packed(), 0, out),
        (EqualBy::Time, Value::Time(t)) => fixed(t.us() as u64, 0, out),
        _ => Pushed::Other,
    }
}

/// Appends the digits of a number, without zeros that do not count, and an end.
fn push_decimal(value: &Value<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    value.write_text(None, out);
    if out[start..].contains(&b'.') {
        let zeros = out[start..].iter().rev().take_while(|b| **b == b'0').count();
        out.truncate(out.len() - zeros);
        if out.last() == Some(&b'.') {
            out.pop();
        }
    }
    if &out[start..] == b"-0" {
        out.remove(start);
    }
    out.push(b' ');
}

/// The bytes of a key that is a number or a moment.
const NUMBER: usize = 9;

/// Distinct byte strings. Short ones, such as a number, are kept in the table itself: then a search
/// looks at one place in memory.
#[derive(Default)]
pub struct ByteSet {
    short: HashSet<u128>,
    long: KeySet,
}
impl ByteSet {
    /// A short string as a number, with its length in the last byte.
    fn short(key: &[u8]) -> Option<u128> {
        const LAST: usize = size_of::<u128>() - 1;
        if key.len() > LAST {
            return None;
        }
        let mut bytes = [0; LAST + 1];
        match <&[u8; NUMBER]>::try_from(key) {
            // A copy of a known length needs no call.
            Ok(number) => bytes[..NUMBER].copy_from_slice(number),
            Err(_) => bytes[..key.len()].copy_from_slice(key),
        }
        bytes[LAST] = key.len() as u8;
        Some(u128::from_ne_bytes(bytes))
    }
    pub fn insert(&mut self, key: &[u8]) {
        match ByteSet::short(key) {
            Some(short) => drop(self.short.insert(short)),
            None => drop(self.long.insert(key)),
        }
    }
    pub fn contains(&self, key: &[u8]) -> bool {
        match ByteSet::short(key) {
            Some(short) => self.short.contains(&short),
            None => self.long.contains(key),
        }
    }
    pub fn memory(&self) -> usize {
        // Each place has a byte beside it.
        self.short.capacity() * (size_of::<u128>() + 1) * 8 / 7 + self.long.memory()
    }
}

/// The number of rows from which on a set pays.
const FEW: usize = 16;
/// The number of rows whose keys are made between two looks at the clock.
const STEPS_PER_ROW: usize = 4;

/// The values of an IN subquery.
pub struct Members {
    set: ByteSet,
    by: EqualBy,
    has_null: bool,
}
impl Members {
    /// None if there are few rows, or if bytes cannot decide. The set stays charged to the
    /// statement.
    pub fn of(
        rows: &[Box<[Value<'static>]>],
        by: EqualBy,
        env: &mut Env<'_>,
    ) -> Result<Option<Members>> {
        if rows.len() < FEW {
            return Ok(None);
        }
        let mut members = Members { set: ByteSet::default(), by, has_null: false };
        let (mut key, mut counted) = (Vec::new(), 0);
        for row in rows {
            env.steps(STEPS_PER_ROW)?;
            key.clear();
            match push_key(&row[0], by, &mut key) {
                Pushed::Key => {
                    members.set.insert(&key);
                    env.keep(&mut counted, members.memory())?;
                }
                Pushed::Null => members.has_null = true,
                Pushed::Other => {
                    env.keeps_no_more(counted);
                    return Ok(None);
                }
            }
        }
        Ok(Some(members))
    }
    pub fn memory(&self) -> usize {
        self.set.memory()
    }
    /// The outer None says that bytes cannot decide; the inner None is UNKNOWN.
    pub fn contains(&self, value: &Value<'_>, key: &mut Vec<u8>) -> Option<Option<bool>> {
        key.clear();
        match push_key(value, self.by, key) {
            Pushed::Key if self.set.contains(key) => Some(Some(true)),
            Pushed::Key | Pushed::Null if self.has_null => Some(None),
            Pushed::Key => Some(Some(false)),
            Pushed::Null => Some(None),
            Pushed::Other => None,
        }
    }
}

/// The rows of a [`HashProbe`].
pub struct ProbeTable {
    /// The keys that some row has.
    groups: ByteSet,
    /// For IN: the keys of rows with a NULL, and each key followed by a value.
    with_null: ByteSet,
    pairs: ByteSet,
}
impl ProbeTable {
    /// Whether a row has the key.
    pub fn has(&self, key: &[u8]) -> bool {
        self.groups.contains(key)
    }
    /// Whether a value is IN the rows with the first `key` bytes; the value follows them. None is
    /// UNKNOWN.
    pub fn has_pair(&self, pair: &[u8], key: usize, value: Pushed) -> Option<bool> {
        let key = &pair[..key];
        if !self.groups.contains(key) {
            return Some(false);
        }
        match value {
            Pushed::Key if self.pairs.contains(pair) => Some(true),
            Pushed::Key if !self.with_null.contains(key) => Some(false),
            _ => None,
        }
    }
}

/// Takes the rows of a [`HashProbe`] while they are made.
pub struct Building<'p> {
    probe: &'p HashProbe,
    table: ProbeTable,
    key: Vec<u8>,
    rows: u64,
    account: Account,
    /// Bytes cannot decide, or the table does not fit.
    pub failed: bool,
}
impl<'p> Building<'p> {
    /// `account` has room for the table alone.
    pub fn new(probe: &'p HashProbe, account: Account) -> Building<'p> {
        let table = ProbeTable {
            groups: ByteSet::default(),
            with_null: ByteSet::default(),
            pairs: ByteSet::default(),
        };
        Building { probe, table, key: Vec::new(), rows: 0, account, failed: false }
    }
    /// The table with the account that it is charged to; None if it cannot be used.
    pub fn finish(mut self) -> Option<(ProbeTable, Account)> {
        let memory = self.memory();
        let fits = !self.failed && self.account.set(memory).is_ok();
        fits.then_some((self.table, self.account))
    }
    fn memory(&self) -> usize {
        let ProbeTable { groups, with_null, pairs } = &self.table;
        groups.memory() + with_null.memory() + pairs.memory()
    }
    fn add(&mut self, values: &[Value<'_>]) {
        self.key.clear();
        for (value, (_, by)) in values.iter().zip(&self.probe.keys) {
            match push_key(value, *by, &mut self.key) {
                Pushed::Key => {}
                // NULL is equal to nothing.
                Pushed::Null => return,
                Pushed::Other => return self.failed = true,
            }
        }
        self.table.groups.insert(&self.key);
        let Some(by) = self.probe.value else { return };
        let key = self.key.len();
        match push_key(&values[self.probe.keys.len()], by, &mut self.key) {
            Pushed::Key => self.table.pairs.insert(&self.key),
            Pushed::Null => self.table.with_null.insert(&self.key[..key]),
            Pushed::Other => self.failed = true,
        }
    }
}
impl RowTarget for Building<'_> {
    fn row(&mut self, values: &[Value<'_>]) {
        if !self.failed {
            self.rows += 1;
            self.add(values);
        }
    }
    fn expect(&mut self, _: usize) {}
    /// The table is charged to an account of its own.
    fn held(&self) -> usize {
        0
    }
    fn wants_drain(&self) -> bool {
        self.rows.is_multiple_of(256)
    }
    async fn drain(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        let memory = self.memory();
        cx.env.keeps(memory);
        self.failed = self.failed || self.account.set(memory).is_err();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_types::{Collation, Decimal};

    fn key(value: Value<'_>, by: EqualBy) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(push_key(&value, by, &mut out), Pushed::Key, "{value:?}");
        out
    }

    #[test]
    fn equal_values_have_equal_keys() {
        let decimal = |text: &str| Value::Decimal(Decimal::parse(text.as_bytes()).unwrap());
        let by = EqualBy::Decimal;
        assert_eq!(key(decimal("1.50"), by), key(decimal("1.5"), by));
        assert_eq!(key(decimal("100.00"), by), key(Value::Int(100), by));
        assert_eq!(key(decimal("0.00"), by), key(Value::UInt(0), by));
        assert_ne!(key(decimal("10"), by), key(Value::Int(1), by));
        assert_ne!(key(decimal("-1"), by), key(Value::Int(1), by));
        let by = EqualBy::Int;
        assert_eq!(key(Value::Int(7), by), key(Value::UInt(7), by));
        assert_ne!(key(Value::Int(-1), by), key(Value::UInt(u64::MAX), by));
        let by = EqualBy::Double;
        assert_eq!(key(Value::Double(-0.0), by), key(Value::Int(0), by));
        let beyond = 1u64 << 53;
        assert_eq!(key(Value::Double(beyond as f64), by), key(Value::UInt(beyond), by));
        assert_ne!(key(Value::Double(beyond as f64), by), key(Value::UInt(beyond + 1), by));
        assert_eq!(key(Value::UInt(beyond + 1), by), key(Value::Int(beyond as i64 + 1), by));
        assert_ne!(key(Value::Int(i64::MAX), by), key(Value::Double(i64::MAX as f64), by));
        let by = EqualBy::String(Collation::Utf8mb4GeneralCi);
        assert_eq!(key(Value::text("abc"), by), key(Value::text("ABC  "), by));
        assert_ne!(key(Value::text("abc"), by), key(Value::text("abcd"), by));
    }

    #[test]
    fn other_values_are_not_decided_by_bytes() {
        for (value, by) in [
            (Value::text("1"), EqualBy::Int),
            (Value::Int(1), EqualBy::Date),
            (Value::Double(1.0), EqualBy::Decimal),
        ] {
            assert_eq!(push_key(&value, by, &mut Vec::new()), Pushed::Other);
        }
    }

    #[test]
    fn short_and_long_strings_are_found() {
        let mut set = ByteSet::default();
        let keys: Vec<Vec<u8>> = (0..40).map(|n| vec![0; n]).collect();
        keys.iter().step_by(2).for_each(|key| set.insert(key));
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(set.contains(key), n % 2 == 0, "{n}");
        }
        assert!(!set.contains(&[0, 1]) && !set.contains(&[1; 20]));
    }

    #[test]
    fn two_keys_do_not_run_together() {
        let pair = |a: &str, b: &str| {
            let by = EqualBy::String(Collation::Binary);
            [key(Value::text(a), by), key(Value::text(b), by)].concat()
        };
        assert_ne!(pair("a", "bc"), pair("ab", "c"));
    }
}
