//! Rules for combining types: the results of arithmetic, the common type of CASE and similar
//! expressions, and the way in which two sides are compared.
//!
//! Sources: MySQL manual, "Type Conversion in Expression Evaluation", "Precision Math".
use super::collation_mix::{Mix, collation_of, result_collation};
use crate::error::Result;
use crate::plan::expr_type::NOT_FIXED_DECIMALS;
use crate::plan::{ArithOp, CompareAs, Expr, ExprType, Kind, fraction_digits};
use redolith_types::decimal::MAX_PRECISION;
use redolith_types::{Collation, Value};

/// The domain of a value in arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Domain {
    /// NULL, or a parameter whose type is not known.
    Unknown,
    Int,
    Decimal,
    Double,
}
pub fn domain(ty: &ExprType) -> Domain {
    match ty.kind {
        Kind::Null => Domain::Unknown,
        kind if kind.is_integer() => Domain::Int,
        Kind::Decimal => Domain::Decimal,
        kind if kind.is_temporal() => {
            if ty.decimals > 0 {
                Domain::Decimal
            } else {
                Domain::Int
            }
        }
        _ => Domain::Double,
    }
}

/// A DOUBLE that is shown with this number of decimals. From 31 on, the number is not fixed.
fn real(decimals: u8) -> ExprType {
    ExprType { decimals: decimals.min(NOT_FIXED_DECIMALS), ..ExprType::double() }
}

/// The type of `left op right`. `increment` is `@@div_precision_increment`.
pub fn arith(op: ArithOp, left: &ExprType, right: &ExprType, increment: u8) -> ExprType {
    let nullable = left.nullable || right.nullable;
    let widest = domain(left).max(domain(right));
    let unsigned = left.unsigned || right.unsigned;
    let ty = match op {
        ArithOp::BitAnd
        | ArithOp::BitOr
        | ArithOp::BitXor
        | ArithOp::ShiftLeft
        | ArithOp::ShiftRight => ExprType::unsigned_bigint(21),
        ArithOp::IntDivide => ExprType::bigint(21).unsigned(unsigned),
        ArithOp::Divide => {
            if widest == Domain::Double {
                real(left.real_decimals().max(right.real_decimals()).saturating_add(increment))
            } else {
                let (int, scale) = digits(left);
                let scale = (scale + increment).min(30);
                ExprType::decimal(int + digits(right).1 as u32 + scale as u32, scale)
            }
        }
        _ => match widest {
            Domain::Double => real(left.real_decimals().max(right.real_decimals())),
            Domain::Decimal => {
                let ((li, ls), (ri, rs)) = (digits(left), digits(right));
                match op {
                    ArithOp::Multiply => ExprType::decimal(li + ri + (ls + rs) as u32, ls + rs),
                    ArithOp::Modulo => {
                        ExprType::decimal(li.max(ri) + ls.max(rs) as u32, ls.max(rs))
                    }
                    _ => ExprType::decimal(li.max(ri) + 1 + ls.max(rs) as u32, ls.max(rs)),
                }
            }
            // The remainder has the sign of the dividend.
            _ => ExprType::bigint(21).unsigned(if op == ArithOp::Modulo {
                left.unsigned
            } else {
                unsigned
            }),
        },
    };
    let zero_divides = matches!(op, ArithOp::Divide | ArithOp::IntDivide | ArithOp::Modulo);
    ty.nullable(nullable || zero_divides)
}

/// Whether a bit operator works on bytes, not on 64 bits: its operands are binary strings, and not
/// all of them are literals that can be a number (`are_numbers`) or NULL (MySQL manual, "Bit
/// Functions and Operators"). The count of a shift is always a number.
pub fn works_on_bytes(op: ArithOp, sides: &[Expr; 2], are_numbers: [bool; 2]) -> bool {
    let is_bytes = |n: usize| sides[n].ty.is_binary() && !are_numbers[n];
    let may_be_bytes =
        |n: usize| sides[n].ty.is_binary() || matches!(sides[n].as_literal(), Some(Value::Null));
    match op {
        ArithOp::BitAnd | ArithOp::BitOr | ArithOp::BitXor => {
            is_bytes(0) && may_be_bytes(1) || is_bytes(1) && may_be_bytes(0)
        }
        ArithOp::ShiftLeft | ArithOp::ShiftRight => is_bytes(0),
        _ => false,
    }
}

/// The type of a bit operator that works on the bytes of operands of these types.
pub fn bytes(operands: &[&ExprType]) -> ExprType {
    let is_long = operands.iter().any(|ty| ty.kind == Kind::Blob);
    let length = operands.iter().map(|ty| ty.length).max().unwrap_or(0);
    ExprType {
        kind: if is_long { Kind::Blob } else { Kind::VarChar },
        nullable: operands.iter().any(|ty| ty.nullable),
        ..ExprType::string(length, Collation::Binary)
    }
}

/// The type of `~operand`: a binary string's is one, too. A literal that can be a number has become
/// one before.
pub fn bit_not(operand: &ExprType) -> ExprType {
    if operand.is_binary() {
        return bytes(&[operand]);
    }
    ExprType::unsigned_bigint(21).nullable(operand.nullable)
}

/// The type of a value from outside: the value of a parameter or of a user variable. Strings may
/// have any length.
pub fn of_value(value: &Value<'_>, collation: Collation) -> ExprType {
    match value {
        Value::Null => ExprType::null(),
        Value::Int(_) => ExprType::bigint(21),
        Value::UInt(_) => ExprType::unsigned_bigint(21),
        Value::Float(_) | Value::Double(_) => ExprType::double(),
        Value::Decimal(d) => ExprType::decimal(MAX_PRECISION as u32, d.scale()),
        Value::Date(_) => ExprType::date(),
        Value::Time(t) => ExprType::time(fraction_digits(t.microseconds())),
        Value::DateTime(at) => ExprType::datetime(fraction_digits(at.microsecond())),
        Value::Bytes(_) => ExprType::string(16_777_215, collation),
        Value::Json(_) => ExprType::json(),
    }
}

fn digits(ty: &ExprType) -> (u32, u8) {
    match domain(ty) {
        Domain::Unknown => (1, 0),
        _ => ty.digits(),
    }
}

/// The common type of `types`, for CASE, IF and COALESCE.
/// `operation` is what MySQL calls it where their collations do not mix.
pub fn unify(types: &[ExprType], operation: &'static str) -> Result<ExprType> {
    let nullable = types.iter().any(|t| t.nullable);
    let known: Vec<&ExprType> = types.iter().filter(|t| t.kind != Kind::Null).collect();
    let Some(first) = known.first() else { return Ok(ExprType::null()) };
    // Several BIT values give their numbers.
    if known.iter().all(|t| t.kind == Kind::Bit) {
        return Ok(ExprType::unsigned_bigint(20).nullable(nullable));
    }
    if known.iter().all(|t| {
        t.kind == first.kind && t.unsigned == first.unsigned && t.collation == first.collation
    }) {
        let length = known.iter().map(|t| t.length).max().unwrap_or(0);
        let decimals = known.iter().map(|t| t.decimals).max().unwrap_or(0);
        if first.kind == Kind::Decimal {
            let int = known.iter().map(|t| t.digits().0).max().unwrap_or(0);
            return Ok(ExprType::decimal(int + decimals as u32, decimals).nullable(nullable));
        }
        let coercibility = known.iter().map(|t| t.coercibility).min().unwrap_or(first.coercibility);
        let kind =
            if matches!(first.kind, Kind::Enum | Kind::Set) { Kind::VarChar } else { first.kind };
        return Ok(ExprType {
            kind,
            length,
            decimals,
            nullable,
            coercibility,
            zerofill: false,
            ..**first
        });
    }
    if known.iter().all(|t| t.kind.is_numeric()) {
        let widest = known.iter().map(|t| domain(t)).max().unwrap_or(Domain::Int);
        let unsigned = known.iter().all(|t| t.unsigned);
        let mixed = !unsigned && known.iter().any(|t| t.unsigned && t.kind == Kind::BigInt);
        let ty = match widest {
            Domain::Double => {
                let decimals = known.iter().map(|t| t.real_decimals()).max();
                let ty = real(decimals.unwrap_or(NOT_FIXED_DECIMALS));
                if known.iter().all(|t| stays_float(t.kind)) {
                    ExprType { kind: Kind::Float, length: 12, ..ty }
                } else {
                    ty
                }
            }
            // Only DECIMAL holds all signed and unsigned BIGINT numbers.
            Domain::Int if mixed => ExprType::decimal(20, 0),
            Domain::Decimal => {
                let int = known.iter().map(|t| t.digits().0).max().unwrap_or(1);
                let scale = known.iter().map(|t| t.digits().1).max().unwrap_or(0);
                ExprType::decimal(int + scale as u32, scale)
            }
            _ => ExprType::bigint(known.iter().map(|t| t.length).max().unwrap_or(20))
                .unsigned(unsigned),
        };
        return Ok(ty.nullable(nullable));
    }
    if known.iter().all(|t| t.kind.is_temporal()) {
        let decimals = known.iter().map(|t| t.decimals).max().unwrap_or(0);
        return Ok(ExprType::datetime(decimals).nullable(nullable));
    }
    let all: Vec<&ExprType> = types.iter().collect();
    let (collation, coercibility) = result_collation(&all, operation)?;
    let length = known.iter().map(|t| t.length).max().unwrap_or(0);
    let is_long = |t: &&ExprType| matches!(t.kind, Kind::Blob | Kind::Json);
    let kind = if known.iter().any(is_long) { Kind::Blob } else { Kind::VarChar };
    Ok(ExprType { kind, coercibility, nullable, ..ExprType::string(length, collation) })
}

/// Whether FLOAT stays FLOAT beside this kind. Of the integers only INT makes a DOUBLE of it: that
/// is MySQL's table (`field_types_merge_rules`), in which an integer that is no column is a BIGINT.
fn stays_float(kind: Kind) -> bool {
    kind == Kind::Float || kind.is_integer() && !matches!(kind, Kind::Int | Kind::Bit)
}

/// How values of two types are compared in `operation`.
pub fn compare_as(left: &ExprType, right: &ExprType, operation: &'static str) -> Result<CompareAs> {
    // Beside a JSON value, any other value is a JSON value, too.
    if left.kind == Kind::Json || right.kind == Kind::Json {
        return Ok(CompareAs::ByValue);
    }
    if left.kind == Kind::Null || right.kind == Kind::Null {
        let known = if left.kind == Kind::Null { right } else { left };
        // A parameter takes the type of the other side. Beside a number, however, the parameter's
        // value decides (`int_column = 1.5`).
        return Ok(match known.kind {
            Kind::Date | Kind::DateTime | Kind::Timestamp => CompareAs::DateTime,
            Kind::Time => CompareAs::Time,
            kind if kind.is_string() && !matches!(kind, Kind::Enum | Kind::Set) => {
                CompareAs::String(collation_of(&[left, right], operation)?.0)
            }
            _ => CompareAs::ByValue,
        });
    }
    if left.kind.is_temporal() || right.kind.is_temporal() {
        let time = |t: &ExprType| t.kind == Kind::Time || !t.kind.is_temporal();
        return Ok(if left.kind == Kind::Date && right.kind == Kind::Date {
            CompareAs::Date
        } else if time(left) && time(right) {
            CompareAs::Time
        } else {
            CompareAs::DateTime
        });
    }
    if left.kind.is_string() && right.kind.is_string() {
        return Ok(CompareAs::String(collation_of(&[left, right], operation)?.0));
    }
    // ENUM and SET are compared with numbers as numbers.
    let number = |t: &ExprType| match t.kind {
        Kind::Enum | Kind::Set => Domain::Int,
        _ => domain(t),
    };
    Ok(match number(left).max(number(right)) {
        Domain::Int => CompareAs::Int,
        Domain::Decimal => CompareAs::Decimal,
        _ => CompareAs::Double,
    })
}

/// How the two sides of a comparison are compared. A BIGINT column and a text are compared by
/// value: exactly if the text is an integer, which as a DOUBLE equals its neighbours (NUM-1).
pub fn compare_sides(left: &Expr, right: &Expr, operation: &'static str) -> Result<CompareAs> {
    let is_exact = |column: &Expr, text: &Expr| is_bigint(column) && is_text(text);
    Ok(match compare_as(&left.ty, &right.ty, operation)? {
        CompareAs::Double if is_exact(left, right) || is_exact(right, left) => CompareAs::ByValue,
        how => how,
    })
}

/// How a value is compared with several, which is `how` by their types: a BIGINT column meets texts
/// by value (NUM-1), and so it meets the numbers beside them. Dates beside texts are numbers that
/// only `how` makes of them.
pub fn compare_with_all(value: &Expr, others: &[Expr], how: CompareAs) -> CompareAs {
    let has_moment = others.iter().any(|e| e.ty.kind.is_temporal());
    let are_exact = how == CompareAs::Double && meets_texts(value, others) && !has_moment;
    if are_exact { CompareAs::ByValue } else { how }
}
/// True if a BIGINT column is compared with several values, and one of these is a text.
pub fn meets_texts(value: &Expr, others: &[Expr]) -> bool {
    is_bigint(value) && others.iter().any(is_text)
}

fn is_bigint(column: &Expr) -> bool {
    column.ty.kind == Kind::BigInt && column.is_column_of_any_query()
}
/// Date arithmetic has the type of a text and counts as a date.
fn is_text(e: &Expr) -> bool {
    e.ty.kind.is_string() && !matches!(e.ty.kind, Kind::Enum | Kind::Set) && !e.is_calculated_date()
}

/// How BETWEEN compares: in one domain for the value and both bounds. If `is_range`, the value is a
/// column and both bounds are constants; then the bounds take the column's type.
pub fn compare_all(types: [&ExprType; 3], is_range: bool) -> Result<CompareAs> {
    let [value, low, high] = types;
    let has = |test: fn(Kind) -> bool| types.iter().any(|t| test(t.kind));
    let pair = |bound| compare_as(value, bound, "BETWEEN");
    let pairs = || common([pair(low), pair(high)]);
    if has(|k| matches!(k, Kind::Null | Kind::Json)) || is_range && value.kind.is_temporal() {
        return pairs();
    }
    let is_dated = |k: Kind| k.is_temporal() && k != Kind::Time;
    if types.iter().all(|t| t.kind.is_string()) {
        return Ok(CompareAs::String(collation_of(&types, "BETWEEN")?.0));
    }
    if !has(Kind::is_temporal) {
        let how = pairs()?;
        return Ok(if how == CompareAs::ByValue { CompareAs::Double } else { how });
    }
    Ok(
        match (has(Kind::is_numeric), types.iter().any(|t| is_dated(t.kind)), has(Kind::is_string))
        {
            (true, ..) => CompareAs::Double,
            (false, true, _) if types.iter().all(|t| t.kind == Kind::Date) => CompareAs::Date,
            (false, true, _) => CompareAs::DateTime,
            (false, false, false) => CompareAs::Time,
            // Times beside texts are compared as texts.
            (false, false, true) => CompareAs::String(collation_of(&types, "BETWEEN")?.0),
        },
    )
}

/// The common domain of several comparisons; ByValue if they differ.
pub fn common(ways: impl IntoIterator<Item = Result<CompareAs>>) -> Result<CompareAs> {
    let mut common = None;
    for way in ways {
        let way = way?;
        common = Some(match common {
            None => way,
            Some(same) if same == way => way,
            Some(CompareAs::Int | CompareAs::Decimal)
                if matches!(way, CompareAs::Int | CompareAs::Decimal) =>
            {
                CompareAs::Decimal
            }
            Some(_) => CompareAs::ByValue,
        });
    }
    Ok(common.unwrap_or(CompareAs::ByValue))
}

/// How a value is compared with the items of a list. Texts have one collation for all items: if one
/// item is binary, all are compared as bytes.
pub fn common_of<'t>(
    value: &'t ExprType,
    items: impl Iterator<Item = &'t ExprType> + Clone,
    operation: &'static str,
) -> Result<CompareAs> {
    let all = || [value].into_iter().chain(items.clone());
    let is_text = |ty: &ExprType| ty.kind.is_string() && ty.kind != Kind::Json;
    // The value of an open parameter may meet the number of an ENUM or SET.
    let has_number = matches!(value.kind, Kind::Enum | Kind::Set);
    let is_met = |ty: &ExprType| is_text(ty) || ty.kind == Kind::Null && !has_number;
    if is_text(value) && items.clone().all(is_met) {
        let all: Vec<&ExprType> = all().collect();
        return Ok(CompareAs::String(collation_of(&all, operation)?.0));
    }
    let mixed = |_| Mix::new(all(), operation).error();
    common(items.clone().map(|item| compare_as(value, item, operation))).map_err(mixed)
}

/// The type of SUM or AVG, which follows the argument's type.
pub fn sum(arg: &ExprType) -> ExprType {
    let ty = match domain(arg) {
        Domain::Int | Domain::Unknown => ExprType::decimal(arg.digits().0 + 22, 0),
        Domain::Decimal => {
            ExprType::decimal(arg.digits().0 + 22 + arg.digits().1 as u32, arg.digits().1)
        }
        Domain::Double => real(arg.real_decimals()),
    };
    ty.nullable(true)
}
pub fn avg(arg: &ExprType, increment: u8) -> ExprType {
    let ty = match domain(arg) {
        Domain::Double => real(arg.real_decimals().saturating_add(increment)),
        _ => {
            let (int, scale) = digits(arg);
            let scale = (scale + increment).min(30);
            ExprType::decimal(int + scale as u32, scale)
        }
    };
    ty.nullable(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Coercibility;

    #[test]
    fn decimals_grow_as_mysqls_do() {
        let d = |p, s| ExprType::decimal(p, s);
        let t = arith(ArithOp::Multiply, &d(5, 2), &d(4, 1), 4);
        assert_eq!((t.kind, t.decimals, t.digits().0), (Kind::Decimal, 3, 6));
        assert_eq!(
            arith(ArithOp::Divide, &ExprType::bigint(2), &ExprType::bigint(2), 4).decimals,
            4
        );
        assert_eq!(
            (arith(ArithOp::Divide, &d(5, 2), &d(4, 1), 10).decimals, avg(&d(5, 2), 30).decimals),
            (12, 30)
        );
        assert_eq!(arith(ArithOp::Add, &d(5, 2), &ExprType::double(), 4).kind, Kind::Double);
    }

    #[test]
    fn sides_are_compared_in_a_common_domain() {
        let s = ExprType::string(10, Collation::Utf8mb4GeneralCi);
        assert_eq!(compare_as(&ExprType::bigint(11), &s, "=").unwrap(), CompareAs::Double);
        assert_eq!(compare_as(&ExprType::datetime(0), &s, "=").unwrap(), CompareAs::DateTime);
        assert_eq!(
            compare_as(&ExprType::bigint(11), &ExprType::null(), "=").unwrap(),
            CompareAs::ByValue
        );
        let column = ExprType {
            coercibility: Coercibility::Implicit,
            ..ExprType::string(10, Collation::Latin1SwedishCi)
        };
        assert_eq!(
            compare_as(&column, &s, "=").unwrap(),
            CompareAs::String(Collation::Latin1SwedishCi)
        );
    }
}
