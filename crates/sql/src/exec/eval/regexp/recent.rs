//! The patterns that a statement has compiled last.
use super::{Compiled, MatchType};
use redolith_types::Collation;

/// How many patterns a statement keeps. The automata of each may take some MiB.
const MOST: usize = 4;

/// A few compiled patterns, the last used one last: each row of a statement with several REGEXPs
/// uses them by turns.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "each row takes a pattern out and puts it in again")]
pub struct RecentPatterns(Vec<Box<Compiled>>);

impl RecentPatterns {
    /// Takes the pattern out, if it is here.
    pub fn take(
        &mut self,
        pattern: &[u8],
        collation: Collation,
        how: MatchType,
    ) -> Option<Box<Compiled>> {
        let place = self.0.iter().rposition(|kept| kept.is_for(pattern, collation, how))?;
        Some(self.0.remove(place))
    }
    /// Puts a pattern in, in the place of the one that was used the longest time ago.
    pub fn keep(&mut self, compiled: Box<Compiled>) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(compiled);
    }
}
