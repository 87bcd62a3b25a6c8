//! Programs that the lab starts.
//!
//! - **CHILD-1** No child outlives the lab, however the lab ends: each child is started through
//!   `setpriv --pdeathsig KILL`, and dies with the thread that started it. So only the lab's main
//!   thread starts children.
//! - **CHILD-2** Each child leads a process group, so that Ctrl-C at the terminal reaches the lab
//!   alone. The lab ends a child by its group, never by its name.
use crate::failure::{Failure, Result, failed};
use crate::stop::{LOOK, Stop};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

pub struct Child {
    /// The program, for messages.
    name: String,
    inner: std::process::Child,
    lines: Option<Receiver<String>>,
}

fn command(words: &[String]) -> Command {
    let mut c = Command::new("setpriv");
    c.args(["--pdeathsig", "KILL"]).args(words).stdin(Stdio::null()).process_group(0);
    c
}

fn read_lines(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_string();
            line.clear();
            if to.send(text).is_err() {
                return;
            }
        }
    });
}

impl Child {
    /// Starts a program whose output is appended to a file.
    pub fn with_output_in(words: &[String], file: &Path) -> Result<Child> {
        let start = || {
            let out = File::options().create(true).append(true).open(file)?;
            command(words).stdout(out.try_clone()?).stderr(out).spawn()
        };
        Ok(Child {
            inner: start().map_err(failed(&words[0]))?,
            lines: None,
            name: words[0].clone(),
        })
    }

    /// Starts a program whose standard output and standard error are read line by line.
    pub fn with_lines(words: &[String]) -> Result<Child> {
        let mut inner = command(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed(&words[0]))?;
        let (to, lines) = channel();
        if let Some(out) = inner.stdout.take() {
            read_lines(out, to.clone());
        }
        if let Some(err) = inner.stderr.take() {
            read_lines(err, to);
        }
        Ok(Child { inner, lines: Some(lines), name: words[0].clone() })
    }

    pub fn pid(&self) -> u32 {
        self.inner.id()
    }

    pub fn alive(&mut self) -> bool {
        matches!(self.inner.try_wait(), Ok(None))
    }

    /// The next line of the child's output. `None` at the end.
    pub fn line(&mut self, stop: &Stop, until: Instant) -> Result<Option<String>> {
        let Some(lines) = &self.lines else { return Ok(None) };
        loop {
            stop.check()?;
            match lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                    return Err(Failure::Failed(format!("{} did not end in time", self.name)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Waits until the child ends. After `limit`, kills it and returns `None`.
    pub fn wait(&mut self, stop: &Stop, limit: Duration) -> Result<Option<ExitStatus>> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.inner.try_wait().map_err(failed(&self.name))? {
                return Ok(Some(status));
            }
            if Instant::now() > until {
                self.kill();
                return Ok(None);
            }
            stop.pause(LOOK)?;
        }
    }

    /// Asks the child to end, and kills it after `limit`.
    pub fn end(&mut self, limit: Duration) {
        self.signal(Signal::TERM);
        let _ = self.wait(&Stop::default(), limit);
        self.kill();
    }

    /// Sends SIGKILL to the child's group, and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.inner.wait();
    }

    fn signal(&mut self, signal: Signal) {
        // The process id of a child that has been waited for may belong to another process.
        if self.alive()
            && let Some(group) = Pid::from_raw(self.pid() as i32)
        {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a program to its end and returns its output. An exit status other than 0 is a failure.
pub fn run(words: &[String], stop: &Stop, limit: Duration) -> Result<String> {
    let until = Instant::now() + limit;
    let mut child = Child::with_lines(words)?;
    let mut out = String::new();
    while let Some(line) = child.line(stop, until)? {
        out.push_str(&line);
        out.push('\n');
    }
    match child.wait(stop, until.saturating_duration_since(Instant::now()))? {
        Some(status) if status.success() => Ok(out),
        Some(status) => Err(Failure::Failed(format!(
            "{} ended with {}:\n{}",
            words.join(" "),
            describe(status),
            tail(&out, 1500)
        ))),
        None => Err(Failure::Failed(format!("{} did not end in time", words[0]))),
    }
}

pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}

/// The end of a text, at most `bytes` bytes.
pub fn tail(text: &str, bytes: usize) -> &str {
    let text = text.trim_end();
    let from = text.len().saturating_sub(bytes);
    text.char_indices().find(|(i, _)| *i >= from).map_or("", |(i, _)| &text[i..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<String> {
        line.iter().map(|w| w.to_string()).collect()
    }
    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn output_and_status() {
        let stop = Stop::default();
        let both = run(&words(&["sh", "-c", "echo one; echo two >&2"]), &stop, LIMIT).unwrap();
        assert!(["one\ntwo\n", "two\none\n"].contains(&&both[..]), "{both:?}");
        let why =
            run(&words(&["sh", "-c", "echo no; exit 3"]), &stop, LIMIT).unwrap_err().to_string();
        assert!(why.contains("status 3") && why.ends_with("no"), "{why}");
        let why = run(&words(&["sleep", "60"]), &stop, Duration::from_millis(50))
            .unwrap_err()
            .to_string();
        assert_eq!(why, "sleep did not end in time");
    }

    /// Tests CHILD-2.
    #[test]
    fn a_dropped_child_takes_its_group_with_it() {
        let mut child =
            Child::with_lines(&words(&["sh", "-c", "sleep 600 & echo $!; wait"])).unwrap();
        let grandchild = child.line(&Stop::default(), Instant::now() + LIMIT).unwrap().unwrap();
        assert!(child.alive());
        drop(child);
        // The process may be a zombie until init has waited for it.
        let state =
            || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        let gone = |s: String| s.is_empty() || s.contains(") Z ");
        assert!((0..6000).any(|_| {
            std::thread::sleep(LOOK);
            gone(state())
        }));
    }

    #[test]
    fn tails() {
        assert_eq!(
            (tail("abc\n", 2), tail("abc", 9), tail("", 3), tail("aé", 1)),
            ("bc", "abc", "", "")
        );
    }
}
