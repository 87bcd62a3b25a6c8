//! What the parser notes of a text that is kept: the places whose meaning depends on the SQL mode,
//! and how they are written so that it does not.
//!
//! | text | mode | kept as |
//! |---|---|---|
//! | `a \|\| b` | PIPES_AS_CONCAT | `concat(a,b)` |
//! | `a \|\| b` | | `a or b` |
//! | `NOT a` | with HIGH_NOT_PRECEDENCE and without | `(not (a))` |
//! | REAL | REAL_AS_FLOAT | `float` |
//! | REAL | | `double` |
use super::ast::Span;
use super::lexer::Token;
use super::parser::{Parser, Place};
use crate::sql_mode::SqlMode;

/// A change of the text. Of the changes at one place, those of an inner expression come first in
/// the parser's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModeChange {
    /// In front of what begins here.
    Before(u32, &'static str),
    /// In the place of these bytes.
    Over(Span, &'static str),
    /// Behind what ends here.
    After(u32, &'static str),
}

impl Parser<'_> {
    /// From here on, the parser notes these places.
    pub(super) fn note_modes(&mut self) {
        self.mode_changes.get_or_insert_default();
    }
    fn note_change(&mut self, change: ModeChange) {
        if self.mode_changes.is_some() {
            self.charge(size_of::<ModeChange>());
        }
        if let Some(changes) = &mut self.mode_changes {
            changes.push(change);
        }
    }

    /// The token is kept as `text`.
    pub(super) fn kept_as(&mut self, token: Token, text: &'static str) {
        let span = Span { start: token.start, end: token.end };
        self.note_change(ModeChange::Over(span, text));
    }
    /// What the word REAL means.
    pub(super) fn real(&mut self, word: Token) -> &'static str {
        let (name, kept) = match self.mode.has(SqlMode::REAL_AS_FLOAT) {
            true => ("FLOAT", "float"),
            false => ("DOUBLE", "double"),
        };
        self.kept_as(word, kept);
        name
    }
    /// The NOT at `not` has the operand from `operand` to the cursor.
    pub(super) fn note_not(&mut self, not: Place, operand: Place) {
        let end = self.span_from(not).end;
        self.note_change(ModeChange::Before(not.start(), "("));
        self.note_change(ModeChange::Before(operand.start(), "("));
        self.note_change(ModeChange::After(end, "))"));
    }
    /// The operands from `first` to the cursor are the arguments of CONCAT.
    pub(super) fn note_concat(&mut self, first: Place) {
        let end = self.span_from(first).end;
        self.note_change(ModeChange::Before(first.start(), "concat("));
        self.note_change(ModeChange::After(end, ")"));
    }
}
