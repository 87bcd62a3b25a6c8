//! LOAD DATA.
use super::dml::Assignment;
use crate::text_file::TextFormat;
use redolith_types::Collation;

#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The file's name, as bytes.
    pub file: Box<[u8]>,
    /// The client has the file.
    pub local: bool,
    /// The default collation of the file's character set.
    pub collation: Collation,
    pub format: TextFormat,
    /// The number of lines that are not read.
    pub skip: u64,
    /// What takes the fields of a row, in their order.
    pub targets: Vec<LoadTarget>,
    /// SET, which follows the fields. The expressions see the columns that were set before.
    pub set: Vec<Assignment>,
    /// The fields go into columns in the table's order, and nothing else is set.
    pub in_order: bool,
    /// SET reads columns of the row.
    pub names_columns: bool,
    /// Some separators are not ASCII.
    pub warns_of_separators: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadTarget {
    Column(u16),
    Variable(Box<str>),
}
