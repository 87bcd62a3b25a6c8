//! Whether the log ends at the place where recovery's reading ended, or is damaged there.
//!
//! A crash takes away only bytes that were not durable. So if anything proves that the log was
//! durable beyond the place where the reading ended, the bytes at that place are damaged. A start
//! that took them for the end would silently lose acknowledged commits. There are these proofs:
//!
//! - TAIL-1: the control file names the LSN up to which the log was durable at its last write; the
//!   witness in it may name a later LSN.
//! - TAIL-2: a frame further on verifies, and says that the log was durable beyond the end when the
//!   frame was made (FRAME-3).
//! - TAIL-3: the frame of a later epoch lies further on: an earlier recovery found the end of the
//!   log there.
//! - TAIL-4: the caller found a page, or a copy of a page, with a higher LSN. A page is written
//!   only when the log is durable up to its LSN.
//! - TAIL-6: the segment's file is cut off. Its last bytes are gone, and segments are never made
//!   shorter.
//! - TAIL-5: there is a frame of an epoch that the control file does not know: the control file is
//!   older than the log.
//!
//! - TAIL-7: the durable part of the log may end within a frame, if one write ended there and the
//!   next write, with the rest of the frame, was lost in the crash. Writes end like this only at
//!   whole blocks. An LSN at a block's end therefore proves something only of frames that end at or
//!   before it.
//!
//! The search finds frames further on by their own LSN, which each frame carries: a frame may begin
//! at a place where the stream holds its own position eight bytes further on. The first [`SEARCH`]
//! bytes are searched, and the beginning of each later segment: if the log went on so far, a frame
//! begins there.
use crate::base::{Error, Lsn, Result};
use crate::log::append::frame::{self, FRAME_HEADER, Header, KIND_EPOCH};
use crate::log::recovery::log_reader::FrameScanner;
use crate::log::recovery::witness;
use crate::log::write::segments::{HEADER, read_some};
use crate::log::write::write_cursor::BLOCK;
use redolith_disk::{AlignedBuf, File};

/// How many bytes behind the end are searched without a gap.
const SEARCH: u64 = 64 << 20;
/// How many bytes of each later segment are searched.
const SEARCH_SEGMENT: u64 = 1 << 20;
/// How many epochs after the epoch in force are tried on a frame.
const EPOCHS: u64 = 64;
const READ: usize = 1 << 20;

impl FrameScanner {
    /// Returns an error if the log was longer once. `next` must have returned `None` before.
    /// `newest` is the highest LSN that was found elsewhere in the directory, and the place.
    /// Changes nothing.
    pub fn judge_end(&self, newest: Option<(Lsn, String)>) -> Result<()> {
        let (end, state) = (self.at, self.control.state());
        if let Some(why) = &self.unreadable {
            return Err(self.damaged(why.to_string()));
        }
        // TAIL-5 at the very end: this is how a lost control block shows.
        if let Some(why) = self.proof_at(end)? {
            return Err(self.damaged(why));
        }
        if state.clean && end != state.checkpoint {
            let why = format!(
                "redo/control says that the server was stopped cleanly at LSN {}, but the log has \
                 later frames: redo/control is an older copy",
                state.checkpoint
            );
            return Err(Error::Damaged(why));
        }
        // SCAN-8
        let judged = self.control.is_epoch_unbegun()
            && end == state.begins
            && self.epochs[self.epochs.len() - 1].1 < state.epoch;
        let durable =
            state.durable.max(witness::read(&**self.control.file(), state.log_id, state.epoch));
        if !judged && self.reaches_past(durable)? {
            return Err(self.damaged(format!(
                "redo/control says that the log was durable up to LSN {durable}"
            )));
        }
        if let Some((lsn, what)) = newest.filter(|(lsn, _)| lsn.0 > end) {
            return Err(self.damaged(format!(
                "{what} has LSN {lsn}, and was written when the log was durable up to LSN {lsn}"
            )));
        }
        if let Some(cut) = self.segments.cut_from(end)? {
            return Err(self.damaged(format!("{} is cut off", cut.display())));
        }
        match if state.clean || judged { None } else { self.search()? } {
            Some(why) => Err(self.damaged(why)),
            None => Ok(()),
        }
    }
    fn damaged(&self, why: String) -> Error {
        Error::Damaged(format!(
            "the redo log cannot be read at LSN {} ({}), and does not end there: {why}. A crash \
             does not leave such a log. Nothing has been changed: restore the file or a backup, or \
             start with innodb_force_recovery=4 to read the tables",
            self.at,
            self.segments.place(self.at)
        ))
    }
    /// Whether the frame at the end was durable as a whole if everything below `durable` was
    /// durable (TAIL-7).
    fn reaches_past(&self, durable: u64) -> Result<bool> {
        if durable <= self.at || !durable.is_multiple_of(BLOCK) {
            return Ok(durable > self.at);
        }
        // If the header itself is not below `durable`, it says nothing, and `durable` proves
        // nothing.
        if durable - self.at <= FRAME_HEADER as u64 {
            return Ok(false);
        }
        Ok(self.header_at(self.at)?.is_none_or(|h| h.frame_len() as u64 <= durable - self.at))
    }
    /// Searches for a frame that proves that the log went on.
    fn search(&self) -> Result<Option<String>> {
        let bytes = self.segments.bytes;
        let near = self.at + SEARCH;
        let mut at = self.at / BLOCK * BLOCK;
        while at < self.segments.end() {
            let segment_end = (at / bytes + 1) * bytes;
            let upto = if at < near {
                segment_end.min(near)
            } else {
                segment_end.min(at + SEARCH_SEGMENT)
            };
            if let Some((file, offset)) = self.segments.at(at)
                && let Some(why) = self.search_file(&*file, offset, at, upto)?
            {
                return Ok(Some(why));
            }
            at = if upto < near { upto } else { segment_end };
        }
        for (number, file) in self.segments.behind_the_gap()? {
            let first = number * bytes;
            if self.search_file(&*file, HEADER, first, first + SEARCH_SEGMENT.min(bytes))?.is_some()
            {
                return Ok(Some(format!(
                    "segment {number} holds more of the log, and a segment before it is missing"
                )));
            }
        }
        Ok(None)
    }
    /// Searches the stream `[from, upto)`, which lies in `file` from `offset` on.
    fn search_file(
        &self,
        file: &dyn File,
        offset: u64,
        from: u64,
        upto: u64,
    ) -> Result<Option<String>> {
        let (mut at, mut bytes) = (from, AlignedBuf::new(READ));
        // Up to this LSN, blocks are read by pairs, because some of them cannot be read.
        let mut careful = 0;
        while at < upto {
            let most = if at < careful { 2 * BLOCK as usize } else { READ };
            bytes.set_len(most.min(((upto - at) as usize).next_multiple_of(BLOCK as usize)));
            match read_some(file, offset + (at - from), &mut bytes) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(_) if bytes.len() > 2 * BLOCK as usize => {
                    careful = at + bytes.len() as u64;
                    continue;
                }
                // Unreadable bytes prove nothing.
                Err(_) => {
                    at += BLOCK;
                    continue;
                }
            }
            if bytes.iter().any(|b| *b != 0) {
                for (i, head) in bytes.windows(FRAME_HEADER).enumerate() {
                    let start = at + i as u64;
                    if head[8..16] != start.to_le_bytes() || start <= self.at {
                        continue;
                    }
                    // Most frames that a crash leaves behind the end can prove nothing, so they are
                    // not read as a whole.
                    let header = Header::read(head);
                    if (header.kind == KIND_EPOCH || self.reaches_past(header.durable)?)
                        && let Some(why) =
                            self.proof_in(file, offset + (at - from) + i as u64, start)?
                    {
                        return Ok(Some(why));
                    }
                }
            }
            // A header may begin in the last bytes of this read, so the last block is searched
            // again.
            let len = bytes.len() as u64;
            at += if len > BLOCK && at + len < upto { len - BLOCK } else { len };
        }
        Ok(None)
    }
    /// The proof in the frame at `start`, which may lie in a file behind the consecutive segments.
    fn proof_in(&self, file: &dyn File, offset: u64, start: u64) -> Result<Option<String>> {
        if self.segments.at(start).is_some() {
            return self.proof_at(start);
        }
        let first = offset / BLOCK * BLOCK;
        let mut bytes = AlignedBuf::new(2 * READ);
        let Ok(true) = read_some(file, first, &mut bytes) else { return Ok(None) };
        let bytes = &bytes[(offset - first) as usize..];
        let Some(head) = bytes.get(..FRAME_HEADER) else { return Ok(None) };
        let header = Header::read(head);
        match bytes.get(..header.frame_len()) {
            Some(frame) if header.plausible_at(start) => self.proof(&header, frame),
            _ => Ok(None),
        }
    }
    fn proof_at(&self, start: u64) -> Result<Option<String>> {
        match self.frame_at(&self.segments, start) {
            Ok(Some((header, bytes))) => self.proof(&header, &bytes),
            // Unreadable bytes prove nothing.
            Ok(None) | Err(Error::Io { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }
    /// The proof in a frame, if it verifies (TAIL-2, TAIL-3, TAIL-5).
    fn proof(&self, header: &Header, bytes: &[u8]) -> Result<Option<String>> {
        let (state, lsn) = (self.control.state(), header.lsn);
        if header.kind == KIND_EPOCH {
            let Some(epoch) = frame::epoch_of(bytes, header) else { return Ok(None) };
            let in_force = self.epochs[self.epochs.len() - 1].1;
            if !frame::verifies(bytes, header, frame::seed(state.log_id, epoch))
                || epoch <= in_force
            {
                return Ok(None);
            }
            return Ok(Some(match epoch > state.epoch {
                true => format!(
                    "epoch {epoch} begins at LSN {lsn}, but redo/control knows none after {}: {}",
                    state.epoch,
                    self.control.suspicion()
                ),
                false => format!(
                    "epoch {epoch} begins at LSN {lsn}, where an earlier start found the log's end"
                ),
            }));
        }
        let known = |epoch: u64| frame::verifies(bytes, header, frame::seed(state.log_id, epoch));
        let in_force = self.epochs[self.epochs.len() - 1].1;
        // The frame may be of an epoch whose epoch frame is damaged too.
        let epochs = in_force..=state.epoch.min(in_force + EPOCHS);
        Ok((self.reaches_past(header.durable)? && epochs.into_iter().any(known)).then(|| {
            format!(
                "a whole frame at LSN {lsn} says that the log was durable up to LSN {}",
                header.durable
            )
        }))
    }
}
