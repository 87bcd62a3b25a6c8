//! Anonymous memory from the kernel. It is zeroed and page aligned, and resident only where it has
//! been touched.
use crate::{Error, Result};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

const HUGE: usize = 2 << 20;

/// A mapping of `len` bytes of address space, of which parts may be used. Dropping it frees the
/// memory.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    mapped: NonNull<u8>,
    mapped_len: usize,
}
// SAFETY: plain memory owned by the value; users of the pointers answer for their accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Takes address space, and no memory: a system that does not promise more memory than it has
    /// counts a part of the mapping when it is allowed. Asks for huge pages if the mapping is as
    /// large as two of them: random accesses to a pool of 16 KiB pages would otherwise miss the TLB
    /// nearly every time.
    pub(crate) fn reserve(len: usize) -> Result<Mapping> {
        let huge = len >= 2 * HUGE && !cfg!(miri);
        let mapped_len = if huge { len.next_multiple_of(HUGE) + HUGE } else { len.max(1) };
        // Miri knows neither protection, nor NORESERVE, nor huge pages.
        let (protection, flags) = match cfg!(miri) {
            true => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE),
            false => (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE),
        };
        // SAFETY: a new private mapping at an address that the kernel chooses aliases nothing.
        let mapped =
            unsafe { mmap_anonymous(null_mut(), mapped_len, protection, flags) }.map_err(|e| {
                Error::io(format_args!("mapping {mapped_len} bytes of memory"), &e.into())
            })?;
        let mapped = NonNull::new(mapped.cast::<u8>()).expect("mmap gives no null page");
        let skip = if huge { mapped.as_ptr().align_offset(HUGE) } else { 0 };
        // SAFETY: skip < HUGE, and mapped_len has HUGE bytes to spare.
        let base = unsafe { mapped.add(skip) };
        if huge {
            // The advice is only a hint: a kernel without huge pages serves small ones.
            // SAFETY: the range lies inside the mapping.
            let _ = unsafe {
                madvise(base.as_ptr().cast(), len.next_multiple_of(HUGE), Advice::LinuxHugepage)
            };
        }
        Ok(Mapping { base, mapped, mapped_len })
    }
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
    /// Makes these bytes, and those that share a page of the system with them, readable and
    /// writable. Bytes that are so already stay as they are.
    pub(crate) fn allow(&self, bytes: Range<usize>) -> Result<()> {
        if bytes.is_empty() || cfg!(miri) {
            return Ok(());
        }
        let page = rustix::param::page_size();
        let (start, end) = (bytes.start / page * page, bytes.end.next_multiple_of(page));
        let before = self.base.as_ptr() as usize - self.mapped.as_ptr() as usize;
        assert!(before + end <= self.mapped_len.next_multiple_of(page));
        // SAFETY: the range lies inside the mapping, and only gains access.
        unsafe {
            mprotect(
                self.base.as_ptr().add(start).cast(),
                end - start,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        }
        .map_err(|e| Error::io(format_args!("using {} bytes of memory", end - start), &e.into()))
    }
    /// Gives the memory of these bytes back, as far as they are whole pages of the system. The
    /// bytes are zeros afterwards, or what they were.
    ///
    /// # Safety
    /// No reference to the bytes lives.
    pub(crate) unsafe fn discard(&self, bytes: Range<usize>) {
        let page = rustix::param::page_size();
        let (start, end) = (bytes.start.next_multiple_of(page), bytes.end / page * page);
        if start < end && !cfg!(miri) {
            // The advice is only a hint: a kernel that does not take it keeps the memory.
            // SAFETY: the range lies inside the mapping, and nobody uses it by the caller's
            // promise.
            let _ = unsafe {
                madvise(self.base.as_ptr().add(start).cast(), end - start, Advice::LinuxDontNeed)
            };
        }
    }
}
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length. A failure leaks address space, and nothing can
        // be done about it here.
        let _ = unsafe { munmap(self.mapped.as_ptr().cast(), self.mapped_len) };
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_writable() {
        for len in [1, 4096, 5 << 20] {
            let m = Mapping::reserve(len).unwrap();
            m.allow(0..len).unwrap();
            assert_eq!(m.base().as_ptr() as usize % 4096, 0);
            // SAFETY: inside the mapping, and nobody else has it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(m.base().as_ptr(), len) };
            assert!(bytes[0] == 0 && bytes[len - 1] == 0);
            bytes[len - 1] = 9;
            assert_eq!(bytes[len - 1], 9);
        }
    }

    #[test]
    fn discarded_memory_is_zero_and_its_neighbours_stay() {
        let page = rustix::param::page_size();
        let m = Mapping::reserve(8 * page).unwrap();
        m.allow(page..5 * page).unwrap();
        let at = |n: usize| {
            // SAFETY: inside the part that is allowed, and nobody else has it.
            unsafe { m.base().add(n * page).as_mut() }
        };
        (1..5).for_each(|n| *at(n) = 7);
        // SAFETY: no reference is kept.
        unsafe { m.discard(2 * page - 1..4 * page + 1) };
        let gone = if cfg!(miri) { 7 } else { 0 };
        assert_eq!([*at(1), *at(2), *at(3), *at(4)], [7, gone, gone, 7]);
        m.allow(5 * page..6 * page).unwrap();
        assert_eq!((*at(1), *at(5)), (7, 0));
    }
}
