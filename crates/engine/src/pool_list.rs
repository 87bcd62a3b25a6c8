//! The list of the pages in the buffer pool, in a file. A start that loads the list has the pages
//! in memory that the last run used most, before sessions ask for them. The file is as InnoDB's
//! `ib_buffer_pool`: a line for each page, the numbers of its space and of the page in decimal with
//! a comma between them, in the order in which the pages lie in their files.
//!
//! - WARM-1: the list is a hint. A list that is old, torn or made up costs reads, and nothing else:
//!   a load checks each page like any read, takes no frame of an instance of which less than an
//!   eighth is free, and so evicts no page.
//! - WARM-2: the file is replaced as a whole. A crash leaves the old list or the new one.
use crate::engine::Engine;
use crate::space::bitmap;
use crate::{PageId, PageNo, SpaceId};
use parking_lot::Mutex;
use redolith_disk::{Create, OpenHow};
use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// The file's name in the data directory.
const NAME: &str = "ib_buffer_pool";
/// The most reads of a load that are under way, so that sessions' reads come between.
const IN_FLIGHT: usize = 64;
/// The longest line, with its end.
const LINE_BYTES: u64 = 22;
/// Pages between two reports of the progress.
const REPORT_EVERY: usize = 1024;

/// How far the making of the list, or its loading, has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PoolListState {
    /// It has not begun since the start.
    #[default]
    NotBegun,
    /// It is under way.
    Running {
        /// Pages done, and all pages of the list.
        done: usize,
        /// All pages of the list.
        of: usize,
    },
    /// It has ended.
    Done {
        /// Pages of the list; of a load, those that were read.
        pages: usize,
        /// Microseconds since 1970.
        at_us: i64,
    },
    /// A load was stopped by [`Engine::stop_pool_load`] or by the shutdown.
    Stopped {
        /// Microseconds since 1970.
        at_us: i64,
    },
    /// It has failed, for this reason.
    Failed(String),
}

/// The state of the list's making (`dump`) and loading (`load`).
pub(crate) struct PoolList {
    dump: Mutex<PoolListState>,
    load: Mutex<PoolListState>,
    stop: AtomicBool,
    percent: AtomicU32,
}
impl PoolList {
    pub(crate) fn new() -> PoolList {
        PoolList {
            dump: Mutex::default(),
            load: Mutex::default(),
            stop: AtomicBool::new(false),
            percent: AtomicU32::new(25),
        }
    }
}
/// Begins the work if it is not under way.
fn begins(state: &Mutex<PoolListState>) -> bool {
    let mut state = state.lock();
    let begins = !matches!(*state, PoolListState::Running { .. });
    if begins {
        *state = PoolListState::Running { done: 0, of: 0 };
    }
    begins
}

impl Engine {
    /// Sets how many of the pages in memory the list has, in percent (1 to 100).
    pub fn set_pool_dump_percent(&self, percent: u32) {
        self.pool_list.percent.store(percent, Relaxed);
    }
    /// Writes the list of the pages that were used last. Does nothing if the list is being written,
    /// or if the engine changes nothing ([`crate::Forced`]). [`Engine::pool_lists`] tells how it
    /// ended.
    pub async fn dump_pool(self: &Arc<Self>) {
        let state = &self.pool_list.dump;
        if self.config.forced.is_on() || !begins(state) {
            return;
        }
        // To look at each frame of a large pool takes long.
        self.runtime.leave_worker();
        let mut pages = self.store.pool.last_used(self.pool_list.percent.load(Relaxed));
        pages.sort_unstable_by_key(|id| (id.space.0, id.no));
        let ended = match self.write_list(&pages) {
            Ok(()) => PoolListState::Done { pages: pages.len(), at_us: self.disk.wall_us() },
            Err(e) => PoolListState::Failed(format!("cannot write {NAME}: {e}")),
        };
        if let PoolListState::Failed(why) = &ended {
            tracing::warn!("the list of the buffer pool's pages: {why}");
        }
        *state.lock() = ended;
    }
    /// As [`Engine::dump_pool`], in the background.
    pub fn begin_pool_dump(self: &Arc<Self>) {
        self.spawn("pool dump", |engine| async move { engine.dump_pool().await });
    }
    fn write_list(&self, pages: &[PageId]) -> io::Result<()> {
        let mut text = String::with_capacity(pages.len() * 12);
        for id in pages {
            let _ = writeln!(text, "{},{}", id.space.0, id.no);
        }
        // WARM-2
        let dir = &self.config.dir;
        let (to, new) = (dir.join(NAME), dir.join(format!("{NAME}.incomplete")));
        let file = self.disk.open(&new, OpenHow { create: Create::Create, direct: false })?;
        file.set_len(0)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync()?;
        self.disk.rename(&new, &to)?;
        self.disk.sync_dir(dir)
    }

    /// Begins to read the pages of the list, in the background. Does nothing if a load is under
    /// way. [`Engine::pool_lists`] tells how far it is.
    pub fn load_pool(self: &Arc<Self>) {
        if self.config.forced.is_on() || !begins(&self.pool_list.load) {
            return;
        }
        self.pool_list.stop.store(false, Release);
        self.spawn("pool load", |engine| async move {
            engine.runtime.leave_worker();
            let ended = match engine.read_list() {
                Ok(pages) => engine.load_pages(pages).await,
                // A new data directory has no list.
                Err(e) if e.kind() == io::ErrorKind::NotFound => PoolListState::NotBegun,
                Err(e) => PoolListState::Failed(format!("cannot read {NAME}: {e}")),
            };
            *engine.pool_list.load.lock() = ended;
        });
    }
    /// Stops a load that is under way.
    pub fn stop_pool_load(&self) {
        self.pool_list.stop.store(true, Release);
    }
    /// How far the last making of the list is, and the last load.
    pub fn pool_lists(&self) -> (PoolListState, PoolListState) {
        (self.pool_list.dump.lock().clone(), self.pool_list.load.lock().clone())
    }

    /// The pages of a list, no more than the pool has frames.
    fn read_list(&self) -> io::Result<Vec<PageId>> {
        let most = self.store.pool.size();
        let file = self.disk.open(&self.config.dir.join(NAME), OpenHow::existing(false))?;
        let mut text = vec![0; file.len()?.min(most as u64 * LINE_BYTES) as usize];
        file.read_at(&mut text, 0)?;
        pages_of(&text, most).ok_or_else(|| io::Error::other("it is no list of pages"))
    }
    async fn load_pages(&self, pages: Vec<PageId>) -> PoolListState {
        let (pool, of) = (&self.store.pool, pages.len());
        let (mut reads, mut read) = (VecDeque::with_capacity(IN_FLIGHT), 0);
        for (done, id) in pages.into_iter().enumerate() {
            if done % REPORT_EVERY == 0 {
                *self.pool_list.load.lock() = PoolListState::Running { done, of };
            }
            if self.closing.load(Acquire) || self.pool_list.stop.load(Acquire) {
                return PoolListState::Stopped { at_us: self.disk.wall_us() };
            }
            // An undo file may be replaced at any time while nobody uses it (UCUT-2), and a page
            // that is just being read would then be one of the old file. Undo itself is never read
            // from a page that was not made anew.
            if SpaceId::UNDO.contains(&id.space) && (id.no < 2 || bitmap::is_bitmap(id.no)) {
                continue;
            }
            // WARM-1
            if !pool.has_room_ahead(id) || pool.contains(id) {
                continue;
            }
            read += 1;
            reads.extend(pool.prefetch(id));
            if reads.len() >= IN_FLIGHT
                && let Some(oldest) = reads.pop_front()
            {
                // A page that cannot be read is left to the session that needs it.
                let _ = oldest.await;
            }
        }
        for last in reads {
            let _ = last.await;
        }
        PoolListState::Done { pages: read, at_us: self.disk.wall_us() }
    }
}

/// The pages that the lines of `text` name, at most `most`; None if a line is something else. The
/// last line may be cut.
fn pages_of(text: &[u8], most: usize) -> Option<Vec<PageId>> {
    let mut pages = Vec::new();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    for line in text[..whole].split_inclusive(|byte| *byte == b'\n').take(most) {
        let (space, no) = std::str::from_utf8(line).ok()?.trim_ascii_end().split_once(',')?;
        pages.push(PageId { space: SpaceId(space.parse().ok()?), no: no.parse::<PageNo>().ok()? });
    }
    (whole > 0 || text.is_empty()).then_some(pages)
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_numbers_in_lines() {
        let pages = |text: &str, most| {
            pages_of(text.as_bytes(), most)
                .map(|pages| pages.iter().map(|id| (id.space.0, id.no)).collect::<Vec<_>>())
        };
        assert_eq!(pages("", 9), Some(vec![]));
        assert_eq!(pages("1,2\n3,4\n", 9), Some(vec![(1, 2), (3, 4)]));
        assert_eq!(pages("1,2\n3,4\n", 1), Some(vec![(1, 2)]));
        assert_eq!(pages("1,2\r\n3,4", 9), Some(vec![(1, 2)]), "the last line is cut");
        assert_eq!(pages("4294967295,4294967295\n", 9), Some(vec![(u32::MAX, u32::MAX)]));
        for other in ["1,2", "1\n", "1,2\nx\n", "4294967296,1\n", "-1,1\n", "1,2,3\n", "\n"] {
            assert_eq!(pages(other, 9), None, "{other:?}");
        }
        assert_eq!(pages_of(b"\xff\xfe,1\n", 9), None);
    }
}
