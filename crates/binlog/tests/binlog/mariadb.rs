//! mariadb-binlog reads files and prints the values that were written.
use crate::fixtures::{self, STAMP, rows, table};
use redolith_binlog::file::new_file;
use redolith_binlog::*;
use redolith_disk::{Disk, OpenHow, RealDisk};
use redolith_types::{Time, Value};
use std::path::PathBuf;
use std::process::Command;

/// A file that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Scratch {
        let path = std::env::temp_dir().join(format!("redolith-{name}-{}", std::process::id()));
        let file = RealDisk::new().open(&path, OpenHow::create(false)).unwrap();
        file.set_len(0).unwrap();
        file.write_at(bytes, 0).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = RealDisk::new().remove(&self.0);
    }
}

/// What mariadb-binlog prints, and whether it was satisfied.
fn print(name: &str, bytes: &[u8]) -> (String, bool) {
    let file = Scratch::new(name, bytes);
    let output = Command::new("mariadb-binlog")
        .args(["--no-defaults", "--verify-binlog-checksum", "-vv"])
        .arg(&file.0)
        .env("TZ", "UTC")
        .output()
        .expect("mariadb-binlog is installed: `tools/setup test`");
    let all = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&all).into_owned(), output.status.success())
}

/// A value as mariadb-binlog prints it. `None`: not compared.
fn shown(column: &Column, value: &Value<'static>) -> Option<String> {
    let quoted = |text: String| Some(format!("'{text}'"));
    match (column.kind, value) {
        (_, Value::Null) => Some("NULL".to_string()),
        (Kind::Int(_), Value::Int(v)) if *v >= 0 => Some(v.to_string()),
        (Kind::Enum { .. }, Value::UInt(v)) => Some(v.to_string()),
        (Kind::Decimal { .. }, Value::Decimal(v)) => Some(v.to_string()),
        (Kind::Date, Value::Date(v)) => {
            quoted(format!("{:04}:{:02}:{:02}", v.year(), v.month(), v.day()))
        }
        (Kind::Time { fsp }, Value::Time(_)) | (Kind::DateTime { fsp }, Value::DateTime(_)) => {
            let mut text = Vec::new();
            value.write_text(Some(fsp), &mut text);
            quoted(String::from_utf8(text).unwrap())
        }
        (Kind::VarChar { .. }, Value::Bytes(v)) if v.iter().all(u8::is_ascii_alphanumeric) => {
            quoted(String::from_utf8(v.to_vec()).unwrap())
        }
        _ => None,
    }
}

/// The values of the first statement: for each row and column, the text behind `@n=`.
fn inserted(text: &str) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut is_insert = false;
    for line in text.lines().filter_map(|line| line.strip_prefix("### ")) {
        match line.trim_start().split_once('=') {
            Some((column, value)) if column.starts_with('@') && is_insert => {
                let value = value.rsplit_once(" /* ").map_or(value, |(value, _)| value);
                rows.last_mut().unwrap().push(value.to_string());
            }
            Some(_) => {}
            None if line.starts_with("INSERT INTO") => {
                is_insert = true;
                rows.push(Vec::new());
            }
            None => is_insert &= line == "SET",
        }
    }
    rows
}

#[test]
fn mariadb_binlog_prints_what_was_written() {
    for (checksum, metadata) in
        [(Checksum::Crc32, RowMetadata::Full), (Checksum::None, RowMetadata::Minimal)]
    {
        let bytes = fixtures::file(checksum, metadata, RowImage::Full, false);
        let (text, is_satisfied) = print(&format!("{metadata:?}"), &bytes);
        assert!(is_satisfied && !text.contains("ERROR"), "{}", &text[text.len() - 2000..]);
        for part in ["CREATE TABLE t (a INT)", "BEGIN", "Xid = 4711", "CRC32"] {
            let is_wanted = part != "CRC32" || checksum == Checksum::Crc32;
            assert_eq!(text.contains(part), is_wanted, "{part}");
        }
        let (table, rows, seen) = (table(metadata), rows(), inserted(&text));
        assert_eq!(seen.len(), rows.len());
        let mut compared = 0;
        for (row, seen) in rows.iter().zip(&seen) {
            assert_eq!(seen.len(), row.len());
            for ((column, value), seen) in table.columns.iter().zip(row).zip(seen) {
                if let Some(wanted) = shown(column, value) {
                    assert_eq!(*seen, wanted, "{column:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 200, "{compared} values were compared");
    }
}

#[test]
fn mariadb_binlog_sees_a_flipped_bit() {
    let mut bytes = fixtures::file(Checksum::Crc32, RowMetadata::Full, RowImage::Full, false);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let (text, _) = print("flipped", &bytes);
    assert!(text.to_lowercase().contains("crc check failed"), "{}", &text[text.len() - 500..]);
}

/// The fixtures leave these out, because mysql_common cannot read them.
#[test]
fn mariadb_binlog_prints_negative_times_with_a_fraction() {
    let column = |fsp| Column {
        kind: Kind::Time { fsp },
        unsigned: false,
        nullable: true,
        collation_id: 0,
        name: Vec::new(),
        members: Vec::new(),
        visible: true,
    };
    let columns = vec![column(1), column(2)];
    let table = Table::new(TableId(5), b"s", b"t", columns, None, RowMetadata::Minimal);
    let us = [-100_000, -900_000, -1_000_000, -1_100_000, -3_600_500_000, 700_000];
    let rows = us.map(|us| [(); 2].map(|()| Value::Time(Time::from_us(us).unwrap())));
    let all = ColumnSet::all(2);
    let mut builder = TransactionBuilder::new(EncodeOptions::default());
    builder.query(STAMP, &Query::begin(1, b"", fixtures::status())).unwrap();
    for values in &rows {
        let image = Image { columns: &all, values };
        builder.row(STAMP, &table, &Change::Insert(image)).unwrap();
    }
    builder.event(STAMP, &Event::Xid(1)).unwrap();
    let events = builder.seal(STAMP, &GtidTemplate::default()).unwrap();
    let format = FormatDescription::new(fixtures::VERSION, 0, Checksum::Crc32);
    let mut bytes = new_file(&format, &GtidSet::new(), STAMP).unwrap();
    let at = bytes.len() as u64;
    bytes.extend_from_slice(events.finish(&fixtures::placement(at, 1)).as_bytes());
    let (text, is_satisfied) = print("times", &bytes);
    assert!(is_satisfied, "{text}");
    let wanted: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().zip(&table.columns).filter_map(|(v, c)| shown(c, v)).collect())
        .collect();
    assert_eq!(inserted(&text), wanted);
}
