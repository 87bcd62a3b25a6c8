//! Decides which unsynced changes survive a power loss.
//!
//! LOSS-1: every 512-byte sector is whole: it has the content of some moment since the last sync.
//!         So any subset of the writes survives, in any order, torn anywhere between sectors. On a
//!         medium with atomic pages every 16 KiB page is whole in the same way.
//! LOSS-2: the length is a length that the file had since the last sync. The names in a folder are
//! the durable names with any subset of the later name changes.
//! LOSS-3: where the length survived and the data did not, there are zeros or garbage; garbage only
//! in sectors that no `set_len` had allocated.
//! LOSS-4: when a cut is lost, later writes into the part that was cut off are lost too.
use super::{Content, Medium, Piece, Seq, What};
use crate::image::Image;
use crate::rng::{Rng, mix_all};
use std::collections::BTreeMap;

const SECTOR: u64 = 512;
const SECTORS_PER_PAGE: u64 = 8;
/// The size of the pages that a medium with atomic pages writes whole or not at all.
pub(crate) const ATOMIC_PAGE: u64 = 16384;

/// A kind of damage. The names say what happens to the unsynced changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No change survives.
    Nothing,
    /// All changes survive.
    Everything,
    /// Changes before some moment survive; the change at that moment is torn.
    Prefix,
    /// Each write survives or not.
    Writes,
    /// Each 512-byte sector of a write survives or not.
    Sectors,
    /// Each 4 KiB page of a write survives or not.
    Pages,
    /// Lengths and names survive, data does not: there are zeros in its place.
    Zeros,
    /// As `Zeros`, with garbage where a write had made the file longer.
    Garbage,
}

impl Loss {
    pub const ALL: [Loss; 8] = [
        Loss::Nothing,
        Loss::Everything,
        Loss::Prefix,
        Loss::Writes,
        Loss::Sectors,
        Loss::Pages,
        Loss::Zeros,
        Loss::Garbage,
    ];

    pub(crate) fn any(rng: &mut Rng) -> Loss {
        Loss::ALL[rng.below(8) as usize]
    }
}

/// The decisions of one power loss. Each decision is a function of its subject, so that the order
/// of the decisions does not matter.
struct Fate {
    loss: Loss,
    salt: u64,
    /// Of 8 changes, this many survive on average.
    of_8: u64,
    moment: Seq,
    /// Name changes survive as a journal would keep them: in order, up to some change.
    journal: bool,
    /// This many consecutive sectors are written together or not at all.
    atomic_sectors: u64,
}

impl Fate {
    fn new(loss: Loss, first: Seq, last: Seq, atomic_pages: bool, rng: &mut Rng) -> Fate {
        let of_8 = [1, 4, 7][rng.below(3) as usize];
        let (salt, moment) = (rng.next(), first + rng.below(last.saturating_sub(first) + 1));
        let atomic_sectors = if atomic_pages { ATOMIC_PAGE / SECTOR } else { 1 };
        Fate { loss, salt, of_8, moment, journal: rng.one_in(2), atomic_sectors }
    }
    fn coin(&self, seq: Seq, part: u64) -> bool {
        mix_all(&[self.salt, seq, part]) % 8 < self.of_8
    }
    fn keeps_sector(&self, seq: Seq, sector: u64) -> bool {
        let sector = sector / self.atomic_sectors * self.atomic_sectors;
        match self.loss {
            Loss::Nothing | Loss::Zeros | Loss::Garbage => false,
            Loss::Everything => true,
            Loss::Prefix if seq == self.moment => self.coin(seq, sector),
            Loss::Prefix => seq < self.moment,
            Loss::Writes => self.coin(seq, 0),
            Loss::Sectors => self.coin(seq, sector),
            Loss::Pages => self.coin(seq, sector / SECTORS_PER_PAGE),
        }
    }
    /// Changes of names and lengths survive whole or not at all.
    fn keeps_metadata(&self, seq: Seq) -> bool {
        match self.loss {
            Loss::Nothing => false,
            Loss::Everything | Loss::Zeros | Loss::Garbage => true,
            Loss::Prefix if seq == self.moment => self.coin(seq, 0),
            Loss::Prefix => seq < self.moment,
            Loss::Writes | Loss::Sectors | Loss::Pages => self.coin(seq, u64::MAX),
        }
    }
    fn garbage(&self, sector: u64) -> Option<[u8; SECTOR as usize]> {
        let mut bytes = [0; SECTOR as usize];
        Rng::new(self.salt ^ sector).fill(&mut bytes);
        (self.loss == Loss::Garbage || self.coin(0, sector) && self.loss == Loss::Sectors)
            .then_some(bytes)
    }
}

impl Medium {
    /// The power goes and comes back. All open files are closed.
    pub fn lose_power(&mut self, loss: Loss, rng: &mut Rng) {
        let first = self
            .name_changes
            .iter()
            .map(|c| c.seq)
            .chain(self.files.values().flat_map(|f| &f.changes).map(|c| c.seq))
            .min();
        let fate =
            Fate::new(loss, first.unwrap_or(self.next_seq), self.next_seq, self.atomic_pages, rng);
        let mut names = std::mem::take(&mut self.durable_names);
        let changes = std::mem::take(&mut self.name_changes);
        let kept: Vec<bool> = changes.iter().map(|c| fate.keeps_metadata(c.seq)).collect();
        let journal_end = kept.iter().filter(|k| **k).count();
        for (i, c) in changes.iter().enumerate() {
            if if fate.journal { i < journal_end } else { kept[i] } {
                c.what.apply(&mut names);
            }
        }
        for f in self.files.values_mut() {
            f.lose(&fate);
            f.now = f.durable.clone();
            f.open = 0;
            f.path = None;
        }
        for (path, id) in &names {
            self.file(*id).path = Some(path.clone());
        }
        self.names = names.clone();
        self.durable_names = names;
        self.forget_unreachable();
    }
    /// A sync of the file has failed: readers still see its changes, but some of them are not
    /// durable, and no later sync writes them (Rebello et al.: Can Applications Recover from fsync
    /// Failures? USENIX ATC 2020).
    pub fn fail_sync(&mut self, id: super::FileId, rng: &mut Rng) {
        let fate = Fate::new(Loss::any(rng), 0, self.next_seq, self.atomic_pages, rng);
        self.file(id).lose(&fate);
    }
}

/// The part of a write that may survive, with the lengths of the file before and after the write.
struct Candidate {
    seq: Seq,
    piece: Piece,
    was: u64,
    len: u64,
}

impl Content {
    /// Brings `durable` to the state that `fate` decides, and forgets the changes.
    fn lose(&mut self, fate: &Fate) {
        let changes = std::mem::take(&mut self.changes);
        let synced_len = self.durable.len();
        // Length changes survive in order, up to some change.
        let resized: Vec<usize> =
            (0..changes.len()).filter(|i| changes[*i].was != changes[*i].len).collect();
        let kept = resized.iter().filter(|i| fate.keeps_metadata(changes[**i].seq)).count();
        let len = kept.checked_sub(1).map_or(synced_len, |last| changes[resized[last]].len);
        let first_lost = resized.get(kept).copied().unwrap_or(changes.len());

        let (mut candidates, mut limit) = (Vec::new(), u64::MAX);
        for (i, c) in changes.iter().enumerate() {
            match &c.what {
                What::Write(p) => {
                    candidates.extend(p.slice(0, limit).map(|piece| Candidate {
                        seq: c.seq,
                        piece,
                        was: c.was,
                        len: c.len,
                    }));
                }
                What::Cut if i < first_lost => {
                    write_survivors(&mut self.durable, &candidates, synced_len, fate);
                    candidates.clear();
                    self.durable.set_len(c.len);
                }
                What::Cut => limit = limit.min(c.len),
                What::Grow => {}
            }
        }
        write_survivors(&mut self.durable, &candidates, synced_len, fate);
        self.durable.set_len(len);
    }
}

/// Applies LOSS-1 to writes with no surviving cut between them.
fn write_survivors(image: &mut Image, writes: &[Candidate], synced_len: u64, fate: &Fate) {
    let mut history: BTreeMap<u64, Vec<&Candidate>> = BTreeMap::new();
    for w in writes {
        (w.piece.offset / SECTOR..w.piece.end().div_ceil(SECTOR))
            .for_each(|s| history.entry(s).or_default().push(w));
    }
    for (sector, writes) in history {
        let start = sector * SECTOR;
        // The sector's content is that after the last surviving write to it, so the sector contains
        // the earlier writes too.
        let survivors = writes
            .iter()
            .rposition(|w| fate.keeps_sector(w.seq, sector))
            .map_or(0, |last| last + 1);
        for part in writes[..survivors].iter().filter_map(|w| w.piece.slice(start, start + SECTOR))
        {
            image.write(part.bytes(), part.offset);
        }
        let fresh = start >= synced_len && writes.iter().any(|w| w.was < w.len && start >= w.was);
        if survivors == 0
            && fresh
            && let Some(bytes) = fate.garbage(sector)
        {
            image.write(&bytes, start);
        }
    }
}
