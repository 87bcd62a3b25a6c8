//! Tests the program itself: command line, start, second start, shutdown.
use crate::common::{DEPRECATE_EOF, Raw, error_code};
use redolith_client::{Client, Place};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// How long a client waits for an answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(100);

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
        Running::start_with(dir, &[])
    }
    fn start_with(dir: &Dir, more: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_redolith"))
            .args([
                "server",
                "--no-defaults",
                "--skip-networking",
                "--innodb-buffer-pool-size=16M",
                "--innodb-redo-log-capacity=64M",
            ])
            .args(["--innodb-log-buffer-size=1M", "--pid-file=pid"])
            .args([dir.arg("datadir", "data"), dir.arg("socket", "s.sock")])
            .args(more)
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
        Running::signal_to(&self.child, name);
    }
    fn signal_to(child: &Child, name: &str) {
        let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }
    fn end(mut self, signal: &str) -> String {
        self.signal(signal);
        let mut rest = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }
}
/// A test that ends leaves no server behind, which would keep the tests' output open.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let said = text(&out.stderr);
    assert!(!out.status.success() && said.contains("there is no command 'serve'"), "{said}");
    for command in ["server", "check", "dump", "top", "lab"] {
        assert!(said.contains(&format!("redolith {command} ")), "{said}");
    }
    let out = redolith(&["server", "--inodb-doublewrite=ON"]);
    assert!(
        !out.status.success() && text(&out.stderr).contains("did you mean '--innodb-doublewrite'?")
    );
    assert!(!redolith(&[]).status.success());
}

#[test]
fn start_serve_stop_and_start_again() {
    let dir = Dir::new("start");
    let server = Running::start(&dir);
    assert!(
        server.said.contains("is ready") && server.said.contains("new data directory"),
        "{}",
        server.said
    );
    assert!(
        server.said.contains(&format!(
            "mariadb --no-defaults -uroot -S {}",
            dir.0.join("s.sock").display()
        ))
    );
    assert!(exists(&dir, "s.sock") && exists(&dir, "data/pid"));
    // The same directory through another socket, and the same socket.
    let out = redolith(&[
        "server",
        "--skip-networking",
        &dir.arg("datadir", "data"),
        &dir.arg("socket", "t.sock"),
    ]);
    assert!(
        !out.status.success() && text(&out.stderr).contains("in use by another process"),
        "{}",
        text(&out.stderr)
    );
    let out = redolith(&[
        "server",
        "--skip-networking",
        &dir.arg("datadir", "other"),
        &dir.arg("socket", "s.sock"),
    ]);
    assert!(
        !out.status.success() && text(&out.stderr).contains("another server answers"),
        "{}",
        text(&out.stderr)
    );
    server.signal("-HUP");
    let said = server.end("-TERM");
    assert!(
        said.contains("SIGTERM: shutting down") && said.contains("shutdown complete"),
        "{said}"
    );
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

/// Tests OWNFILE-1.
#[test]
#[allow(clippy::disallowed_methods)] // files of the test's own
fn files_that_another_server_has_made_anew_stay() {
    let dir = Dir::new("anew");
    let server = Running::start(&dir);
    let (socket, pid) = (dir.0.join("s.sock"), dir.0.join("data/pid"));
    std::fs::remove_file(&socket).unwrap();
    let _another = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    // Servers write their ids into the file that is there.
    std::fs::write(&pid, "1\n").unwrap();
    server.end("-TERM");
    assert!(socket.exists());
    assert_eq!(std::fs::read_to_string(&pid).unwrap(), "1\n");
}

/// A client that is gone while its statement sleeps or waits for a lock loses its transaction and
/// its user locks. Tests PROC-4.
#[test]
fn the_locks_of_a_client_that_is_gone_are_free_again() {
    let dir = Dir::new("gone");
    let server = Running::start(&dir);
    let place = Place::Socket(dir.0.join("s.sock"));
    let mut stays = Client::connect_for(&place, "root", PATIENCE).unwrap();
    stays.query("CREATE DATABASE d").unwrap();
    stays.query("CREATE TABLE d.t (id INT PRIMARY KEY)").unwrap();
    stays.query("SELECT GET_LOCK('held', 0)").unwrap();
    // Others keep the lock of a row, and that of a table.
    stays.query("CREATE TABLE d.r (id INT PRIMARY KEY)").unwrap();
    stays.query("INSERT INTO d.r VALUES (1)").unwrap();
    stays.query("CREATE TABLE d.w (id INT PRIMARY KEY)").unwrap();
    let mut of_row = Client::connect_for(&place, "root", PATIENCE).unwrap();
    of_row.query("BEGIN").unwrap();
    of_row.query("SELECT * FROM d.r FOR UPDATE").unwrap();
    let mut of_table = Client::connect_for(&place, "root", PATIENCE).unwrap();
    of_table.query("LOCK TABLES d.w WRITE").unwrap();
    let waits = [
        "SELECT SLEEP(100000)",
        "SELECT 1 + SLEEP(100000)",
        "DO GET_LOCK('held', -1)",
        "UPDATE d.r SET id = 2",
        "SELECT * FROM d.w",
    ];
    let clients = (0..).zip(waits).map(|(n, wait)| {
        let place = place.clone();
        std::thread::spawn(move || {
            // The client gives up the wait, and leaves without a word.
            let patience = std::time::Duration::from_secs(10);
            let mut leaves = Client::connect_for(&place, "root", patience).unwrap();
            leaves.query(&format!("SELECT GET_LOCK('x{n}', 0)")).unwrap();
            leaves.query("SET innodb_lock_wait_timeout = 100000").unwrap();
            leaves.query("BEGIN").unwrap();
            leaves.query(&format!("INSERT INTO d.t VALUES ({n})")).unwrap();
            assert!(leaves.query(wait).is_err());
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.join().unwrap();
    }
    for (n, wait) in waits.iter().enumerate() {
        let got = stays.query(&format!("SELECT GET_LOCK('x{n}', 1000)")).unwrap();
        assert_eq!(got, [[Some("1".to_string())]], "{wait}");
        stays.query(&format!("INSERT INTO d.t VALUES ({n})")).unwrap();
    }
    server.end("-TERM");
}

/// Returns the whole answer to an HTTP request.
fn http(address: &str, request: &str) -> String {
    // A request that is late gets no answer. That can happen on a busy machine.
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut answer = String::new();
        if stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.read_to_string(&mut answer))
            .is_ok()
            && !answer.is_empty()
        {
            return answer;
        }
    }
    panic!("no answer to {request:?}");
}

/// Tests MET-HTTP-1: more clients than are served at one time say nothing, are closed, and keep
/// nobody out for good.
#[test]
fn silent_clients_of_the_counters_are_closed() {
    let dir = Dir::new("metrics_silent");
    let server = Running::start_with(&dir, &["--metrics-address=127.0.0.1:0"]);
    let at = server.said.find("counters at http://").unwrap() + "counters at http://".len();
    let address = server.said[at..].split('/').next().unwrap();
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(http(address, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
    for mut s in silent {
        let mut answer = String::new();
        let _ = s.read_to_string(&mut answer);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[test]
fn counters_over_http_and_in_a_terminal() {
    let dir = Dir::new("metrics");
    let server = Running::start_with(
        &dir,
        &["--metrics-address=127.0.0.1:0", "--innodb-monitor-disable=module_dml"],
    );
    let at = server.said.find("counters at http://").unwrap() + "counters at http://".len();
    let address = server.said[at..].split('/').next().unwrap();
    let page = http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    for line in [
        "mysql_up 1\n",
        "# TYPE redolith_commit_wait_seconds histogram\n",
        "\nredolith_log_write_requests_total ",
        "\nmysql_global_status_uptime ",
    ] {
        assert!(body.contains(line), "{line}");
    }
    assert!(http(address, "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(http(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(http(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(
        http(address, &format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(9000)))
            .starts_with("HTTP/1.1 431 ")
    );
    assert!(http(address, "HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));

    let out = redolith(&["top", &dir.arg("socket", "s.sock"), "--interval=0.2"]);
    let page = text(&out.stdout);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for part in [
        "1 connections",
        "transactions/s",
        "writer mode leader",
        "checkpoint age",
        "buffer hit rate",
        "history length",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let out = redolith(&["top", &dir.arg("socket", "s.sock"), "--user=nobody"]);
    assert!(
        !out.status.success() && text(&out.stderr).contains("error 1045"),
        "{}",
        text(&out.stderr)
    );
    server.end("-TERM");
    assert!(text(&redolith(&["top", &dir.arg("socket", "s.sock")]).stderr).contains("s.sock: "));
}

#[test]
fn wrong_settings_of_counters_are_told_at_the_start() {
    let dir = Dir::new("metrics-wrong");
    let start = |option: &str| {
        let out = redolith(&[
            "server",
            "--skip-networking",
            &dir.arg("datadir", "data"),
            &dir.arg("socket", "s.sock"),
            option,
        ]);
        assert!(!out.status.success());
        text(&out.stderr)
    };
    assert!(
        start("--innodb-monitor-enable=nonsense")
            .contains("there is no counter or group 'nonsense'")
    );
    assert!(start("--metrics-address=here").contains("not of the form ip:port"));
}

/// Waits for half a minute at most.
fn wait_until(done: impl Fn() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        #[allow(clippy::disallowed_methods)] // another process is waited for
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("nothing came of it");
}

/// ERRLOG-2: all messages are in the file, and the file can be moved away.
#[test]
#[allow(clippy::disallowed_methods)] // files and waits of the test's own
fn the_error_log_is_a_file_that_can_be_rotated() {
    let dir = Dir::new("error-log");
    let file = |name: &str| std::fs::read_to_string(dir.0.join(name)).unwrap_or_default();
    let mut child = Command::new(env!("CARGO_BIN_EXE_redolith"))
        .args(["server", "--no-defaults", "--skip-networking", "--innodb-buffer-pool-size=16M"])
        .args([dir.arg("datadir", "data"), dir.arg("socket", "s.sock")])
        .args(["--log-error=log/server", "--log-error-verbosity=1"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| file("data/log/server.err").contains("connect with:"));
    let place = Place::Socket(dir.0.join("s.sock"));
    let mut client = Client::connect_for(&place, "root", PATIENCE).unwrap();

    // The file is moved away, and opened again by a signal and by a statement.
    let moved = |to: &str| {
        std::fs::rename(dir.0.join("data/log/server.err"), dir.0.join(to)).unwrap();
    };
    moved("first");
    Running::signal_to(&child, "-HUP");
    wait_until(|| exists(&dir, "data/log/server.err"));
    moved("second");
    client.query("FLUSH ERROR LOGS").unwrap();
    assert!(exists(&dir, "data/log/server.err"));
    assert!(file("first").contains("is ready") && !file("second").contains("is ready"));

    // Where no new file can be created, the old file stays in use.
    std::fs::rename(dir.0.join("data/log"), dir.0.join("data/away")).unwrap();
    std::fs::write(dir.0.join("data/log"), "no folder").unwrap();
    let refused = client.query("FLUSH LOGS").unwrap_err().to_string();
    assert!(refused.contains("1105") && refused.contains("--log-error: cannot write"), "{refused}");
    client.query("SET GLOBAL log_error_verbosity = 3").unwrap();

    // A second server on the directory ends, and writes the reason to the same file.
    std::fs::remove_file(dir.0.join("data/log")).unwrap();
    std::fs::rename(dir.0.join("data/away"), dir.0.join("data/log")).unwrap();
    let out = redolith(&[
        "server",
        "--no-defaults",
        "--skip-networking",
        &dir.arg("datadir", "data"),
        &dir.arg("socket", "t.sock"),
        "--log-error=log/server.err",
    ]);
    assert!(!out.status.success() && out.stderr.is_empty() && out.stdout.is_empty());
    let said = file("data/log/server.err");
    assert!(
        said.lines().any(|l| l.contains(" 0 [ERROR] [MY-000000] [Server] ")
            && l.contains("in use by another process")),
        "{said}"
    );

    Running::signal_to(&child, "-TERM");
    assert!(child.wait().unwrap().success());
    assert!(
        file("data/log/server.err").contains("[System] [MY-000000] [Server] shutdown complete")
    );
    let mut piped = String::new();
    child.stderr.take().unwrap().read_to_string(&mut piped).unwrap();
    assert_eq!(piped, "");
}

/// A statement that ends while its client does not read holds nothing any more: its table can be
/// dropped. The client finds the rows that were on their way, and then the error.
#[test]
fn a_select_whose_client_does_not_read_can_be_ended() {
    const QUERY: u8 = 3;
    const PING: u8 = 14;
    let dir = Dir::new("not-reading");
    let _server = Running::start(&dir);
    let socket = dir.0.join("s.sock");
    let mut other = Client::connect_for(&Place::Socket(socket.clone()), "root", PATIENCE).unwrap();
    other.query("CREATE DATABASE d").unwrap();
    for (code, hint) in [(1317, ""), (3024, "/*+ MAX_EXECUTION_TIME(200) */")] {
        other.query("CREATE TABLE d.t (c VARCHAR(1000))").unwrap();
        let rows = vec!["(REPEAT('x', 1000))"; 200].join(",");
        other.query(&format!("INSERT INTO d.t VALUES {rows}")).unwrap();
        let mut raw = Raw { stream: UnixStream::connect(&socket).unwrap(), sequence: 0 };
        assert_eq!(raw.login("d", DEPRECATE_EOF)[0], 0);
        raw.command(QUERY, format!("SELECT {hint} a.c FROM t a, t b").as_bytes());
        let waits = || {
            let rows = other.query("SHOW PROCESSLIST").unwrap();
            rows.into_iter().find(|row| row[6].as_deref() == Some("Sending to client"))
        };
        let id = std::iter::repeat_with(waits).flatten().next().unwrap()[0].clone().unwrap();
        if code == 1317 {
            other.query(&format!("KILL QUERY {id}")).unwrap();
        }
        other.query("DROP TABLE d.t").unwrap();
        let last = std::iter::repeat_with(|| raw.read()).find(|packet| packet[0] == 0xff).unwrap();
        assert_eq!(error_code(&last), code);
        assert_eq!(raw.ask(PING, b"")[0], 0, "the connection goes on");
    }
}

/// Tests STATS-3: statistics of before a restart, by which plans are made, are those of after it,
/// until ANALYZE TABLE; and settings reach them.
#[test]
fn plans_are_the_same_after_a_restart() {
    const SWAPPED: &str = "UPDATE d.t SET x = z - x, y = z - y";
    let dir = Dir::new("plans");
    let connect =
        || Client::connect_for(&Place::Socket(dir.0.join("s.sock")), "root", PATIENCE).unwrap();
    let index = |client: &mut Client| {
        let rows = client.query("EXPLAIN SELECT id FROM d.t WHERE x = 7 AND y = 7").unwrap();
        rows[0][6].clone().unwrap()
    };
    let server = Running::start(&dir);
    let mut client = connect();
    client.query("CREATE DATABASE d").unwrap();
    let columns = "id INT PRIMARY KEY, x INT, y INT, z INT, KEY (x), KEY (y)";
    client.query(&format!("CREATE TABLE d.t ({columns})")).unwrap();
    let row = |id: u32| format!("({id}, {id}, {}, {})", id % 2, id + id % 2);
    let rows: Vec<_> = (0..3000).map(row).collect();
    client.query(&format!("INSERT INTO d.t VALUES {}", rows.join(","))).unwrap();
    assert_eq!(index(&mut client), "x", "a statement has wanted statistics");
    client.query(SWAPPED).unwrap();
    server.end("-TERM");
    let mut server = Running::start(&dir);
    let mut client = connect();
    assert_eq!(index(&mut client), "x", "the statistics of before");
    client.query("ANALYZE TABLE d.t").unwrap();
    assert_eq!(index(&mut client), "y");
    client.query(SWAPPED).unwrap();
    server.signal("-KILL");
    server.child.wait().unwrap();
    let server = Running::start(&dir);
    assert_eq!(index(&mut connect()), "y", "the statistics of ANALYZE TABLE");
    server.end("-TERM");
    let server = Running::start_with(&dir, &["--innodb-stats-persistent=OFF"]);
    assert_eq!(index(&mut connect()), "x", "statistics that do not outlive the server");
    server.end("-TERM");
}

/// Tests MEM-1: a value counts with the length that it has for the client.
#[test]
fn a_value_that_grows_on_its_way_to_the_client_is_counted() {
    const QUERY: u8 = 3;
    let dir = Dir::new("growing");
    let _server = Running::start(&dir);
    let socket = dir.0.join("s.sock");
    let mut raw = Raw { stream: UnixStream::connect(socket).unwrap(), sequence: 0 };
    assert_eq!(raw.login("", DEPRECATE_EOF)[0], 0);
    let latin1 = "SELECT CONVERT(REPEAT(CHAR(0xe9), 7 << 20) USING latin1)";
    let json = "SELECT JSON_ARRAY(REPEAT(CHAR(1 USING utf8mb4), 2 << 20))";
    for (select, len, too_little_mib, enough_mib) in
        [(latin1, 2 * (7 << 20), 19, 40), (json, 6 * (2 << 20) + 4, 12, 30)]
    {
        for (limit_mib, is_enough) in [(too_little_mib, false), (enough_mib, true)] {
            let limit = format!("SET SESSION redolith_statement_memory = {}", limit_mib << 20);
            assert_eq!(raw.ask(QUERY, limit.as_bytes())[0], 0);
            raw.command(QUERY, select.as_bytes());
            // The number of columns, and the only column.
            assert_eq!((raw.read(), raw.read()[0]), (vec![1], 3));
            let row = raw.read();
            if is_enough {
                // The length takes four bytes.
                assert_eq!((row.len(), raw.read()[0]), (4 + len, 0xfe));
            } else {
                assert_eq!(row[0], 0xff, "an error, and no row");
                assert_eq!(error_code(&row), 3170);
                assert!(text(&row).contains("redolith_statement_memory"));
            }
        }
    }
}

/// Tests EARLIER-1 and EARLIER-2: a client has the results of the earlier statements of a packet
/// while a later statement waits or calculates, and gets the packets in their order.
#[test]
fn results_leave_while_a_later_statement_waits() {
    const QUERY: u8 = 3;
    const MULTI_STATEMENTS: u32 = 1 << 16;
    let dir = Dir::new("earlier");
    let _server = Running::start(&dir);
    let socket = dir.0.join("s.sock");
    let place = Place::Socket(socket.clone());
    let mut other = Client::connect_for(&place, "root", PATIENCE).unwrap();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "INSERT INTO d.t VALUES (1)",
        "SELECT GET_LOCK('held', 0)",
        "BEGIN",
        "SELECT * FROM d.t FOR UPDATE",
    ] {
        other.query(sql).unwrap();
    }
    let mut raw = Raw { stream: UnixStream::connect(&socket).unwrap(), sequence: 0 };
    assert_eq!(raw.login("d", DEPRECATE_EOF | MULTI_STATEMENTS)[0], 0);
    // The rows of the server's answers, each of one column, and their ends.
    let one_row = |raw: &mut Raw, value: &[u8]| {
        assert_eq!((raw.read(), raw.read()[0]), (vec![1], 3));
        let (row, end) = (raw.read(), raw.read());
        assert_eq!((&row[1..], end[0], end[3] & 8), (value, 0xfe, 8), "more results follow");
    };
    for wait in [
        "UPDATE t SET id = 2",
        "ALTER TABLE t ADD COLUMN c INT",
        "SELECT SLEEP(100000)",
        "SELECT 1 + SLEEP(100000)",
        "SELECT GET_LOCK('held', -1)",
        "SELECT BENCHMARK(1000000000000, MD5('x'))",
        "SELECT COUNT(*) FROM information_schema.columns a, information_schema.columns b,
             information_schema.columns c, information_schema.columns d",
    ] {
        let sql = format!("SELECT CONNECTION_ID(); SELECT 'earlier'; SELECT 'b'; {wait}");
        raw.command(QUERY, sql.as_bytes());
        assert_eq!((raw.read(), raw.read()[0]), (vec![1], 3));
        let id = text(&raw.read()[1..]);
        assert_eq!(raw.read()[0], 0xfe);
        one_row(&mut raw, b"earlier");
        one_row(&mut raw, b"b");
        other.query(&format!("KILL QUERY {id}")).unwrap();
        let mut last = raw.read();
        if wait.starts_with("SELECT") && last[0] != 0xff {
            // Definitions, if the statement has begun to answer.
            raw.read();
            last = raw.read();
        }
        if wait.contains("SLEEP") {
            // An interrupted SLEEP answers 1.
            assert!([&b"\x011"[..], b"\x012"].contains(&&last[..]), "{wait}: {last:?}");
            raw.read();
        } else {
            assert_eq!(error_code(&last), 1317, "{wait}");
        }
    }
}
