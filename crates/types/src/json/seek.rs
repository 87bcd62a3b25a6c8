//! Finds the values of a path.
use super::binary::JsonRef;
use super::path::{Leg, Path};
use super::{JsonError, MAX_DEPTH, Result};
use std::collections::HashSet;

/// The values of a path in their order in the document, each of them once.
pub fn seek<'a>(value: JsonRef<'a>, path: &Path<'_>) -> Result<Vec<JsonRef<'a>>> {
    let mut found = Vec::new();
    seek_where(value, path, &mut |value| {
        found.push(value);
        true
    })?;
    Ok(found)
}

/// Gives the values of a path to `each`, until it says that it wants no more.
pub fn seek_where<'a>(
    value: JsonRef<'a>,
    path: &Path<'_>,
    each: &mut dyn FnMut(JsonRef<'a>) -> bool,
) -> Result<()> {
    // Only a path with `**` finds values twice.
    let twice = path.legs.iter().filter(|leg| matches!(leg, Leg::Ellipsis)).count() > 0;
    let mut seen = HashSet::new();
    let mut new = |value: JsonRef<'a>| {
        if twice && !seen.insert(value.address()) { true } else { each(value) }
    };
    walk(value, &path.legs, &mut new, MAX_DEPTH + path.legs.len()).map(|_| ())
}

/// False if `each` wants no more.
fn walk<'a>(
    value: JsonRef<'a>,
    legs: &[Leg<'_>],
    each: &mut dyn FnMut(JsonRef<'a>) -> bool,
    depth: usize,
) -> Result<bool> {
    let Some((leg, rest)) = legs.split_first() else { return Ok(each(value)) };
    let container = value.container()?;
    let array = container.filter(|c| !c.is_object());
    let object = container.filter(|c| c.is_object());
    match leg {
        Leg::Member(name) => match object.map(|o| o.find(name)).transpose()?.flatten() {
            Some(member) => walk(member, rest, each, depth),
            None => Ok(true),
        },
        Leg::AnyMember => walk_some(object, 0..usize::MAX, rest, each, depth),
        Leg::AnyCell => walk_some(array, 0..usize::MAX, rest, each, depth),
        Leg::Cell(index) => match array {
            Some(array) => {
                let place = index.within(array.len());
                let place = usize::try_from(place).unwrap_or(usize::MAX);
                walk_some(Some(array), place..place.saturating_add(1), rest, each, depth)
            }
            // A value that is no array is the only element of an array.
            None if index.within(1) == 0 => walk(value, rest, each, depth),
            None => Ok(true),
        },
        Leg::Range(first, last) => {
            let len = array.map_or(1, |a| a.len());
            let from = first.within(len).max(0) as usize;
            let to = (last.within(len) + 1).max(0) as usize;
            match array {
                Some(array) => walk_some(Some(array), from..to, rest, each, depth),
                None if (from..to).contains(&0) => walk(value, rest, each, depth),
                None => Ok(true),
            }
        }
        Leg::Ellipsis => {
            let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
            if !walk(value, rest, each, depth)? {
                return Ok(false);
            }
            walk_some(container, 0..usize::MAX, legs, each, depth)
        }
    }
}

fn walk_some<'a>(
    container: Option<super::Container<'a>>,
    range: std::ops::Range<usize>,
    legs: &[Leg<'_>],
    each: &mut dyn FnMut(JsonRef<'a>) -> bool,
    depth: usize,
) -> Result<bool> {
    let Some(container) = container else { return Ok(true) };
    for n in range.start..range.end.min(container.len()) {
        if !walk(container.value(n)?, legs, each, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}
