//! The judgement of the records that travel with commits.
use super::apply::read_again;
use super::window::Window;
use crate::Result;
use crate::commit_stream::CommitStream;
use crate::log::FrameScanner;

/// Gives the records between the checkpoint and the end of the redo log to the stream, which judges
/// them. The redo log has been read to its end, and is read to its end once more.
pub(super) fn judge_records(scanner: &mut FrameScanner, stream: &dyn CommitStream) -> Result<()> {
    let end = scanner.position();
    scanner.rewind();
    let mut window = Window::default();
    window.fill(scanner)?;
    while !window.is_empty() {
        for (at, record) in window.commits() {
            stream.judge_record(at, record)?;
        }
        window.fill(scanner)?;
    }
    read_again(end, scanner.position())
}
