//! Every operation of a fixed run goes wrong once in each of eight ways. `EVERY_IO=n` takes only
//! every n-th operation (1: all); `IO=n HARM=name` repeats one case.
use redolith_sim::every_io::{HARMS, Outcome, Outcomes, operations, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Tests REDO-1 and REDO-3.
#[test]
fn every_operation_goes_wrong_once() {
    if let Some(n) = env("IO") {
        let name = std::env::var("HARM").expect("IO is set, and HARM is not");
        let harm = HARMS.into_iter().find(|h| format!("{h:?}") == name).expect("one of the eight");
        println!("{:?}", run(n, &operations()[n as usize - 1].1, harm));
        return;
    }
    let step = env("EVERY_IO").unwrap_or(40);
    let operations = operations();
    let total = operations.len();
    let cases: Vec<_> =
        (1..=total as u64).step_by(step as usize).flat_map(|n| HARMS.map(|h| (n, h))).collect();
    let (next, outcomes, failed) =
        (AtomicUsize::new(0), Mutex::new(Outcomes::new()), Mutex::new(Vec::new()));
    let older = Mutex::new(Vec::new());
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |n| n.get()) {
            s.spawn(|| {
                while let Some((n, harm)) = cases.get(next.fetch_add(1, Relaxed)) {
                    let (kind, path) = &operations[*n as usize - 1];
                    match std::panic::catch_unwind(|| run(*n, path, *harm)) {
                        Ok(outcome) => {
                            *outcomes.lock().unwrap().entry((*harm, outcome)).or_default() += 1;
                            if outcome == Outcome::Older {
                                older.lock().unwrap().push(format!(
                                    "IO={n} HARM={harm:?}: {kind:?} {}",
                                    path.display()
                                ));
                            }
                        }
                        Err(e) => {
                            let why = e
                                .downcast_ref::<String>()
                                .cloned()
                                .or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()));
                            failed.lock().unwrap().push((
                                *n,
                                *harm,
                                *kind,
                                path.clone(),
                                why.unwrap_or_default(),
                            ));
                        }
                    }
                }
            });
        }
    });
    let _ = std::panic::take_hook();
    println!(
        "{} of {total} operations, each in {} ways: {:?}",
        cases.len() / HARMS.len(),
        HARMS.len(),
        outcomes.lock().unwrap()
    );
    println!("older rows after lies of the disk: {:#?}", older.lock().unwrap());
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} fail; repeat one with IO=n HARM=name: {:#?}",
        failed.len(),
        &failed[..failed.len().min(10)]
    );
}
