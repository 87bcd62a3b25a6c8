//! The operators that read a table of a block.
use super::super::access::{How, alone};
use super::super::block::{Body, Reads, Table};
use super::super::estimate::{self, Estimate};
use super::super::expr::Writer;
use super::super::place::{Outside, Place};
use super::super::profile::Role;
use super::{Builder, Operator, Pending};
use crate::error::Result;
use crate::plan::{AccessKind, Bound, Covering, Expr, KeyRange, NextColumn, TableAccess};

/// Of more ranges the first are written.
const MOST_RANGES: usize = 3;
const RANGES_OF_MANY: usize = 2;

impl Builder<'_, '_> {
    /// The scan of a table, under the conditions on its rows.
    pub(super) fn source(
        &mut self,
        table: &Table<'_>,
        place: &Place<'_, '_>,
        pending: &mut Pending<'_, '_>,
    ) -> Result<Operator> {
        let scan = self.scan(table, place)?;
        self.checked(table, scan, table.conditions(), place, pending)
    }
    /// The scan of a table by the index in whose place a hash table was planned.
    pub(super) fn by_index(
        &mut self,
        table: &Table<'_>,
        access: &TableAccess,
        place: &Place<'_, '_>,
        pending: &mut Pending<'_, '_>,
    ) -> Result<Operator> {
        let how = How::of(access, place, false);
        let estimate = estimate::of_access(access, &how);
        let scan = self.access(access, &how, estimate, place)?;
        let scan = match table.source {
            Some(source) => self.measured(scan, Role::Scan, source),
            None => scan,
        };
        let outer = table.source.and_then(|source| source.filter.as_ref());
        self.checked(table, scan, access.filter.iter().chain(outer), place, pending)
    }
    fn checked<'e>(
        &mut self,
        table: &Table<'_>,
        scan: Operator,
        conditions: impl Iterator<Item = &'e Expr>,
        place: &Place<'_, '_>,
        pending: &mut Pending<'_, '_>,
    ) -> Result<Operator> {
        let mut conditions = conditions.peekable();
        if conditions.peek().is_none() || table.is_impossible() {
            return Ok(scan);
        }
        let filter = self.filter(conditions, place, scan, pending)?;
        Ok(match table.source {
            Some(source) => self.measured(filter, Role::Level, source),
            None => filter,
        })
    }

    /// What reads the rows of a table before any condition is checked.
    pub(super) fn scan(&mut self, table: &Table<'_>, place: &Place<'_, '_>) -> Result<Operator> {
        let scan_on = |b: &mut Self, words: &str| {
            let text = b.text(words, |w| {
                w.name(table.alias);
                Ok(())
            })?;
            b.estimated(text, table.scan)
        };
        let scan = match (&table.reads, &table.how) {
            (Reads::Table(access), Some(how)) => self.access(access, how, table.scan, place)?,
            (Reads::Table(_), None) => unreachable!("a stored table has a way to its rows"),
            (Reads::Derived(block), _) => {
                let scan = scan_on(self, "Table scan on ")?;
                let inner = self.block(block, &place.with(block.plan))?;
                match block.body {
                    Body::Set { recursion: Some(_), .. } => scan.over(inner),
                    _ => scan.over([self.plain("Materialize")?.over(inner)]),
                }
            }
            (Reads::Lateral { block, outer }, _) => {
                let scan = scan_on(self, "Table scan on ")?;
                let text = self.invalidated("Materialize", outer, place)?;
                let outside = Some(Outside { taken: outer, place });
                let within = Place { outside, ..place.with(block.plan) };
                let inner = self.block(block, &within)?;
                scan.over([self.plain(text)?.over(inner)])
            }
            (Reads::JsonTable(_, outer), _) => {
                let scan = scan_on(self, "Table scan on ")?;
                let text = self.invalidated("Materialize table function", outer, place)?;
                scan.over([self.plain(text)?])
            }
            (Reads::Iteration(_), _) => scan_on(self, "Scan new records on ")?,
            (Reads::Virtual(of), _) => {
                let scan = scan_on(self, "Table scan on ")?;
                scan.over([self.plain(format!("Fill information schema table {}", of.name()))?])
            }
        };
        Ok(match table.source {
            Some(source) => self.measured(scan, Role::Scan, source),
            None => scan,
        })
    }
    /// `words (invalidate on row from t)`: the rows are made anew for a row of a table before.
    fn invalidated(
        &mut self,
        words: &str,
        outer: &[Expr],
        place: &Place<'_, '_>,
    ) -> Result<String> {
        let names = outer.iter().filter_map(|e| place.column(e)?.table);
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        self.text(words, |w| {
            for (n, name) in names.iter().enumerate() {
                w.out.push_str(if n > 0 { "; " } else { " (invalidate on row from " });
                w.name(name);
            }
            w.out.push_str(if names.is_empty() { "" } else { ")" });
            Ok(())
        })
    }

    fn access(
        &mut self,
        access: &TableAccess,
        how: &How<'_>,
        estimate: Estimate,
        place: &Place<'_, '_>,
    ) -> Result<Operator> {
        let covers = access.path.covering != Covering::No;
        let reverse = if access.path.reverse { " (reverse)" } else { "" };
        let text = match &access.path.kind {
            AccessKind::Empty => {
                return self.estimated("Zero rows (Impossible WHERE)", Estimate::default());
            }
            AccessKind::Union(parts) => {
                let union = self.text("Index merge union on ", |w| {
                    w.name(&access.alias);
                    Ok(())
                })?;
                let mut children = Vec::with_capacity(parts.len());
                for part in parts {
                    let alone = alone(access, part);
                    let how = How::of(&alone, place, false);
                    children.push(self.access(
                        &alone,
                        &how,
                        estimate::of_access(&alone, &how),
                        place,
                    )?);
                }
                return Ok(self.estimated(union, estimate)?.over(children));
            }
            AccessKind::FullScan if how.ty == "ALL" => self.text("Table scan on ", |w| {
                w.name(&access.alias);
                Ok(())
            })?,
            AccessKind::FullScan => {
                let words = match covers {
                    _ if access.loose.is_some() => "Covering index skip scan for grouping on ",
                    true => "Covering index scan on ",
                    false => "Index scan on ",
                };
                self.text(words, |w| {
                    w.keyed(access, how);
                    w.out.push_str(reverse);
                    Ok(())
                })?
            }
            AccessKind::Point(values) => {
                let words = match covers {
                    true => "Single-row covering index lookup on ",
                    false => "Single-row index lookup on ",
                };
                self.text(words, |w| {
                    w.keyed(access, how);
                    w.equalities(access, values, 0, place)
                })?
            }
            AccessKind::Ranges(ranges) => match &ranges[..] {
                [KeyRange { prefix, null_safe, next: NextColumn::Any }] => {
                    let words =
                        if covers { "Covering index lookup on " } else { "Index lookup on " };
                    self.text(words, |w| {
                        w.keyed(access, how);
                        w.equalities(access, prefix, *null_safe, place)?;
                        w.out.push_str(reverse);
                        Ok(())
                    })?
                }
                ranges => {
                    let words = match covers {
                        _ if access.loose.is_some() => "Covering index skip scan for grouping on ",
                        true => "Covering index range scan on ",
                        false => "Index range scan on ",
                    };
                    self.text(words, |w| {
                        w.keyed(access, how);
                        w.out.push_str(" over ");
                        w.ranges(access, ranges, place)?;
                        w.out.push_str(reverse);
                        Ok(())
                    })?
                }
            },
        };
        self.estimated(text, estimate)
    }
}

impl Writer<'_, '_> {
    /// `t using k`
    fn keyed(&mut self, access: &TableAccess, how: &How<'_>) {
        self.name(&access.alias);
        self.out.push_str(" using ");
        match how.key.unwrap_or("PRIMARY") {
            // No other index has this name, so it needs no backticks.
            "PRIMARY" => self.out.push_str("PRIMARY"),
            name => self.name(name),
        }
    }
    fn key_column(&mut self, access: &TableAccess, n: usize) {
        let def = &access.table.def;
        let index = access.path.index.and_then(|i| def.indexes.get(i));
        if let Some(part) = index.and_then(|index| index.columns.get(n)) {
            self.name(&def.columns[part.column].name);
        }
    }
    /// ` (a=1, b=t.c)`
    fn equalities(
        &mut self,
        access: &TableAccess,
        values: &[Expr],
        null_safe: u32,
        place: &Place<'_, '_>,
    ) -> Result<()> {
        for (n, value) in values.iter().enumerate() {
            self.out.push_str(if n > 0 { ", " } else { " (" });
            self.key_column(access, n);
            self.out.push_str(if null_safe >> n & 1 == 1 { "<=>" } else { "=" });
            self.expr(value, place)?;
        }
        self.out.push_str(if values.is_empty() { "" } else { ")" });
        Ok(())
    }
    /// `(a = 1 AND 2 < b < 5) OR (..)`
    fn ranges(
        &mut self,
        access: &TableAccess,
        ranges: &[KeyRange],
        place: &Place<'_, '_>,
    ) -> Result<()> {
        let written = if ranges.len() > MOST_RANGES { RANGES_OF_MANY } else { ranges.len() };
        for (n, range) in ranges[..written].iter().enumerate() {
            self.out.push_str(if n > 0 { " OR (" } else { "(" });
            for (n, value) in range.prefix.iter().enumerate() {
                self.out.push_str(if n > 0 { " AND " } else { "" });
                self.key_column(access, n);
                self.out.push_str(if range.null_safe >> n & 1 == 1 { " <=> " } else { " = " });
                self.expr(value, place)?;
            }
            if !range.next.is_any() {
                self.out.push_str(if range.prefix.is_empty() { "" } else { " AND " });
                self.next_column(access, range.prefix.len(), &range.next, place)?;
            }
            self.out.push(')');
        }
        if written < ranges.len() {
            self.out.push_str(&format!(" OR ({} more)", ranges.len() - written));
        }
        Ok(())
    }
    fn next_column(
        &mut self,
        access: &TableAccess,
        n: usize,
        next: &NextColumn,
        place: &Place<'_, '_>,
    ) -> Result<()> {
        let sign = |bound: &Bound| if bound.inclusive { " <= " } else { " < " };
        match next {
            NextColumn::Any => {}
            NextColumn::Between { low, high } => {
                match low {
                    Some(low) => {
                        self.expr(&low.value, place)?;
                        self.out.push_str(sign(low));
                    }
                    None => self.out.push_str("NULL < "),
                }
                self.key_column(access, n);
                if let Some(high) = high {
                    self.out.push_str(sign(high));
                    self.expr(&high.value, place)?;
                }
            }
            NextColumn::Like { pattern, .. } => {
                self.key_column(access, n);
                self.out.push_str(" like ");
                self.expr(pattern, place)?;
            }
            NextColumn::Members(body) => {
                self.key_column(access, n);
                self.out.push_str(" in ");
                self.select_number(body.slot);
            }
        }
        Ok(())
    }
}
