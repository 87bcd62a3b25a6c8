//! COMPRESS and UNCOMPRESS: the length of the text in four bytes (little-endian, the highest two
//! bits are 0), then the text as a zlib stream (RFC 1950). A dot follows a stream that ends with a
//! space, so that a column that cuts spaces off keeps the stream.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::exec::pace::LONG;
use crate::plan::{Expr, Function};
use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use redolith_types::Value;

/// zlib's own default.
const LEVEL: i32 = 6;
/// A positive number makes a zlib stream.
const WINDOW_BITS: i32 = 15;
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
        let failure = match self.uncompress(stream, length as usize)? {
            Ok(text) => return Ok(Value::owned(text)),
            Err(failure) => failure,
        };
        self.env.warn(failure)?;
        Ok(Value::Null)
    }
    /// The text of a stream, of at most `most` bytes whatever the stream says; or what is wrong.
    fn uncompress(
        &mut self,
        mut stream: &[u8],
        most: usize,
    ) -> Result<std::result::Result<Vec<u8>, SqlError>> {
        let mut state = InflateState::new_boxed(DataFormat::Zlib);
        let (mut out, mut part) = (Vec::new(), vec![0; LONG]);
        loop {
            self.env.bytes(LONG)?;
            let step = inflate(&mut state, stream, &mut part, MZFlush::None);
            stream = &stream[step.bytes_consumed..];
            out.extend_from_slice(&part[..step.bytes_written]);
            return Ok(match step.status {
                // zlib, and so MySQL, says the same of a stream that has been cut.
                _ if out.len() > most => Err(SqlError::zlib_room()),
                Ok(MZStatus::StreamEnd) => Ok(out),
                Ok(_) if step.bytes_written > 0 => continue,
                Ok(_) | Err(MZError::Buf) => Err(SqlError::zlib_room()),
                Err(_) => Err(SqlError::zlib_data()),
            });
        }
    }
    fn compress(&mut self, text: &[u8]) -> Result<Vec<u8>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let mut out = (text.len() as u32 & LENGTH_BITS).to_le_bytes().to_vec();
        let flags = create_comp_flags_from_zip_params(LEVEL, WINDOW_BITS, 0);
        let (mut compressor, mut made) = (Box::new(CompressorOxide::new(flags)), vec![0; LONG]);
        // Between the parts of a long text the statement looks whether it has been ended.
        let mut parts = text.chunks(LONG).peekable();
        while let Some(mut part) = parts.next() {
            self.env.bytes(part.len())?;
            let flush = if parts.peek().is_some() { MZFlush::None } else { MZFlush::Finish };
            loop {
                let step = deflate(&mut compressor, part, &mut made, flush);
                part = &part[step.bytes_consumed..];
                out.extend_from_slice(&made[..step.bytes_written]);
                let goes_on = flush == MZFlush::Finish || !part.is_empty();
                if !goes_on || step.status != Ok(MZStatus::Ok) {
                    break;
                }
            }
        }
        if out.last() == Some(&b' ') {
            out.push(b'.');
        }
        Ok(out)
    }
}
