//! The functions REGEXP_LIKE(), REGEXP_INSTR(), REGEXP_SUBSTR() and REGEXP_REPLACE().
use super::super::Eval;
use super::super::function::no_common_charset;
use super::replacement::{self, Replacement};
use super::{Compiled, MatchType};
use crate::bind::collation_mix::collation_of;
use crate::error::{Result, SqlError};
use crate::exec::env::Env;
use crate::exec::pace::{BYTES_PER_STEP, LONG};
use crate::plan::{Expr, ExprType, Function};
use redolith_types::{Charset, Collation, Value};
use std::borrow::Cow;
use std::ops::Range;

/// A search for one match takes at least as long as this many steps of an evaluation.
const STEPS_PER_MATCH: usize = 4;
/// After a search in a text that is long, a statement looks whether it has been ended.
const MOST_STEPS: usize = 1024;

impl<'v> Eval<'v, '_, '_> {
    pub(in super::super) fn regexp(
        &mut self,
        collation: Collation,
        sides: &'v [Expr],
        how: MatchType,
    ) -> Result<Option<bool>> {
        let (text, pattern) = (self.eval(&sides[0])?, self.eval(&sides[1])?);
        if text.is_null() || pattern.is_null() {
            return Ok(None);
        }
        let charset = charset_of(collation);
        let (text, pattern) = (
            self.string_in(&sides[0], &text, charset),
            self.string_in(&sides[1], &pattern, charset),
        );
        let mut compiled = self.compiled(&pattern, collation, how)?;
        let searched = compiled.searched(&text);
        self.charge_copy(&searched)?;
        let found = compiled.is_match(&searched, &mut || self.env.look())?;
        self.env.patterns.keep(compiled);
        Ok(Some(found))
    }
    /// The pattern, compiled. Usually the rows of a statement have the same few.
    fn compiled(
        &mut self,
        pattern: &[u8],
        collation: Collation,
        how: MatchType,
    ) -> Result<Box<Compiled>> {
        match self.env.patterns.take(pattern, collation, how) {
            Some(kept) => Ok(kept),
            None => {
                // Many steps: a statement that compiles a pattern for each row is killed too.
                self.env.look()?;
                Ok(Box::new(Compiled::new(pattern, collation, how, || self.env.be_heavy())?))
            }
        }
    }

    /// The match type that an argument has. None if it is NULL.
    fn match_type(
        &mut self,
        letters: Option<&'v Expr>,
        function: Function,
    ) -> Result<Option<MatchType>> {
        let Some(letters) = letters else { return Ok(Some(MatchType::default())) };
        let Some(letters) = self.arg_bytes(letters)? else { return Ok(None) };
        MatchType::parse(&letters)
            .map(Some)
            .ok_or_else(|| SqlError::wrong_arguments(function.name().to_ascii_lowercase()))
    }
    /// The value of an argument that is a number, or `default` if there is no such argument.
    fn number_or(&mut self, arg: Option<&'v Expr>, default: i64) -> Result<Option<i64>> {
        arg.map_or(Ok(Some(default)), |arg| self.arg_int(arg))
    }

    /// Charges for a text that was made for a search, if it is long.
    fn charge_copy(&mut self, searched: &Cow<'_, [u8]>) -> Result<()> {
        match searched {
            Cow::Owned(made) if made.len() >= LONG => self.env.charge(made.len()),
            _ => Ok(()),
        }
    }

    /// REGEXP_LIKE(text, pattern [, match type]).
    pub(in super::super) fn regexp_like(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let Some(how) = self.match_type(args.get(2), Function::RegexpLike)? else {
            return Ok(Value::Null);
        };
        let collation = collation_of_search(&args[..2], "REGEXP_LIKE")?;
        Ok(self
            .regexp(collation, &args[..2], how)?
            .map_or(Value::Null, |found| Value::Int(found.into())))
    }

    /// REGEXP_INSTR(text, pattern [, position [, occurrence [, which end [, match type]]]]),
    /// REGEXP_SUBSTR(text, pattern [, position [, occurrence [, match type]]]) and
    /// REGEXP_REPLACE(text, pattern, replacement [, position [, occurrence [, match type]]]).
    pub(in super::super) fn regexp_search(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let name = function.name().to_ascii_lowercase();
        let first = if function == Function::RegexpReplace { 3 } else { 2 };
        let letters = if function == Function::RegexpSubstr { 4 } else { 5 };
        // Without a number, all matches are replaced.
        let which = i64::from(function != Function::RegexpReplace);
        let (Some(position), Some(occurrence)) =
            (self.number_or(args.get(first), 1)?, self.number_or(args.get(first + 1), which)?)
        else {
            return Ok(Value::Null);
        };
        let mut ends = false;
        if function == Function::RegexpInstr && args.len() > 4 {
            ends = match self.arg_int(&args[4])? {
                None => return Ok(Value::Null),
                Some(0) => false,
                Some(1) => true,
                Some(_) => {
                    let what = format!("{name}: return_option must be 1 or 0.");
                    return Err(SqlError::wrong_arguments(what));
                }
            };
        }
        let Some(how) = self.match_type(args.get(letters), function)? else {
            return Ok(Value::Null);
        };
        if position < 1 && function != Function::RegexpInstr {
            return Err(SqlError::wrong_native_parameters(name));
        }
        let collation = collation_of_search(&args[..2], function.name())?;
        let charset = charset_of(collation);
        let (text, pattern) = (self.eval(&args[0])?, self.eval(&args[1])?);
        let with = match function {
            Function::RegexpReplace => self.arg_text(&args[2], charset)?,
            _ => Some(Cow::Borrowed(&b""[..])),
        };
        let (false, false, Some(with)) = (text.is_null(), pattern.is_null(), with) else {
            return Ok(Value::Null);
        };
        let text = self.string_in(&args[0], &text, charset);
        let pattern = self.string_in(&args[1], &pattern, charset);
        let mut compiled = self.compiled(&pattern, collation, how)?;
        let from = start(charset, &text, position)?;
        let searched = compiled.searched(&text);
        self.charge_copy(&searched)?;
        let mut found = None;
        let mut made = None;
        match function {
            Function::RegexpReplace => {
                let texts = (&text[..], &searched[..]);
                made = Some(replaced(self.env, &mut compiled, texts, &with, occurrence, from)?);
            }
            _ => found = nth(self.env, &mut compiled, &searched, from, occurrence)?,
        }
        self.env.patterns.keep(compiled);
        if function == Function::RegexpInstr {
            let place = found.map(|found| if ends { found.end } else { found.start });
            let position = place.map_or(0, |place| charset.char_count(&text[..place]) as i64 + 1);
            return Ok(Value::Int(position));
        }
        let made = made.or_else(|| found.map(|found| text[found].to_vec()));
        let Some(made) = made else { return Ok(Value::Null) };
        // The search was in UTF-8, the result is in the character set of text and pattern.
        let to = self.charset_of(node);
        if charset == to || charset == Charset::Binary || made.is_ascii() {
            return Ok(Value::owned(made));
        }
        match charset.convert(&made, to) {
            Ok(text) => Ok(Value::owned(text.into_owned())),
            Err(_) => Err(no_common_charset(function)),
        }
    }
}

/// The collation in which text and pattern meet.
fn collation_of_search(sides: &[Expr], function: &'static str) -> Result<Collation> {
    let texts: Vec<&ExprType> =
        sides.iter().map(|side| &side.ty).filter(|ty| ty.kind.is_string()).collect();
    if texts.is_empty() {
        return Ok(Collation::Utf8mb4GeneralCi);
    }
    Ok(collation_of(&texts, function)?.0)
}
/// The character set in which is searched.
fn charset_of(collation: Collation) -> Charset {
    if collation == Collation::Binary { Charset::Binary } else { Charset::Utf8mb4 }
}

/// The byte at which a search from this character on, from 1, begins. The end of the text is such a
/// place, too.
fn start(charset: Charset, text: &[u8], position: i64) -> Result<usize> {
    let skip = position.checked_sub(1).and_then(|skip| usize::try_from(skip).ok());
    let skip = skip.ok_or_else(SqlError::regexp_index)?;
    let at = charset.prefix_len(text, skip);
    if at == text.len() && charset.char_count(text) < skip {
        return Err(SqlError::regexp_index());
    }
    Ok(at)
}

/// Counts a search for a match in the rest of a text.
fn count(env: &mut Env<'_>, rest: usize) -> Result<()> {
    env.steps(STEPS_PER_MATCH + (rest / BYTES_PER_STEP).min(MOST_STEPS))
}

/// The match of this number, from 1, among those from a place on. A number below 1 is 1.
fn nth(
    env: &mut Env<'_>,
    compiled: &mut Compiled,
    text: &[u8],
    from: usize,
    occurrence: i64,
) -> Result<Option<Range<usize>>> {
    let mut found = compiled.find(text, from, &mut || env.look())?;
    let mut number = 1;
    while number < occurrence
        && let Some(before) = &found
    {
        let Some(next) = compiled.after(text, before) else { return Ok(None) };
        count(env, text.len() - next)?;
        found = compiled.find(text, next, &mut || env.look())?;
        number += 1;
    }
    Ok(found)
}

/// The text with other text for the match of this number, or for all matches if the number is 0.
/// The matches are those in the text to search.
fn replaced(
    env: &mut Env<'_>,
    compiled: &mut Compiled,
    (text, searched): (&[u8], &[u8]),
    with: &[u8],
    occurrence: i64,
    from: usize,
) -> Result<Vec<u8>> {
    let most = env.settings.max_allowed_packet;
    let Some(mut found) = nth(env, compiled, searched, from, occurrence)? else {
        return Ok(text.to_vec());
    };
    let special = with.iter().filter(|byte| matches!(byte, b'$' | b'\\')).count();
    env.steps(special)?;
    env.charge(special * replacement::REFERENCE_BYTES)?;
    let replacement = Replacement::parse(with, || compiled.groups())?;
    let (mut out, mut copied, mut charged) = (Vec::new(), 0, 0);
    loop {
        let threads = if replacement.groups.is_empty() {
            None
        } else {
            let stop = &mut || env.look();
            Some(compiled.groups()?.of_match(searched, &found, &replacement.groups, stop)?)
        };
        let more = (found.start - copied).saturating_add(replacement.len(&found, threads));
        if more > most.saturating_sub(out.len()) {
            return Err(SqlError::regexp_result_too_long());
        }
        out.extend_from_slice(&text[copied..found.start]);
        replacement.write(text, &found, threads, &mut out);
        copied = found.end;
        if out.capacity() > charged + LONG {
            env.charge(out.capacity() - charged)?;
            charged = out.capacity();
        }
        let next = compiled.after(searched, &found).filter(|_| occurrence == 0);
        let Some(next) = next else { break };
        count(env, text.len() - next)?;
        match compiled.find(searched, next, &mut || env.look())? {
            Some(another) => found = another,
            None => break,
        }
    }
    if text.len() - copied > most.saturating_sub(out.len()) {
        return Err(SqlError::regexp_result_too_long());
    }
    out.extend_from_slice(&text[copied..]);
    Ok(out)
}
