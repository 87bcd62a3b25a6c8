//! Long columns: their bytes lie in a chain of overflow pages of the table's space. The row keeps
//! the number of the first page and the length.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 24 | 4 | next page of the chain, 0 = last |
//! | 28 | 2 | bytes here |
//! | 32 | 8 | the transaction that wrote the chain |
//! | 40 | | data |
//!
//! A chain is written once and never changed. OVERFLOW undo records free the chain if its
//! transaction is rolled back; purge frees it when the last version that names it has gone. Freeing
//! takes the pages behind the first page before the first page, so that it can be begun again at
//! any time.
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::mtr::Mtr;
use crate::page::{Patch, index, kind};
use crate::runtime::let_others_run;
use crate::trx::Trx;
use crate::undo::record;
use crate::{Error, PAGE_SIZE, PageId, PageNo, Result, SpaceId, TrxId, Try, WouldBlock, space};
use redolith_types::{EXTERNAL_LEN, RowLayout};
use std::borrow::Cow;
use std::cmp::Reverse;

const NEXT: usize = 24;
const LEN: usize = 28;
const OWNER: usize = 32;
const DATA: usize = 40;
const ROOM: usize = PAGE_SIZE - DATA;
/// A shorter column stays in the row, because moving it would gain little.
const WORTH: usize = 64;
/// The upper limit of the bytes of a row with its long columns. A row is not written that is within
/// a page of it: one that stays inline may then become longer by an UPDATE and can still be read.
pub(crate) const MAX_ROW: u64 = 1 << 31;
const MAX_WRITTEN: u64 = MAX_ROW - PAGE_SIZE as u64;
/// The most bytes of a payload that stays as it is. A longer row is shortened until it fits in half
/// a page.
fn max_payload(key_len: usize) -> usize {
    index::max_value(key_len) - super::value::HEAD
}

/// Whether a row's columns all stay in the row.
pub(crate) fn is_inline(key_len: usize, payload: &[u8]) -> bool {
    payload.len() <= max_payload(key_len) && payload.len() <= record::MAX / 2
}

/// Moves the longest columns of a row out until the row fits.
pub(crate) async fn externalize<'p>(
    trx: &mut Trx,
    table: &Table,
    key_len: usize,
    payload: &'p [u8],
) -> Result<Cow<'p, [u8]>> {
    if is_inline(key_len, payload) {
        return Ok(Cow::Borrowed(payload));
    }
    let (layout, max) = (&table.layout, max_payload(key_len));
    let size = whole_len(layout, payload);
    if size > MAX_WRITTEN {
        return Err(Error::RowTooLong { size, max: MAX_WRITTEN as usize });
    }
    let in_key = |c: usize| table.indexes.iter().any(|ix| ix.key.columns().any(|k| k == c));
    let mut columns: Vec<(usize, usize)> =
        layout.inline_lens(payload).filter(|(c, len)| *len > WORTH && !in_key(*c)).collect();
    columns.sort_unstable_by_key(|(c, len)| Reverse((*len, *c)));
    let (mut variable, mut moved) = (layout.variable_len(payload), 0);
    while layout.payload_len(variable) > max {
        let Some((_, len)) = columns.get(moved) else {
            return Err(Error::RowTooLarge { size: layout.payload_len(variable), max });
        };
        variable -= len - EXTERNAL_LEN;
        moved += 1;
    }
    if moved == 0 {
        return Ok(Cow::Borrowed(payload));
    }
    let mut references = Vec::with_capacity(moved);
    for (col, len) in &columns[..moved] {
        let bytes = match layout.get(payload, *col) {
            redolith_types::Value::Bytes(b) | redolith_types::Value::Json(b) => b,
            other => crate::poison(&format!("a variable column holds {other:?}")),
        };
        debug_assert_eq!(bytes.len(), *len);
        references.push((*col, write_chain(trx, table, &bytes).await?, *len as u64));
    }
    // The row is copied once, however many columns move out.
    let mut row = Vec::with_capacity(layout.payload_len(variable));
    layout.externalize(payload, references, &mut row);
    Ok(Cow::Owned(row))
}

/// The bytes of a stored payload with its long columns.
fn whole_len(layout: &RowLayout, payload: &[u8]) -> u64 {
    let long = layout.externals(payload).map(|(.., len)| len);
    long.fold(payload.len() as u64, u64::saturating_add)
}
async fn write_chain(trx: &mut Trx, table: &Table, bytes: &[u8]) -> Result<PageNo> {
    let engine = trx.engine.clone();
    let (mut first, mut last) = (0, 0);
    for chunk in bytes.chunks(ROOM) {
        let page = loop {
            match append(trx, &engine, table, chunk, last) {
                Ok(no) => break no,
                Err(s) => trx.unblocked(s).await?,
            }
        };
        if first == 0 {
            first = page;
        }
        last = page;
    }
    Ok(first)
}
fn append(
    trx: &mut Trx,
    engine: &Engine,
    table: &Table,
    chunk: &[u8],
    last: PageNo,
) -> Try<PageNo> {
    let space = table.space;
    let mut undo = Vec::new();
    if last == 0 {
        record::overflow(&mut undo, trx.undo.head(table.id), 0);
        trx.undo.make_room(&engine.store, &engine.undo, undo.len())?;
    }
    let mut m = Mtr::begin(&engine.store)?;
    let before = if last != 0 { Some(m.x(PageId { space, no: last })?) } else { None };
    let free = space::reserve(&mut m, space, 1, last)?;
    let no = free.pages[0];
    let at = m.create(PageId { space, no })?;
    let slot = if last == 0 { Some(trx.undo.reserve(&mut m, trx.id, undo.len())?) } else { None };
    free.take(&mut m);
    m.init(at);
    let mut p = m.patch(at);
    p.write_u16(12, kind::OVERFLOW);
    p.write_u16(LEN, chunk.len() as u16);
    p.write_u64(OWNER, trx.id.0);
    p.write(DATA, chunk);
    if let Some(b) = before {
        m.patch(b).write_u32(NEXT, no);
    }
    if let Some(slot) = slot {
        record::overflow(&mut undo, trx.undo.head(table.id), no);
        let roll = slot.roll(false);
        trx.undo.write(&mut m, &engine.undo, slot, &undo, roll);
    }
    m.commit();
    Ok(no)
}

/// Reads the bytes of a chain.
async fn read_chain(engine: &Engine, space: SpaceId, first: PageNo, into: &mut [u8]) -> Result<()> {
    let (mut no, mut read) = (first, 0);
    while no != 0 && read < into.len() {
        match engine.retry(|| read_part(engine, PageId { space, no }, &mut into[read..])).await? {
            Some((bytes, next)) => (read, no) = (read + bytes, next),
            None => break,
        }
    }
    if read == into.len() {
        Ok(())
    } else {
        Err(cut_short(engine, PageId { space, no }, into.len() as u64, read))
    }
}
#[cold]
fn cut_short(engine: &Engine, page: PageId, len: u64, read: usize) -> Error {
    let (file, table) = engine.describe(page.space);
    Error::Corrupt {
        page,
        file,
        table,
        why: format!("a column of {len} bytes has only {read} bytes in its pages"),
    }
}
/// Copies the bytes of one page. Returns their number and the next page, or None if the page is no
/// overflow page or has more bytes than are wanted.
fn read_part(engine: &Engine, id: PageId, into: &mut [u8]) -> Try<Option<(usize, PageNo)>> {
    let g = engine.store.pool.fix(id, crate::buf::Latch::S)?;
    Ok(part(&g).and_then(|(bytes, next)| {
        into.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some((bytes.len(), next))
    }))
}
/// The bytes in an overflow page, and the next page of its chain. None if the page is no overflow
/// page, or is empty: a damaged chain of empty pages could be an endless circle.
pub(crate) fn part(page: &[u8; PAGE_SIZE]) -> Option<(&[u8], PageNo)> {
    let n = u16_at(page, LEN) as usize;
    if u16_at(page, 12) != kind::OVERFLOW || n == 0 {
        return None;
    }
    Some((page.get(DATA..DATA + n)?, u32_at(page, NEXT)))
}
/// The row with all its columns inside. Each column is read directly to its final place, so that
/// its bytes are not in memory twice.
pub(crate) async fn internalize(engine: &Engine, table: &Table, payload: &[u8]) -> Result<Vec<u8>> {
    let layout = &table.layout;
    if let Some((_, first, len)) = layout.externals(payload).find(|(.., len)| *len >= MAX_ROW) {
        return Err(cut_short(engine, PageId { space: table.space, no: first }, len, 0));
    }
    let long = whole_len(layout, payload);
    if long >= MAX_ROW {
        return Err(Error::RowTooLong { size: long, max: MAX_ROW as usize });
    }
    // The ends of columns may need more bytes than in the short row.
    let mut row = Vec::with_capacity(long as usize + 4 * layout.columns());
    for (at, first) in layout.make_room(payload, &mut row) {
        read_chain(engine, table.space, first, &mut row[at]).await?;
    }
    Ok(row)
}

/// The writer of a chain that is to be freed. If the chain has been freed already, its first page
/// may belong to another chain by now.
#[derive(Clone, Copy)]
pub(crate) enum Writer {
    /// A rollback may free a chain twice (after a crash, or with a savepoint), and an older
    /// transaction may have the page by then.
    Exactly(TrxId),
    /// Purge frees a chain only once (PURGE-4). The writer of the chain may have begun later than
    /// the transaction that made the chain obsolete.
    Any,
}
/// The pages that are freed before other tasks have their turn.
const PAGES_PER_TURN: u64 = 64;

/// Frees a chain. Does nothing if the chain is gone already.
pub(crate) async fn free_chain(
    engine: &Engine,
    space: SpaceId,
    first: PageNo,
    writer: Writer,
) -> Result<()> {
    let mut freed = 0u64;
    loop {
        match free_one(engine, PageId { space, no: first }, writer) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                freed += 1;
                if freed.is_multiple_of(PAGES_PER_TURN) {
                    let_others_run(&*engine.runtime).await;
                }
                if matches!(writer, Writer::Any) {
                    engine.room_for_purge().await?;
                }
            }
            Err(s) => match engine.unblocked(s).await {
                // The table's space is gone, and the pages with it.
                Err(_) if engine.store.spaces.is_known_gone(space) => return Ok(()),
                settled => settled?,
            },
        }
    }
}
/// Frees the chain's second page, or its first page if it is the only one. Returns true when
/// nothing is left.
fn free_one(engine: &Engine, first: PageId, writer: Writer) -> Try<bool> {
    let mut m = Mtr::begin_reserved(&engine.store)?;
    let a = m.x(first)?;
    let wrote = u64_at(m.page(a), OWNER);
    let is_it = match writer {
        Writer::Exactly(trx) => wrote == trx.0,
        Writer::Any => true,
    };
    if u16_at(m.page(a), 12) != kind::OVERFLOW || !is_it {
        return Ok(true);
    }
    let next = u32_at(m.page(a), NEXT);
    let target = if next == 0 { a } else { m.x(PageId { space: first.space, no: next })? };
    if u16_at(m.page(target), 12) != kind::OVERFLOW || u64_at(m.page(target), OWNER) != wrote {
        let (file, table) = engine.describe(first.space);
        let why = format!("page {} of a long column leads to it, but it is another page", first.no);
        return Err(WouldBlock::Failed(Error::Corrupt { page: m.id(target), file, table, why }));
    }
    let after = u32_at(m.page(target), NEXT);
    let id = m.id(target);
    let map = space::prepare_free(&mut m, id)?;
    if next != 0 {
        m.patch(a).write_u32(NEXT, after);
    }
    space::free(&mut m, target, map);
    m.commit();
    Ok(next == 0)
}

#[cfg(all(test, not(model)))]
mod tests;
