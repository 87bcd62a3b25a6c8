//! Runs submitted operations through one io_uring.
//!
//! RING-1: at most `CQ_ENTRIES` operations are in the kernel, so the completion queue never
//! overflows; further operations wait in `backlog`.
//! RING-2: a thread that pushes n entries enters the kernel until the kernel has taken n entries or
//! finds none, so no entry stays behind.
//! RING-3: only the completion thread reads completions, and it sleeps in the kernel while there
//! are none.
//! RING-4: `user_data` is a `Box<Pending>` given away, or 0 for the wake-up that ends the
//! completion thread.
//!
//! The kernel ends an operation in the name of the thread that submitted it. It interrupts that
//! thread in user mode and wakes it from an interruptible sleep. A thread that sleeps in an fsync
//! or in a durable write comes to it only when that call returns: what a worker has submitted ends,
//! for us, after the flush that the worker leads (docs/decisions/042).
//!
//! IORING_SETUP_COOP_TASKRUN is off. The flag saves an interrupt when the submitting thread is in
//! user mode, but its completions then wait for that thread's next system call or tick. Measured
//! with 2 threads, 8 reads of 16 KiB each in flight, 2 cores: the flag gained nothing with idle
//! submitters (12.5 against 12.3 us of CPU per read), and computing submitters got 1,400 instead of
//! 9,000 reads/s.
//!
//! The lock covers pushing, but not the system call: the kernel has a lock of its own there, and
//! sessions that wait for it must not hold ours.
use super::enter::enter_ring;
use super::queue::{AbortOnPanic, Pending};
use crate::Op;
use io_uring::{IoUring, Probe, Submitter, cqueue, opcode, squeue, types};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

const SQ_ENTRIES: u32 = 256;
const CQ_ENTRIES: u32 = 1024;
/// The most bytes of one entry (the kernel's limit is near 2 GiB); the rest follows as after a
/// short write.
const MAX_BYTES: usize = 1 << 30;
const IORING_ENTER_GETEVENTS: u32 = 1;
const RWF_DSYNC: i32 = 2;
const RWF_ATOMIC: i32 = 0x40;
/// Places for registered files, which the kernel keeps open (REAL-4).
pub(super) const PLACES: u32 = 64;
/// The ways to ask for empty places, the best first. The first is known since kernel 5.19, the
/// second since 5.5.
pub(super) const WAYS_TO_PLACES: [Registration; 2] = [
    |submitter| submitter.register_files_sparse(PLACES),
    |submitter| submitter.register_files(&[-1; PLACES as usize]),
];
pub(super) type Registration = fn(&Submitter<'_>) -> io::Result<()>;

pub(super) struct Ring {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
    /// A bit mask of the taken places for registered files.
    places: Mutex<u64>,
}
struct Core {
    ring: IoUring,
    /// The mutex also guards the submission queue.
    state: Mutex<State>,
    stop: AtomicBool,
    /// How many of the next submissions fail for want of memory.
    #[cfg(test)]
    refusals: std::sync::atomic::AtomicU32,
}
#[derive(Default)]
struct State {
    in_kernel: u32,
    backlog: VecDeque<Box<Pending>>,
}

impl Ring {
    pub fn start() -> io::Result<Ring> {
        Ring::start_with(&WAYS_TO_PLACES)
    }
    /// Fails, too, where no registration gives places, because without them a killed process could
    /// give a directory's lock back while its writes are in flight (REAL-4).
    pub fn start_with(ways_to_places: &[Registration]) -> io::Result<Ring> {
        let ring: IoUring = IoUring::builder().setup_cqsize(CQ_ENTRIES).build(SQ_ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if ![opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::Nop::CODE]
            .iter()
            .all(|c| probe.is_supported(*c))
        {
            return Err(io::Error::other("kernel too old"));
        }
        let core = Arc::new(Core {
            ring,
            state: Mutex::default(),
            stop: AtomicBool::new(false),
            #[cfg(test)]
            refusals: Default::default(),
        });
        core.try_out()?;
        // Kernels before 5.13 register files only while no thread is in the kernel with the ring,
        // so the completion thread begins afterwards.
        core.register_places(ways_to_places)?;
        let thread = {
            let core = core.clone();
            std::thread::Builder::new().name("disk-ring".into()).spawn(move || core.complete())?
        };
        Ok(Ring { core, thread: Some(thread), places: Mutex::new(0) })
    }
    #[cfg(test)]
    pub fn refuse_next(&self, submissions: u32) {
        self.core.refusals.store(submissions, Ordering::Release);
    }
    pub fn keep_open(&self, file: &OwnedFd) -> io::Result<u32> {
        let mut places = self.places.lock();
        let place = (!*places).trailing_zeros();
        if place == PLACES {
            return Err(io::Error::other(format!("a process locks at most {PLACES} directories")));
        }
        self.core.ring.submitter().register_files_update(place, &[file.as_raw_fd()])?;
        *places |= 1 << place;
        Ok(place)
    }
    pub fn let_go(&self, place: u32) {
        let mut places = self.places.lock();
        if self.core.ring.submitter().register_files_update(place, &[-1]).is_ok() {
            *places &= !(1 << place);
        }
    }
    pub fn submit(&self, ops: &mut dyn Iterator<Item = Box<Pending>>) {
        // The operations are collected first because the iterator is the caller's code, which must
        // not run under our lock.
        let mut first = ops.next();
        let rest: Vec<_> = ops.collect();
        let mut state = self.core.state.lock();
        let mut pushed = 0;
        for op in first.take().into_iter().chain(rest) {
            if state.in_kernel == CQ_ENTRIES {
                state.backlog.push_back(op);
            } else {
                state.in_kernel += 1;
                pushed += 1;
                self.core.push_op(op);
            }
        }
        drop(state);
        self.core.enter(pushed);
    }
}

impl Core {
    /// Sends one empty operation through the ring, because a filter of system calls may allow the
    /// set-up and refuse the rest.
    fn try_out(&self) -> io::Result<()> {
        {
            let _state = self.state.lock();
            self.push(&opcode::Nop::new().build());
        }
        while let Err(e) = self.ring.submitter().submit_and_wait(1) {
            if e.kind() != io::ErrorKind::Interrupted {
                return Err(e);
            }
        }
        // SAFETY: no completion thread runs yet, so this is the only reader.
        let taken = unsafe { self.ring.completion_shared() }.next();
        assert!(
            taken.is_some_and(|c| c.user_data() == 0),
            "io_uring answers something else than was asked"
        );
        Ok(())
    }
    fn register_places(&self, ways: &[Registration]) -> io::Result<()> {
        let mut refused = io::Error::from(io::ErrorKind::Unsupported);
        for register in ways {
            match register(&self.ring.submitter()) {
                Ok(()) => return Ok(()),
                Err(e) => refused = e,
            }
        }
        let why = format!("it cannot keep the locks of directories: {refused}");
        Err(io::Error::new(refused.kind(), why))
    }
    /// Pushes an entry. The caller holds the state lock and has counted the entry.
    fn push(&self, entry: &squeue::Entry) {
        loop {
            // SAFETY: the submission queue is only touched under the state lock.
            let mut queue = unsafe { self.ring.submission_shared() };
            // SAFETY: buffer and descriptor of the entry live in the Pending that the kernel side
            // owns until its completion (RING-4).
            if unsafe { queue.push(entry) }.is_ok() {
                return;
            }
            drop(queue);
            self.enter(SQ_ENTRIES);
        }
    }
    fn push_op(&self, mut op: Box<Pending>) {
        let fd = types::Fd(op.file.raw_fd());
        let at = op.at;
        let offset = op.io.offset + at as u64;
        let (syncs, plain) = (op.syncs_next(), op.plain);
        let entry = match &mut op.io.op {
            _ if syncs => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Op::WriteDurable(buf) => {
                let part = &buf[at..];
                let flags = if plain { 0 } else { RWF_DSYNC };
                opcode::Write::new(fd, part.as_ptr(), part.len().min(MAX_BYTES) as u32)
                    .offset(offset)
                    .rw_flags(flags)
                    .build()
            }
            Op::Read(buf) => {
                let part = &mut buf[at..];
                opcode::Read::new(fd, part.as_mut_ptr(), part.len().min(MAX_BYTES) as u32)
                    .offset(offset)
                    .build()
            }
            Op::Write(buf) => {
                let part = &buf[at..];
                opcode::Write::new(fd, part.as_ptr(), part.len().min(MAX_BYTES) as u32)
                    .offset(offset)
                    .build()
            }
            Op::WriteAtomic(buf) => opcode::Write::new(fd, buf.as_ptr(), buf.len() as u32)
                .offset(offset)
                .rw_flags(RWF_ATOMIC)
                .build(),
            Op::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        };
        self.push(&entry.user_data(Box::into_raw(op).expose_provenance() as u64));
    }
    /// Hands `n` entries of the submission queue to the kernel (RING-2).
    fn enter(&self, n: u32) {
        let mut left = n;
        while left > 0 {
            let taken = enter_ring(|| {
                #[cfg(test)]
                self.refuse_as_told()?;
                // SAFETY: no argument structure is passed, and the entries were pushed with their
                // buffers owned (see `push`).
                unsafe { self.ring.submitter().enter::<()>(left, 0, 0, None) }
            });
            if taken == 0 {
                return;
            }
            left = left.saturating_sub(taken as u32);
        }
    }
    /// Fails as the kernel does when it has no memory, as often as a test asks for.
    #[cfg(test)]
    fn refuse_as_told(&self) -> io::Result<()> {
        let one_less = |refusals: u32| refusals.checked_sub(1);
        match self.refusals.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less) {
            Ok(_) => Err(Errno::NOMEM.into()),
            Err(_) => Ok(()),
        }
    }

    /// Runs the completion thread.
    fn complete(&self) {
        let _abort = AbortOnPanic;
        let mut completions: Vec<cqueue::Entry> = Vec::with_capacity(CQ_ENTRIES as usize);
        let mut finished = Vec::new();
        while !self.stop.load(Ordering::Acquire) {
            self.wait(&mut completions);
            let mut unfinished = Vec::new();
            for c in completions.drain(..).filter(|c| c.user_data() != 0) {
                // SAFETY: RING-4: each operation's box comes back exactly once, here.
                let mut op = unsafe {
                    Box::from_raw(std::ptr::with_exposed_provenance_mut::<Pending>(
                        c.user_data() as usize
                    ))
                };
                match outcome(c.result()).and_then(|r| op.advance(r)) {
                    Some(result) => finished.push((op, result)),
                    None => unfinished.push(op),
                }
            }
            let pushed = {
                let mut state = self.state.lock();
                state.in_kernel -= finished.len() as u32;
                let free = ((CQ_ENTRIES - state.in_kernel) as usize).min(state.backlog.len());
                state.in_kernel += free as u32;
                let pushed = unfinished.len() + free;
                unfinished.into_iter().for_each(|op| self.push_op(op));
                for _ in 0..free {
                    let op = state.backlog.pop_front().expect("counted above");
                    self.push_op(op);
                }
                pushed as u32
            };
            self.enter(pushed);
            finished.drain(..).for_each(|(op, result)| op.finish(result));
        }
    }
    fn wait(&self, out: &mut Vec<cqueue::Entry>) {
        loop {
            // SAFETY: RING-3: this thread is the only reader.
            out.extend(unsafe { self.ring.completion_shared() });
            if !out.is_empty() {
                return;
            }
            enter_ring(|| {
                // SAFETY: nothing is submitted and no argument structure is passed.
                unsafe { self.ring.submitter().enter::<()>(0, 1, IORING_ENTER_GETEVENTS, None) }
            });
        }
    }
}

/// Returns `None` where the operation has not run at all and must be submitted again. ECANCELED
/// says that the operation waited for a kernel worker of the thread that submitted it, and that
/// thread ended.
fn outcome(result: i32) -> Option<io::Result<usize>> {
    if result >= 0 {
        return Some(Ok(result as usize));
    }
    match Errno::from_raw_os_error(-result) {
        Errno::INTR | Errno::AGAIN | Errno::CANCELED => None,
        e => Some(Err(e.into())),
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.core.stop.store(true, Ordering::Release);
        let thread = self.thread.take().expect("taken here only");
        // The last file may be dropped by a `done` that runs on the completion thread, which then
        // sees `stop` by itself.
        if thread.thread().id() != std::thread::current().id() {
            {
                // Every operation in flight holds its file, and thereby this ring. So no operation
                // is in flight, and there is room for one entry.
                let _state = self.core.state.lock();
                self.core.push(&opcode::Nop::new().build());
            }
            self.core.enter(1);
            let _ = thread.join();
        }
    }
}
