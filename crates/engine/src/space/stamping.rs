//! The task that stamps the headers of files and enters the stamps in the register
//! ([`super::register`]).
use super::register::Entry;
use crate::engine::{Engine, in_time};
use crate::sync::event::either;
use crate::{Error, PageId, Result, SpaceId};
use hashbrown::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// How often files that were written get a stamp (REGISTER-2).
const STAMP_EVERY: Duration = Duration::from_secs(10);
/// The longest time that a stamp waits for room in the redo log.
const STAMP_WAIT: Duration = Duration::from_secs(1);
/// The time until the next attempt while a file is being replaced.
const STAMP_PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn keep_stamps(engine: Arc<Engine>) {
    let (spaces, mut told) = (&engine.store.spaces, false);
    while !engine.closing.load(Acquire) {
        let seen = spaces.first_write.seen();
        if spaces.unstamped() == 0 {
            either(engine.nap(STAMP_EVERY), spaces.first_write.after(seen)).await;
        }
        if engine.closing.load(Acquire) {
            return;
        }
        match engine.stamp_files().await {
            Ok(true) => {
                spaces.without_register.store(false, Release);
                told = false;
            }
            // A file is being replaced at the moment.
            Ok(false) => engine.nap(STAMP_PAUSE).await,
            Err(e) => {
                spaces.without_register.store(true, Release);
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(
                        "the data files could not be stamped: {e}. Until they are, a \
                         start cannot recognise older copies of the files"
                    );
                }
                engine.nap(STAMP_EVERY).await;
            }
        }
    }
}
impl Engine {
    /// Stamps the files that were written, and enters the stamps in the register. Returns false if
    /// a file is being replaced at the moment.
    pub(crate) async fn stamp_files(&self) -> Result<bool> {
        let (spaces, log) = (&self.store.spaces, &self.store.log);
        let Some(_stamping) = spaces.try_stamping() else { return Ok(false) };
        let (mut entries, mut headers) = (Vec::new(), Vec::new());
        let (mut late, mut failed) = (false, None);
        for id in spaces.take_written() {
            let stamped = match late {
                true => None,
                false => {
                    in_time(
                        &mut pin!(self.retry(|| super::stamp(&self.store, id))),
                        &mut self.runtime.sleep(STAMP_WAIT),
                    )
                    .await
                }
            };
            match stamped {
                Some(Ok((stamp, end))) => {
                    // REGISTER-5. The engine's own files may get shorter.
                    let file = spaces.get(id).filter(|_| id >= SpaceId::FIRST_TABLE);
                    let pages = file.map_or(0, |space| space.pages());
                    entries.push((id, Entry { stamp, pages }));
                    headers.push((PageId { space: id, no: 0 }, end));
                }
                // REGISTER-3: an error of the disk may pass, and the file is as it was.
                Some(Err(e @ Error::Io { .. })) => {
                    // A file that is gone needs none.
                    if let Some(s) = spaces.get(id).filter(|s| !s.is_gone()) {
                        spaces.written_again(&s);
                        failed = Some(e);
                    }
                }
                // A file that has been dropped needs no stamp any more. A damaged file is reported
                // by the next reader of its pages.
                Some(Err(_)) => spaces.get(id).iter().for_each(|s| spaces.needs_no_stamp(s)),
                // The redo log may stay full until a checkpoint that waits for this very stamp.
                None => {
                    late = true;
                    spaces.get(id).iter().for_each(|s| spaces.written_again(s));
                }
            }
        }
        let rest = match failed {
            Some(e) => Err(e),
            None if late => Err(Error::LogFull),
            None => Ok(true),
        };
        if entries.is_empty() {
            return rest;
        }
        let durable = log.tail();
        log.flush_to(durable).await;
        self.flusher.write_now(&headers).await;
        self.runtime.before_blocking();
        // Until a start has read the dictionary, every file may be a table's.
        let is_resolved = self.is_resolved.load(Acquire);
        let known: HashSet<SpaceId> = self.dict.all_tables().iter().map(|t| t.space).collect();
        let done = spaces.registered(durable, &entries, |id| {
            !is_resolved || id < SpaceId::FIRST_TABLE || known.contains(&id)
        });
        for s in entries.iter().filter_map(|(id, _)| spaces.get(*id)) {
            if done.is_ok() { spaces.needs_no_stamp(&s) } else { spaces.written_again(&s) }
        }
        done.and(rest)
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::small_engine::*;
    use redolith_disk::{Disk, File, Io, Op, OpenHow, RealDisk};
    use std::io;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    /// A disk that may be unable to read the headers of tables' files.
    struct Headless {
        disk: RealDisk,
        fails: Arc<AtomicBool>,
    }
    struct HeadlessFile {
        file: Arc<dyn File>,
        fails: Arc<AtomicBool>,
    }
    impl Disk for Headless {
        fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
            let file = self.disk.open(path, how)?;
            let is_table = path.parent().is_some_and(|dir| dir.ends_with("tables"));
            let fails = self.fails.clone();
            Ok(if is_table { Arc::new(HeadlessFile { file, fails }) } else { file })
        }
        redolith_disk::forward_disk! {
            disk: exists list create_dir_all remove rename sync_dir lock_dir now wall_us random
        }
    }
    impl File for HeadlessFile {
        redolith_disk::forward_file!(file: read_at write_at write_durable_at sync len set_len);
        fn submit(&self, io: Io) {
            match io.op {
                Op::Read(buf) if io.offset == 0 && self.fails.load(Acquire) => {
                    (io.done)(Err(io::Error::from_raw_os_error(5)), Some(buf));
                }
                op => self.file.submit(Io { op, ..io }),
            }
        }
    }

    /// Tests REGISTER-3.
    #[test]
    fn a_file_whose_header_cannot_be_read_for_a_while_gets_its_stamp_later() {
        let fails: Arc<AtomicBool> = Arc::default();
        let disk: Arc<dyn Disk> =
            Arc::new(Headless { disk: RealDisk::new(), fails: fails.clone() });
        // A stamp that waits for longer than its time counts as one for which there is no room.
        let runtime = Holding::sleeping("stamps", &disk, Duration::MAX);
        let small = SmallEngine::open("stamps-eio", disk, runtime.clone());
        small.run(async |e| {
            let t = table(&e).await;
            let mut trx = begin(&e);
            trx.insert(&t, &row(&t, 1, 1)).await.unwrap();
            commit(&mut trx).await;
            let spaces = &e.store.spaces;
            e.flusher.flush_all().await;
            let s = spaces.get(t.space).unwrap();
            assert!(s.written.load(Acquire) && !s.stamped.load(Acquire));
            // The header leaves the pool, and cannot be read again.
            assert_eq!(e.store.pool.drop_space(t.space, e.store.log.durable()), None);
            fails.store(true, Release);
            for _ in 0..2 {
                let failed = e.stamp_files().await.unwrap_err();
                assert!(matches!(failed, Error::Io { .. }), "{failed}");
                assert!(s.written.load(Acquire) && !s.stamped.load(Acquire));
                assert_eq!(spaces.unstamped(), 1, "the other files have their stamps");
                assert_eq!(spaces.least_pages(t.space), 0);
            }
            fails.store(false, Release);
            assert!(e.stamp_files().await.unwrap());
            assert!(s.stamped.load(Acquire) && spaces.least_pages(t.space) > 0);
            assert_eq!(spaces.unstamped(), 0);
        });
        runtime.release();
        small.close();
    }
}
