//! Functions that change a document: JSON_SET, JSON_INSERT, JSON_REPLACE, JSON_REMOVE,
//! JSON_ARRAY_APPEND, JSON_ARRAY_INSERT, and merging.
use super::{Document, Eval};
use crate::error::{Result, SqlError};
use crate::exec::pace::LONG;
use crate::plan::{Expr, Function};
use redolith_types::Value;
use redolith_types::json::edit::{self, Mode};
use redolith_types::json::{Json, JsonRef, Leg, Path};

/// A change moves this many bytes of the document in a step.
const BYTES_PER_STEP: usize = 64;

impl<'v> Eval<'v, '_, '_> {
    /// Charges for the tree of a document, whose containers may all be opened.
    fn charge_tree(&mut self, document: &[u8]) -> Result<()> {
        if document.len() < LONG {
            return Ok(());
        }
        let nodes = JsonRef::new(document)?.nodes()?;
        self.env.charge(nodes.saturating_mul(size_of::<Json<'_>>() + size_of::<String>()))
    }

    /// Counts a change, which may move all elements of an array: those of the document, and those
    /// that the `earlier` changes have added.
    fn count_change(&mut self, document: &[u8], earlier: usize) -> Result<()> {
        let bytes = document.len() + earlier * size_of::<Json<'_>>();
        self.env.steps(1 + bytes / BYTES_PER_STEP)
    }

    /// The document and the pairs of a path and a value that follow. None if the document or a path
    /// is NULL.
    #[allow(clippy::type_complexity)]
    fn changes(
        &mut self,
        function: Function,
        args: &'v [Expr],
    ) -> Result<Option<(Document<'v>, Vec<(Path<'static>, Document<'v>)>)>> {
        let document = self.document(function, args, 0)?;
        let mut changes = Vec::with_capacity(args.len() / 2);
        let mut has_null = document.is_none();
        for pair in args[1..].chunks_exact(2) {
            match self.json_place(&pair[0])? {
                Some(path) => changes.push((path, self.json_value(&pair[1])?)),
                None => has_null = true,
            }
        }
        Ok(document.filter(|_| !has_null).map(|document| (document, changes)))
    }

    pub(super) fn json_set(&mut self, function: Function, args: &'v [Expr]) -> Result<Value<'v>> {
        let mode = match function {
            Function::JsonInsert => Mode::Insert,
            Function::JsonReplace => Mode::Replace,
            _ => Mode::Set,
        };
        let Some((document, changes)) = self.changes(function, args)? else {
            return Ok(Value::Null);
        };
        self.charge_tree(&document)?;
        let mut json = Json::Raw(JsonRef::new(&document)?);
        for (n, (path, value)) in changes.iter().enumerate() {
            self.count_change(&document, n)?;
            edit::set(&mut json, path, Json::Raw(JsonRef::new(value)?), mode)?;
        }
        self.made_json(&json)
    }

    pub(super) fn json_array_change(
        &mut self,
        function: Function,
        args: &'v [Expr],
    ) -> Result<Value<'v>> {
        let Some((document, changes)) = self.changes(function, args)? else {
            return Ok(Value::Null);
        };
        self.charge_tree(&document)?;
        let mut json = Json::Raw(JsonRef::new(&document)?);
        for (n, (path, value)) in changes.iter().enumerate() {
            self.count_change(&document, n)?;
            let value = Json::Raw(JsonRef::new(value)?);
            if function == Function::JsonArrayAppend {
                edit::array_append(&mut json, path, value)?;
            } else if matches!(path.legs.last(), Some(Leg::Cell(_))) {
                edit::array_insert(&mut json, path, value)?;
            } else {
                return Err(SqlError::json_path_no_cell());
            }
        }
        self.made_json(&json)
    }

    pub(super) fn json_remove(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let document = self.document(Function::JsonRemove, args, 0)?;
        let mut paths = Vec::with_capacity(args.len() - 1);
        for e in &args[1..] {
            let path = self.json_place(e)?;
            if path.as_ref().is_some_and(|path| path.legs.is_empty()) {
                return Err(SqlError::json_vacuous_path());
            }
            paths.push(path);
        }
        let (Some(document), Some(paths)) =
            (document, paths.into_iter().collect::<Option<Vec<_>>>())
        else {
            return Ok(Value::Null);
        };
        self.charge_tree(&document)?;
        let mut json = Json::Raw(JsonRef::new(&document)?);
        for path in &paths {
            self.count_change(&document, 0)?;
            edit::remove(&mut json, path)?;
        }
        self.made_json(&json)
    }

    fn documents(
        &mut self,
        function: Function,
        args: &'v [Expr],
    ) -> Result<Vec<Option<Document<'v>>>> {
        let mut documents = Vec::with_capacity(args.len());
        for n in 0..args.len() {
            let document = self.document(function, args, n)?;
            if let Some(document) = &document {
                self.charge_tree(document)?;
            }
            documents.push(document);
        }
        Ok(documents)
    }

    pub(super) fn json_merge_preserve(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let documents = self.documents(Function::JsonMergePreserve, args)?;
        let (mut merged, mut size) = (None, 0);
        for document in &documents {
            let Some(document) = document else { return Ok(Value::Null) };
            size += document.len();
            self.env.steps(size / BYTES_PER_STEP)?;
            let json = Json::Raw(JsonRef::new(document)?);
            merged = Some(match merged {
                None => json,
                Some(so_far) => edit::merge_preserve(so_far, json)?,
            });
        }
        merged.map_or(Ok(Value::Null), |json| self.made_json(&json))
    }

    /// A patch that is no object replaces all before it, even NULL.
    pub(super) fn json_merge_patch(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let documents = self.documents(Function::JsonMergePatch, args)?;
        let mut merged: Option<Json<'_>> = None;
        let mut size = 0;
        for (n, document) in documents.iter().enumerate() {
            size += document.as_ref().map_or(0, |document| document.len());
            self.env.steps(size / BYTES_PER_STEP)?;
            let patch = document.as_ref().map(|d| JsonRef::new(d)).transpose()?;
            merged = match (merged, patch) {
                (_, None) => None,
                (_, Some(patch)) if n == 0 || !patch.is_object() => Some(Json::Raw(patch)),
                (None, Some(_)) => None,
                (Some(target), Some(patch)) => Some(edit::merge_patch(target, Json::Raw(patch))?),
            };
        }
        merged.map_or(Ok(Value::Null), |json| self.made_json(&json))
    }
}
