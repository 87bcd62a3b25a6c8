//! Copies a table by INSERT .. SELECT in several sessions of the lab, and checks the copy.
//!
//! - **COPY-1** A point counts only if the target has the rows of the source: their number and a
//!   checksum of all columns but the key, which the target may have generated, and with it the sums
//!   of the key where it was taken along.
use crate::failure::{Failure, Result, failed};
use crate::insert::{self, Cut, KEY_COLUMN, Shape};
use crate::machine::Device;
use crate::options::Options;
use crate::point::{Mark, counting, figures};
use crate::results::{Figures, Section};
use crate::schedule::Job;
use crate::servers::Server;
use crate::stop::{LOOK, Stop};
use redolith_client::Client;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

const SCHEMA: &str = "insert_lab";
const TARGET: &str = "insert_lab.t2";
/// The most narrow rows that a statement adds to a source.
const PIECE: u32 = 50_000;
/// The longest that a statement before or after a point may take.
const PATIENCE: Duration = Duration::from_secs(600);

fn source(shape: &Shape) -> String {
    format!("{SCHEMA}.{}", shape.name)
}
/// The names of the columns behind the key.
fn names(shape: &Shape) -> String {
    let name = |column: &&'static str| column.split_once(' ').map_or(*column, |(name, _)| name);
    shape.columns.iter().map(name).collect::<Vec<_>>().join(", ")
}
fn run(client: &mut Client, statement: &str) -> Result<Vec<Vec<Option<String>>>> {
    client.query(statement).map_err(failed(statement))
}

/// Makes and fills the sources of the run's shapes. The source of rows without a key has a key, so
/// that sessions can share it without reading all of it.
pub fn fill(server: &Server, o: &Options, stop: &Stop) -> Result<()> {
    let c = &mut server.connect_for(PATIENCE)?;
    run(c, &format!("CREATE DATABASE {SCHEMA}"))?;
    for shape in insert::shapes(o) {
        let (table, rows) = (source(shape), shape.rows(o));
        let columns = shape.columns.join(", ");
        run(c, &format!("CREATE TABLE {table} ({KEY_COLUMN}, {columns}) ENGINE=InnoDB"))?;
        let mut done = rows.min(1000);
        let first: Vec<String> = (1..=done).map(|n| format!("({n}, {n})")).collect();
        run(c, &format!("INSERT INTO {table} (c1, c2) VALUES {}", first.join(", ")))?;
        while done < rows {
            stop.check()?;
            let more = done.min(rows - done).min((PIECE / (o.rows / rows).max(1)).max(1));
            run(
                c,
                &format!(
                    "INSERT INTO {table} (c1, c2) SELECT c1 + {done}, c2 + {done} FROM {table} \
                        WHERE c1 <= {more}"
                ),
            )?;
            done += more;
        }
    }
    Ok(())
}

/// One point: a shape, the sessions, and how they share the source.
pub struct CopyLoad {
    shape: &'static Shape,
    cut: Cut,
    sessions: u32,
    rows: u32,
}

impl CopyLoad {
    pub fn of(section: &Section, job: &Job, o: &Options) -> CopyLoad {
        let (shape, cut) = insert::of_row(section, job.row);
        CopyLoad { shape, cut, sessions: job.connections, rows: shape.rows(o) }
    }
    /// Makes an empty target in the place of the last one.
    pub fn make_target(&self, server: &Server) -> Result<()> {
        let c = &mut server.connect_for(PATIENCE)?;
        run(c, &format!("DROP TABLE IF EXISTS {TARGET}"))?;
        let make = if self.shape.has_key {
            format!("CREATE TABLE {TARGET} LIKE {}", source(self.shape))
        } else {
            format!("CREATE TABLE {TARGET} ({}) ENGINE=InnoDB", self.shape.columns.join(", "))
        };
        run(c, &make).map(|_| ())
    }
    /// The statement of session `i`.
    fn statement(&self, i: u32) -> String {
        let (from, names) = (source(self.shape), names(self.shape));
        let bound = |i: u32| u64::from(self.rows) * u64::from(i) / u64::from(self.sessions);
        let range = format!("c1 BETWEEN {} AND {}", bound(i) + 1, bound(i + 1));
        match self.cut {
            Cut::Generated => format!("INSERT INTO {TARGET} SELECT * FROM {from} WHERE {range}"),
            Cut::Apart => format!(
                "INSERT INTO {TARGET} (c1, {names}) SELECT c1, {names} FROM {from} WHERE {range}"
            ),
            Cut::Between => format!(
                "INSERT INTO {TARGET} (c1, {names}) SELECT c1, {names} FROM {from} \
                    WHERE c1 % {} = {i}",
                self.sessions
            ),
        }
    }
    /// What both tables must have alike (COPY-1).
    fn sum(&self, table: &str) -> String {
        let key = if self.cut == Cut::Generated { "0" } else { "SUM(c1)" };
        let names = names(self.shape);
        format!("SELECT COUNT(*), SUM(CRC32(CONCAT_WS('/', {names}))), {key} FROM {table}")
    }

    /// Copies the table, and checks the copy.
    pub fn measure(
        &self,
        server: &Server,
        device: &Device,
        stop: &Stop,
        limit: Duration,
    ) -> Result<Figures> {
        let mut connection = counting(server)?;
        let start = Arc::new(Barrier::new(self.sessions as usize + 1));
        let (tell, told) = channel();
        for i in 0..self.sessions {
            let (mut client, statement) = (server.connect_for(PATIENCE)?, self.statement(i));
            let (start, tell) = (start.clone(), tell.clone());
            // A thread whose server is killed gets an error and ends. So no thread outlives the
            // servers, although nobody joins it.
            std::thread::spawn(move || {
                start.wait();
                let done = client.query(&statement).map(|_| Instant::now());
                let _ = tell.send(done.map_err(|e| format!("{statement}: {e}")));
            });
        }
        let first = Mark::take(server, Duration::ZERO, device, &mut connection)?;
        let began = Instant::now();
        start.wait();
        let mut last = began;
        for _ in 0..self.sessions {
            let done = loop {
                stop.check()?;
                match told.recv_timeout(LOOK) {
                    Ok(done) => break done,
                    Err(RecvTimeoutError::Timeout) if began.elapsed() < limit => {}
                    Err(_) => return Err(Failure::Failed(format!("no end after {limit:?}"))),
                }
            };
            last = last.max(done.map_err(Failure::Failed)?);
        }
        let end = Mark::take(server, Duration::ZERO, device, &mut connection)?;
        let seconds = last.duration_since(began).as_secs_f64();
        self.check(server)?;
        let f = figures(&[(&first, &end)], f64::from(self.rows));
        let per_s = f64::from(self.rows) / seconds.max(1e-6);
        Ok(Figures { per_s, queries_per_s: per_s, seconds: Some(seconds), ..f })
    }
    fn check(&self, server: &Server) -> Result<()> {
        let c = &mut server.connect_for(PATIENCE)?;
        let (is, must) = (run(c, &self.sum(TARGET))?, run(c, &self.sum(&source(self.shape)))?);
        let rows = must.first().and_then(|row| row.first()).cloned().flatten();
        if is == must && rows == Some(self.rows.to_string()) {
            return Ok(());
        }
        Err(Failure::Failed(format!("COPY-1: the copy has {is:?}, the source {must:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum has the key only where the key is taken along (COPY-1).
    #[test]
    fn the_statements_share_the_source() {
        let of = |cut, sessions| CopyLoad { shape: &insert::SHAPES[1], cut, sessions, rows: 100 };
        assert_eq!(
            of(Cut::Generated, 1).statement(0),
            "INSERT INTO insert_lab.t2 SELECT * FROM insert_lab.medium WHERE c1 BETWEEN 1 AND 100"
        );
        assert_eq!(
            of(Cut::Apart, 3).statement(2),
            "INSERT INTO insert_lab.t2 (c1, c2, str1) SELECT c1, c2, str1 FROM insert_lab.medium \
                WHERE c1 BETWEEN 67 AND 100"
        );
        assert!(of(Cut::Between, 8).statement(7).ends_with("WHERE c1 % 8 = 7"));
        assert!(of(Cut::Apart, 1).sum("t").contains("SUM(c1) FROM t"));
        assert!(!of(Cut::Generated, 1).sum("t").contains("c1"));
    }
}
