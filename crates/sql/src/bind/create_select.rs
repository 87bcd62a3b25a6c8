//! Binds CREATE TABLE .. SELECT: which columns the new table gets from the SELECT.
//!
//! **CTAS-1** A column of the SELECT is a column of the table, behind the given columns that the
//! SELECT does not have. If a given column has its name, the column is defined as given. Otherwise
//! a column of a table keeps its type, default, comment and ON UPDATE, but neither its indexes nor
//! AUTO_INCREMENT, whose values begin with a default of 0; the column is visible, and can be NULL
//! where the SELECT's can (an outer join). Any other expression gives a column of its type.
use super::Binder;
use super::expr::as_number;
use super::generated_columns::refuse_values;
use crate::bind::enum_set::give_number;
use crate::error::{Result, SqlError};
use crate::parse::ast;
use crate::parse::limits::MAX_COLUMNS;
use crate::plan::{
    CreateSelect, CreateTable, Expr, ExprKind, ExprType, Fill, InsertPlan, InsertRows, Kind,
    MemberNames, OnDuplicate, SelectPlan, SourceKind,
};
use crate::table_info::TableInfo;
use redolith_types::sql_type::Sign;
use redolith_types::{Collation, Column, DefaultValue, IntSize, LobSize, SqlType, TableDef};
use std::sync::Arc;

/// A longer string becomes a TEXT or a BLOB. (MySQL, `CONVERT_IF_BIGGER_TO_BLOB`)
const LONGEST_VARCHAR: u32 = 512;
/// From this length on, an integer needs a BIGINT. (MySQL, `MY_INT32_NUM_DECIMAL_DIGITS`)
const BIGINT_LENGTH: u32 = 11;
/// The most digits of a DECIMAL.
const MOST_DIGITS: u32 = 65;

impl Binder<'_> {
    /// The SELECT of a statement that makes a table of its rows.
    pub(super) fn select_for_table(&mut self, select: &ast::Select) -> Result<SelectPlan> {
        let select = self.select(select, None)?;
        if !select.into.is_empty() || select.into_file.is_some() {
            return Err(SqlError::unsupported("INTO in CREATE TABLE ... SELECT"));
        }
        Ok(select)
    }

    /// Adds the SELECT's columns to the given columns (CTAS-1). `nullable` has for each column what
    /// its definition says.
    pub(super) fn add_selected(
        &mut self,
        def: &mut TableDef,
        nullable: &mut Vec<Option<bool>>,
        select: &SelectPlan,
    ) -> Result<()> {
        if select.visible > MAX_COLUMNS {
            return Err(SqlError::too_many_columns());
        }
        let mut selected = Vec::with_capacity(select.visible);
        for (output, meta) in select.output.iter().zip(&select.columns).take(select.visible) {
            self.step(selected.len() + 1)?;
            // The name may be the text of an expression. As in MySQL, it is converted to utf8mb3.
            let name = meta.name.replace(|c| c > '\u{ffff}', "?");
            if selected.iter().any(|(c, _): &(Column, _)| c.name.eq_ignore_ascii_case(&name)) {
                return Err(SqlError::duplicate_column(&name));
            }
            super::ddl::check_column_name(&name)?;
            let column = match def.column(&name) {
                Some(given) => {
                    let said = nullable.remove(given);
                    (Column { name, ..def.columns.remove(given) }, said)
                }
                None => (column_of(&name, select, output), None),
            };
            selected.push(column);
        }
        if def.columns.len() + selected.len() > MAX_COLUMNS {
            return Err(SqlError::too_many_columns());
        }
        for (column, said) in selected {
            def.columns.push(column);
            nullable.push(said);
        }
        Ok(())
    }

    /// The whole plan, from the definition with all its columns.
    pub(super) fn create_select(
        &mut self,
        create: CreateTable,
        mut select: SelectPlan,
        on_duplicate: ast::OnTaken,
    ) -> Result<CreateSelect> {
        let table = Arc::new(TableInfo::definition(create.def.clone()));
        let columns: Vec<usize> =
            (table.def.columns.len() - select.visible..table.def.columns.len()).collect();
        let members = fit_outputs(&table, &columns, &mut select);
        refuse_values(&table.def, columns.iter().copied())?;
        let (fill, defaults) = self.fill(&table, &columns)?;
        let constraints = self.constraints(&table)?;
        let generated_columns = self.generated_columns(&table)?;
        let insert = InsertPlan {
            table,
            rows: InsertRows::Select { select: Box::new(select), buffer: false, members },
            fill,
            defaults,
            on_duplicate: match on_duplicate {
                ast::OnTaken::Replace => OnDuplicate::Replace,
                ast::OnTaken::Error | ast::OnTaken::Ignore => OnDuplicate::Error,
            },
            ignore: on_duplicate == ast::OnTaken::Ignore,
            check: None,
            constraints,
            generated_columns,
            names_columns: false,
        };
        debug_assert!(
            insert.fill.iter().filter(|fill| matches!(fill, Fill::Given(_))).count()
                == columns.len(),
            "CTAS-1"
        );
        Ok(CreateSelect { create, insert })
    }
}

/// Makes outputs numbers that go to columns of numbers: an ENUM its number, a hexadecimal literal
/// the number of its bytes. An ENUM for an ENUM is its number, too, which tells the error value
/// from an empty name; returns the names (`InsertRows::Select`).
pub(super) fn fit_outputs(
    table: &TableInfo,
    columns: &[usize],
    select: &mut SelectPlan,
) -> Vec<Option<MemberNames>> {
    let mut members = Vec::new();
    for (given, column) in columns.iter().enumerate() {
        let ty = &table.def.columns[*column].ty;
        if matches!(ty, SqlType::Enum { .. }) && select.output[given].ty.kind == Kind::Enum {
            members.resize(given, None);
            members.push(give_number(select, given).map(|(_, names)| names));
            continue;
        }
        if ty.is_numeric() || matches!(ty, SqlType::Year | SqlType::Bit { .. }) {
            give_number(select, given);
            let output = &mut select.output[given];
            if matches!(output.kind, ExprKind::Hex(_)) {
                *output = as_number(output.clone());
            }
        }
    }
    members
}

/// The column that an output gives.
fn column_of(name: &str, select: &SelectPlan, output: &Expr) -> Column {
    let nullable = output.ty.nullable;
    let Some((table, no)) = origin(select, output) else {
        let ty = type_of(&output.ty);
        let mut column = Column::new(name, ty);
        column.nullable = nullable;
        column.default = if nullable { None } else { zero_text(&column.ty) };
        return column;
    };
    let mut column = table.def.columns[no].clone();
    if column.auto_increment {
        column.default = Some(DefaultValue::Literal(b"0".to_vec()));
    }
    (column.name, column.nullable) = (name.to_string(), nullable);
    (column.auto_increment, column.invisible) = (false, false);
    // As in MySQL, the values of a generated column are those of an ordinary one in the new table.
    column.generation = None;
    column
}

/// The column of a table that an expression only passes on.
fn origin<'p>(select: &'p SelectPlan, e: &'p Expr) -> Option<(&'p TableInfo, usize)> {
    match &e.kind {
        ExprKind::Column { source, column } => {
            let column = usize::from(*column);
            match &select.sources.get(usize::from(*source))?.kind {
                SourceKind::Table(access) => Some((&access.table, column)),
                SourceKind::JsonTable(table) => Some((&table.info, column)),
                SourceKind::Derived(inner) | SourceKind::Lateral { plan: inner, .. } => {
                    origin(inner, inner.output.get(column)?)
                }
                // The values of windows follow the columns of the SELECT below.
                SourceKind::Windows(stage) => origin(&stage.inner, stage.inner.output.get(column)?),
                SourceKind::Union(_)
                | SourceKind::Combined(_)
                | SourceKind::Recursive(_)
                | SourceKind::Iteration { .. }
                | SourceKind::Virtual(_) => None,
            }
        }
        ExprKind::Member { table, column, .. } => Some((table, usize::from(*column))),
        ExprKind::GroupKey(n) => {
            origin(select, select.grouping.as_ref()?.keys.get(usize::from(*n))?)
        }
        _ => None,
    }
}

/// The type of a column that holds an expression's values.
fn type_of(ty: &ExprType) -> SqlType {
    let sign = Sign { unsigned: ty.unsigned, zerofill: false };
    let int = |size| SqlType::Int { size, sign, display: None };
    let fsp = ty.decimals.min(6);
    match ty.kind {
        Kind::Null => SqlType::Binary { len: 0 },
        Kind::TinyInt => int(IntSize::Tiny),
        Kind::SmallInt => int(IntSize::Small),
        Kind::MediumInt => int(IntSize::Medium),
        Kind::BigInt if ty.length >= BIGINT_LENGTH => int(IntSize::Big),
        Kind::Int | Kind::BigInt => int(IntSize::Int),
        Kind::Float => SqlType::Float { digits: None, sign },
        Kind::Double => SqlType::Double { digits: None, sign },
        Kind::Decimal => {
            let scale = ty.decimals.min(30);
            let beside = u32::from(!ty.unsigned) + u32::from(scale > 0);
            let most = ty.length.saturating_sub(beside).max(u32::from(scale)).max(1);
            SqlType::Decimal { precision: most.min(MOST_DIGITS) as u8, scale, sign }
        }
        Kind::Year => SqlType::Year,
        Kind::Bit => SqlType::Bit { bits: ty.length.clamp(1, 64) as u8 },
        Kind::Date => SqlType::Date,
        Kind::Time => SqlType::Time { fsp },
        Kind::DateTime => SqlType::DateTime { fsp },
        Kind::Timestamp => SqlType::Timestamp { fsp },
        Kind::Json => SqlType::Json,
        Kind::Char | Kind::VarChar | Kind::Enum | Kind::Set | Kind::Blob => string_type(ty),
    }
}

fn string_type(ty: &ExprType) -> SqlType {
    let (chars, collation) = (ty.length, ty.collation);
    let binary = collation == Collation::Binary;
    if ty.kind != Kind::Blob && chars <= LONGEST_VARCHAR {
        return match (chars, binary) {
            (0, true) => SqlType::Binary { len: 0 },
            (0, false) => SqlType::Char { chars, collation },
            (_, true) => SqlType::VarBinary { len: chars },
            (_, false) => SqlType::VarChar { chars, collation },
        };
    }
    let bytes = u64::from(chars) * u64::from(collation.charset().max_len());
    let size = [LobSize::Tiny, LobSize::Normal, LobSize::Medium]
        .into_iter()
        .find(|size| bytes <= size.max_bytes())
        .unwrap_or(LobSize::Long);
    if binary { SqlType::Blob { size } } else { SqlType::Text { size, collation } }
}

/// The default of a NOT NULL column that comes from an expression: the type's zero. A date has
/// none, since the zero date is no valid default, and a TEXT or BLOB cannot have one.
fn zero_text(ty: &SqlType) -> Option<DefaultValue> {
    let text: String = match ty {
        SqlType::Decimal { scale, .. } if *scale > 0 => {
            format!("0.{}", "0".repeat(usize::from(*scale)))
        }
        SqlType::Year => "0000".into(),
        SqlType::Time { fsp: 0 } => "00:00:00".into(),
        SqlType::Time { fsp } => format!("00:00:00.{}", "0".repeat(usize::from(*fsp))),
        SqlType::Bit { .. } => return None,
        _ if ty.is_numeric() => "0".into(),
        _ if ty.is_lob() => return None,
        _ if ty.is_string() => String::new(),
        _ => return None,
    };
    Some(DefaultValue::Literal(text.into_bytes()))
}
