//! The parser: from text to syntax tree.
//!
//! The grammar and the lexer are our own. We examined sqlparser first and rejected it. Its trees
//! differ from MySQL's without an error (`a = 1 XOR b = 2` is read as `a = (1 XOR b) = 2`, `BINARY
//! a = b AND c` as one cast, `&` binds looser than `<<`). It accepts the syntax of a dozen other
//! dialects. It needs UTF-8 text, and a statement with a BLOB in it is not UTF-8.
//!
//! **PARSE-1** The parser accepts and drops only clauses that have no meaning here (priorities,
//! cache hints, index USING, storage options).
//! **PARSE-2** A feature of MySQL that this server lacks is error 1235. Any other unknown text is
//! error 1064 with its place.
pub mod ast;
mod call;
pub mod charsets;
mod create;
mod ddl;
mod dml;
mod expr;
pub mod hints;
mod joins;
mod json_table;
pub mod lexer;
pub mod limits;
pub mod literal;
mod load;
pub mod mode_text;
pub mod parameterize;
mod parser;
pub use parser::MAX_HEIGHT;
pub(crate) mod reserved;
mod select;
mod set;
mod show;
mod statement;
mod view;
pub mod window;
mod with;

use crate::error::{Result, SqlError};
use crate::plan::PatternStart;
use crate::processes::{Kill, Process};
use crate::sql_mode::SqlMode;
use ast::Statement;
use charsets::TextCharsets;
use lexer::{Token, TokenKind};
use redolith_types::Value;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// A statement's tree, with the text and the settings that it was made from.
pub struct Parsed<'t> {
    pub statement: Statement,
    pub text: &'t [u8],
    /// Literals in order of appearance, without the literals of repeated rows (see
    /// [`parameterize`]).
    pub literals: Vec<Token>,
    /// The number of `?`.
    pub params: u32,
    pub mode: SqlMode,
    pub hints: Option<Box<hints::Hints>>,
    pub charsets: TextCharsets,
    /// The places of the names of tables in FROM clauses, but for those that WITH has defined.
    pub tables: Vec<ast::Span>,
    /// Where the text of a view's SELECT depends on the SQL mode; empty for other statements.
    pub mode_changes: Vec<mode_text::ModeChange>,
    /// The names of the user variables that `:=` assigns.
    pub assigned: HashSet<String>,
    /// About the bytes of the tree and its plan.
    pub memory: usize,
    /// Where the statement begins.
    pub start: usize,
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
    /// How the LIKE pattern begins that a literal is.
    pub fn pattern_start(&self, number: u32) -> PatternStart {
        parameterize::pattern_start(self.literals[number as usize], self.text)
    }
    /// A string literal as text in UTF-8, in which the server keeps it; error 1300 if it is not
    /// valid.
    pub fn literal_text(&self, number: u32) -> Result<String> {
        let token = self.literals[number as usize];
        if token.kind.is_string() {
            return self
                .charsets
                .name(&literal::string(token.text(self.text), self.backslash_escapes()));
        }
        Ok(self.literal(number)?.to_string())
    }
    /// The text of a part of the tree as it was written, in UTF-8; invalid characters are replaced.
    pub fn source(&self, span: ast::Span) -> Cow<'t, str> {
        self.charsets.shown(&self.text[span.start as usize..span.end as usize])
    }
    /// The text of a part of the tree, written so that it keeps its meaning in UTF-8: literals
    /// whose bytes are taken as sent are written in hexadecimal.
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

/// The limits of parsing and binding: the memory that they may use, and the KILL that ends them.
#[derive(Clone, Copy)]
pub struct Bounds<'k> {
    /// Bytes (`parser_max_mem_size`).
    pub memory: usize,
    /// The session's process, which KILL reaches. Parsing looks at it from time to time.
    pub process: &'k Process,
}
impl Bounds<'_> {
    /// A statement with so little memory is bound on its worker.
    pub const SHORT_MEMORY: usize = 1 << 20;

    /// Whether the work is done on the worker. Work that turns out to be long fails with
    /// [`Bounds::exceeded`], and is done again elsewhere, with more memory.
    pub fn is_short(&self) -> bool {
        self.memory <= Self::SHORT_MEMORY
    }
    pub fn is_killed(&self) -> bool {
        self.process.killed() != Kill::None
    }
    /// Error 3170, as in MySQL's parser.
    #[cold]
    pub fn exceeded(&self) -> SqlError {
        SqlError::capacity_exceeded(
            self.memory,
            "parser_max_mem_size",
            "Parser bailed out for this query.",
        )
    }
}

/// Parses the single statement in `range` of `text`. The parser leaves out `skip`, a part of a
/// VALUES list.
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
        // A semicolon without a statement before it is an error if a statement follows.
        match end < text.len() && rest_after(text, end, mode, false) == Rest::Statement {
            true => Err(SqlError::syntax(&charsets.shown(&text[end..]), 1)),
            false if parser.begins_with_comment() => Ok(Statement::Empty),
            false => Err(SqlError::empty_query()),
        }
    } else {
        parser.statement().and_then(|statement| {
            parser.expect_end()?;
            if parser.into_files > into_files(&statement) {
                return Err(SqlError::misplaced_into());
            }
            Ok(statement)
        })
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
        tables: scanned.tables,
        mode_changes: scanned.mode_changes,
        assigned: scanned.assigned,
        memory: scanned.memory,
        start,
    })
}

/// The number of files that the statement itself writes; a SELECT within it writes none.
fn into_files(statement: &Statement) -> usize {
    let select = match statement {
        Statement::Select(select) => select,
        Statement::Explain(explained) => return into_files(&explained.statement),
        _ => return 0,
    };
    let first = select.first.as_deref().unwrap_or(select);
    let parts = std::iter::once(first).chain(select.more.iter().map(|(_, part)| part));
    parts.filter(|part| part.into_file.is_some()).count()
}

/// Splits off the statement that begins at `start`: returns its range, and the place after its
/// semicolon if another statement follows.
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
                (rest_after(text, end, mode, false) == Rest::Statement).then_some(end),
            );
        }
    }
}

/// The text after a statement's semicolon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// White space and semicolons.
    Nothing,
    Comment,
    Statement,
}
/// `last`: it is known that no statement follows.
fn rest_after(text: &[u8], pos: usize, mode: SqlMode, last: bool) -> Rest {
    let mut lexer = lexer::Lexer::at(text, pos, mode);
    loop {
        let token = lexer.next_token();
        if last && lexer.has_comment() {
            return Rest::Comment;
        }
        if token.kind == TokenKind::End {
            return if lexer.has_comment() { Rest::Comment } else { Rest::Nothing };
        }
        if !(token.kind == TokenKind::Symbol && token.text(text) == b";") {
            return Rest::Statement;
        }
    }
}
