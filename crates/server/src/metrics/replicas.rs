//! The connections that read the binary log: how far each replica has come.
use redolith_binlog::BinlogPosition;
use redolith_replication::{Binlog, Replica};
use std::fmt::{Result, Write};

pub(super) fn page(binlog: &Binlog) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_page(binlog, &mut out);
    out
}

fn write_page(binlog: &Binlog, out: &mut String) -> Result {
    let replicas = binlog.replicas().dumping();
    let mut figure = |name: &str, help: &str, of: &dyn Fn(&Replica) -> Option<u64>| {
        writeln!(
            out,
            "# HELP redolith_replica_{name} {help}\n# TYPE redolith_replica_{name} gauge"
        )?;
        for (connection, replica) in &replicas {
            if let Some(value) = of(replica) {
                let labels = labels(*connection, replica);
                writeln!(out, "redolith_replica_{name}{{{labels}}} {value}")?;
            }
        }
        Ok(())
    };
    let behind = |at: Option<BinlogPosition>| at.map(|at| binlog.bytes_behind(at));
    figure("file", "Number of the file that is sent", &|r| Some(r.sent?.file.into()))?;
    figure("position", "Bytes of this file that were sent", &|r| Some(r.sent?.offset))?;
    figure("lag_bytes", "Bytes of the binary log that were not sent", &|r| behind(r.sent))?;
    figure("semi_sync", "1: the replica acknowledges what it gets", &|r| {
        Some(r.is_semi_sync.into())
    })?;
    figure(
        "unacknowledged_bytes",
        "Bytes of the binary log that the replica has not acknowledged",
        &|r| behind(r.acknowledged),
    )
}

/// The replica says its host itself.
fn labels(connection: u32, replica: &Replica) -> String {
    let host = replica.host.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let uuid = replica.uuid.map(|uuid| uuid.to_string()).unwrap_or_default();
    let id = replica.server_id;
    format!("connection=\"{connection}\",server_id=\"{id}\",host=\"{host}\",uuid=\"{uuid}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_disk::SimDisk;
    use redolith_replication::Place;
    use std::sync::Arc;

    #[test]
    fn a_replica_has_a_line_for_each_figure() {
        let place = Place { dir: "/data".into(), base: "binlog".into() };
        let binlog = Binlog::new(Arc::new(SimDisk::new(3)), place).unwrap();
        let host = "a\"b\nc".to_string();
        let replica = Replica { server_id: 5, host, is_registered: true, ..Replica::default() };
        binlog.replicas().register(7, replica);
        assert!(!page(&binlog).contains("connection"), "it does not read");
        binlog.replicas().begin_dump(7, 5, None);
        binlog.replicas().note(7, |replica| {
            replica.sent = Some(BinlogPosition { file: 2, offset: 345 });
            replica.is_semi_sync = true;
        });
        let page = page(&binlog);
        let labels = r#"{connection="7",server_id="5",host="a\"b\nc",uuid=""}"#;
        for (name, value) in [("file", 2), ("position", 345), ("lag_bytes", 0), ("semi_sync", 1)] {
            let line = format!("redolith_replica_{name}{labels} {value}\n");
            assert!(page.contains(&line), "{line}{page}");
        }
        assert!(!page.contains("unacknowledged_bytes{"));
    }
}
