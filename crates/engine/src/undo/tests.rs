//! Which undo pages transactions get, and purge reads.
use super::*;

/// An undo log in a page: its offset, whether it continues in another page, and whether it is
/// needed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Log {
    at: u16,
    long: bool,
    needed: bool,
}

/// Transactions take pages, continue in other pages, and end, while purge reads some pages and
/// leaves others half read. Each undo log must be read once, no page may have two owners, and
/// no page may start over while a log in it is needed or while purge reads it.
/// Tests UNDO-5.
#[test]
fn released_undo_is_read_once() {
    for seed in 1..=300 {
        let mut random = crate::lock::tests::Random(seed);
        let pages = UndoPages::default();
        (1..=6).for_each(|no| pages.enter(no, record::FIRST as u16, 0, SmallVec::new()));
        // The undo logs in each page since it started over, the pages with an owner, and the
        // parts that purge is reading.
        let mut logs: HashMap<PageNo, Vec<Log>> = HashMap::new();
        let mut open: Vec<(Current, Vec<(PageNo, u16)>)> = Vec::new();
        let mut reading: Vec<Unread> = Vec::new();
        let mut long: Vec<Vec<(PageNo, u16)>> = Vec::new();
        let (mut written, mut read) = (0, 0);
        for _ in 0..2000 {
            match random.below(5) {
                0 | 1 if open.len() < 4 => {
                    let empty = random.below(4) == 0;
                    let taken = if empty { pages.take_empty() } else { pages.take() };
                    let Some(c) = taken else { continue };
                    assert!(c.fresh || !empty, "seed {seed}");
                    assert!(open.iter().all(|o| o.0.no != c.no), "UNDO-1, seed {seed}");
                    let of = logs.entry(c.no).or_default();
                    if c.fresh {
                        assert!(
                            of.iter().all(|l| !l.needed) && reading.iter().all(|u| u.no != c.no),
                            "UNDO-3, seed {seed}"
                        );
                        of.clear();
                    }
                    of.push(Log { at: c.used, long: false, needed: true });
                    open.push((c, vec![(c.no, c.used)]));
                }
                2 if !open.is_empty() => {
                    let i = random.below(open.len() as u64) as usize;
                    let (c, mut parts) = open.swap_remove(i);
                    let end =
                        (c.used + 40 + random.below(6000) as u16).min(crate::PAGE_SIZE as u16 - 2);
                    let goes_on = parts.len() < 3 && random.below(3) == 0;
                    let first = goes_on && parts.len() == 1;
                    if first {
                        logs.get_mut(&c.no).unwrap().last_mut().unwrap().long = true;
                    }
                    let next = if goes_on { pages.take() } else { None };
                    pages.give_back(c.no, end, (first && next.is_some()).then_some(c.used));
                    match next {
                        Some(n) => {
                            let of = logs.entry(n.no).or_default();
                            if n.fresh {
                                of.clear();
                            }
                            of.push(Log { at: n.used, long: true, needed: true });
                            parts.push((n.no, n.used));
                            open.push((n, parts));
                        }
                        None if parts.len() > 1 => long.push(parts),
                        None => {
                            logs.get_mut(&c.no).unwrap().last_mut().unwrap().long = false;
                            written += 1;
                        }
                    }
                }
                3 if reading.len() < 2 => reading.extend(pages.next_to_read()),
                _ if random.below(3) == 0 && !long.is_empty() => {
                    // A long undo log is purged by itself.
                    for (no, at) in long.swap_remove(0) {
                        logs.get_mut(&no)
                            .unwrap()
                            .iter_mut()
                            .find(|l| l.at == at)
                            .unwrap()
                            .needed = false;
                        pages.purged(no);
                    }
                }
                _ if !reading.is_empty() => {
                    let u = reading.swap_remove(0);
                    let of = logs.get_mut(&u.no).unwrap();
                    let mut purged = 0;
                    let mut to = u.to;
                    for l in of.iter_mut().filter(|l| (u.from..u.to).contains(&l.at)) {
                        let first_of_long = u.long.contains(&l.at);
                        assert!(!first_of_long || l.long, "seed {seed}: {l:?}");
                        if l.long {
                            continue;
                        }
                        if random.below(8) == 0 {
                            // The horizon does not see this log.
                            to = l.at;
                            break;
                        }
                        assert!(l.needed, "seed {seed}: read twice");
                        l.needed = false;
                        purged += 1;
                    }
                    read += purged;
                    pages.have_read(u.no, to, purged, random.below(2) == 0);
                }
                _ => {}
            }
        }
        // All transactions end, and purge reads everything.
        for (c, parts) in open {
            pages.give_back(c.no, c.used + 40, None);
            let of = logs.get_mut(&c.no).unwrap();
            match parts.len() {
                1 => {
                    of.last_mut().unwrap().long = false;
                    written += 1;
                }
                _ => long.push(parts),
            }
        }
        for u in reading {
            pages.have_read(u.no, u.from, 0, false);
        }
        for (no, _) in long.into_iter().flatten() {
            pages.purged(no);
        }
        while let Some(u) = pages.next_to_read() {
            let here =
                logs[&u.no].iter().filter(|l| !l.long && (u.from..u.to).contains(&l.at)).count();
            read += here as u32;
            pages.have_read(u.no, u.to, here as u32, false);
        }
        assert_eq!((read, pages.counts().1, pages.unread()), (written, 0, 0), "seed {seed}");
        assert!(written > 100);
    }
}

/// A page that has room for 4 KiB, and one with nothing in it.
const PARTLY: u16 = 12 << 10;
const EMPTY: u16 = record::FIRST as u16;

fn pages(partly: u32, empty: u32) -> UndoPages {
    let pages = UndoPages::default();
    (1..=empty).for_each(|no| pages.enter(no, EMPTY, 0, SmallVec::new()));
    (empty + 1..=empty + partly).for_each(|no| pages.enter(no, PARTLY, 1, SmallVec::new()));
    pages
}
/// What [`UndoLog::make_room`] takes for a long record, without a file that could grow.
fn take_for_long(pages: &UndoPages) -> (Vec<PageNo>, Option<Current>) {
    let mut tried = Vec::new();
    let fits = |c: &Current| c.used == EMPTY;
    let found = take_fitting(pages, fits, |no| tried.push(no));
    (tried, found)
}

/// Among thousands of pages without enough room, a few are tried.
#[test]
fn a_long_record_finds_an_empty_page() {
    let pages = pages(10_000, 3);
    for empty in [3, 2, 1] {
        let (tried, found) = take_for_long(&pages);
        assert_eq!((tried.len(), found.map(|c| (c.no, c.fresh))), (TRIES, Some((empty, true))));
    }
    let (tried, found) = take_for_long(&pages);
    assert!(tried.len() == TRIES && found.is_none());
    // A page is given out once, and those that were tried come last.
    let last = pages.take().map(|c| c.no);
    assert_eq!(last, Some(10_003 - 4 * TRIES as u32));
    let mut all: Vec<PageNo> = std::iter::from_fn(|| pages.take()).map(|c| c.no).collect();
    assert_eq!(all.last(), Some(&9_988));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 9_999);
    assert!(pages.take_empty().is_none());
}

/// A page whose logs have been purged is found as an empty one, however often it was used.
#[test]
fn purged_pages_are_empty_pages() {
    let pages = pages(100, 0);
    for _ in 0..50 {
        (1..=100).for_each(|no| pages.purged(no));
        let taken: Vec<Current> = std::iter::from_fn(|| pages.take_empty()).collect();
        assert_eq!(taken.len(), 100);
        assert!(taken.iter().all(|c| c.fresh && c.used == EMPTY));
        taken.iter().for_each(|c| pages.give_back(c.no, PARTLY, None));
        let state = pages.state.lock();
        assert!(state.available.len() <= 200 && state.empty.len() <= 100);
    }
    assert_eq!(std::iter::from_fn(|| pages.take()).count(), 100);
}
