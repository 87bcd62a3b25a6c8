//! Tests of the crate as a program uses it.
mod beside_redb;
mod common;
mod examples;
mod tables;
mod transactions;
