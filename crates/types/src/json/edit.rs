//! Changes of a value at a path, and merging. Only the containers on the way to a change are opened
//! ([`Json::open`]); all else stays in the binary form.
use super::path::{Leg, Path};
use super::{Json, JsonError, MAX_DEPTH, Object, Result};

/// What JSON_SET, JSON_INSERT and JSON_REPLACE do where a value is and where none is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Set,
    Insert,
    Replace,
}

/// The value of a path without wildcards.
fn find<'j, 'a>(json: &'j mut Json<'a>, legs: &[Leg<'_>]) -> Result<Option<&'j mut Json<'a>>> {
    let mut at = json;
    for leg in legs {
        let found = match (leg, at.open()?) {
            (Leg::Member(name), Json::Object(object)) => object.get_mut(name),
            (Leg::Cell(index), Json::Array(elements)) => {
                let place = index.within(elements.len());
                usize::try_from(place).ok().and_then(|n| elements.get_mut(n))
            }
            (Leg::Cell(index), other) if index.within(1) == 0 => Some(other),
            _ => None,
        };
        match found {
            Some(found) => at = found,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// Sets the value at a path.
pub fn set<'a>(json: &mut Json<'a>, path: &Path<'_>, value: Json<'a>, mode: Mode) -> Result<()> {
    if let Some(found) = find(json, &path.legs)? {
        if mode != Mode::Insert {
            *found = value;
        }
        return Ok(());
    }
    if mode == Mode::Replace {
        return Ok(());
    }
    let Some((last, before)) = path.legs.split_last() else { return Ok(()) };
    let Some(parent) = find(json, before)? else { return Ok(()) };
    match (last, parent.open()?) {
        (Leg::Member(name), Json::Object(object)) => {
            object.set(name.clone().into_owned().into(), value);
        }
        (Leg::Cell(index), Json::Array(elements)) => {
            if index.from_end {
                elements.insert(0, value)
            } else {
                elements.push(value)
            }
        }
        // A value that is no array becomes the first element of one, or the last.
        (Leg::Cell(index), other) => {
            let old = std::mem::replace(other, Json::Null);
            *other = Json::Array(if index.from_end { vec![value, old] } else { vec![old, value] });
        }
        _ => {}
    }
    Ok(())
}

/// Removes the value at a path, which has at least one leg.
pub fn remove(json: &mut Json<'_>, path: &Path<'_>) -> Result<()> {
    let Some((last, before)) = path.legs.split_last() else { return Ok(()) };
    let Some(parent) = find(json, before)? else { return Ok(()) };
    match (last, parent.open()?) {
        (Leg::Member(name), Json::Object(object)) => {
            object.remove(name);
        }
        (Leg::Cell(index), Json::Array(elements)) => {
            if let Some(n) = usize::try_from(index.within(elements.len())).ok()
                && n < elements.len()
            {
                elements.remove(n);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Appends a value to the array at a path. A value that is no array becomes an array.
pub fn array_append<'a>(json: &mut Json<'a>, path: &Path<'_>, value: Json<'a>) -> Result<()> {
    let Some(found) = find(json, &path.legs)? else { return Ok(()) };
    match found.open()? {
        Json::Array(elements) => elements.push(value),
        other => {
            let old = std::mem::replace(other, Json::Null);
            *other = Json::Array(vec![old, value]);
        }
    }
    Ok(())
}

/// Inserts a value into an array, before the cell that is the path's last leg.
pub fn array_insert<'a>(json: &mut Json<'a>, path: &Path<'_>, value: Json<'a>) -> Result<()> {
    let Some((Leg::Cell(index), before)) = path.legs.split_last() else { return Ok(()) };
    let Some(parent) = find(json, before)? else { return Ok(()) };
    if let Json::Array(elements) = parent.open()? {
        let place = index.within(elements.len()).max(0) as usize;
        elements.insert(place, value);
    }
    Ok(())
}

fn elements(json: Json<'_>) -> Result<Vec<Json<'_>>> {
    let mut json = json;
    json.open()?;
    Ok(match json {
        Json::Array(elements) => elements,
        other => vec![other],
    })
}

/// JSON_MERGE_PRESERVE: arrays are joined, objects are united with members of one name merged, and
/// other values become arrays.
pub fn merge_preserve<'a>(left: Json<'a>, right: Json<'a>) -> Result<Json<'a>> {
    merge_within(left, right, MAX_DEPTH)
}

fn merge_within<'a>(mut left: Json<'a>, mut right: Json<'a>, depth: usize) -> Result<Json<'a>> {
    let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
    left.open()?;
    right.open()?;
    match (left, right) {
        (Json::Object(left), Json::Object(right)) => {
            let mut members = Vec::with_capacity(left.members().len() + right.members().len());
            let mut right = right.into_members().into_iter().peekable();
            for (name, value) in left.into_members() {
                while let Some(other) = right.next_if(|(other, _)| {
                    super::key_order(other.as_bytes(), name.as_bytes()).is_lt()
                }) {
                    members.push(other);
                }
                let value = match right.next_if(|(other, _)| *other == name) {
                    Some((_, other)) => merge_within(value, other, depth)?,
                    None => value,
                };
                members.push((name, value));
            }
            members.extend(right);
            Ok(Json::Object(Object { members }))
        }
        (left, right) => {
            let mut all = elements(left)?;
            all.extend(elements(right)?);
            Ok(Json::Array(all))
        }
    }
}

/// JSON_MERGE_PATCH (RFC 7396): members of the patch replace, and null removes.
pub fn merge_patch<'a>(target: Json<'a>, patch: Json<'a>) -> Result<Json<'a>> {
    patch_within(target, patch, MAX_DEPTH)
}

fn patch_within<'a>(mut target: Json<'a>, mut patch: Json<'a>, depth: usize) -> Result<Json<'a>> {
    let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
    patch.open()?;
    let Json::Object(patch) = patch else { return Ok(patch) };
    target.open()?;
    let target = match target {
        Json::Object(object) => object,
        _ => Object::default(),
    };
    let mut members = Vec::with_capacity(target.members().len() + patch.members().len());
    let mut old = target.into_members().into_iter().peekable();
    for (name, mut value) in patch.into_members() {
        while let Some(kept) =
            old.next_if(|(kept, _)| super::key_order(kept.as_bytes(), name.as_bytes()).is_lt())
        {
            members.push(kept);
        }
        let before = old.next_if(|(old, _)| *old == name).map(|(_, before)| before);
        value.open()?;
        if !matches!(value, Json::Null) {
            members.push((name, patch_within(before.unwrap_or(Json::Null), value, depth)?));
        }
    }
    members.extend(old);
    Ok(Json::Object(Object { members }))
}
