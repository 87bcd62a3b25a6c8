//! Names of transactions, and sets of them.
//!
//! A GTID is the UUID of the server on which the transaction was first committed and a number from
//! 1. A set keeps a list of intervals for each UUID.
//!
//! GTID-1: the intervals of a list are sorted, and neither touch nor overlap. So equal sets have
//! equal intervals and equal text.
mod mariadb;
mod text;

use crate::DecodeError;
use crate::bytes::{Input, put_u64};
use std::collections::BTreeMap;

pub use mariadb::MariadbGtid;
pub use text::GtidParseError;

/// The greatest number of a GTID. (MySQL, `GNO_END - 1`)
pub const MAX_NUMBER: u64 = i64::MAX as u64 - 1;

/// A server's UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// The name of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    /// The server on which the transaction was first committed.
    pub uuid: Uuid,
    /// The transaction's number there, from 1 to [`MAX_NUMBER`].
    pub number: u64,
}

/// Numbers from the first to before the second.
type Interval = (u64, u64);

/// A set of GTIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GtidSet {
    /// GTID-1 holds for each list, and no list is empty.
    servers: BTreeMap<Uuid, Vec<Interval>>,
}

impl GtidSet {
    /// The empty set.
    pub fn new() -> GtidSet {
        GtidSet::default()
    }

    /// Whether the set has no GTID.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The number of GTIDs.
    pub fn len(&self) -> u64 {
        let intervals = self.servers.values().flatten();
        intervals.fold(0, |sum: u64, (start, end)| sum.saturating_add(end - start))
    }

    /// The intervals of each UUID: the first number, and the number behind the last.
    pub fn servers(&self) -> impl Iterator<Item = (Uuid, &[(u64, u64)])> {
        self.servers.iter().map(|(uuid, intervals)| (*uuid, &intervals[..]))
    }

    /// Whether the set has this GTID.
    pub fn contains(&self, gtid: Gtid) -> bool {
        self.servers.get(&gtid.uuid).is_some_and(|intervals| {
            let behind = intervals.partition_point(|(start, _)| *start <= gtid.number);
            behind > 0 && gtid.number < intervals[behind - 1].1
        })
    }

    /// Adds one GTID. Adding the numbers of a server in order takes constant time.
    pub fn add(&mut self, gtid: Gtid) {
        self.add_interval(gtid.uuid, gtid.number, gtid.number + 1);
    }

    /// Adds the GTIDs `start..end` of a server. Numbers outside 1..=[`MAX_NUMBER`] are not added.
    pub fn add_interval(&mut self, uuid: Uuid, start: u64, end: u64) {
        let (mut start, mut end) = (start.max(1), end.min(MAX_NUMBER + 1));
        if start >= end {
            return;
        }
        let intervals = self.servers.entry(uuid).or_default();
        // The intervals that touch or overlap the new one become one with it.
        let first = intervals.partition_point(|(_, e)| *e < start);
        let behind = intervals.partition_point(|(s, _)| *s <= end);
        if first < behind {
            start = start.min(intervals[first].0);
            end = end.max(intervals[behind - 1].1);
        }
        intervals.splice(first..behind, [(start, end)]);
    }

    /// Adds all GTIDs of another set.
    pub fn union(&mut self, other: &GtidSet) {
        for (uuid, intervals) in &other.servers {
            self.add_intervals(*uuid, intervals.clone());
        }
    }

    /// The set of these intervals. None is empty or has a number that is no GTID's.
    fn of(servers: BTreeMap<Uuid, Vec<Interval>>) -> GtidSet {
        let mut set = GtidSet::new();
        servers.into_iter().for_each(|(uuid, intervals)| set.add_intervals(uuid, intervals));
        set
    }

    /// Adds any number of intervals of a server, in any order, with one sort: each for itself would
    /// move those behind it.
    fn add_intervals(&mut self, uuid: Uuid, mut more: Vec<Interval>) {
        if let [(start, end)] = more[..] {
            return self.add_interval(uuid, start, end);
        }
        if more.is_empty() {
            return;
        }
        let intervals = self.servers.entry(uuid).or_default();
        more.append(intervals);
        // Stable sorting takes the time of a merge if there are two sorted lists.
        more.sort();
        for (start, end) in more {
            match intervals.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => intervals.push((start, end)),
            }
        }
    }

    /// Removes all GTIDs of another set.
    pub fn subtract(&mut self, other: &GtidSet) {
        for (uuid, removed) in &other.servers {
            let Some(intervals) = self.servers.get_mut(uuid) else { continue };
            *intervals = difference(intervals, removed);
            if intervals.is_empty() {
                self.servers.remove(uuid);
            }
        }
    }

    /// Whether every GTID of this set is in the other one.
    pub fn is_subset(&self, other: &GtidSet) -> bool {
        let mut rest = self.clone();
        rest.subtract(other);
        rest.is_empty()
    }

    /// The greatest number of a server's GTIDs. 0 if there is none.
    pub fn last_number(&self, uuid: Uuid) -> u64 {
        self.servers.get(&uuid).and_then(|i| i.last()).map_or(0, |(_, end)| end - 1)
    }

    /// Appends the set as PREVIOUS_GTIDS events and COM_BINLOG_DUMP_GTID have it: the number of
    /// UUIDs; each UUID, the number of its intervals, and each interval's first number and the
    /// number behind its last. All numbers have 8 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.servers.len() as u64);
        for (uuid, intervals) in &self.servers {
            out.extend_from_slice(&uuid.0);
            put_u64(out, intervals.len() as u64);
            for (start, end) in intervals {
                put_u64(out, *start);
                put_u64(out, *end);
            }
        }
    }

    /// Reads what [`GtidSet::encode`] made. The bytes must end with the set.
    pub fn decode(bytes: &[u8]) -> Result<GtidSet, DecodeError> {
        let mut input = Input::new(bytes, "a GTID set");
        let mut servers = BTreeMap::<Uuid, Vec<Interval>>::new();
        for _ in 0..input.u64()? {
            let intervals = servers.entry(Uuid(input.array()?)).or_default();
            for _ in 0..input.u64()? {
                let (start, end) = (input.u64()?, input.u64()?);
                if start == 0 || start >= end || end > MAX_NUMBER + 1 {
                    return Err(input.wrong("an interval without numbers, or beyond the last"));
                }
                intervals.push((start, end));
            }
        }
        input.end()?;
        Ok(GtidSet::of(servers))
    }
}

/// The numbers of sorted intervals that are not in other sorted intervals.
fn difference(from: &[Interval], removed: &[Interval]) -> Vec<Interval> {
    let mut left = Vec::new();
    for (start, end) in from {
        let mut start = *start;
        let first = removed.partition_point(|(_, e)| *e <= start);
        for (gap_start, gap_end) in removed[first..].iter().take_while(|(s, _)| s < end) {
            if start < *gap_start {
                left.push((start, *gap_start));
            }
            start = *gap_end;
        }
        if start < *end {
            left.push((start, *end));
        }
    }
    left
}

impl FromIterator<Gtid> for GtidSet {
    fn from_iter<I: IntoIterator<Item = Gtid>>(gtids: I) -> GtidSet {
        let mut set = GtidSet::new();
        gtids.into_iter().for_each(|gtid| set.add(gtid));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Few servers and small numbers, so that intervals meet.
    fn gtids() -> impl Strategy<Value = BTreeSet<(u8, u64)>> {
        proptest::collection::btree_set((0..3u8, 1..30u64), 0..40)
    }

    fn set_of(gtids: &BTreeSet<(u8, u64)>) -> GtidSet {
        gtids.iter().map(|(n, number)| Gtid { uuid: Uuid([*n; 16]), number: *number }).collect()
    }

    proptest! {
        /// Tests GTID-1.
        #[test]
        fn sets_do_what_sets_of_numbers_do(a in gtids(), b in gtids()) {
            let (set_a, set_b) = (set_of(&a), set_of(&b));
            let mut union = set_a.clone();
            union.union(&set_b);
            prop_assert_eq!(&union, &set_of(&a.union(&b).copied().collect()));
            let mut left = set_a.clone();
            left.subtract(&set_b);
            prop_assert_eq!(&left, &set_of(&a.difference(&b).copied().collect()));
            prop_assert_eq!(set_a.is_subset(&set_b), a.is_subset(&b));
            prop_assert_eq!(set_a.len(), a.len() as u64);
            for n in 0..3 {
                for number in 0..31 {
                    let gtid = Gtid { uuid: Uuid([n; 16]), number };
                    prop_assert_eq!(set_a.contains(gtid), a.contains(&(n, number)));
                }
            }
            let mut bytes = Vec::new();
            union.encode(&mut bytes);
            prop_assert_eq!(GtidSet::decode(&bytes), Ok(union.clone()));
            prop_assert_eq!(union.to_string().parse::<GtidSet>(), Ok(union.clone()));
            // Each number for itself, the last first, and all servers in turn.
            let backwards = a.iter().chain(&b).rev();
            let text: Vec<_> = backwards
                .map(|(n, number)| Gtid { uuid: Uuid([*n; 16]), number: *number }.to_string())
                .collect();
            prop_assert_eq!(text.join(",").parse::<GtidSet>(), Ok(union));
        }
    }

    /// Half a million intervals, from the last to the first: moving the others for each would take
    /// minutes.
    #[test]
    fn long_sets_are_read_in_time() {
        let uuid = Uuid([7; 16]);
        let numbers = || (0..500_000u64).rev().map(|n| 2 * n + 1);
        let list: String = numbers().map(|n| format!(":{n}")).collect();
        let set: GtidSet = format!("{uuid}{list}").parse().unwrap();
        let parts: String = numbers().map(|n| format!("{uuid}:{n},")).collect();
        assert_eq!(parts.parse::<GtidSet>().as_ref(), Ok(&set));
        let (mut one, mut many) = (Vec::new(), Vec::new());
        put_u64(&mut many, 500_000);
        for n in numbers() {
            many.extend_from_slice(&uuid.0);
            [1, n, n + 1].into_iter().for_each(|n| put_u64(&mut many, n));
        }
        set.encode(&mut one);
        assert_eq!(GtidSet::decode(&many), GtidSet::decode(&one));
        assert_eq!((GtidSet::decode(&one), set.len()), (Ok(set.clone()), 500_000));
        let mut union = set.clone();
        union.union(&set);
        assert_eq!(union, set);
    }

    #[test]
    fn damaged_sets_are_refused() {
        let mut bytes = Vec::new();
        set_of(&BTreeSet::from([(1, 5)])).encode(&mut bytes);
        for cut in 0..bytes.len() {
            assert!(GtidSet::decode(&bytes[..cut]).is_err());
        }
        for (at, byte) in [(0, 2), (24, 2), (32, 0), (32, 6), (47, 0xff)] {
            let mut wrong = bytes.clone();
            wrong[at] = byte;
            assert!(GtidSet::decode(&wrong).is_err(), "byte {at}");
        }
    }
}
