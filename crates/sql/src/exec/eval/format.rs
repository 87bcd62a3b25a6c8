//! DATE_FORMAT, TIME_FORMAT and STR_TO_DATE, with English names of months and days.
use super::Eval;
use crate::bind::Asked;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Function, Kind};
use crate::sql_mode::SqlMode;
use redolith_types::{Date, DateTime, Time, Value};

pub(super) const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn push(out: &mut Vec<u8>, text: impl std::fmt::Display) {
    use std::io::Write;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{text}");
}

/// Writes a specifier that needs no date. Returns false for any other specifier.
fn format_time_part(t: Time, spec: u8, out: &mut Vec<u8>) -> bool {
    let (h, m, s) = (t.hours(), t.minutes(), t.seconds());
    let hour12 = if h % 12 == 0 { 12 } else { h % 12 };
    let half = if h % 24 < 12 { "AM" } else { "PM" };
    match spec {
        b'f' => push(out, format_args!("{:06}", t.microseconds())),
        b'H' => push(out, format_args!("{h:02}")),
        b'k' => push(out, h),
        b'h' | b'I' => push(out, format_args!("{hour12:02}")),
        b'l' => push(out, hour12),
        b'i' => push(out, format_args!("{m:02}")),
        b'S' | b's' => push(out, format_args!("{s:02}")),
        b'p' => push(out, half),
        b'r' => push(out, format_args!("{hour12:02}:{m:02}:{s:02} {half}")),
        b'T' => push(out, format_args!("{h:02}:{m:02}:{s:02}")),
        _ => return false,
    }
    true
}

/// The number of a day as MySQL calculates it (`calc_daynr`), also for a month or a day that is 0:
/// they count as the ones before the first.
fn day_number(d: Date) -> i64 {
    let (mut year, month) = (i64::from(d.year()), i64::from(d.month()));
    let mut days = 365 * year + 31 * (month - 1) + i64::from(d.day());
    if month <= 2 {
        year -= 1;
    } else {
        days -= (month * 4 + 23) / 10;
    }
    days + year / 4 - (year / 100 + 1) * 3 / 4
}

/// The day of the week, 0 for Monday; None if the date has neither a year nor a month.
fn weekday_of(d: Date) -> Option<usize> {
    (d.year() > 0 || d.month() > 0).then(|| ((day_number(d) + 5) % 7) as usize)
}

/// The day of the year. The zero date is the day 0 of year 0.
fn day_of_year(d: Date) -> i64 {
    match Date::new(d.year(), 1, 1) {
        Some(first) if d.year() > 0 || d.month() > 0 => day_number(d) - day_number(first) + 1,
        _ => 0,
    }
}

/// Returns None if a specifier needs a day and the date has none, and for an empty pattern. The
/// text ends soon after `most` bytes: it is too long then (EVAL-3).
pub(super) fn format_date(at: DateTime, pattern: &[u8], most: usize) -> Option<Vec<u8>> {
    if pattern.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(pattern.len());
    let d = at.date();
    let mut rest = pattern.iter();
    while out.len() <= most
        && let Some(b) = rest.next()
    {
        if *b != b'%' {
            out.push(*b);
            continue;
        }
        let Some(spec) = rest.next() else {
            out.push(b'%');
            break;
        };
        if format_time_part(at.time(), *spec, &mut out) {
            continue;
        }
        // The day 0 of a month is the last day of the month before.
        let in_week = match (d.month(), d.day()) {
            (2.., 0) => Date::from_days(day_number(d))?,
            _ => d,
        };
        let week = |mode| in_week.week(mode);
        match spec {
            b'Y' => push(&mut out, format_args!("{:04}", d.year())),
            b'y' => push(&mut out, format_args!("{:02}", d.year() % 100)),
            b'm' => push(&mut out, format_args!("{:02}", d.month())),
            b'c' => push(&mut out, d.month()),
            b'M' => push(&mut out, MONTHS.get((d.month() as usize).wrapping_sub(1))?),
            b'b' => push(&mut out, &MONTHS.get((d.month() as usize).wrapping_sub(1))?[..3]),
            b'd' => push(&mut out, format_args!("{:02}", d.day())),
            b'e' => push(&mut out, d.day()),
            b'D' => {
                let suffix = match (d.day() / 10, d.day() % 10) {
                    (1, _) => "th",
                    (_, 1) => "st",
                    (_, 2) => "nd",
                    (_, 3) => "rd",
                    _ => "th",
                };
                push(&mut out, format_args!("{}{suffix}", d.day()));
            }
            b'j' => push(&mut out, format_args!("{:03}", day_of_year(d))),
            b'W' => push(&mut out, DAYS[weekday_of(d)?]),
            b'a' => push(&mut out, &DAYS[weekday_of(d)?][..3]),
            b'w' => push(&mut out, (weekday_of(d)? + 1) % 7),
            b'U' => push(&mut out, format_args!("{:02}", week(0)?.1)),
            b'u' => push(&mut out, format_args!("{:02}", week(1)?.1)),
            b'V' => push(&mut out, format_args!("{:02}", week(2)?.1)),
            b'v' => push(&mut out, format_args!("{:02}", week(3)?.1)),
            b'X' => push(&mut out, format_args!("{:04}", week(2)?.0)),
            b'x' => push(&mut out, format_args!("{:04}", week(3)?.0)),
            other => out.push(*other),
        }
    }
    Some(out)
}

/// Returns None if a specifier needs a date, and for an empty pattern. As in [`format_date`], the
/// text ends soon after `most` bytes.
fn format_time(t: Time, pattern: &[u8], most: usize) -> Option<Vec<u8>> {
    if pattern.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(pattern.len());
    if t.is_negative() {
        out.push(b'-');
    }
    let mut rest = pattern.iter();
    while out.len() <= most
        && let Some(b) = rest.next()
    {
        match (b, if *b == b'%' { rest.next() } else { None }) {
            (b'%', Some(spec)) if format_time_part(t, *spec, &mut out) => {}
            // A time shows zeros for the numbers of a date, and has nothing else of it.
            (b'%', Some(b'Y')) => out.extend_from_slice(b"0000"),
            (b'%', Some(b'y' | b'm' | b'd')) => out.extend_from_slice(b"00"),
            (b'%', Some(b'c' | b'e')) => out.push(b'0'),
            (
                b'%',
                Some(
                    b'a' | b'b' | b'D' | b'j' | b'M' | b'U' | b'u' | b'V' | b'v' | b'W' | b'w'
                    | b'X' | b'x',
                ),
            ) => return None,
            (b'%', Some(other)) => out.push(*other),
            (other, _) => out.push(*other),
        }
    }
    Some(out)
}

/// The parts of a date and a time that STR_TO_DATE has read.
#[derive(Default)]
struct Parts {
    year: u32,
    month: u32,
    day: u32,
    day_of_year: Option<u32>,
    /// 1 is Monday, 7 is Sunday.
    weekday: Option<u32>,
    week: Option<Week>,
    /// The year of %X or %x, and whether its weeks begin on Sunday (%X).
    week_year: Option<(u32, bool)>,
    hour: u32,
    minute: u32,
    second: u32,
    us: u32,
}

/// The week that %U, %u, %V or %v has read.
#[derive(Clone, Copy)]
struct Week {
    number: u32,
    /// %U and %V: weeks begin on Sunday, and the first one is the first whole one of its year. The
    /// others begin on Monday, and the first one has four days or more of its year.
    from_sunday: bool,
    /// %V and %v: the week belongs to the year of %X or %x, not to that of %Y.
    has_own_year: bool,
}

impl Parts {
    /// The day that a week and a weekday name, if both were read; the outer None says that the
    /// specifiers do not belong together: %V goes with %X, %v with %x, %U and %u with neither.
    fn day_of_week(&self) -> Option<Option<Date>> {
        let (Some(week), Some(weekday)) = (self.week, self.weekday) else { return Some(None) };
        let year = match self.week_year {
            Some((year, from_sunday)) if week.has_own_year && from_sunday == week.from_sunday => {
                year
            }
            None if !week.has_own_year => self.year,
            _ => return None,
        };
        let first = Date::new(u16::try_from(year).ok()?, 1, 1)?;
        let monday_based = i64::from(first.weekday()?);
        // The days between the first of January and the first day of the first week.
        let (into, until_week, day) = if week.from_sunday {
            let into = (monday_based + 1) % 7;
            (into, if into == 0 { 0 } else { 7 }, i64::from(weekday % 7))
        } else {
            (monday_based, if monday_based <= 3 { 0 } else { 7 }, i64::from(weekday) - 1)
        };
        let days = first.to_days()? + until_week - into + (i64::from(week.number) - 1) * 7 + day;
        match days {
            ..=0 => None,
            // As FROM_DAYS, MySQL gives the zero date for the days of year 0.
            1..=365 => Some(Some(Date::ZERO)),
            _ => Date::from_days(days).map(Some),
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
}
impl Reader<'_> {
    fn number(&mut self, digits: usize) -> Option<(u32, usize)> {
        let n = self.text.iter().take(digits).take_while(|b| b.is_ascii_digit()).count();
        let value = self.text[..n].iter().fold(0, |v, b| v * 10 + (b - b'0') as u32);
        self.text = &self.text[n..];
        (n > 0).then_some((value, n))
    }
    /// Reads a word that is one of `names`, or of their first three letters (`short`), or the
    /// beginning of exactly one of them. Returns its position.
    fn name(&mut self, names: &[&str], short: bool) -> Option<usize> {
        let letters = self.text.iter().take_while(|b| is_letter(**b)).count();
        let (word, rest) = self.text.split_at(letters);
        let name = |n: usize| if short { &names[n][..3] } else { names[n] };
        let begins = |n: &usize| {
            name(*n).as_bytes().get(..letters).is_some_and(|b| b.eq_ignore_ascii_case(word))
        };
        let whole = (0..names.len()).filter(begins).find(|n| name(*n).len() == letters);
        let found = whole.or_else(|| {
            let mut candidates = (0..names.len()).filter(begins);
            candidates.next().filter(|_| candidates.next().is_none())
        })?;
        self.text = rest;
        Some(found)
    }
    /// Reads AM or PM, whatever follows. Returns true for PM.
    fn is_afternoon(&mut self) -> Option<bool> {
        let (half, rest) = self.text.split_at_checked(2)?;
        let is_pm = half.eq_ignore_ascii_case(b"PM");
        self.text = rest;
        (is_pm || half.eq_ignore_ascii_case(b"AM")).then_some(is_pm)
    }
    fn skip_spaces(&mut self) {
        self.text = self.text.trim_ascii_start();
    }
    fn read(&mut self, pattern: &[u8], parts: &mut Parts) -> Option<()> {
        let (mut has_half_days, mut afternoon) = (false, false);
        let mut rest = pattern.iter();
        while let Some(b) = rest.next() {
            self.skip_spaces();
            // Parts that the format has beyond the text's end stay zero.
            if self.text.is_empty() {
                break;
            }
            if b.is_ascii_whitespace() {
                continue;
            }
            let spec = if *b == b'%' { rest.next() } else { None };
            let Some(&spec) = spec else {
                self.text = self.text.strip_prefix(&[*b])?;
                continue;
            };
            match spec {
                b'Y' => {
                    let (n, digits) = self.number(4)?;
                    parts.year = if digits <= 2 { two_digit_year(n) } else { n };
                }
                b'y' => parts.year = two_digit_year(self.number(2)?.0),
                b'm' | b'c' => parts.month = self.number(2)?.0,
                b'M' => parts.month = self.name(&MONTHS, false)? as u32 + 1,
                b'b' => parts.month = self.name(&MONTHS, true)? as u32 + 1,
                b'd' | b'e' => parts.day = self.number(2)?.0,
                b'D' => {
                    parts.day = self.number(2)?.0;
                    // The letters behind the number may be missing.
                    self.text = &self.text[self.text.len().min(2)..];
                }
                b'j' => parts.day_of_year = Some(self.number(3)?.0),
                b'H' | b'k' => parts.hour = self.number(2)?.0,
                b'h' | b'I' | b'l' => {
                    parts.hour = self.number(2)?.0;
                    has_half_days = true;
                }
                b'i' => parts.minute = self.number(2)?.0,
                b's' | b'S' => parts.second = self.number(2)?.0,
                b'f' => {
                    let (n, digits) = self.number(6)?;
                    parts.us = n * 10u32.pow(6 - digits as u32);
                }
                b'p' if has_half_days => afternoon = self.is_afternoon()?,
                b'r' => self.read(b"%I:%i:%S %p", parts)?,
                b'T' => self.read(b"%H:%i:%S", parts)?,
                b'W' => parts.weekday = Some(self.name(&DAYS, false)? as u32 + 1),
                b'a' => parts.weekday = Some(self.name(&DAYS, true)? as u32 + 1),
                b'w' => {
                    parts.weekday = match self.number(1)?.0 {
                        0 => Some(7),
                        day @ 1..=6 => Some(day),
                        _ => return None,
                    };
                }
                b'U' | b'u' | b'V' | b'v' => {
                    let (number, has_own_year) = (self.number(2)?.0, matches!(spec, b'V' | b'v'));
                    if number > 53 || has_own_year && number == 0 {
                        return None;
                    }
                    let from_sunday = matches!(spec, b'U' | b'V');
                    parts.week = Some(Week { number, from_sunday, has_own_year });
                }
                b'X' | b'x' => parts.week_year = Some((self.number(4)?.0, spec == b'X')),
                b'#' => {
                    self.text =
                        &self.text[self.text.iter().take_while(|b| b.is_ascii_digit()).count()..]
                }
                b'@' => {
                    self.text = &self.text
                        [self.text.iter().take_while(|b| b.is_ascii_alphabetic()).count()..]
                }
                b'.' => {
                    self.text = &self.text
                        [self.text.iter().take_while(|b| b.is_ascii_punctuation()).count()..]
                }
                // MySQL has no %% here, and %p only behind an hour from 1 to 12.
                _ => return None,
            }
        }
        if has_half_days {
            if !(1..=12).contains(&parts.hour) {
                return None;
            }
            parts.hour = parts.hour % 12 + if afternoon { 12 } else { 0 };
        }
        Some(())
    }
}
/// True if sql_mode permits the zeros of the date.
fn allowed(value: &Value<'_>, mode: SqlMode) -> bool {
    let date = match value {
        Value::Date(date) => *date,
        Value::DateTime(at) => at.date(),
        _ => return true,
    };
    if date.is_zero() {
        return !mode.has(SqlMode::NO_ZERO_DATE);
    }
    let zero_in_date = date.month() == 0 || date.day() == 0;
    !(zero_in_date && mode.has(SqlMode::NO_ZERO_IN_DATE))
}

fn two_digit_year(n: u32) -> u32 {
    if n < 70 { n + 2000 } else { n + 1900 }
}

/// A letter of latin1, which is what MySQL takes the bytes of a name for.
fn is_letter(b: u8) -> bool {
    b.is_ascii_alphabetic() || b >= 0xc0 && !matches!(b, 0xd7 | 0xf7)
}

/// Returns the value, and whether text was left over.
fn parse(text: &[u8], pattern: &[u8], asked: Asked) -> Option<(Value<'static>, bool)> {
    let mut parts = Parts::default();
    let mut reader = Reader { text };
    // All parts of an empty text are zero.
    if !text.trim_ascii_start().is_empty() {
        reader.read(pattern, &mut parts)?;
    }
    if parts.hour > 23 || parts.minute > 59 || parts.second > 59 {
        return None;
    }
    let rest = !reader.text.trim_ascii().is_empty();
    if asked.time && !asked.date {
        if parts.day > 31 {
            return None;
        }
        let hours = parts.day * 24 + parts.hour;
        let time = Time::new(false, hours, parts.minute, parts.second, parts.us)?;
        return Some((Value::Time(time), rest));
    }
    let date = match (parts.day_of_week()?, parts.day_of_year) {
        (Some(date), _) => date,
        (None, Some(n)) if n > 0 => {
            Date::new(u16::try_from(parts.year).ok()?, 1, 1)?.add_days(n as i64 - 1)?
        }
        _ => Date::new(
            u16::try_from(parts.year).ok()?,
            u8::try_from(parts.month).ok()?,
            u8::try_from(parts.day).ok()?,
        )?,
    };
    if date.month() > 0
        && date.day() > redolith_types::temporal::days_in_month(date.year(), date.month())
    {
        return None;
    }
    if !asked.time {
        return Some((Value::Date(date), rest));
    }
    let at = DateTime::new(
        date,
        u8::try_from(parts.hour).ok()?,
        parts.minute as u8,
        parts.second as u8,
        parts.us,
    )?;
    Some((Value::DateTime(at), rest))
}

/// The format of a DATE, a TIME or a DATETIME where people write them so (GET_FORMAT).
fn format_of(of: &[u8], place: &[u8]) -> Option<&'static [u8]> {
    const PLACES: [&[u8]; 5] = [b"EUR", b"USA", b"JIS", b"ISO", b"INTERNAL"];
    const DATES: [&[u8]; 5] = [b"%d.%m.%Y", b"%m.%d.%Y", b"%Y-%m-%d", b"%Y-%m-%d", b"%Y%m%d"];
    const TIMES: [&[u8]; 5] = [b"%H.%i.%s", b"%h:%i:%s %p", b"%H:%i:%s", b"%H:%i:%s", b"%H%i%s"];
    const BOTH: [&[u8]; 5] = [
        b"%Y-%m-%d %H.%i.%s",
        b"%Y-%m-%d %H.%i.%s",
        b"%Y-%m-%d %H:%i:%s",
        b"%Y-%m-%d %H:%i:%s",
        b"%Y%m%d%H%i%s",
    ];
    let formats = match of {
        b"DATE" => DATES,
        b"TIME" => TIMES,
        _ => BOTH,
    };
    PLACES.iter().position(|p| p.eq_ignore_ascii_case(place)).map(|n| formats[n])
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn format_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let charset = self.charset_of(node);
        match function {
            Function::DateFormat => {
                let (Some(at), Some(pattern)) =
                    (self.arg_datetime(&args[0])?, self.arg_text(&args[1], charset)?)
                else {
                    return Ok(Value::Null);
                };
                let text = format_date(at, &pattern, self.most_bytes());
                Ok(text.map_or(Value::Null, Value::owned))
            }
            Function::GetFormat => {
                let (Some(of), Some(place)) =
                    (self.arg_bytes(&args[0])?, self.arg_text(&args[1], charset)?)
                else {
                    return Ok(Value::Null);
                };
                Ok(format_of(&of, &place).map_or(Value::Null, |f| Value::owned(f.into())))
            }
            Function::TimeFormat => {
                let (Some(t), Some(pattern)) =
                    (self.arg_time(&args[0])?, self.arg_text(&args[1], charset)?)
                else {
                    return Ok(Value::Null);
                };
                let text = format_time(t, &pattern, self.most_bytes());
                Ok(text.map_or(Value::Null, Value::owned))
            }
            _ => {
                let (Some(text), Some(pattern)) =
                    (self.arg_bytes(&args[0])?, self.arg_bytes(&args[1])?)
                else {
                    return Ok(Value::Null);
                };
                let mode = self.env.settings.sql_mode;
                // The type is that of a constant format. Other formats give moments, whatever they
                // ask for.
                let asked = if node.ty.kind == Kind::DateTime && node.ty.decimals == 6 {
                    Asked { date: true, time: true, fraction: true }
                } else {
                    Asked::of(&pattern)
                };
                let parsed =
                    parse(&text, &pattern, asked).filter(|(value, _)| allowed(value, mode));
                if parsed.as_ref().is_none_or(|(_, rest)| *rest) {
                    let kind = if node.ty.kind == Kind::Time { "time" } else { "datetime" };
                    let shown = Value::bytes(&text).shown(self.charset_of(&args[0])).to_string();
                    let wrong = match parsed {
                        None => SqlError::new(
                            1411,
                            format!("Incorrect datetime value: '{shown}' for function str_to_date"),
                        ),
                        Some(_) => SqlError::truncated_wrong_value(kind, shown),
                    };
                    self.env.warn(wrong)?;
                }
                Ok(parsed.map_or(Value::Null, |(v, _)| v))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime {
        redolith_types::temporal::parse_datetime(text.as_bytes(), 0).unwrap().value
    }
    #[test]
    fn formats() {
        let f = |text, pattern: &str| {
            let text = format_date(at(text), pattern.as_bytes(), usize::MAX).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(f("2009-10-04 22:23:00", "%W %M %Y"), "Sunday October 2009");
        assert_eq!(f("2007-10-04 22:23:00", "%H:%i:%s"), "22:23:00");
        assert_eq!(f("1900-10-04 22:23:00", "%D %y %a %d %m %b %j"), "4th 00 Thu 04 10 Oct 277");
        assert_eq!(
            f("1997-10-04 22:23:00", "%H %k %I %r %T %S %w"),
            "22 22 10 10:23:00 PM 22:23:00 00 6"
        );
        assert_eq!(f("1999-01-01", "%X %V"), "1998 52");
        assert_eq!(
            format_time(Time::new(false, 100, 0, 0, 0).unwrap(), b"%H %k %h %I %l", usize::MAX)
                .unwrap(),
            b"100 100 04 04 4"
        );
        assert_eq!((f("2024-01-02", "%Y%"), f("2024-01-02", "%%%")), ("2024%".into(), "%%".into()));
    }
    /// Tests EVAL-3.
    #[test]
    fn a_text_ends_where_it_is_too_long() {
        let pattern = b"%r".repeat(1000);
        for most in [0, 100, 101] {
            let date = format_date(at("2024-01-02 03:04:05"), &pattern, most).unwrap();
            let time = format_time(Time::ZERO, &pattern, most).unwrap();
            assert!(date.len() > most && time.len() > most, "{most}");
            assert!(date.len() < most + 20 && time.len() < most + 20, "{most}");
        }
    }
    #[test]
    fn reads_back() {
        let p = |text: &str, pattern: &str| {
            let asked = Asked::of(pattern.as_bytes());
            parse(text.as_bytes(), pattern.as_bytes(), asked).map(|(v, rest)| (v.to_string(), rest))
        };
        let ok = |text: &str| Some((text.to_string(), false));
        assert_eq!(p("01,5,2013", "%d,%m,%Y"), ok("2013-05-01"));
        assert_eq!(p("May 1, 2013", "%M %d,%Y"), ok("2013-05-01"));
        assert_eq!(p("a09:30:17", "a%h:%i:%s"), ok("09:30:17"));
        assert_eq!(p("09:30:17a", "%h:%i:%s"), Some(("09:30:17".into(), true)));
        assert_eq!(p("2004-04-31", "%Y-%m-%d"), None);
        assert_eq!(p("x", "%Y"), None);
        assert_eq!(p("12:05:06 AM", "%r"), ok("00:05:06"));
        assert_eq!(p("11 pm 5", "%h %p %i"), ok("23:05:00"));
        assert_eq!(p("0 11", "%h %H"), ok("11:00:00"));
        assert_eq!(p("50%", "%i%"), ok("00:50:00"));
        for (text, pattern) in [
            ("10:11:12 PM", "%H:%i:%s %p"),
            ("PM 10:11", "%p %h:%i"),
            ("10:11:12 AM AM", "%r %p"),
            ("13", "%h"),
            ("0", "%h"),
            ("50%", "%i%%"),
        ] {
            assert_eq!(p(text, pattern), None, "{text} {pattern}");
        }
        for (text, pattern, wanted) in [
            ("200442 Monday", "%X%V %W", "2004-10-18"),
            ("2004 42 Monday", "%Y %U %W", "2004-10-18"),
            ("2004 42 1", "%Y %u %w", "2004-10-11"),
            ("2004 42 Mon", "%x %v %a", "2004-10-11"),
            ("2004 0 Mon", "%Y %U %a", "2003-12-29"),
            ("2004 1 0", "%X %V %w", "2004-01-04"),
            ("2004-03-04 42", "%Y-%m-%d %U", "2004-03-04"),
            ("2004-03-04 42 Mon", "%Y-%m-%d %U %a", "2004-10-18"),
            ("2004 42", "%Y %U", "2004-00-00"),
            ("200442", "%X%V", "0000-00-00"),
        ] {
            assert_eq!(p(text, pattern), ok(wanted), "{text} {pattern}");
        }
        for (text, pattern) in [
            ("2004 42 Monday", "%Y %V %W"),
            ("2004 42 Monday", "%X %U %W"),
            ("2004 42 Monday", "%x %V %W"),
            ("2004 54 Monday", "%Y %U %W"),
            ("2004 0 Monday", "%X %V %W"),
            ("2004 42 7", "%Y %u %w"),
            ("9999 53 Sat", "%Y %U %a"),
        ] {
            assert_eq!(p(text, pattern), None, "{text} {pattern}");
        }
        assert_eq!(
            [p("10:60:00", "%H:%i:%s"), p("24:00:00", "%T"), p("10:00:60", "%T")],
            [None, None, None]
        );
        assert_eq!(p("2024-02-03 14:05:06.5", "%Y-%m-%d %T.%f"), ok("2024-02-03 14:05:06.500000"));
    }
}
