//! The value of a clustered record: `trx id u48, roll ptr u48, payload`. The transaction id names
//! the writer of this version, and the roll pointer leads to the undo record of the version before.
use crate::TrxId;
use crate::bytes::u48_at;
use crate::undo::record::{RollPtr, trx_bytes};

pub(crate) const HEAD: usize = 12;

pub(crate) fn trx(v: &[u8]) -> TrxId {
    TrxId(u48_at(v, 0))
}
pub(crate) fn roll(v: &[u8]) -> RollPtr {
    RollPtr(u48_at(v, 6))
}
pub(crate) fn payload(v: &[u8]) -> &[u8] {
    &v[HEAD..]
}
pub(crate) fn head(trx: TrxId, roll: RollPtr) -> [u8; HEAD] {
    let mut b = [0; HEAD];
    b[..6].copy_from_slice(&trx_bytes(trx));
    b[6..].copy_from_slice(&roll.to_bytes());
    b
}
