//! Which columns have one value in all rows of a group: ONLY_FULL_GROUP_BY allows them beside
//! aggregates. They follow from the group's keys, as in MySQL's functional dependences:
//!
//! **FD-1** By `a = b` in WHERE and in ON of an inner join, each side follows from the other, and a
//! column that equals a constant is given.
//! **FD-2** ON of an outer join only says something about its inner side. What the inner side has
//! from outside, or from constants, is there in rows of NULLs no more. So it follows only if all
//! rows of the group have the row of NULLs or none has: if all that ON reads from outside is given.
//! **FD-3** All columns of a source follow from a unique key without NULL, and those of a derived
//! table also from the keys of its own groups.
use super::from::{FromClause, Raw, RawNest};
use super::scope::Scope;
use super::select::RawKind;
use crate::plan::{CompareOp, Expr, ExprKind, SelectPlan, SourceKind};
use crate::table_info::TableInfo;
use redolith_types::IndexDef;
use std::collections::{HashMap, HashSet};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fact {
    /// The column of the source has one value in all rows of a group.
    Column(u16, u16),
    /// All columns of the source have.
    Source(u16),
    /// In a group, a row of NULLs stands for the nest in all rows or in none.
    Nest(u16),
}

/// The columns that have one value in all rows of a group.
pub(super) struct Determined(HashSet<Fact>);
impl Determined {
    /// The columns that follow from the group's keys, the parts of WHERE and the joins.
    pub fn of(keys: &[Expr], conjuncts: &[Expr], from: &FromClause, scope: &Scope) -> Determined {
        let mut rules = Rules::default();
        for (source, column) in keys.iter().filter_map(column_of) {
            rules.add([], Fact::Column(source, column));
        }
        conjuncts.iter().chain(&from.on).for_each(|e| rules.add_equality(e, None));
        for (n, nest) in from.nests.iter().enumerate() {
            let n = n as u16;
            nest.on.iter().for_each(|e| rules.add_equality(e, Some((n, nest))));
            rules.add_nest(n, nest, from);
        }
        for (s, (raw, named)) in from.sources.iter().zip(&scope.sources).enumerate() {
            let keys = match (&raw.kind, &named.table) {
                (RawKind::Derived(plan), _) => keys_of_derived(plan, raw),
                (_, Some(table)) => unique_keys(table).collect(),
                _ => Vec::new(),
            };
            for key in keys {
                let columns = key.into_iter().map(|column| Fact::Column(s as u16, column as u16));
                rules.add(columns, Fact::Source(s as u16));
            }
        }
        Determined(rules.conclusions())
    }
    /// Whether a column of a source is one of them.
    pub fn has(&self, source: u16, column: u16) -> bool {
        self.0.contains(&Fact::Column(source, column)) || self.0.contains(&Fact::Source(source))
    }
}

/// Facts that follow from others. The time to find them is that to read the rules.
#[derive(Default)]
struct Rules {
    /// The conclusion of each rule, and the number of its premises that are not known.
    list: Vec<(Fact, usize)>,
    /// For each fact the rules of which it is a premise.
    uses: HashMap<Fact, Vec<usize>>,
    /// Facts that are known now.
    new: Vec<Fact>,
}
impl Rules {
    fn add(&mut self, premises: impl IntoIterator<Item = Fact>, conclusion: Fact) {
        let (rule, mut count) = (self.list.len(), 0);
        for premise in premises {
            self.uses.entry(premise).or_default().push(rule);
            count += 1;
        }
        self.list.push((conclusion, count));
        if count == 0 {
            self.new.push(conclusion);
        }
    }

    /// A condition of WHERE, of inner joins or of a nest (FD-1, FD-2).
    fn add_equality(&mut self, condition: &Expr, nest: Option<(u16, &RawNest)>) {
        let ExprKind::Compare { op: CompareOp::Eq, sides, .. } = &condition.kind else { return };
        let is_inside = |source| nest.is_none_or(|(_, nest)| nest.has(source));
        for (side, other) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
            let Some((source, column)) = column_of(side).filter(|(s, _)| is_inside(*s)) else {
                continue;
            };
            let from = column_of(other);
            if from.is_none() && !other.is_fixed() {
                continue;
            }
            let from_outside = from.is_none_or(|(source, _)| !is_inside(source));
            let nest = nest.filter(|_| from_outside).map(|(n, _)| Fact::Nest(n));
            let from = from.map(|(source, column)| Fact::Column(source, column));
            self.add(from.into_iter().chain(nest), Fact::Column(source, column));
        }
    }

    /// What says whether a row of NULLs stands for a nest (FD-2).
    fn add_nest(&mut self, n: u16, nest: &RawNest, from: &FromClause) {
        let sources = &from.sources[nest.first as usize..=nest.last as usize];
        let taken = sources.iter().flat_map(|raw| match &raw.kind {
            RawKind::Lateral(_, outer) => &outer[..],
            _ => &[],
        });
        // The rows of a lateral derived table may be made several times for a group.
        let mut is_volatile = sources
            .iter()
            .any(|raw| matches!(&raw.kind, RawKind::Lateral(plan, _) if plan.is_volatile()));
        let mut premises = Vec::new();
        premises.extend(nest.parent.map(Fact::Nest));
        for e in nest.on.iter().chain(taken) {
            e.walk(&mut |e| {
                is_volatile |= e.is_volatile_node();
                let outside = column_of(e).filter(|(source, _)| !nest.has(*source));
                premises.extend(outside.map(|(source, column)| Fact::Column(source, column)));
            });
        }
        if !is_volatile {
            self.add(premises, Fact::Nest(n));
        }
    }

    /// All that follows.
    fn conclusions(mut self) -> HashSet<Fact> {
        let premises: Vec<Fact> = self.uses.keys().copied().collect();
        for premise in premises {
            if let Fact::Column(source, _) = premise {
                self.add([Fact::Source(source)], premise);
            }
        }
        let mut known = HashSet::new();
        while let Some(fact) = self.new.pop() {
            if !known.insert(fact) {
                continue;
            }
            for rule in self.uses.remove(&fact).into_iter().flatten() {
                let (conclusion, missing) = &mut self.list[rule];
                *missing -= 1;
                if *missing == 0 {
                    self.new.push(*conclusion);
                }
            }
        }
        known
    }
}

/// The columns of each unique key without NULL.
fn unique_keys(table: &TableInfo) -> impl Iterator<Item = Vec<usize>> {
    let columns = &table.def.columns;
    let unique = table.def.indexes.iter().filter(|index| index.unique);
    let is_whole = |index: &&IndexDef| {
        index.columns.iter().all(|c| c.prefix.is_none() && !columns[c.column].nullable)
    };
    unique.filter(is_whole).map(|index| index.columns.iter().map(|c| c.column).collect())
}

/// The keys of the rows of a derived table (FD-3): those of its groups, or of its only table.
fn keys_of_derived(plan: &SelectPlan, raw: &Raw) -> Vec<Vec<usize>> {
    let output = &plan.output[..plan.visible];
    match (&plan.grouping, &plan.sources[..]) {
        (Some(grouping), _) if !grouping.rollup => {
            let mut places = vec![None; grouping.keys.len()];
            for (column, e) in output.iter().enumerate() {
                // A row of NULLs must not look like a row of the table.
                let is_sure = raw.nest.is_none() || !e.ty.nullable;
                if let ExprKind::GroupKey(key) = e.kind
                    && is_sure
                {
                    places[key as usize] = Some(column);
                }
            }
            let is_sure = raw.nest.is_none() || !places.is_empty();
            let key: Option<Vec<usize>> = places.into_iter().collect();
            key.filter(|_| is_sure).into_iter().collect()
        }
        (None, [only]) => {
            let SourceKind::Table(access) = &only.kind else { return Vec::new() };
            let mut places = HashMap::new();
            for (place, e) in output.iter().enumerate() {
                if let Some((_, column)) = column_of(e) {
                    places.insert(column as usize, place);
                }
            }
            if output.iter().any(|e| e.any(&Expr::is_volatile_node)) {
                return Vec::new();
            }
            let place = |column: &usize| places.get(column).copied();
            unique_keys(&access.table).filter_map(|key| key.iter().map(place).collect()).collect()
        }
        _ => Vec::new(),
    }
}

fn column_of(e: &Expr) -> Option<(u16, u16)> {
    match e.kind {
        ExprKind::Column { source, column } => Some((source, column)),
        _ => None,
    }
}
