//! The examples run, and the READMEs show them.
#[path = "../../examples/asynchronous.rs"]
#[allow(dead_code)]
mod asynchronous;
#[path = "../../examples/blocking.rs"]
#[allow(dead_code)]
mod blocking;

use crate::common::Dir;
use redolith::Error;

#[test]
fn the_blocking_example_runs() {
    let dir = Dir::new("blocking-example");
    let rows = blocking::run(dir.text()).unwrap();
    assert_eq!(rows, [("Grace".to_string(), 150), ("Ada".to_string(), 150)]);
    // What it has committed is there: the second run inserts the same accounts.
    let again = blocking::run(dir.text());
    assert!(matches!(&again, Err(Error::DuplicateKey { table, .. }) if table == "accounts"));
}

#[tokio::test]
async fn the_async_example_runs() {
    let dir = Dir::new("async-example");
    for _ in 0..2 {
        assert_eq!(asynchronous::run(dir.text()).await.unwrap(), [22.0, 21.75]);
    }
}

/// Both examples are short, and the README at the top of the tree shows the blocking one.
#[test]
fn the_examples_are_what_the_readme_shows() {
    let blocking = include_str!("../../examples/blocking.rs");
    let asynchronous = include_str!("../../examples/asynchronous.rs");
    assert!(blocking.lines().count() <= 30 && asynchronous.lines().count() <= 30);
    let readme = include_str!("../../../../README.md");
    let (_, program) = blocking.split_once('\n').unwrap();
    let (program, _) = program.split_once("\nfn main").unwrap();
    assert!(readme.contains(program.trim()), "README.md does not show:\n{program}");
}
