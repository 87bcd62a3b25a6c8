//! `redolith check` reads every page of the data files of a stopped server, and names what is
//! wrong. It changes nothing.
use redolith_disk::Disk;
use redolith_engine::{Config, Told, check_files};
use std::io::{IsTerminal, Write};
use std::sync::Arc;

pub const USAGE: &str = "\
Usage: redolith check [--innodb-doublewrite-dir=FOLDER] DIR

Reads every page of the data files in the data directory DIR, whose server must be stopped, and
judges the directory as a start would. Nothing is changed. FOLDER has the doublewrite files if they
are not in DIR; as for the server, it is relative to DIR.

Lines that begin with ! tell of damage; the exit status is then 1. What a crash leaves and the next
start repairs is no damage. CHECK TABLE checks what this command does not: the structure of the
indexes, and whether they match the rows.
";

/// Runs the command with the arguments after `check`. Damage is an error, too.
pub fn run(args: &[String], disk: Arc<dyn Disk>) -> Result<(), String> {
    if args.is_empty() || args.iter().any(|a| matches!(a.as_str(), "--help" | "-?" | "-h")) {
        print!("{USAGE}");
        return Ok(());
    }
    let (options, dirs): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|a| a.starts_with("--"));
    let [dir] = dirs[..] else { return Err(format!("check needs one directory\n{USAGE}")) };
    let mut config = Config::new(dir);
    for option in options {
        let folder = option
            .strip_prefix("--innodb-doublewrite-dir=")
            .or(option.strip_prefix("--innodb_doublewrite_dir="))
            .ok_or_else(|| format!("unknown option {option}\n{USAGE}"))?;
        config.doublewrite.dir = Some(config.dir.join(folder));
    }
    let (begun, shows_progress) = (disk.now(), std::io::stderr().is_terminal());
    let (mut percent, mut bytes) = (None, 0);
    let checked = check_files(disk.clone(), &config, &mut |told| match told {
        Told::Damage(why) => line(&format!("! {why}")),
        Told::Note(what) => line(&format!("  {what}")),
        Told::Progress(done, of) => {
            bytes = done;
            let now = done * 100 / of.max(1);
            if shows_progress && percent.replace(now) != Some(now) {
                eprint!("\r{now} %\r");
            }
        }
    })
    .map_err(|e| e.to_string())?;
    let seconds = (disk.now() - begun).as_secs_f64();
    line(&format!(
        "{} pages ({} in use, {} MiB) in {} files read in {seconds:.1} s",
        checked.pages,
        checked.in_use,
        bytes >> 20,
        checked.files
    ));
    match checked.damaged {
        0 => {
            line("no damage found");
            Ok(())
        }
        n => Err(format!("{dir}: damage in {n} places")),
    }
}
fn line(text: &str) {
    // A reader who has closed the pipe wants no more, and the exit status still counts.
    let _ = writeln!(std::io::stdout(), "{text}");
}
