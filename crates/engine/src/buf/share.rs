//! Which frames belong to which instance.
//!
//! Each instance has a range of indexes for ever, as long as its share of the largest pool; the
//! frames in use are those at the range's low end. A frame's index thus names its instance,
//! whatever the pool's size.

/// Frames that share a huge page. The ranges of large pools begin at such borders.
pub(crate) const HUGE_FRAMES: u32 = 128;

/// The division of a pool of up to `frames_max` frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    instances: u32,
    /// Indexes of each instance.
    room: u32,
    most: u32,
}

impl Shares {
    pub(super) fn new(frames_max: u32, instances: u32) -> Shares {
        let room = frames_max.div_ceil(instances);
        let room = if room >= 2 * HUGE_FRAMES { room.next_multiple_of(HUGE_FRAMES) } else { room };
        assert!(room.checked_mul(instances).is_some_and(|indexes| indexes < u32::MAX));
        Shares { instances, room, most: frames_max }
    }
    /// The frames of the largest pool.
    pub(super) fn most(&self) -> u32 {
        self.most
    }
    /// All indexes, of which a pool of any size uses some.
    pub(super) fn indexes(&self) -> u32 {
        self.instances * self.room
    }
    pub(super) fn instances(&self) -> usize {
        self.instances as usize
    }
    pub(super) fn instance_of(&self, index: u32) -> usize {
        (index / self.room) as usize
    }
    /// The first index of an instance.
    pub(super) fn first(&self, instance: usize) -> u32 {
        instance as u32 * self.room
    }
    /// The end of the indexes that an instance uses in a pool of `frames` frames.
    pub(super) fn end(&self, instance: usize, frames: u32) -> u32 {
        let more = u32::from((instance as u32) < frames % self.instances);
        self.first(instance) + frames / self.instances + more
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn each_index_is_of_one_instance_and_the_shares_add_up() {
        for (most, instances) in [(64, 1), (130, 2), (1000, 3), (4099, 64), (1 << 22, 8)] {
            let shares = Shares::new(most, instances);
            for frames in [instances, most / 2 + 1, most] {
                let mut sum = 0;
                for i in 0..shares.instances() {
                    let (first, end) = (shares.first(i), shares.end(i, frames));
                    assert!(first < end && end <= shares.first(i + 1));
                    assert_eq!((shares.instance_of(first), shares.instance_of(end - 1)), (i, i));
                    sum += end - first;
                }
                assert_eq!(sum, frames);
            }
            assert!(shares.indexes() >= most);
        }
    }
}
