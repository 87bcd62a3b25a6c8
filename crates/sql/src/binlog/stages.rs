//! The stages of the classic commit: their settings and figures.
use crate::settings::{Settings, Var};
use crate::status::{Status, StatusValue};
use redolith_replication::{Binlog, StageSettings};
use std::sync::Arc;
use std::time::Duration;

/// Applies the settings, now and whenever they change.
pub(super) fn apply(settings: &Settings, binlog: &Arc<Binlog>) {
    let on_change = |var, set: fn(&mut StageSettings, u64)| {
        let log = binlog.clone();
        settings.on_change(var, move |value| log.set_stages(|s| set(s, value)));
    };
    on_change(Var::RedolithBinlogCommit, |s, n| s.classic = n == 1);
    on_change(Var::SyncBinlog, |s, n| s.sync_every = n);
    on_change(Var::BinlogOrderCommits, |s, n| s.order = n != 0);
    on_change(Var::BinlogMaxFlushQueueTime, |s, us| s.flush_time = Duration::from_micros(us));
    on_change(Var::BinlogGroupCommitSyncDelay, |s, us| s.sync_delay = Duration::from_micros(us));
    on_change(Var::BinlogGroupCommitSyncNoDelayCount, |s, n| s.no_delay_count = n);
}

/// Registers the figures of each stage.
pub(super) fn register(binlog: &Arc<Binlog>, status: &Status) {
    let binlog = binlog.clone();
    status.register(Box::new(move |put| {
        for (stage, counted) in ["flush", "sync", "commit"].into_iter().zip(binlog.stages_counted())
        {
            for (what, value) in [
                ("groups", counted.groups),
                ("largest_group", counted.largest),
                ("sessions", counted.sessions),
                ("wait_us", counted.wait_us),
                ("waits", counted.waits),
            ] {
                put(&format!("Redolith_binlog_{stage}_{what}"), StatusValue::Int(value));
            }
        }
    }));
}
