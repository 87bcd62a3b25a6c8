//! Texts of statements: they are split, parameterized, parsed and bound with a small catalogue.
use crate::take;
use redolith_sql::bind::{BindContext, Bound, Params, bind};
use redolith_sql::explain::Format;
use redolith_sql::parse::charsets::TextCharsets;
use redolith_sql::parse::{self, Bounds, Parsed, ast, literal, parameterize::Parameterized};
use redolith_sql::plan::{DdlStmt, ExprType, Statement};
use redolith_sql::processes::{Process, Processes};
use redolith_sql::settings::Var;
use redolith_sql::sql_mode::SqlMode;
use redolith_sql::table_info::{Catalog, TableInfo};
use redolith_types::Collation;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

const DEFINITIONS: [&str; 3] = [
    "CREATE TABLE t (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(100), c \
        DECIMAL(10,2), d DATETIME(3), \
     e ENUM('x','y','z'), f SET('p','q'), g DOUBLE, h BLOB, i TIME, j YEAR, k BIT(9), KEY ab (a, \
     b), UNIQUE KEY c (c))",
    "CREATE TABLE u (id INT PRIMARY KEY, t_id BIGINT, v CHAR(10) CHARACTER SET latin1, w DATE, KEY \
        (t_id), KEY (v(3)))",
    "CREATE TABLE a (a INT, b TEXT, j JSON)",
];

#[derive(Default)]
struct Tables(BTreeMap<String, Arc<TableInfo>>);
impl Catalog for Tables {
    fn schema(&self, name: &str) -> Option<Collation> {
        (name == "test").then_some(Collation::Utf8mb4GeneralCi)
    }
    fn table(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>> {
        (schema == "test").then(|| self.0.get(name).cloned()).flatten()
    }
}

static PROCESS: LazyLock<Arc<Process>> = LazyLock::new(|| Processes::new().add("localhost", 10));
/// The bounds that a session has by default.
fn bounds() -> Bounds<'static> {
    Bounds { memory: 512 << 20, process: &PROCESS }
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables::default();
    for sql in DEFINITIONS {
        let parsed = parse::parse(
            sql.as_bytes(),
            0..sql.len(),
            None,
            SqlMode::default(),
            TextCharsets::UTF8,
            bounds(),
        )
        .expect("a definition");
        let bound = plan(&tables, &parsed, Params::Marks).expect("a definition");
        if let Statement::Ddl(DdlStmt::CreateTable(create)) = bound.plan.body {
            tables.0.insert(create.def.name.clone(), Arc::new(TableInfo::definition(create.def)));
        }
    }
    tables
});

fn variable_type(name: &str) -> Option<ExprType> {
    Var::from_name(name).map(|_| ExprType::string(64, Collation::Utf8mb4GeneralCi))
}

fn plan(tables: &Tables, parsed: &Parsed<'_>, params: Params) -> Option<Bound> {
    let cx = BindContext {
        catalog: tables,
        schema: Some("test"),
        account: ("root", "localhost"),
        mode: parsed.mode,
        collation: Collation::Utf8mb4GeneralCi,
        utf8mb4: Collation::Utf8mb4GeneralCi,
        file_charset: redolith_types::Charset::Utf8mb4,
        div_precision_increment: 4,
        group_concat_max_len: 1024,
        explain_format: Format::Traditional,
        variable_type: &variable_type,
        user_variable_type: &|name| name.starts_with('x').then(|| ExprType::bigint(20)),
        untyped: &[],
        bounds: bounds(),
    };
    bind(parsed, &cx, params).ok()
}

/// Makes a plan as a session does: the first of many rows stands for all.
fn of_text(text: &[u8], start: usize, parameterized: &Parameterized, mode: SqlMode) {
    if let Some(repeat) = &parameterized.repeat
        && let Ok(parsed) = parse::parse(
            text,
            start..parameterized.end,
            Some(repeat.skip.clone()),
            mode,
            TextCharsets::UTF8,
            bounds(),
        )
        && let ast::Statement::Insert(insert) = &parsed.statement
        && matches!(&insert.source, ast::InsertSource::Values(rows) if rows.len() == 1)
    {
        plan(&TABLES, &parsed, Params::Literals { row_stride: Some(repeat.stride as u32) });
    }
    let Ok(parsed) =
        parse::parse(text, start..parameterized.end, None, mode, TextCharsets::UTF8, bounds())
    else {
        return;
    };
    plan(&TABLES, &parsed, Params::Literals { row_stride: None });
    plan(&TABLES, &parsed, Params::Marks);
}

/// The first byte chooses the SQL mode. The rest is the text of a COM_QUERY. The caller's stack
/// must be as long as a server thread's, because the parser's limits on depth are made for that
/// stack.
pub fn text(data: &[u8]) {
    const MODES: [u64; 4] = [
        SqlMode::NO_BACKSLASH_ESCAPES,
        SqlMode::ANSI_QUOTES,
        SqlMode::PIPES_AS_CONCAT,
        SqlMode::IGNORE_SPACE,
    ];
    let ([modes], text) = take::<1>(data);
    let chosen = MODES
        .iter()
        .enumerate()
        .filter(|(i, _)| modes >> i & 1 == 1)
        .fold(0, |all, (_, mode)| all | mode);
    let mode = SqlMode(SqlMode::default().0 | chosen);
    let (mut start, mut parameterized) = (0, Parameterized::default());
    for _ in 0..16 {
        if parameterized.read(text, start, mode, bounds()).is_err() {
            return;
        }
        let (range, next) = parse::split(text, start, mode);
        assert_eq!(
            (range.end, next),
            (parameterized.end, parameterized.next),
            "both ways of cutting a text agree"
        );
        for token in &parameterized.literals {
            let _ = literal::value(
                *token,
                text,
                !mode.has(SqlMode::NO_BACKSLASH_ESCAPES),
                TextCharsets::UTF8,
            );
        }
        of_text(text, start, &parameterized, mode);
        match next {
            Some(next) => start = next,
            None => return,
        }
    }
}

/// The statements of the front end's cases, which are beside its tests.
pub fn seeds() -> Vec<Vec<u8>> {
    const CASES: [&str; 6] = [
        include_str!("../../sql/tests/cases/access.test"),
        include_str!("../../sql/tests/cases/clients.test"),
        include_str!("../../sql/tests/cases/definitions.test"),
        include_str!("../../sql/tests/cases/errors.test"),
        include_str!("../../sql/tests/cases/results.test"),
        include_str!("../../sql/tests/cases/syntax.test"),
    ];
    let statement = |block: &str| {
        let lines: Vec<&str> = block
            .lines()
            .filter(|l| !l.starts_with('#'))
            .skip(1)
            .take_while(|l| *l != "----")
            .collect();
        [b"\0", lines.join("\n").as_bytes()].concat()
    };
    CASES.iter().flat_map(|text| text.split("\n\n")).map(statement).collect()
}
