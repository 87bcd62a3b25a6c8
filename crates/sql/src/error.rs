//! Errors as clients see them: MySQL's number, SQLSTATE and wording. Only this file spells MySQL's
//! messages.
//!
//! Constructors are named after what went wrong and take the parts of the message.
//! `From<redolith_engine::Error>` is the border to the engine; where the statement knows more than
//! the engine (the value of a duplicate key), the executor builds the error itself.
use redolith_engine::Error as EngineError;
use redolith_engine::temporary::FileCall;
use redolith_types::json::JsonError;
use std::fmt::{self, Display};

pub type Result<T> = std::result::Result<T, SqlError>;

/// The most characters of the statement that error 1064 shows, and of a value in most messages, as
/// in MySQL.
const SHOWN_CHARS: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    pub code: u16,
    pub sqlstate: [u8; 5],
    pub message: Box<str>,
}

impl Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code, String::from_utf8_lossy(&self.sqlstate), self.message)
    }
}
impl std::error::Error for SqlError {}

/// The SQLSTATE of each error number that this server sends; HY000 is MySQL's "general error".
const fn sqlstate(code: u16) -> &'static [u8; 5] {
    match code {
        1022 | 1048 | 1052 | 1062 => b"23000",
        1044 | 1049 | 1055 | 1056 | 1059 | 1061 | 1063 | 1064 | 1065 | 1066 | 1067 | 1068
        | 1069 | 1070 | 1071 | 1072 | 1073 | 1074 | 1075 => b"42000",
        1090 | 1091 | 1101 | 1102 | 1103 | 1110 | 1113 | 1115 | 1118 | 1140 | 1166 | 1170
        | 1171 | 1176 => b"42000",
        1227 | 1230 | 1234 | 1231 | 1232 | 1235 | 1239 | 1248 | 1250 | 1253 | 1305 | 1425
        | 1426 | 1427 | 1439 | 1461 | 1582 | 1583 | 1083 | 1084 | 3061 | 3948 | 3954 => b"42000",
        1141 | 1172 | 1280 | 1286 => b"42000",
        1037 | 1038 => b"HY001",
        1329 => b"02000",
        1045 => b"28000",
        1046 => b"3D000",
        1047 | 1053 | 1153 => b"08S01",
        1050 => b"42S01",
        1051 | 1109 | 1146 => b"42S02",
        1054 | 1247 => b"42S22",
        1060 => b"42S21",
        1136 => b"21S01",
        1138 => b"22004",
        1205 => b"HY000",
        1213 => b"40001",
        1241 | 1242 | 1222 => b"21000",
        1264 | 1690 => b"22003",
        1261 | 1262 | 1265 => b"01000",
        1263 => b"22004",
        1292 | 1367 => b"22007",
        1397 => b"XAE04",
        1398 => b"XAE05",
        1399 => b"XAE07",
        1400 => b"XAE09",
        1401 => b"XAE03",
        1402 => b"XA100",
        1440 => b"XAE08",
        1614 => b"XA102",
        1441 => b"22008",
        1317 => b"70100",
        1365 => b"22012",
        3020 => b"2201E",
        1406 => b"22001",
        1568 => b"25001",
        1792 => b"25006",
        3140 | 3141 | 3144..=3146 | 3147 | 3150 | 3151 | 3157 | 3158 => b"22032",
        3143 | 3149 | 3152 | 3153 | 3154 | 3165 => b"42000",
        3155 | 3669 => b"22003",
        3156 => b"22018",
        3667 | 3670 => b"42000",
        3665 | 3966 => b"22035",
        3666 => b"2203F",
        3967 => b"22034",
        _ => b"HY000",
    }
}

/// The first characters of a value or statement, for a message.
fn shown(s: &str) -> &str {
    match s.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => &s[..end],
        None => s,
    }
}

/// Makes a constructor from its number, its parameters (all `impl Display`) and its wording.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*) = $code:literal, $fmt:literal;)*) => {
        impl SqlError {
            $($(#[$doc])*
            #[cold]
            pub fn $name($($arg: impl Display),*) -> SqlError {
                SqlError::new($code, format!($fmt))
            })*
        }
    };
}

impl SqlError {
    #[cold]
    pub fn new(code: u16, message: impl Into<String>) -> SqlError {
        SqlError { code, sqlstate: *sqlstate(code), message: message.into().into_boxed_str() }
    }

    /// Error 1300 for bytes of which the first are invalid in the character set. As in MySQL, the
    /// message shows three of them.
    #[cold]
    pub fn invalid_bytes(charset: &str, bytes: &[u8]) -> SqlError {
        let shown: String = bytes.iter().take(3).map(|b| format!("{b:02X}")).collect();
        SqlError::invalid_string(charset, shown)
    }

    /// Error 1064 with its place: `near` is the statement from the first unexpected token on;
    /// `line` counts from 1.
    #[cold]
    pub fn syntax(near: &str, line: usize) -> SqlError {
        let near = shown(near);
        SqlError::new(
            1064,
            format!(
                "You have an error in your SQL syntax; check the manual that corresponds to your \
                    MySQL server version for the right syntax to use near '{near}' at line {line}"
            ),
        )
    }

    /// A value that is not stored in the JSON column `column`.
    #[cold]
    pub fn json(error: &JsonError, column: &str) -> SqlError {
        match error {
            JsonError::Text { why, position } => SqlError::new(
                3140,
                format!(
                    "Invalid JSON text: \"{why}\" at position {position} in value for column \
                        '{column}'."
                ),
            ),
            error => SqlError::new(error.code(), error.to_string()),
        }
    }

    /// The same error of a value for a column, with the table's name if MySQL gives it.
    #[cold]
    pub fn in_table(self, table: &str) -> SqlError {
        const BEFORE: &str = "in value for column '";
        match self.message.rsplit_once(BEFORE) {
            Some((text, column)) if self.code == 3140 => {
                SqlError::new(3140, format!("{text}{BEFORE}{table}.{column}"))
            }
            _ => self,
        }
    }

    /// Error 1292 for a value that is not stored in a column (`Truncated incorrect INTEGER value:
    /// 'x'`).
    #[cold]
    pub fn truncated_wrong_value(kind: impl Display, value: impl Display) -> SqlError {
        SqlError::new(1292, format!("Truncated incorrect {kind} value: '{value}'"))
    }

    /// True if the error has rolled the transaction back: a deadlock and too many locks, as in
    /// MySQL, and a transaction that is too long for the binary log. A lock wait timeout ends only
    /// the statement.
    pub fn ends_transaction(&self) -> bool {
        matches!(self.code, 1197 | 1206 | 1213)
    }
    /// True if a lock could not be had: the wait was too long, or NOWAIT forbids it.
    pub fn is_of_a_lock(&self) -> bool {
        matches!(self.code, 1205 | 3572)
    }
}

errors! {
    generated_key_column_exists() = 4108, "Failed to generate invisible primary key. Column \
        'my_row_id' already exists.";
    generated_key_counter_exists() = 4109, "Failed to generate invisible primary key. \
        Auto-increment column already exists.";
    generated_key_needs_its_column() = 4111, "Please drop primary key column to be able to drop \
        generated invisible primary key.";
    xa_unknown() = 1397, "XAER_NOTA: Unknown XID";
    xa_invalid() = 1398, "XAER_INVAL: Invalid arguments (or unsupported command)";
    xa_state(state) = 1399, "XAER_RMFAIL: The command cannot be executed when global transaction \
        is in the  {state} state";
    xa_outside() = 1400, "XAER_OUTSIDE: Some work is done outside global transaction";
    xa_rolled_back() = 1402, "XA_RBROLLBACK: Transaction branch was rolled back";
    xa_duplicate() = 1440, "XAER_DUPID: The XID already exists";
    xa_deadlock() = 1614, "XA_RBDEADLOCK: Transaction branch was rolled back: deadlock was \
        detected";
    conflicting_charsets(one, other) = 1302, "Conflicting declarations: 'CHARACTER SET {one}' and \
        'CHARACTER SET {other}'";
    illegal_user_variable(name) = 3061, "User variable name '{name}' is illegal";
    database_exists(name) = 1007, "Can't create database '{name}'; database exists";
    cannot_drop_database(name) = 1008, "Can't drop database '{name}'; database doesn't exist";
    error_writing(file, errno, why) = 1026, "Error writing file '{file}' (errno: {errno} - {why})";
    engine_failure(number, why) = 1030, "Got error {number} - '{why}' from storage engine";
    access_denied_database(user, host, database) = 1044, "Access denied for user '{user}'@'{host}' \
        to database '{database}'";
    no_database() = 1046, "No database selected";
    unknown_command() = 1047, "Unknown command";
    column_cannot_be_null(column) = 1048, "Column '{column}' cannot be null";
    unknown_database(name) = 1049, "Unknown database '{name}'";
    table_exists(name) = 1050, "Table '{name}' already exists";
    /// `tables` is a comma-separated list of schema.table, as DROP TABLE names them.
    unknown_table(tables) = 1051, "Unknown table '{tables}'";
    ambiguous_column(column, clause) = 1052, "Column '{column}' in {clause} is ambiguous";
    shutdown() = 1053, "Server shutdown in progress";
    unknown_column(column, clause) = 1054, "Unknown column '{column}' in '{clause}'";
    not_in_group_by(position, clause, column) = 1055, "Expression #{position} of {clause} is not \
        in GROUP BY clause and contains nonaggregated column '{column}' which is not functionally \
        dependent on columns in GROUP BY clause; this is incompatible with \
        sql_mode=only_full_group_by";
    cannot_group_on(name) = 1056, "Can't group on '{name}'";
    name_too_long(name) = 1059, "Identifier name '{name}' is too long";
    duplicate_column(name) = 1060, "Duplicate column name '{name}'";
    duplicate_key_name(name) = 1061, "Duplicate key name '{name}'";
    /// `key` is `table.index`, as MySQL words it since 8.0.19.
    duplicate_entry(value, key) = 1062, "Duplicate entry '{value}' for key '{key}'";
    wrong_column_specifier(column) = 1063, "Incorrect column specifier for column '{column}'";
    empty_query() = 1065, "Query was empty";
    not_unique_table(name) = 1066, "Not unique table/alias: '{name}'";
    invalid_default(column) = 1067, "Invalid default value for '{column}'";
    multiple_primary_key() = 1068, "Multiple primary key defined";
    too_many_keys(max) = 1069, "Too many keys specified; max {max} keys allowed";
    too_many_key_parts(max) = 1070, "Too many key parts specified; max {max} parts allowed";
    key_too_long(max) = 1071, "Specified key was too long; max key length is {max} bytes";
    key_column_missing(column) = 1072, "Key column '{column}' doesn't exist in table";
    column_too_long(column, max) = 1074, "Column length too big for column '{column}' (max = \
        {max}); use BLOB or TEXT instead";
    wrong_auto_key() = 1075, "Incorrect table definition; there can be only one auto column and it \
        must be defined as a key";
    wrong_prefix_key() = 1089, "Incorrect prefix key; the used key part isn't a string, the used \
        length is longer than the key part, or the storage engine doesn't support unique prefix \
        keys";
    cannot_remove_all_columns() = 1090, "You can't delete all columns with ALTER TABLE; use DROP \
        TABLE instead";
    cannot_drop(name) = 1091, "Can't DROP '{name}'; check that column/key exists";
    no_such_thread(id) = 1094, "Unknown thread id: {id}";
    no_tables_used() = 1096, "No tables used";
    table_locked_for_read(table) = 1099, "Table '{table}' was locked with a READ lock and can't be \
        updated";
    table_not_locked(table) = 1100, "Table '{table}' was not locked with LOCK TABLES";
    blob_default(column) = 1101, "BLOB, TEXT, GEOMETRY or JSON column '{column}' can't have a \
        default value";
    wrong_database_name(name) = 1102, "Incorrect database name '{name}'";
    wrong_table_name(name) = 1103, "Incorrect table name '{name}'";
    unknown_error(what) = 1105, "{what}";
    no_memory_for_pool(wanted, more, available) = 1037,
        "Out of memory: innodb_buffer_pool_size = {wanted} needs {more} bytes more than the pool \
         uses, and {available} are available";
    log_not_reopened(why) = 1105, "{why}; the file that was open goes on being written";
    unknown_target(table) = 1109, "Unknown table '{table}' in MULTI DELETE";
    /// `what` is VIEW or BASE TABLE.
    not_of_kind(schema, name, what) = 1347, "'{schema}.{name}' is not {what}";
    column_not_updatable(column) = 1348, "Column '{column}' is not updatable";
    clause_in_view(clause) = 1350, "View's SELECT contains a '{clause}' clause";
    variable_in_view() = 1351, "View's SELECT contains a variable or parameter";
    cannot_merge_view() = 1354, "View merge algorithm can't be used here for now (assumed \
        undefined algorithm)";
    view_is_invalid(schema, name) = 1356, "View '{schema}.{name}' references invalid table(s) or \
        column(s) or function(s) or definer/invoker of view lack rights to use them";
    delete_from_join_view(schema, name) = 1395, "Can not delete from join view \
        '{schema}.{name}'";
    check_option_on_view(schema, name) = 1368, "CHECK OPTION on non-updatable view \
        '{schema}.{name}'";
    check_option_failed(schema, name) = 1369, "CHECK OPTION failed '{schema}.{name}'";
    view_prevents(view, verb, table) = 1443, "The definition of table '{view}' prevents operation \
        {verb} on table '{table}'.";
    schema_change_forbidden(from, to) = 1450, "Changing schema from '{from}' to '{to}' is not \
        allowed.";
    view_of_several_tables(view) = 1393,
        "Can not modify more than one base table through a join view '{view}'";
    view_recursion(schema, name) = 1462, "`{schema}`.`{name}` contains view recursion";
    not_insertable(table, verb) = 1471, "The target table {table} of the {verb} is not \
        insertable-into";
    not_updatable(table, verb) = 1288, "The target table {table} of the {verb} is not updatable";
    key_changed_twice(one, other) = 1706, "Primary key/partition key update is not allowed since \
        the table is updated both as '{one}' and '{other}'.";
    unknown_information_table(table) = 1109, "Unknown table '{table}' in information_schema";
    /// `kind` is ENUM or SET.
    too_many_members(column, kind) = 1097, "Too many strings for column {column} and {kind}";
    column_specified_twice(column) = 1110, "Column '{column}' specified twice";
    invalid_group_function() = 1111, "Invalid use of group function";
    no_columns() = 1113, "A table must have at least one column";
    cannot_stat(file, why) = 13, "Can't get stat of '{file}' ({why})";
    cannot_open(file, why) = 29, "File '{file}' not found ({why})";
    wrong_terminators() = 1083, "Field separator argument is not what is expected; check \
        the manual";
    blobs_and_no_terminator() = 1084, "You can't use fixed rowlength with BLOBs; please use \
        'fields terminated by'";
    file_not_readable(file) = 1085, "The file '{file}' must be in the database directory or be \
        readable by all";
    file_exists(file) = 1086, "File '{file}' already exists";
    unequal_bits() = 3513, "Binary operands of bitwise operators must be of equal length";
    long_bits() = 3514, "Aggregate bitwise functions cannot accept arguments longer than 511 \
        bytes; consider using the SUBSTRING() function";
    zlib_too_large(most) = 1256, "Uncompressed data size too large; the maximum size is {most} \
        (probably, length of uncompressed data was corrupted)";
    zlib_room() = 1258, "ZLIB: Not enough room in the output buffer (probably, length of \
        uncompressed data was corrupted)";
    zlib_data() = 1259, "ZLIB: Input data corrupted";
    short_vector(function, least) = 1882, "The initialization vector supplied to {function} is too \
        short. Must be at least {least} bytes long";
    option_ignored(option) = 1618, "<{option}> option ignored";
    cut_by_group_concat(row) = 1260, "Row {row} was cut by GROUP_CONCAT()";
    too_few_fields(row) = 1261, "Row {row} doesn't contain data for all columns";
    too_many_fields(row) = 1262, "Row {row} was truncated; it contained more data than there were \
        input columns";
    null_to_not_null(column, row) = 1263, "Column set to default value; NULL supplied to NOT NULL \
        column '{column}' at row {row}";
    secure_file_priv() = 1290, "The MySQL server is running with the --secure-file-priv option so \
        it cannot execute this statement";
    fixed_rows_to_variable() = 1409, "Can't load value from file with fixed size rows to \
        variable";
    separators_not_ascii() = 1638, "Non-ASCII separator arguments are not fully supported";
    check_not_boolean(name) = 3812, "An expression of non-boolean type specified to a check \
        constraint '{name}'.";
    generated_column_function(column) = 3102, "Expression of generated column '{column}' contains \
        a disallowed function.";
    generated_column_value(column, table) = 3105, "The value specified for generated column \
        '{column}' in table '{table}' is not allowed.";
    not_for_generated_columns(what) = 3106, "'{what}' is not supported for generated columns.";
    generated_column_not_prior() = 3107, "Generated column can refer only to generated columns \
        defined prior to it.";
    generated_column_needs(column) = 3108, "Column '{column}' has a generated column dependency.";
    generated_column_of_auto_increment(column) = 3109, "Generated column '{column}' cannot refer \
        to auto-increment column.";
    generated_column_named_function(column, function) = 3763, "Expression of generated column \
        '{column}' contains a disallowed function: {function}.";
    generated_column_row(column) = 3764, "Expression of generated column '{column}' cannot refer \
        to a row value.";
    generated_column_variable(column) = 3765, "Expression of generated column '{column}' cannot \
        refer user or system variables.";
    check_names_other_column(name) = 3813, "Column check constraint '{name}' references other \
        column.";
    check_function(name, function) = 3814, "An expression of a check constraint '{name}' contains \
        disallowed function: {function}.";
    check_nameless_function(name) = 3815, "An expression of a check constraint '{name}' contains \
        disallowed function.";
    check_variable(name) = 3816, "An expression of a check constraint '{name}' cannot refer to a \
        user or system variable.";
    check_of_auto_increment(name) = 3818, "Check constraint '{name}' cannot refer to an \
        auto-increment column.";
    check_violated(name) = 3819, "Check constraint '{name}' is violated.";
    check_of_unknown_column(name, column) = 3820, "Check constraint '{name}' refers to \
        non-existing column '{column}'.";
    no_such_check(name) = 3821, "Check constraint '{name}' is not found in the table.";
    duplicate_check_name(name) = 3822, "Duplicate check constraint name '{name}'.";
    several_constraints(name) = 3939, "Table has multiple constraints with the name '{name}'. \
        Please use constraint specific 'DROP' clause.";
    no_such_constraint(name) = 3940, "Constraint '{name}' does not exist.";
    enforcement_is_fixed(name) = 3941, "Altering constraint enforcement is not supported for the \
        constraint '{name}'. Enforcement state alter is not supported for the PRIMARY, UNIQUE and \
        FOREIGN KEY type constraints.";
    column_of_check(name, column) = 3959, "Check constraint '{name}' uses column '{column}', hence \
        column cannot be dropped or renamed.";
    misplaced_into() = 3954, "Misplaced INTO clause, INTO is not allowed inside subqueries, and \
        must be placed at end of UNION clauses.";
    local_infile_disabled() = 3948, "Loading local data is disabled; this must be enabled on both \
        the client and server sides";
    table_full(table) = 1114, "The table '{table}' is full";
    unknown_character_set(name) = 1115, "Unknown character set: '{name}'";
    /// Of a client that logs in.
    client_character_set(name) = 1115, "Unknown character set: '{name}'. Let the client use \
        another one (--default-character-set=utf8mb4)";
    /// `max` is the greatest number of tables in one FROM clause.
    too_many_tables(max) = 1116, "Too many tables; MySQL can only use {max} tables in a join";
    too_many_columns() = 1117, "Too many columns";
    row_too_large(max) = 1118, "Row size too large. The maximum row size for the used table type, \
        not counting BLOBs, is {max}. This includes storage overhead, check the manual. You have \
        to change some columns to TEXT or BLOBs";
    row_too_long(max) = 1118, "Row size too large. A row may have up to {max} bytes, together with \
        its TEXTs and BLOBs";
    column_count(row) = 1136, "Column count doesn't match value count at row {row}";
    invalid_use_of_null() = 1138, "Invalid use of NULL value";
    nonaggregated_column(position, clause, column) = 1140, "In aggregated query without GROUP BY, \
        expression #{position} of {clause} contains nonaggregated column '{column}'; this is \
        incompatible with sql_mode=only_full_group_by";
    no_such_table(schema, table) = 1146, "Table '{schema}.{table}' doesn't exist";
    result_over_packet(function, most_bytes) = 1301, "Result of {function}() was larger than \
        max_allowed_packet ({most_bytes}) - truncated";
    nested_too_deeply() = 1436, "Thread stack overrun: the expression is nested too deeply";
    packet_too_large() = 1153, "Got a packet bigger than 'max_allowed_packet' bytes";
    wrong_column_name(name) = 1166, "Incorrect column name '{name}'";
    blob_key_without_length(column) = 1170, "BLOB/TEXT column '{column}' used in key specification \
        without a key length";
    primary_cannot_be_null() = 1171, "All parts of a PRIMARY KEY must be NOT NULL; if you need \
        NULL in a key, use UNIQUE instead";
    no_such_key(key, table) = 1176, "Key '{key}' doesn't exist in table '{table}'";
    lock_or_active_transaction() = 1192, "Can't execute the given command because you have active \
        locked tables or an active transaction";
    unknown_variable(name) = 1193, "Unknown system variable '{name}'";
    lock_wait_timeout() = 1205, "Lock wait timeout exceeded; try restarting transaction";
    log_full() = 1205, "Lock wait timeout exceeded; try restarting transaction (the redo log is \
        full and its checkpoint does not advance: see the error log)";
    wrong_arguments(of) = 1210, "Incorrect arguments to {of}";
    /// The memory of all sessions bounds the number of row locks.
    lock_table_full() = 1206, "The total number of locks exceeds the lock table size \
        ('redolith_server_memory')";
    binlog_cache_full() = 1197, "Multi-statement transaction required more than \
        'max_binlog_cache_size' bytes of storage; increase this mysqld variable and try again";
    deadlock() = 1213, "Deadlock found when trying to get lock; try restarting transaction";
    misplaced_option(option) = 1234, "Incorrect usage/placement of '{option}'";
    not_grouped_by(argument) = 3604, "Argument #{argument} of GROUPING function is not in GROUP BY";
    no_columns_in_values() = 3942, "Each row of a VALUES clause must have at least one column, \
        unless when used as source in an INSERT statement.";
    wrong_usage(one, other) = 1221, "Incorrect usage of {one} and {other}";
    wrong_select_columns() = 1222, "The used SELECT statements have a different number of columns";
    privilege_needed(privilege) = 1227, "Access denied; you need (at least one of) the {privilege} \
        privilege(s) for this operation";
    session_variable(name) = 1228, "Variable '{name}' is a SESSION variable and can't be used with \
        SET GLOBAL";
    global_variable(name) = 1229, "Variable '{name}' is a GLOBAL variable and should be set with \
        SET GLOBAL";
    no_variable_default(name) = 1230, "Variable '{name}' doesn't have a default value";
    wrong_variable_value(name, value) = 1231, "Variable '{name}' can't be set to the value of \
        '{value}'";
    wrong_variable_type(name) = 1232, "Incorrect argument type to variable '{name}'";
    /// For a feature of MySQL that this server does not have. `what` is the feature in MySQL's
    /// terms.
    recursion_without_union(name) = 3573, "Recursive Common Table Expression '{name}' should \
        contain a UNION";
    recursion_without_seed(name) = 3574, "Recursive Common Table Expression '{name}' should have \
        one or more non-recursive query blocks followed by one or more recursive ones";
    recursion_with_aggregates(name) = 3575, "Recursive Common Table Expression '{name}' can \
        contain neither aggregation nor window functions in recursive query block";
    recursion_on_the_right(name) = 3576, "In recursive query block of Recursive Common Table \
        Expression '{name}', the recursive table must neither be in the right argument of a LEFT \
        JOIN, nor be forced to be non-first with join order hints";
    recursion_not_once(name) = 3577, "In recursive query block of Recursive Common Table \
        Expression '{name}', the recursive table must be referenced only once, and not in any \
        subquery";
    recursion_too_deep(iterations) = 3636, "Recursive query aborted after {iterations} \
        iterations. Try increasing @@cte_max_recursion_depth to a larger value.";
    no_such_window(name) = 3579, "Window name '{name}' is not defined.";
    windows_in_a_circle() = 3580, "There is a circularity in the window dependency graph.";
    window_cannot_partition() = 3581, "A window which depends on another cannot define \
        partitioning.";
    window_with_frame_inherited(name) = 3582, "Window '{name}' has a frame definition, so cannot \
        be referenced by another window.";
    window_ordered_twice(name, base) = 3583, "Window '{name}' cannot inherit '{base}' since both \
        contain an ORDER BY clause.";
    frame_start_illegal(name) = 3584, "Window '{name}': frame start cannot be UNBOUNDED FOLLOWING.";
    frame_end_illegal(name) = 3585, "Window '{name}': frame end cannot be UNBOUNDED PRECEDING.";
    frame_illegal(name) = 3586, "Window '{name}': frame start or end is negative, NULL or of \
        non-integral type";
    range_without_order(name) = 3587, "Window '{name}' with RANGE N PRECEDING/FOLLOWING frame \
        requires exactly one ORDER BY expression, of numeric or temporal type";
    range_wants_interval(name) = 3588, "Window '{name}' with RANGE frame has ORDER BY expression \
        of datetime type. Only INTERVAL bound value allowed.";
    range_without_interval(name) = 3589, "Window '{name}' with RANGE frame has ORDER BY expression \
        of numeric type, INTERVAL bound value not allowed.";
    frame_not_constant(name) = 3590, "Window '{name}' has a non-constant frame bound.";
    window_defined_twice(name) = 3591, "Window '{name}' is defined twice.";
    window_by_position(name) = 3592, "Window '{name}': ORDER BY or PARTITION BY uses legacy \
        position indication which is not supported, use expression.";
    misplaced_window_function(name) = 3593, "You cannot use the window function '{name}' in this \
        context.'";
    misplaced_window_alias(alias) = 3594, "You cannot use the alias '{alias}' of an expression \
        containing a window function in this context.'";
    window_function_in_window(name) = 3595, "You cannot nest a window function in the \
        specification of window '{name}'.";
    rows_with_interval(name) = 3596, "Window '{name}': INTERVAL can only be used with RANGE \
        frames.";
    unsupported(what) = 1235, "This version of MySQL doesn't yet support '{what}'";
    /// `kind` is "read only", "SESSION", "GLOBAL".
    read_only_variable(name, kind) = 1238, "Variable '{name}' is a {kind} variable";
    operand_columns(n) = 1241, "Operand should contain {n} column(s)";
    subquery_many_rows() = 1242, "Subquery returns more than 1 row";
    unknown_statement_handler(name, command) = 1243, "Unknown prepared statement handler ({name}) \
        given to {command}";
    reference_not_supported(name, why) = 1247, "Reference '{name}' not supported ({why})";
    derived_needs_alias() = 1248, "Every derived table must have its own alias";
    collation_charset_mismatch(collation, charset) = 1253, "COLLATION '{collation}' is not valid \
        for CHARACTER SET '{charset}'";
    out_of_range(column, row) = 1264, "Out of range value for column '{column}' at row {row}";
    data_truncated(column, row) = 1265, "Data truncated for column '{column}' at row {row}";
    illegal_mix_of_collations(a, b, operation) = 1267, "Illegal mix of collations {a} and {b} for \
        operation '{operation}'";
    illegal_mix_of_three(a, b, c, operation) = 1270, "Illegal mix of collations {a}, {b}, {c} for \
        operation '{operation}'";
    illegal_mix_of_many(operation) = 1271, "Illegal mix of collations for operation \
        '{operation}'";
    no_such_grant(user, host) = 1141, "There is no such grant defined for user '{user}' on host \
        '{host}'";
    unknown_collation(name) = 1273, "Unknown collation: '{name}'";
    unknown_engine(name) = 1286, "Unknown storage engine '{name}'";
    option_prevents(option) = 1290, "The MySQL server is running with the {option} option so it \
        cannot execute this statement";
    /// For a text that is not a valid date or time: `kind` is "date", "datetime" or "time".
    incorrect_temporal(kind, value, column, row) = 1292, "Incorrect {kind} value: '{value}' for \
        column '{column}' at row {row}";
    invalid_on_update(column) = 1294, "Invalid ON UPDATE clause for '{column}' column";
    not_preparable() = 1295, "This command is not supported in the prepared statement protocol yet";
    unknown_time_zone(name) = 1298, "Unknown or incorrect time zone: '{name}'";
    invalid_string(charset, bytes) = 1300, "Invalid {charset} character string: '{bytes}'";
    /// `kind` is SAVEPOINT, FUNCTION, PROCEDURE.
    does_not_exist(kind, name) = 1305, "{kind} {name} does not exist";
    interrupted() = 1317, "Query execution was interrupted";
    user_lock_deadlock() = 3058, "Deadlock found when trying to get user-level lock; try rolling \
        back transaction/releasing locks and restarting lock acquisition.";
    query_timeout() = 3024, "Query execution was interrupted, maximum statement execution time \
        exceeded";
    no_default(column) = 1364, "Field '{column}' doesn't have a default value";
    no_default_below_view(schema, name) = 1423, "Field of view '{schema}.{name}' underlying table \
        doesn't have a default value";
    division_by_zero() = 1365, "Division by 0";
    no_logarithm() = 3020, "Invalid argument for logarithm";
    /// For a text that is no valid number or string: `kind` is "integer", "decimal", "double",
    /// "string".
    incorrect_value(kind, value, column, row) = 1366, "Incorrect {kind} value: '{value}' for \
        column '{column}' at row {row}";
    too_many_placeholders() = 1390, "Prepared statement contains too many placeholders";
    data_too_long(column, row) = 1406, "Data too long for column '{column}' at row {row}";
    table_changed() = 1412, "Table definition has changed, please retry transaction";
    temporary_table_in_view(name) = 1352, "View's SELECT refers to a temporary table '{name}'";
    too_big_scale(scale, column, max) = 1425, "Too big scale {scale} specified for column \
        '{column}'. Maximum is {max}.";
    too_big_precision(precision, column, max) = 1426, "Too-big precision {precision} specified for \
        '{column}'. Maximum is {max}.";
    scale_over_precision(column) = 1427, "For float(M,D), double(M,D) or decimal(M,D), M must be \
        >= D (column '{column}').";
    too_big_display_width(column, max) = 1439, "Display width out of range for column '{column}' \
        (max = {max})";
    too_many_statements(max) = 1461, "Can't create more than max_prepared_stmt_count statements \
        (current value: {max})";
    auto_increment_failed() = 1467, "Failed to read auto-increment value from storage engine";
    no_partition(value) = 1526, "Table has no partition for value {value}";
    row_not_logged() = 1534, "Writing one row to the row-based binary log failed";
    transaction_in_progress() = 1568, "Transaction characteristics can't be changed while a \
        transaction is in progress";
    wrong_native_parameters(function) = 1583, "Incorrect parameters in the call to native function \
        '{function}'";
    wrong_parameter_count(function) = 1582, "Incorrect parameter count in the call to native \
        function '{function}'";
    unsafe_function() = 1674, "Statement is unsafe because it uses a system function that may \
        return a different value on the replica.";
    /// `kind` is "BIGINT", "BIGINT UNSIGNED", "DOUBLE", "DECIMAL"; `expression` is its text.
    sql_log_bin_in_transaction() = 1694, "Cannot modify @@session.sql_log_bin inside a transaction";
    temporary_table_stays() = 1751, "The creation of some temporary tables could not be rolled \
        back.";
    temporary_table_stays_dropped() = 1752, "Attempted to drop some temporary tables, but these \
        operations could not be rolled back.";
    value_out_of_range(kind, expression) = 1690, "{kind} value is out of range in '{expression}'";
    /// A bug in this server; the error ends only the statement.
    internal(what) = 1815, "Internal error: {what}";
    wrong_yes_or_no(value) = 1525, "Incorrect argument (should be Y or N) value: '{value}'";
    invalid_encryption() = 3184, "Invalid encryption option.";
    year_length() = 1818, "Supports only YEAR or YEAR(4) column.";
    forced_recovery() = 1881, "Operation not allowed when innodb_force_recovery > 0.";
    unknown_explain_format(name) = 1791, "Unknown EXPLAIN format name: '{name}'";
    read_only_transaction() = 1792, "Cannot execute statement in a READ ONLY transaction.";
    not_in_select_list(position, clause, column, what) = 3065, "Expression #{position} of {clause} \
        is not in SELECT list, references column '{column}' which is not in SELECT list; this is \
        incompatible with {what}";
    execution_time_exceeded() = 3024, "Query execution was interrupted, maximum statement \
        execution time exceeded";
    temporary_table_in_xa() = 4091, "XA: Temporary tables cannot be accessed inside XA \
        transactions when xa_detach_on_prepare=ON";
    capacity_exceeded(bytes, setting, what) = 3170, "Memory capacity of {bytes} bytes for \
        '{setting}' exceeded. {what}";
    invalid_json_argument(number, function, why, position) = 3141, "Invalid JSON text in argument \
        {number} to function {function}: \"{why}\" at position {position}.";
    invalid_json_path(position) = 3143, "Invalid JSON path expression. The error is around \
        character position {position}.";
    json_charset(charset) = 3144, "Cannot create a JSON value from a string with CHARACTER SET \
        '{charset}'.";
    invalid_json_type(number, function) = 3146, "Invalid data type for JSON data in argument \
        {number} to function {function}; a JSON string or JSON type is required.";
    json_path_wildcard() = 3149, "In this situation, path expressions may not contain the * and ** \
        tokens or an array range.";
    json_as_key(column) = 3152, "JSON column '{column}' supports indexing only via generated \
        columns on a specified JSON path.";
    json_vacuous_path() = 3153, "The path expression '$' is not allowed in this context.";
    json_one_or_all(function) = 3154, "The oneOrAll argument to {function} may take these values: \
        'one' or 'all'.";
    json_null_key() = 3158, "JSON documents may not contain NULL member names.";
    json_path_no_cell() = 3165, "A path expression is not a path to a cell in an array.";
    json_value_missing(function) = 3966, "No value was found by '{function}' on the specified \
        path.";
    json_values_many(function) = 3967, "More than one value was found by '{function}' on the \
        specified path.";
    json_number_out_of_range(target, column) = 3155, "Out of range JSON value for CAST to {target} \
        from column {column} at row 1";
    json_cast(target, column) = 3156, "Invalid JSON value for CAST to {target} from column \
        {column} at row 1";
    json_table_value_missing(column) = 3665, "Missing value for JSON_TABLE column '{column}'";
    json_table_not_scalar(column) = 3666, "Can't store an array or an object in the scalar \
        JSON_TABLE column '{column}'";
    table_function_needs_alias() = 3667, "Every table function must have an alias.";
    lateral_right_join(alias) = 3668, "INNER or LEFT JOIN must be used for LATERAL references made \
        by '{alias}'";
    json_table_out_of_range(column) = 3669, "Value is out of range for JSON_TABLE's column \
        '{column}'";
    json_table_nested(most, alias) = 3670, "More than supported {most} NESTED PATHs were found in \
        JSON_TABLE '{alias}'";
    unresolved_locked_table(table) = 3568, "Unresolved table name {table} in locking clause.";
    table_locked_twice(table) = 3569, "Table {table} appears in multiple locking clauses.";
    lock_nowait() = 3572, "Statement aborted because lock(s) could not be acquired immediately and \
        NOWAIT is set.";
    regexp_result_too_long() = 3684, "The result string is larger than the result buffer.";
    regexp_index() = 3686, "Index out of bounds in regular expression search.";
    regexp_group_name() = 3887, "A capture group has an invalid name.";
    pattern_too_big() = 3700, "The regular expression pattern exceeds limits on size or \
        complexity.";
    duplicate_member(column, name, type_name) = 1291, "Column '{column}' has duplicated value \
        '{name}' in {type_name}";
    illegal_value(type_name, value) = 1367, "Illegal {type_name} '{value}' value found during \
        parsing";
    no_master_key() = 3185, "Can't find master key from keyring, please check in the server log \
        if a keyring is loaded and initialized successfully.";
    invalid_default_collation(name) = 3721, "Invalid default collation {name}: utf8mb4_0900_ai_ci \
        or utf8mb4_general_ci expected";
    default_names_variable(column) = 3772, "Default value expression of column '{column}' cannot \
        refer user or system variables.";
    default_not_allowed(column) = 3769, "Default value expression of column '{column}' contains a \
        disallowed function.";
}

/// A temporary file that would exceed `redolith_temporary_space`.
fn temporary_space_full(limit: u64) -> SqlError {
    SqlError::new(
        1114,
        format!(
            "The temporary files of all statements would need more than the {limit} bytes of \
             'redolith_temporary_space'. Raise the setting, or let the statement sort and collect \
             fewer rows."
        ),
    )
}
/// A temporary file that cannot be made, written or read.
fn temporary_file(call: FileCall, file: &str, why: &str) -> SqlError {
    match call {
        FileCall::Create => {
            SqlError::new(1, format!("Can't create/write to file '{file}' ({why})"))
        }
        FileCall::Write => SqlError::new(1026, format!("Error writing file '{file}' ({why})")),
        FileCall::Read => SqlError::new(1024, format!("Error reading file '{file}' ({why})")),
    }
}

impl From<JsonError> for SqlError {
    fn from(error: JsonError) -> SqlError {
        SqlError::json(&error, "(null)")
    }
}

impl From<EngineError> for SqlError {
    fn from(e: EngineError) -> SqlError {
        // The engine's table names are "schema/table" or "schema.table"; MySQL quotes them with a
        // dot.
        let dotted = |name: &str| name.replacen('/', ".", 1);
        match e {
            // The engine does not know the text of the value. The executor, which does, builds this
            // error itself.
            EngineError::DuplicateKey { table, index, .. } => {
                let table = table.rsplit(['/', '.']).next().unwrap_or_default().to_string();
                SqlError::duplicate_entry("?", format!("{table}.{index}"))
            }
            EngineError::LockWaitTimeout => SqlError::lock_wait_timeout(),
            EngineError::LogFull => SqlError::log_full(),
            EngineError::Deadlock => SqlError::deadlock(),
            EngineError::LockNoWait => SqlError::lock_nowait(),
            EngineError::Interrupted => SqlError::interrupted(),
            EngineError::NoSuchTable(name) => {
                SqlError::new(1146, format!("Table '{}' doesn't exist", dotted(&name)))
            }
            EngineError::TableChanged(_) => SqlError::table_changed(),
            EngineError::TableExists(name) => {
                SqlError::table_exists(name.rsplit(['/', '.']).next().unwrap_or_default())
            }
            EngineError::NoSuchDatabase(name) => SqlError::unknown_database(name),
            EngineError::DatabaseExists(name) => SqlError::database_exists(name),
            EngineError::NoSuchIndex(name) => SqlError::cannot_drop(name),
            EngineError::RowTooLarge { max, .. } => SqlError::row_too_large(max),
            EngineError::RowTooLong { max, .. } => SqlError::row_too_long(max),
            EngineError::RecordTooLong(_) => SqlError::binlog_cache_full(),
            EngineError::UndoTooLong { .. } => SqlError::new(1713, "Undo log record is too big."),
            e @ EngineError::TooManyChanges { .. } => SqlError::unknown_error(e),
            EngineError::KeyTooLong { max, .. } => SqlError::key_too_long(max),
            EngineError::AutoIncrementExhausted(_) => SqlError::auto_increment_failed(),
            EngineError::DiskFull(what) => SqlError::table_full(dotted(&what)),
            EngineError::Corrupt { page, file, table, why } => SqlError::new(
                1034,
                format!(
                    "Incorrect key file for table '{}'; page {page} of file {file} is corrupt \
                        ({why}); try to repair it",
                    dotted(&table)
                ),
            ),
            EngineError::Io { what, why, full: true } => SqlError::error_writing(what, 28, why),
            EngineError::Io { what, why, full: false } => {
                SqlError::engine_failure(168, format!("{what}: {why}"))
            }
            EngineError::TemporarySpaceFull { limit } => temporary_space_full(limit),
            EngineError::TemporaryFile { call, file, why } => temporary_file(call, &file, &why),
            EngineError::SortedRowTooLong => {
                SqlError::new(1038, "Out of sort memory: a row is longer than 4294967295 bytes")
            }
            EngineError::InUse(_) | EngineError::Incompatible(_) | EngineError::Damaged(_) => {
                SqlError::unknown_error(e)
            }
            EngineError::ForcedRecovery => SqlError::forced_recovery(),
            EngineError::ReadOnly => SqlError::read_only_transaction(),
            EngineError::NoSuchSavepoint(name) => SqlError::does_not_exist("SAVEPOINT", name),
            EngineError::Unsupported(what) => SqlError::unsupported(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worded_as_mysql_does() {
        let e = SqlError::syntax("FORM t", 2);
        assert_eq!((e.code, &e.sqlstate), (1064, b"42000"));
        assert!(e.message.ends_with("use near 'FORM t' at line 2"));
        let e = SqlError::duplicate_entry(7, "t.PRIMARY");
        assert_eq!(
            (e.code, &e.sqlstate, &*e.message),
            (1062, b"23000", "Duplicate entry '7' for key 't.PRIMARY'")
        );
        assert_eq!(&SqlError::deadlock().sqlstate, b"40001");
    }

    #[test]
    fn engine_errors_get_numbers() {
        assert_eq!(SqlError::from(EngineError::DiskFull("test/t1".into())).code, 1114);
        assert_eq!(
            &*SqlError::from(EngineError::NoSuchTable("test/t1".into())).message,
            "Table 'test.t1' doesn't exist"
        );
    }

    #[test]
    fn near_is_cut_at_a_character() {
        let long = "é".repeat(200);
        assert!(SqlError::syntax(&long, 1).message.contains(&"é".repeat(80)));
        assert!(!SqlError::syntax(&long, 1).message.contains(&"é".repeat(81)));
    }
}
