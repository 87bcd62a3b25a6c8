//! Checks the binary form of a document that comes from outside (JSON-2).
use super::binary::{Container, JsonRef, View};
use super::{JsonError, MAX_DEPTH, Result, key_order};

/// Whether the bytes are a document that keeps the rules: the values of a container follow one
/// another without overlap, its names are in order, and all strings are UTF-8.
pub fn check(document: &[u8]) -> Result<()> {
    let value = JsonRef::new(document)?;
    if !document.is_empty() && value.document_len() != document.len() {
        return Err(JsonError::Damaged);
    }
    check_value(value, 0)
}

fn check_value(value: JsonRef<'_>, depth: usize) -> Result<()> {
    match value.view()? {
        View::Array(container) | View::Object(container) => {
            if depth == MAX_DEPTH {
                return Err(JsonError::TooDeep);
            }
            check_container(container, depth)
        }
        View::Double(v) if !v.is_finite() => Err(JsonError::Damaged),
        _ => Ok(()),
    }
}

fn check_container(container: Container<'_>, depth: usize) -> Result<()> {
    let mut free = container.entries_end()?;
    if container.is_object() {
        for n in 0..container.len() {
            let (from, to) = container.key_range(n)?;
            let key = container.key(n)?;
            let in_order = n == 0 || key_order(container.key_bytes(n - 1)?, key.as_bytes()).is_lt();
            if from < free || !in_order {
                return Err(JsonError::Damaged);
            }
            free = to;
        }
    }
    for n in 0..container.len() {
        let (value, at) = container.value_at(n)?;
        if let Some(at) = at {
            if at < free {
                return Err(JsonError::Damaged);
            }
            free = at + value.document_len() - 1;
        }
        check_value(value, depth + 1)?;
    }
    Ok(())
}
