//! A file in the place of standard error and standard output.
use rustix::fs::{Mode, OFlags};
use std::io;
use std::path::Path;

/// Whatever the process writes to standard error and standard output goes to the end of this file
/// from now on: what the program says, the message of a panic, what a library prints. The file is
/// made, for its owner and group, if it is not there; its folder as well. If that fails, nothing
/// has changed.
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
