//! INSERT, REPLACE, UPDATE, DELETE.
use super::ast::*;
use super::limits::MAX_COLUMNS;
use super::parser::Parser;
use crate::error::{Result, SqlError};

impl Parser<'_> {
    /// At INSERT or REPLACE.
    pub(super) fn insert(&mut self) -> Result<Insert> {
        let replace = self.advance().text(self.text).eq_ignore_ascii_case(b"REPLACE");
        self.accept_any(&["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY"]);
        let ignore = !replace && self.accept("IGNORE");
        self.accept("INTO");
        let table = self.table_name()?;
        if self.at("PARTITION") {
            return Err(SqlError::unsupported("PARTITION selection"));
        }
        let (columns, source) = if self.accept("SET") {
            let assignments = self.comma_list(Self::assignment)?;
            let (columns, values): (Vec<_>, Vec<_>) =
                assignments.into_iter().map(|(name, value)| (name.column, value)).unzip();
            (Some(columns), InsertSource::Values(vec![values]))
        } else {
            self.insert_rows()?
        };
        let row_alias = self.row_alias(replace)?;
        let on_duplicate = if !replace && self.accept_all(&["ON", "DUPLICATE", "KEY", "UPDATE"]) {
            self.comma_list(Self::assignment)?
        } else {
            Vec::new()
        };
        Ok(Insert { replace, ignore, table, columns, source, row_alias, on_duplicate })
    }

    fn insert_rows(&mut self) -> Result<(Option<Vec<String>>, InsertSource)> {
        let too_many = || SqlError::column_count(1);
        let columns = if self.at_symbol("(") && !self.at_query(1) && !self.at_symbol_nth(1, "(") {
            Some(self.in_parens(|p| {
                if p.at_symbol(")") {
                    Ok(Vec::new())
                } else {
                    p.comma_list_of(MAX_COLUMNS, too_many, |p| Ok(p.column_name()?.column))
                }
            })?)
        } else {
            None
        };
        if self.accept("VALUES") || self.accept("VALUE") {
            let rows = self.comma_list(|p| {
                p.accept("ROW");
                p.in_parens(|p| {
                    if p.at_symbol(")") { Ok(Vec::new()) } else { p.comma_list(|p| p.expr()) }
                })
            })?;
            return Ok((columns, InsertSource::Values(rows)));
        }
        if self.at_query(0) || self.at_symbol("(") {
            return Ok((columns, InsertSource::Select(Box::new(self.select_statement()?))));
        }
        self.fail()
    }

    fn row_alias(&mut self, replace: bool) -> Result<Option<(String, Vec<String>)>> {
        if replace || !self.accept("AS") {
            return Ok(None);
        }
        let alias = self.ident()?;
        let columns = if self.at_symbol("(") {
            self.in_parens(|p| {
                p.comma_list_of(MAX_COLUMNS, || SqlError::column_count(1), |p| p.ident())
            })?
        } else {
            Vec::new()
        };
        Ok(Some((alias, columns)))
    }

    pub(super) fn assignment(&mut self) -> Result<(ColumnName, Expr)> {
        let column = self.column_name()?;
        if !self.accept_symbol("=") {
            self.expect_symbol(":=")?;
        }
        Ok((column, self.expr()?))
    }

    pub(super) fn update(&mut self) -> Result<Update> {
        self.expect("UPDATE")?;
        self.accept("LOW_PRIORITY");
        let ignore = self.accept("IGNORE");
        let tables = self.table_references()?;
        self.expect("SET")?;
        let assignments = self.comma_list(Self::assignment)?;
        let (filter, order, limit) = self.where_order_limit()?;
        Ok(Update { ignore, tables, assignments, filter, order, limit })
    }

    pub(super) fn delete(&mut self) -> Result<Delete> {
        self.expect("DELETE")?;
        while self.accept_any(&["LOW_PRIORITY", "QUICK"]).is_some() {}
        let ignore = self.accept("IGNORE");
        if !self.accept("FROM") {
            // DELETE t1, t2 FROM ..
            let targets = self.comma_list(|p| Ok(p.delete_target()?.0))?;
            self.expect("FROM")?;
            return self.delete_many(ignore, targets);
        }
        let (first, is_target) = self.delete_target()?;
        if is_target || self.at_symbol(",") || self.at("USING") {
            // DELETE FROM t1, t2 USING ..
            let mut targets = vec![first];
            while self.accept_symbol(",") {
                self.charge(size_of::<Name>());
                targets.push(self.delete_target()?.0);
            }
            self.expect("USING")?;
            return self.delete_many(ignore, targets);
        }
        let tables = vec![self.table_named(first)?];
        let (filter, order, limit) = self.where_order_limit()?;
        Ok(Delete { ignore, targets: Vec::new(), tables, filter, order, limit })
    }

    /// The rest of a DELETE of several tables, which has no ORDER BY and no LIMIT.
    fn delete_many(&mut self, ignore: bool, targets: Vec<Name>) -> Result<Delete> {
        let tables = self.table_references()?;
        let filter = if self.accept("WHERE") { Some(self.expr()?) } else { None };
        let (order, limit) = (Vec::new(), Limit::default());
        Ok(Delete { ignore, targets, tables, filter, order, limit })
    }

    /// `t`, `db.t`, and each with `.*`, which says that it is one of several tables.
    fn delete_target(&mut self) -> Result<(Name, bool)> {
        let mut name = Name { schema: None, name: self.ident()? };
        if self.at_symbol(".") && !self.at_symbol_nth(1, "*") {
            self.advance();
            let table = self.ident_after_dot()?;
            name = Name { schema: Some(name.name), name: table };
        }
        let all = self.accept_symbol(".");
        if all {
            self.expect_symbol("*")?;
        }
        Ok((name, all))
    }

    fn where_order_limit(&mut self) -> Result<(Option<Expr>, Vec<OrderItem>, Limit)> {
        let filter = if self.accept("WHERE") { Some(self.expr()?) } else { None };
        let order =
            if self.accept_all(&["ORDER", "BY"]) { self.order_items()? } else { Vec::new() };
        let limit = if self.at("LIMIT") { self.limit()? } else { Limit::default() };
        if limit.offset.is_some() {
            return self.fail();
        }
        Ok((filter, order, limit))
    }
}
