//! Scans that leave out rows of groups (CURSOR-4).
use crate::common::Dir;
use crate::common::table::{LOCK, def, key, row};
use crate::common::tables::{commit, open};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::block_on;
use redolith_engine::{DEFAULT_COLLATION, Trx};
use redolith_types::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
struct How {
    covered: bool,
    reverse: bool,
    /// The key columns of a group; None reads all rows.
    columns: Option<usize>,
    ends: bool,
    /// Only rows with ids that this divides are wanted.
    wanted: i64,
    /// Keys of the index: from, and below.
    range: (Option<i64>, Option<i64>),
}

/// The rows as (k, id) in the order in which they are read.
async fn read(trx: &mut Trx, t: &Arc<Table>, how: How) -> Vec<(i64, i64)> {
    let bound = |k: i64| {
        let mut bytes = Vec::new();
        t.indexes[1].key.encode_values(&[Value::Int(k)], &mut bytes);
        bytes
    };
    let (low, high) = (how.range.0.map(bound).unwrap_or_default(), how.range.1.map(bound));
    let mut c = Cursor::new(t.clone(), 1, low, high, how.reverse, Read::Consistent);
    if how.covered {
        c.cover(&[0, 1]);
    }
    if let Some(columns) = how.columns {
        c.leave_out_rows(columns, how.ends);
    }
    let mut rows = Vec::new();
    while c.next(trx).await.unwrap() {
        let number = |column| match t.layout.get(c.row().stored, column) {
            Value::Int(n) => n,
            other => panic!("{other:?}"),
        };
        let (k, id) = (number(1), number(0));
        rows.push((k, id));
        if id % how.wanted == 0 {
            c.wanted();
        }
    }
    rows
}

/// The least and the greatest wanted id of each group.
fn extremes(rows: &[(i64, i64)], how: How) -> BTreeMap<i64, (i64, i64)> {
    let mut groups = BTreeMap::new();
    for (k, id) in rows.iter().filter(|(_, id)| id % how.wanted == 0) {
        // Without key columns all rows are one group.
        let group = if how.columns == Some(0) { 0 } else { *k };
        let value = if how.columns == Some(0) { *k } else { *id };
        let of_group = groups.entry(group).or_insert((value, value));
        *of_group = (value.min(of_group.0), value.max(of_group.1));
    }
    groups
}

async fn compare(trx: &mut Trx, t: &Arc<Table>, what: &str) {
    let mut left_out = 0;
    for n in 0..96 {
        let bit = |at: u32| n >> at & 1 == 1;
        let how = How {
            covered: bit(0),
            reverse: bit(1),
            columns: Some(if bit(2) { 1 } else { 0 }),
            ends: bit(3) && !bit(1),
            wanted: if bit(3) { 1 } else { 3 },
            range: match n >> 4 {
                0 => (None, None),
                1 => (Some(3), None),
                2 => (None, Some(17)),
                3 => (Some(2), Some(9)),
                4 => (Some(5), Some(6)),
                _ => (Some(900), None),
            },
        };
        let all = read(trx, t, How { columns: None, ..how }).await;
        let few = read(trx, t, how).await;
        assert!(few.iter().all(|row| all.contains(row)), "{what} {how:?}");
        let (all_of, few_of) = (extremes(&all, how), extremes(&few, how));
        let ids = |of: &BTreeMap<i64, (i64, i64)>| of.keys().copied().collect::<Vec<_>>();
        assert_eq!(ids(&few_of), ids(&all_of), "{what} {how:?}");
        for (group, (least, greatest)) in &all_of {
            let (first, last) = few_of[group];
            assert!(how.reverse || first == *least, "{what} {how:?} {group}");
            assert!(!(how.reverse || how.ends) || last == *greatest, "{what} {how:?} {group}");
        }
        left_out += all.len() - few.len().min(all.len());
    }
    assert!(left_out > 10_000, "{what}: {left_out}");
}

/// Groups of all sizes, rows that the view does not see or sees in an older version, and ranges.
/// Tests CURSOR-4.
#[test]
fn the_first_and_the_last_rows_of_groups_are_read() {
    let dir = Dir::new("few-of-groups");
    let (e, _) = open(&dir);
    block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(def("t"), 1, None).await.unwrap();
        let mut trx = e.begin(KillFlag::new());
        let mut id = 0;
        for k in 0..24i64 {
            for _ in 0..[1, 900, 2, 7, 40, 1, 300, 8, 9, 16, 17, 5][k as usize % 12] {
                id += 1;
                trx.insert(&t, &row(&t, id * 7919 % 7001, k, "x")).await.unwrap();
            }
        }
        commit(&mut trx).await;
        let mut reader = e.begin(KillFlag::new());
        compare(&mut reader, &t, "at rest").await;
        // Others delete the ends of groups, move rows to other groups, and add some.
        let mut writer = e.begin(KillFlag::new());
        for k in [1, 4, 6, 8, 9, 13, 18] {
            let how = How {
                covered: false,
                reverse: false,
                columns: None,
                ends: false,
                wanted: 1,
                range: (Some(k), Some(k + 1)),
            };
            let rows = read(&mut reader, &t, how).await;
            let ends = rows.iter().take(12).chain(rows.iter().rev().take(12));
            for (n, (_, id)) in ends.enumerate() {
                let mut c = Cursor::point(t.clone(), key(&t, *id), LOCK);
                if !c.next(&mut writer).await.unwrap() {
                    continue;
                }
                match n % 3 {
                    0 => writer.update(&t, c.row(), &row(&t, *id, k + 1, "y")).await.unwrap(),
                    _ => writer.delete(&t, c.row()).await.unwrap(),
                }
            }
            for new in 0..20 {
                let id = if new % 2 == 0 { -k * 100 - new } else { 10_000 + k * 100 + new };
                writer.insert(&t, &row(&t, id, k, "new")).await.unwrap();
            }
        }
        compare(&mut reader, &t, "beside a writer").await;
        compare(&mut writer, &t, "its own").await;
        commit(&mut writer).await;
        compare(&mut reader, &t, "of an old view").await;
        commit(&mut reader).await;
        let mut later = e.begin(KillFlag::new());
        compare(&mut later, &t, "behind the writer").await;
        commit(&mut later).await;
        e.close().await.unwrap();
    });
}
