//! A sort inside an evaluation, which KILL ends and which leaves its worker in time.
use super::Env;
use crate::error::Result;
use std::cmp::Ordering;

/// The number of items that are sorted between two looks.
const RUN: usize = 256;
/// About as many steps is the work on an item of such a run.
const STEPS_IN_RUN: usize = 8;

/// Sorts `items` by their keys: runs of items, which are then merged. Items with equal keys stay in
/// the order in which they were.
pub fn sort_in_steps<'k, T: Copy>(
    items: &mut Vec<T>,
    key: impl Fn(&T) -> &'k [u8],
    order: impl Fn(&[u8], &[u8]) -> Ordering,
    env: &mut Env<'_>,
) -> Result<()> {
    // A comparison looks at no more bytes than the shorter key has.
    let compare = |a: &T, b: &T, compared: &mut usize| {
        let (a, b) = (key(a), key(b));
        *compared += a.len().min(b.len());
        order(a, b)
    };
    for run in items.chunks_mut(RUN) {
        let mut compared = 0;
        run.sort_by(|a, b| compare(a, b, &mut compared));
        env.steps(run.len() * STEPS_IN_RUN)?;
        env.bytes(compared)?;
    }
    if items.len() <= RUN {
        return Ok(());
    }
    let mark = env.held();
    env.charge(items.len() * size_of::<T>())?;
    let mut merged = Vec::with_capacity(items.len());
    let mut width = RUN;
    while width < items.len() {
        merged.clear();
        for pair in items.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some(a), Some(b)) = (left.first(), right.first()) {
                let mut compared = 0;
                let from =
                    if compare(a, b, &mut compared).is_le() { &mut left } else { &mut right };
                merged.extend(from.split_off_first());
                env.step()?;
                env.bytes(compared)?;
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(items, &mut merged);
        width *= 2;
    }
    drop(merged);
    env.release_to(mark);
    Ok(())
}
