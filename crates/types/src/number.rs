//! Numbers as MySQL prints them: doubles with the fewest digits that read back as the same, floats with six.
//!
//! Exponent form ("1.5e20", "1e-16") is used when the decimal point would stand after the 15th digit or more than 14 places before the first.

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

/// Rewrites Rust's "-d.ddde-dd" the way MySQL lays numbers out.
fn write_scientific(text: &[u8], out: &mut Vec<u8>) {
    let Some(e) = text.iter().position(|b| *b == b'e') else {
        // inf and NaN, which no column holds
        out.extend_from_slice(text);
        return;
    };
    let (mantissa, exponent) = (&text[..e], std::str::from_utf8(&text[e + 1..]).ok().and_then(|t| t.parse::<i32>().ok()).unwrap_or(0));
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
    // Digits before the decimal point, were it written without an exponent.
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

    /// What a MariaDB 10.11 server prints for these.
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
        for value in [0, 7, 10, u64::MAX] {
            assert_eq!(text(|out| write_u64(value, out)), value.to_string());
        }
    }
}
