//! The traditional form: one row per table, in the order in which they are read.
use super::access::{How, is_checked};
use super::block::{Block, Body, Change, Explained, Reads, Table, What};
use super::{Meter, Row};
use crate::error::Result;
use crate::plan::{Covering, ExprType, Nest, SelectPlan, SetKind, TableAccess};
use crate::sink::ColumnMeta;
use redolith_types::{Collation, Value};

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
/// The approximate bytes of a row.
const ROW_BYTES: usize = 1024;
/// The rows of a table that the statement makes: this form has no estimate of them.
const KEPT_ROWS: u64 = 2;

pub(super) fn rows(
    explained: &Explained<'_>,
    meter: &mut dyn Meter,
) -> Result<(Vec<ColumnMeta>, Vec<Row>)> {
    let mut out = Lines { lines: Vec::new(), meter };
    match &explained.what {
        What::Select(block) => out.block(block)?,
        What::Insert { table, replaces, select } => {
            let kind = if *replaces { "REPLACE" } else { "INSERT" };
            let mut line = Line::of(1, kind);
            (line.table, line.how) = (Some(table.def.name.clone()), Some("ALL"));
            out.push(line)?;
            if let Some(block) = select {
                out.block(block)?;
            }
        }
        What::Change(change) => out.change(change)?,
        What::Many { verb, many, block } => {
            out.block(block)?;
            for (n, line) in out.lines.iter_mut().enumerate() {
                if many.changes(n) {
                    line.kind = (*verb).into();
                }
            }
        }
    }
    let columns = COLUMNS.iter().map(|name| {
        let ty = match *name {
            "id" | "rows" => ExprType::bigint(21),
            "filtered" => ExprType::double(),
            _ => ExprType::string(512, Collation::Utf8mb4GeneralCi),
        };
        ColumnMeta::expression(name, ty.nullable(true))
    });
    Ok((columns.collect(), out.lines.into_iter().map(Line::row).collect()))
}

/// A row.
struct Line {
    id: Option<i64>,
    kind: String,
    table: Option<String>,
    how: Option<&'static str>,
    possible: Option<String>,
    key: Option<String>,
    key_len: Option<String>,
    reference: Option<String>,
    rows: Option<u64>,
    extra: Vec<String>,
}
impl Line {
    fn of(id: i64, kind: &str) -> Line {
        Line {
            id: Some(id),
            kind: kind.to_string(),
            table: None,
            how: None,
            possible: None,
            key: None,
            key_len: None,
            reference: None,
            rows: None,
            extra: Vec::new(),
        }
    }
    fn row(self) -> Row {
        let text = |s: Option<String>| s.map_or(Value::Null, |s| Value::owned(s.into_bytes()));
        let how = self.how.map_or(Value::Null, Value::from);
        let extra = Some(self.extra.join("; ")).filter(|extra| !extra.is_empty());
        vec![
            self.id.map_or(Value::Null, Value::Int),
            text(Some(self.kind)),
            text(self.table),
            Value::Null,
            how,
            text(self.possible),
            text(self.key),
            text(self.key_len),
            text(self.reference),
            self.rows.map_or(Value::Null, |rows| Value::Int(rows as i64)),
            self.rows.map_or(Value::Null, |_| Value::Double(100.0)),
            text(extra),
        ]
    }
}

struct Lines<'m, 'd> {
    lines: Vec<Line>,
    meter: &'m mut (dyn Meter + 'd),
}

impl Lines<'_, '_> {
    fn push(&mut self, line: Line) -> Result<()> {
        let texts = [&line.table, &line.possible, &line.key, &line.reference].into_iter().flatten();
        self.meter.pay(ROW_BYTES + texts.map(String::len).sum::<usize>())?;
        self.lines.push(line);
        Ok(())
    }

    fn change(&mut self, change: &Change<'_>) -> Result<()> {
        let mut line = Line::of(1, change.verb);
        match (&change.table.reads, &change.table.how) {
            (Reads::Table(access), Some(how)) if !change.table.is_impossible() => {
                stored(&mut line, access, how, true);
                if !change.sort.keys.is_empty() {
                    line.extra.push("Using filesort".into());
                }
            }
            _ => line.extra.push("Impossible WHERE".into()),
        }
        self.push(line)?;
        change.subqueries.iter().try_for_each(|nested| self.block(&nested.block))
    }

    fn block(&mut self, block: &Block<'_>) -> Result<()> {
        let plan = block.plan;
        match &block.body {
            Body::NoTable => {
                let mut line = Line::of(block.id, &block.kind);
                let is_checked = plan.condition.is_some();
                let word = if is_checked { "Using where" } else { "No tables used" };
                line.extra.push(word.into());
                self.push(line)?;
            }
            Body::Set { parts, keeps, .. } => {
                parts.iter().try_for_each(|(_, part)| self.block(part))?;
                if *keeps {
                    self.result(parts, plan)?;
                }
            }
            Body::Windows { stage, inner } => {
                let first = self.lines.len();
                self.block(inner)?;
                let sorted =
                    |s: &crate::plan::WindowSort| !s.partition.is_empty() || !s.order.is_empty();
                let sorts = !plan.order.is_empty() || stage.sorts.iter().any(sorted);
                // Outputs after a sort (LATE-1) keep no rows by themselves.
                if let Some(line) = self.lines.get_mut(first).filter(|_| !stage.sorts.is_empty()) {
                    line.extra.push("Using temporary".into());
                    line.extra.extend(sorts.then(|| "Using filesort".into()));
                }
            }
            Body::Tables(tables) => {
                for (n, table) in tables.iter().enumerate() {
                    self.table(block, n, table)?;
                }
                let inner = tables.iter().filter_map(Table::inner);
                inner.into_iter().try_for_each(|inner| self.block(inner))?;
            }
        }
        block.subqueries.iter().try_for_each(|nested| self.block(&nested.block))
    }

    /// The result of a set operation, where it is kept.
    fn result(&mut self, parts: &[(SetKind, Block<'_>)], plan: &SelectPlan) -> Result<()> {
        let word = parts.last().map_or(SetKind::Union, |(kind, _)| *kind).word();
        let ids: Vec<String> = parts.iter().map(|(_, part)| part.id.to_string()).collect();
        let mut line = Line::of(0, &format!("{word} RESULT"));
        line.id = None;
        line.table = Some(format!("<{}{}>", word.to_lowercase(), ids.join(",")));
        line.how = Some("ALL");
        line.extra.push("Using temporary".into());
        line.extra.extend((!plan.order.is_empty()).then(|| "Using filesort".into()));
        self.push(line)
    }

    fn table(&mut self, block: &Block<'_>, n: usize, table: &Table<'_>) -> Result<()> {
        let plan = block.plan;
        let mut line = Line::of(block.id, &block.kind);
        let mut more = Vec::new();
        if n == 0 {
            let grouped = plan.grouping.as_ref().is_some_and(|g| !g.keys.is_empty() && !g.sorted);
            more.extend((grouped || plan.distinct).then_some("Using temporary"));
            more.extend((!plan.order.is_empty()).then_some("Using filesort"));
        }
        more.extend(table.lookup.map(|_| "Using join buffer (hash join)"));
        line.how = Some("ALL");
        // Conditions on a derived table are its own, or those after a nest that ends with it.
        let ends = |nest: &Nest| nest.last as usize == n && nest.after.is_some();
        let is_checked = plan.sources[n].filter.is_some() || plan.nests.iter().any(ends);
        let checked = is_checked.then_some("Using where");
        match (&table.reads, &table.how) {
            (Reads::Table(_), _) if table.is_impossible() => {
                line.how = None;
                line.extra.push("Impossible WHERE".into());
                return self.push(line);
            }
            (Reads::Table(access), Some(how)) => stored(&mut line, access, how, false),
            (Reads::Table(_), None) => unreachable!("a stored table has a way to its rows"),
            (Reads::Virtual(of), _) => {
                line.table = Some(of.name().into());
                line.extra.extend(checked.map(str::to_string));
            }
            (Reads::Iteration(name), _) => {
                (line.table, line.rows) = (Some((*name).into()), Some(KEPT_ROWS));
                line.extra.push("Recursive".into());
                line.extra.extend(checked.map(str::to_string));
            }
            (Reads::JsonTable(of, _), _) => {
                (line.table, line.rows) = (Some(of.info.def.name.clone()), Some(KEPT_ROWS));
                let words = ["Table function: json_table", "Using temporary"];
                more.retain(|word| !words.contains(word));
                more.splice(0..0, words);
                more.extend(checked);
            }
            (Reads::Derived(inner) | Reads::Lateral { block: inner, .. }, _) => {
                let name = format!("<derived{}>", inner.id);
                if let (Reads::Lateral { .. }, Some(before)) =
                    (&table.reads, self.lines.last_mut().filter(|_| n > 0))
                {
                    // Each row of the table before makes the derived table anew.
                    before.extra.push(format!("Rematerialize ({name})"));
                }
                (line.table, line.rows) = (Some(name), Some(KEPT_ROWS));
                line.extra.extend(checked.map(str::to_string));
            }
        }
        line.extra.extend(more.into_iter().map(str::to_string));
        self.push(line)
    }
}

/// What a row says of the access to a stored table.
fn stored(line: &mut Line, access: &TableAccess, how: &How<'_>, changes: bool) {
    let list = |list: String| Some(list).filter(|list| !list.is_empty());
    line.table = Some(access.alias.to_string());
    line.how = Some(how.ty);
    line.possible = list(how.possible.join(","));
    line.key = how.key.map(str::to_string);
    line.key_len = how.key.map(|_| how.key_len.to_string());
    if let Some((names, lengths)) = how.union_key() {
        line.extra.push(format!("Using union({names})"));
        (line.key, line.key_len) = (Some(names), Some(lengths));
    }
    line.reference = list(how.reference.join(","));
    line.rows = Some(how.rows);
    let words = [
        (is_checked(access, how.ty, changes), "Using where"),
        (access.loose.is_some(), "Using index for group-by"),
        (access.loose.is_none() && access.path.covering != Covering::No, "Using index"),
        (access.path.reverse, "Backward index scan"),
    ];
    let words = words.into_iter().filter(|(holds, _)| *holds);
    line.extra.extend(words.map(|(_, word)| word.to_string()));
}
