//! What all connections share, and the counts that bound them.
//!
//! SRV-1: a client counts towards `max_connections` once it has logged in; those that have not are bounded by `LOGINS_AT_ONCE`, and when
//! they are too many, the one that has taken longest makes room: clients that connect and say nothing keep nobody out.
//! SRV-2: one seat more than `max_connections` is for an administrator. The limit is looked at when a seat is taken: lowering it ends nobody.
use crate::backend::Backend;
use crate::protocol::auth::{Accounts, Privileges, Scramble};
use redolith_disk::Disk;
use redolith_sql::processes::{Kill, Processes};
use redolith_sql::status::{Counter, Status, StatusValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections that may be logging in at one time.
const LOGINS_AT_ONCE: usize = 1024;
/// A login that has taken this long makes room for another when there are too many.
const LOGIN_PATIENCE_S: u32 = 1;
/// How long running statements have to end when the server stops.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);

pub struct Server<B: Backend> {
    pub backend: B,
    pub processes: Arc<Processes>,
    pub status: Arc<Status>,
    pub accounts: Accounts,
    disk: Arc<dyn Disk>,
    logins: Arc<Semaphore>,
    seats: Arc<Seats>,
    started: Duration,
}

/// Holds a place among those who are logging in.
pub struct LoginSlot(#[allow(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

#[derive(Debug, Default)]
struct Seats {
    taken: AtomicU32,
    most: AtomicU32,
}
impl Seats {
    /// SRV-2. A client that is refused is never counted, not even for a moment: another that comes meanwhile would be refused for its sake.
    fn take(self: &Arc<Self>, max: u32, privileges: Privileges) -> Option<Seat> {
        let limit = max.saturating_add(privileges.connection_admin as u32);
        let before = self.taken.fetch_update(Relaxed, Relaxed, |taken| (taken < limit).then_some(taken + 1)).ok()?;
        self.most.fetch_max(before + 1, Relaxed);
        Some(Seat(self.clone()))
    }
}
/// One of `max_connections`, or the administrator's.
#[derive(Debug)]
pub struct Seat(Arc<Seats>);
impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Relaxed);
    }
}

impl<B: Backend> Server<B> {
    pub fn new(backend: B, disk: Arc<dyn Disk>, processes: Arc<Processes>, status: Arc<Status>) -> Arc<Server<B>> {
        let server = Server {
            backend,
            processes,
            status,
            accounts: Accounts::root_without_password(),
            logins: Arc::new(Semaphore::new(LOGINS_AT_ONCE)),
            seats: Arc::default(),
            started: disk.now(),
            disk,
        };
        let seats = server.seats.clone();
        server.status.on_reset(Box::new(move || seats.most.store(seats.taken.load(Relaxed), Relaxed)));
        server.register_status();
        Arc::new(server)
    }

    fn register_status(&self) {
        let (seats, processes) = (self.seats.clone(), self.processes.clone());
        let (disk, started) = (self.disk.clone(), self.started);
        self.status.register(Box::new(move |put| {
            put("Max_used_connections", StatusValue::Int(seats.most.load(Relaxed) as u64));
            put("Threads_connected", StatusValue::Int(seats.taken.load(Relaxed) as u64));
            put("Threads_running", StatusValue::Int(processes.running() as u64));
            // Sessions are tasks: no thread is made or kept for a connection.
            put("Threads_created", StatusValue::Int(0));
            put("Threads_cached", StatusValue::Int(0));
            put("Uptime", StatusValue::Int((disk.now() - started).as_secs()));
        }));
    }

    pub fn new_scramble(&self) -> Scramble {
        Scramble::new(|| self.disk.random())
    }

    /// Waits for a place to log a client in.
    pub async fn login_slot(&self) -> LoginSlot {
        loop {
            let slot = self.logins.clone().acquire_owned();
            match tokio::time::timeout(Duration::from_millis(100), slot).await {
                Ok(Ok(permit)) => return LoginSlot(permit),
                Ok(Err(_)) => unreachable!("the semaphore is never closed"),
                Err(_) => {
                    if let Some(oldest) = self.processes.oldest_login(LOGIN_PATIENCE_S) {
                        oldest.kill(Kill::Connection);
                    }
                }
            }
        }
    }

    /// A seat for a client that has logged in, or None when all of `max_connections` are taken.
    pub fn take_seat(&self, privileges: Privileges) -> Option<Seat> {
        self.seats.take(self.backend.limits().max_connections, privileges)
    }

    /// The answer to COM_STATISTICS.
    pub fn statistics_line(&self) -> String {
        let uptime = (self.disk.now() - self.started).as_secs().max(1);
        let c = |counter| self.status.counters.get(counter);
        format!(
            "Uptime: {uptime}  Threads: {}  Questions: {}  Slow queries: {}  Opens: {}  Flush tables: 1  Open tables: 0  Queries per second avg: {:.3}",
            self.seats.taken.load(Relaxed),
            c(Counter::Questions),
            c(Counter::SlowQueries),
            c(Counter::OpenedTables),
            c(Counter::Questions) as f64 / uptime as f64,
        )
    }

    /// Moves the process list's clock and looks for connections that have waited too long, once a second, for ever.
    pub async fn watch_clock(self: Arc<Self>) {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.processes.tick((self.disk.now() - self.started).as_secs() as u32);
        }
    }

    /// Ends all connections: idle ones at once, running statements are interrupted. True if all are gone.
    pub async fn end_connections(&self) -> bool {
        let deadline = self.disk.now() + SHUTDOWN_PATIENCE;
        while !self.processes.is_empty() && self.disk.now() < deadline {
            // Again and again, because a client may have been between `accept` and its entry in the list.
            self.processes.kill_all(Kill::Shutdown);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.processes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seat_is_an_administrators() {
        let (ordinary, admin) = (Privileges::default(), Privileges { connection_admin: true });
        let seats = Arc::new(Seats::default());
        let taken: Vec<_> = (0..3).map(|_| seats.take(3, ordinary).unwrap()).collect();
        assert!(seats.take(3, ordinary).is_none());
        let root = seats.take(3, admin).unwrap();
        assert!(seats.take(3, admin).is_none(), "there is one such seat");
        assert_eq!(seats.most.load(Relaxed), 4);
        // Raised: seats at once. Lowered: nobody loses one, and nobody gets one until enough have left.
        let more = seats.take(5, ordinary).unwrap();
        assert!(seats.take(2, admin).is_none());
        drop((taken, more));
        assert_eq!(seats.taken.load(Relaxed), 1);
        assert!(seats.take(1, ordinary).is_none(), "an administrator's is one of them while there are others");
        assert!(seats.take(2, ordinary).is_some());
        drop(root);
        assert_eq!((seats.taken.load(Relaxed), seats.most.load(Relaxed)), (0, 5));
    }

    #[test]
    fn refused_clients_take_no_seat_from_others() {
        let seats = Arc::new(Seats::default());
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..10_000).for_each(|_| drop(seats.take(3, Privileges::default()))));
            }
        });
        // Four threads with one seat each: a count above three would have been kept by someone who was refused.
        assert!(seats.most.load(Relaxed) <= 3);
        assert_eq!(seats.taken.load(Relaxed), 0);
    }
}
