//! Collects the events of a session's transaction.
use super::filter::Filter;
use super::images::{Images, emptied, values};
use super::keys::{Keys, KeysPoint};
use super::settings::{LogSettings, encode_options, row_metadata};
use super::wait::killable;
use crate::database::Database;
use crate::error::{Result, SqlError};
use crate::memory::SessionMemory;
use crate::plan::Statement;
use crate::processes::Process;
use crate::session_state::SessionState;
use crate::settings::{SERVER_VERSION_ID, Var};
use crate::status::{Counter, Status};
use crate::table_info::TableInfo;
use crate::xa::Xid;
use redolith_binlog::{
    Change, Event, GtidTemplate, Image, Query, RowMetadata, Savepoint, Stamp, StatusVars,
    TransactionBuilder, XaPrepare,
};
use redolith_engine::Engine;
use redolith_engine::row::update::RowAt;
use redolith_replication::spill::Spill;
use redolith_replication::{Binlog, record};
use redolith_types::{RowLayout, Value};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A transaction with more bytes of events in memory writes them to a spill file.
const SPILL_BYTES: usize = 1 << 20;
/// A buffer with more room than this is freed when its transaction ends.
const KEPT_BYTES: usize = 32 << 10;

/// The events of a session's transaction. The transaction has none until it changes a row.
pub struct Capture {
    binlog: Arc<Binlog>,
    filter: Arc<Filter>,
    status: Arc<Status>,
    builder: Option<TransactionBuilder>,
    /// The events that have outgrown memory.
    spill: Option<Spill>,
    /// Why the spill file could not be cut back: the transaction cannot commit.
    broken: Option<SqlError>,
    /// The most bytes of events in memory.
    most_in_memory: usize,
    /// The memory of the last transaction's events, and its record.
    buffer: Vec<u8>,
    record: Vec<u8>,
    keys: Keys,
    /// The name of the transaction, if it is an XA transaction.
    xid: Option<Xid>,
    /// BINLOG-2: the most bytes of events and keys.
    most: u64,
    /// The bytes of the events of a transaction that has logged no row: BEGIN.
    begin_len: u64,
    // What the running statement logs, and how.
    start: Point,
    images: Images,
    /// Those of a statement that changes several tables, for each of them; None if its database is
    /// not logged.
    many: Vec<Option<Images>>,
    /// The tables that such a statement maps before its first row.
    to_map: Vec<Arc<TableInfo>>,
    /// The statement's text, until it is logged before the statement's first row.
    text: Vec<u8>,
    /// Whether the statement's table is in a database that is not logged.
    ignored: bool,
    metadata: RowMetadata,
    stamp: Stamp,
    session: u32,
    table_ids: Arc<AtomicU64>,
    /// Room for the values of a row before and after a change.
    room: [Vec<Value<'static>>; 2],
}

/// A place to which a transaction's events can be cut back.
#[derive(Clone, Copy, Default)]
pub struct Point {
    /// None: before the first event.
    events: Option<Savepoint>,
    keys: KeysPoint,
}

/// A changed row.
enum Changed<'a> {
    Insert(&'a [u8]),
    Delete { row: RowAt<'a>, whole: &'a [u8] },
    Update { row: RowAt<'a>, whole: &'a [u8], new: &'a [u8] },
}

/// How many bytes of events and keys may be in memory: the rest goes to a spill file. The record
/// has to fit in the log buffer, whose size may change.
fn most_in_memory(db: &Database) -> usize {
    (db.engine.record_max() / 4).min(SPILL_BYTES)
}

impl Capture {
    /// The capture of a session; None if the binary log is off.
    pub fn new(db: &Database) -> Option<Box<Capture>> {
        let binlog = db.binlog.clone()?;
        Some(Box::new(Capture {
            binlog,
            filter: db.log_filter.clone(),
            status: db.status.clone(),
            builder: None,
            spill: None,
            broken: None,
            most_in_memory: most_in_memory(db),
            buffer: Vec::new(),
            record: Vec::new(),
            keys: Keys::default(),
            xid: None,
            most: 0,
            begin_len: 0,
            start: Point::default(),
            images: Images::none(),
            many: Vec::new(),
            to_map: Vec::new(),
            text: Vec::new(),
            ignored: false,
            metadata: RowMetadata::Minimal,
            stamp: Stamp { timestamp: 0, server_id: 0 },
            session: 0,
            table_ids: db.logged_table_ids.clone(),
            room: Default::default(),
        }))
    }

    /// Whether the transaction has no event, so that it commits without a record.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.builder.is_none()
    }

    /// The transaction that begins is an XA transaction.
    pub fn begin_xa(&mut self, xid: Xid) {
        self.xid = Some(xid);
    }
    /// The text of the statement that begins next, which is to be logged before its rows.
    pub fn set_text(&mut self, text: &[u8], memory: &mut SessionMemory) -> Result<()> {
        self.text = text.trim_ascii().to_vec();
        let counted = memory.binlog.set(self.bytes());
        counted.inspect_err(|_| self.text = Vec::new())
    }
    /// Forgets the text of a statement that has failed before it began.
    pub fn forget_text(&mut self, memory: &mut SessionMemory) {
        if !self.text.is_empty() {
            self.text = Vec::new();
            memory.binlog.release_to(self.bytes());
        }
    }

    /// Begins a statement. Appends BEGIN if the statement is the first of its transaction that may
    /// change rows.
    pub fn begin_statement(
        &mut self,
        statement: &Statement,
        settings: &LogSettings,
        db: &Database,
        session: &SessionState,
        now_us: i64,
    ) -> Result<()> {
        self.start = self.savepoint()?;
        let server = &db.settings;
        let mut tables = Images::of(statement, settings.image, server, &self.table_ids);
        // TEMPTABLE-8
        let logs =
            |info: &Arc<TableInfo>| !info.is_temporary() && self.filter.logs(&info.def.schema);
        match &tables[..] {
            [] => return Ok(()),
            tables => self.ignored = !tables.iter().any(|(_, info)| logs(info)),
        }
        self.images = Images::none();
        (self.many, self.to_map) = (Vec::new(), Vec::new());
        if self.ignored {
            return Ok(());
        }
        if tables.len() == 1
            && let Some((images, _)) = tables.pop()
        {
            self.images = images;
        }
        for (images, info) in tables {
            let logged = logs(info);
            self.to_map.extend(logged.then(|| info.clone()));
            self.many.push(logged.then_some(images));
        }
        self.metadata = row_metadata(server);
        self.stamp = settings.stamp(server, now_us);
        self.most = server.bits(Var::MaxBinlogCacheSize);
        if self.builder.is_none() {
            let buffer = std::mem::take(&mut self.buffer);
            let mut builder = TransactionBuilder::in_buffer(encode_options(server), buffer);
            if self.xid.is_none() {
                let database = session.schema.as_deref().unwrap_or_default().as_bytes();
                let begin = Query::begin(session.id, database, settings.status());
                builder.query(self.stamp, &begin)?;
            }
            self.session = session.id;
            self.most_in_memory = most_in_memory(db);
            self.begin_len = builder.len();
            self.builder = Some(builder);
        }
        Ok(())
    }
    /// Goes to the next table of a statement that changes several: `n` counts them.
    pub fn turn_to(&mut self, n: usize) {
        if let Some(images) = self.many.get_mut(n) {
            let images = images.take();
            self.ignored = images.is_none();
            self.images = images.unwrap_or_else(Images::none);
        }
    }
    /// Ends a statement that has succeeded.
    pub fn end_statement(&mut self) -> Result<()> {
        self.text = Vec::new();
        if let Some(builder) = &mut self.builder {
            builder.end_statement()?;
            if builder.len() == self.begin_len {
                self.builder = None;
            }
        }
        Ok(())
    }
    /// Takes the events of a statement that has failed back (BINLOG-1).
    pub fn roll_back_statement(&mut self, memory: &mut SessionMemory) {
        self.text = Vec::new();
        self.roll_back_to(self.start, memory);
    }

    /// The present end of the events.
    pub fn savepoint(&mut self) -> Result<Point> {
        let events = self.builder.as_mut().map(TransactionBuilder::savepoint).transpose()?;
        Ok(Point { events, keys: self.keys.point() })
    }
    /// Takes back all events behind a place (BINLOG-1).
    pub fn roll_back_to(&mut self, point: Point, memory: &mut SessionMemory) {
        match (point.events, &mut self.builder) {
            (Some(events), Some(builder)) => {
                builder.roll_back_to(events);
                if let Some(spill) = &mut self.spill
                    && let Err(e) = spill.cut(builder.drained_bytes())
                {
                    self.broken = Some(spill_error(&e));
                }
            }
            _ => (self.builder, self.spill) = (None, None),
        }
        self.keys.roll_back_to(point.keys);
        memory.binlog.release_to(self.bytes());
    }
    /// Forgets the events of a transaction that has ended.
    #[inline]
    pub fn clear(&mut self) {
        if self.builder.is_some() {
            self.count_use();
        }
        (self.builder, self.spill, self.broken) = (None, None, None);
        self.xid = None;
        self.text = Vec::new();
        self.keys.clear();
        self.record.clear();
        self.record.shrink_to(KEPT_BYTES);
    }

    /// Counts a transaction with events that ends.
    fn count_use(&self) {
        self.status.counters.add(Counter::BinlogCacheUse, 1);
        if self.spill.is_some() {
            self.status.counters.add(Counter::BinlogCacheDiskUse, 1);
        }
    }

    /// The bytes of events and keys, and of the running statement's text.
    fn bytes(&self) -> usize {
        let events = self.builder.as_ref().map_or(0, TransactionBuilder::bytes_in_memory);
        events + self.keys.bytes() + self.text.len()
    }

    /// Whether a long column of the row, which is stored outside it, will be logged if the running
    /// statement changes the row. Then the caller reads the whole row before the change.
    #[inline]
    pub fn needs_long(&self, layout: &RowLayout, stored: &[u8]) -> bool {
        layout.has_externals(stored) && self.images.needs_long(layout, stored)
    }

    /// A row was inserted. `payload` is the whole row.
    pub fn inserted(
        &mut self,
        table: &TableInfo,
        payload: &[u8],
        memory: &mut SessionMemory,
    ) -> Result<()> {
        self.changed(table, Changed::Insert(payload), memory)
    }
    /// A row was deleted. `whole` is the row with its long columns, if [`Self::needs_long`].
    pub fn deleted(
        &mut self,
        table: &TableInfo,
        row: RowAt<'_>,
        whole: &[u8],
        memory: &mut SessionMemory,
    ) -> Result<()> {
        self.changed(table, Changed::Delete { row, whole }, memory)
    }
    /// A row was updated to `new`, a stored payload. `whole` is the row before with its long
    /// columns, if [`Self::needs_long`].
    pub fn updated(
        &mut self,
        table: &TableInfo,
        row: RowAt<'_>,
        whole: &[u8],
        new: &[u8],
        memory: &mut SessionMemory,
    ) -> Result<()> {
        self.changed(table, Changed::Update { row, whole, new }, memory)
    }

    fn changed(
        &mut self,
        info: &TableInfo,
        changed: Changed<'_>,
        memory: &mut SessionMemory,
    ) -> Result<()> {
        let Some(builder) = self.builder.as_mut().filter(|_| !self.ignored) else { return Ok(()) };
        if !self.text.is_empty() {
            builder.rows_query(self.stamp, &std::mem::take(&mut self.text))?;
        }
        for info in std::mem::take(&mut self.to_map) {
            builder.map_table(self.stamp, info.logged(self.metadata, &self.table_ids))?;
        }
        let engine = info.engine();
        let (table, layout) = (info.logged(self.metadata, &self.table_ids), &engine.layout);
        let Images { before, inserted, updated } = &self.images;
        let [first, second] = std::mem::take(&mut self.room);
        let (first, second) = match changed {
            Changed::Insert(payload) => {
                self.keys.add(engine, payload, None);
                let after = values(first, layout, payload, payload, inserted);
                let image = Image { columns: inserted, values: &after };
                builder.row(self.stamp, table, &Change::Insert(image))?;
                (emptied(after), second)
            }
            Changed::Delete { row, whole } => {
                self.keys.add(engine, row.stored, Some(row.key));
                let old = values(first, layout, row.stored, whole, before);
                let image = Image { columns: before, values: &old };
                builder.row(self.stamp, table, &Change::Delete(image))?;
                (emptied(old), second)
            }
            Changed::Update { row, whole, new } => {
                self.keys.add_update(engine, row.stored, new, row.key);
                let old = values(first, layout, row.stored, whole, before);
                let after = values(second, layout, new, whole, updated);
                let images = [(before, &old), (updated, &after)]
                    .map(|(columns, values)| Image { columns, values });
                builder.row(self.stamp, table, &Change::Update(images[0], images[1]))?;
                (emptied(old), emptied(after))
            }
        };
        self.room = [first, second];
        let logged = self.builder.as_ref().map_or(0, TransactionBuilder::len);
        if logged + self.keys.bytes() as u64 > self.most {
            return Err(SqlError::binlog_cache_full());
        }
        if self.bytes() > self.most_in_memory {
            self.write_spill()?;
        }
        memory.binlog.set(self.bytes())
    }

    /// Moves the events that cannot change any more to the spill file.
    #[cold]
    fn write_spill(&mut self) -> Result<()> {
        let Some(builder) = &mut self.builder else { return Ok(()) };
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(self.binlog.spill().map_err(|e| spill_error(&e))?),
        };
        // After a failure the events stay: the statement is rolled back, and the transaction may
        // commit what it did before.
        spill.append(builder.drainable()).map_err(|e| spill_error(&e))?;
        builder.drain();
        Ok(())
    }

    /// The record that [`Capture::seal`] has made.
    pub fn record(&self) -> &[u8] {
        &self.record
    }
    /// Ends the transaction `xid`, and makes its record, when there is room for it in memory. None
    /// if there is nothing to log. With `prepares` an XA transaction is prepared, without it is
    /// committed in one phase.
    pub async fn seal(
        &mut self,
        xid: u64,
        prepares: bool,
        status: StatusVars<'static>,
        engine: &Engine,
        process: &Process,
        memory: &mut SessionMemory,
    ) -> Result<Option<Sealed>> {
        if let Some(why) = self.broken.take() {
            return Err(why);
        }
        self.most_in_memory = self.most_in_memory.min(engine.record_max() / 4);
        if let Some(builder) = &mut self.builder {
            builder.end_statement()?;
            if builder.drained_bytes() == 0 && builder.bytes_in_memory() <= self.most_in_memory {
                // What the file had was taken back, or never got there.
                self.spill = None;
            }
            if self.spill.is_some() || builder.bytes_in_memory() > self.most_in_memory {
                self.write_spill()?;
            }
        }
        let Some(mut builder) = self.builder.take() else { return Ok(None) };
        self.count_use();
        // The record is a copy.
        let bytes = builder.bytes_in_memory() + self.keys.bytes();
        memory.binlog.set(2 * bytes)?;
        killable(process, self.binlog.admit()).await?;
        let now_us = engine.disk.wall_us().max(0) as u64;
        // A record has room for a part of the redo log's buffer.
        let keys = self.keys.hashes().filter(|keys| size_of_val(*keys) <= self.most_in_memory);
        let stamp = Stamp { timestamp: (now_us / 1_000_000) as u32, ..self.stamp };
        match self.xid.as_ref().filter(|_| prepares) {
            Some(xid) => put_xa_events(&mut builder, stamp, xid, self.session, status)?,
            None => {
                if self.xid.is_some() {
                    // In one phase it is a transaction like any other. MySQL logs an XA_PREPARE
                    // event that says so, at which replicas of MariaDB stop.
                    builder.put_first(stamp, &Query::begin(self.session, b"", status))?;
                }
                builder.event(stamp, &Event::Xid(xid))?;
            }
        }
        let template =
            GtidTemplate { server_version: SERVER_VERSION_ID, ..GtidTemplate::default() };
        if let Some(spill) = self.spill.take() {
            let (gtid, rest) = builder.seal_drained(stamp, &template)?;
            // The sync takes as long as the disk does.
            engine.runtime.leave_worker();
            let spilled = spill.seal().map_err(|e| spill_error(&e))?;
            self.record = record::spilled(now_us, keys, spilled, &gtid, &rest);
            return Ok(Some(Sealed(Some(spill))));
        }
        let events = builder.seal(stamp, &template)?;
        record::put_transaction(&mut self.record, now_us, keys, events.as_bytes());
        let buffer = events.into_buffer();
        if buffer.capacity() <= KEPT_BYTES {
            self.buffer = buffer;
        }
        Ok(Some(Sealed(None)))
    }
}

/// Puts the first and the last events of an XA transaction that is prepared.
fn put_xa_events(
    builder: &mut TransactionBuilder,
    stamp: Stamp,
    xid: &Xid,
    session: u32,
    status: StatusVars<'static>,
) -> Result<()> {
    let [start, end] = ["START", "END"].map(|verb| format!("XA {verb} {}", xid.in_statement()));
    builder.put_first(
        stamp,
        &Query { text: start.as_bytes(), ..Query::begin(session, b"", status) },
    )?;
    let end = Query { text: end.as_bytes(), ..Query::begin(session, b"", StatusVars::default()) };
    builder.query(stamp, &end)?;
    let (gtrid, bqual) = (&xid.gtrid, &xid.bqual);
    let format_id = xid.format_id as i32;
    builder
        .event(stamp, &Event::XaPrepare(XaPrepare { one_phase: false, format_id, gtrid, bqual }))?;
    Ok(())
}

/// A transaction has a record ([`Capture::record`]), which may name a spill file.
#[must_use]
pub struct Sealed(Option<Spill>);
impl Sealed {
    /// The record has its place in the redo log. From here on the binary log needs the spill file,
    /// also if the session ends now.
    pub fn keep(self) {
        self.0.into_iter().for_each(Spill::keep);
    }
}

/// The error for a spill file that cannot be written. The transaction is rolled back by its client,
/// or tried again when there is room.
fn spill_error(e: &std::io::Error) -> SqlError {
    let errno = e.raw_os_error().unwrap_or(5);
    SqlError::error_writing("the binary log's cache", errno, e)
}
