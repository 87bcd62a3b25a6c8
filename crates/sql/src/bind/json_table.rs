//! Binds JSON_TABLE: its columns become the definition of a table, and the whole a SELECT of that
//! table's columns, which stands in the FROM clause like a LATERAL derived table.
//!
//! **JTAB-3** What stands for a missing or a wrong value is converted for its column here, so a
//! DEFAULT that the column cannot hold fails the statement whether or not a row needs it. At most
//! [`MAX_NESTED`] clauses NESTED may stand in a JSON_TABLE, as in MySQL: that bounds the walks over
//! them.
use super::column_def::ColumnContext;
use super::expr::Env;
use super::outer::Taken;
use super::result_columns::column_type;
use super::scope::{Clause, Scope};
use super::{Binder, slot};
use crate::error::{Result, SqlError};
use crate::exec::json_column::json_for_column;
use crate::parse::ast::{self, JsonTableColumnKind, JsonTablePart};
use crate::plan::{
    Expr, ExprKind, ExprType, JsonInstead, JsonTable, JsonTableColumn, JsonTableRows, SelectPlan,
    Source, SourceKind,
};
use crate::sink::{ColumnFlags, ColumnMeta};
use crate::table_info::TableInfo;
use redolith_types::json::{self, JsonRef, Path};
use redolith_types::sql_type::Sign;
use redolith_types::store::StoreMode;
use redolith_types::{Charset, Column, IntSize, SqlType, TableDef, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// MySQL counts the path of the JSON_TABLE itself among its 16 paths, and stops before the last.
const MAX_PATHS: usize = 16;
const MAX_NESTED: usize = MAX_PATHS - 2;

/// The columns so far.
struct Columns<'t> {
    list: Vec<Column>,
    names: HashSet<String>,
    nested: usize,
    alias: &'t str,
}

impl Binder<'_> {
    /// Binds a JSON_TABLE. `env` has the tables before it. Returns also what the document takes
    /// from them.
    pub(super) fn json_table(
        &mut self,
        env: &Env<'_>,
        table: &ast::JsonTable,
        alias: &str,
    ) -> Result<(SelectPlan, Vec<Expr>)> {
        let mut columns = Columns { list: Vec::new(), names: HashSet::new(), nested: 0, alias };
        let rows = self.json_table_rows(&table.rows, &mut columns)?;
        let (document, outer) = self.json_table_document(env, &table.document)?;
        let def = TableDef {
            schema: String::new(),
            name: alias.to_string(),
            columns: columns.list,
            indexes: Vec::new(),
            collation: self.cx.collation,
            comment: String::new(),
            checks: Vec::new(),
            statistics: Default::default(),
        };
        let (mut output, mut metas) = (Vec::new(), Vec::new());
        for (n, column) in def.columns.iter().enumerate() {
            let ty = column_type(column);
            output.push(Expr::new(ExprKind::Column { source: 0, column: slot(n)? }, ty));
            let mut meta = ColumnMeta::expression(&column.name, ty);
            meta.flags.set(ColumnFlags::ZEROFILL, ty.zerofill);
            metas.push(meta);
        }
        let info = Arc::new(TableInfo::definition(def));
        let kind = SourceKind::JsonTable(Box::new(JsonTable { document, info, rows }));
        let source = Source {
            kind,
            alias: alias.into(),
            nest: None,
            filter: None,
            lookup: None,
            by_index: None,
        };
        let mut plan = SelectPlan::of_outputs(output);
        (plan.sources, plan.columns) = (vec![source], metas);
        Ok((plan, outer))
    }

    /// The document sees what a LATERAL derived table sees.
    fn json_table_document(
        &mut self,
        env: &Env<'_>,
        document: &ast::Expr,
    ) -> Result<(Expr, Vec<Expr>)> {
        let aggregates = self.aggregates.take();
        self.around_aggregates.push(aggregates);
        self.taken.push(Taken::default());
        let scope = Scope::default();
        let inside = Env { outer: Some(env), ..Env::new(&scope, Clause::TableFunction) };
        let bound = self.expr(&inside, document);
        let taken = self.taken.pop().unwrap_or_default();
        self.aggregates = self.around_aggregates.pop().flatten();
        let bound = bound?;
        if bound.any(&|e| matches!(e.kind, ExprKind::Subquery(_))) {
            return Err(SqlError::wrong_arguments("JSON_TABLE"));
        }
        self.learn(&bound, &ExprType::string(16_777_215, self.cx.collation));
        Ok((bound, taken.list))
    }

    fn json_table_rows(
        &mut self,
        rows: &ast::JsonTableRows,
        columns: &mut Columns<'_>,
    ) -> Result<JsonTableRows> {
        let path = self.json_table_path(&rows.path)?;
        let mut bound = JsonTableRows { path, columns: Vec::new(), nested: Vec::new() };
        for part in &rows.parts {
            match part {
                JsonTablePart::Column(column) => {
                    let place = slot(columns.list.len())?;
                    let column = self.json_table_column(column, columns)?;
                    bound.columns.push((place, column));
                }
                JsonTablePart::Nested(nested) => {
                    columns.nested += 1;
                    if columns.nested > MAX_NESTED {
                        return Err(SqlError::json_table_nested(MAX_PATHS, columns.alias));
                    }
                    bound.nested.push(self.json_table_rows(nested, columns)?);
                }
            }
        }
        Ok(bound)
    }

    fn json_table_column(
        &mut self,
        column: &ast::JsonTableColumn,
        columns: &mut Columns<'_>,
    ) -> Result<JsonTableColumn> {
        self.charge(size_of::<Column>() + size_of::<JsonTableColumn>() + column.name.len())?;
        let name = &column.name;
        if name.is_empty() || name.ends_with(' ') {
            return Err(SqlError::wrong_column_name(name));
        }
        let (def, bound) = match &column.kind {
            JsonTableColumnKind::Ordinality => {
                let sign = Sign { unsigned: true, zerofill: false };
                let ty = SqlType::Int { size: IntSize::Big, sign, display: None };
                (Column::new(name.clone(), ty), JsonTableColumn::Ordinality)
            }
            JsonTableColumnKind::Exists { ty, path } => {
                let def = self.json_table_def(name, ty)?;
                (def, JsonTableColumn::Exists(self.json_table_path(path)?))
            }
            JsonTableColumnKind::Value { ty, path, on_empty, on_error } => {
                let def = self.json_table_def(name, ty)?;
                let path = self.json_table_path(path)?;
                let on_empty = self.json_instead(on_empty, &def)?;
                let on_error = self.json_instead(on_error, &def)?;
                (def, JsonTableColumn::Value { path, on_empty, on_error })
            }
        };
        if !columns.names.insert(name.to_lowercase()) {
            return Err(SqlError::duplicate_column(name));
        }
        columns.list.push(Column { nullable: true, ..def });
        Ok(bound)
    }

    fn json_table_def(&mut self, name: &str, ty: &ast::DataType) -> Result<Column> {
        let context = ColumnContext { table: self.cx.collation };
        Ok(Column::new(name.to_string(), self.column_type(ty, name, &context)?))
    }

    fn json_table_path(&mut self, path: &ast::Expr) -> Result<Path<'static>> {
        let text = self.json_table_literal(path)?;
        let text =
            std::str::from_utf8(&text).map_err(|e| SqlError::invalid_json_path(e.valid_up_to()))?;
        match Path::parse(text) {
            Ok(path) => Ok(path.into_owned()),
            Err(at) => Err(SqlError::invalid_json_path(at)),
        }
    }

    /// The text of a literal in UTF-8.
    fn json_table_literal(&mut self, literal: &ast::Expr) -> Result<Vec<u8>> {
        let scope = Scope::default();
        let bound = self.pinned(|b| b.expr(&Env::new(&scope, Clause::None), literal))?;
        let Some(value) = bound.as_literal().filter(|value| !value.is_null()) else {
            return Err(self.syntax_at(literal.span));
        };
        let text = match value {
            Value::Bytes(text) => {
                bound.ty.collation.charset().convert_lossy(text, Charset::Utf8mb4)
            }
            value => value.to_bytes(),
        };
        self.charge(text.len())?;
        Ok(text.into_owned())
    }

    fn json_instead(&mut self, instead: &ast::JsonInstead, column: &Column) -> Result<JsonInstead> {
        let default = match instead {
            ast::JsonInstead::Null => return Ok(JsonInstead::Null),
            ast::JsonInstead::Error => return Ok(JsonInstead::Error),
            ast::JsonInstead::Default(default) => default,
        };
        let invalid = || SqlError::invalid_default(&column.name);
        let text = self.json_table_literal(default)?;
        self.charge(json::parse_cost(&text))?;
        let document = json::parse(&text).and_then(|json| json.to_binary());
        let document = document.map_err(|_| invalid())?;
        let value = JsonRef::new(&document)?;
        if column.ty != SqlType::Json && value.container()?.is_some() {
            return Err(invalid());
        }
        json_for_column(value, column, StoreMode { strict: true, ..StoreMode::LENIENT })?;
        Ok(JsonInstead::Default(document.into()))
    }
}
