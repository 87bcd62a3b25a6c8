//! The error log: what the server, the engine and the disk say by `tracing`, in the lines that
//! MySQL 8.0 writes, so that what reads those reads these.
//!
//! ```text
//! 2026-11-24T02:35:00.123456Z 0 [Warning] [MY-000000] [Engine] text
//! time in UTC                 0 priority   MySQL's number: 0   part of the server
//! ```
//!
//! ERRLOG-1: an event is one line. Control characters of its text are escaped: a name that a client
//! chose cannot begin a line of its own.
//! ERRLOG-2: everything goes to standard error. With `--log-error=FILE` standard error and standard
//! output *are* the file, so that a panic's message and those of libraries are in it as well.
//! SIGHUP, FLUSH LOGS and FLUSH ERROR LOGS open the file again under its name, as `logrotate`
//! wants;
//! when that fails, the old file goes on being written.
use redolith_disk::Disk;
use redolith_types::DateTime;
use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// The target of events that are written whatever `log_error_verbosity` says: that the server is
/// ready, and that it ends.
pub const SYSTEM: &str = "redolith::system";

/// Priorities in MySQL's words, by [`Level`].
fn priority(event: &Metadata<'_>) -> &'static str {
    match *event.level() {
        _ if event.target() == SYSTEM => "System",
        Level::ERROR => "ERROR",
        Level::WARN => "Warning",
        _ => "Note",
    }
}
fn part(event: &Metadata<'_>) -> &'static str {
    let of = |krate: &str| event.target().starts_with(krate);
    if of("redolith_engine") || of("redolith_disk") { "Engine" } else { "Server" }
}

/// Where lines go and which are written.
pub struct ErrorLog {
    disk: Arc<dyn Disk>,
    /// None: standard error as it was when the server was started.
    path: Option<PathBuf>,
    /// `log_error_verbosity`: 1 errors, 2 and warnings, 3 and notes.
    verbosity: AtomicU64,
}

impl ErrorLog {
    /// The log of `log_error`: "stderr", or a file, relative to the data directory; ".err" is added
    /// to a name without an extension. The file is opened, and made if it is not there.
    pub fn open(disk: Arc<dyn Disk>, log_error: &str, datadir: &Path) -> Result<ErrorLog, String> {
        let log =
            ErrorLog { disk, path: file_of(log_error, datadir), verbosity: AtomicU64::new(2) };
        log.reopen()?;
        Ok(log)
    }
    /// Opens the file again, under its name. An error is for the person who asked for it.
    pub fn reopen(&self) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        redolith_disk::standard_output_to(path)
            .map_err(|e| format!("--log-error: cannot write to {}: {e}", path.display()))
    }
    pub fn set_verbosity(&self, verbosity: u64) {
        self.verbosity.store(verbosity, Relaxed);
    }
    fn writes(&self, event: &Metadata<'_>) -> bool {
        let least = match *event.level() {
            _ if event.target() == SYSTEM => 0,
            Level::ERROR => 1,
            Level::WARN => 2,
            Level::INFO => 3,
            _ => return false,
        };
        event.target().starts_with("redolith") && least <= self.verbosity.load(Relaxed)
    }
}

fn file_of(log_error: &str, datadir: &Path) -> Option<PathBuf> {
    if log_error == "stderr" || log_error.is_empty() {
        return None;
    }
    let mut path = datadir.join(log_error);
    if path.extension().is_none() {
        path.set_extension("err");
    }
    Some(path)
}

/// The line of an event, with its newline.
fn line(unix_us: i64, event: &Metadata<'_>, text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 80);
    let mut time = Vec::new();
    if let Some(at) = DateTime::from_unix_us(unix_us, 0) {
        at.write_text(6, &mut time);
    }
    let time = String::from_utf8_lossy(&time).replacen(' ', "T", 1);
    let _ = write!(line, "{time}Z 0 [{}] [MY-000000] [{}] ", priority(event), part(event));
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line.push('\n');
    line
}

/// The message of an event, and then its other fields.
#[derive(Default)]
struct Text(String);
impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

/// [`ErrorLog`] as the receiver of `tracing`'s events. Spans are not used.
pub struct Receiver(pub Arc<ErrorLog>);
impl Subscriber for Receiver {
    /// What is written changes with `log_error_verbosity`, so the answer of [`Self::enabled`] is
    /// not kept.
    fn register_callsite(&self, event: &'static Metadata<'static>) -> Interest {
        let ours = event.is_event() && event.target().starts_with("redolith");
        if ours { Interest::sometimes() } else { Interest::never() }
    }
    fn enabled(&self, event: &Metadata<'_>) -> bool {
        self.0.writes(event)
    }
    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let line = line(self.0.disk.wall_us(), event.metadata(), &text.0);
        // In one call, so that lines of two threads do not mix. There is nobody to tell that the
        // log cannot be written.
        let _ = io::stderr().write_all(line.as_bytes());
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// From here on the process says what it says by `log`.
pub fn install(log: &Arc<ErrorLog>) {
    // A second server in one process, which only tests have, speaks by the first one's log.
    let _ = tracing::subscriber::set_global_default(Receiver(log.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use redolith_disk::RealDisk;

    /// Keeps lines instead of writing them.
    struct Kept(ErrorLog, Arc<Mutex<Vec<String>>>);
    impl Subscriber for Kept {
        fn enabled(&self, event: &Metadata<'_>) -> bool {
            self.0.writes(event)
        }
        fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
            Interest::sometimes()
        }
        fn event(&self, event: &Event<'_>) {
            let mut text = Text::default();
            event.record(&mut text);
            self.1.lock().push(line(1_700_000_000_123_456, event.metadata(), &text.0));
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }
    fn said(verbosity: u64, say: impl FnOnce()) -> Vec<String> {
        let log = ErrorLog::open(Arc::new(RealDisk::new()), "stderr", Path::new("/")).unwrap();
        log.set_verbosity(verbosity);
        let lines = Arc::default();
        tracing::subscriber::with_default(Kept(log, Arc::clone(&lines)), say);
        lines.lock().clone()
    }
    fn say_all() {
        tracing::error!("an error");
        tracing::warn!(target: "redolith_engine::start", "a file of {}", "somebody");
        tracing::info!("a note");
        tracing::debug!("never");
        tracing::error!(target: "other_crate", "never");
        tracing::info!(target: SYSTEM, "ready");
    }

    #[test]
    fn lines_have_the_form_of_mysql() {
        let at = "2023-11-14T22:13:20.123456Z 0";
        assert_eq!(
            said(3, say_all),
            [
                format!("{at} [ERROR] [MY-000000] [Server] an error\n"),
                format!("{at} [Warning] [MY-000000] [Engine] a file of somebody\n"),
                format!("{at} [Note] [MY-000000] [Server] a note\n"),
                format!("{at} [System] [MY-000000] [Server] ready\n"),
            ]
        );
    }
    #[test]
    fn verbosity_chooses() {
        let count = |verbosity| said(verbosity, say_all).len();
        assert_eq!((count(1), count(2), count(3)), (2, 3, 4));
    }
    /// ERRLOG-1
    #[test]
    fn a_text_is_one_line() {
        let lines = said(1, || tracing::error!("user 'x\n2023 0 [System] forged\r\x1b[2J'"));
        assert!(
            lines[0].ends_with("user 'x\\n2023 0 [System] forged\\r\\u{1b}[2J'\n"),
            "{lines:?}"
        );
        assert_eq!(lines[0].matches('\n').count(), 1);
    }
    #[test]
    fn files_are_named_as_mysqld_names_them() {
        let of = |text| file_of(text, Path::new("/data"));
        assert_eq!((of("stderr"), of("")), (None, None));
        assert_eq!(of("host"), Some("/data/host.err".into()));
        assert_eq!(of("/var/log/error.log"), Some("/var/log/error.log".into()));
    }
}
