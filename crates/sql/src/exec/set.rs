//! SET, and how expressions read system variables.
//!
//! **SETS-1** Items take effect one after the other; those before one that fails stay done, as in MySQL.
#[cfg(test)]
mod tests;
mod variables;

pub use variables::{SystemVariables, session_variables, statement_settings, variable_type};

use super::admin::AdminContext;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Isolation, SetItem, SetTarget, SetValue};
use crate::session::state::UserVariable;
use crate::settings::{Kind, Var};
use crate::status::MonitorAction;
use redolith_types::convert::{to_f64, to_u64};
use redolith_types::{Collation, Value};

/// What SET TRANSACTION has said about the next transaction only; taken (and cleared) when it begins.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NextTransaction {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
}

/// True if the open transaction is to be committed: autocommit was switched on.
pub fn run(cx: &mut AdminContext<'_>, items: &[SetItem], params: &[Value<'_>]) -> Result<bool> {
    let mut commit = false;
    for item in items {
        match item {
            SetItem::User { name, value } => set_user(cx, name, value, params)?,
            SetItem::System { target, name, value } => commit |= set_system(cx, *target, name, value, params)?,
            SetItem::Names(collation) => cx.vars.set_names(*collation),
            SetItem::CharacterSet(collation) => set_character_set(cx, *collation),
            SetItem::Transaction { target, isolation, read_only } => set_transaction(cx, *target, *isolation, *read_only)?,
        }
    }
    Ok(commit)
}

fn set_user(cx: &mut AdminContext<'_>, name: &str, e: &Expr, params: &[Value<'_>]) -> Result<()> {
    let value = cx.eval(e, params, &[])?;
    let collation = if e.ty.kind.is_string() { e.ty.collation } else { Collation::Binary };
    cx.session.user_variables.insert(name.into(), UserVariable { value, collation });
    Ok(())
}

fn set_character_set(cx: &mut AdminContext<'_>, collation: Collation) {
    let database = cx.vars.collation(Var::CollationDatabase).unwrap_or(Collation::Utf8mb4GeneralCi);
    cx.vars.set_names(collation);
    cx.vars.store_bits(Var::CollationConnection, database.id() as u64);
}

fn set_transaction(cx: &mut AdminContext<'_>, target: SetTarget, isolation: Option<Isolation>, read_only: Option<bool>) -> Result<()> {
    if target == SetTarget::NextTransaction && cx.in_transaction {
        return Err(SqlError::transaction_in_progress());
    }
    let isolation_value = isolation.map(|i| (Var::TransactionIsolation, Value::text(i.name())));
    let read_only_value = read_only.map(|on| (Var::TransactionReadOnly, Value::UInt(on as u64)));
    match target {
        SetTarget::NextTransaction => {
            cx.next.isolation = isolation.or(cx.next.isolation);
            cx.next.read_only = read_only.or(cx.next.read_only);
        }
        SetTarget::Persist => return Err(SqlError::unsupported("SET PERSIST")),
        SetTarget::Session | SetTarget::Global => {
            for (var, value) in isolation_value.into_iter().chain(read_only_value) {
                if target == SetTarget::Global {
                    cx.settings.set_global(var, Some(&value))?;
                } else {
                    cx.vars.set(cx.settings, var, Some(&value))?;
                }
            }
        }
    }
    Ok(())
}

/// True if the open transaction is to be committed.
fn set_system(cx: &mut AdminContext<'_>, target: SetTarget, name: &str, value: &SetValue, params: &[Value<'_>]) -> Result<bool> {
    let var = Var::from_name(name).ok_or_else(|| SqlError::unknown_variable(name))?;
    let value = match value {
        SetValue::Expr(e) => Some(cx.eval(e, params, &[])?),
        SetValue::Word(word) => Some(Value::owned(word.as_bytes().to_vec())),
        SetValue::Default => None,
    };
    let autocommit_before = cx.vars.is_on(Var::Autocommit);
    let truncated = match target {
        SetTarget::Persist => return Err(SqlError::unsupported("SET PERSIST")),
        SetTarget::Global => {
            if let Some(action) = MonitorAction::of(var) {
                monitor(cx, var, action, value.as_ref())?;
            }
            let applied = cx.settings.set_global(var, value.as_ref())?;
            for why in applied.refused {
                cx.session.warnings.warn(SqlError::new(1105, format!("{}: {why}", var.get().name)));
            }
            applied.truncated
        }
        SetTarget::NextTransaction => return set_next(cx, var, value).map(|()| false),
        SetTarget::Session => {
            let truncated = cx.vars.set(cx.settings, var, value.as_ref())?;
            if var.get().kind == Kind::OfSession {
                set_of_session(cx, var, value.as_ref())?;
            }
            truncated
        }
    };
    if truncated {
        let shown = value.as_ref().map(|v| v.to_string()).unwrap_or_default();
        cx.session.warnings.warn(SqlError::truncated_wrong_value(var.get().name, shown));
    }
    Ok(var == Var::Autocommit && target == SetTarget::Session && !autocommit_before && cx.vars.is_on(Var::Autocommit) && cx.in_transaction)
}

/// `innodb_monitor_enable` and its like: done before the value is kept, so that one that names no counter changes nothing. DEFAULT does nothing.
fn monitor(cx: &mut AdminContext<'_>, var: Var, action: MonitorAction, value: Option<&Value<'_>>) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    // NULL and numbers are refused as for every text.
    var.get().take_value(value)?;
    let pattern = value.to_string();
    let done = cx.status.monitors.act(action, &pattern, &cx.engine.metrics(), cx.engine.disk.wall_us());
    if done { Ok(()) } else { Err(SqlError::wrong_variable_value(var.get().name, pattern)) }
}

/// `SET @@transaction_isolation = ..`: the value is checked as the session's would be, and kept for the next transaction.
fn set_next(cx: &mut AdminContext<'_>, var: Var, value: Option<Value<'static>>) -> Result<()> {
    if cx.in_transaction {
        return Err(SqlError::transaction_in_progress());
    }
    let mut checked = cx.vars.clone();
    checked.set(cx.settings, var, value.as_ref())?;
    match var {
        Var::TransactionIsolation => cx.next.isolation = Some(isolation_of(checked.bits(var))),
        Var::TransactionReadOnly => cx.next.read_only = Some(checked.is_on(var)),
        _ => *cx.vars = checked,
    }
    Ok(())
}

/// What the bits of `transaction_isolation` say.
pub fn isolation_of(bits: u64) -> Isolation {
    match bits {
        0 => Isolation::ReadUncommitted,
        1 => Isolation::ReadCommitted,
        2 => Isolation::RepeatableRead,
        _ => Isolation::Serializable,
    }
}

/// Variables that are no setting but something the session knows.
fn set_of_session(cx: &mut AdminContext<'_>, var: Var, value: Option<&Value<'_>>) -> Result<()> {
    if value.is_some_and(|v| v.as_bytes().is_some()) {
        return Err(SqlError::wrong_variable_type(var.get().name));
    }
    let number = value.map_or(0, |v| to_u64(v).value);
    match var {
        Var::LastInsertId | Var::Identity => cx.session.last_insert_id = number,
        // Microseconds; 0: the clock's.
        Var::Timestamp => {
            let seconds = value.map_or(0.0, |v| to_f64(v).value);
            if !(0.0..=i32::MAX as f64).contains(&seconds) {
                return Err(SqlError::wrong_variable_value("timestamp", seconds));
            }
            cx.vars.store_bits(var, (seconds * 1e6).round() as u64);
        }
        // pseudo_thread_id is set by replicas and mysqlbinlog's output, for temporary tables that there are none of.
        _ => cx.vars.store_bits(var, number),
    }
    Ok(())
}
