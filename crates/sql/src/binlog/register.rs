//! Variables and counters of the binary log.
use super::{semi_sync, stages};
use crate::SqlError;
use crate::settings::{Settings, Var};
use crate::status::{Status, StatusValue};
use redolith_binlog::MariadbGtid;
use redolith_engine::Engine;
use redolith_replication::{Binlog, Replica};
use std::sync::Arc;

/// Lets variables and counters show the binary log.
pub fn register(
    binlog: &Arc<Binlog>,
    engine: &Arc<Engine>,
    settings: &Arc<Settings>,
    status: &Status,
) {
    let (log, to) = (binlog.clone(), engine.clone());
    settings.find_out(Var::GtidExecuted, move || {
        // A session sees its own commits, which the files may not have yet. If the disk refuses
        // them, the value is that of the files.
        to.runtime.work_long(&mut || {
            let _ = log.materialize(to.store.log.durable());
        });
        Ok(log.status_shown(&to).executed.to_string())
    });
    let (log, to, set) = (binlog.clone(), engine.clone(), Arc::downgrade(settings));
    settings.find_out(Var::GtidBinlogPos, move || {
        to.runtime.work_long(&mut || {
            let _ = log.materialize(to.store.log.durable());
        });
        let options = log.options();
        let number = log.status_shown(&to).executed.last_number(options.uuid);
        let domain = set.upgrade().map_or(0, |s| s.bits(Var::GtidDomainId)) as u32;
        let last = MariadbGtid { domain, server_id: options.server_id, number };
        Ok(if number == 0 { String::new() } else { last.to_string() })
    });
    let (log, to) = (binlog.clone(), engine.clone());
    settings.find_out(Var::GtidPurged, move || {
        let mut purged = Ok(String::new());
        to.runtime.work_long(&mut || {
            // No value is better than one with which a replica would be set up wrongly.
            let unknown = |e| SqlError::unknown_error(format!("gtid_purged is not known: {e}"));
            purged = log.purged().map(|set| set.to_string()).map_err(unknown);
        });
        purged
    });
    let (log, to) = (binlog.clone(), engine.clone());
    status.register(Box::new(move |put| {
        let lag = to.store.log.durable().0.saturating_sub(log.lsn().0);
        let counted = log.counters();
        for (name, value) in [
            ("Redolith_binlog_barriers", counted.barriers),
            ("Redolith_binlog_bytes", counted.bytes),
            ("Redolith_binlog_dumps", log.replicas().dumps() as u64),
            ("Redolith_binlog_lag_bytes", lag),
            ("Redolith_binlog_lag_us", if lag > 0 { log.lag_us() } else { 0 }),
            ("Redolith_binlog_rotations", counted.rotations),
            ("Redolith_binlog_spilled_bytes", counted.spilled_bytes),
            ("Redolith_binlog_spilled_transactions", counted.spilled_transactions),
            ("Redolith_binlog_syncs", counted.syncs),
            ("Redolith_binlog_transactions", counted.transactions),
            ("Redolith_binlog_waiting_bytes", log.waiting_bytes()),
            ("Redolith_binlog_writes", counted.writes),
        ] {
            put(name, StatusValue::Int(value));
        }
        let behind = |(_, replica): (u32, Replica)| replica.sent.map(|at| log.bytes_behind(at));
        let most = log.replicas().dumping().into_iter().filter_map(behind).max();
        put("Redolith_replica_lag_bytes", StatusValue::Int(most.unwrap_or(0)));
    }));
    stages::apply(settings, binlog);
    stages::register(binlog, status);
    semi_sync::apply(settings, binlog);
    semi_sync::register(binlog, status);
    // Files expire by themselves only if both variables say so.
    let (log, to) = (binlog.clone(), Arc::downgrade(settings));
    let expiry = move || {
        let Some(to) = to.upgrade() else { return };
        let seconds = to.bits(Var::BinlogExpireLogsSeconds);
        log.set_expiry(if to.is_on(Var::BinlogExpireLogsAutoPurge) { seconds } else { 0 });
    };
    let again = expiry.clone();
    settings.on_change(Var::BinlogExpireLogsSeconds, move |_| expiry());
    settings.on_change(Var::BinlogExpireLogsAutoPurge, move |_| again());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::fixture::Server;
    use redolith_disk::OpenHow;
    use redolith_types::Value;

    /// A value that a replica could be set up with is the right one, or there is none.
    #[test]
    fn gtid_purged_is_an_error_while_the_oldest_file_cannot_be_read() {
        let server = Server::logging();
        let binlog = server.binlog.clone().expect("the log is on");
        let settings = Arc::new(Settings::default());
        register(&binlog, &server.engine, &settings, &server.status);
        let file = server.engine.disk.open(&binlog.place().path(1), OpenHow::existing(false));
        let file = file.expect("the oldest file");
        let mut byte = [0];
        file.read_at(&mut byte, 60).expect("a byte of the first event");
        file.write_at(&[byte[0] ^ 1], 60).expect("damage");
        let e = settings.refresh(Var::GtidPurged).expect_err("the file is damaged");
        assert!(e.code == 1105 && e.message.contains("binlog.000001"), "{}", e.message);
        // SHOW VARIABLES works all the same.
        settings.refresh_all();
        let value = || settings.global_value(Var::GtidPurged).expect("a global variable");
        assert_eq!(value(), Value::owned(Vec::new()));
        settings.refresh(Var::GtidExecuted).expect("its value is in memory");
        file.write_at(&byte, 60).expect("the damage is mended");
        settings.refresh(Var::GtidPurged).expect("the file can be read");
        assert_eq!(value(), Value::owned(Vec::new()));
    }
}
