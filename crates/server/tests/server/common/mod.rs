//! A server over a unix socket with a fake backend, and a client that speaks raw packets.
#![allow(dead_code)]
use redolith_disk::{Disk, RealDisk};
use redolith_engine::runtime::Threads;
use redolith_engine::temporary::TemporarySpace;
use redolith_replication::Binlog;
use redolith_server::backend::{
    Backend, BinlogSource, Client, Limits, Prepared, Session, VariableTooLong,
};
use redolith_server::cursor::CursorSpace;
use redolith_server::listener::{self, SocketFile};
use redolith_server::server::Server;
use redolith_sql::memory::ServerMemory;
use redolith_sql::plan::expr_type::ExprType;
use redolith_sql::processes::{Kill, Process, Processes};
use redolith_sql::status::Status;
use redolith_sql::{ColumnMeta, OkInfo, ResultSink, SqlError, StatusFlags};
use redolith_types::{Collation, Value};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

pub struct Fake {
    limits: Limits,
    pub memory: Arc<ServerMemory>,
    pub temporary: Arc<TemporarySpace>,
    binlog: Option<Arc<Binlog>>,
}

pub struct FakeSession {
    process: Arc<Process>,
    statements: HashMap<u32, Vec<u8>>,
    last_id: u32,
    pub max_allowed_packet: usize,
    wait_timeout_s: u32,
    net_write_timeout_s: u32,
}

impl Backend for Fake {
    type Session = FakeSession;
    fn session(&self, client: Client) -> FakeSession {
        FakeSession {
            process: client.process,
            statements: HashMap::new(),
            last_id: 0,
            max_allowed_packet: 32 << 20,
            wait_timeout_s: 28800,
            // A client that takes nothing for so long is given up. Replicas take their time.
            net_write_timeout_s: if self.binlog.is_some() { 60 } else { 2 },
        }
    }
    fn limits(&self) -> Limits {
        self.limits
    }
    fn memory(&self) -> &Arc<ServerMemory> {
        &self.memory
    }
    fn cursor_space(&self) -> CursorSpace {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let (temporary, runtime) = (self.temporary.clone(), Threads::new(disk.clone()));
        CursorSpace { temporary, disk, runtime }
    }
    fn binlog(&self) -> Option<BinlogSource> {
        let runtime = Threads::new(Arc::new(RealDisk::new()));
        self.binlog.clone().map(|binlog| BinlogSource { binlog, runtime, gtid_domain: 0 })
    }
}

fn ok() -> OkInfo {
    OkInfo { status: StatusFlags(2), ..OkInfo::default() }
}
fn column(name: &str, ty: ExprType) -> ColumnMeta {
    ColumnMeta::expression(name, ty)
}
fn type_of(v: &Value<'_>) -> ExprType {
    match v {
        Value::UInt(_) => ExprType::bigint(20).unsigned(true),
        Value::Int(_) => ExprType::bigint(20),
        Value::Double(_) | Value::Float(_) => ExprType::double(),
        Value::Date(_) => ExprType::date(),
        Value::Time(_) => ExprType::time(6),
        Value::DateTime(_) => ExprType::datetime(6),
        Value::Null => ExprType::null(),
        _ => ExprType::string(255, Collation::Utf8mb4GeneralCi),
    }
}

/// The fake backend knows these statements: `SELECT 1`; `ROWS n`; `WAIT` (until killed); `BIG n`
/// (one value of n bytes); `COLUMNS n` (with long names); `FAIL`; `DO`; `SET wait_timeout n`;
/// `ATTEND` (until killed, attended).
impl Session for FakeSession {
    async fn query(&mut self, text: &[u8], out: &mut impl ResultSink) {
        let text = String::from_utf8_lossy(text).into_owned();
        let mut words = text.split(' ');
        let verb = words.next().unwrap_or_default().to_ascii_uppercase();
        let n: u64 = words.next_back().and_then(|w| w.parse().ok()).unwrap_or(0);
        match verb.as_str() {
            "SELECT" => {
                out.columns(&[column("1", ExprType::bigint(2))]).await.unwrap();
                out.row(&[Value::Int(1)]);
                out.finish_rows(&ok());
            }
            "ROWS" => {
                out.columns(&[
                    column("n", ExprType::bigint(20)),
                    column("s", ExprType::string(100, Collation::Utf8mb4GeneralCi)),
                ])
                .await
                .unwrap();
                for i in 0..n {
                    out.row(&[Value::UInt(i), Value::bytes(&[b'x'; 100])]);
                    if out.wants_drain()
                        && let Err(e) = out.drain().await
                    {
                        return out.error(&e);
                    }
                }
                out.finish_rows(&ok());
            }
            "BIG" => {
                out.columns(&[column("b", ExprType::string(n as u32, Collation::Binary))])
                    .await
                    .unwrap();
                out.row(&[Value::owned(vec![b'y'; n as usize])]);
                out.finish_rows(&ok());
            }
            "COLUMNS" => {
                let columns = vec![column(&"n".repeat(1000), ExprType::bigint(20)); n as usize];
                out.columns(&columns).await.unwrap();
                assert!(out.held() < 1 << 20, "definitions leave in parts");
                out.finish_rows(&ok());
            }
            "HALF" => {
                out.columns(&[
                    column("a", ExprType::bigint(20)),
                    column("b", ExprType::bigint(20)),
                ])
                .await
                .unwrap();
                out.row(&[Value::Int(1), Value::Int(2)]);
                out.begin_row();
                out.value(&Value::Int(3));
                out.error(&SqlError::interrupted());
            }
            "WAIT" | "ATTEND" => {
                let _attended = (verb == "ATTEND").then(|| self.process.attend());
                poll_fn(|_| {
                    if self.process.killed() == Kill::None {
                        Poll::Pending
                    } else {
                        Poll::Ready(())
                    }
                })
                .await;
                out.error(&SqlError::interrupted());
            }
            "SET" => {
                self.wait_timeout_s = n as u32;
                out.ok(&ok());
            }
            "DO" => out.ok(&OkInfo {
                affected: 3,
                last_insert_id: 300,
                info: "Rows matched: 3".into(),
                ..ok()
            }),
            "LENGTH" => {
                out.columns(&[column("n", ExprType::bigint(20))]).await.unwrap();
                out.row(&[Value::UInt(text.len() as u64)]);
                out.finish_rows(&ok());
            }
            _ => out.error(&SqlError::syntax(&text, 1)),
        }
    }
    async fn prepare(&mut self, text: &[u8]) -> Result<Prepared, SqlError> {
        if text.starts_with(b"FAIL") {
            return Err(SqlError::syntax("FAIL", 1));
        }
        self.last_id += 1;
        self.statements.insert(self.last_id, text.to_vec());
        let params = text.iter().filter(|&&c| c == b'?').count();
        let columns = if params == 0 { vec![column("1", ExprType::bigint(2))] } else { vec![] };
        Ok(Prepared {
            id: self.last_id,
            params: vec![ExprType::string(0, Collation::Binary); params],
            columns,
            warnings: 0,
        })
    }
    async fn describe(&mut self, _: &[u8]) -> Result<Vec<ColumnMeta>, SqlError> {
        Ok(vec![column("1", ExprType::bigint(2))])
    }
    /// Returns the parameters as a row, or runs a statement without parameters that has rows.
    async fn execute(
        &mut self,
        id: u32,
        params: &[Value<'_>],
        _: &[u32],
        out: &mut impl ResultSink,
    ) {
        let text = self.statements[&id].clone();
        if [&b"ROWS"[..], b"HALF", b"BIG", b"WAIT"].iter().any(|verb| text.starts_with(verb)) {
            return self.query(&text, out).await;
        }
        if params.is_empty() {
            return out.ok(&ok());
        }
        let columns: Vec<_> = params.iter().map(|v| column("p", type_of(v))).collect();
        out.columns(&columns).await.unwrap();
        out.row(params);
        out.finish_rows(&ok());
    }
    fn close_statement(&mut self, id: u32) {
        assert!(self.statements.remove(&id).is_some());
    }
    fn statement_text(&self, id: u32) -> &[u8] {
        &self.statements[&id]
    }
    async fn init_db(&mut self, name: &[u8]) -> Result<(), SqlError> {
        if name == b"test" {
            Ok(())
        } else {
            Err(SqlError::unknown_database(String::from_utf8_lossy(name)))
        }
    }
    async fn reset(&mut self) {
        self.statements.clear();
    }
    async fn end(&mut self) {}
    fn set_multi_statements(&mut self, _: bool) {}
    fn status(&self) -> u16 {
        2
    }
    fn results_collation(&self) -> Option<Collation> {
        Some(Collation::Utf8mb4GeneralCi)
    }
    fn wait_timeout_s(&self) -> u32 {
        self.wait_timeout_s
    }
    fn net_read_timeout_s(&self) -> u32 {
        2
    }
    fn net_write_timeout_s(&self) -> u32 {
        self.net_write_timeout_s
    }
    /// What a replica has set that knows checksums.
    fn user_variable(&self, name: &str, _: usize) -> Result<Option<String>, VariableTooLong> {
        Ok((name == "source_binlog_checksum").then(|| "CRC32".into()))
    }
    fn max_allowed_packet(&self) -> usize {
        self.max_allowed_packet
    }
}

pub struct TestServer {
    pub server: Arc<Server<Fake>>,
    pub path: PathBuf,
    _file: SocketFile,
    _runtime: tokio::runtime::Runtime,
}

pub const LIMITS: Limits =
    Limits { max_connections: 100, connect_timeout_s: 10, login_seats: 1024 };

static NEXT: AtomicU32 = AtomicU32::new(0);

pub fn start(limits: Limits) -> TestServer {
    start_with(limits, None)
}
pub fn start_with(limits: Limits, binlog: Option<Arc<Binlog>>) -> TestServer {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let path = std::env::temp_dir().join(format!(
        "redolith-test-{}-{}.sock",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _inside = runtime.enter();
    let listening = listener::bind_unix(&*disk, &path, 100).unwrap();
    let server = Server::new(
        Fake {
            limits,
            memory: ServerMemory::new(),
            temporary: TemporarySpace::new(&std::env::temp_dir(), 1 << 30),
            binlog,
        },
        disk.clone(),
        Processes::new(),
        Arc::new(Status::new()),
    );
    runtime.spawn(server.clone().watch_clock());
    runtime.spawn(listener::accept(server.clone(), listening));
    drop(_inside);
    TestServer { server, path: path.clone(), _file: SocketFile::new(disk, path), _runtime: runtime }
}

/// A client that sends and receives packets. Every wait ends after 20 s, so that a mistake fails
/// the test.
pub struct Raw {
    pub stream: UnixStream,
    pub sequence: u8,
}

impl Raw {
    pub fn connect(server: &TestServer) -> Raw {
        let stream = UnixStream::connect(&server.path).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        Raw { stream, sequence: 0 }
    }
    pub fn try_read(&mut self) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut header = [0; 4];
            self.stream.read_exact(&mut header)?;
            assert_eq!(header[3], self.sequence, "sequence number");
            self.sequence = self.sequence.wrapping_add(1);
            let len = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            let at = body.len();
            body.resize(at + len, 0);
            self.stream.read_exact(&mut body[at..])?;
            if len < 0xff_ffff {
                return Ok(body);
            }
        }
    }
    pub fn read(&mut self) -> Vec<u8> {
        self.try_read().expect("an answer")
    }
    pub fn write(&mut self, body: &[u8]) {
        let mut parts = body.chunks(0xff_ffff).collect::<Vec<_>>();
        if body.len().is_multiple_of(0xff_ffff) {
            parts.push(&[]);
        }
        for part in parts {
            let mut p = (part.len() as u32).to_le_bytes()[..3].to_vec();
            p.push(self.sequence);
            p.extend_from_slice(part);
            self.sequence = self.sequence.wrapping_add(1);
            self.stream.write_all(&p).unwrap();
        }
    }
    pub fn command(&mut self, code: u8, args: &[u8]) {
        self.sequence = 0;
        self.write(&[&[code], args].concat());
    }
    /// Sends a command whose answer is one packet.
    pub fn ask(&mut self, code: u8, args: &[u8]) -> Vec<u8> {
        self.command(code, args);
        self.read()
    }
    /// Returns the code of the error in the answer.
    pub fn ask_error(&mut self, code: u8, args: &[u8]) -> u16 {
        error_code(&self.ask(code, args))
    }
    pub fn login_packet(
        user: &str,
        auth: &[u8],
        database: &str,
        plugin: &str,
        more_capabilities: u32,
    ) -> Vec<u8> {
        let capabilities: u32 = 0x000f_a20b | 1 << 3 | 1 << 21 | more_capabilities;
        let mut b = capabilities.to_le_bytes().to_vec();
        b.extend([0, 0, 0, 1]);
        b.extend([45, 0]);
        b.extend([0; 22]);
        b.extend(user.as_bytes());
        b.push(0);
        b.push(auth.len() as u8);
        b.extend(auth);
        b.extend(database.as_bytes());
        b.push(0);
        b.extend(plugin.as_bytes());
        b.push(0);
        b
    }
    /// Logs in as root and returns the verdict.
    pub fn login(&mut self, database: &str, more_capabilities: u32) -> Vec<u8> {
        self.read();
        self.write(&Raw::login_packet(
            "root",
            b"",
            database,
            "mysql_native_password",
            more_capabilities,
        ));
        self.read()
    }
    pub fn logged_in(server: &TestServer) -> Raw {
        let mut raw = Raw::connect(server);
        assert_eq!(raw.login("", DEPRECATE_EOF)[0], 0);
        raw
    }
}

pub const DEPRECATE_EOF: u32 = 1 << 24;

pub fn error_code(packet: &[u8]) -> u16 {
    assert_eq!(packet[0], 0xff, "an error, not {packet:?}");
    u16::from_le_bytes([packet[1], packet[2]])
}
