//! The redo log in windows: a few MiB of frames at a time, sorted by page.
//!
//! A start goes through the redo log window by window. A window knows every page that its frames
//! change, so these pages can be read side by side, and each page is looked up once for all its
//! changes in the window.
//!
//! - WINDOW-1: the changes of one page keep the order of their frames. Changes of different pages
//!   need no order: a redo record depends on no page but its own.
//! - WINDOW-2: all changes that a frame makes to a page are one group. A mini-transaction may
//!   change page A, then B, then A again, and afterwards the LSN of A says that A has them all.
use crate::log::FrameScanner;
use crate::mtr::record::{Change, Record, Records, link};
use crate::{Error, Lsn, PAGE_SIZE, PageId, Result, SpaceId};
use std::ops::Range;

/// A window ends with the frame that reaches this size. The log takes about this long to read as
/// the pages of a window, if they are read side by side.
const WINDOW_BYTES: usize = 2 << 20;

/// Some frames of the redo log.
#[derive(Default)]
pub(super) struct Window {
    /// The payloads of the frames, one behind the other.
    bytes: Vec<u8>,
    frames: Vec<(Lsn, Lsn)>,
    /// By page, and for each page in the order of the log (WINDOW-1).
    pieces: Vec<Piece>,
    files: Vec<SpaceId>,
    /// The records for the commit stream: the start of the frame, and the place in `bytes`.
    commits: Vec<(Lsn, Range<usize>)>,
}
/// Consecutive records of one page in one frame.
#[derive(Clone, Copy)]
struct Piece {
    id: PageId,
    frame: u32,
    /// The place in the window's `bytes`.
    from: u32,
    to: u32,
    before: Option<u32>,
}

impl Window {
    /// Reads the next frames in place of the present ones. The window is empty at the end of the
    /// log.
    pub(super) fn fill(&mut self, scanner: &mut FrameScanner) -> Result<()> {
        self.bytes.clear();
        self.frames.clear();
        self.pieces.clear();
        self.files.clear();
        self.commits.clear();
        while self.bytes.len() < WINDOW_BYTES
            && let Some(frame) = scanner.next()?
        {
            self.add(frame.start, frame.end, frame.payload)?;
        }
        // `from` grows from frame to frame.
        self.pieces.sort_unstable_by_key(|p| (p.id, p.from));
        Ok(())
    }
    fn add(&mut self, start: Lsn, end: Lsn, payload: &[u8]) -> Result<()> {
        let (base, frame) = (self.bytes.len(), self.frames.len() as u32);
        self.bytes.extend_from_slice(payload);
        self.frames.push((start, end));
        let mut records = Records::new(payload);
        loop {
            let from = base + payload.len() - records.left();
            let Some(record) = records.next() else { return Ok(()) };
            let to = base + payload.len() - records.left();
            match record.map_err(|why| {
                Error::Incompatible(format!("the redo log's frame at LSN {start}: {why}"))
            })? {
                Record::File(space) => self.files.push(space),
                Record::Commit(record) => self.commits.push((start, to - record.len()..to)),
                Record::Page { id, before, .. } => match self.pieces.last_mut() {
                    // Records of other kinds in between are passed over by `Group::changes`.
                    Some(p) if p.frame == frame && p.id == id => p.to = to as u32,
                    _ => {
                        self.pieces.push(Piece {
                            id,
                            frame,
                            from: from as u32,
                            to: to as u32,
                            before,
                        });
                    }
                },
            }
        }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
    /// The number of frames.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }
    /// Where the last frame ends. The window is not empty.
    pub(super) fn end(&self) -> Lsn {
        self.frames[self.frames.len() - 1].1
    }
    /// The files that the frames name.
    pub(super) fn files(&self) -> &[SpaceId] {
        &self.files
    }
    /// The records for the commit stream, in the order of the log, each with the start of its
    /// frame.
    pub(super) fn commits(&self) -> impl Iterator<Item = (Lsn, &[u8])> {
        self.commits.iter().map(|(start, at)| (*start, &self.bytes[at.clone()]))
    }
    /// The changed pages with their changes.
    pub(super) fn pages(&self) -> impl Iterator<Item = PageChanges<'_>> {
        self.part(0, 1)
    }
    /// The changed pages of the part `n` of `parts` about equal parts.
    pub(super) fn part(&self, n: usize, parts: usize) -> impl Iterator<Item = PageChanges<'_>> {
        let bound = |n: usize| {
            let at = self.pieces.len() * n / parts;
            let of_previous = |p: &&Piece| at > 0 && p.id == self.pieces[at - 1].id;
            at + self.pieces[at..].iter().take_while(of_previous).count()
        };
        self.pieces[bound(n)..bound(n + 1)]
            .chunk_by(|a, b| a.id == b.id)
            .map(|pieces| PageChanges { window: self, pieces })
    }
}

/// The changes of one page in a window.
#[derive(Clone, Copy)]
pub(super) struct PageChanges<'a> {
    window: &'a Window,
    /// Not empty.
    pieces: &'a [Piece],
}
impl<'a> PageChanges<'a> {
    pub(super) fn id(&self) -> PageId {
        self.pieces[0].id
    }
    /// The changes of each frame, in the order of the log.
    pub(super) fn groups(&self) -> impl Iterator<Item = Group<'a>> + use<'a> {
        let window = self.window;
        self.pieces.chunk_by(|a, b| a.frame == b.frame).map(move |pieces| {
            let (start, end) = window.frames[pieces[0].frame as usize];
            Group { id: pieces[0].id, start, end, window, pieces }
        })
    }
}

/// The changes of one frame to one page (WINDOW-2).
#[derive(Clone, Copy)]
pub(super) struct Group<'a> {
    pub(super) id: PageId,
    /// Start and end of the frame.
    pub(super) start: Lsn,
    pub(super) end: Lsn,
    window: &'a Window,
    pieces: &'a [Piece],
}
impl Group<'_> {
    fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.pieces.iter().flat_map(|p| {
            let records = Records::new(&self.window.bytes[p.from as usize..p.to as usize]);
            records.filter_map(|record| match record.expect("the window was filled with it") {
                Record::Page { change, .. } => Some(change),
                Record::File(_) | Record::Commit(_) => None,
            })
        })
    }
    /// Whether the frame makes the whole page, whatever the page held before.
    pub(super) fn is_fresh(&self) -> bool {
        self.changes().next() == Some(Change::Init)
    }
    /// Whether a page with this LSN, which lacks these changes, is the page to which the changes
    /// were made (RECORD-1).
    pub(super) fn follows(&self, lsn: Lsn) -> bool {
        self.pieces[0].before.is_none_or(|b| b == link(lsn)) || self.is_fresh()
    }
    /// The LSN that the page had before these changes. The log has its low half, and the high half
    /// follows from the LSN being lower than the frame's.
    pub(super) fn lsn_before(&self) -> Lsn {
        const LOW: u64 = u32::MAX as u64;
        let lsn = self.end.0 & !LOW | self.pieces[0].before.map_or(0, u64::from);
        Lsn(if lsn < self.end.0 { lsn } else { lsn.saturating_sub(LOW + 1) })
    }
    pub(super) fn apply(&self, page: &mut [u8; PAGE_SIZE]) {
        self.changes().for_each(|c| c.apply(self.id, page));
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::mtr::record::{put_commit, put_file, put_init, put_page, put_write};

    fn page(no: u32) -> PageId {
        PageId { space: SpaceId(16), no }
    }
    /// The window's pages as (page number, LSNs at which groups end, bytes that the groups write).
    fn told(window: &Window, parts: usize) -> Vec<(u32, Vec<u64>, Vec<u8>)> {
        (0..parts)
            .flat_map(|n| window.part(n, parts).collect::<Vec<_>>())
            .map(|p| {
                let written = p.groups().flat_map(|g| {
                    g.changes()
                        .flat_map(|c| match c {
                            Change::Write { bytes, .. } => bytes.to_vec(),
                            _ => Vec::new(),
                        })
                        .collect::<Vec<_>>()
                });
                (p.id().no, p.groups().map(|g| g.end.0).collect(), written.collect())
            })
            .collect()
    }

    #[test]
    fn changes_are_grouped_by_page_and_keep_their_order() {
        let mut window = Window::default();
        let mut first = Vec::new();
        put_page(&mut first, page(9), Lsn(7));
        put_write(&mut first, 100, &[b"a"]);
        put_file(&mut first, SpaceId(44));
        // A record of the same page goes on behind a record of another kind.
        put_write(&mut first, 101, &[b"b"]);
        put_page(&mut first, page(3), Lsn(5));
        put_init(&mut first);
        put_write(&mut first, 100, &[b"c"]);
        put_page(&mut first, page(9), Lsn(7));
        put_write(&mut first, 102, &[b"d"]);
        put_commit(&mut first, b"events");
        let mut second = Vec::new();
        put_page(&mut second, page(3), Lsn(20));
        put_write(&mut second, 100, &[b"e"]);
        put_page(&mut second, page(9), Lsn(20));
        put_write(&mut second, 100, &[b"f"]);
        window.add(Lsn(10), Lsn(20), &first).unwrap();
        window.add(Lsn(20), Lsn(30), &second).unwrap();
        window.pieces.sort_unstable_by_key(|p| (p.id, p.from));

        let expected = vec![(3, vec![20, 30], b"ce".to_vec()), (9, vec![20, 30], b"abdf".to_vec())];
        for parts in 1..6 {
            // WINDOW-1, WINDOW-2
            assert_eq!(told(&window, parts), expected, "{parts} parts");
        }
        assert_eq!(window.files(), [SpaceId(44)]);
        assert_eq!(window.commits().collect::<Vec<_>>(), [(Lsn(10), &b"events"[..])]);
        assert_eq!((window.len(), window.end()), (2, Lsn(30)));
        let groups: Vec<Group<'_>> = window.pages().flat_map(|p| p.groups()).collect();
        assert!(groups[0].is_fresh() && groups[0].follows(Lsn(1)));
        assert!(!groups[2].is_fresh() && groups[2].follows(Lsn(7)) && !groups[2].follows(Lsn(8)));
        assert!(groups[3].follows(Lsn(20)) && !groups[3].follows(Lsn(7)));
        assert_eq!(groups[2].lsn_before(), Lsn(7));
    }

    #[test]
    fn the_lsn_before_a_change_is_below_the_change() {
        let high = 3 << 32;
        for (before, end) in [(high + 7, high + 10), (high - 6, high + 10), (high - 1, high)] {
            let mut payload = Vec::new();
            put_page(&mut payload, page(9), Lsn(before));
            put_write(&mut payload, 100, &[b"a"]);
            let mut window = Window::default();
            window.add(Lsn(end - 1), Lsn(end), &payload).unwrap();
            let group = window.pages().flat_map(|p| p.groups()).next().unwrap();
            assert_eq!(group.lsn_before(), Lsn(before));
            assert!(group.follows(group.lsn_before()));
        }
    }

    #[test]
    fn payload_that_is_no_redo_is_refused() {
        let why = Window::default().add(Lsn(10), Lsn(20), &[77]).unwrap_err().to_string();
        assert!(why.contains("frame at LSN 10"), "{why}");
    }
}
