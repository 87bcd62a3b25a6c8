//! FORMAT=JSON: MySQL's document of version 1.
use super::Meter;
use super::block::{Block, Body, Change, Explained, Nested, Reads, Table, What, subqueries_in};
use super::estimate;
use super::expr::{Names, Writer, window_name};
use super::place::{Outside, Place, Rows};
use crate::error::Result;
use crate::plan::{Covering, Expr, SetKind, TableAccess, WindowStage};
use document::{Json, Members};
use std::collections::HashMap;

mod document;

/// The approximate bytes of a block and of a table.
const PART_BYTES: usize = 1024;

pub(super) fn text(explained: &Explained<'_>, meter: &mut dyn Meter) -> Result<Vec<u8>> {
    let mut d = Describer { ids: &explained.ids, meter };
    let block = match &explained.what {
        What::Select(block) => d.query_block(block, &Place::alone(Rows::Select(block.plan)))?,
        What::Insert { table, replaces, select } => {
            let mut target = Members::default();
            target.push(if *replaces { "replace" } else { "insert" }, Json::Bool(true));
            target.push("table_name", Json::text(&table.def.name));
            target.push("access_type", Json::text("ALL"));
            let mut block = Members::default();
            block.push("select_id", Json::Number(1));
            block.push("table", target.object());
            if let Some(select) = select {
                let place = Place::alone(Rows::Select(select.plan));
                block.push("insert_from", d.members(select, &place)?.object());
            }
            block.object()
        }
        What::Change(change) => d.change(change)?,
        What::Many { verb, many, block } => {
            let key = if *verb == "UPDATE" { "update" } else { "delete" };
            let place = Place::alone(Rows::Select(block.plan));
            d.block_of(block, &place, &|n| many.changes(n).then_some(key))?.object()
        }
    };
    let mut whole = Members::default();
    whole.push("query_block", block);
    document::text(&whole.object(), meter)
}

struct Describer<'d, 'm> {
    ids: &'d HashMap<u16, i64>,
    meter: &'d mut (dyn Meter + 'm),
}

fn number(n: f64) -> Json {
    Json::text(&format!("{n:.2}"))
}

impl Describer<'_, '_> {
    fn condition<'e>(
        &mut self,
        conditions: impl Iterator<Item = &'e Expr>,
        place: &Place<'_, '_>,
    ) -> Result<Option<Json>> {
        let conditions: Vec<&Expr> = conditions.collect();
        if conditions.is_empty() {
            return Ok(None);
        }
        let mut writer = Writer::new(Names::Full, self.ids, self.meter);
        writer.all(conditions, place)?;
        Ok(Some(Json::Text(writer.out)))
    }

    fn names<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> Result<Json> {
        let mut list = Vec::new();
        for name in names {
            self.meter.pay(size_of::<Json>() + name.len())?;
            list.push(Json::text(name));
        }
        Ok(Json::List(list))
    }

    fn query_block(&mut self, block: &Block<'_>, place: &Place<'_, '_>) -> Result<Json> {
        Ok(self.members(block, place)?.object())
    }
    fn members(&mut self, block: &Block<'_>, place: &Place<'_, '_>) -> Result<Members> {
        self.block_of(block, place, &|_| None)
    }
    /// `changed` names what the statement does to the tables that it changes.
    fn block_of(
        &mut self,
        block: &Block<'_>,
        place: &Place<'_, '_>,
        changed: &dyn Fn(usize) -> Option<&'static str>,
    ) -> Result<Members> {
        self.meter.pay(PART_BYTES)?;
        let plan = block.plan;
        let mut pending: Vec<&Nested<'_>> = block.subqueries.iter().collect();
        let mut out = Members::default();
        if !matches!(block.body, Body::Set { .. }) {
            out.push("select_id", Json::Number(block.id));
            let mut cost = Members::default();
            cost.push("query_cost", number(estimate::cost_of(block)));
            out.push("cost_info", cost.object());
        }
        let mut inner = self.body(block, place, changed, &mut pending)?;
        if let Some(grouping) = &plan.grouping
            && !grouping.keys.is_empty()
        {
            let mut around = Members::default();
            around.push("using_temporary_table", Json::Bool(!grouping.sorted));
            around.push("using_filesort", Json::Bool(false));
            around.append(inner);
            inner = Members::of("grouping_operation", around);
        }
        if let Some(condition) = self.condition(plan.having.iter(), place)? {
            inner.push("having_condition", condition);
        }
        if plan.distinct && !matches!(block.body, Body::Set { .. }) {
            let mut around = Members::default();
            around.push("using_temporary_table", Json::Bool(true));
            around.push("using_filesort", Json::Bool(false));
            around.append(inner);
            inner = Members::of("duplicates_removal", around);
        }
        if !plan.order.is_empty() {
            let mut around = Members::default();
            around.push("using_filesort", Json::Bool(true));
            around.append(inner);
            inner = Members::of("ordering_operation", around);
        }
        out.append(inner);
        let having = subqueries_in(plan.having.iter(), &mut pending);
        self.subqueries("having_subqueries", having, place, &mut out)?;
        let keys = plan.grouping.iter().flat_map(|grouping| &grouping.keys);
        let keys = subqueries_in(keys, &mut pending);
        self.subqueries("group_by_subqueries", keys, place, &mut out)?;
        let (outputs, others) = pending.into_iter().partition(|nested| nested.in_output);
        self.subqueries("select_list_subqueries", outputs, place, &mut out)?;
        self.subqueries("attached_subqueries", others, place, &mut out)?;
        Ok(out)
    }

    fn body<'a, 'p>(
        &mut self,
        block: &'a Block<'p>,
        place: &Place<'_, '_>,
        changed: &dyn Fn(usize) -> Option<&'static str>,
        pending: &mut Vec<&'a Nested<'p>>,
    ) -> Result<Members> {
        let plan = block.plan;
        let mut out = Members::default();
        if let Some(condition) = self.condition(plan.condition.iter(), place)? {
            out.push("attached_condition", condition);
        }
        match &block.body {
            Body::NoTable => out.push("message", Json::text("No tables used")),
            Body::Tables(tables) => {
                let is_outer = |n: usize| plan.sources[n].nest.is_some();
                if tables.iter().enumerate().any(|(n, t)| t.is_impossible() && !is_outer(n)) {
                    out.push("message", Json::text("Impossible WHERE"));
                    return Ok(out);
                }
                let mut list = Vec::with_capacity(tables.len());
                for (n, table) in tables.iter().enumerate() {
                    let mut described = self.table(table, place, changed(n), pending)?;
                    let after = plan.nests.iter().filter(|nest| nest.last as usize == n);
                    let after = after.flat_map(|nest| &nest.after);
                    if let Some(condition) = self.condition(after.clone(), place)? {
                        described.push("found_match_condition", condition);
                    }
                    list.push(described);
                }
                match <[Members; 1]>::try_from(list) {
                    Ok([only]) => out.push("table", only.object()),
                    Err(list) => {
                        let tables = list.into_iter().map(|t| Members::of("table", t).object());
                        out.push("nested_loop", Json::List(tables.collect()));
                    }
                }
            }
            Body::Set { parts, recursion, keeps } => {
                let word = parts.last().map_or(SetKind::Union, |(kind, _)| *kind).word();
                let key = match word {
                    "INTERSECT" => "intersect_result",
                    "EXCEPT" => "except_result",
                    _ => "union_result",
                };
                let recursion = recursion.or(place.recursion);
                let of = Place { recursion, ..place.with(plan) };
                let result = self.set_result(parts, *keeps, block, &of)?;
                out.push(key, result.object());
            }
            Body::Windows { stage, inner } => {
                let inner = self.members_within(inner, place)?;
                if stage.sorts.is_empty() {
                    out.append(inner);
                } else {
                    let mut around = Members::default();
                    around.push("windows", self.windows(stage, place)?);
                    around.append(inner);
                    out.push("windowing", around.object());
                }
            }
        }
        Ok(out)
    }
    /// The members of a block that stands within another with the same number.
    fn members_within(&mut self, block: &Block<'_>, place: &Place<'_, '_>) -> Result<Members> {
        let mut members = self.members(block, &place.with(block.plan))?;
        members.remove(&["select_id", "cost_info"]);
        Ok(members)
    }

    fn set_result(
        &mut self,
        parts: &[(SetKind, Block<'_>)],
        keeps: bool,
        block: &Block<'_>,
        place: &Place<'_, '_>,
    ) -> Result<Members> {
        let is_recursive = matches!(block.body, Body::Set { recursion: Some(_), .. });
        let mut out = Members::default();
        out.push("using_temporary_table", Json::Bool(keeps));
        if keeps {
            let word = parts.last().map_or(SetKind::Union, |(kind, _)| *kind).word();
            let ids: Vec<String> = parts.iter().map(|(_, part)| part.id.to_string()).collect();
            let name = format!("<{}{}>", word.to_lowercase(), ids.join(","));
            out.push("table_name", Json::Text(name));
            out.push("access_type", Json::text("ALL"));
        }
        let mut list = Vec::with_capacity(parts.len());
        for (n, (_, part)) in parts.iter().enumerate() {
            let mut members = self.members(part, &place.with(part.plan))?;
            if is_recursive && n > 0 {
                members.push("recursive", Json::Bool(true));
            }
            let mut specification = Members::default();
            let dependent = part.kind.starts_with("DEPENDENT");
            specification.push("dependent", Json::Bool(dependent));
            specification.push("cacheable", Json::Bool(!part.plan.is_volatile()));
            specification.push("query_block", members.object());
            list.push(specification.object());
        }
        out.push("query_specifications", Json::List(list));
        Ok(out)
    }

    fn windows(&mut self, stage: &WindowStage, place: &Place<'_, '_>) -> Result<Json> {
        let within = place.with(&stage.inner);
        let output = |n: u16| stage.inner.output.get(n as usize);
        let mut list = Vec::with_capacity(stage.sorts.len());
        for sort in &stage.sorts {
            let mut window = Members::default();
            window.push("name", Json::text("<unnamed window>"));
            let partition = sort.partition.iter().filter_map(|n| Some((output(*n)?, false)));
            let order = sort.order.iter().filter_map(|k| Some((output(k.output)?, k.descending)));
            let mut keys = Vec::new();
            for key in partition.chain(order) {
                let mut writer = Writer::new(Names::Full, self.ids, self.meter);
                writer.keys(std::iter::once(key), &within)?;
                keys.push(Json::Text(writer.out));
            }
            if !keys.is_empty() {
                window.push("using_filesort", Json::Bool(true));
                window.push("filesort_key", Json::List(keys));
            }
            let mut buffer = Members::default();
            buffer.push("using_temporary_table", Json::Bool(true));
            window.push("frame_buffer", buffer.object());
            let names = sort.calls.iter().map(|call| Json::text(window_name(&call.function)));
            window.push("functions", Json::List(names.collect()));
            list.push(window.object());
        }
        Ok(Json::List(list))
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Json> {
        let Reads::Table(access) = &change.table.reads else {
            unreachable!("UPDATE and DELETE change stored tables")
        };
        let place = Place::alone(Rows::Table(access));
        let mut out = Members::default();
        out.push("select_id", Json::Number(1));
        if change.table.is_impossible() {
            out.push("message", Json::text("Impossible WHERE"));
            return Ok(out.object());
        }
        let mut pending: Vec<&Nested<'_>> = change.subqueries.iter().collect();
        let verb = if change.verb == "UPDATE" { "update" } else { "delete" };
        let table = self.table(&change.table, &place, Some(verb), &mut pending)?;
        let mut inner = Members::of("table", table);
        if !change.sort.keys.is_empty() {
            let mut around = Members::default();
            around.push("using_filesort", Json::Bool(true));
            around.append(inner);
            inner = Members::of("ordering_operation", around);
        }
        out.append(inner);
        let key =
            if change.verb == "UPDATE" { "update_value_subqueries" } else { "attached_subqueries" };
        self.subqueries(key, pending, &place, &mut out)?;
        Ok(out.object())
    }

    fn table<'a, 'p>(
        &mut self,
        table: &Table<'_>,
        place: &Place<'_, '_>,
        changed: Option<&'static str>,
        pending: &mut Vec<&'a Nested<'p>>,
    ) -> Result<Members> {
        self.meter.pay(PART_BYTES)?;
        let mut out = Members::default();
        if let Some(verb) = changed {
            out.push(verb, Json::Bool(true));
        }
        out.push("table_name", Json::text(table.alias));
        if table.is_impossible() {
            out.push("message", Json::text("Impossible WHERE"));
            return Ok(out);
        }
        let how = table.how.as_ref();
        out.push("access_type", Json::text(how.map_or("ALL", |how| how.ty)));
        if let Some(how) = how {
            if !how.possible.is_empty() {
                out.push("possible_keys", self.names(how.possible.iter().copied())?);
            }
            if let (Some(key), Reads::Table(access)) = (how.key, &table.reads) {
                out.push("key", Json::text(key));
                out.push("used_key_parts", self.names(key_parts(access, how.key_parts))?);
                out.push("key_length", Json::Text(how.key_len.to_string()));
            }
            if let Some((names, lengths)) = how.union_key() {
                out.push("key", Json::Text(format!("union({names})")));
                out.push("key_length", Json::Text(lengths));
            }
            if !how.reference.is_empty() {
                out.push("ref", self.names(how.reference.iter().map(String::as_str))?);
            }
        }
        out.push("rows_examined_per_scan", Json::Number(table.rows() as i64));
        out.push("rows_produced_per_join", Json::Number(table.prefix.rows.round() as i64));
        out.push("filtered", number(table.filtered()));
        if let Reads::Table(access) = &table.reads {
            if access.path.reverse {
                out.push("backward_index_scan", Json::Bool(true));
            }
            if access.loose.is_some() {
                out.push("using_index_for_group_by", Json::Bool(true));
            } else if access.path.covering != Covering::No {
                out.push("using_index", Json::Bool(true));
            }
        }
        if table.lookup.is_some() {
            out.push("using_join_buffer", Json::text("hash join"));
        }
        match &table.reads {
            Reads::JsonTable(..) => {
                out.push("table_function", Json::text("json_table"));
                out.push("using_temporary_table", Json::Bool(true));
            }
            Reads::Iteration(_) => out.push("recursive", Json::Bool(true)),
            _ => {}
        }
        let mut cost = Members::default();
        cost.push("read_cost", number(table.scan.cost));
        cost.push("prefix_cost", number(table.prefix.cost));
        out.push("cost_info", cost.object());
        if let Reads::Table(access) = &table.reads {
            let columns = access.columns.iter().map(|c| &access.table.def.columns[*c as usize]);
            if !access.columns.is_empty() {
                out.push("used_columns", self.names(columns.map(|column| &*column.name))?);
            }
        }
        if let Some(condition) = self.condition(table.conditions(), place)? {
            out.push("attached_condition", condition);
        }
        let own = subqueries_in(table.conditions(), pending);
        self.subqueries("attached_subqueries", own, place, &mut out)?;
        let inner = match &table.reads {
            Reads::Derived(block) => Some((block, None)),
            Reads::Lateral { block, outer } => Some((block, Some(*outer))),
            _ => None,
        };
        if let Some((block, outer)) = inner {
            let mut made = Members::default();
            made.push("using_temporary_table", Json::Bool(true));
            made.push("dependent", Json::Bool(outer.is_some()));
            made.push("cacheable", Json::Bool(!block.plan.is_volatile()));
            let mut within = place.with(block.plan);
            if let Some(taken) = outer {
                within.outside = Some(Outside { taken, place });
            }
            made.push("query_block", self.query_block(block, &within)?);
            out.push("materialized_from_subquery", made.object());
        }
        Ok(out)
    }

    fn subqueries(
        &mut self,
        key: &'static str,
        list: Vec<&Nested<'_>>,
        place: &Place<'_, '_>,
        out: &mut Members,
    ) -> Result<()> {
        let mut described = Vec::with_capacity(list.len());
        for nested in list {
            let query = nested.query;
            let outside = Some(Outside { taken: &query.outer, place });
            let within = Place { outside, ..place.with(nested.block.plan) };
            let mut members = Members::default();
            members.push("dependent", Json::Bool(!query.outer.is_empty()));
            members.push("cacheable", Json::Bool(!query.body.volatile));
            members.push("query_block", self.query_block(&nested.block, &within)?);
            described.push(members.object());
        }
        if !described.is_empty() {
            out.push(key, Json::List(described));
        }
        Ok(())
    }
}

fn key_parts(access: &TableAccess, parts: usize) -> impl Iterator<Item = &str> {
    let def = &access.table.def;
    let index = access.path.index.map(|i| &def.indexes[i]);
    let columns = index.into_iter().flat_map(|index| &index.columns).take(parts);
    columns.map(|part| &*def.columns[part.column].name)
}
