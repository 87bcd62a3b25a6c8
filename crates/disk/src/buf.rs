//! Memory aligned for direct I/O.
use crate::ALIGN;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A heap buffer aligned to [`ALIGN`] and filled with zeros. Its length is a multiple of [`ALIGN`].
pub struct AlignedBuf {
    ptr: NonNull<u8>,
    len: usize,
    room: usize,
}
// SAFETY: the buffer owns its memory alone, like a Box<[u8]>.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// `len` is rounded up to a multiple of [`ALIGN`], and must not be 0.
    pub fn new(len: usize) -> AlignedBuf {
        AlignedBuf::try_new(len)
            .unwrap_or_else(|| handle_alloc_error(Self::layout(len.next_multiple_of(ALIGN))))
    }
    /// Returns `None` where the memory is not available.
    pub fn try_new(len: usize) -> Option<AlignedBuf> {
        let len = len.next_multiple_of(ALIGN);
        assert!(len > 0);
        // SAFETY: the layout has a size above 0.
        let p = unsafe { alloc_zeroed(Self::layout(len)) };
        Some(AlignedBuf { ptr: NonNull::new(p)?, len, room: len })
    }
    /// Changes the length, up to the length that the buffer was made with. The memory past the
    /// length keeps its old content.
    pub fn set_len(&mut self, len: usize) {
        assert!(len > 0 && len <= self.room && len.is_multiple_of(ALIGN));
        self.len = len;
    }
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, ALIGN).expect("a buffer below isize::MAX")
    }
}
impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: ptr is valid for len initialised bytes while self lives.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}
impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and &mut self is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}
impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.ptr.as_ptr(), Self::layout(self.room)) }
    }
}
