//! The token cursor all grammar files share: looking ahead, expecting, names, lists, and the place of an error.
use super::ast::{Name, Span};
use super::lexer::{Lexer, Token, TokenKind};
use super::literal;
use super::reserved::is_reserved;
use crate::error::{Result, SqlError};
use crate::sql_mode::SqlMode;
use std::ops::Range;

/// Expressions, subqueries and parentheses within each other, as the parser recurses. MySQL's limit is its thread's stack; error 1436.
const MAX_DEPTH: u32 = 128;
/// Levels of a tree: what binding, evaluating and dropping it recurse over. Operators in a row (`1+1+1..`) add one each, and rows of operators
/// in parentheses of others add up, so this is counted apart from [`MAX_DEPTH`].
const MAX_HEIGHT: u32 = 4000;
/// What a SELECT within another costs, in levels of an expression: its clauses have functions of their own that recurse.
const SELECT_LEVELS: u32 = 8;
/// ANDs or ORs in a row.
const MAX_TERMS: usize = 16 << 10;

pub(super) struct Parser<'t> {
    pub text: &'t [u8],
    pub mode: SqlMode,
    tokens: Vec<Token>,
    at: usize,
    /// Numbers of literals and parameters by token position, in order of appearance.
    numbers: Vec<u32>,
    depth: u32,
    /// The highest tree made so far in the SELECT that is being read.
    tallest: u32,
}

/// What the cursor found out on its way over the tokens.
pub(super) struct Scanned {
    pub literals: Vec<Token>,
    pub params: u32,
}

impl<'t> Parser<'t> {
    /// Reads the tokens of `range`, leaving out those in `skip` (repeated rows of a VALUES list).
    pub fn new(text: &'t [u8], range: Range<usize>, skip: Option<Range<usize>>, mode: SqlMode) -> (Parser<'t>, Scanned) {
        let text = &text[..range.end];
        let mut lexer = Lexer::at(text, range.start, mode);
        let (mut tokens, mut numbers, mut literals, mut params) = (Vec::new(), Vec::new(), Vec::new(), 0);
        loop {
            let token = lexer.next_token();
            if let Some(skip) = &skip
                && token.start as usize >= skip.start
                && (token.start as usize) < skip.end
            {
                lexer.skip_to(skip.end);
                continue;
            }
            numbers.push(if token.kind.is_literal() {
                literals.push(token);
                literals.len() as u32 - 1
            } else if token.kind == TokenKind::Param {
                params += 1;
                params - 1
            } else {
                0
            });
            tokens.push(token);
            if token.kind == TokenKind::End {
                break;
            }
        }
        (Parser { text, mode, tokens, at: 0, numbers, depth: 0, tallest: 0 }, Scanned { literals, params })
    }

    pub fn peek(&self) -> Token {
        self.tokens[self.at]
    }
    pub fn peek_at(&self, ahead: usize) -> Token {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }
    pub fn kind(&self) -> TokenKind {
        self.peek().kind
    }
    /// The number of the literal or parameter the cursor is at.
    pub fn number(&self) -> u32 {
        self.numbers[self.at]
    }
    pub fn advance(&mut self) -> Token {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }
    pub fn position(&self) -> usize {
        self.at
    }
    pub fn rewind(&mut self, position: usize) {
        self.at = position;
    }

    /// 1064 at the cursor.
    #[cold]
    pub fn error(&self) -> SqlError {
        self.error_at(self.peek())
    }
    #[cold]
    pub fn error_at(&self, token: Token) -> SqlError {
        let start = (token.start as usize).min(self.text.len());
        let line = 1 + self.text[..start].iter().filter(|b| **b == b'\n').count();
        SqlError::syntax(&String::from_utf8_lossy(&self.text[start..]), line)
    }
    pub fn fail<T>(&self) -> Result<T> {
        Err(self.error())
    }

    /// Runs `f` one level deeper.
    pub fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SqlError::nested_too_deeply());
        }
        let result = f(self);
        self.depth -= 1;
        result
    }
    pub fn check_terms(&self, terms: usize) -> Result<()> {
        if terms > MAX_TERMS { Err(SqlError::nested_too_deeply()) } else { Ok(()) }
    }
    /// Counts a tree, or refuses it.
    pub fn check_height(&mut self, height: u32) -> Result<()> {
        self.tallest = self.tallest.max(height);
        if height > MAX_HEIGHT { Err(SqlError::nested_too_deeply()) } else { Ok(()) }
    }
    /// A SELECT begins. What is returned is for [`Self::leave_select`].
    pub fn enter_select(&mut self) -> u32 {
        std::mem::take(&mut self.tallest)
    }
    /// The height of the SELECT that ends here.
    pub fn leave_select(&mut self, around: u32) -> Result<u32> {
        let height = self.tallest + SELECT_LEVELS;
        self.tallest = around;
        self.check_height(height)?;
        Ok(height)
    }

    fn is(&self, token: Token, kind: TokenKind, text: &str) -> bool {
        token.kind == kind && token.text(self.text).eq_ignore_ascii_case(text.as_bytes())
    }
    /// Is the next token this keyword?
    pub fn at(&self, keyword: &str) -> bool {
        self.is(self.peek(), TokenKind::Word, keyword)
    }
    pub fn at_nth(&self, ahead: usize, keyword: &str) -> bool {
        self.is(self.peek_at(ahead), TokenKind::Word, keyword)
    }
    pub fn at_symbol(&self, symbol: &str) -> bool {
        self.is(self.peek(), TokenKind::Symbol, symbol)
    }
    pub fn at_symbol_nth(&self, ahead: usize, symbol: &str) -> bool {
        self.is(self.peek_at(ahead), TokenKind::Symbol, symbol)
    }
    pub fn accept(&mut self, keyword: &str) -> bool {
        let found = self.at(keyword);
        self.at += found as usize;
        found
    }
    /// All of these keywords one after another, or none.
    pub fn accept_all(&mut self, keywords: &[&str]) -> bool {
        let found = keywords.iter().enumerate().all(|(i, k)| self.at_nth(i, k));
        if found {
            self.at += keywords.len();
        }
        found
    }
    pub fn accept_any(&mut self, keywords: &[&'static str]) -> Option<&'static str> {
        let found = keywords.iter().copied().find(|k| self.at(k))?;
        self.at += 1;
        Some(found)
    }
    pub fn expect(&mut self, keyword: &str) -> Result<()> {
        if self.accept(keyword) { Ok(()) } else { self.fail() }
    }
    pub fn accept_symbol(&mut self, symbol: &str) -> bool {
        let found = self.at_symbol(symbol);
        self.at += found as usize;
        found
    }
    pub fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if self.accept_symbol(symbol) { Ok(()) } else { self.fail() }
    }
    pub fn at_end(&self) -> bool {
        self.kind() == TokenKind::End
    }
    pub fn expect_end(&self) -> Result<()> {
        if self.at_end() { Ok(()) } else { self.fail() }
    }

    pub fn comma_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut list = vec![item(self)?];
        while self.accept_symbol(",") {
            list.push(item(self)?);
        }
        Ok(list)
    }
    pub fn in_parens<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.expect_symbol("(")?;
        let result = inner(self)?;
        self.expect_symbol(")")?;
        Ok(result)
    }

    fn utf8(&self, bytes: Vec<u8>) -> Result<String> {
        String::from_utf8(bytes).map_err(|e| {
            let hex: String = e.as_bytes().iter().take(6).map(|b| format!("\\x{b:02X}")).collect();
            SqlError::invalid_string("utf8mb4", hex)
        })
    }
    /// The token's text as a name, if it can be one at all.
    fn name_of(&self, token: Token) -> Result<String> {
        let bytes = token.text(self.text);
        self.utf8(if token.kind == TokenKind::QuotedName { literal::unquote_name(bytes) } else { bytes.to_vec() })
    }
    /// An identifier: quoted, or a word that is not reserved.
    pub fn ident(&mut self) -> Result<String> {
        let token = self.peek();
        match token.kind {
            TokenKind::QuotedName => {}
            TokenKind::Word if !is_reserved(token.text(self.text)) => {}
            _ => return self.fail(),
        }
        self.at += 1;
        self.name_of(token)
    }
    /// After a point, reserved words are names too.
    pub fn ident_after_dot(&mut self) -> Result<String> {
        let token = self.peek();
        if !matches!(token.kind, TokenKind::Word | TokenKind::QuotedName) {
            return self.fail();
        }
        self.at += 1;
        self.name_of(token)
    }
    /// Any word or a quoted name or string: character sets, engines, users.
    pub fn word_or_string(&mut self) -> Result<String> {
        let token = self.peek();
        let bytes = match token.kind {
            TokenKind::Word => token.text(self.text).to_vec(),
            TokenKind::QuotedName => literal::unquote_name(token.text(self.text)),
            TokenKind::String => literal::string(token.text(self.text), self.backslash_escapes()).into_owned(),
            _ => return self.fail(),
        };
        self.at += 1;
        self.utf8(bytes)
    }
    pub fn is_ident(&self, token: Token) -> bool {
        match token.kind {
            TokenKind::QuotedName => true,
            TokenKind::Word => !is_reserved(token.text(self.text)),
            _ => false,
        }
    }
    /// `[AS] alias`; a string is one too.
    pub fn alias(&mut self) -> Result<Option<String>> {
        if self.accept("AS") {
            return if self.kind() == TokenKind::String { self.word_or_string().map(Some) } else { self.ident().map(Some) };
        }
        if self.is_ident(self.peek()) { self.ident().map(Some) } else { Ok(None) }
    }
    pub fn table_name(&mut self) -> Result<Name> {
        let first = self.ident()?;
        if self.accept_symbol(".") {
            return Ok(Name { schema: Some(first), name: self.ident_after_dot()? });
        }
        Ok(Name { schema: None, name: first })
    }

    pub fn string_literal(&mut self) -> Result<u32> {
        if self.kind() != TokenKind::String {
            return self.fail();
        }
        let number = self.number();
        self.at += 1;
        Ok(number)
    }
    /// A number without sign or point.
    pub fn unsigned(&mut self) -> Result<u64> {
        let token = self.peek();
        if token.kind != TokenKind::Integer {
            return self.fail();
        }
        let text = String::from_utf8_lossy(token.text(self.text));
        let number = text.parse().map_err(|_| self.error())?;
        self.at += 1;
        Ok(number)
    }
    pub fn unsigned_u32(&mut self) -> Result<u32> {
        let token = self.peek();
        u32::try_from(self.unsigned()?).map_err(|_| self.error_at(token))
    }
    pub fn backslash_escapes(&self) -> bool {
        !self.mode.has(SqlMode::NO_BACKSLASH_ESCAPES)
    }
    /// From the token at `position` to the one before the cursor.
    pub fn span_from(&self, position: usize) -> Span {
        let start = self.tokens[position].start;
        let end = if self.at > position { self.tokens[self.at - 1].end } else { start };
        Span { start, end }
    }
}
