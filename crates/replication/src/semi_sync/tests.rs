use super::*;
use crate::record::Why;
use crate::rig::Rig;
use redolith_engine::runtime::BoxFuture;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Wake};

/// A runtime whose timers all end when the test says so.
#[derive(Default)]
struct Timers(Arc<AtomicBool>);
impl Runtime for Timers {
    fn spawn(&self, _: &'static str, _: BoxFuture<()>) {
        unreachable!("nothing is spawned here");
    }
    fn sleep(&self, _: Duration) -> BoxFuture<()> {
        let over = self.0.clone();
        Box::pin(poll_fn(move |_| if over.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }))
    }
    fn yield_now(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);
impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// The number of another connection that dumps.
fn next_connection() -> u64 {
    static NEXT: AtomicUsize = AtomicUsize::new(100);
    NEXT.fetch_add(1, SeqCst) as u64
}

/// A binary log with commits that wait.
struct World {
    rig: Rig,
    timers: Timers,
}
/// A commit that waits.
struct Commit<'a> {
    wait: Pin<Box<dyn Future<Output = Waited> + 'a>>,
    wakes: Arc<Wakes>,
    kill: Arc<KillFlag>,
}
impl World {
    fn new() -> World {
        let rig = Rig::new(64 << 20);
        rig.binlog.enable_semi_sync(true);
        World { rig, timers: Timers::default() }
    }
    fn semi_sync(&self) -> &Arc<SemiSync> {
        self.rig.binlog.semi_sync()
    }
    fn end(&self) -> BinlogPosition {
        self.rig.binlog.end().unwrap()
    }
    fn on(&self) -> bool {
        self.semi_sync().status().on
    }
    fn join(&self, from: Option<BinlogPosition>) -> AckingReplica {
        self.join_as(next_connection(), &[], from)
    }
    fn join_as(&self, number: u64, before: &[u64], from: Option<BinlogPosition>) -> AckingReplica {
        self.semi_sync().join(number, before, from, self.rig.binlog.place_now().0)
    }
    /// Logs a transaction. Returns the end of its commit.
    fn log(&mut self) -> Lsn {
        self.rig.transaction("x");
        Lsn(self.rig.lsn)
    }
    fn wait(&self, lsn: Lsn) -> Commit<'_> {
        let kill = KillFlag::new();
        let (flag, disk) = (kill.clone(), self.rig.disk.clone());
        let wait = async move { self.semi_sync().wait(lsn, &self.timers, &*disk, &flag).await };
        Commit { wait: Box::pin(wait), wakes: Arc::default(), kill }
    }
}
impl Commit<'_> {
    fn poll(&mut self) -> Option<Waited> {
        let waker = self.wakes.clone().into();
        match self.wait.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(waited) => Some(waited),
            Poll::Pending => None,
        }
    }
    fn wakes(&self) -> usize {
        self.wakes.0.load(SeqCst)
    }
}

/// Tests SEMI-1.
#[test]
fn a_commit_waits_for_an_acknowledgement_at_or_behind_its_events() {
    let mut world = World::new();
    let before = world.end();
    let replica = world.join(Some(before));
    let first = world.log();
    let between = world.end();
    let second = world.log();
    let (mut a, mut b) = (world.wait(first), world.wait(second));
    assert_eq!((a.poll(), b.poll()), (None, None));
    assert_eq!(world.semi_sync().status().waiting, 2);
    replica.acknowledged(before);
    let inside = BinlogPosition { offset: between.offset - 1, ..between };
    replica.acknowledged(inside);
    assert_eq!((a.wakes(), a.poll(), b.poll()), (0, None, None));
    replica.acknowledged(between);
    assert_eq!((a.wakes(), b.wakes()), (1, 0));
    assert_eq!((a.poll(), b.poll()), (Some(Waited::Acknowledged), None));
    // What was acknowledged stays so.
    replica.acknowledged(before);
    replica.acknowledged(world.end());
    assert_eq!(b.poll(), Some(Waited::Acknowledged));
    assert_eq!(world.wait(second).poll(), Some(Waited::Acknowledged));
    let status = world.semi_sync().status();
    assert_eq!((status.acknowledged, status.unacknowledged, status.waits), (3, 0, 2));
    assert_eq!((status.waiting, status.replicas, status.on), (0, 1, true));
}

#[test]
fn a_commit_that_is_not_in_the_files_yet_waits_for_them_first() {
    let mut world = World::new();
    let replica = world.join(None);
    replica.acknowledged(world.end());
    let record = crate::record::Record::Barrier.encode();
    world.rig.append(record);
    let lsn = Lsn(world.rig.lsn);
    let mut wait = world.wait(lsn);
    assert_eq!(wait.poll(), None);
    world.rig.publish();
    replica.acknowledged(world.end());
    // The end of the log did not move, and everything before it is acknowledged.
    assert_eq!(wait.poll(), Some(Waited::Acknowledged));
}

/// Tests SEMI-1.
#[test]
fn as_many_replicas_acknowledge_as_are_wanted() {
    let mut world = World::new();
    world.semi_sync().set(|s| s.replicas = 2);
    let replicas = [(); 3].map(|()| world.join(Some(world.end())));
    let (first, middle) = (world.log(), world.end());
    let (second, end) = (world.log(), world.end());
    let (mut a, mut b) = (world.wait(first), world.wait(second));
    assert_eq!((a.poll(), b.poll()), (None, None));
    replicas[0].acknowledged(end);
    replicas[0].acknowledged(end);
    assert_eq!((a.poll(), b.poll()), (None, None), "one replica counts once");
    replicas[2].acknowledged(middle);
    assert_eq!((a.poll(), b.poll()), (Some(Waited::Acknowledged), None));
    // With fewer replicas wanted, what was acknowledged before is enough.
    world.semi_sync().set(|s| s.replicas = 1);
    assert_eq!((b.wakes(), b.poll()), (1, Some(Waited::Acknowledged)));
}

/// Tests SEMI-2.
#[test]
fn after_the_timeout_nobody_waits_until_a_replica_has_caught_up() {
    let mut world = World::new();
    let start = world.end();
    let replica = world.join(Some(start));
    let (first, second) = (world.log(), world.log());
    let (mut a, mut b) = (world.wait(first), world.wait(second));
    assert_eq!((a.poll(), b.poll()), (None, None));
    world.timers.0.store(true, SeqCst);
    assert_eq!(a.poll(), Some(Waited::Asynchronous));
    assert_eq!((b.wakes(), b.poll()), (1, Some(Waited::Asynchronous)));
    assert!(!world.on());
    drop((a, b));
    world.timers.0.store(false, SeqCst);
    assert_eq!(world.wait(second).poll(), Some(Waited::Asynchronous));
    let status = world.semi_sync().status();
    assert_eq!((status.times_off, status.unacknowledged, status.waits), (1, 3, 2));
    // More than a mebibyte is to be fetched.
    for _ in 0..5 {
        world.rig.transaction(&"y".repeat(300 << 10));
    }
    replica.acknowledged(BinlogPosition { offset: start.offset + 1, ..start });
    assert!(!world.on());
    let end = world.end();
    replica.acknowledged(BinlogPosition { offset: end.offset - 1000, ..end });
    assert!(world.on());
    let lsn = world.log();
    let mut wait = world.wait(lsn);
    assert_eq!(wait.poll(), None);
    replica.acknowledged(world.end());
    assert_eq!(wait.poll(), Some(Waited::Acknowledged));
    drop(wait);
    // A replica that begins at the end has caught up, too.
    drop(replica);
    let lsn = world.log();
    let mut wait = world.wait(lsn);
    assert_eq!(wait.poll(), None);
    world.timers.0.store(true, SeqCst);
    assert_eq!(wait.poll(), Some(Waited::Asynchronous));
    drop(wait);
    let _new = world.join(Some(world.end()));
    assert!(world.on());
}

/// Tests SEMI-2.
#[test]
fn an_old_acknowledgement_does_not_count_for_a_replica_that_is_stuck() {
    let mut world = World::new();
    world.semi_sync().set(|s| s.replicas = 2);
    let [stuck, good] = [(); 2].map(|()| world.join(Some(world.end())));
    let lsn = world.log();
    let mut wait = world.wait(lsn);
    assert_eq!(wait.poll(), None);
    world.timers.0.store(true, SeqCst);
    assert_eq!(wait.poll(), Some(Waited::Asynchronous));
    drop(wait);
    good.acknowledged(world.end());
    assert!(!world.on());
    stuck.acknowledged(world.end());
    assert!(world.on());
}

#[test]
fn a_kill_and_a_change_of_the_setting_end_a_wait() {
    let mut world = World::new();
    let lsn = world.log();
    let (mut a, mut b) = (world.wait(lsn), world.wait(lsn));
    assert_eq!((a.poll(), b.poll()), (None, None));
    a.kill.kill();
    assert_eq!((a.wakes(), a.poll()), (1, Some(Waited::Killed)));
    assert_eq!((b.wakes(), b.poll()), (0, None));
    world.rig.binlog.enable_semi_sync(false);
    assert_eq!((b.wakes(), b.poll()), (1, Some(Waited::Asynchronous)));
    drop((a, b));
    assert!(!world.semi_sync().is_enabled());
    // What was published meanwhile is marked when the setting is on again.
    let lsn = world.log();
    world.rig.binlog.enable_semi_sync(true);
    let replica = world.join(None);
    let mut wait = world.wait(lsn);
    assert_eq!(wait.poll(), None);
    replica.acknowledged(world.end());
    assert_eq!(wait.poll(), Some(Waited::Acknowledged));
    drop(wait);
    let dropped = world.log();
    let mut wait = world.wait(dropped);
    assert_eq!(wait.poll(), None);
    drop(wait);
    assert_eq!(world.semi_sync().status().waiting, 0);
}

#[test]
fn without_enough_replicas_commits_do_not_wait_if_so_set() {
    let mut world = World::new();
    let first = world.join(Some(world.end()));
    world.semi_sync().set(|s| s.waits_without = false);
    let lsn = world.log();
    let mut wait = world.wait(lsn);
    assert_eq!(wait.poll(), None);
    drop(first);
    assert_eq!((wait.wakes(), wait.poll()), (1, Some(Waited::Asynchronous)));
    drop(wait);
    let _second = world.join(Some(world.end()));
    assert!(world.on());
    world.semi_sync().set(|s| s.replicas = 2);
    assert!(!world.on());
    world.rig.binlog.enable_semi_sync(false);
    world.rig.binlog.enable_semi_sync(true);
    assert!(!world.on());
}

/// Tests SEMI-3.
#[test]
fn marks_are_bounded_and_follow_rotations() {
    let mut world = World::new();
    let replica = world.join(None);
    let lsns: Vec<Lsn> = (0..2 * MOST_MARKS + 10).map(|_| world.log()).collect();
    world.rig.rotate(Why::Flush, 64 << 20);
    let last = world.log();
    assert!(world.semi_sync().state.lock().marks.len() <= MOST_MARKS);
    let mut waits: Vec<_> = [lsns[0], lsns[4000], last].map(|lsn| world.wait(lsn)).into();
    assert!(waits.iter_mut().all(|wait| wait.poll().is_none()));
    let end = world.end();
    assert_eq!(end.file, 2);
    replica.acknowledged(BinlogPosition { file: 1, offset: u64::MAX });
    let polled: Vec<_> = waits.iter_mut().map(Commit::poll).collect();
    assert_eq!(polled, [Some(Waited::Acknowledged), Some(Waited::Acknowledged), None]);
    replica.acknowledged(end);
    assert_eq!(waits[2].poll(), Some(Waited::Acknowledged));
    assert_eq!(world.semi_sync().state.lock().marks.len(), 0);
}

/// A replica that has connected again counts once, also while its old connection is not gone yet.
/// Tests SEMI-1.
#[test]
fn a_replica_counts_once() {
    let mut world = World::new();
    world.semi_sync().set(|s| s.replicas = 2);
    let (old, other) = (world.join_as(1, &[], Some(world.end())), world.join(Some(world.end())));
    let lsn = world.log();
    let mut wait = world.wait(lsn);
    old.acknowledged(world.end());
    assert_eq!(wait.poll(), None);
    let new = world.join_as(2, &[1], Some(world.end()));
    old.acknowledged(world.end());
    new.acknowledged(world.end());
    drop(old);
    assert_eq!((wait.poll(), world.semi_sync().status().replicas), (None, 2));
    other.acknowledged(world.end());
    assert_eq!(wait.poll(), Some(Waited::Acknowledged));
}

/// Tests SEMI-5: a leader's wait counts once, with its time, and what it has waited for is counted
/// by the sessions of the group.
#[test]
fn the_wait_of_a_group_counts_with_its_time() {
    let mut world = World::new();
    let replica = world.join(Some(world.end()));
    let (first, last) = (world.log(), world.log());
    let (disk, timers, kill) = (world.rig.disk.clone(), Timers::default(), KillFlag::new());
    let semi_sync = world.semi_sync().clone();
    let mut hidden = pin!(semi_sync.wait_hidden(last, &timers, &*disk, &kill));
    let mut poll = || hidden.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    disk.advance(Duration::from_millis(700));
    replica.acknowledged(world.end());
    assert!(poll().is_ready());
    let waited = || {
        let s = semi_sync.status();
        (s.waits, s.wait_us / 1000, s.average_wait_us() / 1000, s.acknowledged)
    };
    assert_eq!(waited(), (1, 700, 700, 0));
    for lsn in [first, last] {
        assert_eq!(world.wait(lsn).poll(), Some(Waited::Acknowledged));
    }
    assert_eq!(waited(), (1, 700, 700, 2));
    // A session's own wait counts with its time, too.
    let third = world.log();
    let mut wait = world.wait(third);
    assert_eq!(wait.poll(), None);
    disk.advance(Duration::from_millis(100));
    replica.acknowledged(world.end());
    assert_eq!((wait.poll(), waited()), (Some(Waited::Acknowledged), (2, 800, 400, 3)));
}

/// Tests SEMI-4.
#[test]
fn acknowledgements_of_the_log_before_a_reset_count_for_nothing() {
    let mut world = World::new();
    let old = world.join(Some(world.end()));
    let before = world.log();
    let far = BinlogPosition { file: 9, ..world.end() };
    let semi_sync = world.semi_sync().clone();
    let timers = Timers::default();
    let (disk, kill) = (world.rig.disk.clone(), KillFlag::new());
    let mut lost = pin!(semi_sync.wait(before, &timers, &*disk, &kill));
    let wakes = Arc::<Wakes>::default();
    let waker = wakes.clone().into();
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    world.rig.append(crate::record::Record::Reset { us: 1, first: 1 }.encode());
    world.rig.publish();
    // The events are in no file: nobody can acknowledge them.
    let ended = lost.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!((wakes.0.load(SeqCst), ended), (1, Poll::Ready(Waited::Asynchronous)));
    assert_eq!(world.semi_sync().status().replicas, 0);
    let after = world.log();
    let mut wait = world.wait(after);
    let late = world.semi_sync().join(next_connection(), &[], Some(far), 0);
    for replica in [&old, &late] {
        replica.acknowledged(far);
    }
    assert_eq!(wait.poll(), None);
    let new = world.join(None);
    new.acknowledged(world.end());
    assert_eq!(wait.poll(), Some(Waited::Acknowledged));
}
