//! The tables of INFORMATION_SCHEMA and their columns, with the names, order and types of MySQL
//! 8.0.
use super::Virtual;
use redolith_types::{Collation, Column, LobSize, SqlType, TableDef};

/// A column's type.
#[derive(Clone, Copy)]
pub(super) enum Ty {
    /// An identifier. Case matters, as in the names of databases and tables.
    Name,
    NameOrNull,
    Str(u32),
    StrOrNull(u32),
    Text,
    TextOrNull,
    Int,
    IntOrNull,
    Uint,
    UintOrNull,
    DoubleOrNull,
    TimeOrNull,
}
use Ty::*;

impl Ty {
    fn column(self, name: &str) -> Column {
        let text = |chars, collation| SqlType::VarChar { chars, collation };
        let ty = match self {
            Name | NameOrNull => text(64, Collation::Utf8mb4Bin),
            Str(n) | StrOrNull(n) => text(n, Collation::Utf8mb4GeneralCi),
            Text | TextOrNull => {
                SqlType::Text { size: LobSize::Long, collation: Collation::Utf8mb4GeneralCi }
            }
            Int | IntOrNull => SqlType::BIGINT,
            Uint | UintOrNull => SqlType::BIGINT_UNSIGNED,
            DoubleOrNull => SqlType::DOUBLE,
            TimeOrNull => SqlType::DateTime { fsp: 0 },
        };
        let column = Column::new(name, ty);
        match self {
            Name | Str(_) | Text | Int | Uint => column.not_null(),
            NameOrNull | StrOrNull(_) | TextOrNull | IntOrNull | UintOrNull | DoubleOrNull
            | TimeOrNull => column,
        }
    }
}

pub(super) fn definition(table: Virtual) -> TableDef {
    TableDef {
        schema: super::SCHEMA.into(),
        name: table.name().into(),
        columns: columns(table).iter().map(|(name, ty)| ty.column(name)).collect(),
        indexes: Vec::new(),
        collation: Collation::Utf8mb4GeneralCi,
        comment: String::new(),
        checks: Vec::new(),
    }
}

type Columns = &'static [(&'static str, Ty)];

fn columns(table: Virtual) -> Columns {
    match table {
        Virtual::CharacterSets => CHARACTER_SETS,
        Virtual::CheckConstraints => CHECK_CONSTRAINTS,
        Virtual::CollationCharacterSetApplicability => COLLATION_APPLICABILITY,
        Virtual::Collations => COLLATIONS,
        Virtual::Columns => COLUMNS,
        Virtual::ColumnStatistics => COLUMN_STATISTICS,
        Virtual::Engines => ENGINES,
        Virtual::Events => EVENTS,
        Virtual::Files => FILES,
        Virtual::InnodbMetrics => INNODB_METRICS,
        Virtual::KeyColumnUsage => KEY_COLUMN_USAGE,
        Virtual::Partitions => PARTITIONS,
        Virtual::Processlist => PROCESSLIST,
        Virtual::ReferentialConstraints => REFERENTIAL_CONSTRAINTS,
        Virtual::Routines => ROUTINES,
        Virtual::Schemata => SCHEMATA,
        Virtual::Statistics => STATISTICS,
        Virtual::TableConstraints => TABLE_CONSTRAINTS,
        Virtual::Tables => TABLES,
        Virtual::Triggers => TRIGGERS,
        Virtual::Views => VIEWS,
    }
}

const INNODB_METRICS: Columns = &[
    ("NAME", Str(193)),
    ("SUBSYSTEM", Str(193)),
    ("COUNT", Int),
    ("MAX_COUNT", IntOrNull),
    ("MIN_COUNT", IntOrNull),
    ("AVG_COUNT", DoubleOrNull),
    ("COUNT_RESET", Int),
    ("MAX_COUNT_RESET", IntOrNull),
    ("MIN_COUNT_RESET", IntOrNull),
    ("AVG_COUNT_RESET", DoubleOrNull),
    ("TIME_ENABLED", TimeOrNull),
    ("TIME_DISABLED", TimeOrNull),
    ("TIME_ELAPSED", IntOrNull),
    ("TIME_RESET", TimeOrNull),
    ("STATUS", Str(193)),
    ("TYPE", Str(193)),
    ("COMMENT", Str(193)),
];
const SCHEMATA: Columns = &[
    ("CATALOG_NAME", Name),
    ("SCHEMA_NAME", Name),
    ("DEFAULT_CHARACTER_SET_NAME", Str(64)),
    ("DEFAULT_COLLATION_NAME", Str(64)),
    ("SQL_PATH", StrOrNull(512)),
    ("DEFAULT_ENCRYPTION", Str(3)),
];
const TABLES: Columns = &[
    ("TABLE_CATALOG", Name),
    ("TABLE_SCHEMA", Name),
    ("TABLE_NAME", Name),
    ("TABLE_TYPE", Str(11)),
    ("ENGINE", StrOrNull(64)),
    ("VERSION", IntOrNull),
    ("ROW_FORMAT", StrOrNull(10)),
    ("TABLE_ROWS", UintOrNull),
    ("AVG_ROW_LENGTH", UintOrNull),
    ("DATA_LENGTH", UintOrNull),
    ("MAX_DATA_LENGTH", UintOrNull),
    ("INDEX_LENGTH", UintOrNull),
    ("DATA_FREE", UintOrNull),
    ("AUTO_INCREMENT", UintOrNull),
    ("CREATE_TIME", TimeOrNull),
    ("UPDATE_TIME", TimeOrNull),
    ("CHECK_TIME", TimeOrNull),
    ("TABLE_COLLATION", StrOrNull(64)),
    ("CHECKSUM", IntOrNull),
    ("CREATE_OPTIONS", StrOrNull(256)),
    ("TABLE_COMMENT", TextOrNull),
];
const COLUMNS: Columns = &[
    ("TABLE_CATALOG", Name),
    ("TABLE_SCHEMA", Name),
    ("TABLE_NAME", Name),
    ("COLUMN_NAME", StrOrNull(64)),
    ("ORDINAL_POSITION", Uint),
    ("COLUMN_DEFAULT", TextOrNull),
    ("IS_NULLABLE", Str(3)),
    ("DATA_TYPE", TextOrNull),
    ("CHARACTER_MAXIMUM_LENGTH", IntOrNull),
    ("CHARACTER_OCTET_LENGTH", IntOrNull),
    ("NUMERIC_PRECISION", UintOrNull),
    ("NUMERIC_SCALE", UintOrNull),
    ("DATETIME_PRECISION", UintOrNull),
    ("CHARACTER_SET_NAME", StrOrNull(64)),
    ("COLLATION_NAME", StrOrNull(64)),
    ("COLUMN_TYPE", Text),
    ("COLUMN_KEY", Str(3)),
    ("EXTRA", StrOrNull(256)),
    ("PRIVILEGES", StrOrNull(154)),
    ("COLUMN_COMMENT", Text),
    ("GENERATION_EXPRESSION", Text),
    ("SRS_ID", UintOrNull),
];
const STATISTICS: Columns = &[
    ("TABLE_CATALOG", Name),
    ("TABLE_SCHEMA", Name),
    ("TABLE_NAME", Name),
    ("NON_UNIQUE", Int),
    ("INDEX_SCHEMA", Name),
    ("INDEX_NAME", StrOrNull(64)),
    ("SEQ_IN_INDEX", Uint),
    ("COLUMN_NAME", StrOrNull(64)),
    ("COLLATION", StrOrNull(1)),
    ("CARDINALITY", IntOrNull),
    ("SUB_PART", IntOrNull),
    ("PACKED", StrOrNull(10)),
    ("NULLABLE", Str(3)),
    ("INDEX_TYPE", Str(11)),
    ("COMMENT", Str(8)),
    ("INDEX_COMMENT", Str(2048)),
    ("IS_VISIBLE", Str(3)),
    ("EXPRESSION", TextOrNull),
];
const TABLE_CONSTRAINTS: Columns = &[
    ("CONSTRAINT_CATALOG", Name),
    ("CONSTRAINT_SCHEMA", Name),
    ("CONSTRAINT_NAME", StrOrNull(64)),
    ("TABLE_SCHEMA", Name),
    ("TABLE_NAME", Name),
    ("CONSTRAINT_TYPE", Str(11)),
    ("ENFORCED", Str(3)),
];
const KEY_COLUMN_USAGE: Columns = &[
    ("CONSTRAINT_CATALOG", Name),
    ("CONSTRAINT_SCHEMA", Name),
    ("CONSTRAINT_NAME", StrOrNull(64)),
    ("TABLE_CATALOG", Name),
    ("TABLE_SCHEMA", Name),
    ("TABLE_NAME", Name),
    ("COLUMN_NAME", StrOrNull(64)),
    ("ORDINAL_POSITION", Uint),
    ("POSITION_IN_UNIQUE_CONSTRAINT", UintOrNull),
    ("REFERENCED_TABLE_SCHEMA", NameOrNull),
    ("REFERENCED_TABLE_NAME", NameOrNull),
    ("REFERENCED_COLUMN_NAME", StrOrNull(64)),
];
const REFERENTIAL_CONSTRAINTS: Columns = &[
    ("CONSTRAINT_CATALOG", Name),
    ("CONSTRAINT_SCHEMA", Name),
    ("CONSTRAINT_NAME", StrOrNull(64)),
    ("UNIQUE_CONSTRAINT_CATALOG", Name),
    ("UNIQUE_CONSTRAINT_SCHEMA", Name),
    ("UNIQUE_CONSTRAINT_NAME", StrOrNull(64)),
    ("MATCH_OPTION", Str(7)),
    ("UPDATE_RULE", Str(11)),
    ("DELETE_RULE", Str(11)),
    ("TABLE_NAME", Name),
    ("REFERENCED_TABLE_NAME", Name),
];
const CHECK_CONSTRAINTS: Columns = &[
    ("CONSTRAINT_CATALOG", Name),
    ("CONSTRAINT_SCHEMA", Name),
    ("CONSTRAINT_NAME", Str(64)),
    ("CHECK_CLAUSE", Text),
];
const ENGINES: Columns = &[
    ("ENGINE", Str(64)),
    ("SUPPORT", Str(8)),
    ("COMMENT", Str(80)),
    ("TRANSACTIONS", StrOrNull(3)),
    ("XA", StrOrNull(3)),
    ("SAVEPOINTS", StrOrNull(3)),
];
const PROCESSLIST: Columns = &[
    ("ID", Uint),
    ("USER", Str(32)),
    ("HOST", Str(261)),
    ("DB", StrOrNull(64)),
    ("COMMAND", Str(16)),
    ("TIME", Int),
    ("STATE", StrOrNull(128)),
    ("INFO", TextOrNull),
    ("ROWS_DONE", UintOrNull),
    ("ROWS_EXPECTED", UintOrNull),
    ("ROWS_PER_SECOND", UintOrNull),
    ("SECONDS_LEFT", UintOrNull),
];
const CHARACTER_SETS: Columns = &[
    ("CHARACTER_SET_NAME", Str(64)),
    ("DEFAULT_COLLATE_NAME", Str(64)),
    ("DESCRIPTION", Str(2048)),
    ("MAXLEN", Uint),
];
const COLLATIONS: Columns = &[
    ("COLLATION_NAME", Str(64)),
    ("CHARACTER_SET_NAME", Str(64)),
    ("ID", Uint),
    ("IS_DEFAULT", Str(3)),
    ("IS_COMPILED", Str(3)),
    ("SORTLEN", Uint),
    ("PAD_ATTRIBUTE", Str(9)),
];
const COLLATION_APPLICABILITY: Columns =
    &[("COLLATION_NAME", Str(64)), ("CHARACTER_SET_NAME", Str(64))];

// The following tables exist for clients that query them. They are always empty.
const VIEWS: Columns = &[
    ("TABLE_CATALOG", Name),
    ("TABLE_SCHEMA", Name),
    ("TABLE_NAME", Name),
    ("VIEW_DEFINITION", TextOrNull),
    ("CHECK_OPTION", StrOrNull(8)),
    ("IS_UPDATABLE", StrOrNull(3)),
    ("DEFINER", StrOrNull(288)),
    ("SECURITY_TYPE", StrOrNull(7)),
    ("CHARACTER_SET_CLIENT", Str(64)),
    ("COLLATION_CONNECTION", Str(64)),
];
const TRIGGERS: Columns = &[
    ("TRIGGER_CATALOG", Name),
    ("TRIGGER_SCHEMA", Name),
    ("TRIGGER_NAME", Name),
    ("EVENT_MANIPULATION", Str(6)),
    ("EVENT_OBJECT_CATALOG", Name),
    ("EVENT_OBJECT_SCHEMA", Name),
    ("EVENT_OBJECT_TABLE", Name),
    ("ACTION_ORDER", Uint),
    ("ACTION_CONDITION", TextOrNull),
    ("ACTION_STATEMENT", Text),
    ("ACTION_ORIENTATION", Str(3)),
    ("ACTION_TIMING", Str(6)),
    ("ACTION_REFERENCE_OLD_TABLE", NameOrNull),
    ("ACTION_REFERENCE_NEW_TABLE", NameOrNull),
    ("ACTION_REFERENCE_OLD_ROW", Str(3)),
    ("ACTION_REFERENCE_NEW_ROW", Str(3)),
    ("CREATED", TimeOrNull),
    ("SQL_MODE", Str(520)),
    ("DEFINER", Str(288)),
    ("CHARACTER_SET_CLIENT", Str(64)),
    ("COLLATION_CONNECTION", Str(64)),
    ("DATABASE_COLLATION", Str(64)),
];
const ROUTINES: Columns = &[
    ("SPECIFIC_NAME", Str(64)),
    ("ROUTINE_CATALOG", Name),
    ("ROUTINE_SCHEMA", Name),
    ("ROUTINE_NAME", Str(64)),
    ("ROUTINE_TYPE", Str(9)),
    ("DATA_TYPE", TextOrNull),
    ("CHARACTER_MAXIMUM_LENGTH", IntOrNull),
    ("CHARACTER_OCTET_LENGTH", IntOrNull),
    ("NUMERIC_PRECISION", UintOrNull),
    ("NUMERIC_SCALE", UintOrNull),
    ("DATETIME_PRECISION", UintOrNull),
    ("CHARACTER_SET_NAME", StrOrNull(64)),
    ("COLLATION_NAME", StrOrNull(64)),
    ("DTD_IDENTIFIER", TextOrNull),
    ("ROUTINE_BODY", Str(8)),
    ("ROUTINE_DEFINITION", TextOrNull),
    ("EXTERNAL_NAME", StrOrNull(64)),
    ("EXTERNAL_LANGUAGE", Str(64)),
    ("PARAMETER_STYLE", Str(3)),
    ("IS_DETERMINISTIC", Str(3)),
    ("SQL_DATA_ACCESS", Str(17)),
    ("SQL_PATH", StrOrNull(64)),
    ("SECURITY_TYPE", Str(7)),
    ("CREATED", TimeOrNull),
    ("LAST_ALTERED", TimeOrNull),
    ("SQL_MODE", Str(520)),
    ("ROUTINE_COMMENT", Text),
    ("DEFINER", Str(288)),
    ("CHARACTER_SET_CLIENT", Str(64)),
    ("COLLATION_CONNECTION", Str(64)),
    ("DATABASE_COLLATION", Str(64)),
];
const EVENTS: Columns = &[
    ("EVENT_CATALOG", Name),
    ("EVENT_SCHEMA", Name),
    ("EVENT_NAME", Str(64)),
    ("DEFINER", Str(288)),
    ("TIME_ZONE", Str(64)),
    ("EVENT_BODY", Str(3)),
    ("EVENT_DEFINITION", Text),
    ("EVENT_TYPE", Str(9)),
    ("EXECUTE_AT", TimeOrNull),
    ("INTERVAL_VALUE", StrOrNull(256)),
    ("INTERVAL_FIELD", StrOrNull(18)),
    ("SQL_MODE", Str(520)),
    ("STARTS", TimeOrNull),
    ("ENDS", TimeOrNull),
    ("STATUS", Str(21)),
    ("ON_COMPLETION", Str(12)),
    ("CREATED", TimeOrNull),
    ("LAST_ALTERED", TimeOrNull),
    ("LAST_EXECUTED", TimeOrNull),
    ("EVENT_COMMENT", Str(2048)),
    ("ORIGINATOR", Uint),
    ("CHARACTER_SET_CLIENT", Str(64)),
    ("COLLATION_CONNECTION", Str(64)),
    ("DATABASE_COLLATION", Str(64)),
];
const PARTITIONS: Columns = &[
    ("TABLE_CATALOG", Name),
    ("TABLE_SCHEMA", Name),
    ("TABLE_NAME", Name),
    ("PARTITION_NAME", StrOrNull(64)),
    ("SUBPARTITION_NAME", StrOrNull(64)),
    ("PARTITION_ORDINAL_POSITION", UintOrNull),
    ("SUBPARTITION_ORDINAL_POSITION", UintOrNull),
    ("PARTITION_METHOD", StrOrNull(13)),
    ("SUBPARTITION_METHOD", StrOrNull(13)),
    ("PARTITION_EXPRESSION", StrOrNull(2048)),
    ("SUBPARTITION_EXPRESSION", StrOrNull(2048)),
    ("PARTITION_DESCRIPTION", TextOrNull),
    ("TABLE_ROWS", UintOrNull),
    ("AVG_ROW_LENGTH", UintOrNull),
    ("DATA_LENGTH", UintOrNull),
    ("MAX_DATA_LENGTH", UintOrNull),
    ("INDEX_LENGTH", UintOrNull),
    ("DATA_FREE", UintOrNull),
    ("CREATE_TIME", TimeOrNull),
    ("UPDATE_TIME", TimeOrNull),
    ("CHECK_TIME", TimeOrNull),
    ("CHECKSUM", IntOrNull),
    ("PARTITION_COMMENT", Text),
    ("NODEGROUP", StrOrNull(256)),
    ("TABLESPACE_NAME", StrOrNull(268)),
];
const FILES: Columns = &[
    ("FILE_ID", IntOrNull),
    ("FILE_NAME", TextOrNull),
    ("FILE_TYPE", StrOrNull(256)),
    ("TABLESPACE_NAME", Str(268)),
    ("TABLE_CATALOG", Str(64)),
    ("TABLE_SCHEMA", StrOrNull(64)),
    ("TABLE_NAME", StrOrNull(64)),
    ("LOGFILE_GROUP_NAME", StrOrNull(256)),
    ("LOGFILE_GROUP_NUMBER", IntOrNull),
    ("ENGINE", Str(64)),
    ("INITIAL_SIZE", IntOrNull),
    ("EXTENT_SIZE", IntOrNull),
    ("TOTAL_EXTENTS", IntOrNull),
    ("EXTRA", StrOrNull(256)),
];
const COLUMN_STATISTICS: Columns =
    &[("SCHEMA_NAME", Name), ("TABLE_NAME", Name), ("COLUMN_NAME", Str(64)), ("HISTOGRAM", Text)];
