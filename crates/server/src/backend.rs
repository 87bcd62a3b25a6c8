//! What a connection asks of the SQL layer. Implemented by `redolith_sql` (in `sql_backend`) and by
//! the fake of the tests.
use crate::protocol::capabilities::Capabilities;
use redolith_sql::memory::ServerMemory;
use redolith_sql::processes::Process;
use redolith_sql::{ColumnMeta, ResultSink, SqlError};
use redolith_types::{Collation, Value};
use std::sync::Arc;

pub use redolith_sql::session::Prepared;

pub trait Backend: Send + Sync + 'static {
    type Session: Session;
    /// A session for a client that has logged in.
    fn session(&self, client: Client) -> Self::Session;
    fn limits(&self) -> Limits;
    /// What all clients together may make grow.
    fn memory(&self) -> &Arc<ServerMemory>;
}

/// Who a session is for.
#[derive(Clone, Debug)]
pub struct Client {
    pub process: Arc<Process>,
    pub user: String,
    pub host: String,
    /// What the client asked for as its character set.
    pub collation_id: u16,
    pub capabilities: Capabilities,
}

/// Global settings that the server looks at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_connections: u32,
    pub connect_timeout_s: u32,
    /// How many clients may be logging in at one time.
    pub login_seats: u32,
}

pub trait Session: Send {
    /// Runs the statements of a COM_QUERY; every outcome goes to `out`.
    fn query(&mut self, text: &[u8], out: &mut impl ResultSink) -> impl Future<Output = ()> + Send;
    fn prepare(&mut self, text: &[u8]) -> impl Future<Output = Result<Prepared, SqlError>> + Send;
    /// The columns of a statement's rows.
    fn describe(
        &mut self,
        text: &[u8],
    ) -> impl Future<Output = Result<Vec<ColumnMeta>, SqlError>> + Send;
    /// `binary`: numbers of the parameters that are bytes of no character set, ascending.
    fn execute(
        &mut self,
        id: u32,
        params: &[Value<'_>],
        binary: &[u32],
        out: &mut impl ResultSink,
    ) -> impl Future<Output = ()> + Send;
    fn close_statement(&mut self, id: u32);
    /// The text of a prepared statement, for the process list.
    fn statement_text(&self, id: u32) -> &[u8];
    fn init_db(&mut self, name: &[u8]) -> impl Future<Output = Result<(), SqlError>> + Send;
    /// COM_RESET_CONNECTION: rolls back, forgets prepared statements, variables and temporary
    /// things; keeps user and database.
    fn reset(&mut self) -> impl Future<Output = ()> + Send;
    /// The connection ends: rolls back.
    fn end(&mut self) -> impl Future<Output = ()> + Send;
    fn set_multi_statements(&mut self, on: bool);
    /// SERVER_STATUS_* now.
    fn status(&self) -> u16;
    /// The character set that the client wants strings in; None: as they are stored
    /// (`character_set_results` is NULL or binary).
    fn results_collation(&self) -> Option<Collation>;
    fn wait_timeout_s(&self) -> u32;
    fn net_read_timeout_s(&self) -> u32;
    fn net_write_timeout_s(&self) -> u32;
    fn max_allowed_packet(&self) -> usize;
}
