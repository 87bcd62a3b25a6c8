//! Measures one point, or several points that share a load: runs a load against one server for a
//! while, and measures what it costs server, client and device.
use crate::child::{Child, describe, tail};
use crate::counters;
use crate::failure::{Failure, Result};
use crate::machine::{self, Device, DeviceCounts};
use crate::results::Figures;
use crate::schedule::{Windows, warm_up_s};
use crate::servers::Server;
use crate::slap;
use crate::stats::median;
use crate::stop::Stop;
use crate::sysbench::{self, Shape};
use std::time::{Duration, Instant};

/// The readings at one moment.
pub(crate) struct Mark {
    at: Instant,
    server: Duration,
    client: Duration,
    device: Option<DeviceCounts>,
    counters: counters::Reading,
}

impl Mark {
    /// The counters are read last, because they need a query, which takes time under load.
    pub(crate) fn take(
        server: &Server,
        client: Duration,
        device: &Device,
        connection: &mut Option<redolith_client::Client>,
    ) -> Result<Mark> {
        let (at, cpu, device) = (Instant::now(), server.cpu_time(), device.counts());
        let counters = match connection {
            Some(c) => counters::read(c, server.spec.kind.counters())?,
            None => counters::Reading::new(),
        };
        Ok(Mark { at, server: cpu, client, device, counters })
    }
}

/// Computes the figures of one or more stretches of time, in which `done` transactions ended.
pub(crate) fn figures(stretches: &[(&Mark, &Mark)], done: f64) -> Figures {
    let sum = |of: &dyn Fn(&Mark, &Mark) -> f64| {
        stretches.iter().map(|(a, b)| of(a, b)).sum::<f64>() / done.max(1.0)
    };
    let us = |a: Duration, b: Duration| b.saturating_sub(a).as_secs_f64() * 1e6;
    // A device without counts gives no figures.
    let counts = |of: fn(&DeviceCounts) -> u64| {
        let known = stretches.iter().all(|(a, b)| a.device.is_some() && b.device.is_some());
        let each = |a: &Mark, b: &Mark| {
            a.device.zip(b.device).map_or(0, |(a, b)| of(&b).saturating_sub(of(&a))) as f64
        };
        known.then(|| sum(&each))
    };
    let mut counted = Vec::new();
    stretches.iter().for_each(|(a, b)| {
        counters::add(&mut counted, counters::differences(&a.counters, &b.counters))
    });
    Figures {
        done,
        server_us: sum(&|a, b| us(a.server, b.server)),
        client_us: sum(&|a, b| us(a.client, b.client)),
        flushes: counts(|d| d.flushes),
        written_kib: counts(|d| d.written_kib),
        counters: counted,
        ..Figures::default()
    }
}

pub(crate) fn counting(server: &Server) -> Result<Option<redolith_client::Client>> {
    if server.spec.kind.counters() == counters::Source::Nowhere {
        Ok(None)
    } else {
        server.connect().map(Some)
    }
}

pub struct SysbenchLoad<'a> {
    pub program: &'a str,
    pub script: &'a str,
    pub shape: Shape,
    pub warmup_s: u32,
    pub time_s: u32,
    /// The load is ended after this time.
    pub limit: Duration,
}

/// One run of the load, for rows with these settings.
pub struct Run<'a> {
    pub connections: u32,
    pub turn: u32,
    pub settings: Vec<&'a [String]>,
}

impl SysbenchLoad<'_> {
    /// Measures each of these settings, in turn, in windows between sysbench's checkpoints
    /// (ORDER-2).
    pub fn measure(
        &self,
        server: &mut Server,
        run: &Run,
        device: &Device,
        stop: &Stop,
    ) -> Result<Vec<Figures>> {
        let (threads, windows) =
            (run.connections, Windows::new(run.settings.len(), self.time_s, run.connections));
        let warm = warm_up_s(self.warmup_s, threads);
        let checkpoints: Vec<u32> = windows.bounds().iter().map(|at| warm + at).collect();
        let order = windows.order(run.turn);
        let end = checkpoints[checkpoints.len() - 1];
        let list = checkpoints.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let more = [
            format!("--time={}", end + 1),
            "--percentile=95".into(),
            format!("--report-checkpoints={list}"),
        ];
        server.apply(run.settings[order[0]])?;
        let mut connection = counting(server)?;
        let mut client = Child::with_lines(&sysbench::command(
            self.program,
            self.script,
            &server.socket,
            self.shape,
            threads,
            &more,
            "run",
        ))?;
        let until = Instant::now() + self.limit.min(Duration::from_secs(u64::from(end) + 60));
        let (mut lines, mut marks) = (Vec::new(), Vec::new());
        while let Some(line) = client.line(stop, until)? {
            if sysbench::is_checkpoint(&line) && marks.len() < checkpoints.len() {
                let mark =
                    Mark::take(server, machine::cpu_time(client.pid()), device, &mut connection)?;
                marks.push(mark);
                // Marks come in pairs, a window's begin and end. After its end, the settings of the
                // next row are applied.
                let next =
                    marks.len().is_multiple_of(2).then(|| order.get(marks.len() / 2)).flatten();
                if let (Some(connection), Some(row)) = (&mut connection, next) {
                    let began = Instant::now();
                    server.apply_by(connection, run.settings[*row])?;
                    if began.elapsed() > Duration::from_secs(u64::from(windows.gap_s)) {
                        return Err(Failure::Failed(format!(
                            "{}: changing its settings took {:?}",
                            server.spec.name,
                            began.elapsed()
                        )));
                    }
                }
            }
            lines.push(line);
        }
        let status = client.wait(stop, Duration::from_secs(10))?;
        let parts = sysbench::measured(&lines);
        if marks.len() < checkpoints.len() || parts.len() + 1 < checkpoints.len() {
            let said = tail(&lines.join(" "), 300).to_string();
            return Err(Failure::Failed(format!(
                "sysbench ended with {}: {said}",
                status.map_or("a kill".into(), describe)
            )));
        }
        let of_row = |row: usize| {
            let own = || (0..order.len()).filter(|i| order[*i] == row);
            let stretches: Vec<(&Mark, &Mark)> =
                own().map(|i| (&marks[2 * i], &marks[2 * i + 1])).collect();
            let parts: Vec<&sysbench::Part> = own().map(|i| &parts[2 * i]).collect();
            of_windows(&stretches, &parts)
        };
        Ok((0..windows.rows).map(of_row).collect())
    }
}

/// The figures of one row's windows, which all have the same length.
fn of_windows(stretches: &[(&Mark, &Mark)], parts: &[&sysbench::Part]) -> Figures {
    let mean = |of: fn(&sysbench::Part) -> f64| {
        parts.iter().map(|p| of(p)).sum::<f64>() / parts.len() as f64
    };
    let done = stretches
        .iter()
        .zip(parts)
        .map(|((a, b), p)| p.transactions_per_s * b.at.duration_since(a.at).as_secs_f64())
        .sum();
    Figures {
        per_s: mean(|p| p.transactions_per_s),
        windows: parts.iter().map(|p| p.transactions_per_s).collect(),
        queries_per_s: mean(|p| p.queries_per_s),
        p95_ms: median(&parts.iter().map(|p| p.p95_ms).collect::<Vec<_>>()),
        ignored_errors: parts.iter().map(|p| p.ignored_errors).sum(),
        ..figures(stretches, done)
    }
}

pub struct SlapLoad<'a> {
    pub program: &'a str,
    pub connections: u32,
    pub writes: u32,
    /// The load is ended after this time.
    pub limit: Duration,
}

impl SlapLoad<'_> {
    /// Runs mysqlslap to its end. CPU, flushes and counters are those of the whole run, in which
    /// mysqlslap also writes as many rows beforehand as one client executes statements.
    pub fn measure(&self, server: &Server, device: &Device, stop: &Stop) -> Result<Figures> {
        let (connections, writes) = (self.connections, self.writes);
        let allow = format!("SET GLOBAL max_connections = {}", connections + 1);
        // This connection is closed before the load begins, because the permitted connections are
        // all for mysqlslap.
        server.connect()?.query(&allow).map_err(crate::failure::failed(&allow))?;
        let first = Mark::take(server, Duration::ZERO, device, &mut counting(server)?)?;
        let mut client =
            Child::with_lines(&slap::command(self.program, &server.socket, connections, writes))?;
        let until = Instant::now() + self.limit;
        let (mut cpu, mut out) = (Duration::ZERO, String::new());
        while client.alive() && Instant::now() < until {
            cpu = machine::cpu_time(client.pid()).max(cpu);
            stop.pause(crate::stop::LOOK)?;
        }
        let status = client.wait(stop, Duration::ZERO)?;
        while let Some(line) = client.line(stop, until)? {
            out.push_str(&line);
            out.push('\n');
        }
        let mut connection = connect_patiently(server, stop)?;
        let last = Mark::take(server, cpu, device, &mut connection)?;
        let Some(seconds) = slap::seconds(&out).filter(|_| !out.contains("ERROR")) else {
            return Err(Failure::Failed(format!(
                "mysqlslap ended with {}: {}",
                status.map_or("a kill".into(), describe),
                slap::complaint(&out)
            )));
        };
        let timed = f64::from(connections) * f64::from(writes);
        let per_s = timed / seconds.max(1e-3);
        let f = figures(&[(&first, &last)], timed + f64::from(writes));
        Ok(Figures { per_s, queries_per_s: per_s, seconds: Some(seconds), ..f })
    }
}

/// Connects with retries: the clients have left, but the server may not have noticed yet that it
/// has room again.
fn connect_patiently(server: &Server, stop: &Stop) -> Result<Option<redolith_client::Client>> {
    for _ in 0..100 {
        if let Ok(client) = counting(server) {
            return Ok(client);
        }
        stop.pause(crate::stop::LOOK)?;
    }
    counting(server)
}
