//! Built-in functions: finds the file that has a function, evaluates the functions that choose
//! among their arguments, and converts arguments.
use super::Eval;
use crate::bind::collation_mix::collation_of;
use crate::bind::extreme_moment_type;
use crate::error::{Result, SqlError};
use crate::plan::{CompareAs, Expr, ExprKind, ExprType, Function, Kind};
use redolith_types::convert::{to_datetime, to_decimal, to_i64, to_time};
use redolith_types::{Charset, Collation, DateTime, Time, Value};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;

impl<'v> Eval<'v, '_, '_> {
    /// **EVAL-3** No function returns more than `max_allowed_packet` bytes. Functions that multiply
    /// their argument check the length before they allocate.
    pub(super) fn call(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let value = self.call_unbounded(function, args, node)?;
        // The function did not make a value that is borrowed or only chosen among the arguments.
        if let Value::Bytes(Cow::Owned(made)) | Value::Json(Cow::Owned(made)) = &value
            && made.len() > self.most_bytes()
            && !chooses(function)
        {
            return self.too_long(&function.name().to_ascii_lowercase());
        }
        Ok(value)
    }

    fn call_unbounded(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        use Function as F;
        match function {
            F::If => {
                let chosen = if self.truth(&args[0])? == Some(true) { &args[1] } else { &args[2] };
                self.unified(chosen, node)
            }
            F::IfNull | F::Coalesce => {
                for e in args {
                    let value = self.unified(e, node)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            F::NullIf => {
                if self.equal(args.get(2).unwrap_or(&args[0]), &args[1])? {
                    Ok(Value::Null)
                } else {
                    self.eval(&args[0])
                }
            }
            F::IsNull => Ok(Value::Int(self.eval(&args[0])?.is_null() as i64)),
            F::Greatest | F::Least => self.extreme(function == F::Greatest, args, node),
            F::Field => self.field(args),
            F::Elt => match self.elt_choice(args)? {
                Some(chosen) => self.unified(chosen, node),
                None => Ok(Value::Null),
            },
            F::Interval => self.interval_position(args),
            F::LikePattern => self.like_pattern(args, node),
            F::RegexpLike => self.regexp_like(args),
            F::RegexpInstr | F::RegexpSubstr | F::RegexpReplace => {
                self.regexp_search(function, args, node)
            }

            F::Abs
            | F::Ceiling
            | F::Floor
            | F::Round
            | F::Truncate
            | F::Sign
            | F::Sqrt
            | F::Power
            | F::Exp
            | F::Ln
            | F::Log
            | F::Log2
            | F::Log10
            | F::Pi
            | F::Sin
            | F::Cos
            | F::Tan
            | F::Cot
            | F::Asin
            | F::Acos
            | F::Atan
            | F::Degrees
            | F::Radians
            | F::Rand
            | F::Crc32
            | F::BitCount
            | F::FormatBytes
            | F::FormatPicoTime => self.numeric_function(function, args, node),

            F::Concat
            | F::ConcatWs
            | F::Length
            | F::CharLength
            | F::BitLength
            | F::Lower
            | F::Upper
            | F::Left
            | F::Right
            | F::Substring
            | F::SubstringIndex
            | F::Trim
            | F::TrimLeading
            | F::TrimTrailing
            | F::Reverse
            | F::Repeat
            | F::Replace
            | F::Insert
            | F::Lpad
            | F::Rpad
            | F::Space => self.string_function(function, args, node),

            F::Locate
            | F::Instr
            | F::FindInSet
            | F::Strcmp
            | F::Ascii
            | F::Ord
            | F::Char
            | F::Hex
            | F::Unhex
            | F::Bin
            | F::Oct
            | F::Conv
            | F::Quote
            | F::Format
            | F::Charset
            | F::CollationOf
            | F::Coercibility => self.text_function(function, args, node),

            F::GtidSubset | F::GtidSubtract => self.gtid_function(function, args),
            F::BinlogGtidPos => self.binlog_gtid_pos(&args[0], &args[1]),

            F::Md5
            | F::Sha1
            | F::Sha2
            | F::ToBase64
            | F::FromBase64
            | F::Uuid
            | F::UuidToBin
            | F::BinToUuid
            | F::IsUuid
            | F::UuidShort
            | F::RandomBytes => self.digest_function(function, args),

            F::JsonExtract
            | F::JsonUnquote
            | F::JsonQuote
            | F::JsonPretty
            | F::JsonValid
            | F::JsonType
            | F::JsonLength
            | F::JsonDepth
            | F::JsonStorageSize
            | F::JsonStorageFree
            | F::JsonKeys
            | F::JsonContains
            | F::JsonContainsPath
            | F::JsonSearch
            | F::JsonOverlaps
            | F::JsonMember
            | F::JsonArray
            | F::JsonObject
            | F::JsonSet
            | F::JsonInsert
            | F::JsonReplace
            | F::JsonRemove
            | F::JsonArrayAppend
            | F::JsonArrayInsert
            | F::JsonMergePreserve
            | F::JsonMergePatch
            | F::JsonValue => self.json_function(function, args, node),

            F::Database
            | F::User
            | F::CurrentUser
            | F::CurrentRole
            | F::Version
            | F::ConnectionId
            | F::LastInsertId
            | F::RowCount
            | F::Grouping
            | F::FoundRows
            | F::Sleep
            | F::Benchmark
            | F::GetLock
            | F::ReleaseLock
            | F::IsFreeLock
            | F::IsUsedLock
            | F::ReleaseAllLocks
            | F::LoadFile => self.info_function(function, args),

            F::DateFormat | F::TimeFormat | F::StrToDate | F::GetFormat => {
                self.format_function(function, args, node)
            }
            F::MakeSet
            | F::ExportSet
            | F::Soundex
            | F::AesEncrypt
            | F::AesDecrypt
            | F::Compress
            | F::Uncompress
            | F::UncompressedLength
            | F::InetAton
            | F::InetNtoa
            | F::Inet6Aton
            | F::Inet6Ntoa
            | F::IsIpv4
            | F::IsIpv6
            | F::IsIpv4Compat
            | F::IsIpv4Mapped
            | F::PeriodAdd
            | F::PeriodDiff => self.call_rare(function, args, node),
            _ => self.date_function(function, args, node),
        }
    }
    /// Functions that are seldom used have a frame of their own: that of [`Self::call_unbounded`]
    /// is on the stack once for each level of nested calls.
    #[inline(never)]
    fn call_rare(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        use Function as F;
        match function {
            F::MakeSet | F::ExportSet => self.set_function(function, args, node),
            F::Soundex => self.soundex(&args[0], node),
            F::AesEncrypt | F::AesDecrypt => self.aes(function == F::AesEncrypt, args),
            F::Compress | F::Uncompress | F::UncompressedLength => {
                self.compression_function(function, &args[0])
            }
            F::PeriodAdd | F::PeriodDiff => self.period_function(function, args),
            _ => self.address_function(function, &args[0]),
        }
    }

    /// The value of `@@max_allowed_packet`.
    pub(super) fn most_bytes(&self) -> usize {
        self.env.settings.max_allowed_packet
    }
    /// Returns NULL, with a warning, for a result longer than [`Self::most_bytes`].
    #[cold]
    pub(super) fn too_long(&mut self, function: &str) -> Result<Value<'v>> {
        self.env.warn(SqlError::result_over_packet(function, self.most_bytes()))?;
        Ok(Value::Null)
    }

    pub(super) fn arg_int(&mut self, e: &'v Expr) -> Result<Option<i64>> {
        let value = self.number(e)?;
        if value.is_null() {
            return Ok(None);
        }
        let n = to_i64(&value);
        if n.truncated && matches!(value, Value::Bytes(_)) {
            self.env.warn(SqlError::truncated_wrong_value("INTEGER", &value))?;
        }
        Ok(Some(n.value))
    }
    pub(in crate::exec) fn arg_double(&mut self, e: &'v Expr) -> Result<Option<f64>> {
        let value = self.number(e)?;
        if value.is_null() { Ok(None) } else { self.double(&value).map(Some) }
    }
    /// The argument as text in the character set `to`.
    pub(super) fn arg_text(&mut self, e: &'v Expr, to: Charset) -> Result<Option<Cow<'v, [u8]>>> {
        let value = self.eval(e)?;
        Ok(match value {
            Value::Null => None,
            Value::Bytes(b)
                if b.is_ascii() || to == Charset::Binary || self.charset_of(e) == to =>
            {
                Some(b)
            }
            value => Some(Cow::Owned(self.string_in(e, &value, to).into_owned())),
        })
    }
    /// The argument as text in the character set in which it meets the other strings of `function`.
    /// A character that this set lacks must not become '?', which could then equal a '?'.
    pub(super) fn arg_met(
        &mut self,
        e: &'v Expr,
        to: Charset,
        function: Function,
    ) -> Result<Option<Cow<'v, [u8]>>> {
        let value = self.eval(e)?;
        let whole = match value {
            Value::Null => return Ok(None),
            Value::Bytes(b)
                if b.is_ascii() || to == Charset::Binary || self.charset_of(e) == to =>
            {
                return Ok(Some(b));
            }
            value => self.whole_string_in(e, &value, to).map(|text| text.into_owned()),
        };
        match whole {
            Some(text) => Ok(Some(Cow::Owned(text))),
            None => Err(no_common_charset(function)),
        }
    }
    /// The bytes of a string argument in its own character set, or the text of a number.
    pub(super) fn arg_bytes(&mut self, e: &'v Expr) -> Result<Option<Cow<'v, [u8]>>> {
        self.arg_text(e, self.charset_of(e))
    }
    /// The argument as a date. A value that is not a date gives NULL and a warning.
    pub(super) fn arg_datetime(&mut self, e: &'v Expr) -> Result<Option<DateTime>> {
        let value = self.moment(e)?;
        self.datetime_of(e, value)
    }
    /// The date that `value` is, which is the value of `e`.
    pub(super) fn datetime_of(
        &mut self,
        e: &'v Expr,
        value: Value<'v>,
    ) -> Result<Option<DateTime>> {
        let value = if is_calculated_date(e) && matches!(value, Value::Bytes(_)) {
            self.made_of_dates(value)
        } else {
            value
        };
        self.as_datetime(value)
    }
    pub(super) fn as_datetime(&mut self, value: Value<'v>) -> Result<Option<DateTime>> {
        match value {
            Value::Null => return Ok(None),
            Value::DateTime(at) => return Ok(Some(at)),
            Value::Date(d) => return Ok(Some(d.at(0))),
            _ => {}
        }
        let (today, zone) = (self.env.today(), self.env.settings.zone_offset_secs);
        let parsed = to_datetime(&value, today, zone);
        if parsed.is_none_or(|p| p.truncated) {
            let what = if parsed.is_none() { "Incorrect" } else { "Truncated incorrect" };
            self.env.warn(SqlError::new(1292, format!("{what} datetime value: '{value}'")))?;
        }
        Ok(parsed.map(|p| p.value))
    }
    pub(super) fn arg_time(&mut self, e: &'v Expr) -> Result<Option<Time>> {
        let value = self.moment(e)?;
        if super::dates::is_sum(e) && matches!(value, Value::Bytes(_)) {
            return Ok(self.as_datetime(value)?.map(|at| at.time()));
        }
        self.as_time(value)
    }
    pub(super) fn as_time(&mut self, value: Value<'v>) -> Result<Option<Time>> {
        if value.is_null() {
            return Ok(None);
        }
        let parsed = to_time(&value);
        if parsed.is_none_or(|p| p.truncated) {
            self.env.warn(SqlError::truncated_wrong_value("time", &value))?;
        }
        // A text beyond the longest time becomes the longest time; a number becomes NULL.
        let is_text = matches!(value, Value::Bytes(_));
        Ok(parsed.filter(|p| is_text || !p.truncated).map(|p| p.value))
    }
    /// The value of ASCII text that a function made.
    pub(super) fn made(&self, ascii: Vec<u8>) -> Result<Value<'v>> {
        Ok(Value::owned(ascii))
    }

    /// How GREATEST and LEAST compare: as strings if all are strings, otherwise as values of the
    /// common type.
    fn common(args: &[Expr], node: &Expr) -> CompareAs {
        if node.ty.kind.is_string() && args.iter().all(|a| a.ty.kind.is_string()) {
            return CompareAs::String(node.ty.collation);
        }
        CompareAs::ByValue
    }
    fn extreme(&mut self, greatest: bool, args: &'v [Expr], node: &'v Expr) -> Result<Value<'v>> {
        // Each argument is evaluated once, since arguments may be nested and may have effects.
        let mut values: SmallVec<[Value<'v>; 4]> = SmallVec::new();
        if node.ty.kind.is_string()
            && let Some(ty) = extreme_moment_type(args)
        {
            for e in args {
                values.push(self.eval(e)?);
                if values.last().is_some_and(Value::is_null) {
                    return Ok(Value::Null);
                }
            }
            if let Some(found) = self.extreme_moment(greatest, args, &values, &ty)? {
                return Ok(found);
            }
        }
        let mut values = values.into_iter();
        let how = Self::common(args, node);
        let mut best: Option<(&Expr, Value<'v>)> = None;
        for e in args {
            let value = match values.next() {
                Some(value) => self.unified_value(e, value, node)?,
                None => self.unified(e, node)?,
            };
            if value.is_null() {
                return Ok(Value::Null);
            }
            let better = match &best {
                None => true,
                // Values of the common type need no conversion.
                Some((_, b)) if how == CompareAs::ByValue => {
                    let order = value.compare(b, node.ty.collation);
                    if greatest { order.is_gt() } else { order.is_lt() }
                }
                Some((be, b)) => {
                    let order = self.order(how, (e, &value), (be, b))?.unwrap_or(Ordering::Equal);
                    if greatest { order.is_gt() } else { order.is_lt() }
                }
            };
            if better {
                best = Some((e, value));
            }
        }
        Ok(best.map_or(Value::Null, |(_, v)| v))
    }
    /// GREATEST or LEAST of moments, as text of the type `ty`. None if what is no date is among
    /// them and wins: then texts decide.
    fn extreme_moment(
        &mut self,
        greatest: bool,
        args: &'v [Expr],
        values: &[Value<'v>],
        ty: &ExprType,
    ) -> Result<Option<Value<'v>>> {
        let mut best: Option<DateTime> = None;
        for (e, value) in args.iter().zip(values) {
            let at = self.datetime_of(e, value.clone())?.unwrap_or(DateTime::ZERO);
            let better = best.is_none_or(|best| if greatest { at > best } else { at < best });
            if better {
                best = Some(at);
            }
        }
        let Some(at) = best.filter(|at| !at.is_zero()) else { return Ok(None) };
        let mut out = Vec::with_capacity(26);
        match ty.kind {
            Kind::Date => at.date().write_text(&mut out),
            _ => at.write_text(ty.decimals, &mut out),
        }
        Ok(Some(Value::owned(out)))
    }
    /// FIELD(x, a, b, ..): the position of x among a, b, ..
    fn field(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        // FIELD compares dates and NULL as texts.
        let is_text =
            |e: &Expr| e.ty.kind.is_string() || e.ty.kind.is_temporal() || e.ty.kind == Kind::Null;
        let is_exact =
            |e: &Expr| e.ty.kind.is_integer() || matches!(e.ty.kind, Kind::Decimal | Kind::Null);
        let how = if args.iter().all(is_text) {
            let texts: Vec<&ExprType> =
                args.iter().map(|a| &a.ty).filter(|t| t.kind.is_string()).collect();
            CompareAs::String(if texts.is_empty() {
                Collation::Binary
            } else {
                collation_of(&texts, "FIELD")?.0
            })
        } else if args.iter().all(is_exact) {
            CompareAs::ByValue
        } else {
            CompareAs::Double
        };
        let wanted = self.operand(how, &args[0])?;
        if wanted.is_null() {
            return Ok(Value::Int(0));
        }
        for (n, e) in args.iter().enumerate().skip(1) {
            let value = self.operand(how, e)?;
            let same_bits = match (&wanted, &value) {
                // FIELD compares the 64 bits of integers, signed or not.
                (Value::Int(a), Value::UInt(b)) | (Value::UInt(b), Value::Int(a)) => {
                    *a as u64 == *b
                }
                _ => false,
            };
            if same_bits
                || self.order(how, (&args[0], &wanted), (e, &value))? == Some(Ordering::Equal)
            {
                return Ok(Value::Int(n as i64));
            }
        }
        Ok(Value::Int(0))
    }
    /// ELT(n, a, b, ..): the n-th of a, b, ..; None if there is none.
    fn elt_choice(&mut self, args: &'v [Expr]) -> Result<Option<&'v Expr>> {
        let n = self.arg_int(&args[0])?.and_then(|n| usize::try_from(n).ok());
        Ok(n.filter(|n| *n > 0).and_then(|n| args.get(n)))
    }
    /// What ELT chooses, as the number that it was before the binder made it text.
    pub(super) fn elt_number(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let Some(chosen) = self.elt_choice(args)? else { return Ok(Value::Null) };
        let is_text = chosen.ty.kind.is_string();
        match &chosen.kind {
            ExprKind::ConvertTo(inner) if is_text && !inner.ty.kind.is_string() => {
                self.number_or_text(inner)
            }
            _ => self.number_or_text(chosen),
        }
    }
    /// INTERVAL(x, a, b, ..): how many of the ascending a, b, .. are at most x. Integers and
    /// decimals are compared exactly.
    fn interval_position(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let is_exact = |e: &Expr| e.ty.kind.is_integer() || e.ty.kind == Kind::Decimal;
        let x = self.number(&args[0])?;
        if x.is_null() {
            return Ok(Value::Int(-1));
        }
        let exact = is_exact(&args[0]).then(|| to_decimal(&x).value);
        let x = self.double(&x)?;
        let mut position = 0;
        for e in &args[1..] {
            let bound = self.number(e)?;
            let is_beyond = match exact {
                _ if bound.is_null() => false,
                Some(x) if is_exact(e) => to_decimal(&bound).value > x,
                _ => self.double(&bound)? > x,
            };
            if is_beyond {
                break;
            }
            position += 1;
        }
        Ok(Value::Int(position))
    }
}

/// True for date arithmetic, and for the greatest or least of a date and others: the result counts
/// as a date or a time where its type is text.
pub(super) fn is_calculated_date(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Call { function: Function::Greatest | Function::Least, args } => {
            e.ty.kind.is_string() && extreme_moment_type(args).is_some()
        }
        _ => e.is_calculated_date(),
    }
}

/// The error for strings of which one has a character that the character set of all lacks. The
/// binder converts arguments whose types tell that they are strings, with an error of their own.
pub(super) fn no_common_charset(function: Function) -> SqlError {
    SqlError::illegal_mix_of_many(function.name().to_ascii_lowercase())
}

/// True if the function returns one of its arguments unchanged.
fn chooses(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::If | F::IfNull | F::Coalesce | F::NullIf | F::Elt | F::Greatest | F::Least
    )
}
