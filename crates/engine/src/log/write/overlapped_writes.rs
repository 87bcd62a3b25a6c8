//! Several durable writes in flight, each durable by itself: for devices that are faster with
//! writes side by side than with writes one after the other.
//!
//! A leader with company then does not write in its own thread. It fills the stream up to a block
//! with a frame of kind PAD, so that the next write shares no block with its own (WRITER-3). It
//! submits the write, passes the leadership on, and waits like the sessions that it leads. The
//! thread that brings the completion ([`redolith_disk::File::submit`]) publishes how far the
//! contiguous prefix is (WRITER-4) and wakes the waiters. A session that commits alone still writes
//! in its own thread, which costs no switch of threads.
//!
//! - FLIGHT-1: a thread that begins a write has the leadership. With `depth` writes in flight the
//!   leadership stays with these writes, and the completion that makes room passes it on.
//! - FLIGHT-2: goals that a write in flight reaches are covered
//!   ([`crate::log::commit::lsn_waiters`]): their waiters wait for the completion and take no
//!   leadership.
//! - FLIGHT-3: only durable writes are in flight together, and only when everything before them is
//!   durable. So no write in flight needs a sync.
//! - FLIGHT-4: a PAD lies within one block. So no write ends inside a PAD, and no checkpoint begins
//!   in the middle of a PAD, although no dirty page holds the checkpoint back there.
//! - FLIGHT-5: only one write is in flight where writes do not each report their own errors
//!   ([`redolith_disk::File::reports_apart`]): otherwise a failed write could be taken for durable
//!   because its failure was reported to another write.
use crate::base::poison;
use crate::log::Log;
use crate::log::append::frame::{self, FRAME_HEADER, KIND_PAD};
use crate::log::commit::leader::{COPY_SPINS, Flushed, pass_on};
use crate::log::write::write_cursor::{BLOCK, Leadership, WRITE_MAX, Write};
use crate::log::write::write_sync::Flush;
use redolith_disk::{AlignedBuf, Io, Op};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The shortest frame that can fill a block.
pub(in crate::log) const PAD_MIN: usize = FRAME_HEADER + 1;
/// The greatest value of `redolith_log_flush_depth`.
pub(crate) const DEPTH_MAX: usize = 16;

impl Log {
    /// Submits the ready bytes, for the leader. None if the leader had better write in its own
    /// thread, or must.
    pub(in crate::log) fn launch_ready(&self, durable: bool) -> Option<Flushed> {
        let depth = self.depth();
        let (may_begin, begun) = {
            let w = self.writing.lock();
            let clean = w.state.durable() == w.state.written();
            if w.state.in_flight() == 0 && (depth == 1 || !durable || !clean || self.waits.alone())
            {
                return None;
            }
            (w.state.may_begin(depth), w.state.begun())
        };
        let mut ready = self.order.ready();
        if may_begin && ready > begun {
            ready = self.fill_block();
        }
        let mut launched = 0;
        while let Some((write, buf)) = self.prepare(ready, depth) {
            self.launch(write, buf);
            launched += 1;
        }
        let leadership = self.writing.lock().state.leave(launched, depth);
        match leadership {
            Leadership::Stays => return Some(Flushed::Nothing),
            Leadership::Passes => pass_on(&self.waits),
            Leadership::Kept => {}
        }
        Some(Flushed::Away)
    }
    /// Fills the stream up to the end of a block, if the log and the block have room for a PAD.
    /// Otherwise no write can begin after this write until it is over. Returns the LSN up to which
    /// the stream is copied.
    fn fill_block(&self) -> u64 {
        let Some(credit) = self.room.spare_credit(BLOCK) else { return self.order.ready() };
        let seat = self.order.seat();
        let Some((start, len)) = seat.reserve_to(&self.order, BLOCK, PAD_MIN as u64) else {
            return self.order.ready();
        };
        let mut pad = [0; BLOCK as usize];
        let pad = &mut pad[..len as usize];
        let crc = frame::payload_crc(self.seed, &pad[FRAME_HEADER..]);
        frame::finish(pad, KIND_PAD, start, self.waits.durable(), crc);
        // SAFETY: as in `append`.
        unsafe { self.ring.fill(start, pad) };
        seat.copied();
        seat.filled();
        credit.spend(len);
        self.counters.writer.log_padded.fetch_add(len, Relaxed);
        // Other threads may still be copying bytes below the PAD.
        for _ in 0..COPY_SPINS {
            let ready = self.order.ready();
            if ready >= start + len {
                return ready;
            }
            std::hint::spin_loop();
        }
        self.order.ready()
    }
    /// Begins the next write, and returns it with its bytes.
    fn prepare(&self, ready: u64, depth: usize) -> Option<(Write, AlignedBuf)> {
        let (write, spare, beside) = {
            let mut w = self.writing.lock();
            debug_assert!(
                w.state.durable() == w.state.written(),
                "FLIGHT-3: a write in flight behind bytes that need a sync"
            );
            let beside = w.state.in_flight() > 0;
            (w.state.begin(ready, depth)?, w.spare.pop(), beside)
        };
        self.counters.writer.log_writes_submitted.fetch_add(1, Relaxed);
        self.counters.writer.log_writes_overlapped.fetch_add(beside as u64, Relaxed);
        self.waits.cover(write.end);
        let mut buf = spare.unwrap_or_else(|| AlignedBuf::new(WRITE_MAX as usize));
        buf.set_len(write.padded_bytes());
        self.take(&write, &mut buf);
        Some((write, buf))
    }
    fn launch(&self, write: Write, buf: AlignedBuf) {
        let (file, offset) = self
            .segments
            .at(write.start)
            .expect("CREDIT-2: a segment exists for every reserved byte");
        let log = self.me.upgrade().expect("somebody calls it");
        let flush = Flush::of_others(self);
        let done = move |result, buf| log.landed(write, flush, result, buf);
        file.submit(Io { op: Op::WriteDurable(buf), offset, done: Box::new(done) });
    }
    /// Ends a write, in the thread that brings the completion.
    fn landed(
        self: Arc<Self>,
        write: Write,
        flush: Flush,
        result: io::Result<()>,
        buf: Option<AlignedBuf>,
    ) {
        if let Err(e) = result {
            poison(&format!("writing the redo log at {}: {e}", write.start));
        }
        let depth = self.depth();
        let pass = {
            let mut w = self.writing.lock();
            let room = w.spare.len() < DEPTH_MAX;
            w.spare.extend(buf.filter(|_| room));
            w.state.land(write.number, depth)
        };
        self.count_write(&write, true);
        flush.end(&self, false);
        if pass {
            pass_on(&self.waits);
        }
    }
}
