//! The plan of faults: which operation fails, how, and how often.
use std::path::Path;

/// Operations that a fault can hit and that are counted.
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
    /// An input/output error. A write has done nothing. A sync has made durable nobody knows what,
    /// and a later one will not repair it.
    Eio,
    /// The disk is full, whatever its capacity.
    NoSpace,
    /// Writes: a first part is written, then an input/output error. Elsewhere like `Eio`.
    Short,
    /// Writes: some sectors are written, then an input/output error. Elsewhere like `Eio`.
    Torn,
    /// Writes: reported as done, and not done. Syncs: reported as done, and not done. Elsewhere
    /// nothing happens.
    Lost,
    /// Writes: reported as done, and done at another place of the file. Elsewhere nothing happens.
    Misdirected,
    /// Reads and writes: one bit of the data is flipped on its way. Elsewhere nothing happens.
    Flip,
}

/// The `nth` operation (1 is the next) of a kind, and the `times - 1` after it, are damaged.
#[derive(Clone, Debug)]
pub struct Fault {
    kind: OpKind,
    damage: Damage,
    /// Only where the file's path contains this.
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
    /// Counts an operation, and says what happens to it. Every fault counts; the first that is due
    /// hits.
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
