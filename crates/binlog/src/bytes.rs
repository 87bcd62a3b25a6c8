//! Numbers and strings in events: little-endian, and length-encoded as the protocol has them.
//!
//! | first byte | a length-encoded number is |
//! |---|---|
//! | 0..=250 | the byte itself |
//! | 252, 253, 254 | in the next 2, 3 or 8 bytes |
//! | 251, 255 | not a number |
//!
//! [`Input`] reads bytes that nobody has checked: each read is bounds-checked, and what does not
//! fit is a [`DecodeError`].
use crate::error::DecodeError;

pub(crate) fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}
pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}
pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}
/// The lowest `N` bytes of a number.
pub(crate) fn put_low<const N: usize>(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes()[..N]);
}

/// The number of bytes that `value` takes, length-encoded.
pub(crate) fn lenenc_len(value: u64) -> usize {
    match value {
        0..=250 => 1,
        251..=0xffff => 3,
        0x1_0000..=0xff_ffff => 4,
        _ => 9,
    }
}

pub(crate) fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    match lenenc_len(value) {
        1 => out.push(value as u8),
        3 => {
            out.push(252);
            put_low::<2>(out, value);
        }
        4 => {
            out.push(253);
            put_low::<3>(out, value);
        }
        _ => {
            out.push(254);
            put_u64(out, value);
        }
    }
}

pub(crate) fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// What is left to read of an event, or of a part of an event. `what` names the part in errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Input<'a> {
        Input { rest: bytes, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) =
            self.rest.split_at_checked(len).ok_or(DecodeError::Short { what: self.what })?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut taken = [0; N];
        taken.copy_from_slice(self.bytes(N)?);
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    /// A number of `len` bytes, at most 8.
    pub(crate) fn le(&mut self, len: usize) -> Result<u64, DecodeError> {
        let mut wide = [0; 8];
        wide[..len].copy_from_slice(self.bytes(len)?);
        Ok(u64::from_le_bytes(wide))
    }
    /// A big-endian number of `len` bytes, at most 8.
    pub(crate) fn be(&mut self, len: usize) -> Result<u64, DecodeError> {
        Ok(self.bytes(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub(crate) fn lenenc(&mut self) -> Result<u64, DecodeError> {
        match self.u8()? {
            n @ 0..=250 => Ok(u64::from(n)),
            252 => self.le(2),
            253 => self.le(3),
            254 => self.le(8),
            251 | 255 => Err(self.wrong("a length that is no number")),
        }
    }
    /// A length-encoded number of things that take at least one bit each in the rest. So nobody
    /// makes room for more things than the event can hold.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.lenenc()?;
        usize::try_from(count)
            .ok()
            .filter(|n| n.div_ceil(8) <= self.rest.len())
            .ok_or(DecodeError::Short { what: self.what })
    }
    pub(crate) fn lenenc_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.lenenc()?;
        self.bytes(usize::try_from(len).unwrap_or(usize::MAX))
    }
    /// The bytes up to the next zero byte, which is taken too.
    pub(crate) fn until_zero(&mut self) -> Result<&'a [u8], DecodeError> {
        let end = self.rest.iter().position(|b| *b == 0);
        let text = self.bytes(end.ok_or(DecodeError::Short { what: self.what })?)?;
        self.bytes(1)?;
        Ok(text)
    }

    pub(crate) fn wrong(&self, why: &'static str) -> DecodeError {
        DecodeError::Wrong { what: self.what, why }
    }
    /// Fails if something is left.
    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::Left { what: self.what, left }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_numbers_come_back() {
        for value in [0, 250, 251, 252, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut out = Vec::new();
            put_lenenc(&mut out, value);
            assert_eq!(out.len(), lenenc_len(value));
            let mut input = Input::new(&out, "a number");
            assert_eq!(input.lenenc(), Ok(value));
            assert_eq!(input.end(), Ok(()));
            for cut in 0..out.len() {
                assert!(Input::new(&out[..cut], "a number").lenenc().is_err());
            }
        }
        assert!(Input::new(&[251], "a number").lenenc().is_err());
        assert!(Input::new(&[9, 0], "a list").count().is_err(), "nine things need two bytes");
    }
}
