//! The baseline of the benchmarks: a server that speaks the part of MySQL's protocol that
//! sysbench's oltp scripts need, makes commits durable in groups, and stores nothing. A real server
//! on the same machine can at best come close to its figures.
//!
//!     redolith-baseline --datadir=DIR --socket=PATH [--pace-us=N]
//!
//! `--pace-us` delays each flush by this many microseconds, so that more commits share it
//! (docs/decisions/002-flushes-are-rarely-held.md).
#![forbid(unsafe_code)]
mod group;
mod session;

use group::Group;
use session::{Answer, Session};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

struct Options {
    datadir: String,
    socket: String,
    pace: Duration,
}

fn options() -> Result<Options, String> {
    let (mut datadir, mut socket, mut pace_us) = (None, None, 0);
    for arg in std::env::args().skip(1) {
        match arg.split_once('=') {
            Some(("--datadir", v)) => datadir = Some(v.to_string()),
            Some(("--socket", v)) => socket = Some(v.to_string()),
            Some(("--pace-us", v)) => {
                pace_us = v.parse().map_err(|_| format!("--pace-us={v}: not a number"))?
            }
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    let missing = "redolith-baseline --datadir=DIR --socket=PATH [--pace-us=N]";
    Ok(Options {
        datadir: datadir.ok_or(missing)?,
        socket: socket.ok_or(missing)?,
        pace: Duration::from_micros(pace_us),
    })
}

fn main() -> ExitCode {
    let run = || -> Result<(), String> {
        let o = options()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|e| e.to_string())?;
        runtime.block_on(serve(o)).map_err(|e| e.to_string())
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(o: Options) -> io::Result<()> {
    let group = Arc::new(Group::create(&o.datadir, o.pace)?);
    if let Err(e) = std::fs::remove_file(&o.socket)
        && e.kind() != io::ErrorKind::NotFound
    {
        return Err(e);
    }
    let listener = UnixListener::bind(&o.socket)?;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = terminate.recv() => return Ok(()),
        };
        let group = group.clone();
        tokio::spawn(async move {
            // A client that disconnects ends its task. The error is not reported.
            let _ = connection(stream, &group).await;
        });
    }
}

/// Reads packets, answers all that have arrived, and writes the answers together.
async fn connection(mut stream: UnixStream, group: &Group) -> io::Result<()> {
    let (mut session, mut input, mut output) =
        (Session::default(), Vec::with_capacity(4096), Vec::with_capacity(4096));
    session::greet(&mut output);
    stream.write_all(&output).await?;
    while stream.read_buf(&mut input).await? > 0 {
        output.clear();
        let mut taken = 0;
        while let Some(body) = session::body(&input[taken..]) {
            taken += body.len() + session::HEADER;
            match session.answer(body, &mut output) {
                Answer::Written => {}
                Answer::Commit => {
                    group.commit().await;
                    session::ok(1, &mut output);
                }
                Answer::Quit => return Ok(()),
            }
        }
        input.drain(..taken);
        if !output.is_empty() {
            stream.write_all(&output).await?;
        }
    }
    Ok(())
}
