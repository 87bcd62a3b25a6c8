//! The server's space for temporary files: its settings and its counters.
use crate::settings::{Settings, Var};
use crate::status::{Status, StatusValue};
use redolith_engine::temporary::TemporarySpace;
use std::path::Path;
use std::sync::Arc;

/// The space in the folder `tmpdir`, with at most `redolith_temporary_space` bytes.
pub fn temporary_space(settings: &Settings, status: &Status) -> Arc<TemporarySpace> {
    let dir = settings.text(Var::Tmpdir).unwrap_or_else(|| "/tmp".into());
    let space = TemporarySpace::new(Path::new(&*dir), 0);
    let bounded = space.clone();
    settings.on_change(Var::RedolithTemporarySpace, move |bytes| bounded.set_limit(bytes));
    let (told, reset) = (space.clone(), space.clone());
    status.register(Box::new(move |put| {
        put("Created_tmp_files", StatusValue::Int(told.files()));
        put("Redolith_temporary_space_used", StatusValue::Int(told.used()));
        put("Sort_merge_passes", StatusValue::Int(told.merge_passes()));
    }));
    status.on_reset(Box::new(move || reset.reset_counts()));
    space
}
