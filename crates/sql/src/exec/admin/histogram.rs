//! ANALYZE TABLE .. UPDATE HISTOGRAM and DROP HISTOGRAM. One statement reads the table once for all
//! columns that it names.
//!
//! **HISTOGRAM-4** The rows that are kept for the buckets take at most
//! `histogram_generation_max_mem_size` bytes, and a quarter of the statement's memory. Where all
//! rows take more, each row is kept with the same probability: whenever the memory is full, half of
//! the kept rows go, and half of the later ones are passed over.
use super::super::env::split_mix;
use super::super::locks::histogram_lock;
use super::super::long_rows::{fetch, needs_long};
use super::super::scan::go_on;
use super::AdminContext;
use crate::bind::STRING_PREFIX;
use crate::error::{Result, SqlError};
use crate::plan::TableName;
use crate::settings::Var;
use crate::sink::{ColumnMeta, ResultSink};
use redolith_engine::dict::histogram::{Bucket, Histogram, Kind};
use redolith_engine::dict::metadata_lock::MetadataLockMode;
use redolith_engine::dict::table::Table;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_types::{Collation, SqlType, TableDef, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the statement asks for.
pub(super) struct Asked<'s> {
    pub tables: &'s [TableName],
    pub columns: &'s [Box<str>],
    /// None for DROP HISTOGRAM.
    pub buckets: Option<u32>,
}
/// What the statement says of a column: MySQL's `Msg_type` and `Msg_text`.
type Said = (&'static str, String);

pub(super) async fn run(
    cx: &mut AdminContext<'_>,
    asked: Asked<'_>,
    columns: &[ColumnMeta],
    sink: &mut impl ResultSink,
) -> Result<u64> {
    let (name, said) = match asked.tables {
        [table] => {
            let mark = cx.locks.metadata_lock.mark();
            let said = change(cx, table, &asked).await;
            cx.locks.metadata_lock.release_to(mark);
            (format!("{}.{}", table.schema, table.name), said?)
        }
        _ => (
            String::new(),
            vec![error("Only one table can be specified while modifying histogram statistics.")],
        ),
    };
    sink.columns(columns).await?;
    let text = |s: &str| Value::owned(s.as_bytes().to_vec());
    for (kind, message) in &said {
        sink.row(&[text(&name), text("histogram"), text(kind), text(message)]);
        if sink.wants_drain() {
            sink.drain().await?;
        }
    }
    Ok(said.len() as u64)
}
fn error(message: impl Into<String>) -> Said {
    ("Error", message.into())
}

/// Changes the histograms of a table under a metadata lock that keeps out DDL.
async fn change(
    cx: &mut AdminContext<'_>,
    name: &TableName,
    asked: &Asked<'_>,
) -> Result<Vec<Said>> {
    if cx.session.temporary.named(name).is_some() {
        return Ok(vec![error("Cannot create histogram statistics for a temporary table.")]);
    }
    cx.locks.check(&name.schema, &name.name, false)?;
    let (wait, engine) = (cx.wait(), cx.engine);
    let schema = [(&*name.schema, MetadataLockMode::Read)];
    let table = [(&*name.schema, &*name.name, MetadataLockMode::Read)];
    // The statement changes the dictionary, so it takes the locks of a definition, in their order.
    cx.locks.take_for_ddl(engine, &schema, &table, wait.on(engine)).await?;
    let Some(table) = engine.table(&name.schema, &name.name).await? else {
        return Ok(vec![match engine.dict.view(&name.schema, &name.name) {
            Some(_) => error("Cannot create histogram statistics for a view."),
            None => error(SqlError::no_such_table(&name.schema, &name.name).message),
        }]);
    };
    let own = histogram_lock(engine, &name.schema, &name.name);
    cx.locks.metadata_lock.lock(&own, MetadataLockMode::Exclusive, wait.on(engine)).await?;
    let had = engine.dict.histograms(table.id).unwrap_or_default();
    // MySQL tells of the columns in the order of their names.
    let mut said: BTreeMap<&str, Said> = BTreeMap::new();
    let mut wanted: Vec<(&str, usize)> = Vec::new();
    for column in asked.columns {
        let found = table.def.column(column);
        let refused = match (found, asked.buckets) {
            (Some(at), Some(_)) => refusal(&table.def, at, column),
            (Some(at), None) if had.contains_key(&table.def.columns[at].name) => None,
            (None, Some(_)) => Some(format!("The column '{column}' does not exist.")),
            _ => Some(format!("No histogram statistics found for column '{column}'.")),
        };
        match (refused, found) {
            (None, Some(at)) => wanted.push((column, at)),
            (refused, _) => {
                said.insert(column, error(refused.unwrap_or_default()));
            }
        }
    }
    if !wanted.is_empty() {
        let places: Vec<usize> = wanted.iter().map(|(_, at)| *at).collect();
        let made: Vec<Option<Histogram>> = match asked.buckets {
            Some(buckets) => {
                make(cx, &table, &places, buckets).await?.into_iter().map(Some).collect()
            }
            None => places.iter().map(|_| None).collect(),
        };
        let names = places.iter().map(|at| table.def.columns[*at].name.clone());
        engine.change_histograms(&table, names.zip(made).collect()).await?;
    }
    let verb = if asked.buckets.is_some() { "created" } else { "removed" };
    for (column, _) in wanted {
        let text = format!("Histogram statistics {verb} for column '{column}'.");
        said.insert(column, ("status", text));
    }
    Ok(said.into_values().collect())
}

/// Why a column can have no histogram.
fn refusal(def: &TableDef, at: usize, name: &str) -> Option<String> {
    if def.columns[at].ty == SqlType::Json {
        return Some(format!("The column '{name}' has an unsupported data type."));
    }
    let covers = |index: &redolith_types::IndexDef| {
        index.unique
            && matches!(&index.columns[..], [only] if only.column == at && only.prefix.is_none())
    };
    let covered = def.indexes.iter().any(covers);
    covered.then(|| format!("The column '{name}' is covered by a single-part unique index."))
}

/// The rows that are kept (HISTOGRAM-4).
struct Sample {
    rows: Vec<Box<[Value<'static>]>>,
    bytes: usize,
    most: usize,
    /// A row is kept with the probability 1 / 2^halved.
    halved: u32,
    seen: u64,
    random: u64,
}
impl Sample {
    /// Whether the next row is kept.
    fn takes_next(&mut self) -> bool {
        self.seen += 1;
        let mask = 1u64.checked_shl(self.halved).map_or(u64::MAX, |n| n - 1);
        split_mix(&mut self.random) & mask == 0
    }
    fn keep(&mut self, row: Box<[Value<'static>]>) {
        self.bytes += bytes_of(&row);
        self.rows.push(row);
        while self.bytes > self.most && self.rows.len() > 1 {
            self.halved += 1;
            let mut rows = std::mem::take(&mut self.rows);
            rows.retain(|_| split_mix(&mut self.random) & 1 == 0);
            self.bytes = rows.iter().map(|row| bytes_of(row)).sum();
            self.rows = rows;
        }
    }
}
fn bytes_of(row: &[Value<'static>]) -> usize {
    // The list of the rows doubles when it grows.
    let values = row.iter().map(crate::memory::bytes_of).sum::<usize>();
    values + size_of_val(row) + 2 * size_of::<Box<[Value<'static>]>>()
}

/// Makes the histograms of columns, which are given by their places.
async fn make(
    cx: &mut AdminContext<'_>,
    table: &Arc<Table>,
    places: &[usize],
    buckets: u32,
) -> Result<Vec<Histogram>> {
    let setting = cx.vars.bits(Var::HistogramGenerationMaxMemSize);
    let memory = &mut cx.session.memory.statement;
    let most = usize::try_from(setting).unwrap_or(usize::MAX).min(memory.limit() / 4);
    let (mark, mut charged, mut counted) = (memory.used(), 0, 0);
    let mut sample =
        Sample { rows: Vec::new(), bytes: 0, most, halved: 0, seen: 0, random: table.id };
    let mut long: Vec<u16> = places.iter().map(|at| *at as u16).collect();
    long.sort_unstable();
    let mut trx = cx.engine.begin(cx.session.process.interrupt.clone());
    let mut rows = Cursor::new(table.clone(), 0, Vec::new(), None, false, Read::Consistent);
    while rows.next(&mut trx).await? {
        go_on(&cx.session.process)?;
        if !sample.takes_next() {
            continue;
        }
        let is_long = needs_long(&table.layout, rows.row().stored, &long);
        if is_long {
            fetch(&mut rows, &trx, memory, &mut counted).await?;
        }
        let payload = if is_long { rows.whole() } else { rows.row().stored };
        let values = places
            .iter()
            .map(|at| short(&table.def.columns[*at].ty, table.layout.get(payload, *at)));
        sample.keep(values.collect());
        memory.recount(&mut charged, sample.bytes)?;
    }
    trx.rollback().await?;
    let now = cx.engine.disk.wall_us().max(0) as u64;
    let rate = if sample.seen == 0 { 1.0 } else { sample.rows.len() as f64 / sample.seen as f64 };
    let mut made = Vec::with_capacity(places.len());
    for (n, at) in places.iter().enumerate() {
        go_on(&cx.session.process)?;
        // Many values are sorted.
        cx.engine.runtime.leave_worker();
        let values = sample.rows.iter_mut().map(|row| std::mem::take(&mut row[n])).collect();
        let ty = &table.def.columns[*at].ty;
        made.push(Histogram { updated_us: now, ..histogram(ty, values, buckets, rate) });
    }
    cx.session.memory.statement.release_to(mark);
    Ok(made)
}

/// A value as histograms have it.
fn short(ty: &SqlType, value: Value<'_>) -> Value<'static> {
    match value {
        Value::Bytes(bytes) => {
            let charset = ty.compare_collation().charset();
            Value::owned(bytes[..charset.prefix_len(&bytes, STRING_PREFIX)].to_vec())
        }
        value => value.into_owned(),
    }
}

/// The histogram of the values that were found in a share `rate` of the rows.
fn histogram(ty: &SqlType, mut values: Vec<Value<'static>>, most: u32, rate: f64) -> Histogram {
    let rows = values.len();
    values.retain(|value| !value.is_null());
    let nulls = if rows == 0 { 0.0 } else { (rows - values.len()) as f64 / rows as f64 };
    let groups = grouped(values, ty.compare_collation());
    let kind = if groups.len() <= most as usize { Kind::Singleton } else { Kind::EquiHeight };
    let size = match kind {
        Kind::Singleton => 0,
        Kind::EquiHeight => bucket_size(&groups, most as usize),
    };
    let mut buckets: Vec<Bucket> = Vec::new();
    let (mut done, mut first) = (0, 0);
    while first < groups.len() {
        let (mut last, mut count) = (first, groups[first].1);
        while let Some((_, more)) = groups.get(last + 1).filter(|(_, more)| count + more <= size) {
            (last, count) = (last + 1, count + more);
        }
        done += count;
        let singles = groups[first..=last].iter().filter(|(_, count)| *count == 1).count();
        buckets.push(Bucket {
            low: groups[first].0.clone(),
            high: groups[last].0.clone(),
            cumulative: done as f64 / rows as f64,
            distinct: estimate_distinct(last + 1 - first, singles, count, rate),
        });
        first = last + 1;
    }
    Histogram {
        ty: ty.clone(),
        kind,
        nulls,
        sampling_rate: rate,
        updated_us: 0,
        specified: most,
        buckets,
    }
}
/// The different values with the numbers of their rows, in order.
fn grouped(mut values: Vec<Value<'static>>, collation: Collation) -> Vec<(Value<'static>, u64)> {
    values.sort_by(|a, b| a.compare(b, collation));
    let mut groups: Vec<(Value<'static>, u64)> = Vec::new();
    for value in values {
        match groups.last_mut() {
            Some((last, count)) if last.compare(&value, collation).is_eq() => *count += 1,
            _ => groups.push((value, 1)),
        }
    }
    groups
}
/// The least size of a bucket, in rows, for which no more than `most` buckets hold all groups. A
/// larger group has a bucket of its own.
fn bucket_size(groups: &[(Value<'static>, u64)], most: usize) -> u64 {
    let fits = |size: u64| {
        let (mut buckets, mut count) = (0, 0);
        for (_, more) in groups {
            if buckets == 0 || count + more > size {
                (buckets, count) = (buckets + 1, 0);
            }
            count += more;
        }
        buckets <= most
    };
    let (mut least, mut enough) = (1, groups.iter().map(|(_, count)| count).sum::<u64>().max(1));
    while least < enough {
        let middle = least + (enough - least) / 2;
        if fits(middle) { enough = middle } else { least = middle + 1 }
    }
    enough
}
/// How many different values all rows have, where a share `rate` of them has `found`, `singles` of
/// these once (the GEE estimator of Charikar et al., PODS 2000).
fn estimate_distinct(found: usize, singles: usize, rows: u64, rate: f64) -> u64 {
    let more = singles as f64 * ((1.0 / rate).sqrt() - 1.0);
    let all = (rows as f64 / rate).round().max(1.0);
    (found as f64 + more.round()).min(all) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_types::{IntSize, Sign};

    fn int() -> SqlType {
        let sign = Sign { unsigned: false, zerofill: false };
        SqlType::Int { size: IntSize::Int, display: None, sign }
    }
    fn of(values: impl IntoIterator<Item = i64>, most: u32) -> Histogram {
        histogram(&int(), values.into_iter().map(Value::Int).collect(), most, 1.0)
    }
    fn is_near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn few_values_have_a_bucket_each() {
        let h = of([3, 1, 1, 1, 2, 2, 3, 1], 3);
        assert_eq!((h.kind, h.buckets.len()), (Kind::Singleton, 3));
        is_near(h.share_of(&Value::Int(1)), 0.5);
        is_near(h.share_of(&Value::Int(9)), 0.0);
        is_near(h.share_below(&Value::Int(2), false), 0.5);
        is_near(h.share_below(&Value::Int(2), true), 0.75);
        is_near(h.share_below(&Value::Int(0), true), 0.0);
        is_near(h.share_below(&Value::Int(4), false), 1.0);
        is_near(h.average(), 1.0 / 3.0);
    }
    #[test]
    fn many_values_share_buckets_of_about_one_size() {
        let h = of((0..1000).chain(std::iter::repeat_n(500, 1000)), 10);
        assert_eq!(h.kind, Kind::EquiHeight);
        assert!((5..=10).contains(&h.buckets.len()), "{h:?}");
        is_near(h.buckets.last().unwrap().cumulative, 1.0);
        assert_eq!(h.buckets.iter().map(|b| b.distinct).sum::<u64>(), 1000);
        assert!(h.share_of(&Value::Int(500)) > 0.4);
        assert!(h.share_of(&Value::Int(100)) < 0.001);
        let below = h.share_below(&Value::Int(250), false);
        assert!((0.1..0.15).contains(&below), "{below}");
        assert!(of(0..5000, 1024).buckets.len() <= 1024);
        assert_eq!(of(0..5000, 1).buckets.len(), 1);
    }
    #[test]
    fn no_rows_and_nothing_but_nulls() {
        let none = of([], 5);
        assert_eq!((none.buckets.len(), none.nulls), (0, 0.0));
        is_near(none.share_of(&Value::Int(1)), 0.0);
        let nulls = histogram(&int(), vec![Value::Null; 3], 5, 1.0);
        assert_eq!((nulls.buckets.len(), nulls.nulls), (0, 1.0));
        is_near(nulls.average(), 0.0);
    }
    /// Tests HISTOGRAM-4.
    #[test]
    fn the_rows_that_are_kept_take_little_memory() {
        let mut sample =
            Sample { rows: Vec::new(), bytes: 0, most: 10_000, halved: 0, seen: 0, random: 1 };
        for n in 0..100_000 {
            if sample.takes_next() {
                sample.keep(vec![Value::Int(n)].into());
                assert!(sample.bytes <= 10_000);
            }
        }
        assert_eq!(sample.seen, 100_000);
        let kept: Vec<i64> = sample
            .rows
            .iter()
            .map(|row| if let Value::Int(n) = row[0] { n } else { unreachable!() })
            .collect();
        assert!(kept.len() > 30 && kept.is_sorted());
        let early = kept.iter().filter(|n| **n < 50_000).count();
        assert!((kept.len() / 4..kept.len() * 3 / 4).contains(&early), "{kept:?}");
    }
    #[test]
    fn values_seen_once_stand_for_others() {
        assert_eq!(estimate_distinct(10, 10, 10, 1.0), 10);
        assert_eq!(estimate_distinct(10, 10, 10, 0.01), 100);
        assert_eq!(estimate_distinct(10, 0, 100, 0.01), 10);
    }
}
