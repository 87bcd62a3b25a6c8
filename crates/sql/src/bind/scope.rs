//! Resolves names to places in the FROM items of one SELECT.
use super::{result_columns, slot};
use crate::error::{Result, SqlError};
use crate::information_schema::is_schema;
use crate::parse::ast::ColumnName;
use crate::plan::{Expr, ExprKind, ExprType};
use crate::sink::ColumnMeta;
use crate::table_info::TableInfo;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The clause of an expression, as messages name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clause {
    Fields,
    Where,
    On,
    /// USING and NATURAL JOIN
    From,
    Group,
    Having,
    Order,
    /// The document of a JSON_TABLE.
    TableFunction,
    /// LIMIT, SET, DEFAULT (..), VALUES (..): places without a clause that messages could name.
    None,
}
impl Clause {
    pub fn name(self) -> &'static str {
        match self {
            Clause::Fields | Clause::None => "field list",
            Clause::Where => "where clause",
            Clause::On => "on clause",
            Clause::From => "from clause",
            Clause::TableFunction => "a table function argument",
            Clause::Group => "group statement",
            Clause::Having => "having clause",
            Clause::Order => "order clause",
        }
    }
}

pub struct ScopeColumn {
    pub name: Arc<str>,
    pub meta: ColumnMeta,
    /// An invisible column, which is not part of `*`.
    pub hidden: bool,
    /// USING merged this column with a column of an earlier source. `*` and plain names mean the
    /// earlier column.
    pub merged: bool,
    /// The expression that the name stands for: a column of the source or, for `new.c` in ON
    /// DUPLICATE KEY UPDATE, an [`ExprKind::InsertedValue`].
    pub expr: ExprKind,
}
impl ScopeColumn {
    pub fn ty(&self) -> ExprType {
        self.meta.ty
    }
}

pub struct ScopeSource {
    pub schema: Option<Arc<str>>,
    /// The alias, or the table's name.
    pub alias: Arc<str>,
    pub table: Option<Arc<TableInfo>>,
    pub columns: Vec<ScopeColumn>,
    /// A table of a merged view: no name means it ([`ScopeView`]).
    pub hidden: bool,
    names: NameIndex,
}
impl ScopeSource {
    pub fn new(
        schema: Option<Arc<str>>,
        alias: Arc<str>,
        table: Option<Arc<TableInfo>>,
        columns: Vec<ScopeColumn>,
    ) -> ScopeSource {
        ScopeSource { schema, alias, table, columns, hidden: false, names: NameIndex::default() }
    }
    /// The first column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.names.find(name, self.columns.len(), |n| &self.columns[n].name)
    }
}

/// Lists up to this length are searched from front to back.
const FEW_NAMES: usize = 16;

/// The places of names in a list, without regard to the case of ASCII letters. The index is made at
/// the first search in a long list, and grows with the list.
#[derive(Default)]
pub struct NameIndex(RefCell<IndexedNames>);
#[derive(Default)]
struct IndexedNames {
    places: HashMap<Box<str>, u32>,
    /// The number of names that the index knows.
    count: usize,
}
impl NameIndex {
    /// The first place of `name` among the `count` names that `name_of` gives. These names must not
    /// change between calls.
    pub fn find<'n>(
        &self,
        name: &str,
        count: usize,
        name_of: impl Fn(usize) -> &'n str,
    ) -> Option<usize> {
        if count <= FEW_NAMES {
            return (0..count).find(|&n| name_of(n).eq_ignore_ascii_case(name));
        }
        let mut index = self.0.borrow_mut();
        for n in index.count..count {
            index.places.entry(name_of(n).to_ascii_lowercase().into()).or_insert(n as u32);
        }
        index.count = count;
        index.places.get(&*name.to_ascii_lowercase()).map(|n| *n as usize)
    }
}

/// The items of a select list, with the names by which later clauses know them.
#[derive(Default)]
pub struct Aliases {
    pub list: Vec<(String, Expr)>,
    names: NameIndex,
}
impl Aliases {
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name, self.list.len(), |n| &self.list[n].0)
    }
    /// The item that a name means as a key of ORDER BY. Error 1052 if two columns have the name; as
    /// in MySQL, an item that is no column decides, if no second column comes before it.
    pub fn sort_key(&self, name: &str, clause: Clause) -> Result<Option<usize>> {
        let Some(first) = self.find(name) else { return Ok(None) };
        let is_column =
            |e: &Expr| matches!(e.kind, ExprKind::Column { .. } | ExprKind::Member { .. });
        for (n, (_, e)) in self
            .list
            .iter()
            .enumerate()
            .skip(first)
            .filter(|(_, (own, _))| own.eq_ignore_ascii_case(name))
        {
            if !is_column(e) {
                return Ok(Some(n));
            }
            if !e.same(&self.list[first].1) {
                return Err(SqlError::ambiguous_column(name, clause.name()));
            }
        }
        Ok(Some(first))
    }
    /// True if the name means several items. Looks through the whole list.
    pub fn has_several(&self, name: &str) -> bool {
        let mut items = self.list.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        items.next().is_some_and(|(_, first)| items.any(|(_, other)| !other.same(first)))
    }
}

/// Columns by the names that a statement gives them.
#[derive(Default)]
pub struct ColumnNames(HashMap<Box<str>, Option<Expr>>);
impl ColumnNames {
    pub fn add(&mut self, name: &str, column: &Expr) {
        let known =
            self.0.entry(name.to_ascii_lowercase().into()).or_insert_with(|| Some(column.clone()));
        if known.as_ref().is_some_and(|known| !known.same(column)) {
            *known = None;
        }
    }
    /// The column of this name. Error 1052 if the name has several.
    pub fn find(&self, name: &str, clause: Clause) -> Result<Option<&Expr>> {
        match self.0.get(&*name.to_ascii_lowercase()) {
            Some(None) => Err(SqlError::ambiguous_column(name, clause.name())),
            Some(column) => Ok(column.as_ref()),
            None => Ok(None),
        }
    }
}

/// A view whose tables have been merged into the query: names mean its columns, which are
/// expressions of its tables.
pub struct ScopeView {
    /// The view's tables among the sources.
    pub first: usize,
    pub last: usize,
    pub names: ScopeSource,
}

/// The places of views come after those of all sources: that of `views[n]` is `FIRST_VIEW + n`.
const FIRST_VIEW: usize = 1 << 16;

#[derive(Default)]
pub struct Scope {
    pub sources: Vec<ScopeSource>,
    /// The columns that `*` means: source and column of each.
    pub star: Vec<(usize, usize)>,
    /// The first source that names may mean: a condition of ON sees only the tables of its join.
    pub seen_from: usize,
    /// The merged views.
    pub views: Vec<ScopeView>,
    /// In an INSERT: the place of the table or view that gets rows.
    pub inserted: Option<usize>,
}

impl Scope {
    /// What has names at a place that [`Self::find`] or [`Self::matching`] has given.
    pub fn named(&self, place: usize) -> &ScopeSource {
        match place.checked_sub(FIRST_VIEW) {
            Some(view) => &self.views[view].names,
            None => &self.sources[place],
        }
    }
    /// A column's name in messages: schema, table and column, as far as there are such names.
    pub fn full_name(&self, source: u16, column: u16) -> String {
        let column = &self.sources[source as usize].columns[column as usize].meta;
        let names = [&*column.schema, &*column.table, &*column.name];
        names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(".")
    }
    /// True if a place is that of a merged view.
    pub fn is_view(&self, place: usize) -> bool {
        place >= FIRST_VIEW
    }
    pub fn column_mut(&mut self, at: (usize, usize)) -> &mut ScopeColumn {
        match at.0.checked_sub(FIRST_VIEW) {
            Some(view) => &mut self.views[view].names.columns[at.1],
            None => &mut self.sources[at.0].columns[at.1],
        }
    }
    /// The source and the column of a table that a column is; None if it is an expression of a
    /// view.
    pub fn base_column(&self, at: (usize, usize)) -> Option<(usize, usize)> {
        match self.column(at).expr {
            _ if at.0 < FIRST_VIEW => Some(at),
            ExprKind::Column { source, column } => Some((source.into(), column.into())),
            _ => None,
        }
    }
    /// The sources of what has names at a place: several for a view of several tables.
    pub fn sources_of(&self, place: usize) -> std::ops::RangeInclusive<usize> {
        match place.checked_sub(FIRST_VIEW) {
            Some(view) => self.views[view].first..=self.views[view].last,
            None => place..=place,
        }
    }
    /// The name by which the statement knows a source: that of the view for its tables.
    pub fn alias_of(&self, source: usize) -> &Arc<str> {
        let holds = |view: &&ScopeView| (view.first..=view.last).contains(&source);
        match self.views.iter().find(holds) {
            Some(view) => &view.names.alias,
            None => &self.sources[source].alias,
        }
    }
    fn check_unique(&self, source: &ScopeSource) -> Result<()> {
        let same = |s: &ScopeSource| {
            s.alias == source.alias
                && (s.schema == source.schema || s.schema.is_none() || source.schema.is_none())
        };
        let shown = self.sources.iter().filter(|s| !s.hidden);
        if shown.chain(self.views.iter().map(|v| &v.names)).any(same) {
            return Err(SqlError::not_unique_table(&source.alias));
        }
        Ok(())
    }
    /// Adds the tables of a view and the view.
    pub fn add_view(&mut self, tables: Vec<ScopeSource>, names: ScopeSource) -> Result<()> {
        self.check_unique(&names)?;
        let (first, place) = (self.sources.len(), FIRST_VIEW + self.views.len());
        let last = (first + tables.len()).saturating_sub(1);
        slot(last)?;
        self.star.extend((0..names.columns.len()).map(|column| (place, column)));
        self.sources.extend(tables.into_iter().map(|t| ScopeSource { hidden: true, ..t }));
        self.views.push(ScopeView { first, last, names });
        Ok(())
    }

    pub fn add_table(
        &mut self,
        table: &Arc<TableInfo>,
        alias: Option<&str>,
        outer: bool,
    ) -> Result<u16> {
        let schema: Arc<str> = Arc::from(table.def.schema.as_str());
        let alias: Arc<str> = Arc::from(alias.unwrap_or(&table.def.name));
        let source = self.sources.len() as u16;
        let columns = (0..table.def.columns.len()).map(|i| {
            let mut meta = result_columns::column_meta(table, &alias, i, None);
            meta.ty.nullable |= outer;
            let hidden = table.def.columns[i].invisible;
            ScopeColumn {
                name: meta.name.clone(),
                meta,
                hidden,
                merged: false,
                expr: ExprKind::Column { source, column: i as u16 },
            }
        });
        let columns = columns.collect();
        self.add(ScopeSource::new(Some(schema), alias, Some(table.clone()), columns))
    }

    pub fn add_derived(&mut self, alias: &str, columns: &[ColumnMeta], outer: bool) -> Result<u16> {
        let alias: Arc<str> = Arc::from(alias);
        let source = self.sources.len() as u16;
        let mut names = std::collections::HashSet::new();
        let mut list = Vec::with_capacity(columns.len());
        for (i, column) in columns.iter().enumerate() {
            // The parser makes a derived table without a name from a SELECT in parentheses.
            if !names.insert(column.name.to_lowercase()) && !alias.is_empty() {
                return Err(SqlError::duplicate_column(&column.name));
            }
            let mut meta = column.clone();
            meta.schema = Arc::from("");
            meta.table = alias.clone();
            meta.org_table = Arc::from("");
            meta.org_name = meta.name.clone();
            meta.ty.nullable |= outer;
            list.push(ScopeColumn {
                name: meta.name.clone(),
                meta,
                hidden: false,
                merged: false,
                expr: ExprKind::Column { source, column: i as u16 },
            });
        }
        self.add(ScopeSource::new(None, alias, None, list))
    }

    pub fn add(&mut self, source: ScopeSource) -> Result<u16> {
        self.check_unique(&source)?;
        let number = self.sources.len();
        let place = slot(number)?;
        self.star.extend(
            source.columns.iter().enumerate().filter(|(_, c)| !c.hidden).map(|(c, _)| (number, c)),
        );
        self.sources.push(source);
        Ok(place)
    }

    /// The sources that a prefix `t.` or `db.t.` means; all sources if there is no prefix.
    pub fn matching<'s>(
        &'s self,
        schema: Option<&'s str>,
        table: Option<&'s str>,
    ) -> impl Iterator<Item = (usize, &'s ScopeSource)> {
        let tables =
            self.sources.iter().enumerate().skip(self.seen_from).filter(|(_, s)| !s.hidden);
        let views = self.views.iter().enumerate().filter(|(_, v)| v.first >= self.seen_from);
        let views = views.map(|(n, v)| (FIRST_VIEW + n, &v.names));
        tables.chain(views).filter(move |(_, s)| {
            table.is_none_or(|t| *s.alias == *t)
                && schema.is_none_or(|want| {
                    s.schema
                        .as_deref()
                        .is_none_or(|have| have == want || is_schema(have) && is_schema(want))
                })
        })
    }

    /// The column that a name means. None if there is no such column; error 1052 if there are
    /// several.
    pub fn find(&self, name: &ColumnName, clause: Clause) -> Result<Option<(usize, usize)>> {
        let mut found = None;
        for (s, source) in self.matching(name.schema.as_deref(), name.table.as_deref()) {
            let Some(c) = source.column(&name.column) else { continue };
            if name.table.is_none() && source.columns[c].merged {
                continue;
            }
            if found.replace((s, c)).is_some() {
                return Err(SqlError::ambiguous_column(written(name), clause.name()));
            }
        }
        Ok(found)
    }

    pub fn column(&self, at: (usize, usize)) -> &ScopeColumn {
        &self.named(at.0).columns[at.1]
    }

    /// The column of what has names at a place.
    pub fn column_at(&self, place: usize, name: &str, clause: Clause) -> Result<Expr> {
        let Some(column) = self.named(place).column(name) else {
            return Err(SqlError::unknown_column(name, clause.name()));
        };
        let column = self.column((place, column));
        Ok(Expr::new(column.expr.clone(), column.ty()))
    }

    pub fn resolve(&self, name: &ColumnName, clause: Clause) -> Result<Expr> {
        match self.find(name, clause)? {
            Some(at) => {
                let column = self.column(at);
                Ok(Expr::new(column.expr.clone(), column.ty()))
            }
            None => Err(SqlError::unknown_column(written(name), clause.name())),
        }
    }
}

/// The name as it was written in the statement, for messages.
pub fn written(name: &ColumnName) -> String {
    [name.schema.as_deref(), name.table.as_deref(), Some(name.column.as_str())]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(".")
}
