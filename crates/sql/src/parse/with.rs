//! WITH: common table expressions.
//!
//! A name that WITH has defined is a derived table wherever it stands as a table's name: the parser
//! puts the definition's tree there. The tree of a use is charged like the tree of the definition,
//! so that definitions which use each other twice, and again, end at `parser_max_mem_size`.
//!
//! After WITH RECURSIVE a name may stand in its own definition. There it is no derived table but a
//! [`FactorKind::Itself`], and the parser notes which operands of the definition refer to it.
use super::ast::*;
use super::limits::MAX_COLUMNS;
use super::parser::{MAX_DEPTH, Parser, SELECT_LEVELS};
use crate::error::{Result, SqlError};
use hashbrown::HashMap;

/// A common table expression that may be used.
pub(super) struct Cte {
    name: String,
    columns: Vec<String>,
    select: Box<Select>,
    /// What its tree was charged for.
    bytes: usize,
    used: bool,
    /// The definition refers to its own name.
    recursive: bool,
}

/// A common table expression that WITH RECURSIVE is defining.
pub(super) struct Defining {
    name: String,
    /// The place among the known ones behind which a definition hides this name.
    known: usize,
    /// The number of queries around the definition's SELECTs.
    inside: usize,
    uses: usize,
}

/// The common table expressions that are known, each hiding earlier ones of its name.
#[derive(Default)]
pub(super) struct Ctes {
    list: Vec<Cte>,
    by_name: HashMap<String, Vec<usize>>,
}
impl Ctes {
    fn push(&mut self, cte: Cte) {
        self.by_name.entry(cte.name.clone()).or_default().push(self.list.len());
        self.list.push(cte);
    }
    /// Forgets all but the first `len`.
    fn truncate(&mut self, len: usize) {
        for cte in self.list.drain(len..) {
            self.by_name.entry(cte.name).and_modify(|places| places.truncate(places.len() - 1));
        }
    }
    fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name)?.last().copied()
    }
}

impl Parser<'_> {
    /// At WITH: the definitions, and the query that uses them.
    pub(super) fn with(&mut self) -> Result<Select> {
        let known = self.definitions()?;
        let query = self.query_expression();
        self.ctes.truncate(known);
        query
    }

    /// At WITH as the first word of a statement.
    pub(super) fn with_statement(&mut self) -> Result<Statement> {
        let around = self.enter_select();
        let known = self.definitions()?;
        let mut statement = if self.at("UPDATE") {
            Statement::Update(self.update()?)
        } else if self.at("DELETE") {
            Statement::Delete(self.delete()?)
        } else {
            Statement::Select(Box::new(self.query_expression()?))
        };
        self.ctes.truncate(known);
        let height = self.leave_select(around)?;
        if let Statement::Select(select) = &mut statement {
            select.height = height;
        }
        Ok(statement)
    }

    /// The definitions of WITH. Returns the number of those that were known before.
    fn definitions(&mut self) -> Result<usize> {
        self.expect("WITH")?;
        let recursive = self.accept("RECURSIVE");
        let known = self.ctes.list.len();
        loop {
            let cte = self.cte(recursive)?;
            if self.ctes.find(&cte.name).is_some_and(|other| other >= known) {
                return Err(SqlError::not_unique_table(&cte.name));
            }
            self.ctes.push(cte);
            if !self.accept_symbol(",") {
                break;
            }
        }
        Ok(known)
    }

    fn cte(&mut self, recursive: bool) -> Result<Cte> {
        let name = self.ident()?;
        let columns = self.column_list()?;
        self.expect("AS")?;
        let before = self.memory;
        if recursive {
            let (known, inside) = (self.ctes.list.len(), self.inside + 1);
            self.recursive.push(Defining { name: name.clone(), known, inside, uses: 0 });
        }
        let select = self.subselect()?;
        let uses = if recursive { self.recursive.pop().map_or(0, |own| own.uses) } else { 0 };
        let bytes = self.memory - before;
        Ok(Cte { name, columns, select, bytes, used: false, recursive: uses > 0 })
    }

    /// How often the names that WITH RECURSIVE is defining have been used so far.
    pub(super) fn uses_of_recursion(&self) -> usize {
        self.recursive.iter().map(|own| own.uses).sum()
    }

    /// The use of a name in its own definition.
    fn use_of_itself(&mut self, name: &str) -> Option<FactorKind> {
        let innermost = self.recursive.len().wrapping_sub(1);
        let n = self.recursive.iter().rposition(|own| own.name == name)?;
        let own = &mut self.recursive[n];
        if self.ctes.find(name).is_some_and(|hides| hides >= own.known) {
            return None;
        }
        own.uses += 1;
        let inside = n != innermost || self.inside != own.inside;
        Some(FactorKind::Itself { name: name.to_string(), inside })
    }

    /// `(a, b)` behind the name of a derived table.
    pub(super) fn column_list(&mut self) -> Result<Vec<String>> {
        if !self.at_symbol("(") {
            return Ok(Vec::new());
        }
        self.in_parens(|p| p.comma_list_of(MAX_COLUMNS, SqlError::too_many_columns, |p| p.ident()))
    }

    /// The rows of a name, if WITH has defined it.
    pub(super) fn use_of(&mut self, name: &Name) -> Result<Option<FactorKind>> {
        if name.schema.is_some() {
            return Ok(None);
        }
        if let Some(itself) = self.use_of_itself(&name.name) {
            return Ok(Some(itself));
        }
        let Some(n) = self.ctes.find(&name.name) else { return Ok(None) };
        self.charge(self.ctes.list[n].bytes);
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        // Definitions that use definitions are trees in trees, whose depth the text does not show.
        let height = self.ctes.list[n].select.height;
        if height > MAX_DEPTH * SELECT_LEVELS {
            return Err(SqlError::nested_too_deeply());
        }
        self.check_height(height)?;
        let cte = &mut self.ctes.list[n];
        let again = std::mem::replace(&mut cte.used, true);
        Ok(Some(FactorKind::Derived {
            select: cte.select.clone(),
            columns: cte.columns.clone(),
            lateral: false,
            again,
            recursive: cte.recursive.then(|| cte.name.clone()),
        }))
    }
}
