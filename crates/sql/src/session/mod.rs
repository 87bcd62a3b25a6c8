//! The entry point of this crate: each connection has a [`Session`], and all sessions share the
//! [`Database`].
//!
//! How a statement runs: text or statement id ► plan ([`plans`]: cache, else parse and bind) ►
//! metadata locks, transaction ([`run`]) ► `exec` sends columns and rows ► the session ends an
//! autocommit transaction and waits until it is durable ► `ok` or `finish_rows`.
//!
//! **SES-1** A result is acknowledged only after the transaction that it ends is durable (as far as
//! innodb_flush_log_at_trx_commit asks).
//! **SES-2** A plan runs under its tables' metadata locks, and only if it is current then.
//! Otherwise the session makes a new plan before it has sent anything.
//! **SES-3** EXECUTE of a prepared statement looks nothing up by text: the handle holds its plan.
mod create_select;
mod plans;
mod prepared;
mod rebuild;
mod run;
mod statement_counter;
mod temporary;
#[cfg(test)]
mod tests;
mod transaction;
mod variables;
mod xa;

use crate::binlog::Capture;
use crate::database::Database;
pub use prepared::Prepared;

use crate::error::SqlError;
use crate::exec::locks::SessionLocks;
use crate::exec::{self, admin};
use crate::memory::SessionMemory;
use crate::memory::bytes_of;
use crate::parse::limits::MAX_NAME_CHARS;
use crate::parse::parameterize::Parameterized;
use crate::plan_cache::PlanContext;
use crate::processes::Process;
use crate::session_state::{SessionState, Warnings};
use crate::settings::{SessionVars, Var};
use crate::sink::{ResultSink, StatusFlags};
use crate::temporary_tables::TemporaryTables;
use prepared::Statements;
use redolith_engine::Trx;
use redolith_types::{Collation, Value};
use std::collections::HashMap;
use std::sync::Arc;
use transaction::Transaction;
use variables::{Derived, limit_warnings};

/// The session frees text buffers larger than this after the statement.
const KEPT_TEXT_BYTES: usize = 64 << 10;

/// The client of a session, as the login describes it.
#[derive(Clone, Debug)]
pub struct Client {
    pub process: Arc<Process>,
    pub user: String,
    pub host: String,
    /// The character set and collation of the handshake.
    pub collation_id: u16,
    /// CLIENT_FOUND_ROWS
    pub found_rows: bool,
    /// CLIENT_MULTI_STATEMENTS
    pub multi_statements: bool,
    /// CLIENT_INTERACTIVE: a person types the statements, so `interactive_timeout` is the time
    /// limit for a silent client.
    pub interactive: bool,
}

pub struct Session {
    db: Arc<Database>,
    state: SessionState,
    vars: SessionVars,
    /// The values derived from `vars`; derived again when the variables change.
    derived: Derived,
    context: PlanContext,
    trx: Trx,
    transaction: Transaction,
    /// The XA transaction between XA START and its end or its preparation.
    xa: Option<Box<xa::Branch>>,
    locks: SessionLocks,
    /// The events of the transaction; None if the binary log is off.
    capture: Option<Box<Capture>>,
    scratch: exec::Scratch,
    statements: Statements,
    /// PREPARE name FROM ..: statement ids by lower-case name.
    named: HashMap<Box<str>, u32>,
    parameterized: Parameterized,
    /// Numbers of the running statement's parameters that are bytes, as [`Env`](exec::Env) has
    /// them.
    binary_params: Vec<u32>,
    /// The collation of the other string parameters.
    param_collation: Collation,
    multi_statements: bool,
    /// The dictionary's version just before the last statement was bound.
    bound_at: u64,
    /// For COM_RESET_CONNECTION.
    collation_id: u16,
    interactive: bool,
}

/// The most bytes that a name has.
pub const MAX_NAME_BYTES: usize = MAX_NAME_CHARS * 4;

/// A user variable has a longer value than the caller takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VariableTooLong;

/// Refuses the name of a savepoint or a prepared statement that is too long.
fn check_name(name: &str) -> Result<(), SqlError> {
    if name.chars().count() > MAX_NAME_CHARS {
        return Err(SqlError::name_too_long(name));
    }
    Ok(())
}

/// MariaDB's mysqlslap sends the NUL that ends its C strings. MySQL takes the NUL for the end of
/// the text, as a lexer of C strings does.
fn without_nul(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\0").unwrap_or(text)
}

fn default_for_utf8mb4(vars: &SessionVars) -> Collation {
    vars.collation(Var::DefaultCollationForUtf8mb4).unwrap_or(Collation::Utf8mb4GeneralCi)
}

/// Sets the variables that the handshake determines. A client library of MySQL 8 that is asked for
/// utf8mb4 names utf8mb4_0900_ai_ci, the default collation there. It gets this server's default.
fn login_variables(vars: &mut SessionVars, collation_id: u16, interactive: bool) {
    let named = Collation::from_id(collation_id);
    let named = named.filter(|c| *c != Collation::Utf8mb4Uca0900AiCi);
    vars.set_names(named.unwrap_or_else(|| default_for_utf8mb4(vars)));
    if interactive {
        vars.store_bits(Var::WaitTimeout, vars.bits(Var::InteractiveTimeout));
    }
}

impl Session {
    pub fn new(db: Arc<Database>, client: Client) -> Session {
        let mut vars = SessionVars::new(&db.settings);
        login_variables(&mut vars, client.collation_id, client.interactive);
        let derived = Derived::of(&vars);
        client.process.set_who(&client.user, &client.host);
        client.process.set_schema(None);
        client.process.set_client_charset(derived.charsets.client);
        let mut memory = SessionMemory::new(&db.memory);
        memory.set_limit(derived.exec.memory_limit);
        let mut warnings = Warnings::default();
        limit_warnings(&mut warnings, &vars);
        let mut trx = db.engine.begin(client.process.interrupt.clone());
        trx.progress = Some(client.process.progress.clone());
        trx.locks().seen().set_session(client.process.id);
        memory.watch_locks(trx.locks().clone());
        Session {
            context: PlanContext {
                schema: None,
                mode: derived.plan_mode,
                client: derived.charsets.client,
                collation: derived.exec.connection,
                utf8mb4: default_for_utf8mb4(&vars),
                div_precision_increment: derived.exec.div_precision_increment,
                group_concat_max_len: derived.exec.group_concat_max_len,
            },
            derived,
            vars,
            trx,
            transaction: Transaction::default(),
            xa: None,
            locks: SessionLocks::new(db.global_read_lock.clone(), client.process.id),
            capture: Capture::new(&db),
            scratch: exec::Scratch::default(),
            statements: Statements::new(db.prepared_statements.clone()),
            named: HashMap::new(),
            parameterized: Parameterized::default(),
            binary_params: Vec::new(),
            param_collation: Collation::Utf8mb4GeneralCi,
            multi_statements: client.multi_statements,
            bound_at: 0,
            collation_id: client.collation_id,
            interactive: client.interactive,
            state: SessionState {
                handlers: Default::default(),
                id: client.process.id,
                user: client.user.into(),
                host: client.host.into(),
                schema: None,
                found_rows_flag: client.found_rows,
                random: None,
                user_variables: Default::default(),
                temporary: TemporaryTables::new(&db.engine, &db.memory),
                warnings,
                last_insert_id: 0,
                row_count: 0,
                found_rows: 0,
                process: client.process,
                memory,
            },
            db,
        }
    }

    /// Runs the statements of a COM_QUERY in order, up to the first that fails. Every outcome goes
    /// to `out`.
    pub async fn query(&mut self, text: &[u8], out: &mut impl ResultSink) {
        self.run_text(without_nul(text), out).await;
    }

    /// COM_STMT_EXECUTE. `binary`: ascending numbers of the parameters that are bytes without a
    /// character set (BLOBs). The other strings are in the client's character set.
    pub async fn execute(
        &mut self,
        id: u32,
        params: &[Value<'_>],
        binary: &[u32],
        out: &mut impl ResultSink,
    ) {
        self.run_prepared(id, params, binary, out).await;
    }

    /// COM_INIT_DB and USE.
    pub async fn init_db(&mut self, name: &[u8]) -> Result<(), SqlError> {
        if name.len() > MAX_NAME_BYTES {
            let begin = String::from_utf8_lossy(&name[..MAX_NAME_BYTES]);
            return Err(SqlError::unknown_database(begin));
        }
        let name = self
            .derived
            .charsets
            .name(name)
            .map_err(|_| SqlError::unknown_database(String::from_utf8_lossy(name)))?;
        admin::use_schema(&self.db.engine, &mut self.state, &mut self.vars, &name)?;
        self.refresh();
        Ok(())
    }

    /// COM_RESET_CONNECTION: rolls back, and forgets statements, variables,
    /// temporary tables and locks. The session
    /// keeps its user and database.
    pub async fn reset(&mut self) {
        self.end().await;
        self.state.user_variables.clear(&mut self.state.memory);
        self.state.warnings.clear();
        self.count_warnings();
        (self.state.last_insert_id, self.state.row_count, self.state.found_rows) = (0, 0, 0);
        self.state.random = None;
        self.transaction = Transaction::default();
        self.vars = SessionVars::new(&self.db.settings);
        login_variables(&mut self.vars, self.collation_id, self.interactive);
        // The new variables count their changes from 0.
        self.derive();
        self.refresh();
    }

    /// Ends the connection: rolls back, and releases its locks, statements and temporary tables.
    pub async fn end(&mut self) {
        self.xa = None;
        // The rollback passes over the rows of tables that are gone.
        self.state.temporary.drop_all().await;
        // A failing rollback poisons the engine or leaves the transaction to recovery. No client is
        // left that could receive the error.
        let _ = self.rollback_open().await;
        self.count_handlers();
        self.locks.unlock_tables();
        self.locks.unlock_everything();
        self.db.user_locks.release_all(self.state.id);
        self.statements.clear();
        self.forget_names();
    }

    pub fn set_multi_statements(&mut self, on: bool) {
        self.multi_statements = on;
    }
    /// The value of a user variable as text of at most `most` bytes. None: it is not set, or NULL.
    /// No account has the copy, so its length is looked at before it is made.
    pub fn user_variable(
        &self,
        name: &str,
        most: usize,
    ) -> std::result::Result<Option<String>, VariableTooLong> {
        let value = self.state.user_variables.get(name).map_or(&Value::Null, |v| &v.value);
        if bytes_of(value) > most {
            return Err(VariableTooLong);
        }
        Ok((*value != Value::Null).then(|| value.to_string()))
    }
    /// The present SERVER_STATUS_* flags.
    pub fn status(&self) -> StatusFlags {
        let mut flags = StatusFlags(0);
        flags.set(StatusFlags::IN_TRANSACTION, self.transaction.active);
        flags.set(
            StatusFlags::IN_READ_ONLY_TRANSACTION,
            self.transaction.active && self.trx.read_only,
        );
        flags.set(StatusFlags::AUTOCOMMIT, self.derived.autocommit);
        flags.set(
            StatusFlags::NO_BACKSLASH_ESCAPES,
            self.derived.exec.sql_mode.has(crate::sql_mode::SqlMode::NO_BACKSLASH_ESCAPES),
        );
        flags
    }
    /// The character set in which results are sent; None: as they are stored. Binary strings are
    /// always sent as they are stored, and declared as binary.
    pub fn results_collation(&self) -> Option<Collation> {
        self.vars.collation(Var::CharacterSetResults)
    }
    pub fn wait_timeout_s(&self) -> u32 {
        self.vars.bits(Var::WaitTimeout) as u32
    }
    pub fn net_read_timeout_s(&self) -> u32 {
        self.vars.bits(Var::NetReadTimeout) as u32
    }
    pub fn net_write_timeout_s(&self) -> u32 {
        self.vars.bits(Var::NetWriteTimeout) as u32
    }
    pub fn max_allowed_packet(&self) -> usize {
        self.vars.bits(Var::MaxAllowedPacket) as usize
    }
    pub fn schema(&self) -> Option<&str> {
        self.state.schema.as_deref()
    }
}
