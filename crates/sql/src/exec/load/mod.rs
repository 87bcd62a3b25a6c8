//! LOAD DATA: the rows of a text file go into a table.
//!
//! **INFILE-1** The statement holds a piece of the file, whatever the file's size. A row that is
//! longer than `max_allowed_packet` is an error, because it must be held whole.
//! **INFILE-2** The file is read beside the workers, and between two rows the statement looks
//! whether it was killed and whether others wait (PACE-1, PACE-2).
//! **INFILE-3** A field goes from the file's bytes into the row without a copy of its own, unless
//! escapes or another character set make one necessary.
//! **INFILE-4** A client is asked for its file when the table is locked and the statement is known
//! to be right. The session reads away what the client still sends after the statement.
mod row;
mod source;

pub(super) use row::make;

use super::eval::{Known, Scope};
use super::insert::{Given, Work};
use super::subquery::Found;
use super::{ExecContext, insert};
use crate::bind::result_columns::sql_type;
use crate::error::{Result, SqlError};
use crate::plan::{InsertPlan, LoadPlan, LoadTarget};
use crate::session_state::Outcome;
use crate::sink::ResultSink;
use crate::text_file::{Field, Fields, Layout, Splitter, Step};
use redolith_engine::progress::Stage;
use redolith_types::{SqlType, TableDef, Value};
use source::{PIECE, Source};

/// The most rows that are split before the first of them is inserted.
const MOST_ROWS: usize = 1024;
/// The most fields that are split before the first of them is used, beyond those of one row.
const MOST_FIELDS: usize = 8 << 10;
/// What a batch of fields keeps in memory for the next batch.
const KEPT_BYTES: usize = 256 << 10;

/// The most bytes of a text that separates fields or lines.
const MOST_SEPARATOR_BYTES: usize = 256;
/// To look for such a text may take longer than a turn.
const LONG_SEPARATOR_BYTES: usize = 16;

/// A row of the file.
#[derive(Clone, Copy)]
pub(super) struct FileRow<'v> {
    load: &'v LoadPlan,
    bytes: &'v [u8],
    fields: &'v Fields,
    row: &'v [Field],
}

/// Rows that have been split.
#[derive(Default)]
struct Batch {
    fields: Fields,
    /// The place behind each row's last field, and whether its line went on there.
    rows: Vec<(usize, bool)>,
}

pub(super) async fn run(
    cx: &mut ExecContext<'_>,
    plan: &InsertPlan,
    load: &LoadPlan,
    params: &[Value<'_>],
    client: &mut impl ResultSink,
) -> Result<Outcome> {
    let warnings = cx.env.session.warnings.count();
    cx.env.begin_changes(plan.ignore);
    let mut found = Found::default();
    insert::find_subqueries(plan, &mut found);
    let subqueries = found.run_before_changes(cx, Scope::new(params)).await?;
    let known = Known::results(&subqueries);
    let at = Scope { known: &known, ..Scope::new(params) };
    if load.warns_of_separators {
        cx.env.only_warn(SqlError::separators_not_ascii());
    }
    let mut work = Work::new(plan);
    work.multiple = true;
    let layout = layout(&work.plan.table.def, load);
    // Nothing tells where a row ends. (MySQL's rows never end.)
    let is_endless = layout.has_no_width() && load.format.lines_terminated.is_empty();
    if is_endless || load.format.longest_separator() > MOST_SEPARATOR_BYTES {
        return Err(SqlError::wrong_terminators());
    }
    cx.env.session.process.progress.begin(Stage::Inserting, 0);
    let source = Source::open(cx, load, client).await?;
    let mark = cx.env.held();
    if let Err(e) = rows(cx, &mut work, load, layout, at, source).await {
        return Err(work.fails_with(cx, e).await);
    }
    work.insert_pending(cx).await?;
    cx.env.release_to(mark);
    Ok(work.finish(cx, warnings))
}

async fn rows(
    cx: &mut ExecContext<'_>,
    work: &mut Work<'_>,
    load: &LoadPlan,
    layout: Layout,
    at: Scope<'_>,
    mut source: Source<'_, impl ResultSink>,
) -> Result<()> {
    let mut splitter = Splitter::new(load.format.clone(), layout, load.skip);
    let mut batch = Batch::default();
    let (mut bytes, mut counted) = (Vec::new(), 0);
    loop {
        if bytes.len() > 2 * PIECE || load.format.longest_separator() > LONG_SEPARATOR_BYTES {
            // A long row is split in one go.
            cx.env.be_heavy();
        }
        let step = batch.split(&mut splitter, &bytes, source.has_ended(), cx, work)?;
        cx.env.keep(&mut counted, bytes.capacity() + batch.memory())?;
        work.loaded(cx, load, &batch, &bytes, at).await?;
        cx.env.session.process.progress.add(batch.rows.len() as u64);
        batch.clear();
        match step {
            Step::End => return Ok(()),
            Step::More => {
                bytes.drain(..splitter.at());
                splitter.dropped();
                let most = cx.env.settings.max_allowed_packet;
                if bytes.len() > most {
                    return Err(row_too_long(work.records() + 1, most));
                }
                source.read(cx, &mut bytes, &mut counted, batch.memory()).await?;
            }
            Step::Row | Step::Cut => {}
        }
    }
}

#[cold]
fn row_too_long(row: u64, most: usize) -> SqlError {
    SqlError::capacity_exceeded(
        most,
        "max_allowed_packet",
        format!("Row {row} of the file is longer. Check the statement's FIELDS and LINES."),
    )
}

/// How the fields of a row are told apart.
fn layout(def: &TableDef, load: &LoadPlan) -> Layout {
    if !load.format.is_fixed() {
        return Layout::Fields(load.targets.len());
    }
    let width = |target: &LoadTarget| match target {
        LoadTarget::Column(column) => width(&def.columns[usize::from(*column)].ty),
        LoadTarget::Variable(_) => 0,
    };
    Layout::Widths(load.targets.iter().map(width).collect())
}
/// The bytes that a value of a column has in a file of fixed widths.
fn width(ty: &SqlType) -> usize {
    let shown = sql_type(ty);
    match ty {
        SqlType::Text { .. } | SqlType::Blob { .. } => usize::MAX,
        SqlType::Bit { bits } => usize::from(*bits).div_ceil(8),
        _ => shown.length as usize * shown.collation.charset().max_len() as usize,
    }
}

impl Batch {
    /// Splits rows until there are enough of them, or more bytes are needed. The result says why it
    /// has stopped.
    fn split(
        &mut self,
        splitter: &mut Splitter,
        bytes: &[u8],
        whole: bool,
        cx: &mut ExecContext<'_>,
        work: &Work<'_>,
    ) -> Result<Step> {
        let (from, most) = (splitter.at(), cx.env.settings.max_allowed_packet);
        let step = loop {
            if self.rows.len() >= MOST_ROWS || self.fields.list.len() >= MOST_FIELDS {
                break Step::Row;
            }
            match splitter.next(bytes, whole, &mut self.fields) {
                Step::Row if splitter.row_bytes() > most => {
                    let row = work.records() + self.rows.len() as u64 + 1;
                    return Err(row_too_long(row, most));
                }
                Step::Row => self.rows.push((self.fields.list.len(), false)),
                Step::Cut => match self.rows.last_mut() {
                    Some((_, cut)) => *cut = true,
                    // The row was inserted with the batch before.
                    None => cx.env.warn(SqlError::too_many_fields(work.records()))?,
                },
                step => break step,
            }
        };
        cx.env.bytes(bytes.len() - from)?;
        Ok(step)
    }
    fn clear(&mut self) {
        self.rows.clear();
        self.fields.clear();
        self.fields.shrink(KEPT_BYTES);
    }
    fn memory(&self) -> usize {
        self.fields.memory() + self.rows.capacity() * size_of::<(usize, bool)>()
    }
}

impl Work<'_> {
    /// Inserts rows of the file.
    async fn loaded(
        &mut self,
        cx: &mut ExecContext<'_>,
        load: &LoadPlan,
        batch: &Batch,
        bytes: &[u8],
        at: Scope<'_>,
    ) -> Result<()> {
        self.expect_rows(batch.rows.len() as u64);
        let mut from = 0;
        for (to, cut) in &batch.rows {
            let row = &batch.fields.list[from..*to];
            cx.env.steps(row.len())?;
            let row = FileRow { load, bytes, fields: &batch.fields, row };
            self.row(cx, Given::Fields(row), at, at).await?;
            if *cut {
                cx.env.warn(SqlError::too_many_fields(self.records()))?;
            }
            from = *to;
        }
        Ok(())
    }
}
