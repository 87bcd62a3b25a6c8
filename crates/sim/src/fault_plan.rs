//! The faults of the disk in one life of an instance, besides power cuts.
//!
//! A failed write or sync of the redo log or of a page ends the process, and never lets a commit be
//! acknowledged. A failed read or a full disk makes statements fail, and has no other effect.
use crate::executor::{Rng, SimRuntime};
use redolith_disk::sim::{Damage, Fault, OpKind};
use redolith_disk::{Disk, SimDisk};
use redolith_engine::Error;
use redolith_engine::runtime::Runtime;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultPlan {
    None,
    /// A write or sync of the redo log fails. The process ends.
    Log,
    /// A write or sync of pages fails. The process ends, unless it was a write of a file that was
    /// still being created.
    Pages,
    /// Some reads fail or return a wrong bit.
    Reads,
    /// Some reads of the redo log fail or return a wrong bit. A start is refused, or reads again.
    LogReads,
    /// One operation of any kind fails or is damaged.
    OneOperation,
    /// The disk is full for a while.
    Full,
}
impl FaultPlan {
    pub fn draw(rng: &mut Rng) -> FaultPlan {
        match rng.below(11) {
            0 => FaultPlan::Log,
            1 => FaultPlan::Pages,
            2 => FaultPlan::Reads,
            3 | 4 => FaultPlan::Full,
            5 => FaultPlan::LogReads,
            _ => FaultPlan::None,
        }
    }
    /// Plans the faults on the disk. At most `from` operations of the fault's kind succeed first.
    /// With `early` the faults begin with the start.
    pub fn begin(self, disk: &SimDisk, rng: &mut Rng, from: u64, early: bool) {
        let nth = 1 + rng.below(from);
        let bad = [Damage::Eio, Damage::Short, Damage::Torn][rng.below(3) as usize];
        let files = ["tables/", "undo", "system", "doublewrite"];
        let file = files[rng.below(4) as usize];
        match self {
            FaultPlan::None | FaultPlan::Full | FaultPlan::OneOperation => {}
            FaultPlan::Log => {
                let kind =
                    [OpKind::DurableWrite, OpKind::DurableWrite, OpKind::Write, OpKind::Sync]
                        [rng.below(4) as usize];
                let damage = if rng.chance(4) { Damage::NoSpace } else { bad };
                disk.fail(Fault::new(kind, damage).on("redo/").nth(nth));
            }
            FaultPlan::Pages => {
                let kind = if rng.chance(2) { OpKind::Sync } else { OpKind::Write };
                disk.fail(Fault::new(kind, bad).on(file).nth(nth));
            }
            FaultPlan::LogReads => {
                for _ in 0..1 + rng.below(3) {
                    let damage = if rng.chance(2) { Damage::Eio } else { Damage::Flip };
                    disk.fail(
                        Fault::new(OpKind::Read, damage)
                            .on("redo/")
                            .nth(nth)
                            .times(1 + rng.below(2)),
                    );
                }
            }
            FaultPlan::Reads => {
                let damage = if rng.chance(2) { Damage::Eio } else { Damage::Flip };
                for _ in 0..1 + rng.below(4) {
                    let nth = 1 + rng.below(from);
                    // A long fault sometimes also hits the rollback of the statement that failed.
                    // In a start the fault is short: a page that is always bad would be damage,
                    // which is reported and skipped.
                    let times = if rng.chance(2) || early { 1 + rng.below(3) } else { 100 };
                    disk.fail(
                        Fault::new(OpKind::Read, damage)
                            .on(files[rng.below(3) as usize])
                            .nth(nth)
                            .times(times),
                    );
                }
            }
        }
    }
    /// Whether writes of the binary log may fail.
    pub fn hits_the_binary_log(self) -> bool {
        matches!(self, FaultPlan::Full)
    }
    /// Whether a statement may fail with this error in this life.
    pub fn explains(self, e: &Error) -> bool {
        match self {
            FaultPlan::None => false,
            FaultPlan::Full => matches!(e, Error::DiskFull(_) | Error::TemporaryFile { .. }),
            FaultPlan::Reads => matches!(e, Error::Io { .. } | Error::Corrupt { .. }),
            FaultPlan::OneOperation => {
                let of_the_disk = matches!(e, Error::Io { .. } | Error::DiskFull(_));
                of_the_disk
                    || matches!(
                        e,
                        Error::Corrupt { .. }
                            | Error::Damaged(_)
                            | Error::Incompatible(_)
                            | Error::TemporaryFile { .. }
                    )
            }
            FaultPlan::LogReads => {
                matches!(e, Error::Io { .. } | Error::Damaged(_) | Error::Incompatible(_))
            }
            // These are errors of a segment or a table's file that is being created.
            FaultPlan::Log | FaultPlan::Pages => matches!(e, Error::Io { .. } | Error::DiskFull(_)),
        }
    }
    /// Whether the process may end by itself in this life.
    pub fn kills(self) -> bool {
        matches!(self, FaultPlan::Log | FaultPlan::Pages | FaultPlan::OneOperation)
    }
}

/// Fills the disk after some operations, and frees room again later.
pub async fn fill(
    disk: SimDisk,
    runtime: Arc<SimRuntime>,
    mut rng: Rng,
    done: Arc<std::sync::atomic::AtomicBool>,
) {
    let scale = 1 << (4 + rng.below(8));
    let (begin, latest) = (disk.ops() + rng.below(scale), disk.now() + Duration::from_secs(2));
    while disk.ops() < begin && disk.now() < latest {
        runtime.sleep(Duration::from_millis(1)).await;
    }
    disk.set_capacity(Some(disk.used_bytes() + rng.below(8) * 16384));
    let end = disk.now() + Duration::from_millis(1 + rng.below(2000));
    let ops = disk.ops() + 200 + rng.below(2000);
    while disk.ops() < ops && disk.now() < end {
        runtime.sleep(Duration::from_millis(1)).await;
    }
    disk.set_capacity(None);
    done.store(true, std::sync::atomic::Ordering::SeqCst);
}
