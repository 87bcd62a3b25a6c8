//! Binds SELECT: first the clauses, in the order in which they see each other's names, then the
//! access paths.
use super::aggregate::Aggregates;
use super::columns_read;
use super::compare::and;
use super::expr::{Env, Named};
use super::from::{At, FromClause};
use super::group::grouping_of;
use super::hash_join;
use super::locking::row_lock;
use super::loose_scan;
use super::order::Wanted;
use super::postpone;
use super::scope::{Aliases, Clause, ColumnNames, Scope, ScopeSource};
use super::window::{check_names, has_window};
use super::{Binder, slot};
use crate::error::{Result, SqlError};
use crate::information_schema::{SCHEMA, Virtual};
use crate::parse::ast::{self, ExprKind as A, SelectItem};
use crate::parse::lexer::TokenKind;
use crate::parse::limits::MAX_ITEMS;
use crate::plan::expr_set::SameIndex;
use crate::plan::{
    AggregateCall, Expr, ExprKind, ExprType, Function, Grouping, Kind, Limit, Nest, OnConflict,
    RowLock, SelectPlan, SortKey, Source, SourceKind,
};
use crate::sink::ColumnMeta;
use redolith_types::{Charset, Value};
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Clone)]
pub(super) enum RawKind {
    Table { table: Arc<crate::TableInfo>, hints: Vec<ast::IndexHint> },
    Derived(Box<SelectPlan>),
    Lateral(Box<SelectPlan>, Vec<Expr>),
    Iteration { slot: u16, name: Box<str> },
    Virtual(Virtual),
}
impl RawKind {
    /// Whether it is a derived table that locks rows.
    fn locks(&self) -> bool {
        match self {
            RawKind::Derived(inner) | RawKind::Lateral(inner, _) => inner.locking,
            _ => false,
        }
    }
}

/// The bound select list.
#[derive(Default)]
pub(super) struct Items {
    pub output: Vec<Expr>,
    pub columns: Vec<ColumnMeta>,
    /// The name and the expression of each item, for clauses that refer to the item.
    aliases: Aliases,
}

impl Binder<'_> {
    /// Binds a SELECT. `outer` has the names of the query around a subquery.
    pub(super) fn select(
        &mut self,
        select: &ast::Select,
        outer: Option<&Env<'_>>,
    ) -> Result<SelectPlan> {
        if select.more.is_empty() {
            self.operand(select, outer)
        } else {
            self.set_operation(select, outer)
        }
    }
    /// Binds a SELECT without the operands that follow it.
    pub(super) fn operand(
        &mut self,
        select: &ast::Select,
        outer: Option<&Env<'_>>,
    ) -> Result<SelectPlan> {
        let is_outermost = std::mem::take(&mut self.is_outermost);
        if select.calc_found_rows && !is_outermost {
            return Err(SqlError::misplaced_option("SQL_CALC_FOUND_ROWS"));
        }
        if select.rollup && select.group.len() > MAX_ROLLUP_KEYS {
            return Err(SqlError::unsupported("WITH ROLLUP of more than 64 expressions"));
        }
        let (mut scope, dependents) = (Scope::default(), self.dependents);
        let around = std::mem::take(&mut self.windows);
        let mut from = self.from(select, &mut scope, outer)?;
        let env = |clause| Env { scope: &scope, outer, ..Env::new(&scope, clause) };

        self.aggregates = None;
        let mut conjuncts = Vec::new();
        if let Some(filter) = &select.filter {
            let filter = self.condition(&env(Clause::Where), filter)?;
            flatten(self.with_zero_dates(filter, &scope)?, &mut conjuncts);
            self.use_indexed_expressions(&scope, &mut conjuncts)?;
        }
        self.aggregates = Some(Aggregates::default());
        check_names(&select.windows)?;
        let windows = Some(&select.windows[..]);
        let fields = Env { windows, ..env(Clause::Fields) };
        let mut items = self.pinned(|b| b.items(&fields, &select.items))?;
        let with_aliases = |clause| Env { aliases: Some(&items.aliases), ..env(clause) };
        let outer_aggregates = self.aggregates.take();
        let (mut keys, mut known) = (Vec::new(), SameIndex::default());
        // The keys that are columns, for HAVING.
        let mut grouped = ColumnNames::default();
        // For each item that a key of ROLLUP or a key with RAND() names: the key. Another
        // evaluation would have another value.
        let mut named_keys = vec![None; items.output.len()];
        for ast_key in &select.group {
            let item = self.item_of_key(&with_aliases(Clause::Group), ast_key, &items)?;
            if let Some(n) = item
                && let Some(item) = items.output.get(n)
                && (select.rollup || item.any(&Expr::is_changing_node))
            {
                named_keys[n].get_or_insert(keys.len());
            }
            let key =
                self.pinned(|b| b.group_key(&with_aliases(Clause::Group), ast_key, &items.output))?;
            if let A::Name(name) = &ast_key.kind
                && select.having.is_some()
                && matches!(scope.find(name, Clause::Group), Ok(Some(_)))
            {
                grouped.add(&name.column, &key);
            }
            // A repeated key and a constant do not change the groups, except those of ROLLUP.
            let is_new = !key.is_constant() && self.find_same(&known, &key, &keys)?.is_none();
            if select.rollup || is_new {
                known.insert_expr(&key, keys.len());
                keys.push(key);
            }
        }
        self.aggregates = outer_aggregates;
        let named = match select.having {
            Some(_) => self.named_columns(select, &scope, &items, &keys)?,
            None => Vec::new(),
        };
        let index = SameIndex::of(&named, |nodes| self.compared(nodes))?;
        let mut selected = ColumnNames::default();
        if select.having.is_some() {
            let is_column = |item: &&(String, Expr)| is_column(&item.1);
            items.aliases.list.iter().filter(is_column).for_each(|(n, e)| selected.add(n, e));
        }
        let named =
            Named { columns: &named, index: &index, grouped: &grouped, selected: &selected };
        let having_env = Env { named: Some(named), ..with_aliases(Clause::Having) };
        let mut having = match &select.having {
            Some(having) => {
                let having = self.condition(&having_env, having)?;
                Some(self.with_zero_dates(having, &scope)?)
            }
            None => None,
        };
        let visible = items.output.len();
        if visible > MAX_ITEMS {
            return Err(SqlError::too_many_columns());
        }
        let mut output = items.output.clone();
        let mut order = |b: &mut Self| {
            let env = Env { windows, ..with_aliases(Clause::Order) };
            b.order(&env, &select.order, &items.aliases, &mut output)
        };
        // The sort keys of groups or distinct rows must be found among the group keys or the items.
        // A parameter never equals a literal, so literals in sort keys are pinned.
        let mut order = if select.distinct || !select.group.is_empty() {
            self.pinned(&mut order)?
        } else {
            order(self)?
        };
        let is_one_row = select.group.is_empty()
            && self.windows.is_empty()
            && self.aggregates.as_ref().is_some_and(|aggregates| !aggregates.list.is_empty());
        if is_one_row && !output.iter().any(has_grouping) {
            // As in MySQL, a single row needs no sort, so ONLY_FULL_GROUP_BY does not look at it.
            order.clear();
            output.truncate(visible);
        }
        if select.distinct {
            self.check_distinct_order(&scope, &output, visible, &order)?;
        }
        let all = output.len();
        output.extend(self.take_window_exprs()?);
        let aggregates = self.aggregates.take().unwrap_or_default().list;
        let is_grouped = !keys.is_empty() || !select.group.is_empty() || !aggregates.is_empty();
        let mut grouping = None;
        if is_grouped {
            let implicit = select.group.is_empty();
            grouping = Some(self.regroup(
                &scope,
                &from,
                keys,
                known,
                aggregates,
                &conjuncts,
                &mut output,
                visible,
                &mut having,
                implicit,
                select.rollup,
                &named_keys,
            )?);
        } else if let Some(having) = having.take() {
            flatten(having, &mut conjuncts);
        }
        let window_exprs = output.split_off(all);
        if let Some(grouping) = grouping.as_ref().filter(|g| g.rollup) {
            if order.is_empty() && self.windows.is_empty() {
                order = rollup_order(grouping, &mut output)?;
            }
            for (column, value) in items.columns.iter_mut().zip(&output) {
                column.ty.nullable |= value.any(&|e| matches!(e.kind, ExprKind::GroupKey(_)));
            }
        } else if output.iter().chain(&window_exprs).chain(&having).any(has_grouping) {
            return Err(SqlError::invalid_group_function());
        }
        let split = match self.windows.is_empty() {
            true => None,
            false => {
                let (inputs, sorts) = self.split_at_windows(&scope, &mut output, window_exprs)?;
                Some((std::mem::replace(&mut output, inputs), sorts))
            }
        };
        self.windows = around;
        let limit = self.limit(&select.limit)?;
        let locks = self.row_locks(&select.locks, &from, &scope)?;
        let lock = select.locks.first().map_or(self.reads, row_lock);
        let mut plan = SelectPlan {
            sources: Vec::new(),
            nests: Vec::new(),
            condition: None,
            grouping,
            having,
            output,
            visible,
            distinct: select.distinct,
            order,
            limit,
            into: select.into.iter().map(|v| v.as_str().into()).collect(),
            into_file: None,
            columns: items.columns,
            locking: lock != RowLock::None || from.sources.iter().any(|source| source.kind.locks()),
            dependent: self.dependents > dependents,
            counts_all: false,
            analyzed: false,
            probe: None,
        };
        if let Some((outputs, sorts)) = split {
            let own = plan.output.iter().map(|e| ColumnMeta::expression("", e.ty)).collect();
            let columns = std::mem::replace(&mut plan.columns, own);
            plan.visible = plan.output.len();
            let order = std::mem::take(&mut plan.order);
            let (distinct, limit) = (plan.distinct, std::mem::take(&mut plan.limit));
            let into = std::mem::take(&mut plan.into);
            plan.distinct = false;
            columns_read::find_covering(&plan, &mut from, &conjuncts, lock);
            self.order_joins(&mut plan, &mut from, &mut conjuncts, lock, select, &mut scope)?;
            self.place(&mut plan, from, conjuncts, &locks, &scope)?;
            hash_join::find(&mut plan);
            self.check_effects(&plan)?;
            plan = self.over_windows(plan, sorts, outputs, visible, columns)?;
            (plan.order, plan.distinct, plan.limit, plan.into) = (order, distinct, limit, into);
            return self.finished(plan, select);
        }
        if let Some(into) = &select.into_file {
            plan.into_file = Some(Box::new(self.into_file(into)?));
        }
        if !plan.into.is_empty() && plan.into.len() != visible {
            return Err(SqlError::wrong_select_columns());
        }
        columns_read::find_covering(&plan, &mut from, &conjuncts, lock);
        self.order_joins(&mut plan, &mut from, &mut conjuncts, lock, select, &mut scope)?;
        let probe = self.probe_parts(&plan, &from, &conjuncts, select);
        let again = probe.is_some().then(|| from.clone());
        self.place(&mut plan, from, conjuncts, &locks, &scope)?;
        if let (Some(parts), Some(from)) = (probe, again)
            && parts.pays(&plan)
        {
            let (mut probe, rest) = parts.probe(&plan);
            self.place(&mut probe.build, from, rest, &locks, &scope)?;
            hash_join::find(&mut probe.build);
            plan.probe = Some(Box::new(probe));
        }
        hash_join::find(&mut plan);
        if outer.is_none() && !select.calc_found_rows {
            plan = self.outputs_after_sort(plan, &scope)?;
        }
        self.check_effects(&plan)?;
        Ok(plan)
    }

    /// Checks a SELECT with window functions, which is whole but for INTO.
    fn finished(&mut self, mut plan: SelectPlan, select: &ast::Select) -> Result<SelectPlan> {
        if let Some(into) = &select.into_file {
            plan.into_file = Some(Box::new(self.into_file(into)?));
        }
        if !plan.into.is_empty() && plan.into.len() != plan.visible {
            return Err(SqlError::wrong_select_columns());
        }
        self.check_effects(&plan)?;
        Ok(plan)
    }

    /// The columns that the select list or GROUP BY names. A column of a merged view is the
    /// expression that the view has there, and perhaps no key of a group.
    fn named_columns(
        &mut self,
        select: &ast::Select,
        scope: &Scope,
        items: &Items,
        keys: &[Expr],
    ) -> Result<Vec<Expr>> {
        let values = items.aliases.list.iter().map(|(_, e)| e).chain(keys);
        let mut named: Vec<Expr> = values.filter(|e| is_column(e)).cloned().collect();
        if scope.views.is_empty() {
            return Ok(named);
        }
        let items = select.items.iter().filter_map(|item| match item {
            SelectItem::Expr { expr, .. } => Some(expr),
            SelectItem::Wildcard(..) => None,
        });
        for e in items.chain(&select.group) {
            let A::Name(name) = &e.kind else { continue };
            if let Ok(Some(at)) = scope.find(name, Clause::Group)
                && scope.is_view(at.0)
            {
                named.push(self.column_value(scope, at)?);
            }
        }
        Ok(named)
    }

    pub(super) fn items(&mut self, env: &Env<'_>, items: &[SelectItem]) -> Result<Items> {
        let mut bound = Items::default();
        for item in items {
            match item {
                SelectItem::Wildcard(of, span) => {
                    self.wildcard(env, of.as_ref(), *span, &mut bound)?
                }
                SelectItem::Expr { expr, alias } => {
                    let so_far = Some((&bound.aliases, items));
                    let value = self.expr(&Env { items: so_far, ..*env }, expr)?;
                    let column = bound.output.len();
                    let name = match alias {
                        Some(alias) => alias.clone(),
                        None => {
                            let mut name = self.item_name(env, expr)?;
                            self.note_item(items, column, expr, &mut name);
                            name
                        }
                    };
                    let meta = self.item_meta(env, expr, &value, &name)?;
                    bound.columns.push(meta);
                    bound.aliases.list.push((name, value.clone()));
                    bound.output.push(value);
                }
            }
        }
        Ok(bound)
    }

    fn wildcard(
        &mut self,
        env: &Env<'_>,
        of: Option<&ast::Name>,
        span: ast::Span,
        bound: &mut Items,
    ) -> Result<()> {
        if env.scope.sources.is_empty() {
            return Err(SqlError::no_tables_used());
        }
        let places: Vec<(usize, usize)> = match of {
            None => env.scope.star.clone(),
            Some(name) => {
                let mut sources =
                    env.scope.matching(name.schema.as_deref(), Some(&name.name)).peekable();
                if sources.peek().is_none() {
                    return Err(SqlError::new(1051, format!("Unknown table '{}'", name.name)));
                }
                let shown = |(s, source): (usize, &'_ ScopeSource)| {
                    let columns = source.columns.iter().enumerate().filter(|(_, c)| !c.hidden);
                    columns.map(|(c, _)| (s, c)).collect::<Vec<_>>()
                };
                sources.flat_map(shown).collect()
            }
        };
        self.note_wildcard(env.scope, span, &places);
        for at in places {
            let column = env.scope.column(at);
            if bound.output.len() >= MAX_ITEMS {
                return Err(SqlError::too_many_columns());
            }
            let value = self.column_value(env.scope, at)?;
            bound.columns.push(column.meta.clone());
            bound.aliases.list.push((column.name.to_string(), value.clone()));
            bound.output.push(value);
        }
        Ok(())
    }

    /// The name of an item without an alias: the name of a column, the content of a string, or the
    /// text of the expression.
    fn item_name(&mut self, env: &Env<'_>, expr: &ast::Expr) -> Result<String> {
        match &expr.kind {
            A::Name(name) => match env.scope.find(name, env.clause)? {
                // As in MySQL 8, the names of these columns are in upper case.
                Some(at) if &*env.scope.column(at).meta.schema == SCHEMA => {
                    Ok(env.scope.column(at).name.to_string())
                }
                _ => Ok(name.column.clone()),
            },
            A::Literal(n) | A::Introduced(_, n) if self.parsed.literal_kind(*n).is_string() => {
                let charset = match expr.kind {
                    A::Introduced(charset, _) => charset,
                    _ => self.literal_collation(*n).charset(),
                };
                let value = self.literal_value(*n)?;
                Ok(String::from_utf8_lossy(
                    &charset.convert_lossy(&value.to_bytes(), Charset::Utf8mb4),
                )
                .into_owned())
            }
            _ => Ok(self.parsed.source(expr.span).into_owned()),
        }
    }

    fn item_meta(
        &self,
        env: &Env<'_>,
        expr: &ast::Expr,
        value: &Expr,
        name: &str,
    ) -> Result<ColumnMeta> {
        if let A::Name(column) = &expr.kind
            && let Some(at) = env.scope.find(column, env.clause)?
        {
            let mut meta = env.scope.column(at).meta.clone();
            meta.name = Arc::from(name);
            return Ok(meta);
        }
        // A result column must have a type: untyped parameters and variables are sent as strings.
        let mut ty = value.ty;
        if ty.kind == Kind::Null && value.as_literal().is_none() {
            ty = ExprType { nullable: true, ..ExprType::string(16_777_215, self.cx.collation) };
        }
        Ok(ColumnMeta::expression(name, ty))
    }

    /// The number of the item that a key of GROUP BY names by its position or its alias.
    fn item_of_key(
        &mut self,
        env: &Env<'_>,
        key: &ast::Expr,
        items: &Items,
    ) -> Result<Option<usize>> {
        Ok(match &key.kind {
            A::Name(name)
                if name.table.is_none()
                    && !matches!(env.scope.find(name, env.clause), Ok(Some(_))) =>
            {
                let named = items.aliases.find(&name.column);
                if named.is_some() {
                    self.note_alias(key.span, &name.column);
                }
                named
            }
            _ => self.position(key, items.output.len(), env.clause)?,
        })
    }

    /// Binds a GROUP BY item: a position, an alias or an expression.
    fn group_key(&mut self, env: &Env<'_>, key: &ast::Expr, output: &[Expr]) -> Result<Expr> {
        let expr = match self.position(key, output.len(), env.clause)? {
            Some(n) => {
                self.charge(output[n].bytes().div_ceil(size_of::<Expr>()))?;
                output[n].clone()
            }
            None => self.expr(env, key)?,
        };
        if has_window(&expr) {
            return Err(SqlError::misplaced_window_alias(self.parsed.source(key.span)));
        }
        if expr.any(&|e| matches!(e.kind, ExprKind::Aggregate(_))) {
            return Err(SqlError::cannot_group_on(self.parsed.source(key.span)));
        }
        Ok(expr)
    }

    /// The index of the item that `ORDER BY 2` means. None if the expression is not an integer.
    pub(super) fn position(
        &mut self,
        expr: &ast::Expr,
        items: usize,
        clause: Clause,
    ) -> Result<Option<usize>> {
        let A::Literal(number) = expr.kind else { return Ok(None) };
        if self.parsed.literal_kind(number) != TokenKind::Integer {
            return Ok(None);
        }
        match self.literal_value(number)? {
            Value::Int(n) if n >= 1 && n as usize <= items => Ok(Some(n as usize - 1)),
            n => Err(SqlError::unknown_column(n, clause.name())),
        }
    }

    /// Binds the sort keys. A key that is not selected becomes a hidden output.
    pub(super) fn order(
        &mut self,
        env: &Env<'_>,
        items: &[ast::OrderItem],
        aliases: &Aliases,
        output: &mut Vec<Expr>,
    ) -> Result<Vec<SortKey>> {
        let mut keys = Vec::new();
        let (mut known, mut sorted) = (None, HashSet::new());
        for item in items {
            let named = match &item.expr.kind {
                A::Name(name) if name.table.is_none() => {
                    self.step(aliases.list.len())?;
                    let named = aliases.sort_key(&name.column, env.clause)?;
                    if named.is_some() {
                        self.note_alias(item.expr.span, &name.column);
                    }
                    named
                }
                _ => None,
            };
            let index = match (self.position(&item.expr, aliases.list.len(), env.clause)?, named) {
                (Some(n), _) | (None, Some(n)) => n,
                _ => {
                    let expr = self.expr(env, &item.expr)?;
                    if expr.is_constant() {
                        continue;
                    }
                    let known = match &mut known {
                        Some(known) => known,
                        none => {
                            let compare = |nodes| self.compared(nodes);
                            none.insert(SameIndex::of(output, compare)?)
                        }
                    };
                    match self.find_same(known, &expr, output)? {
                        Some(n) => n,
                        None => {
                            known.insert_expr(&expr, output.len());
                            output.push(expr);
                            output.len() - 1
                        }
                    }
                }
            };
            if !sorted.insert(index) {
                continue;
            }
            let collation = output[index].ty.collation;
            keys.push(SortKey { output: slot(index)?, descending: item.descending, collation });
        }
        Ok(keys)
    }

    pub(super) fn limit(&mut self, limit: &ast::Limit) -> Result<Limit> {
        let scope = Scope::default();
        let mut value = |e: &Option<ast::Expr>| -> Result<Option<Expr>> {
            let Some(e) = e else { return Ok(None) };
            let bound = self.expr(&Env::new(&scope, Clause::None), e)?;
            self.learn(&bound, &ExprType::unsigned_bigint(20));
            Ok(Some(bound))
        };
        Ok(Limit { count: value(&limit.count)?, offset: value(&limit.offset)? })
    }

    /// Gives each source its conditions, its access path and its lock.
    pub(super) fn place(
        &mut self,
        plan: &mut SelectPlan,
        mut from: FromClause,
        mut conjuncts: Vec<Expr>,
        locks: &[RowLock],
        scope: &Scope,
    ) -> Result<()> {
        let count = from.sources.len();
        // Conditions are sorted by the last source that they read.
        let mut constant = Vec::new();
        let mut by_source: Vec<Vec<Expr>> = vec![Vec::new(); count];
        let mut after: Vec<Vec<Expr>> = vec![Vec::new(); from.nests.len()];
        if plan.dependent {
            // What runs a subquery for each row is decided last.
            conjuncts.sort_by_cached_key(Expr::has_dependent);
        }
        let (constants, conjuncts): (Vec<Expr>, Vec<Expr>) = conjuncts
            .into_iter()
            .partition(|c| c.last_source().is_none() && (count == 0 || c.is_fixed()));
        constant.extend(constants);
        let mut owned = vec![(None, conjuncts), (None, std::mem::take(&mut from.on))];
        for (n, nest) in from.nests.iter_mut().enumerate() {
            owned.push((Some(n as u16), std::mem::take(&mut nest.on)));
        }
        let answers = owned.iter().any(|(_, list)| list.iter().any(Expr::has_dependent));
        for (owner, conditions) in owned {
            for condition in conditions {
                match from.place_of(owner, &condition, answers) {
                    At::Source(s) => by_source[s].push(condition),
                    At::After(nest) => after[nest].push(condition),
                }
            }
        }
        if answers {
            postpone::dependent_conditions(&from, locks, &mut by_source);
        }
        let all = |list: Vec<Expr>| Some(list).filter(|list| !list.is_empty()).map(and);
        plan.nests = from
            .nests
            .iter()
            .zip(after)
            .map(|(nest, after)| Nest {
                first: nest.first,
                last: nest.last,
                parent: nest.parent,
                after: all(after),
            })
            .collect();
        let (mut wanted, nothing) = (Wanted::of(plan, count), Wanted::NOTHING);
        if locks.first() != Some(&RowLock::None) {
            // A locking read leaves nothing out.
            wanted.few = None;
        }
        for (s, item) in from.sources.into_iter().enumerate() {
            let here = std::mem::take(&mut by_source[s]);
            let source = match item.kind {
                RawKind::Table { table, hints } => {
                    // Parts of an outer join's ON may name only earlier sources, as may conditions
                    // with RAND(). Such a part is not a condition on this table's rows.
                    let (own, other): (Vec<Expr>, Vec<Expr>) = here.into_iter().partition(|e| {
                        e.last_source() == Some(s as u16) || e.last_source().is_none()
                    });
                    let finds_once = plan.sources.iter().all(hash_join::is_one_row);
                    let is_key = |e: &Expr| hash_join::key(s as u16, e).is_some();
                    let by_hash =
                        item.by_hash && hints.is_empty() && !finds_once && own.iter().any(is_key);
                    let every = if by_hash { own.clone() } else { Vec::new() };
                    let (own, joined): (Vec<Expr>, Vec<Expr>) = own
                        .into_iter()
                        .partition(|e| !by_hash || hash_join::reads_only(s as u16, e));
                    let mut chosen = self.choose_path(
                        &table,
                        s as u16,
                        item.covered_by,
                        own,
                        &hints,
                        if s == 0 { &wanted } else { &nothing },
                    )?;
                    if by_hash {
                        chosen.filter = all(chosen.filter.into_iter().chain(joined).collect());
                    }
                    if s == 0 {
                        wanted.satisfied(plan, &chosen, &table);
                    }
                    let lock = locks[s];
                    if matches!(lock, RowLock::Exclusive(_)) {
                        // FOR UPDATE counts as a change, so it waits for sessions that have locked
                        // the table against changes.
                        self.tables
                            .iter_mut()
                            .filter(|t| Arc::ptr_eq(&t.table, &table))
                            .for_each(|t| t.write = true);
                    }
                    let alias = &scope.sources[s].alias;
                    let mut by_index = None;
                    if by_hash {
                        let found = self.choose_path(
                            &table,
                            s as u16,
                            item.covered_by,
                            every,
                            &hints,
                            &nothing,
                        )?;
                        let access = found.into_access(table.clone(), alias.clone(), lock);
                        by_index = Some(Box::new(access));
                    }
                    Source {
                        kind: SourceKind::Table(chosen.into_access(table, alias.clone(), lock)),
                        alias: alias.clone(),
                        nest: item.nest,
                        filter: all(other),
                        lookup: None,
                        by_index,
                    }
                }
                kept => {
                    let kind = match kept {
                        RawKind::Lateral(plan, outer) if !outer.is_empty() => {
                            SourceKind::Lateral { plan, outer }
                        }
                        RawKind::Derived(inner) | RawKind::Lateral(inner, _) => {
                            SourceKind::Derived(inner)
                        }
                        RawKind::Virtual(table) => SourceKind::Virtual(table),
                        RawKind::Iteration { slot, name } => SourceKind::Iteration { slot, name },
                        RawKind::Table { .. } => unreachable!("matched above"),
                    };
                    Source {
                        kind,
                        alias: scope.sources[s].alias.clone(),
                        nest: item.nest,
                        filter: all(here),
                        lookup: None,
                        by_index: None,
                    }
                }
            };
            plan.sources.push(source);
        }
        plan.condition = all(constant);
        columns_read::note(plan);
        loose_scan::find(plan);
        Ok(())
    }
}

/// The most expressions of GROUP BY .. WITH ROLLUP: each row is in a group for each of them.
const MAX_ROLLUP_KEYS: usize = 64;

/// The order of the groups of ROLLUP where the statement asks for none: each group comes before
/// the one that sums it up. The sort keys are hidden outputs.
fn rollup_order(grouping: &Grouping, output: &mut Vec<Expr>) -> Result<Vec<SortKey>> {
    let mut order = Vec::with_capacity(2 * grouping.keys.len());
    for (n, key) in grouping.keys.iter().enumerate() {
        let value = Expr::new(ExprKind::GroupKey(slot(n)?), key.ty.nullable(true));
        for e in [grouping_of(grouping.keys.len(), &[n])?, value] {
            let (output_no, collation) = (slot(output.len())?, e.ty.collation);
            order.push(SortKey { output: output_no, descending: false, collation });
            output.push(e);
        }
    }
    Ok(order)
}

/// True if GROUPING() stands in the expression.
fn has_grouping(e: &Expr) -> bool {
    e.any(&|e| matches!(&e.kind, ExprKind::Call { function: Function::Grouping, .. }))
}

/// True for a column of a FROM item. A derived table makes an ENUM or SET from its number.
fn is_column(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Column { .. } | ExprKind::Member { .. })
}

/// The parts of an AND.
pub(super) fn flatten(expr: Expr, into: &mut Vec<Expr>) {
    match expr.kind {
        ExprKind::And(parts) => parts.into_iter().for_each(|p| flatten(p, into)),
        _ => into.push(expr),
    }
}

/// The lock for rows that a statement changes.
pub(super) const FOR_CHANGE: RowLock = RowLock::Exclusive(OnConflict::Wait);

/// The direction and the column if the only aggregate is MIN or MAX of a column, which an index can
/// answer.
pub(super) fn single_extreme(aggregates: &[AggregateCall]) -> Option<(bool, u16)> {
    use crate::plan::Aggregate;
    let [call] = aggregates else { return None };
    let descending = match call.function {
        Aggregate::Min => false,
        Aggregate::Max => true,
        _ => return None,
    };
    let arg = call.args.first()?;
    match arg.kind {
        // MIN and MAX compare the texts of ENUM and SET, but an index has the order of the numbers.
        _ if matches!(arg.ty.kind, Kind::Enum | Kind::Set) => None,
        ExprKind::Column { source: 0, column } => Some((descending, column)),
        _ => None,
    }
}
