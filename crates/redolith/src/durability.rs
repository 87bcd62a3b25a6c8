//! How long a commit waits.

/// How far a commit has come when the call returns. Whatever the level, other transactions see the
/// commit from then on, and after a crash it is there whole or not at all.
///
/// Commits are in the log in their order: if one is lost in a crash, all later ones are lost too,
/// and one that is durable makes all earlier ones durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Durability {
    /// On the disk: the log was synced behind it. No crash loses the commit, of the program or of
    /// the machine. This is what `commit` does, and what `innodb_flush_log_at_trx_commit=1` is.
    #[default]
    Durable,
    /// Written to the log's file, but not synced. The end of the program, by `kill -9` too, does
    /// not lose the commit. A crash of the machine loses what was committed in about the last
    /// second (`innodb_flush_log_at_trx_commit=2`).
    Written,
    /// In memory: the log is written and synced soon after, once a second at least. A crash of the
    /// machine or of the program, `kill -9` included, loses what was committed in about the last
    /// second; closing the database loses nothing (`innodb_flush_log_at_trx_commit=0`).
    Eventual,
}
