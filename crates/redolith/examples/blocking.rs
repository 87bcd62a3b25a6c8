//! A bank, with blocking calls: `cargo run -p redolith --example blocking -- DIRECTORY`
use redolith::{Database, Error, Result, TableDefinition};
const ACCOUNTS: TableDefinition<String, i64> = TableDefinition::new("accounts");

pub fn run(directory: &str) -> Result<Vec<(String, i64)>> {
    let db = Database::open(directory)?;
    let accounts = db.table(ACCOUNTS)?;
    let t = db.begin();
    t.insert(&accounts, "Ada", 100)?;
    t.insert(&accounts, "Grace", 200)?;
    t.commit()?; // From here on no crash loses it.

    // A transfer locks two rows; after a deadlock with another transfer it runs again.
    db.transact(|t| {
        let grace = t.get_for_update(&accounts, "Grace")?.unwrap_or(0);
        let ada = t.get_for_update(&accounts, "Ada")?.ok_or(Error::other("Ada has gone"))?;
        t.put(&accounts, "Grace", grace - 50)?;
        t.put(&accounts, "Ada", ada + 50)
    })?;
    let rows = db.snapshot().range(&accounts, "A"..)?.rev().collect::<Result<_>>()?;
    db.close()?;
    Ok(rows)
}

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or("bank".into());
    println!("{:?}", run(&directory)?);
    Ok(())
}
