//! The reading of the log in recovery: frame by frame from the checkpoint to the first bytes that
//! are not a frame. Then the end of the log is sealed.
//!
//! - SCAN-1: a frame is taken only if it is at its own LSN and verifies in the epoch in force
//!   there. The first bytes that do not verify end the log.
//! - SCAN-2: an epoch begins with an epoch frame, which verifies with the seed of the epoch that it
//!   begins. This epoch is higher than the epoch before, and not higher than the highest epoch in
//!   the control file.
//! - SCAN-3 (docs/invariants.md, I-5): before the first append, `finish` makes a higher epoch
//!   durable in the control file. It then overwrites the end of the log with this epoch's frame,
//!   and fills the rest of the block with zeros. Frames of earlier epochs behind this block never
//!   verify again (FRAME-1). If `finish` is interrupted at any point, the next recovery ends at the
//!   same place, or after the epoch frame.
//! - SCAN-5: reading and judging ([`crate::log::recovery::tail`]) change nothing; `finish` is the
//!   first function that writes.
//! - SCAN-6: bytes that are no frame are read again before they count as the end: a bit that flips
//!   on its way from the disk must not end the log.
//! - SCAN-9: a block that the disk cannot read ends the log as other damage does, and only if a
//!   frame, or the place where the next one would begin, lies in it.
//! - SCAN-7: the control file knows the epoch's frame before anything follows the frame. A segment
//!   that was replaced by a copy from before this start has no such frame. This distinguishes it
//!   from a log that ends where the copy ends (TAIL-1).
//! - SCAN-8: overwriting the end may destroy the header by which a torn frame there was told from
//!   damage (TAIL-7). So the control file says where the epoch in force begins, before the end is
//!   overwritten: a log that ends there without the epoch's frame has been judged by the
//!   interrupted start.
//! - SCAN-4: the log's files and their names are made durable before they are read. Bytes that an
//!   ended process wrote and did not sync may be read from a cache; new commits must not lie behind
//!   frames that a power failure takes away.
use crate::base::{Error, Lsn, Result};
use crate::canary::{Canary, planted};
use crate::log::append::frame::{
    self, EPOCH_FRAME, FRAME_HEADER, FRAME_HEADER_2, Header, KIND_CHANGES, KIND_EPOCH,
};
use crate::log::recovery::checkpoint_file::{Control, State};
use crate::log::write::segments::Segments;
use crate::log::write::write_cursor::BLOCK;
use crate::log::{Log, LogConfig};
use crate::runtime::Runtime;
use redolith_disk::{AlignedBuf, Disk};
use std::sync::Arc;

/// How often bytes that are no frame are read (SCAN-6).
const READS: usize = 4;
/// The bytes of one read of a segment.
const READ_BYTES: u64 = 1 << 20;

/// The stream as it lies in the segments, from a block on.
struct Reader {
    /// The LSN of the first byte of `bytes`.
    base: u64,
    bytes: Vec<u8>,
    /// Where reads put their bytes, made at the first read.
    room: Option<AlignedBuf>,
    /// A read of many blocks has failed. Up to this LSN the blocks are read one by one.
    careful: u64,
}
impl Reader {
    fn at(lsn: u64) -> Reader {
        Reader { base: lsn / BLOCK * BLOCK, bytes: Vec::new(), room: None, careful: 0 }
    }
    /// Reads on until the bytes below `upto` are in memory. Returns false if the segments end
    /// before. A block that the disk cannot read is an error only if it has some of these bytes
    /// (SCAN-9).
    fn fill(&mut self, segments: &Segments, upto: u64) -> Result<bool> {
        loop {
            let at = self.base + self.bytes.len() as u64;
            if at >= upto {
                return Ok(true);
            }
            let most = if at < self.careful { BLOCK } else { READ_BYTES };
            let most = most.min(segments.bytes - at % segments.bytes);
            let room = self.room.get_or_insert_with(|| AlignedBuf::new(READ_BYTES as usize));
            room.set_len(most as usize);
            match segments.read(at, room) {
                Ok(true) => self.bytes.extend_from_slice(room),
                Ok(false) => return Ok(false),
                Err(_) if most > BLOCK => self.careful = at + most,
                Err(e) => return Err(e),
            }
        }
    }
    fn get(&self, from: u64, len: usize) -> &[u8] {
        &self.bytes[(from - self.base) as usize..][..len]
    }
    /// The bytes in memory from the beginning of the block of `lsn` up to `lsn`.
    fn from_block_of(&self, lsn: u64) -> &[u8] {
        let (from, to) = ((lsn / BLOCK * BLOCK).checked_sub(self.base), lsn.checked_sub(self.base));
        from.zip(to)
            .and_then(|(from, to)| self.bytes.get(from as usize..to as usize))
            .unwrap_or_default()
    }
    /// The header at `at`, if a frame is possible there and is not cut off.
    fn header(&mut self, segments: &Segments, at: u64) -> Result<Option<Header>> {
        let Some(header) = self.header_alone(segments, at)? else { return Ok(None) };
        Ok(self.fill(segments, at + header.frame_len() as u64)?.then_some(header))
    }
    fn header_alone(&mut self, segments: &Segments, at: u64) -> Result<Option<Header>> {
        if !self.fill(segments, at + FRAME_HEADER_2 as u64)? {
            return Ok(None);
        }
        // If the segments' end cuts off the longer header, the frame is cut off too, and the short
        // header does.
        let len = if self.fill(segments, at + FRAME_HEADER as u64)? {
            FRAME_HEADER
        } else {
            FRAME_HEADER_2
        };
        let header = Header::read(self.get(at, len));
        Ok(header.plausible_at(at).then_some(header))
    }
    /// Forgets whole blocks below `lsn`, once there are many.
    fn forget(&mut self, lsn: u64) {
        let done = (lsn / BLOCK * BLOCK).saturating_sub(self.base);
        if done >= 4 * READ_BYTES {
            self.bytes.drain(..done as usize);
            self.base += done;
        }
    }
}

/// One frame of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub start: Lsn,
    pub end: Lsn,
    pub payload: &'a [u8],
}

pub struct FrameScanner {
    disk: Arc<dyn Disk>,
    config: LogConfig,
    pub(in crate::log) control: Control,
    pub(in crate::log) segments: Segments,
    reader: Reader,
    pub(in crate::log) at: u64,
    /// The LSN at which each epoch since the checkpoint begins, and its number. The last one is in
    /// force.
    pub(in crate::log) epochs: Vec<(u64, u64)>,
    pub(in crate::log) seed: u32,
    ended: bool,
    /// Why the block at the end cannot be read (SCAN-9).
    pub(in crate::log) unreadable: Option<Error>,
}

impl FrameScanner {
    pub(in crate::log) fn open(disk: Arc<dyn Disk>, mut config: LogConfig) -> Result<FrameScanner> {
        let control = Control::open(&*disk, &config.dir)?;
        let State { log_id, checkpoint, segment_bytes, segments_end, .. } = *control.state();
        // The size of existing segments counts, not the setting.
        config.segment_bytes = segment_bytes;
        config.check(false)?;
        let segments = Segments::open(
            disk.clone(),
            config.dir.clone(),
            log_id,
            segment_bytes,
            checkpoint,
            segments_end,
        );
        let segments = segments.map_err(|e| match e {
            Error::Io { what, why, full } => {
                Error::Io { what, why: format!("{why} ({})", control.suspicion()), full }
            }
            other => other,
        })?;
        // SCAN-4
        if !planted(Canary::LogFromCache) {
            segments.sync_all()?;
        }
        let mut scanner = FrameScanner {
            disk,
            config,
            control,
            segments,
            reader: Reader::at(checkpoint),
            at: 0,
            epochs: Vec::new(),
            seed: 0,
            ended: false,
            unreadable: None,
        };
        scanner.rewind();
        Ok(scanner)
    }
    /// Begins again at the checkpoint.
    pub fn rewind(&mut self) {
        let State { log_id, checkpoint, checkpoint_epoch, .. } = *self.control.state();
        self.at = checkpoint;
        self.reader = Reader::at(checkpoint);
        self.epochs = vec![(checkpoint, checkpoint_epoch)];
        self.seed = frame::seed(log_id, checkpoint_epoch);
        (self.ended, self.unreadable) = (false, None);
    }
    pub fn checkpoint_lsn(&self) -> Lsn {
        Lsn(self.control.state().checkpoint)
    }
    pub fn log_id(&self) -> u64 {
        self.control.state().log_id
    }
    /// The format of the data directory.
    pub fn format(&self) -> u32 {
        self.control.state().format
    }
    pub fn checkpoint_payload(&self) -> &[u8] {
        &self.control.state().payload
    }
    /// The LSN at which the next frame would begin; after `next` has returned `None`, the end of
    /// the log.
    pub fn position(&self) -> Lsn {
        Lsn(self.at)
    }

    /// The next frame, or `None` at the end of the log.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>> {
        let (start, header) = loop {
            self.reader.forget(self.at);
            let found = self.verified_again().or_else(|e| match e {
                Error::Io { .. } => {
                    self.unreadable = Some(e);
                    Ok(None)
                }
                other => Err(other),
            });
            let Some(header) = found? else {
                self.ended = true;
                return Ok(None);
            };
            let start = self.at + header.header as u64;
            self.at += header.frame_len() as u64;
            if header.kind == KIND_CHANGES {
                break (start, header);
            }
        };
        let payload = self.reader.get(start, header.len);
        Ok(Some(Frame { start: Lsn(start - header.header as u64), end: Lsn(self.at), payload }))
    }
    /// The result of [`FrameScanner::verified`]. If no frame verifies, the bytes are read again and
    /// tried again (SCAN-6).
    fn verified_again(&mut self) -> Result<Option<Header>> {
        for _ in 0..READS {
            if let Some(header) = self.verified()? {
                return Ok(Some(header));
            }
            self.read_again()?;
        }
        Ok(None)
    }
    /// Forgets the bytes read behind `at`. The bytes before it in the same block have been verified
    /// and stay: `finish` writes them again, and a bit that flips in a second read would become
    /// permanent.
    fn read_again(&mut self) -> Result<()> {
        let mut again = Reader::at(self.at);
        let verified = self.reader.from_block_of(self.at);
        if !verified.is_empty() && again.fill(&self.segments, self.at)? {
            again.bytes[..verified.len()].copy_from_slice(verified);
        }
        self.reader = again;
        Ok(())
    }
    /// The header of the frame at `at`, if a frame is there and verifies (SCAN-1). If the frame
    /// begins an epoch, the scanner enters this epoch.
    fn verified(&mut self) -> Result<Option<Header>> {
        if self.ended {
            return Ok(None);
        }
        let Some(header) = self.reader.header(&self.segments, self.at)? else { return Ok(None) };
        let bytes = self.reader.get(self.at, header.frame_len());
        match header.kind {
            KIND_EPOCH => {
                let Some(epoch) = frame::epoch_of(bytes, &header) else { return Ok(None) };
                let State { log_id, epoch: highest, .. } = *self.control.state();
                let seed = frame::seed(log_id, epoch);
                let last = self.epochs[self.epochs.len() - 1];
                // SCAN-2. The checkpoint may lie where an epoch begins, and is of this epoch then.
                let is_known = last == (self.at, epoch);
                if epoch <= last.1 && !is_known
                    || epoch > highest
                    || !frame::verifies(bytes, &header, seed)
                {
                    return Ok(None);
                }
                self.seed = seed;
                if !is_known {
                    self.epochs.push((self.at, epoch));
                }
            }
            _ if !frame::verifies(bytes, &header, self.seed) => return Ok(None),
            _ => {}
        }
        Ok(Some(header))
    }
    /// The header of a frame that begins at `at`, anywhere in the stream, if a frame is possible
    /// there.
    pub(in crate::log) fn header_at(&self, at: u64) -> Result<Option<Header>> {
        Reader::at(at).header_alone(&self.segments, at)
    }
    /// The frame that begins at `at`, anywhere in the stream, if it is not cut off. The caller has
    /// to verify it.
    pub(in crate::log) fn frame_at(
        &self,
        segments: &Segments,
        at: u64,
    ) -> Result<Option<(Header, Vec<u8>)>> {
        let mut reader = Reader::at(at);
        let Some(header) = reader.header(segments, at)? else { return Ok(None) };
        Ok(Some((header, reader.get(at, header.frame_len()).to_vec())))
    }

    /// Ends the reading (SCAN-3) and returns the log, ready for appends after the last frame.
    pub fn finish(mut self, runtime: Arc<dyn Runtime>) -> Result<Arc<Log>> {
        while self.next()?.is_some() {}
        let segments_end = self.segments.end_of_whole(self.at);
        self.control.segments_end_at(segments_end);
        self.segments.begin_use(segments_end)?;
        let epoch = self.control.raise_epoch(self.at);
        let log_id = self.control.state().log_id;
        self.epochs.push((self.at, epoch));
        let tail = self.at + EPOCH_FRAME as u64;
        if self.segments.end() < tail {
            self.segments.add_now(tail / self.segments.bytes)?;
        }
        let base = self.at / BLOCK * BLOCK;
        let mut block = AlignedBuf::new((tail - base) as usize);
        let keep = (self.at - base) as usize;
        // The reader has read this block already, unless the log ends at a place from which nothing
        // was read.
        let is_read = self.reader.fill(&self.segments, self.at);
        match (is_read, &self.unreadable) {
            (Ok(_), _) => block[..keep].copy_from_slice(self.reader.get(base, keep)),
            // A forced start does without what lies in front of the checkpoint in its block.
            (Err(_), Some(_)) if self.at == self.control.state().checkpoint => {}
            (Err(e), _) => return Err(e),
        }
        block[keep..keep + EPOCH_FRAME]
            .copy_from_slice(&frame::epoch_frame(log_id, epoch, self.at));
        let mut written = 0;
        while written < block.len() {
            // There are at most two blocks, and each lies in one segment.
            let (file, offset) = self.segments.at(base + written as u64).expect("made above");
            let end = written + BLOCK as usize;
            file.write_durable_at(&block[written..end], offset)
                .map_err(|e| Error::io("sealing the redo log", &e))?;
            written = end;
        }
        // SCAN-7
        self.control.epoch_begun(tail);
        let last = (tail - 1) / BLOCK * BLOCK;
        let tail_block = &block[(last - base) as usize..(tail - base) as usize];
        Log::start(
            self.disk,
            runtime,
            self.config,
            self.control,
            self.segments,
            self.epochs,
            last,
            tail_block,
        )
    }
}
