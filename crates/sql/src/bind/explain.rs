//! EXPLAIN in the traditional format: one row per table, in the order they are read.
use crate::error::{Result, SqlError};
use crate::plan::{
    AccessKind, Covering, DeletePlan, Expr, ExprKind, ExprType, InsertPlan, InsertRows, ManyPlan,
    Nest, SelectPlan, SetKind, Source, SourceKind, Statement, TableAccess, UpdatePlan, WindowStage,
};
use crate::sink::ColumnMeta;
use redolith_types::{Collation, SqlType, Value};
use std::collections::HashSet;

type Row = Vec<Value<'static>>;

const COLUMNS: &[&str] = &[
    "id",
    "select_type",
    "table",
    "partitions",
    "type",
    "possible_keys",
    "key",
    "key_len",
    "ref",
    "rows",
    "filtered",
    "Extra",
];

pub(super) fn explain(statement: &Statement) -> Result<(Vec<ColumnMeta>, Vec<Row>)> {
    let mut out = Explain { rows: Vec::new(), next_id: 1, shown: HashSet::new() };
    match statement {
        Statement::Select(plan) => out.select(plan, "SIMPLE"),
        Statement::Insert(plan) => out.insert(plan),
        Statement::Update(UpdatePlan { access, sort, assignments, .. }) => {
            out.change(access, "UPDATE", !sort.keys.is_empty());
            let values = assignments.iter().map(|a| &a.value);
            out.subqueries(access.filter.iter().chain(values).chain(&sort.exprs));
        }
        Statement::Delete(DeletePlan { access, sort, .. }) => {
            out.change(access, "DELETE", !sort.keys.is_empty());
            out.subqueries(access.filter.iter().chain(&sort.exprs));
        }
        Statement::UpdateMany(many) => out.many(many, "UPDATE"),
        Statement::DeleteMany(many) => out.many(many, "DELETE"),
        _ => return Err(SqlError::unsupported("EXPLAIN of this statement")),
    }
    let columns = COLUMNS.iter().map(|name| {
        let ty = match *name {
            "id" | "rows" => ExprType::bigint(21),
            "filtered" => ExprType::double(),
            _ => ExprType::string(512, Collation::Utf8mb4GeneralCi),
        };
        ColumnMeta::expression(name, ty.nullable(true))
    });
    Ok((columns.collect(), out.rows))
}

struct Explain {
    rows: Vec<Row>,
    next_id: i64,
    /// The slots of the subqueries that have rows already: aliases make copies.
    shown: HashSet<u16>,
}

impl Explain {
    fn id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn select(&mut self, plan: &SelectPlan, kind: &str) {
        let id = self.id();
        let derived = plan.sources.iter().any(|s| match &s.kind {
            SourceKind::Derived(inner) | SourceKind::Lateral { plan: inner, .. } => {
                inner.json_table().is_none()
            }
            _ => false,
        });
        let mut has_subqueries = false;
        plan.each_expr(&mut |e| e.each_subquery(&mut |_| has_subqueries = true));
        let is_outermost = kind == "SIMPLE" && (derived || has_subqueries);
        let kind = if is_outermost { "PRIMARY" } else { kind };
        if plan.sources.is_empty() {
            let extra = if plan.condition.is_some() { "Using where" } else { "No tables used" };
            self.push(id, kind, None, None, None, None, extra.to_string());
            return self.subqueries_of(plan);
        }
        if let [Source { kind: SourceKind::Union(parts), .. }] = &plan.sources[..] {
            let parts = parts.iter().map(|part| (SetKind::Union, part));
            let keeps = plan.distinct || !plan.order.is_empty();
            return self.set_operation(id, kind, parts.collect(), keeps, plan);
        }
        if let [Source { kind: SourceKind::Combined(parts), .. }] = &plan.sources[..] {
            let parts = parts.iter().map(|(operator, part)| (operator.kind, part));
            return self.set_operation(id, kind, parts.collect(), true, plan);
        }
        if let [Source { kind: SourceKind::Recursive(recursion), .. }] = &plan.sources[..] {
            let members = recursion.members.iter().map(|part| (SetKind::Union, part));
            let parts = std::iter::once((SetKind::Union, &recursion.seed)).chain(members);
            return self.set_operation(id, kind, parts.collect(), false, plan);
        }
        if let [Source { kind: SourceKind::Windows(stage), .. }] = &plan.sources[..] {
            return self.windows(id, kind, stage, plan);
        }
        let mut inner = Vec::new();
        // Conditions on a derived table are its own, or those after a nest that ends with it.
        let is_checked = |n: usize| {
            let ends = |nest: &Nest| nest.last as usize == n && nest.after.is_some();
            plan.sources[n].filter.is_some() || plan.nests.iter().any(ends)
        };
        for (n, source) in plan.sources.iter().enumerate() {
            let mut extra = Vec::new();
            if n == 0 {
                let grouped =
                    plan.grouping.as_ref().is_some_and(|g| !g.keys.is_empty() && !g.sorted);
                if grouped || plan.distinct {
                    extra.push("Using temporary");
                }
                if !plan.order.is_empty() {
                    extra.push("Using filesort");
                }
            }
            if source.lookup.is_some() {
                extra.push("Using join buffer (hash join)");
            }
            match &source.kind {
                SourceKind::Table(access) => self.table(id, kind, access, extra),
                SourceKind::Virtual(table) => {
                    if is_checked(n) {
                        extra.insert(0, "Using where");
                    }
                    self.push(
                        id,
                        kind,
                        Some(table.name().into()),
                        Some("ALL"),
                        None,
                        None,
                        extra.join("; "),
                    );
                }
                SourceKind::Union(_)
                | SourceKind::Combined(_)
                | SourceKind::Recursive(_)
                | SourceKind::JsonTable(_)
                | SourceKind::Windows(_) => {
                    unreachable!("the only source of its SELECT")
                }
                SourceKind::Iteration { name, .. } => {
                    extra.insert(0, "Recursive");
                    if is_checked(n) {
                        extra.insert(1, "Using where");
                    }
                    let (name, extra) = (Some(name.to_string()), extra.join("; "));
                    self.push(id, kind, name, Some("ALL"), None, Some(2), extra);
                }
                SourceKind::Derived(inner) | SourceKind::Lateral { plan: inner, .. }
                    if let Some(table) = inner.json_table() =>
                {
                    let words = ["Table function: json_table", "Using temporary"];
                    extra.retain(|word| !words.contains(word));
                    extra.splice(0..0, words);
                    if is_checked(n) {
                        extra.push("Using where");
                    }
                    let (name, extra) = (table.info.def.name.clone(), extra.join("; "));
                    self.push(id, kind, Some(name), Some("ALL"), None, Some(2), extra);
                }
                SourceKind::Derived(plan) => {
                    if is_checked(n) {
                        extra.insert(0, "Using where");
                    }
                    let name = format!("<derived{}>", self.next_id + inner.len() as i64);
                    self.push(id, kind, Some(name), Some("ALL"), None, Some(2), extra.join("; "));
                    inner.push((&**plan, "DERIVED"));
                }
                SourceKind::Lateral { plan, .. } => {
                    if is_checked(n) {
                        extra.insert(0, "Using where");
                    }
                    let name = format!("<derived{}>", self.next_id + inner.len() as i64);
                    self.rematerializes(n, &name);
                    self.push(id, kind, Some(name), Some("ALL"), None, Some(2), extra.join("; "));
                    inner.push((&**plan, "DEPENDENT DERIVED"));
                }
            }
        }
        for (plan, kind) in inner {
            self.select(plan, kind);
        }
        self.subqueries_of(plan);
    }

    /// Says of the table before source number `n` that each of its rows makes a derived table anew.
    fn rematerializes(&mut self, n: usize, name: &str) {
        let last = self.rows.last_mut().and_then(|row| row.last_mut());
        if let Some(extra) = last.filter(|_| n > 0) {
            let word = format!("Rematerialize ({name})");
            *extra = match extra.as_bytes() {
                Some(before) => text(&format!("{}; {word}", String::from_utf8_lossy(before))),
                None => text(&word),
            };
        }
    }

    fn subqueries_of(&mut self, plan: &SelectPlan) {
        // Those of the select list come first, as in the text.
        let mut others = Vec::new();
        plan.each_expr(&mut |e| others.push(e));
        self.subqueries(plan.output.iter().chain(others));
    }
    fn subqueries<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr>) {
        let mut found = Vec::new();
        exprs.for_each(|e| e.each_subquery(&mut |q| found.push(q)));
        for q in found {
            if self.shown.insert(q.body.slot) {
                let kind = match (q.outer.is_empty(), q.body.volatile) {
                    (false, _) => "DEPENDENT SUBQUERY",
                    (true, true) => "UNCACHEABLE SUBQUERY",
                    (true, false) => "SUBQUERY",
                };
                self.select(&q.body.plan, kind);
            }
        }
    }

    /// The inner SELECT, whose rows are kept and sorted for windows, and for what follows.
    fn windows(&mut self, id: i64, kind: &str, stage: &WindowStage, whole: &SelectPlan) {
        self.next_id = id;
        let first = self.rows.len();
        self.select(&stage.inner, kind);
        let sorts = !whole.order.is_empty()
            || stage.sorts.iter().any(|s| !s.partition.is_empty() || !s.order.is_empty());
        // Outputs after a sort (LATE-1) keep no rows by themselves.
        let row = self.rows.get_mut(first).filter(|_| !stage.sorts.is_empty());
        if let Some(extra) = row.and_then(|row| row.last_mut()) {
            let mut words: Vec<String> = extra
                .as_bytes()
                .map(|b| String::from_utf8_lossy(b).into_owned())
                .into_iter()
                .collect();
            words.push("Using temporary".to_string());
            if sorts {
                words.push("Using filesort".to_string());
            }
            *extra = text(&words.join("; "));
        }
        self.subqueries_of(whole);
    }

    /// The operands of a set operation, each with the operator before it, and the result where it
    /// is kept.
    fn set_operation(
        &mut self,
        id: i64,
        kind: &str,
        parts: Vec<(SetKind, &SelectPlan)>,
        keeps: bool,
        whole: &SelectPlan,
    ) {
        self.next_id = id;
        let mut ids = Vec::new();
        let mut last = SetKind::Union;
        for (n, (operator, part)) in parts.into_iter().enumerate() {
            ids.push(self.next_id.to_string());
            let first = match kind {
                "SIMPLE" => "PRIMARY",
                kind => kind,
            };
            let next = match kind {
                "DEPENDENT SUBQUERY" => format!("DEPENDENT {}", operator.word()),
                _ => operator.word().to_string(),
            };
            self.select(part, if n == 0 { first } else { &next });
            last = operator;
        }
        if keeps {
            let word = last.word();
            let name = format!("<{}{}>", word.to_lowercase(), ids.join(","));
            let sorts = if whole.order.is_empty() { "" } else { "; Using filesort" };
            let extra = format!("Using temporary{sorts}");
            let result = format!("{word} RESULT");
            self.push(0, &result, Some(name), Some("ALL"), None, None, extra);
            self.rows.last_mut().expect("it was pushed")[0] = Value::Null;
        }
    }

    fn insert(&mut self, plan: &InsertPlan) {
        let id = self.id();
        let kind = if matches!(plan.on_duplicate, crate::plan::OnDuplicate::Replace) {
            "REPLACE"
        } else {
            "INSERT"
        };
        self.push(
            id,
            kind,
            Some(plan.table.def.name.clone()),
            Some("ALL"),
            None,
            None,
            String::new(),
        );
        if let InsertRows::Select { select, .. } = &plan.rows {
            self.next_id = id;
            self.select(select, "SIMPLE");
        }
    }

    /// The joined tables, of which those that are changed say so.
    fn many(&mut self, many: &ManyPlan, verb: &str) {
        let first = self.rows.len();
        self.select(&many.select, "SIMPLE");
        for (n, row) in self.rows[first..].iter_mut().enumerate() {
            if many.changes(n) {
                row[1] = text(verb);
            }
        }
    }

    fn change(&mut self, access: &TableAccess, kind: &str, sorts: bool) {
        let id = self.id();
        let extra = if sorts { vec!["Using filesort"] } else { Vec::new() };
        self.table(id, kind, access, extra);
    }

    fn table(&mut self, id: i64, kind: &str, access: &TableAccess, more: Vec<&str>) {
        if matches!(access.path.kind, AccessKind::Empty) {
            self.push(id, kind, None, None, None, None, "Impossible WHERE".to_string());
            return;
        }
        let def = &access.table.def;
        let changes = matches!(kind, "UPDATE" | "DELETE");
        let how = access_type(access, changes);
        let total = access.table.rows().max(1);
        let key = access.path.index.filter(|_| how != "ALL").map(|i| def.indexes[i].name.clone());
        let (key_len, reference, rows) = match &access.path.kind {
            AccessKind::Point(values) => (key_length(access, values.len()), Some("const"), 1),
            AccessKind::Ranges(ranges) => {
                let used = ranges
                    .iter()
                    .map(|r| r.prefix.len() + usize::from(!r.next.is_any()))
                    .max()
                    .unwrap_or(0);
                let reference = (how == "ref").then_some("const");
                let rows = match rows_per_key(access, used).filter(|_| how == "ref") {
                    Some(rows) => (rows.round() as u64).clamp(1, total),
                    None => total / if how == "ref" { 100 } else { 10 },
                };
                (key_length(access, used), reference, rows.max(ranges.len() as u64))
            }
            _ if how == "index" => (key_length(access, usize::MAX), None, total),
            _ => (0, None, total),
        };
        let mut extra = Vec::new();
        if access.filter.is_some()
            || (changes && !matches!(access.path.kind, AccessKind::FullScan))
            || (how == "range" && access.path.covering == Covering::No)
        {
            extra.push("Using where");
        }
        if access.path.covering != Covering::No {
            extra.push("Using index");
        }
        if access.path.reverse {
            extra.push("Backward index scan");
        }
        extra.extend(more);
        let mut takes = false;
        access.each_key(&mut |e| takes |= e.any(&is_outer));
        // What a subquery takes has no name in the plan.
        let reference = reference.map(|r| if takes { "func" } else { r });
        let reference = reference.map(|r| vec![r; ref_columns(access)].join(","));
        let possible: Vec<&str> =
            access.possible.iter().map(|&i| def.indexes[i as usize].name.as_str()).collect();
        self.rows.push(vec![
            Value::Int(id),
            text(kind),
            text(&access.alias),
            Value::Null,
            text(how),
            if possible.is_empty() { Value::Null } else { text(&possible.join(",")) },
            key.as_deref().map_or(Value::Null, text),
            if key.is_some() { text(&key_len.to_string()) } else { Value::Null },
            reference.as_deref().map_or(Value::Null, text),
            Value::Int(rows as i64),
            Value::Double(100.0),
            if extra.is_empty() { Value::Null } else { text(&extra.join("; ")) },
        ]);
    }

    #[allow(clippy::too_many_arguments)]
    fn push(
        &mut self,
        id: i64,
        kind: &str,
        table: Option<String>,
        how: Option<&str>,
        key: Option<&str>,
        rows: Option<i64>,
        extra: String,
    ) {
        let optional = |t: Option<&str>| t.map_or(Value::Null, text);
        self.rows.push(vec![
            Value::Int(id),
            text(kind),
            optional(table.as_deref()),
            Value::Null,
            optional(how),
            Value::Null,
            optional(key),
            Value::Null,
            Value::Null,
            rows.map_or(Value::Null, Value::Int),
            rows.map_or(Value::Null, |_| Value::Double(100.0)),
            if extra.is_empty() { Value::Null } else { text(&extra) },
        ]);
    }
}

fn is_outer(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Outer(_))
}

fn text(s: &str) -> Value<'static> {
    Value::from(s)
}

/// The `type` column. For statements that change rows, a point is called a range, as in MySQL.
fn access_type(access: &TableAccess, changes: bool) -> &'static str {
    match &access.path.kind {
        AccessKind::Point(_) if changes => "range",
        AccessKind::Point(values)
            if values.iter().any(|v| v.last_source().is_some() || v.any(&is_outer)) =>
        {
            "eq_ref"
        }
        AccessKind::Point(_) => "const",
        AccessKind::Ranges(ranges) => {
            if !changes && ranges.len() == 1 && ranges[0].next.is_any() {
                "ref"
            } else {
                "range"
            }
        }
        AccessKind::FullScan
            if access.path.index.is_some()
                && access.path.index != access.table.def.clustered_index() =>
        {
            "index"
        }
        // The clustered index is read for its order.
        AccessKind::FullScan if access.path.reverse => "index",
        _ => "ALL",
    }
}

/// The rows that the table's statistics expect for values of the first columns of the index.
fn rows_per_key(access: &TableAccess, columns: usize) -> Option<f64> {
    access.table.statistics()?.rows_per_key(access.path.index?, columns)
}

fn ref_columns(access: &TableAccess) -> usize {
    match &access.path.kind {
        AccessKind::Point(values) => values.len(),
        AccessKind::Ranges(ranges) => ranges.first().map_or(1, |r| r.prefix.len().max(1)),
        _ => 1,
    }
}

/// The `key_len` column: the bytes of the used index columns as MySQL counts them, not as Redolith
/// stores them.
fn key_length(access: &TableAccess, columns: usize) -> u64 {
    let def = &access.table.def;
    let Some(index) = access.path.index.map(|i| &def.indexes[i]) else { return 0 };
    index
        .columns
        .iter()
        .take(columns)
        .map(|part| column_length(&def.columns[part.column], part.prefix))
        .sum()
}
fn column_length(column: &redolith_types::Column, prefix: Option<u32>) -> u64 {
    let chars = |n: u32, collation: Collation| {
        u64::from(prefix.unwrap_or(n)) * u64::from(collation.charset().max_len())
    };
    let fraction = |fsp: u8| u64::from(fsp.div_ceil(2));
    let bytes = match &column.ty {
        SqlType::Int { size, .. } => size.bytes() as u64,
        SqlType::Decimal { precision, scale, .. } => {
            redolith_types::decimal::packed_len(*precision, *scale) as u64
        }
        SqlType::Float { .. } => 4,
        SqlType::Double { .. } => 8,
        SqlType::Char { chars: n, collation } => chars(*n, *collation),
        SqlType::VarChar { chars: n, collation } => chars(*n, *collation) + 2,
        SqlType::Text { collation, .. } => chars(0, *collation) + 2,
        SqlType::Binary { len } => u64::from(prefix.unwrap_or(*len)),
        SqlType::VarBinary { len } => u64::from(prefix.unwrap_or(*len)) + 2,
        SqlType::Blob { .. } => u64::from(prefix.unwrap_or(0)) + 2,
        SqlType::Date => 3,
        SqlType::Time { fsp } => 3 + fraction(*fsp),
        SqlType::DateTime { fsp } => 5 + fraction(*fsp),
        SqlType::Timestamp { fsp } => 4 + fraction(*fsp),
        SqlType::Year => 1,
        SqlType::Bit { bits } => u64::from(bits.div_ceil(8)),
        SqlType::Enum { names, .. } => 1 + (names.len() > 255) as u64,
        SqlType::Set { names, .. } => match names.len().div_ceil(8) {
            n @ 0..=4 => n as u64,
            _ => 8,
        },
        SqlType::Json => 4,
    };
    bytes + column.nullable as u64
}
