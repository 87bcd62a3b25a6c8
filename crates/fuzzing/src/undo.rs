//! Undo pages: the sequence of entries that recovery, rollback, purge and readers of old versions
//! read.
use redolith_engine::testing::undo::record::{self, Entry, Head, Obsolete, OldVersion, RollPtr};
use redolith_engine::{PAGE_SIZE, TrxId};

pub fn page(data: &[u8]) {
    let mut page = vec![0; PAGE_SIZE];
    let n = data.len().min(PAGE_SIZE - record::FIRST);
    page[record::FIRST..record::FIRST + n].copy_from_slice(&data[..n]);
    let mut at = record::FIRST;
    while let Some(entry) = record::parse(&page, at) {
        if let Entry::Change { rest, .. } = entry
            && rest.is_whole()
        {
            assert!(rest.obsolete().count() <= record::OBSOLETE_MAX);
            let _ = rest.may_delete();
            for len in [0, 5, 300] {
                let _ = rest.restore(&mut vec![7; len]);
            }
        }
        let len = record::entry_len(&page, at);
        assert!(len > 0, "an entry that is there has a length");
        at += len;
    }
    assert!(at <= PAGE_SIZE);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let head = Head { undo_no: 1, before: RollPtr::NONE, table: 9 };
    let old = OldVersion { trx: TrxId(5), roll: RollPtr::new(3, 50, true), flags: 0 };
    let (mut page, mut entry) = (record::log_entry(TrxId(7)).to_vec(), Vec::new());
    record::insert(&mut entry, head, b"key");
    page.extend_from_slice(&entry);
    let purged = [Obsolete::Entry { index: 1, key: b"old" }, Obsolete::Chain(9)];
    record::change(&mut entry, head, old, b"key", &purged, b"old payload", b"new payload");
    page.extend_from_slice(&entry);
    record::change(&mut entry, head, old, b"key", &[], b"a longer old payload", b"a new payload");
    page.extend_from_slice(&entry);
    record::overflow(&mut entry, head, 77);
    page.extend_from_slice(&entry);
    let more = [&record::more_entry(TrxId(7))[..], &entry].concat();
    vec![page, more]
}
