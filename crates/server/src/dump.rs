//! `redolith dump` prints a file of a data directory as text. It changes nothing, and prints a
//! damaged file as far as the file can be read.
use redolith_binlog::dump as binlog;
use redolith_disk::Disk;
use redolith_engine::dump::{self, Kind, Request};
use std::io::{BufWriter, ErrorKind, Write};

pub const USAGE: &str = "\
Usage: redolith dump KIND FILE [--from=N] [--limit=N] [--hex]

  control      redo/control: checkpoint states, and the witness of how far the log was durable
  log          redo/log_<n>: the frames of a segment, with the pages that they change
  page         a table space (system.rdl, tables/*): its pages
  undo         undo.rdl, undo2.rdl: the undo logs in them
  doublewrite  doublewrite.rdl: which pages have a copy there
  binlog       a file of the binary log: its events, with rows

  --from=N     begin at this LSN (of a log), page, batch or position (of a binary log)
  --limit=N    print at most so many frames, pages, batches or events
  --hex        print contents, too (of a log, of pages and of a binary log)

Lines that begin with ! tell of damage. A file of a running server may change while it is read.
";

/// Runs the command with the arguments after `dump`.
pub fn run(args: &[String], disk: &dyn Disk) -> Result<(), String> {
    if args.is_empty() || args.iter().any(|a| matches!(a.as_str(), "--help" | "-?" | "-h")) {
        print!("{USAGE}");
        return Ok(());
    }
    let what = parse(args)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (path, dumped) = match &what {
        What::Engine(request) => (&request.path, dump::dump(disk, request, &mut out)),
        What::Binlog(request) => (&request.path, binlog::dump(disk, request, &mut out)),
    };
    match dumped.and_then(|()| out.flush()) {
        // The reader of the output has closed the pipe. That is not an error.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(format!("{}: {e}", path.display())),
        Ok(()) => Ok(()),
    }
}

/// The file, by who knows its format.
enum What {
    Engine(Request),
    Binlog(binlog::Request),
}

fn parse(args: &[String]) -> Result<What, String> {
    let (options, names): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|a| a.starts_with("--"));
    let [kind, path] = names[..] else {
        return Err(format!("dump needs a kind and a file\n{USAGE}"));
    };
    let (mut from, mut limit, mut hex) = (0, u64::MAX, false);
    for option in options {
        let number = |text: &str| text.parse().map_err(|_| format!("{option}: not a number"));
        match option.split_once('=') {
            Some(("--from", n)) => from = number(n)?,
            Some(("--limit", n)) => limit = number(n)?,
            None if option == "--hex" => hex = true,
            _ => return Err(format!("unknown option {option}\n{USAGE}")),
        }
    }
    let path = path.into();
    if kind == "binlog" {
        return Ok(What::Binlog(binlog::Request { path, from, limit, hex }));
    }
    match Kind::ALL.into_iter().find(|(name, _)| name == kind) {
        Some((_, kind)) => Ok(What::Engine(Request { kind, path, from, limit, hex })),
        None => Err(format!("'{kind}' is not a kind of file\n{USAGE}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        let parse =
            |line: &str| super::parse(&line.split(' ').map(String::from).collect::<Vec<_>>());
        let Ok(What::Engine(r)) = parse("log redo/log_3 --from=123 --hex --limit=7") else {
            panic!("a segment of the redo log is the engine's");
        };
        assert_eq!(
            (r.kind, r.path.to_str(), r.from, r.limit, r.hex),
            (Kind::Log, Some("redo/log_3"), 123, 7, true)
        );
        let Ok(What::Binlog(r)) = parse("binlog binlog.000001 --from=126 --limit=2") else {
            panic!("a file of the binary log is not the engine's");
        };
        assert_eq!(
            (r.path.to_str(), r.from, r.limit, r.hex),
            (Some("binlog.000001"), 126, 2, false)
        );
        for wrong in [
            "log",
            "binlog",
            "tree file",
            "page a b",
            "page a --from=x",
            "page a --limit=-1",
            "page a --from",
            "undo f --deep",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
