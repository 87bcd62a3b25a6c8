//! Looks whether a client has closed its connection, from another thread than the connection's.
//!
//! HANGUP-1: a look happens while the descriptor is open. A socket withdraws the look before it
//! closes its descriptor, and the withdrawal waits for a look that is under way.
#![allow(unsafe_code)]
use redolith_sql::processes::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Lets the process list look at the client of `socket`. The caller withdraws that
/// ([`look_no_more`]) before it closes the descriptor.
pub fn look_from(process: &Process, socket: BorrowedFd<'_>) {
    let socket = socket.as_raw_fd();
    process.set_client_is_gone(Some(Box::new(move || has_hung_up(socket))));
}
pub fn look_no_more(process: &Process) {
    process.set_client_is_gone(None);
}

/// Whether the client has closed the connection, or at least its sending side: no command can come
/// any more behind those that are here.
fn has_hung_up(socket: RawFd) -> bool {
    // SAFETY: the descriptor is open while this function runs (HANGUP-1).
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let mut socket = [PollFd::new(&socket, PollFlags::RDHUP)];
    // The kernel also reports errors and hang-ups, which are not asked for.
    poll(&mut socket, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_sql::processes::{Kill, Processes};
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Tests HANGUP-1 and PROC-4.
    #[test]
    fn a_client_that_hangs_up_is_noticed_whatever_it_has_sent_before() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for is_tcp in [false, true] {
            for how in [Some(Shutdown::Both), Some(Shutdown::Write), None] {
                let processes = Processes::new();
                let (process, mut second) = (processes.add("h", 0), 0);
                let mut tick = || {
                    second += 1;
                    processes.tick(second);
                    process.killed()
                };
                let _wait = process.attend();
                let (ours, mut theirs): (Box<dyn AsFd>, Box<dyn Peer>) = if is_tcp {
                    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                    (Box::new(listener.accept().unwrap().0), Box::new(theirs))
                } else {
                    let (ours, theirs) = UnixStream::pair().unwrap();
                    (Box::new(ours), Box::new(theirs))
                };
                look_from(&process, ours.as_fd());
                assert_eq!(tick(), Kill::None);
                theirs.write_all(b"another command").unwrap();
                assert_eq!(tick(), Kill::None);
                match how {
                    Some(how) => theirs.shut_down(how),
                    None => drop(theirs),
                }
                // The end of a TCP connection may take a moment.
                while tick() == Kill::None {
                    std::thread::yield_now();
                }
                assert_eq!(process.killed(), Kill::Connection);
                look_no_more(&process);
            }
        }
    }
    trait Peer: Write {
        fn shut_down(&self, how: Shutdown);
    }
    impl Peer for TcpStream {
        fn shut_down(&self, how: Shutdown) {
            self.shutdown(how).unwrap();
        }
    }
    impl Peer for UnixStream {
        fn shut_down(&self, how: Shutdown) {
            self.shutdown(how).unwrap();
        }
    }
}
