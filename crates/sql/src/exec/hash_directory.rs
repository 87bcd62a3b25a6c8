//! The entries of a hash table that have outgrown their memory ([`HashRows`](super::hash_rows)).
//!
//! **HASH-5** The entries are in a temporary file, sorted by hash, and those of one hash in the
//! order of their rows (HASH-3). Memory has the hash of the first entry of each block of entries.
//! If these are too many, every other one is forgotten and the blocks are twice as long. So what is
//! in memory is bounded however many rows there are, and a look-up reads one block, or two at the
//! border between them.
use super::hash_rows::Entry;
use super::scan::check_killed;
use super::{Env, ExecContext, sorting};
use crate::error::{Result, SqlError};
use redolith_engine::sort::Sorter;
use redolith_engine::temporary::TemporaryFile;

/// The bytes of an entry in the file: the hash, the row's place and the row's length.
const ENTRY_BYTES: usize = 20;
/// The entries of a block at first: about 4 KiB.
const BLOCK_ENTRIES: usize = 204;
/// The most bytes that are written at a time.
const WRITE_BYTES: usize = 64 << 10;
/// Entries with a hash are before those without one.
const DECIDED: u8 = 0;
const UNDECIDED: u8 = 1;

pub struct Directory {
    /// The entries until the last one has come.
    sorter: Sorter,
    charged: usize,
    file: TemporaryFile,
    /// The number of entries, and of those that have a hash.
    pub entries: usize,
    pub decided: usize,
    /// The first hash of each block.
    firsts: Vec<u64>,
    block_entries: usize,
    /// The block that was read last.
    block: Vec<u8>,
    block_no: Option<usize>,
}

impl Directory {
    pub fn new(cx: &mut ExecContext<'_>) -> Result<Directory> {
        let space = cx.env.temporary().ok_or_else(|| SqlError::internal("no temporary files"))?;
        cx.env.be_heavy();
        Ok(Directory {
            sorter: Sorter::new(None),
            charged: 0,
            file: space.create(cx.env.disk)?,
            entries: 0,
            decided: 0,
            firsts: Vec::new(),
            block_entries: BLOCK_ENTRIES,
            block: Vec::new(),
            block_no: None,
        })
    }
    /// What is in memory beside the sorter, which is charged by itself.
    pub fn memory(&self) -> usize {
        self.firsts.capacity() * size_of::<u64>() + self.block.capacity()
    }
    /// Takes an entry; `is_decided` if its hash decides. The caller calls [`Self::spill`] next.
    pub fn push(&mut self, is_decided: bool, entry: &Entry, env: &mut Env<'_>) -> Result<()> {
        self.entries += 1;
        self.decided += usize::from(is_decided);
        let mut key = [if is_decided { DECIDED } else { UNDECIDED }; 9];
        key[1..].copy_from_slice(&if is_decided { entry.hash } else { 0 }.to_be_bytes());
        self.sorter.push(&key, |row| {
            row.extend_from_slice(&entry.place.to_le_bytes());
            row.extend_from_slice(&entry.len.to_le_bytes());
        })?;
        env.keep(&mut self.charged, self.sorter.memory())
    }
    pub async fn spill(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        sorting::spill_if_large(cx, &mut self.sorter, &mut self.charged).await
    }

    /// Writes the sorted entries, when no more of them come.
    pub async fn finish(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        sorting::sort(cx, &mut self.sorter, &mut self.charged).await?;
        let most_firsts = (cx.env.spill_at() / 16 / size_of::<u64>()).max(2);
        let (mut out, mut n) = (Vec::with_capacity(WRITE_BYTES), 0);
        while self.sorter.advance()? {
            cx.env.step()?;
            check_killed(&cx.env)?;
            let (key, row) = (self.sorter.key(), self.sorter.row());
            let hash = key[1..].first_chunk().map_or(0, |hash| u64::from_be_bytes(*hash));
            if n < self.decided && n.is_multiple_of(self.block_entries) {
                if self.firsts.len() == most_firsts {
                    let mut place = 0..;
                    self.firsts.retain(|_| place.next().is_some_and(|n| n % 2 == 0));
                    self.block_entries *= 2;
                }
                if n.is_multiple_of(self.block_entries) {
                    self.firsts.push(hash);
                }
            }
            out.extend_from_slice(&hash.to_le_bytes());
            out.extend_from_slice(row);
            n += 1;
            if out.len() + ENTRY_BYTES > WRITE_BYTES {
                self.file.append(&out)?;
                out.clear();
                cx.trx.give_way().await;
            }
        }
        self.file.append(&out)?;
        // To free a large file takes long.
        cx.env.be_heavy();
        self.sorter = Sorter::new(None);
        cx.env.keep(&mut self.charged, 0)
    }

    /// The number of the first entry whose hash is not below this one.
    pub fn find(&mut self, hash: u64) -> Result<usize> {
        // The block before the first that begins with the hash may end with it.
        let block = self.firsts.partition_point(|first| *first < hash).saturating_sub(1);
        let start = block * self.block_entries;
        let end = (start + self.block_entries).min(self.decided);
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)?.hash < hash {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
    /// The entry with a number.
    pub fn entry(&mut self, n: usize) -> Result<Entry> {
        let block_no = n / self.block_entries;
        let start = block_no * self.block_entries;
        if self.block_no != Some(block_no) {
            let entries = self.block_entries.min(self.entries - start);
            self.block_no = None;
            self.block.resize(entries * ENTRY_BYTES, 0);
            self.file.read((start * ENTRY_BYTES) as u64, &mut self.block)?;
            self.block_no = Some(block_no);
        }
        let at = (n - start) * ENTRY_BYTES;
        let bytes: &[u8; ENTRY_BYTES] =
            self.block[at..].first_chunk().expect("a block has whole entries");
        let part = |from: usize| bytes[from..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        let len = bytes.last_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        Ok(Entry { hash: part(0), place: part(8), len, next: 0 })
    }
}
