//! Gives the events of a transaction that is not placed other checksums: `binlog_checksum` has
//! changed between the encoding and the place in a file. (MySQL adds checksums when it writes the
//! file, so there the events have none before.)
use super::placer::{checksum_of, mark, next_len};
use crate::event::gtid::MAX_LEN;
use crate::event::{self, Event, Header, Stamp};
use crate::{Checksum, DecodeError};

const WHAT: &str = "the events of a transaction";

/// The checksums that the events were encoded for, of which the first is the GTID event.
pub fn encoded_checksum(events: &[u8]) -> Result<Checksum, DecodeError> {
    checksum_of(events.get(..next_len(events)?).unwrap_or(events))
}

/// How many events these are.
pub fn count_events(mut events: &[u8]) -> Result<u64, DecodeError> {
    let mut count = 0;
    while !events.is_empty() {
        events = &events[next_len(events)?..];
        count += 1;
    }
    Ok(count)
}

/// The bytes of `count` events that have `bytes` bytes now, with other checksums.
fn recoded_len(bytes: u64, count: u64, from: Checksum, to: Checksum) -> u64 {
    (bytes + count * to.len() as u64).saturating_sub(count * from.len() as u64)
}

/// The first events of a transaction, of which the very first is the GTID event, for other
/// checksums. `bytes` and `count`: of all events behind them, as they are now.
pub fn recode_first(
    events: &[u8],
    bytes: u64,
    count: u64,
    to: Checksum,
) -> Result<Vec<u8>, DecodeError> {
    let from = encoded_checksum(events)?;
    let (gtid, rest) = events.split_at(next_len(events)?);
    let (bytes, count) = (bytes + rest.len() as u64, count + count_events(rest)?);
    let mut out = recode_gtid(gtid, bytes, count, to)?;
    out.extend_from_slice(&recode_events(rest, from, to)?);
    Ok(out)
}

/// A GTID event for other checksums. `bytes` and `count`: of all events behind it, as they are now.
fn recode_gtid(gtid: &[u8], bytes: u64, count: u64, to: Checksum) -> Result<Vec<u8>, DecodeError> {
    let from = encoded_checksum(gtid)?;
    let header = Header::decode(gtid)?;
    let end = gtid.len().checked_sub(from.len()).filter(|end| *end >= Header::LEN);
    let body = &gtid[Header::LEN..end.ok_or(DecodeError::Short { what: WHAT })?];
    let Event::Gtid(mut event) = Event::decode(&header, body)? else {
        return Err(DecodeError::Wrong { what: WHAT, why: "the first is not a GTID event" });
    };
    let rest = recoded_len(bytes, count, from, to);
    event.transaction_len = rest + event.event_len(rest, to);
    let mut out = Vec::with_capacity(MAX_LEN);
    let stamp = Stamp { timestamp: header.timestamp, server_id: header.server_id };
    let at = event::open(&mut out, header.event_type, stamp, header.flags);
    event.encode(&mut out);
    event::close(&mut out, at, to)
        .map_err(|_| DecodeError::Wrong { what: WHAT, why: "too long" })?;
    mark(&mut out, to);
    Ok(out)
}

/// Events behind the GTID event, for other checksums.
pub fn recode_events(
    mut events: &[u8],
    from: Checksum,
    to: Checksum,
) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::with_capacity(events.len() + events.len() / 16);
    while !events.is_empty() {
        let (one, rest) = events.split_at(next_len(events)?);
        let len = one.len().checked_sub(from.len()).filter(|len| *len >= Header::LEN);
        let at = out.len();
        out.extend_from_slice(&one[..len.ok_or(DecodeError::Short { what: WHAT })?]);
        out.resize(out.len() + to.len(), 0);
        let len = out.len() - at;
        event::set_len(&mut out[at..], len);
        events = rest;
    }
    Ok(out)
}

/// A whole transaction for other checksums.
pub fn recode(events: &[u8], to: Checksum) -> Result<Vec<u8>, DecodeError> {
    recode_first(events, 0, 0, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EncodeOptions, GtidTemplate, Query, TransactionBuilder};

    fn events(checksum: Checksum, texts: usize) -> Vec<u8> {
        let stamp = Stamp { timestamp: 7, server_id: 5 };
        let options = EncodeOptions { checksum, ..EncodeOptions::default() };
        let mut builder = TransactionBuilder::new(options);
        for n in 0..texts {
            let text = vec![b'x'; n % 300];
            builder.query(stamp, &Query { text: &text, ..Query::default() }).unwrap();
        }
        builder.event(stamp, &Event::Xid(9)).unwrap();
        let template = GtidTemplate { server_version: 80036, ..GtidTemplate::default() };
        builder.seal(stamp, &template).unwrap().as_bytes().to_vec()
    }

    /// Recoded events are those that are encoded so from the beginning, also where the length of
    /// the transaction takes another number of bytes.
    #[test]
    fn recoded_events_are_as_if_encoded_so() {
        for texts in [0, 1, 2, 3, 4, 5, 300, 1200, 1250, 60_000] {
            let [none, crc] = [Checksum::None, Checksum::Crc32].map(|c| events(c, texts));
            assert!(recode(&none, Checksum::Crc32).unwrap() == crc, "{texts}");
            assert!(recode(&crc, Checksum::None).unwrap() == none, "{texts}");
            assert!(recode(&crc, Checksum::Crc32).unwrap() == crc, "{texts}");
            assert_eq!(encoded_checksum(&crc), Ok(Checksum::Crc32));
            assert_eq!(count_events(&none), Ok(texts as u64 + 2));
        }
    }

    #[test]
    fn what_is_not_whole_events_is_refused() {
        let whole = events(Checksum::Crc32, 3);
        for cut in 0..whole.len() {
            let _ = recode(&whole[..cut], Checksum::None);
        }
        assert!(recode(&whole[..whole.len() - 1], Checksum::None).is_err());
        assert!(recode(&[], Checksum::None).is_err());
        assert!(recode_events(&[0; 30], Checksum::Crc32, Checksum::None).is_err());
    }
}
