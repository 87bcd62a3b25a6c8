//! Measurements, with calls to await: `cargo run -p redolith --example asynchronous -- DIRECTORY`
use redolith::{Durability, Result, TableDefinition, asynchronous::Database};
const READINGS: TableDefinition<(String, u64), f64> = TableDefinition::new("readings");

pub async fn run(directory: &str) -> Result<Vec<f64>> {
    let db = Database::open(directory).await?;
    let readings = db.table(READINGS).await?;
    let mut t = db.begin();
    for (second, celsius) in [(1, 21.5), (2, 21.75), (3, 22.0)] {
        t.put(&readings, ("cellar", second), celsius).await?;
    }
    t.commit_with(Durability::Eventual).await?; // Visible at once, on the disk within a second.

    let mut newest_first = Vec::new();
    let mut snapshot = db.snapshot();
    let mut rows = snapshot.range(&readings, ("cellar", 2)..=("cellar", u64::MAX))?;
    while let Some((_, celsius)) = rows.next_back(&mut snapshot).await? {
        newest_first.push(celsius);
    }
    drop(snapshot);
    db.close().await?;
    Ok(newest_first)
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or("readings".into());
    println!("{:?}", run(&directory).await?);
    Ok(())
}
