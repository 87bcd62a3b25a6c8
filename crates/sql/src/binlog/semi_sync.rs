//! Commits that wait for replicas: the settings, the figures and the wait of a session.
use crate::error::{Result, SqlError};
use crate::processes::{Process, State};
use crate::settings::{Settings, Var};
use crate::status::{Status, StatusValue};
use redolith_engine::{Engine, Lsn};
use redolith_replication::Binlog;
use redolith_replication::semi_sync::Waited;
use std::sync::Arc;
use std::time::Duration;

/// Applies the settings, now and whenever they change.
pub(crate) fn apply(settings: &Settings, binlog: &Arc<Binlog>) {
    let log = binlog.clone();
    settings.on_change(Var::RplSemiSyncSourceTimeout, move |ms| {
        log.semi_sync().set(|s| s.timeout = Duration::from_millis(ms));
    });
    let log = binlog.clone();
    settings.on_change(Var::RplSemiSyncSourceWaitForReplicaCount, move |n| {
        log.semi_sync().set(|s| s.replicas = n as usize);
    });
    let log = binlog.clone();
    settings.on_change(Var::RplSemiSyncSourceWaitNoReplica, move |on| {
        log.semi_sync().set(|s| s.waits_without = on != 0);
    });
    let log = binlog.clone();
    settings.on_change(Var::RplSemiSyncSourceWaitPoint, move |point| {
        log.semi_sync().set(|s| s.after_sync = point == 0);
    });
    let log = binlog.clone();
    settings.on_change(Var::RplSemiSyncSourceEnabled, move |on| log.enable_semi_sync(on != 0));
}

/// Registers the figures, under MySQL's names from 8.0.26 on and before.
pub(crate) fn register(binlog: &Arc<Binlog>, status: &Status) {
    let binlog = binlog.clone();
    status.register(Box::new(move |put| {
        let s = binlog.semi_sync().status();
        let on = StatusValue::Text(if s.on { "ON" } else { "OFF" }.into());
        let figures = [
            ("clients", StatusValue::Int(s.replicas)),
            // As in MySQL since acknowledgements are received beside the dumps.
            ("net_avg_wait_time", StatusValue::Int(0)),
            ("net_wait_time", StatusValue::Int(0)),
            ("net_waits", StatusValue::Int(s.asked)),
            ("no_times", StatusValue::Int(s.times_off)),
            ("no_tx", StatusValue::Int(s.unacknowledged)),
            ("status", on),
            ("timefunc_failures", StatusValue::Int(0)),
            ("tx_avg_wait_time", StatusValue::Int(s.average_wait_us())),
            ("tx_wait_time", StatusValue::Int(s.wait_us)),
            ("tx_waits", StatusValue::Int(s.waits)),
            ("wait_pos_backtraverse", StatusValue::Int(s.backwards)),
            ("wait_sessions", StatusValue::Int(s.waiting)),
            ("yes_tx", StatusValue::Int(s.acknowledged)),
        ];
        for (name, value) in figures {
            put(&format!("Rpl_semi_sync_source_{name}"), value.clone());
            put(&format!("Rpl_semi_sync_master_{name}"), value);
        }
    }));
}

/// Waits until replicas have acknowledged what ends at `end` in the redo log, or commits need not
/// wait any more (SEMI-1).
///
/// # Errors
/// The session was killed: what it has committed stays, and may be on no replica.
pub(crate) async fn wait(
    binlog: &Binlog,
    engine: &Engine,
    process: &Process,
    end: Lsn,
) -> Result<()> {
    // With `innodb_flush_log_at_trx_commit` = 0 or 2 the commit has not waited for this.
    engine.store.log.flush_to(end).await;
    process.set_state(State::WaitingForAck);
    let semi_sync = binlog.semi_sync();
    let (runtime, disk) = (&*engine.runtime, &*engine.disk);
    let waited = semi_sync.wait(end, runtime, disk, &process.interrupt).await;
    process.set_state(State::Executing);
    match waited {
        Waited::Acknowledged | Waited::Asynchronous => Ok(()),
        Waited::Killed => Err(SqlError::new(
            1317,
            "Query execution was interrupted: the transaction is committed here, but replicas \
             have not acknowledged it",
        )),
    }
}
