//! INTERVAL arithmetic.
use super::Eval;
use crate::error::Result;
use crate::plan::{Expr, IntervalUnit};
use redolith_types::Value;
impl<'v> Eval<'v, '_, '_> {
    pub(super) fn interval(&mut self, _: bool, _: IntervalUnit, _: &'v [Expr; 2], _: &'v Expr) -> Result<Value<'v>> {
        Ok(Value::Null)
    }
}
