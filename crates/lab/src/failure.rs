//! How a run of the lab ends early: somebody stopped it, or something failed.

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Ctrl-C or SIGTERM. What was measured is written all the same.
    #[error("stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}
pub type Result<T> = std::result::Result<T, Failure>;

/// Of any error, with what was being done.
pub fn failed<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> Failure {
    move |e| Failure::Failed(format!("{what}: {e}"))
}
