//! Estimates how many different keys an index has, from a few leaves spread over the index.
use super::table::Table;
use crate::btree::Seek;
use crate::buf::Latch;
use crate::engine::Engine;
use crate::page::index;
use crate::{PageId, Result, Try};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The number of leaves that are read, roughly.
const LEAVES: usize = 8;

/// A comparison of neighbouring entries in the leaves read.
struct Sample {
    pairs: u64,
    /// Pairs that differ in the first column, in the first two, and so on.
    different: Vec<u64>,
}

impl Engine {
    /// Estimates the number of different values of the first column of index `no`, of its first two
    /// columns, and so on. The numbers are exact where the index is one page, and 0 for a
    /// definition that has been replaced meanwhile, whose trees may be gone.
    pub async fn estimate_distinct(&self, t: &Table, no: usize) -> Result<Vec<u64>> {
        let rows = t.rows.load(Relaxed).max(0) as u64;
        let sample = match self.retry(|| self.sample(t, no)).await {
            Err(_) if t.dropped.load(Acquire) => return Ok(vec![0; t.indexes[no].columns]),
            sample => sample?,
        };
        let estimate = |changes: &u64| {
            let share =
                (rows as u128 * u128::from(*changes) / u128::from(sample.pairs.max(1))) as u64;
            share.max(changes + 1).min(rows.max(1))
        };
        Ok(if rows == 0 {
            vec![0; sample.different.len()]
        } else {
            sample.different.iter().map(estimate).collect()
        })
    }
    fn sample(&self, t: &Table, no: usize) -> Try<Sample> {
        let ix = &t.indexes[no];
        let mut found = Sample { pairs: 0, different: vec![0; ix.columns] };
        let starts = {
            let root =
                self.store.pool.fix(PageId { space: t.space, no: ix.tree.root }, Latch::S)?;
            ix.tree.expect(&self.store, &root, None)?;
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let n =
                if index::level(&root) == 0 { 1 } else { usize::from(index::n_recs(&root)).max(1) };
            let mut at = index::first_rec(&root);
            for i in 0..n {
                let Some(r) = at else { break };
                // `LEAVES` of the n children, evenly spread, or all of them.
                if i * LEAVES / n >= keys.len() || n <= LEAVES {
                    keys.push(index::key(&root, r).to_vec());
                }
                at = index::next_rec(&root, r);
            }
            keys
        };
        for start in starts {
            let leaf = ix.tree.leaf(&self.store, Seek::Key(&start))?;
            let mut last: Option<&[u8]> = None;
            let mut at = index::first_rec(&leaf);
            while let Some(r) = at {
                at = index::next_rec(&leaf, r);
                if index::is_marked(&leaf, r) {
                    continue;
                }
                let key = index::key(&leaf, r);
                if let Some(last) = last {
                    found.pairs += 1;
                    for (i, n) in found.different.iter_mut().enumerate() {
                        *n += (key[..ix.key.skip_columns(key, i + 1)]
                            != last[..ix.key.skip_columns(last, i + 1)])
                            as u64;
                    }
                }
                last = Some(key);
            }
        }
        Ok(found)
    }
}
