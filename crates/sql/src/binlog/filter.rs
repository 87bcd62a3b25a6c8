//! `--binlog-do-db` and `--binlog-ignore-db`: which databases are logged.
//!
//! Rows count by the database of their table. A definition counts by the session's default
//! database, whatever tables it names, and one of a database by the name of this. If databases are
//! named that are to be logged, those that are to be ignored do not matter. (MySQL,
//! `Rpl_filter::db_ok`)
use crate::settings::{Settings, Var};

/// The databases that are logged.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// None: those that are not in `ignored`.
    only: Option<Box<[Box<str>]>>,
    ignored: Box<[Box<str>]>,
}

impl Filter {
    pub fn of(settings: &Settings) -> Filter {
        let list = |var| -> Box<[Box<str>]> {
            let text = settings.text(var).unwrap_or_default();
            text.split(',').filter(|name| !name.is_empty()).map(Into::into).collect()
        };
        let only = list(Var::BinlogDoDb);
        let only = (!only.is_empty()).then_some(only);
        Filter { only, ignored: list(Var::BinlogIgnoreDb) }
    }
    /// Whether a change in this database is logged. A session without a default database has an
    /// empty name, which no filter holds back.
    #[inline]
    pub fn logs(&self, database: &str) -> bool {
        let names = |list: &[Box<str>]| list.iter().any(|name| **name == *database);
        database.is_empty()
            || match &self.only {
                Some(only) => names(only),
                None => !names(&self.ignored),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_logged_by_their_names() {
        let filter = |only, ignored| {
            let settings = Settings::default();
            for (var, names) in [(Var::BinlogDoDb, only), (Var::BinlogIgnoreDb, ignored)] {
                let names: &[&str] = names;
                names.iter().for_each(|name| {
                    settings.set_option(var, Some(name)).unwrap();
                });
            }
            let filter = Filter::of(&settings);
            ["a", "b", "A", ""].map(|name| filter.logs(name))
        };
        assert_eq!(filter(&[], &[]), [true; 4]);
        assert_eq!(filter(&["a", "c"], &[]), [true, false, false, true]);
        assert_eq!(filter(&[], &["c", "b"]), [true, false, true, true]);
        assert_eq!(filter(&["a"], &["a"]), [true, false, false, true]);
    }
}
