//! Tests of types, values, keys and rows.
mod common;
mod decimals;
mod keys;
mod rows;
mod store;
mod temporal;
