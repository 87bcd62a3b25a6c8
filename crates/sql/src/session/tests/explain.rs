//! EXPLAIN in all its forms.
use super::{World, lines};
use crate::session::Session;

fn one(s: &mut Session, text: &str) -> String {
    let mut answer = lines(s, text);
    assert_eq!(answer.len(), 1, "{text} {answer:?}");
    answer.remove(0)
}

#[test]
fn show_all() {
    let w = World::new();
    let mut s = w.session();
    for text in [
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(10), KEY a (a), KEY bc (b, c))",
        "CREATE TABLE u (id INT PRIMARY KEY, a INT, x INT, KEY a (a))",
        "CREATE TABLE v (id INT PRIMARY KEY, y INT, j JSON)",
        "INSERT INTO t VALUES (1,1,1,'a'),(2,2,2,'b'),(3,3,3,'c'),(4,4,4,'d')",
        "INSERT INTO u VALUES (1,1,1),(2,2,2),(3,3,3),(5,5,5)",
        "INSERT INTO v VALUES (1,1,'[1,2]'),(2,2,'[3]'),(3,3,NULL)",
        "ANALYZE TABLE t, u, v",
    ] {
        lines(&mut s, text);
    }
    for text in [
        "SELECT 1",
        "SELECT * FROM t WHERE id = 1",
        "SELECT * FROM t WHERE a = 3 AND b > 1",
        "SELECT a FROM t WHERE a IN (1, 2, 3, 4) AND c LIKE 'x''%'",
        "SELECT * FROM t WHERE 1 = 0",
        "SELECT b, c FROM t WHERE b = 2 AND c > 'a'",
        "SELECT t.id, u.x FROM t JOIN u ON t.b = u.x WHERE t.id > 1 ORDER BY u.x DESC LIMIT 2, 3",
        "SELECT t.id FROM t LEFT JOIN u ON u.a = t.a AND u.x > 1 WHERE u.id IS NULL",
        "SELECT t.id FROM t LEFT JOIN (u JOIN v ON u.x = v.y) ON u.x = t.b",
        "SELECT a, COUNT(*), SUM(b + 1) FROM t GROUP BY a HAVING COUNT(*) > 1 ORDER BY 2",
        "SELECT b, MAX(c) FROM t GROUP BY b WITH ROLLUP",
        "SELECT DISTINCT b FROM t",
        "SELECT id, (SELECT MAX(x) FROM u WHERE u.a = t.a) FROM t WHERE EXISTS (SELECT 1 FROM v WHERE v.y = t.b) AND t.a > (SELECT AVG(y) FROM v)",
        "SELECT d.n FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS d WHERE d.n > 1",
        "SELECT 1 UNION SELECT a FROM t ORDER BY 1 LIMIT 3",
        "SELECT 1 UNION ALL SELECT a FROM t",
        "SELECT a FROM t INTERSECT SELECT x FROM u",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r",
        "SELECT id, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC), SUM(b) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "SELECT t.id, l.m FROM t, LATERAL (SELECT MAX(x) AS m FROM u WHERE u.a = t.b) AS l",
        "SELECT v.id, q.k FROM v, JSON_TABLE(v.j, '$[*]' COLUMNS (k INT PATH '$')) AS q",
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'x'",
        "SELECT COUNT(*) FROM t WHERE a IN (SELECT x FROM u)",
        "TABLE t",
        "VALUES ROW(1), ROW(2)",
    ] {
        println!("== {text}");
        for row in lines(&mut s, &format!("EXPLAIN {text}")) {
            println!("{row}");
        }
        println!("{}", one(&mut s, &format!("EXPLAIN FORMAT=TREE {text}")));
        println!("{}", one(&mut s, &format!("EXPLAIN ANALYZE {text}")));
        let json = one(&mut s, &format!("EXPLAIN FORMAT=JSON {text}"));
        println!("{json}");
    }
    for text in [
        "INSERT INTO t VALUES (9, 9, 9, '')",
        "REPLACE INTO t SELECT id, a, x, '' FROM u",
        "UPDATE t SET a = 1 WHERE a > 2 ORDER BY b LIMIT 1",
        "UPDATE t SET b = (SELECT MAX(x) FROM u) WHERE id = 1",
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.x = t.b)",
        "UPDATE t JOIN u ON t.id = u.id SET t.a = 1, u.a = 2",
        "DELETE t FROM t JOIN u ON t.id = u.id",
    ] {
        println!("== {text}");
        for row in lines(&mut s, &format!("EXPLAIN {text}")) {
            println!("{row}");
        }
        println!("{}", one(&mut s, &format!("EXPLAIN FORMAT=TREE {text}")));
        let json = one(&mut s, &format!("EXPLAIN FORMAT=JSON {text}"));
        println!("{json}");
    }
}
