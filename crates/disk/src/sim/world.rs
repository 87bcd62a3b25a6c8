//! The state of a simulated machine's disk, and the steps of every operation: it is counted and
//! traced, the power may go at it, it may be damaged, and then it is done.
use super::*;
use crate::Io;
use crate::medium::{ATOMIC_PAGE, Piece};

pub(super) struct World {
    pub medium: Medium,
    /// Decides about order, damage and losses. The program under test never draws from it.
    pub rng: Rng,
    pub callers_rng: Rng,
    pub clock: Duration,
    /// Files and locks of an earlier boot are dead.
    pub boot: u64,
    pub stopped: bool,
    pub stop_at: Option<u64>,
    pub ops: u64,
    pub tally: BTreeMap<OpKind, u64>,
    pub longest_durable_write: usize,
    pub trace: u64,
    pub plan: Plan,
    /// The damage planned for the operation with this number.
    pub hit: Option<(u64, Damage)>,
    /// The operations done, where a test asked for a journal.
    pub journal: Option<Vec<(OpKind, PathBuf)>>,
    pub capacity_bytes: Option<u64>,
    pub queue: Vec<Queued>,
    pub locks: BTreeSet<PathBuf>,
}

/// A submitted operation. It keeps its file open.
pub(super) struct Queued {
    pub id: FileId,
    pub io: Io,
}

pub(super) enum Verdict {
    Go(Option<Damage>),
    /// The power goes now: the operation may have begun.
    Cut,
}

pub(super) fn error_of(damage: Damage) -> io::Error {
    match damage {
        Damage::NoSpace => io::Error::new(io::ErrorKind::StorageFull, "simulated: no space left"),
        _ => io::Error::from_raw_os_error(5), // EIO
    }
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        World {
            medium: Medium::default(),
            callers_rng: Rng::new(rng.next()),
            rng,
            clock: Duration::ZERO,
            boot: 0,
            stopped: false,
            stop_at: None,
            ops: 0,
            tally: BTreeMap::new(),
            longest_durable_write: 0,
            trace: seed,
            plan: Plan::default(),
            hit: None,
            journal: None,
            capacity_bytes: None,
            queue: Vec::new(),
            locks: BTreeSet::new(),
        }
    }
    pub fn fold(&mut self, words: &[u64]) {
        self.trace = mix_all(&[self.trace, mix_all(words)]);
    }
    /// Counts and traces an operation, and says whether it runs. `path` is for the plan of faults
    /// and the trace.
    pub fn begin(
        &mut self,
        kind: OpKind,
        path: Option<&Path>,
        details: &[u64],
    ) -> io::Result<Verdict> {
        if self.stopped {
            return Err(PowerLost::error());
        }
        self.ops += 1;
        *self.tally.entry(kind).or_default() += 1;
        self.fold(&[
            self.ops,
            kind as u64,
            path.map_or(0, |p| mix_bytes(p.as_os_str().as_encoded_bytes())),
            mix_all(details),
        ]);
        if self.stop_at.is_some_and(|n| self.ops >= n) {
            self.stopped = true;
            return Ok(Verdict::Cut);
        }
        if let Some(journal) = &mut self.journal {
            journal.push((kind, path.unwrap_or(Path::new("")).into()));
        }
        let hit = self.hit.filter(|(op, _)| *op == self.ops).map(|(_, damage)| damage);
        self.plan.fired += hit.is_some() as u64;
        let damage = self.plan.next(kind, path).or(hit);
        if let Some(d) = damage {
            self.fold(&[d as u64]);
        }
        Ok(Verdict::Go(damage))
    }
    fn begin_on(&mut self, kind: OpKind, id: FileId, details: &[u64]) -> io::Result<Verdict> {
        let path = self.medium.path(id).map(Path::to_path_buf);
        self.begin(kind, path.as_deref(), details)
    }
    /// Begins an operation that a power loss or a fault only prevents.
    pub fn plain(&mut self, kind: OpKind, path: &Path) -> io::Result<()> {
        let verdict = self.begin(kind, Some(path), &[])?;
        Self::prevented(verdict)
    }
    fn prevented(verdict: Verdict) -> io::Result<()> {
        match verdict {
            Verdict::Go(None | Some(Damage::Lost | Damage::Misdirected | Damage::Flip)) => Ok(()),
            Verdict::Go(Some(d)) => Err(error_of(d)),
            Verdict::Cut => Err(PowerLost::error()),
        }
    }
    /// Changes names. When the power goes at the change, the change becomes an unsynced change.
    pub fn change_names(
        &mut self,
        kind: OpKind,
        path: &Path,
        change: impl FnOnce(&mut Medium) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.begin(kind, Some(path), &[])? {
            Verdict::Cut => {
                let _ = change(&mut self.medium);
                Err(PowerLost::error())
            }
            go => Self::prevented(go).and_then(|()| change(&mut self.medium)),
        }
    }
    pub fn open(&mut self, path: &Path, how: OpenHow) -> io::Result<FileId> {
        let verdict = self.begin(OpKind::Open, Some(path), &[how.create as u64])?;
        let old = self.medium.find(path);
        if matches!(verdict, Verdict::Cut) && old.is_none() && how.create != Create::Existing {
            let _ = self.medium.create(path);
        }
        Self::prevented(verdict)?;
        match (old, how.create) {
            (Some(_), Create::CreateNew) => {
                Err(io::Error::new(io::ErrorKind::AlreadyExists, path.display().to_string()))
            }
            (Some(id), _) => Ok(id),
            (None, Create::Existing) => {
                Err(io::Error::new(io::ErrorKind::NotFound, path.display().to_string()))
            }
            // Even an empty file takes a place in its folder.
            (None, _) if self.room() == 0 => Err(error_of(Damage::NoSpace)),
            (None, _) => self.medium.create(path).map(|(id, _)| id),
        }
    }

    pub fn read(&mut self, id: FileId, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let verdict = self.begin_on(OpKind::Read, id, &[id, offset, buf.len() as u64])?;
        let flip = matches!(verdict, Verdict::Go(Some(Damage::Flip)));
        Self::prevented(verdict)?;
        if !self.medium.now(id).read(buf, offset) {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{:?}: read at {offset}", self.medium.path(id)),
            ));
        }
        if flip {
            self.flip(buf);
        }
        self.fold(&[mix_bytes(buf)]);
        Ok(())
    }
    fn flip(&mut self, bytes: &mut [u8]) {
        if !bytes.is_empty() {
            let bit = self.rng.below(bytes.len() as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }

    pub fn write(&mut self, id: FileId, data: &[u8], offset: u64, durable: bool) -> io::Result<()> {
        let kind = if durable { OpKind::DurableWrite } else { OpKind::Write };
        if durable {
            self.longest_durable_write = self.longest_durable_write.max(data.len());
        }
        let damage = match self.begin_on(kind, id, &[id, offset, mix_bytes(data)])? {
            Verdict::Cut => {
                // The write has begun and is not synced: the power loss decides how much of it
                // survives.
                let n = self.fits(id, offset, data.len());
                self.medium.write(id, Piece::new(offset, &data[..n]));
                return Err(PowerLost::error());
            }
            Verdict::Go(damage) => damage,
        };
        let put = |w: &mut World, data: &[u8], offset: u64| {
            let piece = Piece::new(offset, data);
            if durable {
                w.medium.write_durable(id, &piece);
            } else {
                w.medium.write(id, piece);
            }
        };
        match damage {
            Some(d @ (Damage::Eio | Damage::NoSpace)) => return Err(error_of(d)),
            Some(Damage::Short) => {
                let unit = if self.medium.atomic_pages { ATOMIC_PAGE as usize } else { 512 };
                let n = self.rng.below((data.len() / unit) as u64 + 1) as usize * unit;
                self.medium.write(
                    id,
                    Piece::new(
                        offset,
                        &data[..if n < data.len() { n } else { n.saturating_sub(unit) }],
                    ),
                );
                return Err(error_of(Damage::Short));
            }
            Some(Damage::Torn) => {
                let unit = if self.medium.atomic_pages { ATOMIC_PAGE as usize } else { 512 };
                for (i, sector) in data.chunks(unit).enumerate() {
                    if self.rng.one_in(2) {
                        self.medium.write(id, Piece::new(offset + (i * unit) as u64, sector));
                    }
                }
                return Err(error_of(Damage::Torn));
            }
            Some(Damage::Lost) => return Ok(()),
            Some(Damage::Misdirected) => {
                let places =
                    (self.medium.now(id).len().saturating_sub(data.len() as u64)) / 4096 + 1;
                let place = self.rng.below(places) * 4096;
                let place = if place == offset { (offset + 4096) % (places * 4096) } else { place };
                // In a file with only one place the write is lost.
                if place != offset {
                    put(self, data, place);
                }
                return Ok(());
            }
            Some(Damage::Flip) => {
                let mut data = data.to_vec();
                self.flip(&mut data);
                put(self, &data, offset);
                return Ok(());
            }
            None => {}
        }
        let n = self.fits(id, offset, data.len());
        if n < data.len() {
            self.medium.write(id, Piece::new(offset, &data[..n]));
            return Err(error_of(Damage::NoSpace));
        }
        put(self, data, offset);
        Ok(())
    }
    fn room(&self) -> u64 {
        self.capacity_bytes.map_or(u64::MAX, |c| c.saturating_sub(self.medium.used_bytes()))
    }
    /// How many of the `len` bytes at `offset` fit on the disk.
    fn fits(&self, id: FileId, offset: u64, len: usize) -> usize {
        let end = self.medium.now(id).len().next_multiple_of(4096).saturating_add(self.room());
        end.saturating_sub(offset).min(len as u64) as usize
    }
    pub fn set_len(&mut self, id: FileId, len: u64) -> io::Result<()> {
        let verdict = self.begin_on(OpKind::SetLen, id, &[id, len])?;
        let fits =
            len <= self.medium.now(id).len().next_multiple_of(4096).saturating_add(self.room());
        if matches!(verdict, Verdict::Cut) && fits {
            self.medium.set_len(id, len);
        }
        Self::prevented(verdict)?;
        if !fits {
            return Err(error_of(Damage::NoSpace));
        }
        self.medium.set_len(id, len);
        Ok(())
    }
    pub fn sync(&mut self, id: FileId) -> io::Result<()> {
        match self.begin_on(OpKind::Sync, id, &[id])? {
            Verdict::Go(None) => self.medium.sync(id, |_| true),
            Verdict::Go(Some(Damage::Lost | Damage::Misdirected | Damage::Flip)) => {}
            Verdict::Go(Some(d)) => {
                let mut rng = self.rng.clone();
                self.medium.fail_sync(id, &mut rng);
                self.rng = rng;
                return Err(error_of(d));
            }
            Verdict::Cut => return Err(PowerLost::error()),
        }
        Ok(())
    }
    pub fn len(&mut self, id: FileId) -> io::Result<u64> {
        let verdict = self.begin_on(OpKind::Len, id, &[id])?;
        Self::prevented(verdict)?;
        Ok(self.medium.now(id).len())
    }

    pub fn next_data(&mut self, id: FileId, offset: u64) -> io::Result<Option<u64>> {
        let verdict = self.begin_on(OpKind::Len, id, &[id, offset])?;
        Self::prevented(verdict)?;
        Ok(self.medium.now(id).next_data(offset))
    }

    /// Starts some of the submitted writes, since each may have begun when the machine stops.
    pub fn begin_queued(&mut self) {
        for i in 0..self.queue.len() {
            let (id, offset) = (self.queue[i].id, self.queue[i].io.offset);
            if let crate::Op::Write(buf)
            | crate::Op::WriteDurable(buf)
            | crate::Op::WriteAtomic(buf) = &self.queue[i].io.op
                && self.rng.one_in(2)
            {
                let n = self.fits(id, offset, buf.len());
                let piece = Piece::new(offset, &buf[..n]);
                self.medium.write(id, piece);
            }
        }
    }
    pub fn boot(&mut self) {
        self.boot += 1;
        self.stopped = false;
        self.stop_at = None;
        self.locks.clear();
    }
}
