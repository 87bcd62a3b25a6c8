//! Runs ALTER TABLE of columns and of the primary key. The rows are copied as INSERT .. SELECT
//! copies them, into a new table that then takes the old table's place.
//!
//! **ALTER-4** The new table, its rows and the statement's text in the binary log commit together.
//! A statement that fails, is killed, or ends with the server leaves the table as it was. The
//! metadata locks keep all other statements from the table until then, so that they find the whole
//! old table or the whole new one. The text has to give the same rows wherever it runs, so a new
//! column's default may not be random if the statement is logged, as in MySQL.
//! **ALTER-5** A row counts as given: 0 in an AUTO_INCREMENT column stays 0, and neither
//! LAST_INSERT_ID() nor `@@insert_id` changes.
use super::Session;
use super::run::{Failure, Ran};
use crate::binlog::{Definition, StatementText};
use crate::error::{Result, SqlError};
use crate::exec::ddl::{DdlContext, check_names, refuse_system};
use crate::generated_key::{NAME, has_generated_key};
use crate::plan::{
    DdlStmt, DefaultFill, Expr, ExprKind, Fill, Function, InsertPlan, Plan, Rebuild, Statement,
    TableName,
};
use crate::session_state::{Done, Outcome};
use crate::settings::Var;
use crate::sink::ResultSink;
use crate::sql_mode::SqlMode;
use redolith_engine::Isolation;
use redolith_engine::dict::alter::Alteration;
use redolith_engine::dict::index_build::Building;
use redolith_engine::dict::metadata_lock::{MetadataLockMode, MetadataLockWait};
use redolith_engine::dict::new_table::NewTable;
use redolith_engine::dict::table::Table;
use redolith_types::{Collation, TableDef, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

impl Session {
    pub(super) async fn rebuild(
        &mut self,
        plan: &Arc<Plan>,
        rebuild: &Rebuild,
        text: StatementText<'_>,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        self.commit_implicitly().await?;
        let own = self.state.temporary.named(&rebuild.table).cloned();
        // Rows that are filled with NOW() get the time of the record, as on a replica.
        let (log, timestamp_us) = (self.derived.log, self.derived.exec.timestamp_us);
        let us = timestamp_us.unwrap_or_else(|| self.db.engine.disk.wall_us());
        self.derived.exec.timestamp_us = Some(us);
        self.derived.log = log.at(us);
        let ran = match &own {
            Some(old) => self.rebuild_temporary(old, plan, rebuild, params, out).await,
            None => {
                let ran = self.rebuild_locked(plan, rebuild, text, params, out).await;
                let to = (&rebuild.def.schema, &rebuild.def.name);
                let to = TableName { schema: to.0.as_str().into(), name: to.1.as_str().into() };
                if ran.is_ok() && to != rebuild.table {
                    self.locks.renamed(|old| (*old == rebuild.table).then(|| to.clone()));
                }
                ran
            }
        };
        (self.derived.log, self.derived.exec.timestamp_us) = (log, timestamp_us);
        self.ended();
        if let Statement::Ddl(ddl @ DdlStmt::Rebuild(_)) = &plan.body {
            self.db.catalog.forget_after(ddl);
        }
        let done = ran?.with_notes(&rebuild.notes, &mut self.state.warnings);
        if self.derived.log.on && own.is_none() {
            self.events_are_safe(self.db.engine.store.log.durable()).await?;
        }
        Ok(Outcome::Done(done))
    }

    async fn rebuild_locked(
        &mut self,
        plan: &Arc<Plan>,
        rebuild: &Rebuild,
        text: StatementText<'_>,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Done> {
        let engine = self.db.engine.clone();
        let (name, def) = (&rebuild.table, &rebuild.def);
        let is_renamed = (&*name.schema, &*name.name) != (&*def.schema, &*def.name);
        let mut names = vec![(&*name.schema, &*name.name)];
        if is_renamed {
            names.push((&def.schema, &def.name));
        }
        // The plan is of the table that is there now, or it is made again.
        let bound = engine.dict.table(&name.schema, &name.name);
        let checks = check_names::locks(def, bound.as_ref().map(|table| &table.def));
        self.lock_exclusively(&names, (&def.schema, &checks)).await?;
        let old = engine.dict.table(&name.schema, &name.name);
        let old = old.ok_or_else(|| SqlError::no_such_table(&name.schema, &name.name))?;
        let database = engine.dict.require_schema(&name.schema)?;
        if !plan.is_current() || rebuild.database_collation.is_some_and(|c| c != database.collation)
        {
            return Err(Failure::Stale);
        }
        check_generated_key(
            &old.def,
            rebuild,
            self.vars.is_on(Var::SqlGenerateInvisiblePrimaryKey),
        )?;
        if is_renamed {
            engine.dict.require_schema(&def.schema)?;
            if engine.dict.is_taken(&def.schema, &def.name) {
                return Err(SqlError::table_exists(&def.name).into());
            }
        }
        // A name in the table's own database may have been the table's before.
        let besides = if name.schema[..] == def.schema[..] { vec![&*name.name] } else { vec![] };
        check_names::require_free(&engine, def, &besides)?;
        let schemas: Vec<&str> = names.iter().map(|(schema, _)| *schema).collect();
        let record = self.alter_record(&schemas, text).await?;
        if record.is_some() && rebuild.copy.as_ref().is_some_and(fills_at_random) {
            return Err(SqlError::unsafe_function().into());
        }
        let Some(copy) = &rebuild.copy else {
            let to = Alteration {
                def: def.clone(),
                added: 0,
                dropped: Vec::new(),
                auto_increment: rebuild.auto_increment.map(|n| n.max(1)),
                record,
            };
            let how = Building::in_memory(self.state.process.interrupt.clone());
            engine.alter_table(&old, to, &how).await?;
            let info = "Records: 0  Duplicates: 0  Warnings: 0".into();
            return Ok(Done { info, ..Done::default() });
        };
        self.begin_engine_transaction(None);
        self.trx.single_read = false;
        // A consistent read needs no locks of rows, since nobody else may use the table.
        self.trx.isolation = Isolation::RepeatableRead;
        let first = first_value(&old, rebuild);
        let begun =
            engine.begin_replacement(&mut self.trx, &old, def.clone(), first, &rebuild.kept).await;
        let mut new = match begun {
            Ok(new) => new,
            Err(e) => {
                self.trx.rollback().await?;
                return Err(e.into());
            }
        };
        let copied = self.copy_rows(&new, rebuild, copy.clone(), plan, params, out).await;
        let done = match copied {
            Ok(done) => self.commit_replacement(&mut new, record).await.map(|()| done),
            Err(e) => Err(e),
        };
        self.end_table(new, done).await
    }

    /// Locks tables, and names of check constraints in a database (CONSTRAINT-3).
    async fn lock_exclusively(
        &mut self,
        names: &[(&str, &str)],
        (schema, checks): (&str, &[String]),
    ) -> Result<()> {
        for (schema, name) in names {
            refuse_system(&self.state, schema)?;
            match (*schema, *name) == names[0] {
                true => self.locks.check_renamed(&self.db.engine, schema, name)?,
                false => self.locks.check_new_name(&self.db.engine, schema, name)?,
            }
        }
        let schemas: Vec<_> = names.iter().map(|(s, _)| (*s, MetadataLockMode::Read)).collect();
        let checks = checks.iter().map(|name| (schema, name.as_str()));
        let tables: Vec<_> = names
            .iter()
            .copied()
            .chain(checks)
            .map(|(schema, name)| (schema, name, MetadataLockMode::Exclusive))
            .collect();
        let wait = MetadataLockWait {
            runtime: &self.db.engine.runtime,
            timeout: self.derived.lock_timeout,
            kill: &self.state.process.interrupt,
        };
        self.locks.take_for_ddl(&self.db.engine, &schemas, &tables, wait).await
    }

    /// Copies the rows (ALTER-5). Neither they nor the new table's values are events of the binary
    /// log, whose readers run the statement's text.
    pub(super) async fn copy_rows(
        &mut self,
        new: &NewTable,
        rebuild: &Rebuild,
        copy: InsertPlan,
        plan: &Plan,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Result<Done> {
        let (is_logged, exec) = (self.derived.log.on, self.derived.exec);
        let last_insert_id = self.state.last_insert_id;
        self.derived.log.on = false;
        self.derived.exec.insert_id = None;
        if rebuild.keeps_counter {
            self.derived.exec.sql_mode = SqlMode(exec.sql_mode.0 | SqlMode::NO_AUTO_VALUE_ON_ZERO);
        }
        let ran = self.fill(new, copy, plan, params, out).await;
        (self.derived.log.on, self.derived.exec) = (is_logged, exec);
        self.state.last_insert_id = last_insert_id;
        match ran {
            Ok(Outcome::Done(done)) => Ok(Done { last_insert_id: 0, ..done }),
            Ok(Outcome::Rows(_)) => Err(SqlError::internal("rows of ALTER TABLE")),
            // The statement gives no value, so no value is named.
            Err(e) if e.code == SqlError::column_cannot_be_null("").code => {
                Err(SqlError::invalid_use_of_null())
            }
            Err(e) => Err(e),
        }
    }

    pub(super) async fn commit_replacement(
        &mut self,
        new: &mut NewTable,
        record: Option<Vec<u8>>,
    ) -> Result<()> {
        let ticket = new.commit(&mut self.trx, record.as_deref()).await?;
        ticket.durable().await;
        Ok(())
    }

    async fn alter_record(
        &mut self,
        schemas: &[&str],
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
        let cx = DdlContext {
            engine: &self.db.engine,
            lock_wait_timeout: self.derived.lock_timeout,
            generates_keys: false,
            server_collation: Collation::Utf8mb4GeneralCi,
            session: &mut self.state,
            locks: &mut self.locks,
            sorting: None,
            log: log.as_ref(),
        };
        cx.record(schemas).await
    }
}

/// Whether rows get values that are others each time they are copied, or on a replica.
fn fills_at_random(copy: &InsertPlan) -> bool {
    use Function::*;
    let differs = |e: &Expr| match &e.kind {
        ExprKind::Call {
            function: User | CurrentUser | Version | RowCount | FoundRows, ..
        } => true,
        _ => e.is_volatile_node(),
    };
    copy.fill.iter().zip(&copy.defaults).any(|(fill, default)| match (fill, default) {
        (Fill::Default, DefaultFill::Expr(e)) => e.any(&differs),
        _ => false,
    })
}

/// The first AUTO_INCREMENT value that the new table generates, unless its rows have greater ones.
pub(super) fn first_value(old: &Table, rebuild: &Rebuild) -> u64 {
    let kept = if rebuild.keeps_counter { old.auto_increment.load(Acquire) } else { 1 };
    rebuild.auto_increment.unwrap_or(kept).max(1)
}

/// A generated primary key goes only with its column, and while the server generates keys, a table
/// keeps one, as in MySQL.
pub(super) fn check_generated_key(
    old: &TableDef,
    rebuild: &Rebuild,
    generates: bool,
) -> Result<()> {
    let loses = old.clustered_index().is_some() && rebuild.def.clustered_index().is_none();
    if generates && loses {
        return Err(SqlError::unsupported(
            "existing primary key drop without adding a new primary key. In \
            @@sql_generate_invisible_primary_key=ON mode table should have a primary key. Please \
            add a new primary key to be able to drop existing primary key.",
        ));
    }
    if rebuild.drops_key && has_generated_key(old) && rebuild.def.column(NAME).is_some() {
        return Err(SqlError::generated_key_needs_its_column());
    }
    Ok(())
}
