//! System variables: a table of all variables ([`table`]), their GLOBAL values ([`Settings`]) and
//! the values of a session ([`SessionVars`]).
//!
//! SET-1: a session sees its own values and otherwise the values that were GLOBAL when it began. As
//! in MySQL, SET GLOBAL does not change a running session. The session keeps a pointer to the
//! snapshot of that time and only the values that it has set itself. For a `Followed` variable, the
//! session uses the current GLOBAL value until it sets its own.
//! SET-2: code that depends on a GLOBAL value reads the current value (`Settings::bits`, one atomic
//! load) or is called when it changes (`on_change`).
//! SET-3: a variable has its documented effect, or accepts only the value that is true of this
//! server, or says that it has no effect.
mod global;
mod options;
mod session;
mod table;
mod variable;

pub use global::Settings;
pub use options::OptionError;
pub use session::SessionVars;
pub use table::Var;
pub use variable::{Access, Kind, Scope, Setting, Taken, Variable, is_wide, parse_cpus};

/// The server's own version, the default of `--version`.
pub const SERVER_VERSION: &str = "8.0.36-redolith-0.1.0";
/// MySQL's version in it as a number, as GTID events have it.
pub const SERVER_VERSION_ID: u32 = 80036;

/// The value of `@@version_comment`.
pub const VERSION_COMMENT: &str = "Redolith";
