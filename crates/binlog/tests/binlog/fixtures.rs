//! A table with every type, rows at the edges of the types, and files of them.
use redolith_binlog::file::new_file;
use redolith_binlog::*;
use redolith_disk::{Disk, OpenHow, SimDisk};
use redolith_types::decimal::MAX_PRECISION;
use redolith_types::temporal::MAX_TIME_US;
use redolith_types::{
    Collation, Column as SqlColumn, Date, DateTime, Decimal, IndexDef, IntSize, LobSize, Sign,
    SqlType, TableDef, Time, Value,
};
use std::path::{Path, PathBuf};

pub const STAMP: Stamp = Stamp { timestamp: 1_700_000_000, server_id: 7 };
pub const VERSION: &str = "8.0.36-redolith-0.1.0";
pub const UUID: Uuid = Uuid(*b"\x3e\x11\xfa\x47\x71\xca\x11\xe1\x9e\x33\xc8\x0a\xa9\x42\x95\x62");

const SIZES: [IntSize; 5] =
    [IntSize::Tiny, IntSize::Small, IntSize::Medium, IntSize::Int, IntSize::Big];
const LOBS: [LobSize; 4] = [LobSize::Tiny, LobSize::Normal, LobSize::Medium, LobSize::Long];
/// (precision, scale) of DECIMAL columns.
const DECIMALS: [(u8, u8); 5] = [(1, 0), (10, 2), (14, 4), (65, 30), (30, 30)];

fn members(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("m{i}é")).collect()
}

fn types() -> Vec<SqlType> {
    let utf8 = Collation::Utf8mb4GeneralCi;
    let mut types = Vec::new();
    for sign in [Sign::SIGNED, Sign::UNSIGNED] {
        types.extend(SIZES.map(|size| SqlType::Int { size, sign, display: None }));
    }
    types.push(SqlType::Year);
    types.push(SqlType::Float { digits: None, sign: Sign::SIGNED });
    types.push(SqlType::Double { digits: None, sign: Sign::UNSIGNED });
    types.extend(DECIMALS.map(|(precision, scale)| {
        let sign = Sign::SIGNED;
        SqlType::Decimal { precision, scale, sign }
    }));
    types.extend([1, 8, 9, 64].map(|bits| SqlType::Bit { bits }));
    types.push(SqlType::Date);
    types.extend((0..=6).map(|fsp| SqlType::Time { fsp }));
    types.extend((0..=6).map(|fsp| SqlType::DateTime { fsp }));
    types.extend((0..=6).map(|fsp| SqlType::Timestamp { fsp }));
    types.push(SqlType::Char { chars: 10, collation: Collation::Latin1SwedishCi });
    types.push(SqlType::Char { chars: 255, collation: utf8 });
    types.push(SqlType::VarChar { chars: 63, collation: utf8 });
    types.push(SqlType::VarChar { chars: 64, collation: Collation::Utf8mb4Bin });
    types.push(SqlType::Binary { len: 6 });
    types.push(SqlType::VarBinary { len: 65_535 });
    types.extend(LOBS.map(|size| SqlType::Text { size, collation: utf8 }));
    types.extend(LOBS.map(|size| SqlType::Blob { size }));
    for count in [2, 255, 256] {
        types.push(SqlType::Enum { names: members(count), collation: utf8 });
    }
    for count in [1, 8, 9, 17, 25, 33, 64] {
        types.push(SqlType::Set { names: members(count), collation: Collation::AsciiBin });
    }
    types
}

/// The table's definition; columns are called after their numbers.
pub fn definition() -> TableDef {
    let columns = types().into_iter().enumerate();
    let mut columns: Vec<SqlColumn> =
        columns.map(|(i, ty)| SqlColumn::new(format!("c{i}"), ty)).collect();
    columns[4].nullable = false;
    columns[5].invisible = true;
    TableDef {
        schema: "shöp".into(),
        name: "all types".into(),
        columns,
        indexes: vec![IndexDef::primary([4])],
        collation: Collation::Utf8mb4GeneralCi,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    }
}

pub fn table(metadata: RowMetadata) -> Table {
    Table::of(TableId(0x1_0000_0001), &definition(), metadata)
}

/// The values of a type that are worth a row.
fn edges(ty: &SqlType) -> Vec<Value<'static>> {
    let date = |y, m, d| Date::new(y, m, d).unwrap();
    match ty {
        SqlType::Int { size, sign, .. } if sign.unsigned => {
            [0, 1, size.max_unsigned() / 2 + 1, size.max_unsigned()].map(Value::UInt).into()
        }
        SqlType::Int { size, .. } => {
            [size.min_signed(), -1, 0, 1, size.max_signed()].map(Value::Int).into()
        }
        SqlType::Float { .. } => [0.0, -1.5, f32::MAX, f32::MIN_POSITIVE].map(Value::Float).into(),
        SqlType::Double { .. } => [0.0, 1.5, f64::MAX, f64::MIN_POSITIVE].map(Value::Double).into(),
        SqlType::Decimal { precision, scale, .. } => decimals(*precision, *scale),
        SqlType::Bit { bits } => {
            [0, 1, 1 << (bits - 1), u64::MAX >> (64 - bits)].map(Value::UInt).into()
        }
        SqlType::Year => [0, 1901, 2024, 2155].map(Value::UInt).into(),
        SqlType::Date => {
            [Date::ZERO, date(2024, 0, 0), date(1000, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]
                .map(Value::Date)
                .into()
        }
        SqlType::Time { fsp } => {
            let us = [0, 1, -1, 500_000, -500_000, -1_999_999, 3_723_123_456, -MAX_TIME_US];
            // mysql_common cannot read a negative TIME(1) or TIME(2) with a fraction. The tests of
            // `rows::temporal` and of mariadb-binlog have them.
            let fsp = if matches!(fsp, 1 | 2) { 0 } else { *fsp };
            us.map(|us| Value::Time(Time::from_us(us).unwrap().truncate(fsp))).into()
        }
        SqlType::DateTime { fsp } => {
            let days = [Date::ZERO, date(2024, 2, 30), date(9999, 12, 31)];
            let of_day = [0, 86_399_999_999, 43_200_123_456];
            let values = days.iter().zip(of_day).map(|(day, us)| day.at(us).truncate(*fsp));
            values.map(Value::DateTime).collect()
        }
        SqlType::Timestamp { fsp } => {
            let us = [1_000_000, 1_700_000_000_123_456, i64::from(i32::MAX) * 1_000_000 + 999_999];
            let at = |us| DateTime::from_unix_us(us, 0).unwrap().truncate(*fsp);
            us.into_iter().map(at).chain([DateTime::ZERO]).map(Value::DateTime).collect()
        }
        SqlType::Enum { names, .. } => [0, 1, names.len() as u64].map(Value::UInt).into(),
        SqlType::Set { names, .. } => {
            [0, 1, u64::MAX >> (64 - names.len())].map(Value::UInt).into()
        }
        ty => strings(ty),
    }
}

fn decimals(precision: u8, scale: u8) -> Vec<Value<'static>> {
    assert!(precision <= MAX_PRECISION);
    let most = |negative| Decimal::max_value(precision, scale, negative);
    let least = Decimal::from_parts(-1, scale);
    let zero = Decimal::from_parts(0, scale);
    [zero, least, most(false), most(true)].map(Value::Decimal).into()
}

/// Strings, empty to the longest, as far as the longest is short enough for a test.
fn strings(ty: &SqlType) -> Vec<Value<'static>> {
    let most = ty.max_bytes().unwrap().min(66_000) as usize;
    if let SqlType::Binary { len } = ty {
        let len = *len as usize;
        let mut half = vec![0xff; len / 2];
        half.resize(len, 0);
        return vec![Value::owned(vec![0; len]), Value::owned(half), Value::owned(vec![9; len])];
    }
    let text = |len: usize| Value::owned((0..len).map(|i| b'a' + (i % 26) as u8).collect());
    let mut values = vec![text(0), Value::text("it's é"), text(most.min(255)), text(most)];
    if matches!(ty, SqlType::VarChar { .. } | SqlType::VarBinary { .. } | SqlType::Blob { .. }) {
        values.push(Value::text("a  "));
    }
    values
}

/// Rows that have every edge of every type, and one that is NULL where it can be.
pub fn rows() -> Vec<Vec<Value<'static>>> {
    let edges: Vec<Vec<Value<'static>>> = types().iter().map(edges).collect();
    let count = edges.iter().map(Vec::len).max().unwrap();
    let mut rows: Vec<Vec<Value<'static>>> = (0..count)
        .map(|row| edges.iter().map(|values| values[row % values.len()].clone()).collect())
        .collect();
    let mut nulls = vec![Value::Null; edges.len()];
    nulls[4] = Value::Int(77);
    rows.push(nulls);
    rows
}

pub fn status() -> StatusVars<'static> {
    StatusVars {
        flags2: Some(0),
        sql_mode: Some(1_168_113_696),
        has_catalog: true,
        charset: Some([45, 45, 45]),
        default_collation_for_utf8mb4: Some(45),
        ..StatusVars::default()
    }
}

/// Inserts, updates and deletes all rows.
pub fn transaction(options: EncodeOptions, table: &Table, image: RowImage) -> TransactionEvents {
    let all = ColumnSet::all(table.columns.len());
    let (before, after) = (image.before(table), image.after(table, &all));
    let rows = rows();
    let mut builder = TransactionBuilder::new(options);
    builder.query(STAMP, &Query::begin(11, b"sh\xc3\xb6p", status())).unwrap();
    builder.rows_query(STAMP, b"INSERT INTO `all types` VALUES (..)").unwrap();
    for values in &rows {
        let image = Image { columns: &after, values };
        builder.row(STAMP, table, &Change::Insert(image)).unwrap();
    }
    builder.end_statement().unwrap();
    for (old, new) in rows.iter().zip(rows.iter().skip(1)) {
        let old = Image { columns: &before, values: old };
        let new = Image { columns: &after, values: new };
        builder.row(STAMP, table, &Change::Update(old, new)).unwrap();
    }
    builder.end_statement().unwrap();
    for values in &rows {
        let image = Image { columns: &before, values };
        builder.row(STAMP, table, &Change::Delete(image)).unwrap();
    }
    builder.event(STAMP, &Event::Xid(4711)).unwrap();
    builder.seal(STAMP, &GtidTemplate { server_version: 80036, ..GtidTemplate::default() }).unwrap()
}

pub fn ddl(options: EncodeOptions) -> TransactionEvents {
    let mut builder = TransactionBuilder::new(options);
    let query = Query {
        thread_id: 11,
        database: b"shop",
        text: b"CREATE TABLE t (a INT)",
        status: StatusVars {
            time_zone: Some(b"+02:00"),
            auto_increment: Some((2, 1)),
            updated_databases: Some(vec![b"shop", b"other"]),
            microseconds: Some(123_456),
            explicit_defaults_for_timestamp: Some(true),
            ddl_xid: Some(99),
            ..status()
        },
        ..Query::default()
    };
    builder.query(STAMP, &query).unwrap();
    let template = GtidTemplate {
        may_have_statements: true,
        original_commit_us: Some(1_600_000_000_000_001),
        server_version: 80036,
        original_server_version: Some(80030),
    };
    builder.seal(STAMP, &template).unwrap()
}

pub fn placement(offset: u64, number: u64) -> Placement {
    Placement {
        start: BinlogPosition { file: 1, offset },
        gtid: Some(Gtid { uuid: UUID, number }).filter(|gtid| gtid.number > 0),
        clock: LogicalClock { last_committed: number, sequence_number: number + 1 },
        immediate_commit_us: 1_700_000_000_654_321,
    }
}

/// Events that stand outside transactions.
pub fn loose_events() -> Vec<Event<'static>> {
    let prepare = XaPrepare { one_phase: false, format_id: 1, gtrid: b"global", bqual: b"branch" };
    vec![
        Event::XaPrepare(prepare),
        Event::Incident(Incident { number: Incident::LOST_EVENTS, message: b"the disk was full" }),
        Event::Stop,
        Event::Rotate(Rotate { position: 4, file: b"binlog.000002" }),
    ]
}

/// A file with every event. `loose`: with the events outside transactions, too.
pub fn file(checksum: Checksum, metadata: RowMetadata, image: RowImage, loose: bool) -> Vec<u8> {
    let mut previous = GtidSet::new();
    previous.add_interval(UUID, 1, 4);
    let format = FormatDescription::new(VERSION, STAMP.timestamp, checksum);
    let mut out = new_file(&format, &previous, STAMP).unwrap();
    let options = EncodeOptions { checksum, ..EncodeOptions::default() };
    let table = table(metadata);
    for (number, events) in
        [ddl(options), transaction(options, &table, image), ddl(options)].into_iter().enumerate()
    {
        let at = out.len() as u64;
        out.extend_from_slice(events.finish(&placement(at, number as u64)).as_bytes());
    }
    if loose {
        for event in loose_events() {
            let at = out.len() as u64;
            append(&mut out, &event, STAMP, at, checksum).unwrap();
        }
    }
    out
}

/// A disk with one file.
pub fn disk_with(bytes: &[u8]) -> (SimDisk, PathBuf) {
    let disk = SimDisk::new(1);
    let path = Path::new("/log/binlog.000001");
    disk.create_dir_all(Path::new("/log")).unwrap();
    let file = disk.open(path, OpenHow::create(false)).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
    (disk, path.to_path_buf())
}
