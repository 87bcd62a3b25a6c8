//! Functions of the session and the server.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::exec::pace::LONG;
use crate::plan::{Expr, Function, VariableScope};
use crate::settings::SERVER_VERSION;
use redolith_types::Value;
use redolith_types::convert::to_u64;

/// The longest name of a lock of GET_LOCK, in bytes.
const LOCK_NAME: usize = 64 * 4;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn info_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
    ) -> Result<Value<'v>> {
        use Function as F;
        let session = &*self.env.session;
        Ok(match function {
            F::Database => session.schema.as_ref().map_or(Value::Null, |s| Value::from(&**s)),
            F::User | F::CurrentUser => {
                Value::from(format!("{}@{}", session.user, session.host).as_str())
            }
            // Nobody has a role.
            F::CurrentRole => Value::text("NONE"),
            // Statements that run inside the server have no variables.
            F::Version => {
                let variables = self.env.variables;
                let set = variables.system_variable(session, VariableScope::Global, "version");
                set.unwrap_or(Value::text(SERVER_VERSION))
            }
            // As in MySQL, this is `@@pseudo_thread_id`: the connection's id unless it was set.
            F::ConnectionId => {
                let set = self.env.variables.system_variable(
                    session,
                    VariableScope::Session,
                    "pseudo_thread_id",
                );
                set.unwrap_or(Value::UInt(session.id as u64))
            }
            F::Grouping => {
                // The number of the keys by which the group is grouped, and the numbers of the
                // arguments (SEL-6): each argument is a bit, which is 1 beyond the first ones.
                let mut numbers = Vec::with_capacity(args.len());
                for e in args {
                    match self.eval(e)? {
                        Value::Int(n) => numbers.push(n),
                        _ => return Ok(Value::Null),
                    }
                }
                let (grouped, keys) = numbers.split_first().unwrap_or((&0, &[]));
                let bit = |bits: i64, key: &i64| bits << 1 | (key >= grouped) as i64;
                Value::Int(keys.iter().fold(0, bit))
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
                    // A negative number becomes the BIGINT UNSIGNED with the same bits.
                    let id = match value {
                        Value::Int(n) => n as u64,
                        value => to_u64(&value).value,
                    };
                    self.env.session.last_insert_id = id;
                    self.env.insert_id = Some(id);
                    Value::UInt(id)
                }
            },
            F::Sleep => return self.sleep(&args[0]),
            F::Benchmark => return self.benchmark(args),
            F::GetLock => return self.get_lock(args),
            F::ReleaseLock => {
                let name = self.lock_name(&args[0])?;
                match self.env.user_locks.and_then(|l| l.release(&name, self.env.session.id)) {
                    Some(released) => Value::Int(released as i64),
                    None => Value::Null,
                }
            }
            F::IsUsedLock => {
                let name = self.lock_name(&args[0])?;
                let holder = self.env.user_locks.and_then(|l| l.holder(&name));
                holder.map_or(Value::Null, |id| Value::UInt(id.into()))
            }
            F::ReleaseAllLocks => {
                let released = self.env.user_locks.map_or(0, |l| l.release_all(session.id));
                Value::UInt(released)
            }
            F::LoadFile => return self.load_file(&args[0]),
            _ => {
                let name = self.lock_name(&args[0])?;
                Value::Int(self.env.user_locks.is_none_or(|l| l.is_free(&name)) as i64)
            }
        })
    }

    /// LOAD_FILE. A file that cannot be read, or that is longer than a function may return, gives
    /// NULL, so that a statement learns nothing of files outside of `secure_file_priv`.
    fn load_file(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        let Some(name) = self.arg_bytes(e)? else { return Ok(Value::Null) };
        // To open a file may take long.
        self.env.leave_worker();
        let Ok(file) = crate::server_files::open(self.env, &name) else { return Ok(Value::Null) };
        let Some(len) = file.len().ok().filter(|len| *len <= self.most_bytes() as u64) else {
            return Ok(Value::Null);
        };
        let mut bytes = vec![0; len as usize];
        for (n, part) in bytes.chunks_mut(LONG).enumerate() {
            self.env.bytes(part.len())?;
            if file.read_at(part, (n * LONG) as u64).is_err() {
                return Ok(Value::Null);
            }
        }
        Ok(Value::owned(bytes))
    }

    /// BENCHMARK. Each round counts as a step, beside the steps of its nodes (PACE-1).
    fn benchmark(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let Some(rounds) = self.arg_int(&args[0])?.filter(|n| *n >= 0) else {
            return Ok(Value::Null);
        };
        for _ in 0..rounds {
            self.env.step()?;
            let mark = self.env.held();
            self.eval(&args[1])?;
            self.env.release_to(mark);
        }
        Ok(Value::Int(0))
    }

    pub(in crate::exec) fn lock_name(&mut self, e: &'v Expr) -> Result<Vec<u8>> {
        let name = self.arg_bytes(e)?.map_or(Vec::new(), |n| n.to_ascii_lowercase());
        if name.is_empty() || name.len() > LOCK_NAME {
            let name = String::from_utf8_lossy(&name).into_owned();
            return Err(SqlError::new(3057, format!("Incorrect user-level lock name '{name}'.")));
        }
        Ok(name)
    }
}
