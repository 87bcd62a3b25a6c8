//! The `redolith` program: dispatches to its commands.
#![forbid(unsafe_code)]
use redolith_disk::{Disk, RealDisk};
use redolith_server::options::{self, Request};
use redolith_server::start;
use redolith_server::top;
use redolith_server::{check, dump};
use std::process::ExitCode;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
Usage: redolith server [--option=value ...]   runs a database server; --help lists the options
       redolith check DIR                     reads all pages of a stopped server's directory, and
                                              names what is wrong
       redolith dump KIND FILE                prints a file of a data directory; see dump --help
       redolith top [--socket=FILE ...]       what a running server does, refreshed
       redolith lab STUDY ...                 repeats a field study: starts servers, drives sysbench
                                              or mysqlslap, writes a report
       redolith --version
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("server") => server(&args[1..]),
        Some("check") => check::run(&args[1..], Arc::new(RealDisk::new())),
        Some("dump") => dump::run(&args[1..], &RealDisk::new()),
        Some("top") => top::run(&args[1..], &RealDisk::new()),
        Some("lab") => redolith_lab::run(&args[1..]),
        Some("--help" | "-h" | "-?" | "help") => print(USAGE),
        Some("--version" | "-V") => print(&options::version_line()),
        Some(other) => Err(format!("there is no command '{other}'; the commands are:\n{USAGE}")),
        None => Err(format!("a command is needed\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // A server that has opened its error log writes there why it ended.
            if tracing::dispatcher::has_been_set() {
                tracing::error!("{why}");
            } else {
                eprintln!("redolith: {why}");
            }
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> Result<(), String> {
    use std::io::Write;
    // A closed pipe is not an error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn server(args: &[String]) -> Result<(), String> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    match options::read(args, &*disk)? {
        Request::Print(text) => print(&text),
        Request::Run { settings, notes } => start::run(settings, &notes, disk),
    }
}
