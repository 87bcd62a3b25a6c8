//! What the names of a query block stand for.
use crate::plan::{
    Expr, ExprKind, Grouping, Recursion, SelectPlan, SourceKind, TableAccess, WindowCall,
    WindowSort, WindowStage,
};
use redolith_engine::dict::histogram::Histogram;
use std::sync::Arc;

/// The query block or the table whose rows an expression reads.
#[derive(Clone, Copy)]
pub(super) enum Rows<'p> {
    Select(&'p SelectPlan),
    Table(&'p TableAccess),
    /// The columns that the functions of a window need.
    Needed(&'p WindowStage, &'p WindowSort),
}

/// Where an expression stands.
pub(super) struct Place<'a, 'p> {
    pub rows: Rows<'p>,
    /// What the block takes from the block around it (`Outer`).
    pub outside: Option<Outside<'a, 'p>>,
    /// The recursive common table expressions around the block, for the rows of an iteration.
    pub recursion: Option<&'p Recursion>,
}
#[derive(Clone, Copy)]
pub(super) struct Outside<'a, 'p> {
    pub taken: &'p [Expr],
    pub place: &'a Place<'a, 'p>,
}

/// A column as conditions name it.
#[derive(PartialEq, Debug)]
pub(super) struct ColumnName<'p> {
    pub schema: Option<&'p str>,
    pub table: Option<&'p str>,
    pub column: &'p str,
}
impl ColumnName<'_> {
    /// The name in the `ref` column.
    pub fn dotted(&self) -> String {
        let parts = [self.schema, self.table, Some(self.column)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(".")
    }
}

/// What a node that reads rows stands for.
pub(super) enum Meaning<'a, 'p> {
    Name(ColumnName<'p>),
    /// An expression of the same block, or of the block around it.
    Other(&'p Expr, Within<'a, 'p>),
    Window(&'p WindowStage, &'p WindowSort, &'p WindowCall),
    Unknown,
}
/// The place of an expression for which another stands.
pub(super) enum Within<'a, 'p> {
    Here,
    Outside(&'a Place<'a, 'p>),
    /// The block whose rows the windows keep.
    Inner(&'p SelectPlan),
}

impl<'a, 'p> Place<'a, 'p> {
    /// A block without another around it.
    pub fn alone(rows: Rows<'p>) -> Place<'a, 'p> {
        Place { rows, outside: None, recursion: None }
    }
    /// The place of a block that takes what this block takes.
    pub fn with(&self, plan: &'p SelectPlan) -> Place<'a, 'p> {
        self.with_rows(Rows::Select(plan))
    }
    pub fn with_rows(&self, rows: Rows<'p>) -> Place<'a, 'p> {
        Place { rows, ..*self }
    }

    /// The histogram of a column of one of the block's tables.
    pub fn histogram(&self, source: u16, column: u16) -> Option<Arc<Histogram>> {
        let access = match self.rows {
            Rows::Select(plan) => match &plan.sources.get(usize::from(source))?.kind {
                SourceKind::Table(access) => access,
                _ => return None,
            },
            Rows::Table(access) => access,
            Rows::Needed(..) => return None,
        };
        access.table.statistics()?.histogram(&access.table.def, usize::from(column))
    }

    pub fn grouping(&self) -> Option<&'p Grouping> {
        match self.rows {
            Rows::Select(plan) => plan.grouping.as_ref(),
            Rows::Table(_) | Rows::Needed(..) => None,
        }
    }

    /// What a node stands for that is a place in rows.
    pub fn meaning(&self, e: &Expr) -> Meaning<'a, 'p> {
        let found = match &e.kind {
            ExprKind::Column { source, column } => {
                return self.column_at(*source as usize, *column as usize);
            }
            ExprKind::GroupKey(n) => {
                let key = self.grouping().and_then(|g| g.keys.get(*n as usize));
                key.map(|key| Meaning::Other(key, Within::Here))
            }
            ExprKind::Outer(n) => self.outside.and_then(|outside| {
                let taken = outside.taken.get(*n as usize)?;
                Some(Meaning::Other(taken, Within::Outside(outside.place)))
            }),
            _ => None,
        };
        found.unwrap_or(Meaning::Unknown)
    }
    fn column_at(&self, source: usize, column: usize) -> Meaning<'a, 'p> {
        let plan = match self.rows {
            Rows::Table(access) => return named(table_column(access, column)),
            Rows::Needed(stage, sort) => {
                let column = sort.needed.get(column).map(|column| *column as usize);
                return column.map_or(Meaning::Unknown, |column| window_column(stage, column));
            }
            Rows::Select(plan) => plan,
        };
        let Some(source) = plan.sources.get(source) else { return Meaning::Unknown };
        let alias = Some(&*source.alias).filter(|alias| !alias.is_empty());
        let of_plan = |inner: &'p SelectPlan| {
            let column = &inner.columns.get(column)?.name;
            Some(ColumnName { schema: None, table: alias, column })
        };
        named(match &source.kind {
            SourceKind::Table(access) => table_column(access, column),
            SourceKind::Derived(inner) | SourceKind::Lateral { plan: inner, .. } => of_plan(inner),
            SourceKind::Union(_) | SourceKind::Combined(_) | SourceKind::Recursive(_) => {
                of_plan(plan)
            }
            SourceKind::Iteration { name, slot } => {
                let recursion = self.recursion.filter(|recursion| recursion.slot == *slot);
                let column = recursion.and_then(|r| r.seed.columns.get(column));
                column.map(|c| ColumnName { schema: None, table: Some(name), column: &c.name })
            }
            SourceKind::JsonTable(table) => table.info.def.columns.get(column).map(|column| {
                let table = Some(&*table.info.def.name);
                ColumnName { schema: None, table, column: &column.name }
            }),
            SourceKind::Virtual(table) => {
                table.info().def.columns.get(column).map(|column| ColumnName {
                    schema: Some("information_schema"),
                    table: alias,
                    column: &column.name,
                })
            }
            SourceKind::Windows(stage) => return window_column(stage, column),
        })
    }
    /// The name of the column that a column or an outer value is.
    pub fn column(&self, e: &Expr) -> Option<ColumnName<'p>> {
        match self.meaning(e) {
            Meaning::Name(name) => Some(name),
            Meaning::Other(other, Within::Outside(place)) => place.column(other),
            _ => None,
        }
    }
}

fn named<'a, 'p>(name: Option<ColumnName<'p>>) -> Meaning<'a, 'p> {
    name.map_or(Meaning::Unknown, Meaning::Name)
}
fn table_column(access: &TableAccess, column: usize) -> Option<ColumnName<'_>> {
    let def = &access.table.def;
    let column = def.columns.get(column)?;
    let (schema, table) = (Some(&*def.schema), Some(&*access.alias));
    Some(ColumnName { schema, table, column: &column.name })
}
/// The rows of windows have the columns of the inner SELECT, and the functions' values behind them
/// (WIN-1).
fn window_column<'a, 'p>(stage: &'p WindowStage, column: usize) -> Meaning<'a, 'p> {
    if let Some(e) = stage.inner.output[..stage.inner.visible].get(column) {
        return Meaning::Other(e, Within::Inner(&stage.inner));
    }
    let calls = stage.sorts.iter().flat_map(|sort| sort.calls.iter().map(move |call| (sort, call)));
    match { calls }.nth(column - stage.inner.visible) {
        Some((sort, call)) => Meaning::Window(stage, sort, call),
        None => Meaning::Unknown,
    }
}
