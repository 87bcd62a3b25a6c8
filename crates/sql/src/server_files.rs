//! Files of the server's machine that statements read and write: LOAD DATA INFILE and INTO OUTFILE.
//!
//! **SECURE-1** `secure_file_priv` bounds what statements reach. NULL, the default, refuses every
//! file; a folder allows the files below it; the empty text allows every file that the server's
//! user may read.
//! **SECURE-2** What is checked is the path without symbolic links and `..`, and the file is opened
//! by that path in a way that follows no link. So nobody can lead a statement out of the folder,
//! not even while it opens the file.
//! **SECURE-3** No statement replaces a file, and a statement that fails leaves no file behind.
use crate::error::{Result, SqlError};
use crate::exec::Env;
use crate::settings::Var;
use redolith_disk::File;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens a file to read it.
pub fn open(env: &Env<'_>, name: &[u8]) -> Result<Arc<dyn File>> {
    let path = allowed(env, name)?;
    let shown = path.display();
    let path = env.disk.resolve(&path).map_err(|e| SqlError::cannot_stat(&shown, why(&e)))?;
    check(env, &path)?;
    env.disk.open_resolved(&path, false).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput => SqlError::file_not_readable(shown),
        _ => SqlError::cannot_open(shown, why(&e)),
    })
}

/// The path that a statement names. A path that cannot be below the allowed folder is refused here,
/// so that nobody learns which files exist elsewhere.
fn allowed(env: &Env<'_>, name: &[u8]) -> Result<PathBuf> {
    let settings = env.database.map(|database| &database.settings);
    let folder = folder(env)?;
    let data = settings.and_then(|s| s.text(Var::Datadir)).unwrap_or_else(|| ".".into());
    // A relative path begins at the data directory, as in MySQL.
    let path = Path::new(&*data).join(OsStr::from_bytes(name));
    let Some(folder) = folder else { return Ok(path) };
    // The nearest folder that exists tells where the path leads.
    let exists = path.ancestors().find_map(|path| env.disk.resolve(path).ok());
    match exists {
        Some(exists) if exists.starts_with(&folder) => Ok(path),
        _ => Err(SqlError::secure_file_priv()),
    }
}
fn check(env: &Env<'_>, path: &Path) -> Result<()> {
    match folder(env)? {
        Some(folder) if !path.starts_with(&folder) => Err(SqlError::secure_file_priv()),
        _ => Ok(()),
    }
}
/// The folder of `secure_file_priv`, without symbolic links; `None`: every file is allowed.
fn folder(env: &Env<'_>) -> Result<Option<PathBuf>> {
    let text = env.database.and_then(|database| database.settings.text(Var::SecureFilePriv));
    match text.as_deref() {
        Some("") => Ok(None),
        Some(folder) if !folder.eq_ignore_ascii_case("NULL") => {
            let folder = env.disk.resolve(Path::new(folder));
            folder.map(Some).map_err(|_| SqlError::secure_file_priv())
        }
        _ => Err(SqlError::secure_file_priv()),
    }
}

/// The cause of an error, as MySQL words it.
fn why(e: &io::Error) -> String {
    let text = e.to_string();
    match e.raw_os_error() {
        Some(number) => {
            let text = text.split(" (os error").next().unwrap_or(&text);
            format!("OS errno {number} - {text}")
        }
        None => text,
    }
}

/// A file that a statement writes.
pub struct NewFile {
    pub file: Arc<dyn File>,
    path: PathBuf,
}
impl NewFile {
    /// Removes the file of a statement that has failed.
    pub fn remove(&self, env: &Env<'_>) {
        if let Err(e) = env.disk.remove(&self.path) {
            tracing::warn!("the file of a statement that failed stays: {e}");
        }
    }
}

/// Makes a file, which must not exist yet.
pub fn create(env: &Env<'_>, name: &[u8]) -> Result<NewFile> {
    let cannot = |why: String| {
        let name = String::from_utf8_lossy(name);
        SqlError::new(1, format!("Can't create/write to file '{name}' ({why})"))
    };
    let path = allowed(env, name)?;
    let (Some(folder), Some(file_name)) = (path.parent(), path.file_name()) else {
        return Err(cannot("it has no name".into()));
    };
    let folder = env.disk.resolve(folder).map_err(|e| cannot(why(&e)))?;
    check(env, &folder)?;
    let path = folder.join(file_name);
    let file = env.disk.open_resolved(&path, true).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => SqlError::file_exists(String::from_utf8_lossy(name)),
        _ => cannot(why(&e)),
    })?;
    Ok(NewFile { file, path })
}
