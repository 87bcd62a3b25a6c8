//! Evaluates SLEEP() and GET_LOCK(), which wait.
//!
//! **SLEEP-1** A call waits at its place in the expression, once per row: operands before the call
//! are evaluated before the wait, later operands after it.
//! **SLEEP-2** An evaluation waits on its thread, which has left its worker. If the call is the
//! only expression of a row, the statement's task waits instead. So a thousand sleeping sessions
//! need no threads.
//! **SLEEP-3** The wait is attended: it ends, with its connection, soon after the client is gone.
use super::ExecContext;
use super::env::Env;
use super::eval::{Eval, Row, Scope};
use super::scan::check_killed;
use super::user_locks::Waiting;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, ExprKind, Function};
use crate::processes::{Kill, Process};
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::{BoxFuture, Runtime};
use redolith_types::Value;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The longest wait. It stands for "forever" but does not overflow the clock.
const LONGEST_WAIT: Duration = Duration::from_secs(1 << 32);
/// A waiting GET_LOCK tries again after this time.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The result of work that does not look at KILL itself and may be dropped, unless the statement is
/// killed.
pub(crate) async fn unless_killed<T>(kill: &KillFlag, work: impl Future<Output = T>) -> Result<T> {
    let mut work = pin!(work);
    poll_fn(|task| match work.as_mut().poll(task).map(Ok) {
        Poll::Pending if kill.poll(task.waker()) => Poll::Ready(Err(SqlError::interrupted())),
        polled => polled,
    })
    .await
}

/// The wait that a call asks for.
pub enum Wait {
    Sleep(Duration),
    Lock { name: Vec<u8>, timeout: Duration },
}

/// A call of SLEEP() or GET_LOCK() that is a whole expression.
pub struct Alone<'p> {
    function: Function,
    args: &'p [Expr],
}

impl<'p> Alone<'p> {
    pub fn of(e: &'p Expr) -> Option<Alone<'p>> {
        match &e.kind {
            ExprKind::Call { function: function @ (Function::Sleep | Function::GetLock), args } => {
                Some(Alone { function: *function, args })
            }
            _ => None,
        }
    }
    /// Waits as a task. `sources` has the current rows.
    pub async fn wait(
        &self,
        cx: &mut ExecContext<'_>,
        sources: &[Row<'_>],
        at: Scope<'_>,
    ) -> Result<Value<'static>> {
        let wait = {
            let mut eval = Eval::new(Scope { sources, ..at }, &mut cx.env);
            match self.function {
                Function::Sleep => eval.sleep_asked(&self.args[0])?,
                _ => eval.lock_asked(self.args)?,
            }
        };
        match wait {
            Wait::Sleep(time) => {
                let ended = pause(&cx.trx.engine().runtime.clone(), &cx.env, time).await;
                cx.env.slept(ended)
            }
            Wait::Lock { name, timeout } => {
                let deadline = cx.env.disk.now().saturating_add(timeout);
                let mut waiting = None;
                loop {
                    if let Some(answer) = cx.env.try_lock(&name, deadline)? {
                        return Ok(answer);
                    }
                    cx.env.enter_wait(&mut waiting, &name)?;
                    if !pause(&cx.trx.engine().runtime.clone(), &cx.env, LOOK_AGAIN).await {
                        return Err(cx.env.interruption());
                    }
                }
            }
        }
    }
}

/// Waits for `time`. Returns false if the statement was killed before.
fn pause(
    runtime: &Arc<dyn Runtime>,
    env: &Env<'_>,
    time: Duration,
) -> impl Future<Output = bool> + Send + use<> {
    ended_or_killed(runtime.sleep(time), env.session.process.clone())
}
async fn ended_or_killed(sleep: BoxFuture<()>, process: Arc<Process>) -> bool {
    let (mut sleep, kill): (_, Arc<KillFlag>) = (sleep, process.interrupt.clone());
    let _attended = process.attend();
    poll_fn(|task| {
        let killed = kill.poll(task.waker()) || process.killed() != Kill::None;
        if killed { Poll::Ready(false) } else { sleep.as_mut().poll(task).map(|()| true) }
    })
    .await
}

impl<'a> Env<'a> {
    /// Enters the wait for a lock, when it begins.
    fn enter_wait(&self, waiting: &mut Option<Waiting<'a>>, name: &[u8]) -> Result<()> {
        if waiting.is_none()
            && let Some(locks) = self.user_locks
        {
            *waiting = Some(locks.wait(name, self.session.id)?);
        }
        Ok(())
    }
    /// Waits for `time` on this thread. Returns false if the statement must end before.
    fn pause_here(&mut self, time: Duration) -> Result<bool> {
        let Some(runtime) = self.runtime else {
            return Err(SqlError::internal("there is nowhere to wait"));
        };
        if !runtime.leave_worker() {
            return Err(SqlError::new(
                1135,
                "Can't create a new thread (errno 11); too many statements wait or calculate for \
                    long",
            ));
        }
        let now = self.disk.now();
        let left =
            self.pace.deadline.map_or(time, |deadline| deadline.saturating_sub(now).min(time));
        let (process, ended) =
            (self.session.process.clone(), Arc::new(std::sync::atomic::AtomicBool::new(false)));
        let (sleep, whole) = (runtime.sleep(left), ended.clone());
        runtime.block_beside(Box::pin(async move {
            let slept = ended_or_killed(sleep, process).await;
            whole.store(slept, std::sync::atomic::Ordering::Relaxed);
        }));
        if left < time {
            self.session.process.kill(Kill::Timeout);
        }
        Ok(ended.load(std::sync::atomic::Ordering::Relaxed) && left == time)
    }
    /// The error of a wait that has ended too early.
    fn interruption(&self) -> SqlError {
        check_killed(self).err().unwrap_or_else(SqlError::interrupted)
    }
    /// The value of SLEEP(). `whole` means that the wait was not interrupted.
    fn slept(&mut self, whole: bool) -> Result<Value<'static>> {
        if !whole && !self.sleep_answers {
            return Err(self.interruption());
        }
        Ok(Value::Int(!whole as i64))
    }
    /// The value of GET_LOCK(); None if the call must go on waiting.
    fn try_lock(&mut self, name: &[u8], deadline: Duration) -> Result<Option<Value<'static>>> {
        check_killed(self)?;
        let Some(locks) = self.user_locks else { return Ok(Some(Value::Null)) };
        let answer = locks.try_lock(name, self.session.id)?;
        Ok((answer || self.disk.now() >= deadline).then_some(Value::Int(answer as i64)))
    }
}

impl<'v> Eval<'v, '_, '_> {
    fn sleep_asked(&mut self, time: &'v Expr) -> Result<Wait> {
        match self.arg_double(time)? {
            // A longer sleep is cut to `LONGEST_WAIT`.
            Some(s) if s >= 0.0 => Ok(Wait::Sleep(
                Duration::try_from_secs_f64(s).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT),
            )),
            _ => Err(SqlError::wrong_arguments("sleep")),
        }
    }
    fn lock_asked(&mut self, args: &'v [Expr]) -> Result<Wait> {
        let name = self.lock_name(&args[0])?;
        let timeout_s = self.arg_double(&args[1])?.unwrap_or(0.0);
        // A negative timeout waits forever.
        Ok(Wait::Lock {
            name,
            timeout: Duration::try_from_secs_f64(timeout_s)
                .unwrap_or(LONGEST_WAIT)
                .min(LONGEST_WAIT),
        })
    }
    pub(super) fn sleep(&mut self, time: &'v Expr) -> Result<Value<'v>> {
        let Wait::Sleep(time) = self.sleep_asked(time)? else { return Ok(Value::Null) };
        let whole = time.is_zero() || self.env.pause_here(time)?;
        self.env.slept(whole)
    }
    pub(super) fn get_lock(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let Wait::Lock { name, timeout } = self.lock_asked(args)? else { return Ok(Value::Null) };
        let deadline = self.env.disk.now().saturating_add(timeout);
        let mut waiting = None;
        loop {
            if let Some(answer) = self.env.try_lock(&name, deadline)? {
                return Ok(answer);
            }
            self.env.enter_wait(&mut waiting, &name)?;
            if !self.env.pause_here(LOOK_AGAIN)? {
                return Err(self.env.interruption());
            }
        }
    }
}
