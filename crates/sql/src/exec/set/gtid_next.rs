//! `gtid_next`: AUTOMATIC and ANONYMOUS.
//!
//! Without GTIDs both mean the same. A name for the next transaction is refused: the task of the
//! binary log draws every name.
use crate::error::{Result, SqlError};
use crate::settings::{Settings, Var};
use redolith_binlog::{Gtid, Uuid};
use redolith_types::Value;

/// The place of ON among the values of `gtid_mode`.
const ON: u64 = 3;

/// Checks a value as MySQL does, with its errors. None is the default.
pub(super) fn check(
    value: Option<&Value<'_>>,
    in_transaction: bool,
    settings: &Settings,
) -> Result<()> {
    let is_on = settings.bits(Var::GtidMode) == ON;
    if in_transaction {
        let why = "The system variable gtid_next cannot be set when there is an ongoing \
            transaction.";
        return Err(SqlError::new(1766, why));
    }
    let Some(value) = value else { return Ok(()) };
    let Some(text) = value.as_bytes() else {
        return Err(SqlError::wrong_variable_type("gtid_next"));
    };
    let text = String::from_utf8_lossy(text);
    if text.eq_ignore_ascii_case("AUTOMATIC") {
        return Ok(());
    }
    if text.eq_ignore_ascii_case("ANONYMOUS") {
        let why = "@@SESSION.GTID_NEXT cannot be set to ANONYMOUS when @@GLOBAL.GTID_MODE = ON.";
        return if is_on { Err(SqlError::new(1782, why)) } else { Ok(()) };
    }
    Err(match gtid(&text) {
        None => SqlError::new(1774, format!("Malformed GTID specification '{text}'.")),
        Some(_) if !is_on => SqlError::new(
            1781,
            "@@SESSION.GTID_NEXT cannot be set to UUID:NUMBER when @@GLOBAL.GTID_MODE = OFF.",
        ),
        Some(_) => SqlError::unsupported("a GTID in gtid_next"),
    })
}

/// Reads `UUID:NUMBER`.
fn gtid(text: &str) -> Option<Gtid> {
    let (uuid, number) = text.split_once(':')?;
    let uuid: Uuid = uuid.trim().parse().ok()?;
    let number = number.trim().parse().ok().filter(|n| *n > 0)?;
    Some(Gtid { uuid, number })
}
