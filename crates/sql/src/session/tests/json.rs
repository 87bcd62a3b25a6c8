//! JSON in statements: what long documents cost, and the limits of results.
use super::{World, lines};

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
