//! How much memory this process may use: the machine's memory, or less where a control group has a
//! limit (cgroup v2 `memory.max`; v1 `memory.limit_in_bytes`; Linux,
//! Documentation/admin-guide/cgroup-v2.rst), and how much of it is left.
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

/// The bytes that this process may still take without swapping; `None` where the system does not
/// say. What files occupy in the page cache counts as free, because the system gives it up first.
pub fn available_memory_bytes() -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| kib_of(&text, "MemAvailable:"));
    let v2 = groups("", V2_ROOTS);
    let v1 = groups("memory", &["/sys/fs/cgroup/memory"]);
    let left = v2.iter().filter_map(|g| left_in(g, ["memory.max", "memory.current"], "")).chain(
        v1.iter().filter_map(|g| {
            left_in(g, ["memory.limit_in_bytes", "memory.usage_in_bytes"], "total_")
        }),
    );
    machine.into_iter().chain(left).min()
}
/// What a control group has left, whose limit and use these files say. `prefix` is that of the
/// fields of `memory.stat` that count the groups within, too.
fn left_in(group: &Path, [limit, used]: [&str; 2], prefix: &str) -> Option<u64> {
    let number = |name: &str| read(&group.join(name))?.trim().parse::<u64>().ok();
    let stat = read(&group.join("memory.stat")).unwrap_or_default();
    let cache = ["inactive_file", "active_file"].map(|name| {
        let field = format!("{prefix}{name} ");
        let found = stat.lines().find_map(|l| l.strip_prefix(&field)?.trim().parse::<u64>().ok());
        found.unwrap_or(0)
    });
    let taken = number(used)?.saturating_sub(cache.iter().sum());
    Some(number(limit)?.saturating_sub(taken))
}

fn total(meminfo: &str) -> Option<u64> {
    kib_of(meminfo, "MemTotal:")
}
/// The bytes of a line of /proc/meminfo.
fn kib_of(meminfo: &str, name: &str) -> Option<u64> {
    let kib = meminfo.lines().find_map(|l| l.strip_prefix(name))?;
    kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
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
        let available = available_memory_bytes().expect("Linux tells");
        assert!(available > 0 && available <= bytes, "{available} of {bytes}");
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // the files stand for those of the kernel
    fn a_control_group_has_what_its_limit_leaves() {
        let dir = crate::test_dir::Dir::new();
        let put = |name: &str, text: &str| std::fs::write(dir.path(name), text).unwrap();
        let v2 = || left_in(&dir.0, ["memory.max", "memory.current"], "");
        assert_eq!(v2(), None);
        put("memory.max", "max\n");
        put("memory.current", "700\n");
        assert_eq!(v2(), None);
        put("memory.max", "1000\n");
        assert_eq!(v2(), Some(300));
        put("memory.stat", "anon 500\ninactive_file 80\nactive_file 20\ninactive_file_x 7\n");
        assert_eq!(v2(), Some(400));
        put("memory.max", "500\n");
        assert_eq!(v2(), Some(0));
        put("limit", "1000");
        put("memory.stat", "inactive_file 1\ntotal_inactive_file 50\ntotal_active_file 50\n");
        assert_eq!(left_in(&dir.0, ["limit", "memory.current"], "total_"), Some(400));
    }
}
