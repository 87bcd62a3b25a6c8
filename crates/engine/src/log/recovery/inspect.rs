//! Decoders of single blocks and frames of the log's files for `redolith dump`, which need no
//! running log and accept any bytes.
use super::checkpoint_file::{BLOCKS_AT, State};
use super::witness;
use crate::log::append::frame::{self, Header, KIND_CHANGES, KIND_EPOCH};

pub(crate) use crate::log::append::frame::FRAME_HEADER;
use crate::log::write::segments;

pub(crate) const SEGMENT_HEADER: u64 = segments::HEADER;
pub(crate) const CONTROL_BLOCKS: [u64; 4] =
    [BLOCKS_AT[0][0], BLOCKS_AT[1][0], BLOCKS_AT[0][1], BLOCKS_AT[1][1]];
pub(crate) const WITNESS_BLOCKS: [u64; 2] = witness::BLOCKS_AT;
const BLOCK: usize = 4096;

/// The content of a block of the control file.
pub(crate) enum ControlBlock {
    Cut,
    Zeros,
    Damaged,
    /// A block of another program version, and the reason why it cannot be read.
    Unknown(String),
    State(ControlState),
}
/// A state. The table of fields in `checkpoint_file.rs` explains the fields.
pub(crate) struct ControlState {
    pub format: u32,
    pub log_id: u64,
    pub sequence: u64,
    pub checkpoint: u64,
    pub checkpoint_epoch: u64,
    pub epoch: u64,
    pub begins: u64,
    pub segment_bytes: u64,
    pub durable: u64,
    pub segments_end: u64,
    pub clean: bool,
    pub payload_bytes: usize,
}
pub(crate) fn control_block(bytes: &[u8]) -> ControlBlock {
    if bytes.len() < BLOCK {
        return ControlBlock::Cut;
    }
    match State::decode(bytes) {
        _ if bytes.iter().all(|b| *b == 0) => ControlBlock::Zeros,
        Err(why) => ControlBlock::Unknown(why.to_string()),
        Ok(None) => ControlBlock::Damaged,
        Ok(Some(s)) => ControlBlock::State(ControlState {
            format: s.format,
            log_id: s.log_id,
            sequence: s.sequence,
            checkpoint: s.checkpoint,
            checkpoint_epoch: s.checkpoint_epoch,
            epoch: s.epoch,
            begins: s.begins,
            segment_bytes: s.segment_bytes,
            durable: s.durable,
            segments_end: s.segments_end,
            clean: s.clean,
            payload_bytes: s.payload.len(),
        }),
    }
}
/// The log id, epoch and durable LSN of an undamaged witness block.
pub(crate) fn witness_block(bytes: &[u8]) -> Option<(u64, u64, u64)> {
    bytes.get(..BLOCK).and_then(witness::fields)
}

/// The log id and the bytes of stream in a segment, of an undamaged segment header.
pub(crate) fn segment_header(bytes: &[u8]) -> Option<(u64, u64)> {
    segments::header_fields(bytes.get(..SEGMENT_HEADER as usize)?)
}

/// A frame that lies at its own LSN.
pub(crate) struct Frame<'a> {
    pub kind: &'static str,
    /// The length with the header.
    pub len: usize,
    /// Everything below was durable when the frame was made; 0 if this is unknown.
    pub durable: u64,
    /// The epoch in which the frame verifies. None if it verifies in no epoch that was tried, or is
    /// cut off.
    pub epoch: Option<u64>,
    /// None if the frame goes on behind `bytes`.
    pub payload: Option<&'a [u8]>,
}
/// Finds the epochs in which frames verify; a frame's epoch is tried first on the next frame.
pub(crate) struct Epochs {
    last: u64,
    /// The number of bytes that may still be hashed in search of an epoch: a hostile file must not
    /// make the search endless.
    budget: u64,
}
impl Epochs {
    pub(crate) fn new() -> Epochs {
        Epochs { last: 0, budget: 1 << 30 }
    }
    fn of(&mut self, bytes: &[u8], header: &Header, log_id: u64) -> Option<u64> {
        let verifies = |epoch: u64| frame::verifies(bytes, header, frame::seed(log_id, epoch));
        // The frame that begins an epoch names it.
        let named = if header.kind == KIND_EPOCH { frame::epoch_of(bytes, header) } else { None };
        let mut found = named.or(Some(self.last)).filter(|epoch| verifies(*epoch));
        let mut epoch = 1;
        while found.is_none() && epoch <= u64::from(u16::MAX) && self.budget > bytes.len() as u64 {
            self.budget -= bytes.len() as u64;
            found = Some(epoch).filter(|epoch| verifies(*epoch));
            epoch += 1;
        }
        self.last = found.unwrap_or(self.last);
        found
    }
}
/// The length with the header that the header of a frame at `lsn` has. None if no frame is there.
pub(crate) fn frame_len(bytes: &[u8], lsn: u64) -> Option<usize> {
    let header = Header::read(bytes.get(..FRAME_HEADER)?);
    header.plausible_at(lsn).then(|| header.frame_len())
}
/// The frame at the beginning of `bytes`, which lie at `lsn` of the log. None if no frame is there.
pub(crate) fn frame_at<'a>(
    bytes: &'a [u8],
    lsn: u64,
    log_id: u64,
    epochs: &mut Epochs,
) -> Option<Frame<'a>> {
    let header = Header::read(bytes.get(..FRAME_HEADER)?);
    if !header.plausible_at(lsn) {
        return None;
    }
    let kind = match header.kind {
        KIND_CHANGES => "changes",
        KIND_EPOCH => "epoch begins",
        _ => "fills a block",
    };
    let len = header.frame_len();
    let whole = bytes.get(..len);
    let epoch = whole.and_then(|bytes| epochs.of(bytes, &header, log_id));
    Some(Frame {
        kind,
        len,
        durable: header.durable,
        epoch,
        payload: whole.map(|bytes| &bytes[header.header..]),
    })
}
