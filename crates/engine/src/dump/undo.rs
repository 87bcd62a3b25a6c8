//! Prints the undo logs in an undo space.
use super::page::{each, tell_cut_end};
use super::{Request, key};
use crate::PAGE_SIZE;
use crate::page::{header, kind};
use crate::undo::record::{self, Entry, Head};
use redolith_disk::File;
use std::io::{self, Write};

pub(super) fn dump(file: &dyn File, request: &Request, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "undo space of {} pages", file.len()? / PAGE_SIZE as u64)?;
    tell_cut_end(file, out)?;
    each(file, request, |no, page, bad| {
        if bad.is_none() && header::page_type(page) != kind::UNDO || page.iter().all(|b| *b == 0) {
            return Ok(false);
        }
        if let Some(why) = bad {
            writeln!(out, "! page {no}: {why}")?;
            return Ok(true);
        }
        writeln!(out, "  page {no}, LSN {}", header::lsn(page))?;
        let mut at = record::FIRST;
        loop {
            let len = record::entry_len(page, at);
            if len == 0 {
                return Ok(true);
            }
            match record::parse(page, at) {
                Some(entry) => writeln!(out, "    {at:5}: {}", text(&entry))?,
                None => {
                    writeln!(out, "!   {at:5}: no whole entry of a known kind ({len} bytes)")?;
                    return Ok(true);
                }
            }
            at += len;
        }
    })
}

fn text(entry: &Entry<'_>) -> String {
    let of = |head: &Head| {
        let before = if head.before == record::RollPtr::NONE {
            "the transaction's first".to_string()
        } else {
            format!("after page {} at {}", head.before.page(), head.before.at())
        };
        format!("record {} ({before}) of table {}", head.undo_no, head.table)
    };
    match entry {
        Entry::Log { trx, state, no } => {
            let state = match *state {
                record::ACTIVE => "not ended".to_string(),
                record::COMMITTED => format!("committed as number {no}"),
                record::ENDED => "rolled back".to_string(),
                record::PREPARED => "prepared".to_string(),
                other => format!("in the unknown state {other}"),
            };
            format!("log of transaction {}, {state}", trx.0)
        }
        Entry::More { trx } => format!("log of transaction {} goes on", trx.0),
        Entry::Insert { head, key: k } => format!("{}: insert, key {}", of(head), key(k)),
        Entry::Change { head, old, key: k, rest } => {
            let damage =
                if rest.is_whole() { "" } else { "; what comes behind the key is damaged" };
            format!(
                "{}: change, key {}, before by transaction {}{damage}",
                of(head),
                key(k),
                old.trx.0
            )
        }
        Entry::Overflow { head, first } => {
            format!("{}: long column from page {first} on", of(head))
        }
        Entry::Undone { head } => format!("{}: taken back", of(head)),
        Entry::Held { head, part } => {
            format!("{}: {} bytes of what the prepared transaction holds", of(head), part.len())
        }
    }
}
