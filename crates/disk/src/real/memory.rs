//! How much memory this process may use: the machine's, or what a control group allows (cgroup v2
//! `memory.max`; v1 `memory.limit_in_bytes`; Linux, Documentation/admin-guide/cgroup-v2.rst).
use super::processors::{V2_ROOTS, groups, read};
use std::path::Path;

/// In bytes; None where nobody knows.
pub fn memory_bytes() -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    let limit = |group: &Path, name: &str| read(&group.join(name))?.trim().parse::<u64>().ok();
    let v2 = groups("", V2_ROOTS);
    let v1 = groups("memory", &["/sys/fs/cgroup/memory"]);
    // "max" is no number, and no limit; that of version 1 is a number that no machine has.
    let limits = v2
        .iter()
        .filter_map(|g| limit(g, "memory.max"))
        .chain(v1.iter().filter_map(|g| limit(g, "memory.limit_in_bytes")));
    machine.into_iter().chain(limits).min()
}

fn total(meminfo: &str) -> Option<u64> {
    let kib = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    Some(kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory() {
        assert_eq!(total("MemTotal:       24576 kB\nMemFree: 5 kB\n"), Some(24 << 20));
        assert_eq!(total("MemFree: 5 kB\n"), None);
        let bytes = memory_bytes().expect("Linux tells");
        assert!((16 << 20..1 << 50).contains(&bytes), "{bytes}");
    }
}
