//! Numbers of bytes and of picoseconds in units that people read (FORMAT_BYTES, FORMAT_PICO_TIME).

const BYTES: [&str; 7] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const TIMES: [(f64, &str); 8] = [
    (1.0, "ps"),
    (1e3, "ns"),
    (1e6, "us"),
    (1e9, "ms"),
    (1e12, "s"),
    (6e13, "min"),
    (3.6e15, "h"),
    (8.64e16, "d"),
];
/// From here on, a number is written with an exponent.
const LARGE: f64 = 100_000.0;

/// As `512 bytes`, `1.50 KiB`.
pub(super) fn bytes(n: f64) -> String {
    let unit = (0..BYTES.len()).rev().find(|unit| n.abs() >= power(*unit)).unwrap_or(0);
    if unit == 0 {
        return format!("{:4} bytes", n as i64);
    }
    in_unit(n / power(unit), BYTES[unit])
}
fn power(unit: usize) -> f64 {
    1024f64.powi(unit as i32)
}
/// As `350 ps`, `3.50 ns`, `3.15 min`.
pub(super) fn picoseconds(n: f64) -> String {
    let (unit, name) =
        TIMES.iter().rev().copied().find(|(unit, _)| n.abs() >= *unit).unwrap_or(TIMES[0]);
    if unit == 1.0 {
        return format!("{:3} {name}", n as i64);
    }
    in_unit(n / unit, name)
}
fn in_unit(n: f64, unit: &str) -> String {
    if n.abs() < LARGE {
        return format!("{n:.2} {unit}");
    }
    let text = format!("{n:.2e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{exponent:+03} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_manual() {
        assert_eq!(bytes(512.0), " 512 bytes");
        assert_eq!(bytes(18_446_744_073_709_551_615.0), "16.00 EiB");
        assert_eq!((&*bytes(1536.0), &*bytes(-2048.0)), ("1.50 KiB", "-2.00 KiB"));
        assert_eq!(bytes(1e30), "8.67e+11 EiB");
        assert_eq!(picoseconds(3501.0), "3.50 ns");
        assert_eq!(picoseconds(188_732_396_662_000.0), "3.15 min");
        assert_eq!((&*picoseconds(0.0), &*picoseconds(350.0)), ("  0 ps", "350 ps"));
        assert_eq!(picoseconds(8.64e16 * 200_000.0), "2.00e+05 d");
    }
}
