//! JSON_CONTAINS and JSON_OVERLAPS.
use super::binary::{JsonRef, View};
use super::{JsonError, MAX_DEPTH, Result, compare};

/// Whether the target contains the candidate. An array contains a candidate array if it contains
/// each of its elements, and another candidate if one of its elements contains it. An object
/// contains an object if each member is contained in the member of the same name. Scalars contain
/// their equals.
///
/// Arrays of arrays take the product of their lengths. `stop` is called with the number of values
/// that are met next; if it says true, the answer is [`JsonError::Stopped`].
pub fn contains(
    target: JsonRef<'_>,
    candidate: JsonRef<'_>,
    stop: &mut dyn FnMut(usize) -> bool,
) -> Result<bool> {
    contains_within(target, candidate, MAX_DEPTH, stop)
}

type Stop<'s> = &'s mut dyn FnMut(usize) -> bool;

fn contains_within(
    target: JsonRef<'_>,
    candidate: JsonRef<'_>,
    depth: usize,
    stop: Stop<'_>,
) -> Result<bool> {
    if stop(1 + target.container()?.map_or(0, |c| c.len())) {
        return Err(JsonError::Stopped);
    }
    let inner = || depth.checked_sub(1).ok_or(JsonError::TooDeep);
    match (target.view()?, candidate.view()?) {
        (View::Array(elements), View::Array(wanted)) => {
            // Scalars are found in a sorted list, so that long arrays do not take their product.
            let sorted = sorted_keys(elements.values())?;
            for value in wanted.values() {
                let value = value?;
                let found = if value.container()?.is_none() {
                    has_key(&sorted, value)? || any_array_contains(target, value, inner()?, stop)?
                } else {
                    any_contains(target, value, inner()?, stop)?
                };
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (View::Array(_), _) => any_contains(target, candidate, inner()?, stop),
        (View::Object(members), View::Object(wanted)) => {
            let depth = inner()?;
            for n in 0..wanted.len() {
                let Some(member) = members.find(wanted.key(n)?)? else { return Ok(false) };
                if !contains_within(member, wanted.value(n)?, depth, stop)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (View::Object(_), _) => Ok(false),
        _ => Ok(compare(target, candidate)?.is_eq()),
    }
}

fn any_contains(
    array: JsonRef<'_>,
    candidate: JsonRef<'_>,
    depth: usize,
    stop: Stop<'_>,
) -> Result<bool> {
    let Some(array) = array.container()? else { return Ok(false) };
    let is_array = candidate.is_array();
    for element in array.values() {
        let element = element?;
        // An array in an array contains a scalar only by way of a candidate that is an array.
        if (!is_array || element.is_array()) && contains_within(element, candidate, depth, stop)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn any_array_contains(
    array: JsonRef<'_>,
    scalar: JsonRef<'_>,
    depth: usize,
    stop: Stop<'_>,
) -> Result<bool> {
    let Some(array) = array.container()? else { return Ok(false) };
    for element in array.values() {
        let element = element?;
        if element.is_array() && contains_within(element, scalar, depth, stop)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn key(value: JsonRef<'_>) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    super::push_sort_key(value, &mut key)?;
    Ok(key)
}

fn sorted_keys<'a>(values: impl Iterator<Item = Result<JsonRef<'a>>>) -> Result<Vec<Vec<u8>>> {
    let mut keys = values.map(|value| key(value?)).collect::<Result<Vec<_>>>()?;
    keys.sort_unstable();
    Ok(keys)
}

fn has_key(sorted: &[Vec<u8>], value: JsonRef<'_>) -> Result<bool> {
    Ok(sorted.binary_search(&key(value)?).is_ok())
}

/// Whether two values have an element in common (arrays), a member in common with an equal value
/// (objects), or are equal (scalars). A value beside an array is an array of itself.
pub fn overlaps(a: JsonRef<'_>, b: JsonRef<'_>) -> Result<bool> {
    match (a.view()?, b.view()?) {
        (View::Array(x), View::Array(y)) => {
            let (few, many) = if x.len() < y.len() { (x, y) } else { (y, x) };
            let sorted = sorted_keys(few.values())?;
            for value in many.values() {
                if has_key(&sorted, value?)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (View::Array(x), _) => any_equal(x, b),
        (_, View::Array(y)) => any_equal(y, a),
        (View::Object(x), View::Object(y)) => {
            for n in 0..x.len() {
                if let Some(other) = y.find(x.key(n)?)?
                    && compare(x.value(n)?, other)?.is_eq()
                {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Ok(compare(a, b)?.is_eq()),
    }
}

fn any_equal(array: super::Container<'_>, value: JsonRef<'_>) -> Result<bool> {
    for element in array.values() {
        if compare(element?, value)?.is_eq() {
            return Ok(true);
        }
    }
    Ok(false)
}
