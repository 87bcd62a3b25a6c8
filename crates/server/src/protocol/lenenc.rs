//! Length-encoded integers and strings, and a reader over a packet's body that cannot run past its
//! end.
//!
//! ```text
//! first byte   then                        value
//! 0x00..0xfa                               itself
//! 0xfb                                     NULL, in a text row only
//! 0xfc         2 bytes, little-endian      up to 2^16 - 1
//! 0xfd         3 bytes                     up to 2^24 - 1
//! 0xfe         8 bytes                     up to 2^64 - 1
//! 0xff                                     never (an ERR packet begins so)
//! ```

/// The packet ends too early, or has a byte that is not valid in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed communication packet")]
pub struct Malformed;

/// The byte that stands for NULL in a text row.
pub const NULL: u8 = 0xfb;
/// The size of the longest encoded length.
pub const MOST_BYTES: usize = 9;

pub fn put_int(out: &mut Vec<u8>, n: u64) {
    match n {
        0..=0xfa => out.push(n as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(n as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&(n as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&n.to_le_bytes());
        }
    }
}

pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a string whose length is known only after it is written. One byte is reserved for the
/// length; a longer string is moved to make room for more.
pub fn put_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.push(0);
    write(out);
    let len = out.len() - at - 1;
    if len <= 0xfa {
        out[at] = len as u8;
    } else {
        let (mark, bytes) = match len {
            0..=0xffff => (0xfc, 2),
            0x1_0000..=0xff_ffff => (0xfd, 3),
            _ => (0xfe, 8),
        };
        out.resize(out.len() + bytes, 0);
        let text = at + 1 + bytes;
        out.copy_within(at + 1..at + 1 + len, text);
        out[at] = mark;
        out[at + 1..text].copy_from_slice(&(len as u64).to_le_bytes()[..bytes]);
    }
}

/// Reads a packet's body from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(body: &'a [u8]) -> Reader<'a> {
        Reader(body)
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = tail;
        Ok(*head)
    }
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    pub fn int(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            n @ 0..=0xfa => Ok(n as u64),
            0xfc => Ok(self.u16()? as u64),
            0xfd => {
                let [a, b, c] = self.array()?;
                Ok(u32::from_le_bytes([a, b, c, 0]) as u64)
            }
            0xfe => self.u64(),
            0xfb | 0xff => Err(Malformed),
        }
    }
    /// A length-encoded string.
    pub fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.int()?;
        self.bytes(usize::try_from(len).map_err(|_| Malformed)?)
    }
    /// A string that ends with a NUL, which is consumed and left out.
    pub fn nul_string(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.0.iter().position(|&b| b == 0).ok_or(Malformed)?;
        let s = self.bytes(end)?;
        self.0 = &self.0[1..];
        Ok(s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_the_shortest_form_and_come_back() {
        for (n, len) in [
            (0, 1),
            (250, 1),
            (251, 3),
            (65535, 3),
            (65536, 4),
            (0xff_ffff, 4),
            (0x100_0000, 9),
            (u64::MAX, 9),
        ] {
            let mut out = Vec::new();
            put_int(&mut out, n);
            assert_eq!(out.len(), len, "{n}");
            let mut r = Reader::new(&out);
            assert_eq!(r.int(), Ok(n));
            assert!(r.is_empty());
        }
    }

    #[test]
    fn every_cut_of_an_integer_or_string_is_malformed() {
        for n in [251u64, 65536, 0x100_0000] {
            let mut out = Vec::new();
            put_int(&mut out, n);
            for cut in 0..out.len() {
                assert_eq!(Reader::new(&out[..cut]).int(), Err(Malformed));
            }
        }
        let mut out = Vec::new();
        put_bytes(&mut out, &[7; 300]);
        for cut in 0..out.len() {
            assert_eq!(Reader::new(&out[..cut]).string(), Err(Malformed));
        }
        assert_eq!(
            Reader::new(&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 1]).string(),
            Err(Malformed)
        );
        assert_eq!(Reader::new(&[0xfb]).int(), Err(Malformed));
        assert_eq!(Reader::new(&[0xff]).int(), Err(Malformed));
        assert_eq!(Reader::new(b"abc").nul_string(), Err(Malformed));
        assert_eq!(Reader::new(b"abc\0d").nul_string(), Ok(&b"abc"[..]));
    }

    #[test]
    fn strings_of_unknown_length_get_the_right_prefix() {
        for len in [0, 1, 250, 251, 70_000] {
            let (mut known, mut unknown) = (vec![9], vec![9]);
            put_bytes(&mut known, &vec![1; len]);
            put_with(&mut unknown, |o| o.resize(o.len() + len, 1));
            assert_eq!(known, unknown, "{len}");
        }
    }
}
