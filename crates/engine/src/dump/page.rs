//! Prints a table space, page by page.
use super::{Request, hex, read};
use crate::page::header::{self, Page};
use crate::page::{index, kind};
use crate::space::{Spaces, bitmap};
use crate::{PAGE_SIZE, PageId, PageNo};
use redolith_disk::File;
use std::io::{self, Write};

/// The page's bytes; `None` behind the last whole page.
pub(super) fn page_at(file: &dyn File, no: PageNo) -> io::Result<Option<Box<Page>>> {
    let bytes = read(file, u64::from(no) * PAGE_SIZE as u64, PAGE_SIZE)?;
    Ok(bytes.first_chunk().map(|page: &Page| Box::new(*page)))
}
/// Calls `f` on each requested page, with the reason if the page is bad. `f` returns whether it
/// printed the page.
pub(super) fn each(
    file: &dyn File,
    request: &Request,
    mut f: impl FnMut(PageNo, &Page, Option<String>) -> io::Result<bool>,
) -> io::Result<()> {
    // Page 0 tells the space id, unless it is damaged. A page with another space id is out of its
    // place.
    let space = page_at(file, 0)?
        .filter(|page| header::verify(page, header::id(page)).is_ok())
        .map(|page| header::id(&page).space);
    let (mut no, mut printed) = (PageNo::try_from(request.from).unwrap_or(PageNo::MAX), 0);
    while printed < request.limit
        && let Some(page) = page_at(file, no)?
    {
        let id = PageId { space: space.unwrap_or(header::id(&page).space), no };
        let bad = header::verify(&page, id).err().map(|bad| bad.to_string());
        printed += u64::from(f(no, &page, bad)?);
        let Some(next) = no.checked_add(1) else { break };
        no = next;
        // Pages of holes are zeros, and not printed.
        if page.iter().all(|b| *b == 0) {
            let Some(data) = file.next_data(u64::from(no) * PAGE_SIZE as u64)? else { break };
            no = PageNo::try_from(data / PAGE_SIZE as u64).unwrap_or(PageNo::MAX);
        }
    }
    Ok(())
}

/// Tells of a file that ends within a page.
pub(super) fn tell_cut_end(file: &dyn File, out: &mut dyn Write) -> io::Result<()> {
    match file.len()? % PAGE_SIZE as u64 {
        0 => Ok(()),
        rest => {
            writeln!(out, "! the file ends within a page, {rest} bytes behind the last whole one")
        }
    }
}

pub(super) fn dump(file: &dyn File, request: &Request, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} pages of {PAGE_SIZE} bytes", file.len()? / PAGE_SIZE as u64)?;
    tell_cut_end(file, out)?;
    each(file, request, |no, page, bad| {
        if page.iter().all(|b| *b == 0) {
            // Most of a file that has just grown consists of such pages.
            return Ok(false);
        }
        print(no, page, bad, out)?;
        if request.hex {
            hex(page, out)?;
        }
        Ok(true)
    })
}

fn print(no: PageNo, page: &Page, bad: Option<String>, out: &mut dyn Write) -> io::Result<()> {
    let ty = header::page_type(page);
    let name = match ty {
        kind::FREE => "free",
        kind::SPACE_HEADER => "header",
        kind::BITMAP => "bitmap",
        kind::INDEX => "index",
        kind::UNDO => "undo",
        kind::OVERFLOW => "overflow",
        kind::SYSTEM => "system",
        _ => "unknown",
    };
    let mark = if bad.is_some() { '!' } else { ' ' };
    write!(
        out,
        "{mark} page {no}: {name} ({ty}), space {}, LSN {}",
        header::id(page).space.0,
        header::lsn(page)
    )?;
    if let Some(why) = bad {
        // The fields of a bad page cannot be trusted.
        return writeln!(out, "; {why}");
    }
    match ty {
        kind::SPACE_HEADER => write!(out, ", stamp {}", Spaces::stamp_of(page))?,
        kind::BITMAP => write!(out, ", {} pages in use", bitmap::count(page))?,
        kind::INDEX => {
            write!(
                out,
                ", index {}, level {}, {} records",
                index::index_id(page),
                index::level(page),
                index::n_recs(page)
            )?;
            match index::next_page(page) {
                0 => {}
                next => write!(out, ", next page {next}")?,
            }
            if index::is_incomplete(page) {
                write!(out, ", its split is not finished")?;
            }
            if let Err(why) = index::well_formed(page) {
                writeln!(out)?;
                return writeln!(out, "!   {why}");
            }
        }
        _ => {}
    }
    writeln!(out)
}
