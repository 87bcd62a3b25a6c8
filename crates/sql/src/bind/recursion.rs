//! Binds recursive common table expressions (REC-1).
//!
//! The operands that do not refer to the expression are its seed. As in MySQL, the seed alone
//! decides the names and the types of the columns, all of which may be NULL. The parser has noted
//! which operands refer to the expression; the binder refuses what a recursive operand may not
//! have, with MySQL's errors. Literals in the definition are pinned (BIND-1), because their lengths
//! are those of the columns.
use super::Binder;
use super::derived::name_columns;
use super::scope::Scope;
use super::select::RawKind;
use crate::error::{Result, SqlError};
use crate::parse::ast;
use crate::plan::{
    ExprType, Kind, Recursion, SelectPlan, SetKind, SetOperator, Source, SourceKind,
};
use crate::sink::ColumnMeta;
use redolith_types::sql_type::{IntSize, LobSize, Sign};
use redolith_types::{Collation, Column, SqlType};

/// A recursive operand that the binder is in.
pub(super) struct Inside {
    name: String,
    slot: u16,
    columns: Vec<ColumnMeta>,
    used: bool,
}

impl Binder<'_> {
    /// Binds the definition of a name that refers to itself.
    pub(super) fn recursive(
        &mut self,
        name: &str,
        names: &[String],
        select: &ast::Select,
    ) -> Result<SelectPlan> {
        self.pinned(|b| b.recursion(name, names, select))
    }

    fn recursion(
        &mut self,
        name: &str,
        names: &[String],
        select: &ast::Select,
    ) -> Result<SelectPlan> {
        if select.more.is_empty() {
            return Err(SqlError::recursion_without_union(name));
        }
        let operators: Vec<SetOperator> = select.more.iter().map(|(o, _)| *o).collect();
        let seeds = seeds(name, select, &operators)?;
        let distinct = !operators[operators.len() - 1].all;
        let may_repeat = &operators[seeds - 1..];
        if !distinct && may_repeat.iter().any(|o| !o.all) {
            return Err(SqlError::unsupported(
                "recursive query blocks with UNION DISTINCT then UNION ALL, in recursive Common \
                 Table Expression",
            ));
        }
        if !select.whole_order.is_empty() {
            return Err(SqlError::unsupported(
                "ORDER BY over UNION in recursive Common Table Expression",
            ));
        }
        let mut parts = vec![match &select.first {
            Some(first) => self.select(first, None)?,
            None => self.operand(select, None)?,
        }];
        for (_, operand) in &select.more[..seeds - 1] {
            parts.push(self.select(operand, None)?);
        }
        let mut seed = self.combine(parts, &operators[..seeds - 1], None, None)?;
        name_columns(&mut seed, names)?;
        seed.columns.iter_mut().for_each(|column| column.ty = kept_as(column.ty));

        let number = self.recursion_count;
        self.recursion_count = number.checked_add(1).ok_or_else(SqlError::nested_too_deeply)?;
        let mut members = Vec::with_capacity(select.more.len() + 1 - seeds);
        for (_, operand) in &select.more[seeds - 1..] {
            let member = self.member(name, number, operand, &seed.columns)?;
            if member.visible != seed.visible {
                return Err(SqlError::wrong_select_columns());
            }
            members.push(member);
        }
        let columns = seed.columns.clone();
        let limit = self.limit(&select.whole_limit)?;
        let kept = columns.iter().map(|c| Column::new(&*c.name, sql_type(&c.ty))).collect();
        let recursion = Recursion {
            name: name.into(),
            slot: number,
            columns: kept,
            seed,
            members,
            distinct,
            limit,
        };
        self.over(SourceKind::Recursive(Box::new(recursion)), false, columns, None, None)
    }

    /// Binds a recursive operand.
    fn member(
        &mut self,
        name: &str,
        slot: u16,
        operand: &ast::Select,
        columns: &[ColumnMeta],
    ) -> Result<SelectPlan> {
        if !operand.more.is_empty() {
            return Err(SqlError::unsupported(
                "set operations in parentheses in a recursive query block of Common Table \
                 Expression",
            ));
        }
        if operand.distinct || operand.is_cut_or_sorted() {
            return Err(SqlError::unsupported(
                "ORDER BY / LIMIT / SELECT DISTINCT in recursive query block of Common Table \
                 Expression",
            ));
        }
        let columns = columns.to_vec();
        self.recursions.push(Inside { name: name.to_string(), slot, columns, used: false });
        let member = self.operand(operand, None);
        self.recursions.pop();
        let mut member = member?;
        let has_windows = |s: &Source| matches!(s.kind, SourceKind::Windows(_));
        if member.grouping.is_some() || member.sources.iter().any(has_windows) {
            return Err(SqlError::recursion_with_aggregates(name));
        }
        // A member is run whole.
        member.probe = None;
        Ok(member)
    }

    /// Binds the name of a recursive expression in its own definition.
    pub(super) fn itself(
        &mut self,
        name: &str,
        inside: bool,
        is_right: bool,
        alias: &str,
        scope: &mut Scope,
    ) -> Result<RawKind> {
        let own = match self.recursions.last_mut() {
            Some(own) if own.name == name && !inside && !own.used => own,
            _ => return Err(SqlError::recursion_not_once(name)),
        };
        if is_right {
            return Err(SqlError::recursion_on_the_right(name));
        }
        own.used = true;
        scope.add_derived(alias, &own.columns, false)?;
        Ok(RawKind::Iteration { slot: own.slot, name: name.into() })
    }
}

/// The number of the operands that come before the recursive ones.
fn seeds(name: &str, select: &ast::Select, operators: &[SetOperator]) -> Result<usize> {
    let first = match &select.first {
        Some(first) => first.refers_to_itself(),
        None => select.recursive,
    };
    let mut refers = vec![first];
    refers.extend(select.more.iter().map(|(_, operand)| operand.refers_to_itself()));
    let seeds = refers.iter().take_while(|refers| !**refers).count();
    if seeds == 0 || refers[seeds..].contains(&false) {
        return Err(SqlError::recursion_without_seed(name));
    }
    if seeds == refers.len() || operators[seeds - 1..].iter().any(|o| o.kind != SetKind::Union) {
        return Err(SqlError::unsupported(
            "recursive table reference in EXCEPT or INTERSECT operand",
        ));
    }
    Ok(seeds)
}

/// The type of a column that the rows of all iterations have.
fn kept_as(ty: ExprType) -> ExprType {
    let ty = if ty.kind == Kind::Null { ExprType::string(0, Collation::Binary) } else { ty };
    ty.nullable(true)
}

/// The column that takes values of a type.
fn sql_type(ty: &ExprType) -> SqlType {
    let sign = if ty.unsigned { Sign::UNSIGNED } else { Sign::SIGNED };
    let int = |size| SqlType::Int { size, sign, display: None };
    match ty.kind {
        Kind::TinyInt => int(IntSize::Tiny),
        Kind::SmallInt => int(IntSize::Small),
        Kind::MediumInt => int(IntSize::Medium),
        Kind::Int => int(IntSize::Int),
        Kind::BigInt => int(IntSize::Big),
        Kind::Float => SqlType::Float { digits: None, sign },
        Kind::Double => SqlType::Double { digits: None, sign },
        Kind::Decimal => {
            let (whole, scale) = ty.digits();
            let precision = (whole + u32::from(scale)).clamp(1, 65) as u8;
            SqlType::Decimal { precision, scale, sign }
        }
        Kind::Year => SqlType::Year,
        Kind::Bit => SqlType::Bit { bits: ty.length.clamp(1, 64) as u8 },
        Kind::Date => SqlType::Date,
        Kind::Time => SqlType::Time { fsp: ty.decimals.min(6) },
        Kind::Json => SqlType::Json,
        Kind::DateTime | Kind::Timestamp => SqlType::DateTime { fsp: ty.decimals.min(6) },
        _ => match (ty.most_chars(), ty.collation) {
            (len, Collation::Binary) if len > LONGEST => SqlType::Blob { size: LobSize::Long },
            (len, Collation::Binary) => SqlType::VarBinary { len },
            (chars, collation) if chars > LONGEST => {
                SqlType::Text { size: LobSize::Long, collation }
            }
            (chars, collation) => SqlType::VarChar { chars, collation },
        },
    }
}
/// The most characters of a VARCHAR; longer columns are of TEXT.
const LONGEST: u32 = 65_535 / 4;
