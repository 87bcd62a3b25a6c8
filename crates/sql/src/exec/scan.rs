//! From an access path to rows: ranges of key bytes, a cursor over each in turn, the residual
//! filter.
use super::ExecContext;
use super::env::Env;
use super::eval::{Eval, Row, Scope};
use super::key_bounds::{KeyRanges, encode_path};
use super::long_rows;
use super::subquery::SubqueryResult;
use crate::error::Result;
use crate::plan::{AccessKind, OnConflict, RowLock, TableAccess};
use crate::processes::{Kill, Process};
use crate::status::Handlers;
use redolith_engine::Isolation;
use redolith_engine::Trx;
use redolith_engine::lock::Mode;
use redolith_engine::row::cursor::{Cursor, OnConflict as EngineConflict, Read};
use redolith_engine::row::update::RowAt;
use redolith_types::Value;

/// Cursors keep the memory of their last batch up to this much between statements.
const KEPT_BYTES: usize = 8 << 10;
const KEPT_CURSORS: usize = 4;

/// Memory that one statement after another uses.
#[derive(Default)]
pub struct Scratch {
    cursors: Vec<Cursor>,
    ranges: Vec<KeyRanges>,
    /// The payload of a row that is being made.
    pub row: Vec<u8>,
    /// What the statement has asked of the engine.
    pub handlers: Handlers,
}
impl Scratch {
    /// The statement has ended: what a long row has taken is given back.
    #[inline]
    pub fn trim(&mut self) {
        if self.row.capacity() > KEPT_BYTES {
            self.row = Vec::new();
        }
    }
}

/// Which of the Handler_ counters a scan's steps count under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Steps {
    /// A whole table in the order of its clustered key.
    Table,
    /// At most one row: there is no step behind it.
    Point,
    Up,
    Down,
}
impl Steps {
    fn of(access: &TableAccess) -> Steps {
        let path = &access.path;
        match &path.kind {
            AccessKind::Point(_) => Steps::Point,
            _ if path.reverse => Steps::Down,
            AccessKind::FullScan
                if path.index.is_none() || path.index == access.table.def.clustered_index() =>
            {
                Steps::Table
            }
            _ => Steps::Up,
        }
    }
}

/// Rows of one table, as one statement reads them.
pub struct Scan<'p> {
    access: &'p TableAccess,
    cursor: Cursor,
    ranges: KeyRanges,
    /// The range the cursor is in, counted from 1.
    next_range: usize,
    steps: Steps,
    /// No row has been asked for since the range began.
    at_start: bool,
    /// The cursor has the row with its long columns inside: it has some that the statement reads.
    is_whole: bool,
    /// What the account knows of such a row, which stays until there is another.
    counted: usize,
}

/// How rows are read under `lock`.
pub fn read_mode(lock: RowLock, trx: &Trx, in_transaction: bool) -> Read {
    let conflict = |c| match c {
        OnConflict::Wait => EngineConflict::Wait,
        OnConflict::NoWait => EngineConflict::NoWait,
        OnConflict::SkipLocked => EngineConflict::Skip,
    };
    let share = Read::Locking { mode: Mode::S, conflict: EngineConflict::Wait };
    match lock {
        RowLock::None if in_transaction && trx.isolation == Isolation::Serializable => share,
        // Below SERIALIZABLE a statement of its own has a view of its own, and its locks would hold
        // up writers.
        RowLock::ShareForChange
            if trx.isolation
                >= if in_transaction {
                    Isolation::RepeatableRead
                } else {
                    Isolation::Serializable
                } =>
        {
            share
        }
        RowLock::None | RowLock::ShareForChange => Read::Consistent,
        RowLock::Share(c) => Read::Locking { mode: Mode::S, conflict: conflict(c) },
        RowLock::Exclusive(c) => Read::Locking { mode: Mode::X, conflict: conflict(c) },
    }
}

impl<'p> Scan<'p> {
    pub fn new(
        access: &'p TableAccess,
        trx: &Trx,
        in_transaction: bool,
        scratch: &mut Scratch,
    ) -> Scan<'p> {
        let table = access.table.engine();
        let no = access.path.index.map_or(0, |i| table.index_no(i));
        let read = read_mode(access.lock, trx, in_transaction);
        let cursor = match scratch.cursors.pop() {
            Some(mut cursor) => {
                cursor.aim(table.clone(), no, access.path.reverse, read);
                cursor
            }
            None => Cursor::new(table.clone(), no, Vec::new(), None, access.path.reverse, read),
        };
        let ranges = scratch.ranges.pop().unwrap_or_default();
        Scan {
            access,
            cursor,
            ranges,
            next_range: 0,
            steps: Steps::of(access),
            at_start: false,
            is_whole: false,
            counted: 0,
        }
    }
    /// Ends the scan, wherever it is, and gives the memory back for the next statement.
    pub fn finish(mut self, cx: &mut ExecContext<'_>) {
        let scratch = &mut *cx.scratch;
        self.cursor.stop(cx.trx);
        if self.counted > 0 {
            self.cursor.let_go();
            cx.env.keeps_no_more(self.counted);
        }
        if scratch.cursors.len() < KEPT_CURSORS {
            self.cursor.trim(KEPT_BYTES);
            scratch.cursors.push(self.cursor);
        }
        if scratch.ranges.len() < KEPT_CURSORS {
            self.ranges.trim(KEPT_BYTES);
            scratch.ranges.push(self.ranges);
        }
    }

    /// Begins: the path's key expressions are evaluated against `at` (rows of earlier sources).
    pub fn start(&mut self, at: Scope<'_>, env: &mut Env<'_>) -> Result<()> {
        self.next_range = 0;
        encode_path(self.access, at, env, &mut self.ranges)
    }

    /// Goes to the next row if that is at hand, without a future. False says nothing; `advance` has
    /// to follow.
    #[inline]
    pub fn advance_at_hand(&mut self, trx: &mut Trx, handlers: &mut Handlers) -> bool {
        // Rows that the cursor has from before `start` are of another range.
        let at_hand = self.next_range > 0 && self.cursor.next_at_hand(trx);
        if at_hand {
            self.count_step(handlers);
            self.is_whole = false;
            trx.rows.read += 1;
        }
        at_hand
    }
    /// Goes to the next row, whatever the filter says of it.
    pub async fn advance(
        &mut self,
        trx: &mut Trx,
        handlers: &mut Handlers,
        env: &mut Env<'_>,
    ) -> Result<bool> {
        loop {
            if self.next_range > 0 {
                self.count_step(handlers);
                if self.cursor.next(trx).await? {
                    self.is_whole = false;
                    trx.rows.read += 1;
                    if self.cursor.table().layout.has_externals(self.cursor.row().stored) {
                        self.fetch_long(trx, env).await?;
                    }
                    return Ok(true);
                }
            }
            let Some(range) = self.ranges.get(self.next_range) else { return Ok(false) };
            // The scan before may have been left halfway.
            self.cursor.stop(trx);
            self.cursor.reset(range.low, range.high, range.point);
            self.next_range += 1;
            self.at_start = true;
            if range.point {
                self.steps = Steps::Point;
            }
            handlers.read_key += 1;
            match self.steps {
                Steps::Table => handlers.read_first += 1,
                Steps::Up => handlers.read_first += range.low.is_empty() as u64,
                Steps::Down => handlers.read_last += range.high.is_none() as u64,
                Steps::Point => {}
            }
        }
    }
    /// The cursor is asked for a row: the first of a range comes with its beginning, but for that
    /// of a table.
    #[inline]
    fn count_step(&mut self, handlers: &mut Handlers) {
        let first = std::mem::replace(&mut self.at_start, false);
        match self.steps {
            Steps::Table => handlers.read_rnd_next += 1,
            Steps::Up => handlers.read_next += !first as u64,
            Steps::Down => handlers.read_prev += !first as u64,
            Steps::Point => {}
        }
    }
    /// Reads the long columns, if the statement needs one of them.
    async fn fetch_long(&mut self, trx: &Trx, env: &mut Env<'_>) -> Result<()> {
        if long_rows::needs_long(
            &self.access.table.engine().layout,
            self.cursor.row().stored,
            &self.access.columns,
        ) {
            long_rows::fetch(
                &mut self.cursor,
                trx,
                &mut env.session.memory.statement,
                &mut self.counted,
            )
            .await?;
            self.is_whole = true;
        }
        Ok(())
    }
    /// The row for expressions.
    #[inline]
    pub fn row(&self) -> Row<'_> {
        let table = self.access.table.engine();
        let payload = if self.is_whole { self.cursor.whole() } else { self.cursor.row().stored };
        Row::Stored { def: &self.access.table.def, layout: &table.layout, payload }
    }
    /// The row for the engine.
    pub fn at(&self) -> RowAt<'_> {
        self.cursor.row()
    }
    /// The statement does not want the row: it need not stay locked (CURSOR-2).
    #[inline]
    pub fn refuse(&mut self, trx: &Trx) {
        self.cursor.refuse(trx);
    }
    /// Whether the row passes what the path does not guarantee. For a single table: joins check
    /// with all their rows.
    pub fn passes(&self, at: Scope<'_>, env: &mut Env<'_>) -> Result<bool> {
        let Some(filter) = &self.access.filter else { return Ok(true) };
        let sources = [self.row()];
        Ok(Eval::new(Scope { sources: &sources, ..at }, env).truth(filter)? == Some(true))
    }
    /// The next row that passes.
    pub async fn next(
        &mut self,
        trx: &mut Trx,
        handlers: &mut Handlers,
        params: &[Value<'_>],
        subqueries: &[SubqueryResult],
        env: &mut Env<'_>,
    ) -> Result<bool> {
        while self.advance_at_hand(trx, handlers) || self.advance(trx, handlers, env).await? {
            env.step()?;
            check_killed(env)?;
            if self.passes(Scope { subqueries, ..Scope::new(params) }, env)? {
                return Ok(true);
            }
            self.refuse(trx);
        }
        Ok(false)
    }
}

/// 1317 if somebody has asked for it, 3024 if its time is up.
#[inline]
pub fn check_killed(env: &Env<'_>) -> Result<()> {
    go_on(&env.session.process)
}
#[inline]
pub fn go_on(process: &Process) -> Result<()> {
    match process.killed() {
        Kill::None => Ok(()),
        why => Err(why.error()),
    }
}
