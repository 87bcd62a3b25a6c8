//! Runs SET, and reads system variables for expressions.
//!
//! **SETS-1** All items are evaluated and checked before the first takes effect, so a failing item
//! leaves everything unchanged. Then the items take effect in order. (`SET @a = 1, @b = @a` gives
//! `@b` the old value of `@a`.)
mod gtid_next;
#[cfg(test)]
mod tests;
mod variables;

pub use variables::{SystemVariables, session_variables, statement_settings, variable_type};

use super::admin::AdminContext;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Isolation, SetItem, SetTarget, SetValue};
use crate::session_state::UserVariable;
use crate::settings::{Kind, SessionVars, Setting, Settings, Taken, Var};
use crate::status::MonitorAction;
use redolith_engine::{DoublewriteMode, Engine, LEAST_POOL_INSTANCE_BYTES};
use redolith_types::convert::{to_f64, to_u64};
use redolith_types::{Charset, Collation, Value};

/// The settings of SET TRANSACTION for the next transaction only. They are cleared when it begins.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NextTransaction {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
}

/// An item that has been checked.
enum Change {
    User(Box<str>, UserVariable),
    Names(Option<Collation>),
    CharacterSet(Option<Collation>),
    NextTransaction(NextTransaction),
    Monitor(MonitorAction, String),
    Global(Var, Setting),
    /// None means the default.
    Session(Var, Option<Setting>),
    /// A value that the session itself keeps ([`Kind::OfSession`]).
    OfSession(Var, u64),
}

/// This many items take long.
const MANY_ITEMS: usize = 1000;

/// Runs SET. Returns true if the open transaction must be committed because autocommit was switched
/// on.
pub fn run(cx: &mut AdminContext<'_>, items: &[SetItem], params: &[Value<'_>]) -> Result<bool> {
    if items.len() < MANY_ITEMS {
        return set_all(cx, items, params);
    }
    let (runtime, mut done) = (cx.engine.runtime.clone(), Ok(false));
    runtime.work_long(&mut || done = set_all(cx, items, params));
    done
}

fn set_all(cx: &mut AdminContext<'_>, items: &[SetItem], params: &[Value<'_>]) -> Result<bool> {
    let mut changes = Vec::with_capacity(items.len());
    for item in items {
        if cx.session.process.killed() != crate::processes::Kill::None {
            return Err(SqlError::interrupted());
        }
        match item {
            SetItem::User { name, value } => {
                let mark = cx.session.memory.statement.used();
                let change = user(cx, name, value, params)?;
                cx.session.memory.statement.release_to(mark);
                // All changes are held until the last item has been checked.
                if let Change::User(_, variable) = &change
                    && items.len() > 1
                {
                    let bytes =
                        size_of::<Change>() + variable.value.as_bytes().map_or(0, <[u8]>::len);
                    cx.session.memory.statement.charge(bytes)?;
                }
                changes.push(change);
            }
            SetItem::System { target, name, value } => {
                system(cx, *target, name, value, params, &mut changes)?
            }
            SetItem::Names(collation) => changes.push(Change::Names(*collation)),
            SetItem::CharacterSet(collation) => changes.push(Change::CharacterSet(*collation)),
            SetItem::Transaction { target, isolation, read_only } => {
                transaction(cx, *target, *isolation, *read_only, &mut changes)?
            }
        }
    }
    let autocommit_before = cx.vars.is_on(Var::Autocommit);
    for change in changes {
        make(cx, change)?;
    }
    Ok(!autocommit_before && cx.vars.is_on(Var::Autocommit) && cx.in_transaction)
}

fn set_names(cx: &mut AdminContext<'_>, collation: Option<Collation>) {
    let of_all = || match cx.settings.collation(Var::CharacterSetClient).charset() {
        Charset::Utf8mb4 => cx.vars.collation(Var::DefaultCollationForUtf8mb4),
        charset => Some(charset.default_collation()),
    };
    let collation = collation.or_else(of_all).unwrap_or(Collation::Utf8mb4GeneralCi);
    cx.vars.set_names(collation);
}

fn make(cx: &mut AdminContext<'_>, change: Change) -> Result<()> {
    match change {
        Change::User(name, value) => {
            cx.session.user_variables.set(&name, value, &mut cx.session.memory)?
        }
        Change::Names(collation) => set_names(cx, collation),
        Change::CharacterSet(collation) => {
            let database =
                cx.vars.collation(Var::CollationDatabase).unwrap_or(Collation::Utf8mb4GeneralCi);
            set_names(cx, collation);
            cx.vars.store_bits(Var::CollationConnection, database.id() as u64);
        }
        Change::NextTransaction(next) => {
            cx.next.isolation = next.isolation.or(cx.next.isolation);
            cx.next.read_only = next.read_only.or(cx.next.read_only);
        }
        Change::Monitor(action, pattern) => {
            cx.status.monitors.act(
                action,
                &pattern,
                &cx.engine.metrics(),
                cx.engine.disk.wall_us(),
            );
        }
        Change::Global(var, setting) => {
            for why in cx.settings.apply(var, setting) {
                cx.session.warnings.warn(SqlError::new(1105, format!("{}: {why}", var.get().name)));
            }
        }
        Change::Session(var, setting) => cx.vars.apply(cx.settings, var, setting),
        Change::OfSession(Var::LastInsertId | Var::Identity, id) => cx.session.last_insert_id = id,
        Change::OfSession(var @ (Var::RandSeed1 | Var::RandSeed2), seed) => {
            let (a, b) = cx.session.random.unwrap_or_default();
            let seed = seed as u32 as u64;
            cx.session.random = Some(if var == Var::RandSeed1 { (seed, b) } else { (a, seed) });
        }
        Change::OfSession(var, number) => cx.vars.store_bits(var, number),
    }
    Ok(())
}

fn user(cx: &mut AdminContext<'_>, name: &str, e: &Expr, params: &[Value<'_>]) -> Result<Change> {
    let value = cx.eval(e, params, &[])?;
    let connection =
        cx.vars.collation(Var::CollationConnection).unwrap_or(Collation::Utf8mb4GeneralCi);
    Ok(Change::User(name.into(), UserVariable::of(value, e, connection)))
}

fn transaction(
    cx: &AdminContext<'_>,
    target: SetTarget,
    isolation: Option<Isolation>,
    read_only: Option<bool>,
    changes: &mut Vec<Change>,
) -> Result<()> {
    if target == SetTarget::NextTransaction {
        if cx.in_transaction {
            return Err(SqlError::transaction_in_progress());
        }
        changes.push(Change::NextTransaction(NextTransaction { isolation, read_only }));
        return Ok(());
    }
    let isolation = isolation.map(|i| (Var::TransactionIsolation, Value::text(i.name())));
    let read_only = read_only.map(|on| (Var::TransactionReadOnly, Value::UInt(on as u64)));
    for (var, value) in isolation.into_iter().chain(read_only) {
        changes.push(match target {
            SetTarget::Global => Change::Global(var, Settings::check(var, Some(&value))?.setting),
            SetTarget::Persist => return Err(SqlError::unsupported("SET PERSIST")),
            _ => Change::Session(var, SessionVars::check(var, Some(&value))?.map(|t| t.setting)),
        });
    }
    Ok(())
}

/// As in MySQL, only the modes ON, DETECT_ONLY and DETECT_AND_RECOVER change while the server runs.
///
fn doublewrite_may_change(from: u64, to: &Setting) -> Result<()> {
    let mode = |bits| DoublewriteMode::from_number(bits as u8);
    if mode(from).may_become(mode(to.bits)) {
        return Ok(());
    }
    let var = Var::InnodbDoublewrite.get();
    Err(SqlError::wrong_variable_value(var.name, var.show(to).unwrap_or_default()))
}

/// The size of the buffer pool, moved between what its instances need and
/// `innodb_buffer_pool_size_max`.
fn pool_size_within(settings: &Settings, taken: &mut Taken) {
    let most = match settings.bits(Var::InnodbBufferPoolSizeMax) {
        0 => u64::MAX,
        most => most,
    };
    let least = settings.bits(Var::InnodbBufferPoolInstances) * LEAST_POOL_INSTANCE_BYTES;
    let bits = taken.setting.bits.max(least).min(most);
    taken.truncated |= bits != taken.setting.bits;
    taken.setting.bits = bits;
}

/// Refuses a larger buffer pool whose pages the system has not the memory for, so that it would
/// end the process when they come in (RESIZE-5).
fn pool_has_memory(engine: &Engine, wanted: u64, available: Option<u64>) -> Result<()> {
    let more = wanted.saturating_sub(engine.pool_used_bytes());
    match available {
        Some(available) if wanted > engine.pool_bytes() && more > available => {
            Err(SqlError::no_memory_for_pool(wanted, more, available))
        }
        _ => Ok(()),
    }
}

fn system(
    cx: &mut AdminContext<'_>,
    target: SetTarget,
    name: &str,
    value: &SetValue,
    params: &[Value<'_>],
    changes: &mut Vec<Change>,
) -> Result<()> {
    let var = Var::from_name(name).ok_or_else(|| SqlError::unknown_variable(name))?;
    let value = match value {
        SetValue::Expr(e) => Some(cx.eval(e, params, &[])?),
        SetValue::Word(word) => Some(Value::owned(word.as_bytes().to_vec())),
        SetValue::Default => None,
    };
    let value = value.as_ref();
    let truncated = match target {
        SetTarget::Persist => return Err(SqlError::unsupported("SET PERSIST")),
        SetTarget::Global => {
            let mut taken = Settings::check(var, value)?;
            if var == Var::InnodbBufferPoolSize {
                pool_size_within(cx.settings, &mut taken);
                let available = redolith_disk::available_memory_bytes();
                pool_has_memory(cx.engine, taken.setting.bits, available)?;
            }
            if var == Var::InnodbDoublewrite {
                doublewrite_may_change(cx.settings.bits(var), &taken.setting)?;
            }
            if let (Some(action), Some(value)) = (MonitorAction::of(var), value) {
                let pattern = value.to_string();
                if !cx.status.monitors.knows(&pattern, &cx.engine.metrics()) {
                    return Err(SqlError::wrong_variable_value(var.get().name, pattern));
                }
                changes.push(Change::Monitor(action, pattern));
            }
            changes.push(match (var, value) {
                // The default writer mode is neither ON nor OFF.
                (Var::InnodbLogWriterThreads, None) => Change::Global(
                    Var::RedolithLogWriter,
                    Settings::check(Var::RedolithLogWriter, None)?.setting,
                ),
                _ => Change::Global(var, taken.setting),
            });
            taken.truncated
        }
        SetTarget::NextTransaction if cx.in_transaction => {
            return Err(SqlError::transaction_in_progress());
        }
        SetTarget::NextTransaction => {
            let bits =
                SessionVars::check(var, value)?.map_or(cx.settings.bits(var), |t| t.setting.bits);
            changes.push(Change::NextTransaction(match var {
                Var::TransactionIsolation => {
                    NextTransaction { isolation: Some(isolation_of(bits)), read_only: None }
                }
                _ => NextTransaction { isolation: None, read_only: Some(bits != 0) },
            }));
            false
        }
        SetTarget::Session if var == Var::SqlLogBin && cx.in_transaction => {
            return Err(SqlError::sql_log_bin_in_transaction());
        }
        SetTarget::Session => {
            if var == Var::GtidNext {
                gtid_next::check(value, cx.in_transaction, cx.settings)?;
            }
            let taken = SessionVars::check(var, value)?;
            let truncated = taken.as_ref().is_some_and(|t| t.truncated);
            changes.push(if var.get().kind == Kind::OfSession {
                Change::OfSession(var, of_session(var, value)?)
            } else {
                Change::Session(var, taken.map(|t| t.setting))
            });
            truncated
        }
    };
    if truncated {
        let shown = value.map(|v| v.to_string()).unwrap_or_default();
        cx.session.warnings.warn(SqlError::truncated_wrong_value(var.get().name, shown));
    }
    Ok(())
}

/// The kept value of a variable that is not a setting but a value of the session.
fn of_session(var: Var, value: Option<&Value<'_>>) -> Result<u64> {
    if value.is_some_and(|v| v.as_bytes().is_some()) {
        return Err(SqlError::wrong_variable_type(var.get().name));
    }
    if var != Var::Timestamp {
        // Replicas and the output of mysqlbinlog also set pseudo_thread_id, which is meant for
        // temporary tables.
        return Ok(value.map_or(0, |v| to_u64(v).value));
    }
    // The value is kept in microseconds; 0 means the clock.
    let seconds = value.map_or(0.0, |v| to_f64(v).value);
    if (0.0..=i32::MAX as f64).contains(&seconds) {
        Ok((seconds * 1e6).round() as u64)
    } else {
        Err(SqlError::wrong_variable_value("timestamp", seconds))
    }
}

/// The isolation level that the bits of `transaction_isolation` mean.
pub fn isolation_of(bits: u64) -> Isolation {
    match bits {
        0 => Isolation::ReadUncommitted,
        1 => Isolation::ReadCommitted,
        2 => Isolation::RepeatableRead,
        _ => Isolation::Serializable,
    }
}
