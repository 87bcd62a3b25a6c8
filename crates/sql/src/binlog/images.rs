//! Which columns of changed rows a statement logs, and their values.
use super::settings::row_metadata;
use crate::plan::{Assignment, DefaultFill, Fill, InsertPlan, OnDuplicate, Statement};
use crate::settings::Settings;
use crate::table_info::TableInfo;
use redolith_binlog::{ColumnSet, RowImage, Table};
use redolith_types::{RowLayout, TableDef, Value};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The columns that a statement logs (`binlog_row_image`). They are the same for all its rows.
pub(super) struct Images {
    /// Of a row before a change.
    pub before: ColumnSet,
    /// Of an inserted row.
    pub inserted: ColumnSet,
    /// Of a row after an update.
    pub updated: ColumnSet,
}

/// The tables that a statement changes, most often one.
pub(super) type Changed<'s> = SmallVec<[(Images, &'s Arc<TableInfo>); 1]>;

impl Images {
    pub(super) fn none() -> Images {
        let none = || ColumnSet::none(0);
        Images { before: none(), inserted: none(), updated: none() }
    }
    /// The columns that the statement logs for each table that it changes; none if it changes no
    /// rows.
    pub(super) fn of<'s>(
        statement: &'s Statement,
        image: RowImage,
        server: &Settings,
        ids: &AtomicU64,
    ) -> Changed<'s> {
        let of = |(info, inserted, updated): (&'s Arc<TableInfo>, ColumnSet, ColumnSet)| {
            let table = info.logged(row_metadata(server), ids);
            let images = Images {
                before: image.before(table),
                inserted: image.after(table, &inserted),
                updated: image.after(table, &updated),
            };
            (images, info)
        };
        let none = |info: &TableInfo| ColumnSet::none(info.def.columns.len());
        match statement {
            Statement::Insert(insert) => {
                let updated = match &insert.on_duplicate {
                    OnDuplicate::Update(to) => assigned(&insert.table.def, to, &[]),
                    OnDuplicate::Error | OnDuplicate::Replace => {
                        ColumnSet::none(insert.table.def.columns.len())
                    }
                };
                smallvec![of((&insert.table, given(insert), updated))]
            }
            Statement::Update(update) => {
                let info = &update.access.table;
                let assigned = assigned(&info.def, &update.assignments, &update.on_update_now);
                smallvec![of((info, none(info), assigned))]
            }
            Statement::Delete(delete) => {
                let info = &delete.access.table;
                smallvec![of((info, none(info), none(info)))]
            }
            Statement::UpdateMany(many) | Statement::DeleteMany(many) => many
                .targets
                .iter()
                .map(|target| {
                    let (info, now) = (&target.table, &target.on_update_now);
                    of((info, none(info), assigned(&info.def, &target.assignments, now)))
                })
                .collect(),
            _ => SmallVec::new(),
        }
    }
    /// Whether a column that is stored outside the row is in an image of the row before or after
    /// an update.
    pub(super) fn needs_long(&self, layout: &RowLayout, stored: &[u8]) -> bool {
        layout
            .externals(stored)
            .any(|(column, ..)| self.before.contains(column) || self.updated.contains(column))
    }
}

/// The columns that an INSERT gives values, and those that a replica cannot fill by itself.
fn given(plan: &InsertPlan) -> ColumnSet {
    let mut set = ColumnSet::none(plan.fill.len());
    for (n, (fill, default)) in plan.fill.iter().zip(&plan.defaults).enumerate() {
        let is_literal = matches!(default, DefaultFill::Literal(_));
        if matches!(fill, Fill::Given(_) | Fill::Kept(_)) || !is_literal {
            set.insert(n);
        }
    }
    // Replicas take an event without bytes for one row, however many it has.
    if set.is_empty() && !plan.fill.is_empty() {
        set.insert(0);
    }
    set
}

/// The columns that an update assigns, and those that it may calculate or set to the present time.
fn assigned(def: &TableDef, assignments: &[Assignment], now: &[u16]) -> ColumnSet {
    let mut set = ColumnSet::none(def.columns.len());
    assignments.iter().for_each(|a| set.insert(a.column.into()));
    now.iter().for_each(|column| set.insert((*column).into()));
    for (n, column) in def.columns.iter().enumerate() {
        if column.on_update_now || column.generation.is_some() {
            set.insert(n);
        }
    }
    set
}

/// The values of a row's columns in `set`, in `room`. A long column that `payload` has outside the
/// row is taken from `whole`.
pub(super) fn values<'v>(
    room: Vec<Value<'static>>,
    layout: &RowLayout,
    payload: &'v [u8],
    whole: &'v [u8],
    set: &ColumnSet,
) -> Vec<Value<'v>> {
    let mut values = emptied(room);
    values.extend((0..layout.columns()).map(|column| match layout.external(payload, column) {
        _ if !set.contains(column) => Value::Null,
        Some(_) => layout.get(whole, column),
        None => layout.get(payload, column),
    }));
    values
}

/// The vector without its values, for values that borrow from elsewhere. Its memory stays.
pub(super) fn emptied<'to>(mut values: Vec<Value<'_>>) -> Vec<Value<'to>> {
    values.clear();
    values.into_iter().map(|_| Value::Null).collect()
}

impl TableInfo {
    /// The table as its events describe it. A table gets its number in events when it is logged
    /// for the first time, and another one when its definition has changed.
    pub(super) fn logged(&self, metadata: redolith_binlog::RowMetadata, ids: &AtomicU64) -> &Table {
        use std::sync::atomic::Ordering::Relaxed;
        let place = &self.logged[usize::from(metadata == redolith_binlog::RowMetadata::Full)];
        place.get_or_init(|| {
            let id = redolith_binlog::TableId(ids.fetch_add(1, Relaxed));
            Box::new(Table::of(id, &self.def, metadata))
        })
    }
}
