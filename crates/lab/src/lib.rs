//! The field studies as commands: `redolith lab redo`, `redolith lab writers`,
//! `redolith lab binlog`, `redolith lab doublewrite` and `redolith lab insert` (docs/studies).
//!
//! A run starts servers on scratch directories, drives sysbench, mysqlslap or sessions of its own
//! against each in turn, and writes a report. The modules in the order of a run: `options`; `bench`
//! (the run), which asks the study's module what to measure (rows, columns, jobs); `servers`, which
//! starts the servers; `point`, which measures one point; `report`, which writes the results.
//!
//! - **LAB-1** No process that the lab starts outlives the lab (`child`).
//! - **LAB-2** The results are written after each point, so a run that is stopped or fails still
//!   has a report.
//! - **LAB-3** Rows that are compared are measured in turn (`schedule`), with equal settings
//!   (`servers`) and the same method (`point`).
#![forbid(unsafe_code)]
// The lab is a tool beside the server: it reads /proc and writes reports, and no part of it is ever
// simulated.
#![allow(clippy::disallowed_methods)]
mod bench;
mod binlog;
mod child;
mod clock;
mod copy;
mod cores;
mod counters;
mod cpu_quota;
mod doublewrite;
mod failure;
mod flushing;
mod insert;
mod machine;
mod options;
mod point;
mod redo;
mod report;
mod results;
mod schedule;
mod screen;
mod servers;
mod slap;
mod stats;
mod stop;
mod sysbench;
mod tools;
mod writers;

/// Runs `redolith lab` with the arguments after `lab`.
pub fn run(args: &[String]) -> Result<(), String> {
    let Some(options) = options::parse(args)? else {
        screen::Screen::default().line(options::USAGE);
        return Ok(());
    };
    let command = std::iter::once("redolith lab")
        .chain(args.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ");
    let run = || bench::Bench::new(options, command, stop::Stop::on_signals()?)?.run();
    run().map_err(|why| why.to_string())
}
