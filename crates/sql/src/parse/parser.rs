//! The token cursor that all grammar files share: it looks ahead, expects tokens, reads names and
//! lists, and knows the place of an error.
use super::Bounds;
use super::ast::{Name, Span};
use super::charsets::TextCharsets;
use super::lexer::{Lexer, Token, TokenKind};
use super::literal;
use super::mode_text::ModeChange;
use super::reserved::is_reserved;
use super::with::{Ctes, Defining};
use crate::error::{Result, SqlError};
use crate::sql_mode::SqlMode;
use std::collections::HashSet;
use std::ops::Range;

/// The greatest depth of nested expressions, subqueries and parentheses, by which the parser
/// recurses; error 1436 beyond it. In MySQL the thread's stack is the limit.
pub(super) const MAX_DEPTH: u32 = 128;
/// The greatest number of levels in a tree. Binding, evaluating and dropping a tree recurse over
/// its levels. Operators in a row (`1+1+1..`) add one level each, and such rows in nested
/// parentheses add up, so this limit is separate from [`MAX_DEPTH`].
pub const MAX_HEIGHT: u32 = 4000;
/// The cost of a SELECT within another, in levels of an expression: the clauses of a SELECT have
/// recursive functions of their own.
pub(super) const SELECT_LEVELS: u32 = 8;
/// The most ANDs or ORs in a row.
const MAX_TERMS: usize = 16 << 10;

/// The number of tokens kept around the cursor: those before it for [`Parser::rewind`] and the ends
/// of spans, those after it for looking ahead.
const WINDOW: usize = 16;
/// The most tokens that the grammar looks ahead of the cursor.
const AHEAD: usize = 6;
/// The parser may read this many times the text's length again, in all, to tell the function
/// INTERVAL() from an interval. Without a limit, nested INTERVALs would read the text many times.
const TIMES_AHEAD: usize = 4;
/// The number of tokens between two looks at the KILL flag.
const TOKENS_PER_LOOK: u32 = 4096;

/// The parser reads tokens when the cursor comes near them, so that a statement with an error at
/// its beginning costs nothing for the rest of its text.
///
/// **PARSE-3** An event that ends the reading early (KILL, the memory limit) makes the rest of the
/// text look like its end. [`Parser::finish`] returns the event's error, whatever the grammar has
/// made of the text: no statement that was cut off ever runs.
pub(super) struct Parser<'t> {
    pub text: &'t [u8],
    pub mode: SqlMode,
    pub charsets: TextCharsets,
    lexer: Lexer<'t>,
    /// The part of the text to leave out.
    skip: Option<Range<usize>>,
    /// Token `n` is at `n % WINDOW`, with its number among the literals or parameters.
    window: [(Token, u32); WINDOW],
    /// Tokens read so far.
    read: usize,
    /// The number of the token at the cursor.
    at: usize,
    pub(super) literals: Vec<Token>,
    params: u32,
    bounds: Bounds<'t>,
    /// Approximate bytes of the tree and its plan.
    pub(super) memory: usize,
    until_look: u32,
    /// The number of bytes read again ahead of the cursor.
    read_ahead: usize,
    pub(super) over: Option<SqlError>,
    depth: u32,
    /// The greatest height of a tree in the SELECT that the parser reads now.
    tallest: u32,
    /// The common table expressions that are known here, and those that are being defined by WITH
    /// RECURSIVE.
    pub(super) ctes: Ctes,
    pub(super) recursive: Vec<Defining>,
    /// The number of queries within others around the cursor.
    pub(super) inside: usize,
    /// The number of INTO OUTFILE and INTO DUMPFILE.
    pub(super) into_files: usize,
    /// The places of the tables' names.
    pub(super) tables: Vec<Span>,
    /// The places whose meaning depends on the SQL mode, where they are noted.
    pub(super) mode_changes: Option<Vec<ModeChange>>,
    /// The user variables that are assigned.
    pub(super) assigned: HashSet<String>,
}

/// A place in the text: the number of a token, and its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    token: usize,
    start: u32,
}
impl Place {
    /// The place of the first byte.
    pub fn start(self) -> u32 {
        self.start
    }
}

/// The literals, and the number of parameters, in the tokens that the parser has read.
pub(super) struct Scanned {
    pub literals: Vec<Token>,
    pub params: u32,
    pub tables: Vec<Span>,
    pub mode_changes: Vec<ModeChange>,
    pub assigned: HashSet<String>,
    pub memory: usize,
}

/// The next token outside the skipped text.
fn unskipped(lexer: &mut Lexer<'_>, skip: &Option<Range<usize>>) -> Token {
    loop {
        let token = lexer.next_token();
        match skip {
            Some(skip) if skip.contains(&(token.start as usize)) => lexer.skip_to(skip.end),
            _ => return token,
        }
    }
}

/// The first words of query expressions.
const QUERY_WORDS: [&str; 4] = ["SELECT", "WITH", "VALUES", "TABLE"];

impl<'t> Parser<'t> {
    /// Reads the tokens of `range`, without those in `skip` (repeated rows of a VALUES list).
    pub fn new(
        text: &'t [u8],
        range: Range<usize>,
        skip: Option<Range<usize>>,
        mode: SqlMode,
        charsets: TextCharsets,
        bounds: Bounds<'t>,
    ) -> Parser<'t> {
        let text = &text[..range.end];
        let nothing =
            Token { kind: TokenKind::End, start: range.start as u32, end: range.start as u32 };
        let mut parser = Parser {
            text,
            mode,
            charsets,
            lexer: Lexer::at(text, range.start, mode),
            skip,
            window: [(nothing, 0); WINDOW],
            read: 0,
            at: 0,
            literals: Vec::new(),
            params: 0,
            bounds,
            memory: 0,
            until_look: TOKENS_PER_LOOK,
            read_ahead: 0,
            over: None,
            depth: 0,
            tallest: 0,
            ctes: Ctes::default(),
            recursive: Vec::new(),
            inside: 0,
            into_files: 0,
            tables: Vec::new(),
            mode_changes: None,
            assigned: HashSet::new(),
        };
        parser.forward(0);
        parser
    }

    /// Ends the parsing. `result` is the grammar's result, which an early end replaces (PARSE-3).
    pub fn finish<T>(self, result: Result<T>) -> Result<(T, Scanned)> {
        match self.over {
            Some(why) => Err(why),
            None => {
                let Parser { literals, params, tables, mode_changes, assigned, memory, .. } = self;
                let mode_changes = mode_changes.unwrap_or_default();
                let scanned = Scanned { literals, params, tables, mode_changes, assigned, memory };
                Ok((result?, scanned))
            }
        }
    }

    /// Moves the cursor, and reads the tokens that the grammar may look at from there.
    pub fn forward(&mut self, tokens: usize) {
        self.at += tokens;
        while self.read <= self.at + AHEAD {
            let token = self.next_token();
            let number = if token.kind.is_literal() {
                self.charge(size_of::<Token>());
                self.literals.push(token);
                self.literals.len() as u32 - 1
            } else if token.kind == TokenKind::Param {
                self.params += 1;
                self.params - 1
            } else {
                0
            };
            self.window[self.read % WINDOW] = (token, number);
            self.read += 1;
        }
    }

    fn next_token(&mut self) -> Token {
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = TOKENS_PER_LOOK;
            if self.bounds.is_killed() {
                self.over.get_or_insert_with(SqlError::interrupted);
            }
        }
        if self.over.is_some() {
            let end = self.text.len() as u32;
            return Token { kind: TokenKind::End, start: end, end };
        }
        unskipped(&mut self.lexer, &self.skip)
    }

    /// Adds to the memory that grows with the text. Beyond the limit the parser stops reading.
    pub fn charge(&mut self, bytes: usize) {
        self.memory += bytes;
        if self.memory > self.bounds.memory {
            self.over.get_or_insert_with(|| self.bounds.exceeded());
        }
    }

    /// True if a comment stood before the tokens read so far.
    pub fn begins_with_comment(&self) -> bool {
        self.lexer.has_comment()
    }

    pub fn peek(&self) -> Token {
        self.window[self.at % WINDOW].0
    }
    pub fn peek_at(&self, ahead: usize) -> Token {
        debug_assert!(ahead <= AHEAD);
        self.window[(self.at + ahead) % WINDOW].0
    }
    pub fn kind(&self) -> TokenKind {
        self.peek().kind
    }
    /// The number of the literal or parameter at the cursor.
    pub fn number(&self) -> u32 {
        self.window[self.at % WINDOW].1
    }
    pub fn advance(&mut self) -> Token {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.forward(1);
        }
        token
    }
    pub fn position(&self) -> Place {
        Place { token: self.at, start: self.peek().start }
    }
    /// Moves the cursor back to a place a few tokens before it.
    pub fn rewind(&mut self, place: Place) {
        assert!(
            place.token <= self.at && self.read - place.token <= WINDOW,
            "the tokens are still there"
        );
        self.at = place.token;
    }

    /// Error 1064 at the cursor.
    #[cold]
    pub fn error(&self) -> SqlError {
        self.error_at(self.peek())
    }
    #[cold]
    pub fn error_at(&self, token: Token) -> SqlError {
        let start = (token.start as usize).min(self.text.len());
        let line = 1 + self.text[..start].iter().filter(|b| **b == b'\n').count();
        SqlError::syntax(&self.charsets.shown(&self.text[start..]), line)
    }
    pub fn fail<T>(&self) -> Result<T> {
        Err(self.error())
    }

    /// Runs `f` one level deeper, or fails with error 1436.
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
    /// Records the height of a tree, or fails with error 1436.
    pub fn check_height(&mut self, height: u32) -> Result<()> {
        self.tallest = self.tallest.max(height);
        if height > MAX_HEIGHT { Err(SqlError::nested_too_deeply()) } else { Ok(()) }
    }
    /// Enters a SELECT. The result is the argument of [`Self::leave_select`].
    pub fn enter_select(&mut self) -> u32 {
        std::mem::take(&mut self.tallest)
    }
    /// Leaves a SELECT and returns its height.
    pub fn leave_select(&mut self, around: u32) -> Result<u32> {
        let height = self.tallest + SELECT_LEVELS;
        self.tallest = around;
        self.check_height(height)?;
        Ok(height)
    }

    fn is(&self, token: Token, kind: TokenKind, text: &str) -> bool {
        token.kind == kind && token.text(self.text).eq_ignore_ascii_case(text.as_bytes())
    }
    /// True if the next token is this keyword.
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
    /// True if the INTERVAL at the cursor is the function: its parentheses hold a list, while an
    /// interval's amount is a single expression.
    pub fn at_interval_function(&mut self) -> bool {
        if !self.at_symbol_nth(1, "(") || self.read_ahead > TIMES_AHEAD * self.text.len() {
            return false;
        }
        // The window ends a few tokens after the cursor. A copy of the lexer reads on from there.
        let (mut lexer, mut next) = (self.lexer.clone(), self.at + 1);
        let mut depth = 0u32;
        let (is_list, end) = loop {
            let token = if next < self.read {
                self.window[next % WINDOW].0
            } else {
                unskipped(&mut lexer, &self.skip)
            };
            next += 1;
            // The parser sees the KILL again when it reads the next tokens.
            if (next - self.at).is_multiple_of(TOKENS_PER_LOOK as usize) && self.bounds.is_killed()
            {
                return false;
            }
            match (token.kind, token.text(self.text)) {
                (TokenKind::End, _) => break (false, token.end),
                (TokenKind::Symbol, b"(") => depth += 1,
                (TokenKind::Symbol, b")") if depth == 1 => break (false, token.end),
                (TokenKind::Symbol, b")") => depth -= 1,
                (TokenKind::Symbol, b",") if depth == 1 => break (true, token.end),
                _ => {}
            }
        };
        self.read_ahead += (end - self.peek().start) as usize;
        is_list
    }
    /// True if a query expression begins at the token `ahead`, unless with a parenthesis.
    pub fn at_query(&self, ahead: usize) -> bool {
        QUERY_WORDS.iter().any(|word| self.at_nth(ahead, word))
            && (!self.at_nth(ahead, "VALUES") || self.at_nth(ahead + 1, "ROW"))
    }
    /// True if the parenthesis at the cursor is that of a query expression: not that of a join
    /// whose first table is a query in parentheses, as in `((SELECT 1) AS a JOIN b)`.
    pub fn at_query_in_parens(&mut self) -> bool {
        if !self.at_symbol_nth(1, "(") {
            return self.at_query(1);
        }
        self.read_ahead > TIMES_AHEAD * self.text.len() || self.is_query_in_parens()
    }
    /// True if the parenthesis at the cursor is that of a subquery in an expression, which may
    /// begin with a query in parentheses: `((SELECT 1) UNION (SELECT 2))`, not `((SELECT 1) + 2)`.
    pub fn at_subquery(&mut self) -> bool {
        let opened = (1..AHEAD - 1).find(|ahead| !self.at_symbol_nth(*ahead, "("));
        match opened {
            Some(1) => self.at_query(1),
            Some(ahead) if self.at_query(ahead) => {
                self.read_ahead <= TIMES_AHEAD * self.text.len() && self.is_query_in_parens()
            }
            _ => false,
        }
    }
    /// At two parentheses: reads ahead to what follows the query within.
    fn is_query_in_parens(&mut self) -> bool {
        let (mut lexer, mut next) = (self.lexer.clone(), self.at);
        let (mut depth, mut opened, mut closed) = (0u32, false, false);
        let (is_query, end) = loop {
            let token = if next < self.read {
                self.window[next % WINDOW].0
            } else {
                unskipped(&mut lexer, &self.skip)
            };
            next += 1;
            if (next - self.at).is_multiple_of(TOKENS_PER_LOOK as usize) && self.bounds.is_killed()
            {
                return true;
            }
            // What follows a query whose parentheses have begun side by side with the first.
            let follows = closed;
            match (token.kind, token.text(self.text)) {
                (TokenKind::End, _) => break (true, token.end),
                (TokenKind::Symbol, b"(") if !opened => depth += 1,
                _ if !opened => {
                    let is_query =
                        QUERY_WORDS.iter().any(|word| self.is(token, TokenKind::Word, word));
                    if !is_query {
                        break (false, token.end);
                    }
                    opened = true;
                    self.skip_to_close(&mut lexer, &mut next);
                    (closed, depth) = (true, depth - 1);
                }
                (TokenKind::Symbol, b")") if depth == 1 => break (true, token.end),
                (TokenKind::Symbol, b")") => depth -= 1,
                _ if follows => {
                    let goes_on = ["UNION", "EXCEPT", "INTERSECT", "ORDER", "LIMIT", "FOR", "LOCK"]
                        .iter()
                        .any(|word| self.is(token, TokenKind::Word, word));
                    break (goes_on, token.end);
                }
                _ => {}
            }
        };
        self.read_ahead += (end - self.peek().start) as usize;
        is_query
    }
    /// Goes behind the parenthesis that closes the present one.
    fn skip_to_close(&self, lexer: &mut Lexer<'_>, next: &mut usize) {
        let mut depth = 1u32;
        loop {
            let token = if *next < self.read {
                self.window[*next % WINDOW].0
            } else {
                unskipped(lexer, &self.skip)
            };
            *next += 1;
            match (token.kind, token.text(self.text)) {
                (TokenKind::End, _) => return,
                (TokenKind::Symbol, b"(") => depth += 1,
                (TokenKind::Symbol, b")") if depth == 1 => return,
                (TokenKind::Symbol, b")") => depth -= 1,
                _ => {}
            }
            if (*next - self.at).is_multiple_of(TOKENS_PER_LOOK as usize) && self.bounds.is_killed()
            {
                return;
            }
        }
    }
    pub fn accept(&mut self, keyword: &str) -> bool {
        let found = self.at(keyword);
        if found {
            self.forward(1);
        }
        found
    }
    /// Accepts all of these keywords in order, or none of them.
    pub fn accept_all(&mut self, keywords: &[&str]) -> bool {
        let found = keywords.iter().enumerate().all(|(i, k)| self.at_nth(i, k));
        if found {
            self.forward(keywords.len());
        }
        found
    }
    pub fn accept_any(&mut self, keywords: &[&'static str]) -> Option<&'static str> {
        let found = keywords.iter().copied().find(|k| self.at(k))?;
        self.forward(1);
        Some(found)
    }
    pub fn expect(&mut self, keyword: &str) -> Result<()> {
        if self.accept(keyword) { Ok(()) } else { self.fail() }
    }
    pub fn accept_symbol(&mut self, symbol: &str) -> bool {
        let found = self.at_symbol(symbol);
        if found {
            self.forward(1);
        }
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

    pub fn comma_list<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.comma_list_of(usize::MAX, SqlError::too_many_columns, item)
    }
    /// A list of at most `most` items. A further item is an error as soon as it begins.
    pub fn comma_list_of<T>(
        &mut self,
        most: usize,
        too_many: impl FnOnce() -> SqlError,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut list = Vec::new();
        loop {
            self.charge(size_of::<T>());
            list.push(item(self)?);
            if !self.accept_symbol(",") {
                return Ok(list);
            }
            if list.len() >= most {
                return Err(too_many());
            }
        }
    }
    pub fn in_parens<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.expect_symbol("(")?;
        let result = inner(self)?;
        self.expect_symbol(")")?;
        Ok(result)
    }

    /// The text of the token as a name; error 1300 if it is not valid.
    fn name_of(&mut self, token: Token) -> Result<String> {
        let bytes = token.text(self.text);
        self.charge(bytes.len());
        if token.kind == TokenKind::QuotedName {
            self.charsets.name(&literal::unquote_name(bytes))
        } else {
            self.charsets.name(bytes)
        }
    }
    /// An identifier: quoted, or a word that is not reserved.
    pub fn ident(&mut self) -> Result<String> {
        let token = self.peek();
        match token.kind {
            TokenKind::QuotedName => {}
            TokenKind::Word if !is_reserved(token.text(self.text)) => {}
            _ => return self.fail(),
        }
        self.forward(1);
        self.name_of(token)
    }
    /// After a point, reserved words are names too.
    pub fn ident_after_dot(&mut self) -> Result<String> {
        let token = self.peek();
        if !matches!(token.kind, TokenKind::Word | TokenKind::QuotedName) {
            return self.fail();
        }
        self.forward(1);
        self.name_of(token)
    }
    /// Any word, quoted name or string: the name of a character set, an engine or a user.
    pub fn word_or_string(&mut self) -> Result<String> {
        let token = self.peek();
        let bytes = match token.kind {
            TokenKind::Word => token.text(self.text).to_vec(),
            TokenKind::QuotedName => literal::unquote_name(token.text(self.text)),
            TokenKind::String => {
                literal::string(token.text(self.text), self.backslash_escapes()).into_owned()
            }
            _ => return self.fail(),
        };
        self.forward(1);
        self.charsets.name(&bytes)
    }
    /// The name of a character set. In the syntax tree, an empty one stands for DEFAULT.
    pub fn charset_name(&mut self) -> Result<String> {
        let name = self.word_or_string()?;
        if name.is_empty() { Err(SqlError::unknown_character_set("")) } else { Ok(name) }
    }
    /// The name of a collation. In the syntax tree, an empty one stands for BINARY.
    pub fn collation_name(&mut self) -> Result<String> {
        let name = self.word_or_string()?;
        if name.is_empty() { Err(SqlError::unknown_collation("")) } else { Ok(name) }
    }
    pub fn is_ident(&self, token: Token) -> bool {
        match token.kind {
            TokenKind::QuotedName => true,
            TokenKind::Word => !is_reserved(token.text(self.text)),
            _ => false,
        }
    }
    /// `[AS] alias`. The alias may be a string.
    pub fn alias(&mut self) -> Result<Option<String>> {
        if self.accept("AS") {
            return if self.kind() == TokenKind::String {
                self.word_or_string().map(Some)
            } else {
                self.ident().map(Some)
            };
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
        self.forward(1);
        Ok(number)
    }
    /// A number without sign or point; error 1064 for any other token.
    pub fn unsigned(&mut self) -> Result<u64> {
        let token = self.peek();
        if token.kind != TokenKind::Integer {
            return self.fail();
        }
        let text = String::from_utf8_lossy(token.text(self.text));
        let number = text.parse().map_err(|_| self.error())?;
        self.forward(1);
        Ok(number)
    }
    pub fn unsigned_u32(&mut self) -> Result<u32> {
        let token = self.peek();
        u32::try_from(self.unsigned()?).map_err(|_| self.error_at(token))
    }
    pub fn backslash_escapes(&self) -> bool {
        !self.mode.has(SqlMode::NO_BACKSLASH_ESCAPES)
    }
    /// The span from a place to the end of the token before the cursor.
    pub fn span_from(&self, place: Place) -> Span {
        let end = if self.at > place.token {
            self.window[(self.at - 1) % WINDOW].0.end
        } else {
            place.start
        };
        Span { start: place.start, end }
    }
}
