//! Text to syntax tree.
//!
//! The grammar is our own, over our own lexer. sqlparser's was looked at first and left: its trees
//! differ from MySQL's in silence (`a = 1 XOR b = 2` is read as `a = (1 XOR b) = 2`,
//! `BINARY a = b AND c` as one cast, `&` binds looser than `<<`), it accepts what a dozen other
//! dialects allow, and it needs its text to be UTF-8, which a statement with a BLOB in it is not.
//!
//! **PARSE-1** Nothing is accepted and dropped, except what has no meaning here (priorities, cache
//! hints, index USING, storage options).
//! **PARSE-2** What MySQL knows and this server does not is 1235, what nobody knows is 1064 with
//! the place.
pub mod ast;
mod call;
pub mod charsets;
mod create;
mod ddl;
mod dml;
mod expr;
pub mod hints;
pub mod lexer;
pub mod limits;
pub mod literal;
pub mod parameterize;
mod parser;
mod reserved;
mod select;
mod set;
mod show;
mod statement;

use crate::error::{Result, SqlError};
use crate::processes::{Kill, Process};
use crate::sql_mode::SqlMode;
use ast::Statement;
use charsets::TextCharsets;
use lexer::{Token, TokenKind};
use redolith_types::Value;
use std::borrow::Cow;
use std::ops::Range;

/// A statement's tree with what it was made from.
pub struct Parsed<'t> {
    pub statement: Statement,
    pub text: &'t [u8],
    /// Literals in order of appearance; those of repeated rows (see [`parameterize`]) are left out.
    pub literals: Vec<Token>,
    /// Number of `?`.
    pub params: u32,
    pub mode: SqlMode,
    pub hints: Option<Box<hints::Hints>>,
    pub charsets: TextCharsets,
}

impl<'t> Parsed<'t> {
    pub fn literal(&self, number: u32) -> Result<Value<'t>> {
        literal::value(
            self.literals[number as usize],
            self.text,
            self.backslash_escapes(),
            self.charsets,
        )
    }
    pub fn literal_kind(&self, number: u32) -> TokenKind {
        self.literals[number as usize].kind
    }
    /// A string literal as a text that the server keeps in UTF-8; 1300 if it is not valid.
    pub fn literal_text(&self, number: u32) -> Result<String> {
        let token = self.literals[number as usize];
        if token.kind.is_string() {
            return self
                .charsets
                .name(&literal::string(token.text(self.text), self.backslash_escapes()));
        }
        Ok(self.literal(number)?.to_string())
    }
    /// The text of a part of the tree as it was written, in UTF-8 (what is not valid is replaced).
    pub fn source(&self, span: ast::Span) -> Cow<'t, str> {
        self.charsets.shown(&self.text[span.start as usize..span.end as usize])
    }
    /// The same as a text that means the same in UTF-8: literals whose bytes are taken as they are
    /// sent are written in hexadecimal.
    pub fn portable_source(&self, span: ast::Span) -> Result<String> {
        let mut out = Vec::new();
        let mut copied = span.start;
        for token in self.literals.iter().filter(|t| t.start >= span.start && t.end <= span.end) {
            let bytes = token.text(self.text);
            if token.kind == TokenKind::Introduced && !bytes.is_ascii() {
                out.extend_from_slice(
                    self.charsets
                        .name(&self.text[copied as usize..token.start as usize])?
                        .as_bytes(),
                );
                let hex = literal::string(bytes, self.backslash_escapes())
                    .iter()
                    .map(|b| format!("{b:02X}"))
                    .collect::<String>();
                out.extend_from_slice(format!(" x'{hex}'").as_bytes());
                copied = token.end;
            }
        }
        out.extend_from_slice(
            self.charsets.name(&self.text[copied as usize..span.end as usize])?.as_bytes(),
        );
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
    fn backslash_escapes(&self) -> bool {
        !self.mode.has(SqlMode::NO_BACKSLASH_ESCAPES)
    }
}

/// What parsing, and binding what was parsed, may use and by what it is ended.
#[derive(Clone, Copy)]
pub struct Bounds<'k> {
    /// Bytes (`parser_max_mem_size`).
    pub memory: usize,
    /// The session's, which KILL reaches; looked at every so often.
    pub process: &'k Process,
}
impl Bounds<'_> {
    pub fn is_killed(&self) -> bool {
        self.process.killed() != Kill::None
    }
    /// 3170, as MySQL's parser has it.
    #[cold]
    pub fn exceeded(&self) -> SqlError {
        SqlError::capacity_exceeded(
            self.memory,
            "parser_max_mem_size",
            "Parser bailed out for this query.",
        )
    }
}

/// Parses the one statement in `range` of `text`. `skip` is a part of a VALUES list to leave out.
pub fn parse<'t>(
    text: &'t [u8],
    range: Range<usize>,
    skip: Option<Range<usize>>,
    mode: SqlMode,
    charsets: TextCharsets,
    bounds: Bounds<'t>,
) -> Result<Parsed<'t>> {
    let (start, end) = (range.start, range.end);
    let mut parser = parser::Parser::new(text, range, skip, mode, charsets, bounds);
    let statement = if parser.at_end() {
        // A semicolon that ends nothing is no empty query where a statement follows.
        match end < text.len() && rest_after(text, end, mode) == Rest::Statement {
            true => Err(SqlError::syntax(&charsets.shown(&text[end..]), 1)),
            false if parser.begins_with_comment() => Ok(Statement::Empty),
            false => Err(SqlError::empty_query()),
        }
    } else {
        parser.statement().and_then(|statement| parser.expect_end().map(|()| statement))
    };
    let (statement, scanned) = parser.finish(statement)?;
    let hints = hints::read(&text[..end], start, mode, bounds)?;
    Ok(Parsed {
        statement,
        text: &text[..end],
        literals: scanned.literals,
        params: scanned.params,
        mode,
        hints,
        charsets,
    })
}

/// The statement that begins at `start`: its range, and where the next one begins (after its
/// semicolon), if there is one.
pub fn split(text: &[u8], start: usize, mode: SqlMode) -> (Range<usize>, Option<usize>) {
    let mut lexer = lexer::Lexer::at(text, start, mode);
    loop {
        let token = lexer.next_token();
        if token.kind == TokenKind::End {
            return (start..text.len(), None);
        }
        if token.kind == TokenKind::Symbol && token.text(text) == b";" {
            let end = token.end as usize;
            return (
                start..token.start as usize,
                (rest_after(text, end, mode) == Rest::Statement).then_some(end),
            );
        }
    }
}

/// What follows a statement's semicolon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// White space and semicolons.
    Nothing,
    Comment,
    Statement,
}
fn rest_after(text: &[u8], pos: usize, mode: SqlMode) -> Rest {
    let mut lexer = lexer::Lexer::at(text, pos, mode);
    loop {
        let token = lexer.next_token();
        if token.kind == TokenKind::End {
            return if lexer.has_comment() { Rest::Comment } else { Rest::Nothing };
        }
        if !(token.kind == TokenKind::Symbol && token.text(text) == b";") {
            return Rest::Statement;
        }
    }
}
