//! The operators of a join: its nested loops from the outermost to the innermost, and its hash
//! tables.
use super::super::block::{Reads, Table};
use super::super::estimate;
use super::super::expr::Writer;
use super::super::place::Place;
use super::super::profile::Role;
use super::{Builder, Operator, Pending};
use crate::bind::hash_key;
use crate::error::Result;
use crate::plan::{Expr, ExprKind, HashLookup, SelectPlan};

impl Builder<'_, '_> {
    pub(super) fn join<'a, 'p>(
        &mut self,
        tables: &'a [Table<'p>],
        plan: &'a SelectPlan,
        place: &'a Place<'a, 'p>,
        pending: &mut Pending<'a, 'p>,
    ) -> Result<Operator> {
        let mut join = Join { tables, plan, place, pending };
        self.loops(&mut join, 0, tables.len() - 1, None)
    }

    /// The sources `first..=last`, those of one nest or of the whole FROM clause (SEL-5).
    fn loops(
        &mut self,
        join: &mut Join<'_, '_, '_>,
        first: usize,
        last: usize,
        around: Option<u16>,
    ) -> Result<Operator> {
        let mut outer: Option<Operator> = None;
        let mut at = first;
        while at <= last {
            let nests = join.plan.nests.iter().enumerate();
            let begins = nests.map(|(n, nest)| (n as u16, nest)).find(|(_, nest)| {
                nest.first as usize == at && nest.parent == around && outer.is_some()
            });
            outer = Some(match (outer, begins) {
                (None, _) => self.inner(join, at)?,
                (Some(outer), Some((n, nest))) => {
                    at = nest.last as usize;
                    let left = match join.tables[at].lookup {
                        Some(lookup) if nest.first == nest.last && self.is_hashed(join, at) => {
                            self.hash_join(join, at, lookup, outer, "Left hash join")?
                        }
                        _ => {
                            let inner = self.loops(join, nest.first as usize, at, Some(n))?;
                            self.nested(join, at, "Nested loop left join", outer, inner)?
                        }
                    };
                    let left = self.measured(left, Role::Nest, nest);
                    match &nest.after {
                        Some(after) => {
                            let filter = self.filter([after], join.place, left, join.pending)?;
                            self.measured(filter, Role::After, nest)
                        }
                        None => left,
                    }
                }
                (Some(outer), None) => {
                    let joined = match join.tables[at].lookup {
                        Some(lookup) if self.is_hashed(join, at) => {
                            self.hash_join(join, at, lookup, outer, "Inner hash join")?
                        }
                        _ => {
                            let inner = self.inner(join, at)?;
                            self.nested(join, at, "Nested loop inner join", outer, inner)?
                        }
                    };
                    self.measured(joined, Role::Join, &join.plan.sources[at])
                }
            });
            at += 1;
        }
        Ok(outer.expect("a nest has sources"))
    }

    /// Whether a source with a lookup has a hash table: a run may have taken an index instead.
    fn is_hashed(&self, join: &Join<'_, '_, '_>, at: usize) -> bool {
        let source = &join.plan.sources[at];
        self.profile.is_none_or(|profile| profile.measured(Role::ByIndex, source).loops == 0)
    }

    fn nested(
        &mut self,
        join: &Join<'_, '_, '_>,
        at: usize,
        text: &str,
        outer: Operator,
        inner: Operator,
    ) -> Result<Operator> {
        let estimate = join.tables[at].prefix;
        Ok(self.estimated(text, estimate)?.over([outer, inner]))
    }

    /// A source that is no inner side of a hash join.
    fn inner(&mut self, join: &mut Join<'_, '_, '_>, at: usize) -> Result<Operator> {
        let (table, place) = (&join.tables[at], join.place);
        let Some(lookup) = table.lookup else { return self.source(table, place, join.pending) };
        match &lookup.instead {
            Some(access) if !self.is_hashed(join, at) => {
                return self.by_index(table, access, place, join.pending);
            }
            _ => {}
        }
        // The first source of several on the inner side of an outer join.
        let build = self.build(join, at, lookup)?;
        let text = self.text("Hash lookup on ", |w| {
            w.name(table.alias);
            w.out.push_str(" (");
            w.hash_keys(lookup, place)?;
            w.out.push(')');
            Ok(())
        })?;
        let found = self.plain(text)?.over([build]);
        let rest = extra_conditions(join, at);
        if rest.is_empty() {
            return Ok(self.measured(found, Role::Level, &join.plan.sources[at]));
        }
        let filter = self.filter(rest, place, found, join.pending)?;
        Ok(self.measured(filter, Role::Level, &join.plan.sources[at]))
    }

    fn hash_join(
        &mut self,
        join: &mut Join<'_, '_, '_>,
        at: usize,
        lookup: &HashLookup,
        outer: Operator,
        words: &str,
    ) -> Result<Operator> {
        let (table, place) = (&join.tables[at], join.place);
        let build = self.build(join, at, lookup)?;
        let rest = extra_conditions(join, at);
        let text = self.text(words, |w| {
            w.out.push_str(" (");
            w.hash_keys(lookup, place)?;
            w.out.push(')');
            if !rest.is_empty() {
                w.out.push_str(", extra conditions: ");
                w.all(rest.iter().copied(), place)?;
            }
            Ok(())
        })?;
        Ok(self.estimated(text, table.prefix)?.over([outer, build]))
    }
    /// The rows that go into a hash table.
    fn build(
        &mut self,
        join: &mut Join<'_, '_, '_>,
        at: usize,
        lookup: &HashLookup,
    ) -> Result<Operator> {
        let (table, place) = (&join.tables[at], join.place);
        let mut rows = self.scan(table, place)?;
        if let Some(own) = &lookup.own {
            rows = self.filter([own], place, rows, join.pending)?;
            rows.estimate = Some(table.scan.filtered(estimate::share([own], place)));
            rows = self.measured(rows, Role::Built, &join.plan.sources[at]);
        }
        Ok(self.plain("Hash")?.over([rows]))
    }
}

struct Join<'a, 'p, 'n> {
    tables: &'a [Table<'p>],
    plan: &'a SelectPlan,
    place: &'a Place<'a, 'p>,
    pending: &'n mut Pending<'a, 'p>,
}

impl Writer<'_, '_> {
    /// `b.x = a.x), (b.y = a.y`: the keys of a hash table, without the outermost parentheses.
    fn hash_keys(&mut self, lookup: &HashLookup, place: &Place<'_, '_>) -> Result<()> {
        for (n, key) in lookup.keys.iter().enumerate() {
            self.out.push_str(if n > 0 { "), (" } else { "" });
            self.expr(&key.own, place)?;
            self.out.push_str(" = ");
            self.expr(&key.before, place)?;
        }
        Ok(())
    }
}

/// The conditions of a source with a hash table that are checked for each row that it finds: those
/// that are no keys.
fn extra_conditions<'p>(join: &Join<'_, 'p, '_>, at: usize) -> Vec<&'p Expr> {
    let table = &join.tables[at];
    let own = match &table.reads {
        Reads::Table(access) => access.filter.as_ref(),
        _ => None,
    };
    let mut rest = Vec::new();
    for condition in own.into_iter().chain(table.source.and_then(|s| s.filter.as_ref())) {
        match &condition.kind {
            ExprKind::And(parts) => rest.extend(parts),
            _ => rest.push(condition),
        }
    }
    rest.retain(|e| hash_key(at as u16, e).is_none());
    rest
}
