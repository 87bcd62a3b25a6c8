//! Parses the options of `redolith lab STUDY [option ...]`.
use crate::doublewrite::MOST_DATA;
use crate::insert;
use crate::results::Load;
use crate::sysbench;
use std::path::PathBuf;

pub const USAGE: &str = "\
Usage: redolith lab redo    [option ...]   study 1: who writes the log, on which cores,
                                           with and without purge (sysbench)
       redolith lab writers [option ...]   study 2: innodb_log_writer_threads ON, OFF, auto
                                           (mysqlslap)
       redolith lab binlog  [option ...]   study 4: the binary log on and off (sysbench)
       redolith lab doublewrite [option ...]
                                           study 5: what protects pages against tearing, with
                                           data larger than the buffer pool (sysbench)
       redolith lab insert  [option ...]   study 3: INSERT .. SELECT by several sessions

Starts servers in a scratch directory, takes every point with each server in turn, and writes
report.html, report.md, report.json, points.csv and counters.csv. Ctrl-C ends the study and keeps
what was measured.

  --quick                 within three minutes: fewer, shorter points, small tables
  --peer=NAME             a server beside Redolith, may be repeated: mariadb, mysql,
                          baseline (speaks the protocol and commits in groups, stores nothing);
                          binlog, doublewrite, insert: mariadb
  --threads=N,N,...       connections (redo: 1,8,32,128,512,1024; writers: 150,300,450,600;
                          binlog: 1,20,60,120,200,400,600,1000;
                          doublewrite: 1,8,32,64,128,256,512,1024; quick: fewer;
                          insert: sessions, 1,2,4,8,16)
  --modes=NAME,...      redo: auto,leader,session,dedicated; writers: on,off,auto
  --script=NAME           redo (oltp_write_only, the study's), binlog (oltp_update_index, the
                          study's) and doublewrite (oltp_read_write, the study's, and
                          oltp_write_only; quick: the first), may be repeated: oltp_write_only,
                          oltp_update_index, oltp_update_non_index, oltp_insert, oltp_delete,
                          oltp_read_write. Each script has a table by connections; the
                          other sections of redo use the first script
  --sections=NAME,...     redo: modes,placements,purge,pace,depth
                          (all; quick: the first three)
  --data=N,...            doublewrite: the data are so many times the pool (1,2,3; quick: 3)
  --cpu-quota=N           CPUs that each server may use, by a control group: 1, 0.5, ...
                          (no quota); the client is outside of the group
  --repeat=N              turns of each point, interleaved A B A B
                          (3; quick: 1, writers --quick: 2)
  --time=S --warmup=S     redo, binlog, doublewrite: seconds measured per point and before
                          (9 and 3; quick: 2 and 1)
  --tables=N --table-size=N
                          redo (8 x 25000; quick: 8 x 2500; the study's: 250 x 25000),
                          binlog (5 x 25000; quick: 5 x 10000; the study's: 5 x 1000000),
                          doublewrite (8 x 100000; quick: 8 x 20000; the study's: 8 x 50000000)
  --placement-threads=N   redo: connections of all sections but the modes
                          (128, or the nearest of --threads)
  --rows=N                insert: narrow rows of a point, of which medium ones are a quarter and
                          wide ones a twentieth (2000000; quick: 256000; the study's: 10000000)
  --shapes=NAME,...       insert: narrow,medium,wide,nokey (all)
  --writes=N              writers: statements per client (1000; quick: 60; the study's: 2000)
  --pool=SIZE             buffer pool of each server (1G); doublewrite: see --data
  --dir=DIR               where the folder of this run is made, on the device to be measured
                          (redolith-lab)
  --redolith=FILE         the server to measure (this program)
  --baseline-server=FILE  the baseline server (make bench-build)
  --mysqld=FILE --mysql-root=DIR
                          mysqld; DIR: the root file system that it lives in, run by chroot
  --keep-data             leave the servers' data directories
";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Study {
    Redo,
    Writers,
    Binlog,
    Doublewrite,
    Insert,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    MariaDb,
    MySql,
    Baseline,
}

/// The parts of `lab redo`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Modes,
    Placements,
    Purge,
    Pace,
    Depth,
}

const PARTS: &[(&str, Part)] = &[
    ("modes", Part::Modes),
    ("placements", Part::Placements),
    ("purge", Part::Purge),
    ("pace", Part::Pace),
    ("depth", Part::Depth),
];
/// The number of parts for which a quick run has time.
const QUICK_PARTS: usize = 3;

#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    pub study: Study,
    pub quick: bool,
    pub peers: Vec<Peer>,
    pub threads: Vec<u32>,
    pub modes: Vec<String>,
    /// The sysbench scripts. The first script has all sections.
    pub scripts: Vec<&'static str>,
    pub parts: Vec<Part>,
    /// How many times the data are larger than the pool, for `lab doublewrite`.
    pub data: Vec<u32>,
    /// The CPU quota of each server, in CPUs.
    pub cpu_quota: Option<f64>,
    pub repeat: u32,
    pub time_s: u32,
    pub warmup_s: u32,
    pub tables: u32,
    pub table_size: u32,
    pub placement_threads: u32,
    pub writes: u32,
    /// The narrow rows of a point of `lab insert`, and its shapes of rows.
    pub rows: u32,
    pub shapes: Vec<&'static str>,
    pub pool: String,
    pub dir: PathBuf,
    pub redolith: Option<PathBuf>,
    pub baseline_server: Option<PathBuf>,
    pub mysqld: Option<PathBuf>,
    pub mysql_root: Option<PathBuf>,
    pub keep_data: bool,
}

/// The greatest number of connections that the servers' `max_connections` allows.
const MOST_CONNECTIONS: u32 = 3900;
/// The longest time, a day.
const LONGEST_S: u32 = 86_400;
/// The kernel accepts no quota below 1 ms of a period. A server with less would not even start in
/// time.
const CPU_QUOTAS: std::ops::RangeInclusive<f64> = 0.05..=4096.0;
/// The number of connections for the study's four placements.
const STUDY_PLACEMENT_THREADS: u32 = 128;

impl Options {
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}

impl Study {
    pub fn word(self) -> &'static str {
        match self {
            Study::Redo => "redo",
            Study::Writers => "writers",
            Study::Binlog => "binlog",
            Study::Doublewrite => "doublewrite",
            Study::Insert => "insert",
        }
    }
    /// The program that makes the load.
    pub fn load(self) -> Load {
        match self {
            Study::Redo | Study::Binlog | Study::Doublewrite => Load::Sysbench,
            Study::Writers => Load::Slap,
            Study::Insert => Load::Copy,
        }
    }
    /// The scripts of a run that names none. The first is that of the published study.
    fn scripts(self, quick: bool) -> &'static [&'static str] {
        match self {
            Study::Redo | Study::Writers => &sysbench::SCRIPTS[..1],
            Study::Binlog => &["oltp_update_index"],
            Study::Doublewrite if quick => &["oltp_read_write"],
            Study::Doublewrite => &["oltp_read_write", "oltp_write_only"],
            Study::Insert => &[],
        }
    }
    fn all_modes(self) -> &'static [&'static str] {
        match self {
            Study::Redo => &["auto", "leader", "session", "dedicated"],
            Study::Writers => &["on", "off", "auto"],
            Study::Binlog | Study::Doublewrite | Study::Insert => &[],
        }
    }
    fn threads(self, quick: bool) -> &'static [u32] {
        match (self, quick) {
            (Study::Redo, false) => &[1, 8, 32, 128, 512, 1024],
            (Study::Redo, true) => &[1, 32, 128],
            (Study::Writers, false) => &[150, 300, 450, 600],
            (Study::Writers, true) => &[150, 300],
            (Study::Binlog, false) => &[1, 20, 60, 120, 200, 400, 600, 1000],
            (Study::Binlog, true) => &[1, 60, 1000],
            (Study::Doublewrite, false) => &[1, 8, 32, 64, 128, 256, 512, 1024],
            (Study::Doublewrite, true) => &[1, 64, 512],
            (Study::Insert, _) => &[1, 2, 4, 8, 16],
        }
    }
}

/// Parses the arguments. `None` if the user asked for help.
pub fn parse(args: &[String]) -> Result<Option<Options>, String> {
    let wrong = |why: String| format!("{why}\n{USAGE}");
    let study = match args.first().map(String::as_str) {
        Some("redo") => Study::Redo,
        Some("writers") => Study::Writers,
        Some("binlog") => Study::Binlog,
        Some("doublewrite") => Study::Doublewrite,
        Some("insert") => Study::Insert,
        Some("--help" | "-h" | "-?" | "help") => return Ok(None),
        Some(other) => return Err(wrong(format!("there is no study '{other}'"))),
        None => return Err(wrong("which study?".into())),
    };
    let quick = args.iter().any(|a| a == "--quick");
    let pick = |full: u32, small: u32| if quick { small } else { full };
    let mut o = Options {
        study,
        quick,
        peers: Vec::new(),
        threads: study.threads(quick).to_vec(),
        modes: study.all_modes().iter().map(|s| s.to_string()).collect(),
        scripts: Vec::new(),
        parts: PARTS[..if quick { QUICK_PARTS } else { PARTS.len() }]
            .iter()
            .map(|(_, part)| *part)
            .collect(),
        data: if quick { vec![MOST_DATA] } else { (1..=MOST_DATA).collect() },
        cpu_quota: None,
        repeat: if study == Study::Writers { pick(3, 2) } else { pick(3, 1) },
        time_s: pick(9, 2),
        warmup_s: pick(3, 1),
        tables: if study == Study::Binlog { 5 } else { 8 },
        // Of 1,000 connections, few should meet at one row.
        table_size: match study {
            Study::Doublewrite => pick(100_000, 20_000),
            Study::Binlog => pick(25_000, 10_000),
            Study::Redo | Study::Writers | Study::Insert => pick(25_000, 2500),
        },
        placement_threads: 0,
        writes: pick(1000, 60),
        rows: pick(2_000_000, 256_000),
        shapes: insert::SHAPES.iter().map(|shape| shape.name).collect(),
        pool: "1G".into(),
        dir: "redolith-lab".into(),
        redolith: None,
        baseline_server: None,
        mysqld: None,
        mysql_root: None,
        keep_data: false,
    };
    let mut rest = args[1..].iter();
    while let Some(arg) = rest.next() {
        let (name, inline) =
            arg.split_once('=').map_or((arg.as_str(), None), |(n, v)| (n, Some(v.to_string())));
        match name {
            "--quick" => continue,
            "--keep-data" => o.keep_data = true,
            "--help" | "-?" => return Ok(None),
            _ if !USAGE.contains(&format!("{name}=")) || !name.starts_with("--") => {
                return Err(wrong(format!("'{arg}' is no option of lab")));
            }
            _ => {
                let value = inline
                    .or_else(|| rest.next().cloned())
                    .ok_or_else(|| wrong(format!("option '{name}' requires an argument")))?;
                set(&mut o, name, value).map_err(wrong)?;
            }
        }
    }
    if o.scripts.is_empty() {
        o.scripts.extend(study.scripts(quick));
    }
    if o.placement_threads == 0 {
        let nearest = o.threads.iter().copied().min_by_key(|n| n.abs_diff(STUDY_PLACEMENT_THREADS));
        o.placement_threads = nearest.unwrap_or(STUDY_PLACEMENT_THREADS);
    }
    Ok(Some(o))
}

fn set(o: &mut Options, name: &str, value: String) -> Result<(), String> {
    let wrong = || format!("{name}: '{value}' is nothing that it takes");
    let number =
        || value.parse::<u32>().ok().filter(|n| (1..=1_000_000_000).contains(n)).ok_or_else(wrong);
    let of = match name {
        "--script" => Some((
            &[Study::Redo, Study::Binlog, Study::Doublewrite][..],
            "lab redo, lab binlog and lab doublewrite",
        )),
        "--data" => Some((&[Study::Doublewrite][..], "lab doublewrite")),
        "--sections" => Some((&[Study::Redo][..], "lab redo")),
        "--rows" => Some((&[Study::Insert][..], "lab insert")),
        "--shapes" => Some((&[Study::Insert][..], "lab insert")),
        "--modes" => Some((&[Study::Redo, Study::Writers][..], "lab redo and lab writers")),
        _ => None,
    };
    if let Some((_, those)) = of.filter(|(studies, _)| !studies.contains(&o.study)) {
        return Err(format!("{name} is an option of {those}"));
    }
    match name {
        "--peer" => {
            for wanted in value.split(',') {
                let peer = match wanted {
                    "mariadb" => Peer::MariaDb,
                    "mysql" => Peer::MySql,
                    "baseline" => Peer::Baseline,
                    _ => return Err(wrong()),
                };
                let one_peer =
                    [Study::Binlog, Study::Doublewrite, Study::Insert].contains(&o.study);
                if one_peer && peer != Peer::MariaDb {
                    let study = o.study.word();
                    return Err(format!("{name}: '{wanted}': lab {study} has the peer mariadb"));
                }
                if !o.peers.contains(&peer) {
                    o.peers.push(peer);
                }
            }
        }
        "--threads" => {
            let all: Option<Vec<u32>> = value
                .split(',')
                .map(|n| n.parse().ok().filter(|n| (1..=MOST_CONNECTIONS).contains(n)))
                .collect();
            o.threads = all.ok_or_else(wrong)?;
            o.threads.sort_unstable();
            o.threads.dedup();
        }
        "--data" => {
            let one = |n: &str| n.parse().ok().filter(|n| (1..=MOST_DATA).contains(n));
            let all: Option<Vec<u32>> = value.split(',').map(one).collect();
            o.data = all.ok_or_else(wrong)?;
            o.data.sort_unstable();
            o.data.dedup();
        }
        "--modes" => {
            let known = o.study.all_modes();
            o.modes.clear();
            for mode in value.split(',').map(str::to_lowercase) {
                if !o.modes.contains(&mode) {
                    o.modes.push(mode);
                }
            }
            if !o.modes.iter().all(|s| known.contains(&s.as_str())) {
                return Err(format!("{name}: '{value}': there is {}", known.join(", ")));
            }
        }
        "--script" => {
            for wanted in value.split(',') {
                let known = sysbench::SCRIPTS.iter().find(|s| **s == wanted);
                let script = known.ok_or_else(|| {
                    format!("{name}: '{wanted}': there is {}", sysbench::SCRIPTS.join(", "))
                })?;
                if !o.scripts.contains(script) {
                    o.scripts.push(script);
                }
            }
        }
        "--sections" => {
            let one =
                |word: &str| PARTS.iter().find(|(name, _)| *name == word).map(|(_, part)| *part);
            let all: Option<Vec<Part>> = value.split(',').map(one).collect();
            o.parts = all.ok_or_else(|| {
                format!(
                    "{name}: '{value}': there is {}",
                    PARTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
                )
            })?;
        }
        "--shapes" => {
            let known = || insert::SHAPES.iter().map(|shape| shape.name);
            let all: Option<Vec<&str>> =
                value.split(',').map(|word| known().find(|name| *name == word)).collect();
            o.shapes = all.ok_or_else(|| {
                let known: Vec<&str> = known().collect();
                format!("{name}: '{value}': there is {}", known.join(", "))
            })?;
        }
        "--cpu-quota" => {
            let cpus = value.parse::<f64>().ok().filter(|n| CPU_QUOTAS.contains(n));
            o.cpu_quota = Some(cpus.ok_or_else(|| {
                format!("{name}: '{value}': it takes a number of CPUs, 0.05 to 4096")
            })?);
        }
        "--repeat" => o.repeat = number()?,
        "--time" => o.time_s = number()?.min(LONGEST_S),
        "--warmup" => o.warmup_s = number()?.min(LONGEST_S),
        "--tables" => o.tables = number()?,
        "--table-size" => o.table_size = number()?,
        "--placement-threads" => o.placement_threads = number()?.min(MOST_CONNECTIONS),
        "--writes" => o.writes = number()?,
        "--rows" => o.rows = number()?,
        "--pool" => o.pool = value,
        "--dir" => o.dir = value.into(),
        "--redolith" => o.redolith = Some(value.into()),
        "--baseline-server" => o.baseline_server = Some(value.into()),
        "--mysqld" => o.mysqld = Some(value.into()),
        _ => o.mysql_root = Some(value.into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn defaults_and_choices() {
        let full = read("redo").unwrap().unwrap();
        assert_eq!(
            (full.threads.as_slice(), full.repeat, full.table_size, full.placement_threads),
            (&[1, 8, 32, 128, 512, 1024][..], 3, 25000, 128)
        );
        // --quick changes the defaults wherever it is among the arguments.
        let quick =
            read("redo --time 4 --peer mariadb --quick --peer=baseline,mariadb").unwrap().unwrap();
        assert_eq!(
            (quick.time_s, quick.warmup_s, quick.table_size, quick.peers.as_slice()),
            (4, 1, 2500, &[Peer::MariaDb, Peer::Baseline][..])
        );
        let some = read("redo --threads=4,1 --modes=auto,leader,auto").unwrap().unwrap();
        assert_eq!(
            (some.threads, some.placement_threads, some.modes),
            (vec![1, 4], 4, vec!["auto".to_string(), "leader".into()])
        );
        let writers = read("writers --modes=ON,auto").unwrap().unwrap();
        assert_eq!(
            (writers.threads[0], writers.modes, writers.writes),
            (150, vec!["on".to_string(), "auto".into()], 1000)
        );
        assert_eq!(
            (full.scripts.as_slice(), full.parts.len(), full.cpu_quota),
            (&["oltp_write_only"][..], 5, None)
        );
        assert_eq!(quick.parts, [Part::Modes, Part::Placements, Part::Purge]);
        let some = read(
            "redo --quick --script=oltp_update_index --script oltp_insert,oltp_update_index \
                --sections=pace,modes --cpu-quota=1.5",
        );
        let some = some.unwrap().unwrap();
        assert_eq!(
            (some.scripts, some.parts),
            (vec!["oltp_update_index", "oltp_insert"], vec![Part::Pace, Part::Modes])
        );
        assert_eq!(
            (some.cpu_quota, read("writers --cpu-quota=1").unwrap().unwrap().cpu_quota),
            (Some(1.5), Some(1.0))
        );
        let binlog = read("binlog").unwrap().unwrap();
        assert_eq!(
            (binlog.scripts.as_slice(), binlog.tables, binlog.threads.last()),
            (&["oltp_update_index"][..], 5, Some(&1000))
        );
        let doublewrite = read("doublewrite").unwrap().unwrap();
        assert_eq!(
            (doublewrite.scripts.len(), doublewrite.data, doublewrite.table_size),
            (2, vec![1, 2, 3], 100_000)
        );
        let quick = read("doublewrite --quick --data=2,1,2").unwrap().unwrap();
        assert_eq!((quick.scripts.len(), quick.data), (1, vec![1, 2]));
        assert_eq!(read("--help").unwrap(), None);
        assert_eq!(read("writers --help").unwrap(), None);
    }

    #[test]
    fn wrong_ones_are_named() {
        for (line, why) in [
            ("", "which study?"),
            ("redu", "there is no study 'redu'"),
            ("redo --threads=0", "--threads: '0' is nothing that it takes"),
            ("redo --threads=1,x", "--threads: '1,x' is nothing that it takes"),
            ("redo --peer=oracle", "--peer: 'oracle' is nothing that it takes"),
            ("redo --modes=on", "--modes: 'on': there is auto, leader, session, dedicated"),
            (
                "redo --script=oltp_read_only",
                "--script: 'oltp_read_only': there is oltp_write_only, oltp_update_index, \
                    oltp_update_non_index, oltp_insert, oltp_delete, oltp_read_write",
            ),
            (
                "redo --sections=modes,speed",
                "--sections: 'modes,speed': there is modes, placements, purge, pace, depth",
            ),
            ("redo --cpu-quota=0", "--cpu-quota: '0': it takes a number of CPUs, 0.05 to 4096"),
            ("redo --cpu-quota=NaN", "--cpu-quota: 'NaN': it takes a number of CPUs, 0.05 to 4096"),
            (
                "writers --script=oltp_insert",
                "--script is an option of lab redo, lab binlog and lab doublewrite",
            ),
            ("redo --rows=3", "--rows is an option of lab insert"),
            ("insert --shapes=flat", "--shapes: 'flat': there is narrow, medium, wide, nokey"),
            ("redo --data=3", "--data is an option of lab doublewrite"),
            ("doublewrite --data=4", "--data: '4' is nothing that it takes"),
            (
                "doublewrite --peer=baseline",
                "--peer: 'baseline': lab doublewrite has the peer mariadb",
            ),
            ("binlog --sections=modes", "--sections is an option of lab redo"),
            ("binlog --modes=on", "--modes is an option of lab redo and lab writers"),
            ("binlog --peer=mysql", "--peer: 'mysql': lab binlog has the peer mariadb"),
            ("redo --time", "option '--time' requires an argument"),
            ("redo --tim=3", "'--tim=3' is no option of lab"),
            ("redo time=3", "'time=3' is no option of lab"),
        ] {
            assert_eq!(read(line).unwrap_err().lines().next(), Some(why), "{line}");
        }
    }
}
