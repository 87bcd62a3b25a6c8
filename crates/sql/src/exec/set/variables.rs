//! Gives expressions the values of system variables.
use crate::error::{Result, SqlError};
use crate::exec::auto_increment::CounterLock;
use crate::exec::env::{StatementSettings, Variables};
use crate::plan::{ExprType, VariableScope};
use crate::session_state::SessionState;
use crate::settings::{Kind, SessionVars, Settings, Var};
use redolith_disk::Disk;
use redolith_types::temporal::parse_zone;
use redolith_types::{Collation, Value};

/// The system variables for [`Env`](crate::exec::Env): GLOBAL values, values of the session, and
/// values that the session itself keeps.
pub struct SystemVariables<'a> {
    pub settings: &'a Settings,
    pub vars: &'a SessionVars,
    pub disk: &'a dyn Disk,
}

impl Variables for SystemVariables<'_> {
    fn system_variable(
        &self,
        session: &SessionState,
        scope: VariableScope,
        name: &str,
    ) -> Result<Value<'static>> {
        let var = Var::from_name(name).ok_or_else(|| SqlError::unknown_variable(name))?;
        let found = self.settings.refresh(var)?;
        let value = match scope {
            VariableScope::Global => self.settings.global_value(var)?,
            _ => self
                .vars
                .value(self.settings, var, scope == VariableScope::Session)?
                .unwrap_or_else(|| self.of_session(session, var)),
        };
        Ok(found.map_or(value, |text| Value::owned(text.into_bytes())))
    }
}

impl SystemVariables<'_> {
    /// The value of a variable of [`Kind::OfSession`].
    fn of_session(&self, session: &SessionState, var: Var) -> Value<'static> {
        Value::UInt(match var {
            Var::Timestamp => {
                let us = match self.vars.bits(var) {
                    0 => self.disk.wall_us(),
                    us => us as i64,
                };
                return Value::Double(us as f64 / 1e6);
            }
            Var::LastInsertId | Var::Identity => session.last_insert_id,
            Var::WarningCount => session.warnings.earlier().0,
            Var::ErrorCount => session.warnings.earlier().1,
            Var::PseudoThreadId => match self.vars.bits(var) {
                0 => session.id.into(),
                set => set,
            },
            // The seeds can be set but not read.
            Var::RandSeed1 | Var::RandSeed2 => 0,
            var => self.vars.bits(var),
        })
    }
}

/// The rows of SHOW SESSION VARIABLES, by name.
pub fn session_variables(
    variables: &SystemVariables<'_>,
    session: &SessionState,
) -> Vec<(&'static str, String)> {
    variables.settings.refresh_all();
    variables.vars.list(variables.settings, |var| match variables.of_session(session, var) {
        Value::Double(seconds) => format!("{seconds:.6}"),
        value => value.to_string(),
    })
}

/// The type of `@@name`, for the binder. None if there is no such variable.
pub fn variable_type(name: &str) -> Option<ExprType> {
    let var = Var::from_name(name)?;
    let v = var.get();
    Some(match v.kind {
        Kind::Bool => ExprType::bigint(1),
        Kind::Int { .. } => ExprType::unsigned_bigint(21),
        Kind::Exact { .. } => ExprType::bigint(20),
        Kind::Real { .. } => ExprType::double(),
        Kind::OfSession if var == Var::Timestamp => ExprType::double(),
        Kind::OfSession => ExprType::unsigned_bigint(21),
        _ => ExprType::string(1024, Collation::Utf8mb4GeneralCi).nullable(true),
    })
}

/// The values of session variables that a statement uses. They are cheap but not free to gather:
/// keep them until [`SessionVars::generation`] changes.
pub fn statement_settings(vars: &SessionVars, in_transaction: bool) -> StatementSettings {
    let set = |var| Some(vars.bits(var)).filter(|bits| *bits != 0);
    let connection =
        vars.collation(Var::CollationConnection).unwrap_or(Collation::Utf8mb4GeneralCi);
    let client = vars.collation(Var::CharacterSetClient).unwrap_or(Collation::Utf8mb4GeneralCi);
    let bytes = client == Collation::Binary || connection == Collation::Binary;
    StatementSettings {
        sql_mode: vars.sql_mode(),
        zone_offset_secs: vars
            .text(Var::TimeZone)
            .and_then(|zone| parse_zone(zone.as_bytes()))
            .unwrap_or(0),
        connection,
        // As in MySQL, a string is not converted from or to binary, so it keeps the client's
        // character set.
        parameters: if bytes { client } else { connection },
        timestamp_us: set(Var::Timestamp).map(|us| us as i64),
        in_transaction,
        auto_increment_increment: vars.bits(Var::AutoIncrementIncrement),
        auto_increment_offset: vars.bits(Var::AutoIncrementOffset),
        auto_increment_lock: CounterLock::of_mode(vars.bits(Var::InnodbAutoincLockMode)),
        div_precision_increment: vars.bits(Var::DivPrecisionIncrement) as u8,
        cte_max_recursion_depth: vars.bits(Var::CteMaxRecursionDepth),
        default_week_format: vars.bits(Var::DefaultWeekFormat) as u8,
        group_concat_max_len: vars.bits(Var::GroupConcatMaxLen) as usize,
        insert_id: set(Var::InsertId),
        max_allowed_packet: vars.bits(Var::MaxAllowedPacket) as usize,
        shows_generated_keys: vars.is_on(Var::ShowGipk),
        memory_limit: usize::try_from(vars.bits(Var::RedolithStatementMemory))
            .unwrap_or(usize::MAX),
    }
}
