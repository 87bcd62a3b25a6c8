//! An estimate of a plan's memory: its nodes and the values in them. The estimate leaves out tables
//! and names, which the plan shares with the catalog.
use super::*;
use redolith_types::Value;

impl Plan {
    /// The estimated memory in bytes, for caches.
    pub fn bytes(&self) -> usize {
        let body = match &self.body {
            Statement::Select(select) => select_plan(select),
            Statement::Insert(insert) => insert_plan(insert),
            Statement::Update(update) => {
                let assignments: usize = update.assignments.iter().map(|a| expr(&a.value)).sum();
                access(&update.access)
                    + constraints(&update.constraints)
                    + assignments
                    + exprs(&update.sort.exprs)
                    + limit(&update.limit)
            }
            Statement::Delete(delete) => {
                access(&delete.access) + exprs(&delete.sort.exprs) + limit(&delete.limit)
            }
            Statement::UpdateMany(many) | Statement::DeleteMany(many) => {
                let assignments = many.targets.iter().flat_map(|target| &target.assignments);
                let checks = many.targets.iter().map(|target| constraints(&target.constraints));
                select_plan(&many.select)
                    + exprs(assignments.map(|a| &a.value))
                    + checks.sum::<usize>()
            }
            Statement::Do(list) => exprs(list),
            Statement::Rows(rows) => rows.iter().flatten().map(value).sum(),
            // Other plans are no larger than their text, which the cache counts separately.
            _ => 0,
        };
        size_of::<Plan>()
            + columns(&self.columns)
            + size_of_val(&self.param_types[..])
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
        expr(self)
    }
}
fn expr(e: &Expr) -> usize {
    let mut bytes = 0;
    e.walk(&mut |node| {
        bytes += size_of::<Expr>();
        bytes += match &node.kind {
            ExprKind::Literal(v) => value(v),
            ExprKind::Subquery(q) => {
                let probe = q.body.probe.as_ref().map_or(0, |p| {
                    let keys = p.keys.iter().map(|(e, _)| e).chain(&p.condition);
                    size_of::<HashProbe>() + select_plan(&p.build) + exprs(keys)
                });
                size_of::<Subquery>()
                    + size_of::<SubqueryBody>()
                    + select_plan(&q.body.plan)
                    + probe
            }
            _ => 0,
        };
    });
    bytes
}
fn exprs<'e>(list: impl IntoIterator<Item = &'e Expr>) -> usize {
    list.into_iter().map(expr).sum()
}
fn constraints(all: &Option<Box<Constraints>>) -> usize {
    let size = |all: &Constraints| {
        let list = all.list.iter().map(|c| expr(&c.condition) + c.name.len()).sum::<usize>();
        size_of::<Constraints>() + size_of_val(&all.columns[..]) + list
    };
    all.as_deref().map_or(0, size)
}
fn limit(limit: &Limit) -> usize {
    exprs(&limit.count) + exprs(&limit.offset)
}
fn columns(list: &[ColumnMeta]) -> usize {
    list.iter().map(|c| size_of::<ColumnMeta>() + c.name.len()).sum()
}

fn access(access: &TableAccess) -> usize {
    let range = |r: &KeyRange| {
        let mut next = 0;
        r.next.each_expr(&mut |e| next += expr(e));
        size_of::<KeyRange>() + exprs(&r.prefix) + next
    };
    let path = match &access.path.kind {
        AccessKind::Point(values) => exprs(values),
        AccessKind::Ranges(ranges) => ranges.iter().map(range).sum(),
        AccessKind::Empty | AccessKind::FullScan => 0,
    };
    path + exprs(&access.filter) + size_of_val(&access.columns[..])
}

fn select_plan(plan: &SelectPlan) -> usize {
    let source = |s: &Source| {
        let mut rows = match &s.kind {
            SourceKind::Table(table) => access(table),
            SourceKind::Lateral { outer, .. } => exprs(outer),
            SourceKind::JsonTable(table) => table.memory() + expr(&table.document),
            SourceKind::Recursive(recursion) => size_of::<Recursion>() + limit(&recursion.limit),
            _ => 0,
        };
        s.kind.each_inner(&mut |inner| rows += select_plan(inner));
        let lookup = s.lookup.as_ref().map_or(0, |lookup| {
            let mut bytes = size_of::<HashLookup>() + size_of_val(&lookup.keys[..]);
            lookup.each_expr(&mut |e| bytes += expr(e));
            let instead = lookup.instead.iter();
            bytes + instead.map(|a| size_of::<TableAccess>() + access(a)).sum::<usize>()
        });
        size_of::<Source>() + rows + lookup + exprs(&s.filter)
    };
    let grouping = plan.grouping.as_ref().map_or(0, |g| {
        let aggregates: usize = g
            .aggregates
            .iter()
            .map(|a| size_of::<AggregateCall>() + exprs(&a.args) + a.separator.len())
            .sum();
        exprs(&g.keys) + aggregates
    });
    size_of::<SelectPlan>()
        + plan.sources.iter().map(source).sum::<usize>()
        + size_of_val(&plan.nests[..])
        + exprs(plan.nests.iter().flat_map(|nest| &nest.after))
        + grouping
        + exprs(plan.condition.iter().chain(&plan.having).chain(&plan.output))
        + limit(&plan.limit)
        + columns(&plan.columns)
}

fn insert_plan(plan: &InsertPlan) -> usize {
    let insert_value = |v: &InsertValue| match v {
        InsertValue::Expr(e) => expr(e),
        InsertValue::Default => size_of::<InsertValue>(),
    };
    let rows = match &plan.rows {
        InsertRows::Rows(rows) => rows
            .iter()
            .map(|row| size_of_val(row) + row.iter().map(insert_value).sum::<usize>())
            .sum(),
        InsertRows::Repeat { row, .. } => row.iter().map(insert_value).sum(),
        InsertRows::Select { select, .. } => select_plan(select),
        InsertRows::File(load) => load.set.iter().map(|a| expr(&a.value)).sum(),
    };
    let default = |d: &DefaultFill| match d {
        DefaultFill::Literal(v) => value(v),
        DefaultFill::Expr(e) => expr(e),
        DefaultFill::AutoIncrement | DefaultFill::Missing | DefaultFill::Zero => {
            size_of::<DefaultFill>()
        }
    };
    let update = match &plan.on_duplicate {
        OnDuplicate::Update(assignments) => assignments.iter().map(|a| expr(&a.value)).sum(),
        OnDuplicate::Error | OnDuplicate::Replace => 0,
    };
    let checks = constraints(&plan.constraints);
    rows + checks + plan.defaults.iter().map(default).sum::<usize>() + update
}
