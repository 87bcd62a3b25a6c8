//! Methods with which the scheduler and the tests control a simulated disk.
use super::file::finish;
use super::world::{Queued, World};
use super::*;
use crate::Op;

impl SimDisk {
    pub fn new(seed: u64) -> SimDisk {
        SimDisk { world: Arc::new(Mutex::new(World::new(seed))) }
    }
    pub(crate) fn from_medium(seed: u64, medium: Medium) -> SimDisk {
        let disk = SimDisk::new(seed);
        disk.world.lock().medium = medium;
        disk
    }
    /// Returns another disk with the same content, synced and unsynced, and its own future. Each
    /// submitted write has or has not begun in the copy. No file is open, and no fault is planned.
    pub fn fork(&self, seed: u64) -> SimDisk {
        let w = self.world.lock();
        let mut fork = World::new(seed);
        fork.medium = w.medium.clone();
        fork.clock = w.clock;
        fork.boot = w.boot + 1;
        for q in &w.queue {
            if let Op::Write(buf) | Op::WriteDurable(buf) | Op::WriteAtomic(buf) = &q.io.op
                && fork.rng.one_in(2)
            {
                fork.medium.write(q.id, crate::medium::Piece::new(q.io.offset, buf));
            }
        }
        fork.medium.close_all();
        SimDisk { world: Arc::new(Mutex::new(fork)) }
    }

    // Submitted operations.

    /// How many submitted operations have not run.
    pub fn pending(&self) -> usize {
        self.world.lock().queue.len()
    }
    /// Runs one submitted operation, picked at random, and calls its `done`. Returns false if there
    /// was none.
    pub fn step(&self) -> bool {
        let (io, result) = {
            let mut w = self.world.lock();
            if w.queue.is_empty() {
                return false;
            }
            let n = w.queue.len() as u64;
            let pick = w.rng.below(n) as usize;
            let Queued { id, mut io } = w.queue.swap_remove(pick);
            let result = match &mut io.op {
                Op::Read(buf) => w.read(id, buf, io.offset),
                Op::Write(buf) | Op::WriteAtomic(buf) => w.write(id, buf, io.offset, false),
                Op::WriteDurable(buf) => w.write(id, buf, io.offset, true),
                Op::Sync => w.sync(id),
            };
            w.medium.closed(id);
            (io, result)
        };
        finish(io, result);
        true
    }
    /// Runs submitted operations, and the operations that their `done`s submit, until none is left.
    pub fn run_all(&self) {
        while self.step() {}
    }

    // Time.

    pub fn advance(&self, time: Duration) {
        self.world.lock().clock += time;
    }

    // Power.

    /// Plans a power loss at the `n`-th operation from now (1 is the next). Submitted operations
    /// count when they run.
    pub fn crash_at_op(&self, n: u64) {
        assert!(n > 0);
        let mut w = self.world.lock();
        w.stop_at = Some(w.ops + n);
    }
    /// Switches the power off.
    pub fn power_off(&self) {
        self.world.lock().stopped = true;
    }
    /// Whether the power is gone.
    pub fn is_stopped(&self) -> bool {
        self.world.lock().stopped
    }
    /// Applies the power loss to the unsynced changes and makes the disk usable again. Files opened
    /// before stay dead.
    pub fn restart(&self) {
        let loss = Loss::any(&mut self.world.lock().rng);
        self.restart_with(loss);
    }
    pub fn restart_with(&self, loss: Loss) {
        let queue = {
            let mut guard = self.world.lock();
            let w = &mut *guard;
            w.begin_queued();
            w.medium.lose_power(loss, &mut w.rng);
            w.fold(&[loss as u64, w.ops]);
            w.boot();
            std::mem::take(&mut w.queue)
        };
        drop(queue); // SIM-2
    }
    /// Loses the power and restarts the disk.
    pub fn crash(&self) {
        self.power_off();
        self.restart();
    }
    pub fn crash_with(&self, loss: Loss) {
        self.power_off();
        self.restart_with(loss);
    }
    /// Kills the process. Its writes stay in the page cache, no more durable than before.
    pub fn kill(&self) {
        let queue = {
            let mut w = self.world.lock();
            w.begin_queued();
            w.medium.close_all();
            w.boot();
            std::mem::take(&mut w.queue)
        };
        drop(queue); // SIM-2
    }

    // Faults.

    pub fn fail(&self, fault: Fault) {
        self.world.lock().plan.add(fault);
    }
    /// Plans damage to the `n`-th operation from now (1 is the next), of whatever kind.
    pub fn damage_op(&self, n: u64, damage: Damage) {
        let mut w = self.world.lock();
        w.hit = Some((w.ops + n, damage));
    }
    /// Starts a journal of all operations.
    pub fn keep_journal(&self) {
        self.world.lock().journal = Some(Vec::new());
    }
    /// The operations of the journal, in order, each with its kind and its path.
    pub fn take_journal(&self) -> Vec<(OpKind, PathBuf)> {
        self.world.lock().journal.take().unwrap_or_default()
    }
    pub fn clear_faults(&self) {
        self.world.lock().plan.clear();
    }
    pub fn faults_fired(&self) -> u64 {
        self.world.lock().plan.fired
    }
    /// Makes the medium write aligned pages of 16 KiB whole or not at all, so that a server needs
    /// no second copies of pages.
    pub fn set_atomic_pages(&self) {
        self.world.lock().medium.atomic_pages = true;
    }
    /// Sets the disk's capacity; `None` means no limit. Files take whole blocks of 4 KiB.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world.lock().capacity_bytes = bytes;
    }
    pub fn used_bytes(&self) -> u64 {
        self.world.lock().medium.used_bytes()
    }
    /// Flips a bit (0..8) of a byte, durably. Fails with `NotFound`, or with `UnexpectedEof` when
    /// the file is shorter.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        let mut w = self.world.lock();
        let id = w.medium.find(path).ok_or(io::ErrorKind::NotFound)?;
        let mut byte = [0];
        if !w.medium.now(id).read(&mut byte, offset) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        w.medium.overwrite(id, &[byte[0] ^ (1 << bit)], offset);
        Ok(())
    }
    /// Flips a random bit in a block that is not all zeros, and returns the byte's offset. Returns
    /// `None` if the file has no such block or does not exist.
    pub fn flip_some_bit(&self, path: &Path) -> Option<u64> {
        let (offset, bit) = {
            let mut w = self.world.lock();
            let (pick, bit) = (w.rng.next() >> 1, w.rng.below(8) as u8);
            (w.medium.now(w.medium.find(path)?).pick_written(pick)?, bit)
        };
        self.flip_bit(path, offset, bit).ok().map(|()| offset)
    }
    /// Overwrites bytes durably, unnoticed by a program that has the file open.
    pub fn overwrite(&self, path: &Path, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut w = self.world.lock();
        let id = w.medium.find(path).ok_or(io::ErrorKind::NotFound)?;
        w.medium.overwrite(id, data, offset);
        Ok(())
    }

    // Looking.

    /// The content of a file as readers see it. The call does not count as an operation.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let w = self.world.lock();
        w.medium.find(path).map(|id| w.medium.now(id).to_vec())
    }
    /// Writes the files and folders in `from` durably to the folder `to` of another disk.
    pub fn copy_to(&self, from: &Path, disk: &dyn Disk, to: &Path) -> io::Result<()> {
        const CHUNK: u64 = 1 << 20;
        let target = |path: &Path| Some(to.join(path.strip_prefix(from).ok()?));
        let dirs: Vec<PathBuf> = std::iter::once(to.to_path_buf())
            .chain(self.dirs().iter().filter_map(|d| target(d)))
            .collect();
        dirs.iter().try_for_each(|d| disk.create_dir_all(d))?;
        let mut buf = vec![0; CHUNK as usize];
        for (path, len) in self.files() {
            let Some(target) = target(&path) else { continue };
            let file = disk.open(&target, OpenHow::create_new(false))?;
            file.set_len(len)?;
            for offset in (0..len).step_by(CHUNK as usize) {
                let part = &mut buf[..CHUNK.min(len - offset) as usize];
                let found = {
                    let w = self.world.lock();
                    w.medium.find(&path).is_some_and(|id| w.medium.now(id).read(part, offset))
                };
                if !found {
                    return Err(io::Error::other("the simulated disk is in use"));
                }
                if !crate::image::is_zero(part) {
                    file.write_at(part, offset)?;
                }
            }
            file.sync()?;
        }
        dirs.iter().try_for_each(|d| disk.sync_dir(d))
    }
    /// One word for names, lengths and contents of all files and for the names of all folders, as
    /// readers see them.
    pub fn digest(&self) -> u64 {
        let w = self.world.lock();
        let name = |path: &Path| mix_bytes(path.as_os_str().as_encoded_bytes());
        let dirs = w.medium.dirs().fold(0, |sum, dir| mix_all(&[sum, name(dir)]));
        w.medium
            .files()
            .fold(dirs, |sum, (path, id, _)| mix_all(&[sum, name(path), w.medium.now(id).digest()]))
    }
    /// The size in bytes of the longest durable write so far.
    pub fn longest_durable_write(&self) -> usize {
        self.world.lock().longest_durable_write
    }
    /// Paths and lengths of all files.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.world.lock().medium.files().map(|(path, _, len)| (path.to_path_buf(), len)).collect()
    }
    pub fn dirs(&self) -> Vec<PathBuf> {
        self.world.lock().medium.dirs().map(Path::to_path_buf).collect()
    }
    /// The number of operations so far.
    pub fn ops(&self) -> u64 {
        self.world.lock().ops
    }
    pub fn ops_of(&self, kind: OpKind) -> u64 {
        self.world.lock().tally.get(&kind).copied().unwrap_or(0)
    }
    /// One word for everything that has happened: equal seeds and calls give equal traces.
    pub fn trace(&self) -> u64 {
        self.world.lock().trace
    }
}
