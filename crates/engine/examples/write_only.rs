//! The engine's part of sysbench's oltp_write_only, without protocol and SQL: CPU per transaction.
//!
//! `cargo run --release -p redolith-engine --example write_only -- [transactions] [threads]
//! [durable: 0|1]`
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, DEFAULT_COLLATION, Engine, Result, Trx};
use redolith_types::sql_type::{IntSize, Sign};
use redolith_types::{Collation, Column, IndexDef, SqlType, TableDef, Value};
use std::borrow::Cow;
use std::sync::Arc;

const ROWS: u64 = 25_000;
const LOCK: Read = Read::Locking { mode: Mode::X, conflict: OnConflict::Wait };

fn def(n: usize) -> TableDef {
    let int = SqlType::Int { size: IntSize::Int, sign: Sign::SIGNED, display: None };
    let text = |chars| SqlType::Char { chars, collation: Collation::Latin1SwedishCi };
    TableDef {
        schema: "bench".into(),
        name: format!("sbtest{n}"),
        columns: vec![
            Column::new("id", int.clone()).not_null(),
            Column::new("k", int).not_null(),
            Column::new("c", text(120)).not_null(),
            Column::new("pad", text(60)).not_null(),
        ],
        indexes: vec![IndexDef::primary([0]), IndexDef::secondary("k", false, [1])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    }
}
struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
    fn digits(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|i| if i % 12 == 11 { b'-' } else { b'0' + self.below(10) as u8 }).collect()
    }
}
struct Session {
    trx: Trx,
    cursors: Vec<Cursor>,
    tables: Vec<Arc<Table>>,
    rng: Rng,
    key: Vec<u8>,
    new: Vec<u8>,
}
impl Session {
    async fn find(&mut self, t: usize, id: i64) -> Result<bool> {
        self.key.clear();
        self.tables[t].clustered().key.encode_values(&[Value::Int(id)], &mut self.key);
        self.cursors[t].reset(&self.key, None, true);
        self.cursors[t].next(&mut self.trx).await
    }
    async fn change(&mut self, t: usize, id: i64, column: usize, value: Value<'_>) -> Result<()> {
        if self.find(t, id).await? {
            let row = self.cursors[t].row();
            let value = match (column, self.tables[t].layout.get(row.stored, column)) {
                (1, Value::Int(k)) => Value::Int(k + 1),
                _ => value,
            };
            self.new.clear();
            self.tables[t].layout.update(row.stored, &[(column, value)], &mut self.new);
            self.trx.update(&self.tables[t], row, &self.new).await?;
        }
        Ok(())
    }
    async fn transaction(&mut self) -> Result<()> {
        let t = self.rng.below(8) as usize;
        let id = |r: &mut Rng| 1 + r.below(ROWS) as i64;
        let a = id(&mut self.rng);
        self.change(t, a, 1, Value::Null).await?;
        let (b, c) = (id(&mut self.rng), self.rng.digits(119));
        self.change(t, b, 2, Value::Bytes(Cow::Owned(c))).await?;
        let d = id(&mut self.rng);
        if self.find(t, d).await? {
            self.trx.delete(&self.tables[t], self.cursors[t].row()).await?;
        }
        let row = new_row(&self.tables[t], d, &mut self.rng);
        self.trx.insert(&self.tables[t], &row).await
    }
}
fn new_row(t: &Table, id: i64, rng: &mut Rng) -> Vec<u8> {
    let (k, c, pad) = (1 + rng.below(ROWS) as i64, rng.digits(119), rng.digits(59));
    let mut out = Vec::new();
    t.layout.encode(
        &[
            Value::Int(id),
            Value::Int(k),
            Value::Bytes(Cow::Owned(c)),
            Value::Bytes(Cow::Owned(pad)),
        ],
        &mut out,
    );
    out
}

fn main() -> Result<()> {
    let arg =
        |n: usize, or: u64| std::env::args().nth(n).and_then(|a| a.parse().ok()).unwrap_or(or);
    let (count, threads, durable) = (arg(1, 200_000), arg(2, 1), arg(3, 0) == 1);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let dir = std::path::PathBuf::from("write-only-data");
    let mut config = Config::new(&dir);
    config.pool_bytes = 1 << 30;
    config.log_buffer_bytes = 64 << 20;
    let runtime = Threads::new(disk.clone());
    let (engine, report) = block_on(Engine::open(config, disk.clone(), runtime))?;
    println!("{report}");
    if report.created {
        block_on(async {
            engine.create_schema("bench", DEFAULT_COLLATION, None).await?;
            let mut rng = Rng(1);
            for n in 0..8 {
                let t = engine.create_table(def(n), 1, None).await?;
                let mut trx = engine.begin(KillFlag::new());
                for id in 1..=ROWS as i64 {
                    trx.insert(&t, &new_row(&t, id, &mut rng)).await?;
                }
                trx.commit().await?.durable().await;
            }
            Ok::<_, redolith_engine::Error>(())
        })?;
    }
    let begun = disk.now();
    let workers: Vec<_> = (0..threads)
        .map(|n| {
            let engine = engine.clone();
            std::thread::spawn(move || {
                block_on(async {
                    let mut tables = Vec::new();
                    for i in 0..8 {
                        tables.push(
                            engine
                                .table("bench", &format!("sbtest{i}"))
                                .await?
                                .expect("made above"),
                        );
                    }
                    let cursors =
                        tables.iter().map(|t| Cursor::point(t.clone(), Vec::new(), LOCK)).collect();
                    let mut s = Session {
                        trx: engine.begin(KillFlag::new()),
                        cursors,
                        tables,
                        rng: Rng(n + 99),
                        key: Vec::new(),
                        new: Vec::new(),
                    };
                    for _ in 0..count / threads {
                        match s.transaction().await {
                            Ok(()) => {
                                let ticket = s.trx.commit().await?;
                                if durable {
                                    ticket.durable().await;
                                }
                            }
                            Err(_) => s.trx.rollback().await?,
                        }
                    }
                    Ok::<_, redolith_engine::Error>(())
                })
            })
        })
        .collect();
    for w in workers {
        w.join().expect("a worker")?;
    }
    let time = (disk.now() - begun).as_secs_f64();
    println!(
        "{count} transactions in {time:.2} s: {:.0}/s, {:.2} us each; history {}",
        count as f64 / time,
        time * 1e6 / count as f64,
        engine.history.len()
    );
    engine.store.log.counters(|n, v| {
        if v > 0 {
            println!("  {n:40} {v}")
        }
    });
    block_on(engine.close())
}
