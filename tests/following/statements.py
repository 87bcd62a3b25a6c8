"""Statements of all kinds, in sessions with several character sets and SQL modes, whose effect on a
replica must be the same in rows and in definitions.
"""

from unittest import mock

from rig import client
from rig.client import MySQLError
from rig.replica import OWN_SCHEMAS

TYPES = """CREATE TABLE d.`types` (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  i1 TINYINT, u1 TINYINT UNSIGNED, i2 SMALLINT, u2 SMALLINT UNSIGNED ZEROFILL, i3 MEDIUMINT,
  u3 MEDIUMINT UNSIGNED, i4 INT, u4 INT UNSIGNED, i8 BIGINT, u8 BIGINT UNSIGNED, bo BOOLEAN,
  de DECIMAL(65,30), d2 DECIMAL(5,0) UNSIGNED, d3 DECIMAL(30,30), f FLOAT, g DOUBLE,
  b1 BIT(1), b12 BIT(12), b64 BIT(64), ye YEAR, da DATE, t0 TIME, t6 TIME(6),
  dt0 DATETIME, dt1 DATETIME(1), dt6 DATETIME(6), ts0 TIMESTAMP NULL, ts3 TIMESTAMP(3) NULL,
  ts6 TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  c CHAR(255), cl CHAR(10) CHARACTER SET latin1, ca CHAR(10) CHARACTER SET ascii, bi BINARY(255),
  v VARCHAR(10), vv VARCHAR(3000), vl VARCHAR(300) CHARACTER SET latin1 COLLATE latin1_bin,
  vb VARBINARY(255), vb2 VARBINARY(256),
  tt TINYTEXT, te TEXT, tm MEDIUMTEXT, tl LONGTEXT, bt TINYBLOB, bb BLOB, bm MEDIUMBLOB,
  bl LONGBLOB, e ENUM('a','ü','日本'), el ENUM('ä','b') CHARACTER SET latin1,
  s SET('p','q','ß'), s64 SET({members}), KEY (v), KEY (tt(20)), UNIQUE KEY (u8))"""
ROWS = [
    # The least, the greatest, and what is empty.
    """(-128, 0, -32768, 0, -8388608, 0, -2147483648, 0, -9223372036854775808, 0, FALSE,
     -99999999999999999999999999999999999.999999999999999999999999999999, 0,
     -0.999999999999999999999999999999, -3.4e38, -1.7e308, b'0', b'0', b'0', 1901, '1000-01-01',
     '-838:59:59', '-838:59:58.999999', '1000-01-01 00:00:00', '1000-01-01 00:00:00.1',
     '1000-01-01 00:00:00.000001', '1970-01-01 00:00:01', '1970-01-01 00:00:01.001',
     '1970-01-01 00:00:01.000001', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '',
     '', 'a', 'ä', '', '')""",
    """(127, 255, 32767, 65535, 8388607, 16777215, 2147483647, 4294967295, 9223372036854775807,
     18446744073709551615, TRUE, 99999999999999999999999999999999999.999999999999999999999999999999,
     99999, 0.999999999999999999999999999999, 3.4e38, 1.7e308, b'1', b'111111111111',
     0xffffffffffffffff, 2155, '9999-12-31', '838:59:59', '838:59:58.999999',
     '9999-12-31 23:59:59', '9999-12-31 23:59:59.9', '9999-12-31 23:59:59.999999',
     '2038-01-19 03:14:07', '2038-01-19 03:14:07.999', '2038-01-19 03:14:07.999999',
     REPEAT('🦀', 255), 'Zürç€', '~', REPEAT(0xff, 255), '日本 ', REPEAT('ü', 3000),
     REPEAT('€', 300), REPEAT(0x00, 255), REPEAT(0xfe, 256), REPEAT('x', 255), REPEAT('é', 30000),
     REPEAT('y', 70000), REPEAT('z', 20000), REPEAT(0x00, 255), REPEAT(0xff, 65535),
     REPEAT(0x01, 65536), REPEAT(0xfe, 1000000), '日本', 'b', 'p,q,ß', {all_members})""",
    f'({", ".join(["NULL"] * 28)}, 0 + NOW(6), {", ".join(["NULL"] * 21)})',
]
SQL_MODES = [
    '',
    'ANSI',
    'ANSI_QUOTES',
    'NO_BACKSLASH_ESCAPES',
    'PIPES_AS_CONCAT,NO_ZERO_DATE,NO_ZERO_IN_DATE',
    'NO_AUTO_VALUE_ON_ZERO',
    'ALLOW_INVALID_DATES',
    'TRADITIONAL',
    'NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE,REAL_AS_FLOAT,NO_DIR_IN_CREATE',
]
COLLATIONS = [
    # name, collation, and how Python calls it
    ('utf8mb4', None, 'utf8'),
    ('utf8mb4', 'utf8mb4_bin', 'utf8'),
    ('utf8mb3', None, 'utf8'),
    ('latin1', None, 'cp1252'),
    ('latin1', 'latin1_bin', 'cp1252'),
    ('binary', None, 'utf8'),
]


def ways_to_insert(c):
    c.query('CREATE TABLE d.w (a INT PRIMARY KEY, b INT, c VARCHAR(20), UNIQUE KEY (b))')
    for text in (
        "INSERT INTO d.w VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')",
        'INSERT INTO d.w SELECT a + 10, b + 10, c FROM d.w',
        'INSERT INTO d.w SET a = 30',
        "INSERT INTO d.w VALUES (1, 5, 'x') ON DUPLICATE KEY UPDATE c = 'dup', b = 9",
        "INSERT INTO d.w VALUES (40, 2, 'x'), (41, 41, 'y') ON DUPLICATE KEY UPDATE a = 42",
        "REPLACE INTO d.w VALUES (3, 12, 'two gone'), (50, 50, 'new')",
        "INSERT IGNORE INTO d.w VALUES (50, 51, 'ignored'), (52, 52, NULL)",
        'UPDATE d.w SET a = a + 100 ORDER BY a DESC LIMIT 2',
        "UPDATE d.w SET c = 'same' WHERE c = 'same'",
        'DELETE FROM d.w WHERE b = 11',
        "REPLACE d.w SELECT a, b, UPPER(COALESCE(c, 'n')) FROM d.w WHERE a > 10",
    ):
        c.query(text)
    s = c.prepare('INSERT INTO d.w VALUES (?, ?, ?)')
    for n in range(200, 205):
        c.execute(s, [n, n, f'p{n} ü'])
    s = c.prepare('CREATE TABLE d.prepared (a INT PRIMARY KEY, b VARCHAR(9) DEFAULT \'ü\')')
    c.execute(s, [])
    c.query("PREPARE p FROM 'UPDATE d.w SET c = ? WHERE a > ?'")
    c.query("SET @a = 'é', @b = 202")
    c.query('EXECUTE p USING @a, @b')
    c.query("PREPARE q FROM 'ALTER TABLE d.prepared COMMENT ''ß'', ADD KEY (b)'")
    c.query('EXECUTE q')
    # Rows without a key, twice the same among them.
    c.query('CREATE TABLE d.bag (a INT, b TEXT, c FLOAT, d CHAR(9), e BLOB)')
    row = "(1, 'x', 0.1, 'pad', 0x00ff)"
    c.query(f'INSERT INTO d.bag VALUES {row}, {row}, (NULL, NULL, NULL, NULL, NULL)')
    c.query("INSERT INTO d.bag SELECT a + 1, REPEAT(b, 20000), c / 3, 'q', e FROM d.bag")
    c.query("UPDATE d.bag SET b = 'u', e = NULL WHERE a = 1 LIMIT 1")
    c.query('DELETE FROM d.bag WHERE a = 2 LIMIT 1')
    c.query('BEGIN')
    c.query('INSERT INTO d.bag (a) VALUES (7)')
    c.query('SAVEPOINT s')
    c.query('DELETE FROM d.bag')
    c.query('ROLLBACK TO s')
    c.query('COMMIT')
    for end in ("COMMIT 'x' ONE PHASE", "PREPARE 'x'; XA COMMIT 'x'"):
        c.query(f"XA START 'x'; INSERT INTO d.bag (a) VALUES (8); XA END 'x'; XA {end}")
    c.query("XA START 'x'; XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'")
    c.query('CREATE TABLE d.auto (id INT AUTO_INCREMENT PRIMARY KEY, a INT)')
    c.query('INSERT INTO d.auto (a) VALUES (1), (2), (3)')
    c.query('INSERT INTO d.auto VALUES (100, 4), (NULL, 5)')
    # Statements that change several tables, and one table under two names.
    for name in ('j1', 'j2'):
        c.query(f'CREATE TABLE d.{name} (a INT PRIMARY KEY, b VARCHAR(9), c INT)')
        c.query(f"INSERT INTO d.{name} VALUES (1, '{name}', 1), (2, NULL, 2), (3, 'c', 3)")
    c.query("UPDATE d.j1 JOIN d.j2 USING (a) SET j1.b = 'ü', j2.c = j1.c + 7 WHERE a > 1")
    c.query("UPDATE d.j1 AS x JOIN d.j1 AS y ON x.a = y.a + 1 SET x.b = 'x', y.c = 70 + y.a")
    c.query('DELETE d.j1, d.j2 FROM d.j1 JOIN d.j2 ON j1.a = j2.a AND j2.a = 3')
    c.query('DELETE FROM d.j2.* USING d.j2 LEFT JOIN d.j1 ON j1.a = j2.a + 1 WHERE j1.a IS NULL')
    for image in ('MINIMAL', 'NOBLOB'):
        c.query(f'SET binlog_row_image = {image}')
        c.query("INSERT INTO d.w (a, c) VALUES (300, 'm') ON DUPLICATE KEY UPDATE c = 'again'")
        c.query(f"UPDATE d.w SET b = b + 1000, c = '{image}' WHERE a = 200")
        c.query('DELETE FROM d.w WHERE a = 201')
    c.query('SET binlog_row_image = FULL')


def all_types(c):
    members = [f'm{n}' for n in range(64)]
    c.query(TYPES.format(members=', '.join(f"'{m}'" for m in members)))
    columns = [r[0].decode() for r in c.rows('SHOW COLUMNS FROM d.types')][1:]
    names = ', '.join(f'`{name}`' for name in columns)
    for row in ROWS:
        row = row.replace('{all_members}', f"'{','.join(members)}'")
        c.query(f'INSERT INTO d.types ({names}) VALUES {row}')
    s = c.prepare(f'INSERT INTO d.types ({names}) SELECT {names} FROM d.types WHERE u8 IS NULL')
    c.execute(s, [])
    c.query("UPDATE d.types SET c = CONCAT('x', v), bl = REPEAT('q', 9000) WHERE i1 = -128")
    for n, zone in enumerate(('+05:30', '-11:00', '+00:00')):
        c.query(f"SET time_zone = '{zone}'")
        c.query(
            f"CREATE TABLE d.zone{n} (a INT PRIMARY KEY, b TIMESTAMP NOT NULL DEFAULT"
            " '2020-02-03 04:05:06', c TIMESTAMP(6) NULL, d DATETIME DEFAULT NOW())"
        )
        c.query(f"INSERT INTO d.zone{n} (a, c) VALUES (1, '2020-05-06 07:08:09.123456')")
        c.query(f'ALTER TABLE d.zone{n} ADD INDEX (b)')


def long_rows(c):
    """Rows longer than the largest frame of the redo log: their events go through a spill file."""
    c.query('CREATE TABLE d.long_rows (a INT PRIMARY KEY, b LONGBLOB, c LONGTEXT)')
    c.query("INSERT INTO d.long_rows VALUES (1, REPEAT(0xff, 15 << 20), 'short')")
    c.query("INSERT INTO d.long_rows VALUES (2, 'x', REPEAT('é', 7 << 20))")
    c.query("UPDATE d.long_rows SET b = '' WHERE a = 1")
    c.query("UPDATE d.long_rows SET b = REPEAT('abcdefg', 1 << 20) WHERE a = 1")
    c.query("UPDATE d.long_rows SET b = CONCAT(b, 'y') WHERE a = 1")
    c.query('DELETE FROM d.long_rows WHERE a = 2')
    c.query("INSERT INTO d.long_rows VALUES (3, REPEAT(0xff, 17 << 20), '')")
    c.query("UPDATE d.long_rows SET c = CONCAT(c, 'y') WHERE a = 3")


def generated_columns(c):
    """A replica gets the values of generated columns, or calculates the same."""
    c.query(
        'CREATE TABLE d.generated (id INT PRIMARY KEY, a INT, s VARCHAR(20),'
        ' at DATETIME NULL ON UPDATE CURRENT_TIMESTAMP,'
        ' g BIGINT GENERATED ALWAYS AS (a * 2) STORED, h INT AS (g + id) VIRTUAL,'
        " k VARCHAR(40) AS (CONCAT(s, 'ü', a)) STORED, l LONGTEXT AS (REPEAT(s, a)) STORED,"
        ' y INT AS (YEAR(at)) STORED, UNIQUE KEY (k), KEY (h))'
    )
    for image in ('FULL', 'MINIMAL', 'NOBLOB'):
        c.query(f'SET binlog_row_image = {image}')
        for text in (
            "INSERT INTO d.generated (id, a, s) VALUES (1, 1, 'x'), (2, 9000, 'yz')",
            "INSERT INTO d.generated (id, a, s) VALUES (3, NULL, 'z')",
            'INSERT INTO d.generated (id, a, s)'
            ' SELECT id + 10, a + 1, s FROM d.generated WHERE a > 0',
            "INSERT INTO d.generated (id, a, s) VALUES (1, 5, 'q') ON DUPLICATE KEY UPDATE a = 70",
            "REPLACE INTO d.generated (id, a, s) VALUES (90, 70, 'x')",
            "UPDATE d.generated SET s = 'ß' WHERE g > 18000",
            'UPDATE d.generated SET a = COALESCE(a, 0) + 1 ORDER BY id DESC',
            'UPDATE d.generated, (SELECT 12 AS n) AS o SET a = 44 WHERE id = n',
            'DELETE FROM d.generated WHERE h < 20 OR id > 12',
        ):
            c.query(text)
        c.query('CREATE TABLE d.generated_two LIKE d.generated')
        c.query('INSERT INTO d.generated_two (id, a, s, at) SELECT id, a, s, at FROM d.generated')
        c.query('ALTER TABLE d.generated_two ADD COLUMN m INT AS (a + 1) STORED AFTER a')
        c.query("INSERT INTO d.generated_two (id, a, s) VALUES (-1, 3, 'two')")
        c.query(f'RENAME TABLE d.generated_two TO d.generated_{image}')
        c.query('DELETE FROM d.generated')
    c.query('SET binlog_row_image = FULL')
    c.query("INSERT INTO d.generated (id, a, s) VALUES (1, 1, 'end')")
    c.query(
        'CREATE TABLE d.generated_select (n INT PRIMARY KEY, g INT AS (n * 3) STORED)'
        ' SELECT id AS n FROM d.generated'
    )


def sets_of_characters(source):
    for n, (charset, collation, codec) in enumerate(COLLATIONS):
        c = source.connect()
        c.query(f'SET NAMES {charset}' + (f' COLLATE {collation}' if collation else ''))
        raw = lambda text, c=c, codec=codec: c.query(text.encode(codec))
        name = f'täble é{n}'
        raw(f"CREATE DATABASE `dß{n}`")
        raw(f'USE `dß{n}`')
        raw(
            f"CREATE TABLE `{name}` (`ü` INT COMMENT 'Größe', `é€` VARCHAR(20) NOT NULL DEFAULT"
            " 'Zürich €', l VARCHAR(20) CHARACTER SET latin1 DEFAULT 'ÿ€', en ENUM('ä', 'ö')"
            " DEFAULT 'ö', PRIMARY KEY (`ü`), KEY `ïndex` (`é€`)) COMMENT 'çomment \\' \\n €'"
        )
        raw(f"INSERT INTO `{name}` (`ü`) VALUES (1)")
        raw(f"INSERT INTO `{name}` VALUES (2, 'Ä', 'ß', 'ä'), (3, 'ñ€', 'œ', 'ö')")
        raw(f"ALTER TABLE `{name}` RENAME INDEX `ïndex` TO `îndex`, COMMENT 'neü'")
        raw(f"CREATE INDEX `ê` ON `{name}` (l) ; CREATE TABLE `y` LIKE `{name}`")
        raw(f"RENAME TABLE `y` TO `ÿ`")
        s = c.prepare(f"INSERT INTO `ÿ` SELECT * FROM `{name}`".encode(codec))
        c.execute(s, [])
        raw("CREATE TABLE `tö drop` (a INT); DROP TABLE `tö drop`")
        raw(f"/* ä */ ALTER DATABASE `dß{n}` COLLATE latin1_bin -- ü")
        raw('CREATE TABLE defaults (a VARCHAR(9) PRIMARY KEY)')
    c = source.connect()
    c.query('SET collation_connection = utf8mb4_bin, character_set_client = latin1')
    c.query("CREATE TABLE d.mixed (a VARCHAR(9) DEFAULT 'ä')".encode('latin1'))
    c.query('INSERT INTO d.mixed VALUES ()')
    # Clients of MySQL 8.0 connect with 255, utf8mb4_0900_ai_ci. A replica that met this number in
    # an event would stop: MariaDB has no such collation.
    for number, name in ((255, 'utf8mb4_general_ci'), (224, 'utf8mb4_unicode_ci')):
        with mock.patch.object(client, 'UTF8MB4_GENERAL_CI', number):
            c = source.connect(database='d')
        assert c.value('SELECT @@collation_connection') == name
        c.query(f"CREATE TABLE by_{number} (a VARCHAR(9) DEFAULT 'ü') COMMENT 'ü'")
        c.query(f'INSERT INTO by_{number} VALUES ()')
        try:
            c.query('SET NAMES gbk')
            raise AssertionError('SET NAMES gbk: is it known to replicas?')
        except MySQLError as e:
            assert e.code == 1115, e


def sql_modes(c):
    before = c.value('SELECT @@sql_mode')
    for n, mode in enumerate(SQL_MODES):
        c.query(f"SET sql_mode = '{mode}'")
        name = f'"m{n}"' if 'ANSI' in mode else f'`m{n}`'
        text = r"'a\'" if mode == 'NO_BACKSLASH_ESCAPES' else r"'a\\'"
        c.query(
            f"CREATE TABLE d.{name} (a INT PRIMARY KEY, b VARCHAR(9) NOT NULL DEFAULT '', c"
            f" CHAR(5) DEFAULT {text}, d REAL, e DATETIME DEFAULT '2020-01-01 01:02:03')"
        )
        c.query(f'INSERT INTO d.m{n} (a, d) VALUES (1, 1.0 / 3)')
        c.query(f"ALTER TABLE d.{name} COMMENT {text}")
    c.query("SET sql_mode = 'ALLOW_INVALID_DATES'")
    c.query("CREATE TABLE d.zero (a DATE DEFAULT '0000-00-00', b DATETIME DEFAULT '2020-02-01')")
    c.query('INSERT INTO d.zero VALUES ()')
    c.query("INSERT INTO d.zero VALUES ('2021-00-00', '0000-00-00 00:00:00')")
    c.query(f"SET sql_mode = '{before}'")
    c.query("UPDATE d.zero SET a = '2020-01-01' WHERE a = 0")


def engines(c):
    """Every table is InnoDB's on the source, whatever engine its definition names, and on a replica
    with `enforce_storage_engine=InnoDB`, too. MariaDB has no NDB.
    """
    for engine in ('MyISAM', 'MEMORY', 'CSV', 'NDB', 'FEDERATED'):
        c.query(f'CREATE TABLE d.{engine}_ (a INT PRIMARY KEY, b INT) ENGINE = {engine}')
        c.query(f'INSERT INTO d.{engine}_ VALUES (1, NULL)')
        c.query(f'ALTER TABLE d.{engine}_ ADD INDEX (b), ALGORITHM = INPLACE, LOCK = NONE')
        c.query(f'CREATE TABLE d.like_{engine} LIKE d.{engine}_')


def contexts(source):
    """What a text means depends on when and where it was prepared, and on the default database."""
    c = source.connect()
    for schema in ('here', 'there'):
        c.query(f'CREATE DATABASE {schema}')
    c.query("USE here; SET sql_mode = 'ANSI_QUOTES'")
    quoted = c.prepare('CREATE TABLE "aq" ("a" INT PRIMARY KEY, b VARCHAR(9) DEFAULT \'q\')')
    c.query("SET sql_mode = ''; USE there; SET NAMES latin1")
    c.execute(quoted, [])
    c.query("PREPARE p FROM 'CREATE TABLE l (a INT) COMMENT ''ä'''".encode('latin1'))
    c.query('SET NAMES utf8mb4; USE here; EXECUTE p')
    c.query("SET @x = 'CREATE TABLE v (`ü€` INT) COMMENT ''ü€'''; PREPARE v FROM @x")
    c.query('SET NAMES latin1; EXECUTE v; SET NAMES utf8mb4')
    # A session whose default database is gone.
    c.query('DROP DATABASE here; CREATE TABLE there.after (a INT)')
    c.query('INSERT INTO there.after VALUES (1)')
    c.query('CREATE DATABASE here CHARACTER SET latin1; USE here; CREATE TABLE t (a VARCHAR(3))')
    c.query("INSERT INTO t VALUES ('ü')")
    c.query('SET timestamp = 1000000000.5')
    c.query('CREATE TABLE past (a INT, b TIMESTAMP(6) DEFAULT NOW(6))')
    c.query('INSERT INTO past (a) VALUES (1)')
    c.query('SET timestamp = DEFAULT, foreign_key_checks = 0, unique_checks = 0')
    c.query('CREATE TABLE `a``b` (`c``d` INT, `e"f` INT, KEY `g h` (`c``d`))')
    c.query('INSERT INTO `a``b` VALUES (1, 2); RENAME TABLE `a``b` TO `x-y`')
    c.query('DELETE FROM `x-y`; INSERT INTO `x-y` VALUES (3, 4)')


def run(source):
    c = source.connect()
    c.query('CREATE DATABASE d')
    for act in (ways_to_insert, all_types, long_rows, generated_columns, sql_modes, engines):
        act(c)
    sets_of_characters(source)
    contexts(source)
    c.query('CREATE DATABASE gone')
    c.query('CREATE TABLE gone.t (a INT)')
    c.query('DROP DATABASE gone')
    c.query('DROP TABLE IF EXISTS d.nothing, d.m0')


DEFINITIONS = [
    'SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA',
    'SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, TABLE_COLLATION, TABLE_COMMENT'
    ' FROM information_schema.TABLES',
    'SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, DATA_TYPE,'
    ' CHARACTER_MAXIMUM_LENGTH, NUMERIC_SCALE, DATETIME_PRECISION, COLLATION_NAME, COLUMN_KEY,'
    ' COLUMN_COMMENT FROM information_schema.COLUMNS',
    'SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART'
    ' FROM information_schema.STATISTICS',
]


def same_definitions(here, there):
    """Raises unless both servers have the same databases, tables, columns and indexes."""
    for text in DEFINITIONS:
        ours, theirs = (
            sorted(
                (
                    tuple(row)
                    for row in server.connect().rows(text)
                    if row[0].decode().lower() not in OWN_SCHEMAS
                ),
                key=repr,
            )
            for server in (here, there)
        )
        only = [row for row in ours if row not in theirs]
        other = [row for row in theirs if row not in ours]
        assert ours == theirs, f'only on the source: {only[:5]}; only on the replica: {other[:5]}'
