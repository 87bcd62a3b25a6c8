//! Makes the rows of SHOW about the server and the session: warnings, processes, character sets,
//! engines.
use super::{Made, int, text};
use crate::processes::{ProcessRow, Processes};
use crate::session_state::{Level, Warnings};
use redolith_types::{Charset, Collation, Value};

pub(super) fn warnings(
    warnings: &Warnings,
    offset: u64,
    count: u64,
    errors_only: bool,
) -> impl Iterator<Item = Made> {
    let level = |l| match l {
        Level::Note => "Note",
        Level::Warning => "Warning",
        Level::Error => "Error",
    };
    let all = warnings.list().iter().filter(move |w| !errors_only || w.level == Level::Error);
    let (offset, count) = (
        usize::try_from(offset).unwrap_or(usize::MAX),
        usize::try_from(count).unwrap_or(usize::MAX),
    );
    all.skip(offset)
        .take(count)
        .map(move |w| vec![text(level(w.level)), int(w.code), text(&w.message)])
}

/// The number of characters of a statement that SHOW PROCESSLIST without FULL shows.
const INFO_CHARS: usize = 100;

pub(crate) fn processes(processes: &Processes, full: bool) -> impl Iterator<Item = Made> {
    processes.each().map(move |p| process(p, full))
}
/// The rows of INFORMATION_SCHEMA.PROCESSLIST, which say in columns of their own how far a long
/// statement has come.
pub(crate) fn processes_in_schema(processes: &Processes) -> impl Iterator<Item = Made> {
    processes.each().map(|p| {
        let seen = p.progress;
        let mut row = process(p, true);
        let expected = seen.filter(|s| s.expected > 0).map(|s| s.expected);
        let numbers = [
            seen.map(|s| s.done),
            expected,
            seen.and_then(|s| s.rate()),
            seen.and_then(|s| s.seconds_left()),
        ];
        row.extend(numbers.map(|n| n.map_or(Value::Null, int)));
        row
    })
}
fn process(p: ProcessRow, full: bool) -> Made {
    let info = move |s: String| if full { s } else { s.chars().take(INFO_CHARS).collect() };
    vec![
        int(p.id),
        text(&p.user),
        text(&p.host),
        p.schema.map_or(Value::Null, text),
        text(p.command),
        int(p.time_s),
        text(&p.state),
        p.info.map_or(Value::Null, |s| text(info(s))),
    ]
}

/// The only engine bears the name that clients look for.
pub(crate) fn engines() -> Vec<Made> {
    let comment = "Redolith: transactions, row-level locking, durable commits";
    vec![["InnoDB", "DEFAULT", comment, "YES", "YES", "YES"].map(text).to_vec()]
}

pub(super) fn plugins() -> Vec<Made> {
    let row =
        |name, kind| vec![text(name), text("ACTIVE"), text(kind), Value::Null, text("Apache-2.0")];
    vec![row("mysql_native_password", "AUTHENTICATION"), row("InnoDB", "STORAGE ENGINE")]
}

pub(crate) fn character_sets() -> Vec<Made> {
    let mut all: Vec<Charset> = Vec::new();
    for c in Collation::ALL.map(Collation::charset) {
        if !all.contains(&c) {
            all.push(c);
        }
    }
    all.sort_by_key(|c| c.name());
    all.into_iter()
        .map(|c| {
            vec![
                text(c.name()),
                text(c.description()),
                text(c.default_collation().name()),
                int(c.max_len()),
            ]
        })
        .collect()
}

pub(crate) fn collations() -> Vec<Made> {
    let mut all = Collation::ALL;
    all.sort_by_key(|c| c.name());
    let row = |c: Collation| {
        vec![
            text(c.name()),
            text(c.charset().name()),
            int(c.id()),
            text(if c.is_default() { "Yes" } else { "" }),
            text("Yes"),
            int(c.sort_length()),
            text(if c.pads() { "PAD SPACE" } else { "NO PAD" }),
        ]
    };
    all.into_iter().map(row).collect()
}
