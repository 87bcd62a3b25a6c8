//! TIME, DATETIME and TIMESTAMP in a row image.
//!
//! | type | whole part, big-endian |
//! |---|---|
//! | TIME(n) | 3 bytes: 0x800000 + hours << 12 + minutes << 6 + seconds |
//! | DATETIME(n) | 5 bytes: 0x8000000000 + (year * 13 + month) << 22 + day << 17 + hour << 12 + minute << 6 + second |
//! | TIMESTAMP(n) | 4 bytes: seconds since 1970 UTC; 0 is the zero date |
//!
//! A fraction follows: nothing for n = 0, hundredths in 1 byte for 1 and 2, ten thousandths in 2
//! for 3 and 4, microseconds in 3 for 5 and 6. A negative TIME is the negative number of the whole
//! and the fraction together: -00:00:00.5 of TIME(1) is 0x7fffff and the byte 256 - 50. (MySQL,
//! `my_time_packed_to_binary`)
use crate::DecodeError;
use crate::bytes::Input;
use redolith_types::{Date, DateTime, Time};

const TIME_ZERO: i64 = 0x80_0000;
const DATETIME_ZERO: u64 = 0x80_0000_0000;

fn fraction_len(fsp: u8) -> usize {
    usize::from(fsp).div_ceil(2)
}

/// The number of units of the stored fraction in a second.
fn units(fsp: u8) -> i64 {
    100i64.pow(u32::from(fsp).div_ceil(2))
}

/// Microseconds of a unit of the stored fraction.
fn unit_us(fsp: u8) -> i64 {
    1_000_000 / units(fsp)
}

fn put_be(out: &mut Vec<u8>, value: u64, len: usize) {
    out.extend_from_slice(&value.to_be_bytes()[8 - len..]);
}

fn put_fraction(out: &mut Vec<u8>, us: u32, fsp: u8) {
    put_be(out, u64::from(us) / unit_us(fsp) as u64, fraction_len(fsp));
}

/// Microseconds.
fn fraction(input: &mut Input<'_>, fsp: u8) -> Result<u32, DecodeError> {
    let stored = input.be(fraction_len(fsp))?;
    match stored < units(fsp) as u64 {
        true => Ok((stored * unit_us(fsp) as u64) as u32),
        false => Err(input.wrong("a fraction of a second and more")),
    }
}

pub(super) fn put_time(out: &mut Vec<u8>, time: Time, fsp: u8) {
    let whole = i64::from(time.hours() << 12 | time.minutes() << 6 | time.seconds());
    // The whole part and the stored fraction are one number, which is negated if the time is.
    let bits = 8 * fraction_len(fsp);
    let fraction = i64::from(time.microseconds()) / unit_us(fsp);
    let absolute = whole << bits | fraction;
    let signed = if time.is_negative() { -absolute } else { absolute };
    put_be(out, (signed + (TIME_ZERO << bits)) as u64, 3 + fraction_len(fsp));
}

pub(super) fn time(input: &mut Input<'_>, fsp: u8) -> Result<Time, DecodeError> {
    let bits = 8 * fraction_len(fsp);
    let signed = input.be(3 + fraction_len(fsp))? as i64 - (TIME_ZERO << bits);
    let absolute = signed.unsigned_abs();
    let (whole, stored) = ((absolute >> bits) as u32, (absolute & ((1 << bits) - 1)) as i64);
    let (hours, minutes, seconds) = (whole >> 12 & 0x3ff, whole >> 6 & 0x3f, whole & 0x3f);
    let is_possible = stored < units(fsp) && minutes < 60 && seconds < 60 && whole >> 22 == 0;
    let us = (stored * unit_us(fsp)) as u32;
    let time = is_possible.then(|| Time::new(signed < 0, hours, minutes, seconds, us)).flatten();
    time.ok_or(input.wrong("a TIME that does not exist"))
}

pub(super) fn put_datetime(out: &mut Vec<u8>, value: DateTime, fsp: u8) {
    let date = value.date();
    let months = u64::from(date.year()) * 13 + u64::from(date.month());
    let of_day =
        u64::from(value.hour()) << 12 | u64::from(value.minute()) << 6 | u64::from(value.second());
    let whole = months << 22 | u64::from(date.day()) << 17 | of_day;
    put_be(out, whole + DATETIME_ZERO, 5);
    put_fraction(out, value.microsecond(), fsp);
}

pub(super) fn datetime(input: &mut Input<'_>, fsp: u8) -> Result<DateTime, DecodeError> {
    let stored = input.be(5)?;
    let us = fraction(input, fsp)?;
    let wrong = input.wrong("a DATETIME that does not exist");
    let whole = stored.checked_sub(DATETIME_ZERO).ok_or(wrong.clone())?;
    let (months, day) = (whole >> 22, (whole >> 17 & 0x1f) as u8);
    let year = u16::try_from(months / 13).map_err(|_| wrong.clone())?;
    let date = Date::new(year, (months % 13) as u8, day).ok_or(wrong.clone())?;
    let (hour, minute, second) = (whole >> 12 & 0x1f, whole >> 6 & 0x3f, whole & 0x3f);
    DateTime::new(date, hour as u8, minute as u8, second as u8, us).ok_or(wrong)
}

pub(super) fn put_timestamp(out: &mut Vec<u8>, value: DateTime, fsp: u8) {
    // The zero date has no seconds since 1970, and is 0.
    let us = value.to_unix_us(0).unwrap_or(0);
    put_be(out, us.div_euclid(1_000_000) as u64, 4);
    put_fraction(out, us.rem_euclid(1_000_000) as u32, fsp);
}

pub(super) fn timestamp(input: &mut Input<'_>, fsp: u8) -> Result<DateTime, DecodeError> {
    let seconds = input.be(4)? as i64;
    let us = i64::from(fraction(input, fsp)?);
    match seconds * 1_000_000 + us {
        0 => Ok(DateTime::ZERO),
        us => DateTime::from_unix_us(us, 0).ok_or(input.wrong("a TIMESTAMP that does not exist")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use redolith_types::temporal::MAX_TIME_US;

    fn encoded(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out);
        out
    }

    /// The bytes are those of the comment above `my_time_packed_to_binary` in MySQL.
    #[test]
    fn negative_times_are_negative_numbers() {
        for (us, fsp, bytes) in [
            (0, 0, &[0x80, 0, 0][..]),
            (-1_000_000, 0, &[0x7f, 0xff, 0xff]),
            (10_000, 2, &[0x80, 0, 0, 1]),
            (-10_000, 2, &[0x7f, 0xff, 0xff, 0xff]),
            (-990_000, 2, &[0x7f, 0xff, 0xff, 0x9d]),
            (-1_000_000, 2, &[0x7f, 0xff, 0xff, 0]),
            (-1_010_000, 2, &[0x7f, 0xff, 0xfe, 0xff]),
            (-2_500_000, 1, &[0x7f, 0xff, 0xfd, 0xce]),
            (-1, 6, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let value = Time::from_us(us).unwrap();
            assert_eq!(encoded(|out| put_time(out, value, fsp)), bytes, "{us} us");
            assert_eq!(time(&mut Input::new(bytes, "a test"), fsp), Ok(value), "{us} us");
        }
    }

    #[test]
    fn what_no_writer_writes_is_refused() {
        for bytes in [[0x80, 0, 60], [0xc0, 0, 0], [0x80, 0x0f, 0], [0, 0, 0]] {
            assert!(time(&mut Input::new(&bytes, "a test"), 0).is_err(), "{bytes:x?}");
        }
        assert!(time(&mut Input::new(&[0x80, 0, 0, 100], "a test"), 2).is_err());
        for bytes in [[0x7f, 0xff, 0xff, 0xff, 0xff], [0xff; 5], [0x80, 0, 0, 0, 60]] {
            assert!(datetime(&mut Input::new(&bytes, "a test"), 0).is_err(), "{bytes:x?}");
        }
        assert!(timestamp(&mut Input::new(&[0, 0, 0, 1, 100], "a test"), 1).is_err());
    }

    proptest! {
        #[test]
        fn times_and_moments_come_back(
            us in -MAX_TIME_US..=MAX_TIME_US,
            unix_us in 1_000_000..4_294_967_295_999_999i64,
            fsp in 0..=6u8,
        ) {
            let value = Time::from_us(us).unwrap().truncate(fsp);
            let bytes = encoded(|out| put_time(out, value, fsp));
            prop_assert_eq!(time(&mut Input::new(&bytes, "a test"), fsp), Ok(value));
            let value = DateTime::from_unix_us(unix_us, 0).unwrap().truncate(fsp);
            let bytes = encoded(|out| put_datetime(out, value, fsp));
            prop_assert_eq!(datetime(&mut Input::new(&bytes, "a test"), fsp), Ok(value));
            let bytes = encoded(|out| put_timestamp(out, value, fsp));
            prop_assert_eq!(timestamp(&mut Input::new(&bytes, "a test"), fsp), Ok(value));
        }
    }
}
