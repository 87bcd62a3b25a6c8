//! Records that belong to no transaction. Their callers wait until the files are up to them.
use super::follow::either;
use super::{Binlog, Why};
use crate::record::{Options, Record};
use redolith_engine::{Engine, Error, Result};
use std::sync::atomic::Ordering::{Acquire, Release};

impl Binlog {
    /// Begins another file, and returns when it is there.
    pub async fn rotate(&self, engine: &Engine, why: Why, options: Options) -> Result<()> {
        // Files of another data directory stay: a new directory's have higher numbers. Later the
        // files may be those before a reset whose record is on its way.
        let after = match why {
            Why::Start => self.work.lock().files.numbers().last().copied().unwrap_or(0),
            Why::Flush => 0,
        };
        self.order(engine, Record::Rotate { why, us: self.now_us(), after, options }).await
    }
    /// Appends a record that belongs to no transaction, and returns when the files are up to it.
    pub(super) async fn order(&self, engine: &Engine, record: Record<'_>) -> Result<()> {
        let end = engine.append_record(&record.encode()).await?;
        engine.store.log.flush_to(end).await;
        self.catch_up(end).await;
        Ok(())
    }

    /// Ends the file with a STOP event, and the task. No transaction may come afterwards. An error
    /// says what the disk refuses: the next start makes the files from the redo log.
    pub async fn stop(&self, engine: &Engine) -> Result<()> {
        let mut ordered = Ok(());
        let stop = async { ordered = self.order(engine, Record::Stop { us: self.now_us() }).await };
        // A full disk does not hold the server.
        either(stop, self.until(|me| me.failed.lock().is_some())).await;
        ordered?;
        // The task takes what is durable, and after it the engine's last checkpoint passes all.
        engine.store.log.flush_to(engine.store.log.tail()).await;
        self.closing.store(true, Release);
        self.wanted.wake();
        self.until(|me| me.ended.load(Acquire)).await;
        match &*self.failed.lock() {
            None => Ok(()),
            Some(why) => {
                let (what, why) = ("writing the binary log".into(), why.clone());
                Err(Error::Io { what, why, full: false })
            }
        }
    }
    /// Resolves when `is_so`, which the task tells by waking those who wait for `moved`.
    async fn until(&self, is_so: impl Fn(&Binlog) -> bool) {
        loop {
            let seen = self.moved.seen();
            if is_so(self) {
                return;
            }
            self.moved.after(seen).await;
        }
    }
    /// Makes everything so far durable in the files: a start does not make it again.
    pub async fn barrier(&self, engine: &Engine) -> Result<()> {
        self.order(engine, Record::Barrier).await?;
        engine.runtime.work_long(&mut || self.store_state(|| engine.store_stream_state()));
        Ok(())
    }
}
