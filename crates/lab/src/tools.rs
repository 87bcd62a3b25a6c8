//! The programs that the lab drives, and the Debian packages that contain them.
use crate::failure::{Failure, Result};
use std::path::PathBuf;

/// A program with alternative names.
pub struct Tool {
    names: &'static [&'static str],
    package: &'static str,
}

pub const SETPRIV: Tool = Tool { names: &["setpriv"], package: "util-linux" };
pub const TASKSET: Tool = Tool { names: &["taskset"], package: "util-linux" };
pub const SYSBENCH: Tool = Tool { names: &["sysbench"], package: "sysbench" };
pub const SLAP: Tool = Tool { names: &["mariadb-slap", "mysqlslap"], package: "mariadb-client" };
pub const MARIADBD: Tool = Tool { names: &["mariadbd"], package: "mariadb-server-core" };
pub const MARIADB_INSTALL: Tool =
    Tool { names: &["mariadb-install-db"], package: "mariadb-server-core" };

impl Tool {
    fn find(&self) -> Option<String> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        // Servers are in folders that only root's PATH contains.
        let folders =
            std::env::split_paths(&folders).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
        folders
            .flat_map(|f| self.names.iter().map(move |n| f.join(n)))
            .find(|p| is_program(p))
            .map(|p| p.display().to_string())
    }
}

pub fn is_program(path: &std::path::Path) -> bool {
    use rustix::fs::{Access, access};
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// The paths of the tools, in the given order. An error says which packages to install.
pub fn need(tools: &[&Tool]) -> Result<Vec<String>> {
    let found: Vec<Option<String>> = tools.iter().map(|t| t.find()).collect();
    let missing: Vec<&&Tool> =
        tools.iter().zip(&found).filter(|(_, f)| f.is_none()).map(|(t, _)| t).collect();
    if missing.is_empty() {
        return Ok(found.into_iter().flatten().collect());
    }
    let names: Vec<&str> = missing.iter().map(|t| t.names[0]).collect();
    let mut packages: Vec<&str> = missing.iter().map(|t| t.package).collect();
    packages.sort_unstable();
    packages.dedup();
    Err(Failure::Failed(format!(
        "not on this machine: {}. On Debian and Ubuntu: apt-get install {}",
        names.join(", "),
        packages.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        assert!(need(&[&SETPRIV, &TASKSET]).unwrap()[0].ends_with("/setpriv"));
        let (a, b) = (
            Tool { names: &["no-such-a", "b"], package: "pack" },
            Tool { names: &["no-such-c"], package: "pack" },
        );
        let why = need(&[&a, &SETPRIV, &b]).unwrap_err().to_string();
        assert_eq!(
            why,
            "not on this machine: no-such-a, no-such-c. On Debian and Ubuntu: apt-get install pack"
        );
    }
}
