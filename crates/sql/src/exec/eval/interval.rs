//! `date + INTERVAL amount unit`, and differences in units.
use super::Eval;
use super::dates::has_time_of_day;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, IntervalUnit, Kind};
use redolith_types::convert::{to_datetime, to_decimal, to_i64, to_time};
use redolith_types::temporal::{Interval, US_PER_DAY, US_PER_SEC};
use redolith_types::{Date, DateTime, Decimal, Time, Value};

const MINUTE: i64 = 60 * US_PER_SEC;
const HOUR: i64 = 60 * MINUTE;

/// The parts of a composite unit, from the left, in microseconds (months for YEAR_MONTH).
fn parts_of(unit: IntervalUnit) -> &'static [i64] {
    use IntervalUnit as U;
    match unit {
        U::SecondMicrosecond => &[US_PER_SEC, 1],
        U::MinuteMicrosecond => &[MINUTE, US_PER_SEC, 1],
        U::MinuteSecond => &[MINUTE, US_PER_SEC],
        U::HourMicrosecond => &[HOUR, MINUTE, US_PER_SEC, 1],
        U::HourSecond => &[HOUR, MINUTE, US_PER_SEC],
        U::HourMinute => &[HOUR, MINUTE],
        U::DayMicrosecond => &[US_PER_DAY, HOUR, MINUTE, US_PER_SEC, 1],
        U::DaySecond => &[US_PER_DAY, HOUR, MINUTE, US_PER_SEC],
        U::DayMinute => &[US_PER_DAY, HOUR, MINUTE],
        U::DayHour => &[US_PER_DAY, HOUR],
        U::YearMonth => &[12, 1],
        _ => &[],
    }
}

/// The interval of an amount in a simple unit.
fn simple(amount: &Value<'_>, unit: IntervalUnit) -> Option<Interval> {
    use IntervalUnit as U;
    let n = to_i64(amount).value;
    let days = |n: i64| Some(Interval { days: n, ..Interval::default() });
    let months = |n: Option<i64>| Some(Interval { months: n?, ..Interval::default() });
    let us = |n: Option<i64>| Some(Interval { us: n?, ..Interval::default() });
    match unit {
        U::Second => {
            // SECOND is the only simple unit with a fraction. What is less than a microsecond is
            // cut off.
            let scaled = to_decimal(amount).value.mul(&Decimal::from(US_PER_SEC)).ok()?;
            us(scaled.round_to(0, true).ok()?.to_i64())
        }
        U::Microsecond => us(Some(n)),
        U::Minute => us(n.checked_mul(MINUTE)),
        U::Hour => us(n.checked_mul(HOUR)),
        U::Day => days(n),
        U::Week => days(n.checked_mul(7)?),
        U::Month => months(Some(n)),
        U::Quarter => months(n.checked_mul(3)),
        _ => months(n.checked_mul(12)),
    }
}

/// The interval of an amount in a composite unit: numbers with any characters between. If
/// numbers are missing, they are missing on the left. More numbers than parts are no interval.
fn composite(text: &[u8], unit: IntervalUnit) -> Option<Interval> {
    let parts = parts_of(unit);
    let text = text.trim_ascii_start();
    let negative = text.first() == Some(&b'-');
    let mut numbers: Vec<(i64, usize)> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits = text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 {
            if numbers.len() == parts.len() {
                return None;
            }
            let n = text[at..at + digits]
                .iter()
                .try_fold(0i64, |n, b| n.checked_mul(10)?.checked_add((b - b'0') as i64))?;
            numbers.push((n, digits));
        }
        at += digits.max(1);
    }
    // Microseconds after a point are a fraction: '1.5' SECOND_MICROSECOND is 1.500000.
    if parts.last() == Some(&1)
        && unit != IntervalUnit::YearMonth
        && let Some((n, digits)) = numbers.last_mut()
        && *digits < 6
    {
        *n *= 10i64.pow(6 - *digits as u32);
    }
    let units = &parts[parts.len() - numbers.len()..];
    let mut sum = 0i64;
    for ((n, _), unit) in numbers.iter().zip(units) {
        sum = sum.checked_add(n.checked_mul(*unit)?)?;
    }
    let sum = if negative { -sum } else { sum };
    Some(if unit == IntervalUnit::YearMonth {
        Interval { months: sum, ..Interval::default() }
    } else {
        Interval { us: sum, ..Interval::default() }
    })
}

/// True if a date stays a date, without a time of day, when this unit is added.
fn is_of_days(unit: IntervalUnit) -> bool {
    use IntervalUnit as U;
    matches!(unit, U::Day | U::Week | U::Month | U::Quarter | U::Year | U::YearMonth)
}

fn negated(i: Interval) -> Option<Interval> {
    Some(Interval {
        months: i.months.checked_neg()?,
        days: i.days.checked_neg()?,
        us: i.us.checked_neg()?,
    })
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn interval(
        &mut self,
        subtract: bool,
        unit: IntervalUnit,
        sides: &'v [Expr; 2],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let (value, amount) = (self.moment(&sides[0])?, self.number(&sides[1])?);
        if value.is_null() || amount.is_null() {
            return Ok(Value::Null);
        }
        let is_simple = parts_of(unit).is_empty();
        let interval = if is_simple {
            simple(&amount, unit)
        } else {
            composite(&self.text_of(&sides[1], &amount), unit)
        };
        let interval = match interval.and_then(|i| if subtract { negated(i) } else { Some(i) }) {
            Some(interval) => interval,
            None if is_simple => return self.overflow("datetime"),
            None => return Ok(Value::Null),
        };
        if node.ty.kind == Kind::Time {
            return self.add_to_time(&value, interval);
        }
        let (today, zone) = (self.env.today(), self.env.settings.zone_offset_secs);
        let Some(parsed) = to_datetime(&value, today, zone).filter(|at| at.value.date().is_real())
        else {
            self.env.warn(SqlError::new(1292, format!("Incorrect datetime value: '{value}'")))?;
            return Ok(Value::Null);
        };
        let Some(sum) = parsed.value.add_interval(interval) else {
            return self.overflow("datetime");
        };
        Ok(match node.ty.kind {
            Kind::Date => Value::Date(sum.date()),
            Kind::DateTime | Kind::Timestamp => Value::DateTime(sum),
            // The sum of a string or a number is a string. It is a date without time if the operand
            // has no time and the unit has none.
            _ => {
                let mut out = Vec::with_capacity(26);
                if is_of_days(unit) && !has_time_of_day(&value) {
                    sum.date().write_text(&mut out);
                } else {
                    sum.write_text(if sum.microsecond() == 0 { 0 } else { 6 }, &mut out);
                }
                Value::owned(out)
            }
        })
    }

    /// Adds an interval without days to a time. (A time plus days is a moment.)
    fn add_to_time(&mut self, value: &Value<'_>, interval: Interval) -> Result<Value<'v>> {
        let sum = to_time(value)
            .and_then(|t| t.value.us().checked_add(interval.us))
            .and_then(Time::from_us);
        sum.map_or_else(|| self.overflow("time"), |t| Ok(Value::Time(t)))
    }
    #[cold]
    fn overflow(&mut self, field: &str) -> Result<Value<'v>> {
        self.env.warn(SqlError::new(1441, format!("Datetime function: {field} field overflow")))?;
        Ok(Value::Null)
    }
}

/// TIMESTAMPDIFF: the number of whole units from `a` to `b`.
pub(super) fn difference(unit: &[u8], a: DateTime, b: DateTime) -> Option<i64> {
    let us = b.diff_us(a)?;
    Some(match unit {
        b"MICROSECOND" => us,
        b"SECOND" => us / US_PER_SEC,
        b"MINUTE" => us / MINUTE,
        b"HOUR" => us / HOUR,
        b"DAY" => us / US_PER_DAY,
        b"WEEK" => us / (7 * US_PER_DAY),
        b"MONTH" => months(a, b),
        b"QUARTER" => months(a, b) / 3,
        b"YEAR" => months(a, b) / 12,
        _ => return None,
    })
}
fn months(a: DateTime, b: DateTime) -> i64 {
    if a > b {
        return -months(b, a);
    }
    let count = |d: Date| d.year() as i64 * 12 + d.month() as i64;
    let whole = count(b.date()) - count(a.date());
    let short = (b.date().day(), b.us_of_day()) < (a.date().day(), a.us_of_day());
    whole - short as i64
}
