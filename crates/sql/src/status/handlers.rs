//! Handler_*: what statements ask of the storage engine, as MySQL counts it. A session adds to
//! memory of its own, row by row, and gives it to the server's counters when the statement ends
//! (STAT-1).
//!
//! A scan of a table is `read_first`, `read_key` and a `read_rnd_next` for each row and for the
//! end. A range of an index is `read_key` (where it has no bound, `read_first` or `read_last`
//! beside it) and `read_next` or `read_prev` for each row behind the first and for the end. A whole
//! unique key is one `read_key`.
use super::Counter;

macro_rules! handlers {
    ($($field:ident $counter:ident,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Handlers { $(pub $field: u64,)* }
        impl Handlers {
            pub fn each(&self, mut f: impl FnMut(Counter, u64)) {
                $(f(Counter::$counter, self.$field);)*
            }
            pub fn add(&mut self, more: &Handlers) {
                $(self.$field += more.$field;)*
            }
        }
    };
}
handlers! {
    commit HandlerCommit,
    delete HandlerDelete,
    read_first HandlerReadFirst,
    read_key HandlerReadKey,
    read_last HandlerReadLast,
    read_next HandlerReadNext,
    read_prev HandlerReadPrev,
    read_rnd HandlerReadRnd,
    read_rnd_next HandlerReadRndNext,
    rollback HandlerRollback,
    savepoint HandlerSavepoint,
    savepoint_rollback HandlerSavepointRollback,
    update HandlerUpdate,
    write HandlerWrite,
}

impl Handlers {
    /// A row is read by the key that was kept of it.
    pub fn row_by_key(&mut self) {
        self.read_rnd += 1;
        self.read_key += 1;
    }
}
