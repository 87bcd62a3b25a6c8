use super::create;
use crate::exec::fixture::{Server, Session};
use crate::memory::Account;
use crate::plan::{DdlStmt, Statement};
use crate::session_state::Level;
use redolith_types::{DefaultValue, TableDef, Value};

fn definition(s: &Session<'_>, text: &str) -> TableDef {
    match s.plan(text).unwrap_or_else(|e| panic!("{e}: {text}")).body {
        Statement::Ddl(DdlStmt::CreateTable(create)) => create.def,
        other => panic!("{other:?}"),
    }
}

const EVERYTHING: &str = "CREATE TABLE `every``thing` (
  `id` bigint unsigned NOT NULL AUTO_INCREMENT,
  `flag` tinyint(1) NOT NULL DEFAULT '1',
  `small` smallint(5) unsigned zerofill DEFAULT NULL,
  `price` decimal(10,2) NOT NULL DEFAULT '1.50',
  `f` float DEFAULT NULL,
  `d` double NOT NULL DEFAULT '0',
  `c` char(120) NOT NULL DEFAULT '',
  `v` varchar(20) CHARACTER SET latin1 DEFAULT 'it''s \\\\ here' COMMENT 'line\\nbreak',
  `b` varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,
  `note` mediumtext,
  `bin` varbinary(16) DEFAULT NULL,
  `blob` blob NOT NULL,
  `day` date NOT NULL DEFAULT '2024-02-29',
  `at` datetime(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  `ts` timestamp NULL DEFAULT NULL,
  `made` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `bits` bit(4) DEFAULT b'101',
  `e` enum('a','it''s','\\\\','a\\\\b','x\\ny\\r') NOT NULL DEFAULT 'a',
  `s` set('x','\\\\','\\0y') DEFAULT NULL,
  `calc` int DEFAULT (1 + 2),
  `hidden` int DEFAULT NULL /*!80023 INVISIBLE */,
  PRIMARY KEY (`id`),
  UNIQUE KEY `c` (`c`),
  UNIQUE KEY `vb` (`v`,`b`),
  KEY `k_1` (`price` DESC,`flag`),
  KEY `note` (`note`(10))
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci \
  COMMENT='all of it'";

#[test]
fn create_table_is_told_as_mysql_tells_it() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl(EVERYTHING).unwrap();
    assert_eq!(s.rows("SHOW CREATE TABLE `every``thing`"), [["every`thing", EVERYTHING]]);
}

#[test]
fn what_is_told_makes_the_same_table() {
    let server = Server::new();
    let s = &mut server.session();
    for text in [
        EVERYTHING,
        "CREATE TABLE sbtest1(id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, \
            c CHAR(120) DEFAULT '' NOT NULL, PRIMARY KEY (id))",
        "CREATE TABLE a (x INT UNIQUE, y INT NOT NULL UNIQUE, z INT, KEY (z), KEY (z, x)) DEFAULT \
            CHARSET=latin1",
        "CREATE TABLE b (t TEXT CHARACTER SET utf8mb3, u VARCHAR(9) CHARACTER SET latin1 COLLATE \
            latin1_bin) COLLATE utf8mb4_bin",
        "CREATE TABLE c (v VARCHAR(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, w TIME(6) \
            DEFAULT '-01:02:03.5') COLLATE utf8mb4_bin",
        "CREATE TABLE e (id serial, v BINARY(3) DEFAULT 'ab', y YEAR DEFAULT 2024, n DECIMAL(5,0) \
            DEFAULT -3)",
        "CREATE TABLE f (a BINARY(2) NOT NULL DEFAULT x'FF00', b VARBINARY(3) DEFAULT 'a''b', c \
            VARBINARY(9) DEFAULT 'é', d VARBINARY(9) DEFAULT '', e BINARY(3) DEFAULT 'ab')",
    ] {
        let mut def = definition(s, text);
        // A nullable column without a default has DEFAULT NULL.
        for c in
            def.columns.iter_mut().filter(|c| c.default.is_none() && c.nullable && !c.ty.is_lob())
        {
            c.default = Some(DefaultValue::Null);
        }
        let memory = &mut Account::new(&server.memory);
        let shown = create::table(&def, &create::name(&def.name), 1, memory).unwrap();
        let again = definition(s, &shown);
        assert_eq!(again, def, "{shown}");
        assert_eq!(create::table(&again, &create::name(&again.name), 1, memory).unwrap(), shown);
    }
}

/// A default that an earlier version has kept with fewer digits is still the text of a number.
#[test]
fn the_default_of_a_float_has_the_digits_of_a_float() {
    let server = Server::new();
    let s = &mut server.session();
    let mut def = definition(s, "CREATE TABLE a (x FLOAT DEFAULT 16777217)");
    assert_eq!(def.columns[0].default, Some(DefaultValue::Literal("16777216".into())));
    for kept in ["16777216", "16777200"] {
        def.columns[0].default = Some(DefaultValue::Literal(kept.into()));
        let shown = create::table(&def, "`a`", 1, &mut Account::new(&server.memory)).unwrap();
        assert!(shown.contains("`x` float DEFAULT '16777200'"), "{shown}");
    }
}

#[test]
fn sysbench_table() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl(
        "CREATE TABLE sbtest1(id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT \
        NULL, c CHAR(120) DEFAULT '' NOT NULL, PRIMARY KEY (id))",
    )
    .unwrap();
    s.ddl("CREATE INDEX k_1 ON sbtest1(k)").unwrap();
    s.ddl("CREATE UNIQUE INDEX u ON sbtest1(c, k)").unwrap();
    assert_eq!(
        s.rows("DESCRIBE sbtest1"),
        [
            ["id", "int", "NO", "PRI", "NULL", "auto_increment"],
            ["k", "int", "NO", "MUL", "0", ""],
            ["c", "char(120)", "NO", "MUL", "", ""],
        ]
    );
    let full = s.run("SHOW FULL COLUMNS FROM sbtest1 LIKE 'C%'").unwrap();
    assert_eq!(
        full.columns,
        ["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"]
    );
    assert_eq!(
        full.rows,
        [[
            "c",
            "char(120)",
            "utf8mb4_general_ci",
            "NO",
            "MUL",
            "",
            "",
            "select,insert,update,references",
            ""
        ]]
    );
    let names: Vec<[String; 4]> = s
        .rows("SHOW INDEX FROM sbtest1")
        .iter()
        .map(|r| [r[1].clone(), r[2].clone(), r[3].clone(), r[4].clone()])
        .collect();
    assert_eq!(
        names,
        [
            ["0", "PRIMARY", "1", "id"],
            ["0", "u", "1", "c"],
            ["0", "u", "2", "k"],
            ["1", "k_1", "1", "k"]
        ]
    );
    assert_eq!(s.rows("SHOW KEYS FROM sbtest1 WHERE Key_name = 'PRIMARY'").len(), 1);
    let cardinality = |s: &mut crate::exec::fixture::Session<'_>| -> Vec<u64> {
        s.rows("SHOW INDEX FROM sbtest1").iter().map(|r| r[6].parse().unwrap()).collect()
    };
    assert_eq!(cardinality(s), [0, 0, 0, 0]);
    let insert = |s: &crate::exec::fixture::Session<'_>, from: i64, to: i64| {
        let rows: Vec<_> = (from..to)
            .map(|id| {
                [
                    Value::Int(id),
                    Value::Int(id % 40),
                    Value::owned(format!("c{}", id / 4).into_bytes()),
                ]
            })
            .collect();
        s.insert("sbtest1", &rows.iter().map(|r| &r[..]).collect::<Vec<_>>());
    };
    insert(s, 1, 81);
    assert_eq!(cardinality(s), [80, 21, 80, 40], "one page: exact");
    insert(s, 81, 4001);
    let all = cardinality(s);
    assert_eq!((all[0], all[2]), (4000, 4000));
    assert!((600..1500).contains(&all[1]) && (10..160).contains(&all[3]), "{all:?}");
}

#[test]
fn columns_say_how_their_values_come_about() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl(
        "CREATE TABLE t (a INT NOT NULL UNIQUE, b INT UNIQUE, ts TIMESTAMP NOT NULL DEFAULT \
        NOW() ON UPDATE NOW(), x INT DEFAULT (1+1), tx TEXT)",
    )
    .unwrap();
    let rows = s.rows("SHOW COLUMNS FROM t");
    assert_eq!(
        rows[0][3], "PRI",
        "the unique key over NOT NULL columns stands for the primary key"
    );
    assert_eq!(rows[1][3], "UNI");
    assert_eq!(
        rows[2][4..],
        ["CURRENT_TIMESTAMP", "DEFAULT_GENERATED on update CURRENT_TIMESTAMP"]
    );
    assert_eq!(rows[3][4..], ["1+1", "DEFAULT_GENERATED"]);
    assert_eq!(rows[4][4..], ["NULL", ""]);
}

#[test]
fn databases_and_tables() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE DATABASE other COLLATE latin1_bin").unwrap();
    s.ddl("CREATE TABLE one (a INT) COMMENT 'first'").unwrap();
    s.ddl("CREATE TABLE two (id INT PRIMARY KEY AUTO_INCREMENT) AUTO_INCREMENT=9").unwrap();
    assert_eq!(s.rows("SHOW DATABASES"), [["information_schema"], ["other"], ["test"]]);
    assert_eq!(s.rows("SHOW DATABASES LIKE 't%'"), [["test"]]);
    assert!(s.rows("SHOW DATABASES LIKE 'T%'").is_empty());
    let tables = s.run("SHOW FULL TABLES FROM test WHERE Table_type = 'BASE TABLE'").unwrap();
    assert_eq!(tables.columns, ["Tables_in_test", "Table_type"]);
    assert_eq!(tables.rows, [["one", "BASE TABLE"], ["two", "BASE TABLE"]]);
    assert_eq!(s.rows("SHOW TABLES WHERE Tables_in_test <> 'one'"), [["two"]]);
    assert_eq!(
        s.rows("SHOW CREATE DATABASE other"),
        [[
            "other",
            "CREATE DATABASE `other` /*!40100 DEFAULT CHARACTER SET latin1 COLLATE latin1_bin */ \
                /*!80016 DEFAULT ENCRYPTION='N' */"
        ]]
    );
    s.insert("two", &[&[Value::Int(1)], &[Value::Int(2)]]);
    let status = s.rows("SHOW TABLE STATUS LIKE 'two'");
    assert_eq!(
        (
            status[0][0].as_str(),
            status[0][1].as_str(),
            status[0][4].as_str(),
            status[0][10].as_str()
        ),
        ("two", "InnoDB", "2", "9")
    );
    assert_eq!(s.rows("SHOW OPEN TABLES").len(), 2);
    assert_eq!(s.error("SHOW CREATE TABLE nope"), 1146);
    assert_eq!(s.error("SHOW TABLES FROM nope"), 1049);
}

#[test]
fn warnings_and_the_server() {
    let server = Server::new();
    let s = &mut server.session();
    s.state.warnings.push(Level::Note, 1051, "Unknown table 'test.x'");
    s.state.warnings.push(Level::Error, 1146, "Table 'test.x' doesn't exist");
    assert_eq!(
        s.rows("SHOW WARNINGS"),
        [
            ["Note", "1051", "Unknown table 'test.x'"],
            ["Error", "1146", "Table 'test.x' doesn't exist"]
        ]
    );
    assert_eq!(s.rows("SHOW ERRORS").len(), 1);
    assert_eq!(s.rows("SHOW WARNINGS LIMIT 1, 1")[0][0], "Error");
    assert_eq!(s.rows("SHOW COUNT(*) WARNINGS"), [["2"]]);
    assert_eq!(s.rows("SHOW PROCESSLIST").len(), 1);
    assert_eq!(s.rows("SHOW ENGINES")[0][..2], ["InnoDB", "DEFAULT"]);
    assert_eq!(s.rows("SHOW CHARACTER SET LIKE 'latin1'")[0][2..], ["latin1_swedish_ci", "1"]);
    assert_eq!(
        s.rows("SHOW COLLATION WHERE Charset = 'utf8mb4' AND `Default` = 'Yes'")[0][0],
        "utf8mb4_general_ci"
    );
    assert!(s.rows("SHOW TRIGGERS").is_empty() && s.rows("SHOW MASTER STATUS").is_empty());
    let own = "GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION";
    for text in ["SHOW GRANTS", "SHOW GRANTS FOR CURRENT_USER()", "SHOW GRANTS FOR root"] {
        let shown = s.run(text).unwrap();
        assert_eq!((&*shown.columns[0], &*shown.rows[0][0]), ("Grants for root@localhost", own));
    }
    assert_eq!(s.error("SHOW GRANTS FOR nobody"), 1141);
    assert_eq!(s.error("SHOW GRANTS FOR root@elsewhere"), 1141);
}

#[test]
fn variables_and_status() {
    let server = Server::new();
    let s = &mut server.session();
    assert_eq!(
        s.rows("SHOW VARIABLES LIKE 'lower_case_table_names'"),
        [["lower_case_table_names", "0"]]
    );
    assert_eq!(
        s.rows("SHOW VARIABLES WHERE Variable_name IN ('autocommit', 'wait_timeout')").len(),
        2
    );
    s.run("SET wait_timeout = 7").unwrap();
    assert_eq!(s.rows("SHOW SESSION VARIABLES LIKE 'wait_timeout'")[0][1], "7");
    assert_eq!(s.rows("SHOW GLOBAL VARIABLES LIKE 'wait_timeout'")[0][1], "28800");
    assert_eq!(s.rows("SHOW VARIABLES LIKE 'pseudo_thread_id'")[0][1], s.state.id.to_string());
    server.status.counters.add(crate::status::Counter::ComSelect, 3);
    assert_eq!(s.rows("SHOW GLOBAL STATUS LIKE 'com\\_select'"), [["Com_select", "3"]]);
}

#[test]
fn engine_status_has_the_sections() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let table = s.table("t");
    let mut trx = server.engine.begin(s.kill.clone());
    let mut row = Vec::new();
    table.layout.encode(&[Value::Int(1)], &mut row);
    redolith_engine::runtime::block_on(trx.insert(&table, &row)).unwrap();
    let rows = s.rows("SHOW ENGINE INNODB STATUS");
    let report = &rows[0][2];
    for part in [
        "BACKGROUND THREAD",
        "SEMAPHORES",
        "TRANSACTIONS",
        "FILE I/O",
        "\nLOG\n",
        "Log sequence number",
        "BUFFER POOL AND MEMORY",
        "ROW OPERATIONS",
    ] {
        assert!(report.contains(part), "{part}:\n{report}");
    }
    assert!(
        report.contains(&format!("---TRANSACTION {}, ACTIVE\n0 row lock(s)\n", trx.id().0)),
        "{report}"
    );
    redolith_engine::runtime::block_on(trx.rollback()).unwrap();
}
