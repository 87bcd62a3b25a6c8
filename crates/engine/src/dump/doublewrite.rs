//! Prints the doublewrite file.
use super::{Request, read};
use crate::PAGE_SIZE;
use crate::flush::doublewrite::{self, HEADER, SEGMENT_BYTES};
use crate::page::header::{self, Page};
use redolith_disk::File;
use std::io::{self, Write};

pub(super) fn dump(file: &dyn File, request: &Request, out: &mut dyn Write) -> io::Result<()> {
    let segments = file.len()?.div_ceil(SEGMENT_BYTES);
    writeln!(out, "{segments} batches")?;
    for n in (request.from..segments).take(usize::try_from(request.limit).unwrap_or(usize::MAX)) {
        let bytes = read(file, n * SEGMENT_BYTES, SEGMENT_BYTES as usize)?;
        if bytes.iter().all(|b| *b == 0) {
            writeln!(out, "  batch at {n}: never written")?;
            continue;
        }
        let (Some(head), true) = (
            bytes.get(..HEADER).and_then(doublewrite::read_header),
            bytes.len() as u64 == SEGMENT_BYTES,
        ) else {
            writeln!(out, "! batch at {n}: its header is torn or damaged")?;
            continue;
        };
        writeln!(
            out,
            "  batch at {n}: number {}, {} pages",
            crate::bytes::u64_at(&bytes, 16),
            head.pages.len()
        )?;
        for ((id, sum), page) in head.pages.iter().zip(bytes[HEADER..].chunks_exact(PAGE_SIZE)) {
            let page: &Page = page.first_chunk().expect("a page");
            let whole = header::verify(page, *id).is_ok() && header::checksum(page) == *sum;
            let (mark, what) = if whole {
                (' ', "whole")
            } else {
                ('!', "torn, or of a batch that was not written to its end")
            };
            writeln!(out, "{mark}   page {id}, LSN {}: {what}", header::lsn(page))?;
        }
    }
    Ok(())
}
