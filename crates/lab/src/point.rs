//! One point: a load against one server for a while, and what it cost server, client and device.
use crate::child::{Child, describe, tail};
use crate::counters;
use crate::failure::{Failure, Result};
use crate::machine::{self, Device, DeviceCounts};
use crate::results::Figures;
use crate::servers::Server;
use crate::slap;
use crate::stop::Stop;
use crate::sysbench::{self, Shape};
use std::time::{Duration, Instant};

/// What is known at one moment.
struct Mark {
    at: Instant,
    server: Duration,
    client: Duration,
    device: DeviceCounts,
    counters: counters::Reading,
}

impl Mark {
    /// The counters come last: they are a query, and take time under load.
    fn take(server: &Server, client: Duration, device: &Device, connection: &mut Option<redolith_client::Client>) -> Result<Mark> {
        let (at, cpu, device) = (Instant::now(), server.cpu_time(), device.counts());
        let counters = match connection {
            Some(c) => counters::read(c, server.spec.kind.counters())?,
            None => counters::Reading::new(),
        };
        Ok(Mark { at, server: cpu, client, device, counters })
    }
}

fn figures(first: &Mark, last: &Mark, done: f64) -> Figures {
    let each = 1.0 / done.max(1.0);
    let us = |a: Duration, b: Duration| b.saturating_sub(a).as_secs_f64() * 1e6 * each;
    Figures {
        done,
        server_us: us(first.server, last.server),
        client_us: us(first.client, last.client),
        flushes: last.device.flushes.saturating_sub(first.device.flushes) as f64 * each,
        written_kib: last.device.written_kib.saturating_sub(first.device.written_kib) as f64 * each,
        counters: counters::differences(&first.counters, &last.counters),
        ..Figures::default()
    }
}

fn counting(server: &Server) -> Result<Option<redolith_client::Client>> {
    if server.spec.kind.counters() == counters::Source::Nowhere { Ok(None) } else { server.connect().map(Some) }
}

pub struct SysbenchLoad<'a> {
    pub program: &'a str,
    pub script: &'a str,
    pub shape: Shape,
    pub warmup_s: u32,
    pub time_s: u32,
}

impl SysbenchLoad<'_> {
    /// Many connections take longer to come to rest.
    pub fn warmup_s(&self, threads: u32) -> u32 {
        self.warmup_s + threads / 256
    }

    /// Measures between two of sysbench's checkpoints.
    pub fn measure(&self, server: &Server, threads: u32, device: &Device, stop: &Stop) -> Result<Figures> {
        let warm = self.warmup_s(threads);
        let end = warm + self.time_s;
        let more = [format!("--time={}", end + 1), "--percentile=95".into(), format!("--report-checkpoints={warm},{end}")];
        let mut connection = counting(server)?;
        let mut client =
            Child::with_lines(&sysbench::command(self.program, self.script, &server.socket, self.shape, threads, &more, "run"))?;
        let until = Instant::now() + Duration::from_secs(u64::from(end) + 60);
        let (mut lines, mut marks) = (Vec::new(), Vec::new());
        while let Some(line) = client.line(stop, until)? {
            if sysbench::is_checkpoint(&line) && marks.len() < 2 {
                marks.push(Mark::take(server, machine::cpu_time(client.pid()), device, &mut connection)?);
            }
            lines.push(line);
        }
        let status = client.wait(stop, Duration::from_secs(10))?;
        let said = || tail(&lines.join(" "), 300).to_string();
        let (Some(part), [first, last]) = (sysbench::measured(&lines), marks.as_slice()) else {
            return Err(Failure::Failed(format!("sysbench ended with {}: {}", status.map_or("a kill".into(), describe), said())));
        };
        let done = part.transactions_per_s * last.at.duration_since(first.at).as_secs_f64();
        let f = figures(first, last, done);
        Ok(Figures {
            per_s: part.transactions_per_s,
            queries_per_s: part.queries_per_s,
            p95_ms: Some(part.p95_ms),
            ignored_errors: part.ignored_errors,
            ..f
        })
    }
}

/// How long one run of mysqlslap may take.
const SLAP_LIMIT: Duration = Duration::from_secs(3600);

/// Runs mysqlslap to its end. CPU, flushes and counters are of the whole run, which also writes as many rows beforehand as one client executes statements.
pub fn slap(program: &str, server: &Server, connections: u32, writes: u32, device: &Device, stop: &Stop) -> Result<Figures> {
    let allow = format!("SET GLOBAL max_connections = {}", connections + 1);
    // Closed before the load begins: those connections are all for mysqlslap.
    server.connect()?.query(&allow).map_err(crate::failure::failed(&allow))?;
    let first = Mark::take(server, Duration::ZERO, device, &mut counting(server)?)?;
    let mut client = Child::with_lines(&slap::command(program, &server.socket, connections, writes))?;
    let until = Instant::now() + SLAP_LIMIT;
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
    let f = figures(&first, &last, timed + f64::from(writes));
    Ok(Figures { per_s, queries_per_s: per_s, seconds: Some(seconds), ..f })
}

/// The clients have left, but the server may not have noticed yet that it has room again.
fn connect_patiently(server: &Server, stop: &Stop) -> Result<Option<redolith_client::Client>> {
    for _ in 0..100 {
        if let Ok(client) = counting(server) {
            return Ok(client);
        }
        stop.pause(crate::stop::LOOK)?;
    }
    counting(server)
}
