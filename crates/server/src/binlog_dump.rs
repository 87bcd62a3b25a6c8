//! COM_REGISTER_SLAVE, COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID: a replica reads the binary log.
//!
//! REPL-4: a dump reads the next events when the replica has taken those before, so a slow replica
//! makes nobody wait, and no memory grows.
//! REPL-5: a dump ends when its replica is gone, is killed, or dumps on another connection.
//! REPL-6: an acknowledgement counts only for what its own dump has sent. A dump whose replica
//! sends anything else ends.
//!
//! A dump is the last command of its connection, also if it fails. (MySQL, `com_binlog_dump`)
//!
//! A replica that has set `@rpl_semi_sync_replica` or `@rpl_semi_sync_slave` gets `ef` and a byte
//! before each event; 1 asks it to acknowledge the event in the same connection: `ef`, the position
//! behind the event in 8 bytes, and the name of the file, in a packet with the number 0. The next
//! event's packet has the number 1.
//!
//! A replica of MariaDB that follows by GTIDs sends COM_BINLOG_DUMP, too, and has set
//! `@slave_connect_state` to its position. (MariaDB, `get_slave_connect_state`)
use crate::backend::{Backend, BinlogSource, Session, VariableTooLong};
use crate::connection::{Channel, Connection, Over};
use crate::error;
use crate::protocol::lenenc::{Malformed, Reader};
use crate::protocol::output::OkPacket;
use crate::protocol::packet::MAX_BODY;
use crate::protocol::replication::{NON_BLOCK, Request, SEMI_SYNC, acknowledgement, registration};
use crate::socket::{Ended, Input};
use redolith_binlog::{BinlogPosition, Checksum, MariadbGtid, Uuid};
use redolith_replication::dump::{Dump, DumpError, MariadbStart, Start, Step};
use redolith_replication::semi_sync::AckingReplica;
use redolith_sql::processes::{Kill, State};
use redolith_sql::status::Counter;
use std::future::{poll_fn, ready};
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Events of more bytes are sent from the dump's buffer, without a copy.
const LONG_EVENT: usize = 16 << 10;
/// The longest acknowledgement: MySQL's longest name of a file. (MySQL, `REPLY_MESSAGE_MAX_LENGTH`)
const MAX_ACK_BYTES: usize = 9 + 512;
/// The longest position of a replica of MariaDB: thousands of domains.
const MAX_STATE_BYTES: usize = 64 << 10;
/// The longest value of the other variables that a replica sets.
const MAX_VALUE_BYTES: usize = 1 << 10;
/// A replica that asks for heartbeats more often gets them this often.
const LEAST_HEARTBEAT: Duration = Duration::from_millis(1);

/// The end of a dump whose replica says what is no acknowledgement, as COM_QUIT.
fn misspoken<E>(_: E) -> Over {
    Over::Quit
}

fn refused(e: DumpError) -> Over {
    Over::Refused(error::dump_failed(e.0))
}

impl Channel {
    /// Sends an event behind its mark, or puts it into the output buffer.
    async fn put_event(&mut self, mut mark: &[u8], event: &[u8]) -> Result<(), Ended> {
        if event.len() < LONG_EVENT {
            self.output.packet(|b| {
                b.extend_from_slice(mark);
                b.extend_from_slice(event);
            });
            return self.drain().await;
        }
        let mut rest = event;
        loop {
            let (part, behind) = rest.split_at(rest.len().min(MAX_BODY - mark.len()));
            let len = part.len() + mark.len();
            self.output.begin_part(len);
            self.output.buf.extend_from_slice(mark);
            self.drain_all().await?;
            self.status.counters.add(Counter::BytesSent, part.len() as u64);
            self.socket.write_all(part, self.write_timeout_s).await?;
            if len < MAX_BODY {
                return Ok(());
            }
            (rest, mark) = (behind, &[]);
        }
    }
}

impl<B: Backend> Connection<B> {
    /// Notes a replica for SHOW REPLICAS.
    pub fn register_replica(&mut self, args: Range<usize>) {
        let Ok(mut replica) = registration(&mut Reader::new(self.channel.input.body(args))) else {
            return self.answer_error(&error::malformed_packet());
        };
        replica.uuid = self.replica_uuid();
        if let Some(source) = self.server.backend.binlog() {
            source.binlog.replicas().register(self.channel.process.id, replica);
        }
        self.answer_ok();
    }

    /// Sends the binary log until the connection ends.
    pub async fn dump_binlog(&mut self, args: Range<usize>, by_gtids: bool) -> Result<(), Over> {
        let Some(source) = self.server.backend.binlog() else {
            return Err(Over::Refused(error::dump_failed("Binary log is not open".into())));
        };
        let mut request = Err(Malformed);
        let (body, read) = (self.channel.input.body(args), &mut request);
        source.runtime.work_long(&mut || {
            let mut r = Reader::new(body);
            *read = if by_gtids { Request::by_gtids(&mut r) } else { Request::by_position(&mut r) };
        });
        let Ok(Request { flags, server_id, mut start }) = request else {
            return Err(Over::Refused(error::malformed_packet()));
        };
        if !by_gtids && let Some(begin) = self.mariadb_start(source.gtid_domain).map_err(refused)? {
            start = Start::Mariadb(begin);
        }
        let id = self.channel.process.id;
        let replicas = source.binlog.replicas();
        let before = replicas.begin_dump(id, server_id, self.replica_uuid());
        for old in &before {
            self.server.processes.kill(*old, Kill::Connection);
        }
        let checksum = match self.replica_variable("binlog_checksum") {
            Some(name) if name.eq_ignore_ascii_case("CRC32") => Some(Checksum::Crc32),
            Some(name) if name.eq_ignore_ascii_case("NONE") => Some(Checksum::None),
            _ => None,
        };
        let (mut begun, mut start) = (None, Some(start));
        let goes_on = || is_ended(self.channel.process.killed()).is_pending();
        source.runtime.work_long(&mut || {
            let begin = |start| Dump::begin(&source.binlog, start, checksum, &goes_on);
            begun = start.take().map(begin);
        });
        if !goes_on() {
            return Err(Ended::Killed.into());
        }
        match begun {
            Some(dump) => self.follow(&source, dump.map_err(refused)?, flags, &before).await,
            None => Err(Over::Refused(error::interrupted())),
        }
    }
    /// Where a replica of MariaDB begins that follows by GTIDs.
    fn mariadb_start(&self, domain: u32) -> Result<Option<MariadbStart>, DumpError> {
        let state = match self.session.user_variable("slave_connect_state", MAX_STATE_BYTES) {
            Ok(Some(state)) => state,
            Ok(None) => return Ok(None),
            Err(VariableTooLong) => {
                return Err("@slave_connect_state is longer than 64 KiB".into());
            }
        };
        let position = MariadbGtid::position(&state)
            .map_err(|e| DumpError(format!("@slave_connect_state: {e}")))?;
        if self.session.user_variable("slave_until_gtid", MAX_VALUE_BYTES) != Ok(None) {
            return Err("START SLAVE UNTIL master_gtid_pos is not supported: give a file and a \
                position, or stop the replica when it has the transaction"
                .into());
        }
        Ok(Some(MariadbStart { position, domain }))
    }

    /// Enters the replica among those that acknowledge, if it has said that it does, in the place
    /// of its connections from before.
    fn acking_replica(
        &self,
        source: &BinlogSource,
        dump: &Dump,
        before: &[u32],
    ) -> Option<AckingReplica> {
        let set = |name: &str| match self.session.user_variable(name, MAX_VALUE_BYTES) {
            Ok(value) => value.is_some_and(|v| v != "0"),
            Err(VariableTooLong) => true,
        };
        let acks = set("rpl_semi_sync_replica") || set("rpl_semi_sync_slave");
        // As in MySQL: who begins at a position has what is before it.
        let begin = dump.begins_behind();
        acks.then(|| {
            source.binlog.replicas().note(self.channel.process.id, |replica| {
                (replica.is_semi_sync, replica.acknowledged) = (true, begin);
            });
            let before: Vec<u64> = before.iter().map(|id| u64::from(*id)).collect();
            let id = u64::from(self.channel.process.id);
            source.binlog.semi_sync().join(id, &before, begin, dump.resets())
        })
    }

    async fn follow(
        &mut self,
        source: &BinlogSource,
        mut dump: Dump,
        flags: u16,
        before: &[u32],
    ) -> Result<(), Over> {
        let period = self
            .replica_variable("heartbeat_period")
            .and_then(|ns| ns.parse().ok())
            .filter(|ns| *ns > 0)
            .map(|ns| Duration::from_nanos(ns).max(LEAST_HEARTBEAT));
        let mut heartbeat = pin!(sleep(period.unwrap_or_default()));
        let process = self.channel.process.clone();
        let acks = self.acking_replica(source, &dump, before);
        // The request may have had a long set of GTIDs.
        self.channel.input.trim();
        loop {
            let seen = source.binlog.seen();
            process.set_state(State::SendingBinlog);
            let sent = self.send_published(source, &mut dump, acks.as_ref()).await?;
            let more = sent == Sent::Asking;
            if !more && flags & NON_BLOCK != 0 {
                let status = self.session.status();
                let ok = OkPacket { status, ..OkPacket::default() };
                self.channel.output.eof(self.capabilities, &ok);
                self.channel.drain_all().await?;
                return Err(Over::Quit);
            }
            if !self.channel.output.buf.is_empty() {
                self.channel.drain_all().await?;
                note_sent(source, &dump, process.id);
                heartbeat.as_mut().reset(Instant::now() + period.unwrap_or_default());
            }
            if !more {
                process.set_state(State::BinlogSent);
                // Hundreds of replicas may have nothing to do.
                self.channel.output.trim();
            }
            tokio::select! {
                biased;
                () = poll_fn(|_| is_ended(process.killed())) => return Err(Ended::Killed.into()),
                read = self.channel.socket.read(self.channel.input.room()) => match (read?, &acks) {
                    (Input::Bytes(_), Some(replica)) => self.take_acks(source, replica, &mut dump)?,
                    // A replica that is content says nothing.
                    (Input::Bytes(_), None) => return Err(Over::Quit),
                    (Input::TrimBuffers | Input::AnswerLeft, _) => {}
                },
                () = ready(()), if more => {}
                () = source.binlog.moved_since(seen) => {}
                () = &mut heartbeat, if period.is_some() => {
                    self.channel.put_event(mark(acks.as_ref(), false), &dump.heartbeat()).await?;
                }
            }
        }
    }

    fn has_acknowledged(&self, source: &BinlogSource, replica: &AckingReplica, at: BinlogPosition) {
        replica.acknowledged(at);
        source.binlog.replicas().note(self.channel.process.id, |replica| {
            replica.acknowledged = replica.acknowledged.max(Some(at));
        });
    }
    /// Takes the acknowledgements that have arrived (REPL-6). Of several, only the last counts.
    fn take_acks(
        &mut self,
        source: &BinlogSource,
        replica: &AckingReplica,
        dump: &mut Dump,
    ) -> Result<(), Over> {
        let mut last = None;
        // The replica begins each acknowledgement with the number 0.
        while let Some(body) = self.channel.input.next(&mut 0, MAX_ACK_BYTES).map_err(misspoken)? {
            let mut r = Reader::new(self.channel.input.body(body));
            let (offset, name) = acknowledgement(&mut r).map_err(misspoken)?;
            last = Some(dump.acknowledged(name, offset).ok_or(Over::Quit)?);
        }
        if let Some(at) = last {
            self.has_acknowledged(source, replica, at);
        }
        self.channel.count_memory().map_err(Over::Refused)
    }

    /// Sends everything that is published, or up to an event that the replica is to acknowledge.
    /// The last bytes may be left in the output buffer.
    async fn send_published(
        &mut self,
        source: &BinlogSource,
        dump: &mut Dump,
        acks: Option<&AckingReplica>,
    ) -> Result<Sent, Over> {
        let statements = self.statements.bytes();
        loop {
            if is_ended(self.channel.process.killed()).is_ready() {
                return Err(Ended::Killed.into());
            }
            let mut step = Ok(Step::End);
            if dump.may_block() {
                source.runtime.work_long(&mut || step = dump.advance());
            } else {
                step = dump.advance();
            }
            let step = step.map_err(refused)?;
            if let (Some(at), Some(replica)) = (dump.take_had(), acks) {
                self.has_acknowledged(source, replica, at);
            }
            if self.channel.kept_bytes != statements + dump.bytes() {
                self.channel.kept_bytes = statements + dump.bytes();
                self.channel.count_memory().map_err(Over::Refused)?;
            }
            if step == Step::End {
                return Ok(Sent::All);
            }
            let asking = acks.filter(|replica| replica.is_asked() && dump.is_last());
            self.channel.put_event(mark(acks, asking.is_some()), dump.event()).await?;
            if self.channel.output.buf.is_empty() {
                note_sent(source, dump, self.channel.process.id);
            }
            if let Some(replica) = asking {
                dump.asks();
                replica.asked();
                // The acknowledgement's packet has the number 0.
                self.channel.output.sequence = 1;
                return Ok(Sent::Asking);
            }
        }
    }

    /// A variable whose every valid value is short.
    fn short_variable(&self, name: &str) -> Option<String> {
        self.session.user_variable(name, MAX_VALUE_BYTES).unwrap_or_default()
    }
    /// `@source_name` or, as older replicas call it, `@master_name`.
    fn replica_variable(&self, name: &str) -> Option<String> {
        let value = |of: &str| self.short_variable(&format!("{of}_{name}"));
        value("source").or_else(|| value("master"))
    }
    fn replica_uuid(&self) -> Option<Uuid> {
        let uuid = self.short_variable("replica_uuid");
        uuid.or_else(|| self.short_variable("slave_uuid"))?.parse().ok()
    }
}

/// Notes what the replica was sent, for those who ask how far it has come.
fn note_sent(source: &BinlogSource, dump: &Dump, connection: u32) {
    let sent = Some(dump.given_up_to());
    source.binlog.replicas().note(connection, |replica| replica.sent = sent);
}

/// How far [`Connection::send_published`] has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    All,
    /// The replica is to acknowledge the last event.
    Asking,
}

/// What stands before an event in its packet.
fn mark(acks: Option<&AckingReplica>, asks: bool) -> &'static [u8] {
    match acks {
        None => &[0],
        Some(_) if asks => &[0, SEMI_SYNC, 1],
        Some(_) => &[0, SEMI_SYNC, 0],
    }
}

/// Whether a dump is to end. KILL QUERY ends it, too.
fn is_ended(killed: Kill) -> Poll<()> {
    if killed >= Kill::Query { Poll::Ready(()) } else { Poll::Pending }
}
