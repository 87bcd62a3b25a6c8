//! The limits of MySQL and InnoDB for statements and definitions, which clients know. The parser
//! checks them while it reads a list, so that it keeps nothing beyond them.

/// Characters of a name.
pub const MAX_NAME_CHARS: usize = 64;
/// Columns of a table.
pub const MAX_COLUMNS: usize = 1017;
/// Columns of a JSON_TABLE, as of MySQL's temporary tables.
pub const MAX_JSON_TABLE_COLUMNS: usize = 4096;
/// Indexes of a table.
pub const MAX_INDEXES: usize = 64;
/// Columns of an index.
pub const MAX_KEY_PARTS: usize = 16;
pub const MAX_ENUM_MEMBERS: usize = 65_535;
pub const MAX_SET_MEMBERS: usize = 64;
/// FROM items of one SELECT.
pub const MAX_TABLES: usize = 61;
/// The most levels of the trees of views within views, as of definitions of WITH.
pub const MAX_VIEW_HEIGHT: u32 = super::parser::MAX_DEPTH * super::parser::SELECT_LEVELS;
/// Columns of a result: the protocol counts them in 16 bits.
pub const MAX_ITEMS: usize = 65_535;
