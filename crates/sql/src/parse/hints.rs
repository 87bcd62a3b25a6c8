//! Optimizer hints: `/*+ .. */` directly after SELECT, INSERT, REPLACE, UPDATE or DELETE.
//!
//! The server obeys MAX_EXECUTION_TIME. It ignores MySQL's other hints with a warning. Text that is
//! no hint ends the reading of the comment with a warning, as in MySQL.
use super::Bounds;
use super::lexer::{Lexer, Token, TokenKind};
use crate::error::{Result, SqlError};
use crate::sql_mode::SqlMode;

/// The hints of a statement.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Hints {
    /// The time limit in milliseconds; 0 is the same as no hint.
    pub max_execution_time_ms: Option<u64>,
    /// Code and message of warnings, which SHOW WARNINGS shows after each run of the statement.
    pub warnings: Vec<(u16, String)>,
}

const TOKENS_PER_LOOK: u32 = 4096;
/// The most warnings that a statement's hints give: as many as `max_error_count` is where nobody
/// sets it. Those behind are neither worded nor kept.
const MOST_WARNINGS: usize = 1024;
/// The characters of the text that a warning shows, and the most bytes of a character.
const SHOWN_CHARS: usize = 80;
const MOST_BYTES: usize = 4;
const LIMIT: &str = "MAX_EXECUTION_TIME";
const NOT_TOP_LEVEL: &str =
    "MAX_EXECUTION_TIME hint is supported by top-level standalone SELECT statements only";
/// MySQL's hints that the server ignores.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "BKA", "NO_BKA", "BNL", "NO_BNL", "DERIVED_CONDITION_PUSHDOWN", "NO_DERIVED_CONDITION_PUSHDOWN",
    "GROUP_INDEX", "NO_GROUP_INDEX", "HASH_JOIN", "NO_HASH_JOIN", "INDEX", "NO_INDEX",
    "INDEX_MERGE", "NO_INDEX_MERGE", "JOIN_FIXED_ORDER", "JOIN_INDEX", "NO_JOIN_INDEX",
    "JOIN_ORDER", "JOIN_PREFIX", "JOIN_SUFFIX", "MERGE", "NO_MERGE", "MRR", "NO_MRR", "NO_ICP",
    "NO_RANGE_OPTIMIZATION", "ORDER_INDEX", "NO_ORDER_INDEX", "QB_NAME", "RESOURCE_GROUP",
    "SEMIJOIN", "NO_SEMIJOIN", "SKIP_SCAN", "NO_SKIP_SCAN", "SET_VAR", "SUBQUERY",
];

/// Reads the hints of the statement that begins at `start` and ends with the text. None: the
/// statement has no hints.
pub fn read(
    text: &[u8],
    start: usize,
    mode: SqlMode,
    bounds: Bounds<'_>,
) -> Result<Option<Box<Hints>>> {
    if memchr::memmem::find(&text[start..], b"/*+").is_none() {
        return Ok(None);
    }
    let mut reader = Reader { hints: Hints::default(), mode, text, counted: 0, line: 1 };
    let mut lexer = Lexer::at(text, start, mode);
    let mut word = lexer.next_token();
    // Parentheses and EXPLAIN with its options may stand before the first SELECT of a statement.
    const OPTIONS: [&str; 4] = ["ANALYZE", "FORMAT", "DESCRIBE", "DESC"];
    let (mut is_first, mut is_format) = (true, false);
    for count in 0u32.. {
        if count % TOKENS_PER_LOOK == TOKENS_PER_LOOK - 1 && bounds.is_killed() {
            return Err(SqlError::interrupted());
        }
        if word.kind == TokenKind::End {
            break;
        }
        let next = lexer.next_token();
        let is = |name: &str| {
            word.kind == TokenKind::Word && word.text(text).eq_ignore_ascii_case(name.as_bytes())
        };
        if is("SELECT") || is("INSERT") || is("REPLACE") || is("UPDATE") || is("DELETE") {
            let comment = text[word.end as usize..next.start as usize].trim_ascii_start();
            if let Some(inside) = comment.strip_prefix(b"/*+")
                && let Some(len) = memchr::memmem::find(inside, b"*/")
            {
                let start = next.start as usize - comment.len() + 3;
                reader.comment(start, start + len, is_first && is("SELECT"));
            }
        }
        let is_option = OPTIONS.iter().any(|name| is(name)) || is_format;
        is_format = is("FORMAT") || word.text(text) == b"=";
        is_first &= word.text(text) == b"(" || is("EXPLAIN") || is_option;
        word = next;
    }
    Ok(Some(Box::new(reader.hints)).filter(|h| **h != Hints::default()))
}

struct Reader<'t> {
    hints: Hints,
    mode: SqlMode,
    text: &'t [u8],
    /// The place up to which lines are counted, and its line.
    counted: usize,
    line: usize,
}

impl Reader<'_> {
    fn comment(&mut self, start: usize, end: usize, top_level: bool) {
        let mut lexer = Lexer::at(&self.text[..end], start, self.mode);
        loop {
            let name = lexer.next_token();
            if name.kind == TokenKind::End {
                return;
            }
            let is = |word: &str| {
                name.kind == TokenKind::Word
                    && name.text(self.text).eq_ignore_ascii_case(word.as_bytes())
            };
            let is_limit = is(LIMIT);
            let other = OTHERS.iter().find(|word| is(word));
            let known = is_limit || other.is_some();
            match (if known { self.parentheses(&mut lexer) } else { None }, other) {
                (Some(Some(number)), None) if number.kind == TokenKind::Integer => {
                    self.limit(number, top_level)
                }
                (Some(_), Some(word)) => self.warn(|_| {
                    let e = SqlError::unsupported(format!("the optimizer hint {word}"));
                    (e.code, e.message.into())
                }),
                _ => return self.no_hint(if known { lexer.next_token() } else { name }),
            }
        }
    }
    /// The token in parentheses, if it is the only one.
    fn parentheses(&self, lexer: &mut Lexer<'_>) -> Option<Option<Token>> {
        if lexer.next_token().text(self.text) != b"(" {
            return None;
        }
        let (mut first, mut count, mut depth) = (None, 0usize, 0usize);
        loop {
            let token = lexer.next_token();
            match token.text(self.text) {
                _ if token.kind == TokenKind::End => return None,
                b")" if depth == 0 => return Some(first.filter(|_| count == 1)),
                b")" => depth -= 1,
                b"(" => depth += 1,
                _ => {}
            }
            first.get_or_insert(token);
            count += 1;
        }
    }
    /// Adds a warning, if there is room for it.
    fn warn(&mut self, warning: impl FnOnce(&mut Reader<'_>) -> (u16, String)) {
        if self.hints.warnings.len() < MOST_WARNINGS {
            let warning = warning(self);
            self.hints.warnings.push(warning);
        }
    }
    fn limit(&mut self, number: Token, top_level: bool) {
        let number = std::str::from_utf8(number.text(self.text)).unwrap_or_default();
        let warning = match number.parse::<u32>() {
            Err(_) => (3124, "Unsupported MAX_EXECUTION_TIME".to_string()),
            Ok(_) if !top_level => (3125, NOT_TOP_LEVEL.to_string()),
            Ok(ms) if self.hints.max_execution_time_ms.is_some() => (
                3126,
                format!("Hint MAX_EXECUTION_TIME({ms})  is ignored as conflicting/duplicated"),
            ),
            Ok(ms) => return self.hints.max_execution_time_ms = Some(ms.into()),
        };
        self.warn(|_| warning);
    }
    fn no_hint(&mut self, at: Token) {
        self.warn(|reader| {
            let start = (at.start as usize).min(reader.text.len());
            let shown = &reader.text[start..];
            let shown = &shown[..shown.len().min(SHOWN_CHARS * MOST_BYTES)];
            let near: String = String::from_utf8_lossy(shown).chars().take(SHOWN_CHARS).collect();
            let line = reader.line_of(start);
            (1064, format!("Optimizer hint syntax error near '{near}' at line {line}"))
        });
    }
    /// The line of a place, which is not before those that were asked for earlier.
    fn line_of(&mut self, place: usize) -> usize {
        let behind = &self.text[self.counted.min(place)..place];
        self.line += memchr::memchr_iter(b'\n', behind).count();
        self.counted = place;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::charsets::TextCharsets;

    fn hints(text: &str) -> (Option<u64>, Vec<u16>) {
        let process = &*crate::processes::Processes::new().add("localhost", 0);
        let bounds = Bounds { memory: usize::MAX, process };
        let parsed = crate::parse::parse(
            text.as_bytes(),
            0..text.len(),
            None,
            SqlMode::default(),
            TextCharsets::UTF8,
            bounds,
        )
        .unwrap();
        let hints = parsed.hints.map_or(Hints::default(), |h| *h);
        (hints.max_execution_time_ms, hints.warnings.iter().map(|(code, _)| *code).collect())
    }

    #[test]
    fn the_time_of_a_select() {
        assert_eq!(hints("SELECT 1"), (None, vec![]));
        assert_eq!(hints("SELECT /*+ MAX_EXECUTION_TIME(10) */ 1"), (Some(10), vec![]));
        assert_eq!(
            hints("(select/*+max_execution_time(4294967295)*/ 1) union select 2"),
            (Some(4_294_967_295), vec![])
        );
        assert_eq!(hints("EXPLAIN SELECT /*+ MAX_EXECUTION_TIME(10) */ 1"), (Some(10), vec![]));
        assert_eq!(hints("SELECT /*+ MAX_EXECUTION_TIME(4294967296) */ 1"), (None, vec![3124]));
        assert_eq!(
            hints("SELECT /*+ MAX_EXECUTION_TIME(1) MAX_EXECUTION_TIME(2) */ 1"),
            (Some(1), vec![3126])
        );
        // Comments that are not hints, because of their place, or because they are in a string.
        assert_eq!(hints("SELECT 1 /*+ MAX_EXECUTION_TIME(10) */"), (None, vec![]));
        assert_eq!(hints("SELECT '/*+ MAX_EXECUTION_TIME(10) */'"), (None, vec![]));
    }

    /// Many wrong hints, and long ones, give few warnings, which are short.
    #[test]
    fn warnings_are_bounded() {
        let wrong = format!("SELECT /*+ {} */\n1\nUNION ", "é".repeat(1000));
        let text = wrong.repeat(MOST_WARNINGS + 100) + "SELECT 1";
        let process = &*crate::processes::Processes::new().add("localhost", 0);
        let bounds = Bounds { memory: usize::MAX, process };
        let found = read(text.as_bytes(), 0, SqlMode::default(), bounds);
        let warnings = found.unwrap().unwrap().warnings;
        assert_eq!(warnings.len(), MOST_WARNINGS);
        let line = 2 * (MOST_WARNINGS - 1) + 1;
        let near = "é".repeat(SHOWN_CHARS);
        let last = format!("Optimizer hint syntax error near '{near}' at line {line}");
        assert_eq!(warnings.last().unwrap(), &(1064, last));
        let text = format!("SELECT /*+ BKA({}) */ 1", "t,".repeat(100_000));
        assert_eq!(hints(&text), (None, vec![1235]));
    }

    #[test]
    fn others_and_other_places_are_warned_of() {
        assert_eq!(
            hints("SELECT 1 FROM (SELECT /*+ MAX_EXECUTION_TIME(10) */ 2) d"),
            (None, vec![3125])
        );
        assert_eq!(
            hints("SELECT 1 UNION SELECT /*+ MAX_EXECUTION_TIME(10) */ 2"),
            (None, vec![3125])
        );
        assert_eq!(
            hints("INSERT INTO t SELECT /*+ MAX_EXECUTION_TIME(10) */ 2"),
            (None, vec![3125])
        );
        assert_eq!(hints("DELETE /*+ MAX_EXECUTION_TIME(10) */ FROM t"), (None, vec![3125]));
        assert_eq!(
            hints("SELECT /*+ BKA(t1) JOIN_ORDER(@q t1, t2) MAX_EXECUTION_TIME(5) */ 1"),
            (Some(5), vec![1235, 1235])
        );
        for wrong in [
            "NO_SUCH(1) BKA()",
            "MAX_EXECUTION_TIME",
            "MAX_EXECUTION_TIME()",
            "MAX_EXECUTION_TIME('x')",
            "MAX_EXECUTION_TIME(1, 2)",
            "5",
            "BKA(t",
        ] {
            assert_eq!(hints(&format!("SELECT /*+ {wrong} */ 1")), (None, vec![1064]), "{wrong}");
        }
    }
}
