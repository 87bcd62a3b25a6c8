//! Finds the values of a path.
//!
//! **JSON-4** A walk takes at most as many steps as the document has values times the legs of the
//! path: behind a second `**` the same value can be reached on many ways, and is walked through
//! once for each leg.
use super::binary::JsonRef;
use super::path::{Leg, Path};
use super::{JsonError, MAX_DEPTH, Meter, Result};
use std::collections::HashSet;

/// The values of a path in their order in the document, each of them once.
pub fn seek<'a>(value: JsonRef<'a>, path: &Path<'_>, meter: Meter<'_>) -> Result<Vec<JsonRef<'a>>> {
    let mut found = Vec::new();
    let mut walk = Walk::new(path, meter);
    walk.run(value, path, &mut |value, walk| {
        found.push(value);
        // A vector that grows exists twice.
        walk.count(0, 3 * size_of::<JsonRef<'_>>())?;
        Ok(true)
    })?;
    Ok(found)
}

/// Gives the values of a path to `each`, until it says that it wants no more.
pub fn seek_where<'a>(
    value: JsonRef<'a>,
    path: &Path<'_>,
    meter: Meter<'_>,
    each: &mut dyn FnMut(JsonRef<'a>) -> bool,
) -> Result<()> {
    Walk::new(path, meter).run(value, path, &mut |value, _| Ok(each(value)))
}

/// Takes a value; false if no more are wanted.
type Each<'e, 'a, 'm> = &'e mut dyn FnMut(JsonRef<'a>, &mut Walk<'m>) -> Result<bool>;

struct Walk<'m> {
    meter: Meter<'m>,
    /// The number of `**` in the path.
    ellipses: usize,
    /// With two or more `**`: from where they were followed, as the number of the legs that are
    /// left and the value.
    followed: HashSet<(usize, (usize, usize))>,
    /// The values that were found; only a path with `**` finds values twice.
    seen: HashSet<(usize, usize)>,
}

/// The memory of a place in one of the sets, which exist twice while they grow.
const PLACE: usize = 3 * size_of::<(usize, (usize, usize))>();

impl<'m> Walk<'m> {
    fn new(path: &Path<'_>, meter: Meter<'m>) -> Walk<'m> {
        let ellipses = path.legs.iter().filter(|leg| matches!(leg, Leg::Ellipsis)).count();
        Walk { meter, ellipses, followed: HashSet::new(), seen: HashSet::new() }
    }
    fn count(&mut self, values: usize, bytes: usize) -> Result<()> {
        if (self.meter)(values, bytes) { Err(JsonError::Stopped) } else { Ok(()) }
    }
    fn run<'a>(
        &mut self,
        value: JsonRef<'a>,
        path: &Path<'_>,
        each: Each<'_, 'a, 'm>,
    ) -> Result<()> {
        // Each step takes a leg away or goes into a container.
        self.walk(value, &path.legs, each, MAX_DEPTH + path.legs.len() + 2).map(|_| ())
    }
    /// False if `each` wants no more.
    fn walk<'a>(
        &mut self,
        value: JsonRef<'a>,
        legs: &[Leg<'_>],
        each: Each<'_, 'a, 'm>,
        depth: usize,
    ) -> Result<bool> {
        self.count(1, 0)?;
        let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
        let Some((leg, rest)) = legs.split_first() else {
            if self.ellipses > 0 {
                self.count(0, PLACE)?;
                if !self.seen.insert(value.address()) {
                    return Ok(true);
                }
            }
            return each(value, self);
        };
        let container = value.container()?;
        let array = container.filter(|c| !c.is_object());
        let object = container.filter(|c| c.is_object());
        match leg {
            Leg::Member(name) => match object.map(|o| o.find(name)).transpose()?.flatten() {
                Some(member) => self.walk(member, rest, each, depth),
                None => Ok(true),
            },
            Leg::AnyMember => self.walk_some(object, 0..usize::MAX, rest, each, depth),
            Leg::AnyCell => self.walk_some(array, 0..usize::MAX, rest, each, depth),
            Leg::Cell(index) => match array {
                Some(array) => {
                    let place = index.within(array.len());
                    let place = usize::try_from(place).unwrap_or(usize::MAX);
                    self.walk_some(Some(array), place..place.saturating_add(1), rest, each, depth)
                }
                // A value that is no array is the only element of an array.
                None if index.within(1) == 0 => self.walk(value, rest, each, depth),
                None => Ok(true),
            },
            Leg::Range(first, last) => {
                let len = array.map_or(1, |a| a.len());
                let from = first.within(len).max(0) as usize;
                let to = (last.within(len) + 1).max(0) as usize;
                match array {
                    Some(array) => self.walk_some(Some(array), from..to, rest, each, depth),
                    None if (from..to).contains(&0) => self.walk(value, rest, each, depth),
                    None => Ok(true),
                }
            }
            Leg::Ellipsis => {
                if self.ellipses > 1 {
                    self.count(0, PLACE)?;
                    if !self.followed.insert((legs.len(), value.address())) {
                        return Ok(true);
                    }
                }
                if !self.walk(value, rest, each, depth)? {
                    return Ok(false);
                }
                self.walk_some(container, 0..usize::MAX, legs, each, depth)
            }
        }
    }

    fn walk_some<'a>(
        &mut self,
        container: Option<super::Container<'a>>,
        range: std::ops::Range<usize>,
        legs: &[Leg<'_>],
        each: Each<'_, 'a, 'm>,
        depth: usize,
    ) -> Result<bool> {
        let Some(container) = container else { return Ok(true) };
        for n in range.start..range.end.min(container.len()) {
            if !self.walk(container.value(n)?, legs, each, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
