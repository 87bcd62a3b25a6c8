//! Which CPUs this process may use, and how much of their time is idle: `/proc/stat`, the affinity
//! mask, and the quota of a control group (cgroup v2 `cpu.max` with `cpu.stat`; v1
//! `cpu.cfs_quota_us` with `cpuacct.usage`; Linux, Documentation/admin-guide/cgroup-v2.rst and
//! cgroup-v1/cpuacct.rst).
use crate::{Processors, Quota};
use rustix::thread::CpuSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub fn processors() -> Option<Processors> {
    let allowed = super::schedule::process_set().ok()?;
    let stat = read(Path::new("/proc/stat"))?;
    let idle = idle_ticks(&stat, |cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu));
    let ticks_per_s = rustix::param::clock_ticks_per_second();
    Some(Processors {
        count: allowed.count() as f64,
        idle: Duration::from_micros(idle * 1_000_000 / ticks_per_s.max(1)),
        quota: quota(),
    })
}

#[allow(clippy::disallowed_methods)] // this is the door
pub(super) fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Ticks that the allowed CPUs spent idle or waiting for a device.
fn idle_ticks(stat: &str, allowed: impl Fn(usize) -> bool) -> u64 {
    let mut idle = 0;
    for line in stat.lines().take_while(|l| l.starts_with("cpu")) {
        let mut fields = line[3..].split_ascii_whitespace();
        let cpu = if line.starts_with("cpu ") {
            None
        } else {
            fields.next().and_then(|n| n.parse().ok())
        };
        if cpu.is_some_and(&allowed) {
            idle += fields.skip(3).take(2).filter_map(|n| n.parse::<u64>().ok()).sum::<u64>();
        }
    }
    idle
}

/// The tightest quota of the process's control group and its ancestors.
fn quota() -> Option<Quota> {
    let v2 = groups("", V2_ROOTS).iter().filter_map(|group| v2_quota(group)).collect::<Vec<_>>();
    let v1 = groups("cpu", &["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"]);
    v2.into_iter()
        .chain(v1.iter().filter_map(|group| v1_quota(group)))
        .min_by(|a, b| a.cpus.total_cmp(&b.cpus))
}

pub(super) const V2_ROOTS: &[&str] = &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The folders of this process's control group and its ancestors. Version 2 has no controller name:
/// `controller` is empty.
pub(super) fn groups(controller: &str, roots: &[&str]) -> Vec<PathBuf> {
    let found = || {
        let groups = read(Path::new("/proc/self/cgroup"))?;
        let path = groups.lines().find_map(|l| {
            let (_, rest) = l.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers
                .split(',')
                .any(|c| c == controller)
                .then(|| path.trim_start_matches('/').to_string())
        })?;
        let root = roots.iter().map(PathBuf::from).find(|r| r.is_dir())?;
        let group = root.join(path);
        Some(
            group
                .ancestors()
                .take_while(|dir| dir.starts_with(&root))
                .map(Path::to_path_buf)
                .collect(),
        )
    };
    found().unwrap_or_default()
}
fn v2_quota(group: &Path) -> Option<Quota> {
    let max = read(&group.join("cpu.max"))?;
    let (quota, period) = max.trim().split_once(' ')?;
    let cpus = quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?;
    let stat = read(&group.join("cpu.stat"))?;
    let used = stat.lines().find_map(|l| l.strip_prefix("usage_usec "))?.parse().ok()?;
    Some(Quota { cpus, used: Duration::from_micros(used) })
}
fn v1_quota(group: &Path) -> Option<Quota> {
    let number = |path: PathBuf| read(&path)?.trim().parse::<i64>().ok();
    let quota = number(group.join("cpu.cfs_quota_us")).filter(|q| *q > 0)?;
    let period = number(group.join("cpu.cfs_period_us"))?;
    // The controllers cpu and cpuacct are mounted together or in neighbouring folders.
    let accounts =
        PathBuf::from(group.to_string_lossy().replacen("/cgroup/cpu/", "/cgroup/cpuacct/", 1));
    let used =
        number(group.join("cpuacct.usage")).or_else(|| number(accounts.join("cpuacct.usage")))?;
    Some(Quota { cpus: quota as f64 / period as f64, used: Duration::from_nanos(used as u64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_that_of_the_allowed_cpus() {
        let stat = "cpu  100 0 100 5000 300 0 0 0 0 0\ncpu0 50 0 50 3000 200 0 0 0 0 0\ncpu1 50 0 \
            50 2000 100 0 0 0 0 0\nintr 5 cpu9\n";
        assert_eq!(idle_ticks(stat, |_| true), 5300);
        assert_eq!(idle_ticks(stat, |cpu| cpu == 1), 2100);
        assert_eq!(idle_ticks("", |_| true), 0);
    }
    #[test]
    #[allow(clippy::disallowed_methods)] // the tests of the door to files
    fn quotas_of_both_versions() {
        let dir = crate::test_dir::Dir::new();
        let put = |name: &str, text: &str| std::fs::write(dir.path(name), text).unwrap();
        assert_eq!((v2_quota(&dir.0), v1_quota(&dir.0)), (None, None));
        put("cpu.max", "max 100000\n");
        put("cpu.stat", "usage_usec 1500\nuser_usec 1000\n");
        assert_eq!(v2_quota(&dir.0), None);
        put("cpu.max", "150000 100000\n");
        assert_eq!(v2_quota(&dir.0), Some(Quota { cpus: 1.5, used: Duration::from_micros(1500) }));
        put("cpu.cfs_quota_us", "-1\n");
        put("cpu.cfs_period_us", "100000\n");
        put("cpuacct.usage", "2000000\n");
        assert_eq!(v1_quota(&dir.0), None);
        put("cpu.cfs_quota_us", "50000\n");
        assert_eq!(v1_quota(&dir.0), Some(Quota { cpus: 0.5, used: Duration::from_millis(2) }));
    }
    #[test]
    fn this_machine_has_processors() {
        let p = processors().expect("Linux tells");
        assert!(p.count >= 1.0 && p.quota.is_none_or(|q| q.cpus > 0.0));
    }
}
