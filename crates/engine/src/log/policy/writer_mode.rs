//! Who writes the log, and how many writes at a time: the choice, which may change at any time.
//!
//! SCHEME-1: a change loses, doubles and delays nothing: the lease ([`crate::log::commit::lsn_waiters`]) stays with who has it until that one passes it on, and the next to get
//! it is of the new scheme.
use crate::log::Log;
use crate::log::commit::dedicated;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Scheme {
    /// Each session that commits writes and flushes for itself, one at a time (`innodb_log_writer_threads=OFF`).
    Session = 1,
    /// The first session to arrive lets the others join, and writes for the group.
    Leader = 2,
    /// A thread of its own writes and flushes (`innodb_log_writer_threads=ON`).
    Dedicated = 3,
}
impl Scheme {
    pub fn name(self) -> &'static str {
        ["", "session", "leader", "dedicated"][self as usize]
    }
    fn of(n: u8) -> Scheme {
        [Scheme::Leader, Scheme::Session, Scheme::Leader, Scheme::Dedicated][n as usize]
    }
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterSetting {
    /// By measurement ([`crate::log::policy::tuner`]).
    Auto,
    Fixed(Scheme),
}

/// A way to write: who does it, and how many writes at a time (the resident pair of `dedicated` has its own overlap: there it counts for nothing).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::log) struct Way {
    pub scheme: Scheme,
    pub depth: usize,
}
impl Way {
    pub const fn new(scheme: Scheme, depth: usize) -> Way {
        Way { scheme, depth }
    }
}
impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let depth = if self.depth > 1 { format!(", {} writes at a time", self.depth) } else { String::new() };
        write!(f, "{}{depth}", self.scheme.name())
    }
}
/// What is set; the rest is found by measurement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(in crate::log) struct Fixed {
    pub scheme: Option<Scheme>,
    pub depth: Option<usize>,
}

pub(in crate::log) struct Schemes {
    now: AtomicU8,
    depth: AtomicUsize,
    /// The scheme that is set; 0: `Auto`.
    fixed: AtomicU8,
    /// The depth that is set; 0: by measurement.
    fixed_depth: AtomicUsize,
    /// The resident has been started.
    resident: AtomicBool,
}
impl Default for Schemes {
    fn default() -> Schemes {
        Schemes {
            now: AtomicU8::new(Scheme::Leader as u8),
            depth: AtomicUsize::new(1),
            fixed: AtomicU8::new(0),
            fixed_depth: AtomicUsize::new(0),
            resident: AtomicBool::new(false),
        }
    }
}
impl Schemes {
    pub fn fixed(&self) -> Fixed {
        let (scheme, depth) = (self.fixed.load(Acquire), self.fixed_depth.load(Acquire));
        Fixed { scheme: (scheme > 0).then(|| Scheme::of(scheme)), depth: (depth > 0).then_some(depth) }
    }
}

impl Log {
    /// The scheme in use.
    pub fn scheme(&self) -> Scheme {
        Scheme::of(self.schemes.now.load(Acquire))
    }
    /// How many durable writes may be in flight now (FLIGHT-5).
    pub(in crate::log) fn depth(&self) -> usize {
        let depth = self.schemes.depth.load(Acquire);
        if depth > 1 && !self.segments.reports_apart() { 1 } else { depth }
    }
    /// Chooses the scheme; at any time, under load (SCHEME-1).
    pub fn set_writer(self: &Arc<Self>, setting: WriterSetting) {
        let fixed = if let WriterSetting::Fixed(scheme) = setting { scheme as u8 } else { 0 };
        if self.schemes.fixed.swap(fixed, AcqRel) != fixed {
            self.settings_changed();
        }
    }
    /// How many durable writes may be in flight, at most [`crate::log::DEPTH_MAX`]; 0: by measurement. At any time.
    pub fn set_flush_depth(self: &Arc<Self>, depth: usize) {
        let depth = depth.min(crate::log::DEPTH_MAX);
        if self.schemes.fixed_depth.swap(depth, AcqRel) != depth {
            self.settings_changed();
        }
    }
    pub(in crate::log) fn use_way(self: &Arc<Self>, Way { scheme, depth }: Way) {
        self.schemes.depth.store(depth, Release);
        if self.schemes.now.swap(scheme as u8, AcqRel) == scheme as u8 {
            return;
        }
        if scheme == Scheme::Dedicated && !self.schemes.resident.swap(true, AcqRel) {
            dedicated::spawn(self);
        }
        self.waits.bell().kick();
    }
}
