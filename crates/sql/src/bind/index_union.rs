//! Several indexes for one OR, each for the branches that it finds the rows of (PATH-8).
use super::access_path::{Allowed, Search, row_cost};
use super::columns_read::IndexSet;
use super::range::{Finder, IndexRanges, conjuncts_of};
use crate::plan::{Expr, ExprKind, UnionPart};
use crate::table_info::TableInfo;
use redolith_engine::dict::estimate::Statistics;

/// Longer ORs are left to scans, whose work is not the product of branches and indexes.
const MOST_BRANCHES: usize = 64;

/// The ranges of an OR's branches.
pub(super) struct IndexUnion {
    pub parts: Vec<UnionPart>,
    /// The memory of the ranges' values.
    pub bytes: usize,
    /// The cost by the rules, and by the table's statistics if they are known.
    pub cost: f64,
    pub known_cost: Option<f64>,
}

/// The best index of each branch, for the first OR whose branches all have one and need several.
pub(super) fn find(
    table: &TableInfo,
    allowed: &Allowed,
    finder: &Finder<'_>,
    conjuncts: &[Expr],
    known: Option<&Statistics>,
) -> Option<IndexUnion> {
    conjuncts.iter().find_map(|conjunct| {
        let ExprKind::Or(branches) = &conjunct.kind else { return None };
        if branches.len() > MOST_BRANCHES {
            return None;
        }
        let mut union =
            IndexUnion { parts: Vec::new(), bytes: 0, cost: 0.0, known_cost: known.map(|_| 0.0) };
        for branch in branches {
            union.add(best_index(table, allowed, finder, branch, known)?);
        }
        (union.parts.len() > 1).then_some(union)
    })
}

/// The ranges of an index for a branch.
struct Branch {
    index: usize,
    found: IndexRanges,
    cost: f64,
    known_cost: Option<f64>,
}

fn best_index(
    table: &TableInfo,
    allowed: &Allowed,
    finder: &Finder<'_>,
    branch: &Expr,
    known: Option<&Statistics>,
) -> Option<Branch> {
    let mut conditions = Vec::new();
    conjuncts_of(branch, &mut conditions);
    let tests = finder.tests(&conditions);
    let mut best: Option<Branch> = None;
    for &index in &allowed.search {
        let Some(found) = finder.ranges(&table.def.indexes[index], &conditions, &tests) else {
            continue;
        };
        let search = Search::of(&table.def.indexes[index], &found);
        let row = row_cost(&table.def, IndexSet::NONE, index);
        let known_cost = known.map(|known| search.known_rows(index, known) * row);
        let it = Branch { index, found, cost: search.rows() * row, known_cost };
        let cost = |branch: &Branch| branch.known_cost.unwrap_or(branch.cost);
        if best.as_ref().is_none_or(|best| cost(&it) < cost(best)) {
            best = Some(it);
        }
    }
    best
}

impl IndexUnion {
    fn add(&mut self, branch: Branch) {
        let Branch { index, found, cost, known_cost } = branch;
        self.bytes += found.bytes;
        self.cost += cost;
        self.known_cost = self.known_cost.zip(known_cost).map(|(a, b)| a + b);
        match self.parts.iter_mut().find(|part| part.index == index) {
            Some(part) => part.ranges.extend(found.ranges),
            None => self.parts.push(UnionPart { index, ranges: found.ranges }),
        }
    }
}
