//! An index that finds, among many expressions, the expression that is the same ([`Expr::same`])
//! without a comparison with each.
use super::{Expr, ExprKind};
use hashbrown::{DefaultHashBuilder, HashTable};
use redolith_types::Value;
use std::cell::Cell;
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem::discriminant;

/// The most nodes that go into an expression's hash, so that the cost of a hash is bounded. A
/// comparison tells apart the expressions that differ only in later nodes.
const HASHED_NODES: usize = 24;

/// Positions in a list that the caller keeps, by hash.
#[derive(Default)]
pub struct SameIndex {
    places: HashTable<(u64, u32)>,
    hasher: DefaultHashBuilder,
}

impl SameIndex {
    /// Indexes a list of expressions: each expression that equals no earlier expression. `count` as
    /// in [`SameIndex::find_counting`].
    pub fn of<E>(
        list: &[Expr],
        mut count: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<SameIndex, E> {
        let mut index = SameIndex::default();
        for (place, expr) in list.iter().enumerate() {
            if index.find_counting(expr, list, &mut count)?.is_none() {
                index.insert_expr(expr, place);
            }
        }
        Ok(index)
    }
    pub fn find_expr(&self, expr: &Expr, list: &[Expr]) -> Option<usize> {
        self.find_counted(expr, list, &mut 0)
    }
    /// The same. `compared` grows by the number of comparisons.
    pub fn find_counted(&self, expr: &Expr, list: &[Expr], compared: &mut usize) -> Option<usize> {
        let (hash, counted) = (self.hash((), [expr]), Cell::new(0));
        let found = self.find(hash, |place| {
            counted.set(counted.get() + 1);
            list[place].same(expr)
        });
        *compared += counted.get();
        found
    }
    /// The same. Where expressions begin alike, as many comparisons as there are expressions may be
    /// needed: `count` gets the number of nodes that were compared, and may refuse to go on.
    pub fn find_counting<E>(
        &self,
        expr: &Expr,
        list: &[Expr],
        count: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        let mut compared = 0;
        let found = self.find_counted(expr, list, &mut compared);
        if compared > 1 {
            count(compared * expr.bytes().div_ceil(size_of::<Expr>()))?;
        }
        Ok(found)
    }
    /// Adds an expression. An expression whose value may change from call to call equals nothing,
    /// not even itself, and is not added.
    pub fn insert_expr(&mut self, expr: &Expr, place: usize) {
        if expr.same(expr) {
            self.insert(self.hash((), [expr]), place);
        }
    }

    /// Removes the expression at a place.
    pub fn remove_expr(&mut self, expr: &Expr, place: usize) {
        let hash = self.hash((), [expr]);
        let is_it = |(h, at): &(u64, u32)| *h == hash && *at as usize == place;
        if let Ok(entry) = self.places.find_entry(hash, is_it) {
            entry.remove();
        }
    }

    /// The hash of a tag and expressions. Equal tags and the same expressions have equal hashes.
    pub fn hash<'e>(&self, tag: impl Hash, exprs: impl IntoIterator<Item = &'e Expr>) -> u64 {
        let (mut state, mut left) = (self.hasher.build_hasher(), HASHED_NODES);
        tag.hash(&mut state);
        exprs.into_iter().for_each(|e| add(e, &mut left, &mut state));
        state.finish()
    }
    pub fn find(&self, hash: u64, same: impl Fn(usize) -> bool) -> Option<usize> {
        let found = self.places.find(hash, |(h, place)| *h == hash && same(*place as usize));
        found.map(|(_, place)| *place as usize)
    }
    pub fn insert(&mut self, hash: u64, place: usize) {
        self.places.insert_unique(hash, (hash, place as u32), |(h, _)| *h);
    }
}

fn add(e: &Expr, left: &mut usize, state: &mut impl Hasher) {
    use ExprKind as E;
    if *left == 0 {
        return;
    }
    *left -= 1;
    discriminant(&e.kind).hash(state);
    match &e.kind {
        E::Literal(Value::Int(n)) => n.hash(state),
        E::Literal(Value::UInt(n)) => n.hash(state),
        E::Literal(Value::Double(n)) => n.to_bits().hash(state),
        E::Literal(Value::Decimal(n)) => n.hash(state),
        E::Literal(Value::Bytes(text)) => text.hash(state),
        E::Param(n) => n.hash(state),
        E::Column { source, column } => (source, column).hash(state),
        E::GroupKey(n) | E::Aggregate(n) | E::Window(n) | E::InsertedValue(n) | E::Outer(n) => {
            n.hash(state)
        }
        E::Subquery(q) => q.body.slot.hash(state),
        E::UserVariable { name, .. } => name.hash(state),
        E::SystemVariable { scope, name } => (scope, name).hash(state),
        E::Unary(op, _) => discriminant(op).hash(state),
        E::Arith { op, .. } => discriminant(op).hash(state),
        E::Compare { op, .. } => discriminant(op).hash(state),
        E::Call { function, .. } => function.hash(state),
        _ => {}
    }
    e.parts(&mut |part| add(part, left, state));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ArithOp, ExprType, Function};
    use std::convert::Infallible;

    fn column(n: u16) -> Expr {
        Expr::new(ExprKind::Column { source: 0, column: n }, ExprType::bigint(20))
    }
    fn plus(a: Expr, n: i64) -> Expr {
        let sides = Box::new([a, Expr::literal(Value::Int(n), ExprType::bigint(20))]);
        Expr::new(ExprKind::Arith { op: ArithOp::Add, sides }, ExprType::bigint(20))
    }

    #[test]
    fn the_first_that_is_the_same_is_found() {
        let random = Expr::new(
            ExprKind::Call { function: Function::Rand, args: Vec::new() },
            ExprType::double(),
        );
        let deep = |n| (0..100).fold(plus(column(1), n), plus);
        let list = vec![
            column(1),
            plus(column(1), 7),
            column(2),
            plus(column(1), 7),
            random.clone(),
            deep(1),
            deep(2),
        ];
        let Ok(index) = SameIndex::of(&list, |_| Ok::<_, Infallible>(()));
        for (expr, place) in [
            (column(2), Some(2)),
            (plus(column(1), 7), Some(1)),
            (plus(column(1), 8), None),
            (random, None),
            (deep(2), Some(6)),
            (deep(3), None),
        ] {
            assert_eq!(index.find_expr(&expr, &list), place, "{expr:?}");
        }
    }
}
