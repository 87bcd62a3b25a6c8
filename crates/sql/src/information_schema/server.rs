//! Makes the rows about the server: character sets, engines, connections, counters.
use super::{int, text};
use crate::database::Database;
use crate::exec::show;
use crate::status::Shown;
use redolith_types::{DateTime, Value};

type Row = Vec<Value<'static>>;

pub(super) fn character_sets() -> Vec<Row> {
    // SHOW CHARACTER SET has the description before the collation.
    let mut rows = show::character_sets();
    rows.iter_mut().for_each(|r| r.swap(1, 2));
    rows
}
pub(super) fn collation_applicability() -> Vec<Row> {
    show::collations().into_iter().map(|mut r| r.drain(..2).collect()).collect()
}

pub(super) fn metrics(db: &Database) -> Vec<Row> {
    let now_us = db.engine.disk.wall_us();
    let signed = |n: u64| Value::Int(n.min(i64::MAX as u64) as i64);
    let time = |us: Option<i64>| {
        us.and_then(|us| DateTime::from_unix_us(us, 0))
            .map_or(Value::Null, |t| Value::DateTime(t.truncate(0)))
    };
    let row = |s: Shown| {
        let average = |x: Option<f64>| x.map_or(Value::Null, Value::Double);
        vec![
            text(s.metric.name),
            text(s.metric.subsystem),
            signed(s.all.count),
            s.all.max.map_or(Value::Null, signed),
            s.all.min.map_or(Value::Null, signed),
            average(s.all.average),
            signed(s.reset.count),
            s.reset.max.map_or(Value::Null, signed),
            s.reset.min.map_or(Value::Null, signed),
            average(s.reset.average),
            time(s.enabled_us),
            time(s.disabled_us),
            s.elapsed_s.map_or(Value::Null, int),
            time(s.reset_us),
            text(if s.on { "enabled" } else { "disabled" }),
            text(s.metric.kind.name()),
            text(s.metric.comment),
        ]
    };
    db.status.monitors.show(&db.engine.metrics(), now_us).into_iter().map(row).collect()
}
