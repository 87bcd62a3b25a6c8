//! Plans by text, for all connections.
//!
//! Prepared statements are found by their text; text statements by their *shape* (see [`lift`](crate::parse::lift)) and, where plans depend on them, the
//! text of pinned literals. What a text means also depends on its [`PlanContext`].
//!
//! **CACHE-1** A plan that is not current (PLAN-2) is not given out; whoever meets it makes a new one and puts it in its place.
//! **CACHE-2** The number of entries is bounded; those not used since the last sweep go first. An entry that a prepared statement holds lives on with it.
use crate::plan::Plan;
use crate::sql_mode::SqlMode;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;
use redolith_types::Collation;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const SHARDS: usize = 32;
/// Plans of one shape that differ by pinned literals.
const MAX_VARIANTS: usize = 16;

/// What the meaning of a text depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PlanContext {
    pub schema: Option<Arc<str>>,
    /// [`SqlMode::parsing_part`]
    pub mode: SqlMode,
    pub collation: Collation,
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
}

#[derive(Default, Debug)]
struct Variants {
    /// Literals that plans of this shape depend on.
    pinned: Vec<u32>,
    plans: Vec<(Vec<Box<[u8]>>, Arc<Plan>)>,
    /// The next to be replaced.
    hand: usize,
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
        self.variants.read().plans.first().map(|(_, p)| p.clone()).filter(|p| p.is_current())
    }
    fn set_plan(&self, plan: Arc<Plan>) {
        self.variants.write().plans = vec![(Vec::new(), plan)];
    }
}

#[derive(Debug)]
pub struct PlanCache {
    shards: Box<[RwLock<HashTable<Arc<Entry>>>]>,
    hasher: DefaultHashBuilder,
    max_entries_per_shard: usize,
}

impl PlanCache {
    pub fn new(max_entries: usize) -> PlanCache {
        PlanCache {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            max_entries_per_shard: max_entries.div_ceil(SHARDS).max(8),
        }
    }

    fn hash(&self, kind: Kind, context: &PlanContext, text: &[u8]) -> u64 {
        self.hasher.hash_one((kind as u8, context, text))
    }

    fn find(&self, kind: Kind, context: &PlanContext, text: &[u8]) -> Option<Arc<Entry>> {
        let hash = self.hash(kind, context, text);
        let shard = self.shards[hash as usize % SHARDS].read();
        let entry = shard.find(hash, |e| e.kind == kind && *e.text == *text && e.context == *context)?;
        if !entry.used.load(Relaxed) {
            entry.used.store(true, Relaxed);
        }
        Some(entry.clone())
    }

    fn find_or_insert(&self, kind: Kind, context: &PlanContext, text: &[u8]) -> Arc<Entry> {
        let hash = self.hash(kind, context, text);
        let mut shard = self.shards[hash as usize % SHARDS].write();
        if let Some(entry) = shard.find(hash, |e| e.kind == kind && *e.text == *text && e.context == *context) {
            return entry.clone();
        }
        if shard.len() >= self.max_entries_per_shard {
            sweep(&mut shard, self.max_entries_per_shard);
        }
        let entry = Arc::new(Entry {
            kind,
            context: context.clone(),
            text: text.into(),
            used: AtomicBool::new(false),
            variants: RwLock::default(),
        });
        shard.insert_unique(hash, entry.clone(), |e| self.hash(e.kind, &e.context, &e.text));
        entry
    }

    /// The entry of a prepared statement; its plan may have to be made again ([`Entry::plan`]).
    pub fn prepared(&self, context: &PlanContext, text: &[u8]) -> Option<Arc<Entry>> {
        self.find(Kind::Prepared, context, text)
    }
    pub fn insert_prepared(&self, context: &PlanContext, text: &[u8], plan: Arc<Plan>) -> Arc<Entry> {
        let entry = self.find_or_insert(Kind::Prepared, context, text);
        entry.set_plan(plan);
        entry
    }

    /// The plan of a text statement. `literal` gives the text of its literals by number.
    pub fn text<'l>(&self, context: &PlanContext, shape: &[u8], literal: impl Fn(u32) -> &'l [u8]) -> Option<Arc<Plan>> {
        let entry = self.find(Kind::Text, context, shape)?;
        let variants = entry.variants.read();
        let same = |texts: &[Box<[u8]>]| variants.pinned.iter().zip(texts).all(|(n, text)| *literal(*n) == **text);
        variants.plans.iter().find(|(texts, _)| same(texts)).map(|(_, plan)| plan.clone()).filter(|p| p.is_current())
    }

    /// `pinned` (ascending) are the literals that this plan depends on.
    pub fn insert_text<'l>(&self, context: &PlanContext, shape: &[u8], pinned: &[u32], literal: impl Fn(u32) -> &'l [u8], plan: Arc<Plan>) {
        let entry = self.find_or_insert(Kind::Text, context, shape);
        let mut variants = entry.variants.write();
        let all: Vec<u32> = {
            let mut all: Vec<u32> = variants.pinned.iter().chain(pinned).copied().collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        if all != variants.pinned {
            // Plans made so far did not look at these literals, or looked at others: start again.
            *variants = Variants { pinned: all, ..Variants::default() };
        }
        let texts: Vec<Box<[u8]>> = variants.pinned.iter().map(|n| literal(*n).into()).collect();
        if let Some(same) = variants.plans.iter_mut().find(|(t, _)| *t == texts) {
            same.1 = plan;
        } else if variants.plans.len() < MAX_VARIANTS {
            variants.plans.push((texts, plan));
        } else {
            let hand = variants.hand % MAX_VARIANTS;
            variants.hand = hand + 1;
            variants.plans[hand] = (texts, plan);
        }
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.read().len()).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// CACHE-2: makes room for an eighth of the shard.
fn sweep(shard: &mut HashTable<Arc<Entry>>, max: usize) {
    shard.retain(|e| e.used.swap(false, Relaxed));
    let mut too_many = (shard.len() + max / 8).saturating_sub(max);
    shard.retain(|_| {
        let goes = too_many > 0;
        too_many -= goes as usize;
        !goes
    });
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
            tables: Vec::new(),
            cacheable: true,
        })
    }
    fn context(schema: &str) -> PlanContext {
        PlanContext { schema: Some(schema.into()), mode: SqlMode::default(), collation: Collation::Utf8mb4GeneralCi }
    }

    #[test]
    fn texts_are_found_in_their_context() {
        let cache = PlanCache::new(100);
        let made = plan();
        cache.insert_prepared(&context("a"), b"SELECT ?", made.clone());
        assert!(Arc::ptr_eq(&cache.prepared(&context("a"), b"SELECT ?").unwrap().plan().unwrap(), &made));
        assert!(cache.prepared(&context("b"), b"SELECT ?").is_none());
        assert!(cache.text(&context("a"), b"SELECT ?", |_| b"").is_none());
    }

    #[test]
    fn pinned_literals_tell_plans_apart() {
        let cache = PlanCache::new(100);
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
        let cache = PlanCache::new(256);
        let cx = context("a");
        let kept = cache.insert_prepared(&cx, b"kept", plan());
        for n in 0..10_000 {
            cache.insert_prepared(&cx, format!("text {n}").as_bytes(), plan());
            cache.prepared(&cx, b"kept");
        }
        assert!(cache.len() <= 256 + SHARDS);
        assert!(kept.plan().is_some());
        // What is used stays.
        assert!(cache.prepared(&cx, b"kept").is_some());
    }
}
