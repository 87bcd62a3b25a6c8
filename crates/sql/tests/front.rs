//! Cases for statements that need no engine: which statements are accepted, which are refused with
//! which error, which index is chosen, and the names of columns.
//!
//! A case is a directive, SQL up to a blank line or `----`, and the expected result:
//! - `ok`: the statement is accepted. CREATE TABLE and CREATE DATABASE take effect for later cases.
//! - `error CODE [text]`: the statement is refused, and the message contains the text.
//! - `explain`: EXPLAIN's table|type|key|key_len|ref|Extra, one line per row.
//! - `columns`: the names of the result's columns, one per line.
//! - `types`: the names and types of the result's columns, one per line.
//! - `pinned`: the text of the literals on which the plan depends.
use redolith_sql::bind::{BindContext, Params, bind};
use redolith_sql::explain::Format;
use redolith_sql::parse::{self, Bounds, parameterize::Parameterized};
use redolith_sql::plan::{DdlStmt, ExprType, Plan, Statement};
use redolith_sql::processes::Processes;
use redolith_sql::sql_mode::SqlMode;
use redolith_sql::table_info::{Catalog, TableInfo};
use redolith_sql::{LEAST_STACK_BYTES, SqlError};
use redolith_types::{Collation, Column, DefaultValue, SqlType, TableDef, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
struct Tables {
    schemas: BTreeMap<String, Collation>,
    tables: BTreeMap<(String, String), Arc<TableInfo>>,
}
impl Catalog for Tables {
    fn schema(&self, name: &str) -> Option<Collation> {
        self.schemas.get(name).copied()
    }
    fn table(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>> {
        self.tables.get(&(schema.to_string(), name.to_string())).cloned()
    }
}

fn plan(tables: &Tables, sql: &str, params: Params) -> Result<(Plan, Vec<String>), SqlError> {
    let known = |name: &str| match name {
        "version" | "sql_mode" => Some(ExprType::string(64, Collation::Utf8mb4GeneralCi)),
        "max_allowed_packet" | "autocommit" => Some(ExprType::unsigned_bigint(21)),
        _ => None,
    };
    let mode = SqlMode::default();
    let process = Processes::new().add("", 1);
    let bounds = Bounds { memory: usize::MAX, process: &process };
    let cx = BindContext {
        catalog: tables,
        schema: Some("test"),
        account: ("root", "localhost"),
        mode,
        collation: Collation::Utf8mb4GeneralCi,
        utf8mb4: Collation::Utf8mb4GeneralCi,
        file_charset: redolith_types::Charset::Utf8mb4,
        div_precision_increment: 4,
        group_concat_max_len: 1024,
        explain_format: Format::Traditional,
        variable_type: &known,
        user_variable_type: &|_| None,
        untyped: &[],
        bounds,
    };
    let mut parameterized = Parameterized::default();
    parameterized.read(sql.as_bytes(), 0, mode, bounds)?;
    let parsed = parse::parse(
        sql.as_bytes(),
        0..parameterized.end,
        None,
        mode,
        parse::charsets::TextCharsets::UTF8,
        bounds,
    )?;
    let bound = bind(&parsed, &cx, params)?;
    let text = |n: &u32| {
        String::from_utf8_lossy(parsed.literals[*n as usize].text(sql.as_bytes())).into_owned()
    };
    let pinned = bound.pinned.iter().map(text).collect();
    Ok((bound.plan, pinned))
}

fn take_effect(tables: &mut Tables, plan: Plan) {
    match plan.body {
        Statement::Ddl(DdlStmt::CreateTable(create)) => {
            let key = (create.def.schema.clone(), create.def.name.clone());
            tables.tables.insert(key, Arc::new(TableInfo::definition(create.def)));
        }
        Statement::Ddl(DdlStmt::CreateDatabase { name, collation, .. }) => {
            tables.schemas.insert(name.into(), collation.unwrap_or(Collation::Utf8mb4GeneralCi));
        }
        _ => {}
    }
}

fn result_of(tables: &mut Tables, directive: &str, sql: &str) -> Result<Vec<String>, SqlError> {
    let literals = Params::Literals { row_stride: None };
    Ok(match directive {
        "explain" => {
            let (plan, _) = plan(tables, &format!("EXPLAIN {sql}"), Params::Marks)?;
            let Statement::Rows(rows) = plan.body else { panic!("EXPLAIN gives rows") };
            let cell = |v: &Value<'_>| if v.is_null() { "-".to_string() } else { v.to_string() };
            rows.iter().map(|r| [2, 4, 6, 7, 8, 11].map(|c| cell(&r[c])).join("|")).collect()
        }
        "columns" => {
            plan(tables, sql, literals)?.0.columns.iter().map(|c| c.name.to_string()).collect()
        }
        "types" => {
            let plan = plan(tables, sql, literals)?.0;
            let describe = |t: &ExprType| {
                let null = if t.nullable { "" } else { " not null" };
                let unsigned = if t.unsigned { " unsigned" } else { "" };
                format!("{:?}({},{}){unsigned}{null}", t.kind, t.length, t.decimals)
            };
            plan.columns.iter().map(|c| format!("{}: {}", c.name, describe(&c.ty))).collect()
        }
        "pinned" => plan(tables, sql, literals)?.1,
        _ => {
            // Both ways of making a plan must accept the same statements.
            let made = plan(tables, sql, Params::Marks)?.0;
            if made.params == 0 {
                plan(tables, sql, literals)?;
            }
            take_effect(tables, made);
            Vec::new()
        }
    })
}

fn run(name: &str, text: &str) {
    let mut tables = Tables::default();
    tables.schemas.insert("test".into(), Collation::Utf8mb4GeneralCi);
    let mut failures = Vec::new();
    let mut cases = 0;
    for block in text.split("\n\n") {
        let lines: Vec<&str> = block.lines().filter(|l| !l.starts_with('#')).collect();
        let Some((directive, rest)) = lines.split_first() else { continue };
        let (sql, expected) = match rest.iter().position(|l| *l == "----") {
            Some(i) => (&rest[..i], &rest[i + 1..]),
            None => (rest, &[] as &[&str]),
        };
        let sql = sql.join("\n");
        cases += 1;
        let (word, argument) = directive.split_once(' ').unwrap_or((directive, ""));
        let got = result_of(&mut tables, word, &sql);
        match (word, got) {
            ("error", Err(e)) => {
                let (code, part) = argument.split_once(' ').unwrap_or((argument, ""));
                if e.code.to_string() != code || !e.message.contains(part) {
                    failures.push(format!("{sql}\n  expected {argument}\n  got {e}"));
                }
            }
            ("error", Ok(_)) => {
                failures.push(format!("{sql}\n  expected {argument}, but it was accepted"))
            }
            (_, Err(e)) => failures.push(format!("{sql}\n  {e}")),
            (_, Ok(lines)) if lines != expected => {
                failures.push(format!("{sql}\n  expected {expected:#?}\n  got {lines:#?}"))
            }
            _ => {}
        }
    }
    assert!(cases > 0, "{name} holds no cases");
    assert!(
        failures.is_empty(),
        "{name}: {} of {cases} failed\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

macro_rules! files {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let cases = include_str!(concat!("cases/", stringify!($name), ".test"));
            let body = || run(stringify!($name), cases);
            // A stack as long as the server's threads have.
            let thread = std::thread::Builder::new().stack_size(2 * LEAST_STACK_BYTES);
            thread.spawn(body).unwrap().join().unwrap();
        })*
    };
}
files!(clients syntax errors access results definitions);

/// A stored definition is not trusted: CREATE TABLE may not have checked it.
#[test]
fn a_stored_default_with_a_subquery_is_refused_where_it_is_read() {
    let mut column = Column::new("a", SqlType::INT);
    column.default = Some(DefaultValue::Expr("(SELECT 1)".into()));
    let def = TableDef {
        schema: "test".into(),
        name: "d".into(),
        columns: vec![column],
        indexes: Vec::new(),
        collation: Collation::Utf8mb4GeneralCi,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    let mut tables = Tables::default();
    tables.tables.insert(("test".into(), "d".into()), Arc::new(TableInfo::definition(def)));
    for sql in [
        "INSERT INTO d (a) VALUES (DEFAULT)",
        "INSERT INTO d () VALUES ()",
        "UPDATE d SET a = DEFAULT",
    ] {
        assert_eq!(plan(&tables, sql, Params::Marks).unwrap_err().code, 3769, "{sql}");
    }
    assert!(plan(&tables, "SELECT a FROM d", Params::Marks).is_ok());
}
