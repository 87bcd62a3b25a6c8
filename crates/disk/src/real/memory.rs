//! How much memory this process may use: the machine's memory, or less where a control group has a
//! limit (cgroup v2 `memory.max`; v1 `memory.limit_in_bytes`; Linux,
//! Documentation/admin-guide/cgroup-v2.rst).
use super::processors::{V2_ROOTS, groups, read};
use std::path::Path;

/// The memory in bytes; `None` where the system does not say.
pub fn memory_bytes() -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    let limit = |group: &Path, name: &str| read(&group.join(name))?.trim().parse::<u64>().ok();
    let v2 = groups("", V2_ROOTS);
    let v1 = groups("memory", &["/sys/fs/cgroup/memory"]);
    // Version 2 without a limit says "max", which does not parse; version 1 gives a number above
    // any machine's memory.
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
