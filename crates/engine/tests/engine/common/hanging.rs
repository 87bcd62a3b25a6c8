//! A real disk whose writes to data files can be made to hang, and whose data files may be
//! impossible to remove.
use redolith_disk::{Disk, File, Io, Op, OpenHow, RealDisk};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// The writes that hang; none if all go on.
type Held = Arc<Mutex<Option<Vec<(Arc<dyn File>, Io)>>>>;

pub struct Hanging {
    disk: RealDisk,
    held: Held,
    pub keeps_files: AtomicBool,
}
struct HangingFile {
    file: Arc<dyn File>,
    held: Held,
}
impl Hanging {
    pub fn new() -> Arc<Hanging> {
        let disk = RealDisk::new();
        Arc::new(Hanging { disk, held: Arc::default(), keeps_files: AtomicBool::new(false) })
    }
    pub fn hang(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }
    pub fn go_on(&self) {
        let held = self.held.lock().unwrap().take().unwrap();
        held.into_iter().for_each(|(file, io)| file.submit(io));
    }
}
fn is_data(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "rdl") && !path.ends_with("doublewrite.rdl")
}
impl File for HangingFile {
    redolith_disk::forward_file!(file: read_at write_at write_durable_at sync len set_len);
    fn submit(&self, io: Io) {
        if let (Some(held), Op::Write(_)) = (&mut *self.held.lock().unwrap(), &io.op) {
            return held.push((self.file.clone(), io));
        }
        self.file.submit(io);
    }
}
impl Disk for Hanging {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        Ok(match is_data(path) {
            true => Arc::new(HangingFile { file, held: self.held.clone() }),
            false => file,
        })
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        if is_data(path) && self.keeps_files.load(SeqCst) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.disk.remove(path)
    }
    redolith_disk::forward_disk! {
        disk: exists list create_dir_all rename sync_dir lock_dir now wall_us random
    }
}
