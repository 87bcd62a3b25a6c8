//! Several submitted operations that are awaited together.
use crate::sync::event::Event;
use parking_lot::Mutex;
use redolith_disk::{AlignedBuf, File, Io, Op};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Waker};

/// One operation of a group.
pub(crate) struct Submission {
    pub file: Arc<dyn File>,
    pub op: Op,
    pub offset: u64,
}
struct State {
    left: usize,
    /// The first failure that is no refusal, or else the first: the operation's number and the
    /// error.
    failed: Option<(usize, io::Error)>,
    bufs: Vec<AlignedBuf>,
    waker: Option<Waker>,
}
/// Resolves when all operations have ended: to their buffers, in no particular order, or to the
/// first failure that is no refusal, or else the first, with the number of its operation.
pub(crate) struct Group(Arc<Mutex<State>>);

/// Submits all operations. Consecutive operations on the same file are submitted together.
pub(crate) fn submit(ops: Vec<Submission>) -> Group {
    submit_noting(ops, None)
}
/// The syncs of data files, or of doublewrite files (FLUSH-7).
#[derive(Default)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub struct Syncs {
    failed: Arc<AtomicBool>,
    /// How many syncs run on threads of their callers. Their outcome is noted a moment after they
    /// have ended.
    blocking: AtomicUsize,
    /// One of these has ended.
    ended: Event,
}
impl Syncs {
    /// Syncs a file on this thread.
    pub(crate) fn sync_blocking(&self, file: &dyn File) -> io::Result<()> {
        self.blocking.fetch_add(1, AcqRel);
        let synced = file.sync();
        if synced.is_err() {
            self.failed.store(true, Release);
        }
        self.blocking.fetch_sub(1, AcqRel);
        self.ended.notify();
        synced
    }
    /// Waits until no sync of [`Syncs::sync_blocking`] is left of those that run now.
    async fn blocking_ended(&self) {
        loop {
            let seen = self.ended.seen();
            if self.blocking.load(Acquire) == 0 {
                return;
            }
            self.ended.after(seen).await;
        }
    }
    /// Syncs files. Returns the first failure with the number of its file, and a failure also if
    /// another of these syncs has failed before this one ended.
    pub(crate) async fn sync(
        &self,
        files: impl Iterator<Item = Arc<dyn File>>,
    ) -> Result<(), (usize, io::Error)> {
        let ops = files.map(|file| Submission { file, op: Op::Sync, offset: 0 }).collect();
        submit_noting(ops, Some(&self.failed)).await?;
        self.blocking_ended().await;
        if self.failed.load(Acquire) {
            let why = "another fsync, which ran at the same time, has failed";
            return Err((0, io::Error::other(why)));
        }
        Ok(())
    }
}
/// As [`submit`]. Sets `failed` as soon as an operation fails, before any task learns of it.
fn submit_noting(ops: Vec<Submission>, failed: Option<&Arc<AtomicBool>>) -> Group {
    let state =
        State { left: ops.len(), failed: None, bufs: Vec::with_capacity(ops.len()), waker: None };
    let group = Group(Arc::new(Mutex::new(state)));
    let mut run: Option<(Arc<dyn File>, Vec<Io>)> = None;
    for (number, Submission { file, op, offset }) in ops.into_iter().enumerate() {
        let (state, failed) = (group.0.clone(), failed.cloned());
        let done = Box::new(move |result: io::Result<()>, buf: Option<AlignedBuf>| {
            if let (Err(_), Some(failed)) = (&result, failed) {
                failed.store(true, Release);
            }
            finished(&state, number, result, buf)
        });
        let io = Io { op, offset, done };
        match &mut run {
            Some((same, ios)) if Arc::ptr_eq(same, &file) => ios.push(io),
            _ => {
                if let Some((file, ios)) = run.replace((file, vec![io])) {
                    file.submit_many(ios);
                }
            }
        }
    }
    if let Some((file, ios)) = run {
        file.submit_many(ios);
    }
    group
}
fn finished(state: &Mutex<State>, number: usize, result: io::Result<()>, buf: Option<AlignedBuf>) {
    let mut state = state.lock();
    state.left -= 1;
    state.bufs.extend(buf);
    if let Err(e) = result {
        // A refusal has changed nothing, so any other failure tells more.
        let is_refusal = |e: &io::Error| e.kind() == io::ErrorKind::Unsupported;
        if state.failed.as_ref().is_none_or(|(_, first)| is_refusal(first) && !is_refusal(&e)) {
            state.failed = Some((number, e));
        }
    }
    let waker = if state.left == 0 { state.waker.take() } else { None };
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}
impl Future for Group {
    type Output = Result<Vec<AlignedBuf>, (usize, io::Error)>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        if state.left > 0 {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(match state.failed.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut state.bufs)),
        })
    }
}
