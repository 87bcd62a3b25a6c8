//! Searches the order of units with the least cost: all orders of up to [`EXACT`] units, by dynamic
//! programming over sets of units, and beyond that greedily from each of the cheapest beginnings.
use super::estimate::Visit;
use super::{Set, Unit};

/// The most units of which all orders are compared.
const EXACT: usize = 8;
/// The greatest cost and number of rows: products beyond it would be infinite.
const MOST: f64 = 1e150;
/// The number of beginnings from which the greedy search goes on.
const BEGINNINGS: usize = 8;

/// The cost of joining a set of units, and the number of rows of the join.
#[derive(Clone, Copy)]
struct Joined {
    cost: f64,
    rows: f64,
    /// The unit that comes last.
    last: usize,
}

pub(super) struct Search<'u, F> {
    units: &'u [Unit],
    visit: F,
}

impl<'u, F: Fn(&Unit, Set) -> Visit> Search<'u, F> {
    /// `visit` estimates what a unit costs for one row of a set of sources.
    pub fn new(units: &'u [Unit], visit: F) -> Search<'u, F> {
        Search { units, visit }
    }

    /// The cost and the rows of one order.
    pub fn cost(&self, order: &[usize]) -> (f64, f64) {
        let (mut joined, mut placed) = (NOTHING, 0);
        for &unit in order {
            joined = self.add(joined, placed, unit);
            placed |= 1 << unit;
        }
        (joined.cost, joined.rows)
    }

    /// The cheapest order that begins with `first`. None if no order does.
    pub fn best(&self, first: Option<usize>) -> Option<Vec<usize>> {
        if self.units.len() <= EXACT { self.exact(first) } else { self.greedy(first) }
    }

    fn may_follow(&self, placed: Set, unit: usize) -> bool {
        placed & 1 << unit == 0 && self.units[unit].after & !placed == 0
    }
    fn may_begin(&self, unit: usize, first: Option<usize>) -> bool {
        self.may_follow(0, unit)
            && !self.units[unit].is_nest
            && first.is_none_or(|first| first == unit)
    }

    /// Joins a unit to the units `placed`.
    fn add(&self, before: Joined, placed: Set, unit: usize) -> Joined {
        let of_unit = |n: usize| self.units[n].sources().fold(0, |set, s| set | 1 << s);
        let sources = (0..self.units.len()).filter(|n| placed & 1 << n != 0).map(of_unit);
        let visit = (self.visit)(&self.units[unit], sources.fold(0, |all, set: Set| all | set));
        // A join that is estimated to have no row may have one.
        let times = before.rows.max(1.0);
        Joined {
            cost: (before.cost + visit.cost_of(times)).min(MOST),
            rows: (before.rows * visit.rows).min(MOST),
            last: unit,
        }
    }

    fn exact(&self, first: Option<usize>) -> Option<Vec<usize>> {
        let count = self.units.len();
        let mut best: Vec<Option<Joined>> = vec![None; 1 << count];
        best[0] = Some(NOTHING);
        for placed in 0..(1 << count) - 1 {
            let Some(before) = best[placed as usize] else { continue };
            for unit in 0..count {
                let may = match placed {
                    0 => self.may_begin(unit, first),
                    _ => self.may_follow(placed, unit),
                };
                if !may {
                    continue;
                }
                let joined = self.add(before, placed, unit);
                let known = &mut best[(placed | 1 << unit) as usize];
                if known.is_none_or(|known| joined.cost < known.cost) {
                    *known = Some(joined);
                }
            }
        }
        let (mut order, mut set): (Vec<usize>, usize) =
            (Vec::with_capacity(count), (1 << count) - 1);
        while set != 0 {
            let last = best[set]?.last;
            order.push(last);
            set &= !(1 << last);
        }
        order.reverse();
        Some(order)
    }

    fn greedy(&self, first: Option<usize>) -> Option<Vec<usize>> {
        let count = self.units.len();
        let mut beginnings: Vec<Joined> = (0..count)
            .filter(|&unit| self.may_begin(unit, first))
            .map(|unit| self.add(NOTHING, 0, unit))
            .collect();
        beginnings.sort_by(|a, b| (a.cost + a.rows).total_cmp(&(b.cost + b.rows)));
        let from = |begun: &Joined| {
            let (mut order, mut joined, mut placed) = (vec![begun.last], *begun, 1 << begun.last);
            while order.len() < count {
                // What the rows cost later is unknown, but each of them is read at least once.
                let all = |joined: &Joined| joined.cost + joined.rows;
                joined = (0..count)
                    .filter(|&unit| self.may_follow(placed, unit))
                    .map(|unit| self.add(joined, placed, unit))
                    .reduce(|a, b| if all(&b) < all(&a) { b } else { a })?;
                order.push(joined.last);
                placed |= 1 << joined.last;
            }
            Some((joined.cost, order))
        };
        let orders = beginnings.iter().take(BEGINNINGS).filter_map(from);
        orders.reduce(|a, b| if b.0 < a.0 { b } else { a }).map(|(_, order)| order)
    }
}

const NOTHING: Joined = Joined { cost: 0.0, rows: 1.0, last: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    fn units(after: &[Set]) -> Vec<Unit> {
        let unit =
            |(first, after): (usize, &Set)| Unit { first, count: 1, is_nest: false, after: *after };
        after.iter().enumerate().map(unit).collect()
    }
    /// Unit n has 10^(count - n) rows, of which an index finds one when another unit is placed.
    fn falling(count: usize) -> impl Fn(&Unit, Set) -> Visit {
        move |unit: &Unit, placed| {
            let rows = 10f64.powi((count - unit.first) as i32);
            match placed {
                0 => Visit { cost: rows, rows, hashed: None },
                _ => Visit { cost: 3.0, rows: 1.0, hashed: None },
            }
        }
    }

    /// Tests that both searches begin with the smallest table, and JOIN-2.
    #[test]
    fn the_smallest_unit_comes_first_unless_another_must_come_before_it() {
        for count in [4, 12] {
            let free = units(&vec![0; count]);
            let order = Search::new(&free, falling(count)).best(None).unwrap();
            assert_eq!(order[0], count - 1);
            let mut after = vec![0; count];
            after[count - 1] = 1 << (count - 2);
            let bound = units(&after);
            let order = Search::new(&bound, falling(count)).best(None).unwrap();
            assert_eq!(order[..2], [count - 2, 0], "{order:?}");
            let order = Search::new(&bound, falling(count)).best(Some(1)).unwrap();
            let place = |unit| order.iter().position(|n| *n == unit);
            assert!(order[0] == 1 && place(count - 2) < place(count - 1), "{order:?}");
            assert_eq!(Search::new(&bound, falling(count)).best(Some(count - 1)), None);
        }
    }
}
