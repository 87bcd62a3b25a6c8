//! Finding the write policy that serves the load of the moment, by measurement.
//!
//! A background task ([`sampler`]) reads what the commit path has measured and how busy the CPUs
//! are. From that the [`tuner`] finds writer mode and depth, in A/B tests under load ([`ab_test`]),
//! and [`flush_pacing`] finds the hold; the result is proposed to the commit path
//! ([`crate::log::write_policy`]), which works without this folder too.
mod ab_test;
mod flush_pacing;
mod sampler;
mod tuner;

pub(in crate::log) use sampler::spawn;
