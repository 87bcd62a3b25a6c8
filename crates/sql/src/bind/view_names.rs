//! The names of a view's columns.
//!
//! **VNAME-1** As in MySQL, a column has the name that the statement gives it: that of the view's
//! list, an alias, or that of the column that an item names. The name of another expression is made
//! from the expression's text, and only such a name gives way: to `Name_exp_` and the column's
//! number where no column can have it, and to `My_exp_` and the name where another column has it.
//! The text of the view has the new name as an alias.
use super::Binder;
use super::ddl::{check_characters, check_column_name};
use super::view_text::Rewrites;
use crate::error::{Result, SqlError};
use crate::exec::show::quoted_name;
use crate::parse::ast::{self, Select, SelectItem, Span};
use crate::parse::limits::MAX_NAME_CHARS;
use crate::plan::SelectPlan;
use std::collections::HashMap;
use std::sync::Arc;

/// What is noted of a view's columns while the definition is bound.
#[derive(Default)]
pub(super) struct ViewColumns {
    /// Where the first item of the SELECT begins that names the columns.
    first_item: Option<u32>,
    /// By the number of a column whose name is made: the end of its item.
    made: HashMap<usize, u32>,
    /// The places at which a clause names an item of its SELECT list, with the name.
    aliases: Vec<(Span, String)>,
}

impl ViewColumns {
    pub fn of(select: &Select) -> ViewColumns {
        let items = &select.first_select().items;
        ViewColumns { first_item: start_of(items), ..ViewColumns::default() }
    }
}

fn start_of(items: &[SelectItem]) -> Option<u32> {
    let span = match items.first()? {
        SelectItem::Wildcard(_, span) => *span,
        SelectItem::Expr { expr, .. } => expr.span,
    };
    (span.start < span.end).then_some(span.start)
}

impl Binder<'_> {
    /// Notes the name of an item without an alias. As in MySQL, its characters beyond U+FFFF become
    /// '?': no name has them.
    pub(super) fn note_item(
        &mut self,
        items: &[SelectItem],
        column: usize,
        expr: &ast::Expr,
        name: &mut String,
    ) {
        let Some(rewrites) = &mut self.rewrites else { return };
        if check_characters(name).is_err() {
            *name = name.chars().map(|c| if c > '\u{ffff}' { '?' } else { c }).collect();
        }
        let span = expr.span;
        if span.start == span.end {
            return;
        }
        rewrites.names.insert(span.end, name.clone());
        let columns = &mut rewrites.columns;
        let is_first = columns.first_item.is_some() && columns.first_item == start_of(items);
        if is_first && !matches!(expr.kind, ast::ExprKind::Name(_)) {
            columns.made.insert(column, span.end);
        }
    }
    /// Notes that a name outside the SELECT list is that of an item.
    pub(super) fn note_alias(&mut self, span: Span, name: &str) {
        if let Some(rewrites) = &mut self.rewrites {
            rewrites.columns.aliases.push((span, name.to_ascii_lowercase()));
        }
    }

    /// Gives each column of a view without a list a name of its own (VNAME-1).
    pub(super) fn name_view_columns(
        &mut self,
        plan: &mut SelectPlan,
        select: &Select,
        rewrites: &mut Rewrites,
    ) -> Result<()> {
        let bound: Vec<Arc<str>> =
            plan.columns.iter().take(plan.visible).map(|column| column.name.clone()).collect();
        self.step(bound.len())?;
        let names = unique_names(&bound, |n| rewrites.columns.made.contains_key(&n))?;
        for (n, name) in names.iter().enumerate() {
            // As in MySQL, it is one error whether the name is wrong or too long.
            check_column_name(name).map_err(|_| SqlError::wrong_column_name(name))?;
            if let Some(end) = rewrites.columns.made.get(&n) {
                rewrites.names.insert(*end, name.clone());
            }
            plan.columns[n].name = name.as_str().into();
        }
        // The clauses behind the list name its items by their new names.
        let mut first = HashMap::new();
        for (n, name) in bound.iter().enumerate() {
            first.entry(name.to_ascii_lowercase()).or_insert(n);
        }
        let clauses = clauses_of(select);
        for (span, name) in &rewrites.columns.aliases {
            self.step(1)?;
            let before = clauses.partition_point(|clause| clause.start <= span.start);
            let inside = before > 0 && span.end <= clauses[before - 1].end;
            if let Some(n) = first.get(name).filter(|_| inside)
                && names[*n] != *bound[*n]
            {
                rewrites.replaced.insert(span.start, (span.end, quoted_name(&names[*n])));
            }
        }
        Ok(())
    }
}

/// Where the clauses stand that may name the columns of a view, in the order of the text.
fn clauses_of(select: &Select) -> Vec<Span> {
    let first = select.first_select();
    let order = first.order.iter().chain(&select.whole_order).map(|item| &item.expr);
    first.group.iter().chain(&first.having).chain(order).map(|e| e.span).collect()
}

/// The columns' names, of which those give way that are `made`: MySQL's
/// `make_valid_column_names` and `check_duplicate_names`. Error 1060 where none can.
fn unique_names(bound: &[Arc<str>], made: impl Fn(usize) -> bool) -> Result<Vec<String>> {
    let is_wrong = |n: usize| made(n) && check_column_name(&bound[n]).is_err();
    let valid = |n: usize| match is_wrong(n) {
        true => format!("Name_exp_{}", n + 1),
        false => bound[n].to_string(),
    };
    let originals: Vec<String> = (0..bound.len()).map(valid).collect();
    let mut names = originals.clone();
    // By name, in small letters: its column, and how often a name was made of it.
    let mut owners: HashMap<String, usize> = HashMap::new();
    let mut attempts: HashMap<String, u32> = HashMap::new();
    for n in 0..names.len() {
        let key = names[n].to_ascii_lowercase();
        let Some(&earlier) = owners.get(&key) else {
            owners.insert(key, n);
            continue;
        };
        let gives_way = match (made(n), made(earlier)) {
            (true, _) => n,
            (false, true) => earlier,
            (false, false) => return Err(SqlError::duplicate_column(&names[n])),
        };
        if gives_way == earlier {
            owners.insert(key, n);
        }
        let original = &originals[gives_way];
        let attempt = attempts.entry(original.to_ascii_lowercase()).or_insert(0);
        let unique = loop {
            let name = made_name(original, *attempt);
            *attempt += 1;
            if !owners.contains_key(&name.to_ascii_lowercase()) {
                break name;
            }
        };
        owners.insert(unique.to_ascii_lowercase(), gives_way);
        names[gives_way] = unique;
    }
    Ok(names)
}

fn made_name(original: &str, attempt: u32) -> String {
    let name = match attempt {
        0 => format!("My_exp_{original}"),
        attempt => format!("My_exp_{attempt}_{original}"),
    };
    let cut: String = name.chars().take(MAX_NAME_CHARS).collect();
    cut.trim_end_matches(' ').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests VNAME-1. A name with a star in front is made.
    #[test]
    fn made_names_give_way() {
        let long = format!("*{}", "x".repeat(60));
        let cut = format!("My_exp_{}", "x".repeat(57));
        let second = format!("My_exp_1_{}", "x".repeat(55));
        for (given, expected) in [
            (&["*1", "*1", "*1"][..], &["1", "My_exp_1", "My_exp_1_1"][..]),
            (&["*a+1", "A+1"], &["My_exp_a+1", "A+1"]),
            (&["a", "*a", "my_exp_a"], &["a", "My_exp_1_a", "my_exp_a"]),
            (&["*a ", "*", "*b"], &["Name_exp_1", "Name_exp_2", "b"]),
            (&["Name_exp_2", "*a "], &["Name_exp_2", "My_exp_Name_exp_2"]),
            (&[&long, &long, &long], &[&long[1..], &cut, &second]),
            (&["a ", "b"], &["a ", "b"]),
        ] {
            let bound: Vec<Arc<str>> =
                given.iter().map(|name| Arc::from(name.trim_start_matches('*'))).collect();
            let names = unique_names(&bound, |n| given[n].starts_with('*')).unwrap();
            assert_eq!(names, expected, "{given:?}");
        }
        let twice = unique_names(&["a".into(), "A".into()], |_| false).unwrap_err();
        assert_eq!(twice.code, 1060);
    }

    /// Thousands of equal names take one step each.
    #[test]
    fn many_equal_names() {
        let bound = vec![Arc::from("1"); 4096];
        let names = unique_names(&bound, |_| true).unwrap();
        assert_eq!((&*names[1], &*names[4095]), ("My_exp_1", "My_exp_4094_1"));
    }
}
