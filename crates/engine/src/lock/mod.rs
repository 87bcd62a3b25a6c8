//! (being built)
#[derive(Debug)]
pub struct LockWait;
