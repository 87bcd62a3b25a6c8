//! A run: starts the servers, measures the points in turn, and keeps the results whatever happens.
use crate::binlog;
use crate::child;
use crate::copy::{self, CopyLoad};
use crate::cpu_quota::CpuQuota;
use crate::doublewrite;
use crate::failure::{Failure, Result, failed};
use crate::insert;
use crate::machine::{self, Device};
use crate::options::{Options, Study};
use crate::point::{Run, SlapLoad, SysbenchLoad};
use crate::redo::{self, Facts};
use crate::report;
use crate::results::{Figures, Load, Point, Results, ServerInfo};
use crate::schedule::{Estimate, Job, Windows, shared, short};
use crate::screen::Screen;
use crate::servers::{self, Folders, Kind, Programs, Server, Spec};
use crate::slap;
use crate::stop::Stop;
use crate::sysbench::{self, Shape};
use crate::tools;
use crate::writers;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A quick run starts no point that would end later than this, and stops a point that runs longer.
/// The limit is three minutes, less the time for stopping and writing.
const QUICK_LIMIT: Duration = Duration::from_secs(165);
const POINT_LIMIT: Duration = Duration::from_secs(3600);
const PREPARE_LIMIT: Duration = Duration::from_secs(3600);
/// The longest wait for servers to become idle before a point.
const SETTLE_LIMIT: Duration = Duration::from_secs(20);
const SETTLE_LIMIT_QUICK: Duration = Duration::from_secs(3);

pub struct Bench {
    o: Options,
    stop: Stop,
    screen: Screen,
    began: Instant,
    programs: Programs,
    /// sysbench or mysqlslap.
    load: String,
    folders: Folders,
    quota: Option<CpuQuota>,
    dir: PathBuf,
    device: Device,
    servers: Vec<Server>,
    /// The servers whose tables have lost or gained rows (`sysbench::wears`).
    worn: Vec<bool>,
    results: Results,
    /// The number of notes that have been printed on the screen.
    said: usize,
}

fn title(study: Study) -> &'static str {
    match study {
        Study::Redo => "The redo log: who writes it, on which cores, with purge and without",
        Study::Writers => "innodb_log_writer_threads: ON, OFF, auto",
        Study::Binlog => "The binary log: on and off, by connections",
        Study::Doublewrite => "Torn pages: what protection costs beyond the buffer pool",
        Study::Insert => "Parallel insert: INSERT .. SELECT by several sessions",
    }
}

impl Bench {
    pub fn new(o: Options, command: String, stop: Stop) -> Result<Bench> {
        let began = Instant::now();
        let (load, programs) = find_programs(&o)?;
        let quota = o.cpu_quota.map(CpuQuota::find).transpose()?;
        raise_file_limit();
        let stamp = crate::clock::stamp();
        let dir = o.dir.join(format!("{}-{stamp}", o.study.word()));
        let sockets = std::env::temp_dir().join(format!("redolith-lab-{}", std::process::id()));
        for folder in [&dir.join("data"), &sockets] {
            fs::create_dir_all(folder).map_err(failed(folder.display()))?;
        }
        let dir = fs::canonicalize(&dir).map_err(failed(dir.display()))?;
        let device = Device::below(&dir);
        let mut machine = machine::about(&dir, &device);
        machine.insert(0, ("date".into(), crate::clock::day(&stamp)));
        machine
            .extend(quota.iter().map(|q| ("CPU quota of each server".to_string(), q.describe())));
        let mut results = Results {
            study: o.study.word().into(),
            title: title(o.study).into(),
            command,
            machine,
            load: about_load(&o),
            ..Results::default()
        };
        if o.peers.contains(&crate::options::Peer::MySql)
            && programs
                .mysql_root
                .as_ref()
                .is_some_and(|root| !machine::same_device(&root.join("tmp"), &dir))
        {
            results.notes.push(
                "mysql: its data are below --mysql-root, on another device than the others'. \
                    Its flushes are not counted."
                    .into(),
            );
        }
        let folders = Folders { data: dir.join("data"), sockets, keep_data: o.keep_data };
        Ok(Bench {
            stop,
            screen: Screen::default(),
            began,
            programs,
            load,
            folders,
            quota,
            device,
            servers: Vec::new(),
            worn: Vec::new(),
            results,
            said: 0,
            dir,
            o,
        })
    }

    /// Runs to the end, or until the run is stopped. In both cases the results are written.
    pub fn run(mut self) -> Result<()> {
        let done = self.measure();
        self.results.finished = done.is_ok();
        match &done {
            Ok(()) => {}
            Err(Failure::Stopped) => self.results.notes.push("Stopped before its end.".into()),
            Err(Failure::Failed(why)) => {
                self.results.notes.push(format!("The study ended early: {why}"));
                // The caller reports the error.
                self.said = self.results.notes.len();
            }
        }
        self.screen.now("stopping the servers");
        self.servers.clear();
        let _ = fs::remove_dir_all(&self.folders.sockets);
        if !self.o.keep_data {
            let _ = fs::remove_dir_all(&self.folders.data);
        }
        self.write()?;
        self.screen.line("");
        self.screen.line(&report::summary(&self.results));
        for note in &self.results.notes[self.said.min(self.results.notes.len())..] {
            self.screen.line(&format!("note: {note}"));
        }
        self.screen.line(&format!(
            "after {}: {}",
            short(self.began.elapsed()),
            from_here(&self.dir.join("report.html")).display()
        ));
        done
    }

    fn measure(&mut self) -> Result<()> {
        let cores = machine::cores();
        let specs = match self.o.study {
            Study::Redo => redo::specs(&self.o, &cores),
            Study::Writers => writers::specs(&self.o),
            Study::Binlog => binlog::specs(&self.o),
            Study::Doublewrite => doublewrite::specs(&self.o),
            Study::Insert => insert::specs(&self.o),
        };
        let longest = self.longest_guess(&specs);
        self.screen.line(&format!(
            "about {}; results in {}",
            short(longest),
            from_here(&self.dir).display()
        ));
        for spec in specs {
            self.start(spec)?;
        }
        let facts: Vec<Facts> = self.servers.iter().map(Facts::of).collect();
        let jobs = match self.o.study {
            Study::Redo => redo::plan(&self.o, &cores, &facts, &mut self.results),
            Study::Writers => writers::plan(&self.o, &facts, &mut self.results),
            Study::Binlog => binlog::plan(&self.o, &facts, &mut self.results),
            Study::Doublewrite => doublewrite::plan(&self.o, &facts, &mut self.results),
            Study::Insert => insert::plan(&self.o, &facts, &mut self.results),
        };
        for note in &self.results.notes {
            self.screen.line(&format!("note: {note}"));
        }
        self.said = self.results.notes.len();
        self.points(&jobs)
    }

    /// Guesses the duration before the servers have started, as if all were available.
    fn longest_guess(&self, specs: &[Spec]) -> Duration {
        let facts: Vec<Facts> = specs
            .iter()
            .map(|s| Facts { name: s.name, kind: s.kind, knows: redo::VARIABLES.to_vec() })
            .collect();
        let jobs = match self.o.study {
            Study::Redo => redo::plan(&self.o, &machine::cores(), &facts, &mut Results::default()),
            Study::Writers => writers::plan(&self.o, &facts, &mut Results::default()),
            Study::Binlog => binlog::plan(&self.o, &facts, &mut Results::default()),
            Study::Doublewrite => doublewrite::plan(&self.o, &facts, &mut Results::default()),
            Study::Insert => insert::plan(&self.o, &facts, &mut Results::default()),
        };
        let rows = f64::from(self.o.tables) * f64::from(self.o.table_size);
        let prepare = match self.o.study.load() {
            Load::Sysbench => Duration::from_secs_f64(rows / redo::LOADED_PER_S + 1.0),
            Load::Copy => insert::prepare(&self.o),
            Load::Slap => Duration::ZERO,
        };
        self.groups(&jobs).into_iter().map(|g| self.expected(g)).sum::<Duration>()
            + (prepare + Duration::from_secs(2)) * specs.len() as u32
    }

    fn start(&mut self, spec: Spec) -> Result<()> {
        self.screen.now(&format!("starting {}", spec.name));
        let pool = match self.o.study {
            Study::Doublewrite => doublewrite::pool(&self.o, spec.name),
            _ => self.o.pool.clone(),
        };
        let mut server = Server::start(
            spec,
            &pool,
            self.quota.as_ref(),
            &self.programs,
            &self.folders,
            &self.stop,
        )?;
        server.learn(redo::VARIABLES)?;
        if server.spec.kind == Kind::MySql {
            server
                .connect()?
                .query("SET GLOBAL innodb_monitor_enable = module_log")
                .map_err(failed("mysql: innodb_monitor_enable"))?;
        }
        if self.o.study.load() == Load::Sysbench && server.spec.kind != Kind::Baseline {
            self.screen.now(&format!(
                "loading {} tables of {} rows into {}",
                self.o.tables, self.o.table_size, server.spec.name
            ));
            server
                .connect()?
                .query(&format!("CREATE DATABASE {}", sysbench::SCHEMA))
                .map_err(failed(server.spec.name))?;
            self.tables(&server, "prepare")?;
        }
        if self.o.study == Study::Insert {
            self.screen.now(&format!("filling the sources of {}", server.spec.name));
            copy::fill(&server, &self.o, &self.stop)?;
        }
        let cores = crate::cores::list(&server.spec.cores);
        self.results.servers.push(ServerInfo {
            name: server.spec.name.into(),
            version: server.version.clone(),
            options: server.options.clone(),
            cores,
        });
        self.servers.push(server);
        self.worn.push(false);
        Ok(())
    }

    /// Runs sysbench: `prepare` creates and fills the tables, `cleanup` drops them.
    fn tables(&self, server: &Server, verb: &str) -> Result<()> {
        let threads = self.o.tables.min(machine::cores().len() as u32);
        let words = sysbench::command(
            &self.load,
            sysbench::SCRIPTS[0],
            &server.socket,
            self.shape(),
            threads,
            &[],
            verb,
        );
        let out = child::run(&words, &self.stop, self.at_most(PREPARE_LIMIT))?;
        if out.contains("FATAL") {
            return Err(Failure::Failed(format!(
                "{verb}, {}: {}",
                server.spec.name,
                child::tail(&out, 500)
            )));
        }
        Ok(())
    }

    /// Restores the tables, so that every point begins with the same rows.
    fn repair_tables(&mut self, job: &Job) -> Result<()> {
        if self.worn[job.server] {
            self.tables(&self.servers[job.server], "cleanup")?;
            self.tables(&self.servers[job.server], "prepare")?;
        }
        let script = &self.results.sections[job.section].script;
        self.worn[job.server] =
            sysbench::wears(script) && self.servers[job.server].spec.kind != Kind::Baseline;
        Ok(())
    }

    /// The limit, or the time that is left of a quick run if that is less.
    fn at_most(&self, limit: Duration) -> Duration {
        if self.o.quick {
            limit.min(QUICK_LIMIT.saturating_sub(self.began.elapsed()))
        } else {
            limit
        }
    }

    fn shape(&self) -> Shape {
        Shape { tables: self.o.tables, table_size: self.o.table_size }
    }

    fn points(&mut self, jobs: &[Job]) -> Result<()> {
        let (mut estimate, mut gone) = (Estimate::default(), vec![false; self.servers.len()]);
        let groups = self.groups(jobs);
        for (i, group) in groups.iter().enumerate() {
            let job = &group[0];
            if gone[job.server] {
                continue;
            }
            if self.o.quick
                && self.began.elapsed() + estimate.of(self.expected(group)) > QUICK_LIMIT
            {
                self.results.notes.push(format!(
                    "{} of {} points are left out: a quick run ends within three minutes.",
                    groups[i..].iter().map(|g| g.len()).sum::<usize>(),
                    jobs.len()
                ));
                break;
            }
            let left =
                groups[i..].iter().filter(|g| !gone[g[0].server]).map(|g| self.expected(g)).sum();
            let left = short(estimate.of(left));
            self.screen.now(&self.head(&left, job));
            let began = Instant::now();
            let taken = self.measured(group);
            estimate.learn(self.expected(group), began.elapsed());
            let (all, error) = match taken {
                Ok(all) => (all.into_iter().map(Some).collect(), String::new()),
                Err(Failure::Stopped) => return Err(Failure::Stopped),
                Err(Failure::Failed(why)) => (vec![None; group.len()], why),
            };
            let name = self.servers[job.server].spec.name.to_string();
            for (job, figures) in group.iter().zip(all) {
                self.screen.line(&format!(
                    "{}  {}{error}",
                    self.head(&left, job),
                    figures.as_ref().map_or(String::new(), one_line)
                ));
                let section = &self.results.sections[job.section];
                let (section, row, column) = (
                    section.id.clone(),
                    section.rows[job.row].clone(),
                    section.columns[job.column].clone(),
                );
                let (connections, server, error, turn) =
                    (job.connections, name.clone(), error.clone(), job.turn);
                self.results.points.push(Point {
                    section,
                    row,
                    column,
                    connections,
                    server,
                    turn,
                    figures,
                    error,
                });
            }
            let server = &mut self.servers[job.server];
            if !server.alive() {
                gone[job.server] = true;
                self.results.notes.push(format!(
                    "{name} ended by itself; its later points are left out. It said: {}",
                    server.last_words()
                ));
            }
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        match self.o.study {
            Study::Binlog => self.results.checks = binlog::checks(&self.results),
            Study::Doublewrite => self.results.checks = doublewrite::checks(&self.results),
            Study::Insert => self.results.checks = insert::checks(&self.results),
            Study::Redo | Study::Writers => {}
        }
        report::write(&self.results, &self.dir)
    }

    fn groups<'a>(&self, jobs: &'a [Job]) -> Vec<&'a [Job]> {
        match self.o.study.load() {
            Load::Sysbench => shared(jobs),
            // One run of mysqlslap is one point, and so is one copy of a table.
            Load::Slap | Load::Copy => jobs.chunks(1).collect(),
        }
    }

    fn expected(&self, group: &[Job]) -> Duration {
        if self.o.study.load() == Load::Copy {
            return group.iter().map(|job| job.expected).sum();
        }
        let windows = |rows| Windows::new(rows, self.o.time_s, group[0].connections).all();
        group[0].expected + windows(group.len()) - windows(1)
    }

    fn head(&self, left: &str, job: &Job) -> String {
        let section = &self.results.sections[job.section];
        let width = section.rows.iter().map(|r| r.chars().count()).max().unwrap_or(0);
        let id_width = self.results.sections.iter().map(|s| s.id.len()).max().unwrap_or(0);
        let (id, row, column) = (&section.id, &section.rows[job.row], &section.columns[job.column]);
        format!("{left:>7} left  {id:id_width$} {row:width$} {column:>9}")
    }

    fn measured(&mut self, group: &[Job]) -> Result<Vec<Figures>> {
        let job = &group[0];
        self.repair_tables(job)?;
        // The statements come before the wait: if purge is switched on again, it works off its
        // backlog now and not in the windows.
        self.servers[job.server].apply(&job.setup)?;
        let copy = (self.o.study == Study::Insert)
            .then(|| CopyLoad::of(&self.results.sections[job.section], job, &self.o));
        if let Some(copy) = &copy {
            copy.make_target(&self.servers[job.server])?;
        }
        servers::settle(
            &self.servers,
            if self.o.quick { SETTLE_LIMIT_QUICK } else { SETTLE_LIMIT },
            &self.stop,
        )?;
        let (shape, limit) = (self.shape(), self.at_most(POINT_LIMIT));
        let server = &mut self.servers[job.server];
        match self.o.study.load() {
            Load::Sysbench => {
                let script = &self.results.sections[job.section].script;
                let load = SysbenchLoad {
                    program: &self.load,
                    script,
                    shape,
                    warmup_s: self.o.warmup_s,
                    time_s: self.o.time_s,
                    limit,
                };
                let settings = group.iter().map(|j| &j.setup[..]).collect();
                let run = Run { connections: job.connections, turn: job.turn, settings };
                load.measure(server, &run, &self.device, &self.stop)
            }
            Load::Slap => {
                let load = SlapLoad {
                    program: &self.load,
                    connections: job.connections,
                    writes: self.o.writes,
                    limit,
                };
                Ok(vec![load.measure(server, &self.device, &self.stop)?])
            }
            Load::Copy => {
                let load = copy.expect("a study of copies has copies");
                Ok(vec![load.measure(server, &self.device, &self.stop, limit)?])
            }
        }
    }
}

fn one_line(f: &Figures) -> String {
    let what = match (f.seconds, f.p95_ms) {
        (Some(s), _) => format!("{s:8.2} s {:9.0} per s", f.per_s),
        (None, p95) => format!("{:8.0} txn/s  p95 {:7.2} ms", f.per_s, p95.unwrap_or(0.0)),
    };
    let flushes = f.flushes.map_or(String::new(), |n| format!("  {n:.3} flushes"));
    format!("{what}  server {:6.1} us{flushes}", f.server_us)
}

fn about_load(o: &Options) -> Vec<(String, String)> {
    let mut about = match o.study.load() {
        Load::Sysbench => vec![
            (
                "load".to_string(),
                format!(
                    "sysbench {}, uniform keys, {} tables x {} rows",
                    o.scripts.join(", "),
                    o.tables,
                    o.table_size
                ),
            ),
            ("measured".into(), about_windows(o)),
        ],
        Load::Slap => vec![("load".to_string(), slap::as_typed(o.writes))],
        Load::Copy => vec![("load".to_string(), insert::about(o))],
    };
    about.push(("turns".into(), format!("{}, rows in turn (A B A B)", o.repeat)));
    about.push(("client".into(), "on the same machine, on all cores".into()));
    about
}

fn about_windows(o: &Options) -> String {
    // The rows of one load are the modes, or what is set while the binary log is on.
    let rows = match o.study {
        Study::Binlog => binlog::MOST_ROWS,
        // Each row has a server of its own.
        Study::Doublewrite | Study::Insert => 1,
        Study::Redo | Study::Writers => o.modes.len(),
    };
    let w = Windows::new(rows, o.time_s, 1);
    let each = if w.rounds > 1 {
        format!("{} windows of {} s for each row", w.rounds, w.window_s)
    } else {
        format!("{} s of each row", w.window_s)
    };
    format!(
        "{each}, after {} s of warm-up; rows of one server in one load, their windows in turn, {} \
            s between two (1 s more per 100 connections of warm-up, per 256 between two windows)",
        o.warmup_s, w.gap_s
    )
}

/// The path as a user would type it in the present directory.
fn from_here(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).to_path_buf()
}

/// Raises the limit of open files, for 1,000 connections on both sides.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the servers report it themselves.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Finds the load's program and the servers' programs.
fn find_programs(o: &Options) -> Result<(String, Programs)> {
    use crate::options::Peer;
    let load = match o.study.load() {
        Load::Sysbench => &tools::SYSBENCH,
        Load::Slap => &tools::SLAP,
        // The lab itself is the client, and this program is needed anyway.
        Load::Copy => &tools::SETPRIV,
    };
    let mariadb = o.peers.contains(&Peer::MariaDb);
    let mut wanted = vec![load, &tools::SETPRIV, &tools::TASKSET];
    if mariadb {
        wanted.extend([&tools::MARIADBD, &tools::MARIADB_INSTALL]);
    }
    let mut found = tools::need(&wanted)?.into_iter();
    let mut next = || found.next().unwrap_or_default();
    let load = next();
    let (_, taskset) = (next(), next());
    let mysql_root = o
        .mysql_root
        .as_ref()
        .map(|root| fs::canonicalize(root).map_err(failed(root.display())))
        .transpose()?;
    let mut p = Programs { taskset, mysql_root, ..Programs::default() };
    (p.mariadbd, p.mariadb_install) = (next(), next());
    let own = std::env::current_exe().map_err(failed("where this program is"))?;
    p.redolith = program(o.redolith.clone().unwrap_or(own.clone()), "")?;
    if o.peers.contains(&Peer::Baseline) && o.study == Study::Redo {
        let beside = own
            .parent()
            .and_then(Path::parent)
            .map(|target| target.join("baseline/release/redolith-baseline"))
            .unwrap_or_default();
        p.baseline = program(
            o.baseline_server.clone().unwrap_or(beside),
            "make bench-build builds it, --baseline-server=FILE names it",
        )?;
    }
    if o.peers.contains(&Peer::MySql) {
        let inside = p.mysql_root.as_ref().map(|r| r.join("usr/sbin/mysqld"));
        let mysqld = o.mysqld.clone().or(inside).unwrap_or_else(|| "/usr/sbin/mysqld".into());
        p.mysqld = program(
            mysqld,
            "--mysqld=FILE names it; Debian sid and Ubuntu: apt-get install mysql-server-core",
        )?;
        if let Some(root) = &p.mysql_root {
            if !rustix::process::getuid().is_root() {
                return Err(Failure::Failed(
                    "--mysql-root needs root: mysqld is run by chroot".into(),
                ));
            }
            if !Path::new(&p.mysqld).starts_with(root) {
                return Err(Failure::Failed(format!(
                    "{} is not below --mysql-root={}",
                    p.mysqld,
                    root.display()
                )));
            }
        }
    }
    Ok((load, p))
}

fn program(path: PathBuf, hint: &str) -> Result<String> {
    let path = fs::canonicalize(&path).unwrap_or(path);
    if tools::is_program(&path) {
        return Ok(path.display().to_string());
    }
    let hint = if hint.is_empty() { String::new() } else { format!(" ({hint})") };
    Err(Failure::Failed(format!("there is no program {}{hint}", path.display())))
}
