//! Functions of sets of GTIDs.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Function};
use redolith_binlog::GtidSet;
use redolith_types::Value;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn gtid_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
    ) -> Result<Value<'v>> {
        let (Some(first), Some(second)) = (self.gtid_set(&args[0])?, self.gtid_set(&args[1])?)
        else {
            return Ok(Value::Null);
        };
        Ok(match function {
            Function::GtidSubset => Value::Int(first.is_subset(&second) as i64),
            _ => {
                let mut left = first;
                left.subtract(&second);
                Value::owned(left.to_string().into_bytes())
            }
        })
    }

    fn gtid_set(&mut self, arg: &'v Expr) -> Result<Option<GtidSet>> {
        let Some(text) = self.arg_bytes(arg)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&text);
        let malformed =
            |_| SqlError::new(1772, format!("Malformed GTID set specification '{text}'."));
        text.parse().map(Some).map_err(malformed)
    }
}
