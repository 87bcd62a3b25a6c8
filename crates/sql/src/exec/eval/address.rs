//! Internet addresses: IPv4 as numbers and texts, IPv6 as 16 bytes and texts.
use super::Eval;
use crate::error::Result;
use crate::plan::{Expr, Function};
use redolith_types::{Charset, Value};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest text of an address: eight groups of four digits.
const LONGEST: usize = 39;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn address_function(
        &mut self,
        function: Function,
        e: &'v Expr,
    ) -> Result<Value<'v>> {
        use Function as F;
        if function == F::InetNtoa {
            let n = self.arg_int(e)?.and_then(|n| u32::try_from(n).ok());
            let text = n.map(|n| Ipv4Addr::from(n).to_string().into_bytes());
            return Ok(text.map_or(Value::Null, Value::owned));
        }
        let Some(text) = self.arg_bytes(e)? else { return Ok(Value::Null) };
        let is = |yes: bool| Value::Int(yes.into());
        // Addresses of 4 and 16 bytes are binary strings. A text of these lengths is no address.
        let bytes = if self.charset_of(e) == Charset::Binary { &text[..] } else { &[] };
        Ok(match function {
            F::InetAton => inet_aton(&text).map_or(Value::Null, Value::UInt),
            F::Inet6Aton => match (parse_v4(&text), parse_v6(&text)) {
                (Some(v4), _) => Value::owned(v4.octets().to_vec()),
                (_, Some(v6)) => Value::owned(v6.octets().to_vec()),
                _ => Value::Null,
            },
            F::Inet6Ntoa => {
                if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
                    Value::owned(Ipv4Addr::from(v4).to_string().into_bytes())
                } else if let Ok(v6) = <[u8; 16]>::try_from(bytes) {
                    Value::owned(print_v6(v6.into()).into_bytes())
                } else {
                    Value::Null
                }
            }
            F::IsIpv4 => is(parse_v4(&text).is_some()),
            F::IsIpv6 => is(parse_v6(&text).is_some()),
            // ::a.b.c.d without :: and ::1.
            F::IsIpv4Compat => is(bytes.len() == 16
                && bytes[..12] == [0; 12]
                && (bytes[12..15] != [0; 3] || bytes[15] > 1)),
            _ => is(bytes.len() == 16 && bytes[..10] == [0; 10] && bytes[10..12] == [0xff; 2]),
        })
    }
}

/// Four numbers of one to three digits.
fn parse_v4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split(|b| *b == b'.');
    for octet in &mut octets {
        let part = parts.next().filter(|part| matches!(part.len(), 1..=3))?;
        if !part.iter().all(u8::is_ascii_digit) {
            return None;
        }
        *octet = std::str::from_utf8(part).ok()?.parse().ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}
fn parse_v6(text: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(text).ok().filter(|text| text.len() <= LONGEST)?.parse().ok()
}
/// Writes an address: `::` stands for the first of the longest rows of zeros, even for a single one
/// (RFC 5952, which MySQL's form is older than, leaves that one), and IPv4 addresses in IPv6 keep
/// their form.
fn print_v6(address: Ipv6Addr) -> String {
    let groups = address.segments();
    let (mut best, mut at) = (0..0, 0);
    while at < 8 {
        let end = at + groups[at..].iter().take_while(|group| **group == 0).count();
        if end - at > best.len() {
            best = at..end;
        }
        at = end + 1;
    }
    if best.start == 0 && (best.end == 6 || best.end == 5 && groups[5] == 0xffff) {
        let [.., a, b, c, d] = address.octets();
        let middle = if best.end == 5 { "ffff:" } else { "" };
        return format!("::{middle}{a}.{b}.{c}.{d}");
    }
    let mut out = String::new();
    for (i, group) in groups.iter().enumerate() {
        if best.contains(&i) {
            if i == best.start {
                out.push_str("::");
            }
            continue;
        }
        if i > 0 && !out.ends_with(':') {
            out.push(':');
        }
        let _ = write!(out, "{group:x}");
    }
    out
}

/// Reads a.b.c.d. If parts are missing, zeros stand before the last part.
fn inet_aton(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.ends_with(b".") {
        return None;
    }
    let digit = |n: u8, b: &u8| match b {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(b - b'0'),
        _ => None,
    };
    // Four parts are the most. A part without digits is 0, except the last.
    let parts = text.split(|b| *b == b'.').take(5).map(|part| part.iter().try_fold(0, digit));
    let parts: Vec<u8> = parts.collect::<Option<_>>()?;
    match &parts[..] {
        [a] => Some(*a as u64),
        [a, rest @ .., d] if rest.len() <= 2 => {
            let n = rest.iter().fold(*a as u64, |n, b| n << 8 | *b as u64);
            Some(n << (8 * (3 - rest.len())) | *d as u64)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(inet_aton(b"10.0.5.9"), Some(167_773_449));
        assert_eq!(
            (inet_aton(b"127.1"), inet_aton(b"1.2.3.4.5"), inet_aton(b"x")),
            (Some(0x7f00_0001), None, None)
        );
        for wrong in ["", "+1.2.3.4", "1.2.+3.4", "-1", "256", "1.2.", "1.2.3.256", " 1"] {
            assert_eq!(inet_aton(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(
            (inet_aton(b"0001.2"), inet_aton(b"1..2"), inet_aton(b".1")),
            (Some(0x0100_0002), Some(0x0100_0002), Some(1))
        );
    }
    #[test]
    fn addresses_of_version_6_read_back() {
        for text in [
            "::",
            "::1",
            "1::",
            "1:2:3:4:5:6:7:8",
            "1:0:3:4:5:6:7:8",
            "1::4:0:0:7:8",
            "fe80::1:2",
            "::ffff:1.2.3.4",
            "::1.2.3.4",
            "1:0:0:4::8",
        ] {
            let address = parse_v6(text.as_bytes()).unwrap();
            assert_eq!(parse_v6(print_v6(address).as_bytes()), Some(address), "{text}");
        }
        assert_eq!(print_v6(parse_v6(b"1:0:0:4:0:0:0:8").unwrap()), "1:0:0:4::8");
        assert_eq!(print_v6(parse_v6(b"1:0:3:4:5:6:7:8").unwrap()), "1::3:4:5:6:7:8");
        assert_eq!(print_v6(parse_v6(b"0:0:3:4:5:6:0:0").unwrap()), "::3:4:5:6:0:0");
        for wrong in ["", ":", "1:2", "1::2::3", "g::", "::1.2.3", "1:2:3:4:5:6:7:8:9"] {
            assert_eq!(parse_v6(wrong.as_bytes()), None, "{wrong}");
        }
        for wrong in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1..3.4", "1.2.3.0004", "1.2.3.+4"] {
            assert_eq!(parse_v4(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(parse_v4(b"001.2.3.004"), Some([1, 2, 3, 4].into()));
    }
}
