//! Dates, times and their texts: what is printed parses back, and arithmetic agrees with itself.
use proptest::prelude::*;
use redolith_types::temporal::{Interval, Parsed, parse_date, parse_datetime, parse_time};
use redolith_types::{Date, DateTime, Time};

fn real_date() -> impl Strategy<Value = Date> {
    (1..=3_652_424i64).prop_map(|days| Date::from_days(days).unwrap())
}

fn datetime() -> impl Strategy<Value = DateTime> {
    (real_date(), 0..86_400_000_000i64).prop_map(|(date, us)| date.at(us))
}

fn text(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn datetimes_print_and_parse(at in datetime(), fsp in 0..=6u8) {
        let wanted = at.truncate(fsp);
        let parsed = parse_datetime(&text(|out| at.write_text(fsp, out)), 0);
        prop_assert_eq!(parsed, Some(Parsed { value: wanted, fsp, truncated: false }));
        let date = parse_date(&text(|out| at.date().write_text(out)));
        prop_assert_eq!(date.map(|p| p.value), Some(at.date()));
        let digits = at.to_number().to_string();
        if at.date().year() >= 1000 {
            let parsed = parse_datetime(digits.as_bytes(), 0);
            prop_assert_eq!(parsed.map(|p| p.value), Some(at.truncate(0)));
            prop_assert_eq!(DateTime::from_number(at.to_number()), Some(at.truncate(0)));
        }
        prop_assert_eq!(DateTime::from_packed(at.packed()), at);
        let (hour, minute, second) = (at.hour(), at.minute(), at.second());
        let made = DateTime::new(at.date(), hour, minute, second, at.microsecond());
        prop_assert_eq!(made, Some(at));
    }

    #[test]
    fn times_print_and_parse(us in -3_020_399_000_000..=3_020_399_000_000i64, fsp in 0..=6u8) {
        let time = Time::from_us(us).unwrap();
        let parsed = parse_time(&text(|out| time.write_text(fsp, out)));
        // "-00:00:00" is zero.
        prop_assert_eq!(parsed, Some(Parsed { value: time.truncate(fsp), fsp, truncated: false }));
        let (hours, minutes, seconds) = (time.hours(), time.minutes(), time.seconds());
        let made = Time::new(time.is_negative(), hours, minutes, seconds, time.microseconds());
        prop_assert_eq!(made, Some(time));
        let rounded = time.round(fsp).us();
        let unit = 10i64.pow(6 - u32::from(fsp));
        prop_assert!((rounded - us).abs() * 2 <= unit && rounded % unit == 0);
    }

    #[test]
    fn order_is_time_order(a in datetime(), b in datetime()) {
        prop_assert_eq!(a.cmp(&b), a.diff_us(b).unwrap().cmp(&0));
    }

    #[test]
    fn moments_go_to_unix_time_and_back(at in datetime(), offset in -50_340..=50_400i32) {
        let us = at.to_unix_us(offset).unwrap();
        prop_assert_eq!(DateTime::from_unix_us(us, offset), Some(at));
        if let Some(utc) = at.shift_zone(offset, 0) {
            prop_assert_eq!(utc.to_unix_us(0), Some(us));
        }
    }

    #[test]
    fn intervals_add_and_subtract(
        at in datetime(),
        months in -30_000..30_000i64,
        days in -10_000_000..10_000_000i64,
        us in any::<i32>(),
    ) {
        let us = i64::from(us) * 1000;
        // No result of an addition is in the year 0, so the way back does not lead there.
        if let Some(sum) = at.add_interval(Interval { months: 0, days, us })
            && at.date().year() > 0
        {
            let back = Interval { days: -days, ..Interval::default() };
            prop_assert_eq!(sum.add_us(-us).and_then(|d| d.add_interval(back)), Some(at));
        }
        if let Some(moved) = at.date().add_months(months) {
            prop_assert!(moved.is_real() && moved.day() <= at.date().day());
            let count = |d: Date| i64::from(d.year()) * 12 + i64::from(d.month());
            prop_assert_eq!(count(moved) - count(at.date()), months);
        }
        // Out of range is None, never a panic.
        let _ = at.add_interval(Interval { months: i64::MAX, days: i64::MAX, us: i64::MIN });
        let _ = at.add_us(i64::MIN);
    }

    #[test]
    fn weeks_hold_seven_days(date in real_date(), mode in 0..=7u8) {
        let Some((year, week)) = date.week(mode) else { return Ok(()) };
        prop_assert!(week <= 53 && year.abs_diff(date.year()) <= 1);
        let first_weekday = if mode & 1 != 0 { 0 } else { 6 };
        let same_week =
            |n: &Date| n.weekday() != Some(first_weekday) && n.year() == date.year();
        if let Some(next) = date.add_days(1).filter(same_week) {
            prop_assert_eq!(next.week(mode), Some((year, week)));
        }
    }

    #[test]
    fn any_text_parses_without_panic(
        text in "[-+]?[0-9:./ T-]{0,30}.{0,4}",
        offset in -50_000..50_000i32,
    ) {
        let text = text.as_bytes();
        let _ = (parse_datetime(text, offset), parse_time(text), parse_date(text));
    }

    #[test]
    fn any_number_converts_without_panic(number in any::<i64>()) {
        for number in [number, number >> 16, number >> 32] {
            let _ = (DateTime::from_number(number), Time::from_number(number));
        }
    }
}
