//! Seats for clients that have not logged in yet, and the choice of the client that gives way when
//! there are too many.
//!
//! Anybody who reaches the port can connect and say nothing. If such clients could hold all seats
//! until `connect_timeout` ends them, nobody else could log in. So a new client is always accepted.
//! If all `redolith_login_seats` are taken, another client gives way, as in OpenSSH's
//! `MaxStartups`. What a client has sent so far does not count in its favour, because a byte a
//! second is as cheap to send as none. Only a completed login counts.
//!
//! LOGIN-1: the client that gives way is drawn by lot among the older half. So a login is never
//! disturbed if it is complete before half as many clients arrive as there are seats. A slower
//! login still has a chance; it would have none if the oldest client always went.
//! LOGIN-2: a peer address may hold an eighth of the seats while seats are scarce. If some
//! addresses hold more, the lot is drawn among the clients of the address that holds most. Without
//! scarcity there is no share: behind a proxy, or on one machine, all clients come from one
//! address.
//! LOGIN-3: a client that has been chosen holds no seat any more and is not chosen again.
use crate::protocol::auth::Peer;
use parking_lot::Mutex;
use redolith_sql::processes::{Kill, Process};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;

/// One address may hold this part of the seats while they are scarce (LOGIN-2).
const SHARE: usize = 8;
/// The longest wait for a client to leave, before the next client is told to leave.
const LEAVING: Duration = Duration::from_millis(100);
/// While fewer clients than this are logging in, they get `LEAVING` to do so, even if others cannot
/// be accepted meanwhile.
const FEW: usize = 8;

/// Where a client comes from. All unix sockets are one origin. The addresses of an IPv6 network of
/// 64 bits are one origin too, because a host may have as many of them as it likes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Origin {
    Socket,
    Address(IpAddr),
}
impl Origin {
    fn of(peer: &Peer) -> Origin {
        match peer {
            Peer::Socket => Origin::Socket,
            Peer::Tcp(ip) => Origin::Address(match ip.to_canonical() {
                IpAddr::V6(v6) => IpAddr::from((u128::from(v6) >> 64 << 64).to_be_bytes()),
                v4 => v4,
            }),
        }
    }
}

/// The clients that wait, oldest first.
#[derive(Debug)]
struct Waiting<T> {
    clients: Vec<Waiter<T>>,
    of_origin: HashMap<Origin, usize>,
    last: u64,
}
#[derive(Debug)]
struct Waiter<T> {
    ticket: u64,
    origin: Origin,
    client: T,
}

impl<T> Default for Waiting<T> {
    fn default() -> Waiting<T> {
        Waiting { clients: Vec::new(), of_origin: HashMap::new(), last: 0 }
    }
}

impl<T> Waiting<T> {
    fn enter(&mut self, origin: Origin, client: T) -> u64 {
        self.last += 1;
        self.clients.push(Waiter { ticket: self.last, origin, client });
        *self.of_origin.entry(origin).or_default() += 1;
        self.last
    }

    /// Returns false if the client has been told to give way before.
    fn leave(&mut self, ticket: u64) -> bool {
        match self.clients.binary_search_by_key(&ticket, |w| w.ticket) {
            Ok(at) => {
                self.remove(at);
                true
            }
            Err(_) => false,
        }
    }

    fn remove(&mut self, at: usize) -> T {
        let Waiter { origin, client, .. } = self.clients.remove(at);
        if let Some(n) = self.of_origin.get_mut(&origin) {
            *n -= 1;
            if *n == 0 {
                self.of_origin.remove(&origin);
            }
        }
        client
    }

    /// Removes and returns the client that gives way, out of `seats` seats (LOGIN-1, LOGIN-2).
    /// `lot` is a number that clients cannot foresee.
    fn give_way(&mut self, seats: usize, lot: u64) -> Option<T> {
        let share = (seats / SHARE).max(1);
        let greatest = self.of_origin.iter().max_by_key(|(origin, n)| (**n, **origin));
        let above_share = greatest.filter(|(_, n)| **n > share).map(|(origin, _)| *origin);
        let chosen = match above_share {
            Some(origin) => {
                let nth = lot_of_older_half(self.of_origin[&origin], lot);
                let mut of_it = self.clients.iter().enumerate().filter(|(_, w)| w.origin == origin);
                of_it.nth(nth)?.0
            }
            None if self.clients.is_empty() => return None,
            None => lot_of_older_half(self.clients.len(), lot),
        };
        Some(self.remove(chosen))
    }
}

fn lot_of_older_half(n: usize, lot: u64) -> usize {
    (lot % (n / 2).max(1) as u64) as usize
}

/// The clients that are logging in.
#[derive(Default)]
pub struct LoginSeats {
    waiting: Mutex<Waiting<Arc<Process>>>,
    given_way: AtomicU64,
    left: Notify,
}

/// Held by a client until it has logged in or is gone.
pub struct LoginSeat {
    seats: Arc<LoginSeats>,
    ticket: u64,
}

impl LoginSeats {
    /// Gives a seat to a client that has just been accepted. Other clients give way until at most
    /// `seats` are taken.
    pub fn take(
        self: &Arc<Self>,
        peer: &Peer,
        process: Arc<Process>,
        seats: usize,
        mut lot: impl FnMut() -> u64,
    ) -> LoginSeat {
        let mut waiting = self.waiting.lock();
        let ticket = waiting.enter(Origin::of(peer), process);
        let mut leaving = Vec::new();
        while waiting.clients.len() > seats.max(1) {
            leaving.extend(waiting.give_way(seats, lot()));
        }
        drop(waiting);
        self.end(&leaving);
        LoginSeat { seats: self.clone(), ticket }
    }

    /// Makes room when a client cannot be accepted, because the process can open no more files: a
    /// client that is logging in gives way. Waits until some client has left, but at most
    /// `LEAVING`.
    pub async fn make_room(&self, seats: usize, lot: u64) {
        if self.taken() < FEW && self.one_leaves().await {
            return;
        }
        let left = self.left.notified();
        tokio::pin!(left);
        left.as_mut().enable();
        let leaving = self.waiting.lock().give_way(seats, lot);
        self.end(leaving.as_slice());
        let _ = tokio::time::timeout(LEAVING, left).await;
    }
    /// Waits until a client has logged in or has gone, and returns true then. Returns false after
    /// `LEAVING`.
    pub async fn one_leaves(&self) -> bool {
        tokio::time::timeout(LEAVING, self.left.notified()).await.is_ok()
    }

    fn end(&self, leaving: &[Arc<Process>]) {
        self.given_way.fetch_add(leaving.len() as u64, Relaxed);
        leaving.iter().for_each(|process| process.kill(Kill::Connection));
    }

    pub fn taken(&self) -> usize {
        self.waiting.lock().clients.len()
    }
    pub fn given_way(&self) -> u64 {
        self.given_way.load(Relaxed)
    }
    pub fn reset_counts(&self) {
        self.given_way.store(0, Relaxed);
    }
}

impl Drop for LoginSeat {
    fn drop(&mut self) {
        self.seats.waiting.lock().leave(self.ticket);
        self.seats.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_sql::processes::Processes;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const SEATS: usize = 64;

    fn address(n: u32) -> Origin {
        Origin::Address(Ipv4Addr::from(n).into())
    }
    /// A sequence that is the same in every run.
    fn lots() -> impl FnMut() -> u64 {
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        }
    }
    /// Lets `n` clients arrive. Returns the clients that gave way.
    fn arrive(
        waiting: &mut Waiting<u32>,
        n: usize,
        mut origin: impl FnMut() -> Origin,
        lot: &mut impl FnMut() -> u64,
    ) -> Vec<u32> {
        let mut gone = Vec::new();
        for _ in 0..n {
            waiting.enter(origin(), 0);
            while waiting.clients.len() > SEATS {
                gone.extend(waiting.give_way(SEATS, lot()));
            }
        }
        gone
    }

    /// LOGIN-1 holds whether the other clients come from one address or from an address each.
    #[test]
    fn a_login_is_not_disturbed_by_half_as_many_others_as_there_are_seats() {
        let (mut lot, mut next) = (lots(), 1000);
        for round in 0..2000 {
            let mut origin = || {
                next += 1;
                address(if round % 2 == 0 { 0 } else { next })
            };
            let mut waiting = Waiting::default();
            arrive(&mut waiting, 3 * SEATS, &mut origin, &mut lot);
            let login = waiting.enter(address(0), 1);
            let gone = arrive(&mut waiting, SEATS / 2 - 1, &mut origin, &mut lot);
            assert!(!gone.contains(&1), "round {round}");
            assert!(waiting.leave(login));
        }
    }

    /// LOGIN-1: a slow login loses its seat in the end, but at no moment that anybody can foresee.
    #[test]
    fn who_waits_for_long_gives_way_at_some_time() {
        let mut lot = lots();
        let mut survived = Vec::new();
        for _ in 0..200 {
            let mut waiting = Waiting::default();
            arrive(&mut waiting, SEATS, || address(7), &mut lot);
            waiting.enter(address(7), 1);
            let mut n = 0;
            while arrive(&mut waiting, 1, || address(7), &mut lot) != [1] {
                n += 1;
                assert!(n < 100 * SEATS, "it was never chosen");
            }
            survived.push(n);
        }
        let (least, most) = (survived.iter().min().unwrap(), survived.iter().max().unwrap());
        assert!(*least >= SEATS / 2 - 1 && *most > 2 * SEATS, "{least} to {most}");
    }

    /// LOGIN-2: clients of other addresses keep their seats however long they take.
    #[test]
    fn an_address_with_more_than_its_share_gives_way_first() {
        let (mut lot, mut waiting) = (lots(), Waiting::default());
        let others: Vec<u64> = (0..SEATS / SHARE)
            .flat_map(|n| [(address(n as u32), 1), (Origin::Socket, 1)])
            .map(|(o, c)| waiting.enter(o, c))
            .collect();
        let gone = arrive(&mut waiting, 1000, || address(99), &mut lot);
        assert!(gone.len() >= 1000 - SEATS && !gone.contains(&1));
        assert!(others.into_iter().all(|ticket| waiting.leave(ticket)));
    }

    /// LOGIN-2: if no address is above its share, all addresses have equal chances.
    #[test]
    fn a_share_protects_from_those_who_have_many_addresses() {
        let (mut lot, mut next) = (lots(), 1000);
        let mut waiting = Waiting::default();
        let mut many = || {
            next += 1;
            address(next)
        };
        arrive(&mut waiting, 2 * SEATS, &mut many, &mut lot);
        let pool: Vec<u64> = (0..SEATS / SHARE).map(|_| waiting.enter(address(1), 1)).collect();
        let gone = arrive(&mut waiting, SEATS / 2 - SEATS / SHARE, &mut many, &mut lot);
        assert!(!gone.contains(&1));
        assert!(pool.into_iter().all(|ticket| waiting.leave(ticket)));
    }

    #[test]
    fn without_scarcity_there_is_no_share() {
        let (mut lot, mut waiting) = (lots(), Waiting::default());
        assert_eq!(arrive(&mut waiting, SEATS, || Origin::Socket, &mut lot), []);
        assert_eq!(waiting.clients.len(), SEATS);
    }

    #[test]
    fn addresses_of_one_network_are_one_origin() {
        let of = |ip: IpAddr| Origin::of(&Peer::Tcp(ip));
        let v6 = |last: u16| Ipv6Addr::new(0x2001, 0xdb8, 1, 2, last, 5, 6, last).into();
        assert_eq!(of(v6(1)), of(v6(2)));
        assert_ne!(of(v6(1)), of(Ipv6Addr::new(0x2001, 0xdb8, 1, 3, 1, 5, 6, 1).into()));
        let v4 = Ipv4Addr::new(10, 0, 0, 1);
        assert_eq!(of(v4.to_ipv6_mapped().into()), of(v4.into()));
        assert_ne!(of(v4.into()), of(Ipv4Addr::new(10, 0, 0, 2).into()));
    }

    /// Checks LOGIN-3 and the counts.
    #[test]
    fn a_seat_is_given_back_once() {
        let (seats, processes) = (Arc::new(LoginSeats::default()), Processes::new());
        let take = |most| {
            let process = processes.add("h", 10);
            (seats.take(&Peer::Socket, process.clone(), most, || 0), process)
        };
        let (first, second, third) = (take(2), take(2), take(2));
        let killed = |p: &Arc<Process>| p.killed() == Kill::Connection;
        assert_eq!([&first, &second, &third].map(|(_, p)| killed(p)), [true, false, false]);
        assert_eq!((seats.taken(), seats.given_way()), (2, 1));
        drop(first);
        assert_eq!(seats.taken(), 2);
        drop((second, third));
        assert_eq!((seats.taken(), seats.given_way()), (0, 1));
        assert!(seats.waiting.lock().of_origin.is_empty());
        // Even with the setting at 0, the client that arrives has a seat.
        let (_last, process) = take(0);
        assert!(!killed(&process) && seats.taken() == 1);
    }

    #[tokio::test]
    async fn room_is_made_by_one_client_at_a_time() {
        let (seats, processes) = (Arc::new(LoginSeats::default()), Processes::new());
        let (leaver, waiter) = (processes.add("h", 10), processes.add("h", 10));
        let seat = seats.take(&Peer::Socket, leaver.clone(), 10, || 0);
        let _kept: Vec<_> =
            (1..FEW).map(|_| seats.take(&Peer::Socket, waiter.clone(), 10, || 0)).collect();
        let client = tokio::spawn(async move {
            while leaver.killed() == Kill::None {
                tokio::task::yield_now().await;
            }
            drop(seat);
        });
        seats.make_room(10, 0).await;
        assert_eq!((seats.given_way(), waiter.killed()), (1, Kill::None));
        client.await.unwrap();
        // The accepting task waits even if no client can leave, so it does not spin.
        let empty = LoginSeats::default();
        let mut wait = std::pin::pin!(empty.make_room(10, 5));
        std::future::poll_fn(|cx| {
            assert!(wait.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    }
}
