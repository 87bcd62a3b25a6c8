//! Binds calls of built-in functions and derives the types of their results.
use super::collation_mix::{Mix, collation_of, result_collation};
use super::compare::year_for;
use super::expr::{Env, check_fsp, in_charset, no_such_function, operand};
use super::scope::Clause;
use super::{Binder, type_rules};
use crate::error::{Result, SqlError};
use crate::parse::ast::{BinaryOp, Call, Span};
use crate::plan::expr_type::NOT_FIXED_DECIMALS;
use crate::plan::function::Returns;
use crate::plan::{ArithOp, Coercibility, Expr, ExprKind, ExprType, Function, Kind};
use redolith_types::{Collation, Value};
use std::borrow::Cow;

impl Binder<'_> {
    pub(super) fn call(&mut self, env: &Env<'_>, call: &Call, span: Span) -> Result<Expr> {
        // Messages show the name as it was written.
        let unknown = |b: &Self| {
            let text = b.parsed.source(span);
            no_such_function(b.cx.schema, text.split('(').next().unwrap_or_default().trim())
        };
        if let Some(function) = super::aggregate::by_name(&call.name) {
            return self.aggregate(env, function, call);
        }
        if call.star || call.distinct {
            return Err(unknown(self));
        }
        if call.name == "MOD" && call.args.len() == 2 {
            return self.binary(
                env,
                BinaryOp::Arith(ArithOp::Modulo),
                &call.args[0],
                &call.args[1],
            );
        }
        let Some(function) = Function::by_name(&call.name) else { return Err(unknown(self)) };
        let (least, most) = function.arity();
        if call.args.len() < least || call.args.len() > most {
            return Err(SqlError::wrong_parameter_count(&call.name));
        }
        // These take pairs, some of them after a document.
        let pairs = match function {
            Function::JsonObject => Some(0),
            Function::JsonSet
            | Function::JsonInsert
            | Function::JsonReplace
            | Function::JsonArrayAppend
            | Function::JsonArrayInsert => Some(1),
            _ => None,
        };
        if pairs.is_some_and(|before| call.args.len() % 2 != before) {
            return Err(SqlError::wrong_parameter_count(&call.name));
        }
        if function == Function::Grouping {
            if !matches!(env.clause, Clause::Fields | Clause::Having | Clause::Order) {
                return Err(SqlError::invalid_group_function());
            }
            // Arguments are compared with the expressions of GROUP BY.
            let bind = |b: &mut Self| call.args.iter().map(|arg| b.expr(env, arg)).collect();
            let args = self.pinned(bind)?;
            return Ok(Expr::new(ExprKind::Call { function, args }, ExprType::bigint(21)));
        }
        // The value of an argument (digits, precision) decides the type of these functions.
        let by_value = function == Function::UnixTimestamp
            || matches!(
                function.returns(),
                Returns::Number | Returns::DateTime | Returns::Time | Returns::Integral
            );
        let chooses = matches!(function.returns(), Returns::Unified(_));
        let numbers =
            matches!(function.returns(), Returns::Number | Returns::Double | Returns::Integral)
                || matches!(function, Function::Sign | Function::BitCount);
        let mut args = Vec::with_capacity(call.args.len());
        for (n, arg) in call.args.iter().enumerate() {
            let bound = match () {
                _ if by_value => self.pinned(|b| b.expr(env, arg))?,
                _ if chooses => self.chosen(env, arg)?,
                _ => self.expr(env, arg)?,
            };
            let as_number = numbers || (function == Function::If && n == 0);
            let bound = if as_number { self.hex_as_number(arg, bound) } else { bound };
            args.push(if numbers && n == 0 { operand(bound) } else { bound });
        }
        if call.name == "WEEKOFYEAR" {
            // WEEKOFYEAR(date) is WEEK(date, 3).
            args.push(Expr::literal(Value::Int(3), ExprType::bigint(1)));
        }
        if function == Function::NullIf
            && let Some(other) = args.pop()
        {
            let year = year_for(&other, args[0].clone());
            args.push(year_for(&args[0], other));
            // A constant that meets a YEAR is compared as the year that it is, and given as the
            // number that it is.
            if matches!(year.kind, ExprKind::ConvertTo(_)) {
                args.push(year);
            }
        }
        let ty = self.function_type(function, &mut args)?;
        Ok(Expr::new(ExprKind::Call { function, args }, ty))
    }

    fn function_type(&mut self, function: Function, args: &mut [Expr]) -> Result<ExprType> {
        let nullable = args.iter().any(|a| a.ty.nullable);
        let first = args.first().map(|a| a.ty).unwrap_or(ExprType::null());
        if matches!(function, Function::JsonQuote | Function::JsonUnquote)
            && !first.kind.is_string()
            && first.kind != Kind::Null
        {
            let name = function.name().to_ascii_lowercase();
            let message = format!("Incorrect type for argument 1 in function {name}.");
            return Err(SqlError::new(3064, message));
        }
        if matches!(
            function,
            Function::Locate
                | Function::Instr
                | Function::FindInSet
                | Function::Strcmp
                | Function::Field
                | Function::RegexpLike
                | Function::RegexpInstr
        ) {
            self.meet_in_charset(function, args)?;
        }
        if function == Function::NullIf {
            type_rules::compare_as(&args[0].ty, &args[1].ty, function.name())?;
        }
        let ty = match function.returns() {
            Returns::Int(length) => ExprType::bigint(length),
            Returns::UInt(_)
                if function == Function::UnixTimestamp
                    && args.first().is_some_and(|a| digits_after_point(a) > 0) =>
            {
                let scale = digits_after_point(&args[0]);
                ExprType::decimal(11 + scale as u32, scale)
            }
            Returns::UInt(length) => ExprType::unsigned_bigint(length),
            Returns::Double if function == Function::Pi => {
                ExprType { decimals: 6, length: 8, ..ExprType::double() }
            }
            Returns::Double => ExprType::double(),
            Returns::Number => number_type(function, args),
            Returns::Integral => match type_rules::domain(&first) {
                type_rules::Domain::Double => ExprType { decimals: 0, ..ExprType::double() },
                // The integer may not fit into 64 bits.
                type_rules::Domain::Decimal if first.digits().0 >= 18 => {
                    ExprType::decimal(first.digits().0 + 1, 0)
                }
                _ => ExprType::bigint(first.digits().0.clamp(1, 20) + 1).unsigned(first.unsigned),
            },
            Returns::SameString => {
                args[0].change(|arg| self.to_string(arg));
                let ty = args[0].ty;
                let mut collation =
                    if ty.kind == Kind::Null { self.cx.collation } else { ty.collation };
                // The string to cut off has a part in the collation of the result.
                let cuts = matches!(
                    function,
                    Function::Trim
                        | Function::TrimLeading
                        | Function::TrimTrailing
                        | Function::SubstringIndex
                );
                let mut coercibility = ty.coercibility;
                if coercibility == Coercibility::Numeric {
                    coercibility = Coercibility::Literal;
                }
                if let Some(part) = args
                    .get(1)
                    .filter(|part| cuts && part.ty.kind.is_string() && ty.kind != Kind::Null)
                {
                    let mut types = [&ty, &part.ty];
                    if function != Function::SubstringIndex {
                        types.reverse();
                    }
                    let name = match function {
                        Function::TrimLeading => "LTRIM",
                        Function::TrimTrailing => "RTRIM",
                        _ => function.name(),
                    };
                    (collation, coercibility) = collation_of(&types, name)?;
                    let mix = Mix::new(types, name);
                    let common = ExprType { collation, ..ty };
                    for arg in &mut args[..2] {
                        arg.change(|arg| in_charset(arg, &common, &mix));
                    }
                }
                let kind = if ty.kind == Kind::Blob { Kind::Blob } else { Kind::VarChar };
                let length = ty.length.max(if function == Function::Soundex { 4 } else { 0 });
                ExprType { kind, coercibility, ..ExprType::string(length, collation) }
            }
            Returns::Concat if matches!(function, Function::MakeSet | Function::ExportSet) => {
                self.set_type(function, args)?
            }
            Returns::Concat => self.concat_type(function, args)?,
            Returns::Text(length) => {
                let length = match function {
                    Function::RegexpSubstr => first.length.min(length),
                    _ => length,
                };
                let (collation, coercibility) = self.meet_in_charset(function, args)?;
                ExprType { coercibility, ..ExprType::string(length, collation) }
            }
            Returns::Ascii(length) => ExprType::string(length, self.cx.collation),
            Returns::System(length) => ExprType {
                coercibility: Coercibility::System,
                ..ExprType::string(length, Collation::Utf8mb4GeneralCi)
            },
            // Each argument of CHAR gives up to four bytes.
            Returns::Binary(length) if function == Function::Char => {
                ExprType::string(length * args.len() as u32, Collation::Binary)
            }
            Returns::Binary(length) => ExprType::string(length, Collation::Binary),
            Returns::Json => ExprType::json(),
            Returns::JsonText => ExprType {
                coercibility: Coercibility::Implicit,
                ..ExprType::string(u32::MAX / 4, Collation::Utf8mb4Bin)
            },
            Returns::Date => ExprType::date(),
            Returns::Time => ExprType::time(fraction(function, args)?),
            Returns::DateTime => self.datetime_type(function, args)?,
            Returns::Unified(from) => {
                if function == Function::Elt {
                    for arg in &mut args[1..] {
                        arg.change(|arg| self.to_string(arg));
                    }
                }
                let types: Vec<ExprType> = args[from as usize..].iter().map(|a| a.ty).collect();
                let mut ty = type_rules::unify(&types, function.name())?;
                let mix = Mix::new(&types, function.name());
                if matches!(function, Function::Greatest | Function::Least) {
                    if ty.coercibility == Coercibility::None {
                        return Err(mix.error());
                    }
                    if ty.kind.is_string()
                        && let Some(moment) = extreme_moment_type(args)
                    {
                        ty.length = ty.length.max(moment.length);
                    }
                }
                for arg in &mut args[from as usize..] {
                    arg.change(|arg| in_charset(arg, &ty, &mix));
                }
                return Ok(match function {
                    // The result is NULL only if all arguments are NULL.
                    Function::Coalesce | Function::IfNull => {
                        ty.nullable(args.iter().all(|a| a.ty.nullable))
                    }
                    Function::If => ty,
                    Function::Elt => ty.nullable(true),
                    _ => ty.nullable(nullable),
                });
            }
            Returns::Typed(n) => {
                let ty = args[usize::from(n)].ty;
                match ty.kind {
                    // The type of CAST has the length of its operand, which is none here.
                    Kind::BigInt => ExprType { length: 21, ..ty },
                    Kind::VarChar => ExprType { coercibility: Coercibility::Implicit, ..ty },
                    _ => ty,
                }
            }
            Returns::First if first.kind == Kind::Bit => ExprType::unsigned_bigint(20),
            Returns::First => first.nullable(true),
        };
        // These functions are never NULL. Others may fail and give NULL.
        let certain = matches!(
            function,
            Function::Now
                | Function::SysDate
                | Function::CurDate
                | Function::CurTime
                | Function::UtcDate
                | Function::UtcTime
                | Function::UtcTimestamp
                | Function::ConnectionId
                | Function::Version
                | Function::User
                | Function::Pi
                | Function::Rand
                | Function::Uuid
                | Function::LastInsertId
                | Function::RowCount
                | Function::FoundRows
                | Function::IsNull
                | Function::JsonArray
                | Function::JsonObject
        );
        let counts = matches!(
            function,
            Function::Length
                | Function::CharLength
                | Function::Abs
                | Function::Concat
                | Function::Lower
                | Function::Upper
        );
        Ok(ty.nullable(if certain || counts { nullable && !certain } else { true }))
    }

    /// Converts all arguments to strings of one character set. Returns the type of the
    /// concatenation.
    fn concat_type(&mut self, function: Function, args: &mut [Expr]) -> Result<ExprType> {
        for arg in args.iter_mut() {
            arg.change(|arg| self.to_string(arg));
        }
        let types = met_in(function, args.len()).into_iter().map(|n| &args[n].ty);
        let types: Vec<&ExprType> = types.collect();
        let (collation, coercibility) = if types.iter().any(|ty| ty.kind.is_string()) {
            result_collation(&types, function.name())?
        } else {
            (self.cx.collation, Coercibility::Literal)
        };
        let mix = Mix::new(types, function.name());
        let length: u64 = args.iter().map(|a| u64::from(a.ty.most_chars())).sum();
        let ty = ExprType {
            coercibility,
            ..ExprType::string(length.min(u32::MAX as u64 / 4) as u32, collation)
        };
        for arg in args.iter_mut() {
            arg.change(|arg| in_charset(arg, &ty, &mix));
        }
        Ok(ty)
    }

    /// The type of a set of texts. The first argument is the bits, and the fifth one of EXPORT_SET
    /// their number.
    fn set_type(&mut self, function: Function, args: &mut [Expr]) -> Result<ExprType> {
        let (texts, times, separators) = match function {
            Function::MakeSet => (args.len(), 1, args.len() as u32 - 2),
            _ => (args.len().min(4), 64, 0),
        };
        let ty = self.concat_type(function, &mut args[1..texts])?;
        let length = ty.length.saturating_mul(times).saturating_add(separators);
        Ok(ExprType { length: length.min(u32::MAX / 4), ..ty })
    }

    /// Converts the strings that meet in a call to the character set of their common collation,
    /// which is the result.
    fn meet_in_charset(
        &mut self,
        function: Function,
        args: &mut [Expr],
    ) -> Result<(Collation, Coercibility)> {
        let met = met_in(function, args.len());
        let is_text = |ty: &ExprType| ty.kind.is_string();
        let may_be_text =
            |ty: &ExprType| is_text(ty) || ty.kind.is_temporal() || ty.kind == Kind::Null;
        // FIELD compares numbers where one of its arguments is a number.
        if function == Function::Field && !args.iter().all(|arg| may_be_text(&arg.ty)) {
            return Ok((self.cx.collation, Coercibility::Literal));
        }
        let types: Vec<ExprType> = met.iter().map(|n| args[*n].ty).collect();
        if !types.iter().any(is_text) {
            return Ok((self.cx.collation, Coercibility::Literal));
        }
        let makes = matches!(
            function,
            Function::Repeat | Function::Quote | Function::Lpad | Function::Rpad
        );
        let of = if makes { result_collation } else { collation_of };
        // The replacement of REGEXP_REPLACE has no part in the collation of the search.
        let counted = if function == Function::RegexpReplace { 2 } else { types.len() };
        let (collation, coercibility) =
            of(&types[..counted].iter().collect::<Vec<_>>(), function.name())?;
        let mix = Mix::new(&types, function.name());
        let common = ExprType::string(0, collation);
        for n in met {
            args[n].change(|arg| in_charset(arg, &common, &mix));
        }
        Ok((collation, coercibility))
    }

    fn datetime_type(&mut self, function: Function, args: &[Expr]) -> Result<ExprType> {
        Ok(match function {
            // With a format, FROM_UNIXTIME gives text.
            Function::FromUnixTime if args.len() == 2 => ExprType::string(240, self.cx.collation),
            Function::FromUnixTime => ExprType::datetime(args[0].ty.decimals.min(6)),
            Function::AddTime | Function::SubTime if args[0].ty.kind == Kind::Time => {
                ExprType::time(fraction(function, args)?)
            }
            Function::AddTime | Function::SubTime if !args[0].ty.kind.is_temporal() => {
                ExprType::string(26, self.cx.collation)
            }
            Function::StrToDate => str_to_date_type(&args[1]),
            _ => ExprType::datetime(fraction(function, args)?),
        })
    }
}

/// The arguments of a call that are strings which meet, in the order in which messages name them.
fn met_in(function: Function, count: usize) -> Vec<usize> {
    match function {
        Function::Locate => vec![1, 0],
        Function::Repeat | Function::Quote => vec![0],
        Function::Lpad | Function::Rpad => vec![0, 2],
        Function::Insert => vec![0, 3],
        Function::Replace | Function::RegexpReplace => vec![0, 1, 2],
        Function::Instr
        | Function::FindInSet
        | Function::Strcmp
        | Function::RegexpLike
        | Function::RegexpInstr
        | Function::RegexpSubstr => vec![0, 1],
        _ => (0..count).collect(),
    }
}

/// The number of decimals of a second: n for NOW(n), the decimals of the argument for others.
fn fraction(function: Function, args: &[Expr]) -> Result<u8> {
    match function {
        Function::Now
        | Function::SysDate
        | Function::UtcTimestamp
        | Function::CurTime
        | Function::UtcTime => match args.first().and_then(|a| a.as_literal()) {
            None => Ok(0),
            Some(Value::Int(n)) => check_fsp(u8::try_from(*n).unwrap_or(255), function.name()),
            Some(_) => Err(SqlError::wrong_arguments(function.name())),
        },
        // Even the text of a literal has all decimals here.
        Function::MakeTime => Ok(decimals_of_seconds(&args[2])),
        Function::SecToTime => Ok(decimals_of_seconds(&args[0])),
        Function::ConvertTz => Ok(digits_after_point(&args[0])),
        _ => Ok(args.iter().map(digits_after_point).max().unwrap_or(0)),
    }
}

/// The number of decimals of a number of seconds: a string has six.
fn decimals_of_seconds(arg: &Expr) -> u8 {
    if arg.ty.kind.is_string() { 6 } else { arg.ty.decimals.min(6) }
}

/// The number of decimals of a second that an argument may have. A literal has its own; other
/// strings may have six.
fn digits_after_point(arg: &Expr) -> u8 {
    match arg.as_literal() {
        Some(Value::Bytes(text)) => {
            let digits = text.rsplit(|b| *b == b'.').next().filter(|d| d.len() < text.len());
            digits.map_or(0, |d| d.iter().take_while(|b| b.is_ascii_digit()).count().min(6) as u8)
        }
        Some(Value::Null) => 0,
        _ if arg.ty.kind.is_string() => 6,
        _ => arg.ty.decimals.min(6),
    }
}

/// What the specifiers in a format of STR_TO_DATE ask for.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub date: bool,
    pub time: bool,
    /// The time has fractions of a second.
    pub fraction: bool,
}

impl Asked {
    /// A format asks for a date if it has no specifier of a time. A day without month and year
    /// (%d, %e, %D) does not make a date of a time: its days count as hours.
    pub fn of(format: &[u8]) -> Asked {
        let (mut date, mut time, mut fraction) = (false, false, false);
        let mut rest = format.iter();
        while let Some(b) = rest.next() {
            match if *b == b'%' { rest.next() } else { None } {
                Some(b'f') => (time, fraction) = (true, true),
                Some(b'H' | b'h' | b'I' | b'i' | b'k' | b'l' | b'r' | b'S' | b's' | b'T') => {
                    time = true
                }
                Some(
                    b'a' | b'b' | b'c' | b'j' | b'M' | b'm' | b'U' | b'u' | b'V' | b'v' | b'W'
                    | b'w' | b'X' | b'x' | b'Y' | b'y',
                ) => date = true,
                _ => {}
            }
        }
        Asked { date: date || !time, time, fraction }
    }
}

/// A text that is written as a literal or as the CONCAT() of literals.
fn constant_text(e: &Expr) -> Option<Cow<'_, [u8]>> {
    match &e.kind {
        ExprKind::Call { function: Function::Concat, args } => {
            let parts = args.iter().map(constant_text).collect::<Option<Vec<_>>>()?;
            Some(parts.concat().into())
        }
        _ => match e.as_literal() {
            Some(Value::Bytes(text)) => Some(Cow::Borrowed(text)),
            _ => None,
        },
    }
}

/// The type of STR_TO_DATE: its format asks for a date, a time or both.
fn str_to_date_type(format: &Expr) -> ExprType {
    let Some(format) = constant_text(format) else { return ExprType::datetime(6) };
    let asked = Asked::of(&format);
    let decimals = if asked.fraction { 6 } else { 0 };
    match (asked.date, asked.time) {
        (_, false) => ExprType::date(),
        (false, true) => ExprType::time(decimals),
        (true, true) => ExprType::datetime(decimals),
    }
}

/// The type of GREATEST or LEAST of a date and texts or numbers: as in MySQL, they are compared as
/// moments, and the result is written as a value of this type, a DATETIME or that of the first
/// temporal argument. None if all are compared as texts, as they are beside a TIME.
pub(crate) fn extreme_moment_type(args: &[Expr]) -> Option<ExprType> {
    let mut model = Kind::Null;
    for kind in args.iter().map(|a| a.ty.kind).filter(|kind| kind.is_temporal()) {
        if model == Kind::Null || kind == Kind::DateTime {
            model = kind;
        }
    }
    match model {
        Kind::Date => Some(ExprType::date()),
        Kind::DateTime | Kind::Timestamp => {
            Some(ExprType::datetime(args.iter().map(digits_after_point).max().unwrap_or(0)))
        }
        _ => None,
    }
}

/// The type of ABS, ROUND or TRUNCATE: the argument's kind of number. ROUND's second argument
/// becomes the scale.
fn number_type(function: Function, args: &[Expr]) -> ExprType {
    let arg = &args[0].ty;
    match type_rules::domain(arg) {
        type_rules::Domain::Double => {
            // A constant number of decimals is shown. ABS shows the decimals of its argument.
            let decimals = match (function, args.get(1).map(|a| a.as_literal())) {
                (Function::Abs, _) => arg.real_decimals(),
                (_, None) => 0,
                (_, Some(Some(Value::Int(n)))) => (*n).clamp(0, NOT_FIXED_DECIMALS.into()) as u8,
                (_, Some(_)) => arg.real_decimals(),
            };
            ExprType { decimals, ..ExprType::double() }
        }
        type_rules::Domain::Decimal => {
            let (int, scale) = arg.digits();
            if function == Function::Abs {
                return ExprType::decimal(int + scale as u32, scale);
            }
            let wanted = match args.get(1).map(|a| a.as_literal()) {
                None => 0,
                Some(Some(Value::Int(n))) => (*n).clamp(0, 30) as u8,
                Some(_) => scale,
            };
            let scale =
                wanted.min(scale.max(if args.len() > 1 && args[1].as_literal().is_none() {
                    scale
                } else {
                    0
                }));
            ExprType::decimal(int + 1 + scale as u32, scale)
        }
        _ => ExprType::bigint(arg.length.clamp(1, 21)).unsigned(arg.unsigned),
    }
}
