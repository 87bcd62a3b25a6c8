//! JSON functions. An argument becomes a document in the binary form of `redolith_types::json`;
//! functions that read look into it, and functions that change it open only the containers on the
//! way to the change.
//!
//! **EVAL-JSON** What a function makes of a long document is charged to the statement before it is
//! made: the tree of a parsed text by its commas and brackets, and an opened document by its nodes.
mod edit;
mod make;
mod read;
mod search;
mod value;

use super::Eval;
use crate::error::{Result, SqlError};
use crate::exec::env::Env;
use crate::exec::pace::LONG;
use crate::plan::{Expr, ExprKind, Function, Kind, SubqueryTest, UnaryOp};
use redolith_types::json::binary::field;
use redolith_types::json::{self, Json, JsonError, JsonRef, Meter, Path};
use redolith_types::{Charset, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

/// From this length on, what a function keeps or makes is charged by itself. What is shorter is
/// bounded by the number of the arguments.
const KEPT: usize = 1 << 10;

/// A document in the binary form.
type Document<'v> = Cow<'v, [u8]>;

impl<'v> Eval<'v, '_, '_> {
    /// Checks the value of a JSON column (JSON-2): its bytes come from a page.
    pub(super) fn sound_json(&mut self, value: Value<'v>) -> Result<Value<'v>> {
        if let Value::Json(document) = &value {
            self.env.bytes(document.len())?;
            json::check(document)?;
        }
        Ok(value)
    }

    /// [`metered`] in this evaluation.
    fn metered<T>(&mut self, work: impl FnOnce(Meter<'_>) -> json::Result<T>) -> Result<T> {
        metered(self.env, work)
    }
    /// The text of a document, or NULL and a warning if it is longer than a packet.
    fn printed(
        &mut self,
        function: &str,
        print: impl FnOnce(&mut Vec<u8>, Meter<'_>) -> json::Result<()>,
    ) -> Result<Value<'v>> {
        let (mut text, mut len, most) = (Vec::new(), 0, self.most_bytes());
        let done = self.metered(|meter| {
            print(&mut text, &mut |values, bytes| {
                len += bytes;
                len > most || meter(values, bytes)
            })
        });
        if len > most || text.len() > most {
            return self.too_long(function);
        }
        done?;
        self.made_text(text)
    }
    /// Charges for an argument that is kept while the others are evaluated.
    fn keep_argument(&mut self, document: Document<'v>) -> Result<Document<'v>> {
        if matches!(document, Cow::Owned(_)) && document.len() >= KEPT {
            self.env.charge(document.len())?;
            self.env.bytes(document.len())?;
        }
        Ok(document)
    }

    /// Counts the work on a document, and charges for it if it was made.
    pub(super) fn weigh_json(&mut self, document: &Document<'_>) -> Result<()> {
        self.env.bytes(document.len())?;
        if let Cow::Owned(made) = document
            && made.len() >= LONG
        {
            self.env.charge(made.len())?;
        }
        Ok(())
    }

    pub(super) fn json_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        use Function as F;
        match function {
            F::JsonArray => self.json_array(args),
            F::JsonObject => self.json_object(args),
            F::JsonSet | F::JsonInsert | F::JsonReplace => self.json_set(function, args),
            F::JsonArrayAppend | F::JsonArrayInsert => self.json_array_change(function, args),
            F::JsonRemove => self.json_remove(args),
            F::JsonMergePreserve => self.json_merge_preserve(args),
            F::JsonMergePatch => self.json_merge_patch(args),
            F::JsonSearch => self.json_search(args),
            F::JsonValue => self.json_value_at(args, &node.ty),
            F::JsonContains | F::JsonContainsPath | F::JsonOverlaps | F::JsonMember => {
                self.json_test(function, args)
            }
            _ => self.json_read(function, args),
        }
    }

    /// The text in UTF-8 as a document. `wrong` words the error of a text that is no JSON.
    fn parsed(
        &mut self,
        text: &[u8],
        wrong: impl FnOnce(&'static str, usize) -> SqlError,
    ) -> Result<Vec<u8>> {
        if text.len() >= LONG {
            self.env.bytes(text.len())?;
            self.env.charge(json::parse_cost(text))?;
        }
        let parsed = json::parse(text).and_then(|json| json.to_binary());
        parsed.map_err(|error| match error {
            JsonError::Text { why, position } => wrong(why, position),
            error => error.into(),
        })
    }

    /// The document that argument `n` is: a JSON value, or a text that is JSON. None for NULL.
    fn document(
        &mut self,
        function: Function,
        args: &'v [Expr],
        n: usize,
    ) -> Result<Option<Document<'v>>> {
        self.document_of(&args[n], n + 1, &|| function.name().to_ascii_lowercase())
    }
    /// The document of a JSON_TABLE. None for NULL.
    pub(in crate::exec) fn table_document(&mut self, e: &'v Expr) -> Result<Option<Document<'v>>> {
        self.document_of(e, 1, &|| "json_table".to_string())
    }
    /// The document that argument `number`, from 1, of the function `name` is.
    fn document_of(
        &mut self,
        e: &'v Expr,
        number: usize,
        name: &dyn Fn() -> String,
    ) -> Result<Option<Document<'v>>> {
        match self.eval(e)? {
            Value::Null => Ok(None),
            Value::Json(document) => Ok(Some(document)),
            Value::Bytes(text) => {
                let text = self.json_text(e, text)?;
                let wrong = |why, at| SqlError::invalid_json_argument(number, name(), why, at);
                Ok(Some(Cow::Owned(self.parsed(&text, wrong)?)))
            }
            _ => Err(SqlError::invalid_json_type(number, name())),
        }
    }

    /// The string of an expression in UTF-8; bytes have no characters, which is an error.
    fn json_text(&self, e: &Expr, text: Cow<'v, [u8]>) -> Result<Cow<'v, [u8]>> {
        let from = self.charset_of(e);
        if from == Charset::Binary {
            return Err(SqlError::json_charset("binary"));
        }
        if from == Charset::Utf8mb4 || text.is_ascii() {
            return Ok(text);
        }
        Ok(Cow::Owned(from.convert_lossy(&text, Charset::Utf8mb4).into_owned()))
    }

    /// The value of any expression as a JSON value, in the binary form: strings become JSON
    /// strings, NULL becomes null.
    pub(in crate::exec) fn json_value(&mut self, e: &'v Expr) -> Result<Document<'v>> {
        let value = self.eval(e)?;
        if let Value::Bytes(text) = &value {
            // A string is copied.
            self.env.bytes(text.len())?;
            if text.len() >= KEPT {
                self.env.charge(text.len())?;
            }
        }
        let document = self.as_json(e, value)?;
        self.keep_argument(document)
    }
    fn as_json(&mut self, e: &Expr, value: Value<'v>) -> Result<Document<'v>> {
        let json = match &value {
            Value::Json(_) => {
                let Value::Json(document) = value else { return Ok(Cow::Borrowed(&[])) };
                return Ok(document);
            }
            Value::Int(n) if is_boolean(e) => Json::Bool(*n != 0),
            Value::UInt(_) if e.ty.kind == Kind::Bit => {
                let bytes = self.text_of(e, &value).into_owned();
                Json::Opaque(field::BIT, Cow::Owned(bytes))
            }
            Value::Bytes(bytes) if self.charset_of(e) == Charset::Binary => {
                Json::Opaque(field_of(e), Cow::Borrowed(&bytes[..]))
            }
            Value::Bytes(_) => {
                let text = self.string_in(e, &value, Charset::Utf8mb4);
                return Ok(Cow::Owned(Json::text(utf8(&text)?).to_binary()?));
            }
            Value::Decimal(d) if e.ty.kind == Kind::Decimal && d.scale() > e.ty.decimals => {
                Json::Decimal(d.round(e.ty.decimals).unwrap_or(*d))
            }
            value => json::from_value(value),
        };
        Ok(Cow::Owned(json.to_binary()?))
    }

    pub(super) fn cast_to_json(&mut self, e: &'v Expr, value: Value<'v>) -> Result<Value<'v>> {
        let Value::Bytes(text) = value else { return Ok(Value::Json(self.as_json(e, value)?)) };
        // The name of an ENUM or SET is a JSON string; a text is a document.
        if self.charset_of(e) == Charset::Binary || matches!(e.ty.kind, Kind::Enum | Kind::Set) {
            return Ok(Value::Json(self.as_json(e, Value::Bytes(text))?));
        }
        let text = self.json_text(e, text)?;
        if is_mark(e) {
            return Ok(Value::Json(Cow::Owned(self.mark_as_json(&text)?)));
        }
        let wrong = |why, at| SqlError::invalid_json_argument(1, "cast_as_json", why, at);
        Ok(Value::Json(Cow::Owned(self.parsed(&text, wrong)?)))
    }

    /// The text of a parameter of a prepared statement as MySQL takes it beside JSON: a document if
    /// it is the text of one, else a JSON string.
    fn mark_as_json(&mut self, text: &[u8]) -> Result<Vec<u8>> {
        let mut is_text = true;
        let wrong = |why: &'static str, _| {
            is_text = false;
            SqlError::internal(why)
        };
        match self.parsed(text, wrong) {
            Err(_) if !is_text => Ok(Json::text(utf8(text)?).to_binary()?),
            parsed => parsed,
        }
    }

    /// Compares two values of which one is a JSON value.
    pub(super) fn json_order(
        &mut self,
        (le, a): (&Expr, &Value<'_>),
        (re, b): (&Expr, &Value<'_>),
    ) -> Result<Ordering> {
        let document = |this: &mut Self, e: &Expr, value: &Value<'_>| -> Result<Vec<u8>> {
            // TRUE is the JSON value true, which is not equal to the number 1.
            let value = match value {
                Value::Bytes(bytes) if this.charset_of(e) == Charset::Binary => {
                    return Ok(Json::Opaque(field_of(e), Cow::Borrowed(&bytes[..])).to_binary()?);
                }
                Value::UInt(_) if e.ty.kind == Kind::Bit => {
                    let bytes = this.text_of(e, value);
                    return Ok(Json::Opaque(field::BIT, bytes).to_binary()?);
                }
                Value::Bytes(_) => {
                    let text = this.string_in(e, value, Charset::Utf8mb4).into_owned();
                    if is_mark(e) {
                        return this.mark_as_json(&text);
                    }
                    Value::owned(text)
                }
                value => value.borrow(),
            };
            let json = match is_boolean(e).then_some(&value) {
                Some(Value::Int(n)) => Json::Bool(*n != 0),
                _ => json::from_value(&value),
            };
            Ok(json.to_binary()?)
        };
        let (a, b) = match (a, b) {
            (Value::Json(a), Value::Json(b)) => (Cow::Borrowed(&a[..]), Cow::Borrowed(&b[..])),
            (Value::Json(a), b) => (Cow::Borrowed(&a[..]), Cow::Owned(document(self, re, b)?)),
            (a, Value::Json(b)) => (Cow::Owned(document(self, le, a)?), Cow::Borrowed(&b[..])),
            _ => return Err(SqlError::internal("a comparison of JSON has no JSON value")),
        };
        Ok(json::compare(JsonRef::new(&a)?, JsonRef::new(&b)?)?)
    }

    /// A path argument; None for NULL.
    fn json_path(&mut self, e: &'v Expr) -> Result<Option<Path<'static>>> {
        let Some(text) = self.arg_text(e, Charset::Utf8mb4)? else { return Ok(None) };
        self.env.bytes(text.len())?;
        let text =
            std::str::from_utf8(&text).map_err(|e| SqlError::invalid_json_path(e.valid_up_to()))?;
        match Path::parse(text) {
            Ok(path) => Ok(Some(path.into_owned())),
            Err(at) => Err(SqlError::invalid_json_path(at)),
        }
    }
    /// A path argument that may find only one value.
    fn json_place(&mut self, e: &'v Expr) -> Result<Option<Path<'static>>> {
        let path = self.json_path(e)?;
        match &path {
            Some(found) if found.has_wildcard() => Err(SqlError::json_path_wildcard()),
            _ => Ok(path),
        }
    }

    /// The value of a tree.
    fn made_json(&mut self, json: &Json<'_>) -> Result<Value<'v>> {
        let size = json::size(json)?;
        if size >= KEPT {
            self.env.bytes(size)?;
            self.env.charge(size)?;
        }
        Ok(Value::Json(Cow::Owned(json.to_binary()?)))
    }
    fn made_text(&mut self, text: Vec<u8>) -> Result<Value<'v>> {
        Ok(Value::owned(text))
    }
    fn made_bool(truth: bool) -> Value<'v> {
        Value::Int(i64::from(truth))
    }
}

/// Does work on documents that tells a meter how far it is: KILL ends the work, and the statement
/// is charged for what the work makes.
pub(in crate::exec) fn metered<T>(
    env: &mut Env<'_>,
    work: impl FnOnce(Meter<'_>) -> json::Result<T>,
) -> Result<T> {
    let mut ended = Ok(());
    let done = work(&mut |values, bytes| {
        ended = env.steps(values);
        if ended.is_ok() && bytes > 0 {
            ended = env.charge(bytes);
        }
        ended.is_err()
    });
    ended?;
    Ok(done?)
}

/// A string that has to be text.
fn utf8(text: &[u8]) -> Result<&str> {
    std::str::from_utf8(text)
        .map_err(|e| SqlError::invalid_bytes("utf8mb4", &text[e.valid_up_to()..]))
}

/// The only value of a path without wildcards.
fn one<'a>(document: &'a [u8], path: Option<&Path<'_>>) -> Result<Option<JsonRef<'a>>> {
    let value = JsonRef::new(document)?;
    let Some(path) = path else { return Ok(Some(value)) };
    let mut found = None;
    json::seek_where(value, path, &mut |_, _| false, &mut |value| {
        found = Some(value);
        false
    })?;
    Ok(found)
}

/// Whether an expression is a parameter of a prepared statement. A literal that a plan takes as a
/// parameter has a type without length.
fn is_mark(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Param(_)) && (e.ty.kind == Kind::Null || e.ty.length > 0)
}

/// Whether the integer of an expression is true or false for JSON: TRUE, FALSE, and what conditions
/// and some functions give.
fn is_boolean(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Compare { .. }
        | ExprKind::And(_)
        | ExprKind::Or(_)
        | ExprKind::Xor(_)
        | ExprKind::Between { .. }
        | ExprKind::In { .. }
        | ExprKind::Like { .. }
        | ExprKind::Regexp { .. }
        | ExprKind::IsNull { .. }
        | ExprKind::IsTruth { .. }
        | ExprKind::Unary(UnaryOp::Not, _) => true,
        // The type of a number has a place for its sign.
        ExprKind::Literal(Value::Int(0 | 1)) => e.ty.kind == Kind::BigInt && e.ty.length == 1,
        ExprKind::Subquery(subquery) => !matches!(subquery.test, SubqueryTest::Scalar),
        ExprKind::Call { function, .. } => matches!(
            function,
            Function::IsNull
                | Function::JsonValid
                | Function::JsonContains
                | Function::JsonContainsPath
                | Function::JsonOverlaps
                | Function::JsonMember
        ),
        _ => false,
    }
}

/// The protocol's number of the type of an expression that gives bytes.
fn field_of(e: &Expr) -> u8 {
    match (&e.kind, e.ty.kind) {
        (_, Kind::Blob) => field::BLOB,
        (ExprKind::Column { .. }, Kind::Char) => field::STRING,
        (ExprKind::Column { .. }, _) => field::VARCHAR,
        _ => field::VAR_STRING,
    }
}
