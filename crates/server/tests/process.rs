//! The program itself: its command line, start, second start, shutdown.
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn redolith(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_redolith")).args(args).output().unwrap()
}
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Dir(PathBuf);
impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("redolith-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Dir(dir)
    }
    fn arg(&self, option: &str, file: &str) -> String {
        format!("--{option}={}", self.0.join(file).display())
    }
}
impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Running {
    child: Child,
    said: String,
}
impl Running {
    /// Starts a server without TCP and waits until it says how to connect.
    fn start(dir: &Dir) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_redolith"))
            .args(["server", "--no-defaults", "--skip-networking", "--innodb-buffer-pool-size=16M", "--innodb-redo-log-capacity=64M"])
            .args(["--innodb-log-buffer-size=1M", "--pid-file=pid"])
            .args([dir.arg("datadir", "data"), dir.arg("socket", "s.sock")])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut said, mut lines) = (String::new(), BufReader::new(child.stderr.take().unwrap()));
        while !said.contains("connect with:") {
            let n = lines.read_line(&mut said).unwrap();
            assert!(n > 0, "the server ended: {said}");
        }
        child.stderr = Some(lines.into_inner());
        Running { child, said }
    }
    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }
    fn end(mut self, signal: &str) -> String {
        self.signal(signal);
        let mut rest = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }
}

fn exists(dir: &Dir, file: &str) -> bool {
    Path::new(&dir.0.join(file)).exists()
}

#[test]
fn the_command_line() {
    let out = redolith(&["--version"]);
    assert!(out.status.success() && text(&out.stdout).contains("8.0.36-redolith-0.1.0"));
    assert!(text(&redolith(&["server", "--help"]).stdout).contains("--innodb-buffer-pool-size"));
    let out = redolith(&["serve"]);
    assert!(!out.status.success() && text(&out.stderr).contains("there is no command 'serve'; there is: server"));
    let out = redolith(&["server", "--inodb-doublewrite=ON"]);
    assert!(!out.status.success() && text(&out.stderr).contains("did you mean '--innodb-doublewrite'?"));
    assert!(!redolith(&[]).status.success());
}

#[test]
fn start_serve_stop_and_start_again() {
    let dir = Dir::new("start");
    let server = Running::start(&dir);
    assert!(server.said.contains("is ready") && server.said.contains("new data directory"), "{}", server.said);
    assert!(server.said.contains(&format!("mariadb --no-defaults -uroot -S {}", dir.0.join("s.sock").display())));
    assert!(exists(&dir, "s.sock") && exists(&dir, "data/pid"));
    // The same directory through another socket, and the same socket.
    let out = redolith(&["server", "--skip-networking", &dir.arg("datadir", "data"), &dir.arg("socket", "t.sock")]);
    assert!(!out.status.success() && text(&out.stderr).contains("in use by another process"), "{}", text(&out.stderr));
    let out = redolith(&["server", "--skip-networking", &dir.arg("datadir", "other"), &dir.arg("socket", "s.sock")]);
    assert!(!out.status.success() && text(&out.stderr).contains("another server answers"), "{}", text(&out.stderr));
    server.signal("-HUP");
    let said = server.end("-TERM");
    assert!(said.contains("SIGTERM: shutting down") && said.contains("shutdown complete"), "{said}");
    assert!(!exists(&dir, "s.sock") && !exists(&dir, "data/pid"));
    let server = Running::start(&dir);
    assert!(server.said.contains("clean start"), "{}", server.said);
    server.end("-INT");
}

#[test]
fn a_killed_server_starts_again_over_its_stale_socket() {
    let dir = Dir::new("kill");
    let mut server = Running::start(&dir);
    server.signal("-KILL");
    server.child.wait().unwrap();
    assert!(exists(&dir, "s.sock"));
    let server = Running::start(&dir);
    server.end("-TERM");
}
