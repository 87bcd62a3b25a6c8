//! Data from the kernel: the machine, the CPU time of a process, the flushes of a block device. No
//! output names the machine.
use crate::{cores, cpu_quota};
use rustix::fs::{major, minor};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn first_line(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_string())
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|l| {
        l.strip_prefix(name)?.trim_start().strip_prefix(':').map(|v| v.trim().to_string())
    })
}

/// The cores that this process may use.
pub fn cores() -> Vec<usize> {
    field("/proc/self/status", "Cpus_allowed_list")
        .and_then(|list| cores::parse(&list))
        .unwrap_or_else(|| vec![0])
}

/// The facts that a reader needs to judge the figures.
pub fn about(dir: &Path, device: &Device) -> Vec<(String, String)> {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|m| m.split(' ').next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib >> 20);
    let mut about = vec![
        ("cores".to_string(), format!("{} x {cpu}", cores().len())),
        (
            "CPU quota around the lab".into(),
            cpu_quota::of_this_process().map_or("none".into(), |cpus| format!("{cpus:.2} cores")),
        ),
        ("memory".into(), format!("{memory} GiB")),
        ("kernel".into(), first_line("/proc/sys/kernel/osrelease").unwrap_or_default()),
        ("file system".into(), file_system(dir).unwrap_or_else(|| "unknown".into())),
        ("device".into(), device.describe()),
    ];
    if let Some(us) = flush_us(dir) {
        about.push((
            "one write of 4 KiB, made durable".into(),
            format!("{us:.0} us (median of {FLUSH_TRIES}, nothing else running)"),
        ));
    }
    about
}

fn file_system(dir: &Path) -> Option<String> {
    let dev = fs::metadata(dir).ok()?.dev();
    let number = format!("{}:{}", major(dev), minor(dev));
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|l| l.split(' ').nth(2) == Some(&number))?;
    let (before, after) = mount.split_once(" - ")?;
    Some(format!("{} ({})", after.split(' ').next()?, before.split(' ').nth(5)?))
}

const FLUSH_TRIES: usize = 50;

/// The median time of a small write and its fdatasync: the least time that a commit waits.
fn flush_us(dir: &Path) -> Option<f64> {
    let path = dir.join("flush-probe");
    let mut file = fs::File::create(&path).ok()?;
    let mut times = Vec::new();
    for _ in 0..FLUSH_TRIES {
        let began = Instant::now();
        file.write_all(&[1; 4096]).ok()?;
        file.sync_data().ok()?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    fs::remove_file(path).ok()?;
    crate::stats::median(&times)
}

/// The CPU time that a process has used, including its ended threads.
pub fn cpu_time(pid: u32) -> Duration {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| cpu_of(&stat, rustix::param::clock_ticks_per_second()))
        .unwrap_or_default()
}

fn cpu_of(stat: &str, ticks_per_s: u64) -> Option<Duration> {
    // The second field is the program's name in parentheses, and may contain any character.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_secs_f64(ticks as f64 / ticks_per_s as f64))
}

/// The block device below a folder, as /proc/diskstats counts it.
pub struct Device {
    name: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceCounts {
    pub flushes: u64,
    pub written_kib: u64,
}

pub fn same_device(a: &Path, b: &Path) -> bool {
    let dev = |path: &Path| fs::metadata(path).ok().map(|m| m.dev());
    dev(a) == dev(b)
}

impl Device {
    pub fn below(dir: &Path) -> Device {
        let find = || -> Option<String> {
            let dev = fs::metadata(dir).ok()?.dev();
            let mut node: PathBuf =
                fs::canonicalize(format!("/sys/dev/block/{}:{}", major(dev), minor(dev))).ok()?;
            if node.join("partition").exists() {
                node.pop(); // flushes are counted for the whole disk
            }
            Some(node.file_name()?.to_string_lossy().into_owned())
        };
        Device { name: find() }
    }

    fn describe(&self) -> String {
        let Some(name) = &self.name else {
            return "not a block device: its flushes are not counted".into();
        };
        let says = |what: &str| first_line(format!("/sys/block/{name}/{what}"));
        let kind = match says("queue/rotational").as_deref() {
            Some("1") => "spinning",
            _ => "solid state",
        };
        let model = says("device/model").map_or(String::new(), |m| format!("{m}, "));
        format!(
            "{name}: {model}{kind}, cache {}",
            says("queue/write_cache").unwrap_or_else(|| "unknown".into())
        )
    }

    /// Completed flushes and KiB written so far. `None` if the kernel does not count them.
    pub fn counts(&self) -> Option<DeviceCounts> {
        counts_of(&fs::read_to_string("/proc/diskstats").ok()?, self.name.as_ref()?)
    }
}

fn counts_of(diskstats: &str, name: &str) -> Option<DeviceCounts> {
    let fields: Vec<&str> = diskstats
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>())
        .find(|f| f.get(2) == Some(&name))?;
    let number = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok());
    Some(DeviceCounts { flushes: number(18)?, written_kib: number(9)? / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 1 2 3 4 250 150 7 8 20 0 1 0";
        assert_eq!(cpu_of(stat, 100), Some(Duration::from_secs(4)));
        assert_eq!(cpu_of("", 100), None);
        let disks = " 254 0 vda 10 1 80 4 20 2 3000 9 0 1 2 0 0 0 0 77 5\n 254 1 vda1 1 1 1 1 1 1 \
            1 1 0 1 2 0 0 0 0 1 5\n";
        assert_eq!(counts_of(disks, "vda"), Some(DeviceCounts { flushes: 77, written_kib: 1500 }));
        assert_eq!(counts_of(disks, "sda"), None);
        assert!(!cores().is_empty());
    }
}
