//! Built-in functions, by id.
use super::Eval;
use crate::error::Result;
use crate::plan::{Expr, Function};
use redolith_types::Value;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn call(&mut self, function: Function, args: &'v [Expr], node: &'v Expr) -> Result<Value<'v>> {
        match function {
            Function::If => {
                let chosen = if self.truth(&args[0])? == Some(true) { &args[1] } else { &args[2] };
                self.unified(chosen, node)
            }
            _ => Err(crate::error::SqlError::unsupported(function.name())),
        }
    }
}
