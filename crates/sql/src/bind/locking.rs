//! FOR UPDATE, FOR SHARE and LOCK IN SHARE MODE: which clause locks the rows of which source.
use super::Binder;
use super::from::FromClause;
use super::scope::Scope;
use super::select::RawKind;
use crate::error::{Result, SqlError};
use crate::exec::show::quoted_name;
use crate::parse::ast;
use crate::plan::RowLock;

impl Binder<'_> {
    /// The lock of each source's rows. A clause without OF is for all tables, but not for derived
    /// tables. A table has one clause at most, as in MySQL.
    pub(super) fn row_locks(
        &self,
        clauses: &[ast::Lock],
        from: &FromClause,
        scope: &Scope,
    ) -> Result<Vec<RowLock>> {
        let mut locks = vec![None; from.sources.len()];
        for clause in clauses {
            if clause.of.is_empty() {
                for (s, source) in from.sources.iter().enumerate() {
                    let is_table = matches!(source.kind, RawKind::Table { .. });
                    if is_table && locks[s].replace(row_lock(clause)).is_some() {
                        return Err(SqlError::table_locked_twice(scope.alias_of(s)));
                    }
                }
            }
            for table in &clause.of {
                let place = scope.matching(table.schema.as_deref(), Some(&table.name)).next();
                let (place, _) =
                    place.ok_or_else(|| SqlError::unresolved_locked_table(quoted(table)))?;
                for s in scope.sources_of(place) {
                    if locks[s].replace(row_lock(clause)).is_some() {
                        return Err(SqlError::table_locked_twice(quoted(table)));
                    }
                }
            }
        }
        Ok(locks.into_iter().map(|lock| lock.unwrap_or(self.reads)).collect())
    }
}

pub(super) fn row_lock(lock: &ast::Lock) -> RowLock {
    if lock.exclusive { RowLock::Exclusive(lock.conflict) } else { RowLock::Share(lock.conflict) }
}

/// The name as the messages of these errors have it.
fn quoted(table: &ast::Name) -> String {
    let schema = table.schema.as_deref().map(|schema| quoted_name(schema) + ".");
    schema.unwrap_or_default() + &quoted_name(&table.name)
}
