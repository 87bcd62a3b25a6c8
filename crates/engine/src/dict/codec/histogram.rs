//! The record of a histogram. The table in [`codec`](super) describes it.
use super::column::{decode_type, sql_type};
use super::{CRITICAL, Decoded, Fields, checked, fields, number, u32_of, u64_of, with_checksum};
use crate::dict::histogram::{Bucket, Histogram, Kind};
use redolith_types::{Column, RowLayout, SqlType, Value};

/// The field by which a record is a histogram's. A program that does not know histograms says so,
/// and does not take the record for a table's.
const HISTOGRAM: u16 = CRITICAL + 3;

/// A bucket's values are as in a row of a table with this column.
fn layout(ty: &SqlType) -> RowLayout {
    RowLayout::new(&[Column::new("", ty.clone())])
}

pub(in crate::dict) fn encode_histogram(h: &Histogram) -> Vec<u8> {
    let mut own = Fields::nested();
    own.put(1, &sql_type(&h.ty));
    own.put(2, &[matches!(h.kind, Kind::EquiHeight).into()]);
    own.put(3, &h.nulls.to_le_bytes());
    own.put(4, &h.sampling_rate.to_le_bytes());
    own.put(5, &h.updated_us.to_le_bytes());
    own.put(6, &h.specified.to_le_bytes());
    let layout = layout(&h.ty);
    for bucket in &h.buckets {
        let mut f = Fields::nested();
        let mut put = |tag, value: &Value<'_>| {
            let mut row = Vec::new();
            layout.encode(&[value.borrow()], &mut row);
            f.put(tag, &row);
        };
        put(1, &bucket.low);
        if h.kind == Kind::EquiHeight {
            put(2, &bucket.high);
        }
        f.put(3, &bucket.cumulative.to_le_bytes());
        f.put(4, &bucket.distinct.to_le_bytes());
        own.put(7, &f.0);
    }
    with_checksum(HISTOGRAM, &own.0)
}

/// An error says what is wrong with the record: it is damaged, or of a later version.
pub(in crate::dict) fn decode_histogram(body: &[u8]) -> Decoded<Histogram> {
    decode_own(checked("histogram", HISTOGRAM, body)?)
}
fn decode_own(own: &[u8]) -> Decoded<Histogram> {
    let (mut ty, mut buckets) = (None, Vec::new());
    let mut h = Histogram {
        ty: SqlType::Year,
        kind: Kind::Singleton,
        nulls: 0.0,
        sampling_rate: 1.0,
        updated_us: 0,
        specified: 0,
        buckets: Vec::new(),
    };
    fields("histogram", own, |tag, b| {
        match tag {
            1 => ty = Some(decode_type(b)?),
            2 => {
                h.kind = match number("kind of histogram", b)? {
                    [0] => Kind::Singleton,
                    [1] => Kind::EquiHeight,
                    [kind] => return Err(format!("its kind {kind} of histogram is not known")),
                }
            }
            3 => h.nulls = share_of(b)?,
            4 => h.sampling_rate = share_of(b)?,
            5 => h.updated_us = u64_of("time", b)?,
            6 => h.specified = u32_of("number of buckets", b)?,
            7 => buckets.push(b),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    h.ty = ty.filter(is_possible).ok_or("it has no type that a column may have")?;
    let layout = layout(&h.ty);
    h.buckets = buckets.into_iter().map(|b| bucket(&layout, b)).collect::<Decoded<_>>()?;
    let collation = h.ty.compare_collation();
    let is_between = |b: &Bucket| b.low.compare(&b.high, collation).is_le();
    let follows = |a: &Bucket, b: &Bucket| {
        a.high.compare(&b.low, collation).is_lt() && a.cumulative <= b.cumulative
    };
    let in_order = h.buckets.iter().all(is_between)
        && h.buckets.windows(2).all(|pair| follows(&pair[0], &pair[1]));
    if in_order { Ok(h) } else { Err("its buckets are not in order".into()) }
}
/// A column's type has this form, without which it has no layout.
fn is_possible(ty: &SqlType) -> bool {
    match ty {
        SqlType::Decimal { precision, scale, .. } => {
            (1..=65).contains(precision) && scale <= precision && *scale <= 30
        }
        SqlType::Json => false,
        _ => true,
    }
}
fn share_of(b: &[u8]) -> Decoded<f64> {
    let share = f64::from_le_bytes(number("share", b)?);
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(format!("its share {share} is none")) }
}
fn bucket(layout: &RowLayout, b: &[u8]) -> Decoded<Bucket> {
    let value = |b: &[u8]| -> Decoded<Value<'static>> {
        if !layout.is_well_formed(b) || layout.has_externals(b) {
            return Err("a value of its buckets is malformed".into());
        }
        Ok(layout.get(b, 0).into_owned())
    };
    let (mut low, mut high, mut cumulative, mut distinct) = (None, None, None, 1);
    fields("bucket", b, |tag, b| {
        match tag {
            1 => low = Some(value(b)?),
            2 => high = Some(value(b)?),
            3 => cumulative = Some(share_of(b)?),
            4 => distinct = u64_of("number of values", b)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let low = low.ok_or("a bucket has no value")?;
    let high = high.unwrap_or_else(|| low.clone());
    let cumulative = cumulative.ok_or("a bucket has no share")?;
    Ok(Bucket { low, high, cumulative, distinct })
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::dict::codec::decode_table;
    use redolith_types::{Collation, Date, DateTime, LobSize, Sign, Time};

    fn histogram(ty: SqlType, values: Vec<Value<'static>>) -> Histogram {
        let count = values.len();
        let bucket = |(n, value): (usize, Value<'static>)| Bucket {
            low: value.clone(),
            high: value,
            cumulative: (n + 1) as f64 / (count + 1) as f64,
            distinct: 1,
        };
        Histogram {
            ty,
            kind: Kind::Singleton,
            nulls: 1.0 / (count + 1) as f64,
            sampling_rate: 0.5,
            updated_us: 1_600_000_000_000_001,
            specified: 100,
            buckets: values.into_iter().enumerate().map(bucket).collect(),
        }
    }
    fn histograms() -> Vec<Histogram> {
        let collation = Collation::Utf8mb4GeneralCi;
        let date = |day| Date::new(2024, 2, day).unwrap();
        let sign = Sign { unsigned: false, zerofill: false };
        let decimal = |text: &str| redolith_types::convert::to_decimal(&Value::text(text)).value;
        let mut all = vec![
            histogram(SqlType::Year, vec![Value::UInt(1999), Value::UInt(2024)]),
            histogram(SqlType::Date, vec![Value::Date(date(1)), Value::Date(date(29))]),
            histogram(
                SqlType::Time { fsp: 6 },
                vec![Value::Time(Time::from_us(-5).unwrap()), Value::Time(Time::default())],
            ),
            histogram(
                SqlType::DateTime { fsp: 0 },
                vec![Value::DateTime(DateTime::new(date(3), 4, 5, 6, 7).unwrap())],
            ),
            histogram(
                SqlType::Decimal { precision: 20, scale: 4, sign },
                vec![Value::Decimal(decimal("-7.5000")), Value::Decimal(decimal("12.2500"))],
            ),
            histogram(SqlType::Double { digits: None, sign }, vec![Value::Double(-0.5)]),
            histogram(
                SqlType::Text { size: LobSize::Medium, collation },
                vec![Value::text("a").into_owned(), Value::owned(vec![0xff, 0xfe])],
            ),
            histogram(SqlType::Blob { size: LobSize::Long }, Vec::new()),
        ];
        all[0].kind = Kind::EquiHeight;
        all[0].buckets[1] = Bucket {
            low: Value::UInt(2000),
            high: Value::UInt(2024),
            cumulative: 0.75,
            distinct: 20,
        };
        all
    }

    #[test]
    fn what_is_written_is_read() {
        for h in histograms() {
            let again = decode_histogram(&encode_histogram(&h)).unwrap();
            assert_eq!(format!("{again:?}"), format!("{h:?}"));
        }
    }
    /// Tests HISTOGRAM-1: no record makes a start panic, with a checksum that is right or wrong.
    #[test]
    fn no_flipped_byte_is_read_or_ends_in_a_panic() {
        for h in histograms() {
            let bytes = encode_histogram(&h);
            for at in 0..bytes.len() {
                for with in [1, 0x80, 0xff] {
                    let mut b = bytes.clone();
                    b[at] ^= with;
                    assert!(decode_histogram(&b).is_err(), "byte {at} of {h:?}");
                }
                assert!(decode_histogram(&bytes[..at]).is_err());
            }
            let own = &bytes[8..bytes.len() - 10];
            assert!(decode_own(own).is_ok());
            for at in 0..own.len() {
                for with in [1, 0x80, 0xff] {
                    let mut b = own.to_vec();
                    b[at] ^= with;
                    if let Ok(h) = decode_own(&b) {
                        h.share_below(&Value::Int(2000), true);
                    }
                }
            }
        }
    }
    /// This is what a program says that does not know histograms.
    #[test]
    fn a_record_is_no_table() {
        let bytes = encode_histogram(&histograms()[0]);
        assert!(decode_table(&bytes).unwrap_err().contains("field 32771"));
    }
    #[test]
    fn buckets_out_of_order_are_refused() {
        let mut h = histograms().remove(0);
        h.buckets.swap(0, 1);
        assert!(decode_histogram(&encode_histogram(&h)).is_err());
        let mut h = histograms().remove(0);
        h.buckets[0].cumulative = 0.9;
        assert!(decode_histogram(&encode_histogram(&h)).is_err());
    }
}
