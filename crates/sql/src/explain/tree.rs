//! FORMAT=TREE: a line for each operator, further to the right than the operator that calls it.
use super::Meter;
use super::operators::Operator;
use super::profile::Measured;
use crate::error::Result;
use std::fmt::Write;
use std::time::Duration;

const INDENT: usize = 4;

pub(super) fn text(operators: &[Operator], meter: &mut dyn Meter) -> Result<String> {
    let mut times = Vec::new();
    operators.iter().for_each(|operator| _ = add_times(operator, &mut times));
    let mut tree = Tree { out: String::new(), times: times.into_iter(), meter };
    for operator in operators {
        tree.operator(operator, 0)?;
    }
    Ok(tree.out)
}

/// Adds the time of an operator with those below it, and theirs, in the order of their lines.
fn add_times(operator: &Operator, times: &mut Vec<Duration>) -> Duration {
    let own = operator.measured.map_or(Duration::ZERO, |measured| measured.own);
    let place = times.len();
    times.push(own);
    let below: Duration = operator.children.iter().map(|child| add_times(child, times)).sum();
    times[place] = own + below;
    times[place]
}

struct Tree<'m, 'd> {
    out: String,
    /// The times of the operators whose lines are not there yet.
    times: std::vec::IntoIter<Duration>,
    meter: &'m mut (dyn Meter + 'd),
}
impl Tree<'_, '_> {
    /// Writes an operator and those below it.
    fn operator(&mut self, operator: &Operator, depth: usize) -> Result<()> {
        let start = self.out.len();
        self.out.extend(std::iter::repeat_n(' ', depth * INDENT));
        self.out.push_str("-> ");
        self.out.push_str(&operator.text);
        let mut space = "  ";
        if let Some(estimate) = &operator.estimate {
            let (cost, rows) = (estimate.cost, estimate.rows);
            let digits = if rows < 10.0 && rows.fract() != 0.0 { 2 } else { 0 };
            let _ = write!(self.out, "  (cost={cost:.2} rows={rows:.digits$})");
            space = " ";
        }
        let time = self.times.next().unwrap_or_default();
        if let Some(measured) = &operator.measured {
            self.out.push_str(&actual(measured, time, space));
        }
        self.out.push('\n');
        self.meter.pay(self.out.len() - start)?;
        operator.children.iter().try_for_each(|child| self.operator(child, depth + 1))
    }
}

/// ` (actual time=0.01..0.02 rows=5 loops=1)`: milliseconds and rows of a loop.
fn actual(measured: &Measured, time: Duration, space: &str) -> String {
    if measured.loops == 0 {
        return format!("{space}(never executed)");
    }
    let ms = |time: Duration, loops: u64| time.as_secs_f64() * 1e3 / loops.max(1) as f64;
    let last = ms(time, measured.loops);
    let first = match measured.loops_with_rows {
        0 => last,
        loops => ms(measured.first, loops).min(last),
    };
    let rows = measured.rows as f64 / measured.loops as f64;
    let digits = if measured.rows.is_multiple_of(measured.loops) { 0 } else { 2 };
    let loops = measured.loops;
    format!("{space}(actual time={first:.3}..{last:.3} rows={rows:.digits$} loops={loops})")
}
