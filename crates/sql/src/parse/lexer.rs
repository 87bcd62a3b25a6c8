//! The lexer: it reads one token at a time and copies nothing. A token is a kind and a place in the
//! text.
//!
//! The text is bytes, not `str`: string literals may hold any bytes (BLOBs in text statements). The
//! lexer keeps MySQL's rules that other lexers lack: identifiers may begin with digits; `--` begins
//! a comment only before a space; `/*! .. */` and `/*!80036 .. */` are code up to our version;
//! `/*M! .. */` is a comment.
use crate::sql_mode::SqlMode;
use redolith_types::Charset;

/// The version that `/*!NNNNN` comments are compared with, and that VERSION() begins with.
pub const MYSQL_VERSION: u32 = 80036;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    End,
    /// Unquoted identifier or keyword.
    Word,
    /// `name`, or "name" under ANSI_QUOTES.
    QuotedName,
    /// 'text', "text".
    String,
    /// A string right after a character set introducer: `_latin1'text'`. Its value has the bytes as
    /// they were sent.
    Introduced,
    /// N'text': the same as `_utf8mb3'text'`.
    National,
    Integer,
    /// With a point.
    Decimal,
    /// With an exponent.
    Float,
    /// 0x1f, x'1f'
    Hex,
    /// 0b01, b'01'
    Bits,
    /// ?
    Param,
    /// @name, @'name', @`name`
    UserVariable,
    /// The @@ before a system variable's name.
    SystemVariable,
    /// An operator or punctuation, which the token's text identifies.
    Symbol,
    /// Not a token: an unclosed string or comment, or a byte that can begin no token.
    Invalid,
}

impl TokenKind {
    pub fn is_literal(self) -> bool {
        self.is_string()
            || matches!(
                self,
                TokenKind::Integer
                    | TokenKind::Decimal
                    | TokenKind::Float
                    | TokenKind::Hex
                    | TokenKind::Bits
            )
    }
    pub fn is_string(self) -> bool {
        matches!(self, TokenKind::String | TokenKind::Introduced | TokenKind::National)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    pub kind: TokenKind,
    pub start: u32,
    pub end: u32,
}
impl Token {
    pub fn text<'t>(&self, statement: &'t [u8]) -> &'t [u8] {
        &statement[self.start as usize..self.end as usize]
    }
}

#[derive(Clone)]
pub struct Lexer<'t> {
    text: &'t [u8],
    pos: usize,
    ansi_quotes: bool,
    backslash_escapes: bool,
    /// The lexer is inside a `/*! .. */` whose content it reads.
    in_version_comment: bool,
    /// The last token was a `.` after a name: the next token is a name even if it looks like a
    /// number or keyword.
    after_dot: bool,
    last_was_name: bool,
    /// The lexer has met a comment.
    has_comment: bool,
    /// A comment began with `--` and a control character.
    has_odd_comment: bool,
    /// The last token was `_charset`: a string that follows is not in the client's character set.
    after_introducer: bool,
}

/// The character set of an introducer: `_latin1`, `_binary`. A word without a known character set
/// is a name.
pub fn introduced_charset(word: &[u8]) -> Option<Charset> {
    let name = word.strip_prefix(b"_")?;
    Charset::from_name(std::str::from_utf8(name).ok()?)
}

fn is_word_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b == b'$' || b >= 0x80
}
fn is_word(b: u8) -> bool {
    is_word_start(b) || b.is_ascii_digit()
}

impl<'t> Lexer<'t> {
    pub fn new(text: &'t [u8], mode: SqlMode) -> Lexer<'t> {
        Lexer::at(text, 0, mode)
    }
    /// A lexer that starts at byte `pos`.
    pub fn at(text: &'t [u8], pos: usize, mode: SqlMode) -> Lexer<'t> {
        Lexer {
            text,
            pos,
            ansi_quotes: mode.has(SqlMode::ANSI_QUOTES),
            backslash_escapes: !mode.has(SqlMode::NO_BACKSLASH_ESCAPES),
            in_version_comment: false,
            after_dot: false,
            last_was_name: false,
            has_comment: false,
            has_odd_comment: false,
            after_introducer: false,
        }
    }
    pub fn skip_to(&mut self, pos: usize) {
        self.pos = pos;
    }
    /// True if a comment stood before the last token or before an earlier token.
    pub fn has_comment(&self) -> bool {
        self.has_comment
    }

    /// True if such a comment began with `--` and a control character that is no white space: where
    /// such a byte stands for a literal, the same text has two minus signs.
    pub fn has_odd_comment(&self) -> bool {
        self.has_odd_comment
    }

    #[inline]
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.pos + ahead).copied().unwrap_or(0)
    }

    /// Skips white space and comments. Returns false if a comment is not closed.
    fn skip_space(&mut self) -> bool {
        loop {
            match self.peek(0) {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.pos += 1,
                b'#' => self.skip_line(),
                // "--" begins a comment only before white space, a control character or the end
                // (5--3 is 8).
                b'-' if self.peek(1) == b'-' && self.peek(2) <= b' ' => {
                    self.has_odd_comment |= matches!(self.peek(2), 1..=8 | 14..=31);
                    self.skip_line();
                }
                b'*' if self.in_version_comment && self.peek(1) == b'/' => {
                    self.in_version_comment = false;
                    self.pos += 2;
                }
                b'/' if self.peek(1) == b'*' => {
                    if !self.skip_block_comment() {
                        return false;
                    }
                }
                _ => return true,
            }
        }
    }

    fn skip_line(&mut self) {
        self.has_comment = true;
        while self.pos < self.text.len() && self.text[self.pos] != b'\n' {
            self.pos += 1;
        }
    }

    /// At `/*`. Enters a version comment up to our version, and skips every other comment.
    fn skip_block_comment(&mut self) -> bool {
        self.has_comment = true;
        if self.peek(2) == b'!' && !self.in_version_comment {
            let digits =
                self.text[self.pos + 3..].iter().take(6).take_while(|b| b.is_ascii_digit()).count();
            let digits = if digits == 6 {
                6
            } else if digits >= 5 {
                5
            } else {
                0
            };
            let version = self.text[self.pos + 3..self.pos + 3 + digits]
                .iter()
                .fold(0, |v, b| v * 10 + u32::from(b - b'0'));
            if version <= MYSQL_VERSION {
                self.in_version_comment = true;
                self.pos += 3 + digits;
                return true;
            }
        }
        match self.text[self.pos + 2..].windows(2).position(|w| w == b"*/") {
            Some(n) => {
                self.pos += 2 + n + 2;
                true
            }
            None => false,
        }
    }

    pub fn next_token(&mut self) -> Token {
        let closed = self.skip_space();
        let start = self.pos;
        let after_dot = std::mem::take(&mut self.after_dot);
        let was_name = std::mem::take(&mut self.last_was_name);
        let introduced = std::mem::take(&mut self.after_introducer);
        let kind = if !closed {
            self.pos = self.text.len();
            TokenKind::Invalid
        } else if start >= self.text.len() {
            TokenKind::End
        } else {
            self.scan(after_dot, was_name)
        };
        let kind =
            if introduced && kind == TokenKind::String { TokenKind::Introduced } else { kind };
        self.after_introducer = kind == TokenKind::Word
            && !after_dot
            && self.text[start] == b'_'
            && introduced_charset(&self.text[start..self.pos]).is_some();
        self.last_was_name = matches!(
            kind,
            TokenKind::Word
                | TokenKind::QuotedName
                | TokenKind::UserVariable
                | TokenKind::SystemVariable
        );
        Token { kind, start: start as u32, end: self.pos as u32 }
    }

    fn scan(&mut self, after_dot: bool, was_name: bool) -> TokenKind {
        let b = self.text[self.pos];
        if after_dot && is_word(b) {
            return self.word();
        }
        match b {
            b'\'' => self.string(b'\''),
            b'"' if self.ansi_quotes => self.quoted_name(b'"'),
            b'"' => self.string(b'"'),
            b'`' => self.quoted_name(b'`'),
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_ascii_digit() && !was_name => self.number(),
            b'x' | b'X' if self.peek(1) == b'\'' => {
                self.quoted_digits(TokenKind::Hex, u8::is_ascii_hexdigit)
            }
            b'b' | b'B' if self.peek(1) == b'\'' => {
                self.quoted_digits(TokenKind::Bits, |b| matches!(b, b'0' | b'1'))
            }
            b'n' | b'N' if self.peek(1) == b'\'' => {
                self.pos += 1;
                match self.string(b'\'') {
                    TokenKind::String => TokenKind::National,
                    other => other,
                }
            }
            b'?' => self.symbol(1, TokenKind::Param),
            b'@' if self.peek(1) == b'@' => self.symbol(2, TokenKind::SystemVariable),
            b'@' => self.user_variable(),
            _ if is_word_start(b) => self.word(),
            _ => self.operator(),
        }
    }

    fn symbol(&mut self, len: usize, kind: TokenKind) -> TokenKind {
        self.pos += len;
        kind
    }

    fn word(&mut self) -> TokenKind {
        while is_word(self.peek(0)) {
            self.pos += 1;
        }
        TokenKind::Word
    }

    fn operator(&mut self) -> TokenKind {
        let len = match (self.peek(0), self.peek(1), self.peek(2)) {
            (b'<', b'=', b'>') | (b'-', b'>', b'>') => 3,
            (b'<', b'=' | b'>' | b'<', _)
            | (b'>', b'=' | b'>', _)
            | (b'!', b'=', _)
            | (b':', b'=', _) => 2,
            (b'|', b'|', _) | (b'&', b'&', _) | (b'-', b'>', _) => 2,
            (b'.', ..) => {
                self.after_dot = true;
                1
            }
            (
                b'(' | b')' | b',' | b';' | b'=' | b'<' | b'>' | b'+' | b'-' | b'*' | b'/' | b'%'
                | b'^' | b'&' | b'|' | b'~' | b'!' | b'{' | b'}' | b':',
                ..,
            ) => 1,
            _ => {
                self.pos += 1;
                return TokenKind::Invalid;
            }
        };
        self.symbol(len, TokenKind::Symbol)
    }

    /// At the quote. Doubled quotes and (unless NO_BACKSLASH_ESCAPES) escaped quotes do not end the
    /// string.
    fn string(&mut self, quote: u8) -> TokenKind {
        let mut at = self.pos + 1;
        while let Some(&b) = self.text.get(at) {
            if b == quote {
                if self.text.get(at + 1) != Some(&quote) {
                    self.pos = at + 1;
                    return TokenKind::String;
                }
                at += 2;
            } else if b == b'\\' && self.backslash_escapes {
                at += 2;
            } else {
                at += 1;
            }
        }
        self.pos = self.text.len();
        TokenKind::Invalid
    }

    fn quoted_name(&mut self, quote: u8) -> TokenKind {
        let mut at = self.pos + 1;
        while let Some(&b) = self.text.get(at) {
            if b == quote {
                if self.text.get(at + 1) != Some(&quote) {
                    self.pos = at + 1;
                    return TokenKind::QuotedName;
                }
                at += 1;
            }
            at += 1;
        }
        self.pos = self.text.len();
        TokenKind::Invalid
    }

    /// x'..' and b'..': at the letter.
    fn quoted_digits(&mut self, kind: TokenKind, valid: impl Fn(&u8) -> bool) -> TokenKind {
        let digits = self.text[self.pos + 2..].iter().take_while(|b| valid(b)).count();
        let close = self.pos + 2 + digits;
        if self.text.get(close) == Some(&b'\'') && (kind == TokenKind::Bits || digits % 2 == 0) {
            self.pos = close + 1;
            kind
        } else {
            self.pos += 1;
            TokenKind::Invalid
        }
    }

    /// At a digit, or a point before one.
    fn number(&mut self) -> TokenKind {
        let start = self.pos;
        let prefixed = |text: &[u8], letter: u8, valid: fn(&u8) -> bool| -> usize {
            if text.len() > 2 && text[0] == b'0' && text[1] == letter {
                text[2..].iter().take_while(|b| valid(b)).count()
            } else {
                0
            }
        };
        for (letter, valid, kind) in [
            (b'x', u8::is_ascii_hexdigit as fn(&u8) -> bool, TokenKind::Hex),
            (b'b', |b: &u8| matches!(b, b'0' | b'1'), TokenKind::Bits),
        ] {
            let digits = prefixed(&self.text[start..], letter, valid);
            if digits > 0 && !self.text.get(start + 2 + digits).copied().is_some_and(is_word) {
                self.pos = start + 2 + digits;
                return kind;
            }
        }
        self.digits();
        let mut kind = TokenKind::Integer;
        if self.peek(0) == b'.' {
            self.pos += 1;
            self.digits();
            kind = TokenKind::Decimal;
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = matches!(self.peek(1), b'+' | b'-') as usize;
            if self.peek(1 + sign).is_ascii_digit() {
                self.pos += 1 + sign;
                self.digits();
                return TokenKind::Float;
            }
        }
        if kind == TokenKind::Integer && is_word_start(self.peek(0)) {
            return self.word(); // 1abc is a name
        }
        kind
    }

    fn digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.pos += 1;
        }
    }

    fn user_variable(&mut self) -> TokenKind {
        self.pos += 1;
        match self.peek(0) {
            quote @ (b'\'' | b'"') => match self.string(quote) {
                TokenKind::String => TokenKind::UserVariable,
                other => other,
            },
            b'`' => match self.quoted_name(b'`') {
                TokenKind::QuotedName => TokenKind::UserVariable,
                other => other,
            },
            _ => {
                while is_word(self.peek(0)) || self.peek(0) == b'.' {
                    self.pos += 1;
                }
                TokenKind::UserVariable
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TokenKind::{
        Bits, Decimal, End, Float, Hex, Integer, Introduced, Invalid, National, Param, QuotedName,
        String as Text, Symbol, SystemVariable, UserVariable, Word,
    };

    fn tokens(text: &str) -> Vec<(TokenKind, String)> {
        let mut lexer = Lexer::new(text.as_bytes(), SqlMode::default());
        let mut out = Vec::new();
        loop {
            let t = lexer.next_token();
            if t.kind == End {
                return out;
            }
            out.push((t.kind, String::from_utf8(t.text(text.as_bytes()).to_vec()).unwrap()));
        }
    }
    fn texts(text: &str) -> Vec<String> {
        tokens(text).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn version_comments() {
        assert_eq!(
            texts("SELECT /*!40001 SQL_NO_CACHE */ 1 /*!99999 x */ /*M!100100 y */ /* z */;"),
            ["SELECT", "SQL_NO_CACHE", "1", ";"]
        );
        assert_eq!(texts("/*! a /* inner */ b */ c"), ["a", "b", "c"]);
        assert_eq!(tokens("a /* open")[1].0, Invalid);
    }

    #[test]
    fn dashes() {
        assert_eq!(texts("5--3"), ["5", "-", "-", "3"]);
        assert_eq!(texts("5-- 3\n+1 # x"), ["5", "+", "1"]);
    }

    #[test]
    fn numbers_and_names() {
        let kinds = |s: &str| tokens(s).into_iter().map(|t| t.0).collect::<Vec<_>>();
        assert_eq!(
            kinds("1 1.5 .5 1e3 1.e-3 0x1F x'1f' b'01' 0b1"),
            [Integer, Decimal, Decimal, Float, Float, Hex, Hex, Bits, Bits]
        );
        assert_eq!(texts("t.1a 1a 0xg"), ["t", ".", "1a", "1a", "0xg"]);
        assert_eq!(kinds("t.5"), [Word, Symbol, Word]);
        assert_eq!(
            kinds("@a.b @@x @'q' ?"),
            [UserVariable, SystemVariable, Word, UserVariable, Param]
        );
    }

    #[test]
    fn strings() {
        assert_eq!(
            texts(r#"'it''s' "a\"b" `q``n` N'x'"#),
            ["'it''s'", r#""a\"b""#, "`q``n`", "N'x'"]
        );
        assert_eq!(tokens("'open")[0].0, Invalid);
        let text = br"'a\' b";
        let mut lexer = Lexer::new(text, SqlMode(SqlMode::NO_BACKSLASH_ESCAPES));
        assert_eq!(lexer.next_token().text(text), br"'a\'");
    }

    #[test]
    fn strings_of_a_named_character_set() {
        let kinds = |s: &str| tokens(s).into_iter().map(|t| t.0).collect::<Vec<_>>();
        assert_eq!(
            kinds("_latin1'a' _BINARY /* x */ \"b\" N'c' 'd'"),
            [Word, Introduced, Word, Introduced, National, Text]
        );
        assert_eq!(
            kinds("_klingon'a' t._latin1 'b' `_latin1` 'c'"),
            [Word, Text, Word, Symbol, Word, Text, QuotedName, Text]
        );
        assert_eq!(kinds("_utf8mb4 x'41' _latin1 + 'a'"), [Word, Hex, Word, Symbol, Text]);
    }

    #[test]
    fn operators() {
        assert_eq!(
            texts("a<=>b<>c!=d:=e>>f||g&&h"),
            ["a", "<=>", "b", "<>", "c", "!=", "d", ":=", "e", ">>", "f", "||", "g", "&&", "h"]
        );
    }
}
