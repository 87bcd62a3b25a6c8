//! Records of the dictionary: a record that can be read can be written again, with the same
//! contents.
use crate::take;
use redolith_engine::dict::Dictionary;
use redolith_engine::dict::view::{Algorithm, CheckOption, ViewDef};
use redolith_engine::testing::dict::record::{
    self, Named, SchemaRecord, TableRecord, TreeRecord, Values,
};
use redolith_types::{
    CheckDef, Collation, Column, IndexDef, SqlType, StatisticsOptions, TableDef, Value,
};

/// The input is the length of a name, the name, and the record's bytes.
pub fn record(data: &[u8]) {
    let ([n], rest) = take::<1>(data);
    let (name, body) = rest.split_at((n as usize).min(rest.len()));
    let dictionary = Dictionary::default();
    let table = record::dictionary_table(&dictionary);
    let mut row = Vec::new();
    table.layout.encode(&[Value::bytes(name), Value::bytes(body)], &mut row);
    let found = match record::parse(&table, &row) {
        Ok(Named::Table(found)) => found,
        Ok(Named::View(found)) => {
            let again = record::view_row(&table, name, &found);
            let Ok(Named::View(same)) = record::parse(&table, &again) else {
                panic!("what was written is read")
            };
            assert_eq!(format!("{found:?}"), format!("{same:?}"));
            return;
        }
        Ok(Named::Values(_, Ok(found))) => {
            let again = match &found {
                Values::Histogram(_, found) => record::histogram_row(&table, name, found),
                Values::Statistics(found) => record::statistics_row(&table, name, found),
            };
            let Ok(Named::Values(_, Ok(same))) = record::parse(&table, &again) else {
                panic!("what was written is read")
            };
            assert_eq!(format!("{found:?}"), format!("{same:?}"));
            return;
        }
        _ => return,
    };
    let again = record::table_row(&table, name, &found);
    let Ok(Named::Table(same)) = record::parse(&table, &again) else {
        panic!("what was written is read")
    };
    assert_eq!(
        (found.id, found.space, &found.trees, &found.def),
        (same.id, same.space, &same.trees, &same.def)
    );
}

pub fn seeds() -> Vec<Vec<u8>> {
    let schema = SchemaRecord { collation: Collation::Utf8mb4GeneralCi };
    let columns = vec![
        Column::new("id", SqlType::Year).not_null(),
        Column::new("v", SqlType::VarChar { chars: 40, collation: Collation::Latin1SwedishCi }),
    ];
    let table = TableRecord {
        id: 12,
        space: 9,
        trees: vec![TreeRecord { id: 1, root: 3 }, TreeRecord { id: 2, root: 4 }],
        auto_increment: 7,
        def: TableDef {
            schema: "test".into(),
            name: "t".into(),
            columns,
            indexes: vec![IndexDef::primary([0]), IndexDef::secondary("v", true, [1])],
            collation: Collation::Utf8mb4GeneralCi,
            comment: "a table".into(),
            checks: vec![CheckDef {
                name: "t_chk_1".into(),
                condition: "(`a` > 0)".into(),
                enforced: false,
            }],
            statistics: StatisticsOptions { persistent: Some(true), ..Default::default() },
        },
        unfinished: vec![TreeRecord { id: 5, root: 6 }],
    };
    let view = ViewDef {
        def: TableDef { indexes: Vec::new(), name: "v".into(), ..table.def.clone() },
        select: "select 1 AS `id`, 'x' AS `v`".into(),
        names_columns: true,
        algorithm: Algorithm::Temptable,
        check: CheckOption::Local,
        definer: ("root".into(), "%".into()),
        invoker: true,
        mode: 3,
        charset_client: Collation::Latin1SwedishCi,
        collation_connection: Collation::Binary,
        updatable: true,
    };
    let dictionary = Dictionary::default();
    let of = record::dictionary_table(&dictionary);
    let body =
        |row: Vec<u8>| of.layout.get(&row, 1).as_bytes().map(<[u8]>::to_vec).unwrap_or_default();
    let (schema, table, view) = (
        body(record::schema_row(&of, b"ds", &schema)),
        body(record::table_row(&of, b"tt", &table)),
        body(record::view_row(&of, b"tv", &view)),
    );
    vec![
        [b"\x02ds", &schema[..]].concat(),
        [b"\x02tt", &table[..]].concat(),
        [b"\x02tv", &view[..]].concat(),
    ]
}
