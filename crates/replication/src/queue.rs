//! The records that wait for the task, with their bytes in one buffer: a commit copies its record
//! there, and neither it nor the task allocates memory for one.
use redolith_engine::Lsn;
use std::mem;

/// A buffer with more room than this is made smaller when it is empty.
const KEPT_BYTES: usize = 1 << 20;
/// The same, for the list of records.
const KEPT_RECORDS: usize = 4096;

/// A record in the buffer, and the frame that it is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    at: u64,
    end: u64,
    from: usize,
    len: usize,
}

/// Records that wait.
#[derive(Default)]
pub(crate) struct Queue {
    records: Vec<Waiting>,
    bytes: Vec<u8>,
    /// How many of the records have been taken.
    taken: usize,
}

impl Queue {
    /// Adds a record, whose frame is the redo from `at` to `end`. Frames come in any order.
    pub(crate) fn push(&mut self, at: Lsn, end: Lsn, record: &[u8]) {
        let waiting = Waiting { at: at.0, end: end.0, from: self.bytes.len(), len: record.len() };
        self.records.push(waiting);
        self.bytes.extend_from_slice(record);
    }
    /// Moves all records of `other` here, and sorts by frame.
    pub(crate) fn add(&mut self, other: &mut Queue) {
        if self.taken == self.records.len() {
            self.clear();
            mem::swap(self, other);
        } else {
            let old = mem::take(self);
            for from in [&old, &*other] {
                for waiting in &from.records[from.taken..] {
                    self.push(Lsn(waiting.at), Lsn(waiting.end), from.bytes_of(waiting));
                }
            }
            other.clear();
        }
        self.records.sort_unstable();
    }
    /// The first record that has not been taken, and its frame.
    pub(crate) fn first(&self) -> Option<(Lsn, Lsn, &[u8])> {
        let waiting = self.records.get(self.taken)?;
        Some((Lsn(waiting.at), Lsn(waiting.end), self.bytes_of(waiting)))
    }
    /// The first record has been taken.
    pub(crate) fn pass(&mut self) {
        self.taken += 1;
    }
    fn bytes_of(&self, waiting: &Waiting) -> &[u8] {
        &self.bytes[waiting.from..waiting.from + waiting.len]
    }
    fn clear(&mut self) {
        self.taken = 0;
        self.records.clear();
        self.records.shrink_to(KEPT_RECORDS);
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &mut Queue, at: u64) {
        queue.push(Lsn(at), Lsn(at + 5), format!("record at {at}").as_bytes());
    }
    fn take(queue: &mut Queue, below: u64, got: &mut Vec<u64>) {
        while let Some((at, end, record)) = queue.first().filter(|(_, end, _)| end.0 <= below) {
            assert_eq!((end.0, record), (at.0 + 5, format!("record at {}", at.0).as_bytes()));
            got.push(at.0);
            queue.pass();
        }
    }

    #[test]
    fn records_come_in_the_order_of_their_frames() {
        let (mut waiting, mut fresh, mut got) = (Queue::default(), Queue::default(), Vec::new());
        // Frames that are not durable yet stay, and those that come later may lie before them.
        for (ats, durable) in
            [(&[10, 30, 20][..], 25), (&[50, 40], 35), (&[], 35), (&[60], 100), (&[70], 100)]
        {
            ats.iter().for_each(|at| push(&mut fresh, *at));
            waiting.add(&mut fresh);
            take(&mut waiting, durable, &mut got);
        }
        assert_eq!(got, [10, 20, 30, 40, 50, 60, 70]);
        assert!(waiting.first().is_none());
    }
}
