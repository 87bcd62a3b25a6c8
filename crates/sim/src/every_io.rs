//! One fixed run, of which every single operation of the disk goes wrong once, in each of eight ways.
//!
//! | damage | what may follow |
//! |---|---|
//! | the power goes before it, after it, inside it; it fails; the disk is full | all that was acknowledged is there, the rest whole or not at all |
//! | a bit of it flips | the same, or a refused start, or statements that fail |
//! | it is reported done and was not done, or was done elsewhere | the same; or rows are older than they should be |
//!
//! A disk that says that it has written what it has not breaks MEDIA-1: once the checkpoint has passed
//! a page's changes, nothing says that there was a newer page than the whole one that is there.
use crate::executor::Rng;
use crate::rest::{self, MIXED, OLDER};
use crate::run::{Kind, Life, World, one_life};
use crate::trouble::Trouble;
use redolith_disk::sim::{Damage, OpKind};
use redolith_disk::{Loss, SimDisk};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

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
pub const HARMS: [Harm; 8] = [CutBefore, CutAfter, CutInside, Dropped, Flipped, Misdirected, Fails, Full];

/// How a damaged run ended. More is wrong, and a panic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    Right,
    /// The start was refused.
    Refused,
    /// A statement, or the process, ended with an error that tells it.
    Told,
    /// Only after a lie of the disk: rows, or some of their pages, are as they were before.
    Older,
}
pub type Outcomes = BTreeMap<(Harm, Outcome), u64>;

/// The run is the one of this seed.
const SEED: u64 = 20;
const KIND: Kind = Kind { shared: true, deep: false, wide: false, bulk: false, atomic: false, instances: 1 };
/// Transactions of each client.
const COUNT: u64 = 12;

fn world() -> World {
    World::new(SimDisk::new(SEED), KIND, None)
}
fn life(trouble: Trouble) -> Life {
    // It ends by itself, and then the power goes.
    Life { count: Some(COUNT), ..Life::new(trouble, Some(u64::MAX / 2), false) }
}
/// The operations of the run, in order.
pub fn operations() -> Vec<(OpKind, PathBuf)> {
    let w = world();
    w.disk.keep_journal();
    one_life(&w, &mut Rng(SEED), life(Trouble::None));
    w.disk.take_journal()
}

/// Does this to the `n`-th operation (1 is the first). Panics if anything is wrong then.
pub fn run(n: u64, harm: Harm) -> Outcome {
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
    let lived = catch_unwind(AssertUnwindSafe(|| one_life(&w, &mut Rng(SEED), life(Trouble::OneOperation))));
    let Err(panic) = lived else { return if lies { after_a_lie(&w, n, harm) } else { after_a_failure(&w) } };
    let why = rest::complaint(panic);
    let told = ["is corrupt", "damaged", "cannot be read"].iter().any(|t| why.contains(t));
    assert!(lies && told, "{why}");
    disk.crash();
    after_a_lie(&w, n, harm).max(Outcome::Told)
}
/// All is right, and goes on.
fn after_a_failure(w: &World) -> Outcome {
    w.set_loss(None);
    one_life(w, &mut Rng(SEED + 1), Life { count: Some(COUNT), ..Life::new(Trouble::None, None, false) });
    Outcome::Right
}
fn after_a_lie(w: &World, n: u64, harm: Harm) -> Outcome {
    let (found, end) = rest::start(w, &w.disk, n);
    match end {
        Err(why) if harm != Flipped && OLDER.iter().chain(&MIXED).any(|o| why.contains(o)) => Outcome::Older,
        Err(why) => panic!("{why}"),
        Ok(_) if found.refused.is_some() => Outcome::Refused,
        Ok(crate::executor::End::Done) if found.failed == 0 => Outcome::Right,
        Ok(_) => Outcome::Told,
    }
}
