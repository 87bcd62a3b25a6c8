//! Sends standard error and standard output to a file.
use rustix::fs::{Mode, OFlags};
use std::io;
use std::path::Path;

/// Appends to this file everything that the process writes to standard error and standard output:
/// its own lines, the message of a panic, output of a library. A missing file is created, with
/// access for its owner and group, and its folder too. If the call fails, standard error and
/// standard output are as before.
pub fn standard_output_to(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        #[allow(clippy::disallowed_methods)] // this is the disk
        std::fs::create_dir_all(folder)?;
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o640))?;
    rustix::stdio::dup2_stderr(&file)?;
    rustix::stdio::dup2_stdout(&file)?;
    Ok(())
}
