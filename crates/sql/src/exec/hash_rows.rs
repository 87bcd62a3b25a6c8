//! The rows of a source in a hash table, by the values that its join compares ([`HashLookup`]).
//!
//! **HASH-3** The rows that have the same hash are found in the order in which the source has them,
//! so a join has its rows in the order of nested loops.
//! **HASH-4** What a row takes in memory when all rows have gone to a temporary file is an
//! [`Entry`]. A row is read from the file when it is found. If the entries would take the statement
//! beyond half of its memory, they go to a file, too (HASH-5).
use super::ExecContext;
use super::env::Env;
use super::eval::{Eval, Row, Scope};
use super::hash_directory::Directory;
use super::loops::Current;
use super::probe_table::{Pushed, push_key};
use super::row_buffer::{read, write};
use super::rows::Kept;
use super::scan::{Scan, check_killed};
use crate::error::{Result, SqlError};
use crate::plan::{Expr, HashLookup};
use redolith_engine::temporary::TemporaryFile;
use redolith_types::Value;
use std::hash::{BuildHasher, Hasher};

/// The most bytes that are written to a file at a time.
const PIECE: usize = 1 << 20;
/// The bytes of a row beside its values: entries and chains, and what their growth leaves unused.
pub const ROW_BYTES: usize = 2 * size_of::<Entry>() + 2 * size_of::<u32>();
/// A row's columns are stored alone if they take so much less than the row.
const NARROW: usize = 2;
/// The end of a chain of entries.
const NONE: u32 = u32::MAX;
/// The entries for which a table has room at first.
const FIRST_ENTRIES: usize = 64;
/// So few entries stay in memory, however much of it the statement holds.
const FEW_ENTRIES: usize = 1024;
/// The number of entries that are put into chains between two looks at the clock, and the steps
/// that they count as.
const ENTRIES_PER_LOOK: usize = 256;

/// The bytes that are read at a time where a row follows the row before it in the file.
const READ_AHEAD: usize = 64 << 10;

fn too_many() -> SqlError {
    SqlError::new(1038, "Out of memory: too many rows for a hash join")
}
fn piece(env: &Env<'_>) -> usize {
    PIECE.min(env.spill_at() / 2)
}

/// A row of the source.
#[derive(Clone, Copy, Default)]
pub struct Entry {
    pub hash: u64,
    /// Where the row is: a place among the bytes, or the number of a kept row.
    pub place: u64,
    /// The row's bytes.
    pub len: u32,
    /// The next entry with a hash that begins in the same place.
    pub next: u32,
}

/// How the rows are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As the payload of a table's row.
    Payload,
    /// As the values of those columns of a table's row that the statement reads.
    Columns,
    /// In the [`Kept`] rows of the source.
    Kept,
    /// As values, because the kept rows are in a file.
    Values,
}

/// The rows that are left to be looked at.
#[derive(Clone, Copy)]
enum Left {
    /// The entries of a chain that have this hash; then those of `undecided`.
    Chain { entry: u32, hash: u64 },
    /// The entries of the directory from this one on that have this hash; then those without one.
    Run { entry: usize, hash: u64 },
    /// The entries of `undecided` from this one on.
    Undecided(usize),
    /// All entries from this one on: bytes do not decide what the value is equal to.
    All(usize),
}

pub struct HashRows<'p> {
    lookup: &'p HashLookup,
    tables: usize,
    is_made: bool,
    form: Form,
    entries: Vec<Entry>,
    /// The first entry of each chain. The number of chains is a power of two.
    heads: Vec<u32>,
    /// The entries whose values bytes do not decide.
    undecided: Vec<u32>,
    /// In the place of all these: the entries in a file.
    directory: Option<Box<Directory>>,
    /// The bytes of the rows behind those in the file.
    bytes: Vec<u8>,
    file: Option<TemporaryFile>,
    hasher: hashbrown::DefaultHashBuilder,
    /// The bytes charged.
    counted: usize,
    left: Left,
    current: Entry,
    /// Bytes of the file, which begin at `read_at`, with the current row among them.
    read: Vec<u8>,
    read_at: u64,
    /// The current row, if it is stored as values.
    values: Vec<Value<'static>>,
    /// The places of the stored values.
    columns: Vec<u16>,
    key: Vec<u8>,
}

impl<'p> HashRows<'p> {
    /// `tables` is the number of hash tables that share the memory of the statement.
    pub fn new(lookup: &'p HashLookup, tables: usize) -> HashRows<'p> {
        HashRows {
            lookup,
            tables,
            is_made: false,
            form: Form::Payload,
            entries: Vec::new(),
            heads: Vec::new(),
            undecided: Vec::new(),
            directory: None,
            bytes: Vec::new(),
            file: None,
            hasher: hashbrown::DefaultHashBuilder::default(),
            counted: 0,
            left: Left::Undecided(0),
            current: Entry::default(),
            read: Vec::new(),
            read_at: 0,
            values: Vec::new(),
            columns: Vec::new(),
            key: Vec::new(),
        }
    }
    pub fn is_made(&self) -> bool {
        self.is_made
    }
    /// The number of rows in the table.
    pub fn rows(&self) -> u64 {
        self.len() as u64
    }
    fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.heads.capacity() * size_of::<u32>()
            + self.undecided.capacity() * size_of::<u32>()
            + self.bytes.capacity()
            + self.directory.as_ref().map_or(0, |directory| directory.memory())
    }
    /// Charges for what the table holds, and for `more` bytes.
    fn charge(&mut self, more: usize, cx: &mut ExecContext<'_>) -> Result<()> {
        let now = self.memory() + more;
        cx.env.keep(&mut self.counted, now)
    }

    /// Makes the table of the rows of a scan. The source is number `depth`; `at` has what the query
    /// takes from outside.
    pub async fn make_of_scan(
        &mut self,
        scan: &mut Scan<'_>,
        depth: usize,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        scan.start(at.given(), &mut cx.env)?;
        let mut first = true;
        loop {
            let handlers = &mut cx.scratch.handlers;
            let more = scan.advance_at_hand(cx.trx, handlers)
                || scan.advance(cx.trx, handlers, &mut cx.env).await?;
            if !more {
                break;
            }
            cx.env.step()?;
            check_killed(&cx.env)?;
            match self.key_of(scan.row(), scan.rest(), depth, at, &mut cx.env)? {
                Some(hash) => {
                    let place = self.place();
                    if std::mem::take(&mut first) {
                        self.choose_form(scan);
                    }
                    self.store(scan);
                    self.push(hash, place, (self.place() - place) as usize, cx)?;
                }
                None => scan.refuse(cx.trx),
            }
            self.spill(cx).await?;
        }
        let (def, columns) = scan.read_columns();
        self.columns = columns.to_vec();
        self.values = vec![Value::Null; def.columns.len()];
        self.finish(cx).await
    }

    /// Rows of which the statement reads a small part are stored as that part.
    fn choose_form(&mut self, scan: &Scan<'_>) {
        self.form = Form::Columns;
        self.store(scan);
        if self.bytes.len() * NARROW > scan.payload().len() {
            self.form = Form::Payload;
        }
        self.bytes.clear();
    }
    fn store(&mut self, scan: &Scan<'_>) {
        if self.form == Form::Payload {
            return self.bytes.extend_from_slice(scan.payload());
        }
        let (row, (_, columns)) = (scan.row(), scan.read_columns());
        columns.iter().for_each(|c| write(&row.stored(*c as usize), &mut self.bytes));
    }

    /// Makes the table of kept rows.
    pub async fn make_of_kept(
        &mut self,
        kept: &mut Kept,
        depth: usize,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let own = self.lookup.own.as_ref();
        self.form = if kept.is_in_file() { Form::Values } else { Form::Kept };
        kept.rewind();
        let mut n = 0;
        while kept.advance()? {
            cx.env.step()?;
            check_killed(&cx.env)?;
            let row = Row::Values(kept.current());
            if let Some(hash) = self.key_of(row, own.as_slice(), depth, at, &mut cx.env)? {
                match self.form {
                    Form::Kept => self.push(hash, n, 0, cx)?,
                    _ => {
                        let place = self.place();
                        kept.current().iter().for_each(|v| write(v, &mut self.bytes));
                        self.push(hash, place, (self.place() - place) as usize, cx)?;
                    }
                }
            }
            n += 1;
            if n.is_multiple_of(ENTRIES_PER_LOOK as u64) {
                cx.trx.give_way().await;
            }
            self.spill(cx).await?;
        }
        let width = kept.width();
        self.columns = (0..width as u16).collect();
        self.values = vec![Value::Null; width];
        self.finish(cx).await
    }

    /// The hash of a row of the source. The outer None says that the row fails a condition of
    /// `own`, or that no row before it matches; the inner None that bytes do not decide.
    #[allow(clippy::option_option)]
    fn key_of(
        &mut self,
        row: Row<'_>,
        own: &[&Expr],
        depth: usize,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> Result<Option<Option<u64>>> {
        let mut sources: Current<'_> = smallvec::smallvec![Row::Nulls; depth];
        sources.push(row);
        let mut eval = Eval::new(Scope { sources: &sources, ..at }, env);
        for condition in own {
            if eval.truth(condition)? != Some(true) {
                return Ok(None);
            }
        }
        self.key.clear();
        let mut decided = true;
        for key in &self.lookup.keys {
            match push_key(&eval.eval(&key.own)?, key.by, &mut self.key) {
                Pushed::Key => {}
                // NULL is equal to nothing.
                Pushed::Null => return Ok(None),
                Pushed::Other => decided = false,
            }
        }
        Ok(Some(decided.then(|| self.hash())))
    }
    fn hash(&self) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(&self.key);
        hasher.finish()
    }

    /// The place behind all bytes.
    fn place(&self) -> u64 {
        self.file.as_ref().map_or(0, TemporaryFile::size) + self.bytes.len() as u64
    }
    /// Notes a row that is stored already.
    fn push(
        &mut self,
        hash: Option<u64>,
        place: u64,
        len: usize,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if let Some(directory) = &mut self.directory {
            let len = u32::try_from(len).map_err(|_| too_many())?;
            let entry = Entry { hash: hash.unwrap_or(0), place, len, next: NONE };
            directory.push(hash.is_some(), &entry, &mut cx.env)?;
            return self.charge(0, cx);
        }
        let n = u32::try_from(self.entries.len()).ok().filter(|n| *n < NONE);
        let n = n.ok_or_else(too_many)?;
        let len = u32::try_from(len).map_err(|_| too_many())?;
        if hash.is_none() {
            self.undecided.push(n);
        }
        if self.entries.len() == self.entries.capacity() {
            // What is about to be allocated is charged first.
            let more = self.entries.capacity().max(FIRST_ENTRIES);
            self.charge(more * size_of::<Entry>(), cx)?;
            self.entries.reserve_exact(more);
        }
        self.entries.push(Entry { hash: hash.unwrap_or(0), place, len, next: NONE });
        self.charge(0, cx)
    }

    /// Writes the bytes and the entries to files if they have become many.
    async fn spill(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        if let Some(directory) = &mut self.directory {
            directory.spill(cx).await?;
        } else if self.entries.len() == self.entries.capacity() && self.outgrows(&cx.env) {
            Box::pin(self.make_directory(cx)).await?;
        }
        // A quarter of the statement's memory for all tables.
        let most = match self.file {
            Some(_) => piece(&cx.env),
            None => 2 * cx.env.spill_at() / self.tables.max(1),
        };
        if self.bytes.len() < most {
            return Ok(());
        }
        self.write_out(cx).await
    }
    /// Whether room for more entries, and the chains, would take the statement beyond half of its
    /// memory.
    fn outgrows(&self, env: &Env<'_>) -> bool {
        let more = self.entries.capacity();
        let bytes = more * size_of::<Entry>() + 2 * more * size_of::<u32>();
        more >= FEW_ENTRIES && env.is_beyond(4, bytes) && env.temporary().is_some()
    }
    /// Moves the entries to a directory (HASH-5).
    async fn make_directory(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        let mut directory = Box::new(Directory::new(cx)?);
        let mut undecided = std::mem::take(&mut self.undecided).into_iter().peekable();
        for (n, entry) in std::mem::take(&mut self.entries).into_iter().enumerate() {
            let is_decided = undecided.next_if_eq(&(n as u32)).is_none();
            directory.push(is_decided, &entry, &mut cx.env)?;
            directory.spill(cx).await?;
            if n.is_multiple_of(ENTRIES_PER_LOOK) {
                cx.env.steps(ENTRIES_PER_LOOK)?;
                cx.trx.give_way().await;
            }
        }
        self.directory = Some(directory);
        self.charge(0, cx)
    }
    async fn write_out(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        let Some(space) = cx.env.temporary() else { return Ok(()) };
        cx.env.leave_worker();
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(space.create(cx.env.disk)?),
        };
        let piece = piece(&cx.env);
        for piece in self.bytes.chunks(piece) {
            file.append(piece)?;
            cx.trx.give_way().await;
            check_killed(&cx.env)?;
        }
        self.bytes = Vec::with_capacity(piece);
        self.charge(0, cx)
    }

    /// Puts the entries into chains.
    async fn finish(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        if self.file.is_some() {
            self.write_out(cx).await?;
            self.bytes = Vec::new();
        }
        if let Some(directory) = &mut self.directory {
            directory.finish(cx).await?;
            self.is_made = true;
            return self.charge(0, cx);
        }
        let chains = (self.entries.len() - self.undecided.len()).next_power_of_two();
        self.charge(chains * size_of::<u32>(), cx)?;
        self.heads = vec![NONE; chains];
        let mut undecided = self.undecided.iter().rev().copied().peekable();
        // From the last to the first: each entry is put before those behind it (HASH-3).
        for n in (0..self.entries.len()).rev() {
            if n.is_multiple_of(ENTRIES_PER_LOOK) {
                cx.env.steps(ENTRIES_PER_LOOK)?;
            }
            if undecided.next_if_eq(&(n as u32)).is_some() {
                continue;
            }
            let head = &mut self.heads[self.entries[n].hash as usize & (chains - 1)];
            self.entries[n].next = std::mem::replace(head, n as u32);
        }
        self.is_made = true;
        self.charge(0, cx)
    }

    fn len(&self) -> usize {
        self.directory.as_ref().map_or(self.entries.len(), |directory| directory.entries)
    }
    /// The number of entries that bytes do not decide.
    fn undecided(&self) -> usize {
        let in_file = |directory: &Directory| directory.entries - directory.decided;
        self.directory.as_deref().map_or(self.undecided.len(), in_file)
    }
    /// Goes before the first row for the rows of the sources before, which `at` has.
    pub fn find(&mut self, at: Scope<'_>, env: &mut Env<'_>) -> Result<()> {
        if self.len() == 0 {
            // Nested loops would not look at the value either.
            self.left = Left::Undecided(0);
            return Ok(());
        }
        self.key.clear();
        let mut eval = Eval::new(at, env);
        let mut decided = true;
        for key in &self.lookup.keys {
            match push_key(&eval.eval(&key.before)?, key.by, &mut self.key) {
                Pushed::Key => {}
                Pushed::Null => {
                    self.left = Left::Undecided(self.undecided());
                    return Ok(());
                }
                Pushed::Other => decided = false,
            }
        }
        self.left = if decided {
            let hash = self.hash();
            if let Some(directory) = &mut self.directory {
                env.leave_worker();
                self.left = Left::Run { entry: directory.find(hash)?, hash };
                return Ok(());
            }
            Left::Chain { entry: self.heads[hash as usize & (self.heads.len() - 1)], hash }
        } else {
            Left::All(0)
        };
        Ok(())
    }
    /// Goes to the next row. Returns false after the last.
    pub fn advance(&mut self, env: &Env<'_>) -> Result<bool> {
        let found = match &mut self.directory {
            None => self.next_entry(),
            Some(_) => {
                env.leave_worker();
                self.next_in_directory()?
            }
        };
        let Some(found) = found else { return Ok(false) };
        self.current = found;
        if self.file.is_some() {
            env.leave_worker();
            self.read_current()?;
        }
        match self.form {
            Form::Values | Form::Columns => self.read_values(),
            Form::Payload | Form::Kept => {}
        }
        Ok(true)
    }
    fn next_entry(&mut self) -> Option<Entry> {
        loop {
            match &mut self.left {
                Left::Chain { entry: NONE, .. } | Left::Run { .. } => {
                    self.left = Left::Undecided(0);
                }
                Left::Chain { entry, hash } => {
                    let found = self.entries[*entry as usize];
                    *entry = found.next;
                    if found.hash == *hash {
                        return Some(found);
                    }
                }
                Left::Undecided(n) => {
                    let &entry = self.undecided.get(*n)?;
                    *n += 1;
                    return Some(self.entries[entry as usize]);
                }
                Left::All(n) => {
                    let found = self.entries.get(*n).copied();
                    *n += 1;
                    return found;
                }
            }
        }
    }
    fn next_in_directory(&mut self) -> Result<Option<Entry>> {
        let Some(directory) = &mut self.directory else { return Ok(None) };
        loop {
            let next = match &mut self.left {
                Left::Run { entry, hash } if *entry < directory.decided => {
                    let found = directory.entry(*entry)?;
                    *entry += 1;
                    if found.hash == *hash {
                        return Ok(Some(found));
                    }
                    None
                }
                Left::Run { .. } | Left::Chain { .. } => None,
                Left::Undecided(n) => {
                    *n += 1;
                    Some(directory.decided + *n - 1)
                }
                Left::All(n) => {
                    *n += 1;
                    Some(*n - 1)
                }
            };
            match next {
                None => self.left = Left::Undecided(0),
                Some(n) if n < directory.entries => return directory.entry(n).map(Some),
                Some(_) => return Ok(None),
            }
        }
    }
    /// Brings the bytes of the current row from the file, and some behind them if the rows are read
    /// one after the other.
    fn read_current(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let Entry { place, len, .. } = self.current;
        let (len, read_end) = (u64::from(len), self.read_at + self.read.len() as u64);
        if place >= self.read_at && place.saturating_add(len) <= read_end {
            return Ok(());
        }
        let follows = place > self.read_at && place <= read_end;
        let more = if follows { len.max(READ_AHEAD as u64).min(file.size() - place) } else { len };
        self.read.resize(more as usize, 0);
        self.read_at = place;
        Ok(file.read(place, &mut self.read)?)
    }
    fn read_values(&mut self) {
        let mut values = std::mem::take(&mut self.values);
        let mut rest = self.stored();
        for column in &self.columns {
            values[*column as usize] = read(&mut rest).into_owned();
        }
        self.values = values;
    }
    /// The bytes of the current row.
    fn stored(&self) -> &[u8] {
        let Entry { place, len, .. } = self.current;
        let (bytes, start) = match self.file {
            Some(_) => (&self.read, self.read_at),
            None => (&self.bytes, 0),
        };
        let at = (place - start) as usize;
        &bytes[at..at + len as usize]
    }

    /// The current row, of a source that is a table.
    pub fn row_of<'r>(&'r self, scan: &'r Scan<'_>) -> Row<'r> {
        match self.form {
            Form::Payload => scan.stored_row(self.stored()),
            _ => Row::Decoded { def: scan.read_columns().0, values: &self.values },
        }
    }
    /// The values of the current row, of a source whose rows are kept.
    pub fn values_of<'r>(&'r self, kept: &'r Kept) -> &'r [Value<'static>] {
        match self.form {
            Form::Kept => kept.at(self.current.place as usize),
            _ => &self.values,
        }
    }
}
