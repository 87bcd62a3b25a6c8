//! `@@sql_mode`: the flags that change how the parser reads statements and how strictly values are
//! checked, with MySQL's bit numbers. A mode that this server does not obey is an unknown name. The
//! exceptions are a few modes that change nothing here, or that scripts set as a matter of course
//! (docs/compatibility.md).

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SqlMode(pub u64);

macro_rules! modes {
    ($($name:ident = $bit:literal;)*) => {
        impl SqlMode {
            $(pub const $name: u64 = 1 << $bit;)*
            /// The names in MySQL's order.
            pub const NAMES: &'static [(&'static str, u64)] =
                &[$((stringify!($name), 1 << $bit)),*];
        }
    };
}
modes! {
    REAL_AS_FLOAT = 0;
    PIPES_AS_CONCAT = 1;
    ANSI_QUOTES = 2;
    IGNORE_SPACE = 3;
    ONLY_FULL_GROUP_BY = 5;
    NO_UNSIGNED_SUBTRACTION = 6;
    NO_DIR_IN_CREATE = 7;
    ANSI = 18;
    NO_AUTO_VALUE_ON_ZERO = 19;
    NO_BACKSLASH_ESCAPES = 20;
    STRICT_TRANS_TABLES = 21;
    STRICT_ALL_TABLES = 22;
    NO_ZERO_IN_DATE = 23;
    NO_ZERO_DATE = 24;
    ALLOW_INVALID_DATES = 25;
    ERROR_FOR_DIVISION_BY_ZERO = 26;
    TRADITIONAL = 27;
    HIGH_NOT_PRECEDENCE = 29;
    NO_ENGINE_SUBSTITUTION = 30;
}

impl Default for SqlMode {
    /// MySQL 8.0's default.
    fn default() -> SqlMode {
        SqlMode(
            SqlMode::ONLY_FULL_GROUP_BY
                | SqlMode::STRICT_TRANS_TABLES
                | SqlMode::NO_ZERO_IN_DATE
                | SqlMode::NO_ZERO_DATE
                | SqlMode::ERROR_FOR_DIVISION_BY_ZERO
                | SqlMode::NO_ENGINE_SUBSTITUTION,
        )
    }
}

impl SqlMode {
    pub fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
    pub fn strict(self) -> bool {
        self.has(SqlMode::STRICT_TRANS_TABLES | SqlMode::STRICT_ALL_TABLES)
    }
    /// The flags on which the meaning of a text depends: texts under different flags have different
    /// plans.
    pub fn parsing_part(self) -> u64 {
        self.0
            & (SqlMode::REAL_AS_FLOAT
                | SqlMode::PIPES_AS_CONCAT
                | SqlMode::ANSI_QUOTES
                | SqlMode::IGNORE_SPACE
                | SqlMode::ONLY_FULL_GROUP_BY
                | SqlMode::NO_UNSIGNED_SUBTRACTION
                | SqlMode::NO_BACKSLASH_ESCAPES
                | SqlMode::HIGH_NOT_PRECEDENCE
                | SqlMode::STRICT_TRANS_TABLES
                | SqlMode::STRICT_ALL_TABLES
                | SqlMode::NO_ZERO_DATE
                | SqlMode::NO_ZERO_IN_DATE
                | SqlMode::NO_ENGINE_SUBSTITUTION)
    }
    /// Whether an expression may mean something else, or nothing, in the mode without flags.
    pub fn changes_syntax(self) -> bool {
        self.has(
            SqlMode::REAL_AS_FLOAT
                | SqlMode::PIPES_AS_CONCAT
                | SqlMode::ANSI_QUOTES
                | SqlMode::NO_BACKSLASH_ESCAPES
                | SqlMode::HIGH_NOT_PRECEDENCE,
        )
    }
    /// Parses the comma-separated list of a SET. ANSI and TRADITIONAL are expanded. The error is
    /// the name that is unknown.
    pub fn parse(list: &str) -> Result<SqlMode, &str> {
        let mut mode = 0;
        for name in list.split(',').filter(|n| !n.is_empty()) {
            let (_, bit) = SqlMode::NAMES
                .iter()
                .find(|(n, _)| n.eq_ignore_ascii_case(name.trim()))
                .ok_or(name)?;
            mode |= bit;
        }
        Ok(SqlMode(mode).expanded())
    }
    /// Adds the modes that ANSI and TRADITIONAL include.
    pub fn expanded(self) -> SqlMode {
        let mut mode = self.0;
        if self.has(SqlMode::ANSI) {
            mode |= SqlMode::REAL_AS_FLOAT
                | SqlMode::PIPES_AS_CONCAT
                | SqlMode::ANSI_QUOTES
                | SqlMode::IGNORE_SPACE
                | SqlMode::ONLY_FULL_GROUP_BY;
        }
        if self.has(SqlMode::TRADITIONAL) {
            mode |= SqlMode::STRICT_TRANS_TABLES
                | SqlMode::STRICT_ALL_TABLES
                | SqlMode::NO_ZERO_IN_DATE
                | SqlMode::NO_ZERO_DATE
                | SqlMode::ERROR_FOR_DIVISION_BY_ZERO
                | SqlMode::NO_ENGINE_SUBSTITUTION;
        }
        SqlMode(mode)
    }
    pub fn to_list(self) -> String {
        SqlMode::NAMES
            .iter()
            .filter(|(_, bit)| self.has(*bit))
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_reads_as_mysqls() {
        let text = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,\
            NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";
        assert_eq!(SqlMode::default().to_list(), text);
        assert_eq!(SqlMode::parse(text), Ok(SqlMode::default()));
        assert_eq!(SqlMode::parse("ANSI_QUOTES,NONSENSE"), Err("NONSENSE"));
        assert!(SqlMode::parse("traditional").unwrap().strict());
        assert!(SqlMode::parse("TRADITIONAL,ALLOW_INVALID_DATES").is_ok());
        for not_obeyed in ["PAD_CHAR_TO_FULL_LENGTH", "TIME_TRUNCATE_FRACTIONAL"] {
            assert_eq!(SqlMode::parse(not_obeyed), Err(not_obeyed));
        }
    }
}
