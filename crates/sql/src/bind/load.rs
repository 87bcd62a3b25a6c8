//! Binds LOAD DATA and INTO OUTFILE.
use super::Binder;
use super::dml::not_read_from;
use super::generated_columns::refuse_values;
use super::scope::{Clause, Scope};
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, LoadDuplicates};
use crate::parse::literal;
use crate::plan::{
    Expr, ExprKind, Fill, InsertPlan, InsertRows, IntoFile, LoadPlan, LoadTarget, OnDuplicate,
};
use crate::sql_mode::SqlMode;
use crate::table_info::TableInfo;
use crate::text_file::TextFormat;
use redolith_types::{Charset, SqlType};

impl Binder<'_> {
    pub(super) fn load(&mut self, load: &ast::Load) -> Result<InsertPlan> {
        let table = self.open_table(&load.table, true)?;
        let format = self.text_format(&load.format)?;
        let charset = match &load.charset {
            Some(name) => {
                Charset::from_name(name).ok_or_else(|| SqlError::unknown_character_set(name))?
            }
            None => self.cx.file_charset,
        };
        let targets = targets(&table, &load.targets)?;
        check_format(&table, &format, &targets)?;
        refuse_values(&table.def, targets.iter().filter_map(column))?;

        let mut scope = Scope::default();
        scope.add_table(&table, None, false)?;
        self.loaded_collation = charset.default_collation();
        self.loaded_variables = targets.iter().filter_map(variable).map(str::to_string).collect();
        let set = self.assignments(&scope, &table, &load.set)?;
        set.iter().try_for_each(|a| not_read_from(&a.value, &table))?;
        if set.iter().any(|a| has_subquery_of_row(&a.value)) {
            return Err(SqlError::unsupported(
                "a subquery in SET of LOAD DATA whose value differs from row to row",
            ));
        }

        let mut given: Vec<usize> = targets.iter().filter_map(column).collect();
        let in_order = set.is_empty()
            && given.len() == targets.len()
            && given.windows(2).all(|pair| pair[0] < pair[1]);
        let names_columns =
            set.iter().any(|a| a.value.any(&|e| matches!(e.kind, ExprKind::Column { .. })));
        given.extend(set.iter().map(|a| usize::from(a.column)));
        let (mut fill, defaults) = self.fill(&table, &[])?;
        for (place, column) in given.iter().enumerate() {
            fill[*column] = Fill::Given(place as u16);
        }
        let on_duplicate = match load.duplicates {
            LoadDuplicates::Replace => OnDuplicate::Replace,
            LoadDuplicates::Ignore | LoadDuplicates::Error => OnDuplicate::Error,
        };
        // The client cannot be told to stop sending, so the rows that it sends are not given up for
        // one of them.
        let ignore = match load.duplicates {
            LoadDuplicates::Ignore => true,
            LoadDuplicates::Error => load.local,
            LoadDuplicates::Replace => false,
        };
        let plan = LoadPlan {
            file: self.literal_bytes(load.file),
            local: load.local,
            collation: charset.default_collation(),
            warns_of_separators: format.has_other_than_ascii(),
            format,
            skip: load.skip,
            targets,
            set,
            in_order,
            names_columns,
        };
        let rows = InsertRows::File(Box::new(plan));
        let constraints = self.constraints(&table)?;
        let generated_columns = self.generated_columns(&table)?;
        Ok(InsertPlan {
            table,
            rows,
            fill,
            defaults,
            names_columns: false,
            on_duplicate,
            ignore,
            check: None,
            constraints,
            generated_columns,
        })
    }

    pub(super) fn into_file(&mut self, into: &ast::IntoFile) -> Result<IntoFile> {
        let charset = |name: &String| {
            Charset::from_name(name).ok_or_else(|| SqlError::unknown_character_set(name))
        };
        Ok(IntoFile {
            name: self.literal_bytes(into.file),
            format: into.format.as_ref().map(|format| self.text_format(format)).transpose()?,
            charset: into.charset.as_ref().map(charset).transpose()?,
        })
    }

    /// The bytes of a string literal, in no character set.
    fn literal_bytes(&mut self, number: u32) -> Box<[u8]> {
        self.pinned.insert(number);
        let token = self.parsed.literals[number as usize];
        let escapes = !self.cx.mode.has(SqlMode::NO_BACKSLASH_ESCAPES);
        literal::string(token.text(self.parsed.text), escapes).into_owned().into()
    }

    pub(super) fn text_format(&mut self, format: &ast::TextFormat) -> Result<TextFormat> {
        let mut made = TextFormat { optionally: format.optionally, ..TextFormat::default() };
        if self.cx.mode.has(SqlMode::NO_BACKSLASH_ESCAPES) {
            made.escaped = None;
        }
        let texts = [
            (format.fields_terminated, &mut made.fields_terminated),
            (format.lines_starting, &mut made.lines_starting),
            (format.lines_terminated, &mut made.lines_terminated),
        ];
        for (number, text) in texts {
            if let Some(number) = number {
                *text = self.literal_value(number)?.to_bytes().into_owned().into();
            }
        }
        for (number, byte) in
            [(format.enclosed, &mut made.enclosed), (format.escaped, &mut made.escaped)]
        {
            if let Some(number) = number {
                *byte = match *self.literal_value(number)?.to_bytes() {
                    [] => None,
                    [byte] => Some(byte),
                    _ => return Err(SqlError::wrong_terminators()),
                };
            }
        }
        Ok(made)
    }
}

/// Whether a subquery's value may differ from row to row. Subqueries of LOAD DATA are run once,
/// before the first row.
fn has_subquery_of_row(value: &Expr) -> bool {
    value.any(&|e| matches!(&e.kind, ExprKind::Subquery(q) if q.dependent || q.body.volatile))
}

fn column(target: &LoadTarget) -> Option<usize> {
    match target {
        LoadTarget::Column(column) => Some(usize::from(*column)),
        LoadTarget::Variable(_) => None,
    }
}
fn variable(target: &LoadTarget) -> Option<&str> {
    match target {
        LoadTarget::Variable(name) => Some(name),
        LoadTarget::Column(_) => None,
    }
}

fn targets(table: &TableInfo, named: &[ast::LoadTarget]) -> Result<Vec<LoadTarget>> {
    let def = &table.def;
    if named.is_empty() {
        let visible = (0..def.columns.len()).filter(|c| !def.columns[*c].invisible);
        return Ok(visible.map(|column| LoadTarget::Column(column as u16)).collect());
    }
    let target = |target: &ast::LoadTarget| match target {
        ast::LoadTarget::Variable(name) => Ok(LoadTarget::Variable(name.as_str().into())),
        ast::LoadTarget::Column(name) => {
            let other = |given: &Option<String>, own: &str| {
                given.as_deref().is_some_and(|given| given != own)
            };
            let found = table
                .column(&name.column)
                .filter(|_| !other(&name.table, &def.name) && !other(&name.schema, &def.schema));
            found.map(|column| LoadTarget::Column(column as u16)).ok_or_else(|| {
                SqlError::unknown_column(super::scope::written(name), Clause::Fields.name())
            })
        }
    };
    named.iter().map(target).collect()
}

/// Checks that rows of fixed widths can be told apart.
fn check_format(table: &TableInfo, format: &TextFormat, targets: &[LoadTarget]) -> Result<()> {
    let is_blob = |column: usize| {
        matches!(table.def.columns[column].ty, SqlType::Text { .. } | SqlType::Blob { .. })
    };
    if format.fields_terminated.is_empty()
        && format.lines_terminated.is_empty()
        && targets.iter().filter_map(column).any(is_blob)
    {
        return Err(SqlError::blobs_and_no_terminator());
    }
    if format.is_fixed() && targets.iter().any(|target| variable(target).is_some()) {
        return Err(SqlError::fixed_rows_to_variable());
    }
    Ok(())
}
