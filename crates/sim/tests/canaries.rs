//! Planted bugs: the simulation finds each within some seeds, or the simulation is broken. `CANARY_SEEDS=n` sets how many it may take.
use redolith_disk::sim::OpKind;
use redolith_engine::canary::{Canary, plant};
use redolith_sim::run::{Sabotage, run_sabotaged};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Clone, Copy, Debug)]
enum Bug {
    /// A rule of the engine is broken.
    Engine(Canary),
    /// Operations of the disk are left out.
    Disk(OpKind, &'static str),
}
use Bug::*;

const BUGS: &[Bug] = &[
    Engine(Canary::AckBeforeDurable),
    Engine(Canary::NoUndoAtRecovery),
    Engine(Canary::CheckpointTooFar),
    Engine(Canary::PageBeforeLog),
    Engine(Canary::NoRepair),
    Engine(Canary::FileGoesFirst),
    Engine(Canary::OrphansStay),
    Engine(Canary::NoRangeLocks),
    Engine(Canary::PurgeTooEarly),
    Engine(Canary::SavepointForgets),
    Engine(Canary::UndoCutEarly),
    Engine(Canary::DurableOutOfOrder),
    Engine(Canary::LogFromCache),
    Disk(OpKind::DurableWrite, "redo/log"),
    Disk(OpKind::DurableWrite, "redo/control"),
    Disk(OpKind::Sync, "tables/"),
    Disk(OpKind::Sync, "undo"),
    Disk(OpKind::Sync, "system"),
    Disk(OpKind::Sync, "doublewrite"),
    Disk(OpKind::SyncDir, "tables"),
    Disk(OpKind::SyncDir, "redo"),
    Disk(OpKind::Write, "doublewrite"),
];

/// The first seed that finds it, and how.
fn find(bug: Bug, most: u64) -> Option<(u64, String)> {
    let sabotage = match bug {
        Engine(canary) => {
            plant(Some(canary));
            None
        }
        Disk(kind, part_of_path) => Some(Sabotage { kind, part_of_path }),
    };
    let found = (0..most).find_map(|seed| {
        let e = std::panic::catch_unwind(|| run_sabotaged(seed, sabotage)).err()?;
        let why = e.downcast_ref::<String>().cloned().or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()));
        Some((seed, why.unwrap_or_default()))
    });
    plant(None);
    found
}

#[test]
fn every_planted_bug_is_found() {
    let most = std::env::var("CANARY_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |n| n.get()) {
            s.spawn(|| {
                while let Some(bug) = BUGS.get(next.fetch_add(1, Relaxed)) {
                    match find(*bug, most) {
                        Some((seed, why)) => {
                            println!(
                                "{bug:?}: seed {seed}: {}",
                                why.lines().next().unwrap_or_default().chars().take(120).collect::<String>()
                            )
                        }
                        None => missed.lock().unwrap().push(*bug),
                    }
                }
            });
        }
    });
    let _ = std::panic::take_hook();
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found within {most} seeds: {missed:?}");
}
