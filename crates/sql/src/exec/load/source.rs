//! Where the bytes of LOAD DATA come from: a file of the server, or the client.
use super::super::ExecContext;
use super::super::scan::check_killed;
use crate::error::{Result, SqlError};
use crate::plan::LoadPlan;
use crate::server_files;
use crate::settings::Var;
use crate::sink::ResultSink;
use redolith_disk::File;
use std::sync::Arc;

/// The bytes that are read at a time. A row that is longer takes as many bytes again as are held of
/// it, so that it is not split again too often.
pub const PIECE: usize = 256 << 10;

pub struct Source<'s, S> {
    from: From<'s, S>,
    has_ended: bool,
}
enum From<'s, S> {
    File { file: Arc<dyn File>, at: u64, len: u64 },
    Client(&'s mut S),
}

impl<'s, S: ResultSink> Source<'s, S> {
    pub async fn open(
        cx: &mut ExecContext<'_>,
        load: &LoadPlan,
        client: &'s mut S,
    ) -> Result<Source<'s, S>> {
        let from = if load.local {
            let is_on = cx.env.database.is_some_and(|db| db.settings.is_on(Var::LocalInfile));
            if !is_on || !client.takes_files() {
                return Err(SqlError::local_infile_disabled());
            }
            client.ask_for_file(&load.file).await?;
            From::Client(client)
        } else {
            // INFILE-2: to open a file may take long.
            cx.env.leave_worker();
            let file = server_files::open(&cx.env, &load.file)?;
            let len = file.len().map_err(|e| failed(load, &e))?;
            From::File { file, at: 0, len }
        };
        Ok(Source { from, has_ended: false })
    }

    /// Whether no byte is left.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Appends the next bytes to `bytes`. `counted` is what is charged for them and for `beside`
    /// bytes.
    pub async fn read(
        &mut self,
        cx: &mut ExecContext<'_>,
        bytes: &mut Vec<u8>,
        counted: &mut usize,
        beside: usize,
    ) -> Result<()> {
        let piece = PIECE.max(bytes.len());
        if bytes.capacity() - bytes.len() < piece {
            cx.env.keep(counted, beside + bytes.len() + piece)?;
            bytes.reserve_exact(piece);
        } else if bytes.capacity() > bytes.len() + 4 * piece {
            // A long row has passed.
            bytes.shrink_to(bytes.len() + piece);
            cx.env.keep(counted, beside + bytes.capacity())?;
        }
        match &mut self.from {
            From::File { file, at, len } => {
                cx.env.leave_worker();
                let held = bytes.len();
                let more = (*len - *at).min(piece as u64) as usize;
                bytes.resize(held + more, 0);
                for part in bytes[held..].chunks_mut(PIECE) {
                    check_killed(&cx.env)?;
                    file.read_at(part, *at).map_err(|e| {
                        SqlError::new(1024, format!("Error reading the file of LOAD DATA ({e})"))
                    })?;
                    *at += part.len() as u64;
                }
                self.has_ended = at == len;
            }
            From::Client(client) => {
                // A client may send a byte at a time. The row at hand is split again only when a
                // whole piece has come.
                let held = bytes.len();
                while !self.has_ended && bytes.len() < held + piece {
                    self.has_ended = !client.read_file(bytes).await?;
                }
            }
        }
        Ok(())
    }
}

fn failed(load: &LoadPlan, e: &std::io::Error) -> SqlError {
    let name = String::from_utf8_lossy(&load.file);
    SqlError::new(1024, format!("Error reading file '{name}' ({e})"))
}
