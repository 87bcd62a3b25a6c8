//! Dates and times in the binary protocol.
//!
//! ```text
//! DATE, DATETIME, TIMESTAMP
//!     length 0 | 4 | 7 | 11: year 2, month 1, day 1 | hour, minute, second | microseconds 4
//! TIME
//!     length 0 | 8 | 12: negative 1, days 4, hours 1, minutes 1, seconds 1 | microseconds 4
//! ```
use super::lenenc::{Malformed, Reader};
use redolith_types::{Date, DateTime, Time, Value};

/// TIME ends at 838 hours.
const MAX_DAYS: u32 = 34;

/// A parameter bound as DATE (`date_only`), DATETIME or TIMESTAMP. What is no date or time of day
/// is malformed.
pub fn read_date_time(body: &[u8], date_only: bool) -> Result<Value<'static>, Malformed> {
    let mut r = Reader::new(body);
    if !matches!(body.len(), 0 | 4 | 7 | 11) {
        return Err(Malformed);
    }
    let date =
        if body.is_empty() { Some(Date::ZERO) } else { Date::new(r.u16()?, r.u8()?, r.u8()?) }
            .ok_or(Malformed)?;
    let [hour, minute, second] = if body.len() >= 7 { r.array()? } else { [0; 3] };
    let us = if body.len() == 11 { r.u32()? } else { 0 };
    if date_only && (hour, minute, second, us) == (0, 0, 0, 0) {
        return Ok(Value::Date(date));
    }
    DateTime::new(date, hour, minute, second, us).map(Value::DateTime).ok_or(Malformed)
}

/// A parameter bound as TIME.
pub fn read_time(body: &[u8]) -> Result<Value<'static>, Malformed> {
    let mut r = Reader::new(body);
    match body.len() {
        0 => return Ok(Value::Time(Time::ZERO)),
        8 | 12 => {}
        _ => return Err(Malformed),
    }
    let (negative, days, [hours, minutes, seconds]) = (r.u8()? != 0, r.u32()?, r.array()?);
    let us = if body.len() == 12 { r.u32()? } else { 0 };
    if days > MAX_DAYS || hours >= 24 || minutes >= 60 || seconds >= 60 || us >= 1_000_000 {
        return Err(Malformed);
    }
    Time::new(negative, days * 24 + hours as u32, minutes as u32, seconds as u32, us)
        .map(Value::Time)
        .ok_or(Malformed)
}

pub fn put_date(b: &mut Vec<u8>, d: Date) {
    if d.is_zero() {
        return b.push(0);
    }
    b.push(4);
    put_day(b, d);
}

pub fn put_date_time(b: &mut Vec<u8>, t: DateTime) {
    let len = match (t.is_zero(), t.us_of_day(), t.microsecond()) {
        (true, ..) => return b.push(0),
        (_, 0, _) => 4,
        (_, _, 0) => 7,
        _ => 11,
    };
    b.push(len);
    put_day(b, t.date());
    if len >= 7 {
        b.extend_from_slice(&[t.hour(), t.minute(), t.second()]);
    }
    if len == 11 {
        b.extend_from_slice(&t.microsecond().to_le_bytes());
    }
}

pub fn put_time(b: &mut Vec<u8>, t: Time) {
    if t == Time::ZERO {
        return b.push(0);
    }
    let us = t.microseconds();
    b.push(if us == 0 { 8 } else { 12 });
    b.push(t.is_negative() as u8);
    b.extend_from_slice(&(t.hours() / 24).to_le_bytes());
    b.extend_from_slice(&[(t.hours() % 24) as u8, t.minutes() as u8, t.seconds() as u8]);
    if us != 0 {
        b.extend_from_slice(&us.to_le_bytes());
    }
}

fn put_day(b: &mut Vec<u8>, d: Date) {
    b.extend_from_slice(&d.year().to_le_bytes());
    b.extend_from_slice(&[d.month(), d.day()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_round_trip_in_their_shortest_form() {
        let day = Date::new(2026, 11, 21).unwrap();
        for (value, len) in [
            (DateTime::ZERO, 0),
            (day.at(0), 4),
            (DateTime::new(day, 1, 2, 3, 0).unwrap(), 7),
            (DateTime::new(day, 23, 59, 59, 999_999).unwrap(), 11),
            (DateTime::new(Date::ZERO, 1, 0, 0, 0).unwrap(), 7),
        ] {
            let mut b = Vec::new();
            put_date_time(&mut b, value);
            assert_eq!((b[0], b.len()), (len, len as usize + 1));
            assert_eq!(read_date_time(&b[1..], false), Ok(Value::DateTime(value)));
        }
        for d in [Date::ZERO, day] {
            let mut b = Vec::new();
            put_date(&mut b, d);
            assert_eq!(read_date_time(&b[1..], true), Ok(Value::Date(d)));
        }
    }

    #[test]
    fn times_round_trip() {
        for (us, len) in
            [(0, 0), (1, 12), (-1_000_000, 8), (838 * 3_600_000_000i64, 8), (-86_400_000_001, 12)]
        {
            let (mut b, t) = (Vec::new(), Time::from_us(us).unwrap());
            put_time(&mut b, t);
            assert_eq!((b[0], b.len()), (len, len as usize + 1));
            assert_eq!(read_time(&b[1..]), Ok(Value::Time(t)));
        }
    }

    #[test]
    fn what_is_no_time_is_malformed() {
        assert_eq!(read_date_time(&[0xea, 7, 13, 1], true), Err(Malformed));
        assert_eq!(read_date_time(&[0xea, 7, 12, 1, 24, 0, 0], false), Err(Malformed));
        assert_eq!(read_date_time(&[0xea, 7, 12], true), Err(Malformed));
        assert_eq!(read_time(&[0, 255, 255, 255, 255, 0, 0, 0]), Err(Malformed));
        assert_eq!(read_time(&[0, 0, 0, 0, 0, 0, 60, 0]), Err(Malformed));
        assert_eq!(read_time(&[0]), Err(Malformed));
    }
}
