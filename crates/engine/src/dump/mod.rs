//! Prints the files of a data directory as text: `redolith dump`.
//!
//! A dump changes nothing and needs no running engine. A damaged file is printed as far as it can
//! be read, and each damage gets a line that says where it is. Such lines begin with `!`.
//!
//! DUMP-1: a dump of a file with any bytes ends. It needs no more memory than the largest frame of
//! the redo log, which has 16 MiB whatever its header says, or one batch of the doublewrite file.
mod control;
mod doublewrite;
mod log;
mod page;
mod undo;

use redolith_disk::{Create, Disk, File, OpenHow};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `redo/control`: checkpoint states and witness.
    Control,
    /// `redo/log_<n>`: the frames of one segment, with the changes in them.
    Log,
    /// A table space, page by page.
    Page,
    /// The undo logs in an undo space.
    Undo,
    /// The doublewrite file: the pages that have a copy there, and whether the copy is whole.
    Doublewrite,
}
impl Kind {
    /// All kinds, with the names that `redolith dump` has for them.
    pub const ALL: [(&'static str, Kind); 5] = [
        ("control", Kind::Control),
        ("log", Kind::Log),
        ("page", Kind::Page),
        ("undo", Kind::Undo),
        ("doublewrite", Kind::Doublewrite),
    ];
}

/// What to print.
#[derive(Debug, Clone)]
pub struct Request {
    /// The kind of the file.
    pub kind: Kind,
    /// The file.
    pub path: PathBuf,
    /// The first LSN (of a redo log), page number or batch number to print.
    pub from: u64,
    /// The most frames, pages or batches to print.
    pub limit: u64,
    /// Whether to print contents as hexadecimal bytes, too.
    pub hex: bool,
}

/// Prints the file. Fails when the file is missing, or when reading it or writing to `out` fails.
pub fn dump(disk: &dyn Disk, request: &Request, out: &mut dyn Write) -> io::Result<()> {
    let file = open(disk, &request.path)?;
    match request.kind {
        Kind::Control => control::dump(&*file, out),
        Kind::Log => log::dump(disk, &*file, request, out),
        Kind::Page => page::dump(&*file, request, out),
        Kind::Undo => undo::dump(&*file, request, out),
        Kind::Doublewrite => doublewrite::dump(&*file, request, out),
    }
}
fn open(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn File>> {
    disk.open(path, OpenHow { create: Create::Existing, direct: false })
}
/// The file's bytes from `at` on: `len` bytes, or fewer where the file ends.
fn read(file: &dyn File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let there = file.len()?.saturating_sub(at).min(len as u64) as usize;
    let mut bytes = vec![0; there];
    if there > 0 {
        file.read_at(&mut bytes, at)?;
    }
    Ok(bytes)
}
/// Prints sixteen bytes a line, as offset, hexadecimal and ASCII, and leaves out lines of zeros.
fn hex(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    for (n, line) in bytes.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|b| *b != 0)) {
        let digits: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        let shown: String = line
            .iter()
            .map(|b| if b.is_ascii_graphic() || *b == b' ' { *b as char } else { '.' })
            .collect();
        writeln!(out, "      {:6x}  {:47}  {shown}", n * 16, digits.join(" "))?;
    }
    Ok(())
}
/// The first bytes of a key, as hexadecimal digits.
fn key(bytes: &[u8]) -> String {
    const SHOWN: usize = 24;
    let digits: String = bytes.iter().take(SHOWN).map(|b| format!("{b:02x}")).collect();
    if bytes.len() > SHOWN { format!("{digits}.. ({} bytes)", bytes.len()) } else { digits }
}
