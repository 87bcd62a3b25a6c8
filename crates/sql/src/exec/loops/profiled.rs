//! What EXPLAIN ANALYZE measures of the loops over the sources of a SELECT.
use super::{Hash, Level, Loops, Nest, Rows, Step};
use crate::error::Result;
use crate::exec::correlated::answered;
use crate::exec::eval::Scope;
use crate::exec::scan::check_killed;
use crate::exec::{Env, ExecContext};
use crate::explain::{Op, Role};
use crate::plan::{SelectPlan, Source};

/// The operators of the sources and nests of a SELECT.
pub struct ProfiledLoops {
    sources: Vec<SourceOps>,
    /// By nest.
    nests: Vec<NestOps>,
    /// The loops have not begun.
    pub is_new: bool,
    /// The operator that has worked before the rows of a source were made.
    before: Option<Op>,
}
struct NestOps {
    join: Op,
    after: Op,
}
struct SourceOps {
    scan: Op,
    level: Op,
    join: Op,
    built: Op,
    made: Op,
    /// The operators whose loop begins with that of the source: it is the first of those that they
    /// join.
    begin: Vec<Op>,
}

impl ProfiledLoops {
    /// None unless the statement is measured.
    pub fn of(plan: &SelectPlan, env: &mut Env<'_>) -> Option<Box<ProfiledLoops>> {
        let profile = env.profile.as_deref_mut()?;
        let nests = plan.nests.iter().map(|nest| NestOps {
            join: profile.op(Role::Nest, nest),
            after: profile.op(Role::After, nest),
        });
        let nests: Vec<NestOps> = nests.collect();
        let mut sources: Vec<SourceOps> = Vec::with_capacity(plan.sources.len());
        for source in &plan.sources {
            let op = |profile: &mut crate::explain::Profile, role| profile.op(role, source);
            let (scan, level) = (op(profile, Role::Scan), op(profile, Role::Level));
            let (join, made) = (op(profile, Role::Join), op(profile, Role::Made));
            let built = op(profile, Role::Built);
            sources.push(SourceOps {
                scan,
                level,
                join,
                built,
                made,
                begin: vec![scan, level, made],
            });
        }
        // The first source of the nest around, or of all.
        let first = |nest: Option<u16>| nest.map_or(0, |n| plan.nests[n as usize].first as usize);
        for (n, source) in plan.sources.iter().enumerate() {
            let join = sources[n].join;
            sources[first(source.nest)].begin.push(join);
        }
        for (nest, ops) in plan.nests.iter().zip(&nests) {
            sources[first(nest.parent)].begin.extend([ops.join, ops.after]);
        }
        Some(Box::new(ProfiledLoops { sources, nests, is_new: true, before: None }))
    }

    /// The rows of a source, if it is no table, are made from now on, until [`Self::made`].
    pub fn makes(&mut self, source: &Source, env: &mut Env<'_>) {
        if let Some((profile, now)) = env.profile() {
            let op = profile.op(Role::Made, source);
            self.before = profile.turn_to(Some(op), now);
        }
    }
    pub fn made(&self, env: &mut Env<'_>) {
        env.goes_on(self.before);
    }

    /// The loops work. Returns the operator that waits for them.
    pub fn enter(&self, env: &mut Env<'_>) -> Option<Op> {
        let (profile, now) = env.profile()?;
        profile.turn_to(self.sources.first().map(|ops| ops.scan), now)
    }
    /// The source number `depth` works: its scan, or the join by its hash table.
    pub fn works(&self, depth: usize, is_built: bool, env: &mut Env<'_>) {
        if let Some((profile, now)) = env.profile() {
            let ops = &self.sources[depth];
            profile.turn_to(Some(if is_built { ops.join } else { ops.scan }), now);
        }
    }
    /// The loop over a source begins. A hash table reads the source's rows once.
    pub fn begin(&self, depth: usize, is_hashed: bool, env: &mut Env<'_>) {
        if let Some((profile, now)) = env.profile() {
            let ops = &self.sources[depth];
            let begun = ops.begin.iter().filter(|op| !is_hashed || **op != ops.scan);
            begun.for_each(|op| profile.begin(*op, now));
        }
    }
    /// The source has read rows.
    pub fn has_read(&self, depth: usize, rows: u64, env: &mut Env<'_>) {
        if let Some((profile, now)) = env.profile() {
            profile.rows(self.sources[depth].scan, rows, now);
            profile.rows(self.sources[depth].made, rows, now);
        }
    }
    /// A row of the source has passed the conditions on it.
    pub fn has_row(&self, depth: usize, env: &mut Env<'_>) {
        if let Some((profile, now)) = env.profile() {
            profile.rows(self.sources[depth].level, 1, now);
            profile.rows(self.sources[depth].join, 1, now);
        }
    }
    /// The nest has a row, be it that of NULLs.
    pub fn nest_has_row(&self, nest: u16, env: &mut Env<'_>) {
        if let Some((profile, now)) = env.profile() {
            profile.rows(self.nests[nest as usize].join, 1, now);
        }
    }
    /// That row passes the conditions after the nest.
    pub fn nest_passes(&self, nest: u16, env: &mut Env<'_>) {
        if let Some((profile, now)) = env.profile() {
            profile.rows(self.nests[nest as usize].after, 1, now);
        }
    }
    /// The hash table of a source is made from now on.
    pub fn builds(&self, depth: usize, env: &mut Env<'_>) {
        if let Some((profile, now)) = env.profile() {
            let ops = &self.sources[depth];
            profile.begin(ops.scan, now);
            profile.begin(ops.built, now);
        }
    }
    /// The hash table of a source was made of `built` of the `read` rows of its scan.
    pub fn has_built(&self, depth: usize, read: u64, built: u64, env: &mut Env<'_>) {
        if let Some((profile, now)) = env.profile() {
            let ops = &self.sources[depth];
            profile.rows(ops.scan, read, now);
            profile.rows(ops.built, built, now);
            profile.turn_to(Some(ops.join), now);
        }
    }
}

impl Env<'_> {
    /// An operator works again after those that it has called.
    pub(super) fn goes_on(&mut self, op: Option<Op>) {
        if let Some((profile, now)) = self.profile() {
            profile.turn_to(op, now);
        }
    }
    /// The rows of a source are found by an index in the place of a hash table.
    pub(super) fn takes_index(&mut self, source: &Source) {
        if let Some((profile, now)) = self.profile() {
            let op = profile.op(Role::ByIndex, source);
            profile.begin(op, now);
        }
    }
}

impl Loops<'_> {
    /// [`Self::next`] for EXPLAIN ANALYZE.
    pub(super) async fn next_profiled(
        &mut self,
        cx: &mut ExecContext<'_>,
        at: Scope<'_>,
    ) -> Result<bool> {
        let Some(profiled) = &mut self.profiled else { return Ok(false) };
        let around = profiled.enter(&mut cx.env);
        if std::mem::take(&mut profiled.is_new) {
            self.start(0, at, cx)?;
        }
        loop {
            let depth = self.depth;
            let step = match self.levels[depth].nulls {
                Some(nest) => Some(Step::Exhausted(self.nests[nest as usize].first as usize)),
                None => {
                    cx.env.step()?;
                    check_killed(&cx.env)?;
                    self.read_profiled(at, cx).await?;
                    answered!(cx, at, self.judge(at, cx))
                }
            };
            if let (Some(profiled), Some(Step::Found(_)), Level { source, nulls: None, .. }) =
                (&self.profiled, &step, &self.levels[depth])
                && source.nest.is_none()
            {
                profiled.has_row(depth, &mut cx.env);
            }
            if let Some(step) = step
                && let Some(found) = self.move_on(step, at, cx)?
            {
                cx.env.goes_on(around);
                return Ok(found);
            }
        }
    }
    /// Reads the next row of the present source, whether that needs a future or not.
    async fn read_profiled(&mut self, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<()> {
        let (depth, read) = (self.depth, cx.trx.rows.read);
        if let Some(profiled) = &self.profiled {
            let is_made = matches!(&self.levels[depth].hash, Hash::Yes(hash) if hash.is_made());
            profiled.works(depth, is_made, &mut cx.env);
        }
        if self.levels[depth].has_to_be_made() {
            if let (Some(profiled), Hash::Yes(_)) = (&self.profiled, &self.levels[depth].hash) {
                profiled.builds(depth, &mut cx.env);
            }
            Box::pin(self.make(depth, at, cx)).await?;
            let level = &self.levels[depth];
            if let (Some(profiled), Hash::Yes(hash)) = (&self.profiled, &level.hash) {
                let rows = match &level.rows {
                    Rows::Scan(_) => cx.trx.rows.read - read,
                    _ => hash.rows(),
                };
                profiled.has_built(depth, rows, hash.rows(), &mut cx.env);
            }
        }
        self.more = match self.levels[depth].advance_at_hand(cx)? {
            Some(more) => more,
            None => self.advance(at, cx).await?.unwrap_or(false),
        };
        let level = &self.levels[depth];
        let rows = match (&level.rows, &level.hash) {
            (_, Hash::Yes(_)) => 0,
            (Rows::Scan(_), _) => cx.trx.rows.read - read,
            _ => u64::from(self.more),
        };
        if let Some(profiled) = &self.profiled {
            profiled.has_read(depth, rows, &mut cx.env);
        }
        Ok(())
    }
    /// Counts a combination of rows that was judged. It has passed the conditions behind the outer
    /// joins from `first` to the one before `end`. A judgement that waits for a subquery is made
    /// once more, so nothing is counted before it has ended.
    #[cold]
    pub(super) fn count_judged(
        &self,
        profiled: &ProfiledLoops,
        first: Option<u16>,
        end: Option<u16>,
        depth: usize,
        env: &mut Env<'_>,
    ) {
        if self.levels[depth].nulls.is_none() {
            profiled.has_row(depth, env);
        }
        let mut nest = first;
        while let Some(n) = nest {
            let Nest { last, parent, .. } = &self.nests[n as usize];
            if *last as usize != depth {
                break;
            }
            profiled.nest_has_row(n, env);
            if nest == end {
                break;
            }
            profiled.nest_passes(n, env);
            nest = *parent;
        }
    }
}
