//! Dates and times in the binary protocol.
//!
//! ```text
//! DATE, DATETIME, TIMESTAMP
//!     length 0 | 4 | 7 | 11: year 2, month 1, day 1 | hour, minute, second | microseconds 4
//! TIME
//!     length 0 | 8 | 12: negative 1, days 4, hours 1, minutes 1, seconds 1 | microseconds 4
//! ```
//!
//! Clients may bind what is no date and no time. MySQL takes it as zero, with a warning. Here it
//! becomes the text that a client would write for it: the statement warns, or fails, as for this
//! text, and its message names the value.
use super::lenenc::{Malformed, Reader};
use redolith_types::temporal::MAX_TIME_US;
use redolith_types::{Date, DateTime, Time, Value};

/// A TIME beyond these hours is the largest one, as in MySQL.
const MAX_HOURS: u64 = 838;
const US: u32 = 1_000_000;

/// Reads a parameter bound as DATE (`date_only`), DATETIME or TIMESTAMP.
pub fn read_date_time(body: &[u8], date_only: bool) -> Result<Value<'static>, Malformed> {
    let mut r = Reader::new(body);
    if !matches!(body.len(), 0 | 4 | 7 | 11) {
        return Err(Malformed);
    }
    let (year, month, day) = if body.is_empty() { (0, 0, 0) } else { (r.u16()?, r.u8()?, r.u8()?) };
    let [hour, minute, second] = if body.len() >= 7 { r.array()? } else { [0; 3] };
    let us = if body.len() == 11 { r.u32()? } else { 0 };
    if us >= US {
        return Err(Malformed);
    }
    let date = Date::new(year, month, day);
    let is_date = date_only && (hour, minute, second, us) == (0, 0, 0, 0);
    let read = if is_date {
        date.map(Value::Date)
    } else {
        date.and_then(|date| DateTime::new(date, hour, minute, second, us)).map(Value::DateTime)
    };
    Ok(read.unwrap_or_else(|| {
        let mut text = format!("{year:04}-{month:02}-{day:02}");
        if !is_date {
            text += &format!(" {hour:02}:{minute:02}:{second:02}.{us:06}");
        }
        Value::owned(text.into_bytes())
    }))
}

/// Reads a parameter bound as TIME. Clients may put any part of the hours into the days.
pub fn read_time(body: &[u8]) -> Result<Value<'static>, Malformed> {
    let mut r = Reader::new(body);
    match body.len() {
        0..8 => return Ok(Value::Time(Time::ZERO)),
        8 | 12 => {}
        _ => return Err(Malformed),
    }
    let (negative, days, [hours, minutes, seconds]) = (r.u8()? != 0, r.u32()?, r.array()?);
    let us = if body.len() == 12 { r.u32()? } else { 0 };
    if us >= US {
        return Err(Malformed);
    }
    let hours = u64::from(days) * 24 + u64::from(hours);
    if hours > MAX_HOURS {
        let largest = Time::from_us(if negative { -MAX_TIME_US } else { MAX_TIME_US });
        return largest.map(Value::Time).ok_or(Malformed);
    }
    let time = (minutes < 60 && seconds < 60)
        .then(|| Time::new(negative, hours as u32, minutes.into(), seconds.into(), us))
        .flatten();
    Ok(time.map(Value::Time).unwrap_or_else(|| {
        let sign = if negative { "-" } else { "" };
        let text = format!("{sign}{hours:02}:{minutes:02}:{seconds:02}.{us:06}");
        Value::owned(text.into_bytes())
    }))
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

    fn text_of(v: Result<Value<'_>, Malformed>) -> String {
        match v {
            Ok(Value::Bytes(text)) => String::from_utf8(text.into_owned()).unwrap(),
            other => panic!("{other:?} is no text"),
        }
    }

    #[test]
    fn what_is_no_time_becomes_its_text() {
        assert_eq!(text_of(read_date_time(&[0xea, 7, 13, 1], true)), "2026-13-01");
        let moment = read_date_time(&[0xea, 7, 12, 1, 24, 0, 0], false);
        assert_eq!(text_of(moment), "2026-12-01 24:00:00.000000");
        assert_eq!(text_of(read_time(&[1, 1, 0, 0, 0, 2, 60, 0])), "-26:60:00.000000");
    }

    #[test]
    fn hours_and_days_add_up() {
        const HOUR: i64 = 3_600_000_000;
        let time = |name, us| (name, Ok(Value::Time(Time::from_us(us).unwrap())));
        for (body, (name, expected)) in [
            (&[0, 0, 0, 0, 0, 100, 0, 1][..], time("100 hours", 100 * HOUR + 1_000_000)),
            (&[1, 1, 0, 0, 0, 200, 0, 0], time("a day and 200 hours", -224 * HOUR)),
            (&[0, 34, 0, 0, 0, 22, 59, 59], time("the largest", MAX_TIME_US)),
            (&[0, 34, 0, 0, 0, 23, 0, 0], time("more", MAX_TIME_US)),
            (&[1, 255, 255, 255, 255, 0, 0, 0], time("much less", -MAX_TIME_US)),
            (&[0, 1, 0, 0], time("too short for a time", 0)),
        ] {
            assert_eq!(read_time(body), expected, "{name}");
        }
    }

    #[test]
    fn lengths_that_no_client_sends_are_malformed() {
        assert_eq!(read_date_time(&[0xea, 7, 12], true), Err(Malformed));
        assert_eq!(read_time(&[0; 9]), Err(Malformed));
        let too_many_us = [0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x42, 0x0f, 0];
        assert_eq!(read_time(&too_many_us), Err(Malformed));
    }
}
