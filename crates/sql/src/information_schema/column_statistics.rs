//! The rows of COLUMN_STATISTICS: the histograms, as MySQL's JSON.
use super::{Asked, text};
use crate::error::Result;
use crate::exec::server_rows::Gathered;
use redolith_engine::Engine;
use redolith_engine::dict::histogram::{Bucket, Histogram, Kind};
use redolith_types::json::write_opaque;
use redolith_types::{DateTime, SqlType, Value};

/// MySQL's number of the type of a string.
const STRING: u8 = 254;
/// The collation that MySQL shows for numbers and moments, latin1_swedish_ci.
const OF_NUMBERS: u16 = 8;

pub(super) async fn rows(engine: &Engine, asked: Asked, out: &mut Gathered<'_>) -> Result<()> {
    for table in &asked.tables {
        asked.pause(engine).await?;
        let Some(histograms) = engine.dict.histograms(table.id) else { continue };
        for (column, histogram) in &*histograms {
            let json = Value::owned(json_of(histogram));
            out.push(vec![text(&table.def.schema), text(&table.def.name), text(column), json])?;
        }
    }
    Ok(())
}

/// The members have the order of MySQL's JSON: short names first.
fn json_of(h: &Histogram) -> Vec<u8> {
    let mut out = b"{\"buckets\": [".to_vec();
    for (n, bucket) in h.buckets.iter().enumerate() {
        if n > 0 {
            out.extend_from_slice(b", ");
        }
        write_bucket(h, bucket, &mut out);
    }
    let (name, collation) = type_of(&h.ty);
    out.extend_from_slice(format!("], \"data-type\": \"{name}\", \"null-values\": ").as_bytes());
    write_double(h.nulls, &mut out);
    let updated = format!(", \"collation-id\": {collation}, \"last-updated\": \"");
    out.extend_from_slice(updated.as_bytes());
    let us = i64::try_from(h.updated_us).unwrap_or(i64::MAX);
    let updated = DateTime::from_unix_us(us, 0).unwrap_or_default();
    Value::DateTime(updated).write_text(Some(6), &mut out);
    out.extend_from_slice(b"\", \"sampling-rate\": ");
    write_double(h.sampling_rate, &mut out);
    let kind = match h.kind {
        Kind::Singleton => "singleton",
        Kind::EquiHeight => "equi-height",
    };
    let rest = format!(
        ", \"histogram-type\": \"{kind}\", \"number-of-buckets-specified\": {}}}",
        h.specified
    );
    out.extend_from_slice(rest.as_bytes());
    out
}
fn write_bucket(h: &Histogram, bucket: &Bucket, out: &mut Vec<u8>) {
    out.push(b'[');
    write_value(&bucket.low, out);
    out.extend_from_slice(b", ");
    if h.kind == Kind::EquiHeight {
        write_value(&bucket.high, out);
        out.extend_from_slice(b", ");
    }
    write_double(bucket.cumulative, out);
    if h.kind == Kind::EquiHeight {
        out.extend_from_slice(format!(", {}", bucket.distinct).as_bytes());
    }
    out.push(b']');
}
fn write_value(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Bytes(bytes) => {
            out.push(b'"');
            write_opaque(STRING, bytes, out);
            out.push(b'"');
        }
        Value::Float(x) => write_double(f64::from(*x), out),
        Value::Double(x) => write_double(*x, out),
        Value::Date(_) | Value::Time(_) | Value::DateTime(_) => {
            out.push(b'"');
            value.write_text(Some(6), out);
            out.push(b'"');
        }
        value => value.write_text(None, out),
    }
}
/// A double has a point or an exponent in JSON.
fn write_double(x: f64, out: &mut Vec<u8>) {
    let start = out.len();
    Value::Double(x).write_text(None, out);
    if out[start..].iter().all(|b| b.is_ascii_digit() || *b == b'-') {
        out.extend_from_slice(b".0");
    }
}
/// MySQL's name of the type, and the number of the collation.
fn type_of(ty: &SqlType) -> (&'static str, u16) {
    let name = match ty {
        SqlType::Enum { .. } => "enum",
        SqlType::Set { .. } => "set",
        SqlType::Float { .. } | SqlType::Double { .. } => "double",
        SqlType::Decimal { .. } => "decimal",
        SqlType::Date => "date",
        SqlType::Time { .. } => "time",
        SqlType::DateTime { .. } | SqlType::Timestamp { .. } => "datetime",
        SqlType::Bit { .. } => "uint",
        ty if ty.is_unsigned() => "uint",
        ty if ty.is_integer() || *ty == SqlType::Year => "int",
        _ => "string",
    };
    let is_text = ty.is_string() || matches!(ty, SqlType::Enum { .. } | SqlType::Set { .. });
    (name, if is_text { ty.compare_collation().id() } else { OF_NUMBERS })
}
