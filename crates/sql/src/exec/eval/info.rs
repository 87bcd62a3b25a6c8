//! Functions of the session and the server.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Function, VariableScope};
use crate::settings::SERVER_VERSION;
use redolith_types::Value;
use redolith_types::convert::to_u64;
use std::time::Duration;

/// Longest name of GET_LOCK, in bytes.
const LOCK_NAME: usize = 64 * 4;
/// Longest wait of GET_LOCK, in seconds: "for ever", which a clock can still reach.
const LONGEST_WAIT_S: u64 = 1 << 32;
/// A waiting GET_LOCK looks again after this.
const LOOK_AGAIN_US: i64 = 10_000;
/// BENCHMARK looks whether it has been killed after so many rounds.
const ROUNDS: i64 = 1024;
/// A BENCHMARK lets others run after this.
const TURN: Duration = Duration::from_millis(1);

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn info_function(&mut self, function: Function, args: &'v [Expr]) -> Result<Value<'v>> {
        use Function as F;
        let session = &*self.env.session;
        Ok(match function {
            F::Database => session.schema.as_ref().map_or(Value::Null, |s| Value::from(&**s)),
            F::User | F::CurrentUser => Value::from(format!("{}@{}", session.user, session.host).as_str()),
            F::Version => Value::text(SERVER_VERSION),
            // As in MySQL, `@@pseudo_thread_id`: the connection's, unless another was set.
            F::ConnectionId => {
                let set = self.env.variables.system_variable(session, VariableScope::Session, "pseudo_thread_id");
                set.unwrap_or(Value::UInt(session.id as u64))
            }
            F::RowCount => Value::Int(session.row_count),
            F::FoundRows => Value::Int(session.found_rows as i64),
            F::LastInsertId => match args.first() {
                None => Value::UInt(session.last_insert_id),
                Some(e) => {
                    let value = self.number(e)?;
                    if value.is_null() {
                        return Ok(Value::Null);
                    }
                    // Negative numbers keep their bits, as BIGINT UNSIGNED.
                    let id = match value {
                        Value::Int(n) => n as u64,
                        value => to_u64(&value).value,
                    };
                    self.env.session.last_insert_id = id;
                    self.env.insert_id = Some(id);
                    Value::UInt(id)
                }
            },
            F::Sleep => match self.arg_double(&args[0])? {
                Some(s) if s >= 0.0 => {
                    self.env.sleep_us = self.env.sleep_us.saturating_add((s * 1e6).min(1e15) as i64);
                    Value::Int(0)
                }
                _ => return Err(SqlError::wrong_arguments("sleep")),
            },
            F::Benchmark => return self.benchmark(args),
            F::GetLock => return self.get_lock(args),
            F::ReleaseLock => {
                let name = self.lock_name(&args[0])?;
                match self.env.user_locks.and_then(|l| l.release(&name, self.env.session.id)) {
                    Some(released) => Value::Int(released as i64),
                    None => Value::Null,
                }
            }
            _ => {
                let name = self.lock_name(&args[0])?;
                Value::Int(self.env.user_locks.is_none_or(|l| l.is_free(&name)) as i64)
            }
        })
    }

    /// Where it is all that the statement asks for it goes on from turn to turn, by being evaluated again: others run between them.
    fn benchmark(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        // Not what is within it.
        let in_turns = self.env.is_benchmark && std::mem::take(&mut self.env.may_repeat);
        let Some(rounds) = self.arg_int(&args[0])?.filter(|n| *n >= 0) else { return Ok(Value::Null) };
        let first = if in_turns { std::mem::take(&mut self.env.benchmark_rounds) } else { 0 };
        let began = self.env.disk.now();
        for n in first..rounds {
            self.eval(&args[1])?;
            if n % ROUNDS != ROUNDS - 1 {
                continue;
            }
            crate::exec::scan::check_killed(self.env)?;
            if in_turns && self.env.disk.now() - began >= TURN {
                self.env.benchmark_rounds = n + 1;
                self.env.again = true;
                break;
            }
        }
        Ok(Value::Int(0))
    }

    fn lock_name(&mut self, e: &'v Expr) -> Result<Vec<u8>> {
        let name = self.arg_bytes(e)?.map_or(Vec::new(), |n| n.to_ascii_lowercase());
        if name.is_empty() || name.len() > LOCK_NAME {
            let name = String::from_utf8_lossy(&name).into_owned();
            return Err(SqlError::new(3057, format!("Incorrect user-level lock name '{name}'.")));
        }
        Ok(name)
    }
    /// Waits by being evaluated again ([`super::super::env::Env::again`]), where the statement has no rows to wait with.
    fn get_lock(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let name = self.lock_name(&args[0])?;
        let timeout_s = self.arg_double(&args[1])?.unwrap_or(0.0);
        let Some(locks) = self.env.user_locks else { return Ok(Value::Null) };
        if locks.try_lock(&name, self.env.session.id) {
            self.env.lock_deadline = None;
            return Ok(Value::Int(1));
        }
        let now = self.env.disk.now();
        // A negative timeout waits for ever.
        let longest = Duration::from_secs(LONGEST_WAIT_S);
        let timeout = Duration::try_from_secs_f64(timeout_s).unwrap_or(longest).min(longest);
        let deadline = *self.env.lock_deadline.get_or_insert(now.saturating_add(timeout));
        if now < deadline && self.env.may_repeat {
            self.env.again = true;
            self.env.sleep_us = LOOK_AGAIN_US;
        } else {
            self.env.lock_deadline = None;
        }
        Ok(Value::Int(0))
    }
}
