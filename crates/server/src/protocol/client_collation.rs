//! The collation that a client names when it logs in: the number says which character set its text
//! is in. Numbers are those of MySQL 8.0 (`INFORMATION_SCHEMA.COLLATIONS`).
//!
//! CLIENTCS-1: a client whose character set the server lacks is refused. With any other character
//! set its text would be stored wrongly, without a word.
use redolith_sql::SqlError;
use redolith_types::{Charset, Collation};

/// The number of no collation. The session begins with the server's default.
pub const DEFAULT: u16 = 0;

/// Returns the number of the collation that the session begins with. A collation that the server
/// lacks gives its place to the default collation of its character set. A number that MySQL does
/// not know either means the server's default, as it does there.
pub fn of_client(id: u16) -> Result<u16, SqlError> {
    if Collation::from_id(id).is_some() {
        return Ok(id);
    }
    let Some(charset) = charset(id) else { return Ok(DEFAULT) };
    match Charset::from_name(charset) {
        // `default_collation_for_utf8mb4` says which collation that is.
        Some(Charset::Utf8mb4) => Ok(DEFAULT),
        Some(charset) => Ok(charset.default_collation().id()),
        // MySQL has them, but cannot parse statements in them.
        None if matches!(charset, "ucs2" | "utf16" | "utf16le" | "utf32") => {
            Err(SqlError::wrong_variable_value("character_set_client", charset))
        }
        None => Err(SqlError::client_character_set(charset)),
    }
}

/// The character set of each collation of MySQL 8.0 that the server lacks.
fn charset(id: u16) -> Option<&'static str> {
    Some(match id {
        1 | 84 => "big5",
        2 | 9 | 21 | 27 | 77 => "latin2",
        3 | 69 => "dec8",
        4 | 80 => "cp850",
        5 | 15 | 31 | 48 | 49 | 94 => "latin1",
        6 | 72 => "hp8",
        7 | 74 => "koi8r",
        10 | 82 => "swe7",
        12 | 91 => "ujis",
        13 | 88 => "sjis",
        14 | 23 | 50..=52 => "cp1251",
        16 | 71 => "hebrew",
        18 | 89 => "tis620",
        19 | 85 => "euckr",
        20 | 41 | 42 | 79 => "latin7",
        22 | 75 => "koi8u",
        24 | 86 => "gb2312",
        25 | 70 => "greek",
        26 | 34 | 44 | 66 | 99 => "cp1250",
        28 | 87 => "gbk",
        29 | 58 | 59 => "cp1257",
        30 | 78 => "latin5",
        32 | 64 => "armscii8",
        35 | 90 | 128..=151 | 159 => "ucs2",
        36 | 68 => "cp866",
        37 | 73 => "keybcs2",
        38 | 43 => "macce",
        39 | 53 => "macroman",
        40 | 81 => "cp852",
        54 | 55 | 101..=124 => "utf16",
        56 | 62 => "utf16le",
        57 | 67 => "cp1256",
        60 | 61 | 160..=183 => "utf32",
        76 | 193..=213 | 215 | 223 => "utf8mb3",
        92 | 93 => "geostd8",
        95 | 96 => "cp932",
        97 | 98 => "eucjpms",
        225..=247 | 256..=323 => "utf8mb4",
        248..=250 => "gb18030",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests CLIENTCS-1.
    #[test]
    fn every_number_is_known_lacked_or_unknown() {
        let of = |id| of_client(id).map_err(|e| (e.code, e.message.into_string()));
        let lacked = |name| {
            let e = SqlError::client_character_set(name);
            Err((1115, e.message.into_string()))
        };
        // Libraries name these if nobody asks for another: latin1, utf8mb3, utf8mb4, binary.
        for id in [8, 33, 45, 46, 63, 83, 192, 224, 255] {
            assert_eq!(of(id), Ok(id));
        }
        assert_eq!((of(28), of(87), of(13)), (lacked("gbk"), lacked("gbk"), lacked("sjis")));
        assert_eq!((of(51), of(248), of(1)), (lacked("cp1251"), lacked("gb18030"), lacked("big5")));
        let ucs2 = "Variable 'character_set_client' can't be set to the value of 'ucs2'";
        assert_eq!(of(35), Err((1231, ucs2.to_string())));
        // The collations are lacked, their character sets are not.
        assert_eq!((of(31), of(48), of(223), of(193)), (Ok(8), Ok(8), Ok(33), Ok(33)));
        assert_eq!((of(225), of(247), of(256), of(323)), (Ok(0), Ok(0), Ok(0), Ok(0)));
        // MySQL has no such numbers.
        for id in [0, 17, 100, 125, 152, 251, 324, 2304, u16::MAX] {
            assert_eq!(of(id), Ok(DEFAULT), "{id}");
        }
        // No number is in the table that the server knows.
        assert!(
            Collation::ALL.into_iter().all(|c| matches!(charset(c.id()), None | Some("utf8mb4")))
        );
    }
}
