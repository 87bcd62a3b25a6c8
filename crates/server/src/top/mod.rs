//! `redolith top`: what a running server does, refreshed; `q` ends it. Where there is no terminal,
//! or with `--once`, one page as plain text.
mod sample;
mod screen;
mod terminal;

use redolith_client::{Client, Place};
use redolith_disk::Disk;
use sample::{Interval, Sample};
use std::io::Write;
use std::time::Duration;
use terminal::Terminal;

pub const USAGE: &str = "Usage: redolith top [--socket=FILE | --host=NAME --port=N] [--user=NAME] \
    [--interval=SECONDS] [--once]\n";

#[derive(PartialEq, Debug)]
struct Options {
    place: Place,
    user: String,
    interval: Duration,
    once: bool,
}

/// Runs it with the arguments behind `top`.
pub fn run(args: &[String], disk: &dyn Disk) -> Result<(), String> {
    if args.iter().any(|a| matches!(a.as_str(), "--help" | "-?")) {
        return print(USAGE);
    }
    let options = parse(args)?;
    let place = match &options.place {
        Place::Socket(path) => path.display().to_string(),
        Place::Tcp(host, port) => format!("{host}:{port}"),
    };
    let failed = |e: std::io::Error| format!("{place}: {e}");
    let mut client = Client::connect(&options.place, &options.user).map_err(failed)?;
    let mut take = || {
        Ok::<_, String>(Sample::new(
            disk.now(),
            client.query("SHOW GLOBAL STATUS").map_err(failed)?,
        ))
    };
    let mut before = take()?;
    if options.once || !terminal::is_there() {
        pause(options.interval);
        let now = take()?;
        return print(
            &(screen::page(&Interval { before: &before, now: &now }, &place).join("\n") + "\n"),
        );
    }
    let terminal = Terminal::take().map_err(|e| format!("the terminal: {e}"))?;
    let told = |e: std::io::Error| format!("the terminal: {e}");
    terminal.show(&[format!("redolith at {place}: counting ... (q ends)")]).map_err(told)?;
    while !terminal.wants_to_leave(options.interval).map_err(told)? {
        let now = take()?;
        let mut lines = screen::page(&Interval { before: &before, now: &now }, &place);
        lines
            .extend([String::new(), format!("every {} s; q ends", options.interval.as_secs_f64())]);
        terminal.show(&lines).map_err(told)?;
        before = now;
    }
    Ok(())
}

/// This program has one thread and nothing else to do.
fn pause(time: Duration) {
    let time = rustix::event::Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    };
    // A signal only makes it shorter.
    let _ = rustix::event::poll(&mut [], Some(&time));
}

fn print(text: &str) -> Result<(), String> {
    // A closed pipe is nobody's error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn parse(args: &[String]) -> Result<Options, String> {
    let (mut socket, mut host, mut port) = (None, None, None);
    let (mut user, mut interval, mut once) = ("root".to_string(), Duration::from_secs(1), false);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_string())),
            _ => (arg.as_str(), None),
        };
        if name == "--once" {
            once = true;
            continue;
        }
        if !matches!(
            name,
            "--socket"
                | "-S"
                | "--host"
                | "-h"
                | "--port"
                | "-P"
                | "--user"
                | "-u"
                | "--interval"
                | "-i"
        ) {
            return Err(format!("top has no option '{arg}'\n{USAGE}"));
        }
        let value = inline
            .or_else(|| rest.next().cloned())
            .ok_or_else(|| format!("option '{name}' requires an argument"))?;
        let wrong = || format!("{name}: '{value}' is not a valid number");
        match name {
            "--socket" | "-S" => socket = Some(value),
            "--host" | "-h" => host = Some(value),
            "--port" | "-P" => port = Some(value.parse().map_err(|_| wrong())?),
            "--user" | "-u" => user = value,
            _ => {
                let seconds: f64 = value.parse().map_err(|_| wrong())?;
                interval = Some(seconds)
                    .filter(|s| (0.1..=3600.0).contains(s))
                    .map(Duration::from_secs_f64)
                    .ok_or_else(wrong)?;
            }
        }
    }
    let place = match (socket, host, port) {
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
            return Err(format!("--socket and --host or --port exclude each other\n{USAGE}"));
        }
        (Some(socket), ..) => Place::Socket(socket.into()),
        (None, None, None) => Place::Socket("/tmp/redolith.sock".into()),
        (None, host, port) => {
            Place::Tcp(host.unwrap_or_else(|| "127.0.0.1".into()), port.unwrap_or(3306))
        }
    };
    Ok(Options { place, user, interval, once })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Options, String> {
        parse(&args.iter().map(|a| a.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn options() {
        let o = read(&[]).unwrap();
        assert_eq!(
            (o.place, o.user.as_str(), o.interval, o.once),
            (Place::Socket("/tmp/redolith.sock".into()), "root", Duration::from_secs(1), false)
        );
        let o = read(&["-P", "3307", "--user=me", "--interval", "0.5", "--once"]).unwrap();
        assert_eq!(
            (o.place, o.user.as_str(), o.interval, o.once),
            (Place::Tcp("127.0.0.1".into(), 3307), "me", Duration::from_millis(500), true)
        );
        assert_eq!(
            read(&["--host=db", "-S", "x"]).unwrap_err().lines().next(),
            Some("--socket and --host or --port exclude each other")
        );
        for wrong in [
            &["--port=x"][..],
            &["--interval=0"],
            &["--interval=NaN"],
            &["--user"],
            &["now"],
            &["--port=70000"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
