//! Deadlocks: the search for a cycle in the wait-for graph, the choice of a victim, and the report
//! of the last one.
//!
//! A search runs when a transaction starts to wait (in its `LockWait::wait`, with no latch held),
//! under one mutex that only waiters take (LOCK-5). It goes breadth-first from the new waiter, so
//! it finds a shortest cycle.
//!
//! The graph is not stored; edges are read off the queues. A waiter for a row is blocked by holders
//! and by others ahead of it in the queue. Those ahead wait for holders of the same row and for
//! nothing else, so only the holders need following, and a row with a thousand waiters is followed
//! once: the search for the next one behind a hot row costs one step. The exception is a
//! conversion, which overtakes: everyone in that queue waits for it, so reaching its row again
//! closes the cycle.
use super::owner::{Outcome, Target, TrxLocks};
use super::row::Wakers;
use super::table::{LockTable, wake};
use super::{LockKey, WaitInfo};
use crate::TrxId;
use crate::sync::lock::atomic::Ordering;
use hashbrown::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What the graph mutex guards: the search's memory and the latest report.
#[derive(Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    seen_trxs: HashSet<usize>,
    seen_rows: HashSet<LockKey>,
    latest: Option<Arc<DeadlockReport>>,
}
struct Node {
    trx: Arc<TrxLocks>,
    /// Index of the node that waits for this one; the start is its own.
    parent: usize,
    /// Ticket of its wait, once it has been followed.
    ticket: u64,
}

/// The latest deadlock, as `SHOW ENGINE INNODB STATUS` tells it; `Display` gives the text, callers
/// who know tables add names.
#[derive(Clone, Debug)]
pub struct DeadlockReport {
    /// Monotonic time of the lock table's clock.
    pub at: Duration,
    /// The cycle: each waits for the next, the last for the first. The first is the one whose
    /// request closed it.
    pub trxs: Vec<DeadlockTrx>,
    /// Index into `trxs`.
    pub victim: usize,
}
#[derive(Clone, Debug)]
pub struct DeadlockTrx {
    pub owner: u64,
    pub trx_id: TrxId,
    pub weight: u64,
    pub locks_held: usize,
    pub waits_for: Option<WaitInfo>,
}

impl LockTable {
    /// From here on the wait counts in the graph; breaks the deadlocks it closes, perhaps by ending
    /// this very wait.
    pub(super) fn announce(&self, trx: &Arc<TrxLocks>, ticket: u64) {
        let mut graph = self.graph.lock();
        {
            let mut wait = trx.wait.lock();
            if wait.ticket != ticket || wait.outcome != Outcome::Pending {
                return;
            }
            wait.announced = true;
        }
        let wakers = self.search(&mut graph, trx);
        drop(graph);
        wake(wakers);
    }

    pub(super) fn break_deadlocks(&self, trx: &Arc<TrxLocks>) {
        if self.detects() {
            let wakers = self.search(&mut self.graph.lock(), trx);
            wake(wakers);
        }
    }

    pub fn latest_deadlock(&self) -> Option<Arc<DeadlockReport>> {
        self.graph.lock().latest.clone()
    }

    /// Until no cycle goes through `start`, ends the wait of the cheapest transaction of one.
    fn search(&self, graph: &mut Graph, start: &Arc<TrxLocks>) -> Wakers {
        let mut wakers = Wakers::new();
        while let Some(last) = self.find_cycle(graph, start) {
            let mut cycle = Vec::new();
            let mut at = last;
            while at != 0 {
                cycle.push(at);
                at = graph.nodes[at].parent;
            }
            cycle.push(0);
            cycle.reverse();
            // The least weight; the requester wins ties, being first.
            let victim = (0..cycle.len())
                .min_by_key(|&i| graph.nodes[cycle[i]].trx.weight())
                .expect("not empty");
            let report = DeadlockReport {
                at: self.now(),
                trxs: cycle.iter().map(|&n| DeadlockTrx::new(&graph.nodes[n].trx)).collect(),
                victim,
            };
            let node = &graph.nodes[cycle[victim]];
            // It may have been granted or withdrawn since; then there is no such cycle any more.
            if self.withdraw(&node.trx, node.ticket, Outcome::Victim, &mut wakers) {
                self.counters.deadlocks.fetch_add(1, Ordering::Relaxed);
                graph.latest = Some(Arc::new(report));
            }
        }
        graph.nodes.clear();
        wakers
    }

    /// Breadth-first from `start`; the node whose wait closes the cycle.
    fn find_cycle(&self, graph: &mut Graph, start: &Arc<TrxLocks>) -> Option<usize> {
        let Graph { nodes, seen_trxs, seen_rows, .. } = graph;
        nodes.clear();
        seen_trxs.clear();
        seen_rows.clear();
        let (first, _) = start.announced_wait()?;
        let start_row = match &first {
            Target::Row { key, converts, .. } => Some((*key, *converts)),
            Target::Insert { .. } => None,
        };
        seen_trxs.insert(Arc::as_ptr(start).addr());
        nodes.push(Node { trx: start.clone(), parent: 0, ticket: 0 });
        let mut at = 0;
        while at < nodes.len() {
            let trx = nodes[at].trx.clone();
            if let Some((target, ticket)) = trx.announced_wait() {
                nodes[at].ticket = ticket;
                let mut closes = false;
                let mut edge = |to: &Arc<TrxLocks>| {
                    if Arc::ptr_eq(to, &trx) {
                        // its own lock, which it wants to convert
                    } else if Arc::ptr_eq(to, start) {
                        closes = true;
                    } else if seen_trxs.insert(Arc::as_ptr(to).addr()) {
                        nodes.push(Node { trx: to.clone(), parent: at, ticket: 0 });
                    }
                };
                match target {
                    Target::Row { key, .. }
                        if at > 0 && start_row.is_some_and(|(row, _)| row == key) =>
                    {
                        closes = start_row.is_some_and(|(_, converts)| converts);
                    }
                    Target::Row { key, .. } => {
                        if seen_rows.insert(key) {
                            self.with_holders(key, edge);
                        }
                    }
                    Target::Insert { ranges, key } => ranges.with_blockers(&trx, &key, &mut edge),
                }
                if closes {
                    return Some(at);
                }
            }
            at += 1;
        }
        None
    }
}

impl DeadlockTrx {
    fn new(trx: &Arc<TrxLocks>) -> DeadlockTrx {
        DeadlockTrx {
            owner: trx.owner(),
            trx_id: trx.trx_id(),
            weight: trx.weight(),
            locks_held: trx.locks_held(),
            waits_for: trx.waits_for(),
        }
    }
}

impl fmt::Display for DeadlockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, trx) in self.trxs.iter().enumerate() {
            writeln!(
                f,
                "*** ({}) TRANSACTION {} (owner {}), weight {}, {} row lock(s)",
                i + 1,
                trx.trx_id.0,
                trx.owner,
                trx.weight,
                trx.locks_held
            )?;
            if let Some(wait) = &trx.waits_for {
                let next = if i + 1 < self.trxs.len() { i + 2 } else { 1 };
                writeln!(f, "*** ({}) WAITS FOR ({next}): {wait}", i + 1)?;
            }
        }
        writeln!(f, "*** WE ROLL BACK TRANSACTION ({})", self.victim + 1)
    }
}
