//! Executes the commands of the protocol (COM_*) and answers them.
use crate::backend::{Backend, Session};
use crate::client_file::ClientFile;
use crate::connection::{Connection, Dropped, Over};
use crate::cursor::{MOST_FILES, Opening};
use crate::error;
use crate::login::{self, MAX_LOGIN_BODY};
use crate::protocol::capabilities::{Capabilities, command};
use crate::protocol::column;
use crate::protocol::handshake::Login;
use crate::protocol::lenenc::Reader;
use crate::protocol::output::OkPacket;
use crate::protocol::parameters::{BadParameters, Parameters};
use crate::result_writer::{Format, RowState, Wire};
use crate::socket::Ended;
use redolith_sql::exec::eval::like;
use redolith_sql::plan::expr_type::ExprType;
use redolith_sql::processes::{Command, Kill};
use redolith_sql::session::MAX_NAME_BYTES;
use redolith_sql::status::Counter;
use redolith_sql::{ColumnMeta, ResultSink, SqlError};
use redolith_types::{Collation, Value};
use smallvec::SmallVec;
use std::ops::Range;

/// Parameters held without allocation.
const FEW_PARAMETERS: usize = 8;
/// The bit of COM_STMT_EXECUTE's flags that asks for a cursor.
const CURSOR_TYPE_READ_ONLY: u8 = 1;

/// Why an execution does not begin.
enum NotDecoded {
    Bad(BadParameters),
    /// There is no memory for the types of the parameters.
    NoMemory(SqlError),
}
impl From<BadParameters> for NotDecoded {
    fn from(bad: BadParameters) -> NotDecoded {
        NotDecoded::Bad(bad)
    }
}
impl From<SqlError> for NotDecoded {
    fn from(e: SqlError) -> NotDecoded {
        NotDecoded::NoMemory(e)
    }
}

/// Borrows the connection's parts for a command's results. This is a macro because callers use
/// `session` and `input` at the same time.
macro_rules! wire {
    ($c:ident, $format:expr) => {
        Wire {
            output: &mut $c.channel.output,
            socket: &mut $c.channel.socket,
            counters: &$c.server.status.counters,
            capabilities: $c.capabilities,
            format: $format,
            write_timeout_s: $c.channel.write_timeout_s,
            read_timeout_s: $c.channel.read_timeout_s,
            has_input: $c.channel.input.is_partial(),
            file: ClientFile::default(),
            status: $c.session.status(),
            results: $c.session.results_collation(),
            row: RowState { columns: &mut $c.columns, packet_at: 0, open: false, next_column: 0 },
            aside: 0,
            cursor: None,
        }
    };
}

impl<B: Backend> Connection<B> {
    /// Runs one command; its answer is left in the output buffer.
    pub async fn command(&mut self, body: Range<usize>) -> Result<(), Over> {
        let counters = &self.server.status.counters;
        counters.add(Counter::BytesReceived, body.len() as u64 + 4);
        let Some((&code, args)) = self.channel.input.body(body.clone()).split_first() else {
            self.answer_error(&error::unknown_command());
            return Ok(());
        };
        let process = &self.channel.process;
        process.forget_kill_query();
        let args_at = body.start + 1..body.end;
        match code {
            command::QUERY => {
                process.begin(Command::Query, args);
                counters.add(Counter::Questions, 1);
                counters.add(Counter::Queries, 1);
                let mut wire = wire!(self, Format::Text);
                self.session.query(self.channel.input.body(args_at), &mut wire).await;
                wire.take_back();
                if wire.file.is_broken() {
                    // FILE-3: the client gets the error, if it listens.
                    self.channel.flush().await?;
                    return Err(Ended::Gone.into());
                }
            }
            command::STMT_EXECUTE => {
                counters.add(Counter::Questions, 1);
                counters.add(Counter::Queries, 1);
                counters.add(Counter::ComStmtExecute, 1);
                let mark = self.channel.memory.used();
                self.execute(args_at).await;
                self.channel.memory.release_to(mark);
            }
            command::STMT_PREPARE => {
                process.begin(Command::Prepare, args);
                counters.add(Counter::ComStmtPrepare, 1);
                let mark = self.channel.memory.used();
                self.prepare(args_at).await?;
                self.channel.memory.release_to(mark);
            }
            command::STMT_CLOSE => {
                process.begin(Command::CloseStmt, b"");
                counters.add(Counter::ComStmtClose, 1);
                self.close_statement(args_at);
            }
            command::STMT_SEND_LONG_DATA => {
                process.begin(Command::LongData, b"");
                counters.add(Counter::ComStmtSendLongData, 1);
                self.add_long_data(args_at);
            }
            command::STMT_RESET => {
                process.begin(Command::ResetStmt, b"");
                counters.add(Counter::ComStmtReset, 1);
                self.reset_statement(args_at);
            }
            command::STMT_FETCH => {
                process.begin(Command::Fetch, b"");
                counters.add(Counter::ComStmtFetch, 1);
                let mark = self.channel.memory.used();
                self.fetch(args_at).await;
                self.channel.memory.release_to(mark);
            }
            command::PING => {
                process.begin(Command::Ping, b"");
                counters.add(Counter::ComAdminCommands, 1);
                self.answer_ok();
            }
            command::QUIT => {
                process.begin(Command::Quit, b"");
                return Err(Over::Quit);
            }
            command::INIT_DB => {
                process.begin(Command::InitDb, b"");
                counters.add(Counter::ComChangeDb, 1);
                let done = self.session.init_db(self.channel.input.body(args_at)).await;
                self.answer(done);
            }
            command::FIELD_LIST => {
                process.begin(Command::FieldList, args);
                let mark = self.channel.memory.used();
                self.field_list(args_at).await?;
                self.channel.memory.release_to(mark);
            }
            command::STATISTICS => {
                process.begin(Command::Statistics, b"");
                counters.add(Counter::ComAdminCommands, 1);
                let line = self.server.statistics_line();
                self.channel.output.packet(|b| b.extend_from_slice(line.as_bytes()));
            }
            command::PROCESS_KILL => {
                process.begin(Command::Kill, b"");
                self.kill(args_at);
            }
            command::SET_OPTION => {
                process.begin(Command::SetOption, b"");
                self.set_option(args_at);
            }
            command::RESET_CONNECTION => {
                process.begin(Command::ResetConnection, b"");
                counters.add(Counter::ComAdminCommands, 1);
                self.session.reset().await;
                self.statements.clear();
                self.answer_ok();
            }
            command::CHANGE_USER => {
                process.begin(Command::ChangeUser, b"");
                return self.change_user(args_at).await;
            }
            command::REGISTER_SLAVE => {
                process.begin(Command::RegisterReplica, b"");
                counters.add(Counter::ComAdminCommands, 1);
                self.register_replica(args_at);
            }
            command::BINLOG_DUMP => {
                process.begin(Command::BinlogDump, b"");
                counters.add(Counter::ComAdminCommands, 1);
                return Box::pin(self.dump_binlog(args_at, false)).await;
            }
            command::BINLOG_DUMP_GTID => {
                process.begin(Command::BinlogDumpGtid, b"");
                counters.add(Counter::ComAdminCommands, 1);
                return Box::pin(self.dump_binlog(args_at, true)).await;
            }
            _ => {
                counters.add(Counter::ComAdminCommands, 1);
                self.answer_error(&error::unknown_command());
            }
        }
        Ok(())
    }

    /// Answers a command whose packet was dropped, if the command has an answer.
    pub fn dropped(&mut self, command: Dropped, why: SqlError) {
        match command {
            Dropped::LongData { statement } => self.statements.refuse_long_data(statement, why),
            Dropped::Close { statement } => self.close(statement),
            Dropped::Answered => self.answer_error(&why),
        }
    }

    pub fn answer_ok(&mut self) {
        let status = self.session.status();
        self.channel.output.ok(&OkPacket { status, ..OkPacket::default() });
    }
    pub fn answer_error(&mut self, e: &SqlError) {
        self.channel.output.error(
            e.code,
            &e.sqlstate,
            &e.message,
            self.session.results_collation(),
        );
    }
    fn answer(&mut self, done: Result<(), SqlError>) {
        match done {
            Ok(()) => self.answer_ok(),
            Err(e) => self.answer_error(&e),
        }
    }

    async fn prepare(&mut self, text: Range<usize>) -> Result<(), Ended> {
        let prepared = match self.session.prepare(self.channel.input.body(text)).await {
            Ok(p) if p.params.len() <= u16::MAX as usize => p,
            Ok(p) => {
                self.session.close_statement(p.id);
                self.answer_error(&error::too_many_parameters());
                return Ok(());
            }
            Err(e) => {
                self.answer_error(&e);
                return Ok(());
            }
        };
        // The definitions are kept while they are sent.
        let bytes = size_of_val(&*prepared.params) + size_of_val(&*prepared.columns);
        if let Err(e) = self.channel.memory.charge(bytes) {
            self.session.close_statement(prepared.id);
            self.answer_error(&e);
            return Ok(());
        }
        self.statements.add(prepared.id, prepared.params.len() as u16);
        self.channel.output.packet(|b| {
            b.push(0);
            b.extend_from_slice(&prepared.id.to_le_bytes());
            b.extend_from_slice(&(prepared.columns.len() as u16).to_le_bytes());
            b.extend_from_slice(&(prepared.params.len() as u16).to_le_bytes());
            b.push(0);
            b.extend_from_slice(&prepared.warnings.to_le_bytes());
        });
        self.put_definitions(&prepared.params, |b, p: &ExprType| column::put_parameter(b, p))
            .await?;
        let results = self.session.results_collation();
        self.put_definitions(&prepared.columns, |b, c: &ColumnMeta| column::put(b, c, results))
            .await
    }

    async fn put_definitions<T: Sync>(
        &mut self,
        definitions: &[T],
        put: impl Fn(&mut Vec<u8>, &T) + Send + Sync,
    ) -> Result<(), Ended> {
        for d in definitions {
            self.channel.output.packet(|b| put(b, d));
            self.channel.drain().await?;
        }
        if !definitions.is_empty() && !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.channel.output.definitions_end(self.session.status(), 0);
        }
        Ok(())
    }

    async fn execute(&mut self, args: Range<usize>) {
        const NAME: &str = "mysqld_stmt_execute";
        let body = self.channel.input.body(args);
        let mut r = Reader::new(body);
        // Statement, flags (the cursor type), iterations.
        let (Ok(id), Ok(flags), Ok(_iterations)) = (r.u32(), r.u8(), r.u32()) else {
            self.channel.process.begin(Command::Execute, b"");
            return self.answer_error(&error::malformed_packet());
        };
        let Some(mut statement) = self.statements.get(id) else {
            self.channel.process.begin(Command::Execute, b"");
            return self.answer_error(&error::unknown_statement(id, NAME));
        };
        self.channel.process.begin(Command::Execute, self.session.statement_text(id));
        self.statements.close_cursor(id);
        let long_data = match self.statements.take_long_data(id) {
            Ok(data) => data,
            Err(e) => return self.answer_error(&e),
        };
        let params = statement.params as usize;
        if params > FEW_PARAMETERS
            && let Err(e) = self.channel.memory.charge(params * size_of::<Value<'_>>())
        {
            return self.answer_error(&e);
        }
        let mut values: SmallVec<[Value<'_>; FEW_PARAMETERS]> = SmallVec::new();
        values.reserve(params);
        let mut binary: SmallVec<[u32; FEW_PARAMETERS]> = SmallVec::new();
        if statement.params > 0 {
            let mut decode = || {
                let p = Parameters::read(r.rest(), params).map_err(BadParameters::Malformed)?;
                if let Some(types) = p.types() {
                    let memory = &mut self.channel.memory;
                    statement = self.statements.bind(id, statement, types, memory)?;
                }
                let types = self.statements.types(statement).ok_or(BadParameters::NoTypes)?;
                binary.extend((0..).zip(types).filter(|(_, ty)| ty.is_binary()).map(|(n, _)| n));
                p.values(types, |i| long_data.of(i), &mut values)?;
                Ok(())
            };
            let decoded: Result<(), NotDecoded> = decode();
            if let Err(e) = decoded {
                drop(values);
                return self.answer_error(&match e {
                    NotDecoded::Bad(BadParameters::Malformed(_)) => error::malformed_packet(),
                    NotDecoded::Bad(_) => error::wrong_arguments(NAME),
                    NotDecoded::NoMemory(e) => e,
                });
            }
        }
        let mut wire = wire!(self, Format::Binary);
        // As in MySQL, the bits of the other types of cursors alone open none.
        if flags & CURSOR_TYPE_READ_ONLY != 0 {
            let space = self.server.backend.cursor_space();
            let (memory, sequence) = (self.channel.memory.beside(), wire.output.sequence);
            let may_have_file = self.statements.cursor_files() < MOST_FILES;
            wire.cursor = Some(Box::new(Opening::new(space, may_have_file, memory, sequence)));
        }
        self.session.execute(id, &values, &binary, &mut wire).await;
        if let Some(cursor) = wire.cursor.and_then(|opening| opening.into_cursor()) {
            self.statements.keep_cursor(id, cursor);
        }
    }

    fn close_statement(&mut self, args: Range<usize>) {
        if let Ok(id) = Reader::new(self.channel.input.body(args)).u32() {
            self.close(id);
        }
    }
    fn close(&mut self, id: u32) {
        if self.statements.remove(id) {
            self.session.close_statement(id);
        }
    }

    fn add_long_data(&mut self, args: Range<usize>) {
        let mut r = Reader::new(self.channel.input.body(args));
        if let (Ok(id), Ok(parameter)) = (r.u32(), r.u16()) {
            let (data, most) = (r.rest(), self.session.max_allowed_packet());
            let memory = &mut self.channel.memory;
            self.statements.add_long_data(id, parameter, data, most, memory);
        }
    }

    fn reset_statement(&mut self, args: Range<usize>) {
        let Ok(id) = Reader::new(self.channel.input.body(args)).u32() else {
            return self.answer_error(&error::malformed_packet());
        };
        if self.statements.get(id).is_none() {
            return self.answer_error(&error::unknown_statement(id, "mysqld_stmt_reset"));
        }
        self.statements.forget_long_data(id);
        self.statements.close_cursor(id);
        self.answer_ok();
    }

    /// COM_STMT_FETCH. An error closes the cursor, because the client cannot know which rows it has
    /// missed.
    async fn fetch(&mut self, args: Range<usize>) {
        let mut r = Reader::new(self.channel.input.body(args));
        let (Ok(id), Ok(most)) = (r.u32(), r.u32()) else {
            return self.answer_error(&error::malformed_packet());
        };
        if self.statements.get(id).is_none() {
            return self.answer_error(&error::unknown_statement(id, "mysqld_stmt_fetch"));
        }
        let Some(mut cursor) = self.statements.take_cursor(id) else {
            return self.answer_error(&error::no_open_cursor(id));
        };
        let mut wire = wire!(self, Format::Binary);
        match wire.put_fetched(&mut cursor, most, &mut self.channel.memory).await {
            Ok(true) => self.statements.keep_cursor(id, cursor),
            Ok(false) => {}
            Err(e) => wire.error(&e),
        }
    }

    /// COM_FIELD_LIST: answers with a table's columns, which are those of a statement that reads
    /// the table. Of these, the client gets the columns whose names match its pattern for LIKE.
    async fn field_list(&mut self, args: Range<usize>) -> Result<(), Ended> {
        let mut r = Reader::new(self.channel.input.body(args));
        let Ok(table) = r.nul_string() else {
            self.answer_error(&error::malformed_packet());
            return Ok(());
        };
        // No client sends a pattern that is longer than a name.
        let too_long = [table, r.rest()].into_iter().find(|name| name.len() > MAX_NAME_BYTES);
        if let Some(name) = too_long {
            let e = SqlError::name_too_long(String::from_utf8_lossy(&name[..MAX_NAME_BYTES]));
            self.answer_error(&e);
            return Ok(());
        }
        let pattern = r.rest().to_vec();
        let mut text = b"SELECT * FROM `".to_vec();
        table
            .iter()
            .for_each(|&b| text.extend(std::iter::repeat_n(b, if b == b'`' { 2 } else { 1 })));
        text.push(b'`');
        let described = self.session.describe(&text).await.and_then(|columns| {
            self.channel.memory.charge(size_of_val(&*columns))?;
            Ok(columns)
        });
        let columns = match described {
            Ok(columns) => columns,
            Err(e) => {
                self.answer_error(&e);
                return Ok(());
            }
        };
        let results = self.session.results_collation();
        let is_wanted = |c: &&ColumnMeta| {
            let name = c.name.as_bytes();
            pattern.is_empty() || like(Collation::Utf8mb4GeneralCi, Some('\\'), name, &pattern)
        };
        for c in columns.iter().filter(is_wanted) {
            self.channel.output.packet(|b| {
                column::put(b, c, results);
                // The default value is sent as NULL. A client that wants the default uses SHOW
                // COLUMNS.
                b.push(crate::protocol::lenenc::NULL);
            });
            self.channel.drain().await?;
        }
        let status = self.session.status();
        self.channel.output.eof(self.capabilities, &OkPacket { status, ..OkPacket::default() });
        Ok(())
    }

    fn kill(&mut self, args: Range<usize>) {
        match Reader::new(self.channel.input.body(args)).u32() {
            Ok(id) if self.server.processes.kill(id, Kill::Connection) => self.answer_ok(),
            Ok(id) => self.answer_error(&error::unknown_thread(id)),
            Err(_) => self.answer_error(&error::malformed_packet()),
        }
    }

    fn set_option(&mut self, args: Range<usize>) {
        match Reader::new(self.channel.input.body(args)).u16() {
            Ok(option @ 0..=1) => {
                let on = option == 0;
                self.capabilities = self.capabilities.with(Capabilities::MULTI_STATEMENTS, on);
                self.session.set_multi_statements(on);
                let status = self.session.status();
                self.channel
                    .output
                    .eof(self.capabilities, &OkPacket { status, ..OkPacket::default() });
            }
            Ok(_) => self.answer_error(&error::unknown_command()),
            Err(_) => self.answer_error(&error::malformed_packet()),
        }
    }

    /// COM_CHANGE_USER: starts a new session for another user on the same connection. A refusal
    /// ends the connection.
    async fn change_user(&mut self, args: Range<usize>) -> Result<(), Over> {
        if args.len() > MAX_LOGIN_BODY {
            return Err(Over::Refused(error::malformed_packet()));
        }
        let body = self.channel.input.body(args).to_vec();
        let login = Login::read_change_user(&body, self.capabilities, 0)
            .map_err(|_| Over::Refused(error::malformed_packet()))?;
        self.session.end().await;
        self.statements.clear();
        let changed =
            login::change_user(&self.server, &mut self.channel, &self.peer, &login).await?;
        self.session = self.server.backend.session(crate::backend::Client {
            process: self.channel.process.clone(),
            user: changed.user,
            host: self.peer.host(),
            collation_id: changed.collation_id,
            capabilities: self.capabilities,
        });
        if let Some(name) = changed.database {
            self.session.init_db(&name).await.map_err(Over::Refused)?;
        }
        self.answer_ok();
        Ok(())
    }
}
