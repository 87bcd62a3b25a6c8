//! What an evaluation may read and change besides rows and parameters: the session, its settings,
//! the clock, warnings.
use super::eval::CompiledRegexp;
use super::pace::Pace;
use super::user_locks::UserLocks;
use crate::database::Database;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, ExprKind, VariableScope};
use crate::session_state::{Level, SessionState};
use crate::sql_mode::SqlMode;
use redolith_disk::Disk;
use redolith_engine::runtime::Runtime;
use redolith_types::store::StoreMode;
use redolith_types::{Charset, Collation, Date, DateTime, Value};
use std::collections::HashMap;
use std::time::Duration;

/// What a statement takes from the session's variables; fixed while it runs.
#[derive(Clone, Copy, Debug)]
pub struct StatementSettings {
    pub sql_mode: SqlMode,
    /// `@@time_zone` as seconds east of UTC.
    pub zone_offset_secs: i32,
    /// `@@collation_connection`: what literals are in.
    pub connection: Collation,
    /// What parameters are in that are strings: the same, unless the client's or the connection's
    /// character set is binary.
    pub parameters: Collation,
    /// `@@timestamp`, if it is set: microseconds since 1970.
    pub timestamp_us: Option<i64>,
    /// The statement is part of a transaction that goes on (BEGIN, or autocommit off).
    pub in_transaction: bool,
    pub auto_increment_increment: u64,
    pub auto_increment_offset: u64,
    pub div_precision_increment: u8,
    /// The mode of WEEK() without one.
    pub default_week_format: u8,
    pub group_concat_max_len: usize,
    /// `redolith_statement_memory`: most bytes that a statement may hold (MEM-1).
    pub memory_limit: usize,
    /// `@@insert_id`: where the first statement that generates AUTO_INCREMENT values begins. That
    /// statement takes it.
    pub insert_id: Option<u64>,
    /// `@@max_allowed_packet`: most bytes that a function may make.
    pub max_allowed_packet: usize,
}

impl Default for StatementSettings {
    fn default() -> StatementSettings {
        StatementSettings {
            sql_mode: SqlMode::default(),
            zone_offset_secs: 0,
            connection: Collation::Utf8mb4GeneralCi,
            parameters: Collation::Utf8mb4GeneralCi,
            timestamp_us: None,
            in_transaction: false,
            auto_increment_increment: 1,
            auto_increment_offset: 1,
            div_precision_increment: 4,
            default_week_format: 0,
            group_concat_max_len: 1024,
            memory_limit: 256 << 20,
            insert_id: None,
            max_allowed_packet: 64 << 20,
        }
    }
}

/// Reads system variables. Implemented by whoever keeps them.
pub trait Variables: Sync {
    /// The value of `@@name`, as SELECT shows it.
    fn system_variable(
        &self,
        session: &SessionState,
        scope: VariableScope,
        name: &str,
    ) -> Result<Value<'static>>;
}

/// No system variables at all, for tests and for statements that run inside the server.
pub struct NoVariables;
impl Variables for NoVariables {
    fn system_variable(
        &self,
        _: &SessionState,
        _: VariableScope,
        name: &str,
    ) -> Result<Value<'static>> {
        Err(SqlError::unknown_variable(name))
    }
}

/// The next number of RAND()'s two linear generators, as MySQL has them.
pub fn next_random((a, b): &mut (u64, u64)) -> f64 {
    const MAX: u64 = 0x3fff_ffff;
    *a = (*a * 3 + *b) % MAX;
    *b = (*a + *b + 33) % MAX;
    *a as f64 / MAX as f64
}

pub struct Env<'a> {
    pub session: &'a mut SessionState,
    pub variables: &'a dyn Variables,
    pub disk: &'a dyn Disk,
    pub settings: StatementSettings,
    /// The row of INSERT and the like that is being made, from 1, for messages.
    pub row: u64,
    /// The statement changes rows in strict mode without IGNORE: what else is a warning is an
    /// error.
    pub strict: bool,
    /// The last REGEXP pattern, compiled.
    pub(super) regex: Option<Box<CompiledRegexp>>,
    /// Where each RAND(n) of the statement stands, by the place of its node.
    pub(super) seeded: HashMap<usize, (u64, u64)>,
    /// LAST_INSERT_ID(n) was called.
    pub insert_id: Option<u64>,
    pub user_locks: Option<&'a UserLocks>,
    /// Numbers of parameters that came as bytes of no character set, ascending.
    pub binary_params: &'a [u32],
    /// What INFORMATION_SCHEMA tells of.
    pub database: Option<&'a Database>,
    /// Where it runs; None: where nobody else waits for the thread.
    pub runtime: Option<&'a dyn Runtime>,
    pub(super) pace: Pace,
    /// A SLEEP() that is interrupted gives 1 and the statement goes on.
    pub(super) sleep_answers: bool,
    now_us: Option<i64>,
    random: Option<u64>,
}

impl<'a> Env<'a> {
    pub fn new(
        session: &'a mut SessionState,
        variables: &'a dyn Variables,
        disk: &'a dyn Disk,
        settings: StatementSettings,
    ) -> Env<'a> {
        Env {
            session,
            variables,
            disk,
            settings,
            row: 1,
            strict: false,
            regex: None,
            seeded: HashMap::new(),
            insert_id: None,
            user_locks: None,
            binary_params: &[],
            database: None,
            runtime: None,
            pace: Pace::default(),
            sleep_answers: false,
            now_us: settings.timestamp_us,
            random: None,
        }
    }
    /// What the statement holds now, for [`Env::release_to`].
    #[inline(always)]
    pub fn held(&self) -> usize {
        self.session.memory.statement.used()
    }
    /// What was charged since then is not held any more.
    #[inline(always)]
    pub fn release_to(&mut self, held: usize) {
        self.session.memory.statement.release_to(held);
    }
    /// The statement is about to hold so much more, or already does for a moment.
    pub fn charge(&mut self, bytes: usize) -> Result<()> {
        self.session.memory.statement.charge(bytes)
    }
    /// The statement keeps something that holds so many bytes `now`, and held `counted` before.
    #[inline]
    pub fn keep(&mut self, counted: &mut usize, now: usize) -> Result<()> {
        if now == *counted {
            return Ok(());
        }
        self.keeps(now);
        self.session.memory.statement.recount(counted, now)
    }
    /// Nor does it keep this any more.
    pub fn keeps_no_more(&mut self, counted: usize) {
        let mark = self.held().saturating_sub(counted);
        self.release_to(mark);
    }
    /// When the statement's time is up, by the disk's clock.
    pub fn set_deadline(&mut self, deadline: Option<Duration>) {
        self.pace.deadline = deadline;
    }
    /// What an expression's strings are in when its type does not say so: numbers as text,
    /// parameters.
    pub fn charset(&self) -> Charset {
        self.settings.connection.charset()
    }
    /// The character set an expression's strings are in. Where its type does not say so it is the
    /// connection's: numbers as text, parameters.
    #[inline]
    pub fn charset_of(&self, e: &Expr) -> Charset {
        match &e.kind {
            _ if e.ty.kind.is_string() => e.ty.collation.charset(),
            ExprKind::Param(n)
                if !self.binary_params.is_empty()
                    && self.binary_params.binary_search(n).is_ok() =>
            {
                Charset::Binary
            }
            ExprKind::Param(_) => self.settings.parameters.charset(),
            _ => self.settings.connection.charset(),
        }
    }
    /// When the statement began, microseconds since 1970 UTC: the same for all NOW() of a
    /// statement.
    pub fn now_us(&mut self) -> i64 {
        *self.now_us.get_or_insert_with(|| self.disk.wall_us())
    }
    /// `us` since 1970 as the session's local time.
    pub fn local(&self, us: i64) -> DateTime {
        DateTime::from_unix_us(us, self.settings.zone_offset_secs).unwrap_or_default()
    }
    pub fn now(&mut self) -> DateTime {
        let us = self.now_us();
        self.local(us)
    }
    /// The day a TIME is taken on when it becomes a DATETIME.
    pub fn today(&mut self) -> Date {
        self.now().date()
    }
    pub fn store_mode(&mut self) -> StoreMode {
        let mode = self.settings.sql_mode;
        StoreMode {
            strict: self.strict,
            no_zero_date: mode.has(SqlMode::NO_ZERO_DATE),
            no_zero_in_date: mode.has(SqlMode::NO_ZERO_IN_DATE),
            zone_offset_secs: self.settings.zone_offset_secs,
            today: Date::ZERO,
        }
    }
    /// A double from 0 up to 1, from a generator seeded once per statement, or from the session's
    /// where that was seeded.
    pub fn random(&mut self) -> f64 {
        if let Some(seeds) = &mut self.session.random {
            return next_random(seeds);
        }
        let state = self.random.get_or_insert_with(|| self.disk.random());
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A warning; an error where a statement changes rows in strict mode.
    #[cold]
    pub fn warn(&mut self, error: SqlError) -> Result<()> {
        if self.strict {
            return Err(error);
        }
        self.session.warnings.warn(error);
        Ok(())
    }
    #[cold]
    pub fn note(&mut self, error: SqlError) {
        self.session.warnings.push(Level::Note, error.code, error.message);
    }
    /// A warning in any mode.
    #[cold]
    pub fn only_warn(&mut self, error: SqlError) {
        self.session.warnings.warn(error);
    }
    #[cold]
    pub fn division_by_zero(&mut self) -> Result<()> {
        if self.settings.sql_mode.has(SqlMode::ERROR_FOR_DIVISION_BY_ZERO) {
            self.warn(SqlError::division_by_zero())
        } else {
            Ok(())
        }
    }
}
