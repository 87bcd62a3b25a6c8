//! Handler_*: the requests of statements to the storage engine, counted as in MySQL. A session
//! counts row by row in its own memory, and adds its counts to the server's counters when the
//! statement ends (STAT-1).
//!
//! A scan of a table counts `read_first`, `read_key`, and `read_rnd_next` for each row and for the
//! end. A range of an index counts `read_key`, and `read_next` or `read_prev` for each row after
//! the first and for the end; a range without a bound also counts `read_first` or `read_last`. A
//! complete unique key counts one `read_key`.
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
    /// Counts a row that is read again by its kept key.
    pub fn row_by_key(&mut self) {
        self.read_rnd += 1;
        self.read_key += 1;
    }
}
