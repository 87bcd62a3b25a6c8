//! A data directory with a change in one file: control, redo log, doublewrite file, register of
//! files, dictionary, undo or a table. A start refuses the directory, or every row is read and
//! every table checked.
//!
//! An input names a file, a block of the file and changes to the block. Unless the input says
//! otherwise, the block's checksum is corrected, so that the code behind the checksum is reached.
use crate::{change, take};
use redolith_disk::{Disk, SimDisk};
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::testing::page::header;
use redolith_engine::{Config, DEFAULT_COLLATION, Engine, PAGE_SIZE, Result};
use redolith_sim::executor::{End, Executor};
use redolith_types::sql_type::{IntSize, Sign};
use redolith_types::{Column, IndexDef, SqlType, TableDef, Value};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

/// The block size of the control file.
const BLOCK: usize = 4096;
/// The position of the checksum in a state of the control file.
const CONTROL_CRC: std::ops::Range<usize> = 12..16;

fn config() -> Config {
    let mut c = Config::new("/sim");
    c.pool_bytes = 64 * PAGE_SIZE as u64;
    c.log_segment_bytes = 64 << 10;
    c.log_capacity_bytes = 512 << 10;
    c.log_buffer_bytes = 256 << 10;
    c
}

async fn fill(e: Arc<Engine>) -> Result<()> {
    e.create_schema("d", DEFAULT_COLLATION, None).await?;
    let int = || SqlType::Int { size: IntSize::Int, sign: Sign::SIGNED, display: None };
    let columns = vec![Column::new("id", int()).not_null(), Column::new("k", int())];
    let indexes = vec![IndexDef::primary([0]), IndexDef::secondary("k", true, [1])];
    let def = TableDef {
        schema: "d".into(),
        name: "t".into(),
        columns,
        indexes,
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    let t = e.create_table(def, 1, None).await?;
    for round in 0..8 {
        let mut trx = e.begin(KillFlag::new());
        for id in 0..120 {
            let mut row = Vec::new();
            t.layout.encode(
                &[Value::Int(round * 120 + id), Value::Int(5000 - (round * 120 + id) * 3)],
                &mut row,
            );
            trx.insert(&t, &row).await?;
        }
        // The last transaction is not committed.
        if round < 7 {
            trx.commit().await?.durable().await;
        } else {
            std::mem::forget(trx);
        }
    }
    let end = e.store.log.tail();
    e.store.log.flush_to(end).await;
    Ok(())
}

/// The directory of a killed process, and its files.
fn made() -> (SimDisk, Vec<PathBuf>) {
    static MADE: OnceLock<Mutex<(SimDisk, Vec<PathBuf>)>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let disk = SimDisk::new(1);
        let mut ex = Executor::new(disk.clone(), 1);
        let (its, runtime) = (disk.clone(), ex.runtime.clone());
        let main = async move {
            let (e, _) = Engine::open(config(), Arc::new(its) as Arc<dyn Disk>, runtime)
                .await
                .expect("an empty directory");
            fill(e).await.expect("nothing is wrong yet");
        };
        assert!(matches!(ex.run(Box::pin(main)), End::Done));
        disk.kill();
        let files = disk
            .files()
            .into_iter()
            .filter(|(_, len)| *len >= BLOCK as u64)
            .map(|(path, _)| path)
            .collect();
        Mutex::new((disk, files))
    });
    let (disk, files) = &*made.lock().expect("a map and a list");
    (disk.fork(7), files.clone())
}

/// Sets the checksum of the block's present contents, if this kind of block has one.
fn seal(path: &std::path::Path, block: &mut [u8]) {
    if path.ends_with("redo/control") {
        block[CONTROL_CRC].fill(0);
        let crc = crc32c::crc32c(block);
        block[CONTROL_CRC].copy_from_slice(&crc.to_le_bytes());
    } else if let Some(page) = block.first_chunk_mut::<PAGE_SIZE>() {
        header::stamp(page);
    }
}

pub fn start(data: &[u8]) {
    let ([file, block, unsealed], changes) = take::<3>(data);
    let (disk, files) = made();
    let path = &files[file as usize % files.len()];
    let content = disk.contents(path).expect("listed");
    let name = path.to_string_lossy();
    let size =
        if name.contains("redo/") || name.ends_with("files.rdl") { BLOCK } else { PAGE_SIZE };
    let blocks = content.len() / size;
    if blocks == 0 {
        return;
    }
    let at = block as usize % blocks * size;
    let mut bytes = content[at..at + size].to_vec();
    change(&mut bytes, changes);
    if unsealed & 1 == 0 {
        seal(path, &mut bytes);
    }
    disk.overwrite(path, at as u64, &bytes).expect("a file of that length");
    let mut ex = Executor::new(disk.clone(), 3);
    let runtime = ex.runtime.clone();
    ex.run(Box::pin(async move {
        let Ok((e, _)) = Engine::open(config(), Arc::new(disk) as Arc<dyn Disk>, runtime).await
        else {
            return;
        };
        let _ = read(&e).await;
        let _ = e.close().await;
    }));
}
async fn read(e: &Arc<Engine>) -> Result<()> {
    let Some(t) = e.table("d", "t").await? else { return Ok(()) };
    for index in 0..t.indexes.len() {
        let mut trx = e.begin(KillFlag::new());
        let mut c = Cursor::new(t.clone(), index, Vec::new(), None, index > 0, Read::Consistent);
        let mut rows = 0;
        while let Ok(true) = c.next(&mut trx).await {
            rows += 1;
            assert!(rows < 100_000, "the scan of index {index} has no end");
        }
    }
    e.check_table(&t).await.map(drop)
}

pub fn seeds() -> Vec<Vec<u8>> {
    let (_, files) = made();
    let flip = |file: usize| [file as u8, 0, 0, 40, 0, 4, 0xff, 0xfe, 1, 2].to_vec();
    let unsealed = |file: usize| [file as u8, 1, 1, 40, 0, 4, 0xff, 0xfe, 1, 2].to_vec();
    (0..files.len()).flat_map(|n| [flip(n), unsealed(n)]).collect()
}
