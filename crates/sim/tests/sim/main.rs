//! Tests of the simulation, and of single starts in it.
mod ledger;
mod lives;
