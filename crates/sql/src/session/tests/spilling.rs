//! Statements whose hash tables, groups and keys outgrow their memory give the rows that they give
//! with more memory.
use super::memory::failed;
use super::{World, lines};
use crate::session::Session;

/// The least that a statement may have, and more than any statement here needs.
const LITTLE: usize = 1 << 20;
const ENOUGH: usize = 1 << 30;
const ROWS: u64 = 12_000;

/// Tables of random rows: many different values, few of them, NULLs, and texts that a collation
/// takes for equal.
fn world() -> (World, Session) {
    let world = World::new();
    let mut s = world.session();
    lines(
        &mut s,
        "CREATE TABLE r (id INT PRIMARY KEY, k INT, s VARCHAR(80) COLLATE utf8mb4_general_ci, d \
            DECIMAL(12,3), f DOUBLE, e ENUM('x', 'y', 'z'), u VARCHAR(60), KEY (k))",
    );
    lines(&mut s, "CREATE TABLE q LIKE r");
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for table in ["r", "q"] {
        for first in (0..ROWS).step_by(1000) {
            let row = |id: u64| {
                let number = random(12_000);
                let k = if random(10) == 0 { "NULL".to_string() } else { random(9000).to_string() };
                let name = ["Abcdefghij", "aBCDEFGHIJ", "ABCDEFGHIJ"][random(3) as usize];
                let (d, f) = (random(1_000_000) as f64 / 1000.0, random(1000) as f64 / 7.0);
                let e = ["'x'", "'y'", "'z'", "NULL"][random(4) as usize];
                format!(
                    "({id}, {k}, '{name}{name}{name}{name}{number}', {d}, {f}, {e}, \
                        '{name}{name}{name}{id}')"
                )
            };
            let rows: Vec<String> = (first..first + 1000).map(row).collect();
            let text = format!("INSERT INTO {table} VALUES {}", rows.join(", "));
            assert_eq!(lines(&mut s, &text), ["ok 1000 0"]);
        }
    }
    lines(
        &mut s,
        "CREATE TABLE p (u VARCHAR(80) PRIMARY KEY, id INT, k INT, s VARCHAR(80), d \
            DECIMAL(12,3), KEY (id))",
    );
    assert_eq!(lines(&mut s, "INSERT INTO p SELECT u, id, k, s, d FROM r"), ["ok 12000 0"]);
    (world, s)
}
fn bound(s: &mut Session, bytes: usize) {
    assert_eq!(lines(s, &format!("SET redolith_statement_memory = {bytes}")), ["ok 0 0"]);
}
/// Runs a query with enough memory and with little, which makes files.
fn twice(world: &World, s: &mut Session, little: usize, text: &str) -> [Vec<String>; 2] {
    bound(s, ENOUGH);
    let wanted = lines(s, text);
    bound(s, little);
    let files = world.db.temporary.files();
    let got = lines(s, text);
    assert!(!failed(&wanted) && !failed(&got), "{text}: {:?} {:?}", wanted.last(), got.last());
    assert!(world.db.temporary.files() > files, "{text}");
    assert_eq!((world.db.temporary.used(), s.state.memory.statement.used()), (0, 0), "{text}");
    [wanted, got]
}
fn same(world: &World, s: &mut Session, little: usize, texts: &[&str]) {
    for text in texts {
        let [mut wanted, mut got] = twice(world, s, little, text);
        if !text.contains("ORDER BY 1") {
            wanted.sort();
            got.sort();
        }
        assert_eq!(wanted.len(), got.len(), "{text}");
        let other = wanted.iter().zip(&got).find(|(wanted, got)| wanted != got);
        assert_eq!(other, None, "{text}");
    }
}

/// Tests GROUP-1 and GROUP-2.
#[test]
fn late_groups_are_the_same_groups() {
    let (world, mut s) = world();
    same(
        &world,
        &mut s,
        LITTLE,
        &[
            "SELECT k, COUNT(*), SUM(d), AVG(f), MIN(s), MAX(s), BIT_XOR(id), STDDEV(f) FROM r \
                GROUP BY k",
            "SELECT s, COUNT(*), SUM(id), MIN(e), SUM(e), COUNT(e) FROM r GROUP BY s",
            "SELECT k, GROUP_CONCAT(id ORDER BY u DESC, id), GROUP_CONCAT(DISTINCT e ORDER BY \
                e), GROUP_CONCAT(d, u, f SEPARATOR '-') FROM r GROUP BY k",
            "SELECT k, JSON_ARRAYAGG(id > 7), JSON_OBJECTAGG(CONCAT('é', e), s), \
                JSON_ARRAYAGG(e) FROM r WHERE e IS NOT NULL GROUP BY k",
            "SELECT k, COUNT(*) AS n, MAX(u) FROM r GROUP BY k HAVING n > 1 AND MAX(id) % 3 > 0",
            "SELECT id, COUNT(*), MAX(u) FROM r GROUP BY id ORDER BY 1 LIMIT 9000, 1000",
            "SELECT u, d, COUNT(*) FROM r GROUP BY u, d ORDER BY 1, 2 LIMIT 11000, 200",
            "SELECT COUNT(*), SUM(n) FROM (SELECT u, COUNT(*) AS n FROM r GROUP BY u) AS g",
            "SELECT u, (SELECT COUNT(*) FROM q WHERE q.id = MAX(r.id)) AS n FROM r GROUP BY u",
            "SELECT r.u, COUNT(*), SUM(q.d) FROM r JOIN q ON r.id = q.id GROUP BY r.u",
            // Of the numbers of a double no sum is exact, and they are added in one order.
            "SELECT k % 100 AS g, SUM(f), VARIANCE(f), AVG(f), COUNT(DISTINCT u) FROM r GROUP BY g",
            "SELECT SQL_CALC_FOUND_ROWS u, COUNT(*) FROM r GROUP BY u ORDER BY 1 LIMIT 3",
        ],
    );
    assert_eq!(lines(&mut s, "SELECT FOUND_ROWS()"), [ROWS.to_string()]);
}

/// The sorts of late rows, of late values and of the result have their memory at the same time.
#[test]
fn late_rows_of_several_kinds_have_room_together() {
    let (world, mut s) = world();
    same(
        &world,
        &mut s,
        2 * LITTLE,
        &[
            "SELECT k, e, COUNT(*), SUM(d), COUNT(DISTINCT s), GROUPING(k, e) FROM r GROUP BY k, \
                e WITH ROLLUP",
            "SELECT s, e FROM r UNION ALL SELECT s, e FROM q UNION SELECT s, e FROM r",
        ],
    );
}

/// The values of DISTINCT in one group, and in few that are long. Tests GROUP-3.
#[test]
fn late_values_count_once() {
    let (world, mut s) = world();
    same(
        &world,
        &mut s,
        LITTLE,
        &[
            "SELECT COUNT(DISTINCT u), COUNT(DISTINCT s), COUNT(DISTINCT k), SUM(DISTINCT d) \
                FROM r",
            "SELECT COUNT(DISTINCT k, u), AVG(DISTINCT d), SUM(DISTINCT e), COUNT(*) FROM r",
            "SELECT e, COUNT(DISTINCT u), COUNT(DISTINCT s), SUM(DISTINCT d), MAX(u) FROM r \
                GROUP BY e",
            "SELECT e, COUNT(DISTINCT u), SUM(d) FROM r GROUP BY e WITH ROLLUP",
            "SELECT k % 4 AS g, COUNT(DISTINCT s, d), SUM(id) FROM r GROUP BY g ORDER BY 1",
            "SELECT COUNT(DISTINCT r.u, q.u) FROM r JOIN q ON q.id = r.id",
        ],
    );
}

/// Tests LATEROW-1.
#[test]
fn late_rows_of_distinct_come_once() {
    let (world, mut s) = world();
    same(
        &world,
        &mut s,
        LITTLE,
        &[
            "SELECT DISTINCT u FROM r",
            "SELECT DISTINCT s FROM r",
            "SELECT DISTINCT k, e, u FROM r ORDER BY 1 DESC, u",
            "SELECT DISTINCT s, k FROM r ORDER BY 1, k LIMIT 8000, 300",
            "SELECT DISTINCT CONCAT(s, k) AS x FROM r ORDER BY 1 LIMIT 4000",
            // The index has the order, and no sort follows.
            "SELECT DISTINCT id, u FROM r ORDER BY 1 DESC LIMIT 10000, 500",
            "SELECT DISTINCT id, u FROM r ORDER BY 1 DESC",
            "SELECT u FROM r UNION SELECT u FROM q",
            "SELECT COUNT(*), MIN(u) FROM (SELECT DISTINCT u, d FROM r) AS x",
            "SELECT SQL_CALC_FOUND_ROWS DISTINCT u FROM r ORDER BY 1 LIMIT 3",
        ],
    );
    assert_eq!(lines(&mut s, "SELECT FOUND_ROWS()"), [ROWS.to_string()]);
    // A LIMIT that is reached before the memory is needs no file.
    bound(&mut s, LITTLE);
    let files = world.db.temporary.files();
    assert_eq!(lines(&mut s, "SELECT DISTINCT u FROM r LIMIT 10").len(), 10);
    assert_eq!(world.db.temporary.files(), files);
}

/// Tests SETOP-2.
#[test]
fn set_operations_of_rows_in_files() {
    let (world, mut s) = world();
    same(
        &world,
        &mut s,
        LITTLE,
        &[
            "SELECT u FROM r INTERSECT SELECT u FROM q",
            "SELECT s FROM r EXCEPT SELECT s FROM q WHERE id % 3 = 0",
            "SELECT s, e FROM r EXCEPT ALL SELECT s, e FROM q WHERE id < 9000",
            "SELECT s FROM r INTERSECT ALL SELECT s FROM q",
            "SELECT k, s FROM r UNION ALL SELECT k, s FROM q EXCEPT ALL SELECT k, s FROM r WHERE \
                id % 2 = 0",
            "SELECT s FROM r EXCEPT SELECT s FROM q WHERE id % 2 = 0 UNION SELECT s FROM q \
                INTERSECT ALL SELECT s FROM r",
            "(SELECT s FROM r EXCEPT SELECT s FROM q) UNION ALL SELECT s FROM q EXCEPT ALL \
                SELECT u FROM r INTERSECT ALL SELECT s FROM q",
            "SELECT u FROM r INTERSECT SELECT u FROM r ORDER BY 1 LIMIT 10000, 100",
        ],
    );
}

/// Tests HASH-3 and HASH-5.
#[test]
fn entries_in_files_find_the_same_rows() {
    let (world, mut s) = world();
    same(
        &world,
        &mut s,
        LITTLE,
        &[
            "SELECT COUNT(*), SUM(a.id), SUM(b.id) FROM r AS a STRAIGHT_JOIN q AS b ON a.u = b.u",
            "SELECT COUNT(*), SUM(a.id), SUM(b.id), MAX(b.u) FROM r AS a STRAIGHT_JOIN q AS b ON \
                a.s = b.s",
            "SELECT a.id, b.id FROM r AS a LEFT JOIN q AS b ON a.s = b.s AND b.id % 3 = 0 WHERE \
                a.id < 3000 ORDER BY 1, 2",
            "SELECT COUNT(*), SUM(b.id) FROM r AS a LEFT JOIN q AS b ON a.k + 0 = b.k + 0",
            "SELECT COUNT(*) FROM r AS a STRAIGHT_JOIN (SELECT id, u, d FROM q) AS b ON a.id = \
                b.id AND b.d > 3",
            // Many rows of one key, in the order of the table, and a key of no row.
            "SELECT GROUP_CONCAT(b.id) FROM (SELECT 1 AS one UNION ALL SELECT 2) AS a \
                STRAIGHT_JOIN q AS b ON b.id * 0 + 1 = a.one WHERE b.id < 10000",
            "SELECT COUNT(*) FROM r AS a LEFT JOIN q AS b ON a.id = b.id * 2 + 1000000",
            "SELECT COUNT(*), SUM(c.id) FROM r AS a STRAIGHT_JOIN q AS b ON a.u = b.u \
                STRAIGHT_JOIN r AS c ON b.u = c.u",
            "SELECT a.id FROM r AS a STRAIGHT_JOIN q AS b ON a.u = b.u ORDER BY a.id DESC LIMIT 9",
        ],
    );
}

/// Tests LATEROW-1 for UPDATE and DELETE of several tables.
#[test]
fn late_rows_are_changed_once() {
    let (world, mut s) = world();
    let sums = "SELECT COUNT(*), SUM(id * k), SUM(d), SUM(CRC32(CONCAT_WS('-', s, u, k))) FROM";
    for text in [
        "UPDATE q STRAIGHT_JOIN p ON p.id = q.id DIV 2 + 3 SET p.k = q.id, q.d = 7",
        "UPDATE q STRAIGHT_JOIN p ON p.id = q.id SET p.d = IF(q.id % 3 = 0, p.d, q.d)",
        "DELETE p, q FROM q STRAIGHT_JOIN p ON p.id = q.id WHERE p.id % 5 > 0",
        "DELETE p FROM (SELECT 1 AS n UNION ALL SELECT 2) AS a JOIN p WHERE p.id >= a.n",
    ] {
        let files = world.db.temporary.files();
        let [wanted, got] = [ENOUGH, LITTLE].map(|bytes| {
            bound(&mut s, bytes);
            assert_eq!(lines(&mut s, "BEGIN"), ["ok 0 0"]);
            let mut all = lines(&mut s, text);
            assert!(!failed(&all), "{text}: {all:?}");
            all.extend(lines(&mut s, &format!("{sums} p")));
            all.extend(lines(&mut s, &format!("{sums} q")));
            assert_eq!(lines(&mut s, "ROLLBACK"), ["ok 0 0"]);
            all
        });
        assert_eq!(wanted, got, "{text}");
        assert!(world.db.temporary.files() > files, "{text}");
    }
}
