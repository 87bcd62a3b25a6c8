//! Fuzz targets. Each target passes any bytes to an interface that receives bytes from outside. It
//! must not panic, hang, or allocate memory without bound.
//!
//! `fuzz/` runs the targets under libFuzzer, guided by the coverage of the code (`make fuzz`). The
//! test `regressions` runs them once over the corpus and over every input that ever failed.
#![forbid(unsafe_code)]
mod binlog;
mod dictionary;
mod directory;
mod json;
mod options;
mod page;
mod protocol;
mod redo;
mod replica;
mod replication;
mod sql;
mod text_file;
mod undo;

/// One fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the target's folder in `fuzz/corpus` and `fuzz/regressions`.
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// The longest input that libFuzzer tries.
    pub max_len: usize,
    /// The first inputs, besides the corpus.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

pub const TARGETS: &[Target] = &[
    Target { name: "sql_text", run: sql::text, max_len: 4096, seeds: sql::seeds },
    Target {
        name: "packets",
        run: protocol::packets,
        max_len: 4096,
        seeds: protocol::packet_seeds,
    },
    Target {
        name: "handshake",
        run: protocol::handshake,
        max_len: 1024,
        seeds: protocol::handshake_seeds,
    },
    Target {
        name: "execute",
        run: protocol::execute,
        max_len: 1024,
        seeds: protocol::execute_seeds,
    },
    Target { name: "redo_records", run: redo::records, max_len: 4096, seeds: redo::record_seeds },
    Target { name: "index_page", run: page::index, max_len: 2048, seeds: page::seeds },
    Target { name: "undo_page", run: undo::page, max_len: 2048, seeds: undo::seeds },
    Target { name: "dictionary", run: dictionary::record, max_len: 4096, seeds: dictionary::seeds },
    Target { name: "json_text", run: json::text, max_len: 2048, seeds: json::text_seeds },
    Target { name: "json_binary", run: json::binary, max_len: 2048, seeds: json::binary_seeds },
    Target { name: "directory", run: directory::start, max_len: 256, seeds: directory::seeds },
    Target { name: "binlog_file", run: binlog::file, max_len: 4096, seeds: binlog::file_seeds },
    Target { name: "binlog_event", run: binlog::event, max_len: 2048, seeds: binlog::event_seeds },
    Target {
        name: "binlog_record",
        run: replication::records,
        max_len: 2048,
        seeds: replication::seeds,
    },
    Target {
        name: "replica_request",
        run: replica::request,
        max_len: 512,
        seeds: replica::request_seeds,
    },
    Target { name: "text_file", run: text_file::pieces, max_len: 1024, seeds: text_file::seeds },
    Target { name: "options", run: options::file, max_len: 2048, seeds: options::seeds },
];

pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}

/// Splits off the first bytes of an input, which choose how the rest is used.
fn take<const N: usize>(data: &[u8]) -> ([u8; N], &[u8]) {
    let mut head = [0; N];
    let n = N.min(data.len());
    head[..n].copy_from_slice(&data[..n]);
    (head, &data[n..])
}

/// Applies a list of changes to `bytes`: `at u16, length u8, new bytes`, repeated.
fn change(bytes: &mut [u8], mut changes: &[u8]) {
    while let [a, b, n, rest @ ..] = changes {
        let at = u16::from_le_bytes([*a, *b]) as usize % bytes.len();
        let n = (*n as usize).min(rest.len()).min(bytes.len() - at);
        bytes[at..at + n].copy_from_slice(&rest[..n]);
        changes = &rest[n..];
    }
}
