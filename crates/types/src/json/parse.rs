//! Reads JSON text. MySQL reads it with RapidJSON, so the messages and positions are RapidJSON's.
use super::{Json, JsonError, MAX_DEPTH, Object, Result};
use std::borrow::Cow;

/// Reads a document. The text is UTF-8; other bytes are an error in the text.
pub fn parse(text: &[u8]) -> Result<Json<'_>> {
    let mut parser = Parser { text, at: 0 };
    parser.spaces();
    if parser.at == text.len() {
        return Err(parser.wrong("The document is empty."));
    }
    let value = parser.value(0)?;
    parser.spaces();
    if parser.at < text.len() {
        return Err(parser.wrong("The document root must not be followed by other values."));
    }
    Ok(value)
}

/// The most bytes that [`parse`] allocates for this text.
pub fn parse_cost(text: &[u8]) -> usize {
    let values = text.iter().filter(|b| matches!(b, b',' | b'[' | b'{')).count() + 1;
    let names = text.iter().filter(|b| **b == b':').count();
    let nodes = values * size_of::<Json<'_>>() + names * size_of::<Cow<'_, str>>();
    // A vector that grows exists twice, and the new one has up to twice the room.
    nodes.saturating_mul(3).saturating_add(text.len())
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn wrong_at(&self, why: &'static str, position: usize) -> JsonError {
        JsonError::Text { why, position }
    }
    fn wrong(&self, why: &'static str) -> JsonError {
        self.wrong_at(why, self.at)
    }
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
    fn consume(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }
    fn spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// The value here, inside of `depth` containers (JSON-1).
    fn value(&mut self, depth: usize) -> Result<Json<'a>> {
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'n') => self.word(b"null", Json::Null),
            Some(b't') => self.word(b"true", Json::Bool(true)),
            Some(b'f') => self.word(b"false", Json::Bool(false)),
            _ => self.number(),
        }
    }
    fn word(&mut self, word: &[u8], value: Json<'a>) -> Result<Json<'a>> {
        if word.iter().all(|byte| self.consume(*byte)) {
            return Ok(value);
        }
        Err(self.wrong("Invalid value."))
    }

    fn opens(&mut self, depth: usize) -> Result<usize> {
        self.at += 1;
        self.spaces();
        if depth == MAX_DEPTH { Err(JsonError::TooDeep) } else { Ok(depth + 1) }
    }
    fn array(&mut self, depth: usize) -> Result<Json<'a>> {
        let depth = self.opens(depth)?;
        let mut elements = Vec::new();
        if self.consume(b']') {
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value(depth)?);
            self.spaces();
            if self.consume(b']') {
                return Ok(Json::Array(elements));
            }
            if !self.consume(b',') {
                return Err(self.wrong("Missing a comma or ] after an array element."));
            }
            self.spaces();
        }
    }
    fn object(&mut self, depth: usize) -> Result<Json<'a>> {
        let depth = self.opens(depth)?;
        let mut members = Vec::new();
        if self.consume(b'}') {
            return Ok(Json::Object(Object::new(members)));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.wrong("Missing a name for object member."));
            }
            let name = self.string()?;
            self.spaces();
            if !self.consume(b':') {
                return Err(self.wrong("Missing a colon after a name of object member."));
            }
            self.spaces();
            members.push((name, self.value(depth)?));
            self.spaces();
            if self.consume(b'}') {
                return Ok(Json::Object(Object::new(members)));
            }
            if !self.consume(b',') {
                return Err(self.wrong("Missing a comma or } after an object member."));
            }
            self.spaces();
        }
    }

    /// The string here, without its quotation marks. It borrows unless it has escapes.
    fn string(&mut self) -> Result<Cow<'a, str>> {
        self.at += 1;
        let mut made: Option<String> = None;
        loop {
            let from = self.at;
            let plain = self.text[from..]
                .iter()
                .position(|b| matches!(b, b'"' | b'\\' | ..0x20))
                .unwrap_or(self.text.len() - from);
            self.at += plain;
            let piece = std::str::from_utf8(&self.text[from..self.at]).map_err(|e| {
                self.wrong_at("Invalid encoding in string.", from + e.valid_up_to())
            })?;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(match made {
                        None => Cow::Borrowed(piece),
                        Some(made) => Cow::Owned(made + piece),
                    });
                }
                Some(b'\\') => {
                    let made = made.get_or_insert_default();
                    made.push_str(piece);
                    made.push(self.escape()?);
                }
                None | Some(0) => {
                    return Err(self.wrong("Missing a closing quotation mark in string."));
                }
                Some(_) => return Err(self.wrong("Invalid encoding in string.")),
            }
        }
    }
    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        let kind = self.text.get(start + 1).copied();
        self.at += 2;
        Ok(match kind {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let surrogate = || JsonError::Text {
                    why: "The surrogate pair in string is invalid.",
                    position: start,
                };
                let high = self.hex(start)?;
                let code = match high {
                    0xd800..=0xdbff => {
                        if !self.consume(b'\\') || !self.consume(b'u') {
                            return Err(surrogate());
                        }
                        match self.hex(start)? {
                            low @ 0xdc00..=0xdfff => {
                                0x10000 + ((high - 0xd800) << 10 | (low - 0xdc00))
                            }
                            _ => return Err(surrogate()),
                        }
                    }
                    code => code,
                };
                char::from_u32(code).ok_or_else(surrogate)?
            }
            _ => return Err(self.wrong_at("Invalid escape character in string.", start)),
        })
    }
    /// Four hexadecimal digits of the escape that starts at `start`.
    fn hex(&mut self, start: usize) -> Result<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16)).ok_or_else(|| {
                self.wrong_at("Incorrect hex digit after \\u escape in string.", start)
            })?;
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - from
    }
    fn number(&mut self) -> Result<Json<'a>> {
        let start = self.at;
        let negative = self.consume(b'-');
        if !self.consume(b'0') && self.digits() == 0 {
            return Err(self.wrong("Invalid value."));
        }
        let int_end = self.at;
        if self.consume(b'.') && self.digits() == 0 {
            return Err(self.wrong("Miss fraction part in number."));
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if !self.consume(b'+') {
                self.consume(b'-');
            }
            if self.digits() == 0 {
                return Err(self.wrong("Miss exponent in number."));
            }
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        if int_end == self.at {
            if negative && let Ok(v) = text.parse::<i64>() {
                return Ok(Json::Int(v));
            }
            // As RapidJSON: more than 32 bits without a sign are an unsigned number.
            if let Ok(v) = text.parse::<u64>() {
                return Ok(if v > u64::from(u32::MAX) {
                    Json::UInt(v)
                } else {
                    Json::Int(v as i64)
                });
            }
        }
        match text.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(Json::Double(v)),
            _ => Err(self.wrong_at("Number too big to be stored in double.", start)),
        }
    }
}
