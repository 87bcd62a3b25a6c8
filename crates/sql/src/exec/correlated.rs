//! Dependent subqueries (SUB-1): an evaluation asks for the answer for its row.
//!
//! An evaluation is synchronous, and to run a subquery may take long and wait. So an evaluation
//! that needs an answer which is not there leaves a question and fails ([`Correlated::ask`]). The
//! caller, which is asynchronous, runs the subquery ([`answer`], by the macro [`answered`]) and
//! begins the evaluation again. The binder refuses expressions to which this would make a
//! difference.
//!
//! **CORR-1** The last answer of each subquery stays until the next: so each new beginning gets
//! further than the one before.
//! **CORR-2** Answers are found by the values that the subquery takes (SUB-2). The answer of a
//! volatile subquery serves one evaluation ([`Correlated::end_unit`]).
//! **CORR-3** Answers, hash tables and derived tables of subqueries outlive the rows for which they
//! were made, so they are charged to accounts of their own: the hash tables together hold at most
//! a quarter of `redolith_statement_memory`, and the others another quarter. Where answers, a
//! hash table or a derived table do not fit, they are not kept, and the subquery is run more often.
//! Derived tables that are made before the first change of rows must fit.
//! **CORR-4** A statement gives way between two runs, and each run looks at the KILL flag.
use super::eval::{Known, Scope};
use super::probe_table::{Building, ProbeTable};
use super::rows::Kept;
use super::scan::check_killed;
use super::subquery::{SubqueryResult, collect, members_by, wanted};
use super::{ExecContext, select};
use crate::error::{Result, SqlError};
use crate::memory::Account;
use crate::plan::{EqualBy, SelectPlan, Source, SourceKind, Subquery, SubqueryBody};
use hashbrown::{HashMap, HashSet};
use redolith_engine::Isolation;
use redolith_types::Value;
use std::pin::Pin;
use std::sync::Arc;

/// The most answers that are kept. Where there are very many subqueries, twice their number is.
const MOST_ANSWERS: usize = 1024;
/// To free this many rows takes long.
const MANY: usize = 10_000;
/// The approximate bytes of an answer beside its values.
const ANSWER_BYTES: usize = 96;
/// A hash table is made after so many runs: a single row is faster answered by one run, which may
/// end early.
const RUNS_BEFORE_TABLE: u64 = 2;
/// Where an index finds the rows of a run, the hash table is made when there were so many runs, and
/// the table has at most so many rows for each: to read them all costs about as much as the runs.
const RUNS_BESIDE_INDEX: u64 = 256;
const ROWS_PER_RUN: u64 = 8;
/// The steps that a run counts as, beside those of its rows.
const STEPS_PER_RUN: usize = 32;

#[derive(Clone)]
pub enum Answer {
    Exists(bool),
    Value(Value<'static>),
    Rows(Arc<SubqueryResult>),
}
impl Answer {
    fn bytes(&self) -> usize {
        ANSWER_BYTES
            + match self {
                Answer::Exists(_) => 0,
                Answer::Value(value) => crate::memory::bytes_of(value),
                Answer::Rows(rows) => rows.bytes,
            }
    }
}

/// A question of an evaluation.
struct Asked {
    body: Arc<SubqueryBody>,
    most: u64,
    members: Option<EqualBy>,
    key: Vec<u8>,
    outer: Vec<Value<'static>>,
}

enum Table {
    NotYet,
    Made(ProbeTable, #[allow(dead_code, reason = "holds the memory")] Account),
    /// It does not fit, or bytes cannot decide.
    Refused,
}

/// What is known of one subquery.
struct Slot {
    answers: HashMap<Box<[u8]>, Answer>,
    last: Box<[u8]>,
    /// The number of the evaluation for which the last answer was given.
    unit: u64,
    runs: u64,
    table: Table,
}

/// The dependent subqueries of a running statement.
#[derive(Default)]
pub struct Correlated {
    slots: Vec<Option<Box<Slot>>>,
    asked: Option<Box<Asked>>,
    /// The number of runs inside which the statement is.
    inside: u32,
    /// The number of the evaluation under way, and the greatest number so far.
    unit: u64,
    units: u64,
    /// The derived tables of subqueries, by the address of their plan, and their tables of
    /// INFORMATION_SCHEMA, by the address of the source.
    derived: HashMap<usize, Kept>,
    /// The derived tables that must be kept: they cannot be made again.
    made_before: HashSet<usize>,
    /// The account of the answers and the derived tables, and the bytes of the answers.
    account: Option<Account>,
    answers: usize,
    /// The bytes of the hash tables.
    tables: usize,
    /// The number of answers.
    count: usize,
    /// How often answers were forgotten.
    forgotten: u64,
    /// The slot of the last answer, and the number of warnings before the evaluation began again.
    again: Option<(u16, u64)>,
    /// Memory for keys.
    pub key: Vec<u8>,
}

impl Correlated {
    /// True inside a run of a dependent subquery.
    pub fn is_inside(&self) -> bool {
        self.inside > 0
    }
    fn slot(&self, body: &SubqueryBody) -> Option<&Slot> {
        self.slots.get(body.slot as usize)?.as_deref()
    }
    fn slot_mut(&mut self, body: &SubqueryBody) -> &mut Slot {
        let n = body.slot as usize;
        if self.slots.len() <= n {
            self.slots.resize_with(n + 1, || None);
        }
        self.slots[n].get_or_insert_with(|| {
            Box::new(Slot {
                answers: HashMap::new(),
                last: Box::default(),
                unit: 0,
                runs: 0,
                table: Table::NotYet,
            })
        })
    }

    pub fn table(&self, body: &SubqueryBody) -> Option<&ProbeTable> {
        match &self.slot(body)?.table {
            Table::Made(table, _) => Some(table),
            Table::NotYet | Table::Refused => None,
        }
    }
    /// The answer for the values with this key, if there is one.
    pub fn answer(&self, body: &SubqueryBody, key: &[u8]) -> Option<&Answer> {
        let slot = self.slot(body)?;
        if body.volatile && slot.unit != self.unit {
            return None;
        }
        slot.answers.get(key)
    }
    pub fn rows_of(&self, body: &SubqueryBody, key: &[u8]) -> Option<Arc<SubqueryResult>> {
        match self.answer(body, key) {
            Some(Answer::Rows(rows)) => Some(rows.clone()),
            _ => None,
        }
    }
    /// The number of warnings that the present evaluation has repeated, once it comes to the answer
    /// for which it began again: those before that number are its own.
    pub fn repeated(&mut self, body: &SubqueryBody) -> Option<u64> {
        match self.again {
            Some((slot, count)) if slot == body.slot => {
                self.again = None;
                Some(count)
            }
            _ => None,
        }
    }

    /// Leaves a question. The evaluation ends with the error.
    #[cold]
    pub fn ask(&mut self, q: &Subquery, key: &[u8], outer: &[Value<'_>]) -> SqlError {
        let outer = outer.iter().map(|v| v.borrow().into_owned()).collect();
        self.asked = Some(Box::new(Asked {
            body: q.body.clone(),
            most: wanted(&q.test),
            members: members_by(q),
            key: key.to_vec(),
            outer,
        }));
        SqlError::internal("a subquery was not run for its row")
    }
    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }
    /// Ends an evaluation that has asked: answers of volatile subqueries are not valid for another.
    pub fn end_unit(&mut self) {
        self.units += 1;
        self.unit = self.units;
        self.again = None;
    }
    /// Begins a run inside the evaluation under way. Returns what [`Self::leave`] wants.
    pub fn enter(&mut self) -> u64 {
        let outer = self.unit;
        self.inside += 1;
        self.end_unit();
        outer
    }
    /// Ends a run: the evaluation around it, which goes on, has its own answers again.
    pub fn leave(&mut self, outer: u64) {
        self.inside -= 1;
        self.unit = outer;
    }

    /// How often answers were forgotten. An answer that an evaluation has found is there for the
    /// next as long as this number stays.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Takes a derived table that an earlier run has made.
    pub fn take_derived(&mut self, plan: &SelectPlan) -> Option<Kept> {
        self.derived.remove(&(std::ptr::from_ref(plan) as usize))
    }
    /// Takes the rows of a table of INFORMATION_SCHEMA that an earlier run has made.
    pub fn take_virtual(&mut self, source: &Source) -> Option<Kept> {
        self.derived.remove(&(std::ptr::from_ref(source) as usize))
    }
    /// Drops the answers that no evaluation under way may need.
    fn forget_answers(&mut self) {
        self.forgotten += 1;
        (self.answers, self.count) = (0, 0);
        for slot in self.slots.iter_mut().flatten() {
            let Slot { answers, last, .. } = &mut **slot;
            answers.retain(|key, _| **key == **last);
            self.answers += answers.iter().map(|(k, a)| 2 * k.len() + a.bytes()).sum::<usize>();
            self.count += answers.len();
        }
    }
}

impl super::Env<'_> {
    /// An account beside the statement's for what dependent subqueries keep. They hold `used` bytes
    /// of the kind already.
    fn account_beside(&self, used: usize) -> Account {
        let mut account = self.session.memory.statement.beside();
        account.set_limit((self.settings.memory_limit / 4).saturating_sub(used));
        account
    }
    /// Charges for what dependent subqueries keep.
    fn recount_correlated(&mut self) -> Result<()> {
        let mut account = match self.correlated.account.take() {
            Some(account) => account,
            None => self.account_beside(0),
        };
        let derived: usize = self.correlated.derived.values().map(Kept::memory).sum();
        let counted = account.set(self.correlated.answers + derived);
        self.correlated.account = Some(account);
        counted
    }
    /// Keeps a derived table for the next run. One that does not fit is made again (CORR-3).
    pub(super) fn keep_derived(&mut self, plan: &SelectPlan, kept: Kept) -> Result<()> {
        self.keep_at(std::ptr::from_ref(plan) as usize, kept)
    }
    /// Keeps the rows of a table of INFORMATION_SCHEMA like a derived table.
    pub(super) fn keep_virtual(&mut self, source: &Source, kept: Kept) -> Result<()> {
        self.keep_at(std::ptr::from_ref(source) as usize, kept)
    }
    fn keep_at(&mut self, place: usize, kept: Kept) -> Result<()> {
        self.correlated.derived.insert(place, kept);
        let counted = self.recount_correlated();
        if counted.is_ok() || self.correlated.made_before.contains(&place) {
            return counted;
        }
        if let Some(kept) = self.correlated.derived.remove(&place) {
            kept.free(self);
        }
        self.recount_correlated()
    }
    /// Keeps a derived table that cannot be made again, because its tables change meanwhile.
    pub(super) fn keep_made_before(&mut self, plan: &SelectPlan, kept: Kept) -> Result<()> {
        self.correlated.made_before.insert(std::ptr::from_ref(plan) as usize);
        self.keep_derived(plan, kept)
    }
}

/// Keeps an answer.
pub fn keep(
    cx: &mut ExecContext<'_>,
    body: &SubqueryBody,
    key: Vec<u8>,
    answer: Answer,
) -> Result<()> {
    let correlated = &mut cx.env.correlated;
    let unit = correlated.unit;
    let slot = correlated.slot_mut(body);
    // The answer before serves no more.
    let bytes = |key: &[u8], answer: &Answer| 2 * key.len() + answer.bytes();
    let gone = if body.volatile { std::mem::take(&mut slot.answers) } else { HashMap::new() };
    (slot.last, slot.unit) = (key.into(), unit);
    let more = bytes(&slot.last, &answer);
    let before = slot.answers.insert(slot.last.clone(), answer);
    correlated.answers -= gone.iter().map(|(key, answer)| bytes(key, answer)).sum::<usize>();
    correlated.answers += more;
    correlated.count = correlated.count + 1 - gone.len();
    let is_full = correlated.count > MOST_ANSWERS.max(2 * correlated.slots.len());
    if is_full || before.is_some() || cx.env.recount_correlated().is_err() {
        cx.env.correlated.forget_answers();
        cx.env.recount_correlated()?;
    }
    Ok(())
}

/// Keeps rows that can be read again, if they fit (CORR-3). Returns whether they do.
pub fn keep_rows(
    cx: &mut ExecContext<'_>,
    body: &SubqueryBody,
    key: Vec<u8>,
    rows: Arc<SubqueryResult>,
) -> Result<bool> {
    if keep(cx, body, key, Answer::Rows(rows)).is_ok() {
        return Ok(true);
    }
    let correlated = &mut cx.env.correlated;
    let slot = correlated.slot_mut(body);
    if let Some(answer) = slot.answers.remove(&slot.last) {
        let bytes = 2 * slot.last.len() + answer.bytes();
        correlated.answers -= bytes;
        correlated.count -= 1;
    }
    cx.env.recount_correlated()?;
    Ok(false)
}

/// Answers the question that an evaluation has left. `error` is what the evaluation has ended with:
/// if it has not asked, this is the statement's error.
#[cold]
pub fn answer<'f>(
    cx: &'f mut ExecContext<'_>,
    at: Scope<'f>,
    error: SqlError,
) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'f>> {
    let asked = cx.env.correlated.asked.take();
    let params = at.params;
    Box::pin(async move {
        let Some(asked) = asked else { return Err(error) };
        let Asked { body, most, members, key, outer } = *asked;
        cx.env.steps(STEPS_PER_RUN)?;
        check_killed(&cx.env)?;
        cx.trx.give_way().await;
        let slot = cx.env.correlated.slot_mut(&body);
        slot.runs += 1;
        let runs = slot.runs;
        let is_due = matches!(slot.table, Table::NotYet) && is_due(cx, &body, runs);
        let outside = cx.env.correlated.enter();
        let made = is_due && make_table(cx, &body, params).await?;
        if !made {
            let known = Known::outside(&outer);
            let at = Scope { known: &known, ..Scope::new(params) };
            let mark = cx.env.held();
            cx.env.charge(key.len() + super::row_bytes(&outer))?;
            let result = collect(cx, &body.plan, at, most, members).await?;
            cx.env.release_to(mark);
            if result.rows.len() >= MANY {
                cx.env.be_heavy();
            }
            let answer = match most {
                1 => Answer::Exists(!result.rows.is_empty()),
                2 => Answer::Value(result.value()?.clone()),
                _ => Answer::Rows(Arc::new(result)),
            };
            cx.env.correlated.leave(outside);
            keep(cx, &body, key, answer)?;
        } else {
            cx.env.correlated.leave(outside);
        }
        cx.env.correlated.again = Some((body.slot, cx.env.session.warnings.count()));
        Ok(())
    })
}

/// Whether the hash table of a subquery pays after so many runs.
fn is_due(cx: &ExecContext<'_>, body: &SubqueryBody, runs: u64) -> bool {
    let Some(probe) = &body.probe else { return false };
    if !probe.seeks {
        return runs > RUNS_BEFORE_TABLE;
    }
    let rows = |s: &Source| match &s.kind {
        SourceKind::Table(access) => access.table.rows(),
        _ => u64::MAX,
    };
    // Here all reads lock, and more rows would be locked.
    let locks = cx.env.settings.in_transaction && cx.trx.isolation == Isolation::Serializable;
    runs > RUNS_BESIDE_INDEX
        && !locks
        && runs.is_power_of_two()
        && probe.build.sources.iter().all(|s| rows(s) <= runs * ROWS_PER_RUN)
}

/// Makes the hash table of a subquery. Returns false if it cannot be used.
async fn make_table(
    cx: &mut ExecContext<'_>,
    body: &SubqueryBody,
    params: &[Value<'_>],
) -> Result<bool> {
    let Some(probe) = &body.probe else { return Ok(false) };
    let account = cx.env.account_beside(cx.env.correlated.tables);
    let mut building = Building::new(probe, account);
    let (mark, inside) = (cx.env.held(), cx.env.correlated.inside);
    let warnings = cx.env.session.warnings.count();
    let read = select::give_to(cx, &probe.build, Scope::new(params), u64::MAX, &mut building).await;
    if let Err(error) = &read {
        if error.ends_transaction() || error.is_of_a_lock() {
            return Err(error.clone());
        }
        // A row of no run may be the reason. If it is a row of this run, the run says so.
        cx.env.correlated.inside = inside;
        cx.env.correlated.asked = None;
        cx.env.session.warnings.cut_to(warnings);
        check_killed(&cx.env)?;
    }
    cx.env.release_to(mark);
    let table = building.finish().filter(|_| read.is_ok());
    let made = table.is_some();
    cx.env.correlated.slot_mut(body).table = match table {
        Some((table, account)) => {
            cx.env.correlated.tables += account.used();
            Table::Made(table, account)
        }
        None => Table::Refused,
    };
    Ok(made)
}

/// The value of an evaluation that may ask for dependent subqueries. The expression is evaluated
/// once more after each answer.
macro_rules! answered {
    ($cx:expr, $at:expr, $evaluation:expr) => {
        match $evaluation {
            Ok(value) => value,
            Err(mut error) => loop {
                $crate::exec::correlated::answer($cx, $at, error).await?;
                match $evaluation {
                    Ok(value) => {
                        $cx.env.correlated.end_unit();
                        break value;
                    }
                    Err(again) => error = again,
                }
            },
        }
    };
}
pub(super) use answered;
