//! JSON: texts that clients send, and documents in the binary form from pages and binary logs.
use redolith_types::json::{self, JsonRef, Path, check, compare, edit, parse};

/// A text, and a path behind a zero byte. What is read can be printed and read again.
pub fn text(data: &[u8]) {
    let split = data.iter().position(|b| *b == 0);
    let (text, rest) = data.split_at(split.unwrap_or(data.len()));
    let path = std::str::from_utf8(rest.get(1..).unwrap_or_default()).ok();
    let path = path.and_then(|path| Path::parse(path).ok());
    let Ok(json) = parse(text) else { return };
    let Ok(document) = json.to_binary() else { return };
    check(&document).expect("what was encoded is sound");
    let value = JsonRef::new(&document).expect("sound");
    let mut printed = Vec::new();
    json::print(value, &mut printed).expect("sound");
    let again = parse(&printed).and_then(|json| json.to_binary()).expect("what was printed");
    let same = compare(value, JsonRef::new(&again).expect("sound")).expect("sound");
    assert!(same.is_eq(), "{}", String::from_utf8_lossy(&printed));
    let Some(path) = path else { return };
    json::seek(value, &path, &mut |_, _| false).expect("sound");
    if !path.has_wildcard() {
        let mut changed = json::Json::Raw(value);
        edit::set(&mut changed, &path, json::Json::Bool(true), edit::Mode::Set).expect("sound");
        if let Ok(changed) = changed.to_binary() {
            check(&changed).expect("a changed document is sound");
        }
    }
}

pub fn text_seeds() -> Vec<Vec<u8>> {
    [
        "{\"a\": [1, -2.5e3, \"x\\u00e9\\n\", null], \"b\": {}}\0$.a[last]",
        "[true, [[]]]\0$**[0 to 1]",
    ]
    .map(|seed| seed.as_bytes().to_vec())
    .to_vec()
}

/// A document. It is damaged, or everything can be done with it.
pub fn binary(data: &[u8]) {
    let sound = check(data).is_ok();
    let Ok(value) = JsonRef::new(data) else {
        assert!(!sound, "a document that was checked");
        return;
    };
    let mut out = Vec::new();
    let printed = json::print(value, &mut out).is_ok();
    let mut key = Vec::new();
    let keyed = json::push_sort_key(value, &mut key).is_ok();
    let opened = value.open().is_ok();
    assert!(!sound || printed && keyed && opened, "a document that was checked");
    if sound {
        assert!(out.len() <= 64 * data.len() + 64, "the text of a document is not endless");
        compare(value, value).expect("sound");
        // Arrays of arrays may take long.
        let mut steps = 100_000;
        let stop = &mut |n: usize, _| {
            steps -= n.min(steps);
            steps == 0
        };
        let answer = json::contains(value, value, stop);
        assert!(matches!(answer, Ok(true) | Err(json::JsonError::Stopped)), "{answer:?}");
    }
}

pub fn binary_seeds() -> Vec<Vec<u8>> {
    let of = |text: &[u8]| parse(text).and_then(|json| json.to_binary()).expect("a seed");
    let mut seeds: Vec<Vec<u8>> =
        text_seeds().iter().map(|s| of(s.split(|b| *b == 0).next().unwrap_or_default())).collect();
    seeds.push(of(format!("[{}]", ["100000"; 14_000].join(",")).as_bytes()));
    seeds
}
