//! The result sink of a connection. It encodes results into the connection's output buffer.
use crate::error;
use crate::protocol::capabilities::{Capabilities, status};
use crate::protocol::output::{DRAIN_ABOVE, OkPacket, Output};
use crate::protocol::row::{self, RowColumn};
use crate::protocol::{column, lenenc};
use crate::socket::Socket;
use redolith_sql::status::{Counter, Counters};
use redolith_sql::{ColumnMeta, OkInfo, ResultSink, SqlError};
use redolith_types::{Collation, Value};

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
    /// The status flags for the EOF packet between definitions and rows. They are those of the
    /// previous answer.
    pub status: u16,
    pub results: Option<Collation>,
    pub row: RowState<'a>,
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
    async fn send(&mut self) -> Result<(), SqlError> {
        self.counters.add(Counter::BytesSent, self.output.buf.len() as u64);
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
    fn results_in(&mut self, results: Option<Collation>) {
        self.results = results;
    }
    fn columns(&mut self, columns: &[ColumnMeta]) {
        self.output.packet(|b| lenenc::put_int(b, columns.len() as u64));
        self.row.columns.clear();
        for c in columns {
            self.output.packet(|b| column::put(b, c, self.results));
            self.row.columns.push(RowColumn::new(c, self.results));
        }
        if !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.output.definitions_end(self.status & !status::MORE_RESULTS, 0);
        }
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
        self.output.end_packet(self.row.packet_at);
        self.row.open = false;
    }

    fn finish_rows(&mut self, end: &OkInfo) {
        self.status = end.status.0;
        // The counts of affected rows and insert ids belong to statements without rows.
        self.output.eof(
            self.capabilities,
            &OkPacket { status: end.status.0, warnings: end.warnings, ..OkPacket::default() },
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
        self.output.error(e.code, &e.sqlstate, &e.message, self.results);
    }

    fn expect(&mut self, bytes: usize) {
        self.output.buf.reserve_exact(bytes + self.row.columns.len() * lenenc::MOST_BYTES);
    }
    fn held(&self) -> usize {
        self.output.buf.capacity()
    }
    fn wants_drain(&self) -> bool {
        self.output.buf.len() > DRAIN_ABOVE
    }
    async fn drain(&mut self) -> Result<(), SqlError> {
        self.send().await
    }
}
