//! Subqueries: the tests of their rows.
use super::{Eval, Known, Scope};
use crate::error::{Result, SqlError};
use crate::exec::correlated::Answer;
use crate::exec::pace::LONG;
use crate::exec::probe_table::{Pushed, push_key};
use crate::exec::row_buffer::write;
use crate::exec::subquery::SubqueryResult;
use crate::plan::{CompareAs, CompareOp, Expr, ExprKind, HashProbe, Subquery, SubqueryTest};
use redolith_types::Value;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// The values that a subquery takes from outside.
type Taken<'v> = SmallVec<[Value<'v>; 4]>;

fn value_of(truth: Option<bool>) -> Value<'static> {
    truth.map_or(Value::Null, |t| Value::Int(t as i64))
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn subquery(&mut self, q: &'v Subquery) -> Result<Value<'v>> {
        if q.dependent {
            return self.dependent(q);
        }
        let result: &'v SubqueryResult = self
            .at
            .known
            .subqueries
            .get(q.body.slot as usize)
            .ok_or_else(|| SqlError::internal("a subquery was not run before its statement"))?;
        match &q.test {
            SubqueryTest::Scalar => result.value().map(Value::borrow),
            SubqueryTest::Exists => Ok(Value::Int(!result.rows.is_empty() as i64)),
            _ => Ok(value_of(self.tested(q, result)?)),
        }
    }

    /// A subquery that is run for each row (see [`crate::exec::correlated`]).
    fn dependent(&mut self, q: &'v Subquery) -> Result<Value<'v>> {
        let mut taken = Taken::new();
        for e in &q.outer {
            taken.push(self.eval(e)?);
        }
        let mut key = std::mem::take(&mut self.env.correlated.key);
        key.clear();
        let value = self.dependent_for(q, &taken, &mut key);
        if key.capacity() < LONG {
            self.env.correlated.key = key;
        }
        value
    }
    fn dependent_for(
        &mut self,
        q: &'v Subquery,
        taken: &[Value<'v>],
        key: &mut Vec<u8>,
    ) -> Result<Value<'v>> {
        if let Some(probe) = &q.body.probe
            && self.env.correlated.table(&q.body).is_some()
            && let Some(truth) = self.probe(q, probe, taken, key)?
        {
            self.goes_on(q);
            return Ok(value_of(truth));
        }
        key.clear();
        taken.iter().for_each(|v| write(v, key));
        let Some(answer) = self.env.correlated.answer(&q.body, key).cloned() else {
            return Err(self.env.correlated.ask(q, key, taken));
        };
        self.goes_on(q);
        match answer {
            Answer::Exists(exists) => Ok(Value::Int(exists as i64)),
            Answer::Value(value) => Ok(value),
            Answer::Rows(rows) => Ok(value_of(self.tested(q, &rows)?)),
        }
    }
    /// If the evaluation has begun again for this subquery, it has repeated its warnings so far.
    fn goes_on(&mut self, q: &Subquery) {
        if let Some(own) = self.env.correlated.repeated(&q.body) {
            self.env.session.warnings.cut_to(own);
        }
    }

    /// Answers EXISTS and IN from the hash table. The outer None says that the table cannot answer.
    fn probe(
        &mut self,
        q: &'v Subquery,
        probe: &'v HashProbe,
        taken: &[Value<'v>],
        key: &mut Vec<u8>,
    ) -> Result<Option<Option<bool>>> {
        let negated = matches!(q.test, SubqueryTest::In { negated: true, .. });
        let none = Ok(Some(Some(negated)));
        let known = Known::outside(taken);
        let at = Scope { known: &known, ..Scope::new(self.at.params) };
        if probe.condition.is_some() && !Eval::new(at, self.env).passes(probe.condition.as_ref())? {
            return none;
        }
        for (e, by) in &probe.keys {
            let pushed = match e.kind {
                ExprKind::Outer(n) => push_key(&taken[n as usize], *by, key),
                _ => push_key(&Eval::new(at, self.env).eval(e)?, *by, key),
            };
            match pushed {
                Pushed::Key => {}
                Pushed::Null => return none,
                Pushed::Other => return Ok(None),
            }
        }
        let (SubqueryTest::In { values, .. }, Some(by)) = (&q.test, probe.value) else {
            return Ok(self.env.correlated.table(&q.body).map(|table| Some(table.has(key))));
        };
        let (value, how) = &values[0];
        let (value, len) = (self.operand(*how, value)?, key.len());
        let pushed = push_key(&value, by, key);
        if pushed == Pushed::Other {
            return Ok(None);
        }
        let table = self.env.correlated.table(&q.body);
        Ok(table.map(|table| table.has_pair(key, len, pushed).map(|is_in| is_in != negated)))
    }

    /// IN and the comparisons with ANY and ALL.
    fn tested(&mut self, q: &'v Subquery, result: &SubqueryResult) -> Result<Option<bool>> {
        match &q.test {
            SubqueryTest::In { negated, values } => {
                let is_in = match &values[..] {
                    [(value, how)] => self.is_in_rows(value, *how, q, result)?,
                    _ => self.is_row_in(values, q, result)?,
                };
                Ok(is_in.map(|is_in| is_in != *negated))
            }
            SubqueryTest::Quantified { op, all, how, value } => {
                self.compares(*op, *all, *how, value, q, result)
            }
            SubqueryTest::Scalar | SubqueryTest::Exists => Ok(None),
        }
    }

    fn is_in_rows(
        &mut self,
        value: &'v Expr,
        how: CompareAs,
        q: &'v Subquery,
        result: &SubqueryResult,
    ) -> Result<Option<bool>> {
        let v = self.operand(how, value)?;
        if result.rows.is_empty() {
            return Ok(Some(false));
        }
        if v.is_null() {
            return Ok(None);
        }
        if let Some(members) = &result.members {
            let mut key = std::mem::take(&mut self.env.correlated.key);
            let decided = members.contains(&v, &mut key);
            self.env.correlated.key = key;
            if let Some(decided) = decided {
                return Ok(decided);
            }
        }
        let column = &q.body.plan.output[0];
        let mut unknown = false;
        for row in &result.rows {
            self.env.step()?;
            match self.order(how, (value, &v), (column, &row[0]))? {
                Some(Ordering::Equal) => return Ok(Some(true)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(false) })
    }

    /// `(a, b) IN (SELECT ..)`. A row is equal if all its values are; it is not if one is not; else
    /// it is unknown.
    fn is_row_in(
        &mut self,
        values: &'v [(Expr, CompareAs)],
        q: &'v Subquery,
        result: &SubqueryResult,
    ) -> Result<Option<bool>> {
        let mut given = Taken::new();
        for (value, how) in values {
            given.push(self.operand(*how, value)?);
        }
        let mut unknown = false;
        for row in &result.rows {
            let mut equal = Some(true);
            for (n, (value, how)) in values.iter().enumerate() {
                self.env.step()?;
                let column = &q.body.plan.output[n];
                match self.order(*how, (value, &given[n]), (column, &row[n]))? {
                    Some(Ordering::Equal) => {}
                    Some(_) => {
                        equal = Some(false);
                        break;
                    }
                    None => equal = None,
                }
            }
            match equal {
                Some(true) => return Ok(Some(true)),
                Some(false) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(false) })
    }

    /// `value op ANY (SELECT ..)` and the same with ALL: one row decides, or all do.
    fn compares(
        &mut self,
        op: CompareOp,
        all: bool,
        how: CompareAs,
        value: &'v Expr,
        q: &'v Subquery,
        result: &SubqueryResult,
    ) -> Result<Option<bool>> {
        let v = self.operand(how, value)?;
        let column = &q.body.plan.output[0];
        let mut unknown = false;
        for row in &result.rows {
            self.env.step()?;
            match self.order(how, (value, &v), (column, &row[0]))? {
                Some(order) if op.holds(order) != all => return Ok(Some(!all)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(all) })
    }
}
