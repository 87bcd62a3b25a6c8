//! The state of a connection between statements, which a running statement may read and change.
use crate::error::{Result, SqlError};
use crate::memory::SessionMemory;
use crate::plan::Expr;
use crate::processes::Process;
use crate::status::Handlers;
use crate::temporary_tables::TemporaryTables;
use redolith_types::{Collation, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// MySQL's default of max_error_count.
const DEFAULT_MAX_WARNINGS: usize = 1024;
/// The most bytes of messages that are kept, whatever `max_error_count` allows.
const MAX_WARNING_BYTES: usize = 4 << 20;
/// The list frees its memory if it has room for more warnings than this.
const KEPT_WARNINGS: usize = 16;
/// The greatest length of a message that is kept, as in MySQL (MYSQL_ERRMSG_SIZE).
const MESSAGE_BYTES: usize = 511;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Note,
    Warning,
    Error,
}
#[derive(Clone, Debug)]
pub struct Warning {
    pub level: Level,
    pub code: u16,
    pub message: Box<str>,
}
/// The diagnostics area of the last statement that was not itself about diagnostics.
#[derive(Debug)]
pub struct Warnings {
    list: Vec<Warning>,
    /// The memory of the warnings in the list.
    bytes: usize,
    /// The number of warnings, with those that were not kept.
    count: u64,
    /// The errors among them.
    errors: u64,
    /// The two numbers of the statement before, which `@@warning_count` and `@@error_count` say.
    earlier: (u64, u64),
    /// `@@sql_notes` is off.
    without_notes: bool,
    /// `@@max_error_count`: the most warnings that are kept.
    most: usize,
}
impl Default for Warnings {
    fn default() -> Warnings {
        Warnings {
            list: Vec::new(),
            bytes: 0,
            count: 0,
            errors: 0,
            earlier: (0, 0),
            without_notes: false,
            most: DEFAULT_MAX_WARNINGS,
        }
    }
}
impl Warnings {
    /// At the start of a statement. The numbers of the statement before can still be read.
    pub fn clear(&mut self) {
        self.forget();
        self.earlier = (self.count, self.errors);
        (self.count, self.errors) = (0, 0);
    }
    /// Puts back what [`Self::clear`] has found, except for the messages: the statement starts
    /// again.
    pub fn restart(&mut self) {
        self.forget();
        (self.count, self.errors) = self.earlier;
    }
    /// Drops the warnings but keeps their number.
    pub fn forget(&mut self) {
        self.list.clear();
        self.bytes = 0;
        if self.list.capacity() > KEPT_WARNINGS {
            self.list = Vec::new();
        }
    }
    /// The memory of the warnings that are kept.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Sets whether further notes are ignored (`@@sql_notes` is off), and the most warnings that
    /// are kept (`@@max_error_count`).
    pub fn limit(&mut self, without_notes: bool, most: usize) {
        (self.without_notes, self.most) = (without_notes, most);
    }
    /// Takes the warnings and leaves an empty list with the same setting.
    pub fn take(&mut self) -> Warnings {
        let (without_notes, most) = (self.without_notes, self.most);
        let empty = Warnings { without_notes, most, ..Warnings::default() };
        std::mem::replace(self, empty)
    }
    /// Adds what a definition leaves: level, code and message of each.
    pub fn push_all(&mut self, all: &[(Level, u16, String)]) {
        for (level, code, message) in all {
            self.push(*level, *code, message.as_str());
        }
    }
    pub fn push(&mut self, level: Level, code: u16, message: impl Into<Box<str>>) {
        if self.without_notes && level == Level::Note {
            return;
        }
        self.count += 1;
        self.errors += u64::from(level == Level::Error);
        if self.list.len() < self.most && self.bytes < MAX_WARNING_BYTES {
            let message: Box<str> = message.into();
            let message = if message.len() <= MESSAGE_BYTES {
                message
            } else {
                message[..message.floor_char_boundary(MESSAGE_BYTES)].into()
            };
            self.bytes += size_of::<Warning>() + message.len();
            self.list.push(Warning { level, code, message });
        }
    }
    /// Drops the warnings after the first `count`.
    pub fn cut_to(&mut self, count: u64) {
        self.count = self.count.min(count);
        while self.list.len() as u64 > self.count {
            let Some(last) = self.list.pop() else { break };
            self.bytes -= size_of::<Warning>() + last.message.len();
            self.errors -= u64::from(last.level == Level::Error);
        }
    }
    pub fn warn(&mut self, error: SqlError) {
        self.push(Level::Warning, error.code, error.message);
    }
    pub fn list(&self) -> &[Warning] {
        &self.list
    }
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The numbers of the warnings and of the errors among them that the statement before has left.
    pub fn earlier(&self) -> (u64, u64) {
        self.earlier
    }
    /// The number of warnings behind the first `earlier`, as OK packets have it: at most 65,535.
    pub fn count_since(&self, earlier: u64) -> u16 {
        self.count.saturating_sub(earlier).min(u16::MAX as u64) as u16
    }
}

#[derive(Clone, Debug)]
pub struct UserVariable {
    pub value: Value<'static>,
    pub collation: Collation,
}
impl UserVariable {
    /// The variable's value after an assignment of `expr`. A variable holds only numbers and
    /// strings, so dates and times become text. `connection` is the collation of values that are
    /// not strings.
    pub fn of(value: Value<'static>, expr: &Expr, connection: Collation) -> UserVariable {
        let value = match value {
            Value::Date(_) | Value::Time(_) | Value::DateTime(_) => {
                let mut text = Vec::new();
                value.write_text(
                    expr.ty.kind.is_temporal().then_some(expr.ty.decimals.min(6)),
                    &mut text,
                );
                Value::owned(text)
            }
            Value::Json(_) => Value::owned(value.to_bytes().into_owned()),
            value => value,
        };
        UserVariable {
            value,
            collation: if expr.ty.kind.is_string() { expr.ty.collation } else { connection },
        }
    }
}

/// Approximate memory of an entry without its name and the bytes of its value.
const VARIABLE_BYTES: usize = 128;

/// User variables by name. The session's account holds their memory (MEM-1).
#[derive(Default, Debug)]
pub struct UserVariables(HashMap<Box<str>, UserVariable>);
impl UserVariables {
    pub fn get(&self, name: &str) -> Option<&UserVariable> {
        self.0.get(name)
    }
    pub fn set(
        &mut self,
        name: &str,
        variable: UserVariable,
        memory: &mut SessionMemory,
    ) -> Result<()> {
        let size = |v: &UserVariable| {
            VARIABLE_BYTES + name.len() + v.value.as_bytes().map_or(0, <[u8]>::len)
        };
        let mut counted = self.0.get(name).map_or(0, size);
        memory.kept.recount(&mut counted, size(&variable))?;
        match self.0.get_mut(name) {
            Some(slot) => *slot = variable,
            None => drop(self.0.insert(name.into(), variable)),
        }
        Ok(())
    }
    pub fn clear(&mut self, memory: &mut SessionMemory) {
        self.0 = HashMap::new();
        memory.kept.release_to(0);
    }
}

/// The result of a statement without rows, for its OK packet.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Done {
    pub affected: u64,
    /// The first AUTO_INCREMENT value made by this statement, or 0.
    pub last_insert_id: u64,
    pub info: String,
}
impl Done {
    /// Leaves the notes of ALTER TABLE, which its text counts.
    pub fn with_notes(self, notes: &[(Level, u16, String)], warnings: &mut Warnings) -> Done {
        warnings.push_all(notes);
        let info = match self.info.rsplit_once(' ') {
            Some((text, _)) if !notes.is_empty() => format!("{text} {}", warnings.count()),
            _ => self.info,
        };
        Done { info, ..self }
    }
}
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// `columns` and all rows went to the sink; the session ends them with `finish_rows`. The value
    /// is the number of rows, for FOUND_ROWS().
    Rows(u64),
    Done(Done),
}

/// The state of a connection, without its prepared statements and its transaction.
pub struct SessionState {
    /// The counts since the connection began, or since its last FLUSH STATUS.
    pub handlers: Handlers,
    pub id: u32,
    pub user: Box<str>,
    pub host: Box<str>,
    /// The default database.
    pub schema: Option<Arc<str>>,
    /// CLIENT_FOUND_ROWS: an UPDATE reports the rows found as affected, not the rows changed.
    pub found_rows_flag: bool,
    /// The two generators of RAND() without a seed, once `@@rand_seed1` or `@@rand_seed2` was set.
    pub random: Option<(u64, u64)>,
    pub user_variables: UserVariables,
    pub temporary: TemporaryTables,
    pub warnings: Warnings,
    /// LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS().
    pub last_insert_id: u64,
    pub row_count: i64,
    pub found_rows: u64,
    /// The connection's entry in the process list; KILL reaches it there.
    pub process: Arc<Process>,
    pub memory: SessionMemory,
}
