//! Long strings and JSON documents on their way to the client. They may grow there: a character of
//! latin1 has up to three bytes of UTF-8, and a byte of a document up to six of its text. So their
//! new length is known before they are written (MEM-1), and no second copy of them is made.
use super::row::RowColumn;
use redolith_types::json::{self, JsonRef, View};
use redolith_types::{Charset, Value};

/// Strings are converted in pieces of about this size.
const PIECE: usize = 64 << 10;
/// The bytes of the longest UTF-8 character behind its first byte.
const MOST_BEHIND: usize = 3;

/// The length of a string's first piece, which ends between characters. A string that is not valid
/// UTF-8 is cut between what the conversion takes for characters, too.
fn piece_len(text: &[u8], charset: Charset) -> usize {
    let end = text.len().min(PIECE);
    if end == text.len() || charset.max_len() == 1 {
        return end;
    }
    let begins = |at: &usize| text[*at] & 0xc0 != 0x80;
    (end - MOST_BEHIND..=end).rev().find(begins).unwrap_or(end)
}
fn pieces(mut text: &[u8], charset: Charset) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(piece_len(text, charset));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Appends a string in another character set.
pub fn put_converted(b: &mut Vec<u8>, text: &[u8], from: Charset, to: Charset) {
    pieces(text, from).for_each(|piece| b.extend_from_slice(&from.convert_lossy(piece, to)));
}
fn converted_len(text: &[u8], from: Charset, to: Charset) -> usize {
    pieces(text, from).map(|piece| from.convert_lossy(piece, to).len()).sum()
}

/// Appends the text of a document, in the character set that the client wants.
pub fn put_json(b: &mut Vec<u8>, document: &Value<'_>, column: &RowColumn) {
    let start = b.len();
    document.write_text(None, b);
    let Some((_, to)) = column.convert else { return };
    // The text is in UTF-8, which no other set needs more bytes for, so it is converted in place.
    let (mut read, mut written) = (start, start);
    while read < b.len() {
        let len = piece_len(&b[read..], Charset::Utf8mb4);
        let converted = Charset::Utf8mb4.convert_lossy(&b[read..read + len], to).into_owned();
        b[written..written + converted.len()].copy_from_slice(&converted);
        (read, written) = (read + len, written + converted.len());
    }
    b.truncate(written);
}

/// The bytes of a document's text.
fn printed_len(value: JsonRef<'_>, scratch: &mut Vec<u8>) -> json::Result<usize> {
    Ok(match value.view()? {
        View::Array(container) | View::Object(container) => {
            // The brackets, and ", " between the elements.
            let mut len = 2 + 2 * container.len().saturating_sub(1);
            for n in 0..container.len() {
                if container.is_object() {
                    len += json::quoted_len(container.key(n)?) + ": ".len();
                }
                len += printed_len(container.value(n)?, scratch)?;
            }
            len
        }
        View::String(text) => json::quoted_len(text),
        View::Opaque(kind, bytes) => {
            format!("\"base64:type{kind}:\"").len() + bytes.len().div_ceil(3) * 4
        }
        _ => {
            scratch.clear();
            json::print(value, scratch)?;
            scratch.len()
        }
    })
}

/// More bytes than a number or a point in time takes, but for numbers with rarely so many digits.
const SHORT: usize = 70;

/// The bytes that a row's values take, without the lengths of strings.
pub fn row_bytes(values: &[Value<'_>], columns: &[RowColumn]) -> usize {
    let bytes = |(value, column): (&Value<'_>, &RowColumn)| match (value, column.convert) {
        (Value::Bytes(text), Some((from, to))) if !text.is_ascii() => converted_len(text, from, to),
        (Value::Bytes(text), _) => text.len(),
        (Value::Json(document), _) => {
            // A damaged document is written as far as it is sound.
            let text = JsonRef::new(document).and_then(|v| printed_len(v, &mut Vec::new()));
            text.unwrap_or(document.len())
        }
        (Value::Null, _) => 1,
        _ => SHORT,
    };
    values.iter().zip(columns).map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::capabilities::field_type;

    fn column(convert: Option<(Charset, Charset)>) -> RowColumn {
        RowColumn { field_type: field_type::VAR_STRING, decimals: 0, width: 0, convert }
    }

    #[test]
    fn pieces_are_converted_as_the_whole_is() {
        let mut texts: Vec<Vec<u8>> = vec![b"".into(), b"a".into(), vec![0xe9; PIECE * 2 + 1]];
        for c in ["\u{e9}", "\u{20ac}", "\u{1f600}"] {
            // The borders of pieces lie at each of the character's bytes.
            texts.extend((0..4).map(|n| ["a".repeat(n), c.repeat(PIECE)].concat().into_bytes()));
        }
        texts.push([&b"a".repeat(PIECE - 2)[..], b"\xf0\x80\x80\x80\x80\x80\xe9x\xf0"].concat());
        let sets = [Charset::Latin1, Charset::Ascii, Charset::Utf8mb3, Charset::Utf8mb4];
        for text in &texts {
            for (from, to) in sets.iter().flat_map(|from| sets.map(|to| (*from, to))) {
                let (whole, mut b) = (from.convert_lossy(text, to), b"before".to_vec());
                put_converted(&mut b, text, from, to);
                assert!(b[6..] == *whole, "{from:?} {to:?} of {} bytes", text.len());
                let bytes = row_bytes(&[Value::bytes(text)], &[column(Some((from, to)))]);
                assert!(bytes == whole.len() || text.is_ascii());
            }
        }
    }

    #[test]
    fn the_length_of_a_documents_text_is_known_before() {
        let long = format!("[{}]", vec!["\"\u{e9}\\u0001\u{1f600}\""; PIECE / 4].join(","));
        for text in [
            "null",
            "[]",
            "{}",
            "[1, -2, 1.5, 1e100, true, null, \"\", {\"a\\n\": [[], {}], \"b\": \"\\u0001\u{e9}\"}]",
            &long,
        ] {
            let document = json::parse(text.as_bytes()).unwrap().to_binary().unwrap();
            let value = Value::bytes_as_json(&document);
            for to in [None, Some(Charset::Latin1), Some(Charset::Ascii), Some(Charset::Utf8mb3)] {
                let c = column(to.map(|to| (Charset::Utf8mb4, to)));
                let (printed, mut b) = (value.to_bytes(), b"before".to_vec());
                put_json(&mut b, &value, &c);
                let whole =
                    Charset::Utf8mb4.convert_lossy(&printed, to.unwrap_or(Charset::Utf8mb4));
                assert!(b[6..] == *whole, "{to:?}");
                assert_eq!(row_bytes(&[value.borrow()], &[c]), printed.len());
            }
        }
        for bytes in 0..7 {
            let opaque = json::Json::Opaque(15, vec![9; bytes].into()).to_binary().unwrap();
            let value = Value::bytes_as_json(&opaque);
            assert_eq!(row_bytes(&[value.borrow()], &[column(None)]), value.to_bytes().len());
        }
    }
}
