//! A file that a client sends for LOAD DATA LOCAL.
//!
//! ```text
//! server ► client   0xfb, and the file's name
//! client ► server   packets with the file's bytes; a packet without bytes ends the file
//! ```
//!
//! FILE-1: the packets are taken apart as they come, so a packet needs no memory for its length.
//! FILE-2: a statement that ends before its file does reads the file away, because the client takes
//! no answer before. A statement that has failed holds no locks then. The client has
//! `net_read_timeout` for each packet, and after a KILL QUERY for all of them.
//! FILE-3: a client that breaks the protocol is given up: nobody knows which of its bytes would be
//! a command.
use crate::error;
use crate::protocol::packet::{HEADER, MAX_BODY};
use redolith_sql::SqlError;

/// The bytes of the file that are read away at a time.
pub const READ_AWAY_BYTES: usize = 64 << 10;

/// How far the client is with its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// The client sends no file.
    None,
    Sending,
    /// The client has broken the protocol.
    Broken,
}

/// Takes the packets of a file apart.
#[derive(Debug)]
pub struct ClientFile {
    progress: Progress,
    /// The part of a packet's header that has come.
    header: [u8; HEADER],
    header_bytes: usize,
    /// The bytes of the packet's body that are still to come.
    left: usize,
    /// The packet before was so long that the present one continues it, even without bytes.
    continues: bool,
}

impl Default for ClientFile {
    fn default() -> ClientFile {
        ClientFile {
            progress: Progress::None,
            header: [0; HEADER],
            header_bytes: 0,
            left: 0,
            continues: false,
        }
    }
}

impl ClientFile {
    /// The client has been asked for a file.
    pub fn begin(&mut self) {
        *self = ClientFile { progress: Progress::Sending, ..ClientFile::default() };
    }
    pub fn is_sending(&self) -> bool {
        self.progress == Progress::Sending
    }
    /// Gives the client up.
    pub fn give_up(&mut self) {
        self.progress = Progress::Broken;
    }
    /// Whether the conversation cannot go on (FILE-3).
    pub fn is_broken(&self) -> bool {
        self.progress == Progress::Broken
    }

    /// Leaves, of the bytes from `from` on, those of the file. `sequence` is the number that the
    /// next packet must bear. Fails if the client breaks the protocol.
    pub fn strip(
        &mut self,
        bytes: &mut Vec<u8>,
        from: usize,
        sequence: &mut u8,
    ) -> Result<(), SqlError> {
        let (mut read, mut written) = (from, from);
        while read < bytes.len() && self.is_sending() {
            if self.left > 0 {
                let here = self.left.min(bytes.len() - read);
                bytes.copy_within(read..read + here, written);
                (read, written) = (read + here, written + here);
                self.left -= here;
                continue;
            }
            self.header[self.header_bytes] = bytes[read];
            self.header_bytes += 1;
            read += 1;
            if self.header_bytes < HEADER {
                continue;
            }
            self.header_bytes = 0;
            let [a, b, c, number] = self.header;
            let len = u32::from_le_bytes([a, b, c, 0]) as usize;
            if number != *sequence {
                return self.out_of_order();
            }
            *sequence = sequence.wrapping_add(1);
            if len == 0 && !self.continues {
                self.progress = Progress::None;
            }
            self.continues = len == MAX_BODY;
            self.left = len;
        }
        // What follows the end of the file before the server has answered is no command.
        if read < bytes.len() {
            return self.out_of_order();
        }
        bytes.truncate(written);
        Ok(())
    }
    #[cold]
    fn out_of_order(&mut self) -> Result<(), SqlError> {
        self.give_up();
        Err(error::packets_out_of_order())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u8, body: &[u8]) -> Vec<u8> {
        let mut packet = (body.len() as u32).to_le_bytes()[..3].to_vec();
        packet.push(number);
        packet.extend_from_slice(body);
        packet
    }

    /// The file in a stream that comes in pieces; an error if the client breaks the protocol.
    fn file(stream: &[u8], piece: usize) -> Result<(Vec<u8>, u8, bool), SqlError> {
        let (mut file, mut sequence) = (ClientFile::default(), 2);
        file.begin();
        let mut bytes = Vec::new();
        for piece in stream.chunks(piece) {
            let from = bytes.len();
            bytes.extend_from_slice(piece);
            file.strip(&mut bytes, from, &mut sequence)?;
        }
        Ok((bytes, sequence, !file.is_sending()))
    }

    /// Tests FILE-1.
    #[test]
    fn the_bytes_of_all_packets_are_the_file() {
        let long = vec![7; MAX_BODY];
        let mut stream = packet(2, b"ab");
        stream.extend(packet(3, &long));
        stream.extend(packet(4, b""));
        stream.extend(packet(5, b"c"));
        let mut whole = b"ab".to_vec();
        whole.extend(&long);
        whole.push(b'c');
        for piece in [1 << 16, 1 << 20, 1 << 30] {
            assert!(file(&stream, piece).unwrap() == (whole.clone(), 6, false), "{piece}");
        }
        stream.extend(packet(6, b""));
        assert!(file(&stream, 99_991).unwrap() == (whole, 7, true));
        let small: Vec<u8> = [packet(2, b"x"), packet(3, b"yz"), packet(4, b"")].concat();
        for piece in 1..10 {
            assert_eq!(file(&small, piece).unwrap(), (b"xyz".to_vec(), 5, true));
        }
    }

    #[test]
    fn numbers_go_round() {
        let stream: Vec<u8> = (0..600u32).flat_map(|n| packet((n + 2) as u8, b"a")).collect();
        assert_eq!(file(&stream, 7).unwrap(), (vec![b'a'; 600], (602 % 256) as u8, false));
    }

    /// Tests FILE-3.
    #[test]
    fn a_client_that_breaks_the_protocol_is_given_up() {
        assert!(file(&packet(3, b"x"), 9).is_err());
        let early = [packet(2, b""), packet(0, b"\x03SELECT 1")].concat();
        assert!(file(&early, 99).is_err());
        assert!(file(&[packet(2, b"x"), packet(2, b"y")].concat(), 3).is_err());
    }
}
