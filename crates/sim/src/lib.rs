//! Whole-engine crash simulation: the real engine under a seeded scheduler on a simulated disk, its
//! power cut at a random operation, recovered, and compared with a model of what was acknowledged.
//!
//! Everything that happens in a run follows from its seed:
//! `SEED=n cargo test -p redolith-sim --test seeds one_seed` repeats it.
#![forbid(unsafe_code)]
pub mod at_rest;
pub mod binlog;
pub mod ddl;
pub mod every_io;
pub mod executor;
pub mod fault_plan;
pub mod ledger;
pub mod load;
pub mod prepared;
pub mod resize;
pub mod run;
pub mod scan;
pub mod shared;
pub mod stages;
