//! Numbers of all kinds in one order: by their decimal digits. Integers and decimals have all their
//! digits, doubles the shortest digits that give the double back (integers below 2^64 all).
use super::binary::View;
use crate::Value;

/// The sign, and the number as 0.digits * 10^exponent without zeros at the ends.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Digits {
    negative: bool,
    exponent: i32,
    digits: Vec<u8>,
}

impl Digits {
    /// The digits of a number. `None` for other values.
    pub fn of(view: &View<'_>) -> Option<Digits> {
        let mut text = Vec::with_capacity(32);
        match view {
            View::Int(v) => Value::Int(*v).write_text(None, &mut text),
            View::UInt(v) => Value::UInt(*v).write_text(None, &mut text),
            View::Decimal(v) => v.write_text(&mut text),
            View::Double(v) if v.abs() < 18_446_744_073_709_551_616.0 && v.fract() == 0.0 => {
                text.extend_from_slice(format!("{v:.0}").as_bytes());
            }
            View::Double(v) => text.extend_from_slice(format!("{v:e}").as_bytes()),
            _ => return None,
        }
        Some(Digits::of_text(&text))
    }

    fn of_text(text: &[u8]) -> Digits {
        let negative = text.first() == Some(&b'-');
        let text = if negative { &text[1..] } else { text };
        let split = text.iter().position(|b| *b == b'e').unwrap_or(text.len());
        let power = std::str::from_utf8(text.get(split + 1..).unwrap_or_default());
        let mut exponent = power.ok().and_then(|p| p.parse::<i32>().ok()).unwrap_or(0);
        let mantissa = &text[..split];
        exponent += mantissa.iter().position(|b| *b == b'.').unwrap_or(mantissa.len()) as i32;
        let all = mantissa.iter().copied().filter(u8::is_ascii_digit);
        let mut digits: Vec<u8> = all.map(|b| b - b'0').collect();
        let zeros = digits.iter().take_while(|d| **d == 0).count();
        digits.drain(..zeros);
        exponent -= zeros as i32;
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let is_zero = digits.is_empty();
        Digits {
            negative: negative && !is_zero,
            exponent: if is_zero { 0 } else { exponent },
            digits,
        }
    }

    /// Appends bytes that compare as the numbers do: sign, exponent, digits, an end.
    pub fn push_key(&self, out: &mut Vec<u8>) {
        if self.digits.is_empty() {
            out.push(1);
            return;
        }
        out.push(if self.negative { 0 } else { 2 });
        let start = out.len();
        out.extend_from_slice(&((self.exponent + 0x4000) as u16).to_be_bytes());
        out.extend(self.digits.iter().map(|d| d + 1));
        out.push(0);
        if self.negative {
            out[start..].iter_mut().for_each(|b| *b = !*b);
        }
    }
}
