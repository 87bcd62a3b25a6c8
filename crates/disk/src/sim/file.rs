//! An open file of the simulated disk.
use super::world::{Queued, World};
use super::*;
use crate::medium::ATOMIC_PAGE;
use crate::{Io, assert_aligned};

pub(super) struct SimFile {
    pub world: Arc<Mutex<World>>,
    pub id: FileId,
    pub boot: u64,
    pub direct: bool,
}

impl SimFile {
    fn with<T>(&self, call: impl FnOnce(&mut World) -> io::Result<T>) -> io::Result<T> {
        let mut w = self.world.lock();
        if w.boot != self.boot {
            return Err(PowerLost::error());
        }
        call(&mut w)
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.direct, buf, offset);
        self.with(|w| w.read(self.id, buf, offset))
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.direct, buf, offset);
        self.with(|w| w.write(self.id, buf, offset, false))
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.direct, buf, offset);
        self.with(|w| w.write(self.id, buf, offset, true))
    }
    fn writes_atomically(&self, bytes: usize) -> bool {
        bytes == ATOMIC_PAGE as usize && self.world.lock().medium.atomic_pages
    }
    fn sync(&self) -> io::Result<()> {
        self.with(|w| w.sync(self.id))
    }
    fn len(&self) -> io::Result<u64> {
        self.with(|w| w.len(self.id))
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.with(|w| w.next_data(self.id, offset))
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|w| w.set_len(self.id, len))
    }
    fn submit(&self, io: Io) {
        if let Some(buf) = io.op.buf() {
            assert_aligned(self.direct, buf, io.offset);
        }
        let mut w = self.world.lock();
        if w.boot != self.boot || w.stopped {
            drop(w);
            return finish(io, Err(PowerLost::error()));
        }
        w.fold(&[self.id, io.offset]);
        w.medium.opened(self.id);
        w.queue.push(Queued { id: self.id, io });
    }
}

pub(super) fn finish(io: Io, result: io::Result<()>) {
    (io.done)(result, io.op.into_buf());
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut w = self.world.lock();
        if w.boot == self.boot {
            w.medium.closed(self.id);
        }
    }
}
