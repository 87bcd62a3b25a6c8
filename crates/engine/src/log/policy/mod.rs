//! The search, by measurement, for the write policy that serves the present load.
//!
//! A background task ([`sampler`]) reads the measurements of the commit path and the load of the
//! CPUs. From these the [`tuner`] finds writer mode and depth, in A/B tests under load
//! ([`ab_test`]), and [`flush_pacing`] finds the hold. The result is proposed to the commit path
//! ([`crate::log::write_policy`]), which works without this folder too.
mod ab_test;
mod flush_pacing;
mod sampler;
mod tuner;

pub(in crate::log) use sampler::spawn;
