//! Tests of the simulation, and of single starts in it.
mod add_index;
mod ledger;
mod lives;
mod small_life;
mod statistics;
