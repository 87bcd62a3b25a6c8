//! The field studies as commands: `redolith lab redo` and `redolith lab writers` (docs/studies).
//!
//! A run starts servers on scratch directories, drives sysbench or mysqlslap against each in turn,
//! and reports. The way through the modules: `options`, then `bench` (the run), which asks `redo`
//! or `writers` for what to measure (rows, columns, jobs), `servers` to start them, `point` to take
//! a point, `report` to tell it.
//!
//! - **LAB-1** Nothing that the lab starts outlives it (`child`).
//! - **LAB-2** What was measured is written after each point; a run that is stopped or fails still
//!   has its report.
//! - **LAB-3** What is compared is taken in turn (`schedule`), with equal settings (`servers`), and
//!   measured alike (`point`).
#![forbid(unsafe_code)]
// A tool beside the server: it reads /proc and writes reports, and nothing of it is ever simulated.
#![allow(clippy::disallowed_methods)]
mod bench;
mod child;
mod clock;
mod cores;
mod counters;
mod cpu_quota;
mod failure;
mod flushing;
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

/// Runs `redolith lab` with the arguments behind `lab`.
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
