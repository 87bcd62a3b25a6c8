//! The process list: the connections and their commands, and the way in which KILL reaches them.
//!
//! PROC-1: only its own connection writes an entry. For each command the connection does a few
//! relaxed stores and copies the beginning of the statement under a lock. The lock is free unless
//! another session reads the list.
//! PROC-2: `kill` stores its flag before it wakes the connection's task, and the task looks at the
//! flag in every poll: no kill is lost.
//! PROC-3: a KILL QUERY ends at most one statement: a statement that begins clears an earlier KILL
//! QUERY. A kill of the connection stays.
//! PROC-4: a wait that may be as long as the client likes is attended ([`Process::attend`]), and so
//! is each wait for a lock ([`KillFlag::is_waiting`]): once a second the list looks whether the
//! client is still there. If it is not, the connection is killed.
use crate::error::SqlError;
use crate::parse::charsets::TextCharsets;
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use redolith_engine::lock::KillFlag;
use redolith_engine::progress::{Progress, Seen, Stage};
use redolith_types::{Charset, Collation};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed, Ordering::SeqCst,
};
use std::task::Waker;

/// The process list shows at most this many bytes of a statement.
const INFO_BYTES: usize = 1024;

/// The request to a connection. A later variant overrides an earlier variant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kill {
    None,
    /// End the running statement: it has reached its time limit (`max_execution_time`).
    Timeout,
    /// End the running statement.
    Query,
    /// End the connection: KILL, or a time-out.
    Connection,
    /// End the connection because its client has sent no command for `wait_timeout`.
    Idle,
    /// End the connection because the server stops.
    Shutdown,
}

impl Kill {
    /// The error of a statement that is ended for this reason.
    pub fn error(self) -> SqlError {
        if self == Kill::Timeout { SqlError::query_timeout() } else { SqlError::interrupted() }
    }
}

/// The Command column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    Connect,
    Sleep,
    Query,
    Prepare,
    Execute,
    Fetch,
    LongData,
    CloseStmt,
    ResetStmt,
    InitDb,
    FieldList,
    ChangeUser,
    ResetConnection,
    SetOption,
    Statistics,
    Kill,
    Ping,
    Quit,
    Daemon,
    RegisterReplica,
    BinlogDump,
    BinlogDumpGtid,
}

impl Command {
    const ALL: [(Command, &'static str); 22] = [
        (Command::Connect, "Connect"),
        (Command::Sleep, "Sleep"),
        (Command::Query, "Query"),
        (Command::Prepare, "Prepare"),
        (Command::Execute, "Execute"),
        (Command::Fetch, "Fetch"),
        (Command::LongData, "Long Data"),
        (Command::CloseStmt, "Close stmt"),
        (Command::ResetStmt, "Reset stmt"),
        (Command::InitDb, "Init DB"),
        (Command::FieldList, "Field List"),
        (Command::ChangeUser, "Change user"),
        (Command::ResetConnection, "Reset Connection"),
        (Command::SetOption, "Set option"),
        (Command::Statistics, "Statistics"),
        (Command::Kill, "Kill"),
        (Command::Ping, "Ping"),
        (Command::Quit, "Quit"),
        (Command::Daemon, "Daemon"),
        (Command::RegisterReplica, "Register Replica"),
        (Command::BinlogDump, "Binlog Dump"),
        (Command::BinlogDumpGtid, "Binlog Dump GTID"),
    ];
    pub fn name(self) -> &'static str {
        Command::ALL[self as usize].1
    }
}

#[derive(Debug, Default)]
struct Who {
    user: Box<str>,
    host: Box<str>,
    schema: Option<Arc<str>>,
}

/// The entry of one connection.
pub struct Process {
    pub id: u32,
    who: Mutex<Who>,
    command: AtomicU8,
    /// When the command began, or when the connection began to rest.
    since_s: AtomicU32,
    /// When the current wait for the client began.
    waits_since_s: AtomicU32,
    /// Seconds after which the current wait for the client ends the connection; 0 while a command
    /// runs.
    limit_s: AtomicU32,
    /// The connection holds buffers that it could free.
    holds_buffers: AtomicBool,
    state: AtomicU8,
    /// The statement of the running command, or of the last command, as the client has sent it.
    info: Mutex<Vec<u8>>,
    /// The id of the default collation of `character_set_client`, the character set of `info`.
    client: AtomicU16,
    kill: AtomicU8,
    /// Interrupts the waits of this connection's transactions in the engine.
    pub interrupt: Arc<KillFlag>,
    /// How far the running statement has come, if it is a long one.
    pub progress: Arc<Progress>,
    waker: Mutex<Option<Waker>>,
    /// The running statement waits for something that may take as long as its client likes.
    attended: AtomicBool,
    client_is_gone: Mutex<Option<ClientIsGone>>,
    clock: Arc<AtomicU32>,
}
/// Looks whether the client has closed its connection. It must not block.
pub type ClientIsGone = Box<dyn Fn() -> bool + Send>;

/// A wait during which the process list looks after the client (PROC-4).
pub struct Attended<'a>(&'a Process);
impl Drop for Attended<'_> {
    fn drop(&mut self) {
        self.0.attended.store(false, Relaxed);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process({})", self.id)
    }
}

/// A row of SHOW PROCESSLIST.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessRow {
    pub id: u32,
    pub user: Box<str>,
    pub host: Box<str>,
    pub schema: Option<Arc<str>>,
    pub command: &'static str,
    pub time_s: u32,
    pub state: Cow<'static, str>,
    /// How far a long statement has come.
    pub progress: Option<Seen>,
    /// The first 1,024 bytes of the statement.
    pub info: Option<String>,
}

/// The State column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    None,
    Executing,
    WaitingForClient,
    SendingToClient,
    ReadingFromNet,
    Login,
    SendingBinlog,
    BinlogSent,
    WaitingForAck,
}

impl State {
    const ALL: [(State, &'static str); 9] = [
        (State::None, ""),
        (State::Executing, "executing"),
        (State::WaitingForClient, "Waiting for client"),
        (State::SendingToClient, "Sending to client"),
        (State::ReadingFromNet, "Reading from net"),
        (State::Login, "login"),
        (State::SendingBinlog, "Sending binlog event to replica"),
        (State::BinlogSent, "Source has sent all binlog to replica; waiting for more updates"),
        (State::WaitingForAck, "Waiting for semi-sync ACK from replica"),
    ];
}

impl Process {
    /// Sets the waker of the connection's task; a kill wakes the task.
    pub fn set_waker(&self, waker: &Waker) {
        *self.waker.lock() = Some(waker.clone());
    }
    /// Sets the way to look whether the client is gone; `None` before it becomes invalid. No look
    /// is under way any more when this returns.
    pub fn set_client_is_gone(&self, look: Option<ClientIsGone>) {
        *self.client_is_gone.lock() = look;
    }
    /// From now on, until the value is dropped, the client is looked after (PROC-4).
    pub fn attend(&self) -> Attended<'_> {
        self.attended.store(true, Relaxed);
        Attended(self)
    }
    fn is_alone(&self) -> bool {
        self.client_is_gone.lock().as_ref().is_some_and(|look| look())
    }
    pub fn set_who(&self, user: &str, host: &str) {
        let mut who = self.who.lock();
        (who.user, who.host) = (user.into(), host.into());
    }
    pub fn set_schema(&self, schema: Option<Arc<str>>) {
        self.who.lock().schema = schema;
    }
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Relaxed);
    }

    /// Enters the beginning of a command. `info` is its statement, or empty.
    pub fn begin(&self, command: Command, info: &[u8]) {
        self.progress.end();
        self.command.store(command as u8, Relaxed);
        self.since_s.store(self.clock.load(Relaxed), Relaxed);
        self.limit_s.store(0, Relaxed);
        self.state.store(State::Executing as u8, Relaxed);
        let mut kept = self.info.lock();
        kept.clear();
        kept.extend_from_slice(&info[..info.len().min(INFO_BYTES)]);
    }
    /// Enters the end of a command. The client has `wait_timeout_s` to send the next command.
    pub fn idle(&self, wait_timeout_s: u32, holds_buffers: bool) {
        self.wait(Command::Sleep, State::None, wait_timeout_s);
        self.holds_buffers.store(holds_buffers, Relaxed);
    }
    /// Enters a wait for the client in the middle of a command sequence (a slow path).
    pub fn wait(&self, command: Command, state: State, limit_s: u32) {
        self.command.store(command as u8, Relaxed);
        self.state.store(state as u8, Relaxed);
        let now_s = self.clock.load(Relaxed);
        self.since_s.store(now_s, Relaxed);
        self.waits_since_s.store(now_s, Relaxed);
        self.limit_s.store(limit_s, Relaxed);
    }
    /// Enters a wait for the client to take or send more of the running command (a slow path). The
    /// command goes on: the list shows its time, and the limit is about the wait.
    pub fn wait_in_command(&self, state: State, limit_s: u32) {
        self.state.store(state as u8, Relaxed);
        self.waits_since_s.store(self.clock.load(Relaxed), Relaxed);
        self.limit_s.store(limit_s, Relaxed);
    }

    /// The wait that [`Process::wait_in_command`] has entered: its state and its limit in seconds.
    pub fn waits(&self) -> (State, u32) {
        (State::ALL[self.state.load(Relaxed) as usize].0, self.limit_s.load(Relaxed))
    }

    pub fn kill(&self, how: Kill) {
        self.kill.fetch_max(how as u8, SeqCst);
        self.interrupt.kill();
        self.wake();
    }
    /// Wakes the connection's task, so that it looks for requests.
    pub fn wake(&self) {
        let waker = self.waker.lock().clone();
        if let Some(w) = waker {
            w.wake();
        }
    }
    pub fn killed(&self) -> Kill {
        match self.kill.load(Relaxed) {
            0 => Kill::None,
            1 => Kill::Timeout,
            2 => Kill::Query,
            3 => Kill::Connection,
            4 => Kill::Idle,
            _ => Kill::Shutdown,
        }
    }
    /// Clears an old KILL QUERY when a statement begins (PROC-3).
    pub fn forget_kill_query(&self) {
        self.forget_kill_query_between(|| {});
    }
    /// `others` runs before each step: the test lets kills happen there. A KILL stores `kill` first
    /// and the interrupt second. If the killer is delayed between these steps, its statement may
    /// have ended before the second step: then the interrupt is set and `kill` is not.
    #[inline]
    fn forget_kill_query_between(&self, mut others: impl FnMut()) {
        others();
        let seen = self.kill.load(SeqCst);
        others();
        if seen < Kill::Connection as u8 && (seen != Kill::None as u8 || self.interrupt.is_killed())
        {
            others();
            self.interrupt.clear();
            others();
            // A kill that came in between needs its interrupt, which this function may have
            // cleared.
            if self.kill.compare_exchange(seen, 0, SeqCst, SeqCst).is_err() {
                others();
                self.interrupt.kill();
            }
        }
    }
    /// True if the sweeper asks the connection to free its buffers; once for each request.
    pub fn take_trim_request(&self) -> bool {
        let due = self.holds_buffers.load(Relaxed)
            && self.is_idle()
            && self.waited_s() >= TRIM_AFTER_S
            && self.holds_buffers.swap(false, Relaxed);
        if due {
            *self.info.lock() = Vec::new();
        }
        due
    }

    /// Sets the character set of the client's statements.
    pub fn set_client_charset(&self, charset: Charset) {
        self.client.store(charset.default_collation().id(), Relaxed);
    }
    fn charsets(&self) -> TextCharsets {
        let client = Collation::from_id(self.client.load(Relaxed))
            .map_or(Charset::Utf8mb4, Collation::charset);
        TextCharsets { client, connection: client }
    }

    fn is_idle(&self) -> bool {
        self.command.load(Relaxed) == Command::Sleep as u8
    }
    /// Whether no part of the next command has come.
    fn sends_nothing(&self) -> bool {
        self.is_idle() && self.state.load(Relaxed) == State::None as u8
    }
    /// How long the current wait for the client has taken.
    fn waited_s(&self) -> u32 {
        self.clock.load(Relaxed).wrapping_sub(self.waits_since_s.load(Relaxed))
    }
    /// The row of this connection.
    pub fn row(&self) -> ProcessRow {
        let who = self.who.lock();
        let info = self.info.lock();
        // A session that rests has ended its long work.
        let progress = self.progress.seen().filter(|_| !self.is_idle());
        let state = State::ALL[self.state.load(Relaxed) as usize].1;
        let has_info = !info.is_empty() && !self.is_idle();
        ProcessRow {
            id: self.id,
            user: if who.user.is_empty() {
                "unauthenticated user".into()
            } else {
                who.user.clone()
            },
            host: who.host.clone(),
            schema: who.schema.clone(),
            command: Command::ALL[self.command.load(Relaxed) as usize].1,
            time_s: self.clock.load(Relaxed).wrapping_sub(self.since_s.load(Relaxed)),
            state: progress.map_or(state.into(), |seen| progress_text(&seen).into()),
            progress,
            info: has_info.then(|| self.charsets().shown(&info).into_owned()),
        }
    }
}

/// The State column of a long statement: what it does, how many rows it has done of how many, how
/// many in a second, and how long it still takes.
fn progress_text(seen: &Seen) -> String {
    let what = match seen.stage {
        Stage::None => "executing",
        Stage::Sorting => "sorting rows for an index",
        Stage::Indexing => "writing an index",
        Stage::Inserting => "inserting rows",
        Stage::RollingBack => "rolling back",
    };
    let mut text = format!("{what}: {}", seen.done);
    if seen.expected > 0 {
        text += &format!(" of about {}", seen.expected);
    }
    if let Some(rate) = seen.rate() {
        text += &format!(", {rate} per second");
    }
    if let Some(left) = seen.seconds_left() {
        text += &format!(", {left} s left");
    }
    text
}

/// Seconds after which an idle connection frees its buffers.
const TRIM_AFTER_S: u32 = 2;

/// All connections.
#[derive(Debug, Default)]
pub struct Processes {
    map: RwLock<HashMap<u32, Arc<Process>>>,
    last_id: AtomicU32,
    /// Seconds since the start; [`Processes::tick`] sets them.
    clock: Arc<AtomicU32>,
}

impl Processes {
    pub fn new() -> Arc<Processes> {
        Arc::default()
    }

    /// Adds a connection from `host`, which has `connect_timeout_s` to log in. The entry lives
    /// until `remove`.
    pub fn add(&self, host: &str, connect_timeout_s: u32) -> Arc<Process> {
        let mut map = self.map.write();
        let id = loop {
            let id = self.last_id.fetch_add(1, Relaxed).wrapping_add(1);
            if id != 0 && !map.contains_key(&id) {
                break id;
            }
        };
        let p = Arc::new(Process {
            id,
            who: Mutex::new(Who { host: host.into(), ..Who::default() }),
            command: AtomicU8::new(Command::Connect as u8),
            since_s: AtomicU32::new(self.clock.load(Relaxed)),
            waits_since_s: AtomicU32::new(self.clock.load(Relaxed)),
            limit_s: AtomicU32::new(connect_timeout_s),
            holds_buffers: AtomicBool::new(false),
            state: AtomicU8::new(State::Login as u8),
            info: Mutex::default(),
            client: AtomicU16::new(Collation::Utf8mb4GeneralCi.id()),
            kill: AtomicU8::new(0),
            interrupt: KillFlag::new(),
            progress: Progress::with_clock(self.clock.clone()),
            waker: Mutex::default(),
            attended: AtomicBool::new(false),
            client_is_gone: Mutex::default(),
            clock: self.clock.clone(),
        });
        map.insert(id, p.clone());
        p
    }
    pub fn remove(&self, id: u32) {
        self.map.write().remove(&id);
    }
    pub fn get(&self, id: u32) -> Option<Arc<Process>> {
        self.map.read().get(&id).cloned()
    }
    pub fn len(&self) -> usize {
        self.map.read().len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// KILL. Returns false if the connection does not exist.
    pub fn kill(&self, id: u32, how: Kill) -> bool {
        let process = self.get(id);
        process.iter().for_each(|p| p.kill(how));
        process.is_some()
    }
    pub fn kill_all(&self, how: Kill) {
        let all: Vec<_> = self.map.read().values().cloned().collect();
        all.iter().for_each(|p| p.kill(how));
    }
    /// The rows of all connections, ordered by id.
    pub fn rows(&self) -> Vec<ProcessRow> {
        self.each().collect()
    }
    /// An iterator over the same rows, which makes each row when it is asked for.
    pub fn each(&self) -> impl Iterator<Item = ProcessRow> + use<> {
        let mut all: Vec<_> = self.map.read().values().cloned().collect();
        all.sort_by_key(|p| p.id);
        all.into_iter().map(|p| p.row())
    }
    /// The number of connections that run a command now, for Threads_running.
    pub fn running(&self) -> usize {
        self.map.read().values().filter(|p| !p.is_idle()).count()
    }

    /// Called once a second: ends connections that have waited too long for their client, or whose
    /// statement waits for a client that is gone, and wakes idle connections that hold buffers.
    pub fn tick(&self, now_s: u32) {
        self.clock.store(now_s, Relaxed);
        let (mut late, mut trim, mut attended) = (Vec::new(), Vec::new(), Vec::new());
        for p in self.map.read().values() {
            let limit = p.limit_s.load(Relaxed);
            // The wait must exceed the limit, because the clock counts whole seconds.
            if limit != 0 && p.waited_s() > limit {
                late.push(p.clone());
            } else if p.attended.load(Relaxed) || p.interrupt.is_waiting() {
                attended.push(p.clone());
            } else if p.holds_buffers.load(Relaxed) && p.is_idle() && p.waited_s() >= TRIM_AFTER_S {
                trim.extend(p.waker.lock().clone());
            }
        }
        let alone = attended.iter().filter(|p| p.is_alone());
        alone.for_each(|p| p.kill(Kill::Connection));
        late.iter()
            .for_each(|p| p.kill(if p.sends_nothing() { Kill::Idle } else { Kill::Connection }));
        trim.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Wakes(AtomicUsize);
    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// Tests PROC-1.
    #[test]
    fn rows_show_what_connections_do() {
        let all = Processes::new();
        let (a, b) = (all.add("localhost", 10), all.add("127.0.0.1:4711", 10));
        a.set_who("root", "localhost");
        a.set_schema(Some("test".into()));
        a.begin(Command::Query, &[b'x'; 3000]);
        let rows = all.rows();
        assert_eq!(
            (rows[0].id, &*rows[0].user, rows[0].command, &*rows[0].state),
            (a.id, "root", "Query", "executing")
        );
        assert_eq!(
            (rows[0].schema.as_deref(), rows[0].info.as_ref().map(String::len)),
            (Some("test"), Some(1024))
        );
        assert_eq!(
            (&*rows[1].user, rows[1].command, &rows[1].info),
            ("unauthenticated user", "Connect", &None)
        );
        a.progress.begin(Stage::Inserting, 100);
        a.progress.add(40);
        all.tick(4);
        let long = "inserting rows: 40 of about 100, 10 per second, 6 s left";
        assert_eq!(all.rows()[0].state, long);
        a.begin(Command::Query, b"another");
        assert_eq!((&*all.rows()[0].state, all.rows()[0].progress), ("executing", None));
        a.idle(100, false);
        assert_eq!((all.rows()[0].command, &all.rows()[0].info), ("Sleep", &None));
        assert_eq!(all.running(), 1);
        all.remove(b.id);
        assert_eq!(all.len(), 1);
    }

    /// Tests PROC-2.
    #[test]
    fn a_kill_sets_the_flag_and_wakes() {
        let all = Processes::new();
        let (p, wakes) = (all.add("h", 0), Arc::new(Wakes::default()));
        p.set_waker(&Waker::from(wakes.clone()));
        assert!(all.kill(p.id, Kill::Query));
        assert_eq!(
            (p.killed(), wakes.0.load(SeqCst), p.interrupt.is_killed()),
            (Kill::Query, 1, true)
        );
        p.forget_kill_query();
        assert_eq!((p.killed(), p.interrupt.is_killed()), (Kill::None, false));
        all.kill(p.id, Kill::Connection);
        all.kill(p.id, Kill::Query);
        p.forget_kill_query();
        assert_eq!(p.killed(), Kill::Connection);
        assert!(!all.kill(p.id + 1, Kill::Query));
    }

    /// Runs `forget_kill_query` once, with the steps of `kills` done before its steps of the
    /// numbers in `at` (all other steps after it), and then once more undisturbed. A kill has two
    /// steps: its entry in `kill`, then the interrupt.
    fn interleave(kills: &[Kill], order: &[usize], at: &[usize]) {
        let p = Processes::new().add("h", 0);
        let mut begun = vec![false; kills.len()];
        let mut due = order.iter().zip(at).peekable();
        let mut run = |now: usize| {
            while let Some((&killer, _)) = due.next_if(|(_, at)| **at <= now) {
                if std::mem::replace(&mut begun[killer], true) {
                    p.interrupt.kill();
                } else {
                    p.kill.fetch_max(kills[killer] as u8, SeqCst);
                }
            }
        };
        let mut now = 0;
        p.forget_kill_query_between(|| {
            run(now);
            now += 1;
        });
        run(usize::MAX);
        let case = format!("{kills:?} in the order {order:?} at {at:?}");
        assert!(
            p.killed() == Kill::None || p.interrupt.is_killed(),
            "a kill has lost its interrupt: {case}"
        );
        p.forget_kill_query();
        let stays = if kills.contains(&Kill::Connection) { Kill::Connection } else { Kill::None };
        assert_eq!((p.killed(), p.interrupt.is_killed()), (stays, stays != Kill::None), "{case}");
    }

    /// Calls `f` with every list of `len` numbers below `n` in ascending order, with repeats.
    fn rising(len: usize, n: usize, f: &mut impl FnMut(&[usize])) {
        let mut all = vec![vec![]];
        for _ in 0..len {
            all = all
                .iter()
                .flat_map(|l: &Vec<usize>| {
                    (l.last().copied().unwrap_or(0)..n).map(move |x| [&l[..], &[x]].concat())
                })
                .collect();
        }
        all.iter().for_each(|l| f(l));
    }

    /// Tests PROC-3.
    #[test]
    fn a_kill_that_races_with_the_next_command_leaves_nothing_behind() {
        const STEPS: usize = 6;
        for kill in [Kill::Query, Kill::Connection] {
            rising(2, STEPS, &mut |at| interleave(&[kill], &[0, 0], at));
            for order in
                [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0]]
            {
                rising(4, STEPS, &mut |at| interleave(&[Kill::Query, kill], &order, at));
            }
        }
    }

    #[test]
    fn time_outs_end_waiting_connections_only() {
        let all = Processes::new();
        let (login, idle, busy) = (all.add("h", 10), all.add("h", 10), all.add("h", 10));
        idle.idle(20, false);
        busy.begin(Command::Query, b"");
        all.tick(10);
        assert_eq!(login.killed(), Kill::None);
        all.tick(11);
        assert_eq!(
            (login.killed(), idle.killed(), busy.killed()),
            (Kill::Connection, Kill::None, Kill::None)
        );
        all.tick(21);
        assert_eq!((idle.killed(), busy.killed()), (Kill::Idle, Kill::None));
        // Each wait of a command has its own limit, and the command has its time.
        busy.wait_in_command(State::SendingToClient, 5);
        all.tick(26);
        busy.wait_in_command(State::SendingToClient, 5);
        all.tick(31);
        assert_eq!((busy.killed(), all.rows()[2].time_s), (Kill::None, 31));
        all.tick(32);
        assert_eq!(busy.killed(), Kill::Connection);
    }

    /// Tests PROC-4.
    #[test]
    fn a_client_is_looked_after_while_its_statement_waits() {
        let all = Processes::new();
        let (p, gone) = (all.add("h", 0), Arc::new(AtomicBool::new(false)));
        let (look, looks) = (gone.clone(), Arc::new(AtomicUsize::new(0)));
        let count = looks.clone();
        p.set_client_is_gone(Some(Box::new(move || {
            count.fetch_add(1, SeqCst);
            look.load(SeqCst)
        })));
        p.begin(Command::Query, b"");
        all.tick(1);
        assert_eq!(looks.load(SeqCst), 0);
        let wait = p.attend();
        all.tick(2);
        assert_eq!((looks.load(SeqCst), p.killed()), (1, Kill::None));
        gone.store(true, SeqCst);
        drop(wait);
        all.tick(3);
        assert_eq!((looks.load(SeqCst), p.killed()), (1, Kill::None));
        let _wait = p.attend();
        p.set_client_is_gone(None);
        all.tick(4);
        assert_eq!(p.killed(), Kill::None);
        p.set_client_is_gone(Some(Box::new(|| true)));
        all.tick(5);
        assert_eq!(p.killed(), Kill::Connection);
    }

    /// Tests CONN-1.
    #[test]
    fn idle_connections_are_asked_once_for_their_buffers() {
        let all = Processes::new();
        let (p, wakes) = (all.add("h", 0), Arc::new(Wakes::default()));
        p.set_waker(&Waker::from(wakes.clone()));
        p.idle(100, true);
        all.tick(1);
        assert!(!p.take_trim_request());
        all.tick(2);
        assert_eq!(wakes.0.load(SeqCst), 1);
        assert!(p.take_trim_request());
        assert!(!p.take_trim_request());
        all.tick(3);
        assert_eq!(wakes.0.load(SeqCst), 1);
    }
}
