//! Reads the rows of an access path: computes ranges of key bytes, moves a cursor over each range,
//! and leaves out the rows that the tests of the filter refuse. The caller checks the conditions
//! that are left ([`Scan::rest`]).
use super::ExecContext;
use super::correlated::answered;
use super::env::Env;
use super::eval::{Eval, Row, Scope};
use super::index_union::IndexUnion;
use super::key_bounds::{KeyRanges, encode_path};
use super::list_tests::most_members;
use super::long_rows;
use super::row_tests::RowTests;
use crate::error::Result;
use crate::plan::{AccessKind, Covering, Expr, OnConflict, RowLock, TableAccess};
use crate::processes::{Kill, Process};
use crate::status::Handlers;
use redolith_engine::Isolation;
use redolith_engine::Trx;
use redolith_engine::lock::Mode;
use redolith_engine::row::cursor::{Cursor, OnConflict as EngineConflict, Read};
use redolith_engine::row::update::RowAt;
use redolith_types::TableDef;

/// Between statements, a cursor keeps at most this many bytes of its last batch.
const KEPT_BYTES: usize = 8 << 10;
const KEPT_CURSORS: usize = 4;
/// The rows of a clustered index that are read at once, at least, where conditions choose some.
const FEW_ROWS: u64 = 8;

/// Memory that the statements of a session reuse.
#[derive(Default)]
pub struct Scratch {
    #[expect(clippy::vec_box, reason = "a scan takes its cursor without a copy")]
    cursors: Vec<Box<Cursor>>,
    ranges: Vec<KeyRanges>,
    /// The payload of the row that a statement makes.
    pub row: Vec<u8>,
    /// The statement's requests to the engine.
    pub handlers: Handlers,
}
impl Scratch {
    /// Frees the memory of a long row when the statement has ended.
    #[inline]
    pub fn trim(&mut self) {
        if self.row.capacity() > KEPT_BYTES {
            self.row = Vec::new();
        }
    }
}

/// The Handler_ counter of a scan's steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Steps {
    /// A whole table in the order of its clustered key.
    Table,
    /// At most one row, which no step follows.
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

/// A statement's scan of one table.
pub struct Scan<'p> {
    access: &'p TableAccess,
    /// The number of the source that the scan reads.
    source: u16,
    /// The conditions of the source. The tests among them are made when the scan starts first.
    conditions: RowTests<'p>,
    tests_are_made: bool,
    /// In a box, which the next statement uses again: a scan is moved, and a cursor is large.
    cursor: Box<Cursor>,
    ranges: KeyRanges,
    read: Read,
    /// The cursor reads the clustered index instead of the path's (PATH-6).
    scans_table: bool,
    /// What a path of several indexes needs besides.
    union: Option<Box<IndexUnion>>,
    /// The number, from 1, of the cursor's range.
    next_range: usize,
    steps: Steps,
    /// How many rows are going to be wanted at most.
    expected: u64,
    /// No row has been asked for since the range began.
    at_start: bool,
    /// The cursor holds the whole row, because the statement reads a long column of the row.
    is_whole: bool,
    /// The steps that the tests of refused rows have taken, which are not counted yet (PACE-3).
    work: usize,
    /// The bytes charged for the last whole row, which stays in the cursor until the next one.
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
        // An autocommit statement below SERIALIZABLE reads from its own view; locks would only
        // delay writers.
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
            None => {
                let reverse = access.path.reverse;
                Box::new(Cursor::new(table.clone(), no, Vec::new(), None, reverse, read))
            }
        };
        let ranges = scratch.ranges.pop().unwrap_or_default();
        let mut scan = Scan {
            access,
            source: 0,
            conditions: RowTests::none(access.filter.as_ref()),
            // A single row is not worth them.
            tests_are_made: access.filter.is_none()
                || matches!(access.path.kind, AccessKind::Point(_)),
            cursor,
            ranges,
            read,
            scans_table: false,
            union: None,
            next_range: 0,
            steps: Steps::of(access),
            expected: u64::MAX,
            at_start: false,
            is_whole: false,
            work: 0,
            counted: 0,
        };
        scan.aimed();
        scan
    }
    /// Lets the cursor make rows from the entries of the path's index, if they have all columns
    /// that the statement reads, and leave out rows of which the statement has no use (LOOSE-1).
    #[inline]
    fn aimed(&mut self) {
        if self.scans_table {
            return;
        }
        if self.access.path.covering == Covering::Values {
            self.cursor.cover(&self.access.columns);
        }
        if let Some(loose) = &self.access.loose {
            self.cursor.leave_out_rows(loose.columns as usize, loose.ends);
        }
    }
    /// Notes that the current row belongs to the result.
    #[inline]
    pub fn found(&mut self) {
        if let Some(loose) = &self.access.loose
            && loose.not_null.is_none_or(|column| !self.row().stored(column as usize).is_null())
        {
            self.cursor.wanted();
        }
    }
    /// The scan reads source number `source`, and leaves out rows that `filter` refuses.
    pub fn of_source(self, source: u16, filter: Option<&'p Expr>) -> Scan<'p> {
        let tests_are_made =
            filter.is_none() || matches!(self.access.path.kind, AccessKind::Point(_));
        Scan { source, conditions: RowTests::none(filter), tests_are_made, ..self }
    }
    /// No more than `most` rows are going to be wanted. Called before the scan starts.
    #[inline]
    pub fn expect(&mut self, most: u64) {
        self.expected = most;
        self.cursor.expect(self.first_rows());
    }
    /// The rows that are read at first. Conditions may refuse some, and a few more rows of a leaf
    /// cost less than coming back to it.
    fn first_rows(&self) -> u64 {
        let is_clustered = self.access.path.index == self.access.table.def.clustered_index();
        let refuses = is_clustered && self.access.filter.is_some();
        if refuses { self.expected.max(FEW_ROWS) } else { self.expected }
    }
    /// Ends the scan at any point, and keeps its memory for the next statement.
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
        self.ranges.give_back(&mut cx.env);
        if let Some(mut union) = self.union {
            union.give_back(&mut cx.env);
        }
        if scratch.ranges.len() < KEPT_CURSORS {
            self.ranges.trim(KEPT_BYTES);
            scratch.ranges.push(self.ranges);
        }
    }

    /// Begins the scan: evaluates the path's key expressions. `at` has the rows of earlier sources.
    pub fn start(&mut self, at: Scope<'_>, env: &mut Env<'_>) -> Result<()> {
        self.next_range = 0;
        if !self.tests_are_made {
            self.tests_are_made = true;
            let (filter, def) = (self.conditions.rest().first().copied(), &self.access.table.def);
            let members = most_members(self.access);
            self.conditions = RowTests::of(filter, self.source, def, members, at, env);
        }
        match &self.access.path.kind {
            AccessKind::Union(parts) => {
                let union = self.union.get_or_insert_default();
                union.begin(self.access, parts, at, env, &mut self.ranges)
            }
            _ => encode_path(self.access, at, env, &mut self.ranges),
        }
    }
    /// Moves the cursor from the path's index to the clustered index, or back, or to the next index
    /// of a union.
    #[cold]
    fn change_index(&mut self) {
        let table = self.access.table.engine();
        let path = &self.access.path;
        let index = match &mut self.union {
            Some(union) => {
                union.is_aimed = true;
                Some(union.index)
            }
            None => path.index,
        };
        let (no, reverse) = match index {
            Some(i) if !self.scans_table => (table.index_no(i), path.reverse),
            _ => (0, false),
        };
        self.cursor.aim(table.clone(), no, reverse, self.read);
        self.cursor.expect(self.first_rows());
        self.aimed();
        self.steps = if self.scans_table { Steps::Table } else { Steps::of(self.access) };
    }

    /// Goes to the next row that passes the tests, without a future, if the row is at hand. After
    /// false, the caller must call `advance`.
    #[inline]
    pub fn advance_at_hand(&mut self, trx: &mut Trx, handlers: &mut Handlers) -> bool {
        if self.union.is_some() {
            return false;
        }
        // Before the first range, the cursor may have rows of another range.
        while self.next_range > 0 && self.cursor.next_at_hand(trx) {
            self.count_step(handlers);
            self.is_whole = false;
            trx.rows.read += 1;
            if self.passes_tests() {
                return true;
            }
            self.refuse(trx);
            self.work += self.conditions.work(self.payload().len());
        }
        false
    }
    #[inline]
    fn passes_tests(&self) -> bool {
        let table = self.access.table.engine();
        self.conditions.pass(&table.layout, self.payload())
    }
    /// The conditions on a row that the tests have not decided.
    #[inline]
    pub fn rest(&self) -> &[&'p Expr] {
        self.conditions.rest()
    }
    /// Goes to the next row that passes the tests.
    pub async fn advance(
        &mut self,
        trx: &mut Trx,
        handlers: &mut Handlers,
        env: &mut Env<'_>,
    ) -> Result<bool> {
        loop {
            // The rows that the tests have refused since the last call.
            env.steps(std::mem::take(&mut self.work))?;
            check_killed(env)?;
            if let Some(union) = &mut self.union
                && union.gives_up(&mut self.ranges, env)
            {
                self.next_range = 0;
            }
            if self.next_range > 0 {
                self.count_step(handlers);
                let more = self.cursor.next(trx).await?;
                if self.access.loose.is_some() {
                    handlers.read_key += self.cursor.take_leaps();
                }
                if more {
                    self.is_whole = false;
                    trx.rows.read += 1;
                    if let Some(union) = &mut self.union {
                        union.count();
                    }
                    if self.cursor.table().layout.has_externals(self.cursor.row().stored) {
                        self.fetch_long(trx, env).await?;
                    }
                    if !self.passes_tests() {
                        self.refuse(trx);
                        self.work += self.conditions.work(self.payload().len());
                        continue;
                    }
                    if let Some(union) = &mut self.union
                        && !union.is_new(self.cursor.row().key, env)
                    {
                        self.work += 1;
                        continue;
                    }
                    return Ok(true);
                }
            }
            if self.ranges.get(self.next_range).is_none() {
                if let Some(union) = &mut self.union
                    && union.next(&mut self.ranges, env)
                {
                    self.next_range = 0;
                    continue;
                }
                return Ok(false);
            }
            // The previous range may not have been read to its end.
            self.cursor.stop(trx);
            let is_aimed = self.union.as_ref().is_none_or(|union| union.is_aimed);
            if self.ranges.scans_table() != self.scans_table || !is_aimed {
                self.scans_table = self.ranges.scans_table();
                self.change_index();
            }
            let Some(range) = self.ranges.get(self.next_range) else { return Ok(false) };
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
    /// Counts a request for a row. The first row of a range is counted with the range itself,
    /// except in a scan of a whole table.
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
    /// Reads the row's long columns if the statement needs one of them.
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
    /// Reads the current row's long columns if the binary log will have one of them.
    pub async fn fetch_logged(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        let Some(log) = cx.log.as_ref().filter(|_| !self.is_whole) else { return Ok(()) };
        if log.needs_long(&self.cursor.table().layout, self.cursor.row().stored) {
            let memory = &mut cx.env.session.memory.statement;
            Box::pin(long_rows::fetch(&mut self.cursor, cx.trx, memory, &mut self.counted)).await?;
            self.is_whole = true;
        }
        Ok(())
    }
    /// The current row, with its long columns if they were read.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        if self.is_whole { self.cursor.whole() } else { self.cursor.row().stored }
    }
    /// The current row for expressions.
    #[inline]
    pub fn row(&self) -> Row<'_> {
        self.stored_row(self.payload())
    }
    /// A row that the scan had, from a copy of its payload.
    #[inline]
    pub fn stored_row<'r>(&'r self, payload: &'r [u8]) -> Row<'r> {
        let table = self.access.table.engine();
        Row::Stored { def: &self.access.table.def, layout: &table.layout, payload }
    }
    /// The definition of the table, and the columns that the statement reads.
    pub fn read_columns(&self) -> (&'p TableDef, &'p [u16]) {
        (&self.access.table.def, &self.access.columns)
    }
    /// Whether no row can follow the current one: the path is one whole unique key.
    #[inline]
    pub fn has_only_row(&self) -> bool {
        matches!(self.access.path.kind, AccessKind::Point(_))
    }
    /// The current row for the engine.
    pub fn at(&self) -> RowAt<'_> {
        self.cursor.row()
    }
    /// Notes that the statement does not want the row, so that it need not stay locked (CURSOR-2).
    #[inline]
    pub fn refuse(&mut self, trx: &Trx) {
        if let Some(union) = &mut self.union {
            union.forget(self.cursor.row().key);
        }
        self.cursor.refuse(trx);
    }
    /// True if the row passes the conditions that are left. This is for a single table; joins
    /// evaluate conditions against all their rows.
    pub fn passes(&self, at: Scope<'_>, env: &mut Env<'_>) -> Result<bool> {
        let sources = [self.row()];
        let at = Scope { sources: &sources, ..at };
        for condition in self.rest() {
            if Eval::new(at, env).truth(condition)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
    /// Goes to the next row, without a future, if it is at hand and the tests have decided about
    /// it. After false, the caller must call `next`.
    #[inline]
    pub fn next_at_hand(&mut self, cx: &mut ExecContext<'_>) -> Result<bool> {
        if !self.rest().is_empty() || !self.advance_at_hand(cx.trx, &mut cx.scratch.handlers) {
            return Ok(false);
        }
        cx.env.step()?;
        check_killed(&cx.env)?;
        Ok(true)
    }
    /// Goes to the next row that passes.
    pub async fn next(&mut self, cx: &mut ExecContext<'_>, at: Scope<'_>) -> Result<bool> {
        loop {
            let handlers = &mut cx.scratch.handlers;
            let more = self.advance_at_hand(cx.trx, handlers)
                || self.advance(cx.trx, handlers, &mut cx.env).await?;
            if !more {
                return Ok(false);
            }
            cx.env.step()?;
            check_killed(&cx.env)?;
            if answered!(cx, at, self.passes(at, &mut cx.env)) {
                return Ok(true);
            }
            self.refuse(cx.trx);
        }
    }
}

/// Error 1317 if the statement was killed, error 3024 if its time is up.
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
