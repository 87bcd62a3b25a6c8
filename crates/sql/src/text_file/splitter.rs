//! Splits the bytes of a text file into rows and fields.
//!
//! **SPLIT-1** The rows do not depend on the pieces in which the bytes come. Where the bytes in
//! hand leave open how a row goes on, [`Splitter::next`] takes nothing of the row and asks for more
//! bytes; the caller then brings the row from its beginning.
//! **SPLIT-2** A field without escapes and doubled quotes is a range of the bytes. Other fields are
//! written to [`Fields::text`]. No field is allocated.
//! **SPLIT-3** Text that belongs to no row (skipped lines, the rest of a line behind its last
//! field, what comes before LINES STARTING BY) is consumed as it comes, so that it needs no memory
//! however long it is.
//!
//! What is read as what is MySQL's choice, and looks odd in places: the first of escape, line
//! terminator, quote and field terminator wins; a line terminator within quotes is a part of the
//! field, but in the rest of a line that has too many fields, quotes mean nothing; the last line
//! may lack its terminator, and if it has too many fields, nobody is told.
use super::TextFormat;

/// A field of a row: a range of the bytes, or of [`Fields::text`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    start: u32,
    end: u32,
    in_text: bool,
    is_null: bool,
}

/// The fields of rows, one row after the other.
#[derive(Default, Debug)]
pub struct Fields {
    pub list: Vec<Field>,
    text: Vec<u8>,
}

impl Fields {
    /// The bytes of a field; `None` is NULL. `bytes` are those that the splitter has read.
    #[inline]
    pub fn get<'b>(&'b self, field: Field, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let from = if field.in_text { &self.text[..] } else { bytes };
        (!field.is_null).then(|| &from[field.start as usize..field.end as usize])
    }
    pub fn clear(&mut self) {
        self.list.clear();
        self.text.clear();
    }
    pub fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Field>() + self.text.capacity()
    }
    /// Frees what is larger than `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        self.list.shrink_to(bytes / size_of::<Field>());
        self.text.shrink_to(bytes);
    }
}

/// How a row's fields are told apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Each row has this many fields, which a terminator or quotes end.
    Fields(usize),
    /// The widths of the fields, in bytes. The last fields of a row may be missing.
    Widths(Box<[usize]>),
}
impl Layout {
    /// Whether rows have no bytes but their terminators.
    pub fn has_no_width(&self) -> bool {
        matches!(self, Layout::Widths(widths) if widths.iter().all(|width| *width == 0))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A row has been added to the fields. It may have fewer fields than were asked for.
    Row,
    /// The line of the last row goes on behind its last field.
    Cut,
    /// More bytes are needed. The caller keeps those from [`Splitter::at`] on.
    More,
    End,
}

/// How a field ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// More fields follow.
    Field,
    /// The line ends.
    Line,
    /// The file ends, within the field or behind it.
    File,
    /// The file ends before the field begins.
    NoField,
    /// The bytes in hand do not tell.
    Open,
}

/// Whether a text stands at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Yes,
    No,
    Open,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Before this many lines that are not read.
    Skipped(u64),
    /// Before a line: LINES STARTING BY is looked for.
    Line,
    /// Before the fields of a row.
    Row,
    /// Behind the last field of a row. `true`: something has been left out there.
    Rest(bool),
    End,
}

pub struct Splitter {
    format: TextFormat,
    layout: Layout,
    /// The first byte of the line terminator and of the field terminator.
    line: Option<u8>,
    field: Option<u8>,
    /// Whether a byte may end or change a field that is not enclosed.
    special: Box<[bool; 256]>,
    place: Place,
    /// The rows that are read and left out, where no line terminator tells the lines.
    skipped_rows: u64,
    /// The next byte to read, and the number of bytes of the last row.
    at: usize,
    row_bytes: usize,
    ended: bool,
}

impl Splitter {
    /// A splitter that leaves out the first `skip` lines.
    pub fn new(mut format: TextFormat, layout: Layout, skip: u64) -> Splitter {
        if format.lines_terminated == format.fields_terminated {
            format.lines_terminated = Box::default();
        }
        let line = format.lines_terminated.first().copied();
        let field = format.fields_terminated.first().copied();
        let mut special = Box::new([false; 256]);
        for byte in [line, field, format.escaped].into_iter().flatten() {
            special[usize::from(byte)] = true;
        }
        let (place, skipped_rows) = match skip {
            0 => (Place::Line, 0),
            _ if line.is_some() => (Place::Skipped(skip), 0),
            _ => (Place::Line, skip),
        };
        Splitter {
            format,
            layout,
            line,
            field,
            special,
            place,
            skipped_rows,
            at: 0,
            row_bytes: 0,
            ended: false,
        }
    }

    /// The place, in the bytes, behind what has been read.
    pub fn at(&self) -> usize {
        self.at
    }
    /// The bytes of the last row, with its terminators.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }
    /// The caller has dropped the bytes before [`Splitter::at`].
    pub fn dropped(&mut self) {
        self.at = 0;
    }

    /// Reads on. `whole` says that no bytes follow those in hand.
    pub fn next(&mut self, bytes: &[u8], whole: bool, fields: &mut Fields) -> Step {
        loop {
            let step = match self.place {
                Place::End => return Step::End,
                Place::Skipped(lines) => {
                    let next = if lines > 1 { Place::Skipped(lines - 1) } else { Place::Line };
                    self.rest(bytes, whole, next).map(|_| None)
                }
                Place::Line => self.line_start(bytes, whole).map(|()| None),
                Place::Row => self.row(bytes, whole, fields),
                Place::Rest(_) => self
                    .rest(bytes, whole, Place::Line)
                    .map(|cut| if cut { Some(Step::Cut) } else { None }),
            };
            match step {
                Ok(None) => {}
                Ok(Some(step)) | Err(step) => return step,
            }
        }
    }

    /// Ends the reading.
    fn end<T>(&mut self, bytes: &[u8]) -> Result<T, Step> {
        (self.place, self.at) = (Place::End, bytes.len());
        Err(Step::End)
    }

    /// Consumes the bytes up to the end of the line. Returns whether there were any.
    fn rest(&mut self, bytes: &[u8], whole: bool, next: Place) -> Result<bool, Step> {
        let mut cut = self.place == Place::Rest(true);
        if self.ended {
            return self.end(bytes);
        }
        let Some(line) = self.line else {
            self.place = next;
            return Ok(cut);
        };
        while let Some(&byte) = bytes.get(self.at) {
            let mut step = 1;
            if Some(byte) == self.format.escaped {
                if self.at + 1 == bytes.len() {
                    break;
                }
                step = 2;
            } else if byte == line {
                match stands(&self.format.lines_terminated, bytes, self.at, whole) {
                    Found::Yes => {
                        self.at += self.format.lines_terminated.len();
                        self.place = next;
                        return Ok(cut);
                    }
                    Found::Open => break,
                    Found::No => {}
                }
            }
            self.at += step;
            cut = true;
        }
        if whole {
            return self.end(bytes);
        }
        if matches!(self.place, Place::Rest(_)) {
            self.place = Place::Rest(cut);
        }
        Err(Step::More)
    }

    /// Consumes the bytes up to the text with which the line's fields begin.
    fn line_start(&mut self, bytes: &[u8], whole: bool) -> Result<(), Step> {
        if self.ended {
            return self.end(bytes);
        }
        let start = &self.format.lines_starting;
        if let Some(first) = start.first() {
            loop {
                let Some(&byte) = bytes.get(self.at) else {
                    return if whole { self.end(bytes) } else { Err(Step::More) };
                };
                if byte == *first {
                    match stands(start, bytes, self.at, whole) {
                        Found::Yes => break,
                        Found::Open => return Err(Step::More),
                        Found::No => {}
                    }
                }
                self.at += 1;
            }
            self.at += start.len();
        }
        self.place = Place::Row;
        Ok(())
    }

    /// Reads a row.
    fn row(&mut self, bytes: &[u8], whole: bool, to: &mut Fields) -> Result<Option<Step>, Step> {
        let (list, text) = (to.list.len(), to.text.len());
        let mut at = self.at;
        let end = match &self.layout {
            Layout::Fields(count) => {
                let mut end = End::Field;
                for _ in 0..*count {
                    end = self.field(bytes, &mut at, whole, to);
                    if end != End::Field {
                        break;
                    }
                }
                end
            }
            Layout::Widths(_) => self.fixed(bytes, &mut at, whole, to),
        };
        if end == End::Open {
            to.list.truncate(list);
            to.text.truncate(text);
            return Err(Step::More);
        }
        let read = to.list.len() > list;
        self.ended = matches!(end, End::File | End::NoField);
        // Rows of no width would never end, unless each takes the rest of its line.
        if !read && (self.ended || at == self.at && self.line.is_none()) {
            return self.end(bytes);
        }
        (self.at, self.row_bytes) = (at, at - self.at);
        self.place = if end == End::Field { Place::Rest(false) } else { Place::Line };
        if self.skipped_rows > 0 {
            self.skipped_rows -= 1;
            to.list.truncate(list);
            to.text.truncate(text);
            return Ok(None);
        }
        Ok(Some(Step::Row))
    }

    /// Reads a field that begins at `at`, and moves `at` behind its terminator.
    #[inline]
    fn field(&self, bytes: &[u8], at: &mut usize, whole: bool, to: &mut Fields) -> End {
        let start = *at;
        let Some(&first) = bytes.get(start) else {
            return if whole { End::NoField } else { End::Open };
        };
        if Some(first) == self.format.enclosed {
            return self.enclosed(bytes, at, whole, to);
        }
        let mut p = start;
        loop {
            while let Some(&byte) = bytes.get(p)
                && !self.special[usize::from(byte)]
            {
                p += 1;
            }
            let Some(&byte) = bytes.get(p) else {
                if !whole {
                    return End::Open;
                }
                self.add(bytes, start, p, to);
                *at = p;
                return End::File;
            };
            if Some(byte) == self.format.escaped {
                return self.rewritten(bytes, at, whole, to);
            }
            match self.terminator(byte, bytes, p, whole) {
                Some((End::Open, _)) => return End::Open,
                Some((end, len)) => {
                    self.add(bytes, start, p, to);
                    *at = p + len;
                    return end;
                }
                None => p += 1,
            }
        }
    }

    /// The terminator that stands at `p`, where `byte` is, and its length.
    #[inline]
    fn terminator(&self, byte: u8, bytes: &[u8], p: usize, whole: bool) -> Option<(End, usize)> {
        let terminators = [
            (self.line, &self.format.lines_terminated, End::Line),
            (self.field, &self.format.fields_terminated, End::Field),
        ];
        for (first, text, end) in terminators {
            if first == Some(byte) {
                match stands(text, bytes, p, whole) {
                    Found::Yes => return Some((end, text.len())),
                    Found::Open => return Some((End::Open, 0)),
                    Found::No => {}
                }
            }
        }
        None
    }

    /// Adds a field that is not enclosed and has no escapes.
    #[inline]
    fn add(&self, bytes: &[u8], start: usize, end: usize, to: &mut Fields) {
        let is_null = self.format.enclosed.is_some() && &bytes[start..end] == b"NULL";
        to.list.push(Field { start: start as u32, end: end as u32, in_text: false, is_null });
    }

    /// Reads a field that begins with a quote.
    fn enclosed(&self, bytes: &[u8], at: &mut usize, whole: bool, to: &mut Fields) -> End {
        let start = *at + 1;
        let quote = self.format.enclosed;
        let ends = |byte: u8| Some(byte) == quote || Some(byte) == self.format.escaped;
        let Some(len) = bytes[start..].iter().position(|byte| ends(*byte)) else {
            return if whole { self.rewritten(bytes, at, whole, to) } else { End::Open };
        };
        let p = start + len;
        if Some(bytes[p]) != quote || self.format.escaped == quote {
            return self.rewritten(bytes, at, whole, to);
        }
        let (end, after) = match bytes.get(p + 1) {
            None if whole => (End::Line, p + 1),
            None => return End::Open,
            Some(&byte) if Some(byte) == quote => return self.rewritten(bytes, at, whole, to),
            Some(&byte) => match self.terminator(byte, bytes, p + 1, whole) {
                Some((End::Open, _)) => return End::Open,
                Some((end, len)) => (end, p + 1 + len),
                None => return self.rewritten(bytes, at, whole, to),
            },
        };
        let field = Field { start: start as u32, end: p as u32, in_text: false, is_null: false };
        to.list.push(field);
        *at = after;
        end
    }

    /// Reads a field that has escapes or doubled quotes, or quotes that do not end it.
    fn rewritten(&self, bytes: &[u8], at: &mut usize, whole: bool, to: &mut Fields) -> End {
        let (quote, escape) = (self.format.enclosed, self.format.escaped);
        let enclosed = quote.filter(|quote| bytes.get(*at) == Some(quote));
        let start = to.text.len();
        let mut p = *at;
        // If the file ends before the closing quote, the opening quote is a part of the field.
        p += usize::from(enclosed.is_some());
        to.text.extend(enclosed);
        let mut has_null = false;
        let (end, closed) = loop {
            let Some(&byte) = bytes.get(p) else {
                if !whole {
                    return End::Open;
                }
                break (End::File, false);
            };
            if Some(byte) == escape {
                match bytes.get(p + 1) {
                    None if !whole => return End::Open,
                    None => {
                        to.text.push(byte);
                        p += 1;
                        break (End::File, false);
                    }
                    // A quote that is the escape, too, escapes only itself.
                    Some(&next) if escape != quote || next == byte => {
                        has_null |= next == b'N';
                        to.text.push(unescaped(next));
                        p += 2;
                        continue;
                    }
                    Some(_) => {}
                }
            }
            if enclosed.is_none() {
                match self.terminator(byte, bytes, p, whole) {
                    Some((End::Open, _)) => return End::Open,
                    Some((end, len)) => {
                        p += len;
                        break (end, false);
                    }
                    None => {}
                }
            } else if Some(byte) == quote {
                match bytes.get(p + 1) {
                    None if !whole => return End::Open,
                    None => {
                        p += 1;
                        break (End::Line, true);
                    }
                    Some(&next) if next == byte => {
                        to.text.push(byte);
                        p += 2;
                        continue;
                    }
                    Some(&next) => match self.terminator(next, bytes, p + 1, whole) {
                        Some((End::Open, _)) => return End::Open,
                        Some((end, len)) => {
                            p += 1 + len;
                            break (end, true);
                        }
                        None => {}
                    },
                }
            }
            to.text.push(byte);
            p += 1;
        };
        let from = start + usize::from(closed);
        let value = &to.text[from..];
        let is_null =
            value.len() == 1 && has_null || !closed && quote.is_some() && value == b"NULL";
        let (start, end_of_text) = (from as u32, to.text.len() as u32);
        to.list.push(Field { start, end: end_of_text, in_text: true, is_null });
        *at = p;
        end
    }

    /// Reads the row of a file whose fields have fixed widths.
    fn fixed(&self, bytes: &[u8], at: &mut usize, whole: bool, to: &mut Fields) -> End {
        let Layout::Widths(widths) = &self.layout else { return End::NoField };
        let width = widths.iter().fold(0, |sum: usize, w| sum.saturating_add(*w));
        let start = to.text.len();
        let mut p = *at;
        let end = loop {
            if to.text.len() - start >= width {
                break End::Field;
            }
            let Some(&byte) = bytes.get(p) else {
                if !whole {
                    return End::Open;
                }
                break End::File;
            };
            if Some(byte) == self.format.escaped {
                match bytes.get(p + 1) {
                    None if !whole => return End::Open,
                    None => {
                        to.text.push(byte);
                        p += 1;
                        break End::File;
                    }
                    Some(&next) => {
                        to.text.push(unescaped(next));
                        p += 2;
                        continue;
                    }
                }
            }
            if Some(byte) == self.line {
                match stands(&self.format.lines_terminated, bytes, p, whole) {
                    Found::Open => return End::Open,
                    Found::Yes => {
                        p += self.format.lines_terminated.len();
                        break End::Line;
                    }
                    Found::No => {}
                }
            }
            to.text.push(byte);
            p += 1;
        };
        if end == End::File && to.text.len() == start {
            return End::NoField;
        }
        let (mut from, row_end) = (start, to.text.len());
        for width in widths {
            if from == row_end {
                break;
            }
            let until = from.saturating_add(*width).min(row_end);
            let (start, end) = (from as u32, until as u32);
            to.list.push(Field { start, end, in_text: true, is_null: false });
            from = until;
        }
        *at = p;
        end
    }
}

/// The character that an escaped character stands for.
fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'0' => 0,
        b'Z' => 26,
        other => other,
    }
}

/// Whether `text` stands at `at`, where its first byte is.
#[inline]
fn stands(text: &[u8], bytes: &[u8], at: usize, whole: bool) -> Found {
    if text.len() == 1 {
        return Found::Yes;
    }
    let there = &bytes[at..];
    if there.len() >= text.len() {
        return if there.starts_with(text) { Found::Yes } else { Found::No };
    }
    if text.starts_with(there) && !whole { Found::Open } else { Found::No }
}
