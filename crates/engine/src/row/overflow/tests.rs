use super::*;
use crate::small_engine::*;
use redolith_types::{Column, LobSize, SqlType, Value};

/// A row may grow column by column, and what is too long to be read is not written.
#[test]
fn a_row_with_all_its_long_columns_has_a_limit() {
    with_engine("too-long-row", async |e| {
        let t = table_with(&e, |def| {
            for name in ["a", "b"] {
                def.columns.push(Column::new(name, SqlType::Blob { size: LobSize::Long }));
            }
        })
        .await;
        let bytes = [7; 20_000];
        let values = |long| [Value::Int(1), Value::Int(1), long, Value::Null];
        let mut row = Vec::new();
        t.layout.encode(&values(Value::bytes(&bytes)), &mut row);
        // The long column is elsewhere, and as long as it may be, or longer.
        let other = |more: u64| {
            let room = MAX_WRITTEN - more;
            let (mut short, mut stored) = (Vec::new(), Vec::new());
            t.layout.encode(&values(Value::bytes(&bytes)), &mut short);
            t.layout.externalize(&short, [(2, 9, room)], &mut stored);
            stored
        };
        for (more, fits) in [(21_000, true), (19_000, false), (0, false)] {
            let mut trx = begin(&e);
            let mut new = Vec::new();
            t.layout.update(&other(more), &[(3, Value::bytes(&bytes))], &mut new);
            let written = externalize(&mut trx, &t, 4, &new).await;
            match written {
                Ok(stored) => {
                    assert!(fits && whole_len(&t.layout, &stored) < MAX_ROW, "{more}");
                }
                Err(e) => assert!(matches!(e, Error::RowTooLong { .. }) && !fits, "{more}: {e}"),
            }
            trx.rollback().await.unwrap();
        }
        // A reader tells a row that is too long from a damaged one.
        let read = internalize(&e, &t, &other(MAX_WRITTEN - 50_000)).await;
        assert!(matches!(read, Err(Error::Corrupt { .. })), "there is no such page: {read:?}");
        let mut two = Vec::new();
        let both = [Value::Int(1), Value::Int(1), Value::bytes(&bytes), Value::bytes(&bytes)];
        t.layout.encode(&both, &mut two);
        for (len, is_too_long) in [(MAX_ROW / 2, true), (MAX_ROW, false)] {
            let mut stored = Vec::new();
            t.layout.externalize(&two, [(2, 9, len), (3, 9, len)], &mut stored);
            let read = internalize(&e, &t, &stored).await;
            assert_eq!(matches!(read, Err(Error::RowTooLong { .. })), is_too_long, "{read:?}");
            assert_eq!(matches!(read, Err(Error::Corrupt { .. })), !is_too_long, "{read:?}");
        }
    });
}
