//! Finds the rows of a source by a hash table, for joins that no index serves.
//!
//! **HASH-1** A lookup leaves rows out, and decides nothing else: for each row of the sources
//! before, it finds at least those rows of its source that satisfy the conditions of the source.
//! The conditions that read other sources are checked for each row that it finds.
//! **HASH-2** The rows of a source that the statement changes or locks for a client (FOR UPDATE,
//! FOR SHARE) are never found by hash: such a statement needs the cursor on the row.
use super::access::TableAccess;
use super::expr::Expr;
use super::subquery::EqualBy;

/// The hash table of a source, which is made when its first row is wanted.
#[derive(Clone, Debug)]
pub struct HashLookup {
    pub keys: Vec<HashKey>,
    /// The conditions that read rows of this source alone. They are checked when the table is made,
    /// and stand in no filter of the source.
    pub own: Option<Expr>,
    /// An access by an index that finds the rows, too (JOIN-6). The executor takes it where the
    /// table might not fit the statement's memory, where reading locks rows, and where few rows are
    /// wanted. Its expressions are those of the source and the lookup.
    pub instead: Option<Box<TableAccess>>,
}

/// A condition `own = before`.
#[derive(Clone, Debug)]
pub struct HashKey {
    /// Reads the source's row.
    pub own: Expr,
    /// Reads rows of sources before it.
    pub before: Expr,
    pub by: EqualBy,
}

impl HashLookup {
    /// Calls `f` with each expression, but not those of `instead`.
    pub fn each_expr<'p>(&'p self, f: &mut dyn FnMut(&'p Expr)) {
        for key in &self.keys {
            f(&key.own);
            f(&key.before);
        }
        self.own.iter().for_each(f);
    }
}
