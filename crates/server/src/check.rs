//! `redolith check` reads every page of the data files of a stopped server, and every event of its
//! binary log, and names what is wrong. It changes nothing.
use crate::start::binlog_place;
use redolith_disk::Disk;
use redolith_engine::commit_stream::CommitStream;
use redolith_engine::{Config, StoppedDirectory, Told};
use redolith_replication::{Binlog, check};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub const USAGE: &str = "\
Usage: redolith check [--innodb-doublewrite-dir=FOLDER] [--log-bin[=NAME]] DIR

Reads every page of the data files in the data directory DIR, whose server must be stopped, and
judges the directory as a start would. Nothing is changed. FOLDER has the doublewrite files if they
are not in DIR; as for the server, it is relative to DIR.

Then it reads every event of the binary log: of the one that NAME names, as the server's option
does, or of the one in DIR, if there is one.

Lines that begin with ! tell of damage; the exit status is then 1. What a crash leaves and the next
start repairs is no damage. CHECK TABLE checks what this command does not: the structure of the
indexes, and whether they match the rows.
";

/// The arguments after `check`.
struct Request<'a> {
    dir: &'a str,
    config: Config,
    /// What `--log-bin` names; `Some(None)` without a name.
    log_bin: Option<Option<&'a str>>,
}

/// Runs the command with the arguments after `check`. Damage is an error, too.
pub fn run(args: &[String], disk: Arc<dyn Disk>) -> Result<(), String> {
    if args.is_empty() || args.iter().any(|a| matches!(a.as_str(), "--help" | "-?" | "-h")) {
        print!("{USAGE}");
        return Ok(());
    }
    let Request { dir, config, log_bin } = request(args)?;
    let mut teller = Teller::new(disk.clone());
    let mut damaged = 0;
    // Until the last file of the binary log has been read, too (STOPPED-1).
    let stopped = StoppedDirectory::lock(disk.clone(), &config).map_err(|e| e.to_string())?;
    let binlog = match binlog(&disk, &config.dir, log_bin) {
        Ok(binlog) => binlog,
        Err(why) => {
            damaged += 1;
            teller.tell(Told::Damage(why));
            None
        }
    };
    let stream = binlog.as_deref().map(|binlog| binlog as &dyn CommitStream);
    let checked =
        stopped.check(stream, &mut |told| teller.tell(told)).map_err(|e| e.to_string())?;
    damaged += checked.damaged;
    line(&format!(
        "{} pages ({} in use, {} MiB) in {} files read in {:.1} s",
        checked.pages,
        checked.in_use,
        teller.bytes >> 20,
        checked.files,
        teller.seconds()
    ));
    if let Some(binlog) = &binlog {
        let mut teller = Teller::new(disk.clone());
        let checked = check::check(&*disk, binlog, &mut |told| teller.tell(told));
        damaged += checked.damaged;
        line(&format!(
            "{} events ({} transactions, {} MiB) in {} files of the binary log read in {:.1} s",
            checked.events,
            checked.transactions,
            checked.bytes >> 20,
            checked.files,
            teller.seconds()
        ));
    }
    drop(stopped);
    match damaged {
        0 => {
            line("no damage found");
            Ok(())
        }
        n => Err(format!("{dir}: damage in {n} places")),
    }
}

fn request(args: &[String]) -> Result<Request<'_>, String> {
    let (options, dirs): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|a| a.starts_with("--"));
    let [dir] = dirs[..] else { return Err(format!("check needs one directory\n{USAGE}")) };
    let (mut config, mut log_bin) = (Config::new(dir), None);
    for option in options {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option.as_str(), None),
        };
        match (name.replace('_', "-").as_str(), value) {
            ("--innodb-doublewrite-dir", Some(folder)) => {
                config.doublewrite.dir = Some(config.dir.join(folder));
            }
            ("--log-bin", named) => log_bin = Some(named.filter(|name| !name.is_empty())),
            _ => return Err(format!("unknown option {option}\n{USAGE}")),
        }
    }
    Ok(Request { dir, config, log_bin })
}

/// The binary log that is to be checked.
fn binlog(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    log_bin: Option<Option<&str>>,
) -> Result<Option<Arc<Binlog>>, String> {
    let place = binlog_place(dir, log_bin.flatten())?;
    let index = place.index();
    if !disk.exists(&index) {
        return match log_bin {
            Some(_) => {
                Err(format!("{} is missing: it has the names of the files", index.display()))
            }
            None => Ok(None),
        };
    }
    Binlog::new(disk.clone(), place).map(Some).map_err(|e| format!("a start would be refused: {e}"))
}

/// Prints what a check tells.
struct Teller {
    disk: Arc<dyn Disk>,
    begun: Duration,
    shows_progress: bool,
    percent: Option<u64>,
    bytes: u64,
}
impl Teller {
    fn new(disk: Arc<dyn Disk>) -> Teller {
        let (begun, shows_progress) = (disk.now(), std::io::stderr().is_terminal());
        Teller { disk, begun, shows_progress, percent: None, bytes: 0 }
    }
    fn tell(&mut self, told: Told) {
        match told {
            Told::Damage(why) => line(&format!("! {why}")),
            Told::Note(what) => line(&format!("  {what}")),
            Told::Progress(done, of) => {
                self.bytes = done;
                let now = done * 100 / of.max(1);
                if self.shows_progress && self.percent.replace(now) != Some(now) {
                    eprint!("\r{now} %\r");
                }
            }
        }
    }
    fn seconds(&self) -> f64 {
        (self.disk.now() - self.begun).as_secs_f64()
    }
}
fn line(text: &str) {
    // A reader who has closed the pipe wants no more, and the exit status still counts.
    let _ = writeln!(std::io::stdout(), "{text}");
}
