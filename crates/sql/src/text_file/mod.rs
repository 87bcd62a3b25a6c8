//! Files with the rows of a table as text: how LOAD DATA reads them, and INTO OUTFILE writes them.
//!
//! Source: MySQL manual, "LOAD DATA Statement", "Field and Line Handling";
//! "SELECT ... INTO Statement".
mod format;
mod splitter;
#[cfg(test)]
mod tests;
mod writer;

pub use format::TextFormat;
pub use splitter::{Field, Fields, Layout, Splitter, Step};
pub use writer::{Column, Writer};
