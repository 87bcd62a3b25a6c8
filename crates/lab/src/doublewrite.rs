//! Study 5: what protection against torn pages costs, where the data do not fit the buffer pool.
//!
//! The mode is chosen when a server starts, and so is the size of the pool. So there is a server
//! for each mode and each size, all with the same tables. The pool is sized by the data (`--data`).
//!
//! The checks are the claims that the study has to show: copies cost at most a tenth of the
//! throughput and protection by the redo log next to nothing, the throughput does not fall when
//! there are many connections, and all this is faster than MariaDB.
use crate::options::{Options, Peer};
use crate::redo::{Facts, by_connections};
use crate::results::{Check, Load, Results, Section};
use crate::schedule::Job;
use crate::servers::{Kind, Spec};
use crate::stats::Ratio;

const OFF: &str = "OFF";
const ON: &str = "ON";
const REDO: &str = "REDO";
const MARIADB_OFF: &str = "MariaDB, OFF";
const MARIADB_ON: &str = "MariaDB, ON";

/// A server: its row, its name, the number of times that the data are larger than the pool, and
/// its options.
struct Variant {
    row: &'static str,
    name: &'static str,
    data: u32,
    kind: Kind,
    more: &'static [&'static str],
}
/// The study's settings of page writing. Both servers get them.
macro_rules! options {
    ($($option:literal),* $(; $neighbours:literal)?) => {
        &[
            $($option,)*
            "--innodb-io-capacity=20000",
            "--innodb-io-capacity-max=40000",
            "--innodb-lru-scan-depth=1000",
            $($neighbours,)?
        ]
    };
}
macro_rules! variants {
    ($($data:literal $times:literal),*) => {
        &[$(
            ours(OFF, concat!("redolith, OFF, data ", $times), $data,
                options!("--innodb-doublewrite=OFF")),
            ours(ON, concat!("redolith, ON, data ", $times), $data,
                options!("--innodb-doublewrite=ON")),
            ours("LEGACY", concat!("redolith, LEGACY, data ", $times), $data,
                options!("--innodb-doublewrite=LEGACY")),
            ours(REDO, concat!("redolith, REDO, data ", $times), $data,
                options!("--innodb-doublewrite=REDO")),
            mariadb(MARIADB_OFF, concat!("mariadb, OFF, data ", $times), $data,
                options!("--innodb-doublewrite=OFF"; "--innodb-flush-neighbors=0")),
            mariadb(MARIADB_ON, concat!("mariadb, ON, data ", $times), $data,
                options!("--innodb-doublewrite=ON"; "--innodb-flush-neighbors=0")),
        )*]
    };
}
const fn ours(
    row: &'static str,
    name: &'static str,
    data: u32,
    more: &'static [&'static str],
) -> Variant {
    Variant { row, name, data, kind: Kind::Redolith, more }
}
const fn mariadb(
    row: &'static str,
    name: &'static str,
    data: u32,
    more: &'static [&'static str],
) -> Variant {
    Variant { row, name, data, kind: Kind::MariaDb, more }
}
const VARIANTS: &[Variant] = variants!(1 "1x", 2 "2x", 3 "3x");
/// The sizes of data that there are servers for.
pub const MOST_DATA: u32 = 3;

/// Bytes of a row of sysbench's tables with its index entries, in pages as full as after loading.
const ROW_BYTES: u64 = 250;
/// The pool holds the data and what else there is, undo above all, at size 1.
const WHOLE: f64 = 1.3;
/// No server takes less.
const LEAST_POOL: u64 = 8 << 20;

/// The least ratio of ON and of REDO to OFF where the data are three times the pool.
const LEAST_ON: f64 = 0.9;
const LEAST_REDO: f64 = 0.97;
/// The least ratio of the throughput at the most connections to the peak.
const LEAST_OF_PEAK: f64 = 0.9;
/// The least ratio to MariaDB with the same protection, and from how many connections on it counts.
const LEAST_MARIADB: f64 = 2.0;
const FROM_CONNECTIONS: u32 = 32;

fn variants(o: &Options) -> impl Iterator<Item = &'static Variant> {
    let peers = o.peers.contains(&Peer::MariaDb);
    let wanted = move |v: &&Variant| peers || v.kind == Kind::Redolith;
    o.data
        .clone()
        .into_iter()
        .flat_map(move |data| VARIANTS.iter().filter(move |v| v.data == data).filter(wanted))
}
/// The servers, in the order of their rows.
pub fn specs(o: &Options) -> Vec<Spec> {
    let spec = |v: &Variant| Spec { name: v.name, kind: v.kind, cores: Vec::new(), more: v.more };
    variants(o).map(spec).collect()
}
/// The buffer pool of a server, in bytes.
pub fn pool(o: &Options, name: &str) -> String {
    let rows = u64::from(o.tables) * u64::from(o.table_size);
    let data = VARIANTS.iter().find(|v| v.name == name).map_or(1, |v| v.data);
    let bytes = match data {
        1 => ((rows * ROW_BYTES) as f64 * WHOLE) as u64,
        times => rows * ROW_BYTES / u64::from(times),
    };
    bytes.max(LEAST_POOL).to_string()
}

pub fn plan(o: &Options, servers: &[Facts], results: &mut Results) -> Vec<Job> {
    let mut jobs = Vec::new();
    for script in &o.scripts {
        for data in &o.data {
            jobs.extend(section(o, script, *data, servers, results));
        }
    }
    jobs
}

fn section(
    o: &Options,
    script: &str,
    data: u32,
    servers: &[Facts],
    results: &mut Results,
) -> Vec<Job> {
    let of_name = |name: &str| VARIANTS.iter().find(|v| v.name == name);
    let rows: Vec<(&str, usize)> = servers
        .iter()
        .enumerate()
        .filter_map(|(server, facts)| Some((of_name(facts.name)?, server)))
        .filter(|(v, _)| v.data == data)
        .map(|(v, server)| (v.row, server))
        .collect();
    let row_of = |label: &str| rows.iter().position(|(row, _)| *row == label);
    let pair = |(row, base): (&str, &str)| Some((row_of(row)?, row_of(base)?));
    let pairs = [
        (ON, OFF),
        ("LEGACY", OFF),
        (REDO, OFF),
        (MARIADB_ON, MARIADB_OFF),
        (ON, MARIADB_ON),
        (OFF, MARIADB_OFF),
    ];
    let section = results.sections.len();
    results.sections.push(Section {
        id: format!("doublewrite-{script}-{data}x"),
        title: match data {
            1 => format!("Torn pages, data in memory: {script}"),
            times => format!("Torn pages, data {times} times the pool: {script}"),
        },
        text: "ON copies each page to the doublewrite file before it is written in place; LEGACY \
            does so in one batch at a time, as MySQL did before 8.0.20; REDO writes no copies, \
            because the redo log can rebuild a torn page; OFF protects nothing. Pages written are \
            the server's own count, without copies. Bytes written are the device's, with the logs."
            .into(),
        load: Load::Sysbench,
        script: script.into(),
        row_title: "innodb_doublewrite".into(),
        column_title: "connections".into(),
        base: None,
        fixed: vec![],
        baseline: vec![],
        pairs: pairs.into_iter().filter_map(pair).collect(),
        counters_of: vec![],
        rows: rows.iter().map(|(row, _)| row.to_string()).collect(),
        columns: o.threads.iter().map(u32::to_string).collect(),
        connections: o.threads.clone(),
    });
    let rows = rows.into_iter().map(|(_, server)| (server, vec![]));
    by_connections(o, script, section, &rows.collect::<Vec<_>>())
}

/// Checks the claims, as far as there are points.
pub fn checks(r: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for s in &r.sections {
        let mut check = |what: String, ratio: Ratio, least: f64| {
            let (value, met) = (ratio.mean, ratio.mean >= least);
            let standard_error = ratio.error;
            checks.push(Check { section: s.id.clone(), what, value, standard_error, least, met });
        };
        let largest = s.id.ends_with(&format!("-{MOST_DATA}x"));
        for &(row, base) in &s.pairs {
            let (row_name, base_name) = (s.rows[row].as_str(), s.rows[base].as_str());
            for (column, n) in s.connections.iter().enumerate() {
                let least = match (row_name, base_name) {
                    (ON, OFF) if largest => LEAST_ON,
                    (REDO, OFF) if largest => LEAST_REDO,
                    (ON, MARIADB_ON) if *n >= FROM_CONNECTIONS => LEAST_MARIADB,
                    _ => continue,
                };
                if let Some(ratio) = r.ratio(s, (row, base), column) {
                    check(format!("{row_name} / {base_name}, {n} conn."), ratio, least);
                }
            }
        }
        let last = s.columns.len() - 1;
        for row in (0..s.rows.len()).filter(|row| [ON, REDO].contains(&s.rows[*row].as_str())) {
            if let Some(value) = r.of_peak(s, row, last) {
                let what = format!("{}: {} conn. / peak", s.rows[row], s.connections[last]);
                check(what, Ratio { mean: value, error: None }, LEAST_OF_PEAK);
            }
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_sized_by_the_data() {
        let words = ["doublewrite", "--tables=8", "--table-size=100000", "--peer=mariadb"];
        let o = crate::options::parse(&words.map(String::from)).unwrap().unwrap();
        let specs = specs(&o);
        assert_eq!(specs.len(), 18);
        let pools: Vec<u64> = specs.iter().map(|s| pool(&o, s.name).parse().unwrap()).collect();
        assert_eq!((pools[0], pools[6], pools[12]), (260_000_000, 100_000_000, 66_666_666));
        assert!(pools.chunks(6).all(|of_size| of_size.iter().all(|p| *p == of_size[0])));
    }
}
