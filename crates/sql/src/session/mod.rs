//! The way in: one [`Session`](state::SessionState) per connection.
//!
//! How a statement runs: text or statement id ► plan (cache, else parse and bind) ► `exec::run(cx, &plan, params, sink) -> Outcome` ► the session
//! ends an autocommit transaction (waiting until it is durable) ► `sink.ok` or `sink.finish_rows`. `exec::run` itself sends columns and rows only.
pub mod state;
