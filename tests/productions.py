#!/usr/bin/env python3
"""Runs every production of the grammar, 200,000 levels deep and up to 200,000 items wide, as text
and prepared.

  tests/productions.py

A statement with too many levels or items has to be refused by their number, before any code
recurses over them or searches them again and again. Other statements run. `tests/depth.py` runs the
highest statements that are accepted.
"""

import concurrent.futures
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import servers  # noqa: E402
from rig.client import MySQLError, outcome  # noqa: E402
from rig.report import Report  # noqa: E402

MANY = 200_000
# A production does not take so many seconds, even beside other stages.
AT_MOST = 60
# The text before the levels, the text that opens a level, the innermost text, the text that closes
# a level, the text after the levels, and the error.
DEEP = [
    # Operators.
    ("SELECT ", "(", "1", ")", "", 1436),
    ("SELECT ", "- ", "1", "", "", 1436),
    ("SELECT ", "+ ", "1", "", "", 1436),
    ("SELECT ", "~ ", "1", "", "", 1436),
    ("SELECT ", "! ", "1", "", "", 1436),
    ("SELECT ", "NOT ", "1", "", "", 1436),
    ("SELECT ", "BINARY ", "1", "", "", 1436),
    ("SELECT ", "1+(", "1", ")", "", 1436),
    ("SELECT ", "(1*", "1", ")", "", 1436),
    ("SELECT ", "1 | 1 & 1 << 1 + 1 * 1 ^ (", "1", ")", "", 1436),
    ("SELECT ", "1 OR (", "1", ")", "", 1436),
    ("SELECT ", "1 XOR (", "1", ")", "", 1436),
    ("SELECT ", "1 AND (", "1", ")", "", 1436),
    ("SELECT ", "1 = (", "1", ")", "", 1436),
    ("SELECT ", "(", "1", ") IS NULL", "", 1436),
    ("SELECT ", "(", "1", ") IS NOT TRUE", "", 1436),
    ("SELECT ", "1 BETWEEN 0 AND ", "1", "", "", 1436),
    ("SELECT ", "1 BETWEEN (", "1", ") AND 1", "", 1436),
    ("SELECT ", "(", "1", ") NOT BETWEEN 1 AND 1", "", 1436),
    ("SELECT ", "1 IN (", "1", ")", "", 1436),
    ("SELECT ", "1 IN (1, 2, ", "1", ")", "", 1436),
    ("SELECT ", "(", "1", ") IN (1)", "", 1436),
    ("SELECT ", "'a' LIKE (", "1", ")", "", 1436),
    ("SELECT ", "'a' LIKE 'b' ESCAPE (", "1", ")", "", 1436),
    ("SELECT ", "(", "1", ") LIKE 'a'", "", 1436),
    ("SELECT ", "'a' REGEXP (", "1", ")", "", 1436),
    ("SELECT ", "'a' SOUNDS LIKE (", "1", ")", "", 1436),
    ("SELECT ", "1 MEMBER OF(", "1", ")", "", 1436),
    ("SELECT ", "(", "'a'", ") COLLATE utf8mb4_bin", "", 1436),
    ("SELECT ", "'a' COLLATE utf8mb4_bin = (", "1", ")", "", 1436),
    ("SELECT ", "@a := ", "1", "", "", 1436),
    ("SELECT ", "(1, ", "1", ")", "", 1436),
    ("SELECT ", "ROW(1, ", "1", ")", "", 1436),
    ("SELECT ", "'2020-01-01' + INTERVAL (", "1", ") DAY", "", 1436),
    ("SELECT ", "INTERVAL (", "1", ") DAY + '2020-01-01'", "", 1436),
    ("SELECT ", "INTERVAL 1 DAY + ", "'2020-01-01'", "", "", 1436),
    # Functions and similar forms.
    ("SELECT ", "UPPER(", "1", ")", "", 1436),
    ("SELECT ", "CONCAT('a', ", "1", ")", "", 1436),
    ("SELECT ", "COALESCE(NULL, ", "1", ")", "", 1436),
    ("SELECT ", "IF(1, ", "1", ", 2)", "", 1436),
    ("SELECT ", "GET_FORMAT(DATE, ", "'ISO'", ")", "", 1436),
    ("SELECT ", "MAKE_SET(1, ", "1", ")", "", 1436),
    ("SELECT ", "AES_ENCRYPT('a', ", "1", ")", "", 1436),
    ("SELECT ", "INTERVAL(1, ", "1", ")", "", 1436),
    ("SELECT ", "EXTRACT(DAY FROM ", "1", ")", "", 1436),
    ("SELECT ", "DATE_ADD(", "1", ", INTERVAL 1 DAY)", "", 1436),
    ("SELECT ", "DATE_SUB(1, INTERVAL ", "1", " DAY)", "", 1436),
    ("SELECT ", "ADDDATE(1, ", "1", ")", "", 1436),
    ("SELECT ", "TIMESTAMPADD(DAY, 1, ", "1", ")", "", 1436),
    ("SELECT ", "TIMESTAMPADD(DAY, ", "1", ", 1)", "", 1436),
    ("SELECT ", "TIMESTAMPDIFF(DAY, 1, ", "1", ")", "", 1436),
    ("SELECT ", "TRIM(", "1", ")", "", 1436),
    ("SELECT 1 FROM JSON_TABLE(", "(", "1", ")", ", '$' COLUMNS (a INT PATH '$')) t", 1436),
    (
        "SELECT 1 FROM JSON_TABLE('1', '$' COLUMNS (",
        "NESTED PATH '$' COLUMNS (",
        "a INT PATH '$'",
        ")",
        ")) t",
        1436,
    ),
    (
        "SELECT 1 FROM JSON_TABLE('1', '$' COLUMNS (a INT PATH '$' DEFAULT ",
        "(",
        "1",
        ")",
        " ON EMPTY)) t",
        1436,
    ),
    ("SELECT ", "TRIM(BOTH 'a' FROM ", "1", ")", "", 1436),
    ("SELECT ", "TRIM(LEADING ", "1", " FROM 'a')", "", 1436),
    ("SELECT ", "SUBSTRING(", "1", ", 1)", "", 1436),
    ("SELECT ", "SUBSTRING('a' FROM ", "1", " FOR 1)", "", 1436),
    ("SELECT ", "POSITION('a' IN ", "1", ")", "", 1436),
    ("SELECT ", "POSITION((", "1", ") IN 'a')", "", 1436),
    ("SELECT ", "CHAR(", "1", ")", "", 1436),
    ("SELECT ", "CHAR(", "1", " USING utf8mb4)", "", 1436),
    ("SELECT ", "GROUP_CONCAT(", "1", ")", "", 1436),
    ("SELECT ", "GROUP_CONCAT(1 ORDER BY ", "1", ")", "", 1436),
    ("SELECT ", "COUNT(DISTINCT ", "1", ")", "", 1436),
    ("SELECT ", "CASE ", "1", " WHEN 1 THEN 1 END", "", 1436),
    ("SELECT ", "CASE WHEN ", "1", " THEN 1 END", "", 1436),
    ("SELECT ", "CASE WHEN 1 THEN ", "1", " END", "", 1436),
    ("SELECT ", "CASE WHEN 1 THEN 1 ELSE ", "1", " END", "", 1436),
    ("SELECT ", "CAST(", "1", " AS CHAR)", "", 1436),
    ("SELECT ", "CONVERT(", "1", ", CHAR)", "", 1436),
    ("SELECT ", "CONVERT(", "1", " USING utf8mb4)", "", 1436),
    ("SELECT ", "MATCH (", "k", ") AGAINST ('a')", " FROM t", 1436),
    ("SELECT ", "MATCH (k) AGAINST (", "'a'", ")", " FROM t", 1436),
    ("SELECT ", "DEFAULT(", "k", ")", " FROM t", 1064),
    ("SELECT ", "VALUES(", "k", ")", " FROM t", 1064),
    ("SELECT ROW_NUMBER() OVER ", "(", "", ")", "", 1064),
    ("SELECT SUM(1) OVER (ORDER BY ", "SUM(1) OVER (ORDER BY ", "1", ")", ")", 1436),
    ("SELECT SUM(1) OVER (PARTITION BY ", "(", "k", ")", ") FROM t", 1436),
    ("SELECT ", "SUM(", "1", ") OVER ()", "", 1436),
    ("SELECT ", "LAG(", "1", ", 1) OVER ()", "", 1436),
    (
        "SELECT SUM(1) OVER (ORDER BY k RANGE INTERVAL ",
        "(",
        "1",
        ")",
        " DAY PRECEDING) FROM t",
        1436,
    ),
    # Selects within selects.
    ("", "(", "SELECT 1", ")", "", 1436),
    ("SELECT ", "(SELECT ", "1", ")", "", 1436),
    ("SELECT ", "EXISTS (SELECT ", "1", ")", "", 1436),
    ("SELECT ", "1 IN (SELECT ", "1", ")", "", 1436),
    ("SELECT ", "1 = ANY (SELECT ", "1", ")", "", 1436),
    ("SELECT 1", " UNION (SELECT 1", "", ")", "", 1436),
    ("SELECT 1 UNION ", "(", "SELECT 1", ")", "", 1436),
    ("", "(SELECT 1) UNION (", "SELECT 1", ")", "", 1436),
    ("", "(", "SELECT 1", " LIMIT 1)", "", 1436),
    ("SELECT 1", " INTERSECT (SELECT 1", "", ")", "", 1436),
    ("SELECT 1", " EXCEPT ALL (SELECT 1", "", ")", "", 1436),
    ("", "(", "SELECT 1", " INTERSECT SELECT 1)", "", 1436),
    ("", "(", "SELECT 1", " EXCEPT SELECT 1 UNION SELECT 2)", "", 1436),
    ("SELECT 1 WHERE ", "1 IN (SELECT 1 INTERSECT SELECT ", "1", ")", "", 1436),
    ("", "WITH RECURSIVE a AS (", "SELECT 1", ") SELECT 1", "", 1436),
    (
        "",
        "(WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL ",
        "SELECT n + 1 FROM a WHERE n < 3",
        ") SELECT n FROM a)",
        "",
        1436,
    ),
    ("", "WITH a AS (", "SELECT 1", ") SELECT 1", "", 1436),
    ("SELECT 1 FROM t WHERE ", "id IN (SELECT id FROM t WHERE ", "1", ")", "", 1436),
    ("SELECT 1 FROM t GROUP BY ", "(", "k", ")", "", 1436),
    ("SELECT 1 FROM t HAVING ", "(", "k", ")", "", 1436),
    ("SELECT 1 FROM t ORDER BY ", "(", "k", ")", "", 1436),
    ("SELECT 1 LIMIT ", "(", "1", ")", "", 1064),
    # FROM.
    ("SELECT * FROM ", "(SELECT * FROM ", "t", ") d", "", 1436),
    ("SELECT * FROM ", "LATERAL (SELECT * FROM ", "t", ") d", "", 1436),
    ("SELECT 1 FROM ", "(", "t", ")", "", 1436),
    ("SELECT 1 FROM ", "(", "(SELECT 1) d", ")", "", 1436),
    ("SELECT 1 IN ", "(", "VALUES ROW(1)", ")", "", 1436),
    ("VALUES ROW(", "(", "1", ")", ")", 1436),
    ("SELECT 1 FROM t WHERE (1, ", "(", "1", ")", ") < (1, 2)", 1436),
    ("SELECT 1 FROM ", "(t, ", "t", ")", "", 1116),
    ("SELECT 1 FROM ", "t JOIN (", "t", ")", "", 1116),
    ("SELECT 1 FROM ", "(t a JOIN ", "t", ")", "", 1116),
    ("SELECT 1 FROM ", "t a LEFT JOIN (", "t", ") ON 1", "", 1116),
    ("SELECT 1 FROM ", "t a RIGHT JOIN (", "t", ") USING (id)", "", 1116),
    ("SELECT 1 FROM ", "t a NATURAL JOIN (", "t", ")", "", 1116),
    ("SELECT 1 FROM ", "t a STRAIGHT_JOIN (", "t", ")", "", 1116),
    ("SELECT 1 FROM t JOIN t u ON ", "(", "1", ")", "", 1436),
    ("SELECT 1 FROM t JOIN t u USING ", "(", "id", ")", "", 1064),
    # Changes.
    ("INSERT INTO t (k) VALUES ", "(", "1", ")", "", 1436),
    ("INSERT INTO t (k) VALUES (1", ", (1", "", ")", ")", 1436),
    ("INSERT INTO t SET k = ", "(", "1", ")", "", 1436),
    ("INSERT INTO t (k) ", "(", "SELECT 1", ")", "", 1436),
    ("INSERT INTO t ", "(", "k", ")", " VALUES (1)", 1436),
    ("INSERT INTO t (k) VALUES (1) ON DUPLICATE KEY UPDATE k = ", "(", "1", ")", "", 1436),
    ("REPLACE INTO t (k) VALUES (", "(", "1", ")", ")", 1436),
    ("UPDATE t SET k = ", "(", "1", ")", "", 1436),
    ("UPDATE ", "(t, ", "t", ")", " SET k = 1", 1116),
    ("UPDATE t SET k = 1 WHERE ", "(", "1", ")", "", 1436),
    ("UPDATE t SET k = 1 ORDER BY ", "(", "1", ")", "", 1436),
    ("DELETE FROM t WHERE ", "(", "1", ")", "", 1436),
    ("DELETE t FROM ", "(t a JOIN ", "t", ")", "", 1116),
    ("DELETE FROM ", "(t, ", "t", ")", "", 1064),
    # Definitions.
    ("CREATE TABLE x (a INT DEFAULT ", "(", "1", ")", ")", 1436),
    ("CREATE TABLE x (a INT DEFAULT ", "- ", "1", "", ")", 1436),
    ("CREATE TABLE x (a TIMESTAMP ON UPDATE ", "(", "NOW()", ")", ")", 1436),
    ("CREATE TABLE x (a INT, b INT AS ", "(", "1", ")", ")", 1436),
    ("CREATE TABLE x (a INT CHECK ", "(", "1", ")", ")", 1436),
    ("CREATE TABLE x (a INT, CHECK ", "(", "1", ")", ")", 1436),
    ("CREATE TABLE x (a INT, CHECK (", "NOT ", "a", "", "))", 1436),
    ("CREATE TABLE x (a INT, CHECK (a > ", "1 + (", "a", ")", "))", 1436),
    ("CREATE TABLE x (a INT, KEY (", "(", "1", ")", "))", 1235),
    ("CREATE TABLE x ", "(", "a INT", ")", "", 1064),
    ("CREATE TABLE x AS ", "(", "SELECT 1", ")", "", 1436),
    ("CREATE TABLE x (a DECIMAL ", "(", "1", ")", ")", 1064),
    ("CREATE TABLE x (a ENUM ", "(", "'a'", ")", ")", 1064),
    ("CREATE INDEX x ON t ", "(", "k", ")", "", 1235),
    ("ALTER TABLE t ADD COLUMN x INT DEFAULT ", "(", "1", ")", "", 1436),
    ("ALTER TABLE t ALTER k SET DEFAULT ", "(", "1", ")", "", 1436),
    ("ALTER TABLE t MODIFY k INT DEFAULT ", "(", "1", ")", "", 1436),
    ("ALTER TABLE t ADD ", "(", "x INT", ")", "", 1064),
    # The rest.
    ("SET @a = ", "(", "1", ")", "", 1436),
    ("SET sql_mode = ", "(", "''", ")", "", 1436),
    ("DO ", "(", "1", ")", "", 1436),
    ("KILL ", "(", "1", ")", "", 1436),
    ("SHOW TABLES WHERE ", "(", "1", ")", "", 1436),
    ("EXPLAIN ", "(", "SELECT 1", ")", "", 1436),
    ("EXPLAIN SELECT ", "(", "1", ")", "", 1436),
    ("EXPLAIN FORMAT=JSON ", "(", "SELECT 1", ")", "", 1436),
    ("EXPLAIN FORMAT=TREE SELECT ", "(", "1", ")", "", 1436),
    ("EXPLAIN ANALYZE ", "(", "SELECT 1", ")", "", 1436),
    ("EXPLAIN ", "EXPLAIN ", "SELECT 1", "", "", 1064),
    ("PREPARE s FROM 'SELECT ", "(", "1", ")", "'", 1436),
    ("LOCK TABLES ", "(", "t", ")", " READ", 1064),
    ("SELECT ", "/*! ", "1", " */", "", 1064),
    ("SELECT ", "{d ", "'2020-01-01'", "}", "", 1436),
]
# The text before the list, an item (`#` is its number), the text between two items, the text after
# the list, and the error or 0.
WIDE = [
    # Chains to the left.
    ("SELECT ", "1", "+", "", 1436),
    ("SELECT ", "1", " - ", "", 1436),
    ("SELECT ", "1", "|", "", 1436),
    ("SELECT ", "1", "^", "", 1436),
    ("SELECT ", "1", " XOR ", "", 1436),
    ("SELECT ", "1", " = ", "", 1436),
    ("SELECT 1", "", " IS NULL", "", 1436),
    ("SELECT 1", "", " IS NOT FALSE", "", 1436),
    ("SELECT 'a'", "", " COLLATE utf8mb4_bin", "", 1436),
    ("SELECT '2020-01-01'", "", " + INTERVAL 1 DAY", "", 1436),
    ("SELECT ", "1", " OR ", "", 1436),
    ("SELECT ", "1", " || ", "", 1436),
    ("SELECT ", "1", " AND ", "", 1436),
    ("SELECT 1 FROM t WHERE ", "k = #", " OR ", "", 1436),
    ("SELECT 1 FROM t WHERE ", "k < #", " AND ", "", 1436),
    ("", "SELECT #", " UNION ", "", 0),
    ("", "(SELECT 1)", " UNION ALL ", "", 0),
    ("", "SELECT #", " EXCEPT ", "", 0),
    ("", "SELECT 1", " INTERSECT ALL ", "", 0),
    ("", "SELECT # INTERSECT SELECT #", " UNION ALL ", "", 0),
    ("SELECT 1 FROM JSON_TABLE('1', '$' COLUMNS (", "c# INT PATH '$'", ", ", ")) t", 1117),
    ("WITH ", "a# AS (SELECT 1)", ", ", " SELECT 1", 0),
    ("WITH RECURSIVE ", "a# AS (SELECT 1 UNION ALL SELECT 1 FROM a#)", ", ", " SELECT 1", 0),
    (
        "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL ",
        "SELECT n + 1 FROM a WHERE n < 1",
        " UNION ALL ",
        ") SELECT COUNT(*) FROM a",
        0,
    ),
    ("WITH a AS (SELECT 1) ", "SELECT 1 FROM a", " UNION ALL ", "", 0),
    ("WITH a (", "c#", ", ", ") AS (SELECT 1) SELECT 1 FROM a", 1117),
    ("WITH a AS (SELECT 1) SELECT 1 FROM ", "a a#", ", ", "", 1116),
    ("WITH a AS (SELECT 1) ", "SELECT * FROM a", " UNION ALL ", "", 0),
    # Lists.
    ("SELECT ", "1", ", ", "", 1117),
    ("SELECT ", "*", ", ", " FROM t", 1117),
    ("SELECT ", "t.*", ", ", " FROM t", 1117),
    ("SELECT ", "'a'", " ", "", 1582),
    ("SELECT LENGTH(CONCAT(", "'a'", ", ", "))", 1582),
    ("SELECT COALESCE(", "NULL", ", ", ")", 1582),
    ("SELECT GREATEST(", "#", ", ", ")", 1582),
    ("SELECT 7 IN (", "#", ", ", ")", 0),
    ("SELECT id FROM t WHERE k IN (", "#", ", ", ")", 0),
    ("SELECT id FROM t WHERE k + 1 NOT IN (", "'#'", ", ", ")", 0),
    ("SELECT id FROM t WHERE (id, k) IN (", "(#, 1)", ", ", ")", 0),
    ("SELECT CASE k ", "WHEN # THEN 1", " ", " END FROM t", 0),
    ("SELECT CASE ", "WHEN k = # THEN 1", " ", " END FROM t", 0),
    ("SELECT ROW(", "1", ", ", ")", 1241),
    ("SELECT CHAR(", "64", ", ", ")", 1582),
    ("SELECT COUNT(DISTINCT ", "k", ", ", ") FROM t", 1436),
    ("SELECT GROUP_CONCAT(k ORDER BY ", "id", ", ", ") FROM t", 0),
    ("SELECT COUNT(*) FROM t GROUP BY ", "k", ", ", "", 0),
    ("SELECT COUNT(*) FROM t GROUP BY ", "1", ", ", "", 1056),
    ("SELECT COUNT(*) FROM t GROUP BY ", "k + #", ", ", "", 0),
    ("SELECT id FROM t ORDER BY ", "k", ", ", "", 0),
    ("SELECT SUM(k) OVER (PARTITION BY ", "k", ", ", ") FROM t", 0),
    ("SELECT SUM(k) OVER (ORDER BY ", "k", ", ", ") FROM t", 0),
    ("SELECT SUM(k) OVER (PARTITION BY ", "k + #", ", ", ") FROM t", 1436),
    ("SELECT SUM(k) OVER (ORDER BY ", "k + #", ", ", ") FROM t", 1436),
    ("SELECT ", "SUM(k) OVER ()", ", ", " FROM t", 1117),
    ("SELECT ", "SUM(k) OVER w", " + ", " FROM t WINDOW w AS ()", 1436),
    ("SELECT 1 FROM t WINDOW ", "w# AS ()", ", ", "", 1235),
    ("SELECT id FROM t ORDER BY ", "k + #", ", ", "", 1436),
    ("SELECT id FROM t HAVING id IN (", "id", ", ", ")", 0),
    ("SELECT 1 FROM ", "t", ", ", "", 1116),
    ("SELECT 1 FROM ", "t t#", ", ", "", 1116),
    ("SELECT 1 FROM ", "t t#", " JOIN ", "", 1116),
    ("VALUES ", "ROW(1)", ", ", "", 0),
    ("VALUES ROW(", "1", ", ", ")", 1117),
    ("DELETE ", "t", ", ", " FROM t", 1066),
    ("SELECT 1 FROM ", "t t#", " NATURAL JOIN ", "", 1116),
    ("SELECT 1 FROM t", "", " LEFT JOIN t u ON 1", "", 1116),
    ("SELECT 1 FROM t", "", " JOIN (SELECT 1) u", "", 1116),
    ("SELECT 1 FROM (", "t", ", ", ")", 1116),
    ("SELECT 1 FROM t ", "USE INDEX (k)", " ", "", 0),
    ("SELECT 1 FROM t USE INDEX (", "PRIMARY", ", ", ")", 0),
    ("SELECT 1 FROM t JOIN t u USING (", "id", ", ", ")", 1117),
    ("SELECT id FROM t FOR UPDATE OF ", "t", ", ", "", 3569),
    ("SELECT 1 INTO ", "@a", ", ", "", 1222),
    ("SELECT ", "DISTINCT", " ", " 1", 0),
    ("SELECT ", "(SELECT 1)", " + ", "", 1436),
    ("SELECT 1 IN (", "(SELECT 1)", ", ", ")", 1436),
    # Changes.
    ("INSERT INTO t (k) VALUES ", "(#)", ", ", "", 0),
    ("INSERT INTO t (k) VALUES ", "(DEFAULT)", ", ", "", 0),
    ("INSERT INTO t VALUES (1, 1, 1), ", "()", ", ", "", 1136),
    ("INSERT INTO t VALUES ", "()", ", ", "", 0),
    ("INSERT INTO t (k) VALUES ", "ROW(1 + #)", ", ", "", 0),
    ("INSERT INTO t (k) VALUES (", "1", ", ", ")", 1136),
    ("INSERT INTO t (", "k", ", ", ") VALUES (1)", 1136),
    ("INSERT INTO t SET ", "k = 1", ", ", "", 1110),
    ("INSERT INTO t (k) VALUES (1) AS n (", "k", ", ", ") ON DUPLICATE KEY UPDATE k = 1", 1136),
    ("INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE ", "k = k + 1", ", ", "", 0),
    ("UPDATE t SET ", "k = id", ", ", "", 0),
    ("UPDATE t SET k = 1 ORDER BY ", "id", ", ", "", 0),
    ("UPDATE ", "t", ", ", " SET k = 1", 1116),
    ("DELETE FROM ", "t", ", ", "", 1064),
    ("DELETE FROM t WHERE k IN (", "#", ", ", ")", 0),
    # Definitions.
    ("CREATE TABLE x (", "c# INT", ", ", ")", 1117),
    ("CREATE TABLE x (", "c INT", ", ", ")", 1117),
    ("CREATE TABLE x (a ENUM (", "'m#'", ", ", "))", 1097),
    ("CREATE TABLE x (a SET (", "'m#'", ", ", "))", 1097),
    ("CREATE TABLE x (a INT, ", "KEY (a)", ", ", ")", 1069),
    ("CREATE TABLE x (a INT, ", "UNIQUE u# (a)", ", ", ")", 1069),
    ("CREATE TABLE x (a INT, ", "c# INT AS (a + 1)", ", ", ")", 1117),
    ("CREATE TABLE x (a INT, ", "CHECK (a > #)", ", ", ")", 1235),
    ("CREATE TABLE x (a INT ", "CHECK (a > #)", " ", ")", 1235),
    ("ALTER TABLE t ", "ADD CHECK (k > 1)", ", ", "", 1235),
    ("ALTER TABLE t ", "DROP CHECK c#", ", ", "", 3821),
    ("ALTER TABLE t ADD CHECK (k IN (", "#", ", ", ")) NOT ENFORCED", 0),
    ("CREATE TABLE x (a INT, KEY (", "a", ", ", "))", 1070),
    ("CREATE TABLE x (a DECIMAL(", "1", ", ", "))", 1064),
    ("CREATE TABLE x (a INT ", "NOT NULL", " ", ", a INT)", 1060),
    ("CREATE TABLE x (a INT, a INT) ", "COMMENT = 'x'", " ", "", 1060),
    ("CREATE DATABASE c_nothing ", "COLLATE nonsense", " ", "", 1273),
    ("CREATE UNIQUE INDEX x ON t (", "k", ", ", ")", 1070),
    ("ALTER TABLE t ", "ADD INDEX (k)", ", ", "", 1069),
    ("ALTER TABLE t ", "ADD INDEX i (k)", ", ", "", 1061),
    ("ALTER TABLE t ", "DROP INDEX i#", ", ", "", 1091),
    ("ALTER TABLE t ", "ADD COLUMN c# INT", ", ", "", 1117),
    ("ALTER TABLE t ", "ADD COLUMN c# INT FIRST", ", ", "", 1117),
    ("ALTER TABLE t ", "DROP COLUMN c#", ", ", "", 1091),
    ("ALTER TABLE t ", "MODIFY k INT FIRST", ", ", "", 1054),
    ("ALTER TABLE t ", "RENAME COLUMN k TO c#", ", ", "", 1054),
    ("ALTER TABLE t ", "ALTER k SET DEFAULT 1", ", ", "", 0),
    ("ALTER TABLE t ADD x INT, ", "ADD INDEX (x)", ", ", "", 1069),
    ("ALTER TABLE t ADD (", "c# INT", ", ", ")", 1117),
    ("ALTER TABLE t ", "COMMENT 'x'", ", ", "", 0),
    ("ALTER TABLE t ", "RENAME TO t", ", ", "", 0),
    ("DROP TABLE ", "t", ", ", "", 1066),
    ("DROP TABLE IF EXISTS ", "x#", ", ", "", 0),
    ("RENAME TABLE ", "x# TO y#", ", ", "", 1146),
    # The rest.
    ("SET ", "@a = #", ", ", "", 0),
    ("SET ", "@a# = @a#", ", ", "", 0),
    ("SET ", "sort_buffer_size = 65536", ", ", "", 0),
    ("DO ", "#", ", ", "", 0),
    ("EXECUTE nothing USING ", "@a", ", ", "", 1243),
    ("START TRANSACTION ", "WITH CONSISTENT SNAPSHOT", ", ", "", 0),
    ("LOCK TABLES ", "t READ", ", ", "", 0),
    ("LOCK TABLES ", "x# READ", ", ", "", 1146),
    ("FLUSH TABLES ", "x#", ", ", "", 0),
    ("FLUSH ", "STATUS", ", ", "", 0),
    ("SHOW TABLES WHERE ", "1", " OR ", "", 1436),
    ("SELECT ", "/* x */", " ", " 1", 0),
    ("SELECT 1 ", "", "-- x\n", "", 0),
    ("SELECT 1", "", ";", "", 0),
    ("", "/* x */", " ", "", 0),
    ("", "", ";", "", 1065),
]


def both(c, text):
    """Runs a statement as text, then prepares and executes it unless it cannot be prepared. Returns
    both outcomes.
    """
    c.query('BEGIN')
    as_text = outcome(c.query, text)
    c.query('ROLLBACK; UNLOCK TABLES; BEGIN')
    try:
        prepared = c.prepare(text)
        executed = outcome(c.execute, prepared)
        c.close_statement(prepared)
    except MySQLError as e:
        executed = as_text if e.code == 1295 else e.code
    c.query('ROLLBACK; UNLOCK TABLES')
    return as_text, executed


def deep(production):
    """The statements of a production of DEEP: (a short form, the text, the error)."""
    before, opens, inner, closes, after, code = production
    for levels in (129, MANY):
        text = f'{before}{opens * levels}{inner}{closes * levels}{after}'
        yield f'{before}{opens}{inner}{closes}{after}, {levels} levels', text, code


def wide(production):
    """The statement of a production of WIDE: (a short form, the text, the error)."""
    before, item, between, after, code = production
    # A statement that runs, or looks each table up, works on each item, so it gets fewer.
    many = MANY // 10 if code in (0, 1146) else MANY
    items = between.join(item.replace('#', str(n)) for n in range(many))
    return f'{before}{item}{between}{after}, {many} items', f'{before}{items}{after}', code


def all_end(c, statements):
    """Runs statements: (a short form, the text, the error with which it has to end)."""
    wrong = []
    for short, text, code in statements:
        got = both(c, text)
        if got != (code, code):
            wrong.append(f'{short}: {got}, not {code}')
    assert not wrong, '\n'.join(wrong)


def too_deep(c):
    """Productions that are too deep are refused."""
    all_end(c, (statement for production in DEEP for statement in deep(production)))


def wide_lists(c):
    """Lists are read once."""
    all_end(c, (wide(production) for production in WIDE))


def doubled(c):
    """Common table expressions that double each time are refused. The size of the statement is
    checked before its tree is made.
    """

    def nested(levels, first, next):
        more = ''.join(f', c{n} AS ({next.replace("#", f"c{n - 1}")})' for n in range(1, levels))
        return f'WITH c0 AS ({first}){more} SELECT COUNT(*) FROM c{levels - 1}'

    twice = 'SELECT 1 FROM # x, # y'
    all_end(
        c,
        (
            (f'{n} twice', nested(n, 'SELECT 1', twice), e)
            for n, e in [(8, 0), (30, 3170), (60, 3170)]
        ),
    )
    once = 'SELECT x + 1 AS x FROM #'
    all_end(
        c,
        (
            (f'{n} once', nested(n, 'SELECT 1 AS x', once), e)
            for n, e in [(120, 0), (200, 1436), (20_000, 1436)]
        ),
    )


def savepoints(c):
    """Savepoints are found by name."""
    c.query('BEGIN')
    for n in range(25_000):
        c.query(f'SAVEPOINT s{n}')
    # A savepoint with a known name moves to the end.
    c.query('SAVEPOINT S7')
    for text, code in [
        ('ROLLBACK TO s7', 0),
        ('ROLLBACK TO s24999', 0),
        ('ROLLBACK TO s7', 1305),
        ('RELEASE SAVEPOINT s8', 0),
        ('ROLLBACK TO s8', 1305),
        ('ROLLBACK TO s9', 1305),
        ('ROLLBACK TO s6', 0),
        ('COMMIT', 0),
        ('ROLLBACK TO s6', 1305),
    ]:
        got = outcome(c.query, text)
        assert got == code, f'{text}: {got}, not {code}'


def run(server, test):
    """Runs a test in a database of its own: what is wrong, or None."""
    try:
        c = server.connect(timeout=AT_MOST)
        database = f'p_{test.__name__}'
        c.query(
            f'CREATE DATABASE {database}; USE {database}; CREATE TABLE t (id INT NOT NULL'
            ' AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0, c VARCHAR(20), KEY (k)); INSERT'
            " INTO t (k, c) VALUES (5, 'a'), (6, 'it''s'), (7, NULL)"
        )
        test(c)
    except (AssertionError, OSError, MySQLError) as e:
        return f'{type(e).__name__}: {e}\n{server.last_words()}'


def main():
    report, tests = Report(), (too_deep, wide_lists, doubled, savepoints)
    with servers.Redolith(servers.scratch('productions')) as server:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for test, wrong in zip(tests, pool.map(lambda test: run(server, test), tests)):
                name = test.__doc__.split('.')[0].replace('\n    ', ' ')
                report.outcome(name, wrong)
    return report.end()


if __name__ == '__main__':
    sys.exit(main())
