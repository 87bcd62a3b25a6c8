//! The optional metadata of a TABLE_MAP event: fields of a type, a length-encoded length, and a
//! value.
//!
//! | type | value | in |
//! |---|---|---|
//! | 1 | a bit per number or YEAR column, the highest first: unsigned | MINIMAL |
//! | 2 | collation id of most string columns, then (string column, id) of the others | MINIMAL |
//! | 3 | collation id of each string column | MINIMAL |
//! | 4 | name of each column | FULL |
//! | 5, 6 | of each SET (5) or ENUM (6) column: the number of members, the members | FULL |
//! | 8 | the columns of the primary key | FULL |
//! | 9 | (column, characters that are indexed or 0) of the primary key, if it has prefixes | FULL |
//! | 10, 11 | as 2 and 3, of the ENUM and SET columns | FULL |
//! | 12 | a bit per column, the highest first: visible | FULL |
//!
//! Numbers are length-encoded, and so are the lengths of texts. Columns are counted among those of
//! their sort: the number 2 in field 2 is the third string column. A writer takes the shorter one
//! of 2 and 3.
use crate::bytes::{Input, lenenc_len, put_lenenc, put_lenenc_bytes};
use crate::{Column, DecodeError, KeyPart, Kind, RowMetadata};

const SIGNEDNESS: u8 = 1;
const DEFAULT_CHARSET: u8 = 2;
const COLUMN_CHARSET: u8 = 3;
const COLUMN_NAME: u8 = 4;
const SET_MEMBERS: u8 = 5;
const ENUM_MEMBERS: u8 = 6;
const SIMPLE_PRIMARY_KEY: u8 = 8;
const PREFIX_PRIMARY_KEY: u8 = 9;
const MEMBERS_DEFAULT_CHARSET: u8 = 10;
const MEMBERS_COLUMN_CHARSET: u8 = 11;
const VISIBILITY: u8 = 12;

fn put_field(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    if !value.is_empty() {
        out.push(field);
        put_lenenc_bytes(out, value);
    }
}

/// One bit per item, the highest of each byte first.
fn bits(items: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (i, is_set) in items.enumerate() {
        if i % 8 == 0 {
            bytes.push(0);
        }
        bytes[i / 8] |= u8::from(is_set) << (7 - i % 8);
    }
    bytes
}

fn is_set_column(column: &Column) -> bool {
    matches!(column.kind, Kind::Set { .. })
}

fn is_enum_column(column: &Column) -> bool {
    matches!(column.kind, Kind::Enum { .. })
}

/// Appends the fields.
pub(super) fn put(
    out: &mut Vec<u8>,
    columns: &[Column],
    key: Option<&[KeyPart]>,
    detail: RowMetadata,
) {
    let numbers = columns.iter().filter(|column| column.kind.has_sign());
    put_field(out, SIGNEDNESS, &bits(numbers.map(|column| column.unsigned)));
    let strings = columns.iter().filter(|column| column.kind.is_string());
    put_charsets(out, strings, DEFAULT_CHARSET, COLUMN_CHARSET);
    if detail == RowMetadata::Minimal {
        return;
    }
    let mut names = Vec::new();
    columns.iter().for_each(|column| put_lenenc_bytes(&mut names, &column.name));
    put_field(out, COLUMN_NAME, &names);
    put_field(out, SET_MEMBERS, &members(columns.iter().filter(|c| is_set_column(c))));
    put_field(out, ENUM_MEMBERS, &members(columns.iter().filter(|c| is_enum_column(c))));
    put_key(out, key.unwrap_or(&[]));
    let with_members = columns.iter().filter(|column| column.kind.has_members());
    put_charsets(out, with_members, MEMBERS_DEFAULT_CHARSET, MEMBERS_COLUMN_CHARSET);
    put_field(out, VISIBILITY, &bits(columns.iter().map(|column| column.visible)));
}

fn members<'a>(columns: impl Iterator<Item = &'a Column>) -> Vec<u8> {
    let mut value = Vec::new();
    for column in columns {
        put_lenenc(&mut value, column.members.len() as u64);
        column.members.iter().for_each(|member| put_lenenc_bytes(&mut value, member));
    }
    value
}

fn put_key(out: &mut Vec<u8>, key: &[KeyPart]) {
    let has_prefix = key.iter().any(|part| part.prefix > 0);
    let mut value = Vec::new();
    for part in key {
        put_lenenc(&mut value, part.column as u64);
        if has_prefix {
            put_lenenc(&mut value, u64::from(part.prefix));
        }
    }
    put_field(out, if has_prefix { PREFIX_PRIMARY_KEY } else { SIMPLE_PRIMARY_KEY }, &value);
}

/// Appends the collations of some columns as a default and exceptions, or one by one if that is
/// shorter.
fn put_charsets<'a>(
    out: &mut Vec<u8>,
    columns: impl Iterator<Item = &'a Column>,
    default_field: u8,
    column_field: u8,
) {
    let ids: Vec<u64> = columns.map(|column| u64::from(column.collation_id)).collect();
    let uses = |id: &u64| ids.iter().filter(|other| *other == id).count();
    // Of collations that are used equally often, the first one is the default.
    let Some(default) = ids.iter().rev().max_by_key(|id| uses(id)).copied() else { return };
    let exceptions = || ids.iter().enumerate().filter(|(_, id)| **id != default);
    let long: usize = ids.iter().map(|id| lenenc_len(*id)).sum();
    let short: usize = lenenc_len(default)
        + exceptions().map(|(i, id)| lenenc_len(i as u64) + lenenc_len(*id)).sum::<usize>();
    let mut value = Vec::new();
    if short < long || ids.len() == 1 {
        put_lenenc(&mut value, default);
        for (i, id) in exceptions() {
            put_lenenc(&mut value, i as u64);
            put_lenenc(&mut value, *id);
        }
        put_field(out, default_field, &value);
    } else {
        ids.iter().for_each(|id| put_lenenc(&mut value, *id));
        put_field(out, column_field, &value);
    }
}

/// Reads the fields into the columns. Returns the primary key.
pub(super) fn read(
    mut input: Input<'_>,
    columns: &mut [Column],
) -> Result<Option<Vec<KeyPart>>, DecodeError> {
    let mut key = None;
    while !input.is_empty() {
        let field = input.u8()?;
        let mut value =
            Input::new(input.lenenc_bytes()?, "the optional metadata of a TABLE_MAP event");
        match field {
            SIGNEDNESS => {
                let numbers = columns.iter_mut().filter(|column| column.kind.has_sign());
                read_bits(&mut value, numbers, |column, bit| column.unsigned = bit)?;
            }
            VISIBILITY => {
                read_bits(&mut value, columns.iter_mut(), |column, bit| column.visible = bit)?;
            }
            DEFAULT_CHARSET => read_default(&mut value, columns, Kind::is_string)?,
            MEMBERS_DEFAULT_CHARSET => read_default(&mut value, columns, Kind::has_members)?,
            COLUMN_CHARSET => read_each(&mut value, columns, Kind::is_string)?,
            MEMBERS_COLUMN_CHARSET => read_each(&mut value, columns, Kind::has_members)?,
            COLUMN_NAME => {
                for column in columns.iter_mut() {
                    column.name = value.lenenc_bytes()?.to_vec();
                }
            }
            SET_MEMBERS => read_members(&mut value, columns, is_set_column)?,
            ENUM_MEMBERS => read_members(&mut value, columns, is_enum_column)?,
            SIMPLE_PRIMARY_KEY => key = Some(read_key(&mut value, columns.len(), false)?),
            PREFIX_PRIMARY_KEY => key = Some(read_key(&mut value, columns.len(), true)?),
            // Types of geometry, sizes of vectors, and what is to come.
            _ => drop(value.rest()),
        }
        value.end()?;
    }
    Ok(key)
}

fn read_bits<'a>(
    value: &mut Input<'_>,
    columns: impl Iterator<Item = &'a mut Column>,
    set: impl Fn(&mut Column, bool),
) -> Result<(), DecodeError> {
    let mut byte = 0;
    for (i, column) in columns.enumerate() {
        if i % 8 == 0 {
            byte = value.u8()?;
        }
        set(column, byte >> (7 - i % 8) & 1 == 1);
    }
    Ok(())
}

fn collation_id(value: &mut Input<'_>) -> Result<u16, DecodeError> {
    let id = value.lenenc()?;
    u16::try_from(id).map_err(|_| value.wrong("a collation's id is above 65535"))
}

fn read_default(
    value: &mut Input<'_>,
    columns: &mut [Column],
    is_of_sort: fn(Kind) -> bool,
) -> Result<(), DecodeError> {
    let mut columns: Vec<_> = columns.iter_mut().filter(|c| is_of_sort(c.kind)).collect();
    let default = collation_id(value)?;
    columns.iter_mut().for_each(|column| column.collation_id = default);
    while !value.is_empty() {
        let (at, id) = (value.lenenc()?, collation_id(value)?);
        let column = usize::try_from(at).ok().and_then(|at| columns.get_mut(at));
        column.ok_or(value.wrong("a column that is not there"))?.collation_id = id;
    }
    Ok(())
}

fn read_each(
    value: &mut Input<'_>,
    columns: &mut [Column],
    is_of_sort: fn(Kind) -> bool,
) -> Result<(), DecodeError> {
    for column in columns.iter_mut().filter(|column| is_of_sort(column.kind)) {
        column.collation_id = collation_id(value)?;
    }
    Ok(())
}

fn read_members(
    value: &mut Input<'_>,
    columns: &mut [Column],
    is_of_sort: fn(&Column) -> bool,
) -> Result<(), DecodeError> {
    for column in columns.iter_mut().filter(|column| is_of_sort(column)) {
        let count = value.count()?;
        column.members.clear();
        for _ in 0..count {
            column.members.push(value.lenenc_bytes()?.to_vec());
        }
    }
    Ok(())
}

fn read_key(
    value: &mut Input<'_>,
    columns: usize,
    has_prefixes: bool,
) -> Result<Vec<KeyPart>, DecodeError> {
    let mut key = Vec::new();
    while !value.is_empty() {
        let at = value.lenenc()?;
        let prefix = if has_prefixes { value.lenenc()? } else { 0 };
        let column = usize::try_from(at).ok().filter(|at| *at < columns);
        let column = column.ok_or(value.wrong("a key has a column that is not there"))?;
        let prefix = u32::try_from(prefix).map_err(|_| value.wrong("a prefix is too long"))?;
        key.push(KeyPart { column, prefix });
    }
    Ok(key)
}
