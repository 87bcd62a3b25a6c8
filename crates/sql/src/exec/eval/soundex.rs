//! SOUNDEX: texts that sound alike in English have one code.
use super::Eval;
use crate::error::Result;
use crate::plan::Expr;
use redolith_types::Value;

/// The codes of the letters A to Z. 0: a vowel, which has no code.
const CODES: &[u8; 26] = b"01230120022455012623010202";
/// A shorter code is filled up with zeros.
const LEAST: usize = 4;

impl<'v> Eval<'v, '_, '_> {
    /// The first letter, and the codes of the consonants after it without repetitions. Letters
    /// beyond A to Z count as vowels, and what is no letter is left out. As in the original
    /// algorithm, vowels are dropped before repetitions are.
    pub(super) fn soundex(&mut self, e: &'v Expr, node: &'v Expr) -> Result<Value<'v>> {
        let charset = self.charset_of(node);
        let Some(text) = self.arg_text(e, charset)? else { return Ok(Value::Null) };
        let (mut out, mut last, mut rest) = (Vec::new(), None, &text[..]);
        let mut chars = 0;
        while !rest.is_empty() {
            let (c, len) = charset.decode(rest);
            rest = &rest[len.clamp(1, rest.len())..];
            let Some(c) = c.filter(|c| c.is_alphabetic()) else { continue };
            let upper = c.to_ascii_uppercase();
            let code = if upper.is_ascii_uppercase() {
                CODES[(upper as u8 - b'A') as usize]
            } else {
                b'0'
            };
            if chars == 0 {
                charset.encode(upper, &mut out);
                (last, chars) = (Some(code), 1);
            } else if code != b'0' && last != Some(code) {
                charset.encode(code.into(), &mut out);
                last = Some(code);
                chars += 1;
            }
        }
        while (1..LEAST).contains(&chars) {
            charset.encode('0', &mut out);
            chars += 1;
        }
        Ok(Value::owned(out))
    }
}
