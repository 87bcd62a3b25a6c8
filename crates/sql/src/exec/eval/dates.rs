//! Functions of dates and times.
use super::Eval;
use super::format::{DAYS, MONTHS};
use super::interval::difference;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, ExprKind, Function, Kind};
use redolith_types::convert::{has_date, to_datetime, to_decimal};
use redolith_types::temporal::{US_PER_SEC, has_time, parse_zone};
use redolith_types::{Date, DateTime, Decimal, Time, Value};

/// The greatest Unix time of MySQL: 3001-01-18 23:59:59 UTC.
const LAST_UNIX_SECOND: i64 = 32_536_771_199;

/// Smaller numbers have the form YYYYMMDD, without a time of day.
const FIRST_WITH_TIME: i64 = 100_000_000;

/// The fields that a unit of EXTRACT may span, from the left.
const FIELDS: [&str; 5] = ["DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND"];

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn date_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        use Function as F;
        let fsp = node.ty.decimals.min(6);
        Ok(match function {
            F::Now => Value::DateTime(self.env.now().truncate(fsp)),
            F::SysDate => {
                let us = self.env.disk.wall_us();
                Value::DateTime(self.env.local(us).truncate(fsp))
            }
            F::CurDate => Value::Date(self.env.today()),
            F::CurTime => Value::Time(self.env.now().time().truncate(fsp)),
            F::UtcTimestamp => Value::DateTime(self.utc_now().truncate(fsp)),
            F::UtcDate => Value::Date(self.utc_now().date()),
            F::UtcTime => Value::Time(self.utc_now().time().truncate(fsp)),
            F::UnixTimestamp => return self.unix_timestamp(args, fsp),
            F::FromUnixTime => return self.from_unix_time(args, node),
            F::Timestamp => {
                let Some(at) = self.arg_date(&args[0])? else { return Ok(Value::Null) };
                match args.get(1) {
                    None => Value::DateTime(at),
                    Some(e) => self
                        .arg_duration(e)?
                        .and_then(|t| at.add_time(t))
                        .map_or(Value::Null, Value::DateTime),
                }
            }
            F::Time => self.arg_time(&args[0])?.map_or(Value::Null, Value::Time),
            F::Hour => self.time_part(args, |t| t.hours())?,
            F::Minute => self.time_part(args, |t| t.minutes())?,
            F::Second => self.time_part(args, |t| t.seconds())?,
            F::Microsecond => self.time_part(args, |t| t.microseconds())?,
            F::TimeToSec => {
                self.arg_time(&args[0])?.map_or(Value::Null, |t| Value::Int(t.us() / US_PER_SEC))
            }
            F::SecToTime => {
                let value = self.number(&args[0])?;
                if value.is_null() {
                    return Ok(Value::Null);
                }
                let seconds = to_decimal(&value).value;
                let us = seconds.mul(&Decimal::from(US_PER_SEC)).ok().and_then(|d| d.to_i64());
                let longest = if seconds.is_negative() { i64::MIN } else { i64::MAX };
                return self.clamped(us.unwrap_or(longest));
            }
            F::DateDiff => {
                let (Some(a), Some(b)) =
                    (self.arg_datetime(&args[0])?, self.arg_datetime(&args[1])?)
                else {
                    return Ok(Value::Null);
                };
                let days = a.date().to_days().zip(b.date().to_days());
                days.map_or(Value::Null, |(a, b)| Value::Int(a - b))
            }
            F::TimeDiff => return self.time_diff(args),
            F::Extract => return self.extract(args),
            F::TimestampDiff => {
                let unit = self.arg_bytes(&args[0])?.unwrap_or_default();
                let (Some(a), Some(b)) =
                    (self.arg_datetime(&args[1])?, self.arg_datetime(&args[2])?)
                else {
                    return Ok(Value::Null);
                };
                difference(&unit, a, b).map_or(Value::Null, Value::Int)
            }
            F::AddTime | F::SubTime => return self.add_time(function == F::SubTime, args, node),
            F::MakeDate => {
                let (Some(year), Some(day)) = (self.arg_int(&args[0])?, self.arg_int(&args[1])?)
                else {
                    return Ok(Value::Null);
                };
                let year = match year {
                    0..=69 => year + 2000,
                    70..=99 => year + 1900,
                    year => year,
                };
                let first = u16::try_from(year).ok().and_then(|y| Date::new(y, 1, 1));
                first
                    .filter(|_| day > 0)
                    .and_then(|d| d.add_days(day - 1))
                    .map_or(Value::Null, Value::Date)
            }
            F::MakeTime => {
                let (Some(h), Some(m)) = (self.arg_int(&args[0])?, self.arg_int(&args[1])?) else {
                    return Ok(Value::Null);
                };
                let seconds = self.number(&args[2])?;
                let us = to_decimal(&seconds)
                    .value
                    .mul(&Decimal::from(US_PER_SEC))
                    .ok()
                    .and_then(|d| d.to_i64());
                match us {
                    Some(us)
                        if !seconds.is_null()
                            && (0..60).contains(&m)
                            && (0..60 * US_PER_SEC).contains(&us) =>
                    {
                        let total = h
                            .saturating_abs()
                            .saturating_mul(3600)
                            .saturating_add(m * 60)
                            .saturating_mul(US_PER_SEC)
                            .saturating_add(us);
                        return self.clamped(if h < 0 { -total } else { total });
                    }
                    _ => Value::Null,
                }
            }
            F::FromDays => self.arg_int(&args[0])?.map_or(Value::Null, |n| {
                Value::Date(Date::from_days(n).filter(|_| n > 365).unwrap_or(Date::ZERO))
            }),
            F::ConvertTz => return self.convert_tz(args),
            F::Date => self.arg_date(&args[0])?.map_or(Value::Null, |at| Value::Date(at.date())),
            _ => {
                let Some(at) = self.arg_datetime(&args[0])? else { return Ok(Value::Null) };
                return self.date_part(function, at, args);
            }
        })
    }
    /// The date that DATE() or TIMESTAMP() reads from its argument, by the rules of CAST.
    fn arg_date(&mut self, e: &'v Expr) -> Result<Option<DateTime>> {
        let value = self.moment(e)?;
        let text = if matches!(value, Value::Bytes(_)) { value.clone() } else { Value::Null };
        let at = self.as_datetime(value)?;
        if at.is_some_and(|at| self.is_refused_zero(&text, at)) {
            self.env.warn(SqlError::new(1292, format!("Incorrect datetime value: '{text}'")))?;
            return Ok(None);
        }
        Ok(at)
    }
    fn utc_now(&mut self) -> DateTime {
        let us = self.env.now_us();
        DateTime::from_unix_us(us, 0).unwrap_or_default()
    }
    fn time_part(&mut self, args: &'v [Expr], part: fn(Time) -> u32) -> Result<Value<'v>> {
        Ok(self.arg_time(&args[0])?.map_or(Value::Null, |t| Value::Int(part(t) as i64)))
    }

    /// EXTRACT of one field or of a span of fields. A value with a date has a day. A time has no
    /// day, but it may have more than 23 hours and a sign.
    fn extract(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let unit = self.arg_bytes(&args[0])?.unwrap_or_default();
        if *unit == *b"YEAR_MONTH" {
            let at = self.arg_datetime(&args[1])?;
            return Ok(at.map_or(Value::Null, |at| {
                Value::Int(at.date().year() as i64 * 100 + at.date().month() as i64)
            }));
        }
        let value = self.moment(&args[1])?;
        let (day, time) = if has_date(&value) {
            let Some(at) = self.as_datetime(value)? else { return Ok(Value::Null) };
            (at.date().day(), at.time())
        } else {
            let Some(time) = self.as_time(value)? else { return Ok(Value::Null) };
            (0, time)
        };
        // HOUR_SECOND spans the fields from hours to seconds; the result has their digits in order.
        let fields =
            [day.into(), time.hours(), time.minutes(), time.seconds(), time.microseconds()]
                .map(i64::from);
        let place = |name: &[u8]| FIELDS.iter().position(|f| f.as_bytes() == name);
        let mut names = unit.split(|b| *b == b'_').map(place);
        let first = names.next().flatten();
        let Some((first, last)) = first.zip(names.next().unwrap_or(first)) else {
            return Ok(Value::Null);
        };
        let number = (first..=last)
            .fold(0, |number, n| number * if n == 4 { 1_000_000 } else { 100 } + fields[n]);
        Ok(Value::Int(if time.us() < 0 { -number } else { number }))
    }

    fn date_part(
        &mut self,
        function: Function,
        at: DateTime,
        args: &'v [Expr],
    ) -> Result<Value<'v>> {
        use Function as F;
        let date = at.date();
        let int = |n: Option<i64>| n.map_or(Value::Null, Value::Int);
        let weekday = date.weekday().map(|d| d as i64);
        Ok(match function {
            F::Year => Value::Int(date.year() as i64),
            F::Quarter => Value::Int((date.month() as i64 + 2) / 3),
            F::Month => Value::Int(date.month() as i64),
            F::DayOfMonth => Value::Int(date.day() as i64),
            F::DayOfWeek => int(weekday.map(|d| (d + 1) % 7 + 1)),
            F::Weekday => int(weekday),
            F::DayOfYear => int(date.day_of_year().map(|n| n as i64)),
            F::Week | F::YearWeek => {
                let mode = match args.get(1) {
                    Some(e) => self.arg_int(e)?.unwrap_or(0) as u8 & 7,
                    None if function == F::Week => self.env.settings.default_week_format,
                    None => 0,
                };
                let full = function == F::YearWeek;
                int(date.week(if full { mode | 2 } else { mode }).map(|(year, week)| {
                    if full { year as i64 * 100 + week as i64 } else { week as i64 }
                }))
            }
            F::DayName => weekday.map_or(Value::Null, |d| Value::text(DAYS[d as usize])),
            F::MonthName => match date.month() {
                0 => Value::Null,
                m => Value::text(MONTHS[m as usize - 1]),
            },
            F::LastDay => date.last_day().map_or(Value::Null, Value::Date),
            F::ToDays => int(date.to_days()),
            F::ToSeconds => int(date.to_days().map(|d| d * 86_400 + at.us_of_day() / US_PER_SEC)),
            other => return Err(SqlError::unsupported(other.name())),
        })
    }

    fn unix_timestamp(&mut self, args: &'v [Expr], decimals: u8) -> Result<Value<'v>> {
        let Some(e) = args.first() else {
            return Ok(Value::UInt((self.env.now_us() / US_PER_SEC) as u64));
        };
        let value = self.eval(e)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        // What is no date is 0, as is a date that Unix times do not reach.
        let at = self.datetime_of(e, value)?;
        let zone = self.env.settings.zone_offset_secs;
        let us = at.and_then(|at| at.to_unix_us(zone)).unwrap_or(0);
        let us = if (0..=LAST_UNIX_SECOND).contains(&us.div_euclid(US_PER_SEC)) { us } else { 0 };
        Ok(match decimals {
            0 => Value::UInt((us / US_PER_SEC) as u64),
            n => Value::Decimal(Decimal::from_parts((us / 10i64.pow(6 - u32::from(n))).into(), n)),
        })
    }
    fn from_unix_time(&mut self, args: &'v [Expr], node: &'v Expr) -> Result<Value<'v>> {
        let value = self.number(&args[0])?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        let us =
            to_decimal(&value).value.mul(&Decimal::from(US_PER_SEC)).ok().and_then(|d| d.to_i64());
        let us = us.filter(|us| (0..=LAST_UNIX_SECOND * US_PER_SEC + 999_999).contains(us));
        let Some(at) =
            us.and_then(|us| DateTime::from_unix_us(us, self.env.settings.zone_offset_secs))
        else {
            return Ok(Value::Null);
        };
        match args.get(1) {
            None => Ok(Value::DateTime(at)),
            Some(e) => {
                let pattern = self.arg_text(e, self.charset_of(node))?;
                let Some(pattern) = pattern else { return Ok(Value::Null) };
                let text = super::format::format_date(at, &pattern, self.most_bytes());
                Ok(text.map_or(Value::Null, Value::owned))
            }
        }
    }

    /// A time or a moment, as ADDTIME and TIMEDIFF tell them apart: by the value's kind. A string
    /// or a number is a moment if it has a date.
    fn moment_or_time(&mut self, e: &'v Expr) -> Result<Option<Moment>> {
        let value = self.moment(e)?;
        if is_sum(e) && matches!(value, Value::Bytes(_)) {
            return Ok(self.as_datetime(value)?.map(Moment::At));
        }
        let is_number = !matches!(
            value,
            Value::Bytes(_) | Value::Date(_) | Value::DateTime(_) | Value::Time(_)
        );
        // A number too great for a date becomes the longest time.
        if has_date(&value) && !(is_number && to_datetime(&value, self.env.today(), 0).is_none()) {
            return Ok(self.as_datetime(value)?.map(Moment::At));
        }
        Ok(self.as_time(value)?.map(Moment::Time))
    }
    /// The time that is added to another argument. None if the argument is NULL or a moment.
    fn arg_duration(&mut self, e: &'v Expr) -> Result<Option<Time>> {
        Ok(match self.moment_or_time(e)? {
            Some(Moment::Time(time)) => Some(time),
            _ => None,
        })
    }
    fn time_diff(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let is_dated =
            |e: &Expr| matches!(e.ty.kind, Kind::Date | Kind::DateTime | Kind::Timestamp);
        if args.iter().any(is_dated) {
            if args.iter().any(|e| e.ty.kind == Kind::Time) {
                return Ok(Value::Null);
            }
            // If the type of one argument has a date, both are read as dates. The difference is
            // NULL if only one of them has a time of day.
            let (Some((a, a_has_time)), Some((b, b_has_time))) =
                (self.dated(&args[0])?, self.dated(&args[1])?)
            else {
                return Ok(Value::Null);
            };
            let us = if a_has_time == b_has_time { difference_us(a, b) } else { None };
            return us.map_or(Ok(Value::Null), |us| self.clamped(us));
        }
        let us = match (self.moment_or_time(&args[0])?, self.moment_or_time(&args[1])?) {
            (Some(Moment::At(a)), Some(Moment::At(b))) => difference_us(a, b),
            (Some(Moment::Time(a)), Some(Moment::Time(b))) => Some(a.us() - b.us()),
            _ => None,
        };
        us.map_or(Ok(Value::Null), |us| self.clamped(us))
    }
    /// The time of `us` microseconds. Beyond the longest time: the longest time and a warning.
    fn clamped(&mut self, us: i64) -> Result<Value<'v>> {
        let (time, cut) = Time::clamped(us);
        if cut {
            let (sign, seconds) =
                (if us < 0 { "-" } else { "" }, us.unsigned_abs() / US_PER_SEC as u64);
            let text =
                format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
            self.env.warn(SqlError::truncated_wrong_value("time", text))?;
        }
        Ok(Value::Time(time))
    }

    /// A moment, and whether it has a time of day.
    fn dated(&mut self, e: &'v Expr) -> Result<Option<(DateTime, bool)>> {
        let value = self.moment(e)?;
        let has_time = has_time_of_day(&value);
        Ok(self.as_datetime(value)?.map(|at| (at, has_time)))
    }
    fn add_time(&mut self, subtract: bool, args: &'v [Expr], node: &'v Expr) -> Result<Value<'v>> {
        let (Some(a), Some(t)) = (self.moment_or_time(&args[0])?, self.arg_duration(&args[1])?)
        else {
            return Ok(Value::Null);
        };
        let us = if subtract { -t.us() } else { t.us() };
        let sum = match a {
            // There are no moments before the year 1.
            Moment::At(at) => at.add_us(us).filter(|at| at.date().year() > 0).map(Value::DateTime),
            Moment::Time(t) => Some(self.clamped(t.us() + us)?),
        };
        let Some(sum) = sum else { return Ok(Value::Null) };
        if !node.ty.kind.is_string() {
            return Ok(sum);
        }
        let mut out = Vec::with_capacity(26);
        sum.write_text(None, &mut out);
        Ok(Value::owned(out))
    }
    /// CONVERT_TZ. Zones are offsets, SYSTEM and UTC. A named zone gives NULL, as in MySQL without
    /// tables of time zones.
    fn convert_tz(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let Some(at) = self.arg_datetime(&args[0])? else { return Ok(Value::Null) };
        let (Some(from), Some(to)) = (self.arg_bytes(&args[1])?, self.arg_bytes(&args[2])?) else {
            return Ok(Value::Null);
        };
        let (Some(from), Some(to)) = (parse_zone(&from), parse_zone(&to)) else {
            return Ok(Value::Null);
        };
        if at.is_zero() {
            return Ok(Value::Null);
        }
        let Some(us) = at.to_unix_us(from) else { return Ok(Value::Null) };
        // Moments outside the range of Unix times are not converted.
        let converts = (1..=LAST_UNIX_SECOND).contains(&us.div_euclid(US_PER_SEC));
        Ok(if converts {
            at.shift_zone(from, to).map_or(Value::Null, Value::DateTime)
        } else {
            Value::DateTime(at)
        })
    }
}

/// Whether a value that is read as a moment has a time of day, even if the time is midnight.
pub(super) fn has_time_of_day(value: &Value<'_>) -> bool {
    match value {
        Value::Date(_) => false,
        Value::Bytes(text) => has_time(text),
        Value::DateTime(_) | Value::Time(_) | Value::Null => true,
        number => to_decimal(number).value >= Decimal::from(FIRST_WITH_TIME),
    }
}

/// a - b in microseconds. The zero date counts as day 0.
fn difference_us(a: DateTime, b: DateTime) -> Option<i64> {
    let us = |at: DateTime| {
        let days = if at.date() == Date::ZERO { Some(0) } else { at.date().to_days() };
        days?.checked_mul(86_400 * US_PER_SEC)?.checked_add(at.us_of_day())
    };
    us(a)?.checked_sub(us(b)?)
}

/// True for `date + INTERVAL ..`. The result counts as a date even if its type is text.
pub(super) fn is_sum(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Interval { .. })
}

enum Moment {
    At(DateTime),
    Time(Time),
}
