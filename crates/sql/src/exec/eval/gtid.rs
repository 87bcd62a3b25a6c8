//! Functions of GTIDs.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::exec::scan::check_killed;
use crate::plan::{Expr, Function};
use crate::processes::Kill;
use crate::settings::Var;
use redolith_binlog::GtidSet;
use redolith_replication::dump::last_before;
use redolith_types::Value;
use redolith_types::convert::to_u64;

/// What an interval of a set takes while a text is read and the set is copied, and what a part
/// between two commas takes beside its intervals.
const INTERVAL_BYTES: usize = 64;
const PART_BYTES: usize = 256;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn gtid_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
    ) -> Result<Value<'v>> {
        let mark = self.env.held();
        let (Some(first), Some(second)) = (self.gtid_set(&args[0])?, self.gtid_set(&args[1])?)
        else {
            self.env.release_to(mark);
            return Ok(Value::Null);
        };
        let result = match function {
            Function::GtidSubset => Value::Int(first.is_subset(&second) as i64),
            _ => {
                let mut left = first;
                left.subtract(&second);
                Value::owned(left.to_string().into_bytes())
            }
        };
        self.env.release_to(mark);
        Ok(result)
    }

    /// MariaDB's `BINLOG_GTID_POS(file, position)`, which `mariadb-dump --gtid` calls: NULL if the
    /// log has no such place.
    pub(super) fn binlog_gtid_pos(&mut self, file: &'v Expr, at: &'v Expr) -> Result<Value<'v>> {
        let name = self.arg_bytes(file)?;
        let at = self.number(at)?;
        let (Some(name), false) = (name, at.is_null()) else { return Ok(Value::Null) };
        let at = to_u64(&at).value;
        let source = self.env.database.and_then(|db| Some((db, db.binlog.as_ref()?)));
        let Some((db, binlog)) = source else { return Ok(Value::Null) };
        let domain = db.settings.bits(Var::GtidDomainId) as u32;
        let process = self.env.session.process.clone();
        let goes_on = || process.killed() == Kill::None;
        let mut found = Ok(None);
        db.engine.runtime.work_long(&mut || {
            let _ = binlog.materialize(db.engine.store.log.durable());
            found = last_before(binlog, &name, at, domain, &goes_on);
        });
        check_killed(self.env)?;
        let found = found.map_err(|e| SqlError::new(1220, format!("BINLOG_GTID_POS: {e}")))?;
        Ok(found.map_or(Value::Null, |gtid| {
            let text = if gtid.number == 0 { String::new() } else { gtid.to_string() };
            Value::owned(text.into_bytes())
        }))
    }

    fn gtid_set(&mut self, arg: &'v Expr) -> Result<Option<GtidSet>> {
        let Some(text) = self.arg_bytes(arg)? else { return Ok(None) };
        let count = |byte| text.iter().filter(|b| **b == byte).count();
        self.env.bytes(2 * text.len())?;
        self.env.charge(count(b':') * INTERVAL_BYTES + count(b',') * PART_BYTES)?;
        let text = String::from_utf8_lossy(&text);
        let malformed =
            |_| SqlError::new(1772, format!("Malformed GTID set specification '{text}'."));
        text.parse().map(Some).map_err(malformed)
    }
}
