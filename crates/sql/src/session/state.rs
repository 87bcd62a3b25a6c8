//! What a connection has between statements and what a running statement may read and change of it.
use crate::error::SqlError;
use redolith_types::{Collation, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// MySQL's default of max_error_count.
const MAX_WARNINGS: usize = 1024;

/// Asked of a session by KILL; looked at by long loops and lock waits.
#[derive(Default, Debug)]
pub struct KillFlag(AtomicU8);
impl KillFlag {
    pub fn kill_query(&self) {
        self.0.fetch_max(1, Relaxed);
    }
    pub fn kill_connection(&self) {
        self.0.store(2, Relaxed);
    }
    /// 1317 if the statement is to end.
    pub fn check(&self) -> Result<(), SqlError> {
        if self.0.load(Relaxed) == 0 { Ok(()) } else { Err(SqlError::interrupted()) }
    }
    pub fn connection_killed(&self) -> bool {
        self.0.load(Relaxed) == 2
    }
    /// At the start of a statement: an old KILL QUERY has nothing to end.
    pub fn begin_statement(&self) {
        let _ = self.0.compare_exchange(1, 0, Relaxed, Relaxed);
    }
}

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
/// The diagnostics area: of the last statement that was not itself about diagnostics.
#[derive(Default, Debug)]
pub struct Warnings {
    list: Vec<Warning>,
    /// Also those that were not kept.
    count: u64,
}
impl Warnings {
    pub fn clear(&mut self) {
        self.list.clear();
        self.count = 0;
    }
    pub fn push(&mut self, level: Level, code: u16, message: impl Into<Box<str>>) {
        self.count += 1;
        if self.list.len() < MAX_WARNINGS {
            self.list.push(Warning { level, code, message: message.into() });
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
    /// As OK packets carry it.
    pub fn count_u16(&self) -> u16 {
        self.count.min(u16::MAX as u64) as u16
    }
}

#[derive(Clone, Debug)]
pub struct UserVariable {
    pub value: Value<'static>,
    pub collation: Collation,
}

/// What a statement did, for its OK packet.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Done {
    pub affected: u64,
    /// The first AUTO_INCREMENT value made by this statement, or 0.
    pub last_insert_id: u64,
    pub info: String,
}
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// `columns` and all rows went to the sink; the session ends them with `finish_rows`. The number of rows, for FOUND_ROWS().
    Rows(u64),
    Done(Done),
}

/// Everything about a connection but its prepared statements and its transaction.
pub struct SessionState {
    pub id: u32,
    pub user: Box<str>,
    pub host: Box<str>,
    /// The default database.
    pub schema: Option<Arc<str>>,
    /// CLIENT_FOUND_ROWS: affected rows of an UPDATE are those found, not those changed.
    pub found_rows_flag: bool,
    pub user_variables: HashMap<Box<str>, UserVariable>,
    pub warnings: Warnings,
    /// LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS().
    pub last_insert_id: u64,
    pub row_count: i64,
    pub found_rows: u64,
    pub kill: Arc<KillFlag>,
}
