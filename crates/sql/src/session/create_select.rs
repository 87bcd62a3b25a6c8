//! Runs CREATE TABLE .. SELECT: a definition whose table gets rows before anybody sees it.
//!
//! **CTAS-2** The table, its rows and its events for the binary log commit together. A statement
//! that fails, is killed, or ends with the server leaves no table and no events.
//! **CTAS-3** The events are two transactions, as MySQL logged them before 8.0.21 and MariaDB logs
//! them: the definition with its columns in full, without the SELECT, and the rows. Every replica
//! applies these; MySQL's new form, one transaction with `START TRANSACTION` in the definition,
//! stops replicas of MariaDB.
use super::Session;
use super::run::{Failure, Ran};
use crate::bind::check_table;
use crate::binlog::{Capture, Definition, Sealed, StatementText};
use crate::error::{Result, SqlError};
use crate::exec::ddl::alter::{building, duplicate, out_of_memory};
use crate::exec::ddl::{DdlContext, Sorting, check_names, has_old_collation, refuse_system};
use crate::generated_key::generate;
use crate::plan::{
    CreateSelect, DefaultFill, Fill, InsertPlan, OnDuplicate, Plan, Statement, TableUse,
};
use crate::session_state::{Done, Level, Outcome};
use crate::settings::Var;
use crate::sink::ResultSink;
use crate::table_info::TableInfo;
use redolith_engine::Error as EngineError;
use redolith_engine::dict::metadata_lock::MetadataLockMode;
use redolith_engine::dict::new_table::NewTable;
use redolith_replication::record;
use redolith_types::{Collation, TableDef, Value};
use std::sync::Arc;

impl Session {
    pub(super) async fn create_select(
        &mut self,
        plan: &Arc<Plan>,
        create: &CreateSelect,
        text: StatementText<'_>,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        self.commit_implicitly().await?;
        let ran = self.create_filled(plan, create, text, params, out).await;
        self.ended();
        let outcome = ran?;
        if self.derived.log.on {
            self.events_are_safe(self.db.engine.store.log.durable()).await?;
        }
        Ok(outcome)
    }

    async fn create_filled(
        &mut self,
        plan: &Arc<Plan>,
        create: &CreateSelect,
        text: StatementText<'_>,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        let (made, engine) = (&create.create, self.db.engine.clone());
        self.state.warnings.push_all(&made.notes);
        // The first look takes no lock, so that the statement does not wait for sessions that use
        // an existing table.
        if self.is_there(create).await? {
            return Ok(Outcome::Done(Done::default()));
        }
        self.lock_new_table(&made.def, &plan.tables).await?;
        if self.is_there(create).await? {
            return Ok(Outcome::Done(Done::default()));
        }
        engine.dict.require_schema(&made.def.schema)?;
        check_names::require_free(&engine, &made.def, &[])?;
        if !plan.is_current() || has_old_collation(&engine, &made.def, self.bound_at)? {
            return Err(Failure::Stale);
        }
        let (def, insert) = self.with_generated_key(create)?;
        let first = made.auto_increment.unwrap_or(1).max(1);
        self.begin_engine_transaction(None);
        self.trx.single_read = false;
        let begun = engine.begin_table(&mut self.trx, def, first).await;
        let mut new = match begun {
            Ok(new) => new,
            Err(e) => {
                self.trx.rollback().await?;
                return Err(e.into());
            }
        };
        let filled = self.fill(&new, insert, plan, params, out).await;
        let done = match filled {
            Ok(outcome) => self.commit_table(create, &mut new, text).await.map(|()| outcome),
            Err(e) => Err(e),
        };
        self.end_table(new, done).await
    }

    /// The definition and the INSERT, with a generated primary key if the table is to get one.
    pub(super) fn with_generated_key(
        &self,
        create: &CreateSelect,
    ) -> Result<(TableDef, InsertPlan)> {
        let (mut def, mut insert) = (create.create.def.clone(), create.insert.clone());
        if self.vars.is_on(Var::SqlGenerateInvisiblePrimaryKey) && generate(&mut def)? {
            check_table(&def)?;
            insert.fill.insert(0, Fill::Default);
            insert.defaults.insert(0, DefaultFill::AutoIncrement);
            insert.constraints.iter_mut().for_each(|constraints| constraints.shift_columns());
            insert.generated_columns.iter_mut().for_each(|columns| columns.shift_columns());
        }
        Ok((def, insert))
    }

    /// Shows a table whose transaction has committed, or takes back what there is of it.
    pub(super) async fn end_table<T>(&mut self, new: NewTable, done: Result<T>) -> Ran<T> {
        match done {
            Ok(done) => {
                new.enter().await?;
                Ok(done)
            }
            Err(e) => {
                self.trx.rollback().await?;
                new.discard().await?;
                Err(e.into())
            }
        }
    }

    /// True if the table is there and IF NOT EXISTS allows it. As in MySQL the statement then
    /// inserts nothing, and is not logged.
    async fn is_there(&mut self, create: &CreateSelect) -> Result<bool> {
        let def = &create.create.def;
        if !self.db.engine.dict.is_taken(&def.schema, &def.name) {
            return Ok(false);
        }
        let error = SqlError::table_exists(&def.name);
        if !create.create.if_not_exists {
            return Err(error);
        }
        self.db.engine.definitions_durable().await;
        self.state.warnings.push(Level::Note, error.code, error.message);
        Ok(true)
    }

    /// Takes the locks of a definition, and with them those of the tables that the SELECT reads.
    async fn lock_new_table(&mut self, def: &TableDef, sources: &[TableUse]) -> Result<()> {
        refuse_system(&self.state, &def.schema)?;
        self.locks.check(&def.schema, &def.name, true)?;
        let checks = check_names::locks(def, None);
        let mut tables = vec![(&*def.schema, &*def.name, MetadataLockMode::Exclusive)];
        let names = checks.iter().map(|name| (&*def.schema, &**name, MetadataLockMode::Exclusive));
        tables.extend(names);
        for used in sources {
            let source = &used.table.def;
            if used.table.is_temporary() {
                continue;
            }
            self.locks.check(&source.schema, &source.name, false)?;
            tables.push((&source.schema, &source.name, MetadataLockMode::Read));
        }
        let wait = redolith_engine::dict::metadata_lock::MetadataLockWait {
            runtime: &self.db.engine.runtime,
            timeout: self.derived.lock_timeout,
            kill: &self.state.process.interrupt,
        };
        let schemas = [(&*def.schema, MetadataLockMode::Read)];
        self.locks.take_for_ddl(&self.db.engine, &schemas, &tables, wait).await
    }

    /// Inserts the rows of the SELECT.
    pub(super) async fn fill(
        &mut self,
        new: &NewTable,
        insert: InsertPlan,
        plan: &Plan,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Result<Outcome> {
        // Rows that have to know whether their keys are taken go in with their entries.
        let later = matches!(insert.on_duplicate, OnDuplicate::Error) && !insert.ignore;
        if later {
            new.build_later();
        }
        let mut table = TableInfo::new(new.table().clone());
        // The engine may call it otherwise (a temporary table).
        let name = insert.table.def.name.clone();
        (table.def.schema, table.def.name) = (insert.table.def.schema.clone(), name.clone());
        let table = Arc::new(table);
        let plan = Plan {
            size: Default::default(),
            body: Statement::Insert(InsertPlan { table, ..insert }),
            columns: Vec::new(),
            params: plan.params,
            param_types: Vec::new(),
            untyped: plan.untyped.clone(),
            constants: plan.constants.clone(),
            tables: plan.tables.clone(),
            views: plan.views.clone(),
            cacheable: false,
            hints: None,
        };
        // An INSERT that fails does not change LAST_INSERT_ID().
        let last_insert_id = self.state.last_insert_id;
        let filled = self.run_in_engine(&plan, params, None, None, false, out).await?;
        if later && let Err(e) = self.build_indexes(new, &name).await {
            self.state.last_insert_id = last_insert_id;
            return Err(e);
        }
        Ok(filled)
    }

    /// Builds the secondary indexes of a table that has all its rows (NEWTABLE-4). `name` is what
    /// messages call it.
    async fn build_indexes(&mut self, new: &NewTable, name: &str) -> Result<()> {
        if new.table().secondary().next().is_none() {
            return Ok(());
        }
        let buffer = self.db.settings.bits(Var::InnodbSortBufferSize) as usize;
        let space = Some(&self.db.temporary).filter(|space| space.is_on());
        let sorting = space.map(|space| Sorting { buffer, space });
        let (held, how) = building(&mut self.state, sorting)?;
        let built = new.build_indexes(&how).await;
        self.state.memory.statement.release_to(held);
        match built {
            Err(EngineError::TemporarySpaceFull { .. }) if how.space.is_none() => {
                Err(out_of_memory(&mut self.state))
            }
            Err(EngineError::DuplicateKey { index_no, row, .. }) => {
                let (table, kill) = (new.table(), self.state.process.interrupt.clone());
                let def = &table.indexes[index_no].def;
                Err(duplicate(&self.db.engine, kill, (table, name), def, row).await?)
            }
            built => Ok(built?),
        }
    }

    /// Commits, with the events of the definition and of the rows (CTAS-2, CTAS-3).
    async fn commit_table(
        &mut self,
        create: &CreateSelect,
        new: &mut NewTable,
        text: StatementText<'_>,
    ) -> Result<()> {
        let definition = self.definition_record(create, new, text).await?;
        let sealed = self.seal_events(false).await?;
        let rows = sealed.as_ref().and(self.capture.as_deref()).map(Capture::record);
        let record = match (definition, rows) {
            (Some(definition), Some(rows)) => Some(record::defined(&definition, rows)),
            (definition, rows) => definition.or(rows.map(<[u8]>::to_vec)),
        };
        let ticket = new.commit(&mut self.trx, record.as_deref()).await?;
        sealed.into_iter().for_each(Sealed::keep);
        ticket.durable().await;
        Ok(())
    }

    async fn definition_record(
        &mut self,
        create: &CreateSelect,
        new: &NewTable,
        text: StatementText<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let binlog = self.db.binlog.as_ref().filter(|_| self.derived.log.on);
        let log = binlog.map(|binlog| Definition {
            binlog,
            server: &self.db.settings,
            settings: &self.derived.log,
            filter: &self.db.log_filter,
            text,
        });
        let mut cx = DdlContext {
            engine: &self.db.engine,
            lock_wait_timeout: self.derived.lock_timeout,
            generates_keys: false,
            server_collation: Collation::Utf8mb4GeneralCi,
            session: &mut self.state,
            locks: &mut self.locks,
            sorting: None,
            log: log.as_ref(),
        };
        let (def, made) = (&new.table().def, &create.create);
        cx.whole_record(def, made.auto_increment.unwrap_or(1), made.if_not_exists).await
    }
}

#[cfg(test)]
mod tests {
    use crate::session::Session;
    use crate::session::tests::{World, lines};

    /// A table `s` of 8192 rows, whose texts need more than `innodb_sort_buffer_size`.
    fn world() -> (World, Session) {
        let w = World::new();
        let mut s = w.session();
        lines(&mut s, "CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(300))");
        lines(&mut s, "INSERT INTO s (v) VALUES (REPEAT('x', 200))");
        for _ in 0..13 {
            lines(&mut s, "INSERT INTO s (v) SELECT v FROM s");
        }
        (w, s)
    }

    /// Without temporary files, entries are sorted in the statement's memory.
    #[test]
    fn indexes_are_built_without_temporary_files() {
        let (w, mut s) = world();
        let texts = [
            "CREATE TABLE t (KEY (v)) SELECT * FROM s",
            "CREATE INDEX v ON s (v)",
            "ALTER TABLE s DROP INDEX v, ADD INDEX v (v, id)",
            "DROP TABLE t",
            "DROP INDEX v ON s",
        ];
        lines(&mut s, "SET GLOBAL redolith_temporary_space = 0");
        for text in texts {
            assert!(lines(&mut s, text)[0].starts_with("ok"), "{text}");
        }
        lines(&mut s, "SET redolith_statement_memory = 4194304");
        for text in &texts[..2] {
            assert_eq!(lines(&mut s, text), ["error 3170"], "{text}");
            assert_eq!(s.state.memory.statement.used(), 0);
        }
        assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM s"), ["8192"]);
        assert_eq!(lines(&mut s, "SELECT COUNT(*) FROM t"), ["error 1146"]);
        assert_eq!(w.db.temporary.files(), 0);
    }

    #[test]
    fn a_table_that_fails_keeps_last_insert_id() {
        let (_w, mut s) = world();
        let id = "SELECT LAST_INSERT_ID()";
        let before = lines(&mut s, id);
        let text = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, UNIQUE (u)) \
            SELECT 7 AS u FROM s LIMIT 2";
        assert_eq!(lines(&mut s, text), ["error 1062"]);
        assert_eq!(lines(&mut s, id), before);
        assert_eq!(lines(&mut s, &text.replace("2", "1")), ["ok 1 1"]);
        assert_eq!(lines(&mut s, id), ["1"]);
    }
}
