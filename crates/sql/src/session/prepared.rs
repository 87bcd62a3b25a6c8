//! Prepared statements: each session has a small handle for each statement and shares the rest.
//!
//! **PREP-1** A handle is two pointers: the shared entry (text, context) and the plan. While the
//! statement runs, the plan is out of the handle, so the run changes no shared reference count.
//! **PREP-2** Statements of the protocol and of PREPARE count alike towards
//! `max_prepared_stmt_count`, until they are closed or their session ends.
use super::plans::{LONG_STATEMENT_BYTES, work_on};
use super::run::{Failure, keeps_warnings};
use super::{Session, check_name};
use crate::binlog::StatementText;
use crate::error::{Result, SqlError};
use crate::memory::{Account, bytes_of};
use crate::plan::{ExprType, Plan};
use crate::plan_cache::Entry;
use crate::settings::Var;
use crate::sink::{ColumnMeta, ResultSink};
use redolith_types::{Charset, Collation, Value};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The capacity that the list of binary parameters keeps after a statement.
const KEPT_BINARY_PARAMS: usize = 16;

/// Approximate memory of the name of a statement of PREPARE.
fn name_bytes(name: &str) -> usize {
    64 + name.len()
}

/// The answer to COM_STMT_PREPARE.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub id: u32,
    pub params: Vec<ExprType>,
    pub columns: Vec<ColumnMeta>,
    pub warnings: u16,
}

/// Converts a text into another character set. A copy has about the length of the text: `memory` is
/// charged this length before the conversion, and the actual capacity after it.
fn convert_counted<'t>(
    text: &'t [u8],
    from: Charset,
    to: Charset,
    memory: &mut Account,
) -> Result<Cow<'t, [u8]>> {
    let mut counted = 0;
    memory.recount(&mut counted, text.len())?;
    let converted = from.convert_lossy(text, to);
    let made = match &converted {
        Cow::Owned(made) => made.capacity(),
        Cow::Borrowed(_) => 0,
    };
    memory.recount(&mut counted, made)?;
    Ok(converted)
}

struct Handle {
    entry: Arc<Entry>,
    plan: Option<Arc<Plan>>,
}
// A handle stays small: a session may prepare very many statements (PREP-1).
const _: () = assert!(size_of::<Option<Handle>>() <= 16);

/// The number of statements that this session adds to the count of all sessions (PREP-2).
struct Places {
    taken: u64,
    all: Arc<AtomicU64>,
}
impl Places {
    fn take(&mut self, max: u64) -> Result<()> {
        let one_more = |n| (n < max).then_some(n + 1);
        self.all
            .fetch_update(Relaxed, Relaxed, one_more)
            .map_err(|_| SqlError::too_many_statements(max))?;
        self.taken += 1;
        Ok(())
    }
    fn give_back(&mut self, n: u64) {
        self.all.fetch_sub(n, Relaxed);
        self.taken -= n;
    }
}
impl Drop for Places {
    fn drop(&mut self) {
        self.give_back(self.taken);
    }
}

/// Handles by id, from 1. The ids of closed statements are used again.
pub(super) struct Statements {
    handles: Vec<Option<Handle>>,
    free: Vec<u32>,
    /// Each handle has a place, and so has a statement that is being prepared.
    places: Places,
}

impl Statements {
    pub fn new(all: Arc<AtomicU64>) -> Statements {
        Statements { handles: Vec::new(), free: Vec::new(), places: Places { taken: 0, all } }
    }
    /// Adds a statement. The caller has taken its place.
    fn add(&mut self, handle: Handle) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.handles[id as usize - 1] = Some(handle);
                id
            }
            None => {
                self.handles.push(Some(handle));
                self.handles.len() as u32
            }
        }
    }
    #[inline]
    fn get(&mut self, id: u32) -> Option<&mut Handle> {
        self.handles.get_mut((id as usize).wrapping_sub(1))?.as_mut()
    }
    fn remove(&mut self, id: u32) -> bool {
        let found =
            self.handles.get_mut((id as usize).wrapping_sub(1)).is_some_and(|h| h.take().is_some());
        if found {
            self.free.push(id);
            self.places.give_back(1);
        }
        found
    }
    pub fn clear(&mut self) {
        *self = Statements::new(self.places.all.clone());
    }
}

impl Session {
    /// COM_STMT_PREPARE.
    pub async fn prepare(&mut self, text: &[u8]) -> Result<Prepared> {
        let prepared = self.prepare_text(super::without_nul(text)).await;
        prepared.inspect_err(|e| self.failed(e))
    }
    async fn prepare_text(&mut self, text: &[u8]) -> Result<Prepared> {
        let most = self.db.settings.bits(Var::MaxPreparedStmtCount);
        let taken = self.statements.places.take(most);
        taken.inspect_err(|_| self.state.warnings.clear())?;
        let found = self.find_described(text).await;
        let (entry, plan, earlier) = found.inspect_err(|_| self.statements.places.give_back(1))?;
        let (params, columns) = (plan.param_types.clone(), plan.columns.clone());
        let id = self.statements.add(Handle { entry, plan: Some(plan) });
        Ok(Prepared { id, params, columns, warnings: self.state.warnings.count_since(earlier) })
    }
    /// The plan of a statement, and how many of the warnings are of the statement before: as in
    /// MySQL, one that names no table keeps them, since it may read `@@warning_count`.
    async fn find_described(&mut self, text: &[u8]) -> Result<(Arc<Entry>, Arc<Plan>, u64)> {
        let before = self.state.warnings.take();
        let (entry, plan) = self.find_prepared(text).await?;
        let names_no_table =
            plan.tables.is_empty() && plan.views.is_empty() && self.state.warnings.count() == 0;
        let mut earlier = 0;
        if names_no_table || keeps_warnings(&plan.body) {
            earlier = before.count();
            self.state.warnings = before;
        }
        Ok((entry, plan, earlier))
    }

    /// The columns of a statement's rows, for COM_FIELD_LIST.
    pub async fn describe(&mut self, text: &[u8]) -> Result<Vec<ColumnMeta>> {
        let found = self.find_described(text).await;
        Ok(found.inspect_err(|e| self.failed(e))?.1.columns.clone())
    }

    pub(super) async fn run_prepared(
        &mut self,
        id: u32,
        params: &[Value<'_>],
        binary: &[u32],
        out: &mut impl ResultSink,
    ) {
        self.binary_params.extend_from_slice(binary);
        self.param_collation = self.derived.exec.parameters;
        let ran = match self.in_connection(params, binary) {
            Ok(converted) => {
                self.try_prepared(id, converted.as_deref().unwrap_or(params), false, out).await
            }
            Err(e) => {
                self.state.warnings.clear();
                Err(e)
            }
        };
        self.forget_binary_params();
        self.state.memory.statement.release_to(0);
        if let Err(e) = ran {
            self.failed(&e);
            out.error(&e);
        }
    }

    /// Converts string parameters from the client's character set into the connection's. None means
    /// that no conversion is needed. The statement's account holds the memory of the converted
    /// parameters while the statement runs.
    fn in_connection<'p>(
        &mut self,
        params: &'p [Value<'_>],
        binary: &[u32],
    ) -> Result<Option<Vec<Value<'p>>>> {
        let Some((from, to)) = self.derived.charsets.conversion() else { return Ok(None) };
        let memory = &mut self.state.memory.statement;
        memory.charge(size_of_val(params))?;
        let bytes = params.iter().map(bytes_of).sum();
        work_on(&*self.db.engine.runtime, bytes, LONG_STATEMENT_BYTES, || {
            let converted = params.iter().enumerate().map(|(n, value)| match value {
                Value::Bytes(b) if !b.is_ascii() && binary.binary_search(&(n as u32)).is_err() => {
                    Ok(Value::Bytes(convert_counted(b, from, to, memory)?))
                }
                value => Ok(value.borrow()),
            });
            converted.collect::<Result<_>>().map(Some)
        })
    }
    fn forget_binary_params(&mut self) {
        self.binary_params.clear();
        self.binary_params.shrink_to(KEPT_BINARY_PARAMS);
    }

    /// Takes the plan for these parameters out of its handle (PREP-1), or makes it. The entry comes
    /// with a plan that was bound again.
    async fn plan_for(
        &mut self,
        id: u32,
        params: &[Value<'_>],
    ) -> Result<(Option<Arc<Entry>>, Arc<Plan>)> {
        let Some(handle) = self.statements.get(id) else {
            return Err(SqlError::unknown_statement_handler(id, "EXECUTE"));
        };
        // Some statements look things up when they are bound (SHOW, DDL). Their plans are not
        // cacheable: such a statement is bound again for each execution.
        let temporary = &self.state.temporary;
        let is_good = |p: &Arc<Plan>| p.cacheable && p.serves() && !temporary.hide_from(p);
        let (bound, plan) = match handle.plan.take().filter(is_good) {
            Some(plan) => (None, plan),
            None => {
                let entry = handle.entry.clone();
                let (entry, plan) = self.rebind_prepared(&entry).await?;
                if let Some(handle) = self.statements.get(id) {
                    handle.entry = entry.clone();
                }
                (Some(entry), plan)
            }
        };
        if params.len() != plan.param_types.len() {
            return Err(SqlError::wrong_arguments("EXECUTE"));
        }
        let (strings, binary) = (self.param_collation, &self.binary_params);
        let collation =
            |n| if binary.binary_search(&n).is_ok() { Collation::Binary } else { strings };
        if plan.is_for(params, collation) {
            return Ok((bound, plan));
        }
        let Some(entry) = self.statements.get(id).map(|h| h.entry.clone()) else {
            return Err(SqlError::unknown_statement_handler(id, "EXECUTE"));
        };
        let (own, plan) = self.retype_prepared(&entry, &plan, params).await?;
        if let Some(handle) = self.statements.get(id) {
            handle.entry = own;
        }
        Ok((bound, plan))
    }

    /// `more` says that another statement follows in the text.
    async fn try_prepared(
        &mut self,
        id: u32,
        params: &[Value<'_>],
        more: bool,
        out: &mut impl ResultSink,
    ) -> Result<()> {
        loop {
            let found = self.plan_for(id, params).await;
            if found.is_err() {
                // The error is the statement's only message.
                self.state.warnings.clear();
            }
            let (entry, plan) = found?;
            // The text of a definition is logged, and definitions are not cacheable.
            let entry = match entry {
                None if self.derived.log.rows_query => {
                    self.statements.get(id).map(|h| h.entry.clone())
                }
                entry => entry,
            };
            let text = StatementText {
                bytes: entry.as_ref().map_or(b"", |entry| entry.text()),
                charset: entry.as_ref().map_or(Charset::Utf8mb4, |entry| entry.context().client),
                prepared: entry.as_ref().map(|entry| entry.context()),
            };
            let ran = self.run(&plan, text, params, None, more, out).await;
            let stale = matches!(ran, Err(Failure::Stale));
            if let Some(handle) = self.statements.get(id)
                && !stale
            {
                handle.plan = Some(plan);
            }
            match ran {
                Ok(()) => return Ok(()),
                Err(Failure::Stale) => continue,
                Err(Failure::Error(e)) => return Err(e),
            }
        }
    }

    /// COM_STMT_CLOSE; DEALLOCATE PREPARE.
    pub fn close_statement(&mut self, id: u32) {
        self.statements.remove(id);
    }

    /// The text of a prepared statement, for the process list.
    pub fn statement_text(&self, id: u32) -> &[u8] {
        self.statements
            .handles
            .get((id as usize).wrapping_sub(1))
            .and_then(|h| h.as_ref())
            .map_or(b"", |h| h.entry.text())
    }

    /// PREPARE name FROM 'text'. `charset` is the character set of the text.
    pub(super) async fn prepare_named(
        &mut self,
        name: &str,
        text: &[u8],
        charset: Charset,
    ) -> Result<()> {
        check_name(name).inspect_err(|_| self.state.warnings.clear())?;
        self.state.warnings.clear();
        // The old statement of this name is closed even if the new text has an error.
        self.forget_name(name);
        let client = std::mem::replace(&mut self.context.client, charset);
        let prepared = self.prepare_text(text).await;
        self.context.client = client;
        let prepared = prepared?;
        if let Err(e) = self.state.memory.kept.charge(name_bytes(name)) {
            self.close_statement(prepared.id);
            return Err(e);
        }
        self.named.insert(name.into(), prepared.id);
        Ok(())
    }
    /// Closes the statement of this name, if there is one. Returns whether there was.
    fn forget_name(&mut self, name: &str) -> bool {
        let Some(id) = self.named.remove(name) else { return false };
        self.release_names(name_bytes(name));
        self.close_statement(id);
        true
    }
    /// Forgets the names of all statements, which are closed.
    pub(super) fn forget_names(&mut self) {
        let named = std::mem::take(&mut self.named);
        self.release_names(named.keys().map(|name| name_bytes(name)).sum());
    }
    fn release_names(&mut self, bytes: usize) {
        let kept = &mut self.state.memory.kept;
        kept.release_to(kept.used().saturating_sub(bytes));
    }
    pub(super) fn deallocate(&mut self, name: &str) -> Result<()> {
        if self.forget_name(name) {
            return Ok(());
        }
        Err(SqlError::unknown_statement_handler(name, "DEALLOCATE PREPARE"))
    }
    /// EXECUTE name USING @a, ..: the result is sent in the text protocol.
    pub(super) async fn execute_named(
        &mut self,
        name: &str,
        using: &[Box<str>],
        more: bool,
        out: &mut impl ResultSink,
    ) -> Result<()> {
        let id = self.named.get(name).copied();
        let id = id.ok_or_else(|| SqlError::unknown_statement_handler(name, "EXECUTE"))?;
        self.param_collation = self.derived.exec.connection;
        let ran = match self.values_of(using) {
            Ok(values) => self.try_prepared(id, &values, more, out).await,
            Err(e) => Err(e),
        };
        self.forget_binary_params();
        ran
    }
    /// The values of user variables in the connection's character set. Each mention of a variable
    /// is a copy, and the statement's account holds its memory while the statement runs.
    fn values_of(&mut self, using: &[Box<str>]) -> Result<Vec<Value<'static>>> {
        let (connection, memory) =
            (self.param_collation.charset(), &mut self.state.memory.statement);
        memory.charge(using.len() * size_of::<Value<'_>>())?;
        let variables = || using.iter().map(|name| self.state.user_variables.get(name));
        let bytes = variables().flatten().map(|variable| bytes_of(&variable.value)).sum();
        let binary_params = &mut self.binary_params;
        work_on(&*self.db.engine.runtime, bytes, LONG_STATEMENT_BYTES, || {
            let mut values = Vec::with_capacity(using.len());
            for (n, variable) in (0..).zip(variables()) {
                let Some(variable) = variable else {
                    values.push(Value::Null);
                    continue;
                };
                let charset = variable.collation.charset();
                values.push(match &variable.value {
                    Value::Bytes(b) => {
                        let stays =
                            charset == Charset::Binary || charset == connection || b.is_ascii();
                        let text = if stays {
                            Cow::Borrowed(&b[..])
                        } else {
                            convert_counted(b, charset, connection, memory)?
                        };
                        if let Cow::Borrowed(b) = text {
                            memory.charge(b.len())?;
                        }
                        if charset == Charset::Binary {
                            binary_params.push(n);
                        }
                        Value::owned(text.into_owned())
                    }
                    value => value.clone(),
                });
            }
            Ok(values)
        })
    }
}
