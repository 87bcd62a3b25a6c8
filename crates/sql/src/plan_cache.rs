//! The cache of plans by text, which all connections share.
//!
//! A prepared statement is found by its text. A text statement is found by its *shape* (see
//! [`parameterize`](crate::parse::parameterize)) and by the text of its pinned literals, on which
//! the plan depends. The meaning of a text also depends on its [`PlanContext`].
//!
//! **CACHE-1** The cache never returns a plan that is not current (PLAN-2, PLAN-3). The session
//! that needs the plan makes a new plan and replaces the old plan in the cache.
//! **CACHE-2** The number of entries is bounded; a sweep first removes the entries that were not
//! used since the last sweep. A prepared statement keeps its entry alive after the removal.
//! **CACHE-3** The bytes of the entries are bounded too, in each shard. A plan that would take a
//! large part of a shard is not kept: a text statement is bound again, and the entry of a prepared
//! statement lives in its handle alone. Long shapes are not kept either, since they hardly ever
//! come again: rows of a dump that differ, IN lists of ever new lengths.
//! **CACHE-4** Prepared statements live as long as clients want, so the server's account holds each
//! of them with its text and plan ([`crate::memory`]).
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
/// The most plans of one shape, which differ by the pinned literals.
const MAX_VARIANTS: usize = 16;
/// The greatest length of a text statement's shape in the cache, in bytes.
const MAX_SHAPE_BYTES: usize = 16 << 10;
/// A plan may take one part in `MAX_PART` of a shard.
const MAX_PART: usize = 4;

/// The settings on which the meaning of a text depends.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PlanContext {
    pub schema: Option<Arc<str>>,
    /// [`SqlMode::parsing_part`]
    pub mode: SqlMode,
    /// `@@character_set_client`: the character set of the text.
    pub client: Charset,
    /// `@@collation_connection`: the collation of the string literals.
    pub collation: Collation,
    /// `@@default_collation_for_utf8mb4`
    pub utf8mb4: Collation,
    pub div_precision_increment: u8,
    pub group_concat_max_len: usize,
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
    /// The text of a prepared statement, or the shape of a text statement.
    text: Box<[u8]>,
    used: AtomicBool,
    variants: RwLock<Variants>,
    /// For a prepared statement: the entry's memory, which the server's account includes.
    memory: Mutex<Account>,
}

#[derive(Default, Debug)]
struct Variants {
    /// The literals on which plans of this shape depend.
    pinned: Vec<u32>,
    plans: Vec<Variant>,
    /// The plan to replace next.
    hand: usize,
}

#[derive(Debug)]
struct Variant {
    /// The texts of the pinned literals.
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
    /// The plan of a prepared statement, if it still serves (PLAN-3).
    pub fn plan(&self) -> Option<Arc<Plan>> {
        self.variants.read().plans.first().map(|v| v.plan.clone()).filter(|p| p.serves())
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
    /// Charges the entry to the server's memory (CACHE-4).
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
    /// The bytes of all entries.
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

    /// Changes the plans of an entry, and makes the entry if it does not exist. `more`: the most
    /// bytes that the change may add.
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

    /// CACHE-3: the most bytes that the entry may grow by; None if it would be too large to keep.
    fn room_for(&self, text: &[u8], variant: &Variant) -> Option<usize> {
        let more = size_of::<Entry>() + text.len() + variant.bytes;
        (more <= self.max_bytes_per_shard / MAX_PART).then_some(more)
    }

    /// The entry of a prepared statement. Its plan may be out of date ([`Entry::plan`]).
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
        // TEMPTABLE-5: other sessions would not find the tables.
        let room = self.room_for(text, &variant).filter(|_| !variant.plan.is_private());
        let entry = match room {
            Some(more) => {
                self.put(Kind::Prepared, context, text, more, |v| v.plans = vec![variant])
            }
            None => self.apart(context, text, variant),
        };
        entry.count()
    }
    /// An entry of a session's own, which no other session finds.
    pub fn own_prepared(
        &self,
        context: &PlanContext,
        text: &[u8],
        plan: Arc<Plan>,
    ) -> Result<Arc<Entry>> {
        self.apart(context, text, Variant::new(Vec::new(), plan)).count()
    }
    fn apart(&self, context: &PlanContext, text: &[u8], variant: Variant) -> Arc<Entry> {
        let entry = Entry::new(Kind::Prepared, context, text, &self.memory);
        entry.variants.write().plans.push(variant);
        Arc::new(entry)
    }

    /// The current plan of a text statement. `literal` returns the text of a literal by number.
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
        variants.plans.iter().find(same).map(|v| v.plan.clone()).filter(|p| p.serves())
    }

    /// `pinned` has the numbers of the literals that this plan depends on, in ascending order.
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
                // Earlier plans did not look at these literals, or looked at others: begin again
                // without them.
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

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.read().entries.len()).sum()
    }
    /// The bytes of all entries, with their plans.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|s| s.read().bytes).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shard {
    /// CACHE-2, CACHE-3: removes entries until an eighth of the shard is free.
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
            size: Default::default(),
            body: Statement::Nothing,
            columns: Vec::new(),
            params: 0,
            param_types: Vec::new(),
            untyped: Box::default(),
            constants: Box::default(),
            tables: Vec::new(),
            views: Vec::new(),
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
            utf8mb4: Collation::Utf8mb4GeneralCi,
            div_precision_increment: 4,
            group_concat_max_len: 1024,
        }
    }

    /// Tests PLAN-1.
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
        // A plan that depends on more literals makes the earlier plans useless.
        cache.insert_text(&cx, b"shape", &[0, 1], literal([b"q", b"1"]), two.clone());
        assert!(find([b"y", b"1"]).is_none());
        assert!(find([b"q", b"1"]).is_some());
    }

    /// Tests CACHE-2.
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
        // An entry in use stays.
        assert!(cache.prepared(&cx, b"kept").is_some());
    }

    /// A plan of about `bytes` bytes.
    fn large(bytes: usize) -> Arc<Plan> {
        let row = vec![redolith_types::Value::owned(vec![b'x'; bytes])];
        Arc::new(Plan { body: Statement::Rows(vec![row]), ..Arc::into_inner(plan()).unwrap() })
    }

    /// Tests CACHE-3.
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
        // A shard is swept only if the new entry does not fit.
        assert!(fullest > (1 << 16) - (11 << 10), "{fullest}");
        assert!(Arc::ptr_eq(&kept, &cache.prepared(&cx, b"kept").unwrap()));
        // The bytes of swept entries are subtracted.
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
