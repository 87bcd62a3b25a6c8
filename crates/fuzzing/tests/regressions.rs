//! Runs every input of the corpus, and every input that ever failed, through its target.
use redolith_fuzzing::{TARGETS, Target};
use std::path::Path;

/// An input that takes longer than this is taken to hang.
const HANGS_S: u64 = 60;

/// The inputs in a folder, with their names. The folder may be missing or empty.
#[allow(clippy::disallowed_methods)] // a test of its own files
fn inputs(folder: &str, target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder).join(target);
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .map(|e| e.unwrap().path())
        .map(|p| (p.display().to_string(), std::fs::read(&p).unwrap()))
        .collect()
}

/// The default stack of the server's threads.
const STACK_BYTES: usize = 2 * redolith_sql::LEAST_STACK_BYTES;

/// Runs an input on a thread with a stack as long as the server's threads have.
fn run(target: &'static Target, name: &str, input: Vec<u8>) {
    let (sender, done) = std::sync::mpsc::channel();
    let body = move || {
        (target.run)(&input);
        let _ = sender.send(());
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body).unwrap();
    match done.recv_timeout(std::time::Duration::from_secs(HANGS_S)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{}: {name} hangs", target.name),
        _ => assert!(thread.join().is_ok(), "{}: {name} fails", target.name),
    }
}

#[test]
fn inputs_that_failed_do_not_fail_again() {
    for target in TARGETS {
        for (name, input) in inputs("regressions", target.name) {
            run(target, &name, input);
        }
    }
}

#[test]
fn seeds_and_corpus_are_harmless() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has inputs to begin with", target.name);
        for (n, input) in seeds.into_iter().enumerate() {
            run(target, &format!("seed {n}"), input);
        }
        for (name, input) in inputs("corpus", target.name) {
            run(target, &name, input);
        }
    }
}
