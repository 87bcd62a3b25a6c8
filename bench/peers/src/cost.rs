//! The cost of a load: the device's flushes and writes, as /proc/diskstats counts them for the
//! whole machine, and this process's CPU time and context switches.
use crate::engines::Result;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The block device below a directory.
pub struct Device {
    name: String,
    /// The device can write durably without a flush. Nothing counts such writes.
    pub fua: bool,
}
#[derive(Clone, Copy, Default)]
pub struct Cost {
    pub flushes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub cpu_us: u64,
    pub switches: u64,
}

impl Device {
    pub fn below(dir: &Path) -> Result<Device> {
        let dev = fs::metadata(dir)?.dev();
        let mut node = fs::canonicalize(format!(
            "/sys/dev/block/{}:{}",
            rustix::fs::major(dev),
            rustix::fs::minor(dev)
        ))
        .map_err(|_| {
            format!("{} is on no block device: flushes cannot be counted", dir.display())
        })?;
        if node.join("partition").exists() {
            node.pop(); // flushes are counted for the whole disk
        }
        let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let fua = fs::read_to_string(node.join("queue/fua")).is_ok_and(|s| s.trim() == "1");
        Ok(Device { name, fua })
    }
    /// The cost since the start of the machine and of this process.
    pub fn cost(&self) -> Result<Cost> {
        let stats = fs::read_to_string("/proc/diskstats")?;
        let line = stats
            .lines()
            .find(|l| l.split_ascii_whitespace().nth(2) == Some(&self.name))
            .ok_or("the device is not in /proc/diskstats")?;
        let field = |n: usize| {
            line.split_ascii_whitespace().nth(n).and_then(|f| f.parse().ok()).unwrap_or(0u64)
        };
        let (cpu_us, switches) = process();
        Ok(Cost {
            flushes: field(18),
            writes: field(7),
            written_bytes: field(9) * 512,
            cpu_us,
            switches,
        })
    }
}
impl Cost {
    pub fn since(self, then: Cost) -> Cost {
        Cost {
            flushes: self.flushes - then.flushes,
            writes: self.writes - then.writes,
            written_bytes: self.written_bytes - then.written_bytes,
            cpu_us: self.cpu_us - then.cpu_us,
            switches: self.switches - then.switches,
        }
    }
}

/// The CPU time in microseconds and the context switches of all threads.
fn process() -> (u64, u64) {
    // SAFETY: all zeros is a valid rusage, which the call fills in.
    let u = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut u);
        u
    };
    let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    (us(u.ru_utime) + us(u.ru_stime), (u.ru_nvcsw + u.ru_nivcsw) as u64)
}
