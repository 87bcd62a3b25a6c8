//! The judgement of the records that travel with commits.
//!
//! JUDGE-8: the stream judges the records as the first reading of the redo log comes to them, so
//! the log is not read once more for them. What the stream refuses counts only where nothing else
//! refuses the start: damage of the redo log or of a page explains what is wrong with a record.
use super::window::Window;
use crate::Result;
use crate::commit_stream::CommitStream;

/// A stream that judges records.
pub(crate) struct RecordJudge<'a> {
    stream: &'a dyn CommitStream,
    /// What the stream has said so far.
    said: Result<()>,
}
impl<'a> RecordJudge<'a> {
    /// Begins with the stream's state in the control file.
    pub(super) fn new(stream: &'a dyn CommitStream, state: &[u8]) -> RecordJudge<'a> {
        RecordJudge { stream, said: stream.judge(state) }
    }
    /// Judges the records of the next window, unless one was refused before.
    pub(super) fn take(&mut self, window: &Window) {
        if self.said.is_ok() {
            let mut records = window.commits();
            self.said = records.try_for_each(|(at, record)| self.stream.judge_record(at, record));
        }
    }
    /// What the stream says to all records.
    pub(super) fn end(self) -> Result<()> {
        self.said?;
        self.stream.judge_end()
    }
}
