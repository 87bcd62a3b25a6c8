//! The text of a view's SELECT, as the dictionary keeps it.
//!
//! **VTEXT-1** The text means the same whatever the default database, and whatever tables and
//! columns are made later: tables have their schemas, columns their tables, and `*` is the list of
//! the columns of that day. Names are in backticks, strings in apostrophes with `\` as escape, all
//! in UTF-8. Operators that the SQL mode gives a meaning are written so that each mode gives them
//! the same ([`mode_text`](crate::parse::mode_text)). Otherwise the text is what the client wrote,
//! without comments, and with its keywords in small letters.
//!
//! The parser notes what depends on the mode, and the binder what names mean while it binds the
//! definition; the text is made from the notes and the tokens of the statement.
use super::Binder;
use super::ddl::check_characters;
use super::expr::Env;
use super::scope::{Clause, Scope};
use super::view_names::ViewColumns;
use crate::error::Result;
use crate::exec::show::{quoted_name, quoted_text};
use crate::parse::ast::{ColumnName, Select, Span};
use crate::parse::lexer::{Lexer, Token, TokenKind};
use crate::parse::literal;
use crate::parse::mode_text::ModeChange;
use crate::parse::reserved::is_reserved;
use crate::sql_mode::SqlMode;
use std::collections::BTreeMap;

/// The changes of a text.
#[derive(Default)]
pub(super) struct Rewrites {
    /// By the start of a part: its end, and what takes its place.
    pub replaced: BTreeMap<u32, (u32, String)>,
    /// By the end of an item of a SELECT list that has no alias: its name.
    pub names: BTreeMap<u32, String>,
    pub columns: ViewColumns,
}
impl Rewrites {
    /// For the definition of a view.
    pub fn of(select: &Select) -> Rewrites {
        Rewrites { columns: ViewColumns::of(select), ..Rewrites::default() }
    }
}

/// What comes in front of the token that begins here, and behind the one that ends here.
#[derive(Default)]
struct Around {
    before: BTreeMap<u32, String>,
    after: BTreeMap<u32, String>,
}
impl Around {
    /// Enters the parser's changes: of those at one place, those of an inner expression come first.
    fn of(changes: &[ModeChange], rewrites: &mut Rewrites) -> Around {
        let mut around = Around::default();
        for change in changes {
            match *change {
                ModeChange::Before(..) => {}
                ModeChange::After(end, text) => {
                    around.after.entry(end).or_default().push_str(text);
                }
                ModeChange::Over(span, text) => {
                    rewrites.replaced.insert(span.start, (span.end, text.into()));
                }
            }
        }
        for change in changes.iter().rev() {
            if let ModeChange::Before(start, text) = *change {
                around.before.entry(start).or_default().push_str(text);
            }
        }
        around
    }
}

impl Binder<'_> {
    /// Notes which column a name means.
    pub(super) fn note_name(&mut self, env: &Env<'_>, name: &ColumnName, span: Span) -> Result<()> {
        if self.rewrites.is_none() || span.start == span.end {
            return Ok(());
        }
        let alias_of = |env: &Env<'_>| {
            let aliases = env.aliases.filter(|_| name.table.is_none());
            aliases.is_some_and(|aliases| aliases.find(&name.column).is_some())
        };
        if env.clause == Clause::Having && alias_of(env) {
            self.note_alias(span, &name.column);
            return Ok(());
        }
        let mut around = Some(env);
        while let Some(env) = around {
            if let Some(at) = env.scope.find(name, env.clause)? {
                let text = column_text(env.scope, at);
                if let (Some(text), Some(rewrites)) = (text, &mut self.rewrites) {
                    rewrites.replaced.entry(span.start).or_insert((span.end, text));
                }
                return Ok(());
            }
            if alias_of(env) {
                self.note_alias(span, &name.column);
                return Ok(());
            }
            around = env.outer;
        }
        Ok(())
    }
    /// Notes the columns that `*` means.
    pub(super) fn note_wildcard(&mut self, scope: &Scope, span: Span, places: &[(usize, usize)]) {
        let Some(rewrites) = self.rewrites.as_mut().filter(|_| span.start < span.end) else {
            return;
        };
        let column = |at: &(usize, usize)| {
            let name = quoted_name(&scope.column(*at).name);
            format!("{} AS {name}", column_text(scope, *at).unwrap_or_else(|| name.clone()))
        };
        let list = places.iter().map(column).collect::<Vec<_>>().join(",");
        let written = &self.parsed.text[span.start as usize..span.end as usize];
        let text = match written.eq_ignore_ascii_case(b"TABLE") {
            true => format!("select {list} from"),
            false => list,
        };
        rewrites.replaced.entry(span.start).or_insert((span.end, text));
    }

    /// The text of the SELECT at `span` (VTEXT-1).
    pub(super) fn view_text(&mut self, span: Span, mut rewrites: Rewrites) -> Result<String> {
        let parsed = self.parsed;
        for table in parsed.tables.iter().filter(|t| t.start >= span.start && t.end <= span.end) {
            let names = self.names_at(*table)?;
            let names: Vec<String> = match &names[..] {
                [name] => vec![self.cx.schema.unwrap_or_default().to_string(), name.clone()],
                _ => names,
            };
            let text = names.iter().map(|name| quoted_name(name)).collect::<Vec<_>>().join(".");
            rewrites.replaced.entry(table.start).or_insert((table.end, text));
        }
        let around = Around::of(&parsed.mode_changes, &mut rewrites);
        let mut lexer = Lexer::at(parsed.text, parsed.start, parsed.mode);
        let mut out = String::new();
        let (mut last_end, mut after_word, mut skip_to) = (span.start, false, 0);
        loop {
            let token = lexer.next_token();
            if token.kind == TokenKind::End || token.start >= span.end {
                return Ok(out);
            }
            if token.start < span.start {
                continue;
            }
            self.step(1)?;
            if token.start >= skip_to {
                let mut is_apart = token.start > last_end;
                let (text, is_word) = match rewrites.replaced.get(&token.start) {
                    Some((end, text)) => {
                        skip_to = *end;
                        let is_comma = text == ",";
                        is_apart &= !is_comma;
                        (text.clone(), !is_comma)
                    }
                    None => self.token_text(token, out.ends_with('.'))?,
                };
                let before = around.before.get(&token.start).map_or("", String::as_str);
                let begins_with_word = match before.as_bytes().first() {
                    Some(first) => first.is_ascii_alphabetic(),
                    None => is_word,
                };
                if !out.is_empty() && (is_apart || after_word && begins_with_word) {
                    out.push(' ');
                }
                out.push_str(before);
                out.push_str(&text);
                after_word = is_word;
            }
            last_end = token.end;
            if token.end < skip_to {
                continue;
            }
            if let Some(text) = around.after.get(&token.end) {
                out.push_str(text);
                after_word = false;
            }
            if let Some(name) = rewrites.names.get(&token.end) {
                out.push_str(" AS ");
                out.push_str(&quoted_name(name));
                after_word = true;
            }
        }
    }
    /// The names of a table: its own, or its schema's and its own.
    fn names_at(&self, span: Span) -> Result<Vec<String>> {
        let parsed = self.parsed;
        let text = &parsed.text[..span.end as usize];
        let mut lexer = Lexer::at(text, span.start as usize, parsed.mode);
        let mut names = Vec::new();
        loop {
            let token = lexer.next_token();
            let bytes = token.text(text);
            match token.kind {
                TokenKind::End => return Ok(names),
                TokenKind::Word => names.push(parsed.charsets.name(bytes)?),
                TokenKind::QuotedName => {
                    names.push(parsed.charsets.name(&literal::unquote_name(bytes))?)
                }
                _ => {}
            }
        }
    }
    /// The text of a token, and whether it must not touch a word beside it.
    fn token_text(&self, token: Token, after_dot: bool) -> Result<(String, bool)> {
        let parsed = self.parsed;
        let bytes = token.text(parsed.text);
        let escapes = !parsed.mode.has(SqlMode::NO_BACKSLASH_ESCAPES);
        let charsets = parsed.charsets;
        Ok(match token.kind {
            // As in MySQL's texts, AS is the only keyword in capital letters.
            TokenKind::Word if !after_dot && bytes.eq_ignore_ascii_case(b"AS") => {
                ("AS".into(), true)
            }
            TokenKind::Word if !after_dot && is_reserved(bytes) => {
                (String::from_utf8_lossy(bytes).to_ascii_lowercase(), true)
            }
            TokenKind::QuotedName => {
                let name = charsets.name(&literal::unquote_name(bytes))?;
                check_characters(&name)?;
                (quoted_name(&name), true)
            }
            TokenKind::Word => {
                let name = charsets.name(bytes)?;
                check_characters(&name)?;
                (name, true)
            }
            TokenKind::String => {
                (quoted_text(&charsets.name(&literal::string(bytes, escapes))?), true)
            }
            TokenKind::National => {
                let text = charsets.name(&literal::string(&bytes[1..], escapes))?;
                (format!("N{}", quoted_text(&text)), true)
            }
            TokenKind::Introduced => {
                let value = literal::string(bytes, escapes);
                match std::str::from_utf8(&value).ok().filter(|value| value.is_ascii()) {
                    Some(value) => (quoted_text(value), true),
                    None => {
                        let hex: String = value.iter().map(|b| format!("{b:02X}")).collect();
                        (format!("x'{hex}'"), true)
                    }
                }
            }
            TokenKind::Symbol => (charsets.name(bytes)?, false),
            _ => (charsets.name(bytes)?, true),
        })
    }
}

/// The name of a column with its table; None if its table has no name.
fn column_text(scope: &Scope, at: (usize, usize)) -> Option<String> {
    let source = scope.named(at.0);
    if source.alias.is_empty() {
        return None;
    }
    let named_alike = scope.matching(None, Some(&source.alias)).count();
    let mut names = vec![&*source.alias, &*scope.column(at).name];
    if let (Some(schema), 2..) = (&source.schema, named_alike) {
        names.insert(0, schema);
    }
    Some(names.into_iter().map(quoted_name).collect::<Vec<_>>().join("."))
}
