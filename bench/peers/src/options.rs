//! The command line.
use crate::engines::{ALL, Kind, Result};
use std::path::PathBuf;
use std::time::Duration;

pub const HELP: &str = "\
Durable commits by Redolith's library and by other embedded engines: same machine, same
directory, in turn.

  redolith-peers [--quick] [options]

  --dir DIR          on the device to be measured; results go to a folder of this run in it
                     (bench/out)
  --engines A,B      of: {engines}
  --writers 1,16     concurrent writers (1,4,16,64)
  --values 100       bytes of a value (100,1024)
  --time S           seconds measured per point (3; quick: 1)
  --warmup S         seconds before (0.5; quick: 0.2)
  --repeat N         turns of every engine at each point (3; quick: 1)
  --quick            100 bytes only, one short turn: a minute or two
  --counters         tell what Redolith counted, per commit

Each writer puts one fresh row per transaction and waits until it is durable. At the end of each
point the database is opened again and its rows are counted. Writes engines.csv, engines.json and
engines.md.";

pub struct Options {
    pub dir: PathBuf,
    pub engines: Vec<&'static Kind>,
    pub writers: Vec<usize>,
    pub values: Vec<usize>,
    pub time: Duration,
    pub warm_up: Duration,
    pub repeat: usize,
    pub counters: bool,
    /// As they were given, for the reader of the results.
    pub given: String,
}

/// None if help was asked for.
pub fn parse(args: impl Iterator<Item = String>) -> Result<Option<Options>> {
    let args: Vec<String> = args.collect();
    let quick = args.iter().any(|a| a == "--quick");
    let mut o = Options {
        dir: PathBuf::from("bench/out"),
        engines: ALL.iter().collect(),
        writers: vec![1, 4, 16, 64],
        values: if quick { vec![100] } else { vec![100, 1024] },
        time: Duration::from_secs(if quick { 1 } else { 3 }),
        warm_up: Duration::from_millis(if quick { 200 } else { 500 }),
        repeat: if quick { 1 } else { 3 },
        counters: false,
        given: String::new(),
    };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => {}
            "--counters" => o.counters = true,
            "--dir" => {
                o.dir = value()?.into();
                continue; // a path of somebody's machine
            }
            "--engines" => {
                let of = |n: &str| {
                    ALL.iter()
                        .find(|k| k.name == n)
                        .ok_or(format!("no engine {n}: there are {}", names()))
                };
                o.engines = value()?.split(',').map(of).collect::<std::result::Result<_, _>>()?;
            }
            "--writers" => o.writers = numbers(value()?, 1..=4096)?,
            "--values" => o.values = numbers(value()?, 1..=4096)?,
            "--time" => o.time = seconds(value()?)?,
            "--warmup" => o.warm_up = seconds(value()?)?,
            "--repeat" => o.repeat = numbers(value()?, 1..=1000)?[0],
            _ => return Err(format!("unknown option {arg}: --help tells them").into()),
        }
    }
    let mut skip = false;
    let shown =
        args.iter().filter(|a| !std::mem::replace(&mut skip, *a == "--dir") && *a != "--dir");
    o.given = shown.cloned().collect::<Vec<_>>().join(" ");
    Ok(Some(o))
}
pub fn names() -> String {
    ALL.iter().map(|k| k.name).collect::<Vec<_>>().join(",")
}
fn numbers(list: &str, within: std::ops::RangeInclusive<usize>) -> Result<Vec<usize>> {
    let one = |s: &str| {
        s.parse()
            .ok()
            .filter(|n| within.contains(n))
            .ok_or(format!("{s} is not one of {} to {}", within.start(), within.end()).into())
    };
    list.split(',').map(one).collect()
}
fn seconds(s: &str) -> Result<Duration> {
    let n: f64 = s
        .parse()
        .ok()
        .filter(|n| (0.01..=3600.0).contains(n))
        .ok_or(format!("{s} is not a number of seconds"))?;
    Ok(Duration::from_secs_f64(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Option<Options>> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn options_are_read() {
        let o = of("--quick --dir /x/y --writers 2,8 --engines redb,redolith --time 0.5")
            .unwrap()
            .unwrap();
        assert_eq!((o.writers, o.values, o.repeat), (vec![2, 8], vec![100], 1));
        assert_eq!(o.engines.iter().map(|k| k.name).collect::<Vec<_>>(), ["redb", "redolith"]);
        assert_eq!((o.time, o.dir), (Duration::from_millis(500), PathBuf::from("/x/y")));
        assert_eq!(o.given, "--quick --writers 2,8 --engines redb,redolith --time 0.5");
        assert!(of("--help").unwrap().is_none());
    }
    #[test]
    fn mistakes_are_told() {
        for (line, tells) in [
            ("--frobnicate", "--frobnicate"),
            ("--engines mongo", "mongo"),
            ("--writers 0", "0"),
            ("--time", "--time"),
            ("--time nan", "nan"),
        ] {
            let e = of(line).err().unwrap().to_string();
            assert!(e.contains(tells), "{line}: {e}");
        }
    }
}
