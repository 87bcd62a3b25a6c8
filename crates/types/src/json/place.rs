//! Places in a document: what a [`JsonRef`] knows, without the borrow. Rows that are made one after
//! another of a document that they own remember where they are by places.
use super::{JsonError, JsonRef, Result};

/// Where a value stands in the bytes of a document.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    kind: u8,
    start: u32,
    len: u32,
}

impl Place {
    /// The place of a value that is part of `document`.
    pub fn of(value: JsonRef<'_>, document: &[u8]) -> Result<Place> {
        let start = (value.bytes.as_ptr() as usize).wrapping_sub(document.as_ptr() as usize);
        let end = start.checked_add(value.bytes.len()).ok_or(JsonError::Damaged)?;
        if end > document.len() {
            return Err(JsonError::Damaged);
        }
        let narrow = |n: usize| u32::try_from(n).map_err(|_| JsonError::TooBig);
        Ok(Place { kind: value.kind, start: narrow(start)?, len: narrow(value.bytes.len())? })
    }
    /// The value at this place of the same document.
    pub fn value(self, document: &[u8]) -> Result<JsonRef<'_>> {
        let start = self.start as usize;
        let bytes = document.get(start..start + self.len as usize).ok_or(JsonError::Damaged)?;
        Ok(JsonRef { kind: self.kind, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Path, parse, print, seek};

    #[test]
    fn a_place_gives_its_value_back() {
        let text = br#"{"a": [1, "zwei", null, true, {"b": 2.5}], "c": 123456789012}"#;
        let document = parse(text).and_then(|json| json.to_binary()).expect("JSON");
        let whole = JsonRef::new(&document).expect("a document");
        for path in ["$", "$.a", "$.a[*]", "$**.b", "$.c"] {
            let path = Path::parse(path).expect("a path");
            for value in seek(whole, &path, &mut |_, _| false).expect("values") {
                let place = Place::of(value, &document).expect("a part of the document");
                let again = place.value(&document).expect("the value");
                let text = |value| {
                    let mut text = Vec::new();
                    print(value, &mut text).expect("printed");
                    text
                };
                assert_eq!(text(value), text(again));
            }
        }
    }

    #[test]
    fn a_place_of_another_document_is_refused() {
        let [one, other] = [vec![4, 1], vec![4, 2]];
        let value = JsonRef::new(&one).expect("a document");
        assert!(Place::of(value, &other).is_err());
        let place = Place::of(value, &one).expect("a place");
        assert!(place.value(&[4]).is_err());
    }
}
