//! Events whose bodies are a few fields.
//!
//! | event | body |
//! |---|---|
//! | ROTATE (4) | u64: where the next file's events begin (4); its name |
//! | XID (16) | u64: the transaction's number |
//! | INCIDENT (26) | u16: 1, lost events; u8 length and text of a message |
//! | ROWS_QUERY (29) | u8: the length of the text if it is below 256, and nobody reads it; text |
//! | XA_PREPARE (38) | u8: 1, commit in one phase; u32 format id; u32 g; u32 b; g bytes gtrid; b bytes bqual |
//! | STOP (3) | nothing |
//! | HEARTBEAT (27) | the file's name |
use crate::DecodeError;
use crate::bytes::{Input, put_u16, put_u32, put_u64};

/// The longest gtrid, and the longest bqual, of an XA transaction.
pub(super) const MAX_XID_PART: u32 = 64;

/// The body of a ROTATE event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate<'a> {
    /// Where the events begin in the next file.
    pub position: u64,
    /// The next file's name without its folder.
    pub file: &'a [u8],
}

impl<'a> Rotate<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.position);
        out.extend_from_slice(self.file);
    }

    pub(super) fn decode(body: &'a [u8]) -> Result<Rotate<'a>, DecodeError> {
        let mut input = Input::new(body, "a ROTATE event");
        Ok(Rotate { position: input.u64()?, file: input.rest() })
    }
}

/// The body of an INCIDENT event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incident<'a> {
    /// 1: events were lost.
    pub number: u16,
    /// At most 255 bytes.
    pub message: &'a [u8],
}

impl<'a> Incident<'a> {
    /// Events were lost.
    pub const LOST_EVENTS: u16 = 1;

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_u16(out, self.number);
        let message = &self.message[..self.message.len().min(0xff)];
        out.push(message.len() as u8);
        out.extend_from_slice(message);
    }

    pub(super) fn decode(body: &'a [u8]) -> Result<Incident<'a>, DecodeError> {
        let mut input = Input::new(body, "an INCIDENT event");
        let number = input.u16()?;
        let len = usize::from(input.u8()?);
        let message = input.bytes(len)?;
        input.end()?;
        Ok(Incident { number, message })
    }
}

/// The body of an XA_PREPARE event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XaPrepare<'a> {
    /// XA COMMIT .. ONE PHASE.
    pub one_phase: bool,
    /// The format id of the transaction's name.
    pub format_id: i32,
    /// The global part of the name; at most 64 bytes.
    pub gtrid: &'a [u8],
    /// The branch part of the name; at most 64 bytes.
    pub bqual: &'a [u8],
}

impl<'a> XaPrepare<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.one_phase));
        put_u32(out, self.format_id as u32);
        put_u32(out, self.gtrid.len() as u32);
        put_u32(out, self.bqual.len() as u32);
        out.extend_from_slice(self.gtrid);
        out.extend_from_slice(self.bqual);
    }

    pub(super) fn decode(body: &'a [u8]) -> Result<XaPrepare<'a>, DecodeError> {
        let mut input = Input::new(body, "an XA_PREPARE event");
        let one_phase = input.u8()? != 0;
        let format_id = input.u32()? as i32;
        let (gtrid_len, bqual_len) = (input.u32()?, input.u32()?);
        if gtrid_len.max(bqual_len) > MAX_XID_PART {
            return Err(input.wrong("a name longer than 64 bytes"));
        }
        let gtrid = input.bytes(gtrid_len as usize)?;
        let bqual = input.bytes(bqual_len as usize)?;
        input.end()?;
        Ok(XaPrepare { one_phase, format_id, gtrid, bqual })
    }
}

pub(crate) fn encode_rows_query(text: &[u8], out: &mut Vec<u8>) {
    out.push(text.len().min(0xff) as u8);
    out.extend_from_slice(text);
}

pub(super) fn decode_rows_query(body: &[u8]) -> Result<&[u8], DecodeError> {
    let mut input = Input::new(body, "a ROWS_QUERY event");
    input.u8()?;
    Ok(input.rest())
}

pub(super) fn decode_xid(body: &[u8]) -> Result<u64, DecodeError> {
    let mut input = Input::new(body, "an XID event");
    let xid = input.u64()?;
    input.end()?;
    Ok(xid)
}
