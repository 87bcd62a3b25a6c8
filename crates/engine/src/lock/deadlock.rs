//! Deadlocks: the search for a cycle in the wait-for graph, the choice of a victim, and the report
//! of the latest deadlock.
//!
//! A search runs when a transaction starts to wait (in its `LockWait::wait`, with no latch held),
//! under one mutex that only waiters take (LOCK-5). The search goes breadth-first from the new
//! waiter, so it finds a shortest cycle.
//!
//! The graph is not stored; the search reads its edges off the queues. A waiter for a row is
//! blocked by the holders and by the waiters ahead of it in the queue. The waiters ahead wait for
//! holders of the same row and for nothing else, so the search only follows the holders. It follows
//! a row with a thousand waiters only once: the next search behind a hot row costs one step. This
//! one step is the look whether the first waiter itself is a holder there, which the search passed
//! over if it came to the row as this holder's wait.
//!
//! - LOCK-7: a shared request with no exclusive request ahead of it does not wait for the shared
//!   holders. It meets them where a record's implicit lock was made explicit beside them (LOCK-1).
use super::owner::{Outcome, Target, TrxLocks};
use super::row::Wakers;
use super::table::{LockTable, wake};
use super::{LockKey, Mode, WaitInfo};
use crate::TrxId;
use crate::sync::lock::atomic::Ordering;
use hashbrown::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The data under the graph mutex: the memory of the search, and the latest report.
#[derive(Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    seen_trxs: HashSet<usize>,
    /// The rows that were followed; true: to all holders, false: to the exclusive ones.
    seen_rows: HashSet<(LockKey, bool)>,
    latest: Option<Arc<DeadlockReport>>,
}
struct Node {
    trx: Arc<TrxLocks>,
    /// The index of the node that waits for this node. The first node is its own parent.
    parent: usize,
    /// The ticket of the node's wait, once the search has followed the wait.
    ticket: u64,
}

/// The latest deadlock, for `SHOW ENGINE INNODB STATUS`. `Display` gives the text; callers that
/// know the tables add their names.
#[derive(Clone, Debug)]
pub struct DeadlockReport {
    /// The time by the lock table's monotonic clock.
    pub at: Duration,
    /// The cycle: each transaction waits for the next one, and the last waits for the first. The
    /// request of the first transaction closed the cycle.
    pub trxs: Vec<DeadlockTrx>,
    /// The victim's index in `trxs`.
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
    /// Makes the wait count in the graph, and breaks the deadlocks that it closes, perhaps by
    /// ending this very wait.
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

    /// Ends the wait of the cheapest transaction of a cycle, until no cycle goes through `start`.
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
            // The victim has the least weight. The requester wins ties, because it comes first.
            let victim = (0..cycle.len())
                .min_by_key(|&i| graph.nodes[cycle[i]].trx.weight())
                .expect("not empty");
            let report = DeadlockReport {
                at: self.now(),
                trxs: cycle.iter().map(|&n| DeadlockTrx::new(&graph.nodes[n].trx)).collect(),
                victim,
            };
            let node = &graph.nodes[cycle[victim]];
            // The wait may have been granted or withdrawn since. Then the cycle no longer exists.
            if self.withdraw(&node.trx, node.ticket, Outcome::Victim, &mut wakers) {
                self.counters.deadlocks.fetch_add(1, Ordering::Relaxed);
                graph.latest = Some(Arc::new(report));
            }
        }
        graph.nodes.clear();
        wakers
    }

    /// Searches breadth-first from `start`. Returns the node whose wait closes the cycle.
    fn find_cycle(&self, graph: &mut Graph, start: &Arc<TrxLocks>) -> Option<usize> {
        let Graph { nodes, seen_trxs, seen_rows, .. } = graph;
        nodes.clear();
        seen_trxs.clear();
        seen_rows.clear();
        start.announced_wait()?;
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
                        // A holder that converts does not wait for its own lock.
                    } else if Arc::ptr_eq(to, start) {
                        closes = true;
                    } else if seen_trxs.insert(Arc::as_ptr(to).addr()) {
                        nodes.push(Node { trx: to.clone(), parent: at, ticket: 0 });
                    }
                };
                match target {
                    Target::Row { key, mode, place } => {
                        self.with_row(key, (&trx, ticket), |row| {
                            let all = row.waits_for_all(mode, place);
                            if seen_rows.insert((key, all)) {
                                row.blockers(all).for_each(&mut edge);
                            } else if row.mode_of(start).is_some_and(|m| all || m == Mode::X) {
                                edge(start);
                            }
                        });
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
