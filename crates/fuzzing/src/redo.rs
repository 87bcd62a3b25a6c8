//! Redo records, the contents of a frame's payload.
use redolith_engine::testing::mtr::record::{
    Change, Record, Records, put_commit, put_file, put_init, put_page, put_write,
};
use redolith_engine::{Lsn, PAGE_SIZE, PageId, SpaceId};

/// Reads a frame's payload, and applies each of its records to a page.
pub fn records(data: &[u8]) {
    let mut page = [0; PAGE_SIZE];
    let mut ended = false;
    for record in Records::new(data) {
        assert!(!ended, "nothing follows an error");
        match record {
            Ok(Record::Page { id, change, .. }) => {
                change.apply(id, &mut page);
                if change == Change::Init {
                    assert_eq!(page[4..8], id.no.to_le_bytes());
                }
            }
            Ok(Record::File(_) | Record::Commit(_)) => {}
            Err(_) => ended = true,
        }
    }
}

pub fn record_seeds() -> Vec<Vec<u8>> {
    let mut payload = Vec::new();
    put_page(&mut payload, PageId { space: SpaceId(3), no: 9 }, Lsn(77));
    put_file(&mut payload, SpaceId(5));
    put_commit(&mut payload, b"a record");
    put_init(&mut payload);
    put_write(&mut payload, 700, &[b"abc"]);
    // FILL, which only older redo logs have: 900 bytes at 40.
    payload.extend_from_slice(&[4, 40, 0, 132, 3, 7]);
    put_page(&mut payload, PageId { space: SpaceId(4), no: 1 }, Lsn(1 << 40));
    put_write(&mut payload, 0, &[&[1; 300]]);
    vec![payload, vec![1; 40]]
}
