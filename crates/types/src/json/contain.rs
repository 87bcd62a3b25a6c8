//! JSON_CONTAINS and JSON_OVERLAPS.
use super::binary::{JsonRef, View};
use super::{JsonError, MAX_DEPTH, Meter, Result, compare};

/// So few wanted scalars are looked up one by one.
const FEW: usize = 8;

/// Whether the target contains the candidate. An array contains a candidate array if it contains
/// each of its elements, and another candidate if one of its elements contains it. An object
/// contains an object if each member is contained in the member of the same name. Scalars contain
/// their equals.
///
/// Arrays of arrays take the product of their lengths.
pub fn contains(target: JsonRef<'_>, candidate: JsonRef<'_>, meter: Meter<'_>) -> Result<bool> {
    contains_within(target, candidate, MAX_DEPTH, meter)
}

fn count(meter: Meter<'_>, values: usize, bytes: usize) -> Result<()> {
    if meter(values, bytes) { Err(JsonError::Stopped) } else { Ok(()) }
}

fn contains_within(
    target: JsonRef<'_>,
    candidate: JsonRef<'_>,
    depth: usize,
    meter: Meter<'_>,
) -> Result<bool> {
    count(meter, 1 + target.container()?.map_or(0, |c| c.len()), 0)?;
    let inner = || depth.checked_sub(1).ok_or(JsonError::TooDeep);
    match (target.view()?, candidate.view()?) {
        (View::Array(elements), View::Array(wanted)) => {
            // Many scalars are found in a sorted list, so that long arrays do not take their
            // product.
            let mut sorted = None;
            for value in wanted.values() {
                let value = value?;
                let found = if value.container()?.is_none() {
                    let has_scalar = if wanted.len() <= FEW {
                        has_equal(elements.values(), value, meter)?
                    } else {
                        if sorted.is_none() {
                            sorted = Some(sorted_keys(elements.values(), meter)?);
                        }
                        has_key(sorted.as_deref().unwrap_or_default(), value)?
                    };
                    has_scalar || any_array_contains(target, value, inner()?, meter)?
                } else {
                    any_contains(target, value, inner()?, meter)?
                };
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (View::Array(_), _) => any_contains(target, candidate, inner()?, meter),
        (View::Object(members), View::Object(wanted)) => {
            let depth = inner()?;
            for n in 0..wanted.len() {
                let Some(member) = members.find(wanted.key(n)?)? else { return Ok(false) };
                if !contains_within(member, wanted.value(n)?, depth, meter)? {
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
    meter: Meter<'_>,
) -> Result<bool> {
    let Some(array) = array.container()? else { return Ok(false) };
    let is_array = candidate.is_array();
    for element in array.values() {
        let element = element?;
        // An array in an array contains a scalar only by way of a candidate that is an array.
        if (!is_array || element.is_array()) && contains_within(element, candidate, depth, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn any_array_contains(
    array: JsonRef<'_>,
    scalar: JsonRef<'_>,
    depth: usize,
    meter: Meter<'_>,
) -> Result<bool> {
    let Some(array) = array.container()? else { return Ok(false) };
    for element in array.values() {
        let element = element?;
        count(meter, 1, 0)?;
        if element.is_array() && contains_within(element, scalar, depth, meter)? {
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

fn sorted_keys<'a>(
    values: impl Iterator<Item = Result<JsonRef<'a>>>,
    meter: Meter<'_>,
) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    for value in values {
        let key = key(value?)?;
        count(meter, 1, key.capacity() + 2 * size_of::<Vec<u8>>())?;
        keys.push(key);
    }
    keys.sort_unstable();
    Ok(keys)
}

/// Whether one of the values has the key of `wanted`, a scalar.
fn has_equal<'a>(
    values: impl Iterator<Item = Result<JsonRef<'a>>>,
    wanted: JsonRef<'_>,
    meter: Meter<'_>,
) -> Result<bool> {
    let wanted = key(wanted)?;
    let mut here = Vec::new();
    for value in values {
        let value = value?;
        count(meter, 1, 0)?;
        if value.container()?.is_none() {
            here.clear();
            super::push_sort_key(value, &mut here)?;
            if here == wanted {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn has_key(sorted: &[Vec<u8>], value: JsonRef<'_>) -> Result<bool> {
    Ok(sorted.binary_search(&key(value)?).is_ok())
}

/// Whether two values have an element in common (arrays), a member in common with an equal value
/// (objects), or are equal (scalars). A value beside an array is an array of itself.
pub fn overlaps(a: JsonRef<'_>, b: JsonRef<'_>, meter: Meter<'_>) -> Result<bool> {
    match (a.view()?, b.view()?) {
        (View::Array(x), View::Array(y)) => {
            let (few, many) = if x.len() < y.len() { (x, y) } else { (y, x) };
            let sorted = sorted_keys(few.values(), meter)?;
            for value in many.values() {
                count(meter, 4, 0)?;
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
