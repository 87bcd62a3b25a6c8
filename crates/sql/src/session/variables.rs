//! The values that a session derives from its variables when they change, and not for every
//! statement.
use super::Session;
use crate::binlog::LogSettings;
use crate::exec::set::{isolation_of, statement_settings};
use crate::exec::{Flush, StatementSettings};
use crate::parse::charsets::TextCharsets;
use crate::plan;
use crate::session_state::Warnings;
use crate::settings::{SessionVars, Settings, Var};
use crate::sql_mode::SqlMode;
use redolith_engine::Isolation;
use redolith_types::Collation;
use std::time::Duration;

/// The values are valid for one generation of the session's variables.
pub(super) struct Derived {
    generation: u32,
    pub exec: StatementSettings,
    pub plan_mode: SqlMode,
    pub autocommit: bool,
    pub isolation: Isolation,
    pub read_only: bool,
    pub row_lock_timeout: Duration,
    pub lock_timeout: Duration,
    pub max_execution_time_ms: u64,
    /// What the events of the binary log depend on.
    pub log: LogSettings,
    /// The character set of the client's texts, and the character set into which the session
    /// converts their strings.
    pub charsets: TextCharsets,
}

impl Derived {
    pub fn of(vars: &SessionVars) -> Derived {
        let exec = statement_settings(vars, false);
        let client = vars
            .collation(Var::CharacterSetClient)
            .unwrap_or(Collation::Utf8mb4GeneralCi)
            .charset();
        Derived {
            generation: vars.generation(),
            exec,
            plan_mode: SqlMode(exec.sql_mode.parsing_part()),
            autocommit: vars.is_on(Var::Autocommit),
            isolation: engine_isolation(isolation_of(vars.bits(Var::TransactionIsolation))),
            read_only: vars.is_on(Var::TransactionReadOnly),
            row_lock_timeout: Duration::from_secs(vars.bits(Var::InnodbLockWaitTimeout)),
            lock_timeout: Duration::from_secs(vars.bits(Var::LockWaitTimeout)),
            log: LogSettings::of(vars, exec.timestamp_us, exec.zone_offset_secs),
            max_execution_time_ms: vars.bits(Var::MaxExecutionTime),
            charsets: TextCharsets { client, connection: exec.connection.charset() },
        }
    }
}

pub(super) fn engine_isolation(level: plan::Isolation) -> Isolation {
    match level {
        plan::Isolation::ReadUncommitted => Isolation::ReadUncommitted,
        plan::Isolation::ReadCommitted => Isolation::ReadCommitted,
        plan::Isolation::RepeatableRead => Isolation::RepeatableRead,
        plan::Isolation::Serializable => Isolation::Serializable,
    }
}

/// The meaning of `innodb_flush_log_at_trx_commit`: 0, 1 or 2.
pub(super) fn flush_of(vars: &SessionVars, settings: &Settings) -> Flush {
    match vars
        .own_bits(Var::InnodbFlushLogAtTrxCommit)
        .unwrap_or_else(|| settings.bits(Var::InnodbFlushLogAtTrxCommit))
    {
        0 => Flush::No,
        2 => Flush::Written,
        _ => Flush::Durable,
    }
}

/// What the variables say about warnings.
pub(super) fn limit_warnings(warnings: &mut Warnings, vars: &SessionVars) {
    let most = usize::try_from(vars.bits(Var::MaxErrorCount)).unwrap_or(usize::MAX);
    warnings.limit(!vars.is_on(Var::SqlNotes), most);
}

impl Session {
    /// Derives the values from variables that may be others than those of before.
    pub(super) fn derive(&mut self) {
        self.derived = Derived::of(&self.vars);
        self.state.memory.set_limit(self.derived.exec.memory_limit);
        self.state.process.set_client_charset(self.derived.charsets.client);
        limit_warnings(&mut self.state.warnings, &self.vars);
        // Unlike the isolation level, the timeout also applies to the transaction that is open.
        self.trx.lock_wait_timeout = self.derived.row_lock_timeout;
    }
    /// Derives the values again if a variable has changed. Called after each statement that may set
    /// variables.
    pub(super) fn refresh(&mut self) {
        if self.derived.generation != self.vars.generation() {
            self.derive();
        }
        self.context.mode = self.derived.plan_mode;
        self.context.client = self.derived.charsets.client;
        self.context.collation = self.derived.exec.connection;
        self.context.utf8mb4 = super::default_for_utf8mb4(&self.vars);
        self.context.div_precision_increment = self.derived.exec.div_precision_increment;
        self.context.group_concat_max_len = self.derived.exec.group_concat_max_len;
        if self.context.schema != self.state.schema {
            self.context.schema = self.state.schema.clone();
        }
    }
}
