//! The SELECT statement with its FROM clause, its last clauses, and UNION, INTERSECT and EXCEPT.
use super::ast::*;
use super::lexer::TokenKind;
use super::limits::MAX_ITEMS;
use super::parser::Parser;
use crate::error::{Result, SqlError};
use crate::plan::{OnConflict, SetKind, SetOperator};

impl Parser<'_> {
    /// A query expression: SELECT .. [UNION | EXCEPT | INTERSECT ..], with or without parentheses.
    pub fn select_statement(&mut self) -> Result<Select> {
        let around = self.enter_select();
        let mut select = self.query_expression()?;
        select.height = self.leave_select(around)?;
        Ok(select)
    }

    /// `(SELECT ..)` within another statement. It is a separate function, so that only the callers
    /// that read a SELECT have room for a `Select` in their stack frames.
    #[inline(never)]
    pub(super) fn subselect(&mut self) -> Result<Box<Select>> {
        self.inside += 1;
        let select = self.in_parens(|p| p.deeper(|p| p.select_statement())).map(Box::new);
        self.inside -= 1;
        select
    }

    pub(super) fn query_expression(&mut self) -> Result<Select> {
        if self.at("WITH") {
            return self.with();
        }
        let Operand { select: mut whole, in_parens, alone } =
            self.set_operations(&[SetKind::Union, SetKind::Except], Self::intersections)?;
        if alone {
            return if in_parens { self.order_of_parens(whole) } else { Ok(whole) };
        }
        // The last SELECT, if it has no parentheses, has read the ORDER BY and LIMIT of the
        // whole.
        if !in_parens {
            let last = whole.last_operand();
            let (order, limit) = (std::mem::take(&mut last.order), std::mem::take(&mut last.limit));
            (whole.whole_order, whole.whole_limit) = (order, limit);
        }
        if self.accept_all(&["ORDER", "BY"]) {
            whole.whole_order = self.order_items()?;
        }
        if self.at("LIMIT") {
            whole.whole_limit = self.limit()?;
        }
        Ok(whole)
    }

    /// Operands of INTERSECT, which binds more tightly than UNION and EXCEPT.
    fn intersections(&mut self) -> Result<Operand> {
        self.set_operations(&[SetKind::Intersect], Self::select_operand)
    }

    /// Operands with operators of some kinds between them.
    #[inline(never)]
    fn set_operations(
        &mut self,
        kinds: &[SetKind],
        operand: fn(&mut Self) -> Result<Operand>,
    ) -> Result<Operand> {
        let Operand { select: mut whole, mut in_parens, mut alone } = operand(self)?;
        let mut begun = false;
        while let Some(kind) = kinds.iter().copied().find(|kind| self.at(kind.word())) {
            if !in_parens && whole.last_operand().is_cut_or_sorted() {
                // Without parentheses, ORDER BY and LIMIT can only be those of the whole.
                return self.fail();
            }
            if !std::mem::replace(&mut begun, true) && !whole.more.is_empty() {
                // `(a UNION b ORDER BY c) UNION d`: order and limit are those of an operand.
                whole = Select { first: Some(Box::new(whole)), ..Select::default() };
            }
            self.advance();
            let all = self.accept("ALL");
            if !all {
                self.accept("DISTINCT");
            }
            let next = operand(self)?;
            (in_parens, alone) = (next.in_parens, false);
            whole.more.push((SetOperator { kind, all }, next.select));
        }
        Ok(Operand { select: whole, in_parens, alone })
    }

    fn select_operand(&mut self) -> Result<Operand> {
        let uses = self.uses_of_recursion();
        if self.at("VALUES") {
            let select = self.values_rows()?;
            let alone = select.more.is_empty();
            return Ok(Operand { select, in_parens: true, alone });
        }
        let in_parens = self.at_symbol("(");
        let mut select = if in_parens {
            self.in_parens(|p| p.deeper(Self::select_statement))?
        } else {
            self.select_core()?
        };
        if select.more.is_empty() {
            select.recursive |= self.uses_of_recursion() > uses;
        }
        Ok(Operand { select, in_parens, alone: true })
    }

    /// `(SELECT ..)`, with ORDER BY and LIMIT behind the parentheses.
    fn order_of_parens(&mut self, mut inner: Select) -> Result<Select> {
        let order =
            if self.accept_all(&["ORDER", "BY"]) { self.order_items()? } else { Vec::new() };
        let limit = if self.at("LIMIT") { self.limit()? } else { Limit::default() };
        let is_more = !order.is_empty() || limit.count.is_some();
        if is_more && (inner.limit.count.is_some() || !inner.more.is_empty()) {
            inner = rows_of(inner);
        }
        // Without a LIMIT of its own, the inner order only counts if there is no outer order.
        if !order.is_empty() {
            inner.order = order;
        }
        if limit.count.is_some() {
            inner.limit = limit;
        }
        Ok(inner)
    }

    /// `VALUES ROW(1, 2), ROW(3, 4)`: a SELECT without FROM for each row, joined by UNION ALL.
    fn values_rows(&mut self) -> Result<Select> {
        self.expect("VALUES")?;
        let mut whole: Option<Select> = None;
        let mut width = 0;
        self.comma_list(|p| {
            p.expect("ROW")?;
            p.charge(size_of::<Select>() + size_of::<crate::plan::SelectPlan>());
            let values = p.in_parens(|p| {
                if p.at_symbol(")") {
                    return Err(SqlError::no_columns_in_values());
                }
                p.comma_list_of(MAX_ITEMS, SqlError::too_many_columns, |p| p.expr())
            })?;
            let name = |(n, expr)| SelectItem::Expr { expr, alias: Some(format!("column_{n}")) };
            let items: Vec<SelectItem> = values.into_iter().enumerate().map(name).collect();
            let row = Select { items, ..Select::default() };
            match &mut whole {
                None => {
                    width = row.items.len();
                    whole = Some(row);
                }
                Some(whole) if row.items.len() == width => {
                    whole.more.push((SetOperator::UNION_ALL, row))
                }
                Some(whole) => return Err(SqlError::column_count(whole.more.len() + 2)),
            }
            Ok(())
        })?;
        Ok(whole.unwrap_or_default())
    }

    /// `TABLE t` is `SELECT * FROM t`, with ORDER BY and LIMIT.
    fn table_statement(&mut self) -> Result<Select> {
        let word = self.position();
        self.expect("TABLE")?;
        let word = self.span_from(word);
        self.charge(size_of::<Select>() + size_of::<crate::plan::SelectPlan>());
        let position = self.position();
        let name = self.table_name()?;
        let span = self.span_from(position);
        let from = vec![match self.use_of(&name)? {
            Some(kind) => TableFactor { kind, alias: Some(name.name), join: Join::None },
            None => {
                let kind = FactorKind::Table { name, hints: Vec::new() };
                TableFactor { kind, alias: None, join: Join::None }
            }
        }];
        from.iter().for_each(|factor| self.note_table(&factor.kind, span));
        let items = vec![SelectItem::Wildcard(None, word)];
        let mut select = Select { items, from, ..Select::default() };
        if self.accept_all(&["ORDER", "BY"]) {
            select.order = self.order_items()?;
        }
        if self.at("LIMIT") {
            select.limit = self.limit()?;
        }
        self.into_variables(&mut select)?;
        Ok(select)
    }

    fn select_core(&mut self) -> Result<Select> {
        if self.at("TABLE") {
            return self.table_statement();
        }
        self.expect("SELECT")?;
        self.charge(size_of::<Select>() + size_of::<crate::plan::SelectPlan>());
        let mut select = Select::default();
        loop {
            match self.accept_any(&[
                "ALL",
                "DISTINCT",
                "DISTINCTROW",
                "HIGH_PRIORITY",
                "STRAIGHT_JOIN",
                "SQL_SMALL_RESULT",
                "SQL_BIG_RESULT",
                "SQL_BUFFER_RESULT",
                "SQL_NO_CACHE",
                "SQL_CACHE",
                "SQL_CALC_FOUND_ROWS",
            ]) {
                Some("DISTINCT" | "DISTINCTROW") => select.distinct = true,
                Some("SQL_CALC_FOUND_ROWS") => select.calc_found_rows = true,
                Some("STRAIGHT_JOIN") => select.straight_join = true,
                Some(_) => {}
                None => break,
            }
        }
        select.items =
            self.comma_list_of(MAX_ITEMS, SqlError::too_many_columns, Self::select_item)?;
        self.into_variables(&mut select)?;
        if self.accept("FROM") && !self.accept("DUAL") {
            select.from = self.table_references()?;
        }
        if self.accept("WHERE") {
            select.filter = Some(self.expr()?);
        }
        if self.accept_all(&["GROUP", "BY"]) {
            // MySQL 8.0 has removed `GROUP BY a DESC`.
            select.group = self.comma_list(|p| p.expr())?;
            select.rollup = self.accept_all(&["WITH", "ROLLUP"]);
        }
        if self.accept("HAVING") {
            select.having = Some(self.expr()?);
        }
        select.windows = self.windows()?;
        if self.accept_all(&["ORDER", "BY"]) {
            select.order = self.order_items()?;
        }
        if self.at("LIMIT") {
            select.limit = self.limit()?;
        }
        self.into_variables(&mut select)?;
        while let Some(lock) = self.lock_clause()? {
            self.charge(size_of::<Lock>());
            select.locks.push(lock);
        }
        self.into_variables(&mut select)?;
        Ok(select)
    }

    fn select_item(&mut self) -> Result<SelectItem> {
        let position = self.position();
        if self.accept_symbol("*") {
            return Ok(SelectItem::Wildcard(None, self.span_from(position)));
        }
        // t.* and db.t.*
        if self.is_ident(self.peek()) && self.at_symbol_nth(1, ".") {
            let first = self.ident()?;
            self.advance();
            if self.accept_symbol("*") {
                let name = Name { schema: None, name: first };
                return Ok(SelectItem::Wildcard(Some(name), self.span_from(position)));
            }
            if self.at_symbol_nth(1, ".") && self.at_symbol_nth(2, "*") {
                let name = self.ident_after_dot()?;
                self.advance();
                self.advance();
                let name = Name { schema: Some(first), name };
                return Ok(SelectItem::Wildcard(Some(name), self.span_from(position)));
            }
            self.rewind(position);
        }
        let expr = self.expr()?;
        // A string after an expression is an alias too.
        let alias = if self.kind() == TokenKind::String {
            Some(self.word_or_string()?)
        } else {
            self.alias()?
        };
        Ok(SelectItem::Expr { expr, alias })
    }

    fn into_variables(&mut self, select: &mut Select) -> Result<()> {
        if self.accept("INTO") {
            if self.at("OUTFILE") || self.at("DUMPFILE") {
                self.into_files += 1;
                select.into_file = Some(Box::new(self.into_file()?));
                return Ok(());
            }
            select.into = self.comma_list(|p| p.user_variable_name())?;
        }
        Ok(())
    }

    pub(super) fn index_hints(&mut self, kind: &str, hints: &mut Vec<IndexHint>) -> Result<()> {
        let kind = match kind {
            "USE" => HintKind::Use,
            "FORCE" => HintKind::Force,
            _ => HintKind::Ignore,
        };
        if !self.accept("INDEX") {
            self.expect("KEY")?;
        }
        let (mut for_search, mut for_order) =
            (true, kind == HintKind::Force || kind == HintKind::Ignore);
        if self.accept("FOR") {
            (for_search, for_order) = match self.accept_any(&["JOIN", "ORDER", "GROUP"]) {
                Some("JOIN") => (true, false),
                Some(_) => {
                    self.expect("BY")?;
                    (false, true)
                }
                None => return self.fail(),
            };
        }
        let indexes = self.in_parens(|p| {
            if p.at_symbol(")") {
                return Ok(Vec::new());
            }
            p.comma_list(
                |p| if p.accept("PRIMARY") { Ok("PRIMARY".to_string()) } else { p.ident() },
            )
        })?;
        self.charge(size_of::<IndexHint>());
        hints.push(IndexHint { kind, for_search, for_order, indexes });
        Ok(())
    }

    pub(super) fn order_items(&mut self) -> Result<Vec<OrderItem>> {
        self.comma_list(|p| {
            let expr = p.expr()?;
            let descending = p.accept("DESC");
            if !descending {
                p.accept("ASC");
            }
            Ok(OrderItem { expr, descending })
        })
    }

    /// At LIMIT.
    pub(super) fn limit(&mut self) -> Result<Limit> {
        self.expect("LIMIT")?;
        let first = self.limit_value()?;
        if self.accept_symbol(",") {
            return Ok(Limit { offset: Some(first), count: Some(self.limit_value()?) });
        }
        let offset = if self.accept("OFFSET") { Some(self.limit_value()?) } else { None };
        Ok(Limit { count: Some(first), offset })
    }
    fn limit_value(&mut self) -> Result<Expr> {
        let position = self.position();
        let number = self.number();
        let kind = match self.kind() {
            TokenKind::Integer => ExprKind::Literal(number),
            TokenKind::Param => ExprKind::Param(number),
            _ => return self.fail(),
        };
        self.advance();
        self.node(position, kind)
    }

    fn lock_clause(&mut self) -> Result<Option<Lock>> {
        if self.accept_all(&["LOCK", "IN", "SHARE", "MODE"]) {
            return Ok(Some(Lock { exclusive: false, conflict: OnConflict::Wait, of: Vec::new() }));
        }
        if !self.at("FOR") {
            return Ok(None);
        }
        self.advance();
        let exclusive = match self.accept_any(&["UPDATE", "SHARE"]) {
            Some(word) => word == "UPDATE",
            None => return self.fail(),
        };
        let of = if self.accept("OF") { self.comma_list(Self::table_name)? } else { Vec::new() };
        let conflict = if self.accept("NOWAIT") {
            OnConflict::NoWait
        } else if self.accept_all(&["SKIP", "LOCKED"]) {
            OnConflict::SkipLocked
        } else {
            OnConflict::Wait
        };
        Ok(Some(Lock { exclusive, conflict, of }))
    }
}

/// What may stand beside a set operator.
struct Operand {
    select: Select,
    /// The last SELECT is in parentheses.
    in_parens: bool,
    /// There is no operator outside parentheses.
    alone: bool,
}

/// `SELECT * FROM (inner)`: a derived table without a name, whose columns may have equal names.
fn rows_of(mut inner: Select) -> Select {
    let into = std::mem::take(&mut inner.into);
    let into_file = inner.into_file.take();
    let rows = TableFactor {
        kind: FactorKind::Derived {
            lateral: false,
            select: Box::new(inner),
            columns: Vec::new(),
            again: false,
            recursive: None,
        },
        alias: Some(String::new()),
        join: Join::None,
    };
    let items = vec![SelectItem::Wildcard(None, Span::default())];
    Select { items, from: vec![rows], into, into_file, ..Select::default() }
}
