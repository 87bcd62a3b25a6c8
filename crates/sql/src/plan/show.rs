//! SHOW: the form, its object and its filter. This file fixes the columns of each form, because
//! clients read the columns by name and WHERE refers to them.
use super::admin::TableName;
use super::expr::{Expr, VariableScope};
use redolith_types::{Collation, TableDef};

#[derive(Clone, Debug)]
pub struct ShowStmt {
    pub kind: ShowKind,
    pub filter: ShowFilter,
}

#[derive(Clone, Debug)]
pub enum ShowFilter {
    None,
    /// LIKE on the column [`ShowKind::like_column`] (`\` escapes).
    Like(Box<str>),
    /// `Column { source: 0, column }` is an output column of the form.
    Where(Box<Expr>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShowKind {
    Databases,
    Tables {
        schema: Box<str>,
        full: bool,
    },
    TableStatus {
        schema: Box<str>,
    },
    OpenTables {
        schema: Option<Box<str>>,
    },
    Columns {
        table: TableName,
        full: bool,
    },
    Index {
        table: TableName,
    },
    CreateTable(TableName),
    /// The columns of a view, as they are now.
    ViewColumns {
        def: Box<TableDef>,
        full: bool,
    },
    CreateView {
        name: Box<str>,
        text: Box<str>,
        client: Collation,
        connection: Collation,
    },
    CreateDatabase {
        name: Box<str>,
        if_not_exists: bool,
    },
    Variables(VariableScope),
    Status(VariableScope),
    /// LIMIT offset, count.
    Warnings {
        offset: u64,
        count: u64,
    },
    Errors {
        offset: u64,
        count: u64,
    },
    CountWarnings,
    CountErrors,
    ProcessList {
        full: bool,
    },
    EngineStatus,
    EngineMutex,
    Engines,
    Plugins,
    CharacterSet,
    Collation,
    /// The account of the session.
    Grants {
        user: Box<str>,
        host: Box<str>,
    },
    Triggers {
        schema: Box<str>,
    },
    Events {
        schema: Box<str>,
    },
    ProcedureStatus,
    FunctionStatus,
    MasterStatus,
    BinaryLogs,
    /// None: the oldest file.
    BinlogEvents {
        file: Option<Box<str>>,
        from: u64,
        offset: u64,
        count: u64,
    },
    Replicas,
    SlaveHosts,
    ReplicaStatus,
    /// `convert`: the names in hexadecimal digits.
    XaRecover {
        convert: bool,
    },
    Profiles,
}

/// A column of a SHOW result: its name and its type.
pub type ShowColumn = (&'static str, ShowType);
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShowType {
    Text,
    /// The name of a database or a table, in which case matters.
    Name,
    LongText,
    Int,
    DateTime,
}
impl ShowType {
    pub fn collation(self) -> Collation {
        match self {
            ShowType::Name => Collation::Utf8mb4Bin,
            _ => Collation::Utf8mb4GeneralCi,
        }
    }
}
use ShowType::{DateTime, Int, LongText, Name, Text};

impl ShowKind {
    /// The name of the first column if it depends on the statement ("Tables_in_test"); otherwise
    /// None, and `columns()[0]` has the name.
    pub fn first_column(&self, like: Option<&str>) -> Option<String> {
        let base = match self {
            ShowKind::Databases => "Database".to_string(),
            ShowKind::Tables { schema, .. } => format!("Tables_in_{schema}"),
            ShowKind::Grants { user, host } => return Some(format!("Grants for {user}@{host}")),
            _ => return None,
        };
        Some(match like {
            Some(pattern) => format!("{base} ({pattern})"),
            None => base,
        })
    }

    /// The column that LIKE compares.
    pub fn like_column(&self) -> usize {
        matches!(self, ShowKind::OpenTables { .. }) as usize
    }

    pub fn columns(&self) -> &'static [ShowColumn] {
        match self {
            ShowKind::Databases => &[("Database", Name)],
            ShowKind::Tables { full: false, .. } => &[("Tables", Name)],
            ShowKind::Tables { full: true, .. } => &[("Tables", Name), ("Table_type", Text)],
            ShowKind::TableStatus { .. } => TABLE_STATUS,
            ShowKind::OpenTables { .. } => {
                &[("Database", Name), ("Table", Name), ("In_use", Int), ("Name_locked", Int)]
            }
            ShowKind::Columns { full: false, .. } | ShowKind::ViewColumns { full: false, .. } => &[
                ("Field", Text),
                ("Type", LongText),
                ("Null", Text),
                ("Key", Text),
                ("Default", LongText),
                ("Extra", Text),
            ],
            ShowKind::Columns { full: true, .. } | ShowKind::ViewColumns { full: true, .. } => &[
                ("Field", Text),
                ("Type", LongText),
                ("Collation", Text),
                ("Null", Text),
                ("Key", Text),
                ("Default", LongText),
                ("Extra", Text),
                ("Privileges", Text),
                ("Comment", LongText),
            ],
            ShowKind::Index { .. } => INDEX,
            ShowKind::CreateTable(_) => &[("Table", Text), ("Create Table", LongText)],
            ShowKind::CreateView { .. } => &[
                ("View", Text),
                ("Create View", LongText),
                ("character_set_client", Text),
                ("collation_connection", Text),
            ],
            ShowKind::CreateDatabase { .. } => &[("Database", Text), ("Create Database", LongText)],
            ShowKind::Variables(_) | ShowKind::Status(_) => {
                &[("Variable_name", Text), ("Value", LongText)]
            }
            ShowKind::Warnings { .. } | ShowKind::Errors { .. } => {
                &[("Level", Text), ("Code", Int), ("Message", LongText)]
            }
            ShowKind::CountWarnings => &[("@@session.warning_count", Int)],
            ShowKind::CountErrors => &[("@@session.error_count", Int)],
            ShowKind::ProcessList { .. } => &[
                ("Id", Int),
                ("User", Text),
                ("Host", Text),
                ("db", Text),
                ("Command", Text),
                ("Time", Int),
                ("State", Text),
                ("Info", LongText),
            ],
            ShowKind::EngineStatus | ShowKind::EngineMutex => {
                &[("Type", Text), ("Name", Text), ("Status", LongText)]
            }
            ShowKind::Engines => &[
                ("Engine", Text),
                ("Support", Text),
                ("Comment", Text),
                ("Transactions", Text),
                ("XA", Text),
                ("Savepoints", Text),
            ],
            ShowKind::Plugins => &[
                ("Name", Text),
                ("Status", Text),
                ("Type", Text),
                ("Library", Text),
                ("License", Text),
            ],
            ShowKind::CharacterSet => &[
                ("Charset", Text),
                ("Description", Text),
                ("Default collation", Text),
                ("Maxlen", Int),
            ],
            ShowKind::Collation => &[
                ("Collation", Text),
                ("Charset", Text),
                ("Id", Int),
                ("Default", Text),
                ("Compiled", Text),
                ("Sortlen", Int),
                ("Pad_attribute", Text),
            ],
            ShowKind::Grants { .. } => &[("Grants", LongText)],
            ShowKind::Triggers { .. } => TRIGGERS,
            ShowKind::Events { .. } => EVENTS,
            ShowKind::ProcedureStatus | ShowKind::FunctionStatus => ROUTINES,
            ShowKind::MasterStatus => &[
                ("File", Text),
                ("Position", Int),
                ("Binlog_Do_DB", Text),
                ("Binlog_Ignore_DB", Text),
                ("Executed_Gtid_Set", Text),
            ],
            ShowKind::BinaryLogs => &[("Log_name", Text), ("File_size", Int), ("Encrypted", Text)],
            ShowKind::BinlogEvents { .. } => &[
                ("Log_name", Text),
                ("Pos", Int),
                ("Event_type", Text),
                ("Server_id", Int),
                ("End_log_pos", Int),
                ("Info", LongText),
            ],
            ShowKind::Replicas => &[
                ("Server_Id", Int),
                ("Host", Text),
                ("Port", Int),
                ("Source_Id", Int),
                ("Replica_UUID", Text),
            ],
            ShowKind::SlaveHosts => &[
                ("Server_id", Int),
                ("Host", Text),
                ("Port", Int),
                ("Master_id", Int),
                ("Slave_UUID", Text),
            ],
            ShowKind::ReplicaStatus => &[
                ("Replica_IO_State", Text),
                ("Source_Host", Text),
                ("Source_User", Text),
                ("Source_Port", Int),
            ],
            ShowKind::XaRecover { .. } => {
                &[("formatID", Int), ("gtrid_length", Int), ("bqual_length", Int), ("data", Text)]
            }
            ShowKind::Profiles => &[("Query_ID", Int), ("Duration", Text), ("Query", LongText)],
        }
    }
}

const TABLE_STATUS: &[ShowColumn] = &[
    ("Name", Name),
    ("Engine", Text),
    ("Version", Int),
    ("Row_format", Text),
    ("Rows", Int),
    ("Avg_row_length", Int),
    ("Data_length", Int),
    ("Max_data_length", Int),
    ("Index_length", Int),
    ("Data_free", Int),
    ("Auto_increment", Int),
    ("Create_time", DateTime),
    ("Update_time", DateTime),
    ("Check_time", DateTime),
    ("Collation", Text),
    ("Checksum", Int),
    ("Create_options", Text),
    ("Comment", LongText),
];
const INDEX: &[ShowColumn] = &[
    ("Table", Name),
    ("Non_unique", Int),
    ("Key_name", Text),
    ("Seq_in_index", Int),
    ("Column_name", Text),
    ("Collation", Text),
    ("Cardinality", Int),
    ("Sub_part", Int),
    ("Packed", Text),
    ("Null", Text),
    ("Index_type", Text),
    ("Comment", Text),
    ("Index_comment", LongText),
    ("Visible", Text),
    ("Expression", LongText),
];
const TRIGGERS: &[ShowColumn] = &[
    ("Trigger", Text),
    ("Event", Text),
    ("Table", Text),
    ("Statement", LongText),
    ("Timing", Text),
    ("Created", DateTime),
    ("sql_mode", Text),
    ("Definer", Text),
    ("character_set_client", Text),
    ("collation_connection", Text),
    ("Database Collation", Text),
];
const EVENTS: &[ShowColumn] = &[
    ("Db", Text),
    ("Name", Text),
    ("Definer", Text),
    ("Time zone", Text),
    ("Type", Text),
    ("Execute at", DateTime),
    ("Interval value", Text),
    ("Interval field", Text),
    ("Starts", DateTime),
    ("Ends", DateTime),
    ("Status", Text),
    ("Originator", Int),
    ("character_set_client", Text),
    ("collation_connection", Text),
    ("Database Collation", Text),
];
const ROUTINES: &[ShowColumn] = &[
    ("Db", Text),
    ("Name", Text),
    ("Type", Text),
    ("Definer", Text),
    ("Modified", DateTime),
    ("Created", DateTime),
    ("Security_type", Text),
    ("Comment", LongText),
    ("character_set_client", Text),
    ("collation_connection", Text),
    ("Database Collation", Text),
];
