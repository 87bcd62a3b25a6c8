//! Parses MySQL's relaxed literals. Text has any punctuation between the parts ('2024/1/2',
//! '2024-01-02T03:04:05.6+02:00') and may have two-digit years (70..99 are 19xx), or it has digits
//! alone (YYYYMMDD, YYMMDD, YYYYMMDDhhmmss, YYMMDDhhmmss; [D ]hh:mm:ss, hhmmss, ss for times).
//! Numbers are read as digits alone, right-aligned. Digits of a fraction after the sixth are
//! rounded.
use super::{Date, DateTime, MAX_TIME_US, Time, US_PER_DAY, US_PER_SEC, days_in_month};

/// A parsed literal. `truncated`: text after the literal was left out (a warning, or an error in
/// strict mode). `fsp`: the number of digits of its fraction (at most 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<T> {
    pub value: T,
    pub fsp: u8,
    pub truncated: bool,
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Reads up to `max` digits: (value, number of digits).
    fn digits(&mut self, max: usize) -> (u32, usize) {
        let start = self.at;
        let mut value = 0u32;
        while let Some(b) = self.peek().filter(u8::is_ascii_digit) {
            if self.at - start == max {
                break;
            }
            value = value.saturating_mul(10).saturating_add(u32::from(b - b'0'));
            self.at += 1;
        }
        (value, self.at - start)
    }

    /// Length of the run of digits ahead.
    fn run(&self) -> usize {
        self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count()
    }

    /// Reads ".digits" as rounded microseconds, which may be 1,000,000, and the number of digits,
    /// at most 6.
    fn fraction(&mut self) -> (u32, u8) {
        if self.peek() != Some(b'.') {
            return (0, 0);
        }
        self.at += 1;
        let (value, len) = self.digits(6);
        let mut us = value * 10u32.pow(6 - len as u32);
        if len == 6 {
            us += u32::from(self.peek().is_some_and(|b| (b'5'..=b'9').contains(&b)));
        }
        let rest = self.run();
        self.at += rest;
        (us, len as u8)
    }

    fn at_end(&mut self) -> bool {
        self.skip_spaces();
        self.at == self.text.len()
    }
}

/// Adds the century to a year of one or two digits. If all parts are zero, the year is zero too:
/// '00-00-00' is the zero date.
fn full_year(year: u32, digits: usize, rest_is_zero: bool) -> u32 {
    match (digits, year) {
        (1 | 2, 0) if rest_is_zero => 0,
        (1 | 2, 0..=69) => year + 2000,
        (1 | 2, _) => year + 1900,
        _ => year,
    }
}

/// A date whose day exists in its month; zero parts are allowed.
fn checked_date(year: u32, month: u32, day: u32) -> Option<Date> {
    let date =
        Date::new(u16::try_from(year).ok()?, u8::try_from(month).ok()?, u8::try_from(day).ok()?)?;
    (date.month() == 0 || date.day() <= days_in_month(date.year(), date.month())).then_some(date)
}

/// Parses a DATETIME literal, or a DATE with the time 00:00:00. A given zone is converted to
/// `to_offset_secs`.
pub fn parse_datetime(text: &[u8], to_offset_secs: i32) -> Option<Parsed<DateTime>> {
    let mut s = Scanner { text, at: 0 };
    s.skip_spaces();
    let run = s.run();
    let compact = run >= 5 && !matches!(text.get(s.at + run), Some(b'-' | b'/' | b':'));
    let Parts { date: [year, month, day], year_digits, time, time_parts } =
        if compact { compact_parts(&mut s, run) } else { delimited_parts(&mut s)? };
    let [hour, minute, second] = time.map(|part| u8::try_from(part).ok());
    let (us, fsp) = if time_parts == 3 { s.fraction() } else { (0, 0) };
    let rest_is_zero = month == 0 && day == 0 && time == [0; 3] && us == 0;
    let date = checked_date(full_year(year, year_digits, rest_is_zero), month, day)?;
    let mut value =
        DateTime::new(date, hour?, minute?, second?, 0)?.with_fraction(i64::from(us))?;
    if matches!(s.peek(), Some(b'+' | b'-'))
        && let Some(offset) = parse_zone(text[s.at..].trim_ascii_end())
    {
        value = value.shift_zone(offset, to_offset_secs)?;
        s.at = text.len();
    }
    Some(Parsed { value, fsp, truncated: !s.at_end() })
}

/// The parts of a literal.
struct Parts {
    date: [u32; 3],
    year_digits: usize,
    time: [u32; 3],
    /// The number of parts of the time.
    time_parts: usize,
}

fn compact_parts(s: &mut Scanner<'_>, run: usize) -> Parts {
    let year_digits = if matches!(run, 8 | 14..) { 4 } else { 2 };
    let (year, len) = s.digits(year_digits);
    let (month, _) = s.digits(2);
    let (day, _) = s.digits(2);
    let mut time = [0; 3];
    if s.peek() == Some(b'T') && s.text.get(s.at + 1).is_some_and(u8::is_ascii_digit) {
        s.at += 1;
    }
    let mut parts = 0;
    for part in &mut time {
        let (value, len) = s.digits(2);
        *part = value;
        parts += usize::from(len > 0);
    }
    Parts { date: [year, month, day], year_digits: len, time, time_parts: parts }
}

fn delimited_parts(s: &mut Scanner<'_>) -> Option<Parts> {
    let mut date = [0; 3];
    let mut year_len = 0;
    for (i, part) in date.iter_mut().enumerate() {
        if i > 0 {
            let start = s.at;
            while s.peek().is_some_and(|b| b.is_ascii_punctuation()) {
                s.at += 1;
            }
            if s.at == start {
                return None;
            }
        }
        let (value, len) = s.digits(usize::MAX);
        if len == 0 {
            return None;
        }
        if i == 0 {
            year_len = len;
        }
        *part = value;
    }
    let mut time = [0; 3];
    let so_far = |time, time_parts| Some(Parts { date, year_digits: year_len, time, time_parts });
    let before = s.at;
    match s.peek() {
        Some(b'T') => s.at += 1,
        Some(b) if b.is_ascii_whitespace() => s.skip_spaces(),
        Some(b) if b.is_ascii_punctuation() => s.at += 1,
        _ => return so_far(time, 0),
    }
    if s.run() == 0 {
        s.at = before;
        return so_far(time, 0);
    }
    let mut parts = 0;
    for (i, part) in time.iter_mut().enumerate() {
        if i > 0 {
            let next_is_digit = s.text.get(s.at + 1).is_some_and(u8::is_ascii_digit);
            let is_zone = matches!(s.peek(), Some(b'+' | b'-'))
                && parse_zone(s.text[s.at..].trim_ascii_end()).is_some();
            if !next_is_digit || is_zone || !s.peek().is_some_and(|b| b.is_ascii_punctuation()) {
                break;
            }
            s.at += 1;
        }
        *part = s.digits(usize::MAX).0;
        parts += 1;
    }
    so_far(time, parts)
}

/// Parses a DATE literal. A time after it is cut off (`truncated` is set only if the time is not
/// midnight or not valid).
pub fn parse_date(text: &[u8]) -> Option<Parsed<Date>> {
    let parsed = parse_datetime(text, 0)?;
    Some(Parsed {
        value: parsed.value.date(),
        fsp: 0,
        truncated: parsed.truncated || parsed.value.us_of_day() != 0,
    })
}

/// Whether a DATETIME literal has a time, even if the time is midnight. A literal without a time is
/// a DATE.
pub fn has_time(text: &[u8]) -> bool {
    let mut s = Scanner { text, at: 0 };
    s.skip_spaces();
    let run = s.run();
    let compact = run >= 5 && !matches!(text.get(s.at + run), Some(b'-' | b'/' | b':'));
    let parts = if compact { Some(compact_parts(&mut s, run)) } else { delimited_parts(&mut s) };
    parts.is_some_and(|parts| parts.time_parts > 0)
}

/// Whether a text where a time is expected has a date too ('2024-01-02 03:04:05',
/// '20240102030405'). As in MySQL, three numbers with any punctuation between are a date, if the
/// text has 12 characters or more and a space behind the third number.
pub fn has_date(text: &[u8]) -> bool {
    let mut s = Scanner { text, at: 0 };
    s.skip_spaces();
    if s.run() >= 12 {
        return true;
    }
    if text.trim_ascii().len() < 12 {
        return false;
    }
    for part in 0..3 {
        let start = s.at;
        while part > 0 && s.peek().is_some_and(|b| b.is_ascii_punctuation()) {
            s.at += 1;
        }
        if (part > 0 && s.at == start) || s.digits(usize::MAX).1 == 0 {
            return false;
        }
    }
    s.peek().is_some_and(|b| b.is_ascii_whitespace() || b == b'T')
}

/// Parses a TIME literal: `[-][D ]hh:mm[:ss][.f]`, digits alone right-aligned, or the time of a
/// full DATETIME literal. `None` if minutes or seconds are over 59, or if an exponent follows,
/// because the text is then a number. A time out of range is clamped and `truncated`.
pub fn parse_time(text: &[u8]) -> Option<Parsed<Time>> {
    let mut s = Scanner { text, at: 0 };
    s.skip_spaces();
    let negative = s.peek() == Some(b'-');
    if matches!(s.peek(), Some(b'-' | b'+')) {
        s.at += 1;
    }
    let run = s.run();
    let after = text.get(s.at + run).copied();
    if has_date(text) {
        let parsed = parse_datetime(text, 0)?;
        return Some(Parsed {
            value: parsed.value.time(),
            fsp: parsed.fsp,
            truncated: parsed.truncated,
        });
    }
    if run == 0 && after != Some(b'.') {
        return None;
    }
    let run_of_digits = &text[s.at..s.at + run];
    let (first, _) = s.digits(usize::MAX);
    let space_then_digit = s.peek() == Some(b' ')
        && s.text[s.at..].trim_ascii_start().first().is_some_and(u8::is_ascii_digit);
    let (days, hours, minutes, seconds) = match s.peek() {
        Some(b':') if text.get(s.at + 1).is_some_and(u8::is_ascii_digit) => clock(&mut s, 0, first),
        Some(b' ') if space_then_digit => {
            s.skip_spaces();
            let hours = s.digits(usize::MAX).0;
            clock(&mut s, first, hours)
        }
        // The last two digits are the seconds, however many digits there are.
        _ => {
            let (minutes_of, seconds) = run_of_digits.split_at(run.saturating_sub(2));
            let (hours, minutes) = minutes_of.split_at(minutes_of.len().saturating_sub(2));
            let number = |text| Scanner { text, at: 0 }.digits(usize::MAX).0;
            (0, number(hours), number(minutes), number(seconds))
        }
    };
    if minutes > 59 || seconds > 59 {
        return None;
    }
    let (us, fsp) = s.fraction();
    if let [b'e' | b'E', b'-' | b'+', digit, ..] | [b'e' | b'E', digit, ..] = &text[s.at..]
        && digit.is_ascii_digit()
    {
        return None;
    }
    let total = (i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds))
        .saturating_mul(US_PER_SEC)
        .saturating_add(i64::from(us));
    let total = i64::from(days).saturating_mul(US_PER_DAY).saturating_add(total).min(i64::MAX / 2);
    let (value, clamped) = Time::clamped(if negative { -total } else { total });
    debug_assert!(value.us().abs() <= MAX_TIME_US);
    Some(Parsed { value, fsp, truncated: clamped || !s.at_end() })
}

/// Reads [:mm[:ss]] after the hours.
fn clock(s: &mut Scanner<'_>, days: u32, hours: u32) -> (u32, u32, u32, u32) {
    let mut parts = [0; 2];
    for part in &mut parts {
        if s.peek() != Some(b':') || !s.text.get(s.at + 1).is_some_and(u8::is_ascii_digit) {
            break;
        }
        s.at += 1;
        *part = s.digits(usize::MAX).0;
    }
    (days, hours, parts[0], parts[1])
}

/// Parses '+hh:mm' or '-hh:mm' (-13:59..=+14:00), and 'SYSTEM' and 'UTC' as 0. Returns seconds east
/// of UTC.
pub fn parse_zone(text: &[u8]) -> Option<i32> {
    if text.eq_ignore_ascii_case(b"SYSTEM") || text.eq_ignore_ascii_case(b"UTC") {
        return Some(0);
    }
    let (sign, rest) = match text.split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let mut s = Scanner { text: rest, at: 0 };
    let (hours, len) = s.digits(2);
    if len == 0 || s.peek() != Some(b':') {
        return None;
    }
    s.at += 1;
    let (minutes, len) = s.digits(2);
    let secs = sign * (hours as i32 * 3600 + minutes as i32 * 60);
    (len == 2 && s.at == rest.len() && minutes < 60 && (-50_340..=50_400).contains(&secs))
        .then_some(secs)
}

impl Date {
    /// YYYYMMDD or YYMMDD as a number.
    pub fn from_number(number: i64) -> Option<Date> {
        let at = DateTime::from_number(number)?;
        Some(at.date())
    }
}

impl DateTime {
    /// YYYYMMDDhhmmss, YYMMDDhhmmss, YYYYMMDD or YYMMDD as a number; 0 is the zero date.
    pub fn from_number(number: i64) -> Option<DateTime> {
        let two_digit =
            |n: i64, day: i64| if n < 70 * day { n + 2000 * day } else { n + 1900 * day };
        let (date, time) = match number {
            0 => return Some(DateTime::ZERO),
            101..=691_231 => (two_digit(number, 10_000), 0),
            700_101..=991_231 => (two_digit(number, 10_000), 0),
            10_000_101..=99_991_231 => (number, 0),
            101_000_000..=991_231_235_959 => {
                (two_digit(number / 1_000_000, 10_000), number % 1_000_000)
            }
            // Numbers of 13 digits have years before 1000.
            991_231_235_960..=99_991_231_235_959 => (number / 1_000_000, number % 1_000_000),
            _ => return None,
        };
        let date =
            checked_date((date / 10_000) as u32, (date / 100 % 100) as u32, (date % 100) as u32)?;
        DateTime::new(date, (time / 10_000) as u8, (time / 100 % 100) as u8, (time % 100) as u8, 0)
    }
}

/// Where a time is expected, numbers from this one on are dates with times.
pub(crate) const FIRST_WITH_DATE: i64 = 10_000_000_000;

impl Time {
    /// Reads the number [-]hhmmss; a number of more than 7 digits is the time of a DATETIME number.
    /// Out of range, returns the clamped time and true.
    pub fn from_number(number: i64) -> Option<(Time, bool)> {
        if number >= FIRST_WITH_DATE
            && let Some(at) = DateTime::from_number(number)
        {
            return Some((at.time(), false));
        }
        if number.unsigned_abs() > 8_385_959 {
            return Some(Time::clamped(if number < 0 { i64::MIN } else { i64::MAX }));
        }
        let n = number.unsigned_abs();
        if n % 100 > 59 || n / 100 % 100 > 59 {
            return None;
        }
        let us = (n / 10_000 * 3600 + n / 100 % 100 * 60 + n % 100) as i64 * US_PER_SEC;
        Some(Time::clamped(if number < 0 { -us } else { us }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datetime(text: &str) -> Option<(String, bool)> {
        let parsed = parse_datetime(text.as_bytes(), 0)?;
        let mut out = Vec::new();
        parsed.value.write_text(parsed.fsp, &mut out);
        Some((String::from_utf8(out).unwrap(), parsed.truncated))
    }

    fn time(text: &str) -> Option<(String, bool)> {
        let parsed = parse_time(text.as_bytes())?;
        let mut out = Vec::new();
        parsed.value.write_text(parsed.fsp, &mut out);
        Some((String::from_utf8(out).unwrap(), parsed.truncated))
    }

    #[test]
    fn datetime_literals() {
        let good = [
            ("2024-01-02 03:04:05", "2024-01-02 03:04:05"),
            ("2024-1-2 3:4:5", "2024-01-02 03:04:05"),
            ("2024/01/02T03:04:05.25", "2024-01-02 03:04:05.25"),
            ("24-1-2", "2024-01-02 00:00:00"),
            ("70-1-2", "1970-01-02 00:00:00"),
            ("20240102", "2024-01-02 00:00:00"),
            ("240102", "2024-01-02 00:00:00"),
            ("20240102030405", "2024-01-02 03:04:05"),
            ("240102030405.5", "2024-01-02 03:04:05.5"),
            ("20240102T030405", "2024-01-02 03:04:05"),
            ("2024-01-02 03:04", "2024-01-02 03:04:00"),
            ("0000-00-00", "0000-00-00 00:00:00"),
            ("2024-00-00", "2024-00-00 00:00:00"),
            ("2023-12-31 23:59:59.9999996", "2024-01-01 00:00:00.000000"),
            ("2024-01-02 03:04:05+02:00", "2024-01-02 01:04:05"),
        ];
        for (text, wanted) in good {
            assert_eq!(datetime(text), Some((wanted.into(), false)), "{text}");
        }
        assert_eq!(datetime("2024-01-02 03:04:05 x"), Some(("2024-01-02 03:04:05".into(), true)));
        for text in
            ["", "abc", "2024", "2024-13-01", "2023-02-29", "2024-01-02 25:00:00", "2024-01"]
        {
            assert_eq!(datetime(text), None, "{text}");
        }
    }

    #[test]
    fn time_literals() {
        let good = [
            ("12:34:56", "12:34:56"),
            ("-12:34", "-12:34:00"),
            ("1 2:3:4.5", "26:03:04.5"),
            ("123456", "12:34:56"),
            ("1234", "00:12:34"),
            ("12", "00:00:12"),
            ("838:59:59", "838:59:59"),
            ("2024-01-02 03:04:05", "03:04:05"),
            ("2024/01/02 03:04:05", "03:04:05"),
            ("24.1.2 03:04:05.5", "03:04:05.5"),
            ("2024-01-02T03:04:05", "03:04:05"),
            ("10:11:12 13:14:15", "13:14:15"),
            ("10:11:12.123456", "10:11:12.123456"),
            ("1 10:11:12.123456", "34:11:12.123456"),
            ("101112.123456", "10:11:12.123456"),
            ("11:12:13.1234567", "11:12:13.123457"),
        ];
        for (text, wanted) in good {
            assert_eq!(time(text), Some((wanted.into(), false)), "{text}");
        }
        assert_eq!(time("839:00:00"), Some(("838:59:59".into(), true)));
        for longest in ["3000000000:00:00", "4294967295:59:59.999999", "99999999999 9999999999:59"]
        {
            assert_eq!(
                time(longest).map(|(text, _)| text[..9].into()),
                Some("838:59:59".to_string())
            );
            let (text, truncated) = time(&format!("-{longest}")).unwrap();
            assert_eq!((&text[..10], truncated), ("-838:59:59", true));
        }
        assert_eq!((Time::from_us(i64::MIN), Time::new(true, u32::MAX, 59, 59, 0)), (None, None));
        assert_eq!(time("12:00x"), Some(("12:00:00".into(), true)));
        assert_eq!((time("12:60:00"), time("x")), (None, None));
    }

    #[test]
    fn numbers_and_zones() {
        assert_eq!(DateTime::from_number(20240102).unwrap().date(), Date::new(2024, 1, 2).unwrap());
        assert_eq!(DateTime::from_number(691231).unwrap().to_number(), 20691231000000);
        assert_eq!(DateTime::from_number(20240102030405).unwrap().to_number(), 20240102030405);
        assert_eq!(
            (DateTime::from_number(20241301), DateTime::from_number(-1), DateTime::from_number(99)),
            (None, None, None)
        );
        assert_eq!(Time::from_number(-12345).unwrap().0.to_number(), -12345);
        assert_eq!(Time::from_number(61), None);
        let zones = [
            ("+02:00", Some(7200)),
            ("-13:59", Some(-50340)),
            ("+14:00", Some(50400)),
            ("+14:01", None),
            ("SYSTEM", Some(0)),
            ("2", None),
        ];
        for (text, secs) in zones {
            assert_eq!(parse_zone(text.as_bytes()), secs, "{text}");
        }
    }
}
