//! The ways in which a run ends early: it was stopped, or something failed.

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Ctrl-C or SIGTERM. The results so far are written all the same.
    #[error("stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}
pub type Result<T> = std::result::Result<T, Failure>;

/// Makes a failure from any error. `what` says what was being done.
pub fn failed<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> Failure {
    move |e| Failure::Failed(format!("{what}: {e}"))
}
