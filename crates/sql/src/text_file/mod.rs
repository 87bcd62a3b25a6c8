//! Files with the rows of a table as text: how LOAD DATA reads them.
//!
//! Source: MySQL manual, "LOAD DATA Statement", "Field and Line Handling".
mod format;
mod splitter;
#[cfg(test)]
mod tests;

pub use format::TextFormat;
pub use splitter::{Field, Fields, Layout, Splitter, Step};
