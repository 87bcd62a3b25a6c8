//! Inserts a run: records that lie next to each other in the page's key order.
//!
//! A run costs a page what one record costs it: one write of all records, one link, one count and
//! one write of the directory. So the redo log has the records' bytes and little else.
//!
//! - RUN-1: the page is as well formed as if the records had come one by one (INDEX-1 to INDEX-3):
//!   the group at the place and the run become groups of [`GROUP`] records, the last of them with
//!   the rest.
use super::*;

/// Records that are made one by one, to lie in a page one behind the other.
#[derive(Default)]
pub struct Run {
    /// The records, whose links are filled in by [`insert_run`].
    bytes: Vec<u8>,
    count: u16,
}
impl Run {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
    pub fn push(&mut self, k: &[u8], v: &[&[u8]]) {
        let vlen: usize = v.iter().map(|b| b.len()).sum();
        let mut head = [0u8; REC];
        head[3..5].copy_from_slice(&(k.len() as u16).to_le_bytes());
        head[5..7].copy_from_slice(&(vlen as u16).to_le_bytes());
        self.bytes.extend_from_slice(&head);
        self.bytes.extend_from_slice(k);
        v.iter().for_each(|b| self.bytes.extend_from_slice(b));
        self.count += 1;
    }
}

/// The room for a run at a place of a page, which gets less with each record.
pub struct RunRoom {
    bytes: usize,
    /// The records that the place's last group can still take without a slot more.
    in_group: u16,
}
impl RunRoom {
    pub fn at(p: &Page, pos: Pos) -> RunRoom {
        RunRoom { bytes: contiguous(p), in_group: GROUP - slot_count(p, pos.slot) }
    }
    /// Takes the room of one record more. Returns false if there is none.
    pub fn take(&mut self, key_len: usize, value_len: usize) -> bool {
        let slot = if self.in_group == 0 { SLOT } else { 0 };
        let Some(left) = self.bytes.checked_sub(REC + key_len + value_len + slot) else {
            return false;
        };
        self.bytes = left;
        self.in_group = if self.in_group == 0 { GROUP } else { self.in_group } - 1;
        true
    }
}

/// Inserts the records at `pos`, which a [`search`] for the first of them returned, without finding
/// it. Their keys are ascending, and below the key of the record that follows. The caller has taken
/// their room ([`RunRoom`]). Returns the place of the last record.
pub fn insert_run(p: &mut impl Patch, pos: Pos, run: &mut Run) -> Rec {
    assert!(pos.found.is_none() && run.count > 0);
    let top = u16_at(p.bytes(), HEAP_TOP);
    let after = u16_at(p.bytes(), pos.prev as usize);
    let (mut at, mut last) = (0, 0);
    while at < run.bytes.len() {
        last = at;
        at += REC + u16_at(&run.bytes, at + 3) as usize + u16_at(&run.bytes, at + 5) as usize;
        let next = if at < run.bytes.len() { top + at as u16 } else { after };
        run.bytes[last..last + 2].copy_from_slice(&next.to_le_bytes());
    }
    p.write(top as usize, &run.bytes);
    p.write_u16(pos.prev as usize, top);
    let n = n_recs(p.bytes()) + run.count;
    // The counts of records and slots and the heap's top lie side by side.
    let mut counts = [0; 6];
    counts[..2].copy_from_slice(&n.to_le_bytes());
    let slots = regroup(p, pos.slot, run.count);
    counts[2..4].copy_from_slice(&slots.to_le_bytes());
    counts[4..].copy_from_slice(&(top + run.bytes.len() as u16).to_le_bytes());
    p.write(N_RECS, &counts);
    top + last as u16
}
const _: () = assert!(N_SLOTS == N_RECS + 2 && HEAP_TOP == N_RECS + 4);

/// Divides the group of `slot`, which has got `more` records, into groups (RUN-1). Returns the
/// number of slots, which the caller writes.
fn regroup(p: &mut impl Patch, slot: u16, more: u16) -> u16 {
    let slots = n_slots(p.bytes());
    let mut left = slot_count(p.bytes(), slot) + more;
    let added = left.div_ceil(GROUP) - 1;
    let (low, high) = (slot_at(slots - 1), slot_at(slot));
    if added > 0 && low < high {
        let mut moved = [0; PAGE_SIZE / 2];
        let moved = &mut moved[..high - low];
        moved.copy_from_slice(&p.bytes()[low..high]);
        p.write(low - SLOT * added as usize, moved);
    }
    // The directory grows downwards, so the slots are made from the end of the buffer on.
    let mut made = [0; PAGE_SIZE / 2];
    let (mut rec, mut from) = (slot_rec(p.bytes(), slot), made.len());
    loop {
        let count = left.min(GROUP);
        from -= SLOT;
        made[from..from + 2].copy_from_slice(&rec.to_le_bytes());
        made[from + 2..from + 4].copy_from_slice(&count.to_le_bytes());
        left -= count;
        if left == 0 {
            break;
        }
        for _ in 0..count {
            rec = next_rec(p.bytes(), rec).expect("the group has its records");
        }
    }
    p.write(slot_at(slot + added), &made[from..]);
    slots + added
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::super::super::patch::tests::Sheet;
    use super::*;
    use std::collections::BTreeMap;

    /// Tests RUN-1, at the end of a page, in its middle and in an empty page.
    #[test]
    fn runs_and_single_records_make_one_page() {
        let mut seed = 1u64;
        let mut random = move |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for round in 0..200u64 {
            let (mut s, mut model) = (Sheet::new(), BTreeMap::new());
            init(&mut s, 7, 0);
            let mut run = Run::default();
            for step in 0..40u32 {
                // Keys from a place on, as long as nothing follows.
                let first = if round % 2 == 0 { step * 100 } else { random(4000) as u32 };
                let pos = search(s.bytes(), &first.to_be_bytes());
                if pos.found.is_some() {
                    continue;
                }
                let end = next_rec(s.bytes(), pos.prev).map(|r| key(s.bytes(), r).to_vec());
                let mut room = RunRoom::at(s.bytes(), pos);
                run.clear();
                for k in first..first + 1 + random(90) as u32 {
                    let (k, v) = (k.to_be_bytes(), vec![k as u8; random(40) as usize]);
                    if end.as_ref().is_some_and(|end| k[..] >= end[..])
                        || !room.take(k.len(), v.len())
                    {
                        break;
                    }
                    run.push(&k, &[&v]);
                    model.insert(k.to_vec(), v);
                }
                if run.count > 0 {
                    let last = insert_run(&mut s, pos, &mut run);
                    assert_eq!(
                        next_rec(s.bytes(), last).map(|r| key(s.bytes(), r)),
                        end.as_deref()
                    );
                }
                check(s.bytes()).unwrap();
                well_formed(s.bytes()).unwrap();
                // Now and then a record goes, or comes by itself.
                let k = (random(4000) as u32).to_be_bytes();
                let pos = search(s.bytes(), &k);
                match pos.found {
                    Some(_) => {
                        remove(&mut s, pos);
                        model.remove(&k[..]);
                    }
                    None if fits(s.bytes(), 4, 3) => {
                        insert(&mut s, pos, 0, &k, &[b"one"]);
                        model.insert(k.to_vec(), b"one".to_vec());
                    }
                    None => {}
                }
                check(s.bytes()).unwrap();
            }
            let got: Vec<_> = records(s.bytes())
                .map(|r| (key(s.bytes(), r).to_vec(), value(s.bytes(), r).to_vec()))
                .collect();
            assert!(got.len() > 30, "{} records", got.len());
            assert_eq!(got, model.into_iter().collect::<Vec<_>>());
            assert!(s.replay()[..] == s.page[..], "redo of every write gives the same page");
        }
    }

    /// A record of a run costs the redo log little more than its bytes.
    #[test]
    fn a_run_is_logged_once() {
        let (mut s, mut run) = (Sheet::new(), Run::default());
        init(&mut s, 7, 0);
        let before = s.logged_bytes();
        let pos = search(s.bytes(), &[0]);
        let mut room = RunRoom::at(s.bytes(), pos);
        while room.take(4, 30) {
            run.push(&(run.count as u32).to_be_bytes(), &[&[7; 30]]);
        }
        insert_run(&mut s, pos, &mut run);
        let logged = s.logged_bytes() - before;
        assert!(run.count > 390, "{} records fill a page", run.count);
        assert_eq!(logged, run.bytes.len() + SLOT * n_slots(s.bytes()) as usize + 2 + 6);
        assert!(!fits(s.bytes(), 4, 60));
    }
}
