//! Numbers as MySQL prints them: doubles with the fewest digits that read back as the same, floats
//! with six.
//!
//! Exponent form ("1.5e20", "1e-16") is used when the decimal point would stand after the 15th
//! digit or more than 14 places before the first.

use std::io::Write;

pub fn write_u64(value: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = value;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

pub fn write_f64(value: f64, out: &mut Vec<u8>) {
    let mut buffer = [0u8; 40];
    write_scientific(crate::value::write_to(&mut buffer, format_args!("{value:e}")), out);
}

pub fn write_f32(value: f32, out: &mut Vec<u8>) {
    let mut buffer = [0u8; 40];
    write_scientific(crate::value::write_to(&mut buffer, format_args!("{value:.5e}")), out);
}

/// Writes a double with `decimals` digits after the point. Digits beyond those that distinguish the
/// double from its neighbours are zeros. Negative zero has no sign, as in [`write_f64`].
pub fn write_fixed(value: f64, decimals: u8, out: &mut Vec<u8>) {
    let start = out.len();
    let value = value + 0.0;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{value}");
    let digits = out[start..].iter().rev().position(|b| *b == b'.');
    let decimals = usize::from(decimals);
    match digits {
        Some(digits) if digits > decimals => {
            out.truncate(start);
            let _ = write!(out, "{value:.decimals$}");
        }
        _ => {
            if digits.is_none() && decimals > 0 {
                out.push(b'.');
            }
            out.resize(out.len() + decimals - digits.unwrap_or(0), b'0');
        }
    }
}

/// The positions of the decimal point at which a double is written without an exponent, as in
/// [`write_f64`].
const PLAIN_POINTS: std::ops::RangeInclusive<i32> = -14..=15;

/// Writes a double in at most `width` characters, with as many digits as fit. The flag says whether
/// all digits before the point, and the exponent, fit. The exponent form is used only where it
/// shows more digits.
pub fn fit_f64(value: f64, width: usize) -> (Vec<u8>, bool) {
    let negative = value < 0.0;
    let room = (width as i32 - i32::from(negative)).max(0);
    let (digits, point) = significant(value.abs(), (room as usize).clamp(1, 17));
    let len = digits.len() as i32;
    let plain_len = match point {
        ..=0 => len - point + 2,
        _ if point < len => len + 1,
        _ => point,
    };
    let is_plain =
        PLAIN_POINTS.contains(&point) && (plain_len <= room || (-2..=room).contains(&point));
    let (mut text, fits) = if is_plain {
        plain(value.abs(), room, len, point)
    } else {
        scientific(value.abs(), room, len, point)
    };
    if negative && text != b"0" {
        text.insert(0, b'-');
    }
    text.truncate(width);
    (text, fits)
}

/// At most `most` significant digits, without zeros at the end, and the number of them before the
/// point.
fn significant(value: f64, most: usize) -> (Vec<u8>, i32) {
    let shortest = format!("{value:e}");
    let digits = shortest.bytes().take_while(|b| *b != b'e').filter(u8::is_ascii_digit).count();
    let text = if digits > most { format!("{value:.*e}", most - 1) } else { shortest };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    while digits.len() > 1 && digits.last() == Some(&b'0') {
        digits.pop();
    }
    (digits, exponent.parse::<i32>().unwrap_or(0) + 1)
}

fn plain(value: f64, room: i32, len: i32, point: i32) -> (Vec<u8>, bool) {
    // The room for digits, without the point and the zeros before the first digit.
    let room = room - i32::from(point < len) - if point <= 0 { 1 - point } else { 0 };
    let decimals = if room < len { room - point } else { len - point };
    let mut text = format!("{value:.*}", decimals.max(0) as usize);
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    (text.into_bytes(), room >= len || room >= point)
}

fn scientific(value: f64, room: i32, len: i32, point: i32) -> (Vec<u8>, bool) {
    let exponent = point - 1;
    let exponent_len =
        exponent.unsigned_abs().checked_ilog10().unwrap_or(0) as i32 + 1 + i32::from(exponent < 0);
    let room = room - 1 - exponent_len - i32::from(len > 1);
    let (digits, point) = significant(value, room.clamp(1, len) as usize);
    let (first, rest) = digits.split_at(1);
    let separator: &[u8] = if rest.is_empty() { b"" } else { b"." };
    let text = [first, separator, rest, format!("e{}", point - 1).as_bytes()].concat();
    (text, room > 0)
}

/// Converts Rust's "-d.ddde-dd" to MySQL's layout.
fn write_scientific(text: &[u8], out: &mut Vec<u8>) {
    let Some(e) = text.iter().position(|b| *b == b'e') else {
        // inf and NaN are never in a column.
        out.extend_from_slice(text);
        return;
    };
    let (mantissa, exponent) = (
        &text[..e],
        std::str::from_utf8(&text[e + 1..]).ok().and_then(|t| t.parse::<i32>().ok()).unwrap_or(0),
    );
    let mut digits = [0u8; 40];
    let mut len = 0;
    for b in mantissa.iter().filter(|b| b.is_ascii_digit()) {
        digits[len] = *b;
        len += 1;
    }
    while len > 1 && digits[len - 1] == b'0' {
        len -= 1;
    }
    let digits = &digits[..len];
    if digits == b"0" {
        out.push(b'0');
        return;
    }
    if mantissa[0] == b'-' {
        out.push(b'-');
    }
    // The number of digits before the decimal point in the form without an exponent.
    let point = exponent + 1;
    match point {
        -14..=0 => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', point.unsigned_abs() as usize));
            out.extend_from_slice(digits);
        }
        1..=15 => {
            let point = point as usize;
            out.extend_from_slice(&digits[..len.min(point)]);
            if len > point {
                out.push(b'.');
                out.extend_from_slice(&digits[point..]);
            } else {
                out.extend(std::iter::repeat_n(b'0', point - len));
            }
        }
        _ => {
            out.push(digits[0]);
            if len > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.push(b'e');
            if exponent < 0 {
                out.push(b'-');
            }
            write_u64(u64::from(exponent.unsigned_abs()), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// The expected text is what a MariaDB 10.11 server prints.
    #[test]
    fn numbers_print_as_a_server_prints_them() {
        let doubles = [
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (123456789012345.0, "123456789012345"),
            (1234567890123456.0, "1.234567890123456e15"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (1.2345678901234567e-10, "0.00000000012345678901234568"),
            (1.2345678901234567e-14, "0.000000000000012345678901234567"),
            (-1.5e-300, "-1.5e-300"),
            (f64::MAX, "1.7976931348623157e308"),
            (100.0 / 3.0, "33.333333333333336"),
            (99999999999999999999.0, "1e20"),
            (-0.0, "0"),
        ];
        for (value, wanted) in doubles {
            assert_eq!(text(|out| write_f64(value, out)), wanted);
        }
        let floats = [
            (2.718_281_3, "2.71828"),
            (16777217.0, "16777200"),
            (1.5e15, "1.5e15"),
            (1e-20, "1e-20"),
            (9999995.0, "10000000"),
            (123456e9, "123456000000000"),
            (1.23456e-15, "0.00000000000000123456"),
            (3.4e38, "3.4e38"),
        ];
        for (value, wanted) in floats {
            assert_eq!(text(|out| write_f32(value, out)), wanted);
        }
        let fitted = [
            (1e10, 5, "1e10", true),
            (1.23456789, 5, "1.235", true),
            (-123456.789, 7, "-123457", true),
            (99.995, 5, "100", true),
            (1.5e-10, 7, "1.5e-10", true),
            (2e15, 5, "2e15", true),
            (123456.0, 5, "1.2e5", true),
            (-0.00012, 5, "-1e-4", false),
            (1.5e300, 5, "2e300", false),
            (-1.25e300, 5, "-1e30", false),
            (12345.678, 5, "12346", true),
            (0.0, 1, "0", true),
            (0.1, 20, "0.1", true),
        ];
        for (value, width, wanted, fits) in fitted {
            assert_eq!(
                fit_f64(value, width),
                (wanted.as_bytes().to_vec(), fits),
                "{value} in {width}"
            );
        }
        for value in [0, 7, 10, u64::MAX] {
            assert_eq!(text(|out| write_u64(value, out)), value.to_string());
        }
    }
}
