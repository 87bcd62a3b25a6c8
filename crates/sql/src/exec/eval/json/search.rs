//! JSON_CONTAINS, JSON_CONTAINS_PATH, JSON_OVERLAPS, MEMBER OF and JSON_SEARCH.
use super::{Eval, one};
use crate::error::{Result, SqlError};
use crate::exec::eval::like::like_unless;
use crate::plan::{Expr, Function};
use redolith_types::json::{self, Json, JsonError, JsonRef, MAX_DEPTH, Meter, View, quote};
use redolith_types::{Charset, Collation, Value};
use std::borrow::Cow;
use std::collections::HashMap;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn json_test(&mut self, function: Function, args: &'v [Expr]) -> Result<Value<'v>> {
        match function {
            Function::JsonContainsPath => return self.json_contains_path(args),
            Function::JsonMember => return self.json_member(args),
            _ => {}
        }
        let left = self.document(function, args, 0)?;
        let right = self.document(function, args, 1)?;
        let path = match args.get(2) {
            Some(e) => match self.json_place(e)? {
                Some(path) => Some(path),
                None => return Ok(Value::Null),
            },
            None => None,
        };
        let (Some(left), Some(right)) = (left, right) else { return Ok(Value::Null) };
        let right = JsonRef::new(&right)?;
        if function == Function::JsonOverlaps {
            let left = JsonRef::new(&left)?;
            return self.metered(|m| json::overlaps(left, right, m)).map(Self::made_bool);
        }
        let Some(target) = one(&left, path.as_ref())? else { return Ok(Value::Null) };
        self.metered(|meter| json::contains(target, right, meter)).map(Self::made_bool)
    }

    /// Whether the argument is 'all'; else it is 'one'. None for NULL.
    fn wants_all(&mut self, function: &str, e: &'v Expr) -> Result<Option<bool>> {
        let Some(text) = self.arg_text(e, Charset::Utf8mb4)? else { return Ok(None) };
        if text.eq_ignore_ascii_case(b"all") {
            Ok(Some(true))
        } else if text.eq_ignore_ascii_case(b"one") {
            Ok(Some(false))
        } else {
            Err(SqlError::json_one_or_all(function))
        }
    }

    fn json_contains_path(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let document = self.document(Function::JsonContainsPath, args, 0)?;
        let all = self.wants_all("json_contains_path", &args[1])?;
        let (Some(document), Some(all)) = (document, all) else { return Ok(Value::Null) };
        let value = JsonRef::new(&document)?;
        for e in &args[2..] {
            let Some(path) = self.json_path(e)? else { return Ok(Value::Null) };
            let mut found = false;
            self.metered(|meter| {
                json::seek_where(value, &path, meter, &mut |_| {
                    found = true;
                    false
                })
            })?;
            if found != all {
                return Ok(Self::made_bool(found));
            }
        }
        Ok(Self::made_bool(all))
    }

    fn json_member(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let value = self.eval(&args[0])?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        let value = self.as_json(&args[0], value)?;
        let Some(array) = self.document(Function::JsonMember, args, 1)? else {
            return Ok(Value::Null);
        };
        let (value, array) = (JsonRef::new(&value)?, JsonRef::new(&array)?);
        let Some(elements) = array.container()?.filter(|c| !c.is_object()) else {
            return Ok(Self::made_bool(json::compare(value, array)?.is_eq()));
        };
        for element in elements.values() {
            self.env.step()?;
            if json::compare(value, element?)?.is_eq() {
                return Ok(Self::made_bool(true));
            }
        }
        Ok(Self::made_bool(false))
    }

    /// JSON_SEARCH(doc, one or all, pattern, escape, path, ..): the paths of the strings that match
    /// the pattern. As in MySQL, the values of the first path come first, in the path's order, and
    /// a string in several of them comes once, with the first.
    pub(super) fn json_search(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let document = self.document(Function::JsonSearch, args, 0)?;
        let all = self.wants_all("json_search", &args[1])?;
        let pattern = self.arg_text(&args[2], Charset::Utf8mb4)?;
        let escape = match args.get(3) {
            Some(e) => self.arg_text(e, Charset::Utf8mb4)?,
            None => None,
        };
        let escape = match escape.as_deref().map(std::str::from_utf8) {
            None | Some(Ok("")) => '\\',
            Some(Ok(text)) if text.chars().count() == 1 => text.chars().next().unwrap_or('\\'),
            Some(_) => return Err(SqlError::wrong_arguments("ESCAPE")),
        };
        let mut paths = Vec::new();
        for e in args.iter().skip(4) {
            paths.push(self.json_path(e)?);
        }
        let (Some(document), Some(all), Some(pattern)) = (document, all, pattern) else {
            return Ok(Value::Null);
        };
        let Some(paths) = paths.into_iter().collect::<Option<Vec<_>>>() else {
            return Ok(Value::Null);
        };
        let root = JsonRef::new(&document)?;
        let inside = if paths.is_empty() {
            None
        } else {
            let mut inside = HashMap::new();
            for path in &paths {
                let values = self.metered(|meter| json::seek(root, path, meter))?;
                self.env.charge(values.len() * 3 * size_of::<((usize, usize), usize)>())?;
                for value in values {
                    let rank = inside.len();
                    inside.entry(value.address()).or_insert(rank);
                }
            }
            Some(inside)
        };
        let mut found = self.metered(|meter| {
            let found = Vec::new();
            let mut search = Search { pattern: &pattern, escape, all, inside, found, meter };
            search.walk(root, &mut vec![b'$'], None, MAX_DEPTH + 1)?;
            Ok(search.found)
        })?;
        // The sort is stable: strings in one value stay in their order in the document.
        found.sort_by_key(|(rank, _)| *rank);
        let texts = found.into_iter().map(|(_, path)| Json::String(Cow::Owned(path)));
        let mut texts: Vec<Json<'_>> = texts.collect();
        match texts.len() {
            0 => Ok(Value::Null),
            1 => self.made_json(&texts.remove(0)),
            _ => self.made_json(&Json::Array(texts)),
        }
    }
}

struct Search<'s, 'm> {
    pattern: &'s [u8],
    escape: char,
    all: bool,
    /// The values in which strings are looked for, each with its rank; None for the whole document.
    inside: Option<HashMap<(usize, usize), usize>>,
    /// The places of the strings, each with the lowest rank of the values around it. It has one
    /// place at most, that of the lowest rank so far, unless all are wanted.
    found: Vec<(usize, String)>,
    meter: Meter<'m>,
}

impl Search<'_, '_> {
    fn count(&mut self, values: usize, bytes: usize) -> json::Result<()> {
        if (self.meter)(values, bytes) { Err(JsonError::Stopped) } else { Ok(()) }
    }
    /// Looks through a value that stands at `path`. `within` is the lowest rank of the values
    /// around it that are searched.
    fn walk(
        &mut self,
        value: JsonRef<'_>,
        path: &mut Vec<u8>,
        within: Option<usize>,
        depth: usize,
    ) -> json::Result<()> {
        self.count(1, 0)?;
        let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
        let own = match &self.inside {
            Some(inside) => inside.get(&value.address()).copied(),
            None => Some(0),
        };
        let rank = within.into_iter().chain(own).min();
        match value.view()? {
            View::String(text) => {
                let best = self.found.first().map(|(rank, _)| *rank);
                let Some(rank) = rank.filter(|rank| self.all || best.is_none_or(|b| *rank < b))
                else {
                    return Ok(());
                };
                let collation = Collation::Utf8mb4Bin;
                self.count(text.len() / 16, 0)?;
                // KILL ends a pattern that takes long, and the work leaves its worker.
                let meter = &mut self.meter;
                let mut stop = |steps: usize| match meter(steps / 16, 0) {
                    true => Err(SqlError::interrupted()),
                    false => Ok(()),
                };
                let (escape, text) = (Some(self.escape), text.as_bytes());
                let matches = like_unless(collation, escape, text, self.pattern, &mut stop)
                    .map_err(|_| JsonError::Stopped)?;
                if matches {
                    if !self.all {
                        self.found.clear();
                    }
                    let place = String::from_utf8_lossy(path).into_owned();
                    // The place, its node in the answer's tree, and a vector that grows.
                    self.count(1, place.len() + 3 * size_of::<Json<'_>>())?;
                    self.found.push((rank, place));
                }
            }
            View::Array(array) | View::Object(array) => {
                let len = path.len();
                for n in 0..array.len() {
                    if array.is_object() {
                        push_member(array.key(n)?, path);
                    } else {
                        path.extend_from_slice(format!("[{n}]").as_bytes());
                    }
                    self.walk(array.value(n)?, path, rank, depth)?;
                    path.truncate(len);
                    // No later string has a lower rank than the first value.
                    if !self.all && self.found.first().is_some_and(|(rank, _)| *rank == 0) {
                        return Ok(());
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Appends `.name`, in quotation marks unless the name is an identifier.
fn push_member(name: &str, path: &mut Vec<u8>) {
    path.push(b'.');
    let mut chars = name.chars();
    let is_start = |c: char| c.is_alphabetic() || c == '_' || c == '$';
    let is_identifier =
        chars.next().is_some_and(is_start) && chars.all(|c| is_start(c) || c.is_numeric());
    if is_identifier {
        path.extend_from_slice(name.as_bytes());
    } else {
        quote(name, path);
    }
}
