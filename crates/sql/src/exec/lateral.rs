//! LATERAL derived tables: their rows are made for each row of the tables before them.
//!
//! The rows are made again only when a value that they depend on has changed, so two rows of the
//! tables before them that differ in other values read the same ones.
use super::ExecContext;
use super::correlated::answered;
use super::eval::{Eval, Known, Scope};
use super::row_buffer::write;
use super::rows::{Kept, kept_rows};
use super::scan::check_killed;
use crate::error::Result;
use crate::plan::{Expr, SelectPlan};
use redolith_types::Value;

pub struct Lateral<'p> {
    plan: &'p SelectPlan,
    outer: &'p [Expr],
    /// The values for which `kept` was made.
    key: Option<Vec<u8>>,
    pub kept: Kept,
    counted: usize,
    /// Whether `kept` is for the present rows of the tables before.
    pub is_made: bool,
}

impl<'p> Lateral<'p> {
    pub fn new(plan: &'p SelectPlan, outer: &'p [Expr]) -> Lateral<'p> {
        Lateral { plan, outer, key: None, kept: Kept::nothing(), counted: 0, is_made: false }
    }

    /// Makes the rows for those of the tables before, which `at` has.
    pub async fn make(&mut self, cx: &mut ExecContext<'_>, at: Scope<'_>) -> Result<()> {
        check_killed(&cx.env)?;
        cx.trx.give_way().await;
        let mark = cx.env.held();
        let mut outer: Vec<Value<'static>> = Vec::with_capacity(self.outer.len());
        for e in self.outer {
            let value = answered!(cx, at, Eval::new(at, &mut cx.env).eval(e));
            outer.push(value.into_owned());
        }
        let mut key = Vec::new();
        outer.iter().for_each(|value| write(value, &mut key));
        cx.env.release_to(mark);
        if self.key.as_ref() == Some(&key) {
            self.kept.rewind();
        } else {
            std::mem::replace(&mut self.kept, Kept::nothing()).free(&mut cx.env);
            cx.env.keep(&mut self.counted, 0)?;
            let mark = cx.env.held();
            let outside = cx.env.correlated.enter();
            let known = Known::outside(&outer);
            let inner = Scope { known: &known, ..Scope::new(at.params) };
            self.kept = kept_rows(cx, self.plan, inner).await?;
            cx.env.correlated.leave(outside);
            cx.env.release_to(mark);
            self.key = Some(key);
        }
        cx.env
            .keep(&mut self.counted, self.kept.memory() + self.key.as_ref().map_or(0, Vec::len))?;
        self.is_made = true;
        Ok(())
    }
}
