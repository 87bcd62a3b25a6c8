//! The greeting (handshake v10) and the client's answer to it.
//!
//! ```text
//! greeting: bytes                     answer (protocol 4.1): bytes
//! protocol version, 10    1           capabilities                  4
//! server version          NUL         largest packet it sends       4
//! connection id           4           collation                     2
//! scramble, first part    8 + NUL     zero                          22
//! capabilities, low       2           user                          NUL
//! collation               1           answer to the scramble        lenenc | 1 + n | NUL: below
//! status                  2           database                      NUL, with CONNECT_WITH_DB
//! capabilities, high      2           plug-in                       NUL, with PLUGIN_AUTH
//! scramble length, 21     1           attributes                    lenenc, with CONNECT_ATTRS
//! zero                    10
//! scramble, second part   12 + NUL
//! plug-in                 NUL
//! ```
//!
//! The capabilities say which of the three forms the answer to the scramble has.
use super::auth::{NATIVE_PASSWORD, Scramble};
use super::capabilities::{Capabilities, status};
use super::lenenc::{Malformed, Reader};

/// utf8mb4_general_ci, the collation that the greeting proposes.
pub const DEFAULT_COLLATION_ID: u8 = 45;

pub fn write_greeting(b: &mut Vec<u8>, version: &str, connection_id: u32, scramble: &Scramble) {
    let capabilities = Capabilities::SERVER.0.to_le_bytes();
    b.push(10);
    b.extend_from_slice(version.as_bytes());
    b.push(0);
    b.extend_from_slice(&connection_id.to_le_bytes());
    b.extend_from_slice(&scramble.0[..8]);
    b.push(0);
    b.extend_from_slice(&capabilities[..2]);
    b.push(DEFAULT_COLLATION_ID);
    b.extend_from_slice(&status::AUTOCOMMIT.to_le_bytes());
    b.extend_from_slice(&capabilities[2..]);
    b.push(scramble.0.len() as u8 + 1);
    b.extend_from_slice(&[0; 10]);
    b.extend_from_slice(&scramble.0[8..]);
    b.push(0);
    b.extend_from_slice(NATIVE_PASSWORD.as_bytes());
    b.push(0);
}

/// The client's login data, from the handshake or from COM_CHANGE_USER.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login<'a> {
    pub capabilities: Capabilities,
    pub collation_id: u16,
    pub user: &'a [u8],
    pub auth_answer: &'a [u8],
    pub database: Option<&'a [u8]>,
    /// The plug-in that made `auth_answer`, if the client names it.
    pub plugin: Option<&'a [u8]>,
}

impl<'a> Login<'a> {
    /// Reads the answer to the greeting. `capabilities` has those that both sides have.
    pub fn read(body: &'a [u8]) -> Result<Login<'a>, Malformed> {
        let mut r = Reader::new(body);
        let capabilities =
            Capabilities(r.u32()?).and(Capabilities::SERVER.with(Capabilities::SSL, true));
        if !capabilities.has(Capabilities::PROTOCOL_41) || capabilities.has(Capabilities::SSL) {
            return Err(Malformed);
        }
        r.bytes(4)?;
        // In MySQL the number has one byte. Libraries whose collations have greater numbers write
        // the second byte where MySQL has a zero (Connector/Python).
        let collation_id = r.u16()?;
        r.bytes(22)?;
        let user = r.nul_string()?;
        let auth_answer = if capabilities.has(Capabilities::PLUGIN_AUTH_LENENC) {
            r.string()?
        } else if capabilities.has(Capabilities::SECURE_CONNECTION) {
            let n = r.u8()?;
            r.bytes(n as usize)?
        } else {
            r.nul_string()?
        };
        let database = if capabilities.has(Capabilities::CONNECT_WITH_DB) {
            Some(until_nul_or_end(&mut r)?)
        } else {
            None
        };
        let plugin = read_plugin(&mut r, capabilities)?;
        skip_attributes(&mut r, capabilities)?;
        Ok(Login {
            capabilities,
            collation_id,
            user,
            auth_answer,
            database: database.filter(|d| !d.is_empty()),
            plugin,
        })
    }

    /// Reads the body of COM_CHANGE_USER (without the command byte); `capabilities` are those of
    /// the connection.
    pub fn read_change_user(
        body: &'a [u8],
        capabilities: Capabilities,
        collation_id: u16,
    ) -> Result<Login<'a>, Malformed> {
        let mut r = Reader::new(body);
        let user = r.nul_string()?;
        let auth_answer = if capabilities.has(Capabilities::SECURE_CONNECTION) {
            let n = r.u8()?;
            r.bytes(n as usize)?
        } else {
            r.nul_string()?
        };
        let database = Some(until_nul_or_end(&mut r)?).filter(|d| !d.is_empty());
        let collation_id = if r.rest().len() >= 2 { r.u16()? } else { collation_id };
        let plugin = read_plugin(&mut r, capabilities)?;
        skip_attributes(&mut r, capabilities)?;
        Ok(Login { capabilities, collation_id, user, auth_answer, database, plugin })
    }
}

/// Some clients omit the last NUL.
fn until_nul_or_end<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    r.nul_string().or_else(|_| r.bytes(r.rest().len()))
}

fn read_plugin<'a>(
    r: &mut Reader<'a>,
    capabilities: Capabilities,
) -> Result<Option<&'a [u8]>, Malformed> {
    if !capabilities.has(Capabilities::PLUGIN_AUTH) || r.is_empty() {
        return Ok(None);
    }
    until_nul_or_end(r).map(Some)
}

/// Checks the form of the connection attributes, and does not keep them.
fn skip_attributes(r: &mut Reader<'_>, capabilities: Capabilities) -> Result<(), Malformed> {
    if !capabilities.has(Capabilities::CONNECT_ATTRS) || r.is_empty() {
        return Ok(());
    }
    let mut attributes = Reader::new(r.string()?);
    while !attributes.is_empty() {
        attributes.string()?;
        attributes.string()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::lenenc::put_bytes;

    #[test]
    fn greeting_byte_by_byte() {
        let mut b = Vec::new();
        write_greeting(&mut b, "8.0.36-x", 0x01020304, &Scramble(*b"abcdefghijklmnopqrst"));
        let version = "8.0.36-x".len();
        assert_eq!(&b[..1], [10]);
        assert_eq!(&b[1..1 + version], b"8.0.36-x");
        let rest = &b[2 + version..];
        assert_eq!(&rest[..13], b"\x04\x03\x02\x01abcdefgh\0");
        assert_eq!(&rest[13..16], [0x8f, 0xa7, 45]);
        assert_eq!(&rest[16..18], [2, 0]);
        assert_eq!(&rest[18..21], [0x3f, 0x01, 21]);
        assert_eq!(&rest[31..], b"ijklmnopqrst\0mysql_native_password\0");
    }

    fn answer(capabilities: Capabilities, tail: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut b = capabilities.0.to_le_bytes().to_vec();
        b.extend_from_slice(&[0, 0, 0, 1, 33]);
        b.extend_from_slice(&[0; 23]);
        b.extend_from_slice(b"root\0");
        tail(&mut b);
        b
    }

    fn full() -> Vec<u8> {
        answer(Capabilities::SERVER, |b| {
            put_bytes(b, &[9; 20]);
            b.extend_from_slice(b"sbtest\0caching_sha2_password\0");
            let mut attributes = Vec::new();
            put_bytes(&mut attributes, b"_os");
            put_bytes(&mut attributes, b"Linux");
            put_bytes(b, &attributes);
        })
    }

    #[test]
    fn a_full_answer_is_understood() {
        let b = full();
        let l = Login::read(&b).unwrap();
        assert_eq!(l.user, b"root");
        assert_eq!(l.auth_answer, [9; 20]);
        assert_eq!(l.database, Some(&b"sbtest"[..]));
        assert_eq!(l.plugin, Some(&b"caching_sha2_password"[..]));
        assert_eq!(l.collation_id, 33);
        assert!(l.capabilities.has(Capabilities::DEPRECATE_EOF));
    }

    #[test]
    fn older_forms_of_the_auth_answer() {
        let caps = Capabilities::PROTOCOL_41.with(Capabilities::SECURE_CONNECTION, true);
        let b = answer(caps, |b| b.extend_from_slice(&[2, 7, 8]));
        assert_eq!(Login::read(&b).unwrap().auth_answer, [7, 8]);
        let b = answer(Capabilities::PROTOCOL_41, |b| b.extend_from_slice(b"xy\0"));
        assert_eq!(Login::read(&b).unwrap().auth_answer, b"xy");
        let b = answer(caps, |b| b.push(0));
        let l = Login::read(&b).unwrap();
        assert_eq!((l.auth_answer, l.database, l.plugin), (&[][..], None, None));
    }

    #[test]
    fn a_client_before_4_1_or_asking_for_tls_is_refused() {
        assert_eq!(
            Login::read(&answer(Capabilities(0), |b| b.extend_from_slice(b"\0"))),
            Err(Malformed)
        );
        assert_eq!(
            Login::read(&Capabilities::SERVER.with(Capabilities::SSL, true).0.to_le_bytes()),
            Err(Malformed)
        );
    }

    #[test]
    fn no_cut_or_flipped_byte_panics() {
        let b = full();
        for cut in 0..b.len() {
            let _ = Login::read(&b[..cut]);
            let _ = Login::read_change_user(&b[..cut], Capabilities::SERVER, 45);
        }
        for at in 0..b.len() {
            for value in [0, 1, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff] {
                let mut b = b.clone();
                b[at] = value;
                let _ = Login::read(&b);
                let _ = Login::read_change_user(&b[32..], Capabilities::SERVER, 45);
            }
        }
    }

    #[test]
    fn change_user_is_understood() {
        let mut b = b"app\0\x02\x05\x06db\0\x2d\0mysql_native_password\0".to_vec();
        put_bytes(&mut b, &[]);
        let l = Login::read_change_user(&b, Capabilities::SERVER, 8).unwrap();
        assert_eq!(
            (l.user, l.auth_answer, l.database),
            (&b"app"[..], &[5, 6][..], Some(&b"db"[..]))
        );
        assert_eq!((l.collation_id, l.plugin), (45, Some(NATIVE_PASSWORD.as_bytes())));
        let l = Login::read_change_user(b"app\0\0\0", Capabilities::SERVER, 8).unwrap();
        assert_eq!((l.database, l.collation_id, l.plugin), (None, 8, None));
    }
}
