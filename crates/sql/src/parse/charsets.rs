//! The character sets of a statement's text.
//!
//! The text stays in `character_set_client`, as the client has sent it. All character sets that a
//! client can have contain ASCII, so the lexer needs to know none of them. The parts that the
//! server takes from the text are converted: names into UTF-8, in which the dictionary holds them,
//! and string literals into `character_set_connection`. A literal after an introducer
//! (`_latin1'..'`, `_binary'..'`) is not converted, nor is `N'..'`, which means `_utf8mb3'..'`.
//! Source: MySQL manual, "Connection Character Sets and Collations", "Character Set Introducers".
use super::lexer::TokenKind;
use crate::error::{Result, SqlError};
use redolith_types::Charset;
use std::borrow::Cow;

/// `@@character_set_client` and `@@character_set_connection`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TextCharsets {
    pub client: Charset,
    pub connection: Charset,
}

impl TextCharsets {
    /// The character sets of statements that the server itself writes.
    pub const UTF8: TextCharsets =
        TextCharsets { client: Charset::Utf8mb4, connection: Charset::Utf8mb4 };

    /// The character sets from and to which string literals and parameters are converted. None:
    /// they stay as they are, valid or not.
    #[inline]
    pub fn conversion(self) -> Option<(Charset, Charset)> {
        let stays = self.client == self.connection
            || self.client == Charset::Binary
            || self.connection == Charset::Binary;
        (!stays).then_some((self.client, self.connection))
    }

    /// The bytes of a string literal's value. A character that the connection's character set lacks
    /// becomes '?', as in MySQL.
    pub fn literal<'t>(self, kind: TokenKind, bytes: Cow<'t, [u8]>) -> Cow<'t, [u8]> {
        let conversion = match kind {
            TokenKind::Introduced | TokenKind::National => None,
            _ => self.conversion(),
        };
        match conversion {
            Some((from, to)) if !bytes.is_ascii() => {
                Cow::Owned(from.convert_lossy(&bytes, to).into_owned())
            }
            _ => bytes,
        }
    }

    /// A name, or another text that the server keeps in UTF-8 (comments, patterns of SHOW); error
    /// 1300 if it is not valid.
    pub fn name(self, bytes: &[u8]) -> Result<String> {
        // Names sent as binary bytes must already be UTF-8.
        let from = if self.client == Charset::Binary { Charset::Utf8mb4 } else { self.client };
        let utf8 = from.validate(bytes).and_then(|()| from.convert(bytes, Charset::Utf8mb4));
        let utf8 = utf8.ok().and_then(|utf8| String::from_utf8(utf8.into_owned()).ok());
        utf8.ok_or_else(|| {
            let hex: String = bytes.iter().take(6).map(|b| format!("\\x{b:02X}")).collect();
            SqlError::invalid_string(from.name(), hex)
        })
    }

    /// Any part of the text as UTF-8 for messages and lists; invalid characters are replaced.
    pub fn shown(self, bytes: &[u8]) -> Cow<'_, str> {
        if self.client.is_utf8() || self.client == Charset::Binary || bytes.is_ascii() {
            return String::from_utf8_lossy(bytes);
        }
        Cow::Owned(
            String::from_utf8_lossy(&self.client.convert_lossy(bytes, Charset::Utf8mb4))
                .into_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Charset::{Ascii, Binary, Latin1, Utf8mb3, Utf8mb4};

    fn literal(client: Charset, connection: Charset, kind: TokenKind, bytes: &[u8]) -> Vec<u8> {
        TextCharsets { client, connection }.literal(kind, Cow::Borrowed(bytes)).into_owned()
    }

    #[test]
    fn literals_come_into_the_connections_character_set() {
        use TokenKind::String as S;
        assert_eq!(literal(Latin1, Utf8mb4, S, b"\xe9\x80"), "é€".as_bytes());
        assert_eq!(literal(Utf8mb4, Latin1, S, "é€ж".as_bytes()), b"\xe9\x80?");
        assert_eq!(literal(Utf8mb4, Utf8mb3, S, "é😀".as_bytes()), "é?".as_bytes());
        assert_eq!(literal(Utf8mb3, Utf8mb4, S, "é😀".as_bytes()), "é????".as_bytes());
        assert_eq!(literal(Ascii, Utf8mb4, S, b"a\xe9"), b"a?");
        for (client, connection) in [
            (Latin1, Latin1),
            (Utf8mb4, Utf8mb4),
            (Binary, Utf8mb4),
            (Latin1, Binary),
            (Ascii, Ascii),
        ] {
            assert_eq!(
                literal(client, connection, S, b"a\xe9\xff"),
                b"a\xe9\xff",
                "{client:?} {connection:?}"
            );
        }
    }

    #[test]
    fn introduced_and_national_literals_stay() {
        assert_eq!(literal(Latin1, Utf8mb4, TokenKind::Introduced, b"\xe9\xff"), b"\xe9\xff");
        assert_eq!(literal(Latin1, Utf8mb4, TokenKind::National, "é".as_bytes()), "é".as_bytes());
    }

    #[test]
    fn names_are_utf8() {
        let of = |client| TextCharsets { client, connection: Latin1 };
        assert_eq!(of(Latin1).name(b"caf\xe9").unwrap(), "café");
        assert_eq!(of(Utf8mb4).name("café".as_bytes()).unwrap(), "café");
        assert_eq!(of(Utf8mb4).name(b"caf\xe9").unwrap_err().code, 1300);
        assert_eq!(of(Binary).name(b"caf\xe9").unwrap_err().code, 1300);
        assert_eq!(of(Ascii).name(b"caf\xe9").unwrap_err().code, 1300);
        assert_eq!(of(Utf8mb3).name("😀".as_bytes()).unwrap_err().code, 1300);
        assert_eq!(of(Utf8mb4).name("😀".as_bytes()).unwrap(), "😀");
        assert_eq!(of(Latin1).shown(b"caf\xe9"), "café");
    }
}
