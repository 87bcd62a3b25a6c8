//! Maps a statement to the Com_* counter that counts it.
use crate::plan::{
    AdminStmt, DdlStmt, InsertPlan, InsertRows, OnDuplicate, ShowKind, Statement, TransactionStmt,
    XaVerb,
};
use crate::status::Counter;

pub(super) fn counter(body: &Statement) -> Counter {
    match body {
        Statement::Select(select) if select.analyzed => Counter::ComExplain,
        Statement::Select(_) => Counter::ComSelect,
        Statement::Insert(InsertPlan { rows: InsertRows::File(_), .. }) => Counter::ComLoad,
        Statement::Insert(insert) => {
            let select = matches!(insert.rows, InsertRows::Select { .. });
            match (&insert.on_duplicate, select) {
                (OnDuplicate::Replace, true) => Counter::ComReplaceSelect,
                (OnDuplicate::Replace, false) => Counter::ComReplace,
                (_, true) => Counter::ComInsertSelect,
                (_, false) => Counter::ComInsert,
            }
        }
        Statement::Update(_) => Counter::ComUpdate,
        Statement::Delete(_) => Counter::ComDelete,
        Statement::UpdateMany(_) => Counter::ComUpdateMulti,
        Statement::DeleteMany(_) => Counter::ComDeleteMulti,
        Statement::Rows(_) => Counter::ComExplain,
        Statement::Show(show) => of_show(&show.kind),
        Statement::Ddl(ddl) => match ddl {
            DdlStmt::CreateDatabase { .. } => Counter::ComCreateDb,
            DdlStmt::DropDatabase { .. } => Counter::ComDropDb,
            DdlStmt::CreateTable(_)
            | DdlStmt::CreateSelect(_)
            | DdlStmt::CreateTableLike { .. } => Counter::ComCreateTable,
            DdlStmt::DropTables { .. } => Counter::ComDropTable,
            DdlStmt::CreateView(_) => Counter::ComCreateView,
            DdlStmt::DropViews { .. } => Counter::ComDropView,
            DdlStmt::Truncate(_) => Counter::ComTruncate,
            DdlStmt::RenameTables(_) => Counter::ComRenameTable,
            DdlStmt::AlterTable { .. } | DdlStmt::Rebuild(_) | DdlStmt::AlterDatabase { .. } => {
                Counter::ComAlterTable
            }
        },
        Statement::Transaction(t) => match t {
            TransactionStmt::Begin { .. } => Counter::ComBegin,
            TransactionStmt::Commit { .. } => Counter::ComCommit,
            TransactionStmt::Rollback { .. } => Counter::ComRollback,
            TransactionStmt::Savepoint(_) => Counter::ComSavepoint,
            TransactionStmt::RollbackTo(_) => Counter::ComRollbackToSavepoint,
            TransactionStmt::Release(_) => Counter::ComReleaseSavepoint,
        },
        Statement::Xa { verb, .. } => match verb {
            XaVerb::Start { .. } => Counter::ComXaStart,
            XaVerb::End { .. } => Counter::ComXaEnd,
            XaVerb::Prepare => Counter::ComXaPrepare,
            XaVerb::Commit { .. } => Counter::ComXaCommit,
            XaVerb::Rollback => Counter::ComXaRollback,
        },
        Statement::Set(_) | Statement::SetVariables(_) => Counter::ComSetOption,
        Statement::Use(_) => Counter::ComChangeDb,
        Statement::Do(_) => Counter::ComDo,
        Statement::Kill { .. } => Counter::ComKill,
        Statement::Prepare { .. } => Counter::ComPrepareSql,
        Statement::Execute { .. } => Counter::ComExecuteSql,
        Statement::Deallocate(_) => Counter::ComDeallocateSql,
        Statement::Admin(admin) => match admin {
            AdminStmt::Check(_) => Counter::ComCheck,
            AdminStmt::Analyze(_) | AdminStmt::Histogram { .. } => Counter::ComAnalyze,
            AdminStmt::Optimize(_) => Counter::ComOptimize,
            AdminStmt::Repair(_) => Counter::ComRepair,
            AdminStmt::Checksum(_) => Counter::ComChecksum,
            AdminStmt::LockTables(_) => Counter::ComLockTables,
            AdminStmt::UnlockTables => Counter::ComUnlockTables,
            AdminStmt::Flush(_) | AdminStmt::ResetMaster(_) => Counter::ComFlush,
            AdminStmt::PurgeLogsTo(_) => Counter::ComAdminCommands,
        },
        Statement::PurgeLogsBefore(_) => Counter::ComAdminCommands,
        Statement::Nothing => Counter::ComAdminCommands,
    }
}

fn of_show(kind: &ShowKind) -> Counter {
    match kind {
        ShowKind::CreateTable(_) | ShowKind::CreateView { .. } => Counter::ComShowCreateTable,
        ShowKind::Databases => Counter::ComShowDatabases,
        ShowKind::EngineStatus => Counter::ComShowEngineStatus,
        ShowKind::Columns { .. } | ShowKind::ViewColumns { .. } => Counter::ComShowFields,
        ShowKind::Index { .. } => Counter::ComShowKeys,
        ShowKind::ProcessList { .. } => Counter::ComShowProcesslist,
        ShowKind::Status(_) => Counter::ComShowStatus,
        ShowKind::Tables { .. } => Counter::ComShowTables,
        ShowKind::TableStatus { .. } => Counter::ComShowTableStatus,
        ShowKind::Variables(_) => Counter::ComShowVariables,
        ShowKind::XaRecover { .. } => Counter::ComXaRecover,
        ShowKind::Warnings { .. } | ShowKind::Errors { .. } => Counter::ComShowWarnings,
        _ => Counter::ComAdminCommands,
    }
}
