//! The replicas that are connected: SHOW REPLICAS, and a second dump of the same replica.
use parking_lot::Mutex;
use redolith_binlog::{BinlogPosition, Uuid};
use std::collections::BTreeMap;

/// What a replica has said about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// Its `server_id`. 0: a program that is no server.
    pub server_id: u32,
    /// Its `server_uuid`, if it has told it.
    pub uuid: Option<Uuid>,
    /// Its `report_host`.
    pub host: String,
    /// Its `report_port`.
    pub port: u16,
    /// Whether it has registered (COM_REGISTER_SLAVE): SHOW REPLICAS lists only those.
    pub is_registered: bool,
    /// Whether it reads the binary log now.
    pub is_dumping: bool,
    /// Everything before this position was sent to it.
    pub sent: Option<BinlogPosition>,
    /// Whether it acknowledges what it gets.
    pub is_semi_sync: bool,
    /// It has acknowledged everything before this position.
    pub acknowledged: Option<BinlogPosition>,
}

impl Replica {
    /// Whether this is the same server. A replica that lost its connection comes back before the
    /// old connection has ended.
    fn is(&self, other: &Replica) -> bool {
        match (self.uuid, other.uuid) {
            (Some(mine), Some(theirs)) => mine == theirs,
            (None, None) => self.server_id != 0 && self.server_id == other.server_id,
            _ => false,
        }
    }
}

/// The replicas by the id of their connection.
#[derive(Debug, Default)]
pub struct Replicas(Mutex<BTreeMap<u32, Replica>>);

impl Replicas {
    /// A connection has registered as a replica.
    pub fn register(&self, connection: u32, replica: Replica) {
        self.0.lock().insert(connection, replica);
    }
    /// A connection begins to read the binary log. Returns the connections that read it for the
    /// same replica, which are to be ended.
    pub fn begin_dump(&self, connection: u32, server_id: u32, uuid: Option<Uuid>) -> Vec<u32> {
        let mut all = self.0.lock();
        let replica = all.entry(connection).or_default();
        (replica.server_id, replica.uuid, replica.is_dumping) = (server_id, uuid, true);
        let replica = replica.clone();
        let others = all.iter().filter(|(id, r)| **id != connection && r.is_dumping);
        others.filter(|(_, r)| r.is(&replica)).map(|(id, _)| *id).collect()
    }
    /// Notes how far a connection's replica has come.
    pub fn note(&self, connection: u32, change: impl FnOnce(&mut Replica)) {
        if let Some(replica) = self.0.lock().get_mut(&connection) {
            change(replica);
        }
    }
    /// The connections that read the binary log.
    pub fn dumping(&self) -> Vec<(u32, Replica)> {
        let all = self.0.lock();
        let dumping = all.iter().filter(|(_, replica)| replica.is_dumping);
        dumping.map(|(id, replica)| (*id, replica.clone())).collect()
    }
    /// A connection has ended.
    pub fn remove(&self, connection: u32) {
        self.0.lock().remove(&connection);
    }
    /// The replicas that have registered.
    pub fn registered(&self) -> Vec<Replica> {
        self.0.lock().values().filter(|r| r.is_registered).cloned().collect()
    }
    /// How many connections read the binary log.
    pub fn dumps(&self) -> usize {
        self.0.lock().values().filter(|r| r.is_dumping).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_dump_of_a_replica_names_the_first() {
        let all = Replicas::default();
        let (a, b) = (Some(Uuid([1; 16])), Some(Uuid([2; 16])));
        all.register(1, Replica { is_registered: true, server_id: 5, ..Replica::default() });
        assert_eq!(all.begin_dump(1, 5, a), []);
        assert_eq!(all.begin_dump(2, 5, b), []);
        assert_eq!(all.begin_dump(3, 9, a), [1]);
        assert_eq!((all.begin_dump(4, 0, None), all.begin_dump(5, 0, None)), (vec![], vec![]));
        assert_eq!((all.begin_dump(6, 7, None), all.begin_dump(7, 7, None)), (vec![], vec![6]));
        assert_eq!((all.dumps(), all.registered().len()), (7, 1));
        all.remove(1);
        assert_eq!((all.dumps(), all.registered().len()), (6, 0));
    }
}
