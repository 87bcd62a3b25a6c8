//! TABLE_MAP (19): the table and the columns of the row events behind it.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 6 | table id |
//! | 6 | 2 | flags: 1 |
//! | 8 | 1 + n + 1 | database: length, name, zero |
//! | | 1 + n + 1 | table: length, name, zero |
//! | | 1.. | c, the number of columns, length-encoded |
//! | | c | type of each column ([`crate::Kind`]) |
//! | | 1.. | m, length-encoded |
//! | | m | metadata of the columns that have any |
//! | | (c + 7) / 8 | bit set: the column may be NULL |
//! | | rest | optional metadata (`metadata`) |
use super::metadata;
use crate::bytes::{Input, put_lenenc, put_lenenc_bytes, put_u16};
use crate::table::TABLE_ID_LEN;
use crate::{Column, DecodeError, KeyPart, Kind, RowMetadata, Table, TableId};

const FLAGS: u16 = 1;

/// The body behind the table id.
pub(crate) fn body_behind_id(
    schema: &[u8],
    name: &[u8],
    columns: &[Column],
    key: Option<&[KeyPart]>,
    detail: RowMetadata,
) -> Vec<u8> {
    let mut out = Vec::new();
    put_u16(&mut out, FLAGS);
    for name in [schema, name] {
        // A name has 64 characters of the BMP, so it is shorter.
        let name = &name[..name.len().min(0xff)];
        out.push(name.len() as u8);
        out.extend_from_slice(name);
        out.push(0);
    }
    put_lenenc(&mut out, columns.len() as u64);
    out.extend(columns.iter().map(|column| column.kind.code()));
    let mut types = Vec::new();
    columns.iter().for_each(|column| column.kind.put_metadata(&mut types));
    put_lenenc_bytes(&mut out, &types);
    let nulls = out.len();
    out.resize(nulls + columns.len().div_ceil(8), 0);
    for (i, _) in columns.iter().enumerate().filter(|(_, column)| column.nullable) {
        out[nulls + i / 8] |= 1 << (i % 8);
    }
    metadata::put(&mut out, columns, key, detail);
    out
}

fn name<'a>(input: &mut Input<'a>) -> Result<&'a [u8], DecodeError> {
    let len = usize::from(input.u8()?);
    let name = input.bytes(len)?;
    match input.u8()? {
        0 => Ok(name),
        _ => Err(input.wrong("no zero behind a name")),
    }
}

/// No table has more columns. A short event could otherwise ask for much memory and time.
const MAX_COLUMNS: usize = 4096;

pub(super) fn decode(body: &[u8]) -> Result<Table, DecodeError> {
    let mut input = Input::new(body, "a TABLE_MAP event");
    let id = TableId(input.le(TABLE_ID_LEN)?);
    let map = body[TABLE_ID_LEN..].into();
    input.u16()?;
    let (schema, table_name) = (name(&mut input)?, name(&mut input)?);
    let count = input.count()?;
    if count > MAX_COLUMNS {
        return Err(input.wrong("a table has more than 4096 columns"));
    }
    let types = input.bytes(count)?;
    let mut kinds = Input::new(input.lenenc_bytes()?, "the column metadata of a TABLE_MAP event");
    let nulls = input.bytes(count.div_ceil(8))?;
    let mut columns = Vec::with_capacity(count);
    for (i, code) in types.iter().enumerate() {
        columns.push(Column {
            kind: Kind::decode(*code, &mut kinds, i)?,
            unsigned: false,
            nullable: nulls[i / 8] >> (i % 8) & 1 == 1,
            collation_id: 0,
            name: Vec::new(),
            members: Vec::new(),
            visible: true,
        });
    }
    kinds.end()?;
    let key = metadata::read(input, &mut columns)?;
    Ok(Table { id, schema: schema.to_vec(), name: table_name.to_vec(), columns, key, map })
}
