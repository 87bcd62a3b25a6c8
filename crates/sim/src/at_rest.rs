//! Damage at rest: a bit of one file flips between two lives, in a copy of the disk.
//!
//! - REST-1: a statement returns correct rows or fails. It never returns wrong rows.
//! - REST-2: a start that is refused for damage has changed nothing.
//!
//! Damage in the last commits of the redo log, after which nothing was written, cannot be told from
//! a crash (docs/reliability.md). Then these commits are lost, and the rest is still whole.
use crate::executor::{End, Executor, Rng};
use crate::run::{Seen, World};
use crate::{ddl, load, shared};
use redolith_disk::{Disk, SimDisk};
use redolith_engine::{Error, Lsn, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

/// Kinds of files, by a part of their path.
const FILES: [&str; 7] =
    ["tables/", "undo", "system", "doublewrite", "redo/log", "redo/control", "files.rdl"];
/// So many of these kinds, the first ones, are files of pages.
const PAGES: usize = 3;
/// The complaints which say that rows are older than they should be, and no more than that.
pub const OLDER: [&str; 5] = [
    // of a client that has locked the row
    "and not one of",
    "an acknowledged commit is lost or half a transaction survived",
    "commits on their way explains what is there",
    "definitions: found",
    "is not there, and has rows",
];

/// The complaints which say that one page is older than another.
pub const MIXED: [&str; 3] = [
    "tells another story than the rows",
    "markers and counters",
    "a unique index has a value twice",
];

/// The result of a start on a damaged disk.
#[derive(Default)]
pub struct Found {
    pub refused: Option<Error>,
    /// The number of statements that failed.
    pub failed: u64,
    pub end: Lsn,
}

/// Flips a bit of some file in a copy of the disk, and starts on the copy.
pub fn flip(world: &World, rng: &mut Rng) {
    let kind = rng.below(FILES.len() as u64) as usize;
    // TORN-3: where the redo log protects pages, it may take a damaged page for a torn one.
    if world.kind.redo && kind < PAGES {
        return;
    }
    let disk = world.disk.fork(rng.draw());
    let files: Vec<_> = disk
        .files()
        .into_iter()
        .map(|(path, _)| path)
        .filter(|p| p.to_string_lossy().contains(FILES[kind]))
        .collect();
    if files.is_empty() {
        return;
    }
    let file = &files[rng.below(files.len() as u64) as usize];
    let Some(at) = disk.flip_some_bit(file) else { return };
    let before = disk.digest();
    let seed = rng.draw();
    let (found, end) = start(world, &disk, seed);
    let told = |why: &str| format!("after a bit flipped at {at} of {}: {why}", file.display());
    let mut s = world.seen.lock().expect("one thread");
    *seen_of(&mut s)[kind] += 1;
    match end {
        Ok(End::PowerOff) => panic!("nobody cuts the power here"),
        Ok(End::Died(_)) => s.flips_reported += 1,
        Ok(End::Done) => match &found.refused {
            Some(e @ (Error::Damaged(_) | Error::Incompatible(_))) => {
                assert_eq!(
                    disk.digest(),
                    before,
                    "{}",
                    told(&format!(
                        "a refused start has changed the directory ({e}; REST-2, JUDGE-1, SCAN-5, \
                            FILES-3)"
                    ))
                );
                s.flips_refused += 1;
            }
            Some(_) => s.flips_refused += 1,
            None if found.failed > 0 => s.flips_reported += 1,
            None => s.flips_harmless += 1,
        },
        Err(why) => {
            drop(s);
            if !(FILES[kind] == "redo/log"
                && OLDER.iter().any(|o| why.contains(o))
                && found.end < undamaged_end(world, seed))
            {
                panic!("REST-1: {}", told(&why));
            }
            world.seen.lock().expect("one thread").flips_took_the_tail += 1;
        }
    }
}
fn seen_of(s: &mut Seen) -> [&mut u64; 7] {
    [
        &mut s.flips_tables,
        &mut s.flips_undo,
        &mut s.flips_system,
        &mut s.flips_doublewrite,
        &mut s.flips_log,
        &mut s.flips_control,
        &mut s.flips_register,
    ]
}
/// The LSN at which a start on the undamaged disk finds the end of the redo log.
fn undamaged_end(world: &World, seed: u64) -> Lsn {
    start(world, &world.disk.fork(seed), seed).0.end
}

/// Starts an engine, reads everything, and ends. Returns the complaint if something was wrong.
pub fn start(
    world: &World,
    disk: &SimDisk,
    seed: u64,
) -> (Found, std::result::Result<End, String>) {
    let found = Arc::new(Mutex::new(Found::default()));
    let mut ex = Executor::new(disk.clone(), seed);
    let main = live(world.copy(), disk.clone(), ex.runtime.clone(), seed, found.clone());
    let end = catch_unwind(AssertUnwindSafe(|| ex.run(Box::pin(main)))).map_err(complaint);
    // The operations in flight hold the engine, and the disk holds them.
    disk.kill();
    let found = std::mem::take(&mut *found.lock().expect("one thread"));
    (found, end)
}
pub fn complaint(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(why) => *why,
        Err(other) => match other.downcast::<&str>() {
            Ok(why) => why.to_string(),
            Err(other) => resume_unwind(other),
        },
    }
}
pub async fn live(
    w: World,
    disk: SimDisk,
    runtime: Arc<crate::executor::SimRuntime>,
    seed: u64,
    found: Arc<Mutex<Found>>,
) {
    let config = w.kind.config(&mut Rng(seed));
    let opened = w.open(config, Arc::new(disk) as Arc<dyn Disk>, runtime).await;
    let (e, report, _) = match opened {
        Ok(opened) => opened,
        Err(e) => return found.lock().expect("one thread").refused = Some(e),
    };
    // They hold the engine, and the engine holds them.
    drop(e.take_prepared());
    found.lock().expect("one thread").end = report.end;
    let note = |done: Result<()>| found.lock().expect("one thread").failed += done.is_err() as u64;
    note(load::compare(&e, &w.known).await);
    note(ddl::compare(&e, &w.definitions).await);
    note(shared::compare(&e, &w.ledger, w.kind.deep).await);
    for t in e.dict.tables("sim") {
        // An error that the check finds is reported damage.
        match e.check_table(&t).await {
            Ok(c) if c.errors.is_empty() => {}
            _ => note(Err(Error::Interrupted)),
        }
    }
}
