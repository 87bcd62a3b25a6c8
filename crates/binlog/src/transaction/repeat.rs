//! Bytes that a transaction's events have twice: an update logs a row before and after, and most of
//! its columns have not changed. Whoever keeps the events can keep such bytes once.
use smallvec::SmallVec;

/// Shorter repetitions are not noted: what notes them has 12 bytes.
const LEAST: usize = 32;

/// Bytes that are in the events a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Where in the events they begin.
    pub at: u32,
    /// How many there are.
    pub len: u32,
    /// The same bytes begin so many bytes before; at least `len`.
    pub back: u32,
}

/// The repetitions, in order. They do not overlap, and none repeats bytes of another.
pub(super) type Repeats = SmallVec<[Repeat; 2]>;

/// The repetition in two images, one behind the other, which end at the end of `out`: their common
/// end.
pub(super) fn of_images(out: &[u8], first: usize, second: usize) -> Option<Repeat> {
    let (before, after) = (&out[first..second], &out[second..]);
    let len = common_end(before, after);
    let at = u32::try_from(out.len() - len).ok()?;
    (len >= LEAST).then_some(Repeat { at, len: len as u32, back: after.len() as u32 })
}

fn common_end(a: &[u8], b: &[u8]) -> usize {
    let words = a.rchunks_exact(8).zip(b.rchunks_exact(8)).take_while(|(a, b)| a == b).count();
    let same = 8 * words;
    let (a, b) = (&a[..a.len() - same], &b[..b.len() - same]);
    same + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_end_of_two_images_is_found() {
        for len in [0, 31, 32, 33, 100] {
            for (before, after) in [(&b"x"[..], &b"y"[..]), (b"abc", b"q"), (b"q", b"abcdefghijk")]
            {
                let same: Vec<u8> = (0..len).map(|n| n as u8).collect();
                let out = [b"head", before, &same, after, &same].concat();
                let second = 4 + before.len() + len;
                let found = of_images(&out, 4, second);
                let expected = (len >= LEAST).then_some(Repeat {
                    at: (out.len() - len) as u32,
                    len: len as u32,
                    back: (after.len() + len) as u32,
                });
                assert_eq!(found, expected, "{len} {before:?} {after:?}");
            }
        }
        // Equal images, and one that is the end of the other.
        let image = [7; 50];
        let twice = [image, image].concat();
        assert_eq!(of_images(&twice, 0, 50).map(|r| (r.at, r.len, r.back)), Some((50, 50, 50)));
        assert_eq!(of_images(&twice, 0, 40).map(|r| (r.at, r.len, r.back)), Some((60, 40, 60)));
    }
}
