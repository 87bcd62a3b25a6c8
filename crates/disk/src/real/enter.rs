//! Calls of `io_uring_enter`.
use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// Calls `io_uring_enter` until it succeeds, and returns how many entries the kernel has taken.
/// A call that fails has taken none: after one entry the kernel reports how many it has taken, and
/// the rest stays in the queue for the next call.
///
/// # Panics
/// Where the kernel never takes the entries: they may point to memory which the caller would free.
pub fn enter_ring(mut enter: impl FnMut() -> io::Result<usize>) -> usize {
    loop {
        let e = match enter() {
            Ok(taken) => return taken,
            Err(e) => e,
        };
        match e.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::INTR) => {}
            // The kernel is out of memory, for requests or for its account of a thread that enters
            // for the first time. Requests in flight will give memory back.
            #[allow(clippy::disallowed_methods)] // a wait for the kernel, outside tasks
            Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {
                std::thread::sleep(Duration::from_millis(1))
            }
            _ => panic!("io_uring_enter: {e}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_memory_is_asked_again() {
        let mut refusals = [Errno::NOMEM, Errno::AGAIN, Errno::BUSY, Errno::INTR].into_iter();
        let taken = enter_ring(|| match refusals.next() {
            Some(e) => Err(e.into()),
            None => Ok(7),
        });
        assert_eq!(taken, 7);
    }
    #[test]
    #[should_panic(expected = "io_uring_enter")]
    fn other_errors_end_the_process() {
        enter_ring(|| Err(Errno::BADF.into()));
    }
}
