//! The FROM clause: tables, derived tables, and the joins between them.
//!
//! A list of factors stands for joins from left to right. A join that is itself the right side of
//! another, in parentheses or because its condition comes first (`a LEFT JOIN b JOIN c ON .. ON
//! ..`), is a [`FactorKind::Nested`]. As all tables of a FROM clause together are at most
//! [`MAX_TABLES`], a tree of joins is never deeper than that.
use super::ast::*;
use super::limits::{MAX_COLUMNS, MAX_TABLES};
use super::parser::Parser;
use crate::error::{Result, SqlError};

impl Parser<'_> {
    /// The list of FROM, UPDATE and multi-table DELETE.
    pub(super) fn table_references(&mut self) -> Result<Vec<TableFactor>> {
        self.joins(&mut 0)
    }

    /// Joins with commas between them. `tables` counts the tables of the clause.
    fn joins(&mut self, tables: &mut usize) -> Result<Vec<TableFactor>> {
        let mut all = self.join_chain(tables)?;
        while self.accept_symbol(",") {
            let mut next = self.join_chain(tables)?;
            next[0].join = Join::Comma;
            all.append(&mut next);
        }
        Ok(all)
    }

    /// Joins without commas. ON and USING belong to the last join before them that has no condition
    /// yet; inner joins that are left without one are cross joins.
    fn join_chain(&mut self, tables: &mut usize) -> Result<Vec<TableFactor>> {
        let mut sides = vec![vec![self.table_factor(tables)?]];
        let mut open: Vec<JoinSide> = Vec::new();
        loop {
            if self.at("ON") || self.at("USING") {
                let Some(side) = open.pop() else { break };
                let on = self.join_condition()?;
                let right = sides.pop().unwrap_or_default();
                let left = sides.last_mut().expect("a join has a left side");
                left.push(right_side(right, Join::Of(side, on)));
            } else if self.accept("NATURAL") {
                let side = self.natural_side()?;
                let right = vec![self.table_factor(tables)?];
                let left = sides.last_mut().expect("a join has a left side");
                left.push(right_side(right, Join::Of(side, JoinOn::Natural)));
            } else if let Some(side) = self.join_operator()? {
                open.push(side);
                sides.push(vec![self.table_factor(tables)?]);
            } else {
                break;
            }
        }
        if open.iter().any(|side| !matches!(side, JoinSide::Inner | JoinSide::Straight)) {
            return self.fail();
        }
        // `a JOIN b LEFT JOIN c ON ..` is `(a JOIN b) LEFT JOIN c ON ..`.
        let mut sides = sides.into_iter();
        let mut whole = sides.next().unwrap_or_default();
        for (mut next, side) in sides.zip(open) {
            next[0].join = Join::Of(side, JoinOn::Nothing);
            whole.append(&mut next);
        }
        Ok(whole)
    }

    fn join_operator(&mut self) -> Result<Option<JoinSide>> {
        if self.accept("STRAIGHT_JOIN") {
            return Ok(Some(JoinSide::Straight));
        }
        if self.accept("JOIN") {
            return Ok(Some(JoinSide::Inner));
        }
        if self.accept("INNER") || self.accept("CROSS") {
            self.expect("JOIN")?;
            return Ok(Some(JoinSide::Inner));
        }
        self.outer_side()
    }
    /// LEFT [OUTER] JOIN, RIGHT [OUTER] JOIN
    fn outer_side(&mut self) -> Result<Option<JoinSide>> {
        let side = if self.accept("LEFT") {
            JoinSide::Left
        } else if self.accept("RIGHT") {
            JoinSide::Right
        } else {
            return Ok(None);
        };
        self.accept("OUTER");
        self.expect("JOIN")?;
        Ok(Some(side))
    }
    /// After NATURAL.
    fn natural_side(&mut self) -> Result<JoinSide> {
        if let Some(side) = self.outer_side()? {
            return Ok(side);
        }
        self.accept("INNER");
        self.expect("JOIN")?;
        Ok(JoinSide::Inner)
    }

    /// At ON or USING.
    fn join_condition(&mut self) -> Result<JoinOn> {
        if self.accept("ON") {
            return Ok(JoinOn::Condition(self.expr()?));
        }
        self.expect("USING")?;
        let columns = self.in_parens(|p| {
            p.comma_list_of(MAX_COLUMNS, SqlError::too_many_columns, |p| p.ident())
        })?;
        Ok(JoinOn::Using(columns))
    }

    /// Counts one more table, or fails with error 1116.
    fn count_table(&mut self, tables: &mut usize) -> Result<()> {
        self.charge(size_of::<TableFactor>());
        *tables += 1;
        if *tables > MAX_TABLES { Err(SqlError::too_many_tables(MAX_TABLES)) } else { Ok(()) }
    }

    fn table_factor(&mut self, tables: &mut usize) -> Result<TableFactor> {
        if self.at_symbol("(") && !self.at_query_in_parens() {
            let inner = self.in_parens(|p| p.deeper(|p| p.joins(tables)))?;
            return Ok(right_side(inner, Join::None));
        }
        if self.accept_symbol("{") {
            // ODBC: {OJ a LEFT JOIN b ON ..}. As in MySQL, the word may be any.
            self.ident()?;
            let inner = self.deeper(|p| p.join_chain(tables))?;
            self.expect_symbol("}")?;
            return Ok(right_side(inner, Join::None));
        }
        self.count_table(tables)?;
        let lateral = self.accept("LATERAL");
        if lateral || self.at_symbol("(") {
            let select = self.subselect()?;
            let alias = self.alias()?;
            let columns = self.column_list()?;
            return Ok(TableFactor {
                kind: FactorKind::Derived {
                    select,
                    columns,
                    lateral,
                    again: false,
                    recursive: None,
                },
                alias,
                join: Join::None,
            });
        }
        if self.at_json_table() {
            return self.json_table();
        }
        self.named_table()
    }

    /// A table, or the name of a common table expression.
    fn named_table(&mut self) -> Result<TableFactor> {
        let position = self.position();
        let name = self.table_name()?;
        let span = self.span_from(position);
        let factor = self.table_named(name)?;
        self.note_table(&factor.kind, span);
        Ok(factor)
    }
    /// Notes the place of a table's name.
    pub(super) fn note_table(&mut self, kind: &FactorKind, span: Span) {
        if matches!(kind, FactorKind::Table { .. }) {
            self.tables.push(span);
        }
    }
    /// What follows the name of a table.
    pub(super) fn table_named(&mut self, name: Name) -> Result<TableFactor> {
        if self.at("PARTITION") && self.at_symbol_nth(1, "(") {
            return Err(SqlError::unsupported("PARTITION selection"));
        }
        if let Some(kind) = self.use_of(&name)? {
            let alias = self.alias()?.or(Some(name.name));
            return Ok(TableFactor { kind, alias, join: Join::None });
        }
        let alias = self.alias()?;
        let mut hints = Vec::new();
        while let Some(kind) = self.accept_any(&["USE", "FORCE", "IGNORE"]) {
            self.index_hints(kind, &mut hints)?;
        }
        Ok(TableFactor { kind: FactorKind::Table { name, hints }, alias, join: Join::None })
    }
}

/// The right side of a join as one factor.
fn right_side(mut side: Vec<TableFactor>, join: Join) -> TableFactor {
    if side.len() == 1
        && let Some(only) = side.pop()
    {
        return TableFactor { join, ..only };
    }
    TableFactor { kind: FactorKind::Nested(side), alias: None, join }
}
