//! The state that all connections share, and the limits on their number.
//!
//! SRV-1: a client counts towards `max_connections` once it has logged in. Clients that are logging
//! in are limited by `redolith_login_seats`, and never make the server refuse others
//! ([`crate::login_seats`]).
//! SRV-2: an administrator may take one seat more than `max_connections`. The limit is checked only
//! when a seat is taken, so a lower limit ends no connection.
use crate::backend::Backend;
use crate::idle_memory::GiveBack;
use crate::login_seats::{LoginSeat, LoginSeats};
use crate::protocol::auth::{Accounts, Peer, Privileges, Scramble};
use redolith_disk::Disk;
use redolith_sql::processes::{Kill, Process, Processes};
use redolith_sql::status::{Counter, Status, StatusValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Clients that have not logged in may hold one in so many of the files that the process may open.
/// The engine and the logged-in clients need files too.
const FILES_FOR_LOGINS: u64 = 4;
/// How long running statements may take to end when the server stops.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);

pub struct Server<B: Backend> {
    pub backend: B,
    pub processes: Arc<Processes>,
    pub status: Arc<Status>,
    pub accounts: Accounts,
    disk: Arc<dyn Disk>,
    logins: Arc<LoginSeats>,
    /// The upper limit of login seats, whatever the setting is.
    most_logins: usize,
    seats: Arc<Seats>,
    started: Duration,
}

#[derive(Debug, Default)]
struct Seats {
    taken: AtomicU32,
    most: AtomicU32,
}
impl Seats {
    /// Takes a seat (SRV-2). A refused client is never counted, not even for a moment, because
    /// another client could be refused in that moment.
    fn take(self: &Arc<Self>, max: u32, privileges: Privileges) -> Option<Seat> {
        let limit = max.saturating_add(privileges.connection_admin as u32);
        let before = self
            .taken
            .fetch_update(Relaxed, Relaxed, |taken| (taken < limit).then_some(taken + 1))
            .ok()?;
        self.most.fetch_max(before + 1, Relaxed);
        Some(Seat(self.clone()))
    }
}
/// One of the `max_connections` seats, or the administrator's seat. Dropping it frees the seat.
#[derive(Debug)]
pub struct Seat(Arc<Seats>);
impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Relaxed);
    }
}

fn most_logins() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files.map_or(usize::MAX, |n| (n / FILES_FOR_LOGINS) as usize)
}

impl<B: Backend> Server<B> {
    pub fn new(
        backend: B,
        disk: Arc<dyn Disk>,
        processes: Arc<Processes>,
        status: Arc<Status>,
    ) -> Arc<Server<B>> {
        let server = Server {
            backend,
            processes,
            status,
            accounts: Accounts::root_without_password(),
            logins: Arc::default(),
            most_logins: most_logins(),
            seats: Arc::default(),
            started: disk.now(),
            disk,
        };
        let (seats, logins) = (server.seats.clone(), server.logins.clone());
        server.status.on_reset(Box::new(move || {
            seats.most.store(seats.taken.load(Relaxed), Relaxed);
            logins.reset_counts();
        }));
        server.register_status();
        Arc::new(server)
    }

    fn register_status(&self) {
        let (seats, processes) = (self.seats.clone(), self.processes.clone());
        let (disk, started, logins) = (self.disk.clone(), self.started, self.logins.clone());
        self.status.register(Box::new(move |put| {
            put("Redolith_login_seats_given_way", StatusValue::Int(logins.given_way()));
            put("Redolith_login_seats_taken", StatusValue::Int(logins.taken() as u64));
            put("Max_used_connections", StatusValue::Int(seats.most.load(Relaxed) as u64));
            put("Threads_connected", StatusValue::Int(seats.taken.load(Relaxed) as u64));
            put("Threads_running", StatusValue::Int(processes.running() as u64));
            // Sessions are tasks: no thread is started or cached for a connection.
            put("Threads_created", StatusValue::Int(0));
            put("Threads_cached", StatusValue::Int(0));
            put("Uptime", StatusValue::Int((disk.now() - started).as_secs()));
        }));
    }

    /// The time of the disk's clock.
    pub fn now(&self) -> Duration {
        self.disk.now()
    }
    pub fn new_scramble(&self) -> Scramble {
        Scramble::new(|| self.disk.random())
    }

    /// Takes a login seat for a client that has just connected. Another client may have to give
    /// way.
    pub fn login_seat(&self, peer: &Peer, process: Arc<Process>) -> LoginSeat {
        self.logins.take(peer, process, self.login_seats(), || self.disk.random())
    }
    /// Called when the process can open no more files. If a client `waits` to be accepted, a client
    /// that has not logged in gives way. Otherwise waits a moment for a login to end.
    pub async fn make_room(&self, waits: bool) {
        if waits {
            self.logins.make_room(self.login_seats(), self.disk.random()).await;
        } else {
            self.logins.one_leaves().await;
        }
    }
    fn login_seats(&self) -> usize {
        (self.backend.limits().login_seats as usize).min(self.most_logins)
    }

    /// Takes a seat for a client that has logged in. Returns `None` if all of `max_connections` are
    /// taken.
    pub fn take_seat(&self, privileges: Privileges) -> Option<Seat> {
        self.seats.take(self.backend.limits().max_connections, privileges)
    }

    /// The answer to COM_STATISTICS.
    pub fn statistics_line(&self) -> String {
        let uptime = (self.disk.now() - self.started).as_secs().max(1);
        let c = |counter| self.status.counters.get(counter);
        format!(
            "Uptime: {uptime}  Threads: {}  Questions: {}  Slow queries: {}  Opens: {}  Flush \
                tables: 1  Open tables: 0  Queries per second avg: {:.3}",
            self.seats.taken.load(Relaxed),
            c(Counter::Questions),
            c(Counter::SlowQueries),
            c(Counter::OpenedTables),
            c(Counter::Questions) as f64 / uptime as f64,
        )
    }

    /// Runs without end. Once a second it advances the process list's clock, which ends connections
    /// that have waited too long, and gives free memory back.
    pub async fn watch_clock(self: Arc<Self>) {
        let mut give_back = GiveBack::default();
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.processes.tick((self.disk.now() - self.started).as_secs() as u32);
            give_back.look(self.backend.memory());
        }
    }

    /// Ends all connections: idle ones at once, and running statements are interrupted. Returns
    /// true if all connections have ended in time.
    pub async fn end_connections(&self) -> bool {
        let deadline = self.disk.now() + SHUTDOWN_PATIENCE;
        while !self.processes.is_empty() && self.disk.now() < deadline {
            // The kill is repeated, because a client may have been between `accept` and its entry
            // in the list.
            self.processes.kill_all(Kill::Shutdown);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.processes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests SRV-2.
    #[test]
    fn the_last_seat_is_an_administrators() {
        let (ordinary, admin) = (Privileges::default(), Privileges { connection_admin: true });
        let seats = Arc::new(Seats::default());
        let taken: Vec<_> = (0..3).map(|_| seats.take(3, ordinary).unwrap()).collect();
        assert!(seats.take(3, ordinary).is_none());
        let root = seats.take(3, admin).unwrap();
        assert!(seats.take(3, admin).is_none(), "there is one such seat");
        assert_eq!(seats.most.load(Relaxed), 4);
        // A higher limit gives seats at once. A lower limit takes no seat away, and gives none
        // until enough clients have left.
        let more = seats.take(5, ordinary).unwrap();
        assert!(seats.take(2, admin).is_none());
        drop((taken, more));
        assert_eq!(seats.taken.load(Relaxed), 1);
        assert!(
            seats.take(1, ordinary).is_none(),
            "an administrator's is one of them while there are others"
        );
        assert!(seats.take(2, ordinary).is_some());
        drop(root);
        assert_eq!((seats.taken.load(Relaxed), seats.most.load(Relaxed)), (0, 5));
    }

    /// Tests SRV-1.
    #[test]
    fn refused_clients_take_no_seat_from_others() {
        let seats = Arc::new(Seats::default());
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..10_000).for_each(|_| drop(seats.take(3, Privileges::default()))));
            }
        });
        // Four threads hold at most one seat each. A maximum above three would mean that a refused
        // client was counted.
        assert!(seats.most.load(Relaxed) <= 3);
        assert_eq!(seats.taken.load(Relaxed), 0);
    }
}
