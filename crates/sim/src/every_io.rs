//! Repeats one fixed run many times. Each time, one operation of the disk goes wrong in one of
//! eight ways, until every operation has gone wrong in every way.
//!
//! | damage | what may follow |
//! |---|---|
//! | the power goes before it, after it, inside it; it fails; the disk is full | all that was acknowledged is there, the rest whole or not at all |
//! | a bit of it flips | the same, or a refused start, or statements that fail |
//! | it is reported done and was not done, or was done elsewhere | the same; or rows are older than they should be |
//!
//! A disk that reports a write that it has not done breaks MEDIA-1. Once the checkpoint has passed
//! a page's changes, nothing shows that a newer version of the (whole) page existed.
use crate::at_rest::{self, MIXED, OLDER};
use crate::executor::Rng;
use crate::fault_plan::FaultPlan;
use crate::run::{Kind, Life, World, one_life};
use redolith_disk::sim::{Damage, OpKind};
use redolith_disk::{Loss, SimDisk};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Harm {
    CutBefore,
    CutAfter,
    CutInside,
    Dropped,
    Flipped,
    Misdirected,
    Fails,
    Full,
}
use Harm::*;
pub const HARMS: [Harm; 8] =
    [CutBefore, CutAfter, CutInside, Dropped, Flipped, Misdirected, Fails, Full];

/// How a damaged run ended. Any other end is a bug, and a panic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    Right,
    /// The start was refused.
    Refused,
    /// A statement or the process ended with an error that reports the damage.
    Told,
    /// Only after a false report of the disk: rows, or some of their pages, are older than they
    /// should be.
    Older,
}
pub type Outcomes = BTreeMap<(Harm, Outcome), u64>;

/// The seed of the run.
const SEED: u64 = 20;
const KIND: Kind = Kind { shared: true, prepares: true, ..Kind::PLAIN };
/// The number of transactions of each client.
const COUNT: u64 = 12;

fn world() -> World {
    World::new(SimDisk::new(SEED), KIND, None)
}
fn life(plan: FaultPlan) -> Life {
    // The run ends by itself, and then the power goes.
    Life { count: Some(COUNT), ..Life::new(plan, Some(u64::MAX / 2), false) }
}
/// The operations of the run, in order.
pub fn operations() -> Vec<(OpKind, PathBuf)> {
    let w = world();
    w.disk.keep_journal();
    one_life(&w, &mut Rng(SEED), life(FaultPlan::None));
    w.disk.take_journal()
}

/// Runs with the `n`-th operation (1 is the first), on `file`, going wrong as `harm` says. Panics
/// if the result is wrong.
pub fn run(n: u64, file: &Path, harm: Harm) -> Outcome {
    let w = world();
    let disk = &w.disk;
    match harm {
        CutBefore | CutInside => disk.crash_at_op(n),
        CutAfter => disk.crash_at_op(n + 1),
        Dropped => disk.damage_op(n, Damage::Lost),
        Flipped => disk.damage_op(n, Damage::Flip),
        Misdirected => disk.damage_op(n, Damage::Misdirected),
        Fails => disk.damage_op(n, Damage::Eio),
        Full => disk.damage_op(n, Damage::NoSpace),
    }
    let lies = matches!(harm, Dropped | Flipped | Misdirected);
    w.set_loss(match harm {
        CutBefore => Some(Loss::Nothing),
        CutAfter => Some(Loss::Everything),
        CutInside => Some(Loss::Sectors),
        _ => None,
    });
    let lived = catch_unwind(AssertUnwindSafe(|| {
        one_life(&w, &mut Rng(SEED), life(FaultPlan::OneOperation))
    }));
    let Err(panic) = lived else {
        return if lies { after_a_lie(&w, n, file, harm) } else { after_a_failure(&w) };
    };
    let why = at_rest::complaint(panic);
    assert!(lies, "{why}");
    // Clients read a lost page of a table again and again, and a rollback waits for a lost page of
    // a table or of undo, so the run may not end.
    let name = file.to_string_lossy();
    let lost =
        (name.contains("tables/") || name.contains("undo")) && why.contains("no end in sight");
    let told = lost || ["is corrupt", "damaged", "cannot be read"].iter().any(|t| why.contains(t));
    let older = untold(file, harm).iter().any(|o| why.contains(o));
    assert!(told || older, "{why}");
    disk.crash();
    after_a_lie(&w, n, file, harm).max(if told { Outcome::Told } else { Outcome::Older })
}
/// Checks that everything is right after an honest failure, and that the engine still works.
fn after_a_failure(w: &World) -> Outcome {
    w.set_loss(None);
    one_life(
        w,
        &mut Rng(SEED + 1),
        Life { count: Some(COUNT), ..Life::new(FaultPlan::None, None, false) },
    );
    Outcome::Right
}
/// What CHECK TABLE and the clients say of pages of different ages.
const CHECKED: [&str; 10] = [
    "lacks the entry of a row",
    "has an entry without a row",
    "is in use but marked free",
    "is not the parent's next child",
    "the last page of its level has a high key",
    "it has no high key, but is not the last page of its level",
    "own rows of index",
    "a counter is missing",
    // of a client whose row the page lacks, and of one whose deleted row the page has
    "was inserted over one that is there",
    "is said to be there",
];
/// The complaints that are allowed after a false report about a write of `file`: a page that is
/// older than others, or the loss of the last commits of the redo log. For other files the start
/// finds the damage.
fn untold(file: &Path, harm: Harm) -> Vec<&'static str> {
    let name = file.to_string_lossy();
    match harm {
        Flipped => Vec::new(),
        _ if name.contains("tables/") || name.contains("undo") => {
            [&OLDER[..], &MIXED, &CHECKED].concat()
        }
        _ if name.contains("redo/log") => OLDER.to_vec(),
        _ => Vec::new(),
    }
}
fn after_a_lie(w: &World, n: u64, file: &Path, harm: Harm) -> Outcome {
    let (found, end) = at_rest::start(w, &w.disk, n);
    match end {
        Err(why) if untold(file, harm).iter().any(|o| why.contains(o)) => Outcome::Older,
        Err(why) => panic!("{why}"),
        Ok(_) if found.refused.is_some() => Outcome::Refused,
        Ok(crate::executor::End::Done) if found.failed == 0 => Outcome::Right,
        Ok(_) => Outcome::Told,
    }
}
