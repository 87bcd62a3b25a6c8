//! Variables as options of the command line and of my.cnf.
use super::global::Settings;
use super::table::Var;
use super::variable::{Access, Kind, Scope, Taken};
use std::fmt;

/// The reason why an option is refused, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionError(pub String);
impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for OptionError {}

impl Var {
    /// True if the variable has an option.
    pub fn is_option(self) -> bool {
        let v = self.get();
        v.access != Access::ReadOnly
            && v.scope != Scope::Session
            && v.kind != Kind::OfSession
            && !self.is_of_session_options_only()
            && !self.is_order()
    }
    /// True for variables that have no option in mysqld, because a session takes their first values
    /// from the handshake, the server's collation or the default database.
    fn is_of_session_options_only(self) -> bool {
        matches!(
            self,
            Var::CharacterSetConnection
                | Var::CharacterSetDatabase
                | Var::CollationConnection
                | Var::CollationDatabase
        )
    }
    /// True if the option may stand without a value, which means ON.
    pub fn is_switch(self) -> bool {
        matches!(self.get().kind, Kind::Bool)
    }
}

impl Settings {
    /// Sets a variable to the value of its option. `value` is None if the option stands alone.
    /// Returns a note about an accepted value that was adjusted or has no effect.
    pub fn set_option(&self, var: Var, value: Option<&str>) -> Result<Option<String>, OptionError> {
        let v = var.get();
        let option = v.name.replace('_', "-");
        let text = match value {
            Some(text) => text,
            None if var.is_switch() => "ON",
            None => return Err(OptionError(format!("option '--{option}' requires an argument"))),
        };
        let mut taken: Taken = match v.kind {
            Kind::Text { nullable: true } if text.eq_ignore_ascii_case("NULL") => {
                v.default_setting().into()
            }
            _ => v
                .take_text(text)
                .map_err(|e| OptionError(format!("--{option}={text}: {}", e.message)))?,
        };
        if let (Some(why), false) = (v.only, taken.setting == v.default_setting()) {
            let only = v.show(&v.default_setting()).unwrap_or_default();
            return Err(OptionError(format!(
                "--{option}={text}: only '{only}' is possible: {why}"
            )));
        }
        let note = if taken.truncated {
            taken.truncated = false;
            let shown = v.show(&taken.setting).unwrap_or_default();
            Some(format!("option '{option}': value {text} adjusted to {shown}"))
        } else {
            v.inert.map(|why| format!("option '{option}' has no effect: {why}"))
        };
        if matches!(var, Var::BinlogDoDb | Var::BinlogIgnoreDb) {
            // Each option names one more database.
            let before = self.text(var).filter(|names| !names.is_empty());
            let names = before.map_or(text.to_string(), |before| format!("{before},{text}"));
            taken = v.take_text(&names).map_err(|e| OptionError(e.message.to_string()))?;
        }
        self.store(var, taken.setting);
        if var == Var::CharacterSetServer || var == Var::CollationServer {
            let bits = self.bits(Var::CollationServer);
            self.store(Var::CollationDatabase, super::variable::Setting { bits, text: None });
        }
        Ok(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_types::Collation;

    #[test]
    fn options_set_what_they_name() {
        let s = Settings::default();
        assert_eq!(s.set_option(Var::InnodbBufferPoolSize, Some("1G")), Ok(None));
        assert_eq!(s.bits(Var::InnodbBufferPoolSize), 1 << 30);
        for (asked, bytes) in [("0", 0), ("1", 1 << 20), ("1048575", 1 << 20), ("3145727", 2 << 20)]
        {
            s.set_option(Var::InnodbBufferPoolSizeMax, Some(asked)).unwrap();
            assert_eq!(s.bits(Var::InnodbBufferPoolSizeMax), bytes, "{asked}");
        }
        assert_eq!(s.set_option(Var::SkipNetworking, None), Ok(None));
        assert!(s.is_on(Var::SkipNetworking));
        assert_eq!(s.set_option(Var::CharacterSetServer, Some("latin1")), Ok(None));
        assert_eq!(s.collation(Var::CollationDatabase), Collation::Latin1SwedishCi);
        assert!(s.set_option(Var::SecureFilePriv, Some("NULL")).unwrap().is_none());
    }

    #[test]
    fn what_is_not_built_is_refused_with_a_reason() {
        let s = Settings::default();
        let why = |var, text| s.set_option(var, Some(text)).unwrap_err().0;
        assert!(why(Var::PerformanceSchema, "1").contains("no performance schema"));
        assert!(why(Var::Port, "x").contains("Variable 'port' can't be set to the value of 'x'"));
        assert!(s.set_option(Var::Port, None).unwrap_err().0.contains("requires an argument"));
    }

    #[test]
    fn adjusted_and_inert_values_are_told() {
        let s = Settings::default();
        assert_eq!(
            s.set_option(Var::MaxConnections, Some("0")).unwrap().unwrap(),
            "option 'max-connections': value 0 adjusted to 1"
        );
        assert!(
            s.set_option(Var::TableOpenCache, Some("7995"))
                .unwrap()
                .unwrap()
                .contains("has no effect")
        );
    }
}
