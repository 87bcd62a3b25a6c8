//! The interface for changing pages: absolute byte writes, each of which a mini-transaction also
//! puts into its redo log frame.
use crate::PAGE_SIZE;

/// A page that is open for change. Redo repeats the writes.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub trait Patch {
    fn bytes(&self) -> &[u8; PAGE_SIZE];
    fn write(&mut self, at: usize, data: &[u8]);
    /// Writes the parts one behind the other. An implementation that writes redo makes one record
    /// of them.
    fn write_parts(&mut self, at: usize, parts: &[&[u8]]) {
        let mut at = at;
        for b in parts {
            self.write(at, b);
            at += b.len();
        }
    }

    fn write_u16(&mut self, at: usize, v: u16) {
        self.write(at, &v.to_le_bytes());
    }
    fn write_u32(&mut self, at: usize, v: u32) {
        self.write(at, &v.to_le_bytes());
    }
    fn write_u64(&mut self, at: usize, v: u64) {
        self.write(at, &v.to_le_bytes());
    }
    /// Writes only the bytes of `data` that differ from the page's bytes. Runs of changed bytes are
    /// joined over gaps that cost less than a record of their own.
    fn write_changed(&mut self, at: usize, data: &[u8]) {
        const GAP: usize = 6;
        let mut i = 0;
        while i < data.len() {
            let old = &self.bytes()[at..at + data.len()];
            let Some(first) = (i..data.len()).find(|&j| old[j] != data[j]) else { return };
            let (mut last, mut j) = (first, first + 1);
            while j < data.len() && j - last <= GAP {
                if old[j] != data[j] {
                    last = j;
                }
                j += 1;
            }
            self.write(at + first, &data[first..=last]);
            i = last + 1;
        }
    }
}

#[cfg(all(test, not(model)))]
pub(crate) mod tests {
    use super::*;

    /// A page of its own, which keeps its writes so that a test can replay them.
    pub struct Sheet {
        pub page: Box<[u8; PAGE_SIZE]>,
        pub log: Vec<(usize, Vec<u8>)>,
    }
    impl Sheet {
        pub fn new() -> Sheet {
            Sheet { page: Box::new([0; PAGE_SIZE]), log: Vec::new() }
        }
        pub fn replay(&self) -> Box<[u8; PAGE_SIZE]> {
            let mut p = Box::new([0; PAGE_SIZE]);
            for (at, b) in &self.log {
                p[*at..*at + b.len()].copy_from_slice(b);
            }
            p
        }
        pub fn logged_bytes(&self) -> usize {
            self.log.iter().map(|(_, b)| b.len()).sum()
        }
    }
    impl Patch for Sheet {
        fn bytes(&self) -> &[u8; PAGE_SIZE] {
            &self.page
        }
        fn write(&mut self, at: usize, data: &[u8]) {
            self.page[at..at + data.len()].copy_from_slice(data);
            self.log.push((at, data.to_vec()));
        }
    }

    #[test]
    fn only_changes_are_written() {
        let mut s = Sheet::new();
        s.write_changed(100, &[0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(s.log, vec![(102, vec![1, 0, 0, 2]), (116, vec![3])]);
        s.write_changed(100, &[0, 0, 1]);
        assert_eq!(s.log.len(), 2);
    }
}
