//! Conditions that compare a column with a value, decided on the bytes of a row.
//!
//! A scan checks them before anything else of the statement sees the row.
//!
//! **TEST-1** A test gives the answer of its condition: it refuses the rows for which the condition
//! is false or NULL. A condition stays with the others ([`RowTests::rest`]) if the types of its
//! sides do not compare as numbers of one kind, or as strings of one character set, or if its value
//! cannot be known before the first row without a warning or an error. An OR has a test if each of
//! its branches is made of conditions that have one.
//! **TEST-2** The tests come before the other conditions. So no condition of the filter may have an
//! effect, or depend on how often it is evaluated.
use super::env::Env;
use super::eval::{Eval, Scope};
use super::list_tests::ListTest;
use super::pace::BYTES_PER_STEP;
use super::text_tests::TextTest;
use crate::plan::{CompareAs, CompareOp, Expr, ExprKind};
use redolith_types::convert::to_datetime;
use redolith_types::{RowLayout, SqlType, TableDef, Value};

/// An interval of numbers in which the column's number lies, or outside of which.
#[derive(Clone, Copy, Debug)]
struct Test {
    column: usize,
    low: i128,
    high: i128,
    inside: bool,
}

/// The numbers of a column: its integers, its decimals without their point, its packed dates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    Integer,
    Decimal(u8),
    Date,
    DateTime,
}

/// The tests of a filter, and its other conditions.
pub struct RowTests<'p> {
    tests: Tests,
    /// How often the texts of a row are read.
    text_reads: usize,
    rest: Rest<'p>,
}
enum Rest<'p> {
    Whole(Option<&'p Expr>),
    Parts(Vec<&'p Expr>),
}
/// Tests all of which a row has to pass.
#[derive(Default)]
struct Tests {
    numbers: Vec<Test>,
    lists: Vec<ListTest>,
    texts: Vec<TextTest>,
    /// Of each OR its branches, one of which a row has to pass.
    ors: Vec<Vec<Tests>>,
}

/// The most tests outside of ORs, and in the branches of ORs: but for those of texts, they count as
/// one step for each row (PACE-3).
const MOST_TESTS: usize = 64;
const MOST_IN_ORS: usize = 64;
/// The most bytes of all texts that rows are compared with, which no account knows of (MEM-3).
const MOST_TEXT_BYTES: usize = 64 << 10;

impl<'p> RowTests<'p> {
    /// No tests: all conditions are left.
    pub fn none(filter: Option<&'p Expr>) -> RowTests<'p> {
        RowTests { tests: Tests::default(), text_reads: 0, rest: Rest::Whole(filter) }
    }
    /// The tests of `filter`, for the rows of source number `source`. Their lists have at most
    /// `members` values together.
    pub fn of(
        filter: Option<&'p Expr>,
        source: u16,
        def: &TableDef,
        members: usize,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> RowTests<'p> {
        let Some(filter) = filter.filter(|e| !e.any(&Expr::is_volatile_node)) else {
            return RowTests::none(filter);
        };
        let (in_ors, text_bytes) = (MOST_IN_ORS, MOST_TEXT_BYTES);
        let mut maker = Maker { source, def, members, in_ors, text_bytes, at, env };
        let mut tests = Tests::default();
        let mut outside = 0;
        let left = |condition: &&Expr| {
            let is_test = outside < MOST_TESTS && tests.add(condition, &mut maker, true);
            outside += usize::from(is_test);
            !is_test
        };
        let rest = parts_of_and(filter).iter().filter(left).collect();
        RowTests { text_reads: tests.text_reads(), tests, rest: Rest::Parts(rest) }
    }
    /// Whether a row passes the tests.
    #[inline]
    pub fn pass(&self, layout: &RowLayout, payload: &[u8]) -> bool {
        self.tests.pass(layout, payload)
    }
    /// The steps that the tests of a row with this many bytes take (PACE-3).
    #[inline]
    pub fn work(&self, bytes: usize) -> usize {
        1 + self.text_reads * bytes / BYTES_PER_STEP
    }
    /// The conditions that are left.
    pub fn rest(&self) -> &[&'p Expr] {
        match &self.rest {
            Rest::Whole(filter) => filter.as_slice(),
            Rest::Parts(parts) => parts,
        }
    }
}

fn parts_of_and(condition: &Expr) -> &[Expr] {
    match &condition.kind {
        ExprKind::And(parts) => parts,
        _ => std::slice::from_ref(condition),
    }
}

/// What tests are made of, and how many may still be made.
struct Maker<'m, 'e> {
    source: u16,
    def: &'m TableDef,
    members: usize,
    in_ors: usize,
    text_bytes: usize,
    at: Scope<'m>,
    env: &'m mut Env<'e>,
}

impl Tests {
    #[inline]
    fn pass(&self, layout: &RowLayout, payload: &[u8]) -> bool {
        self.numbers.iter().all(|test| test.passes(layout, payload))
            && self.lists.iter().all(|test| test.passes(layout, payload))
            && self.texts.iter().all(|test| test.passes(layout, payload))
            && self.ors.iter().all(|or| or.iter().any(|branch| branch.pass_branch(layout, payload)))
    }
    /// The same for the branch of an OR, which is not made part of the loop over the rows.
    #[inline(never)]
    fn pass_branch(&self, layout: &RowLayout, payload: &[u8]) -> bool {
        self.pass(layout, payload)
    }
    fn text_reads(&self) -> usize {
        let of_ors = self.ors.iter().flatten().map(Tests::text_reads);
        self.texts.iter().map(TextTest::reads).chain(of_ors).sum()
    }

    /// Adds the test of a condition, if it has one.
    fn add(&mut self, condition: &Expr, maker: &mut Maker<'_, '_>, with_ors: bool) -> bool {
        let Maker { source, def, at, .. } = *maker;
        if self.add_number(condition, source, def, at, maker.env) {
            return true;
        }
        if let Some(test) = ListTest::of(condition, source, def, maker.members, at, maker.env) {
            maker.members -= test.len();
            self.lists.push(test);
            return true;
        }
        if let Some(test) = TextTest::of(condition, source, def, at, maker.env)
            && let Some(left) = maker.text_bytes.checked_sub(test.bytes())
        {
            maker.text_bytes = left;
            self.texts.push(test);
            return true;
        }
        match &condition.kind {
            ExprKind::Or(branches) if with_ors => {
                let branches = branches.iter().map(|branch| Tests::of_branch(branch, maker));
                let branches: Option<Vec<Tests>> = branches.collect();
                branches.map(|branches| self.ors.push(branches)).is_some()
            }
            _ => false,
        }
    }
    /// The tests of a branch of an OR. None if one of its conditions has no test.
    fn of_branch(branch: &Expr, maker: &mut Maker<'_, '_>) -> Option<Tests> {
        let mut tests = Tests::default();
        for condition in parts_of_and(branch) {
            maker.in_ors = maker.in_ors.checked_sub(1)?;
            if !tests.add(condition, maker, false) {
                return None;
            }
        }
        Some(tests)
    }
    /// Adds the test of a condition on the number of a column, if it has one.
    fn add_number(
        &mut self,
        condition: &Expr,
        source: u16,
        def: &TableDef,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> bool {
        let column = |e: &Expr| e.column_of(source);
        match &condition.kind {
            ExprKind::Compare { op, how, sides } => {
                let (column, value, op) = match (column(&sides[0]), column(&sides[1])) {
                    (Some(column), None) => (column, &sides[1], *op),
                    (None, Some(column)) => (column, &sides[0], op.flipped()),
                    _ => return false,
                };
                let Some(numbers) = Numbers::of(&def.columns[column].ty, *how) else {
                    return false;
                };
                let Some(bound) = numbers.bound(value, at, env) else { return false };
                let Some(test) = Test::of(column, op, bound) else { return false };
                self.push(test);
            }
            ExprKind::Between { negated, how, args } => {
                let Some(column) = column(&args[0]) else { return false };
                let Some(numbers) = Numbers::of(&def.columns[column].ty, *how) else {
                    return false;
                };
                let low = numbers.bound(&args[1], at, env);
                let (Some(low), Some(high)) = (low, numbers.bound(&args[2], at, env)) else {
                    return false;
                };
                // A NULL does not decide NOT BETWEEN alone.
                if *negated && (low == Bound::Null || high == Bound::Null) {
                    return false;
                }
                let low = Test::of(column, CompareOp::GreaterEq, low);
                let (Some(low), Some(high)) = (low, Test::of(column, CompareOp::LessEq, high))
                else {
                    return false;
                };
                let both =
                    Test { high: high.high.min(low.high), low: low.low.max(high.low), ..low };
                self.push(Test { inside: !negated, ..both });
            }
            _ => return false,
        }
        true
    }
    /// Adds a test. Two intervals of one column are one.
    fn push(&mut self, test: Test) {
        let same = |t: &&mut Test| t.column == test.column && t.inside && test.inside;
        match self.numbers.iter_mut().find(same) {
            Some(known) => {
                (known.low, known.high) = (known.low.max(test.low), known.high.min(test.high));
            }
            None => self.numbers.push(test),
        }
    }
}

/// A value among the numbers of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The greatest number that is not above it, and whether they are equal.
    At(i128, bool),
    Null,
}

impl Numbers {
    /// The numbers as which a column is compared. None if it is compared in another way.
    pub fn of(ty: &SqlType, how: CompareAs) -> Option<Numbers> {
        match (ty, how) {
            (SqlType::Int { .. }, CompareAs::Int | CompareAs::Decimal) => Some(Numbers::Integer),
            // More digits than a number of 128 bits has.
            (SqlType::Decimal { precision: 38.., .. }, _) => None,
            (SqlType::Decimal { scale, .. }, CompareAs::Decimal) => Some(Numbers::Decimal(*scale)),
            (SqlType::Date, CompareAs::Date | CompareAs::DateTime) => Some(Numbers::Date),
            (SqlType::DateTime { .. }, CompareAs::DateTime) => Some(Numbers::DateTime),
            _ => None,
        }
    }

    /// The value of an expression that is the same for all rows. None if it is no such number.
    pub fn bound(self, e: &Expr, at: Scope<'_>, env: &mut Env<'_>) -> Option<Bound> {
        known(e, at, env, |value, eval| self.bound_of(value, eval.env))
    }
    /// The number of a column in a row; None for NULL.
    #[inline]
    pub fn get(layout: &RowLayout, payload: &[u8], column: usize) -> Option<i128> {
        Some(match layout.get(payload, column) {
            Value::Int(n) => n.into(),
            Value::UInt(n) => n.into(),
            Value::Decimal(d) => d.coefficient().unwrap_or(i128::MAX),
            Value::Date(d) => d.packed().into(),
            Value::DateTime(at) => at.packed().into(),
            _ => return None,
        })
    }
    pub fn bound_of(self, value: &Value<'_>, env: &mut Env<'_>) -> Option<Bound> {
        let scaled = |n: i128, power: u8| n.checked_mul(10i128.checked_pow(power.into())?);
        match (self, value) {
            (_, Value::Null) => Some(Bound::Null),
            (Numbers::Integer, Value::Int(n)) => Some(Bound::At((*n).into(), true)),
            (Numbers::Integer, Value::UInt(n)) => Some(Bound::At((*n).into(), true)),
            (Numbers::Decimal(scale), Value::Int(n)) => {
                Some(Bound::At(scaled((*n).into(), scale)?, true))
            }
            (Numbers::Decimal(scale), Value::UInt(n)) => {
                Some(Bound::At(scaled((*n).into(), scale)?, true))
            }
            (Numbers::Integer | Numbers::Decimal(_), Value::Decimal(d)) => {
                let scale = if let Numbers::Decimal(scale) = self { scale } else { 0 };
                let n = d.coefficient()?;
                if d.scale() <= scale {
                    return Some(Bound::At(scaled(n, scale - d.scale())?, true));
                }
                let unit = 10i128.checked_pow((d.scale() - scale).into())?;
                Some(Bound::At(n.div_euclid(unit), n.rem_euclid(unit) == 0))
            }
            (Numbers::Date, Value::Date(d)) => Some(Bound::At(d.packed().into(), true)),
            (Numbers::DateTime, Value::DateTime(at)) => Some(Bound::At(at.packed().into(), true)),
            (Numbers::Date, Value::DateTime(_) | Value::Bytes(_))
            | (Numbers::DateTime, Value::Date(_) | Value::Bytes(_)) => {
                let (today, zone) = (env.today(), env.settings.zone_offset_secs);
                // A text with something behind the date warns.
                let at = to_datetime(value, today, zone).filter(|at| !at.truncated)?.value;
                Some(match self {
                    Numbers::Date => Bound::At(at.date().packed().into(), at == at.date().at(0)),
                    _ => Bound::At(at.packed().into(), true),
                })
            }
            _ => None,
        }
    }
}

/// What `f` makes of the value of an expression that is the same for all rows (TEST-1).
pub fn known<T>(
    e: &Expr,
    at: Scope<'_>,
    env: &mut Env<'_>,
    f: impl FnOnce(&Value<'_>, &mut Eval<'_, '_, '_>) -> Option<T>,
) -> Option<T> {
    if !e.is_fixed() || e.any(&|e| matches!(e.kind, ExprKind::Subquery(_))) {
        return None;
    }
    let (warnings, mark) = (env.session.warnings.count(), env.held());
    let mut eval = Eval::new(at, env);
    let value = eval.eval(e);
    let made = value.ok().and_then(|value| f(&value, &mut eval));
    env.release_to(mark);
    if env.session.warnings.count() > warnings {
        // The condition warns again where it is evaluated.
        env.session.warnings.cut_to(warnings);
        return None;
    }
    made
}

impl Test {
    /// The numbers for which `column op bound` is true. None if the comparison is another one.
    fn of(column: usize, op: CompareOp, bound: Bound) -> Option<Test> {
        let test = |low, high| Some(Test { column, low, high, inside: true });
        let nothing = test(1, 0);
        let Bound::At(at, is_exact) = bound else {
            return if op == CompareOp::NullSafeEq { None } else { nothing };
        };
        match op {
            CompareOp::Eq if is_exact => test(at, at),
            CompareOp::Eq => nothing,
            CompareOp::NotEq => {
                let (low, high) = if is_exact { (at, at) } else { (1, 0) };
                Some(Test { column, low, high, inside: false })
            }
            CompareOp::Less if is_exact => match at.checked_sub(1) {
                Some(high) => test(i128::MIN, high),
                None => nothing,
            },
            CompareOp::Less | CompareOp::LessEq => test(i128::MIN, at),
            CompareOp::GreaterEq if is_exact => test(at, i128::MAX),
            CompareOp::Greater | CompareOp::GreaterEq => match at.checked_add(1) {
                Some(low) => test(low, i128::MAX),
                None => nothing,
            },
            CompareOp::NullSafeEq => None,
        }
    }
    #[inline]
    fn passes(&self, layout: &RowLayout, payload: &[u8]) -> bool {
        let Some(number) = Numbers::get(layout, payload, self.column) else { return false };
        (self.low <= number && number <= self.high) == self.inside
    }
}
