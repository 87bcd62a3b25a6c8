//! GTIDs and sets as text.
//!
//! A set is `uuid:1-5:7,` and a line feed between UUIDs, which are sorted, as MySQL prints sets. A
//! set may be written with white space anywhere but inside a UUID or a number, with upper-case
//! digits, with UUIDs in any order and twice, and with empty parts between commas. An interval
//! whose end is below its start has no GTID.
use super::{Gtid, GtidSet, Interval, MAX_NUMBER, Uuid};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The text is not a UUID, a GTID or a set of GTIDs. (MySQL's errors 1772 and 3000)
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a GTID specification")]
pub struct GtidParseError(pub String);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// With hyphens in their places or without any, in either case of letters.
fn uuid_of(text: &str) -> Option<Uuid> {
    let digits: Vec<u8> = match text.len() {
        32 => text.bytes().collect(),
        36 => {
            let hyphens = text.bytes().enumerate().filter(|(_, b)| *b == b'-').map(|(i, _)| i);
            if !hyphens.eq([8, 13, 18, 23]) {
                return None;
            }
            text.bytes().filter(|b| *b != b'-').collect()
        }
        _ => return None,
    };
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |b: u8| char::from(b).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(Uuid(bytes))
}

fn number_of(text: &str) -> Option<u64> {
    let text = text.trim();
    // `parse` would take a sign.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = if digits { text.parse().ok()? } else { return None };
    (1..=MAX_NUMBER).contains(&number).then_some(number)
}

impl FromStr for Uuid {
    type Err = GtidParseError;
    fn from_str(text: &str) -> Result<Uuid, GtidParseError> {
        uuid_of(text).ok_or_else(|| GtidParseError(text.to_string()))
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uuid, self.number)
    }
}

impl FromStr for Gtid {
    type Err = GtidParseError;
    fn from_str(text: &str) -> Result<Gtid, GtidParseError> {
        let parts = text.split_once(':');
        let gtid = parts.and_then(|(uuid, number)| {
            Some(Gtid { uuid: uuid_of(uuid.trim())?, number: number_of(number)? })
        });
        gtid.ok_or_else(|| GtidParseError(text.to_string()))
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (uuid, intervals)) in self.servers().enumerate() {
            f.write_str(if i > 0 { ",\n" } else { "" })?;
            write!(f, "{uuid}")?;
            for (start, end) in intervals {
                write!(f, ":{start}")?;
                if end - start > 1 {
                    write!(f, "-{}", end - 1)?;
                }
            }
        }
        Ok(())
    }
}

/// Adds the intervals of `uuid:interval[:interval]..`.
fn add_part(servers: &mut BTreeMap<Uuid, Vec<Interval>>, part: &str) -> Option<()> {
    let mut fields = part.split(':');
    let uuid = uuid_of(fields.next()?.trim())?;
    let mut intervals = fields.peekable();
    intervals.peek()?;
    let numbers = servers.entry(uuid).or_default();
    for interval in intervals {
        let (start, end) = interval.split_once('-').unwrap_or((interval, interval));
        let (start, end) = (number_of(start)?, number_of(end)? + 1);
        if start < end {
            numbers.push((start, end));
        }
    }
    Some(())
}

impl FromStr for GtidSet {
    type Err = GtidParseError;
    fn from_str(text: &str) -> Result<GtidSet, GtidParseError> {
        let mut servers = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            add_part(&mut servers, part).ok_or_else(|| GtidParseError(text.to_string()))?;
        }
        Ok(GtidSet::of(servers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "a0000000-0000-0000-0000-00000000000b";

    #[test]
    fn sets_print_as_mysql_prints_them() {
        for (text, wanted) in [
            (String::new(), String::new()),
            (format!(" ,, {A}:7 ,"), format!("{A}:7")),
            (format!("{B}:1-3:5,\n{A}:2-1:9 - 9"), format!("{A}:9,\n{B}:1-3:5")),
            (format!("{}:4-6:1-3,{A}:8", A.to_uppercase()), format!("{A}:1-6:8")),
            (format!("{}:1", B.replace('-', "")), format!("{B}:1")),
            (format!("{A}:9-1"), String::new()),
            (format!("{A}:{MAX_NUMBER}"), format!("{A}:{MAX_NUMBER}")),
        ] {
            assert_eq!(text.parse::<GtidSet>().unwrap().to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for wrong in ["x", A, ":1", "1"] {
            assert!(wrong.parse::<GtidSet>().is_err(), "{wrong}");
        }
        for wrong in ["0", "", "-1", "1-", "1-2-3", "+1", "1;2", "9223372036854775807", "é"] {
            assert!(format!("{A}:{wrong}").parse::<GtidSet>().is_err(), "{wrong}");
        }
        assert!("3e11fa4771ca-11e1-9e33-c80aa9429562-".parse::<Uuid>().is_err());
        assert_eq!(format!("{A}:7").parse::<Gtid>().unwrap().to_string(), format!("{A}:7"));
        assert!(format!("{A}:7-8").parse::<Gtid>().is_err());
    }
}
