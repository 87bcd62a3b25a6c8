//! The record of a definition: its text, as the client has sent it, or a text that the server makes
//! because a replica would make something else of the client's (GIPK-2).
use super::filter::Filter;
use super::settings::{LogSettings, encode_options};
use super::wait::killable;
use crate::error::{Result, SqlError};
use crate::plan_cache::PlanContext;
use crate::session_state::SessionState;
use crate::settings::{SERVER_VERSION_ID, Settings, Var};
use crate::sql_mode::SqlMode;
use redolith_binlog::{GtidTemplate, Query, StatusVars, TransactionBuilder};
use redolith_engine::Engine;
use redolith_replication::{Binlog, record};
use redolith_types::Charset;

/// The text of one statement, as the client has sent it.
#[derive(Clone, Copy)]
pub struct StatementText<'a> {
    pub bytes: &'a [u8],
    pub charset: Charset,
    /// What the text of a prepared statement means was settled when it was prepared.
    pub prepared: Option<&'a PlanContext>,
}

/// What the record of a definition is made from.
pub struct Definition<'a> {
    pub binlog: &'a Binlog,
    pub server: &'a Settings,
    pub settings: &'a LogSettings,
    pub filter: &'a Filter,
    pub text: StatementText<'a>,
}

impl Definition<'_> {
    /// The record of a definition that changes `databases`. `default` is the session's default
    /// database; None if the text does not depend on it, as that of CREATE DATABASE. `made` is the
    /// server's own text, in UTF-8, if it stands in for the client's.
    pub async fn record(
        &self,
        engine: &Engine,
        session: &SessionState,
        default: Option<&str>,
        databases: &[&str],
        made: Option<&[u8]>,
    ) -> Result<Vec<u8>> {
        killable(&session.process, self.binlog.admit()).await?;
        let now_us = engine.disk.wall_us();
        let stamp = self.settings.stamp(self.server, now_us);
        let zone = self.settings.zone();
        let mut updated: Vec<&[u8]> = databases.iter().map(|name| name.as_bytes()).collect();
        updated.sort_unstable();
        updated.dedup();
        let mut status = StatusVars {
            time_zone: Some(zone.as_bytes()),
            updated_databases: Some(updated),
            explicit_defaults_for_timestamp: Some(true),
            ddl_xid: Some(engine.sys.next_id().0),
            microseconds: self.settings.fraction(),
            ..self.settings.status()
        };
        if let Some([client, ..]) = &mut status.charset {
            let charset = if made.is_some() { Charset::Utf8mb4 } else { self.text.charset };
            *client = charset.default_collation().id();
        }
        if let (Some(prepared), Some(mode)) = (self.text.prepared, &mut status.sql_mode) {
            *mode = *mode & !SqlMode(u64::MAX).parsing_part() | prepared.mode.0;
            status.default_collation_for_utf8mb4 = Some(prepared.utf8mb4.id());
            if let Some([_, connection, _]) = &mut status.charset {
                *connection = prepared.collation.id();
            }
        }
        if let (Some(_), Some(mode)) = (made, &mut status.sql_mode) {
            // The server's texts are for readers in the default mode.
            *mode &= !SqlMode(u64::MAX).parsing_part();
        }
        // Here every table is InnoDB's, whatever engine its definition names. A replica that lacks
        // the engine is to take its default one, and not to stop.
        if let Some(mode) = &mut status.sql_mode {
            *mode &= !SqlMode::NO_ENGINE_SUBSTITUTION;
        }
        let default = match self.text.prepared {
            Some(prepared) => default.map(|_| prepared.schema.as_deref().unwrap_or_default()),
            None => default,
        };
        let suppresses_use = default.is_none();
        let database = default.or(databases.first().copied()).unwrap_or_default();
        let query = Query {
            thread_id: session.id,
            status,
            database: database.as_bytes(),
            text: made.unwrap_or(self.text.bytes).trim_ascii(),
            suppresses_use,
            ..Query::default()
        };
        let mut builder = TransactionBuilder::new(encode_options(self.server));
        builder.query(stamp, &query)?;
        let template = GtidTemplate {
            may_have_statements: true,
            server_version: SERVER_VERSION_ID,
            ..GtidTemplate::default()
        };
        let events = builder.seal(stamp, &template)?;
        let record = record::transaction(now_us.max(0) as u64, None, events.as_bytes());
        let most = self.server.bits(Var::MaxBinlogCacheSize).min(engine.record_max() as u64);
        if record.len() as u64 > most { Err(SqlError::binlog_cache_full()) } else { Ok(record) }
    }
}
