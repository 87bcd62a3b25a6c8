//! Binds UPDATE and DELETE of several tables.
use super::Binder;
use super::dml::not_read_from;
use super::expr::Env;
use super::from::FromClause;
use super::hash_join;
use super::insert::is_default_of_generated;
use super::scope::{Clause, Scope, written};
use super::select::{FOR_CHANGE, RawKind, flatten};
use super::subquery::check_effects_of;
use crate::error::{Result, SqlError};
use crate::parse::ast;
use crate::plan::{Assignment, Covering, Expr, ExprKind, ManyPlan, SelectPlan, SourceKind, Target};
use crate::table_info::TableInfo;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of the statement before its conditions are placed.
struct Joined {
    scope: Scope,
    from: FromClause,
}

impl Joined {
    /// The table of a source; error 1288 if it is a derived table. `verb` is UPDATE or DELETE.
    fn table(&self, source: usize, verb: &str) -> Result<Arc<TableInfo>> {
        match &self.from.sources[source].kind {
            RawKind::Table { table, .. } => Ok(table.clone()),
            _ => Err(SqlError::not_updatable(self.scope.alias_of(source), verb)),
        }
    }
}

impl Binder<'_> {
    pub(super) fn update_many(&mut self, update: &ast::Update) -> Result<ManyPlan> {
        if !update.order.is_empty() {
            return Err(SqlError::wrong_usage("UPDATE", "ORDER BY"));
        }
        if update.limit.count.is_some() {
            return Err(SqlError::wrong_usage("UPDATE", "LIMIT"));
        }
        let joined = self.joined(&update.tables)?;
        let mut targets: BTreeMap<u16, Target> = BTreeMap::new();
        let scope = &joined.scope;
        let mut assigned: Vec<Vec<bool>> =
            scope.sources.iter().map(|source| vec![false; source.columns.len()]).collect();
        let env = Env::new(scope, Clause::Fields);
        // The table of each view that the statement changes.
        let mut tables_of_views = BTreeMap::new();
        for (name, value) in &update.assignments {
            let Some(at) = scope.find(name, Clause::Fields)? else {
                return Err(SqlError::unknown_column(written(name), Clause::Fields.name()));
            };
            let Some((s, column)) = scope.base_column(at) else {
                return Err(SqlError::column_not_updatable(&name.column));
            };
            if scope.is_view(at.0) && *tables_of_views.entry(at.0).or_insert(s) != s {
                let view = scope.named(at.0);
                let schema = view.schema.as_deref().unwrap_or_default();
                return Err(SqlError::view_of_several_tables(format!("{schema}.{}", view.alias)));
            }
            let table = joined.table(s, "UPDATE")?;
            if is_default_of_generated(&table.def, column, value)? {
                continue;
            }
            let value = match &value.kind {
                ast::ExprKind::Default(None) => self.column_default(&table, column)?,
                _ => self.value_for(&env, &table, column, value)?,
            };
            let source = s as u16;
            let reads_assigned = value.any(&|e| match e.kind {
                ExprKind::Column { source: s, column } if s == source => {
                    assigned[s as usize][column as usize]
                }
                _ => false,
            });
            assigned[s][column] = true;
            let target = targets.entry(source).or_insert_with(|| Target {
                source,
                table,
                assignments: Vec::new(),
                on_update_now: Vec::new(),
                constraints: None,
                generated_columns: None,
            });
            let column = column as u16;
            target.assignments.push(Assignment { column, value, reads_assigned });
        }
        for (source, target) in &mut targets {
            target.constraints = self.constraints(&target.table)?;
            let set = &assigned[*source as usize];
            target.on_update_now = (0..set.len())
                .filter(|&c| target.table.def.columns[c].on_update_now && !set[c])
                .map(|c| c as u16)
                .collect();
            let changed = target.assignments.iter().map(|a| a.column);
            let changed = changed.chain(target.on_update_now.iter().copied());
            target.generated_columns = self.recalculated(&target.table, changed)?;
        }
        let targets: Vec<Target> = targets.into_values().collect();
        key_is_changed_twice(scope, &targets)?;
        self.change(joined, update.filter.as_ref(), targets, update.ignore)
    }

    pub(super) fn delete_many(&mut self, delete: &ast::Delete) -> Result<ManyPlan> {
        let joined = self.joined(&delete.tables)?;
        let mut targets: BTreeMap<u16, Target> = BTreeMap::new();
        for name in &delete.targets {
            let mut found = joined.scope.matching(name.schema.as_deref(), Some(&name.name));
            let Some((place, named)) = found.next() else {
                return Err(SqlError::unknown_target(&name.name));
            };
            let mut sources = joined.scope.sources_of(place);
            let (Some(s), None) = (sources.next(), sources.next()) else {
                let schema = named.schema.as_deref().unwrap_or_default();
                return Err(SqlError::delete_from_join_view(schema, &named.alias));
            };
            let table = joined.table(s, "DELETE")?;
            let source = s as u16;
            let (assignments, on_update_now) = (Vec::new(), Vec::new());
            let (constraints, generated_columns) = (None, None);
            let target = Target {
                source,
                table,
                assignments,
                on_update_now,
                constraints,
                generated_columns,
            };
            if targets.insert(source, target).is_some() {
                return Err(SqlError::not_unique_table(&name.name));
            }
        }
        let targets = targets.into_values().collect();
        self.change(joined, delete.filter.as_ref(), targets, delete.ignore)
    }

    fn joined(&mut self, tables: &[ast::TableFactor]) -> Result<Joined> {
        let mut scope = Scope::default();
        let select = ast::Select { from: tables.to_vec(), ..ast::Select::default() };
        let from = self.from(&select, &mut scope, None)?;
        if !from.checks.is_empty() {
            return Err(SqlError::unsupported(
                "a view WITH CHECK OPTION in UPDATE or DELETE of several tables",
            ));
        }
        Ok(Joined { scope, from })
    }

    fn change(
        &mut self,
        joined: Joined,
        filter: Option<&ast::Expr>,
        targets: Vec<Target>,
        ignore: bool,
    ) -> Result<ManyPlan> {
        let Joined { scope, from } = joined;
        self.aggregates = None;
        let mut conjuncts = Vec::new();
        if let Some(filter) = filter {
            let filter = self.condition(&Env::new(&scope, Clause::Where), filter)?;
            flatten(self.with_zero_dates(filter, &scope)?, &mut conjuncts);
        }
        let output: Vec<Expr> =
            targets.iter().flat_map(|t| &t.assignments).map(|a| a.value.clone()).collect();
        self.charge(output.len())?;
        for target in &targets {
            conjuncts
                .iter()
                .chain(from.all_conditions())
                .chain(&output)
                .try_for_each(|e| not_read_from(e, &target.table))?;
        }
        let chained = targets.iter().flat_map(|t| &t.assignments).any(|a| a.reads_assigned);
        let conditions = conjuncts.iter().chain(from.all_conditions());
        check_effects_of(conditions, output.iter(), chained)?;
        let dependent =
            conjuncts.iter().chain(from.all_conditions()).chain(&output).any(Expr::has_dependent);
        let mut select = SelectPlan { dependent, ..SelectPlan::of_outputs(output) };
        let locks = vec![self.reads; from.sources.len()];
        self.place(&mut select, from, conjuncts, &locks, &scope)?;
        for target in &targets {
            let source = &mut select.sources[target.source as usize];
            debug_assert!(source.by_index.is_none(), "joins are not ordered here");
            if let SourceKind::Table(access) = &mut source.kind {
                access.lock = FOR_CHANGE;
                // The change needs the whole row, so an index is never enough.
                access.path.covering = Covering::No;
            }
            self.writes(&target.table);
        }
        // After the locks, which say what is changed (HASH-2).
        hash_join::find(&mut select);
        Ok(ManyPlan { select, targets, ignore })
    }

    /// Notes that the statement changes the table.
    pub(super) fn writes(&mut self, table: &Arc<TableInfo>) {
        self.tables
            .iter_mut()
            .filter(|used| Arc::ptr_eq(&used.table, table))
            .for_each(|used| used.write = true);
    }
}

/// Error 1706: a row that is found by its key under one alias must not get another key under the
/// other.
fn key_is_changed_twice(scope: &Scope, targets: &[Target]) -> Result<()> {
    let changes_key = |target: &Target| {
        let def = &target.table.def;
        let mut columns =
            def.clustered_index().into_iter().flat_map(|i| def.indexes[i].columns.iter());
        columns.any(|part| target.assignments.iter().any(|a| a.column as usize == part.column))
    };
    for (n, one) in targets.iter().enumerate() {
        for other in &targets[n + 1..] {
            let is_same = Arc::ptr_eq(&one.table, &other.table);
            if is_same && (changes_key(one) || changes_key(other)) {
                let [a, b] = [one, other].map(|t| &scope.sources[t.source as usize].alias);
                return Err(SqlError::key_changed_twice(a, b));
            }
        }
    }
    Ok(())
}
