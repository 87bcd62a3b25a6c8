//! Who writes the log: the choice, which may change at any time.
//!
//! SCHEME-1: a change loses, doubles and delays nothing: the lease ([`super::waits`]) stays with who has it until that one passes it on, and the next to get
//! it is of the new scheme.
use super::{Log, resident};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU8};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// By measurement ([`super::auto`]).
    Auto,
    Fixed(Scheme),
}

pub(super) struct Schemes {
    now: AtomicU8,
    /// The scheme that is set; 0: `Auto`.
    fixed: AtomicU8,
    /// The resident has been started.
    resident: AtomicBool,
}
impl Default for Schemes {
    fn default() -> Schemes {
        Schemes { now: AtomicU8::new(Scheme::Leader as u8), fixed: AtomicU8::new(0), resident: AtomicBool::new(false) }
    }
}
impl Schemes {
    pub fn setting(&self) -> WriterSetting {
        match self.fixed.load(Acquire) {
            0 => WriterSetting::Auto,
            n => WriterSetting::Fixed(Scheme::of(n)),
        }
    }
}

impl Log {
    /// The scheme in use.
    pub fn scheme(&self) -> Scheme {
        Scheme::of(self.schemes.now.load(Acquire))
    }
    /// Chooses the scheme; at any time, under load (SCHEME-1).
    pub fn set_writer(self: &Arc<Self>, setting: WriterSetting) {
        let (fixed, scheme) = match setting {
            WriterSetting::Auto => (0, Scheme::Leader),
            WriterSetting::Fixed(scheme) => (scheme as u8, scheme),
        };
        self.schemes.fixed.store(fixed, Release);
        self.use_scheme(scheme);
    }
    pub(super) fn use_scheme(self: &Arc<Self>, scheme: Scheme) {
        if self.schemes.now.swap(scheme as u8, AcqRel) == scheme as u8 {
            return;
        }
        if scheme == Scheme::Dedicated && !self.schemes.resident.swap(true, AcqRel) {
            resident::spawn(self);
        }
        self.waits.bell().kick();
    }
}
