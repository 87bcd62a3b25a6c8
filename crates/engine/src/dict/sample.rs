//! Looks at some leaves of an index, which are spread over it, to tell how many different keys it
//! has.
use super::counters::spread_keys;
use super::table::{Index, Table};
use crate::btree::Seek;
use crate::buf::Latch;
use crate::engine::Engine;
use crate::mtr::Store;
use crate::page::index;
use crate::runtime::give_way;
use crate::{PageId, Result, Try};

/// Other tasks get a turn after so many leaves.
const LEAVES_PER_TURN: u64 = 8;

/// A comparison of neighbouring entries in the leaves read.
pub(super) struct Sample {
    pub(super) pairs: u64,
    /// Pairs that differ in the first column, in the first two, and so on.
    pub(super) different: Vec<u64>,
}

/// A record of a page of level `level`, above so many leaves that are to be read.
struct Place {
    level: u16,
    key: Vec<u8>,
    leaves: usize,
}
/// Spreads leaves over the records of a page.
fn spread(page: &index::Page, leaves: usize) -> impl Iterator<Item = Place> + use<> {
    let level = index::level(page);
    // A leaf is read once.
    let most = if level == 0 { 1 } else { leaves.min(index::n_recs(page).into()) };
    let keys = spread_keys(page, most);
    let (each, more) = (leaves / keys.len().max(1), leaves % keys.len().max(1));
    let place = move |(n, key)| Place { level, key, leaves: each + usize::from(n < more) };
    keys.into_iter().enumerate().map(place)
}

impl Engine {
    /// Compares the entries of at most `leaves` leaves of index `no`, which are spread over it.
    pub(super) async fn sample(&self, t: &Table, no: usize, leaves: usize) -> Result<Sample> {
        let ix = &t.indexes[no];
        let root = || {
            let id = PageId { space: t.space, no: ix.tree.root };
            let root = self.store.pool.fix(id, Latch::S)?;
            ix.tree.expect(&self.store, &root, None)?;
            Ok(spread(&root, leaves))
        };
        // What is left to read, of each level at most the records of a page.
        let mut left: Vec<Place> = self.retry(root).await?.collect();
        let mut found = Sample { pairs: 0, different: vec![0; ix.columns] };
        let mut read = 0;
        while let Some(Place { level, key, leaves }) = left.pop() {
            if level > 1 && leaves > 1 {
                let below = || {
                    let at = Seek::Key(&key);
                    let page = ix.tree.descend(&self.store, at, level - 1, Latch::S, None)?;
                    Ok(spread(&page, leaves))
                };
                left.extend(self.retry(below).await?);
                continue;
            }
            let leaf = self.retry(|| compare_entries(&self.store, ix, &key)).await?;
            found.pairs += leaf.pairs;
            for (sum, n) in found.different.iter_mut().zip(leaf.different) {
                *sum += n;
            }
            read += 1;
            if read % LEAVES_PER_TURN == 0 {
                give_way(&*self.runtime).await;
            }
        }
        Ok(found)
    }
}

/// Compares the entries of the leaf that has `key`.
fn compare_entries(store: &Store, ix: &Index, key: &[u8]) -> Try<Sample> {
    let mut found = Sample { pairs: 0, different: vec![0; ix.columns] };
    let leaf = ix.tree.leaf(store, Seek::Key(key))?;
    let mut last: Option<&[u8]> = None;
    for r in index::records(&leaf).filter(|r| !index::is_marked(&leaf, *r)) {
        let key = index::key(&leaf, r);
        if let Some(last) = last {
            found.pairs += 1;
            for (i, n) in found.different.iter_mut().enumerate() {
                *n += (key[..ix.key.skip_columns(key, i + 1)]
                    != last[..ix.key.skip_columns(last, i + 1)]) as u64;
            }
        }
        last = Some(key);
    }
    Ok(found)
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::page::index::Builder;
    use crate::small_engine::*;

    /// The leaves are as many as were asked for, also where the root has few records, and each is
    /// read once.
    #[test]
    fn leaves_are_spread_over_all_levels() {
        with_engine("sample-levels", async |e| {
            let t = table_with(&e, |def| {
                let sign = redolith_types::sql_type::Sign::SIGNED;
                let size = redolith_types::IntSize::Int;
                let int = redolith_types::SqlType::Int { size, sign, display: None };
                let long = redolith_types::SqlType::Binary { len: 200 };
                let wide = redolith_types::Column::new("wide", long).not_null();
                def.columns = vec![wide, redolith_types::Column::new("id", int).not_null()];
                def.indexes = vec![redolith_types::IndexDef::primary([0, 1])];
            })
            .await;
            let mut trx = begin(&e);
            let mut payload = Vec::new();
            const ROWS: usize = 12_000;
            for id in 0..ROWS {
                payload.clear();
                let wide = redolith_types::Value::owned(vec![b'x'; 200]);
                let values = [wide, redolith_types::Value::Int(id as i64)];
                t.layout.encode(&values, &mut payload);
                trx.insert(&t, &payload).await.unwrap();
            }
            commit(&mut trx).await;
            let all = e.sample(&t, 0, usize::MAX).await.unwrap();
            assert_eq!(all.different[0], 0);
            let leaves = ROWS - all.pairs as usize;
            assert_eq!(all.different[1], all.pairs, "each pair of each leaf, once");
            let root = || {
                let root = PageId { space: t.space, no: t.clustered().tree.root };
                let root = e.store.pool.fix(root, Latch::S)?;
                Ok((index::level(&root), usize::from(index::n_recs(&root))))
            };
            let (level, children) = e.retry(root).await.unwrap();
            assert!(level > 1 && children < 20 && leaves > 100, "{level} {children} {leaves}");
            let mut before = 0;
            for wanted in [1, 2, 20, 50] {
                let some = e.sample(&t, 0, wanted).await.unwrap();
                let about = wanted as u64 * (all.pairs / leaves as u64);
                assert!(some.pairs.abs_diff(about) <= about / 2, "{wanted}: {}", some.pairs);
                assert!(some.pairs > before);
                before = some.pairs;
            }
        });
    }
    /// A root whose level no tree has leads to no leaf.
    #[test]
    fn a_damaged_root_is_an_error() {
        with_engine("sample-damaged", async |e| {
            let t = table(&e).await;
            let tree = &t.clustered().tree;
            let mut made = Builder::new(t.clustered().id, u16::MAX);
            for key in [[1; 8], [2; 8]] {
                made.push(0, &key, &[0; 4]);
            }
            let set = || {
                let mut m = crate::mtr::Mtr::begin(&e.store)?;
                let root = m.x(PageId { space: tree.space, no: tree.root })?;
                made.store(&mut m.patch(root));
                m.commit();
                Ok(())
            };
            e.retry(set).await.unwrap();
            assert!(e.sample(&t, 0, 20).await.is_err());
        });
    }
}
