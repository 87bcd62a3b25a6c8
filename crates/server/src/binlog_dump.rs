//! COM_REGISTER_SLAVE, COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID: a replica reads the binary log.
//!
//! REPL-4: a dump reads the next events when the replica has taken those before, so a slow replica
//! makes nobody wait, and no memory grows.
//! REPL-5: a dump ends when its replica is gone, is killed, or dumps on another connection.
//!
//! A dump is the last command of its connection, also if it fails. (MySQL, `com_binlog_dump`)
use crate::backend::{Backend, BinlogSource, Session};
use crate::connection::{Channel, Connection, Over};
use crate::error;
use crate::protocol::lenenc::{Malformed, Reader};
use crate::protocol::output::OkPacket;
use crate::protocol::packet::MAX_BODY;
use crate::socket::Ended;
use redolith_binlog::{Checksum, GtidSet, Uuid};
use redolith_replication::Replica;
use redolith_replication::dump::{Dump, DumpError, Start, Step};
use redolith_sql::processes::{Kill, State};
use redolith_sql::status::Counter;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The flag of a dump that ends where the binary log ends.
const NON_BLOCK: u16 = 1;
/// The longest set of GTIDs that is taken: tens of thousands of intervals.
const MAX_SET_BYTES: usize = 1 << 20;
/// Events of more bytes are sent from the dump's buffer, without a copy.
const LONG_EVENT: usize = 16 << 10;
/// A replica that asks for heartbeats more often gets them this often.
const LEAST_HEARTBEAT: Duration = Duration::from_millis(1);

/// What a replica asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    flags: u16,
    server_id: u32,
    start: Start,
}

impl Request {
    /// COM_BINLOG_DUMP: position, flags, server id, name of the file.
    fn by_position(r: &mut Reader<'_>) -> Result<Request, Malformed> {
        let (position, flags, server_id) = (r.u32()?.into(), r.u16()?, r.u32()?);
        let name = r.rest().to_vec();
        Ok(Request { flags, server_id, start: Start::File { name, position } })
    }
    /// COM_BINLOG_DUMP_GTID: flags, server id, length and name of a file, position, length and
    /// bytes of the set. File and position count for nothing.
    fn by_gtids(r: &mut Reader<'_>) -> Result<Request, Malformed> {
        let (flags, server_id, name) = (r.u16()?, r.u32()?, r.u32()?);
        r.bytes(name as usize)?;
        r.u64()?;
        let len = r.u32()? as usize;
        let bytes = r.bytes(len)?;
        if len > MAX_SET_BYTES {
            return Err(Malformed);
        }
        let set = GtidSet::decode(bytes).map_err(|_| Malformed)?;
        Ok(Request { flags, server_id, start: Start::Gtids(set) })
    }
}

/// The fields of COM_REGISTER_SLAVE: server id, host, user, password, port, rank, source's id.
fn registration(r: &mut Reader<'_>) -> Result<Replica, Malformed> {
    let text = |r: &mut Reader<'_>| -> Result<String, Malformed> {
        let len = r.u8()?;
        Ok(String::from_utf8_lossy(r.bytes(len.into())?).into_owned())
    };
    let server_id = r.u32()?;
    let (host, _user, _password) = (text(r)?, text(r)?, text(r)?);
    let port = r.u16()?;
    Ok(Replica { server_id, host, port, is_registered: true, ..Replica::default() })
}

fn refused(e: DumpError) -> Over {
    Over::Refused(error::dump_failed(e.0))
}

impl Channel {
    /// Sends an event, or puts it into the output buffer.
    async fn put_event(&mut self, event: &[u8]) -> Result<(), Ended> {
        if event.len() < LONG_EVENT {
            self.output.packet(|b| {
                b.push(0);
                b.extend_from_slice(event);
            });
            return self.drain().await;
        }
        let (mut rest, mut mark) = (event, &[0u8][..]);
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
        let Ok(Request { flags, server_id, start }) = request else {
            return Err(Over::Refused(error::malformed_packet()));
        };
        let id = self.channel.process.id;
        let replicas = source.binlog.replicas();
        for old in replicas.begin_dump(id, server_id, self.replica_uuid()) {
            self.server.processes.kill(old, Kill::Connection);
        }
        let checksum = match self.replica_variable("binlog_checksum") {
            Some(name) if name.eq_ignore_ascii_case("CRC32") => Some(Checksum::Crc32),
            Some(name) if name.eq_ignore_ascii_case("NONE") => Some(Checksum::None),
            _ => None,
        };
        let (mut begun, mut start) = (None, Some(start));
        source.runtime.work_long(&mut || {
            begun = start.take().map(|start| Dump::begin(&source.binlog, start, checksum));
        });
        match begun {
            Some(dump) => self.follow(&source, dump.map_err(refused)?, flags).await,
            None => Err(Over::Refused(error::interrupted())),
        }
    }

    async fn follow(
        &mut self,
        source: &BinlogSource,
        mut dump: Dump,
        flags: u16,
    ) -> Result<(), Over> {
        let period = self
            .replica_variable("heartbeat_period")
            .and_then(|ns| ns.parse().ok())
            .filter(|ns| *ns > 0)
            .map(|ns| Duration::from_nanos(ns).max(LEAST_HEARTBEAT));
        let mut heartbeat = pin!(sleep(period.unwrap_or_default()));
        let process = self.channel.process.clone();
        loop {
            let seen = source.binlog.seen();
            process.set_state(State::SendingBinlog);
            self.send_published(source, &mut dump).await?;
            if flags & NON_BLOCK != 0 {
                let status = self.session.status();
                let ok = OkPacket { status, ..OkPacket::default() };
                self.channel.output.eof(self.capabilities, &ok);
                self.channel.drain_all().await?;
                return Err(Over::Quit);
            }
            if !self.channel.output.buf.is_empty() {
                self.channel.drain_all().await?;
                heartbeat.as_mut().reset(Instant::now() + period.unwrap_or_default());
            }
            process.set_state(State::BinlogSent);
            // A replica that is content says nothing.
            let gone = async {
                match self.channel.socket.read(self.channel.input.room()).await {
                    Ok(_) => Over::Quit,
                    Err(ended) => ended.into(),
                }
            };
            tokio::select! {
                () = source.binlog.moved_since(seen) => {}
                over = gone => return Err(over),
                () = poll_fn(|_| is_ended(process.killed())) => return Err(Ended::Killed.into()),
                () = &mut heartbeat, if period.is_some() => {
                    self.channel.put_event(&dump.heartbeat()).await?;
                }
            }
        }
    }

    /// Sends everything that is published. The last bytes may be left in the output buffer.
    async fn send_published(&mut self, source: &BinlogSource, dump: &mut Dump) -> Result<(), Over> {
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
            if step.map_err(refused)? == Step::End {
                return Ok(());
            }
            if self.channel.kept_bytes != statements + dump.bytes() {
                self.channel.kept_bytes = statements + dump.bytes();
                self.channel.count_memory().map_err(Over::Refused)?;
            }
            self.channel.put_event(dump.event()).await?;
        }
    }

    /// `@source_name` or, as older replicas call it, `@master_name`.
    fn replica_variable(&self, name: &str) -> Option<String> {
        let value = |of: &str| self.session.user_variable(&format!("{of}_{name}"));
        value("source").or_else(|| value("master"))
    }
    fn replica_uuid(&self) -> Option<Uuid> {
        let uuid = self.session.user_variable("replica_uuid");
        uuid.or_else(|| self.session.user_variable("slave_uuid"))?.parse().ok()
    }
}

/// Whether a dump is to end. KILL QUERY ends it, too.
fn is_ended(killed: Kill) -> Poll<()> {
    if killed >= Kill::Query { Poll::Ready(()) } else { Poll::Pending }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_their_cut_forms_refused() {
        let by_position = [&[4, 0, 0, 0, 1, 0, 9, 0, 0, 0][..], b"binlog.000007"].concat();
        let file = |name: &[u8]| Start::File { name: name.to_vec(), position: 4 };
        let read = |bytes: &[u8]| Request::by_position(&mut Reader::new(bytes));
        let wanted = Request { flags: 1, server_id: 9, start: file(b"binlog.000007") };
        assert_eq!(read(&by_position).unwrap(), wanted);
        assert_eq!(read(&by_position[..10]).unwrap().start, file(b""));
        (0..10).for_each(|cut| assert!(read(&by_position[..cut]).is_err()));

        let mut by_gtids = vec![0, 0, 9, 0, 0, 0, 2, 0, 0, 0, b'x', b'y'];
        by_gtids.extend_from_slice(&4u64.to_le_bytes());
        by_gtids.extend_from_slice(&8u32.to_le_bytes());
        by_gtids.extend_from_slice(&[0; 8]);
        let read = |bytes: &[u8]| Request::by_gtids(&mut Reader::new(bytes));
        assert_eq!(read(&by_gtids).unwrap().start, Start::Gtids(GtidSet::new()));
        (0..by_gtids.len()).for_each(|cut| assert!(read(&by_gtids[..cut]).is_err()));
        by_gtids[6..10].fill(0xff);
        assert!(read(&by_gtids).is_err());

        let mut register = vec![9, 0, 0, 0, 1, b'h', 0, 0, 0xea, 0x0c];
        register.extend_from_slice(&[0; 8]);
        let replica = registration(&mut Reader::new(&register)).unwrap();
        assert_eq!((replica.server_id, &*replica.host, replica.port), (9, "h", 3306));
        (0..10).for_each(|cut| assert!(registration(&mut Reader::new(&register[..cut])).is_err()));
    }
}
