//! The record of a view. The table in [`codec`](super) describes it.
use super::column::{column, decode_column};
use super::{
    CRITICAL, Decoded, Fields, collation_of, fields, flags_of, number, tagged, text_of, u64_of,
};
use crate::dict::view::{Algorithm, CheckOption, ViewDef};
use redolith_types::{Collation, TableDef};

/// The field by which a record is a view's (VIEWDEF-1).
const VIEW: u16 = CRITICAL | 1;
const ALGORITHMS: [Algorithm; 3] = [Algorithm::Undefined, Algorithm::Merge, Algorithm::Temptable];
const CHECKS: [CheckOption; 3] = [CheckOption::None, CheckOption::Local, CheckOption::Cascaded];

pub(in crate::dict) fn encode_view(v: &ViewDef) -> Vec<u8> {
    let mut own = Fields::nested();
    own.put_text(1, &v.select);
    own.put_text(2, &v.definer.0);
    own.put_text(3, &v.definer.1);
    own.put(4, &v.mode.to_le_bytes());
    own.put(5, &v.charset_client.id().to_le_bytes());
    own.put(6, &v.collation_connection.id().to_le_bytes());
    let algorithm = ALGORITHMS.iter().position(|a| *a == v.algorithm).expect("one of them");
    let check = CHECKS.iter().position(|c| *c == v.check).expect("one of them");
    own.put(7, &[algorithm as u8]);
    own.put(8, &[check as u8]);
    let flags = [v.invoker, v.updatable, v.names_columns];
    own.put(9, &[flags.iter().enumerate().map(|(bit, on)| (*on as u8) << bit).sum()]);
    let mut f = Fields::record();
    f.put_text(5, &v.def.schema);
    f.put_text(6, &v.def.name);
    v.def.columns.iter().for_each(|c| f.put(7, &column(c)));
    f.put(9, &v.def.collation.id().to_le_bytes());
    f.put(VIEW, &own.0);
    f.0
}
/// The view of a record; None if the record is a table's (VIEWDEF-1).
pub(in crate::dict) fn decode_view(body: &[u8]) -> Decoded<Option<ViewDef>> {
    let Some(body) = tagged(body)? else { return Ok(None) };
    let mut own = None;
    // Whoever reads the record as a table's says which field of it is wrong.
    let all = fields("record", body, |tag, b| {
        own = if tag == VIEW { Some(b) } else { own };
        Ok(true)
    });
    let (Ok(()), Some(own)) = (all, own) else { return Ok(None) };
    let mut v = ViewDef {
        def: TableDef {
            schema: String::new(),
            name: String::new(),
            columns: Vec::new(),
            indexes: Vec::new(),
            collation: Collation::Binary,
            comment: String::new(),
            checks: Vec::new(),
            statistics: Default::default(),
        },
        select: String::new(),
        names_columns: false,
        algorithm: Algorithm::Undefined,
        check: CheckOption::None,
        definer: (String::new(), String::new()),
        invoker: false,
        mode: 0,
        charset_client: Collation::Utf8mb4GeneralCi,
        collation_connection: Collation::Utf8mb4GeneralCi,
        updatable: false,
    };
    fields("record", body, |tag, b| {
        match tag {
            5 => v.def.schema = text_of("database", b)?,
            6 => v.def.name = text_of("name", b)?,
            7 => v.def.columns.push(decode_column(b)?),
            9 => v.def.collation = collation_of(b)?,
            _ => return Ok(tag == VIEW),
        }
        Ok(true)
    })?;
    decode_own(own, &mut v)?;
    Ok(Some(v))
}
fn decode_own(own: &[u8], v: &mut ViewDef) -> Decoded<()> {
    let one_of = |what: &str, b: &[u8]| -> Decoded<usize> {
        let [n] = number(what, b)?;
        if n < 3 { Ok(n.into()) } else { Err(format!("its {what} {n} is none of those known")) }
    };
    fields("view", own, |tag, b| {
        match tag {
            1 => v.select = text_of("SELECT", b)?,
            2 => v.definer.0 = text_of("definer", b)?,
            3 => v.definer.1 = text_of("definer's host", b)?,
            4 => v.mode = u64_of("sql_mode", b)?,
            5 => v.charset_client = collation_of(b)?,
            6 => v.collation_connection = collation_of(b)?,
            7 => v.algorithm = ALGORITHMS[one_of("algorithm", b)?],
            8 => v.check = CHECKS[one_of("check option", b)?],
            9 => {
                let flags = flags_of("view's flags", b, 7)?;
                (v.invoker, v.updatable) = (flags & 1 != 0, flags & 2 != 0);
                v.names_columns = flags & 4 != 0;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::dict::codec::decode_table;
    use redolith_types::{Column, SqlType};

    fn view() -> ViewDef {
        ViewDef {
            def: TableDef {
                schema: "d".into(),
                name: "v".into(),
                columns: vec![Column::new("a", SqlType::Year), Column::new("b", SqlType::Date)],
                indexes: Vec::new(),
                collation: Collation::Latin1SwedishCi,
                comment: String::new(),
                checks: Vec::new(),
                statistics: Default::default(),
            },
            select: "select 1 AS `a`, 2 AS `b`".into(),
            names_columns: true,
            algorithm: Algorithm::Temptable,
            check: CheckOption::Local,
            definer: ("root".into(), "%".into()),
            invoker: true,
            mode: 1 << 40 | 3,
            charset_client: Collation::Latin1SwedishCi,
            collation_connection: Collation::Binary,
            updatable: false,
        }
    }

    /// Tests VIEWDEF-1.
    #[test]
    fn a_record_without_the_view_is_refused_by_name() {
        let bytes = encode_view(&view());
        let again = decode_view(&bytes).unwrap().unwrap();
        assert_eq!(format!("{again:?}"), format!("{:?}", view()));
        // This is what a program says that does not know views.
        assert!(decode_table(&bytes).unwrap_err().contains("field 32769"));
    }

    #[test]
    fn no_flipped_byte_ends_in_a_panic() {
        let bytes = encode_view(&view());
        for at in 0..bytes.len() {
            for with in [0, 1, 0x7f, 0x80, 0xff] {
                let mut b = bytes.clone();
                b[at] = with;
                let _ = decode_view(&b);
            }
            let _ = decode_view(&bytes[..at]);
        }
    }
}
