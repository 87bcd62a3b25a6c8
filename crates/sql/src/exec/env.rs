//! The environment of an evaluation: all that it may read and change besides rows and parameters,
//! such as the session, its settings, the clock and warnings.
use super::auto_increment::CounterLock;
use super::correlated::Correlated;
use super::eval::RecentPatterns;
use super::pace::Pace;
use super::recursion::Iterations;
use super::user_locks::UserLocks;
use crate::database::Database;
use crate::error::{Result, SqlError};
use crate::explain::Profile;
use crate::plan::{Expr, ExprKind, VariableScope};
use crate::session_state::{Level, SessionState};
use crate::sql_mode::SqlMode;
use redolith_disk::Disk;
use redolith_engine::runtime::Runtime;
use redolith_engine::temporary::TemporarySpace;
use redolith_types::store::StoreMode;
use redolith_types::{Charset, Collation, Date, DateTime, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The values of session variables that a statement uses. They are fixed while it runs.
#[derive(Clone, Copy, Debug)]
pub struct StatementSettings {
    pub sql_mode: SqlMode,
    /// `@@time_zone` as seconds east of UTC.
    pub zone_offset_secs: i32,
    /// `@@collation_connection`: the collation of literals.
    pub connection: Collation,
    /// The collation of parameters that are strings. It is `connection` unless the character set of
    /// the client or the connection is binary.
    pub parameters: Collation,
    /// `@@timestamp`, if it is set: microseconds since 1970.
    pub timestamp_us: Option<i64>,
    /// The statement is part of a transaction that stays open (BEGIN, or autocommit off).
    pub in_transaction: bool,
    pub auto_increment_increment: u64,
    pub auto_increment_offset: u64,
    pub auto_increment_lock: CounterLock,
    pub div_precision_increment: u8,
    /// The mode of WEEK() if no mode is given.
    pub default_week_format: u8,
    /// The most iterations of a recursive common table expression.
    pub cte_max_recursion_depth: u64,
    pub group_concat_max_len: usize,
    /// `redolith_statement_memory`: the greatest number of bytes that a statement may hold (MEM-1).
    pub memory_limit: usize,
    /// `@@insert_id`: the first AUTO_INCREMENT value of the next statement that generates values.
    /// That statement takes the setting.
    pub insert_id: Option<u64>,
    /// `@@max_allowed_packet`: the greatest number of bytes that a function may return.
    pub max_allowed_packet: usize,
    /// `@@show_gipk_in_create_table_and_information_schema` (GIPK-3).
    pub shows_generated_keys: bool,
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
            auto_increment_lock: CounterLock::Never,
            div_precision_increment: 4,
            default_week_format: 0,
            cte_max_recursion_depth: 1000,
            group_concat_max_len: 1024,
            memory_limit: 256 << 20,
            insert_id: None,
            max_allowed_packet: 64 << 20,
            shows_generated_keys: true,
        }
    }
}

/// Reads system variables.
pub trait Variables: Sync {
    /// The value of `@@name`, as SELECT shows it.
    fn system_variable(
        &self,
        session: &SessionState,
        scope: VariableScope,
        name: &str,
    ) -> Result<Value<'static>>;
}

/// No system variables, for tests and for statements that run inside the server.
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

/// The next number of a generator without a seed of the user's (SplitMix64).
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The next number of RAND(), from MySQL's two linear generators.
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
    /// The number, from 1, of the row that INSERT or a similar statement makes now, for messages.
    pub row: u64,
    /// The statement changes rows in strict mode without IGNORE, so warnings become errors.
    pub strict: bool,
    /// The statement has IGNORE.
    pub(super) ignores: bool,
    /// The patterns of REGEXP that were compiled last.
    pub(super) patterns: RecentPatterns,
    /// The state of each RAND(n) of the statement, by the address of its node.
    pub(super) seeded: HashMap<usize, (u64, u64)>,
    /// The n of LAST_INSERT_ID(n), if it was called.
    pub insert_id: Option<u64>,
    pub user_locks: Option<&'a UserLocks>,
    /// The numbers of the parameters that came as bytes without a character set, ascending.
    pub binary_params: &'a [u32],
    /// The database that INFORMATION_SCHEMA describes.
    pub database: Option<&'a Database>,
    /// The runtime of the statement. None if no other task waits for the thread.
    pub runtime: Option<&'a dyn Runtime>,
    pub(super) pace: Pace,
    pub(super) correlated: Correlated,
    /// What the members of recursive common table expressions read.
    pub(super) iterations: Iterations,
    /// What EXPLAIN ANALYZE measures; other statements have none.
    pub(super) profile: Option<Box<Profile>>,
    /// An interrupted SLEEP() returns 1, and the statement goes on.
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
            ignores: false,
            patterns: RecentPatterns::default(),
            seeded: HashMap::new(),
            insert_id: None,
            user_locks: None,
            binary_params: &[],
            database: None,
            runtime: None,
            pace: Pace::default(),
            correlated: Correlated::default(),
            iterations: Iterations::default(),
            profile: None,
            sleep_answers: false,
            now_us: settings.timestamp_us,
            random: None,
        }
    }
    /// Begins a statement that changes rows, with or without IGNORE.
    pub(super) fn begin_changes(&mut self, ignore: bool) {
        self.strict = self.settings.sql_mode.strict() && !ignore;
        self.ignores = ignore;
    }
    /// The bytes that the statement holds now, for [`Env::release_to`].
    #[inline(always)]
    pub fn held(&self) -> usize {
        self.session.memory.statement.used()
    }
    /// Releases all that was charged since [`Env::held`] returned `held`.
    #[inline(always)]
    pub fn release_to(&mut self, held: usize) {
        self.session.memory.statement.release_to(held);
    }
    /// Where rows go that outgrow the statement's memory; `None` if they go nowhere.
    pub fn temporary(&self) -> Option<&'a Arc<TemporarySpace>> {
        self.database.map(|database| &database.temporary).filter(|space| space.is_on())
    }
    /// When rows that are sorted or kept have this many bytes, they go to a temporary file. The
    /// rest of the statement's memory is for what else it keeps, and for buffers that exist twice
    /// while they grow.
    pub fn spill_at(&self) -> usize {
        self.settings.memory_limit / 8
    }
    /// Whether `more` bytes would take the statement beyond so many eighths of its memory. Then
    /// hash tables, groups and sets of keys grow no more, and what comes goes to temporary files.
    /// The rest is for the sorts of what comes and of the result.
    pub fn is_beyond(&self, eighths: usize, more: usize) -> bool {
        self.held().saturating_add(more) > self.settings.memory_limit / 8 * eighths
    }
    /// Charges for `bytes` that the statement is about to allocate or has just allocated.
    pub fn charge(&mut self, bytes: usize) -> Result<()> {
        self.session.memory.statement.charge(bytes)
    }
    /// Recharges something that the statement keeps: it has `now` bytes and had `counted` before.
    #[inline]
    pub fn keep(&mut self, counted: &mut usize, now: usize) -> Result<()> {
        if now == *counted {
            return Ok(());
        }
        self.keeps(now);
        self.session.memory.statement.recount(counted, now)
    }
    /// Releases something that the statement has kept.
    pub fn keeps_no_more(&mut self, counted: usize) {
        let mark = self.held().saturating_sub(counted);
        self.release_to(mark);
    }
    /// Sets the time, on the disk's clock, at which the statement must end.
    pub fn set_deadline(&mut self, deadline: Option<Duration>) {
        self.pace.deadline = deadline;
    }
    /// The connection's character set: the character set of numbers as text.
    pub fn charset(&self) -> Charset {
        self.settings.connection.charset()
    }
    /// The character set of an expression's strings. If its type has none (numbers as text,
    /// parameters), the settings decide.
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
    /// The statement's time, in microseconds since 1970 UTC. All NOW() of a statement have the same
    /// time.
    pub fn now_us(&mut self) -> i64 {
        *self.now_us.get_or_insert_with(|| self.disk.wall_us())
    }
    /// Converts `us` microseconds since 1970 to the session's local time.
    pub fn local(&self, us: i64) -> DateTime {
        DateTime::from_unix_us(us, self.settings.zone_offset_secs).unwrap_or_default()
    }
    pub fn now(&mut self) -> DateTime {
        let us = self.now_us();
        self.local(us)
    }
    /// The statement's date. A TIME that becomes a DATETIME gets this date.
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
    /// A random double from 0 up to 1. It comes from the session's generator if that was seeded,
    /// otherwise from a generator that is seeded once per statement.
    pub fn random(&mut self) -> f64 {
        if let Some(seeds) = &mut self.session.random {
            return next_random(seeds);
        }
        let state = self.random.get_or_insert_with(|| self.disk.random());
        (split_mix(state) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Warns. Returns the error instead if the statement changes rows in strict mode.
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
    /// Warns in any mode.
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
