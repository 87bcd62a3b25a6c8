//! Digests and encodings: MD5, SHA, base64, UUIDs.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::exec::pace::LONG;
use crate::plan::{Expr, Function, VariableScope};
use md5::Md5;
use redolith_types::Value;
use redolith_types::convert::to_u64;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(super) fn hex(bytes: &[u8], upper: bool) -> Vec<u8> {
    let digits = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    bytes.iter().flat_map(|b| [digits[(b >> 4) as usize], digits[(b & 15) as usize]]).collect()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// TO_BASE64 breaks lines after this number of characters.
const LINE: usize = 76;

fn to_base64(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 4 / 3 + 4);
    let mut column = 0;
    for group in bytes.chunks(3) {
        if column == LINE {
            out.push(b'\n');
            column = 0;
        }
        let n = group.iter().fold(0u32, |n, b| n << 8 | *b as u32) << (8 * (3 - group.len()));
        for i in 0..4 {
            out.push(if i <= group.len() {
                BASE64[(n >> (18 - 6 * i) & 63) as usize]
            } else {
                b'='
            });
        }
        column += 4;
    }
    out
}
/// Returns None if the text is not base64. Spaces and line ends are skipped.
fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    let (mut out, mut ended) = (Vec::with_capacity(text.len() / 4 * 3), false);
    for group in text.chunks(4) {
        let padding = group.iter().rev().take_while(|b| **b == b'=').count();
        if ended || group.len() != 4 || padding > 2 {
            return None;
        }
        let mut n = 0u32;
        for b in &group[..4 - padding] {
            n = n << 6 | BASE64.iter().position(|c| c == b)? as u32;
        }
        n <<= 6 * padding;
        out.extend_from_slice(&n.to_be_bytes()[1..4 - padding]);
        ended = padding > 0;
    }
    Some(out)
}

/// Writes 16 bytes as groups of 8, 4, 4, 4 and 12 digits.
fn uuid_text(b: &[u8]) -> Vec<u8> {
    let digits = hex(b, false);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join(&b'-')
}
fn uuid_bytes(text: &[u8]) -> Option<[u8; 16]> {
    let text = text.strip_prefix(b"{").and_then(|t| t.strip_suffix(b"}")).unwrap_or(text);
    let dashed = text.len() == 36;
    let digits: Vec<u8> = if dashed {
        let places = [8, 13, 18, 23];
        if places.iter().any(|p| text[*p] != b'-') {
            return None;
        }
        text.iter().copied().filter(|b| *b != b'-').collect()
    } else {
        text.to_vec()
    };
    if digits.len() != 32 {
        return None;
    }
    let mut out = [0; 16];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |b: u8| char::from(b).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(out)
}
/// Puts the high bits of the time before its low bits, so that UUIDs order by time
/// (UUID_TO_BIN(.., 1)). `back` undoes the swap.
fn swap_time(b: &mut [u8; 16], back: bool) {
    if back {
        b[..8].rotate_left(4);
        b[4..8].rotate_left(2);
    } else {
        b[4..8].rotate_left(2);
        b[..8].rotate_left(4);
    }
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn digest_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
    ) -> Result<Value<'v>> {
        use Function as F;
        match function {
            F::Uuid => return Ok(Value::owned(uuid_text(&self.uuid()))),
            F::UuidShort => return Ok(Value::UInt(self.uuid_short())),
            F::RandomBytes => {
                let Some(n) = self.arg_int(&args[0])? else { return Ok(Value::Null) };
                if !(1..=1024).contains(&n) {
                    return Err(SqlError::new(
                        1690,
                        "length value is out of range in 'random_bytes'",
                    ));
                }
                let mut out = Vec::with_capacity(n as usize + 8);
                while out.len() < n as usize {
                    out.extend_from_slice(&self.env.disk.random().to_le_bytes());
                }
                out.truncate(n as usize);
                return Ok(Value::owned(out));
            }
            _ => {}
        }
        let Some(text) = self.arg_bytes(&args[0])? else { return Ok(Value::Null) };
        Ok(match function {
            F::Md5 => self.digest::<Md5>(&text)?,
            F::Sha1 => self.digest::<Sha1>(&text)?,
            F::Sha2 => match self.arg_int(&args[1])? {
                Some(224) => self.digest::<Sha224>(&text)?,
                Some(0 | 256) => self.digest::<Sha256>(&text)?,
                Some(384) => self.digest::<Sha384>(&text)?,
                Some(512) => self.digest::<Sha512>(&text)?,
                _ => Value::Null,
            },
            F::ToBase64 if text.len() / 3 > self.most_bytes() / 4 => {
                return self.too_long("to_base64");
            }
            F::ToBase64 => Value::owned(to_base64(&text)),
            F::FromBase64 => from_base64(&text).map_or(Value::Null, Value::owned),
            F::IsUuid => Value::Int(uuid_bytes(&text).is_some().into()),
            F::UuidToBin => {
                let Some(mut b) = uuid_bytes(&text) else {
                    return Err(wrong_uuid(&text, "uuid_to_bin"));
                };
                if self.swaps(args)? {
                    swap_time(&mut b, false);
                }
                Value::owned(b.to_vec())
            }
            _ => {
                let Ok(mut b) = <[u8; 16]>::try_from(&text[..]) else {
                    return Err(wrong_uuid(&text, "bin_to_uuid"));
                };
                if self.swaps(args)? {
                    swap_time(&mut b, true);
                }
                Value::owned(uuid_text(&b))
            }
        })
    }
    /// The digest in hexadecimal digits. Between the parts of a long text the statement looks
    /// whether it has been ended.
    fn digest<D: Digest>(&mut self, text: &[u8]) -> Result<Value<'static>> {
        let mut digest = D::new();
        for part in text.chunks(LONG) {
            self.env.bytes(part.len())?;
            digest.update(part);
        }
        Ok(Value::owned(hex(&digest.finalize(), false)))
    }
    fn swaps(&mut self, args: &'v [Expr]) -> Result<bool> {
        Ok(match args.get(1) {
            Some(e) => self.arg_int(e)?.unwrap_or(0) != 0,
            None => false,
        })
    }

    /// Makes a UUID of version 1: the time in 100 ns since 1582-10-15, and a random node with the
    /// multicast bit (RFC 9562, 5.1 and 6.10).
    fn uuid(&mut self) -> [u8; 16] {
        const GREGORIAN_TO_UNIX: u64 = 0x01b2_1dd2_1381_4000;
        let noise = self.env.disk.random();
        let ticks = (self.env.disk.wall_us() as u64 * 10 + noise % 10) + GREGORIAN_TO_UNIX;
        let mut b = [0; 16];
        b[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
        b[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
        b[6..8].copy_from_slice(&((ticks >> 48) as u16 & 0xfff | 0x1000).to_be_bytes());
        b[8..16].copy_from_slice(&self.env.disk.random().to_be_bytes());
        b[8] = b[8] & 0x3f | 0x80;
        b[10] |= 1;
        b
    }

    /// `server_id` in the highest byte, then the second of the first call in 32 bits, then a number
    /// that grows with each call.
    fn uuid_short(&mut self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let first = ((self.env.disk.wall_us() as u64 / 1_000_000) & 0xffff_ffff) << 24;
        let _ = NEXT.compare_exchange(0, first, Relaxed, Relaxed);
        let (session, scope) = (&*self.env.session, VariableScope::Global);
        let id = self.env.variables.system_variable(session, scope, "server_id");
        let id = id.map_or(0, |id| to_u64(&id).value);
        (id & 0xff) << 56 | NEXT.fetch_add(1, Relaxed) & ((1 << 56) - 1)
    }
}

#[cold]
fn wrong_uuid(text: &[u8], function: &str) -> SqlError {
    SqlError::new(
        1411,
        format!(
            "Incorrect string value: '{}' for function {function}",
            String::from_utf8_lossy(text)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_round_trips_and_breaks_lines() {
        for n in 0..200 {
            let bytes: Vec<u8> = (0..n).map(|i| (i * 7) as u8).collect();
            let text = to_base64(&bytes);
            assert!(text.split(|b| *b == b'\n').all(|l| l.len() <= LINE));
            assert_eq!(from_base64(&text), Some(bytes));
        }
        assert_eq!(to_base64(b"abc"), b"YWJj");
        assert_eq!((from_base64(b"YW=J"), from_base64(b"YWJ")), (None, None));
    }
    #[test]
    fn uuids() {
        let text = b"6ccd780c-baba-1026-9564-5b8c656024db";
        let mut b = uuid_bytes(text).unwrap();
        assert_eq!(uuid_text(&b), text);
        swap_time(&mut b, false);
        assert_eq!(hex(&b, true), b"1026BABA6CCD780C95645B8C656024DB");
        swap_time(&mut b, true);
        assert_eq!(uuid_text(&b), text);
        assert_eq!(uuid_bytes(b"nonsense"), None);
    }
}
