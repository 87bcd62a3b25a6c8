//! What of a session's variables its events depend on.
use crate::settings::{SessionVars, Settings, Var};
use redolith_binlog::{Checksum, EncodeOptions, RowImage, RowMetadata, Stamp, StatusVars};
use redolith_types::Collation;

/// The values of a session's variables, derived when the variables change.
#[derive(Clone, Copy, Debug)]
pub struct LogSettings {
    /// `sql_log_bin`
    pub on: bool,
    /// `binlog_rows_query_log_events`
    pub rows_query: bool,
    /// `binlog_row_image`
    pub image: RowImage,
    /// `timestamp`, if it is set: microseconds since 1970.
    timestamp_us: Option<i64>,
    flags: u32,
    sql_mode: u64,
    auto_increment: (u16, u16),
    /// The collations of the client, of the connection and of the server.
    charset: [u16; 3],
    /// `default_collation_for_utf8mb4`
    utf8mb4: u16,
    /// Seconds east of UTC.
    zone_offset_secs: i32,
}

impl LogSettings {
    pub fn of(vars: &SessionVars, timestamp_us: Option<i64>, zone_offset_secs: i32) -> LogSettings {
        let id = |var| vars.collation(var).unwrap_or(Collation::Utf8mb4GeneralCi).id();
        let flag = |set: bool, flag| if set { flag } else { 0 };
        LogSettings {
            on: vars.is_on(Var::SqlLogBin),
            rows_query: vars.is_on(Var::BinlogRowsQueryLogEvents),
            image: match vars.bits(Var::BinlogRowImage) {
                0 => RowImage::Minimal,
                1 => RowImage::Noblob,
                _ => RowImage::Full,
            },
            timestamp_us,
            flags: flag(!vars.is_on(Var::Autocommit), StatusVars::NOT_AUTOCOMMIT)
                | flag(!vars.is_on(Var::ForeignKeyChecks), StatusVars::NO_FOREIGN_KEY_CHECKS)
                | flag(!vars.is_on(Var::UniqueChecks), StatusVars::RELAXED_UNIQUE_CHECKS)
                | flag(vars.is_on(Var::SqlAutoIsNull), StatusVars::AUTO_IS_NULL),
            sql_mode: vars.sql_mode().0,
            auto_increment: (
                vars.bits(Var::AutoIncrementIncrement) as u16,
                vars.bits(Var::AutoIncrementOffset) as u16,
            ),
            charset: [
                id(Var::CharacterSetClient),
                id(Var::CollationConnection),
                id(Var::CollationServer),
            ],
            utf8mb4: id(Var::DefaultCollationForUtf8mb4),
            zone_offset_secs,
        }
    }

    /// The status variables that every statement has.
    pub(crate) fn status(&self) -> StatusVars<'static> {
        StatusVars {
            flags2: Some(self.flags),
            sql_mode: Some(self.sql_mode),
            has_catalog: true,
            auto_increment: (self.auto_increment != (1, 1)).then_some(self.auto_increment),
            charset: Some(self.charset),
            default_collation_for_utf8mb4: Some(self.utf8mb4),
            ..StatusVars::default()
        }
    }
    /// The time zone as an offset: a replica need not know the names of zones, and its SYSTEM may
    /// be another zone than this server's, which is UTC.
    pub(super) fn zone(&self) -> String {
        let minutes = self.zone_offset_secs / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
    }
    /// The settings of a statement whose time is `us`.
    pub(crate) fn at(self, us: i64) -> LogSettings {
        LogSettings { timestamp_us: Some(us), ..self }
    }
    /// The microseconds of the statement's time, if it is set and has any.
    pub(super) fn fraction(&self) -> Option<u32> {
        self.timestamp_us.map(|us| us.rem_euclid(1_000_000) as u32).filter(|us| *us > 0)
    }
    /// The time of events that are made at `now_us`, and who makes them.
    pub(super) fn stamp(&self, server: &Settings, now_us: i64) -> Stamp {
        let us = self.timestamp_us.unwrap_or(now_us);
        Stamp { timestamp: (us / 1_000_000) as u32, server_id: server.bits(Var::ServerId) as u32 }
    }
}

/// `binlog_checksum`
pub fn checksum(server: &Settings) -> Checksum {
    match server.bits(Var::BinlogChecksum) {
        0 => Checksum::None,
        _ => Checksum::Crc32,
    }
}

/// How events are encoded. If `binlog_checksum` changes before the commit, the events are changed
/// when they get their place.
pub(super) fn encode_options(server: &Settings) -> EncodeOptions {
    EncodeOptions {
        checksum: checksum(server),
        row_event_max_bytes: server.bits(Var::BinlogRowEventMaxSize) as usize,
    }
}

/// `binlog_row_metadata`
pub(super) fn row_metadata(server: &Settings) -> RowMetadata {
    match server.bits(Var::BinlogRowMetadata) {
        0 => RowMetadata::Minimal,
        _ => RowMetadata::Full,
    }
}
