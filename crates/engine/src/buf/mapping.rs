//! Anonymous memory from the kernel. It is zeroed and page aligned, and resident only where it has
//! been touched.
use crate::{Error, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::{NonNull, null_mut};

const HUGE: usize = 2 << 20;

/// A mapping of `len` bytes. Dropping it frees the memory.
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
    /// Asks for huge pages if the mapping is as large as two of them: random accesses to a pool of
    /// 16 KiB pages would otherwise miss the TLB nearly every time.
    pub(crate) fn new(len: usize) -> Result<Mapping> {
        let huge = len >= 2 * HUGE && !cfg!(miri);
        let mapped_len = if huge { len.next_multiple_of(HUGE) + HUGE } else { len.max(1) };
        // Miri knows neither NORESERVE nor huge pages.
        let flags =
            if cfg!(miri) { MapFlags::PRIVATE } else { MapFlags::PRIVATE | MapFlags::NORESERVE };
        // SAFETY: a new private mapping at an address that the kernel chooses aliases nothing.
        let mapped = unsafe {
            mmap_anonymous(null_mut(), mapped_len, ProtFlags::READ | ProtFlags::WRITE, flags)
        }
        .map_err(|e| Error::io(format_args!("mapping {mapped_len} bytes of memory"), &e.into()))?;
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
            let m = Mapping::new(len).unwrap();
            assert_eq!(m.base().as_ptr() as usize % 4096, 0);
            // SAFETY: inside the mapping, and nobody else has it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(m.base().as_ptr(), len) };
            assert!(bytes[0] == 0 && bytes[len - 1] == 0);
            bytes[len - 1] = 9;
            assert_eq!(bytes[len - 1], 9);
        }
    }
}
