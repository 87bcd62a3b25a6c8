//! Asks the processor for memory before it is read.

/// The bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Asks for the cache line of `at`, and does not wait for it. It is a hint: `at` may be any
/// address, and other processors than x86-64, and Miri, do nothing.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction, which neither faults nor changes what the
    // program sees, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
