//! Makes the rows about views.
use super::tables::place;
use super::{Asked, text};
use crate::error::Result;
use crate::exec::server_rows::Gathered;
use redolith_engine::Engine;
use redolith_engine::dict::view::CheckOption;
use redolith_types::Value;

/// The rows of VIEWS.
pub(super) async fn views(engine: &Engine, asked: Asked, out: &mut Gathered<'_>) -> Result<()> {
    for view in &asked.views {
        asked.pause(engine).await?;
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
        out.push(row)?;
    }
    Ok(())
}

/// The rows of TABLES: a view has nothing but its name.
pub(super) async fn tables(engine: &Engine, asked: Asked, out: &mut Gathered<'_>) -> Result<()> {
    for view in &asked.views {
        asked.pause(engine).await?;
        let mut row = place(&view.def.def);
        row.push(text("VIEW"));
        row.resize(row.len() + 16, Value::Null);
        row.push(text("VIEW"));
        out.push(row)?;
    }
    Ok(())
}
