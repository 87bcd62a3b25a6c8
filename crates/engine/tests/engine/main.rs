//! Tests of the engine from outside: its public interface, and parts that `testing` shows.
mod batch;
mod check_files;
mod common;
mod covered;
mod dump;
mod hidden_commits;
mod index_build;
mod library;
mod pool_list;
mod purge;
mod purge_pace;
mod row_estimate;
mod rows;
mod small_pool;
mod space;
mod torn;
mod views;
