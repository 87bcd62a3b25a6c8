//! The sort of a statement's rows: it is charged to the statement, goes on in a temporary file
//! where the rows outgrow their memory, and ends when the statement is killed.
use super::ExecContext;
use super::scan::go_on;
use crate::error::Result;
use redolith_engine::sort::Sorter;

/// Moves the rows to a temporary file if they have outgrown their memory. `charged` is what the
/// statement is charged for them.
pub async fn spill_if_large(
    cx: &mut ExecContext<'_>,
    sorter: &mut Sorter,
    charged: &mut usize,
) -> Result<()> {
    if sorter.bytes() < cx.env.spill_at() { Ok(()) } else { spill(cx, sorter, charged).await }
}

/// Moves the rows to a temporary file.
pub async fn spill(
    cx: &mut ExecContext<'_>,
    sorter: &mut Sorter,
    charged: &mut usize,
) -> Result<()> {
    let Some(space) = cx.env.temporary() else { return Ok(()) };
    cx.env.be_heavy();
    let (runtime, process) = (cx.trx.engine().runtime.clone(), cx.env.session.process.clone());
    let mark = cx.env.held();
    cx.env.charge(sorter.memory_to_spill())?;
    sorter.spill(space, cx.env.disk, &*runtime, || go_on(&process)).await?;
    cx.env.release_to(mark);
    cx.env.keep(charged, sorter.memory())
}

/// Sorts the rows, when no more of them come.
pub async fn sort(
    cx: &mut ExecContext<'_>,
    sorter: &mut Sorter,
    charged: &mut usize,
) -> Result<()> {
    sorter.cut_to_limit();
    cx.env.keep(charged, sorter.memory())?;
    let (runtime, process) = (cx.trx.engine().runtime.clone(), cx.env.session.process.clone());
    let mark = cx.env.held();
    cx.env.charge(sorter.memory_to_sort())?;
    sorter.sort(&*runtime, || go_on(&process)).await?;
    cx.env.release_to(mark);
    cx.env.keep(charged, sorter.memory_to_merge())
}
