//! The record of the end of a prepared XA transaction: `XA COMMIT` or `XA ROLLBACK`, as MySQL logs
//! it. Its changes have been logged when it was prepared.
use super::settings::{LogSettings, encode_options};
use crate::error::Result;
use crate::settings::{SERVER_VERSION_ID, Settings};
use crate::xa::Xid;
use redolith_binlog::{GtidTemplate, Query, TransactionBuilder};
use redolith_replication::record;

/// Makes the record. `verb` is COMMIT or ROLLBACK.
pub fn xa_end(
    now_us: i64,
    server: &Settings,
    settings: &LogSettings,
    session: u32,
    verb: &str,
    xid: &Xid,
) -> Result<Vec<u8>> {
    let stamp = settings.stamp(server, now_us);
    let text = format!("XA {verb} {}", xid.in_statement());
    let query = Query {
        thread_id: session,
        status: settings.status(),
        text: text.as_bytes(),
        suppresses_use: true,
        ..Query::default()
    };
    let mut builder = TransactionBuilder::new(encode_options(server));
    builder.query(stamp, &query)?;
    let template = GtidTemplate { server_version: SERVER_VERSION_ID, ..GtidTemplate::default() };
    let events = builder.seal(stamp, &template)?;
    // No key: the transactions behind it may need the rows that it sets free.
    Ok(record::transaction(now_us.max(0) as u64, None, events.as_bytes()))
}
