//! Functions that read a document.
use super::{Eval, KEPT, one, utf8};
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Function};
use redolith_types::json::{self, Json, JsonError, JsonRef, View};
use redolith_types::{Charset, Value};
use std::borrow::Cow;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn json_read(&mut self, function: Function, args: &'v [Expr]) -> Result<Value<'v>> {
        use Function as F;
        match function {
            F::JsonExtract => return self.json_extract(args),
            F::JsonUnquote => return self.json_unquote(args),
            F::JsonQuote => return self.json_quote(args),
            F::JsonValid => return self.json_valid(&args[0]),
            F::JsonLength | F::JsonKeys => return self.json_at_path(function, args),
            _ => {}
        }
        let Some(document) = self.document(function, args, 0)? else { return Ok(Value::Null) };
        let value = JsonRef::new(&document)?;
        Ok(match function {
            F::JsonType => Value::text(value.view()?.type_name()),
            F::JsonDepth => Value::Int(value.depth()? as i64),
            F::JsonStorageSize => Value::Int(document.len() as i64),
            F::JsonStorageFree => Value::Int(0),
            F::JsonPretty => {
                return self.printed("json_pretty", |out, meter| json::pretty(value, out, meter));
            }
            _ => return Err(SqlError::internal("no function of JSON")),
        })
    }

    fn json_extract(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let document = self.document(Function::JsonExtract, args, 0)?;
        let mut paths = Vec::with_capacity(args.len() - 1);
        for e in &args[1..] {
            paths.push(self.json_path(e)?);
        }
        let (Some(document), Some(paths)) =
            (document, paths.into_iter().collect::<Option<Vec<_>>>())
        else {
            return Ok(Value::Null);
        };
        if let [path] = &paths[..]
            && !path.has_wildcard()
        {
            return Ok(one(&document, Some(path))?.map_or(Value::Null, Value::from));
        }
        let value = JsonRef::new(&document)?;
        let mut found = Vec::new();
        for path in &paths {
            let values = self.metered(|meter| {
                let values = json::seek(value, path, meter)?;
                // The values are in the array, too.
                let more = values.len() * 2 * size_of::<Json<'_>>();
                if meter(values.len(), more) { Err(JsonError::Stopped) } else { Ok(values) }
            })?;
            found.extend(values.into_iter().map(Json::Raw));
        }
        if found.is_empty() { Ok(Value::Null) } else { self.made_json(&Json::Array(found)) }
    }

    /// JSON_LENGTH and JSON_KEYS, of the whole document or at a path.
    fn json_at_path(&mut self, function: Function, args: &'v [Expr]) -> Result<Value<'v>> {
        let document = self.document(function, args, 0)?;
        let path = match args.get(1) {
            Some(e) => match self.json_place(e)? {
                Some(path) => Some(path),
                None => return Ok(Value::Null),
            },
            None => None,
        };
        let Some(document) = document else { return Ok(Value::Null) };
        let Some(value) = one(&document, path.as_ref())? else { return Ok(Value::Null) };
        let container = value.container()?;
        if function == Function::JsonLength {
            return Ok(Value::Int(container.map_or(1, |c| c.len()) as i64));
        }
        let Some(object) = container.filter(|c| c.is_object()) else { return Ok(Value::Null) };
        self.env.steps(object.len())?;
        self.env.charge(object.len() * size_of::<Json<'_>>())?;
        let keys = (0..object.len()).map(|n| Ok(Json::text(object.key(n)?)));
        let keys = Json::Array(keys.collect::<Result<_>>()?);
        self.made_json(&keys)
    }

    fn json_unquote(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let e = &args[0];
        match self.eval(e)? {
            Value::Null => Ok(Value::Null),
            Value::Json(document) => {
                let value = JsonRef::new(&document)?;
                let mut text = Vec::new();
                if json::print_unquoted(&value.view()?, &mut text) {
                    return self.made_text(text);
                }
                self.printed("json_unquote", |out, meter| json::print_metered(value, out, meter))
            }
            Value::Bytes(text) => {
                let text = self.json_text(e, text)?;
                if text.len() < 2 || text.first() != Some(&b'"') || text.last() != Some(&b'"') {
                    return Ok(Value::Bytes(text));
                }
                let wrong = |why, at| SqlError::invalid_json_argument(1, "json_unquote", why, at);
                let document = self.parsed(&text, wrong)?;
                match JsonRef::new(&document)?.view()? {
                    View::String(text) => self.made_text(text.as_bytes().to_vec()),
                    _ => Ok(Value::Bytes(text)),
                }
            }
            _ => Err(SqlError::invalid_json_type(1, "json_unquote")),
        }
    }

    fn json_quote(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let e = &args[0];
        match self.eval(e)? {
            Value::Null => Ok(Value::Null),
            Value::Bytes(text) => {
                let text = self.json_text(e, text)?;
                let text = utf8(&text)?;
                let len = json::quoted_len(text);
                if len > self.most_bytes() {
                    return self.too_long("json_quote");
                }
                self.env.bytes(len)?;
                if len >= KEPT {
                    self.env.charge(len)?;
                }
                let mut quoted = Vec::with_capacity(len);
                json::quote(text, &mut quoted);
                debug_assert_eq!(quoted.len(), len, "quoted_len tells the length");
                self.made_text(quoted)
            }
            _ => Err(SqlError::invalid_json_type(1, "json_quote")),
        }
    }

    fn json_valid(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        let value = self.eval(e)?;
        let text: Cow<'_, [u8]> = match value {
            Value::Null => return Ok(Value::Null),
            Value::Json(_) => return Ok(Self::made_bool(true)),
            Value::Bytes(_) if self.charset_of(e) == Charset::Binary => {
                return Ok(Self::made_bool(false));
            }
            Value::Bytes(text) => self.json_text(e, text)?,
            _ => return Ok(Self::made_bool(false)),
        };
        let mut is_text = true;
        let wrong = |why: &'static str, _| {
            is_text = false;
            SqlError::internal(why)
        };
        match self.parsed(&text, wrong) {
            Ok(_) => Ok(Self::made_bool(true)),
            Err(_) if !is_text => Ok(Self::made_bool(false)),
            Err(error) => Err(error),
        }
    }
}
