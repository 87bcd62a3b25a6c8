//! GTIDs of MariaDB: `domain-server-number`. A position is a list of them, separated by commas,
//! with at most one of each domain: the last transaction of each domain that a server has.
use super::GtidParseError;
use std::fmt;
use std::str::FromStr;

/// The name of a transaction on MariaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MariadbGtid {
    /// Transactions of one domain are in one order.
    pub domain: u32,
    /// `server_id` of the server that first committed the transaction.
    pub server_id: u32,
    /// Grows within the domain.
    pub number: u64,
}

impl MariadbGtid {
    /// Reads a position, for example `0-1-100,1-2-7`. The empty text is the position of a
    /// server without transactions.
    pub fn position(text: &str) -> Result<Vec<MariadbGtid>, GtidParseError> {
        let wrong = || GtidParseError(text.to_string());
        let mut position: Vec<MariadbGtid> = Vec::new();
        if text.trim().is_empty() {
            return Ok(position);
        }
        for part in text.split(',') {
            position.push(part.parse().map_err(|_| wrong())?);
        }
        position.sort_by_key(|gtid| gtid.domain);
        let twice = position.windows(2).any(|pair| pair[0].domain == pair[1].domain);
        if twice { Err(wrong()) } else { Ok(position) }
    }
}

impl fmt::Display for MariadbGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server_id, self.number)
    }
}

impl FromStr for MariadbGtid {
    type Err = GtidParseError;
    fn from_str(text: &str) -> Result<MariadbGtid, GtidParseError> {
        // `parse` would take a sign.
        let number = |part: Option<&str>| {
            let part = part.filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
            part.and_then(|p| p.parse::<u64>().ok())
        };
        let mut parts = text.trim().split('-');
        let mut next = || number(parts.next());
        let read = (|| {
            let domain = u32::try_from(next()?).ok()?;
            let server_id = u32::try_from(next()?).ok()?;
            Some(MariadbGtid { domain, server_id, number: next()? })
        })();
        read.filter(|_| parts.next().is_none()).ok_or_else(|| GtidParseError(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_and_others_refused() {
        let of = |text: &str| {
            let read = MariadbGtid::position(text).ok()?;
            Some(read.iter().map(|g| g.to_string()).collect::<Vec<_>>().join(","))
        };
        for (text, read) in [
            ("", Some("")),
            (" ", Some("")),
            ("0-1-5", Some("0-1-5")),
            (
                " 7-2-18446744073709551615 , 0-4294967295-1",
                Some("0-4294967295-1,7-2-18446744073709551615"),
            ),
            ("0-1-5,0-2-6", None),
            ("0-1", None),
            ("0-1-5-", None),
            ("0-1-+5", None),
            ("0--5", None),
            (",", None),
            ("0-1-5,", None),
            ("4294967296-1-5", None),
            ("0-1-18446744073709551616", None),
        ] {
            assert_eq!(of(text).as_deref(), read, "{text}");
        }
    }
}
