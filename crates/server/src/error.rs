//! Errors that arise in the protocol itself, before or beside any statement.
use redolith_sql::SqlError;

fn error(code: u16, sqlstate: &[u8; 5], message: String) -> SqlError {
    SqlError { code, sqlstate: *sqlstate, message: message.into() }
}

#[cold]
pub fn too_many_connections() -> SqlError {
    error(1040, b"08004", "Too many connections".into())
}
#[cold]
pub fn bad_handshake() -> SqlError {
    error(1043, b"08S01", "Bad handshake".into())
}
#[cold]
pub fn access_denied(user: &str, host: &str, using_password: bool) -> SqlError {
    let using = if using_password { "YES" } else { "NO" };
    error(
        1045,
        b"28000",
        format!("Access denied for user '{user}'@'{host}' (using password: {using})"),
    )
}
#[cold]
pub fn unknown_command() -> SqlError {
    error(1047, b"08S01", "Unknown command".into())
}
#[cold]
pub fn shutdown() -> SqlError {
    error(1053, b"08S01", "Server shutdown in progress".into())
}
#[cold]
pub fn too_many_type_lists() -> SqlError {
    let what = "Out of memory: the prepared statements of a connection may have 65535 different \
        lists of parameter types";
    error(1041, b"HY000", what.into())
}
#[cold]
pub fn unknown_thread(id: u32) -> SqlError {
    error(1094, b"HY000", format!("Unknown thread id: {id}"))
}
#[cold]
pub fn long_data_too_long() -> SqlError {
    let what = "Parameter of prepared statement which is set through mysql_send_long_data() is \
        longer than 'max_allowed_packet' bytes";
    error(1105, b"HY000", what.into())
}
#[cold]
pub fn packet_too_large() -> SqlError {
    error(1153, b"08S01", "Got a packet bigger than 'max_allowed_packet' bytes".into())
}
#[cold]
pub fn packets_out_of_order() -> SqlError {
    error(1156, b"08S01", "Got packets out of order".into())
}
#[cold]
pub fn wrong_arguments(function: &str) -> SqlError {
    error(1210, b"HY000", format!("Incorrect arguments to {function}"))
}
#[cold]
pub fn unknown_statement(id: u32, function: &str) -> SqlError {
    error(1243, b"HY000", format!("Unknown prepared statement handler ({id}) given to {function}"))
}
#[cold]
pub fn too_many_parameters() -> SqlError {
    error(1390, b"HY000", "Prepared statement contains too many placeholders".into())
}
#[cold]
pub fn no_open_cursor(id: u32) -> SqlError {
    error(1421, b"HY000", format!("The statement ({id}) has no open cursor."))
}
#[cold]
pub fn malformed_packet() -> SqlError {
    error(1835, b"HY000", "Malformed communication packet.".into())
}
#[cold]
pub fn interrupted() -> SqlError {
    error(1317, b"70100", "Query execution was interrupted".into())
}
/// Any other code would make a replica try again without a word.
#[cold]
pub fn dump_failed(why: String) -> SqlError {
    error(1236, b"HY000", why)
}
#[cold]
pub fn inactive() -> SqlError {
    let what = "The client was disconnected by the server because of inactivity. See wait_timeout \
        and interactive_timeout for configuring this behavior.";
    error(4031, b"HY000", what.into())
}
