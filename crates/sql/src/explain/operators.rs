//! The operators of FORMAT=TREE: those that run, in MySQL's words, the outermost first.
use super::Meter;
use super::block::{Block, Body, Change, Explained, Nested, What, subqueries_in};
use super::estimate::Estimate;
use super::expr::{Names, Writer};
use super::place::{Outside, Place, Rows};
use super::profile::{Measured, Profile, Role};
use crate::error::Result;
use crate::plan::{Expr, Grouping, Limit, SelectPlan, SetKind, SortKey, WindowSort, WindowStage};
use std::collections::HashMap;

mod join;
mod scan;

/// The bytes that are paid for an operator beside its text.
const OPERATOR_BYTES: usize = 128;

pub(super) struct Operator {
    pub text: String,
    pub estimate: Option<Estimate>,
    /// What a profile has measured; None without one, and for operators that are not measured.
    pub measured: Option<Measured>,
    pub children: Vec<Operator>,
}
impl Operator {
    fn over(mut self, children: impl IntoIterator<Item = Operator>) -> Operator {
        self.children.extend(children);
        self
    }
}

/// The operators of a statement: the outermost, and those of subqueries in its select list.
pub(super) fn of(
    explained: &Explained<'_>,
    profile: Option<&Profile>,
    meter: &mut dyn Meter,
) -> Result<Vec<Operator>> {
    let mut b = Builder { ids: &explained.ids, profile, meter };
    match &explained.what {
        What::Select(block) => b.block(block, &Place::alone(Rows::Select(block.plan))),
        What::Insert { table, replaces, select } => {
            let verb = if *replaces { "Replace into " } else { "Insert into " };
            let children = match select {
                Some(block) => b.block(block, &Place::alone(Rows::Select(block.plan)))?,
                None => Vec::new(),
            };
            let text = b.text(verb, |w| {
                w.name(&table.def.name);
                Ok(())
            })?;
            Ok(vec![b.plain(text)?.over(children)])
        }
        What::Change(change) => b.change(change),
        What::Many { verb, many, block } => {
            let verb = if *verb == "UPDATE" { "Update " } else { "Delete from " };
            let tables = match &block.body {
                Body::Tables(tables) => &tables[..],
                _ => &[],
            };
            let text = b.text(verb, |w| {
                let targets = tables.iter().enumerate().filter(|(n, _)| many.changes(*n));
                for (n, (_, table)) in targets.enumerate() {
                    w.out.push_str(if n > 0 { ", " } else { "" });
                    w.name(table.alias);
                    w.out.push_str(" (buffered)");
                }
                Ok(())
            })?;
            let children = b.block(block, &Place::alone(Rows::Select(block.plan)))?;
            Ok(vec![b.plain(text)?.over(children)])
        }
    }
}

/// The subqueries of a block that no operator has yet.
type Pending<'a, 'p> = Vec<&'a Nested<'p>>;

struct Builder<'b, 'm> {
    ids: &'b HashMap<u16, i64>,
    profile: Option<&'b Profile>,
    meter: &'b mut (dyn Meter + 'm),
}

impl Builder<'_, '_> {
    fn plain(&mut self, text: impl Into<String>) -> Result<Operator> {
        let text = text.into();
        self.meter.pay(text.len() + OPERATOR_BYTES)?;
        Ok(Operator { text, estimate: None, measured: None, children: Vec::new() })
    }
    fn estimated(&mut self, text: impl Into<String>, estimate: Estimate) -> Result<Operator> {
        Ok(Operator { estimate: Some(estimate), ..self.plain(text)? })
    }
    /// `before` and what `f` writes.
    fn text(
        &mut self,
        before: &str,
        f: impl FnOnce(&mut Writer<'_, '_>) -> Result<()>,
    ) -> Result<String> {
        let mut writer = Writer::new(Names::Short, self.ids, self.meter);
        writer.out.push_str(before);
        f(&mut writer)?;
        Ok(writer.out)
    }
    /// Adds what was measured under a role. `place` is the part of the plan that has it.
    fn measured<T>(&self, operator: Operator, role: Role, place: &T) -> Operator {
        let measured = self.profile.map(|profile| profile.measured(role, place));
        Operator { measured, ..operator }
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Vec<Operator>> {
        let super::block::Reads::Table(access) = &change.table.reads else {
            unreachable!("UPDATE and DELETE change stored tables")
        };
        let place = Place::alone(Rows::Table(access));
        let verb = if change.verb == "UPDATE" { "Update " } else { "Delete from " };
        let text = self.text(verb, |w| {
            w.name(change.table.alias);
            w.out.push_str(if change.is_buffered { " (buffered)" } else { " (immediate)" });
            Ok(())
        })?;
        let mut pending: Pending<'_, '_> = change.subqueries.iter().collect();
        let mut inner = self.source(&change.table, &place, &mut pending)?;
        if !change.sort.keys.is_empty() {
            let exprs = &change.sort.exprs;
            inner = self.sort(exprs, &change.sort.keys, &Limit::default(), &place)?.over([inner]);
        }
        let rest = self.subqueries(pending, false, &place)?;
        Ok(vec![self.plain(text)?.over([inner]).over(rest)])
    }

    fn block(&mut self, block: &Block<'_>, place: &Place<'_, '_>) -> Result<Vec<Operator>> {
        let plan = block.plan;
        let mut pending: Pending<'_, '_> = block.subqueries.iter().collect();
        let mut top = match &block.body {
            Body::NoTable => {
                let one = Estimate { rows: 1.0, cost: 0.0 };
                self.estimated("Rows fetched before execution", one)?
            }
            Body::Tables(tables) => self.join(tables, plan, place, &mut pending)?,
            Body::Set { parts, recursion: Some(recursion), .. } => {
                let text = self.text("Materialize recursive CTE ", |w| {
                    w.name(&recursion.name);
                    w.out.push_str(if recursion.distinct { " with deduplication" } else { "" });
                    Ok(())
                })?;
                let (seed, members) = parts.split_at(1);
                let place = Place { recursion: Some(recursion), ..place.with(plan) };
                let seed = self.parts(seed, &place, None)?;
                let members = self.parts(members, &place, None)?;
                let repeat = self.plain("Repeat until convergence")?.over(members);
                self.plain(text)?.over(seed).over([repeat])
            }
            Body::Set { parts, keeps, .. } => self.set_operation(parts, *keeps, plan, place)?,
            Body::Windows { stage, inner } => self.windows(stage, inner, plan, place)?,
        };
        if let Some(condition) = &plan.condition {
            top = self.filter([condition], place, top, &mut pending)?;
        }
        if let Some(grouping) = &plan.grouping {
            top = self.aggregate(grouping, plan, place)?.over([top]);
            if !grouping.sorted && !grouping.keys.is_empty() {
                top = self.plain("Table scan on <temporary>")?.over([top]);
            }
        }
        if let Some(having) = &plan.having {
            let filter = self.filter([having], place, top, &mut pending)?;
            top = self.measured(filter, Role::Having, plan);
        }
        if plan.distinct && !matches!(block.body, Body::Set { .. }) {
            let kept = self.plain("Temporary table with deduplication")?.over([top]);
            let kept = self.measured(kept, Role::Distinct, plan);
            top = self.plain("Table scan on <temporary>")?.over([kept]);
        }
        if !plan.order.is_empty() {
            let sort = self.sort(&plan.output, &plan.order, &plan.limit, place)?.over([top]);
            top = self.measured(sort, Role::Sort, plan);
        }
        if !plan.limit.is_none() {
            let text = self.limit(&plan.limit, place)?;
            let rows = super::estimate::rows_of(block);
            let estimate = top.estimate.map(|below| Estimate { rows, ..below });
            let limit = Operator { estimate, ..self.plain(text)? };
            let below = top.measured;
            top = self.measured(limit.over([top]), Role::Top, plan);
            if let (Some(measured), Some(below)) = (&mut top.measured, below) {
                // The first row comes when the first row below it comes.
                measured.first = below.first;
                measured.loops_with_rows = below.loops_with_rows;
            }
        } else if let Some(profile) = self.profile {
            // The select list is evaluated by the outermost operator.
            let more = profile.measured(Role::Top, plan);
            match &mut top.measured {
                Some(measured) => measured.own += more.own,
                none => *none = Some(more),
            }
        }
        let (outputs, others) = pending.into_iter().partition(|nested| nested.in_output);
        top.children.extend(self.subqueries(others, false, place)?);
        let outputs = self.subqueries(outputs, true, place)?;
        Ok(std::iter::once(top).chain(outputs).collect())
    }

    /// `Filter: conditions`, with the operators of the subqueries in them.
    fn filter<'e>(
        &mut self,
        conditions: impl IntoIterator<Item = &'e Expr>,
        place: &Place<'_, '_>,
        below: Operator,
        pending: &mut Pending<'_, '_>,
    ) -> Result<Operator> {
        let conditions: Vec<&Expr> = conditions.into_iter().collect();
        let text = self.text("Filter: ", |w| w.all(conditions.iter().copied(), place))?;
        let own = subqueries_in(conditions.iter().copied(), pending);
        let share = super::estimate::share(conditions.iter().copied(), place);
        let estimate = below.estimate.map(|estimate| estimate.filtered(share));
        let subqueries = self.subqueries(own, false, place)?;
        let filter = Operator { estimate, ..self.plain(text)? };
        Ok(filter.over([below]).over(subqueries))
    }

    fn subqueries(
        &mut self,
        list: Pending<'_, '_>,
        in_output: bool,
        place: &Place<'_, '_>,
    ) -> Result<Vec<Operator>> {
        let mut operators = Vec::with_capacity(list.len());
        for nested in list {
            let query = nested.query;
            let when = match &*nested.block.kind {
                "UNCACHEABLE SUBQUERY" => "uncacheable",
                _ if query.dependent => "dependent",
                _ => "run only once",
            };
            let of = if in_output { "projection" } else { "condition" };
            let id = nested.block.id;
            let top = self.plain(format!("Select #{id} (subquery in {of}; {when})"))?;
            let outside = Some(Outside { taken: &query.outer, place });
            let within = Place { outside, ..place.with(nested.block.plan) };
            let children = self.block(&nested.block, &within)?;
            let made = nested.table.as_ref().filter(|table| {
                let profile = self.profile;
                profile.is_some_and(|p| p.measured(Role::Top, table.plan).loops > 0)
            });
            let table = match made {
                Some(block) => {
                    let within = Place { outside: None, ..place.with(block.plan) };
                    let rows = self.block(block, &within)?;
                    Some(self.plain("Hash for all rows of the outer query")?.over(rows))
                }
                None => None,
            };
            operators.push(top.over(children).over(table));
        }
        Ok(operators)
    }

    fn parts(
        &mut self,
        parts: &[(SetKind, Block<'_>)],
        place: &Place<'_, '_>,
        above: Option<&str>,
    ) -> Result<Vec<Operator>> {
        let mut operators = Vec::new();
        for (_, part) in parts {
            let mut below = self.block(part, &place.with(part.plan))?;
            if let Some(above) = above {
                below = vec![self.plain(above)?.over(below)];
            }
            operators.extend(below);
        }
        Ok(operators)
    }
    fn set_operation(
        &mut self,
        parts: &[(SetKind, Block<'_>)],
        keeps: bool,
        plan: &SelectPlan,
        place: &Place<'_, '_>,
    ) -> Result<Operator> {
        let last = parts.last().map_or(SetKind::Union, |(kind, _)| *kind);
        let all_unions = parts.iter().all(|(kind, _)| *kind == SetKind::Union);
        if all_unions && !plan.distinct {
            let parts = self.parts(parts, place, Some("Stream results"))?;
            return Ok(self.plain("Append")?.over(parts));
        }
        debug_assert!(keeps, "what is not kept is a UNION ALL");
        let word = last.word();
        let name = format!("{}{}", &word[..1], word[1..].to_lowercase());
        let parts = self.parts(parts, place, None)?;
        let kept = self.plain(format!("{name} materialize with deduplication"))?.over(parts);
        let kept = match plan.distinct {
            true => self.measured(kept, Role::Distinct, plan),
            false => self.measured(kept, Role::Made, &plan.sources[0]),
        };
        let scan = format!("Table scan on <{} temporary>", word.to_lowercase());
        Ok(self.plain(scan)?.over([kept]))
    }

    fn windows(
        &mut self,
        stage: &WindowStage,
        inner: &Block<'_>,
        plan: &SelectPlan,
        place: &Place<'_, '_>,
    ) -> Result<Operator> {
        let within = place.with(&stage.inner);
        let below = self.block(inner, &within)?;
        let mut below = below.into_iter();
        let mut top = below.next().expect("a block has an operator");
        // What the inner SELECT projects are inputs of the windows.
        top.children.extend(below);
        for sort in &stage.sorts {
            top = self.window_sort(stage, sort, &within, top)?;
            let text = self.text("Window aggregate with buffering: ", |w| {
                for (n, call) in sort.calls.iter().enumerate() {
                    w.out.push_str(if n > 0 { ", " } else { "" });
                    w.window(stage, sort, call, place)?;
                }
                Ok(())
            })?;
            top = self.plain(text)?.over([top]);
        }
        if !stage.sorts.is_empty() {
            top = self.measured(top, Role::Made, &plan.sources[0]);
        }
        Ok(top)
    }
    fn window_sort(
        &mut self,
        stage: &WindowStage,
        sort: &WindowSort,
        within: &Place<'_, '_>,
        below: Operator,
    ) -> Result<Operator> {
        let output = |n: u16| stage.inner.output.get(n as usize);
        let partition = sort.partition.iter().filter_map(|n| Some((output(*n)?, false)));
        let order = sort.order.iter().filter_map(|k| Some((output(k.output)?, k.descending)));
        let mut keys = partition.chain(order).peekable();
        if keys.peek().is_none() {
            return Ok(below);
        }
        let text = self.text("Sort: ", |w| w.keys(keys, within))?;
        Ok(self.plain(text)?.over([below]))
    }

    fn sort(
        &mut self,
        exprs: &[Expr],
        keys: &[SortKey],
        limit: &Limit,
        place: &Place<'_, '_>,
    ) -> Result<Operator> {
        let key = |k: &SortKey| Some((exprs.get(k.output as usize)?, k.descending));
        let text = self.text("Sort: ", |w| {
            w.keys(keys.iter().filter_map(key), place)?;
            if let Some(count) = &limit.count {
                w.out.push_str(", limit input to ");
                w.expr(count, place)?;
                if let Some(offset) = &limit.offset {
                    w.out.push('+');
                    w.expr(offset, place)?;
                }
                w.out.push_str(" row(s) per chunk");
            }
            Ok(())
        })?;
        self.plain(text)
    }
    fn limit(&mut self, limit: &Limit, place: &Place<'_, '_>) -> Result<String> {
        let before = if limit.offset.is_some() { "Limit/Offset: " } else { "Limit: " };
        self.text(before, |w| {
            match &limit.count {
                Some(count) => w.expr(count, place)?,
                None => w.out.push_str("all"),
            }
            if let Some(offset) = &limit.offset {
                w.out.push('/');
                w.expr(offset, place)?;
            }
            w.out.push_str(" row(s)");
            Ok(())
        })
    }

    fn aggregate(
        &mut self,
        grouping: &Grouping,
        plan: &SelectPlan,
        place: &Place<'_, '_>,
    ) -> Result<Operator> {
        let aggregates = &grouping.aggregates;
        let text = if !grouping.keys.is_empty() && !grouping.sorted {
            let rollup = if grouping.rollup { " with rollup" } else { "" };
            format!("Aggregate using temporary table{rollup}")
        } else if aggregates.is_empty() {
            "Group (no aggregates)".to_string()
        } else {
            let before = match (grouping.keys.is_empty(), grouping.rollup) {
                (true, _) => "Aggregate: ",
                (false, true) => "Group aggregate with rollup: ",
                (false, false) => "Group aggregate: ",
            };
            self.text(before, |w| {
                for (n, call) in aggregates.iter().enumerate() {
                    w.out.push_str(if n > 0 { ", " } else { "" });
                    w.aggregate(call, place)?;
                }
                Ok(())
            })?
        };
        let operator = self.plain(text)?;
        Ok(self.measured(operator, Role::Group, plan))
    }
}
