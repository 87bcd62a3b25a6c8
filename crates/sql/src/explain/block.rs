//! The query blocks of a statement and the tables that they read: what all forms of EXPLAIN are
//! printed from.
use super::Meter;
use super::access::How;
use super::estimate::{self, Estimate};
use super::place::{Outside, Place, Rows};
use crate::error::{Result, SqlError};
use crate::information_schema::Virtual;
use crate::plan::{
    AccessKind, DeletePlan, DmlSort, Expr, HashLookup, InsertPlan, InsertRows, JsonTable, ManyPlan,
    OnDuplicate, Recursion, SelectPlan, SetKind, Source, SourceKind, Statement, Subquery,
    TableAccess, UpdatePlan, WindowStage,
};
use crate::table_info::TableInfo;
use std::borrow::Cow;
use std::collections::HashMap;

/// The bytes that are paid for a block and for a table of it.
const BLOCK_BYTES: usize = 512;

/// A statement.
pub(super) struct Explained<'p> {
    pub what: What<'p>,
    /// The numbers of the blocks of subqueries, by slot.
    pub ids: HashMap<u16, i64>,
}
pub(super) enum What<'p> {
    Select(Block<'p>),
    Insert {
        table: &'p TableInfo,
        replaces: bool,
        select: Option<Block<'p>>,
    },
    /// UPDATE or DELETE of one table.
    Change(Change<'p>),
    Many {
        verb: &'static str,
        many: &'p ManyPlan,
        block: Block<'p>,
    },
}
pub(super) struct Change<'p> {
    pub verb: &'static str,
    pub table: Table<'p>,
    pub sort: &'p DmlSort,
    /// The rows are all found before the first is changed.
    pub is_buffered: bool,
    pub subqueries: Vec<Nested<'p>>,
}

/// A SELECT.
pub(super) struct Block<'p> {
    pub id: i64,
    /// `select_type`
    pub kind: Cow<'static, str>,
    pub plan: &'p SelectPlan,
    pub body: Body<'p>,
    /// The subqueries of its expressions, but not copies of those of other blocks.
    pub subqueries: Vec<Nested<'p>>,
}
pub(super) enum Body<'p> {
    NoTable,
    Tables(Vec<Table<'p>>),
    /// The operands, each with the operator before it.
    Set {
        parts: Vec<(SetKind, Block<'p>)>,
        recursion: Option<&'p Recursion>,
        keeps: bool,
    },
    Windows {
        stage: &'p WindowStage,
        inner: Box<Block<'p>>,
    },
}
/// A subquery of an expression.
pub(super) struct Nested<'p> {
    pub query: &'p Subquery,
    /// It is in the select list.
    pub in_output: bool,
    pub block: Block<'p>,
    /// Makes the hash table that answers it for many rows; described only where it may have run.
    pub table: Option<Block<'p>>,
}

/// A table of a block.
pub(super) struct Table<'p> {
    /// None for UPDATE and DELETE of one table.
    pub source: Option<&'p Source>,
    pub alias: &'p str,
    pub reads: Reads<'p>,
    /// Of a table that is stored.
    pub how: Option<How<'p>>,
    pub lookup: Option<&'p HashLookup>,
    /// One scan, and the share of its rows that the conditions on them leave.
    pub scan: Estimate,
    pub share: f64,
    /// The join up to this table.
    pub prefix: Estimate,
}
pub(super) enum Reads<'p> {
    Table(&'p TableAccess),
    Derived(Box<Block<'p>>),
    Lateral { block: Box<Block<'p>>, outer: &'p [Expr] },
    JsonTable(&'p JsonTable, &'p [Expr]),
    Iteration(&'p str),
    Virtual(Virtual),
}
impl<'p> Table<'p> {
    pub fn is_impossible(&self) -> bool {
        matches!(&self.reads, Reads::Table(access) if matches!(access.path.kind, AccessKind::Empty))
    }
    /// `rows`: the rows that one scan reads.
    pub fn rows(&self) -> u64 {
        (self.scan.rows.round() as u64).max(1)
    }
    /// `filtered`: the percentage of these rows that the conditions leave.
    pub fn filtered(&self) -> f64 {
        (self.share * 1e4).round() / 1e2
    }
    /// The block of which its rows are made.
    pub fn inner(&self) -> Option<&Block<'p>> {
        match &self.reads {
            Reads::Derived(block) | Reads::Lateral { block, .. } => Some(block),
            _ => None,
        }
    }
    /// The conditions that are checked for its rows.
    pub fn conditions(&self) -> impl Iterator<Item = &'p Expr> + use<'p> {
        let own = match &self.reads {
            Reads::Table(access) => access.filter.as_ref(),
            _ => None,
        };
        let built = self.lookup.and_then(|lookup| lookup.own.as_ref());
        built.into_iter().chain(own).chain(self.source.and_then(|source| source.filter.as_ref()))
    }
}

impl<'p> Explained<'p> {
    /// A SELECT that has run, with what it may have made beside its plan.
    pub fn of_run(plan: &'p SelectPlan, meter: &mut dyn Meter) -> Result<Explained<'p>> {
        Explained::of_select(plan, true, meter)
    }
    fn of_select(
        plan: &'p SelectPlan,
        has_run: bool,
        meter: &mut dyn Meter,
    ) -> Result<Explained<'p>> {
        let mut describer = Describer { next_id: 1, ids: HashMap::new(), has_run, meter };
        let place = Place::alone(Rows::Select(plan));
        let block = describer.select(plan, "SIMPLE", &place)?;
        Ok(Explained { what: What::Select(block), ids: describer.ids })
    }
    pub fn of(statement: &'p Statement, meter: &mut dyn Meter) -> Result<Explained<'p>> {
        let mut describer = Describer { next_id: 1, ids: HashMap::new(), has_run: false, meter };
        let d = &mut describer;
        let what = match statement {
            Statement::Select(plan) => return Explained::of_select(plan, false, d.meter),
            Statement::Insert(plan) => d.insert(plan)?,
            Statement::Update(UpdatePlan { access, sort, assignments, collect_first, .. }) => {
                let values = assignments.iter().map(|a| &a.value).chain(&sort.exprs);
                d.change("UPDATE", access, sort, *collect_first, values)?
            }
            Statement::Delete(DeletePlan { access, sort, .. }) => {
                d.change("DELETE", access, sort, false, sort.exprs.iter())?
            }
            Statement::UpdateMany(many) => d.many("UPDATE", many)?,
            Statement::DeleteMany(many) => d.many("DELETE", many)?,
            _ => return Err(SqlError::unsupported("EXPLAIN of this statement")),
        };
        Ok(Explained { what, ids: describer.ids })
    }
}

struct Describer<'m, 'd> {
    next_id: i64,
    /// The numbers of the subqueries that have blocks already: aliases make copies.
    ids: HashMap<u16, i64>,
    has_run: bool,
    meter: &'m mut (dyn Meter + 'd),
}

impl Describer<'_, '_> {
    fn insert<'p>(&mut self, plan: &'p InsertPlan) -> Result<What<'p>> {
        let select = match &plan.rows {
            InsertRows::Select { select, .. } => {
                Some(self.select(select, "SIMPLE", &Place::alone(Rows::Select(select)))?)
            }
            _ => None,
        };
        let replaces = matches!(plan.on_duplicate, OnDuplicate::Replace);
        Ok(What::Insert { table: &plan.table, replaces, select })
    }
    fn change<'p>(
        &mut self,
        verb: &'static str,
        access: &'p TableAccess,
        sort: &'p DmlSort,
        collects: bool,
        exprs: impl Iterator<Item = &'p Expr>,
    ) -> Result<What<'p>> {
        self.next_id += 1;
        let place = Place::alone(Rows::Table(access));
        let how = How::of(access, &place, true);
        let scan = estimate::of_access(access, &how);
        let share = estimate::share(&access.filter, &place);
        let table = Table {
            source: None,
            alias: &access.alias,
            reads: Reads::Table(access),
            how: Some(how),
            lookup: None,
            scan,
            share,
            prefix: scan.filtered(share),
        };
        let exprs = access.filter.iter().chain(exprs);
        let subqueries = self.subqueries(exprs.map(|e| (e, false)), &place)?;
        let is_buffered = collects || !sort.keys.is_empty();
        Ok(What::Change(Change { verb, table, sort, is_buffered, subqueries }))
    }
    fn many<'p>(&mut self, verb: &'static str, many: &'p ManyPlan) -> Result<What<'p>> {
        let place = Place::alone(Rows::Select(&many.select));
        Ok(What::Many { verb, many, block: self.select(&many.select, "SIMPLE", &place)? })
    }

    fn select<'p>(
        &mut self,
        plan: &'p SelectPlan,
        kind: &'static str,
        place: &Place<'_, 'p>,
    ) -> Result<Block<'p>> {
        self.select_of_kind(plan, kind.into(), place)
    }
    fn select_of_kind<'p>(
        &mut self,
        plan: &'p SelectPlan,
        kind: Cow<'static, str>,
        place: &Place<'_, 'p>,
    ) -> Result<Block<'p>> {
        self.meter.pay(BLOCK_BYTES)?;
        let id = self.next_id;
        self.next_id += 1;
        let kind = if kind == "SIMPLE" && has_others(plan) { "PRIMARY".into() } else { kind };
        let body = match &plan.sources[..] {
            [] => Body::NoTable,
            [Source { kind: SourceKind::Union(parts), .. }] => {
                let keeps = plan.distinct || !plan.order.is_empty();
                let parts = parts.iter().map(|part| (SetKind::Union, part));
                self.set_operation(id, &kind, parts, None, keeps, place)?
            }
            [Source { kind: SourceKind::Combined(parts), .. }] => {
                let parts = parts.iter().map(|(operator, part)| (operator.kind, part));
                self.set_operation(id, &kind, parts, None, true, place)?
            }
            [Source { kind: SourceKind::Recursive(recursion), .. }] => {
                let members = recursion.members.iter().map(|part| (SetKind::Union, part));
                let parts = std::iter::once((SetKind::Union, &recursion.seed)).chain(members);
                self.set_operation(id, &kind, parts, Some(recursion), false, place)?
            }
            [Source { kind: SourceKind::Windows(stage), .. }] => {
                self.next_id = id;
                let inner = &stage.inner;
                let inner = self.select_of_kind(inner, kind.clone(), &place.with(inner))?;
                Body::Windows { stage, inner: Box::new(inner) }
            }
            sources => Body::Tables(self.tables(sources, plan, place)?),
        };
        // Those of the select list come first, as in the text.
        let mut others = Vec::new();
        plan.each_expr(&mut |e| others.push((e, false)));
        let outputs = plan.output.iter().map(|e| (e, true));
        let subqueries = self.subqueries(outputs.chain(others), place)?;
        Ok(Block { id, kind, plan, body, subqueries })
    }

    fn set_operation<'p>(
        &mut self,
        id: i64,
        kind: &str,
        parts: impl Iterator<Item = (SetKind, &'p SelectPlan)>,
        recursion: Option<&'p Recursion>,
        keeps: bool,
        place: &Place<'_, 'p>,
    ) -> Result<Body<'p>> {
        self.next_id = id;
        let mut described = Vec::new();
        for (n, (operator, part)) in parts.enumerate() {
            let kind: Cow<'static, str> = match (n, kind) {
                (0, "SIMPLE") => "PRIMARY".into(),
                (0, kind) => kind.to_string().into(),
                (_, "DEPENDENT SUBQUERY") => format!("DEPENDENT {}", operator.word()).into(),
                _ => operator.word().into(),
            };
            let recursion = recursion.or(place.recursion);
            let place = Place { recursion, ..place.with(part) };
            described.push((operator, self.select_of_kind(part, kind, &place)?));
        }
        Ok(Body::Set { parts: described, recursion, keeps })
    }

    fn tables<'p>(
        &mut self,
        sources: &'p [Source],
        plan: &'p SelectPlan,
        place: &Place<'_, 'p>,
    ) -> Result<Vec<Table<'p>>> {
        let mut tables = Vec::with_capacity(sources.len());
        let mut prefix = Estimate { rows: 1.0, cost: 0.0 };
        // The rows before each nest that has not ended.
        let mut before = vec![prefix; plan.nests.len()];
        for (n, source) in sources.iter().enumerate() {
            for (nest, before) in plan.nests.iter().zip(&mut before) {
                if nest.first as usize == n {
                    *before = prefix;
                }
            }
            let mut table = self.table(source, place)?;
            prefix = match table.lookup {
                Some(lookup) => estimate::hash_joined(prefix, &table, lookup, place),
                None => prefix.joined(table.scan.filtered(table.share)),
            };
            for (nest, before) in plan.nests.iter().zip(&before).rev() {
                if nest.last as usize == n {
                    // A row of NULLs stands where no row matches.
                    prefix.rows = prefix.rows.max(before.rows);
                    prefix = prefix.filtered(estimate::share(&nest.after, place));
                }
            }
            table.prefix = prefix;
            tables.push(table);
        }
        Ok(tables)
    }

    fn table<'p>(&mut self, source: &'p Source, place: &Place<'_, 'p>) -> Result<Table<'p>> {
        self.meter.pay(BLOCK_BYTES)?;
        let lookup = source.lookup.as_deref();
        let (mut alias, mut how) = (&*source.alias, None);
        let (reads, scan) = match &source.kind {
            SourceKind::Table(access) => {
                let how = how.insert(How::of(access, place, false));
                (Reads::Table(access), estimate::of_access(access, how))
            }
            SourceKind::Derived(inner) | SourceKind::Lateral { plan: inner, .. }
                if let Some(table) = inner.json_table() =>
            {
                alias = &table.info.def.name;
                let outer = match &source.kind {
                    SourceKind::Lateral { outer, .. } => &outer[..],
                    _ => &[],
                };
                (Reads::JsonTable(table, outer), estimate::of_kept(2.0))
            }
            SourceKind::Derived(inner) => {
                let block = self.select(inner, "DERIVED", &place.with(inner))?;
                let scan = estimate::of_kept(estimate::rows_of(&block));
                (Reads::Derived(Box::new(block)), scan)
            }
            SourceKind::Lateral { plan: inner, outer } => {
                let outside = Some(Outside { taken: outer, place });
                let within = Place { outside, ..place.with(inner) };
                let block = self.select(inner, "DEPENDENT DERIVED", &within)?;
                let scan = estimate::of_kept(estimate::rows_of(&block));
                let scan = Estimate { cost: scan.cost + estimate::cost_of(&block), ..scan };
                (Reads::Lateral { block: Box::new(block), outer }, scan)
            }
            SourceKind::Iteration { name, .. } => (Reads::Iteration(name), estimate::of_kept(2.0)),
            SourceKind::Virtual(table) => (Reads::Virtual(*table), estimate::unknown()),
            SourceKind::Union(_)
            | SourceKind::Combined(_)
            | SourceKind::Recursive(_)
            | SourceKind::JsonTable(_)
            | SourceKind::Windows(_) => unreachable!("the only source of its SELECT"),
        };
        let mut table = Table {
            source: Some(source),
            alias,
            reads,
            how,
            lookup,
            scan,
            share: 1.0,
            prefix: scan,
        };
        table.share = estimate::share(table.conditions(), place);
        Ok(table)
    }

    fn subqueries<'p>(
        &mut self,
        exprs: impl Iterator<Item = (&'p Expr, bool)>,
        place: &Place<'_, 'p>,
    ) -> Result<Vec<Nested<'p>>> {
        let mut found = Vec::new();
        for (e, in_output) in exprs {
            e.each_subquery(&mut |query| found.push((query, in_output)));
        }
        let mut blocks = Vec::new();
        for (query, in_output) in found {
            if self.ids.contains_key(&query.body.slot) {
                continue;
            }
            self.ids.insert(query.body.slot, self.next_id);
            let kind = match (query.outer.is_empty(), query.body.volatile) {
                (false, _) => "DEPENDENT SUBQUERY",
                (true, true) => "UNCACHEABLE SUBQUERY",
                (true, false) => "SUBQUERY",
            };
            let outside = Some(Outside { taken: &query.outer, place });
            let plan = &query.body.plan;
            let within = Place { outside, ..place.with(plan) };
            let block = self.select(plan, kind, &within)?;
            let probe = query.body.probe.as_ref().filter(|_| self.has_run);
            let table = match probe {
                Some(probe) => {
                    let next_id = std::mem::replace(&mut self.next_id, block.id);
                    let place = Place { outside: None, ..place.with(&probe.build) };
                    let table = self.select(&probe.build, kind, &place)?;
                    self.next_id = next_id;
                    Some(table)
                }
                None => None,
            };
            blocks.push(Nested { query, in_output, block, table });
        }
        Ok(blocks)
    }
}

/// Whether a SELECT has derived tables or subqueries.
fn has_others(plan: &SelectPlan) -> bool {
    let is_derived = |source: &Source| match &source.kind {
        SourceKind::Derived(inner) | SourceKind::Lateral { plan: inner, .. } => {
            inner.json_table().is_none()
        }
        _ => false,
    };
    let mut has_subqueries = false;
    plan.each_expr(&mut |e| has_subqueries = has_subqueries || e.has_subquery());
    plan.sources.iter().any(is_derived) || has_subqueries
}

/// Takes the subqueries of these expressions out of those that stand nowhere yet.
pub(super) fn subqueries_in<'a, 'p, 'e>(
    exprs: impl Iterator<Item = &'e Expr>,
    pending: &mut Vec<&'a Nested<'p>>,
) -> Vec<&'a Nested<'p>> {
    if pending.is_empty() {
        return Vec::new();
    }
    let mut slots = Vec::new();
    exprs.for_each(|e| e.each_subquery(&mut |query| slots.push(query.body.slot)));
    let (own, others) =
        pending.drain(..).partition(|nested| slots.contains(&nested.query.body.slot));
    *pending = others;
    own
}
