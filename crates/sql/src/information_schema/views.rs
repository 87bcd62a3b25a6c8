//! Makes the rows about views.
use super::{place, text};
use redolith_engine::Engine;
use redolith_engine::dict::view::{CheckOption, View};
use redolith_types::Value;
use std::sync::Arc;

/// All views of all databases, in the order of their names.
pub(super) fn all(engine: &Engine) -> Vec<Arc<View>> {
    engine.dict.schemas().into_iter().flat_map(|s| engine.dict.views(&s)).collect()
}

/// The rows of VIEWS.
pub(super) fn views(engine: &Engine) -> impl Iterator<Item = Vec<Value<'static>>> {
    let row = |view: Arc<View>| {
        let def = &view.def;
        let mut row = place(&def.def);
        row.extend([
            text(&def.select),
            text(match def.check {
                CheckOption::None => "NONE",
                CheckOption::Local => "LOCAL",
                CheckOption::Cascaded => "CASCADED",
            }),
            text(if def.updatable { "YES" } else { "NO" }),
            text(format!("{}@{}", def.definer.0, def.definer.1)),
            text(if def.invoker { "INVOKER" } else { "DEFINER" }),
            text(def.charset_client.charset().name()),
            text(def.collation_connection.name()),
        ]);
        row
    };
    all(engine).into_iter().map(row)
}

/// The rows of TABLES: a view has nothing but its name.
pub(super) fn tables(engine: &Engine) -> impl Iterator<Item = Vec<Value<'static>>> {
    let row = |view: Arc<View>| {
        let mut row = place(&view.def.def);
        row.push(text("VIEW"));
        row.resize(row.len() + 16, Value::Null);
        row.push(text("VIEW"));
        row
    };
    all(engine).into_iter().map(row)
}
