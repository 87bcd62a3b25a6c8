//! Classes of columns that the conditions make equal: of `a.x = b.y AND b.y = c.z` follows `a.x =
//! c.z`. With it `a` and `c` can follow each other, without a product of all their rows.
//!
//! **JOIN-7** Only integer columns are in classes, because there equality is transitive, and only
//! those of sources that are in no outer join. A condition that follows stands beside the others,
//! at a source for which none of them names a source of the class before it.
use super::super::from::FromClause;
use crate::plan::{CompareAs, CompareOp, EqualBy, Expr, ExprKind};

/// The most columns of a class for which conditions are made, and the most columns of all classes.
const MOST_COLUMNS: usize = 8;
const MOST_OF_ALL: usize = 128;
/// The most conditions that are looked at: a statement may have very many.
const MOST_CONDITIONS: usize = 1000;

/// A source and its column.
type Place = (u16, u16);

#[derive(Default)]
pub(super) struct Classes {
    list: Vec<Vec<Place>>,
}

impl Classes {
    /// The classes of the columns that these conditions compare.
    pub fn of<'e>(from: &FromClause, conditions: impl Iterator<Item = &'e Expr>) -> Classes {
        let mut classes = Classes::default();
        let mut known = 0;
        for condition in conditions.take(MOST_CONDITIONS) {
            let Some([a, b]) = places(condition).filter(|_| known < MOST_OF_ALL) else { continue };
            if [a, b].iter().any(|(source, _)| from.sources[*source as usize].nest.is_some()) {
                continue;
            }
            let found = (classes.find(a), classes.find(b));
            known += usize::from(found.0.is_none()) + usize::from(found.1.is_none());
            match found {
                (Some(one), Some(other)) if one != other => {
                    let moved = classes.list.swap_remove(one.max(other));
                    classes.list[one.min(other)].extend(moved);
                }
                (Some(_), Some(_)) => {}
                (Some(class), None) => classes.list[class].push(b),
                (None, Some(class)) => classes.list[class].push(a),
                (None, None) => classes.list.push(vec![a, b]),
            }
        }
        classes
    }
    fn find(&self, place: Place) -> Option<usize> {
        self.list.iter().position(|class| class.contains(&place))
    }
    /// The class of a condition, if it is one of those that make the class.
    fn class_of(&self, condition: &Expr) -> Option<usize> {
        let [a, b] = places(condition)?;
        self.find(a).filter(|class| self.find(b) == Some(*class))
    }
    /// The class of a condition with the column of it that belongs to a source.
    pub fn class_at(&self, source: usize, condition: &Expr) -> Option<(usize, u16)> {
        let own = places(condition)?.into_iter().find(|(s, _)| usize::from(*s) == source)?;
        Some((self.class_of(condition)?, own.1))
    }

    /// The conditions that follow from `conditions` and are none of them.
    pub fn implied(&self, conditions: &[&Expr]) -> Vec<Expr> {
        let mut implied = Vec::new();
        let is_small = |class: &&Vec<Place>| (3..=MOST_COLUMNS).contains(&class.len());
        for class in self.list.iter().filter(is_small) {
            let own = |e: &&&Expr| places(e).is_some_and(|[a, _]| class.contains(&a));
            let own: Vec<&Expr> =
                conditions.iter().take(MOST_CONDITIONS).filter(own).copied().collect();
            for (n, a) in class.iter().enumerate() {
                for b in class[n + 1..].iter().filter(|b| a.0 != b.0) {
                    let is_given = |e: &&Expr| {
                        places(e).is_some_and(|sides| sides.contains(a) && sides.contains(b))
                    };
                    if !own.iter().any(is_given)
                        && let Some(condition) = equality(*a, *b, &own)
                    {
                        implied.push(condition);
                    }
                }
            }
        }
        implied
    }

    /// Of the conditions that follow, those that tell something in the order of the sources'
    /// numbers: one for each source for which no condition of `given` stands there.
    pub fn needed<'e>(
        from: &FromClause,
        given: impl Iterator<Item = &'e Expr> + Clone,
        mut implied: Vec<Expr>,
    ) -> Vec<Expr> {
        let classes = Classes::of(from, given.clone());
        let place = |e: &Expr| Some((classes.class_of(e)?, e.last_source()?));
        let mut there: Vec<(usize, u16)> = given.take(MOST_CONDITIONS).filter_map(place).collect();
        implied.retain(|e| match place(e) {
            Some(place) if !there.contains(&place) => {
                there.push(place);
                true
            }
            _ => false,
        });
        implied
    }
}

/// The columns of a comparison that may make a class.
fn places(condition: &Expr) -> Option<[Place; 2]> {
    let ExprKind::Compare { op: CompareOp::Eq, how, sides } = &condition.kind else { return None };
    if *how != CompareAs::Int {
        return None;
    }
    let place = |e: &Expr| match e.kind {
        ExprKind::Column { source, column } => Some((source, column)),
        _ => None,
    };
    let [a, b] = [place(&sides[0])?, place(&sides[1])?];
    let is_integer = EqualBy::of(*how, &sides[0].ty, &sides[1].ty) == Some(EqualBy::Int);
    (is_integer && a.0 != b.0).then_some([a, b])
}

/// `a = b`, of the parts of the conditions that name `a` and `b`.
fn equality(a: Place, b: Place, own: &[&Expr]) -> Option<Expr> {
    let find = |(source, column): Place| {
        own.iter().find_map(|e| {
            let ExprKind::Compare { sides, .. } = &e.kind else { return None };
            sides.iter().find(|side| side.column_of(source) == Some(column.into())).cloned()
        })
    };
    let (a, b) = (find(a)?, find(b)?);
    let mut made = own.first().copied()?.clone();
    made.ty = made.ty.nullable(a.ty.nullable || b.ty.nullable);
    let ExprKind::Compare { sides, .. } = &mut made.kind else { return None };
    **sides = [a, b];
    Some(made)
}
