//! The servers of a run: Redolith, its peers and the baseline. Each runs on a scratch directory of
//! its own, all with equal settings.
use crate::child::{self, Child};
use crate::cores;
use crate::counters::Source;
use crate::cpu_quota::{CpuQuota, Group};
use crate::failure::{Failure, Result, failed};
use crate::machine;
use crate::stop::{LOOK, Stop};
use redolith_client::{Client, Place, error_code};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Redolith,
    MariaDb,
    MySql,
    /// The baseline: speaks the protocol, makes commits durable in groups, stores nothing
    /// (bench/baseline).
    Baseline,
}

/// A server that is to be started.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: &'static str,
    pub kind: Kind,
    /// The cores that it may use; all of them if empty.
    pub cores: Vec<usize>,
    /// Options beside those of all servers of this kind.
    pub more: &'static [&'static str],
}

/// Programs in unusual places.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    pub redolith: String,
    pub mariadbd: String,
    pub mariadb_install: String,
    pub taskset: String,
    pub baseline: String,
    pub mysqld: String,
    /// mysqld is in this root file system and runs in a chroot.
    pub mysql_root: Option<PathBuf>,
}

/// The folders of the servers.
pub struct Folders {
    /// For data, on the device that is measured.
    pub data: PathBuf,
    /// For sockets, whose paths hold 107 bytes at most.
    pub sockets: PathBuf,
    pub keep_data: bool,
}

pub struct Server {
    pub spec: Spec,
    pub version: String,
    /// The server's options, without its folders.
    pub options: Vec<String>,
    pub socket: PathBuf,
    child: Child,
    said: PathBuf,
    known: HashSet<String>,
    applied: Vec<String>,
    /// The fields below are dropped after the child, because a group with a process cannot be
    /// removed.
    _group: Option<Group>,
    scratch: Scratch,
}

/// Folders that are removed when this is dropped, even if the server never starts.
struct Scratch(Vec<PathBuf>);

impl Drop for Scratch {
    fn drop(&mut self) {
        for folder in &self.0 {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

const START_LIMIT: Duration = Duration::from_secs(120);
const END_LIMIT: Duration = Duration::from_secs(30);
const ER_UNKNOWN_SYSTEM_VARIABLE: u16 = 1193;

/// The settings of all servers. `pool` and the redo log of 1G hold all that a point writes, so that
/// the redo log is measured.
fn common(pool: &str) -> Vec<String> {
    let mut o: Vec<String> = [
        "innodb-log-buffer-size=64M",
        "innodb-flush-log-at-trx-commit=1",
        "innodb-doublewrite=ON",
        "max-connections=4000",
    ]
    .map(|o| format!("--{o}"))
    .into();
    o.push(format!("--innodb-buffer-pool-size={pool}"));
    o.extend(
        ["--max-prepared-stmt-count=1048576", "--character-set-server=latin1", "--skip-networking"]
            .map(String::from),
    );
    o
}

/// The options with which MySQL and MariaDB do the same work: no extra cost per query, and no file
/// handles closed and opened again.
const MYSQL_ALIKE: &[&str] = &[
    "--collation-server=latin1_swedish_ci",
    "--innodb-flush-method=O_DIRECT",
    "--innodb-adaptive-hash-index=OFF",
    "--innodb-change-buffering=none",
    "--innodb-io-capacity=2000",
    "--innodb-io-capacity-max=4000",
    "--performance-schema=OFF",
    "--back-log=4000",
    "--table-open-cache=7995",
    "--table-definition-cache=4000",
    "--open-files-limit=20000",
    "--skip-name-resolve",
];

impl Kind {
    fn options(self, pool: &str) -> Vec<String> {
        let own: &[&str] = match self {
            Kind::Baseline => return vec!["--pace-us=0".into()],
            Kind::Redolith => &["--innodb-redo-log-capacity=1G"],
            Kind::MariaDb => &["--innodb-log-file-size=1G", "--skip-ssl"],
            Kind::MySql => &[
                "--innodb-redo-log-capacity=1G",
                "--skip-log-bin",
                "--mysqlx=OFF",
                "--tls-version=",
                "--secure-file-priv=",
            ],
        };
        let alike = if self == Kind::Redolith { &[] } else { MYSQL_ALIKE };
        common(pool).into_iter().chain(alike.iter().chain(own).map(|o| o.to_string())).collect()
    }

    pub fn counters(self) -> Source {
        match self {
            Kind::Redolith | Kind::MySql => Source::Metrics,
            Kind::MariaDb => Source::Status,
            Kind::Baseline => Source::Nowhere,
        }
    }
}

fn as_root() -> Vec<String> {
    if rustix::process::getuid().is_root() { vec!["--user=root".into()] } else { Vec::new() }
}

/// The words before the options, and the folders with the paths that the server sees.
struct Start {
    words: Vec<String>,
    data: PathBuf,
    socket: PathBuf,
    /// The same folders with the paths outside a chroot.
    outer_data: PathBuf,
    outer_socket: PathBuf,
}

impl Spec {
    /// The server's name as part of a file's name.
    fn file(&self) -> String {
        self.name.replace([' ', ','], "-")
    }

    fn start(&self, programs: &Programs, folders: &Folders) -> Start {
        let file = self.file();
        let (data, socket) =
            (folders.data.join(&file), folders.sockets.join(format!("{file}.sock")));
        let mut words = Vec::new();
        if !self.cores.is_empty() {
            words.extend([programs.taskset.clone(), "-c".into(), cores::list(&self.cores)]);
        }
        let plain = |words, data: PathBuf, socket: PathBuf| Start {
            words,
            outer_data: data.clone(),
            outer_socket: socket.clone(),
            data,
            socket,
        };
        match self.kind {
            Kind::Redolith => words.extend([programs.redolith.clone(), "server".into()]),
            Kind::Baseline => words.push(programs.baseline.clone()),
            Kind::MariaDb => {
                words.extend([programs.mariadbd.clone(), "--no-defaults".into()]);
                words.extend(as_root());
            }
            Kind::MySql => {
                let root = programs.mysql_root.as_deref();
                let inside = |p: &Path| {
                    root.map_or(p.to_path_buf(), |r| {
                        Path::new("/").join(p.strip_prefix(r).unwrap_or(p))
                    })
                };
                let mysqld = inside(Path::new(&programs.mysqld)).display().to_string();
                words.extend(
                    root.map(|r| ["chroot".to_string(), r.display().to_string()])
                        .into_iter()
                        .flatten(),
                );
                words.extend([mysqld, "--no-defaults".into()]);
                words.extend(as_root());
                if let Some(root) = root {
                    let own =
                        Path::new("/tmp").join(format!("redolith-lab-{}", std::process::id()));
                    let outer = root.join(own.strip_prefix("/").unwrap_or(&own));
                    return Start {
                        words,
                        data: own.join("data"),
                        socket: own.join("s.sock"),
                        outer_data: outer.join("data"),
                        outer_socket: outer.join("s.sock"),
                    };
                }
            }
        }
        plain(words, data, socket)
    }
}

impl Server {
    /// Creates the server's data directory, starts the server, and waits until it answers.
    pub fn start(
        spec: Spec,
        pool: &str,
        quota: Option<&CpuQuota>,
        programs: &Programs,
        folders: &Folders,
        stop: &Stop,
    ) -> Result<Server> {
        let start = spec.start(programs, folders);
        let said = folders.data.join(format!("{}.out", spec.file()));
        // In a chroot, the folder above contains the socket too.
        let own = if programs.mysql_root.is_some() && spec.kind == Kind::MySql {
            start.outer_data.parent()
        } else {
            None
        };
        let own = own.unwrap_or(&start.outer_data).to_path_buf();
        let scratch = Scratch(if folders.keep_data { Vec::new() } else { vec![own] });
        fs::create_dir_all(start.outer_data.parent().unwrap_or(&start.outer_data))
            .map_err(failed(start.outer_data.display()))?;
        let data = format!("--datadir={}", start.data.display());
        initialise(&spec, &start, &data, programs, stop)?;
        let mut options = spec.kind.options(pool);
        options.extend(spec.more.iter().map(|o| o.to_string()));
        let words: Vec<String> = start
            .words
            .iter()
            .cloned()
            .chain([data, format!("--socket={}", start.socket.display())])
            .chain(options.iter().cloned())
            .collect();
        let group = quota.map(|q| q.group(&spec.file())).transpose()?;
        let words = match &group {
            Some(group) => group.around(words),
            None => words,
        };
        let child = Child::with_output_in(&words, &said)?;
        let (applied, known) = (Vec::new(), HashSet::new());
        let mut server = Server {
            spec,
            version: String::new(),
            options,
            socket: start.outer_socket,
            child,
            said,
            known,
            applied,
            _group: group,
            scratch,
        };
        server.wait_for_answer(stop)?;
        Ok(server)
    }

    fn wait_for_answer(&mut self, stop: &Stop) -> Result<()> {
        let until = Instant::now() + START_LIMIT;
        let mut why = String::new();
        while Instant::now() < until {
            if !self.child.alive() {
                return Err(Failure::Failed(format!(
                    "{} did not start:\n{}",
                    self.spec.name,
                    self.last_words()
                )));
            }
            match self.connect() {
                Ok(mut client) => {
                    let version = client
                        .query("SELECT VERSION()")
                        .ok()
                        .and_then(|rows| rows.into_iter().next()?.into_iter().next()?);
                    self.version = if self.spec.kind == Kind::Baseline {
                        "bench/baseline".into()
                    } else {
                        version.unwrap_or_default()
                    };
                    return Ok(());
                }
                Err(e) => why = e.to_string(),
            }
            stop.pause(LOOK)?;
        }
        Err(Failure::Failed(format!(
            "{} does not answer ({why}):\n{}",
            self.spec.name,
            self.last_words()
        )))
    }

    pub fn connect(&self) -> Result<Client> {
        Client::connect(&Place::Socket(self.socket.clone()), "root").map_err(failed(self.spec.name))
    }

    /// Connects for statements that may take this long.
    pub fn connect_for(&self, patience: Duration) -> Result<Client> {
        Client::connect_for(&Place::Socket(self.socket.clone()), "root", patience)
            .map_err(failed(self.spec.name))
    }

    /// Finds which of these variables the server has.
    pub fn learn(&mut self, variables: &[&str]) -> Result<()> {
        if self.spec.kind == Kind::Baseline {
            return Ok(());
        }
        let mut client = self.connect()?;
        for variable in variables {
            let answer = client.query(&format!("SELECT @@GLOBAL.{variable}"));
            let unknown = answer.is_err_and(|e| error_code(&e) == Some(ER_UNKNOWN_SYSTEM_VARIABLE));
            if !unknown {
                self.known.insert(variable.to_string());
            }
        }
        Ok(())
    }

    pub fn knows(&self, variable: &str) -> bool {
        self.known.contains(variable)
    }

    /// Runs the statements, unless they were the last that were applied.
    pub fn apply(&mut self, statements: &[String]) -> Result<()> {
        if self.applied == statements {
            return Ok(());
        }
        let mut client = self.connect()?;
        self.apply_by(&mut client, statements)
    }
    /// Applies the statements over an existing connection, because a new connection would wait
    /// behind the load. Leaves out those that are applied already.
    pub fn apply_by(&mut self, client: &mut Client, statements: &[String]) -> Result<()> {
        let before = std::mem::take(&mut self.applied);
        for s in statements.iter().filter(|s| !before.contains(s)) {
            client.query(s).map_err(failed(format!("{}: {s}", self.spec.name)))?;
        }
        self.applied = statements.to_vec();
        Ok(())
    }

    pub fn alive(&mut self) -> bool {
        self.child.alive()
    }
    pub fn cpu_time(&self) -> Duration {
        machine::cpu_time(self.child.pid())
    }

    /// The end of the server's output.
    pub fn last_words(&self) -> String {
        let said = fs::read(&self.said).unwrap_or_default();
        child::tail(&String::from_utf8_lossy(&said), 2000).to_string()
    }
}

impl Drop for Server {
    /// Kills the server, because its data is scratch. If the data is kept, shuts it down cleanly.
    fn drop(&mut self) {
        if self.scratch.0.is_empty() {
            self.child.end(END_LIMIT);
        }
        self.child.kill();
    }
}

/// Creates the data directory of a server that does not create it by itself.
fn initialise(
    spec: &Spec,
    start: &Start,
    data: &str,
    programs: &Programs,
    stop: &Stop,
) -> Result<()> {
    let words = match spec.kind {
        Kind::Redolith => return Ok(()),
        Kind::Baseline => {
            return fs::create_dir_all(&start.outer_data)
                .map_err(failed(start.outer_data.display()));
        }
        Kind::MariaDb => {
            let fixed = ["--auth-root-authentication-method=normal", "--skip-test-db", "--force"]
                .map(String::from);
            [programs.mariadb_install.clone(), "--no-defaults".into(), data.into()]
                .into_iter()
                .chain(as_root())
                .chain(fixed)
                .collect()
        }
        Kind::MySql => {
            [start.words.clone(), vec![data.into(), "--initialize-insecure".into()]].concat()
        }
    };
    child::run(&words, stop, START_LIMIT).map(|_| ())
}

/// A server is idle if it uses less than this share of a core.
const REST: f64 = 0.05;
const REST_STEP: Duration = Duration::from_millis(250);

/// Waits until all servers are idle, so that none works during another server's turn.
pub fn settle(servers: &[Server], limit: Duration, stop: &Stop) -> Result<()> {
    let until = Instant::now() + limit;
    let mut quiet = 0;
    while quiet < 2 && Instant::now() < until {
        let before: Vec<Duration> = servers.iter().map(Server::cpu_time).collect();
        stop.pause(REST_STEP)?;
        let busy = servers
            .iter()
            .zip(before)
            .any(|(s, b)| s.cpu_time().saturating_sub(b) > REST_STEP.mul_f64(REST));
        quiet = if busy { 0 } else { quiet + 1 };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysql_in_a_root_of_its_own_sees_other_paths() {
        let programs = Programs {
            mysqld: "/x/root/usr/sbin/mysqld".into(),
            mysql_root: Some("/x/root".into()),
            taskset: "taskset".into(),
            ..Programs::default()
        };
        let folders = Folders { data: "/d".into(), sockets: "/s".into(), keep_data: false };
        let s = Spec { name: "mysql", kind: Kind::MySql, cores: vec![0, 1], more: &[] }
            .start(&programs, &folders);
        assert_eq!(s.words[..6], ["taskset", "-c", "0-1", "chroot", "/x/root", "/usr/sbin/mysqld"]);
        assert_eq!(s.outer_data, Path::new("/x/root").join(s.data.strip_prefix("/").unwrap()));
        let plain = Programs { mysql_root: None, ..programs };
        let s = Spec { name: "mysql", kind: Kind::MySql, cores: vec![], more: &[] }
            .start(&plain, &folders);
        assert_eq!(
            (s.words[0].as_str(), s.data, s.socket),
            ("/x/root/usr/sbin/mysqld", "/d/mysql".into(), "/s/mysql.sock".into())
        );
    }

    #[test]
    fn all_commit_alike() {
        for kind in [Kind::Redolith, Kind::MariaDb, Kind::MySql] {
            let o = kind.options("1G");
            for must in [
                "--innodb-flush-log-at-trx-commit=1",
                "--innodb-doublewrite=ON",
                "--innodb-buffer-pool-size=1G",
                "--innodb-log-buffer-size=64M",
            ] {
                assert!(o.iter().any(|x| x == must), "{kind:?} {must}");
            }
        }
    }
}
