//! System variables: one table of what there is ([`table`]), the GLOBAL values ([`Settings`]) and
//! those of a session ([`SessionVars`]).
//!
//! SET-1: a session sees the values that were GLOBAL when it began, and its own; SET GLOBAL does
//! not change it (as in MySQL). It keeps a pointer to that snapshot and only what it has set
//! itself. What is `Followed` it goes by as it is now, until it sets its own.
//! SET-2: what the server does by a GLOBAL value it reads where it is current (`Settings::bits`,
//! one atomic load), or is told (`on_change`).
//! SET-3: a variable that is accepted does what it says, or takes only the value that is true of
//! this server, or says that it has no effect.
mod global;
mod options;
mod session;
mod table;
mod variable;

pub use global::Settings;
pub use options::OptionError;
pub use session::SessionVars;
pub use table::Var;
pub use variable::{Access, Kind, Scope, Setting, Variable, parse_cpus};

/// What the server says it is, to clients too.
pub const SERVER_VERSION: &str = "8.0.36-redolith-0.1.0";

/// `@@version_comment`.
pub const VERSION_COMMENT: &str = "Redolith";
