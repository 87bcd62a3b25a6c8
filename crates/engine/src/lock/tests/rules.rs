//! One test per rule.
use super::Mode::{S, X};
use super::*;
use crate::TrxId;
use std::ops::Bound::{Excluded, Included, Unbounded};

#[test]
fn shared_locks_go_together_and_exclusive_ones_do_not() {
    let b = Bench::new();
    let (t1, t2, t3) = (b.trx(), b.trx(), b.trx());
    assert!(b.lock(&t1, 1, S));
    assert!(b.lock(&t2, 1, S));
    assert!(!b.lock(&t2, 1, S), "held already");
    assert_eq!(b.locks.try_lock_row(&t3, row(1), X), None);
    let mut w3 = b.queue(&t3, 1, X);
    b.end(&t1);
    assert!(w3.is_pending());
    b.end(&t2);
    assert!(w3.is_granted());
    assert!(b.locks.holds(&t3, row(1), X));
    assert!(!b.lock(&t3, 1, S), "X covers S");
    b.end(&t3);
    assert_eq!(b.locks.locked_keys(), 0);
}

/// Tests LOCK-2.
#[test]
fn a_waiting_exclusive_request_blocks_later_shared_ones_but_not_holders() {
    let b = Bench::new();
    let (t1, t2, t3, t4) = (b.trx(), b.trx(), b.trx(), b.trx());
    b.lock(&t1, 1, S);
    let mut w2 = b.queue(&t2, 1, X);
    let mut w3 = b.queue(&t3, 1, S);
    let mut w4 = b.queue(&t4, 1, S);
    assert!(!b.lock(&t1, 1, S));
    assert!(!b.lock(&t1, 1, X), "the only holder upgrades at once, past the queue");
    b.end(&t1);
    assert!(w2.is_granted() && w3.is_pending() && w4.is_pending());
    b.end(&t2);
    assert!(w3.is_granted() && w4.is_granted());
    b.end(&t3);
    b.end(&t4);
    assert_eq!(b.locks.locked_keys(), 0);
}

/// READ COMMITTED gives back a lock that it did not have before. The request may have been granted
/// when the caller looks at it. Tests CURSOR-2.
#[test]
fn a_granted_request_still_says_whether_the_lock_is_new() {
    let b = Bench::new();
    let (t1, t2, t3) = (b.trx(), b.trx(), b.trx());
    b.lock(&t1, 1, X);
    let Err(WouldBlock::Lock(wait)) = b.locks.lock_row(&t2, row(1), S) else { panic!("granted") };
    b.end(&t1);
    assert!(b.locks.holds(&t2, row(1), S) && !wait.converts());
    drop(wait);
    b.lock(&t3, 1, S);
    let Err(WouldBlock::Lock(wait)) = b.locks.lock_row(&t2, row(1), X) else { panic!("granted") };
    assert!(wait.converts());
}

#[test]
fn an_upgrade_overtakes_the_queue() {
    let b = Bench::new();
    let (t1, t2, t3) = (b.trx(), b.trx(), b.trx());
    b.lock(&t1, 1, S);
    b.lock(&t2, 1, S);
    let mut w3 = b.queue(&t3, 1, X);
    let mut w1 = b.queue(&t1, 1, X);
    b.end(&t2);
    assert!(w1.is_granted() && w3.is_pending());
    assert_eq!(t1.locks_held(), 1);
    b.end(&t1);
    assert!(w3.is_granted());
}

#[test]
fn two_upgrades_are_a_deadlock_and_the_requester_loses_ties() {
    let b = Bench::new();
    let (t1, t2) = (b.trx(), b.trx());
    b.lock(&t1, 1, S);
    b.lock(&t2, 1, S);
    let mut w1 = b.queue(&t1, 1, X);
    let mut w2 = b.queue(&t2, 1, X);
    assert!(w2.is_victim() && w1.is_pending());
    b.end(&t2);
    assert!(w1.is_granted());
    assert_eq!(b.locks.stats().deadlocks, 1);
}

#[test]
fn the_lightest_of_a_cycle_is_the_victim() {
    let b = Bench::new();
    let trxs = [b.trx(), b.trx(), b.trx()];
    for (i, t) in trxs.iter().enumerate() {
        b.lock(t, i as u64, X);
        t.set_undo_records([5, 2, 9][i]);
    }
    let mut w0 = b.queue(&trxs[0], 1, X);
    let mut w1 = b.queue(&trxs[1], 2, S);
    assert!(w0.is_pending() && w1.is_pending());
    let mut w2 = b.queue(&trxs[2], 0, X);
    assert!(w1.is_victim() && w0.is_pending() && w2.is_pending());
    let report = b.locks.latest_deadlock().unwrap();
    assert_eq!(report.trxs.len(), 3);
    assert_eq!(report.trxs[report.victim].owner, trxs[1].owner());
    let text = report.to_string();
    assert!(text.contains(&format!("S lock on key {:016x} of index 1", row(2).hash)), "{text}");
    b.end(&trxs[1]);
    assert!(w0.is_granted());
    b.end(&trxs[0]);
    assert!(w2.is_granted());
}

#[test]
fn one_wait_can_close_two_cycles() {
    let b = Bench::new();
    let (t1, t2, t3) = (b.trx(), b.trx(), b.trx());
    t1.set_undo_records(100);
    b.lock(&t1, 1, X);
    b.lock(&t2, 2, S);
    b.lock(&t3, 2, S);
    let mut w2 = b.queue(&t2, 1, S);
    let mut w3 = b.queue(&t3, 1, S);
    let mut w1 = b.queue(&t1, 2, X);
    assert!(w2.is_victim() && w3.is_victim() && w1.is_pending());
    b.end(&t2);
    b.end(&t3);
    assert!(w1.is_granted());
    assert_eq!(b.locks.stats().deadlocks, 2);
}

#[test]
fn a_cycle_through_the_queue_behind_an_upgrade_is_found() {
    let b = Bench::new();
    let (t, h, v, u) = (b.trx(), b.trx(), b.trx(), b.trx());
    t.set_undo_records(9);
    h.set_undo_records(9);
    b.lock(&t, 1, S);
    b.lock(&h, 1, S);
    b.lock(&u, 2, X);
    let mut wv = b.queue(&v, 1, X);
    let mut wu = b.queue(&u, 1, S); // u queues behind v.
    // The graph is h -> u -> (row 1: t, h). The S lock of h keeps v, and so u, waiting.
    let mut wh = b.queue(&h, 2, X);
    assert!(wu.is_victim(), "u is the lightest");
    assert!(wh.is_pending() && wv.is_pending());
    b.end(&u);
    assert!(wh.is_granted());
    drop(wv);
    b.end(&h);
    assert!(!b.lock(&t, 1, X));
}

#[test]
fn behind_a_hot_row_each_waiter_is_woken_in_turn() {
    let b = Bench::new();
    let first = b.trx();
    b.lock(&first, 1, X);
    let mut others: Vec<_> = (0..100).map(|_| b.trx()).map(|t| (b.queue(&t, 1, X), t)).collect();
    b.end(&first);
    for i in 0..others.len() {
        assert!(others[i].0.is_granted());
        assert!(others[i + 1..].iter_mut().take(1).all(|(w, _)| w.is_pending()));
        b.end(&others[i].1);
    }
    assert_eq!(b.locks.stats().deadlocks, 0);
    drop(others);
    assert_eq!(b.locks.stats().current_waits, 0);
    assert_eq!(b.locks.stats().waits, 100);
}

#[test]
fn a_timeout_withdraws_and_lets_the_next_go() {
    let b = Bench::new();
    let (t1, t2, t3) = (b.trx(), b.trx(), b.trx());
    b.lock(&t1, 1, S);
    let mut w2 = b.queue(&t2, 1, X);
    b.clock.expire();
    assert!(matches!(w2.poll(), Some(Err(Error::LockWaitTimeout))));
    b.clock.restart();
    assert!(b.lock(&t3, 1, S), "nobody queues any more");
    assert_eq!(b.locks.stats().timeouts, 1);
}

#[test]
fn a_kill_ends_the_wait() {
    let b = Bench::new();
    let (t1, t2, t3) = (b.trx(), b.trx(), b.trx());
    b.lock(&t1, 1, S);
    let mut w2 = b.queue(&t2, 1, X);
    let mut w3 = b.queue(&t3, 1, S);
    assert!(w2.is_pending() && w3.is_pending());
    assert!(t2.kill().is_waiting() && !t1.kill().is_waiting());
    t2.kill().kill();
    assert!(matches!(w2.poll(), Some(Err(Error::Interrupted))));
    assert!(!t2.kill().is_waiting());
    assert!(w3.is_granted());
    t2.kill().clear();
    assert!(b.lock(&t2, 1, S));
}

#[test]
fn dropping_a_wait_withdraws_it() {
    let b = Bench::new();
    let (t1, t2, t3) = (b.trx(), b.trx(), b.trx());
    b.lock(&t1, 1, S);
    drop(b.locks.lock_row(&t2, row(1), X)); // The wait is never awaited.
    let w2 = b.queue(&t2, 1, X);
    let mut w3 = b.queue(&t3, 1, S);
    drop(w2);
    assert!(w3.is_granted());
    assert_eq!(b.locks.stats().current_waits, 0, "w3's future has ended");
}

/// Tests LOCK-1.
#[test]
fn an_implicit_lock_becomes_explicit_while_its_owner_lives() {
    let b = Bench::new();
    let (owner, other, third) = (b.trx(), b.trx(), b.trx());
    owner.set_trx_id(TrxId(70));
    assert!(
        !b.locks.grant_implicit(&owner, TrxId(69), row(1)),
        "an earlier transaction of that session"
    );
    assert!(b.locks.grant_implicit(&owner, TrxId(70), row(1)));
    assert!(b.locks.grant_implicit(&owner, TrxId(70), row(1)));
    assert_eq!(owner.locks_held(), 1);
    let mut w = b.queue(&other, 1, X);
    b.end(&owner);
    assert!(w.is_granted());
    assert!(!b.locks.grant_implicit(&owner, TrxId(70), row(1)), "LOCK-6");
    b.end(&other);
    assert_eq!(b.locks.locked_keys(), 0);
    // A key may be locked when a record appears at it (READ COMMITTED takes no ranges). The holder
    // then has to wait for the record's writer all the same.
    b.lock(&other, 1, X);
    owner.set_trx_id(TrxId(71));
    assert!(b.locks.grant_implicit(&owner, TrxId(71), row(1)));
    let mut w = b.queue(&other, 1, X);
    let mut w3 = b.queue(&third, 1, S);
    b.end(&owner);
    assert!(w.is_granted() && w3.is_pending());
    b.end(&other);
    assert!(w3.is_granted());
}

#[test]
fn an_implicit_lock_can_close_a_cycle() {
    let b = Bench::new();
    let (writer, holder, waiter) = (b.trx(), b.trx(), b.trx());
    writer.set_trx_id(TrxId(5));
    b.lock(&holder, 1, X);
    b.lock(&waiter, 2, X);
    let mut ww = b.queue(&waiter, 1, X); // waiter -> holder
    let mut wr = b.queue(&writer, 2, X); // writer -> waiter
    assert!(ww.is_pending() && wr.is_pending());
    assert!(b.locks.grant_implicit(&writer, TrxId(5), row(1))); // waiter -> writer
    assert!(wr.is_victim() || ww.is_victim());
    assert_eq!(b.locks.stats().deadlocks, 1);
}

/// Tests LOCK-7. A shared request does not wait for a shared holder beside the exclusive one.
#[test]
fn a_shared_request_waits_for_the_exclusive_holder_only() {
    let b = Bench::new();
    let (writer, holder, waiter) = (b.trx(), b.trx(), b.trx());
    writer.set_trx_id(TrxId(5));
    b.lock(&holder, 1, S);
    b.lock(&waiter, 2, X);
    assert!(b.locks.grant_implicit(&writer, TrxId(5), row(1)));
    let mut ww = b.queue(&waiter, 1, S); // waiter -> writer, and not -> holder
    let mut wh = b.queue(&holder, 2, X); // holder -> waiter
    assert!(ww.is_pending() && wh.is_pending());
    b.end(&writer);
    assert!(ww.is_granted() && wh.is_pending());
    b.end(&waiter);
    assert!(wh.is_granted());
    assert_eq!(b.locks.stats().deadlocks, 0);
}

/// A shared holder becomes an exclusive one beside another: a shared request, which did not wait
/// for it before, does now.
#[test]
fn a_lock_that_grows_can_close_a_cycle() {
    let b = Bench::new();
    let (writer, holder, waiter) = (b.trx(), b.trx(), b.trx());
    writer.set_trx_id(TrxId(5));
    holder.set_trx_id(TrxId(6));
    b.lock(&holder, 1, S);
    b.lock(&waiter, 2, X);
    assert!(b.locks.grant_implicit(&writer, TrxId(5), row(1)));
    let mut ww = b.queue(&waiter, 1, S); // waiter -> writer
    let mut wh = b.queue(&holder, 2, X); // holder -> waiter
    assert!(ww.is_pending() && wh.is_pending());
    assert!(b.locks.grant_implicit(&holder, TrxId(6), row(1))); // waiter -> holder
    assert_eq!(b.locks.stats().deadlocks, 1);
    assert!(ww.is_victim() || wh.is_victim());
}

/// Behind an exclusive request the same wait is for the shared holder too, which is a deadlock.
#[test]
fn behind_an_exclusive_request_a_shared_one_waits_for_all_holders() {
    for converts in [false, true] {
        let b = Bench::new();
        let (writer, holder, waiter, between) = (b.trx(), b.trx(), b.trx(), b.trx());
        writer.set_trx_id(TrxId(5));
        b.lock(&holder, 1, S);
        b.lock(&waiter, 2, X);
        if converts {
            b.lock(&between, 1, S);
        }
        assert!(b.locks.grant_implicit(&writer, TrxId(5), row(1)));
        let mut ww = b.queue(&waiter, 1, S);
        let mut wb = b.queue(&between, 1, X);
        let mut wh = b.queue(&holder, 2, X);
        if converts {
            assert!(wh.is_victim(), "the conversion stands before the waiter");
        } else {
            assert!(wh.is_pending());
        }
        assert!(ww.is_pending() && wb.is_pending());
    }
}

/// The search comes to a row once for the exclusive holders, and again for all of them.
#[test]
fn a_row_is_followed_for_each_kind_of_wait() {
    let b = Bench::new();
    let (writer, holder, first, second) = (b.trx(), b.trx(), b.trx(), b.trx());
    writer.set_trx_id(TrxId(5));
    b.lock(&holder, 1, S);
    b.lock(&first, 2, S);
    b.lock(&second, 2, S);
    assert!(b.locks.grant_implicit(&writer, TrxId(5), row(1)));
    let mut w1 = b.queue(&first, 1, S); // -> writer
    let mut w2 = b.queue(&second, 1, X); // -> writer, holder
    let mut wh = b.queue(&holder, 2, X); // -> first, second: a cycle through the second only
    assert!(w1.is_pending());
    assert!(wh.is_victim() || w2.is_victim());
    assert_eq!(b.locks.stats().deadlocks, 1);
    assert_eq!(b.locks.latest_deadlock().unwrap().trxs.len(), 2);
}

/// Requests of both modes, conversions, timeouts and releases on one key with many holders.
/// Tests LOCK-8.
#[test]
fn a_key_with_many_holders_keeps_its_rules() {
    for seed in 1..=40 {
        let mut random = Random(seed);
        let b = Bench::new();
        b.locks.set_deadlock_detect(false);
        let trxs: Vec<_> = (0..12).map(|_| b.trx()).collect();
        let mut waits: Vec<Option<Waiting>> = trxs.iter().map(|_| None).collect();
        for step in 0..400 {
            let i = random.below(12) as usize;
            let mode = if random.below(6) == 0 { X } else { S };
            let what = random.below(4);
            if what > 0 && waits[i].as_mut().is_some_and(Waiting::is_pending) {
                continue;
            }
            match (waits[i].take(), what) {
                (Some(wait), 0) => drop(wait),
                (_, 0) => b.end(&trxs[i]),
                (_, 1) if random.below(4) == 0 => {
                    trxs[i].set_trx_id(TrxId(step + 1));
                    assert!(b.locks.grant_implicit(&trxs[i], TrxId(step + 1), row(1)));
                }
                _ => match b.locks.lock_row(&trxs[i], row(1), mode) {
                    Ok(_) => assert!(b.locks.holds(&trxs[i], row(1), mode)),
                    blocked => waits[i] = Some(b.waiting(blocked)),
                },
            }
            b.locks.check();
        }
        waits.clear();
        trxs.iter().for_each(|t| b.end(t));
        assert_eq!(b.locks.locked_keys(), 0);
    }
}

#[test]
fn a_row_lock_can_be_given_back_early() {
    let b = Bench::new();
    let (t1, t2) = (b.trx(), b.trx());
    b.lock(&t1, 1, X);
    b.lock(&t1, 2, X);
    let mut w = b.queue(&t2, 1, X);
    b.locks.release_row(&t1, row(1));
    assert!(w.is_granted());
    assert_eq!(t1.locks_held(), 1);
    assert!(b.locks.holds(&t1, row(2), X));
}

#[test]
fn ranges_stop_inserts_by_others_only() {
    let b = Bench::new();
    let ranges = RangeLocks::new(3);
    let (t1, t2, t3) = (b.trx(), b.trx(), b.trx());
    ranges.lock_range(&t1, KeyRange::new(Excluded(b"b"), Included(b"d")));
    ranges.lock_range(&t2, KeyRange::new(Included(b"c"), Unbounded));
    assert!(b.insert(&t1, &ranges, b"bb").is_none());
    assert!(b.insert(&t3, &ranges, b"b").is_none());
    let mut w1 = b.insert(&t1, &ranges, b"c").expect("t2's range");
    let mut w3 = b.insert(&t3, &ranges, b"d").expect("both ranges");
    b.end(&t2);
    assert!(w1.is_granted() && w3.is_pending());
    assert!(b.insert(&t2, &ranges, b"dd").is_none());
    drop((w1, w3));
    b.end(&t1);
    assert!(b.insert(&t3, &ranges, b"d").is_none());
}

/// They are given back a part at a time, and an insert that waits goes on behind the last part.
/// Tests RANGE-3.
#[test]
fn many_ranges_of_one_owner_go() {
    let b = Bench::new();
    let ranges = RangeLocks::new(3);
    let (t1, t2) = (b.trx(), b.trx());
    for n in 0..1000u16 {
        ranges.lock_range(&t1, KeyRange::point(&n.to_be_bytes()));
    }
    let mut wait = b.insert(&t2, &ranges, &999u16.to_be_bytes()).expect("t1's range");
    assert!(wait.is_pending());
    b.end(&t1);
    assert!(wait.is_granted());
    assert!(LockTable::blocks_no_insert(&ranges));
}

#[test]
fn two_range_owners_that_insert_are_a_deadlock() {
    let b = Bench::new();
    let ranges = RangeLocks::new(3);
    let (t1, t2) = (b.trx(), b.trx());
    t1.set_undo_records(1);
    ranges.lock_range(&t1, KeyRange::point(b"k"));
    ranges.lock_range(&t2, KeyRange::point(b"k"));
    let mut w1 = b.insert(&t1, &ranges, b"k").unwrap();
    let mut w2 = b.insert(&t2, &ranges, b"k").unwrap();
    assert!(w2.is_victim() && w1.is_pending());
    b.end(&t2);
    assert!(w1.is_granted());
    assert!(b.insert(&t1, &ranges, b"k").is_none());
}

#[test]
fn deadlocks_run_through_rows_and_ranges() {
    let b = Bench::new();
    let ranges = RangeLocks::new(3);
    let (t1, t2) = (b.trx(), b.trx());
    ranges.lock_range(&t1, KeyRange::all());
    b.lock(&t2, 1, X);
    let mut w2 = b.insert(&t2, &ranges, b"k").unwrap();
    let mut w1 = b.queue(&t1, 1, S);
    assert!(w1.is_victim(), "no weight but a lock against two");
    assert!(w2.is_pending());
    b.end(&t1);
    assert!(w2.is_granted());
}

#[test]
fn an_open_range_shrinks_to_where_the_scan_stopped() {
    let b = Bench::new();
    let ranges = RangeLocks::new(3);
    let (t1, t2) = (b.trx(), b.trx());
    let token = ranges.lock_open_range(&t1, KeyRange::new(Included(b"b"), Unbounded));
    let mut w = b.insert(&t2, &ranges, b"x").unwrap();
    ranges.shrink_range(&t1, token, &KeyRange::new(Unbounded, Included(b"f")));
    assert!(w.is_granted());
    let w = b.insert(&t2, &ranges, b"f").expect("still locked");
    drop(w);
    assert!(b.insert(&t2, &ranges, b"f\0").is_none());
    let token = ranges.lock_open_range(&t1, KeyRange::point(b"z"));
    ranges.shrink_range(&t1, token, &KeyRange::none()); // The scan saw nothing.
    assert!(b.insert(&t2, &ranges, b"z").is_none());
    // The scan goes downwards.
    let token = ranges.lock_open_range(&t1, KeyRange::new(Included(b"p"), Excluded(b"t")));
    ranges.shrink_range(&t1, token, &KeyRange::new(Included(b"r"), Unbounded));
    assert!(b.insert(&t2, &ranges, b"q").is_none() && b.insert(&t2, &ranges, b"t").is_none());
    drop(b.insert(&t2, &ranges, b"r").expect("still locked"));
    let never_settled = ranges.lock_open_range(&t1, KeyRange::all());
    b.end(&t1);
    assert!(b.insert(&t2, &ranges, b"f").is_none());
    // A token outlives its transaction, and another range has its slot now.
    let token = ranges.lock_open_range(&t1, KeyRange::all());
    ranges.shrink_range(&t1, never_settled, &KeyRange::none());
    ranges.shrink_range(&t2, never_settled, &KeyRange::none());
    drop(b.insert(&t2, &ranges, b"f").expect("still locked"));
    ranges.shrink_range(&t1, token, &KeyRange::none());
    assert!(b.insert(&t2, &ranges, b"f").is_none());
}

#[test]
fn prefixes_are_ranges() {
    assert!(
        KeyRange::prefix(b"ab").contains(b"ab")
            && KeyRange::prefix(b"ab").contains(b"ab\xff\xff\xff")
    );
    assert!(
        !KeyRange::prefix(b"ab").contains(b"ac") && !KeyRange::prefix(b"ab").contains(b"aa\xff")
    );
    assert!(
        KeyRange::prefix(b"\xff\xff").contains(b"\xff\xff\xff")
            && !KeyRange::prefix(b"\xff\xff").contains(b"\xff\xfe")
    );
    assert!(
        KeyRange::prefix(b"a\xff").contains(b"a\xff\x01")
            && !KeyRange::prefix(b"a\xff").contains(b"b")
    );
}

/// Compares ranges of several owners with plain lists of the locked ranges.
/// Tests RANGE-2.
#[test]
fn ranges_agree_with_a_plain_list() {
    for seed in 1..=30 {
        let mut random = Random(seed);
        let b = Bench::new();
        let ranges = RangeLocks::new(3);
        let trxs: Vec<_> = (0..4).map(|_| b.trx()).collect();
        // The ranges of each owner, each with the range that cuts it, if any.
        let mut model: Vec<Vec<(KeyRange, Option<KeyRange>)>> = vec![Vec::new(); 4];
        let mut open: Vec<(usize, RangeToken, KeyRange)> = Vec::new();
        for _ in 0..400 {
            let i = random.below(4) as usize;
            let (low, high) = (random.key(), random.key());
            let range = match random.below(5) {
                0 => KeyRange::new(Excluded(&low), Included(&high)),
                1 => KeyRange::point(&low),
                2 if random.below(4) == 0 => KeyRange::new(Included(&low), Unbounded),
                _ => KeyRange::new(Included(&low), Excluded(&high)),
            };
            match random.below(12) {
                0 => {
                    b.end(&trxs[i]);
                    model[i].clear();
                    open.retain(|(owner, ..)| *owner != i);
                }
                1..=2 => open.push((i, ranges.lock_open_range(&trxs[i], range.clone()), range)),
                3..=4 if !open.is_empty() => {
                    let (owner, token, range) =
                        open.swap_remove(random.below(open.len() as u64) as usize);
                    // The part of the range up to the stop, or from the stop on, stays locked.
                    let stop = random.key();
                    let up = random.below(2) == 0;
                    let keep = if up {
                        KeyRange::new(Unbounded, Included(&stop))
                    } else {
                        KeyRange::new(Included(&stop), Unbounded)
                    };
                    ranges.shrink_range(&trxs[owner], token, &keep);
                    model[owner].push((range, Some(keep)));
                }
                _ => {
                    ranges.lock_range(&trxs[i], range.clone());
                    model[i].push((range, None));
                }
            }
            let key = random.key();
            for (j, trx) in trxs.iter().enumerate() {
                let free = match b.locks.check_insert(trx, &ranges, &key) {
                    Ok(()) => true,
                    Err(WouldBlock::Lock(_)) => false,
                    Err(other) => panic!("{other:?}"),
                };
                let has = |(range, cut): &(KeyRange, Option<KeyRange>)| {
                    range.contains(&key) && cut.as_ref().is_none_or(|cut| cut.contains(&key))
                };
                let settled = model
                    .iter()
                    .enumerate()
                    .any(|(owner, ranges)| owner != j && ranges.iter().any(has));
                let opened =
                    open.iter().any(|(owner, _, range)| *owner != j && range.contains(&key));
                assert_eq!(free, !settled && !opened, "seed {seed}");
            }
        }
        trxs.iter().for_each(|t| b.end(t));
        assert!(format!("{ranges:?}").contains("0 intervals"));
    }
}

#[test]
fn hashes_differ_by_every_byte() {
    let mut seen = std::collections::HashSet::new();
    let base = [0u8; 20];
    assert!(seen.insert(hash_bytes(&base)));
    for len in 0..20 {
        assert!(seen.insert(hash_bytes(&base[..len])));
    }
    for i in 0..20 {
        for v in 1..=255 {
            let mut key = base;
            key[i] = v;
            assert!(seen.insert(hash_bytes(&key)));
        }
    }
}
