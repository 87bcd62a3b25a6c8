//! The keys of changed rows as hashes, by which the logical clock finds transactions that conflict.
//!
//! A row has the hash of its primary key and of each unique key, with the index's id mixed in. Two
//! transactions that must keep their order have a hash in common: they change one row, or one puts
//! a unique value where the other has taken it away. A key with a NULL is unique beside any other,
//! so it has no hash.
use redolith_engine::dict::table::Table;

/// A transaction with more keys conflicts with every other: the clock would forget them anyway.
const MOST_KEYS: usize = 16_384;
/// A list with more room than this is freed when the transaction ends.
const KEPT_KEYS: usize = 256;

/// The keys of a transaction.
#[derive(Default)]
pub(super) struct Keys {
    hashes: Vec<u64>,
    /// The transaction conflicts with every other: it has changed a row without a key, or too many
    /// rows.
    all: bool,
    /// Room for an encoded key.
    key: Vec<u8>,
}

/// The keys up to a savepoint.
#[derive(Clone, Copy, Default)]
pub(super) struct KeysPoint {
    count: usize,
    all: bool,
}

impl Keys {
    /// Adds the keys of a row before or after a change. `clustered` is its clustered key, if the
    /// caller has it.
    pub(super) fn add(&mut self, table: &Table, payload: &[u8], clustered: Option<&[u8]>) {
        if self.all {
            return;
        }
        let before = self.hashes.len();
        for (no, index) in table.indexes.iter().enumerate() {
            let is_clustered = no == 0;
            let counts = if is_clustered { !table.hidden_key } else { index.def.unique };
            if !counts || !is_clustered && index.key.has_null(&table.layout, payload) {
                continue;
            }
            let hashed = match clustered.filter(|_| is_clustered) {
                Some(key) => hash(index.id, key),
                None => {
                    self.key.clear();
                    index.key.encode_row(&table.layout, payload, &mut self.key);
                    hash(index.id, &self.key)
                }
            };
            self.hashes.push(hashed);
        }
        self.all = self.hashes.len() == before || self.hashes.len() > MOST_KEYS;
    }
    /// Adds the keys of an updated row. A key that stays is added once.
    pub(super) fn add_update(&mut self, table: &Table, old: &[u8], new: &[u8], clustered: &[u8]) {
        let before = self.hashes.len();
        self.add(table, old, Some(clustered));
        let between = self.hashes.len();
        self.add(table, new, None);
        let mut kept = between;
        for at in between..self.hashes.len() {
            if !self.hashes[before..between].contains(&self.hashes[at]) {
                self.hashes[kept] = self.hashes[at];
                kept += 1;
            }
        }
        self.hashes.truncate(kept);
    }

    /// The hashes; None if the transaction conflicts with every other.
    pub(super) fn hashes(&self) -> Option<&[u64]> {
        (!self.all).then_some(&self.hashes)
    }
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.hashes[..])
    }
    pub(super) fn point(&self) -> KeysPoint {
        KeysPoint { count: self.hashes.len(), all: self.all }
    }
    pub(super) fn roll_back_to(&mut self, point: KeysPoint) {
        self.hashes.truncate(point.count);
        self.all = point.all;
    }
    pub(super) fn clear(&mut self) {
        self.hashes.clear();
        self.hashes.shrink_to(KEPT_KEYS);
        self.all = false;
    }
}

/// Odd numbers with about as many ones as zeros.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// A hash without a random seed, because it goes to the redo log.
fn hash(index: u64, key: &[u8]) -> u64 {
    let mut h = index.wrapping_mul(FACTORS[0]) ^ key.len() as u64;
    let mut mix = |word: u64| h = (h ^ word).wrapping_mul(FACTORS[0]).rotate_left(29);
    let (words, rest) = key.as_chunks::<8>();
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last));
    h ^= h >> 32;
    h = h.wrapping_mul(FACTORS[1]);
    h ^ h >> 29
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn near_keys_have_other_hashes() {
        let mut seen = HashSet::new();
        for index in 1..20 {
            for n in 0..5000u32 {
                assert!(seen.insert(hash(index, &n.to_be_bytes())), "{index} {n}");
            }
        }
        for key in [&b""[..], b"\0", b"\0\0", b"12345678", b"12345678\0"] {
            assert!(seen.insert(hash(1, key)), "{key:?}");
        }
        assert_eq!(hash(7, b"stays the same"), hash(7, b"stays the same"));
    }
}
