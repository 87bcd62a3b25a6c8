//! CPU quotas by control groups: the quota of `--cpu-quota`, and the quota of this process itself
//! (Linux: sched-bwc.rst, cgroup-v2.rst).
//!
//! - **QUOTA-1** A server is in its group before it is executed, so each of its threads is in the
//!   group. The client never is.
//! - **QUOTA-2** A group is removed once its server has ended. A group that a killed lab has left
//!   is removed by the next lab that makes a group.
//!
//! Version 1 has a tree of groups for each controller. There the group is made for `cpuacct` too,
//! because servers read their CPU usage from it.
use crate::failure::{Failure, Result, failed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

const PERIOD_US: u64 = 100_000;
const PREFIX: &str = "redolith-lab-";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

/// A mounted tree of groups.
#[derive(Clone, PartialEq, Debug)]
struct Tree {
    version: Version,
    mount: PathBuf,
    /// The group of this process.
    own: PathBuf,
}

/// The tree that has this controller (version 1), or the tree of version 2.
fn tree(mounts: &str, groups: &str, controller: Option<&str>) -> Option<Tree> {
    let mount = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let (place, kind): (Vec<&str>, Vec<&str>) =
            (place.split(' ').collect(), kind.split(' ').collect());
        let wanted = match controller {
            Some(name) => *kind.first()? == "cgroup" && kind.get(2)?.split(',').any(|o| o == name),
            None => *kind.first()? == "cgroup2",
        };
        wanted.then(|| Some((place.get(3)?.to_string(), PathBuf::from(place.get(4)?)))).flatten()
    };
    let group = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let wanted = controller
            .map_or(controllers.is_empty(), |name| controllers.split(',').any(|c| c == name));
        wanted.then(|| path.to_string())
    };
    let (root, mount) = mounts.lines().find_map(mount)?;
    let path = groups.lines().find_map(group)?;
    // In a container the mount may show only a part of the tree.
    let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or("").trim_start_matches('/');
    let version = if controller.is_some() { Version::V1 } else { Version::V2 };
    Some(Tree {
        version,
        own: if below.is_empty() { mount.clone() } else { mount.join(below) },
        mount,
    })
}

fn tree_here(controller: Option<&str>) -> Option<Tree> {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
    tree(&read("mountinfo")?, &read("cgroup")?, controller)
}

/// The CPUs that its control groups allow this process. `None` if there is no limit.
pub fn of_this_process() -> Option<f64> {
    let trees = [tree_here(Some("cpu")), tree_here(None)].into_iter().flatten();
    trees
        .flat_map(|t| {
            t.own
                .ancestors()
                .take_while(|g| g.starts_with(&t.mount))
                .filter_map(allowed)
                .collect::<Vec<_>>()
        })
        .reduce(f64::min)
}

fn allowed(group: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    if let Some(max) = read("cpu.max") {
        let (quota, period) = max.trim().split_once(' ')?;
        return Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?);
    }
    let number = |name: &str| read(name)?.trim().parse::<f64>().ok();
    Some(number("cpu.cfs_quota_us").filter(|q| *q > 0.0)? / number("cpu.cfs_period_us")?)
}

/// `--cpu-quota`: the folder in which groups are made, and the CPUs of each group.
pub struct CpuQuota {
    cpus: f64,
    version: Version,
    /// The parent of the groups.
    parent: PathBuf,
    /// The parent in the tree of `cpuacct`, if that is another tree.
    accounts: Option<PathBuf>,
}

const RIGHTS: &str = "it takes root, or a control group that is delegated to this user \
    (systemd-run --user --scope --property=Delegate=yes redolith lab ...), \
                      and a cgroup file system that is mounted for writing";

impl CpuQuota {
    /// Finds where groups can be made, and makes one, so that errors are reported before any server
    /// is started.
    pub fn find(cpus: f64) -> Result<CpuQuota> {
        let (one, two) = (tree_here(Some("cpu")), tree_here(None));
        let quota = match (one, two) {
            (Some(tree), _) => {
                let below = tree.own.strip_prefix(&tree.mount).unwrap_or(Path::new(""));
                let accounts = tree_here(Some("cpuacct"))
                    .filter(|a| a.mount != tree.mount)
                    .map(|a| a.mount.join(below))
                    .filter(|a| a.is_dir());
                CpuQuota { cpus, version: Version::V1, parent: tree.own, accounts }
            }
            (None, Some(tree)) => {
                CpuQuota { cpus, version: Version::V2, parent: delegating(&tree)?, accounts: None }
            }
            (None, None) => {
                return Err(Failure::Failed(
                    "--cpu-quota: no control groups for CPU are mounted. As root: mount -t cgroup2 \
                        none /sys/fs/cgroup, or for version 1: \
                     mkdir -p /sys/fs/cgroup/cpu && mount -t cgroup -o cpu none /sys/fs/cgroup/cpu"
                        .into(),
                ));
            }
        };
        quota.sweep();
        quota.group("probe")?;
        Ok(quota)
    }

    pub fn describe(&self) -> String {
        let version =
            if self.version == Version::V1 { "v1, cpu.cfs_quota_us" } else { "v2, cpu.max" };
        let unit = if self.cpus == 1.0 { "CPU" } else { "CPUs" };
        format!(
            "{} {unit} (cgroup {version}: {} of each {PERIOD_US} us); the client is outside of it",
            self.cpus,
            self.quota_us()
        )
    }

    fn quota_us(&self) -> u64 {
        (self.cpus * PERIOD_US as f64).round() as u64
    }

    fn parents(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.parent).chain(&self.accounts)
    }

    /// A new group, with the quota set.
    pub fn group(&self, name: &str) -> Result<Group> {
        let mut group = Group { folders: Vec::new() };
        for parent in self.parents() {
            let folder = parent.join(format!("{PREFIX}{}-{name}", process::id()));
            fs::create_dir(&folder).map_err(|e| {
                Failure::Failed(format!(
                    "--cpu-quota: making the control group {}: {e}; {RIGHTS}",
                    folder.display()
                ))
            })?;
            group.folders.push(folder);
        }
        let settings = match self.version {
            Version::V1 => [
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", self.quota_us().to_string()),
            ]
            .to_vec(),
            Version::V2 => [("cpu.max", format!("{} {PERIOD_US}", self.quota_us()))].to_vec(),
        };
        for (file, value) in settings {
            let file = group.folders[0].join(file);
            fs::write(&file, &value)
                .map_err(failed(format!("--cpu-quota: writing {value} to {}", file.display())))?;
        }
        Ok(group)
    }

    /// Removes the groups that killed labs have left (QUOTA-2).
    fn sweep(&self) {
        for group in self.parents().filter_map(|p| fs::read_dir(p).ok()).flatten().flatten() {
            let name = group.file_name().to_string_lossy().into_owned();
            let lab = name
                .strip_prefix(PREFIX)
                .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
            if lab.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                let _ = fs::remove_dir(group.path());
            }
        }
    }
}

/// The nearest group, from this process's own group upwards, whose children may have a quota. A
/// group that contains processes cannot have such children.
fn delegating(tree: &Tree) -> Result<PathBuf> {
    let lists = |group: &Path, file: &str| {
        fs::read_to_string(group.join(file)).is_ok_and(|l| l.split_whitespace().any(|c| c == "cpu"))
    };
    let mut why = format!("{} has no cpu controller (cgroup.controllers)", tree.own.display());
    for group in tree
        .own
        .ancestors()
        .take_while(|g| g.starts_with(&tree.mount))
        .filter(|g| lists(g, "cgroup.controllers"))
    {
        let control = group.join("cgroup.subtree_control");
        if lists(group, "cgroup.subtree_control") {
            return Ok(group.to_path_buf());
        }
        match fs::write(&control, "+cpu") {
            Ok(()) => return Ok(group.to_path_buf()),
            Err(e) => why = format!("writing +cpu to {}: {e}", control.display()),
        }
    }
    Err(Failure::Failed(format!("--cpu-quota: {why}; {RIGHTS}")))
}

/// A group of one server.
pub struct Group {
    folders: Vec<PathBuf>,
}

impl Group {
    /// Wraps the command so that it runs inside the group (QUOTA-1): a shell enters the group and
    /// then executes the command.
    pub fn around(&self, words: Vec<String>) -> Vec<String> {
        const ENTER: &str = "echo $$ > \"$0\" && exec \"$@\"";
        self.folders.iter().fold(words, |words, folder| {
            let shell = [
                "/bin/sh".into(),
                "-c".into(),
                ENTER.into(),
                folder.join("cgroup.procs").display().to_string(),
            ];
            shell.into_iter().chain(words).collect()
        })
    }
}

impl Drop for Group {
    /// An ended process may stay in its group for a moment, so the removal is retried.
    fn drop(&mut self) {
        for folder in &self.folders {
            for _ in 0..100 {
                if fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child;
    use crate::stop::Stop;

    const HYBRID: &str = "30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n31 30 0:27 / \
        /sys/fs/cgroup/unified rw,relatime shared:3 - cgroup2 cgroup2 rw\n\
                          35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:7 - cgroup cgroup \
                          rw,cpu,cpuacct\n";

    #[test]
    fn trees_are_found_where_they_are_mounted() {
        let groups = "5:cpu,cpuacct:/user/a\n4:memory:/x\n0::/user.slice/b\n";
        let one = tree(HYBRID, groups, Some("cpu")).unwrap();
        assert_eq!(
            (one.version, one.own),
            (Version::V1, "/sys/fs/cgroup/cpu,cpuacct/user/a".into())
        );
        let two = tree(HYBRID, groups, None).unwrap();
        assert_eq!(
            (two.version, two.own),
            (Version::V2, "/sys/fs/cgroup/unified/user.slice/b".into())
        );
        assert_eq!(tree(HYBRID, groups, Some("memory")), None);
        assert_eq!(tree("", groups, None), None);
        // A container sees its own group at the mount.
        let inside = "35 30 0:31 /docker/7 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(
            tree(inside, "5:cpu:/docker/7\n", Some("cpu")).unwrap().own,
            Path::new("/sys/fs/cgroup/cpu")
        );
    }

    #[test]
    fn quotas_are_read_in_both_versions() {
        let dir = std::env::temp_dir().join(format!("redolith-lab-quota-{}", process::id()));
        fs::create_dir_all(&dir).unwrap();
        let put = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
        assert_eq!(allowed(&dir), None);
        put("cpu.cfs_quota_us", "-1\n");
        put("cpu.cfs_period_us", "100000\n");
        assert_eq!(allowed(&dir), None);
        put("cpu.cfs_quota_us", "150000\n");
        assert_eq!(allowed(&dir), Some(1.5));
        put("cpu.max", "max 100000\n");
        assert_eq!(allowed(&dir), None);
        put("cpu.max", "50000 100000\n");
        assert_eq!(allowed(&dir), Some(0.5));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn version_two_has_its_groups_where_the_controller_is_handed_down() {
        let mount = std::env::temp_dir().join(format!("redolith-lab-trees-{}", process::id()));
        let (slice, own) = (mount.join("slice"), mount.join("slice/own"));
        fs::create_dir_all(&own).unwrap();
        let tree = Tree { version: Version::V2, mount: mount.clone(), own: own.clone() };
        let why = delegating(&tree).unwrap_err().to_string();
        assert!(
            why.contains("slice/own has no cpu controller (cgroup.controllers)")
                && why.contains("it takes root"),
            "{why}"
        );
        for group in [&own, &slice, &mount] {
            fs::write(group.join("cgroup.controllers"), "cpuset cpu memory\n").unwrap();
        }
        // A group with processes cannot delegate the controller. Here a folder in place of the file
        // makes the write fail in the same way.
        fs::create_dir(own.join("cgroup.subtree_control")).unwrap();
        fs::write(slice.join("cgroup.subtree_control"), "memory cpu\n").unwrap();
        assert_eq!(delegating(&tree).unwrap(), slice);
        fs::write(slice.join("cgroup.subtree_control"), "memory cpuset\n").unwrap();
        assert_eq!(delegating(&tree).unwrap(), slice);
        assert_eq!(fs::read_to_string(slice.join("cgroup.subtree_control")).unwrap(), "+cpu");
        fs::remove_dir_all(mount).unwrap();
    }

    /// Tests QUOTA-1 and QUOTA-2.
    #[test]
    fn a_command_is_in_its_group_and_the_group_goes_with_it() {
        let quota = match CpuQuota::find(0.5) {
            Ok(quota) => quota,
            // Without the right to make groups, the error must say so.
            Err(why) => return assert!(why.to_string().starts_with("--cpu-quota: "), "{why}"),
        };
        assert!(
            quota.describe().starts_with("0.5 CPUs (cgroup v")
                && quota.describe().contains("50000 of each 100000 us")
        );
        let group = quota.group("test").unwrap();
        let folders = group.folders.clone();
        assert_eq!(allowed(&folders[0]), Some(0.5));
        let words = ["cat", "/proc/self/cgroup"].map(String::from).to_vec();
        let said =
            child::run(&group.around(words), &Stop::default(), Duration::from_secs(20)).unwrap();
        assert_eq!(
            said.matches(&format!("{PREFIX}{}-test\n", process::id())).count(),
            folders.len(),
            "{said}"
        );
        drop(group);
        assert!(folders.iter().all(|f| !f.exists()));
    }
}
