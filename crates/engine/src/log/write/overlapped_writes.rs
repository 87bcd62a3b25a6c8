//! Several durable writes at a time, where each is durable by itself: for devices that do more of
//! them side by side than one after the other.
//!
//! A leader with company does not write in its own thread then. It fills the stream up to a block
//! with a frame of kind PAD, so that the next write shares no block with its own (WRITER-3),
//! submits the write, passes the leadership on, and waits like those it leads. Whoever brings the
//! completion ([`redolith_disk::File::submit`]) publishes how far the contiguous prefix is
//! (WRITER-4) and wakes. A session that commits alone writes in its own thread, as ever: that costs
//! no switch of threads.
//!
//! FLIGHT-1: who begins a write has the leadership. With `depth` writes in flight the leadership
//! stays with them, and the completion that makes room passes it on.
//! FLIGHT-2: goals that a write in flight reaches are covered
//! ([`crate::log::commit::lsn_waiters`]): who has one waits for the completion and takes no
//! leadership.
//! FLIGHT-3: only durable writes are in flight together, and only when all before is durable: so
//! nothing in flight needs a sync.
//! FLIGHT-4: a PAD lies in one block. So no write ends inside of one, and no checkpoint, which
//! nothing dirty holds back there, begins in the middle of one.
//! FLIGHT-5: one at a time where writes in flight do not each report their own errors
//! ([`redolith_disk::File::reports_apart`]): else one could be taken for durable whose failure
//! another was told.
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

/// The shortest frame that fills.
pub(in crate::log) const PAD_MIN: usize = FRAME_HEADER + 1;
/// `redolith_log_flush_depth` at most.
pub(crate) const DEPTH_MAX: usize = 16;

impl Log {
    /// Submits what is ready, for the leader. None: what there is to write is better written
    /// here, or must be.
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
    /// Ends the stream at a block, if there is room for that, in the log and in the block (else
    /// this write is the last one until it is over). Returns up to where it is copied.
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
        // Others may be in the middle of copies below.
        for _ in 0..COPY_SPINS {
            let ready = self.order.ready();
            if ready >= start + len {
                return ready;
            }
            std::hint::spin_loop();
        }
        self.order.ready()
    }
    /// The next write, with its bytes.
    fn prepare(&self, ready: u64, depth: usize) -> Option<(Write, AlignedBuf)> {
        let (write, spare, beside) = {
            let mut w = self.writing.lock();
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
    /// In whatever thread brings the completion.
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
