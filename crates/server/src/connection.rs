//! One connection: a task that logs its client in and then answers its commands, one after the
//! other.
//!
//! CONN-1: between commands, a connection frees the buffers that it has not used for seconds.
//! CONN-2: an answer is written once, when it is complete. An answer that grows long is written in
//! parts of 64 KiB, while rows, column definitions or further results are still to come. Results of
//! earlier statements of a packet leave when a later statement waits (EARLIER-1).
//! CONN-3: however the connection ends, its transaction is rolled back, and its entry in the
//! process list and its counts are given back.
//! CONN-4: the connection's buffers and its long data are in the server's memory account. They are
//! counted before each read from the client (MEM-1).
//! CONN-5: commands that are in the buffer already run without a wait for the client, and some need
//! no answer. After each `COMMANDS_PER_TURN` of them the other tasks have their turn, and the
//! connection looks whether it is killed.
use crate::backend::{Backend, Client, Session};
use crate::error;
use crate::login::{self, LoggedIn};
use crate::login_seats::LoginSeat;
use crate::protocol::auth::Peer;
use crate::protocol::capabilities::{Capabilities, command};
use crate::protocol::output::{DRAIN_ABOVE, Output};
use crate::protocol::packet::{PacketBuffer, PacketError};
use crate::protocol::row::RowColumn;
use crate::server::Server;
use crate::socket::{Ended, Input, Socket};
use crate::statements::Statements;
use redolith_sql::SqlError;
use redolith_sql::memory::Account;
use redolith_sql::processes::{Kill, Process, State};
use redolith_sql::status::{Counter, Status};
use std::ops::Range;
use std::sync::Arc;

/// A result's list of columns with a larger capacity is freed after the command.
const KEPT_COLUMNS: usize = 256;
/// The bytes of buffers that a connection keeps from one command to the next.
const KEPT_BYTES: usize = 128 << 10;
/// CONN-5.
const COMMANDS_PER_TURN: u32 = 64;
/// The server reads this many bytes from a client that it has refused, so that the client sees the
/// error instead of a reset.
const LINGER_BYTES: usize = 64 << 20;
/// The server reads from a refused client for this long.
const LINGER_S: u32 = 10;

/// The socket, with the buffers for input and output.
pub struct Channel {
    pub socket: Socket,
    pub input: PacketBuffer,
    pub output: Output,
    pub process: Arc<Process>,
    pub status: Arc<Status>,
    pub read_timeout_s: u32,
    pub write_timeout_s: u32,
    /// The client is not authenticated yet. One time limit holds for its whole login, and no byte
    /// restarts it. A packet that is too large ends the login at once.
    pub is_logging_in: bool,
    /// The account of the buffers and of `kept_bytes`.
    pub memory: Account,
    /// Bytes that the protocol layer keeps for the client's statements.
    pub kept_bytes: usize,
    /// The packets that were received since the last read from the client, or the last turn of the
    /// other tasks (CONN-5).
    pub in_turn: u32,
}

/// The reason for the end of the conversation.
#[derive(Debug)]
pub enum Over {
    /// COM_QUIT.
    Quit,
    Ended(Ended),
    /// The client broke the protocol, or is not admitted. It gets the error, and the connection is
    /// closed.
    Refused(SqlError),
    /// There is no memory for a command's packet (MEM-1), which was read and dropped. The
    /// connection goes on.
    NoMemory(Dropped, SqlError),
}

/// A command whose packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// COM_STMT_SEND_LONG_DATA, which has no answer: the statement's next execution fails.
    LongData { statement: u32 },
    /// COM_STMT_CLOSE, which has no answer.
    Close { statement: u32 },
    /// A command that is answered with the error.
    Answered,
}
impl Dropped {
    /// `begin` is what has arrived of the packet's body. None if that does not tell what the client
    /// expects.
    fn of(begin: &[u8]) -> Option<Dropped> {
        let (&code, args) = begin.split_first()?;
        let statement = args.first_chunk().map(|id| u32::from_le_bytes(*id));
        match code {
            command::STMT_SEND_LONG_DATA => {
                statement.map(|statement| Dropped::LongData { statement })
            }
            command::STMT_CLOSE => statement.map(|statement| Dropped::Close { statement }),
            _ => Some(Dropped::Answered),
        }
    }
}
impl From<Ended> for Over {
    fn from(e: Ended) -> Over {
        Over::Ended(e)
    }
}

impl Channel {
    /// Receives the next packet. It must have the number `self.output.sequence`, and the packets of
    /// the answer get the numbers after it.
    pub async fn receive(&mut self, max_body: usize) -> Result<Range<usize>, Over> {
        self.in_turn += 1;
        if self.in_turn > COMMANDS_PER_TURN {
            self.in_turn = 1;
            tokio::task::yield_now().await;
            if self.process.killed() >= Kill::Connection {
                return Err(Ended::Killed.into());
            }
        }
        loop {
            match self.input.next(&mut self.output.sequence, max_body) {
                Ok(Some(body)) => return Ok(body),
                Ok(None) => {}
                Err(PacketError::OutOfOrder) => {
                    self.output.sequence = self.output.sequence.wrapping_add(1);
                    return Err(Over::Refused(error::packets_out_of_order()));
                }
                Err(PacketError::TooLarge) => {
                    if self.is_logging_in {
                        self.output.sequence = self.output.sequence.wrapping_add(1);
                    } else {
                        self.discard_chain().await?;
                    }
                    return Err(Over::Refused(error::packet_too_large()));
                }
            }
            self.input.room();
            if let Err(e) = self.count_memory() {
                return Err(self.no_memory(e).await?);
            }
            if self.input.is_partial() && !self.is_logging_in {
                self.process.wait_in_command(State::ReadingFromNet, self.read_timeout_s);
            }
            self.in_turn = 1;
            match self.socket.read(self.input.room()).await? {
                Input::Bytes(_) => {}
                Input::TrimBuffers => self.trim(),
                Input::AnswerLeft => self.socket.flush(self.write_timeout_s).await?,
            }
        }
    }

    /// Reads the rest of a packet that is too large, so that the error arrives where the client
    /// expects the answer.
    async fn discard_chain(&mut self) -> Result<(), Ended> {
        self.process.wait_in_command(State::ReadingFromNet, LINGER_S);
        while !self.input.discard(&mut self.output.sequence) {
            if self.socket.read(self.input.room()).await? == Input::AnswerLeft {
                self.socket.flush(self.write_timeout_s).await?;
            }
        }
        Ok(())
    }

    /// Counts the buffers (CONN-4).
    pub fn count_memory(&mut self) -> Result<(), SqlError> {
        let buffers = self.buffer_bytes();
        self.memory.set(buffers + self.kept_bytes)
    }
    fn buffer_bytes(&self) -> usize {
        self.input.capacity() + self.output.buf.capacity() + self.socket.aside_capacity()
    }
    /// Handles a packet for which there is no memory. The error arrives where the client expects
    /// the answer; if nobody knows whether it expects an answer, the connection ends.
    #[cold]
    async fn no_memory(&mut self, e: SqlError) -> Result<Over, Ended> {
        let command = Dropped::of(self.input.begun()).filter(|_| !self.is_logging_in);
        let Some(command) = command else {
            self.output.sequence = self.output.sequence.wrapping_add(1);
            return Ok(Over::Refused(e));
        };
        self.discard_chain().await?;
        self.input.shrink();
        Ok(Over::NoMemory(command, e))
    }

    fn trim(&mut self) {
        self.input.trim();
        self.output.trim();
        self.socket.trim();
    }
    /// Prepares for the wait for the next command: frees large buffers at once. Returns whether
    /// buffers are left, which are freed when no command comes for a while (CONN-1).
    fn give_back_memory(&mut self) -> bool {
        let bytes = self.buffer_bytes();
        if bytes > KEPT_BYTES {
            self.trim();
        }
        bytes > 0
    }

    /// Sends what there is of an answer, if it has grown long (CONN-2).
    pub async fn drain(&mut self) -> Result<(), Ended> {
        if self.output.buf.len() > DRAIN_ABOVE { self.drain_all().await } else { Ok(()) }
    }
    /// Sends what there is of an answer that goes on.
    pub async fn drain_all(&mut self) -> Result<(), Ended> {
        let bytes = self.socket.newly_sent(self.output.buf.len());
        self.status.counters.add(Counter::BytesSent, bytes);
        self.socket.write_all(&self.output.buf, self.write_timeout_s).await?;
        self.output.sent();
        Ok(())
    }
    /// Sends the rest of a command's answer. It is long if it ends with a long row, or if the
    /// statement was killed while its client did not read. Such a rest is counted (CONN-4), if
    /// there is memory for it. It is sent also if there is not, because the client
    /// cannot do without it, and the memory is taken already.
    async fn finish(&mut self) -> Result<(), Ended> {
        if self.output.buf.len() > DRAIN_ABOVE {
            let _ = self.count_memory();
        }
        self.flush().await
    }
    /// Sends the answer.
    pub async fn flush(&mut self) -> Result<(), Ended> {
        if !self.output.buf.is_empty() {
            let bytes = self.socket.newly_sent(self.output.buf.len());
            self.status.counters.add(Counter::BytesSent, bytes);
            self.socket.send(&mut self.output.buf, self.write_timeout_s).await?;
        }
        Ok(())
    }
}

pub struct Connection<B: Backend> {
    pub server: Arc<Server<B>>,
    pub channel: Channel,
    pub session: B::Session,
    pub capabilities: Capabilities,
    pub peer: Peer,
    pub statements: Statements,
    /// The columns of the result set that is being sent. The list is kept for its memory.
    pub columns: Vec<RowColumn>,
}

/// From now on a kill wakes the calling task.
pub(crate) async fn be_woken_by(process: &Process) {
    std::future::poll_fn(|cx| {
        process.set_waker(cx.waker());
        std::task::Poll::Ready(())
    })
    .await;
}

/// Serves a client from its first byte to its last.
pub async fn serve<B: Backend>(
    server: Arc<Server<B>>,
    socket: Socket,
    peer: Peer,
    process: Arc<Process>,
    seat: LoginSeat,
) {
    let (input, output) = (PacketBuffer::default(), Output::default());
    let timeout = server.backend.limits().connect_timeout_s;
    let mut channel = Channel {
        socket,
        input,
        output,
        process,
        status: server.status.clone(),
        read_timeout_s: timeout,
        write_timeout_s: timeout,
        is_logging_in: true,
        memory: Account::new(server.backend.memory()),
        kept_bytes: 0,
        in_turn: 0,
    };
    be_woken_by(&channel.process).await;
    let id = channel.process.id;
    let _entry = Entry { server: &*server, id };
    let done = login::log_in(&server, &mut channel, &peer).await;
    // The client may have been told to give way after its login was complete.
    let done = done.and_then(|login| {
        if channel.process.killed() >= Kill::Connection {
            Err(Ended::Killed.into())
        } else {
            Ok(login)
        }
    });
    channel.is_logging_in = false;
    match done {
        Err(over) => {
            server.status.counters.add(Counter::AbortedConnects, 1);
            say_goodbye(&mut channel, over).await;
        }
        Ok(login) => {
            drop(seat);
            // Most of the task's state is for commands. It is allocated only for clients that have
            // logged in.
            Box::pin(attend(&server, channel, login, peer)).await;
        }
    }
}

/// The conversation with a client that has logged in.
async fn attend<B: Backend>(
    server: &Arc<Server<B>>,
    mut channel: Channel,
    login: LoggedIn,
    peer: Peer,
) {
    let Some(seat) = server.take_seat(login.privileges) else {
        server.status.counters.add(Counter::ConnectionErrorsMaxConnections, 1);
        server.status.counters.add(Counter::AbortedConnects, 1);
        return say_goodbye(&mut channel, Over::Refused(error::too_many_connections())).await;
    };
    let client = Client {
        process: channel.process.clone(),
        user: login.user,
        host: peer.host(),
        collation_id: login.collation_id,
        capabilities: login.capabilities,
    };
    let session = server.backend.session(client);
    let mut connection = Connection {
        server: server.clone(),
        channel,
        session,
        capabilities: login.capabilities,
        peer,
        statements: Statements::default(),
        columns: Vec::new(),
    };
    let over = connection.converse(login.database).await;
    if matches!(over, Over::Ended(_)) {
        server.status.counters.add(Counter::AbortedClients, 1);
    }
    connection.session.end().await;
    // The seat is given back first, because the goodbye may take seconds.
    drop(seat);
    say_goodbye(&mut connection.channel, over).await;
}

/// Removes the process list's entry when the task ends, however it ends.
struct Entry<'a, B: Backend> {
    server: &'a Server<B>,
    id: u32,
}
impl<B: Backend> Drop for Entry<'_, B> {
    fn drop(&mut self) {
        self.server.processes.remove(self.id);
        if let Some(source) = self.server.backend.binlog() {
            source.binlog.replicas().remove(self.id);
        }
    }
}

async fn say_goodbye(channel: &mut Channel, over: Over) {
    // Sends the answers of the commands that the client sent before it left. It has no seat any
    // more, so its own timeout, which may be a year, must not keep the socket.
    if channel.socket.flush(channel.write_timeout_s.min(LINGER_S)).await.is_err() {
        return;
    }
    let error = match over {
        Over::Refused(e) => e,
        Over::Ended(Ended::Killed) => match channel.process.killed() {
            Kill::Shutdown => error::shutdown(),
            Kill::Idle => error::inactive(),
            _ => return,
        },
        _ => return,
    };
    let may_still_send = matches!(error.code, 1153 | 1156);
    channel.output.error(error.code, &error.sqlstate, &error.message, None);
    if channel.flush().await.is_ok() && may_still_send {
        channel.process.wait_in_command(State::ReadingFromNet, LINGER_S);
        channel.socket.linger(LINGER_BYTES).await;
    }
}

impl<B: Backend> Connection<B> {
    /// Sends the OK of the login, then answers commands until one of them ends the connection.
    async fn converse(&mut self, database: Option<Vec<u8>>) -> Over {
        if let Some(name) = database
            && let Err(e) = self.session.init_db(&name).await
        {
            return Over::Refused(e);
        }
        self.answer_ok();
        loop {
            if let Err(e) = self.channel.finish().await {
                return e.into();
            }
            self.channel.output.sequence = 0;
            self.channel.read_timeout_s = self.session.net_read_timeout_s();
            self.channel.write_timeout_s = self.session.net_write_timeout_s();
            let holds_buffers = self.channel.give_back_memory();
            self.channel.kept_bytes = self.statements.bytes();
            if self.columns.capacity() > KEPT_COLUMNS {
                self.columns = Vec::new();
            }
            self.channel.process.idle(self.session.wait_timeout_s(), holds_buffers);
            let received = self.channel.receive(self.session.max_allowed_packet()).await;
            let done = match received {
                Ok(body) => self.command(body).await,
                Err(Over::NoMemory(command, e)) => {
                    self.dropped(command, e);
                    Ok(())
                }
                Err(over) => Err(over),
            };
            if let Err(over) = done {
                return over;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Stream;
    use redolith_sql::memory::ServerMemory;
    use redolith_sql::processes::Processes;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// More than a socket holds.
    const REST: usize = 4 << 20;

    fn channel(processes: &Processes) -> (Channel, UnixStream) {
        let process = processes.add("h", 10);
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = Socket::new(
            Stream::Unix(tokio::net::UnixStream::from_std(ours).unwrap()),
            process.clone(),
        );
        let (input, output, status) =
            (PacketBuffer::default(), Output::default(), Arc::new(Status::new()));
        let memory = Account::new(&ServerMemory::new());
        let (read_timeout_s, write_timeout_s, is_logging_in, kept_bytes) = (5, 5, false, 0);
        let channel = Channel {
            socket,
            input,
            output,
            process,
            status,
            read_timeout_s,
            write_timeout_s,
            is_logging_in,
            memory,
            kept_bytes,
            in_turn: 0,
        };
        (channel, theirs)
    }

    #[test]
    fn a_dropped_packet_tells_by_its_beginning_whether_it_is_answered() {
        let of = |code: u8, args: &[u8]| Dropped::of(&[&[code], args].concat());
        let id = [7, 1, 0, 0, 9];
        let long_data = Dropped::LongData { statement: 263 };
        assert_eq!(of(command::STMT_SEND_LONG_DATA, &id), Some(long_data));
        assert_eq!(of(command::STMT_CLOSE, &id), Some(Dropped::Close { statement: 263 }));
        assert_eq!(of(command::QUERY, b""), Some(Dropped::Answered));
        assert_eq!(of(command::STMT_SEND_LONG_DATA, &id[..3]), None);
        assert_eq!(Dropped::of(b""), None);
    }

    /// Packets of COM_STMT_CLOSE, which has no answer.
    fn closes(n: usize) -> Vec<u8> {
        [5, 0, 0, 0, command::STMT_CLOSE, 1, 0, 0, 0].repeat(n)
    }

    /// Tests CONN-5.
    #[tokio::test]
    async fn commands_without_answers_let_others_run_and_end_by_a_kill() {
        const COMMANDS: usize = 1000;
        let (mut channel, _theirs) = channel(&Processes::new());
        channel.input.room().extend(closes(COMMANDS));
        let turns = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..COMMANDS - 100 {
            channel.output.sequence = 0;
            channel.receive(100).await.unwrap();
        }
        let turns = turns.load(std::sync::atomic::Ordering::Relaxed);
        assert!(turns >= (COMMANDS - 100) / COMMANDS_PER_TURN as usize, "{turns}");
        other.abort();
        channel.process.kill(Kill::Connection);
        for _ in 0..COMMANDS_PER_TURN {
            channel.output.sequence = 0;
            if channel.receive(100).await.is_err() {
                return;
            }
        }
        panic!("a killed connection goes on");
    }

    #[tokio::test]
    async fn a_large_buffer_is_freed_also_when_a_part_of_a_packet_is_in_it() {
        let (mut channel, _theirs) = channel(&Processes::new());
        channel.input.room().reserve_exact(8 << 20);
        channel.input.room().extend(closes(10));
        channel.input.room().extend(&closes(1)[..6]);
        for _ in 0..10 {
            channel.output.sequence = 0;
            channel.receive(100).await.unwrap();
        }
        assert!(channel.give_back_memory() && channel.input.capacity() < KEPT_BYTES);
        channel.input.room().extend(&closes(1)[6..]);
        channel.output.sequence = 0;
        let body = channel.receive(100).await.unwrap();
        assert_eq!(channel.input.body(body), &closes(1)[4..]);
    }

    /// Tests OUT-2.
    #[tokio::test]
    async fn the_last_answer_reaches_a_client_that_has_said_goodbye() {
        for over in [Over::Quit, Over::Ended(Ended::Gone)] {
            let (mut channel, mut theirs) = channel(&Processes::new());
            channel.socket.leave(vec![9; REST]);
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                theirs.read_to_end(&mut got).unwrap();
                got.len()
            });
            say_goodbye(&mut channel, over).await;
            drop(channel);
            assert_eq!(reader.join().unwrap(), REST);
        }
    }

    #[tokio::test]
    async fn a_refused_client_that_stays_is_read_from_for_a_while_only() {
        let processes = Processes::new();
        let (mut channel, mut theirs) = channel(&processes);
        let process = channel.process.clone();
        channel.socket.leave(vec![9; REST]);
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).unwrap();
            (theirs, got.len())
        });
        let lingering = tokio::spawn(async move {
            be_woken_by(&channel.process).await;
            channel.process.wait_in_command(State::ReadingFromNet, LINGER_S);
            channel.socket.linger(LINGER_BYTES).await;
        });
        let reader = tokio::task::spawn_blocking(|| reader.join().unwrap());
        // The client has read everything. It neither sends nor closes.
        let (_theirs, got) = reader.await.unwrap();
        assert_eq!(got, REST);
        processes.tick(LINGER_S);
        assert_eq!(process.killed(), Kill::None);
        processes.tick(LINGER_S + 1);
        assert_eq!(process.killed(), Kill::Connection);
        tokio::time::timeout(Duration::from_secs(20), lingering).await.expect("an end").unwrap();
    }

    #[tokio::test]
    async fn a_client_that_takes_an_answer_late_still_has_to_speak() {
        let processes = Processes::new();
        let (mut channel, mut theirs) = channel(&processes);
        let process = channel.process.clone();
        process.idle(7, false);
        channel.socket.leave(vec![9; REST]);
        let conversation = tokio::spawn(async move {
            be_woken_by(&channel.process).await;
            channel.receive(100).await.map(drop)
        });
        let taken = tokio::task::spawn_blocking(move || {
            theirs.read_exact(&mut vec![0; REST]).unwrap();
            theirs
        });
        let _theirs = taken.await.unwrap();
        while process.waits().0 == State::SendingToClient {
            tokio::task::yield_now().await;
        }
        processes.tick(8);
        assert_eq!(process.killed(), Kill::Idle);
        assert!(matches!(conversation.await.unwrap(), Err(Over::Ended(Ended::Killed))));
    }
}
