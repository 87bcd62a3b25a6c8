//! The result sink of a connection. It encodes results into the connection's output buffer.
use crate::client_file::{ClientFile, READ_AWAY_BYTES};
use crate::cursor::{Cursor, Opening};
use crate::earlier_results::SetAside;
use crate::error;
use crate::protocol::capabilities::{Capabilities, status};
use crate::protocol::output::{DRAIN_ABOVE, OkPacket, Output};
use crate::protocol::packet::{HEADER, MAX_BODY};
use crate::protocol::row::{self, RowColumn};
use crate::protocol::{column, lenenc, long_text};
use crate::socket::{Ended, Input, Socket};
use redolith_sql::memory::Account;
use redolith_sql::processes::{Kill, State};
use redolith_sql::status::{Counter, Counters};
use redolith_sql::{ColumnMeta, OkInfo, ResultSink, SqlError};
use redolith_types::{Collation, Value};

/// The first byte of the packet that asks a client for a file.
const ASK_FOR_FILE: u8 = 0xfb;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Text,
    Binary,
}

/// Borrows the connection's parts for one command.
pub struct Wire<'a> {
    pub output: &'a mut Output,
    pub socket: &'a mut Socket,
    pub counters: &'a Counters,
    pub capabilities: Capabilities,
    pub format: Format,
    pub write_timeout_s: u32,
    pub read_timeout_s: u32,
    /// Bytes have come behind the command. A client that sends a file must not do so.
    pub has_input: bool,
    pub file: ClientFile,
    /// The status flags for the EOF packet between definitions and rows. They are those of the
    /// previous answer.
    pub status: u16,
    pub results: Option<Collation>,
    pub row: RowState<'a>,
    /// How many bytes of earlier results were set aside and not taken back. A part of them may have
    /// left.
    pub aside: usize,
    /// The cursor that keeps the rows, if the client fetches them later.
    pub cursor: Option<Box<Opening>>,
}

/// The state of the row that is being written.
pub struct RowState<'a> {
    pub columns: &'a mut Vec<RowColumn>,
    pub packet_at: usize,
    /// True between the beginning and the end of a row.
    pub open: bool,
    pub next_column: usize,
}

impl Wire<'_> {
    /// Sends what there is of an answer. A kill ends the wait for the client. Then the bytes that
    /// have not left stay in the output, and the connection sends them with the error when the
    /// statement is over: it holds its locks, its read view and its memory no longer (SINK-3).
    async fn send(&mut self) -> Result<(), SqlError> {
        debug_assert!(!self.row.open, "SINK-3");
        self.take_back();
        let all = self.output.buf.len();
        let sent = self.socket.write_in_statement(&self.output.buf, self.write_timeout_s).await;
        let gone = *sent.as_ref().unwrap_or(&all);
        self.counters.add(Counter::BytesSent, self.socket.newly_sent(gone));
        self.output.sent_first(gone);
        match sent {
            Ok(gone) if gone == all => Ok(()),
            Ok(_) => Err(self.socket.process().killed().error()),
            Err(_) => Err(error::interrupted()),
        }
    }
    /// Takes back the earlier results that have not left (EARLIER-2).
    pub fn take_back(&mut self) {
        if std::mem::take(&mut self.aside) > 0 {
            let sent = self.socket.take_back(&mut self.output.buf);
            self.counters.add(Counter::BytesSent, self.socket.newly_sent(sent));
        }
    }
    /// Answers COM_STMT_FETCH with at most `most` rows. Returns whether the cursor stays open: it
    /// does not when the client has asked for more rows than there are. A long row exists twice
    /// while it is sent, and `memory` is charged for it.
    pub async fn put_fetched(
        &mut self,
        cursor: &mut Cursor,
        most: u32,
        memory: &mut Account,
    ) -> Result<bool, SqlError> {
        let mut open = true;
        for _ in 0..most {
            let Some(row) = cursor.next_row()? else {
                open = false;
                break;
            };
            let mark = memory.used();
            if row.len() > DRAIN_ABOVE {
                memory.charge(row.len())?;
                self.output.buf.reserve_exact(row.len() + HEADER * (row.len() / MAX_BODY + 2));
            }
            self.output.packet(|b| b.extend_from_slice(row));
            if self.wants_drain() {
                self.send().await?;
                let killed = self.socket.process().killed();
                if killed != Kill::None {
                    return Err(killed.error());
                }
            }
            memory.release_to(mark);
        }
        let flag = if open { status::CURSOR_EXISTS } else { status::LAST_ROW_SENT };
        let ok = OkPacket { status: self.status | flag, ..OkPacket::default() };
        self.output.eof(self.capabilities, &ok);
        Ok(open)
    }
    /// Sends the request for a file, which only a kill of the connection ends: a client that has
    /// seen a part of the request would send the file.
    async fn send_request(&mut self) -> Result<(), SqlError> {
        self.take_back();
        let bytes = self.socket.newly_sent(self.output.buf.len());
        self.counters.add(Counter::BytesSent, bytes);
        let sent = self.socket.write_all(&self.output.buf, self.write_timeout_s).await;
        self.output.sent();
        sent.map_err(|_| error::interrupted())
    }
}

fn ok_packet(ok: &OkInfo) -> OkPacket<'_> {
    OkPacket {
        affected: ok.affected,
        last_insert_id: ok.last_insert_id,
        status: ok.status.0,
        warnings: ok.warnings,
        info: &ok.info,
    }
}

impl ResultSink for Wire<'_> {
    type Aside = SetAside;
    fn set_aside(&mut self) -> Option<SetAside> {
        debug_assert!(!self.row.open && self.cursor.is_none(), "SINK-4");
        if self.output.buf.is_empty() && self.aside == 0 {
            return None;
        }
        let (bytes, set_aside) = self.socket.set_aside(&mut self.output.buf);
        self.aside = bytes;
        Some(set_aside)
    }
    fn results_in(&mut self, results: Option<Collation>) {
        self.results = results;
    }
    async fn columns(&mut self, columns: &[ColumnMeta]) -> Result<(), SqlError> {
        self.output.packet(|b| lenenc::put_int(b, columns.len() as u64));
        self.row.columns.clear();
        // Also where the statement has been killed, the client gets all definitions: libraries
        // expect no error among them.
        let mut sent = Ok(());
        for c in columns {
            self.output.packet(|b| column::put(b, c, self.results));
            self.row.columns.push(RowColumn::new(c, self.results));
            if sent.is_ok() && self.cursor.is_none() && self.wants_drain() {
                sent = self.send().await;
            }
        }
        if let Some(cursor) = &mut self.cursor {
            cursor.take_definitions(self.output);
            return sent;
        }
        if !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.output.definitions_end(self.status & !status::MORE_RESULTS, 0);
        }
        sent
    }

    #[inline]
    fn begin_row(&mut self) {
        debug_assert!(!self.row.open, "SINK-1");
        self.row.packet_at = self.output.begin_packet();
        self.row.next_column = 0;
        self.row.open = true;
        if self.format == Format::Binary {
            row::begin_binary(&mut self.output.buf, self.row.columns.len());
        }
    }
    #[inline]
    fn value(&mut self, value: &Value<'_>) {
        let i = self.row.next_column;
        self.row.next_column += 1;
        let column = &self.row.columns[i];
        match self.format {
            Format::Text => row::put_text(&mut self.output.buf, column, value),
            Format::Binary => {
                row::put_binary(&mut self.output.buf, self.row.packet_at, i, column, value)
            }
        }
    }
    #[inline]
    fn end_row(&mut self) {
        debug_assert!(self.row.open, "SINK-1");
        debug_assert_eq!(self.row.next_column, self.row.columns.len(), "SINK-2");
        match &mut self.cursor {
            None => self.output.end_packet(self.row.packet_at),
            Some(cursor) => cursor.end_row(self.output, self.row.packet_at),
        }
        self.row.open = false;
    }

    fn finish_rows(&mut self, end: &OkInfo) {
        self.status = end.status.0;
        let mut status = end.status.0;
        if let Some(cursor) = &mut self.cursor {
            if let Err(e) = cursor.finish(self.output) {
                return self.error(&e);
            }
            status |= status::CURSOR_EXISTS;
        }
        // The counts of affected rows and insert ids belong to statements without rows.
        self.output.eof(
            self.capabilities,
            &OkPacket { status, warnings: end.warnings, ..OkPacket::default() },
        );
    }
    fn ok(&mut self, ok: &OkInfo) {
        self.status = ok.status.0;
        self.output.ok(&ok_packet(ok));
    }
    fn error(&mut self, e: &SqlError) {
        if std::mem::take(&mut self.row.open) {
            self.output.buf.truncate(self.row.packet_at);
        }
        if let Some(cursor) = &mut self.cursor {
            cursor.give_up(self.output);
        }
        self.output.error(e.code, &e.sqlstate, &e.message, self.results);
    }

    fn row_bytes(&self, values: &[Value<'_>]) -> usize {
        long_text::row_bytes(values, self.row.columns)
    }
    fn expect(&mut self, bytes: usize) {
        // A long packet has a header for each of its parts.
        let columns = self.row.columns.len();
        let bytes = bytes + columns * lenenc::MOST_BYTES + row::head_bytes(columns);
        self.output.buf.reserve_exact(bytes + HEADER * (bytes / MAX_BODY + 2));
    }
    fn held(&self) -> usize {
        let aside = if self.aside > 0 { self.socket.aside_capacity() } else { 0 };
        self.output.buf.capacity() + aside + self.cursor.as_ref().map_or(0, |cursor| cursor.held())
    }
    fn wants_drain(&self) -> bool {
        let seen = self.cursor.as_ref().map_or(0, |cursor| cursor.seen());
        self.output.buf.len() + self.aside > seen + DRAIN_ABOVE
    }
    async fn drain(&mut self) -> Result<(), SqlError> {
        match &mut self.cursor {
            None => self.send().await,
            Some(cursor) => cursor.drain(self.output, self.socket.process()).await,
        }
    }

    fn takes_files(&self) -> bool {
        self.capabilities.has(Capabilities::LOCAL_FILES)
    }
    async fn ask_for_file(&mut self, name: &[u8]) -> Result<(), SqlError> {
        if self.has_input {
            self.file.give_up();
            return Err(error::packets_out_of_order());
        }
        self.output.packet(|b| {
            b.push(ASK_FOR_FILE);
            b.extend_from_slice(name);
        });
        self.file.begin();
        self.send_request().await.inspect_err(|_| self.file.give_up())
    }
    async fn read_file(&mut self, to: &mut Vec<u8>) -> Result<bool, SqlError> {
        let process = self.socket.process().clone();
        while self.file.is_sending() {
            let from = to.len();
            let (state, limit_s) = process.waits();
            process.wait_in_command(State::ReadingFromNet, self.read_timeout_s);
            let read = self.socket.read_in_statement(to).await;
            process.wait_in_command(state, limit_s);
            match read {
                Ok(_) => {}
                Err(Ended::Gone) => {
                    self.file.give_up();
                    return Err(error::interrupted());
                }
                Err(Ended::Killed) => return Err(process.killed().error()),
            }
            self.counters.add(Counter::BytesReceived, (to.len() - from) as u64);
            self.file.strip(to, from, &mut self.output.sequence)?;
            if to.len() > from {
                return Ok(true);
            }
        }
        Ok(false)
    }
    async fn end_file(&mut self) {
        if !self.file.is_sending() {
            return;
        }
        let process = self.socket.process().clone();
        let (state, limit_s) = process.waits();
        let mut away = Vec::with_capacity(READ_AWAY_BYTES);
        let mut was_killed = false;
        while self.file.is_sending() {
            // FILE-2: from a KILL QUERY on, the time goes on.
            let killed = process.killed() != Kill::None;
            if !killed || !was_killed {
                process.wait_in_command(State::ReadingFromNet, self.read_timeout_s);
                was_killed = killed;
            }
            away.clear();
            match self.socket.read(&mut away).await {
                Ok(Input::Bytes(n)) => {
                    self.counters.add(Counter::BytesReceived, n as u64);
                    // A client that breaks the protocol has been given up.
                    let _ = self.file.strip(&mut away, 0, &mut self.output.sequence);
                }
                Ok(_) => {}
                Err(_) => self.file.give_up(),
            }
        }
        process.wait_in_command(state, limit_s);
    }
}
