//! The ledger: which states after a crash it takes for right.
use redolith_sim::ledger::{Key, Ledger, Row, Rows};

fn row(token: i64) -> Row {
    Row { u: token, k: 0, token }
}
const A: Key = (0, 1);
const B: Key = (0, 2);

#[test]
fn a_commit_on_its_way_is_there_whole_or_not() {
    for (found, right) in [(vec![], true), (vec![A, B], true), (vec![A], false), (vec![B], false)] {
        let mut l = Ledger::default();
        let w = l.begin();
        l.wrote(w, A, Some(row(1)));
        l.wrote(w, B, Some(row(1)));
        l.committed(w);
        let found: Rows = found.into_iter().map(|k| (k, row(1))).collect();
        assert_eq!(l.verify(&found).is_ok(), right, "{found:?}");
    }
}
#[test]
fn what_was_answered_is_there_and_what_was_rolled_back_is_not() {
    let mut l = Ledger::default();
    let (w, r) = (l.begin(), l.begin());
    l.wrote(w, A, Some(row(1)));
    l.answered(w);
    l.wrote(r, A, Some(row(2)));
    l.rolled_back(r);
    assert!(l.verify(&Rows::new()).is_err());
    assert!(l.verify(&[(A, row(2))].into()).is_err());
    assert!(l.verify(&[(A, row(1))].into()).is_ok());
}
#[test]
fn nothing_survives_without_what_it_built_upon() {
    let mut l = Ledger::default();
    let (first, second) = (l.begin(), l.begin());
    l.wrote(first, A, Some(row(1)));
    l.committed(first);
    l.wrote(second, A, Some(row(2)));
    l.wrote(second, B, Some(row(3)));
    l.committed(second);
    assert!(l.verify(&[(B, row(3))].into()).is_err());
    // The second row alone does not prove the first commit, but their order does: only both
    // commits together explain this.
    assert!(l.verify(&[(A, row(2)), (B, row(3))].into()).is_ok());
}
#[test]
fn a_lock_shows_the_last_write_that_counts() {
    let mut l = Ledger::default();
    let (w, victim, me) = (l.begin(), l.begin(), l.begin());
    assert_eq!(l.possible(me, A), [None]);
    l.wrote(w, A, Some(row(1)));
    l.commits(w);
    assert_eq!(l.possible(me, A), [Some(row(1)), None]);
    l.committed(w);
    l.wrote(victim, A, Some(row(2)));
    assert_eq!(l.possible(me, A), [Some(row(1))]);
    l.wrote(me, A, None);
    assert_eq!(l.possible(me, A), [None]);
}
