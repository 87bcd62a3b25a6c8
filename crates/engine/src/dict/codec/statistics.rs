//! The record of a table's statistics. The table in [`codec`](super) describes it.
use super::{CRITICAL, Decoded, Fields, checked, fields, u64_of, with_checksum};
use crate::dict::stored_statistics::{Counted, StoredIndex, StoredStatistics};

/// The field by which a record is that of statistics, and none of a table or of a histogram.
const STATISTICS: u16 = CRITICAL + 4;

/// MySQL's limits: no index has more columns, and no table has more indexes.
const MOST_COLUMNS: usize = 16;
const MOST_INDEXES: usize = 65;

pub(in crate::dict) fn encode_statistics(s: &StoredStatistics) -> Vec<u8> {
    let mut own = Fields::nested();
    own.put(1, &s.table.to_le_bytes());
    own.put(2, &s.rows.to_le_bytes());
    for index in &s.indexes {
        let numbers = std::iter::once(&index.id).chain(&index.distinct);
        own.put(3, &numbers.flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>());
    }
    let counts = [s.changes, s.counted.rows, s.counted.changes];
    own.put(4, counts.map(u64::to_le_bytes).as_flattened());
    with_checksum(STATISTICS, &own.0)
}

/// An error says what is wrong with the record: it is damaged, of a later version, or has numbers
/// that no table can have.
pub(in crate::dict) fn decode_statistics(body: &[u8]) -> Decoded<StoredStatistics> {
    let own = checked("record of statistics", STATISTICS, body)?;
    let (mut table, mut rows, mut indexes, mut counts) = (None, None, Vec::new(), None);
    fields("statistics", own, |tag, b| {
        match tag {
            1 => table = Some(u64_of("table", b)?),
            2 => rows = Some(u64_of("number of rows", b)?),
            3 if indexes.len() < MOST_INDEXES => indexes.push(b),
            3 => return Err(format!("it has more than {MOST_INDEXES} indexes")),
            4 => counts = Some(counts_of(b)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let is_number_of_rows = |rows: &u64| i64::try_from(*rows).is_ok();
    let rows = rows.filter(is_number_of_rows);
    let rows = rows.ok_or("it has no number of rows that a table may have")?;
    let [changes, counted, changes_counted] = counts.unwrap_or([0, rows, 0]);
    if !is_number_of_rows(&counted) {
        return Err("it has counted more rows than a table may have".into());
    }
    Ok(StoredStatistics {
        table: table.ok_or("it names no table")?,
        rows,
        changes,
        counted: Counted { rows: counted, changes: changes_counted },
        indexes: indexes.into_iter().map(|b| index(rows, b)).collect::<Decoded<_>>()?,
    })
}
fn counts_of(b: &[u8]) -> Decoded<[u64; 3]> {
    match b.as_chunks::<8>() {
        ([a, b, c], []) => Ok([*a, *b, *c].map(u64::from_le_bytes)),
        _ => Err("its counts are not three numbers".into()),
    }
}
/// More columns have more different values, but no more than the table has rows.
fn index(rows: u64, b: &[u8]) -> Decoded<StoredIndex> {
    let (numbers, rest) = b.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|n| u64::from_le_bytes(*n));
    let id = numbers.next().filter(|_| rest.is_empty()).ok_or("an index is cut off")?;
    let distinct: Vec<u64> = numbers.take(MOST_COLUMNS + 1).collect();
    let is_possible = !distinct.is_empty()
        && distinct.len() <= MOST_COLUMNS
        && distinct.is_sorted()
        && distinct.iter().all(|n| (rows.min(1)..=rows).contains(n));
    match is_possible {
        true => Ok(StoredIndex { id, distinct }),
        false => Err(format!("index {id} has numbers of values that {rows} rows cannot have")),
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::dict::codec::{decode_table, histogram::decode_histogram};

    fn statistics() -> StoredStatistics {
        let index = |id, distinct: &[u64]| StoredIndex { id, distinct: distinct.into() };
        StoredStatistics {
            table: 1024,
            rows: 1000,
            changes: 7,
            counted: Counted { rows: 1040, changes: 300 },
            indexes: vec![index(1025, &[1000]), index(1 << 40, &[1, 10, 10])],
        }
    }
    fn decoded(change: impl FnOnce(&mut StoredStatistics)) -> Decoded<StoredStatistics> {
        let mut s = statistics();
        change(&mut s);
        decode_statistics(&encode_statistics(&s))
    }

    /// Tests STATS-1.
    #[test]
    fn what_is_written_is_read_and_numbers_that_no_table_has_are_refused() {
        assert_eq!(decoded(|_| ()).unwrap(), statistics());
        let none = |s: &mut StoredStatistics| {
            (s.rows, s.indexes) = (0, vec![StoredIndex { id: 1025, distinct: vec![0, 0] }]);
        };
        assert!(decoded(none).is_ok());
        assert!(decoded(|s| s.indexes.clear()).is_ok(), "a table without an index");
        let mut earlier = Fields::nested();
        earlier.put(1, &1024u64.to_le_bytes());
        earlier.put(2, &1000u64.to_le_bytes());
        let counted = decode_statistics(&with_checksum(STATISTICS, &earlier.0)).unwrap().counted;
        assert_eq!(
            counted,
            Counted { rows: 1000, changes: 0 },
            "earlier programs count no changes"
        );
        let wrong: [fn(&mut StoredStatistics); 10] = [
            |s| s.rows = u64::MAX,
            |s| s.rows = 0,
            |s| s.counted.rows = 1 << 63,
            |s| s.rows = 999,
            |s| s.indexes[1].distinct[0] = 0,
            |s| s.indexes[1].distinct[2] = u64::MAX,
            |s| s.indexes[1].distinct[2] = 9,
            |s| s.indexes[1].distinct.clear(),
            |s| s.indexes[1].distinct = vec![1; 17],
            |s| s.indexes = vec![s.indexes[0].clone(); 66],
        ];
        for (n, wrong) in wrong.into_iter().enumerate() {
            assert!(decoded(wrong).is_err(), "{n}");
        }
    }
    /// Tests STATS-1: no record makes a start panic, with a checksum that is right or wrong.
    #[test]
    fn no_flipped_byte_is_read_or_ends_in_a_panic() {
        let bytes = encode_statistics(&statistics());
        for at in 0..bytes.len() {
            for with in [1, 0x80, 0xff] {
                let mut b = bytes.clone();
                b[at] ^= with;
                assert!(decode_statistics(&b).is_err(), "byte {at}");
                let own = &bytes[8..bytes.len() - 10];
                if let Some(at) = at.checked_sub(8).filter(|at| *at < own.len()) {
                    let mut own = own.to_vec();
                    own[at] ^= with;
                    let _ = decode_statistics(&with_checksum(STATISTICS, &own));
                }
            }
            assert!(decode_statistics(&bytes[..at]).is_err());
        }
    }
    #[test]
    fn a_record_is_no_table_and_no_histogram() {
        let bytes = encode_statistics(&statistics());
        assert!(decode_table(&bytes).unwrap_err().contains("field 32772"));
        assert!(decode_histogram(&bytes).unwrap_err().contains("field 32772"));
    }
}
