//! Dates and times in the binary protocol.
//!
//!     DATE, DATETIME, TIMESTAMP   length 0 | 4 | 7 | 11: year 2, month 1, day 1 | hour, minute, second | microseconds 4
//!     TIME                        length 0 | 8 | 12:     negative 1, days 4, hours 1, minutes 1, seconds 1 | microseconds 4
use super::lenenc::{Malformed, Reader};
use crate::standin::{Date, DateTime, Time, Value};

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

pub fn read_date_time(body: &[u8], date_only: bool) -> Result<Value<'static>, Malformed> {
    let mut r = Reader::new(body);
    let (mut date, mut us) = (Date { year: 0, month: 0, day: 0 }, 0);
    if !matches!(body.len(), 0 | 4 | 7 | 11) {
        return Err(Malformed);
    }
    if body.len() >= 4 {
        date = Date { year: r.u16()?, month: r.u8()?, day: r.u8()? };
    }
    if body.len() >= 7 {
        us = r.u8()? as i64 * HOUR_US + r.u8()? as i64 * MINUTE_US + r.u8()? as i64 * SECOND_US;
    }
    if body.len() == 11 {
        us += r.u32()? as i64;
    }
    if date.year > 9999 || date.month > 12 || date.day > 31 || us >= DAY_US {
        return Err(Malformed);
    }
    Ok(if date_only && us == 0 { Value::Date(date) } else { Value::DateTime(DateTime { date, us }) })
}

pub fn read_time(body: &[u8]) -> Result<Value<'static>, Malformed> {
    let mut r = Reader::new(body);
    if !matches!(body.len(), 0 | 8 | 12) {
        return Err(Malformed);
    }
    if body.is_empty() {
        return Ok(Value::Time(Time { us: 0 }));
    }
    let negative = r.u8()? != 0;
    let days = r.u32()? as i64;
    let mut us = days * DAY_US + r.u8()? as i64 * HOUR_US + r.u8()? as i64 * MINUTE_US + r.u8()? as i64 * SECOND_US;
    if body.len() == 12 {
        us += r.u32()? as i64;
    }
    Ok(Value::Time(Time { us: if negative { -us } else { us } }))
}

pub fn put_date(b: &mut Vec<u8>, d: Date) {
    if d.year == 0 && d.month == 0 && d.day == 0 {
        return b.push(0);
    }
    b.push(4);
    put_day(b, d);
}

pub fn put_date_time(b: &mut Vec<u8>, d: DateTime) {
    let fraction = (d.us % SECOND_US) as u32;
    let is_zero_date = d.date.year == 0 && d.date.month == 0 && d.date.day == 0;
    match (is_zero_date, d.us, fraction) {
        (true, 0, _) => b.push(0),
        (_, 0, _) => {
            b.push(4);
            put_day(b, d.date);
        }
        (_, _, 0) => {
            b.push(7);
            put_day(b, d.date);
            put_clock(b, d.us);
        }
        _ => {
            b.push(11);
            put_day(b, d.date);
            put_clock(b, d.us);
            b.extend_from_slice(&fraction.to_le_bytes());
        }
    }
}

pub fn put_time(b: &mut Vec<u8>, t: Time) {
    let us = t.us.abs();
    let fraction = (us % SECOND_US) as u32;
    if us == 0 {
        return b.push(0);
    }
    b.push(if fraction == 0 { 8 } else { 12 });
    b.push((t.us < 0) as u8);
    b.extend_from_slice(&((us / DAY_US) as u32).to_le_bytes());
    put_clock(b, us % DAY_US);
    if fraction != 0 {
        b.extend_from_slice(&fraction.to_le_bytes());
    }
}

fn put_day(b: &mut Vec<u8>, d: Date) {
    b.extend_from_slice(&d.year.to_le_bytes());
    b.extend_from_slice(&[d.month, d.day]);
}

/// Hours, minutes and seconds of a time of day in microseconds.
fn put_clock(b: &mut Vec<u8>, us: i64) {
    b.extend_from_slice(&[(us / HOUR_US) as u8, (us / MINUTE_US % 60) as u8, (us / SECOND_US % 60) as u8]);
}
