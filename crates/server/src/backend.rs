//! The interface between a connection and the SQL layer. `redolith_sql` implements it (in
//! `sql_backend`), and so does the fake backend of the tests.
use crate::cursor::CursorSpace;
use crate::protocol::capabilities::Capabilities;
use redolith_engine::runtime::Runtime;
use redolith_replication::Binlog;
use redolith_sql::memory::ServerMemory;
use redolith_sql::processes::Process;
use redolith_sql::settings::SERVER_VERSION;
use redolith_sql::{ColumnMeta, ResultSink, SqlError};
use redolith_types::{Collation, Value};
use std::sync::Arc;

pub use redolith_sql::session::{Prepared, VariableTooLong};

pub trait Backend: Send + Sync + 'static {
    type Session: Session;
    /// Creates a session for a client that has logged in.
    fn session(&self, client: Client) -> Self::Session;
    fn limits(&self) -> Limits;
    /// The version that the greeting names.
    fn version(&self) -> Arc<str> {
        SERVER_VERSION.into()
    }
    /// The account of the memory that clients can make grow.
    fn memory(&self) -> &Arc<ServerMemory>;
    /// Where the cursors of prepared statements keep their rows.
    fn cursor_space(&self) -> CursorSpace;
    /// The binary log, if it is on.
    fn binlog(&self) -> Option<BinlogSource> {
        None
    }
}

/// What a dump of the binary log reads from.
pub struct BinlogSource {
    pub binlog: Arc<Binlog>,
    pub runtime: Arc<dyn Runtime>,
    /// `gtid_domain_id`.
    pub gtid_domain: u32,
}

/// The client that a session serves.
#[derive(Clone, Debug)]
pub struct Client {
    pub process: Arc<Process>,
    pub user: String,
    pub host: String,
    /// The collation that the client named in its login.
    pub collation_id: u16,
    pub capabilities: Capabilities,
}

/// The global settings that the server uses.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_connections: u32,
    pub connect_timeout_s: u32,
    /// How many clients may be logging in at the same time.
    pub login_seats: u32,
}

pub trait Session: Send {
    /// Runs the statements of a COM_QUERY. Results and errors go to `out`.
    fn query(&mut self, text: &[u8], out: &mut impl ResultSink) -> impl Future<Output = ()> + Send;
    fn prepare(&mut self, text: &[u8]) -> impl Future<Output = Result<Prepared, SqlError>> + Send;
    /// The columns of a statement's rows.
    fn describe(
        &mut self,
        text: &[u8],
    ) -> impl Future<Output = Result<Vec<ColumnMeta>, SqlError>> + Send;
    /// Runs a prepared statement. `binary` has the numbers of the parameters that are bytes without
    /// a character set, in ascending order.
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
    /// COM_RESET_CONNECTION: rolls back, and drops prepared statements, variables and temporary
    /// objects. The user and the database stay.
    fn reset(&mut self) -> impl Future<Output = ()> + Send;
    /// Ends the session: rolls back its transaction.
    fn end(&mut self) -> impl Future<Output = ()> + Send;
    fn set_multi_statements(&mut self, on: bool);
    /// The present SERVER_STATUS_* flags.
    fn status(&self) -> u16;
    /// The collation whose character set the client wants strings in. `None` if strings are sent as
    /// they are stored (`character_set_results` is NULL or binary).
    fn results_collation(&self) -> Option<Collation>;
    fn wait_timeout_s(&self) -> u32;
    fn net_read_timeout_s(&self) -> u32;
    fn net_write_timeout_s(&self) -> u32;
    fn max_allowed_packet(&self) -> usize;
    /// The value of a user variable, as text of at most `most` bytes. Replicas set some before they
    /// ask for a dump.
    fn user_variable(&self, _name: &str, _most: usize) -> Result<Option<String>, VariableTooLong> {
        Ok(None)
    }
}
