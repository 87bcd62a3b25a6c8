//! The rows of a VALUES list after the first row, if they have the form of the first row (DML-2).
//! Their literals become values a few rows at a time, so a long list takes little more memory than
//! its text.
use crate::error::Result;
use crate::parse::charsets::TextCharsets;
use crate::parse::lexer::Token;
use crate::parse::literal;
use redolith_types::Value;

/// The greatest number of values in a batch. A batch holds at least one row, however wide the row
/// is.
const VALUES_AT_ONCE: usize = 4096;

#[derive(Clone, Copy)]
pub struct MoreRows<'t> {
    pub text: &'t [u8],
    /// The literals of these rows, row after row.
    pub literals: &'t [Token],
    /// The number of literals before the first row.
    pub first: usize,
    pub backslash_escapes: bool,
    pub charsets: TextCharsets,
}

impl<'t> MoreRows<'t> {
    pub fn count(&self, stride: usize) -> usize {
        self.literals.len().checked_div(stride).unwrap_or(0)
    }
    /// Returns the number of rows in the batch that starts at row `from`, and the parameters of
    /// these rows. The parameters of the batch's row `n` begin at `n * stride`.
    pub fn values(
        &self,
        from: usize,
        stride: usize,
        params: &[Value<'t>],
    ) -> Result<(usize, Vec<Value<'t>>)> {
        let count = (VALUES_AT_ONCE / stride.max(1)).max(1).min(self.count(stride) - from);
        let tokens = &self.literals[from * stride..(from + count) * stride];
        let mut values = Vec::with_capacity(self.first + tokens.len());
        values.extend_from_slice(&params[..self.first]);
        for token in tokens {
            values.push(literal::value(*token, self.text, self.backslash_escapes, self.charsets)?);
        }
        Ok((count, values))
    }
}
