//! Implements [`Backend`] with the SQL layer.
use crate::backend::{Backend, BinlogSource, Client, Limits, Prepared, Session, VariableTooLong};
use crate::cursor::CursorSpace;
use crate::protocol::capabilities::Capabilities;
use crate::start::Parts;
use redolith_sql::database::Database;
use redolith_sql::memory::ServerMemory;
use redolith_sql::session;
use redolith_sql::settings::Var;
use redolith_sql::{ColumnMeta, ResultSink, SqlError};
use redolith_types::{Collation, Value};
use std::sync::Arc;

pub struct SqlBackend(Arc<Database>);

impl SqlBackend {
    pub fn new(parts: &Parts) -> SqlBackend {
        let Parts { engine, binlog, settings, processes, status } = parts;
        SqlBackend(Database::new(
            engine.clone(),
            binlog.clone(),
            settings.clone(),
            status.clone(),
            processes.clone(),
        ))
    }
}

impl Backend for SqlBackend {
    type Session = session::Session;

    fn session(&self, client: Client) -> session::Session {
        let has = |flag| client.capabilities.has(flag);
        let (found_rows, multi_statements) =
            (has(Capabilities::FOUND_ROWS), has(Capabilities::MULTI_STATEMENTS));
        let interactive = has(Capabilities::INTERACTIVE);
        let Client { process, user, host, collation_id, .. } = client;
        let client = session::Client {
            process,
            user,
            host,
            collation_id,
            found_rows,
            multi_statements,
            interactive,
        };
        session::Session::new(self.0.clone(), client)
    }
    fn limits(&self) -> Limits {
        let bits = |var| self.0.settings.bits(var) as u32;
        Limits {
            max_connections: bits(Var::MaxConnections),
            connect_timeout_s: bits(Var::ConnectTimeout),
            login_seats: bits(Var::RedolithLoginSeats),
        }
    }
    fn version(&self) -> Arc<str> {
        self.0.settings.text(Var::Version).unwrap_or_default()
    }
    fn memory(&self) -> &Arc<ServerMemory> {
        &self.0.memory
    }
    fn cursor_space(&self) -> CursorSpace {
        let (temporary, engine) = (self.0.temporary.clone(), &self.0.engine);
        CursorSpace { temporary, disk: engine.disk.clone(), runtime: engine.runtime.clone() }
    }
    fn binlog(&self) -> Option<BinlogSource> {
        let binlog = self.0.binlog.clone()?;
        let gtid_domain = self.0.settings.bits(Var::GtidDomainId) as u32;
        Some(BinlogSource { binlog, runtime: self.0.engine.runtime.clone(), gtid_domain })
    }
}

/// Forwards to the session's own methods of the same names.
impl Session for session::Session {
    fn query(&mut self, text: &[u8], out: &mut impl ResultSink) -> impl Future<Output = ()> + Send {
        self.query(text, out)
    }
    async fn prepare(&mut self, text: &[u8]) -> Result<Prepared, SqlError> {
        self.prepare(text).await
    }
    async fn describe(&mut self, text: &[u8]) -> Result<Vec<ColumnMeta>, SqlError> {
        self.describe(text).await
    }
    fn execute(
        &mut self,
        id: u32,
        params: &[Value<'_>],
        binary: &[u32],
        out: &mut impl ResultSink,
    ) -> impl Future<Output = ()> + Send {
        self.execute(id, params, binary, out)
    }
    fn close_statement(&mut self, id: u32) {
        self.close_statement(id);
    }
    fn statement_text(&self, id: u32) -> &[u8] {
        self.statement_text(id)
    }
    async fn init_db(&mut self, name: &[u8]) -> Result<(), SqlError> {
        self.init_db(name).await
    }
    async fn reset(&mut self) {
        self.reset().await;
    }
    async fn end(&mut self) {
        self.end().await;
    }
    fn set_multi_statements(&mut self, on: bool) {
        self.set_multi_statements(on);
    }
    fn status(&self) -> u16 {
        self.status().0
    }
    fn results_collation(&self) -> Option<Collation> {
        self.results_collation()
    }
    fn wait_timeout_s(&self) -> u32 {
        self.wait_timeout_s()
    }
    fn net_read_timeout_s(&self) -> u32 {
        self.net_read_timeout_s()
    }
    fn net_write_timeout_s(&self) -> u32 {
        self.net_write_timeout_s()
    }
    fn max_allowed_packet(&self) -> usize {
        self.max_allowed_packet()
    }
    fn user_variable(&self, name: &str, most: usize) -> Result<Option<String>, VariableTooLong> {
        self.user_variable(name, most)
    }
}
