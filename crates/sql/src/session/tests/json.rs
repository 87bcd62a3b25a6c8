//! JSON in statements: what long documents cost, and the limits of results.
use super::{Lines, World, lines};
use redolith_engine::runtime::block_on;

/// EVAL-JSON: the trees that functions make are in the statement's account.
#[test]
fn trees_of_long_documents_are_charged() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "CREATE TABLE d (id INT PRIMARY KEY, j JSON)");
    let text = |n| format!("CONCAT('[', REPEAT('1,', {n}), '1]')");
    assert_eq!(lines(&mut s, &format!("INSERT INTO d VALUES (1, {})", text(99_999))), ["ok 1 0"]);
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    for refused in [
        format!("SELECT JSON_LENGTH({})", text(99_999)),
        format!("SELECT JSON_VALID({})", text(99_999)),
        format!("SELECT JSON_LENGTH(CAST({} AS JSON))", text(99_999)),
        format!("INSERT INTO d VALUES (2, {})", text(99_999)),
        "SELECT JSON_LENGTH(JSON_SET(j, '$[0]', 2)) FROM d".to_string(),
        "SELECT JSON_LENGTH(JSON_REMOVE(j, '$[0]')) FROM d".to_string(),
        "SELECT JSON_LENGTH(JSON_MERGE_PRESERVE(j, j)) FROM d".to_string(),
    ] {
        assert_eq!(lines(&mut s, &refused), ["error 3170"], "{refused}");
    }
    // What looks into a document makes no tree.
    let read = "SELECT JSON_LENGTH(j), j->'$[99999]', JSON_DEPTH(j), JSON_CONTAINS(j, '1') FROM d";
    assert_eq!(lines(&mut s, read), ["100000|1|2|1"]);
    assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM d"), ["1"]);
}

/// Tests EVAL-3 for JSON: no document is longer than max_allowed_packet.
#[test]
fn documents_are_bounded() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "SET GLOBAL max_allowed_packet = 4096");
    let mut s = world.session();
    let long = "REPEAT('a', 3000)";
    assert_eq!(lines(&mut s, &format!("SELECT JSON_LENGTH(JSON_ARRAY({long}))")), ["1"]);
    let longer = format!("SELECT JSON_ARRAY({long}, {long}) IS NULL");
    assert_eq!(lines(&mut s, &longer), ["1"]);
    assert!(lines(&mut s, "SHOW WARNINGS")[0].contains("json_array"));
}

#[test]
fn a_document_has_the_table_in_its_error() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "CREATE TABLE d (id INT PRIMARY KEY, j JSON)");
    lines(&mut s, "INSERT INTO d VALUES (1, '{}')");
    for statement in [
        "INSERT INTO d VALUES (2, 'x')",
        "INSERT INTO d SELECT 2, 'x'",
        "UPDATE d SET j = 'x'",
        "INSERT INTO d VALUES (1, '1') ON DUPLICATE KEY UPDATE j = 'x'",
        "REPLACE INTO d VALUES (1, 'x')",
    ] {
        assert_eq!(lines(&mut s, statement), ["error 3140"], "{statement}");
        let warnings = lines(&mut s, "SHOW WARNINGS");
        assert!(warnings[0].contains("'d.j'"), "{statement}: {warnings:?}");
    }
}

/// EVAL-JSON: what functions find, keep and print is in the statement's account, too.
#[test]
fn answers_about_long_documents_are_charged() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "SET @a = CONCAT('[', REPEAT('1,', 20000), '1]')");
    let strings = "REPEAT('\"x\",', 500)";
    lines(
        &mut s,
        &format!("SET @s = CONCAT('{{\"', REPEAT('k', 60000), '\":[', {strings}, '1]}}')"),
    );
    lines(&mut s, "SET @n = CONCAT(REPEAT('[', 98), REPEAT('1,', 20000), '1', REPEAT(']', 98))");
    lines(&mut s, "SET redolith_statement_memory = 8388608");
    let many = |item: &str, n| vec![item; n].join(", ");
    for refused in [
        format!("SELECT JSON_LENGTH(JSON_EXTRACT(@a, {}))", many("'$[*]'", 40)),
        "SELECT JSON_LENGTH(JSON_SEARCH(@s, 'all', 'x'))".to_string(),
        format!("SELECT LENGTH(JSON_PRETTY(JSON_ARRAY({})))", many("CAST(@n AS JSON)", 4)),
        format!("SELECT JSON_LENGTH(JSON_ARRAY({}))", many("REPEAT('a', 1000000)", 9)),
        format!("SELECT JSON_LENGTH(JSON_OBJECT({}))", many("REPEAT('a', 60000), 1", 200)),
        "SELECT LENGTH(JSON_QUOTE(REPEAT(CHAR(1 USING utf8mb4), 3000000)))".to_string(),
    ] {
        assert_eq!(lines(&mut s, &refused), ["error 3170"], "{refused}");
    }
    assert_eq!(lines(&mut s, "SELECT JSON_LENGTH(@a)"), ["20001"]);
}

/// No text takes the place of bytes that are none.
#[test]
fn bytes_that_are_no_text_are_refused() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "CREATE TABLE d (id INT PRIMARY KEY, j JSON)");
    let mut refused = |text: &[u8]| {
        let mut text = text.to_vec();
        let place = text.iter().position(|b| *b == b'~').unwrap();
        text[place] = 0xff;
        let mut out = Lines::default();
        block_on(s.query(&text, &mut out));
        out.lines
    };
    assert_eq!(refused(b"INSERT INTO d VALUES (1, '\"a~b\"')"), ["error 3140"]);
    assert_eq!(refused(b"SELECT JSON_ARRAY('~')"), ["error 1300"]);
    assert_eq!(refused(b"SELECT JSON_QUOTE('~')"), ["error 1300"]);
    assert_eq!(refused(b"SELECT JSON_OBJECT('~', 1)"), ["error 1300"]);
}

/// JTAB-4: the document of a JSON_TABLE and the places of its values are in the statement's
/// account, and rows go to a file when they have outgrown their memory.
#[test]
fn rows_of_json_table_are_charged() {
    let world = World::new();
    let mut s = world.session();
    let count = |elements: usize| {
        format!(
            "SELECT COUNT(*), SUM(v) FROM JSON_TABLE(CONCAT('[', REPEAT('1,', {elements}), '1]'), \
             '$[*]' COLUMNS (v INT PATH '$')) t"
        )
    };
    assert_eq!(lines(&mut s, &count(99_999)), ["100000|100000"]);
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    assert_eq!(lines(&mut s, &count(99_999)), ["error 3170"]);
    assert_eq!(lines(&mut s, &count(999)), ["1000|1000"]);
    // Of one document there are as many values as a path finds, and each of them can be large.
    let many = "SELECT COUNT(*) FROM JSON_TABLE(CONCAT(REPEAT('[', 90), '\"', REPEAT('x', 20000), \
        '\"', REPEAT(']', 90)), '$**[*]' COLUMNS (j JSON PATH '$')) t";
    assert_eq!(lines(&mut s, many), ["90"]);
    assert_eq!(lines(&mut s, "SELECT 1"), ["1"]);
}

/// JTAB-1: the columns of a JSON_TABLE are counted while they are read.
#[test]
fn columns_of_json_table_are_bounded() {
    let world = World::new();
    let mut s = world.session();
    let table = |columns: usize| {
        let list: Vec<String> = (0..columns).map(|n| format!("c{n} INT PATH '$'")).collect();
        format!("SELECT c0, c{} FROM JSON_TABLE('7', '$' COLUMNS ({})) t", columns - 1, {
            list.join(", ")
        })
    };
    assert_eq!(lines(&mut s, &table(1_000)), ["7|7"]);
    assert_eq!(lines(&mut s, &table(4_096)), ["7|7"]);
    assert_eq!(lines(&mut s, &table(4_097)), ["error 1117"]);
    assert_eq!(lines(&mut s, &table(100_000)), ["error 1117"]);
}

/// JTAB-2: a path gives rows for its own values and for those of the paths in it, in their order.
#[test]
fn nested_paths_follow_one_another() {
    let world = World::new();
    let mut s = world.session();
    let document = r#"[{"a": [1, 2], "b": [{"c": []}, {"c": [3]}]}, {}]"#;
    let text = format!(
        "SELECT * FROM JSON_TABLE('{document}', '$[*]' COLUMNS (n FOR ORDINALITY, NESTED '$.a[*]' \
         COLUMNS (a INT PATH '$'), NESTED '$.b[*]' COLUMNS (m FOR ORDINALITY, NESTED '$.c[*]' \
         COLUMNS (c INT PATH '$')))) t"
    );
    let expected =
        ["1|1|NULL|NULL", "1|2|NULL|NULL", "1|NULL|1|NULL", "1|NULL|2|3", "2|NULL|NULL|NULL"];
    assert_eq!(lines(&mut s, &text), expected);
    // Each row of the table before begins anew, and rows that are wanted no more are not made.
    lines(&mut s, "CREATE TABLE d (id INT PRIMARY KEY, j JSON)");
    lines(&mut s, "INSERT INTO d VALUES (1, '[1,2]'), (2, '[]'), (3, '[3]')");
    let join = "SELECT id, v FROM d LEFT JOIN JSON_TABLE(j, '$[*]' COLUMNS (v INT PATH '$')) t ON \
        v <> 2 ORDER BY id";
    assert_eq!(lines(&mut s, join), ["1|1", "2|NULL", "3|3"]);
}

/// JTAB-3: a default that its column cannot hold fails the statement without a row.
#[test]
fn defaults_of_json_table_are_checked() {
    let world = World::new();
    let mut s = world.session();
    let mut table = |column: &str| {
        lines(&mut s, &format!("SELECT * FROM JSON_TABLE('[]', '$[*]' COLUMNS ({column})) t"))
    };
    assert_eq!(table("a INT PATH '$' DEFAULT 'x' ON EMPTY"), ["error 1067"]);
    assert_eq!(table("a INT PATH '$' DEFAULT '[]' ON ERROR"), ["error 1067"]);
    assert_eq!(table("a TINYINT PATH '$' DEFAULT '128' ON ERROR"), ["error 3669"]);
    assert!(table("a TINYINT PATH '$' DEFAULT '127' ON ERROR").is_empty());
    let nested = "NESTED PATH '$' COLUMNS (";
    let paths = |n: usize| format!("{}a INT PATH '$'{}", nested.repeat(n), ")".repeat(n));
    assert!(table(&paths(14)).is_empty());
    assert_eq!(table(&paths(15)), ["error 3670"]);
}
