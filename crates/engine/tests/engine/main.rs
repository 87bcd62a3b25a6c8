//! Tests of the engine through its public interface.
mod common;
mod dump;
mod hidden_commits;
mod library;
mod purge;
mod purge_pace;
mod rows;
mod small_pool;
mod space;
