//! The order of the points, and the time that is left.
//!
//! - **ORDER-1** Everything that is compared is taken in turn: for one column, row A, row B, ..., and again for the next turn. Machines drift; rows beside each
//!   other in time do not drift apart.
use std::time::Duration;

/// One point that is to be taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Numbers in the results' lists.
    pub section: usize,
    pub row: usize,
    pub column: usize,
    pub turn: u32,
    pub server: usize,
    pub connections: u32,
    /// Statements that make the server what the row and column say.
    pub setup: Vec<String>,
    /// How long it takes, as a guess.
    pub expected: Duration,
}

/// What of a section's columns is compared with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// The rows of one column: all turns of a column before the next.
    Rows,
    /// Columns too: a turn takes them all.
    RowsAndColumns,
}

/// The cells of a table, as (row, column, turn), in the order in which they are taken.
pub fn order(rows: usize, columns: usize, turns: u32, compare: Compare) -> Vec<(usize, usize, u32)> {
    let of_column = |column: usize, turn: u32| (0..rows).map(move |row| (row, column, turn));
    match compare {
        Compare::Rows => (0..columns).flat_map(|c| (0..turns).flat_map(move |t| of_column(c, t))).collect(),
        Compare::RowsAndColumns => (0..turns).flat_map(|t| (0..columns).flat_map(move |c| of_column(c, t))).collect(),
    }
}

/// The jobs that one run of the load serves: neighbours that are one server's rows of one column and turn.
pub fn shared(jobs: &[Job]) -> Vec<&[Job]> {
    let of = |j: &Job| (j.section, j.column, j.turn, j.server, j.connections);
    jobs.chunk_by(|a, b| of(a) == of(b)).collect()
}

/// How many windows each of so many rows has in `time_s` seconds, and how long one is.
pub fn windows(rows: usize, time_s: u32) -> (u32, u32) {
    let rounds = if rows == 1 { 1 } else { (time_s / WINDOW_S).min(WINDOWS_MAX / rows as u32).max(1) };
    (rounds, (time_s / rounds).max(1))
}
const WINDOW_S: u32 = 2;
/// sysbench reports at no more than 256 checkpoints.
const WINDOWS_MAX: u32 = 240;

/// Guesses that learn: expected times are scaled by what earlier ones took.
#[derive(Default)]
pub struct Estimate {
    expected: Duration,
    took: Duration,
}

impl Estimate {
    pub fn learn(&mut self, expected: Duration, took: Duration) {
        self.expected += expected;
        self.took += took;
    }

    pub fn of(&self, expected: Duration) -> Duration {
        let scale = if self.expected.is_zero() { 1.0 } else { self.took.as_secs_f64() / self.expected.as_secs_f64() };
        expected.mul_f64(scale)
    }
}

/// "12 min", "45 s".
pub fn short(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..100 => format!("{s} s"),
        s => format!("{} min", (s + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_in_turn() {
        // ORDER-1
        assert_eq!(order(2, 2, 2, Compare::Rows), [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1), (0, 1, 0), (1, 1, 0), (0, 1, 1), (1, 1, 1)]);
        assert_eq!(
            order(2, 2, 2, Compare::RowsAndColumns),
            [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 1, 1)]
        );
        assert_eq!(order(3, 0, 2, Compare::Rows), []);
    }

    #[test]
    fn rows_of_one_server_share_a_load() {
        // ORDER-2
        let job =
            |row, turn, server| Job { section: 0, row, column: 0, turn, server, connections: 8, setup: vec![], expected: Duration::ZERO };
        let jobs = [job(0, 0, 0), job(1, 0, 0), job(2, 0, 1), job(0, 1, 0), job(1, 1, 0)];
        assert_eq!(shared(&jobs).iter().map(|g| g.len()).collect::<Vec<_>>(), [2, 1, 2]);
        assert_eq!((windows(1, 10), windows(4, 10), windows(4, 3), windows(2, 1)), ((1, 10), (5, 2), (1, 3), (1, 1)));
        assert_eq!(windows(8, 600), (30, 20));
    }

    #[test]
    fn the_time_left_learns() {
        let mut e = Estimate::default();
        let s = Duration::from_secs;
        assert_eq!(e.of(s(100)), s(100));
        e.learn(s(10), s(20));
        e.learn(s(30), s(40));
        assert_eq!(e.of(s(100)), s(150));
        assert_eq!((short(s(45)), short(s(150)), short(s(2700))), ("45 s".into(), "3 min".into(), "45 min".into()));
    }
}
