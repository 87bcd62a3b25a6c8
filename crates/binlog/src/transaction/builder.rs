//! Collects the events of a transaction while the transaction runs.
use super::{TransactionEvents, placer};
use crate::column_set::ColumnSet;
use crate::event::gtid::MAX_LEN as MAX_GTID_LEN;
use crate::event::{self, Event, EventType, GtidEvent, Header, Query, RowsKind, Stamp, rows};
use crate::rows::put_image;
use crate::{Checksum, EventTooLong, LogicalClock, MAX_EVENT_BYTES, Table, TableId};
use redolith_types::Value;
use smallvec::SmallVec;

/// How a transaction's events are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// `binlog_checksum`, as it is for the file that the transaction will stand in.
    pub checksum: Checksum,
    /// `binlog_row_event_max_size`: a ROWS event with more bytes has one row.
    pub row_event_max_bytes: usize,
}

impl Default for EncodeOptions {
    fn default() -> EncodeOptions {
        EncodeOptions { checksum: Checksum::Crc32, row_event_max_bytes: 8192 }
    }
}

/// What of a GTID event is known before the commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GtidTemplate {
    /// Whether the transaction has statements instead of rows, as DDL has.
    pub may_have_statements: bool,
    /// The first commit, on another server, microseconds since 1970 UTC. `None`: the transaction is
    /// first committed here.
    pub original_commit_us: Option<u64>,
    /// The version of this server: 80036 is 8.0.36.
    pub server_version: u32,
    /// The version of the server that first committed the transaction, if it is another.
    pub original_server_version: Option<u32>,
}

/// An image of a row: some of the columns, and one value per column of the table.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The columns that are logged.
    pub columns: &'a ColumnSet,
    /// One value per column of the table. Values of columns that are not logged are not looked at.
    pub values: &'a [Value<'a>],
}

/// A change of one row.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// The row after.
    Insert(Image<'a>),
    /// The row before.
    Delete(Image<'a>),
    /// The row before and after.
    Update(Image<'a>, Image<'a>),
}

/// A place to which a transaction can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(u64);

/// A ROWS event to which rows are being added. It is the last event of the buffer.
#[derive(Clone)]
struct OpenRows {
    at: usize,
    /// Where its rows begin.
    rows_at: usize,
    kind: RowsKind,
    table: TableId,
    before: ColumnSet,
    after: ColumnSet,
}

/// The events of a transaction that runs.
#[derive(Clone)]
pub struct TransactionBuilder {
    options: EncodeOptions,
    /// Room for the GTID event, and the events that were not drained.
    out: Vec<u8>,
    /// Bytes of events that were drained.
    drained: u64,
    /// The event before those that were drained ([`TransactionBuilder::put_first`]).
    first: Vec<u8>,
    /// The tables that were mapped since the statement began.
    mapped: SmallVec<[TableId; 2]>,
    /// The last ROWS event of the statement, which is to get STMT_END.
    last_rows: Option<usize>,
    open: Option<OpenRows>,
}

impl TransactionBuilder {
    /// Begins a transaction.
    pub fn new(options: EncodeOptions) -> TransactionBuilder {
        TransactionBuilder::in_buffer(options, Vec::new())
    }

    /// Begins a transaction in the memory of one that has ended
    /// ([`TransactionEvents::into_buffer`]).
    pub fn in_buffer(options: EncodeOptions, mut buffer: Vec<u8>) -> TransactionBuilder {
        buffer.clear();
        buffer.resize(MAX_GTID_LEN, 0);
        TransactionBuilder {
            options,
            out: buffer,
            drained: 0,
            first: Vec::new(),
            mapped: SmallVec::new(),
            last_rows: None,
            open: None,
        }
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all events so far without the GTID event, drained or not.
    pub fn len(&self) -> u64 {
        self.drained + (self.first.len() + self.out.len() - MAX_GTID_LEN) as u64
    }

    /// Bytes of events in memory.
    pub fn bytes_in_memory(&self) -> usize {
        self.out.len() - MAX_GTID_LEN
    }

    /// Appends a QUERY event: BEGIN before the first row, COMMIT if the transaction has no XID, the
    /// text of a DDL statement.
    pub fn query(&mut self, stamp: Stamp, query: &Query<'_>) -> Result<(), EventTooLong> {
        self.event(stamp, &Event::Query(query.clone()))
    }

    /// Appends a ROWS_QUERY event, before the rows of the statement with this text.
    pub fn rows_query(&mut self, stamp: Stamp, text: &[u8]) -> Result<(), EventTooLong> {
        self.event(stamp, &Event::RowsQuery(text))
    }

    /// Appends an event that ends the statement before: XID, XA_PREPARE, and any other.
    pub fn event(&mut self, stamp: Stamp, event: &Event<'_>) -> Result<(), EventTooLong> {
        self.end_statement()?;
        let flags = event.header_flags();
        let at = event::open(&mut self.out, event.event_type(), stamp, flags);
        event.encode_body(&mut self.out);
        event::close(&mut self.out, at, self.options.checksum)
    }

    /// Appends a TABLE_MAP event, unless the statement has one of the table. A statement that
    /// changes several tables maps all of them before its first row: a table that is mapped later
    /// ends the statement for the replica, and begins another one.
    pub fn map_table(&mut self, stamp: Stamp, table: &Table) -> Result<(), EventTooLong> {
        if self.mapped.contains(&table.id) {
            return Ok(());
        }
        if self.open.is_some() || self.last_rows.is_some() {
            self.end_statement()?;
        }
        let at = event::open(&mut self.out, EventType::TABLE_MAP, stamp, 0);
        table.put_map(&mut self.out);
        event::close(&mut self.out, at, self.options.checksum)?;
        self.mapped.push(table.id);
        Ok(())
    }

    /// Appends a change of a row, to the ROWS event before it if that is of the same sort and has
    /// room. Fails if the row is too long for an event; then the events are as before, but the
    /// table may be mapped.
    pub fn row(
        &mut self,
        stamp: Stamp,
        table: &Table,
        change: &Change<'_>,
    ) -> Result<(), EventTooLong> {
        self.map_table(stamp, table)?;
        let none = ColumnSet::none(0);
        let (kind, before, after) = match change {
            Change::Insert(after) => (RowsKind::Write, None, Some(after)),
            Change::Delete(before) => (RowsKind::Delete, Some(before), None),
            Change::Update(before, after) => (RowsKind::Update, Some(before), Some(after)),
        };
        let before_set = before.map_or(&none, |image| image.columns);
        let after_set = after.map_or(&none, |image| image.columns);
        let fits = |open: &OpenRows| {
            open.kind == kind
                && open.table == table.id
                && (before.is_none() || open.before == *before_set)
                && (after.is_none() || open.after == *after_set)
        };
        if !self.open.as_ref().is_some_and(fits) {
            self.close_rows()?;
            self.open_rows(stamp, table, kind, before_set, after_set);
        }
        let row_at = self.out.len();
        for image in before.into_iter().chain(after) {
            put_image(&mut self.out, &table.columns, image.columns, image.values);
        }
        self.split_rows(stamp, table, row_at)
    }

    fn open_rows(
        &mut self,
        stamp: Stamp,
        table: &Table,
        kind: RowsKind,
        before: &ColumnSet,
        after: &ColumnSet,
    ) {
        let at = event::open(&mut self.out, kind.event_type(), stamp, 0);
        // A kind has one of the sets or both, and both are of the same table.
        let all = |set: &ColumnSet| match set.columns() {
            0 => ColumnSet::none(table.columns.len()),
            _ => set.clone(),
        };
        let (before, after) = (all(before), all(after));
        rows::put_head(&mut self.out, kind, table.id, 0, &before, &after);
        let rows_at = self.out.len();
        self.open = Some(OpenRows { at, rows_at, kind, table: table.id, before, after });
    }

    /// Moves the last row, which begins at `row_at`, to an event of its own if the open event is
    /// too long with it. Removes the row if it is too long for any event.
    fn split_rows(
        &mut self,
        stamp: Stamp,
        table: &Table,
        row_at: usize,
    ) -> Result<(), EventTooLong> {
        let Some(open) = &self.open else { return Ok(()) };
        let (at, rows_at) = (open.at, open.rows_at);
        let len = self.out.len() - at + self.options.checksum.len();
        let is_alone = row_at == rows_at;
        let own_len = rows_at - at + self.out.len() - row_at + self.options.checksum.len();
        if own_len > MAX_EVENT_BYTES {
            self.out.truncate(row_at);
            if is_alone {
                self.out.truncate(at);
                self.open = None;
            }
            return Err(EventTooLong { bytes: own_len as u64 });
        }
        if len > self.options.row_event_max_bytes && !is_alone {
            let row = self.out.split_off(row_at);
            let Some(OpenRows { kind, before, after, .. }) = self.close_rows()? else {
                return Ok(());
            };
            self.open_rows(stamp, table, kind, &before, &after);
            self.out.extend_from_slice(&row);
        }
        Ok(())
    }

    fn close_rows(&mut self) -> Result<Option<OpenRows>, EventTooLong> {
        let Some(open) = self.open.take() else { return Ok(None) };
        event::close(&mut self.out, open.at, self.options.checksum)?;
        self.last_rows = Some(open.at);
        Ok(Some(open))
    }

    /// Ends a statement: its last ROWS event gets STMT_END. Does nothing if the statement has no
    /// row.
    pub fn end_statement(&mut self) -> Result<(), EventTooLong> {
        self.close_rows()?;
        if let Some(at) = self.last_rows.take() {
            self.out[at + Header::LEN + rows::FLAGS_AT] |= rows::STMT_END as u8;
        }
        self.mapped.clear();
        Ok(())
    }

    /// The end of the events so far, which a statement or a savepoint may be rolled back to. Ends
    /// the statement before.
    pub fn savepoint(&mut self) -> Result<Savepoint, EventTooLong> {
        self.end_statement()?;
        Ok(Savepoint(self.len()))
    }

    /// Removes all events behind a savepoint. If some of them were drained, the caller cuts what
    /// was drained at [`TransactionBuilder::drained_bytes`].
    pub fn roll_back_to(&mut self, savepoint: Savepoint) {
        assert!(savepoint.0 <= self.len(), "a savepoint behind the events");
        self.open = None;
        self.last_rows = None;
        self.mapped.clear();
        let kept = savepoint.0.saturating_sub(self.drained) as usize;
        self.drained = self.drained.min(savepoint.0);
        self.out.truncate(MAX_GTID_LEN + kept);
    }

    /// The events in memory that cannot change any more: for large transactions, whose events go to
    /// a file. The last ROWS event of a statement is not among them.
    pub fn drainable(&self) -> &[u8] {
        &self.out[MAX_GTID_LEN..self.drainable_end()]
    }
    fn drainable_end(&self) -> usize {
        let open = self.open.as_ref().map(|open| open.at);
        self.last_rows.or(open).unwrap_or(self.out.len())
    }
    /// Forgets the events that [`drainable`](Self::drainable) has: the file has them now.
    pub fn drain(&mut self) {
        let end = self.drainable_end();
        self.out.drain(MAX_GTID_LEN..end);
        let moved = end - MAX_GTID_LEN;
        self.drained += moved as u64;
        self.last_rows = self.last_rows.map(|at| at - moved);
        if let Some(open) = &mut self.open {
            open.at -= moved;
            open.rows_at -= moved;
        }
    }

    /// Puts a QUERY event before all others, drained or not: for a transaction of which it is known
    /// only at the end how it begins. Nothing can be rolled back afterwards.
    pub fn put_first(&mut self, stamp: Stamp, query: &Query<'_>) -> Result<(), EventTooLong> {
        self.end_statement()?;
        let end = self.out.len();
        self.query(stamp, query)?;
        let first = self.out.split_off(end);
        if self.drained == 0 {
            self.out.splice(MAX_GTID_LEN..MAX_GTID_LEN, first);
        } else {
            self.first = first;
        }
        Ok(())
    }

    /// Bytes of events that were drained and not rolled back.
    pub fn drained_bytes(&self) -> u64 {
        self.drained
    }

    /// Ends a transaction of which nothing was drained.
    pub fn seal(
        mut self,
        stamp: Stamp,
        template: &GtidTemplate,
    ) -> Result<TransactionEvents, EventTooLong> {
        assert_eq!(self.drained, 0, "events were drained, so the rest is not the transaction");
        self.end_statement()?;
        // The event is made behind the others, and moved to the room before them.
        let end = self.out.len();
        self.put_gtid_event(stamp, template)?;
        let start = MAX_GTID_LEN - (self.out.len() - end);
        self.out.copy_within(end.., start);
        self.out.truncate(end);
        Ok(TransactionEvents { bytes: self.out, start })
    }

    /// Ends a transaction of which events were drained: the GTID event with the event that was put
    /// first, and the events that were not drained. The order in the file is the first part,
    /// drained events, the others; [`super::Placer`] takes them in this order.
    pub fn seal_drained(
        mut self,
        stamp: Stamp,
        template: &GtidTemplate,
    ) -> Result<(Vec<u8>, Vec<u8>), EventTooLong> {
        self.end_statement()?;
        let end = self.out.len();
        self.put_gtid_event(stamp, template)?;
        let mut gtid = self.out.split_off(end);
        gtid.append(&mut self.first);
        Ok((gtid, self.out.split_off(MAX_GTID_LEN)))
    }

    /// Appends the GTID event of the events so far.
    fn put_gtid_event(
        &mut self,
        stamp: Stamp,
        template: &GtidTemplate,
    ) -> Result<(), EventTooLong> {
        let mut event = GtidEvent {
            may_have_statements: template.may_have_statements,
            gtid: None,
            clock: LogicalClock { last_committed: 0, sequence_number: 0 },
            immediate_commit_us: 0,
            original_commit_us: template.original_commit_us,
            transaction_len: 0,
            server_version: template.server_version,
            original_server_version: template.original_server_version,
        };
        let checksum = self.options.checksum;
        event.transaction_len = self.len() + event.event_len(self.len(), checksum);
        let at = event::open(&mut self.out, EventType::ANONYMOUS_GTID, stamp, 0);
        event.encode(&mut self.out);
        event::close(&mut self.out, at, checksum)?;
        placer::mark(&mut self.out[at..], checksum);
        Ok(())
    }
}
