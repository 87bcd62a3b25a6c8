//! How the rows of a table are reached, in the words of the traditional form.
use super::estimate::rows_per_key;
use super::place::Place;
use crate::plan::{AccessKind, AccessPath, Covering, Expr, ExprKind, TableAccess, UnionPart};
use redolith_types::{Collation, Column, SqlType};

/// The access to a table.
pub(super) struct How<'p> {
    /// `type`
    pub ty: &'static str,
    pub possible: Vec<&'p str>,
    pub key: Option<&'p str>,
    /// The number of the key's columns that bounds have.
    pub key_parts: usize,
    pub key_len: u64,
    /// The indexes of a union, with the `key_len` of each.
    pub union: Vec<(&'p str, u64)>,
    /// What the key's columns are compared with, for each column.
    pub reference: Vec<String>,
    /// The rows that one scan reads.
    pub rows: u64,
}

impl<'p> How<'p> {
    pub fn of(access: &'p TableAccess, place: &Place<'_, 'p>, changes: bool) -> How<'p> {
        let def = &access.table.def;
        if let AccessKind::Union(parts) = &access.path.kind {
            return How::of_union(access, parts, place, changes);
        }
        let ty = access_type(access, changes);
        let total = access.table.rows().max(1);
        let key = access.path.index.filter(|_| ty != "ALL").map(|i| &*def.indexes[i].name);
        let (key_parts, rows) = match &access.path.kind {
            AccessKind::Point(values) => (values.len(), 1),
            AccessKind::Ranges(ranges) => {
                let used = ranges.iter().map(|r| r.prefix.len() + usize::from(!r.next.is_any()));
                let used = used.max().unwrap_or(0);
                let rows = match rows_per_key(access, used).filter(|_| ty == "ref") {
                    Some(rows) => (rows.round() as u64).clamp(1, total),
                    None => total / if ty == "ref" { 100 } else { 10 },
                };
                (used, rows.max(ranges.len() as u64))
            }
            _ => (usize::MAX, total),
        };
        let groups = access.loose.and_then(|loose| rows_per_key(access, loose.columns as usize));
        let rows = groups.map_or(rows, |rows_of_group| {
            (total as f64 / rows_of_group).ceil().min(rows as f64) as u64
        });
        let by_key = !matches!(access.path.kind, AccessKind::FullScan);
        let possible = access.possible.iter().map(|&i| &*def.indexes[i as usize].name).collect();
        let key_parts =
            key_parts.min(access.path.index.map_or(0, |i| def.indexes[i].columns.len()));
        How {
            ty,
            possible,
            key,
            key_parts: if by_key || ty == "index" { key_parts } else { 0 },
            key_len: if key.is_some() { key_length(access, key_parts) } else { 0 },
            union: Vec::new(),
            reference: references(access, ty, place),
            rows,
        }
    }
    fn of_union(
        access: &'p TableAccess,
        parts: &[UnionPart],
        place: &Place<'_, 'p>,
        changes: bool,
    ) -> How<'p> {
        let def = &access.table.def;
        let (mut rows, mut union) = (0, Vec::with_capacity(parts.len()));
        for part in parts {
            let alone = alone(access, part);
            let how = How::of(&alone, place, changes);
            rows += how.rows;
            union.push((&*def.indexes[part.index].name, how.key_len));
        }
        How {
            ty: "index_merge",
            possible: access.possible.iter().map(|&i| &*def.indexes[i as usize].name).collect(),
            key: None,
            key_parts: 0,
            key_len: 0,
            union,
            reference: Vec::new(),
            rows: rows.min(access.table.rows().max(1)),
        }
    }
}

impl How<'_> {
    /// The names of a union's indexes, and their `key_len`s; None if the access is no union.
    pub fn union_key(&self) -> Option<(String, String)> {
        let lengths: Vec<String> = self.union.iter().map(|(_, len)| len.to_string()).collect();
        let names: Vec<&str> = self.union.iter().map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| (names.join(","), lengths.join(",")))
    }
}

/// The access by one index of a union.
pub(super) fn alone(access: &TableAccess, part: &UnionPart) -> TableAccess {
    let kind = AccessKind::Ranges(part.ranges.clone());
    let path = AccessPath { index: Some(part.index), kind, ..access.path.clone() };
    TableAccess { path, filter: None, ..access.clone() }
}

/// The `type` column. For statements that change rows, a point is called a range, as in MySQL.
fn access_type(access: &TableAccess, changes: bool) -> &'static str {
    match &access.path.kind {
        AccessKind::Point(_) if changes => "range",
        AccessKind::Point(values)
            if values.iter().any(|v| v.last_source().is_some() || v.any(&is_outer)) =>
        {
            "eq_ref"
        }
        AccessKind::Point(_) => "const",
        AccessKind::Ranges(ranges) => {
            if !changes && ranges.len() == 1 && ranges[0].next.is_any() {
                "ref"
            } else {
                "range"
            }
        }
        AccessKind::FullScan if access.loose.is_some() => "range",
        AccessKind::FullScan
            if access.path.index.is_some()
                && access.path.index != access.table.def.clustered_index() =>
        {
            "index"
        }
        // The clustered index is read for its order.
        AccessKind::FullScan if access.path.reverse => "index",
        _ => "ALL",
    }
}

/// The `ref` column: where the values of a key come from.
fn references(access: &TableAccess, ty: &str, place: &Place<'_, '_>) -> Vec<String> {
    let values = match &access.path.kind {
        AccessKind::Point(values) => values,
        AccessKind::Ranges(ranges) if ty == "ref" => &ranges[0].prefix,
        _ => return Vec::new(),
    };
    values.iter().map(|value| reference(value, place)).collect()
}
fn reference(value: &Expr, place: &Place<'_, '_>) -> String {
    let names_column = |e: &Expr| matches!(e.kind, ExprKind::Column { .. }) || is_outer(e);
    match &value.kind {
        ExprKind::ConvertTo(inner) | ExprKind::Collate(inner) => reference(inner, place),
        ExprKind::Column { .. } | ExprKind::Outer(_) => {
            place.column(value).map_or_else(|| "func".into(), |name| name.dotted())
        }
        _ if value.any(&names_column) => "func".into(),
        _ => "const".into(),
    }
}

fn is_outer(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Outer(_))
}

/// Whether MySQL's `Using where` belongs to the access.
pub(super) fn is_checked(access: &TableAccess, ty: &str, changes: bool) -> bool {
    access.filter.is_some()
        || (changes && !matches!(access.path.kind, AccessKind::FullScan))
        || (ty == "range" && access.path.covering == Covering::No && access.loose.is_none())
}

/// The `key_len` column: the bytes of the used index columns as MySQL counts them, not as Redolith
/// stores them.
fn key_length(access: &TableAccess, columns: usize) -> u64 {
    let def = &access.table.def;
    let Some(index) = access.path.index.map(|i| &def.indexes[i]) else { return 0 };
    let parts = index.columns.iter().take(columns);
    parts.map(|part| column_length(&def.columns[part.column], part.prefix)).sum()
}
fn column_length(column: &Column, prefix: Option<u32>) -> u64 {
    let chars = |n: u32, collation: Collation| {
        u64::from(prefix.unwrap_or(n)) * u64::from(collation.charset().max_len())
    };
    let fraction = |fsp: u8| u64::from(fsp.div_ceil(2));
    let bytes = match &column.ty {
        SqlType::Int { size, .. } => size.bytes() as u64,
        SqlType::Decimal { precision, scale, .. } => {
            redolith_types::decimal::packed_len(*precision, *scale) as u64
        }
        SqlType::Float { .. } => 4,
        SqlType::Double { .. } => 8,
        SqlType::Char { chars: n, collation } => chars(*n, *collation),
        SqlType::VarChar { chars: n, collation } => chars(*n, *collation) + 2,
        SqlType::Text { collation, .. } => chars(0, *collation) + 2,
        SqlType::Binary { len } => u64::from(prefix.unwrap_or(*len)),
        SqlType::VarBinary { len } => u64::from(prefix.unwrap_or(*len)) + 2,
        SqlType::Blob { .. } => u64::from(prefix.unwrap_or(0)) + 2,
        SqlType::Date => 3,
        SqlType::Time { fsp } => 3 + fraction(*fsp),
        SqlType::DateTime { fsp } => 5 + fraction(*fsp),
        SqlType::Timestamp { fsp } => 4 + fraction(*fsp),
        SqlType::Year => 1,
        SqlType::Bit { bits } => u64::from(bits.div_ceil(8)),
        SqlType::Enum { names, .. } => 1 + (names.len() > 255) as u64,
        SqlType::Set { names, .. } => match names.len().div_ceil(8) {
            n @ 0..=4 => n as u64,
            _ => 8,
        },
        SqlType::Json => 4,
    };
    bytes + column.nullable as u64
}
