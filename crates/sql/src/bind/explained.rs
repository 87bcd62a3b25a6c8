//! EXPLAIN of a statement.
use super::Binder;
use crate::error::{Result, SqlError};
use crate::exec::BYTES_PER_STEP;
use crate::explain::{Format, Meter, explain};
use crate::parse::ast;
use crate::plan::Statement;

impl Meter for Binder<'_> {
    fn pay(&mut self, bytes: usize) -> Result<()> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > self.cx.bounds.memory {
            return Err(self.cx.bounds.exceeded());
        }
        self.step(bytes / BYTES_PER_STEP + 1)
    }
}

impl Binder<'_> {
    pub(super) fn explain(&mut self, explained: &ast::Explain) -> Result<Statement> {
        let format = explained.format.unwrap_or(self.cx.explain_format);
        if explained.analyze {
            check_format(explained.format, self.cx.explain_format)?;
        }
        let statement = self.pinned(|b| b.statement(&explained.statement))?;
        self.want_histograms();
        match statement {
            Statement::Select(mut select) if explained.analyze => {
                if !select.into.is_empty() || select.into_file.is_some() {
                    return Err(SqlError::unsupported("EXPLAIN ANALYZE with INTO"));
                }
                select.analyzed = true;
                Ok(Statement::Select(select))
            }
            _ if explained.analyze => {
                Err(SqlError::unsupported("EXPLAIN ANALYZE of a statement that changes rows"))
            }
            statement => {
                let (columns, rows) = explain(&statement, format, self)?;
                self.rows_columns = columns;
                Ok(Statement::Rows(rows))
            }
        }
    }
}

impl Binder<'_> {
    /// EXPLAIN shows what histograms tell also where the plan has no choice that needs them.
    fn want_histograms(&mut self) {
        let tables: Vec<_> = self.tables.iter().map(|used| used.table.clone()).collect();
        for table in tables.iter().filter(|table| self.cx.catalog.has_histograms(table)) {
            self.statistics(table);
        }
    }
}

/// EXPLAIN ANALYZE has one form, TREE. As in MySQL, `explain_format` may be TRADITIONAL, its
/// default.
fn check_format(format: Option<Format>, setting: Format) -> Result<()> {
    match (format, setting) {
        (Some(Format::Tree), _) | (None, Format::Tree | Format::Traditional) => Ok(()),
        (Some(Format::Traditional), _) => {
            Err(SqlError::unsupported("EXPLAIN ANALYZE with TRADITIONAL format"))
        }
        (Some(Format::Json), _) | (None, Format::Json) => {
            Err(SqlError::unsupported("EXPLAIN ANALYZE with JSON format"))
        }
    }
}
