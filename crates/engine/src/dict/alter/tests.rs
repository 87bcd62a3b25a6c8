use super::*;
use crate::small_engine::*;

/// Tests ALTER-6: trees that have a record and no pages yet are forgotten, and a page that somebody
/// else has taken meanwhile stays his.
#[test]
fn trees_without_pages_are_forgotten() {
    with_engine("alter-roots", async |e| {
        let t = table(&e).await;
        let roots = e.retry(|| free_pages(&e.store, t.space, 3)).await.unwrap();
        let first = e.take_ids(4).await.unwrap();
        let trees: Vec<_> =
            (first..).zip(&roots).map(|(id, root)| TreeRecord { id, root: *root }).collect();
        let mut r = t.record();
        r.unfinished.extend(&trees);
        let t = e.replace_record(&t, r, None, None).await.unwrap();
        // The first has its root; the second root's page is another's.
        assert!(e.make_roots(t.space, &trees[..1]).await.unwrap());
        let other = [TreeRecord { id: first + 3, root: roots[1] }];
        assert!(e.make_roots(t.space, &other).await.unwrap());
        assert!(!e.make_roots(t.space, &trees[1..]).await.unwrap());
        let t = e.clear_away(t, &trees, AT_ONCE).await.unwrap();
        assert!(t.unfinished.is_empty());
        let in_use = |no| matches!(space::is_in_use(&e.store, t.space, no), Ok(true));
        assert_eq!([0, 1, 2].map(|n| in_use(roots[n])), [false, true, false]);
        assert!(e.free_trees(t.space, &other, AT_ONCE).await.unwrap());
        clean(&e, &t, 0).await;
    });
}
