//! The format of the dictionary's records. Records consist of tagged fields, so that later programs
//! can add fields, and older programs can name the fields that they do not know.
//!
//! A record is a zero byte, a version (1) and fields. A field is `tag u16, length u32, bytes`,
//! little-endian; nested records are the bytes of a field. Numbers are little-endian and as long as
//! their field; text is UTF-8.
//!
//! | record | fields |
//! |---|---|
//! | schema | 1 collation u16 |
//! | table | 1 id u64; 2 space u32; 3 tree, repeated; 4 AUTO_INCREMENT u64; 5 schema; 6 name; 7 column, repeated; 8 index, repeated; 9 collation u16; 10 comment; 11 unfinished tree, repeated; 12 format of its rows u16; 13 options of statistics; 0x8002 check, repeated |
//! | options of statistics | STATS_PERSISTENT u8 and STATS_AUTO_RECALC u8: 0 not said, 1 off, 2 on; STATS_SAMPLE_PAGES u16: 0 not said |
//! | view | as a table: 5, 6, 7 and 9; 0x8001 what is the view's own |
//! | view's own | 1 text of the SELECT; 2 user and 3 host of DEFINER; 4 sql_mode u64; 5 collation of character_set_client u16; 6 collation_connection u16; 7 algorithm u8: 0 UNDEFINED, 1 MERGE, 2 TEMPTABLE; 8 check option u8: 0 none, 1 LOCAL, 2 CASCADED; 9 flags u8: 1 SQL SECURITY INVOKER, 2 rows can be changed, 4 the columns' names are listed |
//! | histogram | 0x8003 what is the histogram's own; 1 checksum of that, CRC-32C |
//! | statistics | 0x8004 what is the statistics' own; 1 checksum of that, CRC-32C |
//! | histogram's own | 1 type; 2 kind u8: 0 singleton, 1 equi-height; 3 share of NULLs f64; 4 share of rows looked at f64; 5 time u64, microseconds since 1970; 6 buckets that were asked for u32; 7 bucket, repeated |
//! | bucket | 1 least value and 2 greatest value (the same without), each a row of a table with one column of the type; 3 cumulative share f64; 4 different values u64 |
//! | statistics' own | 1 table's id u64; 2 rows u64; 3 index, repeated: its id u64, and for its first column, its first two columns and so on the number of different values u64; 4 changes when they were made u64, rows and changes when they were stored u64 each |
//! | tree | id u64, root u32, without tags |
//! | column | 1 name; 2 type; 3 flags u8: 1 nullable, 2 AUTO_INCREMENT, 4 ON UPDATE CURRENT_TIMESTAMP, 8 invisible; 4 default; 5 comment; 0x8005 generation |
//! | generation | 1 expression; 2 flags u8: 1 stored |
//! | default | a byte: 0 NULL, 1 literal and its bytes, 2 CURRENT_TIMESTAMP and its digits, 3 expression and its text |
//! | type | 1 kind u8 ([`kind`]); 2 length or size u32; 3 precision u8; 4 scale u8; 5 sign u8: 1 unsigned, 2 zerofill; 6 display width u8; 7 collation u16; 8 member, repeated |
//! | check | 1 name; 2 condition; 3 flags u8: 1 not enforced |
//! | index | 1 name; 2 flags u8: 1 unique, 2 primary; 3 column, repeated: position u32, prefix u32 (all ones: none), descending u8 |
//!
//! Collations have MySQL's numbers. A program must know all flags and all tags from 0x8000 on: it
//! refuses a record with others and names them. It ignores other unknown tags.
//!
//! Format 2 of the data directory had records without tags (postcard's). They can be read, and
//! become tagged records when they are written the next time. A table's id is at least 1024, so no
//! old table record begins with a zero; an old schema record is one byte long.
mod column;
pub(super) mod histogram;
pub(super) mod statistics;
pub(super) mod view;

use super::record::{SchemaRecord, TableRecord, TreeRecord};
use crate::bytes::{u16_at, u32_at};
use column::{column, decode_column};
use redolith_types::{CheckDef, Collation, IndexColumn, IndexDef, StatisticsOptions, TableDef};
use std::num::NonZeroU16;

const VERSION: u8 = 1;
/// A program must know all tags from this number on.
const CRITICAL: u16 = 0x8000;
/// The field of a check constraint. A program that did not know it would write rows that the
/// constraint forbids.
const CHECK: u16 = CRITICAL + 2;
/// The field of a table's options about its statistics. They change no row, so a program that does
/// not know them passes over them.
const STATISTICS_OPTIONS: u16 = 13;
/// The format of rows that this program writes (`types/row.rs`).
const ROW_FORMAT: u16 = 1;

type Decoded<T> = Result<T, String>;

// ---- writing

struct Fields(Vec<u8>);
impl Fields {
    fn record() -> Fields {
        Fields(vec![0, VERSION])
    }
    fn nested() -> Fields {
        Fields(Vec::new())
    }
    fn put(&mut self, tag: u16, bytes: &[u8]) {
        self.0.extend_from_slice(&tag.to_le_bytes());
        self.0.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }
    /// Puts a text field, unless the text is empty.
    fn put_text(&mut self, tag: u16, text: &str) {
        if !text.is_empty() {
            self.put(tag, text.as_bytes());
        }
    }
}

pub(super) fn encode_schema(r: &SchemaRecord) -> Vec<u8> {
    let mut f = Fields::record();
    f.put(1, &r.collation.id().to_le_bytes());
    f.0
}
pub(super) fn encode_table(r: &TableRecord) -> Vec<u8> {
    let mut f = Fields::record();
    f.put(1, &r.id.to_le_bytes());
    f.put(2, &r.space.to_le_bytes());
    r.trees.iter().for_each(|t| f.put(3, &tree(t)));
    f.put(4, &r.auto_increment.to_le_bytes());
    f.put_text(5, &r.def.schema);
    f.put_text(6, &r.def.name);
    r.def.columns.iter().for_each(|c| f.put(7, &column(c)));
    r.def.indexes.iter().for_each(|i| f.put(8, &index(i)));
    f.put(9, &r.def.collation.id().to_le_bytes());
    f.put_text(10, &r.def.comment);
    r.unfinished.iter().for_each(|t| f.put(11, &tree(t)));
    f.put(12, &ROW_FORMAT.to_le_bytes());
    if r.def.statistics != StatisticsOptions::default() {
        f.put(STATISTICS_OPTIONS, &statistics_options(&r.def.statistics));
    }
    r.def.checks.iter().for_each(|c| f.put(CHECK, &check_constraint(c)));
    f.0
}
fn statistics_options(o: &StatisticsOptions) -> [u8; 4] {
    let switch = |said: Option<bool>| said.map_or(0, |on| 1 + on as u8);
    let [low, high] = o.sample_pages.map_or(0, NonZeroU16::get).to_le_bytes();
    [switch(o.persistent), switch(o.auto_recalc), low, high]
}
fn check_constraint(c: &CheckDef) -> Vec<u8> {
    let mut f = Fields::nested();
    f.put_text(1, &c.name);
    f.put_text(2, &c.condition);
    f.put(3, &[!c.enforced as u8]);
    f.0
}
fn tree(t: &TreeRecord) -> [u8; 12] {
    let mut b = [0; 12];
    b[..8].copy_from_slice(&t.id.to_le_bytes());
    b[8..].copy_from_slice(&t.root.to_le_bytes());
    b
}
fn index(i: &IndexDef) -> Vec<u8> {
    let mut f = Fields::nested();
    f.put_text(1, &i.name);
    f.put(2, &[i.unique as u8 | (i.primary as u8) << 1]);
    for c in &i.columns {
        let mut b = [0; 9];
        b[..4].copy_from_slice(&(c.column as u32).to_le_bytes());
        b[4..8].copy_from_slice(&c.prefix.unwrap_or(u32::MAX).to_le_bytes());
        b[8] = c.desc as u8;
        f.put(3, &b);
    }
    f.0
}
// ---- reading

/// Calls `take` on each field of `bytes`, a record that messages call `what`. `take` returns
/// whether it knows the tag.
fn fields<'a>(
    what: &str,
    mut bytes: &'a [u8],
    mut take: impl FnMut(u16, &'a [u8]) -> Decoded<bool>,
) -> Decoded<()> {
    while !bytes.is_empty() {
        let (head, rest) =
            bytes.split_at_checked(6).ok_or_else(|| format!("a field of its {what} is cut off"))?;
        let tag = u16_at(head, 0);
        let len = u32_at(head, 2) as usize;
        let (field, rest) = rest
            .split_at_checked(len)
            .ok_or_else(|| format!("field {tag} of its {what} is cut off"))?;
        bytes = rest;
        if !take(tag, field)? && tag >= CRITICAL {
            return Err(format!(
                "its {what} has field {tag}, which this program does not know: open the data \
                    directory with the version that wrote it"
            ));
        }
    }
    Ok(())
}
fn number<const N: usize>(what: &str, b: &[u8]) -> Decoded<[u8; N]> {
    b.try_into().map_err(|_| format!("its {what} has {} bytes instead of {N}", b.len()))
}
fn u16_of(what: &str, b: &[u8]) -> Decoded<u16> {
    number(what, b).map(u16::from_le_bytes)
}
fn u32_of(what: &str, b: &[u8]) -> Decoded<u32> {
    number(what, b).map(u32::from_le_bytes)
}
fn u64_of(what: &str, b: &[u8]) -> Decoded<u64> {
    number(what, b).map(u64::from_le_bytes)
}
/// Reads a byte of flags, all of which must be among `known`.
fn flags_of(what: &str, b: &[u8], known: u8) -> Decoded<u8> {
    let [flags] = number(what, b)?;
    if flags & !known != 0 {
        return Err(format!("its {what} {flags:#x} hold one that this program does not know"));
    }
    Ok(flags)
}
fn text_of(what: &str, b: &[u8]) -> Decoded<String> {
    String::from_utf8(b.to_vec()).map_err(|_| format!("its {what} is no text"))
}
fn collation_of(b: &[u8]) -> Decoded<Collation> {
    let id = u16_of("collation", b)?;
    Collation::from_id(id)
        .ok_or_else(|| format!("it has collation number {id}, which this program does not know"))
}
/// A record with one field, and the checksum of what is in there: what is known of a table's values
/// is not believed if a bit has changed.
fn with_checksum(tag: u16, own: &[u8]) -> Vec<u8> {
    let mut f = Fields::record();
    f.put(tag, own);
    f.put(1, &crc32c::crc32c(own).to_le_bytes());
    f.0
}
/// The bytes of the field `wanted` of such a record, which messages call `what`.
fn checked<'a>(what: &str, wanted: u16, body: &'a [u8]) -> Decoded<&'a [u8]> {
    let body = tagged(body)?.ok_or("it has no fields")?;
    let (mut own, mut checksum) = (None, None);
    fields("record", body, |tag, b| {
        match tag {
            tag if tag == wanted => own = Some(b),
            1 => checksum = Some(u32_of("checksum", b)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let own = own.ok_or_else(|| format!("it is no {what}"))?;
    match checksum == Some(crc32c::crc32c(own)) {
        true => Ok(own),
        false => Err("its checksum is wrong".into()),
    }
}

/// The fields of a tagged record; `None` for a record of format 2.
fn tagged(body: &[u8]) -> Decoded<Option<&[u8]>> {
    match body {
        [0, VERSION, fields @ ..] => Ok(Some(fields)),
        [0, version, ..] => {
            Err(format!("it has version {version}, and this program reads version {VERSION}"))
        }
        _ => Ok(None),
    }
}

pub(super) fn decode_schema(body: &[u8]) -> Decoded<SchemaRecord> {
    let Some(body) = tagged(body)? else {
        return postcard::from_bytes(body).map_err(|e| e.to_string());
    };
    let mut collation = None;
    fields("record", body, |tag, b| {
        match tag {
            1 => collation = Some(collation_of(b)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(SchemaRecord { collation: collation.ok_or("it has no collation")? })
}
pub(super) fn decode_table(body: &[u8]) -> Decoded<TableRecord> {
    let Some(body) = tagged(body)? else {
        let old: TableRecord = postcard::from_bytes(body).map_err(|e| e.to_string())?;
        return check(&old).map(|()| old);
    };
    let (mut id, mut space, mut collation) = (None, None, None);
    let def = TableDef {
        schema: String::new(),
        name: String::new(),
        columns: Vec::new(),
        indexes: Vec::new(),
        collation: Collation::Binary,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    let mut r = TableRecord {
        id: 0,
        space: 0,
        trees: Vec::new(),
        auto_increment: 1,
        def,
        unfinished: Vec::new(),
    };
    fields("record", body, |tag, b| {
        match tag {
            1 => id = Some(u64_of("id", b)?),
            2 => space = Some(u32_of("table space", b)?),
            3 => r.trees.push(decode_tree(b)?),
            4 => r.auto_increment = u64_of("AUTO_INCREMENT value", b)?,
            5 => r.def.schema = text_of("database", b)?,
            6 => r.def.name = text_of("name", b)?,
            7 => r.def.columns.push(decode_column(b)?),
            8 => r.def.indexes.push(decode_index(b)?),
            9 => collation = Some(collation_of(b)?),
            10 => r.def.comment = text_of("comment", b)?,
            11 => r.unfinished.push(decode_tree(b)?),
            STATISTICS_OPTIONS => r.def.statistics = decode_statistics_options(b)?,
            CHECK => r.def.checks.push(decode_check(b)?),
            12 => match u16_of("format of rows", b)? {
                ROW_FORMAT => {}
                other => {
                    return Err(format!(
                        "its rows have format {other}, and this program reads format {ROW_FORMAT}"
                    ));
                }
            },
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    r.id = id.ok_or("it has no id")?;
    r.space = space.ok_or("it has no table space")?;
    r.def.collation = collation.ok_or("it has no collation")?;
    check(&r)?;
    Ok(r)
}
/// Checks the rules of a definition on which the rest of the engine relies.
fn check(r: &TableRecord) -> Decoded<()> {
    let hidden_key = !r.def.indexes.first().is_some_and(|i| i.primary);
    if r.trees.len() != r.def.indexes.len() + hidden_key as usize {
        return Err(format!("it has {} trees for {} indexes", r.trees.len(), r.def.indexes.len()));
    }
    match r.def.indexes.iter().flat_map(|i| &i.columns).find(|c| c.column >= r.def.columns.len()) {
        Some(c) => Err(format!("an index names column {} of {}", c.column, r.def.columns.len())),
        None => Ok(()),
    }
}
fn decode_statistics_options(b: &[u8]) -> Decoded<StatisticsOptions> {
    let [persistent, auto_recalc, low, high] = number("options of statistics", b)?;
    let switch = |said: u8| match said {
        0 => Ok(None),
        1 | 2 => Ok(Some(said == 2)),
        _ => Err(format!("its option {said} of statistics is none that this program knows")),
    };
    Ok(StatisticsOptions {
        persistent: switch(persistent)?,
        auto_recalc: switch(auto_recalc)?,
        sample_pages: NonZeroU16::new(u16::from_le_bytes([low, high])),
    })
}
fn decode_tree(b: &[u8]) -> Decoded<TreeRecord> {
    let b: [u8; 12] = number("tree", b)?;
    Ok(TreeRecord { id: u64_of("tree", &b[..8])?, root: u32_of("tree", &b[8..])? })
}
fn decode_check(b: &[u8]) -> Decoded<CheckDef> {
    let mut c = CheckDef { name: String::new(), condition: String::new(), enforced: true };
    fields("check constraint", b, |tag, b| {
        match tag {
            1 => c.name = text_of("check constraint's name", b)?,
            2 => c.condition = text_of("check constraint's condition", b)?,
            3 => c.enforced = flags_of("check constraint's flags", b, 1)? == 0,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(c)
}
fn decode_index(b: &[u8]) -> Decoded<IndexDef> {
    let mut i =
        IndexDef { name: String::new(), unique: false, primary: false, columns: Vec::new() };
    fields("index", b, |tag, b| {
        match tag {
            1 => i.name = text_of("index's name", b)?,
            2 => {
                let flags = flags_of("index's flags", b, 3)?;
                (i.unique, i.primary) = (flags & 1 != 0, flags & 2 != 0);
            }
            3 => {
                let b: [u8; 9] = number("index's column", b)?;
                let prefix = u32_of("index's column", &b[4..8])?;
                i.columns.push(IndexColumn {
                    column: u32_of("index's column", &b[..4])? as usize,
                    prefix: (prefix != u32::MAX).then_some(prefix),
                    desc: b[8] & 1 != 0,
                });
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(i)
}
#[cfg(all(test, not(model)))]
mod tests {
    use super::column::{INTS, LOBS};
    use super::*;
    use redolith_types::{Column, DefaultValue, Generation, IntSize, Sign, SqlType};

    fn types() -> Vec<SqlType> {
        let (sign, collation) =
            (Sign { unsigned: true, zerofill: true }, Collation::Latin1SwedishCi);
        let names = vec!["a".to_string(), String::new(), "ü".into()];
        let mut types: Vec<SqlType> = INTS
            .iter()
            .map(|(size, _)| SqlType::Int { size: *size, sign, display: None })
            .collect();
        types.extend(LOBS.iter().map(|size| SqlType::Blob { size: *size }));
        types.extend(LOBS.iter().map(|size| SqlType::Text { size: *size, collation }));
        types.extend(Collation::ALL.map(|collation| SqlType::VarChar { chars: 7, collation }));
        types.extend([
            SqlType::Int { size: IntSize::Tiny, sign: Sign::SIGNED, display: Some(1) },
            SqlType::Decimal { precision: 65, scale: 30, sign },
            SqlType::Float { digits: Some((7, 3)), sign },
            SqlType::Float { digits: None, sign: Sign::SIGNED },
            SqlType::Double { digits: None, sign: Sign::UNSIGNED },
            SqlType::Char { chars: 255, collation },
            SqlType::Binary { len: 0 },
            SqlType::VarBinary { len: 65535 },
            SqlType::Date,
            SqlType::Time { fsp: 6 },
            SqlType::DateTime { fsp: 0 },
            SqlType::Timestamp { fsp: 3 },
            SqlType::Year,
            SqlType::Bit { bits: 64 },
            SqlType::Enum { names: names.clone(), collation },
            SqlType::Set { names, collation },
            SqlType::Json,
        ]);
        types
    }
    fn table() -> TableRecord {
        let defaults = [
            None,
            Some(DefaultValue::Null),
            Some(DefaultValue::Literal(vec![0, 255])),
            Some(DefaultValue::CurrentTimestamp(6)),
            Some(DefaultValue::Expr("1 + 1".into())),
        ];
        let columns = types().into_iter().enumerate().map(|(n, ty)| {
            let mut c = Column::new(format!("c{n}"), ty);
            c.default = defaults[n % defaults.len()].clone();
            (c.nullable, c.auto_increment) = (n % 2 == 0, n == 3);
            (c.on_update_now, c.invisible) = (n % 3 == 0, n % 5 == 0);
            c.comment = "x".repeat(n);
            if c.default.is_none() && !c.auto_increment && !c.on_update_now {
                let expression = format!("(`c{}` + 1)", n + 1);
                c.generation = Some(Generation { expression, stored: n % 2 == 0 });
            }
            c
        });
        let part = |column, prefix, desc| IndexColumn { column, prefix, desc };
        let index = |name: &str, unique, primary, columns| IndexDef {
            name: name.into(),
            unique,
            primary,
            columns,
        };
        TableRecord {
            id: 1024,
            space: 1025,
            trees: vec![
                TreeRecord { id: 1026, root: 2 },
                TreeRecord { id: 1 << 40, root: u32::MAX },
            ],
            auto_increment: u64::MAX,
            def: TableDef {
                schema: "s".into(),
                name: "t".into(),
                columns: columns.collect(),
                indexes: vec![
                    index("PRIMARY", true, true, vec![part(3, None, false)]),
                    index("k", false, false, vec![part(0, Some(3), true)]),
                ],
                collation: Collation::Utf8mb4Bin,
                comment: "about".into(),
                checks: [(true, "t_chk_1"), (false, "ü")]
                    .map(|(enforced, name)| CheckDef {
                        name: name.into(),
                        condition: "(`c0` > 0)".into(),
                        enforced,
                    })
                    .into(),
                statistics: StatisticsOptions {
                    persistent: Some(false),
                    auto_recalc: Some(true),
                    sample_pages: NonZeroU16::new(300),
                },
            },
            unfinished: vec![TreeRecord { id: 1030, root: 9 }],
        }
    }
    fn same(a: &TableRecord, b: &TableRecord) {
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }

    #[test]
    fn round_trip_and_a_cut_within_a_field_is_an_error() {
        let bytes = encode_table(&table());
        same(&decode_table(&bytes).unwrap(), &table());
        let mut ends = vec![2];
        fields("record", &bytes[2..], |_, b| {
            ends.push(ends[ends.len() - 1] + 6 + b.len());
            Ok(true)
        })
        .unwrap();
        assert_eq!(ends[ends.len() - 1], bytes.len());
        for cut in (0..bytes.len()).filter(|cut| !ends.contains(cut)) {
            assert!(decode_table(&bytes[..cut]).is_err(), "cut to {cut}");
        }
        for collation in Collation::ALL {
            assert_eq!(
                decode_schema(&encode_schema(&SchemaRecord { collation })).unwrap().collation,
                collation
            );
        }
    }

    /// Any bytes give an error, or a definition that the engine can work with.
    #[test]
    fn no_flipped_byte_ends_in_a_panic() {
        let bytes = encode_table(&table());
        for at in 0..bytes.len() {
            for with in [0, 1, 0x7f, 0x80, 0xff] {
                let mut b = bytes.clone();
                b[at] = with;
                let _ = decode_table(&b).map(|r| check(&r).unwrap());
            }
        }
    }

    /// These are the records of format 2 of the data directory.
    #[test]
    fn records_without_tags_are_read() {
        let old = postcard::to_allocvec(&table()).unwrap();
        assert_ne!(old[0], 0);
        let mut without_checks = table();
        without_checks.def.checks.clear();
        without_checks.def.columns.iter_mut().for_each(|c| c.generation = None);
        without_checks.def.statistics = StatisticsOptions::default();
        same(&decode_table(&old).unwrap(), &without_checks);
        for collation in Collation::ALL {
            let old = postcard::to_allocvec(&SchemaRecord { collation }).unwrap();
            assert_eq!((old.len(), decode_schema(&old).unwrap().collation), (1, collation));
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        let with = |tag: u16| {
            let mut f = Fields(encode_table(&table()));
            f.put(tag, b"later");
            decode_table(&f.0)
        };
        same(&with(77).unwrap(), &table());
        assert!(with(0x8001).unwrap_err().contains("field 32769"));
        let mut newer = encode_table(&table());
        newer[1] = 2;
        assert!(decode_table(&newer).unwrap_err().contains("version 2"));
        let mut f = Fields::record();
        f.put(1, &999u16.to_le_bytes());
        assert!(decode_schema(&f.0).unwrap_err().contains("collation number 999"));
    }
}
