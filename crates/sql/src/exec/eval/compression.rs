//! COMPRESS and UNCOMPRESS: the length of the text in four bytes (little-endian, the highest two
//! bits are 0), then the text as a zlib stream (RFC 1950). A dot follows a stream that ends with a
//! space, so that a column that cuts spaces off keeps the stream.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::exec::pace::LONG;
use crate::plan::{Expr, Function};
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::TINFLStatus::{FailedCannotMakeProgress, HasMoreOutput};
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use redolith_types::Value;

/// zlib's own default.
const LEVEL: u8 = 6;
const LENGTH_BITS: u32 = 0x3fff_ffff;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn compression_function(
        &mut self,
        function: Function,
        e: &'v Expr,
    ) -> Result<Value<'v>> {
        let Some(text) = self.arg_bytes(e)? else { return Ok(Value::Null) };
        if function == Function::Compress {
            return Ok(Value::owned(self.compress(&text)?));
        }
        let wants_length = function == Function::UncompressedLength;
        let Some((length, stream)) = text.split_first_chunk().filter(|(_, s)| !s.is_empty()) else {
            return Ok(match (text.is_empty(), wants_length) {
                (true, true) => Value::Int(0),
                (true, false) => Value::owned(Vec::new()),
                (false, _) => {
                    self.env.warn(SqlError::zlib_data())?;
                    Value::Null
                }
            });
        };
        let length = u32::from_le_bytes(*length) & LENGTH_BITS;
        if wants_length {
            return Ok(Value::Int(length.into()));
        }
        if length as usize > self.most_bytes() {
            self.env.warn(SqlError::zlib_too_large(self.most_bytes()))?;
            return Ok(Value::Null);
        }
        // The bound holds whatever the stream says, so a small stream cannot take much memory.
        self.pass(length as usize)?;
        match decompress_to_vec_zlib_with_limit(stream, length as usize) {
            Ok(text) => Ok(Value::owned(text)),
            Err(e) => {
                // zlib, and so MySQL, says the same of a stream that has been cut.
                let full = matches!(e.status, HasMoreOutput | FailedCannotMakeProgress);
                self.env.warn(if full { SqlError::zlib_room() } else { SqlError::zlib_data() })?;
                Ok(Value::Null)
            }
        }
    }
    fn compress(&mut self, text: &[u8]) -> Result<Vec<u8>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        self.pass(text.len())?;
        let mut out = (text.len() as u32 & LENGTH_BITS).to_le_bytes().to_vec();
        out.extend_from_slice(&compress_to_vec_zlib(text, LEVEL));
        if out.last() == Some(&b' ') {
            out.push(b'.');
        }
        Ok(out)
    }
    /// Counts the bytes that are worked on next, in parts (PACE-1).
    fn pass(&mut self, mut bytes: usize) -> Result<()> {
        while bytes > 0 {
            let part = bytes.min(LONG);
            self.env.bytes(part)?;
            bytes -= part;
        }
        Ok(())
    }
}
