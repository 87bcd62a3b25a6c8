//! A minimal blocking client of the MySQL protocol for `redolith top` and `redolith lab`: it logs
//! in without a password and sends text queries.
#![forbid(unsafe_code)]
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The client gives up if the server does not answer for this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most packets that a server sends in a login.
const LOGIN_PACKETS: usize = 10;
/// The packet limit. No answer to the queries of these tools is larger.
const MAX_PACKET: usize = 1 << 20;

/// CLIENT_LONG_PASSWORD, CLIENT_PROTOCOL_41, CLIENT_SECURE_CONNECTION, CLIENT_PLUGIN_AUTH.
const CAPABILITIES: u32 = 1 | 1 << 9 | 1 << 15 | 1 << 19;
const UTF8MB4_GENERAL_CI: u8 = 45;

/// The address of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Socket(PathBuf),
    Tcp(String, u16),
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

pub struct Client {
    stream: Box<dyn Stream>,
    sequence: u8,
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Client {
    /// Connects and logs in.
    pub fn connect(place: &Place, user: &str) -> io::Result<Client> {
        Client::connect_for(place, user, PATIENCE)
    }
    /// Connects for statements that may take this long.
    pub fn connect_for(place: &Place, user: &str, patience: Duration) -> io::Result<Client> {
        let stream: Box<dyn Stream> = match place {
            Place::Socket(path) => {
                let s = UnixStream::connect(path)?;
                s.set_read_timeout(Some(patience))?;
                s.set_write_timeout(Some(patience))?;
                Box::new(s)
            }
            Place::Tcp(host, port) => {
                let s = TcpStream::connect((host.as_str(), *port))?;
                s.set_read_timeout(Some(patience))?;
                s.set_write_timeout(Some(patience))?;
                s.set_nodelay(true)?;
                Box::new(s)
            }
        };
        let mut client = Client { stream, sequence: 0 };
        let greeting = client.read()?;
        if greeting.first() == Some(&0xff) {
            return Err(server_error(&greeting));
        }
        client.write(&login(user))?;
        for _ in 0..LOGIN_PACKETS {
            let answer = client.read()?;
            match answer.first() {
                Some(0) => return Ok(client),
                Some(0xff) => return Err(server_error(&answer)),
                // The server asks for another authentication method. The client sends the empty
                // answer again.
                Some(0xfe) => client.write(&[])?,
                _ => return Err(wrong("the server's answer to the login is not understood")),
            }
        }
        Err(wrong("the server asks for one login method after the other"))
    }

    /// Runs a query and returns its rows. Each value is a text or NULL.
    pub fn query(&mut self, text: &str) -> io::Result<Vec<Vec<Option<String>>>> {
        self.sequence = 0;
        self.write(&[&[3], text.as_bytes()].concat())?;
        let first = self.read()?;
        let columns = match first.first() {
            Some(0xff) => return Err(server_error(&first)),
            Some(0) | None => return Ok(Vec::new()),
            Some(n) => *n as usize,
        };
        // Skip the definitions of columns and the packet after them.
        for _ in 0..=columns {
            self.read()?;
        }
        let mut rows = Vec::new();
        loop {
            let packet = self.read()?;
            match packet.first() {
                Some(0xff) => return Err(server_error(&packet)),
                Some(0xfe) if packet.len() < 9 => return Ok(rows),
                _ => rows
                    .push(row(&packet, columns).ok_or_else(|| wrong("a row is not understood"))?),
            }
        }
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        let len = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
        if len > MAX_PACKET {
            return Err(wrong("this is not the MySQL protocol"));
        }
        self.sequence = header[3].wrapping_add(1);
        let mut body = vec![0; len];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }
    fn write(&mut self, body: &[u8]) -> io::Result<()> {
        let mut packet = (body.len() as u32).to_le_bytes().to_vec();
        packet[3] = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
        packet.extend_from_slice(body);
        self.stream.write_all(&packet)?;
        self.stream.flush()
    }
}

fn login(user: &str) -> Vec<u8> {
    let mut b = CAPABILITIES.to_le_bytes().to_vec();
    b.extend((1u32 << 24).to_le_bytes());
    b.push(UTF8MB4_GENERAL_CI);
    b.extend([0; 23]);
    b.extend(user.bytes().filter(|b| *b != 0));
    b.extend([0, 0]);
    b.extend(b"mysql_native_password\0");
    b
}

fn row(packet: &[u8], columns: usize) -> Option<Vec<Option<String>>> {
    let mut values = Vec::with_capacity(columns);
    let mut rest = packet;
    for _ in 0..columns {
        if rest.first() == Some(&0xfb) {
            rest = &rest[1..];
            values.push(None);
            continue;
        }
        let value;
        (value, rest) = string(rest)?;
        values.push(Some(String::from_utf8_lossy(value).into_owned()));
    }
    Some(values)
}

/// Splits off a length-encoded string (length: a byte, or 0xfc, 0xfd, 0xfe and 2, 3, 8 bytes,
/// little-endian) and returns it with the rest.
fn string(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = packet.split_first()?;
    let bytes = match first {
        0..=0xfa => return rest.split_at_checked(first.into()),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let (length, rest) = rest.split_at_checked(bytes)?;
    let mut wide = [0; 8];
    wide[..bytes].copy_from_slice(length);
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(wide)).ok()?)
}

/// The error that the server has returned, inside the `io::Error` of a query.
#[derive(Debug)]
pub struct ServerError {
    pub code: u16,
    pub message: String,
}
impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {}", self.code, self.message)
    }
}
impl std::error::Error for ServerError {}

/// The server's error number, if the error came from the server.
pub fn error_code(e: &io::Error) -> Option<u16> {
    Some(e.get_ref()?.downcast_ref::<ServerError>()?.code)
}

/// Makes an error with a readable text from an error packet.
fn server_error(packet: &[u8]) -> io::Error {
    let code = packet.get(1..3).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    let text = packet.get(3..).unwrap_or_default();
    let text = if text.first() == Some(&b'#') { text.get(6..).unwrap_or_default() } else { text };
    io::Error::other(ServerError { code, message: String::from_utf8_lossy(text).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_errors_are_read() {
        assert_eq!(
            row(b"\x02ab\xfb\x01c", 3),
            Some(vec![Some("ab".into()), None, Some("c".into())])
        );
        assert_eq!(row(b"\xfc\x02\x00ab\x00", 2), Some(vec![Some("ab".into()), Some("".into())]));
        assert_eq!(
            [
                row(b"\x05ab", 1),
                row(b"\xfc\x02", 1),
                row(b"\xff", 1),
                row(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff", 1)
            ],
            [const { None }; 4]
        );
        let refused = server_error(b"\xff\x15\x04#28000Access denied");
        assert_eq!(
            (refused.to_string().as_str(), error_code(&refused)),
            ("error 1045: Access denied", Some(1045))
        );
        assert_eq!(error_code(&wrong("x")), None);
    }
}
