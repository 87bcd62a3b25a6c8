//! Runs CREATE INDEX, DROP INDEX, and ALTER TABLE of indexes and of properties that are only in the
//! definition. (The session runs ALTER TABLE of columns: `session::rebuild`.)
//!
//! All actions are checked against the definition before anything is done. Together they become one
//! DDL operation (ALTER-1).
use super::{DdlContext, Sorting, check_names, table, temporary};
use crate::error::{Result, SqlError};
use crate::exec::duplicate_entry::duplicate_entry;
use crate::parse::ast::StatisticsOption;
use crate::plan::{AlterAction, TableName};
use crate::session_state::{Done, SessionState};
use crate::table_info::TableInfo;
use redolith_engine::dict::alter::Alteration;
use redolith_engine::dict::index_build::Building;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::{Engine, Error as EngineError};
use redolith_types::{Collation, IndexDef, TableDef};
use std::sync::Arc;

/// MySQL allows 64 secondary indexes.
const MAX_INDEXES: usize = 64;

/// The changes that the actions ask for, one after the other.
#[derive(Default)]
pub(super) struct Changes {
    add: Vec<IndexDef>,
    /// The numbers of the dropped indexes in the old definition.
    drop: Vec<usize>,
    rename_index: Vec<(String, String)>,
    comment: Option<String>,
    statistics: Vec<StatisticsOption>,
    /// The default collation of future columns.
    collation: Option<Collation>,
    auto_increment: Option<u64>,
    rename: Option<TableName>,
}

pub(super) async fn run(
    cx: &mut DdlContext<'_>,
    name: &TableName,
    actions: &[AlterAction],
    bound_at: u64,
) -> Result<Option<Done>> {
    if let Some(own) = cx.session.temporary.named(name).cloned() {
        return temporary::alter(cx, &own, name, actions).await.map(Some);
    }
    // As in MySQL, the last RENAME counts.
    let new_name = actions
        .iter()
        .rev()
        .find_map(|a| if let AlterAction::RenameTable(to) = a { Some(to) } else { None });
    let mut names = vec![(&*name.schema, &*name.name)];
    names.extend(new_name.filter(|to| *to != name).map(|to| (&*to.schema, &*to.name)));
    let bound = table::find(cx, name)?;
    if cx.engine.dict.version() != bound_at {
        return Ok(None);
    }
    let renamed = new_name.filter(|to| *to != name).map(|to| {
        let mut def = bound.def.clone();
        def.rename(&*to.schema, &*to.name);
        def
    });
    let checks = renamed.iter().flat_map(|def| {
        let locks = check_names::locks(def, Some(&bound.def));
        locks.into_iter().map(|name| (&*def.schema, name))
    });
    let checks: Vec<_> = checks.collect();
    cx.lock_for_rename(&names[..1], &names, &checks).await?;
    let table = table::find(cx, name)?;
    if !Arc::ptr_eq(&bound, &table) {
        return Ok(None);
    }
    let changes = plan_changes(&table.def, name, actions)?;
    if let Some(to) = &changes.rename {
        cx.engine.dict.require_schema(&to.schema)?;
        if cx.engine.dict.is_taken(&to.schema, &to.name) {
            return Err(SqlError::table_exists(&to.name));
        }
    }
    if let Some(def) = &renamed {
        check_names::require_free(cx.engine, def, &[&table.def.name])?;
    }
    let schemas: Vec<&str> = names.iter().map(|(schema, _)| *schema).collect();
    let record = cx.record(&schemas).await?;
    let def = changes.definition(&table.def);
    apply(cx, &table, &table.def.name, changes, def, record).await?;
    if renamed.is_some() {
        cx.locks.renamed(|old| new_name.filter(|_| old == name).cloned());
    }
    Ok(Some(Done { info: "Records: 0  Duplicates: 0  Warnings: 0".into(), ..Done::default() }))
}

pub(super) fn plan_changes(
    def: &TableDef,
    name: &TableName,
    actions: &[AlterAction],
) -> Result<Changes> {
    let mut c = Changes::default();
    for action in actions {
        match action {
            AlterAction::AddIndex(index) => c.add.push(index.clone()),
            AlterAction::DropIndex(index) => c.drop_index(def, index)?,
            AlterAction::RenameIndex { from, to } => c.rename_index(def, from, to)?,
            AlterAction::RenameTable(to) => c.rename = (to != name).then(|| to.clone()),
            AlterAction::AutoIncrement(n) => c.auto_increment = Some((*n).max(1)),
            AlterAction::Collation(collation) => c.collation = Some(*collation),
            AlterAction::Comment(text) => c.comment = Some(text.to_string()),
            AlterAction::Statistics(option) => c.statistics.push(*option),
            AlterAction::Rebuild => {}
        }
    }
    c.check(def)?;
    Ok(c)
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

impl Changes {
    /// True if index `no` of the old definition stays.
    fn keeps(&self, no: usize) -> bool {
        !self.drop.contains(&no)
    }
    fn drop_index(&mut self, def: &TableDef, name: &str) -> Result<()> {
        let found =
            def.indexes.iter().enumerate().find(|(i, x)| self.keeps(*i) && same(&x.name, name));
        let (no, _) = found.ok_or_else(|| SqlError::cannot_drop(name))?;
        self.drop.push(no);
        Ok(())
    }
    fn rename_index(&mut self, def: &TableDef, from: &str, to: &str) -> Result<()> {
        let mut there = def.indexes.iter().enumerate().filter(|(i, _)| self.keeps(*i));
        if !there.any(|(_, x)| !x.primary && same(&x.name, from)) {
            return Err(SqlError::no_such_key(from, &def.name));
        }
        self.rename_index.push((from.to_string(), to.to_string()));
        Ok(())
    }
    /// Checks the new definition: the names of indexes are unique, and an AUTO_INCREMENT column is
    /// the first column of an index.
    fn check(&self, def: &TableDef) -> Result<()> {
        let old = def.indexes.iter().enumerate().filter(|(i, _)| self.keeps(*i)).map(|(_, x)| x);
        let all: Vec<(&IndexDef, &str)> = old
            .map(|x| (x, self.new_name(&x.name)))
            .chain(self.add.iter().map(|x| (x, x.name.as_str())))
            .collect();
        if let Some((_, (_, twice))) = all
            .iter()
            .enumerate()
            .find(|(i, (_, name))| all[..*i].iter().any(|(_, n)| same(n, name)))
        {
            return Err(SqlError::duplicate_key_name(twice));
        }
        if all.len() > MAX_INDEXES + 1 {
            return Err(SqlError::too_many_keys(MAX_INDEXES));
        }
        let leads = |c: usize| {
            all.iter().any(|(x, _)| x.columns.first().is_some_and(|first| first.column == c))
        };
        if def.auto_increment_column().is_some_and(|c| !leads(c)) {
            return Err(SqlError::wrong_auto_key());
        }
        Ok(())
    }
    /// The new definition of a table.
    pub(super) fn definition(&self, old: &TableDef) -> TableDef {
        let kept = old.indexes.iter().enumerate().filter(|(no, _)| self.keeps(*no));
        let kept = kept.map(|(_, x)| IndexDef { name: self.new_name(&x.name).into(), ..x.clone() });
        let mut def = TableDef {
            indexes: kept.chain(self.add.iter().cloned()).collect(),
            comment: self.comment.as_ref().unwrap_or(&old.comment).clone(),
            collation: self.collation.unwrap_or(old.collation),
            ..old.clone()
        };
        self.statistics.iter().for_each(|option| option.apply(&mut def.statistics));
        if let Some(to) = &self.rename {
            def.rename(&*to.schema, &*to.name);
        }
        def
    }
    fn new_name<'n>(&'n self, name: &'n str) -> &'n str {
        self.rename_index.iter().find(|(from, _)| same(from, name)).map_or(name, |(_, to)| to)
    }
}

/// Gives a table a new definition. Messages call the table by `name`.
pub(super) async fn apply(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    name: &str,
    changes: Changes,
    def: TableDef,
    record: Option<Vec<u8>>,
) -> Result<()> {
    let to = Alteration {
        def,
        added: changes.add.len(),
        dropped: changes.drop,
        auto_increment: changes.auto_increment,
        record,
    };
    match alter_table(cx, table, to).await? {
        Err(EngineError::DuplicateKey { index, row, .. }) => {
            let now = cx.engine.dict.table(&table.def.schema, &table.def.name);
            let now = now.ok_or_else(|| SqlError::internal("a table that was altered"))?;
            let mut added = changes.add.iter();
            let def = added.find(|x| x.name == index);
            let def = def.ok_or_else(|| SqlError::internal("an index that was added"))?;
            let kill = cx.session.process.interrupt.clone();
            Err(duplicate(cx.engine, kill, (&now, name), def, row).await?)
        }
        done => Ok(done?),
    }
}

/// Has the engine change the table.
async fn alter_table(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    to: Alteration,
) -> Result<std::result::Result<(), EngineError>> {
    let sorting = cx.sorting.filter(|_| to.added > 0);
    let (held, how) = building(cx.session, sorting)?;
    let altered = cx.engine.alter_table(table, to, &how).await;
    cx.session.memory.statement.release_to(held);
    match altered {
        Err(EngineError::TemporarySpaceFull { .. }) if how.space.is_none() => {
            Err(out_of_memory(cx.session))
        }
        altered => Ok(altered.map(drop)),
    }
}

/// How indexes are built, which is charged to the statement. Returns also what the statement held
/// before.
pub(crate) fn building(
    session: &mut SessionState,
    sorting: Option<Sorting<'_>>,
) -> Result<(usize, Building)> {
    let (kill, progress) = (session.process.interrupt.clone(), session.process.progress.clone());
    let how = match sorting {
        Some(Sorting { buffer, space }) => {
            // Little memory for the statement makes more parts in the file.
            let buffer = buffer.min(session.memory.statement.limit() / 16);
            Building::in_files(kill, buffer, space.clone(), progress)
        }
        // A buffer may be twice as long as its bytes, and exists twice while it grows.
        None => Building::in_memory_up_to(kill, session.memory.statement.limit() / 4, progress),
    };
    let account = &mut session.memory.statement;
    let held = account.used();
    account.charge(how.memory_to_build())?;
    Ok((held, how))
}

/// Error 3170, for entries that are sorted in memory and are too many.
pub(crate) fn out_of_memory(session: &mut SessionState) -> SqlError {
    let refused = session.memory.statement.charge(usize::MAX);
    refused.err().unwrap_or_else(|| SqlError::internal("memory without an end"))
}

/// Error 1062, with the value of a new unique index that occurs twice. `name` is what the message
/// calls the table. `row` is the clustered key
/// of a row with the value.
pub(crate) async fn duplicate(
    engine: &Arc<Engine>,
    kill: Arc<KillFlag>,
    (table, name): (&Arc<Table>, &str),
    def: &IndexDef,
    row: Vec<u8>,
) -> Result<SqlError> {
    let mut trx = engine.begin(kill);
    let mut rows = Cursor::new(table.clone(), 0, row, None, false, Read::Newest);
    let found = rows.next(&mut trx).await?;
    let error = if found {
        let mut with_index = TableInfo::new(engine.with_index(table, def));
        with_index.def.name = name.into();
        let last = with_index.engine().indexes.len() - 1;
        duplicate_entry(&with_index, last, rows.row().stored)
    } else {
        SqlError::duplicate_entry("?", format!("{name}.{}", def.name))
    };
    trx.rollback().await?;
    Ok(error)
}
