//! What a replica sends: COM_REGISTER_SLAVE, COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID and
//! acknowledgements. (MySQL manual, "Replication Protocol")
use super::lenenc::{Malformed, Reader};
use redolith_binlog::GtidSet;
use redolith_replication::Replica;
use redolith_replication::dump::Start;

/// The flag of a dump that ends where the binary log ends.
pub const NON_BLOCK: u16 = 1;
/// Before an event, for a replica that acknowledges; and the first byte of an acknowledgement.
pub const SEMI_SYNC: u8 = 0xef;
/// The longest set of GTIDs that is taken: tens of thousands of intervals.
const MAX_SET_BYTES: usize = 1 << 20;
/// The longest name of a file. (MySQL, `FN_REFLEN`)
const MAX_NAME_BYTES: usize = 512;

/// What a replica asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub flags: u16,
    pub server_id: u32,
    pub start: Start,
}

impl Request {
    /// COM_BINLOG_DUMP: position, flags, server id, name of the file.
    pub fn by_position(r: &mut Reader<'_>) -> Result<Request, Malformed> {
        let (position, flags, server_id) = (r.u32()?.into(), r.u16()?, r.u32()?);
        let name = r.rest();
        if name.len() > MAX_NAME_BYTES {
            return Err(Malformed);
        }
        let name = name.to_vec();
        Ok(Request { flags, server_id, start: Start::File { name, position } })
    }
    /// COM_BINLOG_DUMP_GTID: flags, server id, length and name of a file, position, length and
    /// bytes of the set. File and position count for nothing.
    pub fn by_gtids(r: &mut Reader<'_>) -> Result<Request, Malformed> {
        let (flags, server_id, name) = (r.u16()?, r.u32()?, r.u32()?);
        r.bytes(name as usize)?;
        r.u64()?;
        let len = r.u32()? as usize;
        let bytes = r.bytes(len)?;
        if len > MAX_SET_BYTES {
            return Err(Malformed);
        }
        let set = GtidSet::decode(bytes).map_err(|_| Malformed)?;
        Ok(Request { flags, server_id, start: Start::Gtids(set) })
    }
}

/// The fields of COM_REGISTER_SLAVE: server id, host, user, password, port, rank, source's id.
pub fn registration(r: &mut Reader<'_>) -> Result<Replica, Malformed> {
    let text = |r: &mut Reader<'_>| -> Result<String, Malformed> {
        let len = r.u8()?;
        Ok(String::from_utf8_lossy(r.bytes(len.into())?).into_owned())
    };
    let server_id = r.u32()?;
    let (host, _user, _password) = (text(r)?, text(r)?, text(r)?);
    let port = r.u16()?;
    Ok(Replica { server_id, host, port, is_registered: true, ..Replica::default() })
}

/// An acknowledgement of a replica: the position and the name of the file.
pub fn acknowledgement<'a>(r: &mut Reader<'a>) -> Result<(u64, &'a [u8]), Malformed> {
    if r.u8()? != SEMI_SYNC {
        return Err(Malformed);
    }
    Ok((r.u64()?, r.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_their_cut_forms_refused() {
        let by_position = [&[4, 0, 0, 0, 1, 0, 9, 0, 0, 0][..], b"binlog.000007"].concat();
        let file = |name: &[u8]| Start::File { name: name.to_vec(), position: 4 };
        let read = |bytes: &[u8]| Request::by_position(&mut Reader::new(bytes));
        let wanted = Request { flags: 1, server_id: 9, start: file(b"binlog.000007") };
        assert_eq!(read(&by_position).unwrap(), wanted);
        assert_eq!(read(&by_position[..10]).unwrap().start, file(b""));
        (0..10).for_each(|cut| assert!(read(&by_position[..cut]).is_err()));

        let mut by_gtids = vec![0, 0, 9, 0, 0, 0, 2, 0, 0, 0, b'x', b'y'];
        by_gtids.extend_from_slice(&4u64.to_le_bytes());
        by_gtids.extend_from_slice(&8u32.to_le_bytes());
        by_gtids.extend_from_slice(&[0; 8]);
        let read = |bytes: &[u8]| Request::by_gtids(&mut Reader::new(bytes));
        assert_eq!(read(&by_gtids).unwrap().start, Start::Gtids(GtidSet::new()));
        (0..by_gtids.len()).for_each(|cut| assert!(read(&by_gtids[..cut]).is_err()));
        by_gtids[6..10].fill(0xff);
        assert!(read(&by_gtids).is_err());

        let mut register = vec![9, 0, 0, 0, 1, b'h', 0, 0, 0xea, 0x0c];
        register.extend_from_slice(&[0; 8]);
        let replica = registration(&mut Reader::new(&register)).unwrap();
        assert_eq!((replica.server_id, &*replica.host, replica.port), (9, "h", 3306));
        (0..10).for_each(|cut| assert!(registration(&mut Reader::new(&register[..cut])).is_err()));
    }

    #[test]
    fn acknowledgements_are_read_and_what_is_none_is_refused() {
        let ack = [&[0xef, 4, 1, 0, 0, 0, 0, 0, 0][..], b"binlog.000007"].concat();
        let read = |bytes: &[u8]| {
            acknowledgement(&mut Reader::new(bytes)).ok().map(|(at, name)| (at, name.to_vec()))
        };
        assert_eq!(read(&ack), Some((260, b"binlog.000007".to_vec())));
        assert_eq!(read(&ack[..9]), Some((260, Vec::new())));
        (0..9).for_each(|cut| assert_eq!(read(&ack[..cut]), None));
        assert_eq!(read(&ack[1..]), None);
    }
}
