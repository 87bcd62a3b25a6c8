//! A start judges the records of a stream while it reads the redo log for the first time (JUDGE-8).
#![allow(clippy::disallowed_methods)] // the test damages a file behind the engine's back
use crate::common::tables::*;
use crate::common::{Dir, at_one_moment, copy};
use redolith_disk::{Disk, File, Io, Op, OpenHow, RealDisk};
use redolith_engine::commit_stream::CommitStream;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, Engine, Error, Lsn, PAGE_SIZE, Result, TrxId};
use redolith_types::Value;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A stream that notes what a start gives to it, and refuses the record `refused`.
#[derive(Default)]
struct Judge {
    judged: Mutex<Vec<(Lsn, Vec<u8>)>>,
    replayed: Mutex<Vec<(Lsn, Vec<u8>)>>,
    refused: Option<&'static [u8]>,
    has_ended: AtomicU64,
    /// Whether a checkpoint may pass the records.
    needs_none: AtomicBool,
}
impl CommitStream for Judge {
    fn judge(&self, state: &[u8]) -> Result<()> {
        assert!(state.is_empty() && self.judged.lock().unwrap().is_empty());
        Ok(())
    }
    fn judge_record(&self, at: Lsn, record: &[u8]) -> Result<()> {
        self.judged.lock().unwrap().push((at, record.to_vec()));
        match self.refused {
            Some(refused) if refused == record => Err(Error::Damaged("a refused record".into())),
            _ => Ok(()),
        }
    }
    fn judge_end(&self) -> Result<()> {
        assert!(self.replayed.lock().unwrap().is_empty());
        self.has_ended.fetch_add(1, SeqCst);
        Ok(())
    }
    fn replay(&self, at: Lsn, record: &[u8]) -> Result<()> {
        assert_eq!(self.has_ended.load(SeqCst), 1);
        self.replayed.lock().unwrap().push((at, record.to_vec()));
        Ok(())
    }
    fn begin(&self, _: Lsn) -> Result<()> {
        Ok(())
    }
    fn appended(&self, _: Lsn, _: Lsn, _: &[u8], _: Option<TrxId>) {}
    fn limit(&self) -> Lsn {
        if self.needs_none.load(SeqCst) { Lsn::MAX } else { Lsn(0) }
    }
    fn state(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// A disk that counts the bytes that are read of the segments of the redo log.
struct Counting {
    disk: RealDisk,
    read: Arc<AtomicU64>,
}
struct CountedFile {
    file: Arc<dyn File>,
    read: Arc<AtomicU64>,
}
impl File for CountedFile {
    redolith_disk::forward_file!(file: write_at write_durable_at sync len set_len);
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read.fetch_add(buf.len() as u64, SeqCst);
        self.file.read_at(buf, offset)
    }
    fn submit(&self, io: Io) {
        if let Op::Read(buf) = &io.op {
            self.read.fetch_add(buf.len() as u64, SeqCst);
        }
        self.file.submit(io);
    }
}
impl Disk for Counting {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("log_") {
            return Ok(file);
        }
        Ok(Arc::new(CountedFile { file, read: self.read.clone() }))
    }
    redolith_disk::forward_disk! {
        disk: exists list create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
}

fn config(dir: &Dir) -> Config {
    let mut c = Config::new(&dir.0);
    (c.pool_bytes, c.log_capacity_bytes, c.log_buffer_bytes) = (8 << 20, 64 << 20, 1 << 20);
    c
}
const RECORDS: [&[u8]; 3] = [b"first", b"second", b"third"];

/// The directory of an engine that was killed with records in several windows of its redo log, and
/// the number of the space of its table.
fn crashed() -> (Dir, u32) {
    let dir = Dir::new("record-judging");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let runtime = Threads::new(disk.clone());
    let stream = Arc::new(Judge::default());
    let (e, _) = block_on(Engine::open_with(config(&dir), disk, runtime, stream.clone())).unwrap();
    block_on(async {
        let t = create(&e, "t", vec![("c", text(3000))], Vec::new()).await;
        for (n, record) in RECORDS.iter().enumerate() {
            e.append_record(record).await.unwrap();
            let mut trx = e.begin(KillFlag::new());
            for id in 0..800 {
                let row = [Value::Int(n as i64 * 1000 + id), Value::Bytes(vec![b'x'; 2900].into())];
                trx.insert(&t, &encoded(&t, &row)).await.unwrap();
            }
            commit(&mut trx).await;
        }
        e.store.log.flush_to(e.store.log.tail()).await;
        let crashed = at_one_moment(&e, &dir.0, || {
            let crashed = Dir::new("record-judging-crashed");
            copy(&dir.0, &crashed.0);
            crashed
        })
        .await;
        let space = t.space.0;
        stream.needs_none.store(true, SeqCst);
        e.close().await.unwrap();
        (crashed, space)
    })
}
fn start(dir: &Dir, stream: &Arc<Judge>) -> (Result<Arc<Engine>>, u64) {
    let disk = Arc::new(Counting { disk: RealDisk::new(), read: Arc::default() });
    let runtime = Threads::new(disk.clone());
    let opened = Engine::open_with(config(dir), disk.clone(), runtime, stream.clone());
    let opened = block_on(opened).map(|(e, _)| e);
    (opened, disk.read.load(SeqCst))
}
fn records(noted: &Mutex<Vec<(Lsn, Vec<u8>)>>) -> Vec<Vec<u8>> {
    noted.lock().unwrap().iter().map(|(_, record)| record.clone()).collect()
}

/// Tests JUDGE-8: the log is read once to judge and once to apply, records or not.
#[test]
fn records_are_judged_by_the_first_reading() {
    let (dir, space) = crashed();
    // A record that is refused: nothing was written, so the same directory serves again.
    let refusing = Arc::new(Judge { refused: Some(RECORDS[1]), ..Judge::default() });
    let (refused, judging) = start(&dir, &refusing);
    let why = refused.map(drop).unwrap_err().to_string();
    assert!(why.contains("a refused record"), "{why}");
    assert_eq!(records(&refusing.judged), RECORDS[..2], "no record behind the refused one");
    assert!(records(&refusing.replayed).is_empty());
    assert_eq!(refusing.has_ended.load(SeqCst), 0);

    // Damage of a page comes first: here a page that the redo log changes lies about its LSN.
    let path = dir.0.join(format!("tables/{space}.rdl"));
    let good = std::fs::read(&path).unwrap();
    let mut lying = good.clone();
    let page: &mut [u8; PAGE_SIZE] = lying[2 * PAGE_SIZE..].first_chunk_mut().unwrap();
    redolith_engine::testing::page::header::set_lsn(page, Lsn(1));
    redolith_engine::testing::page::header::stamp(page);
    std::fs::write(&path, &lying).unwrap();
    let refusing = Arc::new(Judge { refused: Some(RECORDS[0]), ..Judge::default() });
    let why = start(&dir, &refusing).0.map(drop).unwrap_err().to_string();
    assert!(why.contains("older copy") && !why.contains("a refused record"), "{why}");
    std::fs::write(&path, &good).unwrap();

    let stream = Arc::new(Judge::default());
    let (started, read) = start(&dir, &stream);
    let e = started.unwrap();
    assert_eq!(records(&stream.judged), RECORDS);
    assert_eq!(*stream.judged.lock().unwrap(), *stream.replayed.lock().unwrap());
    assert!(judging > 4 << 20, "{judging} bytes: the log has several windows");
    assert!(read < judging * 5 / 2, "{read} bytes were read, and {judging} are there");
    stream.needs_none.store(true, SeqCst);
    block_on(e.close()).unwrap();
}
