//! Definitions of temporary tables, as far as they need the session: its transaction, and rows.
//!
//! **TEMPTABLE-10** CREATE TEMPORARY TABLE and DROP TEMPORARY TABLE end no transaction, and no
//! transaction takes them back. The rows that CREATE TEMPORARY TABLE .. SELECT finds go into the
//! open transaction like those of INSERT .. SELECT. Every other definition commits first, also if
//! its table is a temporary one.
use super::Session;
use super::rebuild::{check_generated_key, first_value};
use super::run::{Failure, Ran};
use super::transaction::Transaction;
use crate::binlog::StatementText;
use crate::error::{Result, SqlError};
use crate::exec::ddl::{check_names, refuse_system};
use crate::plan::{
    CreateSelect, DdlStmt, InsertPlan, Plan, Rebuild, Statement, StatisticsUse, TableUse,
};
use crate::session_state::{Done, Level, Outcome};
use crate::settings::Var;
use crate::sink::ResultSink;
use crate::table_info::TableInfo;
use redolith_engine::Isolation;
use redolith_engine::dict::alter::Alteration;
use redolith_engine::dict::index_build::Building;
use redolith_types::{TableDef, Value};
use std::sync::Arc;

impl Session {
    /// TEMPTABLE-7
    pub(super) fn no_temporary_in_xa(&self) -> Result<()> {
        self.xa.as_ref().map_or(Ok(()), |_| Err(SqlError::temporary_table_in_xa()))
    }

    /// Runs CREATE TEMPORARY TABLE or DROP TEMPORARY TABLE.
    pub(super) async fn define_temporary(
        &mut self,
        plan: &Arc<Plan>,
        ddl: &DdlStmt,
        text: StatementText<'_>,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        self.no_temporary_in_xa()?;
        let next = self.transaction.next.read_only.unwrap_or(self.derived.read_only);
        if if self.transaction.active { self.trx.read_only } else { next } {
            return Err(SqlError::read_only_transaction().into());
        }
        let is_open = self.transaction.active;
        let ran = match ddl {
            DdlStmt::CreateSelect(create) => {
                self.create_temporary_filled(plan, create, params, out).await
            }
            _ => self.administer(plan, text, params, out).await,
        };
        if is_open && ran.is_ok() {
            let drops = matches!(ddl, DdlStmt::DropTables { .. });
            self.transaction.made_temporary |= !drops;
            self.transaction.dropped_temporary |= drops;
        }
        ran
    }

    /// Warns that a rollback does not take back what the transaction has done to temporary tables.
    pub(super) fn warn_of_temporary(&mut self) {
        let Transaction { made_temporary, dropped_temporary, .. } = self.transaction;
        let made = made_temporary.then(SqlError::temporary_table_stays);
        let dropped = dropped_temporary.then(SqlError::temporary_table_stays_dropped);
        made.into_iter().chain(dropped).for_each(|warning| self.state.warnings.warn(warning));
    }

    /// Runs CREATE TEMPORARY TABLE .. SELECT. A statement that fails leaves no table.
    async fn create_temporary_filled(
        &mut self,
        plan: &Arc<Plan>,
        create: &CreateSelect,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        let made = &create.create;
        self.state.warnings.push_all(&made.notes);
        let def = &made.def;
        refuse_system(&self.state, &def.schema)?;
        if self.state.temporary.find(&def.schema, &def.name).is_some() {
            let error = SqlError::table_exists(&def.name);
            if !made.if_not_exists {
                return Err(error.into());
            }
            self.state.warnings.push(Level::Note, error.code, error.message);
            return Ok(Outcome::Done(Done::default()));
        }
        self.db.engine.dict.require_schema(&def.schema)?;
        check_names::require_short(def)?;
        let (def, insert) = self.with_generated_key(create)?;
        let first = made.auto_increment.unwrap_or(1).max(1);
        let table = self.state.temporary.create(def, first).await?;
        let filled = self.fill_temporary(&table, insert, plan, params, out).await;
        if filled.is_err() {
            // The rows are taken back already, if the transaction goes on.
            self.state.temporary.drop(&[table]).await?;
        }
        filled
    }

    /// Inserts the rows of the SELECT, as a statement of the open transaction.
    async fn fill_temporary(
        &mut self,
        table: &Arc<TableInfo>,
        insert: InsertPlan,
        plan: &Plan,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        let mut tables = plan.tables.clone();
        let statistics = StatisticsUse::None;
        tables.push(TableUse { table: table.clone(), write: true, statistics });
        let filling = Plan {
            size: Default::default(),
            body: Statement::Insert(InsertPlan { table: table.clone(), ..insert }),
            columns: Vec::new(),
            params: plan.params,
            param_types: Vec::new(),
            untyped: plan.untyped.clone(),
            constants: plan.constants.clone(),
            tables,
            views: plan.views.clone(),
            cacheable: false,
            hints: None,
        };
        self.run_rows(&Arc::new(filling), params, None, None, out).await
    }

    /// Runs ALTER TABLE of a temporary table's columns or primary key, after the transaction has
    /// been committed. As with other tables, the rows get into a new table that takes the place of
    /// the old one.
    pub(super) async fn rebuild_temporary(
        &mut self,
        old: &Arc<TableInfo>,
        plan: &Arc<Plan>,
        rebuild: &Rebuild,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Done> {
        if !plan.is_current() {
            return Err(Failure::Stale);
        }
        let engine = self.db.engine.clone();
        let def = &rebuild.def;
        let generates = self.vars.is_on(Var::SqlGenerateInvisiblePrimaryKey);
        check_generated_key(&old.def, rebuild, generates)?;
        if (&def.schema, &def.name) != (&old.def.schema, &old.def.name) {
            refuse_system(&self.state, &def.schema)?;
            engine.dict.require_schema(&def.schema)?;
            if self.state.temporary.find(&def.schema, &def.name).is_some() {
                return Err(SqlError::table_exists(&def.name).into());
            }
        }
        check_names::require_short(def)?;
        self.state.temporary.charge_for(old, def)?;
        let inner = &old.engine().def;
        let new_def =
            TableDef { schema: inner.schema.clone(), name: inner.name.clone(), ..def.clone() };
        let Some(copy) = &rebuild.copy else {
            let to = Alteration {
                def: new_def,
                added: 0,
                dropped: Vec::new(),
                auto_increment: rebuild.auto_increment.map(|n| n.max(1)),
                record: None,
            };
            let how = Building::in_memory(self.state.process.interrupt.clone());
            let new = engine.alter_table(old.engine(), to, &how).await?;
            self.state.temporary.replace(old, new, &def.schema, &def.name);
            let info = "Records: 0  Duplicates: 0  Warnings: 0".into();
            return Ok(Done { info, ..Done::default() });
        };
        self.begin_engine_transaction(None);
        self.trx.single_read = false;
        self.trx.isolation = Isolation::RepeatableRead;
        let first = first_value(old.engine(), rebuild);
        let begun =
            engine.begin_replacement(&mut self.trx, old.engine(), new_def, first, &[]).await;
        let mut new = match begun {
            Ok(new) => new,
            Err(e) => {
                self.trx.rollback().await?;
                return Err(e.into());
            }
        };
        let table = new.table().clone();
        let copied = self.copy_rows(&new, rebuild, copy.clone(), plan, params, out).await;
        let done = match copied {
            Ok(done) => self.commit_replacement(&mut new, None).await.map(|()| done),
            Err(e) => Err(e),
        };
        let done = self.end_table(new, done).await;
        match &done {
            Ok(_) => self.state.temporary.replace(old, table, &def.schema, &def.name),
            Err(_) => self.state.temporary.look_again(old),
        }
        done
    }
}
