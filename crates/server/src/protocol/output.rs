//! The output buffer of a connection. Packets are written into it, and an answer leaves in one
//! write.
use super::capabilities::{Capabilities, status};
use super::lenenc::{put_bytes, put_int};
use super::packet::{HEADER, MAX_BODY};
use redolith_types::{Charset, Collation};
use std::borrow::Cow;

/// An answer that is still growing is sent when it has more bytes than this.
pub const DRAIN_ABOVE: usize = 64 << 10;
/// The capacity that the buffer keeps for the following rows.
const KEPT_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Output {
    pub buf: Vec<u8>,
    /// The sequence number of the next packet.
    pub sequence: u8,
}

impl Output {
    /// Writes one packet. `write` appends the body. A body of 16 MiB or more is cut into a chain of
    /// packets.
    pub fn packet<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let at = self.begin_packet();
        let result = write(&mut self.buf);
        self.end_packet(at);
        result
    }
    /// Opens a packet. The caller appends the body to `buf` and passes the result to
    /// [`Output::end_packet`].
    #[inline]
    pub fn begin_packet(&mut self) -> usize {
        self.buf.extend_from_slice(&[0; HEADER]);
        self.buf.len() - HEADER
    }
    #[inline]
    pub fn end_packet(&mut self, at: usize) {
        let len = self.buf.len() - at - HEADER;
        if len < MAX_BODY {
            self.put_header(at, len);
        } else {
            self.cut_into_chain(at, len);
        }
    }

    /// Writes the header of a packet whose body of `len` bytes the caller sends.
    pub fn begin_part(&mut self, len: usize) {
        let at = self.buf.len();
        self.buf.extend_from_slice(&[0; HEADER]);
        self.put_header(at, len);
    }

    fn put_header(&mut self, at: usize, len: usize) {
        self.buf[at..at + 3].copy_from_slice(&(len as u32).to_le_bytes()[..3]);
        self.buf[at + 3] = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
    }

    #[cold]
    fn cut_into_chain(&mut self, at: usize, len: usize) {
        // A last part of full length is followed by an empty packet.
        let parts = len / MAX_BODY + 1;
        let part = |n: usize| n * MAX_BODY..len.min((n + 1) * MAX_BODY);
        let room = HEADER * (parts - 1);
        self.buf.reserve_exact(room);
        self.buf.resize(self.buf.len() + room, 0);
        // The parts are moved in place, the last part first, so that memory never holds a body of
        // this size twice.
        for n in (1..parts).rev() {
            let from = at + HEADER + part(n).start;
            self.buf.copy_within(from..at + HEADER + part(n).end, from + n * HEADER);
        }
        for n in 0..parts {
            self.put_header(at + n * (MAX_BODY + HEADER), part(n).len());
        }
    }

    pub fn ok(&mut self, ok: &OkPacket<'_>) {
        self.packet(|b| ok.write(0x00, b));
    }

    /// Ends a result set, or a list of definitions: an OK packet that begins with 0xfe, or the
    /// older EOF packet.
    pub fn eof(&mut self, capabilities: Capabilities, ok: &OkPacket<'_>) {
        if capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.packet(|b| ok.write(0xfe, b));
        } else {
            self.definitions_end(ok.status, ok.warnings);
        }
    }

    /// Writes the EOF packet between definitions and rows. Clients with DEPRECATE_EOF do not get
    /// it.
    pub fn definitions_end(&mut self, status: u16, warnings: u16) {
        self.packet(|b| {
            b.push(0xfe);
            b.extend_from_slice(&warnings.to_le_bytes());
            b.extend_from_slice(&status.to_le_bytes());
        });
    }

    /// Writes an ERR packet with an SQLSTATE (protocol 4.1). `results` is as in
    /// [`super::column::put`].
    pub fn error(
        &mut self,
        code: u16,
        sqlstate: &[u8; 5],
        message: &str,
        results: Option<Collation>,
    ) {
        self.packet(|b| {
            b.push(0xff);
            b.extend_from_slice(&code.to_le_bytes());
            b.push(b'#');
            b.extend_from_slice(sqlstate);
            // Clients keep 512 bytes (MYSQL_ERRMSG_SIZE).
            b.extend_from_slice(&in_charset(&message[..message.floor_char_boundary(511)], results));
        });
    }

    /// Empties the buffer after it was sent. Memory that a long row has taken is freed at once.
    pub fn sent(&mut self) {
        self.sent_first(self.buf.len());
    }
    /// Removes the first `bytes` bytes, which were sent.
    pub fn sent_first(&mut self, bytes: usize) {
        self.buf.drain(..bytes);
        self.buf.shrink_to(KEPT_BYTES);
    }
    /// Frees the buffer, unless something is still to be sent.
    pub fn trim(&mut self) {
        if self.buf.is_empty() {
            self.buf = Vec::new();
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct OkPacket<'a> {
    pub affected: u64,
    pub last_insert_id: u64,
    pub status: u16,
    pub warnings: u16,
    pub info: &'a str,
}

/// Converts a message into the character set of the client's results. `None` keeps UTF-8. A
/// character that the set lacks is written as its number, as in MySQL.
fn in_charset(message: &str, results: Option<Collation>) -> Cow<'_, [u8]> {
    let to = match results.map(Collation::charset) {
        Some(to) if !to.is_utf8() && to != Charset::Binary && !message.is_ascii() => to,
        _ => return Cow::Borrowed(message.as_bytes()),
    };
    let mut out = Vec::with_capacity(message.len());
    for c in message.chars() {
        if !to.encode(c, &mut out) {
            let code = c as u32;
            let number =
                if code > 0xffff { format!("\\+{code:06X}") } else { format!("\\{code:04X}") };
            out.extend_from_slice(number.as_bytes());
        }
    }
    Cow::Owned(out)
}

impl OkPacket<'_> {
    pub const AUTOCOMMIT: OkPacket<'static> = OkPacket {
        affected: 0,
        last_insert_id: 0,
        status: status::AUTOCOMMIT,
        warnings: 0,
        info: "",
    };

    fn write(&self, header: u8, b: &mut Vec<u8>) {
        b.push(header);
        put_int(b, self.affected);
        put_int(b, self.last_insert_id);
        b.extend_from_slice(&self.status.to_le_bytes());
        b.extend_from_slice(&self.warnings.to_le_bytes());
        // The manual says string<EOF>; MySQL writes, and its clients read, a length-encoded string.
        if !self.info.is_empty() {
            put_bytes(b, self.info.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::packet::PacketBuffer;

    #[test]
    fn an_ok_packet_byte_by_byte() {
        let mut o = Output { sequence: 1, ..Default::default() };
        o.ok(&OkPacket { affected: 300, last_insert_id: 5, status: 3, warnings: 2, info: "hi" });
        assert_eq!(o.buf, [12, 0, 0, 1, 0, 0xfc, 44, 1, 5, 3, 0, 2, 0, 2, b'h', b'i']);
        assert_eq!(o.sequence, 2);
    }

    #[test]
    fn an_error_packet_byte_by_byte() {
        let mut o = Output::default();
        o.error(1045, b"28000", "no", None);
        assert_eq!(o.buf, b"\x0b\0\0\0\xff\x15\x04#28000no");
    }

    #[test]
    fn messages_come_in_the_clients_character_set() {
        let of = |results| in_charset("caf\u{e9} \u{416} \u{1f600}", results).into_owned();
        assert_eq!(of(Some(Collation::Latin1SwedishCi)), b"caf\xe9 \\0416 \\+01F600");
        assert_eq!(of(Some(Collation::AsciiGeneralCi)), b"caf\\00E9 \\0416 \\+01F600");
        assert_eq!(of(None), "caf\u{e9} \u{416} \u{1f600}".as_bytes());
    }

    #[test]
    fn large_bodies_become_chains_that_the_splitter_joins() {
        for len in [MAX_BODY - 1, MAX_BODY, MAX_BODY + 1, 2 * MAX_BODY] {
            let mut o = Output::default();
            o.packet(|b| b.resize(b.len() + len, 7));
            let mut p = PacketBuffer::default();
            p.room().extend_from_slice(&o.buf);
            let mut sequence = 0;
            let range = p.next(&mut sequence, usize::MAX).unwrap().unwrap();
            assert_eq!(range.len(), len);
            assert_eq!(sequence, o.sequence);
            assert!(!p.is_partial());
        }
    }
}
