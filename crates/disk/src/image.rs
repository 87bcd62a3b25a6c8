//! The content of a file in memory. It is sparse, and cheap to copy because copies share blocks
//! until one of them changes a block.
use crate::rng::{mix_all, mix_bytes};
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: u64 = 4096;
type Block = [u8; BLOCK as usize];

/// **IMAGE-1** The bytes past `len` in the last block are zeros, and no block starts past `len`. A
/// missing block stands for zeros.
#[derive(Clone, Default)]
pub(crate) struct Image {
    blocks: BTreeMap<u64, Arc<Block>>,
    len: u64,
}

/// The blocks that `len` bytes at `offset` touch: (block number, range in the block, range in the
/// buffer).
fn parts(
    offset: u64,
    len: usize,
) -> impl Iterator<Item = (u64, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let pos = offset + at as u64;
        let from = (pos % BLOCK) as usize;
        let n = (BLOCK as usize - from).min(len - at);
        at += n;
        (n > 0).then(|| (pos / BLOCK, from..from + n, at - n..at))
    })
}
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|w| u128::from_le_bytes(*w) == 0) && rest.iter().all(|b| *b == 0)
}

impl Image {
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Returns false when the range ends past the end of the file.
    #[must_use]
    pub fn read(&self, out: &mut [u8], offset: u64) -> bool {
        if offset + out.len() as u64 > self.len {
            return false;
        }
        for (no, block, buf) in parts(offset, out.len()) {
            match self.blocks.get(&no) {
                Some(b) => out[buf].copy_from_slice(&b[block]),
                None => out[buf].fill(0),
            }
        }
        true
    }
    pub fn write(&mut self, data: &[u8], offset: u64) {
        self.len = self.len.max(offset + data.len() as u64);
        for (no, block, buf) in parts(offset, data.len()) {
            let data = &data[buf];
            if is_zero(data) && (data.len() as u64 == BLOCK || !self.blocks.contains_key(&no)) {
                self.blocks.remove(&no);
                continue;
            }
            let b = self.blocks.entry(no).or_insert_with(|| Arc::new([0; BLOCK as usize]));
            Arc::make_mut(b)[block].copy_from_slice(data);
        }
    }
    /// The first place from `offset` on in a block that is there.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        let (no, _) = self.blocks.range(offset / BLOCK..).next()?;
        Some(offset.max(no * BLOCK)).filter(|at| *at < self.len)
    }
    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.blocks.split_off(&len.div_ceil(BLOCK));
            if let Some(b) = self.blocks.get_mut(&(len / BLOCK)) {
                Arc::make_mut(b)[(len % BLOCK) as usize..].fill(0);
            }
        }
        self.len = len;
    }
    /// One word that identifies the whole content.
    pub fn digest(&self) -> u64 {
        let blocks = self.blocks.iter().filter(|(_, b)| !is_zero(&b[..]));
        blocks.fold(mix_all(&[self.len]), |sum, (no, b)| mix_all(&[sum, *no, mix_bytes(&b[..])]))
    }
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.len as usize];
        assert!(self.read(&mut out, 0));
        out
    }
    /// Offset of a byte in a block that was written; `pick` selects the block and the byte. `None`
    /// in a file of zeros.
    pub fn pick_written(&self, pick: u64) -> Option<u64> {
        let n = self.blocks.len() as u64;
        let no = *self.blocks.keys().nth((pick % n.max(1)) as usize)?;
        let size = BLOCK.min(self.len - no * BLOCK);
        Some(no * BLOCK + pick / n % size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests IMAGE-1.
    #[test]
    fn sparse_content_is_what_a_plain_vector_would_hold() {
        let mut rng = crate::rng::Rng::new(1);
        let (mut image, mut plain) = (Image::default(), Vec::<u8>::new());
        for _ in 0..2000 {
            let offset = rng.below(40_000) as usize;
            if rng.one_in(4) {
                image.set_len(offset as u64);
                plain.resize(offset, 0);
            } else {
                let mut data = vec![0; rng.below(9_000) as usize + 1];
                if rng.one_in(2) {
                    rng.fill(&mut data);
                }
                image.write(&data, offset as u64);
                plain.resize(plain.len().max(offset + data.len()), 0);
                plain[offset..offset + data.len()].copy_from_slice(&data);
            }
            assert_eq!(image.len(), plain.len() as u64);
            assert!(image.to_vec() == plain);
            assert!(!image.read(&mut [0], image.len()));
        }
    }
    #[test]
    fn holes_are_told_from_data() {
        let mut image = Image::default();
        image.set_len(40_000);
        assert_eq!(image.next_data(0), None);
        image.write(&[1; 100], 20_000);
        let places = [(0, Some(16_384)), (16_400, Some(16_400)), (20_480, None), (50_000, None)];
        for (from, to) in places {
            assert_eq!(image.next_data(from), to, "from {from}");
        }
    }
    #[test]
    fn zeros_take_no_memory() {
        let mut image = Image::default();
        image.write(&[0; 100_000], 5);
        image.write(&[1; 8192], 4096);
        assert!((4096..12_288).contains(&image.pick_written(77).unwrap()));
        image.write(&[0; 8192], 4096);
        assert!(image.blocks.is_empty() && image.len() == 100_005);
        assert_eq!(image.pick_written(77), None);
    }
}
