//! Plans by text, for all connections.
//!
//! Prepared statements are found by their text; text statements by their *shape* (see
//! [`parameterize`](crate::parse::parameterize)) and, where plans depend on them, the text of
//! pinned literals. What a text means also depends on its [`PlanContext`].
//!
//! **CACHE-1** A plan that is not current (PLAN-2) is not given out; whoever meets it makes a new
//! one and puts it in its place.
//! **CACHE-2** The number of entries is bounded; those not used since the last sweep go first. An
//! entry that a prepared statement holds lives on with it.
//! **CACHE-3** So are their bytes, in each shard. What would take a large part of one is not kept:
//! a text statement is bound again, a prepared one is held by its handle alone. Neither are long
//! shapes kept, which hardly ever come again: rows of a dump that differ, IN lists of ever new
//! lengths.
//! **CACHE-4** Prepared statements live as long as clients want, so each is in the server's account
//! with its text and plan ([`crate::memory`]).
use crate::error::Result;
use crate::memory::{Account, ServerMemory};
use crate::parse::charsets::TextCharsets;
use crate::plan::Plan;
use crate::sql_mode::SqlMode;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::{Mutex, RwLock};
use redolith_types::{Charset, Collation};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const SHARDS: usize = 32;
/// Plans of one shape that differ by pinned literals.
const MAX_VARIANTS: usize = 16;
/// Longest shape of a text statement that is kept.
const MAX_SHAPE_BYTES: usize = 16 << 10;
/// The part of a shard that one plan may take.
const MAX_PART: usize = 4;

/// What the meaning of a text depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PlanContext {
    pub schema: Option<Arc<str>>,
    /// [`SqlMode::parsing_part`]
    pub mode: SqlMode,
    /// `@@character_set_client`: what the text is in.
    pub client: Charset,
    /// `@@collation_connection`: what its string literals are of.
    pub collation: Collation,
    pub div_precision_increment: u8,
}
impl PlanContext {
    pub fn charsets(&self) -> TextCharsets {
        TextCharsets { client: self.client, connection: self.collation.charset() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Prepared,
    Text,
}

/// A text in its context, with its plans.
#[derive(Debug)]
pub struct Entry {
    kind: Kind,
    context: PlanContext,
    /// The statement's text, or its shape.
    text: Box<[u8]>,
    used: AtomicBool,
    variants: RwLock<Variants>,
    /// Of a prepared statement: what it takes, in the server's account.
    memory: Mutex<Account>,
}

#[derive(Default, Debug)]
struct Variants {
    /// Literals that plans of this shape depend on.
    pinned: Vec<u32>,
    plans: Vec<Variant>,
    /// The next to be replaced.
    hand: usize,
}

#[derive(Debug)]
struct Variant {
    /// The text of the pinned literals.
    literals: Vec<Box<[u8]>>,
    plan: Arc<Plan>,
    bytes: usize,
}
impl Variant {
    fn new(literals: Vec<Box<[u8]>>, plan: Arc<Plan>) -> Variant {
        let bytes = plan.bytes()
            + literals.iter().map(|text| size_of_val(text) + text.len()).sum::<usize>();
        Variant { literals, plan, bytes }
    }
}

impl Variants {
    fn put(&mut self, variant: Variant) {
        if let Some(same) = self.plans.iter_mut().find(|v| v.literals == variant.literals) {
            *same = variant;
        } else if self.plans.len() < MAX_VARIANTS {
            self.plans.push(variant);
        } else {
            let hand = self.hand % MAX_VARIANTS;
            self.hand = hand + 1;
            self.plans[hand] = variant;
        }
    }
    fn bytes(&self) -> usize {
        self.plans.iter().map(|v| v.bytes).sum()
    }
}

impl Entry {
    pub fn text(&self) -> &[u8] {
        &self.text
    }
    pub fn context(&self) -> &PlanContext {
        &self.context
    }
    /// The plan of a prepared statement, if it is current.
    pub fn plan(&self) -> Option<Arc<Plan>> {
        self.variants.read().plans.first().map(|v| v.plan.clone()).filter(|p| p.is_current())
    }
    fn new(kind: Kind, context: &PlanContext, text: &[u8], memory: &Arc<ServerMemory>) -> Entry {
        let memory = Mutex::new(Account::exact(memory));
        Entry {
            kind,
            context: context.clone(),
            text: text.into(),
            used: AtomicBool::new(false),
            variants: RwLock::default(),
            memory,
        }
    }
    /// CACHE-4.
    fn count(self: Arc<Self>) -> Result<Arc<Entry>> {
        let bytes = self.bytes();
        self.memory.lock().set(bytes)?;
        Ok(self)
    }
    fn bytes(&self) -> usize {
        size_of::<Entry>() + self.text.len() + self.variants.read().bytes()
    }
}

#[derive(Default, Debug)]
struct Shard {
    entries: HashTable<Arc<Entry>>,
    /// Of all entries.
    bytes: usize,
}

#[derive(Debug)]
pub struct PlanCache {
    shards: Box<[RwLock<Shard>]>,
    hasher: DefaultHashBuilder,
    max_entries_per_shard: usize,
    max_bytes_per_shard: usize,
    memory: Arc<ServerMemory>,
}

impl PlanCache {
    pub fn new(max_entries: usize, max_bytes: usize, memory: Arc<ServerMemory>) -> PlanCache {
        PlanCache {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            max_entries_per_shard: max_entries.div_ceil(SHARDS).max(8),
            max_bytes_per_shard: max_bytes / SHARDS,
            memory,
        }
    }

    fn hash(&self, kind: Kind, context: &PlanContext, text: &[u8]) -> u64 {
        self.hasher.hash_one((kind as u8, context, text))
    }

    fn find(&self, kind: Kind, context: &PlanContext, text: &[u8]) -> Option<Arc<Entry>> {
        let hash = self.hash(kind, context, text);
        let shard = self.shards[hash as usize % SHARDS].read();
        let entry = shard
            .entries
            .find(hash, |e| e.kind == kind && *e.text == *text && e.context == *context)?;
        if !entry.used.load(Relaxed) {
            entry.used.store(true, Relaxed);
        }
        Some(entry.clone())
    }

    /// Changes the plans of an entry, which is made if it is not there. `more`: the bytes that it
    /// may grow by.
    fn put(
        &self,
        kind: Kind,
        context: &PlanContext,
        text: &[u8],
        more: usize,
        change: impl FnOnce(&mut Variants),
    ) -> Arc<Entry> {
        let hash = self.hash(kind, context, text);
        let mut shard = self.shards[hash as usize % SHARDS].write();
        if shard.entries.len() >= self.max_entries_per_shard
            || shard.bytes + more > self.max_bytes_per_shard
        {
            shard.sweep(self.max_entries_per_shard, self.max_bytes_per_shard.saturating_sub(more));
        }
        let found = shard
            .entries
            .find(hash, |e| e.kind == kind && *e.text == *text && e.context == *context)
            .cloned();
        let entry = found.unwrap_or_else(|| {
            let entry = Arc::new(Entry::new(kind, context, text, &self.memory));
            shard.bytes += entry.bytes();
            shard
                .entries
                .insert_unique(hash, entry.clone(), |e| self.hash(e.kind, &e.context, &e.text));
            entry
        });
        let before = entry.bytes();
        change(&mut entry.variants.write());
        shard.bytes = shard.bytes - before + entry.bytes();
        entry
    }

    /// CACHE-3: what an entry may grow by; None: too much.
    fn room_for(&self, text: &[u8], variant: &Variant) -> Option<usize> {
        let more = size_of::<Entry>() + text.len() + variant.bytes;
        (more <= self.max_bytes_per_shard / MAX_PART).then_some(more)
    }

    /// The entry of a prepared statement; its plan may have to be made again ([`Entry::plan`]).
    pub fn prepared(&self, context: &PlanContext, text: &[u8]) -> Option<Arc<Entry>> {
        if text.len() > self.max_bytes_per_shard {
            return None;
        }
        self.find(Kind::Prepared, context, text)
    }
    pub fn insert_prepared(
        &self,
        context: &PlanContext,
        text: &[u8],
        plan: Arc<Plan>,
    ) -> Result<Arc<Entry>> {
        let variant = Variant::new(Vec::new(), plan);
        let entry = match self.room_for(text, &variant) {
            Some(more) => {
                self.put(Kind::Prepared, context, text, more, |v| v.plans = vec![variant])
            }
            None => {
                let entry = Entry::new(Kind::Prepared, context, text, &self.memory);
                entry.variants.write().plans.push(variant);
                Arc::new(entry)
            }
        };
        entry.count()
    }

    /// The plan of a text statement. `literal` gives the text of its literals by number.
    pub fn text<'l>(
        &self,
        context: &PlanContext,
        shape: &[u8],
        literal: impl Fn(u32) -> &'l [u8],
    ) -> Option<Arc<Plan>> {
        if shape.len() > MAX_SHAPE_BYTES {
            return None;
        }
        let entry = self.find(Kind::Text, context, shape)?;
        let variants = entry.variants.read();
        let same = |v: &&Variant| {
            variants.pinned.iter().zip(&v.literals).all(|(n, text)| *literal(*n) == **text)
        };
        variants.plans.iter().find(same).map(|v| v.plan.clone()).filter(|p| p.is_current())
    }

    /// `pinned` (ascending) are the literals that this plan depends on.
    pub fn insert_text<'l>(
        &self,
        context: &PlanContext,
        shape: &[u8],
        pinned: &[u32],
        literal: impl Fn(u32) -> &'l [u8],
        plan: Arc<Plan>,
    ) {
        if shape.len() > MAX_SHAPE_BYTES {
            return;
        }
        let texts = |numbers: &[u32]| numbers.iter().map(|n| literal(*n).into()).collect();
        let variant = Variant::new(texts(pinned), plan);
        let Some(more) = self.room_for(shape, &variant) else { return };
        self.put(Kind::Text, context, shape, more, |variants| {
            let mut all: Vec<u32> = variants.pinned.iter().chain(pinned).copied().collect();
            all.sort_unstable();
            all.dedup();
            if all != variants.pinned {
                // Plans made so far did not look at these literals, or looked at others: start
                // again.
                *variants = Variants { pinned: all, ..Variants::default() };
            }
            let variant = if variants.pinned == pinned {
                variant
            } else {
                Variant::new(texts(&variants.pinned), variant.plan)
            };
            if variant.bytes <= more {
                variants.put(variant);
            }
        });
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.read().entries.len()).sum()
    }
    /// What they take, with their plans.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|s| s.read().bytes).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shard {
    /// CACHE-2, CACHE-3: makes room for an eighth of the shard.
    fn sweep(&mut self, max_entries: usize, max_bytes: usize) {
        let Shard { entries, bytes } = self;
        entries.retain(|e| {
            let used = e.used.swap(false, Relaxed);
            if !used {
                *bytes -= e.bytes();
            }
            used
        });
        let mut count = entries.len();
        entries.retain(|e| {
            let stays =
                count <= max_entries - max_entries / 8 && *bytes <= max_bytes - max_bytes / 8;
            if !stays {
                count -= 1;
                *bytes -= e.bytes();
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Statement;

    fn plan() -> Arc<Plan> {
        Arc::new(Plan {
            body: Statement::Nothing,
            columns: Vec::new(),
            params: 0,
            param_types: Vec::new(),
            untyped: Box::default(),
            tables: Vec::new(),
            cacheable: true,
            hints: None,
        })
    }
    fn context(schema: &str) -> PlanContext {
        PlanContext {
            schema: Some(schema.into()),
            mode: SqlMode::default(),
            client: Charset::Utf8mb4,
            collation: Collation::Utf8mb4GeneralCi,
            div_precision_increment: 4,
        }
    }

    #[test]
    fn texts_are_found_in_their_context() {
        let cache = PlanCache::new(100, 1 << 20, ServerMemory::new());
        let made = plan();
        cache.insert_prepared(&context("a"), b"SELECT ?", made.clone()).unwrap();
        assert!(Arc::ptr_eq(
            &cache.prepared(&context("a"), b"SELECT ?").unwrap().plan().unwrap(),
            &made
        ));
        assert!(cache.prepared(&context("b"), b"SELECT ?").is_none());
        assert!(cache.text(&context("a"), b"SELECT ?", |_| b"").is_none());
    }

    #[test]
    fn pinned_literals_tell_plans_apart() {
        let cache = PlanCache::new(100, 1 << 20, ServerMemory::new());
        let cx = context("a");
        let (one, two) = (plan(), plan());
        let literal = |texts: [&'static [u8]; 2]| move |n: u32| texts[n as usize];
        cache.insert_text(&cx, b"shape", &[1], literal([b"x", b"1"]), one.clone());
        cache.insert_text(&cx, b"shape", &[1], literal([b"x", b"2"]), two.clone());
        let find = |texts| cache.text(&cx, b"shape", literal(texts));
        assert!(Arc::ptr_eq(&find([b"y", b"1"]).unwrap(), &one));
        assert!(Arc::ptr_eq(&find([b"z", b"2"]).unwrap(), &two));
        assert!(find([b"z", b"3"]).is_none());
        // A plan that depends on more makes the others doubtful.
        cache.insert_text(&cx, b"shape", &[0, 1], literal([b"q", b"1"]), two.clone());
        assert!(find([b"y", b"1"]).is_none());
        assert!(find([b"q", b"1"]).is_some());
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let cache = PlanCache::new(256, 64 << 20, ServerMemory::new());
        let cx = context("a");
        let kept = cache.insert_prepared(&cx, b"kept", plan()).unwrap();
        for n in 0..10_000 {
            cache.insert_prepared(&cx, format!("text {n}").as_bytes(), plan()).unwrap();
            cache.prepared(&cx, b"kept");
        }
        assert!(cache.len() <= 256 + SHARDS);
        assert!(kept.plan().is_some());
        // What is used stays.
        assert!(cache.prepared(&cx, b"kept").is_some());
    }

    /// A plan of about so many bytes.
    fn large(bytes: usize) -> Arc<Plan> {
        let row = vec![redolith_types::Value::owned(vec![b'x'; bytes])];
        Arc::new(Plan { body: Statement::Rows(vec![row]), ..Arc::into_inner(plan()).unwrap() })
    }

    #[test]
    fn the_bytes_of_all_entries_are_bounded() {
        // 64 KiB a shard.
        let cache = PlanCache::new(100_000, SHARDS << 16, ServerMemory::new());
        let cx = context("a");
        let kept = cache.insert_prepared(&cx, b"kept", large(1000)).unwrap();
        let mut fullest = 0;
        for n in 0..10_000 {
            let text = format!("text {n}");
            cache.insert_text(&cx, text.as_bytes(), &[0], |_| b"literal", large(n % 10_000));
            cache.insert_prepared(&cx, text.as_bytes(), large(n % 10_000)).unwrap();
            cache.prepared(&cx, b"kept");
            assert!(cache.bytes() <= SHARDS << 16);
            fullest = cache.shards.iter().map(|s| s.read().bytes).fold(fullest, usize::max);
        }
        // A shard is swept only when what comes does not fit.
        assert!(fullest > (1 << 16) - (11 << 10), "{fullest}");
        assert!(Arc::ptr_eq(&kept, &cache.prepared(&cx, b"kept").unwrap()));
        // What is swept away is subtracted.
        let sum =
            |shard: &RwLock<Shard>| shard.read().entries.iter().map(|e| e.bytes()).sum::<usize>();
        assert_eq!(cache.shards.iter().map(sum).sum::<usize>(), cache.bytes());
    }

    #[test]
    fn a_plan_that_comes_again_is_weighed_once() {
        let cache = PlanCache::new(100, 1 << 20, ServerMemory::new());
        let cx = context("a");
        let put = || {
            cache.insert_prepared(&cx, b"SELECT ?", large(1000)).unwrap();
            cache.insert_text(&cx, b"SELECT ?", &[], |_| b"", large(1000));
        };
        put();
        let once = cache.bytes();
        (0..100).for_each(|_| put());
        assert_eq!((cache.bytes(), cache.len()), (once, 2));
    }

    #[test]
    fn what_is_large_is_not_kept() {
        let cache = PlanCache::new(100, SHARDS << 20, ServerMemory::new());
        let cx = context("a");
        let entry = cache.insert_prepared(&cx, b"SELECT ?", large(1 << 20)).unwrap();
        assert!(entry.plan().is_some() && entry.text() == b"SELECT ?");
        cache.insert_text(&cx, b"SELECT x", &[], |_| b"", large(1 << 20));
        cache.insert_text(&cx, &vec![b' '; MAX_SHAPE_BYTES + 1], &[], |_| b"", plan());
        cache.insert_text(&cx, b"SELECT pinned", &[0], |_| [b' '; 1 << 20].as_slice(), plan());
        assert_eq!((cache.len(), cache.bytes()), (0, 0));
        cache.insert_text(&cx, &vec![b' '; MAX_SHAPE_BYTES], &[], |_| b"", plan());
        assert_eq!(cache.len(), 1);
    }
}
