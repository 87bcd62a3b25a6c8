//! DATE, TIME and DATETIME with microseconds, as packed values whose integer order is their time
//! order. Zero dates (0000-00-00) and dates with a zero month or day are values; `store` decides
//! whether they may be stored. This module has no clock and no time zone tables: a zone is an
//! offset in seconds.
//!
//! `calendar` has day arithmetic, `parse` MySQL's relaxed literal formats.
mod calendar;
mod parse;

use serde::{Deserialize, Serialize};

pub use calendar::{Interval, days_in_month, is_leap_year};
pub(crate) use parse::FIRST_WITH_DATE;
pub use parse::{Parsed, has_date, has_time, parse_date, parse_datetime, parse_time, parse_zone};

pub const US_PER_SEC: i64 = 1_000_000;
pub const US_PER_DAY: i64 = 86_400 * US_PER_SEC;
/// TIME's range is -838:59:59 to 838:59:59.
pub const MAX_TIME_US: i64 = (838 * 3600 + 59 * 60 + 59) * US_PER_SEC;

/// year << 9 | month << 5 | day; 0 is 0000-00-00.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Date(u32);

/// Signed microseconds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Time(i64);

/// The date's bits << 37 | hour << 32 | minute << 26 | second << 20 | microsecond; 0 is 0000-00-00
/// 00:00:00.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct DateTime(u64);

/// 10^(6 - fsp): the microseconds of one unit of a fractional second.
pub(crate) fn fsp_unit(fsp: u8) -> i64 {
    10i64.pow(6 - u32::from(fsp.min(6)))
}

fn push_padded(out: &mut Vec<u8>, value: u32, width: usize) {
    let mut digits = [b'0'; 10];
    let mut rest = value;
    let mut start = digits.len();
    while rest > 0 || digits.len() - start < width {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[start..]);
}

fn push_fraction(out: &mut Vec<u8>, us: u32, fsp: u8) {
    if fsp > 0 {
        out.push(b'.');
        push_padded(out, us / fsp_unit(fsp) as u32, usize::from(fsp.min(6)));
    }
}

impl Date {
    pub const ZERO: Date = Date(0);
    pub const MAX: Date = Date(9999 << 9 | 12 << 5 | 31);

    /// Makes a date from any year 0..=9999, month 0..=12 and day 0..=31, as MySQL allows in values.
    /// `None` outside these ranges. The length of the month is not checked.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Date> {
        (year <= 9999 && month <= 12 && day <= 31)
            .then_some(Date(u32::from(year) << 9 | u32::from(month) << 5 | u32::from(day)))
    }

    pub fn packed(self) -> u32 {
        self.0
    }

    pub fn from_packed(packed: u32) -> Date {
        Date(packed)
    }

    pub fn year(self) -> u16 {
        (self.0 >> 9) as u16
    }

    pub fn month(self) -> u8 {
        (self.0 >> 5 & 15) as u8
    }

    pub fn day(self) -> u8 {
        (self.0 & 31) as u8
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether the date exists: neither month nor day is zero, and the month has that day.
    pub fn is_real(self) -> bool {
        (1..=12).contains(&self.month())
            && self.day() >= 1
            && self.day() <= days_in_month(self.year(), self.month())
    }

    /// The number YYYYMMDD, for a numeric context.
    pub fn to_number(self) -> i64 {
        i64::from(self.year()) * 10_000 + i64::from(self.month()) * 100 + i64::from(self.day())
    }

    pub fn at(self, us_of_day: i64) -> DateTime {
        debug_assert!((0..US_PER_DAY).contains(&us_of_day));
        let (sec, us) = (us_of_day / US_PER_SEC, us_of_day % US_PER_SEC);
        let (hour, minute, second) = (sec / 3600, sec / 60 % 60, sec % 60);
        DateTime(u64::from(self.0) << 37 | (hour << 32 | minute << 26 | second << 20 | us) as u64)
    }

    pub fn write_text(self, out: &mut Vec<u8>) {
        push_padded(out, u32::from(self.year()), 4);
        out.push(b'-');
        push_padded(out, u32::from(self.month()), 2);
        out.push(b'-');
        push_padded(out, u32::from(self.day()), 2);
    }
}

impl Time {
    pub const ZERO: Time = Time(0);

    /// Makes a TIME from microseconds. `None` outside TIME's range.
    pub fn from_us(us: i64) -> Option<Time> {
        (us.unsigned_abs() <= MAX_TIME_US as u64).then_some(Time(us))
    }

    /// The time clamped into TIME's range, and whether clamping changed it.
    pub fn clamped(us: i64) -> (Time, bool) {
        let inside = us.clamp(-MAX_TIME_US, MAX_TIME_US);
        (Time(inside), inside != us)
    }

    pub fn new(negative: bool, hours: u32, minutes: u32, seconds: u32, us: u32) -> Option<Time> {
        let total = (i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds))
            .saturating_mul(US_PER_SEC)
            .saturating_add(i64::from(us));
        Time::from_us(if negative { -total } else { total })
    }

    pub fn us(self) -> i64 {
        self.0
    }

    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The hours without the sign. They may be above 23.
    pub fn hours(self) -> u32 {
        (self.0.unsigned_abs() / 3_600_000_000) as u32
    }

    pub fn minutes(self) -> u32 {
        (self.0.unsigned_abs() / 60_000_000 % 60) as u32
    }

    pub fn seconds(self) -> u32 {
        (self.0.unsigned_abs() / 1_000_000 % 60) as u32
    }

    pub fn microseconds(self) -> u32 {
        (self.0.unsigned_abs() % 1_000_000) as u32
    }

    /// [-]HHMMSS without the fraction.
    pub fn to_number(self) -> i64 {
        let n = i64::from(self.hours()) * 10_000
            + i64::from(self.minutes()) * 100
            + i64::from(self.seconds());
        if self.is_negative() { -n } else { n }
    }

    /// Rounded half away from zero to `fsp` digits.
    pub fn round(self, fsp: u8) -> Time {
        let unit = fsp_unit(fsp);
        let half = if self.0 < 0 { -unit / 2 } else { unit / 2 };
        Time((self.0 + half) / unit * unit)
    }

    pub fn truncate(self, fsp: u8) -> Time {
        let unit = fsp_unit(fsp);
        Time(self.0 / unit * unit)
    }

    pub fn write_text(self, fsp: u8, out: &mut Vec<u8>) {
        if self.is_negative() {
            out.push(b'-');
        }
        push_padded(out, self.hours(), 2);
        out.push(b':');
        push_padded(out, self.minutes(), 2);
        out.push(b':');
        push_padded(out, self.seconds(), 2);
        push_fraction(out, self.microseconds(), fsp);
    }
}

impl DateTime {
    pub const ZERO: DateTime = DateTime(0);

    pub fn new(date: Date, hour: u8, minute: u8, second: u8, us: u32) -> Option<DateTime> {
        let fits = hour < 24 && minute < 60 && second < 60 && us < 1_000_000;
        let sec = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        fits.then(|| date.at(sec * US_PER_SEC + i64::from(us)))
    }

    pub fn packed(self) -> u64 {
        self.0
    }

    pub fn from_packed(packed: u64) -> DateTime {
        DateTime(packed)
    }

    pub fn date(self) -> Date {
        Date((self.0 >> 37) as u32)
    }

    pub fn hour(self) -> u8 {
        (self.0 >> 32 & 31) as u8
    }

    pub fn minute(self) -> u8 {
        (self.0 >> 26 & 63) as u8
    }

    pub fn second(self) -> u8 {
        (self.0 >> 20 & 63) as u8
    }

    pub fn microsecond(self) -> u32 {
        (self.0 & 0xf_ffff) as u32
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub fn us_of_day(self) -> i64 {
        let sec = i64::from(self.hour()) * 3600
            + i64::from(self.minute()) * 60
            + i64::from(self.second());
        sec * US_PER_SEC + i64::from(self.microsecond())
    }

    pub fn time(self) -> Time {
        Time(self.us_of_day())
    }

    /// Sets the fraction of a whole second to `us` microseconds. 1,000,000 microseconds carry into
    /// the second.
    pub(crate) fn with_fraction(self, us: i64) -> Option<DateTime> {
        if us < US_PER_SEC { Some(self.date().at(self.us_of_day() + us)) } else { self.add_us(us) }
    }

    /// YYYYMMDDhhmmss without the fraction.
    pub fn to_number(self) -> i64 {
        self.date().to_number() * 1_000_000 + self.time().to_number()
    }

    /// Rounds half up to `fsp` digits. `None` past 9999-12-31 23:59:59. Rounding does not carry
    /// into a date that does not exist.
    pub fn round(self, fsp: u8) -> Option<DateTime> {
        let unit = fsp_unit(fsp);
        let us = (self.us_of_day() + unit / 2) / unit * unit;
        if us < US_PER_DAY {
            Some(self.date().at(us))
        } else {
            Some(self.date().add_days(1)?.at(us - US_PER_DAY))
        }
    }

    pub fn truncate(self, fsp: u8) -> DateTime {
        let unit = fsp_unit(fsp);
        self.date().at(self.us_of_day() / unit * unit)
    }

    pub fn write_text(self, fsp: u8, out: &mut Vec<u8>) {
        self.date().write_text(out);
        out.push(b' ');
        self.time().write_text(fsp, out);
    }
}
