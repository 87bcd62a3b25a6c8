//! QUERY (2): the text of a statement, and what of its session the text depends on.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | id of the session |
//! | 4 | 4 | seconds that the statement ran |
//! | 8 | 1 | n, bytes of the default database's name |
//! | 9 | 2 | error number |
//! | 11 | 2 | s, bytes of the status variables |
//! | 13 | s | status variables: a code and a value each |
//! | 13 + s | n + 1 | default database, and a zero |
//! | 14 + s + n | rest | the text |
//!
//! | code | value | in the order in which MySQL 8.0 writes them |
//! |---|---|---|
//! | 0 | u32 | flags: [`StatusVars::NOT_AUTOCOMMIT`] and others |
//! | 1 | u64 | sql_mode |
//! | 6 | u8 length, text | catalog: always "std" |
//! | 3 | u16, u16 | auto_increment_increment, auto_increment_offset |
//! | 4 | u16, u16, u16 | character_set_client, collation_connection, collation_server |
//! | 5 | u8 length, text | time_zone |
//! | 12 | u8 count, names with zeros behind | databases that the statement changes; count 254: too many |
//! | 13 | u24 | microseconds of the statement's start |
//! | 16 | u8 | explicit_defaults_for_timestamp |
//! | 17 | u64 | number of the transaction of a DDL statement |
//! | 18 | u16 | default_collation_for_utf8mb4 |
//! | 19, 20 | u8 | sql_require_primary_key, default_table_encryption |
//!
//! MariaDB stops at the first code that it does not know. So codes from 16 stand last.
use crate::DecodeError;
use crate::bytes::{Input, put_low, put_u16, put_u32, put_u64};

const CATALOG: &[u8] = b"std";
/// More databases than these are not listed. (MySQL, `MAX_DBS_IN_EVENT_MTS`)
pub const MAX_UPDATED_DATABASES: usize = 16;
const TOO_MANY_DATABASES: u8 = 254;

/// What of a session a statement's text depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusVars<'a> {
    /// Flags.
    pub flags2: Option<u32>,
    /// sql_mode as MySQL's bits.
    pub sql_mode: Option<u64>,
    /// Whether the catalog "std" is named. MySQL always names it.
    pub has_catalog: bool,
    /// auto_increment_increment and auto_increment_offset, if they are not 1.
    pub auto_increment: Option<(u16, u16)>,
    /// The ids of character_set_client's collation, collation_connection and collation_server.
    pub charset: Option<[u16; 3]>,
    /// time_zone, if the statement depends on it.
    pub time_zone: Option<&'a [u8]>,
    /// The databases that the statement changes. More than [`MAX_UPDATED_DATABASES`] are written as
    /// "too many", which is read as an empty list.
    pub updated_databases: Option<Vec<&'a [u8]>>,
    /// Microseconds of the statement's start.
    pub microseconds: Option<u32>,
    /// explicit_defaults_for_timestamp.
    pub explicit_defaults_for_timestamp: Option<bool>,
    /// The number of the transaction of a DDL statement.
    pub ddl_xid: Option<u64>,
    /// The id of default_collation_for_utf8mb4.
    pub default_collation_for_utf8mb4: Option<u16>,
    /// sql_require_primary_key.
    pub require_primary_key: Option<u8>,
    /// default_table_encryption.
    pub default_table_encryption: Option<u8>,
}

/// The body of a QUERY event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// The session's id.
    pub thread_id: u32,
    /// Seconds that the statement ran.
    pub execution_secs: u32,
    /// The statement's error. 0: none.
    pub error: u16,
    /// What of its session the text depends on.
    pub status: StatusVars<'a>,
    /// The default database; at most 255 bytes. Empty: none.
    pub database: &'a [u8],
    /// The text in the character set of character_set_client.
    pub text: &'a [u8],
    /// The flag SUPPRESS_USE of the header: the text does not depend on the default database.
    pub suppresses_use: bool,
}

impl<'a> StatusVars<'a> {
    /// In `flags2`: foreign keys are not checked. (`OPTION_NO_FOREIGN_KEY_CHECKS`)
    pub const NO_FOREIGN_KEY_CHECKS: u32 = 1 << 26;
    /// In `flags2`: unique keys are not checked. (`OPTION_RELAXED_UNIQUE_CHECKS`)
    pub const RELAXED_UNIQUE_CHECKS: u32 = 1 << 27;
    /// In `flags2`: autocommit is off. (`OPTION_NOT_AUTOCOMMIT`)
    pub const NOT_AUTOCOMMIT: u32 = 1 << 19;
    /// In `flags2`: sql_auto_is_null is on. (`OPTION_AUTO_IS_NULL`)
    pub const AUTO_IS_NULL: u32 = 1 << 14;

    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(flags) = self.flags2 {
            out.push(0);
            put_u32(out, flags);
        }
        if let Some(mode) = self.sql_mode {
            out.push(1);
            put_u64(out, mode);
        }
        if self.has_catalog {
            put_text(out, 6, CATALOG);
        }
        if let Some((increment, offset)) = self.auto_increment {
            out.push(3);
            put_u16(out, increment);
            put_u16(out, offset);
        }
        if let Some(ids) = self.charset {
            out.push(4);
            ids.into_iter().for_each(|id| put_u16(out, id));
        }
        if let Some(zone) = self.time_zone {
            put_text(out, 5, zone);
        }
        if let Some(databases) = &self.updated_databases {
            put_databases(out, databases);
        }
        if let Some(us) = self.microseconds {
            out.push(13);
            put_low::<3>(out, u64::from(us));
        }
        self.encode_from_16(out);
    }

    /// What MariaDB does not know.
    fn encode_from_16(&self, out: &mut Vec<u8>) {
        if let Some(is_explicit) = self.explicit_defaults_for_timestamp {
            out.extend_from_slice(&[16, u8::from(is_explicit)]);
        }
        if let Some(xid) = self.ddl_xid {
            out.push(17);
            put_u64(out, xid);
        }
        if let Some(id) = self.default_collation_for_utf8mb4 {
            out.push(18);
            put_u16(out, id);
        }
        for (code, value) in [(19, self.require_primary_key), (20, self.default_table_encryption)] {
            if let Some(value) = value {
                out.extend_from_slice(&[code, value]);
            }
        }
    }

    fn decode(bytes: &'a [u8]) -> Result<StatusVars<'a>, DecodeError> {
        let mut input = Input::new(bytes, "the status variables of a QUERY event");
        let mut status = StatusVars::default();
        while !input.is_empty() {
            match input.u8()? {
                0 => status.flags2 = Some(input.u32()?),
                1 => status.sql_mode = Some(input.u64()?),
                3 => status.auto_increment = Some((input.u16()?, input.u16()?)),
                4 => status.charset = Some([input.u16()?, input.u16()?, input.u16()?]),
                5 => status.time_zone = Some(text(&mut input)?),
                6 => {
                    if text(&mut input)? != CATALOG {
                        return Err(input.wrong("a catalog that is not std"));
                    }
                    status.has_catalog = true;
                }
                12 => status.updated_databases = Some(databases(&mut input)?),
                13 => status.microseconds = Some(input.le(3)? as u32),
                16 => status.explicit_defaults_for_timestamp = Some(input.u8()? != 0),
                17 => status.ddl_xid = Some(input.u64()?),
                18 => status.default_collation_for_utf8mb4 = Some(input.u16()?),
                19 => status.require_primary_key = Some(input.u8()?),
                20 => status.default_table_encryption = Some(input.u8()?),
                _ => skip_other(bytes[bytes.len() - input.len() - 1], &mut input)?,
            }
        }
        Ok(status)
    }
}

/// Passes over the variables that this crate does not write and has no use for.
fn skip_other(code: u8, input: &mut Input<'_>) -> Result<(), DecodeError> {
    match code {
        // The names of days and months; the database's character set.
        7 | 8 => input.bytes(2).map(drop),
        // The tables of an UPDATE of several tables.
        9 => input.bytes(8).map(drop),
        // Bytes that the source has written, which no server writes any more.
        10 => input.bytes(4).map(drop),
        // The account that a stored program runs as.
        11 => text(input).and_then(|_| text(input)).map(drop),
        _ => Err(input.wrong("an unknown code")),
    }
}

fn put_text(out: &mut Vec<u8>, code: u8, text: &[u8]) {
    let text = &text[..text.len().min(0xff)];
    out.extend_from_slice(&[code, text.len() as u8]);
    out.extend_from_slice(text);
}

fn text<'a>(input: &mut Input<'a>) -> Result<&'a [u8], DecodeError> {
    let len = input.u8()?;
    input.bytes(usize::from(len))
}

fn put_databases(out: &mut Vec<u8>, databases: &[&[u8]]) {
    out.push(12);
    if databases.len() > MAX_UPDATED_DATABASES {
        out.push(TOO_MANY_DATABASES);
        return;
    }
    out.push(databases.len() as u8);
    for name in databases {
        out.extend_from_slice(name);
        out.push(0);
    }
}

fn databases<'a>(input: &mut Input<'a>) -> Result<Vec<&'a [u8]>, DecodeError> {
    match input.u8()? {
        TOO_MANY_DATABASES => Ok(Vec::new()),
        count => (0..count).map(|_| input.until_zero()).collect(),
    }
}

impl<'a> Query<'a> {
    /// BEGIN, which every transaction of rows starts with.
    pub fn begin(thread_id: u32, database: &'a [u8], status: StatusVars<'a>) -> Query<'a> {
        Query {
            thread_id,
            database,
            status,
            text: b"BEGIN",
            suppresses_use: true,
            ..Query::default()
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let database = &self.database[..self.database.len().min(0xff)];
        put_u32(out, self.thread_id);
        put_u32(out, self.execution_secs);
        out.push(database.len() as u8);
        put_u16(out, self.error);
        let len_at = out.len();
        put_u16(out, 0);
        self.status.encode(out);
        let status_len = (out.len() - len_at - 2) as u16;
        out[len_at..len_at + 2].copy_from_slice(&status_len.to_le_bytes());
        out.extend_from_slice(database);
        out.push(0);
        out.extend_from_slice(self.text);
    }

    pub(super) fn decode(body: &'a [u8], suppresses_use: bool) -> Result<Query<'a>, DecodeError> {
        let mut input = Input::new(body, "a QUERY event");
        let (thread_id, execution_secs) = (input.u32()?, input.u32()?);
        let database_len = usize::from(input.u8()?);
        let error = input.u16()?;
        let status_len = usize::from(input.u16()?);
        let status = StatusVars::decode(input.bytes(status_len)?)?;
        let database = input.bytes(database_len)?;
        if input.u8()? != 0 {
            return Err(input.wrong("no zero behind the default database"));
        }
        let text = input.rest();
        Ok(Query { thread_id, execution_secs, error, status, database, text, suppresses_use })
    }
}
