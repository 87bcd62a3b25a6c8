//! The files of a data directory as text, for whoever has to see what is in them: `redolith dump`.
//!
//! Reading changes nothing and needs no running engine. A damaged file is printed as far as it can
//! be read, and each damage is a line that says where it is. Lines that tell of damage begin with
//! `!`.
//!
//! DUMP-1: whatever bytes a file holds, a dump ends, and needs no more memory than one segment of
//! the redo log and the largest frame, or one batch of the doublewrite file.
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
    /// The doublewrite file: which pages have a copy there, and whether it is whole.
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
    /// The first LSN (of a log) or page number; what is before is not printed.
    pub from: u64,
    /// Frames, pages or batches to print at most.
    pub limit: u64,
    /// Contents as hexadecimal bytes, too.
    pub hex: bool,
}

/// Prints the file. Errors: what the operating system says of reading it or of `out`; that it is
/// not there.
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
/// The file's bytes from `at` on, at most `len`; fewer where it ends.
fn read(file: &dyn File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let there = file.len()?.saturating_sub(at).min(len as u64) as usize;
    let mut bytes = vec![0; there];
    if there > 0 {
        file.read_at(&mut bytes, at)?;
    }
    Ok(bytes)
}
/// Sixteen bytes a line, as offset, hexadecimal and ASCII; lines of zeros alone are left out.
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
