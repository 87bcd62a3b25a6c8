use super::edit::{self, Mode};
use super::*;
use proptest::prelude::*;

fn binary(text: &str) -> Vec<u8> {
    parse(text.as_bytes()).unwrap().to_binary().unwrap()
}

fn text(document: &[u8]) -> String {
    let mut out = Vec::new();
    print(JsonRef::new(document).unwrap(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn normal(of: &str) -> String {
    text(&binary(of))
}

/// JSON-3, too.
#[test]
fn text_becomes_normal() {
    for (given, normal_form) in [
        (r#" { "b" : [1,2] , "a":1,"a":2 } "#, r#"{"a": 2, "b": [1, 2]}"#),
        (r#"{"bb":1,"c":2,"a":3}"#, r#"{"a": 3, "c": 2, "bb": 1}"#),
        ("[]", "[]"),
        ("{}", "{}"),
        ("-0", "0"),
        ("1.0", "1.0"),
        ("1e20", "1e20"),
        ("1e2", "100.0"),
        ("-1.5e-7", "-0.00000015"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e19"),
        (r#""A\u00e9\ud83d\ude00\n\u0001\/""#, "\"A\u{e9}\u{1f600}\\n\\u0001/\""),
        ("[null,true,false]", "[null, true, false]"),
    ] {
        assert_eq!(normal(given), normal_form, "{given}");
    }
}

#[test]
fn wrong_text_has_a_place() {
    for (given, why, position) in [
        ("", "The document is empty.", 0),
        ("  ", "The document is empty.", 2),
        ("hello", "Invalid value.", 0),
        ("[1, 2", "Missing a comma or ] after an array element.", 5),
        ("[1,", "Invalid value.", 3),
        ("nul", "Invalid value.", 3),
        ("1 2", "The document root must not be followed by other values.", 2),
        (r#"{"a" 1}"#, "Missing a colon after a name of object member.", 5),
        (r#"{"a": 1, }"#, "Missing a name for object member.", 9),
        (r#"{"a": 1 "b"}"#, "Missing a comma or } after an object member.", 8),
        (r#""abc"#, "Missing a closing quotation mark in string.", 4),
        (r#""a\x""#, "Invalid escape character in string.", 2),
        (r#""\u12g4""#, "Incorrect hex digit after \\u escape in string.", 1),
        (r#""\ud800x""#, "The surrogate pair in string is invalid.", 1),
        ("1.", "Miss fraction part in number.", 2),
        ("1e", "Miss exponent in number.", 2),
        ("1e999", "Number too big to be stored in double.", 0),
    ] {
        let error = parse(given.as_bytes()).unwrap_err();
        assert_eq!(error, JsonError::Text { why, position }, "{given}");
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let inside = Json::Array(vec![Json::Double(number)]);
        assert_eq!(inside.to_binary().unwrap_err(), JsonError::NotFinite);
        assert_eq!(Json::Double(number).to_binary().unwrap_err().code(), 1690);
    }
}

/// JSON-1.
#[test]
fn the_depth_is_limited() {
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    let deepest = binary(&nested(100));
    check(&deepest).unwrap();
    assert_eq!(parse(nested(101).as_bytes()).unwrap_err(), JsonError::TooDeep);
    let around = Json::Array(vec![Json::Raw(JsonRef::new(&deepest).unwrap())]);
    assert_eq!(around.to_binary().unwrap_err(), JsonError::TooDeep);
    let scalar_inside = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let document = binary(&scalar_inside);
    check(&document).unwrap();
    assert_eq!(JsonRef::new(&document).unwrap().depth(), Ok(101));
}

#[test]
fn the_binary_form_is_mysqls() {
    // The object {"a": 2}: a small object of one member, whose value is in its entry.
    assert_eq!(binary(r#"{"a": 2}"#), [0, 1, 0, 12, 0, 11, 0, 1, 0, 5, 2, 0, b'a']);
    assert_eq!(binary("[\"ab\"]"), [2, 1, 0, 10, 0, 12, 7, 0, 2, b'a', b'b']);
    assert_eq!(binary("[100000]"), [2, 1, 0, 11, 0, 7, 7, 0, 0xa0, 0x86, 1, 0]);
    assert_eq!(binary("true"), [4, 1]);
    // A decimal is opaque: its type, length, precision and scale, and the packed digits.
    let decimal = Json::Decimal(Decimal::parse(b"12.5").unwrap()).to_binary().unwrap();
    assert_eq!(decimal, [15, 246, 4, 3, 1, 0x8c, 5]);
    assert_eq!(text(&decimal), "12.5");
    let day = Date::new(2015, 1, 15).unwrap();
    assert_eq!(text(&Json::Date(day).to_binary().unwrap()), "\"2015-01-15\"");
    let opaque = Json::Opaque(15, Cow::Borrowed(&[1, 2, 3])).to_binary().unwrap();
    assert_eq!(text(&opaque), "\"base64:type15:AQID\"");
}

#[test]
fn long_containers_are_large() {
    let long = format!("[{}, [1, 100000], \"{}\"]", ["7"; 30_000].join(", "), "x".repeat(300));
    let document = binary(&long);
    assert_eq!(document[0], 3, "a large array");
    check(&document).unwrap();
    assert_eq!(text(&document), long);
    let many = format!("[{}]", ["100000"; 10_000].join(", "));
    let document = binary(&many);
    assert_eq!(document.len(), 1 + 8 + 10_000 * 5, "32-bit numbers are in the entries");
    assert_eq!(text(&document), many);
}

fn ordered(values: &[&str]) {
    let documents: Vec<_> = values.iter().map(|v| binary(v)).collect();
    for (n, a) in documents.iter().enumerate() {
        for (m, b) in documents.iter().enumerate() {
            let order = compare(JsonRef::new(a).unwrap(), JsonRef::new(b).unwrap()).unwrap();
            assert_eq!(order, n.cmp(&m), "{} {}", values[n], values[m]);
        }
    }
}

#[test]
fn values_have_mysqls_order() {
    ordered(&[
        "null",
        "-1e300",
        "-2",
        "-1.5",
        "0",
        "0.1",
        "1",
        "9007199254740993",
        "1e300",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"b\"",
        "{}",
        "{\"a\": 1}",
        "{\"a\": 2}",
        "[]",
        "[1]",
        "[1, 2]",
        "[2]",
        "false",
        "true",
    ]);
}

#[test]
fn paths_find_their_values() {
    let document = binary(r#"{"a": [1, {"b": 2}, [3]], "c d": 4, "e": {"b": 5}}"#);
    let value = JsonRef::new(&document).unwrap();
    for (path, found) in [
        ("$", r#"{"a": [1, {"b": 2}, [3]], "e": {"b": 5}, "c d": 4}"#),
        ("$.a[0]", "1"),
        ("$.a[1].b", "2"),
        ("$.\"c d\"", "4"),
        ("$.a[last]", "[3]"),
        ("$.a[last - 1].b", "2"),
        ("$.a[0 to 1]", "1;{\"b\": 2}"),
        ("$.a[last-1 to last]", "{\"b\": 2};[3]"),
        ("$**.b", "2;5"),
        ("$.*", "[1, {\"b\": 2}, [3]];{\"b\": 5};4"),
        ("$.a[*]", "1;{\"b\": 2};[3]"),
        ("$[0].e[last]", "{\"b\": 5}"),
        ("$.a[0][0]", "1"),
        ("$.a[3]", ""),
        ("$.x", ""),
    ] {
        let parsed = Path::parse(path).unwrap();
        let values = seek(value, &parsed, &mut |_, _| false).unwrap();
        let texts: Vec<_> = values.iter().map(|v| text(&v.to_vec())).collect();
        assert_eq!(texts.join(";"), found, "{path}");
    }
    for wrong in [
        "",
        "a",
        "$.",
        "$[",
        "$[a]",
        "$**",
        "$.a**",
        "$[2 to 1]",
        "$[last to last-1]",
        "$a",
        "$***.a",
    ] {
        assert!(Path::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_manuals_changes() {
    let change = |document: &str, path: &str, value: &str, mode| {
        let mut json = parse(document.as_bytes()).unwrap();
        let value = parse(value.as_bytes()).unwrap();
        edit::set(&mut json, &Path::parse(path).unwrap(), value, mode).unwrap();
        text(&json.to_binary().unwrap())
    };
    let document = r#"{"a": 1, "b": [2, 3]}"#;
    assert_eq!(change(document, "$.a", "10", Mode::Set), r#"{"a": 10, "b": [2, 3]}"#);
    assert_eq!(change(document, "$.a", "10", Mode::Insert), document);
    assert_eq!(change(document, "$.c", "4", Mode::Replace), document);
    assert_eq!(change(document, "$.c", "4", Mode::Insert), r#"{"a": 1, "b": [2, 3], "c": 4}"#);
    assert_eq!(change(document, "$.b[5]", "4", Mode::Set), r#"{"a": 1, "b": [2, 3, 4]}"#);
    assert_eq!(change("1", "$[1]", "4", Mode::Set), "[1, 4]");

    let both = |f: fn(Json<'static>, Json<'static>) -> Result<Json<'static>>, a, b| {
        let of = |t: &'static str| parse(t.as_bytes()).unwrap();
        text(&f(of(a), of(b)).unwrap().to_binary().unwrap())
    };
    let preserve = edit::merge_preserve;
    assert_eq!(both(preserve, "[1, 2]", "[true, false]"), "[1, 2, true, false]");
    assert_eq!(both(preserve, "1", "true"), "[1, true]");
    assert_eq!(both(preserve, "[1, 2]", r#"{"id": 47}"#), r#"[1, 2, {"id": 47}]"#);
    assert_eq!(
        both(preserve, r#"{"a": 1, "b": 2}"#, r#"{"a": 3, "c": 4}"#),
        r#"{"a": [1, 3], "b": 2, "c": 4}"#
    );
    let patch = edit::merge_patch;
    assert_eq!(both(patch, r#"{"a": 1, "b": 2}"#, r#"{"b": null}"#), r#"{"a": 1}"#);
    assert_eq!(
        both(patch, r#"{"a": {"x": 1}}"#, r#"{"a": {"y": 2}}"#),
        r#"{"a": {"x": 1, "y": 2}}"#
    );
    assert_eq!(both(patch, "1", r#"{"a": {"b": null}}"#), r#"{"a": {}}"#);
}

/// Texts of values, of all kinds.
fn any_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_string()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        (-40_000i32..40_000).prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("finite", |v| v.is_finite()).prop_map(|v| format!("{v:e}")),
        ".{0,8}".prop_map(|s| {
            let mut out = Vec::new();
            quote(&s, &mut out);
            String::from_utf8(out).unwrap()
        }),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec(("[a-c]{1,3}", inner), 0..6).prop_map(|v| {
                let members: Vec<_> = v.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn flips() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Printed text is the text of the same value, and its binary form is the same.
    #[test]
    fn text_and_binary_come_back(given in any_text()) {
        let document = binary(&given);
        check(&document).unwrap();
        let printed = text(&document);
        prop_assert_eq!(text(&binary(&printed)), printed.clone());
        let value = JsonRef::new(&document).unwrap();
        prop_assert_eq!(value.open().unwrap().to_binary().unwrap(), document.clone());
        let mut lines = Vec::new();
        pretty(value, &mut lines, &mut |_, _| false).unwrap();
        prop_assert_eq!(text(&parse(&lines).unwrap().to_binary().unwrap()), printed);
    }

    /// The sort keys have the order of the values.
    #[test]
    fn sort_keys_compare_as_values(a in any_text(), b in any_text()) {
        let (a, b) = (binary(&a), binary(&b));
        let (a, b) = (JsonRef::new(&a).unwrap(), JsonRef::new(&b).unwrap());
        let (mut x, mut y) = (Vec::new(), Vec::new());
        push_sort_key(a, &mut x).unwrap();
        push_sort_key(b, &mut y).unwrap();
        prop_assert_eq!(compare(a, b).unwrap(), x.cmp(&y));
        prop_assert_eq!(compare(b, a).unwrap(), y.cmp(&x));
    }

    /// JSON-2: no bytes make a panic, and what passes the check can be printed.
    #[test]
    fn damage_is_an_error(given in any_text(), flips in flips()) {
        let mut document = binary(&given);
        for (place, byte) in flips {
            let n = place.index(document.len());
            document[n] = byte;
        }
        let sound = check(&document).is_ok();
        let Ok(value) = JsonRef::new(&document) else {
            prop_assert!(!sound);
            return Ok(());
        };
        let mut out = Vec::new();
        let printed = print(value, &mut out);
        prop_assert!(printed.is_ok() || !sound);
        if sound {
            let path = Path::parse("$**.a").unwrap();
            seek(value, &path, &mut |_, _| false).unwrap();
            push_sort_key(value, &mut out).unwrap();
            contains(value, value, &mut |_, _| false).unwrap();
            value.open().unwrap().to_binary().unwrap();
        }
    }
}

#[test]
fn long_comparisons_are_stopped() {
    let arrays = binary(&format!("[{}]", ["[1, 2]"; 1000].join(", ")));
    let other = binary(&format!("[{}]", ["[1, 3]"; 1000].join(", ")));
    let (a, b) = (JsonRef::new(&arrays).unwrap(), JsonRef::new(&other).unwrap());
    let mut met = 0;
    let stopped = contains(a, b, &mut |n, _| {
        met += n;
        met > 2000
    });
    assert_eq!(stopped, Err(JsonError::Stopped));
    assert_eq!(contains(a, a, &mut |_, _| false), Ok(true));
}

/// Tests JSON-4: behind several `**`, a value is walked through once for each leg.
#[test]
fn walks_of_many_legs_end() {
    let deep = binary(&format!("{}1{}", "{\"a\":".repeat(99), "}".repeat(99)));
    let value = JsonRef::new(&deep).unwrap();
    for (legs, values) in [("**.a".repeat(20), 80), ("**[0]".repeat(300), 100)] {
        let (text, mut met) = (format!("${legs}"), 0);
        let path = Path::parse(&text).unwrap();
        let found = seek(value, &path, &mut |n, _| {
            met += n;
            false
        });
        assert_eq!(found.unwrap().len(), values, "{text}");
        assert!(met <= 4 * 100 * path.legs.len() + 1000, "{met}");
    }
    let path = Path::parse("$**.a**.a").unwrap();
    assert_eq!(seek(value, &path, &mut |n, _| n > 0).err(), Some(JsonError::Stopped));
    assert!(Path::parse(&format!("${}", "[0]".repeat(1000))).is_ok());
    assert_eq!(Path::parse(&format!("${}", "[0]".repeat(1001))), Err(3001));
}

#[test]
fn lengths_are_told_before_the_text_is_made() {
    for text in ["", "a", "\"\\\n\u{1}\u{8}é", "\u{1f}\u{7f}"] {
        let mut quoted = Vec::new();
        quote(text, &mut quoted);
        assert_eq!(quoted_len(text), quoted.len(), "{text:?}");
    }
    let (long, mut told) = (binary(&format!("[{}1]", "1,".repeat(200_000))), 0);
    let value = JsonRef::new(&long).unwrap();
    let mut out = Vec::new();
    let refused = pretty(value, &mut out, &mut |_, bytes| {
        told += bytes;
        told > 100_000
    });
    assert!(refused == Err(JsonError::Stopped) && out.len() < 300_000, "{}", out.len());
}

#[test]
fn patches_are_merged_in_the_order_of_names() {
    let patched = |target: &str, patch: &str| {
        let (target, patch) = (binary(target), binary(patch));
        let of = |bytes| Json::Raw(JsonRef::new(bytes).unwrap());
        text(&edit::merge_patch(of(&target), of(&patch)).unwrap().to_binary().unwrap())
    };
    for (target, patch, answer) in [
        (r#"{"b":1,"d":2}"#, r#"{"a":0,"c":null,"d":null,"e":9}"#, r#"{"a": 0, "b": 1, "e": 9}"#),
        (r#"{"a":{"x":1,"y":2}}"#, r#"{"a":{"y":null,"z":3}}"#, r#"{"a": {"x": 1, "z": 3}}"#),
        ("[1]", r#"{"a":{"b":null,"c":1}}"#, r#"{"a": {"c": 1}}"#),
        (r#"{"a":1}"#, "7", "7"),
    ] {
        assert_eq!(patched(target, patch), answer);
    }
}
