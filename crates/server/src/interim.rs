//! Holds the place of the SQL layer until its session is there: answers `SELECT 1` and `DO ...`, and 1235 to everything else.
use crate::backend::{Backend, Client, Limits, Prepared, Session};
use crate::start::Parts;
use redolith_sql::plan::ty::ExprType;
use redolith_sql::settings::{SessionVars, Settings, Var};
use redolith_sql::{ColumnMeta, OkInfo, ResultSink, SqlError, StatusFlags};
use redolith_types::{Collation, Value};
use std::sync::Arc;

pub struct Interim {
    settings: Arc<Settings>,
}
impl Interim {
    pub fn new(parts: &Parts) -> Interim {
        Interim { settings: parts.settings.clone() }
    }
}
pub struct InterimSession {
    vars: SessionVars,
    settings: Arc<Settings>,
}

impl Backend for Interim {
    type Session = InterimSession;
    fn session(&self, client: Client) -> InterimSession {
        let mut vars = SessionVars::new(&self.settings);
        vars.set_names(Collation::from_id(client.collation_id).unwrap_or(Collation::Utf8mb4GeneralCi));
        InterimSession { vars, settings: self.settings.clone() }
    }
    fn limits(&self) -> Limits {
        Limits {
            max_connections: self.settings.bits(Var::MaxConnections) as u32,
            max_prepared_statements: self.settings.bits(Var::MaxPreparedStmtCount) as u32,
            connect_timeout_s: self.settings.bits(Var::ConnectTimeout) as u32,
        }
    }
}

fn ok() -> OkInfo {
    OkInfo { status: StatusFlags(StatusFlags::AUTOCOMMIT), ..OkInfo::default() }
}

impl Session for InterimSession {
    async fn query(&mut self, text: &[u8], out: &mut impl ResultSink) {
        let text = String::from_utf8_lossy(text).trim().to_ascii_lowercase();
        if text == "select 1" {
            out.columns(&[ColumnMeta::expression("1", ExprType::bigint(2))]);
            out.row(&[Value::Int(1)]);
            out.finish_rows(&ok());
        } else if text.starts_with("do ") {
            out.ok(&ok());
        } else {
            out.error(&SqlError::unsupported(text));
        }
    }
    async fn prepare(&mut self, text: &[u8]) -> Result<Prepared, SqlError> {
        Err(SqlError::unsupported(String::from_utf8_lossy(text)))
    }
    async fn execute(&mut self, _: u32, _: &[Value<'_>], out: &mut impl ResultSink) {
        out.error(&SqlError::unsupported("prepared statements"));
    }
    fn close_statement(&mut self, _: u32) {}
    fn statement_text(&self, _: u32) -> &[u8] {
        b""
    }
    async fn init_db(&mut self, name: &[u8]) -> Result<(), SqlError> {
        Err(SqlError::unknown_database(String::from_utf8_lossy(name)))
    }
    async fn reset(&mut self) {
        self.vars = SessionVars::new(&self.settings);
    }
    async fn end(&mut self) {}
    fn set_multi_statements(&mut self, _: bool) {}
    fn status(&self) -> u16 {
        StatusFlags::AUTOCOMMIT
    }
    fn results_collation(&self) -> Option<Collation> {
        self.vars.collation(Var::CharacterSetResults)
    }
    fn wait_timeout_s(&self) -> u32 {
        self.vars.bits(Var::WaitTimeout) as u32
    }
    fn net_read_timeout_s(&self) -> u32 {
        self.vars.bits(Var::NetReadTimeout) as u32
    }
    fn net_write_timeout_s(&self) -> u32 {
        self.vars.bits(Var::NetWriteTimeout) as u32
    }
    fn max_allowed_packet(&self) -> usize {
        self.vars.bits(Var::MaxAllowedPacket) as usize
    }
}
