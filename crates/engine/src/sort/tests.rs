use super::*;
use crate::runtime::{Threads, block_on};
use redolith_disk::RealDisk;

#[test]
fn a_sorter_with_a_limit_keeps_the_least() {
    let runtime = Threads::new(Arc::new(RealDisk::new()));
    for limit in [None, Some(0), Some(1), Some(7), Some(5000)] {
        let mut s = Sorter::new(limit);
        let mut x = 1u32;
        let mut all = Vec::new();
        for _ in 0..100_000 {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            let key = (x >> 8).to_be_bytes();
            all.push(x >> 8);
            if s.wants(&key) {
                s.push(&key, |row| row.extend_from_slice(&key)).unwrap();
            }
        }
        block_on(s.sort(&*runtime, || Ok::<_, Error>(()))).unwrap();
        all.sort_unstable();
        let n = limit.unwrap_or(all.len()).min(s.rows.len());
        assert!(n >= limit.unwrap_or(100_000).min(100_000));
        for (i, wanted) in all[..n].iter().enumerate() {
            assert!(s.advance().unwrap());
            assert_eq!(s.row(), wanted.to_be_bytes(), "{i}");
        }
    }
}

/// Sorts numbers with `spill_rows` rows at most in memory, and compares with the standard
/// library's stable sort.
fn sorts_like_the_library(rows: usize, keys: u32, limit: Option<usize>, spill_rows: usize) {
    let disk = Arc::new(RealDisk::new());
    let runtime = Threads::new(disk.clone());
    let space = TemporarySpace::new(&std::env::temp_dir(), u64::MAX);
    let mut s = Sorter::new(limit);
    let (mut x, mut all) = (7u32, Vec::new());
    for n in 0..rows as u64 {
        x = x.wrapping_mul(1664525).wrapping_add(1013904223);
        let key = format!("the same beginning {}", (x >> 8) % keys);
        all.push((key.clone(), n));
        if s.wants(key.as_bytes()) {
            s.push(key.as_bytes(), |row| row.extend_from_slice(&n.to_be_bytes())).unwrap();
        }
        if s.rows.len() == spill_rows {
            block_on(s.spill(&space, &*disk, &*runtime, || Ok::<_, Error>(()))).unwrap();
            assert!(s.bytes() == 0 && space.used() > 0);
        }
    }
    s.cut_to_limit();
    block_on(s.sort(&*runtime, || Ok::<_, Error>(()))).unwrap();
    all.sort();
    let wanted = limit.unwrap_or(rows).min(rows);
    for (key, n) in &all[..wanted] {
        assert!(s.advance().unwrap());
        assert_eq!(s.row(), n.to_be_bytes(), "{key}");
    }
    assert!(limit.is_some() || !s.advance().unwrap() && !s.advance().unwrap());
    drop(s);
    assert_eq!(space.used(), 0);
}
#[test]
fn rows_that_outgrow_memory_are_sorted_in_a_file() {
    for (rows, spill_rows) in
        [(0, 10), (10, 10), (25, 10), (1000, 300), (1000, 1000), (20_000, 100)]
    {
        for keys in [1, 7, 1 << 24] {
            for limit in [None, Some(1), Some(50), Some(15_000)] {
                sorts_like_the_library(rows, keys, limit, spill_rows);
            }
        }
    }
}

/// Tests SORT-2: a row is written once for each level, and never a part of another level with it.
#[test]
fn many_parts_are_merged_by_levels() {
    const PARTS: usize = MOST_PARTS * MOST_PARTS + 5;
    let disk = Arc::new(RealDisk::new());
    let runtime = Threads::new(disk.clone());
    let space = TemporarySpace::new(&std::env::temp_dir(), u64::MAX);
    let (mut s, mut written) = (Sorter::new(None), 0);
    for n in 0..PARTS as u32 {
        let key = (n.wrapping_mul(2_654_435_761) >> 20).to_be_bytes();
        s.push(&key, |row| row.extend_from_slice(&n.to_be_bytes())).unwrap();
        let before = space.used();
        block_on(s.spill(&space, &*disk, &*runtime, || Ok::<_, Error>(()))).unwrap();
        written += 1;
        assert!(space.used() > before, "a part has come, and none is twice there");
    }
    let counts = |s: &Sorter| -> Vec<usize> {
        s.spilled.as_ref().unwrap().levels.iter().map(|level| level.written.len()).collect()
    };
    assert_eq!((written, counts(&s)), (PARTS, vec![5, 0, 1]));
    // All merges so far: each part once at level 0, and once more at level 1.
    assert_eq!(space.merge_passes(), (MOST_PARTS + 1) as u64);
    let (mut last, mut rows) = (None, 0);
    while s.advance().unwrap() {
        let row = (s.key().to_vec(), s.row().to_vec());
        assert!(last < Some(row.clone()), "equal keys in the order in which they came");
        (last, rows) = (Some(row), rows + 1);
    }
    assert_eq!(rows, PARTS);
}

/// Tests TEMP-3: the rows before the damage are right, and the damage ends the sort.
#[test]
fn a_damaged_file_is_told() {
    let disk = Arc::new(RealDisk::new());
    let runtime = Threads::new(disk.clone());
    let space = TemporarySpace::new(&std::env::temp_dir(), u64::MAX);
    for at in (0..24_000).step_by(1009) {
        let mut s = Sorter::new(None);
        for n in 0..1800u32 {
            let key = (n * 37 % 1800).to_be_bytes();
            s.push(&key, |row| row.extend_from_slice(b"a row")).unwrap();
            if n % 600 == 599 {
                block_on(s.spill(&space, &*disk, &*runtime, || Ok::<_, Error>(()))).unwrap();
            }
        }
        s.spilled.as_ref().unwrap().levels[0].file.as_ref().unwrap().spoil(at);
        let mut rows = 0u32;
        let end = loop {
            match s.advance() {
                Ok(true) => {
                    assert_eq!((s.key(), s.row()), (&rows.to_be_bytes()[..], &b"a row"[..]))
                }
                end => break end,
            }
            rows += 1;
        };
        assert!(matches!(end, Err(Error::TemporaryFile { .. })), "byte {at}: {end:?}");
    }
}

/// A file that is full ends the sort with an error, and frees the space.
#[test]
fn a_full_space_is_told() {
    let disk = Arc::new(RealDisk::new());
    let runtime = Threads::new(disk.clone());
    let space = TemporarySpace::new(&std::env::temp_dir(), 100_000);
    let mut s = Sorter::new(None);
    let full = loop {
        s.push(b"key", |row| row.extend_from_slice(b"a row")).unwrap();
        if s.rows.len() == 500
            && let Err(full) = block_on(s.spill(&space, &*disk, &*runtime, || Ok::<_, Error>(())))
        {
            break full;
        }
    };
    assert!(matches!(full, Error::TemporarySpaceFull { .. }), "{full}");
    drop(s);
    assert_eq!(space.used(), 0);
}
