//! Takes the literals out of a text statement. The rest is the statement's shape, the key under
//! which the cache finds its plan.
//!
//! The text is read once. The shape is the text with each literal replaced by one byte for its
//! kind, so white space and comments count: a client that repeats a statement repeats them too.
//! Different kinds stay apart because plans differ by kind (`c = 5` and `c = '5'`).
//!
//! **PARAM-1** Equal shapes parse to trees that are equal apart from literal values. Where a plan
//! depends on a literal's value (ORDER BY 1, a column named `1+1`), the binder *pins* the literal
//! and the cache compares its text.
//! **PARAM-2** In `VALUES (..),(..),..` the rows with the same shape as the first row are one row
//! in the shape: [`Repeat`] says which part of the text to leave out. The literals after the rows
//! keep the numbers that they have with a single row.
use super::lexer::{Lexer, Token, TokenKind};
use super::{Bounds, Rest};
use crate::error::{Result, SqlError};
use crate::plan::PatternStart;
use crate::sql_mode::SqlMode;
use std::ops::Range;

/// The bytes that stand for literals in a shape. Between the tokens of a valid text such a byte can
/// only be in a comment, and only behind `--` can it be what tells a comment from a literal. Such a
/// text counts as invalid.
const INTEGER: u8 = 1;
const WIDE_INTEGER: u8 = 2;
const DECIMAL: u8 = 3;
const FLOAT: u8 = 4;
const STRING: u8 = 5;
const HEX: u8 = 6;
const BITS: u8 = 7;
/// A pattern that begins with a wildcard. The patterns of one plan all do or all do not, because an
/// index does not find the matches of those that do.
const WILD_PATTERN: u8 = 15;
/// More rows with the shape of the first row follow.
const MORE_ROWS: u8 = 8;
const NATIONAL: u8 = 14;

/// The length of text between two looks at the bounds.
const LOOK_BYTES: usize = 64 << 10;

/// The digits of an integer that always fits BIGINT; longer integers are a kind of their own.
const SURE_DIGITS: usize = 18;

/// True for integers that may not fit BIGINT.
pub fn is_wide_integer(token: Token) -> bool {
    token.kind == TokenKind::Integer && (token.end - token.start) as usize > SURE_DIGITS
}

#[derive(Debug, Default)]
pub struct Parameterized {
    pub shape: Vec<u8>,
    /// All literals, with those of repeated rows.
    pub literals: Vec<Token>,
    pub repeat: Option<Repeat>,
    /// The text has a `?`: it is a text for PREPARE.
    pub has_params: bool,
    /// The text has bytes that form no token, or a comment of `--` and a control character. Such a
    /// byte may equal a literal's byte, so the shape does not identify the statement (PARAM-1).
    pub invalid: bool,
    /// The statement has nothing but comments.
    pub blank: bool,
    /// The end of the statement and, if another statement follows the semicolon, the start of the
    /// next.
    pub end: usize,
    pub next: Option<usize>,
    /// Only a comment follows the semicolon. For clients that may send several statements the
    /// comment is a statement of its own.
    pub comment: Option<usize>,
    /// No statement follows in the text, which holds until a read at 0 begins another text. (To
    /// look for a statement behind each of many comments would take quadratic time.)
    last: bool,
}

/// The rows of a VALUES list that have the first row's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The text from the end of the first row to the end of the last such row.
    pub skip: Range<usize>,
    /// `first` is the number of literals before the first row, `stride` the number in each row.
    pub first: usize,
    pub stride: usize,
    /// The number of rows, with the first row.
    pub rows: usize,
}

/// How the LIKE pattern begins that a literal is. Only a string right after LIKE is known to be a
/// pattern: the shape of other strings does not tell how they begin (PARAM-1).
pub fn pattern_start(token: Token, text: &[u8]) -> PatternStart {
    let is_wild = matches!(text.get(token.start as usize + 1), Some(b'%' | b'_'));
    let before = text[..token.start as usize].trim_ascii_end();
    match before.last_chunk::<4>() {
        Some(word) if token.kind == TokenKind::String && word.eq_ignore_ascii_case(b"LIKE") => {
            if is_wild {
                PatternStart::Wildcard
            } else {
                PatternStart::Text
            }
        }
        _ => PatternStart::Unknown,
    }
}

fn kind_byte(token: Token, text: &[u8]) -> u8 {
    match token.kind {
        // Most strings begin with text.
        TokenKind::String
            if matches!(text.get(token.start as usize + 1), Some(b'%' | b'_'))
                && pattern_start(token, text) == PatternStart::Wildcard =>
        {
            WILD_PATTERN
        }
        TokenKind::Integer if is_wide_integer(token) => WIDE_INTEGER,
        TokenKind::Integer => INTEGER,
        TokenKind::Decimal => DECIMAL,
        TokenKind::Float => FLOAT,
        // The introducer of a string is in the shape itself.
        TokenKind::String | TokenKind::Introduced => STRING,
        TokenKind::National => NATIONAL,
        TokenKind::Hex => HEX,
        _ => BITS,
    }
}

impl Parameterized {
    /// Empties the buffers for the next statement.
    fn clear(&mut self) {
        self.shape.clear();
        self.literals.clear();
        self.repeat = None;
        (self.has_params, self.invalid) = (false, false);
        (self.next, self.comment) = (None, None);
    }

    /// The memory of the buffers, in bytes.
    pub fn bytes(&self) -> usize {
        self.shape.capacity() + self.literals.capacity() * size_of::<Token>()
    }
    /// Clears the buffers and frees their memory beyond `bytes` each.
    pub fn trim(&mut self, bytes: usize) {
        self.clear();
        self.shape.shrink_to(bytes);
        self.literals.shrink_to(bytes / size_of::<Token>());
    }

    /// Reads the statement that begins at `start`.
    pub fn read(
        &mut self,
        text: &[u8],
        start: usize,
        mode: SqlMode,
        bounds: Bounds<'_>,
    ) -> Result<()> {
        self.clear();
        (self.blank, self.last) = (true, self.last && start > 0);
        let mut pass = Pass {
            text,
            mode,
            copied: start,
            rows: Rows::None,
            depth: 0,
            bounds,
            look_at: start + LOOK_BYTES,
        };
        let mut lexer = Lexer::at(text, start, mode);
        let mut first_word = true;
        loop {
            let token = lexer.next_token();
            if self.blank {
                self.blank = token.kind == TokenKind::End || token.text(text) == b";";
            }
            match token.kind {
                TokenKind::End => {
                    pass.copy(self, text.len());
                    self.end = text.len();
                    break;
                }
                TokenKind::Word => {
                    let word = token.text(text);
                    if first_word {
                        first_word = false;
                        if word.eq_ignore_ascii_case(b"INSERT")
                            || word.eq_ignore_ascii_case(b"REPLACE")
                        {
                            pass.rows = Rows::Possible;
                        }
                    } else if pass.rows == Rows::Possible
                        && pass.depth == 0
                        && (word.eq_ignore_ascii_case(b"VALUES")
                            || word.eq_ignore_ascii_case(b"VALUE"))
                    {
                        pass.rows = Rows::Expected;
                    }
                }
                TokenKind::Param => self.has_params = true,
                TokenKind::Invalid => self.invalid = true,
                TokenKind::Symbol => {
                    if token.text(text) == b";" {
                        pass.copy(self, token.start as usize);
                        self.end = token.start as usize;
                        match super::rest_after(text, token.end as usize, mode, self.last) {
                            Rest::Nothing => {}
                            Rest::Comment => self.comment = Some(token.end as usize),
                            Rest::Statement => self.next = Some(token.end as usize),
                        }
                        self.last = self.next.is_none();
                        break;
                    }
                    pass.symbol(self, token, &mut lexer)?;
                }
                kind if kind.is_literal() => pass.literal(self, token),
                _ => {}
            }
            pass.look(self, token.end as usize)?;
        }
        self.invalid |= lexer.has_odd_comment();
        Ok(())
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Rows {
    /// No VALUES list can follow.
    None,
    Possible,
    /// VALUES was read: the next token is the first row's parenthesis.
    Expected,
    /// The pass is in the first row, which begins at these positions of the shape and the literals.
    First {
        shape: usize,
        literals: usize,
    },
}

struct Pass<'t> {
    text: &'t [u8],
    mode: SqlMode,
    /// The text before this position is in the shape.
    copied: usize,
    rows: Rows,
    depth: usize,
    bounds: Bounds<'t>,
    /// At this position of the text the pass looks at the bounds again.
    look_at: usize,
}

impl Pass<'_> {
    fn copy(&mut self, parameterized: &mut Parameterized, to: usize) {
        parameterized.shape.extend_from_slice(&self.text[self.copied..to]);
        self.copied = to;
    }

    /// Ends a pass with an error if the session was killed or the literals take too much memory.
    #[inline]
    fn look(&mut self, parameterized: &Parameterized, at: usize) -> Result<()> {
        if at < self.look_at {
            return Ok(());
        }
        self.look_at = at + LOOK_BYTES;
        if size_of_val(&parameterized.literals[..]) > self.bounds.memory {
            return Err(self.bounds.exceeded());
        }
        if self.bounds.is_killed() { Err(SqlError::interrupted()) } else { Ok(()) }
    }

    fn literal(&mut self, parameterized: &mut Parameterized, token: Token) {
        self.copy(parameterized, token.start as usize);
        parameterized.shape.push(kind_byte(token, self.text));
        self.copied = token.end as usize;
        parameterized.literals.push(token);
    }

    fn symbol(
        &mut self,
        parameterized: &mut Parameterized,
        token: Token,
        lexer: &mut Lexer<'_>,
    ) -> Result<()> {
        match token.text(self.text) {
            b"(" => {
                if self.rows == Rows::Expected && self.depth == 0 {
                    self.copy(parameterized, token.start as usize);
                    self.rows = Rows::First {
                        shape: parameterized.shape.len(),
                        literals: parameterized.literals.len(),
                    };
                }
                self.depth += 1;
            }
            b")" => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0
                    && let Rows::First { shape, literals } = self.rows
                {
                    self.copy(parameterized, token.end as usize);
                    self.rows = Rows::None;
                    // The parameters cannot count rows that have no literals.
                    if parameterized.literals.len() == literals {
                        return Ok(());
                    }
                    let mut rows = SameRows {
                        text: self.text,
                        mode: self.mode,
                        shape: shape..parameterized.shape.len(),
                        literals: parameterized.literals.len() - literals,
                    };
                    let (end, count) =
                        self.same_rows(&mut rows, parameterized, token.end as usize)?;
                    if count > 0 {
                        let stride = rows.literals;
                        parameterized.repeat = Some(Repeat {
                            skip: token.end as usize..end,
                            first: literals,
                            stride,
                            rows: count + 1,
                        });
                        parameterized.shape.push(MORE_ROWS);
                        self.copied = end;
                        lexer.skip_to(end);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the end of the last row with the first row's shape, and the number of such rows
    /// after the first row.
    fn same_rows(
        &mut self,
        rows: &mut SameRows<'_>,
        parameterized: &mut Parameterized,
        start: usize,
    ) -> Result<(usize, usize)> {
        let (mut end, mut count) = (start, 0);
        loop {
            let literals = parameterized.literals.len();
            let row_end = rows.row(parameterized, end);
            let Some(row_end) =
                row_end.filter(|_| parameterized.literals.len() - literals == rows.literals)
            else {
                parameterized.literals.truncate(literals);
                return Ok((end, count));
            };
            end = row_end;
            count += 1;
            self.look(parameterized, end)?;
        }
    }
}

/// Reads `, (row)` as long as rows have the first row's shape.
struct SameRows<'t> {
    text: &'t [u8],
    mode: SqlMode,
    /// The part of the shape that is the first row, with its parentheses.
    shape: Range<usize>,
    /// The number of the row's literals.
    literals: usize,
}

impl SameRows<'_> {
    /// Compares one row, token by token, with the first row's shape.
    fn row(&mut self, parameterized: &mut Parameterized, start: usize) -> Option<usize> {
        let mut lexer = Lexer::at(self.text, start, self.mode);
        let comma = lexer.next_token();
        if comma.kind != TokenKind::Symbol || comma.text(self.text) != b"," {
            return None;
        }
        let mut at = self.shape.start;
        let mut copied = None;
        loop {
            let token = lexer.next_token();
            if token.kind == TokenKind::End
                || token.kind == TokenKind::Invalid
                || token.kind == TokenKind::Param
            {
                return None;
            }
            // The text between tokens must match too, but not the text before the row.
            let from = copied.unwrap_or(token.start as usize);
            let between = &self.text[from..token.start as usize];
            let expected = &parameterized.shape[at..self.shape.end];
            if !expected.starts_with(between) {
                return None;
            }
            at += between.len();
            if token.kind.is_literal() {
                if parameterized.shape.get(at) != Some(&kind_byte(token, self.text)) {
                    return None;
                }
                at += 1;
                parameterized.literals.push(token);
            } else {
                let text = token.text(self.text);
                if !parameterized.shape[at..self.shape.end].starts_with(text) {
                    return None;
                }
                at += text.len();
            }
            copied = Some(token.end as usize);
            if at == self.shape.end {
                return copied.filter(|_| !lexer.has_odd_comment());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::{Process, Processes};
    use std::sync::Arc;

    fn process() -> Arc<Process> {
        Processes::new().add("", 1)
    }
    fn bounds(process: &Process) -> Bounds<'_> {
        Bounds { memory: usize::MAX, process }
    }
    fn parameterized(text: &str) -> Parameterized {
        let mut l = Parameterized::default();
        l.read(text.as_bytes(), 0, SqlMode::default(), bounds(&process())).unwrap();
        l
    }
    fn same(a: &str, b: &str) -> bool {
        parameterized(a).shape == parameterized(b).shape
    }

    /// Tests PARAM-1.
    #[test]
    fn values_do_not_count_kinds_do() {
        assert!(same("SELECT c FROM t WHERE id=1", "SELECT c FROM t WHERE id=99999"));
        assert!(!same("SELECT c FROM t WHERE id=1", "SELECT c FROM t WHERE id='1'"));
        assert!(!same("SELECT c FROM t WHERE id=1", "SELECT c FROM t WHERE id=1.0"));
        assert!(!same("SELECT a FROM t WHERE id=1", "SELECT b FROM t WHERE id=1"));
        assert!(same("SELECT 'it''s'", r"SELECT 'x\'y'"));
    }

    #[test]
    fn bytes_that_stand_for_literals_are_no_literals() {
        for kind in (INTEGER..=MORE_ROWS).chain([NATIONAL]) {
            let text = format!("SELECT {}", kind as char);
            assert!(
                parameterized(&text).invalid && parameterized(&text).literals.is_empty(),
                "{kind}"
            );
        }
        assert!(!parameterized("SELECT 1 /* \x01 */, '\x01', `\x01`").invalid);
        // Two minus signs and a literal, and a comment.
        assert!(!parameterized("SELECT 5--3, 5-- \x01\n, 5 #\x01").invalid);
        assert!(parameterized("SELECT 5--\x01").invalid);
        let rows = parameterized("INSERT INTO t VALUES (5--3\n),(5--\x01\n)");
        assert!(rows.invalid && rows.repeat.is_none() && rows.literals.len() == 3);
    }

    /// Tests PARAM-2.
    #[test]
    fn rows_are_one() {
        let one = parameterized("INSERT INTO t VALUES(0, 1, 'a') ON DUPLICATE KEY UPDATE k=7");
        let three = parameterized(
            "INSERT INTO t VALUES(0, 1, 'a'),(2, 3, 'b'), (4, 5, 'c;') ON DUPLICATE KEY UPDATE k=7",
        );
        let four = parameterized(
            "INSERT INTO t VALUES(0, 1, 'a'),(2, 3, 'b'),(2, 3, 'b'),(2, 3, 'b') ON DUPLICATE KEY \
                UPDATE k=7",
        );
        assert_eq!(three.shape, four.shape);
        assert_ne!(one.shape, three.shape);
        assert_eq!(three.literals.len(), 10);
        let repeat = three.repeat.unwrap();
        assert_eq!((repeat.first, repeat.stride, repeat.rows), (0, 3, 3));
        assert!(one.repeat.is_none());
    }

    #[test]
    fn rows_without_literals_stay() {
        let l = parameterized("INSERT INTO t VALUES (NULL),(NULL)");
        assert!(l.repeat.is_none());
        assert_eq!(l.shape, b"INSERT INTO t VALUES (NULL),(NULL)");
    }

    #[test]
    fn rows_that_differ_stay() {
        let mixed = parameterized("INSERT INTO t VALUES(1,2),(3,NULL),(4,5)");
        assert!(mixed.repeat.is_none());
        assert_eq!(mixed.literals.len(), 5);
        let tail = parameterized("INSERT INTO t VALUES(1,2),(3,4),(5,NULL)");
        assert_eq!(tail.repeat.as_ref().unwrap().rows, 2);
        assert!(String::from_utf8_lossy(&tail.shape).ends_with(",NULL)"));
        assert_eq!(tail.literals.len(), 5);
    }

    #[test]
    fn statements_are_split() {
        let text = b"SELECT ';' ; SELECT 2;;";
        let mut l = Parameterized::default();
        l.read(text, 0, SqlMode::default(), bounds(&process())).unwrap();
        assert_eq!((l.end, l.next), (11, Some(12)));
        l.read(text, 12, SqlMode::default(), bounds(&process())).unwrap();
        assert_eq!(l.next, None);
        assert_eq!(l.literals.len(), 1);
    }
}
