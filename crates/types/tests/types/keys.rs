//! KEY-1 and KEY-2 for every type and collation: memcmp of keys is the order of the values.
use std::cmp::Ordering;

use proptest::prelude::*;
use redolith_types::{
    Charset, Collation, Column, IndexColumn, IndexDef, KeyLayout, RowLayout, SqlType, Value,
};

use crate::common::{any_type, cut, nullable_value_of};

#[derive(Clone, Debug)]
struct KeyColumn {
    ty: SqlType,
    nullable: bool,
    desc: bool,
    prefix: Option<u32>,
}

fn key_column() -> impl Strategy<Value = KeyColumn> {
    (any_type(), any::<bool>(), any::<bool>(), prop::option::of(1..12u32)).prop_map(
        |(ty, nullable, desc, prefix)| KeyColumn {
            prefix: prefix.filter(|_| ty.is_string() && has_one_weight_each(&ty)),
            ty,
            nullable,
            desc,
        },
    )
}

/// Whether a prefix of characters is a prefix of weights.
fn has_one_weight_each(ty: &SqlType) -> bool {
    let name = ty.compare_collation().name();
    name.ends_with("bin")
        || name == "binary"
        || !(name.contains("0900") || name.contains("unicode"))
}

/// Two rows of the same columns, alike enough that every part of the order decides now and then:
/// the second has the first's values in the leading columns, and may have its strings up to some
/// character with other characters from there.
fn two_rows() -> impl Strategy<Value = (Vec<KeyColumn>, Vec<Value<'static>>, Vec<Value<'static>>)> {
    prop::collection::vec(key_column(), 1..4).prop_flat_map(|columns| {
        let row =
            || columns.iter().map(|c| nullable_value_of(&c.ty, c.nullable)).collect::<Vec<_>>();
        let shared = 0..=columns.len();
        let kept = prop::option::of(0..16usize);
        (Just(columns.clone()), row(), row(), shared, kept).prop_map(
            |(columns, a, mut b, shared, kept)| {
                b[..shared].clone_from_slice(&a[..shared]);
                if let (Some(kept), Some(column)) = (kept, columns.get(shared)) {
                    b[shared] =
                        spliced(&a[shared], &b[shared], column.ty.compare_collation(), kept);
                }
                (columns, a, b)
            },
        )
    })
}

fn spliced(
    head: &Value<'_>,
    tail: &Value<'static>,
    collation: Collation,
    kept: usize,
) -> Value<'static> {
    let (Value::Bytes(head), Value::Bytes(tail)) = (head, tail) else { return tail.clone() };
    let at = |text: &[u8]| collation.charset().prefix_len(text, kept);
    Value::owned([&head[..at(head)], &tail[at(tail)..]].concat())
}

/// Texts of letters, of spaces, of what is before a space, and of characters with several weights
/// or none.
fn text_of(chars: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = String> {
    let alphabet: Vec<char> = "aAéß  \t\0東😀\u{301}\u{ad}\u{a0}\u{fdfa}".chars().collect();
    prop::collection::vec(prop::sample::select(alphabet), chars)
        .prop_map(|chars| chars.into_iter().collect())
}

fn layouts(columns: &[KeyColumn]) -> (RowLayout, KeyLayout) {
    let table: Vec<Column> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| Column { nullable: c.nullable, ..Column::new(format!("c{i}"), c.ty.clone()) })
        .collect();
    let key =
        |(i, c): (usize, &KeyColumn)| IndexColumn { column: i, prefix: c.prefix, desc: c.desc };
    let index = IndexDef {
        name: "i".into(),
        unique: true,
        primary: false,
        columns: columns.iter().enumerate().map(key).collect(),
    };
    (RowLayout::new(&table), KeyLayout::new(&table, &index))
}

fn order_of_values(columns: &[KeyColumn], a: &[Value<'_>], b: &[Value<'_>]) -> Ordering {
    for (column, (a, b)) in columns.iter().zip(a.iter().zip(b)) {
        let order = cut(a, &column.ty, column.prefix)
            .compare(&cut(b, &column.ty, column.prefix), column.ty.compare_collation());
        let order = if column.desc { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn key(layout: &KeyLayout, values: &[Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    layout.encode_values(values, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Tests COLL-1.
    #[test]
    fn keys_order_as_values_do((columns, a, b) in two_rows()) {
        let (rows, keys) = layouts(&columns);
        let (key_a, key_b) = (key(&keys, &a), key(&keys, &b));
        let wanted = order_of_values(&columns, &a, &b);
        prop_assert_eq!(key_a.cmp(&key_b), wanted, "KEY-1: {:?} {:?}", key_a, key_b);
        // KEY-2: equal or neither a prefix of the other
        prop_assert!(key_a == key_b || !key_b.starts_with(&key_a), "KEY-2");

        let mut payload = Vec::new();
        rows.encode(&a, &mut payload);
        let mut from_row = vec![7];
        keys.encode_row(&rows, &payload, &mut from_row);
        prop_assert_eq!(&from_row[1..], &key_a[..]);
        prop_assert_eq!(keys.has_null(&rows, &payload), a.iter().any(Value::is_null));
    }

    /// Equal strings have equal keys of their prefixes, and where prefixes are used for ranges the
    /// order is kept. Strings that compare equal hash equal.
    #[test]
    fn prefixes_and_hashes_follow_the_weights((columns, a, b) in two_rows(), chars in 1..9u32) {
        for (column, (a, b)) in columns.iter().zip(a.iter().zip(&b)) {
            let (Some(a), Some(b)) = (a.as_bytes(), b.as_bytes()) else { continue };
            let collation = column.ty.compare_collation();
            let wanted = collation.compare(a, b);
            let hash = |text: &[u8]| {
                let mut state = std::hash::DefaultHasher::new();
                collation.hash(text, &mut state);
                std::hash::Hasher::finish(&state)
            };
            prop_assert!(wanted.is_ne() || hash(a) == hash(b));
            if !collation.orders_prefixes() || !column.ty.is_string() {
                continue;
            }
            let ty = column.ty.clone();
            let part = KeyColumn { ty, nullable: false, desc: false, prefix: Some(chars) };
            let (_, keys) = layouts(&[part]);
            let order = key(&keys, &[Value::bytes(a)]).cmp(&key(&keys, &[Value::bytes(b)]));
            prop_assert!(order == wanted || order.is_eq(), "{:?}: {:?} {:?}", collation, a, b);
        }
    }

    #[test]
    fn columns_are_skipped_and_prefixes_are_bounded((columns, a, b) in two_rows(), n in 0..4usize) {
        let n = n.min(columns.len());
        let (_, keys) = layouts(&columns);
        let (whole, prefix) = (key(&keys, &a), key(&keys, &a[..n]));
        prop_assert_eq!(keys.skip_columns(&whole, n), prefix.len());
        prop_assert!(whole.starts_with(&prefix));

        // Every key is inside [prefix, successor) exactly if its first n columns are equal.
        let other = key(&keys, &b);
        let mut end = prefix.clone();
        let bounded = KeyLayout::successor(&mut end);
        let inside = other >= prefix && (!bounded || other < end);
        prop_assert_eq!(inside, order_of_values(&columns[..n], &a[..n], &b[..n]).is_eq());
    }

    /// Tests COLL-2.
    #[test]
    fn long_constants_are_in_order_beside_short_values(
        collation in prop::sample::select(Collation::ALL.to_vec()),
        value in text_of(0..=3),
        start in prop::option::of(text_of(0..=5)),
        (repeated, times) in (text_of(1..=1), 1..6000usize),
        end in text_of(0..=3),
        prefix in prop::option::of(1..5u32),
    ) {
        let same = value.clone();
        let constant = [start.unwrap_or(same), repeated.repeat(times), end].concat();
        let charset = collation.charset();
        let (Ok(value), Ok(constant)) = (
            Charset::Utf8mb4.convert(value.as_bytes(), charset),
            Charset::Utf8mb4.convert(constant.as_bytes(), charset),
        ) else {
            return Ok(());
        };
        let ty = match collation {
            Collation::Binary => SqlType::VarBinary { len: 12 },
            _ => SqlType::VarChar { chars: 3, collation },
        };
        let prefix = prefix.filter(|_| collation.orders_prefixes());
        let (_, keys) = layouts(&[KeyColumn { ty, nullable: false, desc: false, prefix }]);
        let of_constant = key(&keys, &[Value::bytes(&constant)]);
        let order = key(&keys, &[Value::bytes(&value)]).cmp(&of_constant);
        let wanted = collation.compare(&value, &constant);
        prop_assert!(
            order == wanted || prefix.is_some() && order.is_eq(),
            "{collation:?} {prefix:?}: {value:?} beside {constant:?} {order:?}, not {wanted:?}"
        );
        // What is made on the way is as much as a piece of the string has.
        prop_assert!(of_constant.capacity() < 100_000, "{}", of_constant.capacity());
    }

    /// Tests KEY-3.
    #[test]
    fn values_are_restored_from_keys((columns, a, _) in two_rows()) {
        let (rows, keys) = layouts(&columns);
        let (mut row, mut restored) = (Vec::new(), Vec::new());
        rows.encode(&a, &mut row);
        rows.encode_nulls(&mut restored);
        prop_assert!(rows.is_well_formed(&restored));
        let entry = [&key(&keys, &a)[..], b"behind"].concat();
        prop_assert_eq!(keys.restore(&entry, &rows, &mut restored), b"behind");
        let whole: Vec<usize> = keys.whole_columns().collect();
        for col in 0..a.len() {
            let wanted = if whole.contains(&col) { rows.get(&row, col) } else { Value::Null };
            prop_assert_eq!(rows.get(&restored, col), wanted);
        }
    }

    #[test]
    fn keys_of_strings_begin_as_their_start_does(
        (columns, a, b) in two_rows(),
        desc in any::<bool>(),
        collation in prop::sample::select(Collation::ALL.to_vec()),
        cut_at in 0..9usize,
    ) {
        let ty = match collation {
            Collation::Binary => SqlType::VarBinary { len: 40 },
            _ => SqlType::VarChar { chars: 40, collation },
        };
        let strings = [&a, &b].map(|row| row.iter().find_map(|v| v.as_bytes().map(<[u8]>::to_vec)));
        let [Some(text), Some(_)] = strings else { return Ok(()) };
        let charset = collation.charset();
        if charset.validate(&text).is_err() {
            return Ok(());
        }
        drop(columns);
        let prefix = text[..charset.prefix_len(&text, cut_at)].to_vec();
        let column = KeyColumn { ty, nullable: true, desc, prefix: None };
        let (_, keys) = layouts(&[column]);
        let mut start = Vec::new();
        keys.encode_start(&[], &prefix, &mut start);
        let key = key(&keys, &[Value::bytes(&text)]);
        prop_assert!(key.starts_with(&start), "{text:?} {prefix:?}: {key:?} begins otherwise than \
            {start:?}");
    }
}

#[test]
fn successors() {
    let successor = |bytes: &[u8]| {
        let mut key = bytes.to_vec();
        KeyLayout::successor(&mut key).then_some(key)
    };
    assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
    assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
    assert_eq!(successor(b"\xff"), None);
    assert_eq!(successor(b""), None);
}

/// The bytes themselves: they are on disk, so a change of them is a change of the format.
#[test]
fn encodings_are_frozen() {
    let text = |collation| SqlType::VarChar { chars: 20, collation };
    let encode = |ty: SqlType, nullable: bool, desc: bool, value: Value<'_>| {
        key(&layouts(&[KeyColumn { ty, nullable, desc, prefix: None }]).1, &[value])
    };
    assert_eq!(encode(SqlType::INT, false, false, Value::Int(-2)), [0x7f, 0xff, 0xff, 0xfe]);
    assert_eq!(encode(SqlType::INT, true, false, Value::Int(1)), [1, 0x80, 0, 0, 1]);
    assert_eq!(encode(SqlType::INT, true, true, Value::Null), [0xff]);
    assert_eq!(
        encode(text(Collation::Utf8mb4GeneralCi), false, false, Value::text("aé ")),
        *b"AE      \x02"
    );
    assert_eq!(
        encode(text(Collation::Utf8mb4Bin), false, false, Value::text("12345678\t")),
        *b"12345678\x01\t       \x02"
    );
    assert_eq!(
        encode(text(Collation::Utf8mb4Bin), false, false, Value::text("12345678x")),
        *b"12345678\x03x       \x02"
    );
    assert_eq!(
        encode(SqlType::VarBinary { len: 20 }, false, false, Value::text("123456789")),
        *b"12345678\x099\0\0\0\0\0\0\0\x01"
    );
    assert_eq!(
        encode(SqlType::VarBinary { len: 20 }, false, false, Value::text("")),
        *b"\0\0\0\0\0\0\0\0\0"
    );
}

#[test]
fn leading_numbers_are_read_back() {
    use redolith_types::IntSize;
    use redolith_types::sql_type::Sign;
    let unsigned = Sign { unsigned: true, ..Sign::SIGNED };
    let ints = [IntSize::Tiny, IntSize::Small, IntSize::Medium, IntSize::Int, IntSize::Big];
    let mut cases = Vec::new();
    for size in ints {
        let signed = [size.min_signed(), -1, 0, 1, size.max_signed()].map(Value::Int);
        cases.extend(signed.map(|v| (SqlType::Int { size, sign: Sign::SIGNED, display: None }, v)));
        cases.extend(
            [0, 1, size.max_unsigned()]
                .map(|v| (SqlType::Int { size, sign: unsigned, display: None }, Value::UInt(v))),
        );
    }
    cases.extend(
        [-1.5f32, 0.0, 3.0]
            .map(|v| (SqlType::Float { digits: None, sign: Sign::SIGNED }, Value::Float(v))),
    );
    cases.extend(
        [-1.5f64, 0.0, 3.0]
            .map(|v| (SqlType::Double { digits: None, sign: Sign::SIGNED }, Value::Double(v))),
    );
    cases.extend([(SqlType::INT, Value::Null), (SqlType::Date, Value::Null)]);
    for ((ty, value), desc) in cases.iter().flat_map(|case| [(case, false), (case, true)]) {
        let column = |nullable| KeyColumn { ty: ty.clone(), nullable, desc, prefix: None };
        for nullable in [true, value.is_null()] {
            let (_, keys) = layouts(&[column(nullable), column(true)]);
            let read = keys.leading_number(&key(&keys, &[value.clone(), Value::Null]));
            assert_eq!(read, Some(value.clone()).filter(|v| !v.is_null()), "{ty:?} {desc}");
        }
    }
    let (_, date) =
        layouts(&[KeyColumn { ty: SqlType::Date, nullable: false, desc: false, prefix: None }]);
    assert_eq!(date.leading_number(&[0; 4]), None);
}

#[test]
fn the_greatest_length_is_known() {
    let layout = |ty, nullable, prefix| {
        let columns = [Column { nullable, ..Column::new("c", ty) }];
        let index = IndexDef {
            columns: vec![IndexColumn { prefix, ..IndexColumn::new(0) }],
            ..IndexDef::secondary("i", false, [])
        };
        KeyLayout::new(&columns, &index).max_len(&columns)
    };
    let text = |chars| SqlType::VarChar { chars, collation: Collation::Utf8mb4GeneralCi };
    let blob = SqlType::Blob { size: redolith_types::LobSize::Normal };
    assert_eq!(layout(SqlType::INT, true, None), Some(5));
    assert_eq!(layout(text(100), false, None), Some(50 * 9));
    assert_eq!(layout(text(100), false, Some(2)), Some(9));
    assert_eq!(
        (layout(blob.clone(), false, None), layout(blob, false, Some(16))),
        (None, Some(18))
    );
}
