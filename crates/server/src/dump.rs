//! `redolith dump`: what a file of a data directory holds, as text. It reads, and changes nothing;
//! a damaged file is printed as far as it goes.
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

  --from=N     begin at this LSN (of a log), page or batch
  --limit=N    print at most so many frames, pages or batches
  --hex        print contents, too (of a log and of pages)

Lines that begin with ! tell of damage. A file of a running server may change while it is read.
";

/// Runs it with the arguments behind `dump`.
pub fn run(args: &[String], disk: &dyn Disk) -> Result<(), String> {
    if args.is_empty() || args.iter().any(|a| matches!(a.as_str(), "--help" | "-?" | "-h")) {
        print!("{USAGE}");
        return Ok(());
    }
    let request = parse(args)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match dump::dump(disk, &request, &mut out).and_then(|()| out.flush()) {
        // Whoever read it has seen enough.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(format!("{}: {e}", request.path.display())),
        Ok(()) => Ok(()),
    }
}

fn parse(args: &[String]) -> Result<Request, String> {
    let (options, names): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|a| a.starts_with("--"));
    let [kind, path] = names[..] else {
        return Err(format!("dump needs a kind and a file\n{USAGE}"));
    };
    let Some((_, kind)) = Kind::ALL.into_iter().find(|(name, _)| name == kind) else {
        return Err(format!("'{kind}' is not a kind of file\n{USAGE}"));
    };
    let mut request = Request { kind, path: path.into(), from: 0, limit: u64::MAX, hex: false };
    for option in options {
        let number = |text: &str| text.parse().map_err(|_| format!("{option}: not a number"));
        match option.split_once('=') {
            Some(("--from", n)) => request.from = number(n)?,
            Some(("--limit", n)) => request.limit = number(n)?,
            None if option == "--hex" => request.hex = true,
            _ => return Err(format!("unknown option {option}\n{USAGE}")),
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        let parse =
            |line: &str| super::parse(&line.split(' ').map(String::from).collect::<Vec<_>>());
        let r = parse("log redo/log_3 --from=123 --hex --limit=7").unwrap();
        assert_eq!(
            (r.kind, r.path.to_str(), r.from, r.limit, r.hex),
            (Kind::Log, Some("redo/log_3"), 123, 7, true)
        );
        for wrong in [
            "log",
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
