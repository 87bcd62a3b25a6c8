//! The output to the terminal: a line per point, and on a terminal a last line with the present
//! activity and the remaining time.
use crate::engines::Shape;
use crate::point::Point;
use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

pub struct Screen {
    terminal: bool,
    left: String,
}

impl Screen {
    pub fn new() -> Screen {
        Screen { terminal: stdout().is_terminal(), left: String::new() }
    }
    pub fn line(&self, text: &str) {
        println!("{}{text}", if self.terminal { "\r\x1b[K" } else { "" });
    }
    pub fn head(&self) {
        self.line(&format!(
            "{:>7} {:>6} {:>7}  {:15} {:>9} {:>10} {:>10} {:>9} {:>9} {:>8} {:>9}  redolith is",
            "left",
            "value",
            "writers",
            "engine",
            "commits/s",
            "p50 us",
            "p99 us",
            "flush/com",
            "KiB/com",
            "CPU us",
            "switches"
        ));
    }
    pub fn begin(&mut self, left: Duration, shape: Shape, engine: &str) {
        let s = left.as_secs();
        self.left = if s < 60 { format!("{s} s") } else { format!("{} min", s.div_ceil(60)) };
        if self.terminal {
            print!(
                "\r\x1b[K{:>7} {:6} {:7}  {engine} ...",
                self.left, shape.value_bytes, shape.writers
            );
            let _ = stdout().flush();
        }
    }
    /// `base`: Redolith at the same point in the same turn.
    pub fn end(&self, p: &Point, base: Option<&Point>) {
        let against = base
            .filter(|_| p.commits_per_s > 0.0)
            .map_or(String::new(), |b| format!("{:.2}x", b.commits_per_s / p.commits_per_s));
        self.line(&format!(
            "{:>7} {:6} {:7}  {:15} {:9.0} {:10.1} {:10.1} {:9.3} {:9.2} {:8.1} {:9.2}  \
                {against:>6} {}",
            self.left,
            p.shape.value_bytes,
            p.shape.writers,
            p.engine,
            p.commits_per_s,
            p.p50_us,
            p.p99_us,
            p.flushes_per_commit,
            p.written_kib_per_commit,
            p.cpu_us_per_commit,
            p.switches_per_commit,
            p.fault.as_deref().unwrap_or("")
        ));
        for (name, n) in &p.counters {
            self.line(&format!("{:>32} {name:44} {n}", ""));
        }
    }
}
