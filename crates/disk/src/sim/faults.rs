//! The plan of faults: which operations fail, how, and how often.
use std::path::Path;

/// The kinds of operations that a fault can hit and that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    Open,
    Read,
    Write,
    DurableWrite,
    Sync,
    SetLen,
    Len,
    List,
    CreateDir,
    Remove,
    Rename,
    SyncDir,
    Lock,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// An input/output error. A write has written nothing. A sync has made an unknown part durable,
    /// and a later sync will not write the rest.
    Eio,
    /// The disk reports that it is full, whatever its capacity.
    NoSpace,
    /// A write stops after a first part with an input/output error. Other operations: like `Eio`.
    Short,
    /// A write reaches only some of its sectors and reports an input/output error. Other
    /// operations: like `Eio`.
    Torn,
    /// A write or a sync is reported done and has no effect. Other operations are not harmed.
    Lost,
    /// A write is reported done, but its data is at another place of the file. A sync is reported
    /// done and has no effect. Other operations are not harmed.
    Misdirected,
    /// One bit of the data of a read or a write is flipped on the way. A sync is reported done and
    /// has no effect. Other operations are not harmed.
    Flip,
}

/// Damages the `nth` operation of a kind (1 is the next) and the `times - 1` operations after it.
#[derive(Clone, Debug)]
pub struct Fault {
    kind: OpKind,
    damage: Damage,
    /// The fault hits only operations on paths that contain this text.
    part_of_path: Option<String>,
    nth: u64,
    times: u64,
    seen: u64,
}

impl Fault {
    /// Hits the next operation of the kind, once.
    pub fn new(kind: OpKind, damage: Damage) -> Fault {
        Fault { kind, damage, part_of_path: None, nth: 1, times: 1, seen: 0 }
    }
    pub fn nth(self, nth: u64) -> Fault {
        assert!(nth > 0);
        Fault { nth, ..self }
    }
    pub fn times(self, times: u64) -> Fault {
        Fault { times, ..self }
    }
    pub fn for_ever(self) -> Fault {
        self.times(u64::MAX)
    }
    pub fn on(self, part_of_path: &str) -> Fault {
        Fault { part_of_path: Some(part_of_path.to_owned()), ..self }
    }
}

#[derive(Clone, Default)]
pub(super) struct Plan {
    faults: Vec<Fault>,
    pub fired: u64,
}

impl Plan {
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }
    pub fn clear(&mut self) {
        self.faults.clear();
    }
    /// Counts an operation and says what happens to it. Every fault counts the operation; the first
    /// fault that is due hits it.
    pub fn next(&mut self, kind: OpKind, path: Option<&Path>) -> Option<Damage> {
        let mut hit = None;
        for f in self.faults.iter_mut().filter(|f| f.kind == kind) {
            let on_path =
                |part: &String| path.is_some_and(|p| p.to_string_lossy().contains(part.as_str()));
            if f.part_of_path.as_ref().is_some_and(|part| !on_path(part)) {
                continue;
            }
            f.seen += 1;
            if f.seen >= f.nth && f.seen - f.nth < f.times && hit.is_none() {
                hit = Some(f.damage);
            }
        }
        self.fired += hit.is_some() as u64;
        self.faults.retain(|f| f.seen.saturating_sub(f.nth) < f.times);
        hit
    }
}
