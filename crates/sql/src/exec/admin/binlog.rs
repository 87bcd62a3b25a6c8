//! Runs RESET BINARY LOGS AND GTIDS, and brings the binary log to the variables that have changed.
use super::AdminContext;
use crate::binlog::{checksum, killable};
use crate::error::{Result, SqlError};
use crate::plan::{SetItem, SetTarget};
use crate::session_state::Done;
use crate::settings::{Settings, Var};
use redolith_replication::MOST_RESET_NUMBER;
use redolith_replication::record::{Options, Why};

/// RESET BINARY LOGS AND GTIDS: the log begins anew with file `first`, or 1.
pub(super) async fn reset(cx: &AdminContext<'_>, first: Option<u64>) -> Result<Done> {
    let Some(binlog) = cx.binlog else {
        return Err(SqlError::new(1186, "Binlog closed, cannot RESET MASTER"));
    };
    let first = first.unwrap_or(1);
    let number = u32::try_from(first).ok().filter(|n| (1..=MOST_RESET_NUMBER).contains(n));
    let number = number.ok_or_else(|| {
        let why = format!(
            "The requested value {first} for the next binary log index is out of range. Please \
             use a value between 1 and {MOST_RESET_NUMBER}."
        );
        SqlError::new(3567, why)
    })?;
    killable(&cx.session.process, binlog.reset(cx.engine, number)).await??;
    Ok(Done::default())
}

/// The log goes on in another file, and files that are too old go.
pub(super) async fn rotate(cx: &AdminContext<'_>) -> Result<()> {
    let Some(binlog) = cx.binlog else { return Ok(()) };
    let wanted = of_variables(&binlog.options(), cx.settings);
    killable(&cx.session.process, binlog.rotate(cx.engine, Why::Flush, wanted)).await??;
    if binlog.expires() {
        // A start after a crash makes the files behind the last barrier again.
        killable(&cx.session.process, binlog.barrier(cx.engine)).await??;
        cx.engine.runtime.work_long(&mut || binlog.expire());
    }
    Ok(())
}

/// Does what SET GLOBAL asks of the files: `binlog_checksum` holds from the next file on, which
/// begins now, and `max_binlog_size` for the present one.
pub(super) async fn change_options(cx: &AdminContext<'_>, items: &[SetItem]) -> Result<()> {
    let concerns = |item: &SetItem| match item {
        SetItem::System { target: SetTarget::Global | SetTarget::Persist, name, .. } => {
            let var = Var::from_name(name);
            matches!(var, Some(Var::BinlogChecksum | Var::MaxBinlogSize))
        }
        _ => false,
    };
    let Some(binlog) = cx.binlog.filter(|_| items.iter().any(concerns)) else { return Ok(()) };
    // Another session may change the variables at the same time. Whose record comes last sees that
    // its options are not those of the variables any more.
    loop {
        let now = binlog.options();
        let wanted = of_variables(&now, cx.settings);
        if now == wanted {
            return Ok(());
        }
        killable(&cx.session.process, binlog.change(cx.engine, wanted)).await??;
    }
}

/// How the variables ask for files to be made.
fn of_variables(now: &Options, settings: &Settings) -> Options {
    Options {
        checksum: checksum(settings),
        max_file_bytes: settings.bits(Var::MaxBinlogSize),
        ..now.clone()
    }
}
