//! Derives expression types and the metadata of result columns from the columns of tables.
use crate::plan::expr_type::NOT_FIXED_DECIMALS;
use crate::plan::{Coercibility, ExprType, Kind};
use crate::sink::{ColumnFlags, ColumnMeta};
use crate::table_info::TableInfo;
use redolith_types::{Collation, Column, IntSize, SqlType, TableDef};
use std::sync::Arc;

/// The type of a column used as an expression.
pub fn column_type(column: &Column) -> ExprType {
    ExprType { nullable: column.nullable, ..sql_type(&column.ty) }
}

/// The type of an expression for a column type; not nullable.
pub fn sql_type(ty: &SqlType) -> ExprType {
    let numeric = |kind, length, decimals| ExprType {
        kind,
        unsigned: ty.is_unsigned(),
        nullable: false,
        decimals,
        coercibility: Coercibility::Numeric,
        collation: Collation::Binary,
        length,
        zerofill: ty.is_zerofill(),
    };
    let text = |kind, length, collation| ExprType {
        coercibility: Coercibility::Implicit,
        collation,
        unsigned: false,
        ..numeric(kind, length, 0)
    };
    let fraction = |fsp: u8| if fsp > 0 { fsp as u32 + 1 } else { 0 };
    match ty {
        SqlType::Int { size, sign, display } => {
            let kind = match size {
                IntSize::Tiny => Kind::TinyInt,
                IntSize::Small => Kind::SmallInt,
                IntSize::Medium => Kind::MediumInt,
                IntSize::Int => Kind::Int,
                IntSize::Big => Kind::BigInt,
            };
            numeric(kind, display.unwrap_or(size.default_display(sign.unsigned)) as u32, 0)
        }
        SqlType::Decimal { precision, scale, sign } => {
            let length = *precision as u32 + (*scale > 0) as u32 + !sign.unsigned as u32;
            numeric(Kind::Decimal, length, *scale)
        }
        SqlType::Float { digits, .. } => numeric(
            Kind::Float,
            digits.map_or(12, |d| d.0 as u32),
            digits.map_or(NOT_FIXED_DECIMALS, |d| d.1),
        ),
        SqlType::Double { digits, .. } => numeric(
            Kind::Double,
            digits.map_or(22, |d| d.0 as u32),
            digits.map_or(NOT_FIXED_DECIMALS, |d| d.1),
        ),
        SqlType::Char { chars, collation } => text(Kind::Char, *chars, *collation),
        SqlType::VarChar { chars, collation } => text(Kind::VarChar, *chars, *collation),
        // The limit of a TEXT is a number of bytes. The length in characters is that number divided
        // by the greatest length of a character.
        SqlType::Text { size, collation } => {
            let chars = size.max_bytes() / u64::from(collation.charset().max_len());
            text(Kind::Blob, chars as u32, *collation)
        }
        SqlType::Binary { len } => text(Kind::Char, *len, Collation::Binary),
        SqlType::VarBinary { len } => text(Kind::VarChar, *len, Collation::Binary),
        SqlType::Blob { size } => {
            text(Kind::Blob, size.max_bytes().min(u32::MAX as u64) as u32, Collation::Binary)
        }
        SqlType::Date => numeric(Kind::Date, 10, 0),
        SqlType::Time { fsp } => numeric(Kind::Time, 10 + fraction(*fsp), *fsp),
        SqlType::DateTime { fsp } => numeric(Kind::DateTime, 19 + fraction(*fsp), *fsp),
        SqlType::Timestamp { fsp } => numeric(Kind::Timestamp, 19 + fraction(*fsp), *fsp),
        SqlType::Year => ExprType { unsigned: true, ..numeric(Kind::Year, 4, 0) },
        SqlType::Bit { bits } => ExprType { unsigned: true, ..numeric(Kind::Bit, *bits as u32, 0) },
        SqlType::Enum { names, collation } => text(
            Kind::Enum,
            names.iter().map(|n| n.chars().count()).max().unwrap_or(0) as u32,
            *collation,
        ),
        SqlType::Set { names, collation } => {
            let chars: usize = names.iter().map(|n| n.chars().count() + 1).sum();
            text(Kind::Set, chars.saturating_sub(1) as u32, *collation)
        }
        SqlType::Json => ExprType::json().nullable(false),
    }
}

/// The metadata of a table's column in a result. `alias` is the table's name in the statement.
pub fn column_meta(
    table: &TableInfo,
    alias: &Arc<str>,
    column: usize,
    name: Option<&str>,
) -> ColumnMeta {
    let mut meta = table.metas()[column].clone();
    meta.table = alias.clone();
    if let Some(name) = name {
        meta.name = Arc::from(name);
    }
    meta
}
/// The metadata of all columns of a table, under the table's own name.
pub fn table_metas(table: &TableDef) -> Box<[ColumnMeta]> {
    let [schema, name]: [Arc<str>; 2] = [Arc::from(&*table.schema), Arc::from(&*table.name)];
    let meta = |(n, column): (usize, &Column)| {
        let (of_column, ty): (Arc<str>, _) = (Arc::from(&*column.name), column_type(column));
        ColumnMeta {
            schema: schema.clone(),
            table: name.clone(),
            org_table: name.clone(),
            name: of_column.clone(),
            org_name: of_column,
            flags: column_flags(table, n, &ty),
            ty,
        }
    };
    table.columns.iter().enumerate().map(meta).collect()
}

fn column_flags(table: &TableDef, column: usize, ty: &ExprType) -> ColumnFlags {
    let def = &table.columns[column];
    let mut flags = ColumnFlags::of_type(ty);
    flags.set(ColumnFlags::NOT_NULL, !def.nullable);
    flags.set(ColumnFlags::AUTO_INCREMENT, def.auto_increment);
    flags.set(
        ColumnFlags::NO_DEFAULT,
        !def.nullable && def.default.is_none() && !def.auto_increment,
    );
    flags.set(ColumnFlags::TIMESTAMP, def.on_update_now);
    flags.set(ColumnFlags::ON_UPDATE_NOW, def.on_update_now);
    flags.set(ColumnFlags::ZEROFILL, ty.zerofill);
    for index in &table.indexes {
        match index.columns.iter().position(|c| c.column == column) {
            Some(_) if index.primary => {
                flags.set(ColumnFlags::PRIMARY_KEY | ColumnFlags::PART_KEY, true)
            }
            Some(0) if index.unique && index.columns.len() == 1 => {
                flags.set(ColumnFlags::UNIQUE_KEY | ColumnFlags::PART_KEY, true)
            }
            Some(0) => flags.set(ColumnFlags::MULTIPLE_KEY | ColumnFlags::PART_KEY, true),
            Some(_) => flags.set(ColumnFlags::PART_KEY, true),
            None => {}
        }
    }
    flags
}
