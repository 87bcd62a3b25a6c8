//! An io_uring that does many sends in one system call.
//!
//! SENDRING-1: when `send` returns, the kernel has finished with every entry of the batch, and uses
//! no memory that an entry points to.
#![allow(unsafe_code)]
use io_uring::{IoUring, Probe, opcode, types};
use redolith_disk::enter_ring;
use rustix::io::Errno;
use std::io;
use std::os::fd::RawFd;

const FLAGS: i32 =
    (rustix::net::SendFlags::NOSIGNAL.bits() | rustix::net::SendFlags::DONTWAIT.bits()) as i32;

pub struct Ring(IoUring);

impl Ring {
    pub fn new(entries: u32) -> io::Result<Ring> {
        let ring = IoUring::new(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Send::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring(ring))
    }

    /// Sends each answer to its socket without waiting for room. `results` gets, for each answer,
    /// the number of bytes that the kernel took, or a negative error number.
    pub fn send<'a>(
        &mut self,
        batch: impl ExactSizeIterator<Item = (RawFd, &'a [u8])> + Clone,
        results: &mut Vec<i32>,
    ) {
        let count = batch.len();
        results.resize(count, -Errno::AGAIN.raw_os_error());
        for (i, (socket, answer)) in batch.enumerate() {
            let entry = opcode::Send::new(types::Fd(socket), answer.as_ptr(), answer.len() as u32)
                .flags(FLAGS)
                .build()
                .user_data(i as u64);
            // SAFETY: the answers are borrowed until this function returns, and then the kernel is
            // done with them (SENDRING-1).
            unsafe { self.0.submission().push(&entry) }.expect("as many entries as a batch has");
        }
        let mut done = 0;
        while done < count {
            enter_ring(|| self.0.submit_and_wait(count - done));
            for completion in self.0.completion() {
                results[completion.user_data() as usize] = completion.result();
                done += 1;
            }
        }
    }
}
