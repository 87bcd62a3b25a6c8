//! Calendar arithmetic over the proleptic Gregorian calendar, years 0..=9999. Days are counted as
//! MySQL's TO_DAYS: 0000-01-01 is day 1, 1970-01-01 is day 719528.
use super::{Date, DateTime, Time, US_PER_DAY, US_PER_SEC};

const UNIX_EPOCH_DAY: i64 = 719_528;
/// TO_DAYS('9999-12-31').
const MAX_DAY: i64 = 3_652_424;
const DAYS_IN_400_YEARS: i64 = 146_097;
/// Day 60. The formulas below count a 29 February of year 0, which does not exist, so earlier days
/// are off by one.
const FIRST_MARCH_0: Date = Date(3 << 5 | 1);

/// The interval that DATE_ADD adds: first the months, then the days, then the microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    pub months: i64,
    pub days: i64,
    pub us: i64,
}

/// Whether the year is a leap year. Year 0 is not, as in MySQL.
pub fn is_leap_year(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || (year.is_multiple_of(400) && year != 0))
}

/// The number of days of a month. 0 for a month that is not 1..=12.
pub fn days_in_month(year: u16, month: u8) -> u8 {
    match month {
        2 => 28 + u8::from(is_leap_year(year)),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

impl Date {
    /// TO_DAYS. `None` for dates that do not exist. Years are counted from March, so that the leap
    /// day is the last day of its year.
    pub fn to_days(self) -> Option<i64> {
        if !self.is_real() {
            return None;
        }
        let (year, month) = (i64::from(self.year()), i64::from(self.month()));
        // 400 years are added and subtracted again, so that January of year 0 stays positive.
        let (year, month) =
            if month <= 2 { (year + 399, month + 9) } else { (year + 400, month - 3) };
        let of_year = (153 * month + 2) / 5 + i64::from(self.day()) - 1;
        let before_march_0 = i64::from(self.0 < FIRST_MARCH_0.0);
        Some(
            year * 365 + year / 4 - year / 100 + year / 400 + of_year - DAYS_IN_400_YEARS
                + 60
                + before_march_0,
        )
    }

    /// FROM_DAYS. `None` outside 0000-01-01..=9999-12-31.
    pub fn from_days(days: i64) -> Option<Date> {
        if !(1..=MAX_DAY).contains(&days) {
            return None;
        }
        let days = days - i64::from(days < 60) - 60 + DAYS_IN_400_YEARS;
        let (era, of_era) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        Date::new((era * 400 + year_of_era + carry - 400) as u16, month as u8, day as u8)
    }

    pub fn add_days(self, days: i64) -> Option<Date> {
        Date::from_days(self.to_days()?.checked_add(days)?)
    }

    /// Adds months. The day is reduced to the length of the month. `None` for a date that does not
    /// exist, or a result out of range.
    pub fn add_months(self, months: i64) -> Option<Date> {
        if !self.is_real() {
            return None;
        }
        let total =
            (i64::from(self.year()) * 12 + i64::from(self.month()) - 1).checked_add(months)?;
        let (year, month) =
            (u16::try_from(total.div_euclid(12)).ok()?, (total.rem_euclid(12) + 1) as u8);
        Date::new(year, month, self.day().min(days_in_month(year, month)))
    }

    /// WEEKDAY: 0 is Monday. `None` for dates that do not exist.
    pub fn weekday(self) -> Option<u8> {
        Some(((self.to_days()? + 5) % 7) as u8)
    }

    /// DAYOFYEAR: 1..=366. `None` for dates that do not exist.
    pub fn day_of_year(self) -> Option<u16> {
        let first = Date::new(self.year(), 1, 1)?.to_days()?;
        Some((self.to_days()? - first + 1) as u16)
    }

    /// (year, week) as WEEK/YEARWEEK compute them with `mode` 0..=7. Bit 0: the week starts on
    /// Monday. Bit 1: weeks are 1..=53 (week 0 belongs to the year before). Bit 2, with bit 0,
    /// chooses the first week: see MySQL's table of modes.
    pub fn week(self, mode: u8) -> Option<(u16, u8)> {
        let monday_first = mode & 1 != 0;
        let full_range = mode & 2 != 0;
        // In modes 1, 3, 4 and 6 the first week is the one with 4 or more days of the year. In the
        // other modes it is the first full week.
        let four_days = (mode & 4 != 0) != monday_first;
        let first_week_start = |year: i64| -> Option<i64> {
            let jan1 = Date::new(u16::try_from(year).ok()?, 1, 1)?;
            let weekday = i64::from(jan1.weekday()?);
            let into = if monday_first { weekday } else { (weekday + 1) % 7 };
            let days_before = jan1.to_days()? - into;
            let keeps = if four_days { into <= 3 } else { into == 0 };
            Some(if keeps { days_before } else { days_before + 7 })
        };
        let (day, mut year) = (self.to_days()?, i64::from(self.year()));
        let mut start = first_week_start(year)?;
        if day < start {
            if !full_range {
                return Some((self.year(), 0));
            }
            year -= 1;
            start = first_week_start(year)?;
        } else if full_range && year < 9999 && day >= first_week_start(year + 1)? {
            return Some((self.year() + 1, 1));
        }
        Some((year as u16, ((day - start) / 7 + 1) as u8))
    }

    pub fn last_day(self) -> Option<Date> {
        let days = days_in_month(self.year(), self.month());
        if days == 0 { None } else { Date::new(self.year(), self.month(), days) }
    }
}

impl DateTime {
    /// Microseconds since 0000-00-00 in MySQL's day count. `None` for dates that do not exist.
    fn linear_us(self) -> Option<i64> {
        Some(self.date().to_days()? * US_PER_DAY + self.us_of_day())
    }

    fn from_linear_us(us: i64) -> Option<DateTime> {
        Some(Date::from_days(us.div_euclid(US_PER_DAY))?.at(us.rem_euclid(US_PER_DAY)))
    }

    pub fn add_us(self, us: i64) -> Option<DateTime> {
        DateTime::from_linear_us(self.linear_us()?.checked_add(us)?)
    }

    pub fn add_interval(self, interval: Interval) -> Option<DateTime> {
        let date = if interval.months == 0 {
            self.date()
        } else {
            self.date().add_months(interval.months)?
        };
        let us = interval.days.checked_mul(US_PER_DAY)?.checked_add(interval.us)?;
        if us == 0 {
            return Some(date.at(self.us_of_day()));
        }
        // Results before the year 1 are rejected.
        date.at(self.us_of_day()).add_us(us).filter(|at| at.date().year() > 0)
    }

    /// self - other in microseconds.
    pub fn diff_us(self, other: DateTime) -> Option<i64> {
        Some(self.linear_us()? - other.linear_us()?)
    }

    /// Microseconds since 1970-01-01 00:00:00 UTC of this local time in a zone `offset_secs` east
    /// of UTC.
    pub fn to_unix_us(self, offset_secs: i32) -> Option<i64> {
        Some(self.linear_us()? - UNIX_EPOCH_DAY * US_PER_DAY - i64::from(offset_secs) * US_PER_SEC)
    }

    /// Local time in a zone `offset_secs` east of UTC.
    pub fn from_unix_us(us: i64, offset_secs: i32) -> Option<DateTime> {
        DateTime::from_linear_us(
            us.checked_add(UNIX_EPOCH_DAY * US_PER_DAY + i64::from(offset_secs) * US_PER_SEC)?,
        )
    }

    /// The same instant in another zone. Zero dates do not change.
    pub fn shift_zone(self, from_offset_secs: i32, to_offset_secs: i32) -> Option<DateTime> {
        if from_offset_secs == to_offset_secs || self.is_zero() {
            return Some(self);
        }
        self.add_us((i64::from(to_offset_secs) - i64::from(from_offset_secs)) * US_PER_SEC)
    }

    /// Adds a TIME to a moment.
    pub fn add_time(self, time: Time) -> Option<DateTime> {
        self.add_us(time.us())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(year: u16, month: u8, day: u8) -> Date {
        Date::new(year, month, day).unwrap()
    }

    #[test]
    fn days_count_every_day_once() {
        assert_eq!(date(1970, 1, 1).to_days(), Some(UNIX_EPOCH_DAY));
        assert_eq!(date(9999, 12, 31).to_days(), Some(MAX_DAY));
        assert_eq!(date(0, 1, 1).to_days(), Some(1));
        let mut before = None;
        for days in 1..=MAX_DAY {
            let date = Date::from_days(days).unwrap();
            assert!(date.is_real() && date.to_days() == Some(days) && before < Some(date));
            before = Some(date);
        }
        assert_eq!((Date::from_days(0), Date::from_days(MAX_DAY + 1)), (None, None));
        assert_eq!(
            (date(2023, 2, 29).to_days(), date(2023, 0, 1).to_days(), date(1900, 2, 29).to_days()),
            (None, None, None)
        );
    }

    #[test]
    fn weeks_and_weekdays() {
        assert_eq!(date(2026, 11, 21).weekday(), Some(5));
        assert_eq!(date(2024, 12, 31).day_of_year(), Some(366));
        // WEEK('2008-02-20', 0) and (…, 1) and YEARWEEK('1987-01-01') of the manual.
        assert_eq!(date(2008, 2, 20).week(0), Some((2008, 7)));
        assert_eq!(date(2008, 2, 20).week(1), Some((2008, 8)));
        assert_eq!(date(2008, 12, 31).week(1), Some((2008, 53)));
        assert_eq!(date(1987, 1, 1).week(2), Some((1986, 52)));
        assert_eq!(date(2000, 1, 1).week(0), Some((2000, 0)));
        assert_eq!(date(2024, 12, 30).week(3), Some((2025, 1)));
    }

    #[test]
    fn arithmetic() {
        assert_eq!(date(2024, 1, 31).add_months(1), Some(date(2024, 2, 29)));
        assert_eq!(date(2024, 1, 31).add_months(-2), Some(date(2023, 11, 30)));
        assert_eq!(date(9999, 12, 1).add_months(1), None);
        assert_eq!(date(2024, 2, 28).add_days(2), Some(date(2024, 3, 1)));
        let noon = DateTime::new(date(1970, 1, 1), 12, 0, 0, 5).unwrap();
        assert_eq!(noon.to_unix_us(0), Some(43_200_000_005));
        assert_eq!(noon.to_unix_us(3600), Some(39_600_000_005));
        assert_eq!(DateTime::from_unix_us(43_200_000_005, 0), Some(noon));
        assert_eq!(noon.add_us(-43_200_000_006).unwrap().to_number(), 19691231235959);
        assert_eq!(
            noon.add_interval(Interval { months: 1, days: 1, us: 1 }).unwrap().date(),
            date(1970, 2, 2)
        );
        assert_eq!(noon.shift_zone(0, -13 * 3600).unwrap().to_number(), 19691231230000);
        assert_eq!(DateTime::ZERO.shift_zone(0, 3600), Some(DateTime::ZERO));
    }
}
