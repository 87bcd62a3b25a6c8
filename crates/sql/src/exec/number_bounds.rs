//! Numbers as bounds of temporal columns: `d > 20240199` compares YYYYMMDD, even if there is no
//! such day. The nearest value is the greatest value that is not above the number.
use super::key_bounds::nearest_timestamp;
use redolith_types::convert::exact_number;
use redolith_types::temporal::{MAX_TIME_US, US_PER_DAY, US_PER_SEC, days_in_month};
use redolith_types::{Date, DateTime, Decimal, SqlType, Time, Value};
use std::cmp::Ordering;

/// The nearest value to `number` that the column can hold, and its order relative to `number`.
pub(super) fn nearest(
    number: &Decimal,
    ty: &SqlType,
    zone: i32,
) -> Option<(Value<'static>, Ordering)> {
    let beside = |value: Value<'static>| {
        let side = exact_number(&value).map_or(Ordering::Equal, |n| n.cmp(number));
        (value, side)
    };
    Some(match ty {
        SqlType::Time { fsp } => beside(Value::Time(time(number).truncate(*fsp))),
        SqlType::Date if number.is_negative() => beside(Value::Date(Date::ZERO)),
        SqlType::Date => beside(Value::Date(date(number.floor().to_i64()).0)),
        SqlType::Timestamp { fsp } => {
            let at = moment(number).truncate(*fsp);
            let side = beside(Value::DateTime(at)).1;
            let (at, side) = nearest_timestamp(at, side, zone)?;
            (Value::DateTime(at), side)
        }
        ty => beside(Value::DateTime(moment(number).truncate(ty.fsp()))),
    })
}

/// The last day whose YYYYMMDD is not above the number, and whether it equals the number. Months
/// and days may be zero. `number` is None if it is too great for 64 bits.
fn date(number: Option<i64>) -> (Date, bool) {
    let Some(number) = number.filter(|n| *n <= 99_991_231) else { return (Date::MAX, false) };
    let (year, month, day) =
        ((number / 10_000) as u16, (number / 100 % 100) as u8, (number % 100) as u8);
    let (last_month, last_day) =
        (month.min(12), if month == 0 { 31 } else { days_in_month(year, month.min(12)) });
    let fitting = if month > 12 { 31 } else { day.min(last_day) };
    (Date::new(year, last_month, fitting).unwrap_or(Date::MAX), month <= 12 && day <= last_day)
}

fn moment(number: &Decimal) -> DateTime {
    if number.is_negative() {
        return DateTime::ZERO;
    }
    let whole = number.floor().to_i64();
    let (date, exact) = date(whole.map(|n| n / 1_000_000));
    let Some(whole) = whole.filter(|_| exact) else { return date.at(US_PER_DAY - 1) };
    date.at(clock(whole % 1_000_000, number).min(US_PER_DAY - 1))
}

fn time(number: &Decimal) -> Time {
    let size = number.abs();
    let us = match size.floor().to_i64() {
        Some(whole) if whole < 8_390_000 => clock(whole, &size),
        _ => MAX_TIME_US,
    };
    Time::clamped(if number.is_negative() { -us } else { us }).0
}

/// hhmmss with the fraction of `number`, in microseconds. If there are more than 59 minutes or
/// seconds, the result is the last microsecond of the hour or minute.
fn clock(hhmmss: i64, number: &Decimal) -> i64 {
    let (hours, minutes, seconds) = (hhmmss / 10_000, hhmmss / 100 % 100, hhmmss % 100);
    let before = |seconds: i64| seconds * US_PER_SEC - 1;
    if minutes > 59 {
        return before((hours + 1) * 3600);
    }
    if seconds > 59 {
        return before(hours * 3600 + (minutes + 1) * 60);
    }
    let fraction =
        number.rem(&Decimal::from(1i64)).and_then(|f| f.mul(&Decimal::from(US_PER_SEC)).ok());
    let us = fraction.and_then(|f| f.floor().to_i64()).unwrap_or(0);
    (hours * 3600 + minutes * 60 + seconds) * US_PER_SEC + us
}
