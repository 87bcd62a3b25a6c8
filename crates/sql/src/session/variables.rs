//! System variables as statements see them, and what a session computes from them once rather than for every statement.
use super::Session;
use super::state::{Level, SessionState};
use crate::error::{Result, SqlError};
use crate::exec::{self, Flush, Variables};
use crate::plan::{ExprType, VariableScope};
use crate::settings::{Kind, SessionVars, Settings, Var};
use crate::sql_mode::SqlMode;
use redolith_engine::Isolation;
use redolith_types::temporal::parse_zone;
use redolith_types::{Collation, Value};
use std::time::Duration;

/// Good for one generation of the session's variables.
pub(super) struct Derived {
    generation: u32,
    pub exec: exec::Settings,
    pub plan_mode: SqlMode,
    pub autocommit: bool,
    pub isolation: Isolation,
    pub read_only: bool,
    pub row_lock_timeout: Duration,
    pub lock_timeout: Duration,
    /// The client's character set is neither UTF-8 nor bytes: texts are converted.
    pub client_charset: Option<redolith_types::Charset>,
}

impl Derived {
    pub fn of(vars: &SessionVars, settings: &Settings) -> Derived {
        let mode = vars.sql_mode();
        let zone = match vars.text(Var::TimeZone) {
            Some("SYSTEM") => settings.text(Var::SystemTimeZone).and_then(|z| parse_zone(z.as_bytes())).unwrap_or(0),
            Some(zone) => parse_zone(zone.as_bytes()).unwrap_or(0),
            None => 0,
        };
        let client = vars.collation(Var::CharacterSetClient).unwrap_or(Collation::Utf8mb4GeneralCi).charset();
        Derived {
            generation: vars.generation(),
            exec: exec::Settings {
                sql_mode: mode,
                zone_offset_secs: zone,
                connection: vars.collation(Var::CollationConnection).unwrap_or(Collation::Utf8mb4GeneralCi),
                auto_increment_increment: vars.bits(Var::AutoIncrementIncrement),
                auto_increment_offset: vars.bits(Var::AutoIncrementOffset),
                div_precision_increment: vars.bits(Var::DivPrecisionIncrement) as u8,
                group_concat_max_len: vars.bits(Var::GroupConcatMaxLen) as usize,
                ..exec::Settings::default()
            },
            plan_mode: SqlMode(mode.parsing_part()),
            autocommit: vars.is_on(Var::Autocommit),
            isolation: isolation_of(vars.bits(Var::TransactionIsolation)),
            read_only: vars.is_on(Var::TransactionReadOnly),
            row_lock_timeout: Duration::from_secs(vars.bits(Var::InnodbLockWaitTimeout)),
            lock_timeout: Duration::from_secs(vars.bits(Var::LockWaitTimeout)),
            client_charset: Some(client).filter(|c| *c == redolith_types::Charset::Latin1),
        }
    }
}

/// Positions in the variable's list of names.
pub(super) fn isolation_of(position: u64) -> Isolation {
    match position {
        0 => Isolation::ReadUncommitted,
        1 => Isolation::ReadCommitted,
        3 => Isolation::Serializable,
        _ => Isolation::RepeatableRead,
    }
}

/// innodb_flush_log_at_trx_commit
pub(super) fn flush_of(settings: &Settings) -> Flush {
    match settings.bits(Var::InnodbFlushLogAtTrxCommit) {
        0 => Flush::No,
        2 => Flush::Written,
        _ => Flush::Durable,
    }
}

impl Session {
    /// After a change of variables.
    pub(super) fn refresh(&mut self) {
        if self.derived.generation != self.vars.generation() || self.derived.generation == 0 {
            let (timestamp_us, insert_id) = (self.derived.exec.timestamp_us, self.derived.exec.insert_id);
            self.derived = Derived::of(&self.vars, &self.db.settings);
            (self.derived.exec.timestamp_us, self.derived.exec.insert_id) = (timestamp_us, insert_id);
        }
        self.context.mode = self.derived.plan_mode;
        self.context.collation = self.derived.exec.connection;
    }
}

/// The type that a variable has in an expression; None if there is none of that name.
pub(super) fn type_of(name: &str) -> Option<ExprType> {
    let var = Var::from_name(name)?;
    let text = || ExprType::string(1024, Collation::Utf8mb4GeneralCi);
    Some(match var.get().kind {
        Kind::Bool => ExprType::bigint(1),
        Kind::Int { .. } => ExprType::unsigned_bigint(21),
        Kind::Real { .. } => ExprType::double(),
        Kind::OfSession if var == Var::Timestamp => ExprType::decimal(20, 6),
        Kind::OfSession => ExprType::unsigned_bigint(21),
        Kind::Text { nullable } | Kind::Charset { nullable } => text().nullable(nullable),
        _ => text(),
    })
}

/// What expressions read of variables.
pub(super) struct SystemVariables<'a> {
    pub vars: &'a SessionVars,
    pub settings: &'a Settings,
    /// `@@timestamp`, if it was set.
    pub timestamp_us: Option<i64>,
    pub insert_id: Option<u64>,
    pub now_us: i64,
}

impl Variables for SystemVariables<'_> {
    fn system_variable(&self, session: &SessionState, scope: VariableScope, name: &str) -> Result<Value<'static>> {
        let var = Var::from_name(name).ok_or_else(|| SqlError::unknown_variable(name))?;
        if scope == VariableScope::Global {
            return self.settings.global_value(var);
        }
        match self.vars.value(self.settings, var, scope == VariableScope::Session)? {
            Some(value) => Ok(value),
            None => Ok(self.of_session(session, var)),
        }
    }
}

impl SystemVariables<'_> {
    /// Values that the session itself knows.
    fn of_session(&self, session: &SessionState, var: Var) -> Value<'static> {
        let errors = || session.warnings.list().iter().filter(|w| w.level == Level::Error).count() as u64;
        Value::UInt(match var {
            Var::LastInsertId | Var::Identity => session.last_insert_id,
            Var::InsertId => self.insert_id.unwrap_or(0),
            Var::WarningCount => session.warnings.count(),
            Var::ErrorCount => errors(),
            Var::PseudoThreadId => u64::from(session.id),
            Var::Timestamp => {
                let us = self.timestamp_us.unwrap_or(self.now_us);
                return Value::Decimal(redolith_types::Decimal::from_parts(i128::from(us), 6));
            }
            _ => 0,
        })
    }
}
