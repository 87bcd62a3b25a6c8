//! A session's values: the GLOBAL values from the session's beginning, and the values that the
//! session has set itself.
use super::global::{Settings, Snapshot, twin_bits};
use super::table::Var;
use super::variable::{Access, Kind, Scope, Setting, Taken, collation};
use crate::error::{Result, SqlError};
use crate::sql_mode::SqlMode;
use redolith_types::{Collation, Value};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct SessionVars {
    snapshot: Arc<Snapshot>,
    /// The values that differ from the snapshot. There are few, so a search is quick and an idle
    /// session is small.
    own: Vec<(Var, Setting)>,
    /// Increases with every change. Values that are derived from several variables depend on it.
    generation: u32,
}

impl SessionVars {
    /// The values of a new session, or of a session after COM_RESET_CONNECTION.
    pub fn new(settings: &Settings) -> SessionVars {
        SessionVars { snapshot: settings.snapshot(), own: Vec::new(), generation: 0 }
    }

    #[inline]
    fn get(&self, var: Var) -> &Setting {
        self.own.iter().find(|(v, _)| *v == var).map_or_else(|| self.snapshot.get(var), |(_, s)| s)
    }
    /// The value that the session has set itself; for `Followed` variables.
    pub fn own_bits(&self, var: Var) -> Option<u64> {
        self.own.iter().find(|(v, _)| *v == var).map(|(_, s)| s.bits)
    }
    /// The value of a number, boolean (0, 1), enum (position), set (flags) or collation (id).
    #[inline]
    pub fn bits(&self, var: Var) -> u64 {
        self.get(var).bits
    }
    #[inline]
    pub fn is_on(&self, var: Var) -> bool {
        self.bits(var) != 0
    }
    pub fn text(&self, var: Var) -> Option<&str> {
        self.get(var).text.as_deref()
    }
    pub fn sql_mode(&self) -> SqlMode {
        SqlMode(self.bits(Var::SqlMode))
    }
    /// The value of a character set or collation variable; None is NULL (`character_set_results`).
    pub fn collation(&self, var: Var) -> Option<Collation> {
        collation(self.bits(var))
    }
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Runs SET SESSION. A `value` of None is DEFAULT, the current GLOBAL value. Returns true if
    /// the value was moved into the variable's range.
    pub fn set(
        &mut self,
        settings: &Settings,
        var: Var,
        value: Option<&Value<'_>>,
    ) -> Result<bool> {
        let taken = SessionVars::check(var, value)?;
        let truncated = taken.as_ref().is_some_and(|t| t.truncated);
        self.apply(settings, var, taken.map(|t| t.setting));
        Ok(truncated)
    }
    /// Checks a value. Returns the setting that SET SESSION would keep, or None for the default.
    /// The caller sets variables of [`Kind::OfSession`]; this function only checks that they can be
    /// set.
    pub fn check(var: Var, value: Option<&Value<'_>>) -> Result<Option<Taken>> {
        let v = var.get();
        match (v.access, v.scope) {
            (Access::AtStart | Access::ReadOnly, _) => {
                return Err(SqlError::read_only_variable(v.name, "read only"));
            }
            (_, Scope::Global) => return Err(SqlError::global_variable(v.name)),
            _ if v.kind == Kind::OfSession => return Ok(None),
            // As in MySQL, a session cannot choose the limits of packets.
            _ if matches!(var, Var::MaxAllowedPacket | Var::NetBufferLength) => {
                return Err(SqlError::new(
                    1621,
                    format!(
                        "SESSION variable '{}' is read-only. Use SET GLOBAL to assign the value",
                        v.name
                    ),
                ));
            }
            _ => {}
        }
        let taken = value.map(|value| v.take_value(value)).transpose()?;
        match &taken {
            Some(t) if v.only.is_some() && t.setting != v.default_setting() => {
                Err(SqlError::wrong_variable_value(v.name, v.show(&t.setting).unwrap_or_default()))
            }
            _ => Ok(taken),
        }
    }
    /// Stores a setting that was checked.
    pub fn apply(&mut self, settings: &Settings, var: Var, setting: Option<Setting>) {
        let v = var.get();
        match setting {
            Some(setting) => self.store(var, setting),
            None if v.kind == Kind::OfSession => {}
            None if v.scope == Scope::Followed => self.own.retain(|(v, _)| *v != var),
            None if v.scope == Scope::Both => self.store(var, settings.snapshot().get(var).clone()),
            None => self.store(var, v.default_setting()),
        }
    }

    /// Stores a valid value, for SET NAMES, SET TRANSACTION and the client's character set at
    /// login.
    pub fn store_bits(&mut self, var: Var, bits: u64) {
        self.store(var, Setting { bits, text: None });
    }

    fn store(&mut self, var: Var, setting: Setting) {
        self.generation = self.generation.wrapping_add(1);
        if let Some(twin) = var.twin() {
            let bits = twin_bits(twin, setting.bits);
            self.put(twin, Setting { bits, text: None });
        }
        self.put(var, setting);
    }
    fn put(&mut self, var: Var, setting: Setting) {
        let at = self.own.iter().position(|(v, _)| *v == var);
        let needless = *self.snapshot.get(var) == setting && var.get().scope != Scope::Followed;
        match (at, needless) {
            (Some(i), true) => {
                self.own.swap_remove(i);
            }
            (Some(i), false) => self.own[i].1 = setting,
            (None, true) => {}
            (None, false) => {
                self.own.reserve_exact(1);
                self.own.push((var, setting));
            }
        }
    }

    /// Runs SET NAMES, and sets the character set of the handshake.
    pub fn set_names(&mut self, c: Collation) {
        let charset = c.charset().default_collation().id() as u64;
        self.store_bits(Var::CharacterSetClient, charset);
        self.store_bits(Var::CharacterSetResults, charset);
        self.store_bits(Var::CollationConnection, c.id() as u64);
    }

    /// The value of `@@name` or `@@SESSION.name`. None if the session itself keeps the value
    /// ([`Kind::OfSession`]). If `session_only`, a GLOBAL variable is error 1238.
    pub fn value(
        &self,
        settings: &Settings,
        var: Var,
        session_only: bool,
    ) -> Result<Option<Value<'static>>> {
        let v = var.get();
        match v.scope {
            _ if v.kind == Kind::OfSession => Ok(None),
            Scope::Global if session_only => Err(SqlError::read_only_variable(v.name, "GLOBAL")),
            Scope::Global => settings.global_value(var).map(Some),
            Scope::Followed if self.own_bits(var).is_none() => settings.global_value(var).map(Some),
            _ => Ok(Some(v.value(self.get(var)))),
        }
    }

    /// The rows of `SHOW [SESSION] VARIABLES`, by name. `of_session` returns the values that the
    /// session itself keeps.
    pub fn list(
        &self,
        settings: &Settings,
        of_session: impl Fn(Var) -> String,
    ) -> Vec<(&'static str, String)> {
        let global = settings.snapshot();
        let value = |var: &Var| {
            let v = var.get();
            if v.kind == Kind::OfSession {
                return (v.name, of_session(*var));
            }
            let follows = v.scope == Scope::Followed && self.own_bits(*var).is_none();
            let setting =
                if v.scope == Scope::Global || follows { global.get(*var) } else { self.get(*var) };
            (v.name, v.show(setting).unwrap_or_default())
        };
        Var::by_name().iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests SET-1.
    #[test]
    fn a_session_keeps_the_global_values_of_its_beginning() {
        let s = Settings::default();
        let mut old = SessionVars::new(&s);
        s.set_global(Var::WaitTimeout, Some(&Value::UInt(5))).unwrap();
        assert_eq!(
            (old.bits(Var::WaitTimeout), SessionVars::new(&s).bits(Var::WaitTimeout)),
            (28800, 5)
        );
        old.set(&s, Var::WaitTimeout, None).unwrap();
        assert_eq!(old.bits(Var::WaitTimeout), 5);
        // A session sees the current value of a GLOBAL variable.
        s.set_global(Var::MaxConnections, Some(&Value::UInt(7))).unwrap();
        assert_eq!(old.value(&s, Var::MaxConnections, false).unwrap(), Some(Value::UInt(7)));
    }

    #[test]
    fn a_followed_variable_is_the_servers_until_it_is_set() {
        let s = Settings::default();
        let mut v = SessionVars::new(&s);
        let var = Var::InnodbFlushLogAtTrxCommit;
        let shown = |v: &SessionVars| v.value(&s, var, true).unwrap();
        s.set_global(var, Some(&Value::UInt(2))).unwrap();
        assert_eq!((v.own_bits(var), shown(&v)), (None, Some(Value::Int(2))));
        assert!(
            v.list(&s, |_| String::new()).contains(&("innodb_flush_log_at_trx_commit", "2".into()))
        );
        v.set(&s, var, Some(&Value::UInt(1))).unwrap();
        s.set_global(var, Some(&Value::UInt(0))).unwrap();
        assert_eq!((v.own_bits(var), shown(&v)), (Some(1), Some(Value::Int(1))));
        v.set(&s, var, None).unwrap();
        assert_eq!((v.own_bits(var), shown(&v)), (None, Some(Value::Int(0))));
        assert_eq!(v.set(&s, var, Some(&Value::UInt(3))).unwrap_err().code, 1231);
    }

    #[test]
    fn only_deviations_are_kept() {
        let s = Settings::default();
        let mut v = SessionVars::new(&s);
        v.set_names(Collation::Utf8mb4GeneralCi);
        v.set(&s, Var::Autocommit, Some(&Value::UInt(1))).unwrap();
        assert_eq!(v.own.capacity(), 0);
        v.set_names(Collation::Latin1Bin);
        assert_eq!(v.own.len(), 4);
        assert_eq!(
            v.value(&s, Var::CharacterSetConnection, false).unwrap(),
            Some(Value::text("latin1"))
        );
        assert_eq!(v.collation(Var::CollationConnection), Some(Collation::Latin1Bin));
        v.set(&s, Var::CharacterSetResults, Some(&Value::Null)).unwrap();
        assert_eq!(v.collation(Var::CharacterSetResults), None);
        assert_eq!(v.value(&s, Var::CharacterSetResults, false).unwrap(), Some(Value::Null));
        v.set_names(Collation::Utf8mb4GeneralCi);
        assert!(v.own.is_empty());
        assert!(size_of::<SessionVars>() <= 40);
    }

    #[test]
    fn errors_have_mysqls_numbers() {
        let s = Settings::default();
        let mut v = SessionVars::new(&s);
        let mut code = |var, value: &Value<'_>| v.set(&s, var, Some(value)).unwrap_err().code;
        assert_eq!(code(Var::MaxConnections, &Value::UInt(1)), 1229);
        assert_eq!(code(Var::Version, &Value::UInt(1)), 1238);
        assert_eq!(code(Var::SqlMode, &Value::text("X")), 1231);
        assert_eq!(code(Var::MaxAllowedPacket, &Value::UInt(1024)), 1621);
        assert_eq!(v.value(&s, Var::MaxConnections, true).unwrap_err().code, 1238);
        assert_eq!(s.global_value(Var::Timestamp).unwrap_err().code, 1238);
    }

    #[test]
    fn what_dumps_and_clients_set_is_taken() {
        let s = Settings::default();
        let mut v = SessionVars::new(&s);
        for (var, value) in [
            (Var::SqlMode, Value::text("")),
            (Var::SqlMode, Value::text("NO_AUTO_VALUE_ON_ZERO")),
            (Var::TimeZone, Value::text("+00:00")),
            (Var::OptimizerSwitch, Value::text("semijoin=off")),
            (Var::OptimizerSwitch, Value::text("default")),
            (Var::SqlQuoteShowCreate, Value::UInt(1)),
            (Var::CharacterSetResults, Value::text("binary")),
            (Var::ForeignKeyChecks, Value::UInt(0)),
            (Var::UniqueChecks, Value::Int(0)),
            (Var::SqlNotes, Value::UInt(0)),
            (Var::Autocommit, Value::text("OFF")),
            (Var::TransactionIsolation, Value::text("read-committed")),
        ] {
            assert!(!v.set(&s, var, Some(&value)).unwrap(), "{var:?}");
        }
        assert_eq!(v.bits(Var::TransactionIsolation), 1);
        assert!(v.sql_mode().has(SqlMode::NO_AUTO_VALUE_ON_ZERO));
        assert!(v.list(&s, |_| String::new()).contains(&("autocommit", "OFF".into())));
        assert!(v.set(&s, Var::OptimizerSwitch, Some(&Value::text("semijoin=on"))).is_err());
    }
}
