//! What it costs to read rows. The unit is one row read in the order of its key.

/// Going from the root of an index to a leaf.
pub(crate) const SEEK: f64 = 10.0;
/// Reading a row by a secondary index that lacks some of its columns.
pub(crate) const SECONDARY: f64 = 2.5;
/// Putting a row into a hash table, beside reading it, and a search in the table.
pub(crate) const HASH_ROW: f64 = 2.0;
pub(crate) const HASH_SEARCH: f64 = 3.0;
/// Reading a row of a derived table that is there.
pub(crate) const KEPT_ROW: f64 = 0.3;
/// Rows of a derived table of which nothing is known.
pub(crate) const SOME_ROWS: f64 = 1000.0;
