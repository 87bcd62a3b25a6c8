//! Tests that encoded rows decode to the same values, through updates, wide rows and external
//! columns.
use proptest::prelude::*;
use redolith_types::{Collation, Column, RowLayout, SqlType, Value};

use crate::common::{any_type, nullable_value_of};

type Row = Vec<Value<'static>>;

fn schema() -> impl Strategy<Value = Vec<Column>> {
    // JSON has no keys, so it is not among the types of the key tests.
    let ty = prop_oneof![12 => any_type(), 1 => Just(SqlType::Json)];
    let column =
        (ty, any::<bool>()).prop_map(|(ty, nullable)| Column { nullable, ..Column::new("c", ty) });
    prop::collection::vec(column, 1..20)
}

fn row(columns: &[Column]) -> Vec<BoxedStrategy<Value<'static>>> {
    columns.iter().map(|c| nullable_value_of(&c.ty, c.nullable)).collect()
}

/// A schema, two rows, and the columns that an update takes from the second row.
fn update() -> impl Strategy<Value = (Vec<Column>, Row, Row, Vec<bool>)> {
    schema().prop_flat_map(|columns| {
        let n = columns.len();
        (
            Just(columns.clone()),
            row(&columns),
            row(&columns),
            prop::collection::vec(any::<bool>(), n),
        )
    })
}

/// The bytes of a string or a JSON document.
fn bytes_of<'v>(value: &'v Value<'_>) -> &'v [u8] {
    match value {
        Value::Bytes(bytes) | Value::Json(bytes) => bytes,
        other => panic!("{other:?} has no bytes of its own"),
    }
}

fn encode(layout: &RowLayout, values: &[Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    layout.encode(values, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Tests ROW-1.
    #[test]
    fn rows_round_trip_and_update((columns, old, new, taken) in update()) {
        let layout = RowLayout::new(&columns);
        let payload = encode(&layout, &old);
        prop_assert!(layout.is_well_formed(&payload));
        prop_assert!(!layout.is_well_formed(&payload[..payload.len() - 1]));
        prop_assert!(!layout.has_externals(&payload));
        for (col, value) in old.iter().enumerate() {
            prop_assert_eq!(&layout.get(&payload, col), value);
            prop_assert_eq!(layout.is_null(&payload, col), value.is_null());
        }

        let changes: Vec<(usize, Value<'_>)> = taken
            .iter()
            .enumerate()
            .filter(|(_, t)| **t)
            .map(|(col, _)| (col, new[col].borrow()))
            .collect();
        let merged: Vec<Value<'_>> = (0..old.len())
            .map(|col| if taken[col] { new[col].borrow() } else { old[col].borrow() })
            .collect();
        let mut updated = b"before".to_vec();
        layout.update(&payload, &changes, &mut updated);
        prop_assert_eq!(&updated[6..], &encode(&layout, &merged)[..], "ROW-3");
    }

    #[test]
    fn externals_leave_and_come_back(
        (columns, old, new, taken) in update(),
        page in any::<u32>(),
        len in any::<u64>(),
    ) {
        let layout = RowLayout::new(&columns);
        let payload = encode(&layout, &old);
        let lens: Vec<(usize, usize)> = layout.inline_lens(&payload).collect();
        for (col, inline) in &lens {
            prop_assert_eq!(bytes_of(&old[*col]).len(), *inline);
        }
        let longest = lens.iter().max_by_key(|(_, len)| *len).copied();
        let Some((col, _)) = longest else { return Ok(()) };
        let mut out = Vec::new();
        layout.externalize(&payload, [(col, page, len)], &mut out);
        prop_assert_eq!(layout.payload_len(layout.variable_len(&out)), out.len());
        prop_assert!(layout.is_well_formed(&out) && layout.has_externals(&out));
        prop_assert_eq!(layout.external(&out, col), Some((page, len)));
        prop_assert_eq!(layout.externals(&out).collect::<Vec<_>>(), vec![(col, page, len)]);
        prop_assert!(layout.inline_lens(&out).all(|(c, _)| c != col));
        for other in (0..columns.len()).filter(|c| *c != col) {
            prop_assert_eq!(&layout.get(&out, other), &old[other]);
        }

        // An update of other columns keeps the reference to the external column. An update of the
        // column itself drops the reference.
        let changes: Vec<(usize, Value<'_>)> = taken
            .iter()
            .enumerate()
            .filter(|(c, t)| **t && *c != col)
            .map(|(c, _)| (c, new[c].borrow()))
            .collect();
        let mut updated = Vec::new();
        layout.update(&out, &changes, &mut updated);
        prop_assert_eq!(layout.external(&updated, col), Some((page, len)));
        let mut dropped = Vec::new();
        let other = match old[col] {
            Value::Json(_) => Value::bytes_as_json(&[4, 1]),
            _ => Value::text("x"),
        };
        layout.update(&out, &[(col, other.borrow())], &mut dropped);
        prop_assert!(!layout.has_externals(&dropped));
        prop_assert_eq!(layout.get(&dropped, col), other);

        let mut back = Vec::new();
        layout.internalize(&out, col, bytes_of(&old[col]), &mut back);
        prop_assert_eq!(&back, &payload);

        // The same with room for it, behind something else; and with the next longest outside as
        // well.
        let bytes = bytes_of(&old[col]);
        let mut twice = Vec::new();
        let first = (col, 7, bytes.len() as u64);
        layout.externalize(&payload, [first], &mut twice);
        let next = layout.inline_lens(&twice).max_by_key(|(_, len)| *len);
        if let Some((next, len)) = next {
            let once = std::mem::take(&mut twice);
            let second = (next, 8, len as u64);
            layout.externalize(&once, [second], &mut twice);
            let mut together = Vec::new();
            layout.externalize(&payload, [second, first], &mut together);
            prop_assert_eq!(&together, &twice);
        }
        let mut whole = b"before".to_vec();
        let rooms = layout.make_room(&twice, &mut whole);
        prop_assert_eq!(rooms.len(), 1 + next.is_some() as usize);
        for (at, page) in rooms {
            let of = if page == 7 { col } else { next.unwrap().0 };
            let stored = layout.get(&payload, of);
            prop_assert!(whole[at.clone()].iter().all(|b| *b == 0));
            whole[at].copy_from_slice(bytes_of(&stored));
        }
        prop_assert_eq!(&whole[6..], &payload[..], "ROW-3");
    }

    #[test]
    fn no_bytes_make_the_check_panic(
        columns in schema(),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        RowLayout::new(&columns).is_well_formed(&bytes);
    }
}

#[test]
fn rows_over_32_kib_are_wide() {
    let columns = [
        Column::new("id", SqlType::INT),
        Column::new("a", SqlType::Blob { size: redolith_types::LobSize::Long }),
        Column::new("b", SqlType::VarBinary { len: 9 }),
    ];
    let layout = RowLayout::new(&columns);
    for len in [0x7ffe, 0x7fff, 0x8000, 0x20000] {
        let blob = vec![7; len - 1];
        let values = [Value::Int(1), Value::bytes(&blob), Value::text("b")];
        let payload = encode(&layout, &values);
        assert_eq!(payload[0] & 1 == 1, len > 0x7fff, "ROW-2");
        assert_eq!((0..3).map(|c| layout.get(&payload, c)).collect::<Vec<_>>(), values);
        // Shrinking the row makes it narrow again.
        let mut out = Vec::new();
        layout.update(&payload, &[(1, Value::Null)], &mut out);
        assert_eq!(
            (out[0], layout.get(&out, 1), layout.get(&out, 2)),
            (0, Value::Null, Value::text("b"))
        );
    }
}

/// The bytes are on disk, so they must not change.
#[test]
fn the_layout_is_frozen() {
    let text = |chars| SqlType::VarChar { chars, collation: Collation::Utf8mb4GeneralCi };
    let columns = [
        Column::new("id", SqlType::INT).not_null(),
        Column::new("v", text(9)),
        Column::new("c", SqlType::Char { chars: 4, collation: Collation::Latin1SwedishCi }),
        Column::new("n", SqlType::BIGINT),
    ];
    let layout = RowLayout::new(&columns);
    let payload =
        encode(&layout, &[Value::Int(-2), Value::text("hé"), Value::text("ab  "), Value::Null]);
    assert_eq!(payload, *b"\x00\x08\xfe\xff\xff\xff\0\0\0\0\0\0\0\0\x03\0\x05\0h\xc3\xa9ab");
}
