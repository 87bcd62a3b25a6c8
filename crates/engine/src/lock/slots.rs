//! An ordered list of slots in chunks, so that entering one among a million moves only a few.
use super::interval::Slot;
use smallvec::SmallVec;

/// The most slots of a chunk. A full chunk is split in two.
const CHUNK: usize = if cfg!(test) { 4 } else { 512 };

/// The slots, in chunks that are never empty. A short list is one chunk.
#[derive(Default)]
pub(super) struct Slots {
    chunks: SmallVec<[Vec<Slot>; 1]>,
    len: usize,
}
/// A place between two slots: a chunk, and an offset in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    chunk: usize,
    at: usize,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.len
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.from(Place { chunk: 0, at: 0 })
    }
    /// The place behind the slots for which `before` holds, which are the first ones.
    pub(super) fn partition_point(&self, before: impl Fn(Slot) -> bool) -> Place {
        let ends_before = |slots: &Vec<Slot>| slots.last().is_some_and(|slot| before(*slot));
        let chunk = self.chunks.partition_point(ends_before);
        let slots = self.chunks.get(chunk);
        Place { chunk, at: slots.map_or(0, |slots| slots.partition_point(|slot| before(*slot))) }
    }
    /// The slots from `place` on.
    pub(super) fn from(&self, place: Place) -> impl Iterator<Item = Slot> {
        let first = self.chunks.get(place.chunk).map_or(&[][..], |slots| &slots[place.at..]);
        first.iter().chain(self.chunks.iter().skip(place.chunk + 1).flatten()).copied()
    }
    /// Puts `slot` in the place of the `count` slots from `place` on.
    pub(super) fn replace(&mut self, place: Place, count: usize, slot: Slot) {
        let Place { mut chunk, mut at } = place;
        let mut left = count;
        while left > 0 {
            let slots = &mut self.chunks[chunk];
            let end = slots.len().min(at + left);
            left -= slots.drain(at..end).len();
            if slots.is_empty() {
                self.chunks.remove(chunk);
            } else if left > 0 {
                (chunk, at) = (chunk + 1, 0);
            }
        }
        self.len -= count;
        self.insert(Place { chunk, at }, slot);
    }
    fn insert(&mut self, Place { chunk, at }: Place, slot: Slot) {
        self.len += 1;
        // Behind all slots, the last chunk takes the slot.
        let (chunk, at) = match self.chunks.get(chunk) {
            Some(_) => (chunk, at),
            None => match self.chunks.last() {
                Some(slots) => (self.chunks.len() - 1, slots.len()),
                None => return self.chunks.push(vec![slot]),
            },
        };
        let slots = &mut self.chunks[chunk];
        slots.insert(at, slot);
        if slots.len() > CHUNK {
            let rest = slots.split_off(slots.len() / 2);
            self.chunks.insert(chunk + 1, rest);
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_plain_list() {
        let mut random = super::super::tests::Random(5);
        for _ in 0..50 {
            let (mut slots, mut model) = (Slots::default(), Vec::new());
            for _ in 0..300 {
                let slot = random.below(1000) as Slot;
                let from = slots.partition_point(|s| s < slot);
                let at = model.partition_point(|s| *s < slot);
                let rest: Vec<Slot> = slots.from(from).collect();
                assert_eq!(rest, model[at..]);
                let most = if random.below(4) == 0 { 10 } else { 1 };
                let count = (random.below(most + 1) as usize).min(rest.len());
                slots.replace(from, count, slot);
                model.splice(at..at + count, [slot]);
                assert_eq!(slots.len(), model.len());
                assert!(slots.iter().eq(model.iter().copied()));
                assert!(slots.chunks.iter().all(|c| !c.is_empty() && c.len() <= CHUNK));
            }
        }
    }

    /// Slots in random order are spread over chunks, each of which is half full or more.
    #[test]
    fn a_long_list_has_many_chunks() {
        let (mut random, mut slots) = (super::super::tests::Random(9), Slots::default());
        for _ in 0..1000 {
            let slot = random.below(1 << 30) as Slot;
            slots.replace(slots.partition_point(|s| s < slot), 0, slot);
        }
        assert!(slots.chunks.len() <= 1000 / (CHUNK / 2));
    }
}
