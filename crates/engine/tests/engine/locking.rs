//! Locking reads: what stays locked when they end.
use crate::common::Dir;
use crate::common::tables::*;
use redolith_engine::Error;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::runtime::block_on;
use redolith_types::Value;
use std::time::Duration;

/// A scan that waits in vain for a row keeps the part of its range that it has passed, and no more.
/// Tests CURSOR-1.
#[test]
fn a_scan_that_fails_gives_the_rest_of_its_range_back() {
    let dir = Dir::new("locking-fails");
    let (e, _) = open(&dir);
    block_on(async {
        let t = create(&e, "t", vec![("c", int())], vec![]).await;
        let row = |id: i64| encoded(&t, &[Value::Int(id), Value::Int(0)]);
        let mut holder = e.begin(KillFlag::new());
        for id in [10, 20, 30, 40] {
            holder.insert(&t, &row(id)).await.unwrap();
        }
        commit(&mut holder).await;
        let read = Read::Locking { mode: Mode::X, conflict: OnConflict::Wait };
        for (reverse, held, passed, rest) in [(false, 20, 5, 50), (true, 30, 45, 5)] {
            let held = locked(&mut holder, &t, held).await.unwrap();
            let mut scanner = e.begin(KillFlag::new());
            scanner.lock_wait_timeout = Duration::from_millis(20);
            let mut scan = Cursor::new(t.clone(), 0, Vec::new(), None, reverse, read);
            assert!(scan.next(&mut scanner).await.unwrap());
            let failed = scan.next(&mut scanner).await;
            assert!(matches!(failed, Err(Error::LockWaitTimeout)), "{failed:?}");
            drop(scan);
            let mut other = e.begin(KillFlag::new());
            other.lock_wait_timeout = Duration::from_millis(20);
            other.insert(&t, &row(rest)).await.unwrap();
            let blocked = other.insert(&t, &row(passed)).await;
            assert!(matches!(blocked, Err(Error::LockWaitTimeout)), "{blocked:?}");
            for trx in [&mut other, &mut scanner, &mut holder] {
                trx.rollback().await.unwrap();
            }
            drop(held);
        }
        sound(&e, &t, 4).await;
        e.close().await.unwrap();
    });
}
