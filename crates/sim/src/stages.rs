//! The classic commit in a run, with the rules of its stages.
//!
//! - A commit is hidden until it has passed the stages, and then the file has its events, also
//!   after a power cut that takes all that is not synced, if `sync_binlog` is 1 (STAGES-1).
//! - With `binlog_order_commits` no commit shows before one that is before it in the file
//!   (STAGES-2).
//! - With `sync_binlog` = 1 readers see only what is synced (STAGES-3).
use crate::executor::Rng;
use crate::load::Shared;
use redolith_binlog::{Event, Reader};
use redolith_disk::{Loss, SimDisk};
use redolith_engine::lock::KillFlag;
use redolith_engine::{CommitTicket, Lsn, Result, Trx, TrxId};
use redolith_replication::spill::Spill;
use redolith_replication::{Binlog, StageSettings};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// The stages of a life.
pub struct Stages {
    disk: SimDisk,
    settings: StageSettings,
    /// The commits that were placed, by the ends of their frames.
    placed: Mutex<BTreeMap<Lsn, TrxId>>,
}

impl Stages {
    /// Draws the settings of a life, which stay as they are: who leads decides by the settings at
    /// the time.
    pub fn draw(disk: &SimDisk, binlog: &Binlog, rng: &mut Rng) -> Stages {
        let some_us =
            |rng: &mut Rng, most: u64| Duration::from_micros(rng.below(2) * rng.below(most));
        let drawn = StageSettings {
            classic: rng.chance(2),
            sync_every: [0, 1, 1, 1, 3][rng.below(5) as usize],
            order: !rng.chance(3),
            flush_time: some_us(rng, 300),
            sync_delay: some_us(rng, 2000),
            no_delay_count: rng.below(4),
        };
        binlog.set_stages(|settings| *settings = drawn);
        Stages { disk: disk.clone(), settings: drawn, placed: Mutex::default() }
    }

    /// What readers may see is on the disk, whatever a power cut takes.
    pub fn look(&self, binlog: &Binlog, rng: &mut Rng) {
        let settings = self.settings;
        let Some(end) = binlog.end().filter(|_| settings.classic && settings.sync_every == 1)
        else {
            return;
        };
        let after = self.after_a_power_cut(rng);
        let len = after.contents(&binlog.place().path(end.file)).map_or(0, |bytes| bytes.len());
        assert!(len as u64 >= end.offset, "STAGES-3: readers see {end:?}, {len} bytes are synced");
    }
    fn after_a_power_cut(&self, rng: &mut Rng) -> SimDisk {
        let after = self.disk.fork(rng.draw());
        after.crash_with(Loss::Nothing);
        after
    }
    fn files_have(&self, binlog: &Binlog, token: u64, rng: &mut Rng) -> bool {
        let after = self.after_a_power_cut(rng);
        let has = |number: u32| {
            let Ok(mut reader) = Reader::open(&after, &binlog.place().path(number)) else {
                return false;
            };
            while let Ok(Some(event)) = reader.next_event() {
                if matches!(event.decode(), Ok(Event::Xid(found)) if found == token) {
                    return true;
                }
            }
            false
        };
        binlog.numbers().into_iter().rev().any(has)
    }
}

/// Commits the transaction with this token, through the stages if they are on.
pub async fn commit(
    trx: &mut Trx,
    token: u64,
    record: Option<Vec<u8>>,
    spill: Option<Spill>,
    rng: &mut Rng,
    shared: &Shared,
) -> Result<CommitTicket> {
    let stages = shared.binlog.as_ref().zip(shared.stages.as_deref()).zip(record.as_deref());
    // Sessions that do not wait for the redo log do not go through the stages.
    let stages = stages.filter(|((binlog, _), _)| binlog.is_classic() && !rng.chance(8));
    let Some(((binlog, stages), record)) = stages else {
        let ticket = trx.commit_with(record.as_deref()).await?;
        spill.into_iter().for_each(Spill::keep);
        return Ok(ticket);
    };
    let (id, e) = (trx.id(), trx.engine().clone());
    let placed = trx.place_commit(record).await?;
    spill.into_iter().for_each(Spill::keep);
    let Some(end) = placed else { return Ok(trx.finish_commit()) };
    assert!(e.sys.is_active(id), "STAGES-1: a commit shows before it has passed the stages");
    stages.placed.lock().expect("one thread").insert(end, id);
    binlog.pass_stages(&e, end, &KillFlag::new()).await;
    let settings = stages.settings;
    if settings.order {
        let placed = stages.placed.lock().expect("one thread");
        let first = placed.range(..=end).find(|(_, id)| e.sys.is_active(**id));
        assert!(first.is_none(), "STAGES-2: {first:?} is before {end:?} in the binary log");
    }
    if settings.sync_every == 1
        && !shared.plan.hits_the_binary_log()
        && binlog.place_now().0 == 0
        && rng.chance(20)
    {
        let has = stages.files_have(binlog, token, rng);
        assert!(has, "STAGES-1: a power cut would take token {token} from the binary log");
        shared.seen.lock().expect("one thread").binlog_synced_commits += 1;
    }
    let ticket = trx.finish_commit();
    stages.placed.lock().expect("one thread").remove(&end);
    Ok(ticket)
}

/// Counts what the stages of a life have done.
pub fn count(binlog: &Binlog, shared: &Shared) {
    let [flush, sync, commit] = binlog.stages_counted();
    let mut seen = shared.seen.lock().expect("one thread");
    seen.binlog_groups += flush.groups;
    seen.binlog_shared_syncs += flush.groups - sync.groups;
    seen.binlog_ordered_commits += commit.sessions;
}
