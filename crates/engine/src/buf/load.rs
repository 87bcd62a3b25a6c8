//! Reading pages into the pool.
//!
//! LOAD-1: a page has one read under way, which all threads that want the page share. A page
//! becomes visible only after its checksum and id were verified.
//! LOAD-2: a load overtaken by `create` or `drop_space` is cancelled: the bytes that it read are
//! thrown away.
//! LOAD-4: no page of a file that is gone is read: the pool forgets its pages with changes that
//! were not written, and whoever still walks a tree of the file would meet two states of it. The
//! file counts as gone before the first page is forgotten.
//! LOAD-3: the completion runs on any thread, waits for nothing but short mutexes, and does not
//! depend on anybody polling the load's future.
use super::{BufferPool, PageIo, pool::Pool};
use crate::page::header::{self, Page};
use crate::page::{index, kind};
use crate::{Error, PAGE_SIZE, PageId, Result};
use parking_lot::Mutex;
use redolith_disk::{AlignedBuf, Io, Op};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::task::{Context, Poll, Waker};

/// One read under way.
pub(crate) struct Load {
    pub id: PageId,
    /// The reserved frame that the page will have.
    frame: u32,
    cancelled: AtomicBool,
    state: Mutex<State>,
}
#[derive(Default)]
struct State {
    result: Option<Result<()>>,
    wakers: Vec<Waker>,
}
impl Load {
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }
    /// Cancels the load (LOAD-2). The caller has the mutex of the page's shard.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }
    fn finish(&self, result: Result<()>) {
        let wakers = {
            let mut state = self.state.lock();
            state.result = Some(result);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
/// A read under way. Resolves to its result.
pub(crate) struct Prefetch(Arc<Load>);
impl Future for Prefetch {
    type Output = Result<()>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut state = self.0.state.lock();
        if let Some(result) = &state.result {
            return Poll::Ready(result.clone());
        }
        if !state.wakers.iter().any(|w| w.will_wake(cx.waker())) {
            state.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

enum Started {
    Present,
    /// The caller has begun the read.
    Reading(Arc<Load>),
    /// Another caller has begun the read.
    Shared(Arc<Load>),
    NoFrame,
    /// Enough reads are under way already.
    Crowded,
}

impl BufferPool {
    /// Brings a page into the pool. The page may be evicted before the caller fixes it; then the
    /// caller calls again.
    /// Errors: `Corrupt` when the page on disk is damaged or is another page, and `Io`.
    pub async fn load(self: &Arc<Self>, id: PageId) -> Result<()> {
        // Whether this task was woken to begin a read. A task that begins none passes the turn on.
        let mut has_turn = false;
        loop {
            let (freed, ended) = (self.frame_freed.seen(), self.read_ended.seen());
            let started = self.start_load(id, false);
            if std::mem::take(&mut has_turn)
                && !matches!(started, Ok(Started::Reading(_) | Started::Crowded))
            {
                self.read_ended.notify_some(1);
            }
            match started? {
                Started::Present => return Ok(()),
                Started::Reading(load) | Started::Shared(load) => return Prefetch(load).await,
                Started::NoFrame => self.wait_frame_after(freed).await,
                Started::Crowded => {
                    self.read_ended.after(ended).await;
                    has_turn = true;
                }
            }
        }
    }
    /// Starts to read a page that will be wanted soon, if a frame is at hand, and returns the read
    /// if there is one. The call waits for nothing. The read goes on if the result is dropped; the
    /// next task that loads the page finds a failure again.
    pub(crate) fn prefetch(self: &Arc<Self>, id: PageId) -> Option<Prefetch> {
        match self.start_load(id, true) {
            Ok(Started::Reading(load) | Started::Shared(load)) => Some(Prefetch(load)),
            _ => None,
        }
    }

    fn start_load(self: &Arc<Self>, id: PageId, ahead: bool) -> Result<Started> {
        let known = |shard: &super::page_table::ShardGuard<'_>| {
            if shard.find(&self.frames).is_some() {
                return Some(Started::Present);
            }
            shard.load().map(|load| Started::Shared(load.clone()))
        };
        if let Some(started) = known(&self.table.lock(id)) {
            return Ok(started);
        }
        let file =
            self.io.file(id.space)?.ok_or_else(|| self.unreadable(id, "reading", &missing()))?;
        self.tick();
        // A pool full of pages that wait for their readers would get nowhere, so at most a quarter
        // of its frames may wait for reads.
        if self.counters.pending_reads.get() >= (self.size() as u64 / 4).max(8) {
            return Ok(Started::Crowded);
        }
        let Some(frame) = self.take_frame(id) else { return Ok(Started::NoFrame) };
        let load = Arc::new(Load {
            id,
            frame,
            cancelled: AtomicBool::new(false),
            state: Mutex::default(),
        });
        {
            let mut shard = self.table.lock(id);
            // LOAD-4: a load that begins before the file counts as gone is cancelled (LOAD-2).
            let otherwise = known(&shard).map(Ok).or_else(|| {
                self.io.is_gone(id.space).then(|| Err(self.unreadable(id, "reading", &missing())))
            });
            if let Some(otherwise) = otherwise {
                drop(shard);
                self.give_frame(frame);
                return otherwise;
            }
            shard.loads().push(load.clone());
        }
        let counters = &self.counters;
        counters.pending_reads.add(1);
        counters.data_reads.add(1);
        (if ahead { &counters.read_ahead } else { &counters.reads }).add(1);
        let buf = self.spare.lock().pop().unwrap_or_else(|| AlignedBuf::new(PAGE_SIZE));
        let (pool, of) = (self.clone(), load.clone());
        let done = Box::new(move |result: io::Result<()>, buf: Option<AlignedBuf>| {
            pool.loaded(&of, result, buf)
        });
        file.submit(Io { op: Op::Read(buf), offset: u64::from(id.no) * PAGE_SIZE as u64, done });
        Ok(Started::Reading(load))
    }

    /// Completes a read that has ended (LOAD-3).
    fn loaded(&self, load: &Arc<Load>, result: io::Result<()>, buf: Option<AlignedBuf>) {
        let result = match (result, &buf) {
            (Ok(()), Some(buf)) => {
                self.place(load, buf.first_chunk().expect("a whole page was read"))
            }
            (Ok(()), None) => unreachable!("a read gives its buffer back"),
            (Err(e), _) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(corrupt(&*self.io, load.id, "it is past the end of the file"))
            }
            (Err(e), _) => Err(self.unreadable(load.id, "reading", &e)),
        };
        let result = result.or_else(|e| {
            self.table.lock(load.id).loads().retain(|l| !Arc::ptr_eq(l, load));
            self.give_frame(load.frame);
            if load.is_cancelled() { Ok(()) } else { Err(e) }
        });
        if let Some(buf) = buf {
            let mut spare = self.spare.lock();
            if spare.len() < 64 {
                spare.push(buf);
            }
        }
        self.counters.pending_reads.sub(1);
        load.finish(result);
        self.read_ended.notify_some(1);
    }
    fn place(&self, load: &Arc<Load>, page: &Page) -> Result<()> {
        header::verify(page, load.id)
            .map_err(|bad| corrupt(&*self.io, load.id, &bad.to_string()))?;
        if header::lsn(page) > self.io.newest() {
            let why = format!("its LSN {} is beyond the end of the redo log", header::lsn(page));
            return Err(corrupt(&*self.io, load.id, &why));
        }
        if header::page_type(page) == kind::INDEX {
            index::well_formed(page).map_err(|why| corrupt(&*self.io, load.id, why))?;
        }
        let (index, frame) = (load.frame, self.frames.get(load.frame));
        // SAFETY: the frame is reserved by this load.
        unsafe { frame.page_mut() }.copy_from_slice(page);
        self.counters.pages_read.add(1);
        self.counters.data_read_bytes.add(PAGE_SIZE as u64);
        let mut shard = self.table.lock(load.id);
        shard.loads().retain(|l| !Arc::ptr_eq(l, load));
        if load.is_cancelled() {
            drop(shard);
            self.give_frame(index);
            return Ok(());
        }
        self.install(&mut shard, load.id, index);
        drop(shard);
        self.enlist(index);
        Ok(())
    }
    fn unreadable(&self, id: PageId, doing: &str, e: &io::Error) -> Error {
        let (file, table) = self.io.describe(id.space);
        Error::io(format_args!("{doing} page {id} of {file}, table {table}"), e)
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}
pub(crate) fn corrupt(io: &dyn PageIo, page: PageId, why: &str) -> Error {
    let (file, table) = io.describe(page.space);
    Error::Corrupt { page, file, table, why: why.to_string() }
}

impl Pool {
    /// LOAD-2: cancels all reads of a space that are under way.
    pub(super) fn cancel_loads(&self, space: crate::SpaceId) {
        self.table.for_each_load(|load| {
            if load.id.space == space {
                load.cancel();
            }
        });
    }
}
