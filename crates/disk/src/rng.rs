//! Small deterministic random numbers for the simulated disk: SplitMix64 (Steele, Lea, Flood:
//! OOPSLA 2014).

/// Spreads the bits of one word over the whole word.
pub(crate) fn mix(word: u64) -> u64 {
    let z = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
/// Makes one word from a list of words; the order of the words matters.
pub(crate) fn mix_all(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |acc, w| {
        mix(acc.rotate_left(23) ^ *w).wrapping_add(0x9e37_79b9_7f4a_7c15)
    })
}
/// Makes one word from bytes, in four lanes because multiplications in one chain would wait for
/// each other.
pub(crate) fn mix_bytes(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut lanes = [1, 2, 3, 4];
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = (*lane ^ u64::from_le_bytes(*word))
                .wrapping_mul(0x9fb2_1c65_1e98_df25)
                .rotate_left(29);
        }
    }
    let tail = rest.iter().fold(bytes.len() as u64, |acc, b| mix(acc << 8 | *b as u64));
    mix_all(&lanes) ^ mix(tail)
}

#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed ^ 0x5851_f42d_4c95_7f2d))
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    pub fn fill(&mut self, out: &mut [u8]) {
        for part in out.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }
}
