//! Plays a tape back and makes images of the disk after a power loss.
use super::{Action, Entry, Tape, TapeFile};
use crate::medium::{FileId, Loss, Medium, Piece, Seq, parent};
use crate::rng::Rng;
use crate::sim::SimDisk;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A position on a tape, which moves forward only. A clone keeps its own position, and is cheap
/// because clones share blocks.
#[derive(Clone)]
pub struct Replay {
    tape: Arc<Mutex<Tape>>,
    position: usize,
    medium: Medium,
    files: BTreeMap<TapeFile, FileState>,
    /// Operations that have started and not ended, by their entry.
    running: BTreeMap<usize, Running>,
}

#[derive(Clone, Default)]
struct FileState {
    id: FileId,
    /// Changes that have ended and are not durable.
    ended: Vec<Seq>,
}
#[derive(Clone)]
enum Running {
    Write(TapeFile, Seq),
    DurableWrite(TapeFile, Piece),
    /// A sync, with the changes that had ended when the sync started (TAPE-2).
    Sync(TapeFile, Vec<Seq>),
    SyncDir(std::path::PathBuf, Seq),
}

impl Replay {
    pub(super) fn new(tape: Arc<Mutex<Tape>>) -> Replay {
        Replay {
            tape,
            position: 0,
            medium: Medium::default(),
            files: BTreeMap::new(),
            running: BTreeMap::new(),
        }
    }
    pub fn position(&self) -> usize {
        self.position
    }
    /// Plays up to a position of the recording, which must not lie before the present position.
    pub fn advance_to(&mut self, position: usize) {
        let tape = self.tape.clone();
        let tape = tape.lock();
        assert!(
            (self.position..=tape.entries.len()).contains(&position),
            "position {position}: behind, or past the end of the tape"
        );
        for at in self.position..position {
            match &tape.entries[at] {
                Entry::Start(action) => self.start(at, action),
                Entry::End(start, ok) => self.end(*start, *ok),
            }
        }
        self.position = position;
    }
    /// The disk after a power loss at the present position.
    pub fn image(&self, seed: u64) -> SimDisk {
        let loss = Loss::any(&mut Rng::new(seed));
        self.image_with(loss, seed)
    }
    pub fn image_with(&self, loss: Loss, seed: u64) -> SimDisk {
        let mut medium = self.medium.clone();
        medium.lose_power(loss, &mut Rng::new(seed));
        SimDisk::from_medium(seed, medium)
    }

    fn id(&self, file: TapeFile) -> FileId {
        self.files[&file].id
    }
    fn created(&mut self, file: TapeFile, id: FileId) {
        // The file is kept open while the tape plays: the program may write to it through an open
        // handle after its name is gone.
        self.medium.opened(id);
        self.files.insert(file, FileState { id, ended: Vec::new() });
    }
    fn start(&mut self, at: usize, action: &Action) {
        const PLAYED: &str = "the tape holds what the disk has done";
        match action {
            Action::CreateDir(dir) => self.medium.create_dir_all(dir),
            Action::Found(path, file, pieces, len) => {
                self.medium.create_dir_all(parent(path));
                let id = self
                    .medium
                    .find(path)
                    .unwrap_or_else(|| self.medium.create(path).expect(PLAYED).0);
                pieces.iter().for_each(|p| self.medium.write_durable(id, p));
                assert_eq!(self.medium.now(id).len(), *len);
                self.medium.name_is_durable(path, id);
                self.created(*file, id);
            }
            Action::Create(path, file) => {
                let (id, _) = self.medium.create(path).expect(PLAYED);
                self.created(*file, id);
            }
            Action::Remove(path) => _ = self.medium.remove(path).expect(PLAYED),
            Action::Rename(from, to) => _ = self.medium.rename(from, to).expect(PLAYED),
            Action::SyncDir(dir) => {
                _ = self.running.insert(at, Running::SyncDir(dir.clone(), self.medium.last_seq()))
            }
            Action::Write(file, piece) => {
                let seq = self.medium.write(self.id(*file), piece.clone());
                self.running.insert(at, Running::Write(*file, seq));
            }
            Action::DurableWrite(file, piece) => {
                self.medium.write(self.id(*file), piece.clone());
                self.running.insert(at, Running::DurableWrite(*file, piece.clone()));
            }
            Action::SetLen(file, len) => {
                let seq = self.medium.set_len(self.id(*file), *len);
                self.running.insert(at, Running::Write(*file, seq));
            }
            Action::Sync(file) => {
                let mut covered = self.files[file].ended.clone();
                covered.sort_unstable(); // they ended in another order than they started
                self.running.insert(at, Running::Sync(*file, covered));
            }
        }
    }
    fn end(&mut self, start: usize, ok: bool) {
        let Some(running) = self.running.remove(&start) else { return };
        match running {
            _ if !ok => {}
            Running::Write(file, seq) => {
                self.files.get_mut(&file).expect("started").ended.push(seq)
            }
            Running::DurableWrite(file, piece) => self.medium.write_durable(self.id(file), &piece),
            Running::Sync(file, covered) => {
                let state = self.files.get_mut(&file).expect("started");
                state.ended.retain(|s| covered.binary_search(s).is_err());
                self.medium.sync(state.id, |s| covered.binary_search(&s).is_ok());
            }
            // A sync of a folder that has since been removed has nothing left to do.
            Running::SyncDir(dir, until) => _ = self.medium.sync_dir(&dir, |s| s <= until),
        }
    }
}
