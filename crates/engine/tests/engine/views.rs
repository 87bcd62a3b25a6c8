//! Definitions of views in the dictionary: they survive a crash as tables do, whole or not at all.

use crate::common::tables::{create, open};
use crate::common::{Dir, at_one_moment, copy};
use redolith_engine::dict::view::{Algorithm, CheckOption, ViewDef};
use redolith_engine::runtime::block_on;
use redolith_engine::{DEFAULT_COLLATION, Engine, Error};
use redolith_types::{Column, SqlType, TableDef};
use std::sync::Arc;

fn view(name: &str, select: &str) -> ViewDef {
    ViewDef {
        def: TableDef {
            schema: "test".into(),
            name: name.into(),
            columns: vec![Column::new("a", SqlType::Year)],
            indexes: Vec::new(),
            collation: DEFAULT_COLLATION,
            comment: String::new(),
            checks: Vec::new(),
            statistics: Default::default(),
        },
        select: select.into(),
        names_columns: false,
        algorithm: Algorithm::Merge,
        check: CheckOption::Cascaded,
        definer: ("u".into(), "h".into()),
        invoker: true,
        mode: 7,
        charset_client: DEFAULT_COLLATION,
        collation_connection: DEFAULT_COLLATION,
        updatable: true,
    }
}
/// The names of the tables, and of the views with their SELECTs, in a directory after a crash.
async fn after_a_crash(running: &Engine, dir: &Dir) -> Vec<String> {
    let crashed = at_one_moment(running, &dir.0, || {
        let crashed = Dir::new("views-crashed");
        copy(&dir.0, &crashed.0);
        crashed
    })
    .await;
    let (e, _) = open(&crashed);
    names(&e)
}
fn names(e: &Arc<Engine>) -> Vec<String> {
    let tables = e.dict.tables("test").into_iter().map(|t| t.def.name.clone());
    let view = |v: Arc<redolith_engine::dict::view::View>| {
        format!("{} {} {:?}", v.def.def.name, v.def.select, v.def.check)
    };
    tables.chain(e.dict.views("test").into_iter().map(view)).collect()
}

/// Tests VIEWDEF-1 and VIEWDEF-2.
#[test]
fn views_survive_as_tables_do() {
    let dir = Dir::new("views");
    let (e, _) = open(&dir);
    block_on(async {
        let t = create(&e, "t", Vec::new(), Vec::new()).await;
        e.create_view(view("v", "one"), false, None).await.unwrap();
        assert_eq!(after_a_crash(&e, &dir).await, ["t", "v one Cascaded"]);
        for name in ["t", "v"] {
            let taken = e.create_view(view(name, "two"), false, None).await;
            assert!(matches!(taken, Err(Error::TableExists(_))), "{name}");
        }
        let on_view = e.create_table(view("v", "").def, 1, None).await;
        assert!(matches!(on_view, Err(Error::TableExists(_))));
        let old = e.dict.view("test", "v").unwrap();
        e.create_view(view("v", "two"), true, None).await.unwrap();
        assert!(!old.is_current());
        // A table and a view take each other's names.
        let v = e.dict.view("test", "v").unwrap();
        let [to_v, to_t] = ["v", "t"].map(|name| ("test".to_string(), name.to_string()));
        let tables = [(t, to_v.0, to_v.1)];
        e.rename_tables(&tables, &[(v.clone(), to_t.0, to_t.1)], None).await.unwrap();
        assert!(!v.is_current());
        assert_eq!(after_a_crash(&e, &dir).await, ["v", "t two Cascaded"]);
        assert_eq!(names(&e), ["v", "t two Cascaded"]);
        let t = e.dict.view("test", "t").unwrap();
        e.create_view(view("w", "three"), false, None).await.unwrap();
        e.drop_views(std::slice::from_ref(&t), None).await.unwrap();
        assert!(!t.is_current());
        assert_eq!(after_a_crash(&e, &dir).await, ["v", "w three Cascaded"]);
        assert_eq!(e.drop_schema("test", None).await.unwrap(), 2);
        assert_eq!(after_a_crash(&e, &dir).await, Vec::<String>::new());
    });
}
