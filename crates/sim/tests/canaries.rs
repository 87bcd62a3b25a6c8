//! Planted bugs. The simulation must find each of them within some seeds, and for the right reason;
//! otherwise the simulation is broken.
//!
//! Each bug names the complaints that count as finding it. A run that fails with another complaint
//! is skipped, as is a seed whose instances cannot have the bug. `CANARY_SEEDS=n` sets before which
//! seed a search ends; `BUG=name` searches for one bug only.
use redolith_disk::sim::OpKind;
use redolith_engine::canary::{Canary, plant};
use redolith_sim::run::{Kind, Sabotage, run_sabotaged};
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
impl Bug {
    /// Whether instances of this kind do what the bug changes. Searching the others costs time and
    /// finds nothing.
    fn can_show(&self, kind: &Kind) -> bool {
        match self {
            Engine(Canary::TornKeepsLsn) => kind.redo,
            Engine(Canary::RollbackKeepsPromise | Canary::PrepareForgetsLocks) => kind.prepares,
            Engine(Canary::StreamLeftBehind | Canary::NoReplay) | Disk(_, "binlog") => kind.binlog,
            Disk(_, "doublewrite") => !kind.redo && !kind.atomic,
            _ => true,
        }
    }
}

// The complaints of the oracles.
/// The client's own rows are not those that it committed.
const LOST: &str = "an acknowledged commit is lost or half a transaction survived";
const LOST_SHARED: &str = "commits on their way explains what is there";
const LOST_DEFINITION: &str = "definitions: found";
const HALF: &str = "markers and counters";
const INDEXES_DISAGREE: &str = "tells another story than the rows";
const PHANTOM: &str = "a phantom in";
const SEEN_WITH_LOCK: &str = ", locked, is";
const VIEW_CHANGED: &str = "in the same view";
const DIRTY: &str = "a dirty read";
/// The files of the binary log do not have the transactions that the engine has.
const BINLOG_DISAGREES: &str = "the binary log and the engine disagree";
/// The files are not what readers have seen.
const BINLOG_REMADE: &str = "MAKER-1";
const LOCK_LOST: &str = " is free: ";
const NOBODY_PREPARED: &str = "nobody has prepared transaction";
// The complaints of a start.
const BINLOG_SHORT: &str = "it is an older copy, or was cut";
/// RECORD-1 and JUDGE-3 are broken.
const STALE_PAGE: &str = "was made to another state of the page";
const TORN_PAGE: &str = "cannot be read (checksum";
const BAD_PAGES: &str = "pages that recovery could not read";
const LOG_WAS_LONGER: &str = "the redo log cannot be read at";
const CUT_OFF: &str = "is cut off";
// The complaints about a torn page that was taken for a whole one.
const TORN_SERVED: &str = "out of range for slice of length";
const TORN_MEASURED: &str = "slice index starts at";
const STAYED_TORN: &str = "is corrupt (checksum";
const NOT_WELL_FORMED: &str = "its directory does not fit its records";

/// The bugs, each with the complaints that show it, and with the rules that the bug breaks.
const BUGS: &[(Bug, &[&str])] = &[
    // I-1.
    (Engine(Canary::AckBeforeDurable), &[LOST, LOST_SHARED, LOST_DEFINITION]),
    (Engine(Canary::NoUndoAtRecovery), &[LOST, LOST_SHARED, LOST_DEFINITION, HALF]),
    // CKPT-1.
    (Engine(Canary::CheckpointTooFar), &[LOST, LOST_SHARED, STALE_PAGE, INDEXES_DISAGREE]),
    // FLUSH-1.
    (Engine(Canary::PageBeforeLog), &[LOG_WAS_LONGER]),
    (Engine(Canary::NoRepair), &[TORN_PAGE, BAD_PAGES]),
    // TORN-2.
    (
        Engine(Canary::TornKeepsLsn),
        &[
            LOST,
            LOST_SHARED,
            INDEXES_DISAGREE,
            TORN_SERVED,
            TORN_MEASURED,
            STAYED_TORN,
            NOT_WELL_FORMED,
        ],
    ),
    // DICT-1.
    (Engine(Canary::FileGoesFirst), &["cannot open /sim/tables/", "is missing or cut short"]),
    (Engine(Canary::OrphansStay), &["the files in tables/ and the tables"]),
    // RANGE-1.
    (Engine(Canary::NoRangeLocks), &[PHANTOM, SEEN_WITH_LOCK]),
    // PURGE-1.
    (Engine(Canary::PurgeTooEarly), &[PHANTOM, VIEW_CHANGED]),
    (Engine(Canary::SavepointForgets), &[LOST, LOST_SHARED, SEEN_WITH_LOCK]),
    // BATCH-2.
    (Engine(Canary::RunForgetsUndo), &[LOST, LOST_SHARED, LOST_DEFINITION, HALF]),
    // UCUT-2.
    (Engine(Canary::UndoCutEarly), &[STALE_PAGE, LOST, LOST_SHARED]),
    // WRITER-4.
    (Engine(Canary::DurableOutOfOrder), &[LOST, LOST_SHARED, LOST_DEFINITION, LOG_WAS_LONGER]),
    // SCAN-4.
    (Engine(Canary::LogFromCache), &[LOG_WAS_LONGER, LOST, LOST_SHARED]),
    (Engine(Canary::UniqueUnlocked), &["a unique index has a value twice", "is said to be taken"]),
    (Engine(Canary::DirtyReads), &[DIRTY, "a view with half of a transaction"]),
    (Engine(Canary::EntriesForRows), &["entries tell another story than their rows"]),
    // COUNTER-1, COUNTER-2.
    (Engine(Canary::CounterForgets), &["the next AUTO_INCREMENT value is", "is said to be there"]),
    // STREAM-3.
    (Engine(Canary::StreamLeftBehind), &[BINLOG_DISAGREES, BINLOG_REMADE]),
    (Engine(Canary::NoReplay), &[BINLOG_DISAGREES, BINLOG_REMADE]),
    // PREPARE-1.
    (Engine(Canary::PrepareForgetsLocks), &[LOCK_LOST]),
    // PREPARE-2.
    (Engine(Canary::RollbackKeepsPromise), &[NOBODY_PREPARED, LOST, HALF]),
    (Engine(Canary::StageSyncsNothing), &["STAGES-1", "STAGES-3"]),
    (Engine(Canary::StageKeepsNoOrder), &["STAGES-2"]),
    (Disk(OpKind::Sync, "binlog"), &[BINLOG_SHORT, BINLOG_DISAGREES, BINLOG_REMADE]),
    (Disk(OpKind::DurableWrite, "redo/log"), &[LOST, LOST_SHARED, LOST_DEFINITION]),
    (Disk(OpKind::DurableWrite, "redo/control"), &["redo/control", LOG_WAS_LONGER]),
    (Disk(OpKind::Sync, "tables/"), &[CUT_OFF, STALE_PAGE, TORN_PAGE, BAD_PAGES]),
    (Disk(OpKind::Sync, "undo"), &[CUT_OFF, STALE_PAGE, TORN_PAGE]),
    (Disk(OpKind::Sync, "system"), &[CUT_OFF, STALE_PAGE, TORN_PAGE]),
    // FLUSH-2, DBLWR-3.
    (Disk(OpKind::Sync, "doublewrite"), &[TORN_PAGE, BAD_PAGES]),
    // DICT-1.
    (Disk(OpKind::SyncDir, "tables"), &["cannot open /sim/tables/"]),
    // FILES-1.
    (Disk(OpKind::SyncDir, "redo"), &["has no redo log", LOG_WAS_LONGER]),
    (Disk(OpKind::Write, "doublewrite"), &[TORN_PAGE, BAD_PAGES]),
];

/// The result of the search for a bug.
struct Search {
    /// The first seed that found the bug, and its complaint.
    found: Option<(u64, String)>,
    /// The number of earlier runs that failed for another reason, and the first such reason.
    other: (u64, String),
}
fn find(bug: Bug, complaints: &[&str], most: u64) -> Search {
    let sabotage = match bug {
        Engine(canary) => {
            plant(Some(canary));
            None
        }
        Disk(kind, part_of_path) => Some(Sabotage { kind, part_of_path }),
    };
    let mut search = Search { found: None, other: (0, String::new()) };
    for seed in (0..most).filter(|&seed| bug.can_show(&Kind::of(seed))) {
        let Err(e) = std::panic::catch_unwind(|| run_sabotaged(seed, sabotage)) else { continue };
        let why = e
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()))
            .unwrap_or_default();
        if complaints.iter().any(|c| why.contains(c)) {
            search.found = Some((seed, why));
            break;
        }
        if std::env::var("BUG").is_ok() {
            println!("seed {seed}: {}", head(&why));
        }
        if search.other.0 == 0 {
            search.other.1 = why;
        }
        search.other.0 += 1;
    }
    plant(None);
    search
}
fn head(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(120).collect()
}

#[test]
fn every_planted_bug_is_found() {
    let most = std::env::var("CANARY_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    let only = std::env::var("BUG").unwrap_or_default();
    let bugs: Vec<_> = BUGS.iter().filter(|(bug, _)| format!("{bug:?}").contains(&only)).collect();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |n| n.get()) {
            s.spawn(|| {
                while let Some((bug, complaints)) = bugs.get(next.fetch_add(1, Relaxed)) {
                    let search = find(*bug, complaints, most);
                    let (n, other) = &search.other;
                    let besides = if *n > 0 {
                        format!(" ({n} others, as: {})", head(other))
                    } else {
                        String::new()
                    };
                    match &search.found {
                        Some((seed, why)) => {
                            println!("{bug:?}: seed {seed}: {}{besides}", head(why))
                        }
                        None => missed.lock().unwrap().push(format!("{bug:?}{besides}")),
                    }
                }
            });
        }
    });
    let _ = std::panic::take_hook();
    let missed = missed.into_inner().unwrap();
    println!(
        "{} planted bugs, {} found for the right reason",
        bugs.len(),
        bugs.len() - missed.len()
    );
    assert!(missed.is_empty(), "not found before seed {most}: {missed:#?}");
}
