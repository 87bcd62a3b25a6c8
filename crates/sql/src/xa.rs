//! The XA transactions of the server: their names, and those that are prepared.
//!
//! - XA-1: a name stands for one transaction in the whole server, from XA START to its end.
//! - XA-2: a prepared transaction belongs to no session (MySQL's `xa_detach_on_prepare`): any
//!   session may end it, and one of them does.
//! - XA-5: the locks of a prepared transaction stay charged to the server's memory.
use crate::error::{Result, SqlError};
use crate::memory::{Account, ServerMemory, lock_bytes};
use parking_lot::Mutex;
use redolith_engine::dict::metadata_lock::{MetadataLockMode, MetadataLockSet};
use redolith_engine::{Engine, Prepared, Trx};
use std::collections::HashMap;
use std::sync::Arc;

/// The longest part of a name. (X/Open XA, `MAXGTRIDSIZE`)
pub const PART_MAX: usize = 64;
/// The most XA transactions at a time.
const MOST: usize = 10_000;
const NAME_VERSION: u8 = 1;

/// The name of an XA transaction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Xid {
    pub format_id: u32,
    pub gtrid: Box<[u8]>,
    pub bqual: Box<[u8]>,
}
impl Xid {
    /// The name as statements in the binary log have it: `X'6162',X'',1`.
    pub fn in_statement(&self) -> String {
        format!("X'{}',X'{}',{}", hex(&self.gtrid), hex(&self.bqual), self.format_id)
    }
    /// The two parts, one behind the other.
    pub fn data(&self) -> Vec<u8> {
        [&self.gtrid[..], &self.bqual].concat()
    }
    /// What the engine keeps with the prepared transaction. `logged` says whether its changes are
    /// in the binary log.
    pub fn to_name(&self, logged: bool) -> Vec<u8> {
        let mut name = vec![NAME_VERSION, logged.into()];
        name.extend_from_slice(&self.format_id.to_le_bytes());
        name.push(self.gtrid.len() as u8);
        name.extend_from_slice(&self.gtrid);
        name.extend_from_slice(&self.bqual);
        name
    }
    fn from_name(name: &[u8]) -> Option<(Xid, bool)> {
        let ([NAME_VERSION, logged], rest) = name.split_first_chunk()? else { return None };
        let (format_id, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first()?;
        let (gtrid, bqual) = rest.split_at_checked(usize::from(*len))?;
        let format_id = u32::from_le_bytes(*format_id);
        let xid = Xid { format_id, gtrid: gtrid.into(), bqual: bqual.into() };
        Some((xid, *logged != 0))
    }
}
/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A prepared transaction.
pub struct Detached {
    pub trx: Trx,
    /// They keep DDL away from its tables.
    pub locks: MetadataLockSet,
    /// Whether its changes are in the binary log, so that its end has to be there, too.
    pub logged: bool,
    /// What its locks take.
    pub memory: Account,
}

enum Branch {
    /// A session works on it, or ends it.
    InSession,
    Prepared(Box<Detached>),
}

/// All XA transactions.
#[derive(Default)]
pub struct XaTransactions(Mutex<HashMap<Xid, Branch>>);

/// A name that a session has in use. Dropping the value makes the name free again.
pub struct XaName {
    all: Arc<XaTransactions>,
    xid: Xid,
    /// The name stays in use when the value is dropped.
    stays: bool,
}
impl Drop for XaName {
    fn drop(&mut self) {
        if !self.stays {
            self.all.0.lock().remove(&self.xid);
        }
    }
}
impl XaName {
    pub fn xid(&self) -> &Xid {
        &self.xid
    }
    /// Gives the transaction, which is prepared, to all sessions.
    pub fn prepared(mut self, detached: Box<Detached>) {
        self.stays = true;
        self.all.0.lock().insert(self.xid.clone(), Branch::Prepared(detached));
    }
}

impl XaTransactions {
    /// Takes the prepared transactions that a start has found.
    pub fn found(engine: &Engine, memory: &Arc<ServerMemory>) -> Arc<XaTransactions> {
        let all = XaTransactions::default();
        for prepared in engine.take_prepared() {
            all.take_over(engine, prepared, Account::exact(memory));
        }
        Arc::new(all)
    }
    fn take_over(&self, engine: &Engine, prepared: Prepared, mut memory: Account) {
        let Prepared { name, tables, trx } = prepared;
        let Some((xid, logged)) = Xid::from_name(&name) else {
            tracing::error!(
                "the prepared transaction {} has no name that XA statements could say: it keeps \
                 its locks. Open the data directory with the program that has prepared it",
                trx.id().0
            );
            return;
        };
        let mut locks = MetadataLockSet::new();
        for used in tables {
            if let Some(table) = engine.dict.by_id(used.id) {
                use MetadataLockMode::{Read, Write};
                let mode = if used.written { Write } else { Read };
                // No session is there yet, and these modes get on with each other.
                locks.try_lock(&table.metadata_lock, mode);
            }
        }
        // It was prepared, so it is taken over even where the server's memory has become less.
        let _ = memory.set(lock_bytes(trx.locks()));
        let detached = Detached { trx, locks, logged, memory };
        self.0.lock().insert(xid, Branch::Prepared(Box::new(detached)));
    }

    /// XA START: takes a name that is free (XA-1).
    pub fn begin(self: &Arc<XaTransactions>, xid: &Xid) -> Result<XaName> {
        let mut all = self.0.lock();
        if all.contains_key(xid) {
            return Err(SqlError::xa_duplicate());
        }
        if all.len() >= MOST {
            return Err(SqlError::new(
                1401,
                format!(
                    "XAER_RMERR: {MOST} XA transactions have not ended. XA RECOVER lists those \
                     that are prepared: end them with XA COMMIT or XA ROLLBACK"
                ),
            ));
        }
        all.insert(xid.clone(), Branch::InSession);
        Ok(XaName { all: self.clone(), xid: xid.clone(), stays: false })
    }
    /// Takes a prepared transaction, to end it (XA-2).
    pub fn take(self: &Arc<XaTransactions>, xid: &Xid) -> Result<(XaName, Box<Detached>)> {
        let mut all = self.0.lock();
        let branch = all.get_mut(xid).ok_or_else(SqlError::xa_unknown)?;
        match std::mem::replace(branch, Branch::InSession) {
            Branch::Prepared(detached) => {
                Ok((XaName { all: self.clone(), xid: xid.clone(), stays: false }, detached))
            }
            Branch::InSession => Err(SqlError::xa_unknown()),
        }
    }
    /// The names of the prepared transactions, in order.
    pub fn list(&self) -> Vec<Xid> {
        let all = self.0.lock();
        let prepared = all.iter().filter(|(_, branch)| matches!(branch, Branch::Prepared(_)));
        let mut names: Vec<Xid> = prepared.map(|(xid, _)| xid.clone()).collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (gtrid, bqual, logged) in [(&b"g"[..], &b"b"[..], true), (b"", b"", false)] {
            let xid = Xid { format_id: 7, gtrid: gtrid.into(), bqual: bqual.into() };
            assert_eq!(Xid::from_name(&xid.to_name(logged)), Some((xid, logged)));
        }
        assert_eq!(Xid::from_name(b"\x01\x00\x07\x00\x00\x00\x05abc"), None);
        assert_eq!(Xid::from_name(b"a name of another program"), None);
    }

    /// Tests XA-1.
    #[test]
    fn a_name_is_free_again_when_its_session_is_gone() {
        let all = Arc::new(XaTransactions::default());
        let xid = Xid { format_id: 1, gtrid: b"x"[..].into(), bqual: b""[..].into() };
        let name = all.begin(&xid).unwrap();
        assert_eq!(all.begin(&xid).err().map(|e| e.code), Some(1440));
        assert_eq!(all.take(&xid).err().map(|e| e.code), Some(1397));
        drop(name);
        assert!(all.begin(&xid).is_ok() && all.list().is_empty());
    }
}
