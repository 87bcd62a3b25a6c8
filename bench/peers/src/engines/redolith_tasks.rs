//! Redolith's library in a program with an executor: each writer is a task on tokio, with a thread
//! per CPU.
use super::redolith::Database;
use super::{Engine, Kind, Result, Shape};
use crate::load::{Load, Tally};
use redolith_disk::RealDisk;
use redolith_engine::runtime::{BoxFuture, Runtime, block_on};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

pub const KIND: Kind = Kind {
    name: "redolith-tasks",
    package: "redolith-engine",
    single_writer: false,
    settings: "the same; a task per writer on tokio, which is its runtime",
    open: |dir, shape| Ok(Box::new(Tasks::open(dir, shape)?)),
};

struct Tokio(Handle);
impl Runtime for Tokio {
    fn spawn(&self, _: &'static str, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
    fn spawn_thread(&self, name: &'static str, task: BoxFuture<()>) -> io::Result<()> {
        let runtime = self.0.clone();
        let body = move || {
            let _inside = runtime.enter();
            block_on(task)
        };
        std::thread::Builder::new().name(format!("redolith-{name}")).spawn(body).map(drop)
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep(time))
    }
    fn yield_now(&self) -> BoxFuture<()> {
        Box::pin(tokio::task::yield_now())
    }
}

struct Tasks {
    database: Database,
    runtime: tokio::runtime::Runtime,
}
impl Tasks {
    fn open(dir: &Path, shape: Shape) -> Result<Tasks> {
        let runtime = Builder::new_multi_thread().enable_time().build()?;
        let _inside = runtime.enter();
        let database = Database::open(
            dir,
            shape,
            Arc::new(RealDisk::new()),
            Arc::new(Tokio(runtime.handle().clone())),
        )?;
        drop(_inside);
        Ok(Tasks { database, runtime })
    }
}

impl Engine for Tasks {
    fn drive(&self, load: &Arc<Load>) -> Result<Tally> {
        let tasks: Vec<_> = (0..load.shape.writers)
            .map(|_| {
                let (load, mut session) = (load.clone(), self.database.session());
                self.runtime.spawn(async move {
                    let (mut course, value) = (load.course(), load.value());
                    while let Some(key) = course.begin() {
                        session.put(key, &value).await.inspect_err(|_| load.stop())?;
                        course.end();
                    }
                    Ok(course.tally())
                })
            })
            .collect();
        self.runtime.block_on(async {
            let mut all = Tally::default();
            for t in tasks {
                let tally: Result<Tally> = t.await?;
                all.add(tally?);
            }
            Ok(all)
        })
    }
    fn rows(&self) -> Result<Option<u64>> {
        let _inside = self.runtime.enter();
        self.database.rows()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.database.counters()
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Tasks { database, runtime } = *self;
        let _inside = runtime.enter();
        database.close()
    }
}
