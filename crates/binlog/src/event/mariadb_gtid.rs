//! MariaDB's GTID event (type 162), which begins each transaction and takes the place of BEGIN.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | number of the transaction in its domain |
//! | 8 | 4 | domain |
//! | 12 | 1 | flags |
//! | 13 | 0 or 8 | id of the group that was committed together, with flag 2 |
//! | | 4, 1, 1 | format id and lengths of the two parts of an XA name, with flag 64 or 128 |
//! | | | both parts of the name |
//!
//! The body has at least 19 bytes: zeros fill it up. The server's id in the GTID is that of the
//! event's header. (MariaDB, `Gtid_log_event`)
use super::simple::MAX_XID_PART;
use crate::DecodeError;
use crate::bytes::{Input, put_u32, put_u64};

/// The bytes of the fixed part, as a FORMAT_DESCRIPTION of MariaDB has it.
pub(crate) const FIXED_LEN: usize = 19;

mod bit {
    /// One event follows, and no COMMIT.
    pub(super) const STANDALONE: u8 = 1;
    pub(super) const GROUP: u8 = 2;
    /// The transaction can be rolled back, so a replica may apply it early, and take it back.
    pub(super) const TRANSACTIONAL: u8 = 4;
    pub(super) const ALLOW_PARALLEL: u8 = 8;
    pub(super) const DDL: u8 = 32;
    pub(super) const PREPARED_XA: u8 = 64;
    pub(super) const COMPLETED_XA: u8 = 128;
}

/// The name of an XA transaction: its format id, its global part and its branch part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XaName<'a> {
    /// The format id.
    pub format_id: i32,
    /// At most 64 bytes.
    pub gtrid: &'a [u8],
    /// At most 64 bytes.
    pub bqual: &'a [u8],
}

/// What follows a GTID event of MariaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MariadbGroup<'a> {
    /// Rows, and at their end XID.
    Transaction,
    /// One QUERY.
    Definition,
    /// Rows, `XA END` and XA_PREPARE.
    XaPrepare(XaName<'a>),
    /// QUERY with `XA COMMIT` or `XA ROLLBACK`.
    XaEnd(XaName<'a>),
}

/// The body of a GTID event of MariaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MariadbGtidEvent<'a> {
    /// The number in the domain.
    pub number: u64,
    /// `gtid_domain_id`.
    pub domain: u32,
    /// Neighbours with the same id may be applied at the same time.
    pub group_id: Option<u64>,
    /// What follows.
    pub group: MariadbGroup<'a>,
}

impl<'a> MariadbGtidEvent<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        put_u64(out, self.number);
        put_u32(out, self.domain);
        let (kind, xa) = match self.group {
            MariadbGroup::Transaction => (bit::TRANSACTIONAL, None),
            MariadbGroup::Definition => (bit::STANDALONE | bit::DDL, None),
            MariadbGroup::XaPrepare(name) => (bit::TRANSACTIONAL | bit::PREPARED_XA, Some(name)),
            MariadbGroup::XaEnd(name) => {
                (bit::STANDALONE | bit::TRANSACTIONAL | bit::COMPLETED_XA, Some(name))
            }
        };
        let group = self.group_id.map_or(0, |_| bit::GROUP);
        out.push(kind | group | bit::ALLOW_PARALLEL);
        if let Some(id) = self.group_id {
            put_u64(out, id);
        }
        if let Some(XaName { format_id, gtrid, bqual }) = xa {
            put_u32(out, format_id as u32);
            out.push(gtrid.len() as u8);
            out.push(bqual.len() as u8);
            out.extend_from_slice(gtrid);
            out.extend_from_slice(bqual);
        }
        out.resize(out.len().max(at + FIXED_LEN), 0);
    }

    pub(super) fn decode(body: &'a [u8]) -> Result<MariadbGtidEvent<'a>, DecodeError> {
        let mut input = Input::new(body, "a GTID event of MariaDB");
        if body.len() < FIXED_LEN {
            return Err(input.wrong("it has less than 19 bytes"));
        }
        let (number, domain, flags) = (input.u64()?, input.u32()?, input.u8()?);
        let group_id = if flags & bit::GROUP != 0 { Some(input.u64()?) } else { None };
        let is_xa = flags & (bit::PREPARED_XA | bit::COMPLETED_XA) != 0;
        let group = if is_xa {
            let format_id = input.u32()? as i32;
            let (gtrid, bqual) = (input.u8()?, input.u8()?);
            if u32::from(gtrid.max(bqual)) > MAX_XID_PART {
                return Err(input.wrong("a name longer than 64 bytes"));
            }
            let gtrid = input.bytes(gtrid.into())?;
            let name = XaName { format_id, gtrid, bqual: input.bytes(bqual.into())? };
            match flags & bit::PREPARED_XA {
                0 => MariadbGroup::XaEnd(name),
                _ => MariadbGroup::XaPrepare(name),
            }
        } else if flags & bit::STANDALONE != 0 {
            MariadbGroup::Definition
        } else {
            MariadbGroup::Transaction
        };
        Ok(MariadbGtidEvent { number, domain, group_id, group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes were read from files of MariaDB 10.11.
    #[test]
    fn bodies_are_those_of_mariadb() {
        let name = XaName { format_id: 3, gtrid: b"x", bqual: b"y" };
        let event =
            |number, group_id, group| MariadbGtidEvent { number, domain: 0, group_id, group };
        for (event, hex) in [
            (event(6, None, MariadbGroup::Transaction), "0600000000000000000000000c000000000000"),
            (
                event(5, None, MariadbGroup::XaEnd(name)),
                "0500000000000000000000008d0300000001017879",
            ),
            (
                event(4, None, MariadbGroup::XaPrepare(name)),
                "0400000000000000000000004c0300000001017879",
            ),
            (event(1, None, MariadbGroup::Definition), "01000000000000000000000029000000000000"),
            (
                event(2, Some(9), MariadbGroup::Transaction),
                "0200000000000000000000000e0900000000000000",
            ),
        ] {
            let mut body = Vec::new();
            event.encode(&mut body);
            let shown: String = body.iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(shown, hex);
            assert_eq!(MariadbGtidEvent::decode(&body).unwrap(), event);
            (0..body.len().min(FIXED_LEN))
                .for_each(|cut| assert!(MariadbGtidEvent::decode(&body[..cut]).is_err()));
        }
    }
}
