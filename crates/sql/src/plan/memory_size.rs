//! An estimate of a plan's memory: its nodes and the values in them. The estimate leaves out tables
//! and names, which the plan shares with the catalog.
use super::*;
use redolith_types::Value;
use std::cell::RefCell;
use std::collections::HashSet;

impl Plan {
    /// The estimated memory in bytes, for caches and accounts. It is counted once.
    pub fn bytes(&self) -> usize {
        *self.size.get_or_init(|| self.count_bytes())
    }
    fn count_bytes(&self) -> usize {
        let s = Sizes::default();
        let body = match &self.body {
            Statement::Select(select) => s.select_plan(select),
            Statement::Insert(insert) => s.insert_plan(insert),
            Statement::Update(update) => {
                let assignments: usize = update.assignments.iter().map(|a| s.expr(&a.value)).sum();
                s.access(&update.access)
                    + s.constraints(&update.constraints)
                    + s.generated_columns(&update.generated_columns)
                    + assignments
                    + s.exprs(&update.sort.exprs)
                    + s.limit(&update.limit)
            }
            Statement::Delete(delete) => {
                s.access(&delete.access) + s.exprs(&delete.sort.exprs) + s.limit(&delete.limit)
            }
            Statement::UpdateMany(many) | Statement::DeleteMany(many) => {
                let assignments = many.targets.iter().flat_map(|target| &target.assignments);
                let checks = many.targets.iter().map(|target| {
                    s.constraints(&target.constraints)
                        + s.generated_columns(&target.generated_columns)
                });
                s.select_plan(&many.select)
                    + s.exprs(assignments.map(|a| &a.value))
                    + checks.sum::<usize>()
            }
            Statement::SetVariables(list) => list.iter().map(|(_, e)| s.expr(e)).sum(),
            Statement::Do(list) => s.exprs(list),
            Statement::Rows(rows) => rows.iter().flatten().map(value).sum(),
            // Other plans are no larger than their text, which the cache counts separately.
            _ => 0,
        };
        size_of::<Plan>()
            + columns(&self.columns)
            + size_of_val(&self.param_types[..])
            + s.exprs(&self.constants)
            + size_of_val(&self.tables[..])
            + body
    }
}

fn value(value: &Value<'_>) -> usize {
    size_of::<Value<'_>>() + crate::memory::bytes_of(value)
}

impl Expr {
    /// The estimated memory in bytes of the nodes and the values in them.
    pub fn bytes(&self) -> usize {
        Sizes::default().expr(self)
    }
}
fn columns(list: &[ColumnMeta]) -> usize {
    list.iter().map(|c| size_of::<ColumnMeta>() + c.name.len()).sum()
}

/// Sizes of the parts of one plan.
#[derive(Default)]
struct Sizes {
    /// The bodies of the subqueries that were counted.
    counted: RefCell<HashSet<*const SubqueryBody>>,
}
impl Sizes {
    fn is_new(&self, body: &Arc<SubqueryBody>) -> bool {
        self.counted.borrow_mut().insert(Arc::as_ptr(body))
    }
    fn expr(&self, e: &Expr) -> usize {
        let mut bytes = 0;
        e.walk(&mut |node| {
            bytes += size_of::<Expr>();
            bytes += match &node.kind {
                ExprKind::Literal(v) => value(v),
                ExprKind::InCharset(met) => size_of_val(&met.1) + met.1.message.len(),
                // Copies of an expression share the query (plan::Subquery).
                ExprKind::Subquery(q) if !self.is_new(&q.body) => size_of::<Subquery>(),
                ExprKind::Subquery(q) => {
                    let probe = q.body.probe.as_ref().map_or(0, |p| {
                        let keys = p.keys.iter().map(|(e, _)| e).chain(&p.condition);
                        size_of::<HashProbe>() + self.select_plan(&p.build) + self.exprs(keys)
                    });
                    size_of::<Subquery>()
                        + size_of::<SubqueryBody>()
                        + self.select_plan(&q.body.plan)
                        + probe
                }
                _ => 0,
            };
        });
        bytes
    }
    fn exprs<'e>(&self, list: impl IntoIterator<Item = &'e Expr>) -> usize {
        list.into_iter().map(|e| self.expr(e)).sum()
    }
    fn constraints(&self, all: &Option<Box<Constraints>>) -> usize {
        let size = |all: &Constraints| {
            let list =
                all.list.iter().map(|c| self.expr(&c.condition) + c.name.len()).sum::<usize>();
            size_of::<Constraints>() + size_of_val(&all.columns[..]) + list
        };
        all.as_deref().map_or(0, size)
    }
    fn generated_columns(&self, all: &Option<Box<GeneratedColumns>>) -> usize {
        let size = |all: &GeneratedColumns| {
            let list = all.list.iter().map(|g| self.expr(&g.value) + size_of_val(&g.reads[..]));
            size_of::<GeneratedColumns>() + size_of_val(&all.reads[..]) + list.sum::<usize>()
        };
        all.as_deref().map_or(0, size)
    }
    fn limit(&self, limit: &Limit) -> usize {
        self.exprs(&limit.count) + self.exprs(&limit.offset)
    }

    fn access(&self, access: &TableAccess) -> usize {
        let range = |r: &KeyRange| {
            let mut next = 0;
            r.next.each_expr(&mut |e| next += self.expr(e));
            size_of::<KeyRange>() + self.exprs(&r.prefix) + next
        };
        let path = match &access.path.kind {
            AccessKind::Point(values) => self.exprs(values),
            AccessKind::Ranges(ranges) => ranges.iter().map(range).sum(),
            AccessKind::Union(parts) => {
                let ranges = parts.iter().flat_map(|part| &part.ranges).map(range);
                size_of_val(&parts[..]) + ranges.sum::<usize>()
            }
            AccessKind::Empty | AccessKind::FullScan => 0,
        };
        path + self.exprs(&access.filter) + size_of_val(&access.columns[..])
    }

    fn select_plan(&self, plan: &SelectPlan) -> usize {
        let source = |s: &Source| {
            let mut rows = match &s.kind {
                SourceKind::Table(table) => self.access(table),
                SourceKind::Lateral { outer, .. } => self.exprs(outer),
                SourceKind::JsonTable(table) => table.memory() + self.expr(&table.document),
                SourceKind::Recursive(recursion) => {
                    size_of::<Recursion>() + self.limit(&recursion.limit)
                }
                _ => 0,
            };
            s.kind.each_inner(&mut |inner| rows += self.select_plan(inner));
            let lookup = s.lookup.as_ref().map_or(0, |lookup| {
                let mut bytes = size_of::<HashLookup>() + size_of_val(&lookup.keys[..]);
                lookup.each_expr(&mut |e| bytes += self.expr(e));
                let instead = lookup.instead.iter();
                bytes + instead.map(|a| size_of::<TableAccess>() + self.access(a)).sum::<usize>()
            });
            size_of::<Source>() + rows + lookup + self.exprs(&s.filter)
        };
        let grouping = plan.grouping.as_ref().map_or(0, |g| {
            let aggregates: usize = g
                .aggregates
                .iter()
                .map(|a| size_of::<AggregateCall>() + self.exprs(&a.args) + a.separator.len())
                .sum();
            self.exprs(&g.keys) + aggregates
        });
        size_of::<SelectPlan>()
            + plan.sources.iter().map(source).sum::<usize>()
            + size_of_val(&plan.nests[..])
            + self.exprs(plan.nests.iter().flat_map(|nest| &nest.after))
            + grouping
            + self.exprs(plan.condition.iter().chain(&plan.having).chain(&plan.output))
            + self.limit(&plan.limit)
            + columns(&plan.columns)
    }

    fn insert_plan(&self, plan: &InsertPlan) -> usize {
        let insert_value = |v: &InsertValue| match v {
            InsertValue::Expr(e) => self.expr(e),
            InsertValue::Default => size_of::<InsertValue>(),
        };
        let rows = match &plan.rows {
            InsertRows::Rows(rows) => rows
                .iter()
                .map(|row| size_of_val(row) + row.iter().map(insert_value).sum::<usize>())
                .sum(),
            InsertRows::Repeat { row, .. } => row.iter().map(insert_value).sum(),
            InsertRows::Select { select, members, .. } => {
                size_of_val(&members[..]) + self.select_plan(select)
            }
            InsertRows::File(load) => load.set.iter().map(|a| self.expr(&a.value)).sum(),
        };
        let default = |d: &DefaultFill| match d {
            DefaultFill::Literal(v) => value(v),
            DefaultFill::Expr(e) => self.expr(e),
            DefaultFill::MissingBelowView(view) => {
                size_of::<TableName>() + view.schema.len() + view.name.len()
            }
            DefaultFill::AutoIncrement
            | DefaultFill::Generated
            | DefaultFill::Missing
            | DefaultFill::Zero => size_of::<DefaultFill>(),
        };
        let update = match &plan.on_duplicate {
            OnDuplicate::Update(assignments) => {
                assignments.iter().map(|a| self.expr(&a.value)).sum()
            }
            OnDuplicate::Error | OnDuplicate::Replace => 0,
        };
        let checks =
            self.constraints(&plan.constraints) + self.generated_columns(&plan.generated_columns);
        rows + checks + plan.defaults.iter().map(default).sum::<usize>() + update
    }
}
