//! The order of the points, and the remaining time.
//!
//! - **ORDER-1** Everything that is compared is measured in turn: for one column, row A, row B,
//!   ..., and again for the next turn. The speed of machines drifts, but rows that are measured
//!   beside each other drift together.
//! - **ORDER-2** Rows of one server share one run of the load, in windows in turn: A B C, C B A, B
//!   C A, ... Between two windows the settings change and the load comes to rest; this time is not
//!   counted. A script that wears its tables has a run for each row.
use std::time::Duration;

/// One point to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Indexes in the lists of the results.
    pub section: usize,
    pub row: usize,
    pub column: usize,
    pub turn: u32,
    pub server: usize,
    pub connections: u32,
    /// True if the point shares its load with no other row.
    pub alone: bool,
    /// Statements that set the server to what the row and column require.
    pub setup: Vec<String>,
    /// The expected duration.
    pub expected: Duration,
}

/// Which cells of a section are compared with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// The rows of one column: all turns of a column come before the next column.
    Rows,
    /// Rows and columns: a turn takes all columns.
    RowsAndColumns,
}

/// The cells of a table, as (row, column, turn), in the order in which they are taken.
pub fn order(
    rows: usize,
    columns: usize,
    turns: u32,
    compare: Compare,
) -> Vec<(usize, usize, u32)> {
    let of_column = |column: usize, turn: u32| (0..rows).map(move |row| (row, column, turn));
    match compare {
        Compare::Rows => {
            (0..columns).flat_map(|c| (0..turns).flat_map(move |t| of_column(c, t))).collect()
        }
        Compare::RowsAndColumns => {
            (0..turns).flat_map(|t| (0..columns).flat_map(move |c| of_column(c, t))).collect()
        }
    }
}

/// Groups the jobs that share one run of the load: neighbours that are rows of one server in the
/// same column and turn.
pub fn shared(jobs: &[Job]) -> Vec<&[Job]> {
    let of =
        |j: &Job| (j.section, j.column, j.turn, j.server, j.connections, j.alone.then_some(j.row));
    jobs.chunk_by(|a, b| of(a) == of(b)).collect()
}

/// The windows of a load, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    pub rows: usize,
    /// The number of windows of each row.
    pub rounds: u32,
    pub window_s: u32,
    /// The pause between two windows.
    pub gap_s: u32,
}
/// The shortest window, unless the whole time is shorter.
const WINDOW_MIN_S: u32 = 3;
/// sysbench supports at most 256 checkpoints.
const WINDOWS_MAX: u32 = 120;

impl Windows {
    /// Plans `time_s` seconds for each row, with this many connections.
    pub fn new(rows: usize, time_s: u32, connections: u32) -> Windows {
        let most = (time_s / WINDOW_MIN_S).min(WINDOWS_MAX / rows.max(1) as u32).max(1);
        let rounds = (1..=most).rev().find(|r| time_s.is_multiple_of(*r)).unwrap_or(1);
        Windows { rows, rounds, window_s: (time_s / rounds).max(1), gap_s: rest_s(1, connections) }
    }
    pub fn count(&self) -> u32 {
        self.rows as u32 * self.rounds
    }
    /// The row of each window. Every second round, and turn, has the reverse order, so that no row
    /// always follows the same row. Every second of these begins with another row, so that no row
    /// is always the load's first.
    pub fn order(&self, turn: u32) -> Vec<usize> {
        let rows = self.rows;
        let round = |r: u32| {
            let first = (turn / 2 + r / 2) as usize;
            (0..rows).map(move |i| {
                (first + if (r + turn).is_multiple_of(2) { i } else { rows - 1 - i }) % rows
            })
        };
        (0..self.rounds).flat_map(round).collect()
    }
    /// The begin and end of each window, counted from the begin of the first window.
    pub fn bounds(&self) -> Vec<u32> {
        (0..self.count())
            .map(|i| i * (self.window_s + self.gap_s))
            .flat_map(|begin| [begin, begin + self.window_s])
            .collect()
    }
    pub fn all(&self) -> Duration {
        Duration::from_secs(u64::from(*self.bounds().last().unwrap_or(&0)))
    }
}

/// The seconds that a load needs to come to rest after its begin. With 1,000 connections the rate
/// rises for ten seconds, so that rows that come first would look slower.
pub fn warm_up_s(least: u32, connections: u32) -> u32 {
    least + connections / 100
}
/// The seconds that a load needs to come to rest after a change of settings. Many connections need
/// longer.
pub fn rest_s(least: u32, connections: u32) -> u32 {
    least + connections / 256
}

/// Estimates durations: expected times are scaled by the times that earlier points took.
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
        let scale = if self.expected.is_zero() {
            1.0
        } else {
            self.took.as_secs_f64() / self.expected.as_secs_f64()
        };
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

    /// Tests LAB-3.
    #[test]
    fn rows_are_taken_in_turn() {
        // ORDER-1
        assert_eq!(
            order(2, 2, 2, Compare::Rows),
            [
                (0, 0, 0),
                (1, 0, 0),
                (0, 0, 1),
                (1, 0, 1),
                (0, 1, 0),
                (1, 1, 0),
                (0, 1, 1),
                (1, 1, 1)
            ]
        );
        assert_eq!(
            order(2, 2, 2, Compare::RowsAndColumns),
            [
                (0, 0, 0),
                (1, 0, 0),
                (0, 1, 0),
                (1, 1, 0),
                (0, 0, 1),
                (1, 0, 1),
                (0, 1, 1),
                (1, 1, 1)
            ]
        );
        assert_eq!(order(3, 0, 2, Compare::Rows), []);
    }

    #[test]
    fn rows_of_one_server_share_a_load() {
        // ORDER-2
        let job = |row, turn, server| Job {
            section: 0,
            row,
            column: 0,
            turn,
            server,
            connections: 8,
            alone: false,
            setup: vec![],
            expected: Duration::ZERO,
        };
        let jobs = [job(0, 0, 0), job(1, 0, 0), job(2, 0, 1), job(0, 1, 0), job(1, 1, 0)];
        assert_eq!(shared(&jobs).iter().map(|g| g.len()).collect::<Vec<_>>(), [2, 1, 2]);
        let alone = jobs.map(|j| Job { alone: true, ..j });
        assert_eq!(shared(&alone).len(), 5);
    }

    #[test]
    fn windows_in_turn() {
        // ORDER-2
        let w = Windows::new(2, 6, 300);
        assert_eq!(w, Windows { rows: 2, rounds: 2, window_s: 3, gap_s: 2 });
        assert_eq!((w.order(0), w.order(1)), (vec![0, 1, 1, 0], vec![1, 0, 0, 1]));
        let of_three = Windows { rows: 3, rounds: 4, ..w };
        assert_eq!(of_three.order(0), [0, 1, 2, 2, 1, 0, 1, 2, 0, 0, 2, 1]);
        assert_eq!((0..3).map(|turn| of_three.order(turn)[0]).collect::<Vec<_>>(), [0, 2, 1]);
        assert_eq!(
            (w.bounds(), w.all()),
            (vec![0, 3, 5, 8, 10, 13, 15, 18], Duration::from_secs(18))
        );
        // All of the time is measured, whatever its length.
        for time in 1..200 {
            let w = Windows::new(5, time, 1);
            assert!(w.rounds * w.window_s == time && w.count() <= WINDOWS_MAX, "{w:?}");
        }
        assert_eq!(Windows::new(4, 2, 1).rounds, 1);
    }

    #[test]
    fn the_time_left_learns() {
        let mut e = Estimate::default();
        let s = Duration::from_secs;
        assert_eq!(e.of(s(100)), s(100));
        e.learn(s(10), s(20));
        e.learn(s(30), s(40));
        assert_eq!(e.of(s(100)), s(150));
        assert_eq!(
            (short(s(45)), short(s(150)), short(s(2700))),
            ("45 s".into(), "3 min".into(), "45 min".into())
        );
    }
}
