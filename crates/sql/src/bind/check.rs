//! Binds CHECK constraints: their definitions, and the conditions that the rows of a statement must
//! pass.
//!
//! **CONSTRAINT-1** A condition is bound from the text of the dictionary (CHECKTEXT-1) in a context
//! of its own, so it means the same in each session. A definition is refused unless its text can be
//! bound so.
//! **CONSTRAINT-2** No condition has a subquery, a variable, or a function whose value depends on
//! more than the row and the session's time zone. It needs nothing but the row.
use super::check_text::{TextOf, Written, is_boolean};
use super::ddl::{check_characters, check_name};
use super::expr::Env;
use super::scope::{Clause, Scope};
use super::{BindContext, Binder};
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, ColumnName};
use crate::parse::charsets::TextCharsets;
use crate::plan::{Constraint, Constraints, Expr, ExprKind};
use crate::sql_mode::SqlMode;
use crate::table_info::TableInfo;
use redolith_types::{CheckDef, Collation, TableDef};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The most constraints of a table: each statement that writes rows binds them.
const MAX_CHECKS: usize = 4096;

impl Binder<'_> {
    /// The enforced constraints of a table, for a plan that writes its rows.
    pub(super) fn constraints(
        &mut self,
        table: &Arc<TableInfo>,
    ) -> Result<Option<Box<Constraints>>> {
        if !table.def.checks.iter().any(|check| check.enforced) {
            return Ok(None);
        }
        let scope = scope_of(table)?;
        let (mut list, mut columns) = (Vec::new(), BTreeSet::new());
        for check in table.def.checks.iter().filter(|check| check.enforced) {
            let condition = self.check_condition(&scope, check)?;
            columns.extend(columns_of(&condition));
            list.push(Constraint { name: check.name.as_str().into(), condition });
        }
        Ok(Some(Box::new(Constraints { list, columns: columns.into_iter().collect() })))
    }

    /// Binds a condition from its text (CONSTRAINT-1). Source 0 of the scope is the table.
    fn check_condition(&mut self, scope: &Scope, check: &CheckDef) -> Result<Expr> {
        let bound = self.kept_expression(&check.condition, |inner, condition| {
            inner.condition(&Env::new(scope, Clause::None), condition)
        })?;
        bound.ok_or_else(|| SqlError::check_nameless_function(&check.name))
    }

    /// Binds the text of an expression that the dictionary has (CHECKTEXT-1), in a context of its
    /// own. None if the expression needs more than a row (CONSTRAINT-2).
    pub(super) fn kept_expression(
        &mut self,
        text: &str,
        bind: impl FnOnce(&mut Binder<'_>, &ast::Expr) -> Result<Expr>,
    ) -> Result<Option<Expr>> {
        let text = format!("DO {text}");
        let mode = SqlMode(0);
        let parsed = self.parse_kept(text.as_bytes(), mode, TextCharsets::UTF8)?;
        let ast::Statement::Do(list) = &parsed.statement else {
            return Err(SqlError::internal("a definition's text that is no expression"));
        };
        let cx = BindContext {
            mode,
            collation: Collation::Utf8mb4GeneralCi,
            div_precision_increment: 4,
            untyped: &[],
            ..*self.cx
        };
        let mut inner = Binder::new(&parsed, &cx, false);
        inner.memory = self.memory;
        let bound = match &list[..] {
            [expression] => bind(&mut inner, expression),
            _ => Err(SqlError::internal("a definition's text of several expressions")),
        };
        self.memory = inner.memory;
        let bound = bound?;
        let needs_more = |e: &Expr| {
            matches!(
                e.kind,
                ExprKind::Subquery(_)
                    | ExprKind::SystemVariable { .. }
                    | ExprKind::Param(_)
                    | ExprKind::InsertedValue(_)
            ) || e.is_volatile_node()
        };
        // The dictionary's text was written by this server, but the file may be damaged.
        Ok((!bound.any(&needs_more)).then_some(bound))
    }

    /// Adds new constraints to a definition that has its columns, and names those without a name.
    pub(super) fn add_checks<'s>(
        &mut self,
        def: &mut TableDef,
        specs: impl IntoIterator<Item = &'s ast::CheckSpec>,
    ) -> Result<()> {
        let mut names: HashSet<String> =
            def.checks.iter().map(|check| check.name.to_ascii_lowercase()).collect();
        let mut numbers = def.next_check_number()..;
        for spec in specs {
            self.step(1)?;
            let name = match &spec.name {
                Some(name) => {
                    check_characters(name)?;
                    name.clone()
                }
                None => def.generated_check_name(numbers.next().unwrap_or(u64::MAX)),
            };
            check_name(&name).map_err(|e| {
                let wrong = || SqlError::new(1280, format!("Incorrect index name '{name}'"));
                e.unwrap_or_else(wrong)
            })?;
            if !names.insert(name.to_ascii_lowercase()) {
                return Err(SqlError::duplicate_check_name(&name));
            }
            let Written { text, columns, refused } =
                self.definition_text(TextOf::Check(&name), def, &spec.condition)?;
            let is_other = |column: &&ColumnName| {
                spec.column.as_ref().is_some_and(|own| !own.eq_ignore_ascii_case(&column.column))
            };
            if columns.iter().any(is_other) {
                return Err(SqlError::check_names_other_column(&name));
            }
            if !is_boolean(&spec.condition) {
                return Err(SqlError::check_not_boolean(&name));
            }
            if let Some(error) = refused {
                return Err(error);
            }
            if let Some(column) = columns.iter().find(|column| !is_of(column, def)) {
                return Err(SqlError::check_of_unknown_column(&name, &column.column));
            }
            if def.checks.len() >= MAX_CHECKS {
                return Err(SqlError::unsupported(format!(
                    "more than {MAX_CHECKS} CHECK constraints of a table"
                )));
            }
            def.checks.push(CheckDef { name, condition: text, enforced: spec.enforced });
        }
        if !def.checks.is_empty() {
            self.check_all_conditions(def)?;
        }
        Ok(())
    }

    /// Checks that all constraints of a definition, enforced or not, can be bound.
    fn check_all_conditions(&mut self, def: &TableDef) -> Result<()> {
        let scope = scope_of(&Arc::new(TableInfo::definition(def.clone())))?;
        for check in &def.checks {
            let condition = self.check_condition(&scope, check)?;
            let counts = |column: u16| def.columns[usize::from(column)].auto_increment;
            if columns_of(&condition).into_iter().any(counts) {
                return Err(SqlError::check_of_auto_increment(&check.name));
            }
        }
        Ok(())
    }

    /// The numbers of the columns that each constraint of an existing table reads.
    pub(super) fn columns_of_checks(
        &mut self,
        table: &Arc<TableInfo>,
    ) -> Result<Vec<BTreeSet<u16>>> {
        let scope = scope_of(table)?;
        let checks = table.def.checks.iter();
        checks.map(|check| Ok(columns_of(&self.check_condition(&scope, check)?))).collect()
    }
}

/// What an expression of the table's definition can name.
pub(super) fn scope_of(table: &Arc<TableInfo>) -> Result<Scope> {
    let mut scope = Scope::default();
    scope.add_table(table, None, false)?;
    Ok(scope)
}

pub(super) fn columns_of(condition: &Expr) -> BTreeSet<u16> {
    let mut columns = BTreeSet::new();
    condition.walk(&mut |e| {
        if let ExprKind::Column { column, .. } = e.kind {
            columns.insert(column);
        }
    });
    columns
}

/// Whether a name means a column of the table.
pub(super) fn is_of(name: &ColumnName, def: &TableDef) -> bool {
    let other = |given: &Option<String>, own: &str| given.as_deref().is_some_and(|g| g != own);
    def.column(&name.column).is_some()
        && !other(&name.table, &def.name)
        && !other(&name.schema, &def.schema)
}
