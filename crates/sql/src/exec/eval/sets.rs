//! Sets of texts from the bits of a number: MAKE_SET and EXPORT_SET.
use super::Eval;
use crate::error::Result;
use crate::plan::{Expr, Function};
use redolith_types::{Charset, Value};
use std::borrow::Cow;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn set_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let to = self.charset_of(node);
        let bits = self.number(&args[0])?;
        if bits.is_null() {
            return Ok(Value::Null);
        }
        let bits = self.bit_operand(&bits)?;
        let set = if function == Function::MakeSet {
            self.make_set(bits, &args[1..], to)?
        } else {
            self.export_set(bits, &args[1..], to)?
        };
        match set {
            None => Ok(Value::Null),
            Some(set) if set.len() > self.most_bytes() => {
                self.too_long(&function.name().to_ascii_lowercase())
            }
            Some(set) => Ok(Value::owned(set)),
        }
    }
    /// The texts whose bits are set. A text that is NULL is left out. The set may end when it is
    /// longer than a function may return.
    fn make_set(&mut self, bits: u64, texts: &'v [Expr], to: Charset) -> Result<Option<Vec<u8>>> {
        let (mut out, mut first) = (Vec::new(), true);
        for (n, e) in texts.iter().take(64).enumerate() {
            if bits >> n & 1 == 0 {
                continue;
            }
            let Some(text) = self.arg_text(e, to)? else { continue };
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            out.extend_from_slice(&text);
            if out.len() > self.most_bytes() {
                break;
            }
        }
        Ok(Some(out))
    }
    /// For each bit, from the lowest one, the text for set bits or that for others.
    fn export_set(&mut self, bits: u64, args: &'v [Expr], to: Charset) -> Result<Option<Vec<u8>>> {
        let (Some(on), Some(off)) = (self.arg_text(&args[0], to)?, self.arg_text(&args[1], to)?)
        else {
            return Ok(None);
        };
        let separator = match args.get(2) {
            None => Cow::Borrowed(&b","[..]),
            Some(e) => match self.arg_text(e, to)? {
                None => return Ok(None),
                Some(separator) => separator,
            },
        };
        // A number that is out of range means all bits.
        let count = match args.get(3) {
            None => 64,
            Some(e) => match self.arg_int(e)? {
                None => return Ok(None),
                Some(count) => usize::try_from(count).map_or(64, |count| count.min(64)),
            },
        };
        let longest = (on.len().max(off.len()) + separator.len()) * count;
        if longest > self.most_bytes() {
            // The caller refuses a text of this length.
            let ones = (0..count).filter(|n| bits >> n & 1 == 1).count();
            let len = ones * on.len()
                + (count - ones) * off.len()
                + separator.len() * count.saturating_sub(1);
            if len > self.most_bytes() {
                self.too_long("export_set")?;
                return Ok(None);
            }
        }
        let mut out = Vec::with_capacity(longest.min(self.most_bytes()));
        for n in 0..count {
            if n > 0 {
                out.extend_from_slice(&separator);
            }
            out.extend_from_slice(if bits >> n & 1 == 1 { &on } else { &off });
        }
        Ok(Some(out))
    }
}
