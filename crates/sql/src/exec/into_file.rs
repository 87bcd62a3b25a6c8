//! SELECT .. INTO OUTFILE and INTO DUMPFILE.
use super::eval::Scope;
use super::select::{RowTarget, give_to};
use super::{ExecContext, scan};
use crate::error::{Result, SqlError};
use crate::plan::expr_type::NOT_FIXED_DECIMALS;
use crate::plan::{ExprType, IntoFile, Kind, SelectPlan};
use crate::server_files::{self, NewFile};
use crate::session_state::{Done, Outcome};
use crate::text_file::{Column, Writer};
use redolith_types::number::write_fixed;
use redolith_types::{Charset, Value};
use smallvec::SmallVec;
use std::borrow::Cow;

/// The bytes that are written at a time.
const PIECE: usize = 256 << 10;

/// A column that may be as wide as this has no fixed width in a file.
const LONG_WIDTH: usize = 1 << 24;

/// The rows on their way to a file.
struct ToFile<'p> {
    types: Vec<ExprType>,
    /// None: INTO DUMPFILE writes the bytes of a single row.
    writer: Option<Writer>,
    charset: Option<Charset>,
    name: &'p [u8],
    file: NewFile,
    written: u64,
    bytes: Vec<u8>,
    rows: u64,
}

pub async fn run(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    into: &IntoFile,
    params: &[Value<'_>],
) -> Result<Outcome> {
    cx.env.be_heavy();
    let file = server_files::create(&cx.env, &into.name)?;
    let types: Vec<ExprType> = plan.columns.iter().map(|column| column.ty).collect();
    let columns = types.iter().map(|ty| Column { is_text: is_text(ty), width: width(ty) });
    let has_long = types.iter().any(|ty| width(ty) >= LONG_WIDTH);
    let mut target = ToFile {
        writer: into.format.clone().map(|f| Writer::new(f, columns.collect(), has_long)),
        charset: into.charset,
        types,
        name: &into.name,
        file,
        written: 0,
        bytes: Vec::new(),
        rows: 0,
    };
    // A second row is an error of INTO DUMPFILE.
    let most = if into.format.is_none() { 2 } else { u64::MAX };
    let mut done = give_to(cx, plan, Scope::new(params), most, &mut target).await;
    if done.is_ok() && target.rows > 1 && target.writer.is_none() {
        done = Err(SqlError::new(1172, "Result consisted of more than one row"));
    }
    match done {
        Ok(found) => cx.env.session.found_rows = found,
        Err(e) => {
            // SECURE-3
            cx.env.be_heavy();
            target.file.remove(&cx.env);
            return Err(e);
        }
    }
    Ok(Outcome::Done(Done { affected: target.rows, ..Done::default() }))
}

fn is_text(ty: &ExprType) -> bool {
    ty.kind.is_string() || ty.kind.is_temporal() || ty.kind == Kind::Bit
}
fn width(ty: &ExprType) -> usize {
    ty.length as usize * ty.collation.charset().max_len() as usize
}

impl ToFile<'_> {
    /// The most bytes of a value's text in the file's character set.
    fn text_len(&self, value: &Value<'_>, ty: &ExprType) -> usize {
        /// No number and no time is longer.
        const NUMBER: usize = 512;
        let converted = converted_to(ty, self.charset).map_or(1, |to| to.max_len() as usize);
        match value {
            Value::Null => 1,
            Value::Bytes(bytes) => bytes.len() * converted,
            // A bound by the document's length would be many times the text of most documents.
            Value::Json(_) => value.to_bytes().len() * converted,
            _ => NUMBER,
        }
    }
}

impl RowTarget for ToFile<'_> {
    fn row(&mut self, values: &[Value<'_>]) {
        self.rows += 1;
        let mut shown = Vec::new();
        for (value, ty) in values.iter().zip(&self.types) {
            let text = match value {
                Value::Null => None,
                Value::Bytes(bytes) => Some(in_charset(bytes, ty, self.charset)),
                Value::Json(_) => {
                    let text = value.to_bytes();
                    Some(Cow::Owned(in_charset(&text, ty, self.charset).into_owned()))
                }
                value => {
                    shown.clear();
                    show(value, ty, &mut shown);
                    Some(Cow::Borrowed(&shown[..]))
                }
            };
            match &mut self.writer {
                Some(writer) => writer.field(text.as_deref(), &mut self.bytes),
                None => self.bytes.extend_from_slice(text.as_deref().unwrap_or(b"\0")),
            }
        }
        if let Some(writer) = &mut self.writer {
            writer.end(&mut self.bytes);
        }
    }
    fn row_bytes(&self, values: &[Value<'_>]) -> usize {
        let lengths: SmallVec<[usize; 16]> =
            values.iter().zip(&self.types).map(|(value, ty)| self.text_len(value, ty)).collect();
        // A string that is converted, and the text of a document, exist beside the row.
        let is_made = |value: &Value<'_>, ty| {
            matches!(value, Value::Json(_)) || converted_to(ty, self.charset).is_some()
        };
        let made = values.iter().zip(&self.types).zip(&lengths);
        let made = made.filter(|((value, ty), _)| is_made(value, ty)).map(|(_, length)| *length);
        let lengths = lengths.iter().copied();
        made.max().unwrap_or(0)
            + match &self.writer {
                Some(writer) => writer.most_bytes(lengths),
                None => lengths.sum(),
            }
    }
    fn expect(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }
    fn held(&self) -> usize {
        self.bytes.capacity()
    }
    fn wants_drain(&self) -> bool {
        self.bytes.len() >= PIECE
    }
    async fn drain(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        if self.writer.is_none() && self.rows > 1 {
            return Ok(());
        }
        for piece in self.bytes.chunks(PIECE) {
            cx.env.be_heavy();
            self.file.file.write_at(piece, self.written).map_err(|e| {
                let name = String::from_utf8_lossy(self.name);
                SqlError::error_writing(name, e.raw_os_error().unwrap_or(28), e)
            })?;
            self.written += piece.len() as u64;
            cx.trx.give_way().await;
            scan::check_killed(&cx.env)?;
        }
        self.bytes.clear();
        self.bytes.shrink_to(2 * PIECE);
        Ok(())
    }
}

/// The file's character set, if strings of a type are converted to it.
fn converted_to(ty: &ExprType, to: Option<Charset>) -> Option<Charset> {
    let from = ty.collation.charset();
    to.filter(|to| *to != from && *to != Charset::Binary && from != Charset::Binary)
}

/// A string in the file's character set. What the set lacks becomes '?'.
fn in_charset<'b>(bytes: &'b [u8], ty: &ExprType, to: Option<Charset>) -> Cow<'b, [u8]> {
    match converted_to(ty, to) {
        Some(to) => ty.collation.charset().convert_lossy(bytes, to),
        None => Cow::Borrowed(bytes),
    }
}

/// Writes a value that is no string as a client sees it.
fn show(value: &Value<'_>, ty: &ExprType, out: &mut Vec<u8>) {
    let start = out.len();
    match (value, ty.kind) {
        (Value::UInt(bits), Kind::Bit) => {
            let bytes = (ty.length as usize).div_ceil(8).clamp(1, 8);
            out.extend_from_slice(&bits.to_be_bytes()[8 - bytes..]);
        }
        (Value::UInt(year), Kind::Year) => {
            out.extend_from_slice(format!("{year:04}").as_bytes());
        }
        (Value::Float(f), _) if ty.decimals < NOT_FIXED_DECIMALS => {
            write_fixed(f64::from(*f), ty.decimals, out);
        }
        (Value::Double(d), _) if ty.decimals < NOT_FIXED_DECIMALS => {
            write_fixed(*d, ty.decimals, out);
        }
        (Value::Date(date), Kind::DateTime | Kind::Timestamp) => {
            date.at(0).write_text(ty.decimals.min(6), out);
        }
        (Value::DateTime(at), Kind::Date) => at.date().write_text(out),
        _ => value.write_text(Some(ty.decimals.min(6)), out),
    }
    if ty.zerofill {
        let missing = (ty.length as usize).saturating_sub(out.len() - start);
        out.splice(start..start, std::iter::repeat_n(b'0', missing));
    }
}
